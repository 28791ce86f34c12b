//! L and D apart, another D, and pivots of expected signs.

use luge::ordering::{Matching, Method, OrderingOptions};
use luge::sprs::{CsMat, TriMat};
use luge::{
    BackendChoice, DeviceEngine, Error, FactorPrecision, Factors, Inertia, MatrixKind, Options,
    Pivoting, Refactorized, Regularization, SingularAction, Solver, SymmetricPivoting, Warning,
};
use luge_testkit::generators::applications::{interior_point_kkt, laplacian_2d, saddle_point};
use luge_testkit::generators::mixed::{darcy, random_symmetric, triharmonic};
use luge_testkit::residual::{assert_backward_error, known_solution, normwise_backward_error};

use crate::symmetric::{factorize, mirrored, triangle};

fn symmetric() -> Options {
    Options::default()
        .backend(BackendChoice::Cpu)
        .kind(MatrixKind::Symmetric)
}

/// On the CPU, and by a device's kernels.
fn on_both(options: &Options) -> [Options; 2] {
    let simulator = BackendChoice::Simulator { seed: 5 };
    [options.clone(), options.clone().backend(simulator)]
}

fn signed(signs: Vec<i8>, delta: f64) -> Options {
    symmetric().regularization(Some(Regularization::new(signs, delta)))
}

/// A·x.
fn times(a: &CsMat<f64>, x: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; x.len()];
    for (&v, (i, j)) in a {
        y[i] += v * x[j];
    }
    y
}

/// D·y, entries in the places of columns.
fn times_d(order: &[usize], d: &[f64], y: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; y.len()];
    for (i, &column) in order.iter().enumerate() {
        product[column] += d[2 * i] * y[column];
        if d[2 * i + 1] != 0.0 {
            let next = order[i + 1];
            product[next] += d[2 * i + 1] * y[column];
            product[column] += d[2 * i + 1] * y[next];
        }
    }
    product
}

fn largest(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |max, v| max.max(v.abs()))
}

fn assert_close(x: &[f64], y: &[f64], tolerance: f64) {
    let difference: Vec<f64> = x.iter().zip(y).map(|(x, y)| x - y).collect();
    let error = largest(&difference) / largest(y);
    assert!(error <= tolerance, "{error:e}");
}

/// Scaled by powers of ten, so that the factors are those of another matrix than this.
fn badly_scaled(a: &CsMat<f64>) -> CsMat<f64> {
    let mut scaled = a.clone();
    let factor = |i: usize| 10f64.powi((i % 7) as i32 - 3);
    for (i, mut row) in scaled.outer_iterator_mut().enumerate() {
        for (j, v) in row.iter_mut() {
            *v *= factor(i) * factor(j);
        }
    }
    scaled
}

fn matrices() -> Vec<CsMat<f64>> {
    vec![
        mirrored(&badly_scaled(&saddle_point(60, 25, 2))),
        mirrored(&random_symmetric(150, 5, 6)),
        mirrored(&laplacian_2d(9, 8)),
        mirrored(&laplacian_2d(1, 1)),
    ]
}

/// Solves with L, D and Lᵀ one after another, which are those of the matrix.
fn check_parts(a: &CsMat<f64>, options: &Options) {
    let n = a.rows();
    let (b, _) = known_solution(a);
    for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
        let tolerance = match precision {
            FactorPrecision::Matrix => 1e-10,
            FactorPrecision::Single => 1e-2,
        };
        let factors = factorize(a, options.clone().precision(precision)).unwrap();
        let ldlt = factors.ldlt().unwrap().unwrap();
        let mut seen = vec![false; n];
        ldlt.order().iter().for_each(|&column| seen[column] = true);
        assert!(ldlt.order().len() == n && seen.iter().all(|&seen| seen));
        assert_eq!(ldlt.d().len(), 2 * n);
        let two = ldlt.d().chunks(2).filter(|pair| pair[1] != 0.0).count();
        assert_eq!(factors.inform().num_two, Some(two));
        assert_eq!(factors.inertia(), ldlt.inertia());

        // Two right-hand sides, the second of them twice the first.
        let both: Vec<f64> = [b.clone(), b.iter().map(|b| 2.0 * b).collect()].concat();
        let mut x = both.clone();
        ldlt.solve(&mut x).unwrap();
        assert_close(
            &x[n..],
            &x[..n].iter().map(|x| 2.0 * x).collect::<Vec<_>>(),
            1e-14,
        );
        let error = normwise_backward_error(a, &x[..n], &b);
        assert!(error <= tolerance * 1e-2, "{error:e}");

        // By parts: D⁻¹ is the inverse of D, and with F and its transpose it is the matrix.
        let mut y = both.clone();
        ldlt.solve_lower(&mut y).unwrap();
        let mut z = y.clone();
        ldlt.solve_diagonal(&mut z).unwrap();
        for (y, z) in y.chunks(n).zip(z.chunks(n)) {
            assert_close(&times_d(ldlt.order(), ldlt.d(), z), y, 1e-12);
        }
        ldlt.solve_upper(&mut z).unwrap();
        assert_eq!(z, x);
        // yᵀ·D⁻¹·y = bᵀ·A⁻¹·b: so F⁻ᵀ is the transpose of F⁻¹.
        let dot = |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| x * y).sum() };
        let mut halfway = y.clone();
        ldlt.solve_diagonal(&mut halfway).unwrap();
        let (left, right) = (dot(&y[..n], &halfway[..n]), dot(&b, &x[..n]));
        assert!((left - right).abs() <= tolerance * right.abs().max(1e-3 * left.abs()));
    }
}

