//! Solvers, and analyses of patterns.

use std::ffi::c_char;

use luge::num_complex::Complex;
use luge::{Analysis, CancelFlag, Options, Solver};

use crate::factors::AnyAnalysis;
use crate::handle::{Handle, copy_text, fill, free, guarded, put, read, state};
use crate::matrix::{Integer, Integers, Matrix, Typed, Value, luge_matrix, with_typed};
use crate::options::luge_options;
use crate::report::luge_inform;
use crate::status::{Failure, Outcome, luge_status};

/// A solver: options and a device, for any number of matrices. Calls only read it, so several threads may use one.
pub struct luge_solver {
    _private: (),
}

impl Handle for luge_solver {
    type State = SolverState;
    const TAG: u64 = 0x6c75_6765_736f_6c31;
    const NAME: &'static str = "luge_solver";
}

/// What is behind a solver.
pub(crate) struct SolverState {
    pub(crate) solver: Solver,
    cancel: CancelFlag,
}

/// The analysis of a pattern: its ordering and the structure of its factors. Calls only read it, so several threads may use
/// one.
pub struct luge_analysis {
    _private: (),
}

impl Handle for luge_analysis {
    type State = AnalysisState;
    const TAG: u64 = 0x6c75_6765_616e_6131;
    const NAME: &'static str = "luge_analysis";
}

/// What is behind an analysis.
pub(crate) struct AnalysisState {
    pub(crate) analysis: AnyAnalysis,
    pub(crate) n: usize,
    /// Entries as they are stored.
    pub(crate) nnz: usize,
    /// For its stream.
    pub(crate) solver: Solver,
}

impl AnalysisState {
    pub(crate) fn inform(&self) -> &luge::Inform {
        with_typed!(&self.analysis, analysis => analysis.inform())
    }
}

/// Makes a solver: opens the device that the options ask for and starts the threads.
///
/// `options`: NULL for the default values; they are copied. `out`: output, the handle, which the caller frees by
/// luge_solver_free; NULL if the call fails.
///
/// Errors: LUGE_ERROR_OPTION, LUGE_ERROR_DEVICE, LUGE_ERROR_FEATURE_OFF, LUGE_ERROR_THREADS, LUGE_ERROR_OUT_OF_MEMORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solver_create(
    options: *const luge_options,
    out: *mut *mut luge_solver,
) -> luge_status {
    let make = || {
        let options = if options.is_null() {
            Options::default()
        } else {
            // SAFETY: the caller passes a handle.
            let options = unsafe { state(options, "options") }?;
            read(options)?.options()
        };
        // Solvers with the same options are cancelled one by one.
        let cancel = CancelFlag::new();
        let solver = Solver::new(options.cancel(cancel.clone()))?;
        Ok(SolverState { solver, cancel })
    };
    // SAFETY: the caller passes NULL or room for a pointer.
    guarded(|| unsafe { put(out, make) })
}

/// Frees a solver and sets `*solver` to NULL. Analyses and factors that were made with it stay valid. NULL, and a pointer to
/// NULL, are allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solver_free(solver: *mut *mut luge_solver) -> luge_status {
    // SAFETY: the caller passes NULL or a pointer to a handle.
    guarded(|| unsafe { free(solver) })
}

/// Stops the calls that run with this solver, its analyses and its factors, and those that follow until luge_solver_resume:
/// they return LUGE_ERROR_CANCELLED, on the CPU within some tens of milliseconds. Meant to be called from another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solver_cancel(solver: *const luge_solver) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle.
        unsafe { state(solver, "solver") }?.cancel.cancel();
        Ok(())
    })
}

/// Takes luge_solver_cancel back for calls that begin from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_solver_resume(solver: *const luge_solver) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle.
        unsafe { state(solver, "solver") }?.cancel.lower();
        Ok(())
    })
}

