//! What the solver promises over the real and over the complex numbers, on the CPU.

use luge::sprs::{CsMat, TriMat};
use luge::{
    Analysis, BackendChoice, CpuEngine, Error, Factors, Inform, MatrixKind, Options, SavedError,
    Scalar, Solver,
};
use luge_testkit::convert::turned;
use luge_testkit::residual::{
    assert_backward_error, error_bound, known_solution, normwise_backward_error,
};
use num_complex::Complex;

pub type C = Complex<f64>;

pub fn on_cpu() -> Options {
    Options::default().backend(BackendChoice::Cpu)
}

pub fn factorize<T: Scalar>(a: &CsMat<T>, options: Options) -> Result<Factors<T>, Error> {
    Solver::new(options)?.analyze(a)?.factorize(a)
}

/// Rows given as dense, zeros stored where `stored` says so.
fn dense<T: Scalar>(rows: &[&[f64]], store_zeros: bool) -> CsMat<T> {
    let mut a = TriMat::new((rows.len(), rows.first().map_or(0, |r| r.len())));
    for (i, row) in rows.iter().enumerate() {
        for (j, &v) in row.iter().enumerate() {
            if v != 0.0 || store_zeros {
                a.add_triplet(i, j, v);
            }
        }
    }
    turned(&a.to_csr())
}

/// Solves plain, transposed, with the adjoint, and for many right-hand sides, and checks what the inform claims.
pub fn check_all_solves<T: Scalar>(a: &CsMat<T>, factors: &Factors<T>) {
    let (b, _) = known_solution(a);
    let solution = factors.solve(&b).unwrap();
    assert_backward_error(a, &solution.x, &b);
    let measured = normwise_backward_error(a, &solution.x, &b);
    let claimed = solution.inform.backward_error.unwrap();
    assert!(
        (measured - claimed).abs() <= error_bound::<f64>(a.rows()),
        "measured {measured:e}, claimed {claimed:e}"
    );

    let transpose = a.to_csc().transpose_into();
    let (b, _) = known_solution(&transpose);
    let solution = factors.solve_transpose(&b).unwrap();
    assert_backward_error(&transpose, &solution.x, &b);

    let adjoint = transpose.map(|v| v.conjugate());
    let (b, _) = known_solution(&adjoint);
    let solution = factors.solve_adjoint(&b).unwrap();
    assert_backward_error(&adjoint, &solution.x, &b);
    let n = a.rows();
    let many = [b.clone(), vec![T::zero(); n], b.clone()].concat();
    let solution = factors.solve_adjoint_many(&many, 3).unwrap();
    assert_backward_error(&adjoint, &solution.x[2 * n..], &b);
    assert!(solution.x[n..2 * n].iter().all(|x| x.is_zero()));

    let (b, _) = known_solution(a);
    let many: Vec<T> = [b.clone(), vec![T::zero(); n], b].concat();
    let solution = factors.solve_many(&many, 3).unwrap();
    for (x, b) in solution.x.chunks(n.max(1)).zip(many.chunks(n.max(1))) {
        assert_backward_error(a, x, b);
    }
    assert!(solution.x[n..2 * n].iter().all(|&v| v == T::zero()));
    let (b, _) = known_solution(&transpose);
    let many: Vec<T> = [vec![T::zero(); n], b.clone(), b].concat();
    let solution = factors.solve_transpose_many(&many, 3).unwrap();
    for (x, b) in solution.x.chunks(n.max(1)).zip(many.chunks(n.max(1))) {
        assert_backward_error(&transpose, x, b);
    }
}

/// A matrix whose large entries stand on the diagonal, or with `swapped` beside it.
fn two_by_two_blocks<T: Scalar>(blocks: usize, swapped: bool) -> CsMat<T> {
    let (on, off) = if swapped { (1e-14, 1.0) } else { (1.0, 1e-14) };
    two_by_two_blocks_of(blocks, on, off)
}

