//! Residuals and backward errors in `f64`, for iterative refinement.
//!
//! Maxima are kept as the bits of magnitudes, which are ordered as the magnitudes are, with NaN above all: whatever the
//! order in which threads raise them, the result is the same, and a NaN is never lost.

use luge_kernel::prelude::*;

use crate::grid::GridBarrier;
use crate::maxima::{MAX_WARPS, larger, leave, raise};

/// What [`residuals`](fn@residuals) measures of each right-hand side: places among [`measure::LEN`] words, each the bits
/// of a number that is not negative, or NaN. Those up to [`measure::B`] are raised together, and those from
/// [`measure::RESIDUAL`] on.
pub mod measure {
    /// ‖x‖∞.
    pub const X: usize = 0;
    /// ‖b‖∞.
    pub const B: usize = 1;
    /// ‖b − A·x‖∞.
    pub const RESIDUAL: usize = 2;
    /// ‖A‖∞.
    pub const A: usize = 3;
    /// Largest |b − A·x| / (|A|·|x| + |b|) of the rows whose denominator is safely above rounding.
    pub const LARGE_ROWS: usize = 4;
    /// Largest |b − A·x| / (|A|·|x| + ‖A(i,·)‖₁·‖x‖∞) of the others.
    pub const SMALL_ROWS: usize = 5;
    /// Number of measures.
    pub const LEN: usize = 6;
}

/// Bit of the number of a value: the entry is its conjugate.
pub const CONJUGATED: u32 = 1 << 31;

/// Right-hand sides for which an entry of A is read once.
const TOGETHER: usize = 4;

/// Entries of a row from which on a warp adds them up together.
const LONG: u64 = 32;

/// Most entries of a row that one warp adds up alone: longer rows come in segments of so many entries.
///
/// Size classes: rows of up to `LONG` entries, of a warp, of several segments; up to `TOGETHER` right-hand sides, and
/// more; each run by `residuals_match_the_definition` in `tests/tests/residuals.rs`.
pub const SEGMENT: u64 = 256;

/// A segment of a long row.
#[derive(Clone, Copy, Debug, PartialEq, Record)]
#[repr(C)]
pub struct Segment {
    /// Its first entry.
    pub begin: u32,
    /// The one after its last.
    pub end: u32,
}

/// A square matrix by rows.
#[derive(Clone, Copy, KernelArgs)]
pub struct Rows<W: Field> {
    /// Offsets of the rows.
    pub row_ptr: Global<u64>,
    /// Column of each entry.
    pub col_idx: Global<u32>,
    /// Which of the values each entry is, of complex numbers perhaps with [`CONJUGATED`]; none: the one of its own number.
    pub entries: Global<u32>,
    /// The values.
    pub values: Global<W>,
}

/// The rows of more than [`SEGMENT`] entries.
#[derive(Clone, Copy, KernelArgs)]
pub struct LongRows {
    /// Their numbers.
    pub rows: Global<u32>,
    /// Where the segments of each begin, and the end of the last.
    pub segment_ptr: Global<u32>,
    /// The segments.
    pub segments: Records<Segment>,
    /// What the segments come to: [`segment_sums`] numbers each.
    pub sums: GlobalMut<f64>,
}

/// What [`residuals`](fn@residuals) measures.
#[derive(Clone, Copy, KernelArgs)]
pub struct Measured {
    /// [`measure::LEN`] words for each right-hand side so far, and how many blocks are done.
    pub measures: GlobalMut<u64>,
    /// Those words in the end, which may be memory of the host.
    pub found: GlobalMut<u64>,
    /// The barrier of the grid.
    pub barrier: GlobalMut<u32>,
}

/// Real numbers that a segment leaves for `nrhs` right-hand sides of numbers with so many `components`.
pub const fn segment_sums(nrhs: usize, components: usize) -> usize {
    nrhs.div_ceil(TOGETHER) * row_numbers(components)
}

/// Real numbers of a [`Row`].
const fn row_numbers(components: usize) -> usize {
    2 + (1 + components) * TOGETHER
}

/// Threads of a block, at most.
pub const THREADS: u32 = 256;

