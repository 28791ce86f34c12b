//! Triangular solves with the tile on the diagonal: a panel of pivots after the other, each taken off the rest at once.

use luge_kernel::prelude::*;

use super::{FrontField, LargeFronts, Matrix, OWN, PART, SIDE, Tile};
use crate::frontal::plan::THREADS;
use crate::frontal::symmetric::Lu;
use crate::frontal::work::quotient;

/// Pivots of a panel.
pub(super) const PANEL: u32 = 8;

impl<T: FrontField, const TILE: u32> LargeFronts<T, TILE, Lu> {
    /// Exchanges the rows of a tile as those of the diagonal tile left of it were, one pivot after the other.
    #[inlined]
    pub(super) fn exchange_rows(self, tile: Tile, matrix: Matrix<T>, pivots: u32) {
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
}

/// Solves with the unit lower triangle of rows and columns `j..j + pivots` of `lower` for columns `from..to` of `matrix`,
/// a thread a column.
#[inlined]
pub(super) fn lower_panel<T: Field>(
    lower: Matrix<T>,
    matrix: Matrix<T>,
    (j, pivots): (u32, u32),
    from: u32,
    to: u32,
) {
    if pivots == PANEL {
        lower_columns::<T, true>(lower, matrix, (j, PANEL), from, to);
    } else {
        lower_columns::<T, false>(lower, matrix, (j, pivots), from, to);
    }
}

/// Number `p` of the `pivots` from `j` on. Beyond a panel that is not FULL, its last once more: what is computed there
/// comes after all that counts.
#[inlined]
fn of_panel<const FULL: bool>((j, pivots): (u32, u32), p: usize) -> u32 {
    let p = p as u32;
    j + if FULL { p } else { p.min(pivots - 1) }
}

#[inlined]
fn lower_columns<T: Field, const FULL: bool>(
    lower: Matrix<T>,
    matrix: Matrix<T>,
    (j, pivots): (u32, u32),
    from: u32,
    to: u32,
) {
    let at = |p: usize| of_panel::<FULL>((j, pivots), p);
    let mut column = from + thread::thread_idx_x();
    while column < to {
        let mut values = [T::ZERO; PANEL as usize];
        for (p, value) in values.iter_mut().enumerate() {
            *value = matrix.get(at(p), column);
        }
        for p in 0..PANEL as usize {
            for r in p + 1..PANEL as usize {
                let multiplier = -lower.get(at(r), at(p));
                values[r] = multiplier.mul_add(values[p], values[r]);
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

/// Solves with the upper triangle of rows and columns `j..j + pivots` of `upper`, from the right, for `rows` rows of
/// `matrix`, a thread a row; row [`PART`] of `upper` has the reciprocals of the diagonal.
#[inlined]
fn upper_panel<T: Field>(upper: Matrix<T>, matrix: Matrix<T>, panel: (u32, u32), rows: u32) {
    if thread::thread_idx_x() >= rows {
        return;
    }
    if panel.1 == PANEL {
        upper_row::<T, true>(upper, matrix, (panel.0, PANEL));
    } else {
        upper_row::<T, false>(upper, matrix, panel);
    }
}

#[inlined]
fn upper_row<T: Field, const FULL: bool>(
    upper: Matrix<T>,
    matrix: Matrix<T>,
    (j, pivots): (u32, u32),
) {
    let row = thread::thread_idx_x();
    let at = |p: usize| of_panel::<FULL>((j, pivots), p);
    let mut values = [T::ZERO; PANEL as usize];
    for (p, value) in values.iter_mut().enumerate() {
        *value = matrix.get(row, at(p));
    }
    upper_step::<T, 0>(upper, at, &mut values);
    upper_step::<T, 1>(upper, at, &mut values);
    upper_step::<T, 2>(upper, at, &mut values);
    upper_step::<T, 3>(upper, at, &mut values);
    upper_step::<T, 4>(upper, at, &mut values);
    upper_step::<T, 5>(upper, at, &mut values);
    upper_step::<T, 6>(upper, at, &mut values);
    upper_step::<T, 7>(upper, at, &mut values);
    for (p, &value) in values.iter().enumerate() {
        if (p as u32) < pivots {
            matrix.set(row, j + p as u32, value);
        }
    }
}

/// Solves for value P of a row, and takes it off the others. Registers have no index, so P is a constant.
#[inlined]
fn upper_step<T: Field, const P: usize>(
    upper: Matrix<T>,
    at: impl Fn(usize) -> u32,
    values: &mut [T; PANEL as usize],
) {
    let (pivot, inverse) = (upper.get(at(P), at(P)), upper.get(PART, at(P)));
    values[P] = quotient(values[P], pivot, inverse);
    for r in P + 1..PANEL as usize {
        let multiplier = -upper.get(at(P), at(r));
        values[r] = multiplier.mul_add(values[P], values[r]);
    }
}

/// Subtracts from the entries of `matrix` in these rows and columns the product of columns `j..j + pivots` of `left`
/// and the rows of the same numbers of `right`.
#[inlined]
pub(super) fn subtract<T: Field>(
    left: Matrix<T>,
    right: Matrix<T>,
    matrix: Matrix<T>,
    pivots: (u32, u32),
    rows: (u32, u32),
    columns: (u32, u32),
) {
    let mut column = columns.0;
    while column < columns.1 {
        let mut row = rows.0;
        while row < rows.1 {
            let (rows, columns) = ((row, rows.1), (column, columns.1));
            if rows.1 - row <= 2 * SIDE && columns.1 - column <= 2 * SIDE {
                subtract_block::<T, 2>(left, right, matrix, pivots, rows, columns);
            } else {
                subtract_block::<T, OWN>(left, right, matrix, pivots, rows, columns);
            }
            row += PART;
        }
        column += PART;
    }
}

/// As [`subtract`], from the first N · [`SIDE`] of these rows and columns: each thread has N × N entries, [`SIDE`]
/// apart.
#[inlined]
fn subtract_block<T: Field, const N: usize>(
    left: Matrix<T>,
    right: Matrix<T>,
    matrix: Matrix<T>,
    (j, pivots): (u32, u32),
    rows: (u32, u32),
    columns: (u32, u32),
) {
    let thread = thread::thread_idx_x();
    let (x, y) = (thread & (SIDE - 1), thread / SIDE);
    let row = |r: usize| rows.0 + x + r as u32 * SIDE;
    let column = |s: usize| columns.0 + y + s as u32 * SIDE;
    let mut sums = [[T::ZERO; N]; N];
    for s in 0..N {
        for r in 0..N {
            if row(r) < rows.1 && column(s) < columns.1 {
                sums[s][r] = matrix.get(row(r), column(s));
            }
        }
    }
    let mut subtract = |p: u32| {
        let mut multipliers = [T::ZERO; N];
        let mut upper = [T::ZERO; N];
        for r in 0..N {
            // What lies outside is multiplied too, and left away.
            multipliers[r] = -left.get(row(r).min(rows.1 - 1), p);
            upper[r] = right.get(p, column(r).min(columns.1 - 1));
        }
        for s in 0..N {
            for r in 0..N {
                sums[s][r] = multipliers[r].mul_add(upper[s], sums[s][r]);
            }
        }
    };
    if pivots == PANEL {
        // The next operands are on their way during the products.
        for p in 0..PANEL {
            subtract(j + p);
        }
    } else {
        let mut p = 0;
        while p < pivots {
            subtract(j + p);
            p += 1;
        }
    }
    for s in 0..N {
        for r in 0..N {
            if row(r) < rows.1 && column(s) < columns.1 {
                matrix.set(row(r), column(s), sums[s][r]);
            }
        }
    }
}

/// Solves with the unit lower triangle of order k in `lower` for `columns` columns of `matrix`, in place. A barrier ends it.
#[inlined]
pub(super) fn solve_lower<T: Field>(lower: Matrix<T>, k: u32, matrix: Matrix<T>, columns: u32) {
    let mut j = 0;
    while j < k {
        let panel = (j, (k - j).min(PANEL));
        lower_panel(lower, matrix, panel, 0, columns);
        thread::sync_threads();
        j += PANEL;
        if j < k {
            subtract(lower, matrix, matrix, panel, (j, k), (0, columns));
            thread::sync_threads();
        }
    }
}

/// Solves with the upper triangle of order k in `upper`, from the right, for `rows` rows of `matrix`, in place; row
/// [`PART`] of `upper` has the reciprocals of the diagonal. A barrier ends it.
#[inlined]
pub(super) fn solve_upper<T: Field>(upper: Matrix<T>, k: u32, matrix: Matrix<T>, rows: u32) {
    let mut j = 0;
    while j < k {
        let panel = (j, (k - j).min(PANEL));
        upper_panel(upper, matrix, panel, rows);
        thread::sync_threads();
        j += PANEL;
        if j < k {
            subtract(matrix, upper, matrix, panel, (0, rows), (j, k));
            thread::sync_threads();
        }
    }
}
