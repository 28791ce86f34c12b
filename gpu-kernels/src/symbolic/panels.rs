//! Exact structures of L and U, panel by panel up the elimination forest.
//!
//! Row k of U is row k of B joined with the rows U(e, ·) beyond k of the pivots e < k with L(k, e) ≠ 0,
//! and column k of L is the same thing mirrored. Not all e are needed. Let p be the first pivot with
//! both U(e, p) ≠ 0 and L(p, e) ≠ 0, where e *meets* itself. Beyond p, row p has all of U(e, ·) and column p
//! all of L(·, e), so e takes part in rows and columns up to p only: the symmetric pruning of S. C. Eisenstat and
//! J. W. H. Liu ("Exploiting structural symmetry in unsymmetric sparse symbolic factorization", SIAM J.
//! Matrix Anal. Appl. 13, 1992), applied to both factors. The cost of a row is then near its size, where a
//! traversal of B from every row (see [`fill2`](super::fill2)) walks all of the row's subtree.
//!
//! # Panels
//!
//! At most 32 consecutive pivots are eliminated at once (see [`etree`](super::etree)). Of a panel with the
//! pivots `start..end` there are
//!
//! ```text
//! diagonal[k]   one word a pivot: bit j of row k is entry (k, start + j) of L+U
//! upper         columns ≥ end of the rows of U, increasing; each with a word whose bit k says that row k has it
//! lower         rows ≥ end of the columns of L, likewise
//! live          pivots that do not meet inside of the panel, with entries of both beyond it
//! meets[k]      where a live pivot meets, NONE if nowhere; zero for the others
//! ```
//!
//! **What a panel is made of.** The entries of B in its rows and columns; and from each panel E below, for a
//! row k of this panel with an entry in a live pivot e of E, k ≤ `meets[e]`, the columns of U(e, ·)
//! that lie in or beyond this panel. Such an E is a child of this panel, or it has put itself into this panel's list (`head`).
//! Contributions meet in a hash table in shared memory, one word of rows a column, in as many rounds over
//! increasing ranges of columns as the table's size makes necessary, and come out sorted.
//!
//! **Inside a panel** elimination is that of a dense 32 × 32 matrix of bits, one row a lane. It tells
//! which rows join which others (`joins`), and each column's word is closed under that, alone.
//!
//! # Order
//!
//! Everything of a panel is written by the block that eliminates it. A block goes from a leaf upwards as
//! long as it is the last child to finish: it releases its panel with an atomic decrement of `waiting[parent]`, and whoever
//! takes the last of those acquires all of them. So a block never waits, blocks need not be resident
//! together, and every panel is read only by ancestors, after it was finished.
//!
//! # Memory
//!
//! Structures are bump-allocated from a pool, by blocks in pieces of `chunk` entries: a block takes room for the
//! sum of what is joined, and gives back what it did not fill. A pool that is too small is noticed by the host, which
//! reads how much was asked for: panels without room have empty structures, everything else runs to its end.

use luge_kernel::prelude::*;

use super::etree::{NONE, PANEL};
use crate::sort::{SharedKeys, bitonic_sort};

/// Most columns that a round collects.
pub const ROUND: usize = 1024;

/// Slots of the hash table.
const SLOTS: usize = 2 * ROUND;

/// A slot without a column.
const EMPTY: u32 = u32::MAX;

/// Number of words of the counters: panels handed out, pool entries and list nodes asked for.
pub const COUNTERS: usize = 3;
const NEXT_PANEL: usize = 0;
/// Place of the pool entries asked for in the counters.
pub const ENTRIES: usize = 1;
/// Place of the list nodes asked for in the counters.
pub const NODES: usize = 2;

/// Words of the block's state.
const STATE: usize = 6;
/// The panel to go on with.
const NOW: usize = 0;
/// First entry of the room in the pool, or [`NONE`].
const ROOM: usize = 1;
/// Columns in the table.
const COUNT: usize = 2;
/// Whether the table was too small.
const FULL: usize = 3;
/// Pivots with entries beyond the panel: of U, of L.
const REACHING: usize = 4;

