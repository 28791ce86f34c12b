//! The facade on a device, by each of its engines: factorize, solve, refactorize, memory, and data that stays there.

use luge::ordering::{Matching, Method, OrderingOptions};
use luge::{
    BackendChoice, ColumnMode, ColumnOptions, DeviceColumns, DeviceEngine, ElementAccess, Error,
    FactorPrecision, Factors, Fill2Options, MatrixKind, Options, Parallelism, Pivoting, RealScalar,
    Refactorized, Relaxation, ResidualCheck, Solver, Stages, SupernodeOptions, SymbolicMode,
    SymbolicOptions, SymbolicReport, Warning,
};
use luge_testkit::convert::to_scalar;
use luge_testkit::generators::adversaries::{needs_other_rows, tiny_diagonal};
use luge_testkit::generators::applications::{
    circuit, circuit_sequence, convection_diffusion_2d, interior_point_kkt, power_grid,
    random_unsymmetric,
};
use luge_testkit::residual::{assert_backward_error, known_solution, normwise_backward_error};
use sprs::{CsMat, TriMat};

const ENGINES: [DeviceEngine; 2] = [DeviceEngine::Tree, DeviceEngine::Columns];

fn on_device(device_engine: DeviceEngine) -> Options {
    Options::default()
        .backend(BackendChoice::Simulator { seed: 3 })
        .device_engine(device_engine)
}

fn factorize<T: RealScalar>(a: &CsMat<T>, options: Options) -> Result<Factors<T>, Error> {
    Solver::new(options)?.analyze(a)?.factorize(a)
}

/// Solves plain, transposed, for many right-hand sides, and by one pass.
fn check_all_solves<T: RealScalar>(a: &CsMat<T>, factors: &Factors<T>) {
    let n = a.rows();
    let (b, _) = known_solution(a);
    let solution = factors.solve(&b).unwrap();
    assert_backward_error(a, &solution.x, &b);
    let many = [b.clone(), vec![T::zero(); n], b.clone()].concat();
    let x = factors.solve_many(&many, 3).unwrap().x;
    for (x, b) in x.chunks(n.max(1)).zip(many.chunks(n.max(1))) {
        assert_backward_error(a, x, b);
    }
    let mut x = b.clone();
    factors.solve_in_place(&mut x).unwrap();
    assert!(normwise_backward_error(a, &x, &b) < 1e6 * T::epsilon().to_f64());

    let transpose = a.to_csc().transpose_into();
    let (b, _) = known_solution(&transpose);
    let x = factors.solve_transpose(&b).unwrap().x;
    assert_backward_error(&transpose, &x, &b);
}

fn samples() -> Vec<(&'static str, CsMat<f64>)> {
    vec![
        ("nothing", CsMat::zero((0, 0))),
        ("one", CsMat::eye(1).map(|v: &f64| -4.0 * v)),
        ("circuit", circuit(60, 3)),
        ("grid", convection_diffusion_2d(9, 8, 5.0)),
        ("power grid", power_grid(2, 5, 5, 5)),
        ("KKT", interior_point_kkt(40, 15, 1e-3, 4)),
        ("unsymmetric", random_unsymmetric(33, 4, 6)),
    ]
}

#[test]
fn every_engine_solves() {
    for (name, a) in samples() {
        for engine in ENGINES {
            for a in [a.clone(), a.to_csc()] {
                let factors = factorize(&a, on_device(engine))
                    .unwrap_or_else(|e| panic!("{name}, {engine:?}: {e}"));
                check_all_solves(&a.to_csr(), &factors);
            }
        }
    }
}

#[test]
fn single_precision_factors_refine_to_double_and_single_matrices_solve() {
    let a = convection_diffusion_2d(9, 8, 5.0);
    for engine in ENGINES {
        let options = on_device(engine).precision(FactorPrecision::Single);
        let factors = factorize(&a, options).unwrap();
        assert_eq!(factors.inform().precision, "f32");
        let (b, _) = known_solution(&a);
        let inform = factors.solve(&b).unwrap().inform;
        assert!(inform.backward_error.unwrap() <= 1e-12);
        assert!(inform.refinement_steps.unwrap() >= 1);
        let a = to_scalar::<f32>(&a);
        check_all_solves(&a, &factorize(&a, on_device(engine)).unwrap());
    }
}

#[test]
fn right_hand_sides_of_any_size_solve() {
    let a = random_unsymmetric(31, 4, 6);
    for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
        for engine in ENGINES {
            let options = on_device(engine).precision(precision);
            let factors = factorize(&a, options).unwrap();
            let (b, _) = known_solution(&a);
            for factor in [1e-290, 1e-60, 1e60, 1e290] {
                let b: Vec<f64> = b.iter().map(|v| v * factor).collect();
                let solution = factors.solve(&b).unwrap();
                let error = solution.inform.backward_error.unwrap();
                assert!(
                    error <= 1e-12,
                    "{engine:?}, {precision:?}, {factor:e}: {error:e}"
                );
            }
        }
    }
}

