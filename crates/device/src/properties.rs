//! What a device is and can do.

use serde::Serialize;

use crate::error::{ComputeCapability, DriverVersion};

/// Which machine executes the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// An NVIDIA GPU through the CUDA driver.
    Cuda,
    /// The checking simulator of `luge-kernel`, on the host.
    Simulator,
}

/// A device's name, limits and sizes. They do not change while the device is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Properties {
    /// The device's name as the driver gives it.
    pub name: String,
    /// Which machine executes the kernels.
    pub backend: Backend,
    /// The device's number; 0 for the simulator.
    pub ordinal: usize,
    /// What the multiprocessors can do.
    pub compute_capability: ComputeCapability,
    /// The CUDA version that the driver supports; none for the simulator.
    pub driver_version: Option<DriverVersion>,
    /// Streaming multiprocessors.
    pub num_sms: u32,
    /// Threads of one block.
    pub max_threads_per_block: u32,
    /// Threads resident on one multiprocessor.
    pub max_threads_per_sm: u32,
    /// Threads of one block along x, y, z.
    pub max_block: [u32; 3],
    /// Blocks of a grid along x, y, z.
    pub max_grid: [u32; 3],
    /// Bytes of shared memory that a block gets without asking for more.
    pub shared_bytes_per_block: u32,
    /// Bytes of shared memory that a block can get (the launch opts in by itself).
    pub max_shared_bytes_per_block: u32,
    /// Bytes of shared memory of one multiprocessor.
    pub shared_bytes_per_sm: u32,
    /// 32-bit registers of one multiprocessor.
    pub registers_per_sm: u32,
    /// Bytes of the second-level cache.
    pub l2_bytes: u64,
    /// Bytes of device memory.
    pub total_bytes: u64,
    /// Whether a grid can be launched so that all of its blocks are resident together.
    pub cooperative_launch: bool,
    /// Whether memory is allocated and freed in stream order from a pool.
    pub stream_ordered_memory: bool,
}

/// Device memory at one moment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryInfo {
    /// Free for this device handle: what the driver reports free and what its own pool holds unused.
    pub free: u64,
    /// All of it.
    pub total: u64,
}

/// A module of which kernels were loaded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadedModule {
    /// The module's name.
    pub name: &'static str,
    /// The target of the image that was picked (90 for sm_90).
    pub sm: u32,
    /// Seconds in which at least one of its kernels was being loaded, the driver's compilation of the PTX included:
    /// kernels that are loaded side by side do not add up.
    pub seconds: f64,
}

/// Copies between host and device since the device was opened.
///
/// `seconds` covers the copies that the host waits for, from the moment the stream had nothing
/// else to do; transfers of pinned buffers run beside other work and only count their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Transfers {
    /// Bytes from host to device.
    pub to_device_bytes: u64,
    /// Bytes from device to host.
    pub to_host_bytes: u64,
    /// Seconds spent in copies that the host waited for.
    pub seconds: f64,
}
