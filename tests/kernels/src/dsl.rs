//! Kernels that exercise every primitive of the DSL once, for the tests of the DSL itself.
//!
//! They compute nothing of use. Each covers one group of primitives, so that a failing test names
//! what is broken; `tests/tests/dsl.rs` launches each on the simulator and on the GPU and compares
//! with values that the host computes from the definition. Where a kernel's documentation does not
//! say otherwise, a thread writes only cells indexed by its own number, so that nothing needs to be
//! ordered.

use luge_kernel::prelude::*;

/// Values that [`indices`](fn@indices) writes for each thread.
pub const INDEX_VALUES: usize = 14;

/// Writes all indices of each thread: `out[thread · 14 + k]`, k as listed in the body, where
/// threads are numbered through the grid block by block.
///
/// Any grid and block; `out.len()` is 14 · threads.
#[kernel]
pub unsafe fn indices(out: GlobalMut<u32>) {
    let in_block = (thread::thread_idx_z() * thread::block_dim_y() + thread::thread_idx_y())
        * thread::block_dim_x()
        + thread::thread_idx_x();
    let block = (thread::block_idx_z() * thread::grid_dim_y() + thread::block_idx_y())
        * thread::grid_dim_x()
        + thread::block_idx_x();
    let block_size = thread::block_dim_x() * thread::block_dim_y() * thread::block_dim_z();
    let first = (block * block_size + in_block) as usize * INDEX_VALUES;
    out.set(first, thread::thread_idx_x());
    out.set(first + 1, thread::thread_idx_y());
    out.set(first + 2, thread::thread_idx_z());
    out.set(first + 3, thread::block_idx_x());
    out.set(first + 4, thread::block_idx_y());
    out.set(first + 5, thread::block_idx_z());
    out.set(first + 6, thread::block_dim_x());
    out.set(first + 7, thread::block_dim_y());
    out.set(first + 8, thread::block_dim_z());
    out.set(first + 9, thread::grid_dim_x());
    out.set(first + 10, thread::grid_dim_y());
    out.set(first + 11, thread::grid_dim_z());
    out.set(first + 12, thread::lane_id());
    out.set(first + 13, thread::warp_id());
}

/// Who visits what: `by_grid[i]` is 1 + the thread of the grid that has `i` in its grid stride,
/// `by_block[block · len + i]` is 1 + the thread of the block that has `i` in its block stride, and
/// `threads[t]` is the number of threads of the grid.
///
/// 1-D; `by_block.len()` is blocks · `by_grid.len()`, `threads.len()` the number of threads.
#[kernel]
pub unsafe fn strides(by_grid: GlobalMut<u32>, by_block: GlobalMut<u32>, threads: GlobalMut<u32>) {
    for i in thread::grid_stride(by_grid.len()) {
        by_grid.set(i, thread::index_1d() + 1);
    }
    let first = thread::block_idx_x() as usize * by_grid.len();
    for i in thread::block_stride(by_grid.len()) {
        by_block.set(first + i, thread::thread_idx_x() + 1);
    }
    threads.set(thread::index_1d() as usize, thread::num_threads_1d());
}

/// A stretch of numbers, and what they are multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Record)]
#[repr(C, packed(4))]
pub struct Stretch {
    /// How many there are.
    pub len: u32,
    /// The first of them.
    pub first: u64,
    /// Factors, which take turns.
    pub factors: [u32; 2],
}

/// Stretches of numbers.
#[derive(Clone, Copy, KernelArgs)]
pub struct Stretches<T: Real> {
    /// Every sum is multiplied with it.
    pub scale: T,
    /// The stretches.
    pub stretches: Records<Stretch>,
    /// The numbers.
    pub numbers: Global<T>,
    /// Where the sums go.
    pub sums: GlobalMut<T>,
}

/// The sum of a stretch, wherever its words are.
#[inline(always)]
fn stretch_sum<T: Real, W: Words>(given: Stretches<T>, stretch: StretchIn<W>) -> T {
    let (len, first) = (stretch.len(), stretch.first());
    let mut total = T::ZERO;
    let mut i = 0;
    while i < len {
        let factor = T::from_f64(f64::from(stretch.factors(i & 1)));
        let number = given.numbers.get((first + u64::from(i)) as usize);
        total = factor.mul_add(number, total);
        i += 1;
    }
    total * given.scale
}

