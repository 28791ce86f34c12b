//! What factors can do, whichever path computed them and in whichever type.

use std::sync::Arc;

use luge_solve::condition::inverse_norm1;
use luge_solve::scaled;
use luge_sparse::{ColPerm, RowPerm, Scalar, Scaling};

use crate::backend::DeviceCosts;
use crate::determinant::Determinant;
use crate::error::Error;

/// Permutations and scaling of one B = P·Dr·A·Dc·Q.
#[derive(Debug, Clone)]
pub(crate) struct Transform {
    pub row_perm: RowPerm,
    pub col_perm: ColPerm,
    pub scaling: Arc<Scaling>,
}

impl Transform {
    /// Solves with A through a solve with B: `solve` replaces right-hand sides of B, one after another,
    /// by solutions. `row_perm` may go on from [`row_perm`](Self::row_perm) to the rows of the factors.
    pub(crate) fn around<F: Scalar>(
        &self,
        row_perm: &RowPerm,
        b: &[f64],
        nrhs: usize,
        transpose: bool,
        solve: impl FnOnce(&mut [F]) -> Result<(), Error>,
    ) -> Result<Vec<f64>, Error> {
        let n = row_perm.len().max(1);
        let mut values: Vec<F> = Vec::with_capacity(b.len());
        let mut exponents = Vec::with_capacity(nrhs);
        for b in b.chunks_exact(n) {
            let c: scaled::Normalized<F> = if transpose {
                scaled::enter_cols(&self.col_perm, &self.scaling, b)
            } else {
                scaled::enter_rows(row_perm, &self.scaling, b)
            };
            values.extend(c.values);
            exponents.push(c.exponent);
        }
        solve(&mut values)?;
        let mut x = Vec::with_capacity(b.len());
        for (values, exponent) in values.chunks_exact(n).zip(exponents) {
            let y = scaled::Normalized {
                values: values.to_vec(),
                exponent,
            };
            x.extend(if transpose {
                scaled::leave_rows(row_perm, &self.scaling, &y)
            } else {
                scaled::leave_cols(&self.col_perm, &self.scaling, &y)
            });
        }
        Ok(x)
    }

    /// The determinant of A, given that of B with its rows in the order `row_perm`.
    pub(crate) fn undo_determinant(&self, row_perm: &RowPerm, product: Determinant) -> Determinant {
        let product = product.permuted(row_perm).permuted(&self.col_perm);
        let factors = self.scaling.rows.iter().chain(&self.scaling.cols);
        factors.fold(product, |product, &factor| product.over(factor))
    }
}

/// Factors that solve with A, their type hidden. Values and vectors are in `f64`.
pub(crate) trait Engine: Send + Sync {
    fn report(&self) -> FactorReport;

    /// Solves A·X = B or Aᵀ·X = B for `nrhs` right-hand sides one after another, without refinement.
    fn solve(&self, b: &[f64], nrhs: usize, transpose: bool) -> Result<Vec<f64>, Error>;

    /// Estimate of 1/(‖B‖₁·‖B⁻¹‖₁) for the matrix with the values `a` that was factorized.
    fn condition(&self, a: &[f64]) -> Result<Condition, Error>;

    /// The determinant of A.
    fn determinant(&self) -> Result<Determinant, Error>;
}

/// What factors tell of themselves.
#[derive(Debug, Clone, Default)]
pub(crate) struct FactorReport {
    pub num_perturbed: usize,
    /// As a column of A.
    pub first_perturbed: Option<usize>,
    pub num_off_diagonal: Option<usize>,
    pub num_delayed: Option<usize>,
    pub growth: f64,
    /// ε of the type of the factors.
    pub epsilon: f64,
    pub host_bytes: u64,
    /// Entries of L and of U, where they differ from what the analysis predicted.
    pub sizes: Option<(u64, u64)>,
    pub code_path: Vec<&'static str>,
    pub device: DeviceCosts,
}

/// How far B is from singular.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    /// 1/(‖B‖₁·‖B⁻¹‖₁), estimated from above.
    pub rcond: f64,
    /// The column of A that takes part most in what is nearly a dependence.
    pub column: usize,
    /// ε of the type of the factors.
    pub epsilon: f64,
}

impl Condition {
    /// Estimates it for B with the 1-norm `norm1`, given solves with B and its transpose.
    pub(crate) fn estimate<F: Scalar>(
        transform: &Transform,
        norm1: impl FnOnce() -> f64,
        solve: impl FnMut(&mut [f64]) -> Result<(), Error>,
        solve_transpose: impl FnMut(&mut [f64]) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let n = transform.row_perm.len();
        let epsilon = F::epsilon().to_f64();
        if n == 0 {
            return Ok(Self {
                rcond: 1.0,
                column: 0,
                epsilon,
            });
        }
        let inverse = inverse_norm1(n, solve, solve_transpose)?;
        Ok(Self {
            rcond: 1.0 / (norm1() * inverse.norm1),
            column: transform.col_perm.as_slice()[inverse.largest] as usize,
            epsilon,
        })
    }

    /// Refuses a matrix as singular to rounding if its reciprocal condition number is below `limit` ε.
    /// NaN, an overflow on the way, is not a condition that anything can be done with either.
    pub(crate) fn refuse_below(&self, limit: f64) -> Result<(), Error> {
        if self.rcond.is_nan() || self.rcond < limit * self.epsilon {
            return Err(Error::SingularToRounding {
                column: self.column,
                rcond: self.rcond,
            });
        }
        Ok(())
    }
}
