//! Types that every phase of Luge shares, and nothing else.
//!
//! | item | what it is |
//! |---|---|
//! | [`Scalar`] | elements of a field: real or complex numbers in 32 or 64 bits |
//! | [`RealScalar`] | the real ones, `f32` and `f64`, which are also the types of magnitudes |
//! | [`RowPerm`], [`ColPerm`] | permutations that cannot be mixed up; both map **new to old** |
//! | [`Scaling`] | row and column factors of an equilibrated matrix |
//! | [`CompressedPattern`] | a compressed sparse pattern as the device sees it: `u64` offsets, `u32` indices |
//! | [`MatrixRef`], [`PatternRef`] | a matrix, or its pattern, in the storage of its owner, with conversions from other crates |
//! | [`MatrixView`] | a pattern with its values, seen by rows or by columns |
//! | [`FilledPattern`] | the pattern of L+U of a square matrix, rows sorted, diagonal always present |
//! | [`Levels`] | columns grouped so that a column depends on earlier levels only |
//! | [`etree`] | elimination tree, postorder and column counts of a symmetric graph |
//! | [`PivotPolicy`] | how pivots are chosen, and what is done about small ones, in every engine |
//! | [`Inertia`] | numbers of positive, negative and zero eigenvalues |
//! | [`Quality`] | what a factorization on the CPU measured of itself |
//! | [`CancelFlag`] | asks a long phase to stop |
//! | [`MemoryBudget`] | a limit on the bytes that phases hold, and what is reserved of it |
//! | [`Limits`] | both of them |
//!
//! # The matrix that is factorized
//!
//! Every phase after the ordering works on
//!
//! ```text
//! B = P · (Dr · A · Dc) · Q        B[i][j] = dr[rp[i]] · A[rp[i]][cp[j]] · dc[cp[j]]
//! ```
//!
//! with `rp` a [`RowPerm`], `cp` a [`ColPerm`] and `dr`, `dc` the factors of a [`Scaling`], and
//! finds `B = L·U` with L unit lower and U upper triangular.
//!
//! # Current limitations
//!
//! At most 2³²−2 rows or columns; offsets have 64 bits. Complex matrices are factorized as general ones, on the
//! CPU.

mod beside;
mod cancel;
pub mod etree;
mod filled;
mod form;
mod index;
mod levels;
mod matrix;
mod matrix_ref;
mod memory;
mod pattern;
mod perm;
mod pivots;
mod quality;
mod scalar;
mod scaling;
mod setters;

pub use beside::beside;
pub use cancel::{CancelFlag, Cancelled, drop_aside};
pub use filled::FilledPattern;
pub use form::Form;
pub use index::{IndexOverflow, MAX_DIMENSION, to_u32};
pub use levels::Levels;
pub use matrix::MatrixView;
pub use matrix_ref::{Compression, Index, MatrixError, MatrixRef, PatternRef};
pub use memory::{
    Limits, MemoryBudget, OutOfMemory, Reservation, Stopped, bytes_of, in_large_pages,
};
pub use pattern::{CompressedPattern, PatternError};
pub use perm::{ColPerm, Permutation, PermutationError, RowPerm};
pub use pivots::{
    DelayLimit, Inertia, PivotKind, PivotPolicy, PivotPolicyError, ResolvedPivots,
    ResolvedSymmetric, SmallPivots, SymmetricPivoting,
};
pub use quality::{Quality, enlarge, larger, lessen};
pub use scalar::{FieldChoice, RealScalar, Scalar};
pub use scaling::Scaling;

/// The traits of numbers that [`Scalar`] and [`RealScalar`] build on.
pub use num_traits;
