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
//! Rows longer than a bound are left for the whole block. Entries for the queue and the log are collected
//! by each warp in shared memory: with an atomic for every 32 edges, the one counter would bound the speed of
//! the whole device.
//!
//! Cost of a source: the edges out of the vertices below it that it reaches, times the number of
//! times their `max_id` falls, and a barrier an iteration for the batch.

use luge_kernel::prelude::*;

use crate::grid::GridBarrier;

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

/// What an entry without neighbours offers: larger than any label of a window.
const NO_OFFER: u32 = u32::MAX;

/// Warps of a block, at most.
const MAX_WARPS: usize = 8;

/// Entries of rows longer than the bound that a block sets aside in an iteration; a warp walks what
/// is beyond that alone.
const LONG_ROWS: usize = 64;

/// Longest row that may be walked with others: 32 of them add up to less than 2³².
pub const MAX_LONG_ROW: u32 = 1 << 26;

/// A frontier entry.
#[inline(always)]
fn entry_of(slot: u32, vertex: u32) -> u64 {
    (u64::from(slot) << 32) | u64::from(vertex)
}

/// Lanes below `lane`.
#[inline(always)]
fn lanes_below(lane: u32) -> u32 {
    (1u32 << lane) - 1
}

/// The set bit of `word` with `rank` set bits below it; there is one.
#[inline(always)]
fn nth_bit(word: u32, rank: u32) -> u32 {
    let (mut bit, mut left) = (0u32, rank);
    let mut half = 16;
    while half > 0 {
        let below = ((word >> bit) & ((1 << half) - 1)).count_ones();
        if left >= below {
            left -= below;
            bit += half;
        }
        half >>= 1;
    }
    bit
}

/// Sum of `value` over the lanes of a warp up to the own. Every lane calls it.
#[inline(always)]
fn inclusive_sum(value: u32) -> u32 {
    let lane = thread::lane_id();
    let mut sum = value;
    let mut distance = 1;
    while distance < warp::WARP_SIZE {
        let below = warp::shuffle_up(warp::FULL_MASK, sum, distance);
        if lane >= distance {
            sum += below;
        }
        distance *= 2;
    }
    sum
}

/// The set bits of consecutive words, a word a lane, which a warp takes 32 at a time.
#[derive(Clone, Copy)]
struct Bits {
    /// Place of the first bit of the first word.
    first: u64,
    own: u32,
    /// Bits of the words up to the own, of all words, and taken so far.
    up_to: u32,
    total: u32,
    taken: u32,
}

impl Bits {
    const NONE: Self = Self {
        first: 0,
        own: 0,
        up_to: 0,
        total: 0,
        taken: 0,
    };

    /// Those of the words that the lanes hold. Every lane of the warp calls it.
    #[inline(always)]
    fn of(own: u32, first: u64) -> Self {
        let up_to = inclusive_sum(own.count_ones());
        Self {
            first,
            own,
            up_to,
            total: warp::shuffle(warp::FULL_MASK, up_to, 31),
            taken: 0,
        }
    }

    #[inline(always)]
    fn is_done(&self) -> bool {
        self.taken >= self.total
    }

    /// For the first lanes, as many as there are bits left: that, and the place of one. Every lane of the warp
    /// calls it.
    #[inline(always)]
    fn next(&mut self) -> (bool, u64) {
        let rank = self.taken + thread::lane_id();
        self.taken += warp::WARP_SIZE;
        // The first word up to which there are more bits than that.
        let mut holder = 0;
        let mut half = warp::WARP_SIZE / 2;
        while half > 0 {
            if warp::shuffle(warp::FULL_MASK, self.up_to, holder + half - 1) <= rank {
                holder += half;
            }
            half >>= 1;
        }
        let word = warp::shuffle(warp::FULL_MASK, self.own, holder);
        let before = warp::shuffle(warp::FULL_MASK, self.up_to - self.own.count_ones(), holder);
        if rank >= self.total {
            return (false, 0);
        }
        let bit = 32 * holder + nth_bit(word, rank - before);
        (true, self.first + u64::from(bit))
    }
}

/// What the kernels are given.
#[derive(Clone, Copy)]
struct Batch {
    first_source: u32,
    num_sources: u32,
    base: u32,
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    slots: Global<u64>,
    labels: GlobalMut<u32>,
    above: GlobalMut<u32>,
    queue: GlobalMut<u64>,
    spill: GlobalMut<u64>,
}

