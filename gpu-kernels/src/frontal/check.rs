//! Growth and checksum of factors L·U that are there, by columns.
//!
//! For column k of B the growth is ‖ |L|·|U|·e_k ‖₁ / ‖B·e_k‖₁, which bounds the error of the factors (Higham, *Accuracy and
//! Stability of Numerical Algorithms*, theorem 9.3), and the checksum |wᵀ·(B − L·U)·e_k| / ‖B·e_k‖₁ with a vector w of ±1, which
//! measures the error that is there (Huang and Abraham, "Algorithm-based fault tolerance for matrix operations", IEEE Trans.
//! Comput. 33, 1984). Both take sᵀ = wᵀ·L and |L| summed up by columns, then sᵀ·U. A column of L lies in one front, a column of
//! U in many: in the front that has its pivot, and in all fronts below that have it among theirs.
//!
//! # Sums in any order
//!
//! Nobody waits for anybody: what a front has for a column of U is added by atomics, to integers, whose sums are the same in any
//! order and every run. The unit is 2⁻⁵² of a power of two next to the norm of the column, so what is rounded off is as small as
//! rounding errors of `f64` are. Where the growth is below [`MOST_GROWTH`], no sum leaves the integers; else no checksum is told.

use luge_kernel::prelude::*;

use super::solve::layout::FrontRecord;
use crate::maxima::{MAX_WARPS, raise};

pub mod columns;
pub mod measure;
mod panels;
mod sums;
pub mod symmetric;

use columns::{Column, is_negative};
pub use columns::{Columns, SEGMENT, Segment};
use panels::{Front, PanelsOfL, for_pivots};
pub use sums::copies_of_sums;
use sums::{
    Found, MOST_PRODUCT, PRODUCT_BITS, add_units, for_groups, joined, leave_measures, own_measures,
    power_of_two, scale, sum_of_copies,
};

/// Growth up to which the checksum is told.
pub const MOST_GROWTH: f64 = 1024.0;

/// Lanes that work together: on a column of a panel, or on as many columns of U.
pub const GROUP: u32 = 8;

/// Rows of U of a [`Tile`], at most.
pub const TILE_ROWS: u32 = 64;

/// Threads of a block, at most.
pub const THREADS: u32 = 256;

/// Part of the rows of U right of the pivots' block of a front: up to [`TILE_ROWS`] rows, up to [`GROUP`] columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C)]
pub struct Tile {
    /// The front.
    pub front: u32,
    /// First row, counted in the front.
    pub row: u32,
    /// First column, counted behind the pivots.
    pub column: u32,
}

/// The tree and B.
#[derive(Clone, Copy, KernelArgs)]
pub struct Checked<T: Field> {
    /// The fronts.
    pub fronts: Records<FrontRecord>,
    /// The front of each pivot.
    pub front_of: Global<u32>,
    /// The unknown of each row below a front, all in the order of elimination.
    pub row_idx: Global<u32>,
    /// The exchanges of rows: see [`compose_exchanges`](fn@super::solve::prepare::compose_exchanges).
    pub order: Global<u32>,
    /// The panels.
    pub factors: Global<T>,
    /// Parts of the rows of U.
    pub tiles: Records<Tile>,
    /// Exponents, at most 0, of the weights of columns: how much less a column of B is in A than the largest scaling would make it.
    pub weights: Global<i32>,
}

