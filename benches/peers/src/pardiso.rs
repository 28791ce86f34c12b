//! PARDISO of Intel's MKL: supernodal, with pivots searched within supernodes and replaced where they are too small: LU,
//! L·D·Lᵀ with pivots of order 1 and 2, and Cholesky (`mtype` 11, −2 and 2).
//!
//! The options of `pardisoinit`, but that a solve refines only where pivots were replaced, which no option forbids (the
//! default is two steps always; [`Peer::solve_refined`] has them), and that indices start at 0. For symmetric matrices these
//! options have neither scaling nor matching; the peer `pardiso-matched` has both (`iparm(11)` and `iparm(13)`), as MKL's
//! reference advises for saddle points and interior-point methods.
//!
//! The library finds its parts where it lies, and an OpenMP runtime in the process.

use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use crate::library::{Loaded, Missing, open_for_all};
use crate::{
    Compressed, Matrix, Part, Peer, PeerError, Statistics, Structure, assert_right_hand_sides,
};

const NAMES: [&str; 3] = ["libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"];

/// Positions in `iparm`, the first one 0.
const REFINEMENT_STEPS: usize = 7;
const SCALING: usize = 10;
const TRANSPOSE: usize = 11;
const MATCHING: usize = 12;
const PERTURBED: usize = 13;
const PEAK_OF_ANALYSIS: usize = 14;
const PERMANENT_OF_ANALYSIS: usize = 15;
const OF_FACTORS: usize = 16;
const ENTRIES: usize = 17;
const MEGAFLOPS: usize = 18;
const POSITIVE: usize = 21;
const NEGATIVE: usize = 22;
const INDICES_START_AT_ZERO: usize = 34;

const ANALYZE: c_int = 11;
const FACTORIZE: c_int = 22;
const SOLVE: c_int = 33;
const RELEASE: c_int = -1;

/// Refinement steps of `pardisoinit`.
const DEFAULT_REFINEMENT: c_int = 2;

type Call = unsafe extern "C" fn(
    *mut usize,
    *const c_int,
    *const c_int,
    *const c_int,
    *const c_int,
    *const c_int,
    *const f64,
    *const u32,
    *const u32,
    *mut c_int,
    *const c_int,
    *mut c_int,
    *const c_int,
    *mut f64,
    *mut f64,
    *mut c_int,
);
type Init = unsafe extern "C" fn(*mut usize, *const c_int, *mut c_int);
type SetThreads = unsafe extern "C" fn(c_int);
type VersionString = unsafe extern "C" fn(*mut c_char, c_int);

/// A loaded libmkl_rt.
#[derive(Debug)]
pub struct Library {
    call: Call,
    init: Init,
    set_threads: SetThreads,
    version: String,
    /// Keeps the functions in memory.
    _loaded: Loaded,
}

impl Library {
    /// Loads libmkl_rt, from `path` if there is one, and before it what it takes from the process: libm, and libiomp5, which is
    /// looked for beside it first. Its parts come with a BLAS under the usual names: load it behind all other libraries.
    ///
    /// # Errors
    ///
    /// [`Missing`] if one of them is not found, or lacks a function.
    pub fn load(path: Option<&PathBuf>) -> Result<Self, Missing> {
        let beside = path.and_then(|path| Some(path.parent()?.join("libiomp5.so")));
        let openmp = beside.filter(|file| file.exists());
        let openmp = openmp.unwrap_or_else(|| PathBuf::from("libiomp5.so"));
        for file in [Path::new("libm.so.6"), &openmp] {
            // SAFETY: the C library's mathematics, and an OpenMP runtime, which sets up its own state.
            let opened = unsafe { open_for_all(file) };
            opened.map_err(|Missing(reason)| {
                let library = path.map_or(Path::new(NAMES[0]), PathBuf::as_path);
                Missing(format!("needed by {}: {reason}", library.display()))
            })?;
        }
        let loaded = Loaded::open(path, &NAMES)?;
        // SAFETY: these are the signatures that MKL's reference gives with 32-bit integers, its default.
        let (describe, call, init, set_threads) = unsafe {
            (
                loaded.function::<VersionString>("mkl_get_version_string")?,
                loaded.function::<Call>("pardiso")?,
                loaded.function::<Init>("pardisoinit")?,
                loaded.function::<SetThreads>("MKL_Set_Num_Threads")?,
            )
        };
        let mut text = [0_u8; 200];
        // SAFETY: the function writes at most so many characters.
        unsafe { describe(text.as_mut_ptr().cast(), text.len() as c_int) };
        let text = String::from_utf8_lossy(&text);
        let version = text.trim_end_matches([' ', '\0']).to_owned();
        Ok(Self {
            call,
            init,
            set_threads,
            version,
            _loaded: loaded,
        })
    }
}

