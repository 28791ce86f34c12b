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
//! At most 64 consecutive pivots are eliminated at once (see [`etree`](super::etree)). Of a panel with the
//! pivots `start..end` there are
//!
//! ```text
//! diagonal[k]   one word a pivot: bit j of row k is entry (k, start + j) of L+U
//! upper         columns ≥ end of the rows of U, increasing; each with a word whose bit k says that row k has it
//! lower         rows ≥ end of the columns of L, likewise; behind `upper` in the pool
//! live          pivots that do not meet inside of the panel, with entries of both beyond it
//! meets[k]      where a live pivot meets, NONE if nowhere; zero for the others
//! ```
//!
//! **What a panel is made of.** The entries of B in its rows and columns; and from each panel E below, for a
//! row k of this panel with an entry in a live pivot e of E, k ≤ `meets[e]`, the columns of U(e, ·)
//! that lie in or beyond this panel; and mirrored. Such an E is a child of this panel, or it has put itself into
//! this panel's list (`head`).
//!
//! **How it comes together.** The longest of all that contribute, a child or a lane of B, is sorted already: what of it
//! lies beyond the panel becomes the *base*. The others look their entries up in the base, and add their rows to
//! the word there. What is not in the base goes into a hash table in shared memory, is sorted, and merged with the base, which gives
//! a larger base. If the table was full, this is done again, until everything is found in the base. Upper and lower
//! structures go through all this together, the lower one behind the upper.
//!
//! **Inside a panel** elimination is that of a dense 64 × 64 matrix of bits, two rows a lane. It tells
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
//! Structures are bump-allocated from a pool, by blocks in pieces: a block takes room for
//! what may come together, and keeps what it did not fill for its next panel. A pool that is too small is noticed by the host, which
//! reads how much was asked for: panels without room have empty structures, everything else runs to its end.

use luge_kernel::prelude::*;

use super::etree::{NONE, PANEL};
use crate::bits::{
    above, ballot_pair, bit, for_bits, has_bit, high_half, joined, lanes_below, reduce_or,
    transposed_pair,
};
use crate::search::lower_bound;
use crate::sort::{SharedKeys, bitonic_sort};

/// Most keys that the table takes, if [`THREADS`] threads use it.
pub const ROUND: usize = 512;

/// Threads of a block, at most.
pub const THREADS: usize = 512;

/// Most keys in the table: each thread may add one before it sees that the table is full.
const KEYS: usize = ROUND + THREADS;

/// Slots of the hash table.
const SLOTS: usize = 2 * KEYS;

/// Bases up to this length are searched in shared memory.
const NEAR: usize = 1024;

/// A slot without a column. No key: see [`key_of`].
const EMPTY: u32 = u32::MAX;

/// Orders of matrices are below this, so that a bit is left to tell upper from lower.
pub const MAX_ORDER: usize = 1 << 31;

/// Structures of at most this length are added by a single lane.
const SHORT: u32 = 8;

/// Children above which the warps share the survey of them.
const MANY: u32 = 256;

/// Warps of a block, at most.
const MAX_WARPS: usize = THREADS / 32;

/// Number of words of the counters: panels handed out, pool entries and list nodes asked for, panels.
pub const COUNTERS: usize = 4;
const NEXT_PANEL: usize = 0;
/// Place of the pool entries asked for in the counters.
pub const ENTRIES: usize = 1;
/// Place of the list nodes asked for in the counters.
pub const NODES: usize = 2;
/// Place of the number of panels in the counters.
pub const PANELS: usize = 3;

/// Words of the block's state.
const STATE: usize = 4;
/// The panel to go on with.
const NOW: usize = 0;
/// First entry of the room in the pool, or [`NONE`].
const ROOM: usize = 1;
/// Keys in the table.
const COUNT: usize = 2;
/// Whether the table was too small.
const FULL: usize = 3;

/// Words of 64 bits in shared memory. Their halves lie apart: an atomic or of 32 bits is one instruction there, one of
/// 64 a loop.
#[derive(Clone, Copy)]
struct Words(Shared<u32>);

impl Words {
    #[inline(always)]
    fn high(self, i: usize) -> usize {
        self.0.len() / 2 + i
    }

    #[inline(always)]
    fn get(self, i: usize) -> u64 {
        joined(self.0.get(i), self.0.get(self.high(i)))
    }

    #[inline(always)]
    fn set(self, i: usize, word: u64) {
        self.0.set(i, word as u32);
        self.0.set(self.high(i), high_half(word));
    }

    /// Sets the bits of `word`, half by half.
    #[inline(always)]
    fn join(self, i: usize, word: u64) {
        if word as u32 != 0 {
            self.0
                .atomic(i)
                .fetch_or(word as u32, Ordering::Relaxed, Scope::Block);
        }
        if high_half(word) != 0 {
            self.0
                .atomic(self.high(i))
                .fetch_or(high_half(word), Ordering::Relaxed, Scope::Block);
        }
    }
}

/// First position in `begin..end` of the increasing part of `index` whose entry is at least `key`, as
/// [`lower_bound`] finds it, by a warp together: a round of loads for every five bits of the length. Every lane calls
/// it, with the same arguments.
#[inline(always)]
fn warp_lower_bound(index: GlobalMut<u32>, begin: u32, end: u32, key: u32) -> u32 {
    let mut low = begin;
    let mut len = end - begin;
    while len > 0 {
        let step = len.div_ceil(warp::WARP_SIZE);
        // The last entry of each of 32 steps, as far as there are so many.
        let last = (thread::lane_id() + 1) * step - 1;
        let is_below = last < len && index.get((low + last) as usize) < key;
        let steps = warp::ballot(warp::FULL_MASK, is_below).count_ones();
        low += steps * step;
        // In the step after those, without its last entry, or in what is left behind the last whole one.
        let rest = len - steps * step;
        len = if rest < step { rest } else { step - 1 };
    }
    low
}

/// The key of column `y` of the upper structure (side 0), or of row `y` of the lower one (side 1).
#[inline(always)]
fn key_of(y: u32, side: u32) -> u32 {
    y | side << 31
}

/// Sum over the lanes of a warp. Every lane calls it.
#[inline(always)]
fn warp_sum(value: u64) -> u64 {
    let mut sum = value;
    let mut lanes = warp::WARP_SIZE / 2;
    while lanes > 0 {
        sum += warp::shuffle_xor(warp::FULL_MASK, sum, lanes);
        lanes >>= 1;
    }
    sum
}

/// Maximum over the lanes of a warp. Every lane calls it.
#[inline(always)]
fn warp_max(value: u64) -> u64 {
    let mut most = value;
    let mut lanes = warp::WARP_SIZE / 2;
    while lanes > 0 {
        let other = warp::shuffle_xor(warp::FULL_MASK, most, lanes);
        if other > most {
            most = other;
        }
        lanes >>= 1;
    }
    most
}

/// B by rows, or by columns.
#[derive(Clone, Copy)]
struct Lanes {
    ptr: Global<u64>,
    idx: Global<u32>,
}