#[test]
fn three_solves_are_one() {
    for a in matrices() {
        for options in on_both(&symmetric()) {
            check_parts(&a, &options);
        }
    }
    let a = mirrored(&laplacian_2d(9, 8));
    for options in on_both(&symmetric().kind(MatrixKind::PositiveDefinite)) {
        check_parts(&a, &options);
    }
}

/// Zeros on the diagonal in an order that has them first, so that columns are delayed and fronts are searched.
#[test]
fn parts_are_those_of_columns_that_moved() {
    let a = darcy(6, 6, 2);
    let order: Vec<u32> = (0..a.rows() as u32).rev().collect();
    let method = Method::User {
        rows: luge::RowPerm::new(order.clone()).unwrap(),
        cols: luge::ColPerm::new(order).unwrap(),
    };
    let a = mirrored(&a);
    let options = symmetric().ordering(OrderingOptions::default().method(method));
    for options in on_both(&options) {
        let delayed = factorize(&a, options.clone()).unwrap().inform().num_delay;
        assert!(delayed.unwrap() > 0, "{delayed:?}");
        check_parts(&a, &options);
    }
}

#[test]
fn inertia_is_that_of_the_d_that_is_there() {
    let a = mirrored(&laplacian_2d(7, 1));
    for options in on_both(&symmetric()) {
        let factors = factorize(&a, options).unwrap();
        let mut ldlt = factors.ldlt().unwrap().unwrap();
        // Of order 2: indefinite, positive, negative and singular; of order 1: zero.
        for (block, expected) in [
            ([1.0, 2.0, 1.0], [1, 1, 0]),
            ([0.0, -1.0, 0.0], [1, 1, 0]),
            ([3.0, 1.0, 1.0], [2, 0, 0]),
            ([-3.0, 1.0, -1.0], [0, 2, 0]),
            ([1.0, 2.0, 4.0], [1, 0, 1]),
            ([-1.0, 2.0, -4.0], [0, 1, 1]),
            ([1e300, 1e300, 1e299], [1, 1, 0]),
            ([0.0, 0.0, -2.0], [0, 1, 1]),
        ] {
            let mut d = [1.0, 0.0].repeat(7);
            d[4..7].copy_from_slice(&block);
            ldlt.set_d(&d);
            let Inertia {
                positive,
                negative,
                zero,
            } = ldlt.inertia().unwrap();
            assert_eq!([positive - 5, negative, zero], expected, "{block:?}");
        }
        assert_eq!(factors.inertia(), Some(inertia_of(&[1; 7])));
    }
}

#[test]
fn another_d_is_that_of_another_matrix() {
    let cases = matrices().into_iter();
    for (a, options) in
        cases.flat_map(|a| on_both(&symmetric()).map(|options| (a.clone(), options)))
    {
        let factors = factorize(&a, options).unwrap();
        let (b, _) = known_solution(&a);
        let before = factors.solve(&b).unwrap().x;
        let mut ldlt = factors.ldlt().unwrap().unwrap();
        let mut plain = b.clone();
        ldlt.solve(&mut plain).unwrap();
        // Twice D is D of twice the matrix.
        let twice: Vec<f64> = ldlt.d().iter().map(|d| 2.0 * d).collect();
        ldlt.set_d(&twice);
        assert_eq!(ldlt.d(), twice);
        let mut x = b.clone();
        ldlt.solve(&mut x).unwrap();
        let halves: Vec<f64> = plain.iter().map(|v| v / 2.0).collect();
        assert_eq!(x, halves);
        // Blocks of order 2 where there were none, and none where there were.
        let n = a.rows();
        let mut d = vec![0.0; 2 * n];
        for i in 0..n {
            d[2 * i] = 3.0 + i as f64;
            if i % 3 == 0 && i + 1 < n {
                d[2 * i + 1] = 20.0;
            }
        }
        ldlt.set_d(&d);
        let mut x = b.clone();
        ldlt.solve_diagonal(&mut x).unwrap();
        assert_close(&times_d(ldlt.order(), &d, &x), &b, 1e-13);
        assert_eq!(
            factors.solve(&b).unwrap().x,
            before,
            "the factors keep their D"
        );
    }
}

#[test]
fn zero_pivots_are_read_as_zero() {
    // Of rank 2: the third row is the sum of the others.
    let mut a = TriMat::new((3, 3));
    for (i, row) in [[2.0, 1.0, 3.0], [1.0, 3.0, 4.0], [3.0, 4.0, 7.0]]
        .iter()
        .enumerate()
    {
        for (j, &v) in row.iter().enumerate() {
            a.add_triplet(i, j, v);
        }
    }
    let a: CsMat<f64> = a.to_csr();
    for options in on_both(&symmetric().singular(SingularAction::Continue)) {
        let factors = factorize(&a, options).unwrap();
        let ldlt = factors.ldlt().unwrap().unwrap();
        let zeros: Vec<usize> = (0..3).filter(|&i| ldlt.d()[2 * i] == 0.0).collect();
        assert_eq!((zeros.len(), ldlt.inertia().unwrap().zero), (1, 1));
        let mut x = [1.0, 1.0, 2.0];
        ldlt.solve(&mut x).unwrap();
        assert_close(&times(&a, &x), &[1.0, 1.0, 2.0], 1e-14);
    }
}

