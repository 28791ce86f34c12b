//! CHOLMOD: Cholesky's factorization, supernodal on BLAS or row by row, as CHOLMOD decides (SuiteSparse).
//!
//! Default options, but that nothing is printed. The factors of the one that goes row by row are L·D·Lᵀ without pivoting, which
//! does not notice negative pivots. Threads are those of the BLAS, and those of loops of its own, which take four whatever
//! they are told; `OMP_THREAD_LIMIT` in the environment limits these. Analysis and factors are one object: dropped factors
//! stay in memory until the analysis is dropped.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::klu::suite_sparse_version;
use crate::library::{Blas, Loaded, Missing};
use crate::{Matrix, Part, Peer, PeerError, Statistics, assert_right_hand_sides};

/// `cholmod_common`, of which this crate knows members by their places alone; several times larger than that of any version.
#[derive(Clone)]
struct Common(Box<[u64; 2048]>);

/// Places of members in `cholmod_common` of CHOLMOD 3, in bytes.
const GROW1: usize = 16;
const SUPERNODAL_SWITCH: usize = 40;
const SUPERNODAL: usize = 48;
const PRINT: usize = 144;
const NUM_METHODS: usize = 168;
const POSTORDER: usize = 1864;
const STATUS: usize = 1972;
const FLOPS: usize = 1976;
const ENTRIES: usize = 1984;
const PEAK_BYTES: usize = 2016;

impl Common {
    fn new() -> Self {
        Self(Box::new([0; 2048]))
    }

    fn as_mut_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    fn word(&self, place: usize) -> u64 {
        assert!(place.is_multiple_of(8));
        self.0[place / 8]
    }

    fn float(&self, place: usize) -> f64 {
        f64::from_bits(self.word(place))
    }

    fn int(&self, place: usize) -> c_int {
        let bytes = self.0[place / 8].to_ne_bytes();
        let at = place % 8;
        c_int::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]))
    }

    fn set_int(&mut self, place: usize, number: c_int) {
        let mut bytes = self.0[place / 8].to_ne_bytes();
        bytes[place % 8..][..4].copy_from_slice(&number.to_ne_bytes());
        self.0[place / 8] = u64::from_ne_bytes(bytes);
    }
}

/// `cholmod_sparse`.
#[repr(C)]
struct Sparse {
    nrow: usize,
    ncol: usize,
    nzmax: usize,
    p: *const u32,
    i: *const u32,
    nz: *const c_void,
    x: *const f64,
    z: *const c_void,
    stype: c_int,
    itype: c_int,
    xtype: c_int,
    dtype: c_int,
    sorted: c_int,
    packed: c_int,
}

/// `cholmod_dense`.
#[repr(C)]
struct Dense {
    nrow: usize,
    ncol: usize,
    nzmax: usize,
    d: usize,
    x: *mut f64,
    z: *mut c_void,
    xtype: c_int,
    dtype: c_int,
}

/// The head of `cholmod_factor`.
#[repr(C)]
struct Factor {
    n: usize,
    minor: usize,
}

/// Place of the flag in `cholmod_factor` of CHOLMOD 3 that says that factors are supernodal.
const IS_SUPER: usize = 184;

const LOWER_TRIANGLE: c_int = -1;
const REAL: c_int = 1;
const SYSTEM: c_int = 0;

type OfCommon = unsafe extern "C" fn(*mut c_void) -> c_int;
type Version = unsafe extern "C" fn(*mut c_int) -> c_int;
type Analyze = unsafe extern "C" fn(*const Sparse, *mut c_void) -> *mut Factor;
type Factorize = unsafe extern "C" fn(*const Sparse, *mut Factor, *mut c_void) -> c_int;
type Solve = unsafe extern "C" fn(
    c_int,
    *mut Factor,
    *const Dense,
    *const c_void,
    *mut *mut Dense,
    *mut *mut c_void,
    *mut *mut Dense,
    *mut *mut Dense,
    *mut c_void,
) -> c_int;
type Free<T> = unsafe extern "C" fn(*mut *mut T, *mut c_void) -> c_int;

/// A loaded libcholmod.
#[derive(Debug)]
pub struct Library {
    start: OfCommon,
    finish: OfCommon,
    analyze: Analyze,
    factorize: Factorize,
    solve: Solve,
    free_factor: Free<Factor>,
    free_dense: Free<Dense>,
    blas: Blas,
    version: String,
    /// Keeps the functions in memory.
    _loaded: Loaded,
}

