//! Multifrontal LU with static pivots, from the leaves of the assembly tree to its roots in one launch.
//!
//! I. S. Duff and J. K. Reid, "The multifrontal solution of unsymmetric sets of linear equations", SIAM J. Sci. Stat.
//! Comput. 5 (1984).
//!
//! # A front
//!
//! A front is zeroed, gets its entries of B, then the elements of its children, one child after the other in their
//! order; then its k columns are eliminated, each with the largest entry of the column among the pivots' rows if
//! that on the diagonal is small against it, and what is left below is the element for the parent. Every entry is one
//! chain of operations in an order that neither the schedule nor the grid enters: factors are the same bits in every
//! run.

use luge_kernel::prelude::*;

use super::climb::{Climb, schedule};
use super::front::{Entries, InGlobal, InShared, Shape, Team};

/// Rows of the largest front that a warp eliminates.
pub const WARP_FRONT: u32 = 32;

/// Values of shared memory that a warp needs.
pub const WARP_VALUES: u32 = WARP_FRONT * WARP_FRONT;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Values of dynamic shared memory of a block; its largest front there has √ of them as rows.
pub const BLOCK_VALUES: u32 = WARP_VALUES * (THREADS / warp::WARP_SIZE);

/// Places in `counters`.
pub mod counter {
    /// Number of pivots replaced; starts at zero.
    pub const NUM_PERTURBED: usize = 0;
    /// Smallest column, in the order of elimination, whose pivot was replaced; starts at `u32::MAX`.
    pub const FIRST_PERTURBED: usize = 1;
    /// Smallest column whose pivot is zero; starts at `u32::MAX`.
    pub const FIRST_ZERO: usize = 2;
    /// Smallest column with a value that is not finite; starts at `u32::MAX`.
    pub const FIRST_NOT_FINITE: usize = 3;
    /// Number of counters.
    pub const LEN: usize = 4;
}

/// Places in `extremes`: bits of a non-negative `f64`, which are ordered as the numbers are; all start at zero.
pub mod extreme {
    /// Largest magnitude in the diagonal blocks of B.
    pub const MAX_B: usize = 0;
    /// Largest magnitude in U.
    pub const MAX_U: usize = 1;
    /// Largest magnitude in L.
    pub const MAX_L: usize = 2;
    /// Number of extremes.
    pub const LEN: usize = 3;
}

/// `value` · 2^`exponent` for |exponent| <= 2044.
#[inline(always)]
pub(super) fn times_power_of_two(value: f64, exponent: i32) -> f64 {
    // The power itself may be out of range where the product is not.
    let half = exponent >> 1;
    value * power_of_two(half) * power_of_two(exponent - half)
}

/// 2^`exponent` for |exponent| <= 1022.
#[inline(always)]
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + i64::from(exponent)) as u64) << 52)
}

/// The assembly tree and what hangs on it.
#[derive(Clone, Copy)]
struct Tree<T: Real> {
    /// Whether pivots are searched, or those of `pivot_rows` taken again.
    search: bool,
    threshold: T,
    smallest: T,
    starts: Global<u32>,
    below: Global<u32>,
    child_ptr: Global<u32>,
    children: Global<u32>,
    rows: Global<u64>,
    relative: Global<u32>,
    entry_ptr: Global<u32>,
    source: Global<u32>,
    destination: Global<u32>,
    exponents: Global<i32>,
    values: Global<f64>,
    slots: Global<u64>,
    element_at: Global<u64>,
    factors: GlobalMut<T>,
    elements: GlobalMut<T>,
    pivot_rows: GlobalMut<u32>,
    counters: GlobalMut<u32>,
    extremes: GlobalMut<u64>,
    /// Row of the pivot, of each team.
    found: Shared<u32>,
}

