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
//! A lane has a row of the tile. The warps share the columns; one for each right-hand side adds up what they find, and
//! solves with the triangle.
//!
//! A tile waits for the one before it, so the time from one to the next counts: the triangle lies in shared memory, and
//! entries in registers, before they are waited for. Of the rows below a front those are taken first whose unknowns come
//! first.

use luge_kernel::prelude::*;

use super::handover::{give, take};
use super::passes::{Line, Spread};
use super::{Chunk, Front, MANY, Sweep, TILE, WARPS};

/// Columns of a tile that a warp has.
const WIDTH: u32 = TILE / WARPS;

/// Places of a triangle in shared memory.
pub(super) const TRIANGLE: usize = (TILE * TILE) as usize;

/// Columns of the triangle that are read at once.
const AT_ONCE: usize = 8;

const _: () = assert!((TILE as usize).is_multiple_of(AT_ONCE));

// A lane for each right-hand side of each column of a warp, and a warp for each right-hand side.
const _: () = assert!(WIDTH as usize * MANY <= warp::WARP_SIZE as usize && MANY <= WARPS as usize);

/// This warp's entries of the lanes' rows in a tile of columns.
#[derive(Clone, Copy)]
struct Own<T: Real> {
    line: Line,
    entries: [T; WIDTH as usize],
}

/// The first column of a tile that this warp has.
#[inlined]
fn first_column() -> u32 {
    thread::thread_idx_x() / warp::WARP_SIZE * WIDTH
}

/// How many of a tile of `count` columns it has.
#[inlined]
fn own_columns(count: u32) -> u32 {
    count.saturating_sub(first_column()).min(WIDTH)
}

impl<T: Real, const R: usize, const AHEAD: usize, const BELOW: usize> Sweep<T, R, AHEAD, BELOW> {
    /// The right-hand side that this warp finishes, if it [does](Self::is_finisher).
    #[inlined]
    fn own_rhs(self) -> u32 {
        thread::thread_idx_x() / warp::WARP_SIZE
    }

    /// Whether this warp finishes the rows of a right-hand side.
    #[inlined]
    fn is_finisher(self) -> bool {
        self.own_rhs() < R as u32
    }

    /// The sums over the warps, in the one that finishes them. All threads of the block call it.
    #[inlined]
    fn join(self, sums: [T; R]) -> T {
        let thread = thread::thread_idx_x() as usize;
        let threads = (WARPS * TILE) as usize;
        let mut r = 0;
        while r < R {
            self.products.set(r * threads + thread, sums[r]);
            r += 1;
        }
        thread::sync_threads();
        let mut sum = T::ZERO;
        if self.is_finisher() {
            let first = self.own_rhs() as usize * threads + thread::lane_id() as usize;
            let mut warp = 0;
            while warp < WARPS as usize {
                sum += self.products.get(first + warp * TILE as usize);
                warp += 1;
            }
        }
        sum
    }

    /// Reads this warp's part of a line of `count` entries.
    #[inlined]
    fn read_own(self, front: Front, line: Line, count: u32) -> Own<T> {
        let line = line.part(first_column(), WIDTH);
        Own {
            line,
            entries: self.read(front, line, 0, own_columns(count)),
        }
    }

    /// Shows this warp's columns of a triangle, with zeros where it has nothing.
    #[inlined]
    fn show_triangle(self, own: Own<T>) {
        let mut u = 0;
        while u < WIDTH {
            let entry = if own.line.has(u) {
                own.entries[u as usize]
            } else {
                T::ZERO
            };
            let at = (first_column() + u) * TILE + thread::lane_id();
            self.values.set(at as usize, entry);
            u += 1;
        }
    }

    /// Solves with the triangle of `count` pivots that is shown, as [`pass`](Self::pass) does.
    #[inlined]
    fn pass_shown<const BACK: bool>(self, count: u32, inverse: T, value: &mut T) {
        let lane = thread::lane_id();
        let mut p = 0;
        while p < count {
            let mut entries = [T::ZERO; AT_ONCE];
            let mut u = 0;
            while u < AT_ONCE {
                let at = (p + u as u32) * TILE + lane;
                entries[u] = self.values.get(at as usize);
                u += 1;
            }
            let mut u = 0;
            while u < AT_ONCE {
                let at = p + u as u32;
                let from = if BACK {
                    (count - 1).wrapping_sub(at)
                } else {
                    at
                };
                // Behind the last pivot entries are zero.
                let found = warp::shuffle(warp::FULL_MASK, *value * inverse, from & 31);
                *value = (-entries[u]).mul_add(found, *value);
                u += 1;
            }
            p += AT_ONCE as u32;
        }
        *value *= inverse;
    }

    /// Takes this warp's part of a line of `count` entries off `sums`, times the unknowns of its pivots. Those of entry p
    /// are at `place(p)` of `vector`; they are waited for.
    #[inlined]
    fn take_off_own(
        self,
        own: Own<T>,
        count: u32,
        vector: GlobalMut<T>,
        place: impl Fn(u32) -> usize,
        sums: &mut [T; R],
    ) {
        let lane = thread::lane_id();
        let many = R as u32;
        let is_wanted = lane / many < own_columns(count);
        let mut at = 0;
        if is_wanted {
            at = place(first_column() + lane / many) + (lane % many) as usize;
        }
        let [found] = take(vector, at, is_wanted);
        let mut u = 0;
        while u < WIDTH {
            let mut r = 0;
            while r < R {
                let found = warp::shuffle(warp::FULL_MASK, found, u * many + r as u32);
                if own.line.has(u) {
                    sums[r] = (-own.entries[u as usize]).mul_add(found, sums[r]);
                }
                r += 1;
            }
            u += 1;
        }
    }

