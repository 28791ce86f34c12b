//! The CPU path against the reference.

use luge_numeric::LuPattern;
use luge_reference::numeric::lu_left_looking;
use luge_reference::solve as reference;
use luge_reference::symbolic::fill2;
use luge_solve::backward_error::{Residual, RowNorms};
use luge_solve::{cpu, scaled};
use luge_sparse::{ColPerm, MatrixView, PivotPolicy, RowPerm, Scaling};
use luge_testkit::compare::assert_close;
use luge_testkit::convert::{pattern_of, permuted_and_scaled};
use luge_testkit::strategies::{
    col_perms_of, dominant_matrices, matrices, right_hand_sides, row_perms_of,
};
use proptest::collection::vec;
use proptest::prelude::*;
use sprs::CsMat;

fn with_right_hand_side(
    matrices: impl Strategy<Value = CsMat<f64>>,
) -> impl Strategy<Value = (CsMat<f64>, Vec<f64>)> {
    matrices.prop_flat_map(|a| {
        let n = a.rows();
        (Just(a), right_hand_sides(n))
    })
}

/// B, permutations and scaling around it, and a right-hand side.
fn transformed() -> impl Strategy<Value = (CsMat<f64>, RowPerm, ColPerm, Scaling, Vec<f64>)> {
    dominant_matrices(25).prop_flat_map(|a| {
        let n = a.rows();
        let factors = || vec((-200..200i32).prop_map(|e| 2f64.powi(e)), n);
        let scaling = (factors(), factors()).prop_map(|(rows, cols)| Scaling { rows, cols });
        (
            Just(a),
            row_perms_of(n),
            col_perms_of(n),
            scaling,
            right_hand_sides(n),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn solves_match_reference((b, rhs) in with_right_hand_side(dominant_matrices(40))) {
        let rows = pattern_of(&b);
        let filled = fill2(&rows);
        let lu = lu_left_looking(&filled, &rows, b.data(), PivotPolicy::STATIC).unwrap();
        let pattern = LuPattern::new(&filled);

        let mut x = rhs.clone();
        cpu::solve_lower(&pattern, &lu.values, &mut x);
        assert_close(&x, &reference::solve_lower(&lu, &rhs), 1e-13);
        let mut x = [rhs.clone(), rhs.clone()].concat();
        cpu::solve(&pattern, &lu.values, &mut x, 2);
        let expected = reference::solve(&lu, &rhs);
        assert_close(&x, &[expected.clone(), expected].concat(), 1e-13);
        let mut x = rhs.clone();
        cpu::solve_transpose(&pattern, &lu.values, &mut x, 1);
        assert_close(&x, &reference::solve_transpose(&lu, &rhs), 1e-13);
    }

    #[test]
    fn errors_match_reference((a, x) in with_right_hand_side(matrices(30))) {
        let rows = pattern_of(&a);
        let b: Vec<f64> = (0..a.rows()).map(|i| (i % 5) as f64 - 2.0).collect();
        let view = MatrixView::by_rows(&rows, a.data());
        let measured = Residual::new(view, &x, &b);
        let norms = RowNorms::new(view);
        let expected = reference::residual(&rows, a.data(), &x, &b);
        assert_close(&measured.residual, &expected, 1e-13);
        let normwise = measured.normwise(norms.infinity_norm(), &x, &b);
        let expected = reference::normwise_backward_error(&rows, a.data(), &x, &b);
        prop_assert!((normwise - expected).abs() <= 1e-13 * expected.abs().max(1.0));
        let [large, small] = measured.componentwise(&norms, &x, &b);
        let expected = reference::componentwise_backward_error(&rows, a.data(), &x, &b);
        // The second measure is milder, and both are bounded by the plain one.
        prop_assert!(large.max(small) <= expected * (1.0 + 1e-13));
    }

    /// Solving with B and undoing the transformation solves A, plain and transposed.
    #[test]
    fn transformations_are_undone((b, rp, cp, scaling, rhs) in transformed()) {

        // A such that B = P·Dr·A·Dc·Q.
        let inverse = Scaling {
            rows: rp.gather(&scaling.rows).iter().map(|f| 1.0 / f).collect(),
            cols: cp.gather(&scaling.cols).iter().map(|f| 1.0 / f).collect(),
        };
        let a = permuted_and_scaled(
            &b,
            &RowPerm::new(rp.inverse()).unwrap(),
            &inverse,
            &ColPerm::new(cp.inverse()).unwrap(),
        );
        let a_rows = pattern_of(&a);
        let view = MatrixView::by_rows(&a_rows, a.data());
        let rows = pattern_of(&b);
        let filled = fill2(&rows);
        let lu = lu_left_looking(&filled, &rows, b.data(), PivotPolicy::STATIC).unwrap();
        let pattern = LuPattern::new(&filled);

        let mut c: scaled::Normalized<f64> = scaled::enter_rows(&rp, &scaling, &rhs);
        cpu::solve(&pattern, &lu.values, &mut c.values, 1);
        let x = scaled::leave_cols(&cp, &scaling, &c);
        check_rows(&Residual::new(view, &x, &rhs), &rhs)?;
        let mut c: scaled::Normalized<f64> = scaled::enter_cols(&cp, &scaling, &rhs);
        cpu::solve_transpose(&pattern, &lu.values, &mut c.values, 1);
        let x = scaled::leave_rows(&rp, &scaling, &c);
        check_rows(&Residual::new(view.transpose(), &x, &rhs), &rhs)?;
    }
}

/// Every row by its own measure, for scaled rows differ by hundreds of orders of magnitude.
fn check_rows(r: &Residual, rhs: &[f64]) -> Result<(), TestCaseError> {
    for (i, residual) in r.residual.iter().enumerate() {
        let size = r.magnitude[i] + rhs[i].abs();
        prop_assert!(
            residual.abs() <= 1e-11 * size,
            "row {}: {} of {}",
            i,
            residual,
            size
        );
    }
    Ok(())
}
