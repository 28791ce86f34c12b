//! Multifrontal LU with static pivots, from the leaves of the assembly tree to its roots in one launch.
//!
//! I. S. Duff and J. K. Reid, "The multifrontal solution of unsymmetric sets of linear equations", SIAM J. Sci. Stat.
//! Comput. 5 (1984).
//!
//! # A front
//!
//! A front gets its entries of B, then the elements of its children in a fixed order; then the columns of its pivots
//! are eliminated, and what is left below is the element for the parent. Small fronts are a warp's, large ones a
//! block's or several blocks' (see [`plan`]). Every entry is one chain of operations in an order that
//! neither the schedule nor the grid enters: factors are the same bits in every run.
//!
//! # Pivots
//!
//! [`lu_fronts_search`](fn@lu_fronts_search) takes for each pivot the largest entry of its column among the rows of the
//! front's pivots, in a front of several tiles among those of the tile on the diagonal, if the diagonal is small
//! against it. It notes where that puts each row; [`lu_fronts`](fn@lu_fronts) puts the rows there from the start, and
//! exchanges nothing. What the former leaves as factors is of use only if no rows were exchanged. In wide fronts candidates
//! are those of half a tile, so tiles of both sizes have the same.
//!
//! Where L is to be bounded, a search looks at all rows of a column, in a front of several tiles at those of the tile and a
//! posteriori at the tiles below. A column that none of the candidates is large enough for is left out of L, and marked. It
//! gets the row that stands on its diagonal, or if column c has taken that, the row on the diagonal of column c, and so
//! on: so the columns on this way have the rows of the same numbers among themselves, and these rows and columns can be
//! eliminated later, in the front or with its parent. Columns that stay may fail then, since those on the way that had pivots
//! update them no longer. In a launch without marks the search has found the place of each row.
//!
//! # Wide fronts
//!
//! Of complex numbers no tile has room in the shared memory, so no front is wide. Where there are some, [`lu_wide_fronts_search`](fn@lu_wide_fronts_search) and [`lu_wide_fronts`](fn@lu_wide_fronts)
//! go on where those have ended. Where elements would take too much memory, both take turns.

use luge_kernel::prelude::*;

use super::large::{FrontField, LargeFronts, NUM_WORDS};
use super::plan::{self, LargePlan, SmallPlan, TILE, WIDE_TILE, Work};
use super::small::SmallFronts;
use super::symmetric::Lu;
use super::work::Seen;

/// Defines a kernel that factorizes; they differ in how they come by pivots. Of complex numbers the shared memory holds one
/// block, which so may have all registers.
macro_rules! factorization {
    ($(#[$doc:meta])* $name:ident, $search:literal) => {
        $(#[$doc])*
        #[kernel(
            T = [f32, f64, Complex<f32>, Complex<f64>: min_blocks(1)],
            max_threads(256),
            min_blocks(2),
            require(
                small.fronts.len() == small.joined.len(),
                work.source.len() == work.places.len(),
                large.sums.len() >= 2,
                work.arrived.len() == large.assembled.len(),
                work.pivot_rows.len() == work.row_places.len(),
                work.failed.len() == work.row_places.len(),
                work.state.len() == plan::state::LEN,
                work.extremes.len() == plan::report::NUM_EXTREMES,
                work.report.len() == plan::report::LEN
            )
        )]
        pub unsafe fn $name<T: FrontField>(work: Work<T>, small: SmallPlan, large: LargePlan) {
            let words = shared_array![u32; NUM_WORDS];
            let rows = shared_array![u32; plan::WHOLE_FRONT as usize];
            let shared = dynamic_shared::<T>(0, plan::BLOCK_VALUES as usize);
            let warp = thread::thread_idx_x() / warp::WARP_SIZE;
            let small_fronts = SmallFronts {
                work,
                kind: Lu,
                plan: small,
                values: shared,
                base: warp * plan::SMALL_VALUES,
            };
            let large_fronts = LargeFronts::<T, TILE, Lu> {
                work,
                kind: Lu,
                plan: large,
                values: shared,
                words,
                row_places: rows,
            };
            let mut seen = Seen::nothing();
            // The first launch of a factorization works on all of these.
            if work.goes_on == 0 {
                small_fronts.run::<$search>(&mut seen);
            }
            large_fronts.run::<$search>(&mut seen);
            work.finish::<false, $search>(seen);
        }
    };
}

factorization! {
    /// Factorizes B = L·U in the fronts of an assembly tree, with rows placed as a search found.
    ///
    /// The records of the plans are those of the module [`plan`].
    /// Behind the last sum are one with its end and one more, and an addend: these may be read in vain; if there are tasks
    /// there are entries too. Sum q goes to the place `sums[q].place` and
    /// consists of the entries `addends[sums[q].first..sums[q + 1].first]` of the elements. Value `source[e]` of A goes to
    /// `places[e]`. Row i below a front's pivots is row `relative[r + i]` of its parent, r being `relative` of a piece.
    /// Row i of a front's pivots, which begin with pivot s, comes to lie in row `row_places[s + i]`.
    ///
    /// A pivot below `smallest` is replaced by ± `smallest`. The report has the extremes and the number of those.
    ///
    /// Threads: a warp a run of small fronts, then a block a task. Writes: the panels and the element of a front, or of
    /// a tile, by those who work on it. Orders: an arrival counted at the parent, or a tile's flag, is a release behind
    /// the writes and an acquire before the reads. Elements are written where others were: of small fronts below a child,
    /// which the arrivals order, and of those that the waits of a task tell; that a task has its pieces of elements is
    /// counted by a release behind the reads, with an acquire before the writes. The last block to finish makes the report.
    ///
    /// Launch: 1-D, [`THREADS`](super::plan::THREADS) threads, [`BLOCK_VALUES`](super::plan::BLOCK_VALUES) values of dynamic shared memory. Preconditions: the records are
    /// a valid plan; `joined`, `arrived`, `assembled` and `flags` are zero before the first factorization, whose `epoch` is 1, and
    /// then left alone, the epoch being one more each time; `state` and `extremes` are zero.
    lu_fronts, false
}