    /// One tile on the way up; those of the pivots come first. All threads of the block call it.
    #[inlined]
    pub(super) fn tile_up(self, chunk: Chunk, front: Front, t: u32) {
        let lane = thread::lane_id();
        let of_pivots = front.tiles_of_pivots();
        let is_pivots = t < of_pivots;
        let (first, end) = if is_pivots {
            (t * TILE, front.k)
        } else {
            (front.k + (t - of_pivots) * TILE, front.m())
        };
        let i = first + lane;
        let is_row = i < end;
        let before = if is_pivots { t } else { of_pivots };
        let own_of = |j: u32| {
            let count = front.pivots_of_tile(j);
            let line = self.line_up(front, j * TILE, count, i).only_if(is_row);
            self.read_own(front, line, count)
        };
        let mut ahead = own_of(0);
        let inverse = self.inverse_pivot(front, i, is_pivots && is_row && self.transpose);
        let mut value = [T::ZERO];
        let mut row = i;
        if self.is_finisher() && is_row && is_pivots {
            row = self.row_as_it_came(front, i);
            let at = (front.start + row) as usize * R + self.own_rhs() as usize;
            value[0] = self.vectors.entered.get(chunk.unknowns + at);
        }
        let contributions = self.contributions(front, row);
        if is_pivots {
            self.show_triangle(if t == 0 { ahead } else { own_of(t) });
        }
        if self.is_finisher() {
            self.gather(chunk, self.own_rhs(), contributions, is_row, &mut value);
        }
        let mut sums = [T::ZERO; R];
        let mut j = 0;
        while j < before {
            let now = ahead;
            if j + 1 < before {
                ahead = own_of(j + 1);
            }
            let place = |p: u32| chunk.unknowns + (front.start + j * TILE + p) as usize * R;
            let count = front.pivots_of_tile(j);
            self.take_off_own(now, count, self.vectors.eliminated, place, &mut sums);
            j += 1;
        }
        value[0] += self.join(sums);
        if self.is_finisher() {
            let rhs = self.own_rhs() as usize;
            if is_pivots {
                let count = front.pivots_of_tile(t);
                self.pass_shown::<false>(count, inverse, &mut value[0]);
                if is_row {
                    let at = (front.start + i) as usize * R + rhs;
                    give(self.vectors.eliminated, chunk.unknowns + at, value);
                }
            } else if is_row {
                let to = self.carry(front, i) as usize;
                give(self.vectors.carried, chunk.carried + to * R + rhs, value);
            }
        }
        // The sums of the warps and the triangle are read.
        thread::sync_threads();
    }

    /// One tile of pivots on the way down. All threads of the block call it.
    #[inlined]
    pub(super) fn tile_down(self, chunk: Chunk, front: Front, t: u32) {
        let lane = thread::lane_id();
        let i = t * TILE + lane;
        let is_row = i < front.k;
        let own_of = |j: u32| {
            let count = front.pivots_of_tile(j);
            let line = self.line_down(front, j * TILE, count, i);
            self.read_own(front, line.only_if(is_row), count)
        };
        let triangle = own_of(t);
        let inverse = self.inverse_pivot(front, i, is_row && !self.transpose);
        let e = self.place_down(front, if is_row { i } else { 0 });
        let mut value = [T::ZERO];
        if self.is_finisher() {
            // It is there before the unknowns are that the tile waits for.
            let at = (front.start + i) as usize * R + self.own_rhs() as usize;
            value = take(self.vectors.eliminated, chunk.unknowns + at, is_row);
        }
        self.show_triangle(triangle);
        let mut sums = [T::ZERO; R];
        self.subtract_below(chunk, front, t, &mut sums);
        let last = front.tiles_of_pivots() - 1;
        let mut ahead = if last > t { own_of(last) } else { triangle };
        let mut j = last;
        while j > t {
            let now = ahead;
            if j > t + 1 {
                ahead = own_of(j - 1);
            }
            let count = front.pivots_of_tile(j);
            let place = |p: u32| {
                let e = self.place_down(front, j * TILE + count - 1 - p);
                chunk.unknowns + e as usize * R
            };
            self.take_off_own(now, count, self.vectors.unknowns, place, &mut sums);
            j -= 1;
        }
        value[0] += self.join(sums);
        if self.is_finisher() {
            let count = front.pivots_of_tile(t);
            self.pass_shown::<true>(count, inverse, &mut value[0]);
            if is_row {
                self.finish(chunk, self.own_rhs(), e, value);
            }
        }
        thread::sync_threads();
    }

    /// Takes the unknowns of the rows below off the pivots of tile `t`, each in its lane: each warp has some of the pivots,
    /// its lanes share the rows.
    #[inlined]
    fn subtract_below(self, chunk: Chunk, front: Front, t: u32, sums: &mut [T; R]) {
        let lane = thread::lane_id();
        let from = first_column();
        let rows = own_columns(front.pivots_of_tile(t));
        let entries = if rows > 0 { front.c } else { 0 };
        let spread = Spread::over(t * TILE + from, rows.max(1), entries);
        if front.c == 0 {
            return;
        }
        let below = self.products_below(chunk, front, spread);
        let mut r = 0;
        while r < R {
            let own = warp::shuffle(warp::FULL_MASK, below[r], lane.wrapping_sub(from) & 31);
            if lane >= from && lane < from + rows {
                sums[r] -= own;
            }
            r += 1;
        }
    }
}
