//! Luge as the linear solver of [diffsol](https://docs.rs/diffsol)'s implicit ODE and DAE methods.
//!
//! The pattern is analyzed once; the first linearisation factorizes, later ones refactorize with the old pivots.

use diffsol::matrix::MatrixCommon;
use diffsol::vector::VectorCommon;
use diffsol::{
    Context, FaerContext, FaerSparseMat, FaerVec, LaError, LaLinearOp, LinearSolver, Matrix, Vector,
};
use luge::{Analysis, Error, Factors, Options, Solver};

/// A sparse LU factorization for each batch of a matrix.
#[derive(Default)]
pub struct LugeLu {
    matrix: Option<FaerSparseMat<f64>>,
    analysis: Option<Result<Analysis<f64>, Error>>,
    factors: Vec<Result<Factors<f64>, Error>>,
}

impl LinearSolver<FaerSparseMat<f64>> for LugeLu {
    fn set_sparsity<C>(&mut self, op: &C)
    where
        C: LaLinearOp<T = f64, V = FaerVec<f64>, M = FaerSparseMat<f64>, C = FaerContext>,
    {
        let (rows, cols) = (op.nrows(), op.ncols());
        let matrix = C::M::new_from_sparsity(rows, cols, op.sparsity(), *op.context());
        let solver = Solver::new(Options::default());
        self.analysis = Some(solver.and_then(|s| s.analyze_pattern(&matrix.inner()[0])));
        self.matrix = Some(matrix);
        self.factors.clear();
    }

    fn set_linearisation<C>(&mut self, op: &C)
    where
        C: LaLinearOp<T = f64, V = FaerVec<f64>, M = FaerSparseMat<f64>, C = FaerContext>,
    {
        let (Some(matrix), Some(analysis)) = (&mut self.matrix, &self.analysis) else {
            panic!("the sparsity is set before the linearisation");
        };
        op.matrix_inplace(matrix);
        let mut old = std::mem::take(&mut self.factors).into_iter();
        let renew = |a| match (old.next(), analysis) {
            (Some(Ok(mut factors)), _) => factors.refactorize(a).map(|_| factors),
            (_, Ok(analysis)) => analysis.factorize(a),
            (_, Err(error)) => Err(error.clone()),
        };
        self.factors = matrix.inner().iter().map(renew).collect();
    }

    fn solve_in_place(&self, x: &mut FaerVec<f64>) -> Result<(), LaError> {
        self.solve_each(x, |factors, x| factors.solve_in_place(x).map(drop))
    }

    fn solve_transpose_in_place(&self, x: &mut FaerVec<f64>) -> Result<(), LaError> {
        self.solve_each(x, |factors, x| factors.solve_transpose_in_place(x).map(drop))
    }
}

impl LugeLu {
    /// Solves for each batch of `x`, of which as many in a row share a matrix as there are more batches than matrices.
    fn solve_each(
        &self,
        x: &mut FaerVec<f64>,
        solve: impl Fn(&Factors<f64>, &mut [f64]) -> Result<(), Error>,
    ) -> Result<(), LaError> {
        let failed = |error: &Error| LaError::Other(error.to_string());
        let (matrices, batches) = (self.factors.len(), x.inner().ncols());
        x.context().assert_broadcastable_into(matrices, "luge_solve");
        for batch in 0..batches {
            let factors = self.factors[batch * matrices / batches].as_ref().map_err(failed)?;
            solve(factors, x.inner_mut().col_as_slice_mut(batch)).map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}
