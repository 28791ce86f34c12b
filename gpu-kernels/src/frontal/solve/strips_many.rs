//! Very large fronts for several right-hand sides, in the [strips](super::strips) that one has: products are those of
//! tensor cores, for two chunks of right-hand sides at once.
//!
//! A warp has 16 rows of a strip and half of 64 columns. The unknowns of these columns lie in shared memory, in one of two
//! places in turn, so that one barrier for each strip of columns does.
//!
//! What is not needed for the next strip stays off the chain from one strip to the next: no entries are read behind the last turn
//! (they would be waited for), zeros of the triangle are left out, and solutions of A are written after all unknowns are handed
//! over.

use luge_kernel::prelude::*;

use super::handover::{Asked, ask, give};
use super::kinds::Kind;
use super::layout::PAIR;
use super::strips::{DISTANCE, Rows, TRIANGLE};
use super::{Chunk, Front, MANY, STRIP, Sweep, WARPS};
use crate::frontal::large::{FrontField, repeated};

/// Columns of one product.
const DEPTH: u32 = 8;

/// Rows of it.
const GROUP: u32 = 16;

/// Distance of the two of them that a lane has.
const APART: u32 = GROUP / 2;

/// Columns of a strip that a warp has.
const WIDTH: u32 = STRIP * STRIP / (WARPS * GROUP);

/// Products of a warp for each strip of columns.
const PRODUCTS: usize = (WIDTH / DEPTH) as usize;

/// Warps that share the columns.
const SHARERS: u32 = STRIP / WIDTH;

/// Right-hand sides of each chunk that a thread finishes before the triangle, of one row.
const OWN: usize = 2;

/// Right-hand sides that a thread brings to shared memory.
const BROUGHT: usize = OWN * PAIR;

/// Values of one chunk for the rows of a strip.
const VALUES: u32 = STRIP * MANY as u32;

/// Values of all chunks for them.
const STAGED: u32 = PAIR as u32 * VALUES;

/// Where the sums of the warps begin, behind two places for unknowns.
const SUMS_AT: u32 = 2 * STAGED;

/// Places of unknowns and sums in shared memory.
pub(super) const SUMS: usize = (SUMS_AT + SHARERS * STAGED) as usize;

const _: () = assert!(PRODUCTS <= 4);
const _: () = assert!(WARPS * warp::WARP_SIZE * OWN as u32 == VALUES && MANY as u32 == DEPTH);
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

/// What this thread finishes before the triangle, of each chunk.
type OwnValues<T> = [[T; OWN]; PAIR];

/// The row and first right-hand side of them. Threads have them in the order in which they lie in shared memory, and so meet in few
/// of its banks.
#[inlined]
fn own_value() -> (u32, u32) {
    let first = thread::thread_idx_x() * OWN as u32;
    (first / MANY as u32, first % MANY as u32)
}

/// What this thread brings to shared memory: the chunk, the column and the first right-hand side.
#[inlined]
fn brought() -> (u32, u32, u32) {
    let thread = thread::thread_idx_x();
    let of_chunk = VALUES / BROUGHT as u32;
    let own = thread % of_chunk * BROUGHT as u32;
    (thread / of_chunk, own / MANY as u32, own % MANY as u32)
}

