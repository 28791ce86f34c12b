//! Fronts of one pivot and few rows, most of those of many sparse matrices: all work on one in one call. Loops that hardly run would
//! take longer than the work.

use std::mem::MaybeUninit;

use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{ResolvedSymmetric, Scalar};

use super::{counts_as_zero, form};
use crate::dense::max_abs;
use crate::simd::Simd;

/// Most rows below the pivot that [`eliminate_single`](crate::SymmetricKernels::eliminate_single) takes.
pub const SINGLE_ROWS: usize = 32;

/// A front of one pivot.
#[derive(Debug)]
pub struct SingleFront<F> {
    /// Its column, `below + 1` values.
    pub column: *mut F,
    /// Rows below the pivot, at most [`SINGLE_ROWS`].
    pub below: usize,
    /// The generated element, `below` × `below`, and as many column sums of |L|·|D|·|Lᵀ|: what comes from children, in the lower
    /// triangle.
    pub element: *mut F,
    /// Whether nothing comes from children, and the element is not initialized.
    pub is_leaf: bool,
    /// The pivot's own column sum.
    pub product: *mut F,
}

/// Eliminates the pivot, adds to the column sums, and updates the element, with the operations of
/// [`factorize_block`](super::factorize_block), [`check_lower`](super::check_lower) and the products on a triangle. Returns the
/// largest magnitude in L. `None`, with the column as it was and all else unspecified, where these have to look closer: the pivot is
/// not acceptable, its reciprocal is not normal, or the sums may not be finite.
///
/// # Safety
///
/// The arrays are valid for the sizes that are said, and do not overlap. The rule searches by blocks, or all pivots have to be positive.
#[inline(always)]
pub(crate) unsafe fn eliminate_single<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    front: &SingleFront<F>,
    rule: &ResolvedSymmetric<F::Real>,
) -> Option<F::Real> {
    let c = front.below;
    // SAFETY: the caller's contract.
    unsafe {
        let d = form(HERMITIAN).on_diagonal(*front.column);
        let bound = if rule.method.is_some() {
            let size = d.magnitude();
            if size.is_nan() || counts_as_zero(size, rule) {
                return None;
            }
            rule.threshold.recip()
        } else {
            let value = d.real();
            if value.is_nan() || value <= F::Real::zero() {
                return None;
            }
            F::Real::infinity()
        };
        let reciprocal = d.reciprocal();
        if !reciprocal.magnitude().is_normal() {
            return None;
        }
        let below = front.column.add(1);
        if max_abs::<F, S>(c, below) * reciprocal.magnitude() > bound {
            return None;
        }
        let factor = S::splat(reciprocal);
        let zero = S::splat(F::zero());
        let (mut sum, mut largest) = (zero, zero);
        for i in (0..c).step_by(S::W) {
            let l = S::mul(S::load_masked(below.add(i), rows::<F, S>(c - i)), factor);
            sum = S::add(sum, S::abs(l));
            largest = S::max(largest, S::abs(l));
        }
        let weight = (F::one() + S::sum(sum)) * F::from_real(d.magnitude());
        let product = *front.product + weight;
        let sums = front.element.add(c * c);
        let (weight, mut total) = (S::splat(weight), zero);
        for i in (0..c).step_by(S::W) {
            let mask = rows::<F, S>(c - i);
            let l = S::mul(S::load_masked(below.add(i), mask), factor);
            let before = if front.is_leaf {
                zero
            } else {
                S::load_masked(sums.add(i), mask)
            };
            let sum = S::fma(S::abs(l), weight, before);
            total = S::add(total, sum);
            S::store_masked(sums.add(i), sum, mask);
        }
        if !(product + S::sum(total)).is_number() {
            return None;
        }
        (*front.product, *front.column) = (product, d);
        // Clearing it would take as long as all else.
        let mut x = MaybeUninit::<[F; SINGLE_ROWS]>::uninit();
        let x = x.as_mut_ptr().cast::<F>();
        for i in (0..c).step_by(S::W) {
            let mask = rows::<F, S>(c - i);
            let l = S::mul(S::load_masked(below.add(i), mask), factor);
            S::store_masked(below.add(i), l, mask);
            let scaled = S::mul(l, S::splat(d));
            let scaled = if HERMITIAN {
                S::conjugate(scaled)
            } else {
                scaled
            };
            S::store_masked(x.add(i), scaled, mask);
        }
        for j in 0..c {
            let (x, column) = (S::splat(*x.add(j)), front.element.add(j * c));
            for i in (j..c).step_by(S::W) {
                let mask = rows::<F, S>(c - i);
                let before = if front.is_leaf {
                    zero
                } else {
                    S::load_masked(column.add(i), mask)
                };
                let l = S::load_masked(below.add(i), mask);
                S::store_masked(column.add(i), S::fnma(l, x, before), mask);
            }
        }
        Some(S::largest(largest))
    }
}

/// Selects as many of these rows as a vector has lanes.
///
/// # Safety
///
/// The processor has the instructions.
#[inline(always)]
unsafe fn rows<F: Scalar, S: Simd<F>>(rows: usize) -> S::M {
    // SAFETY: no more than there are lanes; the caller's contract.
    unsafe { S::mask(S::W.min(rows)) }
}
