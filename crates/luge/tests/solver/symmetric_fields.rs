//! What the solver promises of real symmetric, complex symmetric and Hermitian matrices alike, on the CPU.

use luge::ordering::Matching;
use luge::sprs::{CsMat, TriMat};
use luge::{
    Error, FactorPrecision, MatrixKind, MatrixRef, Options, Refactorized, Regularization, Scalar,
    SingularAction, Solution, Solver, Warning,
};
use luge_sparse::Form;
use luge_testkit::convert::{to_scalar, turned_in_form};
use luge_testkit::generators::applications::{
    elasticity_3d, interior_point_kkt, laplacian_2d, saddle_point,
};
use luge_testkit::generators::frequency::{helmholtz, magnetic_lattice};
use luge_testkit::generators::mixed::{random_symmetric, stokes, triharmonic};
use luge_testkit::residual::{assert_backward_error, known_solution, normwise_backward_error};
use nalgebra::DMatrix;

use crate::fields::{C, check_all_solves, factorize, on_cpu};

/// The kind of indefinite matrices of this form.
fn kind(form: Form) -> MatrixKind {
    match form {
        Form::Symmetric => MatrixKind::Symmetric,
        Form::Hermitian => MatrixKind::Hermitian,
    }
}

fn of_form(form: Form) -> Options {
    on_cpu().kind(kind(form))
}

/// Real matrices that others of the same singular values, and in Hermitian form of the same eigenvalues, are made of.
fn real_matrices() -> Vec<(&'static str, CsMat<f64>)> {
    vec![
        ("laplacian", laplacian_2d(13, 12)),
        ("saddle point", saddle_point(120, 50, 2)),
        ("interior point", interior_point_kkt(90, 40, 1e-4, 3)),
        ("stokes", stokes(8, 9)),
        ("triharmonic", triharmonic(9, 8)),
        ("random", random_symmetric(150, 5, 6)),
        ("badly scaled", badly_scaled(&saddle_point(60, 25, 2))),
        ("one", laplacian_2d(1, 1)),
    ]
}

/// Rows and columns times powers of ten.
fn badly_scaled(a: &CsMat<f64>) -> CsMat<f64> {
    let factor = |i: usize| 10f64.powi((i % 17) as i32 - 8);
    let mut scaled = TriMat::new(a.shape());
    for (&v, (i, j)) in a {
        scaled.add_triplet(i, j, v * (factor(i) * factor(j)));
    }
    scaled.to_csr()
}

/// The entries that are kept.
fn part<T: Scalar>(a: &CsMat<T>, is_kept: impl Fn(usize, usize) -> bool) -> CsMat<T> {
    let mut part = TriMat::new(a.shape());
    for (&v, (i, j)) in a.iter().filter(|&(_, (i, j))| is_kept(i, j)) {
        part.add_triplet(i, j, v);
    }
    part.to_csr()
}

fn dense<T: Scalar>(a: &CsMat<T>) -> DMatrix<C> {
    let mut dense = DMatrix::zeros(a.rows(), a.cols());
    for (&v, (i, j)) in a {
        dense[(i, j)] = to_complex(v);
    }
    dense
}

fn to_complex<T: Scalar>(v: T) -> C {
    let (mut parts, mut at) = ([0.0; 2], 0);
    v.widen().map_components(|part| {
        parts[at] = part;
        at += 1;
        part
    });
    C::new(parts[0], parts[1])
}

fn norm<T: Scalar>(x: &[T]) -> f64 {
    x.iter().map(|&v| to_complex(v).norm()).fold(0.0, f64::max)
}

fn difference<T: Scalar>(x: &[T], y: &[T]) -> f64 {
    let parts = x.iter().zip(y).map(|(&x, &y)| x - y);
    norm(&parts.collect::<Vec<_>>())
}