/// Bits above `bit`.
#[inline(always)]
fn above(bit: u32) -> u32 {
    (u32::MAX << bit) << 1
}

/// Calls `f` with each bit of `word`, the lowest first.
#[inline(always)]
fn for_bits(word: u32, mut f: impl FnMut(u32)) {
    let mut rest = word;
    while rest != 0 {
        f(rest.trailing_zeros());
        rest &= rest - 1;
    }
}

/// First position in `begin..end` of the increasing part of `index` whose entry is at least `key`.
#[inline(always)]
fn lower_bound(index: GlobalMut<u32>, begin: u32, end: u32, key: u32) -> u32 {
    let mut low = begin;
    let mut len = end - begin;
    while len > 0 {
        let half = len >> 1;
        if index.get((low + half) as usize) < key {
            low += half + 1;
            len -= half + 1;
        } else {
            len = half;
        }
    }
    low
}

/// One of the two triangles: U by rows, or L by columns.
#[derive(Clone, Copy)]
struct Triangle {
    /// Rows of B, or its columns.
    ptr: Global<u64>,
    idx: Global<u32>,
    /// Structure of each panel: first entry in the pool, number of entries.
    at: GlobalMut<u32>,
    len: GlobalMut<u32>,
    /// First node of each panel's list of those that take part in it, or [`NONE`].
    head: GlobalMut<u32>,
    /// Whether this is U.
    is_upper: bool,
}

/// What a block works with.
#[derive(Clone, Copy)]
struct Block {
    n: u32,
    /// Most columns of a round.
    limit: u32,
    panel_start: Global<u32>,
    panel_of: Global<u32>,
    child_ptr: Global<u64>,
    child: Global<u32>,
    counters: GlobalMut<u64>,
    index: GlobalMut<u32>,
    mask: GlobalMut<u32>,
    node_panel: GlobalMut<u32>,
    node_next: GlobalMut<u32>,
    meets: GlobalMut<u32>,
    live: GlobalMut<u32>,
    keys: Shared<u32>,
    words: Shared<u32>,
    sorted: Shared<u64>,
    state: Shared<u32>,
    bound: Shared<u64>,
    /// Rows of the diagonal block.
    diagonal: Shared<u32>,
    /// Where the live pivots meet.
    met: Shared<u32>,
    /// Of the rows of B in this round: first position, entries before.
    row_begin: Shared<u64>,
    row_before: Shared<u32>,
}

/// The panel at work.
#[derive(Clone, Copy)]
struct Panel {
    q: usize,
    start: u32,
    end: u32,
}

/// Columns of a round, and slots in use minus one.
#[derive(Clone, Copy)]
struct Round {
    low: u32,
    high: u32,
    slots: u32,
}

/// Thread 0's part of the pool.
#[derive(Clone, Copy)]
struct Room {
    at: u32,
    end: u32,
}

impl Block {
    /// Adds column `y` to the rows of the panel in `rows`.
    #[inline(always)]
    fn add(self, is_upper: bool, panel: Panel, round: Round, y: u32, rows: u32) {
        if y < panel.end {
            let column = y - panel.start;
            if is_upper {
                for_bits(rows, |k| {
                    self.diagonal.atomic(k as usize).fetch_or(
                        1 << column,
                        Ordering::Relaxed,
                        Scope::Block,
                    );
                });
            } else {
                self.diagonal.atomic(column as usize).fetch_or(
                    rows,
                    Ordering::Relaxed,
                    Scope::Block,
                );
            }
            return;
        }
        let mut slot = (y.wrapping_mul(0x9e37_79b9) >> 16) & round.slots;
        let mut tries = 0;
        while tries <= round.slots {
            let cell = self.keys.atomic(slot as usize);
            let mut key = cell.load(Ordering::Relaxed, Scope::Block);
            if key == EMPTY {
                key = cell.compare_exchange(EMPTY, y, Ordering::Relaxed, Scope::Block);
                if key == EMPTY {
                    let before =
                        self.state
                            .atomic(COUNT)
                            .fetch_add(1, Ordering::Relaxed, Scope::Block);
                    if before >= self.limit {
                        break;
                    }
                    key = y;
                }
            }
            if key == y {
                self.words
                    .atomic(slot as usize)
                    .fetch_or(rows, Ordering::Relaxed, Scope::Block);
                return;
            }
            slot = (slot + 1) & round.slots;
            tries += 1;
        }
        self.state
            .atomic(FULL)
            .store(1, Ordering::Relaxed, Scope::Block);
    }