/// With these entries on the diagonal and beside it.
fn two_by_two_blocks_of<T: Scalar>(blocks: usize, on: f64, off: f64) -> CsMat<T> {
    let mut a = TriMat::new((2 * blocks, 2 * blocks));
    for k in 0..blocks {
        let (i, j) = (2 * k, 2 * k + 1);
        for (row, col, v) in [(i, i, on), (i, j, off), (j, i, off), (j, j, on)] {
            a.add_triplet(row, col, v);
        }
        if k > 0 {
            a.add_triplet(i, i - 2, 0.01);
        }
    }
    turned(&a.to_csr())
}

/// The numbers are those of the real path, with a part that is zero beside each, so pivots are compared and chosen alike.
#[test]
fn a_real_matrix_given_as_complex_has_the_pivots_and_the_solution_of_the_real_path() {
    use luge_testkit::convert::to_scalar;
    use luge_testkit::generators::applications::circuit;
    use luge_testkit::generators::gallery;

    let samples = gallery(3).into_iter().map(|sample| sample.matrix);
    let mut off_diagonal = 0;
    for a in samples.chain([circuit(2_000, 3)]) {
        let options = on_cpu().engine(CpuEngine::Columns);
        let real = factorize(&a, options.clone()).unwrap();
        let complex = factorize(&to_scalar::<C>(&a), options).unwrap();
        let of = |inform: &luge::Inform| {
            let Inform {
                lnz,
                unz,
                num_blocks,
                matched,
                num_off_diagonal,
                num_perturbed,
                ..
            } = *inform;
            (
                lnz,
                unz,
                num_blocks,
                matched,
                num_off_diagonal,
                num_perturbed,
            )
        };
        assert_eq!(of(complex.inform()), of(real.inform()));
        // The permutations with which L and U were computed.
        assert_eq!(complex.structure().unwrap(), real.structure().unwrap());
        off_diagonal += real.inform().num_off_diagonal.unwrap();

        let (b, _) = known_solution(&a);
        let of_real = real.solve(&b).unwrap().x;
        let b: Vec<C> = b.into_iter().map(C::from).collect();
        let of_complex = complex.solve(&b).unwrap().x;
        for (x, z) in of_real.iter().zip(&of_complex) {
            assert!(
                (z - x).norm() <= 2.0 * f64::EPSILON * x.abs(),
                "{z} for {x}"
            );
        }
    }
    assert!(off_diagonal > 0, "no pivot was off the diagonal");
}

#[test]
fn the_kind_of_a_complex_matrix_is_told_by_its_values() {
    let a = turned::<C>(&CsMat::eye(3));
    let options = Options::default().kind(MatrixKind::Auto);
    let factors = factorize(&a, options).unwrap();
    assert_eq!(factors.inform().backend, "cpu");
    assert_eq!(factors.inform().kind, "symmetric");
    assert_eq!(factors.inform().precision, "complex f64");
    assert_eq!(factors.inertia(), None);
}

/// L·U is A with its rows and columns permuted, and a saved order is for the scalar that it was found for.
#[test]
fn complex_factors_are_given_out_and_their_analyses_are_saved() {
    use luge_testkit::generators::applications::circuit;

    let real = circuit(60, 4);
    let a = turned::<C>(&real);
    let mut largest: f64 = 0.0;
    a.data()
        .iter()
        .for_each(|v| largest = largest.max(v.norm()));
    for engine in [CpuEngine::Columns, CpuEngine::Fronts] {
        let factors = factorize(&a, on_cpu().engine(engine)).unwrap();
        let parts = factors.lower_upper().unwrap().expect("a general matrix");
        let product = &parts.l * &parts.u;
        let mut left = a.to_dense();
        for (&value, (i, j)) in &product {
            let place = (parts.row_perm.as_slice()[i], parts.col_perm.as_slice()[j]);
            left[[place.0 as usize, place.1 as usize]] -= value;
        }
        let error = left.iter().fold(0.0, |m: f64, v| m.max(v.norm()));
        assert!(error <= 1e-10 * largest, "{engine:?}: {error:e}");
    }
    let mut file = Vec::new();
    let solver = Solver::new(on_cpu().keep_order(true)).unwrap();
    let analysis = solver.analyze(&a).unwrap();
    analysis.save(&mut file).unwrap();
    let loaded = solver.load_analysis(&a, &file[..]).unwrap();
    let (b, _) = known_solution(&a);
    let solve = |analysis: &Analysis<C>| analysis.factorize(&a).unwrap().solve(&b).unwrap().x;
    assert_eq!(solve(&loaded), solve(&analysis));
    match solver.load_analysis(&real, &file[..]) {
        Err(Error::Saved(SavedError::OtherScalar { saved, given })) => {
            assert_eq!((saved, given), ("complex f64", "f64"));
        }
        other => panic!("{other:?}"),
    }
}