/// Orders and analyzes a matrix; its values, where they are there, guide matching, scaling and pivots.
///
/// `matrix`: with values, or with `values` NULL for the pattern alone. Where values are known, they should be given.
/// `out`: output, the handle, which the caller frees by luge_analysis_free; NULL if the call fails.
///
/// Errors: LUGE_ERROR_OPTION where an option, as fronts on a GPU without room for tiles of them, is not there for a complex matrix;
/// LUGE_ERROR_MATRIX, LUGE_ERROR_SIZE, LUGE_ERROR_NOT_FINITE, LUGE_ERROR_NOT_SYMMETRIC, LUGE_ERROR_STRUCTURALLY_SINGULAR, LUGE_ERROR_ZEROS_ONLY, LUGE_ERROR_ORDERING, LUGE_ERROR_OUT_OF_MEMORY,
/// LUGE_ERROR_INDEX_OVERFLOW, LUGE_ERROR_CANCELLED, LUGE_ERROR_DEVICE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_analyze(
    solver: *const luge_solver,
    matrix: *const luge_matrix,
    out: *mut *mut luge_analysis,
) -> luge_status {
    let make = || {
        // SAFETY: the caller passes NULL or a handle, and NULL or a matrix.
        let (solver, matrix, value_type) = unsafe {
            let solver = &state(solver, "solver")?.solver;
            let taken = Matrix::new(matrix)?;
            (solver, taken, (*matrix).value_type)
        };
        const F32: i32 = f32::TYPE as i32;
        const COMPLEX_F64: i32 = Complex::<f64>::TYPE as i32;
        const COMPLEX_F32: i32 = Complex::<f32>::TYPE as i32;
        let analysis = match &matrix.values {
            Some(Typed::F64(values)) => Typed::F64(analyze(solver, &matrix, Some(values))?),
            Some(Typed::F32(values)) => Typed::F32(analyze(solver, &matrix, Some(values))?),
            Some(Typed::ComplexF64(values)) => {
                Typed::ComplexF64(analyze(solver, &matrix, Some(values))?)
            }
            Some(Typed::ComplexF32(values)) => {
                Typed::ComplexF32(analyze(solver, &matrix, Some(values))?)
            }
            None => match value_type {
                // The type is one of the four: the matrix was checked.
                F32 => Typed::F32(analyze(solver, &matrix, None)?),
                COMPLEX_F64 => Typed::ComplexF64(analyze(solver, &matrix, None)?),
                COMPLEX_F32 => Typed::ComplexF32(analyze(solver, &matrix, None)?),
                _ => Typed::F64(analyze(solver, &matrix, None)?),
            },
        };
        Ok(AnalysisState {
            analysis,
            n: matrix.n,
            nnz: matrix.nnz,
            solver: solver.clone(),
        })
    };
    // SAFETY: the caller passes NULL or room for a pointer.
    guarded(|| unsafe { put(out, make) })
}

/// Analyzes a matrix of values of the type `T`, or its pattern.
fn analyze<T: Value>(
    solver: &Solver,
    matrix: &Matrix<'_>,
    values: Option<&[T]>,
) -> Outcome<Analysis<T>> {
    fn of<T: Value, I: Integer>(
        solver: &Solver,
        arrays: &crate::matrix::Arrays<'_, I>,
        values: Option<&[T]>,
    ) -> Result<Analysis<T>, luge::Error> {
        match values {
            Some(values) => solver.analyze(arrays.with(values)),
            None => solver.analyze_pattern(arrays.pattern()),
        }
    }
    let analysis = match &matrix.arrays {
        Integers::I32(arrays) => of(solver, arrays, values),
        Integers::I64(arrays) => of(solver, arrays, values),
    };
    analysis.map_err(Failure::from)
}

/// Frees an analysis and sets `*analysis` to NULL. Factors that were made with it stay valid. NULL, and a pointer to NULL, are
/// allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_analysis_free(analysis: *mut *mut luge_analysis) -> luge_status {
    // SAFETY: the caller passes NULL or a pointer to a handle.
    guarded(|| unsafe { free(analysis) })
}

/// The report of an analysis.
///
/// `inform`: output; `inform->size` is set by the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_analysis_inform(
    analysis: *const luge_analysis,
    inform: *mut luge_inform,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle.
        let analysis = unsafe { state(analysis, "analysis") }?;
        // SAFETY: the caller passes NULL or a structure whose size is set.
        unsafe { fill(inform, "inform", analysis.inform().into()) }
    })
}

/// The whole report of an analysis as JSON, with everything that luge_inform has no field for.
///
/// `text`: output of `capacity` bytes; as much as there is room for is written, with a NUL at the end. NULL if `capacity` is
/// 0. `length`: output, bytes of the whole text without the NUL, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_analysis_json(
    analysis: *const luge_analysis,
    capacity: usize,
    text: *mut c_char,
    length: *mut usize,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle.
        let analysis = unsafe { state(analysis, "analysis") }?;
        let json = analysis.inform().to_json();
        // SAFETY: the caller passes room for `capacity` bytes, and NULL or a number.
        unsafe { copy_text(&json, capacity, text, length) }
    })
}