impl Library {
    /// Loads libcholmod, from `path` if there is one.
    ///
    /// # Errors
    ///
    /// [`Missing`] if it is not found, lacks a function, or is not of version 3.
    pub fn load(path: Option<&PathBuf>) -> Result<Self, Missing> {
        let loaded = Loaded::open(path, &["libcholmod.so.3", "libcholmod.so"])?;
        // SAFETY: this is the signature in cholmod_core.h.
        let version: Version = unsafe { loaded.function("cholmod_version")? };
        let mut parts = [0; 3];
        // SAFETY: the function writes three numbers.
        unsafe { version(parts.as_mut_ptr()) };
        // SAFETY: the types are those of cholmod_core.h and cholmod_cholesky.h for 32-bit indices, and the functions live in the
        // same value as the library.
        let library = unsafe {
            Self {
                start: loaded.function("cholmod_start")?,
                finish: loaded.function("cholmod_finish")?,
                analyze: loaded.function("cholmod_analyze")?,
                factorize: loaded.function("cholmod_factorize")?,
                solve: loaded.function("cholmod_solve2")?,
                free_factor: loaded.function("cholmod_free_factor")?,
                free_dense: loaded.function("cholmod_free_dense")?,
                blas: loaded.blas(),
                version: format!(
                    "{}.{}.{}, {}",
                    parts[0],
                    parts[1],
                    parts[2],
                    suite_sparse_version(&loaded)
                ),
                _loaded: loaded,
            }
        };
        let mut common = Common::new();
        // SAFETY: the memory is larger than any version's structure.
        unsafe { (library.start)(common.as_mut_ptr()) };
        let known = parts[0] == 3
            && common.float(GROW1) == 1.2
            && common.float(SUPERNODAL_SWITCH) == 40.0
            && common.int(SUPERNODAL) == 1
            && common.int(PRINT) == 3
            && common.int(NUM_METHODS) == 0
            && common.int(POSTORDER) == 1
            && common.int(STATUS) == 0
            && common.float(FLOPS) == -1.0
            && common.float(ENTRIES) == -1.0
            && common.word(PEAK_BYTES) == 0;
        // SAFETY: it was started.
        unsafe { (library.finish)(common.as_mut_ptr()) };
        if known {
            Ok(library)
        } else {
            Err(Missing(format!(
                "{}: cholmod_common lies in memory otherwise than in CHOLMOD 3",
                library._loaded.file
            )))
        }
    }
}

/// One matrix in CHOLMOD.
pub struct Cholmod {
    library: Arc<Library>,
    threads: usize,
    common: Common,
    factor: Option<NonNull<Factor>>,
    has_factors: bool,
    n: usize,
    /// Solution and workspaces of a solve, which CHOLMOD allocates and uses again.
    solution: *mut Dense,
    workspaces: [*mut Dense; 2],
}

impl Cholmod {
    /// A solver whose BLAS may use `threads` threads.
    pub fn new(library: Arc<Library>, threads: usize) -> Self {
        let mut common = Common::new();
        // SAFETY: the memory is larger than any version's structure.
        unsafe { (library.start)(common.as_mut_ptr()) };
        common.set_int(PRINT, 0);
        Self {
            library,
            threads,
            common,
            factor: None,
            has_factors: false,
            n: 0,
            solution: ptr::null_mut(),
            workspaces: [ptr::null_mut(); 2],
        }
    }

    fn check(&self) -> Result<(), PeerError> {
        match self.common.int(STATUS) {
            0 => Ok(()),
            1 => Err(PeerError::NotPositiveDefinite),
            2 => Err(PeerError::Singular(None)),
            -2 => Err(PeerError::OutOfMemory),
            -3 => Err(PeerError::TooLarge),
            other => Err(PeerError::Failed(format!("cholmod status {other}"))),
        }
    }
}

/// The lower triangle by columns as CHOLMOD takes it; the pointers are good as long as `a`.
fn lower_triangle(a: &Matrix) -> Sparse {
    let form = a.form(Part::Upper);
    Sparse {
        nrow: a.n(),
        ncol: a.n(),
        nzmax: form.values.len(),
        p: form.ptr.as_ptr(),
        i: form.idx.as_ptr(),
        nz: ptr::null(),
        x: form.values.as_ptr(),
        z: ptr::null(),
        stype: LOWER_TRIANGLE,
        itype: 0,
        xtype: REAL,
        dtype: 0,
        sorted: 1,
        packed: 1,
    }
}

