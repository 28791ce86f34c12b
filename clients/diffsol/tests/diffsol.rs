//! What diffsol asks of a linear solver, and its models of stiff and differential-algebraic problems.

use diffsol::ode_equations::test_models::{foodweb, heat2d, robertson};
use diffsol::ode_solver::problem::OdeSolverSolution;
use diffsol::{NonLinearOp, OdeEquationsImplicit, OdeSolverMethod, OdeSolverProblem};
use diffsol_la::matrix::MatrixCommon;
use diffsol_la::matrix::sparsity::MatrixSparsityRef;
use diffsol_la::{
    FaerContext, FaerSparseLU, FaerSparseMat, FaerVec, IndexType, LinearOp, LinearSolver, Matrix,
    Vector,
};
use luge_diffsol::LugeLu;

type M = FaerSparseMat<f64>;
type V = FaerVec<f64>;

/// A matrix as an operator.
struct Op(M);

impl LinearOp for Op {
    type T = f64;
    type V = V;
    type M = M;
    type C = FaerContext;

    fn nrows(&self) -> IndexType {
        self.0.nrows()
    }
    fn ncols(&self) -> IndexType {
        self.0.ncols()
    }
    fn context(&self) -> &FaerContext {
        Matrix::context(&self.0)
    }
    fn matrix_inplace(&self, y: &mut M) {
        y.copy_from(&self.0);
    }
    fn sparsity(&self) -> Option<<M as Matrix>::Sparsity> {
        let sparsity = self.0.sparsity()?;
        Some(MatrixSparsityRef::<M>::to_owned(&sparsity))
    }
}

/// The operator of as many matrices of order 2 or 3 as there are lists of values, by their entries in one pattern.
fn op(n: usize, pattern: &[(usize, usize)], values: &[&[f64]]) -> Op {
    let context = FaerContext::with_nbatch(values.len());
    let matrix = M::try_from_triplets(n, n, pattern.to_vec(), values.concat(), context);
    Op(matrix.expect("the entries are a matrix"))
}

fn vector(batches: &[&[f64]]) -> V {
    V::from_vec(batches.concat(), FaerContext::with_nbatch(batches.len()))
}

fn linearised(op: &Op) -> LugeLu {
    let mut solver = LugeLu::default();
    solver.set_sparsity(op);
    solver.set_linearisation(op);
    solver
}

const DIAGONAL: [(usize, usize); 2] = [(0, 0), (1, 1)];

#[test]
fn a_diagonal_is_divided_by() {
    let solver = linearised(&op(2, &DIAGONAL, &[&[2.0, 4.0]]));
    let x = solver.solve(&vector(&[&[2.0, 2.0]])).unwrap();
    assert_eq!(x.clone_as_vec(), [1.0, 0.5]);
}

#[test]
fn batches_in_a_row_share_a_matrix() {
    let solver = linearised(&op(2, &DIAGONAL, &[&[2.0, 2.0], &[4.0, 4.0]]));
    let b: &[f64] = &[4.0, 8.0];
    let x = solver.solve(&vector(&[b, b, b, b])).unwrap();
    assert_eq!(x.clone_as_vec(), [2.0, 4.0, 2.0, 4.0, 1.0, 2.0, 1.0, 2.0]);
}

#[test]
#[should_panic(expected = "incompatible nbatch")]
fn there_are_as_many_batches_as_matrices_or_more() {
    let solver = linearised(&op(2, &DIAGONAL, &[&[2.0, 2.0], &[4.0, 4.0]]));
    let _ = solver.solve(&vector(&[&[1.0, 1.0], &[1.0, 1.0], &[1.0, 1.0]]));
}

