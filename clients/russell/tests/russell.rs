//! What russell_sparse expects of its solvers, with its own matrices.

use luge_russell::{ComplexSolverLuge, SolverLuge};
use russell_lab::{ComplexVector, Vector, approx_eq, complex_vec_approx_eq, cpx, vec_approx_eq};
use russell_sparse::Samples;
use russell_sparse::prelude::*;

/// The solution of the systems with the matrices of MKL's manual, where the right-hand side is 1 to 5.
const OF_MKL: [f64; 5] = [-979.0 / 3.0, 983.0, 1961.0 / 12.0, 398.0, 123.0 / 2.0];

fn solution(coo: &CooMatrix, rhs: &[f64], params: Option<LinSolParams>) -> Vector {
    let mut solver = SolverLuge::new();
    solver.preprocess(coo, params).unwrap();
    let (mut x, rhs) = (Vector::new(rhs.len()), Vector::from(&rhs));
    solver.solve(&mut x, &rhs, false).unwrap();
    // Once more, it is the same.
    let mut again = Vector::new(rhs.dim());
    solver.solve(&mut again, &rhs, false).unwrap();
    assert_eq!(x.as_data(), again.as_data());
    x
}

#[test]
fn a_diagonal_matrix_is_solved() {
    let n = 10;
    let mut coo = CooMatrix::new(n, n, n, Sym::No).unwrap();
    let (mut expected, mut rhs) = (Vec::new(), Vec::new());
    for k in 0..n {
        let a = 10.0 + k as f64;
        coo.put(k, k, a).unwrap();
        expected.push(k as f64);
        rhs.push(a * k as f64);
    }
    vec_approx_eq(&solution(&coo, &rhs, None), &expected, 1e-14);
}

#[test]
fn unsymmetric_matrices_are_solved_and_have_their_determinant() {
    // Two entries stand in one place, and are added up.
    let (coo, _, _, det) = Samples::umfpack_unsymmetric_5x5();
    let params = LinSolParams {
        compute_determinant: true,
        ..LinSolParams::new()
    };
    let mut solver = SolverLuge::new();
    solver.preprocess(&coo, Some(params)).unwrap();
    let rhs = Vector::from(&[8.0, 45.0, -3.0, 3.0, 19.0]);
    let mut x = Vector::new(5);
    solver.solve(&mut x, &rhs, false).unwrap();
    vec_approx_eq(&x, &[1.0, 2.0, 3.0, 4.0, 5.0], 1e-14);

    let mut stats = StatsLinSol::new();
    solver.update_stats(&mut stats);
    assert_eq!(stats.main.solver, "Luge");
    let told = &stats.determinant;
    let found = told.mantissa_real * told.base.powf(told.exponent);
    approx_eq(found, det, 1e-13 * det.abs());
    approx_eq(found, 114.0, 1e-12);
    let times = &stats.time_nanoseconds;
    assert_eq!(times.initialize_array.len(), 1);
    assert_eq!(times.preprocess_array.len(), 1);
    assert_eq!(times.solve_array.len(), 1);
    assert!(
        solver.get_ns_init() > 0 && solver.get_ns_preprocess() > 0 && solver.get_ns_solve() > 0
    );

    // Other values of the same pattern; the same parameters may be named again.
    let mut doubled = coo.clone();
    doubled.get_values_mut().iter_mut().for_each(|v| *v *= 2.0);
    solver.preprocess(&doubled, Some(params)).unwrap();
    solver.solve(&mut x, &rhs, false).unwrap();
    vec_approx_eq(&x, &[0.5, 1.0, 1.5, 2.0, 2.5], 1e-14);
}