    /// Adds what panel `e` below brings to this one in `own`. Called by whole warps: this one takes the group of 32
    /// entries `first`, and every `step`-th after it.
    #[inline(always)]
    fn add_panel(
        self,
        own: Triangle,
        other: Triangle,
        panel: Panel,
        round: Round,
        e: usize,
        (first, step): (u32, u32),
    ) {
        let lane = thread::lane_id();
        let live = self.live.get(e);
        let (own_at, own_len) = (own.at.get(e), own.len.get(e));
        let (other_at, other_len) = (other.at.get(e), other.len.get(e));
        let e_start = self.panel_start.get(e);
        if live == 0 {
            return;
        }
        // A lane for each row of this panel that the pivots of e have entries in.
        let other_end = other_at + other_len;
        let at = lower_bound(self.index, other_at, other_end, panel.start) + lane;
        let mut row = 0;
        let mut pivots = 0;
        if at < other_end {
            let x = self.index.get(at as usize);
            if x < panel.end {
                row = x - panel.start;
                for_bits(self.mask.get(at as usize) & live, |b| {
                    if self.meets.get((e_start + b) as usize) >= x {
                        pivots |= 1 << b;
                    }
                });
            }
        }
        let taking_part = warp::ballot(warp::FULL_MASK, pivots != 0);
        if taking_part == 0 {
            return;
        }
        let own_end = own_at + own_len;
        let from = lower_bound(self.index, own_at, own_end, round.low);
        let mut group = from + first * warp::WARP_SIZE;
        while group < own_end {
            let t = group + lane;
            let mut y = NONE;
            let mut word = 0;
            if t < own_end {
                y = self.index.get(t as usize);
                word = self.mask.get(t as usize);
            }
            let mut rows = 0;
            for_bits(taking_part, |j| {
                let theirs = warp::shuffle(warp::FULL_MASK, pivots, j);
                let k = warp::shuffle(warp::FULL_MASK, row, j);
                if theirs & word != 0 {
                    rows |= 1 << k;
                }
            });
            if rows != 0 && y < round.high {
                self.add(own.is_upper, panel, round, y, rows);
            }
            if warp::shuffle(warp::FULL_MASK, y, 0) >= round.high {
                break;
            }
            group += step * warp::WARP_SIZE;
        }
    }

    /// Adds the panels below that take part in this one.
    #[inline(always)]
    fn add_panels(self, own: Triangle, other: Triangle, panel: Panel, round: Round) {
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        let warps = thread::block_dim_x() / warp::WARP_SIZE;
        // The warp whose turn it is.
        let mut turn = 0;
        let mut visit = |e: usize| {
            // A long structure is shared by all warps, short ones are dealt out.
            if own.len.get(e) > 4 * warp::WARP_SIZE {
                self.add_panel(own, other, panel, round, e, (warp, warps));
            } else if turn == warp {
                self.add_panel(own, other, panel, round, e, (0, 1));
            }
            turn = if turn + 1 == warps { 0 } else { turn + 1 };
        };
        let mut i = self.child_ptr.get(panel.q);
        let end = self.child_ptr.get(panel.q + 1);
        while i < end {
            visit(self.child.get(i as usize) as usize);
            i += 1;
        }
        let mut node = own.head.get(panel.q);
        while node != NONE {
            visit(self.node_panel.get(node as usize) as usize);
            node = self.node_next.get(node as usize);
        }
    }

