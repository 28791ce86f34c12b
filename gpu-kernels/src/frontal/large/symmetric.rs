//! Large fronts of symmetric matrices.
//!
//! The lower triangle of a tile on the diagonal is what counts; what is above it serves as room for rows of D·Lᵀ. Only a
//! search fills both triangles, so that candidates can be compared by columns.

#![allow(
    clippy::needless_range_loop,
    reason = "rows and columns by their numbers, which are constants in the unrolled loops"
)]

use luge_kernel::prelude::*;

use super::triangle::{PANEL, solve_upper, subtract};
use super::{
    EliminateLarge, FrontField, LargeFronts, Matrix, PART, PART_VALUES, Tile, WARPS, words,
};
use crate::frontal::columns::Columns;
use crate::frontal::plan::{SymmetricWork, THREADS, kind, report};
use crate::frontal::symmetric::{Expectation, Form, FrontKind, Group, Verdict, all_serve};
use crate::frontal::work::Seen;

/// What large fronts of symmetric matrices need beside the others. Arrays have a place for each column of a tile or of a
/// whole front.
#[derive(Clone, Copy)]
pub(in crate::frontal) struct LargeSymmetric<T: Field, E> {
    pub work: SymmetricWork<T>,
    pub expectation: E,
    /// The kinds of the tile's pivots.
    pub kinds: Shared<u32>,
    /// Where the tile's columns go.
    pub column_places: Shared<u32>,
    /// What a search says of its candidates.
    pub verdicts: Shared<u32>,
}

impl<T: Field, E: Expectation<T>> FrontKind<T> for LargeSymmetric<T, E> {
    const SYMMETRIC: bool = true;

    #[inlined]
    fn kept(self, pivot: u32) -> [T; 2] {
        self.work.kept(pivot)
    }

    #[inlined]
    fn form(self) -> Form {
        self.work.form()
    }
}

impl<T: FrontField, E: Expectation<T>> EliminateLarge<T> for LargeSymmetric<T, E> {
    #[inlined]
    fn place_columns<const TILE: u32, const SEARCH: bool>(
        fronts: LargeFronts<T, TILE, Self>,
        tile: Tile,
    ) {
        let thread = thread::thread_idx_x();
        if thread < tile.columns {
            let column = tile.column + thread;
            let (mut place, mut of_kind) = (thread, kind::ONE);
            if column < tile.k {
                let pivot = (tile.start + column) as usize;
                place = fronts.work.row_places.get(pivot) - tile.column;
                // Elsewhere it is read behind the flag of the tile on the diagonal: a search may change it.
                if tile.row == tile.column {
                    of_kind = fronts.work.pivot_rows.get(pivot);
                }
                if SEARCH && of_kind == kind::NONE {
                    of_kind = kind::ONE;
                }
            }
            fronts.kind.column_places.set(thread as usize, place);
            fronts.kind.kinds.set(thread as usize, of_kind);
        }
    }

    #[inlined]
    fn column_place<const TILE: u32>(fronts: LargeFronts<T, TILE, Self>, column: u32) -> u32 {
        fronts.kind.column_places.get(column as usize)
    }

    #[inlined]
    fn eliminate<const TILE: u32, const SEARCH: bool>(
        fronts: LargeFronts<T, TILE, Self>,
        tile: Tile,
        matrix: Matrix<T>,
        seen: &mut Seen<T>,
    ) {
        fronts.eliminate_symmetric::<SEARCH>(tile, matrix, seen);
    }

    #[inlined]
    fn solve<const TILE: u32, const SEARCH: bool>(
        fronts: LargeFronts<T, TILE, Self>,
        tile: Tile,
        matrix: Matrix<T>,
        step: u32,
        seen: &mut Seen<T>,
    ) {
        fronts.solve_symmetric::<SEARCH>(tile, matrix, step, seen);
    }

