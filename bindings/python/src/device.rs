//! Values and vectors that other libraries have on the device, by their addresses.
//!
//! The Python side reads addresses, shapes and streams from `__cuda_array_interface__` or DLPack and holds the arrays during the
//! call. Every call begins when the caller's stream has come to it, and returns when the device is done: the host waits for the
//! report in any case.

use std::num::NonZeroU64;

use luge::device::{Buffer, Stream};
use luge::{Error, Factors, RealScalar};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arrays::check_length;
use crate::batch::{Batch, each, outcomes};
use crate::errors::exception;
use crate::factors::{PyFactors, Renewed, renewed};
use crate::scalar::{Number, by_real_type};
use crate::solver::{PyAnalysis, RawInform, raised};

/// Accuracy of a solution that was not refined: backward error, whether it was measured, steps.
pub(crate) type Accuracy = (Option<f64>, bool, usize);

pub(crate) fn shown(accuracy: luge::Accuracy) -> Accuracy {
    (
        accuracy.backward_error,
        accuracy.is_measured,
        accuracy.refinement_steps,
    )
}

/// A new array, if one was made; how good solutions are that were not refined; else their report.
pub(crate) type OnDevice = (Option<DeviceArray>, Option<Accuracy>, Option<RawInform>);

/// A new array, if one was made, and what is told of each system of a batch.
pub(crate) type BatchOnDevice<'py> = (Option<DeviceArray>, Vec<Bound<'py, PyAny>>);

/// Sizes of an array, and its strides in bytes.
pub(crate) type Layout = (Vec<usize>, Vec<usize>);

/// A solution on the device. CuPy, PyTorch and Numba take it without a copy, by its `__cuda_array_interface__`.
///
/// It frees its memory when nobody holds it any more, behind what is enqueued on the stream of the right-hand side: use it there,
/// or hold it until other streams are done with it.
#[pyclass(name = "DeviceArray", module = "luge", frozen)]
pub(crate) struct DeviceArray {
    buffer: Buffer<f64>,
    stream: Stream,
    shape: Vec<usize>,
    /// In bytes.
    strides: Vec<usize>,
    /// Of the caller, who may use the solution there.
    caller: u64,
}

#[pymethods]
impl DeviceArray {
    /// Shape of the array.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// Address, shape, type and strides, as CuPy, PyTorch and Numba read them. The numbers are there already, so it names no
    /// stream to wait for.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        let address = self.buffer.driver_address().map_or(0, NonZeroU64::get);
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("typestr", "<f8")?;
        interface.set_item("data", (address, false))?;
        interface.set_item("version", 3)?;
        interface.set_item("strides", PyTuple::new(py, &self.strides)?)?;
        Ok(interface)
    }

    fn __repr__(&self) -> String {
        format!("<luge.DeviceArray of shape {:?}, float64>", self.shape)
    }
}

impl Drop for DeviceArray {
    /// Frees the memory behind what the caller has enqueued with it.
    fn drop(&mut self) {
        // SAFETY: the caller named the stream, and `luge/_device.py` says that it has to live as long as the array. After an
        // error the context is broken, and nothing runs any more.
        let _ = unsafe { self.stream.wait_for_driver_stream(self.caller as *mut _) };
    }
}

/// Where `len` numbers are, and the stream of the driver on which they are made.
#[derive(FromPyObject, Clone, Copy)]
pub(crate) struct Place(u64, usize, u64);

impl Place {
    /// # Safety
    ///
    /// The numbers are there, alive to the end of the call, and nobody else's in the meantime.
    unsafe fn borrow(self, stream: &Stream) -> Result<Buffer<f64>, Error> {
        let Self(address, len, caller) = self;
        let Some(address) = NonZeroU64::new(address) else {
            return in_device(stream.alloc(0));
        };
        // SAFETY: as the caller says: the interface of the array names its stream.
        in_device(unsafe { stream.wait_for_driver_stream(caller as *mut _) })?;
        // SAFETY: as the caller says.
        Ok(unsafe { stream.borrow_foreign(address, len) })
    }
}

fn in_device<T>(result: Result<T, luge::device::DeviceError>) -> Result<T, Error> {
    result.map_err(|error| Error::Device(std::sync::Arc::new(error)))
}

pub(crate) fn on_cpu() -> PyErr {
    PyValueError::new_err("the factors are on the CPU")
}

