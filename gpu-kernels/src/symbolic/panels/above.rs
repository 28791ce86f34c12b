//! What a panel leaves to those above it: where its live pivots meet, its place in their lists, and its turn.

use luge_kernel::prelude::*;

use super::NODES;
use super::block::{Block, NOW, Panel, Structure};
use crate::bits::{ballot_pair, for_bits, has_bit};
use crate::search::lower_bound;
use crate::symbolic::etree::NONE;

impl Block {
    /// Pivots that do not meet inside and reach beyond with both: where do they meet? Writes that, and where the
    /// structure `it` lies; returns these live pivots, and where the last of them meets. Every thread of the block
    /// calls it.
    #[inlined]
    pub(super) fn find_meets(self, panel: Panel, it: Structure) -> (u64, u32) {
        let tid = thread::thread_idx_x();
        let lane = thread::lane_id();
        let width = panel.end - panel.start;
        let (joins_upper, joins_lower) = self.joins();
        let mut alive = self.reaching.get(0);
        if !self.is_symmetric() {
            alive &= self.reaching.get(1);
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
                x = self.made.index.get((it.at + t) as usize);
                both = self.made.mask.get((it.at + t) as usize) & open;
                if both != 0 && !self.is_symmetric() {
                    // Where the structure is nearly symmetric, at the same place.
                    let end = it.at + it.len;
                    let mut mirrored = it.at + it.upper + t;
                    if mirrored >= end || self.made.index.get(mirrored as usize) != x {
                        mirrored = lower_bound(it.at + it.upper, end, |s| {
                            self.made.index.get(s as usize) < x
                        });
                    }
                    both &= if mirrored < end && self.made.index.get(mirrored as usize) == x {
                        self.made.mask.get(mirrored as usize)
                    } else {
                        0
                    };
                }
            }
            // Entries increase from lane to lane: the first one with a pivot speaks for the warp.
            for_bits(open, |b| {
                let lanes = warp::ballot(warp::FULL_MASK, has_bit(both, b));
                if lanes != 0 && lane == lanes.trailing_zeros() {
                    self.met
                        .atomic(b as usize)
                        .fetch_min(x, Ordering::Relaxed, Scope::Block);
                }
            });
            base += thread::block_dim_x();
            thread::sync_threads();
            open &= ballot_pair(
                self.met.get(lane as usize) == NONE,
                self.met.get(lane as usize + 32) == NONE,
            );
            // Nobody lowers `met` again before all have read it.
            thread::sync_threads();
        }
        let meet = |k: u32| {
            if has_bit(alive, k) {
                self.met.get(k as usize)
            } else {
                0
            }
        };
        let (low, high) = (meet(lane), meet(lane + 32));
        if tid < warp::WARP_SIZE {
            let k = (panel.start + lane) as usize;
            if lane < width {
                self.links.meets.set(k, low);
            }
            if lane + 32 < width {
                self.links.meets.set(k + 32, high);
            }
        }
        let farthest = if low > high { low } else { high };
        let farthest = warp::reduce_max(warp::FULL_MASK, farthest);
        if tid == 0 {
            self.links.live.set(panel.q, alive);
            self.made.at.set(panel.q, it.at);
            self.made.upper_len.set(panel.q, it.upper);
            if !self.is_symmetric() {
                self.made.lower_len.set(panel.q, it.len - it.upper);
            }
        }
        (alive, farthest)
    }

    /// Puts this panel into all lists in which it belongs, with its structure `it` and what
    /// [`find_meets`](Self::find_meets) returned. Every thread of the block calls it.
    #[inlined]
    pub(super) fn enter_lists(self, panel: Panel, it: Structure, (alive, farthest): (u64, u32)) {
        if alive != 0 && panel.parent != NONE {
            let beyond = self.panels.panel_start.get(panel.parent as usize + 1);
            if farthest >= beyond {
                // A row takes part only while there are columns beyond it, and mirrored.
                let upper = (it.at, it.upper);
                let last_column = self.made.index.get((it.at + it.upper) as usize - 1);
                if self.is_symmetric() {
                    self.push(panel, 0, upper, beyond, last_column, alive);
                } else {
                    let lower = (it.at + it.upper, it.len - it.upper);
                    let last_row = self.made.index.get((it.at + it.len) as usize - 1);
                    self.push(panel, 0, lower, beyond, last_column, alive);
                    self.push(panel, 1, upper, beyond, last_row, alive);
                }
            }
        }
    }

    /// Puts this panel into the lists of the panels beyond its parent in which live pivots take part, by the
    /// entries `at..at + len` of the other side. `last`: what they bring ends there.
    #[inlined]
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
            for_bits(self.made.mask.get((at + t) as usize) & live, |b| {
                any |= self.met.get(b as usize) >= x;
            });
            any
        };
        for t in thread::block_stride(len as usize) {
            let t = t as u32;
            let x = self.made.index.get((at + t) as usize);
            if x < beyond || x >= last || !takes_part(t, x) {
                continue;
            }
            // Only for the first such entry in the target.
            let target = self.panels.panel_of.get(x as usize) as usize;
            let target_start = self.panels.panel_start.get(target);
            let mut first = true;
            let mut u = t;
            while u > 0 && first {
                u -= 1;
                let y = self.made.index.get((at + u) as usize);
                if y < target_start {
                    break;
                }
                first = !takes_part(u, y);
            }
            if first {
                let node = self.links.counters.atomic(NODES).fetch_add(
                    1,
                    Ordering::Relaxed,
                    Scope::Device,
                );
                if node < self.links.node_next.len() as u64 {
                    self.links.node_panel.set(node as usize, panel.q as u32);
                    let next = self.head(side).atomic(target).swap(
                        node as u32,
                        Ordering::Relaxed,
                        Scope::Device,
                    );
                    self.links.node_next.set(node as usize, next);
                }
            }
        }
    }

    /// Hands the panel up, of which everything is written: its parent, if it was the last child to finish, or
    /// [`NONE`]. Every thread of the block calls it.
    #[inlined]
    pub(super) fn hand_up(self, panel: Panel) -> u32 {
        let tid = thread::thread_idx_x();
        thread::sync_threads();
        if tid == 0 {
            let mut next = NONE;
            if panel.parent != NONE {
                let before = self.links.waiting.atomic(panel.parent as usize).fetch_sub(
                    1,
                    Ordering::AcqRel,
                    Scope::Device,
                );
                if before == 1 {
                    next = panel.parent;
                }
            }
            self.state.set(NOW, next);
        }
        thread::sync_threads();
        self.state.get(NOW)
    }
}