factorization! {
    /// As [`lu_fronts`](fn@lu_fronts), but looks for pivots, and writes `row_places` instead of reading them.
    ///
    /// The diagonal is taken if it reaches `threshold` times the largest candidate. `pivot_rows[p]` is the row that
    /// changes places with the row of pivot p before it is eliminated, counted within the front.
    ///
    /// Unless `max_l` is infinite, for a column that L would have a larger entry in `failed` has the epoch, and the report
    /// counts them. Then what it leaves as factors is of no use.
    ///
    /// Threads, writes, orders, launch and preconditions: as there.
    lu_fronts_search, true
}

/// Factorizes the small fronts of an assembly tree alone, with twice the warps at work that [`lu_fronts`](fn@lu_fronts) of
/// complex numbers has registers for; that goes on with the others.
///
/// Threads: a warp a run of small fronts. Writes and orders: as there.
///
/// Launch: 1-D, [`THREADS`](super::plan::THREADS) threads, [`SMALL_BLOCK_VALUES`](super::plan::SMALL_BLOCK_VALUES) values of
/// dynamic shared memory. Preconditions: as there; this is the first launch of a factorization.
#[kernel(
    T = [Complex<f64>],
    max_threads(256),
    min_blocks(2),
    require(
        small.fronts.len() == small.joined.len(),
        work.source.len() == work.places.len(),
        work.pivot_rows.len() == work.row_places.len(),
        work.failed.len() == work.row_places.len(),
        work.state.len() == plan::state::LEN,
        work.extremes.len() == plan::report::NUM_EXTREMES,
        work.report.len() == plan::report::LEN
    )
)]
pub unsafe fn lu_small_fronts<T: FrontField>(work: Work<T>, small: SmallPlan) {
    let warp = thread::thread_idx_x() / warp::WARP_SIZE;
    let small_fronts = SmallFronts {
        work,
        kind: Lu,
        plan: small,
        values: dynamic_shared::<T>(0, plan::SMALL_BLOCK_VALUES as usize),
        base: warp * plan::SMALL_VALUES,
    };
    let mut seen = Seen::nothing();
    small_fronts.run::<false>(&mut seen);
    work.finish::<false, false>(seen);
}

/// Defines a kernel that factorizes wide fronts; they differ in how they come by pivots.
macro_rules! wide_factorization {
    ($(#[$doc:meta])* $name:ident, $search:literal) => {
        $(#[$doc])*
        #[kernel(
            T = [f32, f64],
            max_threads(256),
            require(
                work.source.len() == work.places.len(),
                wide.sums.len() >= 2,
                work.pivot_rows.len() == work.row_places.len(),
                work.failed.len() == work.row_places.len(),
                work.state.len() == plan::state::LEN,
                work.extremes.len() == plan::report::NUM_EXTREMES,
                work.report.len() == plan::report::LEN
            )
        )]
        pub unsafe fn $name<T: FrontField>(work: Work<T>, wide: LargePlan) {
            let words = shared_array![u32; NUM_WORDS];
            let rows = shared_array![u32; plan::WIDE_TILE as usize];
            let fronts = LargeFronts::<T, WIDE_TILE, Lu> {
                work,
                kind: Lu,
                plan: wide,
                values: dynamic_shared::<T>(0, plan::WIDE_VALUES as usize),
                words,
                row_places: rows,
            };
            let mut seen = Seen::nothing();
            fronts.run::<$search>(&mut seen);
            work.finish::<false, $search>(seen);
        }
    };
}

wide_factorization! {
    /// Factorizes wide fronts, after [`lu_fronts`](fn@lu_fronts) with those below them; its tasks are all on tiles of
    /// [`WIDE_TILE`] rows.
    ///
    /// Threads: a block a task. Writes and orders: as there; what launches before have written is there. The report is
    /// that of all launches so far.
    ///
    /// Launch: 1-D, [`THREADS`](super::plan::THREADS) threads, [`WIDE_VALUES`](super::plan::WIDE_VALUES) values of dynamic
    /// shared memory. Preconditions: as there; `epoch` is that of the launch before, where `more_follow` was not zero, and
    /// `goes_on` is not zero.
    lu_wide_fronts, false
}

wide_factorization! {
    /// As [`lu_wide_fronts`](fn@lu_wide_fronts), but looks for pivots, after
    /// [`lu_fronts_search`](fn@lu_fronts_search).
    ///
    /// Threads, writes, orders, launch and preconditions: as there.
    lu_wide_fronts_search, true
}
