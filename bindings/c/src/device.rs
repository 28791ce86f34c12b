//! Values and vectors on a device.

use std::ffi::c_void;

#[cfg(feature = "gpu")]
use crate::factors::FactorsState;
#[cfg(feature = "gpu")]
use crate::factors::check_count;
use crate::factors::luge_factors;
use crate::handle::{Handle, free, guarded};
#[cfg(feature = "gpu")]
use crate::handle::{
    array, array_mut, check_wanted, fill_wanted, put, read, required_mut, size, state, write,
};
#[cfg(feature = "gpu")]
use crate::matrix::{Typed, with_typed};
use crate::report::{luge_accuracy, luge_refactorized};
#[cfg(feature = "gpu")]
use crate::solve::luge_operation;
use crate::solver::luge_solver;
use crate::status::luge_status;
#[cfg(feature = "gpu")]
use crate::status::{Failure, Outcome};

/// Numbers of type double on the device of a solver.
pub struct luge_buffer {
    _private: (),
}

impl Handle for luge_buffer {
    #[cfg(feature = "gpu")]
    type State = BufferState;
    #[cfg(not(feature = "gpu"))]
    type State = ();
    const TAG: u64 = 0x6c75_6765_6275_6631;
    const NAME: &'static str = "luge_buffer";
}

/// What is behind a buffer.
#[cfg(feature = "gpu")]
pub(crate) struct BufferState {
    buffer: std::sync::RwLock<luge::device::Buffer<f64>>,
    len: usize,
    /// On which it was made.
    stream: luge::device::Stream,
}

/// Runs a call that was given these, guarded; without devices it is refused.
macro_rules! with_devices {
    (($($given:ident),+), $call:expr) => {{
        #[cfg(not(feature = "gpu"))]
        let call = || {
            let _ = ($($given),+);
            Err(luge::Error::FeatureOff { feature: "gpu" }.into())
        };
        #[cfg(feature = "gpu")]
        let call = $call;
        guarded(call)
    }};
}

/// Runs a method of real factors; complex ones are on the CPU.
#[cfg(feature = "gpu")]
macro_rules! with_real {
    ($any:expr, $factors:ident => $call:expr) => {
        match $any {
            Typed::F64($factors) => $call,
            Typed::F32($factors) => $call,
            Typed::ComplexF64(_) | Typed::ComplexF32(_) => return Err(on_cpu()),
        }
    };
}

#[cfg(feature = "gpu")]
fn on_cpu() -> Failure {
    Failure::not_applicable("the factors are on the CPU")
}

#[cfg(feature = "gpu")]
fn of_device(error: luge::device::DeviceError) -> Failure {
    use luge::device::DeviceError;
    match error {
        DeviceError::OutOfMemory { asked, available } => luge::Error::OutOfMemory {
            asked,
            available,
            phase: "setup",
        },
        other => luge::Error::Device(std::sync::Arc::new(other)),
    }
    .into()
}

#[cfg(feature = "gpu")]
fn stream_of(solver: &luge::Solver) -> Outcome<&luge::device::Stream> {
    solver
        .stream()
        .ok_or_else(|| Failure::not_applicable("the solver uses no device"))
}

#[cfg(feature = "gpu")]
impl FactorsState {
    /// Refuses factors on the CPU, and buffers of another stream.
    fn check_device(&self, buffers: &[&BufferState]) -> Outcome {
        let any = read(&self.factors)?;
        let inform = with_typed!(&*any, factors => factors.inform());
        if inform.backend == "cpu" {
            return Err(on_cpu());
        }
        let stream = stream_of(&self.solver)?;
        if buffers.iter().any(|buffer| !buffer.stream.same_as(stream)) {
            return Err(Failure::argument(
                "a buffer was made with another solver than the factors",
            ));
        }
        Ok(())
    }
}

/// Refuses buffers that are not of the length that is asked for.
#[cfg(feature = "gpu")]
fn check_len(buffer: &BufferState, n: usize, nrhs: usize, name: &str) -> Outcome {
    if n.checked_mul(nrhs) == Some(buffer.len) {
        return Ok(());
    }
    let message = format!(
        "`{name}` has {} numbers; there are {nrhs} right-hand sides of order {n}",
        buffer.len
    );
    Err(Failure::new(luge_status::LUGE_ERROR_SIZE, message))
}

