//! The simulator: the same kernels on the host, with every access checked.
//!
//! Every thread of a block is a stackful coroutine, so a barrier, a shuffle or a spin is a place
//! where it is suspended in the middle of its Rust function. All threads of a launch run on the
//! operating-system thread that called [`launch`], one at a time. Blocks are resident together up
//! to [`Options::resident_blocks`], so that they can wait for each other.
//!
//! # Schedules
//!
//! [`Options::seed`] decides the order in which blocks start, which block goes on, the order of its
//! warps and lanes, how far a round goes, and which atomic accesses hand over to another thread.
//! The same seed, options and input replay the same schedule, access by access; nothing else (no
//! clock, no address) enters into it.
//!
//! Threads change only at atomics, barriers, collectives, spins and `nanosleep`. That loses
//! nothing: two threads between two such points either touch different memory, and then their order
//! does not matter, or they race, and then that is reported.
//!
//! # The detectors
//!
//! A launch stops at the first [`Fault`], which names kernel, block, thread, buffer, index, source
//! line, the other thread where there is one, and the seed.
//!
//! | detector | what it knows |
//! |---|---|
//! | bounds | always on; the handle's length, not the allocation's |
//! | initialisation | a bit for each 4 bytes of an allocation, set by host and kernel writes; a stamp for shared memory, new with each block |
//! | races | happens-before, below |
//! | barriers | all threads of the block, the same call at the same source line, nobody has returned |
//! | masks | own lane in the mask, the same mask and operation in all lanes that arrive, no lane that has returned or does not exist, no read of a lane outside |
//! | waits | every live thread waits, and all spinning conditions were asked again and again while nothing changed |
//! | panics | arithmetic overflow, local indices, asserts |
//!
//! ## Why the race check neither misses nor misreports within a schedule
//!
//! Two accesses race when they touch the same bytes, are of different threads, at least one writes,
//! not both are atomic (or both are, but the scope of one leaves out the other's block), and
//! neither happened before the other. Happened-before is the transitive closure of: program order
//! in a thread; a barrier, between all threads of its block; a collective, between the lanes of its
//! mask; a release and the acquire that reads its value or that of a read-modify-write chain begun
//! by it, if the scope of each includes the other thread; the same with fences around relaxed
//! accesses, as in C++ and PTX; and nothing else. Launches are ordered by the caller.
//!
//! The check keeps these relations exactly (`order` says how, in less than a vector clock a
//! thread), and of the accesses to each cell all that some later access could race with
//! (`shadow` says why the last ordered ones are enough). So an access is reported if and only if it
//! races with an earlier one of the same schedule: a race is found although the two threads ran far
//! apart, in blocks that were never resident together, or wrote the same value.
//!
//! # What it does not see
//!
//! * Another schedule. Happened-before includes the releases and acquires that did occur: of two
//!   critical sections the one that came first is ordered before the other, and with them what
//!   stands around them. A branch not taken is not checked. Run several seeds.
//! * Stale values. An atomic load reads the newest value, as if all atomics were sequentially
//!   consistent. What relaxed atomics may answer out of order among themselves (with no plain data
//!   involved) is not explored; what they fail to order is reported.
//! * Reductions that must be in a fixed order: a floating-point sum by atomics differs between
//!   seeds, which shows it, but is no fault.
//! * Two calls of one barrier line through different callers count as one barrier.
//! * Convergence: lanes never run in step; [`crate::warp::active_mask`] answers the own lane.
//! * Time, occupancy, registers, alignment, the size of local memory. A simulated thread has a
//!   stack of [`Options::stack_bytes`] with a guard page; overflowing it ends the process.
//!
//! By [`Options::collectives_order_memory`] a shuffle, vote or reduction orders its lanes, as
//! kernels of this project may assume of the chip; PTX words that promise for `sync_warp` alone.
//!
//! A spin condition that comes true by itself, after more than 256 tries in which nothing else
//! changed, is taken for one that never does. Values of `Drop` types on the stacks of a launch that
//! faulted are leaked. In a program built with `panic = "abort"` a panic of a kernel ends it.
//!
//! # Cost
//!
//! A tracked allocation has a shadow of 32 bytes for each 4 (for each 8 or 16, in a launch that sees it as elements of that
//! size alone), made when a launch first writes it. Memory that a launch only reads is
//! not tracked, and not checked at all beyond bounds once it is written completely.

mod alloc;
mod block;
mod collective;
mod element;
mod engine;
mod fault;
pub(crate) mod imp;
mod order;
mod rng;
mod shadow;
mod side;
mod turn;
mod wait;
#[cfg(feature = "simulator")]
mod worker;
#[cfg(not(feature = "simulator"))]
#[path = "absent.rs"]
mod worker;

use std::boxed::Box;
use std::format;
use std::ops::Range;
use std::ptr;
use std::string::{String, ToString};
use std::sync::atomic::{AtomicU32, Ordering};
use std::vec::Vec;

use engine::Engine;
use shadow::Space;

pub use alloc::{Allocation, Buffer};
pub use fault::{Access, Fault, FaultKind, Party, SourceLine, WaitKind, Waiter};
pub use imp::Arguments;