/// The panel at work. What is known of it is read at once, since each read takes as long as all of them.
#[derive(Clone, Copy)]
struct Panel {
    q: usize,
    start: u32,
    end: u32,
    parent: u32,
    /// Its children in the list of all.
    children: (u32, u32),
    /// Its lists.
    heads: (u32, u32),
}

/// A piece of the pool: `upper` entries of the upper structure, then those of the lower one, `len` in all.
#[derive(Clone, Copy)]
struct Structure {
    at: u32,
    upper: u32,
    len: u32,
}

/// In which rows of a panel, or columns, the pivots of another take part; a piece in each lane of a warp.
///
/// There are two ways to hold it, and the shorter is taken: an entry of the other panel's structure is a row, with
/// a word of pivots; or each of those pivots has a word of rows.
#[derive(Clone, Copy)]
struct Part {
    by_pivots: bool,
    /// Which of the entries hold anything, or the pivots. None: nothing takes part.
    who: u64,
    /// The rows of entries `lane` and `lane + 32`, in a half each.
    rows: u32,
    /// The words of `lane` and `lane + 32`.
    words: (u64, u64),
}

/// Thread 0's part of the pool.
#[derive(Clone, Copy)]
struct Room {
    at: u32,
    end: u32,
}

/// No contributor.
const NOBODY: u64 = 0;

/// A contributor as one number, so that the longest is the largest: its length, whether it is a lane of B,
/// and which panel or lane it is.
#[inline(always)]
fn contributor(len: u64, is_lane: bool, which: u32) -> u64 {
    len << 33 | (is_lane as u64) << 32 | u64::from(which)
}

/// What a block works with.
#[derive(Clone, Copy)]
struct Block {
    /// Two, or one where the pattern is symmetric: its lower structures are its upper ones.
    sides: u32,
    /// Keys from which the table is full.
    limit: u32,
    base_min: u32,
    rows: Lanes,
    columns: Lanes,
    panel_start: Global<u32>,
    panel_of: Global<u32>,
    panel_parent: Global<u32>,
    child_ptr: Global<u64>,
    child: Global<u32>,
    counters: GlobalMut<u64>,
    index: GlobalMut<u32>,
    mask: GlobalMut<u64>,
    at: GlobalMut<u32>,
    upper_len: GlobalMut<u32>,
    lower_len: GlobalMut<u32>,
    upper_head: GlobalMut<u32>,
    lower_head: GlobalMut<u32>,
    node_panel: GlobalMut<u32>,
    node_next: GlobalMut<u32>,
    meets: GlobalMut<u32>,
    live: GlobalMut<u64>,
    keys: Shared<u32>,
    words: Words,
    found: Shared<u64>,
    sorted: Shared<u64>,
    near: Shared<u32>,
    state: Shared<u32>,
    kept: Shared<u32>,
    /// Entries of the diagonal block by columns and by rows: what rows of B and U bring, and what columns of B and L do.
    inside_columns: Words,
    inside_rows: Words,
    /// Where the live pivots meet.
    met: Shared<u32>,
    /// Of the panel's lanes of B, rows and columns: first position, entries before.
    lane_begin: Shared<u64>,
    lane_before: Shared<u32>,
}

impl Block {
    #[inline(always)]
    fn lanes(self, side: u32) -> Lanes {
        if side == 0 { self.rows } else { self.columns }
    }

    #[inline(always)]
    fn head(self, side: u32) -> GlobalMut<u32> {
        if side == 0 {
            self.upper_head
        } else {
            self.lower_head
        }
    }

    #[inline(always)]
    fn panel(self, q: usize) -> Panel {
        Panel {
            q,
            start: self.panel_start.get(q),
            end: self.panel_start.get(q + 1),
            parent: self.panel_parent.get(q),
            children: (
                self.child_ptr.get(q) as u32,
                self.child_ptr.get(q + 1) as u32,
            ),
            heads: (
                self.upper_head.get(q),
                if self.sides == 2 {
                    self.lower_head.get(q)
                } else {
                    NONE
                },
            ),
        }
    }

    /// Where the structure of panel `e` on one side lies, and its length.
    #[inline(always)]
    fn structure(self, e: usize, side: u32) -> (u32, u32) {
        let at = self.at.get(e);
        let upper = self.upper_len.get(e);
        if side == 0 || self.sides == 1 {
            (at, upper)
        } else {
            (at + upper, self.lower_len.get(e))
        }
    }

    /// Adds an entry inside of the panel: in rows `rows` and column `y`, or mirrored.
    #[inline(always)]
    fn add_inside(self, panel: Panel, side: u32, y: u32, rows: u64) {
        let inside = if side == 0 {
            self.inside_columns
        } else {
            self.inside_rows
        };
        inside.join((y - panel.start) as usize, rows);
    }

    /// First place in the base, counted from its start, from `begin` to `end` whose entry is at least `y`, and
    /// whether it is `y`.
    #[inline(always)]
    fn find(self, base: Structure, begin: u32, end: u32, y: u32) -> (u32, bool) {
        let is_near = base.len <= NEAR as u32;
        let read = |place: u32| {
            if is_near {
                self.near.get(place as usize)
            } else {
                self.index.get((base.at + place) as usize)
            }
        };
        let place = lower_bound(begin, end, |place| read(place) < y);
        (place, place < end && read(place) == y)
    }

    /// Adds column `y` to the rows of the panel in `rows`, or mirrored: inside of it, in the base, or in the
    /// table. A full table takes no new keys.
    #[inline(always)]
    fn add(self, panel: Panel, base: Structure, slots: u32, side: u32, y: u32, rows: u64) {
        if y < panel.end {
            self.add_inside(panel, side, y, rows);
            return;
        }
        let (begin, end) = if side == 0 {
            (0, base.upper)
        } else {
            (base.upper, base.len)
        };
        let (place, is_there) = self.find(base, begin, end, y);
        if is_there {
            let word = self.mask.atomic((base.at + place) as usize);
            if word.load(Ordering::Relaxed, Scope::Block) & rows != rows {
                word.fetch_or(rows, Ordering::Relaxed, Scope::Block);
            }
            return;
        }
        let wanted = key_of(y, side);
        let mut slot = (wanted.wrapping_mul(0x9e37_79b9) >> 16) & slots;
        loop {
            let cell = self.keys.atomic(slot as usize);
            let mut key = cell.load(Ordering::Relaxed, Scope::Block);
            if key == EMPTY {
                let full = self.state.atomic(FULL);
                if full.load(Ordering::Relaxed, Scope::Block) != 0 {
                    return;
                }
                key = cell.compare_exchange(EMPTY, wanted, Ordering::Relaxed, Scope::Block);
                if key == EMPTY {
                    key = wanted;
                    let count = self.state.atomic(COUNT);
                    let before = count.fetch_add(1, Ordering::Relaxed, Scope::Block);
                    if before + 1 >= self.limit {
                        full.store(1, Ordering::Relaxed, Scope::Block);
                    }
                }
            }
            if key == wanted {
                self.words.join(slot as usize, rows);
                return;
            }
            slot = (slot + 1) & slots;
        }
    }

