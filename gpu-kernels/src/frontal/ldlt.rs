//! Multifrontal LDLᵀ of symmetric matrices, from the leaves of the assembly tree to its roots in one launch.
//!
//! I. S. Duff and J. K. Reid, "The multifrontal solution of indefinite sparse symmetric linear equations", ACM Trans. Math.
//! Software 9 (1983); on a GPU J. Hogg, E. Ovtchinnikov and J. Scott, "A sparse symmetric indefinite direct solver for GPU
//! architectures", ACM Trans. Math. Software 42 (2016).
//!
//! # A front
//!
//! Work goes as in [`lu`](super::lu), on small fronts, whole ones and tiles, but of a front only the lower triangle is
//! assembled, eliminated and kept, with D on the diagonal: of a pivot of order 2 in columns j and j + 1, D's entry that
//! couples them is in row j of column j + 1. Elements of small fronts have both triangles, those of large ones the lower.
//! Every entry is one chain of operations in an order that neither the schedule nor the grid enters.
//!
//! # Pivots
//!
//! [`ldlt_fronts_search`](fn@ldlt_fronts_search) looks for pivots of order 1 and 2 by threshold partial pivoting: in small
//! and whole fronts among all columns of the front's pivots, with all its rows; in fronts of several tiles within the
//! tile on the diagonal, and the tiles below it are checked a posteriori. The first candidate with an acceptable pivot is
//! taken, with that of order 1 or 2 that bounds L better. Pivots that are known are tried first, and kept as long as L is bounded
//! as the search is told. Where none is acceptable, columns are left out and marked: they
//! have to be eliminated later in the front, or with its parent. In a launch without marks,
//! the search has found where each row and column goes, and the kind of each pivot.
//!
//! [`ldlt_fronts`](fn@ldlt_fronts) puts rows and columns there from the start and searches nothing. Its report tells the
//! largest entry of L: if it is within the bound, so are these pivots for these values, a posteriori.
//!
//! [`ldlt_fronts_signed`](fn@ldlt_fronts_signed) takes the diagonal in its order, and replaces pivots that have not the sign that
//! is expected of them (R. J. Vanderbei, "Symmetric quasidefinite matrices", SIAM J. Optim. 5, 1995). It is a kernel of its own
//! since what it looks up for each pivot would be waited for by the others too.

use luge_kernel::prelude::*;

use super::large::{FrontField, LargeFronts, LargeSymmetric, NUM_WORDS};
use super::plan::{self, ExpectedPivots, LargePlan, SmallPlan, SymmetricWork, TILE, Work};
use super::small::SmallFronts;
use super::small_symmetric::SmallSymmetric;
use super::symmetric::AnySign;
use super::work::Seen;

/// Defines a kernel that factorizes; they differ in how they come by pivots, and in what is expected of these, which may be an
/// argument of the kernel.
macro_rules! factorization {
    (
        $(#[$doc:meta])*
        $name:ident: [$($types:tt)*], $search:literal, $expectation:ident;
        ($work:ident $(, $own:ident: $own_type:ident)?)
        require($($require:tt)*)
    ) => {
        $(#[$doc])*
        #[kernel(
            T = [$($types)*],
            max_threads(256),
            min_blocks(2),
            require(
                small.fronts.len() == small.joined.len(),
                $work.source.len() == $work.places.len(),
                large.sums.len() >= 2,
                $work.arrived.len() == large.assembled.len(),
                $work.pivot_rows.len() == $work.row_places.len(),
                symmetric.diagonal.len() == 2 * $work.row_places.len(),
                $work.failed.len() == $work.row_places.len(),
                symmetric.found_places.len() == $work.row_places.len(),
                $work.state.len() == plan::state::LEN,
                $work.extremes.len() == plan::report::NUM_EXTREMES,
                $work.report.len() == plan::report::LEN,
                $($require)*
            )
        )]
        pub unsafe fn $name<T: FrontField>(
            $work: Work<T>,
            symmetric: SymmetricWork<T>,
            $($own: $own_type<T>,)?
            small: SmallPlan,
            large: LargePlan,
        ) {
            let words = shared_array![u32; NUM_WORDS];
            let rows = shared_array![u32; plan::WHOLE_FRONT as usize];
            let columns = shared_array![u32; plan::WHOLE_FRONT as usize];
            let kinds = shared_array![u32; plan::WHOLE_FRONT as usize];
            let verdicts = shared_array![u32; plan::WHOLE_FRONT as usize];
            let shared = dynamic_shared::<T>(0, plan::BLOCK_VALUES as usize);
            let warp = thread::thread_idx_x() / warp::WARP_SIZE;
            let small_fronts = SmallFronts {
                work: $work,
                kind: SmallSymmetric {
                    work: symmetric,
                    expectation: $expectation,
                },
                plan: small,
                values: shared,
                base: warp * plan::SMALL_VALUES,
            };
            let large_fronts = LargeFronts::<T, TILE, LargeSymmetric<T, _>> {
                work: $work,
                kind: LargeSymmetric {
                    work: symmetric,
                    expectation: $expectation,
                    kinds,
                    column_places: columns,
                    verdicts,
                },
                plan: large,
                values: shared,
                words,
                row_places: rows,
            };
            let mut seen = Seen::nothing();
            // The first launch of a factorization works on all of these.
            if $work.goes_on == 0 {
                small_fronts.run::<$search>(&mut seen);
            }
            large_fronts.run::<$search>(&mut seen);
            $work.finish::<true, $search>(seen);
        }
    };
}