impl Peer for Cholmod {
    fn name(&self) -> &'static str {
        "cholmod"
    }

    fn version(&self) -> String {
        self.library.version.clone()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "loops of its own take four threads where OMP_THREAD_LIMIT allows it".to_owned(),
            self.library.blas.description.clone(),
        ]
    }

    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_analysis();
        self.library.blas.use_threads(self.threads);
        self.n = a.n();
        let triangle = lower_triangle(a);
        // SAFETY: the arrays are a compressed matrix of order n with indices below 2³¹, which CHOLMOD reads alone, and `common`
        // was started.
        let factor = unsafe { (self.library.analyze)(&triangle, self.common.as_mut_ptr()) };
        self.factor = NonNull::new(factor);
        self.check()
    }

    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        let factor = self.factor.ok_or(PeerError::OutOfOrder)?;
        self.drop_factors();
        self.library.blas.use_threads(self.threads);
        let triangle = lower_triangle(a);
        // SAFETY: as in `analyze`; the factor is what cholmod_analyze gave for a matrix of this pattern.
        unsafe {
            (self.library.factorize)(&triangle, factor.as_ptr(), self.common.as_mut_ptr());
        }
        self.check()?;
        // SAFETY: it is what cholmod_analyze gave, and is freed in drop_analysis alone.
        if unsafe { factor.as_ref() }.minor < self.n {
            return Err(PeerError::NotPositiveDefinite);
        }
        self.has_factors = true;
        Ok(())
    }

    fn refactorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        if !self.has_factors {
            return Err(PeerError::OutOfOrder);
        }
        self.factorize(a)
    }

    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        let factor = self.factor.filter(|_| self.has_factors);
        let factor = factor.ok_or(PeerError::OutOfOrder)?;
        assert_right_hand_sides(self.n, x, nrhs);
        self.library.blas.use_threads(self.threads);
        let b = Dense {
            nrow: self.n,
            ncol: nrhs,
            nzmax: x.len(),
            d: self.n,
            x: x.as_mut_ptr(),
            z: ptr::null_mut(),
            xtype: REAL,
            dtype: 0,
        };
        let [first, second] = &mut self.workspaces;
        // SAFETY: b holds n · nrhs values, which are read alone; solution and workspaces are null or what an earlier call
        // made; no part of the solution is asked for.
        let done = unsafe {
            (self.library.solve)(
                SYSTEM,
                factor.as_ptr(),
                &b,
                ptr::null(),
                &mut self.solution,
                ptr::null_mut(),
                first,
                second,
                self.common.as_mut_ptr(),
            )
        };
        self.check()?;
        // SAFETY: it is null or what CHOLMOD made.
        match unsafe { self.solution.as_ref() } {
            Some(solution) if done != 0 => {
                // SAFETY: CHOLMOD made it for nrhs columns of n values, one after another.
                x.copy_from_slice(unsafe { std::slice::from_raw_parts(solution.x, x.len()) });
                Ok(())
            }
            _ => Err(PeerError::Failed("cholmod gave no solution".to_owned())),
        }
    }

    fn solve_transpose(&mut self, _: &mut [f64], _: usize) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }

    fn statistics(&mut self) -> Statistics {
        let Some(factor) = self.factor.filter(|_| self.has_factors) else {
            return Statistics::default();
        };
        // SAFETY: the factor is a cholmod_factor of CHOLMOD 3, as the check of the library says, which has a number there.
        let is_super = unsafe { factor.as_ptr().byte_add(IS_SUPER).cast::<c_int>().read() };
        let known = |number: f64| (number >= 0.0).then_some(number);
        Statistics {
            factor_entries: known(self.common.float(ENTRIES)).map(|entries| entries as u64),
            flops: known(self.common.float(FLOPS)),
            peak_bytes: Some(self.common.word(PEAK_BYTES)),
            // The one that goes row by row does not look at signs.
            inertia: (is_super != 0).then_some([self.n as u64, 0]),
            details: vec![
                match is_super {
                    0 => "row by row",
                    _ => "supernodal",
                }
                .to_owned(),
            ],
            ..Statistics::default()
        }
    }

    fn drop_factors(&mut self) {
        self.has_factors = false;
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        let common = self.common.as_mut_ptr();
        for dense in [&mut self.solution].into_iter().chain(&mut self.workspaces) {
            // SAFETY: it is null or what cholmod_solve2 made, and the call makes it null.
            unsafe { (self.library.free_dense)(dense, common) };
        }
        if let Some(factor) = self.factor.take() {
            // SAFETY: it is what cholmod_analyze gave, and `take` makes this the only time.
            unsafe { (self.library.free_factor)(&mut factor.as_ptr(), common) };
        }
    }
}

impl Drop for Cholmod {
    fn drop(&mut self) {
        self.drop_analysis();
        // SAFETY: it was started, and all that was made with it is freed.
        unsafe { (self.library.finish)(self.common.as_mut_ptr()) };
    }
}
