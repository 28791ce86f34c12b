//! Products of the tiles left of a tile and above it.

use luge_kernel::prelude::*;

use super::{LargeFronts, OWN, SIDE, TILE_STRIDE, Tile, wide_product};
use crate::frontal::plan::{BLOCK_VALUES, THREADS, TILE};

/// Pivots whose products are added at once.
const CHUNK: u32 = 16;

const _: () = assert!(TILE * TILE_STRIDE + 4 * TILE * CHUNK <= BLOCK_VALUES);

impl<T: Real> LargeFronts<T> {
    /// Subtracts from the tile the product of the first `pivots` columns of L and rows of U.
    #[inline(always)]
    pub(super) fn subtract_products(self, tile: Tile, ti: u32, tj: u32, pivots: u32) {
        let matrix = self.matrix(0);
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
        // What lies outside the tile or behind the pivots is read elsewhere in it: a value that depends on a condition
        // would be waited for at once.
        let lower_from = tile.slot + u64::from(tile.row + own.min(tile.rows - 1));
        let upper_own = own.min(tile.columns - 1);
        let is_right = tile.column >= tile.k;
        let upper_from = if is_right {
            tile.slot + wide_product(tile.k, m) + u64::from(tile.column - tile.k + upper_own)
        } else {
            tile.slot + wide_product(tile.column + upper_own, m)
        };
        let upper_stride = if is_right { tile.c } else { 1 };
        let load = |at: u32| {
            let mut of_lower = [T::ZERO; OWN];
            let mut of_upper = [T::ZERO; OWN];
            for x in 0..OWN {
                let p = (at + depth + x as u32 * (THREADS / TILE)).min(pivots - 1);
                let lower = lower_from + wide_product(p, m);
                of_lower[x] = self.work.factors.get(lower as usize);
                let upper = upper_from + wide_product(p, upper_stride);
                of_upper[x] = self.work.factors.get(upper as usize);
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
                let p = depth + x as u32 * (THREADS / TILE);
                let place = p * TILE + own;
                let (mut of_lower, mut of_upper) = (of_lower[x], of_upper[x]);
                if at + p >= pivots {
                    (of_lower, of_upper) = (T::ZERO, T::ZERO);
                }
                self.values.set((lower + place) as usize, of_lower);
                self.values.set((upper + place) as usize, of_upper);
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
}
