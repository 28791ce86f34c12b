//! Products of the tiles left of a tile and above it.
//!
//! A block holds its tile in registers, as the tensor cores want it: eight warps have half of its rows and a quarter of its
//! columns each. Pivots come in chunks through the shared memory, where one chunk is stored while the one before is still
//! multiplied with; the next is on its way from global memory at the same time.

use luge_kernel::prelude::*;

use super::{EliminateLarge, LargeFronts, Matrix, PART, Tile, wide_product, words};
use crate::frontal::plan::{BLOCK_VALUES, THREADS, WIDE_TILE, WIDE_VALUES};

/// Pivots whose products are added at once.
const CHUNK: u32 = 16;

/// Pivots of one product.
const DEPTH: u32 = 8;

/// Distance of the columns of a chunk that has a row for each pivot: so lanes that read 4 rows of 4 columns, or the other
/// way round, meet in no bank.
const DEEP_STRIDE: u32 = CHUNK + 4;

/// Distance of the pivots of a chunk of the rows or columns of a tile of `tile` rows and columns, likewise.
const fn flat_stride(tile: u32) -> u32 {
    tile + 4
}

/// Values of a chunk of both factors.
const fn chunk_values(tile: u32) -> u32 {
    let (flat, deep) = (CHUNK * flat_stride(tile), tile * DEEP_STRIDE);
    flat + if flat > deep { flat } else { deep }
}

/// Values of a chunk that a thread brings, of one factor, at most.
const MOST: usize = (WIDE_TILE * CHUNK / THREADS) as usize;

const _: () = assert!(2 * chunk_values(PART) <= BLOCK_VALUES);
const _: () = assert!(2 * chunk_values(WIDE_TILE) <= WIDE_VALUES);
const _: () = assert!(THREADS == 8 * warp::WARP_SIZE && CHUNK * CHUNK == THREADS);

/// Repeats the body for the numbers from 0 on that are below a constant, at most 4. A loop would not always be unrolled, and
/// registers have no index.
#[cfg(target_arch = "nvptx64")]
macro_rules! repeated {
    ($i:ident < $end:expr => $body:block) => {
        const { assert!($end <= 4) };
        repeated!(@ 0, $i < $end => $body);
        repeated!(@ 1, $i < $end => $body);
        repeated!(@ 2, $i < $end => $body);
        repeated!(@ 3, $i < $end => $body);
    };
    (@ $value:literal, $i:ident < $end:expr => $body:block) => {
        if $value < $end {
            let $i: usize = $value;
            $body
        }
    };
}

/// Elsewhere a loop, as it takes the compiler a third of the time.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! repeated {
    ($i:ident < $end:expr => $body:block) => {
        const { assert!($end <= 4) };
        for $i in 0..$end {
            $body
        }
    };
}

pub(crate) use repeated;

const _: () = assert!(WIDE_TILE / 32 <= 4);

/// Steps that are asked for at once whether they are done.
const ASKED: u32 = warp::WARP_SIZE / 2;

/// What fronts are factorized in.
pub trait FrontField: Field {
    /// Adds the products of [`DEPTH`] pivots to a warp's matrix of 16 · F rows and 8 · F columns, of which `sums[i][j]` are
    /// those of a lane in block i, j as [`mma_m16n8k8_f64`](matrix::mma_m16n8k8_f64) has them. `lower` tells the entry in
    /// a row of a pivot, `upper` that of a pivot in a column.
    fn add_products<const F: usize>(
        lower: impl Fn(u32, u32) -> Self,
        upper: impl Fn(u32, u32) -> Self,
        sums: &mut [[[Self; 4]; F]; F],
    );

    /// Adds the products of a warp's matrix of 16 rows and [`DEPTH`] columns with N of as many rows and 8 columns. A lane has
    /// `left` of the former and `sums` as [`mma_m16n8k8_f64`](matrix::mma_m16n8k8_f64) has them; `right(n, p, j)` is entry
    /// p, j of number n of the latter.
    fn add_columns<const N: usize>(
        left: [Self; 4],
        right: impl Fn(usize, u32, u32) -> Self,
        sums: &mut [[[Self; 4]; N]; 1],
    );
}

