//! Block barriers and warp collectives: who arrives, whether all do, and what they get.
//!
//! The rules are stricter than the chip's, which for exited threads and unlike barriers mostly
//! carries on. A barrier must be reached by all threads of the block at the same source line; a
//! collective by all lanes of its mask with the same operation and mask; nobody may have returned.
//! Each is reported as soon as it is certain: when a party arrives at the wrong place, or returns.

use std::boxed::Box;
use std::format;
use std::string::String;

use super::block::{State, Thread};
use super::engine::Engine;
use super::fault::{Fault, FaultKind, Party, SourceLine};
use super::shadow::Line;
use crate::warp::{ReduceOp, ShuffleKind};

/// What a barrier computes of the threads' predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Plain,
    Count,
    And,
    Or,
}

/// The barrier at which threads of a block wait.
#[derive(Clone, Copy, Default)]
pub(crate) struct BarrierState {
    /// Threads that wait.
    pub arrived: u32,
    /// Of them, those whose predicate holds.
    holds: u32,
    /// The first that arrived: thread, kind, line.
    first: Option<(u32, BarrierKind, Line)>,
}

/// The operation of a warp collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarpOp {
    Sync,
    Shuffle(ShuffleKind, usize),
    Any,
    All,
    Ballot,
    Match,
    ReduceU32(ReduceOp),
    ReduceI32(ReduceOp),
    /// Over groups of so many lanes; the size of an element.
    Fold(u32, usize),
    Mma,
    /// Products of so many blocks of rows and of columns.
    MmaBlocks(usize, usize),
}

/// What a lane brings to a collective.
#[derive(Clone, Copy)]
pub(crate) struct Collective {
    pub op: WarpOp,
    pub mask: u32,
    /// Values, as bits; then the addresses of a [`FoldStep`] and what it is called with; of [`WarpOp::MmaBlocks`] the
    /// addresses of factors and sums.
    pub values: [u64; 4],
    /// Lane, distance or lane mask of a shuffle.
    pub operand: u32,
}

impl Default for Collective {
    fn default() -> Collective {
        Collective {
            op: WarpOp::Sync,
            mask: 0,
            values: [0; 4],
            operand: 0,
        }
    }
}

/// Whether two lines are the same place; one place may have several addresses.
fn same_line(a: Line, b: Line) -> bool {
    std::ptr::eq(a, b) || a == b
}

/// Waits at a block barrier; answers for how many threads `pred` holds.
pub(crate) fn barrier(kind: BarrierKind, pred: bool, line: Line) -> u32 {
    let engine = super::engine::running();
    // SAFETY: this is a simulated thread of the engine; references end before it switches.
    unsafe {
        let complete = {
            let this = &mut *engine;
            let (block, thread) = (&mut *this.block, &mut *this.current);
            if let Some(exited) = block.exited {
                let mut fault = this.describe(FaultKind::BarrierDivergence {
                    what: "a thread of the block has returned".into(),
                });
                fault.location = Some(SourceLine::new(line));
                fault.other = Some(Party {
                    block: block.index,
                    thread: block.threads[exited as usize].index,
                    location: None,
                });
                this.fault = Some(fault);
                Engine::stop(engine);
            }
            match block.barrier.first {
                None => block.barrier.first = Some((thread.linear, kind, line)),
                Some((first, first_kind, first_line)) => {
                    if first_kind != kind || !same_line(first_line, line) {
                        let what = "another thread waits at another barrier".into();
                        let gid = block.first_gid + first;
                        Engine::raise(
                            engine,
                            FaultKind::BarrierDivergence { what },
                            None,
                            None,
                            line,
                            Some((gid, first_line)),
                        );
                    }
                }
            }
            block.barrier.arrived += 1;
            block.barrier.holds += u32::from(pred);
            block.barrier.arrived == this.block_threads
        };
        if complete {
            (*engine).complete_barrier();
        } else {
            (*(*engine).current).line = Some(line);
            (*engine).set_state(State::Barrier);
            Engine::switch(engine);
        }
        (*(*engine).current).result[0] as u32
    }
}

