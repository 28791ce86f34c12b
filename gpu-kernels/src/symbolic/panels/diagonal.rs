//! Inside a panel: elimination of the diagonal block, and the structures closed under it.

use luge_kernel::prelude::*;

use super::block::{Block, Panel, Structure};
use crate::bits::{above, has_bit, reduce_or, transposed_pair};
use crate::symbolic::etree::PANEL;

/// The filled pattern of a panel's diagonal block of order `width`, a matrix of bits of which each lane of a warp holds
/// the rows `lane` and `lane + 32`; rows beyond `width` are zero. Every lane of the warp calls it.
///
/// Four pivots at once: their rows go to all lanes, and each lane eliminates them among themselves, then from
/// its own rows. One shuffle after another would take four times as long.
#[inlined]
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

impl Block {
    /// Eliminates the diagonal block, a matrix of bits, two rows a lane of warp 0. What is joined takes the place of
    /// the entries. Every thread of the block calls it.
    #[inlined]
    pub(super) fn eliminate_diagonal(self, panel: Panel) {
        let tid = thread::thread_idx_x();
        let lane = thread::lane_id();
        let width = panel.end - panel.start;
        let (joins_upper, joins_lower) = self.joins();
        if tid < warp::WARP_SIZE {
            let (k, k_high) = (lane as usize, lane as usize + 32);
            let by_columns = (joins_upper.get(k), joins_upper.get(k_high));
            let by_rows = (joins_lower.get(k), joins_lower.get(k_high));
            let turned = transposed_pair(by_columns.0, by_columns.1);
            let mut row = (turned.0 | by_rows.0, turned.1 | by_rows.1);
            if self.is_symmetric() {
                row = (row.0 | by_columns.0, row.1 | by_columns.1);
            }
            row = eliminate(row, width);
            let mut column = row;
            if !self.is_symmetric() {
                column = transposed_pair(row.0, row.1);
            }
            // Row k of U is joined to the rows with an entry in column k of L, and mirrored.
            joins_upper.set(k, column.0 & above(lane));
            joins_upper.set(k_high, column.1 & above(lane + 32));
            joins_lower.set(k, row.0 & above(lane));
            joins_lower.set(k_high, row.1 & above(lane + 32));
            if lane < width {
                self.made.diagonal.set(panel.start as usize + k, row.0);
            }
            if lane + 32 < width {
                self.made.diagonal.set(panel.start as usize + k_high, row.1);
            }
        }
        thread::sync_threads();
    }

    /// Closes the words of the structure `it` under what is joined, and finds which pivots reach beyond the panel.
    /// Every thread of the block calls it.
    #[inlined]
    pub(super) fn close(self, panel: Panel, it: Structure) {
        let width = panel.end - panel.start;
        let (joins_upper, joins_lower) = self.joins();
        let pivots = u64::MAX >> (PANEL - width);
        let mut all_upper = 0;
        let mut all_lower = 0;
        for t in thread::block_stride(it.len as usize) {
            let is_upper = (t as u32) < it.upper;
            let joins = if is_upper { joins_upper } else { joins_lower };
            let cell = it.at as usize + t;
            let mut word = self.made.mask.get(cell);
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
            self.made.mask.set(cell, word);
            if is_upper {
                all_upper |= word;
            } else {
                all_lower |= word;
            }
        }
        let all_upper = reduce_or(all_upper);
        let all_lower = reduce_or(all_lower);
        if thread::lane_id() == 0 {
            self.reaching.join(0, all_upper);
            self.reaching.join(1, all_lower);
        }
        thread::sync_threads();
    }
}
