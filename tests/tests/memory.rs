//! The kernel that measures memory reads what it says it reads.

use luge_device::LaunchConfig;
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
