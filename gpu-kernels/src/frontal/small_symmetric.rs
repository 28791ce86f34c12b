//! Elimination in the small fronts of symmetric matrices.
//!
//! A warp has both triangles of a front in its shared memory until the pivots are eliminated: what is computed for one is
//! written to the other too. So candidates can be compared by columns, and elements are added as in LU.

use luge_kernel::prelude::*;

use super::plan::{SymmetricWork, kind, report};
use super::small::{Ahead, Grid, Sizes, SmallFronts, of_lane};
use super::symmetric::{Expectation, Form, FrontKind, Group, Verdict, all_serve};
use super::work::Seen;

/// How the pivots of a small front are eliminated.
pub(super) trait EliminateSmall<T: Field>: FrontKind<T> {
    /// Eliminates the columns of the pivots, and updates the rest. All lanes of a warp call it.
    fn eliminate<const SEARCH: bool>(
        fronts: SmallFronts<T, Self>,
        sizes: Sizes,
        ahead: Ahead,
        seen: &mut Seen<T>,
    );
}

/// What small fronts of symmetric matrices need beside the others.
#[derive(Clone, Copy)]
pub(super) struct SmallSymmetric<T: Field, E> {
    pub work: SymmetricWork<T>,
    pub expectation: E,
}

impl<T: Field, E: Expectation<T>> FrontKind<T> for SmallSymmetric<T, E> {
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

impl<T: Field, E: Expectation<T>> EliminateSmall<T> for SmallSymmetric<T, E> {
    #[inlined]
    fn eliminate<const SEARCH: bool>(
        fronts: SmallFronts<T, Self>,
        sizes: Sizes,
        ahead: Ahead,
        seen: &mut Seen<T>,
    ) {
        fronts.eliminate_symmetric::<SEARCH>(sizes, ahead, seen);
    }
}

/// What a search came to, the same in all lanes.
#[derive(Clone, Copy)]
struct Choice {
    verdict: u32,
    column: u32,
    partner: u32,
}

impl<T: Field, E: Expectation<T>> SmallFronts<T, SmallSymmetric<T, E>> {
    #[inlined]
    fn place(self, sizes: Sizes, i: u32, j: u32) -> usize {
        (self.base + sizes.first + j * (sizes.k + sizes.c) + i) as usize
    }

    #[inlined]
    fn entry(self, sizes: Sizes, i: u32, j: u32) -> T {
        self.values.get(self.place(sizes, i, j))
    }

    #[inlined]
    fn eliminate_symmetric<const SEARCH: bool>(
        self,
        sizes: Sizes,
        ahead: Ahead,
        seen: &mut Seen<T>,
    ) {
        let lane = thread::lane_id();
        let Sizes { k, start, .. } = sizes;
        // A front that adds up children for another one has no pivot.
        let last = k.saturating_sub(1);
        // Where the column is whose planned place is the lane's number.
        let mut place = ahead.row_place;
        let mut of_kind = ahead.kind;
        if SEARCH && of_kind == kind::NONE {
            of_kind = kind::ONE;
        }
        // Of the pivot whose place is the lane's number.
        let expected = self.kind.expectation.expected(start + lane.min(last));
        let mut has_searched = false;
        let mut j = 0;
        while j < k {
            let mut is_two = !E::OF_SIGNS && of_lane(of_kind, j) == kind::FIRST_OF_TWO;
            let is_done = if is_two {
                self.eliminate_two::<SEARCH>(sizes, j, seen)
            } else {
                self.eliminate_one::<SEARCH>(sizes, j, expected, seen)
            };
            if SEARCH && !is_done {
                has_searched = true;
                let choice = self.choose(sizes, j);
                if choice.verdict == Verdict::UNFIT {
                    self.give_up(sizes, j);
                    if lane >= j {
                        of_kind = kind::NONE;
                    }
                    break;
                }
                is_two = choice.verdict == Verdict::TWO;
                let (first, second) = if is_two {
                    let (p, t) = (choice.column, choice.partner);
                    (p.min(t), p.max(t))
                } else {
                    (choice.column, choice.column)
                };
                // Of pivots that have to leave their places, and of their partners, nothing is known any more.
                for left in [j, j + u32::from(is_two), first, second] {
                    let was = of_lane(of_kind, left);
                    if lane == left
                        || lane == left + 1 && was == kind::FIRST_OF_TWO
                        || lane + 1 == left && was == kind::SECOND_OF_TWO
                    {
                        of_kind = kind::ONE;
                    }
                }
                self.exchange(sizes, j, first, &mut place);
                if is_two {
                    // The first exchange has left it where it was, for it stands behind the other one.
                    self.exchange(sizes, j + 1, second, &mut place);
                    if lane == j {
                        of_kind = kind::FIRST_OF_TWO;
                    } else if lane == j + 1 {
                        of_kind = kind::SECOND_OF_TWO;
                    }
                    self.eliminate_two::<false>(sizes, j, seen);
                } else {
                    self.eliminate_one::<false>(sizes, j, expected, seen);
                }
            }
            j += if is_two { 2 } else { 1 };
        }
        seen.num_searched += u32::from(has_searched && lane == 0);
        self.clear_above(sizes, of_kind);
        let own = lane.min(last);
        let next = (lane + 1).min(last);
        let block = [
            self.entry(sizes, own, own),
            self.entry(sizes, own, next),
            self.entry(sizes, next, next),
        ];
        warp::sync_warp(warp::FULL_MASK);
        if lane < k {
            let pivot = start + lane;
            let of_pivot = (pivot, of_kind);
            let d = self.kind.work.keep(&self.work, of_pivot, block, seen);
            self.values.set(self.place(sizes, lane, lane), d);
            if SEARCH {
                self.work.pivot_rows.set(pivot as usize, of_kind);
                let found_places = self.kind.work.found_places;
                found_places.set(pivot as usize, place);
            }
        }
        warp::sync_warp(warp::FULL_MASK);
    }