/// How far two solutions may be from each other, relative to their size: each is that of a matrix and a right-hand side that
/// differ by its backward error.
fn error_bound<T: Scalar, S: Scalar, U: Scalar>(
    a: &CsMat<T>,
    solutions: (&Solution<S>, &Solution<U>),
) -> f64 {
    let norm_of = |m: &DMatrix<C>| {
        let sums = m
            .row_iter()
            .map(|row| row.iter().map(|v| v.norm()).sum::<f64>());
        sums.fold(0.0, f64::max)
    };
    let matrix = dense(a);
    let inverse = matrix.clone().try_inverse().unwrap();
    let condition = norm_of(&matrix) * norm_of(&inverse);
    let errors = [
        solutions.0.inform.backward_error,
        solutions.1.inform.backward_error,
    ];
    // Backward errors of complex systems are told by other norms, within a factor of √2 above and below.
    4.0 * (errors.map(|error| error.unwrap()).iter().sum::<f64>() + 2.0 * f64::EPSILON) * condition
}

/// Tests that are run over the real numbers and in both forms over the complex ones, those of the module `over`.
macro_rules! in_all_forms {
    ($($test:ident)*) => {$(
        #[test]
        fn $test() {
            over::$test::<f64>(Form::Symmetric);
            over::$test::<C>(Form::Symmetric);
            over::$test::<C>(Form::Hermitian);
        }
    )*};
}

in_all_forms! {
    every_solve_is_that_of_the_matrix_and_counts_are_reported
    solutions_are_those_of_lu
    either_triangle_is_the_whole_matrix
    what_has_no_counterpart_is_named
    kinds_are_found_by_the_values
    the_parts_are_the_factors
    determinants_are_those_of_lu
    new_values_take_the_old_order_and_the_batch_has_the_same_bits
    singular_systems_are_refused_or_solved_if_they_are_consistent
    delays_may_be_limited
}

mod over {
    use super::*;