/// Circuits at a frequency and waves, by both engines; circuits come to rest with the solver's own help.
#[test]
fn complex_families_solve_and_are_refactorized() {
    use luge_testkit::generators::families::COMPLEX_FAMILIES;

    const BOUND: f64 = 1e-13;
    let mut solve = |a: &CsMat<f64>, b: &[f64]| -> Option<Vec<f64>> {
        let factors = factorize(a, on_cpu()).ok()?;
        Some(factors.solve(b).ok()?.x)
    };
    for family in COMPLEX_FAMILIES {
        let a = family.make(1_500, 2, &mut solve).unwrap();
        // Another frequency, about.
        let next = a.map(|v| C::new(v.re, 1.3 * v.im));
        for engine in [CpuEngine::Columns, CpuEngine::Fronts] {
            let mut factors = factorize(&a, on_cpu().engine(engine)).unwrap();
            for a in [&a, &next] {
                if std::ptr::eq(a, &next) {
                    factors.refactorize(a).unwrap();
                }
                let (b, _) = known_solution(a);
                let error = normwise_backward_error(a, &factors.solve(&b).unwrap().x, &b);
                assert!(error <= BOUND, "{}, {engine:?}: {error:e}", family.name);
            }
        }
    }
}

/// Tests that are run over both fields, those of the module `over` with the type.
macro_rules! over_both_fields {
    ($($test:ident)*) => {$(
        #[test]
        fn $test() {
            over::$test::<f64>();
            over::$test::<C>();
        }
    )*};
}

over_both_fields! {
    the_gallery_solves_by_every_pivoting
    matrices_by_columns_solve_too
    single_precision_factors_refine_to_double
    the_smallest_systems_solve
    bad_matrices_are_refused_with_the_first_offender
    dependent_rows_are_found_by_the_pivots
    tiny_static_pivots_are_counted_and_searched_instead
    a_missed_target_is_a_warning
    refactorizing_reuses_pivots_while_they_serve
    new_pivots_keep_the_order_as_long_as_the_scaling_fits
    refactorizing_finds_new_pivots_or_says_that_it_cannot
    refactorizing_refuses_other_patterns_and_bad_values
    one_analysis_serves_many_factorizations
    limits_and_the_cancel_flag_stop_the_phases
    right_hand_sides_are_checked
    the_inform_is_filled_and_serialises
    determinants_survive_permutation_scaling_and_blocks
    a_pass_in_place_solves_both_ways
    threads_do_not_change_a_bit
}

mod over {
    use luge::ordering::{Matching, OrderingOptions};
    use luge::{CancelFlag, FactorPrecision, Pivoting, Refactorized, Warning};
    use luge_sparse::num_traits::{Float, One, Zero};
    use luge_testkit::convert::to_scalar;
    use luge_testkit::generators::adversaries::{structurally_singular, tiny_diagonal};
    use luge_testkit::generators::applications::{
        circuit, circuit_sequence, convection_diffusion_2d, interior_point_kkt, random_unsymmetric,
    };
    use luge_testkit::generators::gallery;

    use super::*;