#[test]
fn the_inform_tells_which_engine_ran_and_what_it_cost() {
    let a = circuit(60, 3);
    let (b, _) = known_solution(&a);
    let inform_of = |engine| {
        let options = on_device(engine).estimate_condition(true);
        let mut factors = factorize(&a, options).unwrap();
        // What its check takes is predicted, too.
        factors.refactorize(&a).unwrap();
        factors.solve(&b).unwrap().inform
    };
    let tree = inform_of(DeviceEngine::Tree);
    assert_eq!(inform_of(DeviceEngine::Auto).code_path, tree.code_path);
    assert!(tree.code_path.iter().any(|step| step.contains("fronts")));
    assert!(tree.lnz as usize >= a.rows() && tree.unz >= tree.lnz && tree.flops > 0.0);
    assert!(tree.num_supernodes.unwrap() > 0 && tree.max_front.unwrap() > 0);
    assert_eq!((tree.num_levels, &tree.symbolic), (None, &None));
    let columns = inform_of(DeviceEngine::Columns);
    assert!(columns.code_path.iter().any(|step| step.contains("levels")));
    assert!(columns.num_levels.unwrap() > 0 && columns.max_front.is_none());
    for inform in [&tree, &columns] {
        assert!(inform.growth.unwrap() >= 1.0 && inform.backward_error.unwrap() <= 1e-12);
        assert_eq!(
            (inform.num_perturbed, inform.rank),
            (Some(0), Some(a.rows()))
        );
        assert!(inform.peak_device_bytes.unwrap() > 0 && inform.peak_host_bytes > 0);
        let rcond = inform.rcond.unwrap();
        assert!(rcond > 0.0 && rcond <= 1.0);
        let seconds = &inform.seconds;
        let measured = [
            seconds.numeric,
            seconds.probe,
            seconds.solve,
            seconds.transfer,
        ];
        assert!(measured.iter().all(|s| s.is_some_and(|s| s > 0.0)));
        assert!(seconds.ordering > 0.0 && seconds.symbolic > 0.0);
    }
    // What was predicted is what there was, but for right-hand sides.
    let (predicted, peak) = (
        tree.predicted_device_bytes.unwrap() as f64,
        tree.peak_device_bytes.unwrap() as f64,
    );
    assert!(
        predicted <= 1.25 * peak && peak <= 1.25 * predicted,
        "{predicted} {peak}"
    );
    // The condition of the scaled matrix is nearly a property of the matrix.
    let ratio = tree.rcond.unwrap() / columns.rcond.unwrap();
    assert!((1e-3..=1e3).contains(&ratio), "{ratio:e}");
}

#[test]
fn determinants_agree() {
    for (name, a) in samples() {
        let [tree, columns] = ENGINES.map(|engine| {
            let factors = factorize(&a, on_device(engine)).unwrap();
            factors.determinant().unwrap()
        });
        assert_eq!(tree.mantissa.signum(), columns.mantissa.signum(), "{name}");
        let difference = tree.log10_abs() - columns.log10_abs();
        assert!(difference.abs() < 1e-9, "{name}: {tree} {columns}");
    }
}

#[test]
fn tiny_static_pivots_are_replaced_or_others_are_found() {
    // Unmatched and unscaled, the diagonal is useless.
    let a = tiny_diagonal(40, 1e-20, 3);
    let unguarded = |pivoting, matching| {
        on_device(DeviceEngine::Tree)
            .ordering(
                OrderingOptions::default()
                    .matching(matching)
                    .scaling(false)
                    .block_triangular(false),
            )
            .pivoting(pivoting)
    };
    let options = unguarded(Pivoting::Static, Matching::Never);
    let perturbed = factorize(&a, options).unwrap();
    let inform = perturbed.inform();
    let count = inform.num_perturbed.unwrap();
    assert!(count > 0 && inform.pivoting == Some("static"));
    assert!(
        inform.warnings.iter().any(
            |w| matches!(w, Warning::PerturbedPivots { count: warned, .. } if *warned == count)
        )
    );

    let searched = factorize(&a, unguarded(Pivoting::Auto, Matching::Never)).unwrap();
    let inform = searched.inform();
    assert_eq!(
        (inform.pivoting, inform.num_perturbed),
        (Some("threshold"), Some(0))
    );
    assert!(inform.num_off_diagonal.unwrap() > 0 && inform.seconds.pivot_search.is_some());
    let warned = |w: &Warning| matches!(w, Warning::PivotsSearched { .. });
    assert!(inform.warnings.iter().any(warned));
    check_all_solves(&a, &searched);

    let threshold = Pivoting::Threshold { threshold: 1.0 };
    let searched = factorize(&a, unguarded(threshold, Matching::Never)).unwrap();
    assert_eq!(searched.inform().pivoting, Some("threshold"));
    check_all_solves(&a, &searched);
}

/// Pivots of a fiftieth of their columns are taken while the diagonal is preferred, and each makes the last column
/// fifty times larger.
#[test]
fn partial_pivoting_follows_where_the_preferred_diagonal_grows() {
    let n = 40;
    let mut a = TriMat::new((n, n));
    for i in 0..n {
        a.add_triplet(i, i, if i + 1 < n { 0.02 } else { 1.0 });
        if i + 1 < n {
            a.add_triplet(i + 1, i, -1.0);
            a.add_triplet(i, n - 1, 1.0);
        }
    }
    let a: CsMat<f64> = a.to_csr();
    let options = on_device(DeviceEngine::Columns).ordering(
        OrderingOptions::default()
            .method(Method::Natural)
            .matching(Matching::Never)
            .scaling(false)
            .block_triangular(false),
    );
    let searched = factorize(&a, options).unwrap();
    let inform = searched.inform();
    assert_eq!(inform.pivoting, Some("threshold"));
    assert_eq!(inform.num_off_diagonal, Some(n - 1));
    check_all_solves(&a, &searched);
}

