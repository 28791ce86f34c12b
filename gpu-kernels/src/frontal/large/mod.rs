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

mod assemble;
mod eliminate;
mod product;
mod symmetric;
mod triangle;

use luge_kernel::prelude::*;

pub(super) use self::product::{FrontField, repeated};
pub(super) use self::symmetric::LargeSymmetric;
use self::triangle::{solve_lower, solve_upper, subtract};
use super::plan::{
    BLOCK_VALUES, LargePlan, THREADS, TILE as PART, Task, TaskIn, WHOLE, WHOLE_FRONT, WIDE_TILE,
    WIDE_VALUES, Work, element_column, split, state,
};
use super::symmetric::{FrontKind, Lu};
use super::work::Seen;

/// Distance of the columns of a part.
const PART_STRIDE: u32 = PART + 1;

/// Rows and columns of a part that a thread has, each [`SIDE`] apart.
const OWN: usize = 4;

/// Entries of a part that a thread has.
const PART_VALUES: usize = (PART * PART / THREADS) as usize;

/// Warps of a block.
const WARPS: u32 = THREADS / warp::WARP_SIZE;

/// Threads along one side of a part.
const SIDE: u32 = 16;

const _: () = assert!(THREADS == SIDE * SIDE && SIDE * OWN as u32 == PART);
const _: () = assert!(WHOLE_FRONT <= THREADS);
const _: () = assert!(WHOLE_FRONT * (WHOLE_FRONT | 1) <= BLOCK_VALUES);
const _: () = assert!(2 * PART * PART_STRIDE <= BLOCK_VALUES);
const _: () = assert!(WIDE_TILE == 2 * PART);
const _: () = assert!(WIDE_TILE * (WIDE_TILE + 1) + PART * PART_STRIDE <= WIDE_VALUES);

/// The large fronts, in tiles of TILE rows and columns. A tile is eliminated and solved for by parts of [`PART`] pivots: in
/// one, or in two if its front is wide.
#[derive(Clone, Copy)]
pub(super) struct LargeFronts<T: Field, const TILE: u32, K> {
    pub work: Work<T>,
    pub kind: K,
    pub plan: LargePlan,
    /// The block's values.
    pub values: Shared<T>,
    /// The task, then [more](words).
    pub words: Shared<u32>,
    /// Place of each row of the tile: where the exchange of rows puts it.
    pub row_places: Shared<u32>,
}

/// Words of [`LargeFronts::words`] behind the task.
mod words {
    use luge_kernel::record::Record;

    use super::Task;

    /// The next task, or the row of a pivot.
    pub const NEXT: usize = Task::WORDS;
    /// The step before which all are known to be done.
    pub const KNOWN: usize = Task::WORDS + 1;
}

/// Words of [`LargeFronts::words`].
pub(super) const NUM_WORDS: usize = Task::WORDS + 2;

/// A column-major matrix in the shared memory.
#[derive(Clone, Copy)]
pub(super) struct Matrix<T: Field> {
    values: Shared<T>,
    first: u32,
    stride: u32,
}

impl<T: Field> Matrix<T> {
    #[inlined]
    fn get(self, i: u32, j: u32) -> T {
        self.values.get((self.first + j * self.stride + i) as usize)
    }

    #[inlined]
    fn set(self, i: u32, j: u32, value: T) {
        self.values
            .set((self.first + j * self.stride + i) as usize, value);
    }

    /// What begins with this row and column.
    #[inlined]
    fn from(self, i: u32, j: u32) -> Self {
        Self {
            first: self.first + j * self.stride + i,
            ..self
        }
    }

    /// What has its first entry in this row and column.
    #[inlined]
    fn at(self, i: u32, j: u32) -> Self {
        Self {
            first: self.first - j * self.stride - i,
            ..self
        }
    }
}

/// A task: the tile of rows `row..row + rows` and columns `column..column + columns` of a front, which may be all of it.
#[derive(Clone, Copy)]
pub(super) struct Tile {
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
    #[inlined]
    fn m(self) -> u32 {
        self.k + self.c
    }

    /// The part of a diagonal tile that begins with this row and column.
    #[inlined]
    fn part(self, first: u32) -> Self {
        let rows = (self.rows - first).min(PART);
        Self {
            row: self.row + first,
            rows,
            column: self.column + first,
            columns: rows,
            ..self
        }
    }

    /// As large as what is left of the tile without its first rows and columns, so many of both.
    #[inlined]
    fn after(self, first: u32) -> Self {
        Self {
            rows: self.rows - first,
            columns: self.columns - first,
            ..self
        }
    }

