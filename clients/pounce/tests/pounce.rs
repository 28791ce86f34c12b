//! POUNCE with Luge beside POUNCE with its own linear solver.

use luge_pounce::LugeBackend;
use luge_pounce::problems::families::{
    bratu, chain, control, least_squares, minimal_surface, obstacle, pendulum, poisson, regulator,
    ring, rosenbrock,
};
use luge_pounce::problems::{Problem, small};
use luge_pounce::runs::{Backend, Outcome, solve};
use pounce_common::types::Index;
use pounce_linsol::{ESymSolverStatus, SparseSymLinearSolverInterface};

/// What the default solver solves is solved, to the same optimum, in as many iterations to within a twentieth, or one. The outcome
/// with Luge.
fn compare(problem: &Problem) -> Outcome {
    let [own, luge] =
        [Backend::Own, Backend::Luge].map(|backend| solve(problem, backend, "tol 1e-8"));
    assert!(
        own.is_solved(),
        "{}: its own solver: {:?}",
        problem.name,
        own
    );
    assert!(luge.is_solved(), "{}: Luge: {:?}", problem.name, luge);
    let expected = problem.optimum.unwrap_or(own.objective);
    let size = expected.abs().max(1.0);
    assert!(
        (luge.objective - expected).abs() <= 1e-5 * size,
        "{}: {} for {expected}",
        problem.name,
        luge.objective
    );
    let most = (f64::from(own.iterations) * 1.05).max(f64::from(own.iterations) + 1.0);
    assert!(
        f64::from(luge.iterations) <= most,
        "{}: {} iterations for {}",
        problem.name,
        luge.iterations,
        own.iterations
    );
    luge
}

#[test]
fn small_problems_are_solved_as_with_its_own_solver() {
    let problems = small::all();
    assert_eq!(problems.len(), 23);
    let outcomes: Vec<Outcome> = problems.iter().map(compare).collect();
    // They are not convex where some start, and POUNCE perturbs what has another inertia than it needs.
    assert!(
        outcomes
            .iter()
            .any(|outcome| outcome.work.wrong_inertia > 0)
    );
}

#[test]
fn families_are_solved_as_with_its_own_solver() {
    for problem in [
        control(8),
        obstacle(12),
        chain(60),
        pendulum(40),
        rosenbrock(60),
        bratu(100),
        regulator(100),
        poisson(10),
        ring(100),
        minimal_surface(12),
        least_squares(100),
    ] {
        assert!(problem.n() >= 60);
        compare(&problem);
    }
}

/// The upper triangle by rows of
/// 2 1 .
/// 1 . 3
/// . 3 4
const ROW_PTR: [Index; 4] = [0, 2, 3, 4];
const COL_IDX: [Index; 4] = [0, 1, 2, 2];

fn backend(values: &[f64; 4]) -> LugeBackend {
    let mut backend = LugeBackend::default();
    let status = backend.initialize_structure(3, 4, &ROW_PTR, &COL_IDX);
    assert_eq!(status, ESymSolverStatus::Success);
    backend.values_array_mut().copy_from_slice(values);
    backend
}

fn multiply(x: [f64; 3]) -> [f64; 3] {
    [
        2.0 * x[0] + x[1],
        x[0] + 3.0 * x[2],
        3.0 * x[1] + 4.0 * x[2],
    ]
}

fn is_near(found: &[f64], expected: &[f64]) -> bool {
    let mut pairs = found.iter().zip(expected);
    pairs.all(|(found, expected)| (found - expected).abs() < 1e-14)
}

#[test]
fn systems_are_solved_and_their_inertia_is_told() {
    let mut backend = backend(&[2.0, 1.0, 3.0, 4.0]);
    assert!(backend.provides_inertia() && !backend.increase_quality());
    let (first, second) = ([1.0, 2.0, 3.0], [-1.0, 0.5, 4.0]);
    let mut rhs = [multiply(first), multiply(second)].concat();
    let status = backend.multi_solve(true, &ROW_PTR, &COL_IDX, 2, &mut rhs, true, 1);
    assert_eq!(status, ESymSolverStatus::Success);
    assert!(is_near(&rhs, &[first, second].concat()), "{rhs:?}");
    // det = 2·(0·4 − 9) − 1·4 = −22: one eigenvalue is negative.
    assert_eq!(backend.number_of_neg_evals(), 1);
    let mut rhs = multiply(first);
    let status = backend.multi_solve(false, &ROW_PTR, &COL_IDX, 1, &mut rhs, true, 2);
    assert_eq!(status, ESymSolverStatus::WrongInertia);
    assert!(is_near(&rhs, &multiply(first)), "left as it was");
    // The factors of a larger threshold are there at once. There are two.
    assert!(backend.increase_quality() && backend.increase_quality());
    assert!(!backend.increase_quality());
    let status = backend.multi_solve(false, &ROW_PTR, &COL_IDX, 1, &mut rhs, false, 0);
    assert_eq!(status, ESymSolverStatus::Success);
    assert!(is_near(&rhs, &first));
}

#[test]
fn singular_matrices_are_told_from_broken_ones() {
    let mut backend = backend(&[0.0, 0.0, 3.0, 4.0]);
    let mut rhs = [1.0; 3];
    let mut solve = |backend: &mut LugeBackend| {
        backend.multi_solve(true, &ROW_PTR, &COL_IDX, 1, &mut rhs, false, 0)
    };
    assert_eq!(solve(&mut backend), ESymSolverStatus::Singular);
    assert!(backend.singularity_certified());
    // The method perturbs it.
    backend.values_array_mut()[0] = 1e-8;
    assert_eq!(solve(&mut backend), ESymSolverStatus::Success);
    assert!(!backend.singularity_certified());
    backend.values_array_mut()[0] = f64::NAN;
    assert_eq!(solve(&mut backend), ESymSolverStatus::FatalError);
    assert!(backend.factors().is_none() && !backend.singularity_certified());
    backend.values_array_mut()[0] = 1.0;
    assert_eq!(solve(&mut backend), ESymSolverStatus::Success);
}

#[test]
fn patterns_that_are_none_are_refused() {
    let mut backend = LugeBackend::default();
    for (dim, nonzeros) in [(2, 4), (3, 5), (-2, 4)] {
        let status = backend.initialize_structure(dim, nonzeros, &ROW_PTR, &COL_IDX);
        assert_eq!(status, ESymSolverStatus::FatalError);
    }
    // Column 3 of 0 to 2.
    let status = backend.initialize_structure(3, 4, &ROW_PTR, &[0, 1, 2, 3]);
    assert_eq!(status, ESymSolverStatus::Success);
    let status = backend.multi_solve(true, &ROW_PTR, &COL_IDX, 1, &mut [1.0; 3], false, 0);
    assert_eq!(status, ESymSolverStatus::FatalError);
}