    pub fn the_gallery_solves_by_every_pivoting<T: Scalar>() {
        for sample in gallery(11) {
            for pivoting in [Pivoting::Auto, Pivoting::Threshold { threshold: 1.0 }] {
                let a = turned::<T>(&sample.matrix);
                let options = on_cpu().pivoting(pivoting);
                let factors = factorize(&a, options)
                    .unwrap_or_else(|e| panic!("{}, {pivoting:?}: {e}", sample.name));
                check_all_solves(&a, &factors);
            }
        }
    }

    pub fn matrices_by_columns_solve_too<T: Scalar>() {
        let a = turned::<T>(&circuit(100, 5)).to_csc();
        let factors = factorize(&a, on_cpu()).unwrap();
        let (b, _) = known_solution(&a.to_csr());
        let x = factors.solve(&b).unwrap().x;
        assert_backward_error(&a.to_csr(), &x, &b);
    }

    pub fn single_precision_factors_refine_to_double<T: Scalar>() {
        let a = turned::<T>(&convection_diffusion_2d(20, 17, 30.0));
        let options = on_cpu().precision(FactorPrecision::Single);
        let factors = factorize(&a, options).unwrap();
        let single = if T::COMPONENTS == 1 {
            "f32"
        } else {
            "complex f32"
        };
        assert_eq!(factors.inform().precision, single);
        let (b, _) = known_solution(&a);
        let solution = factors.solve(&b).unwrap();
        assert!(solution.inform.backward_error.unwrap() <= 1e-12);
        assert!(solution.inform.refinement_steps.unwrap() >= 1);
    }

    pub fn the_smallest_systems_solve<T: Scalar>() {
        let nothing = CsMat::<T>::zero((0, 0));
        let factors = factorize(&nothing, on_cpu()).unwrap();
        let solution = factors.solve(&[]).unwrap();
        assert!(solution.x.is_empty() && solution.inform.backward_error == Some(0.0));
        assert!(factors.solve_many(&[], 4).unwrap().x.is_empty());
        assert!(factors.solve_transpose(&[]).unwrap().x.is_empty());

        let one = to_scalar::<T>(&CsMat::new((1, 1), vec![0, 1], vec![0], vec![-4.0]));
        let [two, half] = [2.0, -0.5].map(|v| T::narrow(T::Wide::from_real(v)));
        let factors = factorize(&one, on_cpu()).unwrap();
        assert_eq!(factors.solve(&[two]).unwrap().x, [half]);
    }

    pub fn bad_matrices_are_refused_with_the_first_offender<T: Scalar>() {
        let solver = Solver::new(on_cpu()).unwrap();
        let rectangular = CsMat::<T>::zero((2, 3));
        assert!(matches!(
            solver.analyze(&rectangular),
            Err(Error::NotSquare { rows: 2, cols: 3 })
        ));
        let mut nan = dense::<T>(&[&[1.0, 2.0], &[3.0, 4.0]], false);
        // The last part of the last value.
        let mut left = T::COMPONENTS;
        let value = &mut nan.data_mut()[3];
        *value = value.map_components(|part| {
            left -= 1;
            if left == 0 { T::Real::nan() } else { part }
        });
        assert!(matches!(
            solver.analyze(&nan),
            Err(Error::NotFinite { row: 1, column: 1 })
        ));
        match solver.analyze(&turned::<T>(&structurally_singular(30, 3, 1))) {
            Err(Error::StructurallySingular {
                rank: 27,
                unmatched_rows,
                unmatched_columns,
            }) => assert_eq!((unmatched_rows.len(), unmatched_columns.len()), (3, 3)),
            other => panic!("{other:?}"),
        }
        let zero_column = dense::<T>(&[&[1.0, 0.0], &[2.0, 0.0]], true);
        match solver.analyze(&zero_column) {
            Err(Error::ZerosOnly {
                rank: 1,
                unmatched_columns,
                ..
            }) => assert_eq!(unmatched_columns, [1]),
            other => panic!("{other:?}"),
        }
    }

