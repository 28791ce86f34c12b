//! Fill of L+U by rows: fill2 with every frontier of many sources in parallel (gSoFa, Figure 6).
//!
//! Row `src` of L+U holds j iff the graph of B has a path src → j whose inner vertices are all
//! smaller than min(src, j). For one source, `max_id(v)` is the smallest, over the paths src → v
//! walked so far, of the largest inner vertex of the path. A frontier v < src offers its neighbours
//! the path through itself, with m = max(v, max_id(v)); a neighbour takes it if m is below its own
//! `max_id`, is in the row if it is above m, and is a frontier again if it is below src. Vertices are
//! revisited until no `max_id` falls any more, so the result does not depend on the order of walks.
//!
//! # A batch
//!
//! A launch walks from a run of consecutive sources. Source number s of the batch has slot s:
//!
//! ```text
//! labels   a word for each vertex below the source that it may reach
//! queued   two bits for each label: in the queue of this, of the next iteration
//! above    a bit for each vertex above the source that it may reach: reached
//! slots    two u64 a slot: what to add to a vertex to find its label, and its bit of `above`
//! ```
//!
//! Slots lie one after another without gaps. A slot holds only vertices that its source can reach
//! (the bubbles of gSoFa, section 6, on both sides of the source): the caller knows bounds on those.
//!
//! **One array for `max_id` and `fill`.** The label of v is `base` if v was reached without inner
//! vertices, else `base + 1 + max_id(v)`; anything larger than `base + v` and yet in the window means
//! that v was reached but is not in the row, so v is in the row iff its label is at most `base + v`. A
//! label only falls, so exactly one `fetch_min` takes it from above `base + v` to there or below: the
//! thread that made it emits the entry, and no array `fill`, no atomic maximum on one, is needed. A
//! vertex above the source is in the row as soon as it is reached, for which a bit is enough.
//!
//! **Windows.** A label of a batch is in `base .. base + n`. The next batch takes a lower window, so
//! whatever earlier batches left in the words, of whichever slots, is larger than any label of its
//! own and means "not reached". The words are cleared once in ⌊(2³²−1)/n⌋ batches, wherever the slots
//! of the batches begin.
//!
//! **The combined frontier.** An entry is a vertex with its slot (the tracker), as `slot · 2³² + v`.
//! Entry k of a queue is on the device for k below the capacity there, else in the spill segment, at
//! k minus the capacity; if that has no room either, nowhere. The frontier of iteration 0 is the
//! sources themselves, which offer paths without inner vertices; it is not stored.
//!
//! **A queue has at most one entry a label.** A vertex enters the queue of the next iteration only by
//! the thread whose `fetch_or` turned its bit from 0 to 1. While that queue is filled none of its
//! bits is cleared: they are cleared only by the walk over it, in the next iteration, behind a
//! barrier. So the bits are the queue, and its places a list of those that are set: the frontier of an
//! iteration that entered more entries than there are places is read from the bits of all labels
//! instead, and nothing is ever lost. A vertex whose label falls twice in an iteration stands in the queue once,
//! and the walk, behind the barrier, reads the smaller label. When the last iteration finds no more
//! frontiers, all bits are zero again.
//!
//! **Work.** A warp takes up to 32 entries, adds up their degrees, and its lanes walk the concatenated
//! neighbours side by side, so that rows of few entries waste no lanes and those of many are read in
//! order. Each lane has a few edges under way at once, since a step of one mostly waits for memory.
//! Rows longer than a bound are left for the whole block. Most neighbours have what they are offered or better,
//! which one look at their label shows; the others are collected, and the atomics for them are done by full warps.
//! What a warp collects, for that, for the queue and for the log, is in shared memory: with an atomic for every
//! 32 edges, the one counter of a queue would bound the speed of the whole device.
//!
//! **Order.** Neighbours in the queue mostly belong to one source, and what they reach lies close together. Warps that
//! take them at the same time find it in the second-level cache, so a warp holds nothing back for longer than it
//! works on its 32 entries, and the parts of the queue are not handed out by a counter: G3_circuit took half as long
//! again with either.
//!
//! Cost of a source: the edges out of the vertices below it that it reaches, times the number of
//! times their `max_id` falls, and a barrier an iteration for the batch.

