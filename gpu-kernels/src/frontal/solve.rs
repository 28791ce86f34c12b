//! Solves with the factors of fronts, up the assembly tree and down again.
//!
//! Upwards a front gets what its children have for its rows, one child after the other, solves with the triangle of its
//! pivots, and keeps for the parent what that means for the rows below. Downwards it takes the unknowns of the rows
//! below, which its ancestors have found, and solves with the other triangle. Every unknown is one chain of operations
//! in a fixed order.
//!
//! B = L·U with the rows of each front's pivots exchanged: upwards with L, downwards with U. For Bᵀ: upwards with Uᵀ,
//! downwards with Lᵀ, the exchanges last and backwards.

use luge_kernel::prelude::*;

use super::climb::Climb;
use super::front::{Shape, Team};

/// Rows of the largest front that a warp solves with on the way up.
pub const WARP_FRONT: u32 = 64;

/// Factors and vectors of one right-hand side.
#[derive(Clone, Copy)]
struct Sweep<T: Real> {
    transpose: bool,
    factors: Global<T>,
    slots: Global<u64>,
    pivot_rows: Global<u32>,
    x: GlobalMut<T>,
    /// Where the unknowns of this right-hand side begin.
    first: usize,
}

impl<T: Real> Sweep<T> {
    #[inline(always)]
    fn factor(self, s: u32, place: u32) -> T {
        self.factors
            .get((self.slots.get(s as usize) + u64::from(place)) as usize)
    }

    /// Of the triangle that is solved with first, row i, column j < i: L, or Uᵀ.
    #[inline(always)]
    fn left(self, s: u32, shape: Shape, i: u32, j: u32) -> T {
        let place = match (self.transpose, i < shape.k) {
            (false, _) => shape.lower(i, j),
            (true, true) => shape.lower(j, i),
            (true, false) => shape.upper(j, i - shape.k),
        };
        self.factor(s, place)
    }

    /// Of the other triangle, row i, column j > i: U, or Lᵀ.
    #[inline(always)]
    fn right(self, s: u32, shape: Shape, i: u32, j: u32) -> T {
        let place = match (self.transpose, j < shape.k) {
            (false, true) => shape.lower(i, j),
            (false, false) => shape.upper(i, j - shape.k),
            (true, _) => shape.lower(j, i),
        };
        self.factor(s, place)
    }

    /// The pivot, which belongs to U.
    #[inline(always)]
    fn pivot(self, s: u32, shape: Shape, j: u32) -> T {
        self.factor(s, shape.lower(j, j))
    }

    #[inline(always)]
    fn get(self, unknown: u32) -> T {
        self.x.get(self.first + unknown as usize)
    }

    #[inline(always)]
    fn set(self, unknown: u32, value: T) {
        self.x.set(self.first + unknown as usize, value);
    }

    /// Exchanges the rows of the pivots, as before the elimination of each.
    #[inline(always)]
    fn exchange(self, start: u32, k: u32, backwards: bool) {
        let mut step = 0;
        while step < k {
            let j = start + if backwards { k - 1 - step } else { step };
            let row = start + self.pivot_rows.get(j as usize);
            if row != j {
                let value = self.get(j);
                self.set(j, self.get(row));
                self.set(row, value);
            }
            step += 1;
        }
    }
}

/// The way up: on return `x` holds the solution with the first triangle, in the order of elimination.
///
/// `carried` is for each row below a front what the front has for it: as many values as there are rows of all fronts,
/// for each of the `nrhs` right-hand sides.
///
/// Threads: see `climb`. Writes: the unknowns of a front's pivots and its part of `carried` by its team alone, which
/// the order of the climb shows to the parent. Launch: cooperative, 1-D, a multiple of 32 threads. Preconditions: the
/// arrays are those of a factorization; for the schedule see `climb`.
#[kernel(
    T = [f32, f64],
    max_threads(256),
    require(
        starts.len() == below.len() + 1,
        parents.len() == below.len(),
        child_ptr.len() == below.len() + 1,
        slots.len() >= below.len(),
        rows.len() == below.len(),
        x.len() == nrhs as usize * pivot_rows.len(),
        carried.len() == nrhs as usize * relative.len(),
        pending.len() == below.len(),
        queue.len() == below.len()
    )
)]
pub unsafe fn solve_fronts_up<T: Real>(
    transpose: u32,
    nrhs: u32,
    leaves: Global<u32>,
    starts: Global<u32>,
    below: Global<u32>,
    parents: Global<u32>,
    child_ptr: Global<u32>,
    children: Global<u32>,
    rows: Global<u64>,
    relative: Global<u32>,
    slots: Global<u64>,
    factors: Global<T>,
    pivot_rows: Global<u32>,
    x: GlobalMut<T>,
    carried: GlobalMut<T>,
    pending: GlobalMut<u32>,
    queue: GlobalMut<u32>,
    schedule: GlobalMut<u32>,
) {
    let next = shared_array![u32; 1];
    let climb = Climb {
        leaves,
        starts,
        below,
        parents,
        child_ptr,
        pending,
        queue,
        schedule,
        next,
    };
    let n = pivot_rows.len();
    let work = |team: Team, s: u32| {
        let shape = climb.shape(s);
        let Shape { k, c } = shape;
        let start = starts.get(s as usize);
        let mut rhs = 0;
        while rhs < nrhs as usize {
            let sweep = Sweep {
                transpose: transpose != 0,
                factors,
                slots,
                pivot_rows,
                x,
                first: rhs * n,
            };
            let offset = rhs * relative.len();
            let own = offset + rows.get(s as usize) as usize;
            team.for_each(c, |i| carried.set(own + i as usize, T::ZERO));
            team.sync();
            let mut at = child_ptr.get(s as usize);
            while at < child_ptr.get(s as usize + 1) {
                let child = children.get(at as usize) as usize;
                let first = rows.get(child) as usize;
                team.for_each(below.get(child), |i| {
                    let value = carried.get(offset + first + i as usize);
                    let row = relative.get(first + i as usize);
                    if row < k {
                        sweep.set(start + row, sweep.get(start + row) + value);
                    } else {
                        let place = own + (row - k) as usize;
                        carried.set(place, carried.get(place) + value);
                    }
                });
                // Two children may add to the same unknown.
                team.sync();
                at += 1;
            }
            if !sweep.transpose {
                if team.rank == 0 {
                    sweep.exchange(start, k, false);
                }
                team.sync();
            }
            let mut j = 0;
            while j < k {
                let mut value = sweep.get(start + j);
                if sweep.transpose {
                    value = value / sweep.pivot(s, shape, j);
                    // All have read the unknown.
                    team.sync();
                    if team.rank == 0 {
                        sweep.set(start + j, value);
                    }
                }
                team.for_each(k - j - 1, |i| {
                    let i = j + 1 + i;
                    let product = -sweep.left(s, shape, i, j);
                    sweep.set(start + i, product.mul_add(value, sweep.get(start + i)));
                });
                team.sync();
                j += 1;
            }
            team.for_each(c, |i| {
                let place = own + i as usize;
                let mut sum = carried.get(place);
                let mut j = 0;
                while j < k {
                    let product = -sweep.left(s, shape, k + i, j);
                    sum = product.mul_add(sweep.get(start + j), sum);
                    j += 1;
                }
                carried.set(place, sum);
            });
            rhs += 1;
        }
    };
    climb.run(WARP_FRONT, work, work);
}