#[test]
fn rows_are_matched_where_the_diagonal_does_not_do() {
    // So few columns that rows are not matched by value at first.
    let a = tiny_diagonal(40, 1e-20, 3);
    let factors = factorize(&a, on_device(DeviceEngine::Tree)).unwrap();
    let inform = factors.inform();
    assert!(!inform.matched && inform.pivoting == Some("static"));
    let warned = |w: &Warning| matches!(w, Warning::RowsMatched { .. });
    assert!(inform.warnings.iter().any(warned), "{:?}", inform.warnings);
    check_all_solves(&a, &factors);
}

#[test]
fn refactorizing_reuses_pivots_while_they_serve() {
    let steps = circuit_sequence(50, 9, 4);
    for engine in ENGINES {
        let mut factors = factorize(&steps[0], on_device(engine)).unwrap();
        for step in &steps[1..] {
            match factors.refactorize(step).unwrap() {
                Refactorized::Reused {
                    growth,
                    backward_error,
                } => assert!(growth < 1e8 && backward_error.is_some_and(|e| e <= 1e-12)),
                other => panic!("{other:?}"),
            }
            check_all_solves(step, &factors);
        }
        let last = &steps[steps.len() - 1];
        let scaled = last.map(|v| v * 1e20);
        let outcome = factors.refactorize(&scaled).unwrap();
        assert!(
            matches!(outcome, Refactorized::Reused { .. }),
            "{outcome:?}"
        );
        check_all_solves(&scaled, &factors);
    }
}

#[test]
fn refactorizing_in_place_takes_no_more_memory() {
    let steps = circuit_sequence(50, 9, 4);
    let mut factors = factorize(&steps[0], on_device(DeviceEngine::Tree)).unwrap();
    factors.refactorize(&steps[1]).unwrap();
    let peak = factors.inform().peak_device_bytes;
    for step in &steps[2..] {
        factors.refactorize(step).unwrap();
        assert_eq!(factors.inform().peak_device_bytes, peak);
    }
}

/// A matrix whose large entries stand on the diagonal, or with `swapped` beside it.
fn two_by_two_blocks(blocks: usize, swapped: bool) -> CsMat<f64> {
    let (on, off) = if swapped { (1e-14, 1.0) } else { (1.0, 1e-14) };
    let mut a = TriMat::new((2 * blocks, 2 * blocks));
    for k in 0..blocks {
        let (i, j) = (2 * k, 2 * k + 1);
        for (row, col, v) in [(i, i, on), (i, j, off), (j, i, off), (j, j, on)] {
            a.add_triplet(row, col, v);
        }
        if k > 0 {
            // In one front with its neighbours no pivot could be exchanged for one of the other kind.
            a.add_triplet(i, i - 2, 0.01);
            a.add_triplet(i - 2, i, 0.02);
        }
    }
    a.to_csr()
}

/// Values with which the pivots of [`two_by_two_blocks`] cancel, whichever of its rows come first.
fn singular_like(a: &CsMat<f64>) -> CsMat<f64> {
    let mut singular = a.clone();
    for mut row in singular.outer_iterator_mut() {
        row.iter_mut().for_each(|(_, v)| *v = 0.0);
    }
    for i in 0..a.rows() {
        if let Some(v) = singular.get_mut(i, i ^ 1) {
            *v = 1.0;
        }
        if let Some(v) = singular.get_mut(i, i) {
            *v = 1.0;
        }
    }
    singular
}

#[test]
fn refactorizing_finds_new_pivots_or_says_that_it_cannot() {
    let (straight, swapped) = (two_by_two_blocks(12, false), two_by_two_blocks(12, true));
    let singular = singular_like(&straight);
    for engine in ENGINES {
        let mut factors = factorize(&straight, on_device(engine)).unwrap();
        factors.refactorize(&swapped).unwrap();
        check_all_solves(&swapped, &factors);
        // And back.
        factors.refactorize(&straight).unwrap();
        check_all_solves(&straight, &factors);
        let refused = factors.refactorize(&singular);
        assert!(
            matches!(
                refused,
                Err(Error::ZeroPivot { .. } | Error::SingularToRounding { .. })
            ),
            "{engine:?}: {refused:?}"
        );
        // The old factors are still in place.
        check_all_solves(&straight, &factors);
    }
}

#[test]
fn new_pivots_are_searched_for_values_that_want_them() {
    let (even, uneven) = (needs_other_rows(40, 4.0), needs_other_rows(40, 1e-17));
    for engine in ENGINES {
        let options = on_device(engine).max_growth(100.0);
        let mut factors = factorize(&even, options).unwrap();
        match factors.refactorize(&uneven).unwrap() {
            Refactorized::Repivoted {
                reason,
                backward_error,
                ..
            } => assert!(!reason.is_empty() && backward_error.is_some_and(|e| e <= 1e-12)),
            other => panic!("{engine:?}: {other:?}"),
        }
        let inform = factors.inform();
        let searches = |w: &&Warning| matches!(w, Warning::PivotsSearched { .. });
        assert_eq!(inform.warnings.iter().filter(searches).count(), 1);
        check_all_solves(&uneven, &factors);
        factors.refactorize(&even).unwrap();
        check_all_solves(&even, &factors);
    }
}

