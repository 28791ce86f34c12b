//! What can go wrong between the host and a device, as one typed enum.

use std::fmt;

use luge_kernel::host::LaunchConfig;
use luge_kernel::sim::Fault;
use serde::Serialize;

/// A CUDA version as `cuDriverGetVersion` encodes it: 12040 is 12.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct DriverVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl DriverVersion {
    /// Decodes the driver's integer (`1000 · major + 10 · minor`); negative numbers count as 0.0.
    pub fn from_raw(raw: i32) -> Self {
        let raw = u32::try_from(raw).unwrap_or(0);
        Self {
            major: raw / 1000,
            minor: raw % 1000 / 10,
        }
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What a device's multiprocessors can do, as NVIDIA numbers it: an H200 is 9.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ComputeCapability {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl ComputeCapability {
    /// The number in a PTX target's name: 90 for 9.0, 121 for 12.1.
    pub fn sm(self) -> u32 {
        self.major * 10 + self.minor
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The limit a launch went over; the quantity of [`DeviceError::TooLarge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum LaunchLimit {
    /// Threads of one block (the device's limit, or the kernel's own where that is lower).
    ThreadsPerBlock,
    /// Threads of one block along one axis (0 = x, 1 = y, 2 = z).
    BlockAxis(usize),
    /// Blocks of the grid along one axis (0 = x, 1 = y, 2 = z).
    GridAxis(usize),
    /// Bytes of shared memory of one block, static and dynamic together.
    SharedBytesPerBlock,
    /// Blocks that must be resident together, because the launch is cooperative.
    CooperativeBlocks,
}

impl fmt::Display for LaunchLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const AXES: [char; 3] = ['x', 'y', 'z'];
        match *self {
            Self::ThreadsPerBlock => f.write_str("threads in a block"),
            Self::BlockAxis(axis) => write!(f, "threads in a block along {}", AXES[axis]),
            Self::GridAxis(axis) => write!(f, "blocks along {}", AXES[axis]),
            Self::SharedBytesPerBlock => f.write_str("bytes of shared memory in a block"),
            Self::CooperativeBlocks => f.write_str("blocks resident together"),
        }
    }
}

/// A fault of the device, of its driver, or of a simulated kernel.
///
/// A broken call contract (two lengths that must agree and do not, a slice outside its buffer) is
/// not among them: it panics at the caller's line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// No usable CUDA driver library on this machine.
    #[error("no CUDA driver: {}", tried.join("; "))]
    NoDriver {
        /// Each library name tried, with the reason why it does not serve.
        tried: Vec<String>,
    },
    /// The driver is there and sees no device.
    #[error("the CUDA driver sees no device")]
    NoDevice,
    /// The driver answers to an older CUDA version than this build needs.
    #[error("the driver supports CUDA {found}, and CUDA {needed} is needed")]
    DriverTooOld {
        /// What the driver supports.
        found: DriverVersion,
        /// The least version that serves.
        needed: DriverVersion,
    },
    /// The device is older than the oldest one that the kernels are built for.
    #[error("{name} has compute capability {compute_capability}, and {needed} is needed")]
    UnsupportedDevice {
        /// The device's name.
        name: String,
        /// What it can do.
        compute_capability: ComputeCapability,
        /// The least that serves.
        needed: ComputeCapability,
    },
    /// No device has this number.
    #[error("there is no device {ordinal}: the driver sees {count}")]
    InvalidDevice {
        /// The number asked for.
        ordinal: usize,
        /// How many devices there are.
        count: usize,
    },
    /// The device's memory, the budget, or an arena is exhausted.
    #[error("out of device memory: {asked} bytes asked, {available} available")]
    OutOfMemory {
        /// Bytes asked for.
        asked: u64,
        /// Bytes that were left: the smaller of the budget's rest and the device's free memory.
        available: u64,
    },
    /// The page-locked host memory is exhausted.
    #[error("out of page-locked host memory: {asked} bytes asked")]
    OutOfHostMemory {
        /// Bytes asked for.
        asked: u64,
    },
    /// A kernel module has no image that this device can run.
    #[error(
        "module {module} has images for sm {images:?}, none for compute capability {compute_capability}"
    )]
    NoImage {
        /// The module's name.
        module: &'static str,
        /// What the device can do.
        compute_capability: ComputeCapability,
        /// The targets of the module's images.
        images: Vec<u32>,
    },
    /// The compressed image of a kernel module is not that of a text.
    #[error("the image of module {module} for sm_{sm} cannot be decompressed")]
    CorruptImage {
        /// The module's name.
        module: &'static str,
        /// The target of the image.
        sm: u32,
    },
    /// The driver refused a kernel of a module's image.
    #[error("kernel {kernel} of module {module} (sm_{sm}) was refused: {message}\n{log}")]
    ModuleLoad {
        /// The kernel's name.
        kernel: &'static str,
        /// The module's name.
        module: &'static str,
        /// The target of the image that was tried.
        sm: u32,
        /// The driver's error.
        message: String,
        /// What its compiler logged.
        log: String,
    },
    /// The module's image has no entry point of this name.
    #[error("module {module} has no kernel {kernel}")]
    UnknownKernel {
        /// The kernel's name.
        kernel: &'static str,
        /// The module's name.
        module: &'static str,
    },
    /// The launch's geometry goes over a limit of the device or of the kernel.
    #[error("kernel {kernel}: {asked} {limit}, at most {most}")]
    TooLarge {
        /// The kernel's name.
        kernel: &'static str,
        /// Which limit.
        limit: LaunchLimit,
        /// What the launch asked for.
        asked: u64,
        /// What is possible.
        most: u64,
    },
    /// The driver refused a launch.
    #[error("kernel {kernel} with grid {:?}, block {:?}, {} bytes shared: {message}", config.grid, config.block, config.shared_bytes)]
    Launch {
        /// The kernel's name.
        kernel: &'static str,
        /// The launch's geometry.
        config: LaunchConfig,
        /// The driver's error.
        message: String,
    },
    /// Work that was enqueued earlier failed, and this call is where it showed. The device is of no
    /// further use to this process.
    #[error(
        "{call} reported {name} ({code}): {message}; kernels enqueued last, newest first: {kernels:?}"
    )]
    Asynchronous {
        /// The driver call that reported it.
        call: &'static str,
        /// The driver's number.
        code: u32,
        /// The driver's name for it.
        name: String,
        /// The driver's description.
        message: String,
        /// The kernels enqueued since the last successful synchronisation, newest first (at most
        /// eight); one of them is likely to be at fault.
        kernels: Vec<&'static str>,
    },
    /// Any other refusal of the driver.
    #[error("{call}: {name} ({code}): {message}")]
    Driver {
        /// The driver call.
        call: &'static str,
        /// The driver's number.
        code: u32,
        /// The driver's name for it.
        name: String,
        /// The driver's description.
        message: String,
    },
    /// The operation cannot be part of a graph, or another thread is capturing this stream.
    #[error("{call} is not possible while the stream is captured")]
    Capturing {
        /// The operation.
        call: &'static str,
    },
    /// The host read memory that nobody wrote (found by the simulator).
    #[error("the host read element {index}, which nobody wrote")]
    Uninitialized {
        /// The first such element of the range that was read.
        index: usize,
    },
    /// The simulator stopped a kernel that broke the memory model.
    #[error(transparent)]
    Fault(Box<Fault>),
}

impl From<Box<Fault>> for DeviceError {
    fn from(fault: Box<Fault>) -> Self {
        Self::Fault(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_decode() {
        let version = DriverVersion::from_raw(12040);
        assert_eq!(
            version,
            DriverVersion {
                major: 12,
                minor: 4
            }
        );
        assert_eq!(version.to_string(), "12.4");
        assert_eq!(DriverVersion::from_raw(-1).major, 0);
        assert!(DriverVersion::from_raw(13000) > version);
        let capability = ComputeCapability {
            major: 12,
            minor: 1,
        };
        assert_eq!(capability.sm(), 121);
        assert_eq!(capability.to_string(), "12.1");
    }

    #[test]
    fn messages_name_the_offender() {
        let text = DeviceError::TooLarge {
            kernel: "fill2_count",
            limit: LaunchLimit::BlockAxis(2),
            asked: 65,
            most: 64,
        }
        .to_string();
        assert_eq!(
            text,
            "kernel fill2_count: 65 threads in a block along z, at most 64"
        );
        let text = DeviceError::OutOfMemory {
            asked: 10,
            available: 3,
        }
        .to_string();
        assert!(text.contains("10") && text.contains('3'), "{text}");
    }
}
