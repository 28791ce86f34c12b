//! Many matrices of one pattern.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use luge::device::Stream;
use luge::{Error, Refactorized};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays::{check_length, readable, writable};
use crate::device::{Accuracy, BatchOnDevice, Layout, Place, on_cpu, shown};
use crate::errors::{exception, make};
use crate::factors::{Renewed, renewed};
use crate::scalar::{AnyBatch, Number, ScalarType, by_real_type, by_type, of_any};
use crate::solver::{PyAnalysis, RawInform};

/// Factors of many matrices of one pattern. Systems that failed have an exception in place of a result.
#[pyclass(module = "luge._luge", frozen)]
pub(crate) struct Batch {
    factors: RwLock<AnyBatch>,
    scalar: ScalarType,
    pub(crate) count: usize,
    pub(crate) n: usize,
    pub(crate) nnz: usize,
    pub(crate) stream: Option<Stream>,
}

impl Batch {
    pub(crate) fn new(
        py: Python<'_>,
        analysis: &PyAnalysis,
        values: &Bound<'_, PyAny>,
        count: usize,
    ) -> PyResult<Self> {
        by_type!(analysis.scalar(), T => {
            let values = readable::<T>(values, "values")?;
            let values = values.as_slice()?;
            check_length(values.len(), analysis.nnz().saturating_mul(count), "values")?;
            let typed = analysis.typed::<T>();
            let factors = py.detach(|| typed.factorize_batch(values, count));
            Self::of::<T>(py, analysis, factors, count)
        })
    }

    pub(crate) fn of<T: Number>(
        py: Python<'_>,
        analysis: &PyAnalysis,
        factors: Result<luge::BatchFactors<T>, Error>,
        count: usize,
    ) -> PyResult<Self> {
        let factors = factors.map_err(|error| exception(py, &error))?;
        Ok(Self {
            factors: RwLock::new(T::of_batch(factors)),
            scalar: analysis.scalar(),
            count,
            n: analysis.n(),
            nnz: analysis.nnz(),
            stream: analysis.stream.clone(),
        })
    }

    /// Only while the interpreter is detached.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, AnyBatch> {
        self.factors.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Likewise.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, AnyBatch> {
        self.factors.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For each system what `show` makes of its result, or an exception that is not raised.
pub(crate) fn each<'py, R>(
    py: Python<'py>,
    results: Vec<Result<R, Error>>,
    show: impl Fn(R) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let results = results.into_iter().map(|result| match result {
        Ok(result) => show(result),
        Err(error) => make(py, &error),
    });
    results.collect()
}

pub(crate) fn outcomes<'py>(
    py: Python<'py>,
    results: Vec<Result<Refactorized, Error>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    each(py, results, |outcome| {
        let outcome: Renewed = renewed(outcome);
        Ok(outcome.into_pyobject(py)?.into_any())
    })
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
        let inform = py.detach(|| of_any!(&*self.read(), |f| f.inform(system).cloned()));
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
        let expected = self.nnz.saturating_mul(self.count);
        by_type!(self.scalar, T => {
            let values = readable::<T>(values, "values")?;
            let values = values.as_slice()?;
            check_length(values.len(), expected, "values")?;
            let results = py.detach(|| T::batch_mut(&mut self.write()).refactorize(values));
            outcomes(py, results)
        })
    }

    /// Likewise, for values on the device, which stay there.
    fn refactorize_on_device<'py>(
        &self,
        py: Python<'py>,
        values: Place,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        by_real_type!(self.scalar, T => self.refactorize_there::<T>(py, values), else Err(on_cpu()))
    }

    /// For each system its solutions and their report, or an exception.
    fn solve<'py>(
        &self,
        py: Python<'py>,
        b: &Bound<'py, PyAny>,
        nrhs: usize,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let expected = self.n.saturating_mul(nrhs).saturating_mul(self.count);
        by_type!(self.scalar, T => {
            let b = readable::<T>(b, "b")?;
            let b = b.as_slice()?;
            check_length(b.len(), expected, "b")?;
            let solutions = py.detach(|| T::batch(&self.read()).solve(b, nrhs));
            each(py, solutions, |solution: luge::Solution<T>| {
                let x = PyArray1::from_vec(py, solution.x);
                let inform = RawInform::new(solution.inform);
                Ok((x, inform).into_pyobject(py)?.into_any())
            })
        })
    }

    /// Replaces right-hand sides by solutions. For each system how good these are, or an exception.
    fn solve_in_place<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        nrhs: usize,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let expected = self.n.saturating_mul(nrhs).saturating_mul(self.count);
        by_type!(self.scalar, T => {
            let mut x = writable::<T>(x, "b")?;
            let x = x.as_slice_mut()?;
            check_length(x.len(), expected, "b")?;
            let solved = py.detach(|| T::batch(&self.read()).solve_in_place(x, nrhs, false));
            each(py, solved, |accuracy| {
                let accuracy: Accuracy = shown(accuracy);
                Ok(accuracy.into_pyobject(py)?.into_any())
            })
        })
    }

    /// Solves for right-hand sides on the device, of this shape and with these strides in bytes: a new array unless `x` is a
    /// place for the solutions. For each system how good these are, or their report if they are refined, or an exception; the
    /// solutions of such a system are not numbers.
    fn solve_on_device<'py>(
        &self,
        py: Python<'py>,
        b: Place,
        x: Option<Place>,
        layout: Layout,
        nrhs: usize,
        refine: bool,
    ) -> PyResult<BatchOnDevice<'py>> {
        by_real_type!(
            self.scalar,
            T => self.solve_there::<T>(py, (b, x), layout, nrhs, refine),
            else Err(on_cpu())
        )
    }
}