    pub fn every_solve_is_that_of_the_matrix_and_counts_are_reported<T: Scalar>(form: Form) {
        let has_signs = T::COMPONENTS == 1 || form == Form::Hermitian;
        for (name, real) in real_matrices() {
            let expected = factorize(&real, of_form(Form::Symmetric))
                .unwrap()
                .inertia();
            let a = turned_in_form::<T>(&real, form);
            for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
                let options = of_form(form).precision(precision);
                let factors = factorize(&a, options).unwrap_or_else(|e| panic!("{name}: {e}"));
                check_all_solves(&a, &factors);
                assert_eq!(factors.inertia(), expected.filter(|_| has_signs), "{name}");
                let inform = factors.inform();
                assert_eq!(
                    inform.kind,
                    if form == Form::Hermitian {
                        "Hermitian"
                    } else {
                        "symmetric"
                    }
                );
                assert_eq!(inform.rank, Some(a.rows()));
                assert_eq!(inform.num_neg.is_some(), has_signs);
                assert_eq!(inform.pivoting, Some("threshold"));
                assert!(inform.rcond.is_none_or(|rcond| rcond <= 1.0), "{name}");
                let (b, _) = known_solution(&a);
                let mut x = [b.clone(), b.clone()].concat();
                let stated = factors
                    .solve_in_place(&mut x)
                    .unwrap()
                    .backward_error
                    .unwrap();
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

    pub fn solutions_are_those_of_lu<T: Scalar>(form: Form) {
        for (name, real) in real_matrices() {
            let a = turned_in_form::<T>(&real, form);
            let (b, _) = known_solution(&a);
            let of_lu = factorize(&a, on_cpu()).unwrap().solve(&b).unwrap();
            let of_ldlt = factorize(&a, of_form(form)).unwrap().solve(&b).unwrap();
            let bound = error_bound(&a, (&of_lu, &of_ldlt));
            let found = difference(&of_lu.x, &of_ldlt.x) / norm(&of_lu.x);
            assert!(found <= bound, "{name}: {found:e}, at most {bound:e}");
        }
    }

    pub fn either_triangle_is_the_whole_matrix<T: Scalar>(form: Form) {
        for real in [saddle_point(120, 50, 2), random_symmetric(150, 5, 6)] {
            let a = turned_in_form::<T>(&real, form);
            let (b, _) = known_solution(&a);
            let solved = |a: &CsMat<T>| {
                let factors = factorize(a, of_form(form)).unwrap();
                let [x, y] = [factors.solve(&b), factors.solve_transpose(&b)].map(|s| s.unwrap().x);
                (
                    x,
                    y,
                    factors.inertia(),
                    factors.ldlt().unwrap().unwrap().d().to_vec(),
                )
            };
            let whole = solved(&a);
            assert_backward_error(&a, &whole.0, &b);
            for by_columns in [false, true] {
                for triangle in [part(&a, |i, j| i >= j), part(&a, |i, j| i <= j)] {
                    let triangle = if by_columns {
                        triangle.to_csc()
                    } else {
                        triangle
                    };
                    let found = solved(&triangle);
                    assert!(found == whole, "the same values, factors and solutions");
                }
            }
            assert_eq!(solved(&a.to_csc()).3, whole.3);
        }
    }

    pub fn what_has_no_counterpart_is_named<T: Scalar>(form: Form) {
        let a = turned_in_form::<T>(&saddle_point(40, 20, 2), form);
        let solver = Solver::new(of_form(form)).unwrap();
        let analysis = solver.analyze(&a).unwrap();
        let is_named = |error: Error, place: [usize; 2]| {
            let found = match (form, error) {
                (Form::Symmetric, Error::NotSymmetric { row, column })
                | (Form::Hermitian, Error::NotHermitian { row, column }) => [row, column],
                (_, other) => panic!("{other}"),
            };
            assert!(
                found == place || found == [place[1], place[0]],
                "{found:?} for {place:?}"
            );
        };
        let largest = norm(a.data());
        let mut other = a.clone();
        let p = a.iter().position(|(_, (i, j))| i > j + 5).unwrap();
        let (_, (i, j)) = a.iter().nth(p).unwrap();
        other.data_mut()[p] += T::narrow(T::Wide::from_real(1e-9 * largest));
        is_named(solver.analyze(&other).unwrap_err(), [i, j]);
        is_named(analysis.factorize(&other).unwrap_err(), [i, j]);
        if form == Form::Hermitian {
            // The imaginary part of a diagonal, in each way to store the matrix.
            let p = a.iter().position(|(_, (i, j))| i == j && i > 5).unwrap();
            let (_, (i, _)) = a.iter().nth(p).unwrap();
            let mut other = a.clone();
            let imaginary = T::Wide::from_components(|part| part as f64 * 1e-9 * largest);
            other.data_mut()[p] += T::narrow(imaginary);
            for other in [
                other.clone(),
                part(&other, |i, j| i >= j),
                part(&other, |i, j| i <= j),
            ] {
                is_named(solver.analyze(&other).unwrap_err(), [i, i]);
            }
        }
        let general = part(&a, |i, j| (i, j) != (0, 1) && i < 59);
        assert!(solver.analyze(&general).is_err());
    }

    pub fn kinds_are_found_by_the_values<T: Scalar>(form: Form) {
        let of = |real: &CsMat<f64>| {
            let a = turned_in_form::<T>(real, form);
            let factors = factorize(&a, on_cpu().kind(MatrixKind::Auto)).unwrap();
            let (b, _) = known_solution(&a);
            assert_backward_error(&a, &factors.solve(&b).unwrap().x, &b);
            factors.inform().kind
        };
        let indefinite = if form == Form::Hermitian {
            "Hermitian"
        } else {
            "symmetric"
        };
        let has_signs = T::COMPONENTS == 1 || form == Form::Hermitian;
        let definite = if has_signs {
            "positive definite"
        } else {
            indefinite
        };
        assert_eq!(of(&laplacian_2d(9, 8)), definite);
        assert_eq!(of(&saddle_point(60, 25, 2)), indefinite);
        // The diagonal is positive, and yet: [1 2; 2 1].
        let mut a = TriMat::new((2, 2));
        for (i, j, v) in [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 1.0)] {
            a.add_triplet(i, j, v);
        }
        assert_eq!(of(&a.to_csr()), indefinite);
    }

    /// F·D·Fᵀ, or F·D·Fᴴ, by solves with each part.
    pub fn the_parts_are_the_factors<T: Scalar>(form: Form) {
        for real in [saddle_point(60, 25, 2), random_symmetric(90, 5, 6)] {
            let a = turned_in_form::<T>(&real, form);
            let n = a.rows();
            let factors = factorize(&a, of_form(form)).unwrap();
            let mut ldlt = factors.ldlt().unwrap().unwrap();
            let two = ldlt.d().chunks(2).filter(|pair| !pair[1].is_zero()).count();
            assert_eq!(factors.inform().num_two, Some(two));
            assert_eq!(factors.inertia(), ldlt.inertia());
            // The inverses of F and its transpose, column by column.
            let column = |solve: &dyn Fn(&mut [T]) -> Result<(), Error>, j: usize| {
                let mut unit = vec![T::zero(); n];
                unit[j] = T::one();
                solve(&mut unit).unwrap();
                unit
            };
            let inverse = |solve: &dyn Fn(&mut [T]) -> Result<(), Error>| {
                let columns: Vec<_> = (0..n).map(|j| column(solve, j)).collect();
                DMatrix::from_fn(n, n, |i, j| to_complex(columns[j][i]))
            };
            let lower = inverse(&|x| ldlt.solve_lower(x));
            let upper = inverse(&|x| ldlt.solve_upper(x));
            let reflected = match form {
                Form::Symmetric => lower.transpose(),
                Form::Hermitian => lower.adjoint(),
            };
            let error = (&upper - reflected).map(|v| v.norm()).max();
            assert!(error <= 1e-12 * upper.map(|v| v.norm()).max(), "{error:e}");
            // D in the places of its columns.
            let mut d = DMatrix::<C>::zeros(n, n);
            for (i, pair) in ldlt.d().chunks(2).enumerate() {
                let place = ldlt.order()[i];
                d[(place, place)] = to_complex(pair[0]);
                assert_eq!(form.on_diagonal(pair[0]), pair[0]);
                if !pair[1].is_zero() {
                    let next = ldlt.order()[i + 1];
                    d[(next, place)] = to_complex(pair[1]);
                    d[(place, next)] = form.counterpart(to_complex(pair[1]));
                }
            }
            let left = &lower * dense(&a) * &upper;
            let error = (left - &d).map(|v| v.norm()).max();
            assert!(error <= 1e-9 * d.map(|v| v.norm()).max(), "{error:e}");
            let diagonal = inverse(&|x| ldlt.solve_diagonal(x));
            let error = (diagonal * &d - DMatrix::identity(n, n))
                .map(|v| v.norm())
                .max();
            assert!(error <= 1e-9, "{error:e}");
            // Twice D is that of twice the matrix.
            let (b, _) = known_solution(&a);
            let mut x = b.clone();
            ldlt.solve(&mut x).unwrap();
            let doubled: Vec<T> = ldlt.d().iter().map(|&v| v + v).collect();
            ldlt.set_d(&doubled);
            let mut half = b;
            ldlt.solve(&mut half).unwrap();
            let twice: Vec<T> = half.iter().map(|&v| v + v).collect();
            assert!(difference(&twice, &x) <= 1e-12 * norm(&x));
        }
    }

    pub fn determinants_are_those_of_lu<T: Scalar>(form: Form) {
        for real in [
            saddle_point(60, 25, 2),
            random_symmetric(90, 5, 6),
            laplacian_2d(9, 8),
        ] {
            let a = turned_in_form::<T>(&real, form);
            let [lu, ldlt] = [on_cpu(), of_form(form)]
                .map(|options| factorize(&a, options).unwrap().determinant().unwrap());
            let [lu, ldlt] = [lu, ldlt].map(|d| (to_complex(d.mantissa), d.exponent));
            let shift = 10f64.powi((ldlt.1 - lu.1) as i32);
            let difference = (ldlt.0 * shift - lu.0).norm();
            assert!(difference <= 1e-9 * lu.0.norm(), "{lu:?}, {ldlt:?}");
            if form == Form::Hermitian {
                assert_eq!(
                    ldlt.0.im, 0.0,
                    "the determinant of a Hermitian matrix is real"
                );
            }
        }
    }

    pub fn new_values_take_the_old_order_and_the_batch_has_the_same_bits<T: Scalar>(form: Form) {
        let first = turned_in_form::<T>(&interior_point_kkt(90, 40, 1e-2, 3), form);
        let second = turned_in_form::<T>(&interior_point_kkt(90, 40, 1e-4, 3), form);
        let (b, _) = known_solution(&second);
        let mut expected = None;
        for threads in [1, 2, 3] {
            let solver = Solver::new(of_form(form).threads(Some(threads))).unwrap();
            let analysis = solver.analyze(&first).unwrap();
            let mut factors = analysis.factorize(&first).unwrap();
            match factors.refactorize(&second).unwrap() {
                Refactorized::Reused { backward_error, .. } => {
                    assert!(backward_error.unwrap() <= 1e-10);
                }
                other => panic!("{other:?}"),
            }
            let x = factors.solve(&b).unwrap().x;
            assert_backward_error(&second, &x, &b);
            let d = factors.ldlt().unwrap().unwrap().d().to_vec();
            let found = (x, d);
            let expected = expected.get_or_insert_with(|| found.clone());
            assert!(*expected == found, "{threads} threads");
            // Bad values leave what was there.
            let mut bad = second.clone();
            bad.data_mut()[7] = T::narrow(T::Wide::from_real(f64::NAN));
            assert!(factors.refactorize(&bad).is_err());
            assert!(factors.solve(&b).unwrap().x == found.0);

            let values = [first.data(), second.data()].concat();
            let mut batch = analysis.factorize_batch(&values, 2).unwrap();
            let again = [second.data(), second.data()].concat();
            batch.refactorize(&again);
            let rhs = [b.clone(), b.clone()].concat();
            for solution in batch.solve(&rhs, 1) {
                assert!(solution.unwrap().x == found.0, "the bits of one alone");
            }
        }
    }

    pub fn singular_systems_are_refused_or_solved_if_they_are_consistent<T: Scalar>(form: Form) {
        // Two blocks, one of them the Laplacian of a ring, which maps constants to zero.
        let (n, ring) = (40, 17);
        let mut a = TriMat::new((n, n));
        for i in 0..ring {
            a.add_triplet(i, i, 2.0);
            for j in [(i + 1) % ring, (i + ring - 1) % ring] {
                a.add_triplet(i, j, -1.0);
            }
        }
        for i in ring..n {
            a.add_triplet(i, i, if i % 2 == 0 { 3.0 } else { -3.0 });
            for j in [i.wrapping_sub(1), i + 1] {
                if (ring..n).contains(&j) {
                    a.add_triplet(i, j, 1.0);
                }
            }
        }
        let a = turned_in_form::<T>(&a.to_csr(), form);
        match factorize(&a, of_form(form)) {
            Err(Error::ZeroPivot { column } | Error::SingularToRounding { column, .. }) => {
                assert!(column < ring);
            }
            // The entries were rounded, and so may be another matrix, hardly a regular one.
            Ok(factors) => {
                let warnings = &factors.inform().warnings;
                let is_told = |w: &Warning| matches!(w, Warning::IllConditioned { .. });
                assert!(warnings.iter().any(is_told), "{warnings:?}");
            }
            Err(other) => panic!("{other:?}"),
        }
        let options = of_form(form).singular(SingularAction::Continue);
        let factors = factorize(&a, options).unwrap();
        let inform = factors.inform();
        assert_eq!(inform.rank, Some(n - 1));
        let is_warned =
            |w: &Warning| matches!(w, Warning::RankDeficient { rank, .. } if *rank == n - 1);
        assert!(inform.warnings.iter().any(is_warned));
        let (b, _) = known_solution(&a);
        assert_backward_error(&a, &factors.solve(&b).unwrap().x, &b);
    }

    pub fn delays_may_be_limited<T: Scalar>(form: Form) {
        let a = turned_in_form::<T>(&saddle_point(120, 50, 2), form);
        let ordering = luge::ordering::OrderingOptions::default().matching(Matching::Never);
        let options = of_form(form).max_delays(Some(0)).ordering(ordering);
        let factors = factorize(&a, options).unwrap();
        assert!(
            factors.inform().num_perturbed.unwrap() > 0,
            "nothing was replaced"
        );
        let (b, _) = known_solution(&a);
        let error = factors.solve(&b).unwrap().inform.backward_error.unwrap();
        assert!(error <= 1e-12, "{error:e}");
    }
}

#[test]
fn hermitian_matrices_with_positive_eigenvalues_have_a_cholesky_factorization() {
    let models = [elasticity_3d(3, 2, 2, 1), laplacian_2d(13, 12)];
    let turned = models.map(|a| turned_in_form::<C>(&a, Form::Hermitian));
    for a in turned
        .into_iter()
        .chain([magnetic_lattice([17, 13], 0.2, 0.0)])
    {
        for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
            let options = on_cpu()
                .kind(MatrixKind::PositiveDefinite)
                .precision(precision);
            let factors = factorize(&a, options).unwrap();
            check_all_solves(&a, &factors);
            let inform = factors.inform();
            assert_eq!(
                (inform.kind, inform.num_neg),
                ("positive definite", Some(0))
            );
            let d = factors.ldlt().unwrap().unwrap().d().to_vec();
            assert!(d.iter().step_by(2).all(|d| d.re > 0.0 && d.im == 0.0));
        }
    }
    let indefinite = magnetic_lattice([17, 13], 0.2, 2.7);
    let refused = factorize(&indefinite, on_cpu().kind(MatrixKind::PositiveDefinite));
    match refused {
        Err(Error::NotPositiveDefinite { column, pivot }) => {
            assert!(column < indefinite.rows() && pivot <= 0.0);
        }
        other => panic!("{other:?}"),
    }
    let eigenvalues = dense(&indefinite).symmetric_eigenvalues();
    let negative = eigenvalues.iter().filter(|v| **v < 0.0).count();
    for kind in [MatrixKind::Hermitian, MatrixKind::Auto] {
        let factors = factorize(&indefinite, on_cpu().kind(kind)).unwrap();
        check_all_solves(&indefinite, &factors);
        assert_eq!(factors.inform().kind, "Hermitian");
        assert_eq!(factors.inertia().unwrap().negative, negative);
    }
}

