//! Sorts the lanes of a compressed pattern, each of any length.

use luge_kernel::prelude::*;

/// Longest lane that is sorted in shared memory.
pub const SHARED_LANE: usize = 2048;

/// Where the lane lies during the sort.
pub(crate) trait Keys: Copy {
    type Key: Element;
    fn get(self, i: usize) -> Self::Key;
    fn set(self, i: usize, key: Self::Key);
}

/// A lane at the start of shared memory.
#[derive(Clone, Copy)]
pub(crate) struct SharedKeys<T: Element>(pub(crate) Shared<T>);

impl<T: Element> Keys for SharedKeys<T> {
    type Key = T;

    #[inline(always)]
    fn get(self, i: usize) -> T {
        self.0.get(i)
    }

    #[inline(always)]
    fn set(self, i: usize, key: T) {
        self.0.set(i, key);
    }
}

/// A lane from a place in global memory on.
#[derive(Clone, Copy)]
struct GlobalKeys<T: Element>(GlobalMut<T>, usize);

impl<T: Element> Keys for GlobalKeys<T> {
    type Key = T;

    #[inline(always)]
    fn get(self, i: usize) -> T {
        self.0.get(self.1 + i)
    }

    #[inline(always)]
    fn set(self, i: usize, key: T) {
        self.0.set(self.1 + i, key);
    }
}

/// Puts the smaller of two keys first.
#[inline(always)]
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
#[inline(always)]
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

/// What both kernels do.
#[inline(always)]
fn sort_lanes<T: Element>(ptr: Global<u64>, keys: GlobalMut<T>, shared: Shared<T>) {
    let lanes = ptr.len() - 1;
    let mut lane = thread::block_idx_x() as usize;
    while lane < lanes {
        let begin = ptr.get(lane) as usize;
        let len = ptr.get(lane + 1) as usize - begin;
        // `len` is the same for the whole block, so the barriers are reached by all.
        if len > shared.len() {
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
    sort_lanes(ptr, idx, shared);
}

/// As [`sort_rows`](fn@sort_rows), of 64-bit keys; half as many are sorted in shared memory.
#[kernel(max_threads(1024), require(ptr.len() >= 1))]
pub unsafe fn sort_rows_u64(ptr: Global<u64>, keys: GlobalMut<u64>) {
    let shared = shared_array![u64; SHARED_LANE / 2];
    sort_lanes(ptr, keys, shared);
}