impl<T: Real> Tree<T> {
    /// Entries of B and the elements of the children.
    #[inline(always)]
    fn assemble(self, team: Team, s: u32, shape: Shape, front: impl Entries<T>) {
        team.for_each(shape.m() * shape.m(), |p| front.set(p, T::ZERO));
        team.sync();
        let mut most = 0.0;
        let first = self.entry_ptr.get(s as usize);
        team.for_each(self.entry_ptr.get(s as usize + 1) - first, |e| {
            let e = (first + e) as usize;
            let value = self.values.get(self.source.get(e) as usize);
            let value = times_power_of_two(value, self.exponents.get(e));
            most = most.max(value.abs());
            front.set(self.destination.get(e), T::from_f64(value));
        });
        self.raise(extreme::MAX_B, most);
        team.sync();
        let mut at = self.child_ptr.get(s as usize);
        let end = self.child_ptr.get(s as usize + 1);
        while at < end {
            let child = self.children.get(at as usize);
            let c = self.below.get(child as usize);
            let rows = self.rows.get(child as usize);
            let element = self.element_at.get(child as usize);
            team.for_cells(c, c, |i, j| {
                let value = self.elements.get((element + u64::from(i + j * c)) as usize);
                let row = self.relative.get((rows + u64::from(i)) as usize);
                let column = self.relative.get((rows + u64::from(j)) as usize);
                let place = shape.place(row, column);
                front.set(place, front.get(place) + value);
            });
            // Two children may add to the same entry.
            team.sync();
            at += 1;
        }
    }

    /// Row of the pivot of column `j`. The first warp of the team looks for it; all of the team get it.
    #[inline(always)]
    fn pivot_row(
        self,
        team: Team,
        start: u32,
        j: u32,
        shape: Shape,
        front: impl Entries<T>,
    ) -> u32 {
        let stored = (start + j) as usize;
        if !self.search {
            return self.pivot_rows.get(stored);
        }
        let slot = if team.width == warp::WARP_SIZE {
            (thread::thread_idx_x() / warp::WARP_SIZE) as usize
        } else {
            0
        };
        if team.rank < warp::WARP_SIZE {
            let lane = thread::lane_id();
            let (mut row, mut most) = (j, T::ZERO);
            let mut i = j + lane;
            while i < shape.k {
                let size = front.get(shape.lower(i, j)).abs();
                if size > most {
                    (row, most) = (i, size);
                }
                i += warp::WARP_SIZE;
            }
            let mut distance = warp::WARP_SIZE / 2;
            while distance > 0 {
                let other = warp::shuffle_xor(warp::FULL_MASK, most, distance);
                let other_row = warp::shuffle_xor(warp::FULL_MASK, row, distance);
                if other > most || (other == most && other_row < row) {
                    (row, most) = (other_row, other);
                }
                distance /= 2;
            }
            if lane == 0 {
                let diagonal = front.get(shape.lower(j, j)).abs();
                if diagonal >= self.threshold * most {
                    row = j;
                }
                self.found.set(slot, row);
                self.pivot_rows.set(stored, row);
            }
        }
        team.sync();
        self.found.get(slot)
    }

    /// Eliminates the columns of the pivots, and updates the element.
    #[inline(always)]
    fn eliminate(self, team: Team, s: u32, shape: Shape, front: impl Entries<T>) {
        let Shape { k, c } = shape;
        let m = shape.m();
        let start = self.starts.get(s as usize);
        let mut j = 0;
        while j < k {
            let row = self.pivot_row(team, start, j, shape, front);
            if row != j {
                let swap = |a: u32, b: u32| {
                    let value = front.get(a);
                    front.set(a, front.get(b));
                    front.set(b, value);
                };
                team.for_each(k, |q| swap(shape.lower(j, q), shape.lower(row, q)));
                team.for_each(c, |q| swap(shape.upper(j, q), shape.upper(row, q)));
                team.sync();
            }
            let diagonal = shape.lower(j, j);
            let came = front.get(diagonal);
            let mut pivot = came;
            if came.abs() < self.smallest {
                pivot = if came < T::ZERO {
                    -self.smallest
                } else {
                    self.smallest
                };
            }
            // All have read the pivot before it is replaced.
            team.sync();
            if team.rank == 0 {
                self.report(start + j, came, pivot);
                front.set(diagonal, pivot);
            }
            team.for_each(m - j - 1, |i| {
                let place = shape.lower(j + 1 + i, j);
                front.set(place, front.get(place) / pivot);
            });
            team.sync();
            team.for_cells(m - j - 1, k - j - 1, |i, q| {
                let (i, q) = (j + 1 + i, j + 1 + q);
                let place = shape.lower(i, q);
                let product = -front.get(shape.lower(i, j));
                front.set(
                    place,
                    product.mul_add(front.get(shape.lower(j, q)), front.get(place)),
                );
            });
            team.for_cells(c, k - j - 1, |q, i| {
                let i = j + 1 + i;
                let place = shape.upper(i, q);
                let product = -front.get(shape.lower(i, j));
                front.set(
                    place,
                    product.mul_add(front.get(shape.upper(j, q)), front.get(place)),
                );
            });
            team.sync();
            j += 1;
        }
        team.for_cells(c, c, |i, q| {
            let place = shape.element(i, q);
            let mut sum = front.get(place);
            let mut p = 0;
            while p < k {
                let product = -front.get(shape.lower(k + i, p));
                sum = product.mul_add(front.get(shape.upper(p, q)), sum);
                p += 1;
            }
            front.set(place, sum);
        });
    }

