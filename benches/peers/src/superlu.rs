//! SuperLU (sequential): supernodal LU with partial pivoting on BLAS.
//!
//! Through its computational routines, without the driver's equilibration and refinement: COLAMD,
//! partial pivoting. Analysis is the ordering and the column elimination tree; the symbolic
//! factorization is part of `dgstrf`. Refactorization is `SamePattern_SameRowPerm`. Threads are those
//! of the BLAS.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;

use crate::library::{Blas, Loaded, Missing};
use crate::{Matrix, Peer, PeerError, Statistics, assert_right_hand_sides};

/// `SuperMatrix` with 32-bit indices.
#[repr(C)]
#[derive(Debug)]
struct SuperMatrix {
    storage: c_int,
    scalar: c_int,
    kind: c_int,
    nrow: c_int,
    ncol: c_int,
    store: *mut c_void,
}

impl SuperMatrix {
    fn empty() -> Self {
        Self {
            storage: 0,
            scalar: 0,
            kind: 0,
            nrow: 0,
            ncol: 0,
            store: ptr::null_mut(),
        }
    }
}

const STORED_BY_COLUMNS: c_int = 0;
const DENSE: c_int = 6;
const DOUBLE: c_int = 1;
const GENERAL: c_int = 0;

/// `NCformat`.
#[repr(C)]
struct Columns {
    nnz: c_int,
    values: *const f64,
    row_idx: *const c_int,
    col_ptr: *const c_int,
}

/// `DNformat`.
#[repr(C)]
struct Dense {
    leading_dimension: c_int,
    values: *mut f64,
}

/// `superlu_options_t`, whose head is read and written; longer than that of any known version.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct SuperOptions {
    fact: c_int,
    equil: c_int,
    col_perm: c_int,
    trans: c_int,
    iter_refine: c_int,
    diag_pivot_thresh: f64,
    rest: [u64; 64],
}

/// Room for a structure of SuperLU's own; `GlobalLU_t` has 152 bytes.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Room([u64; 64]);

const EMPTY: Room = Room([0; 64]);

const FACTORIZE_FIRST: c_int = 0;
const SAME_PATTERN: c_int = 1;
const SAME_PATTERN_SAME_ROW_PERM: c_int = 2;
const COLAMD: c_int = 3;

type SetDefaults = unsafe extern "C" fn(*mut SuperOptions);
type OnStatistics = unsafe extern "C" fn(*mut Room);
type GetColPerm = unsafe extern "C" fn(c_int, *mut SuperMatrix, *mut c_int);
type Preorder = unsafe extern "C" fn(
    *mut SuperOptions,
    *mut SuperMatrix,
    *mut c_int,
    *mut c_int,
    *mut SuperMatrix,
);
type Factor = unsafe extern "C" fn(
    *mut SuperOptions,
    *mut SuperMatrix,
    c_int,
    c_int,
    *mut c_int,
    *mut c_void,
    c_int,
    *mut c_int,
    *mut c_int,
    *mut SuperMatrix,
    *mut SuperMatrix,
    *mut Room,
    *mut Room,
    *mut c_int,
);
type Solve = unsafe extern "C" fn(
    c_int,
    *mut SuperMatrix,
    *mut SuperMatrix,
    *mut c_int,
    *mut c_int,
    *mut SuperMatrix,
    *mut Room,
    *mut c_int,
);
type OnMatrix = unsafe extern "C" fn(*mut SuperMatrix);
type Tuning = unsafe extern "C" fn(c_int) -> c_int;
type QuerySpace = unsafe extern "C" fn(*mut SuperMatrix, *mut SuperMatrix, *mut [f32; 2]) -> c_int;

/// A loaded libsuperlu.
#[derive(Debug)]
pub struct Library {
    stat_init: OnStatistics,
    stat_free: OnStatistics,
    get_perm_c: GetColPerm,
    preorder: Preorder,
    dgstrf: Factor,
    dgstrs: Solve,
    destroy_permuted: OnMatrix,
    destroy_super_nodes: OnMatrix,
    destroy_columns: OnMatrix,
    query_space: QuerySpace,
    set_defaults: SetDefaults,
    panel_size: c_int,
    relax: c_int,
    blas: Blas,
    version: String,
    /// Keeps the functions in memory.
    _loaded: Loaded,
}

