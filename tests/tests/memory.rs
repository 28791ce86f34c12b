//! The kernels that measure a device do what they say they do.

use luge_device::LaunchConfig;
use luge_gpu_kernels::arithmetic::{self, multiply};
use luge_gpu_kernels::memory::{AHEAD, read_words, scatter};

mod chain;
use chain::{noise, streams};

#[test]
fn every_read_is_made_once() {
    let (blocks, threads, rounds) = (3u32, 64, 2);
    let reads = blocks * threads * rounds * AHEAD as u32;
    for stream in streams() {
        for len in [1u32, 64, 1024] {
            let host: Vec<u32> = (0..len as usize).map(|i| noise(5, i) as u32).collect();
            let mut words = stream.upload(&host).unwrap();
            for scattered in [false, true] {
                let mut sums = stream.alloc::<u32>((blocks * threads) as usize).unwrap();
                let config = LaunchConfig::linear(blocks, threads);
                // SAFETY: there is a sum for each thread.
                unsafe {
                    read_words::launch(
                        &stream,
                        &config,
                        scattered.into(),
                        rounds,
                        &mut words,
                        &mut sums,
                    )
                }
                .unwrap();
                let place = |i: u32| if scattered { scatter(i) } else { i } % len;
                let sum = |values: &mut dyn Iterator<Item = u32>| {
                    values.fold(0u32, |sum, value| sum.wrapping_add(value))
                };
                assert_eq!(
                    sum(&mut stream.download(&sums).unwrap().into_iter()),
                    sum(&mut (0..reads).map(|i| host[place(i) as usize])),
                );
            }
        }
    }
}

#[test]
fn every_product_is_added() {
    let number = |seed: u64, i: usize| (noise(seed, i) % 16) as f64;
    let a: Vec<f64> = (0..32).map(|i| number(1, i)).collect();
    let b: Vec<f64> = (0..32).map(|i| number(2, i)).collect();
    // Of all entries of A·B, A by rows and B by columns.
    let entry = |i: usize, j: usize| -> f64 { (0..4).map(|k| a[4 * i + k] * b[4 * j + k]).sum() };
    let product: f64 = (0..64).map(|at| entry(at / 8, at % 8)).sum();
    let (blocks, threads, rounds) = (2, 64, 3);
    for stream in streams() {
        let [a, b] = [&a, &b].map(|factor| stream.upload(factor).unwrap());
        let mut sums = stream.alloc::<f64>((blocks * threads) as usize).unwrap();
        let config = LaunchConfig::linear(blocks, threads);
        // SAFETY: there is a sum for each thread, and there are whole warps.
        unsafe { multiply::launch(&stream, &config, rounds, &a, &b, &mut sums) }.unwrap();
        let expected = product * f64::from(rounds) * arithmetic::AT_ONCE as f64;
        for sums in stream.download(&sums).unwrap().chunks(32) {
            assert_eq!(sums.iter().sum::<f64>(), expected);
        }
    }
}
