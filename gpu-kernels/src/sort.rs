//! Sorts the lanes of a compressed pattern, each of any length.

use luge_kernel::prelude::*;

use crate::long::{for_long, list_long, take_bits};
use crate::scan::MAX_WARPS;

/// Longest lane that is sorted in shared memory.
///
/// Size classes: up to it and above it, sorted by comparisons (`sort_rows_matches_reference`) or by bits
/// (`sort_distinct_rows_matches_reference`, both in `tests/tests/symbolic.rs`).
pub const SHARED_LANE: usize = 2048;

/// Where the lane lies during the sort.
pub(crate) trait Keys: Copy {
    type Key: Element + PartialOrd;
    fn get(self, i: usize) -> Self::Key;
    fn set(self, i: usize, key: Self::Key);
}

/// A lane at the start of shared memory.
#[derive(Clone, Copy)]
pub(crate) struct SharedKeys<T: Element>(pub(crate) Shared<T>);

impl<T: Element + PartialOrd> Keys for SharedKeys<T> {
    type Key = T;

    #[inlined]
    fn get(self, i: usize) -> T {
        self.0.get(i)
    }

    #[inlined]
    fn set(self, i: usize, key: T) {
        self.0.set(i, key);
    }
}

/// A lane from a place in global memory on.
#[derive(Clone, Copy)]
struct GlobalKeys<T: Element>(GlobalMut<T>, usize);

impl<T: Element + PartialOrd> Keys for GlobalKeys<T> {
    type Key = T;

    #[inlined]
    fn get(self, i: usize) -> T {
        self.0.get(self.1 + i)
    }

    #[inlined]
    fn set(self, i: usize, key: T) {
        self.0.set(self.1 + i, key);
    }
}

/// Puts the smaller of two keys first.
#[inlined]
fn compare_exchange(keys: impl Keys, low: usize, high: usize) {
    let (a, b) = (keys.get(low), keys.get(high));
    if a > b {
        keys.set(low, b);
        keys.set(high, a);
    }
}

/// Sorts `len` keys by the bitonic network in which every comparator puts the smaller key first: a
/// merge of two sorted halves begins with a mirrored step (i against size−1−i) and goes on with
/// halving strides.
///
/// Any length works: the network for the next power of two is run with the keys beyond `len` taken
/// as infinite. Such a key is always the `high` one of a comparator whose `low` one is smaller or
/// infinite too, so it never moves, and comparators with `high >= len` can be left out.
///
/// Every thread of the block calls it after a barrier over the writes of the keys; it ends with a
/// barrier. Within a step each key belongs to one comparator and so to one thread; the barrier after
/// each step orders the steps.
#[inlined]
pub(crate) fn bitonic_sort(keys: impl Keys, len: usize) {
    let thread = thread::thread_idx_x() as usize;
    let threads = thread::block_dim_x() as usize;
    let mut log_half = 0;
    while (1usize << log_half) < len {
        let half = 1usize << log_half;
        // Comparator c of the mirrored step: block c / half of size 2·half, offset c % half.
        let mut c = thread;
        loop {
            let start = (c >> log_half) << (log_half + 1);
            let offset = c & (half - 1);
            let low = start + offset;
            if start >= len {
                break;
            }
            let high = start + 2 * half - 1 - offset;
            if high < len {
                compare_exchange(keys, low, high);
            }
            c += threads;
        }
        thread::sync_threads();
        let mut log_stride = log_half;
        while log_stride > 0 {
            log_stride -= 1;
            let stride = 1usize << log_stride;
            let mut c = thread;
            loop {
                let start = (c >> log_stride) << (log_stride + 1);
                if start >= len {
                    break;
                }
                let low = start + (c & (stride - 1));
                let high = low + stride;
                if high < len {
                    compare_exchange(keys, low, high);
                }
                c += threads;
            }
            thread::sync_threads();
        }
        log_half += 1;
    }
}

/// Sorts the lanes of up to `most` entries; thread 0 of a block calls `leave` for each of the others.
#[inlined]
fn sort_lanes<T: Element + PartialOrd>(
    ptr: Global<u64>,
    keys: GlobalMut<T>,
    shared: Shared<T>,
    most: usize,
    leave: impl Fn(usize),
) {
    let lanes = ptr.len() - 1;
    let mut lane = thread::block_idx_x() as usize;
    while lane < lanes {
        let begin = ptr.get(lane) as usize;
        let len = ptr.get(lane + 1) as usize - begin;
        // `len` is the same for the whole block, so the barriers are reached by all.
        if len > most {
            if thread::thread_idx_x() == 0 {
                leave(lane);
            }
        } else if len > shared.len() {
            bitonic_sort(GlobalKeys(keys, begin), len);
        } else if len > 1 {
            for i in thread::block_stride(len) {
                shared.set(i, keys.get(begin + i));
            }
            thread::sync_threads();
            bitonic_sort(SharedKeys(shared), len);
            for i in thread::block_stride(len) {
                keys.set(begin + i, shared.get(i));
            }
            // The next lane overwrites `shared`.
            thread::sync_threads();
        }
        lane += thread::grid_dim_x() as usize;
    }
}