use crate::host::{BufferBase, KernelArg, KernelDesc, LaunchConfig, LaunchTarget, ParamKind};

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
    /// Each that waits has a stack, which takes two of the mappings that the operating system
    /// allows a process (65,530 on Linux, if not set otherwise).
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
            resident_threads: 8 * 1024,
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
/// The first fault. Memory is then as the fault left it, and may be launched on again.
///
/// # Panics
///
/// If an argument is a buffer of a device, or this is called from a simulated kernel.
#[track_caller]
pub fn launch(
    kernel: &'static KernelDesc,
    config: &LaunchConfig,
    args: &[KernelArg],
    options: &Options,
) -> Result<LaunchStats, Box<Fault>> {
    assert!(
        !engine::is_running(),
        "a simulated kernel cannot launch kernels"
    );
    let refuse = |what: String| Err(Fault::refused(kernel.name, options.seed, what));
    let resident = match resident_blocks(kernel, config, args, options) {
        Ok(resident) => resident,
        Err(what) => return refuse(what),
    };

    // The allocations of the launch, locked in the order of their ids: two launches that share
    // some cannot wait for each other.
    let mut allocations: Vec<&Allocation> = args
        .iter()
        .filter_map(|arg| match arg {
            KernelArg::Buffer { base, .. } => Some(simulated(base)),
            _ => None,
        })
        .collect();
    allocations.sort_unstable_by_key(|a| a.id());
    allocations.dedup_by_key(|a| a.id());
    let mut states: Vec<_> = allocations.iter().map(|a| a.lock()).collect();

    let stamp = next_stamp();
    let mut engine = Engine::new(kernel, config, options, resident, stamp);
    let engine_ptr = &raw mut engine;
    // SAFETY: the engine is alive to the end of this function, and while threads run it is
    // accessed through this pointer alone.
    unsafe {
        let mut bound = Vec::with_capacity(args.len());
        for (n, (arg, desc)) in args.iter().zip(kernel.arguments()).enumerate() {
            bound.push(match arg {
                KernelArg::Buffer { base, .. } => {
                    let id = simulated(base).id();
                    let at = allocations.partition_point(|a| a.id() < id);
                    let tracking = if options.checks {
                        Tracking::of(args, n)
                    } else {
                        Tracking::None
                    };
                    bind(
                        engine_ptr,
                        desc.to_string(),
                        arg,
                        &mut states[at],
                        tracking,
                        options.checks,
                    )
                }
                scalar => imp::Arg::Scalar(scalar.bits()),
            });
        }
        (*engine_ptr).args = bound;
        let names = kernel.shared.iter().map(|s| s.name);
        for name in names.chain([imp::DYNAMIC]) {
            for cells in shadow::ELEMENT_CELLS {
                (*engine_ptr).shared_spaces.push(Space {
                    engine: engine_ptr,
                    name: name.into(),
                    init: ptr::null_mut(),
                    granule: 0,
                    granules: cells,
                    cells,
                    shared: true,
                    read_only: false,
                });
            }
        }
        Engine::run(engine_ptr, resident);
        (*engine_ptr).abandon();
        if !options.checks {
            for (state, allocation) in states.iter_mut().zip(&allocations) {
                if args.iter().any(|arg| writes(arg, allocation)) {
                    state.init.complete();
                }
            }
        }
        match (*engine_ptr).fault.take() {
            Some(fault) => Err(fault),
            None => Ok((*engine_ptr).stats),
        }
    }
}

/// A number that no other launch of the process has; never 0.
fn next_stamp() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    loop {
        let stamp = NEXT.fetch_add(1, Ordering::Relaxed);
        if stamp != 0 {
            return stamp;
        }
    }
}

#[track_caller]
fn simulated(base: &BufferBase) -> &Allocation {
    match base {
        BufferBase::Simulated(allocation) => allocation,
        BufferBase::Device(_) => panic!("a buffer of a device was passed to the simulator"),
    }
}

/// Whether `arg` lends `allocation` for writing.
fn writes(arg: &KernelArg, allocation: &Allocation) -> bool {
    matches!(arg, KernelArg::Buffer { base: BufferBase::Simulated(a), writable: true, .. }
        if a.id() == allocation.id())
}

