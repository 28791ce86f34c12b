//! The race check against an oracle: random programs, a full trace, and plain vector clocks.
//!
//! A kernel interprets a random program of plain and atomic accesses, fences, barriers and warp
//! syncs. Each thread logs what it does, in the order in which it takes effect. The oracle replays
//! the log by the definition of happened-before (a vector with an entry for every thread, a history
//! of every access, nothing clever) and must come to the same verdict about every single access:
//! all that the simulator let pass race with nothing, and the one that it stopped at races with the
//! party that it named.

use std::cell::RefCell;

use luge_kernel::host::{KernelArg, KernelBuffer, KernelModule, LaunchConfig};
use luge_kernel::prelude::*;
use luge_kernel::sim::{self, Access, Buffer, Fault, FaultKind, Options};

/// This crate.
pub static MODULE: KernelModule = KernelModule {
    name: "oracle",
    images: &[],
};

/// Cells of global and of shared memory, 4 bytes each.
const GLOBAL: usize = 6;
const SHARED: usize = 4;

/// One step of a thread's program: opcode, cell, ordering, scope or mask.
type Step = [u32; 4];

mod op {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const READ_DOUBLE: u32 = 2;
    pub const WRITE_DOUBLE: u32 = 3;
    pub const LOAD: u32 = 4;
    pub const STORE: u32 = 5;
    pub const ADD: u32 = 6;
    pub const FENCE: u32 = 7;
    pub const BARRIER: u32 = 8;
    pub const WARP: u32 = 9;
}

thread_local! {
    /// What happened: thread, step, and whether it is the arrival at a barrier or warp sync (which
    /// logs twice).
    static LOG: RefCell<Vec<(u32, u32, bool)>> = const { RefCell::new(Vec::new()) };
}

fn log(thread: u32, step: u32, arrival: bool) {
    LOG.with(|l| l.borrow_mut().push((thread, step, arrival)));
}

fn ordering(code: u32) -> Ordering {
    match code {
        0 => Ordering::Relaxed,
        1 => Ordering::Acquire,
        2 => Ordering::Release,
        _ => Ordering::AcqRel,
    }
}

fn scope(code: u32) -> Scope {
    if code == 0 {
        Scope::Block
    } else {
        Scope::Device
    }
}

/// Runs the steps of each thread; cells from `GLOBAL` on are shared memory.
#[kernel]
pub unsafe fn interpret(
    length: u32,
    program: Global<u32>,
    words: GlobalMut<u32>,
    doubles: GlobalMut<u64>,
) {
    let tile = shared_array![u32; SHARED];
    let me = thread::index_1d();
    for step in 0..length {
        let at = ((me * length + step) * 4) as usize;
        let [code, cell, order, wide] = [
            program.get(at),
            program.get(at + 1),
            program.get(at + 2),
            program.get(at + 3),
        ];
        let cell = cell as usize;
        let atomic = || {
            if cell < GLOBAL {
                words.atomic(cell)
            } else {
                tile.atomic(cell - GLOBAL)
            }
        };
        match code {
            op::READ if cell < GLOBAL => {
                words.get(cell);
            }
            op::READ => {
                tile.get(cell - GLOBAL);
            }
            op::WRITE if cell < GLOBAL => words.set(cell, me),
            op::WRITE => tile.set(cell - GLOBAL, me),
            op::READ_DOUBLE => {
                doubles.get(cell / 2);
            }
            op::WRITE_DOUBLE => doubles.set(cell / 2, 1),
            op::LOAD => {
                atomic().load(ordering(order), scope(wide));
            }
            op::STORE => atomic().store(me, ordering(order), scope(wide)),
            op::ADD => {
                atomic().fetch_add(1, ordering(order), scope(wide));
            }
            op::FENCE => fence::fence(scope(wide)),
            op::BARRIER => {
                log(me, step, true);
                thread::sync_threads();
            }
            _ => {
                log(me, step, true);
                warp::sync_warp(wide);
            }
        }
        log(me, step, false);
    }
}

/// A generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((((z ^ (z >> 31)) >> 32) * u64::from(n)) >> 32) as u32
    }
}

