//! Symmetric matrices on a device: what the CPU promises of them, on the simulator at small sizes, and data that stays there.

use luge::ordering::{Matching, Method, OrderingOptions};
use luge::sprs::{CsMat, TriMat};
use luge::{
    BackendChoice, CancelFlag, DeviceEngine, Error, FactorPrecision, Factors, Inertia, MatrixKind,
    MatrixRef, Options, Pivoting, Refactorized, ResidualCheck, SingularAction, Solver, Warning,
};
use luge_testkit::convert::to_scalar;
use luge_testkit::generators::applications::{
    elasticity_3d, interior_point_kkt, laplacian_2d, random_unsymmetric, saddle_point,
};
use luge_testkit::generators::mixed::{darcy, random_symmetric, stokes};
use luge_testkit::residual::{assert_backward_error, known_solution, normwise_backward_error};

use crate::symmetric::{factorize, floating, mirrored, triangle};

fn of_kind(kind: MatrixKind) -> Options {
    Options::default()
        .backend(BackendChoice::Simulator { seed: 3 })
        .kind(kind)
}

fn symmetric() -> Options {
    of_kind(MatrixKind::Symmetric)
}

/// What the CPU counts of the same matrix.
fn inertia_on_cpu(a: &CsMat<f64>, options: &Options) -> Option<Inertia> {
    let options = options.clone().backend(BackendChoice::Cpu);
    factorize(a, options).unwrap().inertia()
}

fn matrices() -> Vec<(&'static str, CsMat<f64>)> {
    let mut matrices = vec![
        ("laplacian", laplacian_2d(9, 8)),
        ("elasticity", elasticity_3d(2, 2, 2, 1)),
        ("saddle point", saddle_point(60, 25, 2)),
        ("interior point", interior_point_kkt(50, 20, 1e-4, 3)),
        ("darcy", darcy(6, 5, 4)),
        ("stokes", stokes(5, 5)),
        ("random", random_symmetric(70, 5, 6)),
        ("tiny", random_symmetric(5, 2, 1)),
        ("one", laplacian_2d(1, 1)),
    ];
    matrices.iter_mut().for_each(|(_, a)| *a = mirrored(a));
    matrices
}

/// Solves plain, transposed, for many right-hand sides, and by one pass.
fn check_all_solves(name: &str, a: &CsMat<f64>, factors: &Factors<f64>) {
    let n = a.rows();
    let (b, _) = known_solution(a);
    for solution in [factors.solve(&b), factors.solve_transpose(&b)] {
        assert_backward_error(a, &solution.unwrap().x, &b);
    }
    let many = [b.clone(), vec![0.0; n], b.clone()].concat();
    let x = factors.solve_many(&many, 3).unwrap().x;
    for (x, b) in x.chunks(n).zip(many.chunks(n)) {
        assert_backward_error(a, x, b);
    }
    let mut x = [b.clone(), b.clone()].concat();
    let accuracy = factors.solve_in_place(&mut x).unwrap();
    let stated = accuracy.backward_error.unwrap();
    assert!(stated <= 1e-10, "{name}: {stated:e}");
    for x in x.chunks(n) {
        let error = normwise_backward_error(a, x, &b);
        assert!(
            error <= 1.01 * stated + 1e-15,
            "{name}: {error:e}, {stated:e}"
        );
    }
}

#[test]
fn solutions_and_inertia_are_those_of_the_cpu() {
    for (name, a) in matrices() {
        for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
            let options = symmetric().precision(precision);
            let factors = factorize(&a, options.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
            let inertia = inertia_on_cpu(&a, &symmetric());
            assert_eq!(factors.inertia(), inertia, "{name}");
            check_all_solves(name, &a, &factors);
            let inform = factors.inform();
            assert_eq!((inform.kind, inform.backend), ("symmetric", "simulator"));
            assert_eq!(inform.num_neg, inertia.map(|inertia| inertia.negative));
            assert_eq!(inform.rank, Some(a.rows()));
            assert_eq!(inform.pivoting, Some("threshold"));
            assert!(inform.num_two.is_some() && inform.num_delay.is_some());
            assert_eq!(inform.lnz, inform.unz);
            let ran = &inform.code_path;
            assert!(ran.iter().any(|step| step.contains("LDLT")), "{ran:?}");
            let warnings = &inform.warnings;
            assert!(
                precision == FactorPrecision::Single || warnings.is_empty(),
                "{name}: {warnings:?}"
            );
        }
    }
}

