//! Residuals and backward errors in `f64`, for iterative refinement.
//!
//! Maxima are kept as the bits of magnitudes, which are ordered as the magnitudes are, with NaN above all: whatever the
//! order in which threads raise them, the result is the same, and a NaN is never lost.

use luge_kernel::prelude::*;

use crate::grid::GridBarrier;

/// What [`residuals`](fn@residuals) measures of each right-hand side: places among [`measure::LEN`] words, each the bits
/// of a number that is not negative, or NaN.
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

/// Right-hand sides for which an entry of A is read once.
const TOGETHER: usize = 4;

/// Entries of a row from which on a warp adds them up together.
const LONG: u64 = 32;

/// Threads of a block, at most.
pub const THREADS: u32 = 256;

/// What is summed over a row.
#[derive(Clone, Copy)]
struct Row {
    /// Sum of magnitudes and largest magnitude of its entries.
    sum: f64,
    largest: f64,
    /// A·x and |A|·|x|.
    product: [f64; TOGETHER],
    size: [f64; TOGETHER],
}

impl Row {
    #[inline(always)]
    fn zero() -> Self {
        Self {
            sum: 0.0,
            largest: 0.0,
            product: [0.0; TOGETHER],
            size: [0.0; TOGETHER],
        }
    }
}

/// The bits of |`value`|.
#[inline(always)]
fn magnitude_bits(value: f64) -> u64 {
    value.to_bits() & (u64::MAX >> 1)
}

#[inline(always)]
fn larger(one: u64, other: u64) -> u64 {
    if one > other { one } else { other }
}

/// Raises a measure to the largest `bits` of a warp. All lanes call it.
#[inline(always)]
fn raise(measures: GlobalMut<u64>, place: usize, bits: u64) {
    let mut most = bits;
    let mut distance = warp::WARP_SIZE / 2;
    while distance > 0 {
        most = larger(most, warp::shuffle_xor(warp::FULL_MASK, most, distance));
        distance /= 2;
    }
    if thread::lane_id() == 0 && most != 0 {
        let measure = measures.atomic(place);
        measure.fetch_max(most, Ordering::Relaxed, Scope::Device);
    }
}