/// Meets the lanes of `mine.mask`; answers the own result.
pub(crate) fn warp(mine: Collective, line: Line) -> [u64; 2] {
    let engine = super::engine::running();
    // SAFETY: this is a simulated thread of the engine; references end before it switches.
    unsafe {
        let complete = {
            let this = &mut *engine;
            let (block, thread) = (&mut *this.block, &mut *this.current);
            let (w, lane) = ((thread.linear / 32) as usize, thread.linear % 32);
            let first = w * 32;
            let mismatch = |what: String, other: Option<(usize, Option<Line>)>| -> ! {
                let this = &mut *engine;
                let mut fault = this.describe(FaultKind::WarpMaskMismatch {
                    mask: mine.mask,
                    what,
                });
                fault.location = Some(SourceLine::new(line));
                fault.other = other.map(|(t, line)| Party {
                    block: fault.block,
                    thread: (&(*this.block).threads)[t].index,
                    location: line.map(SourceLine::new),
                });
                this.fault = Some(fault);
                Engine::stop(engine)
            };
            if mine.mask >> lane & 1 == 0 {
                mismatch(format!("lane {lane} itself is not in the mask"), None);
            }
            let warp = &block.warps[w];
            let missing = mine.mask & !warp.exists;
            if missing != 0 {
                mismatch(
                    format!(
                        "lane {} is in the mask, but the block has no such thread",
                        missing.trailing_zeros()
                    ),
                    None,
                );
            }
            let gone = mine.mask & warp.exited;
            if gone != 0 {
                let l = gone.trailing_zeros() as usize;
                mismatch(
                    format!("lane {l} is in the mask, but has returned"),
                    Some((first + l, None)),
                );
            }
            let here = Some((mine.mask, mine.op));
            // Nearly always all lanes want the same, and nobody has to be asked.
            let asked = if warp.waiting == 0 || warp.meeting == here {
                0
            } else {
                warp.waiting & mine.mask
            };
            for l in (0..32usize).filter(|l| asked >> l & 1 == 1) {
                let other = &block.threads[first + l];
                let theirs = &other.collective;
                // A lane that waits without this one will come here later.
                if theirs.mask >> lane & 1 == 1 {
                    if theirs.mask != mine.mask {
                        mismatch(
                            format!("lane {l} waits with mask {:#010x}", theirs.mask),
                            Some((first + l, other.line)),
                        );
                    }
                    if theirs.op != mine.op {
                        mismatch(
                            format!(
                                "lane {lane} does {:?}, lane {l} does {:?}",
                                mine.op, theirs.op
                            ),
                            Some((first + l, other.line)),
                        );
                    }
                }
            }
            if let WarpOp::Shuffle(kind, _) = mine.op {
                if kind != ShuffleKind::Index && mine.operand > 31 {
                    mismatch(
                        format!("a shuffle over {} lanes, more than 31", mine.operand),
                        None,
                    );
                }
                let source = shuffle_source(kind, lane, mine.operand);
                if mine.mask >> source & 1 == 0 {
                    mismatch(
                        format!("lane {lane} reads lane {source}, which is not in the mask"),
                        None,
                    );
                }
            }
            thread.collective = mine;
            let warp = &mut block.warps[w];
            if warp.waiting == 0 {
                warp.meeting = here;
            } else if warp.meeting != here {
                warp.meeting = None;
            }
            warp.waiting |= 1 << lane;
            let is_uniform = warp.meeting.is_some();
            mine.mask & !warp.waiting == 0
                && (is_uniform
                    || (0..32usize)
                        .filter(|l| mine.mask >> l & 1 == 1)
                        .all(|l| block.threads[first + l].collective.mask == mine.mask))
        };
        if complete {
            (*engine).complete_warp();
        } else {
            (*(*engine).current).line = Some(line);
            (*engine).set_state(State::Warp);
            Engine::switch(engine);
        }
        (*(*engine).current).result
    }
}

/// The lane that a shuffle reads.
fn shuffle_source(kind: ShuffleKind, lane: u32, operand: u32) -> u32 {
    match kind {
        ShuffleKind::Index => operand % 32,
        ShuffleKind::Up => lane.checked_sub(operand).unwrap_or(lane),
        ShuffleKind::Down => {
            if lane + operand < 32 {
                lane + operand
            } else {
                lane
            }
        }
        ShuffleKind::Xor => lane ^ operand,
    }
}

fn reduce_u32(op: ReduceOp, a: u32, b: u32) -> u32 {
    match op {
        ReduceOp::Add => a.wrapping_add(b),
        ReduceOp::Min => a.min(b),
        ReduceOp::Max => a.max(b),
        ReduceOp::And => a & b,
        ReduceOp::Or => a | b,
        ReduceOp::Xor => a ^ b,
    }
}

