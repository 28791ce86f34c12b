//! Large fronts: blocks work on whole fronts or on tiles of them, in shared memory.
//!
//! Tasks are handed out in an order in which each comes after those that it waits for, so whoever waits, waits for
//! somebody who is at work. A tile is worked on once, from the left: its entries of B and of the children's elements,
//! then the products of the tiles to its left and above it, one pivot after the other, then what its place asks for:
//! elimination on the diagonal, a triangular solve beside it, nothing in the element. So each entry is written once,
//! and is one chain of operations in a fixed order. (A. Buttari, J. Langou, J. Kurzak and J. Dongarra, "A class of
//! parallel tiled linear algebra algorithms for multicore architectures", Parallel Computing 35 (2009), has tiles as
//! tasks.)

#![allow(
    clippy::needless_range_loop,
    reason = "rows and columns by their numbers, which are constants in the unrolled loops"
)]

use luge_kernel::prelude::*;

use super::plan::{BLOCK_VALUES, THREADS, TILE, WHOLE_FRONT, piece, state, task};
use super::work::{Seen, Work, quotient, wide};

/// Columns that are solved for at once.
const PANEL: u32 = 8;

/// Rows of a piece that a lane has.
const PIECE_ROWS: usize = 3;

/// Pivots whose products are added at once.
const CHUNK: u32 = 16;

/// Distance of the columns of a tile.
const TILE_STRIDE: u32 = TILE + 1;

/// Rows and columns of a tile that a thread has, each [`SIDE`] apart.
const OWN: usize = 4;

/// Threads along one side of a tile.
const SIDE: u32 = 16;

const _: () = assert!(THREADS == SIDE * SIDE && SIDE * OWN as u32 == TILE);
const _: () = assert!(WHOLE_FRONT <= warp::WARP_SIZE * PIECE_ROWS as u32);
const _: () = assert!(WHOLE_FRONT <= SIDE * MAX_OWN as u32 && WHOLE_FRONT <= THREADS);
const _: () = assert!(WHOLE_FRONT * (WHOLE_FRONT | 1) <= BLOCK_VALUES);
const _: () = assert!(2 * TILE * TILE_STRIDE <= BLOCK_VALUES);
const _: () = assert!(TILE * TILE_STRIDE + 4 * TILE * CHUNK <= BLOCK_VALUES);

/// Entries of a front in the registers of a thread, by columns.
type Owned<T, const N: usize> = [[T; N]; N];

/// Most rows and columns of a front that a thread has.
const MAX_OWN: usize = 6;

/// The large fronts.
#[derive(Clone, Copy)]
pub(super) struct LargeFronts<T: Real> {
    pub work: Work<T>,
    pub tasks: Global<u32>,
    pub pieces: Global<u32>,
    pub sums: Global<u32>,
    pub addends: Global<u32>,
    pub flags: GlobalMut<u32>,
    /// The block's values.
    pub values: Shared<T>,
    /// The words of the task, then one for the next task.
    pub words: Shared<u32>,
    /// Place of each row of the tile: where the exchange of rows puts it.
    pub row_places: Shared<u32>,
}

/// Words of [`LargeFronts::words`].
pub(super) const NUM_WORDS: usize = task::LEN as usize + 1;

/// A column-major matrix in the shared memory.
#[derive(Clone, Copy)]
struct Matrix<T: Real> {
    values: Shared<T>,
    first: u32,
    stride: u32,
}

impl<T: Real> Matrix<T> {
    #[inline(always)]
    fn get(self, i: u32, j: u32) -> T {
        self.values.get((self.first + j * self.stride + i) as usize)
    }

    #[inline(always)]
    fn set(self, i: u32, j: u32, value: T) {
        self.values
            .set((self.first + j * self.stride + i) as usize, value);
    }
}

/// A task: the tile of rows `row..row + rows` and columns `column..column + columns` of a front, which may be all of it.
#[derive(Clone, Copy)]
struct Tile {
    k: u32,
    c: u32,
    slot: u64,
    element: u64,
    /// First pivot of the front.
    start: u32,
    row: u32,
    rows: u32,
    column: u32,
    columns: u32,
}

impl Tile {
    #[inline(always)]
    fn m(self) -> u32 {
        self.k + self.c
    }

    /// Calls `f(i, j)` for the entries of the tile, each by one thread of the block.
    #[inline(always)]
    fn for_each(self, mut f: impl FnMut(u32, u32)) {
        let thread = thread::thread_idx_x();
        let mut j = thread / TILE;
        while j < self.columns {
            let mut i = thread & (TILE - 1);
            while i < self.rows {
                f(i, j);
                i += TILE;
            }
            j += THREADS / TILE;
        }
    }
}

