//! Very large fronts for one right-hand side, in strips of 64 rows, each the work of a block.
//!
//! ```text
//!             pivots, k            rows below, c           upwards a strip is 64 rows of the left columns; it needs the
//!         +---+---+---+--+---------------------------+     unknowns of the strips of pivots before it. Downwards it is
//! strip 0 | \ |   |   |  |                           |     64 rows of the right columns; it needs those after it,
//!         +---+---+---+--+                           |     and all unknowns of the rows below.
//! strip 1 |   | \ |   |  |                           |
//!         +---+---+---+--+---------------------------+
//!   below |   |   |   |  |
//!         +---+---+---+--+
//! ```
//!
//! Of the pivots' block, and of the panel that is used upwards, a lane has two rows, and the warps share the columns. Of the
//! panel that is used downwards, whose rows lie in memory one after the other, a lane has a column of 16 rows.
//!
//! A strip waits for the one before it, so the time from one to the next counts. A triangle is a chain of 64 steps, its
//! inverse is a product: so a block inverts its triangle in shared memory while it waits. (J. Hogg, E. Ovtchinnikov and
//! J. Scott, "A sparse symmetric indefinite direct solver for GPU architectures", ACM TOMS 42 (2016), keep such inverses.)
//! Entries are in registers before they are waited for. Of the rows below a front those are taken first whose unknowns
//! come first.
//!
//! Most unknowns have come long before their turn. So each is asked for a turn ahead, before the entries of that turn, which come
//! from farther away and one behind the other.

use luge_kernel::prelude::*;

use super::handover::{Asked, ask, give};
use super::kinds::{Kind, Side};
use super::{Chunk, Front, STRIP, Sweep, WARPS};
use crate::frontal::large::FrontField;

/// Rows of a strip that a lane has.
const ROWS: usize = (STRIP / warp::WARP_SIZE) as usize;

/// Columns of a strip of pivots that a warp has.
const WIDTH: u32 = STRIP / WARPS;

/// Distance of the columns of a triangle in shared memory: of numbers of 64 bits half of the lanes are served at a time, and those
/// with 4 rows of 4 columns meet in no bank.
pub(super) const DISTANCE: u32 = STRIP + 4;

/// Places of a triangle in shared memory.
pub(super) const TRIANGLE: usize = (STRIP * DISTANCE) as usize;

/// Pivots of a block on the diagonal of a triangle that is inverted row by row.
const BLOCK: u32 = 16;

/// Columns of it that a lane has.
const OWN: usize = (BLOCK * BLOCK / (2 * warp::WARP_SIZE)) as usize;

/// Rows of a strip that a warp has of the panel that is used downwards.
const GROUP: u32 = 16;

/// Warps that share the columns of that panel for such rows.
const SHARERS: u32 = WARPS * GROUP / STRIP;

/// Where the sums of the warps for the rows below are among all sums, and behind them the rows of a strip.
const BELOW_AT: u32 = WARPS * STRIP;
const ROWS_AT: u32 = BELOW_AT + SHARERS * STRIP;

/// Places of sums in shared memory.
pub(super) const SUMS: usize = (ROWS_AT + STRIP) as usize;

/// Threads for each row of a triangle.
const TOGETHER: u32 = WARPS * warp::WARP_SIZE / STRIP;

/// Rows of a triangle that a warp has then. As many columns are taken in one turn.
const ROWS_OF_WARP: u32 = STRIP / WARPS;

const _: () = assert!(WARPS * BLOCK == 2 * STRIP && ROWS_OF_WARP == 2 * TOGETHER);
const _: () = assert!(WIDTH <= warp::WARP_SIZE && 2 * GROUP == warp::WARP_SIZE && SHARERS > 0);

/// Where the rows of a strip lie: the entry in its row r and the front's column j is at `first` + r · `of_rows` + j ·
/// `of_columns`.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub first: u32,
    pub of_rows: u32,
    pub of_columns: u32,
    /// Number of rows.
    pub count: u32,
}

