//! Kernels of symmetric and Hermitian fronts: products on a triangle, elimination with pivots of order 1 and 2, the check.
//!
//! A front's panel of m rows and k columns is column-major and holds the lower triangle: L below the diagonal of the
//! pivots' columns, D on it. Of a pivot of order 2 in columns j and j + 1 the entry (j + 1, j) of D stands in row j of
//! column j + 1, above the diagonal, and entry (j + 1, j) of the panel is zero, as that of L. All else above the diagonal is
//! zero in the columns of pivots. In other columns, updates leave anything up to seven rows above it.
//!
//! Where the front is Hermitian, D is real on its diagonal, and what stands for entry (j, j + 1) is the conjugate of entry
//! (j + 1, j). Of a diagonal entry that is no pivot yet only the real part counts: updates leave rounding errors in the
//! imaginary one. `HERMITIAN` says which [`Form`] a kernel is for; what multiplies entries of L in an update is conjugated
//! where it is made, so that the products are those of symmetric fronts.
//!
//! Sizes of complex numbers are [magnitudes](Scalar::magnitude), |re| + |im|. A pivot d that is compared by them may leave an entry of
//! L twice as large as the bound, since |1/d| is up to 2/|d|; by their absolute values entries are at most √2 times the bound.
//!
//! [`factorize_block`] is a posteriori threshold pivoting, [`eliminate_symmetric`] threshold partial pivoting: see J. Hogg,
//! E. Ovtchinnikov and J. Scott, "A sparse symmetric indefinite direct solver for GPU architectures", ACM TOMS 42 (2016).
//! The acceptance test of a pivot of order 2: I. S. Duff and J. K. Reid, ACM TOMS 9 (1983).

use luge_sparse::num_traits::Float;
use luge_sparse::{Form, RealScalar, ResolvedSymmetric, Scalar};

use super::dense::{NR, rank_one, scale};
use super::simd::Simd;

mod block;
mod check;
mod columns;
mod product;
mod single;

pub(crate) use block::factorize_block;
pub use block::{BLOCK_COLUMNS, BlockScratch};
pub use check::CheckLower;
pub(crate) use check::check_lower;
pub(crate) use columns::eliminate_symmetric;
pub(crate) use product::{gemm_lower, times_diagonal};
pub(crate) use single::eliminate_single;
pub use single::{SINGLE_ROWS, SingleFront};

/// Columns that an update of several columns reaches above the diagonal.
const ABOVE: usize = NR;

/// The panel of a symmetric front under elimination.
#[derive(Debug)]
pub struct SymmetricPanel<F: Scalar> {
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
    pub expected: *mut F::Real,
    /// What counterparts across the diagonal are.
    pub form: Form,
}

/// How far an elimination of a symmetric front came; `R` is the type of magnitudes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<R> {
    /// Pivots, a pivot of order 2 counted as two.
    pub pivots: usize,
    /// Why the factorization cannot go on.
    pub event: Option<SymmetricEvent<R>>,
}

/// Why an elimination of a symmetric front ended before its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SymmetricEvent<R> {
    /// Nothing of size is left of the column that stood at this position before the elimination.
    Zero(u32),
    /// A definite matrix was asked for, and this is the pivot of the column that stood at this position.
    NotPositive(u32, R),
}

impl<F: Scalar> SymmetricPanel<F> {
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
            if self.form.conjugates::<F>() {
                // These, and the entry of a and b, have come from the other triangle.
                for i in a + 1..b {
                    for entry in [lp.add(i + a * m), lp.add(b + i * m)] {
                        *entry = (*entry).conjugate();
                    }
                }
                let entry = lp.add(b + a * m);
                *entry = (*entry).conjugate();
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

/// The products whose difference is the determinant of `[d11 d12; d21 d22]`, where d12 is the counterpart of d21, divided by
/// the largest entry, which comes first: so no product of two entries overflows.
#[inline(always)]
fn products_of_two<F: Scalar>(form: Form, [d11, d21, d22]: [F; 3]) -> (F::Real, F, F) {
    let size = d11.magnitude().max(d21.magnitude()).max(d22.magnitude());
    let left = d11.over_real(size) * d22;
    let right = d21.over_real(size) * form.counterpart(d21);
    (size, form.on_diagonal(left), form.on_diagonal(right))
}

/// E⁻¹ for E = `[d11 d12; d21 d22]`, where d12 is the counterpart of d21, as (11), (21), (22).
#[inline(always)]
pub fn inverse_of_two<F: Scalar>(form: Form, [d11, d21, d22]: [F; 3]) -> [F; 3] {
    let (size, left, right) = products_of_two(form, [d11, d21, d22]);
    let determinant = left - right;
    [d22, -d21, d11].map(|entry| entry.over_real(size).quotient(determinant))
}

/// Whether a block of order 2 may be a pivot, as [`inverse_of_two`] takes it: its determinant is more than the rounding error of the products it is the difference of:
/// at least half as large as the larger of them. It must be normal in the units of the largest entry too, so that the
/// inverse does not overflow.
#[inline(always)]
pub fn is_regular<F: Scalar>(form: Form, d: [F; 3]) -> bool {
    let (_, left, right) = products_of_two(form, d);
    let least = F::Real::from_f64(0.5) * left.magnitude().max(right.magnitude());
    (left - right).magnitude() >= least.max(F::Real::min_positive_value())
}

/// Whether a magnitude counts as zero.
#[inline(always)]
fn counts_as_zero<R: RealScalar>(size: R, rule: &ResolvedSymmetric<R>) -> bool {
    size == R::zero() || size < rule.small
}

/// The form that a kernel is for.
#[inline(always)]
const fn form(hermitian: bool) -> Form {
    if hermitian {
        Form::Hermitian
    } else {
        Form::Symmetric
    }
}

/// Divides `n` values by `d`.
///
/// # Safety
///
/// `p` is valid for `n` values.
#[inline(always)]
unsafe fn divide<F: Scalar, S: Simd<F>>(n: usize, p: *mut F, d: F) {
    let reciprocal = d.reciprocal();
    // SAFETY: the caller's contract.
    unsafe {
        if reciprocal.magnitude().is_normal() {
            scale::<F, S>(n, p, reciprocal);
        } else {
            for i in 0..n {
                *p.add(i) = (*p.add(i)).quotient(d);
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
unsafe fn update_columns<F: Scalar, S: Simd<F>>(
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
