//! Long lanes, each the work of a whole block: the list of them, and the map of bits that sorts their indices.
//!
//! A kernel that leaves out long lanes lists them, and the blocks of a later one take them from the list, whichever is
//! free. Each block has a map of its own, a bit an index, in which the indices of a lane are set in any order and read
//! in increasing order.

use luge_kernel::prelude::*;

use crate::bits::for_bits;
use crate::scan::block_inclusive_sum;

/// Words of a list's counters: long lanes found, long lanes handed out.
pub const LONG_COUNTERS: usize = 2;

/// Adds a lane to the list `long`, at the place that `counters[0]` gives it. One thread calls it for the lane.
#[inlined]
pub(crate) fn list_long(long: GlobalMut<u32>, counters: GlobalMut<u32>, lane: usize) {
    let found = counters.atomic(0);
    let place = found.fetch_add(1, Ordering::Relaxed, Scope::Device);
    long.set(place as usize, lane as u32);
}

/// Calls `work` with the lanes of the list `long` that this block takes, by `counters[1]`. Before each, thread 0 calls
/// `prepare`, and a barrier follows. Every thread of the block calls it.
#[inlined]
pub(crate) fn for_long(
    long: Global<u32>,
    counters: GlobalMut<u32>,
    next: Shared<u32>,
    prepare: impl Fn(),
    work: impl Fn(usize),
) {
    let found = counters.atomic(0).load(Ordering::Relaxed, Scope::Device);
    loop {
        if thread::thread_idx_x() == 0 {
            let handed_out = counters.atomic(1);
            next.set(0, handed_out.fetch_add(1, Ordering::Relaxed, Scope::Device));
            prepare();
        }
        thread::sync_threads();
        let place = next.get(0);
        if place >= found {
            break;
        }
        work(long.get(place as usize) as usize);
        // `next`, and what `prepare` writes, are written again.
        thread::sync_threads();
    }
}

/// Writes the indices whose bits are set in the words `begin..end` of the map `bits[map ..]` to `idx[at ..]`, in
/// increasing order, and clears these words; the place behind them. Every thread of the block calls it, with the same
/// arguments, after a barrier over the writes of the bits.
#[inlined]
pub(crate) fn take_bits(
    (bits, map): (GlobalMut<u32>, usize),
    (begin, end): (u32, u32),
    (idx, at): (GlobalMut<u32>, u64),
    warp_sums: Shared<u64>,
) -> u64 {
    let mut out = at;
    let mut group = begin;
    while group < end {
        let cell = group + thread::thread_idx_x();
        let mut word = 0;
        if cell < end {
            word = bits.get(map + cell as usize);
            bits.set(map + cell as usize, 0);
        }
        let count = u64::from(word.count_ones());
        let (inclusive, total) = block_inclusive_sum(count, warp_sums);
        let mut place = out + inclusive - count;
        for_bits(word, |b| {
            idx.set(place as usize, cell << 5 | b);
            place += 1;
        });
        out += total;
        group += thread::block_dim_x();
    }
    out
}
