//! The facade end to end on the CPU, and once on the simulator.

use luge::ordering::{Matching, OrderingOptions};
use luge::{
    BackendChoice, CancelFlag, CpuEngine, Error, FactorPrecision, Factors, Options, Pivoting,
    RealScalar, Refactorized, Solver, Warning,
};
use luge_testkit::convert::to_scalar;
use luge_testkit::generators::adversaries::{structurally_singular, tiny_diagonal};
use luge_testkit::generators::applications::{
    circuit, circuit_sequence, convection_diffusion_2d, interior_point_kkt, random_unsymmetric,
};
use luge_testkit::generators::gallery;
use luge_testkit::residual::{
    assert_backward_error, error_bound, known_solution, normwise_backward_error,
};
use luge_testkit::strategies::{dominant_matrices, nonsingular_matrices};
use proptest::prelude::*;
use sprs::{CsMat, TriMat};

fn on_cpu() -> Options {
    Options::default().backend(BackendChoice::Cpu)
}

fn factorize<T: RealScalar>(a: &CsMat<T>, options: Options) -> Result<Factors<T>, Error> {
    Solver::new(options)?.analyze(a)?.factorize(a)
}

/// Rows given as dense, zeros stored where `stored` says so.
fn dense(rows: &[&[f64]], store_zeros: bool) -> CsMat<f64> {
    let mut a = TriMat::new((rows.len(), rows.first().map_or(0, |r| r.len())));
    for (i, row) in rows.iter().enumerate() {
        for (j, &v) in row.iter().enumerate() {
            if v != 0.0 || store_zeros {
                a.add_triplet(i, j, v);
            }
        }
    }
    a.to_csr()
}

