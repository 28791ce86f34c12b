//! Triangular solves by levels, for any number of right-hand sides.
//!
//! Each unknown is gathered: x(k) = (b(k) − Σ entries · unknowns of other levels) / divisor, by one
//! warp, with the lanes' sums added up in a fixed tree. So the result depends on the factors and the
//! right-hand side only, not on the grid nor on the schedule.
//!
//! The relaxed dependencies cover all four solves: entries of row k of L and of column k of U are in
//! smaller levels than k, entries of row k of U and of column k of L in larger ones.

use luge_kernel::prelude::*;

use crate::filled::{ColumnLevels, Filled};
use crate::grid::GridBarrier;

/// What the four kernels share.
#[derive(Clone, Copy)]
struct Sweep {
    num_levels: u32,
    nrhs: u32,
    levels: ColumnLevels,
    barrier: GlobalMut<u32>,
}

impl Sweep {
    /// Visits the levels in order of elimination (`ascending`) or against it. For each unknown k of a
    /// level and each right-hand side, `sum(k, offset, lane)` is the part of the sum of one lane,
    /// with `offset` the place of the right-hand side in `x`; `divide(k, value)` gives x(k).
    #[inlined]
    fn run<T: Field>(
        self,
        ascending: bool,
        x: GlobalMut<T>,
        sum: impl Fn(usize, usize, u64) -> T,
        divide: impl Fn(usize, T) -> T,
    ) {
        let n = self.levels.cols.len();
        let mut grid = GridBarrier::new(self.barrier);
        let lane = u64::from(thread::lane_id());
        let warps = u64::from(thread::num_threads_1d() / warp::WARP_SIZE);
        let first = u64::from(thread::index_1d() / warp::WARP_SIZE);
        let mut step = 0;
        while step < self.num_levels {
            let level = if ascending {
                step
            } else {
                self.num_levels - 1 - step
            };
            let begin = self.levels.ptr.get(level as usize);
            let width = self.levels.ptr.get(level as usize + 1) - begin;
            let items = width * u64::from(self.nrhs);
            let mut item = first;
            while item < items {
                // Levels are not empty, so the quotient exists.
                let rhs = item.checked_div(width).unwrap_or(0);
                let k = self.levels.cols.get((begin + item - rhs * width) as usize) as usize;
                let offset = rhs as usize * n;
                let total = warp::reduce_sum(sum(k, offset, lane));
                if lane == 0 {
                    x.set(offset + k, divide(k, x.get(offset + k) - total));
                }
                item += warps;
            }
            grid.wait();
            step += 1;
        }
    }
}

/// A lane's part of Σ value(p) · x(index(p)) over `begin .. end`.
#[inlined]
fn gather<T: Field>(begin: u64, end: u64, lane: u64, product: impl Fn(usize, T) -> T) -> T {
    let mut sum = T::ZERO;
    let mut p = begin + lane;
    while p < end {
        sum = product(p as usize, sum);
        p += u64::from(warp::WARP_SIZE);
    }
    sum
}

/// Solves L·y = b with the unit lower triangle, b and y in `x` (n × nrhs, by columns).
///
/// Threads: persistent grid; a warp an unknown and right-hand side of the level, lanes stride over row
/// k of L. Writes: lane 0 of that warp alone writes x(k). Orders: entries of `x` that are read belong
/// to smaller levels; a grid barrier ends each level. Launch: cooperative, 1-D, a multiple of 32
/// threads. Preconditions: factors as `lu_finish` leaves them; `barrier` is zero.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(1024),
    require(
        x.len() == levels.cols.len() * nrhs as usize,
        levels.ptr.len() > num_levels as usize,
        filled.row_ptr.len() == levels.cols.len() + 1,
        filled.diag_pos.len() == levels.cols.len(),
        filled.csr_to_csc.len() == lu.len(),
        filled.col_idx.len() == lu.len(),
        barrier.len() >= 1
    )
)]
pub unsafe fn solve_lower<T: Field>(
    num_levels: u32,
    nrhs: u32,
    levels: ColumnLevels,
    filled: Filled,
    lu: Global<T>,
    x: GlobalMut<T>,
    barrier: GlobalMut<u32>,
) {
    let sweep = Sweep {
        num_levels,
        nrhs,
        levels,
        barrier,
    };
    let sum = |k: usize, offset: usize, lane: u64| {
        gather(
            filled.row_ptr.get(k),
            filled.diag_pos.get(k),
            lane,
            |p, sum: T| {
                let value = lu.get(filled.csr_to_csc.get(p) as usize);
                value.mul_add(x.get(offset + filled.col_idx.get(p) as usize), sum)
            },
        )
    };
    sweep.run(true, x, sum, |_, value| value);
}