/// What is summed over a row.
#[derive(Clone, Copy)]
struct Row<W> {
    /// Sum of magnitudes and largest magnitude of its entries.
    sum: f64,
    largest: f64,
    /// A·x and |A|·|x|.
    product: [W; TOGETHER],
    size: [f64; TOGETHER],
}

impl<W: Field<Real = f64>> Row<W> {
    #[inlined]
    fn zero() -> Self {
        Self {
            sum: 0.0,
            largest: 0.0,
            product: [W::ZERO; TOGETHER],
            size: [0.0; TOGETHER],
        }
    }

    /// What was left at `place` is added to the row.
    #[inlined]
    fn plus(self, sums: GlobalMut<f64>, place: usize) -> Self {
        let number = |k: usize| sums.get(place + k);
        let product = |u: usize| W::from_components(|c| number(2 + u * W::COMPONENTS + c));
        let size = |u: usize| number(2 + TOGETHER * W::COMPONENTS + u);
        let [p0, p1, p2, p3] = self.product;
        let [s0, s1, s2, s3] = self.size;
        Self {
            sum: self.sum + number(0),
            largest: Real::max(self.largest, number(1)),
            product: [
                p0 + product(0),
                p1 + product(1),
                p2 + product(2),
                p3 + product(3),
            ],
            size: [s0 + size(0), s1 + size(1), s2 + size(2), s3 + size(3)],
        }
    }

    /// Leaves the row at `place`.
    #[inlined]
    fn leave(self, sums: GlobalMut<f64>, place: usize) {
        let [p0, p1, p2, p3] = self.product;
        let [s0, s1, s2, s3] = self.size;
        let set = |k: usize, number: f64| sums.set(place + k, number);
        set(0, self.sum);
        set(1, self.largest);
        let product = |u: usize, sum: W| {
            sum.for_components(|c, component| set(2 + u * W::COMPONENTS + c, component));
        };
        let size = |u: usize, sum: f64| set(2 + TOGETHER * W::COMPONENTS + u, sum);
        product(0, p0);
        product(1, p1);
        product(2, p2);
        product(3, p3);
        size(0, s0);
        size(1, s1);
        size(2, s2);
        size(3, s3);
    }

    /// The sums over the lanes of a warp. All of them call it.
    #[inlined]
    fn joined(self) -> Self {
        let largest = warp::fold(warp::WARP_SIZE, self.largest, Real::max);
        let sum = |v: f64| warp::reduce_sum(v);
        let product = |v: W| warp::reduce_sum(v);
        let [p0, p1, p2, p3] = self.product;
        let [s0, s1, s2, s3] = self.size;
        Self {
            sum: sum(self.sum),
            largest,
            product: [product(p0), product(p1), product(p2), product(p3)],
            size: [sum(s0), sum(s1), sum(s2), sum(s3)],
        }
    }
}

/// A matrix, and solutions from number `rhs` on.
#[derive(Clone, Copy)]
struct Matrix<W: Field> {
    n: usize,
    a: Rows<W>,
    x: Global<W>,
    rhs: usize,
    last: usize,
}

impl<W: Field<Real = f64>> Matrix<W> {
    /// A row with entry `p`.
    #[inlined]
    fn add(self, p: u64, row: Row<W>) -> Row<W> {
        let p = p as usize;
        let value = if self.a.entries.is_empty() {
            self.a.values.get(p)
        } else {
            let entry = self.a.entries.get(p);
            if W::COMPONENTS == 1 {
                self.a.values.get(entry as usize)
            } else {
                let value = self.a.values.get((entry & !CONJUGATED) as usize);
                if entry & CONJUGATED != 0 {
                    value.conjugate()
                } else {
                    value
                }
            }
        };
        let column = self.a.col_idx.get(p) as usize;
        let product = |u: usize| {
            let rhs = self.rhs + u;
            let rhs = if rhs < self.last { rhs } else { self.last };
            value * self.x.get(rhs * self.n + column)
        };
        let products = [product(0), product(1), product(2), product(3)];
        Row {
            sum: row.sum + value.magnitude(),
            largest: Real::max(row.largest, value.magnitude()),
            product: [
                row.product[0] + products[0],
                row.product[1] + products[1],
                row.product[2] + products[2],
                row.product[3] + products[3],
            ],
            size: [
                row.size[0] + products[0].magnitude(),
                row.size[1] + products[1].magnitude(),
                row.size[2] + products[2].magnitude(),
                row.size[3] + products[3].magnitude(),
            ],
        }
    }
}

