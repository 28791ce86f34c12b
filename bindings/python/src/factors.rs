//! Solver, analysis and factors, as the Python module wraps them. They are private to the package: shapes, types and orders
//! of arrays are what `luge/_solver.py` made them.
//!
//! Whatever takes time runs with the interpreter detached. Factors are behind a lock, for another thread may solve with them
//! meanwhile; it is only taken while detached, or two threads could wait for each other.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use luge::device::Stream;
use luge::{
    Analysis, Error, Factors, Index, Inform, MatrixRef, PatternRef, RealScalar, Refactorized,
};
use numpy::{Element, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{check_length, readable, with_indices, writable};
use crate::batch::Batch;
use crate::device::{Accuracy, OnDevice, Place};
use crate::errors::exception;
use crate::options;

/// Something for matrices of either type.
pub(crate) enum Either<S, D> {
    Single(S),
    Double(D),
}

/// Evaluates `$body` with what is in `$either`, whichever type it is of, `$scalar` being that of the matrix.
macro_rules! of_either {
    ($either:expr, |$inner:ident: $scalar:ident| $body:expr) => {
        match $either {
            $crate::factors::Either::Single($inner) => {
                #[allow(dead_code, reason = "not every body names it")]
                type $scalar = f32;
                $body
            }
            $crate::factors::Either::Double($inner) => {
                #[allow(dead_code, reason = "not every body names it")]
                type $scalar = f64;
                $body
            }
        }
    };
}
pub(crate) use of_either;

/// Options, a backend and threads.
#[pyclass(name = "Solver", module = "luge._luge", frozen)]
pub(crate) struct PySolver {
    pub(crate) solver: luge::Solver,
}

/// One analyzed pattern.
#[pyclass(name = "Analysis", module = "luge._luge", frozen)]
pub(crate) struct PyAnalysis {
    pub(crate) analysis: Either<Analysis<f32>, Analysis<f64>>,
    /// Of the device, if the analysis is for one.
    pub(crate) stream: Option<Stream>,
}

/// Factors of one matrix.
#[pyclass(name = "Factors", module = "luge._luge", frozen)]
pub(crate) struct PyFactors {
    pub(crate) factors: RwLock<Either<Factors<f32>, Factors<f64>>>,
    pub(crate) nnz: usize,
    pub(crate) stream: Option<Stream>,
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
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
);

fn pattern_ref<'a, I: Index>(
    stored: &Stored<'_>,
    offsets: &'a [I],
    indices: &'a [I],
) -> PatternRef<'a, I> {
    let &Stored(rows, cols, by_columns, ..) = stored;
    if by_columns {
        PatternRef::by_columns(rows, cols, offsets, indices)
    } else {
        PatternRef::by_rows(rows, cols, offsets, indices)
    }
}

fn matrix_ref<'a, T, I: Index>(
    stored: &Stored<'_>,
    offsets: &'a [I],
    indices: &'a [I],
    values: &'a [T],
) -> MatrixRef<'a, T, I> {
    let &Stored(rows, cols, by_columns, ..) = stored;
    if by_columns {
        MatrixRef::by_columns(rows, cols, offsets, indices, values)
    } else {
        MatrixRef::by_rows(rows, cols, offsets, indices, values)
    }
}

#[pymethods]
impl PySolver {
    #[new]
    #[pyo3(signature = (keywords=None))]
    fn new(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = options::options(keywords)?;
        let solver = py.detach(|| luge::Solver::new(options));
        Ok(Self {
            solver: solver.map_err(|error| exception(py, &error))?,
        })
    }

    /// Raises the cancel flag, or lowers it.
    fn set_cancelled(&self, cancelled: bool) {
        let flag = &self.solver.options().cancel;
        if cancelled {
            flag.cancel();
        } else {
            flag.lower();
        }
    }