/// Rows or columns of tile `t` of a front: the pivots are cut by themselves.
#[inline(always)]
fn stretch(t: u32, k: u32, m: u32) -> (u32, u32) {
    let of_pivots = k.div_ceil(TILE);
    let (begin, end) = if t < of_pivots {
        (t * TILE, k)
    } else {
        (k + (t - of_pivots) * TILE, m)
    };
    (begin, (end - begin).min(TILE))
}

impl<T: Real> LargeFronts<T> {
    /// Works on tasks until all are handed out. All threads of the block call it.
    #[inline(always)]
    pub fn run<const SEARCH: bool>(self, seen: &mut Seen<T>) {
        let thread = thread::thread_idx_x();
        let num_tasks = self.tasks.len() as u32 / task::LEN;
        loop {
            thread::sync_threads();
            if thread == 0 {
                let taken = self.work.state.atomic(state::TASKS_TAKEN);
                let next = taken.fetch_add(1, Ordering::Relaxed, Scope::Device);
                self.words.set(task::LEN as usize, next);
            }
            thread::sync_threads();
            let next = self.words.get(task::LEN as usize);
            if next >= num_tasks {
                break;
            }
            if thread < task::LEN {
                let word = self.tasks.get((next * task::LEN + thread) as usize);
                self.words.set(thread as usize, word);
            }
            thread::sync_threads();
            if self.word(task::TILE) == task::WHOLE {
                self.whole::<SEARCH>(seen);
            } else {
                self.tile::<SEARCH>(seen);
            }
        }
    }

    #[inline(always)]
    fn word(self, which: u32) -> u32 {
        self.words.get(which as usize)
    }

    #[inline(always)]
    fn task(self, row: u32, rows: u32, column: u32, columns: u32) -> Tile {
        Tile {
            k: self.word(task::PIVOTS),
            c: self.word(task::BELOW),
            slot: wide(self.word(task::SLOT), self.word(task::SLOT + 1)),
            element: wide(self.word(task::ELEMENT), self.word(task::ELEMENT + 1)),
            start: self.word(task::START),
            row,
            rows,
            column,
            columns,
        }
    }

    /// Tells the parent that an element, or a tile of it, is there. All threads of the block call it.
    #[inline(always)]
    fn hand_up(self) {
        thread::sync_threads();
        let parent = self.word(task::PARENT);
        if thread::thread_idx_x() == 0 && parent != super::plan::NONE {
            self.work.arrive(parent);
        }
    }

    /// A front that fits the shared memory.
    #[inline(always)]
    fn whole<const SEARCH: bool>(self, seen: &mut Seen<T>) {
        let m = self.word(task::PIVOTS) + self.word(task::BELOW);
        let tile = self.task(0, m, 0, m);
        let matrix = Matrix {
            values: self.values,
            first: 0,
            stride: m | 1,
        };
        self.assemble::<SEARCH>(tile, matrix, seen);
        self.eliminate::<SEARCH>(tile, matrix);
        let Tile {
            k,
            c,
            slot,
            element,
            ..
        } = tile;
        tile.for_each(|i, j| {
            let value = matrix.get(i, j);
            if j < k {
                seen.entry(value, i > j);
                let place = slot + u64::from(j * m + i);
                self.work.factors.set(place as usize, value);
            } else if i >= k {
                let place = element + u64::from((j - k) * c + i - k);
                self.work.elements.set(place as usize, value);
            }
        });
        self.store_upper(tile, matrix, seen);
        self.hand_up();
    }

    /// Stores what the matrix has of the rows of pivots right of their columns, by rows.
    #[inline(always)]
    fn store_upper(self, tile: Tile, matrix: Matrix<T>, seen: &mut Seen<T>) {
        let Tile { k, c, slot, .. } = tile;
        // The columns run fastest.
        let turned = Tile {
            rows: tile.columns,
            columns: tile.rows,
            ..tile
        };
        turned.for_each(|j, i| {
            if tile.row + i < k && tile.column + j >= k {
                let value = matrix.get(i, j);
                seen.entry(value, false);
                let upper = k * tile.m();
                let place = slot + u64::from(upper) + wide_product(tile.row + i, c);
                let place = place + u64::from(tile.column + j - k);
                self.work.factors.set(place as usize, value);
            }
        });
    }

