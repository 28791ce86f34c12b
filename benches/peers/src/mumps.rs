//! MUMPS: multifrontal LU, L·D·Lᵀ with threshold pivoting, and L·D·Lᵀ without (`SYM` = 0, 2 and 1), sequential.
//!
//! Default options, but that nothing is printed. Where the workspace that MUMPS predicts does not hold the delayed pivots
//! (error −9), it is given twice the margin (`ICNTL(14)`) and factorizes again, as its users' manual says; the time of all
//! attempts counts. A factorization with `SYM` = 1 goes on over negative pivots; that it met some is an error here. Threads
//! are those of the BLAS. MUMPS keeps the analysis and the factors in one place: dropped factors stay in memory until the
//! analysis is dropped.

use std::ffi::c_int;
use std::mem::offset_of;
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;

use crate::library::{Blas, Loaded, Missing};
use crate::{Matrix, Part, Peer, PeerError, Statistics, Structure, assert_right_hand_sides};

/// What `dmumps_c` works on, in MUMPS 5.5 with 32-bit indices: the members that the users' manual names and this crate uses,
/// at their places, and room for those that it does not.
#[repr(C)]
struct Data {
    sym: c_int,
    par: c_int,
    job: c_int,
    comm_fortran: c_int,
    icntl: [c_int; 60],
    _keep: [c_int; 500],
    cntl: [f64; 15],
    _dkeep: [f64; 230],
    _keep8: [i64; 150],
    n: c_int,
    _blocks: [c_int; 3],
    nnz: i64,
    irn: *mut c_int,
    jcn: *mut c_int,
    a: *mut f64,
    _distributed_and_scaling: [u64; 17],
    rhs: *mut f64,
    _other_sides: [u64; 8],
    nrhs: c_int,
    lrhs: c_int,
    _schur: [u64; 6],
    _info: [c_int; 80],
    infog: [c_int; 80],
    _rinfo: [f64; 40],
    rinfog: [f64; 40],
    _null_space: [u64; 8],
    version: [u8; 32],
    /// More than the rest of it: names of files.
    _rest: [u64; 512],
}

/// Places that the header of MUMPS 5.5.1 gives.
const _: () = {
    assert!(offset_of!(Data, cntl) == 2256);
    assert!(offset_of!(Data, nnz) == 5432);
    assert!(offset_of!(Data, rhs) == 5600);
    assert!(offset_of!(Data, nrhs) == 5672);
    assert!(offset_of!(Data, infog) == 6048);
    assert!(offset_of!(Data, rinfog) == 6688);
    assert!(offset_of!(Data, version) == 7072);
};

/// The communicator of all processes, in the sequential library too.
const ALL_PROCESSES: c_int = -987_654;

const JOB_BEGIN: c_int = -1;
const JOB_END: c_int = -2;
const JOB_ANALYZE: c_int = 1;
const JOB_FACTORIZE: c_int = 2;
const JOB_SOLVE: c_int = 3;

/// Positions in `ICNTL`, `INFOG` and `RINFOG`, the first one 0.
const ICNTL_TRANSPOSE: usize = 8;
const ICNTL_MARGIN: usize = 13;
const INFOG_STATUS: usize = 0;
const INFOG_ORDERING: usize = 6;
const INFOG_NEGATIVE: usize = 11;
const INFOG_DELAYED: usize = 12;
const INFOG_MEGABYTES: usize = 21;
const INFOG_NULL: usize = 27;
const INFOG_ENTRIES: usize = 28;
const RINFOG_FLOPS: usize = 2;

/// The workspace is too small.
const STATUS_WORKSPACE: c_int = -9;

/// Margin of the workspace, in percent of what is predicted, above which MUMPS is not asked again.
const LARGEST_MARGIN: c_int = 10_000;

type Call = unsafe extern "C" fn(*mut Data);

/// A loaded libdmumps_seq.
#[derive(Debug)]
pub struct Library {
    call: Call,
    blas: Blas,
    version: String,
    /// Keeps the function in memory.
    _loaded: Loaded,
}

