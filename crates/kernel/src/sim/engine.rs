//! The scheduler: blocks, threads, and who runs next.
//!
//! One operating-system thread runs a launch; one simulated thread runs at a time, until it waits
//! (a barrier, a warp collective, a spin), is preempted at an atomic access, or ends. Between two
//! such points nothing else runs, so the simulator's own state needs no locks, and a schedule is
//! the sequence of choices of one random generator: the same seed replays it exactly.
//!
//! Resident blocks are picked at random; a picked block gets a round: its runnable threads run in
//! an order that the seed chooses (as they came, backwards, by index, warps shuffled, all
//! shuffled), sometimes only the first few of them, so that blocks interleave at any point where
//! threads can. A condition that is awaited in vain is asked again after two rounds, then four, up to
//! sixteen, as long as other threads are ready. Blocks beyond the resident ones start, in a random
//! order, as others end.
//!
//! # Aliasing
//!
//! Engine, blocks and threads are reached through raw pointers from every coroutine. A reference
//! into them lives only between two context switches, and never across a call that may switch.

use std::boxed::Box;
use std::cell::Cell as StdCell;
use std::ptr;
use std::string::{String, ToString};
use std::thread_local;
use std::vec;
use std::vec::Vec;

use super::block::{Block, State, Thread, Warp};
use super::collective::{BarrierState, Collective};
use super::fault::{Fault, FaultKind, Party, SourceLine};
use super::imp::Arg;
use super::rng::Rng;
use super::shadow::{Line, Lines, Space, unused_cells};
use super::side::Sides;
use super::turn::{Command, Event};
use super::worker::{Workers, take_note};
use super::{LaunchStats, Options};
use crate::host::{KernelDesc, LaunchConfig};

/// A launch that runs.
pub(crate) struct Engine {
    pub kernel: &'static KernelDesc,
    pub config: LaunchConfig,
    pub options: Options,
    /// Threads of a block.
    pub block_threads: u32,
    /// Stamp of the cells of global memory.
    pub stamp: u32,
    /// Static shared arrays: where each starts in bytes; then the dynamic part.
    pub shared_offsets: Vec<usize>,
    pub shared_bytes: usize,
    /// The static shared arrays, then the dynamic part, as the checks see them.
    pub shared_spaces: Vec<Space>,
    pub args: Vec<Arg>,
    /// The running thread and its block.
    pub current: *mut Thread,
    pub block: *mut Block,
    /// Resident blocks, each owned through `Box::into_raw`.
    pub blocks: Vec<*mut Block>,
    /// Blocks that have not started, in the order in which they will.
    pub waiting_blocks: std::vec::IntoIter<u32>,
    pub rng: Rng,
    workers: Workers,
    pub sides: Sides,
    pub lines: Lines,
    block_stamp: u32,
    pub fault: Option<Box<Fault>>,
    pub stats: LaunchStats,
    /// Grows with everything that could end a wait.
    pub progress: u64,
    /// Threads in `State::Ready`, and in `State::Spin`, of all resident blocks.
    pub ready: u32,
    pub spinning: u32,
    /// Spinning threads that were asked often enough at this progress, all in vain.
    pub settled: (u64, u32),
    /// Times that threads handed over of themselves at this progress.
    pub idle: (u64, u64),
    /// Spins asked since something else ran.
    pub spin_turns: u64,
}

thread_local! {
    /// The engine while a simulated thread runs.
    static RUNNING: StdCell<*mut Engine> = const { StdCell::new(ptr::null_mut()) };
}

/// Whether a simulated thread runs on this operating-system thread.
pub(crate) fn is_running() -> bool {
    !RUNNING.with(StdCell::get).is_null()
}

/// The engine of the running simulated thread.
///
/// # Panics
///
/// Outside of one.
#[inline(always)]
#[track_caller]
pub(crate) fn running() -> *mut Engine {
    let engine = RUNNING.with(StdCell::get);
    assert!(!engine.is_null(), "called outside of a simulated kernel");
    engine
}

