//! Columns in the registers of a warp, from which pivots are eliminated one after the other.
//!
//! Registers have no index that is computed, so the columns move: the one to be eliminated next is always the first.

#![allow(
    clippy::needless_range_loop,
    reason = "rows and columns by their numbers, which are constants in the unrolled loops"
)]

use luge_kernel::prelude::*;

use super::plan::Work;
use super::symmetric::Form;
use super::work::{Seen, quotient};

/// Columns that are moved, or not, together.
const TOGETHER: usize = 8;

/// N columns: lane l has the rows l + 32 r of them for r < R.
#[derive(Clone, Copy)]
pub(super) struct Columns<T: Field, const N: usize, const R: usize> {
    values: [[T; R]; N],
}

impl<T: Field, const N: usize, const R: usize> Columns<T, N, R> {
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

    /// Eliminates the first column of a symmetric matrix, whose pivot is in row `p` < 24 and came as `d`, and moves the others
    /// up. Of the rows above the pivot nothing is used.
    ///
    /// The answer: the own rows of the finished column, and row `p` + 1 of the next, for all lanes. All lanes of the warp call
    /// it.
    #[inlined]
    pub fn eliminate_one(
        &mut self,
        (work, form): (&Work<T>, Form),
        p: u32,
        d: T,
        seen: &mut Seen<T>,
    ) -> ([T; R], T) {
        let lane = thread::lane_id();
        let d = form.on_diagonal(d);
        // As in LU, what the next pivot comes from does not wait for this one, and all compute it.
        let mut beside = [T::ZERO; N];
        for c in 1..N {
            beside[c] = self.first(p + c as u32);
        }
        let next = Self::of_lane(self.values[1][0], p + 1);
        let inverse = d.reciprocal();
        let below = work.multiplier(beside[1], d, inverse, seen);
        for c in 1..N {
            beside[c] = form.counterpart(beside[c]);
        }
        let next = (-below).mul_add(beside[1], next);
        let mut finished = [T::ZERO; R];
        let mut multipliers = [T::ZERO; R];
        for r in 0..R {
            let value = self.values[0][r];
            finished[r] = value;
            if r > 0 || lane > p {
                seen.entry(value, false);
                multipliers[r] = work.multiplier(value, d, inverse, seen);
                finished[r] = multipliers[r];
            }
        }
        for c in 1..N {
            for r in 0..R {
                self.values[c - 1][r] = (-multipliers[r]).mul_add(beside[c], self.values[c][r]);
            }
        }
        (finished, next)
    }

    /// Likewise the first two columns, whose pivot of order 2 is in rows `p` and `p` + 1. In the second of them D's entry
    /// beside the diagonal stands in row `p`, and there is a zero for it in the first.
    #[inlined]
    pub fn eliminate_two(
        &mut self,
        (work, form): (&Work<T>, Form),
        p: u32,
        d: T,
        seen: &mut Seen<T>,
    ) -> ([[T; R]; 2], T) {
        let lane = thread::lane_id();
        let block = [
            form.on_diagonal(d),
            self.first(p + 1),
            form.on_diagonal(Self::of_lane(self.values[1][0], p + 1)),
        ];
        let mut beside = [[T::ZERO; 2]; N];
        for c in 2..N {
            let row = p + c as u32;
            let second = Self::of_lane(self.values[1][0], row);
            beside[c] = [form.counterpart(self.first(row)), form.counterpart(second)];
        }
        let [e11, e21, e22] = work.inverse(block, form, seen);
        let e12 = form.counterpart(e21);
        let mut finished = [[T::ZERO; R]; 2];
        let mut multipliers = [[T::ZERO; 2]; R];
        for r in 0..R {
            let (first, second) = (self.values[0][r], self.values[1][r]);
            if r > 0 || lane > p + 1 {
                seen.entry(first, false);
                seen.entry(second, false);
                multipliers[r] = [
                    e21.mul_add(second, e11 * first),
                    e22.mul_add(second, e12 * first),
                ];
                finished[0][r] = multipliers[r][0];
                finished[1][r] = multipliers[r][1];
            } else if lane == p {
                finished[0][r] = block[0];
                finished[1][r] = block[1];
            } else if lane == p + 1 {
                finished[1][r] = block[2];
            }
        }
        for c in 2..N {
            for r in 0..R {
                let sum = (-multipliers[r][0]).mul_add(beside[c][0], self.values[c][r]);
                self.values[c - 2][r] = (-multipliers[r][1]).mul_add(beside[c][1], sum);
            }
        }
        (finished, self.first(p + 2))
    }
}
