//! Columns in the registers of a warp, from which pivots are eliminated one after the other.
//!
//! Registers have no index that is computed, so the columns move: the one to be eliminated next is always the first.

#![allow(
    clippy::needless_range_loop,
    reason = "rows and columns by their numbers, which are constants in the unrolled loops"
)]

use luge_kernel::prelude::*;

use super::plan::Work;
use super::work::quotient;

/// Columns that are moved, or not, together.
const TOGETHER: usize = 8;

/// N columns: lane l has the rows l + 32 r of them for r < R.
#[derive(Clone, Copy)]
pub(super) struct Columns<T: Real, const N: usize, const R: usize> {
    values: [[T; R]; N],
}

impl<T: Real, const N: usize, const R: usize> Columns<T, N, R> {
    #[inlined]
    pub fn zero() -> Self {
        Self {
            values: [[T::ZERO; R]; N],
        }
    }

    /// Sets the own row of number `r` in column `c`, both constants.
    #[inlined]
    pub fn set(&mut self, c: usize, r: usize, value: T) {
        self.values[c][r] = value;
    }

    /// Entry `i` < 32 of the first column, for all lanes.
    #[inlined]
    pub fn first(&self, i: u32) -> T {
        Self::of_lane(self.values[0][0], i)
    }

    #[inlined]
    fn of_lane(value: T, lane: u32) -> T {
        warp::shuffle(warp::FULL_MASK, value, lane)
    }

    /// Eliminates the first column with the pivot in row `j` < 32, which came as `came`, and moves the others up, of
    /// which `left` count with the first.
    ///
    /// The answer: the own rows of the finished column, and row `j` + 1 of the next, for all lanes. All lanes of the
    /// warp call it.
    #[inlined]
    pub fn eliminate(&mut self, work: &Work<T>, j: u32, came: T, left: u32) -> ([T; R], T) {
        let lane = thread::lane_id();
        // What does not wait for the pivot is on its way before that: the pivot's row, and what the next pivot comes
        // from, which all compute so that none waits for another.
        let mut upper = [T::ZERO; TOGETHER];
        for c in 1..TOGETHER {
            upper[c] = Self::of_lane(self.values[c][0], j);
        }
        let below = Self::of_lane(self.values[0][0], j + 1);
        let beside = Self::of_lane(self.values[1][0], j + 1);
        let (pivot, inverse) = work.pivot(came);
        let next = (-quotient(below, pivot, inverse)).mul_add(upper[1], beside);
        let mut finished = [T::ZERO; R];
        let mut multipliers = [T::ZERO; R];
        for r in 0..R {
            let value = self.values[0][r];
            finished[r] = value;
            if r > 0 || lane > j {
                multipliers[r] = quotient(value, pivot, inverse);
                finished[r] = multipliers[r];
            } else if lane == j {
                finished[r] = pivot;
            }
        }
        for group in 0..N / TOGETHER {
            let first = group * TOGETHER;
            if group == 0 || left > first as u32 {
                for c in first..first + TOGETHER {
                    if group > 0 {
                        upper[c - first] = Self::of_lane(self.values[c][0], j);
                    }
                }
                for c in first..first + TOGETHER {
                    if c > 0 {
                        let upper = upper[c - first];
                        for r in 0..R {
                            self.values[c - 1][r] =
                                (-multipliers[r]).mul_add(upper, self.values[c][r]);
                        }
                    }
                }
            }
        }
        (finished, next)
    }
}
