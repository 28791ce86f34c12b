//! Elimination of the pivots of a whole front, or of a tile on the diagonal.
//!
//! What takes its time is the way from one pivot to the next: through a shuffle, a reciprocal and a quotient, if one
//! warp has the columns in its registers. So a warp eliminates a panel of columns by itself, and all then take its
//! pivots off the columns right of it at once. (The blocked right-looking form of LAPACK's `getrf`.)

use luge_kernel::prelude::*;

use super::triangle::{PANEL, lower_panel, solve_lower, solve_upper, subtract};
use super::{FrontField, LargeFronts, Matrix, PART, Tile, words};
use crate::frontal::columns::Columns;
use crate::frontal::plan::{THREADS, WHOLE_FRONT};
use crate::frontal::rows::RowChoice;
use crate::frontal::symmetric::Lu;
use crate::frontal::work::{Seen, quotient};

const _: () = assert!(WHOLE_FRONT <= 3 * warp::WARP_SIZE);

/// Added to the row of a column that a search leaves out.
const LEFT_OUT: u32 = 1 << 31;

impl<T: FrontField, const TILE: u32> LargeFronts<T, TILE, Lu> {
    /// Eliminates the pivots of a whole front or of a tile on the diagonal. A barrier ends it.
    #[inlined]
    pub(super) fn eliminate<const SEARCH: bool>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        seen: &mut Seen<T>,
    ) {
        let k = tile.k.min(tile.row + tile.columns) - tile.row;
        if SEARCH {
            self.search_and_eliminate(tile, matrix, k, seen);
        } else {
            self.eliminate_by_panels(tile, matrix, k);
        }
    }

    /// Eliminates a diagonal tile of a wide front: the first part, what is beside and above the second, and that. A
    /// barrier ends it.
    #[inlined]
    pub(super) fn eliminate_by_parts<const SEARCH: bool>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        seen: &mut Seen<T>,
    ) {
        self.eliminate::<SEARCH>(tile.part(0), matrix, seen);
        if tile.rows <= PART {
            return;
        }
        let thread = thread::thread_idx_x();
        let left = tile.rows - PART;
        let other = self.other();
        tile.part(0).for_each(|i, j| {
            let value = matrix.get(i, j);
            other.set(i, j, value);
            if i == j {
                other.set(PART, j, self.work.inverse_of::<SEARCH>(value));
            }
        });
        if SEARCH && thread < PART {
            self.row_places.set(thread as usize, thread);
        }
        thread::sync_threads();
        solve_upper(other, PART, matrix.from(PART, 0), left);
        if SEARCH {
            let below = Tile {
                rows: left,
                columns: PART,
                ..tile
            };
            self.bound_columns(below, matrix.from(PART, 0), tile.start + tile.row, seen);
            let beside = Tile {
                columns: left,
                ..tile
            };
            self.exchange_rows(beside, matrix.from(0, PART), PART);
        }
        solve_lower(other, PART, matrix.from(0, PART), left);
        let rest = (PART, tile.rows);
        subtract(matrix, matrix, matrix, (0, PART), rest, rest);
        thread::sync_threads();
        self.eliminate::<SEARCH>(tile.part(PART), matrix.from(PART, PART), seen);
    }

    /// Eliminates the first `k` columns, a panel after the other. A barrier ends it.
    #[inlined]
    fn eliminate_by_panels(self, tile: Tile, matrix: Matrix<T>, k: u32) {
        let m = tile.rows;
        let mut j = 0;
        while j < k {
            let panel = (j, (k - j).min(PANEL));
            if thread::thread_idx_x() < warp::WARP_SIZE {
                let left = m - j;
                let came = if left <= warp::WARP_SIZE {
                    self.eliminate_panel::<1>(matrix, m, panel)
                } else if left <= 2 * warp::WARP_SIZE {
                    self.eliminate_panel::<2>(matrix, m, panel)
                } else {
                    self.eliminate_panel::<3>(matrix, m, panel)
                };
                let lane = thread::lane_id();
                if lane < panel.1 {
                    self.work.note(came, tile.start + tile.row + j + lane);
                }
            }
            thread::sync_threads();
            let next = j + panel.1;
            if next < m {
                lower_panel(matrix, matrix, panel, next, m);
                thread::sync_threads();
                subtract(matrix, matrix, matrix, panel, (next, m), (next, m));
                thread::sync_threads();
            }
            j = next;
        }
    }

    /// Eliminates the columns of a panel in the rows from its first pivot to row `m`, of which each lane has at most R.
    /// Lane p is answered with its p-th pivot as it came. One warp calls it.
    #[inlined]
    fn eliminate_panel<const R: usize>(
        self,
        matrix: Matrix<T>,
        m: u32,
        (j, pivots): (u32, u32),
    ) -> T {
        let lane = thread::lane_id();
        let row = |r: usize| j + lane + r as u32 * warp::WARP_SIZE;
        let mut columns = Columns::<T, { PANEL as usize }, R>::zero();
        for r in 0..R {
            if row(r) < m {
                for c in 0..PANEL {
                    // Beyond the panel, its last column once more, which nobody looks at.
                    let value = matrix.get(row(r), j + c.min(pivots - 1));
                    columns.set(c as usize, r, value);
                }
            }
        }
        let mut own = T::ONE;
        let mut came = columns.first(0);
        let mut p = 0;
        while p < pivots {
            if lane == p {
                own = came;
            }
            let (finished, next) = columns.eliminate(&self.work, p, came, PANEL);
            for (r, &value) in finished.iter().enumerate() {
                if row(r) < m {
                    matrix.set(row(r), j + p, value);
                }
            }
            came = next;
            p += 1;
        }
        own
    }

    /// Eliminates one column after the other, each with its largest entry among the rows of the pivots unless the
    /// diagonal is large enough. Columns without a pivot are left out: zeros in L and on the diagonal. A barrier ends it.
    #[inlined]
    fn search_and_eliminate(self, tile: Tile, matrix: Matrix<T>, k: u32, seen: &mut Seen<T>) {
        let thread = thread::thread_idx_x();
        let m = tile.rows;
        let first_pivot = tile.start + tile.row;
        let mut j = 0;
        while j < k {
            if thread < warp::WARP_SIZE {
                let choice = self.work.pivot_row(|i| matrix.get(i, j), (j, k, m));
                if thread == 0 {
                    self.take_row(tile, j, choice, seen);
                }
            }
            thread::sync_threads();
            let word = self.words.get(words::NEXT);
            let (row, is_left_out) = (word & !LEFT_OUT, word & LEFT_OUT != 0);
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
            let pivot = if is_left_out {
                T::ZERO
            } else {
                self.work.usable(came)
            };
            thread::sync_threads();
            let inverse = self.work.inverse_of::<true>(pivot);
            if thread == 0 {
                if !is_left_out {
                    self.work.note(came, first_pivot + j);
                }
                matrix.set(j, j, pivot);
            }
            let mut i = j + 1 + thread;
            while i < m {
                // Zero for a pivot of zero whose inverse is that too.
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

    /// Makes known which row the pivot of column `j` of a tile has. One thread calls it.
    #[inlined]
    fn take_row(self, tile: Tile, j: u32, choice: RowChoice, seen: &mut Seen<T>) {
        let pivot = tile.start + tile.row + j;
        let (mut row, mut word) = (choice.row, choice.row);
        if !choice.is_acceptable {
            row = self.left_over(j);
            word = row | LEFT_OUT;
            self.work.fail(pivot, seen);
        }
        let (upper, lower) = (
            self.row_places.get(j as usize),
            self.row_places.get(row as usize),
        );
        // From here on they say which row, as it came, is in each place.
        self.row_places.set(j as usize, lower);
        self.row_places.set(row as usize, upper);
        self.words.set(words::NEXT, word);
        self.work.pivot_rows.set(pivot as usize, tile.row + row);
    }

    /// Where the row is that a column `j` without a pivot gets: that on its diagonal, or if column c has taken that, the row on the
    /// diagonal of c, and so on.
    #[inlined]
    fn left_over(self, j: u32) -> u32 {
        let place_of = |row: u32| {
            let mut place = 0;
            while self.row_places.get(place as usize) != row {
                place += 1;
            }
            place
        };
        let mut place = place_of(j);
        while place < j {
            place = place_of(place);
        }
        place
    }

    /// Leaves out of L the entries of rows below a diagonal tile that are not within the bound of a search, and marks their
    /// columns, which begin with that of `pivot`. A barrier ends it.
    #[inlined]
    pub(super) fn bound_columns(
        self,
        below: Tile,
        matrix: Matrix<T>,
        pivot: u32,
        seen: &mut Seen<T>,
    ) {
        if !self.work.leaves_out() {
            return;
        }
        below.for_each(|i, p| {
            // What is not a number is not within the bound either.
            let is_bounded = matrix.get(i, p).magnitude() <= self.work.max_l;
            if !is_bounded {
                self.work.fail(pivot + p, seen);
                matrix.set(i, p, T::ZERO);
            }
        });
        thread::sync_threads();
    }
}