    /// The pivot to be taken in place `j`: that of the first column that has an acceptable one.
    #[inlined]
    fn choose(self, sizes: Sizes, j: u32) -> Choice {
        let Sizes { k, c, start, .. } = sizes;
        let grid = Grid::covering(k + c);
        let group = Group {
            lanes: warp::WARP_SIZE / grid.columns,
        };
        let mut choice = Choice {
            verdict: Verdict::UNFIT,
            column: j,
            partner: j,
        };
        // As many columns at once as the lanes can look at.
        let form = self.kind.form();
        let mut not_finite = k;
        let mut first = j;
        while first < k {
            let column = first + grid.column;
            let entry = |i: u32, p: u32| self.entry(sizes, i, p);
            let mut said =
                self.work
                    .verdict(group, (entry, form), column.min(k - 1), (j, k, k + c));
            if column >= k {
                said = Verdict::UNFIT;
            } else if said == Verdict::NOT_FINITE {
                not_finite = not_finite.min(column);
                said = Verdict::UNFIT;
            }
            let fit = warp::ballot(warp::FULL_MASK, said != Verdict::UNFIT);
            if fit != 0 {
                let lane = fit.trailing_zeros();
                let (verdict, partner) = Verdict::split(of_lane(said, lane));
                choice = Choice {
                    verdict,
                    column: first + lane / group.lanes,
                    partner,
                };
                break;
            }
            first += grid.columns;
        }
        // While another one is fit, those may yet go to other places.
        if choice.verdict == Verdict::UNFIT && not_finite < k {
            self.work
                .note_first(report::FIRST_NOT_FINITE, start + not_finite);
        }
        // A vote orders no memory: what was read here may be exchanged now.
        warp::sync_warp(warp::FULL_MASK);
        choice
    }

    /// Exchanges rows and columns `a` and `b`; `place` is that of the lane's column.
    #[inlined]
    fn exchange(self, sizes: Sizes, a: u32, b: u32, place: &mut u32) {
        if a == b {
            return;
        }
        let lane = thread::lane_id();
        let m = sizes.k + sizes.c;
        let swap = |one: usize, other: usize| {
            let value = self.values.get(one);
            self.values.set(one, self.values.get(other));
            self.values.set(other, value);
        };
        if lane < m {
            swap(self.place(sizes, a, lane), self.place(sizes, b, lane));
        }
        warp::sync_warp(warp::FULL_MASK);
        if lane < m {
            swap(self.place(sizes, lane, a), self.place(sizes, lane, b));
        }
        if *place == a {
            *place = b;
        } else if *place == b {
            *place = a;
        }
        warp::sync_warp(warp::FULL_MASK);
    }

    /// Leaves columns `j..k` out: L is zero and D one.
    #[inlined]
    fn give_up(self, sizes: Sizes, j: u32) {
        let grid = Grid::covering(sizes.k + sizes.c);
        let mut q = j + grid.column;
        while q < sizes.k {
            if grid.row >= j && grid.row < sizes.k + sizes.c {
                let value = if grid.row == q { T::ONE } else { T::ZERO };
                self.values.set(self.place(sizes, grid.row, q), value);
            }
            q += grid.columns;
        }
        warp::sync_warp(warp::FULL_MASK);
    }