fn reduce_i32(op: ReduceOp, a: i32, b: i32) -> i32 {
    match op {
        ReduceOp::Min => a.min(b),
        ReduceOp::Max => a.max(b),
        _ => reduce_u32(op, a as u32, b as u32) as i32,
    }
}

/// What lane `lane` gets; `warp` holds its warp's threads, with what the lanes of its mask brought.
fn evaluate(lane: u32, warp: &[Thread]) -> [u64; 2] {
    let brought = |l: usize| &warp[l].collective;
    let mine = brought(lane as usize);
    let members = || (0..32usize).filter(|l| mine.mask >> l & 1 == 1);
    let word = |l: usize| brought(l).values[0] as u32;
    let single = match mine.op {
        WarpOp::Sync => 0,
        WarpOp::Shuffle(kind, _) => {
            let source = brought(shuffle_source(kind, lane, mine.operand) as usize);
            return [source.values[0], source.values[1]];
        }
        WarpOp::Any => u64::from(members().any(|l| word(l) != 0)),
        WarpOp::All => u64::from(members().all(|l| word(l) != 0)),
        WarpOp::Ballot => members()
            .filter(|&l| word(l) != 0)
            .fold(0, |mask, l| mask | 1 << l),
        WarpOp::Match => members()
            .filter(|&l| word(l) == word(lane as usize))
            .fold(0, |mask, l| mask | 1 << l),
        WarpOp::ReduceU32(op) => u64::from(
            members()
                .map(word)
                .reduce(|a, b| reduce_u32(op, a, b))
                .unwrap_or(0),
        ),
        WarpOp::ReduceI32(op) => {
            let value = members()
                .map(|l| word(l) as i32)
                .reduce(|a, b| reduce_i32(op, a, b))
                .unwrap_or(0);
            u64::from(value as u32)
        }
        WarpOp::Mma => {
            // A[i][k] is `values[0]` of lane 4i + k, B[k][j] is `values[1]` of lane 4j + k.
            let (i, j) = (lane as usize / 4, 2 * (lane as usize % 4));
            return [0, 1].map(|c| {
                let start = f64::from_bits(mine.values[2 + c]);
                (0..4)
                    .fold(start, |sum, k| {
                        let a = f64::from_bits(brought(4 * i + k).values[0]);
                        let b = f64::from_bits(brought(4 * (j + c) + k).values[1]);
                        a.mul_add(b, sum)
                    })
                    .to_bits()
            });
        }
        WarpOp::Fold(..) | WarpOp::MmaBlocks(..) => unreachable!("all lanes get theirs at once"),
    };
    [single, 0]
}

/// Folds two values as the function at the address does that a lane brought.
pub(crate) type FoldStep = unsafe fn(*const u8, [u64; 2], [u64; 2]) -> [u64; 2];

/// Folds what the lanes of `warp` brought over groups of `lanes`, as lane `by` does it.
///
/// # Safety
///
/// All 32 lanes wait in [`super::imp::fold`], with what they fold by on their stacks.
unsafe fn fold(warp: &mut [Thread], lanes: u32, by: usize) {
    let [.., step, context] = warp[by].collective.values;
    // SAFETY: a lane's third value is the address of such a function.
    let step = unsafe { std::mem::transmute::<usize, FoldStep>(step as usize) };
    let mut values: [[u64; 2]; 32] = std::array::from_fn(|l| {
        let [first, second, ..] = warp[l].collective.values;
        [first, second]
    });
    let mut distance = lanes as usize / 2;
    while distance > 0 {
        // SAFETY: it is called with what its lane brought for it.
        values = std::array::from_fn(|l| unsafe {
            step(context as *const u8, values[l], values[l ^ distance])
        });
        distance /= 2;
    }
    for (thread, value) in warp.iter_mut().zip(values) {
        thread.result = value;
    }
}

/// Adds the products that the lanes of `warp` brought to their sums: k ascending, fused.
///
/// # Safety
///
/// All 32 lanes wait in [`super::imp::mma_m16n8k8_f64`] for `M` blocks of rows and `N` of columns, with their factors
/// and sums on their stacks, and nobody else refers to these.
unsafe fn multiply_blocks(warp: &[Thread], [m, n]: [usize; 2]) {
    let left = |l: usize| warp[l].collective.values[0] as *const [f64; 4];
    let right = |l: usize| warp[l].collective.values[1] as *const [f64; 2];
    let sums = |l: usize| warp[l].collective.values[2] as *mut [f64; 4];
    for lane in 0..32 {
        let (g, t) = (lane / 4, lane % 4);
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            // SAFETY: the caller's promise; i and j are below the lengths of the arrays.
            unsafe {
                for (x, sum) in (*sums(lane).add(i * n + j)).iter_mut().enumerate() {
                    let (side, column) = (x / 2, 2 * t + x % 2);
                    for k in 0..8 {
                        let (half, quarter) = (k / 4, k % 4);
                        let a = (*left(4 * g + quarter).add(i))[2 * half + side];
                        let b = (*right(4 * column + quarter).add(j))[half];
                        *sum = a.mul_add(b, *sum);
                    }
                }
            }
        }
    }
}