#[test]
fn every_ordering_and_scaling_solves() {
    let (coo, _, _, _) = Samples::umfpack_unsymmetric_5x5();
    for ordering in [
        Ordering::Amd,
        Ordering::Auto,
        Ordering::Colamd,
        Ordering::Metis,
        Ordering::No,
        Ordering::Pord,
    ] {
        for scaling in [Scaling::Auto, Scaling::No, Scaling::Sum] {
            let params = LinSolParams {
                ordering,
                scaling,
                ..LinSolParams::new()
            };
            let x = solution(&coo, &[8.0, 45.0, -3.0, 3.0, 19.0], Some(params));
            vec_approx_eq(&x, &[1.0, 2.0, 3.0, 4.0, 5.0], 1e-13);
        }
    }
}

#[test]
fn symmetric_matrices_are_solved_whole_and_as_triangles() {
    let rhs = [1.0, 2.0, 3.0, 4.0, 5.0];
    let (full, _, _, _) = Samples::mkl_symmetric_5x5_full();
    let (lower, _, _, _) = Samples::mkl_symmetric_5x5_lower(true, true);
    let (upper, _, _, _) = Samples::mkl_symmetric_5x5_upper(true, true);
    for coo in [&full, &lower, &upper] {
        vec_approx_eq(&solution(coo, &rhs, None), &OF_MKL, 1e-10);
    }
    let (lower, _, _, _) = Samples::mkl_positive_definite_5x5_lower();
    let (upper, _, _, _) = Samples::mkl_positive_definite_5x5_upper();
    for coo in [&lower, &upper] {
        let mut solver = SolverLuge::new();
        let params = LinSolParams {
            positive_definite: true,
            ..LinSolParams::new()
        };
        solver.preprocess(coo, Some(params)).unwrap();
        let inertia = solver.factors().and_then(|factors| factors.inertia());
        assert_eq!(inertia.map(|inertia| inertia.positive), Some(5));
        vec_approx_eq(&solution(coo, &rhs, Some(params)), &OF_MKL, 1e-10);
    }
}

