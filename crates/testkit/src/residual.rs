//! Backward errors, factor errors, and the bound they are held to.
//!
//! Everything is computed in `f64`, or complex numbers of it. |z| of a complex number is |re| + |im| in all of this, the
//! [magnitude](Scalar::magnitude), as in what the solver states: at most √2 times the absolute value. An error that is not a number is reported as
//! infinite, so that no comparison lets it pass.

use luge_sparse::num_traits::Float;
use luge_sparse::{CompressedPattern, RealScalar, Scalar};
use sprs::CsMat;

/// The c of the bound c·n·ε that every backward and factor error in Luge's tests is held to.
///
/// Higham (Accuracy and Stability, Theorem 9.4) gives 3·n·ε·|L|·|U|; the rest is room for the growth
/// that matching and threshold pivoting leave. Refined solutions lie far below.
pub const ERROR_FACTOR: f64 = 16.0;

/// The bound c·n·ε for a system of order `n` in precision `T`, with n at least 1.
pub fn error_bound<T: Scalar>(n: usize) -> f64 {
    ERROR_FACTOR * n.max(1) as f64 * T::Real::epsilon().to_f64()
}

/// ‖·‖∞ of a matrix, the largest sum of absolute values over a row.
pub fn norm_inf<T: Scalar>(a: &CsMat<T>) -> f64 {
    let mut sums = vec![0.0; a.rows()];
    for (&value, (i, _)) in a {
        sums[i] += value.widen().magnitude();
    }
    sums.into_iter().fold(0.0, f64::max)
}

/// ‖·‖∞ of a vector.
pub fn norm_inf_vec<T: Scalar>(x: &[T]) -> f64 {
    x.iter()
        .fold(0.0, |m, &v| f64::max(m, v.widen().magnitude()))
}

/// b − A·x, each row as if it was summed with twice as many digits: rows of a supply net have a hundred thousand entries,
/// whose rounding would be taken for the solver's (T. Ogita, S. M. Rump and S. Oishi, "Accurate sum and dot product", SIAM
/// J. Sci. Comput. 26, 2005).
///
/// # Panics
///
/// If a length does not match.
#[track_caller]
pub fn residual<T: Scalar>(a: &CsMat<T>, x: &[T], b: &[T]) -> Vec<T::Wide> {
    assert_eq!(x.len(), a.cols(), "one entry of x per column");
    assert_eq!(b.len(), a.rows(), "one entry of b per row");
    // Sums of the parts of each entry, and what rounding took from them.
    let mut r: Vec<[(f64, f64); 2]> = (b.iter())
        .map(|&b| parts(b.widen()).map(|part| (part, 0.0)))
        .collect();
    for (&value, (i, j)) in a {
        let (value, x) = (parts(value.widen()), parts(x[j].widen()));
        for of_value in 0..T::COMPONENTS {
            for of_x in 0..T::COMPONENTS {
                // i·i is −1, and the product is taken off.
                let sign = if of_value + of_x == 2 { 1.0 } else { -1.0 };
                let sum = &mut r[i][(of_value + of_x) % 2];
                *sum = with_product(*sum, sign * value[of_value], x[of_x]);
            }
        }
    }
    let whole = |r: [(f64, f64); 2]| T::Wide::from_components(|at| r[at].0 + r[at].1);
    r.into_iter().map(whole).collect()
}

/// The real and the imaginary part; zero for the latter of a real number.
fn parts<W: Scalar<Real = f64>>(number: W) -> [f64; 2] {
    let (mut parts, mut at) = ([0.0; 2], 0);
    number.map_components(|part| {
        parts[at] = part;
        at += 1;
        part
    });
    parts
}

/// A sum, and what rounding took from it, with one product more.
fn with_product((sum, lost): (f64, f64), factor: f64, x: f64) -> (f64, f64) {
    let product = factor * x;
    let lost_in_product = factor.mul_add(x, -product);
    let total = sum + product;
    let back = total - sum;
    let lost_in_sum = (sum - (total - back)) + (product - back);
    (total, lost + (lost_in_product + lost_in_sum))
}

