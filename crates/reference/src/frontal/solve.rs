//! Solves with the factors of fronts, with bounds of the rounding errors.
//!
//! The panels of the fronts of a tree hold L and U of the matrix in its order of elimination, so a solve with fronts is
//! one with these. How the sums of a row are ordered, by fronts or by columns, is left open.

use luge_sparse::RealScalar;

use super::Rounded;
use crate::dense::Dense;

/// Solves L·U·x = b, or (L·U)ᵀ·x = b, for factors free of error: unit lower L below the diagonal of `factors`, U on and
/// above it. O(n²).
///
/// # Panics
///
/// If `factors` is not square, or `b` not as long as it has rows.
#[track_caller]
pub fn solve_fronts<T: RealScalar>(
    factors: &Dense<T>,
    b: &[T],
    transpose: bool,
) -> Vec<Rounded<T>> {
    let n = factors.nrows();
    assert_eq!((n, n), (factors.ncols(), b.len()), "one entry per row");
    let entry = |i: usize, j: usize| {
        let (i, j) = if transpose { (j, i) } else { (i, j) };
        Rounded::exact(factors[(i, j)])
    };
    let mut x: Vec<Rounded<T>> = b.iter().map(|&b| Rounded::exact(b)).collect();
    // L, or Uᵀ.
    for i in 0..n {
        x[i] = x[i].minus_products((0..i).map(|j| (entry(i, j), x[j])));
        if transpose {
            x[i] = x[i].over(entry(i, i));
        }
    }
    // U, or Lᵀ.
    for i in (0..n).rev() {
        x[i] = x[i].minus_products((i + 1..n).map(|j| (entry(i, j), x[j])));
        if !transpose {
            x[i] = x[i].over(entry(i, i));
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::lu_dense;
    use crate::solve::{dense_solve, dense_solve_transpose};
    use luge_sparse::PivotPolicy;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn solves_what_dense_factors_solve(
            n in 1usize..12,
            values in proptest::collection::vec(-1.0..1.0f64, 144),
        ) {
            let a = Dense::from_fn(n, n, |i, j| values[i * 12 + j] + if i == j { 4.0 } else { 0.0 });
            let lu = lu_dense(&a, PivotPolicy::STATIC).unwrap();
            let b: Vec<f64> = (0..n).map(|i| 1.0 + i as f64).collect();
            for (transpose, expected) in [(false, dense_solve(&lu, &b)), (true, dense_solve_transpose(&lu, &b))] {
                let x = solve_fronts(&lu.factors, &b, transpose);
                for (x, expected) in x.iter().zip(expected) {
                    prop_assert!(x.agrees_with(expected), "{x:?} for {expected:e}");
                }
            }
        }
    }
}