impl Batch {
    /// Place in `labels` of vertex `v` of a slot.
    #[inline(always)]
    fn label(self, slot: u32, v: u32) -> usize {
        self.slots
            .get(SLOT_WORDS * slot as usize)
            .wrapping_add(u64::from(v)) as usize
    }

    /// Bit in `above` of vertex `v` of a slot.
    #[inline(always)]
    fn mark(self, slot: u32, v: u32) -> u64 {
        self.slots
            .get(SLOT_WORDS * slot as usize + 1)
            .wrapping_add(u64::from(v))
    }

    /// Entry `at` of the queue of which the first `capacity` entries are at `device`, the others at
    /// `host`.
    #[inline(always)]
    fn entry(self, capacity: u64, device: u64, host: u64, at: u64) -> u64 {
        if at < capacity {
            self.queue.get((device + at) as usize)
        } else {
            self.spill.get((host + at - capacity) as usize)
        }
    }

    /// Writes that entry, if it has a place.
    #[inline(always)]
    fn put(self, capacity: u64, device: u64, host: u64, at: u64, entry: u64) {
        if at < capacity {
            self.queue.set((device + at) as usize, entry);
        } else if at - capacity < self.spill.len() as u64 / 2 {
            self.spill.set((host + at - capacity) as usize, entry);
        }
    }

    /// The entry whose label is at `place`.
    #[inline(always)]
    fn entry_at(self, place: u64) -> u64 {
        // The labels of a slot end where that of its source would be: the first slot that ends behind the place.
        let (mut slot, mut len) = (0u32, self.num_sources);
        while len > 0 {
            let half = len >> 1;
            let middle = slot + half;
            if self.label(middle, self.first_source + middle) as u64 <= place {
                slot = middle + 1;
                len -= half + 1;
            } else {
                len = half;
            }
        }
        let first = self.slots.get(SLOT_WORDS * slot as usize);
        entry_of(slot, place.wrapping_sub(first) as u32)
    }
}

/// What the parallel traversal needs beside the batch.
#[derive(Clone, Copy)]
struct Traversal {
    batch: Batch,
    /// Whether to look if a vertex is in the row before it is offered a path.
    fill_first: bool,
    /// Longest row that a warp walks together with others.
    long_row: u32,
    queued: GlobalMut<u32>,
    control: GlobalMut<u64>,
    barrier: GlobalMut<u32>,
    /// New frontiers, for the [`Outbox`] of each warp.
    outboxes: Shared<u64>,
    /// Entries of long rows that the block has set aside, and how many.
    long_entries: Shared<u64>,
    num_long: Shared<u32>,
}

/// Where an iteration puts frontiers.
#[derive(Clone, Copy)]
struct Next {
    /// Word of `control` with the length of the queue.
    len: usize,
    capacity: u64,
    device: u64,
    host: u64,
    /// First word of the queue's `queued` bits.
    bits: usize,
}

/// An edge that a lane walks: what the frontier at its tail offers the vertex at its head.
#[derive(Clone, Copy)]
struct Edge {
    slot: u32,
    /// [`NO_OFFER`]: the lane has no edge.
    offered: u32,
    head: u32,
}

impl Edge {
    const NONE: Self = Self {
        slot: 0,
        offered: NO_OFFER,
        head: 0,
    };
}

/// Edges that a lane walks at once: while the memory answers a step for the first of them, it is asked for the
/// same step for the others.
const AHEAD: usize = 4;

/// Entries that a warp collects.
const OUTBOX: usize = 32 * AHEAD;

/// What a warp collects, to hand it on with one atomic: its part of the block's shared memory, and how much of
/// that is filled, the same in all lanes.
struct Outbox {
    entries: Shared<u64>,
    start: usize,
    len: u32,
}

impl Outbox {
    /// The empty one of this warp in `entries`, which has [`OUTBOX`] for each warp of the block.
    #[inline(always)]
    fn new(entries: Shared<u64>) -> Self {
        Self {
            entries,
            start: OUTBOX * (thread::thread_idx_x() / warp::WARP_SIZE) as usize,
            len: 0,
        }
    }

    #[inline(always)]
    fn has_room(&self, more: u32) -> bool {
        self.len + more <= OUTBOX as u32
    }

    /// Takes the entries of the `lanes` of the warp; there is room. All lanes call it together, `is_mine` in
    /// those.
    #[inline(always)]
    fn add(&mut self, lanes: u32, is_mine: bool, entry: u64) {
        if is_mine {
            let at = self.len + (lanes & lanes_below(thread::lane_id())).count_ones();
            self.entries.set(self.start + at as usize, entry);
        }
        self.len += lanes.count_ones();
    }

