//! What is solved.

use luge_peers::Matrix;
use luge_sparse::Scalar;
use luge_testkit::convert::to_scalar;
use sprs::CsMat;

use crate::systems::{MANY, product};

/// Largest relative change of a value for the refactorizations.
pub const RESCALING: f64 = 1e-3;

/// Which values a refactorization gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Those of the matrix.
    First,
    /// The changed ones.
    Next,
}

impl Values {
    /// The others.
    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Next,
            Self::Next => Self::First,
        }
    }
}

/// A matrix by rows, the same with other values, and right-hand sides of known solutions.
#[derive(Debug, Clone)]
pub struct Problem<T> {
    /// The matrix.
    pub a: CsMat<T>,
    /// Each value times a factor within 1 ± [`RESCALING`].
    pub next: CsMat<T>,
    /// `a` times the known solution.
    pub b: Vec<T>,
    /// `next` times the known solution.
    pub next_b: Vec<T>,
    /// `a` times [`MANY`] known solutions, one after another.
    pub many_b: Vec<T>,
}

/// SplitMix64 of a number, as a fraction.
fn fraction(number: u64) -> f64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// The matrix with each value changed by a factor that its number by rows gives.
pub fn rescaled(a: &Matrix) -> Matrix {
    a.map_values(|value, number| value * (1.0 + RESCALING * (2.0 * fraction(number as u64) - 1.0)))
}

/// The `number`th known solution: entries of both signs between a half and one.
fn solution<T: Scalar>(n: usize, number: usize) -> Vec<T> {
    let entry = |j: usize| {
        let fraction = fraction((number * n + j) as u64) - 0.5;
        T::from_f64(fraction + 0.5f64.copysign(fraction))
    };
    (0..n).map(entry).collect()
}

impl<T: Scalar> Problem<T> {
    /// Of a matrix and the same with other values, rounded to `T`.
    pub fn new(a: &Matrix, next: &Matrix) -> Self {
        let (a, next) = (to_scalar::<T>(a.rows()), to_scalar::<T>(next.rows()));
        let n = a.rows();
        let known = solution(n, 0);
        let many = (0..MANY).flat_map(|number| product(&a, &solution(n, number)));
        Self {
            b: product(&a, &known),
            next_b: product(&next, &known),
            many_b: many.collect(),
            a,
            next,
        }
    }

    /// The matrix with these values.
    pub fn matrix(&self, values: Values) -> &CsMat<T> {
        match values {
            Values::First => &self.a,
            Values::Next => &self.next,
        }
    }

    /// The right-hand side of the known solution with these values.
    pub fn right_hand_side(&self, values: Values) -> &[T] {
        match values {
            Values::First => &self.b,
            Values::Next => &self.next_b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_testkit::generators::applications::circuit;
    use luge_testkit::residual::normwise_backward_error;

    #[test]
    fn values_change_by_a_thousandth_at_most_and_most_by_more_than_a_tenth_of_that() {
        let a = Matrix::new(circuit(200, 1)).expect("it is small");
        let next = rescaled(&a);
        assert!(next.has_pattern_of(&a));
        let pairs = a.values().iter().zip(next.values());
        let changes: Vec<f64> = pairs
            .filter(|(value, _)| **value != 0.0)
            .map(|(value, changed)| (changed / value - 1.0).abs())
            .collect();
        assert!(changes.iter().all(|&c| c <= RESCALING * (1.0 + 1e-12)));
        let large = changes.iter().filter(|&&c| c > 0.1 * RESCALING).count();
        assert!(2 * large > changes.len(), "{large} of {}", changes.len());
    }

    #[test]
    fn right_hand_sides_belong_to_their_matrix() {
        let a = Matrix::new(circuit(60, 2)).expect("it is small");
        let problem = Problem::<f64>::new(&a, &rescaled(&a));
        let n = a.n();
        let x: Vec<f64> = solution(n, 0);
        let error = |a: &CsMat<f64>, x: &[f64], b: &[f64]| normwise_backward_error(a, x, b);
        assert!(error(&problem.a, &x, &problem.b) < 1e-14);
        assert!(error(&problem.next, &x, &problem.next_b) < 1e-14);
        assert!(error(&problem.next, &x, &problem.b) > 1e-6);
        let last: Vec<f64> = solution(n, MANY - 1);
        assert!(error(&problem.a, &last, &problem.many_b[(MANY - 1) * n..]) < 1e-14);
        assert_ne!(x, last);
        assert!(x.iter().all(|v| (0.5..=1.0).contains(&v.abs())));
    }
}