#[test]
fn pivots_of_order_two_and_delayed_columns_are_counted() {
    // Zeros on the diagonal, in an order that gives no constraint its variable first.
    let a = mirrored(&saddle_point(60, 40, 5));
    let ordering = OrderingOptions::default()
        .matching(Matching::Never)
        .method(Method::Natural);
    let factors = factorize(&a, symmetric().ordering(ordering)).unwrap();
    check_all_solves("saddle point", &a, &factors);
    let ordered = factorize(&a, symmetric()).unwrap();
    assert_eq!(factors.inertia(), ordered.inertia());
    let zero_first = darcy(6, 6, 2);
    let order: Vec<u32> = (0..zero_first.rows() as u32).rev().collect();
    let method = Method::User {
        rows: luge::RowPerm::new(order.clone()).unwrap(),
        cols: luge::ColPerm::new(order).unwrap(),
    };
    let ordering = OrderingOptions::default().method(method);
    let factors = factorize(&zero_first, symmetric().ordering(ordering)).unwrap();
    let inform = factors.inform();
    assert!(
        inform.num_delay.unwrap() > 0 && inform.num_two.unwrap() > 0,
        "{:?} {:?}",
        inform.num_delay,
        inform.num_two
    );
    check_all_solves("darcy", &mirrored(&zero_first), &factors);
}

#[test]
fn either_triangle_is_as_good_as_the_whole_matrix() {
    for (name, a) in matrices().into_iter().take(5) {
        let (b, _) = known_solution(&a);
        let expected = factorize(&a, symmetric()).unwrap().solve(&b).unwrap().x;
        for is_lower in [true, false] {
            let stored = triangle(&a, |i, j| if is_lower { i >= j } else { i <= j });
            for stored in [stored.clone(), stored.to_csc()] {
                let solver = Solver::new(symmetric()).unwrap();
                let analysis = solver.analyze(&stored).unwrap();
                let mut factors = analysis.factorize(&stored).unwrap();
                let of_rows = stored.is_csr();
                let x = factors.solve(&b).unwrap().x;
                assert_eq!(x, expected, "{name}, lower {is_lower}, rows {of_rows}");
                assert_eq!(factors.solve_transpose(&b).unwrap().x, expected);
                // Values alone are those of the triangle, wherever they are.
                let doubled: Vec<f64> = stored.data().iter().map(|v| 2.0 * v).collect();
                let outcome = factors.refactorize_values(&doubled).unwrap();
                assert!(
                    matches!(outcome, Refactorized::Reused { .. }),
                    "{outcome:?}"
                );
                let halved = factors.solve(&b).unwrap().x;
                let close = |(half, whole): (&f64, &f64)| (2.0 * half - whole).abs() < 1e-8;
                assert!(halved.iter().zip(&expected).all(close), "{name}");
                factors.refactorize(&stored).unwrap();
                assert_eq!(factors.solve(&b).unwrap().x, expected, "{name}");
                let stream = solver.stream().unwrap();
                let there = stream.upload(&doubled).unwrap();
                factors.refactorize_on_device(&there).unwrap();
                assert_eq!(factors.solve(&b).unwrap().x, halved, "{name}");
                // The matrix by its other storage.
                let turned = if of_rows {
                    stored.to_csc()
                } else {
                    stored.to_csr()
                };
                factors.refactorize(&turned).unwrap();
                assert_eq!(factors.solve(&b).unwrap().x, expected, "{name}");
            }
        }
    }
}

#[test]
fn positive_definite_matrices_are_told() {
    for a in [laplacian_2d(9, 9), elasticity_3d(3, 2, 2, 3)] {
        let a = mirrored(&a);
        let n = a.rows();
        for kind in [MatrixKind::PositiveDefinite, MatrixKind::Auto] {
            let factors = factorize(&a, of_kind(kind)).unwrap();
            let expected = Inertia {
                positive: n,
                negative: 0,
                zero: 0,
            };
            assert_eq!(factors.inertia(), Some(expected));
            check_all_solves("definite", &a, &factors);
            let inform = factors.inform();
            assert_eq!(inform.kind, "positive definite");
            assert_eq!((inform.num_two, inform.num_delay), (Some(0), Some(0)));
            let ran = &inform.code_path;
            assert!(ran.iter().any(|step| step.contains("Cholesky")), "{ran:?}");
        }
        let mut indefinite = a.clone();
        for (k, mut row) in indefinite.outer_iterator_mut().enumerate() {
            for (j, v) in row.iter_mut() {
                if j == k && k % 3 == 0 {
                    *v = -*v;
                }
            }
        }
        // Values of the next matrix decide by themselves.
        let mut factors = factorize(&a, of_kind(MatrixKind::Auto)).unwrap();
        let outcome = factors.refactorize(&indefinite).unwrap();
        assert!(
            matches!(outcome, Refactorized::Repivoted { .. }),
            "{outcome:?}"
        );
        assert_eq!(factors.inertia(), inertia_on_cpu(&indefinite, &symmetric()));
        assert_eq!(factors.inform().kind, "symmetric");
        check_all_solves("indefinite", &indefinite, &factors);

        // Refused where it has to be definite, and the old factors stay.
        let mut factors = factorize(&a, of_kind(MatrixKind::PositiveDefinite)).unwrap();
        let (b, _) = known_solution(&a);
        let x = factors.solve(&b).unwrap().x;
        let error = factors.refactorize(&indefinite).unwrap_err();
        let Error::NotPositiveDefinite { column, pivot } = error else {
            panic!("{error}");
        };
        assert!(column < n && pivot <= 0.0);
        assert_eq!(factors.solve(&b).unwrap().x, x);
        let error = factorize(&indefinite, of_kind(MatrixKind::PositiveDefinite)).unwrap_err();
        assert!(
            matches!(error, Error::NotPositiveDefinite { .. }),
            "{error}"
        );
    }
}