impl<T: FrontField, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// Calls `work(n, chunk)` for the chunks that are worked on together, of which there may be one.
    #[inlined]
    fn for_chunks(self, (chunk, chunks): (Chunk, u32), mut work: impl FnMut(usize, Chunk)) {
        let mut n = 0;
        while n < PAIR {
            if (n as u32) < chunks {
                work(n, self.chunk_behind(chunk, n as u32));
            }
            n += 1;
        }
    }

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

    /// Asks for what this thread brings of the unknowns of `count` columns, for as many `chunks` from one on, of `vector`:
    /// those of its column are number `number`. Behind the last column they are zero, and where there is no second chunk.
    #[inlined]
    fn ask_own(
        self,
        (chunk, chunks): (Chunk, u32),
        count: u32,
        vector: GlobalMut<T::Real>,
        number: u32,
    ) -> Asked<T, BROUGHT> {
        let (n, column, rhs) = brought();
        let is_wanted = n < chunks && column < count;
        let unknowns = self.chunk_behind(chunk, if is_wanted { n } else { 0 });
        let at = unknowns.unknowns + number as usize * R + rhs as usize;
        ask(vector, at, is_wanted)
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
        // The number of the unknown of this thread's column, read two turns before it is used; the unknown is asked for one before.
        let number_of = |turn: u32| {
            let (column, count) = columns(turn.min(turns - 1));
            let (_, own, _) = brought();
            number(column + own.min(count - 1))
        };
        let first = columns(0);
        let mut asked = self.ask_own((chunk, chunks), first.1, vector, number_of(0));
        let mut next_number = number_of(1);
        let mut parts: Part<T> = [[T::ZERO; 4]; PRODUCTS];
        repeated!(p < PRODUCTS => {
            parts[p] = self.part(front, rows, columns(0), p as u32);
        });
        let bring = |turn: u32, asked: Asked<T, BROUGHT>| {
            let found = asked.answer(vector);
            let at = (before + turn) % 2 * STAGED;
            let own = at + thread::thread_idx_x() * BROUGHT as u32;
            let mut i = 0;
            while i < BROUGHT {
                self.products.set(own as usize + i, found[i]);
                i += 1;
            }
            thread::sync_threads();
            at + sharer * WIDTH * MANY as u32
        };
        let mut turn = 0;
        while turn + 1 < turns {
            let at = bring(turn, asked);
            let next = columns(turn + 1);
            asked = self.ask_own((chunk, chunks), next.1, vector, next_number);
            next_number = number_of(turn + 2);
            repeated!(p < PRODUCTS => {
                self.add_product(parts[p], at, p as u32, sums);
                // Those of the next turn: behind what was waited for, which would come behind them. Nothing is made of them before, or
                // they would be waited for.
                parts[p] = self.part(front, rows, next, p as u32);
            });
            turn += 1;
        }
        // The last turn by itself: it reads nothing, which would be waited for behind it.
        let at = bring(turn, asked);
        repeated!(p < PRODUCTS => {
            self.add_product(parts[p], at, p as u32, sums);
        });
    }

    /// Adds product `p` of a warp to `sums`, with the unknowns that are shown from place `at` on.
    #[inlined]
    fn add_product(self, part: [T; 4], at: u32, p: u32, sums: &mut Sums<T>) {
        let first = at + p * DEPTH * MANY as u32;
        let right = |n: usize, k: u32, rhs: u32| {
            let place = first + n as u32 * VALUES + k * MANY as u32 + rhs;
            self.products.get(place as usize)
        };
        T::add_columns::<PAIR>(part, right, sums);
    }

    /// Takes off this thread's `value` what the warps have for it. All threads of the block call it.
    #[inlined]
    fn take_off_columns(self, sums: &Sums<T>, value: &mut OwnValues<T>) {
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
        let own = thread::thread_idx_x() * OWN as u32;
        let mut sharer = 0;
        while sharer < SHARERS {
            let mut n = 0;
            while n < PAIR {
                let at = SUMS_AT + sharer * STAGED + n as u32 * VALUES + own;
                let mut i = 0;
                while i < OWN {
                    value[n][i] -= self.products.get(at as usize + i);
                    i += 1;
                }
                n += 1;
            }
            sharer += 1;
        }
    }

    /// The product of the inverse that is shown, which is a lower triangle, or an upper one if `BACK`, with the threads' values: hands
    /// on two right-hand sides of a chunk from `rhs` on, for the row `row` and the one [`APART`] behind it, to `finish(chunk, row, rhs,
    /// values)`. All threads of the block call it.
    #[inlined]
    fn times_shown_inverse<const BACK: bool>(
        self,
        chunks: u32,
        value: OwnValues<T>,
        mut finish: impl FnMut(u32, u32, u32, [[T; 2]; 2]),
    ) {
        // Unknowns of columns are not needed any more.
        let own = thread::thread_idx_x() * OWN as u32;
        let mut n = 0;
        while n < PAIR {
            let mut i = 0;
            while i < OWN {
                let at = n as u32 * VALUES + own + i as u32;
                self.products.set(at as usize, value[n][i]);
                i += 1;
            }
            n += 1;
        }
        thread::sync_threads();
        let (group, n) = own_rows();
        if n < chunks {
            // Two sums: no product waits for the one right before it.
            let mut found = [[[[T::ZERO; 4]; 1]; 1]; 2];
            let (begin, end) = if BACK {
                (group, STRIP)
            } else {
                (0, group + GROUP)
            };
            let mut p = begin;
            while p < end {
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
            let found = [[a + e, b + f], [c + g, d + h]];
            finish(n, group + lane / 4, lane % 4 * 2, found);
        }
    }

    /// One strip on the way up for a chunk or two, as [`strip_up`](Self::strip_up). All threads of the block call it.
    #[inlined]
    pub(super) fn strip_up_many(self, (chunk, chunks): (Chunk, u32), front: Front, t: u32) {
        let (rows, first, before) = self.rows_up(front, t);
        let is_pivots = t < front.strips_of_pivots();
        let (own, rhs) = own_value();
        let is_row = own < rows.count;
        let i = if is_row { first + own } else { first };
        let mut value = [[T::ZERO; OWN]; PAIR];
        let mut row = i;
        if is_pivots {
            row = self.row_as_it_came(front, i);
            self.for_chunks((chunk, chunks), |n, of_own| {
                value[n] = self.entered_at((of_own, rhs), front, row);
            });
        }
        let contributions = self.contributions(front, row);
        if is_pivots {
            let triangle = self.entries(front, rows, first, rows.count);
            self.show_inverse::<false>(front, (first, rows.count), triangle, self.up().divides());
        }
        self.for_chunks((chunk, chunks), |n, of_own| {
            self.gather(of_own, rhs, contributions, is_row, &mut value[n]);
        });
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
        self.take_off_columns(&sums, &mut value);
        if is_pivots {
            self.times_shown_inverse::<false>(chunks, value, |n, row, rhs, found| {
                let unknowns = self.chunk_behind(chunk, n).unknowns;
                repeated!(u < 2 => {
                    let row = row + u as u32 * APART;
                    if row < rows.count {
                        let at = unknowns + (front.start + first + row) as usize * R;
                        give(self.vectors.eliminated, at + rhs as usize, found[u]);
                    }
                });
            });
        } else if is_row {
            let to = self.carry(front, i);
            self.for_chunks((chunk, chunks), |n, of_own| {
                self.send((of_own, rhs), to, value[n]);
            });
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
        let (own, rhs) = own_value();
        let is_row = own < rows.count;
        let row = first + if is_row { own } else { 0 };
        let mut value = [[T::ZERO; OWN]; PAIR];
        self.for_chunks((chunk, chunks), |n, of_own| {
            value[n] = self.take_eliminated((of_own, rhs), front, row, is_row);
        });
        // Where the unknowns go that the thread finds: read before they are waited for.
        let (group, _) = own_rows();
        let mut places = [0; 2];
        repeated!(u < 2 => {
            let row = group + thread::lane_id() / 4 + u as u32 * APART;
            places[u] = self.place_down(front, first + row.min(rows.count - 1));
        });
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
        self.take_off_columns(&sums, &mut value);
        self.times_shown_inverse::<true>(chunks, value, |n, row, rhs, found| {
            let of_own = (self.chunk_behind(chunk, n), rhs);
            let is_pivot = |u: usize| row + u as u32 * APART < rows.count;
            // All of them before the solutions of A, whose places are waited for.
            repeated!(u < 2 => {
                if is_pivot(u) {
                    self.hand_down(of_own, places[u], found[u]);
                }
            });
            repeated!(u < 2 => {
                if is_pivot(u) {
                    self.leave_solution(of_own, places[u], found[u]);
                }
            });
        });
        thread::sync_threads();
    }
}