#[test]
fn waves_are_solved_as_complex_symmetric() {
    for points in [[25, 24, 1], [9, 8, 7]] {
        let a = helmholtz(points, 8.0);
        let factors = factorize(&a, on_cpu().kind(MatrixKind::Symmetric)).unwrap();
        check_all_solves(&a, &factors);
        assert_eq!(factors.inertia(), None);
        let (b, _) = known_solution(&a);
        let lu = factorize(&a, on_cpu()).unwrap();
        let [x, of_lu] = [&factors, &lu].map(|factors| factors.solve(&b).unwrap());
        let bound = error_bound(&a, (&x, &of_lu));
        assert!(difference(&x.x, &of_lu.x) <= bound * norm(&x.x));
    }
}

/// The numbers are those of the real path with a part that is zero beside each, so pivots are compared and chosen alike.
#[test]
fn a_real_matrix_given_as_complex_has_the_pivots_and_the_solution_of_the_real_path() {
    for (name, a) in real_matrices() {
        let real = factorize(&a, of_form(Form::Symmetric)).unwrap();
        let given = to_scalar::<C>(&a);
        let (b, _) = known_solution(&a);
        let solution = real.solve(&b).unwrap();
        let x: Vec<C> = solution.x.iter().map(|&x| C::from(x)).collect();
        let parts = real.ldlt().unwrap().unwrap();
        let b: Vec<C> = b.into_iter().map(C::from).collect();
        for form in [Form::Symmetric, Form::Hermitian] {
            let complex = factorize(&given, of_form(form)).unwrap();
            let of_complex = complex.ldlt().unwrap().unwrap();
            assert_eq!(of_complex.order(), parts.order(), "{name}");
            for (z, d) in of_complex.d().iter().zip(parts.d()) {
                assert!((z - d).norm() <= 1e-12 * d.abs(), "{name}: {z} for {d}");
            }
            let z = complex.solve(&b).unwrap();
            // Sums of as many terms as a vector register holds numbers have another order; what is left is refined.
            let bound = error_bound(&a, (&z, &solution));
            let found = difference(&z.x, &x) / norm(&x);
            assert!(found <= bound, "{name}: {found:e}, at most {bound:e}");
        }
        // Both forms: the one that has signs.
        let found = factorize(&given, on_cpu().kind(MatrixKind::Auto)).unwrap();
        assert!(["Hermitian", "positive definite"].contains(&found.inform().kind));
    }
}

