//! SSIDS of SPRAL: multifrontal L·D·Lᵀ with threshold pivoting, a posteriori by blocks, and Cholesky, on BLAS and OpenMP.
//!
//! Default options, which do not scale: METIS orders. The matrix is handed over without SSIDS's check of it, as it is in the
//! form that the check would make. A singular matrix, with which SSIDS goes on, is an error here. Threads are those of OpenMP,
//! each with a BLAS of one.
//!
//! SSIDS works with OpenMP's cancellation alone, which only `OMP_CANCELLATION=true` in the environment turns on. It also asks
//! for `OMP_PROC_BIND=true`, which ties the thread that all solvers are called from to one core. METIS is taken from the
//! folder that the library lies in, if it is there.

use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;

use crate::library::{Blas, Loaded, Missing};
use crate::{
    Compressed, Matrix, Part, Peer, PeerError, Statistics, Structure, assert_right_hand_sides,
};

/// `spral_ssids_options`.
#[repr(C)]
#[derive(Clone)]
struct Options {
    _array_base: c_int,
    print_level: c_int,
    _units: [c_int; 3],
    ordering: c_int,
    _nemin: c_int,
    _ignore_numa: bool,
    use_gpu: bool,
    _min_gpu_work: i64,
    _balance: [f32; 2],
    _scaling: c_int,
    _small_subtree_threshold: i64,
    _cpu_block_size: c_int,
    _action: bool,
    _pivot_method: c_int,
    small: f64,
    u: f64,
    _unused: [u8; 80],
}

/// `spral_ssids_inform`.
#[repr(C)]
struct Inform {
    flag: c_int,
    _matrix: [c_int; 3],
    _rank_depth_front: [c_int; 3],
    num_delay: c_int,
    num_factor: i64,
    num_flops: i64,
    num_neg: c_int,
    num_sup: c_int,
    num_two: c_int,
    _rest: [c_int; 4],
    _unused: [u8; 76],
}

/// Places that the header of SPRAL gives.
const _: () = {
    assert!(offset_of!(Options, small) == 80);
    assert!(size_of::<Options>() == 176);
    assert!(offset_of!(Inform, num_factor) == 32);
    assert!(offset_of!(Inform, num_two) == 56);
    assert!(size_of::<Inform>() == 152);
};

/// The factorization went on over a singular matrix.
const WARNING_SINGULAR: c_int = 7;

type DefaultOptions = unsafe extern "C" fn(*mut Options);
type Analyse = unsafe extern "C" fn(
    bool,
    c_int,
    *mut c_int,
    *const u32,
    *const u32,
    *const f64,
    *mut *mut c_void,
    *const Options,
    *mut Inform,
);
type Factor = unsafe extern "C" fn(
    bool,
    *const u32,
    *const u32,
    *const f64,
    *mut f64,
    *mut c_void,
    *mut *mut c_void,
    *const Options,
    *mut Inform,
);
type Solve = unsafe extern "C" fn(
    c_int,
    c_int,
    *mut f64,
    c_int,
    *mut c_void,
    *mut c_void,
    *const Options,
    *mut Inform,
);
type Free = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type GetCancellation = unsafe extern "C" fn() -> c_int;
type SetThreads = unsafe extern "C" fn(c_int);

/// A loaded libspral.
pub struct Library {
    analyse: Analyse,
    factor: Factor,
    solve: Solve,
    free_akeep: Free,
    free_fkeep: Free,
    set_threads: SetThreads,
    options: Options,
    blas: Blas,
    /// Keeps the functions in memory.
    loaded: Loaded,
    /// What it needs beside the system's libraries.
    _needed: Vec<Loaded>,
}

