//! UMFPACK: unsymmetric multifrontal LU on BLAS (SuiteSparse).
//!
//! Default options, but that a solve does no refinement: refinement is UMFPACK's default (two steps),
//! and would be compared with bare triangular solves of the others. Threads are those of the BLAS.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::klu::suite_sparse_version;
use crate::library::{Blas, Loaded, Missing};
use crate::{Matrix, Peer, PeerError, Statistics, assert_right_hand_sides};

/// Lengths of `Control` and `Info` in umfpack.h of versions 5 and 6.
const CONTROL: usize = 20;
const INFO: usize = 90;
/// Positions in `Control` and `Info`.
const CONTROL_PIVOT_TOLERANCE: usize = 3;
const CONTROL_IRSTEP: usize = 7;
const INFO_SIZE_OF_UNIT: usize = 3;
const INFO_STRATEGY_USED: usize = 18;
const INFO_PEAK_MEMORY: usize = 41;
const INFO_FLOPS: usize = 42;
const INFO_LNZ: usize = 43;
const INFO_UNZ: usize = 44;

type Control = [f64; CONTROL];
type Info = [f64; INFO];
type Defaults = unsafe extern "C" fn(*mut f64);
type Symbolic = unsafe extern "C" fn(
    c_int,
    c_int,
    *const c_int,
    *const c_int,
    *const f64,
    *mut *mut c_void,
    *const f64,
    *mut f64,
) -> c_int;
type Numeric = unsafe extern "C" fn(
    *const c_int,
    *const c_int,
    *const f64,
    *mut c_void,
    *mut *mut c_void,
    *const f64,
    *mut f64,
) -> c_int;
type Solve = unsafe extern "C" fn(
    c_int,
    *const c_int,
    *const c_int,
    *const f64,
    *mut f64,
    *const f64,
    *mut c_void,
    *const f64,
    *mut f64,
    *mut c_int,
    *mut f64,
) -> c_int;
type Free = unsafe extern "C" fn(*mut *mut c_void);

/// A loaded libumfpack.
#[derive(Debug)]
pub struct Library {
    symbolic: Symbolic,
    numeric: Numeric,
    wsolve: Solve,
    free_symbolic: Free,
    free_numeric: Free,
    control: Control,
    blas: Blas,
    version: String,
    /// Keeps the functions in memory.
    _loaded: Loaded,
}

impl Library {
    /// Loads libumfpack, from `path` if there is one.
    ///
    /// # Errors
    ///
    /// [`Missing`] if it is not found, lacks a function, or has other default options than known.
    pub fn load(path: Option<&PathBuf>) -> Result<Self, Missing> {
        let names = ["libumfpack.so.5", "libumfpack.so.6", "libumfpack.so"];
        let loaded = Loaded::open(path, &names)?;
        // SAFETY: this is the signature in umfpack.h.
        let defaults: Defaults = unsafe { loaded.function("umfpack_di_defaults")? };
        // Room for a version that knows more options.
        let mut control = [f64::NAN; 4 * CONTROL];
        // SAFETY: the function writes the 20 numbers of Control.
        unsafe { defaults(control.as_mut_ptr()) };
        let known = control[CONTROL_IRSTEP] == 2.0
            && control[CONTROL_PIVOT_TOLERANCE] == 0.1
            && control[CONTROL..].iter().all(|c| c.is_nan());
        if !known {
            return Err(Missing(format!(
                "{}: other default options than those of UMFPACK 5 and 6",
                loaded.file
            )));
        }
        let mut control: Control = std::array::from_fn(|position| control[position]);
        control[CONTROL_IRSTEP] = 0.0;
        // SAFETY: the types are those of umfpack.h for 32-bit indices, and the functions live in the
        // same value as the library.
        unsafe {
            Ok(Self {
                symbolic: loaded.function("umfpack_di_symbolic")?,
                numeric: loaded.function("umfpack_di_numeric")?,
                wsolve: loaded.function("umfpack_di_wsolve")?,
                free_symbolic: loaded.function("umfpack_di_free_symbolic")?,
                free_numeric: loaded.function("umfpack_di_free_numeric")?,
                control,
                blas: loaded.blas(),
                version: suite_sparse_version(&loaded),
                _loaded: loaded,
            })
        }
    }
}

/// One matrix in UMFPACK.
pub struct Umfpack {
    library: Arc<Library>,
    threads: usize,
    symbolic: Option<NonNull<c_void>>,
    numeric: Option<NonNull<c_void>>,
    info: Info,
    n: usize,
    /// Workspace of a solve, and the right-hand side, which UMFPACK wants apart from the solution.
    indices: Vec<c_int>,
    values: Vec<f64>,
    right_hand_side: Vec<f64>,
}

const SYSTEM: c_int = 0;
const TRANSPOSED_SYSTEM: c_int = 1;

impl Umfpack {
    /// A solver whose BLAS may use `threads` threads.
    pub fn new(library: Arc<Library>, threads: usize) -> Self {
        Self {
            library,
            threads,
            symbolic: None,
            numeric: None,
            info: [0.0; INFO],
            n: 0,
            indices: Vec::new(),
            values: Vec::new(),
            right_hand_side: Vec::new(),
        }
    }