#[test]
fn parts_of_f32_are_f32() {
    on_both(&symmetric())
        .into_iter()
        .for_each(check_parts_of_f32);
}

fn check_parts_of_f32(options: Options) {
    let a = mirrored(&laplacian_2d(9, 8)).map(|&v| v as f32);
    let factors = Solver::new(options).unwrap().analyze(&a).unwrap();
    let factors = factors.factorize(&a).unwrap();
    let mut ldlt = factors.ldlt().unwrap().unwrap();
    let mut x = vec![1.0f32; a.rows()];
    ldlt.solve(&mut x).unwrap();
    for (i, row) in a.outer_iterator().enumerate() {
        let product: f32 = row.iter().map(|(j, v)| v * x[j]).sum();
        assert!((product - 1.0).abs() < 1e-3, "{product} in row {i}");
    }
    ldlt.set_d(
        &vec![f32::MIN_POSITIVE; 2 * a.rows()]
            .iter()
            .enumerate()
            .map(|(i, v)| if i % 2 == 0 { *v } else { 0.0 })
            .collect::<Vec<_>>(),
    );
    let before = vec![1e30f32; a.rows()];
    let mut x = before.clone();
    assert!(matches!(
        ldlt.solve(&mut x),
        Err(Error::SolutionNotFinite { .. })
    ));
    assert_eq!(x, before, "nothing is lost");
}

#[test]
fn general_matrices_have_no_parts() {
    let a = laplacian_2d(4, 4);
    for options in on_both(&Options::default().backend(BackendChoice::Cpu)) {
        for engine in [DeviceEngine::Tree, DeviceEngine::Columns] {
            let factors = factorize(&a, options.clone().device_engine(engine)).unwrap();
            assert!(factors.ldlt().unwrap().is_none());
            assert_eq!(factors.perturbed_columns(), None);
        }
    }
}

#[test]
fn right_hand_sides_of_parts_are_checked() {
    on_both(&symmetric())
        .into_iter()
        .for_each(check_right_hand_sides);
}

fn check_right_hand_sides(options: Options) {
    let a = mirrored(&laplacian_2d(3, 3));
    let factors = factorize(&a, options).unwrap();
    let ldlt = factors.ldlt().unwrap().unwrap();
    let mut x = vec![1.0; 18];
    x[11] = f64::NAN;
    type Solve<'a> = &'a dyn Fn(&mut [f64]) -> Result<(), Error>;
    let solves: [Solve<'_>; 4] = [
        &|x| ldlt.solve_lower(x),
        &|x| ldlt.solve_diagonal(x),
        &|x| ldlt.solve_upper(x),
        &|x| ldlt.solve(x),
    ];
    for solve in solves {
        assert!(matches!(
            solve(&mut x),
            Err(Error::RightHandSideNotFinite { row: 2, column: 1 })
        ));
    }
}

#[test]
#[should_panic(expected = "the right-hand sides have 10 entries; the matrix has order 9")]
fn parts_have_the_order_of_the_matrix() {
    let factors = factorize(&mirrored(&laplacian_2d(3, 3)), symmetric()).unwrap();
    let _ = factors.ldlt().unwrap().unwrap().solve_lower(&mut [1.0; 10]);
}

#[test]
#[should_panic(expected = "the block of order 2 at pivot 1 of D overlaps another one, or the end")]
fn blocks_of_d_do_not_overlap() {
    let factors = factorize(&mirrored(&laplacian_2d(3, 1)), symmetric()).unwrap();
    let mut ldlt = factors.ldlt().unwrap().unwrap();
    ldlt.set_d(&[1.0, 2.0, 1.0, 2.0, 1.0, 0.0]);
}

#[test]
#[should_panic(expected = "the block of order 2 at pivot 2 of D overlaps another one, or the end")]
fn blocks_of_d_end_with_it() {
    let factors = factorize(&mirrored(&laplacian_2d(3, 1)), symmetric()).unwrap();
    let mut ldlt = factors.ldlt().unwrap().unwrap();
    ldlt.set_d(&[1.0, 0.0, 1.0, 0.0, 1.0, 2.0]);
}

/// A system of an interior-point method, and the signs of its pivots.
fn kkt(n: usize, m: usize, shift: f64) -> (CsMat<f64>, Vec<i8>) {
    let a = mirrored(&interior_point_kkt(n, m, 1e-4, 3));
    let order = a.rows();
    let mut whole = TriMat::new(a.shape());
    for (&v, (i, j)) in &a {
        whole.add_triplet(i, j, v);
    }
    let sign = |i: usize| if i < n { 1 } else { -1 };
    for i in 0..order {
        whole.add_triplet(i, i, shift * f64::from(sign(i)));
    }
    (whole.to_csr(), (0..order).map(|i| sign(i) as i8).collect())
}

