//! Condition estimation from a few solves.
//!
//! Hager's method with Higham's improvements (Higham 1988, as in LAPACK's `lacon`): a lower bound of
//! ‖B⁻¹‖₁, rarely below a third of it, for at most five solves and four transposed solves.

/// What is known of an inverse.
#[derive(Debug, Clone, PartialEq)]
pub struct InverseNorm {
    /// A lower bound of ‖B⁻¹‖₁: zero for n = 0, NaN if a solve gave NaN.
    pub norm1: f64,
    /// Largest entry of the column of B⁻¹ that attains the bound. For a matrix that is nearly
    /// singular that column is nearly a null vector, and this the column of B that takes part most.
    pub largest: usize,
    /// That column of B⁻¹, or the image of the vector that attains the bound.
    pub column: Vec<f64>,
}

impl InverseNorm {
    /// What the image `column` of a vector of 1-norm one tells of the inverse.
    fn of(column: &[f64]) -> Self {
        let larger = |at: usize, i: usize| {
            if column[i].abs() > column[at].abs() {
                i
            } else {
                at
            }
        };
        Self {
            norm1: norm1(column),
            largest: (0..column.len()).fold(0, larger),
            column: column.to_vec(),
        }
    }
}

fn norm1(v: &[f64]) -> f64 {
    v.iter().map(|x| x.abs()).sum()
}

/// Estimates ‖B⁻¹‖₁ for a matrix of order `n`. `solve` replaces its argument by B⁻¹ times it,
/// `solve_transpose` by B⁻ᵀ times it.
///
/// # Errors
///
/// What the solves give back.
pub fn inverse_norm1<E>(
    n: usize,
    mut solve: impl FnMut(&mut [f64]) -> Result<(), E>,
    mut solve_transpose: impl FnMut(&mut [f64]) -> Result<(), E>,
) -> Result<InverseNorm, E> {
    const MAX_ITERATIONS: usize = 4;
    if n == 0 {
        return Ok(InverseNorm::of(&[]));
    }
    let largest = |v: &[f64]| (0..n).fold(0, |at, i| if v[i].abs() > v[at].abs() { i } else { at });
    let mut v = vec![1.0 / n as f64; n];
    solve(&mut v)?;
    let mut estimate = InverseNorm::of(&v);
    let mut last = None;
    for _ in 0..MAX_ITERATIONS {
        // Nothing compares with it, so the next estimate would take its place.
        if estimate.norm1.is_nan() {
            break;
        }
        let mut z: Vec<f64> = v.iter().map(|x| 1f64.copysign(*x)).collect();
        solve_transpose(&mut z)?;
        let steepest = largest(&z);
        if last == Some(steepest) {
            break;
        }
        last = Some(steepest);
        v.fill(0.0);
        v[steepest] = 1.0;
        solve(&mut v)?;
        let next = norm1(&v);
        if next <= estimate.norm1 {
            break;
        }
        estimate = InverseNorm::of(&v);
    }
    // Higham's safeguard against cancellation in the above.
    for (i, x) in v.iter_mut().enumerate() {
        let size = 1.0 + i as f64 / (n.max(2) - 1) as f64;
        *x = if i % 2 == 0 { size } else { -size };
    }
    solve(&mut v)?;
    let alternating = 2.0 * norm1(&v) / (3.0 * n as f64);
    if alternating.is_nan() || alternating > estimate.norm1 {
        estimate = InverseNorm {
            norm1: alternating,
            ..InverseNorm::of(&v)
        };
    }
    Ok(estimate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn a_diagonal_is_estimated_exactly() {
        for n in [1usize, 31, 33] {
            let diagonal: Vec<f64> = (0..n).map(|i| 1.0 + ((7 * i) % n) as f64).collect();
            let divide = |v: &mut [f64]| {
                v.iter_mut().zip(&diagonal).for_each(|(v, d)| *v /= d);
                Ok::<_, Infallible>(())
            };
            let Ok(estimate) = inverse_norm1(n, divide, divide);
            assert_eq!((estimate.norm1, diagonal[estimate.largest]), (1.0, 1.0));
        }
        let nothing = |_: &mut [f64]| Ok::<_, Infallible>(());
        assert_eq!(inverse_norm1(0, nothing, nothing).map(|e| e.norm1), Ok(0.0));
    }

    #[test]
    fn an_unsymmetric_matrix_uses_both_solves() {
        // B = [1 100; 0 1], so the largest column sum of its inverse is 101.
        let solve = |v: &mut [f64]| {
            v[0] -= 100.0 * v[1];
            Ok::<_, Infallible>(())
        };
        let solve_transpose = |v: &mut [f64]| {
            v[1] -= 100.0 * v[0];
            Ok::<_, Infallible>(())
        };
        let Ok(estimate) = inverse_norm1(2, solve, solve_transpose);
        assert_eq!((estimate.norm1, estimate.largest), (101.0, 0));
        assert_eq!(estimate.column, [-100.0, 1.0]);
    }

    #[test]
    fn the_columns_of_a_dependence_are_found() {
        // The last two of four columns are nearly the same.
        let solve = |v: &mut [f64]| {
            let difference = (v[2] - v[3]) * 1e12;
            v[2] -= difference;
            v[3] = difference;
            Ok::<_, Infallible>(())
        };
        let solve_transpose = |v: &mut [f64]| {
            let difference = (v[3] - v[2]) * 1e12;
            v[2] += difference;
            v[3] = -difference;
            Ok::<_, Infallible>(())
        };
        let Ok(estimate) = inverse_norm1(4, solve, solve_transpose);
        assert!(estimate.norm1 > 1e12 && estimate.largest >= 2);
    }
}
