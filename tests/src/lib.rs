//! Tests of Luge across crates: device against reference, end to end, regressions.
//!
//! A test that uses a device runs on every device that [`devices`] answers. Which these are is the
//! caller's choice, by the environment variable `LUGE_TEST_BACKEND`:
//!
//! | value | devices |
//! |---|---|
//! | unset, `simulator` | the simulator, once for each seed of [`SEEDS`] |
//! | `cuda` | the first GPU; a test that cannot open it fails |
//!
//! `cargo xtask gpu-test` sets it, and counts the tests that really ran on the GPU by the lines
//! they leave in the file `LUGE_TEST_DEVICE_LOG`.
//!
//! The program `luge-corpus` lists the corpus, [fetches](fetch) more of it, and [verifies](verify) that all of it is solved,
//! or refused for the reason that holds.

pub mod fetch;
pub mod verify;

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::OnceLock;

use luge_device::{Backend, Device, SimulatorOptions};

/// The seeds, and so the schedules, that device tests run with on the simulator.
pub const SEEDS: [u64; 3] = [1, 20_261_121, 0x9e37_79b9_7f4a_7c15];

/// The devices to run a test on; see the crate's documentation.
///
/// # Panics
///
/// If the GPU was asked for and cannot be opened, or `LUGE_TEST_BACKEND` names no backend.
pub fn devices() -> Vec<Device> {
    let backend = backend();
    log_test(backend);
    match backend {
        Backend::Simulator => SEEDS
            .iter()
            .map(|&seed| Device::simulator(SimulatorOptions::with_seed(seed)))
            .collect(),
        Backend::Cuda => vec![gpu().clone()],
    }
}

/// As many devices of one host as asked for: simulators, or GPUs, of which those that there are may be opened several times.
///
/// # Panics
///
/// As [`devices`].
pub fn group(count: usize) -> Vec<Device> {
    let backend = backend();
    log_test(backend);
    let open = |number: usize| match backend {
        Backend::Simulator => {
            Device::simulator(SimulatorOptions::with_seed(SEEDS[number % SEEDS.len()]))
        }
        Backend::Cuda => {
            let opened = Device::cuda_count().and_then(|count| Device::cuda(number % count));
            opened.unwrap_or_else(|error| {
                panic!("the GPU that LUGE_TEST_BACKEND=cuda asks for: {error}")
            })
        }
    };
    (0..count).map(open).collect()
}

/// The backend that [`devices`] answers devices of.
///
/// # Panics
///
/// If `LUGE_TEST_BACKEND` names no backend.
pub fn backend() -> Backend {
    let asked = std::env::var("LUGE_TEST_BACKEND").ok();
    match parse_backend(asked.as_deref()) {
        Some(backend) => backend,
        None => panic!("LUGE_TEST_BACKEND is `cuda` or `simulator`, not {asked:?}"),
    }
}

fn parse_backend(asked: Option<&str>) -> Option<Backend> {
    match asked {
        None | Some("simulator") => Some(Backend::Simulator),
        Some("cuda") => Some(Backend::Cuda),
        Some(_) => None,
    }
}

/// The GPU, opened once a process: loading the kernels takes longer than most tests.
fn gpu() -> &'static Device {
    static GPU: OnceLock<Device> = OnceLock::new();
    GPU.get_or_init(|| match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => panic!("the GPU that LUGE_TEST_BACKEND=cuda asks for: {error}"),
    })
}

/// Leaves one line for this use of a device: the backend and the test's name.
fn log_test(backend: Backend) {
    let Some(path) = std::env::var_os("LUGE_TEST_DEVICE_LOG") else {
        return;
    };
    let backend = match backend {
        Backend::Cuda => "cuda",
        Backend::Simulator => "simulator",
    };
    // The test harness names a test's thread after the test.
    let thread = std::thread::current();
    let line = format!("{backend}\t{}\n", thread.name().unwrap_or("?"));
    // One write of a short line in append mode: lines of parallel tests do not mix.
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("LUGE_TEST_DEVICE_LOG can be written");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backend_is_named_or_the_simulator() {
        assert_eq!(parse_backend(None), Some(Backend::Simulator));
        assert_eq!(parse_backend(Some("simulator")), Some(Backend::Simulator));
        assert_eq!(parse_backend(Some("cuda")), Some(Backend::Cuda));
        assert_eq!(parse_backend(Some("gpu")), None);
        assert_eq!(parse_backend(Some("")), None);
    }

    #[test]
    fn there_is_a_device_for_each_seed() {
        let devices = devices();
        let expected = match backend() {
            Backend::Simulator => SEEDS.len(),
            Backend::Cuda => 1,
        };
        assert_eq!(devices.len(), expected);
        for device in devices {
            assert_eq!(device.properties().backend, backend());
        }
    }
}