impl Engine {
    pub fn new(
        kernel: &'static KernelDesc,
        config: &LaunchConfig,
        options: &Options,
        resident: u32,
        stamp: u32,
    ) -> Engine {
        let mut shared_offsets = Vec::new();
        let mut offset = 0usize;
        for array in kernel.shared {
            shared_offsets.push(offset);
            offset += (array.element.bytes() * array.len).next_multiple_of(16);
        }
        shared_offsets.push(offset);
        let mut rng = Rng::new(options.seed);
        let mut order: Vec<u32> = (0..config.num_blocks() as u32).collect();
        rng.shuffle(&mut order);
        Engine {
            kernel,
            config: *config,
            options: options.clone(),
            block_threads: config.threads_per_block() as u32,
            stamp,
            shared_offsets,
            shared_bytes: offset + config.shared_bytes as usize,
            shared_spaces: Vec::new(),
            args: Vec::new(),
            current: ptr::null_mut(),
            block: ptr::null_mut(),
            blocks: Vec::with_capacity(resident as usize),
            waiting_blocks: order.into_iter(),
            rng,
            workers: Workers::take(options.stack_bytes),
            sides: Sides::new(),
            lines: Lines::new(),
            block_stamp: 0,
            fault: None,
            stats: LaunchStats::default(),
            progress: 0,
            ready: 0,
            spinning: 0,
            settled: (0, 0),
            idle: (0, 0),
            spin_turns: 0,
        }
    }

    /// Runs all blocks, or up to the first fault, which is then in `fault`.
    ///
    /// # Safety
    ///
    /// `engine` is valid and not borrowed; its arguments are those of its kernel.
    pub unsafe fn run(engine: *mut Engine, resident: u32) {
        // SAFETY: the caller's promise; references end before a thread is resumed.
        unsafe {
            for _ in 0..resident {
                let Some(linear) = (*engine).waiting_blocks.next() else {
                    break;
                };
                (*engine).add_block(linear);
            }
            while !(*engine).blocks.is_empty() {
                let Some(b) = (*engine).pick() else {
                    (*engine).fault = Some((*engine).deadlock(false));
                    return;
                };
                let block = (&(*engine).blocks)[b];
                Engine::round(engine, block);
                if (*engine).fault.is_some() {
                    return;
                }
                if (*block).live == 0 {
                    (*engine).end_block(b);
                }
            }
        }
    }

    /// A random resident block with runnable threads.
    fn pick(&mut self) -> Option<usize> {
        let n = self.blocks.len();
        let start = if n > 1 {
            self.rng.below(n as u32) as usize
        } else {
            0
        };
        (0..n)
            .map(|k| (start + k) % n)
            // SAFETY: resident blocks are alive; nobody borrows them between two turns.
            .find(|&b| unsafe { !(*self.blocks[b]).ready.is_empty() })
    }

    /// Makes block `linear` resident in a new place.
    fn add_block(&mut self, linear: u32) {
        let n = self.block_threads as usize;
        let cells = if self.options.checks {
            self.shared_bytes.div_ceil(4)
        } else {
            0
        };
        let mut block = Box::new(Block {
            linear,
            index: [0; 3],
            first_gid: 0,
            threads: Vec::with_capacity(n),
            warps: vec![Warp::default(); n.div_ceil(32)],
            lanes: Vec::new(),
            ready: Vec::with_capacity(n),
            spare: Vec::with_capacity(n),
            rounds: 0,
            live: 0,
            exited: None,
            barrier: BarrierState::default(),
            epoch: 0,
            stamp: 0,
            shared: vec![0; self.shared_bytes.div_ceil(8)],
            cells: unused_cells(cells),
        });
        let [bx, by, _] = self.config.block;
        for t in 0..n as u32 {
            block.threads.push(Thread {
                gid: 0,
                linear: t,
                index: [t % bx, t / bx % by, t / bx / by],
                state: State::Done,
                started: false,
                clock: 1,
                known: None,
                fences: None,
                worker: None,
                yielder: ptr::null(),
                line: None,
                collective: Collective::default(),
                result: [0; 2],
                in_spin: false,
                atomics: 0,
                futile: (0, 0),
            });
        }
        self.start_block(&mut block, linear);
        self.blocks.push(Box::into_raw(block));
    }

