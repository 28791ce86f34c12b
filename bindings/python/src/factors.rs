//! Factors, as the Python module wraps them. They are private to the package: shapes, types and orders of arrays are what
//! `luge/_solver.py` made them.
//!
//! Whatever takes time runs with the interpreter detached. Factors are behind a lock, for another thread may solve with them
//! meanwhile; it is only taken while detached, or two threads could wait for each other.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use luge::device::Stream;
use luge::{Determinant, Error, Refactorized, Scalar};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyComplex;

use crate::arrays::{check_length, readable, with_indices, writable};
use crate::device::{Accuracy, OnDevice, Place, on_cpu, shown};
use crate::scalar::{AnyFactors, Number, ScalarType, by_real_type, by_type, of_any};
use crate::solver::{RawInform, Stored, raised};

/// Factors of one matrix.
#[pyclass(name = "Factors", module = "luge._luge", frozen)]
pub(crate) struct PyFactors {
    pub(crate) factors: RwLock<AnyFactors>,
    pub(crate) scalar: ScalarType,
    pub(crate) n: usize,
    pub(crate) nnz: usize,
    pub(crate) stream: Option<Stream>,
}

/// What to solve with: the matrix, its transpose, or its conjugate transpose.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Plain,
    Transpose,
    Adjoint,
}

impl<'py> FromPyObject<'_, 'py> for Operation {
    type Error = PyErr;

    /// From the letter of BLAS.
    fn extract(letter: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match letter.extract::<char>()? {
            'N' => Ok(Self::Plain),
            'T' => Ok(Self::Transpose),
            'H' => Ok(Self::Adjoint),
            _ => Err(PyValueError::new_err("trans must be N, T, or H")),
        }
    }
}

impl Operation {
    /// Whether a real matrix is transposed, whose conjugate transpose is its transpose.
    pub(crate) fn transposes(self) -> bool {
        self != Self::Plain
    }
}

impl PyFactors {
    /// Only while the interpreter is detached.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, AnyFactors> {
        self.factors.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Likewise.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, AnyFactors> {
        self.factors.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `of` tells of the factors.
    fn tell<R: Send>(
        &self,
        py: Python<'_>,
        of: impl FnOnce(&AnyFactors) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let told = py.detach(|| of(&self.read()));
        raised(py, told)
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
    fn n(&self) -> usize {
        self.n
    }

    fn inform(&self, py: Python<'_>) -> RawInform {
        let inform = py.detach(|| of_any!(&*self.read(), |factors| factors.inform().clone()));
        RawInform::new(inform)
    }

    /// Factorizes another matrix.
    fn refactorize(&self, py: Python<'_>, stored: Stored<'_>) -> PyResult<Renewed> {
        by_type!(self.scalar, T => refactorize::<T>(py, self, &stored))
    }

    /// Factorizes other values in the order of the analyzed matrix.
    fn refactorize_values(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<Renewed> {
        by_type!(self.scalar, T => refactorize_values::<T>(py, self, values))
    }

    /// Factorizes the last values but for some of them.
    fn refactorize_changed(
        &self,
        py: Python<'_>,
        places: Vec<usize>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<Renewed> {
        by_type!(self.scalar, T => refactorize_changed::<T>(py, self, &places, values))
    }

    /// Factorizes values on the device, which stay there.
    fn refactorize_on_device(&self, py: Python<'_>, values: Place) -> PyResult<Renewed> {
        by_real_type!(self.scalar, T => self.refactorize_there::<T>(py, values), else Err(on_cpu()))
    }

    /// Solves for right-hand sides on the device, of this shape: a new array unless `x` is a place for the solutions; how good
    /// they are if they are not refined, else their report.
    fn solve_on_device(
        &self,
        py: Python<'_>,
        b: Place,
        x: Option<Place>,
        shape: Vec<usize>,
        operation: Operation,
        refine: bool,
    ) -> PyResult<OnDevice> {
        let transpose = operation.transposes();
        by_real_type!(
            self.scalar,
            T => self.solve_there::<T>(py, b, x, shape, transpose, refine),
            else Err(on_cpu())
        )
    }

    /// The threshold of a new factorization with a stricter one.
    fn raise_threshold(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let threshold =
            py.detach(|| of_any!(&mut *self.write(), |factors| factors.raise_threshold()));
        raised(py, threshold)
    }

    /// Replaces right-hand sides, one after another, by solutions: backward error, whether it was measured, steps.
    fn solve_in_place(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        operation: Operation,
    ) -> PyResult<Accuracy> {
        by_type!(self.scalar, T => solve_in_place::<T>(py, self, x, operation))
    }

    /// Solves for `nrhs` right-hand sides, one after another, measures and refines.
    fn solve<'py>(
        &self,
        py: Python<'py>,
        b: &Bound<'py, PyAny>,
        nrhs: usize,
        operation: Operation,
    ) -> PyResult<(Bound<'py, PyAny>, RawInform)> {
        by_type!(self.scalar, T => solve::<T>(py, self, b, nrhs, operation))
    }

    /// Positive, negative and zero eigenvalues.
    fn inertia(&self, py: Python<'_>) -> PyResult<Option<(usize, usize, usize)>> {
        let inertia = self.tell(py, |factors| Ok(of_any!(factors, |f| f.inertia())))?;
        Ok(inertia.map(|counts| (counts.positive, counts.negative, counts.zero)))
    }

    /// Mantissa, exponent, the value and the logarithm of its magnitude.
    fn determinant<'py>(&self, py: Python<'py>) -> PyResult<InParts<'py>> {
        let (mantissa, exponent, value, log10_abs) = self.tell(py, |factors| {
            of_any!(factors, |f| f.determinant().map(|found| in_parts(&found)))
        })?;
        let (mantissa, value) = (number(py, mantissa)?, number(py, value)?);
        Ok((mantissa, exponent, value, log10_abs))
    }

    fn rcond(&self, py: Python<'_>) -> PyResult<f64> {
        self.tell(py, |factors| of_any!(factors, |f| f.rcond()))
    }

    fn perturbed_columns(&self, py: Python<'_>) -> PyResult<Option<Vec<usize>>> {
        self.tell(
            py,
            |factors| Ok(of_any!(factors, |f| f.perturbed_columns())),
        )
    }

    /// Row and column of A of each pivot, and offsets, indices and values of L and of U by columns; nothing for symmetric
    /// factors, and for those on a device.
    fn lower_upper<'py>(&self, py: Python<'py>) -> PyResult<Option<Triangles<'py>>> {
        by_type!(self.scalar, T => lower_upper::<T>(py, self))
    }
}

