//! Large fronts, in tiles of 32 rows, each the work of a block.
//!
//! ```text
//!            pivots, k            rows below, c           upwards a tile is 32 rows of the left columns; it needs the
//!        +---+---+---+--+---------------------------+     unknowns of the tiles of pivots before it. Downwards it is
//! tile 0 | \ |   |   |  |                           |     32 rows of the right columns; it needs those after it,
//!        +---+---+---+--+                           |     and all unknowns of the rows below.
//! tile 1 |   | \ |   |  |                           |
//!        +---+---+---+--+---------------------------+
//!  below |   |   |   |  |
//!        +---+---+---+--+
//! ```
//!
//! A lane has a row of the tile. For one right-hand side the warps share the columns, and the first adds up; of several a
//! warp has one.

use luge_kernel::prelude::*;

use super::layout::flag;
use super::{AHEAD, Chunk, Front, NO_FLAG, Sweep, TILE, Task, WARPS};

/// Rows of U (of Lᵀ) whose products with the rows below a warp forms at once.
const ROWS: usize = 4;

impl<T: Real, const R: usize> Sweep<T, R> {
    /// Of a tile of columns the first that this warp has, and the end of those.
    #[inline(always)]
    fn own_columns(self) -> (u32, u32) {
        if R == 1 {
            let width = TILE / WARPS;
            let first = thread::thread_idx_x() / warp::WARP_SIZE * width;
            (first, first + width)
        } else {
            (0, TILE)
        }
    }

    /// The right-hand side that this warp has.
    #[inline(always)]
    fn own_rhs(self) -> u32 {
        if R == 1 {
            0
        } else {
            thread::thread_idx_x() / warp::WARP_SIZE
        }
    }

    /// Whether this warp finishes the rows of its right-hand side.
    #[inline(always)]
    fn is_finisher(self) -> bool {
        R > 1 || thread::thread_idx_x() < warp::WARP_SIZE
    }

    /// The sum of `value` over the warps that share columns, in the one that finishes. All threads of the block call it.
    #[inline(always)]
    fn join(self, value: T) -> T {
        if R > 1 {
            return value;
        }
        let lane = thread::lane_id() as usize;
        self.sums.set(thread::thread_idx_x() as usize, value);
        thread::sync_threads();
        let mut sum = T::ZERO;
        if self.is_finisher() {
            let mut warp = 0;
            while warp < WARPS as usize {
                sum += self.sums.get(warp * TILE as usize + lane);
                warp += 1;
            }
        }
        sum
    }

    /// Takes off `value` a tile of columns times their unknowns: the entry in this lane's row and column j < `columns` is
    /// at `first + j · stride` of the front. `ready` returns when the unknowns are known, `found(j)` is that of column
    /// j. All lanes of a warp call it, and some may have no row.
    #[inline(always)]
    fn subtract_tile(
        self,
        front: Front,
        (first, stride): (u32, u32),
        columns: u32,
        is_row: bool,
        ready: impl FnOnce(),
        found: impl FnOnce(u32) -> T,
        value: T,
    ) -> T {
        let (own, end) = self.own_columns();
        let entries = |j: u32| {
            let mut entries = [T::ZERO; AHEAD];
            let mut u = 0;
            while u < AHEAD as u32 {
                if is_row && j + u < columns {
                    entries[u as usize] = -self.factor(front, first + (j + u) * stride);
                }
                u += 1;
            }
            entries
        };
        // Under way while others finish the unknowns.
        let mut ahead = entries(own);
        ready();
        let lane = thread::lane_id();
        let found = if lane < columns { found(lane) } else { T::ZERO };
        let mut value = value;
        let mut j = own;
        while j < end {
            let now = ahead;
            j += AHEAD as u32;
            if j < end {
                ahead = entries(j);
            }
            let mut u = 0;
            while u < AHEAD {
                let from = j - (AHEAD - u) as u32;
                let other = warp::shuffle(warp::FULL_MASK, found, from);
                value = now[u].mul_add(other, value);
                u += 1;
            }
        }
        value
    }