/// A lane's parts of the left factors of F products, as [`mma_m16n8k8_f64`](matrix::mma_m16n8k8_f64) has them.
#[inlined]
fn left_factors<T: Field, const F: usize>(lower: impl Fn(u32, u32) -> T) -> [[T; 4]; F] {
    let (g, t) = (thread::lane_id() / 4, thread::lane_id() % 4);
    let mut left = [[T::ZERO; 4]; F];
    repeated!(i < F => {
        repeated!(x < 4 => {
            let (row, p) = (x as u32 % 2 * 8, x as u32 / 2 * 4);
            left[i][x] = lower(16 * i as u32 + g + row, t + p);
        });
    });
    left
}

/// Likewise of the right factors: `right(n, p, j)` is entry p, j of number n.
#[inlined]
fn right_factors<T: Field, const N: usize>(right: impl Fn(usize, u32, u32) -> T) -> [[T; 2]; N] {
    let (g, t) = (thread::lane_id() / 4, thread::lane_id() % 4);
    let mut of_right = [[T::ZERO; 2]; N];
    repeated!(n < N => {
        repeated!(x < 2 => {
            of_right[n][x] = right(n, t + 4 * x as u32, g);
        });
    });
    of_right
}

impl FrontField for f64 {
    #[inlined]
    fn add_products<const F: usize>(
        lower: impl Fn(u32, u32) -> Self,
        upper: impl Fn(u32, u32) -> Self,
        sums: &mut [[[Self; 4]; F]; F],
    ) {
        let left = left_factors(lower);
        let right = right_factors(|n, p, j| upper(p, 8 * n as u32 + j));
        matrix::mma_m16n8k8_f64(&left, &right, sums);
    }

    #[inlined]
    fn add_columns<const N: usize>(
        left: [Self; 4],
        right: impl Fn(usize, u32, u32) -> Self,
        sums: &mut [[[Self; 4]; N]; 1],
    ) {
        matrix::mma_m16n8k8_f64(&[left], &right_factors(right), sums);
    }
}

/// In the arithmetic of `f32`: tensor cores would round to fewer bits.
macro_rules! without_tensor_cores {
    ($($t:ty),*) => {$(
        impl FrontField for $t {
            #[inlined]
            fn add_products<const F: usize>(
                lower: impl Fn(u32, u32) -> Self,
                upper: impl Fn(u32, u32) -> Self,
                sums: &mut [[[Self; 4]; F]; F],
            ) {
                add_products_one_by_one(lower, upper, sums);
            }

            #[inlined]
            fn add_columns<const N: usize>(
                left: [Self; 4],
                right: impl Fn(usize, u32, u32) -> Self,
                sums: &mut [[[Self; 4]; N]; 1],
            ) {
                add_columns_one_by_one(left, right, sums);
            }
        }
    )*};
}
without_tensor_cores!(f32, Complex<f32>);

/// See [`FrontField::add_products`].
#[inlined]
fn add_products_one_by_one<T: Field, const F: usize>(
    lower: impl Fn(u32, u32) -> T,
    upper: impl Fn(u32, u32) -> T,
    sums: &mut [[[T; 4]; F]; F],
) {
    let (g, t) = (thread::lane_id() / 4, thread::lane_id() % 4);
    let mut p = 0;
    while p < DEPTH {
        let mut left = [[T::ZERO; 2]; F];
        let mut right = [[T::ZERO; 2]; F];
        repeated!(i < F => {
            repeated!(x < 2 => {
                left[i][x] = lower(16 * i as u32 + g + 8 * x as u32, p);
                right[i][x] = upper(p, 8 * i as u32 + 2 * t + x as u32);
            });
        });
        repeated!(i < F => {
            repeated!(j < F => {
                repeated!(x < 4 => {
                    let sum = sums[i][j][x];
                    sums[i][j][x] = left[i][x / 2].mul_add(right[j][x % 2], sum);
                });
            });
        });
        p += 1;
    }
}

