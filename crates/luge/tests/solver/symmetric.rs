//! Symmetric matrices on the CPU: storage, kinds, inertia, singular systems, refactorizations, batches, threads.

use luge::ordering::{Matching, Method, OrderingOptions};
use luge::sprs::{CsMat, TriMat};
use luge::{
    BackendChoice, CancelFlag, ColPerm, CpuEngine, Error, FactorPrecision, Factors, Inertia,
    MatrixKind, MatrixRef, Options, Pivoting, Refactorized, ResidualCheck, RowPerm, SingularAction,
    Solver, Warning,
};
use luge_testkit::generators::applications::{
    elasticity_3d, interior_point_kkt, laplacian_2d, random_unsymmetric, saddle_point,
};
use luge_testkit::generators::mixed::{darcy, random_symmetric, stokes, triharmonic};
use luge_testkit::residual::{assert_backward_error, known_solution, normwise_backward_error};
use nalgebra::DMatrix;

fn of_kind(kind: MatrixKind) -> Options {
    Options::default().backend(BackendChoice::Cpu).kind(kind)
}

fn symmetric() -> Options {
    of_kind(MatrixKind::Symmetric)
}

pub fn factorize(a: &CsMat<f64>, options: Options) -> Result<Factors<f64>, Error> {
    Solver::new(options)?.analyze(a)?.factorize(a)
}

/// One triangle, with the diagonal.
pub fn triangle(a: &CsMat<f64>, is_kept: impl Fn(usize, usize) -> bool) -> CsMat<f64> {
    let mut part = TriMat::new(a.shape());
    for (&v, (i, j)) in a {
        if is_kept(i, j) {
            part.add_triplet(i, j, v);
        }
    }
    part.to_csr()
}

fn dense(a: &CsMat<f64>) -> DMatrix<f64> {
    let mut dense = DMatrix::zeros(a.rows(), a.cols());
    for (&v, (i, j)) in a {
        dense[(i, j)] = v;
    }
    dense
}

/// By the signs of the eigenvalues, those below 10⁻¹² of the largest counted as zero.
fn inertia(a: &CsMat<f64>) -> Inertia {
    let values = dense(a).symmetric_eigenvalues();
    let zero = 1e-12 * values.iter().fold(0.0, |max: f64, v| max.max(v.abs()));
    let count = |is: &dyn Fn(f64) -> bool| values.iter().filter(|&&v| is(v)).count();
    Inertia {
        positive: count(&|v| v > zero),
        negative: count(&|v| v < -zero),
        zero: count(&|v| v.abs() <= zero),
    }
}

/// Sums of entries given twice may differ by a rounding error across the diagonal.
pub fn mirrored(a: &CsMat<f64>) -> CsMat<f64> {
    let mut whole = TriMat::new(a.shape());
    for (&v, (i, j)) in a {
        if i >= j {
            whole.add_triplet(i, j, v);
        }
        if i > j {
            whole.add_triplet(j, i, v);
        }
    }
    whole.to_csr()
}

fn matrices() -> Vec<(&'static str, CsMat<f64>)> {
    let mut matrices = vec![
        ("laplacian", laplacian_2d(13, 12)),
        ("elasticity", elasticity_3d(3, 2, 2, 1)),
        ("saddle point", saddle_point(120, 50, 2)),
        ("interior point", interior_point_kkt(90, 40, 1e-4, 3)),
        ("darcy", darcy(9, 8, 4)),
        ("stokes", stokes(8, 9)),
        ("triharmonic", triharmonic(9, 8)),
        ("random", random_symmetric(150, 5, 6)),
        ("tiny", random_symmetric(5, 2, 1)),
        ("one", laplacian_2d(1, 1)),
    ];
    matrices.iter_mut().for_each(|(_, a)| *a = mirrored(a));
    matrices
}