    /// One thread of the team reports on a pivot.
    #[inline(always)]
    fn report(self, column: u32, came: T, pivot: T) {
        let first = |which: usize| {
            self.counters
                .atomic(which)
                .fetch_min(column, Ordering::Relaxed, Scope::Device);
        };
        let size = pivot.abs().to_f64();
        if !size.is_finite() {
            first(counter::FIRST_NOT_FINITE);
        }
        if size == 0.0 {
            first(counter::FIRST_ZERO);
        }
        if came.abs() < self.smallest {
            self.counters.atomic(counter::NUM_PERTURBED).reduce_add(
                1,
                Ordering::Relaxed,
                Scope::Device,
            );
            first(counter::FIRST_PERTURBED);
        }
    }

    /// Raises an extreme to `value` if it is larger. All lanes of a warp call it.
    #[inline(always)]
    fn raise(self, which: usize, value: f64) {
        let mut most = value;
        let mut distance = warp::WARP_SIZE / 2;
        while distance > 0 {
            most = most.max(warp::shuffle_xor(warp::FULL_MASK, most, distance));
            distance /= 2;
        }
        if thread::lane_id() == 0 {
            let extreme = self.extremes.atomic(which);
            extreme.fetch_max(most.to_bits(), Ordering::Relaxed, Scope::Device);
        }
    }

    /// Raises the extremes to those of the panels of a front.
    #[inline(always)]
    fn measure(self, team: Team, shape: Shape, front: impl Entries<T>) {
        let (mut lower, mut upper) = (0.0f64, 0.0f64);
        team.for_cells(shape.m(), shape.k, |i, j| {
            let size = front.get(shape.lower(i, j)).abs().to_f64();
            if i > j {
                lower = lower.max(size);
            } else {
                upper = upper.max(size);
            }
        });
        team.for_cells(shape.c, shape.k, |q, i| {
            upper = upper.max(front.get(shape.upper(i, q)).abs().to_f64());
        });
        self.raise(extreme::MAX_L, lower);
        self.raise(extreme::MAX_U, upper);
    }

    /// A whole front that fits the team's shared memory from value `first` on.
    #[inline(always)]
    fn work_in_shared(self, team: Team, s: u32, shape: Shape, shared: Shared<T>, first: u32) {
        let front = InShared {
            values: shared,
            first,
        };
        self.assemble(team, s, shape, front);
        self.eliminate(team, s, shape, front);
        team.sync();
        self.measure(team, shape, front);
        let slot = self.slots.get(s as usize);
        team.for_each(shape.panels(), |p| {
            self.factors
                .set((slot + u64::from(p)) as usize, front.get(p));
        });
        let at = self.element_at.get(s as usize);
        team.for_each(shape.c * shape.c, |p| {
            let value = front.get(shape.panels() + p);
            self.elements.set((at + u64::from(p)) as usize, value);
        });
    }

    /// A whole front where its factors and its element lie.
    #[inline(always)]
    fn work_in_place(self, team: Team, s: u32, shape: Shape) {
        let front = InGlobal {
            factors: self.factors,
            slot: self.slots.get(s as usize),
            elements: self.elements,
            at: self.element_at.get(s as usize),
            panels: shape.panels(),
        };
        self.assemble(team, s, shape, front);
        self.eliminate(team, s, shape, front);
        team.sync();
        self.measure(team, shape, front);
    }
}

