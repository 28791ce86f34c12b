//! Errors of the fronts.

use luge_sparse::{Cancelled, IndexOverflow, OutOfMemory};

/// Why no tree or no factors were produced. Columns count in the matrix that was handed in.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FrontalError {
    /// The pattern is not square.
    #[error("the pattern has {rows} rows and {columns} columns; a block must be square")]
    NotSquare {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        columns: usize,
    },
    /// No pivot: nothing but zeros is left of the column, so the matrix is exactly singular. One that
    /// is singular up to rounding has factors with a tiny pivot, as in LAPACK.
    #[error("no pivot is left in column {column}: the matrix is singular")]
    Singular {
        /// A column that no pivot was found for.
        column: usize,
    },
    /// A kept pivot of a refactorization is exactly zero.
    #[error("the kept pivot of column {column} is zero")]
    ZeroPivot {
        /// The column.
        column: usize,
    },
    /// Cholesky met a pivot that is not positive: the matrix is not positive definite, as far as rounding tells.
    #[error("the pivot of column {column} is {value}: the matrix is not positive definite")]
    NotPositiveDefinite {
        /// The column.
        column: usize,
        /// The pivot, zero or negative.
        value: f64,
    },
    /// A value of the matrix or of the factors is infinite or not a number.
    #[error("column {column} holds or leads to a value that is not finite")]
    NotFinite {
        /// The column.
        column: usize,
    },
    /// The factors and the working memory exceed what the caller allowed.
    #[error("{asked} bytes are needed, {available} are allowed")]
    OutOfMemory {
        /// Bytes needed so far.
        asked: u64,
        /// Bytes allowed.
        available: u64,
    },
    /// A size does not fit 32-bit indices.
    #[error(transparent)]
    IndexOverflow(#[from] IndexOverflow),
    /// The caller raised the cancel flag.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl From<OutOfMemory> for FrontalError {
    fn from(error: OutOfMemory) -> Self {
        let OutOfMemory { asked, available } = error;
        Self::OutOfMemory { asked, available }
    }
}