    /// The live pivots of panel `e` that take part in row `x` of this panel, whose word in the structure of `e` is at
    /// `at`.
    #[inline(always)]
    fn pivots(self, e_start: u32, live: u64, at: u32, x: u32) -> u64 {
        let mut pivots = 0;
        for_bits(self.mask.get(at as usize) & live, |b| {
            if self.meets.get((e_start + b) as usize) >= x {
                pivots |= bit(b);
            }
        });
        pivots
    }

    /// In which rows of this panel, or columns, pivots of panel `e` take part. Every lane of the warp calls it, and
    /// gets its part of the answer. `is_child`: the structures of `e` begin in this panel or beyond it.
    #[inline(always)]
    fn taking_part(self, panel: Panel, e: usize, side: u32, is_child: bool) -> Part {
        let lane = thread::lane_id();
        let live = self.live.get(e);
        let e_start = self.panel_start.get(e);
        // Where the pivots `lane` and `lane + 32` of e meet: zero if they are not live.
        let mut meets = (0, 0);
        if has_bit(live, lane) {
            meets.0 = self.meets.get((e_start + lane) as usize);
        }
        if has_bit(live, lane + 32) {
            meets.1 = self.meets.get((e_start + lane) as usize + 32);
        }
        let (other_at, other_len) = self.structure(e, 1 - side);
        let end = other_at + other_len;
        let first = if is_child {
            other_at
        } else {
            warp_lower_bound(self.index, other_at, end, panel.start)
        };
        // The entries in this panel are among the next 64: two a lane.
        let entry = |at: u32| {
            if at < end {
                (self.index.get(at as usize), self.mask.get(at as usize))
            } else {
                (NONE, 0)
            }
        };
        let (x, low) = entry(first + lane);
        let (x_high, high) = entry(first + lane + 32);
        // Most pivots meet beyond this panel or before it, and so do for all of its rows.
        let last = panel.end - 1;
        let beyond = ballot_pair(meets.0 >= last, meets.1 >= last);
        let within = ballot_pair(meets.0 >= panel.start, meets.1 >= panel.start) & !beyond;
        let mut reach = (beyond, beyond);
        let mut compare = |b: u32, meet: u32| {
            reach.0 |= u64::from(meet >= x) << b;
            reach.1 |= u64::from(meet >= x_high) << b;
        };
        for_bits(within as u32, |b| {
            compare(b, warp::shuffle(warp::FULL_MASK, meets.0, b));
        });
        for_bits(high_half(within), |b| {
            compare(b + 32, warp::shuffle(warp::FULL_MASK, meets.1, b));
        });
        let (mut rows, mut pivots) = ((0, 0), (0, 0));
        if x < panel.end {
            rows.0 = x - panel.start;
            pivots.0 = low & reach.0;
        }
        if x_high < panel.end {
            rows.1 = x_high - panel.start;
            pivots.1 = high & reach.1;
        }
        let entries = ballot_pair(pivots.0 != 0, pivots.1 != 0);
        let all = reduce_or(pivots.0 | pivots.1);
        if all.count_ones() >= entries.count_ones() {
            return Part {
                by_pivots: false,
                who: entries,
                rows: rows.0 | rows.1 << 16,
                words: pivots,
            };
        }
        let mut words = (0, 0);
        for_bits(all, |b| {
            let low = ((pivots.0 >> b) & 1) << rows.0;
            let high = ((pivots.1 >> b) & 1) << rows.1;
            let theirs = reduce_or(low | high);
            if b == lane {
                words.0 = theirs;
            }
            if b == lane + 32 {
                words.1 = theirs;
            }
        });
        Part {
            by_pivots: true,
            who: all,
            rows: 0,
            words,
        }
    }

    /// The rows that have the entry with `word`, given what takes part. Every lane of the warp calls it.
    #[inline(always)]
    fn rows_with(self, part: Part, word: u64) -> u64 {
        let mut rows = 0;
        if part.by_pivots {
            let mut join = |b: u32, theirs: u64| {
                if has_bit(word, b) {
                    rows |= theirs;
                }
            };
            for_bits(part.who as u32, |b| {
                join(b, warp::shuffle(warp::FULL_MASK, part.words.0, b));
            });
            for_bits(high_half(part.who), |b| {
                join(b + 32, warp::shuffle(warp::FULL_MASK, part.words.1, b));
            });
        } else {
            let mut join = |k: u32, theirs: u64| {
                if theirs & word != 0 {
                    rows |= bit(k);
                }
            };
            for_bits(part.who as u32, |j| {
                let k = warp::shuffle(warp::FULL_MASK, part.rows, j) & 0xffff;
                join(k, warp::shuffle(warp::FULL_MASK, part.words.0, j));
            });
            for_bits(high_half(part.who), |j| {
                let k = warp::shuffle(warp::FULL_MASK, part.rows, j) >> 16;
                join(k, warp::shuffle(warp::FULL_MASK, part.words.1, j));
            });
        }
        rows
    }

    /// Adds what panel `e` brings on one side: this warp takes the group of 32 entries `first`, and every
    /// `step`-th after it. Every lane of the warp calls it.
    #[inline(always)]
    fn add_long(
        self,
        panel: Panel,
        base: Structure,
        slots: u32,
        e: usize,
        (side, is_child): (u32, bool),
        (first, step): (u32, u32),
    ) {
        let (at, len) = self.structure(e, side);
        if first * warp::WARP_SIZE >= len {
            return;
        }
        let part = self.taking_part(panel, e, side, is_child);
        if part.who == 0 {
            return;
        }
        let end = at + len;
        // A panel of the list may have entries before this one.
        let begin = if is_child {
            at
        } else {
            warp_lower_bound(self.index, at, end, panel.start)
        };
        let mut group = begin + first * warp::WARP_SIZE;
        while group < end {
            let t = group + thread::lane_id();
            let mut y = 0;
            let mut word = 0;
            if t < end {
                y = self.index.get(t as usize);
                word = self.mask.get(t as usize);
            }
            let rows = self.rows_with(part, word);
            if rows != 0 {
                self.add(panel, base, slots, side, y, rows);
            }
            group += step * warp::WARP_SIZE;
        }
    }

    /// As [`add_long`](Self::add_long), by one lane alone, for short structures.
    #[inline(always)]
    fn add_short(self, panel: Panel, base: Structure, slots: u32, e: usize, side: u32) {
        let live = self.live.get(e);
        let e_start = self.panel_start.get(e);
        let (own_at, own_len) = self.structure(e, side);
        let (other_at, other_len) = self.structure(e, 1 - side);
        let mut s = other_at;
        while s < other_at + other_len {
            let x = self.index.get(s as usize);
            if x >= panel.end {
                break;
            }
            if x >= panel.start {
                let pivots = self.pivots(e_start, live, s, x);
                let mut t = own_at;
                while pivots != 0 && t < own_at + own_len {
                    let y = self.index.get(t as usize);
                    if self.mask.get(t as usize) & pivots != 0 && y >= panel.start {
                        self.add(panel, base, slots, side, y, bit(x - panel.start));
                    }
                    t += 1;
                }
            }
            s += 1;
        }
    }