    /// Eliminates column `j`. If this is a trial, it is left undone where an entry of L gets too large, and false the
    /// answer. Each lane has what is expected of the pivot whose place is its number.
    #[inlined]
    fn eliminate_one<const TRIAL: bool>(
        self,
        sizes: Sizes,
        j: u32,
        expected: T,
        seen: &mut Seen<T>,
    ) -> bool {
        let m = sizes.k + sizes.c;
        let grid = Grid::covering(m);
        let form = self.kind.form();
        let mut d = form.on_diagonal(self.entry(sizes, j, j));
        if E::OF_SIGNS {
            let (usable, is_replaced) = self.work.with_sign(d, of_lane(expected, j));
            d = usable;
            if is_replaced && thread::lane_id() == 0 {
                let pivot = sizes.start + j;
                self.kind.expectation.note_replaced(&self.work, pivot);
            }
        }
        let inverse = d.reciprocal();
        let is_below = grid.row > j && grid.row < m;
        let mut multiplier = T::ZERO;
        let mut tried = seen.before_trial();
        if is_below {
            let value = self.entry(sizes, grid.row, j);
            multiplier = self.work.multiplier(value, d, inverse, &mut tried);
            tried.entry(value, false);
        }
        if TRIAL && !all_serve(multiplier.magnitude() <= self.kind.work.known_l, &tried) {
            return false;
        }
        seen.after_trial(&tried);
        if is_below {
            let mut q = j + 1 + grid.column;
            while q <= grid.row {
                let sum = self.entry(sizes, grid.row, q);
                let across = form.counterpart(self.entry(sizes, q, j));
                let sum = (-multiplier).mul_add(across, sum);
                self.set_both(sizes, grid.row, q, sum);
                q += grid.columns;
            }
        }
        warp::sync_warp(warp::FULL_MASK);
        // All have read the column, and nobody will again.
        if grid.column == 0 && is_below {
            self.values.set(self.place(sizes, grid.row, j), multiplier);
        }
        if E::OF_SIGNS && grid.column == 0 && grid.row == j {
            self.values.set(self.place(sizes, j, j), d);
        }
        true
    }

    /// Likewise columns `j` and `j + 1`.
    #[inlined]
    fn eliminate_two<const TRIAL: bool>(self, sizes: Sizes, j: u32, seen: &mut Seen<T>) -> bool {
        let m = sizes.k + sizes.c;
        let grid = Grid::covering(m);
        let form = self.kind.form();
        let block = [
            form.on_diagonal(self.entry(sizes, j, j)),
            self.entry(sizes, j + 1, j),
            form.on_diagonal(self.entry(sizes, j + 1, j + 1)),
        ];
        let mut tried = seen.before_trial();
        let [e11, e21, e22] = self.work.inverse(block, form, &mut tried);
        let e12 = form.counterpart(e21);
        let is_below = grid.row > j + 1 && grid.row < m;
        let mut multipliers = [T::ZERO; 2];
        if is_below {
            let first = self.entry(sizes, grid.row, j);
            let second = self.entry(sizes, grid.row, j + 1);
            tried.entry(first, false);
            tried.entry(second, false);
            multipliers = [
                e21.mul_add(second, e11 * first),
                e22.mul_add(second, e12 * first),
            ];
        }
        let [first, second] = multipliers;
        let known_l = self.kind.work.known_l;
        let is_bounded = first.magnitude() <= known_l && second.magnitude() <= known_l;
        if TRIAL && !all_serve(is_bounded, &tried) {
            return false;
        }
        seen.after_trial(&tried);
        if is_below {
            let mut q = j + 2 + grid.column;
            while q <= grid.row {
                let sum = self.entry(sizes, grid.row, q);
                let first = form.counterpart(self.entry(sizes, q, j));
                let second = form.counterpart(self.entry(sizes, q, j + 1));
                let sum = (-multipliers[0]).mul_add(first, sum);
                let sum = (-multipliers[1]).mul_add(second, sum);
                self.set_both(sizes, grid.row, q, sum);
                q += grid.columns;
            }
        }
        warp::sync_warp(warp::FULL_MASK);
        if grid.column == 0 && is_below {
            self.values
                .set(self.place(sizes, grid.row, j), multipliers[0]);
            self.values
                .set(self.place(sizes, grid.row, j + 1), multipliers[1]);
        } else if grid.column == 0 && grid.row == j + 1 {
            self.values.set(self.place(sizes, j + 1, j), T::ZERO);
            if T::COMPONENTS > 1 {
                self.values.set(self.place(sizes, j, j + 1), block[1]);
            }
        }
        true
    }

    /// Writes an entry of the lower triangle, and its counterpart. One on the diagonal keeps its imaginary part.
    #[inlined]
    fn set_both(self, sizes: Sizes, i: u32, j: u32, value: T) {
        let across = self.kind.form().counterpart_if(i != j, value);
        self.values.set(self.place(sizes, i, j), value);
        self.values.set(self.place(sizes, j, i), across);
    }

    /// Leaves of what is above the diagonal of the pivots' columns D's entries alone.
    #[inlined]
    fn clear_above(self, sizes: Sizes, of_kind: u32) {
        let firsts = warp::ballot(warp::FULL_MASK, of_kind == kind::FIRST_OF_TWO);
        let grid = Grid::covering(sizes.k);
        let mut q = grid.column;
        while q < sizes.k {
            let is_of_d = q == grid.row + 1 && firsts >> grid.row & 1 != 0;
            if grid.row < q && !is_of_d {
                self.values.set(self.place(sizes, grid.row, q), T::ZERO);
            }
            q += grid.columns;
        }
        warp::sync_warp(warp::FULL_MASK);
    }
}
