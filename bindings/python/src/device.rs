//! Values and vectors that other libraries have on the device, by their addresses.
//!
//! The Python side reads addresses, shapes and streams from `__cuda_array_interface__` and holds the arrays during the call.
//! Every call begins when the caller's stream has come to it, and returns when the device is done: the host waits for the report
//! in any case.

use std::num::NonZeroU64;

use luge::device::{Buffer, Stream};
use luge::{Error, Factors};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::check_length;
use crate::errors::exception;
use crate::factors::{Precision, PyAnalysis, PyFactors, RawInform, Renewed, of_either, renewed};

/// Accuracy of a solution that was not refined: backward error, whether it was measured, steps.
pub(crate) type Accuracy = (Option<f64>, bool, usize);

/// A new array, if one was made; how good solutions are that were not refined; else their report.
pub(crate) type OnDevice = (Option<DeviceArray>, Option<Accuracy>, Option<RawInform>);

/// A solution on the device. CuPy, PyTorch and Numba take it without a copy, by its `__cuda_array_interface__`.
///
/// It frees its memory when nobody holds it any more, behind what is enqueued on the stream of the right-hand side: use it there,
/// or hold it until other streams are done with it.
#[pyclass(name = "DeviceArray", module = "luge", frozen)]
pub(crate) struct DeviceArray {
    buffer: Buffer<f64>,
    stream: Stream,
    shape: Vec<usize>,
    /// Of the caller, who may use the solution there.
    caller: u64,
}

#[pymethods]
impl DeviceArray {
    /// Shape of the array.
    #[getter]
    fn shape(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let shape = pyo3::types::PyTuple::new(py, &self.shape)?;
        Ok(shape.into_any().unbind())
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
        if let [rows, _] = self.shape[..] {
            interface.set_item("strides", (8, 8 * rows))?;
        }
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

fn on_cpu() -> PyErr {
    PyValueError::new_err("the factors are on the CPU")
}

impl PyAnalysis {
    /// Factorizes values on the device, which are brought to the host: pivots may have to be searched there.
    pub(crate) fn factorize_there(&self, py: Python<'_>, place: Place) -> PyResult<PyFactors> {
        let stream = self.stream.as_ref().ok_or_else(on_cpu)?;
        let nnz = of_either!(&self.analysis, |analysis: T| analysis.inform().nnz);
        check_length(place.1, nnz, "values")?;
        let values = py.detach(|| {
            // SAFETY: `luge/_device.py` holds the array, and its interface says that the numbers are there.
            let there = unsafe { place.borrow(stream) }?;
            in_device(stream.download(&there))
        });
        let values = values.map_err(|error| exception(py, &error))?;
        self.factorize_numbers(py, &values)
    }
}

impl PyFactors {
    pub(crate) fn refactorize_there<T: Precision>(
        &self,
        py: Python<'_>,
        place: Place,
    ) -> PyResult<Renewed> {
        let stream = self.stream.as_ref().ok_or_else(on_cpu)?;
        check_length(place.1, self.nnz, "values")?;
        let outcome = py.detach(|| {
            // SAFETY: as above.
            let values = unsafe { place.borrow(stream) }?;
            let outcome = T::of_mut(&mut self.write()).refactorize_on_device(&values);
            in_device(stream.synchronize())?;
            outcome
        });
        outcome.map(renewed).map_err(|error| exception(py, &error))
    }

    /// Solves for right-hand sides at one place; solutions go to another one, which may be the same, or to a new array of this
    /// shape.
    #[allow(clippy::too_many_arguments, reason = "what a solve is asked for")]
    pub(crate) fn solve_there<T: Precision>(
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
        let expected = self.n(py).saturating_mul(nrhs);
        check_length(b.1, expected, "b")?;
        if let Some(x) = x {
            check_length(x.1, expected, "out")?;
        }
        let solved = py.detach(|| {
            let factors = self.read();
            let solved = solve(stream, T::of(&factors), (b, x), nrhs, transpose, refine);
            let done = in_device(stream.synchronize());
            let (buffer, accuracy, inform) = solved?;
            done?;
            Ok::<_, Error>((buffer, accuracy, inform))
        });
        let (buffer, accuracy, inform) = solved.map_err(|error| exception(py, &error))?;
        let array = x.is_none().then_some(DeviceArray {
            buffer,
            stream: stream.clone(),
            shape,
            caller: b.2,
        });
        Ok((array, accuracy, inform))
    }
}

type Solved = (Buffer<f64>, Option<Accuracy>, Option<RawInform>);

fn solve<T: Precision>(
    stream: &Stream,
    factors: &Factors<T>,
    (b, x): (Place, Option<Place>),
    nrhs: usize,
    transpose: bool,
    refine: bool,
) -> Result<Solved, Error> {
    let in_place = x.is_some_and(|x| x.0 == b.0);
    // SAFETY: `luge/_device.py` holds the arrays, and their interfaces say that the numbers are there.
    let mut given = unsafe { b.borrow(stream) }?;
    let mut solution = match x {
        // SAFETY: as above.
        Some(x) => unsafe { x.borrow(stream) }?,
        None => in_device(stream.alloc(b.1))?,
    };
    if refine {
        if in_place {
            // Residuals are those of what was given.
            let mut copy = in_device(stream.alloc(b.1))?;
            in_device(stream.copy(&mut copy, &given))?;
            given = copy;
        }
        let inform = factors.solve_refined_on_device(&given, &mut solution, nrhs, transpose)?;
        return Ok((solution, None, Some(RawInform::new(inform))));
    }
    if !in_place {
        in_device(stream.copy(&mut solution, &given))?;
    }
    let accuracy = factors.solve_on_device(&mut solution, nrhs, transpose)?;
    let accuracy = (
        accuracy.backward_error,
        accuracy.is_measured,
        accuracy.refinement_steps,
    );
    Ok((solution, Some(accuracy), None))
}
