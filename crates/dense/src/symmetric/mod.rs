//! Kernels of symmetric fronts: products on a triangle, elimination with pivots of order 1 and 2, the check.
//!
//! A front's panel of m rows and k columns is column-major and holds the lower triangle: L below the diagonal of the
//! pivots' columns, D on it. Of a pivot of order 2 in columns j and j + 1 the entry (j + 1, j) of D stands in row j of
//! column j + 1, above the diagonal, and entry (j + 1, j) of the panel is zero, as that of L. All else above the diagonal is
//! zero in the columns of pivots. In other columns, updates leave anything up to seven rows above it.
//!
//! [`factorize_block`] is a posteriori threshold pivoting, [`eliminate_symmetric`] threshold partial pivoting: see J. Hogg,
//! E. Ovtchinnikov and J. Scott, "A sparse symmetric indefinite direct solver for GPU architectures", ACM TOMS 42 (2016).
//! The acceptance test of a pivot of order 2: I. S. Duff and J. K. Reid, ACM TOMS 9 (1983).

use luge_sparse::{RealScalar, ResolvedSymmetric};

use super::dense::{NR, rank_one, scale};
use super::simd::Simd;

mod block;
mod check;
mod columns;
mod product;

pub(crate) use block::factorize_block;
pub use block::{BLOCK_COLUMNS, BlockScratch};
pub use check::CheckLower;
pub(crate) use check::check_lower;
pub(crate) use columns::eliminate_symmetric;
pub(crate) use product::{gemm_lower, times_diagonal};

/// Columns that an update of several columns reaches above the diagonal.
const ABOVE: usize = NR;

/// The panel of a symmetric front under elimination.
#[derive(Debug)]
pub struct SymmetricPanel<F> {
    /// `m` rows, `k` columns.
    pub lp: *mut F,
    /// Rows of the front.
    pub m: usize,
    /// Fully summed rows and columns.
    pub k: usize,
    /// Where each fully summed column stood before the elimination, `k` of them.
    pub col: *mut u32,
    /// By what the pivot of each fully summed column is replaced if it has not the sign of that, or is too small beside it:
    /// `k` numbers other than zero, or null. Zero takes the place of those that were used. Columns then stay where they are.
    pub expected: *mut F,
}

/// How far an elimination of a symmetric front came.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<F> {
    /// Pivots, a pivot of order 2 counted as two.
    pub pivots: usize,
    /// Why the factorization cannot go on.
    pub event: Option<SymmetricEvent<F>>,
}

/// Why an elimination of a symmetric front ended before its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SymmetricEvent<F> {
    /// Nothing of size is left of the column that stood at this position before the elimination.
    Zero(u32),
    /// A definite matrix was asked for, and this is the pivot of the column that stood at this position.
    NotPositive(u32, F),
}

impl<F: RealScalar> SymmetricPanel<F> {
    /// Exchanges two fully summed rows and columns, none of them a pivot.
    ///
    /// # Safety
    ///
    /// The panel is valid for its sizes; `a` and `b` are below `k`; columns between pivots and the larger of them have
    /// seen the same pivots.
    pub unsafe fn swap(&self, a: usize, b: usize) {
        let (a, b) = (a.min(b), a.max(b));
        if a == b {
            return;
        }
        let (lp, m) = (self.lp, self.m);
        // SAFETY: the caller's contract.
        unsafe {
            for j in 0..a {
                std::ptr::swap(lp.add(a + j * m), lp.add(b + j * m));
            }
            std::ptr::swap(lp.add(a + a * m), lp.add(b + b * m));
            for i in a + 1..b {
                std::ptr::swap(lp.add(i + a * m), lp.add(b + i * m));
            }
            let below = m - b - 1;
            let (from, to) = (lp.add(a * m + b + 1), lp.add(b * m + b + 1));
            std::ptr::swap_nonoverlapping(from, to, below);
            std::ptr::swap(self.col.add(a), self.col.add(b));
        }
    }