    /// Adds what one panel a lane brings on the sides from `first` to `last`; [`NONE`]: the lane has no panel. Every
    /// lane of the warp calls it. `team`: this warp's number among those that call it with the same panels, and
    /// how many these are. They share the long ones: each takes some, or some take each together.
    #[inline(always)]
    fn add_group(
        self,
        panel: Panel,
        base: Structure,
        slots: u32,
        e: u32,
        (first, last, is_child): (u32, u32, bool),
        (member, members): (u32, u32),
    ) {
        let mut is_long = false;
        if e != NONE && self.live.get(e as usize) != 0 {
            is_long = self.upper_len.get(e as usize) > SHORT
                || (self.sides == 2 && self.lower_len.get(e as usize) > SHORT);
            let mut side = first;
            while !is_long && member == 0 && side <= last {
                self.add_short(panel, base, slots, e as usize, side);
                side += 1;
            }
        }
        let lanes = warp::ballot(warp::FULL_MASK, is_long);
        // An item is a panel on one of its sides. As many warps to each as there are, a power of two.
        let two_sides = last - first;
        let items = lanes.count_ones() << two_sides;
        let mut log2 = 0;
        while items << (log2 + 1) <= members && items > 0 {
            log2 += 1;
        }
        let teams = members >> log2;
        let part = member & ((1 << log2) - 1);
        let mut turn = member >> log2;
        let mut item = 0;
        for_bits(lanes, |lane| {
            let e = warp::shuffle(warp::FULL_MASK, e, lane) as usize;
            let mut side = first;
            while side <= last {
                if item == turn {
                    self.add_long(panel, base, slots, e, (side, is_child), (part, 1 << log2));
                    turn += teams;
                }
                item += 1;
                side += 1;
            }
        });
    }

    /// Adds all panels that take part, the one that is the base excepted. Whole warps call it.
    #[inline(always)]
    fn add_panels(self, panel: Panel, base: Structure, slots: u32, skip: u64) {
        let lane = thread::lane_id();
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        let warps = thread::block_dim_x() / warp::WARP_SIZE;
        let skipped = if skip != NOBODY && (skip >> 32) & 1 == 0 {
            skip as u32
        } else {
            NONE
        };
        let (first, end) = panel.children;
        // Few children are looked at by all warps, which share the long ones; many are dealt out.
        let all = end - first <= 4 * warps * warp::WARP_SIZE;
        let mut group = if all {
            first
        } else {
            first + warp * warp::WARP_SIZE
        };
        // Then the lists: half of the warps for each side, if there is another.
        let halves = if self.sides == 2 && warps > 1 { 1 } else { 0 };
        let mut side = warp & halves;
        let head = |side: u32| {
            if side == 0 {
                panel.heads.0
            } else {
                panel.heads.1
            }
        };
        let mut node = head(side);
        // Who is the first of the team changes from group to group.
        let mut turn = 0;
        loop {
            let mut e = NONE;
            let mut sides = (0, self.sides - 1, true);
            let mut team = if all { (warp, warps) } else { (0, 1) };
            if group < end {
                if group + lane < end {
                    e = self.child.get((group + lane) as usize);
                }
                if e == skipped {
                    e = NONE;
                }
                let step = if all { 1 } else { warps };
                group += step * warp::WARP_SIZE;
            } else {
                if node == NONE {
                    side += 1 + halves;
                    if side >= self.sides {
                        break;
                    }
                    node = head(side);
                    continue;
                }
                // All lanes walk along 32 nodes, each keeps one.
                let mut j = 0;
                while j < warp::WARP_SIZE && node != NONE {
                    if j == lane {
                        e = self.node_panel.get(node as usize);
                    }
                    node = self.node_next.get(node as usize);
                    j += 1;
                }
                sides = (side, side, false);
                team = (warp >> halves, (warps + (halves & !side)) >> halves);
            }
            let (member, members) = team;
            turn = if turn < members { turn } else { 0 };
            let member = if member >= turn {
                member - turn
            } else {
                member + members - turn
            };
            self.add_group(panel, base, slots, e, sides, (member, members));
            turn += 1;
        }
    }

    /// Where the lanes k and k + 1 of B begin, which lie in the panel, and their lengths: zero beyond its end.
    #[inline(always)]
    fn pair(self, panel: Panel, side: u32, k: u32) -> ((u64, u64), (u64, u64)) {
        let ptr = self.lanes(side).ptr;
        let at = (panel.start + k) as usize;
        let (mut begin, mut len) = ((0, 0), (0, 0));
        if panel.start + k < panel.end {
            begin.0 = ptr.get(at);
            begin.1 = ptr.get(at + 1);
            len.0 = begin.1 - begin.0;
            if panel.start + k + 1 < panel.end {
                len.1 = ptr.get(at + 2) - begin.1;
            }
        }
        (begin, len)
    }

    /// Adds the entries of B in the panel's rows and columns, the lane that is the base excepted. Every thread
    /// of the block calls it.
    #[inline(always)]
    fn add_entries(self, panel: Panel, base: Structure, slots: u32, skip: u64) {
        let tid = thread::thread_idx_x();
        let threads = thread::block_dim_x();
        let mut first = tid;
        // The lanes of both sides, a warp each.
        while first / warp::WARP_SIZE < self.sides {
            let side = first / warp::WARP_SIZE;
            let lane = first % warp::WARP_SIZE;
            let k = 2 * lane;
            let (begin, mut count) = self.pair(panel, side, k);
            if (skip >> 32) & 1 != 0 {
                let base = skip as u32;
                if base == side * PANEL + k {
                    count.0 = 0;
                }
                if base == side * PANEL + k + 1 {
                    count.1 = 0;
                }
            }
            let mut sum = (count.0 + count.1) as u32;
            let mut delta = 1;
            while delta < warp::WARP_SIZE {
                let below = warp::shuffle_up(warp::FULL_MASK, sum, delta);
                if lane >= delta {
                    sum += below;
                }
                delta <<= 1;
            }
            let at = (side * PANEL + k) as usize;
            self.lane_begin.set(at, begin.0);
            self.lane_begin.set(at + 1, begin.1);
            let at = (side * (PANEL + 1) + k) as usize;
            self.lane_before.set(at, sum - (count.0 + count.1) as u32);
            self.lane_before.set(at + 1, sum - count.1 as u32);
            if lane == warp::WARP_SIZE - 1 {
                self.lane_before.set(at + 2, sum);
            }
            first += threads;
        }
        thread::sync_threads();
        let of_rows = self.lane_before.get(PANEL as usize);
        let mut total = of_rows;
        if self.sides == 2 {
            total += self.lane_before.get((2 * PANEL + 1) as usize);
        }
        let mut f = tid;
        while f < total {
            let side = (f >= of_rows) as u32;
            let g = if side == 0 { f } else { f - of_rows };
            let before = (side * (PANEL + 1)) as usize;
            // The last lane with no more than g entries before it.
            let mut k = 0;
            let mut half = PANEL / 2;
            while half > 0 {
                if self.lane_before.get(before + (k + half) as usize) <= g {
                    k += half;
                }
                half >>= 1;
            }
            let p = self.lane_begin.get((side * PANEL + k) as usize)
                + u64::from(g - self.lane_before.get(before + k as usize));
            let y = self.lanes(side).idx.get(p as usize);
            if y >= panel.start {
                self.add(panel, base, slots, side, y, bit(k));
            }
            f += threads;
        }
    }

