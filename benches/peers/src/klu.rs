//! KLU: left-looking LU with a block triangular form (SuiteSparse).
//!
//! Default options: block triangular form, AMD, row scaling by the largest entry, diagonal preferred
//! within a tolerance of 0.001. One core; the number of threads changes nothing. `klu_refactor` keeps
//! pivots and reports no growth. Real and complex matrices.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::mem::offset_of;
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use luge_sparse::Scalar;

use crate::library::{Loaded, Missing};
use crate::{Matrix, Peer, PeerError, PeerScalar, Statistics, assert_right_hand_sides};

/// `klu_common` of KLU 1.3 (SuiteSparse 5) and 2 (SuiteSparse 7), checked by [`Library::load`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Common {
    tol: f64,
    memgrow: f64,
    initmem_amd: f64,
    initmem: f64,
    maxwork: f64,
    btf: c_int,
    ordering: c_int,
    scale: c_int,
    user_order: *mut c_void,
    user_data: *mut c_void,
    halt_if_singular: c_int,
    status: c_int,
    nrealloc: c_int,
    structural_rank: c_int,
    numerical_rank: c_int,
    singular_col: c_int,
    noffdiag: c_int,
    flops: f64,
    rcond: f64,
    condest: f64,
    rgrowth: f64,
    work: f64,
    memusage: usize,
    mempeak: usize,
}

/// The head of `klu_symbolic`, as far as it is read.
#[repr(C)]
struct Symbolic {
    symmetry: f64,
    est_flops: f64,
    lnz: f64,
    unz: f64,
    lnz_of_block: *mut f64,
    n: c_int,
    nz: c_int,
    p: *mut c_int,
    q: *mut c_int,
    r: *mut c_int,
    nzoff: c_int,
    nblocks: c_int,
    maxblock: c_int,
}

/// The head of `klu_numeric`, as far as it is read.
#[repr(C)]
struct Numeric {
    n: c_int,
    nblocks: c_int,
    lnz: c_int,
    unz: c_int,
}

type Defaults = unsafe extern "C" fn(*mut Common) -> c_int;
type Analyze =
    unsafe extern "C" fn(c_int, *const c_int, *const c_int, *mut Common) -> *mut Symbolic;
type Factor = unsafe extern "C" fn(
    *const c_int,
    *const c_int,
    *const f64,
    *mut Symbolic,
    *mut Common,
) -> *mut Numeric;
type Refactor = unsafe extern "C" fn(
    *const c_int,
    *const c_int,
    *const f64,
    *mut Symbolic,
    *mut Numeric,
    *mut Common,
) -> c_int;
type Solve =
    unsafe extern "C" fn(*mut Symbolic, *mut Numeric, c_int, c_int, *mut f64, *mut Common) -> c_int;
/// With whether to conjugate.
type SolveConjugated = unsafe extern "C" fn(
    *mut Symbolic,
    *mut Numeric,
    c_int,
    c_int,
    *mut f64,
    c_int,
    *mut Common,
) -> c_int;
type Free<T> = unsafe extern "C" fn(*mut *mut T, *mut Common) -> c_int;
type Flops = unsafe extern "C" fn(*mut Symbolic, *mut Numeric, *mut Common) -> c_int;
pub(crate) type SuiteSparseVersion = unsafe extern "C" fn(*mut c_int) -> c_int;

/// The functions for the matrices of one field. The components of complex numbers lie one after another, the real part first.
#[derive(Debug)]
struct OfField {
    factor: Factor,
    refactor: Refactor,
    solve: Solve,
    solve_transpose: SolveTranspose,
    free_numeric: Free<Numeric>,
    flops: Flops,
}

#[derive(Debug, Clone, Copy)]
enum SolveTranspose {
    Real(Solve),
    Complex(SolveConjugated),
}

impl OfField {
    /// Those whose names begin with `prefix`.
    ///
    /// # Safety
    ///
    /// They are the functions of that name in klu.h, and `solve_transpose` makes of the last one what it is.
    unsafe fn load<F: Copy>(
        loaded: &Loaded,
        prefix: &str,
        solve_transpose: fn(F) -> SolveTranspose,
    ) -> Result<Self, Missing> {
        // SAFETY: by this function's own precondition.
        unsafe {
            Ok(Self {
                factor: loaded.function(&format!("{prefix}factor"))?,
                refactor: loaded.function(&format!("{prefix}refactor"))?,
                solve: loaded.function(&format!("{prefix}solve"))?,
                solve_transpose: solve_transpose(loaded.function(&format!("{prefix}tsolve"))?),
                free_numeric: loaded.function(&format!("{prefix}free_numeric"))?,
                flops: loaded.function(&format!("{prefix}flops"))?,
            })
        }
    }
}