/// What a thread has of a strip of rows and one of columns.
pub(super) type Entries<T> = [[T; WIDTH as usize]; ROWS];

/// The first column of a strip that this warp has.
#[inlined]
fn first_column() -> u32 {
    thread::thread_idx_x() / warp::WARP_SIZE * WIDTH
}

/// The column of `count` whose unknown this lane has: the last one if it has none.
#[inlined]
fn own_column(count: u32) -> u32 {
    (first_column() + thread::lane_id()).min(count - 1)
}

impl<T: FrontField, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// The rows of strip `t` on the way up; the first of them, and how many strips of pivots are before them.
    #[inlined]
    pub(super) fn rows_up(self, front: Front, t: u32) -> (Rows, u32, u32) {
        let of_pivots = front.strips_of_pivots();
        if t < of_pivots {
            (self.rows_of_pivots(front, self.up(), t), t * STRIP, t)
        } else {
            let below = (t - of_pivots) * STRIP;
            let (begin, stride) = self.up().panel(front);
            let rows = Rows {
                first: begin + below,
                of_rows: 1,
                of_columns: stride,
                count: (front.c - below).min(STRIP),
            };
            (rows, front.k + below, of_pivots)
        }
    }

    /// The rows of strip `t` of the pivots' block.
    #[inlined]
    pub(super) fn rows_of_pivots(self, front: Front, side: Side, t: u32) -> Rows {
        Rows {
            first: side.pivot(front, t * STRIP, 0),
            of_rows: side.along_row(front),
            of_columns: side.along_col(front),
            count: front.pivots_of_strip(t),
        }
    }

    /// The rows of strip `t` of pivots in the panel that is used downwards.
    #[inlined]
    pub(super) fn rows_below(self, front: Front, t: u32) -> Rows {
        let (begin, stride) = self.down().panel(front);
        Rows {
            first: begin + t * STRIP * stride,
            of_rows: stride,
            of_columns: 1,
            count: front.pivots_of_strip(t),
        }
    }

    /// This thread's entries in the `count` columns from `column` on; any of them where there are none. A read on a
    /// condition would be waited for at once.
    #[inlined]
    pub(super) fn entries(self, front: Front, rows: Rows, column: u32, count: u32) -> Entries<T> {
        let mut entries = [[T::ZERO; WIDTH as usize]; ROWS];
        let lane = thread::lane_id();
        let mut r = 0;
        while r < ROWS {
            let row = (lane + r as u32 * warp::WARP_SIZE).min(rows.count - 1);
            let first = rows.first + row * rows.of_rows + column * rows.of_columns;
            let mut u = 0;
            while u < WIDTH {
                let own = (first_column() + u).min(count - 1);
                entries[r][u as usize] = self.factor(front, first + own * rows.of_columns);
                u += 1;
            }
            r += 1;
        }
        entries
    }

    /// Asks for this thread's unknown for `count` columns, of which a warp has one in each of its first lanes: number `e` of
    /// `vector`. Behind the last column it is zero.
    #[inlined]
    fn ask_unknown(
        self,
        chunk: Chunk,
        count: u32,
        vector: GlobalMut<T::Real>,
        e: u32,
    ) -> Asked<T, 1> {
        let lane = thread::lane_id();
        let is_wanted = lane < WIDTH && first_column() + lane < count;
        ask(vector, chunk.unknowns + e as usize * R, is_wanted)
    }

    /// Takes entries off `sums`, times the unknowns that the first lanes have in `found`.
    #[inlined]
    fn take_off_entries(self, entries: Entries<T>, found: T, sums: &mut [T; ROWS]) {
        let mut u = 0;
        while u < WIDTH {
            let found = warp::shuffle(warp::FULL_MASK, found, u);
            let mut r = 0;
            while r < ROWS {
                sums[r] = (-entries[r][u as usize]).mul_add(found, sums[r]);
                r += 1;
            }
            u += 1;
        }
    }

    /// Shows the inverse of the triangle of `count` pivots of which this thread has `entries`, below the diagonal, or
    /// above it if `BACK`; the pivots of the front's rows from `first` on are those that are `divided` by, else ones. All
    /// threads of the block call it; a barrier ends it.
    ///
    /// Blocks of 16 pivots are inverted, then pairs of them joined, then pairs of these.
    #[inlined]
    pub(super) fn show_inverse<const BACK: bool>(
        self,
        front: Front,
        (first, count): (u32, u32),
        entries: Entries<T>,
        divided: bool,
    ) {
        let lane = thread::lane_id();
        let mut r = 0;
        while r < ROWS {
            let row = lane + r as u32 * warp::WARP_SIZE;
            let mut u = 0;
            while u < WIDTH {
                let column = first_column() + u;
                let is_inside = if BACK { row < column } else { row > column };
                let is_entry = is_inside && row < count && column < count;
                let entry = if is_entry {
                    entries[r][u as usize]
                } else {
                    T::ZERO
                };
                self.values.set((column * DISTANCE + row) as usize, entry);
                u += 1;
            }
            r += 1;
        }
        // Two warps have a block on the diagonal, a lane a row of it in four columns.
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        let (block, row) = (warp / 2 * BLOCK, lane % BLOCK);
        let from = block + warp % 2 * (BLOCK / 2) + lane / BLOCK * OWN as u32;
        let is_pivot = block + row < count;
        let pivot = first + if is_pivot { block + row } else { 0 };
        let inverse = self.inverse_pivot(front, pivot, divided && is_pivot);
        let mut own = [T::ZERO; OWN];
        let mut u = 0;
        while u < OWN {
            if block + row == from + u as u32 {
                own[u] = T::ONE;
            }
            u += 1;
        }
        thread::sync_threads();
        let mut step = 0;
        while step < BLOCK {
            let p = if BACK { BLOCK - 1 - step } else { step };
            let left = self
                .values
                .get(((block + p) * DISTANCE + block + row) as usize);
            let mut u = 0;
            while u < OWN {
                let found = warp::shuffle(warp::FULL_MASK, own[u] * inverse, (lane & BLOCK) + p);
                own[u] = (-left).mul_add(found, own[u]);
                u += 1;
            }
            step += 1;
        }
        // The triangle has been read.
        thread::sync_threads();
        let mut u = 0;
        while u < OWN {
            let at = (from + u as u32) * DISTANCE + block + row;
            self.values.set(at as usize, own[u] * inverse);
            u += 1;
        }
        thread::sync_threads();
        self.join_inverses::<BACK>(BLOCK);
        self.join_inverses::<BACK>(2 * BLOCK);
    }

    /// Makes of the inverses of blocks of `size` pivots, and what is beside them, those of two of them: with A and C on the
    /// diagonal and B below A or right of C, B becomes -C^-1·B·A^-1, or with A and C exchanged.
    #[inlined]
    fn join_inverses<const BACK: bool>(self, size: u32) {
        // A warp has 16 rows of 8 columns.
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        let of_pair = (size / 16) * (size / 8);
        let (pair, number) = (warp / of_pair * 2 * size, warp % of_pair);
        let is_busy = pair < STRIP;
        let (row, column) = (number % (size / 16) * 16, number / (size / 16) * 8);
        let (above, left) = if BACK {
            (pair, pair + size)
        } else {
            (pair + size, pair)
        };
        let mut half = 0;
        while half < 2 {
            // First B times the inverse right of it, in the place of B, then the inverse left of it times that.
            let (first_at, second_at) = if half == 0 {
                (left * DISTANCE + above, left * DISTANCE + left)
            } else {
                (above * DISTANCE + above, left * DISTANCE + above)
            };
            let mut sums = [[[T::ZERO; 4]; 1]; 1];
            if is_busy {
                let mut p = 0;
                while p < size {
                    T::add_products::<1>(
                        |r, k| {
                            let at = first_at + (p + k) * DISTANCE + row + r;
                            self.values.get(at as usize)
                        },
                        |k, c| {
                            let at = second_at + (column + c) * DISTANCE + p + k;
                            self.values.get(at as usize)
                        },
                        &mut sums,
                    );
                    p += 8;
                }
            }
            // All factors have been read.
            thread::sync_threads();
            if is_busy {
                let (g, t) = (thread::lane_id() / 4, thread::lane_id() % 4);
                let mut x = 0;
                while x < 4 {
                    let (r, c) = (row + g + x / 2 * 8, column + 2 * t + x % 2);
                    let at = (left + c) * DISTANCE + above + r;
                    let sum = sums[0][0][x as usize];
                    let value = if half == 0 { sum } else { -sum };
                    self.values.set(at as usize, value);
                    x += 1;
                }
            }
            thread::sync_threads();
            half += 1;
        }
    }

    /// Adds to the value of each row of a strip, which the thread of that number has, what the warps have for it, `below`
    /// too. All threads of the block call it.
    #[inlined]
    fn join_strip(self, sums: [T; ROWS], below: bool, value: T) -> T {
        let thread = thread::thread_idx_x();
        let (warp, lane) = (thread / warp::WARP_SIZE, thread::lane_id());
        let mut r = 0;
        while r < ROWS {
            let at = warp * STRIP + lane + r as u32 * warp::WARP_SIZE;
            self.products.set(at as usize, sums[r]);
            r += 1;
        }
        thread::sync_threads();
        let mut value = value;
        if thread < STRIP {
            let shown = if below { WARPS + SHARERS } else { WARPS };
            let mut warp = 0;
            while warp < WARPS + SHARERS {
                if warp < shown {
                    value += self.products.get((warp * STRIP + thread) as usize);
                }
                warp += 1;
            }
        }
        value
    }

    /// The product of the inverse that is shown, which is a lower triangle, or an upper one if `BACK`, with the values of the rows, of
    /// which the thread of each number has one: that of row n in the first of the threads from [`TOGETHER`] · n on. All threads of
    /// the block call it.
    #[inlined]
    fn times_inverse<const BACK: bool>(self, value: T) -> T {
        let thread = thread::thread_idx_x();
        if thread < STRIP {
            self.products.set((ROWS_AT + thread) as usize, value);
        }
        thread::sync_threads();
        let (row, first) = (thread / TOGETHER, thread % TOGETHER);
        let mut sums = [T::ZERO; 2];
        let of_warp = row & !(ROWS_OF_WARP - 1);
        let (begin, end) = if BACK {
            (of_warp, STRIP)
        } else {
            (0, of_warp + ROWS_OF_WARP)
        };
        let mut p = begin;
        while p < end {
            let mut u = 0;
            while u < 2 {
                let column = p + u as u32 * TOGETHER + first;
                let entry = self.values.get((column * DISTANCE + row) as usize);
                let value = self.products.get((ROWS_AT + column) as usize);
                sums[u] = entry.mul_add(value, sums[u]);
                u += 1;
            }
            p += 2 * TOGETHER;
        }
        let mut sum = sums[0] + sums[1];
        let mut distance = 1;
        while distance < TOGETHER {
            sum += warp::shuffle_xor(warp::FULL_MASK, sum, distance);
            distance *= 2;
        }
        sum
    }

    /// One strip on the way up; those of the pivots come first. All threads of the block call it.
    #[inlined]
    pub(super) fn strip_up(self, chunk: Chunk, front: Front, t: u32) {
        let thread = thread::thread_idx_x();
        let (rows, first, before) = self.rows_up(front, t);
        let is_pivots = t < front.strips_of_pivots();
        let count = rows.count;
        let own_of = |j: u32| self.entries(front, rows, j * STRIP, front.pivots_of_strip(j));
        let mut ahead = own_of(0);
        let is_row = thread < count;
        let i = if is_row { first + thread } else { first };
        let mut value = [T::ZERO];
        let mut row = i;
        if is_row && is_pivots {
            row = self.row_as_it_came(front, i);
            let at = (front.start + row) as usize * R;
            value[0] = self.vectors.entered.get(chunk.unknowns + at);
        }
        let contributions = self.contributions(front, row);
        if is_pivots {
            let triangle = if t == 0 { ahead } else { own_of(t) };
            self.show_inverse::<false>(front, (first, count), triangle, self.up().divides());
        }
        if thread < STRIP {
            self.gather(chunk, 0, contributions, is_row, &mut value);
        }
        let mut sums = [T::ZERO; ROWS];
        let ask_of = |j: u32| {
            let count = front.pivots_of_strip(j);
            let e = front.start + j * STRIP + own_column(count);
            self.ask_unknown(chunk, count, self.vectors.eliminated, e)
        };
        let mut asked = ask_of(0);
        let mut j = 0;
        while j < before {
            let [found] = asked.answer(self.vectors.eliminated);
            let now = ahead;
            if j + 1 < before {
                asked = ask_of(j + 1);
                ahead = own_of(j + 1);
            }
            self.take_off_entries(now, found, &mut sums);
            j += 1;
        }
        let value = self.join_strip(sums, false, value[0]);
        if is_pivots {
            let found = self.times_inverse::<false>(value);
            let row = thread / TOGETHER;
            if thread.is_multiple_of(TOGETHER) && row < count {
                let at = (front.start + first + row) as usize * R;
                give(self.vectors.eliminated, chunk.unknowns + at, [found]);
            }
        } else if is_row {
            let to = self.carry(front, i) as usize;
            give(self.vectors.carried, chunk.carried + to * R, [value]);
        }
        // The sums of the warps and the inverse are read.
        thread::sync_threads();
    }

    /// One strip of pivots on the way down. All threads of the block call it.
    #[inlined]
    pub(super) fn strip_down(self, chunk: Chunk, front: Front, t: u32) {
        let thread = thread::thread_idx_x();
        let first = t * STRIP;
        let count = front.pivots_of_strip(t);
        let rows = self.rows_of_pivots(front, self.down(), t);
        let own_of = |j: u32| self.entries(front, rows, j * STRIP, front.pivots_of_strip(j));
        let triangle = own_of(t);
        let own_row = thread / TOGETHER;
        let e = self.place_down(front, first + own_row.min(count - 1));
        self.show_inverse::<true>(front, (first, count), triangle, self.down().divides());
        self.show_below(chunk, front, self.rows_below(front, t));
        let mut value = [T::ZERO];
        if thread < STRIP {
            let is_row = thread < count;
            value = self.take_eliminated((chunk, 0), front, first + thread, is_row);
        }
        let mut sums = [T::ZERO; ROWS];
        let last = front.strips_of_pivots() - 1;
        // Where an unknown is, is read two strips before it is used.
        let place_of = |j: u32| {
            let column = own_column(front.pivots_of_strip(j));
            self.place_down(front, j * STRIP + column)
        };
        let ask_of = |j: u32, e: u32| {
            let count = front.pivots_of_strip(j);
            self.ask_unknown(chunk, count, self.vectors.unknowns, e)
        };
        let mut asked = ask_of(last, place_of(last));
        let mut next = place_of(last.saturating_sub(1));
        let mut ahead = if last > t { own_of(last) } else { triangle };
        let mut j = last;
        while j > t {
            let [found] = asked.answer(self.vectors.unknowns);
            let now = ahead;
            // Not before: what is waited for would come behind it.
            if j > t + 1 {
                asked = ask_of(j - 1, next);
                next = place_of(j.saturating_sub(2));
                ahead = own_of(j - 1);
            }
            self.take_off_entries(now, found, &mut sums);
            j -= 1;
        }
        let value = self.join_strip(sums, front.c > 0, value[0]);
        let found = self.times_inverse::<true>(value);
        if thread.is_multiple_of(TOGETHER) && own_row < count {
            self.finish(chunk, 0, e, [found]);
        }
        thread::sync_threads();
    }

    /// Shows the products of the rows of pivots `rows` with the unknowns of the rows below, which are waited for, if there
    /// are any: each warp has some of the pivots and half of the rows below.
    #[inlined]
    fn show_below(self, chunk: Chunk, front: Front, rows: Rows) {
        let (lane, warp) = (thread::lane_id(), thread::thread_idx_x() / warp::WARP_SIZE);
        if front.c == 0 {
            return;
        }
        let (from, own) = (warp / SHARERS * GROUP, warp % SHARERS);
        // Of the columns, from the last one on, the lane has every 64th; beyond them the first one, times zero.
        let distance = |turn: u32| (turn * SHARERS + own) * warp::WARP_SIZE + lane;
        let column = |turn: u32| (front.c - 1).saturating_sub(distance(turn));
        let read = |turn: u32| {
            let mut entries = [T::ZERO; GROUP as usize];
            let mut u = 0;
            while u < GROUP {
                let row = (from + u).min(rows.count - 1);
                let place = rows.first + row * rows.of_rows + column(turn);
                entries[u as usize] = self.factor(front, place);
                u += 1;
            }
            entries
        };
        let unknown = |turn: u32| {
            let at = front.rows + column(turn);
            self.tree.row_idx.get(at as usize)
        };
        let mut sums = [T::ZERO; GROUP as usize];
        if from < rows.count {
            let turns = front.c.div_ceil(SHARERS * warp::WARP_SIZE);
            let ask_of = |turn: u32, e: u32| {
                let at = chunk.unknowns + e as usize * R;
                ask(self.vectors.unknowns, at, distance(turn) < front.c)
            };
            let mut asked = ask_of(0, unknown(0));
            let (mut entries, mut next) = (read(0), unknown(1));
            let mut turn = 0;
            while turn < turns {
                let [found] = asked.answer(self.vectors.unknowns);
                let now = entries;
                if turn + 1 < turns {
                    asked = ask_of(turn + 1, next);
                    next = unknown(turn + 2);
                    entries = read(turn + 1);
                }
                let mut u = 0;
                while u < GROUP as usize {
                    sums[u] = (-now[u]).mul_add(found, sums[u]);
                    u += 1;
                }
                turn += 1;
            }
        }
        // Lanes 2·u and 2·u + 1 end with row u.
        let sums: [T; 8] = halved(sums, 16);
        let sums: [T; 4] = halved(sums, 8);
        let sums: [T; 2] = halved(sums, 4);
        let [sum] = halved(sums, 2);
        let sum = sum + warp::shuffle_xor(warp::FULL_MASK, sum, 1);
        if lane % 2 == 0 {
            let at = BELOW_AT + own * STRIP + from + lane / 2;
            self.products.set(at as usize, sum);
        }
    }
}

/// Half of some sums, each with that of the lane at `distance` added: lanes with that bit have the upper half.
#[inlined]
fn halved<T: Field, const N: usize, const HALF: usize>(sums: [T; N], distance: u32) -> [T; HALF] {
    let is_upper = thread::lane_id() & distance != 0;
    let mut halves = [T::ZERO; HALF];
    let mut u = 0;
    while u < HALF {
        let (lower, upper) = (sums[u], sums[u + HALF]);
        let (kept, given) = if is_upper {
            (upper, lower)
        } else {
            (lower, upper)
        };
        halves[u] = kept + warp::shuffle_xor(warp::FULL_MASK, given, distance);
        u += 1;
    }
    halves
}