/// The normwise backward error ‖b − A·x‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞); zero if the residual is zero.
///
/// # Panics
///
/// If a length does not match.
#[track_caller]
pub fn normwise_backward_error<T: Scalar>(a: &CsMat<T>, x: &[T], b: &[T]) -> f64 {
    let r = residual(a, x, b);
    if !all_finite(x, &r) {
        return f64::INFINITY;
    }
    let (norm_r, norm_a) = (norm_inf_vec(&r), norm_inf(a));
    let (norm_x, norm_b) = (norm_inf_vec(x), norm_inf_vec(b));
    let scale = norm_a * norm_x + norm_b;
    if scale.is_finite() {
        ratio(norm_r, scale)
    } else {
        // The product overflowed, though its factors did not: divide by ‖A‖ first.
        ratio(norm_r / norm_a, norm_x + norm_b / norm_a)
    }
}

/// The componentwise backward error of Oettli and Prager, the largest |b − A·x|ᵢ / (|A|·|x| + |b|)ᵢ;
/// a row without residual counts as zero.
///
/// # Panics
///
/// If a length does not match.
#[track_caller]
pub fn componentwise_backward_error<T: Scalar>(a: &CsMat<T>, x: &[T], b: &[T]) -> f64 {
    let r = residual(a, x, b);
    if !all_finite(x, &r) {
        return f64::INFINITY;
    }
    let mut scale: Vec<f64> = b.iter().map(|&b| b.widen().magnitude()).collect();
    for (&value, (i, j)) in a {
        scale[i] += (value.widen() * x[j].widen()).magnitude();
    }
    let rows = r.iter().zip(&scale);
    rows.fold(0.0, |worst, (r, s)| {
        f64::max(worst, ratio(r.magnitude(), *s))
    })
}

/// ‖B − L·U‖∞ / ‖B‖∞ for the factors of B held together: `cols` is the CSC pattern of L+U with
/// sorted rows, `values` one value per entry, the unit diagonal of L not stored. O(n²) memory: for
/// small matrices.
///
/// # Panics
///
/// If the lengths do not match.
#[track_caller]
pub fn factor_error<T: Scalar>(b: &CsMat<T>, cols: &CompressedPattern, values: &[T]) -> f64 {
    let n = cols.major_dim();
    assert_eq!(b.shape(), (n, n), "matrix and factors differ in order");
    assert_eq!(cols.nnz(), values.len(), "one value per entry");
    // Column by column: what is left of B(:, j) after the columns of L, each weighted by U(:, j).
    let mut left = vec![vec![T::Wide::default(); n]; n];
    for (&value, (i, j)) in b {
        left[j][i] = value.widen();
    }
    for (j, column) in left.iter_mut().enumerate() {
        for p in cols.range(j) {
            let (k, u) = (cols.idx()[p] as usize, values[p].widen());
            if k > j {
                continue;
            }
            column[k] -= u;
            for q in cols.range(k) {
                let i = cols.idx()[q] as usize;
                if i > k {
                    column[i] -= values[q].widen() * u;
                }
            }
        }
    }
    let row_sum = |i: usize| left.iter().map(|column| column[i].magnitude()).sum::<f64>();
    let sums: Vec<f64> = (0..n).map(row_sum).collect();
    if sums.iter().any(|s| !s.is_finite()) {
        return f64::INFINITY;
    }
    ratio(sums.into_iter().fold(0.0, f64::max), norm_inf(b))
}

fn all_finite<T: Scalar>(x: &[T], r: &[T::Wide]) -> bool {
    x.iter().all(|x| x.is_number()) && r.iter().all(|r| r.is_number())
}

/// Nothing by nothing is nothing; an infinite scale or one that is not a number excuses no error.
fn ratio(error: f64, scale: f64) -> f64 {
    if error == 0.0 {
        0.0
    } else if scale.is_finite() {
        error / scale
    } else {
        f64::INFINITY
    }
}

/// Asserts that `x` solves `A·x = b` with a normwise backward error of at most
/// [`error_bound`].
///
/// # Panics
///
/// If it does not, with the error, the bound and the row of the largest residual; or if a length
/// does not match.
#[track_caller]
pub fn assert_backward_error<T: Scalar>(a: &CsMat<T>, x: &[T], b: &[T]) {
    let (error, bound) = (normwise_backward_error(a, x, b), error_bound::<T>(a.rows()));
    if error > bound {
        let r = residual(a, x, b);
        let key = |v: &T::Wide| {
            if v.is_number() {
                v.magnitude()
            } else {
                f64::INFINITY
            }
        };
        let worst = (0..r.len()).max_by(|&i, &j| key(&r[i]).total_cmp(&key(&r[j])));
        panic!(
            "normwise backward error {error:e} exceeds {bound:e} ({ERROR_FACTOR} n ε, n = {}, {}); \
             the largest residual, {:e}, is in row {}",
            a.rows(),
            T::NAME,
            worst.map_or(f64::NAN, |i| r[i].magnitude()),
            worst.unwrap_or(0),
        );
    }
}