    /// Empties it: `take(k, entry)` for each entry, k from the old value of a counter on, which grows by their
    /// number. All lanes of the warp call it together.
    #[inline(always)]
    fn empty(&mut self, (counters, counter): (GlobalMut<u64>, usize), take: impl Fn(u64, u64)) {
        if self.len == 0 {
            return;
        }
        let lane = thread::lane_id();
        let mut first = 0u64;
        if lane == 0 {
            first = counters.atomic(counter).fetch_add(
                u64::from(self.len),
                Ordering::Relaxed,
                Scope::Device,
            );
        }
        let first = warp::shuffle(warp::FULL_MASK, first, 0);
        // Lanes read what others wrote, and later write where others read.
        warp::sync_warp(warp::FULL_MASK);
        let mut i = lane;
        while i < self.len {
            take(
                first + u64::from(i),
                self.entries.get(self.start + i as usize),
            );
            i += warp::WARP_SIZE;
        }
        warp::sync_warp(warp::FULL_MASK);
        self.len = 0;
    }
}

impl Traversal {
    /// The label that a frontier offers its neighbours; the source itself offers `base`.
    #[inline(always)]
    fn offered(self, slot: u32, v: u32) -> u32 {
        if v == self.batch.first_source + slot {
            return self.batch.base;
        }
        let label = self
            .batch
            .labels
            .atomic(self.batch.label(slot, v))
            .load(Ordering::Relaxed, Scope::Device);
        let own = self.batch.base + 1 + v;
        if label > own { label } else { own }
    }

    /// Walks [`AHEAD`] edges a lane; all lanes of the warp call it together. Heads take the offered paths; a head
    /// that thereby comes into the row is handed to `emit`, one that is to be a frontier again goes into the
    /// `outbox`.
    #[inline(always)]
    fn walk(
        self,
        edges: [Edge; AHEAD],
        next: Next,
        outbox: &mut Outbox,
        emit: &mut impl FnMut(u32, bool, u32, u32),
    ) {
        let Batch {
            base,
            labels,
            above,
            first_source,
            ..
        } = self.batch;
        // The place of the head's label, or of its bit of `above`, and the last that was read there.
        let mut places = [0u64; AHEAD];
        let mut words = [0u32; AHEAD];
        let mut found = [false; AHEAD];
        let mut push = [false; AHEAD];
        let bit_of = |place: u64| 1u32 << (place & 31);
        let mut k = 0;
        while k < AHEAD {
            let Edge {
                slot,
                offered,
                head,
            } = edges[k];
            let src = first_source + slot;
            // The source is no entry of its own traversal; the diagonal is emitted apart.
            if offered != NO_OFFER && head != src {
                if head < src {
                    push[k] = true;
                    places[k] = self.batch.label(slot, head) as u64;
                    let label = labels.atomic(places[k] as usize);
                    words[k] = label.load(Ordering::Relaxed, Scope::Device);
                } else {
                    found[k] = true;
                    places[k] = self.batch.mark(slot, head);
                    let word = above.atomic((places[k] >> 5) as usize);
                    words[k] = word.load(Ordering::Relaxed, Scope::Device);
                }
            }
            k += 1;
        }
        let mut k = 0;
        while k < AHEAD {
            let Edge { offered, head, .. } = edges[k];
            if push[k] {
                push[k] = words[k] > offered && !(self.fill_first && words[k] <= base + head);
                if push[k] {
                    let label = labels.atomic(places[k] as usize);
                    words[k] = label.fetch_min(offered, Ordering::Relaxed, Scope::Device);
                }
            } else if found[k] {
                found[k] = words[k] & bit_of(places[k]) == 0;
                if found[k] {
                    let word = above.atomic((places[k] >> 5) as usize);
                    words[k] = word.fetch_or(bit_of(places[k]), Ordering::Relaxed, Scope::Device);
                }
            }
            k += 1;
        }
        let mut k = 0;
        while k < AHEAD {
            let Edge { offered, head, .. } = edges[k];
            if push[k] {
                let in_row = base + head;
                // A vertex in the row offers the same whatever its label: it is no frontier again.
                push[k] = words[k] > offered && words[k] > in_row;
                if push[k] {
                    found[k] = offered <= in_row;
                    let word = self.queued.atomic(next.bits + (places[k] >> 5) as usize);
                    words[k] = word.fetch_or(bit_of(places[k]), Ordering::Relaxed, Scope::Device);
                }
            } else {
                found[k] &= words[k] & bit_of(places[k]) == 0;
            }
            k += 1;
        }

        let mut pushes = [0u32; AHEAD];
        let mut total = 0u32;
        let mut k = 0;
        while k < AHEAD {
            push[k] &= words[k] & bit_of(places[k]) == 0;
            pushes[k] = warp::ballot(warp::FULL_MASK, push[k]);
            total += pushes[k].count_ones();
            k += 1;
        }
        if !outbox.has_room(total) {
            self.send(next, outbox);
        }
        let mut k = 0;
        while k < AHEAD {
            let Edge { slot, head, .. } = edges[k];
            outbox.add(pushes[k], push[k], entry_of(slot, head));
            k += 1;
        }
        let mut any = 0u32;
        let mut k = 0;
        while k < AHEAD {
            any |= (found[k] as u32) << k;
            k += 1;
        }
        // Not unrolled, and few edges find anything.
        let mut all = warp::reduce_or(warp::FULL_MASK, any);
        while all != 0 {
            let k = all.trailing_zeros();
            all &= all - 1;
            let is_mine = (any >> k) & 1 != 0;
            let finds = warp::ballot(warp::FULL_MASK, is_mine);
            let (mut slot, mut head) = (edges[0].slot, edges[0].head);
            let mut i = 1;
            while i < AHEAD {
                if i as u32 == k {
                    (slot, head) = (edges[i].slot, edges[i].head);
                }
                i += 1;
            }
            emit(finds, is_mine, first_source + slot, head);
        }
    }

