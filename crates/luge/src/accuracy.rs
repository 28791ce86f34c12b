//! What is known of a solution that one pass of triangular solves gave.

use luge_sparse::{Quality, Scaling};
use serde::Serialize;

/// Matrices and solutions with a largest entry in this range have lost no digits to underflow, wherever they were computed.
pub(crate) const ORDINARY: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

/// The same for factors in `f32`.
pub(crate) const ORDINARY_SINGLE: std::ops::RangeInclusive<f64> = 1e-22..=1e22;

/// How good solutions are that were computed in place, by
/// [`Factors::solve_in_place`](crate::Factors::solve_in_place) and its kin.
///
/// The backward error is the normwise one, ‖b − A·x‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞), for A as the caller stores it (Aᵀ where the
/// transpose was solved with) and for the solution that the call returns. Of several right-hand sides it is the largest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Accuracy {
    /// The backward error if it was measured, else a bound of it that holds for every right-hand side. `None` where
    /// the options forbid to measure anything: see [`ResidualCheck`](crate::ResidualCheck).
    pub backward_error: Option<f64>,
    /// Whether it was measured.
    pub is_measured: bool,
    /// Steps of refinement that the solution took.
    pub refinement_steps: usize,
}

impl Accuracy {
    pub(crate) fn bounded(bound: Option<f64>) -> Self {
        Self {
            backward_error: bound,
            is_measured: false,
            refinement_steps: 0,
        }
    }

    pub(crate) fn measured(backward_error: f64, refinement_steps: usize) -> Self {
        Self {
            backward_error: Some(backward_error),
            is_measured: true,
            refinement_steps,
        }
    }
}

/// One pass of triangular solves is enough where its backward error is known to be at most this times the target.
pub(crate) const SLACK: f64 = 100.0;

/// Factors whose checksum is below this many ε, and whose growth is below [`TRUSTED_GROWTH`], are as
/// good as any: a probe would only repeat the measurement.
const TRUSTED_CHECKSUM: f64 = 512.0;

/// Factors that do not grow beyond this are as good as their checksum.
pub(crate) const TRUSTED_GROWTH: f64 = 1e6;

/// Pivots that are this many ε apart, or a pivot that is no more than this many ε of what it was computed from, make a
/// matrix worth a condition estimate before it is accepted.
const SUSPICIOUS_PIVOTS: f64 = 512.0;

/// As long as each pivot stays within this factor of what it was, rows and columns have about kept their scale. Errors that the
/// norm of a matrix hides in rows that became small are errors of a [bound] as well, so this need not be close: conductances of
/// 10⁻¹² to ground that vanish in rounding, as the smallest ones of circuits do, change a pivot by 10⁸.
pub(crate) const SAME_SCALE: f64 = 1e9;

/// Whether factors in a type with this ε are as good as any are for B: their growth and checksum are small, and no pivot was
/// replaced.
pub(crate) fn is_small(quality: &Quality, epsilon: f64) -> bool {
    quality.checksum <= TRUSTED_CHECKSUM * epsilon && is_small_by_growth(quality)
}

/// The same of factors without a checksum: what their growth lets expect is for a [bound] to judge.
pub(crate) fn is_small_by_growth(quality: &Quality) -> bool {
    quality.num_perturbed == 0 && quality.growth <= TRUSTED_GROWTH
}

/// Whether a number is so small beside another one, in factors of a type with this ε, that it may be nothing but rounding.
pub(crate) fn may_be_rounding(smallest: f64, largest: f64, epsilon: f64) -> bool {
    smallest < SUSPICIOUS_PIVOTS * epsilon * largest
}

/// Whether pivots are so small, beside others or what they were computed from, that the matrix may be singular.
pub(crate) fn is_suspicious(quality: &Quality, epsilon: f64) -> bool {
    may_be_rounding(quality.min_pivot, quality.max_pivot, epsilon)
        || may_be_rounding(quality.min_relative_pivot, 1.0, epsilon)
}