impl<W: Field<Real = f64>> Matrix<W> {
    /// The entries `begin .. end` summed up by a warp, all lanes of which call it.
    #[inlined]
    fn stretch(self, begin: u64, end: u64) -> Row<W> {
        let mut part = Row::zero();
        let mut p = begin + u64::from(thread::lane_id());
        while p < end {
            part = self.add(p, part);
            p += u64::from(warp::WARP_SIZE);
        }
        part.joined()
    }
}

/// The largest bits that a thread saw: of ‖A‖∞, and for each right-hand side of the residual and the errors of the two
/// kinds of rows.
#[derive(Clone, Copy, Default)]
struct Most {
    a: u64,
    of: [[u64; 3]; TOGETHER],
}

impl Most {
    /// With what is seen of a row, for right-hand sides from `rhs` on.
    #[inlined]
    fn with<W: Field<Real = f64>>(self, settle: Settle<W>, rhs: usize) -> Self {
        let [of0, of1, of2, of3] = self.of;
        Self {
            a: larger(self.a, magnitude_bits(settle.row.sum)),
            of: [
                settle.rhs(rhs, 0, of0),
                settle.rhs(rhs, 1, of1),
                settle.rhs(rhs, 2, of2),
                settle.rhs(rhs, 3, of3),
            ],
        }
    }
}

/// A row of which everything is summed.
#[derive(Clone, Copy)]
struct Settle<W: Field> {
    row: Row<W>,
    n: usize,
    i: usize,
    nrhs: usize,
    b: Global<W>,
    residual: GlobalMut<W>,
    measures: GlobalMut<u64>,
}

impl<W: Field<Real = f64>> Settle<W> {
    /// Writes the residual of right-hand side `first` + `u`, if there is one, and raises what the thread saw.
    #[inlined]
    fn rhs(self, first: usize, u: usize, most: [u64; 3]) -> [u64; 3] {
        let rhs = first + u;
        if rhs >= self.nrhs {
            return most;
        }
        let [residual, large, small] = most;
        let place = rhs * self.n + self.i;
        let b = self.b.get(place);
        let difference = b - self.row.product[u];
        self.residual.set(place, difference);
        let norm_x = f64::from_bits(self.measures.get(rhs * measure::LEN + measure::X));
        let size = self.row.size[u] + b.magnitude();
        let rounding =
            1000.0 * self.n as f64 * f64::EPSILON * (self.row.largest * norm_x + b.magnitude());
        let is_large = size > rounding;
        let size = if is_large {
            size
        } else {
            self.row.size[u] + self.row.sum * norm_x
        };
        let error = if difference == W::ZERO {
            0
        } else {
            magnitude_bits(difference.magnitude() / size)
        };
        let residual = larger(residual, magnitude_bits(difference.magnitude()));
        if is_large {
            [residual, larger(large, error), small]
        } else {
            [residual, large, larger(small, error)]
        }
    }
}

/// The bits of |`value`|.
#[inlined]
fn magnitude_bits(value: f64) -> u64 {
    value.to_bits() & (u64::MAX >> 1)
}