/// What is summed up, in the order of elimination.
#[derive(Clone, Copy, KernelArgs)]
pub struct Sums<W: Field> {
    /// ‖·‖₁ of each segment of B.
    pub segment_norms: GlobalMut<f64>,
    /// wᵀ times each.
    pub segment_sums: GlobalMut<W>,
    /// Largest magnitude of a value of A in each.
    pub segment_values: GlobalMut<f64>,
    /// ‖B·e_k‖₁.
    pub norms: GlobalMut<f64>,
    /// wᵀ·L·e_k.
    pub weighted: GlobalMut<W>,
    /// ‖L·e_k‖₁.
    pub sizes: GlobalMut<f64>,
    /// wᵀ·(L·U − B)·e_k, of complex numbers each component, in units of 2⁻⁵² of a power of two next to
    /// the norm; in copies, which are summed up at the end. See [`copies_of_sums`].
    pub residuals: GlobalMut<u64>,
    /// ‖ |L|·|U|·e_k ‖₁ in units of 2⁻¹² of it, each addend rounded up; in as many copies.
    pub products: GlobalMut<u64>,
    /// Magnitudes of the pivots: of those that were there before until [`check_columns`](fn@check_columns) has compared them.
    pub pivots: GlobalMut<f64>,
    /// See [`measure`].
    pub measures: GlobalMut<u64>,
    /// The largest of the copies of each measure, which may be memory of the host.
    pub found: GlobalMut<u64>,
}

impl<W: Field> Sums<W> {
    /// Number of copies of the sums.
    #[inlined]
    fn copies(self) -> u32 {
        (self.products.len() as u32)
            .checked_div(self.norms.len() as u32)
            .unwrap_or(1)
    }

    /// Where the copy of this block begins.
    #[inlined]
    fn own_copy(self) -> usize {
        (thread::block_idx_x() & (self.copies() - 1)) as usize * self.norms.len()
    }
}

/// There are 2 to this power units of a residual in its scale.
const RESIDUAL_BITS: i32 = 52;

/// What entries of a column of U come to.
#[derive(Clone, Copy)]
struct OfU<W> {
    /// wᵀ·L times them.
    residual: W,
    /// |L| times their magnitudes, summed up.
    product: f64,
}

impl<W: Field<Real = f64>> Sums<W> {
    /// The entries `begin`, `begin` + `stride`, … below `end` of a column of U, which are those of the pivots from `first` on.
    #[inlined]
    fn times<T: Field<Wide = W>>(
        self,
        first: u32,
        range: (u32, u32),
        stride: u32,
        entry: impl Fn(u32) -> T,
    ) -> OfU<W> {
        let mut sums = OfU {
            residual: W::ZERO,
            product: 0.0,
        };
        let read = |i: u32| {
            let pivot = (first + i) as usize;
            let of_l = (self.weighted.get(pivot), self.sizes.get(pivot));
            (entry(i), of_l)
        };
        for_pivots(range, stride, (W::ZERO, 0.0), read, |entry, of_l| {
            let (entry, (weighted, size)) = (entry.widen(), of_l);
            sums.residual = weighted.mul_add(entry, sums.residual);
            sums.product += size * entry.magnitude();
        });
        sums
    }

    /// Adds `residual` and `product` to those of column `k` in the copy from `copy` on.
    #[inlined]
    fn add(self, copy: usize, k: u32, residual: W, product: f64) {
        let at = copy + k as usize;
        let exponent = scale(self.norms.get(k as usize));
        let unit = power_of_two(RESIDUAL_BITS - exponent);
        residual.for_components(|c, component| {
            let scaled = component * unit;
            let half = if scaled < 0.0 { -0.5 } else { 0.5 };
            let cell = self.residuals.atomic(at * W::COMPONENTS + c);
            cell.reduce_add(
                (scaled + half) as i64 as u64,
                Ordering::Relaxed,
                Scope::Device,
            );
        });
        let scaled = product * power_of_two(PRODUCT_BITS - exponent);
        add_units(self.products, at, scaled, MOST_PRODUCT);
    }
}

impl<T: Field> Checked<T> {
    /// The front of pivot `e`, and the number of the pivot in it.
    #[inlined]
    fn place(self, e: u32) -> (Front, u32) {
        let front = Front::of(self.fronts, self.front_of.get(e as usize));
        (front, e - front.start)
    }