impl Library {
    /// Loads libdmumps_seq, from `path` if there is one.
    ///
    /// # Errors
    ///
    /// [`Missing`] if it is not found, lacks the function, or is not of version 5.5.
    pub fn load(path: Option<&PathBuf>) -> Result<Self, Missing> {
        let loaded = Loaded::open(path, &["libdmumps_seq-5.5.so", "libdmumps_seq.so"])?;
        // SAFETY: this is the signature in dmumps_c.h.
        let call: Call = unsafe { loaded.function("dmumps_c")? };
        let mut library = Self {
            call,
            blas: loaded.blas(),
            version: String::new(),
            _loaded: loaded,
        };
        let mut data = library.begin(Structure::Symmetric);
        let version: String = data.version.iter().map(|&byte| byte as char).collect();
        // SAFETY: the data are those of `begin`, which the library has filled.
        unsafe { (library.call)(data.job_of(JOB_END)) };
        let version = version.trim_end_matches(['\0', ' ']).to_owned();
        let known = version.starts_with("5.5.") && data.icntl[6] == 7 && data.cntl[0] == 0.01;
        if !known {
            return Err(Missing(format!(
                "{}: its data lie in memory otherwise than those of MUMPS 5.5",
                library._loaded.file
            )));
        }
        library.version = format!("{version} ({})", library._loaded.file);
        Ok(library)
    }

    /// The data of a matrix of which MUMPS is told that.
    fn begin(&self, structure: Structure) -> Box<Data> {
        // SAFETY: numbers and pointers, all of which may be zero.
        let mut data: Box<Data> = Box::new(unsafe { std::mem::zeroed() });
        data.sym = match structure {
            Structure::General => 0,
            Structure::Definite => 1,
            Structure::Symmetric | Structure::Hermitian => 2,
        };
        data.par = 1;
        data.comm_fortran = ALL_PROCESSES;
        // SAFETY: the data are at least as large as the library's, zeros where it reads none of the above.
        unsafe { (self.call)(data.job_of(JOB_BEGIN)) };
        // Streams of errors, diagnostics and statistics, and how much goes to them.
        data.icntl[..4].copy_from_slice(&[-1, -1, -1, 0]);
        data
    }
}

impl Data {
    fn job_of(&mut self, job: c_int) -> *mut Self {
        self.job = job;
        self
    }
}

/// One matrix in MUMPS.
pub struct Mumps {
    library: Arc<Library>,
    structure: Structure,
    threads: usize,
    data: Option<Box<Data>>,
    has_factors: bool,
}

impl Mumps {
    /// A solver that is told `structure` and whose BLAS may use `threads` threads.
    pub fn new(library: Arc<Library>, structure: Structure, threads: usize) -> Self {
        Self {
            library,
            structure,
            threads,
            data: None,
            has_factors: false,
        }
    }

    fn part(&self) -> Part {
        match self.structure {
            Structure::General => Part::Whole,
            _ => Part::Upper,
        }
    }

    /// A job that reads the matrix.
    fn job(&mut self, job: c_int, a: &Matrix) -> Result<(), PeerError> {
        let part = self.part();
        let data = self.data.as_deref_mut().ok_or(PeerError::OutOfOrder)?;
        self.library.blas.use_threads(self.threads);
        let (form, places) = (a.form(part), a.coordinates(part));
        data.n = a.n() as c_int;
        data.nnz = form.values.len() as i64;
        data.irn = places.rows.as_ptr().cast_mut().cast();
        data.jcn = places.columns.as_ptr().cast_mut().cast();
        data.a = form.values.as_ptr().cast_mut();
        // SAFETY: the three arrays have nnz elements, which MUMPS reads and does not write, and are there until the call
        // returns; indices are from 1 to n.
        unsafe { (self.library.call)(data.job_of(job)) };
        (data.irn, data.jcn, data.a) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        check(data)
    }

    fn solve_by(&mut self, transposed: bool, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        let has_factors = self.has_factors;
        let data = self.data.as_deref_mut().filter(|_| has_factors);
        let data = data.ok_or(PeerError::OutOfOrder)?;
        assert_right_hand_sides(data.n as usize, x, nrhs);
        self.library.blas.use_threads(self.threads);
        data.icntl[ICNTL_TRANSPOSE] = c_int::from(!transposed);
        data.rhs = x.as_mut_ptr();
        data.nrhs = nrhs as c_int;
        data.lrhs = data.n;
        // SAFETY: x holds n · nrhs values, which MUMPS replaces by the solutions. Without refinement and error analysis, which
        // are off by default, it does not read the matrix again.
        unsafe { (self.library.call)(data.job_of(JOB_SOLVE)) };
        data.rhs = ptr::null_mut();
        check(data)
    }
}