#[test]
fn static_pivots_that_do_not_serve_are_an_error() {
    let (even, uneven) = (needs_other_rows(40, 4.0), needs_other_rows(40, 1e-17));
    for engine in ENGINES {
        let options = on_device(engine)
            .pivoting(Pivoting::Static)
            .max_growth(100.0);
        let solver = Solver::new(options).unwrap();
        let mut factors = solver.analyze(&even).unwrap().factorize(&even).unwrap();
        let values = solver.stream().unwrap().upload(uneven.data()).unwrap();
        for refused in [
            factors.refactorize(&uneven),
            factors.refactorize_on_device(&values),
        ] {
            match refused {
                Err(Error::Unstable { row, growth, .. }) => assert!(row < 40 && growth > 100.0),
                other => panic!("{engine:?}: {other:?}"),
            }
            check_all_solves(&even, &factors);
        }
    }
}

#[test]
fn refactorizing_refuses_other_patterns_and_bad_values() {
    let a = random_unsymmetric(40, 4, 8);
    for engine in ENGINES {
        let mut factors = factorize(&a, on_device(engine)).unwrap();
        // One with another number of entries, and one with as many.
        for other in [random_unsymmetric(40, 5, 9), a.transpose_view().to_csr()] {
            assert!(matches!(
                factors.refactorize(&other),
                Err(Error::ExtraEntry { .. })
            ));
            check_all_solves(&a, &factors);
        }
        let mut infinite = a.clone();
        infinite.data_mut()[0] = f64::INFINITY;
        assert!(matches!(
            factors.refactorize(&infinite),
            Err(Error::NotFinite { row: 0, .. })
        ));
        let zero = a.map(|_| 0.0);
        assert!(matches!(
            factors.refactorize(&zero),
            Err(Error::ZeroPivot { .. })
        ));
        check_all_solves(&a, &factors);
    }
}

#[test]
fn data_on_the_device_stays_there() {
    // Larger than a report, of which the measures of a check take 1,024 bytes.
    let steps = [1.0, 1.5, 2.0].map(|wind| convection_diffusion_2d(15, 14, wind));
    for engine in ENGINES {
        for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
            let options = on_device(engine).precision(precision);
            let solver = Solver::new(options).unwrap();
            let stream = solver.stream().unwrap().clone();
            let mut factors = solver
                .analyze(&steps[0])
                .unwrap()
                .factorize(&steps[0])
                .unwrap();
            let n = factors.n();
            for step in &steps[1..] {
                let values = stream.upload(step.data()).unwrap();
                let before = stream.device().transfers();
                let outcome = factors.refactorize_on_device(&values).unwrap();
                assert!(
                    matches!(outcome, Refactorized::Reused { .. }),
                    "{outcome:?}"
                );
                let (b, _) = known_solution(step);
                let two = [b.clone(), b.clone()].concat();
                let mut x = stream.upload(&two).unwrap();
                factors.solve_on_device(&mut x, 2, false).unwrap();
                let between = stream.device().transfers();
                if engine == DeviceEngine::Tree {
                    // The report, and what a launch is told.
                    let moved = between.to_host_bytes - before.to_host_bytes;
                    assert!(moved < 8 * n as u64, "{moved} bytes");
                }
                let x = stream.download(&x).unwrap();
                let limit = match precision {
                    FactorPrecision::Matrix => 1e-12,
                    FactorPrecision::Single => 1e-4,
                };
                assert!(normwise_backward_error(step, &x[..n], &b) < limit);
                assert_eq!(x[..n], x[n..]);
                // Refinement fetches the values.
                check_all_solves_refined(step, &factors);

                let transpose = step.to_csc().transpose_into();
                let (b, _) = known_solution(&transpose);
                let mut x = stream.upload(&b).unwrap();
                factors.solve_on_device(&mut x, 1, true).unwrap();
                let x = stream.download(&x).unwrap();
                assert!(normwise_backward_error(&transpose, &x, &b) < limit);
            }
        }
    }
}

/// Solves with refinement, both ways.
fn check_all_solves_refined(a: &CsMat<f64>, factors: &Factors<f64>) {
    let (b, _) = known_solution(a);
    let inform = factors.solve(&b).unwrap().inform;
    assert!(inform.backward_error.unwrap() <= 1e-12);
    let transpose = a.to_csc().transpose_into();
    let (b, _) = known_solution(&transpose);
    let inform = factors.solve_transpose(&b).unwrap().inform;
    assert!(inform.backward_error.unwrap() <= 1e-12);
}

#[test]
fn values_on_the_device_are_guarded_too() {
    let (even, uneven) = (needs_other_rows(40, 4.0), needs_other_rows(40, 1e-17));
    for engine in ENGINES {
        let options = on_device(engine).max_growth(100.0);
        let solver = Solver::new(options).unwrap();
        let stream = solver.stream().unwrap();
        let mut factors = solver.analyze(&even).unwrap().factorize(&even).unwrap();
        let values = stream.upload(uneven.data()).unwrap();
        let outcome = factors.refactorize_on_device(&values).unwrap();
        assert!(
            matches!(outcome, Refactorized::Repivoted { .. }),
            "{outcome:?}"
        );
        check_all_solves(&uneven, &factors);

        let mut bad = even.data().to_vec();
        bad[7] = f64::NAN;
        let values = stream.upload(&bad).unwrap();
        let refused = factors.refactorize_on_device(&values);
        assert!(
            matches!(
                refused,
                Err(Error::NotFinite { .. } | Error::Overflow { .. })
            ),
            "{refused:?}"
        );
        let zeros = stream.upload(&vec![0.0; even.nnz()]).unwrap();
        let refused = factors.refactorize_on_device(&zeros);
        assert!(
            matches!(refused, Err(Error::ZeroPivot { .. })),
            "{refused:?}"
        );
        check_all_solves(&uneven, &factors);
    }
}