impl PyAnalysis {
    /// Factorizes values on the device, which are brought to the host: pivots may have to be searched there.
    pub(crate) fn factorize_there(
        &self,
        py: Python<'_>,
        place: Place,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyFactors> {
        let stream = self.stream.as_ref().ok_or_else(on_cpu)?;
        check_length(place.1, self.nnz(), "values")?;
        let values = py.detach(|| {
            // SAFETY: `luge/_device.py` holds the array, and its interface says that the numbers are there.
            let there = unsafe { place.borrow(stream) }?;
            in_device(stream.download(&there))
        });
        let values = raised(py, values)?;
        by_real_type!(
            self.scalar(),
            T => {
                let values: Vec<T> = values.into_iter().map(<T as RealScalar>::from_f64).collect();
                self.factorize_numbers::<T>(py, &values, progress)
            },
            else Err(on_cpu())
        )
    }
}

impl PyFactors {
    pub(crate) fn refactorize_there<T: Number + RealScalar>(
        &self,
        py: Python<'_>,
        place: Place,
    ) -> PyResult<Renewed> {
        let stream = self.stream.as_ref().ok_or_else(on_cpu)?;
        check_length(place.1, self.nnz, "values")?;
        let outcome = py.detach(|| {
            // SAFETY: as above.
            let values = unsafe { place.borrow(stream) }?;
            let outcome = T::factors_mut(&mut self.write()).refactorize_on_device(&values);
            in_device(stream.synchronize())?;
            outcome
        });
        raised(py, outcome).map(renewed)
    }

    /// Solves for right-hand sides at one place; solutions go to another one, which may be the same, or to a new array of this
    /// shape.
    #[allow(clippy::too_many_arguments, reason = "what a solve is asked for")]
    pub(crate) fn solve_there<T: Number + RealScalar>(
        &self,
        py: Python<'_>,
        b: Place,
        x: Option<Place>,
        shape: Vec<usize>,
        transpose: bool,
        refine: bool,
    ) -> PyResult<OnDevice> {
        let stream = self.stream.as_ref().ok_or_else(on_cpu)?;
        let nrhs = shape.get(1).copied().unwrap_or(1);
        let expected = self.n.saturating_mul(nrhs);
        check_length(b.1, expected, "b")?;
        if let Some(x) = x {
            check_length(x.1, expected, "out")?;
        }
        let solved = py.detach(|| {
            let factors = self.read();
            let solved = solve(
                stream,
                T::factors(&factors),
                (b, x),
                nrhs,
                transpose,
                refine,
            );
            let done = in_device(stream.synchronize());
            let solved = solved?;
            done?;
            Ok::<_, Error>(solved)
        });
        let (buffer, accuracy, inform) = raised(py, solved)?;
        let strides = [8, 8 * self.n][..shape.len()].to_vec();
        let array = x.is_none().then_some(DeviceArray {
            buffer,
            stream: stream.clone(),
            shape,
            strides,
            caller: b.2,
        });
        Ok((array, accuracy, inform))
    }
}

type Solved = (Buffer<f64>, Option<Accuracy>, Option<RawInform>);

/// The right-hand sides at a place, and memory for the solutions: at another place, at the same one, or new. Where both are one,
/// `keep` says whether the right-hand sides are copied, for they are still wanted then.
fn vectors(
    stream: &Stream,
    (b, x): (Place, Option<Place>),
    keep: bool,
) -> Result<(Buffer<f64>, Buffer<f64>), Error> {
    let in_place = x.is_some_and(|x| x.0 == b.0);
    // SAFETY: `luge/_device.py` holds the arrays, and their interfaces say that the numbers are there.
    let mut given = unsafe { b.borrow(stream) }?;
    let mut solution = match x {
        // SAFETY: as above.
        Some(x) => unsafe { x.borrow(stream) }?,
        None => in_device(stream.alloc(b.1))?,
    };
    if keep && in_place {
        let mut copy = in_device(stream.alloc(b.1))?;
        in_device(stream.copy(&mut copy, &given))?;
        given = copy;
    } else if !keep && !in_place {
        in_device(stream.copy(&mut solution, &given))?;
    }
    Ok((given, solution))
}

fn solve<T: RealScalar>(
    stream: &Stream,
    factors: &Factors<T>,
    places: (Place, Option<Place>),
    nrhs: usize,
    transpose: bool,
    refine: bool,
) -> Result<Solved, Error> {
    // Residuals are those of what was given.
    let (b, mut x) = vectors(stream, places, refine)?;
    if refine {
        let inform = factors.solve_refined_on_device(&b, &mut x, nrhs, transpose)?;
        return Ok((x, None, Some(RawInform::new(inform))));
    }
    let accuracy = factors.solve_on_device(&mut x, nrhs, transpose)?;
    Ok((x, Some(shown(accuracy)), None))
}

/// What is known of the solutions of each system.
enum Each {
    Refined(Vec<Result<luge::Inform, Error>>),
    Passed(Vec<Result<luge::Accuracy, Error>>),
}

impl Batch {
    /// Factorizes values on the device.
    pub(crate) fn new_there(
        py: Python<'_>,
        analysis: &PyAnalysis,
        place: Place,
        count: usize,
    ) -> PyResult<Self> {
        let stream = analysis.stream.as_ref().ok_or_else(on_cpu)?;
        check_length(place.1, analysis.nnz().saturating_mul(count), "values")?;
        by_real_type!(
            analysis.scalar(),
            T => {
                let typed = analysis.typed::<T>();
                let factors = py.detach(|| {
                    // SAFETY: `luge/_device.py` holds the array, and its interface says that the numbers are there.
                    let values = unsafe { place.borrow(stream) }?;
                    typed.factorize_batch_on_device(&values, count)
                });
                Self::of::<T>(py, analysis, factors, count)
            },
            else Err(on_cpu())
        )
    }

