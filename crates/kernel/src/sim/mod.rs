//! The simulator: the same kernels on the host, with every access checked.

mod alloc;
mod fault;
pub(crate) mod imp;
mod shadow;

use std::boxed::Box;

pub use alloc::{Allocation, Buffer};
pub use fault::{Access, Fault, FaultKind, Party, SourceLine, WaitKind, Waiter};
pub use imp::ArgReader;

use crate::host::{KernelArg, KernelDesc, LaunchConfig, LaunchTarget};

/// How a launch is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Orders threads, warps and blocks. The same seed replays the same schedule exactly.
    pub seed: u64,
    /// All detectors; without them bounds alone are checked (and waits, barriers and masks, which
    /// cost nothing), and memory that a launch may write counts as written after it.
    pub checks: bool,
    /// One in so many atomic accesses hands over to another thread; 0 for none.
    pub preempt_one_in: u32,
    /// Most blocks that are resident, and so can wait for each other, at once.
    pub resident_blocks: u32,
    /// Most threads of resident blocks; a launch has at least one block resident all the same.
    pub resident_threads: u32,
    /// Stack of a simulated thread in bytes.
    pub stack_bytes: usize,
    /// Shared memory of a block in bytes, static and dynamic.
    pub shared_bytes: u32,
    /// Whether a shuffle, vote or reduction orders the accesses of its lanes, as `sync_warp` does.
    /// PTX promises that of `bar.warp.sync` alone; `false` holds kernels to it.
    pub collectives_order_memory: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 0,
            checks: true,
            preempt_one_in: 16,
            resident_blocks: 8,
            resident_threads: 16 * 1024,
            stack_bytes: 64 * 1024,
            shared_bytes: 227 * 1024,
            collectives_order_memory: true,
        }
    }
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchStats {
    /// Blocks that ran.
    pub blocks: u64,
    /// Threads that ran.
    pub threads: u64,
    /// Times that a thread handed over to the scheduler before its end.
    pub switches: u64,
}

/// Runs `kernel` to its end.
///
/// # Errors
///
/// The first fault. Memory is then as the fault left it.
///
/// # Panics
///
/// If an argument is a buffer of a device.
pub fn launch(
    kernel: &'static KernelDesc,
    config: &LaunchConfig,
    args: &[KernelArg],
    options: &Options,
) -> Result<LaunchStats, Box<Fault>> {
    let _ = (config, args);
    Err(Fault::refused(
        kernel.name,
        options.seed,
        "the simulator cannot run kernels yet".into(),
    ))
}

/// A target of launches: simulates each with the same options.
#[derive(Clone, Debug, Default)]
pub struct Simulator {
    /// The options.
    pub options: Options,
}

impl Simulator {
    /// All detectors on, schedules of `seed`.
    pub fn with_seed(seed: u64) -> Simulator {
        Simulator {
            options: Options {
                seed,
                ..Options::default()
            },
        }
    }
}

impl LaunchTarget for Simulator {
    type Error = Box<Fault>;

    fn launch(
        &self,
        kernel: &'static KernelDesc,
        config: &LaunchConfig,
        args: &[KernelArg],
    ) -> Result<(), Box<Fault>> {
        launch(kernel, config, args, &self.options).map(|_| ())
    }
}