impl Library {
    /// Loads libsuperlu 5, from `path` if there is one. Other major versions have other structures.
    ///
    /// # Errors
    ///
    /// [`Missing`] if it is not found, lacks a function, or has other default options than known.
    pub fn load(path: Option<&PathBuf>) -> Result<Self, Missing> {
        let loaded = Loaded::open(path, &["libsuperlu.so.5"])?;
        // SAFETY: the types are those of slu_ddefs.h and slu_util.h, and the functions live in the same
        // value as the library.
        let library = unsafe {
            let tuning: Tuning = loaded.function("sp_ienv")?;
            Self {
                stat_init: loaded.function("StatInit")?,
                stat_free: loaded.function("StatFree")?,
                get_perm_c: loaded.function("get_perm_c")?,
                preorder: loaded.function("sp_preorder")?,
                dgstrf: loaded.function("dgstrf")?,
                dgstrs: loaded.function("dgstrs")?,
                destroy_permuted: loaded.function("Destroy_CompCol_Permuted")?,
                destroy_super_nodes: loaded.function("Destroy_SuperNode_Matrix")?,
                destroy_columns: loaded.function("Destroy_CompCol_Matrix")?,
                query_space: loaded.function("dQuerySpace")?,
                set_defaults: loaded.function("set_default_options")?,
                panel_size: tuning(1),
                relax: tuning(2),
                blas: loaded.blas(),
                version: format!("SuperLU 5 ({})", loaded.file),
                _loaded: loaded,
            }
        };
        let options = library.default_options();
        let known = options.fact == FACTORIZE_FIRST
            && options.equil == 1
            && options.col_perm == COLAMD
            && options.trans == 0
            && options.diag_pivot_thresh == 1.0
            && options.rest[32..].iter().all(|&word| word == 0);
        if known {
            Ok(library)
        } else {
            Err(Missing(
                "libsuperlu: other default options than those of SuperLU 5".to_owned(),
            ))
        }
    }

    fn default_options(&self) -> SuperOptions {
        let mut options = SuperOptions {
            fact: -1,
            equil: -1,
            col_perm: -1,
            trans: -1,
            iter_refine: -1,
            diag_pivot_thresh: -1.0,
            rest: [0; 64],
        };
        // SAFETY: the structure is longer than the library's own.
        unsafe { (self.set_defaults)(&mut options) };
        options
    }
}

/// L and U as SuperLU keeps them.
struct Factors {
    lower: SuperMatrix,
    upper: SuperMatrix,
    global: Room,
    row_perm: Vec<c_int>,
}

/// One matrix in SuperLU.
pub struct Superlu {
    library: Arc<Library>,
    threads: usize,
    n: usize,
    /// New column of each column, and the column elimination tree.
    analysis: Option<(Vec<c_int>, Vec<c_int>)>,
    factors: Option<Box<Factors>>,
}

impl Superlu {
    /// A solver whose BLAS may use `threads` threads.
    pub fn new(library: Arc<Library>, threads: usize) -> Self {
        Self {
            library,
            threads,
            n: 0,
            analysis: None,
            factors: None,
        }
    }

    fn factorize_into(
        &mut self,
        a: &Matrix,
        fact: c_int,
        factors: &mut Factors,
    ) -> Result<(), PeerError> {
        let library = &self.library;
        library.blas.use_threads(self.threads);
        let (col_perm, etree) = self.analysis.as_mut().ok_or(PeerError::OutOfOrder)?;
        let mut store = columns(a);
        let mut a = by_columns(a.n(), &mut store);
        let mut permuted = SuperMatrix::empty();
        let mut options = library.default_options();
        options.fact = fact;
        let mut statistics = EMPTY;
        let mut info = 0;
        // SAFETY: the matrix lives until the end of the block and is only read; permutations and tree
        // hold n; L, U and `global` are empty, or those of an earlier call for this pattern if `fact`
        // says that rows are permuted as before. SuperLU allocates what it keeps by itself.
        unsafe {
            (library.preorder)(
                &mut options,
                &mut a,
                col_perm.as_mut_ptr(),
                etree.as_mut_ptr(),
                &mut permuted,
            );
            (library.stat_init)(&mut statistics);
            (library.dgstrf)(
                &mut options,
                &mut permuted,
                library.relax,
                library.panel_size,
                etree.as_mut_ptr(),
                ptr::null_mut(),
                0,
                col_perm.as_mut_ptr(),
                factors.row_perm.as_mut_ptr(),
                &mut factors.lower,
                &mut factors.upper,
                &mut factors.global,
                &mut statistics,
                &mut info,
            );
            (library.stat_free)(&mut statistics);
            (library.destroy_permuted)(&mut permuted);
        }
        match info {
            0 => Ok(()),
            column if column > 0 && column as usize <= self.n => {
                Err(PeerError::Singular(Some(column as u64 - 1)))
            }
            more if more > 0 => Err(PeerError::OutOfMemory),
            other => Err(PeerError::Failed(format!("superlu info {other}"))),
        }
    }

