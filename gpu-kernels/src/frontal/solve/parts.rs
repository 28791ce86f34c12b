//! Solves with some of the factors: what tasks do in place of a direction whose triangle is not one of them.
//!
//! The tasks are the same, and so is what they hand over: upwards right-hand sides as they came, downwards what the way up
//! leaves.

use luge_kernel::prelude::*;

use super::handover::give;
use super::kinds::Kind;
use super::layout::{MOST_SHARES, STRIP, WHOLE};
use super::passes::Lanes;
use super::{Chunk, Front, Sweep};

/// The share of the right-hand sides that a task of a block names, if it is one of a whole front.
#[inlined]
pub(super) fn share(strip: u32) -> Option<u32> {
    let share = WHOLE - strip;
    if share < MOST_SHARES {
        Some(share)
    } else {
        None
    }
}

/// The pivot of this thread in a task of a block: one beyond all if it has none. The first share does all.
#[inlined]
pub(super) fn own_pivot(strip: u32) -> u32 {
    let thread = thread::thread_idx_x();
    if strip == WHOLE {
        thread
    } else if share(strip).is_some() {
        u32::MAX
    } else if thread < STRIP {
        strip * STRIP + thread
    } else {
        u32::MAX
    }
}

/// Likewise of this lane in one of a warp, for `R` right-hand sides at a time.
#[inlined]
pub(super) fn own_pivot_of_warp<const R: usize>(front: Front, share: u32) -> u32 {
    if R == 1 {
        Lanes::of(front).own
    } else if share == 0 {
        thread::lane_id()
    } else {
        u32::MAX
    }
}

impl<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// Hands over the right-hand sides of `pivot`, if the front has it, for some chunks from one on.
    #[inlined]
    pub(super) fn pass_on(self, (chunk, chunks): (Chunk, u32), front: Front, pivot: u32) {
        let is_pivot = pivot < front.k;
        let row = self.row_as_it_came(front, if is_pivot { pivot } else { 0 });
        let mut n = 0;
        while n < chunks {
            let chunk = self.chunk_behind(chunk, n);
            let value: [T; R] = self.entered_at((chunk, 0), front, row);
            if is_pivot {
                let at = chunk.unknowns + (front.start + pivot) as usize * R;
                give(self.vectors.eliminated, at, value);
            }
            n += 1;
        }
    }

    /// Makes what the way up leaves for `pivot` the solution, if the front has it, for some chunks from one on. All lanes of
    /// a warp call it.
    #[inlined]
    pub(super) fn leave_eliminated(self, (chunk, chunks): (Chunk, u32), front: Front, pivot: u32) {
        let is_pivot = pivot < front.k;
        let pivot = if is_pivot { pivot } else { 0 };
        let e = self.place_down(front, pivot);
        let mut n = 0;
        while n < chunks {
            let chunk = self.chunk_behind(chunk, n);
            let value: [T; R] = self.take_eliminated((chunk, 0), front, pivot, is_pivot);
            if is_pivot {
                self.finish(chunk, 0, e, value);
            }
            n += 1;
        }
    }
}