impl Library {
    /// Loads libspral, from `path` if there is one.
    ///
    /// # Errors
    ///
    /// [`Missing`] if it is not found, lacks a function, has other options than those of its header, or finds OpenMP's
    /// cancellation turned off.
    pub fn load(path: Option<&PathBuf>) -> Result<Self, Missing> {
        let beside = |name| Some(path?.parent()?.join(name)).filter(|file| file.exists());
        let needed = ["libGKlib.so", "libmetis.so"].into_iter();
        let needed = needed
            .filter_map(beside)
            .map(|file| Loaded::open(Some(&file), &[]))
            .collect::<Result<_, _>>()?;
        let loaded = Loaded::open(path, &["libspral.so.0", "libspral.so"])?;
        // SAFETY: these are the signatures in spral_ssids.h, and in omp.h.
        let (default_options, get_cancellation, mut library) = unsafe {
            (
                loaded.function::<DefaultOptions>("spral_ssids_default_options")?,
                loaded.function::<GetCancellation>("omp_get_cancellation")?,
                Self {
                    analyse: loaded.function("spral_ssids_analyse_ptr32")?,
                    factor: loaded.function("spral_ssids_factor_ptr32")?,
                    solve: loaded.function("spral_ssids_solve")?,
                    free_akeep: loaded.function("spral_ssids_free_akeep")?,
                    free_fkeep: loaded.function("spral_ssids_free_fkeep")?,
                    set_threads: loaded.function("omp_set_num_threads")?,
                    // SAFETY: numbers and flags, all of which may be zero.
                    options: std::mem::zeroed(),
                    blas: loaded.blas(),
                    loaded,
                    _needed: needed,
                },
            )
        };
        // SAFETY: the function fills the options, which are as large as the library's.
        unsafe { default_options(&mut library.options) };
        let options = &library.options;
        // The threshold is a number in single precision.
        if options.ordering != 1 || options.u != f64::from(0.01_f32) || options.small != 1e-20 {
            return Err(Missing(format!(
                "{}: its options lie in memory otherwise than those of SPRAL's header",
                library.loaded.file
            )));
        }
        // SAFETY: the function takes nothing.
        if unsafe { get_cancellation() } == 0 {
            return Err(Missing(format!(
                "{} needs OMP_CANCELLATION=true in the environment",
                library.loaded.file
            )));
        }
        library.options.print_level = -1;
        library.options.use_gpu = false;
        Ok(library)
    }
}

/// One matrix in SSIDS.
pub struct Spral {
    library: Arc<Library>,
    is_definite: bool,
    threads: usize,
    n: usize,
    /// SSIDS's own memory of the analysis and of the factors; null if there is none.
    akeep: *mut c_void,
    fkeep: *mut c_void,
    inform: Option<Inform>,
}

impl Spral {
    /// A solver of definite or of symmetric matrices that may use `threads` threads.
    ///
    /// # Panics
    ///
    /// If it is told that they are general.
    pub fn new(library: Arc<Library>, structure: Structure, threads: usize) -> Self {
        assert_ne!(structure, Structure::General, "SSIDS has no LU");
        Self {
            library,
            is_definite: structure == Structure::Definite,
            threads,
            n: 0,
            akeep: ptr::null_mut(),
            fkeep: ptr::null_mut(),
            inform: None,
        }
    }

    /// Threads of the calls that follow.
    fn use_threads(&self) {
        self.library.blas.use_threads(1);
        let threads = c_int::try_from(self.threads).unwrap_or(c_int::MAX);
        // SAFETY: the function takes any positive number.
        unsafe { (self.library.set_threads)(threads.max(1)) };
    }
}

/// The lower triangle by columns.
fn form(a: &Matrix) -> &Compressed {
    a.form(Part::UpperWithDiagonal)
}

fn blank() -> Inform {
    // SAFETY: numbers, all of which may be zero.
    unsafe { std::mem::zeroed() }
}

fn check(inform: &Inform) -> Result<(), PeerError> {
    match inform.flag {
        WARNING_SINGULAR => Err(PeerError::Singular(None)),
        // Other warnings.
        0.. => Ok(()),
        -5 => Err(PeerError::Singular(None)),
        -6 => Err(PeerError::NotPositiveDefinite),
        -50 => Err(PeerError::OutOfMemory),
        flag => Err(PeerError::Failed(format!("ssids flag {flag}"))),
    }
}