/// A loaded libklu.
#[derive(Debug)]
pub struct Library {
    defaults: Defaults,
    analyze: Analyze,
    free_symbolic: Free<Symbolic>,
    real: OfField,
    complex: OfField,
    version: String,
    /// Last, so that it is unloaded after the functions are out of reach.
    loaded: Loaded,
}

/// Bytes before and after the structure that the check of the layout watches.
const MARGIN: usize = 128;

impl Library {
    /// Loads libklu, from `path` if there is one.
    ///
    /// # Errors
    ///
    /// [`Missing`] if it is not found, lacks a function, or keeps its options otherwise than known.
    pub fn load(path: Option<&PathBuf>) -> Result<Self, Missing> {
        let loaded = Loaded::open(path, &["libklu.so.1", "libklu.so.2", "libklu.so"])?;
        // SAFETY: the types are those of klu.h for 32-bit indices, and the functions live in the same
        // value as the library.
        let library = unsafe {
            Self {
                defaults: loaded.function("klu_defaults")?,
                analyze: loaded.function("klu_analyze")?,
                free_symbolic: loaded.function("klu_free_symbolic")?,
                real: OfField::load(&loaded, "klu_", SolveTranspose::Real)?,
                complex: OfField::load(&loaded, "klu_z_", SolveTranspose::Complex)?,
                version: suite_sparse_version(&loaded),
                loaded,
            }
        };
        library.check_layout()?;
        Ok(library)
    }

    /// The functions for matrices of `T`.
    fn of<T: Scalar>(&self) -> &OfField {
        match T::COMPONENTS {
            1 => &self.real,
            _ => &self.complex,
        }
    }

    /// Has the library write its defaults into the middle of marked memory, and compares what it wrote
    /// with the documented defaults at the known offsets. KLU 1.0 to 1.2, which kept four function
    /// pointers in the middle, is found out here.
    fn check_layout(&self) -> Result<(), Missing> {
        const MARK: u8 = 0xa5;
        #[repr(C, align(16))]
        struct Watched {
            before: [u8; MARGIN],
            common: [u8; size_of::<Common>()],
            after: [u8; MARGIN],
        }
        let mut watched = Watched {
            before: [MARK; MARGIN],
            common: [MARK; size_of::<Common>()],
            after: [MARK; MARGIN],
        };
        let common = watched.common.as_mut_ptr().cast::<Common>();
        // SAFETY: klu_defaults writes to klu_common alone, whose size in all known versions is at most
        // that of `common` with the margin after it; `common` is aligned, its offset being 128.
        unsafe { (self.defaults)(common) };
        let float =
            |at: usize| f64::from_ne_bytes(std::array::from_fn(|byte| watched.common[at + byte]));
        let int =
            |at: usize| c_int::from_ne_bytes(std::array::from_fn(|byte| watched.common[at + byte]));
        let size =
            |at: usize| usize::from_ne_bytes(std::array::from_fn(|byte| watched.common[at + byte]));
        let as_known = float(offset_of!(Common, tol)) == 0.001
            && float(offset_of!(Common, memgrow)) == 1.2
            && float(offset_of!(Common, initmem_amd)) == 1.2
            && float(offset_of!(Common, initmem)) == 10.0
            && float(offset_of!(Common, maxwork)) == 0.0
            && int(offset_of!(Common, btf)) == 1
            && int(offset_of!(Common, ordering)) == 0
            && int(offset_of!(Common, scale)) == 2
            && size(offset_of!(Common, user_order)) == 0
            && size(offset_of!(Common, user_data)) == 0
            && int(offset_of!(Common, halt_if_singular)) == 1
            && int(offset_of!(Common, status)) == 0
            && int(offset_of!(Common, nrealloc)) == 0
            && int(offset_of!(Common, noffdiag)) == -1
            && float(offset_of!(Common, flops)) == -1.0
            && size(offset_of!(Common, memusage)) == 0
            && size(offset_of!(Common, mempeak)) == 0
            && watched.before.iter().all(|&byte| byte == MARK)
            && watched.after.iter().all(|&byte| byte == MARK);
        if as_known {
            Ok(())
        } else {
            Err(Missing(format!(
                "{}: klu_common lies in memory otherwise than in KLU 1.3 and 2",
                self.loaded.file
            )))
        }
    }
}