/// One matrix in PARDISO.
pub struct Pardiso {
    library: Arc<Library>,
    structure: Structure,
    /// Whether symmetric matrices are scaled and matched.
    is_matched: bool,
    threads: usize,
    /// PARDISO's own memory, if there is an analysis.
    handle: Option<Box<[usize; 64]>>,
    iparm: [c_int; 64],
    /// The matrix of the last call, which a solve may read.
    matrix: Option<Arc<Compressed>>,
    has_factors: bool,
    n: usize,
    right_hand_side: Vec<f64>,
}

impl Pardiso {
    /// A solver that is told `structure` and may use `threads` threads.
    pub fn new(library: Arc<Library>, structure: Structure, threads: usize) -> Self {
        Self {
            library,
            structure,
            is_matched: false,
            threads,
            handle: None,
            iparm: [0; 64],
            matrix: None,
            has_factors: false,
            n: 0,
            right_hand_side: Vec::new(),
        }
    }

    /// The same with scaling and matching of symmetric matrices.
    pub fn matched(mut self) -> Self {
        self.is_matched = true;
        self
    }

    fn matrix_type(&self) -> c_int {
        match self.structure {
            Structure::General => 11,
            Structure::Symmetric | Structure::Hermitian => -2,
            Structure::Definite => 2,
        }
    }

    fn take(&mut self, a: &Matrix) {
        let part = match self.structure {
            Structure::General => Part::Whole,
            _ => Part::UpperWithDiagonal,
        };
        self.matrix = Some(Arc::clone(a.form(part)));
    }

    /// A phase; a solve reads the right-hand side that is there and writes to `x`.
    fn phase(&mut self, phase: c_int, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        let kind = self.matrix_type();
        let (Some(handle), Some(matrix)) = (self.handle.as_deref_mut(), &self.matrix) else {
            return Err(PeerError::OutOfOrder);
        };
        let (one, silent, mut error) = (1, 0, 0);
        let threads = c_int::try_from(self.threads).unwrap_or(c_int::MAX);
        // SAFETY: the function takes any number, and no other call of MKL is under way.
        unsafe { (self.library.set_threads)(threads) };
        // SAFETY: the handle is of this library and zeroed before its first call, iparm has its 64 numbers, the arrays are the
        // matrix of order n that was analyzed or one of its pattern, by rows, with indices from 0 and with the whole
        // diagonal where it is symmetric; right-hand sides and x hold n · nrhs values, which a solve alone reads and writes.
        unsafe {
            (self.library.call)(
                handle.as_mut_ptr(),
                &one,
                &one,
                &kind,
                &phase,
                &(self.n as c_int),
                matrix.values.as_ptr(),
                matrix.ptr.as_ptr(),
                matrix.idx.as_ptr(),
                ptr::null_mut(),
                &(nrhs as c_int),
                self.iparm.as_mut_ptr(),
                &silent,
                self.right_hand_side.as_mut_ptr(),
                x.as_mut_ptr(),
                &mut error,
            );
        }
        match error {
            0 => Ok(()),
            -2 | -9 => Err(PeerError::OutOfMemory),
            -4 if self.structure == Structure::Definite => Err(PeerError::NotPositiveDefinite),
            -4 | -7 => Err(PeerError::Singular(None)),
            -8 => Err(PeerError::TooLarge),
            other => Err(PeerError::Failed(format!("pardiso error {other}"))),
        }
    }

