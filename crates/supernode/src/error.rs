//! Errors of the search for supernodes.

#[cfg(feature = "gpu")]
use luge_device::DeviceError;

/// Why no supernodes were produced.
#[derive(Debug, thiserror::Error)]
pub enum SupernodeError {
    /// The device failed.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What the device left is no partition of the rows.
    #[cfg(feature = "gpu")]
    #[error("the device left arrays that are not supernodes")]
    Corrupt,
}