/// Checks the launch; answers how many blocks are resident at once, or why it is refused.
fn resident_blocks(
    kernel: &KernelDesc,
    config: &LaunchConfig,
    args: &[KernelArg],
    options: &Options,
) -> Result<u32, String> {
    let (threads, blocks) = (config.threads_per_block(), config.num_blocks());
    if threads == 0 || blocks == 0 {
        return Err(format!(
            "empty: grid {:?}, block {:?}",
            config.grid, config.block
        ));
    }
    if config.block.iter().any(|&d| d > 1024)
        || threads > u64::from(kernel.max_threads)
        || config.block[2] > 64
    {
        return Err(format!(
            "a block of {:?} threads is larger than {} threads or [1024, 1024, 64]",
            config.block, kernel.max_threads
        ));
    }
    if blocks.saturating_mul(threads) > u64::from(u32::MAX) {
        return Err(format!(
            "a grid of {:?} blocks has more threads than can be simulated",
            config.grid
        ));
    }
    let shared = kernel.static_shared_bytes() + config.shared_bytes as usize;
    if shared > options.shared_bytes as usize {
        return Err(format!(
            "a block needs {shared} bytes of shared memory and may have {}",
            options.shared_bytes
        ));
    }
    let wanted = kernel.arguments().count();
    if args.len() != wanted {
        return Err(format!("{} arguments for {wanted} parameters", args.len()));
    }
    for (arg, param) in args.iter().zip(kernel.arguments()) {
        let fits = match (arg.kind(), param.kind) {
            (
                ParamKind::Buffer { element, writable },
                ParamKind::Buffer {
                    element: wanted,
                    writable: needed,
                },
            ) => element == wanted && (writable || !needed),
            (given, wanted) => given == wanted,
        };
        if !fits {
            return Err(format!(
                "parameter `{param}` is {:?}, its argument {:?}",
                param.kind,
                arg.kind()
            ));
        }
        if let Some((range, size, total)) = extent(arg)
            && (range.start % size != 0 || range.end > total)
        {
            return Err(format!(
                "argument `{param}` is bytes {range:?} of an allocation of {total}, elements of {size}"
            ));
        }
    }
    let fit = (u64::from(options.resident_threads) / threads)
        .min(u64::from(options.resident_blocks))
        .clamp(1, blocks);
    if config.cooperative && fit < blocks {
        return Err(format!(
            "cooperative with {blocks} blocks, of which {fit} can be resident"
        ));
    }
    Ok(fit as u32)
}

/// Bytes of a buffer argument within its allocation, size of an element, size of the allocation.
fn extent(arg: &KernelArg) -> Option<(Range<u64>, u64, u64)> {
    let KernelArg::Buffer {
        base,
        byte_offset,
        len,
        element,
        ..
    } = arg
    else {
        return None;
    };
    let size = element.bytes() as u64;
    let end = byte_offset.saturating_add(size.saturating_mul(*len as u64));
    Some((*byte_offset..end, size, simulated(base).bytes() as u64))
}

/// How the accesses through a buffer argument are tracked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tracking {
    /// No race is possible: nothing in this launch writes its memory.
    None,
    /// By cells of so many bytes: the size of the smallest elements that the launch sees the allocation as.
    Cells(usize),
}

impl Tracking {
    fn of(args: &[KernelArg], n: usize) -> Tracking {
        let KernelArg::Buffer { base, writable, .. } = &args[n] else {
            return Tracking::None;
        };
        let id = simulated(base).id();
        let same = |arg: &&KernelArg| matches!(arg, KernelArg::Buffer { base: BufferBase::Simulated(a), .. } if a.id() == id);
        let range = |arg| extent(arg).map_or(0..0, |e| e.0);
        let mine = range(&args[n]);
        let written = *writable
            || args.iter().filter(same).any(|arg| {
                let other = range(arg);
                matches!(arg, KernelArg::Buffer { writable: true, .. })
                    && other.start < mine.end
                    && mine.start < other.end
            });
        if !written {
            return Tracking::None;
        }
        let sizes = args.iter().filter(same).filter_map(|arg| match arg {
            KernelArg::Buffer { element, .. } => Some(element.bytes()),
            _ => None,
        });
        sizes.min().map_or(Tracking::None, Tracking::Cells)
    }
}

/// Makes the handle of a buffer argument.
///
/// # Safety
///
/// `state` is that of the argument's allocation, locked to the end of the launch; the argument lies
/// in the allocation.
unsafe fn bind(
    engine: *mut Engine,
    name: String,
    arg: &KernelArg,
    state: &mut alloc::State,
    tracking: Tracking,
    checks: bool,
) -> imp::Arg {
    let KernelArg::Buffer {
        base,
        byte_offset,
        len,
        element,
        ..
    } = arg
    else {
        unreachable!("called for buffers");
    };
    let allocation = simulated(base);
    let (offset, size) = (*byte_offset as usize, element.bytes());
    let (cell, cells) = if let Tracking::Cells(cell_bytes) = tracking {
        let needed = allocation.bytes().div_ceil(cell_bytes);
        if state.cells.len() < needed {
            state.cells = shadow::unused_cells(needed);
        }
        // SAFETY: the argument lies in the allocation, so its cells in the array.
        let first = unsafe { state.cells.as_mut_ptr().add(offset / cell_bytes) };
        (first, size / cell_bytes)
    } else {
        (ptr::null_mut(), 0)
    };
    let init = if checks && !state.init.is_complete() {
        &raw mut state.init
    } else {
        ptr::null_mut()
    };
    imp::Arg::Buffer {
        // SAFETY: the argument lies in the allocation.
        data: unsafe { allocation.data().add(offset) },
        len: *len,
        cell,
        checked: !(cell.is_null() && init.is_null()),
        space: Box::new(Space {
            engine,
            name,
            init,
            granule: offset / alloc::GRANULE,
            granules: size / alloc::GRANULE,
            cells,
            shared: false,
            read_only: !matches!(arg, KernelArg::Buffer { writable: true, .. }),
        }),
    }
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
