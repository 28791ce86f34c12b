//! What carries out the phases after the ordering.

#[cfg(feature = "gpu")]
use crate::device_path::DevicePath;
use crate::host_path::HostPath;
use crate::shared::Shared;

/// A path, and what does not depend on it.
pub(crate) struct Plan {
    pub shared: Shared,
    pub path: Path,
}

/// The CPU or a device.
pub(crate) enum Path {
    Host(HostPath),
    #[cfg(feature = "gpu")]
    Device(DevicePath),
}

impl Plan {
    /// The same on another path.
    #[cfg(feature = "gpu")]
    pub(crate) fn on_path(&self, path: Path) -> Self {
        Self {
            shared: self.shared.clone(),
            path,
        }
    }
}
