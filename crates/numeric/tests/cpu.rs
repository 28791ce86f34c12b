//! The CPU paths against the reference.

use luge_numeric::cpu::{static_pivoting, threshold};
use luge_numeric::{LuPattern, NumericError, TinyPivots};
use luge_reference::numeric::lu_left_looking;
use luge_reference::symbolic::fill2;
use luge_sparse::{CancelFlag, ColPerm, CompressedPattern, Scalar, Scaling};
use luge_testkit::convert::{pattern_of, permuted_and_scaled, to_scalar};
use luge_testkit::generators::adversaries::{ArrowHead, arrow, near_singular, wilkinson_growth};
use luge_testkit::generators::applications::convection_diffusion_2d;
use luge_testkit::residual::assert_factor_error;
use luge_testkit::strategies::{dominant_matrices, matrices, nonsingular_matrices};
use proptest::prelude::*;
use sprs::CsMat;

/// The static path must do the reference's arithmetic in the reference's order.
fn check_static<T: Scalar>(b: &CsMat<T>, tiny_pivots: TinyPivots) {
    let rows = pattern_of(b);
    let filled = fill2(&rows);
    let pattern = LuPattern::new(&filled);
    let positions = pattern.positions_of(&rows);
    let threshold = match tiny_pivots {
        TinyPivots::Keep => 0.0,
        TinyPivots::Perturb { threshold } => threshold,
    };
    let expected = lu_left_looking(&filled, &rows, b.data(), threshold);
    let actual = static_pivoting::factorize(
        &pattern,
        &positions,
        b.data(),
        tiny_pivots,
        &CancelFlag::new(),
    );
    match (actual, expected) {
        (Ok(actual), Ok(expected)) => {
            assert_eq!(pattern.cols(), &expected.cols);
            // Equal as numbers: -0 and 0 may differ.
            assert_eq!(actual.values, expected.values);
            assert_eq!(actual.pivots.num_perturbed, expected.perturbed.len());
            let first = expected.perturbed.first().map(|&j| j as usize);
            assert_eq!(actual.pivots.first_perturbed, first);
            let max_b = b.data().iter().fold(T::zero(), |max, v| max.max(v.abs()));
            if max_b > T::zero() {
                assert_eq!(actual.pivots.growth, expected.growth(max_b));
            }
        }
        // The reference looks at pivots alone, so it may notice an overflow later or never.
        (Err(NumericError::NotFinite { .. }), _) => {}
        (Err(NumericError::ZeroPivot { column }), Err(expected)) => {
            let expected = format!("{expected:?}");
            assert!(expected.contains(&column.to_string()), "{expected}");
        }
        (actual, expected) => panic!("{actual:?} where {expected:?} is right"),
    }
}

/// The columns of a matrix: those of B by columns are the rows of Bᵀ.
fn columns<T: Scalar>(b: &CsMat<T>) -> (CompressedPattern, Vec<T>) {
    let transpose = b.to_csc().transpose_into();
    (pattern_of(&transpose), transpose.data().to_vec())
}

/// The searched pivots must reproduce B, on the filled pattern of the permuted rows.
fn check_threshold<T: Scalar>(b: &CsMat<T>, threshold: f64) {
    let (cols, values) = columns(b);
    let options = threshold::Options {
        threshold,
        ..threshold::Options::default()
    };
    let lu = threshold::factorize(&cols, &values, &options).unwrap();
    let n = b.rows();
    let permuted = permuted_and_scaled(
        b,
        &lu.row_perm,
        &Scaling::identity(n, n),
        &ColPerm::identity(n),
    );
    let expected = LuPattern::new(&fill2(&pattern_of(&permuted)));
    assert_eq!(lu.pattern, expected);
    assert_factor_error(&permuted, lu.pattern.cols(), &lu.values.values);
    if threshold > 0.0 {
        for j in 0..n {
            for p in lu.pattern.lower(j) {
                let l: f64 = Scalar::to_f64(lu.values.values[p].abs());
                assert!(l * threshold <= 1.0 + 1e-6, "L has {l} in column {j}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn static_pivoting_matches_reference(b in matrices(30)) {
        check_static(&b, TinyPivots::Keep);
        check_static(&b, TinyPivots::perturb_default::<f64>());
        check_static(&to_scalar::<f32>(&b), TinyPivots::perturb_default::<f32>());
    }

    #[test]
    fn static_pivoting_reproduces_dominant_matrices(b in dominant_matrices(40)) {
        check_static(&b, TinyPivots::Keep);
        let rows = pattern_of(&b);
        let pattern = LuPattern::new(&fill2(&rows));
        let positions = pattern.positions_of(&rows);
        let lu = static_pivoting::factorize(
            &pattern,
            &positions,
            b.data(),
            TinyPivots::perturb_default::<f64>(),
            &CancelFlag::new(),
        )
        .unwrap();
        prop_assert_eq!(lu.pivots.num_perturbed, 0);
        assert_factor_error(&b, pattern.cols(), &lu.values);
    }

    #[test]
    fn searched_pivots_reproduce_the_matrix(b in nonsingular_matrices(30)) {
        for threshold in [0.01, 0.1, 1.0] {
            check_threshold(&b, threshold);
        }
        check_threshold(&to_scalar::<f32>(&b), 0.1);
    }
}

#[test]
fn a_large_front_is_pruned_right() {
    let grid = convection_diffusion_2d(33, 31, 100.0);
    check_threshold(&grid, 0.1);
    check_threshold(&grid, 1.0);
    check_static(&grid, TinyPivots::Keep);
}

/// Large enough for panels of columns, with and without replaced pivots.
#[test]
fn dense_columns_go_in_panels_with_the_same_result() {
    for n in [31, 32, 33, 39, 40, 41, 72, 129] {
        let b = arrow(n, ArrowHead::First);
        check_static(&b, TinyPivots::Keep);
        check_static(&b, TinyPivots::Perturb { threshold: 0.3 });
        check_static(
            &to_scalar::<f32>(&b),
            TinyPivots::Perturb { threshold: 0.3 },
        );
    }
    let grid = convection_diffusion_2d(45, 25, 3.0);
    check_static(&grid, TinyPivots::perturb_default::<f64>());
}

#[test]
fn growth_is_measured() {
    let (cols, values) = columns(&wilkinson_growth(30));
    let partial = threshold::Options {
        threshold: 1.0,
        ..threshold::Options::default()
    };
    let lu = threshold::factorize(&cols, &values, &partial).unwrap();
    assert_eq!(lu.values.pivots.growth, 2f64.powi(29));
}

#[test]
fn near_singular_is_not_refused() {
    for seed in 0..20 {
        for n in [5, 33, 60] {
            let (cols, values) = columns(&near_singular(n, 1e-12, seed));
            threshold::factorize(&cols, &values, &threshold::Options::default())
                .unwrap_or_else(|e| panic!("n {n}, seed {seed}: {e}"));
        }
    }
}