    pub(crate) fn refactorize_there<'py, T: Number + RealScalar>(
        &self,
        py: Python<'py>,
        place: Place,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let stream = self.stream.as_ref().ok_or_else(on_cpu)?;
        check_length(place.1, self.nnz.saturating_mul(self.count), "values")?;
        let results = py.detach(|| {
            // SAFETY: as above.
            let values = unsafe { place.borrow(stream) }?;
            T::batch_mut(&mut self.write()).refactorize_on_device(&values)
        });
        outcomes(py, raised(py, results)?)
    }

    /// As that of one system; solutions of systems that failed are not numbers.
    pub(crate) fn solve_there<'py, T: Number + RealScalar>(
        &self,
        py: Python<'py>,
        places: (Place, Option<Place>),
        (shape, strides): Layout,
        nrhs: usize,
        refine: bool,
    ) -> PyResult<BatchOnDevice<'py>> {
        let stream = self.stream.as_ref().ok_or_else(on_cpu)?;
        let len = self.n.saturating_mul(nrhs);
        let (b, x) = places;
        check_length(b.1, len.saturating_mul(self.count), "b")?;
        if let Some(x) = x {
            check_length(x.1, b.1, "out")?;
        }
        let solved = py.detach(|| {
            let (b, mut x) = vectors(stream, places, refine)?;
            let batch = self.read();
            let batch = T::batch(&batch);
            let solved = if refine {
                Each::Refined(batch.solve_refined_on_device(&b, &mut x, nrhs, false)?)
            } else {
                Each::Passed(batch.solve_on_device(&mut x, nrhs, false)?)
            };
            let failed: Vec<bool> = match &solved {
                Each::Refined(all) => all.iter().map(Result::is_err).collect(),
                Each::Passed(all) => all.iter().map(Result::is_err).collect(),
            };
            for (at, _) in failed.iter().enumerate().filter(|(_, failed)| **failed) {
                let mut part = x.slice_mut(at * len..(at + 1) * len);
                // All bits set are no number.
                in_device(stream.fill_bytes(&mut part, u8::MAX))?;
            }
            in_device(stream.synchronize())?;
            Ok::<_, Error>((x, solved))
        });
        let (buffer, solved) = solved.map_err(|error| exception(py, &error))?;
        let told = match solved {
            Each::Refined(all) => each(py, all, |inform| {
                Ok(Bound::new(py, RawInform::new(inform))?.into_any())
            }),
            Each::Passed(all) => each(py, all, |accuracy| {
                Ok(shown(accuracy).into_pyobject(py)?.into_any())
            }),
        };
        let array = x.is_none().then_some(DeviceArray {
            buffer,
            stream: stream.clone(),
            shape,
            strides,
            caller: b.2,
        });
        Ok((array, told?))
    }
}
