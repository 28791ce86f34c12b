//! Errors of the facade.

use std::sync::Arc;

#[cfg(feature = "gpu")]
use luge_device::DeviceError;
use luge_frontal::FrontalError;
use luge_levelize::LevelizeError;
use luge_numeric::NumericError;
use luge_ordering::OrderingError;
use luge_solve::SolveError;
use luge_sparse::{Cancelled, IndexOverflow, MatrixError, OutOfMemory};
#[cfg(feature = "gpu")]
use luge_supernode::SupernodeError;
use luge_symbolic::SymbolicError;

/// Why a phase gave no result. Rows and columns are those of the matrix that was handed in, and count from 0.
///
/// The message is whole: it ends with that of the cause where there is one, so the cause is not given again as a
/// [`source`](std::error::Error::source). Where a program looks for it, it is in the variant.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An option has a value outside of its range.
    #[error("the option {field} is {value}; it must be {range}")]
    InvalidOption {
        /// The field of [`Options`](crate::Options), with the names of the structures that it is in.
        field: &'static str,
        /// Its value.
        value: String,
        /// The values that are allowed.
        range: &'static str,
    },
    /// An option asks for what there is for real matrices only, and the matrix is complex: fronts on a device whose blocks have
    /// too little shared memory for a tile of complex numbers.
    #[error("the option {option} is {value}, which complex matrices do not have yet")]
    RealOnly {
        /// The field of [`Options`](crate::Options).
        option: &'static str,
        /// Its value.
        value: String,
    },
    /// The caller's permutations ([`Method::User`](luge_ordering::Method::User)) are for another order than that of the
    /// matrix.
    #[error(
        "the option ordering.method permutes {permuted} rows and columns; the matrix has order {n}"
    )]
    PermutationLength {
        /// Rows and columns that are permuted.
        permuted: usize,
        /// Order of the matrix.
        n: usize,
    },
    /// [`Regularization::signs`](crate::Regularization::signs) are for another order than that of the matrix.
    #[error("the option regularization.signs has {signs} signs; the matrix has order {n}")]
    SignsLength {
        /// How many signs there are.
        signs: usize,
        /// Order of the matrix.
        n: usize,
    },
    /// The arrays of the matrix that was handed in are not a sparse matrix.
    #[error("the matrix is not valid: {0}")]
    InvalidMatrix(#[from] MatrixError),
    /// The matrix is not square.
    #[error("the matrix is {rows} by {cols}, and only square systems are solved")]
    NotSquare {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
    },
    /// The matrix has another size than the one that was analyzed.
    #[error("the matrix is {rows} by {cols}; the matrix that was analyzed has order {n}")]
    OtherSize {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
        /// Order of the matrix that was analyzed.
        n: usize,
    },
    /// A change of values has not one value for each place.
    #[error("there are {places} places of entries and {values} values for them")]
    OtherCount {
        /// How many places there are.
        places: usize,
        /// How many values.
        values: usize,
    },
    /// A change of values names a place that no entry has.
    #[error(
        "there is no entry at place {place}: the matrix has {nnz} entries, and places count from 0"
    )]
    NoEntry {
        /// The place.
        place: usize,
        /// Stored entries of the matrix.
        nnz: usize,
    },
    /// A change of values has two different values for one entry.
    #[error("there are two values for the entry at place {place}")]
    TwoValues {
        /// The place.
        place: usize,
    },
    /// A value of the matrix is infinite or not a number.
    #[error("the value of the matrix in row {row}, column {column} is infinite or not a number")]
    NotFinite {
        /// Its row.
        row: usize,
        /// Its column.
        column: usize,
    },
    /// A value of the right-hand side is infinite or not a number.
    #[error(
        "the value of the right-hand side in row {row}, column {column} is infinite or not a number"
    )]
    RightHandSideNotFinite {
        /// Its row.
        row: usize,
        /// Number of the right-hand side, from 0.
        column: usize,
    },
    /// No permutation brings entries to the whole diagonal.
    #[error(
        "the matrix is structurally singular: structural rank {rank}, {} unmatched, the first is row {}",
        count_rows(unmatched_rows.len()),
        unmatched_rows.first().map_or_else(|| "none".into(), |row| row.to_string())
    )]
    StructurallySingular {
        /// Size of a maximum matching.
        rank: usize,
        /// Rows that a maximum matching leaves out.
        unmatched_rows: Vec<usize>,
        /// Columns that the same matching leaves out.
        unmatched_columns: Vec<usize>,
    },
    /// The matrix has full structural rank only by counting stored zeros.
    #[error(
        "the matrix is numerically singular: its nonzero values allow rank {rank} at most, the first column without one is {}",
        unmatched_columns.first().map_or_else(|| "none".into(), |column| column.to_string())
    )]
    ZerosOnly {
        /// Size of a maximum matching of the nonzero values.
        rank: usize,
        /// Rows that it leaves out.
        unmatched_rows: Vec<usize>,
        /// Columns that it leaves out.
        unmatched_columns: Vec<usize>,
    },
    /// The matrix is singular, exactly or to rounding.
    #[error("the matrix is numerically singular: column {column} has no usable pivot")]
    ZeroPivot {
        /// First column, in the order of elimination, without a pivot.
        column: usize,
    },
    /// The search for the pivots of a symmetric matrix did not end: columns were put off again and again, or the entries of
    /// L overflow with the pivots of every search. The matrix is singular, or nearly so, or wildly scaled.
    #[error(
        "no acceptable pivots were found{}",
        column.map_or_else(String::new, |column| format!(": column {column} is one of those that are left"))
    )]
    NoPivots {
        /// One of the columns without a pivot, if one is known.
        column: Option<usize>,
    },
    /// The matrix is not symmetric, and the options say that it is.
    #[error(
        "the matrix is not symmetric: the entry in row {row}, column {column} has no equal across the diagonal"
    )]
    NotSymmetric {
        /// Row of the first such entry.
        row: usize,
        /// Its column.
        column: usize,
    },
    /// A matrix that is declared Hermitian is not.
    #[error(
        "the matrix is not Hermitian: the entry in row {row}, column {column} has no conjugate across the diagonal"
    )]
    NotHermitian {
        /// Row of the first such entry. On the diagonal it is not real.
        row: usize,
        /// Its column.
        column: usize,
    },
    /// The matrix is not positive definite, and the options say that it is.
    #[error(
        "the matrix is not positive definite: the pivot of column {column} is {pivot:.1e} after scaling"
    )]
    NotPositiveDefinite {
        /// First column, in the order of elimination, whose pivot is not positive.
        column: usize,
        /// The pivot, of the scaled matrix.
        pivot: f64,
    },
    /// The matrix has pivots, but it is nearer to a singular one than rounding can tell.
    #[error(
        "the matrix is numerically singular: its reciprocal condition number is {rcond:.1e} after scaling, and column {column} takes part most in the dependence"
    )]
    SingularToRounding {
        /// The column with the largest entry of the approximate null vector.
        column: usize,
        /// Estimate of 1/(‖B‖₁·‖B⁻¹‖₁), B the scaled matrix.
        rcond: f64,
    },
    /// The elimination overflowed.
    #[error("the factorization overflows in column {column}")]
    Overflow {
        /// First column, in the order of elimination, with a value that is not finite.
        column: usize,
    },
    /// The solution overflowed.
    #[error("entry {row} of the solution is infinite or not a number")]
    SolutionNotFinite {
        /// First such entry.
        row: usize,
    },
    /// New values do not go with the old pivots, nor with new ones.
    #[error(
        "the new values are unstable: row {row} keeps a backward error of {backward_error:.1e} with growth {growth:.1e}"
    )]
    Unstable {
        /// The row with the largest componentwise backward error.
        row: usize,
        /// The growth, see [`Inform::growth`](crate::Inform::growth).
        growth: f64,
        /// Normwise backward error of the probe.
        backward_error: f64,
    },
    /// The matrix has an entry where the one that was analyzed has none.
    #[error(
        "the matrix has an entry in row {row}, column {column}, and the matrix that was analyzed has none there"
    )]
    ExtraEntry {
        /// Its row.
        row: usize,
        /// Its column.
        column: usize,
    },
    /// A result does not fit the allowed memory.
    #[error("the {phase} phase needs more than {asked} bytes, {available} are available")]
    OutOfMemory {
        /// Bytes needed so far.
        asked: u64,
        /// Bytes allowed.
        available: u64,
        /// The phase.
        phase: &'static str,
    },
    /// The factors of a batch do not fit the allowed memory together. Nothing was begun.
    #[error(
        "the factors of {systems} systems need {asked} bytes, {available} are available, which is enough for {fitting}"
    )]
    BatchOutOfMemory {
        /// How many systems there are.
        systems: usize,
        /// How many would fit.
        fitting: usize,
        /// Bytes needed for all.
        asked: u64,
        /// Bytes allowed.
        available: u64,
    },
    /// A system of a batch has no factors, or no solution.
    #[error("system {system}: {error}")]
    System {
        /// Its number, from 0.
        system: usize,
        /// What is wrong with it.
        error: Arc<Error>,
    },
    /// A dimension does not fit 32-bit indices.
    #[error(transparent)]
    IndexOverflow(#[from] IndexOverflow),
    /// The threads that were asked for could not be started.
    #[error("the threads could not be started: {0}")]
    Threads(Arc<dyn std::error::Error + Send + Sync>),
    /// The ordering failed for another reason.
    #[error("the ordering failed: {0}")]
    Ordering(OrderingError),
    /// The options ask for what this program was built without.
    #[error("this program was built without the feature `{feature}` of the crate luge")]
    FeatureOff {
        /// The feature of the crate.
        feature: &'static str,
    },
    /// The device, its driver, or a kernel on it failed.
    #[error("the device cannot be used: {0}")]
    Device(Arc<dyn std::error::Error + Send + Sync>),
    /// The caller raised the cancel flag.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// An analysis or factors could not be saved, or what was saved is not of this matrix.
    #[error("saved file: {0}")]
    Saved(#[from] SavedError),
}

/// Why an analysis or factors could not be saved or loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The order was not kept, as [`Options::keep_order`](crate::Options::keep_order) is off.
    #[error("the order was not kept, for the option keep_order is off")]
    NotKept,
    /// Reading or writing failed.
    #[error("{message}")]
    Io {
        /// What kind of failure it is.
        kind: std::io::ErrorKind,
        /// What the system said.
        message: String,
    },
    /// The file does not begin as a saved analysis does.
    #[error("the file is no saved analysis")]
    NotAnAnalysis,
    /// The file does not begin as saved factors do.
    #[error("the file has no saved factors")]
    NotFactors,
    /// The factors are on a device, and only those on the CPU are saved.
    #[error("the factors are on a device; only factors on the CPU are saved")]
    OnDevice,
    /// The file has a version of the format that is not known.
    #[error("the file has version {found} of the format; this program reads version {known}")]
    OtherVersion {
        /// Its version.
        found: u32,
        /// The version that is read.
        known: u32,
    },
    /// The file ends too early.
    #[error("the file ends too early")]
    Truncated,
    /// The checksum does not fit the contents: the file was damaged.
    #[error("the file is damaged: its checksum is another one")]
    Checksum,
    /// The contents contradict each other, though the checksum fits.
    #[error("the file is damaged: {what}")]
    Damaged {
        /// What is not as it can be.
        what: &'static str,
    },
    /// What was saved is for values of another type.
    #[error("it is for {saved} matrices, this one is {given}")]
    OtherScalar {
        /// The type that it is for.
        saved: &'static str,
        /// The type of this matrix.
        given: &'static str,
    },
    /// What was saved is for another pattern.
    #[error(
        "it is for another pattern: of order {} with {} entries; this matrix has order {} and {} entries",
        saved.0, saved.1, given.0, given.1
    )]
    OtherPattern {
        /// Order and entries of the matrix that it is for.
        saved: (u64, u64),
        /// Order and entries of this matrix; they may be the same, in other places.
        given: (u64, u64),
    },
    /// What was saved was made with another option, or for a matrix of another kind.
    #[error("it was made with {option} {saved}; here it is {given}")]
    OtherOption {
        /// The option.
        option: &'static str,
        /// Its value there.
        saved: String,
        /// Its value here.
        given: String,
    },
    /// The factors are those of a matrix with other values.
    #[error("the factors are those of another value in row {row}, column {column}")]
    OtherValues {
        /// Row of the first entry with another value.
        row: usize,
        /// Its column.
        column: usize,
    },
}

