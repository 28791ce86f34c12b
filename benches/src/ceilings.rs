//! What the hardware gives: the most that rates can reach.
//!
//! The host's memory is measured by copies of arrays that no cache holds, its arithmetic by products of dense
//! matrices; both on one thread and on all cores. The device's memory is measured by copies, and by reads of words one
//! after another and at random; its arithmetic by products of small matrices in registers.

use std::hint::black_box;
use std::time::Instant;

use luge_device::{Backend, Buffer, Device, DeviceError, LaunchConfig, Stream};
use luge_gpu_kernels::arithmetic::{AT_ONCE, OPERATIONS, multiply};
use luge_gpu_kernels::memory::{AHEAD, read_words};
use rayon::prelude::*;

use crate::results::Ceilings;

/// Entries of an array that no cache holds.
const LARGE: usize = 1 << 25;
/// Entries that a thread copies at a time.
const CHUNK: usize = 1 << 16;
/// Order of the dense matrices.
const ORDER: usize = 768;
/// Runs, of which the fastest counts.
const RUNS: usize = 6;

/// Seconds of the fastest run.
fn fastest<E>(mut run: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let mut least = f64::MAX;
    for _ in 0..RUNS {
        let start = Instant::now();
        run()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}

/// The same of work on the host, which does not fail.
fn fastest_on_host(mut run: impl FnMut()) -> f64 {
    let Ok(seconds) = fastest::<std::convert::Infallible>(|| {
        run();
        Ok(())
    });
    seconds
}

/// The same of a launch on a stream.
fn fastest_launch(
    stream: &Stream,
    mut launch: impl FnMut() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    stream.synchronize()?;
    fastest(|| {
        launch()?;
        stream.synchronize()
    })
}

/// Bytes a second, read and written, of copies in the pool of threads that this runs in.
fn copy() -> f64 {
    let from = vec![1.0f64; LARGE];
    let mut to = vec![0.0f64; LARGE];
    let seconds = fastest_on_host(|| {
        to.par_chunks_mut(CHUNK)
            .zip(from.par_chunks(CHUNK))
            .for_each(|(to, from)| to.copy_from_slice(from));
        black_box(&mut to);
    });
    16.0 * LARGE as f64 / seconds
}

/// Operations a second of the product of dense matrices, in the pool of threads that this runs in.
fn product(threads: usize) -> f64 {
    let a = vec![0.5f64; ORDER * ORDER];
    let mut c = vec![0.0f64; ORDER * ORDER];
    let parallelism = match threads {
        0 | 1 => gemm::Parallelism::None,
        _ => gemm::Parallelism::Rayon(0),
    };
    let stride = ORDER as isize;
    let seconds = fastest_on_host(|| {
        // SAFETY: all three matrices have `ORDER` rows and columns, by columns, and none overlaps the one that is
        // written.
        unsafe {
            gemm::gemm(
                ORDER,
                ORDER,
                ORDER,
                c.as_mut_ptr(),
                stride,
                1,
                false,
                a.as_ptr(),
                stride,
                1,
                a.as_ptr(),
                stride,
                1,
                0.0,
                1.0,
                false,
                false,
                false,
                parallelism,
            );
        }
        black_box(&mut c);
    });
    2.0 * (ORDER as f64).powi(3) / seconds
}

/// What the host gives. What cannot be measured, for want of threads, is left out.
pub fn of_host() -> Ceilings {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.ok()?;
        Some(pool.install(|| (copy(), product(threads))))
    };
    let (one, all) = (on(1), on(cores));
    Ceilings {
        host_copy: one.map(|(copy, _)| copy),
        host_flops: one.map(|(_, flops)| flops),
        host_copy_all: all.map(|(copy, _)| copy),
        host_flops_all: all.map(|(_, flops)| flops),
        ..Ceilings::default()
    }
}

/// Operations a second of products of small matrices on the device. On the simulator, whose figures mean nothing, with next
/// to no work.
fn device_products(stream: &Stream) -> Result<f64, DeviceError> {
    const THREADS: u32 = 256;
    let properties = stream.device().properties().clone();
    let (blocks, rounds) = match properties.backend {
        Backend::Cuda => (8 * properties.num_sms, 1 << 13),
        Backend::Simulator => (1, 1),
    };
    let a = stream.upload(&[0.5; 32])?;
    let b = stream.upload(&[0.25; 32])?;
    let mut sums = stream.alloc((THREADS * blocks) as usize)?;
    let config = LaunchConfig::linear(blocks, THREADS);
    // SAFETY: there is a sum for each thread, and there are whole warps.
    let seconds = fastest_launch(stream, || unsafe {
        multiply::launch(stream, &config, rounds, &a, &b, &mut sums)
    })?;
    let products = u64::from(blocks * THREADS / 32) * u64::from(rounds) * AT_ONCE as u64;
    Ok((products * OPERATIONS) as f64 / seconds)
}

/// Bytes of a buffer that no cache of a device holds, and of one that its second-level cache does.
const UNCACHED: usize = 1 << 30;
const CACHED: usize = 16 << 20;

/// Adds what the memory of a device gives.
fn device_memory(stream: &Stream, ceilings: &mut Ceilings) -> Result<(), DeviceError> {
    let properties = stream.device().properties().clone();
    let (large, cached, blocks, rounds) = match properties.backend {
        Backend::Cuda => (UNCACHED, CACHED, 8 * properties.num_sms, 512),
        Backend::Simulator => (1 << 16, 1 << 12, 1, 1),
    };
    let mut from = stream.alloc_zeroed::<u32>(large / 4)?;
    let mut to = stream.alloc::<u32>(large / 4)?;
    let copy = fastest_launch(stream, || stream.copy(&mut to, &from))?;
    drop(to);
    let config = LaunchConfig::linear(blocks, 256);
    let threads = 256 * blocks as usize;
    let mut sums = stream.alloc::<u32>(threads)?;
    let mut cached = stream.alloc_zeroed::<u32>(cached / 4)?;
    let reads = (threads * AHEAD * rounds as usize) as f64;
    let mut read = |words: &mut Buffer<u32>, scattered: bool| {
        // SAFETY: there is a sum for each thread.
        fastest_launch(stream, || unsafe {
            read_words::launch(stream, &config, scattered.into(), rounds, words, &mut sums)
        })
    };
    ceilings.copy = Some(2.0 * large as f64 / copy);
    ceilings.cached_stream = Some(4.0 * reads / read(&mut cached, false)?);
    ceilings.cached_scattered = Some(32.0 * reads / read(&mut cached, true)?);
    ceilings.scattered = Some(32.0 * reads / read(&mut from, true)?);
    Ok(())
}

/// What the host and a device give.
///
/// # Errors
///
/// Those of the device.
pub fn with_device(device: &Device) -> Result<Ceilings, DeviceError> {
    let stream = device.create_stream()?;
    let mut ceilings = of_host();
    ceilings.device_flops = Some(device_products(&stream)?);
    device_memory(&stream, &mut ceilings)?;
    Ok(ceilings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_gives_something() {
        let options = luge_device::SimulatorOptions::default();
        let device = Device::simulator(options);
        let found = device_products(&device.create_stream().unwrap()).unwrap();
        assert!(found.is_finite() && found > 0.0, "{found}");
    }

    #[test]
    fn the_host_gives_something() {
        let host = of_host();
        for rate in [
            host.host_copy,
            host.host_copy_all,
            host.host_flops,
            host.host_flops_all,
        ] {
            assert!(
                rate.is_some_and(|rate| rate > 1e7 && rate.is_finite()),
                "{host:?}"
            );
        }
        assert_eq!(host.copy, None);
    }
}