    /// Starts block `linear` in the place of one that has ended.
    fn start_block(&mut self, block: &mut Block, linear: u32) {
        let [gx, gy, _] = self.config.grid;
        block.linear = linear;
        block.index = [linear % gx, linear / gx % gy, linear / gx / gy];
        block.first_gid = linear * self.block_threads;
        block.live = self.block_threads;
        block.exited = None;
        block.barrier = BarrierState::default();
        block.epoch = 1;
        self.block_stamp += 1;
        block.stamp = self.block_stamp;
        for (w, warp) in block.warps.iter_mut().enumerate() {
            let lanes = (self.block_threads - 32 * w as u32).min(32);
            *warp = Warp {
                exists: u32::MAX >> (32 - lanes),
                epoch: 1,
                ..Warp::default()
            };
        }
        for thread in &mut block.threads {
            thread.gid = block.first_gid + thread.linear;
            thread.state = State::Ready;
            thread.started = false;
            thread.clock = 1;
            thread.known = None;
            thread.fences = None;
            thread.atomics = 0;
            thread.futile = (0, 0);
        }
        block.ready.clear();
        block.ready.extend(0..self.block_threads);
        self.ready += self.block_threads;
        self.stats.blocks += 1;
        self.stats.threads += u64::from(self.block_threads);
    }

    /// Block `b` has ended: its place goes to the next one.
    fn end_block(&mut self, b: usize) {
        // SAFETY: resident blocks are alive; nobody borrows them between two turns.
        let block = unsafe { &mut *self.blocks[b] };
        self.sides.release(&mut block.cells, block.stamp);
        if let Some(linear) = self.waiting_blocks.next() {
            self.start_block(block, linear);
        } else {
            // SAFETY: from `Box::into_raw`, and no longer listed.
            drop(unsafe { Box::from_raw(self.blocks.swap_remove(b)) });
        }
    }

    /// Lets the runnable threads of `block` run, each up to its next wait.
    ///
    /// # Safety
    ///
    /// As for [`Engine::run`]; `block` is resident.
    unsafe fn round(engine: *mut Engine, block: *mut Block) {
        // SAFETY: the caller's promise; references end before a thread is resumed.
        unsafe {
            let spare = std::mem::take(&mut (*block).spare);
            let mut list = std::mem::replace(&mut (*block).ready, spare);
            let limit = {
                let this = &mut *engine;
                this.arrange(&mut list);
                let awake = this.put_to_sleep(&mut *block, &mut list);
                if this.blocks.len() > 1 && this.rng.below(4) == 0 {
                    1 + this.rng.below(awake as u32) as usize
                } else {
                    awake
                }
            };
            for &t in &list[..limit] {
                Engine::turn(engine, block, t as usize);
                if (*engine).fault.is_some() {
                    return;
                }
            }
            (*block).ready.extend_from_slice(&list[limit..]);
            list.clear();
            (*block).spare = list;
        }
    }

    /// Puts a round in the order that the seed chooses.
    fn arrange(&mut self, list: &mut [u32]) {
        if list.len() < 2 {
            return;
        }
        match self.rng.below(5) {
            0 => {}
            1 => list.reverse(),
            2 => list.sort_unstable(),
            3 => {
                let salt = self.rng.next() | 1;
                list.sort_unstable_by_key(|&t| {
                    (((t / 32).wrapping_add(salt)).wrapping_mul(0x9E37_79B1), t)
                });
            }
            _ => self.rng.shuffle(list),
        }
    }