factorization! {
    /// Factorizes P·B·Pᵀ = L·D·Lᵀ in the fronts of an assembly tree, with pivots as a search found them.
    ///
    /// The records of the plans are those of the module [`plan`], as for [`lu_fronts`](fn@super::lu::lu_fronts), but: a front's
    /// panel has its (k + c) × k values and no others; of tiles there are those on and below the diagonal; places
    /// and sums on the diagonal are those of rows not above columns; and elements are lower triangles
    /// ([`plan::element_column`]). Row and column i of a front's pivots, which begin with pivot s, come to lie in row and column `row_places[s + i]`, and `pivot_rows` has the
    /// [kinds](plan::kind) of pivots in the order in which they lie there; a pivot of order 2 lies in one tile.
    ///
    /// A pivot below `smallest` counts as zero. Where its column does not, or where the determinant of a pivot of order 2
    /// is little but rounding, the largest entry of L is reported as infinite.
    ///
    /// Threads, writes, orders, launch and preconditions: as there. Also writes D, for each pivot whoever eliminates it; tiles
    /// read it behind the flag of the tile on the diagonal.
    ldlt_fronts: [f32, f64, Complex<f32>, Complex<f64>: min_blocks(1)], false, AnySign;
    (work)
    require()
}

factorization! {
    /// As [`ldlt_fronts`](fn@ldlt_fronts), but keeps the pivots only where no entry of L exceeds `known_l`, or `known_l_of_tile`
    /// on the diagonal of a front of several tiles with others below, and else searches. Where rows and columns go is written to
    /// `found_places`, and to `pivot_rows` the kinds of the pivots there. If the report counts nothing as searched, nor as failed,
    /// both are as before, and the factors those of [`ldlt_fronts`](fn@ldlt_fronts). Else rows of the factors may be where they
    /// were before.
    ///
    /// For a pivot that no acceptable one was found for, or whose column of L has an entry above `max_l` in the tiles below,
    /// `failed` has the epoch. What it leaves as factors is of no use.
    ///
    /// Threads, writes, orders, launch and preconditions: as there.
    ldlt_fronts_search: [f32, f64, Complex<f32>, Complex<f64>: min_blocks(1)], true, AnySign;
    (work)
    require()
}

factorization! {
    /// As [`ldlt_fronts`](fn@ldlt_fronts) with pivots of order 1 in the order of the plan, of which signs are expected: `pivot_rows`
    /// is zero, and `row_places` counts the pivots of each front. A pivot that has not the sign of the one that is
    /// [expected](ExpectedPivots), or is at most `threshold` times as large, is replaced by that, counted, and written to
    /// `expected.replaced`. One that is not a number stays, and is reported.
    ///
    /// Threads, writes, orders, launch and preconditions: as there. Also writes, of `expected.replaced`, the place whose number it
    /// drew: whoever replaces a pivot. What is expected of pivots is not zero.
    ldlt_fronts_signed: [f32, f64, Complex<f32>, Complex<f64>: min_blocks(1)], false, expected;
    (work, expected: ExpectedPivots)
    require(
        expected.pivots.len() == work.row_places.len(),
        expected.replaced.len() == work.row_places.len()
    )
}
