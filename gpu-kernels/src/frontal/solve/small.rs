//! Small fronts, each the work of a warp or of a part of one: a lane has a row.
//!
//! Where the rows are half of the lanes or fewer, there are as many groups of lanes as there is room for, up to four: see
//! [`groups_of_warp`]. For one right-hand side each of them has a front of its own, which waits for what it needs with the others
//! of its warp. Of several right-hand sides a lane has four or two, and all groups have the same front.

use luge_kernel::prelude::*;

use super::handover::{give, take_several};
use super::kinds::Kind;
use super::passes::{Lanes, Spread};
use super::{Chunk, Front, Sides, Sweep};

/// Lanes side by side that have the same front and the same right-hand sides.
#[derive(Clone, Copy)]
struct Group {
    lanes: Lanes,
    /// The group, counted among those of the warp that have the same front.
    of_warp: u32,
    /// Number of the group, of all shares of the front.
    number: u32,
}

impl Group {
    /// That of this lane for `N` right-hand sides of `R`, in a share of a front.
    #[inlined]
    fn of<const N: usize, const R: usize>(front: Front, share: u32) -> Self {
        let lanes = Lanes::of(front);
        if N == R {
            return Self {
                lanes,
                of_warp: 0,
                number: 0,
            };
        }
        let of_warp = lanes.first / lanes.count;
        Self {
            lanes,
            of_warp,
            number: share * (warp::WARP_SIZE / lanes.count) + of_warp,
        }
    }
}

/// The largest of what the lanes of a warp have, if their fronts may be several: those of one right-hand side. All lanes of a warp
/// call it.
#[inlined]
fn most<const R: usize>(own: u32) -> u32 {
    if R == 1 {
        warp::reduce_max(warp::FULL_MASK, own)
    } else {
        own
    }
}