    /// Moves the threads of a round whose spins were asked in vain again and again to its end, for a while: as long as
    /// others can go on, they are asked less and less often. The answer: how many are left, one at least.
    fn put_to_sleep(&self, block: &mut Block, list: &mut [u32]) -> usize {
        block.rounds += 1;
        if self.spinning == 0 || self.ready == 0 {
            return list.len();
        }
        let wakes = |t: u32| {
            let spins = block.threads[t as usize].state == State::Spin;
            if spins {
                block.warps[t as usize / 32].asleep_until
            } else {
                0
            }
        };
        // Where nobody is to be asked yet, the first of them are.
        let first = list.iter().map(|&t| wakes(t)).min().unwrap_or(0);
        block.rounds = block.rounds.max(first);
        let mut awake = 0;
        for k in 0..list.len() {
            if wakes(list[k]) <= block.rounds {
                list.swap(awake, k);
                awake += 1;
            }
        }
        awake
    }

    /// Lets thread `t` of `block` run up to its next wait.
    ///
    /// # Safety
    ///
    /// As for [`Engine::run`]; the thread is runnable.
    unsafe fn turn(engine: *mut Engine, block: *mut Block, t: usize) {
        // SAFETY: the caller's promise; references end before the thread is resumed.
        unsafe {
            let thread = (*block).threads.as_mut_ptr().add(t);
            (*engine).current = thread;
            (*engine).block = block;
            let spins = (*thread).state == State::Spin;
            let progress = (*engine).progress;
            (*thread).atomics = 0;
            let mut worker;
            let command;
            if (*thread).started {
                worker = (*thread).worker.take();
                command = Command::Continue;
            } else {
                (*thread).started = true;
                command = Command::Start;
                worker = match (*engine).workers.start() {
                    Ok(worker) => Some(worker),
                    Err(what) => {
                        (*engine).fault = Some(Fault::refused(
                            (*engine).kernel.name,
                            (*engine).options.seed,
                            what,
                        ));
                        return;
                    }
                };
            }
            let Some(mut worker) = worker.take() else {
                unreachable!("a thread that has started has a worker until it ends");
            };
            RUNNING.with(|r| r.set(engine));
            let event = worker.resume(command);
            RUNNING.with(|r| r.set(ptr::null_mut()));
            match event {
                Event::Finished => {
                    (*engine).workers.finish(worker);
                    (*engine).exit();
                }
                Event::Waiting => {
                    (*thread).worker = Some(worker);
                    (*engine).stats.switches += 1;
                }
                Event::Faulted => (*engine).workers.abandon(worker),
                Event::Panicked => {
                    (*engine).workers.finish(worker);
                    let note = take_note();
                    let mut fault = (*engine).describe(FaultKind::Panic {
                        message: note.message,
                    });
                    fault.location = note.location;
                    (*engine).fault = Some(fault);
                }
            }
            if spins {
                (*engine).spun(progress);
            } else {
                (*engine).spin_turns = 0;
            }
        }
    }

    /// The running thread has returned.
    ///
    /// # Safety
    ///
    /// Called by `turn` alone.
    unsafe fn exit(&mut self) {
        self.set_state(State::Done);
        // SAFETY: the caller's promise: current thread and block are alive, nobody borrows them.
        let (thread, block) = unsafe { (&mut *self.current, &mut *self.block) };
        block.live -= 1;
        block.exited = Some(thread.linear);
        let warp = &mut block.warps[(thread.linear / 32) as usize];
        warp.exited |= 1 << (thread.linear % 32);
        thread.known = None;
        thread.fences = None;
        if block.barrier.arrived > 0 || warp.waiting != 0 {
            // SAFETY: as above.
            self.fault = unsafe { self.missed_by_exit() };
        }
    }

    /// Changes the state of the running thread and of the counts.
    pub fn set_state(&mut self, state: State) {
        // SAFETY: called for a running thread; nobody borrows it now.
        let old = unsafe { std::mem::replace(&mut (*self.current).state, state) };
        self.count(old, state);
    }

    /// Makes thread `t` of the running block runnable again.
    pub fn wake(&mut self, t: usize) {
        // SAFETY: called for a running thread, whose block nobody borrows now.
        let block = unsafe { &mut *self.block };
        let old = std::mem::replace(&mut block.threads[t].state, State::Ready);
        block.ready.push(t as u32);
        self.count(old, State::Ready);
    }