    pub fn dependent_rows_are_found_by_the_pivots<T: Scalar>() {
        let rank_two = dense::<T>(
            &[&[0.1, 0.7, 0.3], &[0.2, 0.1, 0.8], &[0.3, 0.8, 1.1]],
            false,
        );
        for pivoting in [Pivoting::Auto, Pivoting::Threshold { threshold: 0.5 }] {
            let options = on_cpu().pivoting(pivoting);
            let refused = factorize(&rank_two, options);
            assert!(
                matches!(
                    refused,
                    Err(Error::ZeroPivot { .. } | Error::SingularToRounding { .. })
                ),
                "{refused:?}"
            );
        }
    }

    pub fn tiny_static_pivots_are_counted_and_searched_instead<T: Scalar>() {
        // Unmatched and unscaled, the diagonal is useless.
        let a = turned::<T>(&tiny_diagonal(40, 1e-20, 3));
        let unguarded = |pivoting| {
            on_cpu()
                .ordering(
                    OrderingOptions::default()
                        .matching(Matching::Never)
                        .scaling(false)
                        .block_triangular(false),
                )
                .pivoting(pivoting)
        };
        let perturbed = factorize(&a, unguarded(Pivoting::Static)).unwrap();
        let count = perturbed.inform().num_perturbed.unwrap();
        assert!(count > 0);
        assert!(perturbed.inform().warnings.iter().any(
            |w| matches!(w, Warning::PerturbedPivots { count: warned, .. } if *warned == count)
        ));
        assert_eq!(perturbed.inform().pivoting, Some("static"));

        let searched = factorize(&a, unguarded(Pivoting::Auto)).unwrap();
        let inform = searched.inform();
        assert_eq!(
            (inform.pivoting, inform.num_perturbed),
            (Some("threshold"), Some(0))
        );
        assert!(inform.num_off_diagonal.unwrap() > 0);
        check_all_solves(&a, &searched);

        if cfg!(not(feature = "simulator")) || T::COMPONENTS > 1 {
            return;
        }
        let on_device = unguarded(Pivoting::Auto).backend(BackendChoice::Simulator { seed: 1 });
        let searched = factorize(&a, on_device).unwrap();
        let inform = searched.inform();
        assert_eq!(inform.pivoting, Some("threshold"));
        assert!(inform.num_off_diagonal.unwrap() > 0 && inform.seconds.pivot_search.is_some());
        assert!(
            inform
                .warnings
                .iter()
                .any(|w| matches!(w, Warning::PivotsSearched { .. }))
        );
        check_all_solves(&a, &searched);
    }

    pub fn a_missed_target_is_a_warning<T: Scalar>() {
        let a = turned::<T>(&random_unsymmetric(50, 4, 2));
        let options = on_cpu().target_backward_error(Some(1e-300));
        let factors = factorize(&a, options).unwrap();
        let (b, _) = known_solution(&a);
        let inform = factors.solve(&b).unwrap().inform;
        assert!(
            inform
                .warnings
                .iter()
                .any(|w| matches!(w, Warning::TargetMissed { target: 1e-300, .. }))
        );
    }

    pub fn refactorizing_reuses_pivots_while_they_serve<T: Scalar>() {
        let steps = circuit_sequence(120, 9, 4);
        let steps: Vec<CsMat<T>> = steps.iter().map(turned).collect();
        let mut factors = factorize(&steps[0], on_cpu()).unwrap();
        for step in &steps[1..] {
            let outcome = factors.refactorize(step).unwrap();
            match outcome {
                Refactorized::Reused {
                    growth,
                    backward_error,
                } => {
                    // A bound, a hundred times the target at most, of what is measured below.
                    assert!(growth < 1e8 && backward_error.is_some_and(|e| e <= 1e-10));
                    let (b, _) = known_solution(step);
                    let mut x = b.clone();
                    let accuracy = factors.solve_in_place(&mut x).unwrap();
                    let error = normwise_backward_error(step, &x, &b);
                    let stated = accuracy.backward_error.unwrap();
                    assert!(error <= stated.max(f64::EPSILON) && stated <= 1e-10);
                    assert!(error <= 1e-14, "{error:e}");
                }
                other => panic!("{other:?}"),
            }
            check_all_solves(step, &factors);
        }
    }

