//! Very large fronts, in tiles of 32 rows, each the work of a block.
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

use super::handover::{give, take};
use super::passes::{BELOW, FAR_AHEAD, Spread};
use super::{Chunk, Front, Sweep, TILE, WARPS};

impl<T: Real, const R: usize> Sweep<T, R> {
    /// Of a tile of columns the first that this warp has, and how many.
    #[inline(always)]
    fn own_columns(self) -> (u32, u32) {
        if R == 1 {
            let width = TILE / WARPS;
            (thread::thread_idx_x() / warp::WARP_SIZE * width, width)
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
        self.products.set(thread::thread_idx_x() as usize, value);
        thread::sync_threads();
        let mut sum = T::ZERO;
        if self.is_finisher() {
            let mut warp = 0;
            while warp < WARPS as usize {
                sum += self.products.get(warp * TILE as usize + lane);
                warp += 1;
            }
        }
        sum
    }

    /// One tile on the way up; those of the pivots come first. All threads of the block call it.
    #[inline(always)]
    pub(super) fn tile_up(self, chunk: Chunk, front: Front, t: u32) {
        let lane = thread::lane_id();
        let rhs = self.own_rhs();
        let of_pivots = front.tiles_of_pivots();
        let is_pivots = t < of_pivots;
        let (first, end) = if is_pivots {
            (t * TILE, front.k)
        } else {
            (front.k + (t - of_pivots) * TILE, front.m())
        };
        let i = first + lane;
        let is_row = i < end;
        let (from, width) = self.own_columns();
        let before = if is_pivots { t } else { of_pivots };
        let count_of = |j: u32| front.pivots_of_tile(j).saturating_sub(from).min(width);
        let line_of = |j: u32| {
            let line = self.line_up(front, j * TILE, front.pivots_of_tile(j), i);
            line.part(from, width).only_if(is_row)
        };
        let mut line = line_of(0);
        let mut ahead = self.read(front, line, 0, if before > 0 { count_of(0) } else { 0 });
        let mut value = [T::ZERO];
        let mut own = None;
        if self.is_finisher() {
            let mut row = i;
            if is_row && is_pivots {
                row = self.row_as_it_came(front, i);
                let at = (front.start + row) as usize * R + rhs as usize;
                value[0] = self.entered.get(chunk.unknowns + at);
            }
            let contributions = self.contributions(front, row);
            if is_pivots {
                let count = front.pivots_of_tile(t);
                let line = self.line_up(front, t * TILE, count, i).only_if(is_row);
                let inverse = self.inverse_pivot(front, i, is_row && self.transpose);
                own = Some((line, self.read(front, line, 0, count), inverse));
            }
            self.gather(chunk, rhs, contributions, is_row, &mut value);
        }
        let mut j = 0;
        while j < before {
            let (count, now, of_now) = (count_of(j), ahead, line);
            if j + 1 < before {
                line = line_of(j + 1);
                ahead = self.read(front, line, 0, count_of(j + 1));
            }
            let e = (front.start + j * TILE + from + lane) as usize;
            let at = chunk.unknowns + e * R + rhs as usize;
            let found = take(self.eliminated, at, lane < count);
            self.apply::<1, false, FAR_AHEAD>(front, of_now, count, found, now, &mut value);
            j += 1;
        }
        value[0] = self.join(value[0]);
        if self.is_finisher() {
            if let Some((line, next, inverse)) = own {
                let count = front.pivots_of_tile(t);
                self.pass::<1, false, FAR_AHEAD>(front, line, count, inverse, next, &mut value);
                if is_row {
                    let at = (front.start + i) as usize * R + rhs as usize;
                    give(self.eliminated, chunk.unknowns + at, value);
                }
            } else if is_row {
                let to = self.carry(front, i) as usize;
                give(self.carried, chunk.carried + to * R + rhs as usize, value);
            }
        }
        // The sums of the warps are read.
        thread::sync_threads();
    }

    /// One tile of pivots on the way down. All threads of the block call it.
    #[inline(always)]
    pub(super) fn tile_down(self, chunk: Chunk, front: Front, t: u32) {
        let lane = thread::lane_id();
        let rhs = self.own_rhs();
        let i = t * TILE + lane;
        let is_row = i < front.k;
        let count = front.pivots_of_tile(t);
        let line = self.line_down(front, t * TILE, count, i);
        let next = self.read(front, line, 0, count);
        let inverse = self.inverse_pivot(front, i, is_row && !self.transpose);
        let mut value = [T::ZERO];
        self.subtract_below(chunk, front, t, &mut value[0]);
        let (from, width) = self.own_columns();
        let mut j = front.tiles_of_pivots();
        while j > t + 1 {
            j -= 1;
            let of_tile = front.pivots_of_tile(j);
            let count = of_tile.saturating_sub(from).min(width);
            let line = self.line_down(front, j * TILE, of_tile, i);
            let line = line.part(from, width).only_if(is_row);
            let next = self.read(front, line, 0, count);
            let mut at = 0;
            if lane < count {
                let pivot = j * TILE + of_tile - 1 - from - lane;
                let e = self.place_down(front, pivot) as usize;
                at = chunk.unknowns + e * R + rhs as usize;
            }
            let found = take(self.unknowns, at, lane < count);
            self.apply::<1, false, FAR_AHEAD>(front, line, count, found, next, &mut value);
        }
        value[0] = self.join(value[0]);
        if self.is_finisher() {
            let at = (front.start + i) as usize * R + rhs as usize;
            let [eliminated] = take(self.eliminated, chunk.unknowns + at, is_row);
            value[0] += eliminated;
            self.pass::<1, true, FAR_AHEAD>(front, line, count, inverse, next, &mut value);
            if is_row {
                self.finish(chunk, rhs, self.place_down(front, i), value);
            }
        }
        thread::sync_threads();
    }

    /// Takes the unknowns of the rows below off the pivots of tile `t`, each in its lane: of several right-hand sides
    /// off all of them; of one right-hand side, each warp has some of the pivots.
    #[inline(always)]
    fn subtract_below(self, chunk: Chunk, front: Front, t: u32, value: &mut T) {
        let lane = thread::lane_id();
        let rhs = self.own_rhs();
        let (from, width) = self.own_columns();
        let first = t * TILE + from;
        let rows = front.k.saturating_sub(first).min(width);
        let spread = Spread::over(first, rows.max(1), if rows > 0 { front.c } else { 0 });
        let mut sum = T::ZERO;
        let mut p = 0;
        while spread.reaches(p, front.c) {
            let entries = self.read_below(front, spread, p);
            let unknowns = self.unknowns_below(front, spread, p);
            let mut u = 0;
            while u < BELOW {
                let at = chunk.unknowns + unknowns[u] as usize * R + rhs as usize;
                let [found] = take(self.unknowns, at, spread.has(p + u as u32));
                if spread.has(p + u as u32) {
                    sum = (-entries[u]).mul_add(found, sum);
                }
                u += 1;
            }
            p += BELOW as u32;
        }
        let sum = spread.sum(sum);
        let own = warp::shuffle(warp::FULL_MASK, sum, lane.wrapping_sub(from) & 31);
        if lane >= from && lane < from + rows {
            *value += own;
        }
    }
}