    /// The tiles of a task on the way up. All threads of the block call it.
    #[inline(always)]
    pub(super) fn tiles_up(self, chunk: Chunk, task: Task) {
        let lane = thread::lane_id();
        let rhs = self.own_rhs();
        let front = self.front(task.first);
        let of_pivots = (front.k + TILE - 1) / TILE;
        if task.wait != NO_FLAG && self.is_finisher() {
            self.wait(chunk, task.wait, task.needed);
        }
        let mut t = task.second;
        while t < task.end {
            let is_pivots = t < of_pivots;
            // Counted among the pivots, or among the rows below.
            let (tile, rows) = if is_pivots {
                (t, front.k)
            } else {
                (t - of_pivots, front.c)
            };
            let i = tile * TILE + lane;
            let is_row = i < rows;
            let mut value = [T::ZERO];
            if self.is_finisher() {
                let mut row = if is_pivots { i } else { front.k + i };
                if is_row && is_pivots {
                    if !self.transpose {
                        row = self.order.get((front.start + i) as usize);
                    }
                    let at = (front.start + row) as usize * R + rhs as usize;
                    value[0] = self.unknowns.get(chunk.unknowns + at);
                }
                self.gather(chunk, rhs, front, row, is_row, &mut value);
            }
            let (first, stride) = if is_pivots {
                (i * front.along_row, front.along_col)
            } else {
                (front.up + i, front.up_stride)
            };
            let mut j = 0;
            while j < t && j < of_pivots {
                value[0] = self.subtract_tile(
                    front,
                    (first + j * TILE * stride, stride),
                    front.k - j * TILE,
                    is_row,
                    || {
                        if j < task.second {
                            self.wait(chunk, front.flags + flag::UP, j + 1);
                        }
                    },
                    |lane| {
                        let e = (front.start + j * TILE + lane) as usize;
                        self.eliminated.get(chunk.unknowns + e * R + rhs as usize)
                    },
                    value[0],
                );
                j += 1;
            }
            value[0] = self.join(value[0]);
            if self.is_finisher() {
                if is_pivots {
                    self.solve_up(front, t * TILE, self.rows_of_tile(front, t), &mut value);
                    if is_row {
                        let at = (front.start + i) as usize * R + rhs as usize;
                        self.eliminated.set(chunk.unknowns + at, value[0]);
                    }
                } else if is_row {
                    let to = self.carry_to.get((front.rows + i) as usize) as usize;
                    let at = to * R + rhs as usize;
                    self.carried.set(chunk.carried + at, value[0]);
                }
            }
            // The sums of the warps are read, and what is behind the flags is written.
            thread::sync_threads();
            if is_pivots && thread::thread_idx_x() == 0 {
                self.set_flag(chunk, front.flags + flag::UP, t + 1);
            }
            t += 1;
        }
        if task.end > of_pivots && task.signal != NO_FLAG && thread::thread_idx_x() == 0 {
            self.raise_flag(chunk, task.signal);
        }
    }

    /// The tiles of a task on the way down, from the last to the first. All threads of the block call it.
    #[inline(always)]
    pub(super) fn tiles_down(self, chunk: Chunk, task: Task) {
        let lane = thread::lane_id();
        let rhs = self.own_rhs();
        let front = self.front(task.first);
        let of_pivots = (front.k + TILE - 1) / TILE;
        if task.wait != NO_FLAG {
            self.wait(chunk, task.wait, task.needed);
        }
        let place = |i: u32| {
            if self.transpose {
                self.unexchanged(front, i)
            } else {
                front.start + i
            }
        };
        let mut t = task.end;
        while t > task.second {
            t -= 1;
            let i = t * TILE + lane;
            let is_row = i < front.k;
            let mut value = [T::ZERO];
            if is_row && self.is_finisher() {
                let at = (front.start + i) as usize * R + rhs as usize;
                value[0] = self.eliminated.get(chunk.unknowns + at);
            }
            self.subtract_below(chunk, front, t, &mut value[0]);
            let mut j = of_pivots;
            while j > t + 1 {
                j -= 1;
                value[0] = self.subtract_tile(
                    front,
                    (front.pivot(i, j * TILE), front.along_col),
                    front.k - j * TILE,
                    is_row,
                    || {
                        if j >= task.end {
                            self.wait(chunk, front.flags + flag::DOWN, of_pivots - j);
                        }
                    },
                    |lane| {
                        let e = place(j * TILE + lane) as usize;
                        self.unknowns.get(chunk.unknowns + e * R + rhs as usize)
                    },
                    value[0],
                );
            }
            value[0] = self.join(value[0]);
            if self.is_finisher() {
                self.solve_down(front, t * TILE, self.rows_of_tile(front, t), &mut value);
                if is_row {
                    self.finish(chunk, rhs, place(i), value[0]);
                }
            }
            thread::sync_threads();
            if thread::thread_idx_x() == 0 {
                self.set_flag(chunk, front.flags + flag::DOWN, of_pivots - t);
            }
        }
    }

    /// Number of pivots of tile `t`.
    #[inline(always)]
    fn rows_of_tile(self, front: Front, t: u32) -> u32 {
        let left = front.k - t * TILE;
        if left < TILE { left } else { TILE }
    }

    /// Takes off the unknowns of the rows below, for the pivots of tile `t`: of several right-hand sides all of them off
    /// `value` in the lane of the pivot; of one right-hand side, each warp has some of the pivots.
    #[inline(always)]
    fn subtract_below(self, chunk: Chunk, front: Front, t: u32, value: &mut T) {
        let lane = thread::lane_id();
        let rhs = self.own_rhs();
        let (own, end) = self.own_columns();
        let mut first = own;
        while first < end {
            let mut sums = [T::ZERO; ROWS];
            let mut q = lane;
            while q < front.c {
                let unknown = self.row_idx.get((front.rows + q) as usize) as usize;
                let at = chunk.unknowns + unknown * R + rhs as usize;
                let found = self.unknowns.get(at);
                let mut u = 0;
                while u < ROWS {
                    let i = t * TILE + first + u as u32;
                    if i < front.k {
                        let place = front.down + q + i * front.down_stride;
                        sums[u] = self.factor(front, place).mul_add(found, sums[u]);
                    }
                    u += 1;
                }
                q += warp::WARP_SIZE;
            }
            let mut u = 0;
            while u < ROWS {
                let sum = warp::reduce_sum(warp::FULL_MASK, sums[u]);
                if lane == first + u as u32 {
                    *value -= sum;
                }
                u += 1;
            }
            first += ROWS as u32;
        }
    }
}