    fn solve_by(&mut self, trans: c_int, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        let (Some(factors), Some((col_perm, _))) = (&mut self.factors, &mut self.analysis) else {
            return Err(PeerError::OutOfOrder);
        };
        assert_right_hand_sides(self.n, x, nrhs);
        self.library.blas.use_threads(self.threads);
        let mut store = Dense {
            leading_dimension: self.n as c_int,
            values: x.as_mut_ptr(),
        };
        let mut b = SuperMatrix {
            storage: DENSE,
            scalar: DOUBLE,
            kind: GENERAL,
            nrow: self.n as c_int,
            ncol: nrhs as c_int,
            store: (&raw mut store).cast(),
        };
        let mut statistics = EMPTY;
        let mut info = 0;
        // SAFETY: the factors are of this library and of order n, x holds n · nrhs values.
        unsafe {
            (self.library.stat_init)(&mut statistics);
            (self.library.dgstrs)(
                trans,
                &mut factors.lower,
                &mut factors.upper,
                col_perm.as_mut_ptr(),
                factors.row_perm.as_mut_ptr(),
                &mut b,
                &mut statistics,
                &mut info,
            );
            (self.library.stat_free)(&mut statistics);
        }
        match info {
            0 => Ok(()),
            other => Err(PeerError::Failed(format!("superlu info {other}"))),
        }
    }
}

fn columns(a: &Matrix) -> Columns {
    Columns {
        nnz: a.nnz() as c_int,
        values: a.values().as_ptr(),
        row_idx: a.row_idx().as_ptr().cast(),
        col_ptr: a.col_ptr().as_ptr().cast(),
    }
}

fn by_columns(n: usize, store: &mut Columns) -> SuperMatrix {
    SuperMatrix {
        storage: STORED_BY_COLUMNS,
        scalar: DOUBLE,
        kind: GENERAL,
        nrow: n as c_int,
        ncol: n as c_int,
        store: (&raw mut *store).cast(),
    }
}

impl Peer for Superlu {
    fn name(&self) -> &'static str {
        "superlu"
    }

    fn version(&self) -> String {
        self.library.version.clone()
    }

    fn notes(&self) -> Vec<String> {
        vec![
            "neither equilibration nor refinement (the expert driver does both)".to_owned(),
            self.library.blas.description.clone(),
        ]
    }

    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_analysis();
        self.n = a.n();
        let mut col_perm = vec![0; self.n];
        let mut etree = vec![0; self.n];
        let mut store = columns(a);
        let mut a = by_columns(a.n(), &mut store);
        let mut permuted = SuperMatrix::empty();
        let mut options = self.library.default_options();
        // SAFETY: the matrix is only read and outlives the calls; permutation and tree hold n.
        unsafe {
            (self.library.get_perm_c)(COLAMD, &mut a, col_perm.as_mut_ptr());
            (self.library.preorder)(
                &mut options,
                &mut a,
                col_perm.as_mut_ptr(),
                etree.as_mut_ptr(),
                &mut permuted,
            );
            (self.library.destroy_permuted)(&mut permuted);
        }
        self.analysis = Some((col_perm, etree));
        Ok(())
    }

    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_factors();
        let mut factors = Box::new(Factors {
            lower: SuperMatrix::empty(),
            upper: SuperMatrix::empty(),
            global: EMPTY,
            row_perm: vec![0; self.n],
        });
        let done = self.factorize_into(a, SAME_PATTERN, &mut factors);
        // Also of a singular matrix there are factors to be freed, with a zero pivot; but none if
        // memory ran out.
        if !factors.lower.store.is_null() && !factors.upper.store.is_null() {
            self.factors = Some(factors);
        }
        if done.is_err() {
            self.drop_factors();
        }
        done
    }

    fn refactorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        let mut factors = self.factors.take().ok_or(PeerError::OutOfOrder)?;
        let done = self.factorize_into(a, SAME_PATTERN_SAME_ROW_PERM, &mut factors);
        self.factors = Some(factors);
        done
    }

    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        self.solve_by(0, x, nrhs)
    }

    fn solve_transpose(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        self.solve_by(1, x, nrhs)
    }

    fn statistics(&mut self) -> Statistics {
        let Some(factors) = &self.factors else {
            return Statistics::default();
        };
        let mut used = [0.0f32; 2];
        // SAFETY: both stores are of dgstrf and begin with the number of entries; the query reads them
        // and writes two numbers.
        let (lnz, unz) = unsafe {
            (self.library.query_space)(
                (&raw const factors.lower).cast_mut(),
                (&raw const factors.upper).cast_mut(),
                &mut used,
            );
            (
                *factors.lower.store.cast::<c_int>(),
                *factors.upper.store.cast::<c_int>(),
            )
        };
        let entries = i64::from(lnz) + i64::from(unz) - self.n as i64;
        Statistics {
            factor_entries: u64::try_from(entries).ok(),
            peak_bytes: Some(used[1] as u64),
            ..Statistics::default()
        }
    }

    fn drop_factors(&mut self) {
        if let Some(mut factors) = self.factors.take() {
            // SAFETY: both are what dgstrf made, and `take` makes this the only time.
            unsafe {
                (self.library.destroy_super_nodes)(&mut factors.lower);
                (self.library.destroy_columns)(&mut factors.upper);
            }
        }
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        self.analysis = None;
    }
}

impl Drop for Superlu {
    fn drop(&mut self) {
        self.drop_factors();
    }
}