#[test]
fn solutions_and_inertia_are_those_of_the_matrix() {
    for (name, a) in matrices() {
        let (b, _) = known_solution(&a);
        for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
            let factors = factorize(&a, symmetric().precision(precision))
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(factors.inertia(), Some(inertia(&a)), "{name}");
            let solution = factors.solve(&b).unwrap();
            assert_backward_error(&a, &solution.x, &b);
            let transposed = factors.solve_transpose(&b).unwrap();
            assert_backward_error(&a, &transposed.x, &b);
            let inform = &solution.inform;
            assert_eq!(inform.kind, "symmetric");
            assert_eq!(inform.num_neg, Some(inertia(&a).negative), "{name}");
            assert_eq!(inform.rank, Some(a.rows()));
            assert_eq!(inform.pivoting, Some("threshold"));
            // In f32 some are singular to a few digits.
            let warnings = &inform.warnings;
            assert!(
                precision == FactorPrecision::Single || warnings.is_empty(),
                "{name}: {warnings:?}"
            );

            let mut x = [b.clone(), b.clone()].concat();
            let accuracy = factors.solve_in_place(&mut x).unwrap();
            let stated = accuracy.backward_error.unwrap();
            assert!(stated <= 1e-10, "{name}: {stated:e}");
            for x in x.chunks(a.rows()) {
                let error = normwise_backward_error(&a, x, &b);
                assert!(
                    error <= 1.01 * stated + 1e-15,
                    "{name}: {error:e}, {stated:e}"
                );
            }
        }
    }
}

#[test]
fn either_triangle_is_as_good_as_the_whole_matrix() {
    for (name, a) in matrices() {
        let (b, _) = known_solution(&a);
        let expected = factorize(&a, symmetric()).unwrap().solve(&b).unwrap().x;
        for is_lower in [true, false] {
            let stored = triangle(&a, |i, j| if is_lower { i >= j } else { i <= j });
            for stored in [stored.clone(), stored.to_csc()] {
                let solver = Solver::new(symmetric()).unwrap();
                let analysis = solver.analyze(&stored).unwrap();
                let mut factors = analysis.factorize(&stored).unwrap();
                let solution = factors.solve(&b).unwrap();
                assert_eq!(
                    solution.x,
                    expected,
                    "{name}, lower {is_lower}, rows {}",
                    stored.is_csr()
                );
                // Values alone are those of the triangle.
                let doubled: Vec<f64> = stored.data().iter().map(|v| 2.0 * v).collect();
                factors.refactorize_values(&doubled).unwrap();
                let halved = factors.solve(&b).unwrap().x;
                let close = |(half, whole): (&f64, &f64)| (2.0 * half - whole).abs() < 1e-8;
                assert!(halved.iter().zip(&expected).all(close), "{name}");
                let again = analysis.factorize_values(&doubled).unwrap();
                assert_eq!(again.solve(&b).unwrap().x, halved);
                let mut batch = analysis.factorize_batch(&doubled, 1).unwrap();
                let of_batch = batch.solve(&b, 1).remove(0).unwrap().x;
                assert_eq!(of_batch, halved);
                let renewed = batch.refactorize(stored.data()).remove(0).unwrap();
                assert!(matches!(renewed, Refactorized::Reused { .. }));
                let of_batch = batch.solve(&b, 1).remove(0).unwrap().x;
                assert_eq!(of_batch, expected);
            }
        }
    }
}

#[test]
fn a_matrix_of_a_part_of_the_pattern_has_zeros() {
    let a = saddle_point(40, 15, 1);
    let lower = triangle(&a, |i, j| i >= j);
    let analysis = Solver::new(symmetric()).unwrap().analyze(&lower).unwrap();
    let part = triangle(&lower, |i, j| i < 40 || j % 5 != 0 || i - 40 == j);
    assert!(part.nnz() < lower.nnz());
    let whole = triangle(&a, |i, j| {
        let (i, j) = (i.max(j), i.min(j));
        i < 40 || j % 5 != 0 || i - 40 == j
    });
    let (b, _) = known_solution(&whole);
    if let Ok(factors) = analysis.factorize(&part) {
        assert_backward_error(&whole, &factors.solve(&b).unwrap().x, &b);
    } else {
        assert!(inertia(&whole).zero > 0, "refused without reason");
    }
    let mut other = TriMat::new(a.shape());
    other.add_triplet(54, 53, 1.0);
    let error = analysis.factorize(&other.to_csr::<usize>()).err();
    assert!(
        matches!(
            error,
            Some(Error::ExtraEntry {
                row: 54,
                column: 53
            })
        ),
        "{error:?}"
    );
}

