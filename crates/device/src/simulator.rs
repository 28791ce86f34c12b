//! What the simulated device is: its limits, its memory, and how its kernels are checked.

use luge_kernel::sim;

#[cfg(feature = "simulator")]
use crate::error::ComputeCapability;
#[cfg(feature = "simulator")]
use crate::properties::{Backend, Properties};

/// How a simulated device behaves.
#[derive(Clone, Debug)]
pub struct SimulatorOptions {
    /// Seed, detectors and residency of the simulator itself. Every launch runs with this seed, so
    /// a fault is replayed by the same calls on a device of the same options.
    pub simulator: sim::Options,
    /// Bytes of device memory.
    pub total_bytes: u64,
    /// Streaming multiprocessors that the device claims to have; kernels sized by them stay small.
    pub num_sms: u32,
    /// Threads of one block, at most.
    pub max_threads_per_block: u32,
}

impl Default for SimulatorOptions {
    /// The limits of an H200 for one block, with 4 GiB of memory and 4 multiprocessors.
    fn default() -> Self {
        Self {
            simulator: sim::Options::default(),
            total_bytes: 4 << 30,
            num_sms: 4,
            max_threads_per_block: 1024,
        }
    }
}

impl SimulatorOptions {
    /// The default with another seed.
    pub fn with_seed(seed: u64) -> Self {
        Self {
            simulator: sim::Options {
                seed,
                ..sim::Options::default()
            },
            ..Self::default()
        }
    }

    /// Blocks of `block_size` > 0 threads that the simulator keeps resident together.
    pub(crate) fn max_resident_blocks(&self, block_size: u32) -> u32 {
        let by_threads = self.simulator.resident_threads / block_size;
        self.simulator.resident_blocks.min(by_threads).max(1)
    }

    #[cfg(feature = "simulator")]
    pub(crate) fn properties(&self) -> Properties {
        Properties {
            name: "Luge simulator".into(),
            backend: Backend::Simulator,
            ordinal: 0,
            compute_capability: ComputeCapability { major: 9, minor: 0 },
            driver_version: None,
            num_sms: self.num_sms,
            max_threads_per_block: self.max_threads_per_block,
            max_threads_per_sm: 2048,
            max_block: [1024, 1024, 64],
            max_grid: [i32::MAX as u32, 65_535, 65_535],
            shared_bytes_per_block: self.simulator.shared_bytes.min(49_152),
            max_shared_bytes_per_block: self.simulator.shared_bytes,
            shared_bytes_per_sm: self.simulator.shared_bytes,
            registers_per_sm: 65_536,
            l2_bytes: 60 << 20,
            total_bytes: self.total_bytes,
            cooperative_launch: true,
            stream_ordered_memory: true,
        }
    }
}