/// The residuals b − A·x of `nrhs` solutions, and what backward errors are made of (Rigal and Gaches 1967; Arioli,
/// Demmel and Duff 1989, with their two kinds of rows): `measures[k]` with k as in [`measure`], for one right-hand side
/// after another.
///
/// The entries of row i are `row_ptr[i] .. row_ptr[i + 1]`: entry p is in column `col_idx[p]`, with value
/// `values[entries[p]]`, or `values[p]` if `entries` is empty.
///
/// Threads: a lane a row, in a grid stride; a row of more than 32 entries is summed by its warp. Writes: `residual` of a
/// row by its lane alone; `measures` by atomic maxima. Order: a barrier of the grid between the norms of x and b and the
/// rows. Shared memory: none. Launch: cooperative, 1-D, a multiple of 32 threads a block. Preconditions: the arrays
/// describe a square matrix; `measures` and `barrier` are zero.
#[kernel(
    max_threads(256),
    require(
        nrhs >= 1,
        entries.len() == 0 || entries.len() == col_idx.len(),
        x.len() == nrhs as usize * (row_ptr.len() - 1),
        b.len() == x.len(),
        residual.len() == x.len(),
        measures.len() == nrhs as usize * measure::LEN,
        barrier.len() >= 1
    )
)]
pub unsafe fn residuals(
    nrhs: u32,
    row_ptr: Global<u64>,
    col_idx: Global<u32>,
    entries: Global<u32>,
    values: Global<f64>,
    x: Global<f64>,
    b: Global<f64>,
    residual: GlobalMut<f64>,
    measures: GlobalMut<u64>,
    barrier: GlobalMut<u32>,
) {
    let n = row_ptr.len() - 1;
    let nrhs = nrhs as usize;
    let lane = thread::lane_id();
    let mut rhs = 0;
    while rhs < nrhs {
        let (mut most_x, mut most_b) = (0, 0);
        for i in thread::grid_stride(n) {
            most_x = larger(most_x, magnitude_bits(x.get(rhs * n + i)));
            most_b = larger(most_b, magnitude_bits(b.get(rhs * n + i)));
        }
        raise(measures, rhs * measure::LEN + measure::X, most_x);
        raise(measures, rhs * measure::LEN + measure::B, most_b);
        rhs += 1;
    }
    GridBarrier::new(barrier).wait();

    let mut rhs = 0;
    while rhs < nrhs {
        let add = |p: u64, row: &mut Row| {
            let p = p as usize;
            let value = if entries.is_empty() {
                values.get(p)
            } else {
                values.get(entries.get(p) as usize)
            };
            let column = col_idx.get(p) as usize;
            row.sum += value.abs();
            row.largest = Real::max(row.largest, value.abs());
            let mut u = 0;
            while u < TOGETHER {
                if rhs + u < nrhs {
                    let product = value * x.get((rhs + u) * n + column);
                    row.product[u] += product;
                    row.size[u] += product.abs();
                }
                u += 1;
            }
        };
        let mut most_a = 0;
        let mut most = [[0u64; TOGETHER]; 3];
        // The lanes of a warp together, some past the end.
        let mut first = (thread::index_1d() - lane) as usize;
        while first < n {
            let i = first + lane as usize;
            let (mut begin, mut end) = (0, 0);
            if i < n {
                begin = row_ptr.get(i);
                end = row_ptr.get(i + 1);
            }
            let mut row = Row::zero();
            let is_long = end - begin > LONG;
            if !is_long {
                let mut p = begin;
                while p < end {
                    add(p, &mut row);
                    p += 1;
                }
            }
            let mut long = warp::ballot(warp::FULL_MASK, is_long);
            while long != 0 {
                let owner = long.trailing_zeros();
                long &= long - 1;
                let mut p = warp::shuffle(warp::FULL_MASK, begin, owner) + u64::from(lane);
                let end = warp::shuffle(warp::FULL_MASK, end, owner);
                let mut part = Row::zero();
                while p < end {
                    add(p, &mut part);
                    p += u64::from(warp::WARP_SIZE);
                }
                let is_owner = lane == owner;
                let sum = warp::reduce_sum(warp::FULL_MASK, part.sum);
                let mut distance = warp::WARP_SIZE / 2;
                while distance > 0 {
                    let other = warp::shuffle_xor(warp::FULL_MASK, part.largest, distance);
                    part.largest = Real::max(part.largest, other);
                    distance /= 2;
                }
                if is_owner {
                    row.sum = sum;
                    row.largest = part.largest;
                }
                let mut u = 0;
                while u < TOGETHER {
                    let product = warp::reduce_sum(warp::FULL_MASK, part.product[u]);
                    let size = warp::reduce_sum(warp::FULL_MASK, part.size[u]);
                    if is_owner {
                        row.product[u] = product;
                        row.size[u] = size;
                    }
                    u += 1;
                }
            }
            if i < n {
                most_a = larger(most_a, magnitude_bits(row.sum));
                let mut u = 0;
                while u < TOGETHER {
                    if rhs + u < nrhs {
                        let place = (rhs + u) * n + i;
                        let of_b = b.get(place);
                        let difference = of_b - row.product[u];
                        residual.set(place, difference);
                        let norm_x = (rhs + u) * measure::LEN + measure::X;
                        let norm_x = f64::from_bits(measures.get(norm_x));
                        let size = row.size[u] + of_b.abs();
                        let rounding =
                            1000.0 * n as f64 * f64::EPSILON * (row.largest * norm_x + of_b.abs());
                        let is_large = size > rounding;
                        let size = if is_large {
                            size
                        } else {
                            row.size[u] + row.sum * norm_x
                        };
                        let error = if difference == 0.0 {
                            0.0
                        } else {
                            difference.abs() / size
                        };
                        most[0][u] = larger(most[0][u], magnitude_bits(difference));
                        if is_large {
                            most[1][u] = larger(most[1][u], magnitude_bits(error));
                        } else {
                            most[2][u] = larger(most[2][u], magnitude_bits(error));
                        }
                    }
                    u += 1;
                }
            }
            first += thread::num_threads_1d() as usize;
        }
        let mut u = 0;
        while u < TOGETHER {
            if rhs + u < nrhs {
                let at = (rhs + u) * measure::LEN;
                raise(measures, at + measure::A, most_a);
                raise(measures, at + measure::RESIDUAL, most[0][u]);
                raise(measures, at + measure::LARGE_ROWS, most[1][u]);
                raise(measures, at + measure::SMALL_ROWS, most[2][u]);
            }
            u += 1;
        }
        rhs += TOGETHER;
    }
}

/// x := x + `correction`.
///
/// Threads: a grid-stride loop, an entry an iteration. Writes: `x[i]` by its thread alone. Shared memory: none. Launch:
/// 1-D, any size.
#[kernel(require(correction.len() == x.len()))]
pub unsafe fn correct(correction: Global<f64>, x: GlobalMut<f64>) {
    for i in thread::grid_stride(x.len()) {
        x.set(i, x.get(i) + correction.get(i));
    }
}
