//! UMFPACK: unsymmetric multifrontal LU on BLAS (SuiteSparse).
//!
//! Default options, but that a solve does no refinement: refinement is UMFPACK's default (two steps),
//! and would be compared with bare triangular solves of the others. Threads are those of the BLAS.
//! Real and complex matrices.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use luge_sparse::Scalar;

use crate::klu::suite_sparse_version;
use crate::library::{Blas, Loaded, Missing};
use crate::{Matrix, Peer, PeerError, PeerScalar, Statistics, assert_right_hand_sides};

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
type SymbolicComplex = unsafe extern "C" fn(
    c_int,
    c_int,
    *const c_int,
    *const c_int,
    *const f64,
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
type NumericComplex = unsafe extern "C" fn(
    *const c_int,
    *const c_int,
    *const f64,
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
type SolveComplex = unsafe extern "C" fn(
    c_int,
    *const c_int,
    *const c_int,
    *const f64,
    *const f64,
    *mut f64,
    *mut f64,
    *const f64,
    *const f64,
    *mut c_void,
    *const f64,
    *mut f64,
    *mut c_int,
    *mut f64,
) -> c_int;
type Free = unsafe extern "C" fn(*mut *mut c_void);

/// The functions that read numbers, for the matrices of one field.
#[derive(Debug, Clone, Copy)]
enum Functions {
    Real {
        symbolic: Symbolic,
        numeric: Numeric,
        wsolve: Solve,
    },
    /// A null pointer in place of imaginary parts says that they lie behind the real ones.
    Complex {
        symbolic: SymbolicComplex,
        numeric: NumericComplex,
        wsolve: SolveComplex,
    },
}

/// A matrix by columns as UMFPACK takes it.
#[derive(Clone, Copy)]
struct Columns {
    n: c_int,
    ptr: *const c_int,
    idx: *const c_int,
    values: *const f64,
}

impl Columns {
    fn of<T: PeerScalar>(a: &Matrix<T>) -> Self {
        Self {
            n: a.n() as c_int,
            ptr: a.col_ptr().as_ptr().cast(),
            idx: a.row_idx().as_ptr().cast(),
            values: a.values().as_ptr().cast(),
        }
    }
}

impl Functions {
    /// `umfpack_*_symbolic`.
    ///
    /// # Safety
    ///
    /// `a` is a matrix of this field, and `info` holds [`INFO`] numbers.
    unsafe fn symbolic(
        self,
        a: Columns,
        made: &mut *mut c_void,
        control: &Control,
        info: &mut Info,
    ) -> c_int {
        let Columns {
            n,
            ptr,
            idx,
            values,
        } = a;
        let (control, info) = (control.as_ptr(), info.as_mut_ptr());
        // SAFETY: by this function's own precondition.
        unsafe {
            match self {
                Self::Real { symbolic, .. } => {
                    symbolic(n, n, ptr, idx, values, made, control, info)
                }
                Self::Complex { symbolic, .. } => {
                    symbolic(n, n, ptr, idx, values, ptr::null(), made, control, info)
                }
            }
        }
    }

    /// `umfpack_*_numeric`.
    ///
    /// # Safety
    ///
    /// As [`symbolic`](Self::symbolic), and the symbolic object is of this library and field.
    unsafe fn numeric(
        self,
        a: Columns,
        symbolic: NonNull<c_void>,
        made: &mut *mut c_void,
        control: &Control,
        info: &mut Info,
    ) -> c_int {
        let Columns {
            ptr, idx, values, ..
        } = a;
        let symbolic = symbolic.as_ptr();
        let (control, info) = (control.as_ptr(), info.as_mut_ptr());
        // SAFETY: by this function's own precondition.
        unsafe {
            match self {
                Self::Real { numeric, .. } => {
                    numeric(ptr, idx, values, symbolic, made, control, info)
                }
                Self::Complex { numeric, .. } => {
                    numeric(ptr, idx, values, ptr::null(), symbolic, made, control, info)
                }
            }
        }
    }

    /// `umfpack_*_wsolve` without refinement, for which the matrix is not read (umfpack_solve.h).
    ///
    /// # Safety
    ///
    /// The numeric object is of this library and field, of order n; x and b hold n of its numbers, and the workspaces n integers
    /// and n real or 4·n components of complex numbers.
    unsafe fn solve(
        self,
        system: c_int,
        x: *mut f64,
        b: *const f64,
        numeric: NonNull<c_void>,
        control: &Control,
        (integers, reals): (*mut c_int, *mut f64),
    ) -> c_int {
        let (no_indices, none) = (ptr::null(), ptr::null());
        let no_info = ptr::null_mut();
        let (numeric, control) = (numeric.as_ptr(), control.as_ptr());
        // SAFETY: by this function's own precondition.
        unsafe {
            match self {
                Self::Real { wsolve, .. } => wsolve(
                    system, no_indices, no_indices, none, x, b, numeric, control, no_info,
                    integers, reals,
                ),
                Self::Complex { wsolve, .. } => wsolve(
                    system,
                    no_indices,
                    no_indices,
                    none,
                    none,
                    x,
                    ptr::null_mut(),
                    b,
                    none,
                    numeric,
                    control,
                    no_info,
                    integers,
                    reals,
                ),
            }
        }
    }
}

/// What there is for the matrices of one field.
#[derive(Debug)]
struct OfField {
    functions: Functions,
    free_symbolic: Free,
    free_numeric: Free,
    control: Control,
}

impl OfField {
    /// The functions whose names begin with `prefix`, and the default options with no refinement.
    ///
    /// # Safety
    ///
    /// `functions` takes those of the names that it is given by their types in umfpack.h.
    unsafe fn load(
        loaded: &Loaded,
        prefix: &str,
        functions: impl FnOnce([&str; 3]) -> Result<Functions, Missing>,
    ) -> Result<Self, Missing> {
        let name = |of: &str| format!("{prefix}{of}");
        // SAFETY: this is the signature in umfpack.h.
        let defaults: Defaults = unsafe { loaded.function(&name("defaults"))? };
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
        let [symbolic, numeric, wsolve] = ["symbolic", "numeric", "wsolve"].map(name);
        // SAFETY: these are the types in umfpack.h.
        unsafe {
            Ok(Self {
                functions: functions([&symbolic, &numeric, &wsolve])?,
                free_symbolic: loaded.function(&name("free_symbolic"))?,
                free_numeric: loaded.function(&name("free_numeric"))?,
                control,
            })
        }
    }
}

/// A loaded libumfpack.
#[derive(Debug)]
pub struct Library {
    real: OfField,
    complex: OfField,
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
        // SAFETY: the types are those of umfpack.h for 32-bit indices, and the functions live in the
        // same value as the library.
        unsafe {
            let real = OfField::load(&loaded, "umfpack_di_", |[symbolic, numeric, wsolve]| {
                Ok(Functions::Real {
                    symbolic: loaded.function(symbolic)?,
                    numeric: loaded.function(numeric)?,
                    wsolve: loaded.function(wsolve)?,
                })
            })?;
            let complex = OfField::load(&loaded, "umfpack_zi_", |[symbolic, numeric, wsolve]| {
                Ok(Functions::Complex {
                    symbolic: loaded.function(symbolic)?,
                    numeric: loaded.function(numeric)?,
                    wsolve: loaded.function(wsolve)?,
                })
            })?;
            Ok(Self {
                real,
                complex,
                blas: loaded.blas(),
                version: suite_sparse_version(&loaded),
                _loaded: loaded,
            })
        }
    }

    /// What there is for matrices of `T`.
    fn of<T: Scalar>(&self) -> &OfField {
        match T::COMPONENTS {
            1 => &self.real,
            _ => &self.complex,
        }
    }
}

/// One matrix in UMFPACK.
pub struct Umfpack<T: PeerScalar = f64> {
    library: Arc<Library>,
    threads: usize,
    symbolic: Option<NonNull<c_void>>,
    numeric: Option<NonNull<c_void>>,
    info: Info,
    n: usize,
    /// Workspace of a solve, and the right-hand side, which UMFPACK wants apart from the solution.
    indices: Vec<c_int>,
    components: Vec<f64>,
    right_hand_side: Vec<T>,
}

const SYSTEM: c_int = 0;
/// That with the transpose; 1 is the one with the conjugate transpose.
const TRANSPOSED_SYSTEM: c_int = 2;

impl<T: PeerScalar> Umfpack<T> {
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
            components: Vec::new(),
            right_hand_side: Vec::new(),
        }
    }

    fn solve_by(&mut self, system: c_int, x: &mut [T], nrhs: usize) -> Result<(), PeerError> {
        let numeric = self.numeric.ok_or(PeerError::OutOfOrder)?;
        assert_right_hand_sides(self.n, x, nrhs);
        self.library.blas.use_threads(self.threads);
        let of_field = self.library.of::<T>();
        for x in x.chunks_exact_mut(self.n.max(1)) {
            self.right_hand_side.copy_from_slice(x);
            // SAFETY: x and the right-hand side hold n numbers and do not overlap; the workspaces have the lengths that
            // `factorize` gave them; the numeric object is of this library and field.
            let status = unsafe {
                of_field.functions.solve(
                    system,
                    x.as_mut_ptr().cast(),
                    self.right_hand_side.as_ptr().cast(),
                    numeric,
                    &of_field.control,
                    (self.indices.as_mut_ptr(), self.components.as_mut_ptr()),
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

impl<T: PeerScalar> Peer<T> for Umfpack<T> {
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

    fn analyze(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        self.drop_analysis();
        self.library.blas.use_threads(self.threads);
        self.n = a.n();
        self.info = [0.0; INFO];
        let mut symbolic = ptr::null_mut();
        let of_field = self.library.of::<T>();
        // SAFETY: the arrays are a compressed matrix of order n with indices below 2³¹; Info has its length.
        let status = unsafe {
            of_field.functions.symbolic(
                Columns::of(a),
                &mut symbolic,
                &of_field.control,
                &mut self.info,
            )
        };
        self.symbolic = NonNull::new(symbolic);
        check(status)
    }

    fn factorize(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        let symbolic = self.symbolic.ok_or(PeerError::OutOfOrder)?;
        self.drop_factors();
        self.library.blas.use_threads(self.threads);
        let mut numeric = ptr::null_mut();
        let of_field = self.library.of::<T>();
        // SAFETY: as in `analyze`; UMFPACK checks that the matrix has the pattern of the analysis.
        let status = unsafe {
            of_field.functions.numeric(
                Columns::of(a),
                symbolic,
                &mut numeric,
                &of_field.control,
                &mut self.info,
            )
        };
        self.numeric = NonNull::new(numeric);
        self.indices.resize(self.n, 0);
        let components = if T::COMPONENTS == 1 {
            self.n
        } else {
            4 * self.n
        };
        self.components.resize(components, 0.0);
        self.right_hand_side.resize(self.n, T::default());
        check(status)
    }

    fn refactorize(&mut self, _: &Matrix<T>) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }

    fn solve(&mut self, x: &mut [T], nrhs: usize) -> Result<(), PeerError> {
        self.solve_by(SYSTEM, x, nrhs)
    }

    fn solve_transpose(&mut self, x: &mut [T], nrhs: usize) -> Result<(), PeerError> {
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
            // SAFETY: it is what the numeric function of this field gave, and `take` makes this the only time.
            unsafe { (self.library.of::<T>().free_numeric)(&mut numeric.as_ptr()) };
        }
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        if let Some(symbolic) = self.symbolic.take() {
            // SAFETY: it is what the symbolic function of this field gave, and `take` makes this the only time.
            unsafe { (self.library.of::<T>().free_symbolic)(&mut symbolic.as_ptr()) };
        }
    }
}

impl<T: PeerScalar> Drop for Umfpack<T> {
    fn drop(&mut self) {
        self.drop_analysis();
    }
}
