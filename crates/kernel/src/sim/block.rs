//! What is resident: blocks, their warps and threads.

use std::boxed::Box;
use std::vec::Vec;

use super::collective::{BarrierState, Collective, WarpOp};
use super::order::{Fences, Known};
use super::shadow::{Cell, Line};
use super::worker::{ThreadYielder, Worker};

/// Where a simulated thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not started, or ready to go on.
    Ready,
    /// Waits for the condition of a `spin_wait`.
    Spin,
    /// Waits at a block barrier.
    Barrier,
    /// Waits for lanes of its warp.
    Warp,
    /// Has returned.
    Done,
}

/// A simulated thread.
pub(crate) struct Thread {
    /// Number in the launch: block · threads of a block + `linear`.
    pub gid: u32,
    /// Linear index in the block.
    pub linear: u32,
    pub index: [u32; 3],
    pub state: State,
    pub started: bool,
    /// Stamp of its accesses; see `order`.
    pub clock: u32,
    pub known: Known,
    pub fences: Option<Box<Fences>>,
    /// Its coroutine while it waits.
    pub worker: Option<Worker>,
    pub yielder: *const ThreadYielder,
    /// Where it waits.
    pub line: Option<Line>,
    /// What it brings to a collective, and what it gets.
    pub collective: Collective,
    pub result: [u64; 2],
    /// Whether a spin condition is being asked.
    pub in_spin: bool,
    /// Atomic accesses since it last handed over.
    pub atomics: u32,
    /// How often a spin was asked in vain at which state of progress.
    pub futile: (u64, u32),
}

/// A warp of a resident block.
#[derive(Clone, Copy, Default)]
pub(crate) struct Warp {
    /// Lanes that the block has.
    pub exists: u32,
    /// Lanes that wait at a collective.
    pub waiting: u32,
    /// Mask and operation of all lanes that wait, if these are the same.
    pub meeting: Option<(u32, WarpOp)>,
    /// Lanes that have returned.
    pub exited: u32,
    /// Accesses of its lanes with a smaller clock are known to all of them.
    pub epoch: u32,
    /// Whether `Block::lanes` holds more for its lanes.
    pub partial: bool,
    /// Spins of its lanes that were asked in vain since one was not, and the round from which they are asked again.
    pub futile: u32,
    pub asleep_until: u64,
}

/// A resident block. Its place is used again when it ends.
pub(crate) struct Block {
    /// Linear index in the grid.
    pub linear: u32,
    pub index: [u32; 3],
    /// Number of its first thread.
    pub first_gid: u32,
    pub threads: Vec<Thread>,
    pub warps: Vec<Warp>,
    /// What each thread knows of each lane of its warp, once needed.
    pub lanes: Vec<[u32; 32]>,
    /// Runnable threads, in the order in which they became so.
    pub ready: Vec<u32>,
    pub spare: Vec<u32>,
    /// Rounds so far.
    pub rounds: u64,
    /// Threads that have not returned.
    pub live: u32,
    /// A thread that has returned.
    pub exited: Option<u32>,
    pub barrier: BarrierState,
    /// Accesses of its threads with a smaller clock are known to all of them.
    pub epoch: u32,
    /// Stamp of its shared cells.
    pub stamp: u32,
    /// Shared memory, static arrays first.
    pub shared: Vec<u64>,
    pub cells: Box<[Cell]>,
}

impl Block {
    pub fn shared_data(&mut self) -> *mut u8 {
        self.shared.as_mut_ptr().cast()
    }
}
