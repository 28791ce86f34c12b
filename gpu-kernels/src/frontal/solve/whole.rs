//! Larger fronts, each the work of a block: a thread has a row, a warp 32 of them.
//!
//! The rows wait in registers. Tile by tile, the warp that has the rows of 32 pivots solves with their triangle and
//! shows what it finds; the others take that off their rows.
//!
//! Of several right-hand sides a thread has four or two, and where the rows are half of the threads or fewer, as many warps as they
//! take have others: see [`groups_of_block`].

use luge_kernel::prelude::*;

use super::handover::take;
use super::kinds::Kind;
use super::layout::{TILE, WHOLE_ROWS, groups_of_block};
use super::passes::{FAR_AHEAD, Lanes, Line, Spread};
use super::{Chunk, Front, Sides, Sweep, WARPS};

const _: () = assert!(WHOLE_ROWS == WARPS * warp::WARP_SIZE && TILE == warp::WARP_SIZE);

const _: () = assert!(WARPS / groups_of_block(1) >= 2);

/// Warps that have the same right-hand sides, two at least.
#[derive(Clone, Copy)]
struct Group {
    /// Number of warps.
    warps: u32,
    /// The warp, and the thread, counted in the group.
    warp: u32,
    thread: u32,
    /// The group, counted in the block.
    of_block: u32,
    /// Number of the group, of all shares of the front.
    number: u32,
}

impl Group {
    /// That of this thread for `N` right-hand sides of `R`, in a share of a front.
    #[inlined]
    fn of<const N: usize, const R: usize>(front: Front, share: u32) -> Self {
        let warp = thread::thread_idx_x() / warp::WARP_SIZE;
        if N == R {
            return Self {
                warps: WARPS,
                warp,
                thread: thread::thread_idx_x(),
                of_block: 0,
                number: 0,
            };
        }
        let groups = groups_of_block(front.m());
        let warps = WARPS / groups;
        let of_block = warp / warps;
        let warp = warp % warps;
        Self {
            warps,
            warp,
            thread: warp * warp::WARP_SIZE + thread::lane_id(),
            of_block,
            number: share * groups + of_block,
        }
    }
}