#[test]
fn what_is_not_symmetric_is_named_or_general() {
    let a = random_unsymmetric(30, 4, 2);
    let error = factorize(&a, symmetric()).unwrap_err();
    assert!(matches!(error, Error::NotSymmetric { .. }), "{error}");
    let factors = factorize(&a, of_kind(MatrixKind::Auto)).unwrap();
    assert_eq!(factors.inform().kind, "general");
    assert_eq!(factors.inertia(), None);

    // Values that stop being symmetric are refused, and the factors stay, whichever triangle has the wrong one, and whatever is
    // measured.
    for (kind, a) in [
        (MatrixKind::Symmetric, mirrored(&saddle_point(40, 10, 3))),
        (MatrixKind::PositiveDefinite, mirrored(&laplacian_2d(8, 7))),
    ] {
        let (b, _) = known_solution(&a);
        for check in [ResidualCheck::Always, ResidualCheck::Never] {
            let solver = Solver::new(of_kind(kind).residual_check(check)).unwrap();
            let mut factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
            let x = factors.solve(&b).unwrap().x;
            for is_upper in [false, true] {
                let mut other = a.clone();
                let at = a
                    .iter()
                    .position(|(_, (i, j))| (i < j) == is_upper && i != j && i.max(j) == 45);
                other.data_mut()[at.unwrap()] *= 1.0 + 1e-6;
                let there = solver.stream().unwrap().upload(other.data()).unwrap();
                for error in [
                    factors.refactorize(&other).unwrap_err(),
                    factors.refactorize_on_device(&there).unwrap_err(),
                ] {
                    assert!(
                        matches!(
                            error,
                            Error::NotSymmetric { column: 45, .. }
                                | Error::NotSymmetric { row: 45, .. }
                        ),
                        "{error}"
                    );
                    assert_eq!(factors.solve(&b).unwrap().x, x);
                }
            }
        }
    }
}

fn is_singular(error: &Error) -> bool {
    matches!(
        error,
        Error::ZeroPivot { .. } | Error::SingularToRounding { .. }
    )
}

/// Where rounding leaves a pivot to a singular matrix, its factors are told to be of an ill-conditioned one.
fn assert_ill_conditioned(factors: &Factors<f64>) {
    let warnings = &factors.inform().warnings;
    let is_told = |w: &Warning| matches!(w, Warning::IllConditioned { .. });
    assert!(warnings.iter().any(is_told), "{warnings:?}");
}