    /// Adds the entries of B in the panel's rows, columns `round.low` to `round.high`. Every thread of the
    /// block calls it.
    #[inline(always)]
    fn add_entries(self, own: Triangle, panel: Panel, round: Round) {
        let lane = thread::thread_idx_x();
        let rows = panel.end - panel.start;
        if lane < warp::WARP_SIZE {
            let mut begin = 0;
            let mut count = 0;
            if lane < rows {
                begin = own.ptr.get((panel.start + lane) as usize);
                let mut end = own.ptr.get((panel.start + lane) as usize + 1);
                if round.low != panel.start || round.high != self.n {
                    begin = crate::search::lower_bound(own.idx, begin, end, round.low);
                    end = crate::search::lower_bound(own.idx, begin, end, round.high);
                }
                count = (end - begin) as u32;
            }
            let mut sum = count;
            let mut delta = 1;
            while delta < warp::WARP_SIZE {
                let below = warp::shuffle_up(warp::FULL_MASK, sum, delta);
                if lane >= delta {
                    sum += below;
                }
                delta <<= 1;
            }
            self.row_begin.set(lane as usize, begin);
            self.row_before.set(lane as usize, sum - count);
            if lane == warp::WARP_SIZE - 1 {
                self.row_before.set(PANEL as usize, sum);
            }
        }
        thread::sync_threads();
        let total = self.row_before.get(PANEL as usize);
        let mut f = lane;
        while f < total {
            // The last row with no more than f entries before it.
            let mut k = 0;
            let mut half = PANEL / 2;
            while half > 0 {
                if self.row_before.get((k + half) as usize) <= f {
                    k += half;
                }
                half >>= 1;
            }
            let p = self.row_begin.get(k as usize) + u64::from(f - self.row_before.get(k as usize));
            let y = own.idx.get(p as usize);
            if y >= panel.start {
                self.add(own.is_upper, panel, round, y, 1 << k);
            }
            f += thread::block_dim_x();
        }
    }

