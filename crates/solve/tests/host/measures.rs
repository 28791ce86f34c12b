//! Backward errors, refinement and condition estimates to the last bit, on numbers that are exact in `f64`.

use std::convert::Infallible;

use luge_solve::backward_error::{Residual, RowNorms};
use luge_solve::condition::{InverseNorm, inverse_norm1};
use luge_solve::refine::{Options, refine};
use luge_solve::{SolveError, known_solution};
use luge_sparse::{CancelFlag, CompressedPattern, MatrixView};

/// Rows of more than one stretch of 256 entries, and of one less, as much and one more.
#[test]
fn long_rows_are_summed_up_whole() {
    for n in [1usize, 255, 256, 257, 512, 513, 1025] {
        let pattern =
            CompressedPattern::new(n, vec![0, n as u64], (0..n as u32).collect()).unwrap();
        let values: Vec<f64> = (0..n).map(|j| [2.0, -1.0, 4.0][j % 3]).collect();
        let x: Vec<f64> = (0..n).map(|j| [1.0, 3.0, -0.5, 8.0][j % 4]).collect();
        let products = || values.iter().zip(&x).map(|(v, x)| v * x);
        let b = 7.0;
        let r = Residual::new(MatrixView::by_rows(&pattern, &values), &x, &[b]);
        assert_eq!(r.residual, [b - products().sum::<f64>()], "n {n}");
        assert_eq!(
            r.magnitude,
            [products().map(f64::abs).sum::<f64>()],
            "n {n}"
        );
    }
}

/// What is estimated of B⁻¹, given by rows.
fn estimate_of<const N: usize>(inverse: [[f64; N]; N]) -> InverseNorm {
    let multiply = |v: &mut [f64], entry: &dyn Fn(usize, usize) -> f64| {
        let old = v.to_vec();
        for (i, v) in v.iter_mut().enumerate() {
            *v = (0..N).map(|j| entry(i, j) * old[j]).sum();
        }
        Ok::<_, Infallible>(())
    };
    let solve = |v: &mut [f64]| multiply(v, &|i, j| inverse[i][j]);
    let solve_transpose = |v: &mut [f64]| multiply(v, &|i, j| inverse[j][i]);
    let Ok(estimate) = inverse_norm1(N, solve, solve_transpose);
    estimate
}

/// The largest entries are in row 1 for the start, in row 0 for the first column that it leads to, and in row 2
/// for the column of the largest sum, which is reached from there.
#[test]
fn the_largest_row_is_that_of_the_column_that_attains_the_bound() {
    let inverse = [
        [0.0, 3.0, -3.0, 0.0],
        [-3.0, 0.0, 2.0, -4.0],
        [-4.0, 0.0, 2.0, 0.0],
        [-2.0, 0.0, 0.0, 3.0],
    ];
    let expected = InverseNorm {
        norm1: 9.0,
        largest: 2,
        column: vec![0.0, -3.0, -4.0, -2.0],
    };
    assert_eq!(estimate_of(inverse), expected);
}

/// I + 100·v·vᵀ with v orthogonal to ones, and to numbers that alternate and grow evenly: 8 − 9 − 12 + 13 = 0. Seen, with a
/// factor of 10¹⁶, of eight unknowns on a grid with entries of ±1.
#[test]
fn pseudo_random_numbers_lead_to_a_column_that_ones_do_not_see() {
    let v = [0.0, -1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 0.0];
    let unit = |i: usize, j: usize| if i == j { 1.0 } else { 0.0 };
    let entry = |i: usize, j: usize| unit(i, j) + 100.0 * v[i] * v[j];
    let inverse: [[f64; 8]; 8] = std::array::from_fn(|i| std::array::from_fn(|j| entry(i, j)));
    let estimate = estimate_of(inverse);
    assert_eq!(estimate.norm1, 401.0);
    assert!(inverse.contains(&estimate.column.try_into().unwrap()));
    assert_eq!(v[estimate.largest].abs(), 1.0);
}

#[test]
fn the_safeguard_is_another_vector_than_that_of_a_probe() {
    let mut starts = Vec::new();
    let solve = |v: &mut [f64]| {
        starts.push(v.to_vec());
        Ok::<_, Infallible>(())
    };
    let Ok(_) = inverse_norm1(9, solve, |_: &mut [f64]| Ok(()));
    let safeguard = starts.last().unwrap();
    let ratio = |i: usize| safeguard[i] / known_solution::<f64>(i as u64);
    assert!((1..9).any(|i| (ratio(i) / ratio(0) - 1.0).abs() > 0.1));
}

#[test]
fn an_estimate_is_nan_if_any_solve_was() {
    // Three solves: the start, one column, the pseudo-random vector.
    for nan_at in 0..3 {
        let mut solves = 0;
        let solve = |v: &mut [f64]| {
            if solves == nan_at {
                v[1] = f64::NAN;
            }
            solves += 1;
            Ok::<_, Infallible>(())
        };
        let Ok(estimate) = inverse_norm1(3, solve, |_: &mut [f64]| Ok(()));
        assert!(estimate.norm1.is_nan(), "in solve {nan_at}: {estimate:?}");
    }
}

/// A target that the first solution meets does not end the refinement: each step takes 14 bits off the
/// error, and the third one all that is left of it.
#[test]
fn refinement_goes_on_below_a_loose_target() {
    let pattern = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap();
    let a = MatrixView::by_rows(&pattern, &[2.0, 4.0]);
    let norms = RowNorms::new(a);
    let b = [2.0, 1024.0];
    let error = 2f64.powi(-14);
    let inexact = |r: &[f64]| {
        let factor = 1.0 - error;
        Ok::<_, SolveError>(vec![r[0] / 2.0 * factor, r[1] / 4.0 * factor])
    };
    for target in [1.0, 1e-3, 1e-15, 0.0] {
        let options = |max_steps| Options {
            max_steps,
            target,
            epsilon: f64::EPSILON,
            enough: None,
            cancel: CancelFlag::new(),
        };
        for steps in [0, 1, 2] {
            // After k steps, the error of either entry is 2^(-14 (k + 1)) times its size.
            let refined = refine(a, &norms, &b, inexact, &options(steps)).unwrap();
            let left = error.powi(steps as i32 + 1);
            assert_eq!(refined.steps, steps, "target {target}");
            let x = [1.0, 256.0].map(|x| x - x * left);
            assert_eq!(refined.x, x, "target {target}, {steps} steps");
            let [large, small] = refined.componentwise;
            assert!((large / (left / 2.0) - 1.0).abs() < 1e-3, "{large:e}");
            assert_eq!(small, 0.0);
        }
        let refined = refine(a, &norms, &b, inexact, &options(20)).unwrap();
        assert_eq!((refined.steps, refined.x), (3, vec![1.0, 256.0]));
        assert_eq!((refined.normwise, refined.componentwise), (0.0, [0.0; 2]));
    }
}
