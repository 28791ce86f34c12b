//! Larger fronts, each the work of a block: a thread has a row, a warp 32 of them.
//!
//! The rows wait in registers. Tile by tile, the warp that has the rows of 32 pivots solves with their triangle and
//! shows what it finds; the others take that off their rows.

use luge_kernel::prelude::*;

use super::handover::{give, take};
use super::kinds::Kind;
use super::layout::{TILE, WHOLE_ROWS};
use super::passes::{FAR_AHEAD, Line, Spread};
use super::{Chunk, Front, Sweep, WARPS};

const _: () = assert!(WHOLE_ROWS == WARPS * warp::WARP_SIZE && TILE == warp::WARP_SIZE);

impl<T: Field, K: Kind<T>, const R: usize, const AHEAD: usize, const BELOW: usize>
    Sweep<T, K, R, AHEAD, BELOW>
{
    /// Shows the unknowns of tile `t`, this warp's. Tiles take turns in two places, so that one barrier a tile does.
    #[inlined]
    fn show(self, t: u32, value: [T; R]) {
        let at = ((t & 1) * TILE + thread::lane_id()) as usize * R;
        let mut r = 0;
        while r < R {
            self.values.set(at + r, value[r]);
            r += 1;
        }
    }

    /// Takes off `value` a line times what was shown of the `count` pivots of tile `t`; see [`apply`](Self::apply).
    #[inlined]
    fn apply_shown<const BACK: bool>(
        self,
        front: Front,
        line: Line,
        (t, count): (u32, u32),
        next: [T; FAR_AHEAD],
        value: &mut [T; R],
    ) {
        let first = (t & 1) * TILE;
        self.eliminate::<R, BACK, FAR_AHEAD>(front, line, count, next, value, |_, r, p| {
            // Behind the last pivot nothing was shown, and no row has an entry.
            let p = if p < count { p } else { 0 };
            self.values.get((first + p) as usize * R + r)
        });
    }

    /// One front on the way up. All threads of the block call it.
    #[inlined]
    pub(super) fn whole_up(self, chunk: Chunk, front: Front) {
        let thread = thread::thread_idx_x();
        let warp = thread / warp::WARP_SIZE;
        let (k, m) = (front.k, front.m());
        let is_pivot = thread < k;
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
        let mut value = self.entered_at(chunk, front, row);
        self.gather(chunk, 0, contributions, thread < m, &mut value);
        let inverse = if is_pivot && self.up().divides() {
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
                self.pass::<R, false, FAR_AHEAD>(
                    front, own_line, count, inverse, own_next, &mut value,
                );
                self.show(t, value);
            } else if is_behind {
                next = self.read(front, line, 0, count);
            }
            thread::sync_threads();
            if is_own {
                if is_pivot {
                    let at = chunk.unknowns + (front.start + thread) as usize * R;
                    give(self.vectors.eliminated, at, value);
                }
            } else if is_behind {
                self.apply_shown::<false>(front, line, (t, count), next, &mut value);
            }
            t += 1;
        }
        if !is_pivot && thread < m {
            give(self.vectors.carried, chunk.carried + to as usize * R, value);
        }
        // The next task shows something else.
        thread::sync_threads();
    }

    /// One front on the way down. All threads of the block call it.
    #[inlined]
    pub(super) fn whole_down(self, chunk: Chunk, front: Front) {
        let thread = thread::thread_idx_x();
        let lane = thread::lane_id();
        let warp = thread / warp::WARP_SIZE;
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
        let rows_of_warp = k.div_ceil(WARPS);
        let first_row = warp * rows_of_warp;
        let rows = rows_of_warp.min(k.saturating_sub(first_row));
        let spread = Spread::over(first_row, rows.max(1), if rows > 0 { c } else { 0 });
        let mut entries = self.read_below(front, spread, 0);
        let is_below = thread < c;
        let mut unknown = 0;
        if c > 0 {
            let q = if is_below { thread } else { 0 };
            unknown = self.tree.row_idx.get((front.rows + q) as usize) as usize;
        }
        // It is there before the unknowns below are.
        let mut value: [T; R] = self.take_eliminated((chunk, 0), front, thread, is_pivot);
        let found: [T; R] = take(
            self.vectors.unknowns,
            chunk.unknowns + unknown * R,
            is_below,
        );
        if is_below {
            let mut r = 0;
            while r < R {
                self.values.set(thread as usize * R + r, found[r]);
                r += 1;
            }
        }
        thread::sync_threads();
        let mut sums = [T::ZERO; R];
        let mut p = 0;
        while spread.reaches(p, c) {
            let now = entries;
            let after = p + BELOW as u32;
            if spread.reaches(after, c) {
                entries = self.read_below(front, spread, after);
            }
            let mut u = 0;
            while u < BELOW {
                if spread.has(p + u as u32) {
                    let at = spread.column(p + u as u32) as usize * R;
                    let mut r = 0;
                    while r < R {
                        sums[r] = (-now[u]).mul_add(self.values.get(at + r), sums[r]);
                        r += 1;
                    }
                }
                u += 1;
            }
            p = after;
        }
        if c > 0 {
            let mut r = 0;
            while r < R {
                let sum = spread.sum(sums[r]);
                if lane < rows {
                    let at = (first_row + lane) as usize * R + r;
                    self.products.set(at, sum);
                }
                r += 1;
            }
        }
        // Products are there, and the unknowns below are not needed any more.
        thread::sync_threads();
        if is_pivot && c > 0 {
            let mut r = 0;
            while r < R {
                value[r] += self.products.get(thread as usize * R + r);
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
            let is_own = warp == t;
            let is_before = warp < t;
            let mut next = [T::ZERO; FAR_AHEAD];
            if is_own {
                self.pass::<R, true, FAR_AHEAD>(
                    front, own_line, count, inverse, own_next, &mut value,
                );
                self.show(t, value);
            } else if is_before {
                next = self.read(front, line, 0, count);
            }
            thread::sync_threads();
            if is_own {
                if is_pivot {
                    self.finish(chunk, 0, e, value);
                }
            } else if is_before {
                self.apply_shown::<true>(front, line, (t, count), next, &mut value);
            }
        }
        // The next task shows something else.
        thread::sync_threads();
    }
}
