//! The base: the longest of all that contribute.

use luge_kernel::prelude::*;

use super::block::{Block, MAX_WARPS, NEAR, Panel, Structure};
use crate::bits::{bit, lanes_below};
use crate::symbolic::etree::PANEL;

/// Children above which the warps share the survey of them.
const MANY: u32 = 256;

/// Sum over the lanes of a warp. Every lane calls it.
#[inlined]
fn warp_sum(value: u64) -> u64 {
    warp::fold(warp::WARP_SIZE, value, |sum, other| sum + other)
}

/// Maximum over the lanes of a warp. Every lane calls it.
#[inlined]
fn warp_max(value: u64) -> u64 {
    warp::fold(warp::WARP_SIZE, value, |most, other| {
        if other > most { other } else { most }
    })
}

/// No contributor.
pub(super) const NOBODY: u64 = 0;

/// A contributor as one number, so that the longest is the largest: its length, whether it is a lane of B,
/// and which panel or lane it is.
#[inlined]
fn contributor(len: u64, is_lane: bool, which: u32) -> u64 {
    len << 33 | (is_lane as u64) << 32 | u64::from(which)
}

impl Block {
    /// Sum of the lengths of children and lanes of B, and the longest of them. Every thread of the block calls it, and
    /// gets the same answer: each warp looks at all of them, which takes no barrier, unless they are many.
    #[inlined]
    pub(super) fn survey(self, panel: Panel) -> (u64, u64) {
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
            let e = self.panels.child.get(i as usize);
            let live = self.links.live.get(e as usize);
            let mut len = u64::from(self.made.upper_len.get(e as usize));
            if self.sides == 2 {
                len += u64::from(self.made.lower_len.get(e as usize));
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

    /// Where this thread's entry goes among those of the block's threads that `keep` theirs, and how many these
    /// are. Every thread of the block calls it. `turn` alternates, so that one barrier is enough.
    #[inlined]
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
    #[inlined]
    fn set_base(self, at: u32, place: u32, y: u32, rows: u64) {
        self.made.index.set((at + place) as usize, y);
        self.made.mask.set((at + place) as usize, rows);
        if place < NEAR as u32 {
            self.near.set(place as usize, y);
        }
    }

    /// Writes what the contributor `it` brings to the pool from `at` on: the base. Every thread of the block calls
    /// it.
    #[inlined]
    pub(super) fn make_base(self, panel: Panel, it: u64, at: u32) -> Structure {
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
                        y = self.made.index.get((own_at + t) as usize);
                        word = self.made.mask.get((own_at + t) as usize);
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

    /// Moves a structure to an earlier place, and its first entries near. Every thread of the block calls it.
    #[inlined]
    pub(super) fn move_down(self, from: Structure, at: u32) -> Structure {
        let mut group = 0;
        while group < from.len {
            let t = group + thread::thread_idx_x();
            let (mut y, mut word) = (0, 0);
            if t < from.len {
                y = self.made.index.get((from.at + t) as usize);
                word = self.made.mask.get((from.at + t) as usize);
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
}