fn inertia_of(signs: &[i8]) -> Inertia {
    let positive = signs.iter().filter(|&&sign| sign > 0).count();
    Inertia {
        positive,
        negative: signs.len() - positive,
        zero: 0,
    }
}

#[test]
fn quasidefinite_systems_have_the_signs_that_are_expected() {
    let (a, signs) = kkt(90, 40, 1e-3);
    let (b, _) = known_solution(&a);
    let ran = [
        "numeric: multifrontal LDLT, pivots of expected signs",
        "numeric: fronts of LDLT up the forest, one launch, pivots of expected signs",
    ];
    let both = on_both(&signed(signs.clone(), 1e-12));
    for (options, ran) in both.into_iter().zip(ran) {
        let factors = factorize(&a, options).unwrap();
        let inform = factors.inform();
        assert_eq!(inform.num_perturbed, Some(0));
        assert_eq!((inform.num_delay, inform.num_two), (Some(0), Some(0)));
        assert_eq!(
            (inform.pivoting, inform.kind, inform.scaled),
            (Some("static"), "symmetric", false)
        );
        assert_eq!(inform.code_path.last(), Some(&ran));
        assert_eq!(factors.inertia(), Some(inertia_of(&signs)));
        assert_eq!(factors.perturbed_columns(), Some(vec![]));
        assert_backward_error(&a, &factors.solve(&b).unwrap().x, &b);
    }
}

#[test]
fn what_is_not_quasidefinite_is_regularized() {
    let (a, signs) = kkt(90, 40, 0.0);
    let (b, _) = known_solution(&a);
    // Zeros in place of the second block: where a constraint is eliminated before its unknowns, its pivot is zero.
    let cases = [
        (signed(signs.clone(), 1e-7), a.clone()),
        (signed(signs.clone(), 1e-7), triangle(&a, |i, j| i >= j)),
        (
            signed(signs.clone(), 1e-4).precision(FactorPrecision::Single),
            a.clone(),
        ),
    ];
    let both = |(options, a): (Options, CsMat<f64>)| on_both(&options).map(|o| (o, a.clone()));
    for (options, a) in cases.into_iter().flat_map(both) {
        let mut factors = factorize(&a, options).unwrap();
        let columns = factors.perturbed_columns().unwrap();
        assert!(!columns.is_empty() && columns.is_sorted());
        let count = columns.len();
        assert_eq!(factors.inform().num_perturbed, Some(count));
        let warned = Warning::PerturbedPivots {
            count,
            first_column: columns[0],
        };
        assert!(factors.inform().warnings.contains(&warned));
        assert_eq!(factors.inertia(), Some(inertia_of(&signs)));
        // Each of them has the number that it was replaced by.
        let ldlt = factors.ldlt().unwrap().unwrap();
        let delta = factors_delta(&factors);
        for (i, &column) in ldlt.order().iter().enumerate() {
            if columns.contains(&column) {
                let expected = f64::from(signs[column]) * delta;
                assert!((ldlt.d()[2 * i] - expected).abs() <= 1e-7 * delta);
            }
        }
        let solution = factors.solve(&b).unwrap();
        let whole = if a.nnz() < kkt(90, 40, 0.0).0.nnz() {
            mirrored(&a)
        } else {
            a.clone()
        };
        assert_backward_error(&whole, &solution.x, &b);
        // As often as one likes, with the same bits.
        for _ in 0..2 {
            factors.refactorize(&a).unwrap();
            assert_eq!(factors.perturbed_columns().as_ref(), Some(&columns));
            assert_eq!(factors.solve(&b).unwrap().x, solution.x);
        }
    }
}

fn factors_delta(factors: &Factors<f64>) -> f64 {
    if factors.inform().precision == "f32" {
        1e-4
    } else {
        1e-7
    }
}

#[test]
fn singular_systems_are_regularized() {
    // The third unknown is in no equation, and the last two equations are the same.
    let mut a = TriMat::new((5, 5));
    for (i, j, v) in [
        (0, 0, 2.0),
        (1, 1, 3.0),
        (3, 0, 1.0),
        (3, 1, 1.0),
        (4, 0, 1.0),
        (4, 1, 1.0),
    ] {
        a.add_triplet(i, j, v);
    }
    let a = mirrored(&a.to_csr());
    for options in on_both(&signed(vec![1, 1, 1, -1, -1], 1e-8)) {
        let mut factors = factorize(&a, options).unwrap();
        for _ in 0..2 {
            let columns = factors.perturbed_columns().unwrap();
            assert!(columns.contains(&2) && columns.len() >= 2, "{columns:?}");
            // A consistent system is solved.
            let b = times(&a, &[1.0, 2.0, 0.0, 3.0, 4.0]);
            let solution = factors.solve(&b).unwrap();
            assert_close(&times(&a, &solution.x), &b, 1e-12);
            let outcome = factors.refactorize(&a).unwrap();
            let is_reused = matches!(outcome, Refactorized::Reused { .. });
            assert!(is_reused, "{outcome:?}");
        }
    }
}

