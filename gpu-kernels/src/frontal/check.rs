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
//! Nobody waits for anybody: what a front has for a column of U is added by atomics, to integers. Their sums are the same in any
//! order, so what is measured is the same in every run. The unit is 2⁻⁵² of a power of two next to the norm of the column, which
//! makes what is rounded off as small as rounding errors of `f64` are. Where the growth is below [`MOST_GROWTH`], no sum leaves
//! the range of the integers; where it is not, the checksum is not told.

use luge_kernel::prelude::*;

use super::solve::layout::FrontRecord;
use super::solve::scaled::shifted;

/// What is measured of all columns: places among [`measure::LEN`] words, each zero before. All are maxima, of the bits of a number
/// that is not negative, which are ordered as the numbers are, with NaN above all; or of the complement of such bits, which makes
/// it a minimum.
pub mod measure {
    /// Largest growth.
    pub const GROWTH: usize = 0;
    /// Largest checksum; infinite where a growth is too large to tell, or an entry right of the diagonal blocks is no number.
    pub const CHECKSUM: usize = 1;
    /// Largest norm of a column of B.
    pub const NORM: usize = 2;
    /// Complement of the smallest one.
    pub const LEAST_NORM: usize = 3;
    /// Largest ‖ |L|·|U|·e_k ‖₁.
    pub const PRODUCT: usize = 4;
    /// Largest |wᵀ·(B − L·U)·e_k|.
    pub const RESIDUAL: usize = 5;
    /// Largest magnitude of a pivot.
    pub const PIVOT: usize = 6;
    /// Complement of the smallest one.
    pub const LEAST_PIVOT: usize = 7;
    /// Complement of the smallest quotient of a pivot and ‖ |L|·|U|·e_k ‖₁ of its column.
    pub const LEAST_RELATIVE_PIVOT: usize = 8;
    /// Largest quotient of a pivot and the one that was there before.
    pub const GROWN_PIVOT: usize = 9;
    /// Complement of the smallest one.
    pub const SHRUNK_PIVOT: usize = 10;
    /// Largest magnitude of a value of A that is an entry of B.
    pub const VALUE: usize = 11;
    /// Number of words.
    pub const LEN: usize = 12;
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
pub const SEGMENT: u32 = 64;

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
    /// ‖B·e_k‖₁.
    pub norms: GlobalMut<f64>,
    /// wᵀ·L·e_k.
    pub weighted: GlobalMut<W>,
    /// ‖L·e_k‖₁.
    pub sizes: GlobalMut<f64>,
    /// wᵀ·(L·U − B)·e_k, of complex numbers each component, in units of 2⁻⁵² of a power of two next to
    /// the norm.
    pub residuals: GlobalMut<u64>,
    /// ‖ |L|·|U|·e_k ‖₁ in units of 2⁻¹² of it, each addend rounded up.
    pub products: GlobalMut<u64>,
    /// Magnitudes of the pivots that were there before.
    pub old_pivots: GlobalMut<f64>,
    /// See [`measure`].
    pub measures: GlobalMut<u64>,
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

impl<W: Field<Real = f64>> Sums<W> {
    /// Adds `residual` and `product` to those of column `k`.
    #[inlined]
    fn add(self, k: u32, residual: W, product: f64) {
        let exponent = scale(self.norms.get(k as usize));
        let unit = power_of_two(RESIDUAL_BITS - exponent);
        residual.for_components(|c, component| {
            let scaled = component * unit;
            let half = if scaled < 0.0 { -0.5 } else { 0.5 };
            let cell = self.residuals.atomic(k as usize * W::COMPONENTS + c);
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
        let cell = self.products.atomic(k as usize);
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

    /// Whether the weight of row `i` of a front is −1.
    #[inlined]
    fn is_negative(self, front: Front, i: u32) -> bool {
        let row = if i < front.pivots {
            front.start + self.order.get((front.start + i) as usize)
        } else {
            self.row_idx.get((front.rows + i - front.pivots) as usize)
        };
        is_negative(row)
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
}

impl<W: Field<Real = f64>> Columns<W> {
    /// The entries `begin`, `begin` + [`GROUP`], … below `end` of column `e`, rounded to the type of the factors; `largest` grows
    /// with the values of A.
    #[inlined]
    fn sum<T: Field<Wide = W>>(
        self,
        e: u32,
        (begin, end): (u32, u32),
        largest: &mut f64,
    ) -> Column<W> {
        let (mut norm, mut sum) = (0.0, W::ZERO);
        let exponent = self.col_exponents.get(e as usize);
        let mut p = begin;
        while p < end {
            let row = self.rows.get(p as usize);
            let value = self.values.get(self.source.get(p as usize) as usize);
            *largest = Real::max(*largest, value.magnitude());
            let of_row = self.row_exponents.get(row as usize);
            let entry = T::narrow(shifted(value, of_row + exponent)).widen();
            norm += entry.magnitude();
            sum += if is_negative(row) { -entry } else { entry };
            p += GROUP;
        }
        Column { norm, sum }
    }
}

impl<W: Field<Real = f64>> Column<W> {
    /// The sums over the lanes of a group, for all of them. All lanes of a warp call it.
    #[inlined]
    fn joined(self) -> Self {
        Self {
            norm: joined(self.norm),
            sum: joined(self.sum),
        }
    }
}

/// Notes the magnitudes of the pivots, before others take their place, and sums up the segments of B.
///
/// Threads: a grid-stride loop, a pivot an iteration; then a [group](GROUP) of lanes a segment. Writes: `old_pivots`,
/// `segment_norms` and `segment_sums` of a pivot or segment by its thread or group alone; `measures` by atomics. Shared memory:
/// none. Launch: 1-D, a multiple of 32 threads. Preconditions: `front_of` names for each pivot a front that has it; `factors` has the
/// panels of all fronts; the columns have rows below n and places of values; `measures` is zero.
#[kernel(
    T = [f32, f64, Complex<f64>],
    max_threads(256),
    require(
        sums.old_pivots.len() == checked.front_of.len(),
        columns.rows.len() == columns.source.len(),
        sums.segment_norms.len() == columns.segments.len(),
        sums.segment_sums.len() == columns.segments.len(),
        sums.measures.len() == measure::LEN
    )
)]
pub unsafe fn begin_check<T: Field>(
    checked: Checked<T>,
    columns: Columns<T::Wide>,
    sums: Sums<T::Wide>,
) {
    for e in thread::grid_stride(checked.front_of.len()) {
        let (front, j) = checked.place(e as u32);
        let pivot = checked.factors.get(front.column(j) + j as usize);
        sums.old_pivots.set(e, pivot.magnitude().to_f64());
    }
    let mut largest = 0.0;
    let num_segments = columns.segments.len() as u32;
    for_groups(num_segments, |number, lane| {
        let mut column = Column {
            norm: 0.0,
            sum: T::Wide::ZERO,
        };
        if number < num_segments {
            let segment = columns.segments.get(number as usize);
            let range = (segment.begin() + lane, segment.end());
            column = columns.sum::<T>(segment.column(), range, &mut largest);
        }
        let column = column.joined();
        if number < num_segments && lane == 0 {
            sums.segment_norms.set(number as usize, column.norm);
            sums.segment_sums.set(number as usize, column.sum);
        }
    });
    raise(sums.measures, measure::VALUE, largest.to_bits());
}

/// Sums up each column of B and of L, and begins the sums over columns of U.
///
/// Threads: a [group](GROUP) of lanes a column, in a grid stride. Writes: `norms`, `weighted`, `sizes`, `residuals` and
/// `products` of a column by its group alone; `measures` by atomics. Shared memory: none. Launch: 1-D, a multiple of 32 threads.
/// Preconditions: those of [`begin_check`](fn@begin_check), behind which it is.
#[kernel(
    T = [f32, f64, Complex<f64>],
    max_threads(256),
    require(
        columns.rows.len() == columns.source.len(),
        columns.segment_ptr.len() == columns.col_ptr.len(),
        columns.col_ptr.len() == checked.front_of.len() + 1,
        sums.norms.len() == checked.front_of.len(),
        sums.weighted.len() == checked.front_of.len(),
        sums.sizes.len() == checked.front_of.len(),
        sums.products.len() == checked.front_of.len(),
        sums.residuals.len() == checked.front_of.len() * <T as Field>::COMPONENTS,
        sums.measures.len() == measure::LEN
    )
)]
pub unsafe fn check_columns<T: Field>(
    checked: Checked<T>,
    columns: Columns<T::Wide>,
    sums: Sums<T::Wide>,
) {
    let n = checked.front_of.len() as u32;
    let mut largest = 0.0;
    for_groups(n, |e, lane| {
        let mut column = Column {
            norm: 0.0,
            sum: T::Wide::ZERO,
        };
        let (mut size, mut weighted) = (0.0, T::Wide::ZERO);
        if e < n {
            let [begin, end] = [0, 1].map(|next| columns.segment_ptr.get((e + next) as usize));
            if begin < end {
                let mut number = begin + lane;
                while number < end {
                    column.norm += sums.segment_norms.get(number as usize);
                    column.sum += sums.segment_sums.get(number as usize);
                    number += GROUP;
                }
            } else {
                let [begin, end] = [0, 1].map(|next| columns.col_ptr.get((e + next) as usize));
                column = columns.sum::<T>(e, (begin + lane, end), &mut largest);
            }
            let (front, j) = checked.place(e);
            let (begin, m) = (front.column(j), front.pivots + front.below);
            let mut i = j + 1 + lane;
            while i < m {
                let entry = checked.factors.get(begin + i as usize).widen();
                size += entry.magnitude();
                weighted += if checked.is_negative(front, i) {
                    -entry
                } else {
                    entry
                };
                i += GROUP;
            }
            if lane == 0 {
                size += 1.0;
                weighted += if checked.is_negative(front, j) {
                    -T::Wide::ONE
                } else {
                    T::Wide::ONE
                };
            }
        }
        let Column { norm, sum } = column.joined();
        let (size, weighted) = (joined(size), joined(weighted));
        if e < n && lane == 0 {
            let at = e as usize;
            sums.norms.set(at, norm);
            sums.sizes.set(at, size);
            sums.weighted.set(at, weighted);
            let unit = power_of_two(RESIDUAL_BITS - scale(norm));
            sum.for_components(|c, component| {
                let residual = (-component * unit) as i64 as u64;
                sums.residuals.set(at * T::COMPONENTS + c, residual);
            });
            sums.products.set(at, 0);
        }
    });
    raise(sums.measures, measure::VALUE, largest.to_bits());
}

/// Adds wᵀ·L times each column of U, and |L|·|U|.
///
/// Threads: a [group](GROUP) of lanes a tile of U, a lane a column; then a group a column of a pivots' block; in a grid stride.
/// Writes: `residuals` and `products` by atomics, to integers. Shared memory: none. Launch: 1-D, a multiple of 32 threads, behind
/// [`check_columns`](fn@check_columns). Preconditions: its own; the tiles are parts of fronts.
#[kernel(T = [f32, f64, Complex<f64>], max_threads(256), require(
    sums.products.len() == checked.front_of.len(),
    sums.residuals.len() == checked.front_of.len() * <T as Field>::COMPONENTS
))]
pub unsafe fn check_products<T: Field>(checked: Checked<T>, sums: Sums<T::Wide>) {
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
        let (mut residual, mut product) = (T::Wide::ZERO, 0.0);
        let mut i = tile.row();
        let end = front.pivots.min(i + TILE_ROWS);
        while i < end {
            let entry = checked.factors.get(front.row(i) + column as usize).widen();
            let e = (front.start + i) as usize;
            residual = sums.weighted.get(e).mul_add(entry, residual);
            product += sums.sizes.get(e) * entry.magnitude();
            i += 1;
        }
        let k = checked.row_idx.get((front.rows + column) as usize);
        sums.add(k, residual, product);
    });
    let n = checked.front_of.len() as u32;
    for_groups(n, |e, lane| {
        let (mut residual, mut product) = (T::Wide::ZERO, 0.0);
        if e < n {
            let (front, j) = checked.place(e);
            let begin = front.column(j);
            let mut i = lane;
            while i <= j {
                let entry = checked.factors.get(begin + i as usize).widen();
                let row = (front.start + i) as usize;
                residual = sums.weighted.get(row).mul_add(entry, residual);
                product += sums.sizes.get(row) * entry.magnitude();
                i += GROUP;
            }
        }
        let (residual, product) = (joined(residual), joined(product));
        if e < n && lane == 0 {
            sums.add(e, residual, product);
        }
    });
}