/// A random program: phases of a few accesses, each ended by something that orders. `calm` is how
/// seldom plain accesses are, so that programs without a race come up too.
fn generate(random: &mut Random, blocks: u32, threads: u32, calm: u32) -> Vec<Vec<Step>> {
    let mut program = vec![Vec::new(); (blocks * threads) as usize];
    let phases = 2 + random.below(7);
    for b in 0..blocks {
        let group = (b * threads) as usize..((b + 1) * threads) as usize;
        // Shared memory begins unwritten.
        for cell in 0..SHARED {
            program[group.start].push([op::STORE, (GLOBAL + cell) as u32, 0, 1]);
        }
        for t in group.clone() {
            while program[t].len() < SHARED {
                program[t].push([op::FENCE, 0, 0, 0]);
            }
            program[t].push([op::BARRIER, 0, 0, 0]);
        }
        for _ in 0..phases {
            // In tidy phases one thread has a cell to itself, which others leave alone: cells
            // change between plain and atomic use without a race, if the phases are ordered.
            let tidy = (random.below(3) > 0).then(|| {
                (
                    group.start + random.below(threads) as usize,
                    random.below((GLOBAL + SHARED) as u32),
                )
            });
            for t in group.clone() {
                for _ in 0..2 {
                    let step = match tidy {
                        None => access(random, calm),
                        Some((owner, cell)) if owner == t => {
                            [random.below(3).min(op::WRITE), cell, 0, 0]
                        }
                        Some((_, cell)) => loop {
                            let step = access(random, u32::MAX);
                            if step[1] != cell {
                                break step;
                            }
                        },
                    };
                    program[t].push(step);
                }
            }
            match random.below(4) {
                0 => {
                    for t in group.clone() {
                        program[t].push([op::BARRIER, 0, 0, 0]);
                    }
                }
                kind => {
                    // Lanes in up to `kind` groups; each lane names its own.
                    for w in (0..threads).step_by(32) {
                        let lanes = (threads - w).min(32);
                        let of: Vec<u32> = (0..lanes).map(|_| random.below(kind)).collect();
                        for l in 0..lanes {
                            let mask = (0..lanes)
                                .filter(|&k| of[k as usize] == of[l as usize])
                                .fold(0u32, |m, k| m | 1 << k);
                            program[group.start + (w + l) as usize].push([op::WARP, 0, 0, mask]);
                        }
                    }
                }
            }
        }
    }
    program
}

fn access(random: &mut Random, calm: u32) -> Step {
    if random.below(calm) == 0 {
        return match random.below(6) {
            0..=2 => [op::READ, random.below((GLOBAL + SHARED) as u32), 0, 0],
            3 => [op::WRITE, random.below((GLOBAL + SHARED) as u32), 0, 0],
            4 => [op::READ_DOUBLE, 2 * random.below(GLOBAL as u32 / 2), 0, 0],
            _ => [op::WRITE_DOUBLE, 2 * random.below(GLOBAL as u32 / 2), 0, 0],
        };
    }
    // Few cells for atomics, so that plain accesses meet their order.
    let cell = match random.below(8) {
        0..=1 => random.below((GLOBAL + SHARED) as u32),
        2..=3 => GLOBAL as u32,
        _ => 0,
    };
    let wide = u32::from(random.below(4) > 0);
    match random.below(4) {
        0 => [op::LOAD, cell, random.below(2), wide],
        1 => [op::STORE, cell, 2 * random.below(2), wide],
        2 => [op::ADD, cell, random.below(4), wide],
        _ => [op::FENCE, 0, 0, wide],
    }
}

/// How many steps of each thread are known.
type Clock = Vec<u32>;

fn join(a: &mut Clock, b: &Clock) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = (*a).max(*b);
    }
}

fn narrower(a: u32, b: u32) -> u32 {
    a.min(b)
}

/// Knowledge that a block published with some scope.
#[derive(Clone)]
struct Message {
    block: u32,
    wide: u32,
    clock: Clock,
}

/// An access to a cell, kept for ever.
struct Past {
    thread: u32,
    /// The thread's steps up to and including it.
    time: u32,
    access: Access,
    wide: u32,
}

#[derive(Default)]
struct Location {
    past: Vec<Past>,
    messages: Vec<Message>,
}

/// Happened-before by its definition.
struct Oracle<'a> {
    program: &'a [Vec<Step>],
    block_threads: u32,
    clocks: Vec<Clock>,
    /// What each thread's relaxed reads saw, with the scope of the read.
    pending: Vec<Vec<Message>>,
    /// What each thread knew at its fences.
    fences: Vec<Vec<Message>>,
    /// Global cells, then those of each block.
    locations: Vec<Location>,
    /// What arrived at (block, step, mask), with mask 0 for barriers.
    meetings: std::collections::HashMap<(u32, u32, u32), Clock>,
}