/// The residuals b − A·x of `nrhs` solutions, and what backward errors are made of (Rigal and Gaches 1967; Arioli,
/// Demmel and Duff 1989, with their two kinds of rows): `found[k]` with k as in [`measure`], for one right-hand side
/// after another.
///
/// The entries of row i are `row_ptr[i] .. row_ptr[i + 1]`: entry p is in column `col_idx[p]`, with value
/// `values[entries[p]]`, or `values[p]` if `entries` is empty. Long row `rows[k]` has the segments
/// `segment_ptr[k] .. segment_ptr[k + 1]`.
///
/// Threads: a warp a segment, then a lane a row, in grid strides; a row of more than 32 entries is summed by its warp,
/// and one of segments by a warp. Writes: `sums` of a segment by its warp alone; `residual` of a row by one lane;
/// `measures` by atomic maxima; `found`, which may be memory of the host, and `measures` and `barrier`, which are zero then, by the
/// last block to finish. Order: a barrier of the grid between the norms of x and b with the segments, and the
/// rows. Shared memory: static, 0.3 KB. Launch: cooperative, 1-D, a multiple of 32 threads a block. Preconditions: the arrays
/// describe a square matrix and the segments of its long rows; `measures` and `barrier` are zero.
#[kernel(
    W = [f64, Complex<f64>],
    max_threads(256),
    require(
        nrhs >= 1,
        a.entries.is_empty() || a.entries.len() == a.col_idx.len(),
        x.len() == nrhs as usize * (a.row_ptr.len() - 1),
        b.len() == x.len(),
        residual.len() == x.len(),
        long.segment_ptr.len() == long.rows.len() + 1,
        long.sums.len() >= long.segments.len() * segment_sums(nrhs as usize, W::COMPONENTS),
        measured.measures.len() == nrhs as usize * measure::LEN + 1,
        measured.found.len() == nrhs as usize * measure::LEN,
        measured.barrier.len() >= 1
    )
)]
pub unsafe fn residuals<W: Field<Real = f64>>(
    nrhs: u32,
    a: Rows<W>,
    x: Global<W>,
    b: Global<W>,
    residual: GlobalMut<W>,
    long: LongRows,
    measured: Measured,
) {
    let Measured {
        measures,
        found,
        barrier,
    } = measured;
    let of_warps = shared_array![u64; 4 * MAX_WARPS];
    let n = a.row_ptr.len() - 1;
    let nrhs = nrhs as usize;
    let lane = thread::lane_id();
    let warp = (thread::index_1d() / warp::WARP_SIZE) as usize;
    let num_warps = (thread::num_threads_1d() / warp::WARP_SIZE) as usize;
    let num_segments = long.segments.len();
    let matrix = Matrix {
        n,
        a,
        x,
        rhs: 0,
        // Those that there are not are taken for the last one, again.
        last: nrhs - 1,
    };
    let mut rhs = 0;
    while rhs < nrhs {
        let (mut most_x, mut most_b) = (0, 0);
        for i in thread::grid_stride(n) {
            most_x = larger(most_x, magnitude_bits(x.get(rhs * n + i).magnitude()));
            most_b = larger(most_b, magnitude_bits(b.get(rhs * n + i).magnitude()));
        }
        let first = rhs * measure::LEN + measure::X;
        raise(measures, first, [most_x, most_b], of_warps);
        rhs += 1;
    }
    let mut segment = warp;
    while segment < num_segments {
        let (begin, end) = (
            long.segments.get(segment).begin(),
            long.segments.get(segment).end(),
        );
        let row_numbers = row_numbers(W::COMPONENTS);
        let mut place = segment * row_numbers;
        let mut rhs = 0;
        while rhs < nrhs {
            let part = Matrix { rhs, ..matrix }.stretch(u64::from(begin), u64::from(end));
            if lane == 0 {
                part.leave(long.sums, place);
            }
            place += num_segments * row_numbers;
            rhs += TOGETHER;
        }
        segment += num_warps;
    }
    GridBarrier::new(barrier).wait();

    // Where the sums for these right-hand sides begin.
    let mut first_sums = 0;
    let mut rhs = 0;
    while rhs < nrhs {
        let matrix = Matrix { rhs, ..matrix };
        let mut most = Most::default();
        // The lanes of a warp together, some past the end.
        let mut first = (thread::index_1d() - lane) as usize;
        while first < n {
            let i = first + lane as usize;
            let (mut begin, mut end) = (0, 0);
            if i < n {
                begin = a.row_ptr.get(i);
                end = a.row_ptr.get(i + 1);
            }
            let mut row = Row::zero();
            let is_in_segments = end - begin > SEGMENT;
            let is_long = end - begin > LONG && !is_in_segments;
            if end - begin <= LONG {
                let mut p = begin;
                while p < end {
                    row = matrix.add(p, row);
                    p += 1;
                }
            }
            let mut left = warp::ballot(warp::FULL_MASK, is_long);
            while left != 0 {
                let owner = left.trailing_zeros();
                left &= left - 1;
                let begin = warp::shuffle(warp::FULL_MASK, begin, owner);
                let end = warp::shuffle(warp::FULL_MASK, end, owner);
                let whole = matrix.stretch(begin, end);
                if lane == owner {
                    row = whole;
                }
            }
            if i < n && !is_in_segments {
                let settle = Settle {
                    row,
                    n,
                    i,
                    nrhs,
                    b,
                    residual,
                    measures,
                };
                most = most.with(settle, rhs);
            }
            first += thread::num_threads_1d() as usize;
        }
        let mut k = warp;
        while k < long.rows.len() {
            let end = long.segment_ptr.get(k + 1);
            let mut part = Row::zero();
            let mut segment = long.segment_ptr.get(k) + lane;
            while segment < end {
                part = part.plus(
                    long.sums,
                    first_sums + segment as usize * row_numbers(W::COMPONENTS),
                );
                segment += warp::WARP_SIZE;
            }
            let row = part.joined();
            if lane == 0 {
                let settle = Settle {
                    row,
                    n,
                    i: long.rows.get(k) as usize,
                    nrhs,
                    b,
                    residual,
                    measures,
                };
                most = most.with(settle, rhs);
            }
            k += num_warps;
        }
        let mut u = 0;
        while u < TOGETHER && rhs + u < nrhs {
            let [residual, large, small] = if u < 2 {
                if u == 0 { most.of[0] } else { most.of[1] }
            } else if u == 2 {
                most.of[2]
            } else {
                most.of[3]
            };
            let first = (rhs + u) * measure::LEN + measure::RESIDUAL;
            let found = [residual, most.a, large, small];
            raise(measures, first, found, of_warps);
            u += 1;
        }
        first_sums += num_segments * row_numbers(W::COMPONENTS);
        rhs += TOGETHER;
    }
    // All blocks have left the barrier.
    if leave(measures, found) && thread::thread_idx_x() == 0 {
        barrier.set(0, 0);
    }
}