    /// Sum of the lengths of children and lanes of B, and the longest of them. Every thread of the block calls it, and
    /// gets the same answer: each warp looks at all of them, which takes no barrier, unless they are many.
    #[inline(always)]
    fn survey(self, panel: Panel) -> (u64, u64) {
        let lane = thread::lane_id();
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        let warps = thread::block_dim_x() / warp::WARP_SIZE;
        let share = panel.children.1 - panel.children.0 > MANY;
        let (first, step) = if share { (warp, warps) } else { (0, 1) };
        let mut sum = 0;
        let mut longest = NOBODY;
        let mut side = 0;
        while side < self.sides && first == 0 {
            let k = 2 * lane;
            let (_, len) = self.pair(panel, side, k);
            sum += len.0 + len.1;
            let mut it = contributor(len.0, true, side * PANEL + k);
            if len.1 >= len.0 {
                it = contributor(len.1, true, side * PANEL + k + 1);
            }
            if it > longest {
                longest = it;
            }
            side += 1;
        }
        let mut i = panel.children.0 + first * warp::WARP_SIZE + lane;
        while i < panel.children.1 {
            let e = self.child.get(i as usize);
            let live = self.live.get(e as usize);
            let mut len = u64::from(self.upper_len.get(e as usize));
            if self.sides == 2 {
                len += u64::from(self.lower_len.get(e as usize));
            }
            if live != 0 {
                sum += len;
                let it = contributor(len, false, e);
                if it > longest {
                    longest = it;
                }
            }
            i += step * warp::WARP_SIZE;
        }
        let (mut sum, mut longest) = (warp_sum(sum), warp_max(longest));
        if share {
            if lane == 0 {
                self.found.set(2 * warp as usize, sum);
                self.found.set(2 * warp as usize + 1, longest);
            }
            thread::sync_threads();
            sum = 0;
            longest = NOBODY;
            let mut w = 0;
            while w < warps {
                sum += self.found.get(2 * w as usize);
                let it = self.found.get(2 * w as usize + 1);
                if it > longest {
                    longest = it;
                }
                w += 1;
            }
            thread::sync_threads();
        }
        (sum, longest)
    }

