//! Growth of factors L·D·Lᵀ that are there, by columns.
//!
//! For column k of B the growth is ‖ P·e_k ‖₁ / ‖B·e_k‖₁ with P = |L|·|D|·|Lᵀ|, which bounds the error of the factors (Higham,
//! *Accuracy and Stability of Numerical Algorithms*, theorem 11.3). P is symmetric, so the sums over its columns are those over its
//! rows, P·e = |L|·(|D|·(|Lᵀ|·e)): |L| summed up by columns, times the blocks of |D|, times the rows of |L|, of which each front
//! that has the row adds its own part.
//!
//! A second vector takes the place of e: v(i) = min s / s(i), with the scale factors s of B = S·A·S. Column k of v-weighted sums, by
//! v(k), is that of S⁻¹·P·S⁻¹ times (min s)²: what bounds the error for A, however far apart the factors are.
//!
//! # Sums in any order
//!
//! As those of [L·U](super): in integers, in units of 2⁻¹² of a power of two next to the norm of the column, and of 2⁻³² where they
//! are weighted. Each part is rounded up, so a sum is at least what it should be. Where the growth is below [`MOST_GROWTH`], no sum
//! leaves the integers; else none is told.

use luge_kernel::prelude::*;

use super::columns::{Column, Columns};
use super::panels::{Front, PanelsOfL, for_pivots};
use super::sums::{
    Found, MOST_PRODUCT, PRODUCT_BITS, add_units, for_groups, joined, leave_measures, own_measures,
    power_of_two, scale, sum_of_copies,
};
use super::{GROUP, TILE_ROWS, Tile, measure};
use crate::frontal::solve::layout::FrontRecord;
use crate::frontal::symmetric::{Form, spectrum_of_two};
use crate::maxima::{MAX_WARPS, raise};

/// Growth up to which sums are told.
pub const MOST_GROWTH: f64 = 1048576.0;

/// There are 2 to this power units of a weighted product in its scale.
const WEIGHTED_BITS: i32 = 32;

/// Larger weighted products count as this many units. A column that has one has a larger growth than [`MOST_GROWTH`].
const MOST_WEIGHTED: u64 = 1 << 58;

/// Sums for each column: of P, and weighted.
pub const SUMS: usize = 2;

/// The tree and its factors.
#[derive(Clone, Copy, KernelArgs)]
pub struct SymmetricChecked<T: Field> {
    /// The fronts.
    pub fronts: Records<FrontRecord>,
    /// The front of each pivot.
    pub front_of: Global<u32>,
    /// The unknown of each row below a front, all in the order of elimination.
    pub row_idx: Global<u32>,
    /// Where rows of pivots were before: see [`invert_places`](fn@crate::frontal::solve::prepare::invert_places).
    pub order: Global<u32>,
    /// The panels.
    pub factors: Global<T>,
    /// D: two values for each pivot.
    pub diagonal: Global<T>,
    /// Parts of the rows of the fronts, those of pivots included, [`GROUP`] each: `row` counts pivots, `column` rows.
    pub tiles: Records<Tile>,
    /// Exponents of scale factors, in the order of elimination.
    pub exponents: Global<i32>,
    /// The smallest of them.
    pub least_exponent: i32,
    /// Whether D is Hermitian.
    pub hermitian: u32,
}

/// What is summed up, in the order of elimination.
#[derive(Clone, Copy, KernelArgs)]
pub struct SymmetricSums {
    /// ‖·‖₁ of each segment of B.
    pub segment_norms: GlobalMut<f64>,
    /// The same of values of A.
    pub segment_values: GlobalMut<f64>,
    /// ‖B·e_k‖₁.
    pub norms: GlobalMut<f64>,
    /// For each pivot vᵀ-weighted and plain sums of its column of |L|, [`SUMS`] of them: those of |Lᵀ|·e and |Lᵀ|·v until
    /// [`apply_pivots`](fn@apply_pivots) has multiplied them with |D|.
    pub sizes: GlobalMut<f64>,
    /// [`SUMS`] for each column, in copies, which are summed up at the end. See [`copies_of_sums`](super::copies_of_sums).
    pub products: GlobalMut<u64>,
    /// For each column the smaller magnitude of an eigenvalue of its pivot; infinite where that is an accepted zero.
    pub pivots: GlobalMut<f64>,
    /// See [`measure`].
    pub measures: GlobalMut<u64>,
    /// The largest of the copies of each measure, which may be memory of the host.
    pub found: GlobalMut<u64>,
}