impl<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// One front on the way up, or a share of it. What does not depend on children is read before they are waited for.
    #[inlined]
    pub(super) fn small_up<const N: usize>(self, chunk: Chunk, front: Front, share: u32) {
        let group = Group::of::<N, R>(front, share);
        if self.has_none::<N>(chunk, group.number - group.of_warp) {
            return;
        }
        let sides @ Sides { chunk, rhs, .. } = self.sides::<N>(chunk, group.number);
        let lane = group.lanes.own;
        let k = front.k;
        let m = if sides.are_there { front.m() } else { 0 };
        let turns = most::<R>(k);
        let row = self.row_as_it_came(front, lane);
        let line = self.line_up(front, 0, k, lane);
        let next: [T; AHEAD] = self.read(front, line, 0, turns);
        let pivot = self.pivot_of(front, lane);
        let to = self.carry(front, lane);
        let own = self.contributions(front, row);
        let mut value: [T; N] = self.entered_at((chunk, rhs), front, row);
        self.gather(chunk, rhs, own, lane < m, &mut value);
        let inverse = if lane < k && self.up().divides() {
            pivot.reciprocal()
        } else {
            T::ONE
        };
        let pivots = (group.lanes.first, k, turns);
        self.pass::<N, false, AHEAD>(front, line, pivots, inverse, next, &mut value);
        if lane < m {
            if lane < k {
                self.leave_pivot((chunk, rhs), front, lane, value);
            } else {
                self.send((chunk, rhs), to, value);
            }
        }
        let found = value;
        // More rows than lanes: there is one group.
        let mut first = warp::WARP_SIZE;
        while first < front.m() {
            let row = first + lane;
            let line = self.line_up(front, 0, k, row);
            let next: [T; AHEAD] = self.read(front, line, 0, k);
            let to = self.carry(front, row);
            let own = self.contributions(front, row);
            let mut value = [T::ZERO; N];
            self.gather(chunk, rhs, own, row < m, &mut value);
            self.apply::<N, false, AHEAD>(front, line, k, found, next, &mut value);
            if row < m {
                self.send((chunk, rhs), to, value);
            }
            first += warp::WARP_SIZE;
        }
    }

    /// Hands over what the way up leaves for `pivot` of a front.
    #[inlined]
    pub(super) fn leave_pivot<const N: usize>(
        self,
        (chunk, rhs): (Chunk, u32),
        front: Front,
        pivot: u32,
        value: [T; N],
    ) {
        let at = chunk.unknowns + (front.start + pivot) as usize * R + rhs as usize;
        give(self.vectors.eliminated, at, value);
    }

    /// Hands over a contribution to the place `to`.
    #[inlined]
    pub(super) fn send<const N: usize>(self, (chunk, rhs): (Chunk, u32), to: u32, value: [T; N]) {
        let at = chunk.carried + to as usize * R + rhs as usize;
        give(self.vectors.carried, at, value);
    }

    /// What was entered for row `row` of a front and `N` right-hand sides from `rhs` on, as it came: zero below the pivots.
    #[inlined]
    pub(super) fn entered_at<const N: usize>(
        self,
        (chunk, rhs): (Chunk, u32),
        front: Front,
        row: u32,
    ) -> [T; N] {
        let is_pivot = row < front.k;
        let row = if is_pivot { row } else { 0 };
        let at = chunk.unknowns + (front.start + row) as usize * R + rhs as usize;
        let mut value = [T::ZERO; N];
        let mut r = 0;
        while r < N {
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

    /// One front on the way down, or a share of it.
    #[inlined]
    pub(super) fn small_down<const N: usize>(self, chunk: Chunk, front: Front, share: u32) {
        let group = Group::of::<N, R>(front, share);
        if self.has_none::<N>(chunk, group.number - group.of_warp) {
            return;
        }
        let sides @ Sides { chunk, rhs, .. } = self.sides::<N>(chunk, group.number);
        let lane = group.lanes.own;
        let (k, c) = (front.k, front.c);
        let turns = most::<R>(k);
        let is_pivot = lane < k;
        let line = self.line_down(front, 0, k, lane);
        let next: [T; AHEAD] = self.read(front, line, 0, turns);
        let pivot = self.pivot_of(front, lane);
        let e = self.place_down(front, if is_pivot { lane } else { 0 });
        let spread = Spread::over(group.lanes, 0, k, c);
        let spread = if R == 1 {
            spread.beside_others()
        } else {
            spread
        };
        let turns_below = most::<R>(spread.turns(c));
        let is_own = is_pivot && sides.are_there;
        // It is there before the unknowns above are, which come from it as all else that leads to the root.
        let mut value: [T; N] = self.take_eliminated((chunk, rhs), front, lane, is_own);
        if turns_below > 0 {
            let sums: [T; N] = self.products_below(sides, front, (spread, turns_below));
            let mut r = 0;
            while r < N {
                value[r] -= sums[r];
                r += 1;
            }
        }
        let inverse = if is_pivot && self.down().divides() {
            pivot.reciprocal()
        } else {
            T::ONE
        };
        let pivots = (group.lanes.first, k, turns);
        self.pass::<N, true, AHEAD>(front, line, pivots, inverse, next, &mut value);
        if is_own {
            self.finish(chunk, rhs, e, value);
        }
    }

    /// The products of the rows of a spread panel with the unknowns of the rows below, which are waited for, each in the
    /// lane of its row. No lane of the warp has more than `turns` entries, which is the same for all; all lanes of a warp call it.
    #[inlined]
    fn products_below<const N: usize>(
        self,
        sides: Sides,
        front: Front,
        (spread, turns): (Spread, u32),
    ) -> [T; N] {
        let mut sums = [T::ZERO; N];
        let mut entries = self.read_below(front, spread, 0);
        let mut unknowns = self.unknowns_below(front, spread, 0);
        let mut p = 0;
        while p < turns {
            let (now, of_now) = (entries, unknowns);
            let after = p + BELOW as u32;
            if after < turns {
                entries = self.read_below(front, spread, after);
                unknowns = self.unknowns_below(front, spread, after);
            }
            self.add_products(sides, spread, p, now, of_now, &mut sums);
            p = after;
        }
        let mut r = 0;
        while r < N {
            sums[r] = spread.sum(sums[r]);
            r += 1;
        }
        sums
    }

    /// Adds to the sums these entries of a spread panel, from number `p` on, times their unknowns, which are waited for.
    #[inlined]
    fn add_products<const N: usize>(
        self,
        Sides {
            chunk,
            rhs,
            are_there,
        }: Sides,
        spread: Spread,
        p: u32,
        entries: [T; BELOW],
        unknowns: [u32; BELOW],
        sums: &mut [T; N],
    ) {
        let mut found = [[T::ZERO; N]; BELOW];
        let first = chunk.unknowns + rhs as usize;
        take_several(
            self.vectors.unknowns,
            |u| first + unknowns[u] as usize * R,
            |u| are_there && spread.has(p + u as u32),
            &mut found,
        );
        let mut u = 0;
        while u < BELOW {
            if spread.has(p + u as u32) {
                let mut r = 0;
                while r < N {
                    sums[r] = entries[u].mul_add(found[u][r], sums[r]);
                    r += 1;
                }
            }
            u += 1;
        }
    }
}
