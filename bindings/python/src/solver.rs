//! Solver and analysis, as the Python module wraps them. They are private to the package: shapes, types and orders of arrays are
//! what `luge/_solver.py` made them.
//!
//! Whatever takes time runs with the interpreter detached.

use std::sync::RwLock;

use luge::device::Stream;
use luge::{Analysis, CancelFlag, Error, Index, Inform, MatrixRef, PatternRef};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{check_length, readable, with_indices};
use crate::batch::Batch;
use crate::device::Place;
use crate::errors::exception;
use crate::factors::PyFactors;
use crate::options;
use crate::progress::watched;
use crate::scalar::{AnyAnalysis, Number, ScalarType, by_type, of_any};

/// Options, a backend and threads.
#[pyclass(name = "Solver", module = "luge._luge", frozen)]
pub(crate) struct PySolver {
    solver: luge::Solver,
    /// What a caller raises to stop all calls; that of the solver is its child, which a call stops itself with.
    cancel: CancelFlag,
}

/// One analyzed pattern.
#[pyclass(name = "Analysis", module = "luge._luge", frozen)]
pub(crate) struct PyAnalysis {
    analysis: AnyAnalysis,
    scalar: ScalarType,
    /// Of the device, if the analysis is for one.
    pub(crate) stream: Option<Stream>,
    /// Of the solver.
    cancel: CancelFlag,
}

/// A report.
#[pyclass(name = "RawInform", module = "luge._luge", frozen)]
pub(crate) struct RawInform {
    inform: Inform,
}

impl RawInform {
    pub(crate) fn new(inform: Inform) -> Self {
        Self { inform }
    }
}

#[pymethods]
impl RawInform {
    /// All fields, as JSON.
    fn json(&self) -> String {
        self.inform.to_json()
    }

    /// What the warnings say.
    fn messages(&self) -> Vec<String> {
        self.inform
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect()
    }
}

/// Where the arrays of a matrix come from: its size, whether it is stored by columns, and the arrays.
#[derive(FromPyObject)]
pub(crate) struct Stored<'py>(
    usize,
    usize,
    bool,
    pub(crate) Bound<'py, PyAny>,
    pub(crate) Bound<'py, PyAny>,
    pub(crate) Bound<'py, PyAny>,
);

impl Stored<'_> {
    fn pattern<'a, I: Index>(&self, offsets: &'a [I], indices: &'a [I]) -> PatternRef<'a, I> {
        let &Self(rows, cols, by_columns, ..) = self;
        if by_columns {
            PatternRef::by_columns(rows, cols, offsets, indices)
        } else {
            PatternRef::by_rows(rows, cols, offsets, indices)
        }
    }

    pub(crate) fn matrix<'a, T, I: Index>(
        &self,
        offsets: &'a [I],
        indices: &'a [I],
        values: &'a [T],
    ) -> MatrixRef<'a, T, I> {
        let &Self(rows, cols, by_columns, ..) = self;
        if by_columns {
            MatrixRef::by_columns(rows, cols, offsets, indices, values)
        } else {
            MatrixRef::by_rows(rows, cols, offsets, indices, values)
        }
    }
}

#[pymethods]
impl PySolver {
    #[new]
    #[pyo3(signature = (keywords=None))]
    fn new(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let cancel = CancelFlag::new();
        let options = options::options(keywords)?.cancel(cancel.child());
        let solver = py.detach(|| luge::Solver::new(options));
        Ok(Self {
            solver: solver.map_err(|error| exception(py, &error))?,
            cancel,
        })
    }

    /// Raises the cancel flag, or lowers it.
    fn set_cancelled(&self, cancelled: bool) {
        if cancelled {
            self.cancel.cancel();
        } else {
            self.cancel.lower();
            self.solver.options().cancel.lower();
        }
    }