    /// A tile of a front.
    #[inline(always)]
    fn tile<const SEARCH: bool>(self, seen: &mut Seen<T>) {
        let (k, c) = (self.word(task::PIVOTS), self.word(task::BELOW));
        let m = k + c;
        let (ti, tj) = (self.word(task::TILE) & 0xffff, self.word(task::TILE) >> 16);
        let (row, rows) = stretch(ti, k, m);
        let (column, columns) = stretch(tj, k, m);
        let tile = self.task(row, rows, column, columns);
        let matrix = Matrix {
            values: self.values,
            first: 0,
            stride: TILE_STRIDE,
        };
        let other = Matrix {
            first: TILE * TILE_STRIDE,
            ..matrix
        };
        let of_pivots = k.div_ceil(TILE);
        let step = ti.min(tj).min(of_pivots);
        self.assemble::<SEARCH>(tile, matrix, seen);
        self.subtract_products(tile, matrix, ti, tj, (step * TILE).min(k));
        if step == of_pivots {
            tile.for_each(|i, j| {
                let place = tile.element + wide_product(column - k + j, c);
                let place = place + u64::from(row - k + i);
                self.work.elements.set(place as usize, matrix.get(i, j));
            });
            self.hand_up();
            return;
        }
        if ti == tj {
            self.eliminate::<SEARCH>(tile, matrix);
        } else {
            self.await_tile(step, step, 0);
            thread::sync_threads();
            let (pivot, pivots) = stretch(step, k, m);
            let diagonal = Tile {
                row: pivot,
                rows: pivots,
                column: pivot,
                columns: pivots,
                ..tile
            };
            diagonal.for_each(|i, j| {
                let place = tile.slot + wide_product(pivot + j, m) + u64::from(pivot + i);
                let value = self.work.factors.get(place as usize);
                other.set(i, j, value);
                if i == j {
                    // There is a row to spare.
                    other.set(TILE, j, value.reciprocal());
                }
            });
            thread::sync_threads();
            if ti > tj {
                solve_upper(other, pivots, matrix, rows);
            } else {
                if SEARCH {
                    self.exchange_rows(tile, matrix, pivots);
                }
                solve_lower(other, pivots, matrix, columns);
            }
        }
        if tj < of_pivots {
            tile.for_each(|i, j| {
                let value = matrix.get(i, j);
                seen.entry(value, row + i > column + j);
                let place = tile.slot + wide_product(column + j, m) + u64::from(row + i);
                self.work.factors.set(place as usize, value);
            });
        } else {
            self.store_upper(tile, matrix, seen);
        }
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            self.flag(ti, tj)
                .store(self.work.epoch, Ordering::Release, Scope::Device);
        }
    }

    /// The flag of a tile: the number of the last factorization in which it was written.
    #[inline(always)]
    fn flag(self, ti: u32, tj: u32) -> Atomic<u32> {
        let (k, c) = (self.word(task::PIVOTS), self.word(task::BELOW));
        let side = k.div_ceil(TILE) + c.div_ceil(TILE);
        let at = self.word(task::FLAGS) + ti * side + tj;
        self.flags.atomic(at as usize)
    }

    /// Thread `waiter` waits until a tile is written. A barrier of the block is to follow.
    #[inline(always)]
    fn await_tile(self, ti: u32, tj: u32, waiter: u32) {
        if thread::thread_idx_x() == waiter {
            let flag = self.flag(ti, tj);
            spin_wait(|| flag.load(Ordering::Acquire, Scope::Device) == self.work.epoch);
        }
    }

    /// Brings the tile's entries of B and of the children's elements together. A barrier ends it.
    #[inline(always)]
    fn assemble<const SEARCH: bool>(self, tile: Tile, matrix: Matrix<T>, seen: &mut Seen<T>) {
        let thread = thread::thread_idx_x();
        if thread < tile.rows {
            let mut place = thread;
            if !SEARCH && tile.row + thread < tile.k {
                let pivot = (tile.start + tile.row + thread) as usize;
                place = self.work.row_places.get(pivot) - tile.row;
            }
            self.row_places.set(thread as usize, place);
        }
        tile.for_each(|i, j| matrix.set(i, j, T::ZERO));
        thread::sync_threads();
        let first = self.word(task::ENTRIES);
        let count = self.word(task::NUM_ENTRIES);
        let mut e = thread;
        while e < count {
            let at = (first + e) as usize;
            let place = self.work.places.get(at);
            let value = self.work.values.get(self.work.source.get(at) as usize);
            let value = self.work.scaled(value, place, seen);
            let row = self.row_places.get((place & 0xff) as usize);
            matrix.set(row, place >> 8 & 0xff, value);
            e += THREADS;
        }
        let pieces = self.word(task::NUM_PIECES);
        let sums = self.word(task::NUM_SUMS);
        if pieces + sums > 0 {
            if thread == 0 {
                let arrivals = self.word(task::ARRIVALS).wrapping_mul(self.work.epoch);
                let arrived = self.work.arrived.atomic(self.word(task::FRONT) as usize);
                spin_wait(|| arrived.load(Ordering::Acquire, Scope::Device) == arrivals);
            }
            thread::sync_threads();
            self.add_sums(matrix, sums);
            if pieces > 0 {
                thread::sync_threads();
                self.add_pieces(tile, matrix, pieces);
            }
        }
        thread::sync_threads();
    }

    /// Adds the entries of small elements, those for one entry of the tile by one thread, in their order.
    #[inline(always)]
    fn add_sums(self, matrix: Matrix<T>, count: u32) {
        let first = self.word(task::SUMS);
        let mut at = thread::thread_idx_x();
        while at < count {
            let place = self.sums.get(2 * (first + at) as usize);
            let mut addend = self.sums.get(2 * (first + at) as usize + 1);
            let end = self.sums.get(2 * (first + at) as usize + 3);
            let row = self.row_places.get((place & 0xff) as usize);
            let column = place >> 8 & 0xff;
            let mut sum = matrix.get(row, column);
            while addend < end {
                let source = self.addends.get(addend as usize);
                sum += self.work.elements.get(source as usize);
                addend += 1;
            }
            matrix.set(row, column, sum);
            at += THREADS;
        }
    }

    /// Adds pieces of elements, one after the other: a warp those columns of each that are its own in the tile.
    #[inline(always)]
    fn add_pieces(self, tile: Tile, matrix: Matrix<T>, count: u32) {
        let lane = thread::lane_id();
        let own = thread::thread_idx_x() / warp::WARP_SIZE;
        let of_lane = |value: u32, lane: u32| warp::shuffle(warp::FULL_MASK, value, lane);
        let first = self.word(task::PIECES);
        let mut at = 0;
        while at < count {
            let mut word = 0;
            if lane < piece::LEN {
                word = self.pieces.get(((first + at) * piece::LEN + lane) as usize);
            }
            let of = |which: u32| of_lane(word, which);
            let element = wide(of(piece::ELEMENT), of(piece::ELEMENT + 1));
            let relative = wide(of(piece::RELATIVE), of(piece::RELATIVE + 1));
            let (below, row, column) = (of(piece::BELOW), of(piece::ROW), of(piece::COLUMN));
            let sizes = of(piece::SIZES);
            let (rows, columns) = (sizes & 0xffff, sizes >> 16);
            let position = |i: u32| {
                let place = relative + u64::from(i);
                self.work.relative.get(place as usize)
            };
            let mut places = [0u32; PIECE_ROWS];
            for (x, place) in places.iter_mut().enumerate() {
                let i = lane + x as u32 * warp::WARP_SIZE;
                if i < rows {
                    *place = self.row_places.get((position(row + i) - tile.row) as usize);
                }
            }
            let mut q = 0;
            while q < columns {
                let mut goes_to = u32::MAX;
                if q + lane < columns {
                    goes_to = position(column + q + lane) - tile.column;
                }
                let is_own = goes_to != u32::MAX && goes_to & 7 == own;
                let mut left = warp::ballot(warp::FULL_MASK, is_own);
                while left != 0 {
                    // Two columns at a time are on their way.
                    let a = left.trailing_zeros();
                    left &= left - 1;
                    let mut b = warp::WARP_SIZE;
                    if left != 0 {
                        b = left.trailing_zeros();
                        left &= left - 1;
                    }
                    let (to_a, to_b) = (of_lane(goes_to, a), of_lane(goes_to, b & 31));
                    let from_a = element + wide_product(column + q + a, below);
                    let from_b = element + wide_product(column + q + b, below);
                    let (mut of_a, mut of_b) = ([T::ZERO; PIECE_ROWS], [T::ZERO; PIECE_ROWS]);
                    for x in 0..PIECE_ROWS {
                        let i = lane + x as u32 * warp::WARP_SIZE;
                        if i < rows {
                            of_a[x] = self
                                .work
                                .elements
                                .get((from_a + u64::from(row + i)) as usize);
                            if b < warp::WARP_SIZE {
                                of_b[x] = self
                                    .work
                                    .elements
                                    .get((from_b + u64::from(row + i)) as usize);
                            }
                        }
                    }
                    for x in 0..PIECE_ROWS {
                        let i = lane + x as u32 * warp::WARP_SIZE;
                        if i < rows {
                            matrix.set(places[x], to_a, matrix.get(places[x], to_a) + of_a[x]);
                            if b < warp::WARP_SIZE {
                                matrix.set(places[x], to_b, matrix.get(places[x], to_b) + of_b[x]);
                            }
                        }
                    }
                }
                q += warp::WARP_SIZE;
            }
            // Other lanes may have the same rows in the next piece.
            warp::sync_warp(warp::FULL_MASK);
            at += 1;
        }
    }

    /// Subtracts from the tile the product of the first `pivots` columns of L and rows of U.
    #[inline(always)]
    fn subtract_products(self, tile: Tile, matrix: Matrix<T>, ti: u32, tj: u32, pivots: u32) {
        if pivots == 0 {
            return;
        }
        let thread = thread::thread_idx_x();
        let (x, y) = (thread & (SIDE - 1), thread / SIDE);
        let mut sums = [[T::ZERO; OWN]; OWN];
        for (s, sums) in sums.iter_mut().enumerate() {
            for (r, sum) in sums.iter_mut().enumerate() {
                let (i, j) = (x + r as u32 * SIDE, y + s as u32 * SIDE);
                if i < tile.rows && j < tile.columns {
                    *sum = matrix.get(i, j);
                }
            }
        }
        // The thread's row of L and column of U in a chunk.
        let own = thread & (TILE - 1);
        let depth = thread / TILE;
        let m = tile.m();
        let lower_from = tile.slot + u64::from(tile.row + own);
        let is_right = tile.column >= tile.k;
        let upper_from = if is_right {
            tile.slot + wide_product(tile.k, m) + u64::from(tile.column - tile.k + own)
        } else {
            tile.slot + wide_product(tile.column + own, m)
        };
        let load = |at: u32| {
            let mut of_lower = [T::ZERO; OWN];
            let mut of_upper = [T::ZERO; OWN];
            for x in 0..OWN {
                let p = at + depth + x as u32 * (THREADS / TILE);
                if p < pivots {
                    if own < tile.rows {
                        let place = lower_from + wide_product(p, m);
                        of_lower[x] = self.work.factors.get(place as usize);
                    }
                    if own < tile.columns {
                        let place = upper_from
                            + if is_right {
                                wide_product(p, tile.c)
                            } else {
                                u64::from(p)
                            };
                        of_upper[x] = self.work.factors.get(place as usize);
                    }
                }
            }
            (of_lower, of_upper)
        };
        let await_step = |step: u32| {
            self.await_tile(ti, step, 0);
            self.await_tile(step, tj, warp::WARP_SIZE);
            thread::sync_threads();
        };
        await_step(0);
        let (mut of_lower, mut of_upper) = load(0);
        let mut at = 0;
        while at < pivots {
            let lower = TILE * TILE_STRIDE + ((at / CHUNK) & 1) * 2 * TILE * CHUNK;
            let upper = lower + TILE * CHUNK;
            for x in 0..OWN {
                let place = (depth + x as u32 * (THREADS / TILE)) * TILE + own;
                self.values.set((lower + place) as usize, of_lower[x]);
                self.values.set((upper + place) as usize, of_upper[x]);
            }
            thread::sync_threads();
            at += CHUNK;
            // The next chunk is on its way during the products, unless its tiles have to be waited for.
            let is_awaited = at & (TILE - 1) == 0;
            if !is_awaited && at < pivots {
                (of_lower, of_upper) = load(at);
            }
            let mut p = 0;
            while p < CHUNK {
                let mut left = [T::ZERO; OWN];
                let mut right = [T::ZERO; OWN];
                for r in 0..OWN {
                    let place = p * TILE + r as u32 * SIDE;
                    left[r] = -self.values.get((lower + place + x) as usize);
                    right[r] = self.values.get((upper + place + y) as usize);
                }
                for s in 0..OWN {
                    for r in 0..OWN {
                        sums[s][r] = left[r].mul_add(right[s], sums[s][r]);
                    }
                }
                p += 1;
            }
            if is_awaited && at < pivots {
                await_step(at / TILE);
                (of_lower, of_upper) = load(at);
            }
        }
        for (s, sums) in sums.iter().enumerate() {
            for (r, &sum) in sums.iter().enumerate() {
                let (i, j) = (x + r as u32 * SIDE, y + s as u32 * SIDE);
                if i < tile.rows && j < tile.columns {
                    matrix.set(i, j, sum);
                }
            }
        }
        thread::sync_threads();
    }

    /// Exchanges the rows of a tile as those of the diagonal tile left of it were, one pivot after the other.
    #[inline(always)]
    fn exchange_rows(self, tile: Tile, matrix: Matrix<T>, pivots: u32) {
        let column = thread::thread_idx_x();
        if column < tile.columns {
            let mut j = 0;
            while j < pivots {
                let pivot = (tile.start + tile.row + j) as usize;
                let row = self.work.pivot_rows.get(pivot) - tile.row;
                if row != j {
                    let value = matrix.get(j, column);
                    matrix.set(j, column, matrix.get(row, column));
                    matrix.set(row, column, value);
                }
                j += 1;
            }
        }
        thread::sync_threads();
    }

    /// Eliminates the pivots of a whole front or of a tile on the diagonal. A barrier ends it.
    #[inline(always)]
    fn eliminate<const SEARCH: bool>(self, tile: Tile, matrix: Matrix<T>) {
        let k = tile.k.min(tile.row + tile.columns) - tile.row;
        if SEARCH {
            self.search_and_eliminate(tile, matrix, k);
        } else if tile.rows <= 2 * SIDE {
            self.eliminate_owned::<2>(tile, matrix, k);
        } else if tile.rows <= 4 * SIDE {
            self.eliminate_owned::<4>(tile, matrix, k);
        } else {
            self.eliminate_owned::<MAX_OWN>(tile, matrix, k);
        }
    }

    /// Eliminates the first `k` columns with the entries in registers: each thread has N × N of them, [`SIDE`] apart.
    ///
    /// For each pivot those who have its column and its row show them to all, in one of two places by turns, so that
    /// one barrier a pivot does.
    #[inline(always)]
    fn eliminate_owned<const N: usize>(self, tile: Tile, matrix: Matrix<T>, k: u32) {
        let m = tile.rows;
        let thread = thread::thread_idx_x();
        let (x, y) = (thread & (SIDE - 1), thread / SIDE);
        let mut own: Owned<T, N> = [[T::ZERO; N]; N];
        for c in 0..N {
            for r in 0..N {
                let (i, j) = (x + r as u32 * SIDE, y + c as u32 * SIDE);
                if i < m && j < m {
                    own[c][r] = matrix.get(i, j);
                }
            }
        }
        // What is shown lies where the matrix was.
        thread::sync_threads();
        let mut own_pivot = T::ONE;
        self.owned_step::<N, 0>(&mut own, k, &mut own_pivot);
        self.owned_step::<N, 1>(&mut own, k, &mut own_pivot);
        self.owned_step::<N, 2>(&mut own, k, &mut own_pivot);
        self.owned_step::<N, 3>(&mut own, k, &mut own_pivot);
        self.owned_step::<N, 4>(&mut own, k, &mut own_pivot);
        self.owned_step::<N, 5>(&mut own, k, &mut own_pivot);
        if thread < k {
            self.work.note(own_pivot, tile.start + tile.row + thread);
        }
        thread::sync_threads();
        for c in 0..N {
            for r in 0..N {
                let (i, j) = (x + r as u32 * SIDE, y + c as u32 * SIDE);
                if i < m && j < m {
                    matrix.set(i, j, own[c][r]);
                }
            }
        }
        thread::sync_threads();
    }

    /// Eliminates the columns from S · [`SIDE`] on of which each thread has its S-th. Registers have no index, so S is
    /// a constant.
    #[inline(always)]
    fn owned_step<const N: usize, const S: usize>(
        self,
        own: &mut Owned<T, N>,
        k: u32,
        own_pivot: &mut T,
    ) {
        if S >= N {
            return;
        }
        let thread = thread::thread_idx_x();
        let (x, y) = (thread & (SIDE - 1), thread / SIDE);
        let first = S as u32 * SIDE;
        let mut step = 0;
        while step < SIDE && first + step < k {
            let pivot_at = first + step;
            let column = (pivot_at & 1) * 2 * MAX_OWN as u32 * SIDE;
            let row = column + MAX_OWN as u32 * SIDE;
            if y == step {
                for r in S..N {
                    let place = column + x + r as u32 * SIDE;
                    self.values.set(place as usize, own[S][r]);
                }
            }
            if x == step {
                for c in S..N {
                    let place = row + y + c as u32 * SIDE;
                    self.values.set(place as usize, own[c][S]);
                }
            }
            thread::sync_threads();
            let came = self.values.get((column + pivot_at) as usize);
            let pivot = self.work.usable(came);
            let inverse = pivot.reciprocal();
            if thread == pivot_at {
                *own_pivot = came;
            }
            // Zero for the rows and columns that are eliminated already.
            let mut multipliers = [T::ZERO; N];
            let mut upper = [T::ZERO; N];
            for r in S..N {
                if r > S || x > step {
                    let place = column + x + r as u32 * SIDE;
                    multipliers[r] = quotient(self.values.get(place as usize), pivot, inverse);
                }
                if r > S || y > step {
                    let place = row + y + r as u32 * SIDE;
                    upper[r] = self.values.get(place as usize);
                }
            }
            for c in S..N {
                for r in S..N {
                    own[c][r] = (-multipliers[r]).mul_add(upper[c], own[c][r]);
                }
            }
            if y == step {
                for r in S..N {
                    if r > S || x > step {
                        own[S][r] = multipliers[r];
                    }
                }
                if x == step {
                    own[S][S] = pivot;
                }
            }
            step += 1;
        }
    }

    /// Eliminates one column after the other, each with its largest entry among the rows of the pivots unless the
    /// diagonal is large enough. A barrier ends it.
    #[inline(always)]
    fn search_and_eliminate(self, tile: Tile, matrix: Matrix<T>, k: u32) {
        let thread = thread::thread_idx_x();
        let m = tile.rows;
        let first_pivot = tile.start + tile.row;
        let mut j = 0;
        while j < k {
            if thread == 0 {
                let (mut row, mut most) = (j, T::ZERO);
                let mut i = j;
                while i < k {
                    let size = matrix.get(i, j).abs();
                    if size > most {
                        (row, most) = (i, size);
                    }
                    i += 1;
                }
                if matrix.get(j, j).abs() >= self.work.threshold * most {
                    row = j;
                }
                let (upper, lower) = (
                    self.row_places.get(j as usize),
                    self.row_places.get(row as usize),
                );
                // From here on they say which row, as it came, is in each place.
                self.row_places.set(j as usize, lower);
                self.row_places.set(row as usize, upper);
                self.words.set(task::LEN as usize, row);
                let pivot = (first_pivot + j) as usize;
                self.work.pivot_rows.set(pivot, tile.row + row);
            }
            thread::sync_threads();
            let row = self.words.get(task::LEN as usize);
            if row != j {
                let mut q = thread;
                while q < tile.columns {
                    let value = matrix.get(j, q);
                    matrix.set(j, q, matrix.get(row, q));
                    matrix.set(row, q, value);
                    q += THREADS;
                }
                thread::sync_threads();
            }
            let came = matrix.get(j, j);
            let pivot = self.work.usable(came);
            thread::sync_threads();
            let inverse = pivot.reciprocal();
            if thread == 0 {
                self.work.note(came, first_pivot + j);
                matrix.set(j, j, pivot);
            }
            let mut i = j + 1 + thread;
            while i < m {
                matrix.set(i, j, quotient(matrix.get(i, j), pivot, inverse));
                i += THREADS;
            }
            thread::sync_threads();
            let rest = Tile {
                rows: m - j - 1,
                columns: tile.columns - j - 1,
                ..tile
            };
            rest.for_each(|i, q| {
                let (i, q) = (i + j + 1, q + j + 1);
                let value = (-matrix.get(i, j)).mul_add(matrix.get(j, q), matrix.get(i, q));
                matrix.set(i, q, value);
            });
            thread::sync_threads();
            j += 1;
        }
        if thread < k {
            let came_from = self.row_places.get(thread as usize);
            let place = (first_pivot + came_from) as usize;
            self.work.row_places.set(place, tile.row + thread);
        }
    }
}