/// See [`FrontField::add_columns`].
#[inlined]
fn add_columns_one_by_one<T: Field, const N: usize>(
    left: [T; 4],
    right: impl Fn(usize, u32, u32) -> T,
    sums: &mut [[[T; 4]; N]; 1],
) {
    let (first, t) = (thread::lane_id() / 4 * 4, thread::lane_id() % 4);
    let mut p = 0;
    while p < DEPTH {
        let (upper, lower) = if p < 4 {
            (left[0], left[1])
        } else {
            (left[2], left[3])
        };
        let upper = warp::shuffle(warp::FULL_MASK, upper, first + p % 4);
        let lower = warp::shuffle(warp::FULL_MASK, lower, first + p % 4);
        repeated!(n < N => {
            repeated!(x < 4 => {
                let of_left = if x < 2 { upper } else { lower };
                let of_right = right(n, p, 2 * t + x as u32 % 2);
                sums[0][n][x] = of_left.mul_add(of_right, sums[0][n][x]);
            });
        });
        p += 1;
    }
}

/// By products of real numbers, four for each.
impl FrontField for Complex<f64> {
    #[inlined]
    fn add_products<const F: usize>(
        lower: impl Fn(u32, u32) -> Self,
        upper: impl Fn(u32, u32) -> Self,
        sums: &mut [[[Self; 4]; F]; F],
    ) {
        let left = left_factors(lower);
        let right = right_factors(|n, p, j| upper(p, 8 * n as u32 + j));
        add_complex(&left, &right, sums);
    }

    #[inlined]
    fn add_columns<const N: usize>(
        left: [Self; 4],
        right: impl Fn(usize, u32, u32) -> Self,
        sums: &mut [[[Self; 4]; N]; 1],
    ) {
        add_complex(&[left], &right_factors(right), sums);
    }
}

/// As [`mma_m16n8k8_f64`](matrix::mma_m16n8k8_f64). The products of real parts come first, so numbers without imaginary parts
/// have the sums that real ones have.
#[inlined]
fn add_complex<const M: usize, const N: usize>(
    left: &[[Complex<f64>; 4]; M],
    right: &[[Complex<f64>; 2]; N],
    sums: &mut [[[Complex<f64>; 4]; N]; M],
) {
    let mut re = [[[0.0; 4]; N]; M];
    let mut im = [[[0.0; 4]; N]; M];
    repeated!(i < M => {
        re[i] = parts(&sums[i], |z| z.re);
        im[i] = parts(&sums[i], |z| z.im);
    });
    let (left_re, left_im) = (parts(left, |z| z.re), parts(left, |z| z.im));
    let (right_re, right_im) = (parts(right, |z| z.re), parts(right, |z| z.im));
    matrix::mma_m16n8k8_f64(&left_re, &right_re, &mut re);
    matrix::mma_m16n8k8_f64(&left_re, &right_im, &mut im);
    matrix::mma_m16n8k8_f64(&parts(left, |z| -z.im), &right_im, &mut re);
    matrix::mma_m16n8k8_f64(&left_im, &right_re, &mut im);
    repeated!(i < M => {
        repeated!(j < N => {
            repeated!(x < 4 => {
                sums[i][j][x] = Complex::new(re[i][j][x], im[i][j][x]);
            });
        });
    });
}

/// A part of each number.
#[inlined]
fn parts<const A: usize, const N: usize>(
    of: &[[Complex<f64>; A]; N],
    part: impl Fn(Complex<f64>) -> f64,
) -> [[f64; A]; N] {
    let mut parts = [[0.0; A]; N];
    repeated!(n < N => {
        repeated!(x < A => {
            parts[n][x] = part(of[n][x]);
        });
    });
    parts
}

