//! Triangular solves with dense and sparse factors, residuals and backward errors.

use luge_sparse::{CompressedPattern, RealScalar, Scalar};

use crate::dense::Dense;
use crate::numeric::{DenseLu, SparseLu};

#[track_caller]
fn check_length<T>(n: usize, b: &[T]) {
    assert_eq!(
        n,
        b.len(),
        "the right-hand side must have one entry per row"
    );
}

/// Solves L·y = b with the unit lower part of `factors`, row by row.
///
/// # Panics
///
/// If `b` is not as long as the matrix has rows.
#[track_caller]
pub fn dense_solve_lower<T: RealScalar>(factors: &Dense<T>, b: &[T]) -> Vec<T> {
    check_length(factors.nrows(), b);
    let mut y = b.to_vec();
    for i in 0..y.len() {
        for j in 0..i {
            y[i] = y[i] - factors[(i, j)] * y[j];
        }
    }
    y
}

/// Solves U·x = y with the upper part of `factors`, row by row from the last.
///
/// # Panics
///
/// If `y` is not as long as the matrix has rows.
#[track_caller]
pub fn dense_solve_upper<T: RealScalar>(factors: &Dense<T>, y: &[T]) -> Vec<T> {
    check_length(factors.nrows(), y);
    let mut x = y.to_vec();
    for i in (0..x.len()).rev() {
        for j in i + 1..x.len() {
            x[i] = x[i] - factors[(i, j)] * x[j];
        }
        x[i] /= factors[(i, i)];
    }
    x
}

/// Solves A·x = b with dense factors.
///
/// # Panics
///
/// If `b` is not as long as the matrix has rows.
#[track_caller]
pub fn dense_solve<T: RealScalar>(lu: &DenseLu<T>, b: &[T]) -> Vec<T> {
    let permuted = lu.row_perm.gather(b);
    dense_solve_upper(&lu.factors, &dense_solve_lower(&lu.factors, &permuted))
}

/// Solves Aᵀ·x = b with dense factors: Uᵀ·z = b, Lᵀ·y = z, x = Pᵀ·y.
///
/// # Panics
///
/// If `b` is not as long as the matrix has rows.
#[track_caller]
pub fn dense_solve_transpose<T: RealScalar>(lu: &DenseLu<T>, b: &[T]) -> Vec<T> {
    check_length(lu.factors.nrows(), b);
    let n = b.len();
    let mut y = b.to_vec();
    for j in 0..n {
        for i in 0..j {
            y[j] = y[j] - lu.factors[(i, j)] * y[i];
        }
        y[j] /= lu.factors[(j, j)];
    }
    for j in (0..n).rev() {
        for i in j + 1..n {
            y[j] = y[j] - lu.factors[(i, j)] * y[i];
        }
    }
    lu.row_perm.scatter(&y)
}

/// Solves L·y = b: each column of L in increasing order is subtracted from the entries below it.
///
/// # Panics
///
/// If `b` is not as long as the matrix has rows.
#[track_caller]
pub fn solve_lower<T: Scalar>(lu: &SparseLu<T>, b: &[T]) -> Vec<T> {
    check_length(lu.n(), b);
    let mut y = b.to_vec();
    for j in 0..lu.n() {
        for p in lu.below(j) {
            let i = lu.cols.idx()[p] as usize;
            y[i] = y[i] - lu.values[p] * y[j];
        }
    }
    y
}

/// Solves U·x = y: from the last column, divide by the pivot and subtract the column above it.
///
/// # Panics
///
/// If `y` is not as long as the matrix has rows.
#[track_caller]
pub fn solve_upper<T: Scalar>(lu: &SparseLu<T>, y: &[T]) -> Vec<T> {
    check_length(lu.n(), y);
    let mut x = y.to_vec();
    for j in (0..lu.n()).rev() {
        x[j] /= lu.pivot(j);
        for p in lu.above(j) {
            let i = lu.cols.idx()[p] as usize;
            x[i] = x[i] - lu.values[p] * x[j];
        }
    }
    x
}