/// a · b without a wrap.
#[inline(always)]
fn wide_product(a: u32, b: u32) -> u64 {
    u64::from(a) * u64::from(b)
}

/// Solves with the unit lower triangle of rows and columns `j..j + pivots` of `lower` for columns `from..to` of `matrix`,
/// a thread a column.
#[inline(always)]
fn lower_panel<T: Real>(
    lower: Matrix<T>,
    matrix: Matrix<T>,
    j: u32,
    pivots: u32,
    from: u32,
    to: u32,
) {
    let mut column = from + thread::thread_idx_x();
    while column < to {
        let mut values = [T::ZERO; PANEL as usize];
        for (p, value) in values.iter_mut().enumerate() {
            if (p as u32) < pivots {
                *value = matrix.get(j + p as u32, column);
            }
        }
        for p in 0..PANEL as usize {
            for r in p + 1..PANEL as usize {
                if (r as u32) < pivots {
                    let multiplier = -lower.get(j + r as u32, j + p as u32);
                    values[r] = multiplier.mul_add(values[p], values[r]);
                }
            }
        }
        for (p, &value) in values.iter().enumerate() {
            if (p as u32) < pivots {
                matrix.set(j + p as u32, column, value);
            }
        }
        column += THREADS;
    }
}

/// Subtracts from the entries of `matrix` in these rows and columns the product of columns `j..j + pivots` of `left`
/// and the rows of the same numbers of `right`.
#[inline(always)]
fn subtract<T: Real>(
    left: Matrix<T>,
    right: Matrix<T>,
    matrix: Matrix<T>,
    (j, pivots): (u32, u32),
    rows: (u32, u32),
    columns: (u32, u32),
) {
    let thread = thread::thread_idx_x();
    let (x, y) = (thread & (SIDE - 1), thread / SIDE);
    let mut column = columns.0;
    while column < columns.1 {
        let mut row = rows.0;
        while row < rows.1 {
            let mut sums = [[T::ZERO; OWN]; OWN];
            for s in 0..OWN {
                for r in 0..OWN {
                    let (i, q) = (row + x + r as u32 * SIDE, column + y + s as u32 * SIDE);
                    if i < rows.1 && q < columns.1 {
                        sums[s][r] = matrix.get(i, q);
                    }
                }
            }
            let mut p = j;
            while p < j + pivots {
                let mut multipliers = [T::ZERO; OWN];
                let mut upper = [T::ZERO; OWN];
                for r in 0..OWN {
                    // What lies outside is multiplied too, and left away.
                    let i = (row + x + r as u32 * SIDE).min(rows.1 - 1);
                    let q = (column + y + r as u32 * SIDE).min(columns.1 - 1);
                    multipliers[r] = -left.get(i, p);
                    upper[r] = right.get(p, q);
                }
                for s in 0..OWN {
                    for r in 0..OWN {
                        sums[s][r] = multipliers[r].mul_add(upper[s], sums[s][r]);
                    }
                }
                p += 1;
            }
            for s in 0..OWN {
                for r in 0..OWN {
                    let (i, q) = (row + x + r as u32 * SIDE, column + y + s as u32 * SIDE);
                    if i < rows.1 && q < columns.1 {
                        matrix.set(i, q, sums[s][r]);
                    }
                }
            }
            row += TILE;
        }
        column += TILE;
    }
}

