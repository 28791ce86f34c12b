//! The structures of klu.h, field by field. `tests/layout.rs` compares them with the system's header.

use std::ffi::c_void;
use std::fmt::Debug;

/// `KLU_OK`.
pub const OK: i64 = 0;
/// `KLU_SINGULAR`: a warning.
pub const SINGULAR: i64 = 1;
/// `KLU_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: i64 = -2;
/// `KLU_INVALID`.
pub const INVALID: i64 = -3;
/// `KLU_TOO_LARGE`.
pub const TOO_LARGE: i64 = -4;

/// `klu_common->ordering`: approximate minimum degree.
pub const ORDER_AMD: i64 = 0;
/// Column approximate minimum degree.
pub const ORDER_COLAMD: i64 = 1;
/// As the caller says, or as the columns come.
pub const ORDER_GIVEN: i64 = 2;
/// A function of the caller.
pub const ORDER_USER: i64 = 3;

/// The integers of an ABI: `int` for `klu_*`, `SuiteSparse_long` for `klu_l_*`.
pub trait Integer: Copy + Ord + Debug + Send + Sync + 'static {
    /// What says that a statistic was not computed.
    const EMPTY: Self;

    /// The largest number.
    const MAX: u64;

    /// None if the number is negative.
    fn to_usize(self) -> Option<usize>;

    /// The number itself.
    fn to_i64(self) -> i64;

    /// The largest integer for numbers that are too large.
    fn of(number: usize) -> Self;

    /// A small number.
    fn of_code(code: i64) -> Self;
}

macro_rules! integer {
    ($type:ty) => {
        impl Integer for $type {
            const EMPTY: Self = -1;
            const MAX: u64 = <$type>::MAX as u64;

            fn to_usize(self) -> Option<usize> {
                usize::try_from(self).ok()
            }

            fn to_i64(self) -> i64 {
                self.into()
            }

            fn of(number: usize) -> Self {
                Self::try_from(number).unwrap_or(Self::MAX)
            }

            fn of_code(code: i64) -> Self {
                code as Self
            }
        }
    };
}
integer!(i32);
integer!(i64);

/// A function of the caller that orders a diagonal block: its order, its columns, and room for the permutation. It returns 0 if it
/// fails, else the entries of L that it expects, or a negative number if it does not know.
pub type UserOrder<I> =
    Option<unsafe extern "C" fn(I, *mut I, *mut I, *mut I, *mut Common<I>) -> I>;

/// `klu_common`, `klu_l_common`: parameters and statistics.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Common<I> {
    /// How large a diagonal entry must be, beside the largest of its column, to be the pivot.
    pub tol: f64,
    /// Not used: room for L and U grows by what is needed.
    pub memgrow: f64,
    /// Not used.
    pub initmem_amd: f64,
    /// Not used.
    pub initmem: f64,
    /// Not used: the matching takes what it takes.
    pub maxwork: f64,
    /// Whether the matrix is permuted to block triangular form.
    pub btf: I,
    /// One of the `ORDER_` constants.
    pub ordering: I,
    /// Row scaling: negative none, and no check; 0 none, 1 by sums, 2 by the largest entry.
    pub scale: I,
    /// Orders the blocks if `ordering` says so.
    pub user_order: UserOrder<I>,
    /// For `user_order`.
    pub user_data: *mut c_void,
    /// Whether a factorization stops at a zero pivot.
    pub halt_if_singular: I,
    /// One of the status codes.
    pub status: I,
    /// 0.
    pub nrealloc: I,
    /// By the analysis, with the block triangular form.
    pub structural_rank: I,
    /// The first pivot that is zero, or n.
    pub numerical_rank: I,
    /// The column of A of that pivot, or n.
    pub singular_col: I,
    /// Pivots off the diagonal.
    pub noffdiag: I,
    /// By `klu_flops`.
    pub flops: f64,
    /// By `klu_rcond`.
    pub rcond: f64,
    /// By `klu_condest`.
    pub condest: f64,
    /// By `klu_rgrowth`.
    pub rgrowth: f64,
    /// 0: the matching counts no steps.
    pub work: f64,
    /// Bytes of the objects that this structure was passed to make.
    pub memusage: usize,
    /// The most that these were.
    pub mempeak: usize,
}