/// Asserts that L·U is B up to [`error_bound`]; arguments as in [`factor_error`].
///
/// # Panics
///
/// If it is not, with the error and the bound; or if the lengths do not match.
#[track_caller]
pub fn assert_factor_error<T: Scalar>(b: &CsMat<T>, cols: &CompressedPattern, values: &[T]) {
    let (error, bound) = (factor_error(b, cols, values), error_bound::<T>(b.rows()));
    assert!(
        error <= bound,
        "‖B − L·U‖/‖B‖ = {error:e} exceeds {bound:e} ({ERROR_FACTOR} n ε, n = {}, {})",
        b.rows(),
        T::NAME
    );
}

/// A right-hand side whose solution is known up to rounding: x with entries 1, 2, 3, 1, 2, 3, … and
/// b = A·x. Returns (b, x).
pub fn known_solution<T: Scalar>(a: &CsMat<T>) -> (Vec<T>, Vec<T>) {
    let x: Vec<T> = (0..a.cols())
        .map(|j| T::narrow(T::Wide::from_real((j % 3 + 1) as f64)))
        .collect();
    let zero = vec![T::zero(); a.rows()];
    let b = residual(a, &x, &zero)
        .into_iter()
        .map(|r| T::narrow(-r))
        .collect();
    (b, x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::{of_both_parts, pattern_of, to_scalar};
    use crate::generators::applications::{convection_diffusion_2d, laplacian_2d};
    use luge_reference::Dense;
    use luge_reference::numeric::{lu_dense, lu_right_looking};
    use luge_reference::solve::{self, dense_solve};
    use luge_reference::symbolic::fill1;
    use luge_sparse::PivotPolicy;
    use num_complex::Complex;
    use sprs::TriMat;

    fn solved() -> (CsMat<f64>, Vec<f64>, Vec<f64>) {
        let a = convection_diffusion_2d(6, 5, 20.0);
        let b: Vec<f64> = (0..30).map(|i| (i as f64).cos()).collect();
        let dense = Dense::from_csr(&pattern_of(&a), a.data());
        let x = dense_solve(&lu_dense(&dense, PivotPolicy::PARTIAL).unwrap(), &b);
        (a, x, b)
    }

    #[test]
    fn errors_are_those_of_the_reference() {
        let (a, mut x, b) = solved();
        x[7] += 1e-3;
        let pattern = pattern_of(&a);
        // The reference sums up in plain arithmetic, whose rounding is small beside this error.
        let is_close = |ours: f64, theirs: f64| (ours - theirs).abs() <= 1e-12 * theirs;
        assert!(is_close(
            normwise_backward_error(&a, &x, &b),
            solve::normwise_backward_error(&pattern, a.data(), &x, &b)
        ));
        assert!(is_close(
            componentwise_backward_error(&a, &x, &b),
            solve::componentwise_backward_error(&pattern, a.data(), &x, &b)
        ));
    }

    #[test]
    fn long_rows_are_summed_with_more_digits() {
        // Plain arithmetic adds none of the thousand ones to the large entry before them.
        let n = 1002;
        let mut a = TriMat::new((n, n));
        for j in 0..n {
            let large = if j == 0 { 1e16 } else { -1e16 };
            let is_end = j == 0 || j == n - 1;
            a.add_triplet(0, j, if is_end { large } else { 1.0 });
        }
        let a: CsMat<f64> = a.to_csr();
        let r = residual(&a, &vec![1.0; n], &vec![0.0; n]);
        assert_eq!(r[0], -1000.0);
    }

    #[test]
    fn complex_errors_are_those_of_the_real_system_of_both_parts() {
        let (a, x, b) = solved();
        let complex = |v: f64, turn: f64| Complex::new(v * turn.cos(), v * turn.sin());
        let mut at = 0.0;
        let a = a.map(|&v| {
            at += 1.0;
            complex(v, at)
        });
        let x: Vec<_> = x.iter().map(|&v| complex(v, v)).collect();
        let b: Vec<_> = b.iter().map(|&v| complex(v, 3.0 * v)).collect();
        let parts = |v: &[Complex<f64>]| -> Vec<f64> {
            let im = v.iter().map(|v| v.im);
            v.iter().map(|v| v.re).chain(im).collect()
        };
        let expected = residual(&of_both_parts(&a), &parts(&x), &parts(&b));
        let found = parts(&residual(&a, &x, &b));
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-30 + 1e-15 * expected.abs());
        }
    }

    #[test]
    fn a_right_answer_passes() {
        let (a, x, b) = solved();
        assert_backward_error(&a, &x, &b);
        let none = CsMat::<f64>::zero((0, 0)).to_csr();
        assert_backward_error(&none, &[], &[]);
    }

    #[test]
    #[should_panic(expected = "the largest residual")]
    fn a_wrong_answer_fails() {
        let (a, mut x, b) = solved();
        x[11] *= 1.0 + 1e-9;
        assert_backward_error(&a, &x, &b);
    }

    #[test]
    #[should_panic(expected = "backward error inf exceeds")]
    fn a_nan_fails() {
        let (a, mut x, b) = solved();
        x[11] = f64::NAN;
        assert_backward_error(&a, &x, &b);
    }

    #[test]
    fn a_nan_in_an_empty_column_fails_too() {
        let a = CsMat::new((1, 2), vec![0, 1], vec![0], vec![1.0]);
        assert_eq!(
            normwise_backward_error(&a, &[1.0, f64::NAN], &[1.0]),
            f64::INFINITY
        );
        assert_eq!(
            componentwise_backward_error(&a, &[1.0, f64::NAN], &[1.0]),
            f64::INFINITY
        );
    }

    #[test]
    fn an_overflow_of_the_norms_hides_no_error() {
        // ‖A‖·‖x‖ is 1e400; the second row is off by half of what it should be.
        let a = CsMat::new((2, 2), vec![0, 1, 2], vec![0, 1], vec![1e200, 1.0]);
        let (x, b) = ([0.0, 1e200], [1e300, 2e200]);
        assert_eq!(normwise_backward_error(&a, &x, &[0.0, 1e200]), 0.0);
        assert!(normwise_backward_error(&a, &x, &b) > 1e-101);
        assert_eq!(componentwise_backward_error(&a, &x, &b), 1.0);
    }

    #[test]
    fn right_factors_pass_and_wrong_ones_are_measured() {
        let a = laplacian_2d(5, 6);
        let rows = pattern_of(&a);
        let mut lu = lu_right_looking(&fill1(&rows), &rows, a.data(), PivotPolicy::STATIC).unwrap();
        assert_factor_error(&a, &lu.cols, &lu.values);
        // One entry of U off by 8 in a row: ‖B‖∞ is 8.
        let at = lu.diag_pos[29] as usize;
        lu.values[at] += 8.0;
        let error = factor_error(&a, &lu.cols, &lu.values);
        assert!((error - 1.0).abs() < 1e-12, "{error}");
        lu.values[at] = f64::NAN;
        assert_eq!(factor_error(&a, &lu.cols, &lu.values), f64::INFINITY);
    }

    #[test]
    #[should_panic(expected = "exceeds")]
    fn wrong_factors_fail() {
        let a = laplacian_2d(3, 3);
        let rows = pattern_of(&a);
        let mut lu = lu_right_looking(&fill1(&rows), &rows, a.data(), PivotPolicy::STATIC).unwrap();
        let below = lu.below(0).start;
        lu.values[below] += 1e-10;
        assert_factor_error(&a, &lu.cols, &lu.values);
    }

    #[test]
    fn the_bound_follows_precision_and_order() {
        assert_eq!(error_bound::<f64>(0), 16.0 * f64::EPSILON);
        assert_eq!(error_bound::<f64>(100), 1600.0 * f64::EPSILON);
        assert!(error_bound::<f32>(10) > 1e6 * error_bound::<f64>(10));
    }

    #[test]
    fn the_known_solution_belongs_to_its_right_hand_side() {
        let a: CsMat<f32> = to_scalar(&laplacian_2d(4, 4));
        let (b, x) = known_solution(&a);
        assert_eq!(x[..4], [1.0, 2.0, 3.0, 1.0]);
        assert_eq!(normwise_backward_error(&a, &x, &b), 0.0);
    }
}
