//! Fill of L+U by rows: fill2 with every frontier in parallel (gSoFa, Figure 6).
//!
//! Row `src` of L+U holds j iff the graph of B has a path src → j whose inner vertices are all
//! smaller than min(src, j). For one source, `max_id(v)` is the smallest, over the paths src → v
//! walked so far, of the largest inner vertex of the path. A frontier v < src offers its neighbours
//! the path through itself, with m = max(v, max_id(v)); a neighbour takes it if m is below its own
//! `max_id`, is in the row if it is above m, and is a frontier again if it is below src. Vertices are
//! revisited until no `max_id` falls any more, so the result does not depend on the order of walks.
//!
//! A vertex that is in the row is left alone afterwards (line 9.5 of the figure): as its `max_id` is
//! below itself, it offers m = v whatever its `max_id`, and it has been put in the queue once since.
//!
//! # One slot a block
//!
//! A block works on one source at a time and takes the next from a counter. It owns a slot:
//!
//! ```text
//! max_id  n  u32    base + max_id(v) for the source at work; anything larger: not reached
//! fill    n  u32    largest source + 1 that has v in its row
//! queue 0, 1   n  u32 each    frontiers of this and of the next iteration
//! queued 0, 1  ⌈n/32⌉ u32 each    bit v: v is in that queue
//! ```
//!
//! **Windows of `max_id`.** A value is below n, so ⌊(2³²−1)/n⌋ disjoint ranges of n values fit below
//! the cleared value 2³²−1. Window w stores `w·n + max_id(v)`; the source after works in window
//! w−1, where whatever earlier sources left is larger than any value of the window and so means "not
//! reached". The array is cleared once in ⌊(2³²−1)/n⌋ sources of the slot: once in 2,708 for
//! n = 1,585,478. `fill` needs no clearing: the counter only grows, so the mark `src + 1` is larger
//! than all marks of the slot.
//!
//! **A queue of n entries is enough.** A vertex is written to queue q only by the thread whose
//! `fetch_or` turned its bit of `queued q` from 0 to 1. While q is the queue being filled, no bit of
//! `queued q` is cleared: bits are cleared only by the walk over q, in the next iteration, behind a
//! barrier. So q holds each vertex at most once. The first iteration's queue is the source's row,
//! whose columns are distinct. A vertex whose `max_id` falls twice in an iteration stands in the
//! queue once, and the walk, behind the barrier, reads the smaller value.
//!
//! Cost of a source: the edges out of the vertices below it that it reaches, times the number of
//! times their `max_id` falls.

use luge_kernel::prelude::*;

/// Value of a cleared `max_id`: larger than every value of every window.
const CLEARED: u32 = u32::MAX;

/// Number of `u32` words of one of the two `queued` bitmaps of a slot.
pub const fn queued_words(n: usize) -> usize {
    n.div_ceil(32)
}

/// Number of windows of `max_id` below the cleared value, ⌊(2³²−1)/n⌋ for n > 0.
pub const fn max_windows(n: u32) -> u32 {
    match CLEARED.checked_div(n) {
        Some(windows) => windows,
        None => 0,
    }
}

/// Number of words of the state shared by the block: three queue lengths and the entries of the row.
const BLOCK_STATE: usize = 4;

/// Place of the row's entry count in the block's state.
const ROW_LEN: usize = 3;

/// What both kernels are given.
#[derive(Clone, Copy)]
struct Traversal {
    n: u32,
    end_source: u64,
    /// Binary logarithm of the number of lanes that share the neighbours of a frontier.
    lanes_log2: u32,
    windows: u32,
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    next_source: GlobalMut<u64>,
    max_id: GlobalMut<u32>,
    fill: GlobalMut<u32>,
    queues: GlobalMut<u32>,
    queued: GlobalMut<u32>,
    /// Source at work.
    source: Shared<u64>,
    /// Lengths of the queues of this, the next and the last iteration, in turn; entries of the row.
    state: Shared<u32>,
}