#[test]
fn complex_matrices_are_solved() {
    let rhs = ComplexVector::from(&[cpx!(-3.0, 3.0), cpx!(2.0, -2.0), cpx!(9.0, 7.0)]);
    let expected = [cpx!(1.0, 1.0), cpx!(2.0, -2.0), cpx!(3.0, 3.0)];
    let (coo, _, _, det) = Samples::complex_symmetric_3x3_full();
    let mut solver = ComplexSolverLuge::new();
    let params = LinSolParams {
        compute_determinant: true,
        ..LinSolParams::new()
    };
    solver.preprocess(&coo, Some(params)).unwrap();
    let mut x = ComplexVector::new(3);
    for _ in 0..2 {
        solver.solve(&mut x, &rhs, false).unwrap();
        complex_vec_approx_eq(&x, &expected, 1e-14);
    }
    let mut stats = StatsLinSol::new();
    solver.update_stats(&mut stats);
    let told = &stats.determinant;
    let scale = told.base.powf(told.exponent);
    approx_eq(told.mantissa_real * scale, det.re, 1e-12);
    approx_eq(told.mantissa_imag * scale, det.im, 1e-12);
    assert!(
        solver.get_ns_init() > 0 && solver.get_ns_preprocess() > 0 && solver.get_ns_solve() > 0
    );
    let (lower, _, _, _) = Samples::complex_symmetric_3x3_lower();
    assert_eq!(
        ComplexSolverLuge::new().preprocess(&lower, None),
        Err("Luge requires Sym::YesFull for complex symmetric matrices")
    );
    let (coo, _, _, _) = Samples::umfpack_complex_unsymmetric_5x5();
    let expected: Vec<_> = (1..=5).map(|k| cpx!(k as f64, 0.5)).collect();
    let (exact, mut rhs) = (ComplexVector::from(&expected), ComplexVector::new(5));
    coo.mat_vec_mul(&mut rhs, cpx!(1.0, 0.0), &exact).unwrap();
    let mut solver = ComplexSolverLuge::new();
    solver.preprocess(&coo, None).unwrap();
    let mut x = ComplexVector::new(5);
    solver.solve(&mut x, &rhs, false).unwrap();
    complex_vec_approx_eq(&x, &expected, 1e-13);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut solver = SolverLuge::new();
    let empty = CooMatrix::new(1, 1, 1, Sym::No).unwrap();
    assert_eq!(
        solver.preprocess(&empty, None),
        Err("the COO matrix must have at least one non-zero value")
    );
    let (rectangular, _, _, _) = Samples::rectangular_1x7();
    assert_eq!(
        solver.preprocess(&rectangular, None),
        Err("the matrix must be square")
    );
    let diagonal = |n: usize, symmetric: Sym, last: f64| {
        let mut coo = CooMatrix::new(n, n, n, symmetric).unwrap();
        (0..n).for_each(|k| {
            coo.put(k, k, if k + 1 == n { last } else { 123.0 })
                .unwrap()
        });
        coo
    };
    let (mut two, mut one) = (Vector::new(2), Vector::new(1));
    let rhs = Vector::new(2);
    assert_eq!(
        solver.solve(&mut two, &rhs, false),
        Err("the function preprocess must be called before solve")
    );
    assert_eq!(
        solver.preprocess(&diagonal(2, Sym::No, 0.0), None),
        Err("Luge: the matrix is singular")
    );
    let params = LinSolParams::new();
    solver
        .preprocess(&diagonal(2, Sym::No, 456.0), Some(params))
        .unwrap();
    assert_eq!(
        solver.solve(&mut one, &rhs, false),
        Err("the dimension of the vector of unknown values x is incorrect")
    );
    assert_eq!(
        solver.solve(&mut two, &Vector::new(1), false),
        Err("the dimension of the right-hand side vector is incorrect")
    );
    let mut refused = |coo: &CooMatrix, params| solver.preprocess(coo, params).unwrap_err();
    assert_eq!(
        refused(&diagonal(2, Sym::YesFull, 1.0), None),
        "subsequent factorizations must use the same matrix (symmetric differs)"
    );
    assert_eq!(
        refused(&diagonal(1, Sym::No, 1.0), None),
        "subsequent factorizations must use the same matrix (ndim differs)"
    );
    let mut fewer = CooMatrix::new(2, 2, 1, Sym::No).unwrap();
    fewer.put(0, 0, 1.0).unwrap();
    assert_eq!(
        refused(&fewer, None),
        "subsequent factorizations must use the same matrix (nnz differs)"
    );
    let mut others = params;
    others.ordering = Ordering::Amd;
    assert_eq!(
        refused(&diagonal(2, Sym::No, 1.0), Some(others)),
        "subsequent factorizations must not change LinSolParams"
    );
    let mut elsewhere = CooMatrix::new(2, 2, 2, Sym::No).unwrap();
    elsewhere.put(0, 1, 1.0).unwrap();
    elsewhere.put(1, 0, 1.0).unwrap();
    assert_eq!(
        refused(&elsewhere, None),
        "subsequent factorizations must use the same matrix (an entry is new)"
    );
}

/// One solver is asked for through the trait, as time loops of russell do it.
#[test]
fn it_goes_where_any_solver_does() {
    let mut solver = LinSolver {
        actual: Box::new(SolverLuge::new()),
    };
    let (coo, _, _, _) = Samples::mkl_unsymmetric_5x5();
    let expected = Vector::from(&[1.0, -1.0, 2.0, -2.0, 3.0]);
    let mut rhs = Vector::new(5);
    coo.mat_vec_mul(&mut rhs, 1.0, &expected).unwrap();
    let mut x = Vector::new(5);
    for _ in 0..3 {
        solver.actual.preprocess(&coo, None).unwrap();
        solver.actual.solve(&mut x, &rhs, false).unwrap();
        vec_approx_eq(&x, expected.as_data(), 1e-13);
    }
    let check = VerifyLinSys::from(&coo, &x, &rhs).unwrap();
    assert!(check.relative_error < 1e-14);
}