#[test]
fn the_residual_check_sees_what_growth_is_allowed_to_hide() {
    let (even, uneven) = (needs_other_rows(40, 4.0), needs_other_rows(40, 1e-10));
    let refactorized = |residual_check, pivoting, on_device: bool| {
        let options = self::on_device(DeviceEngine::Tree)
            .max_growth(f64::MAX)
            .perturbation(Some(1e-300))
            // Which would make up for a loss that is not total.
            .max_refinement_steps(0)
            .residual_check(residual_check)
            .pivoting(pivoting);
        let solver = Solver::new(options).unwrap();
        let mut factors = solver.analyze(&even).unwrap().factorize(&even).unwrap();
        let outcome = if on_device {
            let values = solver.stream().unwrap().upload(uneven.data()).unwrap();
            factors.refactorize_on_device(&values)
        } else {
            factors.refactorize(&uneven)
        };
        (outcome, factors)
    };
    for on_device in [false, true] {
        for check in [ResidualCheck::Always, ResidualCheck::WhereInDoubt] {
            match refactorized(check, Pivoting::Auto, on_device) {
                (Ok(Refactorized::Repivoted { reason, .. }), factors) => {
                    assert!(reason.starts_with("backward error"), "{reason}");
                    check_all_solves(&uneven, &factors);
                }
                (other, _) => panic!("{check:?}: {other:?}"),
            }
            match refactorized(check, Pivoting::Static, on_device) {
                (
                    Err(Error::Unstable {
                        row,
                        growth,
                        backward_error,
                    }),
                    factors,
                ) => {
                    assert!(row < 40 && growth > 1e6 && backward_error > 1e-12);
                    check_all_solves(&even, &factors);
                }
                (other, _) => panic!("{check:?}: {other:?}"),
            }
        }
        // Growth is all that is asked for, and its bound allows anything.
        match refactorized(ResidualCheck::Never, Pivoting::Auto, on_device) {
            (
                Ok(Refactorized::Reused {
                    growth,
                    backward_error,
                }),
                factors,
            ) => {
                assert!(growth > 1e6 && backward_error.is_none());
                assert!(factors.inform().refinement_steps.is_none());
            }
            (other, _) => panic!("{other:?}"),
        }
    }
}

/// Refinement makes up for pivots of 10⁻¹⁰, and other pivots need none; of 10⁻⁵, they lose a few digits.
#[test]
fn pivots_that_need_refinement_to_reach_the_target_are_not_kept() {
    let (even, uneven) = (needs_other_rows(40, 4.0), needs_other_rows(40, 1e-10));
    for engine in ENGINES {
        let options = on_device(engine)
            .perturbation(Some(1e-300))
            .ordering(OrderingOptions::default().matching(Matching::Never));
        let fixed = factorize(&uneven, options.clone().pivoting(Pivoting::Static)).unwrap();
        let inform = fixed.inform();
        assert!(inform.backward_error.unwrap() <= 1e-12 && inform.refinement_steps.unwrap() > 0);
        // The probe goes no further than to the target, a solution does.
        let solution = fixed.solve(&vec![1.0; fixed.n()]).unwrap().inform;
        assert!(inform.refinement_steps < solution.refinement_steps);
        assert!(solution.backward_error.unwrap() < 1e-15);

        let searched = factorize(&uneven, options.clone()).unwrap();
        let reason = |w: &Warning| match w {
            Warning::RowsMatched { reason } | Warning::PivotsSearched { reason } => {
                Some(reason.clone())
            }
            _ => None,
        };
        let reason = searched.inform().warnings.iter().find_map(reason).unwrap();
        assert!(reason.ends_with("before refinement"), "{reason}");
        assert_eq!(searched.inform().refinement_steps, Some(0));

        let mild = factorize(&needs_other_rows(40, 1e-5), options.clone()).unwrap();
        let inform = mild.inform();
        assert!(inform.warnings.is_empty(), "{:?}", inform.warnings);
        assert!(inform.backward_error.unwrap() <= 1e-12 && inform.refinement_steps.unwrap() > 0);

        let mut renewed = factorize(&even, options).unwrap();
        match renewed.refactorize(&uneven).unwrap() {
            Refactorized::Repivoted { reason, .. } => {
                assert!(reason.starts_with("growth"), "{reason}");
            }
            other => panic!("{engine:?}: {other:?}"),
        }
    }
}