    /// Collects the structure of the panel in one triangle, words not yet closed; where it lies in the pool and
    /// its length. Every thread of the block calls it.
    #[inline(always)]
    fn gather(
        self,
        own: Triangle,
        other: Triangle,
        panel: Panel,
        chunk: u32,
        room: &mut Room,
    ) -> (u32, u32) {
        let tid = thread::thread_idx_x();
        let bound = self.bound(own, panel);
        if tid == 0 {
            // The capacity of the pool is below 2³² entries.
            let capacity = self.index.len() as u64;
            let mut at = room.at;
            if u64::from(room.end - room.at) < bound {
                let take = if bound > u64::from(chunk) {
                    bound
                } else {
                    u64::from(chunk)
                };
                let first =
                    self.counters
                        .atomic(ENTRIES)
                        .fetch_add(take, Ordering::Relaxed, Scope::Device);
                at = NONE;
                if first + take <= capacity {
                    at = first as u32;
                    room.at = at;
                    room.end = (first + take) as u32;
                }
            }
            self.state.set(ROOM, at);
        }
        thread::sync_threads();
        let at = self.state.get(ROOM);
        if at == NONE {
            return (0, 0);
        }
        let wanted = if bound < u64::from(self.limit) {
            bound as u32
        } else {
            self.limit
        };
        let mut slots = 63;
        while slots < 2 * wanted {
            slots = 2 * slots + 1;
        }
        let mut found = 0;
        let mut width = self.n - panel.start;
        if bound > u64::from(self.limit) {
            // As if columns were spread evenly.
            width = 1 + (u64::from(width) * u64::from(self.limit) / bound) as u32;
        }
        let mut round = Round {
            low: panel.start,
            high: panel.start,
            slots: if slots < SLOTS as u32 {
                slots
            } else {
                SLOTS as u32 - 1
            },
        };
        loop {
            round.high = if width < self.n - round.low {
                round.low + width
            } else {
                self.n
            };
            for slot in thread::block_stride(round.slots as usize + 1) {
                self.keys.set(slot, EMPTY);
                self.words.set(slot, 0);
            }
            if tid == 0 {
                self.state.set(COUNT, 0);
                self.state.set(FULL, 0);
            }
            thread::sync_threads();
            self.add_entries(own, panel, round);
            self.add_panels(own, other, panel, round);
            thread::sync_threads();
            let count = self.state.get(COUNT);
            let full = self.state.get(FULL);
            thread::sync_threads();
            if full != 0 {
                // A range of `limit` columns always fits, so this ends.
                width = (round.high - round.low).div_ceil(4);
                continue;
            }
            if tid == 0 {
                self.state.set(COUNT, 0);
            }
            thread::sync_threads();
            for slot in thread::block_stride(round.slots as usize + 1) {
                let key = self.keys.get(slot);
                if key != EMPTY {
                    let place =
                        self.state
                            .atomic(COUNT)
                            .fetch_add(1, Ordering::Relaxed, Scope::Block);
                    let word = self.words.get(slot);
                    self.sorted
                        .set(place as usize, u64::from(key) << 32 | u64::from(word));
                }
            }
            thread::sync_threads();
            bitonic_sort(SharedKeys(self.sorted), count as usize);
            for i in thread::block_stride(count as usize) {
                let entry = self.sorted.get(i);
                self.index
                    .set((at + found) as usize + i, (entry >> 32) as u32);
                self.mask.set((at + found) as usize + i, entry as u32);
            }
            found += count;
            if round.high == self.n {
                break;
            }
            if count < self.limit / 4 {
                width = width.saturating_mul(2);
            }
            round.low = round.high;
        }
        if tid == 0 {
            room.at = at + found;
        }
        (at, found)
    }

    /// At most so many columns come together in one triangle of the panel. Every thread of the block calls
    /// it, and gets the same answer.
    #[inline(always)]
    fn bound(self, own: Triangle, panel: Panel) -> u64 {
        let tid = thread::thread_idx_x();
        if tid == 0 {
            let mut entries = own.ptr.get(panel.end as usize) - own.ptr.get(panel.start as usize);
            let mut node = own.head.get(panel.q);
            while node != NONE {
                let e = self.node_panel.get(node as usize);
                entries += u64::from(own.len.get(e as usize));
                node = self.node_next.get(node as usize);
            }
            self.bound.set(0, entries);
        }
        thread::sync_threads();
        let first = self.child_ptr.get(panel.q);
        let children = (self.child_ptr.get(panel.q + 1) - first) as usize;
        for i in thread::block_stride(children) {
            let e = self.child.get(first as usize + i);
            self.bound.atomic(0).reduce_add(
                u64::from(own.len.get(e as usize)),
                Ordering::Relaxed,
                Scope::Block,
            );
        }
        thread::sync_threads();
        self.bound.get(0)
    }

    /// Puts this panel into the lists of the panels beyond its parent in which live pivots take part, by the
    /// entries `at..at + len` of the other triangle. `last`: what they bring ends there.
    #[inline(always)]
    fn push(
        self,
        own: Triangle,
        panel: Panel,
        structure: (u32, u32),
        beyond: u32,
        last: u32,
        live: u32,
    ) {
        let (at, len) = structure;
        let takes_part = |t: usize, x: u32| {
            let mut any = false;
            for_bits(self.mask.get(at as usize + t) & live, |b| {
                any |= self.met.get(b as usize) >= x;
            });
            any
        };
        for t in thread::block_stride(len as usize) {
            let x = self.index.get(at as usize + t);
            if x < beyond || x >= last || !takes_part(t, x) {
                continue;
            }
            // Only for the first such entry in the target.
            let target = self.panel_of.get(x as usize) as usize;
            let target_start = self.panel_start.get(target);
            let mut first = true;
            let mut u = t;
            while u > 0 && first {
                u -= 1;
                let y = self.index.get(at as usize + u);
                if y < target_start {
                    break;
                }
                first = !takes_part(u, y);
            }
            if first {
                let node =
                    self.counters
                        .atomic(NODES)
                        .fetch_add(1, Ordering::Relaxed, Scope::Device);
                if node < self.node_next.len() as u64 {
                    self.node_panel.set(node as usize, panel.q as u32);
                    let next =
                        own.head
                            .atomic(target)
                            .swap(node as u32, Ordering::Relaxed, Scope::Device);
                    self.node_next.set(node as usize, next);
                }
            }
        }
    }
}