    #[inlined]
    fn on_or_above<const TILE: u32>(
        fronts: LargeFronts<T, TILE, Self>,
        matrix: Matrix<T>,
        row: u32,
        column: u32,
    ) -> T {
        let is_of_d = row == column
            || row + 1 == column && fronts.kind.kinds.get(row as usize) == kind::FIRST_OF_TWO;
        if is_of_d {
            matrix.get(row, column)
        } else {
            T::ZERO
        }
    }
}

impl<T: FrontField, E: Expectation<T>, const TILE: u32> LargeFronts<T, TILE, LargeSymmetric<T, E>> {
    #[inlined]
    fn kind_of(self, pivot: u32) -> u32 {
        if E::OF_SIGNS {
            kind::ONE
        } else {
            self.kind.kinds.get(pivot as usize)
        }
    }

    /// Eliminates the pivots of a whole front or of a tile on the diagonal, and keeps D. A barrier ends it.
    #[inlined]
    fn eliminate_symmetric<const SEARCH: bool>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        seen: &mut Seen<T>,
    ) {
        let thread = thread::thread_idx_x();
        let k = tile.k.min(tile.row + tile.columns) - tile.row;
        if SEARCH {
            self.search_symmetric(tile, matrix, k, seen);
        } else {
            self.eliminate_symmetric_panels::<false>(tile, matrix, (0, k), seen);
        }
        // A front that adds up children for another one has no pivot.
        let last = k.saturating_sub(1);
        let (own, next) = (thread.min(last), (thread + 1).min(last));
        let block = [
            matrix.get(own, own),
            matrix.get(own, next),
            matrix.get(next, next),
        ];
        thread::sync_threads();
        if thread < k {
            let pivot = tile.start + tile.row + thread;
            let of_kind = self.kind_of(thread);
            let of_pivot = (pivot, of_kind);
            let d = self.kind.work.keep(&self.work, of_pivot, block, seen);
            matrix.set(thread, thread, d);
            if SEARCH {
                self.work.pivot_rows.set(pivot as usize, of_kind);
                let place = tile.row + self.row_places.get(thread as usize);
                let found_places = self.kind.work.found_places;
                found_places.set(pivot as usize, place);
            }
        }
        thread::sync_threads();
    }

    /// Eliminates the columns `first..k` of the tile, a panel after the other, with the pivots that are known. If this is a trial,
    /// it ends before the first that leads to too large an entry of L; the answer is where. A barrier ends it.
    #[inlined]
    fn eliminate_symmetric_panels<const TRIAL: bool>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        (first, k): (u32, u32),
        seen: &mut Seen<T>,
    ) -> u32 {
        let m = tile.rows;
        let has_tiles_below = tile.row + tile.rows < tile.m();
        let bound = if has_tiles_below {
            self.kind.work.known_l_of_tile
        } else {
            self.kind.work.known_l
        };
        let mut j = first;
        while j < k {
            let mut pivots = (k - j).min(PANEL);
            // A pivot of order 2 is in one panel.
            pivots -= u32::from(self.kind_of(j + pivots - 1) == kind::FIRST_OF_TWO);
            if thread::thread_idx_x() < warp::WARP_SIZE {
                let (left, panel) = (m - j, (j, pivots));
                let done = if left <= warp::WARP_SIZE {
                    self.eliminate_symmetric_panel::<TRIAL, 1>(tile, matrix, panel, bound, seen)
                } else if left <= 2 * warp::WARP_SIZE {
                    self.eliminate_symmetric_panel::<TRIAL, 2>(tile, matrix, panel, bound, seen)
                } else {
                    self.eliminate_symmetric_panel::<TRIAL, 3>(tile, matrix, panel, bound, seen)
                };
                if TRIAL && thread::lane_id() == 0 {
                    self.words.set(words::NEXT, done);
                }
            }
            thread::sync_threads();
            let of_panel = pivots;
            if TRIAL {
                pivots = self.words.get(words::NEXT);
            }
            let next = j + pivots;
            if pivots > 0 && next < m {
                self.scale_rows(matrix, (j, pivots), (next, m));
                thread::sync_threads();
                subtract(matrix, matrix, matrix, (j, pivots), (next, m), (next, m));
                thread::sync_threads();
            }
            j = next;
            if pivots < of_panel {
                break;
            }
        }
        j
    }

    /// Eliminates the columns of a panel in the tile's rows from its first pivot on, of which each lane has at most R, and
    /// tells how many; those behind are left as they were. One warp calls it.
    #[inlined]
    fn eliminate_symmetric_panel<const TRIAL: bool, const R: usize>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        (j, pivots): (u32, u32),
        bound: T::Real,
        seen: &mut Seen<T>,
    ) -> u32 {
        let lane = thread::lane_id();
        let m = tile.rows;
        let of_tile = tile.start + tile.row;
        let row = |r: usize| j + lane + r as u32 * warp::WARP_SIZE;
        let mut columns = Columns::<T, { PANEL as usize }, R>::zero();
        for r in 0..R {
            if row(r) < m {
                for c in 0..PANEL {
                    // Beyond the panel, its last column once more, which nobody looks at; above the diagonal something
                    // that nobody looks at either.
                    let value = matrix.get(row(r), j + c.min(pivots - 1));
                    columns.set(c as usize, r, value);
                }
            }
        }
        let is_first = lane < pivots && self.kind_of(j + lane) == kind::FIRST_OF_TWO;
        let firsts = warp::ballot(warp::FULL_MASK, is_first);
        // Of the pivot of the panel whose number is the lane's.
        let (expectation, form) = (self.kind.expectation, self.kind.form());
        let expected = expectation.expected(of_tile + j + lane.min(pivots - 1));
        let mut came = columns.first(0);
        let mut p = 0;
        while p < pivots {
            let store = |p: u32, first: u32, column: [T; R]| {
                for r in 0..R {
                    if row(r) < m && (r > 0 || lane >= first) {
                        matrix.set(row(r), j + p, column[r]);
                    }
                }
            };
            let serve = |first: u32, column: [T; R], tried: &Seen<T>| {
                let mut is_bounded = true;
                for r in 0..R {
                    if row(r) < m && (r > 0 || lane >= first) {
                        is_bounded = is_bounded && column[r].magnitude() <= bound;
                    }
                }
                all_serve(is_bounded, tried)
            };
            let mut tried = seen.before_trial();
            if !E::OF_SIGNS && firsts >> p & 1 != 0 {
                let ([first, second], next) =
                    columns.eliminate_two((&self.work, form), p, came, &mut tried);
                if TRIAL && !(serve(p + 2, first, &tried) && serve(p + 2, second, &tried)) {
                    break;
                }
                store(p, p, first);
                store(p + 1, p, second);
                came = next;
                p += 2;
            } else {
                if E::OF_SIGNS {
                    let expected = warp::shuffle(warp::FULL_MASK, expected, p);
                    let (usable, is_replaced) = self.work.with_sign(came, expected);
                    came = usable;
                    if is_replaced && lane == 0 {
                        expectation.note_replaced(&self.work, of_tile + j + p);
                    }
                }
                let (mut column, next) =
                    columns.eliminate_one((&self.work, form), p, came, &mut tried);
                if TRIAL && !serve(p + 1, column, &tried) {
                    break;
                }
                if E::OF_SIGNS && lane == p {
                    column[0] = came;
                }
                store(p, p, column);
                came = next;
                p += 1;
            }
            seen.after_trial(&tried);
        }
        p
    }

    /// Puts the rows of D·Lᵀ of a panel above the diagonal, in the columns `from..to`.
    #[inlined]
    fn scale_rows(self, matrix: Matrix<T>, (j, pivots): (u32, u32), (from, to): (u32, u32)) {
        let form = self.kind.form();
        let mut column = from + thread::thread_idx_x();
        while column < to {
            // With a neighbour on each side; behind the panel its last pivot once more, which is left away.
            let mut lower = [T::ZERO; PANEL as usize + 2];
            let mut off = [T::ZERO; PANEL as usize + 1];
            for p in 0..PANEL as usize {
                let pivot = j + (p as u32).min(pivots - 1);
                lower[p + 1] = form.counterpart(matrix.get(column, pivot));
                if self.kind_of(pivot) == kind::FIRST_OF_TWO {
                    off[p + 1] = matrix.get(pivot, pivot + 1);
                }
            }
            for p in 0..PANEL as usize {
                let pivot = j + (p as u32).min(pivots - 1);
                let sum = form.on_diagonal(matrix.get(pivot, pivot)) * lower[p + 1];
                let sum = form.counterpart(off[p + 1]).mul_add(lower[p + 2], sum);
                let sum = off[p].mul_add(lower[p], sum);
                if (p as u32) < pivots {
                    matrix.set(pivot, column, sum);
                }
            }
            column += THREADS;
        }
    }

    /// Eliminates as many of the first `k` columns as have acceptable pivots, and leaves the others out: their L is zero and D
    /// one. Panels of pivots that are known take turns with as many that are searched, where the former do not serve. A
    /// barrier ends it.
    #[inlined]
    fn search_symmetric(self, tile: Tile, matrix: Matrix<T>, k: u32, seen: &mut Seen<T>) {
        let thread = thread::thread_idx_x();
        let mut has_searched = false;
        let mut j = 0;
        loop {
            j = self.eliminate_symmetric_panels::<true>(tile, matrix, (j, k), seen);
            if j == k {
                break;
            }
            has_searched = true;
            let next = self.search_panel(tile, matrix, (j, k), seen);
            let has_failed = next < k.min(j + PANEL);
            j = next;
            if has_failed || j == k {
                break;
            }
        }
        seen.num_searched += u32::from(has_searched && thread == 0);
        let left_out = Tile {
            columns: k - j,
            ..tile
        };
        left_out.for_each(|i, p| {
            if i >= j {
                let value = if i == j + p { T::ONE } else { T::ZERO };
                matrix.set(i, j + p, value);
            }
        });
        if thread >= j && thread < k {
            self.kind.kinds.set(thread as usize, kind::NONE);
        }
        thread::sync_threads();
    }

    /// Searches pivots for as many columns as a panel has, from column `first` of `k` on, and eliminates them one after
    /// another. The answer is the first column that is not eliminated. A barrier ends it.
    #[inlined]
    fn search_panel(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        (first, k): (u32, u32),
        seen: &mut Seen<T>,
    ) -> u32 {
        let m = tile.rows;
        let form = self.kind.form();
        tile.after(first).for_each(|i, j| {
            if i < j {
                let across = form.counterpart(matrix.get(first + j, first + i));
                matrix.set(first + i, first + j, across);
            }
        });
        thread::sync_threads();
        let mut j = first;
        while j < k.min(first + PANEL) {
            let (verdict, column, partner) = self.choose(tile, matrix, (j, k, m));
            if verdict == Verdict::UNFIT {
                break;
            }
            let is_two = verdict == Verdict::TWO;
            if thread::thread_idx_x() == 0 {
                self.forget(j);
                self.forget(column);
                if is_two {
                    self.forget(j + 1);
                    self.forget(partner);
                }
            }
            if is_two {
                self.exchange(matrix, m, j, column.min(partner));
                // The first exchange has left it where it was, for it stands behind the other one.
                self.exchange(matrix, m, j + 1, column.max(partner));
                self.eliminate_two(tile, matrix, j, seen);
                j += 2;
            } else {
                self.exchange(matrix, m, j, column);
                self.eliminate_one(tile, matrix, j, seen);
                j += 1;
            }
        }
        j
    }

    /// Nothing is known any more of a pivot that has to leave its place, and of its partner. One thread calls it.
    #[inlined]
    fn forget(self, pivot: u32) {
        let kinds = self.kind.kinds;
        let pivot = pivot as usize;
        let of_kind = kinds.get(pivot);
        if of_kind == kind::FIRST_OF_TWO {
            kinds.set(pivot + 1, kind::ONE);
        } else if of_kind == kind::SECOND_OF_TWO {
            kinds.set(pivot - 1, kind::ONE);
        }
        kinds.set(pivot, kind::ONE);
    }

    /// The first column with an acceptable pivot, what that is, and the partner. Each warp looks at one column at a time.
    #[inlined]
    fn choose(self, tile: Tile, matrix: Matrix<T>, (j, k, m): (u32, u32, u32)) -> (u32, u32, u32) {
        let (lane, own) = (thread::lane_id(), thread::thread_idx_x() / warp::WARP_SIZE);
        let group = Group {
            lanes: warp::WARP_SIZE,
        };
        let entry = |i: u32, p: u32| matrix.get(i, p);
        let form = self.kind.form();
        let mut not_finite = k;
        let mut first = j;
        while first < k {
            let column = first + own;
            if column < k {
                let mut said = self.work.verdict(group, (entry, form), column, (j, k, m));
                if said == Verdict::NOT_FINITE {
                    not_finite = not_finite.min(column);
                    said = Verdict::UNFIT;
                }
                if lane == 0 {
                    self.kind.verdicts.set(column as usize, said);
                }
            }
            thread::sync_threads();
            // The same in all warps. The barriers of an elimination are before what is said next of these columns.
            let column = (first + (lane & (WARPS - 1))).min(k - 1);
            let said = self.kind.verdicts.get(column as usize);
            let fit = warp::ballot(warp::FULL_MASK, said != Verdict::UNFIT);
            if fit != 0 {
                let lane = fit.trailing_zeros();
                let said = warp::shuffle(warp::FULL_MASK, said, lane);
                let (verdict, partner) = Verdict::split(said);
                return (verdict, first + lane, partner);
            }
            first += WARPS;
        }
        // While another one is fit, those may yet go to other places.
        if not_finite < k {
            let pivot = tile.start + tile.row + not_finite;
            self.work.note_first(report::FIRST_NOT_FINITE, pivot);
        }
        (Verdict::UNFIT, k, k)
    }

    /// Exchanges rows and columns `a` and `b` of `m`, and notes where they are. A barrier ends it if there is something to do.
    #[inlined]
    fn exchange(self, matrix: Matrix<T>, m: u32, a: u32, b: u32) {
        if a == b {
            return;
        }
        let thread = thread::thread_idx_x();
        if thread < m {
            let value = matrix.get(a, thread);
            matrix.set(a, thread, matrix.get(b, thread));
            matrix.set(b, thread, value);
        }
        thread::sync_threads();
        if thread < m {
            let value = matrix.get(thread, a);
            matrix.set(thread, a, matrix.get(thread, b));
            matrix.set(thread, b, value);
        }
        if thread < m {
            let place = self.row_places.get(thread as usize);
            if place == a {
                self.row_places.set(thread as usize, b);
            } else if place == b {
                self.row_places.set(thread as usize, a);
            }
        }
        thread::sync_threads();
    }

    /// Eliminates column `j`, in both triangles. A barrier ends it.
    #[inlined]
    fn eliminate_one(self, tile: Tile, matrix: Matrix<T>, j: u32, seen: &mut Seen<T>) {
        let thread = thread::thread_idx_x();
        let form = self.kind.form();
        let d = form.on_diagonal(matrix.get(j, j));
        let inverse = d.reciprocal();
        if thread == 0 {
            self.kind.kinds.set(j as usize, kind::ONE);
        }
        let mut i = j + 1 + thread;
        while i < tile.rows {
            let value = matrix.get(i, j);
            seen.entry(value, false);
            // What it was stays above the diagonal.
            matrix.set(i, j, self.work.multiplier(value, d, inverse, seen));
            i += THREADS;
        }
        thread::sync_threads();
        tile.after(j + 1).for_each(|i, q| {
            if q <= i {
                let (i, q) = (i + j + 1, q + j + 1);
                let sum = (-matrix.get(i, j)).mul_add(matrix.get(j, q), matrix.get(i, q));
                matrix.set(i, q, sum);
                matrix.set(q, i, form.counterpart_if(i != q, sum));
            }
        });
        thread::sync_threads();
    }

    /// Eliminates columns `j` and `j + 1`, likewise.
    #[inlined]
    fn eliminate_two(self, tile: Tile, matrix: Matrix<T>, j: u32, seen: &mut Seen<T>) {
        let thread = thread::thread_idx_x();
        let form = self.kind.form();
        // What is below the diagonal is cleared at once.
        let block = [
            form.on_diagonal(matrix.get(j, j)),
            form.counterpart(matrix.get(j, j + 1)),
            form.on_diagonal(matrix.get(j + 1, j + 1)),
        ];
        let [e11, e21, e22] = self.work.inverse(block, form, seen);
        let e12 = form.counterpart(e21);
        if thread == 0 {
            self.kind.kinds.set(j as usize, kind::FIRST_OF_TWO);
            self.kind.kinds.set(j as usize + 1, kind::SECOND_OF_TWO);
            matrix.set(j + 1, j, T::ZERO);
        }
        let mut i = j + 2 + thread;
        while i < tile.rows {
            let (first, second) = (matrix.get(i, j), matrix.get(i, j + 1));
            seen.entry(first, false);
            seen.entry(second, false);
            matrix.set(i, j, e21.mul_add(second, e11 * first));
            matrix.set(i, j + 1, e22.mul_add(second, e12 * first));
            i += THREADS;
        }
        thread::sync_threads();
        if T::COMPONENTS > 1 && thread == 0 {
            matrix.set(j, j + 1, block[1]);
        }
        tile.after(j + 2).for_each(|i, q| {
            if q <= i {
                let (i, q) = (i + j + 2, q + j + 2);
                let sum = (-matrix.get(i, j)).mul_add(matrix.get(j, q), matrix.get(i, q));
                let sum = (-matrix.get(i, j + 1)).mul_add(matrix.get(j + 1, q), sum);
                matrix.set(i, q, sum);
                matrix.set(q, i, form.counterpart_if(i != q, sum));
            }
        });
        thread::sync_threads();
    }

    /// Solves for a tile below the diagonal tile of its step: with the unit triangle of L, and with D. A barrier ends it.
    #[inlined]
    fn solve_symmetric<const SEARCH: bool>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        step: u32,
        seen: &mut Seen<T>,
    ) {
        self.await_tile(step, step, 0);
        thread::sync_threads();
        let other = self.other();
        let thread = thread::thread_idx_x();
        let pivots = tile.columns;
        if thread < pivots {
            let pivot = (tile.start + tile.column + thread) as usize;
            self.kind
                .kinds
                .set(thread as usize, self.work.pivot_rows.get(pivot));
            if SEARCH {
                // Where the column is that was here.
                let before = self.kind.column_places.get(thread as usize);
                let place = self.kind.work.found_places.get(pivot) - tile.column;
                self.kind.verdicts.set(before as usize, place);
            }
        }
        if SEARCH {
            thread::sync_threads();
            let places = self.kind.verdicts;
            let (one, other_one) = (thread::lane_id(), thread::lane_id() + warp::WARP_SIZE);
            let stays = |j: u32| j >= pivots || places.get(j as usize) == j;
            if !warp::vote_all(warp::FULL_MASK, stays(one) && stays(other_one)) {
                tile.for_each(|i, j| other.set(i, places.get(j as usize), matrix.get(i, j)));
                thread::sync_threads();
                tile.for_each(|i, j| matrix.set(i, j, other.get(i, j)));
                thread::sync_threads();
            }
        }
        self.read_transposed(tile);
        thread::sync_threads();
        solve_upper(other, pivots, matrix, tile.rows);
        if thread < pivots {
            let of_kind = self.kind_of(thread);
            let pivot = tile.start + tile.column + thread;
            let [d, off] = self.kind.kept(pivot);
            let mut inverse = [d.reciprocal(), d, T::ZERO];
            if of_kind == kind::FIRST_OF_TWO {
                let next = self.kind.kept(pivot + 1)[0];
                inverse = self.work.inverse([d, off, next], self.kind.form(), seen);
            }
            for x in 0..3 {
                other.set(x as u32, thread, inverse[x]);
            }
        }
        thread::sync_threads();
        tile.for_each(|i, p| self.divide::<SEARCH>(tile, matrix, (i, p), seen));
        thread::sync_threads();
    }

    /// Multiplies row `i` of the tile with the inverse of D's block that begins with the tile's pivot `p`.
    #[inlined]
    fn divide<const SEARCH: bool>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        (i, p): (u32, u32),
        seen: &mut Seen<T>,
    ) {
        let other = self.other();
        let of_kind = self.kind_of(p);
        if of_kind == kind::SECOND_OF_TWO {
            return;
        }
        let is_two = of_kind == kind::FIRST_OF_TWO;
        let pivot = tile.start + tile.column + p;
        let first = matrix.get(i, p);
        let mut found = [T::ZERO; 2];
        // A column that is zero in the tile on the diagonal need not be so here.
        let mut is_lost = false;
        seen.entry(first, false);
        if is_two {
            let second = matrix.get(i, p + 1);
            seen.entry(second, false);
            let (e11, e21, e22) = (other.get(0, p), other.get(1, p), other.get(2, p));
            found[0] = e21.mul_add(second, e11 * first);
            found[1] = e22.mul_add(second, self.kind.form().counterpart(e21) * first);
        } else if of_kind == kind::ONE {
            let (inverse, d) = (other.get(0, p), other.get(1, p));
            let counts_as_zero = |value: T| self.work.counts_as_zero(value.magnitude());
            is_lost = counts_as_zero(d) && !counts_as_zero(first);
            found[0] = self.work.multiplier(first, d, inverse, seen);
        }
        if SEARCH {
            let bound = self.work.max_l;
            // What is not a number is not within the bound either.
            if is_lost || !(found[0].magnitude() <= bound && found[1].magnitude() <= bound) {
                self.work.fail(pivot, seen);
                if is_two {
                    self.work.fail(pivot + 1, seen);
                }
                // The tiles above go on without them.
                found = [T::ZERO; 2];
            }
        } else if !(found[0].is_number() && found[1].is_number()) {
            seen.max_l = T::Real::ZERO.reciprocal();
        }
        matrix.set(i, p, found[0]);
        if is_two {
            matrix.set(i, p + 1, found[1]);
        }
    }

    /// Copies the counterparts of the triangle of L on the diagonal behind the tile, transposed, with ones on the diagonal, as
    /// [`solve_upper`] wants it.
    #[inlined]
    fn read_transposed(self, tile: Tile) {
        let other = self.other();
        let thread = thread::thread_idx_x();
        let (row, column) = (thread & (PART - 1), thread / PART);
        let pivots = tile.columns;
        // All that the thread reads is on its way before it waits for the first.
        let mut values = [T::ZERO; PART_VALUES];
        for x in 0..PART_VALUES {
            let i = tile.column + row.min(pivots - 1);
            let j = tile.column + (column + x as u32 * (THREADS / PART)).min(pivots - 1);
            values[x] = self.factor(tile, i, j);
        }
        for x in 0..PART_VALUES {
            let j = column + x as u32 * (THREADS / PART);
            if row < pivots && j <= row {
                let across = self.kind.form().counterpart(values[x]);
                other.set(j, row, if j == row { T::ONE } else { across });
            }
        }
        if thread < pivots {
            other.set(PART, thread, T::ONE);
        }
    }
}