    /// Puts what is in the outbox of a warp in the next queue; all its lanes call it together.
    #[inline(always)]
    fn send(self, next: Next, outbox: &mut Outbox) {
        let Next {
            capacity,
            device,
            host,
            ..
        } = next;
        outbox.empty((self.control, next.len), |at, entry| {
            self.batch.put(capacity, device, host, at, entry);
        });
    }

    /// Walks the row of an entry with `width` threads, of which this is number `rank`; all lanes of
    /// the warp call it together.
    #[inline(always)]
    fn walk_row(
        self,
        entry: u64,
        (rank, width): (u32, u32),
        next: Next,
        outbox: &mut Outbox,
        emit: &mut impl FnMut(u32, bool, u32, u32),
    ) {
        let (slot, v) = ((entry >> 32) as u32, entry as u32);
        let offered = self.offered(slot, v);
        let mut p = self.batch.row_ptr.get(v as usize);
        let end = self.batch.row_ptr.get(v as usize + 1);
        // The last edges of the row do not come to all lanes.
        while p + u64::from(rank - thread::lane_id()) < end {
            let mut edges = [Edge::NONE; AHEAD];
            let mut k = 0;
            while k < AHEAD {
                let at = p + u64::from(rank);
                if at < end {
                    edges[k] = Edge {
                        slot,
                        offered,
                        head: self.batch.col_idx.get(at as usize),
                    };
                }
                p += u64::from(width);
                k += 1;
            }
            self.walk(edges, next, outbox, emit);
        }
    }