/// A struct of arguments between others, and records in each place that they may be read from: `sums[3 s]` is the sum
/// of stretch s read from global memory, `sums[3 s + 1]` from shared memory, `sums[3 s + 2]` from the lanes of a warp;
/// each plus `before` and `behind`.
///
/// Threads: a block is one warp and has a stretch; lane 0 writes.
#[kernel(
    T = [f32, f64],
    max_threads(32),
    require(given.sums.len() == 3 * given.stretches.len())
)]
pub unsafe fn structs<T: Real>(before: T, given: Stretches<T>, behind: Global<T>) {
    let words = shared_array![u32; Stretch::WORDS];
    let (lane, s) = (thread::lane_id(), thread::block_idx_x());
    let mut word = 0;
    if lane < Stretch::WORDS as u32 {
        word = given.stretches.word(s, lane);
        words.set(lane as usize, word);
    }
    warp::sync_warp(warp::FULL_MASK);
    let of_global = stretch_sum(given, given.stretches.get(s as usize));
    let of_shared = stretch_sum(given, Stretch::within(words));
    let of_lanes = stretch_sum(given, Stretch::within(OfLanes { word, first: 0 }));
    if lane == 0 {
        let more = before + behind.get(0);
        let first = 3 * s as usize;
        given.sums.set(first, of_global + more);
        given.sums.set(first + 1, of_shared + more);
        given.sums.set(first + 2, of_lanes + more);
    }
}

/// Every scalar type as a parameter, between buffers: `bits[0..6]` receives their bits and
/// `bits[6..8]` the lengths of the buffers.
///
/// One thread writes; `bits.len()` is at least 8.
#[kernel]
#[allow(clippy::too_many_arguments)]
pub unsafe fn parameters(
    a: u32,
    b: i32,
    input: Global<f32>,
    c: u64,
    d: i64,
    bits: GlobalMut<u64>,
    e: f32,
    f: f64,
) {
    if thread::index_1d() == 0 {
        bits.set(0, u64::from(a));
        bits.set(1, u64::from(b as u32));
        bits.set(2, c);
        bits.set(3, d as u64);
        bits.set(4, u64::from(e.to_bits()));
        bits.set(5, f.to_bits());
        bits.set(6, input.len() as u64);
        bits.set(7, bits.len() as u64);
    }
}

/// y := a·x + y.
///
/// Threads: a grid-stride loop, one element an iteration.
#[kernel(T = [f32, f64, Complex<f32>, Complex<f64>], require(x.len() == y.len()))]
pub unsafe fn axpy<T: Field>(a: T, x: Global<T>, y: GlobalMut<T>) {
    for i in thread::grid_stride(y.len()) {
        y.set(i, a.mul_add(x.get(i), y.get(i)));
    }
}

/// Values that [`arithmetic`](fn@arithmetic) writes for each element.
pub const ARITHMETIC_VALUES: usize = 12;

/// The operations of `Real` on (x, y, z): `out[k · n + i]`, k as listed in the body.
///
/// `product + z` in two operations must not be fused into one: host and device agree bit for bit.
#[kernel(
    T = [f32, f64],
    require(y.len() == x.len(), z.len() == x.len(), out.len() == ARITHMETIC_VALUES * x.len())
)]
pub unsafe fn arithmetic<T: Real>(x: Global<T>, y: Global<T>, z: Global<T>, out: GlobalMut<T>) {
    let n = x.len();
    for i in thread::grid_stride(n) {
        let (x, y, z) = (x.get(i), y.get(i), z.get(i));
        out.set(i, x.mul_add(y, z));
        out.set(n + i, x * y + z);
        out.set(2 * n + i, x - y);
        out.set(3 * n + i, x / y);
        out.set(4 * n + i, -x);
        out.set(5 * n + i, x.abs());
        out.set(6 * n + i, x.abs().sqrt());
        out.set(7 * n + i, x.max(y));
        out.set(8 * n + i, x.min(y));
        out.set(9 * n + i, T::from_f64(x.to_f64() * y.to_f64()));
        out.set(10 * n + i, if x > y { T::ONE } else { T::ZERO });
        let mut sum = x;
        sum += y;
        sum -= z;
        sum *= y;
        sum /= z;
        out.set(11 * n + i, sum);
    }
}

/// Integer helpers of `core` in kernels: `out[k · n + i]` is leading zeros, trailing zeros,
/// population count, high and low half of a widening product.
#[kernel(require(out.len() == 5 * x.len()))]
pub unsafe fn bits(x: Global<u64>, out: GlobalMut<u64>) {
    let n = x.len();
    for i in thread::grid_stride(n) {
        let x = x.get(i);
        out.set(i, u64::from(x.leading_zeros()));
        out.set(n + i, u64::from(x.trailing_zeros()));
        out.set(2 * n + i, u64::from(x.count_ones()));
        let product = u128::from(x) * u128::from(x);
        out.set(3 * n + i, (product >> 64) as u64);
        out.set(4 * n + i, product as u64);
    }
}

/// Values that [`barriers`](fn@barriers) writes for each thread.
pub const BARRIER_VALUES: usize = 6;

