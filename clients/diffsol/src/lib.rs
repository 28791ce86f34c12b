//! Luge as the linear solver of [diffsol](https://docs.rs/diffsol)'s implicit ODE and DAE methods.
//!
//! The pattern is analyzed once; the first linearisation factorizes, later ones refactorize with the old pivots.

use diffsol_la::matrix::MatrixCommon;
use diffsol_la::vector::VectorCommon;
use diffsol_la::{Context, FaerContext, LaError, LinearOp, LinearSolver, Matrix, Vector};
use luge::{Analysis, Error, Factors, Options, Solver};

type M = diffsol_la::FaerSparseMat<f64>;
type V = diffsol_la::FaerVec<f64>;

/// A sparse LU factorization for each batch of a matrix.
#[derive(Default)]
pub struct LugeLu {
    matrix: Option<M>,
    analysis: Option<Result<Analysis<f64>, Error>>,
    factors: Vec<Result<Factors<f64>, Error>>,
}

impl LinearSolver<M> for LugeLu {
    fn set_sparsity<C: LinearOp<T = f64, V = V, M = M, C = FaerContext>>(&mut self, op: &C) {
        let matrix = M::new_from_sparsity(op.nrows(), op.ncols(), op.sparsity(), *op.context());
        let solver = Solver::new(Options::default());
        self.analysis = Some(solver.and_then(|s| s.analyze_pattern(&matrix.inner()[0])));
        self.matrix = Some(matrix);
        self.factors.clear();
    }

    fn set_linearisation<C: LinearOp<T = f64, V = V, M = M, C = FaerContext>>(&mut self, op: &C) {
        let matrix = self.matrix.as_mut().expect("the sparsity is set first");
        let analysis = self.analysis.as_ref().expect("the sparsity is set first");
        op.matrix_inplace(matrix);
        let mut old = std::mem::take(&mut self.factors).into_iter();
        let renew = |a| match (old.next(), analysis) {
            (Some(Ok(mut factors)), _) => factors.refactorize(a).map(|_| factors),
            (_, Ok(analysis)) => analysis.factorize(a),
            (_, Err(error)) => Err(error.clone()),
        };
        self.factors = matrix.inner().iter().map(renew).collect();
    }

    fn solve_in_place(&self, x: &mut V) -> Result<(), LaError> {
        self.solve_each(x, |factors, x| factors.solve_in_place(x).map(drop))
    }

    fn solve_transpose_in_place(&self, x: &mut V) -> Result<(), LaError> {
        self.solve_each(x, |factors, x| {
            factors.solve_transpose_in_place(x).map(drop)
        })
    }
}

impl LugeLu {
    /// Solves for each batch of `x`, of which as many in a row share a matrix as there are more batches than matrices.
    fn solve_each<F>(&self, x: &mut V, solve: F) -> Result<(), LaError>
    where
        F: Fn(&Factors<f64>, &mut [f64]) -> Result<(), Error>,
    {
        let failed = |error: &Error| LaError::Other(error.to_string());
        let (matrices, batches) = (self.factors.len(), x.inner().ncols());
        x.context()
            .assert_broadcastable_into(matrices, "luge_solve");
        for batch in 0..batches {
            let factors = self.factors[batch * matrices / batches].as_ref();
            let x = x.inner_mut().col_as_slice_mut(batch);
            solve(factors.map_err(failed)?, x).map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}
