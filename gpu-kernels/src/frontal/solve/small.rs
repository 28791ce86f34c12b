//! Small fronts, each the work of a warp: a lane has a row.

use luge_kernel::prelude::*;

use super::handover::{give, take_several};
use super::kinds::Kind;
use super::passes::Spread;
use super::{Chunk, Front, Sweep};

impl<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// One front on the way up. What does not depend on children is read before they are waited for.
    #[inlined]
    pub(super) fn small_up(self, chunk: Chunk, front: Front) {
        let lane = thread::lane_id();
        let (k, m) = (front.k, front.m());
        let is_pivot = lane < k;
        let row = self.row_as_it_came(front, lane);
        let line = self.line_up(front, 0, k, lane);
        let next: [T; AHEAD] = self.read(front, line, 0, k);
        let pivot = self.pivot_of(front, lane);
        let to = self.carry(front, lane);
        let own = self.contributions(front, row);
        let mut value = self.entered_at(chunk, front, row);
        self.gather(chunk, 0, own, lane < m, &mut value);
        let inverse = if is_pivot && self.up().divides() {
            pivot.reciprocal()
        } else {
            T::ONE
        };
        self.pass::<R, false, AHEAD>(front, line, k, inverse, next, &mut value);
        if is_pivot {
            let at = chunk.unknowns + (front.start + lane) as usize * R;
            give(self.vectors.eliminated, at, value);
        } else if lane < m {
            give(self.vectors.carried, chunk.carried + to as usize * R, value);
        }
        let found = value;
        let mut first = warp::WARP_SIZE;
        while first < m {
            let row = first + lane;
            let line = self.line_up(front, 0, k, row);
            let next: [T; AHEAD] = self.read(front, line, 0, k);
            let to = self.carry(front, row);
            let own = self.contributions(front, row);
            let mut value = [T::ZERO; R];
            self.gather(chunk, 0, own, row < m, &mut value);
            self.apply::<R, false, AHEAD>(front, line, k, found, next, &mut value);
            if row < m {
                give(self.vectors.carried, chunk.carried + to as usize * R, value);
            }
            first += warp::WARP_SIZE;
        }
    }

    /// What was entered for row `row` of a front, as it came: zero below the pivots.
    #[inlined]
    pub(super) fn entered_at(self, chunk: Chunk, front: Front, row: u32) -> [T; R] {
        let is_pivot = row < front.k;
        let row = if is_pivot { row } else { 0 };
        let at = chunk.unknowns + (front.start + row) as usize * R;
        let mut value = [T::ZERO; R];
        let mut r = 0;
        while r < R {
            let entered = self.vectors.entered.get(at + r);
            value[r] = if is_pivot { entered } else { T::ZERO };
            r += 1;
        }
        value
    }

    /// Where the contribution to row `row` of a front goes, if that is below the pivots; else anything.
    #[inlined]
    pub(super) fn carry(self, front: Front, row: u32) -> u32 {
        let is_below = row >= front.k && row < front.m();
        let q = if is_below { row - front.k } else { 0 };
        if front.c > 0 {
            self.tree.carry_to.get((front.rows + q) as usize)
        } else {
            0
        }
    }

    /// One front on the way down.
    #[inlined]
    pub(super) fn small_down(self, chunk: Chunk, front: Front) {
        let lane = thread::lane_id();
        let (k, c) = (front.k, front.c);
        let is_pivot = lane < k;
        let line = self.line_down(front, 0, k, lane);
        let next: [T; AHEAD] = self.read(front, line, 0, k);
        let pivot = self.pivot_of(front, lane);
        let e = self.place_down(front, if is_pivot { lane } else { 0 });
        let spread = Spread::over(0, k, c);
        // It is there before the unknowns above are, which come from it as all else that leads to the root.
        let mut value: [T; R] = self.take_eliminated((chunk, 0), front, lane, is_pivot);
        let mut sums = [T::ZERO; R];
        if c > 0 {
            sums = self.products_below(chunk, front, spread);
        }
        let mut r = 0;
        while r < R {
            value[r] -= sums[r];
            r += 1;
        }
        let inverse = if is_pivot && self.down().divides() {
            pivot.reciprocal()
        } else {
            T::ONE
        };
        self.pass::<R, true, AHEAD>(front, line, k, inverse, next, &mut value);
        if is_pivot {
            self.finish(chunk, 0, e, value);
        }
    }

    /// The products of the rows of a spread panel with the unknowns of the rows below, which are waited for, each in the
    /// lane of its row. The front has rows below; all lanes of a warp call it.
    #[inlined]
    pub(super) fn products_below(self, chunk: Chunk, front: Front, spread: Spread) -> [T; R] {
        let mut sums = [T::ZERO; R];
        let mut entries = self.read_below(front, spread, 0);
        let mut unknowns = self.unknowns_below(front, spread, 0);
        let mut p = 0;
        while spread.reaches(p, front.c) {
            let (now, of_now) = (entries, unknowns);
            let after = p + BELOW as u32;
            if spread.reaches(after, front.c) {
                entries = self.read_below(front, spread, after);
                unknowns = self.unknowns_below(front, spread, after);
            }
            self.add_products(chunk, spread, p, now, of_now, &mut sums);
            p = after;
        }
        let mut r = 0;
        while r < R {
            sums[r] = spread.sum(sums[r]);
            r += 1;
        }
        sums
    }

    /// Adds to the sums these entries of a spread panel, from number `p` on, times their unknowns, which are waited for.
    #[inlined]
    fn add_products(
        self,
        chunk: Chunk,
        spread: Spread,
        p: u32,
        entries: [T; BELOW],
        unknowns: [u32; BELOW],
        sums: &mut [T; R],
    ) {
        let mut found = [[T::ZERO; R]; BELOW];
        take_several(
            self.vectors.unknowns,
            |u| chunk.unknowns + unknowns[u] as usize * R,
            |u| spread.has(p + u as u32),
            &mut found,
        );
        let mut u = 0;
        while u < BELOW {
            if spread.has(p + u as u32) {
                let mut r = 0;
                while r < R {
                    sums[r] = entries[u].mul_add(found[u][r], sums[r]);
                    r += 1;
                }
            }
            u += 1;
        }
    }
}