// Whoever waits leaves its frame on its stack and touches it when it goes on, and few lines of so many stacks are in cache: what
// the last to arrive does for all has a frame of its own.
impl Engine {
    /// All threads of the running block have arrived at its barrier.
    #[inline(never)]
    unsafe fn complete_barrier(&mut self) {
        // SAFETY: the caller's promise: a simulated thread runs, and nobody borrows its block.
        unsafe {
            if self.options.checks {
                self.join_block();
            }
            let running = (*self.current).linear as usize;
            {
                let block = &mut *self.block;
                let holds = u64::from(block.barrier.holds);
                block.barrier = BarrierState::default();
                for thread in &mut block.threads {
                    thread.result[0] = holds;
                }
            }
            for t in (0..self.block_threads as usize).filter(|&t| t != running) {
                self.wake(t);
            }
        }
        self.progress += 1;
    }

    /// All lanes of the running thread's collective have arrived.
    #[inline(never)]
    unsafe fn complete_warp(&mut self) {
        // SAFETY: the caller's promise: a simulated thread runs, and nobody borrows its block.
        unsafe {
            let (w, running, mask, op) = {
                let thread = &*self.current;
                let mine = &thread.collective;
                (
                    (thread.linear / 32) as usize,
                    thread.linear as usize,
                    mine.mask,
                    mine.op,
                )
            };
            if self.options.checks && (op == WarpOp::Sync || self.options.collectives_order_memory)
            {
                self.join_lanes(w, mask);
            }
            {
                let block = &mut *self.block;
                block.warps[w].waiting &= !mask;
                if op != WarpOp::Sync {
                    let end = block.threads.len().min(w * 32 + 32);
                    let warp = &mut block.threads[w * 32..end];
                    match op {
                        WarpOp::Fold(lanes, _) => fold(warp, lanes, running - w * 32),
                        WarpOp::MmaBlocks(m, n) => multiply_blocks(warp, [m, n]),
                        _ => {
                            for l in (0..32u32).filter(|l| mask >> l & 1 == 1) {
                                warp[l as usize].result = evaluate(l, warp);
                            }
                        }
                    }
                }
            }
            for t in (0..32).filter(|l| mask >> l & 1 == 1).map(|l| w * 32 + l) {
                if t != running {
                    self.wake(t);
                }
            }
        }
        self.progress += 1;
    }

    /// The fault, if any, of those who wait for the thread that has just returned.
    ///
    /// # Safety
    ///
    /// Called when the running thread has just returned.
    pub unsafe fn missed_by_exit(&mut self) -> Option<Box<Fault>> {
        // SAFETY: the caller's promise.
        let (thread, block) = unsafe { (&*self.current, &*self.block) };
        let fault = |waiter: usize, kind: FaultKind| {
            // SAFETY: as above.
            let mut fault = unsafe { self.describe(kind) };
            fault.thread = block.threads[waiter].index;
            fault.location = block.threads[waiter].line.map(SourceLine::new);
            fault.other = Some(Party {
                block: block.index,
                thread: thread.index,
                location: None,
            });
            fault
        };
        if let Some((first, ..)) = block.barrier.first {
            return Some(fault(
                first as usize,
                FaultKind::BarrierDivergence {
                    what: "a thread of the block has returned".into(),
                },
            ));
        }
        let (w, lane) = ((thread.linear / 32) as usize, thread.linear % 32);
        let waiting = block.warps[w].waiting;
        (0..32usize)
            .filter(|l| waiting >> l & 1 == 1)
            .map(|l| w * 32 + l)
            .find(|&t| block.threads[t].collective.mask >> lane & 1 == 1)
            .map(|t| {
                let mask = block.threads[t].collective.mask;
                let what = format!("lane {lane} is in the mask, but has returned");
                fault(t, FaultKind::WarpMaskMismatch { mask, what })
            })
    }
}