#[test]
fn matrices_without_a_diagonal_are_solved_with_and_transposed() {
    // . 2 1        . 5 .
    // 1 . 3   and  4 . 1
    // . 1 4        2 1 1      in one pattern
    let pattern = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)];
    let first: &[f64] = &[2.0, 1.0, 1.0, 3.0, 0.0, 1.0, 4.0];
    let second: &[f64] = &[5.0, 0.0, 4.0, 1.0, 2.0, 1.0, 1.0];
    let solver = linearised(&op(3, &pattern, &[first, second]));
    let x: &[f64] = &[1.0, -1.0, 2.0];
    let times = |values: &[f64], transpose: bool| {
        let mut b = [0.0; 3];
        for (&(i, j), v) in pattern.iter().zip(values) {
            let (i, j) = if transpose { (j, i) } else { (i, j) };
            b[i] += v * x[j];
        }
        b
    };
    for transpose in [false, true] {
        let mut b = vector(&[&times(first, transpose), &times(second, transpose)]);
        if transpose {
            solver.solve_transpose_in_place(&mut b).unwrap();
        } else {
            solver.solve_in_place(&mut b).unwrap();
        }
        for (found, expected) in b.clone_as_vec().iter().zip([x, x].concat()) {
            assert!((found - expected).abs() < 1e-14, "{found} {expected}");
        }
    }
}

#[test]
fn a_singular_matrix_is_an_error_of_the_solve_until_the_next_linearisation() {
    let singular = op(2, &DIAGONAL, &[&[2.0, 0.0]]);
    let mut solver = linearised(&singular);
    let error = solver.solve(&vector(&[&[1.0, 1.0]])).unwrap_err();
    assert!(error.to_string().contains("singular"), "{error}");
    solver.set_linearisation(&op(2, &DIAGONAL, &[&[2.0, 1.0]]));
    let x = solver.solve(&vector(&[&[1.0, 1.0]])).unwrap();
    assert_eq!(x.clone_as_vec(), [0.5, 1.0]);
}

/// Integrates with both solvers: every point of the solution is within the tolerance, and the steps are as many.
fn integrates<E>((problem, solution): (OdeSolverProblem<E>, OdeSolverSolution<V>))
where
    E: OdeEquationsImplicit<M = M, V = V, T = f64, C = FaerContext>,
{
    let mut by_luge = problem.bdf::<LugeLu>().unwrap();
    let mut by_faer = problem.bdf::<FaerSparseLU<f64>>().unwrap();
    assert!(!solution.solution_points.is_empty());
    for point in &solution.solution_points {
        while by_luge.state().t.abs() < point.t.abs() {
            by_luge.step().unwrap();
        }
        while by_faer.state().t.abs() < point.t.abs() {
            by_faer.step().unwrap();
        }
        let y = by_luge.interpolate(point.t).unwrap();
        let (y, rtol, atol) = match problem.eqn.out() {
            Some(out) => (out.call(&y, point.t), solution.rtol, &solution.atol),
            None => (y, problem.rtol, &problem.atol),
        };
        let (y, expected, atol) = (
            y.clone_as_vec(),
            point.state.clone_as_vec(),
            atol.clone_as_vec(),
        );
        // In the norm that the integrator controls, with room for what errors of steps add up to.
        let n = y.len();
        let errors = (0..n).map(|i| {
            let scale = atol[i % atol.len()] + rtol * expected[i].abs();
            ((y[i] - expected[i]) / scale).powi(2)
        });
        let error = (errors.sum::<f64>() / n as f64).sqrt();
        assert!(error < 20.0, "at {}: {error}", point.t);
    }
    let steps = |steps: usize| steps as f64;
    let (luge, faer) = (
        steps(by_luge.get_statistics().number_of_steps),
        steps(by_faer.get_statistics().number_of_steps),
    );
    assert!((luge - faer).abs() <= 0.02 * faer, "{luge} {faer}");
}

#[test]
fn robertson_is_integrated() {
    integrates(robertson::robertson::<M>(false));
}

#[test]
fn heat2d_is_integrated() {
    integrates(heat2d::head2d_problem::<M, 10>());
}

#[test]
fn foodweb_is_integrated() {
    integrates(foodweb::foodweb_problem::<M, 10>());
}
