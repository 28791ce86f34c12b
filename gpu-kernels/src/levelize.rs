//! Relaxed dependencies (GLU 3.0, Algorithm 4) and Kahn's algorithm, level by level on the device.
//!
//! Column k waits for column i < k once for U(i, k) ≠ 0 (look up) and once for L(k, i) ≠ 0 (look
//! left); a pair with both counts twice, when counted and when released, so no duplicates need to be
//! found. Column i in turn releases the columns right of the diagonal in row i of U and the rows below
//! the diagonal in column i of L.

use luge_kernel::prelude::*;

use crate::filled::Filled;
use crate::grid::GridBarrier;

/// Number of waits of each column: `waiting[k] = |U(0..k, k)| + |L(k, 0..k)|`.
///
/// Threads: one a column, grid-strided. Writes: `waiting[k]` by the thread of k. Precondition: the two
/// counts of a column add up to less than 2³².
#[kernel(
    max_threads(1024),
    require(
        filled.row_ptr.len() == waiting.len() + 1,
        filled.col_ptr.len() == waiting.len() + 1,
        filled.diag_pos.len() == waiting.len()
    )
)]
pub unsafe fn count_dependencies(filled: Filled, waiting: GlobalMut<u32>) {
    for k in thread::grid_stride(waiting.len()) {
        let diagonal = filled.diag_pos.get(k);
        let left = diagonal - filled.row_ptr.get(k);
        let up = filled.csr_to_csc.get(diagonal as usize) - filled.col_ptr.get(k);
        waiting.set(k, (left + up) as u32);
    }
}

/// What [`kahn_levels`](fn@kahn_levels) finds.
#[derive(Clone, Copy, KernelArgs)]
pub struct FoundLevels {
    /// Columns of each level, zero at first.
    pub level_sizes: GlobalMut<u32>,
    /// The level of each column.
    pub level_of: GlobalMut<u32>,
    /// The columns, level by level.
    pub level_cols: GlobalMut<u32>,
    /// Where each level begins in `level_cols`, and the end of the last.
    pub level_ptr: GlobalMut<u64>,
    /// Number of levels.
    pub num_levels: GlobalMut<u32>,
}

impl FoundLevels {
    /// Puts column `k` in `level`, whose columns begin at `begin` in `level_cols`.
    #[inlined]
    fn push(self, k: u32, level: u32, begin: u32) {
        self.level_of.set(k as usize, level);
        let at =
            self.level_sizes
                .atomic(level as usize)
                .fetch_add(1, Ordering::Relaxed, Scope::Device);
        self.level_cols.set((begin + at) as usize, k);
    }
}

/// Levels of all columns, in one launch: level(k) = 1 + the largest level k waits for, 0 if none.
///
/// Round l takes the columns of level l and releases those that wait for them; a column whose count
/// falls to zero in round l has its last wait in level l, so its level is l + 1. Writes `level_of`,
/// `level_cols` (grouped by level, in order of arrival within one), `level_ptr[0 ..= num_levels]`
/// and `num_levels[0]`.
///
/// Threads: persistent grid; a warp a column of the round, its lanes take consecutive entries.
/// Writes: `waiting` by atomic subtraction; the one thread that takes a count from 1 to 0 alone
/// writes `level_of[k]`, and its place in `level_cols`, which `level_sizes[l+1].fetch_add` gave it.
/// Thread 0 of the grid writes `level_ptr` and `num_levels`. Orders: a grid barrier ends each round,
/// so `level_cols` of a level and its size are complete when they are read; `level_sizes[l+1]` is
/// not added to after round l.
///
/// Launch: cooperative, 1-D, a multiple of 32 threads. Preconditions: `waiting` as
/// [`count_dependencies`](fn@count_dependencies) leaves it; `level_sizes` and `barrier` zero.
#[kernel(
    max_threads(1024),
    require(
        filled.row_ptr.len() == n as usize + 1,
        filled.col_ptr.len() == n as usize + 1,
        filled.diag_pos.len() == n as usize,
        waiting.len() == n as usize,
        found.level_sizes.len() == n as usize + 1,
        found.level_of.len() == n as usize,
        found.level_cols.len() == n as usize,
        found.level_ptr.len() == n as usize + 1,
        found.num_levels.len() == 1,
        barrier.len() >= 1
    )
)]
pub unsafe fn kahn_levels(
    n: u32,
    filled: Filled,
    waiting: GlobalMut<u32>,
    found: FoundLevels,
    barrier: GlobalMut<u32>,
) {
    let mut grid = GridBarrier::new(barrier);
    let lane = u64::from(thread::lane_id());
    let warps = thread::num_threads_1d() / warp::WARP_SIZE;
    let first = thread::index_1d() / warp::WARP_SIZE;
    let writes_sizes = thread::index_1d() == 0;

    for k in thread::grid_stride(n as usize) {
        if waiting.get(k) == 0 {
            found.push(k as u32, 0, 0);
        }
    }
    grid.wait();

    let mut level = 0u32;
    let mut begin = 0u32;
    loop {
        // All of the grid sees the same size, so all of it leaves in the same round.
        let size = found.level_sizes.get(level as usize);
        if writes_sizes {
            found.level_ptr.set(level as usize, u64::from(begin));
        }
        if size == 0 {
            break;
        }
        let end = begin + size;
        let release = |k: u32| {
            let waits = waiting
                .atomic(k as usize)
                .fetch_sub(1, Ordering::Relaxed, Scope::Device);
            if waits == 1 {
                found.push(k, level + 1, end);
            }
        };
        let mut at = begin + first;
        while at < end {
            let i = found.level_cols.get(at as usize) as usize;
            let diagonal = filled.diag_pos.get(i);
            let row_end = filled.row_ptr.get(i + 1);
            let mut p = diagonal + 1 + lane;
            while p < row_end {
                release(filled.col_idx.get(p as usize));
                p += u64::from(warp::WARP_SIZE);
            }
            let col_end = filled.col_ptr.get(i + 1);
            let mut p = filled.csr_to_csc.get(diagonal as usize) + 1 + lane;
            while p < col_end {
                release(filled.row_idx.get(p as usize));
                p += u64::from(warp::WARP_SIZE);
            }
            at += warps;
        }
        grid.wait();
        begin = end;
        level += 1;
    }
    if writes_sizes {
        found.num_levels.set(0, level);
    }
}