impl Traversal {
    /// Takes sources until there are none left. For each, `emit(src, j)` is called once for every
    /// entry j of its row, by some thread, and then `finish(src)` by every thread, between barriers.
    #[inline(always)]
    fn run(self, mut emit: impl FnMut(u32, u32), mut finish: impl FnMut(u32)) {
        let n = self.n as usize;
        let words = queued_words(n);
        let slot = thread::block_idx_x() as usize;
        let first_vertex = slot * n;
        let first_queue = slot * 2 * n;
        let first_word = slot * 2 * words;
        let tid = thread::thread_idx_x();
        let threads = thread::block_dim_x();
        let lanes = 1u32 << self.lanes_log2;
        let group = tid >> self.lanes_log2;
        let groups = threads >> self.lanes_log2;
        let lane = u64::from(tid & (lanes - 1));

        for v in thread::block_stride(n) {
            self.fill.set(first_vertex + v, 0);
        }
        for w in thread::block_stride(2 * words) {
            self.queued.set(first_word + w, 0);
        }
        let mut windows_left = 0u32;

        loop {
            // The barrier before this point (or the launch) lies behind every use of `source`.
            if tid == 0 {
                let next = self.next_source.atomic(0);
                self.source
                    .set(0, next.fetch_add(1, Ordering::Relaxed, Scope::Device));
                for word in 0..BLOCK_STATE {
                    self.state.set(word, 0);
                }
            }
            if windows_left == 0 {
                windows_left = self.windows;
                for v in thread::block_stride(n) {
                    self.max_id.set(first_vertex + v, CLEARED);
                }
            }
            windows_left -= 1;
            let base = windows_left * self.n;
            thread::sync_threads();
            let source = self.source.get(0);
            if source >= self.end_source {
                break;
            }
            let src = source as u32;
            // n < 2³²−1, so the mark does not overflow.
            let mark = src + 1;

            // Lines 3–6: the row itself, reached without inner vertices. The columns of a row are
            // distinct, so each thread writes its own vertices. The diagonal is always an entry.
            if tid == 0 {
                self.max_id.set(first_vertex + src as usize, base);
                self.fill.set(first_vertex + src as usize, mark);
                emit(src, src);
            }
            let end = self.row_ptr.get(src as usize + 1);
            let mut p = self.row_ptr.get(src as usize) + u64::from(tid);
            while p < end {
                let v = self.col_idx.get(p as usize);
                if v != src {
                    self.max_id.set(first_vertex + v as usize, base);
                    self.fill.set(first_vertex + v as usize, mark);
                    emit(src, v);
                    if v < src {
                        let at = self
                            .state
                            .atomic(0)
                            .fetch_add(1, Ordering::Relaxed, Scope::Block);
                        self.queues.set(first_queue + at as usize, v);
                    }
                }
                p += u64::from(threads);
            }
            thread::sync_threads();

            // Lines 7–16. Iteration i reads queue i % 2 with its length in state[i % 3], fills the
            // other queue and state[(i+1) % 3], and zeroes state[(i+2) % 3], which was last read
            // in iteration i−1 and is next added to in iteration i+1: one barrier apart each.
            let mut current = 0usize;
            let mut now = 0usize;
            loop {
                let len = self.state.get(now);
                if len == 0 {
                    break;
                }
                let next = if now == 2 { 0 } else { now + 1 };
                let after = if next == 2 { 0 } else { next + 1 };
                if tid == 0 {
                    self.state.set(after, 0);
                }
                let this_queue = first_queue + current * n;
                let next_queue = first_queue + (1 - current) * n;
                let this_bits = first_word + current * words;
                let next_bits = first_word + (1 - current) * words;
                let mut f = group;
                while f < len {
                    let v = self.queues.get(this_queue + f as usize);
                    if lane == 0 {
                        // Every vertex of this word is in this queue and is walked in this
                        // iteration, and nobody sets or reads its bits: zero the word whole.
                        self.queued.atomic(this_bits + (v >> 5) as usize).store(
                            0,
                            Ordering::Relaxed,
                            Scope::Block,
                        );
                    }
                    let max_id = self
                        .max_id
                        .atomic(first_vertex + v as usize)
                        .load(Ordering::Relaxed, Scope::Block)
                        - base;
                    let through = if max_id > v { max_id } else { v };
                    let offered = base + through;
                    let end = self.row_ptr.get(v as usize + 1);
                    let mut p = self.row_ptr.get(v as usize) + lane;
                    while p < end {
                        let neighbor = self.col_idx.get(p as usize);
                        p += u64::from(lanes);
                        let label = self.max_id.atomic(first_vertex + neighbor as usize);
                        // Line 9.5 without a look at `fill`: a vertex is in the row iff its max_id
                        // in this window is below itself, or zero for vertex 0.
                        let seen = label.load(Ordering::Relaxed, Scope::Block);
                        if seen <= offered || seen - base < neighbor {
                            continue;
                        }
                        // Line 10.
                        if label.fetch_min(offered, Ordering::Relaxed, Scope::Block) <= offered {
                            continue;
                        }
                        // Lines 11–14.
                        if neighbor > through {
                            let marked = self
                                .fill
                                .atomic(first_vertex + neighbor as usize)
                                .fetch_max(mark, Ordering::Relaxed, Scope::Block);
                            if marked >= mark {
                                continue;
                            }
                            emit(src, neighbor);
                        }
                        // Lines 15–16.
                        if neighbor < src {
                            let bit = 1u32 << (neighbor & 31);
                            let before = self
                                .queued
                                .atomic(next_bits + (neighbor >> 5) as usize)
                                .fetch_or(bit, Ordering::Relaxed, Scope::Block);
                            if before & bit == 0 {
                                let at = self.state.atomic(next).fetch_add(
                                    1,
                                    Ordering::Relaxed,
                                    Scope::Block,
                                );
                                self.queues.set(next_queue + at as usize, neighbor);
                            }
                        }
                    }
                    f += groups;
                }
                thread::sync_threads();
                current = 1 - current;
                now = next;
            }
            finish(src);
        }
    }
}

