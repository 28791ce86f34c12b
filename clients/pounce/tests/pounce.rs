//! POUNCE with Luge beside POUNCE with its own linear solver.

use std::cell::RefCell;
use std::rc::Rc;

use luge_pounce::LugeBackend;
use luge_pounce::problems::{Posed, Problem, chain, control, obstacle, pendulum, small};
use pounce_algorithm::application::IpoptApplication;
use pounce_common::types::Index;
use pounce_linsol::{ESymSolverStatus, SparseSymLinearSolverInterface};
use pounce_nlp::return_codes::ApplicationReturnStatus;
use pounce_nlp::tnlp::TNLP;

struct Outcome {
    is_solved: bool,
    iterations: Index,
    objective: f64,
}

fn solve(problem: &Problem, with_luge: bool) -> Outcome {
    let mut app = IpoptApplication::new();
    app.initialize().unwrap();
    app.initialize_with_options_str("print_level 0\ntol 1e-8\n")
        .unwrap();
    if with_luge {
        app.set_linear_backend_factory(Box::new(|_| Box::new(LugeBackend::default())));
    }
    let (posed, end) = Posed::new(problem.clone());
    let posed: Rc<RefCell<dyn TNLP>> = Rc::new(RefCell::new(posed));
    let status = app.optimize_tnlp(posed);
    let objective = end.borrow().as_ref().map_or(f64::NAN, |end| end.1);
    Outcome {
        is_solved: status == ApplicationReturnStatus::SolveSucceeded,
        iterations: app.statistics().iteration_count,
        objective,
    }
}

/// What the default solver solves is solved, to the same optimum, in as many iterations to within a twentieth, or one.
fn compare(problem: &Problem) {
    let (own, luge) = (solve(problem, false), solve(problem, true));
    assert!(own.is_solved, "{}: its own solver", problem.name);
    assert!(luge.is_solved, "{}: Luge", problem.name);
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
}

#[test]
fn small_problems_are_solved_as_with_its_own_solver() {
    let problems = small();
    assert_eq!(problems.len(), 11);
    problems.iter().for_each(compare);
}

#[test]
fn families_are_solved_as_with_its_own_solver() {
    for problem in [control(8), obstacle(12), chain(60), pendulum(40)] {
        assert!(problem.n() >= 60);
        compare(&problem);
    }
}

/// 2 1 .
/// 1 . 3
/// . 3 4, its entries in either triangle, one of them in two parts.
const ROWS: [Index; 5] = [1, 1, 3, 3, 3];
const COLS: [Index; 5] = [1, 2, 2, 3, 3];

fn backend(values: &[f64; 5]) -> LugeBackend {
    let mut backend = LugeBackend::default();
    let status = backend.initialize_structure(3, 5, &ROWS, &COLS);
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

#[test]
fn systems_are_solved_and_their_inertia_is_told() {
    let mut backend = backend(&[2.0, 1.0, 3.0, 1.5, 2.5]);
    assert!(backend.provides_inertia());
    let (first, second) = ([1.0, 2.0, 3.0], [-1.0, 0.5, 4.0]);
    let mut rhs = [multiply(first), multiply(second)].concat();
    let status = backend.multi_solve(true, &ROWS, &COLS, 2, &mut rhs, true, 1);
    assert_eq!(status, ESymSolverStatus::Success);
    for (found, expected) in rhs.iter().zip(first.iter().chain(&second)) {
        assert!((found - expected).abs() < 1e-14, "{rhs:?}");
    }
    // det = 2·(0·4 − 9) − 1·4 = −22: one eigenvalue is negative.
    assert_eq!(backend.number_of_neg_evals(), 1);
    let mut rhs = multiply(first);
    let status = backend.multi_solve(false, &ROWS, &COLS, 1, &mut rhs, true, 2);
    assert_eq!(status, ESymSolverStatus::WrongInertia);
    // A larger threshold, three times at most, and the factors are made again.
    assert!(
        backend.increase_quality() && backend.increase_quality() && !backend.increase_quality()
    );
    assert!(backend.factors().is_none());
    let status = backend.multi_solve(false, &ROWS, &COLS, 1, &mut rhs, false, 0);
    assert_eq!(status, ESymSolverStatus::Success);
    assert!(
        rhs.iter()
            .zip(first)
            .all(|(found, x)| (found - x).abs() < 1e-14)
    );
}

#[test]
fn singular_matrices_are_told_from_broken_ones() {
    let mut backend = backend(&[0.0, 0.0, 3.0, 1.5, 2.5]);
    let mut rhs = [1.0; 3];
    let status = backend.multi_solve(true, &ROWS, &COLS, 1, &mut rhs, false, 0);
    assert_eq!(status, ESymSolverStatus::Singular);
    assert!(backend.singularity_certified());
    backend.values_array_mut()[0] = f64::NAN;
    let status = backend.multi_solve(true, &ROWS, &COLS, 1, &mut rhs, false, 0);
    assert_eq!(status, ESymSolverStatus::FatalError);
    assert!(!backend.singularity_certified());
    let outside = LugeBackend::default().initialize_structure(3, 1, &[4], &[1]);
    assert_eq!(outside, ESymSolverStatus::FatalError);
}