/// Where the values of a chunk come from that a thread brings.
#[derive(Clone, Copy)]
struct Source {
    /// Place of the thread's first value for pivot 0.
    first: u64,
    /// Distance of pivots.
    of_pivots: u32,
}

impl<T: FrontField, const TILE: u32, K: EliminateLarge<T>> LargeFronts<T, TILE, K> {
    /// Subtracts from the tile the product of the first `pivots` columns of L and rows of U. A barrier ends it.
    #[inlined]
    pub(super) fn subtract_products(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        (ti, tj): (u32, u32),
        pivots: u32,
    ) {
        // Of a symmetric matrix what is above is L·D transposed, and its rows are columns of L in memory.
        let is_right = K::SYMMETRIC || tile.column >= tile.k;
        match (TILE == PART, is_right) {
            (true, true) => self.products::<2, true>(tile, matrix, (ti, tj), pivots),
            (true, false) => self.products::<2, false>(tile, matrix, (ti, tj), pivots),
            (false, true) => self.products::<4, true>(tile, matrix, (ti, tj), pivots),
            (false, false) => self.products::<4, false>(tile, matrix, (ti, tj), pivots),
        }
    }

    /// As [`subtract_products`](Self::subtract_products); F is a 32nd of TILE, and RIGHT says whether rows of U are rows in
    /// memory, as they are right of all pivots; elsewhere its columns are columns there.
    #[inlined]
    fn products<const F: usize, const RIGHT: bool>(
        self,
        tile: Tile,
        matrix: Matrix<T>,
        (ti, tj): (u32, u32),
        pivots: u32,
    ) {
        let (thread, lane) = (thread::thread_idx_x(), thread::lane_id());
        let warp = thread / warp::WARP_SIZE;
        let (first_row, first_column) = (warp / 4 * (TILE / 2), warp % 4 * (TILE / 4));
        let entry = |i: usize, j: usize, x: usize| {
            let row = first_row + 16 * i as u32 + lane / 4 + x as u32 / 2 * 8;
            let column = first_column + 8 * j as u32 + lane % 4 * 2 + x as u32 % 2;
            (row, column)
        };
        let mut sums = [[[T::ZERO; 4]; F]; F];
        repeated!(i < F => {
            repeated!(j < F => {
                repeated!(x < 4 => {
                    // What lies outside the tile is computed too, and left away.
                    let (row, column) = entry(i, j, x);
                    sums[i][j][x] = matrix.get(row.min(tile.rows - 1), column.min(tile.columns - 1));
                });
            });
        });
        // From here on the chunks are where the tile was.
        thread::sync_threads();
        let flat = flat_stride(TILE);
        let (of_pivot, of_column) = if RIGHT { (flat, 1) } else { (1, DEEP_STRIDE) };
        let sources = self.sources::<RIGHT>(tile);
        let load = |at: u32| self.load_chunk::<F, RIGHT>(tile, sources, at, pivots);
        self.ask((ti, tj), 0, pivots);
        thread::sync_threads();
        self.await_step((ti, tj), 0);
        let (mut of_lower, mut of_upper) = load(0);
        let mut at = 0;
        while at < pivots {
            let lower = (at / CHUNK % 2) * chunk_values(TILE);
            let upper = lower + CHUNK * flat;
            for x in 0..2 * F {
                let (own, p) = flat_place::<TILE>(x);
                let (mut below, mut above) = (-of_lower[x], of_upper[x]);
                if at + p >= pivots {
                    below = T::ZERO;
                }
                self.values.set((lower + p * flat + own) as usize, below);
                let (own, p) = if K::SYMMETRIC {
                    near_place::<TILE>(x)
                } else if RIGHT {
                    (own, p)
                } else {
                    deep_place(x)
                };
                if at + p >= pivots {
                    above = T::ZERO;
                }
                let place = upper + p * of_pivot + own * of_column;
                self.values.set(place as usize, above);
            }
            // Not in the first chunk of a step, where others may still read what was known before.
            if at % TILE == CHUNK {
                self.ask((ti, tj), at / TILE + 1, pivots);
            }
            thread::sync_threads();
            at += CHUNK;
            // The next chunk is on its way during the products, unless its tiles have to be waited for.
            let step = at / TILE;
            let is_awaited = at % TILE == 0 && at < pivots && self.words.get(words::KNOWN) <= step;
            if !is_awaited && at < pivots {
                (of_lower, of_upper) = load(at);
            }
            let mut p = 0;
            while p < CHUNK {
                let from_lower = lower + p * flat + first_row;
                let from_upper = upper + p * of_pivot + first_column * of_column;
                T::add_products::<F>(
                    |row, p| self.values.get((from_lower + p * flat + row) as usize),
                    |p, column| {
                        let place = from_upper + p * of_pivot + column * of_column;
                        self.values.get(place as usize)
                    },
                    &mut sums,
                );
                p += DEPTH;
            }
            if is_awaited {
                self.await_step((ti, tj), step);
                (of_lower, of_upper) = load(at);
            }
        }
        // The last chunk has been read.
        thread::sync_threads();
        repeated!(i < F => {
            repeated!(j < F => {
                repeated!(x < 4 => {
                    let (row, column) = entry(i, j, x);
                    if row < tile.rows && column < tile.columns {
                        matrix.set(row, column, sums[i][j][x]);
                    }
                });
            });
        });
        thread::sync_threads();
    }