fn check(data: &Data) -> Result<(), PeerError> {
    match data.infog[INFOG_STATUS] {
        // Above zero: warnings.
        0.. => Ok(()),
        -6 | -10 => Err(PeerError::Singular(None)),
        -40 => Err(PeerError::NotPositiveDefinite),
        -13 => Err(PeerError::OutOfMemory),
        -51 | -52 => Err(PeerError::TooLarge),
        status => Err(PeerError::Failed(format!(
            "mumps status {status}, {}",
            data.infog[1]
        ))),
    }
}

/// A count of 32 bits, which is in millions if it is negative.
fn count(number: c_int) -> u64 {
    match number {
        0.. => number as u64,
        _ => u64::from(number.unsigned_abs()) * 1_000_000,
    }
}

impl Peer for Mumps {
    fn name(&self) -> &'static str {
        "mumps"
    }

    fn version(&self) -> String {
        self.library.version.clone()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "a refactorization searches pivots anew".to_owned(),
            self.library.blas.description.clone(),
        ]
    }

    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_analysis();
        self.data = Some(self.library.begin(self.structure));
        let analyzed = self.job(JOB_ANALYZE, a);
        if analyzed.is_err() {
            self.drop_analysis();
        }
        analyzed
    }

    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_factors();
        loop {
            let factorized = self.job(JOB_FACTORIZE, a);
            let data = self.data.as_deref_mut().ok_or(PeerError::OutOfOrder)?;
            let margin = &mut data.icntl[ICNTL_MARGIN];
            if data.infog[INFOG_STATUS] == STATUS_WORKSPACE && *margin < LARGEST_MARGIN {
                *margin = 2 * (*margin).max(10);
                continue;
            }
            factorized?;
            if self.structure == Structure::Definite && data.infog[INFOG_NEGATIVE] > 0 {
                return Err(PeerError::NotPositiveDefinite);
            }
            self.has_factors = true;
            return Ok(());
        }
    }

    fn refactorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        if !self.has_factors {
            return Err(PeerError::OutOfOrder);
        }
        self.factorize(a)
    }

    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        self.solve_by(false, x, nrhs)
    }

    fn solve_transpose(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        match self.structure {
            Structure::General => self.solve_by(true, x, nrhs),
            _ => Err(PeerError::Unsupported),
        }
    }

    fn statistics(&mut self) -> Statistics {
        let Some(data) = self.data.as_deref().filter(|_| self.has_factors) else {
            return Statistics::default();
        };
        let infog = &data.infog;
        let is_symmetric = self.structure != Structure::General;
        let (negative, null) = (count(infog[INFOG_NEGATIVE]), count(infog[INFOG_NULL]));
        let ordering = match infog[INFOG_ORDERING] {
            0 => "AMD",
            2 => "AMF",
            3 => "SCOTCH",
            4 => "PORD",
            5 => "METIS",
            6 => "QAMD",
            _ => "other",
        };
        Statistics {
            factor_entries: Some(count(infog[INFOG_ENTRIES])),
            flops: Some(data.rinfog[RINFOG_FLOPS]),
            // It counts whole megabytes.
            peak_bytes: Some(count(infog[INFOG_MEGABYTES]).max(1) * 1_000_000),
            inertia: is_symmetric.then_some([data.n as u64 - negative - null, negative]),
            details: vec![
                format!("ordering {ordering}"),
                format!("{} delayed pivots", count(infog[INFOG_DELAYED])),
                format!("margin of the workspace {} %", data.icntl[ICNTL_MARGIN]),
            ],
            ..Statistics::default()
        }
    }

    fn drop_factors(&mut self) {
        self.has_factors = false;
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        if let Some(mut data) = self.data.take() {
            // SAFETY: the data are those of `begin`, and `take` makes this the last call on them.
            unsafe { (self.library.call)(data.job_of(JOB_END)) };
        }
    }
}

impl Drop for Mumps {
    fn drop(&mut self) {
        self.drop_analysis();
    }
}
