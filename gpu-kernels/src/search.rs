//! Binary search in sorted lanes.

use luge_kernel::prelude::*;

/// First position in `begin..end` whose index is at least `key`, or `end`; `idx` increases strictly
/// over `begin..end`.
#[inline(always)]
pub(crate) fn lower_bound(idx: Global<u32>, begin: u64, end: u64, key: u32) -> u64 {
    let mut low = begin;
    let mut len = end - begin;
    while len > 0 {
        let half = len >> 1;
        let middle = low + half;
        if idx.get(middle as usize) < key {
            low = middle + 1;
            len -= half + 1;
        } else {
            len = half;
        }
    }
    low
}

/// Position of `key` in `begin..end`, or `u64::MAX` if it is not there.
#[inline(always)]
pub(crate) fn position_of(idx: Global<u32>, begin: u64, end: u64, key: u32) -> u64 {
    let at = lower_bound(idx, begin, end, key);
    if at < end && idx.get(at as usize) == key {
        at
    } else {
        u64::MAX
    }
}
