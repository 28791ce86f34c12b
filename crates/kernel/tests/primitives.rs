//! What each primitive of the DSL computes on the simulator, against values from its definition.

use luge_kernel::host::{KernelBufferMut, KernelModule, LaunchConfig};
use luge_kernel::prelude::*;
use luge_kernel::sim::{self, Buffer, Options, Simulator};

/// This crate.
pub static MODULE: KernelModule = KernelModule {
    name: "primitives",
    images: &[],
};

const SEEDS: std::ops::Range<u64> = 0..6;

/// Runs `launch` with all checks under several seeds, and once without.
#[track_caller]
fn on_all(mut launch: impl FnMut(&Simulator)) {
    for seed in SEEDS {
        launch(&Simulator::with_seed(seed));
    }
    launch(&Simulator {
        options: Options {
            checks: false,
            ..Options::default()
        },
    });
}

/// Where each thread is.
#[kernel]
pub unsafe fn places(out: GlobalMut<u32>) {
    let [x, y, z] = [
        thread::thread_idx_x(),
        thread::thread_idx_y(),
        thread::thread_idx_z(),
    ];
    let [bx, by, bz] = [
        thread::block_idx_x(),
        thread::block_idx_y(),
        thread::block_idx_z(),
    ];
    let t = x + thread::block_dim_x() * (y + thread::block_dim_y() * z);
    let b = bx + thread::grid_dim_x() * (by + thread::grid_dim_y() * bz);
    let n = thread::block_dim_x() * thread::block_dim_y() * thread::block_dim_z();
    let i = 4 * (b * n + t) as usize;
    out.set(i, x | y << 8 | z << 16);
    out.set(i + 1, bx | by << 8 | bz << 16);
    out.set(i + 2, thread::lane_id() | thread::warp_id() << 8);
    out.set(i + 3, thread::grid_dim_z());
}

#[test]
fn indices_of_a_three_dimensional_launch() {
    let config = LaunchConfig {
        grid: [3, 2, 2],
        block: [5, 4, 3],
        shared_bytes: 0,
        cooperative: false,
    };
    on_all(|s| {
        let mut out = Buffer::<u32>::uninitialized("out", 4 * 12 * 60);
        // SAFETY: simulated.
        unsafe { places::launch(s, &config, &mut out) }.unwrap();
        for (i, v) in out.to_vec().chunks(4).enumerate() {
            let (b, t) = (i as u32 / 60, i as u32 % 60);
            assert_eq!(v[0], (t % 5) | ((t / 5 % 4) << 8) | ((t / 20) << 16));
            assert_eq!(v[1], (b % 3) | ((b / 3 % 2) << 8) | ((b / 6) << 16));
            assert_eq!(v[2], (t % 32) | ((t / 32) << 8));
            assert_eq!(v[3], 2);
        }
    });
}

/// Who visits which index.
#[kernel]
pub unsafe fn strides(by_grid: GlobalMut<u32>, by_block: GlobalMut<u32>) {
    for i in thread::grid_stride(by_grid.len()) {
        by_grid.set(i, thread::index_1d());
    }
    if thread::block_idx_x() == 1 {
        for i in thread::block_stride(by_block.len()) {
            by_block.set(i, thread::thread_idx_x());
        }
    }
}

#[test]
fn strides_visit_each_index_once() {
    for n in [0usize, 1, 31, 32, 33, 1025] {
        for threads in [1u32, 31, 64] {
            on_all(|s| {
                let mut by_grid = Buffer::<u32>::uninitialized("by_grid", n);
                let mut by_block = Buffer::<u32>::uninitialized("by_block", n);
                let config = LaunchConfig::linear(3, threads);
                // SAFETY: simulated.
                unsafe { strides::launch(s, &config, &mut by_grid, &mut by_block) }.unwrap();
                let modulo = |m: u32| (0..n as u32).map(|i| i % m).collect::<Vec<_>>();
                assert_eq!(by_grid.to_vec(), modulo(3 * threads));
                assert_eq!(by_block.to_vec(), modulo(threads));
            });
        }
    }
}