/// The version of SuiteSparse behind `loaded`.
pub(crate) fn suite_sparse_version(loaded: &Loaded) -> String {
    // SAFETY: this is the signature in SuiteSparse_config.h.
    let function = unsafe { loaded.function::<SuiteSparseVersion>("SuiteSparse_version") };
    match function {
        Ok(function) => {
            let mut parts = [0; 3];
            // SAFETY: the function writes three numbers.
            unsafe { function(parts.as_mut_ptr()) };
            let [main, sub, subsub] = parts;
            format!("SuiteSparse {main}.{sub}.{subsub} ({})", loaded.file)
        }
        Err(_) => loaded.file.clone(),
    }
}

/// One matrix in KLU.
pub struct Klu<T: PeerScalar = f64> {
    library: Arc<Library>,
    common: Box<Common>,
    symbolic: Option<NonNull<Symbolic>>,
    numeric: Option<NonNull<Numeric>>,
    /// What the functions take.
    scalar: PhantomData<T>,
}

impl<T: PeerScalar> Klu<T> {
    /// A solver with KLU's default options.
    pub fn new(library: Arc<Library>) -> Self {
        let mut common = Box::new(Common {
            tol: 0.0,
            memgrow: 0.0,
            initmem_amd: 0.0,
            initmem: 0.0,
            maxwork: 0.0,
            btf: 0,
            ordering: 0,
            scale: 0,
            user_order: ptr::null_mut(),
            user_data: ptr::null_mut(),
            halt_if_singular: 0,
            status: 0,
            nrealloc: 0,
            structural_rank: 0,
            numerical_rank: 0,
            singular_col: 0,
            noffdiag: 0,
            flops: 0.0,
            rcond: 0.0,
            condest: 0.0,
            rgrowth: 0.0,
            work: 0.0,
            memusage: 0,
            mempeak: 0,
        });
        // SAFETY: the layout was checked when the library was loaded.
        unsafe { (library.defaults)(&mut *common) };
        Self {
            library,
            common,
            symbolic: None,
            numeric: None,
            scalar: PhantomData,
        }
    }

    fn error(&self) -> PeerError {
        match self.common.status {
            1 => PeerError::Singular(u64::try_from(self.common.singular_col).ok()),
            -2 => PeerError::OutOfMemory,
            -4 => PeerError::TooLarge,
            other => PeerError::Failed(format!("klu status {other}")),
        }
    }

    fn analyzed(&self) -> Result<NonNull<Symbolic>, PeerError> {
        self.symbolic.ok_or(PeerError::OutOfOrder)
    }

    fn factorized(&self) -> Result<(NonNull<Symbolic>, NonNull<Numeric>), PeerError> {
        self.analyzed()
            .and_then(|symbolic| Ok((symbolic, self.numeric.ok_or(PeerError::OutOfOrder)?)))
    }

    fn solve_by(&mut self, is_transposed: bool, x: &mut [T], nrhs: usize) -> Result<(), PeerError> {
        let (symbolic, numeric) = self.factorized()?;
        // SAFETY: it is what klu_factor gave, and is freed in drop_factors alone.
        let n = unsafe { numeric.as_ref() }.n;
        assert_right_hand_sides(n as usize, x, nrhs);
        let of_field = self.library.of::<T>();
        let (nrhs, x) = (nrhs as c_int, x.as_mut_ptr().cast());
        let common = &mut *self.common;
        // SAFETY: both objects are of this library and of this matrix, x holds n · nrhs numbers of its field.
        let done = unsafe {
            match of_field.solve_transpose {
                _ if !is_transposed => {
                    (of_field.solve)(symbolic.as_ptr(), numeric.as_ptr(), n, nrhs, x, common)
                }
                SolveTranspose::Real(solve) => {
                    solve(symbolic.as_ptr(), numeric.as_ptr(), n, nrhs, x, common)
                }
                SolveTranspose::Complex(solve) => {
                    solve(symbolic.as_ptr(), numeric.as_ptr(), n, nrhs, x, 0, common)
                }
            }
        };
        if done != 0 { Ok(()) } else { Err(self.error()) }
    }
}