    pub fn new_pivots_keep_the_order_as_long_as_the_scaling_fits<T: Scalar>() {
        for (on, is_ordered_anew) in [(1e-9, false), (1e-14, true)] {
            let mut factors =
                factorize(&two_by_two_blocks_of::<T>(20, 1.0, 1e-14), on_cpu()).unwrap();
            assert_eq!(factors.inform().seconds.pivot_search, None);
            let new = two_by_two_blocks_of(20, on, 1.0);
            let outcome = factors.refactorize(&new).unwrap();
            assert!(
                matches!(outcome, Refactorized::Repivoted { .. }),
                "{outcome:?}"
            );
            // The pivots changed by a factor of 10⁹, or of more than 10¹².
            let searched = factors.inform().seconds.pivot_search;
            assert_eq!(searched.is_some(), is_ordered_anew, "{on:e}");
            check_all_solves(&new, &factors);
        }
    }

    pub fn refactorizing_finds_new_pivots_or_says_that_it_cannot<T: Scalar>() {
        let [straight, swapped] = [false, true].map(|swapped| two_by_two_blocks::<T>(20, swapped));
        let mut factors = factorize(&straight, on_cpu()).unwrap();
        match factors.refactorize(&swapped).unwrap() {
            Refactorized::Repivoted {
                reason,
                backward_error,
                ..
            } => assert!(!reason.is_empty() && backward_error.is_some_and(|e| e <= 1e-12)),
            other => panic!("{other:?}"),
        }
        check_all_solves(&swapped, &factors);
        // And back, with the pivots of the swapped matrix.
        factors.refactorize(&straight).unwrap();
        check_all_solves(&straight, &factors);

        let options = on_cpu()
            .pivoting(Pivoting::Static)
            .perturbation(Some(0.5))
            .max_refinement_steps(0);
        let mut fixed = factorize(&straight, options).unwrap();
        match fixed.refactorize(&swapped) {
            Err(Error::Unstable {
                row,
                backward_error,
                ..
            }) => assert!(row < 40 && backward_error > 1e-12),
            other => panic!("{other:?}"),
        }
        // The old factors are still in place.
        let (b, _) = known_solution(&straight);
        let inform = fixed.solve(&b).unwrap().inform;
        assert!(inform.backward_error.unwrap() < 1e-10);
    }

    pub fn refactorizing_refuses_other_patterns_and_bad_values<T: Scalar>() {
        let a = turned::<T>(&random_unsymmetric(40, 4, 8));
        let mut factors = factorize(&a, on_cpu()).unwrap();
        let other = turned::<T>(&random_unsymmetric(40, 4, 9));
        assert!(matches!(
            factors.refactorize(&other),
            Err(Error::ExtraEntry { .. })
        ));
        let mut infinite = a.clone();
        infinite.data_mut()[0] = T::from_components(|_| T::Real::infinity());
        assert!(matches!(
            factors.refactorize(&infinite),
            Err(Error::NotFinite { row: 0, .. })
        ));
        let mut zero = a.clone();
        zero.data_mut().fill(T::zero());
        assert!(matches!(
            factors.refactorize(&zero),
            Err(Error::ZerosOnly { rank: 0, .. })
        ));
        check_all_solves(&a, &factors);
    }

    pub fn one_analysis_serves_many_factorizations<T: Scalar>() {
        let steps: Vec<CsMat<T>> = circuit_sequence(60, 2, 3).iter().map(turned).collect();
        let analysis = Solver::new(on_cpu()).unwrap().analyze(&steps[0]).unwrap();
        let factors: Vec<_> = steps
            .iter()
            .map(|step| analysis.factorize(step).unwrap())
            .collect();
        for (step, factors) in steps.iter().zip(&factors) {
            check_all_solves(step, factors);
            assert_eq!(factors.inform().num_blocks, analysis.inform().num_blocks);
        }
    }