/// Barriers and the values they count: thread t writes `out[k · block + t]`, k as listed in the
/// body.
///
/// One block of at most 1024 threads. The shared array: thread t writes element t, the barrier
/// hands it to thread block − 1 − t; the second barrier keeps a round's writes from the reads of
/// the round before.
#[kernel(require(out.len() == BARRIER_VALUES * input.len()))]
pub unsafe fn barriers(input: Global<u32>, out: GlobalMut<u32>) {
    let tile = shared_array![u32; 1024];
    let n = thread::block_dim_x() as usize;
    let t = thread::thread_idx_x() as usize;
    let mut value = input.get(t);
    for round in 0..3 {
        tile.set(t, value + round);
        thread::sync_threads();
        value = tile.get(n - 1 - t);
        thread::sync_threads();
    }
    out.set(t, value);
    out.set(n + t, thread::sync_threads_count(value.is_multiple_of(3)));
    out.set(2 * n + t, u32::from(thread::sync_threads_and(t < n)));
    out.set(3 * n + t, u32::from(thread::sync_threads_and(t != n / 2)));
    out.set(4 * n + t, u32::from(thread::sync_threads_or(t == n / 2)));
    out.set(5 * n + t, u32::from(thread::sync_threads_or(t > n)));
}

/// Barriers that count also order memory: neighbours exchange values through each kind, and the
/// sum of what thread t got stands in `out[t]`.
///
/// One block of at most 256 threads. Shared array k: thread t writes element t before barrier k,
/// and reads element (t + 1) mod block after it.
#[kernel(max_threads(256), require(out.len() <= 256))]
pub unsafe fn barriers_order(out: GlobalMut<u32>) {
    let plain = shared_array![u32; 256];
    let counted = shared_array![u32; 256];
    let all = shared_array![u32; 256];
    let any = shared_array![u32; 256];
    let t = thread::thread_idx_x() as usize;
    let next = if t + 1 == out.len() { 0 } else { t + 1 };
    plain.set(t, t as u32);
    thread::sync_threads();
    let mut sum = plain.get(next);
    counted.set(t, 1000 * t as u32);
    thread::sync_threads_count(true);
    sum += counted.get(next);
    all.set(t, 3);
    thread::sync_threads_and(true);
    sum += all.get(next);
    any.set(t, 5);
    thread::sync_threads_or(true);
    sum += any.get(next);
    out.set(t, sum);
}

/// Shuffles that [`shuffles`](fn@shuffles) does for each lane.
pub const SHUFFLES: usize = 8;

/// Every kind of shuffle: lane t of the grid writes `out[k · n + t]`, k as listed in the body.
///
/// 1-D, whole warps, one lane an element.
#[kernel(
    T = [u32, i32, u64, i64, f32, f64, Complex<f32>, Complex<f64>],
    require(out.len() == SHUFFLES * x.len())
)]
pub unsafe fn shuffles<T: Element>(x: Global<T>, out: GlobalMut<T>) {
    let n = x.len();
    let t = thread::index_1d() as usize;
    let lane = thread::lane_id();
    let v = x.get(t);
    let mask = warp::FULL_MASK;
    out.set(t, warp::shuffle(mask, v, 7 * lane + 3));
    out.set(n + t, warp::shuffle(mask, v, 5));
    out.set(2 * n + t, warp::shuffle_up(mask, v, 1));
    out.set(3 * n + t, warp::shuffle_up(mask, v, 31));
    out.set(4 * n + t, warp::shuffle_down(mask, v, 5));
    out.set(5 * n + t, warp::shuffle_down(mask, v, 0));
    out.set(6 * n + t, warp::shuffle_xor(mask, v, 16));
    out.set(7 * n + t, warp::shuffle_xor(mask, v, 9));
}

/// Values that [`votes`](fn@votes) writes for each lane.
pub const VOTE_VALUES: usize = 9;

/// Votes of the lanes of `mask`, the others staying out: lane t writes `out[k · 32 + t]`, k as
/// listed in the body. Lanes outside the mask write nothing.
///
/// One warp. `value` gives each lane its vote (odd: yes) and its key to match.
#[kernel(require(value.len() == 32, out.len() == VOTE_VALUES * 32))]
pub unsafe fn votes(mask: u32, value: Global<u32>, out: GlobalMut<u32>) {
    let lane = thread::lane_id();
    if (mask >> lane) & 1 == 1 {
        let t = lane as usize;
        let value = value.get(t);
        let odd = value % 2 == 1;
        out.set(t, u32::from(warp::vote_any(mask, odd)));
        out.set(32 + t, u32::from(warp::vote_all(mask, odd)));
        out.set(64 + t, u32::from(warp::vote_any(mask, value > 1000)));
        out.set(96 + t, u32::from(warp::vote_all(mask, value <= 1000)));
        out.set(128 + t, warp::ballot(mask, odd));
        out.set(160 + t, warp::match_any(mask, value));
        let first = mask.trailing_zeros();
        out.set(192 + t, warp::shuffle(mask, value, first));
        warp::sync_warp(mask);
        out.set(224 + t, u32::from((warp::active_mask() >> lane) & 1 == 1));
        out.set(256 + t, u32::from(warp::active_mask() & !mask == 0));
    }
}

