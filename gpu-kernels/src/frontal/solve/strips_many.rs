//! Very large fronts for several right-hand sides, in the [strips](super::strips) that one has: products are those of
//! tensor cores, for two chunks of right-hand sides at once.
//!
//! A warp has 16 rows of a strip and half of 64 columns. The unknowns of these columns lie in shared memory, in one of two
//! places in turn, so that one barrier for each strip of columns does.

use luge_kernel::prelude::*;

use super::handover::{give, take};
use super::kinds::Kind;
use super::layout::PAIR;
use super::strips::{DISTANCE, Rows, TRIANGLE};
use super::{Chunk, Front, MANY, STRIP, Sweep, WARPS};
use crate::frontal::large::{FrontField, repeated};

/// Columns of one product.
const DEPTH: u32 = 8;

/// Rows of it.
const GROUP: u32 = 16;

/// Columns of a strip that a warp has.
const WIDTH: u32 = STRIP * STRIP / (WARPS * GROUP);

/// Products of a warp for each strip of columns.
const PRODUCTS: usize = (WIDTH / DEPTH) as usize;

/// Warps that share the columns.
const SHARERS: u32 = STRIP / WIDTH;

/// Right-hand sides that a thread finishes before the triangle.
const OWN: usize = 4;

/// Values of one chunk for the rows of a strip.
const VALUES: u32 = STRIP * MANY as u32;

/// Values of all chunks for them.
const STAGED: u32 = PAIR as u32 * VALUES;

/// Where the sums of the warps begin, behind two places for unknowns.
const SUMS_AT: u32 = 2 * STAGED;

/// Places of unknowns and sums in shared memory.
pub(super) const SUMS: usize = (SUMS_AT + SHARERS * STAGED) as usize;

const _: () = assert!(PRODUCTS <= 4);
const _: () = assert!(WARPS * warp::WARP_SIZE * OWN as u32 == STAGED && MANY as u32 == DEPTH);
const _: () = assert!(TRIANGLE >= super::WHOLE_ROWS as usize * super::layout::OF_THREAD);
const _: () = assert!(SUMS >= super::WHOLE_ROWS as usize * super::layout::OF_THREAD);

/// What a lane has of the sums of a warp, for each chunk.
type Sums<T> = [[[T; 4]; PAIR]; 1];

/// What a lane has of the products of a warp.
type Part<T> = [[T; 4]; PRODUCTS];

/// First of the 16 rows of a strip that this warp has, and which of the [`SHARERS`] it is.
#[inlined]
fn own_rows() -> (u32, u32) {
    let warp = thread::thread_idx_x() / warp::WARP_SIZE;
    let groups = STRIP / GROUP;
    (warp % groups * GROUP, warp / groups)
}

/// Row and column of entry `x` of a lane's part of the left factor of a product.
#[inlined]
fn of_left(x: u32) -> (u32, u32) {
    let lane = thread::lane_id();
    (lane / 4 + x % 2 * 8, lane % 4 + x / 2 * 4)
}

/// The chunk, row and first right-hand side that this thread finishes before the triangle: those of a warp are alike.
#[inlined]
fn own_value() -> (u32, u32, u32) {
    let warp = thread::thread_idx_x() / warp::WARP_SIZE;
    let of_rows = STRIP / warp::WARP_SIZE;
    let of_chunk = of_rows * (MANY / OWN) as u32;
    (
        warp / of_chunk,
        warp % of_rows * warp::WARP_SIZE + thread::lane_id(),
        warp % of_chunk / of_rows * OWN as u32,
    )
}

