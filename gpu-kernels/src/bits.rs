//! Words of 64 bits, a bit a pivot of a panel, and what warps do with them.

use core::ops::{BitAnd, Sub};

use luge_kernel::prelude::*;

/// The bit of pivot `k` of a panel.
#[inlined]
pub(crate) fn bit(k: u32) -> u64 {
    1 << k
}

/// Whether `word` has bit `k`.
#[inlined]
pub(crate) fn has_bit(word: u64, k: u32) -> bool {
    (word >> k) & 1 != 0
}

/// Bits above `k`.
#[inlined]
pub(crate) fn above(k: u32) -> u64 {
    (u64::MAX << k) << 1
}

/// The word with these halves.
#[inlined]
pub(crate) fn joined(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// The upper half.
#[inlined]
pub(crate) fn high_half(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Calls `f` with each bit of `bits`, the lowest first: a word, or half of one, as the lanes of a warp are.
#[inlined]
pub(crate) fn for_bits<T>(bits: T, mut f: impl FnMut(u32))
where
    T: Copy + Into<u64> + From<bool> + BitAnd<Output = T> + Sub<Output = T>,
{
    let mut rest = bits;
    while rest.into() != 0 {
        f(rest.into().trailing_zeros());
        rest = rest & (rest - T::from(true));
    }
}

/// Lanes below the own.
#[inlined]
pub(crate) fn lanes_below() -> u32 {
    !(u32::MAX << thread::lane_id())
}

/// The bits k for which `low` holds in lane k, or `high` in lane k − 32. Every lane of the warp calls it.
#[inlined]
pub(crate) fn ballot_pair(low: bool, high: bool) -> u64 {
    joined(
        warp::ballot(warp::FULL_MASK, low),
        warp::ballot(warp::FULL_MASK, high),
    )
}

/// The words of all lanes joined. Every lane of the warp calls it.
#[inlined]
pub(crate) fn reduce_or(word: u64) -> u64 {
    joined(
        warp::reduce_or(warp::FULL_MASK, word as u32),
        warp::reduce_or(warp::FULL_MASK, high_half(word)),
    )
}

/// Row `lane` of the transpose of the 32 × 32 matrix of bits whose rows the lanes of a warp hold. Every lane of the
/// warp calls it.
///
/// Blocks off the diagonal change places with each other, of 16 rows, then of 8, 4, 2 and 1.
#[inlined]
pub(crate) fn transposed(row: u32) -> u32 {
    let lane = thread::lane_id();
    let mut row = row;
    let mut size = 16;
    // Columns in the first of each two blocks.
    let mut first = 0x0000_ffffu32;
    while size > 0 {
        let theirs = warp::shuffle_xor(warp::FULL_MASK, row, size);
        row = if lane & size == 0 {
            row & first | (theirs & first) << size
        } else {
            row & !first | (theirs >> size) & first
        };
        size >>= 1;
        first ^= first << size;
    }
    row
}

/// As [`transposed`], of a 64 × 64 matrix: a lane holds the rows `lane` and `lane + 32`.
#[inlined]
pub(crate) fn transposed_pair(low: u64, high: u64) -> (u64, u64) {
    (
        joined(transposed(low as u32), transposed(high as u32)),
        joined(transposed(high_half(low)), transposed(high_half(high))),
    )
}