/// The barriers that count.
#[kernel]
pub unsafe fn counting_barriers(limit: u32, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    let count = thread::sync_threads_count(t < limit);
    let all = thread::sync_threads_and(t < limit);
    let any = thread::sync_threads_or(t < limit);
    out.set(t as usize, count * 4 + u32::from(all) * 2 + u32::from(any));
}

#[test]
fn barriers_count() {
    for n in [1u32, 31, 33, 1024] {
        for limit in [0, 1, n / 2, n] {
            on_all(|s| {
                let mut out = Buffer::<u32>::uninitialized("out", n as usize);
                let config = LaunchConfig::linear(1, n);
                // SAFETY: simulated.
                unsafe { counting_barriers::launch(s, &config, limit, &mut out) }.unwrap();
                let count = limit.min(n);
                let expected = count * 4 + u32::from(count == n) * 2 + u32::from(count > 0);
                assert_eq!(out.to_vec(), vec![expected; n as usize]);
            });
        }
    }
}

/// All four shuffles of a value that fills its type.
#[kernel(T = [u32, i32, u64, i64, f32, f64, Complex<f32>, Complex<f64>])]
pub unsafe fn shuffles<T: Element>(mask: u32, x: Global<T>, out: GlobalMut<T>) {
    let lane = thread::lane_id();
    if mask >> lane & 1 == 0 {
        return;
    }
    let i = thread::index_1d() as usize;
    let v = x.get(i);
    let n = x.len();
    // Sources within the mask: the tests use runs of 8 lanes.
    out.set(i, warp::shuffle(mask, v, lane / 8 * 8 + 5));
    out.set(n + i, warp::shuffle_xor(mask, v, 3));
    let up = if lane % 8 < 2 { 0 } else { 2 };
    out.set(2 * n + i, warp::shuffle_up(mask, v, up));
    let down = if lane % 8 > 6 { 0 } else { 1 };
    out.set(3 * n + i, warp::shuffle_down(mask, v, down));
}