/// Solves Uᵀ·y = b: each column of U in increasing order is a row of Uᵀ.
///
/// # Panics
///
/// If `b` is not as long as the matrix has rows.
#[track_caller]
pub fn solve_upper_transpose<T: Scalar>(lu: &SparseLu<T>, b: &[T]) -> Vec<T> {
    check_length(lu.n(), b);
    let mut y = b.to_vec();
    for j in 0..lu.n() {
        for p in lu.above(j) {
            y[j] = y[j] - lu.values[p] * y[lu.cols.idx()[p] as usize];
        }
        y[j] /= lu.pivot(j);
    }
    y
}

/// Solves Lᵀ·x = y: from the last column of L.
///
/// # Panics
///
/// If `y` is not as long as the matrix has rows.
#[track_caller]
pub fn solve_lower_transpose<T: Scalar>(lu: &SparseLu<T>, y: &[T]) -> Vec<T> {
    check_length(lu.n(), y);
    let mut x = y.to_vec();
    for j in (0..lu.n()).rev() {
        for p in lu.below(j) {
            x[j] = x[j] - lu.values[p] * x[lu.cols.idx()[p] as usize];
        }
    }
    x
}

/// Solves B·x = b with B = L·U.
///
/// # Panics
///
/// If `b` is not as long as the matrix has rows.
#[track_caller]
pub fn solve<T: Scalar>(lu: &SparseLu<T>, b: &[T]) -> Vec<T> {
    solve_upper(lu, &solve_lower(lu, b))
}

/// Solves Bᵀ·x = b with B = L·U.
///
/// # Panics
///
/// If `b` is not as long as the matrix has rows.
#[track_caller]
pub fn solve_transpose<T: Scalar>(lu: &SparseLu<T>, b: &[T]) -> Vec<T> {
    solve_lower_transpose(lu, &solve_upper_transpose(lu, b))
}

/// b − A·x for a CSR matrix, computed in `f64`.
///
/// # Panics
///
/// If a length does not match.
#[track_caller]
pub fn residual<T: RealScalar>(
    rows: &CompressedPattern,
    values: &[T],
    x: &[T],
    b: &[T],
) -> Vec<f64> {
    assert_eq!(rows.nnz(), values.len(), "one value per entry");
    assert_eq!(rows.minor_dim(), x.len(), "one entry of x per column");
    check_length(rows.major_dim(), b);
    (0..b.len())
        .map(|i| {
            let row = rows
                .range(i)
                .map(|p| (values[p], x[rows.idx()[p] as usize]));
            row.fold(b[i].to_f64(), |r, (a, x)| r - a.to_f64() * x.to_f64())
        })
        .collect()
}

/// The normwise backward error ‖b − A·x‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞).
///
/// Zero if the residual is zero, infinite if it or `x` is not finite.
///
/// # Panics
///
/// If a length does not match.
#[track_caller]
pub fn normwise_backward_error<T: RealScalar>(
    rows: &CompressedPattern,
    values: &[T],
    x: &[T],
    b: &[T],
) -> f64 {
    let norm = |v: &[T]| v.iter().map(|&v| v.to_f64().abs()).fold(0.0, f64::max);
    let norm_a = (0..rows.major_dim())
        .map(|i| rows.range(i).map(|p| values[p].to_f64().abs()).sum())
        .fold(0.0, f64::max);
    let residual = residual(rows, values, x, b);
    let all_finite = residual.iter().all(|r| r.is_finite()) && x.iter().all(|x| x.is_finite());
    let norm_r = residual.iter().map(|r| r.abs()).fold(0.0, f64::max);
    let scale = norm_a * norm(x) + norm(b);
    if scale.is_finite() {
        quotient(all_finite, norm_r, scale)
    } else {
        // The product overflowed, though its factors may not have: divide by ‖A‖ first.
        quotient(all_finite, norm_r / norm_a, norm(x) + norm(b) / norm_a)
    }
}