#[test]
fn wrong_signs_are_regularized_and_the_error_is_told() {
    // Positive definite, and all pivots are expected to be negative: nothing is left of the matrix, and what solves are
    // worth is measured.
    let a = mirrored(&laplacian_2d(9, 8));
    let n = a.rows();
    let (b, _) = known_solution(&a);
    let regularization = Regularization::new(vec![-1; n], 30.0).below(0.0);
    for options in on_both(&symmetric().regularization(Some(regularization))) {
        check_wrong_signs(&a, &b, options);
    }
}

fn check_wrong_signs(a: &CsMat<f64>, b: &[f64], options: Options) {
    let n = a.rows();
    let mut factors = factorize(a, options).unwrap();
    assert_eq!(factors.inertia(), Some(inertia_of(&vec![-1; n])));
    let stated = factors.inform().backward_error.unwrap();
    assert!(stated > 1e-8, "{stated:e}");
    let missed = |warnings: &[Warning]| {
        let mut warnings = warnings.iter();
        warnings.any(|warning| matches!(warning, Warning::TargetMissed { .. }))
    };
    assert!(missed(&factors.inform().warnings));
    let solution = factors.solve(b).unwrap();
    assert!(missed(&solution.inform.warnings));
    let error = normwise_backward_error(a, &solution.x, b);
    let stated = solution.inform.backward_error.unwrap();
    assert!(
        error <= 2.0 * stated,
        "{error:e} where {stated:e} is stated"
    );
    let mut x = b.to_vec();
    let accuracy = factors.solve_in_place(&mut x).unwrap();
    let error = normwise_backward_error(a, &x, b);
    assert!(error <= 2.0 * accuracy.backward_error.unwrap());
    // New values whose pivots are as they are expected.
    let negative = a.map(|v| -v);
    factors.refactorize(&negative).unwrap();
    assert_eq!(factors.perturbed_columns(), Some(vec![]));
    assert!(!missed(&factors.inform().warnings));
    factors.refactorize(a).unwrap();
    assert!(missed(&factors.inform().warnings));
}

#[test]
fn small_pivots_are_replaced_as_far_as_is_said() {
    let mut a = TriMat::new((4, 4));
    for (i, v) in [1e-3, -1e-3, 1e-9, -2.0].into_iter().enumerate() {
        a.add_triplet(i, i, v);
    }
    let a: CsMat<f64> = a.to_csr();
    let perturbed = |regularization| {
        let options = symmetric().regularization(Some(regularization));
        let columns = |options| factorize(&a, options).unwrap().perturbed_columns().unwrap();
        let [host, device] = on_both(&options).map(columns);
        assert_eq!(host, device);
        host
    };
    let signs = [1, 1, 1, -1];
    let with = |delta| Regularization::new(signs, delta);
    assert_eq!(perturbed(with(1e-6)), [1, 2]);
    assert_eq!(perturbed(with(1e-6).below(0.0)), [1]);
    assert_eq!(perturbed(with(1e-6).below(2e-9)), [1, 2]);
    assert_eq!(perturbed(with(1.0)), [0, 1, 2]);
    assert_eq!(perturbed(with(2.0)), [0, 1, 2, 3]);
}