impl<T: FrontField, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// This lane's part of product `p` of the `count` columns from `column` on; any entries where there are none.
    #[inlined]
    fn part(self, front: Front, rows: Rows, (column, count): (u32, u32), p: u32) -> [T; 4] {
        let mut part = [T::ZERO; 4];
        let (group, sharer) = own_rows();
        repeated!(x < 4 => {
            let (row, own) = of_left(x as u32);
            let row = (group + row).min(rows.count - 1);
            let own = (sharer * WIDTH + p * DEPTH + own).min(count - 1);
            let place = rows.first + row * rows.of_rows + (column + own) * rows.of_columns;
            part[x] = self.factor(front, place);
        });
        part
    }

    /// Shows in place `at`, for as many `chunks` from one on, the unknowns of `count` columns, which are waited for: those of column p are number `number(p)`
    /// of `vector`. Behind the last column they are zero.
    #[inlined]
    fn stage(
        self,
        (chunk, chunks): (Chunk, u32),
        at: u32,
        count: u32,
        vector: GlobalMut<T::Real>,
        number: impl Fn(u32) -> u32,
    ) {
        let thread = thread::thread_idx_x();
        let of_chunk = VALUES / OWN as u32;
        let (n, own) = (thread / of_chunk, thread % of_chunk * OWN as u32);
        let (column, rhs) = (own / MANY as u32, own % MANY as u32);
        let is_wanted = n < chunks && column < count;
        let mut from = 0;
        if is_wanted {
            let unknowns = self.chunk_behind(chunk, n).unknowns;
            from = unknowns + number(column) as usize * R + rhs as usize;
        }
        let found: [T; OWN] = take(vector, from, is_wanted);
        // Zeros where there is no second chunk.
        let mut i = 0;
        while i < OWN {
            self.products
                .set((at + n * VALUES + own) as usize + i, found[i]);
            i += 1;
        }
    }

    /// Adds strips of columns to `sums`, times their unknowns in `vector`: turn number i has the columns `columns(i)`,
    /// from the first of these on so many, of which each is unknown `number(column)`. `before` turns came before. All
    /// threads of the block call it.
    #[inlined]
    #[expect(
        clippy::too_many_arguments,
        reason = "each is another part of the strip"
    )]
    fn add_columns(
        self,
        (chunk, chunks): (Chunk, u32),
        (front, rows): (Front, Rows),
        (before, turns): (u32, u32),
        columns: impl Fn(u32) -> (u32, u32),
        vector: GlobalMut<T::Real>,
        number: impl Fn(u32) -> u32,
        sums: &mut Sums<T>,
    ) {
        if turns == 0 {
            return;
        }
        let (_, sharer) = own_rows();
        let mut parts: Part<T> = [[T::ZERO; 4]; PRODUCTS];
        repeated!(p < PRODUCTS => {
            parts[p] = self.part(front, rows, columns(0), p as u32);
        });
        let mut turn = 0;
        while turn < turns {
            let at = (before + turn) % 2 * STAGED;
            let (column, count) = columns(turn);
            self.stage((chunk, chunks), at, count, vector, |p| number(column + p));
            thread::sync_threads();
            let next = columns((turn + 1).min(turns - 1));
            repeated!(p < PRODUCTS => {
                let first = at + (sharer * WIDTH + p as u32 * DEPTH) * MANY as u32;
                let right = |n: usize, k: u32, rhs: u32| {
                    let place = first + n as u32 * VALUES + k * MANY as u32 + rhs;
                    self.products.get(place as usize)
                };
                T::add_columns::<PAIR>(parts[p], right, sums);
                // Those of the next turn, or this one's again: behind what was waited for, which would come behind them. Nothing is made
                // of them before, or they would be waited for.
                parts[p] = self.part(front, rows, next, p as u32);
            });
            turn += 1;
        }
    }

    /// Takes off this thread's `value` what the warps have for it. All threads of the block call it.
    #[inlined]
    fn take_off_columns(self, chunks: u32, sums: &Sums<T>, value: &mut [T; OWN]) {
        let (group, sharer) = own_rows();
        let lane = thread::lane_id();
        let mut n = 0;
        while n < PAIR {
            let mut x = 0;
            while x < 4 {
                let (row, rhs) = (group + lane / 4 + x / 2 * 8, lane % 4 * 2 + x % 2);
                let of_chunk = SUMS_AT + sharer * STAGED + n as u32 * VALUES;
                let at = of_chunk + row * MANY as u32 + rhs;
                self.products.set(at as usize, sums[0][n][x as usize]);
                x += 1;
            }
            n += 1;
        }
        thread::sync_threads();
        let (n, row, rhs) = own_value();
        if n < chunks {
            let mut sharer = 0;
            while sharer < SHARERS {
                let of_chunk = SUMS_AT + sharer * STAGED + n * VALUES;
                let at = of_chunk + row * MANY as u32 + rhs;
                let mut i = 0;
                while i < OWN {
                    value[i] -= self.products.get(at as usize + i);
                    i += 1;
                }
                sharer += 1;
            }
        }
    }

    /// The product of the inverse that is shown with the threads' values, as a product has it: hands on each two right-hand
    /// sides of a row and a chunk to `finish(chunk, row, rhs, values)`. All threads of the block call it.
    #[inlined]
    fn times_shown_inverse(
        self,
        chunks: u32,
        value: [T; OWN],
        mut finish: impl FnMut(u32, u32, u32, [T; 2]),
    ) {
        // Unknowns of columns are not needed any more.
        let (n, row, rhs) = own_value();
        let at = n * VALUES + row * MANY as u32 + rhs;
        if n < chunks {
            let mut i = 0;
            while i < OWN {
                self.products.set(at as usize + i, value[i]);
                i += 1;
            }
        }
        thread::sync_threads();
        let (group, n) = own_rows();
        if n < chunks {
            // Two sums: no product waits for the one right before it.
            let mut found = [[[[T::ZERO; 4]; 1]; 1]; 2];
            let mut p = 0;
            while p < STRIP {
                let mut left = [[T::ZERO; 4]; 2];
                repeated!(s < 2 => {
                    let mut x = 0;
                    while x < 4 {
                        let (row, column) = of_left(x);
                        let at = (p + s as u32 * DEPTH + column) * DISTANCE + group + row;
                        left[s][x as usize] = self.values.get(at as usize);
                        x += 1;
                    }
                });
                repeated!(s < 2 => {
                    let first = n * VALUES + (p + s as u32 * DEPTH) * MANY as u32;
                    let right = |_: usize, k: u32, rhs: u32| {
                        self.products.get((first + k * MANY as u32 + rhs) as usize)
                    };
                    T::add_columns::<1>(left[s], right, &mut found[s]);
                });
                p += 2 * DEPTH;
            }
            let [[[[a, b, c, d]]], [[[e, f, g, h]]]] = found;
            let lane = thread::lane_id();
            finish(n, group + lane / 4, lane % 4 * 2, [a + e, b + f]);
            finish(n, group + lane / 4 + 8, lane % 4 * 2, [c + g, d + h]);
        }
    }

    /// One strip on the way up for a chunk or two, as [`strip_up`](Self::strip_up). All threads of the block call it.
    #[inlined]
    pub(super) fn strip_up_many(self, (chunk, chunks): (Chunk, u32), front: Front, t: u32) {
        let (rows, first, before) = self.rows_up(front, t);
        let is_pivots = t < front.strips_of_pivots();
        let (n, own, rhs) = own_value();
        let is_row = n < chunks && own < rows.count;
        let of_own = self.chunk_behind(chunk, if n < chunks { n } else { 0 });
        let i = if is_row { first + own } else { first };
        let mut value = [T::ZERO; OWN];
        let mut row = i;
        if is_pivots {
            row = self.row_as_it_came(front, i);
            let at = of_own.unknowns + (front.start + row) as usize * R + rhs as usize;
            let mut r = 0;
            while r < OWN {
                value[r] = self.vectors.entered.get(at + r);
                r += 1;
            }
        }
        let contributions = self.contributions(front, row);
        if is_pivots {
            let triangle = self.entries(front, rows, first, rows.count);
            self.show_inverse::<false>(front, (first, rows.count), triangle, self.up().divides());
        }
        if n < chunks {
            self.gather(of_own, rhs, contributions, is_row, &mut value);
        }
        let mut sums = [[[T::ZERO; 4]; PAIR]; 1];
        self.add_columns(
            (chunk, chunks),
            (front, rows),
            (0, before),
            |turn| (turn * STRIP, front.pivots_of_strip(turn)),
            self.vectors.eliminated,
            |column| front.start + column,
            &mut sums,
        );
        self.take_off_columns(chunks, &sums, &mut value);
        if is_pivots {
            self.times_shown_inverse(chunks, value, |n, row, rhs, found| {
                if row < rows.count {
                    let unknowns = self.chunk_behind(chunk, n).unknowns;
                    let at = unknowns + (front.start + first + row) as usize * R;
                    give(self.vectors.eliminated, at + rhs as usize, found);
                }
            });
        } else if is_row {
            let to = self.carry(front, i) as usize;
            let at = of_own.carried + to * R + rhs as usize;
            give(self.vectors.carried, at, value);
        }
        // The sums of the warps and the inverse are read.
        thread::sync_threads();
    }

    /// One strip of pivots on the way down for a chunk or two, as [`strip_down`](Self::strip_down). All threads of the block call
    /// it.
    #[inlined]
    pub(super) fn strip_down_many(self, (chunk, chunks): (Chunk, u32), front: Front, t: u32) {
        let first = t * STRIP;
        let (rows, below) = (
            self.rows_of_pivots(front, self.down(), t),
            self.rows_below(front, t),
        );
        let triangle = self.entries(front, rows, first, rows.count);
        self.show_inverse::<true>(front, (first, rows.count), triangle, self.down().divides());
        let (n, own, rhs) = own_value();
        let mut value = [T::ZERO; OWN];
        if n < chunks {
            let is_row = own < rows.count;
            let row = first + if is_row { own } else { 0 };
            let of_own = self.chunk_behind(chunk, n);
            value = self.take_eliminated((of_own, rhs), front, row, is_row);
        }
        let mut sums = [[[T::ZERO; 4]; PAIR]; 1];
        let turns_below = front.c.div_ceil(STRIP);
        self.add_columns(
            (chunk, chunks),
            (front, below),
            (0, turns_below),
            |turn| {
                let end = front.c - turn * STRIP;
                let count = end.min(STRIP);
                (end - count, count)
            },
            self.vectors.unknowns,
            |column| self.tree.row_idx.get((front.rows + column) as usize),
            &mut sums,
        );
        let last = front.strips_of_pivots() - 1;
        self.add_columns(
            (chunk, chunks),
            (front, rows),
            (turns_below, last - t),
            |turn| {
                let strip = last - turn;
                (strip * STRIP, front.pivots_of_strip(strip))
            },
            self.vectors.unknowns,
            |column| self.place_down(front, column),
            &mut sums,
        );
        self.take_off_columns(chunks, &sums, &mut value);
        self.times_shown_inverse(chunks, value, |n, row, rhs, found| {
            if row < rows.count {
                let e = self.place_down(front, first + row);
                self.finish(self.chunk_behind(chunk, n), rhs, e, found);
            }
        });
        thread::sync_threads();
    }
}