impl From<std::io::Error> for SavedError {
    fn from(error: std::io::Error) -> Self {
        Self::Io {
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}

fn count_rows(count: usize) -> String {
    if count == 1 {
        "1 row".into()
    } else {
        format!("{count} rows")
    }
}

impl From<OrderingError> for Error {
    fn from(error: OrderingError) -> Self {
        let wide = |v: Vec<u32>| v.into_iter().map(|i| i as usize).collect();
        match error {
            OrderingError::NotSquare { nrows, ncols } => Self::NotSquare {
                rows: nrows,
                cols: ncols,
            },
            OrderingError::NotFinite { row, column } => Self::NotFinite { row, column },
            OrderingError::StructurallySingular {
                rank,
                unmatched_rows,
                unmatched_cols,
            } => Self::StructurallySingular {
                rank,
                unmatched_rows: wide(unmatched_rows),
                unmatched_columns: wide(unmatched_cols),
            },
            OrderingError::NumericallySingular {
                rank,
                unmatched_rows,
                unmatched_cols,
            } => Self::ZerosOnly {
                rank,
                unmatched_rows: wide(unmatched_rows),
                unmatched_columns: wide(unmatched_cols),
            },
            OrderingError::IndexOverflow(e) => Self::IndexOverflow(e),
            OrderingError::Cancelled(e) => Self::Cancelled(e),
            OrderingError::OutOfMemory(e) => Self::from_budget(e, "ordering"),
            other => Self::Ordering(other),
        }
    }
}

impl From<SolveError> for Error {
    fn from(error: SolveError) -> Self {
        match error {
            SolveError::NotFinite { row } => Self::SolutionNotFinite { row },
            SolveError::Cancelled(c) => Self::Cancelled(c),
            #[cfg(feature = "gpu")]
            SolveError::Device(e) => Self::from_device(e, "solve"),
        }
    }
}

impl Error {
    /// The memory budget leaves too little in `phase`.
    pub(crate) fn from_budget(error: OutOfMemory, phase: &'static str) -> Self {
        let OutOfMemory { asked, available } = error;
        Self::OutOfMemory {
            asked,
            available,
            phase,
        }
    }

    /// A failure of the device during `phase`.
    #[cfg(feature = "gpu")]
    pub(crate) fn from_device(error: DeviceError, phase: &'static str) -> Self {
        match error {
            DeviceError::OutOfMemory { asked, available } => Self::OutOfMemory {
                asked,
                available,
                phase,
            },
            other => Self::Device(Arc::new(other)),
        }
    }
}

/// An error of a phase on B, whose columns are still to be translated into those of A.
#[derive(Debug)]
pub(crate) enum PhaseError {
    Symbolic(SymbolicError),
    Frontal(FrontalError),
    #[cfg(feature = "gpu")]
    Supernode(SupernodeError),
    Levelize(LevelizeError),
    Numeric(NumericError),
    Solve(SolveError),
}

macro_rules! from_phase {
    ($($variant:ident($error:ty)),*) => {$(
        impl From<$error> for PhaseError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}
from_phase!(
    Symbolic(SymbolicError),
    Frontal(FrontalError),
    Levelize(LevelizeError),
    Numeric(NumericError),
    Solve(SolveError)
);
#[cfg(feature = "gpu")]
from_phase!(Supernode(SupernodeError));

impl PhaseError {
    /// Names columns of A: column j of B is column `col_perm[j]` of A.
    pub(crate) fn in_terms_of_a(self, col_perm: &[u32]) -> Error {
        let old = |column: usize| col_perm[column] as usize;
        match self {
            Self::Symbolic(SymbolicError::OutOfMemory {
                asked, available, ..
            }) => Error::OutOfMemory {
                asked,
                available,
                phase: "symbolic",
            },
            Self::Symbolic(SymbolicError::Cancelled(c))
            | Self::Levelize(LevelizeError::Cancelled(c))
            | Self::Numeric(NumericError::Cancelled(c)) => Error::Cancelled(c),
            #[cfg(feature = "gpu")]
            Self::Symbolic(SymbolicError::Device(e)) => Error::from_device(e, "symbolic"),
            #[cfg(feature = "gpu")]
            Self::Supernode(SupernodeError::Device(e)) => Error::from_device(e, "supernode"),
            #[cfg(feature = "gpu")]
            Self::Levelize(LevelizeError::Device(e)) => Error::from_device(e, "levelize"),
            #[cfg(feature = "gpu")]
            Self::Numeric(NumericError::Device(e)) => Error::from_device(e, "numeric"),
            #[cfg(feature = "gpu")]
            Self::Symbolic(e @ SymbolicError::Corrupt(_)) => Error::Device(Arc::new(e)),
            #[cfg(feature = "gpu")]
            Self::Supernode(e @ SupernodeError::Corrupt) => Error::Device(Arc::new(e)),
            #[cfg(feature = "gpu")]
            Self::Levelize(e @ LevelizeError::Corrupt) => Error::Device(Arc::new(e)),
            Self::Solve(e) => e.into(),
            Self::Frontal(e) => match e {
                FrontalError::Singular { column } | FrontalError::ZeroPivot { column } => {
                    Error::ZeroPivot {
                        column: old(column),
                    }
                }
                FrontalError::NotPositiveDefinite { column, value } => Error::NotPositiveDefinite {
                    column: old(column),
                    pivot: value,
                },
                FrontalError::NotFinite { column } => Error::Overflow {
                    column: old(column),
                },
                FrontalError::OutOfMemory { asked, available } => Error::OutOfMemory {
                    asked,
                    available,
                    phase: "numeric",
                },
                FrontalError::IndexOverflow(e) => Error::IndexOverflow(e),
                FrontalError::Cancelled(c) => Error::Cancelled(c),
                FrontalError::NotSquare { .. } => unreachable!("only square matrices come here"),
            },
            Self::Numeric(NumericError::ZeroPivot { column }) => Error::ZeroPivot {
                column: old(column),
            },
            Self::Numeric(NumericError::IndexOverflow(e)) => Error::IndexOverflow(e),
            Self::Numeric(NumericError::NotFinite { column }) => Error::Overflow {
                column: old(column),
            },
            Self::Numeric(NumericError::OutOfMemory {
                asked, available, ..
            }) => Error::OutOfMemory {
                asked,
                available,
                phase: "numeric",
            },
        }
    }
}