    /// Calls `f(i, j)` for the entries of the tile, each by one thread of the block.
    #[inlined]
    fn for_each(self, mut f: impl FnMut(u32, u32)) {
        let thread = thread::thread_idx_x();
        let mut j = thread / PART;
        while j < self.columns {
            let mut i = thread & (PART - 1);
            while i < self.rows {
                f(i, j);
                i += PART;
            }
            j += THREADS / PART;
        }
    }
}

/// How the pivots of a kind of large fronts are eliminated. All threads of the block call all of this, and a barrier ends
/// it.
pub(super) trait EliminateLarge<T: FrontField>: FrontKind<T> {
    /// Makes known where the columns of the tile go, whose rows' places are known behind the next barrier.
    fn place_columns<const TILE: u32, const SEARCH: bool>(
        fronts: LargeFronts<T, TILE, Self>,
        tile: Tile,
    );

    /// Where the tile's column `column` goes.
    fn column_place<const TILE: u32>(fronts: LargeFronts<T, TILE, Self>, column: u32) -> u32;

    /// Eliminates the pivots of a whole front, or of a tile on the diagonal.
    fn eliminate<const TILE: u32, const SEARCH: bool>(
        fronts: LargeFronts<T, TILE, Self>,
        tile: Tile,
        matrix: Matrix<T>,
        seen: &mut Seen<T>,
    );

    /// Solves for a tile beside or above the diagonal tile of its step.
    fn solve<const TILE: u32, const SEARCH: bool>(
        fronts: LargeFronts<T, TILE, Self>,
        tile: Tile,
        matrix: Matrix<T>,
        step: u32,
        seen: &mut Seen<T>,
    );

    /// What the panel has in this row and column of a tile on the diagonal, the row not below the column.
    fn on_or_above<const TILE: u32>(
        fronts: LargeFronts<T, TILE, Self>,
        matrix: Matrix<T>,
        row: u32,
        column: u32,
    ) -> T;
}

impl<T: FrontField, const TILE: u32, K: EliminateLarge<T>> LargeFronts<T, TILE, K> {
    /// Distance of the columns of a tile.
    const STRIDE: u32 = TILE + 1;

    /// Rows or columns of tile `t` of a front: the pivots are cut by themselves.
    #[inlined]
    fn stretch(t: u32, k: u32, m: u32) -> (u32, u32) {
        let of_pivots = k.div_ceil(TILE);
        let (begin, end) = if t < of_pivots {
            (t * TILE, k)
        } else {
            (k + (t - of_pivots) * TILE, m)
        };
        (begin, (end - begin).min(TILE))
    }

    /// Works on tasks until all are handed out. All threads of the block call it.
    #[inlined]
    pub fn run<const SEARCH: bool>(self, seen: &mut Seen<T>) {
        let thread = thread::thread_idx_x();
        loop {
            thread::sync_threads();
            if thread == 0 {
                let taken = self.work.state.atomic(state::TASKS_TAKEN);
                let next = taken.fetch_add(1, Ordering::Relaxed, Scope::Device);
                self.words.set(words::NEXT, next);
            }
            thread::sync_threads();
            let next = self.words.get(words::NEXT);
            if next >= self.plan.num_tasks {
                break;
            }
            if thread < Task::WORDS as u32 {
                let word = self.plan.tasks.word(self.plan.first_task + next, thread);
                self.words.set(thread as usize, word);
            }
            thread::sync_threads();
            self.front::<SEARCH>(seen);
        }
    }

    /// The task that the block works on.
    #[inlined]
    fn task(self) -> TaskIn<Shared<u32>> {
        Task::within(self.words)
    }

    #[inlined]
    fn tile(self, row: u32, rows: u32, column: u32, columns: u32) -> Tile {
        let task = self.task();
        Tile {
            k: task.pivots(),
            c: task.below(),
            slot: task.slot(),
            element: task.element(),
            start: task.start(),
            row,
            rows,
            column,
            columns,
        }
    }