/// x := x + `correction`.
///
/// Threads: a grid-stride loop, an entry an iteration. Writes: `x[i]` by its thread alone. Shared memory: none. Launch:
/// 1-D, any size.
#[kernel(W = [f64, Complex<f64>], require(correction.len() == x.len()))]
pub unsafe fn correct<W: Field>(correction: Global<W>, x: GlobalMut<W>) {
    for i in thread::grid_stride(x.len()) {
        x.set(i, x.get(i) + correction.get(i));
    }
}

/// Finds the first of the numbers `x` that is infinite or not a number: `found[0]` is the complement of its place, or zero if there
/// is none; and `found[1]` the bits of the largest magnitude.
///
/// Threads: a grid-stride loop, a number an iteration. Writes: `state` by atomics; `found`, which may be memory of the host, and
/// `state`, which is zero then, by the last block to finish. Shared memory: static, 0.1 KB. Launch: 1-D, a multiple of 32
/// threads a block. Preconditions: `state` is zero.
#[kernel(W = [f64, Complex<f64>], max_threads(256), require(state.len() == 3, found.len() == 2))]
pub unsafe fn find_not_finite<W: Field<Real = f64>>(
    x: Global<W>,
    state: GlobalMut<u64>,
    found: GlobalMut<u64>,
) {
    let (mut first, mut largest) = (0, 0);
    for i in thread::grid_stride(x.len()) {
        let number = x.get(i);
        if !number.is_number() {
            first = larger(first, !(i as u64));
        }
        largest = larger(largest, magnitude_bits(number.magnitude()));
    }
    let of_warps = shared_array![u64; 2 * MAX_WARPS];
    raise(state, 0, [first, largest], of_warps);
    leave(state, found);
}

/// Blocks and threads of a block of a launch of [`sum_magnitudes`](fn@sum_magnitudes).
pub const SUMMING: [u32; 2] = [128, 256];

