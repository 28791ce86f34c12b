//! Complex systems from factors to refined solutions: the column engine of the CPU with the measures of this crate.

use std::convert::Infallible;

use luge_numeric::cpu::columns::{ColumnLu, Options};
use luge_solve::backward_error::{Measured, RowNorms};
use luge_solve::condition::inverse_norm1;
use luge_solve::extended::Extended;
use luge_solve::refine::{self, Refined, refine, refine_extended};
use luge_solve::scaled::{self, Normalized};
use luge_solve::{SolveError, known_solution};
use luge_sparse::{CancelFlag, ColPerm, CompressedPattern, MatrixView, RowPerm, Scalar, Scaling};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::applications::{circuit, random_unsymmetric};
use num_complex::{Complex, Complex64};
use sprs::CsMat;

/// Columns of the matrix with its entries turned by angles of their own.
fn turned(a: &CsMat<f64>) -> (CompressedPattern, Vec<Complex64>) {
    let columns = a.to_csc().transpose_into();
    let angle = |k: usize| Complex::from_polar(1.0, 0.7 * k as f64);
    let values = columns.data().iter().enumerate();
    (
        pattern_of(&columns),
        values.map(|(k, &value)| angle(k) * value).collect(),
    )
}

fn factors<F: Scalar<Wide = Complex64>>(
    cols: &CompressedPattern,
    values: &[Complex64],
) -> ColumnLu<F> {
    let rounded: Vec<F> = values.iter().map(|&v| F::narrow(v)).collect();
    ColumnLu::factorize(cols, &rounded, &Options::default())
        .unwrap()
        .0
}

/// One pass of solves by way of a scaling that is none.
fn pass<F: Scalar<Wide = Complex64>>(lu: &ColumnLu<F>, b: &[Complex64]) -> Vec<Complex64> {
    let (n, scaling) = (b.len(), Scaling::identity(b.len(), b.len()));
    let mut c: Normalized<F> = scaled::enter_rows(lu.row_perm(), &scaling, b);
    lu.solve_range(0..n, &mut c.values, n, 1);
    scaled::leave_cols(&ColPerm::identity(n), &scaling, &c)
}

fn options() -> refine::Options {
    refine::Options {
        max_steps: 10,
        target: 1e-14,
        epsilon: f64::EPSILON,
        enough: None,
        cancel: CancelFlag::new(),
    }
}

fn refined<F: Scalar<Wide = Complex64>>(
    cols: &CompressedPattern,
    values: &[Complex64],
    b: &[Complex64],
) -> Refined<Complex64> {
    let a = MatrixView::by_columns(cols, values);
    let lu = factors::<F>(cols, values);
    let correct = |r: &[Complex64]| Ok::<_, SolveError>(pass(&lu, r));
    refine(a, &RowNorms::new(a), b, correct, &options()).unwrap()
}

#[test]
fn refinement_makes_up_for_factors_of_single_precision() {
    let (cols, values) = turned(&circuit(200, 4));
    let n = cols.major_dim();
    let a = MatrixView::by_columns(&cols, &values);
    let b: Vec<Complex64> = (0..n).map(known).collect();
    let double = refined::<Complex64>(&cols, &values, &b);
    let single = refined::<Complex<f32>>(&cols, &values, &b);
    let unrefined = pass(&factors::<Complex<f32>>(&cols, &values), &b);
    let unrefined = Measured::new(a, &RowNorms::new(a), &unrefined, &b);
    assert!(unrefined.normwise > 1e-12, "{:e}", unrefined.normwise);
    assert!(single.steps >= 1 && single.normwise <= 1e-15);
    assert!(double.normwise <= 1e-15 && single.componentwise[0] <= 1e-14);
    let size = double.x.iter().map(|x| x.modulus()).fold(0.0, f64::max);
    for (x, y) in double.x.iter().zip(&single.x) {
        assert!((x - y).modulus() <= 1e-9 * size, "{x} and {y}");
    }
}

fn known(i: usize) -> Complex64 {
    known_solution(i as u64)
}

#[test]
fn the_estimate_is_at_most_the_norm_of_the_inverse_and_no_small_part_of_it() {
    for seed in 0..20 {
        let (cols, values) = turned(&random_unsymmetric(30, 3, seed));
        let n = cols.major_dim();
        let lu = factors::<Complex64>(&cols, &values);
        // With P·A in place of A, whose inverse has the same norm.
        let solve = |v: &mut [Complex64]| {
            lu.solve_range(0..n, v, n, 1);
            Ok::<_, Infallible>(())
        };
        let solve_transpose = |v: &mut [Complex64]| {
            lu.solve_transpose_range(0..n, v, n, 1);
            Ok::<_, Infallible>(())
        };
        let Ok(estimate) = inverse_norm1(n, solve, solve_transpose);
        let column = |j: usize| {
            let mut column = vec![Complex64::ZERO; n];
            column[j] = Complex64::ONE;
            let Ok(()) = solve(&mut column);
            column.iter().map(|v| v.modulus()).sum::<f64>()
        };
        let exact = (0..n).map(column).fold(0.0, f64::max);
        let ratio = estimate.norm1 / exact;
        assert!((1.0 / 3.0..1.0 + 1e-12).contains(&ratio), "{seed}: {ratio}");
    }
}

#[test]
fn systems_of_any_size_are_solved_in_extended_numbers() {
    // The products of A and x, or their quotients, leave the range; b and x do not.
    let (cols, values) = turned(&random_unsymmetric(20, 3, 5));
    let n = cols.major_dim();
    let lu = factors::<Complex64>(&cols, &values);
    for (of_a, of_b) in [(1e200, 1e-100), (1e-200, 1e-250), (1e250, 1e300)] {
        let far: Vec<Complex64> = values.iter().map(|v| v * of_a).collect();
        let a = MatrixView::by_columns(&cols, &far);
        let scaling = Scaling {
            rows: vec![1.0 / of_a; n],
            cols: vec![1.0; n],
        };
        let b: Vec<Complex64> = (0..n).map(|i| known(i) * of_b).collect();
        let solve = |r: &[Extended<Complex64>]| {
            let rows: &RowPerm = lu.row_perm();
            let mut c = scaled::enter_extended::<f64, _>(&rows.0, &scaling.rows, r);
            lu.solve_range(0..n, &mut c.values, n, 1);
            let cols = ColPerm::identity(n);
            Ok::<_, SolveError>(scaled::leave_extended(&cols.0, &scaling.cols, &c))
        };
        let found = refine_extended(a, &RowNorms::new(a), &b, solve, &options()).unwrap();
        assert!(found.normwise <= 1e-15, "{of_a:e}: {:e}", found.normwise);
        assert!(found.componentwise[0] <= 1e-15);
        let size = found.x.iter().map(|x| x.modulus()).fold(0.0, f64::max);
        assert!((1e-3..1e6).contains(&(size / (of_b / of_a))), "{size:e}");
    }
}