    fn count(&mut self, old: State, new: State) {
        self.ready -= u32::from(old == State::Ready);
        self.spinning -= u32::from(old == State::Spin);
        self.ready += u32::from(new == State::Ready);
        self.spinning += u32::from(new == State::Spin);
        if old != new {
            self.progress += 1;
        }
    }

    /// Hands over to the scheduler; comes back when the running thread runs again.
    ///
    /// # Safety
    ///
    /// Called on a simulated thread of `engine`; no reference into the engine is alive.
    pub unsafe fn switch(engine: *mut Engine) {
        // SAFETY: the caller's promise; the yielder belongs to the coroutine that this runs on.
        unsafe {
            let yielder = (*(*engine).current).yielder;
            (*yielder).suspend(Event::Waiting);
        }
    }

    /// Hands over, ready to go on at once.
    ///
    /// # Safety
    ///
    /// As for [`Engine::switch`].
    pub unsafe fn preempt(engine: *mut Engine) {
        // SAFETY: the caller's promise.
        unsafe {
            let t = (*(*engine).current).linear;
            (*(*engine).block).ready.push(t);
            Engine::switch(engine);
        }
    }

    /// A fault of the running thread, without place or other party.
    ///
    /// # Safety
    ///
    /// A thread is running, or has just run.
    pub unsafe fn describe(&self, kind: FaultKind) -> Box<Fault> {
        // SAFETY: the caller's promise.
        let (thread, block) = unsafe { (&*self.current, &*self.block) };
        let mut fault = Fault::refused(self.kernel.name, self.options.seed, String::new());
        fault.kind = kind;
        fault.block = block.index;
        fault.thread = thread.index;
        fault
    }

    /// Block and thread index of thread `gid`.
    pub fn place(&self, gid: u32) -> ([u32; 3], [u32; 3]) {
        let ([gx, gy, _], [bx, by, _]) = (self.config.grid, self.config.block);
        let (b, t) = (gid / self.block_threads, gid % self.block_threads);
        (
            [b % gx, b / gx % gy, b / gx / gy],
            [t % bx, t / bx % by, t / bx / by],
        )
    }

    /// Stops the launch with a fault of the running thread.
    ///
    /// # Safety
    ///
    /// Called on a simulated thread of `engine`.
    #[cold]
    pub unsafe fn raise(
        engine: *mut Engine,
        kind: FaultKind,
        buffer: Option<&str>,
        index: Option<usize>,
        line: Line,
        other: Option<(u32, Line)>,
    ) -> ! {
        // SAFETY: the caller's promise.
        unsafe {
            let mut fault = (*engine).describe(kind);
            fault.buffer = buffer.map(ToString::to_string);
            fault.index = index;
            fault.location = Some(SourceLine::new(line));
            fault.other = other.map(|(gid, line)| {
                let (block, thread) = (*engine).place(gid);
                Party {
                    block,
                    thread,
                    location: Some(SourceLine::new(line)),
                }
            });
            (*engine).fault = Some(fault);
            Engine::stop(engine)
        }
    }

    /// Leaves the running thread for good, with the fault that `fault` holds.
    ///
    /// # Safety
    ///
    /// Called on a simulated thread of `engine`.
    pub unsafe fn stop(engine: *mut Engine) -> ! {
        // SAFETY: the caller's promise.
        unsafe {
            let yielder = (*(*engine).current).yielder;
            (*yielder).suspend(Event::Faulted);
        }
        unreachable!("a thread that faulted is not resumed")
    }

    /// Takes the coroutines of threads that will not run again.
    pub fn abandon(&mut self) {
        for &block in &self.blocks {
            // SAFETY: resident blocks are alive; no thread runs now.
            for thread in unsafe { &mut (*block).threads } {
                if let Some(worker) = thread.worker.take() {
                    self.workers.abandon(worker);
                }
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.abandon();
        for block in self.blocks.drain(..) {
            // SAFETY: from `Box::into_raw`, and no longer listed.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}
