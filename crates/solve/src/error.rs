//! Errors of the solve phase.

#[cfg(feature = "gpu")]
use luge_device::DeviceError;
use luge_sparse::Cancelled;

/// Why no solution was produced.
#[derive(Debug, thiserror::Error)]
pub enum SolveError {
    /// The solution has a value that is infinite or not a number.
    #[error("entry {row} of the solution is infinite or not a number")]
    NotFinite {
        /// First such entry.
        row: usize,
    },
    /// The device failed.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The caller raised the cancel flag.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
