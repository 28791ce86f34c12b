//! The symbolic phase on the device: a GPU, or the simulator of its kernels.
//!
//! [`fill2`] is the traversal of gSoFa on the device. It leaves the pattern there, in
//! [`DeviceFilled`], for the phases that follow. [`primitives`] and [`Geometry`] serve those too.
//!
//! Cost: the sum over the rows of the edges that their traversals walk, once or twice; the bytes of a
//! budget, and for the result 16 bytes an entry and 24 a row.

mod clock;
mod fill2;
mod filled;
mod geometry;
mod panels;
pub mod primitives;

use luge_device::{Device, DeviceError};

pub use fill2::{
    Fill2Options, Fill2Report, Fill2Seconds, Parallelism, Stages, fill2, smallest_budget,
};
pub use filled::{DeviceFilled, FillStatistics};
pub use geometry::Geometry;
pub use panels::{PanelOptions, PanelReport, PanelSeconds, panels};

/// Loads the kernels of all phases now, so that no phase has to.
///
/// # Errors
///
/// What loading a module may answer.
pub fn load_kernels(device: &Device) -> Result<(), DeviceError> {
    device.load_module(&luge_gpu_kernels::MODULE)
}
