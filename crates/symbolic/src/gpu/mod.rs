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

use luge_device::{Device, DeviceError, KernelDesc};
use luge_gpu_kernels::symbolic::{etree, expand, panels as panel_kernels};
use luge_gpu_kernels::{scan, sort, transpose};

pub use fill2::{
    Fill2Options, Fill2Report, Fill2Seconds, Parallelism, Stages, fill2, fill2_on, smallest_budget,
};
pub use filled::{DeviceFilled, FillStatistics};
pub use geometry::Geometry;
pub use panels::{PanelOptions, PanelReport, PanelSeconds, panels};
pub use phase::{Mode, Options, Report, filled_pattern, filled_pattern_on};

/// The kernels of [`panels`] and of the [`primitives`] that it and the phases after it call, for
/// [`Device::load_kernels`]. Those of [`fill2`] are loaded at their first launch.
pub fn kernels() -> [&'static KernelDesc; 18] {
    [
        etree::find_unmirrored::desc(),
        etree::plant_forest::desc(),
        panel_kernels::eliminate_panels::desc(),
        expand::offset_rows::desc(),
        expand::place_runs::desc(),
        expand::expand_rows::desc(),
        expand::expand_long_rows::desc(),
        sort::sort_rows_u64::desc(),
        sort::sort_rows::desc(),
        sort::sort_short_rows::desc(),
        sort::sort_long_rows::desc(),
        scan::scan_tile_sums_u32::desc(),
        scan::scan_tiles_u32::desc(),
        scan::scan_tiles_u64::desc(),
        transpose::count_columns::desc(),
        transpose::place_rows::desc(),
        transpose::map_entries::desc(),
        transpose::diagonal_positions::desc(),
    ]
}

/// Loads the kernels of all phases and ways now, so that no phase has to.
///
/// # Errors
///
/// What loading a module may answer.
pub fn load_kernels(device: &Device) -> Result<(), DeviceError> {
    device.load_module(&luge_gpu_kernels::MODULE)
}