    /// Walks from all sources of the batch. `emit(finds, found, src, j)` is called by all lanes of a warp
    /// together, `found` in the lanes `finds`, of which at least one; those have found entry (src, j) of L+U,
    /// each entry once.
    #[inline(always)]
    fn run(self, emit: &mut impl FnMut(u32, bool, u32, u32)) {
        let Batch {
            first_source,
            num_sources,
            row_ptr,
            col_idx,
            ..
        } = self.batch;
        let capacity = self.batch.queue.len() as u64 / 2;
        let spill = self.batch.spill.len() as u64 / 2;
        let words = self.queued.len() / 2;
        let lane = thread::lane_id();
        let tid = thread::thread_idx_x();
        let warps = u64::from(thread::num_threads_1d() / warp::WARP_SIZE);
        let warp = u64::from(thread::index_1d() / warp::WARP_SIZE);
        let counts = thread::index_1d() == 0;
        let mut grid = GridBarrier::new(self.barrier);
        let mut outbox = Outbox::new(self.outboxes);
        if tid == 0 {
            self.num_long.set(0, 0);
        }
        thread::sync_threads();

        let (mut iterations, mut peak, mut spilled, mut rescans) = (0u64, 0u64, 0u64, 0u64);
        let mut edges = 0u64;
        let mut len = u64::from(num_sources);
        // Queue lengths: iteration i reads word i % 3 of `control`, adds to word (i+1) % 3, and zeroes
        // word (i+2) % 3, which was last read in iteration i−1 and is next added to in iteration
        // i+1: one barrier apart each.
        let mut now = 0usize;
        let mut parity = 0u64;
        while len > 0 {
            let sources = iterations == 0;
            // Not all entries have a place: read them from their bits.
            let by_bits = !sources && len > capacity + spill;
            let after = if now == 0 { 2 } else { now - 1 };
            let next = Next {
                len: if now == 2 { 0 } else { now + 1 },
                capacity,
                device: (1 - parity) * capacity,
                host: (1 - parity) * spill,
                bits: (1 - parity) as usize * words,
            };
            let this_device = parity * capacity;
            let this_host = parity * spill;
            let this_bits = parity as usize * words;
            if counts {
                self.control.set(after, 0);
                if !sources {
                    peak = if len > peak { len } else { peak };
                    if by_bits {
                        rescans += 1;
                    } else {
                        spilled += len.saturating_sub(capacity);
                    }
                }
            }

            // Entries that a warp takes at once, or words of bits: fewer than 32 if there is not that much for
            // all.
            let items = if by_bits { words as u64 } else { len };
            let take = match (items + warps - 1).checked_div(warps) {
                Some(share) if share < 32 => share,
                _ => 32,
            };
            let mut begin = warp * take;
            let mut words_of = Bits::NONE;
            loop {
                let (mut entry, mut active) = (0u64, false);
                if by_bits {
                    if words_of.is_done() {
                        if begin >= items {
                            break;
                        }
                        let at = begin + u64::from(lane);
                        let mut own = 0;
                        if u64::from(lane) < take && at < items {
                            // Nobody else reads or sets the bits of this queue now.
                            let word = self.queued.atomic(this_bits + at as usize);
                            own = word.load(Ordering::Relaxed, Scope::Device);
                            if own != 0 {
                                word.store(0, Ordering::Relaxed, Scope::Device);
                            }
                        }
                        words_of = Bits::of(own, 32 * begin);
                        begin += warps * take;
                        if words_of.is_done() {
                            continue;
                        }
                    }
                    let place;
                    (active, place) = words_of.next();
                    if active {
                        entry = self.batch.entry_at(place);
                    }
                } else {
                    if begin >= items {
                        break;
                    }
                    let at = begin + u64::from(lane);
                    begin += warps * take;
                    if u64::from(lane) < take && at < items {
                        active = true;
                        entry = if sources {
                            entry_of(at as u32, first_source + at as u32)
                        } else {
                            self.batch.entry(capacity, this_device, this_host, at)
                        };
                    }
                }
                let (mut start, mut degree, mut offered) = (0u64, 0u32, NO_OFFER);
                let mut alone = false;
                if active {
                    let (slot, v) = ((entry >> 32) as u32, entry as u32);
                    if !sources && !by_bits {
                        // Every vertex with a bit in this word is in this queue and is walked in this
                        // iteration, and nobody sets or reads its bits: zero the word whole.
                        let word = this_bits + (self.batch.label(slot, v) >> 5);
                        self.queued
                            .atomic(word)
                            .store(0, Ordering::Relaxed, Scope::Device);
                    }
                    start = row_ptr.get(v as usize);
                    let row_len = row_ptr.get(v as usize + 1) - start;
                    if row_len > u64::from(self.long_row) {
                        let place =
                            self.num_long
                                .atomic(0)
                                .fetch_add(1, Ordering::Relaxed, Scope::Block)
                                as usize;
                        alone = place >= LONG_ROWS;
                        if !alone {
                            self.long_entries.set(place, entry);
                        }
                    } else {
                        degree = row_len as u32;
                        if degree > 0 {
                            offered = self.offered(slot, v);
                        }
                    }
                    edges += row_len;
                }
                if sources {
                    let found = warp::ballot(warp::FULL_MASK, active);
                    emit(found, active, entry as u32, entry as u32);
                }

                // The neighbours of all entries, one row after another. An entry without any takes
                // one place all the same, so that every row begins at a place of its own.
                let places = if active && degree == 0 { 1 } else { degree };
                let sum = inclusive_sum(places);
                let total = warp::shuffle(warp::FULL_MASK, sum, 31);
                let first = sum - places;
                let mut rows_before = 0u32;
                let mut window = 0u32;
                while window < total {
                    let mut heads = [Edge::NONE; AHEAD];
                    let mut k = 0;
                    while k < AHEAD {
                        if window < total {
                            let begins = active && first >= window && first - window < 32;
                            let bit = if begins { 1u32 << (first - window) } else { 0 };
                            let begins = warp::reduce_or(warp::FULL_MASK, bit);
                            let up_to = begins & (u32::MAX >> (31 - lane));
                            // Row r of those that begin up to here is that of lane r.
                            let owner = rows_before + up_to.count_ones() - 1;
                            rows_before += begins.count_ones();

                            let place = window + lane;
                            let shift = warp::shuffle(
                                warp::FULL_MASK,
                                start.wrapping_sub(first.into()),
                                owner,
                            );
                            let offer = (entry & !u64::from(u32::MAX)) | u64::from(offered);
                            let offer = warp::shuffle(warp::FULL_MASK, offer, owner);
                            let (slot, offered) = ((offer >> 32) as u32, offer as u32);
                            if place < total && offered != NO_OFFER {
                                heads[k] = Edge {
                                    slot,
                                    offered,
                                    head: col_idx.get(shift.wrapping_add(place.into()) as usize),
                                };
                            }
                        }
                        window += 32;
                        k += 1;
                    }
                    self.walk(heads, next, &mut outbox, emit);
                }
                let mut left = warp::ballot(warp::FULL_MASK, alone);
                while left != 0 {
                    let long = warp::shuffle(warp::FULL_MASK, entry, left.trailing_zeros());
                    self.walk_row(long, (lane, warp::WARP_SIZE), next, &mut outbox, emit);
                    left &= left - 1;
                }
            }

            // The long rows, by the whole block.
            thread::sync_threads();
            let set_aside = self.num_long.get(0) as usize;
            if set_aside > 0 {
                let width = thread::block_dim_x();
                let mut i = 0;
                while i < set_aside && i < LONG_ROWS {
                    let long = self.long_entries.get(i);
                    self.walk_row(long, (tid, width), next, &mut outbox, emit);
                    i += 1;
                }
                thread::sync_threads();
                if tid == 0 {
                    self.num_long.set(0, 0);
                }
            }
            self.send(next, &mut outbox);
            grid.wait();
            now = next.len;
            parity = 1 - parity;
            iterations += 1;
            len = self.control.get(now);
        }

        let mut distance = warp::WARP_SIZE / 2;
        while distance > 0 {
            edges += warp::shuffle_xor(warp::FULL_MASK, edges, distance);
            distance /= 2;
        }
        if lane == 0 {
            self.control
                .atomic(CONTROL_EDGES)
                .reduce_add(edges, Ordering::Relaxed, Scope::Device);
        }
        if counts {
            self.control.set(CONTROL_ITERATIONS, iterations);
            self.control.set(CONTROL_PEAK, peak);
            self.control.set(CONTROL_SPILLED, spilled);
            self.control.set(CONTROL_RESCANS, rescans);
        }
    }
}