/// Offsets, indices and values.
type Arrays<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyAny>,
);

/// Permutations of rows and columns, L and U.
type Triangles<'py> = (
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u32>>,
    Arrays<'py>,
    Arrays<'py>,
);

/// Real part, and the imaginary one of a complex number.
type Parts = (f64, Option<f64>);

/// Mantissa, exponent, value and logarithm of a determinant.
type InParts<'py> = (Bound<'py, PyAny>, i64, Bound<'py, PyAny>, f64);

fn in_parts<W: Scalar<Real = f64>>(found: &Determinant<W>) -> (Parts, i64, Parts, f64) {
    let parts = |number: W| {
        let mut imaginary = None;
        let mut at = 0;
        number.map_components(|part| {
            if at == 1 {
                imaginary = Some(part);
            }
            at += 1;
            part
        });
        (number.real(), imaginary)
    };
    let (mantissa, value) = (parts(found.mantissa), parts(found.value()));
    (mantissa, found.exponent, value, found.log10_abs())
}

/// A `float`, or a `complex`.
fn number<'py>(py: Python<'py>, (real, imaginary): Parts) -> PyResult<Bound<'py, PyAny>> {
    Ok(match imaginary {
        None => real.into_pyobject(py)?.into_any(),
        Some(imaginary) => PyComplex::from_doubles(py, real, imaginary).into_any(),
    })
}

fn refactorize<T: Number>(
    py: Python<'_>,
    factors: &PyFactors,
    stored: &Stored<'_>,
) -> PyResult<Renewed> {
    let values = readable::<T>(&stored.5, "data")?;
    let values = values.as_slice()?;
    let outcome = with_indices!(&stored.3, &stored.4, |offsets, indices| {
        let matrix = stored.matrix(offsets, indices, values);
        Ok(py.detach(|| T::factors_mut(&mut factors.write()).refactorize(matrix)))
    });
    raised(py, outcome?).map(renewed)
}

fn refactorize_values<T: Number>(
    py: Python<'_>,
    factors: &PyFactors,
    values: &Bound<'_, PyAny>,
) -> PyResult<Renewed> {
    let values = readable::<T>(values, "values")?;
    let values = values.as_slice()?;
    check_length(values.len(), factors.nnz, "values")?;
    let outcome = py.detach(|| T::factors_mut(&mut factors.write()).refactorize_values(values));
    raised(py, outcome).map(renewed)
}

fn refactorize_changed<T: Number>(
    py: Python<'_>,
    factors: &PyFactors,
    places: &[usize],
    values: &Bound<'_, PyAny>,
) -> PyResult<Renewed> {
    let values = readable::<T>(values, "values")?;
    let values = values.as_slice()?;
    let outcome =
        py.detach(|| T::factors_mut(&mut factors.write()).refactorize_changed(places, values));
    raised(py, outcome).map(renewed)
}

fn solve_in_place<T: Number>(
    py: Python<'_>,
    factors: &PyFactors,
    x: &Bound<'_, PyAny>,
    operation: Operation,
) -> PyResult<Accuracy> {
    let mut x = writable::<T>(x, "b")?;
    let x = x.as_slice_mut()?;
    if !x.len().is_multiple_of(factors.n) {
        return Err(PyValueError::new_err("b is of incompatible size"));
    }
    let accuracy = py.detach(|| {
        let factors = factors.read();
        let factors = T::factors(&factors);
        match operation {
            Operation::Plain => factors.solve_in_place(x),
            Operation::Transpose => factors.solve_transpose_in_place(x),
            Operation::Adjoint => factors.solve_adjoint_in_place(x),
        }
    });
    raised(py, accuracy).map(shown)
}

fn solve<'py, T: Number>(
    py: Python<'py>,
    factors: &PyFactors,
    b: &Bound<'py, PyAny>,
    nrhs: usize,
    operation: Operation,
) -> PyResult<(Bound<'py, PyAny>, RawInform)> {
    let b = readable::<T>(b, "b")?;
    let b = b.as_slice()?;
    check_length(b.len(), factors.n.saturating_mul(nrhs), "b")?;
    let solution = py.detach(|| {
        let factors = factors.read();
        let factors = T::factors(&factors);
        match operation {
            Operation::Plain => factors.solve_many(b, nrhs),
            Operation::Transpose => factors.solve_transpose_many(b, nrhs),
            Operation::Adjoint => factors.solve_adjoint_many(b, nrhs),
        }
    });
    let solution = raised(py, solution)?;
    let x = PyArray1::from_vec(py, solution.x).into_any();
    Ok((x, RawInform::new(solution.inform)))
}

fn lower_upper<'py, T: Number>(
    py: Python<'py>,
    factors: &PyFactors,
) -> PyResult<Option<Triangles<'py>>> {
    let parts = py.detach(|| T::factors(&factors.read()).lower_upper());
    let Some(parts) = raised(py, parts)? else {
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