use luge_kernel::prelude::*;

use self::batch::entry_of;
use self::collect::{OFFERS, OUTBOX, Outbox};
use self::traversal::Traversal;
use crate::bits::lanes_below;

mod batch;
mod collect;
mod traversal;

/// Number of windows of n labels below the cleared value 2³²−1: ⌊(2³²−1)/n⌋ for n > 0.
pub const fn max_windows(n: u32) -> u32 {
    match u32::MAX.checked_div(n) {
        Some(windows) => windows,
        None => 0,
    }
}

/// Number of `u32` words of the two `queued` bitmaps for `labels` labels.
pub const fn queued_words(labels: usize) -> usize {
    2 * labels.div_ceil(32)
}

/// Words of `slots` for each slot.
pub const SLOT_WORDS: usize = 2;

/// Words of `control`: three queue lengths, then what follows.
pub const CONTROL_WORDS: usize = 8;

/// Word of `control` that counts iterations.
pub const CONTROL_ITERATIONS: usize = 3;

/// Word of `control` with the most entries that a queue held.
pub const CONTROL_PEAK: usize = 4;

/// Word of `control` that counts entries that stood in the spill segment, over all iterations.
pub const CONTROL_SPILLED: usize = 5;

/// Word of `control` that counts edges walked.
pub const CONTROL_EDGES: usize = 6;

/// Word of `control` that counts iterations whose queue had no room for all its entries.
pub const CONTROL_RESCANS: usize = 7;

/// Consecutive sources that go to one device; the next go to the next device (gSoFa, section 5, deals out as many).
pub const CHUNK: u32 = 128;

/// The source of that number among those of a device, the first of which is `offset`, with `stride` from the beginning of one
/// chunk to that of the next.
#[inlined]
pub fn source_of(number: u32, stride: u32, offset: u32) -> u32 {
    number / CHUNK * stride + offset + number % CHUNK
}

/// The end of a batch's sources.
pub fn end_of(first_source: u32, num_sources: u32, stride: u32, offset: u32) -> u64 {
    let end = u64::from(first_source) + u64::from(num_sources);
    match end.checked_sub(1) {
        Some(last) => {
            let chunk = u64::from(CHUNK);
            last / chunk * u64::from(stride) + u64::from(offset) + last % chunk + 1
        }
        None => 0,
    }
}

/// A batch of sources, and where their vertices are labelled.
#[derive(Clone, Copy, KernelArgs)]
pub struct Batch {
    /// Number of the first source, among those that the device was dealt.
    pub first_source: u32,
    /// Number of sources, which follow each other among those.
    pub num_sources: u32,
    /// From the beginning of each [`CHUNK`] of sources that the device was dealt to that of the next.
    pub stride: u32,
    /// The first of its sources.
    pub offset: u32,
    /// First label of the batch's window.
    pub base: u32,
    /// Offsets of the rows of B.
    pub row_ptr: Global<u64>,
    /// Column of each entry.
    pub col_idx: Global<u32>,
    /// [`SLOT_WORDS`] for each source.
    pub slots: Global<u64>,
    /// A word for each vertex below its source.
    pub labels: GlobalMut<u32>,
    /// A bit for each vertex above its source.
    pub above: GlobalMut<u32>,
    /// Frontiers.
    pub queue: GlobalMut<u64>,
    /// Frontiers that have no place in `queue`, in the host's memory.
    pub spill: GlobalMut<u64>,
}

/// What a grid that walks from all sources at once needs beside the batch.
#[derive(Clone, Copy, KernelArgs)]
pub struct Frontiers {
    /// Not zero: looks if a vertex is in the row before it is offered a path.
    pub fill_first: u32,
    /// Longest row that a warp walks together with others.
    pub long_row: u32,
    /// Two bits for each label: [`queued_words`].
    pub queued: GlobalMut<u32>,
    /// [`CONTROL_WORDS`].
    pub control: GlobalMut<u64>,
    /// The grid's barrier.
    pub barrier: GlobalMut<u32>,
}

