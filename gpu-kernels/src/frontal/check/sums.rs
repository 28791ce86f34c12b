//! Sums over columns in integers, and the measures of all columns.

use luge_kernel::prelude::*;

use super::{GROUP, measure};
use crate::maxima::{is_last_block, larger};

/// Copies of the sums over columns of U, for blocks in turn: nearly all fronts may have something for one column.
pub(super) const SUM_COPIES: usize = 8;

/// Copies of the sums over `n` columns of U: a power of two. They have 32 MB at most, or are one.
pub const fn copies_of_sums(n: usize) -> usize {
    if n <= 1 << 18 { SUM_COPIES } else { 1 }
}

/// Likewise of a product.
pub(super) const PRODUCT_BITS: i32 = 12;

/// Larger products count as infinite.
pub(super) const MOST_PRODUCT: u64 = 1 << 40;

/// The exponent of the power of two above a norm, within bounds: what is measured where they matter is not trusted.
#[inlined]
pub(super) fn scale(norm: f64) -> i32 {
    let exponent = ((norm.to_bits() >> 52) & 0x7ff) as i32 - 1022;
    exponent.clamp(-900, 900)
}

/// 2 to this power, between those of normal numbers.
#[inlined]
pub(super) fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// A sum over the lanes of a group, for all of them. All lanes of a warp call it.
#[inlined]
pub(super) fn joined<W: Field>(mut sum: W) -> W {
    let mut distance = GROUP / 2;
    while distance > 0 {
        sum += warp::shuffle_xor(warp::FULL_MASK, sum, distance);
        distance /= 2;
    }
    sum
}

/// Calls `work(unit, lane)` for each unit with the lanes of a group; `unit` is past the end for groups that have none. All
/// lanes of a warp are in each call.
#[inlined]
pub(super) fn for_groups(len: u32, mut work: impl FnMut(u32, u32)) {
    let groups = warp::WARP_SIZE / GROUP;
    let lane = thread::lane_id();
    let mut first = thread::index_1d() / warp::WARP_SIZE * groups;
    while first < len {
        work(first + lane / GROUP, lane % GROUP);
        first += thread::num_threads_1d() / warp::WARP_SIZE * groups;
    }
}

/// Adds so many units, rounded up, to the sum at `at`, or `most` of them.
#[inlined]
pub(super) fn add_units(sums: GlobalMut<u64>, at: usize, scaled: f64, most: u64) {
    // What is not a number is not below anything.
    let units = if scaled < most as f64 {
        scaled as u64 + 1
    } else {
        most
    };
    sums.atomic(at)
        .reduce_add(units, Ordering::Relaxed, Scope::Device);
}

/// Where the copy of this block of the measures begins.
#[inlined]
pub(super) fn own_measures() -> usize {
    thread::block_idx_x() as usize % measure::COPIES * measure::STRIDE
}

/// Ends what measures: the last block leaves the largest of the copies of each measure in `found`. All threads of the grid call
/// it; a block has at least [`measure::LEN`] of them.
#[inlined]
pub(super) fn leave_measures(measures: GlobalMut<u64>, found: GlobalMut<u64>) {
    if is_last_block(measures.atomic(measure::DONE)) {
        let which = thread::thread_idx_x() as usize;
        if which < measure::LEN {
            let mut largest = 0;
            let mut copy = 0;
            while copy < measure::COPIES {
                largest = larger(largest, measures.get(copy * measure::STRIDE + which));
                copy += 1;
            }
            found.set(which, largest);
        }
    }
}

/// What a lane has found of its columns, of so many measures.
#[derive(Clone, Copy)]
pub(super) struct Found<const N: usize> {
    pub measures: [u64; N],
}

impl<const N: usize> Found<N> {
    pub(super) const NONE: Self = Self { measures: [0; N] };

    /// Takes in a number of which the largest is wanted, or NaN.
    #[inlined]
    pub(super) fn largest(&mut self, which: usize, number: f64) {
        self.raise(which, number.to_bits());
    }

    /// Takes in one of which the smallest is wanted; NaN counts as zero.
    #[inlined]
    pub(super) fn smallest(&mut self, which: usize, number: f64) {
        self.raise(which, !Real::max(number, 0.0).to_bits());
    }

    #[inlined]
    pub(super) fn raise(&mut self, which: usize, bits: u64) {
        if bits > self.measures[which] {
            self.measures[which] = bits;
        }
    }
}

/// The sum of the copies of word `at`, wrapping; a copy has `len` words. All are under way at once.
#[inlined]
pub(super) fn sum_of_copies(words: GlobalMut<u64>, copies: usize, len: usize, at: usize) -> u64 {
    let mut several = [0u64; SUM_COPIES];
    let mut copy = 0;
    while copy < SUM_COPIES {
        let own = if copy < copies { copy } else { 0 };
        several[copy] = words.get(own * len + at);
        copy += 1;
    }
    let mut sum = 0u64;
    let mut copy = 0;
    while copy < SUM_COPIES {
        if copy < copies {
            sum = sum.wrapping_add(several[copy]);
        }
        copy += 1;
    }
    sum
}
