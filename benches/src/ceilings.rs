//! What the hardware gives: the most that rates can reach.
//!
//! The host's memory is measured by copies of arrays that no cache holds, its arithmetic by products of dense
//! matrices; both on one thread and on all cores. The device's memory is measured as
//! [`symbolic::measure`](crate::symbolic::measure) does; its arithmetic is not.

use std::hint::black_box;
use std::time::Instant;

use luge_device::{Device, DeviceError};
use rayon::prelude::*;

use crate::results::Ceilings;
use crate::symbolic::measure;

/// Entries of an array that no cache holds.
const LARGE: usize = 1 << 25;
/// Entries that a thread copies at a time.
const CHUNK: usize = 1 << 16;
/// Order of the dense matrices.
const ORDER: usize = 768;
/// Runs, of which the fastest counts.
const RUNS: usize = 4;

fn fastest(mut run: impl FnMut()) -> f64 {
    let seconds = (0..RUNS).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    });
    seconds.fold(f64::MAX, f64::min)
}

/// Bytes a second, read and written, of copies in the pool of threads that this runs in.
fn copy() -> f64 {
    let from = vec![1.0f64; LARGE];
    let mut to = vec![0.0f64; LARGE];
    let seconds = fastest(|| {
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
    let seconds = fastest(|| {
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

/// What the host and a device give.
///
/// # Errors
///
/// Those of the device.
pub fn with_device(device: &Device) -> Result<Ceilings, DeviceError> {
    luge_symbolic::gpu::load_kernels(device)?;
    let stream = device.create_stream()?;
    let memory = measure::ceilings(&stream)?;
    Ok(Ceilings {
        copy: Some(memory.copy),
        cached_stream: Some(memory.cached_stream),
        cached_scattered: Some(memory.cached_scattered),
        scattered: Some(memory.scattered),
        ..of_host()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