/// What an entry without neighbours offers: larger than any label of a window.
const NO_OFFER: u32 = u32::MAX;

/// Warps of a block, at most.
const MAX_WARPS: usize = 8;

/// Entries of rows longer than the bound that a block sets aside in an iteration; a warp walks what
/// is beyond that alone.
const LONG_ROWS: usize = 64;

/// Longest row that may be walked with others: 32 of them add up to less than 2³².
///
/// Size classes: rows that are walked with others, by a warp alone because `LONG_ROWS` are set aside already, and by a
/// block; queues with room for all frontiers, with some in the spill segment, and found by their bits; each run by the
/// shapes of `fill2_count_matches_reference` and `fill2_positions_matches_reference` in `tests/tests/symbolic.rs`.
pub const MAX_LONG_ROW: u32 = 1 << 26;

/// Number of entries in each row of L+U, the diagonal included (stage one of the two): added to
/// `counts[src]` for the sources of the batch. If `log` has room, the entries
/// themselves are put there too, as `src · 2³² + column` from word 1 on in any order, and word 0
/// counts them; those for which there is no room are counted and dropped.
///
/// Threads: a persistent grid; see the module for how warps and blocks share the frontier. Writes:
/// `labels`, `queued`, `above`, `counts` and queue lengths by relaxed atomics; a queue entry and a
/// place of `log` by the thread that an atomic counter gave it, and the grid barrier orders writing
/// an entry before reading it; `control` but for the queue being filled by thread 0 of the grid.
/// Shared memory: 41 KiB.
///
/// Launch: cooperative, 1-D, a multiple of 32 threads a block. Preconditions: rows hold distinct
/// columns below the order of the matrix; for slot s and each vertex v that its source ([`source_of`]
/// number `first_source + s`) may reach, `slots[2s] + v` (modulo 2⁶⁴) is a place of `labels` if v is below the
/// source, `slots[2s+1] + v` a bit of `above` if it is above it, and no two vertices share one, those of
/// later slots come behind; words
/// of `labels` are at least `base` plus the order; `queued`, `above`, `control` and `barrier` are zero.
#[kernel(
    max_threads(256),
    min_blocks(3),
    require(
        end_of(batch.first_source, batch.num_sources, batch.stride, batch.offset) < batch.row_ptr.len() as u64,
        u64::from(batch.base) + batch.row_ptr.len() as u64 <= u64::from(u32::MAX) + 1,
        frontiers.long_row <= MAX_LONG_ROW,
        counts.len() + 1 == batch.row_ptr.len(),
        batch.slots.len() >= SLOT_WORDS * batch.num_sources as usize,
        frontiers.queued.len() >= queued_words(batch.labels.len()),
        frontiers.control.len() >= CONTROL_WORDS,
        frontiers.barrier.len() >= 1
    )
)]
pub unsafe fn fill2_count(
    batch: Batch,
    frontiers: Frontiers,
    counts: GlobalMut<u32>,
    log: GlobalMut<u64>,
) {
    let offers = (
        shared_array![u64; OFFERS * MAX_WARPS],
        shared_array![u32; OFFERS * MAX_WARPS],
    );
    let outboxes = shared_array![u64; OUTBOX * MAX_WARPS];
    let logs = shared_array![u64; OUTBOX * MAX_WARPS];
    let long_entries = shared_array![u64; LONG_ROWS];
    let num_long = shared_array![u32; 1];
    let traversal = Traversal {
        batch,
        frontiers,
        offers,
        outboxes,
        long_entries,
        num_long,
    };
    let write = |at: u64, entry: u64| {
        if at + 1 < log.len() as u64 {
            log.set(at as usize + 1, entry);
        }
    };
    let mut logged = Outbox::new(logs);
    traversal.run(&mut |finds, found, src, column| {
        let mine = finds & warp::match_any(warp::FULL_MASK, src);
        if found && mine.trailing_zeros() == thread::lane_id() {
            counts.atomic(src as usize).reduce_add(
                mine.count_ones(),
                Ordering::Relaxed,
                Scope::Device,
            );
        }
        if log.len() > 1 {
            if !logged.has_room(finds.count_ones()) {
                logged.empty((log, 0), write);
            }
            logged.add(finds, found, entry_of(src, column));
        }
    });
    logged.empty((log, 0), write);
}

