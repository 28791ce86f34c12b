//! Errors of the symbolic phase.

#[cfg(feature = "gpu")]
use luge_device::DeviceError;
use luge_sparse::Cancelled;

/// Why no filled pattern was produced.
#[derive(Debug, thiserror::Error)]
pub enum SymbolicError {
    /// The filled pattern does not fit the memory that the caller allowed.
    #[error(
        "the filled pattern needs at least {asked} bytes, {available} are allowed and passed at row {row}"
    )]
    OutOfMemory {
        /// Row during which the limit was passed.
        row: usize,
        /// Bytes needed, at least.
        asked: u64,
        /// Bytes allowed.
        available: u64,
    },
    /// The device failed.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What the device left is not a filled pattern.
    #[cfg(feature = "gpu")]
    #[error("the device left no filled pattern: {0}")]
    Corrupt(String),
    /// The caller raised the cancel flag.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