/// Factorizes B = L·U in the fronts of an assembly tree.
///
/// Front s has the pivots `starts[s] .. starts[s + 1]` and `below[s]` rows below them; its panels lie at `slots[s]`
/// of `factors`, its element at `element_at[s]` of `elements` (see the module for their layout). Row i of those of
/// child c is row `relative[rows[c] + i]` of the parent. Value `source[e]` of A, times 2^`exponents[e]`, belongs to place
/// `destination[e]` of its front, `entry_ptr[s] <= e < entry_ptr[s + 1]`. `pivot_rows[p]` is the row that changed places with row p of its
/// front, counted within the front, before p was eliminated; `search` = 0 takes those that are there.
///
/// A pivot on the diagonal is taken if it reaches `threshold` times the largest entry of its column among the rows of
/// the front's pivots, else that entry; one below `smallest` is replaced by ± `smallest`.
///
/// Threads: see `climb`. Writes: the panels and the element of a front by its team alone; the team's barrier and a
/// release-acquire pair on `pending` of the parent order them before the parent reads the element; `queue` by whoever
/// got the place from a counter. Shared memory: [`BLOCK_VALUES`] values, dynamic, and a word a warp.
///
/// Launch: cooperative, 1-D, [`THREADS`] threads. Preconditions: a valid tree in postorder; `leaves` are the fronts
/// without children and with at most [`WARP_FRONT`] rows, the larger ones without children stand in `queue` as s + 1,
/// `schedule[TAIL]` of them, the rest of `queue` and of `schedule` is zero; `pending[s]` is the number of children.
#[kernel(
    T = [f32, f64],
    max_threads(256),
    require(
        starts.len() == below.len() + 1,
        parents.len() == below.len(),
        child_ptr.len() == below.len() + 1,
        entry_ptr.len() == below.len() + 1,
        slots.len() >= below.len(),
        element_at.len() == below.len(),
        rows.len() == below.len(),
        pending.len() == below.len(),
        queue.len() == below.len(),
        schedule.len() == schedule::LEN,
        counters.len() == counter::LEN,
        extremes.len() == extreme::LEN
    )
)]
pub unsafe fn lu_fronts<T: Real>(
    search: u32,
    threshold: T,
    smallest: T,
    leaves: Global<u32>,
    starts: Global<u32>,
    below: Global<u32>,
    parents: Global<u32>,
    child_ptr: Global<u32>,
    children: Global<u32>,
    rows: Global<u64>,
    relative: Global<u32>,
    entry_ptr: Global<u32>,
    source: Global<u32>,
    destination: Global<u32>,
    exponents: Global<i32>,
    values: Global<f64>,
    slots: Global<u64>,
    element_at: Global<u64>,
    factors: GlobalMut<T>,
    elements: GlobalMut<T>,
    pivot_rows: GlobalMut<u32>,
    pending: GlobalMut<u32>,
    queue: GlobalMut<u32>,
    schedule: GlobalMut<u32>,
    counters: GlobalMut<u32>,
    extremes: GlobalMut<u64>,
) {
    let found = shared_array![u32; (THREADS / warp::WARP_SIZE) as usize];
    let next = shared_array![u32; 1];
    let shared = dynamic_shared::<T>(0, BLOCK_VALUES as usize);
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
    let tree = Tree {
        search: search != 0,
        threshold,
        smallest,
        starts,
        below,
        child_ptr,
        children,
        rows,
        relative,
        entry_ptr,
        source,
        destination,
        exponents,
        values,
        slots,
        element_at,
        factors,
        elements,
        pivot_rows,
        counters,
        extremes,
        found,
    };
    let first = WARP_VALUES * (thread::thread_idx_x() / warp::WARP_SIZE);
    climb.run(
        WARP_FRONT,
        |team, s| tree.work_in_shared(team, s, climb.shape(s), shared, first),
        |team, s| {
            let shape = climb.shape(s);
            if shape.m() * shape.m() <= BLOCK_VALUES {
                tree.work_in_shared(team, s, shape, shared, 0);
            } else {
                tree.work_in_place(team, s, shape);
            }
        },
    );
}
