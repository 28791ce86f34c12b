//! Errors of the search for supernodes.

use luge_device::DeviceError;

/// Why no supernodes were produced.
#[derive(Debug, thiserror::Error)]
pub enum SupernodeError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What the device left is no partition of the rows.
    #[error("the device left arrays that are not supernodes")]
    Corrupt,
}
