//! Errors of the ordering phase.

use luge_sparse::{Cancelled, CompressedPattern, IndexOverflow, OutOfMemory};

/// Why a matrix could not be ordered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderingError {
    /// Only square matrices are factorized.
    #[error("the matrix is {nrows} by {ncols}, not square")]
    NotSquare {
        /// Number of rows.
        nrows: usize,
        /// Number of columns.
        ncols: usize,
    },
    /// A value is NaN or infinite; the first one by rows.
    #[error("the value in row {row}, column {column} is not finite")]
    NotFinite {
        /// Row of the entry, from zero.
        row: usize,
        /// Column of the entry, from zero.
        column: usize,
    },
    /// No choice of values on this pattern makes the matrix nonsingular.
    #[error(
        "the matrix is structurally singular: rank {rank}, {} rows unmatched, the first is row {}",
        unmatched_rows.len(), unmatched_rows.first().copied().unwrap_or_default()
    )]
    StructurallySingular {
        /// Structural rank: size of a maximum matching of rows and columns.
        rank: usize,
        /// Rows left over by one maximum matching, in increasing order.
        unmatched_rows: Vec<u32>,
        /// Columns left over by the same matching, in increasing order.
        unmatched_cols: Vec<u32>,
    },
    /// The pattern has full structural rank, but only thanks to stored zeros: every product along
    /// a permutation is zero, so the matrix of these values is singular.
    #[error(
        "the matrix is singular: its nonzero values allow rank {rank} at most, {} columns \
         unmatched, the first is column {}",
        unmatched_cols.len(), unmatched_cols.first().copied().unwrap_or_default()
    )]
    NumericallySingular {
        /// Structural rank of the nonzero values.
        rank: usize,
        /// Rows left over by one maximum matching on the nonzero values, in increasing order.
        unmatched_rows: Vec<u32>,
        /// Columns left over by the same matching, in increasing order.
        unmatched_cols: Vec<u32>,
    },
    /// An entry of a pattern that is said to be symmetric has no counterpart.
    #[error(
        "the pattern is not symmetric: there is an entry ({row}, {column}) but none ({column}, {row})"
    )]
    NotSymmetric {
        /// Row of the entry, from zero.
        row: usize,
        /// Column of the entry, from zero.
        column: usize,
    },
    /// Column approximate minimum degree orders columns for any choice of rows; a symmetric matrix has no choice.
    #[error("column approximate minimum degree does not order symmetric matrices")]
    NotForSymmetric,
    /// The caller's permutations of the rows and columns of a symmetric matrix differ.
    #[error("row and column permutation of a symmetric matrix differ at position {position}")]
    UnsymmetricPermutation {
        /// The first position at which they differ.
        position: usize,
    },
    /// A factor of the caller's scaling is not a positive finite number.
    #[error("the scaling factor of row {row} is not a positive finite number")]
    BadScaling {
        /// The first such row, from zero.
        row: usize,
    },
    /// The method is not part of this program.
    #[error("this program was built without the feature `{feature}` of the crate luge-ordering")]
    FeatureOff {
        /// The feature of the crate.
        feature: &'static str,
    },
    /// METIS gave up.
    #[error("nested dissection failed: METIS returned status {status}")]
    Metis {
        /// METIS's status: −2 input, −3 memory, −4 other.
        status: i32,
    },
    /// A graph is larger than the method's indices reach.
    #[error(transparent)]
    IndexOverflow(#[from] IndexOverflow),
    /// The graph has more edges than the 32-bit indices of the method reach.
    #[error("{method} takes at most {limit} graph entries, this graph has {entries}")]
    GraphTooLarge {
        /// Which method.
        method: &'static str,
        /// Entries of the graph.
        entries: usize,
        /// The most it takes.
        limit: usize,
    },
    /// Nested dissection takes more memory than the budget leaves.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The caller raised the cancel flag.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Refuses values that are infinite or not a number.
pub(crate) fn check_finite(a: &CompressedPattern, values: &[f64]) -> Result<(), OrderingError> {
    if values.iter().all(|v| v.is_finite()) {
        return Ok(());
    }
    Err(not_finite(a, values))
}

/// The error that names the first value that is not finite; there must be one.
pub(crate) fn not_finite(a: &CompressedPattern, values: &[f64]) -> OrderingError {
    let p = values
        .iter()
        .position(|v| !v.is_finite())
        .expect("a value is not finite");
    OrderingError::NotFinite {
        row: a.ptr().partition_point(|&start| start as usize <= p) - 1,
        column: a.idx()[p] as usize,
    }
}