    /// Analyzes a matrix, or its pattern for matrices of `float32` if `is_single`.
    #[pyo3(signature = (stored, of_pattern=false, is_single=false))]
    fn analyze(
        &self,
        py: Python<'_>,
        stored: Stored<'_>,
        of_pattern: bool,
        is_single: bool,
    ) -> PyResult<PyAnalysis> {
        let analysis = if is_single {
            Either::Single(self.analysis(py, &stored, of_pattern)?)
        } else {
            Either::Double(self.analysis(py, &stored, of_pattern)?)
        };
        let backend = of_either!(&analysis, |analysis: T| analysis.inform().backend);
        let stream = self.solver.stream().filter(|_| backend != "cpu").cloned();
        Ok(PyAnalysis { analysis, stream })
    }
}

impl PySolver {
    fn analysis<T: RealScalar + Element>(
        &self,
        py: Python<'_>,
        stored: &Stored<'_>,
        of_pattern: bool,
    ) -> PyResult<Analysis<T>> {
        let solver = &self.solver;
        let analysis = if of_pattern {
            with_indices!(&stored.3, &stored.4, |offsets, indices| {
                let pattern = pattern_ref(stored, offsets, indices);
                Ok(py.detach(|| solver.analyze_pattern(pattern)))
            })
        } else {
            let values = readable::<T>(&stored.5, "data")?;
            let values = values.as_slice()?;
            with_indices!(&stored.3, &stored.4, |offsets, indices| {
                let matrix = matrix_ref(stored, offsets, indices, values);
                Ok(py.detach(|| solver.analyze(matrix)))
            })
        };
        analysis?.map_err(|error| exception(py, &error))
    }
}

#[pymethods]
impl PyAnalysis {
    /// Factorizes a matrix.
    fn factorize(&self, py: Python<'_>, stored: Stored<'_>) -> PyResult<PyFactors> {
        let factors = match &self.analysis {
            Either::Single(analysis) => Either::Single(factorize(py, analysis, &stored)?),
            Either::Double(analysis) => Either::Double(factorize(py, analysis, &stored)?),
        };
        Ok(self.factors(factors))
    }

    /// Factorizes the matrix with these values in the order of the analyzed one.
    fn factorize_values(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<PyFactors> {
        let factors = match &self.analysis {
            Either::Single(analysis) => Either::Single(factorize_values(py, analysis, values)?),
            Either::Double(analysis) => Either::Double(factorize_values(py, analysis, values)?),
        };
        Ok(self.factors(factors))
    }

    /// Likewise, for values on the device.
    fn factorize_on_device(&self, py: Python<'_>, values: Place) -> PyResult<PyFactors> {
        self.factorize_there(py, values)
    }

    /// Whether data on a device is taken.
    fn is_on_device(&self) -> bool {
        self.stream.is_some()
    }

    /// Factorizes many matrices.
    fn factorize_batch(
        &self,
        py: Python<'_>,
        values: &Bound<'_, PyAny>,
        count: usize,
    ) -> PyResult<Batch> {
        Batch::new(py, &self.analysis, values, count)
    }

    fn inform(&self) -> RawInform {
        RawInform::new(of_either!(&self.analysis, |analysis: T| analysis
            .inform()
            .clone()))
    }
}

impl PyAnalysis {
    fn factors(&self, factors: Either<Factors<f32>, Factors<f64>>) -> PyFactors {
        PyFactors {
            factors: RwLock::new(factors),
            nnz: of_either!(&self.analysis, |analysis: T| analysis.inform().nnz),
            stream: self.stream.clone(),
        }
    }