/// Solves plain, transposed and for many right-hand sides, and checks what the inform claims.
fn check_all_solves<T: RealScalar>(a: &CsMat<T>, factors: &Factors<T>) {
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

    let n = a.rows();
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

#[test]
fn the_gallery_solves_by_every_pivoting() {
    for sample in gallery(11) {
        for pivoting in [Pivoting::Auto, Pivoting::Threshold { threshold: 1.0 }] {
            let options = on_cpu().pivoting(pivoting);
            let factors = factorize(&sample.matrix, options)
                .unwrap_or_else(|e| panic!("{}, {pivoting:?}: {e}", sample.name));
            check_all_solves(&sample.matrix, &factors);
        }
    }
}

#[test]
fn matrices_by_columns_solve_too() {
    let a = circuit(100, 5).to_csc();
    let factors = factorize(&a, on_cpu()).unwrap();
    let (b, _) = known_solution(&a.to_csr());
    let x = factors.solve(&b).unwrap().x;
    assert_backward_error(&a.to_csr(), &x, &b);
}

#[test]
fn single_precision_factors_refine_to_double() {
    let a = convection_diffusion_2d(20, 17, 30.0);
    let options = on_cpu().precision(FactorPrecision::Single);
    let factors = factorize(&a, options).unwrap();
    assert_eq!(factors.inform().precision, "f32");
    let (b, _) = known_solution(&a);
    let solution = factors.solve(&b).unwrap();
    assert!(solution.inform.backward_error.unwrap() <= 1e-12);
    assert!(solution.inform.refinement_steps.unwrap() >= 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn f64_systems_solve(a in nonsingular_matrices(40)) {
        check_all_solves(&a, &factorize(&a, on_cpu()).unwrap());
    }

    #[test]
    fn f32_systems_solve(a in nonsingular_matrices(40)) {
        let a = to_scalar::<f32>(&a);
        check_all_solves(&a, &factorize(&a, on_cpu()).unwrap());
    }

    #[test]
    fn nothing_is_needed_but_pivots(a in dominant_matrices(40)) {
        let options = on_cpu().ordering(OrderingOptions::default().matching(Matching::Never).scaling(false).block_triangular(false)).pivoting(Pivoting::Static);
        let factors = factorize(&a, options).unwrap();
        prop_assert_eq!(factors.inform().num_perturbed, Some(0));
        check_all_solves(&a, &factors);
    }
}

#[test]
fn the_smallest_systems_solve() {
    let nothing = CsMat::<f64>::zero((0, 0));
    let factors = factorize(&nothing, on_cpu()).unwrap();
    let solution = factors.solve(&[]).unwrap();
    assert!(solution.x.is_empty() && solution.inform.backward_error == Some(0.0));
    assert!(factors.solve_many(&[], 4).unwrap().x.is_empty());
    assert!(factors.solve_transpose(&[]).unwrap().x.is_empty());

    let one = dense(&[&[-4.0]], false);
    assert_eq!(
        factorize(&one, on_cpu()).unwrap().solve(&[2.0]).unwrap().x,
        [-0.5]
    );
}

#[test]
fn bad_matrices_are_refused_with_the_first_offender() {
    let solver = Solver::new(on_cpu()).unwrap();
    let rectangular = CsMat::<f64>::zero((2, 3));
    assert!(matches!(
        solver.analyze(&rectangular),
        Err(Error::NotSquare { rows: 2, cols: 3 })
    ));
    let nan = dense(&[&[1.0, 2.0], &[3.0, f64::NAN]], false);
    assert!(matches!(
        solver.analyze(&nan),
        Err(Error::NotFinite { row: 1, column: 1 })
    ));
    match solver.analyze(&structurally_singular(30, 3, 1)) {
        Err(Error::StructurallySingular {
            rank: 27,
            unmatched_rows,
            unmatched_columns,
        }) => assert_eq!((unmatched_rows.len(), unmatched_columns.len()), (3, 3)),
        other => panic!("{other:?}"),
    }
    let zero_column = dense(&[&[1.0, 0.0], &[2.0, 0.0]], true);
    match solver.analyze(&zero_column) {
        Err(Error::ZerosOnly {
            rank: 1,
            unmatched_columns,
            ..
        }) => assert_eq!(unmatched_columns, [1]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn dependent_rows_are_found_by_the_pivots() {
    let rank_two = dense(
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

#[test]
fn tiny_static_pivots_are_counted_and_searched_instead() {
    // Unmatched and unscaled, the diagonal is useless.
    let a = tiny_diagonal(40, 1e-20, 3);
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
    assert!(
        perturbed.inform().warnings.iter().any(
            |w| matches!(w, Warning::PerturbedPivots { count: warned, .. } if *warned == count)
        )
    );
    assert_eq!(perturbed.inform().pivoting, Some("static"));

    let searched = factorize(&a, unguarded(Pivoting::Auto)).unwrap();
    let inform = searched.inform();
    assert_eq!(
        (inform.pivoting, inform.num_perturbed),
        (Some("threshold"), Some(0))
    );
    assert!(inform.num_off_diagonal.unwrap() > 0);
    check_all_solves(&a, &searched);

    if cfg!(not(feature = "simulator")) {
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

#[test]
fn a_missed_target_is_a_warning() {
    let a = random_unsymmetric(50, 4, 2);
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

#[test]
fn refactorizing_reuses_pivots_while_they_serve() {
    let steps = circuit_sequence(120, 9, 4);
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

/// A matrix whose large entries stand on the diagonal, or with `swapped` beside it.
fn two_by_two_blocks(blocks: usize, swapped: bool) -> CsMat<f64> {
    let (on, off) = if swapped { (1e-14, 1.0) } else { (1.0, 1e-14) };
    two_by_two_blocks_of(blocks, on, off)
}

/// With these entries on the diagonal and beside it.
fn two_by_two_blocks_of(blocks: usize, on: f64, off: f64) -> CsMat<f64> {
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
    a.to_csr()
}

#[test]
fn new_pivots_keep_the_order_as_long_as_the_scaling_fits() {
    for (on, is_ordered_anew) in [(1e-9, false), (1e-14, true)] {
        let mut factors = factorize(&two_by_two_blocks_of(20, 1.0, 1e-14), on_cpu()).unwrap();
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

#[test]
fn refactorizing_finds_new_pivots_or_says_that_it_cannot() {
    let (straight, swapped) = (two_by_two_blocks(20, false), two_by_two_blocks(20, true));
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

#[test]
fn refactorizing_refuses_other_patterns_and_bad_values() {
    let a = random_unsymmetric(40, 4, 8);
    let mut factors = factorize(&a, on_cpu()).unwrap();
    let other = random_unsymmetric(40, 4, 9);
    assert!(matches!(
        factors.refactorize(&other),
        Err(Error::ExtraEntry { .. })
    ));
    let mut infinite = a.clone();
    infinite.data_mut()[0] = f64::INFINITY;
    assert!(matches!(
        factors.refactorize(&infinite),
        Err(Error::NotFinite { row: 0, .. })
    ));
    let mut zero = a.clone();
    zero.data_mut().fill(0.0);
    assert!(matches!(
        factors.refactorize(&zero),
        Err(Error::ZerosOnly { rank: 0, .. })
    ));
    check_all_solves(&a, &factors);
}

#[test]
fn one_analysis_serves_many_factorizations() {
    let steps = circuit_sequence(60, 2, 3);
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

#[test]
fn limits_and_the_cancel_flag_stop_the_phases() {
    let a = convection_diffusion_2d(20, 20, 1.0);
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

#[test]
fn right_hand_sides_are_checked() {
    let a = random_unsymmetric(5, 2, 1);
    let factors = factorize(&a, on_cpu()).unwrap();
    let mut b = vec![1.0; 10];
    b[7] = f64::NAN;
    assert!(matches!(
        factors.solve_many(&b, 2),
        Err(Error::RightHandSideNotFinite { row: 2, column: 1 })
    ));
}

#[test]
#[should_panic(expected = "the right-hand side has 4 entries; the matrix has order 5")]
fn a_right_hand_side_of_another_length_is_a_broken_call() {
    let a = random_unsymmetric(5, 2, 1);
    let _ = factorize(&a, on_cpu()).unwrap().solve(&[1.0; 4]);
}

#[test]
fn the_inform_is_filled_and_serialises() {
    let a = interior_point_kkt(60, 25, 1e-3, 4);
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

#[cfg(feature = "simulator")]
#[test]
fn the_simulator_finds_the_structure_of_the_cpu_and_solves() {
    use luge::{DeviceEngine, SymbolicReport};

    let a = circuit(25, 6);
    let analyze = |backend| {
        let options = Options::default()
            .backend(backend)
            .device_engine(DeviceEngine::Columns)
            .pivoting(Pivoting::Static);
        Solver::new(options).unwrap().analyze(&a).unwrap()
    };
    let simulated = analyze(BackendChoice::Simulator { seed: 5 });
    check_all_solves(&a, &simulated.factorize(&a).unwrap());
    let (filled, levels) = simulated.structure().unwrap();
    let inform = simulated.inform();
    assert_eq!(inform.lnz as usize, filled.lnz());
    assert_eq!(inform.unz as usize, filled.unz());
    assert_eq!(inform.flops, filled.flops());
    let supernodes = luge_reference::supernode::supernodes_by_definition(&filled, 128);
    assert_eq!(inform.num_supernodes, Some(supernodes.len() - 1));
    assert_eq!(inform.spilled_bytes, Some(0));
    assert!(matches!(
        &inform.symbolic,
        Some(SymbolicReport::Panels(panels)) if panels.num_panels > 0 && panels.peak_bytes > 0
    ));
    assert_eq!(inform.num_levels, Some(levels.num_levels()));
    assert_eq!(inform.max_level_width, Some(levels.max_width()));
    let matched = Options::default()
        .backend(BackendChoice::Cpu)
        .ordering(OrderingOptions::default().matching(Matching::Always));
    let on_cpu = Solver::new(matched).unwrap().analyze(&a).unwrap();
    assert_eq!(on_cpu.structure().unwrap(), (filled, levels));
}

#[test]
fn determinants_survive_permutation_scaling_and_blocks() {
    // 0 2 0      det = -2 · (3 · 5 - 4 · 1) = -22
    // 3 7 4
    // 1 0 5
    let a = dense(
        &[&[0.0, 2.0, 0.0], &[3.0, 7.0, 4.0], &[1.0, 0.0, 5.0]],
        false,
    );
    let mut backends = vec![BackendChoice::Cpu];
    if cfg!(feature = "simulator") {
        backends.push(BackendChoice::Simulator { seed: 3 });
    }
    for backend in backends {
        for engine in [CpuEngine::Columns, CpuEngine::Fronts] {
            let options = Options::default().backend(backend).engine(engine);
            let factors = factorize(&a, options).unwrap();
            let determinant = factors.determinant().unwrap();
            assert!(
                (determinant.value() + 22.0).abs() < 1e-13,
                "{backend:?}, {engine:?}: {determinant}"
            );
        }
    }
    let huge = a.map(|v| v * 1e200);
    let determinant = factorize(&huge, on_cpu()).unwrap().determinant().unwrap();
    assert!((determinant.log10_abs() - 22f64.log10() - 600.0).abs() < 1e-10);
    assert_eq!(determinant.value(), f64::NEG_INFINITY);
    let nothing = factorize(&CsMat::<f64>::zero((0, 0)), on_cpu()).unwrap();
    assert_eq!(nothing.determinant().unwrap().value(), 1.0);
}

#[test]
fn a_pass_in_place_solves_both_ways() {
    // Without refinement nothing makes up for pivots that grow.
    for sample in gallery(5).into_iter().filter(|s| s.name != "growth_blocks") {
        let a = &sample.matrix;
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
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let small = [circuit(400, 3), convection_diffusion_2d(40, 40, 5.0)];
    // Large enough for subtrees side by side.
    let large = [circuit(12_000, 7), convection_diffusion_2d(120, 120, 5.0)];
    for a in small.into_iter().chain(large) {
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
        for engine in [CpuEngine::Auto, CpuEngine::Columns, CpuEngine::Fronts] {
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
