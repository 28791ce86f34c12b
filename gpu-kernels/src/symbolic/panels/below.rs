//! What the panels below bring: children, and those in the panel's lists.

use luge_kernel::prelude::*;

use super::base::NOBODY;
use super::block::{Block, Panel, Structure};
use crate::bits::{ballot_pair, bit, for_bits, has_bit, high_half, reduce_or};
use crate::symbolic::etree::NONE;

/// Structures of at most this length are added by a single lane.
const SHORT: u32 = 8;

/// First position in `begin..end` of the increasing part of `index` whose entry is at least `key`, as
/// [`lower_bound`](crate::search::lower_bound) finds it, by a warp together: a round of loads for every five bits of the
/// length. Every lane calls it, with the same arguments.
#[inlined]
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

/// In which rows of a panel, or columns, the pivots of another take part; a piece in each lane of a warp.
///
/// There are two ways to hold it, and the shorter is taken: an entry of the other panel's structure is a row, with
/// a word of pivots; or each of those pivots has a word of rows.
#[derive(Clone, Copy)]
pub(super) struct Part {
    by_pivots: bool,
    /// Which of the entries hold anything, or the pivots. None: nothing takes part.
    pub(super) who: u64,
    /// The rows of entries `lane` and `lane + 32`, in a half each.
    rows: u32,
    /// The words of `lane` and `lane + 32`.
    words: (u64, u64),
}

impl Block {
    /// The live pivots of panel `e` that take part in row `x` of this panel, whose word in the structure of `e` is at
    /// `at`.
    #[inlined]
    fn pivots(self, e_start: u32, live: u64, at: u32, x: u32) -> u64 {
        let mut pivots = 0;
        for_bits(self.made.mask.get(at as usize) & live, |b| {
            if self.links.meets.get((e_start + b) as usize) >= x {
                pivots |= bit(b);
            }
        });
        pivots
    }

    /// In which rows of this panel, or columns, pivots of panel `e` take part. Every lane of the warp calls it, and
    /// gets its part of the answer. `is_child`: the structures of `e` begin in this panel or beyond it.
    #[inlined]
    pub(super) fn taking_part(self, panel: Panel, e: usize, side: u32, is_child: bool) -> Part {
        let lane = thread::lane_id();
        let live = self.links.live.get(e);
        let e_start = self.panels.panel_start.get(e);
        // Where the pivots `lane` and `lane + 32` of e meet: zero if they are not live.
        let mut meets = (0, 0);
        if has_bit(live, lane) {
            meets.0 = self.links.meets.get((e_start + lane) as usize);
        }
        if has_bit(live, lane + 32) {
            meets.1 = self.links.meets.get((e_start + lane) as usize + 32);
        }
        let (other_at, other_len) = self.structure(e, 1 - side);
        let end = other_at + other_len;
        let first = if is_child {
            other_at
        } else {
            warp_lower_bound(self.made.index, other_at, end, panel.start)
        };
        // The entries in this panel are among the next 64: two a lane.
        let entry = |at: u32| {
            if at < end {
                (
                    self.made.index.get(at as usize),
                    self.made.mask.get(at as usize),
                )
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
    #[inlined]
    pub(super) fn rows_with(self, part: Part, word: u64) -> u64 {
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
    #[inlined]
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
            warp_lower_bound(self.made.index, at, end, panel.start)
        };
        let mut group = begin + first * warp::WARP_SIZE;
        while group < end {
            let t = group + thread::lane_id();
            let mut y = 0;
            let mut word = 0;
            if t < end {
                y = self.made.index.get(t as usize);
                word = self.made.mask.get(t as usize);
            }
            let rows = self.rows_with(part, word);
            if rows != 0 {
                self.add(panel, base, slots, side, y, rows);
            }
            group += step * warp::WARP_SIZE;
        }
    }

    /// As [`add_long`](Self::add_long), by one lane alone, for short structures.
    #[inlined]
    fn add_short(self, panel: Panel, base: Structure, slots: u32, e: usize, side: u32) {
        let live = self.links.live.get(e);
        let e_start = self.panels.panel_start.get(e);
        let (own_at, own_len) = self.structure(e, side);
        let (other_at, other_len) = self.structure(e, 1 - side);
        let mut s = other_at;
        while s < other_at + other_len {
            let x = self.made.index.get(s as usize);
            if x >= panel.end {
                break;
            }
            if x >= panel.start {
                let pivots = self.pivots(e_start, live, s, x);
                let mut t = own_at;
                while pivots != 0 && t < own_at + own_len {
                    let y = self.made.index.get(t as usize);
                    if self.made.mask.get(t as usize) & pivots != 0 && y >= panel.start {
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
    #[inlined]
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
        if e != NONE && self.links.live.get(e as usize) != 0 {
            is_long = self.made.upper_len.get(e as usize) > SHORT
                || (self.sides == 2 && self.made.lower_len.get(e as usize) > SHORT);
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
    #[inlined]
    pub(super) fn add_panels(self, panel: Panel, base: Structure, slots: u32, skip: u64) {
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
                    e = self.panels.child.get((group + lane) as usize);
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
                        e = self.links.node_panel.get(node as usize);
                    }
                    node = self.links.node_next.get(node as usize);
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
}