    /// Factorizes the matrix with these values, which are as many as are stored.
    pub(crate) fn factorize_numbers(&self, py: Python<'_>, values: &[f64]) -> PyResult<PyFactors> {
        let factors = py.detach(|| match &self.analysis {
            Either::Single(analysis) => {
                let values: Vec<f32> = values.iter().map(|&v| v as f32).collect();
                analysis.factorize_values(&values).map(Either::Single)
            }
            Either::Double(analysis) => analysis.factorize_values(values).map(Either::Double),
        });
        let factors = factors.map_err(|error| exception(py, &error))?;
        Ok(self.factors(factors))
    }
}

fn factorize<T: RealScalar + Element>(
    py: Python<'_>,
    analysis: &Analysis<T>,
    stored: &Stored<'_>,
) -> PyResult<Factors<T>> {
    let values = readable::<T>(&stored.5, "data")?;
    let values = values.as_slice()?;
    let factors = with_indices!(&stored.3, &stored.4, |offsets, indices| {
        let matrix = matrix_ref(stored, offsets, indices, values);
        Ok(py.detach(|| analysis.factorize(matrix)))
    });
    factors?.map_err(|error| exception(py, &error))
}

fn factorize_values<T: RealScalar + Element>(
    py: Python<'_>,
    analysis: &Analysis<T>,
    values: &Bound<'_, PyAny>,
) -> PyResult<Factors<T>> {
    let values = readable::<T>(values, "values")?;
    let values = values.as_slice()?;
    check_length(values.len(), analysis.inform().nnz, "values")?;
    let factors = py.detach(|| analysis.factorize_values(values));
    factors.map_err(|error| exception(py, &error))
}

impl PyFactors {
    /// Only while the interpreter is detached.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Either<Factors<f32>, Factors<f64>>> {
        self.factors.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Likewise.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Either<Factors<f32>, Factors<f64>>> {
        self.factors.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `of` tells of the factors.
    fn tell<R: Send>(
        &self,
        py: Python<'_>,
        of: impl FnOnce(&Either<Factors<f32>, Factors<f64>>) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let told = py.detach(|| of(&self.read()));
        told.map_err(|error| exception(py, &error))
    }

    fn is_single(&self, py: Python<'_>) -> bool {
        py.detach(|| matches!(&*self.read(), Either::Single(_)))
    }
}

/// How new values were factorized: whether the old pivots were kept, why not, growth and backward error.
pub(crate) type Renewed = (bool, Option<String>, f64, Option<f64>);

pub(crate) fn renewed(outcome: Refactorized) -> Renewed {
    match outcome {
        Refactorized::Reused {
            growth,
            backward_error,
        } => (true, None, growth, backward_error),
        Refactorized::Repivoted {
            reason,
            growth,
            backward_error,
        } => (false, Some(reason), growth, backward_error),
    }
}

#[pymethods]
impl PyFactors {
    pub(crate) fn n(&self, py: Python<'_>) -> usize {
        py.detach(|| of_either!(&*self.read(), |factors: T| factors.n()))
    }

    fn inform(&self, py: Python<'_>) -> RawInform {
        let inform = py.detach(|| of_either!(&*self.read(), |factors: T| factors.inform().clone()));
        RawInform::new(inform)
    }

    /// Factorizes another matrix.
    fn refactorize(&self, py: Python<'_>, stored: Stored<'_>) -> PyResult<Renewed> {
        if self.is_single(py) {
            refactorize::<f32>(py, self, &stored)
        } else {
            refactorize::<f64>(py, self, &stored)
        }
    }

