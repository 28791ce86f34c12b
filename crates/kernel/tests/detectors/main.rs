//! The simulator's detectors: for each a kernel that commits exactly that fault and is caught with
//! kernel, block, thread, buffer, index and line, and its correct twin that stays silent. Each
//! runs under several seeds.

mod bounds;
mod collectives;
mod races;
mod replay;
mod scopes;
mod waits;

use luge_kernel::host::KernelModule;
use luge_kernel::sim::{Fault, Options, Simulator};

/// This crate.
pub static MODULE: KernelModule = KernelModule {
    name: "detectors",
    images: &[],
};

/// Schedules that each kernel is tried under.
const SEEDS: std::ops::Range<u64> = 0..20;

/// Runs `launch` under every seed; all must fault. Checks what all faults have in common: kernel,
/// seed, and a line of `file`.
#[track_caller]
fn faults(
    kernel: &str,
    file: &str,
    launch: impl FnMut(&Simulator) -> Result<(), Box<Fault>>,
) -> Vec<Fault> {
    faults_with(kernel, file, &Options::default(), launch)
}

/// [`faults`] with options other than the default ones.
#[track_caller]
fn faults_with(
    kernel: &str,
    file: &str,
    options: &Options,
    mut launch: impl FnMut(&Simulator) -> Result<(), Box<Fault>>,
) -> Vec<Fault> {
    SEEDS
        .map(|seed| {
            let options = Options {
                seed,
                ..options.clone()
            };
            let fault = match launch(&Simulator { options }) {
                Ok(()) => panic!("`{kernel}` went unnoticed with seed {seed}"),
                Err(fault) => *fault,
            };
            assert_eq!(fault.kernel, kernel, "{fault}");
            assert_eq!(fault.seed, seed, "{fault}");
            let location = fault.location.as_ref().expect("a line");
            assert!(location.file.ends_with(file), "{fault}");
            let text = fault.to_string();
            assert!(text.contains(kernel) && text.contains(&location.to_string()));
            fault
        })
        .collect()
}

/// Runs `launch` under every seed; none may fault.
#[track_caller]
fn silent(mut launch: impl FnMut(&Simulator) -> Result<(), Box<Fault>>) {
    for seed in SEEDS {
        if let Err(fault) = launch(&Simulator::with_seed(seed)) {
            panic!("a false alarm: {fault}");
        }
    }
}

/// The line of the source that `fault` names.
fn source_line(fault: &Fault, source: &str) -> String {
    let line = fault.location.as_ref().expect("a line").line;
    source
        .lines()
        .nth(line as usize - 1)
        .expect("the file has the line")
        .trim()
        .to_string()
}