impl<I: Integer> Common<I> {
    /// What `klu_defaults` sets.
    pub fn defaults() -> Self {
        let (one, zero) = (I::of_code(1), I::of_code(0));
        Self {
            tol: 0.001,
            memgrow: 1.2,
            initmem_amd: 1.2,
            initmem: 10.0,
            maxwork: 0.0,
            btf: one,
            ordering: I::of_code(ORDER_AMD),
            scale: I::of_code(2),
            user_order: None,
            user_data: std::ptr::null_mut(),
            halt_if_singular: one,
            status: I::of_code(OK),
            nrealloc: zero,
            structural_rank: I::EMPTY,
            numerical_rank: I::EMPTY,
            singular_col: I::EMPTY,
            noffdiag: I::EMPTY,
            flops: -1.0,
            rcond: -1.0,
            condest: -1.0,
            rgrowth: -1.0,
            work: 0.0,
            memusage: 0,
            mempeak: 0,
        }
    }
}

/// `klu_symbolic`, `klu_l_symbolic`.
#[repr(C)]
#[derive(Debug)]
pub struct Symbolic<I> {
    /// Symmetry of the pattern of the largest block, if AMD ordered it.
    pub symmetry: f64,
    /// Predicted operations.
    pub est_flops: f64,
    /// Predicted entries of L.
    pub lnz: f64,
    /// Predicted entries of U.
    pub unz: f64,
    /// Predicted entries of L by block; room for n.
    pub lnz_of_block: *mut f64,
    /// Order of A.
    pub n: I,
    /// Entries of A.
    pub nz: I,
    /// Row k of the permuted matrix is row `p[k]` of A.
    pub p: *mut I,
    /// Column k of it is column `q[k]` of A.
    pub q: *mut I,
    /// Starts of the blocks, and n; room for n + 1.
    pub r: *mut I,
    /// Entries above the blocks.
    pub nzoff: I,
    /// Number of blocks.
    pub nblocks: I,
    /// Order of the largest.
    pub maxblock: I,
    /// What ordered the blocks.
    pub ordering: I,
    /// Whether the block triangular form was asked for.
    pub do_btf: I,
    /// n, or less if the matrix is structurally singular; -1 if that is not known.
    pub structural_rank: I,
}

/// `klu_numeric`, `klu_l_numeric`. Null are the arrays that only the code of KLU itself can read: L and U come by `klu_extract`.
#[repr(C)]
#[derive(Debug)]
pub struct Numeric<I> {
    /// Order of A.
    pub n: I,
    /// Number of blocks.
    pub nblocks: I,
    /// Entries of L in the blocks, with the diagonal.
    pub lnz: I,
    /// Entries of U in the blocks, with the diagonal.
    pub unz: I,
    /// Most entries of L in a block.
    pub max_lnz_block: I,
    /// Most entries of U in a block.
    pub max_unz_block: I,
    /// Row k of the factors is row `pnum[k]` of A.
    pub pnum: *mut I,
    /// The inverse of that.
    pub pinv: *mut I,
    /// Null.
    pub lip: *mut I,
    /// Null.
    pub uip: *mut I,
    /// Entries of each column of L, without the diagonal.
    pub llen: *mut I,
    /// Entries of each column of U, without the diagonal.
    pub ulen: *mut I,
    /// Null.
    pub lubx: *mut *mut c_void,
    /// Null.
    pub lusize: *mut usize,
    /// The diagonal of U.
    pub udiag: *mut c_void,
    /// What the rows of A are divided by, in the order of the pivots; null without scaling.
    pub rs: *mut f64,
    /// 0.
    pub worksize: usize,
    /// Null.
    pub work: *mut c_void,
    /// Null.
    pub xwork: *mut c_void,
    /// Null.
    pub iwork: *mut I,
    /// Where each column of the entries above the blocks begins.
    pub offp: *mut I,
    /// Their rows, as rows of the factors.
    pub offi: *mut I,
    /// Their values, scaled.
    pub offx: *mut c_void,
    /// How many there are.
    pub nzoff: I,
}