/// The stream of the driver (CUstream) on which all work of the solver is, in order. What is enqueued on it before a call is
/// done before it, and what comes after sees its results.
///
/// `stream`: output; NULL on the simulator. It belongs to the solver and is valid as long as the solver or anything made
/// with it is there.
///
/// Errors: LUGE_ERROR_NOT_APPLICABLE if the solver is on the CPU; with LUGE_BACKEND_AUTO that is so until a matrix was
/// analyzed for which a GPU was chosen. LUGE_ERROR_FEATURE_OFF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solver_stream(
    solver: *const luge_solver,
    stream: *mut *mut c_void,
) -> luge_status {
    with_devices!((solver, stream), || {
        // SAFETY: the caller passes NULL or a handle, and NULL or room for a pointer.
        let (solver, stream) =
            unsafe { (state(solver, "solver")?, required_mut(stream, "stream")?) };
        let found = stream_of(&solver.solver)?.driver_stream();
        *stream = found.map_or(std::ptr::null_mut(), std::ptr::NonNull::as_ptr);
        Ok(())
    })
}

/// Makes a buffer of `count` zeros on the device of a solver.
///
/// `out`: output, the handle, which the caller frees by luge_buffer_free; NULL if the call fails.
///
/// Errors: LUGE_ERROR_NOT_APPLICABLE, as for luge_solver_stream; LUGE_ERROR_OUT_OF_MEMORY, LUGE_ERROR_DEVICE,
/// LUGE_ERROR_FEATURE_OFF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_buffer_create(
    solver: *const luge_solver,
    count: i64,
    out: *mut *mut luge_buffer,
) -> luge_status {
    with_devices!((solver, count, out), || {
        let make = || {
            // SAFETY: the caller passes NULL or a handle.
            let solver = unsafe { state(solver, "solver") }?;
            let stream = stream_of(&solver.solver)?.clone();
            let len = size(count, "count")?;
            let asked = (len as u64).saturating_mul(8);
            let available = stream.device().available_bytes().map_err(of_device)?;
            if asked > available {
                let phase = "setup";
                return Err(luge::Error::OutOfMemory {
                    asked,
                    available,
                    phase,
                }
                .into());
            }
            let buffer = stream.alloc_zeroed(len).map_err(of_device)?;
            Ok(BufferState {
                buffer: std::sync::RwLock::new(buffer),
                len,
                stream,
            })
        };
        // SAFETY: the caller passes NULL or room for a pointer.
        unsafe { put(out, make) }
    })
}

/// Frees a buffer and sets `*buffer` to NULL. NULL, and a pointer to NULL, are allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_buffer_free(buffer: *mut *mut luge_buffer) -> luge_status {
    // SAFETY: the caller passes NULL or a pointer to a handle.
    guarded(|| unsafe { free(buffer) })
}

/// The address of a buffer on the device (CUdeviceptr), for kernels and copies that the caller enqueues on the solver's stream.
///
/// `address`: output; 0 on the simulator, and of a buffer without numbers. Valid until the buffer is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_buffer_address(
    buffer: *const luge_buffer,
    address: *mut u64,
) -> luge_status {
    with_devices!((buffer, address), || {
        // SAFETY: the caller passes NULL or a handle, and NULL or a number.
        let (buffer, address) =
            unsafe { (state(buffer, "buffer")?, required_mut(address, "address")?) };
        let found = read(&buffer.buffer)?.driver_address();
        *address = found.map_or(0, std::num::NonZeroU64::get);
        Ok(())
    })
}

/// Copies numbers of the host to a buffer.
///
/// `values`: `count` numbers, as many as the buffer has.
///
/// Errors: LUGE_ERROR_SIZE, LUGE_ERROR_DEVICE, LUGE_ERROR_BUSY, LUGE_ERROR_FEATURE_OFF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_buffer_write(
    buffer: *mut luge_buffer,
    count: i64,
    values: *const f64,
) -> luge_status {
    with_devices!((buffer, count, values), || {
        // SAFETY: the caller passes NULL or a handle.
        let buffer = unsafe { state(buffer, "buffer") }?;
        check_count(count, buffer.len)?;
        // SAFETY: the caller passes NULL or as many numbers.
        let values = unsafe { array(values, buffer.len, "values") }?;
        let mut to = write(&buffer.buffer)?;
        let copied = buffer.stream.copy_from_host(&mut *to, values);
        copied.map_err(of_device)
    })
}

/// Copies the numbers of a buffer to the host, when all that was enqueued before is done.
///
/// `values`: output of `count` numbers, as many as the buffer has.
///
/// Errors: as for luge_buffer_write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_buffer_read(
    buffer: *const luge_buffer,
    count: i64,
    values: *mut f64,
) -> luge_status {
    with_devices!((buffer, count, values), || {
        // SAFETY: the caller passes NULL or a handle.
        let buffer = unsafe { state(buffer, "buffer") }?;
        check_count(count, buffer.len)?;
        // SAFETY: the caller passes NULL or room for as many numbers.
        let values = unsafe { array_mut(values, buffer.len, "values") }?;
        let from = read(&buffer.buffer)?;
        buffer
            .stream
            .copy_to_host(&*from, values)
            .map_err(of_device)
    })
}