#[test]
fn shuffles_move_all_bits_of_all_types() {
    fn check<T: shuffles::Instance + PartialEq>(values: &[T]) {
        for mask in [warp::FULL_MASK, 0x00ff_ff00, 0xff00_00ff] {
            on_all(|s| {
                let x = Buffer::from_slice("x", values);
                let mut out = Buffer::<T>::zeroed("out", 4 * 64);
                let config = LaunchConfig::linear(1, 64);
                // SAFETY: simulated.
                unsafe { shuffles::launch::<T, _>(s, &config, mask, &x, &mut out) }.unwrap();
                let got = out.to_vec();
                for i in (0..64usize).filter(|i| mask >> (i % 32) & 1 == 1) {
                    assert_eq!(got[i], values[i / 8 * 8 + 5]);
                    assert_eq!(got[64 + i], values[i ^ 3]);
                    assert_eq!(got[128 + i], values[if i % 8 < 2 { i } else { i - 2 }]);
                    assert_eq!(got[192 + i], values[if i % 8 > 6 { i } else { i + 1 }]);
                }
            });
        }
    }
    let wide = |i: u64| (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let list = || (0..64u64).map(wide);
    check::<u64>(&list().collect::<Vec<_>>());
    check::<i64>(&list().map(|v| v as i64).collect::<Vec<_>>());
    check::<u32>(&list().map(|v| v as u32).collect::<Vec<_>>());
    check::<i32>(&list().map(|v| v as i32).collect::<Vec<_>>());
    check::<f64>(&list().map(|v| v as f64 * -0.37).collect::<Vec<_>>());
    check::<f32>(&list().map(|v| v as f32 * -0.37).collect::<Vec<_>>());
    let pair = |v: u64| Complex::new(v as f32, v.wrapping_mul(v) as f32);
    check::<Complex<f32>>(&list().map(pair).collect::<Vec<_>>());
    let pair = |v: u64| Complex::new(v as f64, v.wrapping_mul(v) as f64);
    check::<Complex<f64>>(&list().map(pair).collect::<Vec<_>>());
}

/// Shuffles that run off the warp give the own value.
#[kernel]
pub unsafe fn shuffle_edges(out: GlobalMut<u32>) {
    let lane = thread::lane_id();
    let i = lane as usize;
    out.set(i, warp::shuffle_up(warp::FULL_MASK, lane, 5));
    out.set(32 + i, warp::shuffle_down(warp::FULL_MASK, lane, 31));
    out.set(64 + i, warp::shuffle(warp::FULL_MASK, lane, lane + 33));
}

#[test]
fn shuffles_at_the_edges_of_the_warp() {
    on_all(|s| {
        let mut out = Buffer::<u32>::uninitialized("out", 96);
        // SAFETY: simulated.
        unsafe { shuffle_edges::launch(s, &LaunchConfig::linear(1, 32), &mut out) }.unwrap();
        let got = out.to_vec();
        for l in 0..32u32 {
            let i = l as usize;
            assert_eq!(got[i], if l < 5 { l } else { l - 5 });
            assert_eq!(got[32 + i], if l == 0 { 31 } else { l });
            assert_eq!(got[64 + i], (l + 1) % 32);
        }
    });
}

/// Votes, matches and reductions.
#[kernel]
pub unsafe fn votes(mask: u32, x: Global<u32>, out: GlobalMut<u32>) {
    let lane = thread::lane_id();
    if mask >> lane & 1 == 0 {
        return;
    }
    let v = x.get(lane as usize);
    let odd = v % 2 == 1;
    let results = [
        u32::from(warp::vote_any(mask, odd)),
        u32::from(warp::vote_all(mask, odd)),
        warp::ballot(mask, odd),
        warp::match_any(mask, v % 3),
        warp::reduce_add(mask, v),
        warp::reduce_min(mask, v),
        warp::reduce_max(mask, v),
        warp::reduce_and(mask, v),
        warp::reduce_or(mask, v),
        warp::reduce_xor(mask, v),
        warp::reduce_add(mask, v as i32) as u32,
        warp::reduce_min(mask, v as i32) as u32,
        warp::reduce_max(mask, v as i32) as u32,
        warp::active_mask() >> lane & 1,
    ];
    let mut k = 0;
    while k < 14 {
        out.set(lane as usize * 14 + k, results[k]);
        k += 1;
    }
}

#[test]
fn votes_and_reductions_over_masks() {
    let inputs: [Vec<u32>; 3] = [
        (0..32).map(|i: u32| i.wrapping_mul(0x9E37_79B9)).collect(),
        vec![u32::MAX; 32],
        (0..32).map(|i| 2 * i).collect(),
    ];
    for values in &inputs {
        for mask in [warp::FULL_MASK, 1, 0x8000_0000, 0xffff, 0x5555_5555] {
            on_all(|s| {
                let x = Buffer::from_slice("x", values);
                let mut out = Buffer::<u32>::zeroed("out", 32 * 14);
                // SAFETY: simulated.
                unsafe { votes::launch(s, &LaunchConfig::linear(1, 32), mask, &x, &mut out) }
                    .unwrap();
                let lanes = || (0..32usize).filter(|l| mask >> l & 1 == 1);
                let of = |f: &dyn Fn(u32) -> bool| {
                    lanes()
                        .filter(|&l| f(values[l]))
                        .fold(0u32, |m, l| m | 1 << l)
                };
                let odd = of(&|v| v % 2 == 1);
                let fold = |f: fn(u32, u32) -> u32| lanes().map(|l| values[l]).reduce(f).unwrap();
                let signed = |f: fn(i32, i32) -> i32| {
                    lanes().map(|l| values[l] as i32).reduce(f).unwrap() as u32
                };
                let got = out.to_vec();
                for l in lanes() {
                    let expected = [
                        u32::from(odd != 0),
                        u32::from(odd == mask),
                        odd,
                        of(&|v| v % 3 == values[l] % 3),
                        fold(u32::wrapping_add),
                        fold(u32::min),
                        fold(u32::max),
                        fold(|a, b| a & b),
                        fold(|a, b| a | b),
                        fold(|a, b| a ^ b),
                        fold(u32::wrapping_add),
                        signed(i32::min),
                        signed(i32::max),
                        1,
                    ];
                    assert_eq!(got[l * 14..][..14], expected, "lane {l}, mask {mask:#x}");
                }
            });
        }
    }
}

/// Sums of full warps.
#[kernel(T = [f32, f64])]
pub unsafe fn warp_sums<T: Real>(x: Global<T>, out: GlobalMut<T>) {
    let i = thread::index_1d() as usize;
    out.set(i, warp::reduce_sum(x.get(i)));
}

#[test]
fn warp_sums_have_a_fixed_order() {
    let x: Vec<f64> = (0..64).map(|i| 1.0 / (f64::from(i) + 0.3)).collect();
    let tree = |values: &[f64]| {
        let mut v = values.to_vec();
        for distance in [16, 8, 4, 2, 1] {
            v = (0..32).map(|l| v[l] + v[l ^ distance]).collect();
        }
        v[0]
    };
    on_all(|s| {
        let input = Buffer::from_slice("x", &x);
        let mut out = Buffer::<f64>::uninitialized("out", 64);
        // SAFETY: simulated.
        unsafe { warp_sums::launch(s, &LaunchConfig::linear(2, 32), &input, &mut out) }.unwrap();
        let got = out.to_vec();
        for (w, part) in x.chunks(32).enumerate() {
            assert!(got[w * 32..][..32].iter().all(|&v| v == tree(part)));
        }
    });
}

/// Warp 1 waits for a flag that warp 0 sets after many rounds, and counts how often it asked.
#[kernel(max_threads(64))]
pub unsafe fn long_wait(rounds: u32, flag: GlobalMut<u32>, asked: GlobalMut<u32>) {
    let flag = flag.atomic(0);
    if thread::thread_idx_x() < warp::WARP_SIZE {
        let mut round = 0;
        while round < rounds {
            warp::sync_warp(warp::FULL_MASK);
            round += 1;
        }
        flag.store(1, Ordering::Release, Scope::Device);
    } else {
        let mut count = 0;
        spin_wait(|| {
            count += 1;
            flag.load(Ordering::Acquire, Scope::Device) == 1
        });
        asked.set(thread::lane_id() as usize, count);
    }
}

#[test]
fn conditions_that_fail_are_asked_less_often() {
    on_all(|s| {
        let mut flag = Buffer::<u32>::zeroed("flag", 1);
        let mut asked = Buffer::<u32>::uninitialized("asked", 32);
        let config = LaunchConfig::linear(1, 64);
        // SAFETY: simulated.
        unsafe { long_wait::launch(s, &config, 4000, &mut flag, &mut asked) }.unwrap();
        // Each round gives every lane of warp 0 a turn at most.
        assert!(asked.to_vec().iter().all(|&count| count <= 4000 / 8));
    });
}

/// Folds of groups, by a function that tells its arguments apart.
#[kernel]
pub unsafe fn folds(lanes: u32, x: Global<u64>, out: GlobalMut<u64>) {
    let i = thread::index_1d() as usize;
    let step = |own: u64, other: u64| own.wrapping_mul(3) ^ other;
    out.set(i, warp::fold(lanes, x.get(i), step));
}

#[test]
fn folds_pair_lanes_at_falling_distances() {
    let x: Vec<u64> = (0..64u64).map(|i| i * i * 0x9E37_79B9).collect();
    for lanes in [1, 2, 8, 32] {
        let mut expected = x.clone();
        let mut distance = lanes / 2;
        while distance > 0 {
            let step = |i: usize| expected[i].wrapping_mul(3) ^ expected[i ^ distance];
            expected = (0..64).map(step).collect();
            distance /= 2;
        }
        on_all(|s| {
            let input = Buffer::from_slice("x", &x);
            let mut out = Buffer::<u64>::uninitialized("out", 64);
            let config = LaunchConfig::linear(2, 32);
            // SAFETY: simulated.
            unsafe { folds::launch(s, &config, lanes as u32, &input, &mut out) }.unwrap();
            assert_eq!(out.to_vec(), expected, "groups of {lanes}");
        });
    }
}

/// Every read-modify-write, by many threads, on cells of global or shared memory.
#[kernel(T = [u32, i32, u64, i64])]
pub unsafe fn integer_atomics<T: IntElement>(x: Global<T>, out: GlobalMut<T>, old: GlobalMut<T>) {
    let tile = shared_array![T; 7];
    let t = thread::thread_idx_x() as usize;
    if t < 7 {
        tile.set(t, out.get(t));
    }
    thread::sync_threads();
    let v = x.get(t);
    let device = |k: usize| out.atomic(k);
    let block = |k: usize| tile.atomic(k);
    device(0).fetch_add(v, Ordering::Relaxed, Scope::Device);
    device(1).fetch_sub(v, Ordering::AcqRel, Scope::Device);
    device(2).fetch_min(v, Ordering::Acquire, Scope::Device);
    device(3).fetch_max(v, Ordering::Release, Scope::Device);
    device(4).fetch_and(v, Ordering::Relaxed, Scope::Block);
    device(5).fetch_or(v, Ordering::Relaxed, Scope::Block);
    device(6).fetch_xor(v, Ordering::Relaxed, Scope::Block);
    block(0).reduce_add(v, Ordering::Relaxed, Scope::Block);
    block(1).fetch_sub(v, Ordering::Relaxed, Scope::Block);
    block(2).fetch_min(v, Ordering::Relaxed, Scope::Block);
    block(3).fetch_max(v, Ordering::Relaxed, Scope::Block);
    block(4).fetch_and(v, Ordering::Relaxed, Scope::Block);
    block(5).fetch_or(v, Ordering::Relaxed, Scope::Block);
    block(6).fetch_xor(v, Ordering::Relaxed, Scope::Block);
    // A compare-exchange loop that doubles nothing and adds all: old values differ.
    let cell = old.atomic(0);
    let mut seen = cell.load(Ordering::Relaxed, Scope::Device);
    loop {
        let before = cell.compare_exchange(seen, v, Ordering::AcqRel, Scope::Device);
        if before == seen {
            break;
        }
        seen = before;
    }
    old.set(1 + t, seen);
    thread::sync_threads();
    if t < 7 {
        out.set(7 + t, tile.get(t));
    }
}

#[test]
fn integer_atomics_compute_and_answer_the_old_value() {
    macro_rules! check {
        ($($t:ty),*) => {$({
            let x: Vec<$t> = (0..65u64)
                .map(|i| (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) as $t)
                .collect();
            let start: Vec<$t> = vec![11, 12, <$t>::MAX, <$t>::MIN, !0, 0, 13];
            on_all(|s| {
                let input = Buffer::from_slice("x", &x);
                let mut begin = start.clone();
                begin.resize(14, 0);
                let mut out = Buffer::from_slice("out", &begin);
                let mut old = Buffer::from_slice("old", &[0 as $t; 66]);
                let config = LaunchConfig::linear(1, 65);
                // SAFETY: simulated.
                unsafe {
                    integer_atomics::launch::<$t, _>(s, &config, &input, &mut out, &mut old)
                }
                .unwrap();
                let fold = |k: usize, f: fn($t, $t) -> $t| x.iter().fold(start[k], |a, &b| f(a, b));
                let expected = [
                    fold(0, <$t>::wrapping_add),
                    fold(1, <$t>::wrapping_sub),
                    fold(2, Ord::min),
                    fold(3, Ord::max),
                    fold(4, |a, b| a & b),
                    fold(5, |a, b| a | b),
                    fold(6, |a, b| a ^ b),
                ];
                let got = out.to_vec();
                assert_eq!(got[..7], expected);
                assert_eq!(got[7..], expected);
                // The exchanges form a chain from 0 to the value that is left.
                let old = old.to_vec();
                let mut chain: Vec<$t> = old.clone();
                let mut links: Vec<$t> = x.clone();
                links.push(0);
                chain.sort_unstable();
                links.sort_unstable();
                assert_eq!(chain, links);
            });
        })*};
    }
    check!(u32, i32, u64, i64);
}

/// Adds in floating point.
#[kernel(T = [f32, f64])]
pub unsafe fn float_atomics<T: Real>(x: Global<T>, out: GlobalMut<T>) {
    let part = shared_array![T; 1];
    let t = thread::thread_idx_x();
    if t == 0 {
        part.set(0, T::ZERO);
    }
    thread::sync_threads();
    let v = x.get(thread::index_1d() as usize);
    out.atomic(0).fetch_add(v, Ordering::Relaxed, Scope::Device);
    out.atomic(1)
        .reduce_add(v, Ordering::Relaxed, Scope::Device);
    part.atomic(0)
        .reduce_add(v, Ordering::Relaxed, Scope::Block);
    thread::sync_threads();
    if t == 0 {
        out.atomic(2)
            .reduce_add(part.get(0), Ordering::Relaxed, Scope::Device);
        let last = out.atomic(3).swap(T::ONE, Ordering::Relaxed, Scope::Device);
        out.atomic(4)
            .reduce_add(last, Ordering::Relaxed, Scope::Device);
        out.atomic(5)
            .store(T::from_f64(0.5), Ordering::Relaxed, Scope::Device);
    }
}

#[test]
fn float_atomics_add() {
    // Multiples of 1/8 below 2^20: sums are exact in any order.
    let x: Vec<f32> = (0..3 * 100).map(|i| i as f32 / 8.0).collect();
    let sum: f32 = x.iter().sum();
    on_all(|s| {
        let input = Buffer::from_slice("x", &x);
        let mut out = Buffer::<f32>::zeroed("out", 6);
        let config = LaunchConfig::linear(3, 100);
        // SAFETY: simulated.
        unsafe { float_atomics::launch(s, &config, &input, &mut out) }.unwrap();
        assert_eq!(out.to_vec(), [sum, sum, sum, 1.0, 2.0, 0.5]);

        let x: Vec<f64> = x.iter().map(|&v| v.into()).collect();
        let input = Buffer::from_slice("x", &x);
        let mut out = Buffer::<f64>::zeroed("out", 6);
        // SAFETY: simulated.
        unsafe { float_atomics::launch(s, &config, &input, &mut out) }.unwrap();
        let sum = f64::from(sum);
        assert_eq!(out.to_vec(), [sum, sum, sum, 1.0, 2.0, 0.5]);
    });
}

/// Multiplies 8×4 by 4×8.
#[kernel]
pub unsafe fn multiply(a: Global<f64>, b: Global<f64>, c: GlobalMut<f64>) {
    let lane = thread::lane_id() as usize;
    let (row, col) = (lane / 4, lane % 4);
    let at = 8 * row + 2 * col;
    let d = matrix::mma_m8n8k4_f64(
        a.get(4 * row + col),
        b.get(8 * col + row),
        [c.get(at), c.get(at + 1)],
    );
    c.set(at, d[0]);
    c.set(at + 1, d[1]);
}

#[test]
fn the_matrix_product_has_the_layout_of_ptx() {
    let a: Vec<f64> = (0..32).map(|i| f64::from(i * i % 13) - 5.0).collect();
    let b: Vec<f64> = (0..32).map(|i| f64::from(i * 7 % 11) - 4.0).collect();
    let start: Vec<f64> = (0..64).map(f64::from).collect();
    let mut expected = start.clone();
    for i in 0..8 {
        for j in 0..8 {
            for k in 0..4 {
                expected[8 * i + j] += a[4 * i + k] * b[8 * k + j];
            }
        }
    }
    on_all(|s| {
        let (a, b) = (Buffer::from_slice("a", &a), Buffer::from_slice("b", &b));
        let mut c = Buffer::from_slice("c", &start);
        // SAFETY: simulated.
        unsafe { multiply::launch(s, &LaunchConfig::linear(1, 32), &a, &b, &mut c) }.unwrap();
        assert_eq!(c.to_vec(), expected);
    });
}

/// Multiplies 32×8 by 8×16, all row-major, as two by two products.
#[kernel]
pub unsafe fn multiply_pairs(a: Global<f64>, b: Global<f64>, c: GlobalMut<f64>) {
    let lane = thread::lane_id() as usize;
    let (g, t) = (lane / 4, lane % 4);
    let of_a = |i: usize, x: usize| a.get(8 * (16 * i + g + x % 2 * 8) + t + x / 2 * 4);
    let of_b = |j: usize, x: usize| b.get(16 * (t + 4 * x) + 8 * j + g);
    let place =
        |i: usize, j: usize, x: usize| 16 * (16 * i + g + x / 2 * 8) + 8 * j + 2 * t + x % 2;
    let left = [0, 1].map(|i| [0, 1, 2, 3].map(|x| of_a(i, x)));
    let right = [0, 1].map(|j| [0, 1].map(|x| of_b(j, x)));
    let mut sums = [0, 1].map(|i| [0, 1].map(|j| [0, 1, 2, 3].map(|x| c.get(place(i, j, x)))));
    matrix::mma_m16n8k8_f64(&left, &right, &mut sums);
    for (i, sums) in sums.iter().enumerate() {
        for (j, sums) in sums.iter().enumerate() {
            for (x, &sum) in sums.iter().enumerate() {
                c.set(place(i, j, x), sum);
            }
        }
    }
}

#[test]
fn products_of_pairs_have_the_layout_of_ptx() {
    let a: Vec<f64> = (0..32 * 8).map(|i| f64::from(i * i % 13) - 5.0).collect();
    let b: Vec<f64> = (0..8 * 16).map(|i| f64::from(i * 7 % 11) - 4.0).collect();
    let start: Vec<f64> = (0..32 * 16).map(f64::from).collect();
    let mut expected = start.clone();
    for i in 0..32 {
        for j in 0..16 {
            for k in 0..8 {
                expected[16 * i + j] += a[8 * i + k] * b[16 * k + j];
            }
        }
    }
    on_all(|s| {
        let (a, b) = (Buffer::from_slice("a", &a), Buffer::from_slice("b", &b));
        let mut c = Buffer::from_slice("c", &start);
        let config = LaunchConfig::linear(1, 32);
        // SAFETY: simulated.
        unsafe { multiply_pairs::launch(s, &config, &a, &b, &mut c) }.unwrap();
        assert_eq!(c.to_vec(), expected);
    });
}

/// Two arrays in dynamic shared memory, and one static.
#[kernel]
pub unsafe fn dynamic(n: u32, out: GlobalMut<f64>) {
    let fixed = shared_array![u32; 3];
    let counts = dynamic_shared::<u32>(0, n as usize);
    let values = dynamic_shared::<f64>((n as usize * 4).next_multiple_of(8), n as usize);
    let t = thread::thread_idx_x() as usize;
    counts.set(t, t as u32);
    values.set(t, 0.5);
    if t < 3 {
        fixed.set(t, 100);
    }
    thread::sync_threads();
    let other = n as usize - 1 - t;
    out.set(
        t,
        f64::from(counts.get(other) + fixed.get(t % 3)) + values.get(other),
    );
}

#[test]
fn dynamic_shared_memory_holds_several_arrays() {
    for n in [3u32, 31, 32, 33, 1023] {
        on_all(|s| {
            let mut out = Buffer::<f64>::uninitialized("out", n as usize);
            let bytes = (n * 4).next_multiple_of(8) + n * 8;
            let config = LaunchConfig::linear(1, n).with_shared(bytes);
            // SAFETY: simulated.
            unsafe { dynamic::launch(s, &config, n, &mut out) }.unwrap();
            let expected: Vec<f64> = (0..n).rev().map(|i| f64::from(i) + 100.5).collect();
            assert_eq!(out.to_vec(), expected);
        });
    }
}

/// A barrier of the whole grid, several times.
#[kernel]
pub unsafe fn grid_phases(phases: u32, arrived: GlobalMut<u32>, x: GlobalMut<u64>) {
    let i = thread::index_1d() as usize;
    let n = thread::num_threads_1d() as usize;
    for phase in 0..phases {
        let neighbour = (i + thread::block_dim_x() as usize) % n;
        let v = x.get(phase as usize % 2 * n + neighbour);
        x.set((phase as usize + 1) % 2 * n + i, v + 1);
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            let cell = arrived.atomic(0);
            cell.fetch_add(1, Ordering::AcqRel, Scope::Device);
            let wanted = (phase + 1) * thread::grid_dim_x();
            spin_wait(|| cell.load(Ordering::Acquire, Scope::Device) >= wanted);
        }
        thread::sync_threads();
    }
}