/// Two halves of a warp that vote apart, each under its own branch, then together.
///
/// One warp; lane t writes `out[t]` (the half's ballot), `out[32 + t]` (the warp's ballot after
/// the halves joined) and `out[64 + t]` (the sum of the half's lanes).
#[kernel(require(value.len() == 32, out.len() == 96))]
pub unsafe fn votes_of_halves(value: Global<u32>, out: GlobalMut<u32>) {
    let lane = thread::lane_id();
    let t = lane as usize;
    let odd = value.get(t) % 2 == 1;
    let (ballot, sum) = if lane < 16 {
        let mask = 0x0000_ffff;
        (warp::ballot(mask, odd), warp::reduce_add(mask, lane))
    } else {
        let mask = 0xffff_0000;
        (warp::ballot(mask, odd), warp::reduce_add(mask, lane))
    };
    out.set(t, ballot);
    out.set(32 + t, warp::ballot(warp::FULL_MASK, odd));
    out.set(64 + t, sum);
}

/// Sum, minimum and maximum over the lanes of `mask`: lane t of it writes `out[k · 32 + t]`.
///
/// One warp.
#[kernel(T = [u32, i32], require(x.len() == 32, out.len() == 96))]
pub unsafe fn reductions<T: warp::ReduceElement>(mask: u32, x: Global<T>, out: GlobalMut<T>) {
    let lane = thread::lane_id();
    if (mask >> lane) & 1 == 1 {
        let t = lane as usize;
        let v = x.get(t);
        out.set(t, warp::reduce_add(mask, v));
        out.set(32 + t, warp::reduce_min(mask, v));
        out.set(64 + t, warp::reduce_max(mask, v));
    }
}

/// Bitwise and, or, exclusive or over the lanes of `mask`: lane t of it writes `out[k · 32 + t]`.
///
/// One warp.
#[kernel(require(x.len() == 32, out.len() == 96))]
pub unsafe fn bit_reductions(mask: u32, x: Global<u32>, out: GlobalMut<u32>) {
    let lane = thread::lane_id();
    if (mask >> lane) & 1 == 1 {
        let t = lane as usize;
        let v = x.get(t);
        out.set(t, warp::reduce_and(mask, v));
        out.set(32 + t, warp::reduce_or(mask, v));
        out.set(64 + t, warp::reduce_xor(mask, v));
    }
}

/// The sum over each warp in its fixed order, written by every lane.
///
/// 1-D, whole warps, one lane an element.
#[kernel(T = [f32, f64, Complex<f32>, Complex<f64>], require(x.len() == out.len()))]
pub unsafe fn warp_sums<T: Field>(x: Global<T>, out: GlobalMut<T>) {
    let t = thread::index_1d() as usize;
    out.set(t, warp::reduce_sum(x.get(t)));
}

/// A fold of each group of `lanes` lanes by a function that tells its arguments apart, 3·own ⊕ other.
///
/// 1-D, whole warps, one lane an element; `lanes` is a power of two below 64.
#[kernel(require(x.len() == out.len()))]
pub unsafe fn warp_folds(lanes: u32, x: Global<u32>, out: GlobalMut<u32>) {
    let t = thread::index_1d() as usize;
    let step = |own: u32, other: u32| own.wrapping_mul(3) ^ other;
    out.set(t, warp::fold(lanes, x.get(t), step));
}

/// `sync_warp` hands values from lane to lane through shared memory: three rounds over the whole
/// warp, then one in each half apart. `out[t]` is what thread t ends with.
///
/// One block of at most 256 threads in whole warps. Element t is written by thread t and read by a
/// lane of the same warp; a `sync_warp` stands between each write and read, either way round.
#[kernel(max_threads(256))]
pub unsafe fn warp_exchange(out: GlobalMut<u32>) {
    let tile = shared_array![u32; 256];
    let t = thread::thread_idx_x() as usize;
    let lane = thread::lane_id() as usize;
    let first = t - lane;
    let mut value = t as u32;
    for round in 0..3 {
        tile.set(t, value + round);
        warp::sync_warp(warp::FULL_MASK);
        value = tile.get(first + (lane + 1) % 32);
        warp::sync_warp(warp::FULL_MASK);
    }
    tile.set(t, 2 * value);
    if lane < 16 {
        warp::sync_warp(0x0000_ffff);
        value = tile.get(first + 15 - lane);
    } else {
        warp::sync_warp(0xffff_0000);
        value = tile.get(first + 47 - lane);
    }
    out.set(t, value);
}

/// Combinations of ordering and scope that the atomics are tried in.
pub const ORDERS: usize = 8;

/// Combinations of ordering and scope for what is only a load, a store or a reduction.
pub const HALF_ORDERS: usize = 4;