impl SymmetricSums {
    /// Number of copies of the sums.
    #[inlined]
    fn copies(self) -> u32 {
        (self.products.len() as u32)
            .checked_div((SUMS * self.norms.len()) as u32)
            .unwrap_or(1)
    }
}

impl<T: Field> SymmetricChecked<T> {
    #[inlined]
    fn panels(self) -> PanelsOfL<T> {
        PanelsOfL {
            factors: self.factors,
            order: self.order,
            row_idx: self.row_idx,
        }
    }

    /// v of a row.
    #[inlined]
    fn weight(self, row: u32) -> f64 {
        power_of_two(self.least_exponent - self.exponents.get(row as usize))
    }

    /// The column of B that pivot `e` is of.
    #[inlined]
    fn column_of(self, e: u32) -> u32 {
        let front = Front::of(self.fronts, self.front_of.get(e as usize));
        self.panels().pivot_row(front, e - front.start)
    }
}

/// Sums up the segments of B, and clears the measures.
///
/// Threads: a grid-stride loop, then a [group](GROUP) of lanes a segment. Writes: `segment_norms` and `segment_values` of a segment by
/// its group alone; `measures` by the first threads of the grid. Shared memory: none. Launch: 1-D, a multiple of 32 threads.
/// Preconditions: the columns have rows below n and places of values.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(256),
    require(
        columns.rows.len() == columns.source.len(),
        sums.segment_norms.len() == columns.segments.len(),
        sums.segment_values.len() == columns.segments.len(),
        sums.measures.len() == measure::WORDS
    )
)]
pub unsafe fn begin_symmetric_check<T: Field>(columns: Columns<T::Wide>, sums: SymmetricSums) {
    for which in thread::grid_stride(measure::WORDS) {
        sums.measures.set(which, 0);
    }
    columns.for_segments::<T>(|at, column| {
        sums.segment_norms.set(at, column.norm);
        sums.segment_values.set(at, column.norm_in_a);
    });
}

/// Sums up each column of B and of |L|, and begins the sums over columns of P.
///
/// Threads: a [group](GROUP) of lanes a column, in a grid stride. Writes: `norms`, `sizes`, and all copies of `products` of a column
/// by its group alone; `measures` by atomics. Shared memory: static, 0.1 KB. Launch: 1-D, a multiple of 32 threads. Preconditions:
/// those of [`begin_symmetric_check`](fn@begin_symmetric_check), behind which it is; `front_of` names for each pivot a front that has
/// it; `factors` has the panels of all fronts; exponents are within ±400.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(256),
    require(
        columns.rows.len() == columns.source.len(),
        columns.segment_ptr.len() == columns.col_ptr.len(),
        columns.col_ptr.len() == checked.front_of.len() + 1,
        checked.exponents.len() == checked.front_of.len(),
        sums.norms.len() == checked.front_of.len(),
        sums.sizes.len() == SUMS * checked.front_of.len(),
        sums.products.len() >= SUMS * checked.front_of.len(),
        sums.measures.len() == measure::WORDS
    )
)]
pub unsafe fn sum_up_columns<T: Field>(
    checked: SymmetricChecked<T>,
    columns: Columns<T::Wide>,
    sums: SymmetricSums,
) {
    let n = checked.front_of.len() as u32;
    let copies = sums.copies();
    let mut found = Found::<1>::NONE;
    for_groups(n, |e, lane| {
        let mut column = Column::NONE;
        let mut sizes = [0.0; SUMS];
        if e < n {
            column = columns.of_lane::<T>(e, lane, |at| Column {
                norm: sums.segment_norms.get(at),
                norm_in_a: sums.segment_values.get(at),
                ..Column::NONE
            });
            let front = Front::of(checked.fronts, checked.front_of.get(e as usize));
            let place = (front, e - front.start);
            checked.panels().for_column(place, lane, |entry, row| {
                let size = entry.widen().magnitude();
                sizes[0] += size;
                sizes[1] += size * checked.weight(row);
            });
        }
        let Column {
            norm, norm_in_a, ..
        } = column.joined();
        let sizes = [joined(sizes[0]), joined(sizes[1])];
        found.largest(0, norm_in_a);
        if e < n && lane == 0 {
            sums.norms.set(e as usize, norm);
            sums.sizes.set(SUMS * e as usize, sizes[0]);
            sums.sizes.set(SUMS * e as usize + 1, sizes[1]);
        }
        let mut copy = lane;
        while e < n && copy < copies {
            let at = SUMS * (copy * n + e) as usize;
            sums.products.set(at, 0);
            sums.products.set(at + 1, 0);
            copy += GROUP;
        }
    });
    let of_warps = shared_array![u64; MAX_WARPS];
    let first = own_measures() + measure::VALUE;
    raise(sums.measures, first, found.measures, of_warps);
}

