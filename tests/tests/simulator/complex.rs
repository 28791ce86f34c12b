//! Complex matrices with the tree of a device, against the CPU path: the same statements as for real ones.

use luge::{
    BackendChoice, DeviceEngine, Error, FactorPrecision, Factors, MatrixKind, Options, Pivoting,
    Refactorized, Regularization, Scalar, Solution, Solver,
};
use luge_kernel::math::Complex;
use luge_matrix_io::MatrixData;
use luge_ordering::{Matching, OrderingOptions};
use luge_sparse::Form;
use luge_testkit::convert::{to_scalar, turned, turned_in_form};
use luge_testkit::corpus::Corpus;
use luge_testkit::generators::applications::{
    circuit, convection_diffusion_2d, elasticity_3d, interior_point_kkt, saddle_point,
};
use luge_testkit::generators::families::COMPLEX_FAMILIES;
use luge_testkit::generators::frequency::{helmholtz, magnetic_lattice};
use luge_testkit::generators::mixed::random_symmetric;
use luge_testkit::residual::{known_solution, normwise_backward_error};
use sprs::{CsMat, TriMat};

use crate::chain::noise;
use crate::facade::{choices, is_gpu};

type C = Complex<f64>;

/// What every solution is held to.
const BOUND: f64 = 1e-13;

fn factorize<T: Scalar>(a: &CsMat<T>, options: &Options) -> Factors<T> {
    let solver = Solver::new(options.clone()).unwrap();
    solver.analyze(a).unwrap().factorize(a).unwrap()
}