/// Repeats a block for every ordering and scope, with their number.
macro_rules! in_each_order {
    (|$k:ident, $ordering:ident, $scope:ident| $body:block) => {
        in_each_order!(@ $k $ordering $scope $body;
            0 Relaxed Block, 1 Acquire Block, 2 Release Block, 3 AcqRel Block,
            4 Relaxed Device, 5 Acquire Device, 6 Release Device, 7 AcqRel Device)
    };
    (@ $k:ident $ordering:ident $scope:ident $body:block;
        $($number:literal $o:ident $s:ident),*) => {
        $({
            let ($k, $ordering, $scope) = ($number, Ordering::$o, Scope::$s);
            $body
        })*
    };
}

/// Repeats a block for relaxed and for `$strong`, at each scope.
macro_rules! in_half_the_orders {
    ($strong:ident, |$k:ident, $ordering:ident, $scope:ident| $body:block) => {
        in_each_order!(@ $k $ordering $scope $body;
            0 Relaxed Block, 1 $strong Block, 2 Relaxed Device, 3 $strong Device)
    };
}

/// Operations of [`int_atomics`](fn@int_atomics).
pub const INT_OPERATIONS: usize = 7;

/// The integer atomics on `$memory`, thread `$t` of `$n` on its own cells.
macro_rules! int_operations {
    ($memory:ident, $old:ident, $n:ident, $t:ident, $v:ident, $current:ident) => {
        in_each_order!(|k, o, s| {
            let at = |operation: usize| (operation * ORDERS + k) * $n + $t;
            $old.set(at(0), $memory.atomic(at(0)).fetch_sub($v, o, s));
            $old.set(at(1), $memory.atomic(at(1)).fetch_min($v, o, s));
            $old.set(at(2), $memory.atomic(at(2)).fetch_max($v, o, s));
            $old.set(at(3), $memory.atomic(at(3)).fetch_and($v, o, s));
            $old.set(at(4), $memory.atomic(at(4)).fetch_or($v, o, s));
            $old.set(at(5), $memory.atomic(at(5)).fetch_xor($v, o, s));
            let exchanged = $memory.atomic(at(6)).compare_exchange($current, $v, o, s);
            $old.set(at(6), exchanged);
        })
    };
}

/// What integers have beyond [`element_atomics`](fn@element_atomics), in every ordering and scope, on global memory:
/// for operation q and order k, thread t applies it with operand `v[t]` to
/// `cells[(q · 8 + k) · n + t]`, and writes the old value to the same place of `old`. The compare
/// exchange expects `current[t]`. One thread an element.
#[kernel(
    T = [u32, i32, u64, i64],
    max_threads(256),
    require(
        current.len() == v.len(),
        cells.len() == INT_OPERATIONS * ORDERS * v.len(),
        old.len() == cells.len()
    )
)]
pub unsafe fn int_atomics<T: IntElement>(
    v: Global<T>,
    current: Global<T>,
    cells: GlobalMut<T>,
    old: GlobalMut<T>,
) {
    let n = v.len();
    let t = thread::index_1d() as usize;
    if t < n {
        let (v, current) = (v.get(t), current.get(t));
        int_operations!(cells, old, n, t, v, current);
    }
}

/// [`int_atomics`](fn@int_atomics) on shared memory, for one warp: the cells are copied in and out by their owners.
#[kernel(
    T = [u32, i32, u64, i64],
    max_threads(32),
    require(
        v.len() == 32,
        current.len() == 32,
        cells.len() == INT_OPERATIONS * ORDERS * 32,
        old.len() == cells.len()
    )
)]
pub unsafe fn int_atomics_shared<T: IntElement>(
    v: Global<T>,
    current: Global<T>,
    cells: GlobalMut<T>,
    old: GlobalMut<T>,
) {
    let tile = shared_array![T; INT_OPERATIONS * ORDERS * 32];
    let n = 32;
    let t = thread::thread_idx_x() as usize;
    for k in 0..INT_OPERATIONS * ORDERS {
        tile.set(k * n + t, cells.get(k * n + t));
    }
    let (v, current) = (v.get(t), current.get(t));
    int_operations!(tile, old, n, t, v, current);
    for k in 0..INT_OPERATIONS * ORDERS {
        cells.set(k * n + t, tile.get(k * n + t));
    }
}

/// Cells that [`element_atomics`](fn@element_atomics) has for each thread: swap and add in every order, then load,
/// store and reduction in half of them.
pub const ELEMENT_CELLS: usize = 2 * ORDERS + 3 * HALF_ORDERS;