/// Multiplies the sums of |L| with |D|, and notes the sizes of pivots.
///
/// Threads: a grid-stride loop, a pivot an iteration; the one of the first of a pivot of order 2 has both. Writes: `sizes` of a pivot,
/// and `pivots` of its columns, by its thread alone. Shared memory: none. Launch: 1-D, any size, behind
/// [`sum_up_columns`](fn@sum_up_columns). Preconditions: its own; no entry couples the last pivot with another.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(256),
    require(
        checked.diagonal.len() == 2 * checked.front_of.len(),
        sums.pivots.len() == checked.front_of.len(),
        sums.sizes.len() == SUMS * checked.front_of.len()
    )
)]
pub unsafe fn apply_pivots<T: Field>(checked: SymmetricChecked<T>, sums: SymmetricSums) {
    let form = Form {
        is_hermitian: checked.hermitian != 0,
    };
    let size = |entry: T| entry.magnitude().to_f64();
    for e in thread::grid_stride(checked.front_of.len()) {
        let (d, off) = (checked.diagonal.get(2 * e), checked.diagonal.get(2 * e + 1));
        let is_second = e > 0 && checked.diagonal.get(2 * e - 1) != T::ZERO;
        let own = checked.column_of(e as u32) as usize;
        let (at, next) = (SUMS * e, SUMS * (e + 1));
        if !is_second && off == T::ZERO {
            let pivot = if d == T::ZERO { f64::INFINITY } else { size(d) };
            sums.pivots.set(own, pivot);
            let mut which = 0;
            while which < SUMS {
                sums.sizes
                    .set(at + which, size(d) * sums.sizes.get(at + which));
                which += 1;
            }
        } else if !is_second {
            let d_next = checked.diagonal.get(2 * e + 2);
            let (_, [small, _]) = spectrum_of_two([d, off, d_next], form);
            let other = checked.column_of(e as u32 + 1) as usize;
            sums.pivots.set(own, small.to_f64());
            sums.pivots.set(other, small.to_f64());
            let mut which = 0;
            while which < SUMS {
                let of_both = [at, next].map(|at| sums.sizes.get(at + which));
                let first = size(d) * of_both[0] + size(off) * of_both[1];
                let second = size(off) * of_both[0] + size(d_next) * of_both[1];
                sums.sizes.set(at + which, first);
                sums.sizes.set(next + which, second);
                which += 1;
            }
        }
    }
}

