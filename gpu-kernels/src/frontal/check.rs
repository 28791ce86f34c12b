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
use super::solve::scaled::shifted;
use crate::maxima::{MAX_WARPS, raise};

pub mod measure;

/// Copies of the sums over columns of U, for blocks in turn: nearly all fronts may have something for one column.
const SUM_COPIES: usize = 8;

/// Copies of the sums over `n` columns of U: a power of two. They have 32 MB at most, or are one.
pub const fn copies_of_sums(n: usize) -> usize {
    if n <= 1 << 18 { SUM_COPIES } else { 1 }
}

/// Growth up to which the checksum is told.
pub const MOST_GROWTH: f64 = 1024.0;

/// Lanes that work together: on a column of a panel, or on as many columns of U.
pub const GROUP: u32 = 8;

/// Rows of U of a [`Tile`], at most.
pub const TILE_ROWS: u32 = 64;

/// Threads of a block, at most.
pub const THREADS: u32 = 256;

/// Entries of a column of B that a group adds up by itself; longer columns come in [`Segment`]s of so many.
pub const SEGMENT: u32 = 32;

/// Entries of the factors that a lane has under way at once.
const AHEAD: usize = 8;

/// Entries that are read or left away together: a read on a condition of its own would be waited for at once.
const TOGETHER: usize = 4;

/// Part of a long column of B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Record)]
#[repr(C)]
pub struct Segment {
    /// The column.
    pub column: u32,
    /// Its first entry here.
    pub begin: u32,
    /// The one after the last.
    pub end: u32,
}

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

/// B by columns in the order of elimination, as values of A.
#[derive(Clone, Copy, KernelArgs)]
pub struct Columns<W: Field> {
    /// Offsets of the columns.
    pub col_ptr: Global<u32>,
    /// Parts of those with more than [`SEGMENT`] entries.
    pub segments: Records<Segment>,
    /// Offsets of the segments of each column: none of a short one.
    pub segment_ptr: Global<u32>,
    /// Row of each entry, in the order of elimination.
    pub rows: Global<u32>,
    /// Which value of A it is.
    pub source: Global<u32>,
    /// Exponents of the factors of rows, in the order of elimination.
    pub row_exponents: Global<i32>,
    /// Those of columns.
    pub col_exponents: Global<i32>,
    /// Values of A.
    pub values: Global<W>,
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

/// Likewise of a product.
const PRODUCT_BITS: i32 = 12;

/// Larger products count as infinite.
const MOST_PRODUCT: u64 = 1 << 40;

/// The exponent of the power of two above a norm, within bounds: what is measured where they matter is not trusted.
#[inlined]
fn scale(norm: f64) -> i32 {
    let exponent = ((norm.to_bits() >> 52) & 0x7ff) as i32 - 1022;
    exponent.clamp(-900, 900)
}

/// 2 to this power, between those of normal numbers.
#[inlined]
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// The weight of a row is −1 or 1, pseudo-random.
#[inlined]
fn is_negative(row: u32) -> bool {
    let mixed = (row ^ row >> 16).wrapping_mul(0x7feb_352d);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x846c_a68b);
    mixed >> 31 != 0
}

/// A sum over the lanes of a group, for all of them. All lanes of a warp call it.
#[inlined]
fn joined<W: Field>(mut sum: W) -> W {
    let mut distance = GROUP / 2;
    while distance > 0 {
        sum += warp::shuffle_xor(warp::FULL_MASK, sum, distance);
        distance /= 2;
    }
    sum
}