/// The atomics of every element that has some on `$memory`, thread `$t` of `$n` on its own cells.
macro_rules! element_operations {
    ($memory:ident, $old:ident, $n:ident, $t:ident, $v:ident) => {
        in_each_order!(|k, o, s| {
            let at = |operation: usize| (operation * ORDERS + k) * $n + $t;
            $old.set(at(0), $memory.atomic(at(0)).swap($v, o, s));
            $old.set(at(1), $memory.atomic(at(1)).fetch_add($v, o, s));
        });
        let first = 2 * ORDERS;
        in_half_the_orders!(Acquire, |k, o, s| {
            let at = (first + k) * $n + $t;
            $old.set(at, $memory.atomic(at).load(o, s));
        });
        in_half_the_orders!(Release, |k, o, s| {
            let at = (first + HALF_ORDERS + k) * $n + $t;
            $old.set(at, $v);
            $memory.atomic(at).store($v, o, s);
        });
        in_half_the_orders!(Release, |k, o, s| {
            let at = (first + 2 * HALF_ORDERS + k) * $n + $t;
            $old.set(at, $v);
            $memory.atomic(at).reduce_add($v, o, s);
        });
    };
}

/// Swap, add, load, store and reduction in every ordering and scope, on global memory. Cell c of
/// thread t is `cells[c · n + t]`; what the operation answered stands in the same place of `old`,
/// or its operand `v[t]` if it answers nothing. One thread an element.
#[kernel(
    T = [u32, i32, u64, i64, f32, f64],
    max_threads(256),
    require(cells.len() == ELEMENT_CELLS * v.len(), old.len() == cells.len())
)]
pub unsafe fn element_atomics<T: AtomicElement>(
    v: Global<T>,
    cells: GlobalMut<T>,
    old: GlobalMut<T>,
) {
    let n = v.len();
    let t = thread::index_1d() as usize;
    if t < n {
        let v = v.get(t);
        element_operations!(cells, old, n, t, v);
    }
}

/// [`element_atomics`](fn@element_atomics) on shared memory, for one warp: the cells are copied in and out by their
/// owners.
#[kernel(
    T = [u32, i32, u64, i64, f32, f64],
    max_threads(32),
    require(v.len() == 32, cells.len() == ELEMENT_CELLS * 32, old.len() == cells.len())
)]
pub unsafe fn element_atomics_shared<T: AtomicElement>(
    v: Global<T>,
    cells: GlobalMut<T>,
    old: GlobalMut<T>,
) {
    let tile = shared_array![T; ELEMENT_CELLS * 32];
    let n = 32;
    let t = thread::thread_idx_x() as usize;
    for k in 0..ELEMENT_CELLS {
        tile.set(k * n + t, cells.get(k * n + t));
    }
    let v = v.get(t);
    element_operations!(tile, old, n, t, v);
    for k in 0..ELEMENT_CELLS {
        cells.set(k * n + t, tile.get(k * n + t));
    }
}

/// All threads of all blocks on the same cells: `cells[0]` by add, `cells[1]` by reduction, each
/// with `v[t]`, and `cells[2]` by swap. `added[t]` and `swapped[t]` are the old values.
#[kernel(
    T = [u32, i32, u64, i64, f32, f64],
    require(cells.len() == 3, added.len() == v.len(), swapped.len() == v.len())
)]
pub unsafe fn contended<T: AtomicElement>(
    v: Global<T>,
    cells: GlobalMut<T>,
    added: GlobalMut<T>,
    swapped: GlobalMut<T>,
) {
    for t in thread::grid_stride(v.len()) {
        let v = v.get(t);
        let old = cells
            .atomic(0)
            .fetch_add(v, Ordering::Relaxed, Scope::Device);
        added.set(t, old);
        cells
            .atomic(1)
            .reduce_add(v, Ordering::Relaxed, Scope::Device);
        let old = cells.atomic(2).swap(v, Ordering::Relaxed, Scope::Device);
        swapped.set(t, old);
    }
}

/// All threads of all blocks on the same cells: minimum, maximum, and, or, exclusive or,
/// subtraction of `v[t]` on `cells[0..6]`.
#[kernel(T = [u32, i32, u64, i64], require(cells.len() == 6))]
pub unsafe fn contended_int<T: IntElement>(v: Global<T>, cells: GlobalMut<T>) {
    let (relaxed, device) = (Ordering::Relaxed, Scope::Device);
    for t in thread::grid_stride(v.len()) {
        let v = v.get(t);
        cells.atomic(0).fetch_min(v, relaxed, device);
        cells.atomic(1).fetch_max(v, relaxed, device);
        cells.atomic(2).fetch_and(v, relaxed, device);
        cells.atomic(3).fetch_or(v, relaxed, device);
        cells.atomic(4).fetch_xor(v, relaxed, device);
        cells.atomic(5).fetch_sub(v, relaxed, device);
    }
}

/// Counts to the number of threads by compare exchange, each thread once; `turn[t]` is the count
/// before thread t's.
#[kernel(require(count.len() == 1))]
pub unsafe fn compare_exchange_count(count: GlobalMut<u32>, turn: GlobalMut<u32>) {
    for t in thread::grid_stride(turn.len()) {
        let cell = count.atomic(0);
        let mut seen = cell.load(Ordering::Relaxed, Scope::Device);
        loop {
            let old = cell.compare_exchange(seen, seen + 1, Ordering::Relaxed, Scope::Device);
            if old == seen {
                break;
            }
            seen = old;
        }
        turn.set(t, seen);
    }
}