/// As luge_refactorize_values, for values that are on the device and stay there, in double and in the order in which the
/// analyzed matrix is stored.
///
/// `values`: as many numbers as the analyzed matrix has entries, made with the solver of the factors.
///
/// Errors: LUGE_ERROR_NOT_APPLICABLE if the factors are on the CPU, LUGE_ERROR_ARGUMENT if the buffer is of another solver,
/// LUGE_ERROR_FEATURE_OFF; otherwise those of luge_refactorize_values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_refactorize_device(
    factors: *mut luge_factors,
    values: *const luge_buffer,
    outcome: *mut luge_refactorized,
) -> luge_status {
    with_devices!((factors, values, outcome), || {
        // SAFETY: the caller passes NULL or handles, and NULL or a structure.
        let (factors, values) = unsafe {
            check_wanted(outcome, "outcome")?;
            (state(factors, "factors")?, state(values, "values")?)
        };
        factors.check_device(&[values])?;
        check_count(values.len as i64, factors.nnz)?;
        let values = read(&values.buffer)?;
        let mut any = write(&factors.factors)?;
        let refactorized =
            with_real!(&mut *any, factors => factors.refactorize_on_device(&values))?;
        // SAFETY: as above.
        unsafe { fill_wanted(outcome, "outcome", (&refactorized).into()) }
    })
}

/// As luge_solve_in_place, for vectors on the device.
///
/// `x`: input and output, n * `nrhs` numbers, a right-hand side after another, made with the solver of the factors.
///
/// Errors: LUGE_ERROR_NOT_APPLICABLE if the factors are on the CPU, LUGE_ERROR_SIZE, LUGE_ERROR_ARGUMENT if the buffer is of
/// another solver, LUGE_ERROR_SOLUTION_NOT_FINITE, also where a right-hand side was not finite; `x` is of no use then.
/// LUGE_ERROR_DEVICE, LUGE_ERROR_BUSY, LUGE_ERROR_FEATURE_OFF.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_device(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    x: *mut luge_buffer,
    accuracy: *mut luge_accuracy,
) -> luge_status {
    with_devices!((factors, operation, nrhs, x, accuracy), || {
        // SAFETY: the caller passes NULL or handles, and NULL or a structure.
        let (factors, x) = unsafe {
            check_wanted(accuracy, "accuracy")?;
            (state(factors, "factors")?, state(x, "x")?)
        };
        let transpose = luge_operation::of(operation)? != luge_operation::LUGE_NO_TRANSPOSE;
        let nrhs = size(nrhs, "nrhs")?;
        factors.check_device(&[x])?;
        check_len(x, factors.n, nrhs, "x")?;
        let mut x = write(&x.buffer)?;
        let any = read(&factors.factors)?;
        let achieved =
            with_real!(&*any, factors => factors.solve_on_device(&mut x, nrhs, transpose))?;
        // SAFETY: as above.
        unsafe { fill_wanted(accuracy, "accuracy", achieved.into()) }
    })
}

/// As luge_solve, for vectors on the device: measures and refines there.
///
/// `b`: input, `x`: output, n * `nrhs` numbers each, another buffer each, made with the solver of the factors.
///
/// Errors: as for luge_solve_device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solve_refined_device(
    factors: *const luge_factors,
    operation: i32,
    nrhs: i64,
    b: *const luge_buffer,
    x: *mut luge_buffer,
    accuracy: *mut luge_accuracy,
) -> luge_status {
    with_devices!((factors, operation, nrhs, b, x, accuracy), || {
        // SAFETY: the caller passes NULL or handles, and NULL or a structure.
        let (factors, b, x) = unsafe {
            check_wanted(accuracy, "accuracy")?;
            (state(factors, "factors")?, state(b, "b")?, state(x, "x")?)
        };
        if std::ptr::eq(b, x) {
            return Err(Failure::argument("`b` and `x` are the same buffer"));
        }
        let transpose = luge_operation::of(operation)? != luge_operation::LUGE_NO_TRANSPOSE;
        let nrhs = size(nrhs, "nrhs")?;
        factors.check_device(&[b, x])?;
        check_len(b, factors.n, nrhs, "b")?;
        check_len(x, factors.n, nrhs, "x")?;
        let (b, mut x) = (read(&b.buffer)?, write(&x.buffer)?);
        let any = read(&factors.factors)?;
        let inform = with_real!(
            &*any,
            factors => factors.solve_refined_on_device(&b, &mut x, nrhs, transpose)
        )?;
        let achieved = luge_accuracy::of_solution(&inform);
        // SAFETY: as above.
        unsafe { fill_wanted(accuracy, "accuracy", achieved) }
    })
}
