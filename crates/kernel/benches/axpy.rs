//! Speed of the simulator: grid-stride axpy in f64 on one core, in loop iterations a second.
//!
//! The floors that the project holds itself to: 5 million a second with all detectors, 50 million
//! without. `cargo bench -p luge-kernel --bench axpy` prints `thrpt` in elements, which are
//! iterations.
//!
//! The time is that which the thread spent on a core (Linux; wall time elsewhere), so that a machine
//! that does other work too measures the simulator and not its neighbours.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use luge_kernel::host::{KernelModule, LaunchConfig};
use luge_kernel::prelude::*;
use luge_kernel::sim::{Buffer, Options, Simulator};

/// This crate.
pub static MODULE: KernelModule = KernelModule {
    name: "axpy",
    images: &[],
};

/// y := a·x + y.
#[kernel(require(x.len() == y.len()))]
pub unsafe fn axpy(a: f64, x: Global<f64>, y: GlobalMut<f64>) {
    for i in thread::grid_stride(y.len()) {
        y.set(i, a * x.get(i) + y.get(i));
    }
}

/// Sums tiles of 256 through shared memory, with 8 barriers a tile.
#[kernel(require(out.len() * 256 == x.len()))]
pub unsafe fn tile_sums(x: Global<f64>, out: GlobalMut<f64>) {
    let tile = shared_array![f64; 256];
    let t = thread::thread_idx_x() as usize;
    let b = thread::block_idx_x() as usize;
    tile.set(t, x.get(b * 256 + t));
    thread::sync_threads();
    let mut half = 128;
    while half > 0 {
        if t < half {
            tile.set(t, tile.get(t) + tile.get(t + half));
        }
        thread::sync_threads();
        half /= 2;
    }
    if t == 0 {
        out.set(b, tile.get(0));
    }
}

/// Nanoseconds that this thread has spent on a core.
fn cpu_time() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split(' ').next()?.parse().ok()
}

/// Times `count` calls.
fn time(count: u64, mut call: impl FnMut()) -> Duration {
    let (wall, start) = (Instant::now(), cpu_time());
    for _ in 0..count {
        call();
    }
    match (start, cpu_time()) {
        // The kernel counts in ticks: the shortest benchmarks may see none.
        (Some(start), Some(end)) if end > start => Duration::from_nanos(end - start),
        _ => wall.elapsed(),
    }
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulator");
    for checks in [true, false] {
        let simulator = Simulator {
            options: Options {
                checks,
                ..Options::default()
            },
        };
        let mode = if checks { "checked" } else { "unchecked" };
        // Vectors that fit in a core's cache, and such as do not (with their shadow, neither do).
        for n in [1 << 17, 1 << 20] {
            let x = Buffer::from_slice("x", &vec![1.0f64; n]);
            let mut y = Buffer::from_slice("y", &vec![2.0f64; n]);
            let config = LaunchConfig::linear(16, 256);
            group.throughput(Throughput::Elements(n as u64));
            group.bench_function(format!("axpy/{mode}/{n}"), |b| {
                b.iter_custom(|count| {
                    // SAFETY: the lengths are equal.
                    let mut launch =
                        || unsafe { axpy::launch(&simulator, &config, 0.5, &x, &mut y) };
                    time(count, || launch().unwrap())
                });
            });
        }
        let tiles = 256;
        let x = Buffer::from_slice("x", &vec![1.0f64; tiles * 256]);
        let mut out = Buffer::<f64>::uninitialized("out", tiles);
        let config = LaunchConfig::linear(tiles as u32, 256);
        group.throughput(Throughput::Elements((tiles * 256) as u64));
        group.bench_function(format!("tile_sums/{mode}"), |b| {
            b.iter_custom(|count| {
                // SAFETY: the lengths fit.
                let mut launch = || unsafe { tile_sums::launch(&simulator, &config, &x, &mut out) };
                time(count, || launch().unwrap())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