/// Counts each value of `x` below 64 in shared memory, then adds the block's counts to `counts`.
///
/// Any blocks; the bins of a block are cleared before its first barrier and read after its second.
#[kernel(require(counts.len() == 64))]
pub unsafe fn histogram(x: Global<u32>, counts: GlobalMut<u32>) {
    let bins = shared_array![u32; 64];
    for i in thread::block_stride(64) {
        bins.set(i, 0);
    }
    thread::sync_threads();
    for i in thread::grid_stride(x.len()) {
        let bin = bins.atomic(x.get(i) as usize % 64);
        bin.reduce_add(1, Ordering::Relaxed, Scope::Block);
    }
    thread::sync_threads();
    for i in thread::block_stride(64) {
        let cell = counts.atomic(i);
        cell.reduce_add(bins.get(i), Ordering::Relaxed, Scope::Device);
    }
}

/// Block 0 sends `data` to block 1, `rounds` times over, by release and acquire: block 1 adds 1 to
/// each element and sends it back. After it, `data[t]` has grown by 2 · `rounds`.
///
/// Two blocks of `data.len()` threads, resident together. Before round r block b owns `data` once
/// `turn` has reached 2r + b; `sync_threads` hands that to and from thread 0, which alone waits and
/// releases.
#[kernel(require(turn.len() == 1))]
pub unsafe fn ping_pong(rounds: u32, turn: GlobalMut<u32>, data: GlobalMut<u32>) {
    let t = thread::thread_idx_x() as usize;
    for round in 0..rounds {
        let mine = 2 * round + thread::block_idx_x();
        if t == 0 {
            spin_wait(|| turn.atomic(0).load(Ordering::Acquire, Scope::Device) == mine);
        }
        thread::sync_threads();
        data.set(t, data.get(t) + 1);
        thread::sync_threads();
        if t == 0 {
            turn.atomic(0)
                .store(mine + 1, Ordering::Release, Scope::Device);
        }
    }
}

/// [`ping_pong`](fn@ping_pong) with relaxed accesses of `turn` and fences.
#[kernel(require(turn.len() == 1))]
pub unsafe fn ping_pong_fence(rounds: u32, turn: GlobalMut<u32>, data: GlobalMut<u32>) {
    let t = thread::thread_idx_x() as usize;
    for round in 0..rounds {
        let mine = 2 * round + thread::block_idx_x();
        if t == 0 {
            spin_wait(|| turn.atomic(0).load(Ordering::Relaxed, Scope::Device) == mine);
            fence::fence(Scope::Device);
        }
        thread::sync_threads();
        data.set(t, data.get(t) + 1);
        thread::sync_threads();
        if t == 0 {
            fence::fence(Scope::Device);
            turn.atomic(0)
                .store(mine + 1, Ordering::Relaxed, Scope::Device);
        }
    }
}

/// [`ping_pong`](fn@ping_pong) by read-modify-writes: every thread adds to `turn` with release when it is done,
/// and waits for itself with an acquiring read-modify-write.
///
/// Two blocks of `data.len()` threads, resident together. Block b owns `data` in round r once
/// `turn` has reached (2r + b) · threads.
#[kernel(require(turn.len() == 1))]
pub unsafe fn ping_pong_rmw(rounds: u32, turn: GlobalMut<u32>, data: GlobalMut<u32>) {
    let t = thread::thread_idx_x() as usize;
    let turn = turn.atomic(0);
    for round in 0..rounds {
        let mine = (2 * round + thread::block_idx_x()) * data.len() as u32;
        spin_wait(|| turn.fetch_add(0, Ordering::Acquire, Scope::Device) >= mine);
        data.set(t, data.get(t) + 1);
        turn.fetch_add(1, Ordering::Release, Scope::Device);
    }
}

/// [`ping_pong`](fn@ping_pong) between the two warps of one block, in shared memory and at block scope: warp 0
/// with release and acquire, warp 1 with relaxed accesses and fences. `out[t]` is the final value
/// of element t.
///
/// One block of 64 threads. Lane 0 of each warp waits and releases; `sync_warp` hands that to and
/// from its other lanes.
#[kernel(max_threads(64), require(out.len() == 32))]
pub unsafe fn ping_pong_warps(rounds: u32, out: GlobalMut<u32>) {
    let turn = shared_array![u32; 1];
    let data = shared_array![u32; 32];
    let lane = thread::lane_id() as usize;
    let warp = thread::warp_id();
    if warp == 0 {
        data.set(lane, lane as u32);
        if lane == 0 {
            turn.set(0, 0);
        }
    }
    thread::sync_threads();
    let turn = turn.atomic(0);
    for round in 0..rounds {
        let mine = 2 * round + warp;
        if lane == 0 {
            if warp == 0 {
                spin_wait(|| turn.load(Ordering::Acquire, Scope::Block) == mine);
            } else {
                spin_wait(|| turn.load(Ordering::Relaxed, Scope::Block) == mine);
                fence::fence(Scope::Block);
            }
        }
        warp::sync_warp(warp::FULL_MASK);
        data.set(lane, data.get(lane) + 1);
        warp::sync_warp(warp::FULL_MASK);
        if lane == 0 {
            if warp == 0 {
                turn.store(mine + 1, Ordering::Release, Scope::Block);
            } else {
                fence::fence(Scope::Block);
                turn.store(mine + 1, Ordering::Relaxed, Scope::Block);
            }
        }
    }
    thread::sync_threads();
    if warp == 0 {
        out.set(lane, data.get(lane));
    }
}