    fn solve_by(&mut self, x: &mut [f64], nrhs: usize, transpose: bool) -> Result<(), PeerError> {
        if !self.has_factors {
            return Err(PeerError::OutOfOrder);
        }
        assert_right_hand_sides(self.n, x, nrhs);
        self.right_hand_side.clear();
        self.right_hand_side.extend_from_slice(x);
        self.iparm[TRANSPOSE] = if transpose { 2 } else { 0 };
        self.phase(SOLVE, x, nrhs)
    }
}

impl Peer for Pardiso {
    fn name(&self) -> &'static str {
        if self.is_matched {
            "pardiso-matched"
        } else {
            "pardiso"
        }
    }

    fn version(&self) -> String {
        self.library.version.clone()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "a solve refines where pivots were replaced (the default: always)".to_owned(),
            "a refactorization searches pivots anew, within supernodes".to_owned(),
        ]
    }

    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_analysis();
        self.n = a.n();
        self.take(a);
        let mut handle = Box::new([0; 64]);
        let kind = self.matrix_type();
        // SAFETY: the handle and iparm have 64 elements each.
        unsafe { (self.library.init)(handle.as_mut_ptr(), &kind, self.iparm.as_mut_ptr()) };
        self.handle = Some(handle);
        self.iparm[INDICES_START_AT_ZERO] = 1;
        self.iparm[REFINEMENT_STEPS] = 0;
        if self.is_matched {
            self.iparm[SCALING] = 1;
            self.iparm[MATCHING] = 1;
        }
        let analyzed = self.phase(ANALYZE, &mut [], 1);
        if analyzed.is_err() {
            self.drop_analysis();
        }
        analyzed
    }

    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        if self.handle.is_none() {
            return Err(PeerError::OutOfOrder);
        }
        self.drop_factors();
        self.take(a);
        self.phase(FACTORIZE, &mut [], 1)?;
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
        self.solve_by(x, nrhs, false)
    }

    fn solve_transpose(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        match self.structure {
            Structure::General => self.solve_by(x, nrhs, true),
            _ => Err(PeerError::Unsupported),
        }
    }

    fn solve_refined(&mut self, b: &[f64]) -> Result<Vec<f64>, PeerError> {
        let mut x = b.to_vec();
        self.iparm[REFINEMENT_STEPS] = DEFAULT_REFINEMENT;
        let solved = self.solve_by(&mut x, 1, false);
        self.iparm[REFINEMENT_STEPS] = 0;
        solved.map(|()| x)
    }

    fn statistics(&mut self) -> Statistics {
        if !self.has_factors {
            return Statistics::default();
        }
        let count = |position: usize| u64::try_from(self.iparm[position]).ok();
        let kibibytes = |position: usize| count(position).unwrap_or(0);
        let after = kibibytes(PERMANENT_OF_ANALYSIS) + kibibytes(OF_FACTORS);
        let both = count(POSITIVE).zip(count(NEGATIVE));
        let inertia = match self.structure {
            Structure::General => None,
            Structure::Symmetric | Structure::Hermitian => {
                both.map(|(positive, negative)| [positive, negative])
            }
            Structure::Definite => Some([self.n as u64, 0]),
        };
        Statistics {
            factor_entries: count(ENTRIES),
            // It counts whole millions.
            flops: count(MEGAFLOPS)
                .filter(|&mega| mega > 0)
                .map(|mega| mega as f64 * 1e6),
            peak_bytes: Some(1024 * after.max(kibibytes(PEAK_OF_ANALYSIS))),
            num_perturbed: count(PERTURBED),
            inertia,
            ..Statistics::default()
        }
    }

    fn drop_factors(&mut self) {
        self.has_factors = false;
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        if self.handle.is_some() {
            // What it says of freeing memory changes nothing.
            let _ = self.phase(RELEASE, &mut [], 1);
        }
        self.handle = None;
        self.matrix = None;
    }
}

impl Drop for Pardiso {
    fn drop(&mut self) {
        self.drop_analysis();
    }
}