#[test]
fn signs_are_expected_of_hermitian_pivots_alone() {
    // Quasidefinite: each order of elimination has pivots of these signs.
    let signs: Vec<i8> = (0..85).map(|i| if i < 60 { 1 } else { -1 }).collect();
    let diagonal = signs.iter().map(|&sign| f64::from(sign)).enumerate();
    let mut shift = TriMat::new((85, 85));
    diagonal.for_each(|(i, sign)| shift.add_triplet(i, i, sign));
    let real = &saddle_point(60, 25, 2) + &shift.to_csr::<usize>();
    let regularization = Regularization::new(signs, 1e-8);
    let a = turned_in_form::<C>(&real, Form::Hermitian);
    let options = of_form(Form::Hermitian).regularization(Some(regularization.clone()));
    let factors = factorize(&a, options).unwrap();
    let inertia = factors.inertia().unwrap();
    assert_eq!((inertia.positive, inertia.negative), (60, 25));
    let (b, _) = known_solution(&a);
    assert!(factors.solve(&b).unwrap().inform.backward_error.unwrap() <= 1e-12);

    let options = of_form(Form::Symmetric).regularization(Some(regularization));
    let a = turned_in_form::<C>(&real, Form::Symmetric);
    match factorize(&a, options) {
        Err(Error::InvalidOption {
            field: "kind",
            value,
            ..
        }) => assert_eq!(value, "Symmetric"),
        other => panic!("{other:?}"),
    }
}