impl<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// Where a group's values of row `row` are shown, `N` of them. All rows have room, and two tiles.
    #[inlined]
    fn shown<const N: usize>(self, group: Group, row: u32) -> usize {
        (group.of_block * group.warps * warp::WARP_SIZE + row) as usize * N
    }

    /// Shows the unknowns of tile `t`, this warp's. Tiles take turns in two places, so that one barrier a tile does.
    #[inlined]
    fn show<const N: usize>(self, group: Group, t: u32, value: [T; N]) {
        let at = self.shown::<N>(group, (t & 1) * TILE + thread::lane_id());
        let mut r = 0;
        while r < N {
            self.values.set(at + r, value[r]);
            r += 1;
        }
    }

    /// Takes off `value` a line times what was shown of the `count` pivots of tile `t`; see [`apply`](Self::apply).
    #[inlined]
    fn apply_shown<const N: usize, const BACK: bool>(
        self,
        (front, group): (Front, Group),
        line: Line,
        (t, count): (u32, u32),
        next: [T; FAR_AHEAD],
        value: &mut [T; N],
    ) {
        let first = (t & 1) * TILE;
        let counts = (count, count);
        self.eliminate::<N, BACK, FAR_AHEAD>(front, line, counts, next, value, |_, r, p| {
            // Behind the last pivot nothing was shown, and no row has an entry.
            let p = if p < count { p } else { 0 };
            self.values.get(self.shown::<N>(group, first + p) + r)
        });
    }

    /// One front on the way up, or a share of it. All threads of the block call it.
    #[inlined]
    pub(super) fn whole_up<const N: usize>(self, chunk: Chunk, front: Front, share: u32) {
        let group = Group::of::<N, R>(front, share);
        if self.has_none::<N>(chunk, group.number - group.of_block) {
            return;
        }
        let sides @ Sides { chunk, rhs, .. } = self.sides::<N>(chunk, group.number);
        let Group { warp, thread, .. } = group;
        let k = front.k;
        let m = if sides.are_there { front.m() } else { 0 };
        let row = self.row_as_it_came(front, thread);
        let num_tiles = front.tiles_of_pivots();
        // The rows of the warp that solves are behind or on its triangle.
        let own_count = if warp < num_tiles {
            front.pivots_of_tile(warp)
        } else {
            0
        };
        let own_line = self.line_up(front, warp * TILE, own_count, thread);
        let own_next: [T; FAR_AHEAD] = self.read(front, own_line, 0, own_count);
        let pivot = self.pivot_of(front, thread);
        let to = self.carry(front, thread);
        let contributions = self.contributions(front, row);
        let mut value: [T; N] = self.entered_at((chunk, rhs), front, row);
        self.gather(chunk, rhs, contributions, thread < m, &mut value);
        let inverse = if thread < k && self.up().divides() {
            pivot.reciprocal()
        } else {
            T::ONE
        };
        let mut t = 0;
        while t < num_tiles {
            let count = front.pivots_of_tile(t);
            let line = self.line_up(front, t * TILE, count, thread);
            let is_own = warp == t;
            let is_behind = warp > t && warp * TILE < m;
            let mut next = [T::ZERO; FAR_AHEAD];
            if is_own {
                self.pass::<N, false, FAR_AHEAD>(
                    front,
                    own_line,
                    (0, count, count),
                    inverse,
                    own_next,
                    &mut value,
                );
                self.show(group, t, value);
            } else if is_behind {
                next = self.read(front, line, 0, count);
            }
            thread::sync_threads();
            if is_own {
                if thread < k && sides.are_there {
                    self.leave_pivot((chunk, rhs), front, thread, value);
                }
            } else if is_behind {
                self.apply_shown::<N, false>((front, group), line, (t, count), next, &mut value);
            }
            t += 1;
        }
        if thread >= k && thread < m {
            self.send((chunk, rhs), to, value);
        }
        // The next task shows something else.
        thread::sync_threads();
    }

    /// The products of a spread panel with the unknowns below that are shown, less than zero, before lanes that share a row are
    /// added up. `entries` are the first of the panel.
    #[inlined]
    fn products_shown<const N: usize>(
        self,
        (front, group): (Front, Group),
        spread: Spread,
        entries: [T; BELOW],
    ) -> [T; N] {
        let mut entries = entries;
        let mut sums = [T::ZERO; N];
        let mut p = 0;
        while spread.reaches(p, front.c) {
            let now = entries;
            let after = p + BELOW as u32;
            if spread.reaches(after, front.c) {
                entries = self.read_below(front, spread, after);
            }
            let mut u = 0;
            while u < BELOW {
                if spread.has(p + u as u32) {
                    let at = self.shown::<N>(group, spread.column(p + u as u32));
                    let mut r = 0;
                    while r < N {
                        sums[r] = (-now[u]).mul_add(self.values.get(at + r), sums[r]);
                        r += 1;
                    }
                }
                u += 1;
            }
            p = after;
        }
        sums
    }

    /// One front on the way down, or a share of it. All threads of the block call it.
    #[inlined]
    pub(super) fn whole_down<const N: usize>(self, chunk: Chunk, front: Front, share: u32) {
        let group = Group::of::<N, R>(front, share);
        if self.has_none::<N>(chunk, group.number - group.of_block) {
            return;
        }
        let sides @ Sides { chunk, rhs, .. } = self.sides::<N>(chunk, group.number);
        let Group { warp, thread, .. } = group;
        let lane = thread::lane_id();
        let (k, c) = (front.k, front.c);
        let is_pivot = thread < k;
        let num_tiles = front.tiles_of_pivots();
        let own_count = if warp < num_tiles {
            front.pivots_of_tile(warp)
        } else {
            1
        };
        let own_line = self.line_down(front, warp * TILE, own_count, thread);
        let own_next: [T; FAR_AHEAD] = self.read(front, own_line, 0, own_count);
        let pivot = self.pivot_of(front, thread);
        let e = self.place_down(front, if is_pivot { thread } else { 0 });
        // The products with the unknowns below: warps share the rows.
        let rows_of_warp = k.div_ceil(group.warps);
        let first_row = warp * rows_of_warp;
        let rows = rows_of_warp.min(k.saturating_sub(first_row));
        let columns = if rows > 0 { c } else { 0 };
        let spread = Spread::over(Lanes::all(), first_row, rows.max(1), columns);
        let entries = self.read_below(front, spread, 0);
        let is_below = thread < c && sides.are_there;
        let mut unknown = 0;
        if c > 0 {
            let q = if is_below { thread } else { 0 };
            unknown = self.tree.row_idx.get((front.rows + q) as usize) as usize;
        }
        let is_own = is_pivot && sides.are_there;
        // It is there before the unknowns below are.
        let mut value: [T; N] = self.take_eliminated((chunk, rhs), front, thread, is_own);
        let found: [T; N] = take(
            self.vectors.unknowns,
            chunk.unknowns + unknown * R + rhs as usize,
            is_below,
        );
        if thread < c {
            let at = self.shown::<N>(group, thread);
            let mut r = 0;
            while r < N {
                self.values.set(at + r, found[r]);
                r += 1;
            }
        }
        thread::sync_threads();
        let sums: [T; N] = self.products_shown((front, group), spread, entries);
        if c > 0 {
            let at = self.shown::<N>(group, first_row + lane);
            let mut r = 0;
            while r < N {
                let sum = spread.sum(sums[r]);
                if lane < rows {
                    self.products.set(at + r, sum);
                }
                r += 1;
            }
        }
        // Products are there, and the unknowns below are not needed any more.
        thread::sync_threads();
        if is_pivot && c > 0 {
            let at = self.shown::<N>(group, thread);
            let mut r = 0;
            while r < N {
                value[r] += self.products.get(at + r);
                r += 1;
            }
        }
        let inverse = if is_pivot && self.down().divides() {
            pivot.reciprocal()
        } else {
            T::ONE
        };
        let mut t = num_tiles;
        while t > 0 {
            t -= 1;
            let count = front.pivots_of_tile(t);
            let line = self.line_down(front, t * TILE, count, thread);
            let is_own_tile = warp == t;
            let is_before = warp < t;
            let mut next = [T::ZERO; FAR_AHEAD];
            if is_own_tile {
                self.pass::<N, true, FAR_AHEAD>(
                    front,
                    own_line,
                    (0, count, count),
                    inverse,
                    own_next,
                    &mut value,
                );
                self.show(group, t, value);
            } else if is_before {
                next = self.read(front, line, 0, count);
            }
            thread::sync_threads();
            if is_own_tile {
                if is_own {
                    self.finish(chunk, rhs, e, value);
                }
            } else if is_before {
                self.apply_shown::<N, true>((front, group), line, (t, count), next, &mut value);
            }
        }
        // The next task shows something else.
        thread::sync_threads();
    }
}