impl Peer for Spral {
    fn name(&self) -> &'static str {
        "spral"
    }

    fn version(&self) -> String {
        format!("SSIDS ({})", self.library.loaded.file)
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "a refactorization searches pivots anew".to_owned(),
            self.library.blas.description.clone(),
        ]
    }

    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_analysis();
        self.use_threads();
        self.n = a.n();
        let (form, mut inform) = (form(a), blank());
        // SAFETY: ptr has n + 1 numbers and idx as many as the last of them says, the lower triangle by columns with its whole
        // diagonal, sorted, each entry once, which is what SSIDS takes unchecked; indices fit 31 bits. It takes no order and,
        // as it orders by METIS, no values. The analysis is its own.
        unsafe {
            (self.library.analyse)(
                false,
                a.n() as c_int,
                ptr::null_mut(),
                form.ptr.as_ptr(),
                form.idx.as_ptr(),
                ptr::null(),
                &mut self.akeep,
                &self.library.options,
                &mut inform,
            );
        }
        let analyzed = check(&inform);
        if analyzed.is_err() {
            self.drop_analysis();
        }
        analyzed
    }

    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_factors();
        if self.akeep.is_null() {
            return Err(PeerError::OutOfOrder);
        }
        self.use_threads();
        let (form, mut inform) = (form(a), blank());
        // SAFETY: the matrix has the pattern that was analyzed, in the same form, and a value for each entry; the analysis is
        // that of `analyze`. Nothing is scaled, so there are no scale factors. The factors are SSIDS's own.
        unsafe {
            (self.library.factor)(
                self.is_definite,
                form.ptr.as_ptr(),
                form.idx.as_ptr(),
                form.values.as_ptr(),
                ptr::null_mut(),
                self.akeep,
                &mut self.fkeep,
                &self.library.options,
                &mut inform,
            );
        }
        let factorized = check(&inform);
        match &factorized {
            Ok(()) => self.inform = Some(inform),
            Err(_) => self.drop_factors(),
        }
        factorized
    }

    fn refactorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        if self.inform.is_none() {
            return Err(PeerError::OutOfOrder);
        }
        self.factorize(a)
    }

    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        if self.inform.is_none() {
            return Err(PeerError::OutOfOrder);
        }
        assert_right_hand_sides(self.n, x, nrhs);
        self.use_threads();
        let mut inform = blank();
        // SAFETY: analysis and factors are those of this matrix; x holds n · nrhs values, which SSIDS replaces by the
        // solutions. Job 0 is the whole solve.
        unsafe {
            (self.library.solve)(
                0,
                nrhs as c_int,
                x.as_mut_ptr(),
                self.n as c_int,
                self.akeep,
                self.fkeep,
                &self.library.options,
                &mut inform,
            );
        }
        match inform.flag {
            // The factors were accepted.
            WARNING_SINGULAR => Ok(()),
            _ => check(&inform),
        }
    }

    fn solve_transpose(&mut self, _: &mut [f64], _: usize) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }

    fn statistics(&mut self) -> Statistics {
        let Some(inform) = &self.inform else {
            return Statistics::default();
        };
        let count = |number: i64| u64::try_from(number).ok();
        let negative = count(i64::from(inform.num_neg)).unwrap_or(0);
        Statistics {
            factor_entries: count(inform.num_factor),
            flops: Some(inform.num_flops as f64),
            inertia: Some(match self.is_definite {
                true => [self.n as u64, 0],
                false => [self.n as u64 - negative, negative],
            }),
            details: vec![
                format!("{} delayed pivots", inform.num_delay),
                format!("{} pivots of order 2", inform.num_two),
                format!("{} supernodes", inform.num_sup),
            ],
            ..Statistics::default()
        }
    }

    fn drop_factors(&mut self) {
        self.inform = None;
        if !self.fkeep.is_null() {
            // SAFETY: the factors are of `factorize`, and SSIDS sets the pointer to null.
            unsafe { (self.library.free_fkeep)(&mut self.fkeep) };
            self.fkeep = ptr::null_mut();
        }
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        if !self.akeep.is_null() {
            // SAFETY: as above, of `analyze`.
            unsafe { (self.library.free_akeep)(&mut self.akeep) };
            self.akeep = ptr::null_mut();
        }
    }
}

impl Drop for Spral {
    fn drop(&mut self) {
        self.drop_analysis();
    }
}