    fn solve_by(&mut self, system: c_int, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        let numeric = self.numeric.ok_or(PeerError::OutOfOrder)?;
        assert_right_hand_sides(self.n, x, nrhs);
        self.library.blas.use_threads(self.threads);
        for x in x.chunks_exact_mut(self.n.max(1)) {
            self.right_hand_side.copy_from_slice(x);
            // SAFETY: without refinement the matrix is not read (umfpack_solve.h), so it is null, and
            // both workspaces hold n; x and the right-hand side hold n and do not overlap; the numeric
            // object is of this library.
            let status = unsafe {
                (self.library.wsolve)(
                    system,
                    ptr::null(),
                    ptr::null(),
                    ptr::null(),
                    x.as_mut_ptr(),
                    self.right_hand_side.as_ptr(),
                    numeric.as_ptr(),
                    self.library.control.as_ptr(),
                    ptr::null_mut(),
                    self.indices.as_mut_ptr(),
                    self.values.as_mut_ptr(),
                )
            };
            check(status)?;
        }
        Ok(())
    }
}

fn check(status: c_int) -> Result<(), PeerError> {
    match status {
        0 => Ok(()),
        1 => Err(PeerError::Singular(None)),
        -1 => Err(PeerError::OutOfMemory),
        other => Err(PeerError::Failed(format!("umfpack status {other}"))),
    }
}

impl Peer for Umfpack {
    fn name(&self) -> &'static str {
        "umfpack"
    }

    fn version(&self) -> String {
        self.library.version.clone()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "no refinement in a solve (UMFPACK's default is two steps)".to_owned(),
            self.library.blas.description.clone(),
        ]
    }

    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_analysis();
        self.library.blas.use_threads(self.threads);
        self.n = a.n();
        self.info = [0.0; INFO];
        let mut symbolic = ptr::null_mut();
        // SAFETY: the arrays are a compressed matrix of order n with indices below 2³¹; Control and
        // Info have their lengths.
        let status = unsafe {
            (self.library.symbolic)(
                a.n() as c_int,
                a.n() as c_int,
                a.col_ptr().as_ptr().cast(),
                a.row_idx().as_ptr().cast(),
                a.values().as_ptr(),
                &mut symbolic,
                self.library.control.as_ptr(),
                self.info.as_mut_ptr(),
            )
        };
        self.symbolic = NonNull::new(symbolic);
        check(status)
    }

    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        let symbolic = self.symbolic.ok_or(PeerError::OutOfOrder)?;
        self.drop_factors();
        self.library.blas.use_threads(self.threads);
        let mut numeric = ptr::null_mut();
        // SAFETY: as in `analyze`; UMFPACK checks that the matrix has the pattern of the analysis.
        let status = unsafe {
            (self.library.numeric)(
                a.col_ptr().as_ptr().cast(),
                a.row_idx().as_ptr().cast(),
                a.values().as_ptr(),
                symbolic.as_ptr(),
                &mut numeric,
                self.library.control.as_ptr(),
                self.info.as_mut_ptr(),
            )
        };
        self.numeric = NonNull::new(numeric);
        self.indices.resize(self.n, 0);
        self.values.resize(self.n, 0.0);
        self.right_hand_side.resize(self.n, 0.0);
        check(status)
    }

    fn refactorize(&mut self, _: &Matrix) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }

    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        self.solve_by(SYSTEM, x, nrhs)
    }

    fn solve_transpose(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        self.solve_by(TRANSPOSED_SYSTEM, x, nrhs)
    }

    fn statistics(&mut self) -> Statistics {
        if self.numeric.is_none() {
            return Statistics::default();
        }
        let info = &self.info;
        let strategy = match info[INFO_STRATEGY_USED] {
            1.0 => "unsymmetric strategy",
            3.0 => "symmetric strategy",
            _ => "other strategy",
        };
        let entries = info[INFO_LNZ] + info[INFO_UNZ] - self.n as f64;
        Statistics {
            factor_entries: Some(entries.max(0.0) as u64),
            flops: Some(info[INFO_FLOPS]),
            peak_bytes: Some((info[INFO_PEAK_MEMORY] * info[INFO_SIZE_OF_UNIT]) as u64),
            details: vec![strategy.to_owned()],
            ..Statistics::default()
        }
    }

    fn drop_factors(&mut self) {
        if let Some(numeric) = self.numeric.take() {
            // SAFETY: it is what umfpack_di_numeric gave, and `take` makes this the only time.
            unsafe { (self.library.free_numeric)(&mut numeric.as_ptr()) };
        }
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        if let Some(symbolic) = self.symbolic.take() {
            // SAFETY: it is what umfpack_di_symbolic gave, and `take` makes this the only time.
            unsafe { (self.library.free_symbolic)(&mut symbolic.as_ptr()) };
        }
    }
}

impl Drop for Umfpack {
    fn drop(&mut self) {
        self.drop_analysis();
    }
}