    /// Works on a tile of a front, or on all of it.
    #[inlined]
    fn front<const SEARCH: bool>(self, seen: &mut Seen<T>) {
        let (k, c) = (self.task().pivots(), self.task().below());
        let m = k + c;
        let which = self.task().tile();
        let is_whole = TILE == PART && which == WHOLE;
        let (mut ti, mut tj) = (0, 0);
        let mut tile = self.tile(0, m, 0, m);
        let mut stride = m | 1;
        if !is_whole {
            (ti, tj) = split(which);
            (tile.row, tile.rows) = Self::stretch(ti, k, m);
            (tile.column, tile.columns) = Self::stretch(tj, k, m);
            stride = Self::STRIDE;
        }
        let matrix = Matrix {
            values: self.values,
            first: 0,
            stride,
        };
        let of_pivots = k.div_ceil(TILE);
        let step = ti.min(tj).min(of_pivots);
        self.assemble::<SEARCH>(tile, matrix, seen);
        if step > 0 {
            self.subtract_products(tile, matrix, (ti, tj), (step * TILE).min(k));
        }
        if step < of_pivots {
            if ti == tj {
                K::eliminate::<TILE, SEARCH>(self, tile, matrix, seen);
            } else {
                K::solve::<TILE, SEARCH>(self, tile, matrix, step, seen);
            }
        }
        if is_whole || step == of_pivots {
            self.await_readers();
        }
        self.store(tile, matrix, seen);
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            if is_whole || step == of_pivots {
                let parent = self.task().parent();
                if parent != super::plan::NONE {
                    self.work.arrive(parent);
                }
            } else {
                self.flag(ti, tj)
                    .store(self.work.epoch, Ordering::Release, Scope::Device);
            }
        }
    }

    /// A part, behind the tile.
    #[inlined]
    fn other(self) -> Matrix<T> {
        Matrix {
            values: self.values,
            first: TILE * Self::STRIDE,
            stride: PART_STRIDE,
        }
    }

    /// Stores what is finished of the factors, and of the element.
    #[inlined]
    fn store(self, tile: Tile, matrix: Matrix<T>, seen: &mut Seen<T>) {
        let Tile { k, c, slot, .. } = tile;
        let m = tile.m();
        tile.for_each(|i, j| {
            let (row, column) = (tile.row + i, tile.column + j);
            let value = if !K::SYMMETRIC || row > column {
                matrix.get(i, j)
            } else {
                K::on_or_above(self, matrix, i, j)
            };
            if column < k {
                if !K::SYMMETRIC || row > column {
                    seen.entry(value, row > column);
                }
                let place = slot + wide_product(column, m) + u64::from(row);
                self.work.factors.set(place as usize, value);
            } else if row >= k && (!K::SYMMETRIC || row >= column) {
                let of_column = element_column(K::SYMMETRIC, column - k, c);
                let place = tile.element + of_column + u64::from(row - k);
                self.work.elements.set(place as usize, value);
            }
        });
        if K::SYMMETRIC || tile.row >= k || tile.column + tile.columns <= k {
            return;
        }
        // The rows of pivots right of their columns, by rows: here the columns run fastest.
        let turned = Tile {
            rows: tile.columns,
            columns: tile.rows.min(k - tile.row),
            ..tile
        };
        turned.for_each(|j, i| {
            let (row, column) = (tile.row + i, tile.column + j);
            if column >= k {
                let value = matrix.get(i, j);
                seen.entry(value, false);
                let place = slot + wide_product(k, m) + wide_product(row, c);
                let place = place + u64::from(column - k);
                self.work.factors.set(place as usize, value);
            }
        });
    }
}

impl<T: FrontField> EliminateLarge<T> for Lu {
    #[inlined]
    fn place_columns<const TILE: u32, const SEARCH: bool>(_: LargeFronts<T, TILE, Self>, _: Tile) {}

    #[inlined]
    fn column_place<const TILE: u32>(_: LargeFronts<T, TILE, Self>, column: u32) -> u32 {
        column
    }

    #[inlined]
    fn eliminate<const TILE: u32, const SEARCH: bool>(
        fronts: LargeFronts<T, TILE, Self>,
        tile: Tile,
        matrix: Matrix<T>,
        seen: &mut Seen<T>,
    ) {
        if TILE == PART {
            fronts.eliminate::<SEARCH>(tile, matrix, seen);
        } else {
            fronts.eliminate_by_parts::<SEARCH>(tile, matrix, seen);
        }
    }

    #[inlined]
    fn solve<const TILE: u32, const SEARCH: bool>(
        fronts: LargeFronts<T, TILE, Self>,
        tile: Tile,
        matrix: Matrix<T>,
        step: u32,
        seen: &mut Seen<T>,
    ) {
        fronts.solve::<SEARCH>(tile, matrix, step, seen);
    }

    #[inlined]
    fn on_or_above<const TILE: u32>(
        _: LargeFronts<T, TILE, Self>,
        matrix: Matrix<T>,
        row: u32,
        column: u32,
    ) -> T {
        matrix.get(row, column)
    }
}