#[test]
fn positive_definite_matrices_are_told() {
    for a in [laplacian_2d(15, 14), elasticity_3d(4, 2, 2, 3)] {
        let (b, _) = known_solution(&a);
        for kind in [MatrixKind::PositiveDefinite, MatrixKind::Auto] {
            let factors = factorize(&a, of_kind(kind)).unwrap();
            let n = a.rows();
            let expected = Inertia {
                positive: n,
                negative: 0,
                zero: 0,
            };
            assert_eq!(factors.inertia(), Some(expected));
            let solution = factors.solve(&b).unwrap();
            assert_backward_error(&a, &solution.x, &b);
            assert_eq!(solution.inform.kind, "positive definite");
            assert_eq!(solution.inform.num_two, Some(0));
            let ran = &solution.inform.code_path;
            assert!(ran.iter().any(|path| path.contains("Cholesky")), "{ran:?}");
        }
        // Values of the next matrix decide by themselves.
        let analysis = Solver::new(of_kind(MatrixKind::Auto)).unwrap().analyze(&a);
        let mut factors = analysis.unwrap().factorize(&a).unwrap();
        let mut indefinite = a.clone();
        for (k, mut row) in indefinite.outer_iterator_mut().enumerate() {
            for (j, v) in row.iter_mut() {
                if j == k && k % 3 == 0 {
                    *v = -*v;
                }
            }
        }
        let outcome = factors.refactorize(&indefinite).unwrap();
        assert!(
            matches!(outcome, Refactorized::Repivoted { .. }),
            "{outcome:?}"
        );
        assert_eq!(factors.inertia(), Some(inertia(&indefinite)));
        assert_eq!(factors.inform().kind, "symmetric");
        let (b, _) = known_solution(&indefinite);
        assert_backward_error(&indefinite, &factors.solve(&b).unwrap().x, &b);

        let error = factorize(&indefinite, of_kind(MatrixKind::PositiveDefinite)).unwrap_err();
        let Error::NotPositiveDefinite { column, pivot } = error else {
            panic!("{error}");
        };
        assert!(column < a.rows() && pivot <= 0.0);
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
    // A triangle that nobody calls symmetric is a triangular matrix.
    let lower = triangle(&laplacian_2d(5, 5), |i, j| i >= j);
    let factors = factorize(&lower, of_kind(MatrixKind::Auto)).unwrap();
    assert_eq!(factors.inform().kind, "general");
    let (b, _) = known_solution(&lower);
    assert_backward_error(&lower, &factors.solve(&b).unwrap().x, &b);

    // Values that stop being symmetric are refused, and the factors stay.
    let a = saddle_point(40, 10, 3);
    let (b, _) = known_solution(&a);
    let mut factors = factorize(&a, symmetric()).unwrap();
    let x = factors.solve(&b).unwrap().x;
    let mut other = a.clone();
    let at = a.indices().iter().zip(a.data()).position(|(&j, _)| j == 45);
    other.data_mut()[at.unwrap()] *= 1.5;
    let error = factors.refactorize(&other).unwrap_err();
    assert!(
        matches!(
            error,
            Error::NotSymmetric { column: 45, .. } | Error::NotSymmetric { row: 45, .. }
        ),
        "{error}"
    );
    assert_eq!(factors.solve(&b).unwrap().x, x);
}

/// A grid without a boundary: constant vectors are its null space.
pub fn floating(nx: usize, ny: usize) -> CsMat<f64> {
    let mut a = TriMat::new((nx * ny, nx * ny));
    for (&v, (i, j)) in &laplacian_2d(nx, ny) {
        if i != j {
            a.add_triplet(i, j, v);
            a.add_triplet(i, i, -v);
        }
    }
    a.to_csr()
}

#[test]
fn singular_systems_are_refused_or_gone_on_with() {
    let a = floating(9, 8);
    let n = a.rows();
    match factorize(&a, symmetric()) {
        Err(Error::ZeroPivot { .. } | Error::SingularToRounding { .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(factors) => {
            let warnings = &factors.inform().warnings;
            let is_told = |w: &Warning| {
                matches!(
                    w,
                    Warning::IllConditioned {
                        is_constant: true,
                        ..
                    }
                )
            };
            assert!(warnings.iter().any(is_told), "{warnings:?}");
        }
    }
    let options = symmetric().singular(SingularAction::Continue);
    let factors = factorize(&a, options.clone()).unwrap();
    assert_eq!(factors.inertia(), Some(inertia(&a)));
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
    let b: Vec<f64> = (0..n).map(|i| if i < n / 2 { 1.0 } else { -1.0 }).collect();
    let solution = factors.solve(&b).unwrap();
    assert!(solution.inform.backward_error.unwrap() < 1e-13);
    // Not consistent: said so.
    let solution = factors.solve(&vec![1.0; n]).unwrap();
    let missed = |w: &Warning| matches!(w, Warning::TargetMissed { .. });
    assert!(solution.inform.warnings.iter().any(missed));

    // What is zero is as small as the caller says.
    let small = 1e-20;
    let barrier = CsMat::new(
        (3, 3),
        vec![0, 1, 2, 4],
        vec![0, 1, 0, 2],
        vec![1.0, small, 0.0, -1.0],
    );
    let unscaled = options
        .clone()
        .ordering(OrderingOptions::default().scaling(false));
    for (zero_pivot, zero) in [(None, 1), (Some(0.0), 0), (Some(small), 0), (Some(1e-9), 1)] {
        let factors = factorize(&barrier, unscaled.clone().zero_pivot(zero_pivot)).unwrap();
        let found = factors.inertia().unwrap();
        assert_eq!((found.negative, found.zero), (1, zero), "{zero_pivot:?}");
    }

    // A regular matrix is factorized alike whatever would become of a singular one.
    let a = stokes(7, 6);
    let (b, _) = known_solution(&a);
    let solutions = [symmetric(), options].map(|options| {
        let factors = factorize(&a, options).unwrap();
        assert_eq!(factors.inertia(), Some(inertia(&a)));
        factors.solve(&b).unwrap().x
    });
    assert_eq!(solutions[0], solutions[1]);
}

#[test]
fn refactorizations_search_pivots_anew() {
    let first = interior_point_kkt(120, 50, 1e-1, 4);
    let second = interior_point_kkt(120, 50, 1e-6, 4);
    assert_eq!(first.indices(), second.indices());
    let solver = Solver::new(symmetric()).unwrap();
    let analysis = solver.analyze(&first).unwrap();
    let mut factors = analysis.factorize(&first).unwrap();
    let (b, _) = known_solution(&first);
    let x = factors.solve(&b).unwrap().x;
    let outcome = factors.refactorize(&second).unwrap();
    assert!(
        matches!(outcome, Refactorized::Reused { .. }),
        "{outcome:?}"
    );
    assert_eq!(factors.inertia(), Some(inertia(&second)));
    let (c, _) = known_solution(&second);
    assert_backward_error(&second, &factors.solve(&c).unwrap().x, &c);
    factors.refactorize(&first).unwrap();
    assert_eq!(factors.solve(&b).unwrap().x, x, "the same bits");

    // What is refused leaves the old factors.
    let zero = first.map(|_| 0.0);
    assert!(factors.refactorize(&zero).is_err());
    assert_eq!(factors.solve(&b).unwrap().x, x);
    let mut wild = first.clone();
    wild.data_mut()[0] = f64::NAN;
    let error = factors.refactorize(&wild).unwrap_err();
    assert!(matches!(error, Error::NotFinite { row: 0, .. }), "{error}");
    assert_eq!(factors.solve(&b).unwrap().x, x);
}

#[test]
fn columns_of_zeros_are_no_reason_to_order_anew() {
    // A grid, and two unknowns by themselves.
    let beside = |pivots: [f64; 2]| {
        let grid = mirrored(&laplacian_2d(5, 4));
        let n = grid.rows();
        let mut a = TriMat::new((n + 2, n + 2));
        for (&v, (i, j)) in &grid {
            a.add_triplet(i, j, v);
        }
        a.add_triplet(n, n, pivots[0]);
        a.add_triplet(n + 1, n + 1, pivots[1]);
        a.to_csr::<usize>()
    };
    let (regular, tiny) = (beside([1.0, 1.0]), 1e-290);
    for check in [ResidualCheck::Always, ResidualCheck::Never] {
        let options = symmetric().singular(SingularAction::Continue);
        let solver = Solver::new(options.residual_check(check)).unwrap();
        let analysis = solver.analyze(&regular).unwrap();
        for (pivots, zero, is_reused) in [
            ([0.0, 1.0], 1, true),
            ([0.0, 0.0], 2, true),
            ([1.0, 1e-9], 0, true),
            // What is left of that by the old scaling has lost digits, also where another column is zero.
            ([1.0, tiny], 0, false),
            ([0.0, tiny], 1, false),
        ] {
            let a = beside(pivots);
            let mut factors = analysis.factorize(&regular).unwrap();
            let outcome = factors.refactorize(&a).unwrap();
            let was_reused = matches!(outcome, Refactorized::Reused { .. });
            assert_eq!(was_reused, is_reused, "{check:?}, {pivots:?}: {outcome:?}");
            assert_eq!(factors.inertia().unwrap().zero, zero, "{pivots:?}");
            let mut b = vec![1.0; a.rows()];
            (b[a.rows() - 2], b[a.rows() - 1]) = (pivots[0], pivots[1]);
            let x = factors.solve(&b).unwrap().x;
            assert_backward_error(&a, &x, &b);
        }
    }
}

#[test]
fn what_is_not_measured_is_told_as_far_as_it_is_bounded() {
    let first = mirrored(&interior_point_kkt(120, 50, 1e-1, 4));
    let second = mirrored(&interior_point_kkt(120, 50, 1e-6, 4));
    let (c, _) = known_solution(&second);
    // One that no solution reaches, so that no bound is good enough.
    let unreachable = 1e-300;
    let mut solutions = Vec::new();
    for (check, target) in [
        (ResidualCheck::Always, None),
        (ResidualCheck::WhereInDoubt, None),
        (ResidualCheck::Never, None),
        (ResidualCheck::Never, Some(unreachable)),
    ] {
        let options = symmetric()
            .residual_check(check)
            .target_backward_error(target);
        let analysis = Solver::new(options).unwrap().analyze(&first).unwrap();
        let mut factors = analysis.factorize(&first).unwrap();
        let outcome = factors.refactorize(&second).unwrap();
        assert!(
            matches!(outcome, Refactorized::Reused { .. }),
            "{outcome:?}"
        );
        assert_eq!(
            factors.inform().seconds.probe,
            None,
            "{check:?}, {target:?}"
        );
        assert_eq!(factors.inertia(), Some(inertia(&second)));
        let mut x = c.clone();
        let accuracy = factors.solve_in_place(&mut x).unwrap();
        assert_backward_error(&second, &x, &c);
        let is_known = target != Some(unreachable);
        assert_eq!(accuracy.backward_error.is_some(), is_known, "{accuracy:?}");
        assert!(!accuracy.is_measured, "{accuracy:?}");
        if target.is_none() {
            solutions.push(x);
        }
        // A solution that is asked for is measured and refined all the same.
        let solution = factors.solve(&c).unwrap();
        assert!(solution.inform.backward_error.unwrap() < 1e-15);
    }
    assert!(
        solutions.windows(2).all(|pair| pair[0] == pair[1]),
        "the same factors"
    );
}

#[test]
fn where_scale_factors_are_far_apart_factors_are_measured_as_often_as_the_options_say() {
    // With constraints in other units: small errors of the scaled matrix may be large ones in rows of A.
    let mut first = mirrored(&saddle_point(120, 50, 2));
    for (row, mut entries) in first.outer_iterator_mut().enumerate() {
        for (column, v) in entries.iter_mut() {
            if (row < 120) != (column < 120) {
                *v *= 1e6;
            }
        }
    }
    let second = first.map(|v| 1.5 * v);
    for (check, target, is_measured) in [
        (ResidualCheck::Always, None, true),
        (ResidualCheck::WhereInDoubt, None, false),
        (ResidualCheck::WhereInDoubt, Some(1e-15), true),
    ] {
        let options = symmetric()
            .residual_check(check)
            .target_backward_error(target);
        let mut factors = factorize(&first, options).unwrap();
        let growth = factors.inform().growth.unwrap();
        assert!(growth < 64.0, "{growth}");
        assert!(factors.inform().seconds.probe.is_some(), "the first always");
        factors.refactorize(&second).unwrap();
        let probe = factors.inform().seconds.probe;
        assert_eq!(probe.is_some(), is_measured, "{check:?}, {target:?}");
    }
}

#[test]
fn where_the_growth_is_small_no_solve_is_measured() {
    let first = mirrored(&interior_point_kkt(120, 50, 1e-1, 4));
    let second = mirrored(&interior_point_kkt(120, 50, 1e-6, 4));
    let analysis = Solver::new(symmetric()).unwrap().analyze(&first).unwrap();
    let mut factors = analysis.factorize(&first).unwrap();
    assert_eq!(factors.inform().seconds.probe, None);
    let outcome = factors.refactorize(&second).unwrap();
    assert_eq!(factors.inform().seconds.probe, None);
    let Refactorized::Reused {
        growth,
        backward_error: Some(bound),
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert!((1.0..=128.0).contains(&growth) && bound < 1e-10);
    let unit = |i: usize| (0..second.rows()).map(move |row| f64::from(u8::from(row == i)));
    for b in (0..second.rows()).step_by(10).map(unit) {
        let b: Vec<f64> = b.collect();
        let mut x = b.clone();
        let accuracy = factors.solve_in_place(&mut x).unwrap();
        assert_eq!(accuracy.backward_error, Some(bound));
        assert!(!accuracy.is_measured);
        assert!(normwise_backward_error(&second, &x, &b) <= bound);
    }

    // What a growth does not tell of is measured: digits that underflow, and what zero pivots leave out.
    let single = symmetric().precision(FactorPrecision::Single);
    let zeros = symmetric().singular(SingularAction::Continue);
    for (a, options) in [(&second, single), (&floating(9, 8), zeros)] {
        let factors = factorize(a, options).unwrap();
        assert!(factors.inform().seconds.probe.is_some());
    }
}

#[test]
fn a_pivot_that_is_small_beside_what_it_is_made_of_raises_a_doubt() {
    // 1/64  1
    // 1     64 + δ, where δ is hardly more than rounding: the second pivot, small beside 64, not beside the first one.
    let a = |delta: f64| {
        let mut a = TriMat::new((2, 2));
        let entries = [
            (0, 0, 1.0 / 64.0),
            (0, 1, 1.0),
            (1, 0, 1.0),
            (1, 1, 64.0 + delta),
        ];
        for (i, j, v) in entries {
            a.add_triplet(i, j, v);
        }
        a.to_csr::<usize>()
    };
    let method = Method::User {
        rows: RowPerm::identity(2),
        cols: ColPerm::identity(2),
    };
    let ordering = OrderingOptions::default().scaling(false).method(method);
    // Without a search, which would take the other one first.
    let options = || of_kind(MatrixKind::PositiveDefinite).ordering(ordering.clone());
    let factors = factorize(&a(1.0), options()).unwrap();
    assert_eq!(factors.inform().seconds.probe, None);
    let error = factorize(&a(2f64.powi(-44)), options()).unwrap_err();
    let is_told = matches!(error, Error::SingularToRounding { .. });
    assert!(is_told, "{error}");
}

#[test]
fn growth_and_tiny_pivots_are_noticed_without_a_measurement() {
    let first = mirrored(&interior_point_kkt(60, 25, 1e-1, 4));
    let second = mirrored(&interior_point_kkt(60, 25, 1e-3, 4));
    let unmeasured = symmetric().residual_check(ResidualCheck::Never);
    let options = unmeasured.clone().max_growth(0.5);
    let analysis = Solver::new(options).unwrap().analyze(&first).unwrap();
    let outcome = analysis.factorize(&first).unwrap().refactorize(&second);
    let Refactorized::Repivoted { reason, .. } = outcome.unwrap() else {
        panic!("a growth of one is more than a half")
    };
    assert!(reason.starts_with("growth"), "{reason}");

    let beside = |pivot: f64| {
        let mut a = TriMat::new((31, 31));
        for (&v, (i, j)) in &mirrored(&laplacian_2d(6, 5)) {
            a.add_triplet(i, j, v);
        }
        a.add_triplet(30, 30, pivot);
        a.to_csr::<usize>()
    };
    let unscaled = unmeasured.ordering(OrderingOptions::default().scaling(false));
    let analysis = Solver::new(unscaled)
        .unwrap()
        .analyze(&beside(4.0))
        .unwrap();
    let mut factors = analysis.factorize(&beside(4.0)).unwrap();
    let error = factors.refactorize(&beside(1e-30)).unwrap_err();
    let is_told = matches!(error, Error::SingularToRounding { column: 30, .. });
    assert!(is_told, "{error}");
}

#[test]
fn threads_do_not_change_a_bit() {
    for a in [
        darcy(30, 30, 1),
        elasticity_3d(10, 5, 5, 2),
        triharmonic(25, 25),
    ] {
        let (b, _) = known_solution(&a);
        let many = [b.clone(), b.clone(), b].concat();
        for kind in [MatrixKind::Symmetric, MatrixKind::Auto] {
            let mut answers = [1, 2, 7].map(|threads| {
                let solver = Solver::new(of_kind(kind).threads(threads)).unwrap();
                let mut factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
                let first = factors.solve_many(&many, 3).unwrap().x;
                factors.refactorize(&a).unwrap();
                assert!(factors.solve_many(&many, 3).unwrap().x == first);
                (first, factors.inertia(), factors.determinant().unwrap())
            });
            answers.rotate_left(1);
            assert!(answers[0] == answers[2] && answers[1] == answers[2]);
        }
    }
}

#[test]
fn determinants_have_size_and_sign() {
    for (name, a) in matrices().into_iter().filter(|(_, a)| a.rows() <= 160) {
        let expected = dense(&a).symmetric_eigenvalues();
        let negative = expected.iter().filter(|v| **v < 0.0).count();
        let log: f64 = expected.iter().map(|v| v.abs().log10()).sum();
        let determinant = factorize(&a, symmetric()).unwrap().determinant().unwrap();
        assert_eq!(determinant.mantissa < 0.0, negative % 2 == 1, "{name}");
        assert!((determinant.log10_abs() - log).abs() < 1e-8, "{name}");
    }
}

#[test]
fn a_pattern_without_values_serves_every_matrix() {
    for (name, a) in matrices() {
        let lower = triangle(&a, |i, j| i >= j);
        let solver = Solver::new(symmetric()).unwrap();
        let pattern = MatrixRef::from(&lower).pattern();
        let analysis = solver.analyze_pattern::<f64, _>(pattern).unwrap();
        // Scaled for its own values.
        let mut values: Vec<f64> = lower.data().to_vec();
        let scale = |i: usize| 10f64.powi(3 * (i % 7) as i32 - 9);
        let mut whole = a.clone();
        for (k, mut row) in whole.outer_iterator_mut().enumerate() {
            row.iter_mut().for_each(|(j, v)| *v *= scale(k) * scale(j));
        }
        for (k, (_, (i, j))) in lower.iter().enumerate() {
            values[k] *= scale(i) * scale(j);
        }
        let factors = analysis.factorize_values(&values).unwrap();
        let (b, _) = known_solution(&whole);
        let solution = factors.solve(&b).unwrap();
        assert!(solution.inform.backward_error.unwrap() < 1e-13, "{name}");
    }
}

#[test]
fn user_orders_are_followed() {
    let a = saddle_point(50, 20, 7);
    let n = a.rows();
    let (b, _) = known_solution(&a);
    let order: Vec<u32> = (0..n as u32).map(|i| i * 11 % n as u32).collect();
    let user = |rows: Vec<u32>, cols: Vec<u32>| luge::ordering::Method::User {
        rows: luge::RowPerm::new(rows).unwrap(),
        cols: luge::ColPerm::new(cols).unwrap(),
    };
    let with = |method| {
        let ordering = OrderingOptions::default().method(method);
        factorize(&a, symmetric().ordering(ordering))
    };
    let factors = with(user(order.clone(), order.clone())).unwrap();
    assert_eq!(factors.inform().ordering, "user");
    assert_backward_error(&a, &factors.solve(&b).unwrap().x, &b);
    let other: Vec<u32> = order.iter().rev().copied().collect();
    let error = with(user(order, other)).unwrap_err();
    assert!(matches!(error, Error::Ordering(_)), "{error}");
    for matching in [Matching::Always, Matching::Never] {
        let ordering = OrderingOptions::default().matching(matching);
        let factors = factorize(&a, symmetric().ordering(ordering)).unwrap();
        assert_backward_error(&a, &factors.solve(&b).unwrap().x, &b);
        assert_eq!(factors.inform().matched, matching == Matching::Always);
    }
}

#[test]
fn options_that_do_not_go_with_a_symmetric_matrix_are_refused() {
    let threshold = |threshold| symmetric().pivoting(Pivoting::Threshold { threshold });
    for (options, field) in [
        (symmetric().pivoting(Pivoting::Static), "pivoting"),
        (symmetric().engine(CpuEngine::Columns), "engine"),
        (threshold(0.6), "pivoting.threshold"),
        (threshold(f64::NAN), "pivoting.threshold"),
    ] {
        let error = Solver::new(options).err();
        assert!(
            matches!(&error, Some(Error::InvalidOption { field: f, .. }) if *f == field),
            "{field}: {error:?}"
        );
    }
    assert!(Solver::new(threshold(0.5)).is_ok());
}

#[test]
fn a_raised_flag_stops_symmetric_calls_too() {
    let a = darcy(20, 20, 2);
    let cancel = CancelFlag::new();
    let solver = Solver::new(symmetric().cancel(cancel.clone())).unwrap();
    let analysis = solver.analyze(&a).unwrap();
    let factors = analysis.factorize(&a).unwrap();
    cancel.cancel();
    assert!(matches!(solver.analyze(&a), Err(Error::Cancelled(_))));
    assert!(matches!(analysis.factorize(&a), Err(Error::Cancelled(_))));
    let (b, _) = known_solution(&a);
    assert!(matches!(factors.solve(&b), Err(Error::Cancelled(_))));
    cancel.lower();
    assert_backward_error(&a, &factors.solve(&b).unwrap().x, &b);
}

/// Entries across the diagonal may differ by little: those of the lower triangle count, by rows or by columns.
#[test]
fn the_lower_triangle_is_factorized() {
    let offsets = [0usize, 2, 4];
    let indices = [0usize, 1, 0, 1];
    let larger = 1.0 + 1e-11;
    let options = symmetric().ordering(OrderingOptions::default().scaling(false));
    let backends = [BackendChoice::Cpu, BackendChoice::Simulator { seed: 0 }];
    for backend in backends {
        let solver = Solver::new(options.clone().backend(backend)).unwrap();
        let d_of = |a: MatrixRef<'_, f64>| {
            let factors = solver.analyze(a).unwrap().factorize(a).unwrap();
            let d = factors.ldlt().unwrap().unwrap().d().to_vec();
            assert_eq!([d[0], d[1]], [2.0, 0.0]);
            d[2]
        };
        for [upper, lower] in [[larger, 1.0], [1.0, larger]] {
            let by_rows = [2.0, upper, lower, 2.0];
            let by_columns = [2.0, lower, upper, 2.0];
            let expected = 2.0 - lower * lower / 2.0;
            let found = [
                d_of(MatrixRef::by_rows(2, 2, &offsets, &indices, &by_rows)),
                d_of(MatrixRef::by_columns(2, 2, &offsets, &indices, &by_columns)),
            ];
            for d in found {
                assert!((d - expected).abs() < 1e-15, "{d}, {expected}");
            }
        }
    }
}

#[test]
fn an_analysis_serves_with_other_pivots() {
    let a = stokes(7, 6);
    let (b, _) = known_solution(&a);
    let with = |u| Pivoting::Threshold { threshold: u };
    let solver = Solver::new(symmetric().pivoting(with(1e-8))).unwrap();
    let analysis = solver.analyze(&a).unwrap();
    for u in [0.0, 0.1, 0.5] {
        let shared = analysis.with_pivots(with(u), None).unwrap();
        let expected = factorize(&a, symmetric().pivoting(with(u))).unwrap();
        let found = shared.factorize(&a).unwrap();
        assert_eq!(found.solve(&b).unwrap().x, expected.solve(&b).unwrap().x);
        assert_eq!(found.inform().num_delay, expected.inform().num_delay);
        assert_eq!(found.inform().num_two, expected.inform().num_two);
    }
    for (pivoting, zero_pivot, field) in [
        (with(0.6), None, "pivoting.threshold"),
        (with(0.1), Some(1.5), "zero_pivot"),
        (with(0.1), Some(f64::NAN), "zero_pivot"),
    ] {
        let refused = analysis.with_pivots(pivoting, zero_pivot).err();
        let is_field = |error: &Error| matches!(error, Error::InvalidOption { field: found, .. } if *found == field);
        assert!(refused.as_ref().is_some_and(is_field), "{refused:?}");
    }
}
