//! Many matrices of one pattern.

use std::sync::{PoisonError, RwLock};

use luge::{Analysis, BatchFactors, Error};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays::{check_length, readable};
use crate::errors::{exception, make};
use crate::factors::{Either, RawInform, Renewed, of_either, renewed};

/// Factors of many matrices of one pattern. Systems that failed have an exception in place of a result.
#[pyclass(module = "luge._luge", frozen)]
pub(crate) struct Batch {
    factors: RwLock<Either<BatchFactors<f32>, BatchFactors<f64>>>,
    count: usize,
    n: usize,
    nnz: usize,
}

impl Batch {
    pub(crate) fn new(
        py: Python<'_>,
        analysis: &Either<Analysis<f32>, Analysis<f64>>,
        values: &Bound<'_, PyAny>,
        count: usize,
    ) -> PyResult<Self> {
        let (n, nnz) = of_either!(analysis, |analysis: T| {
            (analysis.inform().n, analysis.inform().nnz)
        });
        macro_rules! factorize {
            ($analysis:expr, $scalar:ty, $variant:ident) => {{
                let values = readable::<$scalar>(values, "values")?;
                let values = values.as_slice()?;
                check_length(values.len(), nnz.saturating_mul(count), "values")?;
                let factors = py.detach(|| $analysis.factorize_batch(values, count));
                Either::$variant(factors.map_err(|error| exception(py, &error))?)
            }};
        }
        let factors = match analysis {
            Either::Single(analysis) => factorize!(analysis, f32, Single),
            Either::Double(analysis) => factorize!(analysis, f64, Double),
        };
        Ok(Self {
            factors: RwLock::new(factors),
            count,
            n,
            nnz,
        })
    }
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.count
    }

    /// The report of a system, or an exception that is not raised.
    fn inform<'py>(&self, py: Python<'py>, system: usize) -> PyResult<Bound<'py, PyAny>> {
        if system >= self.count {
            return Err(pyo3::exceptions::PyIndexError::new_err(format!(
                "there is no system {system}; the batch has {}, counted from 0",
                self.count
            )));
        }
        let inform = py.detach(|| {
            let factors = self.factors.read().unwrap_or_else(PoisonError::into_inner);
            of_either!(&*factors, |f: T| f.inform(system).cloned())
        });
        match inform {
            Ok(inform) => Ok(Bound::new(py, RawInform::new(inform))?.into_any()),
            Err(error) => make(py, &error),
        }
    }

    /// For each system how its new values were factorized, or an exception.
    fn refactorize<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        macro_rules! refactorize {
            ($scalar:ty, $variant:ident) => {{
                let values = readable::<$scalar>(values, "values")?;
                let values = values.as_slice()?;
                check_length(values.len(), self.nnz.saturating_mul(self.count), "values")?;
                py.detach(|| {
                    let factors =
                        &mut *self.factors.write().unwrap_or_else(PoisonError::into_inner);
                    match factors {
                        Either::$variant(factors) => factors.refactorize(values),
                        _ => unreachable!("factors keep their type"),
                    }
                })
            }};
        }
        let outcomes = if self.is_single(py) {
            refactorize!(f32, Single)
        } else {
            refactorize!(f64, Double)
        };
        let outcome = |outcome: Result<_, Error>| match outcome {
            Ok(outcome) => {
                let outcome: Renewed = renewed(outcome);
                Ok(outcome.into_pyobject(py)?.into_any())
            }
            Err(error) => make(py, &error),
        };
        outcomes.into_iter().map(outcome).collect()
    }

    /// For each system its solutions and their report, or an exception.
    fn solve<'py>(
        &self,
        py: Python<'py>,
        b: &Bound<'py, PyAny>,
        nrhs: usize,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let expected = self.n.saturating_mul(nrhs).saturating_mul(self.count);
        macro_rules! solve {
            ($scalar:ty, $variant:ident) => {{
                let b = readable::<$scalar>(b, "b")?;
                let b = b.as_slice()?;
                check_length(b.len(), expected, "b")?;
                let solutions = py.detach(|| {
                    let factors = self.factors.read().unwrap_or_else(PoisonError::into_inner);
                    match &*factors {
                        Either::$variant(factors) => factors.solve(b, nrhs),
                        _ => unreachable!("factors keep their type"),
                    }
                });
                let solution = |solution: Result<luge::Solution<$scalar>, Error>| match solution {
                    Ok(solution) => {
                        let x = PyArray1::from_vec(py, solution.x);
                        let inform = RawInform::new(solution.inform);
                        Ok((x, inform).into_pyobject(py)?.into_any())
                    }
                    Err(error) => make(py, &error),
                };
                solutions.into_iter().map(solution).collect()
            }};
        }
        if self.is_single(py) {
            solve!(f32, Single)
        } else {
            solve!(f64, Double)
        }
    }
}

impl Batch {
    fn is_single(&self, py: Python<'_>) -> bool {
        py.detach(|| {
            let factors = self.factors.read().unwrap_or_else(PoisonError::into_inner);
            matches!(&*factors, Either::Single(_))
        })
    }
}