    /// The magnitude of pivot number `j` of a front.
    #[inlined]
    fn pivot(self, front: Front, j: u32) -> f64 {
        let pivot = self.factors.get(front.column(j) + j as usize);
        pivot.magnitude().to_f64()
    }

    /// What a lane of a group has of the column of L of a pivot.
    #[inlined]
    fn column_of_l(self, place: (Front, u32), lane: u32) -> OfL<T::Wide> {
        let panels = PanelsOfL {
            factors: self.factors,
            order: self.order,
            row_idx: self.row_idx,
        };
        let mut sums = OfL {
            size: 0.0,
            weighted: T::Wide::ZERO,
        };
        panels.for_column(place, lane, |entry, row| {
            sums.add(entry.widen(), is_negative(row));
        });
        sums
    }
}

/// What entries of a column of L come to.
#[derive(Clone, Copy)]
struct OfL<W> {
    /// ‖·‖₁.
    size: f64,
    /// wᵀ times them.
    weighted: W,
}

impl<W: Field<Real = f64>> OfL<W> {
    #[inlined]
    fn add(&mut self, entry: W, is_negative: bool) {
        self.size += entry.magnitude();
        self.weighted += if is_negative { -entry } else { entry };
    }
}

/// Notes the magnitudes of the pivots, before others take their place, sums up the segments of B, and clears the measures.
///
/// Threads: a grid-stride loop, a pivot an iteration; then a [group](GROUP) of lanes a segment. Writes: `pivots`,
/// `segment_norms`, `segment_sums` and `segment_values` of a pivot or segment by its thread or group alone; `measures` by the first
/// threads of the grid. Shared memory: none. Launch: 1-D, a multiple of 32 threads. Preconditions: `front_of` names for each pivot a
/// front that has it; `factors` has the panels of all fronts; the columns have rows below n and places of values.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(256),
    require(
        sums.pivots.len() == checked.front_of.len(),
        columns.rows.len() == columns.source.len(),
        sums.segment_norms.len() == columns.segments.len(),
        sums.segment_sums.len() == columns.segments.len(),
        sums.segment_values.len() == columns.segments.len(),
        sums.measures.len() == measure::WORDS
    )
)]
pub unsafe fn begin_check<T: Field>(
    checked: Checked<T>,
    columns: Columns<T::Wide>,
    sums: Sums<T::Wide>,
) {
    for which in thread::grid_stride(measure::WORDS) {
        sums.measures.set(which, 0);
    }
    for e in thread::grid_stride(checked.front_of.len()) {
        let (front, j) = checked.place(e as u32);
        sums.pivots.set(e, checked.pivot(front, j));
    }
    columns.for_segments::<T>(|at, column| {
        sums.segment_norms.set(at, column.norm);
        sums.segment_sums.set(at, column.sum);
        sums.segment_values.set(at, column.largest);
    });
}