/// Whether the values come from the host, or a triangle's from the device.
#[test]
fn the_condition_is_that_of_the_matrix() {
    let triplets = |places: &[(usize, usize, f64)]| {
        let mut a = TriMat::new((2, 2));
        for &(i, j, v) in places {
            a.add_triplet(i, j, v);
        }
        a.to_csr()
    };
    let whole = triplets(&[(0, 0, 4.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 3.0)]);
    let lower = triplets(&[(0, 0, 4.0), (1, 0, 1.0), (1, 1, 3.0)]);
    for engine in ENGINES {
        let options = on_device(engine).ordering(OrderingOptions::default().scaling(false));
        // 5 times 5/11, whatever the order.
        let rcond = factorize(&whole, options).unwrap().rcond().unwrap();
        assert!((rcond - 11.0 / 25.0).abs() < 1e-12, "{engine:?}: {rcond}");
    }
    let options = on_device(DeviceEngine::Tree).kind(MatrixKind::Symmetric);
    let options = options.ordering(OrderingOptions::default().scaling(false));
    let rcond = factorize(&lower, options).unwrap().rcond().unwrap();
    assert!((rcond - 11.0 / 25.0).abs() < 1e-12, "a triangle: {rcond}");
}

#[test]
fn refactorizations_report_what_was_measured() {
    let steps = [1.0, 1.5, 2.0].map(|wind| convection_diffusion_2d(9, 8, wind));
    for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
        for check in [
            ResidualCheck::Always,
            ResidualCheck::WhereInDoubt,
            ResidualCheck::Never,
        ] {
            let options = on_device(DeviceEngine::Tree)
                .precision(precision)
                .residual_check(check);
            let solver = Solver::new(options).unwrap();
            let stream = solver.stream().unwrap();
            let mut factors = solver
                .analyze(&steps[0])
                .unwrap()
                .factorize(&steps[0])
                .unwrap();
            for step in &steps[1..] {
                let values = stream.upload(step.data()).unwrap();
                let Refactorized::Reused {
                    growth,
                    backward_error,
                } = factors.refactorize_on_device(&values).unwrap()
                else {
                    panic!("the pivots serve");
                };
                let inform = factors.inform();
                let is_single = precision == FactorPrecision::Single;
                assert_eq!(inform.backward_error, backward_error);
                assert!(growth > 0.0);
                if check == ResidualCheck::Never {
                    assert_eq!(backward_error, None);
                    assert_eq!(inform.refinement_steps, None);
                } else if is_single {
                    // Factors in f32 do not reach the target without a step, so they are probed.
                    assert!(backward_error.is_some_and(|e| e <= 1e-12));
                    assert!(inform.refinement_steps.unwrap() > 0);
                } else {
                    // A bound, and no probe.
                    assert!((1.0..100.0).contains(&growth), "growth {growth}");
                    assert!(backward_error.is_some_and(|e| e <= 1e-13));
                    assert_eq!(inform.refinement_steps, None);
                }
                check_all_solves_refined(step, &factors);
            }
        }
    }
}

#[test]
fn refinement_on_the_device_leaves_vectors_there() {
    let a = convection_diffusion_2d(9, 8, 5.0);
    let n = a.rows();
    for engine in ENGINES {
        for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
            let options = on_device(engine).precision(precision);
            let solver = Solver::new(options).unwrap();
            let stream = solver.stream().unwrap();
            let factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
            for transpose in [false, true] {
                let a = if transpose {
                    a.to_csc().transpose_into()
                } else {
                    a.clone()
                };
                let (b, _) = known_solution(&a);
                let b: Vec<f64> = (0..3)
                    .flat_map(|k| b.iter().map(move |v| v * k as f64))
                    .collect();
                let there = stream.upload(&b).unwrap();
                let mut x = stream.alloc(3 * n).unwrap();
                let solve = |x: &mut _| factors.solve_refined_on_device(&there, x, 3, transpose);
                // The pattern goes there once.
                solve(&mut x).unwrap();
                let before = stream.device().transfers();
                let inform = solve(&mut x).unwrap();
                let after = stream.device().transfers();
                if engine == DeviceEngine::Tree {
                    let moved = after.to_host_bytes - before.to_host_bytes;
                    assert!(moved < 8 * n as u64, "{moved} bytes");
                    assert_eq!(after.to_device_bytes, before.to_device_bytes);
                }
                let x = stream.download(&x).unwrap();
                for (x, b) in x.chunks(n).zip(b.chunks(n)) {
                    assert_backward_error(&a, x, b);
                }
                assert!(inform.backward_error.unwrap() <= 1e-12);
                let is_single = precision == FactorPrecision::Single;
                assert!(inform.refinement_steps.unwrap() >= usize::from(is_single));
                if !transpose {
                    let solution = factors.solve_many(&b, 3).unwrap();
                    assert_eq!(solution.x, x);
                    assert_eq!(solution.inform.backward_error, inform.backward_error);
                }
            }
        }
    }
}

#[test]
fn more_right_hand_sides_than_are_refined_at_once_solve() {
    let a = circuit(30, 3);
    let n = a.rows();
    let (b, _) = known_solution(&a);
    let many: Vec<f64> = (0..130)
        .flat_map(|k| b.iter().map(move |v| v * f64::from(k)))
        .collect();
    let factors = factorize(&a, on_device(DeviceEngine::Tree)).unwrap();
    let solution = factors.solve_many(&many, 130).unwrap();
    assert_eq!(solution.x.len(), 130 * n);
    for (x, b) in solution.x.chunks(n).zip(many.chunks(n)) {
        assert_backward_error(&a, x, b);
    }
    assert!(solution.inform.backward_error.unwrap() <= 1e-12);
}

