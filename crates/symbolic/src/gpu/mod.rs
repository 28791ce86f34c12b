//! The symbolic phase on the device: a GPU, or the simulator of its kernels.
//!
//! [`filled_pattern`] takes one of two ways, and leaves the pattern on the device, in [`DeviceFilled`], for the
//! phases that follow. [`primitives`] and [`Geometry`] serve those too.
//!
//! | way | time | memory beside the result |
//! |---|---|---|
//! | [`panels`] | near the size of the result; steps one after another: the height of the elimination forest, in panels of up to 32 columns | some 100 bytes a row, and what the structures of the panels take |
//! | [`fill2`] | the edges that the traversals of all rows walk, once or twice | any budget from a few slots on |
//!
//! The result takes 16 bytes an entry and 24 a row.

mod clock;
mod fill2;
mod filled;
mod geometry;
mod panels;
mod phase;
pub mod primitives;

use luge_device::{Device, DeviceError};

pub use fill2::{
    Fill2Options, Fill2Report, Fill2Seconds, Parallelism, Stages, fill2, smallest_budget,
};
pub use filled::{DeviceFilled, FillStatistics};
pub use geometry::Geometry;
pub use panels::{PanelOptions, PanelReport, PanelSeconds, panels};
pub use phase::{Mode, Options, Report, filled_pattern};

/// Loads the kernels of all phases now, so that no phase has to.
///
/// # Errors
///
/// What loading a module may answer.
pub fn load_kernels(device: &Device) -> Result<(), DeviceError> {
    device.load_module(&luge_gpu_kernels::MODULE)
}
