//! Binary search in sorted lanes, and the row of an entry.

use core::ops::{Add, Shr, Sub};

use luge_kernel::prelude::*;

/// First place in `begin..end` for which `is_below` does not hold, or `end`; it holds for all places before that one
/// and for none behind it.
#[inlined]
pub(crate) fn lower_bound<T>(begin: T, end: T, is_below: impl Fn(T) -> bool) -> T
where
    T: Copy + PartialEq + From<bool> + Add<Output = T> + Sub<Output = T> + Shr<u32, Output = T>,
{
    let (zero, one) = (T::from(false), T::from(true));
    let mut low = begin;
    let mut len = end - begin;
    while len != zero {
        let half = len >> 1;
        let middle = low + half;
        if is_below(middle) {
            low = middle + one;
            len = len - (half + one);
        } else {
            len = half;
        }
    }
    low
}

/// Position of `key` in `begin..end`, over which `idx` increases strictly, or `u64::MAX` if it is not there.
#[inlined]
pub(crate) fn position_of(idx: Global<u32>, begin: u64, end: u64, key: u32) -> u64 {
    let at = lower_bound(begin, end, |p| idx.get(p as usize) < key);
    if at < end && idx.get(at as usize) == key {
        at
    } else {
        u64::MAX
    }
}

/// Calls `visit(i, p)` for each entry p of the lanes that `ptr` tells apart, i its lane.
///
/// A warp takes 32 · `per_thread` consecutive entries at once, whatever lanes they belong to, so that a long lane
/// stalls nobody; it finds the lane of the first one by halving, and each thread goes on from there.
/// Called by whole warps of a 1-D grid.
#[inlined]
pub(crate) fn for_entries(
    ptr: Global<u64>,
    total: u64,
    per_thread: u64,
    mut visit: impl FnMut(usize, u64),
) {
    let warps = u64::from(thread::num_threads_1d() / warp::WARP_SIZE);
    let mut chunk = u64::from(thread::index_1d() / warp::WARP_SIZE);
    let per_warp = per_thread * u64::from(warp::WARP_SIZE);
    while chunk * per_warp < total {
        let first = chunk * per_warp;
        let end = if total - first < per_warp {
            total
        } else {
            first + per_warp
        };
        // The last lane that begins at `first` or before.
        let mut lane = lower_bound(1, ptr.len() - 1, |lane| ptr.get(lane) <= first) - 1;
        let mut p = first + u64::from(thread::lane_id());
        while p < end {
            while ptr.get(lane + 1) <= p {
                lane += 1;
            }
            visit(lane, p);
            p += u64::from(warp::WARP_SIZE);
        }
        chunk += warps;
    }
}
