//! Dense eigenvalues, by `nalgebra`.

use luge_sparse::Inertia;
use nalgebra::DMatrix;

use crate::matrices::Matrix;

/// Counts eigenvalues by their signs; zero are those below `zero` times the largest in magnitude, or below rounding.
pub fn inertia_of(a: &Matrix, zero: f64) -> Inertia {
    let n = a.n();
    let dense = a.dense();
    let eigenvalues = DMatrix::from_fn(n, n, |i, j| dense[i][j]).symmetric_eigenvalues();
    let largest = eigenvalues.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    let rounding = 8.0 * (n + 1) as f64 * f64::EPSILON * largest;
    let bound = rounding.max(zero * largest);
    let mut inertia = Inertia::default();
    for &value in eigenvalues.iter() {
        if value.abs() <= bound {
            inertia.zero += 1;
        } else if value > 0.0 {
            inertia.positive += 1;
        } else {
            inertia.negative += 1;
        }
    }
    inertia
}

#[test]
fn eigenvalues_are_counted_by_their_signs() {
    // Of [0 1; 1 0]: 1 and −1; beside them 2, and 1e-12 which counts as zero or not.
    let a = Matrix::from_entries(4, [(1, 0, 1.0), (2, 2, 2.0), (3, 3, 1e-12)]);
    let inertia = |positive, zero| Inertia {
        positive,
        negative: 1,
        zero,
    };
    assert_eq!(inertia_of(&a, 1e-9), inertia(2, 1));
    assert_eq!(inertia_of(&a, 0.0), inertia(3, 0));
}