    /// Where what the thread brings of L and of U comes from.
    #[inlined]
    fn sources<const RIGHT: bool>(self, tile: Tile) -> (Source, Source) {
        let m = tile.m();
        let own = thread::thread_idx_x() % TILE;
        let lower = Source {
            first: tile.slot + u64::from(tile.row + own.min(tile.rows - 1)),
            of_pivots: m,
        };
        let upper = if K::SYMMETRIC {
            Source {
                first: tile.slot + u64::from(tile.column + own.min(tile.columns - 1)),
                of_pivots: m,
            }
        } else if RIGHT {
            let column = tile.column - tile.k + own.min(tile.columns - 1);
            Source {
                first: tile.slot + wide_product(tile.k, m) + u64::from(column),
                of_pivots: tile.c,
            }
        } else {
            Source {
                first: tile.slot + wide_product(tile.column, m),
                of_pivots: 1,
            }
        };
        (lower, upper)
    }

    /// What the thread brings of the chunk from pivot `at` on. What lies outside the tile or behind the pivots is read
    /// elsewhere in it: a value that depends on a condition would be waited for at once.
    #[inlined]
    fn load_chunk<const F: usize, const RIGHT: bool>(
        self,
        tile: Tile,
        (lower, upper): (Source, Source),
        at: u32,
        pivots: u32,
    ) -> ([T; MOST], [T; MOST]) {
        let mut of_lower = [T::ZERO; MOST];
        let mut of_upper = [T::ZERO; MOST];
        for x in 0..2 * F {
            let (_, p) = flat_place::<TILE>(x);
            let p = (at + p).min(pivots - 1);
            let place = lower.first + wide_product(p, lower.of_pivots);
            of_lower[x] = self.work.factors.get(place as usize);
        }
        if K::SYMMETRIC {
            return (of_lower, self.load_scaled::<F>(tile, upper, at, pivots));
        }
        for x in 0..2 * F {
            let (_, p) = flat_place::<TILE>(x);
            let p = (at + p).min(pivots - 1);
            let place = if RIGHT {
                upper.first + wide_product(p, upper.of_pivots)
            } else {
                let (column, p) = deep_place(x);
                let column = wide_product(column.min(tile.columns - 1), tile.m());
                upper.first + column + u64::from((at + p).min(pivots - 1))
            };
            of_upper[x] = self.work.factors.get(place as usize);
        }
        (of_lower, of_upper)
    }