/// Columns of each row of L+U (stage two): `filled_idx[filled_ptr[src] ..]` for the sources of the
/// batch, in any order within the row.
///
/// Threads, slots and orders as in [`fill2_count`](fn@fill2_count). An entry's place in its row comes
/// from `taken[src]`, an atomic counter that is zero at first, so each place of `filled_idx` has one
/// writer.
///
/// Launch and preconditions as in [`fill2_count`](fn@fill2_count); `filled_ptr` is the exclusive prefix
/// sum of its counts.
#[kernel(
    max_threads(256),
    min_blocks(3),
    require(
        end_of(batch.first_source, batch.num_sources, batch.stride, batch.offset) < batch.row_ptr.len() as u64,
        u64::from(batch.base) + batch.row_ptr.len() as u64 <= u64::from(u32::MAX) + 1,
        frontiers.long_row <= MAX_LONG_ROW,
        taken.len() + 1 == batch.row_ptr.len(),
        filled_ptr.len() == batch.row_ptr.len(),
        batch.slots.len() >= SLOT_WORDS * batch.num_sources as usize,
        frontiers.queued.len() >= queued_words(batch.labels.len()),
        frontiers.control.len() >= CONTROL_WORDS,
        frontiers.barrier.len() >= 1
    )
)]
pub unsafe fn fill2_positions(
    batch: Batch,
    frontiers: Frontiers,
    filled_ptr: Global<u64>,
    taken: GlobalMut<u32>,
    filled_idx: GlobalMut<u32>,
) {
    let offers = (
        shared_array![u64; OFFERS * MAX_WARPS],
        shared_array![u32; OFFERS * MAX_WARPS],
    );
    let outboxes = shared_array![u64; OUTBOX * MAX_WARPS];
    let long_entries = shared_array![u64; LONG_ROWS];
    let num_long = shared_array![u32; 1];
    let traversal = Traversal {
        batch,
        frontiers,
        offers,
        outboxes,
        long_entries,
        num_long,
    };
    traversal.run(&mut |finds, found, src, column| {
        let lane = thread::lane_id();
        let mine = finds & warp::match_any(warp::FULL_MASK, src);
        let leader = if found { mine.trailing_zeros() } else { lane };
        let mut first = 0u32;
        if found && leader == lane {
            first = taken.atomic(src as usize).fetch_add(
                mine.count_ones(),
                Ordering::Relaxed,
                Scope::Device,
            );
        }
        let first = warp::shuffle(warp::FULL_MASK, first, leader);
        if found {
            let at = first + (mine & lanes_below()).count_ones();
            let place = filled_ptr.get(src as usize) + u64::from(at);
            filled_idx.set(place as usize, column);
        }
    });
}