    /// Makes column `j` a pivot's: its entry of D, and, if it is the second of a pivot of order 2, the entry off the
    /// diagonal, else zero.
    ///
    /// # Safety
    ///
    /// The panel is valid, and `j` below `k`.
    #[inline(always)]
    unsafe fn set_diagonal(&self, j: usize, d: F, off: F) {
        // SAFETY: the caller's contract.
        unsafe {
            let column = self.lp.add(j * self.m);
            for i in j.saturating_sub(ABOVE)..j {
                *column.add(i) = F::zero();
            }
            *column.add(j) = d;
            if j > 0 {
                *column.add(j - 1) = off;
            }
        }
    }
}

/// E⁻¹ for E = `[d11 d21; d21 d22]`, as (11), (21), (22).
#[inline(always)]
pub fn inverse_of_two<F: RealScalar>(d11: F, d21: F, d22: F) -> [F; 3] {
    // Scaled, so that no product of two entries overflows.
    let size = d11.abs().max(d21.abs()).max(d22.abs());
    let determinant = (d11 / size) * d22 - (d21 / size) * d21;
    [
        d22 / size / determinant,
        -d21 / size / determinant,
        d11 / size / determinant,
    ]
}

/// Whether the determinant of a block of order 2 is more than the rounding error of the products it is the difference of:
/// at least half as large as the larger of them. It must be normal in the units of the largest entry too, so that the
/// inverse does not overflow.
#[inline(always)]
fn is_regular<F: RealScalar>(d11: F, d21: F, d22: F) -> bool {
    let size = d11.abs().max(d21.abs()).max(d22.abs());
    let (left, right) = ((d11 / size) * d22, (d21 / size) * d21);
    let least = F::from_f64(0.5) * left.abs().max(right.abs());
    (left - right).abs() >= least.max(F::min_positive_value())
}

/// Whether a magnitude counts as zero.
#[inline(always)]
fn counts_as_zero<F: RealScalar>(size: F, rule: &ResolvedSymmetric<F>) -> bool {
    size == F::zero() || size < rule.small
}

/// Divides `n` values by `d`.
///
/// # Safety
///
/// `p` is valid for `n` values.
#[inline(always)]
unsafe fn divide<F: RealScalar, S: Simd<F>>(n: usize, p: *mut F, d: F) {
    let reciprocal = d.recip();
    // SAFETY: the caller's contract.
    unsafe {
        if reciprocal.is_normal() {
            scale::<F, S>(n, p, reciprocal);
        } else {
            for i in 0..n {
                *p.add(i) /= d;
            }
        }
    }
}

/// Columns `begin..end` of a triangle, rows from `begin` on: column j −= l · (d · l(j)), or for a pivot of order 2
/// the same with both of its columns. Above the diagonal, some entries are changed too.
///
/// # Safety
///
/// The columns of `a`, `ld` apart, and of `l` are valid for `rows` rows.
#[inline(always)]
unsafe fn update_columns<F: RealScalar, S: Simd<F>>(
    [begin, end, rows]: [usize; 3],
    a: *mut F,
    ld: usize,
    l: *const F,
    weights: impl Fn(usize) -> F,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut j = begin;
        while j < end {
            let (n, from, to) = (rows - j, l.add(j), a.add(j + j * ld));
            match end - j {
                1 => rank_one::<F, S, 1>(n, from, to, ld, [weights(j)]),
                2 => rank_one::<F, S, 2>(n, from, to, ld, [weights(j), weights(j + 1)]),
                3 => {
                    let u = [weights(j), weights(j + 1), weights(j + 2)];
                    rank_one::<F, S, 3>(n, from, to, ld, u);
                }
                _ => {
                    let u = [weights(j), weights(j + 1), weights(j + 2), weights(j + 3)];
                    rank_one::<F, S, 4>(n, from, to, ld, u);
                }
            }
            j += 4;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_without_an_inverse_in_range_are_no_pivots() {
        assert!(is_regular(0.0, 1.0, 0.0) && is_regular(2.0, 1.0, -3.0));
        assert!(is_regular(0.0, 1e-300, 0.0));
        // The inverse has entries of 1e311, or its determinant is rounding.
        assert!(!is_regular(0.0, 1e-311, 0.0) && !is_regular(1.0, 1e-170, 1e-311));
        assert!(!is_regular(1.0, 1.0 - 1e-9, 1.0));
        let inverse = inverse_of_two(2.0, 1.0, -3.0);
        assert_eq!(inverse.map(|v: f64| v * 7.0), [3.0, 1.0, -2.0]);
    }
}
