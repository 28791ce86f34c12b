//! LU of the columns of the filled pattern by levels: hybrid right-looking, with static pivots.
//!
//! K. He, S. X.-D. Tan, H. Wang and G. Shi, "GPU-accelerated parallel sparse LU factorization method for fast circuit
//! analysis" (GLU), Algorithm 2; S. Peng and S. X.-D. Tan, "GLU3.0: Fast GPU-based parallel sparse LU factorization
//! for circuit simulation", Algorithm 5 and its modes by the shape of a level; "End-to-end LU factorization of large
//! matrices on GPUs" (PPoPP 2023), section 3.4, for the search in sorted columns instead of dense ones.
//!
//! Column k of a level updates every column j > k with U(k, j) ≠ 0, its sub-columns:
//! `B(i, j) -= B(i, k) · (U(k, j) / p)` for the rows i of column k below the diagonal, p its pivot.
//! The quotient is taken of U(k, j) and not of B(i, k), so column k is only read while it updates, and
//! any number of threads may share its updates without waiting for one that divides. [`lu_finish`](fn@lu_finish)
//! divides L by the pivots at the end, in one pass.
//!
//! Why the reads of a level need no order among its columns: B(i, k), p and U(k, j) are final
//! once all columns k' < k with U(k', k) ≠ 0 or L(k, k') ≠ 0 are done, for a column k' that
//! changes B(i, k) or p has U(k', k) ≠ 0, and one that changes U(k, j) has L(k, k') ≠ 0. Those are the
//! relaxed dependencies, so all of them are in earlier levels. Two columns of a level may change the
//! same entry B(i, j): [`levels`] adds atomically, [`ordered`] gives column j one owner, which adds in a fixed order.

use luge_kernel::prelude::*;

use crate::filled::Filled;
use crate::search::lower_bound;

pub mod levels;
pub mod mapping;
pub mod ordered;

/// Places of the counters in the `counters` of [`lu_finish`](fn@lu_finish).
pub mod counter {
    /// Number of pivots replaced; starts at zero.
    pub const NUM_PERTURBED: usize = 0;
    /// Smallest column whose pivot was replaced; starts at `u32::MAX`.
    pub const FIRST_PERTURBED: usize = 1;
    /// Smallest column whose pivot is zero; starts at `u32::MAX`.
    pub const FIRST_ZERO: usize = 2;
    /// Smallest column with a value that is not finite; starts at `u32::MAX`.
    pub const FIRST_NOT_FINITE: usize = 3;
    /// Number of counters.
    pub const LEN: usize = 4;
}

/// Places of the extremes in the `extremes` of [`lu_finish`](fn@lu_finish): bits of a non-negative `f64`, which are
/// ordered as the numbers are.
pub mod extreme {
    /// Largest magnitude in U; starts at zero.
    pub const MAX_U: usize = 0;
    /// Smallest magnitude of a pivot; starts at infinity.
    pub const MIN_PIVOT: usize = 1;
    /// Largest magnitude of a pivot; starts at zero.
    pub const MAX_PIVOT: usize = 2;
    /// Number of extremes.
    pub const LEN: usize = 3;
}

/// What an elimination works with, besides the pattern and the order.
#[derive(Clone, Copy, KernelArgs)]
pub struct Elimination<T: Field> {
    /// Number of levels.
    pub num_levels: u32,
    /// Number of dense columns.
    pub num_dense: u32,
    /// Smaller pivots are used with this magnitude.
    pub smallest: T::Real,
    /// How the threads share each level: [`Mapping::pack`](mapping::Mapping::pack).
    pub mappings: Global<u32>,
    /// The components of the values, by columns: of those of B, then of those of L and U. Components, because the chip adds
    /// atomically to one of them at a time.
    pub lu: GlobalMut<T::Real>,
    /// Dense columns of n values, one a team.
    pub dense: GlobalMut<T>,
    /// The grid's barrier.
    pub barrier: GlobalMut<u32>,
}

impl<T: Field> Elimination<T> {
    #[inlined]
    fn factors(self, filled: Filled) -> Factors<T> {
        Factors {
            smallest: self.smallest,
            filled,
            lu: self.lu,
        }
    }
}

/// The pivot that is divided by: one of magnitude `smallest` in place of a smaller one, in its direction.
#[inlined]
fn usable_pivot<T: Field>(pivot: T, smallest: T::Real) -> T {
    if pivot.magnitude() < smallest {
        pivot.with_magnitude(smallest)
    } else {
        pivot
    }
}

/// The pattern of L+U, and its values by columns.
#[derive(Clone, Copy)]
struct Factors<T: Field> {
    /// Smaller pivots are used with this magnitude.
    smallest: T::Real,
    filled: Filled,
    /// Components of the values.
    lu: GlobalMut<T::Real>,
}

impl<T: Field> Factors<T> {
    /// Value `p`.
    #[inlined]
    fn get(self, p: usize) -> T {
        T::from_components(|c| self.lu.get(p * T::COMPONENTS + c))
    }

    /// Writes value `p`.
    #[inlined]
    fn set(self, p: usize, value: T) {
        value.for_components(|c, component| self.lu.set(p * T::COMPONENTS + c, component));
    }

