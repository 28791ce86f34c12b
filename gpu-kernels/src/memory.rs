//! What the memory of a device gives, as a measure for what the other kernels get.

use luge_kernel::prelude::*;

/// Reads that a thread has under way at once.
pub const AHEAD: usize = 8;

/// Where read number `i` of all goes if they are scattered: a mix of the bits of `i`, a bijection.
#[inlined]
pub fn scatter(i: u32) -> u32 {
    let i = (i ^ (i >> 16)).wrapping_mul(0x7feb_352d);
    let i = (i ^ (i >> 15)).wrapping_mul(0x846c_a68b);
    i ^ (i >> 16)
}

/// Reads words past the caches of the multiprocessors, [`AHEAD`] · `rounds` each thread, and adds them up,
/// modulo 2³²: `sums[t]` for thread t. Read number i of all threads together is that of word i modulo the number of
/// words, or of word [`scatter`]`(i)` modulo it: one after another, or each in a line of its own.
///
/// Threads: any number; thread t makes the reads t, t + threads, and so on. Shared memory: none. Launch: 1-D. `words`
/// is a power of two long and may be in the second-level cache or larger than that, which is what is measured.
#[kernel(
    max_threads(256),
    require(words.len().is_power_of_two(), words.len() <= 1 << 31)
)]
pub unsafe fn read_words(scattered: u32, rounds: u32, words: GlobalMut<u32>, sums: GlobalMut<u32>) {
    let threads = thread::num_threads_1d();
    let last = words.len() as u32 - 1;
    let mut sum = 0u32;
    let mut i = thread::index_1d();
    let mut round = 0;
    while round < rounds {
        let mut read = [0u32; AHEAD];
        let mut k = 0;
        while k < AHEAD {
            let place = if scattered != 0 { scatter(i) } else { i } & last;
            read[k] = words
                .atomic(place as usize)
                .load(Ordering::Relaxed, Scope::Device);
            i = i.wrapping_add(threads);
            k += 1;
        }
        let mut k = 0;
        while k < AHEAD {
            sum = sum.wrapping_add(read[k]);
            k += 1;
        }
        round += 1;
    }
    sums.set(thread::index_1d() as usize, sum);
}