/// Whether each pivot stayed within this factor of what it was.
pub(crate) fn keeps_scale(quality: &Quality, factor: f64) -> bool {
    quality.min_pivot_ratio * factor >= 1.0 && quality.max_pivot_ratio <= factor
}

/// Above this [`bound`] a probe may have been lucky: rows of A that are far larger than others hide the errors in these.
pub(crate) const WILD: f64 = 1e-4;

/// What is known of one pass of triangular solves with some factors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum OnePass {
    /// Its backward error is at most this, whatever the right-hand side.
    Bounded(f64),
    /// Nothing, and the caller does not want to know.
    Unknown,
    /// Too little: every solution has to be measured.
    Measured,
}

/// Rounding errors of a factorization and two triangular solves, as multiples of ε·|L|·|U| (Higham, "Accuracy and
/// Stability of Numerical Algorithms", theorem 9.4, without the factor n that is never seen).
const ROUNDINGS: f64 = 4.0;

/// The size of B − L·U relative to B that is to be expected of factors with this ε and growth.
pub(crate) fn of_growth(epsilon: f64, growth: f64) -> f64 {
    ROUNDINGS * epsilon * growth.max(1.0)
}

/// A bound of the backward error, for A, of one pass of triangular solves with factors of B = P·Dr·A·Dc·Q.
///
/// The residual of one pass is at most c·ε·Dr⁻¹·|L|·|U|·Dc⁻¹·|x|, so what matters is the largest entry of that product, and ‖A‖∞
/// is at least the largest entry of A. Infinite if it is not known.
pub(crate) fn bound(measured: BoundOf) -> f64 {
    let BoundOf {
        epsilon,
        product,
        residual,
        norm_a,
        exponent,
    } = measured;
    let relative = (ROUNDINGS * epsilon * product + residual) / norm_a;
    let bound = luge_solve::extended::shift(relative, exponent);
    if bound.is_nan() {
        f64::INFINITY
    } else {
        bound.max(epsilon)
    }
}

/// A bound of the backward error of one pass with the Cholesky factors of a definite A, whatever A and its scaling are: no entry of
/// |L|·|Lᵀ|, of the factors of A itself, is above the largest one of A's diagonal (Cauchy and Schwarz; Higham, theorem 10.3).
pub(crate) fn of_definite(epsilon: f64) -> f64 {
    // The factorization and the two solves, and something for sums over the rows of |L|·|Lᵀ|, which are longer than those of A.
    2.0 * ROUNDINGS * LONGER_ROWS * epsilon
}

/// How far the norm of |L|·|Lᵀ| may be above that of A. On definite matrices of the corpus errors of one pass are at most 4 ε.
const LONGER_ROWS: f64 = 16.0;

/// What [`bound`] is made of.
pub(crate) struct BoundOf {
    pub epsilon: f64,
    /// At least the largest entry of |L|·|U|, or of Dr⁻¹·|L|·|U|·Dc⁻¹ without the power of two that `exponent` has.
    pub product: f64,
    /// What was measured of B − L·U, beside the rounding errors that follow from the product.
    pub residual: f64,
    /// ‖A‖∞, or less.
    pub norm_a: f64,
    /// [`inverse_exponent`] of the scaling.
    pub exponent: i32,
}

/// The exponent of 1 / (min Dr · min Dc), rounded up.
pub(crate) fn inverse_exponent(scaling: &Scaling) -> i32 {
    let [rows, cols] = exponents_of_smallest(scaling);
    -rows - cols
}

/// The exponents of min Dr and min Dc, rounded down.
pub(crate) fn exponents_of_smallest(scaling: &Scaling) -> [i32; 2] {
    [&scaling.rows, &scaling.cols].map(|factors| {
        let smallest = factors.iter().copied().fold(f64::INFINITY, f64::min);
        if smallest.is_finite() {
            smallest.log2().floor() as i32
        } else {
            0
        }
    })
}