    /// Analyzes a matrix, or its pattern for matrices of this type.
    #[pyo3(signature = (stored, scalar, of_pattern=false, progress=None))]
    fn analyze(
        &self,
        py: Python<'_>,
        stored: Stored<'_>,
        scalar: ScalarType,
        of_pattern: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyAnalysis> {
        let analysis = by_type!(scalar, T => {
            T::of_analysis(self.analysis::<T>(py, &stored, of_pattern, progress)?)
        });
        let backend = of_any!(&analysis, |analysis| analysis.inform().backend);
        let stream = self.solver.stream().filter(|_| backend != "cpu").cloned();
        Ok(PyAnalysis {
            analysis,
            scalar,
            stream,
            cancel: self.solver.options().cancel.clone(),
        })
    }
}

impl PySolver {
    fn analysis<T: Number>(
        &self,
        py: Python<'_>,
        stored: &Stored<'_>,
        of_pattern: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Analysis<T>> {
        let solver = &self.solver;
        let cancel = &solver.options().cancel;
        if of_pattern {
            return with_indices!(&stored.3, &stored.4, |offsets, indices| {
                let pattern = stored.pattern(offsets, indices);
                watched(py, progress, cancel, || solver.analyze_pattern(pattern))
            });
        }
        let values = readable::<T>(&stored.5, "data")?;
        let values = values.as_slice()?;
        with_indices!(&stored.3, &stored.4, |offsets, indices| {
            let matrix = stored.matrix(offsets, indices, values);
            watched(py, progress, cancel, || solver.analyze(matrix))
        })
    }
}

#[pymethods]
impl PyAnalysis {
    /// Factorizes a matrix.
    #[pyo3(signature = (stored, progress=None))]
    fn factorize(
        &self,
        py: Python<'_>,
        stored: Stored<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyFactors> {
        by_type!(self.scalar, T => self.factorize_as::<T>(py, &stored, progress))
    }

    /// Factorizes the matrix with these values in the order of the analyzed one.
    #[pyo3(signature = (values, progress=None))]
    fn factorize_values(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyFactors> {
        by_type!(self.scalar, T => {
            let values = readable::<T>(values, "values")?;
            let values = values.as_slice()?;
            check_length(values.len(), self.nnz(), "values")?;
            self.factorize_numbers::<T>(py, values, progress)
        })
    }

    /// Likewise, for values on the device.
    #[pyo3(signature = (values, progress=None))]
    fn factorize_on_device(
        &self,
        py: Python<'_>,
        values: Place,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyFactors> {
        self.factorize_there(py, values, progress)
    }

    /// The number of the device and its stream, if data on one is taken.
    fn device(&self) -> Option<(usize, usize)> {
        let stream = self.stream.as_ref()?;
        let address = stream.driver_stream().map_or(0, |at| at.as_ptr() as usize);
        Some((stream.device().properties().ordinal, address))
    }

    /// Factorizes many matrices.
    fn factorize_batch(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        count: usize,
    ) -> PyResult<Batch> {
        Batch::new(py, self, values, count)
    }

    /// Likewise, for values on the device.
    fn factorize_batch_on_device(
        &self,
        py: Python<'_>,
        values: Place,
        count: usize,
    ) -> PyResult<Batch> {
        Batch::new_there(py, self, values, count)
    }

    fn inform(&self) -> RawInform {
        RawInform::new(of_any!(&self.analysis, |analysis| analysis
            .inform()
            .clone()))
    }
}

impl PyAnalysis {
    pub(crate) fn scalar(&self) -> ScalarType {
        self.scalar
    }

    pub(crate) fn typed<T: Number>(&self) -> &Analysis<T> {
        T::analysis(&self.analysis)
    }

    pub(crate) fn n(&self) -> usize {
        of_any!(&self.analysis, |analysis| analysis.inform().n)
    }

    pub(crate) fn nnz(&self) -> usize {
        of_any!(&self.analysis, |analysis| analysis.inform().nnz)
    }

    fn factorize_as<T: Number>(
        &self,
        py: Python<'_>,
        stored: &Stored<'_>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyFactors> {
        let analysis = self.typed::<T>();
        let values = readable::<T>(&stored.5, "data")?;
        let values = values.as_slice()?;
        let factors = with_indices!(&stored.3, &stored.4, |offsets, indices| {
            let matrix = stored.matrix(offsets, indices, values);
            watched(py, progress, &self.cancel, || analysis.factorize(matrix))
        });
        Ok(self.factors(factors?))
    }

    /// Factorizes the matrix with these values, which are as many as are stored.
    pub(crate) fn factorize_numbers<T: Number>(
        &self,
        py: Python<'_>,
        values: &[T],
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyFactors> {
        let analysis = self.typed::<T>();
        let factors = watched(py, progress, &self.cancel, || {
            analysis.factorize_values(values)
        });
        Ok(self.factors(factors?))
    }

    fn factors<T: Number>(&self, factors: luge::Factors<T>) -> PyFactors {
        PyFactors {
            factors: RwLock::new(T::of_factors(factors)),
            scalar: self.scalar,
            n: self.n(),
            nnz: self.nnz(),
            stream: self.stream.clone(),
        }
    }
}

/// A result of the solver, or the exception for its error.
pub(crate) fn raised<R>(py: Python<'_>, result: Result<R, Error>) -> PyResult<R> {
    result.map_err(|error| exception(py, &error))
}
