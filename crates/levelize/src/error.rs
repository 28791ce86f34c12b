//! Errors of levelization.

#[cfg(feature = "gpu")]
use luge_device::DeviceError;
use luge_sparse::Cancelled;

/// Why no levels were produced.
#[derive(Debug, thiserror::Error)]
pub enum LevelizeError {
    /// The device failed.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What the device left are not level sets.
    #[cfg(feature = "gpu")]
    #[error("the device left arrays that are not level sets")]
    Corrupt,
    /// The caller raised the cancel flag.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
