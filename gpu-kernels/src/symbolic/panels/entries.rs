//! What B brings: the entries in the panel's rows and columns.

use luge_kernel::prelude::*;

use super::block::{Block, Panel, Structure};
use crate::bits::bit;
use crate::scan::warp_inclusive_sum;
use crate::symbolic::etree::PANEL;

impl Block {
    /// Where the lanes k and k + 1 of B begin, which lie in the panel, and their lengths: zero beyond its end.
    #[inlined]
    pub(super) fn pair(self, panel: Panel, side: u32, k: u32) -> ((u64, u64), (u64, u64)) {
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
    #[inlined]
    pub(super) fn add_entries(self, panel: Panel, base: Structure, slots: u32, skip: u64) {
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
            let sum = warp_inclusive_sum((count.0 + count.1) as u32);
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
}