impl<T: PeerScalar> Peer<T> for Klu<T> {
    fn name(&self) -> &'static str {
        "klu"
    }

    fn version(&self) -> String {
        self.library.version.clone()
    }

    fn analyze(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        self.drop_analysis();
        self.common.mempeak = self.common.memusage;
        // SAFETY: the arrays are a compressed matrix of order n with indices below 2³¹, and KLU only
        // reads them.
        let symbolic = unsafe {
            (self.library.analyze)(
                a.n() as c_int,
                a.col_ptr().as_ptr().cast(),
                a.row_idx().as_ptr().cast(),
                &mut *self.common,
            )
        };
        self.symbolic = NonNull::new(symbolic);
        match self.symbolic {
            Some(_) => Ok(()),
            None => Err(self.error()),
        }
    }

    fn factorize(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        let symbolic = self.analyzed()?;
        self.drop_factors();
        // SAFETY: as in `analyze`; the caller's matrix is the one that was analyzed, or one of its
        // pattern, as the trait asks, and KLU checks indices and sizes again.
        let numeric = unsafe {
            (self.library.of::<T>().factor)(
                a.col_ptr().as_ptr().cast(),
                a.row_idx().as_ptr().cast(),
                a.values().as_ptr().cast(),
                symbolic.as_ptr(),
                &mut *self.common,
            )
        };
        self.numeric = NonNull::new(numeric);
        match self.numeric {
            Some(_) => Ok(()),
            None => Err(self.error()),
        }
    }

    fn refactorize(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        let (symbolic, numeric) = self.factorized()?;
        // SAFETY: as in `factorize`.
        let done = unsafe {
            (self.library.of::<T>().refactor)(
                a.col_ptr().as_ptr().cast(),
                a.row_idx().as_ptr().cast(),
                a.values().as_ptr().cast(),
                symbolic.as_ptr(),
                numeric.as_ptr(),
                &mut *self.common,
            )
        };
        if done != 0 && self.common.status == 0 {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    fn solve(&mut self, x: &mut [T], nrhs: usize) -> Result<(), PeerError> {
        self.solve_by(false, x, nrhs)
    }

    fn solve_transpose(&mut self, x: &mut [T], nrhs: usize) -> Result<(), PeerError> {
        self.solve_by(true, x, nrhs)
    }

    fn statistics(&mut self) -> Statistics {
        let Ok((symbolic, numeric)) = self.factorized() else {
            return Statistics::default();
        };
        let mut common = *self.common;
        // SAFETY: both objects are of this library and this matrix; the call writes to `common`.
        unsafe { (self.library.of::<T>().flops)(symbolic.as_ptr(), numeric.as_ptr(), &mut common) };
        // SAFETY: they are what klu_analyze and klu_factor gave, and are freed by this value alone.
        let (symbolic, numeric) = unsafe { (symbolic.as_ref(), numeric.as_ref()) };
        let count = |number: c_int| number.max(0) as u64;
        let entries = count(numeric.lnz) + count(numeric.unz) + count(symbolic.nzoff);
        Statistics {
            factor_entries: Some(entries.saturating_sub(count(numeric.n))),
            flops: (common.flops >= 0.0).then_some(common.flops),
            peak_bytes: Some(self.common.mempeak as u64),
            details: vec![
                format!(
                    "{} blocks, the largest {}",
                    symbolic.nblocks, symbolic.maxblock
                ),
                format!("{} pivots off the diagonal", self.common.noffdiag),
            ],
            ..Statistics::default()
        }
    }

    fn drop_factors(&mut self) {
        if let Some(numeric) = self.numeric.take() {
            // SAFETY: it is what klu_factor gave, and `take` makes this the only time.
            unsafe {
                (self.library.of::<T>().free_numeric)(&mut numeric.as_ptr(), &mut *self.common)
            };
        }
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        if let Some(symbolic) = self.symbolic.take() {
            // SAFETY: it is what klu_analyze gave, and `take` makes this the only time.
            unsafe { (self.library.free_symbolic)(&mut symbolic.as_ptr(), &mut *self.common) };
        }
    }
}

impl<T: PeerScalar> Drop for Klu<T> {
    fn drop(&mut self) {
        self.drop_analysis();
    }
}