impl<T: FrontField, const TILE: u32> LargeFronts<T, TILE, Lu> {
    /// Solves for a tile beside or above the diagonal tile of its step. A barrier ends it.
    #[inlined]
    fn solve<const SEARCH: bool>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        step: u32,
        seen: &mut Seen<T>,
    ) {
        let is_below = tile.row > tile.column;
        self.await_tile(step, step, 0);
        thread::sync_threads();
        let (pivot, pivots) = Self::stretch(step, tile.k, tile.m());
        if TILE == PART {
            self.solve_part::<SEARCH>(tile, matrix, (pivot, pivots), is_below, seen);
            return;
        }
        let first = pivots.min(PART);
        self.solve_part::<SEARCH>(tile, matrix, (pivot, first), is_below, seen);
        if first == pivots {
            return;
        }
        let other = self.other();
        let rest = (pivot + first, pivots - first);
        if is_below {
            self.read_part(tile, (pivot, first), rest);
            thread::sync_threads();
            let (rows, columns) = ((0, tile.rows), (first, pivots));
            subtract(
                matrix,
                other.at(0, first),
                matrix,
                (0, first),
                rows,
                columns,
            );
            thread::sync_threads();
            self.solve_part::<SEARCH>(tile, matrix.from(0, first), rest, is_below, seen);
        } else {
            self.read_part(tile, rest, (pivot, first));
            thread::sync_threads();
            let (rows, columns) = ((first, pivots), (0, tile.columns));
            subtract(
                other.at(first, 0),
                matrix,
                matrix,
                (0, first),
                rows,
                columns,
            );
            thread::sync_threads();
            let below = Tile {
                row: tile.row + first,
                ..tile
            };
            self.solve_part::<SEARCH>(below, matrix.from(first, 0), rest, is_below, seen);
        }
    }

    /// Solves for at most [`PART`] pivots, `pivots` from number `pivot` of the front on, which `matrix` begins with and
    /// nothing updates any more. A barrier ends it.
    #[inlined]
    fn solve_part<const SEARCH: bool>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        (pivot, pivots): (u32, u32),
        is_below: bool,
        seen: &mut Seen<T>,
    ) {
        let other = self.other();
        let thread = thread::thread_idx_x();
        let diagonal = pivot + thread.min(pivots - 1);
        let on_diagonal = self.factor(tile, diagonal, diagonal);
        self.read_part(tile, (pivot, pivots), (pivot, pivots));
        if thread < pivots {
            // There is a row to spare.
            let inverse = self.work.inverse_of::<SEARCH>(on_diagonal);
            other.set(PART, thread, inverse);
        }
        thread::sync_threads();
        if is_below {
            solve_upper(other, pivots, matrix, tile.rows);
            if SEARCH {
                let below = Tile {
                    columns: pivots,
                    ..tile
                };
                self.bound_columns(below, matrix, tile.start + pivot, seen);
            }
        } else {
            if SEARCH {
                self.exchange_rows(tile, matrix, pivots);
            }
            solve_lower(other, pivots, matrix, tile.columns);
        }
    }
}

impl<T: FrontField, const TILE: u32, K: EliminateLarge<T>> LargeFronts<T, TILE, K> {
    /// An entry of the columns of the front's pivots.
    #[inlined]
    fn factor(self, tile: Tile, row: u32, column: u32) -> T {
        let place = tile.slot + wide_product(column, tile.m()) + u64::from(row);
        self.work.factors.get(place as usize)
    }

    /// Copies `rows` and `columns` of the front, each a first one and how many, at most [`PART`], behind the tile.
    #[inlined]
    fn read_part(self, tile: Tile, rows: (u32, u32), columns: (u32, u32)) {
        let thread = thread::thread_idx_x();
        let (row, column) = (thread & (PART - 1), thread / PART);
        // All that the thread reads is on its way before it waits for the first.
        let mut values = [T::ZERO; PART_VALUES];
        for x in 0..PART_VALUES {
            let i = rows.0 + row.min(rows.1 - 1);
            let j = columns.0 + (column + x as u32 * (THREADS / PART)).min(columns.1 - 1);
            values[x] = self.factor(tile, i, j);
        }
        for x in 0..PART_VALUES {
            let j = column + x as u32 * (THREADS / PART);
            if row < rows.1 && j < columns.1 {
                self.other().set(row, j, values[x]);
            }
        }
    }

    /// The flag of a tile: the number of the last factorization in which it was written.
    #[inlined]
    fn flag(self, ti: u32, tj: u32) -> Atomic<u32> {
        let (k, c) = (self.task().pivots(), self.task().below());
        let side = k.div_ceil(TILE) + c.div_ceil(TILE);
        let at = self.task().flags() + ti * side + tj;
        self.plan.flags.atomic(at as usize)
    }

    /// Thread `waiter` waits until a tile is written. A barrier of the block is to follow.
    #[inlined]
    fn await_tile(self, ti: u32, tj: u32, waiter: u32) {
        if thread::thread_idx_x() == waiter {
            let flag = self.flag(ti, tj);
            spin_wait(|| flag.load(Ordering::Acquire, Scope::Device) == self.work.epoch);
        }
    }
}

/// a · b without a wrap.
#[inlined]
fn wide_product(a: u32, b: u32) -> u64 {
    u64::from(a) * u64::from(b)
}