/// Sorts each lane `idx[ptr[i] .. ptr[i+1]]` in increasing order, in place.
///
/// Threads: block b sorts lanes b, b + grid, …; its threads share the comparators of each step.
/// Lanes of up to [`SHARED_LANE`] entries are sorted in shared memory (8 KiB), longer ones where they
/// lie, by the same network. Cost: O(len · log² len) comparators a lane.
///
/// Writes: a lane belongs to one block, a comparator to one thread; barriers order the steps.
/// Launch: 1-D. Precondition: `ptr` does not decrease and ends within `idx`.
#[kernel(max_threads(1024), require(ptr.len() >= 1))]
pub unsafe fn sort_rows(ptr: Global<u64>, idx: GlobalMut<u32>) {
    let shared = shared_array![u32; SHARED_LANE];
    sort_lanes(ptr, idx, shared, usize::MAX, |_| ());
}

/// As [`sort_rows`](fn@sort_rows), of 64-bit keys, half as many of them in shared memory; lanes of more
/// than `most` entries stay as they are.
#[kernel(max_threads(1024), require(ptr.len() >= 1))]
pub unsafe fn sort_rows_u64(most: u32, ptr: Global<u64>, keys: GlobalMut<u64>) {
    let shared = shared_array![u64; SHARED_LANE / 2];
    sort_lanes(ptr, keys, shared, most as usize, |_| ());
}

/// Sorts the lanes of up to [`SHARED_LANE`] entries, as [`sort_rows`](fn@sort_rows), and lists the others in
/// `long`, in any order.
///
/// Writes: as [`sort_rows`](fn@sort_rows); a place of `long` by thread 0 of the block that an atomic counter
/// gave it to. Launch: 1-D. Preconditions: `ptr` does not decrease and ends within `idx`; `counters` is
/// zero.
#[kernel(
    max_threads(1024),
    require(
        ptr.len() >= 1,
        long.len() >= idx.len() / SHARED_LANE,
        counters.len() == crate::long::LONG_COUNTERS
    )
)]
pub unsafe fn sort_short_rows(
    ptr: Global<u64>,
    idx: GlobalMut<u32>,
    long: GlobalMut<u32>,
    counters: GlobalMut<u32>,
) {
    let shared = shared_array![u32; SHARED_LANE];
    sort_lanes(ptr, idx, shared, SHARED_LANE, |lane| {
        list_long(long, counters, lane)
    });
}

/// Sorts the lanes listed in `long`, whose entries are distinct: each entry sets its bit, and the bits are read
/// in order. O(len + range / 32) a lane, where sorting by comparisons takes O(len · log² len).
///
/// Threads: a block a lane, taken from `counters[1]`; its threads over entries, then over words. `bits`
/// holds a piece of ⌈columns / 32⌉ words for each block. Writes: the bits of a block by atomics of its
/// threads, a lane's entries by the threads whose words hold them, ordered by barriers. Words are zero again
/// afterwards. Launch: 1-D, a multiple of 32 threads. Preconditions: `long` and `counters` are those of
/// [`sort_short_rows`](fn@sort_short_rows); `bits` is zero; entries are below 32 times a block's words.
#[kernel(
    max_threads(1024),
    require(ptr.len() >= 1, words >= 1, counters.len() == crate::long::LONG_COUNTERS)
)]
pub unsafe fn sort_long_rows(
    words: u32,
    ptr: Global<u64>,
    idx: GlobalMut<u32>,
    long: Global<u32>,
    counters: GlobalMut<u32>,
    bits: GlobalMut<u32>,
) {
    let next = shared_array![u32; 1];
    let range = shared_array![u32; 2];
    let warp_sums = shared_array![u64; MAX_WARPS];
    let map = thread::block_idx_x() as usize * words as usize;
    let clear_range = || {
        range.set(0, u32::MAX);
        range.set(1, 0);
    };
    for_long(long, counters, next, clear_range, |lane| {
        let begin = ptr.get(lane);
        let len = ptr.get(lane + 1) - begin;
        let (mut least, mut most) = (u32::MAX, 0);
        for i in thread::block_stride(len as usize) {
            let key = idx.get(begin as usize + i);
            let word = key >> 5;
            if word < least {
                least = word;
            }
            if word > most {
                most = word;
            }
            bits.atomic(map + word as usize).fetch_or(
                1 << (key & 31),
                Ordering::Relaxed,
                Scope::Block,
            );
        }
        let least = warp::reduce_min(warp::FULL_MASK, least);
        let most = warp::reduce_max(warp::FULL_MASK, most);
        if thread::lane_id() == 0 {
            range
                .atomic(0)
                .fetch_min(least, Ordering::Relaxed, Scope::Block);
            range
                .atomic(1)
                .fetch_max(most, Ordering::Relaxed, Scope::Block);
        }
        thread::sync_threads();
        let used = (range.get(0), range.get(1) + 1);
        take_bits((bits, map), used, (idx, begin), warp_sums);
    });
}