/// The componentwise backward error of Oettli and Prager: the largest of |b − A·x|ᵢ /
/// (|A|·|x| + |b|)ᵢ.
///
/// A row whose residual is zero counts as zero; infinite if a residual or `x` is not finite.
///
/// # Panics
///
/// If a length does not match.
#[track_caller]
pub fn componentwise_backward_error<T: RealScalar>(
    rows: &CompressedPattern,
    values: &[T],
    x: &[T],
    b: &[T],
) -> f64 {
    let residual = residual(rows, values, x, b);
    let all_finite = residual.iter().all(|r| r.is_finite()) && x.iter().all(|x| x.is_finite());
    let mut worst = quotient(all_finite, 0.0, 0.0);
    for i in 0..b.len() {
        let products = rows
            .range(i)
            .map(|p| (values[p], x[rows.idx()[p] as usize]));
        let scale = products.fold(b[i].to_f64().abs(), |s, (a, x)| {
            s + (a.to_f64() * x.to_f64()).abs()
        });
        worst = worst.max(quotient(all_finite, residual[i].abs(), scale));
    }
    worst
}

fn quotient(all_finite: bool, residual: f64, scale: f64) -> f64 {
    if !all_finite {
        f64::INFINITY
    } else if residual == 0.0 {
        0.0
    } else if scale.is_finite() {
        residual / scale
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::{matrices, pattern_of};
    use crate::numeric::{lu_dense, lu_right_looking};
    use crate::symbolic::fill1;
    use luge_sparse::PivotPolicy;
    use proptest::prelude::*;

    #[test]
    fn backward_errors_of_a_hand_made_case() {
        // A = [2 1; 0 4], x = (1, 1), b = (3, 5): residual (0, 1).
        let a = pattern_of(2, [(0, 0), (0, 1), (1, 1)]);
        let (values, x, b) = ([2.0, 1.0, 4.0], [1.0, 1.0], [3.0, 5.0]);
        assert_eq!(residual(&a, &values, &x, &b), [0.0, 1.0]);
        assert_eq!(normwise_backward_error(&a, &values, &x, &b), 1.0 / 9.0);
        assert_eq!(componentwise_backward_error(&a, &values, &x, &b), 1.0 / 9.0);
        // Scaling the first row moves the normwise error, not the componentwise one.
        let (values, b) = ([20.0, 10.0, 4.0], [30.0, 5.0]);
        assert_eq!(normwise_backward_error(&a, &values, &x, &b), 1.0 / 60.0);
        assert_eq!(componentwise_backward_error(&a, &values, &x, &b), 1.0 / 9.0);
    }

    #[test]
    fn what_is_not_finite_is_infinitely_wrong() {
        let a = pattern_of(1, [(0, 0)]);
        for x in [f64::NAN, f64::INFINITY] {
            assert_eq!(
                normwise_backward_error(&a, &[1.0], &[x], &[1.0]),
                f64::INFINITY
            );
            assert_eq!(
                componentwise_backward_error(&a, &[1.0], &[x], &[1.0]),
                f64::INFINITY
            );
        }
        // A column without entries hides its x from the residual.
        let empty = pattern_of(1, []);
        assert_eq!(
            normwise_backward_error(&empty, &[], &[f64::NAN], &[0.0]),
            f64::INFINITY
        );
        assert_eq!(normwise_backward_error(&empty, &[], &[1.0], &[0.0]), 0.0);
        assert_eq!(
            componentwise_backward_error(&empty, &[], &[1.0], &[2.0]),
            1.0
        );
        let none = pattern_of(0, []);
        assert_eq!(normwise_backward_error::<f64>(&none, &[], &[], &[]), 0.0);
    }

    #[test]
    fn an_overflow_of_the_norms_hides_no_error() {
        // ‖A‖·‖x‖ is 1e400: the backward error is (1e300/1e200) / (1e200 + 1e300/1e200).
        let a = pattern_of(2, [(0, 0), (1, 1)]);
        let error = normwise_backward_error(&a, &[1e200, 1.0], &[0.0, 1e200], &[1e300, 1e200]);
        assert!((error / 1e-100 - 1.0).abs() < 1e-12, "{error}");
    }

    #[test]
    fn pivoting_solves_exactly_what_small_integers_allow() {
        let a = Dense::from_fn(3, 3, |i, j| {
            [[0.0, 2.0, 1.0], [1.0, 1.0, 0.0], [4.0, 0.0, 0.0]][i][j]
        });
        let lu = lu_dense(&a, PivotPolicy::PARTIAL).unwrap();
        let x = [3.0, -1.0, 2.0];
        assert_eq!(dense_solve(&lu, &a.mul_vec(&x)), x);
        assert_eq!(dense_solve_transpose(&lu, &a.transpose().mul_vec(&x)), x);
    }

    /// Makes the diagonal dominate, so that elimination without pivoting is stable.
    fn dominate(a: &CompressedPattern, values: &[f64]) -> Vec<f64> {
        let mut values = values.to_vec();
        for i in 0..a.major_dim() {
            let sum: f64 = a.range(i).map(|p| values[p].abs()).sum();
            for p in a.range(i) {
                if a.idx()[p] as usize == i {
                    values[p] = 1.0 + sum;
                }
            }
        }
        values
    }

    proptest! {
        #[test]
        fn sparse_solves_have_small_backward_errors((a, values) in matrices(40)) {
            let values = dominate(&a, &values);
            let n = a.major_dim();
            let lu = lu_right_looking(&fill1(&a), &a, &values, PivotPolicy::STATIC).unwrap();
            let b: Vec<f64> = (0..n).map(|i| i as f64 - 3.0).collect();
            let bound = 4.0 * n as f64 * f64::EPSILON;
            let x = solve(&lu, &b);
            prop_assert!(normwise_backward_error(&a, &values, &x, &b) <= bound);
            prop_assert!(componentwise_backward_error(&a, &values, &x, &b) <= bound);

            let x = solve_transpose(&lu, &b);
            let (t, map) = crate::primitives::transpose_with_map(&a);
            let t_values: Vec<f64> = map.iter().map(|&p| values[p as usize]).collect();
            prop_assert!(normwise_backward_error(&t, &t_values, &x, &b) <= bound);
        }

        #[test]
        fn a_wrong_solution_is_seen((a, values) in matrices(20), at in 0usize..20) {
            let values = dominate(&a, &values);
            let n = a.major_dim();
            prop_assume!(n > 0);
            let lu = lu_right_looking(&fill1(&a), &a, &values, PivotPolicy::STATIC).unwrap();
            let b = vec![1.0; n];
            let mut x = solve(&lu, &b);
            x[at % n] += 1.0;
            prop_assert!(normwise_backward_error(&a, &values, &x, &b) > 1e-3);
        }

        #[test]
        fn sparse_and_dense_solves_agree((a, values) in matrices(30)) {
            let values = dominate(&a, &values);
            let n = a.major_dim();
            let sparse = lu_right_looking(&fill1(&a), &a, &values, PivotPolicy::STATIC).unwrap();
            let dense = lu_dense(&Dense::from_csr(&a, &values), PivotPolicy::STATIC)
                .unwrap();
            let b: Vec<f64> = (0..n).map(|i| 1.0 / (i as f64 + 1.0)).collect();
            // Row and column order subtract the same products in the same order going forward.
            prop_assert_eq!(solve_lower(&sparse, &b), dense_solve_lower(&dense.factors, &b));
            let close = |x: &[f64], y: &[f64]| {
                let scale = x.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
                x.iter().zip(y).all(|(x, y)| (x - y).abs() <= 100.0 * n as f64 * f64::EPSILON * scale)
            };
            prop_assert!(close(&solve(&sparse, &b), &dense_solve(&dense, &b)));
            prop_assert!(close(&solve_transpose(&sparse, &b), &dense_solve_transpose(&dense, &b)));
        }

        #[test]
        fn pivoted_solves_have_small_backward_errors((a, values) in matrices(30)) {
            let dense = Dense::from_csr(&a, &values);
            let Ok(lu) = lu_dense(&dense, PivotPolicy::PARTIAL) else { return Ok(()) };
            let n = a.major_dim();
            let b = vec![1.0; n];
            let growth = lu.element_growth(&dense).max(1.0);
            let bound = 4.0 * (n * n) as f64 * growth * f64::EPSILON;
            let x = dense_solve(&lu, &b);
            if x.iter().all(|x| x.is_finite()) {
                prop_assert!(normwise_backward_error(&a, &values, &x, &b) <= bound);
            }
        }
    }
}
