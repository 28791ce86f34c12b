//! What a warp collects in shared memory before it hands it on, and the bits that it reads entries from.

use luge_kernel::prelude::*;

use super::batch::{Edge, entry_of};
use crate::bits::lanes_below;
use crate::scan::warp_inclusive_sum;

/// Edges that a lane looks at at once: while the memory answers for the first of them, it is asked for the others.
pub(super) const AHEAD: usize = 4;

/// Offers that a lane makes at once, for the same reason.
pub(super) const AT_ONCE: usize = 4;

/// Entries that a warp collects before it hands them on.
pub(super) const OUTBOX: usize = 32 * AT_ONCE;

/// Offers that a warp collects: what is left from before, and those of all edges of a step.
pub(super) const OFFERS: usize = 32 * (AHEAD + AT_ONCE);

/// Edges whose heads looked as if they would take what is offered, until there is one for each lane of the warp:
/// its part of the block's shared memory, and how much of that is filled, the same in all lanes.
pub(super) struct Offers {
    entries: Shared<u64>,
    offered: Shared<u32>,
    start: usize,
    pub(super) len: u32,
}

impl Offers {
    /// The empty ones of this warp, in arrays with [`OFFERS`] elements for each warp of the block.
    #[inlined]
    pub(super) fn new((entries, offered): (Shared<u64>, Shared<u32>)) -> Self {
        Self {
            entries,
            offered,
            start: OFFERS * (thread::thread_idx_x() / warp::WARP_SIZE) as usize,
            len: 0,
        }
    }

    /// Takes the edges of those lanes in which `is_mine`; there is room. All lanes of the warp call it together.
    #[inlined]
    pub(super) fn add(&mut self, is_mine: bool, edge: Edge) {
        let lanes = warp::ballot(warp::FULL_MASK, is_mine);
        if is_mine {
            let at = self.start + (self.len + (lanes & lanes_below()).count_ones()) as usize;
            self.entries.set(at, entry_of(edge.slot, edge.head));
            self.offered.set(at, edge.offered);
        }
        self.len += lanes.count_ones();
    }

    /// Gives back the last edges, one a lane, to as many lanes as there are. All lanes of the warp call it together.
    #[inlined]
    pub(super) fn take(&mut self) -> Edge {
        let lane = thread::lane_id();
        let first = self.len.saturating_sub(warp::WARP_SIZE);
        let at = first + lane;
        let mut edge = Edge::NONE;
        // Lanes read what others wrote, and later write where others read.
        warp::sync_warp(warp::FULL_MASK);
        if at < self.len {
            let at = self.start + at as usize;
            let entry = self.entries.get(at);
            edge = Edge {
                slot: (entry >> 32) as u32,
                offered: self.offered.get(at),
                head: entry as u32,
            };
        }
        warp::sync_warp(warp::FULL_MASK);
        self.len = first;
        edge
    }
}

/// What a warp collects, to hand it on with one atomic: its part of the block's shared memory, and how much of
/// that is filled, the same in all lanes.
pub(super) struct Outbox {
    entries: Shared<u64>,
    start: usize,
    len: u32,
}

impl Outbox {
    /// The empty one of this warp in `entries`, which has [`OUTBOX`] for each warp of the block.
    #[inlined]
    pub(super) fn new(entries: Shared<u64>) -> Self {
        Self {
            entries,
            start: OUTBOX * (thread::thread_idx_x() / warp::WARP_SIZE) as usize,
            len: 0,
        }
    }

    #[inlined]
    pub(super) fn has_room(&self, more: u32) -> bool {
        self.len + more <= OUTBOX as u32
    }

    /// Takes the entries of the `lanes` of the warp; there is room. All lanes call it together, `is_mine` in
    /// those.
    #[inlined]
    pub(super) fn add(&mut self, lanes: u32, is_mine: bool, entry: u64) {
        if is_mine {
            let at = self.len + (lanes & lanes_below()).count_ones();
            self.entries.set(self.start + at as usize, entry);
        }
        self.len += lanes.count_ones();
    }

    /// Empties it: `take(k, entry)` for each entry, k from the old value of a counter on, which grows by their
    /// number. All lanes of the warp call it together.
    #[inlined]
    pub(super) fn empty(
        &mut self,
        (counters, counter): (GlobalMut<u64>, usize),
        take: impl Fn(u64, u64),
    ) {
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

/// What a warp has not handed on yet: offers, and new frontiers.
pub(super) struct Collected {
    pub(super) offers: Offers,
    pub(super) outbox: Outbox,
}

/// The set bit of `word` with `rank` set bits below it; there is one.
#[inlined]
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

/// The set bits of consecutive words, a word a lane, which a warp takes 32 at a time.
#[derive(Clone, Copy)]
pub(super) struct Bits {
    /// Place of the first bit of the first word.
    first: u64,
    own: u32,
    /// Bits of the words up to the own, of all words, and taken so far.
    up_to: u32,
    total: u32,
    taken: u32,
}

impl Bits {
    pub(super) const NONE: Self = Self {
        first: 0,
        own: 0,
        up_to: 0,
        total: 0,
        taken: 0,
    };

    /// Those of the words that the lanes hold. Every lane of the warp calls it.
    #[inlined]
    pub(super) fn of(own: u32, first: u64) -> Self {
        let up_to = warp_inclusive_sum(own.count_ones());
        Self {
            first,
            own,
            up_to,
            total: warp::shuffle(warp::FULL_MASK, up_to, 31),
            taken: 0,
        }
    }

    #[inlined]
    pub(super) fn is_done(&self) -> bool {
        self.taken >= self.total
    }

    /// For the first lanes, as many as there are bits left: that, and the place of one. Every lane of the warp
    /// calls it.
    #[inlined]
    pub(super) fn next(&mut self) -> (bool, u64) {
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