/// Solves U·x = y, y and x in `x` (n × nrhs, by columns).
///
/// As [`solve_lower`](fn@solve_lower), with the levels in reverse and row k of U.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(1024),
    require(
        x.len() == levels.cols.len() * nrhs as usize,
        levels.ptr.len() > num_levels as usize,
        filled.row_ptr.len() == levels.cols.len() + 1,
        filled.diag_pos.len() == levels.cols.len(),
        filled.csr_to_csc.len() == lu.len(),
        filled.col_idx.len() == lu.len(),
        barrier.len() >= 1
    )
)]
pub unsafe fn solve_upper<T: Field>(
    num_levels: u32,
    nrhs: u32,
    levels: ColumnLevels,
    filled: Filled,
    lu: Global<T>,
    x: GlobalMut<T>,
    barrier: GlobalMut<u32>,
) {
    let sweep = Sweep {
        num_levels,
        nrhs,
        levels,
        barrier,
    };
    let sum = |k: usize, offset: usize, lane: u64| {
        gather(
            filled.diag_pos.get(k) + 1,
            filled.row_ptr.get(k + 1),
            lane,
            |p, sum: T| {
                let value = lu.get(filled.csr_to_csc.get(p) as usize);
                value.mul_add(x.get(offset + filled.col_idx.get(p) as usize), sum)
            },
        )
    };
    let divide = |k: usize, value: T| {
        value.quotient(lu.get(filled.csr_to_csc.get(filled.diag_pos.get(k) as usize) as usize))
    };
    sweep.run(false, x, sum, divide);
}

/// Solves Uᵀ·y = b, b and y in `x` (n × nrhs, by columns).
///
/// As [`solve_lower`](fn@solve_lower), with column k of U above the diagonal.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(1024),
    require(
        x.len() == levels.cols.len() * nrhs as usize,
        levels.ptr.len() > num_levels as usize,
        filled.col_ptr.len() == levels.cols.len() + 1,
        filled.diag_pos.len() == levels.cols.len(),
        filled.csr_to_csc.len() == lu.len(),
        filled.row_idx.len() == lu.len(),
        barrier.len() >= 1
    )
)]
pub unsafe fn solve_upper_transpose<T: Field>(
    num_levels: u32,
    nrhs: u32,
    levels: ColumnLevels,
    filled: Filled,
    lu: Global<T>,
    x: GlobalMut<T>,
    barrier: GlobalMut<u32>,
) {
    let sweep = Sweep {
        num_levels,
        nrhs,
        levels,
        barrier,
    };
    let diagonal = |k: usize| filled.csr_to_csc.get(filled.diag_pos.get(k) as usize);
    let sum = |k: usize, offset: usize, lane: u64| {
        gather(filled.col_ptr.get(k), diagonal(k), lane, |p, sum: T| {
            lu.get(p)
                .mul_add(x.get(offset + filled.row_idx.get(p) as usize), sum)
        })
    };
    let divide = |k: usize, value: T| value.quotient(lu.get(diagonal(k) as usize));
    sweep.run(true, x, sum, divide);
}

/// Solves Lᵀ·x = y with the unit lower triangle, y and x in `x` (n × nrhs, by columns).
///
/// As [`solve_lower`](fn@solve_lower), with the levels in reverse and column k of L below the diagonal.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(1024),
    require(
        x.len() == levels.cols.len() * nrhs as usize,
        levels.ptr.len() > num_levels as usize,
        filled.col_ptr.len() == levels.cols.len() + 1,
        filled.diag_pos.len() == levels.cols.len(),
        filled.csr_to_csc.len() == lu.len(),
        filled.row_idx.len() == lu.len(),
        barrier.len() >= 1
    )
)]
pub unsafe fn solve_lower_transpose<T: Field>(
    num_levels: u32,
    nrhs: u32,
    levels: ColumnLevels,
    filled: Filled,
    lu: Global<T>,
    x: GlobalMut<T>,
    barrier: GlobalMut<u32>,
) {
    let sweep = Sweep {
        num_levels,
        nrhs,
        levels,
        barrier,
    };
    let sum = |k: usize, offset: usize, lane: u64| {
        let begin = filled.csr_to_csc.get(filled.diag_pos.get(k) as usize) + 1;
        gather(begin, filled.col_ptr.get(k + 1), lane, |p, sum: T| {
            lu.get(p)
                .mul_add(x.get(offset + filled.row_idx.get(p) as usize), sum)
        })
    };
    sweep.run(false, x, sum, |_, value| value);
}
