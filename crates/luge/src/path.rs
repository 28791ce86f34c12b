//! What carries out the phases after the ordering.

#[cfg(feature = "gpu")]
use crate::device_plan::DevicePath;
use crate::host_path::HostPath;
use crate::shared::Shared;

/// A path, and what does not depend on it.
pub(crate) struct Plan<W> {
    pub shared: Shared,
    pub path: Path<W>,
}

/// The CPU or a device, for matrices whose [wide](luge_sparse::Scalar::Wide) type is `W`.
#[derive(Clone)]
pub(crate) enum Path<W> {
    Host(HostPath<W>),
    #[cfg(feature = "gpu")]
    Device(DevicePath<W>),
}

impl<W> Plan<W> {
    /// The same on another path.
    #[cfg(feature = "gpu")]
    pub(crate) fn on_path(&self, path: Path<W>) -> Self {
        Self {
            shared: self.shared.clone(),
            path,
        }
    }
}