/// Sums up each column of B and of L, compares the pivots with those before, and begins the sums over columns of U.
///
/// Threads: a [group](GROUP) of lanes a column, in a grid stride. Writes: `norms`, `weighted`, `sizes`, `pivots`, and all copies of
/// `residuals` and `products` of a column by its group alone; `measures` by atomics. Shared memory: static, 0.3 KB. Launch: 1-D, a
/// multiple of 32 threads. Preconditions: those of [`begin_check`](fn@begin_check), behind which it is.
#[kernel(
    T = [f32, f64, Complex<f32>, Complex<f64>],
    max_threads(256),
    require(
        columns.rows.len() == columns.source.len(),
        columns.segment_ptr.len() == columns.col_ptr.len(),
        columns.col_ptr.len() == checked.front_of.len() + 1,
        sums.pivots.len() == checked.front_of.len(),
        sums.norms.len() == checked.front_of.len(),
        sums.weighted.len() == checked.front_of.len(),
        sums.sizes.len() == checked.front_of.len(),
        sums.products.len() >= checked.front_of.len(),
        sums.residuals.len() == sums.products.len() * <T as Field>::COMPONENTS,
        sums.measures.len() == measure::WORDS
    )
)]
pub unsafe fn check_columns<T: Field>(
    checked: Checked<T>,
    columns: Columns<T::Wide>,
    sums: Sums<T::Wide>,
) {
    let n = checked.front_of.len() as u32;
    let copies = sums.copies();
    let mut found = Found::<{ measure::LEN - measure::OF_SUMS }>::NONE;
    for_groups(n, |e, lane| {
        let mut column = Column::NONE;
        let mut of_l = OfL {
            size: 0.0,
            weighted: T::Wide::ZERO,
        };
        if e < n {
            column = columns.of_lane::<T>(e, lane, |at| Column {
                norm: sums.segment_norms.get(at),
                sum: sums.segment_sums.get(at),
                largest: sums.segment_values.get(at),
                norm_in_a: 0.0,
            });
            let place = checked.place(e);
            of_l = checked.column_of_l(place, lane);
            if lane == 0 {
                let (pivot, old) = (checked.pivot(place.0, place.1), sums.pivots.get(e as usize));
                sums.pivots.set(e as usize, pivot);
                found.largest(measure::PIVOT - measure::OF_SUMS, pivot);
                found.smallest(measure::LEAST_PIVOT - measure::OF_SUMS, pivot);
                let ratio = pivot / old;
                found.largest(measure::GROWN_PIVOT - measure::OF_SUMS, ratio);
                found.smallest(measure::SHRUNK_PIVOT - measure::OF_SUMS, ratio);
            }
        }
        let Column {
            norm, sum, largest, ..
        } = column.joined();
        let (size, weighted) = (joined(of_l.size), joined(of_l.weighted));
        found.largest(measure::VALUE - measure::OF_SUMS, largest);
        if e < n && lane == 0 {
            let at = e as usize;
            sums.norms.set(at, norm);
            sums.sizes.set(at, size);
            sums.weighted.set(at, weighted);
        }
        let unit = power_of_two(RESIDUAL_BITS - scale(norm));
        let mut copy = lane;
        while e < n && copy < copies {
            let at = (copy * n + e) as usize;
            sum.for_components(|c, component| {
                let residual = (-component * unit) as i64 as u64;
                let residual = if copy == 0 { residual } else { 0 };
                sums.residuals.set(at * T::COMPONENTS + c, residual);
            });
            sums.products.set(at, 0);
            copy += GROUP;
        }
    });
    let of_warps = shared_array![u64; (measure::LEN - measure::OF_SUMS) * MAX_WARPS];
    let first = own_measures() + measure::OF_SUMS;
    raise(sums.measures, first, found.measures, of_warps);
}

/// Adds wᵀ·L times each column of U, and |L|·|U|.
///
/// Threads: a [group](GROUP) of lanes a tile of U, a lane a column; then a group a column of a pivots' block; in a grid stride.
/// Writes: `residuals` and `products` by atomics, to integers. Shared memory: none. Launch: 1-D, a multiple of 32 threads, behind
/// [`check_columns`](fn@check_columns). Preconditions: its own; the tiles are parts of fronts.
#[kernel(T = [f32, f64, Complex<f32>, Complex<f64>], max_threads(256), require(
    sums.products.len() >= checked.front_of.len(),
    sums.residuals.len() == sums.products.len() * <T as Field>::COMPONENTS
))]
pub unsafe fn check_products<T: Field>(checked: Checked<T>, sums: Sums<T::Wide>) {
    let copy = sums.own_copy();
    let tiles = checked.tiles.len() as u32;
    for_groups(tiles, |number, lane| {
        if number >= tiles {
            return;
        }
        let tile = checked.tiles.get(number as usize);
        let front = Front::of(checked.fronts, tile.front());
        let column = tile.column() + lane;
        if column >= front.below {
            return;
        }
        let end = front.pivots.min(tile.row() + TILE_ROWS);
        let entry = |i: u32| checked.factors.get(front.row(i) + column as usize);
        let OfU { residual, product } = sums.times(front.start, (tile.row(), end), 1, entry);
        let k = checked.row_idx.get((front.rows + column) as usize);
        sums.add(copy, k, residual, product);
    });
    let n = checked.front_of.len() as u32;
    for_groups(n, |e, lane| {
        let mut of_u = OfU {
            residual: T::Wide::ZERO,
            product: 0.0,
        };
        if e < n {
            let (front, j) = checked.place(e);
            let begin = front.column(j);
            let entry = |i: u32| checked.factors.get(begin + i as usize);
            of_u = sums.times(front.start, (lane, j + 1), GROUP, entry);
        }
        let (residual, product) = (joined(of_u.residual), joined(of_u.product));
        if e < n && lane == 0 {
            sums.add(copy, e, residual, product);
        }
    });
}