/// Number of entries in each row of L+U, the diagonal included (stage one of the two): added to
/// `counts[src]` for the `num_sources` sources from `first_source` on. If `log` has room, the entries
/// themselves are put there too, as `src · 2³² + column` from word 1 on in any order, and word 0
/// counts them; those for which there is no room are counted and dropped.
///
/// Threads: a persistent grid; see the module for how warps and blocks share the frontier. Writes:
/// `labels`, `queued`, `above`, `counts` and queue lengths by relaxed atomics; a queue entry and a
/// place of `log` by the thread that an atomic counter gave it, and the grid barrier orders writing
/// an entry before reading it; `control` but for the queue being filled by thread 0 of the grid.
/// Shared memory: 17 KiB.
///
/// Launch: cooperative, 1-D, a multiple of 32 threads a block. Preconditions: rows hold distinct
/// columns below the order of the matrix; for slot s and each vertex v that source
/// `first_source + s` may reach, `slots[2s] + v` (modulo 2⁶⁴) is a place of `labels` if v is below the
/// source, `slots[2s+1] + v` a bit of `above` if it is above it, and no two vertices share one, those of
/// later slots come behind; words
/// of `labels` are at least `base` plus the order; `queued`, `above`, `control` and `barrier` are zero.
#[kernel(
    max_threads(256),
    min_blocks(3),
    require(
        u64::from(num_sources) + u64::from(first_source) < row_ptr.len() as u64,
        u64::from(base) + row_ptr.len() as u64 <= u64::from(u32::MAX) + 1,
        long_row <= MAX_LONG_ROW,
        counts.len() + 1 == row_ptr.len(),
        slots.len() >= SLOT_WORDS * num_sources as usize,
        queued.len() >= queued_words(labels.len()),
        control.len() >= CONTROL_WORDS,
        barrier.len() >= 1
    )
)]
pub unsafe fn fill2_count(
    first_source: u32,
    num_sources: u32,
    base: u32,
    fill_first: u32,
    long_row: u32,
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    slots: Global<u64>,
    labels: GlobalMut<u32>,
    queued: GlobalMut<u32>,
    above: GlobalMut<u32>,
    queue: GlobalMut<u64>,
    spill: GlobalMut<u64>,
    control: GlobalMut<u64>,
    barrier: GlobalMut<u32>,
    counts: GlobalMut<u32>,
    log: GlobalMut<u64>,
) {
    let outboxes = shared_array![u64; OUTBOX * MAX_WARPS];
    let logs = shared_array![u64; OUTBOX * MAX_WARPS];
    let long_entries = shared_array![u64; LONG_ROWS];
    let num_long = shared_array![u32; 1];
    let traversal = Traversal {
        batch: Batch {
            first_source,
            num_sources,
            base,
            row_ptr,
            col_idx,
            slots,
            labels,
            above,
            queue,
            spill,
        },
        fill_first: fill_first != 0,
        long_row,
        queued,
        control,
        barrier,
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

/// Columns of each row of L+U (stage two): `filled_idx[filled_ptr[src] ..]` for the `num_sources`
/// sources from `first_source` on, in any order within the row.
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
        u64::from(num_sources) + u64::from(first_source) < row_ptr.len() as u64,
        u64::from(base) + row_ptr.len() as u64 <= u64::from(u32::MAX) + 1,
        long_row <= MAX_LONG_ROW,
        taken.len() + 1 == row_ptr.len(),
        filled_ptr.len() == row_ptr.len(),
        slots.len() >= SLOT_WORDS * num_sources as usize,
        queued.len() >= queued_words(labels.len()),
        control.len() >= CONTROL_WORDS,
        barrier.len() >= 1
    )
)]
pub unsafe fn fill2_positions(
    first_source: u32,
    num_sources: u32,
    base: u32,
    fill_first: u32,
    long_row: u32,
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    slots: Global<u64>,
    labels: GlobalMut<u32>,
    queued: GlobalMut<u32>,
    above: GlobalMut<u32>,
    queue: GlobalMut<u64>,
    spill: GlobalMut<u64>,
    control: GlobalMut<u64>,
    barrier: GlobalMut<u32>,
    filled_ptr: Global<u64>,
    taken: GlobalMut<u32>,
    filled_idx: GlobalMut<u32>,
) {
    let outboxes = shared_array![u64; OUTBOX * MAX_WARPS];
    let long_entries = shared_array![u64; LONG_ROWS];
    let num_long = shared_array![u32; 1];
    let traversal = Traversal {
        batch: Batch {
            first_source,
            num_sources,
            base,
            row_ptr,
            col_idx,
            slots,
            labels,
            above,
            queue,
            spill,
        },
        fill_first: fill_first != 0,
        long_row,
        queued,
        control,
        barrier,
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
            let at = first + (mine & lanes_below(lane)).count_ones();
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
            let place = first + (peers & lanes_below(lane)).count_ones();
            let place = filled_ptr.get(row as usize) + u64::from(place);
            filled_idx.set(place as usize, entry as u32);
        }
        begin += u64::from(thread::num_threads_1d());
    }
}