/// Adds rows of |L| times what [`apply_pivots`](fn@apply_pivots) left.
///
/// Threads: a [group](GROUP) of lanes a tile, a lane a row; in a grid stride. Writes: `products` by atomics, to integers. Shared
/// memory: none. Launch: 1-D, a multiple of 32 threads, behind [`apply_pivots`](fn@apply_pivots). Preconditions: its own, and those of
/// [`sum_up_columns`](fn@sum_up_columns); the tiles are parts of fronts.
#[kernel(T = [f32, f64, Complex<f32>, Complex<f64>], max_threads(256), require(
    sums.norms.len() == checked.front_of.len(),
    sums.products.len() >= SUMS * checked.front_of.len()
))]
pub unsafe fn sum_up_rows<T: Field>(checked: SymmetricChecked<T>, sums: SymmetricSums) {
    let copy = (thread::block_idx_x() & (sums.copies() - 1)) as usize * sums.norms.len();
    let tiles = checked.tiles.len() as u32;
    for_groups(tiles, |number, lane| {
        if number >= tiles {
            return;
        }
        let tile = checked.tiles.get(number as usize);
        let front = Front::of(checked.fronts, tile.front());
        let row = tile.column() + lane;
        if row >= front.pivots + front.below {
            return;
        }
        let end = front.pivots.min(tile.row() + TILE_ROWS);
        let size = |j: u32| {
            let at = SUMS * (front.start + j) as usize;
            [sums.sizes.get(at), sums.sizes.get(at + 1)]
        };
        let mut products = [0.0; SUMS];
        // L has a one on the diagonal, and what is above it is of no use.
        if tile.row() <= row && row < end {
            products = size(row);
        }
        let read = |j: u32| {
            let entry = checked.factors.get(front.column(j) + row as usize);
            (entry, size(j))
        };
        for_pivots(
            (tile.row(), end.min(row)),
            1,
            [0.0; SUMS],
            read,
            |entry, sizes| {
                let entry = entry.widen().magnitude();
                products[0] += entry * sizes[0];
                products[1] += entry * sizes[1];
            },
        );
        let k = if row < front.pivots {
            checked.panels().pivot_row(front, row)
        } else {
            checked.panels().row_below(front, row - front.pivots)
        };
        let exponent = scale(sums.norms.get(k as usize));
        let at = SUMS * (copy + k as usize);
        let scaled = products[0] * power_of_two(PRODUCT_BITS - exponent);
        add_units(sums.products, at, scaled, MOST_PRODUCT);
        let scaled = products[1] * power_of_two(WEIGHTED_BITS - exponent);
        add_units(sums.products, at + 1, scaled, MOST_WEIGHTED);
    });
}

/// Measures what was summed up.
///
/// Threads: a grid-stride loop, a column an iteration. Writes: `measures` by atomics; `found` by the last block to finish. Shared
/// memory: static, 0.4 KB. Launch: 1-D, a multiple of 32 threads, behind [`sum_up_rows`](fn@sum_up_rows). Preconditions: those of [`sum_up_columns`](fn@sum_up_columns).
#[kernel(T = [f32, f64, Complex<f32>, Complex<f64>], max_threads(256), require(
    checked.exponents.len() == checked.front_of.len(),
    sums.pivots.len() == checked.front_of.len(),
    sums.measures.len() == measure::WORDS,
    sums.found.len() == measure::LEN
))]
pub unsafe fn measure_products<T: Field>(checked: SymmetricChecked<T>, sums: SymmetricSums) {
    let mut found = Found::<{ measure::OF_SUMS }>::NONE;
    let (n, copies) = (checked.front_of.len(), sums.copies() as usize);
    for e in thread::grid_stride(n) {
        let norm = sums.norms.get(e);
        let exponent = scale(norm);
        let of = |which: usize| sum_of_copies(sums.products, copies, SUMS * n, SUMS * e + which);
        let product = of(0) as f64 * power_of_two(exponent - PRODUCT_BITS);
        // Of a column of zeros it is no number.
        let growth = product / norm;
        let is_told = growth <= MOST_GROWTH;
        let growth = if is_told || growth.is_nan() {
            growth
        } else {
            f64::INFINITY
        };
        let weighted = if is_told {
            of(1) as f64 * power_of_two(exponent - WEIGHTED_BITS)
        } else {
            f64::INFINITY
        };
        found.largest(measure::GROWTH, growth);
        found.largest(measure::NORM, norm);
        found.smallest(measure::LEAST_NORM, norm);
        found.largest(measure::PRODUCT, weighted * checked.weight(e as u32));
        found.smallest(measure::LEAST_RELATIVE_PIVOT, sums.pivots.get(e) / product);
    }
    let of_warps = shared_array![u64; measure::OF_SUMS * MAX_WARPS];
    raise(sums.measures, own_measures(), found.measures, of_warps);
    leave_measures(sums.measures, sums.found);
}
