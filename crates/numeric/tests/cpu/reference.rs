//! Static pivoting on the CPU against the reference.

use luge_numeric::cpu::static_pivoting;
use luge_numeric::{LuPattern, NumericError};
use luge_reference::numeric::lu_left_looking;
use luge_reference::symbolic::fill2;
use luge_sparse::{CancelFlag, PivotPolicy, RealScalar};
use luge_testkit::convert::{pattern_of, to_scalar};
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::convection_diffusion_2d;
use luge_testkit::residual::assert_factor_error;
use luge_testkit::strategies::{dominant_matrices, matrices};
use proptest::prelude::*;
use sprs::CsMat;

/// The static path must do the reference's arithmetic in the reference's order.
fn check_static<T: RealScalar>(b: &CsMat<T>, policy: PivotPolicy) {
    let rows = pattern_of(b);
    let filled = fill2(&rows);
    let pattern = LuPattern::new(&filled);
    let positions = pattern.positions_of(&rows);
    let expected = lu_left_looking(&filled, &rows, b.data(), policy);
    let actual =
        static_pivoting::factorize(&pattern, &positions, b.data(), policy, &CancelFlag::new());
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
                assert_eq!(actual.pivots.element_growth, expected.element_growth(max_b));
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn static_pivoting_matches_reference(b in matrices(30)) {
        check_static(&b, PivotPolicy::STATIC);
        check_static(&b, PivotPolicy::replacing_by_default(f64::EPSILON));
        check_static(&to_scalar::<f32>(&b), PivotPolicy::replacing_by_default(f32::EPSILON.into()));
    }

    #[test]
    fn static_pivoting_reproduces_dominant_matrices(b in dominant_matrices(40)) {
        check_static(&b, PivotPolicy::STATIC);
        let rows = pattern_of(&b);
        let pattern = LuPattern::new(&fill2(&rows));
        let positions = pattern.positions_of(&rows);
        let lu = static_pivoting::factorize(
            &pattern,
            &positions,
            b.data(),
            PivotPolicy::replacing_by_default(f64::EPSILON),
            &CancelFlag::new(),
        )
        .unwrap();
        prop_assert_eq!(lu.pivots.num_perturbed, 0);
        assert_factor_error(&b, pattern.cols(), &lu.values);
    }
}

/// Large enough for panels of columns, with and without replaced pivots.
#[test]
fn dense_columns_go_in_panels_with_the_same_result() {
    for n in [31, 32, 33, 39, 40, 41, 72, 129] {
        let b = arrow(n, ArrowHead::First);
        check_static(&b, PivotPolicy::STATIC);
        check_static(&b, PivotPolicy::replacing(0.3));
        check_static(&to_scalar::<f32>(&b), PivotPolicy::replacing(0.3));
    }
    let grid = convection_diffusion_2d(45, 25, 3.0);
    check_static(&grid, PivotPolicy::replacing_by_default(f64::EPSILON));
}