/// By raw arrays: the triangle that comes with each storage.
#[test]
fn a_hermitian_triangle_is_by_rows_or_by_columns_as_it_is_told() {
    // 2    1−i
    // 1+i  −3
    let (offsets, indices) = ([0u32, 1, 3], [0u32, 0, 1]);
    let values = [C::new(2.0, 0.0), C::new(1.0, 1.0), C::new(-3.0, 0.0)];
    let by_rows: MatrixRef<'_, C, u32> = MatrixRef::by_rows(2, 2, &offsets, &indices, &values);
    let by_columns: MatrixRef<'_, C, u32> =
        MatrixRef::by_columns(2, 2, &offsets, &indices, &values);
    let solver = Solver::new(of_form(Form::Hermitian)).unwrap();
    for (a, lower) in [(by_rows, C::new(1.0, 1.0)), (by_columns, C::new(1.0, -1.0))] {
        let factors = solver.analyze(a).unwrap().factorize(a).unwrap();
        let x = [C::new(1.0, 2.0), C::new(-1.0, 0.5)];
        let b = [2.0 * x[0] + lower.conj() * x[1], lower * x[0] - 3.0 * x[1]];
        let found = factors.solve(&b).unwrap().x;
        assert!(difference(&found, &x) <= 1e-15);
        let determinant = factors.determinant().unwrap();
        assert!((determinant.value() - C::new(-8.0, 0.0)).norm() <= 1e-14);
    }
}

#[test]
#[should_panic(expected = "a number on its diagonal that is not real")]
fn a_hermitian_d_has_a_real_diagonal() {
    let a = turned_in_form::<C>(&laplacian_2d(3, 3), Form::Hermitian);
    let factors = factorize(&a, of_form(Form::Hermitian)).unwrap();
    let mut ldlt = factors.ldlt().unwrap().unwrap();
    let mut d = ldlt.d().to_vec();
    d[4].im = 1e-3;
    ldlt.set_d(&d);
}