/// Raises a measure to `bits` if it is less. All lanes of a warp call it.
#[inlined]
fn raise(measures: GlobalMut<u64>, which: usize, bits: u64) {
    let largest = warp::fold(warp::WARP_SIZE, bits, |a, b| if b > a { b } else { a });
    if thread::lane_id() == 0 && largest > 0 {
        measures
            .atomic(which)
            .fetch_max(largest, Ordering::Relaxed, Scope::Device);
    }
}

/// What a lane has found of its columns.
#[derive(Clone, Copy)]
struct Found {
    measures: [u64; measure::LEN],
}

impl Found {
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

/// Measures what was summed up, and looks whether entries right of the diagonal blocks are numbers.
///
/// Threads: a grid-stride loop, an entry or a column an iteration. Writes: `measures` by atomics. Shared memory: none. Launch: 1-D, a
/// multiple of 32 threads, behind [`check_products`](fn@check_products). Preconditions: those of
/// [`check_columns`](fn@check_columns); `old_pivots` are magnitudes.
#[kernel(T = [f32, f64, Complex<f64>], max_threads(256), require(
    sums.old_pivots.len() == checked.front_of.len(),
    sums.measures.len() == measure::LEN
))]
pub unsafe fn check_measures<T: Field>(
    checked: Checked<T>,
    coupling: Global<T>,
    sums: Sums<T::Wide>,
) {
    let mut found = Found {
        measures: [0; measure::LEN],
    };
    for p in thread::grid_stride(coupling.len()) {
        if !coupling.get(p).is_number() {
            found.largest(measure::CHECKSUM, f64::INFINITY);
        }
    }
    for e in thread::grid_stride(checked.front_of.len()) {
        let norm = sums.norms.get(e);
        let exponent = scale(norm);
        let units = sums.products.get(e);
        let product = if units < MOST_PRODUCT {
            units as f64 * power_of_two(exponent - PRODUCT_BITS)
        } else {
            f64::INFINITY
        };
        let mut residual = 0.0;
        let mut c = 0;
        while c < T::COMPONENTS {
            let units = sums.residuals.get(e * T::COMPONENTS + c) as i64;
            residual += Real::abs(units as f64) * power_of_two(exponent - RESIDUAL_BITS);
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
        found.largest(measure::PRODUCT, product);
        found.largest(measure::RESIDUAL, residual);
        let (front, j) = checked.place(e as u32);
        let pivot = checked.factors.get(front.column(j) + j as usize);
        let pivot = pivot.magnitude().to_f64();
        found.largest(measure::PIVOT, pivot);
        found.smallest(measure::LEAST_PIVOT, pivot);
        found.smallest(measure::LEAST_RELATIVE_PIVOT, pivot / product);
        let ratio = pivot / sums.old_pivots.get(e);
        found.largest(measure::GROWN_PIVOT, ratio);
        found.smallest(measure::SHRUNK_PIVOT, ratio);
    }
    let mut which = 0;
    while which < measure::LEN {
        raise(sums.measures, which, found.measures[which]);
        which += 1;
    }
}