/// A chain of waits: block b waits until block b − 1 has written `out[b − 1]`, then writes
/// `out[b] = out[b − 1] + b`.
///
/// One thread a block. Blocks take their number from `ticket`, so that a block waits only for ones
/// that started before it. `ready[b]` is released after `out[b]`.
#[kernel(require(ticket.len() == 1, ready.len() == out.len()))]
pub unsafe fn chain(ticket: GlobalMut<u32>, ready: GlobalMut<u32>, out: GlobalMut<u64>) {
    let b = ticket
        .atomic(0)
        .fetch_add(1, Ordering::Relaxed, Scope::Device) as usize;
    let mut before = 0;
    if b > 0 {
        spin_wait(|| ready.atomic(b - 1).load(Ordering::Acquire, Scope::Device) == 1);
        before = out.get(b - 1);
    }
    thread::nanosleep(50);
    out.set(b, before + b as u64);
    ready.atomic(b).store(1, Ordering::Release, Scope::Device);
}

/// Two static shared arrays of different types, and a third that depends on the kernel's type, do
/// not overlap: each is filled before the barrier and read reversed after it.
///
/// One block of 64 threads; `out` has 64 sums.
#[kernel(T = [f32, f64], max_threads(64), require(out.len() == 64))]
pub unsafe fn static_shared<T: Real>(out: GlobalMut<T>) {
    let words = shared_array![u32; 64];
    let reals = shared_array![T; 64];
    let longs = shared_array![u64; 64];
    let t = thread::thread_idx_x() as usize;
    longs.set(t, 1 << 20);
    words.set(t, t as u32);
    reals.set(t, T::from_f64(0.5) * T::from_f64(t as f64));
    thread::sync_threads();
    let other = 63 - t;
    let sum = f64::from(words.get(other)) + longs.get(other) as f64;
    out.set(t, T::from_f64(sum) + reals.get(other));
}

/// Two arrays in dynamic shared memory, beside a static one: `x` reversed in doubles, `x` rotated
/// by one in words.
///
/// One block of n threads with 12·n bytes of dynamic shared memory: n doubles, then n words.
#[kernel(max_threads(256), require(doubles.len() == x.len(), words.len() == x.len()))]
pub unsafe fn dynamic_shared_arrays(
    x: Global<u32>,
    doubles: GlobalMut<f64>,
    words: GlobalMut<u32>,
) {
    let n = x.len();
    let fixed = shared_array![u32; 256];
    let wide = dynamic_shared::<f64>(0, n);
    let narrow = dynamic_shared::<u32>(8 * n, n);
    let t = thread::thread_idx_x() as usize;
    fixed.set(t, !0);
    wide.set(t, f64::from(x.get(t)) + 0.25);
    narrow.set(t, x.get(t));
    thread::sync_threads();
    if fixed.get(t) == !0 {
        doubles.set(t, wide.get(n - 1 - t));
        words.set(t, narrow.get(if t + 1 == n { 0 } else { t + 1 }));
    }
}

/// D = A·B + C for a pile of small products: A is 8×4k row-major, B is 4k×8 column-major, C and D
/// are 8×8 row-major, one product a warp.
///
/// Threads: a block is one warp and does product `block_idx_x`. Each lane holds the elements that
/// the layout of `mma.m8n8k4` gives it, and writes its two of D.
#[kernel(max_threads(32), require(a.len() == b.len(), c.len() == d.len()))]
pub unsafe fn mma(k: u32, a: Global<f64>, b: Global<f64>, c: Global<f64>, d: GlobalMut<f64>) {
    let depth = 4 * k as usize;
    let product = thread::block_idx_x() as usize;
    let lane = thread::lane_id() as usize;
    let (group, member) = (lane / 4, lane % 4);
    let first = product * 8 * depth;
    let out = product * 64 + group * 8 + 2 * member;
    let mut sum = [c.get(out), c.get(out + 1)];
    let mut step = 0;
    while step < depth {
        let at = first + group * depth + step + member;
        sum = matrix::mma_m8n8k4_f64(a.get(at), b.get(at), sum);
        step += 4;
    }
    d.set(out, sum[0]);
    d.set(out + 1, sum[1]);
}