impl Batch {
    /// Row `src` of L+U for slot `slot` by the sequential fill2 (gSoFa, Figure 3b; End-to-End LU,
    /// Algorithm 1): `emit(j)` for each entry j. One thread works on it, and owns the slot.
    ///
    /// A vertex was met iff its label is `base`, its mark set. From each vertex below the source that
    /// was met, the thresholds in increasing order, the search goes on through vertices below the
    /// threshold; one above it that is met for the first time is in the row. Each vertex is met
    /// once, so the frontiers of a slot fit as many queue entries as it has labels.
    #[inline(always)]
    fn thresholds(self, slot: u32, mut emit: impl FnMut(u32)) {
        let capacity = self.queue.len() as u64 / 2;
        let src = self.first_source + slot;
        let end = self.label(slot, src) as u64;
        let begin = if slot == 0 {
            0
        } else {
            self.label(slot - 1, src - 1) as u64
        };
        let first = src - (end - begin) as u32;
        // Meets `v`; answers whether that was for the first time.
        let meet = |v: u32| {
            if v > src {
                let mark = self.mark(slot, v);
                let word = self.above.atomic((mark >> 5) as usize);
                let bit = 1u32 << (mark & 31);
                return word.fetch_or(bit, Ordering::Relaxed, Scope::Device) & bit == 0;
            }
            let place = self.label(slot, v);
            let met = v == src || self.labels.get(place) == self.base;
            if !met {
                self.labels.set(place, self.base);
            }
            !met
        };
        emit(src);
        let mut p = self.row_ptr.get(src as usize);
        let row_end = self.row_ptr.get(src as usize + 1);
        while p < row_end {
            let v = self.col_idx.get(p as usize);
            if meet(v) {
                emit(v);
            }
            p += 1;
        }
        let mut threshold = first;
        while threshold < src {
            if self.labels.get(self.label(slot, threshold)) == self.base {
                self.put(capacity, 0, 0, begin, u64::from(threshold));
                let mut len = 1u64;
                while len > 0 {
                    len -= 1;
                    let frontier = self.entry(capacity, 0, 0, begin + len) as usize;
                    let mut p = self.row_ptr.get(frontier);
                    let row_end = self.row_ptr.get(frontier + 1);
                    while p < row_end {
                        let v = self.col_idx.get(p as usize);
                        if meet(v) {
                            if v > threshold {
                                emit(v);
                            } else {
                                self.put(capacity, 0, 0, begin + len, u64::from(v));
                                len += 1;
                            }
                        }
                        p += 1;
                    }
                }
            }
            threshold += 1;
        }
    }
}

