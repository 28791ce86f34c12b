//! Errors of the numeric phase.

#[cfg(feature = "gpu")]
use luge_device::DeviceError;
use luge_sparse::{Cancelled, IndexOverflow, OutOfMemory};

/// Why no factors were produced. Columns count in the permuted matrix B that was handed in.
#[derive(Debug, thiserror::Error)]
pub enum NumericError {
    /// No usable pivot: the matrix is singular, exactly or to rounding.
    #[error(
        "no usable pivot in column {column} of the permuted matrix: it is singular to rounding"
    )]
    ZeroPivot {
        /// First column without a pivot.
        column: usize,
    },
    /// A value of the factors is infinite or not a number.
    #[error("an overflow or NaN arose in column {column} of the permuted matrix")]
    NotFinite {
        /// First such column.
        column: usize,
    },
    /// The factors do not fit the memory that the caller allowed.
    #[error("the factors need more than {asked} bytes at column {column}, {available} are allowed")]
    OutOfMemory {
        /// Column during which the limit was passed.
        column: usize,
        /// Bytes needed so far.
        asked: u64,
        /// Bytes allowed.
        available: u64,
    },
    /// The number of entries does not fit 32 bits.
    #[error(transparent)]
    IndexOverflow(#[from] IndexOverflow),
    /// The device failed.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The caller raised the cancel flag.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Before any column.
impl From<OutOfMemory> for NumericError {
    fn from(error: OutOfMemory) -> Self {
        let OutOfMemory { asked, available } = error;
        Self::OutOfMemory {
            column: 0,
            asked,
            available,
        }
    }
}