/// Puts the `num_entries` entries of the log of [`fill2_count`](fn@fill2_count) in their rows:
/// `filled_idx[filled_ptr[src] ..]`, in any order within the row.
///
/// Threads: one an entry, grid-strided by warps. Writes: places from `taken[src]`, an atomic counter
/// that is zero at first, one atomic for the lanes of a warp with the same row; each place of
/// `filled_idx` has one writer. Shared memory: none. Launch: 1-D, a multiple of 32 threads a block.
/// Preconditions: the first `num_entries` entries of the log are written, their rows below the
/// length of `taken`; `filled_ptr` is the exclusive prefix sum of the counts.
#[kernel(
    max_threads(1024),
    require(
        num_entries < log.len() as u64 || num_entries == 0,
        filled_ptr.len() == taken.len() + 1
    )
)]
pub unsafe fn fill2_place(
    num_entries: u64,
    log: Global<u64>,
    filled_ptr: Global<u64>,
    taken: GlobalMut<u32>,
    filled_idx: GlobalMut<u32>,
) {
    let lane = thread::lane_id();
    let mut begin = u64::from(thread::index_1d() - lane);
    while begin < num_entries {
        let at = begin + u64::from(lane);
        let valid = at < num_entries;
        let entry = if valid {
            log.get(1 + at as usize)
        } else {
            u64::MAX
        };
        // No row is 2³²−1: n is below that.
        let row = (entry >> 32) as u32;
        let peers = warp::match_any(warp::FULL_MASK, row);
        let leader = peers.trailing_zeros();
        let mut first = 0u32;
        if valid && leader == lane {
            first = taken.atomic(row as usize).fetch_add(
                peers.count_ones(),
                Ordering::Relaxed,
                Scope::Device,
            );
        }
        let first = warp::shuffle(warp::FULL_MASK, first, leader);
        if valid {
            let place = first + (peers & lanes_below()).count_ones();
            let place = filled_ptr.get(row as usize) + u64::from(place);
            filled_idx.set(place as usize, entry as u32);
        }
        begin += u64::from(thread::num_threads_1d());
    }
}

/// As [`fill2_count`](fn@fill2_count), by the sequential fill2 without fine-grained parallelism, which
/// gSoFa (section 7) compares itself with: `counts[src]` for each source of the
/// batch.
///
/// Threads: one a source, grid-strided. Writes: a slot and `counts[src]` by the thread of the
/// source; `above` by atomics, since slots share its words. No thread waits for another. Shared
/// memory: none. Launch: 1-D, any size. Preconditions as there, for what is passed; the labels of
/// slots lie one after another from place 0 on, in order of their vertices.
#[kernel(
    max_threads(256),
    min_blocks(4),
    require(
        end_of(batch.first_source, batch.num_sources, batch.stride, batch.offset) < batch.row_ptr.len() as u64,
        counts.len() + 1 == batch.row_ptr.len(),
        batch.slots.len() >= SLOT_WORDS * batch.num_sources as usize,
        batch.queue.len() / 2 + batch.spill.len() / 2 >= batch.labels.len()
    )
)]
pub unsafe fn fill2_count_coarse(batch: Batch, counts: GlobalMut<u32>) {
    for slot in thread::grid_stride(batch.num_sources as usize) {
        let mut count = 0u32;
        batch.thresholds(slot as u32, |_| count += 1);
        counts.set(batch.source(slot as u32) as usize, count);
    }
}

/// As [`fill2_positions`](fn@fill2_positions), by the sequential fill2: the columns of row src at
/// `filled_idx[filled_ptr[src] ..]`.
///
/// Threads, writes and preconditions as in [`fill2_count_coarse`](fn@fill2_count_coarse); the thread
/// of a source writes its row. `filled_ptr` is the exclusive prefix sum of the counts.
#[kernel(
    max_threads(256),
    min_blocks(4),
    require(
        end_of(batch.first_source, batch.num_sources, batch.stride, batch.offset) < batch.row_ptr.len() as u64,
        filled_ptr.len() == batch.row_ptr.len(),
        batch.slots.len() >= SLOT_WORDS * batch.num_sources as usize,
        batch.queue.len() / 2 + batch.spill.len() / 2 >= batch.labels.len()
    )
)]
pub unsafe fn fill2_positions_coarse(
    batch: Batch,
    filled_ptr: Global<u64>,
    filled_idx: GlobalMut<u32>,
) {
    for slot in thread::grid_stride(batch.num_sources as usize) {
        let mut place = filled_ptr.get(batch.source(slot as u32) as usize);
        batch.thresholds(slot as u32, |column| {
            filled_idx.set(place as usize, column);
            place += 1;
        });
    }
}
