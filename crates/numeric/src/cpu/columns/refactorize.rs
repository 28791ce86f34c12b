//! New values on a known pattern, with the pivots of a finished factorization.

use luge_sparse::{CompressedPattern, Quality, Scalar};

use super::check::{ColumnCheck, Report, Sums, weight};
use super::factorize::smallest_pivot;
use super::{ColumnLu, Options};
use crate::error::NumericError;

/// What [`ColumnLu::refactorize`] keeps from call to call.
#[derive(Debug, Clone)]
pub(super) struct Plan<F> {
    /// The row of L·U that each row of B is.
    final_row: Vec<u32>,
    /// All zero between columns.
    work: Vec<F>,
    sums: Vec<Sums>,
}

impl<F: Scalar> Plan<F> {
    fn new(lu: &ColumnLu<F>) -> Self {
        Self {
            final_row: lu.row_perm.inverse(),
            work: vec![F::zero(); lu.n()],
            sums: vec![Sums::default(); lu.n()],
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        (size_of_val(&*self.final_row) + size_of_val(&*self.work) + size_of_val(&*self.sums)) as u64
    }
}

impl<F: Scalar> ColumnLu<F> {
    /// Factorizes new values on the pattern and the pivots of this factorization, in place.
    ///
    /// `cols` is the pattern that was factorized. The first call allocates what later calls use. With
    /// `options.static_pivots`, tiny pivots are replaced as in `factorize`; without, they stay as they
    /// come, and the report tells what that did: a value that is not finite makes its growth NaN or
    /// infinite.
    ///
    /// # Errors
    ///
    /// [`NumericError::ZeroPivot`] with the first column whose pivot is zero;
    /// [`NumericError::Cancelled`]. The values of the factors are then unspecified until the next
    /// successful call.
    ///
    /// # Panics
    ///
    /// If `cols` or `values` differ from what was factorized in order or number of entries.
    #[track_caller]
    pub fn refactorize(
        &mut self,
        cols: &CompressedPattern,
        values: &[F],
        options: &Options,
    ) -> Result<Quality, NumericError> {
        let n = self.n();
        assert_eq!(n, cols.major_dim(), "another matrix was factorized");
        assert_eq!(n, cols.minor_dim(), "another matrix was factorized");
        assert_eq!(cols.nnz(), values.len(), "one value for each entry of B");
        let smallest = smallest_pivot(values, options.static_pivots);
        let mut plan = match self.plan.take() {
            Some(plan) => plan,
            None => Box::new(Plan::new(self)),
        };
        let result = self.columns(&mut plan, cols, values, smallest, options);
        self.plan = Some(plan);
        result
    }

    fn columns(
        &mut self,
        plan: &mut Plan<F>,
        cols: &CompressedPattern,
        values: &[F],
        smallest: F,
        options: &Options,
    ) -> Result<Quality, NumericError> {
        let n = self.n();
        let mut report = Report::new();
        report.0.num_off_diagonal = self.num_off_diagonal;
        let work = &mut plan.work;
        let mut zero_pivot = None;
        for j in 0..n {
            if j % 256 == 0 {
                options.cancel.check()?;
            }
            let mut check = ColumnCheck::default();
            for (&i, &value) in cols.lane(j).iter().zip(&values[cols.range(j)]) {
                let i = plan.final_row[i as usize];
                work[i as usize] = value;
                check.entry(i, value.to_f64());
            }
            for p in self.upper.range(j) {
                let k = self.upper.idx[p] as usize;
                let u = std::mem::take(&mut work[k]);
                self.upper.values[p] = u;
                check.upper(plan.sums[k], u.to_f64());
                let (rows, below) = self.lower.column(k);
                for (&i, &l) in rows.iter().zip(below) {
                    work[i as usize] -= l * u;
                }
            }
            let mut pivot = std::mem::take(&mut work[j]);
            if pivot.abs() < smallest {
                pivot = if pivot < F::zero() {
                    -smallest
                } else {
                    smallest
                };
                report.perturbed(j);
            }
            if pivot == F::zero() {
                zero_pivot.get_or_insert(j);
            }
            let mut sum = Sums {
                magnitude: 1.0,
                weighted: weight(j as u32),
            };
            for p in self.lower.range(j) {
                let i = self.lower.idx[p];
                let l = std::mem::take(&mut work[i as usize]) / pivot;
                self.lower.values[p] = l;
                sum.magnitude += l.to_f64().abs();
                sum.weighted += weight(i) * l.to_f64();
            }
            check.upper(sum, pivot.to_f64());
            report.column(j, &check, pivot.to_f64());
            report.pivot_ratio(pivot.to_f64().abs() / self.pivots[j].to_f64().abs());
            self.pivots[j] = pivot;
            plan.sums[j] = sum;
        }
        match zero_pivot {
            Some(column) => Err(NumericError::ZeroPivot { column }),
            None => Ok(report.finish(n)),
        }
    }
}