impl<'a> Oracle<'a> {
    fn new(program: &'a [Vec<Step>], block_threads: u32) -> Oracle<'a> {
        let n = program.len();
        let blocks = n / block_threads as usize;
        Oracle {
            program,
            block_threads,
            clocks: vec![vec![0; n]; n],
            pending: vec![Vec::new(); n],
            fences: vec![Vec::new(); n],
            locations: (0..GLOBAL + SHARED * blocks)
                .map(|_| Location::default())
                .collect(),
            meetings: std::collections::HashMap::new(),
        }
    }

    fn block(&self, thread: u32) -> u32 {
        thread / self.block_threads
    }

    /// The locations that a step touches, and how.
    fn touched(&self, thread: u32, step: &Step) -> (Vec<usize>, Option<Access>) {
        let cell = step[1] as usize;
        let place = if cell < GLOBAL {
            cell
        } else {
            GLOBAL + self.block(thread) as usize * SHARED + cell - GLOBAL
        };
        match step[0] {
            op::READ => (vec![place], Some(Access::Read)),
            op::WRITE => (vec![place], Some(Access::Write)),
            op::READ_DOUBLE => (vec![place, place + 1], Some(Access::Read)),
            op::WRITE_DOUBLE => (vec![place, place + 1], Some(Access::Write)),
            op::LOAD => (vec![place], Some(Access::AtomicRead)),
            op::STORE | op::ADD => (vec![place], Some(Access::AtomicWrite)),
            _ => (Vec::new(), None),
        }
    }

    /// The past accesses that `step` of `thread` would race with now.
    fn races(&self, thread: u32, step: &Step) -> Vec<(u32, Access)> {
        let (places, access) = self.touched(thread, step);
        let Some(access) = access else {
            return Vec::new();
        };
        let writes = |a| matches!(a, Access::Write | Access::AtomicWrite);
        let atomic = |a| matches!(a, Access::AtomicRead | Access::AtomicWrite);
        places
            .iter()
            .flat_map(|&p| &self.locations[p].past)
            .filter(|past| {
                let known = self.clocks[thread as usize][past.thread as usize];
                past.thread != thread
                    && past.time > known
                    && (writes(access) || writes(past.access))
                    && (!(atomic(access) && atomic(past.access))
                        || (self.block(past.thread) != self.block(thread)
                            && narrower(past.wide, step[3]) == 0))
            })
            .map(|past| (past.thread, past.access))
            .collect()
    }

    /// Takes note of a step that took effect.
    fn perform(&mut self, thread: u32, number: u32, arrival: bool) {
        let me = thread as usize;
        let block = self.block(thread);
        let step = self.program[me][number as usize];
        let [code, _, order, wide] = step;
        if matches!(code, op::BARRIER | op::WARP) {
            let group = match code {
                op::BARRIER => (block, number, 0),
                _ => {
                    let w = thread % self.block_threads / 32;
                    (block * 2 + w, number, wide)
                }
            };
            if arrival {
                self.clocks[me][me] += 1;
                let clock = self.clocks[me].clone();
                let met = self
                    .meetings
                    .entry(group)
                    .or_insert_with(|| vec![0; clock.len()]);
                join(met, &clock);
            } else {
                join(&mut self.clocks[me], &self.meetings[&group]);
            }
            return;
        }
        self.clocks[me][me] += 1;
        let visible = |m: &Message, wide| m.block == block || (m.wide == 1 && wide == 1);
        if code == op::FENCE {
            for m in self.pending[me].clone() {
                if visible(&m, wide) {
                    join(&mut self.clocks[me], &m.clock);
                }
            }
            let clock = self.clocks[me].clone();
            self.fences[me].push(Message { block, wide, clock });
            return;
        }
        let (places, access) = self.touched(thread, &step);
        let access = access.expect("an access");
        for place in places {
            let time = self.clocks[me][me];
            self.locations[place].past.push(Past {
                thread,
                time,
                access,
                wide,
            });
            let (reads, writes) = match code {
                op::LOAD => (true, false),
                op::STORE => (false, true),
                op::ADD => (true, true),
                op::WRITE | op::WRITE_DOUBLE => {
                    self.locations[place].messages.clear();
                    continue;
                }
                _ => continue,
            };
            if reads {
                for mut m in self.locations[place].messages.clone() {
                    if !visible(&m, wide) {
                        continue;
                    }
                    if matches!(ordering(order), Ordering::Acquire | Ordering::AcqRel) {
                        join(&mut self.clocks[me], &m.clock);
                    } else {
                        m.wide = narrower(m.wide, wide);
                        self.pending[me].push(m);
                    }
                }
            }
            if writes {
                if !reads {
                    self.locations[place].messages.clear();
                }
                let mut sent = Vec::new();
                if matches!(ordering(order), Ordering::Release | Ordering::AcqRel) {
                    let clock = self.clocks[me].clone();
                    sent.push(Message { block, wide, clock });
                }
                for mut m in self.fences[me].clone() {
                    m.wide = narrower(m.wide, wide);
                    sent.push(m);
                }
                self.locations[place].messages.append(&mut sent);
            }
        }
    }
}

/// Runs one program under one schedule and compares; answers whether it raced.
fn compare(program: &[Vec<Step>], blocks: u32, threads: u32, seed: u64) -> bool {
    let length = program[0].len();
    assert!(program.iter().all(|p| p.len() == length));
    let code: Vec<u32> = program.iter().flatten().flatten().copied().collect();
    let code = Buffer::from_slice("program", &code);
    let cells = Buffer::<u32>::zeroed("cells", GLOBAL);
    let args: [KernelArg; 4] = [
        (length as u32).into(),
        code.kernel_arg(),
        cells.allocation().arg::<u32>(0, GLOBAL, true),
        cells.allocation().arg::<u64>(0, GLOBAL / 2, true),
    ];
    let options = Options {
        seed,
        preempt_one_in: 3,
        resident_blocks: 1 + seed as u32 % 3,
        ..Options::default()
    };
    let config = LaunchConfig::linear(blocks, threads);
    LOG.with(|l| l.borrow_mut().clear());
    let result = sim::launch(interpret::desc(), &config, &args, &options);
    let trace = LOG.with(|l| std::mem::take(&mut *l.borrow_mut()));

    let mut oracle = Oracle::new(program, threads);
    let mut steps = vec![0u32; program.len()];
    for &(thread, number, arrival) in &trace {
        let step = &program[thread as usize][number as usize];
        let races = oracle.races(thread, step);
        assert!(
            races.is_empty(),
            "missed with seed {seed}: thread {thread}, step {number} {step:?} races with {races:?}"
        );
        oracle.perform(thread, number, arrival);
        steps[thread as usize] = number + 1;
    }
    let Err(fault) = result else {
        assert!(steps.iter().all(|&s| s == length as u32));
        return false;
    };
    check_fault(&fault, &oracle, &steps, threads);
    true
}

fn check_fault(fault: &Fault, oracle: &Oracle, steps: &[u32], threads: u32) {
    let FaultKind::Race {
        access,
        other_access,
        ..
    } = fault.kind
    else {
        panic!("another fault: {fault}");
    };
    let thread = fault.block[0] * threads + fault.thread[0];
    let step = &oracle.program[thread as usize][steps[thread as usize] as usize];
    let races = oracle.races(thread, step);
    let other = fault.other.as_ref().expect("another party");
    let other = other.block[0] * threads + other.thread[0];
    assert_eq!(oracle.touched(thread, step).1, Some(access), "{fault}");
    assert!(
        races.contains(&(other, other_access)),
        "a false alarm, or the wrong party: {fault}; step {step:?} races with {races:?}"
    );
}

#[test]
fn the_race_check_agrees_with_vector_clocks() {
    let (mut raced, mut clean) = (0, 0);
    for number in 0..1200u64 {
        let mut random = Random(number);
        let blocks = 1 + random.below(3);
        let threads = [2, 3, 6, 35][random.below(4) as usize];
        let calm = [2, 20, 60, 400][random.below(4) as usize];
        let program = generate(&mut random, blocks, threads, calm);
        for seed in 0..3 {
            if compare(&program, blocks, threads, seed) {
                raced += 1;
            } else {
                clean += 1;
            }
        }
    }
    // Both verdicts come up often, or this test says little.
    assert!(raced > 500 && clean > 500, "{raced} raced, {clean} clean");
}