#[test]
fn solutions_in_place_are_those_on_the_device() {
    let circuit = circuit(30, 3);
    let mut pairs = TriMat::new((70, 70));
    for i in 0..70 {
        pairs.add_triplet(i, i, 2.0 + i as f64);
        pairs.add_triplet(i, i ^ 1, 1.0);
    }
    let pairs: CsMat<f64> = pairs.to_csr();
    // With so many solutions come straight from the device, for which a matrix of few entries does.
    let many = 32_768 / pairs.rows() + 1;
    for engine in ENGINES {
        for (a, nrhs) in [(&circuit, 1), (&pairs, many)] {
            let solver = Solver::new(on_device(engine)).unwrap();
            let stream = solver.stream().unwrap();
            let factors = solver.analyze(a).unwrap().factorize(a).unwrap();
            let (b, _) = known_solution(a);
            let mut x: Vec<f64> = (0..nrhs)
                .flat_map(|k| b.iter().map(move |v| v * (k + 1) as f64))
                .collect();
            let mut expected = stream.upload(&x).unwrap();
            factors.solve_on_device(&mut expected, nrhs, false).unwrap();
            factors.solve_in_place(&mut x).unwrap();
            assert_eq!(x, stream.download(&expected).unwrap());
        }
    }
}

#[test]
fn a_solution_that_is_not_finite_never_leaves_as_ok() {
    // Diagonal, so that one entry overflows and the others do not.
    let n = 70;
    let mut a = TriMat::new((n, n));
    for i in 0..n {
        a.add_triplet(i, i, if i == 40 { 1e-200 } else { 2.0 });
    }
    let a: CsMat<f64> = a.to_csr();
    let overflowing = vec![1e200; n];
    let mut not_a_number = vec![1.0; n];
    not_a_number[40] = f64::NAN;
    for engine in ENGINES {
        let solver = Solver::new(on_device(engine)).unwrap();
        let stream = solver.stream().unwrap();
        let factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
        let names_it = |outcome: Result<(), Error>| {
            assert!(
                matches!(outcome, Err(Error::SolutionNotFinite { row: 40 })),
                "{engine:?}: {outcome:?}"
            );
        };
        for transpose in [false, true] {
            for bad in [&overflowing, &not_a_number] {
                // The last one, and of so many that solutions come straight from the device.
                for nrhs in [2, 480] {
                    if nrhs > 2 && transpose == bad[40].is_nan() {
                        continue;
                    }
                    let all = [vec![1.0; (nrhs - 1) * n], bad.clone()].concat();
                    let mut x = stream.upload(&all).unwrap();
                    let there = factors.solve_on_device(&mut x, nrhs, transpose);
                    let mut x = all.clone();
                    let here = if transpose {
                        factors.solve_transpose_in_place(&mut x)
                    } else {
                        factors.solve_in_place(&mut x)
                    };
                    // The tree replaces right-hand sides on the device, and cannot look at them afterwards.
                    let is_kept = bad[40].is_nan() && engine == DeviceEngine::Columns;
                    for (outcome, is_kept) in [(there, is_kept), (here, bad[40].is_nan())] {
                        if is_kept {
                            assert!(
                                matches!(
                                    outcome,
                                    Err(Error::RightHandSideNotFinite { row: 40, column })
                                        if column == nrhs - 1
                                ),
                                "{engine:?}: {outcome:?}"
                            );
                        } else {
                            names_it(outcome.map(drop));
                        }
                    }
                    assert!(x.iter().zip(&all).all(|(x, b)| x.to_bits() == b.to_bits()));
                }
            }
            // Begun one after another, each is told what became of its own.
            let begun: Vec<_> = [vec![1.0; n], overflowing.clone(), vec![2.0; n]]
                .iter()
                .map(|b| {
                    let mut x = stream.upload(b).unwrap();
                    factors.begin_solve_on_device(&mut x, 1, transpose)
                })
                .collect();
            for (k, check) in begun.into_iter().enumerate() {
                match check.and_then(luge::SolutionCheck::wait) {
                    Ok(accuracy) => {
                        assert_ne!(k, 1);
                        // An entry of 10²⁰⁰ is not one for which a bound is stated.
                        assert!(accuracy.backward_error.is_none_or(|e| e < 1e-10));
                    }
                    refused => names_it(refused.map(drop)),
                }
            }
            let mut x = stream.alloc(2 * n).unwrap();
            let mut refined = |bad: &[f64]| {
                let two = [&vec![1.0; n], bad].concat();
                let b = stream.upload(&two).unwrap();
                factors
                    .solve_refined_on_device(&b, &mut x, 2, transpose)
                    .map(|_| ())
            };
            names_it(refined(&overflowing));
            let refused = refined(&not_a_number);
            assert!(
                matches!(
                    refused,
                    Err(Error::RightHandSideNotFinite { row: 40, column: 1 })
                ),
                "{refused:?}"
            );
            refined(&vec![1.0; n]).unwrap();
        }
        names_it(factors.solve(&overflowing).map(|_| ()));
        names_it(factors.solve_transpose(&overflowing).map(|_| ()));
        let refused = factors.solve(&not_a_number);
        assert!(matches!(
            refused,
            Err(Error::RightHandSideNotFinite { row: 40, column: 0 })
        ));
    }
}

#[test]
#[should_panic(expected = "factors on the CPU take no values on a device")]
fn factors_on_the_cpu_take_no_values_on_a_device() {
    let a = circuit(10, 1);
    let elsewhere = Solver::new(on_device(DeviceEngine::Tree)).unwrap();
    let values = elsewhere.stream().unwrap().upload(a.data()).unwrap();
    let options = Options::default().backend(BackendChoice::Cpu);
    let _ = factorize(&a, options)
        .unwrap()
        .refactorize_on_device(&values);
}

