//! Condition estimation from a few solves.
//!
//! Hager's method with Higham's improvements (Higham 1988, as in LAPACK's `lacon`): a lower bound of
//! ‖B⁻¹‖₁, rarely below a third of it, for at most six solves and four transposed solves, or about twice as many where
//! the safeguard finds more. For complex matrices x/|x| takes the place of the sign, and the norm is that of absolute
//! values √(re² + im²) (Higham 1988, as `zlacn2`; Higham and Tisseur 2000 for the convergence).

use luge_sparse::Scalar;

use crate::known::known_solution;

/// Where the pseudo-random numbers of the safeguard begin: beyond those of a probe, so that it is another vector.
const SAFEGUARD: u64 = 1 << 32;

/// What is known of an inverse.
#[derive(Debug, Clone, PartialEq)]
pub struct InverseNorm<W = f64> {
    /// A lower bound of ‖B⁻¹‖₁: zero for n = 0, NaN if a solve gave NaN.
    pub norm1: f64,
    /// Largest entry of the column of B⁻¹ that attains the bound. For a matrix that is nearly
    /// singular that column is nearly a null vector, and this the column of B that takes part most.
    pub largest: usize,
    /// That column of B⁻¹, or the image of the vector that attains the bound.
    pub column: Vec<W>,
}

impl<W: Scalar<Real = f64>> InverseNorm<W> {
    /// What the image `column` of a vector of 1-norm one tells of the inverse.
    fn of(column: &[W]) -> Self {
        Self {
            norm1: norm1(column),
            largest: largest(column),
            column: column.to_vec(),
        }
    }
}

fn norm1<W: Scalar<Real = f64>>(v: &[W]) -> f64 {
    v.iter().map(|x| x.modulus()).sum()
}

/// The first of the entries with the largest absolute value.
fn largest<W: Scalar<Real = f64>>(v: &[W]) -> usize {
    let larger = |at: usize, i: usize| {
        if v[i].modulus() > v[at].modulus() {
            i
        } else {
            at
        }
    };
    (0..v.len()).fold(0, larger)
}

/// Estimates ‖B⁻¹‖₁ for a matrix of order `n`. `solve` replaces its argument by B⁻¹ times it,
/// `solve_transpose` by B⁻ᵀ times it, without conjugation.
///
/// # Errors
///
/// What the solves give back.
pub fn inverse_norm1<W: Scalar<Real = f64>, E>(
    n: usize,
    mut solve: impl FnMut(&mut [W]) -> Result<(), E>,
    mut solve_transpose: impl FnMut(&mut [W]) -> Result<(), E>,
) -> Result<InverseNorm<W>, E> {
    if n == 0 {
        return Ok(InverseNorm::of(&[]));
    }
    let ones = vec![W::from_real(1.0 / n as f64); n];
    let of_ones = climbed(ones, 0.0, &mut solve, &mut solve_transpose)?;
    if of_ones.norm1.is_nan() {
        return Ok(of_ones);
    }
    // Higham's safeguard against cancellation in the above, with pseudo-random numbers in place of his, which alternate and
    // grow evenly: a null vector of small integers may be orthogonal to these as well as to ones.
    let mut start: Vec<W> = (0..n as u64)
        .map(|i| known_solution(SAFEGUARD + i))
        .collect();
    let size = norm1(&start);
    start.iter_mut().for_each(|x| *x = x.scaled_by(1.0 / size));
    let safeguard = climbed(start, of_ones.norm1, &mut solve, &mut solve_transpose)?;
    Ok(if safeguard.norm1 <= of_ones.norm1 {
        of_ones
    } else {
        safeguard
    })
}

/// The estimate that a start of 1-norm one leads to: that of its image alone if this is no larger than `beaten`.
fn climbed<W: Scalar<Real = f64>, E>(
    mut v: Vec<W>,
    beaten: f64,
    solve: &mut impl FnMut(&mut [W]) -> Result<(), E>,
    solve_transpose: &mut impl FnMut(&mut [W]) -> Result<(), E>,
) -> Result<InverseNorm<W>, E> {
    const MAX_ITERATIONS: usize = 4;
    solve(&mut v)?;
    let mut estimate = InverseNorm::of(&v);
    let mut last = None;
    for _ in 0..MAX_ITERATIONS {
        // Nothing compares with NaN, so the next estimate would take its place.
        if estimate.norm1.is_nan() || estimate.norm1 <= beaten {
            break;
        }
        // The entries of B⁻ᴴ·s have the absolute values of those of B⁻ᵀ times the conjugate of s.
        let mut z: Vec<W> = v.iter().map(|x| x.direction().conjugate()).collect();
        solve_transpose(&mut z)?;
        let steepest = largest(&z);
        if last == Some(steepest) {
            break;
        }
        last = Some(steepest);
        v.fill(W::zero());
        v[steepest] = W::one();
        solve(&mut v)?;
        let next = norm1(&v);
        if next <= estimate.norm1 {
            break;
        }
        estimate = InverseNorm::of(&v);
    }
    Ok(estimate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;
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

    /// The estimate for the matrix with this inverse.
    fn estimated<const N: usize>(
        inverse: [[Complex<f64>; N]; N],
    ) -> (f64, usize, Vec<Complex<f64>>) {
        let transpose: [[_; N]; N] = std::array::from_fn(|i| inverse.map(|row| row[i]));
        let times = |rows: [[Complex<f64>; N]; N]| {
            move |v: &mut [Complex<f64>]| {
                let product = rows.map(|row| row.iter().zip(&*v).map(|(a, v)| a * v).sum());
                v.copy_from_slice(&product);
                Ok::<_, Infallible>(())
            }
        };
        let Ok(found) = inverse_norm1(N, times(inverse), times(transpose));
        (found.norm1, found.largest, found.column)
    }

    #[test]
    fn the_gradient_of_a_complex_norm_is_conjugated() {
        // The image of the start is (5/2, 3i/2): without conjugation the second column seems to cancel, and the norm
        // stays that of the image, which is 4.
        let (zero, i) = (Complex::ZERO, Complex::I);
        let (norm1, largest, column) = estimated([[3.0.into(), 2.0.into()], [zero, 3.0 * i]]);
        assert_eq!((norm1, largest), (5.0, 1));
        assert_eq!(column, [2.0.into(), 3.0 * i]);
    }

    #[test]
    fn directions_of_complex_numbers_lead_to_the_largest_column() {
        // With signs of the real parts in place of directions, the three cube roots of unity in the second column cancel.
        let root = |k: f64| Complex::from_polar(1.5, std::f64::consts::TAU / 3.0 * k);
        let zero = Complex::ZERO;
        let (norm1, _, column) = estimated([
            [4.0.into(), root(0.0), zero],
            [zero, root(1.0), zero],
            [zero, root(2.0), 1.0.into()],
        ]);
        assert!((norm1 - 4.5).abs() < 1e-15, "{norm1}");
        assert_eq!(column, [root(0.0), root(1.0), root(2.0)]);
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