/// The way down: from what [`solve_fronts_up`](fn@solve_fronts_up) left in `x` to the solution.
///
/// `row_idx` are the rows below the pivots of all fronts, those of front s from `rows[s]` on.
///
/// Threads: a warp takes fronts from the last to the first by a counter, and waits for the parent's flag in `done`;
/// whoever works on the parent took it earlier, so the waiting ends. Writes: the unknowns of a front's pivots by its
/// warp alone; its release of `done` shows them to the children's. Launch: 1-D, a multiple of 32 threads.
/// Preconditions: as there; `done` and `taken` are zero.
#[kernel(
    T = [f32, f64],
    max_threads(256),
    require(
        starts.len() == below.len() + 1,
        parents.len() == below.len(),
        slots.len() >= below.len(),
        rows.len() == below.len(),
        x.len() == nrhs as usize * pivot_rows.len(),
        done.len() == below.len(),
        taken.len() >= 1
    )
)]
pub unsafe fn solve_fronts_down<T: Real>(
    transpose: u32,
    nrhs: u32,
    starts: Global<u32>,
    below: Global<u32>,
    parents: Global<u32>,
    rows: Global<u64>,
    row_idx: Global<u32>,
    slots: Global<u64>,
    factors: Global<T>,
    pivot_rows: Global<u32>,
    x: GlobalMut<T>,
    done: GlobalMut<u32>,
    taken: GlobalMut<u32>,
) {
    let num_fronts = below.len() as u32;
    let n = pivot_rows.len();
    let team = Team::warp();
    let lane = thread::lane_id();
    loop {
        let mut ticket = 0;
        if lane == 0 {
            ticket = taken
                .atomic(0)
                .fetch_add(1, Ordering::Relaxed, Scope::Device);
        }
        ticket = warp::shuffle(warp::FULL_MASK, ticket, 0);
        if ticket >= num_fronts {
            break;
        }
        let s = num_fronts - 1 - ticket;
        let parent = parents.get(s as usize);
        if lane == 0 && parent != super::climb::NONE {
            let flag = done.atomic(parent as usize);
            spin_wait(|| flag.load(Ordering::Acquire, Scope::Device) != 0);
        }
        team.sync();
        let start = starts.get(s as usize);
        let shape = Shape {
            k: starts.get(s as usize + 1) - start,
            c: below.get(s as usize),
        };
        let Shape { k, c } = shape;
        let first_row = rows.get(s as usize) as usize;
        let mut rhs = 0;
        while rhs < nrhs as usize {
            let sweep = Sweep {
                transpose: transpose != 0,
                factors,
                slots,
                pivot_rows,
                x,
                first: rhs * n,
            };
            let mut i = 0;
            while i < k {
                let mut sum = T::ZERO;
                let mut q = lane;
                while q < c {
                    let row = row_idx.get(first_row + q as usize);
                    sum = sweep.right(s, shape, i, k + q).mul_add(sweep.get(row), sum);
                    q += warp::WARP_SIZE;
                }
                let sum = warp::reduce_sum(warp::FULL_MASK, sum);
                if lane == 0 {
                    sweep.set(start + i, sweep.get(start + i) - sum);
                }
                i += 1;
            }
            team.sync();
            let mut j = k;
            while j > 0 {
                j -= 1;
                let mut value = sweep.get(start + j);
                if !sweep.transpose {
                    value = value / sweep.pivot(s, shape, j);
                    team.sync();
                    if lane == 0 {
                        sweep.set(start + j, value);
                    }
                }
                team.for_each(j, |i| {
                    let product = -sweep.right(s, shape, i, j);
                    sweep.set(start + i, product.mul_add(value, sweep.get(start + i)));
                });
                team.sync();
            }
            if sweep.transpose && lane == 0 {
                sweep.exchange(start, k, true);
            }
            rhs += 1;
        }
        team.sync();
        if lane == 0 {
            done.atomic(s as usize)
                .store(1, Ordering::Release, Scope::Device);
        }
    }
}