/// Solves with the unit lower triangle of order k in `lower` for `columns` columns of `matrix`, in place. A barrier ends it.
#[inline(always)]
fn solve_lower<T: Real>(lower: Matrix<T>, k: u32, matrix: Matrix<T>, columns: u32) {
    let mut j = 0;
    while j < k {
        let pivots = (k - j).min(PANEL);
        lower_panel(lower, matrix, j, pivots, 0, columns);
        thread::sync_threads();
        if j + pivots < k {
            subtract(
                lower,
                matrix,
                matrix,
                (j, pivots),
                (j + pivots, k),
                (0, columns),
            );
            thread::sync_threads();
        }
        j += pivots;
    }
}

/// Solves with the upper triangle of order k in `upper`, from the right, for `rows` rows of `matrix`, in place; row
/// [`TILE`] of `upper` has the reciprocals of the diagonal. A barrier ends it.
#[inline(always)]
fn solve_upper<T: Real>(upper: Matrix<T>, k: u32, matrix: Matrix<T>, rows: u32) {
    let mut j = 0;
    while j < k {
        let pivots = (k - j).min(PANEL);
        let row = thread::thread_idx_x();
        if row < rows {
            let mut values = [T::ZERO; PANEL as usize];
            for (p, value) in values.iter_mut().enumerate() {
                if (p as u32) < pivots {
                    *value = matrix.get(row, j + p as u32);
                }
            }
            for p in 0..PANEL as usize {
                if (p as u32) < pivots {
                    let at = j + p as u32;
                    values[p] = quotient(values[p], upper.get(at, at), upper.get(TILE, at));
                    for r in p + 1..PANEL as usize {
                        if (r as u32) < pivots {
                            let multiplier = -upper.get(j + p as u32, j + r as u32);
                            values[r] = multiplier.mul_add(values[p], values[r]);
                        }
                    }
                }
            }
            for (p, &value) in values.iter().enumerate() {
                if (p as u32) < pivots {
                    matrix.set(row, j + p as u32, value);
                }
            }
        }
        thread::sync_threads();
        if j + pivots < k {
            subtract(
                matrix,
                upper,
                matrix,
                (j, pivots),
                (0, rows),
                (j + pivots, k),
            );
            thread::sync_threads();
        }
        j += pivots;
    }
}