    pub fn limits_and_the_cancel_flag_stop_the_phases<T: Scalar>() {
        let a = turned::<T>(&convection_diffusion_2d(20, 20, 1.0));
        let limited = |bytes| on_cpu().max_host_bytes(Some(bytes)).threads(Some(1));
        for (bytes, wanted) in [
            (10_000, "setup"),
            (150_000, "ordering"),
            (400_000, "numeric"),
        ] {
            let solver = Solver::new(limited(bytes));
            match solver.and_then(|solver| solver.analyze(&a)?.factorize(&a)) {
                Err(Error::OutOfMemory {
                    asked,
                    available,
                    phase,
                }) => assert!(
                    asked > bytes && available == bytes && phase == wanted,
                    "{phase}"
                ),
                other => panic!("{bytes}: {other:?}"),
            }
        }
        assert!(factorize(&a, limited(2_000_000)).is_ok());
        let cancel = CancelFlag::new();
        let options = on_cpu().cancel(cancel.clone());
        let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
        cancel.cancel();
        assert!(matches!(analysis.factorize(&a), Err(Error::Cancelled(_))));
    }

    pub fn right_hand_sides_are_checked<T: Scalar>() {
        let a = turned::<T>(&random_unsymmetric(5, 2, 1));
        let factors = factorize(&a, on_cpu()).unwrap();
        let mut b = vec![T::one(); 10];
        b[7] = T::from_components(|_| T::Real::nan());
        assert!(matches!(
            factors.solve_many(&b, 2),
            Err(Error::RightHandSideNotFinite { row: 2, column: 1 })
        ));
    }

    pub fn the_inform_is_filled_and_serialises<T: Scalar>() {
        let a = turned::<T>(&interior_point_kkt(60, 25, 1e-3, 4));
        let options = on_cpu().estimate_condition(true);
        let (b, _) = known_solution(&a);
        let inform = factorize(&a, options).unwrap().solve(&b).unwrap().inform;
        assert_eq!((inform.n, inform.nnz), (a.rows(), a.nnz()));
        assert!(inform.lnz as usize >= inform.n && inform.unz as usize >= inform.n);
        assert!(inform.flops > 0.0 && inform.peak_host_bytes > 0);
        assert!(inform.predicted_host_bytes.unwrap() > 0);
        let rcond = inform.rcond.unwrap();
        assert!(rcond > 0.0 && rcond < 1.0);
        let json: serde_json::Value = serde_json::from_str(&inform.to_json()).unwrap();
        for field in [
            "n",
            "nnz",
            "lnz",
            "unz",
            "flops",
            "peak_host_bytes",
            "predicted_host_bytes",
            "num_perturbed",
            "rank",
            "growth",
            "rcond",
            "backward_error",
            "refinement_steps",
            "seconds",
            "backend",
            "device",
            "code_path",
        ] {
            assert!(!json[field].is_null(), "{field} in {json}");
        }
        assert_eq!(json["backend"], "cpu");
        for field in ["num_levels", "peak_device_bytes", "num_neg"] {
            assert!(json.get(field).is_some_and(|v| v.is_null()), "{field}");
        }
    }