/// Calls `work(unit, lane)` for each unit with the lanes of a group; `unit` is past the end for groups that have none. All
/// lanes of a warp are in each call.
#[inlined]
fn for_groups(len: u32, mut work: impl FnMut(u32, u32)) {
    let groups = warp::WARP_SIZE / GROUP;
    let lane = thread::lane_id();
    let mut first = thread::index_1d() / warp::WARP_SIZE * groups;
    while first < len {
        work(first + lane / GROUP, lane % GROUP);
        first += thread::num_threads_1d() / warp::WARP_SIZE * groups;
    }
}

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
        (begin, end): (u32, u32),
        stride: u32,
        entry: impl Fn(u32) -> T,
    ) -> OfU<W> {
        let mut sums = OfU {
            residual: W::ZERO,
            product: 0.0,
        };
        let mut i = begin;
        while i < end {
            let mut several = [(T::ZERO, W::ZERO, 0.0); AHEAD];
            let mut g = 0;
            while g < AHEAD {
                if i + (g as u32) * stride < end {
                    let mut u = g;
                    while u < g + TOGETHER {
                        let own = i + u as u32 * stride;
                        let own = if own < end { own } else { i };
                        let pivot = (first + own) as usize;
                        several[u] = (entry(own), self.weighted.get(pivot), self.sizes.get(pivot));
                        u += 1;
                    }
                }
                g += TOGETHER;
            }
            let mut u = 0;
            while u < AHEAD {
                if i + u as u32 * stride < end {
                    let (entry, weighted, size) = several[u];
                    let entry = entry.widen();
                    sums.residual = weighted.mul_add(entry, sums.residual);
                    sums.product += size * entry.magnitude();
                }
                u += 1;
            }
            i += AHEAD as u32 * stride;
        }
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
        // What is not a number is not below anything.
        let units = if scaled < MOST_PRODUCT as f64 {
            scaled as u64 + 1
        } else {
            MOST_PRODUCT
        };
        let cell = self.products.atomic(at);
        cell.reduce_add(units, Ordering::Relaxed, Scope::Device);
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

    /// What a lane of a group has of the column of L of pivot number `j` of a front, its own one included.
    #[inlined]
    fn column_of_l(self, (front, j): (Front, u32), lane: u32) -> OfL<T::Wide> {
        let pivot_row = |i: u32| front.start + self.order.get((front.start + i) as usize);
        let mut sums = OfL {
            size: 0.0,
            weighted: T::Wide::ZERO,
        };
        if lane == 0 {
            sums.add(T::Wide::ONE, is_negative(pivot_row(j)));
        }
        let begin = front.column(j);
        let entry = |i: u32| self.factors.get(begin + i as usize);
        self.add_rows(&mut sums, (j + 1 + lane, front.pivots), entry, pivot_row);
        let below = begin + front.pivots as usize;
        let entry = |i: u32| self.factors.get(below + i as usize);
        let row = |i: u32| self.row_idx.get((front.rows + i) as usize);
        self.add_rows(&mut sums, (lane, front.below), entry, row);
        sums
    }

    /// Adds to the sums the entries `begin`, `begin` + [`GROUP`], … below `end` of a column of L, with the rows that they are in.
    #[inlined]
    fn add_rows(
        self,
        sums: &mut OfL<T::Wide>,
        (begin, end): (u32, u32),
        entry: impl Fn(u32) -> T,
        row: impl Fn(u32) -> u32,
    ) {
        let mut i = begin;
        while i < end {
            let mut several = [(T::ZERO, 0); TOGETHER];
            let mut u = 0;
            while u < TOGETHER {
                let own = i + u as u32 * GROUP;
                let own = if own < end { own } else { i };
                several[u] = (entry(own), row(own));
                u += 1;
            }
            let mut u = 0;
            while u < TOGETHER {
                if i + u as u32 * GROUP < end {
                    let (entry, row) = several[u];
                    sums.add(entry.widen(), is_negative(row));
                }
                u += 1;
            }
            i += TOGETHER as u32 * GROUP;
        }
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

/// A front, as its record has it.
#[derive(Clone, Copy)]
struct Front {
    start: u32,
    pivots: u32,
    below: u32,
    rows: u32,
    slot: u64,
}

impl Front {
    #[inlined]
    fn of(fronts: Records<FrontRecord>, number: u32) -> Self {
        let front = fronts.get(number as usize);
        Self {
            start: front.start(),
            pivots: front.pivots(),
            below: front.below(),
            rows: front.rows(),
            slot: front.slot(),
        }
    }

    /// Where column `j` of the pivots begins.
    #[inlined]
    fn column(self, j: u32) -> usize {
        self.slot as usize + j as usize * (self.pivots + self.below) as usize
    }

    /// Where row `i` of U begins, behind the pivots' block.
    #[inlined]
    fn row(self, i: u32) -> usize {
        self.column(self.pivots) + i as usize * self.below as usize
    }
}

/// What entries of a column of B come to, of those of one lane or of all of a group.
#[derive(Clone, Copy)]
struct Column<W> {
    norm: f64,
    /// wᵀ times them.
    sum: W,
    /// Largest magnitude of their values in A.
    largest: f64,
}

impl<W: Field<Real = f64>> Columns<W> {
    /// The entries `begin`, `begin` + [`GROUP`], … below `end` of column `e`, rounded to the type of the factors.
    #[inlined]
    fn sum<T: Field<Wide = W>>(self, e: u32, (begin, end): (u32, u32)) -> Column<W> {
        let mut column = Column::NONE;
        let exponent = self.col_exponents.get(e as usize);
        let mut p = begin;
        while p < end {
            // Two under way at once; the second may be the first again.
            let places = [p, if p + GROUP < end { p + GROUP } else { p }];
            let rows = places.map(|p| self.rows.get(p as usize));
            let sources = places.map(|p| self.source.get(p as usize));
            let values = sources.map(|source| self.values.get(source as usize));
            let exponents = rows.map(|row| self.row_exponents.get(row as usize));
            let mut u = 0;
            while u < 2 {
                if p + u as u32 * GROUP < end {
                    column.largest = Real::max(column.largest, values[u].magnitude());
                    let entry = T::narrow(shifted(values[u], exponents[u] + exponent)).widen();
                    column.norm += entry.magnitude();
                    column.sum += if is_negative(rows[u]) { -entry } else { entry };
                }
                u += 1;
            }
            p += 2 * GROUP;
        }
        column
    }
}

impl<W: Field<Real = f64>> Column<W> {
    const NONE: Self = Self {
        norm: 0.0,
        sum: W::ZERO,
        largest: 0.0,
    };

    /// The sums over the lanes of a group, for all of them. All lanes of a warp call it.
    #[inlined]
    fn joined(self) -> Self {
        Self {
            norm: joined(self.norm),
            sum: joined(self.sum),
            largest: warp::fold(GROUP, self.largest, Real::max),
        }
    }
}

/// Notes the magnitudes of the pivots, before others take their place, sums up the segments of B, and clears the measures.
///
/// Threads: a grid-stride loop, a pivot an iteration; then a [group](GROUP) of lanes a segment. Writes: `pivots`,
/// `segment_norms`, `segment_sums` and `segment_values` of a pivot or segment by its thread or group alone; `measures` by the first
/// threads of the grid. Shared memory: none. Launch: 1-D, a multiple of 32 threads. Preconditions: `front_of` names for each pivot a
/// front that has it; `factors` has the panels of all fronts; the columns have rows below n and places of values.
#[kernel(
    T = [f32, f64, Complex<f64>],
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
    let num_segments = columns.segments.len() as u32;
    for_groups(num_segments, |number, lane| {
        let mut column = Column::NONE;
        if number < num_segments {
            let segment = columns.segments.get(number as usize);
            let range = (segment.begin() + lane, segment.end());
            column = columns.sum::<T>(segment.column(), range);
        }
        let column = column.joined();
        if number < num_segments && lane == 0 {
            let at = number as usize;
            sums.segment_norms.set(at, column.norm);
            sums.segment_sums.set(at, column.sum);
            sums.segment_values.set(at, column.largest);
        }
    });
}

/// Sums up each column of B and of L, compares the pivots with those before, and begins the sums over columns of U.
///
/// Threads: a [group](GROUP) of lanes a column, in a grid stride. Writes: `norms`, `weighted`, `sizes`, `pivots`, and all copies of
/// `residuals` and `products` of a column by its group alone; `measures` by atomics. Shared memory: static, 0.3 KB. Launch: 1-D, a
/// multiple of 32 threads. Preconditions: those of [`begin_check`](fn@begin_check), behind which it is.
#[kernel(
    T = [f32, f64, Complex<f64>],
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
            let [begin, end] = [0, 1].map(|next| columns.segment_ptr.get((e + next) as usize));
            if begin < end {
                let mut number = begin + lane;
                while number < end {
                    let at = number as usize;
                    column.norm += sums.segment_norms.get(at);
                    column.sum += sums.segment_sums.get(at);
                    column.largest = Real::max(column.largest, sums.segment_values.get(at));
                    number += GROUP;
                }
            } else {
                let [begin, end] = [0, 1].map(|next| columns.col_ptr.get((e + next) as usize));
                column = columns.sum::<T>(e, (begin + lane, end));
            }
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
        let Column { norm, sum, largest } = column.joined();
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
#[kernel(T = [f32, f64, Complex<f64>], max_threads(256), require(
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

/// Where the copy of this block of the measures begins.
#[inlined]
fn own_measures() -> usize {
    thread::block_idx_x() as usize % measure::COPIES * measure::STRIDE
}

/// What a lane has found of its columns, of so many measures.
#[derive(Clone, Copy)]
struct Found<const N: usize> {
    measures: [u64; N],
}

impl<const N: usize> Found<N> {
    const NONE: Self = Self { measures: [0; N] };

    /// Takes in a number of which the largest is wanted, or NaN.
    #[inlined]
    fn largest(&mut self, which: usize, number: f64) {
        self.raise(which, number.to_bits());
    }

    /// Takes in one of which the smallest is wanted; NaN counts as zero.
    #[inlined]
    fn smallest(&mut self, which: usize, number: f64) {
        self.raise(which, !Real::max(number, 0.0).to_bits());
    }

    #[inlined]
    fn raise(&mut self, which: usize, bits: u64) {
        if bits > self.measures[which] {
            self.measures[which] = bits;
        }
    }
}

/// The sum of the copies of word `at`, wrapping; a copy has `len` words. All are under way at once.
#[inlined]
fn sum_of_copies(words: GlobalMut<u64>, copies: usize, len: usize, at: usize) -> u64 {
    let mut several = [0u64; SUM_COPIES];
    let mut copy = 0;
    while copy < SUM_COPIES {
        let own = if copy < copies { copy } else { 0 };
        several[copy] = words.get(own * len + at);
        copy += 1;
    }
    let mut sum = 0u64;
    let mut copy = 0;
    while copy < SUM_COPIES {
        if copy < copies {
            sum = sum.wrapping_add(several[copy]);
        }
        copy += 1;
    }
    sum
}

/// Measures what was summed up, and looks whether entries right of the diagonal blocks are numbers.
///
/// Threads: a grid-stride loop, an entry or a column an iteration. Writes: `measures` by atomics. Shared memory: static, 0.4 KB.
/// Launch: 1-D, a multiple of 32 threads, behind [`check_products`](fn@check_products). Preconditions: those of
/// [`check_columns`](fn@check_columns).
#[kernel(T = [f32, f64, Complex<f64>], max_threads(256), require(
    sums.pivots.len() == checked.front_of.len(),
    checked.weights.len() == checked.front_of.len(),
    sums.measures.len() == measure::WORDS
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
}