/// Number of entries in each row of L+U, the diagonal included (stage one of the two):
/// `counts[src]` for every source that `next_source` hands out below `end_source`.
///
/// Threads: a block a source, taken from `next_source[0]` by atomic add; 2^`lanes_log2` neighbouring
/// threads share the neighbours of a frontier. Writes: a slot belongs to one block (see the module);
/// within it `max_id`, `fill`, `queued` and the queue length are atomic while threads compete, and
/// barriers order iterations and the plain writes at the start of a source. `counts[src]` is written
/// by thread 0 of the block that took `src`. Shared memory: 24 bytes.
///
/// `windows` is the number of windows of `max_id` that are used up before it is cleared; any from 1 to
/// [`max_windows`] gives the same result.
///
/// Launch: 1-D, as many blocks as there are slots. Preconditions: `n > 0`; rows hold distinct
/// columns below n; `next_source[0]` holds the first source; the contents of the slots do not matter.
#[kernel(
    max_threads(1024),
    require(
        n > 0,
        row_ptr.len() == n as usize + 1,
        counts.len() == n as usize,
        end_source <= u64::from(n),
        lanes_log2 <= 5,
        windows >= 1,
        windows <= max_windows(n),
        queues.len() == 2 * max_id.len(),
        fill.len() == max_id.len(),
        queued.len() == max_id.len() / n as usize * 2 * queued_words(n as usize)
    )
)]
pub unsafe fn fill2_count(
    n: u32,
    end_source: u64,
    lanes_log2: u32,
    windows: u32,
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    next_source: GlobalMut<u64>,
    max_id: GlobalMut<u32>,
    fill: GlobalMut<u32>,
    queues: GlobalMut<u32>,
    queued: GlobalMut<u32>,
    counts: GlobalMut<u32>,
) {
    let source = shared_array![u64; 1];
    let state = shared_array![u32; BLOCK_STATE];
    let traversal = Traversal {
        n,
        end_source,
        lanes_log2,
        windows,
        row_ptr,
        col_idx,
        next_source,
        max_id,
        fill,
        queues,
        queued,
        source,
        state,
    };
    let found = core::cell::Cell::new(0u32);
    traversal.run(
        |_, _| found.set(found.get() + 1),
        |src| {
            let mine = found.replace(0);
            if mine > 0 {
                state
                    .atomic(ROW_LEN)
                    .reduce_add(mine, Ordering::Relaxed, Scope::Block);
            }
            thread::sync_threads();
            if thread::thread_idx_x() == 0 {
                counts.set(src as usize, state.get(ROW_LEN));
            }
        },
    );
}

/// Columns of each row of L+U (stage two): `filled_idx[filled_ptr[src] ..]` for every source that
/// `next_source` hands out below `end_source`, in any order within the row.
///
/// Threads, slots and orders as in [`fill2_count`](fn@fill2_count). An entry's place in its row comes from an atomic
/// counter of the block, so each place of `filled_idx` has one writer.
///
/// Launch and preconditions as in [`fill2_count`](fn@fill2_count); `filled_ptr` is the exclusive prefix sum of its
/// counts.
#[kernel(
    max_threads(1024),
    require(
        n > 0,
        row_ptr.len() == n as usize + 1,
        filled_ptr.len() == n as usize + 1,
        end_source <= u64::from(n),
        lanes_log2 <= 5,
        windows >= 1,
        windows <= max_windows(n),
        queues.len() == 2 * max_id.len(),
        fill.len() == max_id.len(),
        queued.len() == max_id.len() / n as usize * 2 * queued_words(n as usize)
    )
)]
pub unsafe fn fill2_positions(
    n: u32,
    end_source: u64,
    lanes_log2: u32,
    windows: u32,
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    filled_ptr: Global<u64>,
    next_source: GlobalMut<u64>,
    max_id: GlobalMut<u32>,
    fill: GlobalMut<u32>,
    queues: GlobalMut<u32>,
    queued: GlobalMut<u32>,
    filled_idx: GlobalMut<u32>,
) {
    let source = shared_array![u64; 1];
    let state = shared_array![u32; BLOCK_STATE];
    let traversal = Traversal {
        n,
        end_source,
        lanes_log2,
        windows,
        row_ptr,
        col_idx,
        next_source,
        max_id,
        fill,
        queues,
        queued,
        source,
        state,
    };
    traversal.run(
        |src, column| {
            let at = state
                .atomic(ROW_LEN)
                .fetch_add(1, Ordering::Relaxed, Scope::Block);
            let place = filled_ptr.get(src as usize) + u64::from(at);
            filled_idx.set(place as usize, column);
        },
        // The counter is zeroed for the next source only behind this barrier.
        |_| thread::sync_threads(),
    );
}