/// Sums of the [magnitudes](Field::magnitude) of the numbers `x`: `sums[b]` is that of every [`SUMMING`]th number from those of block b on, summed up in the
/// same order in every launch of this size.
///
/// Threads: a grid-stride loop, a number an iteration. Writes: `sums[b]` by block b alone. Shared memory: static, 0.1 KB. Launch: 1-D,
/// [`SUMMING`].
#[kernel(W = [f64, Complex<f64>], max_threads(256), require(sums.len() >= SUMMING[0] as usize))]
pub unsafe fn sum_magnitudes<W: Field<Real = f64>>(x: Global<W>, sums: GlobalMut<f64>) {
    let mut sum = 0.0;
    for i in thread::grid_stride(x.len()) {
        sum += x.get(i).magnitude();
    }
    let of_warps = shared_array![f64; MAX_WARPS];
    let of_warp = warp::fold(warp::WARP_SIZE, sum, |one, other| one + other);
    let thread = thread::thread_idx_x();
    if thread::lane_id() == 0 {
        of_warps.set((thread / warp::WARP_SIZE) as usize, of_warp);
    }
    thread::sync_threads();
    if thread == 0 {
        let mut sum = 0.0;
        let mut warp = 0;
        while warp < (thread::block_dim_x() / warp::WARP_SIZE) as usize {
            sum += of_warps.get(warp);
            warp += 1;
        }
        sums.set(thread::block_idx_x() as usize, sum);
    }
}

/// Compares the values of a symmetric matrix with those across the diagonal, which are at `mirror`: `found[0]` has the bits of the
/// largest magnitude of a value, and `found[1]` those of the largest difference. If `conjugates`, the matrix is Hermitian.
///
/// Threads: a grid-stride loop, a value an iteration. Writes: `state` by atomics; `found`, which may be memory of the host, and
/// `state`, which is zero then, by the last block to finish. Shared memory: static, 0.1 KB. Launch: 1-D, a multiple of 32 threads a
/// block. Preconditions: `state` is zero; `mirror` has places of values.
#[kernel(
    W = [f64, Complex<f64>],
    max_threads(256),
    require(mirror.len() == values.len(), state.len() == 3, found.len() == 2)
)]
pub unsafe fn compare_across<W: Field<Real = f64>>(
    mirror: Global<u32>,
    conjugates: u32,
    values: Global<W>,
    state: GlobalMut<u64>,
    found: GlobalMut<u64>,
) {
    let (mut largest, mut difference) = (0, 0);
    for p in thread::grid_stride(values.len()) {
        let (value, other) = (values.get(p), values.get(mirror.get(p) as usize));
        let other = if W::COMPONENTS > 1 && conjugates != 0 {
            other.conjugate()
        } else {
            other
        };
        largest = larger(largest, magnitude_bits(value.magnitude()));
        difference = larger(difference, magnitude_bits((value - other).magnitude()));
    }
    let of_warps = shared_array![u64; 2 * MAX_WARPS];
    raise(state, 0, [largest, difference], of_warps);
    leave(state, found);
}

/// Sets the numbers `x` to those of [`known_solution`], so that rows of a product with them do not cancel, and so that no
/// arithmetic with them is exact by luck.
///
/// Threads: a grid-stride loop, a number an iteration. Writes: `x[i]` by its thread alone. Shared memory: none. Launch:
/// 1-D, any size.
#[kernel(W = [f64, Complex<f64>])]
pub unsafe fn set_known_solution<W: Field<Real = f64>>(x: GlobalMut<W>) {
    for i in thread::grid_stride(x.len()) {
        x.set(i, known_solution(i as u64));
    }
}

/// Entry `i` of the known solution that factors are probed with: pseudo-random, its components of either sign, with a
/// magnitude in [1, 2).
#[inlined]
pub fn known_solution<W: Field<Real = f64>>(i: u64) -> W {
    let count = W::COMPONENTS as u64;
    W::from_components(|at| {
        let component = known_component(count.wrapping_mul(i).wrapping_add(at as u64));
        component / count as f64
    })
}

/// A number of either sign with a magnitude in [1, 2) (the finalizer of SplitMix64: Steele, Lea and Flood 2014).
#[inlined]
fn known_component(i: u64) -> f64 {
    const ONE: u64 = 0x3ff0_0000_0000_0000;
    let mut bits = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    f64::from_bits((bits << 63) | ONE | (bits >> 12))
}