    /// Room for `len` entries of the pool, where thread 0's `room` begins, or [`NONE`] if the pool is too small.
    /// Every thread of the block calls it. The room is kept by whoever moves `room.at` beyond it.
    #[inline(always)]
    fn room(self, len: u64, room: &mut Room) -> u32 {
        if thread::thread_idx_x() == 0 {
            // The capacity of the pool is below 2³² entries.
            let capacity = self.index.len() as u64;
            let mut at = room.at;
            if u64::from(room.end - room.at) < len {
                // More than is needed now, since what is left of a piece is lost.
                let least = 256;
                let take = if 4 * len > least { 4 * len } else { least };
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
        thread::sync_threads();
        at
    }

    /// Where this thread's entry goes among those of the block's threads that `keep` theirs, and how many these
    /// are. Every thread of the block calls it. `turn` alternates, so that one barrier is enough.
    #[inline(always)]
    fn compact(self, keep: bool, turn: &mut u32) -> (u32, u32) {
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        let warps = thread::block_dim_x() / warp::WARP_SIZE;
        let lanes = warp::ballot(warp::FULL_MASK, keep);
        let first = (*turn * MAX_WARPS as u32) as usize;
        *turn = 1 - *turn;
        if thread::lane_id() == 0 {
            self.kept.set(first + warp as usize, lanes.count_ones());
        }
        // The next but one call writes these words again, behind the next one's barrier.
        thread::sync_threads();
        let mut before = (lanes & lanes_below()).count_ones();
        let mut total = 0;
        let mut w = 0;
        while w < warps {
            let count = self.kept.get(first + w as usize);
            if w < warp {
                before += count;
            }
            total += count;
            w += 1;
        }
        (before, total)
    }

    /// Writes an entry of the base.
    #[inline(always)]
    fn set_base(self, at: u32, place: u32, y: u32, rows: u64) {
        self.index.set((at + place) as usize, y);
        self.mask.set((at + place) as usize, rows);
        if place < NEAR as u32 {
            self.near.set(place as usize, y);
        }
    }

    /// Writes what the contributor `it` brings to the pool from `at` on: the base. Every thread of the block calls
    /// it.
    #[inline(always)]
    fn make_base(self, panel: Panel, it: u64, at: u32) -> Structure {
        let tid = thread::thread_idx_x();
        let threads = thread::block_dim_x();
        let which = it as u32;
        let mut base = Structure {
            at,
            upper: 0,
            len: 0,
        };
        let mut turn = 0;
        if (it >> 32) & 1 != 0 {
            let side = which / PANEL;
            let k = which % PANEL;
            let lanes = self.lanes(side);
            let begin = lanes.ptr.get((panel.start + k) as usize);
            let len = lanes.ptr.get((panel.start + k) as usize + 1) - begin;
            let mut group = 0;
            while group < len {
                let t = group + u64::from(tid);
                let mut y = 0;
                if t < len {
                    y = lanes.idx.get((begin + t) as usize);
                    if y >= panel.start && y < panel.end {
                        self.add_inside(panel, side, y, bit(k));
                    }
                }
                let (place, total) = self.compact(y >= panel.end, &mut turn);
                if y >= panel.end {
                    self.set_base(at, base.len + place, y, bit(k));
                }
                base.len += total;
                group += u64::from(threads);
            }
            if side == 0 {
                base.upper = base.len;
            }
        } else {
            let e = which as usize;
            let mut side = 0;
            while side < self.sides {
                let part = self.taking_part(panel, e, side, true);
                let (own_at, own_len) = self.structure(e, side);
                // All warps hold the same, so the barriers in `compact` are reached by all.
                let mut group = if part.who == 0 { own_len } else { 0 };
                while group < own_len {
                    let t = group + tid;
                    let mut y = 0;
                    let mut word = 0;
                    if t < own_len {
                        y = self.index.get((own_at + t) as usize);
                        word = self.mask.get((own_at + t) as usize);
                    }
                    let rows = self.rows_with(part, word);
                    if rows != 0 && y < panel.end {
                        self.add_inside(panel, side, y, rows);
                    }
                    let keep = rows != 0 && y >= panel.end;
                    let (place, total) = self.compact(keep, &mut turn);
                    if keep {
                        self.set_base(at, base.len + place, y, rows);
                    }
                    base.len += total;
                    group += threads;
                }
                if side == 0 {
                    base.upper = base.len;
                }
                side += 1;
            }
        }
        thread::sync_threads();
        base
    }

    /// Sorts what is in the table, whose keys are `count`: `sorted` then holds each key, in the upper half, with its
    /// slot. Every thread of the block calls it.
    #[inline(always)]
    fn sort_table(self, slots: u32, count: u32) {
        if thread::thread_idx_x() == 0 {
            self.state.set(COUNT, 0);
        }
        thread::sync_threads();
        let tid = thread::thread_idx_x();
        let threads = thread::block_dim_x();
        let mut first = 0;
        while first <= slots {
            let slot = first + tid;
            let mut key = EMPTY;
            if slot <= slots {
                key = self.keys.get(slot as usize);
            }
            // One atomic a warp.
            let lanes = warp::ballot(warp::FULL_MASK, key != EMPTY);
            let mut place = 0;
            if thread::lane_id() == 0 && lanes != 0 {
                place = self.state.atomic(COUNT).fetch_add(
                    lanes.count_ones(),
                    Ordering::Relaxed,
                    Scope::Block,
                );
            }
            place = warp::shuffle(warp::FULL_MASK, place, 0) + (lanes & lanes_below()).count_ones();
            if key != EMPTY {
                self.found.set(place as usize, joined(slot, key));
            }
            first += threads;
        }
        thread::sync_threads();
        if count > threads / 2 {
            bitonic_sort(SharedKeys(self.found), count as usize);
            for i in thread::block_stride(count as usize) {
                self.sorted.set(i, self.found.get(i));
            }
        } else {
            // Each key counts those below it: more comparisons than a network, but no barriers between them. Two
            // threads and more share a key, next to each other in a warp.
            let mut log2 = 1;
            while count << (log2 + 1) <= threads && log2 < 5 {
                log2 += 1;
            }
            let share = 1 << log2;
            let part = tid & (share - 1);
            let i = (tid >> log2) as usize;
            let mut below = 0;
            let mut entry = 0;
            if i < count as usize {
                entry = self.found.get(i);
                let mut j = part;
                while j < count {
                    below += (self.found.get(j as usize) < entry) as u32;
                    j += share;
                }
            }
            let mut lanes = 1;
            while lanes < share {
                below += warp::shuffle_xor(warp::FULL_MASK, below, lanes);
                lanes *= 2;
            }
            if i < count as usize && part == 0 {
                self.sorted.set(below as usize, entry);
            }
        }
        thread::sync_threads();
    }

    /// How many of the `count` sorted keys are below `key`.
    #[inline(always)]
    fn sorted_below(self, count: u32, key: u32) -> u32 {
        lower_bound(0, count, |i| {
            (self.sorted.get(i as usize) >> 32) < u64::from(key)
        })
    }

    /// Merges the base with the `count` sorted keys, whose words are still in the table, to the pool from `out` on.
    /// Every thread of the block calls it.
    #[inline(always)]
    fn merge(self, base: Structure, count: u32, out: u32) -> Structure {
        for i in thread::block_stride(base.len as usize) {
            let y = self.index.get(base.at as usize + i);
            let side = (i >= base.upper as usize) as u32;
            let place = i + (out + self.sorted_below(count, key_of(y, side))) as usize;
            self.index.set(place, y);
            self.mask.set(place, self.mask.get(base.at as usize + i));
        }
        for j in thread::block_stride(count as usize) {
            let entry = self.sorted.get(j);
            let key = (entry >> 32) as u32;
            let y = key & !(1 << 31);
            let (begin, end) = if key == y {
                (0, base.upper)
            } else {
                (base.upper, base.len)
            };
            let place = j + (out + self.find(base, begin, end, y).0) as usize;
            self.index.set(place, y);
            self.mask.set(place, self.words.get(entry as u32 as usize));
        }
        let merged = Structure {
            at: out,
            upper: base.upper + self.sorted_below(count, 1 << 31),
            len: base.len + count,
        };
        thread::sync_threads();
        merged
    }

    /// Moves a structure to an earlier place, and its first entries near. Every thread of the block calls it.
    #[inline(always)]
    fn move_down(self, from: Structure, at: u32) -> Structure {
        let mut group = 0;
        while group < from.len {
            let t = group + thread::thread_idx_x();
            let (mut y, mut word) = (0, 0);
            if t < from.len {
                y = self.index.get((from.at + t) as usize);
                word = self.mask.get((from.at + t) as usize);
            }
            thread::sync_threads();
            if t < from.len {
                self.set_base(at, t, y, word);
            }
            group += thread::block_dim_x();
        }
        thread::sync_threads();
        Structure { at, ..from }
    }

    /// Collects the structure of the panel, words not yet closed. Every thread of the block calls it.
    #[inline(always)]
    fn gather(self, panel: Panel, room: &mut Room) -> Structure {
        let tid = thread::thread_idx_x();
        let (all, mut it) = self.survey(panel);
        if it >> 33 < u64::from(self.base_min) {
            it = NOBODY;
        }
        let mut base = Structure {
            at: self.room(it >> 33, room),
            upper: 0,
            len: 0,
        };
        if base.at == NONE {
            return Structure { at: 0, ..base };
        }
        if it != NOBODY {
            base = self.make_base(panel, it, base.at);
        }
        if tid == 0 {
            room.at = base.at + base.len;
        }
        // Keys that the table may have to take: lists are not counted.
        let mut wanted = self.limit;
        let has_list = panel.heads.0 != NONE || panel.heads.1 != NONE;
        if !has_list && all - (it >> 33) < u64::from(wanted) {
            wanted = (all - (it >> 33)) as u32;
        }
        // Room for those that come after the table is full, too.
        let most = 2 * (wanted + thread::block_dim_x());
        let mut slots = 63;
        while slots + 1 < most && slots < SLOTS as u32 - 1 {
            slots = 2 * slots + 1;
        }
        loop {
            for slot in thread::block_stride(slots as usize + 1) {
                self.keys.set(slot, EMPTY);
                self.words.set(slot, 0);
            }
            if tid == 0 {
                self.state.set(COUNT, 0);
                self.state.set(FULL, 0);
            }
            thread::sync_threads();
            self.add_entries(panel, base, slots, it);
            self.add_panels(panel, base, slots, it);
            thread::sync_threads();
            let count = self.state.get(COUNT);
            let full = self.state.get(FULL);
            thread::sync_threads();
            if count == 0 {
                return base;
            }
            let out = self.room(u64::from(base.len) + u64::from(count), room);
            if out == NONE {
                return Structure {
                    at: 0,
                    upper: 0,
                    len: 0,
                };
            }
            self.sort_table(slots, count);
            let merged = self.merge(base, count, out);
            // To the place of the base, which is not needed any more, if that lies just before.
            let at = if base.at + base.len == out {
                base.at
            } else {
                out
            };
            base = self.move_down(merged, at);
            if tid == 0 {
                room.at = base.at + base.len;
            }
            if full == 0 {
                return base;
            }
        }
    }

    /// Puts this panel into the lists of the panels beyond its parent in which live pivots take part, by the
    /// entries `at..at + len` of the other side. `last`: what they bring ends there.
    #[inline(always)]
    fn push(
        self,
        panel: Panel,
        side: u32,
        (at, len): (u32, u32),
        beyond: u32,
        last: u32,
        live: u64,
    ) {
        let takes_part = |t: u32, x: u32| {
            let mut any = false;
            for_bits(self.mask.get((at + t) as usize) & live, |b| {
                any |= self.met.get(b as usize) >= x;
            });
            any
        };
        for t in thread::block_stride(len as usize) {
            let t = t as u32;
            let x = self.index.get((at + t) as usize);
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
                let y = self.index.get((at + u) as usize);
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
                    let next = self.head(side).atomic(target).swap(
                        node as u32,
                        Ordering::Relaxed,
                        Scope::Device,
                    );
                    self.node_next.set(node as usize, next);
                }
            }
        }
    }
}