#[test]
#[should_panic(expected = "values; the matrix has")]
fn values_of_another_number_are_a_broken_call() {
    let a = circuit(10, 1);
    let solver = Solver::new(on_device(DeviceEngine::Tree)).unwrap();
    let values = solver.stream().unwrap().upload(&[1.0; 3]).unwrap();
    let mut factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
    let _ = factors.refactorize_on_device(&values);
}

#[test]
fn factors_that_do_not_fit_are_refused_before_any_work() {
    let a = convection_diffusion_2d(12, 12, 1.0);
    let needed = {
        let solver = Solver::new(on_device(DeviceEngine::Tree)).unwrap();
        let inform = solver.analyze(&a).unwrap().inform().clone();
        inform.predicted_device_bytes.unwrap()
    };
    let limited = |device_engine, bytes| on_device(device_engine).max_device_bytes(Some(bytes));
    for engine in [DeviceEngine::Auto, DeviceEngine::Tree] {
        let solver = Solver::new(limited(engine, 1000)).unwrap();
        match solver.analyze(&a) {
            Err(Error::OutOfMemory {
                asked,
                available: 1000,
                phase: "numeric",
            }) => assert_eq!(asked, needed),
            other => panic!("{other:?}"),
        }
        // Nothing was begun.
        let device = solver.stream().unwrap().device();
        assert_eq!(device.peak_bytes(), 0);
    }
    // Just enough for the factors, and for a right-hand side.
    let enough = needed + 64 * a.rows() as u64;
    let factors = factorize(&a, limited(DeviceEngine::Tree, enough + 100_000)).unwrap();
    check_all_solves(&a, &factors);
}

#[test]
fn each_mode_of_the_columns_can_be_chosen_and_is_reported() {
    let a = convection_diffusion_2d(7, 7, 2.0);
    let b: Vec<f64> = (0..a.rows()).map(|i| 1.0 + (i % 7) as f64).collect();
    let inform = |columns: DeviceColumns| {
        let options = on_device(DeviceEngine::Columns).device_columns(columns);
        let inform = factorize(&a, options).unwrap().solve(&b).unwrap().inform;
        assert!(inform.backward_error.unwrap() < 1e-12);
        inform
    };
    let numeric = |mode, access, deterministic| {
        let numeric = ColumnOptions {
            mode,
            access,
            deterministic,
            ..ColumnOptions::default()
        };
        inform(DeviceColumns::default().numeric(numeric))
    };
    let by_mode = |mode| {
        let inform = numeric(mode, ElementAccess::Search, false);
        let columns = inform.columns.unwrap();
        assert_eq!(columns.dense_levels, 0);
        let levels = [
            columns.small_block_levels,
            columns.large_block_levels,
            columns.stream_levels,
        ];
        assert_eq!(levels.iter().sum::<usize>(), inform.num_levels.unwrap());
        levels
    };
    assert_eq!(by_mode(ColumnMode::SmallBlock)[1..], [0, 0]);
    assert_eq!(by_mode(ColumnMode::LargeBlock)[0], 0);
    assert_eq!(by_mode(ColumnMode::Stream)[..2], [0, 0]);
    let dense = numeric(ColumnMode::Auto, ElementAccess::Dense, false);
    assert_eq!(
        dense.columns.unwrap().dense_levels,
        dense.num_levels.unwrap()
    );
    let ordered = numeric(ColumnMode::Auto, ElementAccess::Auto, true);
    let paths = ordered.code_path.join("\n");
    assert!(paths.contains("updates in one order"), "{paths}");

    let fill2 = |fill2: Fill2Options| {
        let symbolic = SymbolicOptions {
            mode: SymbolicMode::Fill2,
            fill2,
            ..SymbolicOptions::default()
        };
        match inform(DeviceColumns::default().symbolic(symbolic)).symbolic {
            Some(SymbolicReport::Fill2(report)) => report,
            other => panic!("{other:?}"),
        }
    };
    let two = fill2(Fill2Options {
        stages: Stages::Two,
        parallelism: Parallelism::Coarse,
        max_sources: Some(5),
        ..Fill2Options::default()
    });
    assert_eq!((two.fused_rows, two.pool.max_sources), (0, 5));
    let fused = fill2(Fill2Options {
        stages: Stages::Fused,
        ..Fill2Options::default()
    });
    assert_eq!(fused.fused_rows, a.rows() as u64);

    let supernodes = |max_size, relax| {
        let options = SupernodeOptions { max_size, relax };
        inform(DeviceColumns::default().supernodes(options))
            .num_supernodes
            .unwrap()
    };
    let exact = supernodes(128, None);
    assert_eq!(supernodes(1, None), a.rows());
    let relaxed = supernodes(128, Some(Relaxation::default()));
    assert!(relaxed < exact, "{relaxed} {exact}");
    let none = SupernodeOptions {
        max_size: 0,
        relax: None,
    };
    let columns = DeviceColumns::default().supernodes(none);
    let refused = Solver::new(on_device(DeviceEngine::Columns).device_columns(columns));
    assert!(matches!(
        refused,
        Err(Error::InvalidOption {
            field: "device_columns.supernodes.max_size",
            ..
        })
    ));
}