    /// Adds to value `p`, which others may add to, and nobody reads now: to each component atomically.
    #[inlined]
    fn add(self, p: usize, value: T) {
        value.for_components(|c, component| {
            self.lu.atomic(p * T::COMPONENTS + c).reduce_add(
                component,
                Ordering::Relaxed,
                Scope::Device,
            );
        });
    }

    /// Position of the pivot of column `k`, by columns.
    #[inlined]
    fn diagonal(self, k: usize) -> u64 {
        self.filled
            .csr_to_csc
            .get(self.filled.diag_pos.get(k) as usize)
    }

    #[inlined]
    fn pivot(self, diagonal: u64) -> T {
        usable_pivot(self.get(diagonal as usize), self.smallest)
    }

    /// Position of row `i` in `begin..end`, where it is; rows increase.
    #[inlined]
    fn find(self, i: u32, begin: u64, end: u64) -> u64 {
        lower_bound(begin, end, |p| self.filled.row_idx.get(p as usize) < i)
    }
}

/// Puts the entries of B in their places: `lu[positions[p]] = b[p]`.
///
/// Threads: one an entry, grid-strided. Writes: positions are distinct, so each place has one writer.
/// Precondition: the rest of `lu` is zero.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(1024),
    require(positions.len() == b.len())
)]
pub unsafe fn scatter_values<T: Field>(positions: Global<u64>, b: Global<T>, lu: GlobalMut<T>) {
    for p in thread::grid_stride(b.len()) {
        lu.set(positions.get(p) as usize, b.get(p));
    }
}

/// Largest of `value` over the warp.
#[inlined]
fn warp_max(value: u64) -> u64 {
    warp::fold(warp::WARP_SIZE, value, |max, other| {
        if other > max { other } else { max }
    })
}

/// Divides L by the pivots, stores replaced pivots, and reports on the factors.
///
/// `counters` and `extremes` hold what [`counter`] and [`extreme`] say, and start at what is said
/// there.
///
/// Threads: a warp a column, grid-strided. Writes: the warp of column k alone writes its values;
/// lane 0 stores the pivot behind a `sync_warp`, which all lanes reach after they read it. Counters and extremes by
/// atomics. Launch: 1-D, a multiple of 32 threads.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(1024),
    require(
        filled.csr_to_csc.len() == lu.len(),
        filled.col_ptr.len() == filled.diag_pos.len() + 1,
        counters.len() == counter::LEN,
        extremes.len() == extreme::LEN
    )
)]
pub unsafe fn lu_finish<T: Field>(
    smallest: T::Real,
    filled: Filled,
    lu: GlobalMut<T>,
    counters: GlobalMut<u32>,
    extremes: GlobalMut<u64>,
) {
    let n = filled.diag_pos.len();
    let lane = u64::from(thread::lane_id());
    let warps = (thread::num_threads_1d() / warp::WARP_SIZE) as usize;
    let mut k = (thread::index_1d() / warp::WARP_SIZE) as usize;
    while k < n {
        let diagonal = filled.csr_to_csc.get(filled.diag_pos.get(k) as usize);
        let col_end = filled.col_ptr.get(k + 1);
        let came = lu.get(diagonal as usize);
        let pivot = usable_pivot(came, smallest);
        let size = pivot.magnitude().to_f64();
        let mut finite = pivot.is_number();
        let mut max_u = size.to_bits();
        let mut p = filled.col_ptr.get(k) + lane;
        while p < diagonal {
            let u = lu.get(p as usize);
            finite &= u.is_number();
            let u = u.magnitude().to_f64().to_bits();
            if u > max_u {
                max_u = u;
            }
            p += u64::from(warp::WARP_SIZE);
        }
        let mut p = diagonal + 1 + lane;
        while p < col_end {
            let l = lu.get(p as usize).quotient(pivot);
            finite &= l.is_number();
            lu.set(p as usize, l);
            p += u64::from(warp::WARP_SIZE);
        }
        let max_u = warp_max(max_u);
        let finite = warp::vote_all(warp::FULL_MASK, finite);
        // Lane 0 overwrites the pivot that every lane read.
        warp::sync_warp(warp::FULL_MASK);
        if lane == 0 {
            let first = |which: usize| {
                counters
                    .atomic(which)
                    .fetch_min(k as u32, Ordering::Relaxed, Scope::Device);
            };
            if came.magnitude() < smallest {
                lu.set(diagonal as usize, pivot);
                counters.atomic(counter::NUM_PERTURBED).reduce_add(
                    1,
                    Ordering::Relaxed,
                    Scope::Device,
                );
                first(counter::FIRST_PERTURBED);
            }
            if size == 0.0 {
                first(counter::FIRST_ZERO);
            }
            if !finite {
                first(counter::FIRST_NOT_FINITE);
            }
            extremes
                .atomic(extreme::MAX_U)
                .fetch_max(max_u, Ordering::Relaxed, Scope::Device);
            extremes.atomic(extreme::MIN_PIVOT).fetch_min(
                size.to_bits(),
                Ordering::Relaxed,
                Scope::Device,
            );
            extremes.atomic(extreme::MAX_PIVOT).fetch_max(
                size.to_bits(),
                Ordering::Relaxed,
                Scope::Device,
            );
        }
        k += warps;
    }
}