/// The filled pattern of a panel's diagonal block of order `width`, a matrix of bits of which each lane of a warp holds
/// the rows `lane` and `lane + 32`; rows beyond `width` are zero. Every lane of the warp calls it.
///
/// Four pivots at once: their rows go to all lanes, and each lane eliminates them among themselves, then from
/// its own rows. One shuffle after another would take four times as long.
#[inline(always)]
fn eliminate((low, high): (u64, u64), width: u32) -> (u64, u64) {
    const PIVOTS: usize = 4;
    let lane = thread::lane_id();
    let (mut low, mut high) = (low, high);
    let mut first = 0;
    while first < width {
        let mut theirs = [0; PIVOTS];
        let source = if first < 32 { low } else { high };
        let mut j = 0;
        while j < PIVOTS {
            theirs[j] = warp::shuffle(warp::FULL_MASK, source, first + j as u32);
            j += 1;
        }
        let mut i = 0;
        while i < PIVOTS {
            let pivot = first + i as u32;
            let row = theirs[i] & above(pivot);
            let mut j = i + 1;
            while j < PIVOTS {
                if has_bit(theirs[j], pivot) {
                    theirs[j] |= row;
                }
                j += 1;
            }
            if lane > pivot && has_bit(low, pivot) {
                low |= row;
            }
            if lane + 32 > pivot && has_bit(high, pivot) {
                high |= row;
            }
            i += 1;
        }
        first += PIVOTS as u32;
    }
    (low, high)
}