    /// Factorizes other values in the order of the analyzed matrix.
    fn refactorize_values(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<Renewed> {
        if self.is_single(py) {
            refactorize_values::<f32>(py, self, values)
        } else {
            refactorize_values::<f64>(py, self, values)
        }
    }

    /// Likewise, for values on the device, which stay there.
    fn refactorize_on_device(&self, py: Python<'_>, values: Place) -> PyResult<Renewed> {
        if self.is_single(py) {
            self.refactorize_there::<f32>(py, values)
        } else {
            self.refactorize_there::<f64>(py, values)
        }
    }

    /// Solves for right-hand sides on the device, of this shape: a new array unless `x` is a place for the solutions; how good
    /// they are if they are not refined, else their report.
    fn solve_on_device(
        &self,
        py: Python<'_>,
        b: Place,
        x: Option<Place>,
        shape: Vec<usize>,
        transpose: bool,
        refine: bool,
    ) -> PyResult<OnDevice> {
        if self.is_single(py) {
            self.solve_there::<f32>(py, b, x, shape, transpose, refine)
        } else {
            self.solve_there::<f64>(py, b, x, shape, transpose, refine)
        }
    }

    /// The threshold of a new factorization with a stricter one.
    fn raise_threshold(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let raised =
            py.detach(|| of_either!(&mut *self.write(), |factors: T| factors.raise_threshold()));
        raised.map_err(|error| exception(py, &error))
    }

    /// Replaces right-hand sides, one after another, by solutions: backward error, whether it was measured, steps.
    fn solve_in_place(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        transpose: bool,
    ) -> PyResult<Accuracy> {
        if self.is_single(py) {
            solve_in_place::<f32>(py, self, x, transpose)
        } else {
            solve_in_place::<f64>(py, self, x, transpose)
        }
    }

    /// Solves for `nrhs` right-hand sides, one after another, measures and refines.
    fn solve<'py>(
        &self,
        py: Python<'py>,
        b: &Bound<'py, PyAny>,
        nrhs: usize,
        transpose: bool,
    ) -> PyResult<(Bound<'py, PyAny>, RawInform)> {
        if self.is_single(py) {
            solve::<f32>(py, self, b, nrhs, transpose)
        } else {
            solve::<f64>(py, self, b, nrhs, transpose)
        }
    }

    /// Positive, negative and zero eigenvalues.
    fn inertia(&self, py: Python<'_>) -> PyResult<Option<(usize, usize, usize)>> {
        let inertia = self.tell(py, |factors| Ok(of_either!(factors, |f: T| f.inertia())))?;
        Ok(inertia.map(|counts| (counts.positive, counts.negative, counts.zero)))
    }

    /// Mantissa, exponent, the value and the logarithm of its magnitude.
    fn determinant(&self, py: Python<'_>) -> PyResult<(f64, i64, f64, f64)> {
        let found = self.tell(py, |factors| of_either!(factors, |f: T| f.determinant()))?;
        Ok((
            found.mantissa,
            found.exponent,
            found.value(),
            found.log10_abs(),
        ))
    }

    fn rcond(&self, py: Python<'_>) -> PyResult<f64> {
        self.tell(py, |factors| of_either!(factors, |f: T| f.rcond()))
    }

    fn perturbed_columns(&self, py: Python<'_>) -> PyResult<Option<Vec<usize>>> {
        self.tell(py, |factors| {
            Ok(of_either!(factors, |f: T| f.perturbed_columns()))
        })
    }