#[test]
fn blocks_wait_for_each_other() {
    let (blocks, threads, phases) = (7u32, 33u32, 5u32);
    let n = (blocks * threads) as usize;
    on_all(|s| {
        let mut arrived = Buffer::<u32>::zeroed("arrived", 1);
        let start: Vec<u64> = (0..2 * n as u64).map(|i| i % n as u64 * 100).collect();
        let mut x = Buffer::from_slice("x", &start);
        let config = LaunchConfig::linear(blocks, threads).cooperative();
        // SAFETY: simulated.
        unsafe { grid_phases::launch(s, &config, phases, &mut arrived, &mut x) }.unwrap();
        let got = &x.to_vec()[phases as usize % 2 * n..][..n];
        for (i, &v) in got.iter().enumerate() {
            let from = (i + (phases * threads) as usize) % n;
            assert_eq!(v, 100 * from as u64 + u64::from(phases));
        }
    });
}

/// The functions of `Real`.
#[kernel(T = [f32, f64])]
pub unsafe fn functions<T: Real>(a: T, b: T, c: T, out: GlobalMut<T>) {
    out.set(0, a.mul_add(b, c));
    out.set(1, (a * b + c).abs());
    out.set(2, a.sqrt());
    out.set(3, a.max(b));
    out.set(4, a.min(b));
    out.set(5, a / b - c);
    out.set(6, T::from_f64(c.to_f64() + 1.0) + T::ONE);
    thread::nanosleep(10);
}