/// Structures of L and U of the `num_panels[0]` panels, see the module.
///
/// `symmetric` not zero: the pattern of B is symmetric, and so is that of L+U; then only upper structures are
/// made, and `col_ptr`, `row_idx`, `lower_len` and `lower_head` are not used. `limit` (at most [`ROUND`]): keys
/// from which the table is full. `base_min`: shortest contributor that becomes a base. Neither changes the result.
///
/// Threads: a block a panel, taken from `counters[0]`; then its parent, if it was the last to finish. Within a
/// block: warps over the panels below, lanes over their entries, or over short panels; threads over entries of B, slots and
/// entries of structures; lanes of warp 0 over the rows of the diagonal block, two each. Writes and their order: see the
/// module. A list's nodes are pushed by atomic exchange of its head, and read when all who push have
/// finished. Shared memory: 47 KiB.
///
/// Launch: 1-D, blocks of a multiple of 32 threads. Preconditions: rows and columns of B increase
/// strictly; panels, parents and children are those of [`etree`](super::etree); `waiting` holds the number of
/// children; `counters` is zero, heads are [`NONE`]. After it, the structures hold if `counters` asked for
/// no more than there is.
#[kernel(
    max_threads(512),
    min_blocks(1),
    require(
        limit >= 1,
        limit as usize <= ROUND,
        base_min >= 1,
        panel_of.len() < MAX_ORDER,
        counters.len() == COUNTERS,
        num_panels.len() == 1,
        row_ptr.len() == panel_of.len() + 1,
        diagonal.len() == panel_of.len(),
        meets.len() == panel_of.len(),
        mask.len() == index.len(),
        node_panel.len() == node_next.len(),
        panel_start.len() == waiting.len() + 1,
        child_ptr.len() == waiting.len() + 1,
        panel_parent.len() == waiting.len(),
        at.len() == waiting.len(),
        upper_len.len() == waiting.len(),
        upper_head.len() == waiting.len(),
        live.len() == waiting.len(),
        symmetric != 0 || col_ptr.len() == row_ptr.len(),
        symmetric != 0 || lower_len.len() == waiting.len(),
        symmetric != 0 || lower_head.len() == waiting.len()
    )
)]
pub unsafe fn eliminate_panels(
    symmetric: u32,
    limit: u32,
    base_min: u32,
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    col_ptr: Global<u64>,
    row_idx: Global<u32>,
    num_panels: Global<u32>,
    panel_start: Global<u32>,
    panel_of: Global<u32>,
    panel_parent: Global<u32>,
    child_ptr: Global<u64>,
    child: Global<u32>,
    waiting: GlobalMut<u32>,
    counters: GlobalMut<u64>,
    index: GlobalMut<u32>,
    mask: GlobalMut<u64>,
    at: GlobalMut<u32>,
    upper_len: GlobalMut<u32>,
    lower_len: GlobalMut<u32>,
    upper_head: GlobalMut<u32>,
    lower_head: GlobalMut<u32>,
    node_panel: GlobalMut<u32>,
    node_next: GlobalMut<u32>,
    diagonal: GlobalMut<u64>,
    meets: GlobalMut<u32>,
    live: GlobalMut<u64>,
) {
    let keys = shared_array![u32; SLOTS];
    let words = Words(shared_array![u32; 2 * SLOTS]);
    let found = shared_array![u64; KEYS];
    let sorted = shared_array![u64; KEYS];
    let near = shared_array![u32; NEAR];
    let state = shared_array![u32; STATE];
    let kept = shared_array![u32; 2 * MAX_WARPS];
    // Of the diagonal block: entries by columns and by rows, then which rows and columns a pivot's are joined to.
    let joins_upper = Words(shared_array![u32; 2 * PANEL as usize]);
    let joins_lower = Words(shared_array![u32; 2 * PANEL as usize]);
    // Pivots with entries beyond the panel: of U, of L.
    let reaching = Words(shared_array![u32; 4]);
    let met = shared_array![u32; PANEL as usize];
    let lane_begin = shared_array![u64; 2 * PANEL as usize];
    let lane_before = shared_array![u32; 2 * (PANEL as usize + 1)];
    let is_symmetric = symmetric != 0;
    let block = Block {
        sides: if is_symmetric { 1 } else { 2 },
        limit,
        base_min,
        rows: Lanes {
            ptr: row_ptr,
            idx: col_idx,
        },
        columns: Lanes {
            ptr: col_ptr,
            idx: row_idx,
        },
        panel_start,
        panel_of,
        panel_parent,
        child_ptr,
        child,
        counters,
        index,
        mask,
        at,
        upper_len,
        lower_len,
        upper_head,
        lower_head,
        node_panel,
        node_next,
        meets,
        live,
        keys,
        words,
        found,
        sorted,
        near,
        state,
        kept,
        inside_columns: joins_upper,
        inside_rows: joins_lower,
        met,
        lane_begin,
        lane_before,
    };
    let tid = thread::thread_idx_x();
    let lane = thread::lane_id();
    let panels = num_panels.get(0);
    if thread::index_1d() == 0 {
        counters.set(PANELS, u64::from(panels));
    }
    let mut room = Room { at: 0, end: 0 };
    loop {
        thread::sync_threads();
        if tid == 0 {
            let next = counters.atomic(NEXT_PANEL);
            let q = next.fetch_add(1, Ordering::Relaxed, Scope::Device);
            state.set(
                NOW,
                if q < u64::from(panels) {
                    q as u32
                } else {
                    NONE
                },
            );
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
            let panel = block.panel(q as usize);
            let parent = panel.parent;
            let width = panel.end - panel.start;
            for k in thread::block_stride(PANEL as usize) {
                joins_upper.set(k, 0);
                joins_lower.set(k, if k < width as usize { 1 << k } else { 0 });
                met.set(k, NONE);
            }
            if tid == 0 {
                reaching.set(0, 0);
                reaching.set(1, 0);
            }
            // The barriers in `gather` order these writes before their uses.
            let it = block.gather(panel, &mut room);
            thread::sync_threads();

            // The diagonal block: elimination of a matrix of bits, two rows a lane.
            if tid < warp::WARP_SIZE {
                let (k, k_high) = (lane as usize, lane as usize + 32);
                let by_columns = (joins_upper.get(k), joins_upper.get(k_high));
                let by_rows = (joins_lower.get(k), joins_lower.get(k_high));
                let turned = transposed_pair(by_columns.0, by_columns.1);
                let mut row = (turned.0 | by_rows.0, turned.1 | by_rows.1);
                if is_symmetric {
                    row = (row.0 | by_columns.0, row.1 | by_columns.1);
                }
                row = eliminate(row, width);
                let mut column = row;
                if !is_symmetric {
                    column = transposed_pair(row.0, row.1);
                }
                // Row k of U is joined to the rows with an entry in column k of L, and mirrored.
                joins_upper.set(k, column.0 & above(lane));
                joins_upper.set(k_high, column.1 & above(lane + 32));
                joins_lower.set(k, row.0 & above(lane));
                joins_lower.set(k_high, row.1 & above(lane + 32));
                if lane < width {
                    diagonal.set(panel.start as usize + k, row.0);
                }
                if lane + 32 < width {
                    diagonal.set(panel.start as usize + k_high, row.1);
                }
            }
            thread::sync_threads();

            let pivots = u64::MAX >> (PANEL - width);
            let mut all_upper = 0;
            let mut all_lower = 0;
            for t in thread::block_stride(it.len as usize) {
                let is_upper = (t as u32) < it.upper;
                let joins = if is_upper { joins_upper } else { joins_lower };
                let cell = it.at as usize + t;
                let mut word = mask.get(cell);
                // All pivots from the lowest one on: then there is nothing to add.
                let whole = (word & word.wrapping_neg()).wrapping_neg() & pivots;
                let mut rest = word;
                while rest != 0 && word != whole {
                    let k = rest.trailing_zeros();
                    rest &= rest - 1;
                    let new = joins.get(k as usize) & !word;
                    word |= new;
                    rest |= new;
                }
                mask.set(cell, word);
                if is_upper {
                    all_upper |= word;
                } else {
                    all_lower |= word;
                }
            }
            let all_upper = reduce_or(all_upper);
            let all_lower = reduce_or(all_lower);
            if lane == 0 {
                reaching.join(0, all_upper);
                reaching.join(1, all_lower);
            }
            thread::sync_threads();

            // Pivots that do not meet inside and reach beyond with both: where do they meet?
            let mut alive = reaching.get(0);
            if !is_symmetric {
                alive &= reaching.get(1);
            }
            let meets_inside = |k: usize| joins_upper.get(k) & joins_lower.get(k) != 0;
            alive &= !ballot_pair(
                meets_inside(lane as usize),
                meets_inside(lane as usize + 32),
            );
            let mut open = alive;
            let mut base = 0;
            while open != 0 && base < it.upper {
                let t = base + tid;
                let (mut x, mut both) = (0, 0);
                if t < it.upper {
                    x = index.get((it.at + t) as usize);
                    both = mask.get((it.at + t) as usize) & open;
                    if both != 0 && !is_symmetric {
                        // Where the structure is nearly symmetric, at the same place.
                        let end = it.at + it.len;
                        let mut mirrored = it.at + it.upper + t;
                        if mirrored >= end || index.get(mirrored as usize) != x {
                            mirrored =
                                lower_bound(it.at + it.upper, end, |s| index.get(s as usize) < x);
                        }
                        both &= if mirrored < end && index.get(mirrored as usize) == x {
                            mask.get(mirrored as usize)
                        } else {
                            0
                        };
                    }
                }
                // Entries increase from lane to lane: the first one with a pivot speaks for the warp.
                for_bits(open, |b| {
                    let lanes = warp::ballot(warp::FULL_MASK, has_bit(both, b));
                    if lanes != 0 && lane == lanes.trailing_zeros() {
                        met.atomic(b as usize)
                            .fetch_min(x, Ordering::Relaxed, Scope::Block);
                    }
                });
                base += thread::block_dim_x();
                thread::sync_threads();
                open &= ballot_pair(
                    met.get(lane as usize) == NONE,
                    met.get(lane as usize + 32) == NONE,
                );
                // Nobody lowers `met` again before all have read it.
                thread::sync_threads();
            }
            let meet = |k: u32| {
                if has_bit(alive, k) {
                    met.get(k as usize)
                } else {
                    0
                }
            };
            let (low, high) = (meet(lane), meet(lane + 32));
            if tid < warp::WARP_SIZE {
                let k = (panel.start + lane) as usize;
                if lane < width {
                    meets.set(k, low);
                }
                if lane + 32 < width {
                    meets.set(k + 32, high);
                }
            }
            let farthest = if low > high { low } else { high };
            let farthest = warp::reduce_max(warp::FULL_MASK, farthest);
            if tid == 0 {
                live.set(panel.q, alive);
                at.set(panel.q, it.at);
                upper_len.set(panel.q, it.upper);
                if !is_symmetric {
                    lower_len.set(panel.q, it.len - it.upper);
                }
            }
            if alive != 0 && parent != NONE {
                let beyond = panel_start.get(parent as usize + 1);
                if farthest >= beyond {
                    // A row takes part only while there are columns beyond it, and mirrored.
                    let upper = (it.at, it.upper);
                    let last_column = index.get((it.at + it.upper) as usize - 1);
                    if is_symmetric {
                        block.push(panel, 0, upper, beyond, last_column, alive);
                    } else {
                        let lower = (it.at + it.upper, it.len - it.upper);
                        let last_row = index.get((it.at + it.len) as usize - 1);
                        block.push(panel, 0, lower, beyond, last_column, alive);
                        block.push(panel, 1, upper, beyond, last_row, alive);
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