#[test]
fn singular_systems_are_refused_or_gone_on_with() {
    let a = floating(7, 6);
    let n = a.rows();
    match factorize(&a, symmetric()) {
        Err(error) => assert!(is_singular(&error), "{error}"),
        Ok(factors) => assert_ill_conditioned(&factors),
    }
    let options = symmetric().singular(SingularAction::Continue);
    let factors = factorize(&a, options.clone()).unwrap();
    assert_eq!(factors.inertia(), inertia_on_cpu(&a, &options));
    let inform = factors.inform();
    assert_eq!(inform.rank, Some(n - 1));
    let is_deficient =
        |w: &Warning| matches!(w, Warning::RankDeficient { rank, .. } if *rank == n - 1);
    assert!(
        inform.warnings.iter().any(is_deficient),
        "{:?}",
        inform.warnings
    );
    // Consistent: the sums of both sides are zero.
    let consistent: Vec<f64> = (0..n).map(|i| if i < n / 2 { 1.0 } else { -1.0 }).collect();
    let solution = factors.solve(&consistent).unwrap();
    assert!(solution.inform.backward_error.unwrap() < 1e-13);
    // Not consistent: said so, also where a pass would be enough otherwise.
    let solution = factors.solve(&vec![1.0; n]).unwrap();
    let missed = |w: &Warning| matches!(w, Warning::TargetMissed { .. });
    assert!(solution.inform.warnings.iter().any(missed));
    let mut x = vec![1.0; n];
    let accuracy = factors.solve_in_place(&mut x).unwrap();
    assert!(accuracy.is_measured && accuracy.backward_error.unwrap() > 1e-6);

    // A regular matrix is factorized alike whatever would become of a singular one, and one that becomes singular is
    // refused where it has to be, or told.
    let regular = &mirrored(&laplacian_2d(7, 6));
    // Rows 0 and 1, neighbours, are equal: their pivots are 1 and 0, exactly.
    let mut equal_rows = regular.clone();
    let values = regular
        .iter()
        .map(|(&value, (i, j))| match (i.min(j), i.max(j)) {
            (0 | 1, 0 | 1) => 1.0,
            (0 | 1, _) => 0.0,
            _ => value,
        });
    equal_rows
        .data_mut()
        .copy_from_slice(&values.collect::<Vec<_>>());
    let (b, _) = known_solution(regular);
    let solutions = [symmetric(), options].map(|options| {
        let mut factors = factorize(regular, options.clone()).unwrap();
        let x = factors.solve(&b).unwrap().x;
        if options.singular == SingularAction::Refuse {
            let error = factors.refactorize(&equal_rows).unwrap_err();
            assert!(is_singular(&error), "{error}");
            assert_eq!(factors.solve(&b).unwrap().x, x);
            match factors.refactorize(&a) {
                Err(error) => assert!(is_singular(&error), "{error}"),
                Ok(_) => assert_ill_conditioned(&factors),
            }
        } else {
            factors.refactorize(&a).unwrap();
            assert_eq!(factors.inform().rank, Some(n - 1));
        }
        x
    });
    assert_eq!(solutions[0], solutions[1]);

    // Two equal rows and columns, of no structure: nothing is left of the second.
    let mut twins = TriMat::new((3, 3));
    for (i, j, v) in [
        (0, 0, 2.0),
        (0, 1, 2.0),
        (1, 0, 2.0),
        (1, 1, 2.0),
        (2, 2, 1.0),
    ] {
        twins.add_triplet(i, j, v);
    }
    let twins: CsMat<f64> = twins.to_csr();
    for kind in [MatrixKind::Symmetric, MatrixKind::PositiveDefinite] {
        let error = factorize(&twins, of_kind(kind)).unwrap_err();
        assert!(
            matches!(
                error,
                Error::ZeroPivot { .. } | Error::NotPositiveDefinite { .. }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_matrix_that_is_singular_to_rounding_is_refused() {
    // One unknown by itself, whose pivot is far below the rounding of the others.
    let beside = |pivot: f64| {
        let grid = mirrored(&laplacian_2d(6, 6));
        let n = grid.rows() + 1;
        let mut a = TriMat::new((n, n));
        for (&v, (i, j)) in &grid {
            a.add_triplet(i, j, v);
        }
        a.add_triplet(n - 1, n - 1, pivot);
        a.to_csr::<usize>()
    };
    let (regular, singular) = (beside(4.0), beside(1e-30));
    for kind in [MatrixKind::Symmetric, MatrixKind::PositiveDefinite] {
        for residual_check in [ResidualCheck::Always, ResidualCheck::Never] {
            let unscaled = OrderingOptions::default().scaling(false);
            let options = of_kind(kind)
                .residual_check(residual_check)
                .ordering(unscaled);
            let error = factorize(&singular, options.clone()).unwrap_err();
            assert!(
                matches!(error, Error::SingularToRounding { column: 36, .. }),
                "{error}"
            );
            let solver = Solver::new(options).unwrap();
            let analysis = solver.analyze(&regular).unwrap();
            let mut factors = analysis.factorize(&regular).unwrap();
            let there = solver.stream().unwrap().upload(singular.data()).unwrap();
            for refused in [
                factors.refactorize(&singular),
                factors.refactorize_on_device(&there),
            ] {
                let error = refused.unwrap_err();
                assert!(
                    matches!(error, Error::SingularToRounding { column: 36, .. }),
                    "{error}"
                );
                check_all_solves("regular", &regular, &factors);
            }
        }
    }
}

#[test]
fn cholesky_factors_need_no_solve_to_be_trusted() {
    let a = mirrored(&laplacian_2d(9, 8));
    let shifted = |shift: f64| {
        let mut a = a.clone();
        for (k, mut row) in a.outer_iterator_mut().enumerate() {
            for (j, v) in row.iter_mut().filter(|(j, _)| *j == k) {
                *v += shift * (1 + j) as f64;
            }
        }
        a
    };
    let mut factors = factorize(&a, of_kind(MatrixKind::PositiveDefinite)).unwrap();
    let new = shifted(0.5);
    let outcome = factors.refactorize(&new).unwrap();
    assert_eq!(factors.inform().seconds.probe, None);
    let Refactorized::Reused {
        backward_error: Some(bound),
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert!(bound < 1e-13);
    let (b, _) = known_solution(&new);
    let mut x = b.clone();
    let accuracy = factors.solve_in_place(&mut x).unwrap();
    assert_eq!(accuracy.backward_error, Some(bound));
    assert!(normwise_backward_error(&new, &x, &b) <= bound);

    // A growth that is asked to be smaller, and a pivot that may be nothing but rounding, are looked at.
    let small = of_kind(MatrixKind::PositiveDefinite).max_growth(0.5);
    let mut factors = factorize(&a, small).unwrap();
    factors.refactorize(&shifted(0.5)).unwrap();
    assert!(factors.inform().seconds.probe.is_some());
    let pair = |last: f64| {
        let mut a = TriMat::new((2, 2));
        for (i, j, v) in [(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 1.0 + last)] {
            a.add_triplet(i, j, v);
        }
        a.to_csr::<usize>()
    };
    let mut factors = factorize(&pair(1.0), of_kind(MatrixKind::PositiveDefinite)).unwrap();
    factors.refactorize(&pair(0.5)).unwrap();
    assert_eq!(factors.inform().seconds.probe, None);
    factors.refactorize(&pair(1e-14)).unwrap();
    assert!(factors.inform().seconds.probe.is_some());
}

#[test]
fn factors_on_known_pivots_need_no_solve_where_their_growth_is_small() {
    let kkt = |mu| mirrored(&interior_point_kkt(50, 20, mu, 4));
    // Graded, so that the smallest scale factors, which meet no large entries, say nothing of A.
    let graded = |shift: f64| {
        let mut a = mirrored(&laplacian_2d(9, 8));
        for (i, mut row) in a.outer_iterator_mut().enumerate() {
            for (j, v) in row.iter_mut() {
                let shift = if i == j { shift } else { 0.0 };
                *v = (*v - shift) * 2f64.powi((i + j) as i32 / 2);
            }
        }
        a
    };
    for (first, second) in [(kkt(1e-1), kkt(1e-4)), (graded(1.0), graded(1.1))] {
        let mut factors = factorize(&first, symmetric()).unwrap();
        assert!(factors.inform().seconds.probe.is_some(), "the first always");
        let outcome = factors.refactorize(&second).unwrap();
        let Refactorized::Reused {
            growth,
            backward_error: Some(bound),
        } = outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!(factors.inform().seconds.probe, None);
        assert!(
            (1.0..=128.0).contains(&growth) && bound < 1e-10,
            "{outcome:?}"
        );
        let unit = |i: usize| (0..second.rows()).map(move |row| f64::from(u8::from(row == i)));
        for b in (0..second.rows()).step_by(7).map(unit) {
            let b: Vec<f64> = b.collect();
            let mut x = b.clone();
            let accuracy = factors.solve_in_place(&mut x).unwrap();
            assert_eq!(
                (accuracy.backward_error, accuracy.is_measured),
                (Some(bound), false)
            );
            assert!(normwise_backward_error(&second, &x, &b) <= bound);
        }
    }

    // What a growth does not tell of is measured: digits that underflow, what zero pivots leave out, and a growth that is asked to
    // be smaller.
    let (first, second) = (kkt(1e-1), kkt(1e-4));
    let zeros = floating(9, 8);
    for (first, second, options) in [
        (
            &first,
            &second,
            symmetric().precision(FactorPrecision::Single),
        ),
        (&first, &second, symmetric().max_growth(1.5)),
        (
            &zeros,
            &zeros.map(|v| 2.0 * v),
            symmetric().singular(SingularAction::Continue),
        ),
    ] {
        let mut factors = factorize(first, options).unwrap();
        factors.refactorize(second).unwrap();
        assert!(factors.inform().seconds.probe.is_some());
    }
}

#[test]
fn refactorizations_keep_pivots_while_they_serve() {
    let step = |mu| mirrored(&interior_point_kkt(50, 20, mu, 4));
    let steps = [1e-1, 1e-2, 1e-4, 1e-7, 1e-9].map(step);
    let solver = Solver::new(symmetric()).unwrap();
    let analysis = solver.analyze(&steps[0]).unwrap();
    let mut factors = analysis.factorize(&steps[0]).unwrap();
    for step in &steps[1..] {
        match factors.refactorize(step).unwrap() {
            Refactorized::Reused { backward_error, .. }
            | Refactorized::Repivoted { backward_error, .. } => {
                assert!(backward_error.is_some_and(|e| e <= 1e-12));
            }
        }
        assert_eq!(factors.inertia(), inertia_on_cpu(step, &symmetric()));
        check_all_solves("interior point", step, &factors);
    }
    let (b, _) = known_solution(&steps[4]);
    let x = factors.solve(&b).unwrap().x;
    // The same bits from the device, and on the pivots that are there.
    let there = solver.stream().unwrap().upload(steps[4].data()).unwrap();
    let outcome = factors.refactorize_on_device(&there).unwrap();
    assert!(
        matches!(outcome, Refactorized::Reused { .. }),
        "{outcome:?}"
    );
    assert_eq!(factors.solve(&b).unwrap().x, x);

    // What is refused leaves the old factors.
    let zero = steps[4].map(|_| 0.0);
    assert!(factors.refactorize(&zero).is_err());
    assert_eq!(factors.solve(&b).unwrap().x, x);
    let mut wild = steps[4].clone();
    wild.data_mut()[0] = f64::NAN;
    let error = factors.refactorize(&wild).unwrap_err();
    assert!(matches!(error, Error::NotFinite { row: 0, .. }), "{error}");
    assert_eq!(factors.solve(&b).unwrap().x, x);
    let other = random_symmetric(70, 5, 6);
    assert!(matches!(
        factors.refactorize(&other),
        Err(Error::ExtraEntry { .. })
    ));
    assert_eq!(factors.solve(&b).unwrap().x, x);
}

/// Pairs whose large entries are on the diagonal, or with `swapped` beside it, in a chain.
fn pairs(count: usize, swapped: bool) -> CsMat<f64> {
    let (on, off) = if swapped { (1e-9, 1.0) } else { (1.0, 1e-9) };
    let mut a = TriMat::new((2 * count, 2 * count));
    for k in 0..count {
        let (i, j) = (2 * k, 2 * k + 1);
        let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
        for (row, col, v) in [(i, i, sign * on), (i, j, off), (j, i, off), (j, j, on)] {
            a.add_triplet(row, col, v);
        }
        if k > 0 {
            a.add_triplet(i, i - 2, 0.01);
            a.add_triplet(i - 2, i, 0.01);
        }
    }
    a.to_csr()
}

#[test]
fn pivots_are_searched_again_where_they_do_not_serve() {
    let (straight, swapped) = (pairs(12, false), pairs(12, true));
    let solver = Solver::new(symmetric()).unwrap();
    let mut factors = solver
        .analyze(&straight)
        .unwrap()
        .factorize(&straight)
        .unwrap();
    assert_eq!(factors.inform().num_two, Some(0));
    // Pivots of order 2 serve where both of a pair would have served by themselves.
    for (a, num_two) in [(&swapped, 12), (&straight, 12)] {
        let there = solver.stream().unwrap().upload(a.data()).unwrap();
        factors.refactorize_on_device(&there).unwrap();
        assert_eq!(factors.inertia(), inertia_on_cpu(a, &symmetric()));
        assert_eq!(factors.inform().num_two, Some(num_two));
        check_all_solves("pairs", a, &factors);
    }
    // A refusal after a search brings the old pivots back.
    let (b, _) = known_solution(&straight);
    let x = factors.solve(&b).unwrap().x;
    let mut singular = swapped.map(|v| if v.abs() == 1.0 { *v } else { 0.0 });
    for (k, mut row) in singular.outer_iterator_mut().enumerate() {
        row.iter_mut().for_each(|(j, v)| {
            if k == j && k < 2 {
                *v = 1.0;
            }
        });
    }
    assert!(factors.refactorize(&singular).is_err());
    assert_eq!(factors.solve(&b).unwrap().x, x);
}

/// New pivots are searched on the tree of the factors that are there: columns that were delayed once stay where they are, also
/// where they would have pivots.
#[test]
fn delayed_columns_stay_where_they_are() {
    let zeros = darcy(6, 6, 2);
    let (n, count) = (zeros.rows(), 12);
    let matrix = |zero: f64, swapped: bool| {
        let mut a = TriMat::new((n + 2 * count, n + 2 * count));
        for (&v, (i, j)) in &zeros {
            a.add_triplet(i, j, v);
        }
        for i in 0..n {
            if zeros.get(i, i).is_none_or(|&v| v == 0.0) {
                a.add_triplet(i, i, zero);
            }
        }
        for (&v, (i, j)) in &pairs(count, swapped) {
            a.add_triplet(n + i, n + j, v);
        }
        mirrored(&a.to_csr())
    };
    let order: Vec<u32> = (0..(n + 2 * count) as u32).rev().collect();
    let method = Method::User {
        rows: luge::RowPerm::new(order.clone()).unwrap(),
        cols: luge::ColPerm::new(order).unwrap(),
    };
    let options = symmetric().ordering(OrderingOptions::default().method(method));
    let first = matrix(0.0, false);
    let mut factors = factorize(&first, options.clone()).unwrap();
    let delayed = factors.inform().num_delay.unwrap();
    assert!(delayed > 0);
    let other = matrix(-50.0, true);
    let alone = factorize(&other, options).unwrap();
    assert!(alone.inform().num_delay.unwrap() < delayed);
    factors.refactorize(&other).unwrap();
    assert!(factors.inform().num_delay.unwrap() >= delayed);
    assert_eq!(factors.inertia(), alone.inertia());
    check_all_solves("delayed", &other, &factors);
}

#[test]
fn thresholds_are_those_of_the_options() {
    let a = mirrored(&stokes(5, 5));
    for threshold in [0.0, 0.1, 0.5] {
        let options = symmetric().pivoting(Pivoting::Threshold { threshold });
        let Ok(factors) = factorize(&a, options) else {
            // Any pivot that is not zero: the factors may be of no use.
            assert_eq!(threshold, 0.0);
            continue;
        };
        if threshold > 0.0 {
            check_all_solves("stokes", &a, &factors);
        }
    }
}

#[test]
fn a_batch_has_the_bits_of_its_systems() {
    let lower = |mu| triangle(&interior_point_kkt(40, 15, mu, 4), |i, j| i >= j);
    let systems = [1e-1, 1e-3, 1e-5].map(lower);
    let values: Vec<f64> = systems.iter().flat_map(|a| a.data().to_vec()).collect();
    let (n, nnz) = (systems[0].rows(), systems[0].nnz());
    let solver = Solver::new(symmetric()).unwrap();
    let analysis = solver.analyze(&systems[0]).unwrap();
    let alone = |a: &CsMat<f64>| analysis.factorize_values(a.data()).unwrap();
    let b = vec![1.0; n * systems.len()];
    let mut batch = analysis.factorize_batch(&values, 3).unwrap();
    for (k, solution) in batch.solve(&b, 1).into_iter().enumerate() {
        let expected = alone(&systems[k]).solve(&b[..n]).unwrap().x;
        assert_eq!(solution.unwrap().x, expected, "system {k}");
    }
    // On the device, one of them singular.
    let mut values = values;
    values[nnz..2 * nnz].fill(0.0);
    let there = solver.stream().unwrap().upload(&values).unwrap();
    let outcomes = batch.refactorize_on_device(&there).unwrap();
    let failed: Vec<bool> = outcomes.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, true, false]);
    let mut x = solver.stream().unwrap().upload(&b).unwrap();
    let solved = batch.solve_on_device(&mut x, 1, false).unwrap();
    let failed: Vec<bool> = solved.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, true, false]);
    let x = solver.stream().unwrap().download(&x).unwrap();
    for k in [0, 2] {
        let whole = mirrored(&systems[k]);
        let error = normwise_backward_error(&whole, &x[k * n..(k + 1) * n], &b[..n]);
        assert!(error < 1e-10, "system {k}: {error:e}");
    }
    let again = analysis.factorize_batch_on_device(&there, 3).unwrap();
    assert!(again.inform(1).is_err() && again.inform(2).is_ok());
}

#[test]
fn vectors_stay_on_the_device() {
    let a = mirrored(&darcy(6, 5, 4));
    let lower = triangle(&a, |i, j| i >= j);
    let solver = Solver::new(symmetric()).unwrap();
    let factors = solver.analyze(&lower).unwrap().factorize(&lower).unwrap();
    let stream = solver.stream().unwrap();
    let (b, _) = known_solution(&a);
    let expected = factors.solve(&b).unwrap().x;
    let there = stream.upload(&b).unwrap();
    let mut x = stream.upload(&vec![0.0; b.len()]).unwrap();
    let inform = factors
        .solve_refined_on_device(&there, &mut x, 1, true)
        .unwrap();
    assert!(inform.backward_error.unwrap() <= 1e-12);
    assert_eq!(stream.download(&x).unwrap(), expected);
    let mut x = stream.upload(&b).unwrap();
    factors.solve_on_device(&mut x, 1, false).unwrap();
    let x = stream.download(&x).unwrap();
    assert!(normwise_backward_error(&a, &x, &b) <= 1e-10);
    // Numbers beyond the range in which a device measures.
    for factor in [1e-290, 1e290] {
        let far: Vec<f64> = b.iter().map(|v| v * factor).collect();
        let solution = factors.solve(&far).unwrap();
        assert!(solution.inform.backward_error.unwrap() <= 1e-12);
    }
}

#[test]
fn determinants_and_conditions_are_those_of_the_cpu() {
    for (name, a) in matrices() {
        let device = factorize(&a, symmetric().estimate_condition(true)).unwrap();
        let options = symmetric().backend(BackendChoice::Cpu);
        let host = factorize(&a, options.estimate_condition(true)).unwrap();
        let [there, here] = [&device, &host].map(|factors| factors.determinant().unwrap());
        assert_eq!(there.mantissa.signum(), here.mantissa.signum(), "{name}");
        let difference = there.log10_abs() - here.log10_abs();
        assert!(difference.abs() < 1e-8, "{name}: {there} {here}");
        let ratio = device.rcond().unwrap() / host.rcond().unwrap();
        assert!((0.05..20.0).contains(&ratio), "{name}: {ratio}");
        device.structure().unwrap();
    }
}

#[test]
fn a_pattern_without_values_serves_every_matrix() {
    for (name, a) in matrices().into_iter().take(4) {
        let lower = triangle(&a, |i, j| i >= j);
        let solver = Solver::new(symmetric()).unwrap();
        let pattern = MatrixRef::from(&lower).pattern();
        let analysis = solver.analyze_pattern::<f64, _>(pattern).unwrap();
        let scale = |i: usize| 10f64.powi(3 * (i % 7) as i32 - 9);
        let mut whole = a.clone();
        for (k, mut row) in whole.outer_iterator_mut().enumerate() {
            row.iter_mut().for_each(|(j, v)| *v *= scale(k) * scale(j));
        }
        let factors = analysis
            .factorize_values(triangle(&whole, |i, j| i >= j).data())
            .unwrap();
        let (b, _) = known_solution(&whole);
        let solution = factors.solve(&b).unwrap();
        assert!(solution.inform.backward_error.unwrap() < 1e-13, "{name}");
    }
}

#[test]
fn single_matrices_are_factorized_as_they_are() {
    let a = to_scalar::<f32>(&mirrored(&saddle_point(40, 15, 2)));
    let factors = Solver::new(symmetric())
        .unwrap()
        .analyze(&a)
        .unwrap()
        .factorize(&a)
        .unwrap();
    let (b, _) = known_solution(&a);
    assert_backward_error(&a, &factors.solve(&b).unwrap().x, &b);
    assert_eq!(factors.inform().precision, "f32");
}

/// Values that the scaling of others brings to the end of the range of `f32`.
#[test]
fn values_out_of_the_range_of_factors_are_scaled_anew() {
    let matrix = |values: [f32; 3]| {
        let mut a = TriMat::new((2, 2));
        for (k, (i, j)) in [(0, 0), (1, 0), (1, 1)].into_iter().enumerate() {
            a.add_triplet(i, j, values[k]);
        }
        let a: CsMat<f32> = a.to_csr();
        a
    };
    let large = matrix([-2.676_011_6e35, 1e34, 2e35]);
    for kind in [MatrixKind::Symmetric, MatrixKind::General] {
        let options = of_kind(kind);
        let solver = Solver::new(options).unwrap();
        let mut factors = solver.analyze(&large).unwrap().factorize(&large).unwrap();
        let mut scaled_anew = 0;
        for size in (60..110).map(|power| 2f32.powi(-power)) {
            let small = large.map(|v| v * size);
            let outcome = factors.refactorize(&small).unwrap();
            scaled_anew += usize::from(matches!(outcome, Refactorized::Repivoted { .. }));
            // Times ones.
            let [d, e, f] = [-2.676_011_6e35 * size, 1e34 * size, 2e35 * size];
            let b = if kind == MatrixKind::Symmetric {
                [d + e, e + f]
            } else {
                [d, e + f]
            };
            let solution = factors.solve(&b).unwrap();
            assert!(
                solution.x.iter().all(|x| (x - 1.0).abs() < 1e-5),
                "{size:e}: {:?}",
                solution.x
            );
        }
        // Once in 73 powers of two.
        assert_eq!(scaled_anew, 1);
    }
}

/// Where the options want no scaling, another one would be of no use.
#[test]
fn values_out_of_range_are_kept_without_a_scaling() {
    let a = mirrored(&laplacian_2d(4, 3)).map(|&v| v as f32 * 1e-25);
    let ordering = OrderingOptions::default().scaling(false);
    let solver = Solver::new(symmetric().ordering(ordering)).unwrap();
    let mut factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
    let outcome = factors.refactorize(&a).unwrap();
    assert!(
        matches!(outcome, Refactorized::Reused { .. }),
        "{outcome:?}"
    );
}

#[test]
fn memory_is_predicted_and_refused_before_any_work() {
    let a = mirrored(&laplacian_2d(12, 11));
    let solver = Solver::new(symmetric()).unwrap();
    let mut factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
    // With the check and the comparison that are predicted.
    let there = solver.stream().unwrap().upload(a.data()).unwrap();
    factors.refactorize_on_device(&there).unwrap();
    let inform = factors.inform();
    let predicted = inform.predicted_device_bytes.unwrap();
    // What was predicted is what there was, but for right-hand sides.
    let peak = inform.peak_device_bytes.unwrap();
    let ratio = predicted as f64 / peak as f64;
    assert!((0.8..1.25).contains(&ratio), "{predicted} {peak}");
    let general = Options::default().backend(BackendChoice::Simulator { seed: 3 });
    let general = factorize(&a, general).unwrap();
    assert!(inform.lnz < general.inform().lnz + general.inform().unz);
    let solver = Solver::new(symmetric().max_device_bytes(predicted / 2)).unwrap();
    match solver.analyze(&a) {
        Err(Error::OutOfMemory { available, .. }) => assert!(available <= predicted / 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn options_that_do_not_go_with_a_symmetric_matrix_are_refused() {
    for (options, field) in [
        (
            symmetric().device_engine(DeviceEngine::Columns),
            "device_engine",
        ),
        (symmetric().pivoting(Pivoting::Static), "pivoting"),
    ] {
        let error = Solver::new(options).err();
        assert!(
            matches!(&error, Some(Error::InvalidOption { field: f, .. }) if *f == field),
            "{field}: {error:?}"
        );
    }
    // The columns take any matrix as a general one.
    let a = mirrored(&laplacian_2d(6, 5));
    let options = of_kind(MatrixKind::Auto).device_engine(DeviceEngine::Columns);
    assert_eq!(factorize(&a, options).unwrap().inform().kind, "general");
}

#[test]
fn a_raised_flag_stops_symmetric_calls_too() {
    let a = mirrored(&darcy(6, 6, 2));
    let cancel = CancelFlag::new();
    let solver = Solver::new(symmetric().cancel(cancel.clone())).unwrap();
    let analysis = solver.analyze(&a).unwrap();
    let mut factors = analysis.factorize(&a).unwrap();
    cancel.cancel();
    assert!(matches!(solver.analyze(&a), Err(Error::Cancelled(_))));
    assert!(matches!(factors.refactorize(&a), Err(Error::Cancelled(_))));
    cancel.lower();
    check_all_solves("darcy", &a, &factors);
}