#[test]
fn real_functions_round_once() {
    // a·b is not exact: the fused form keeps what the product alone loses.
    let (a, b) = (1.0 + f64::EPSILON, 1.0 - f64::EPSILON);
    on_all(|s| {
        let mut out = Buffer::<f64>::uninitialized("out", 7);
        let config = LaunchConfig::linear(1, 1);
        // SAFETY: simulated.
        unsafe { functions::launch(s, &config, a, b, -1.0, &mut out) }.unwrap();
        let expected = [
            -f64::EPSILON * f64::EPSILON,
            (a * b - 1.0).abs(),
            a.sqrt(),
            a,
            b,
            a / b + 1.0,
            1.0,
        ];
        assert_eq!(out.to_vec(), expected);
        // A NaN loses.
        // SAFETY: simulated.
        unsafe { functions::launch(s, &config, f64::NAN, 2.0, 0.0, &mut out) }.unwrap();
        assert_eq!(out.to_vec()[3..5], [2.0, 2.0]);
    });
}

/// Does nothing that counts.
#[kernel]
pub unsafe fn count_threads(count: GlobalMut<u32>) {
    count
        .atomic(0)
        .fetch_add(1, Ordering::Relaxed, Scope::Device);
}

#[test]
fn every_thread_of_every_block_runs_once() {
    for (blocks, threads) in [(1, 1), (1, 31), (33, 32), (1025, 1), (40, 1024), (257, 33)] {
        for resident_blocks in [1, 3, 64] {
            let options = Options {
                resident_blocks,
                ..Options::default()
            };
            let mut count = Buffer::<u32>::zeroed("count", 1);
            let config = LaunchConfig::linear(blocks, threads);
            let args = [count.kernel_arg_mut()];
            let stats = sim::launch(count_threads::desc(), &config, &args, &options).unwrap();
            assert_eq!(count.to_vec(), [blocks * threads]);
            assert_eq!(stats.blocks, u64::from(blocks));
            assert_eq!(stats.threads, u64::from(blocks * threads));
        }
    }
}