    /// What the thread brings of L·D: of one row for consecutive pivots, for those of order 2 couple neighbours.
    #[inlined]
    fn load_scaled<const F: usize>(
        self,
        tile: Tile,
        source: Source,
        at: u32,
        pivots: u32,
    ) -> [T; MOST] {
        let first = at + near_place::<TILE>(0).1;
        // With a neighbour on each side, but for those of a later step, which need not be there yet: no pivot of order 2 is
        // in two tiles.
        let end = (at - at % TILE + TILE).min(pivots);
        let form = self.kind.form();
        let mut values = [T::ZERO; MOST + 2];
        let mut blocks = [[T::ZERO; 2]; MOST + 2];
        for x in 0..2 * F + 2 {
            let p = ((first + x as u32).max(1) - 1).min(end - 1);
            let place = source.first + wide_product(p, source.of_pivots);
            values[x] = form.counterpart(self.work.factors.get(place as usize));
            blocks[x] = self.kind.kept(tile.start + p);
        }
        if first == 0 {
            // There is none before the first pivot.
            values[0] = T::ZERO;
        }
        let mut scaled = [T::ZERO; MOST];
        for x in 0..2 * F {
            let sum = values[x + 1] * blocks[x + 1][0];
            let sum = values[x + 2].mul_add(form.counterpart(blocks[x + 1][1]), sum);
            scaled[x] = values[x].mul_add(blocks[x][1], sum);
        }
        scaled
    }

    /// Asks which of the steps from `step` on are done that the tile waits for, if it is not known that this one is, and
    /// makes it known behind the next barrier.
    #[inlined]
    fn ask(self, (ti, tj): (u32, u32), step: u32, pivots: u32) {
        let is_asked = || step == 0 || self.words.get(words::KNOWN) <= step;
        if thread::thread_idx_x() < warp::WARP_SIZE && is_asked() {
            let lane = thread::lane_id();
            let asked = step + lane % ASKED;
            let mut is_done = false;
            if asked < pivots.div_ceil(TILE) {
                let (row, column) = if lane < ASKED {
                    (ti, asked)
                } else if K::SYMMETRIC {
                    (tj, asked)
                } else {
                    (asked, tj)
                };
                let seen = self
                    .flag(row, column)
                    .load(Ordering::Acquire, Scope::Device);
                is_done = seen == self.work.epoch;
            }
            let done = warp::ballot(warp::FULL_MASK, is_done);
            let both = done & done >> ASKED & ((1 << ASKED) - 1);
            // A vote orders no memory: the others have read what is written here.
            warp::sync_warp(warp::FULL_MASK);
            if lane == 0 {
                self.words.set(words::KNOWN, step + both.trailing_ones());
            }
        }
    }

    /// Waits for the tiles of a step, unless they are known to be done. A barrier ends it if so.
    #[inlined]
    fn await_step(self, (ti, tj): (u32, u32), step: u32) {
        if self.words.get(words::KNOWN) <= step {
            self.await_tile(ti, step, 0);
            let (row, column) = if K::SYMMETRIC { (tj, step) } else { (step, tj) };
            self.await_tile(row, column, warp::WARP_SIZE);
            thread::sync_threads();
        }
    }
}

/// The row or column of a tile, and the pivot of a chunk, of value `x` of a thread where neighbours have one pivot.
#[inlined]
fn flat_place<const TILE: u32>(x: usize) -> (u32, u32) {
    let thread = thread::thread_idx_x();
    (thread % TILE, thread / TILE + x as u32 * (THREADS / TILE))
}

/// Likewise where a thread has consecutive pivots.
#[inlined]
fn near_place<const TILE: u32>(x: usize) -> (u32, u32) {
    let thread = thread::thread_idx_x();
    (
        thread % TILE,
        thread / TILE * (TILE * CHUNK / THREADS) + x as u32,
    )
}

/// Likewise where neighbours have one column.
#[inlined]
fn deep_place(x: usize) -> (u32, u32) {
    let thread = thread::thread_idx_x();
    (thread / CHUNK + x as u32 * CHUNK, thread % CHUNK)
}