#[test]
fn regularizations_are_checked() {
    let refused = |options: Options| match Solver::new(options).err() {
        Some(Error::InvalidOption { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let of = |regularization| symmetric().regularization(Some(regularization));
    let good = Regularization::new([1, -1], 1e-7);
    assert_eq!(
        refused(of(Regularization::new([1, 0], 1e-7))),
        "regularization.signs"
    );
    assert_eq!(
        refused(of(Regularization::new([1, i8::MIN], 1e-7))),
        "regularization.signs"
    );
    for delta in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        assert_eq!(
            refused(of(Regularization::new([1], delta))),
            "regularization.delta"
        );
    }
    for below in [-1e-300, 2e-7, f64::NAN] {
        assert_eq!(
            refused(of(good.clone().below(below))),
            "regularization.below"
        );
    }
    for kind in [
        MatrixKind::General,
        MatrixKind::PositiveDefinite,
        MatrixKind::Auto,
    ] {
        assert_eq!(refused(of(good.clone()).kind(kind)), "kind");
    }
    let threshold = Pivoting::Threshold { threshold: 0.1 };
    assert_eq!(refused(of(good.clone()).pivoting(threshold)), "pivoting");

    let a = mirrored(&laplacian_2d(3, 1));
    let error = factorize(&a, of(good.clone())).unwrap_err();
    assert!(
        matches!(error, Error::SignsLength { signs: 2, n: 3 }),
        "{error}"
    );
    let text = "the option regularization.signs has 2 signs; the matrix has order 3";
    assert_eq!(error.to_string(), text);
    let tiny = of(Regularization::new([1, 1, 1], 1e-60)).precision(FactorPrecision::Single);
    for options in on_both(&tiny) {
        let error = factorize(&a, options).unwrap_err();
        let is_delta = matches!(
            error,
            Error::InvalidOption {
                field: "regularization.delta",
                ..
            }
        );
        assert!(is_delta, "{error}");
    }
}

/// In the same order on both paths: without a search, that says what each pivot is.
#[test]
fn a_device_replaces_the_pivots_that_the_cpu_replaces() {
    let (mut replaced, mut all) = (0, 0);
    for case in 0..12u64 {
        let n = 1 + (case * 13 % 60) as usize;
        let sign = |i: usize| {
            if (i as u64 + case).is_multiple_of(3) {
                -1
            } else {
                1
            }
        };
        // Two of three pivots have the right sign, most of them, and none is so small that only rounding is left of others.
        let mut a = TriMat::new((n, n));
        for (&v, (i, j)) in &mirrored(&random_symmetric(n, 1 + (case % 4) as usize, case)) {
            a.add_triplet(i, j, v);
        }
        for i in (0..n).filter(|i| i % 3 > 0) {
            a.add_triplet(i, i, 6.0 * f64::from(sign(i)));
        }
        let a: CsMat<f64> = a.to_csr();
        let delta = [0.5, 2.0, 4.0][case as usize % 3];
        let regularization = Regularization::new((0..n).map(sign).collect::<Vec<_>>(), delta);
        let below = [1.0, 0.0][case as usize % 2] * delta;
        let options = symmetric()
            .ordering(OrderingOptions::default().method(Method::Amd))
            .regularization(Some(regularization.below(below)));
        let [host, device] = on_both(&options).map(|options| factorize(&a, options).unwrap());
        let columns = host.perturbed_columns().unwrap();
        assert_eq!(
            device.perturbed_columns().as_ref(),
            Some(&columns),
            "{case}"
        );
        assert_eq!(device.inertia(), host.inertia(), "{case}");
        let count = |factors: &Factors<f64>| {
            let inform = factors.inform();
            (inform.num_perturbed, inform.num_two, inform.num_delay)
        };
        assert_eq!(count(&device), count(&host));
        assert_eq!(count(&device).0, Some(columns.len()));
        replaced += columns.len();
        all += n;
    }
    let kept = all - replaced;
    assert!(4 * replaced > all && 4 * kept > all, "{replaced}, {kept}");
}

/// Beside the same factors of a definite matrix: what is expected of each pivot, and a list of those that were replaced.
#[test]
fn what_signs_take_on_a_device_is_predicted() {
    let a = mirrored(&laplacian_2d(12, 11));
    let n = a.rows() as u64;
    for (precision, bytes) in [(FactorPrecision::Matrix, 12), (FactorPrecision::Single, 8)] {
        let taken = |options: Options| {
            let ordering = OrderingOptions::default().scaling(false);
            let options = options.ordering(ordering).precision(precision);
            let [_, options] = on_both(&options);
            let inform = factorize(&a, options).unwrap().inform().clone();
            let [predicted, peak] = [inform.predicted_device_bytes, inform.peak_device_bytes];
            [predicted.unwrap(), peak.unwrap()]
        };
        let definite = taken(symmetric().kind(MatrixKind::PositiveDefinite));
        let regularized = taken(signed(vec![1; a.rows()], 1e-6));
        for (with, without) in regularized.into_iter().zip(definite) {
            assert_eq!(with - without, bytes * n);
        }
    }
}

/// A matrix with zeros on the diagonal, and an order that has them first: each is delayed to where its partner is.
fn with_delays() -> (CsMat<f64>, Options) {
    let a = darcy(12, 12, 2);
    let order: Vec<u32> = (0..a.rows() as u32).rev().collect();
    let method = Method::User {
        rows: luge::RowPerm::new(order.clone()).unwrap(),
        cols: luge::ColPerm::new(order).unwrap(),
    };
    let ordering = OrderingOptions::default().method(method);
    (mirrored(&a), symmetric().ordering(ordering))
}

#[test]
fn delays_are_limited_and_the_error_is_told() {
    let (a, options) = with_delays();
    let (b, _) = known_solution(&a);
    let delays = |factors: &Factors<f64>| factors.inform().num_delay.unwrap();
    let unlimited = factorize(&a, options.clone()).unwrap();
    assert_eq!(unlimited.perturbed_columns(), None);
    let mut last = delays(&unlimited);
    assert!(last > 100, "{last}");
    for max_delays in [20, 4, 1, 0] {
        for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
            let options = options
                .clone()
                .max_delays(Some(max_delays))
                .precision(precision);
            let mut factors = factorize(&a, options).unwrap();
            assert!(delays(&factors) <= last);
            if max_delays == 0 {
                assert_eq!(delays(&factors), 0);
            }
            let columns = factors.perturbed_columns().unwrap();
            assert_eq!(factors.inform().num_perturbed, Some(columns.len()));
            assert!(max_delays > 0 || !columns.is_empty());
            let solution = factors.solve(&b).unwrap();
            let error = normwise_backward_error(&a, &solution.x, &b);
            let stated = solution.inform.backward_error.unwrap();
            assert!(error <= 2.0 * stated + 1e-15, "{error:e}, {stated:e}");
            if precision == FactorPrecision::Matrix {
                assert!(stated <= 1e-12, "{max_delays}: {stated:e}");
                last = delays(&factors);
            }
            // Refactorizations do the same.
            factors.refactorize(&a).unwrap();
            assert_eq!(factors.perturbed_columns().as_ref(), Some(&columns));
            assert_eq!(factors.solve(&b).unwrap().x, solution.x);
        }
    }
}

/// What pivots are replaced by is what the option says, relative to the matrix.
#[test]
fn replaced_pivots_are_as_large_as_is_said() {
    let (a, options) = with_delays();
    let a = a.map(|v| 16.0 * v);
    let ordering = options.ordering.clone().matching(Matching::Never);
    let options = options
        .ordering(ordering.scaling(false))
        .max_delays(Some(0));
    let most = largest(a.data());
    let mut counts = Vec::new();
    for (perturbation, expected) in [
        (None, f64::EPSILON.sqrt()),
        (Some(1e-6), 1e-6),
        (Some(0.03125), 0.03125),
    ] {
        let factors = factorize(&a, options.clone().perturbation(perturbation)).unwrap();
        let columns = factors.perturbed_columns().unwrap();
        let ldlt = factors.ldlt().unwrap().unwrap();
        for (i, column) in ldlt.order().iter().enumerate() {
            if columns.contains(column) {
                assert_eq!(ldlt.d()[2 * i].abs(), expected * most);
            }
        }
        counts.push(columns.len());
    }
    assert!(counts[0] > 0 && counts[2] >= counts[0], "{counts:?}");
}

#[test]
fn limits_of_delays_are_checked() {
    let refused = |options: Options| match Solver::new(options).err() {
        Some(Error::InvalidOption { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let limited = symmetric().max_delays(Some(3));
    for kind in [
        MatrixKind::General,
        MatrixKind::PositiveDefinite,
        MatrixKind::Auto,
    ] {
        assert_eq!(refused(limited.clone().kind(kind)), "kind");
    }
    let singular = SingularAction::Continue;
    assert_eq!(refused(limited.clone().singular(singular)), "singular");
    let simulator = BackendChoice::Simulator { seed: 1 };
    assert_eq!(refused(limited.clone().backend(simulator)), "backend");
    assert_eq!(
        refused(limited.clone().perturbation(Some(2.0))),
        "perturbation"
    );
    // A GPU is not looked for.
    let a = mirrored(&laplacian_2d(3, 3));
    let factors = factorize(&a, limited.backend(BackendChoice::Auto)).unwrap();
    let inform = factors.inform();
    assert_eq!((inform.backend, &inform.warnings[..]), ("cpu", &[][..]));
}

/// Deltas are in terms of the matrix as it is, also where that is known later than the pattern.
#[test]
fn regularized_matrices_are_not_scaled() {
    let (a, signs) = kkt(40, 20, 0.0);
    let a = badly_scaled(&a);
    let delta = 1e-3;
    for options in on_both(&signed(signs.clone(), delta)) {
        let solver = Solver::new(options).unwrap();
        let of_pattern = solver.analyze_pattern(&a).unwrap();
        for analysis in [solver.analyze(&a).unwrap(), of_pattern] {
            let factors = analysis.factorize(&a).unwrap();
            let replaced = factors.perturbed_columns().unwrap();
            assert!(!replaced.is_empty());
            let ldlt = factors.ldlt().unwrap().unwrap();
            for (i, &column) in ldlt.order().iter().enumerate() {
                let d = ldlt.d()[2 * i] * f64::from(signs[column]);
                if replaced.contains(&column) {
                    assert_eq!(d, delta);
                } else {
                    assert!(d > delta, "{d}");
                }
            }
        }
    }
}

fn thresholds(factors: &mut Factors<f64>) -> Vec<f64> {
    std::iter::from_fn(|| factors.raise_threshold().unwrap()).collect()
}

#[test]
fn thresholds_are_raised_one_after_another() {
    let a = mirrored(&random_symmetric(300, 4, 6));
    let (b, _) = known_solution(&a);
    for (options, expected) in [
        (symmetric(), vec![0.1, 0.5]),
        (symmetric().kind(MatrixKind::General), vec![0.1, 1.0]),
        (signed(vec![1; 300], 1e3), vec![]),
    ] {
        let with = |threshold| {
            let pivoting = Pivoting::Threshold { threshold };
            factorize(&a, options.clone().pivoting(pivoting)).unwrap()
        };
        let mut factors = factorize(&a, options.clone()).unwrap();
        let first = factors.solve(&b).unwrap().x;
        for &threshold in &expected {
            assert_eq!(factors.raise_threshold().unwrap(), Some(threshold));
            let alone = with(threshold);
            // What is stated of one pass depends on the size of the matrix.
            let stated = |factors: &Factors<f64>| {
                let accuracy = factors.solve_in_place(&mut b.clone()).unwrap();
                (accuracy.backward_error, accuracy.is_measured)
            };
            assert_eq!(stated(&factors), stated(&alone));
            let (raised, alone) = (factors.solve(&b).unwrap(), alone.solve(&b).unwrap());
            assert_eq!(raised.x, alone.x);
            assert_eq!(raised.inform.growth, alone.inform.growth);
            assert_eq!(
                raised.inform.num_off_diagonal,
                alone.inform.num_off_diagonal
            );
        }
        let last = factors.solve(&b).unwrap().x;
        assert_eq!(last == first, expected.is_empty());
        assert_eq!(factors.raise_threshold().unwrap(), None);
        assert_eq!(factors.solve(&b).unwrap().x, last);
        // What follows keeps it.
        factors.refactorize(&a).unwrap();
        assert_eq!(factors.solve(&b).unwrap().x, last);
        assert!(thresholds(&mut factors).is_empty());
    }
}

#[test]
fn a_device_raises_the_threshold_of_symmetric_matrices() {
    let a = mirrored(&random_symmetric(60, 4, 6));
    let (b, _) = known_solution(&a);
    for (kind, expected) in [
        (MatrixKind::Symmetric, vec![0.1, 0.5]),
        (MatrixKind::PositiveDefinite, vec![]),
        (MatrixKind::General, vec![]),
    ] {
        let is_stored_half = kind == MatrixKind::Symmetric;
        let a = match kind {
            MatrixKind::PositiveDefinite => mirrored(&laplacian_2d(6, 5)),
            _ => a.clone(),
        };
        let b = if a.rows() == b.len() {
            b.clone()
        } else {
            vec![1.0; a.rows()]
        };
        let options = Options::default()
            .kind(kind)
            .backend(BackendChoice::Simulator { seed: 3 });
        if is_stored_half {
            let half = triangle(&a, |i, j| i >= j);
            let mut factors = factorize(&half, options.clone()).unwrap();
            assert_eq!(thresholds(&mut factors), expected);
            assert_backward_error(&a, &factors.solve(&b).unwrap().x, &b);
        }
        let mut factors = factorize(&a, options).unwrap();
        assert_eq!(thresholds(&mut factors), expected, "{kind:?}");
        assert_backward_error(&a, &factors.solve(&b).unwrap().x, &b);
        let twice = a.map(|v| 2.0 * v);
        factors.refactorize(&twice).unwrap();
        assert_backward_error(&twice, &factors.solve(&b).unwrap().x, &b);
        assert!(thresholds(&mut factors).is_empty());
    }
}

#[test]
fn pivots_are_searched_by_blocks_or_by_columns() {
    let a = mirrored(&triharmonic(12, 11));
    let n = a.rows();
    let (b, _) = known_solution(&a);
    let searched = [
        SymmetricPivoting::Blocks,
        SymmetricPivoting::BlocksAlone,
        SymmetricPivoting::Columns,
    ]
    .map(|method| {
        let options = symmetric()
            .ordering(OrderingOptions::default().matching(Matching::Never))
            .pivoting(Pivoting::Threshold { threshold: 0.5 })
            .symmetric_pivoting(method);
        let factors = factorize(&a, options).unwrap();
        assert_backward_error(&a, &factors.solve(&b).unwrap().x, &b);
        factors.inform().clone()
    });
    let second = searched
        .each_ref()
        .map(|inform| inform.num_second_pass.unwrap());
    let delays = searched.each_ref().map(|inform| inform.num_delay.unwrap());
    assert!(
        second[0] < n && second[1] <= second[0] && second[2] == n,
        "{second:?}"
    );
    assert!(delays[1] >= delays[0] && delays[0] > 0, "{delays:?}");
}

/// Whatever signs are expected of whatever matrix: what solves state is true.
#[test]
fn errors_of_regularized_solves_are_told() {
    let (mut solved, mut missed, mut perturbed) = (0, 0, 0);
    for case in 0..300u64 {
        let n = 1 + (case * 7 % 60) as usize;
        let a = mirrored(&random_symmetric(n, 1 + (case % 4) as usize, case));
        let sign = |i: usize| {
            if (i as u64 * 0x9e37 + case * 31) % 5 < 2 {
                -1
            } else {
                1
            }
        };
        let delta = 10f64.powi((case % 13) as i32 - 10);
        let below = [1.0, 0.0, 1e-6][case as usize % 3] * delta;
        let regularization = Regularization::new((0..n).map(sign).collect::<Vec<_>>(), delta);
        let mut options = symmetric().regularization(Some(regularization.below(below)));
        if case % 2 == 1 {
            options = options.precision(FactorPrecision::Single);
        }
        let solver = Solver::new(options).unwrap();
        let mut factors = match solver.analyze(&a).unwrap().factorize(&a) {
            Ok(factors) => factors,
            Err(Error::Overflow { .. } | Error::SolutionNotFinite { .. }) => continue,
            Err(error) => panic!("case {case}: {error}"),
        };
        for values in [1.0, -1.0] {
            let a = a.map(|v| values * v);
            if factors.refactorize(&a).is_err() {
                continue;
            }
            perturbed += factors.inform().num_perturbed.unwrap();
            let (b, _) = known_solution(&a);
            let told = |error: f64, stated: f64| {
                let is_told = error <= 1e-10 || error <= 10.0 * stated;
                assert!(is_told, "case {case}: {error:e} where {stated:e} is stated");
            };
            let Ok(solution) = factors.solve(&b) else {
                continue;
            };
            let stated = solution.inform.backward_error.unwrap();
            told(normwise_backward_error(&a, &solution.x, &b), stated);
            let mut x = b.clone();
            if let Ok(accuracy) = factors.solve_in_place(&mut x) {
                let stated = accuracy.backward_error.unwrap();
                told(normwise_backward_error(&a, &x, &b), stated);
            }
            solved += 1;
            missed += usize::from(stated > 1e-12);
        }
    }
    assert!(
        solved > 400 && missed > 50 && perturbed > 1000,
        "{solved} solved, {missed} of them badly, {perturbed} pivots replaced"
    );
}