/// Measures what was summed up, and looks whether entries right of the diagonal blocks are numbers.
///
/// Threads: a grid-stride loop, an entry or a column an iteration. Writes: `measures` by atomics; `found` by the last block to
/// finish. Shared memory: static, 0.4 KB. Launch: 1-D, a multiple of 32 threads, behind [`check_products`](fn@check_products).
/// Preconditions: those of [`check_columns`](fn@check_columns).
#[kernel(T = [f32, f64, Complex<f32>, Complex<f64>], max_threads(256), require(
    sums.pivots.len() == checked.front_of.len(),
    checked.weights.len() == checked.front_of.len(),
    sums.measures.len() == measure::WORDS,
    sums.found.len() == measure::LEN
))]
pub unsafe fn check_measures<T: Field>(
    checked: Checked<T>,
    coupling: Global<T>,
    sums: Sums<T::Wide>,
) {
    let mut found = Found::<{ measure::OF_SUMS }>::NONE;
    for p in thread::grid_stride(coupling.len()) {
        if !coupling.get(p).is_number() {
            found.largest(measure::CHECKSUM, f64::INFINITY);
        }
    }
    let (n, copies) = (checked.front_of.len(), sums.copies() as usize);
    for e in thread::grid_stride(n) {
        let norm = sums.norms.get(e);
        let exponent = scale(norm);
        let pivot = sums.pivots.get(e);
        let weight = power_of_two(checked.weights.get(e));
        let units = sum_of_copies(sums.products, copies, n, e);
        let product = if units < MOST_PRODUCT {
            units as f64 * power_of_two(exponent - PRODUCT_BITS)
        } else {
            f64::INFINITY
        };
        let mut residual = 0.0;
        let mut c = 0;
        while c < T::COMPONENTS {
            let (len, at) = (n * T::COMPONENTS, e * T::COMPONENTS + c);
            let units = sum_of_copies(sums.residuals, copies, len, at);
            residual += Real::abs(units as i64 as f64) * power_of_two(exponent - RESIDUAL_BITS);
            c += 1;
        }
        // Of a column of zeros, neither is a number.
        let growth = product / norm;
        let is_told = growth <= MOST_GROWTH;
        if !is_told {
            residual = f64::INFINITY;
        }
        found.largest(measure::GROWTH, growth);
        found.largest(measure::CHECKSUM, residual / norm);
        found.largest(measure::NORM, norm);
        found.smallest(measure::LEAST_NORM, norm);
        found.largest(measure::PRODUCT, product * weight);
        found.largest(measure::RESIDUAL, residual * weight);
        found.smallest(measure::LEAST_RELATIVE_PIVOT, pivot / product);
    }
    let of_warps = shared_array![u64; measure::OF_SUMS * MAX_WARPS];
    raise(sums.measures, own_measures(), found.measures, of_warps);
    leave_measures(sums.measures, sums.found);
}