fn uniform(seed: u64, i: usize) -> f64 {
    (noise(seed, i) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// A full matrix without structure, which needs exchanges of rows; of a form if that is wanted.
fn dense(n: usize, form: Option<Form>) -> CsMat<C> {
    let mut triplets = TriMat::new((n, n));
    for i in 0..n {
        for j in 0..n {
            let at = if form.is_some() {
                i.max(j) * n + i.min(j)
            } else {
                i * n + j
            };
            let entry = C::new(uniform(7, at), uniform(8, at));
            let entry = match form {
                Some(form) if i == j => form.on_diagonal(entry),
                Some(form) if i < j => form.counterpart(entry),
                _ => entry,
            };
            triplets.add_triplet(i, j, entry);
        }
    }
    triplets.to_csr()
}

/// The matrix at another frequency, about.
fn next(a: &CsMat<C>) -> CsMat<C> {
    a.map(|v| C::new(v.re, 1.1 * v.im))
}

fn check(a: &CsMat<C>, x: &[C], b: &[C], what: &str) {
    let error = normwise_backward_error(a, x, b);
    assert!(error <= BOUND, "{what}: backward error {error:e}");
}

/// Solves with A, Aᵀ and Aᴴ, for one right-hand side and for as many as one launch and several have.
fn check_solves(a: &CsMat<C>, factors: &Factors<C>) {
    check_solves_of(a, factors, &[3, 9, 17]);
}

/// As [`check_solves`], for `counts` of right-hand sides beside one.
fn check_solves_of(a: &CsMat<C>, factors: &Factors<C>, counts: &[usize]) {
    let transpose = a.transpose_view().to_csr();
    let adjoint = transpose.map(|v| v.conj());
    let (b, _) = known_solution(a);
    // Both by the test and by what the solver measures.
    let check_measured = |a: &CsMat<C>, solution: &Solution<C>, b: &[C], what: &str| {
        check(a, &solution.x, b, what);
        let claimed = solution.inform.backward_error.unwrap();
        assert!(claimed <= BOUND, "{what}: {claimed:e}");
    };
    check_measured(a, &factors.solve(&b).unwrap(), &b, "A");
    let (of_transpose, _) = known_solution(&transpose);
    let solution = factors.solve_transpose(&of_transpose).unwrap();
    check_measured(&transpose, &solution, &of_transpose, "its transpose");
    let (of_adjoint, _) = known_solution(&adjoint);
    let solution = factors.solve_adjoint(&of_adjoint).unwrap();
    check_measured(&adjoint, &solution, &of_adjoint, "its adjoint");
    let n = a.rows();
    for &nrhs in counts {
        let many: Vec<C> = (0..nrhs)
            .flat_map(|k| b.iter().map(move |v| v * C::new(1.0, k as f64)))
            .collect();
        let x = factors.solve_many(&many, nrhs).unwrap().x;
        for (x, b) in x.chunks(n).zip(many.chunks(n)) {
            check(a, x, b, "A for many");
        }
        let many = &of_transpose.repeat(nrhs);
        let x = factors.solve_transpose_many(many, nrhs).unwrap().x;
        for (x, b) in x.chunks(n).zip(many.chunks(n)) {
            check(&transpose, x, b, "its transpose for many");
        }
    }
    let mut x = b.clone();
    let accuracy = factors.solve_in_place(&mut x).unwrap();
    assert!(accuracy.backward_error.is_none_or(|error| error <= 1e-10));
    let error = normwise_backward_error(a, &x, &b);
    assert!(error <= 1e-11, "one pass: {error:e}");
}

/// Factorizes, solves, takes other values and the old ones again. The bits are those of a second run, and of general matrices
/// those of the first values where these come again: other values of a symmetric one may have other pivots, which are then kept.
fn check_matrix(a: &CsMat<C>, options: &Options) {
    let mut factors = factorize(a, options);
    assert_ne!(factors.inform().backend, "cpu");
    assert_eq!(factors.inform().precision, "complex f64");
    // How many right-hand sides there are is nothing to what the factors are of; the simulator takes more of them elsewhere.
    let counts: &[usize] = if is_gpu() { &[3, 9, 17] } else { &[3] };
    check_solves_of(a, &factors, counts);
    let (b, _) = known_solution(a);
    let of_first = factors.solve(&b).unwrap().x;
    assert_eq!(factorize(a, options).solve(&b).unwrap().x, of_first);
    let on_cpu = options
        .clone()
        .backend(BackendChoice::Cpu)
        .device_engine(DeviceEngine::Auto);
    let of_cpu = factorize(a, &on_cpu);
    let rcond = of_cpu.inform().rcond.unwrap_or(1e-8).max(1e-12);
    let x = of_cpu.solve(&b).unwrap().x;
    let size = x.iter().fold(0.0f64, |most, v| most.max(v.norm()));
    for (&one, &other) in of_first.iter().zip(&x) {
        let error = (one - other).norm();
        assert!(
            error <= 1e3 * f64::EPSILON / rcond * size,
            "{one} {other}, {rcond:e}"
        );
    }
    let (here, there) = (
        factors.determinant().unwrap().log10_abs(),
        of_cpu.determinant().unwrap().log10_abs(),
    );
    assert!((here - there).abs() <= 1e-6 * there.abs().max(1.0));
    let other = next(a);
    let refactorize = |factors: &mut Factors<C>, a: &CsMat<C>| {
        let outcome = factors.refactorize(a).unwrap();
        assert!(
            matches!(outcome, Refactorized::Reused { .. }),
            "{outcome:?}"
        );
    };
    refactorize(&mut factors, &other);
    check_solves_of(&other, &factors, counts);
    refactorize(&mut factors, a);
    let again = factors.solve(&b).unwrap().x;
    let expected = if factors.inform().kind == "general" {
        of_first
    } else {
        let mut second = factorize(a, options);
        refactorize(&mut second, &other);
        refactorize(&mut second, a);
        second.solve(&b).unwrap().x
    };
    assert_eq!(again, expected);
}

/// Circuits at a frequency, and waves.
fn families(n: usize) -> Vec<CsMat<C>> {
    let mut solve = |a: &CsMat<f64>, b: &[f64]| -> Option<Vec<f64>> {
        let options = Options::default().backend(BackendChoice::Cpu);
        let factors = Solver::new(options).ok()?.analyze(a).ok()?;
        Some(factors.factorize(a).ok()?.solve(b).ok()?.x)
    };
    COMPLEX_FAMILIES
        .iter()
        .map(|family| family.make(n, 2, &mut solve).unwrap())
        .collect()
}

#[test]
fn complex_families_solve_on_the_device() {
    let size = if is_gpu() { 20_000 } else { 60 };
    for (backend, a) in choices().into_iter().cycle().zip(families(size)) {
        check_matrix(&a, &Options::default().backend(backend));
    }
}

/// Small fronts, whole ones, tiles of one size and strips: full matrices around the sizes of tiles and of strips.
#[test]
fn complex_fronts_of_every_class() {
    let backend = choices()[0];
    for n in [1, 2, 16, 17, 64, 95, 96, 130] {
        check_matrix(&dense(n, None), &Options::default().backend(backend));
    }
    for n in [17, 70] {
        let a = dense(n, None);
        check_solves(&a, &factorize(&a, &Options::default().backend(backend)));
    }
    let waves = helmholtz([7, 6, 5], 6.0);
    check_matrix(&waves, &Options::default().backend(backend));
}

#[test]
fn very_large_complex_fronts_are_solved_by_strips() {
    let backend = choices()[0];
    // More right-hand sides than one launch has; other numbers of them are for smaller fronts.
    let (n, counts): (_, &[usize]) = if is_gpu() {
        (700, &[3, 9, 17])
    } else {
        (270, &[9])
    };
    let a = dense(n, None);
    let factors = factorize(&a, &Options::default().backend(backend));
    check_solves_of(&a, &factors, counts);
}

/// The numbers are those of the real path, with a part that is zero beside each, so pivots are chosen alike, and sums are the
/// same but for the rounding of reciprocals.
#[test]
fn a_real_matrix_given_as_complex_has_the_pivots_of_the_real_path() {
    let (backend, n) = (choices()[0], if is_gpu() { 500 } else { 40 });
    let full = dense(70, None).map(|v| v.re);
    for a in [circuit(n, 3), convection_diffusion_2d(9, 8, 3.0), full] {
        let options = Options::default().backend(backend);
        let real = factorize(&a, &options);
        let complex = factorize(&to_scalar::<C>(&a), &options);
        let of = |inform: &luge::Inform| {
            (
                inform.lnz,
                inform.unz,
                inform.num_perturbed,
                inform.num_off_diagonal,
            )
        };
        assert_eq!(of(complex.inform()), of(real.inform()));
        let growths = [complex.inform().growth, real.inform().growth].map(Option::unwrap);
        assert!((growths[0] / growths[1] - 1.0).abs() < 1e-10, "{growths:?}");
        let (b, _) = known_solution(&a);
        let of_real = real.solve(&b).unwrap().x;
        let b: Vec<C> = b.into_iter().map(C::from).collect();
        let of_complex = complex.solve(&b).unwrap().x;
        let largest = of_real.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        for (x, z) in of_real.iter().zip(&of_complex) {
            assert_eq!(z.im, 0.0);
            // Both are refined to the last bits but one.
            assert!(
                (z.re - x).abs() <= 2.0 * f64::EPSILON * largest,
                "{z} for {x}"
            );
        }
    }
}

/// Columns that find no pivot in their front are delayed.
#[test]
fn complex_pivots_are_searched_by_a_threshold() {
    let n = if is_gpu() { 3_000 } else { 80 };
    for backend in choices() {
        // Small diagonals, and large entries in the wrong places.
        let a = turned::<C>(&circuit(n, 5));
        let mut triplets = TriMat::new(a.shape());
        for (&v, (i, j)) in &a {
            let v = if i == j && i % 3 == 0 { v * 1e-14 } else { v };
            triplets.add_triplet(i, j, v);
        }
        let a = triplets.to_csr::<usize>();
        let mut options = Options::default()
            .backend(backend)
            .pivoting(Pivoting::Threshold { threshold: 0.1 });
        options.ordering = OrderingOptions::default().matching(Matching::Never);
        let factors = factorize(&a, &options);
        assert!(factors.inform().num_off_diagonal.is_some_and(|num| num > 0));
        check_solves(&a, &factors);
    }
}

#[test]
fn complex_symmetric_matrices_are_factorized_on_the_device() {
    let points = if is_gpu() { [20, 19, 18] } else { [6, 5, 4] };
    for (backend, a) in choices().into_iter().cycle().zip([
        helmholtz(points, 6.0),
        helmholtz([9, 8, 1], 8.0),
        dense(24, Some(Form::Symmetric)),
    ]) {
        let options = Options::default()
            .backend(backend)
            .kind(MatrixKind::Symmetric);
        check_matrix(&a, &options);
        let factors = factorize(&a, &options);
        assert_eq!(factors.inertia(), None);
    }
    let options = Options::default()
        .backend(choices()[0])
        .kind(MatrixKind::Symmetric);
    for n in [2, 17, 65, 130] {
        let a = dense(n, Some(Form::Symmetric));
        check_solves(&a, &factorize(&a, &options));
    }
}

/// As the CPU counts the eigenvalues.
fn check_inertia(a: &CsMat<C>, factors: &Factors<C>, options: &Options) {
    let on_cpu = factorize(a, &options.clone().backend(BackendChoice::Cpu));
    assert!(factors.inertia().is_some());
    assert_eq!(factors.inertia(), on_cpu.inertia());
    let determinant = factors.determinant().unwrap();
    assert_eq!(determinant.value().im, 0.0, "of a Hermitian matrix");
}

#[test]
fn hermitian_matrices_are_factorized_on_the_device() {
    let (nx, ny) = if is_gpu() { (90, 80) } else { (9, 8) };
    for (backend, a) in choices().into_iter().cycle().zip([
        magnetic_lattice([nx, ny], 0.2, 1.5),
        turned_in_form::<C>(&saddle_point(40, 15, 3), Form::Hermitian),
        dense(24, Some(Form::Hermitian)),
    ]) {
        let options = Options::default()
            .backend(backend)
            .kind(MatrixKind::Hermitian);
        check_matrix(&a, &options);
        check_inertia(&a, &factorize(&a, &options), &options);
    }
    let options = Options::default()
        .backend(choices()[0])
        .kind(MatrixKind::Hermitian);
    // Small fronts, whole ones, two and three tiles, and strips of solves.
    for n in [1, 17, 95, 130, 270] {
        let a = dense(n, Some(Form::Hermitian));
        let factors = factorize(&a, &options);
        check_inertia(&a, &factors, &options);
        if n < 200 || is_gpu() {
            check_solves(&a, &factors);
            continue;
        }
        let (b, _) = known_solution(&a);
        check(&a, &factors.solve(&b).unwrap().x, &b, "by strips");
        let x = factors.solve_many(&b.repeat(9), 9).unwrap().x;
        check(&a, &x[8 * n..], &b, "by strips for many");
    }
    // Nobody says what it is.
    let a = magnetic_lattice([7, 6], 0.2, 1.5);
    let factors = factorize(&a, &options.kind(MatrixKind::Auto));
    assert_eq!(factors.inform().kind, "Hermitian");
}

/// Of each triangle, stored by rows and by columns, entries and counterparts come to the right places, in the factors and in
/// the residuals.
#[test]
fn a_hermitian_triangle_is_completed_on_the_device() {
    let whole = turned_in_form::<C>(&saddle_point(30, 12, 5), Form::Hermitian);
    let n = whole.rows();
    for keeps_lower in [true, false] {
        let mut triplets = TriMat::new((n, n));
        for (&v, (i, j)) in &whole {
            if i == j || (i > j) == keeps_lower {
                triplets.add_triplet(i, j, v);
            }
        }
        for triangle in [triplets.to_csr::<usize>(), triplets.to_csc()] {
            let options = Options::default()
                .backend(choices()[0])
                .kind(MatrixKind::Hermitian);
            let mut factors = factorize(&triangle, &options);
            check_solves(&whole, &factors);
            let outcome = factors.refactorize(&next(&triangle)).unwrap();
            assert!(matches!(outcome, Refactorized::Reused { .. }));
            check_solves(&next(&whole), &factors);
        }
    }
}

/// Zero blocks on the diagonal: columns are delayed, and come to other places across the diagonal.
#[test]
fn hermitian_pivots_are_delayed_on_the_device() {
    let mut num_delayed = 0;
    let (n, m) = if is_gpu() { (3_000, 1_400) } else { (60, 28) };
    for (seed, backend) in (1..).zip(choices()) {
        let mut options = Options::default()
            .backend(backend)
            .kind(MatrixKind::Hermitian);
        options.ordering = OrderingOptions::default().matching(Matching::Never);
        for a in [
            interior_point_kkt(n, m, 1e-7, seed),
            random_symmetric(n, 4, seed),
        ] {
            // A diagonal that serves nobody.
            let a = turned_in_form::<C>(&a, Form::Hermitian);
            let mut triplets = TriMat::new(a.shape());
            for (&v, (i, j)) in &a {
                let v = if i == j && i % 2 == 0 { v * 1e-13 } else { v };
                triplets.add_triplet(i, j, v);
            }
            let a = triplets.to_csr::<usize>();
            let factors = factorize(&a, &options);
            num_delayed += factors.inform().num_delay.unwrap();
            check_solves(&a, &factors);
            check_inertia(&a, &factors, &options);
        }
    }
    assert!(num_delayed > 0, "no column was delayed");
}

#[test]
fn positive_definite_hermitian_matrices_have_cholesky_on_the_device() {
    let options = Options::default()
        .backend(choices()[0])
        .kind(MatrixKind::PositiveDefinite);
    for a in [
        turned_in_form::<C>(&elasticity_3d(2, 2, 2, 1), Form::Hermitian),
        magnetic_lattice([9, 7], 0.2, 0.0),
    ] {
        let mut factors = factorize(&a, &options);
        check_solves(&a, &factors);
        let twice = a.map(|v| v * 2.0);
        let outcome = factors.refactorize(&twice).unwrap();
        assert!(matches!(outcome, Refactorized::Reused { .. }));
        check_solves(&twice, &factors);
        check_inertia(&twice, &factors, &options);
        let inform = factors.inform();
        assert_eq!(
            (inform.kind, inform.num_neg),
            ("positive definite", Some(0))
        );
    }
    let refused = Solver::new(options).unwrap();
    let a = magnetic_lattice([11, 9], 0.2, 2.7);
    match refused.analyze(&a).unwrap().factorize(&a) {
        Err(Error::NotPositiveDefinite { .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// L, D and Lᴴ one after the other are the whole.
#[test]
fn hermitian_factors_are_solved_with_apart() {
    let options = Options::default()
        .backend(choices()[0])
        .kind(MatrixKind::Hermitian);
    for a in [
        turned_in_form::<C>(&saddle_point(40, 15, 3), Form::Hermitian),
        dense(100, Some(Form::Hermitian)),
    ] {
        let factors = factorize(&a, &options);
        let mut ldlt = factors.ldlt().unwrap().unwrap();
        let (b, _) = known_solution(&a);
        let mut x = b.clone();
        ldlt.solve_lower(&mut x).unwrap();
        ldlt.solve_diagonal(&mut x).unwrap();
        ldlt.solve_upper(&mut x).unwrap();
        let error = normwise_backward_error(&a, &x, &b);
        assert!(error <= 1e-11, "{error:e}");
        let d = ldlt.d().to_vec();
        assert!(d.iter().step_by(2).all(|d| d.im == 0.0));
        assert!(d.iter().skip(1).step_by(2).any(|e| e.im != 0.0));
        ldlt.set_d(&d);
    }
}

/// Level after level, with updates in any order and in one.
#[test]
fn complex_columns_are_factorized_on_the_device() {
    let (n, points) = if is_gpu() {
        (2_000, [30, 29, 1])
    } else {
        (60, [6, 5, 1])
    };
    for (backend, a) in choices().into_iter().cycle().zip([
        turned::<C>(&circuit(n, 3)),
        helmholtz(points, 6.0),
        turned::<C>(&convection_diffusion_2d(9, 8, 3.0)),
    ]) {
        let options = Options::default()
            .backend(backend)
            .device_engine(DeviceEngine::Columns);
        check_solves_of(&a, &factorize(&a, &options), &[3]);
        let mut ordered = options;
        ordered.device_columns.numeric.deterministic = true;
        check_matrix(&a, &ordered);
    }
}

/// With the real path's numbers, and a part that is zero beside each.
#[test]
fn a_real_matrix_given_as_complex_has_the_columns_of_the_real_path() {
    let mut options = Options::default()
        .backend(choices()[0])
        .device_engine(DeviceEngine::Columns);
    options.device_columns.numeric.deterministic = true;
    let a = circuit(60, 3);
    let (real, complex) = (
        factorize(&a, &options),
        factorize(&to_scalar::<C>(&a), &options),
    );
    let of = |inform: &luge::Inform| (inform.lnz, inform.num_perturbed, inform.growth);
    assert_eq!(of(complex.inform()), of(real.inform()));
    let (b, _) = known_solution(&a);
    let mut x = b.clone();
    real.solve_in_place(&mut x).unwrap();
    let mut z: Vec<C> = b.into_iter().map(C::from).collect();
    complex.solve_in_place(&mut z).unwrap();
    let widened: Vec<C> = x.into_iter().map(C::from).collect();
    assert_eq!(z, widened);
}

/// Factors of 32 bits a component, refined to what those of 64 have: LU by both engines, LDLᵀ, LDLᴴ and Cholesky.
#[test]
fn complex_factors_in_single_precision_are_refined_on_the_device() {
    let n = if is_gpu() { 3_000 } else { 60 };
    let single = |kind| {
        Options::default()
            .kind(kind)
            .precision(FactorPrecision::Single)
    };
    let columns = single(MatrixKind::General).device_engine(DeviceEngine::Columns);
    let general = || single(MatrixKind::General).device_engine(DeviceEngine::Tree);
    let hermitian = |a: &CsMat<f64>| turned_in_form::<C>(a, Form::Hermitian);
    // Small fronts, whole ones, tiles and strips; pivots that are searched, delayed and of order 2.
    let cases = [
        (general(), turned::<C>(&circuit(n, 3))),
        (general(), dense(96, None)),
        (general(), dense(150, None)),
        (columns, turned::<C>(&circuit(n, 3))),
        (single(MatrixKind::Symmetric), helmholtz([6, 5, 4], 6.0)),
        (
            single(MatrixKind::Symmetric),
            dense(130, Some(Form::Symmetric)),
        ),
        (
            single(MatrixKind::Hermitian),
            hermitian(&saddle_point(40, 15, 3)),
        ),
        (
            single(MatrixKind::Hermitian),
            dense(150, Some(Form::Hermitian)),
        ),
        (
            single(MatrixKind::PositiveDefinite),
            hermitian(&elasticity_3d(2, 2, 2, 1)),
        ),
    ];
    for (backend, (options, a)) in choices().into_iter().cycle().zip(cases) {
        let options = options.backend(backend);
        let mut factors = factorize(&a, &options);
        assert_ne!(factors.inform().backend, "cpu");
        assert_eq!(factors.inform().precision, "complex f32");
        let (b, _) = known_solution(&a);
        check(&a, &factors.solve(&b).unwrap().x, &b, "A");
        let x = factors.solve_many(&b.repeat(3), 3).unwrap().x;
        check(&a, &x[2 * a.rows()..], &b, "A for three");
        let adjoint = a.transpose_view().to_csr().map(|v: &C| v.conj());
        let (b, _) = known_solution(&adjoint);
        check(&adjoint, &factors.solve_adjoint(&b).unwrap().x, &b, "Aᴴ");
        // One pass is as good as the factors.
        let mut x = b.clone();
        factors.solve_in_place(&mut x).unwrap();
        assert_ne!(x, factors.solve(&b).unwrap().x);
        let inertia = factors.inertia();
        assert_eq!(
            inertia,
            factorize(
                &a,
                &options
                    .backend(BackendChoice::Cpu)
                    .device_engine(DeviceEngine::Auto)
            )
            .inertia()
        );
        let other = a.map(|v| v * 1.5);
        factors.refactorize(&other).unwrap();
        let (b, _) = known_solution(&other);
        check(&other, &factors.solve(&b).unwrap().x, &b, "other values");
    }
}

/// What callers give in 32 bits comes back in them.
#[test]
fn complex_matrices_of_single_precision_solve_on_the_device() {
    let a = helmholtz([6, 5, 4], 6.0).map(|v| Complex::new(v.re as f32, v.im as f32));
    for kind in [MatrixKind::General, MatrixKind::Symmetric] {
        let options = Options::default().backend(choices()[0]).kind(kind);
        let factors = factorize(&a, &options);
        assert_eq!(factors.inform().precision, "complex f32");
        let (b, _) = known_solution(&a);
        let x = factors.solve(&b).unwrap().x;
        assert!(normwise_backward_error(&a, &x, &b) <= 1e-6);
    }
}

/// Pivots that have not the sign that is expected of them are replaced, and those that are named are those of the CPU.
#[test]
fn hermitian_pivots_of_expected_signs_are_factorized_on_the_device() {
    let (n, m) = if is_gpu() { (600, 250) } else { (40, 17) };
    let signs = |positive: usize, negative: usize| {
        let mut signs = vec![1i8; positive];
        signs.extend(vec![-1; negative]);
        signs
    };
    let quasidefinite = interior_point_kkt(n, m, 1e-3, 4);
    let of = |a: &CsMat<f64>| turned_in_form::<C>(a, Form::Hermitian);
    // The second has a pivot in six of the wrong sign; the third fronts of every class; the last is a full one.
    let cases = [
        (of(&quasidefinite), signs(n, m), 1e-6, 0),
        (
            of(&quasidefinite),
            (0..n + m)
                .map(|i| if i % 6 == 0 { -1 } else { 1 })
                .collect(),
            1e3,
            1,
        ),
        (dense(130, Some(Form::Hermitian)), signs(65, 65), 50.0, 1),
    ];
    for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
        for (a, signs, delta, least) in &cases {
            let options = Options::default()
                .backend(choices()[0])
                .kind(MatrixKind::Hermitian)
                .precision(precision)
                .regularization(Some(Regularization::new(signs.clone(), *delta)));
            let factors = factorize(a, &options);
            assert_ne!(factors.inform().backend, "cpu");
            let on_cpu = factorize(a, &options.clone().backend(BackendChoice::Cpu));
            let perturbed = factors.perturbed_columns().unwrap();
            assert!(perturbed.len() >= *least);
            assert_eq!(Some(perturbed), on_cpu.perturbed_columns());
            assert_eq!(factors.inertia(), on_cpu.inertia());
            let positive = signs.iter().filter(|&&sign| sign > 0).count();
            assert_eq!(factors.inertia().unwrap().positive, positive);
        }
    }
}

#[test]
fn small_complex_matrices_of_the_corpus_solve_on_the_device() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    // Nothing of the kernels depends on the matrix but what one right-hand side shows.
    let (most, counts): (_, &[usize]) = if is_gpu() {
        (u64::MAX, &[3, 9, 17])
    } else {
        (1_000, &[])
    };
    let mut names = Vec::new();
    for entry in corpus.entries() {
        let small = entry.header.is_some_and(|header| header.nrows <= most);
        if !small || !entry.is_square_complex() {
            continue;
        }
        let expected = entry.expectations();
        if !expected.contains(&luge_testkit::corpus::Expectation::Solves) {
            continue;
        }
        let MatrixData::Complex(a) = entry.read().unwrap().data else {
            panic!("{} is not complex", entry.name)
        };
        let options = Options::default().backend(choices()[0]);
        check_solves_of(&a, &factorize(&a, &options), counts);
        if a.transpose_view().to_csr() == a {
            let options = options.kind(MatrixKind::Symmetric);
            check_solves_of(&a, &factorize(&a, &options), counts);
        }
        names.push(entry.name.clone());
    }
    for name in ["young1c", "qc324", "dwg961b"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
}

/// A sweep of frequencies: one analysis, a system for each frequency, and data that stays on the device as pairs of numbers.
#[test]
fn a_sweep_of_frequencies_is_a_batch() {
    let [size, width] = if is_gpu() { [2_000, 40] } else { [60, 9] };
    // Small fronts alone, and large ones above them.
    let matrices = [circuit(size, 4), convection_diffusion_2d(width, width, 1.0)];
    for backend in choices() {
        for matrix in &matrices {
            check_sweep(&turned::<C>(matrix), Options::default().backend(backend));
        }
    }
}

fn check_sweep(a: &CsMat<C>, options: Options) {
    let count = if is_gpu() { 64 } else { 5 };
    let at = |k: usize| a.map(|v| C::new(v.re, v.im * (1.0 + 0.1 * k as f64)));
    let systems: Vec<CsMat<C>> = (0..count).map(at).collect();
    let values: Vec<C> = systems.iter().flat_map(|a| a.data().to_vec()).collect();
    let solver = Solver::new(options).unwrap();
    let analysis = solver.analyze(a).unwrap();
    let mut batch = analysis.factorize_batch(&values, count).unwrap();
    let n = a.rows();
    let (b, _) = known_solution(a);
    let sides = b.repeat(count);
    let solutions = batch.solve(&sides, 1);
    for (a, solution) in systems.iter().zip(&solutions) {
        check(a, &solution.as_ref().unwrap().x, &b, "a system of a batch");
    }
    // Each has the bits that it has alone.
    let mut alone = analysis.factorize(&systems[1]).unwrap();
    let x = alone.solve(&b).unwrap().x;
    assert_eq!(x, solutions[1].as_ref().unwrap().x);

    let stream = solver.stream().unwrap();
    let pairs = |numbers: &[C]| -> Vec<f64> { numbers.iter().flat_map(|v| [v.re, v.im]).collect() };
    let turned_values: Vec<C> = values.iter().map(|v| v * C::new(0.5, 1.0)).collect();
    let there = stream.upload(&pairs(&turned_values)).unwrap();
    for outcome in batch.refactorize_on_device(&there).unwrap() {
        assert!(
            matches!(outcome, Ok(Refactorized::Reused { .. })),
            "{outcome:?}"
        );
    }
    let mut x = stream.upload(&pairs(&sides)).unwrap();
    for accuracy in batch.solve_on_device(&mut x, 1, false).unwrap() {
        accuracy.unwrap();
    }
    let x = stream.download(&x).unwrap();
    let x: Vec<C> = x.chunks(2).map(|pair| C::new(pair[0], pair[1])).collect();
    for ((a, x), b) in systems.iter().zip(x.chunks(n)).zip(sides.chunks(n)) {
        let a = a.map(|v| v * C::new(0.5, 1.0));
        let error = normwise_backward_error(&a, x, b);
        assert!(error <= 1e-11, "{error:e}");
    }
    let (nnz, second) = (a.nnz(), n..2 * n);
    alone
        .refactorize_values(&turned_values[nnz..2 * nnz])
        .unwrap();
    let mut single = stream.upload(&pairs(&b)).unwrap();
    alone.solve_on_device(&mut single, 1, false).unwrap();
    assert_eq!(stream.download(&single).unwrap(), pairs(&x[second]));
}

/// Values and vectors on the device, as pairs of numbers.
#[test]
fn complex_data_on_the_device_is_pairs_of_numbers() {
    for backend in choices() {
        let a = helmholtz([6, 5, 4], 7.0);
        let solver = Solver::new(Options::default().backend(backend)).unwrap();
        let mut factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
        let stream = solver.stream().unwrap();
        let pairs =
            |numbers: &[C]| -> Vec<f64> { numbers.iter().flat_map(|v| [v.re, v.im]).collect() };
        let other = next(&a);
        let values = stream.upload(&pairs(other.data())).unwrap();
        let outcome = factors.refactorize_on_device(&values).unwrap();
        assert!(matches!(outcome, Refactorized::Reused { .. }));
        for transpose in [false, true] {
            let of = if transpose {
                other.transpose_view().to_csr()
            } else {
                other.clone()
            };
            let (b, _) = known_solution(&of);
            let sides = stream.upload(&pairs(&b.repeat(3))).unwrap();
            let mut x = stream.alloc(sides.len()).unwrap();
            let inform = factors
                .solve_refined_on_device(&sides, &mut x, 3, transpose)
                .unwrap();
            assert!(inform.backward_error.unwrap() <= BOUND);
            let found = stream.download(&x).unwrap();
            let found: Vec<C> = found.chunks(2).map(|p| C::new(p[0], p[1])).collect();
            for x in found.chunks(a.rows()) {
                check(&of, x, &b, "a solution on the device");
            }
        }
        let whole = stream.alloc_zeroed(2 * a.nnz() - 1).unwrap();
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            factors.refactorize_on_device(&whole)
        }));
        assert!(refused.is_err(), "half a number was taken");
    }
}