/// Structures of L and U of all panels, see the module.
///
/// `symmetric` not zero: the pattern of B is symmetric, and so is that of L+U; then only U is made, and
/// the arguments for L are not used. `limit` (at most [`ROUND`]): columns of a round.
///
/// Threads: a block a panel, taken from `counters[0]`; then its parent, if it was the last to finish. Within a
/// block: warps over the panels below, lanes over their entries; threads over entries of B, slots and
/// columns; lanes of warp 0 over the rows of the diagonal block. Writes and their order: see the module. A list's nodes are pushed by atomic
/// exchange of its head, and read when all who push have finished. Shared memory: 25 KiB.
///
/// Launch: 1-D, blocks of a multiple of 32 threads. Preconditions: rows and columns of B increase
/// strictly; panels, parents and children are those of [`etree`](super::etree); `waiting` holds the number of
/// children; `counters` is zero, `head`s are [`NONE`]. After it, the structures hold if `counters` asked for
/// no more than there is.
#[kernel(
    max_threads(256),
    require(
        limit >= 1,
        limit as usize <= ROUND,
        counters.len() == COUNTERS,
        row_ptr.len() == panel_of.len() + 1,
        diagonal.len() == panel_of.len(),
        meets.len() == panel_of.len(),
        mask.len() == index.len(),
        node_panel.len() == node_next.len(),
        panel_start.len() == waiting.len() + 1,
        child_ptr.len() == waiting.len() + 1,
        panel_parent.len() == waiting.len(),
        upper_at.len() == waiting.len(),
        upper_len.len() == waiting.len(),
        upper_head.len() == waiting.len(),
        live.len() == waiting.len(),
        symmetric != 0 || col_ptr.len() == row_ptr.len(),
        symmetric != 0 || lower_at.len() == waiting.len(),
        symmetric != 0 || lower_len.len() == waiting.len(),
        symmetric != 0 || lower_head.len() == waiting.len()
    )
)]
pub unsafe fn eliminate_panels(
    symmetric: u32,
    limit: u32,
    chunk: u32,
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    col_ptr: Global<u64>,
    row_idx: Global<u32>,
    panel_start: Global<u32>,
    panel_of: Global<u32>,
    panel_parent: Global<u32>,
    child_ptr: Global<u64>,
    child: Global<u32>,
    waiting: GlobalMut<u32>,
    counters: GlobalMut<u64>,
    index: GlobalMut<u32>,
    mask: GlobalMut<u32>,
    node_panel: GlobalMut<u32>,
    node_next: GlobalMut<u32>,
    upper_at: GlobalMut<u32>,
    upper_len: GlobalMut<u32>,
    upper_head: GlobalMut<u32>,
    lower_at: GlobalMut<u32>,
    lower_len: GlobalMut<u32>,
    lower_head: GlobalMut<u32>,
    diagonal: GlobalMut<u32>,
    meets: GlobalMut<u32>,
    live: GlobalMut<u32>,
) {
    let keys = shared_array![u32; SLOTS];
    let words = shared_array![u32; SLOTS];
    let sorted = shared_array![u64; ROUND];
    let state = shared_array![u32; STATE];
    let bound = shared_array![u64; 1];
    let rows = shared_array![u32; 32];
    let joins_upper = shared_array![u32; 32];
    let joins_lower = shared_array![u32; 32];
    let met = shared_array![u32; 32];
    let row_begin = shared_array![u64; 32];
    let row_before = shared_array![u32; 33];
    let block = Block {
        n: panel_of.len() as u32,
        limit,
        panel_start,
        panel_of,
        child_ptr,
        child,
        counters,
        index,
        mask,
        node_panel,
        node_next,
        meets,
        live,
        keys,
        words,
        sorted,
        state,
        bound,
        diagonal: rows,
        met,
        row_begin,
        row_before,
    };
    let is_symmetric = symmetric != 0;
    let upper = Triangle {
        ptr: row_ptr,
        idx: col_idx,
        at: upper_at,
        len: upper_len,
        head: upper_head,
        is_upper: true,
    };
    let lower = if is_symmetric {
        upper
    } else {
        Triangle {
            ptr: col_ptr,
            idx: row_idx,
            at: lower_at,
            len: lower_len,
            head: lower_head,
            is_upper: false,
        }
    };
    let tid = thread::thread_idx_x();
    let lane = thread::lane_id();
    let panels = waiting.len();
    let mut room = Room { at: 0, end: 0 };
    loop {
        thread::sync_threads();
        if tid == 0 {
            let next = counters.atomic(NEXT_PANEL);
            let q = next.fetch_add(1, Ordering::Relaxed, Scope::Device);
            state.set(NOW, if q < panels as u64 { q as u32 } else { NONE });
        }
        thread::sync_threads();
        let mut q = state.get(NOW);
        if q == NONE {
            break;
        }
        if child_ptr.get(q as usize + 1) > child_ptr.get(q as usize) {
            continue;
        }
        while q != NONE {
            let panel = Panel {
                q: q as usize,
                start: panel_start.get(q as usize),
                end: panel_start.get(q as usize + 1),
            };
            let width = panel.end - panel.start;
            if tid < PANEL {
                rows.set(tid as usize, if tid < width { 1 << tid } else { 0 });
                met.set(tid as usize, NONE);
            }
            if tid == 0 {
                state.set(REACHING, 0);
                state.set(REACHING + 1, 0);
            }
            // The barriers in `gather` order these writes before their uses.
            let of_upper = block.gather(upper, lower, panel, chunk, &mut room);
            let of_lower = if is_symmetric {
                of_upper
            } else {
                block.gather(lower, upper, panel, chunk, &mut room)
            };
            thread::sync_threads();

            // The diagonal block: elimination of a matrix of bits, a row a lane.
            if tid < warp::WARP_SIZE {
                let mut row = rows.get(lane as usize);
                if is_symmetric {
                    let mut mirrored = 0;
                    for j in 0..PANEL {
                        let theirs = warp::shuffle(warp::FULL_MASK, row, j);
                        mirrored |= ((theirs >> lane) & 1) << j;
                    }
                    row |= mirrored;
                }
                for pivot in 0..PANEL {
                    let theirs = warp::shuffle(warp::FULL_MASK, row, pivot);
                    if lane > pivot && (row >> pivot) & 1 != 0 {
                        row |= theirs & above(pivot);
                    }
                }
                let mut column = 0;
                for pivot in 0..PANEL {
                    let those = warp::ballot(warp::FULL_MASK, (row >> pivot) & 1 != 0);
                    if lane == pivot {
                        column = those;
                    }
                }
                // Row k of U is joined to the rows with an entry in column k of L, and mirrored.
                joins_upper.set(lane as usize, column & above(lane));
                joins_lower.set(lane as usize, row & above(lane));
                if lane < width {
                    diagonal.set((panel.start + lane) as usize, row);
                }
            }
            thread::sync_threads();

            let close = |structure: (u32, u32), joins: Shared<u32>, reaching: usize| {
                let mut all = 0;
                for t in thread::block_stride(structure.1 as usize) {
                    let mut word = mask.get(structure.0 as usize + t);
                    let mut rest = word;
                    while rest != 0 {
                        let bit = rest.trailing_zeros();
                        rest &= rest - 1;
                        let new = joins.get(bit as usize) & !word;
                        word |= new;
                        rest |= new;
                    }
                    mask.set(structure.0 as usize + t, word);
                    all |= word;
                }
                let all = warp::reduce_or(warp::FULL_MASK, all);
                if lane == 0 && all != 0 {
                    state
                        .atomic(reaching)
                        .fetch_or(all, Ordering::Relaxed, Scope::Block);
                }
            };
            close(of_upper, joins_upper, REACHING);
            if !is_symmetric {
                close(of_lower, joins_lower, REACHING + 1);
            }
            thread::sync_threads();

            // Pivots that do not meet inside and reach beyond with both: where do they meet?
            let mut reaching = state.get(REACHING);
            if !is_symmetric {
                reaching &= state.get(REACHING + 1);
            }
            let met_inside = joins_upper.get(lane as usize) & joins_lower.get(lane as usize) != 0;
            let alive = reaching & !warp::ballot(warp::FULL_MASK, met_inside);
            if alive != 0 {
                let mut base = 0;
                loop {
                    let t = base + tid;
                    if t < of_upper.1 {
                        let at = (of_upper.0 + t) as usize;
                        let x = index.get(at);
                        let mut both = mask.get(at) & alive;
                        if both != 0 && !is_symmetric {
                            let end = of_lower.0 + of_lower.1;
                            let found = lower_bound(index, of_lower.0, end, x);
                            both &= if found < end && index.get(found as usize) == x {
                                mask.get(found as usize)
                            } else {
                                0
                            };
                        }
                        for_bits(both, |b| {
                            met.atomic(b as usize)
                                .fetch_min(x, Ordering::Relaxed, Scope::Block);
                        });
                    }
                    base += thread::block_dim_x();
                    thread::sync_threads();
                    let open = (alive >> lane) & 1 != 0 && met.get(lane as usize) == NONE;
                    // The second barrier: nobody lowers `met` again before all have read it.
                    if !thread::sync_threads_or(open) || base >= of_upper.1 {
                        break;
                    }
                }
            }
            let mut farthest = 0;
            if (alive >> lane) & 1 != 0 {
                farthest = met.get(lane as usize);
            }
            if tid < width {
                meets.set((panel.start + tid) as usize, farthest);
            }
            let farthest = warp::reduce_max(warp::FULL_MASK, farthest);
            let parent = panel_parent.get(panel.q);
            if tid == 0 {
                live.set(panel.q, alive);
                upper.at.set(panel.q, of_upper.0);
                upper.len.set(panel.q, of_upper.1);
                if !is_symmetric {
                    lower.at.set(panel.q, of_lower.0);
                    lower.len.set(panel.q, of_lower.1);
                }
            }
            if alive != 0 && parent != NONE {
                let beyond = panel_start.get(parent as usize + 1);
                if farthest >= beyond {
                    // A row takes part only while there are columns beyond it, and mirrored.
                    let last_column = index.get((of_upper.0 + of_upper.1) as usize - 1);
                    block.push(upper, panel, of_lower, beyond, last_column, alive);
                    if !is_symmetric {
                        let last_row = index.get((of_lower.0 + of_lower.1) as usize - 1);
                        block.push(lower, panel, of_upper, beyond, last_row, alive);
                    }
                }
            }

            // Everything of this panel is written: hand it up.
            thread::sync_threads();
            if tid == 0 {
                let mut next = NONE;
                if parent != NONE {
                    let before = waiting.atomic(parent as usize).fetch_sub(
                        1,
                        Ordering::AcqRel,
                        Scope::Device,
                    );
                    if before == 1 {
                        next = parent;
                    }
                }
                state.set(NOW, next);
            }
            thread::sync_threads();
            q = state.get(NOW);
        }
    }
}