    pub fn determinants_survive_permutation_scaling_and_blocks<T: Scalar>() {
        // 0 2 0      det = -2 · (3 · 5 - 4 · 1) = -22
        // 3 7 4
        // 1 0 5      with the third row times i over the complex numbers
        let rows = [[0.0, 2.0, 0.0], [3.0, 7.0, 4.0], [1.0, 0.0, 5.0]];
        let unit = T::from_components(|at| {
            if at + 1 == T::COMPONENTS {
                T::Real::one()
            } else {
                T::Real::zero()
            }
        });
        let number = |v: f64| T::narrow(T::Wide::from_real(v));
        let mut a = TriMat::new((3, 3));
        for (i, row) in rows.iter().enumerate() {
            for (j, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                let factor = if i == 2 { unit } else { T::one() };
                a.add_triplet(i, j, number(v) * factor);
            }
        }
        let a: CsMat<T> = a.to_csr();
        let expected = (number(-22.0) * unit).widen();
        let mut backends = vec![BackendChoice::Cpu];
        if cfg!(feature = "simulator") && T::COMPONENTS == 1 {
            backends.push(BackendChoice::Simulator { seed: 3 });
        }
        for backend in backends {
            for engine in [CpuEngine::Columns, CpuEngine::Fronts] {
                let options = Options::default().backend(backend).engine(engine);
                let factors = factorize(&a, options).unwrap();
                let determinant = factors.determinant().unwrap();
                assert!(
                    (determinant.value() - expected).modulus() < 1e-13,
                    "{backend:?}, {engine:?}: {determinant}"
                );
            }
        }
        let huge = a.map(|&v| v * number(1e200));
        let determinant = factorize(&huge, on_cpu()).unwrap().determinant().unwrap();
        assert!((determinant.log10_abs() - 22f64.log10() - 600.0).abs() < 1e-10);
        assert!(!determinant.value().is_number());
        let nothing = factorize(&CsMat::<T>::zero((0, 0)), on_cpu()).unwrap();
        assert!(nothing.determinant().unwrap().value() == T::Wide::one());
    }

    pub fn a_pass_in_place_solves_both_ways<T: Scalar>() {
        // Without refinement nothing makes up for pivots that grow.
        for sample in gallery(5).into_iter().filter(|s| s.name != "growth_blocks") {
            let a = &turned::<T>(&sample.matrix);
            let factors = factorize(a, on_cpu()).unwrap();
            let (mut x, _) = known_solution(a);
            let b = x.clone();
            factors.solve_in_place(&mut x).unwrap();
            assert_backward_error(a, &x, &b);
            let transpose = a.to_csc().transpose_into();
            let (mut x, _) = known_solution(&transpose);
            let b = x.clone();
            factors.solve_transpose_in_place(&mut x).unwrap();
            assert_backward_error(&transpose, &x, &b);
            let adjoint = transpose.map(|v| v.conjugate());
            let (mut x, _) = known_solution(&adjoint);
            let b = x.clone();
            factors.solve_adjoint_in_place(&mut x).unwrap();
            assert_backward_error(&adjoint, &x, &b);
        }
    }

    pub fn threads_do_not_change_a_bit<T: Scalar>() {
        let by_itself = [CpuEngine::Columns, CpuEngine::Fronts];
        let any = [CpuEngine::Auto, CpuEngine::Columns, CpuEngine::Fronts];
        for (a, engines) in [
            (circuit(400, 3), &any[..]),
            (convection_diffusion_2d(40, 40, 5.0), &any),
            // Large enough for subtrees side by side.
            (circuit(12_000, 7), &by_itself),
            (convection_diffusion_2d(120, 120, 5.0), &by_itself),
        ] {
            let a = turned::<T>(&a);
            let (b, _) = known_solution(&a);
            let solve = |threads, engine| {
                let options = on_cpu().threads(Some(threads)).engine(engine);
                let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
                let mut factors = analysis.factorize(&a).unwrap();
                let first = factors.solve(&b).unwrap().x;
                let again = analysis.factorize(&a).unwrap();
                assert_eq!(again.solve(&b).unwrap().x, first);
                factors.refactorize(&a).unwrap();
                assert_eq!(factors.solve(&b).unwrap().x, first);
                first
            };
            for &engine in engines {
                let alone = solve(1, engine);
                for threads in [2, 3, 8] {
                    assert_eq!(
                        solve(threads, engine),
                        alone,
                        "{threads} threads, {engine:?}"
                    );
                }
            }
        }
    }
}
