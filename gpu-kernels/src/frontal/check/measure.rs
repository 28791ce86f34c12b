//! What is measured of all columns: places among [`STRIDE`] words, zero before, of which blocks in turn have
//! [`COPIES`]. All are maxima, of the bits of a number that is not negative, which are ordered as the numbers are, with NaN
//! above all; or of the complement of such bits: a minimum.

/// Largest growth.
pub const GROWTH: usize = 0;
/// Largest checksum; infinite where a growth is too large to tell, or an entry right of the diagonal blocks is no number.
pub const CHECKSUM: usize = 1;
/// Largest norm of a column of B.
pub const NORM: usize = 2;
/// Complement of the smallest one.
pub const LEAST_NORM: usize = 3;
/// Largest ‖ |L|·|U|·e_k ‖₁, each by the [weight](super::Checked::weights) of its column.
pub const PRODUCT: usize = 4;
/// Largest |wᵀ·(B − L·U)·e_k|, likewise.
pub const RESIDUAL: usize = 5;
/// Complement of the smallest quotient of a pivot and ‖ |L|·|U|·e_k ‖₁ of its column.
pub const LEAST_RELATIVE_PIVOT: usize = 6;
/// Number of those above, which take what was summed up; those below take columns of B and pivots.
pub const OF_SUMS: usize = 7;
/// Largest magnitude of a pivot.
pub const PIVOT: usize = OF_SUMS;
/// Complement of the smallest one.
pub const LEAST_PIVOT: usize = 8;
/// Largest quotient of a pivot and the one that was there before.
pub const GROWN_PIVOT: usize = 9;
/// Complement of the smallest one.
pub const SHRUNK_PIVOT: usize = 10;
/// Largest magnitude of a value of A that is an entry of B; of a symmetric matrix the largest sum of those of a column.
pub const VALUE: usize = 11;
/// Number of them.
pub const LEN: usize = 12;
/// How far copies are apart: a line of the cache.
pub const STRIDE: usize = 16;
/// Number of copies: the atomics of all blocks would wait for each other at one.
pub const COPIES: usize = 8;
/// Behind the copies, how many blocks have measured sums.
pub const DONE: usize = STRIDE * COPIES;
/// Number of words.
pub const WORDS: usize = DONE + 1;
