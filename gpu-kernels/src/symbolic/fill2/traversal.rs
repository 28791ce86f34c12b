//! The walk of a whole grid from all sources of a batch.

use luge_kernel::prelude::*;

use super::batch::{Edge, entry_of};
use super::collect::{AHEAD, AT_ONCE, Bits, Collected, Offers, Outbox};
use super::*;
use crate::grid::GridBarrier;
use crate::scan::warp_inclusive_sum;

/// What the parallel traversal needs beside the batch.
#[derive(Clone, Copy)]
pub(super) struct Traversal {
    pub(super) batch: Batch,
    pub(super) frontiers: Frontiers,
    /// For the [`Offers`] and the [`Outbox`] of each warp.
    pub(super) offers: (Shared<u64>, Shared<u32>),
    pub(super) outboxes: Shared<u64>,
    /// Entries of long rows that the block has set aside, and how many.
    pub(super) long_entries: Shared<u64>,
    pub(super) num_long: Shared<u32>,
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

impl Traversal {
    /// The label that a frontier offers its neighbours; the source itself offers `base`.
    #[inlined]
    fn offered(self, slot: u32, v: u32) -> u32 {
        if v == self.batch.source(slot) {
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

    /// Whether the head is below the source, which it is not itself, and the place of its label or else its bit.
    #[inlined]
    fn place(self, edge: Edge) -> (bool, u64) {
        let is_below = edge.head < self.batch.source(edge.slot);
        if is_below {
            (true, self.batch.label(edge.slot, edge.head) as u64)
        } else {
            (false, self.batch.mark(edge.slot, edge.head))
        }
    }

    /// Walks [`AHEAD`] edges a lane; all lanes of the warp call it together. Most heads have what they are offered or
    /// better, which one look shows. The others are collected: an atomic for them takes as many instructions
    /// whether one lane needs it or all.
    #[inlined]
    fn walk(
        self,
        edges: [Edge; AHEAD],
        next: Next,
        collected: &mut Collected,
        emit: &mut impl FnMut(u32, bool, u32, u32),
    ) {
        let Batch {
            base,
            labels,
            above,
            ..
        } = self.batch;
        // What the place of a head holds: a label of 0 takes nothing.
        let mut words = [0u32; AHEAD];
        let mut is_below = [true; AHEAD];
        // For a head above the source: which bit of the word is its.
        let mut bits = [0u32; AHEAD];
        let mut k = 0;
        while k < AHEAD {
            let edge = edges[k];
            // The source is no entry of its own traversal; the diagonal is emitted apart.
            if edge.offered != NO_OFFER && edge.head != self.batch.source(edge.slot) {
                let (below, place) = self.place(edge);
                is_below[k] = below;
                bits[k] = (place & 31) as u32;
                let word = if below {
                    labels.atomic(place as usize)
                } else {
                    above.atomic((place >> 5) as usize)
                };
                words[k] = word.load(Ordering::Relaxed, Scope::Device);
            }
            k += 1;
        }
        let mut k = 0;
        while k < AHEAD {
            let edge = edges[k];
            let takes = if is_below[k] {
                words[k] > edge.offered
                    && !(self.frontiers.fill_first != 0 && words[k] <= base + edge.head)
            } else {
                (words[k] >> bits[k]) & 1 == 0
            };
            collected.offers.add(takes, edge);
            k += 1;
        }
        while collected.offers.len >= warp::WARP_SIZE * AT_ONCE as u32 {
            self.offer(next, collected, emit);
        }
    }

    /// Makes the last of the collected offers, [`AT_ONCE`] a lane; all lanes of the warp call it together. A head
    /// that thereby comes into the row is handed to `emit`, one that is to be a frontier again goes into the outbox.
    #[inlined]
    fn offer(
        self,
        next: Next,
        collected: &mut Collected,
        emit: &mut impl FnMut(u32, bool, u32, u32),
    ) {
        let Batch {
            base,
            labels,
            above,
            ..
        } = self.batch;
        let bit_of = |place: u64| 1u32 << (place & 31);
        let mut edges = [Edge::NONE; AT_ONCE];
        let mut is_below = [false; AT_ONCE];
        let mut places = [0u64; AT_ONCE];
        // What was at those places; for a label that stays, or no offer, all bits are set.
        let mut words = [u32::MAX; AT_ONCE];
        let mut k = 0;
        while k < AT_ONCE {
            edges[k] = collected.offers.take();
            k += 1;
        }
        let mut k = 0;
        while k < AT_ONCE {
            let edge = edges[k];
            if edge.offered != NO_OFFER {
                (is_below[k], places[k]) = self.place(edge);
                words[k] = if is_below[k] {
                    let label = labels.atomic(places[k] as usize);
                    label.fetch_min(edge.offered, Ordering::Relaxed, Scope::Device)
                } else {
                    let word = above.atomic((places[k] >> 5) as usize);
                    word.fetch_or(bit_of(places[k]), Ordering::Relaxed, Scope::Device)
                };
            }
            k += 1;
        }
        let mut found = [false; AT_ONCE];
        let mut k = 0;
        while k < AT_ONCE {
            let edge = edges[k];
            if is_below[k] {
                let in_row = base + edge.head;
                let (old, all_set) = (words[k], u32::MAX);
                words[k] = all_set;
                // A vertex in the row offers the same whatever its label: it is no frontier again.
                if old > edge.offered && old > in_row {
                    found[k] = edge.offered <= in_row;
                    let word = self
                        .frontiers
                        .queued
                        .atomic(next.bits + (places[k] >> 5) as usize);
                    words[k] = word.fetch_or(bit_of(places[k]), Ordering::Relaxed, Scope::Device);
                }
            } else {
                found[k] = words[k] & bit_of(places[k]) == 0;
            }
            k += 1;
        }
        let mut push = [false; AT_ONCE];
        let mut pushes = [0u32; AT_ONCE];
        let (mut total, mut any) = (0u32, 0u32);
        let mut k = 0;
        while k < AT_ONCE {
            push[k] = is_below[k] && words[k] & bit_of(places[k]) == 0;
            pushes[k] = warp::ballot(warp::FULL_MASK, push[k]);
            total += pushes[k].count_ones();
            any |= u32::from(found[k]) << k;
            k += 1;
        }
        if !collected.outbox.has_room(total) {
            self.send(next, &mut collected.outbox);
        }
        let mut k = 0;
        while k < AT_ONCE {
            let entry = entry_of(edges[k].slot, edges[k].head);
            collected.outbox.add(pushes[k], push[k], entry);
            k += 1;
        }
        // Not unrolled: `emit` is long.
        let mut all = warp::reduce_or(warp::FULL_MASK, any);
        while all != 0 {
            let k = all.trailing_zeros();
            all &= all - 1;
            let is_mine = (any >> k) & 1 != 0;
            let finds = warp::ballot(warp::FULL_MASK, is_mine);
            let mut edge = edges[0];
            let mut i = 1;
            while i < AT_ONCE {
                if i as u32 == k {
                    edge = edges[i];
                }
                i += 1;
            }
            emit(finds, is_mine, self.batch.source(edge.slot), edge.head);
        }
    }

    /// Puts what is in the outbox of a warp in the next queue; all its lanes call it together.
    #[inlined]
    fn send(self, next: Next, outbox: &mut Outbox) {
        let Next {
            capacity,
            device,
            host,
            ..
        } = next;
        outbox.empty((self.frontiers.control, next.len), |at, entry| {
            self.batch.put(capacity, device, host, at, entry);
        });
    }

    /// Walks the row of an entry with `width` threads, of which this is number `rank`; all lanes of
    /// the warp call it together.
    #[inlined]
    fn walk_row(
        self,
        entry: u64,
        (rank, width): (u32, u32),
        next: Next,
        collected: &mut Collected,
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
            self.walk(edges, next, collected, emit);
        }
    }

    /// Walks from all sources of the batch. `emit(finds, found, src, j)` is called by all lanes of a warp
    /// together, `found` in the lanes `finds`, of which at least one; those have found entry (src, j) of L+U,
    /// each entry once.
    #[inlined]
    pub(super) fn run(self, emit: &mut impl FnMut(u32, bool, u32, u32)) {
        let Batch {
            num_sources,
            row_ptr,
            col_idx,
            ..
        } = self.batch;
        let capacity = self.batch.queue.len() as u64 / 2;
        let spill = self.batch.spill.len() as u64 / 2;
        let words = self.frontiers.queued.len() / 2;
        let lane = thread::lane_id();
        let tid = thread::thread_idx_x();
        let warps = u64::from(thread::num_threads_1d() / warp::WARP_SIZE);
        let warp = u64::from(thread::index_1d() / warp::WARP_SIZE);
        let counts = thread::index_1d() == 0;
        let mut grid = GridBarrier::new(self.frontiers.barrier);
        let mut collected = Collected {
            offers: Offers::new(self.offers),
            outbox: Outbox::new(self.outboxes),
        };
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
                self.frontiers.control.set(after, 0);
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
                            let word = self.frontiers.queued.atomic(this_bits + at as usize);
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
                            entry_of(at as u32, self.batch.source(at as u32))
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
                        self.frontiers.queued.atomic(word).store(
                            0,
                            Ordering::Relaxed,
                            Scope::Device,
                        );
                    }
                    start = row_ptr.get(v as usize);
                    let row_len = row_ptr.get(v as usize + 1) - start;
                    if row_len > u64::from(self.frontiers.long_row) {
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
                let sum = warp_inclusive_sum(places);
                let total = warp::shuffle(warp::FULL_MASK, sum, 31);
                let first = sum - places;
                let mut rows_before = 0u32;
                let mut window = 0u32;
                while window < total {
                    let mut heads = [Edge::NONE; AHEAD];
                    let mut k = 0;
                    while k < AHEAD {
                        if window < total {
                            // Lanes without an entry come last and begin behind all places.
                            let at = first.wrapping_sub(window);
                            let bit = if at < 32 { 1u32 << at } else { 0 };
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
                    self.walk(heads, next, &mut collected, emit);
                }
                while collected.offers.len > 0 {
                    self.offer(next, &mut collected, emit);
                }
                let mut left = warp::ballot(warp::FULL_MASK, alone);
                while left != 0 {
                    let long = warp::shuffle(warp::FULL_MASK, entry, left.trailing_zeros());
                    self.walk_row(long, (lane, warp::WARP_SIZE), next, &mut collected, emit);
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
                    self.walk_row(long, (tid, width), next, &mut collected, emit);
                    i += 1;
                }
                thread::sync_threads();
                if tid == 0 {
                    self.num_long.set(0, 0);
                }
            }
            while collected.offers.len > 0 {
                self.offer(next, &mut collected, emit);
            }
            self.send(next, &mut collected.outbox);
            grid.wait();
            now = next.len;
            parity = 1 - parity;
            iterations += 1;
            len = self.frontiers.control.get(now);
        }

        let edges = warp::fold(warp::WARP_SIZE, edges, |sum, other| sum + other);
        if lane == 0 {
            self.frontiers.control.atomic(CONTROL_EDGES).reduce_add(
                edges,
                Ordering::Relaxed,
                Scope::Device,
            );
        }
        if counts {
            self.frontiers.control.set(CONTROL_ITERATIONS, iterations);
            self.frontiers.control.set(CONTROL_PEAK, peak);
            self.frontiers.control.set(CONTROL_SPILLED, spilled);
            self.frontiers.control.set(CONTROL_RESCANS, rescans);
        }
    }
}