/// As [`fill2_count`](fn@fill2_count), by the sequential fill2 without fine-grained parallelism, which
/// gSoFa (section 7) compares itself with: `counts[src]` for each source of the batch.
///
/// Threads: one a source, grid-strided. Writes: a slot and `counts[src]` by the thread of the
/// source; `above` by atomics, since slots share its words. No thread waits for another. Shared
/// memory: none. Launch: 1-D, any size. Preconditions as there, for what is passed; the labels of
/// slots lie one after another from place 0 on, in order of their vertices.
#[kernel(
    max_threads(256),
    min_blocks(4),
    require(
        u64::from(num_sources) + u64::from(first_source) < row_ptr.len() as u64,
        counts.len() + 1 == row_ptr.len(),
        slots.len() >= SLOT_WORDS * num_sources as usize,
        queue.len() / 2 + spill.len() / 2 >= labels.len()
    )
)]
pub unsafe fn fill2_count_coarse(
    first_source: u32,
    num_sources: u32,
    base: u32,
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    slots: Global<u64>,
    labels: GlobalMut<u32>,
    above: GlobalMut<u32>,
    queue: GlobalMut<u64>,
    spill: GlobalMut<u64>,
    counts: GlobalMut<u32>,
) {
    let batch = Batch {
        first_source,
        num_sources,
        base,
        row_ptr,
        col_idx,
        slots,
        labels,
        above,
        queue,
        spill,
    };
    for slot in thread::grid_stride(num_sources as usize) {
        let mut count = 0u32;
        batch.thresholds(slot as u32, |_| count += 1);
        counts.set(first_source as usize + slot, count);
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
        u64::from(num_sources) + u64::from(first_source) < row_ptr.len() as u64,
        filled_ptr.len() == row_ptr.len(),
        slots.len() >= SLOT_WORDS * num_sources as usize,
        queue.len() / 2 + spill.len() / 2 >= labels.len()
    )
)]
pub unsafe fn fill2_positions_coarse(
    first_source: u32,
    num_sources: u32,
    base: u32,
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    slots: Global<u64>,
    labels: GlobalMut<u32>,
    above: GlobalMut<u32>,
    queue: GlobalMut<u64>,
    spill: GlobalMut<u64>,
    filled_ptr: Global<u64>,
    filled_idx: GlobalMut<u32>,
) {
    let batch = Batch {
        first_source,
        num_sources,
        base,
        row_ptr,
        col_idx,
        slots,
        labels,
        above,
        queue,
        spill,
    };
    for slot in thread::grid_stride(num_sources as usize) {
        let mut place = filled_ptr.get(first_source as usize + slot);
        batch.thresholds(slot as u32, |column| {
            filled_idx.set(place as usize, column);
            place += 1;
        });
    }
}