    /// Row and column of A of each pivot, and offsets, indices and values of L and of U by columns; nothing for symmetric
    /// factors, and for those on a device.
    #[allow(clippy::type_complexity, reason = "a tuple for Python")]
    fn lower_upper<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<
        Option<(
            Bound<'py, PyArray1<u32>>,
            Bound<'py, PyArray1<u32>>,
            Arrays<'py>,
            Arrays<'py>,
        )>,
    > {
        if self.is_single(py) {
            lower_upper::<f32>(py, self)
        } else {
            lower_upper::<f64>(py, self)
        }
    }
}

/// Offsets, indices and values.
type Arrays<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyAny>,
);

/// Scalars whose factors are in [`Either`].
pub(crate) trait Precision: RealScalar + Element {
    fn of(either: &Either<Factors<f32>, Factors<f64>>) -> &Factors<Self>;
    fn of_mut(either: &mut Either<Factors<f32>, Factors<f64>>) -> &mut Factors<Self>;
}

macro_rules! precision {
    ($scalar:ty, $variant:ident) => {
        impl Precision for $scalar {
            fn of(either: &Either<Factors<f32>, Factors<f64>>) -> &Factors<Self> {
                match either {
                    Either::$variant(factors) => factors,
                    _ => unreachable!("factors keep their type"),
                }
            }

            fn of_mut(either: &mut Either<Factors<f32>, Factors<f64>>) -> &mut Factors<Self> {
                match either {
                    Either::$variant(factors) => factors,
                    _ => unreachable!("factors keep their type"),
                }
            }
        }
    };
}
precision!(f32, Single);
precision!(f64, Double);

fn refactorize<T: Precision>(
    py: Python<'_>,
    factors: &PyFactors,
    stored: &Stored<'_>,
) -> PyResult<Renewed> {
    let values = readable::<T>(&stored.5, "data")?;
    let values = values.as_slice()?;
    let outcome = with_indices!(&stored.3, &stored.4, |offsets, indices| {
        let matrix = matrix_ref(stored, offsets, indices, values);
        Ok(py.detach(|| T::of_mut(&mut factors.write()).refactorize(matrix)))
    });
    let outcome = outcome?.map_err(|error| exception(py, &error))?;
    Ok(renewed(outcome))
}

fn refactorize_values<T: Precision>(
    py: Python<'_>,
    factors: &PyFactors,
    values: &Bound<'_, PyAny>,
) -> PyResult<Renewed> {
    let values = readable::<T>(values, "values")?;
    let values = values.as_slice()?;
    check_length(values.len(), factors.nnz, "values")?;
    let outcome = py.detach(|| T::of_mut(&mut factors.write()).refactorize_values(values));
    Ok(renewed(outcome.map_err(|error| exception(py, &error))?))
}

fn solve_in_place<T: Precision>(
    py: Python<'_>,
    factors: &PyFactors,
    x: &Bound<'_, PyAny>,
    transpose: bool,
) -> PyResult<Accuracy> {
    let mut x = writable::<T>(x, "b")?;
    let x = x.as_slice_mut()?;
    let n = factors.n(py);
    if !x.len().is_multiple_of(n) {
        return Err(PyValueError::new_err("b is of incompatible size"));
    }
    let accuracy = py.detach(|| {
        let factors = factors.read();
        let factors = T::of(&factors);
        if transpose {
            factors.solve_transpose_in_place(x)
        } else {
            factors.solve_in_place(x)
        }
    });
    let accuracy = accuracy.map_err(|error| exception(py, &error))?;
    Ok((
        accuracy.backward_error,
        accuracy.is_measured,
        accuracy.refinement_steps,
    ))
}

fn solve<'py, T: Precision>(
    py: Python<'py>,
    factors: &PyFactors,
    b: &Bound<'py, PyAny>,
    nrhs: usize,
    transpose: bool,
) -> PyResult<(Bound<'py, PyAny>, RawInform)> {
    let b = readable::<T>(b, "b")?;
    let b = b.as_slice()?;
    check_length(b.len(), factors.n(py).saturating_mul(nrhs), "b")?;
    let solution = py.detach(|| {
        let factors = factors.read();
        let factors = T::of(&factors);
        if transpose {
            factors.solve_transpose_many(b, nrhs)
        } else {
            factors.solve_many(b, nrhs)
        }
    });
    let solution = solution.map_err(|error| exception(py, &error))?;
    let x = PyArray1::from_vec(py, solution.x).into_any();
    Ok((x, RawInform::new(solution.inform)))
}

#[allow(clippy::type_complexity, reason = "as the method")]
fn lower_upper<'py, T: Precision>(
    py: Python<'py>,
    factors: &PyFactors,
) -> PyResult<
    Option<(
        Bound<'py, PyArray1<u32>>,
        Bound<'py, PyArray1<u32>>,
        Arrays<'py>,
        Arrays<'py>,
    )>,
> {
    let parts = py.detach(|| T::of(&factors.read()).lower_upper());
    let Some(parts) = parts.map_err(|error| exception(py, &error))? else {
        return Ok(None);
    };
    let arrays = |matrix: luge::sprs::CsMat<T>| {
        let (offsets, indices, values) = matrix.into_raw_storage();
        let integers =
            |numbers: Vec<usize>| PyArray1::from_iter(py, numbers.into_iter().map(|i| i as i64));
        (
            integers(offsets),
            integers(indices),
            PyArray1::from_vec(py, values).into_any(),
        )
    };
    Ok(Some((
        PyArray1::from_slice(py, parts.row_perm.as_slice()),
        PyArray1::from_slice(py, parts.col_perm.as_slice()),
        arrays(parts.l),
        arrays(parts.u),
    )))
}
