//! The kernel DSL: every primitive, through the launchers and the device, against values computed
//! here from its definition.

use std::borrow::Cow;
use std::fmt::Debug;

use luge_device::{LaunchConfig, Stream};
use luge_kernel::host::{ElementKind, KernelDesc, KernelModule, ParamKind, PtxImage};
use luge_kernel::math::Complex;
use luge_kernel::mem::Element;
use luge_test_kernels::{MODULE, dsl, fields as field_kernels};
use sha2::{Digest, Sha256};

use crate::packed_ptx::decompressed;

/// Launches a kernel; a refusal or a fault fails the test.
macro_rules! launch {
    ($($call:tt)*) => {{
        // SAFETY: the test gives the kernel the shape and the buffers that its documentation asks
        // for.
        let launched = unsafe { $($call)* };
        launched.unwrap_or_else(|error| panic!("{error}"))
    }};
}

mod fields;

/// A stream on every device under test.
fn streams() -> Vec<Stream> {
    luge_tests::devices()
        .iter()
        .map(|device| device.create_stream().unwrap())
        .collect()
}

/// Pseudo-random numbers (splitmix64).
fn noise(i: usize) -> u64 {
    let mut z = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The element types, with what the expected values are computed by.
trait Value: Element + Into<luge_kernel::host::KernelArg> {
    /// A pseudo-random value; sums of a few thousand are exact in every type or wrap.
    fn sample(i: usize) -> Self;
    /// 1 to 7.
    fn small(i: usize) -> Self;
    /// Sum; integers wrap.
    fn plus(self, other: Self) -> Self;
    /// The bits, zero-extended: what is compared.
    fn bits(self) -> u128;
}

macro_rules! integer_value {
    ($($t:ty as $unsigned:ty),*) => {
        $(impl Value for $t {
            fn sample(i: usize) -> Self {
                noise(i) as Self
            }
            fn small(i: usize) -> Self {
                (1 + noise(i) % 7) as Self
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn bits(self) -> u128 {
                u128::from(self as $unsigned)
            }
        })*
    };
}
integer_value!(u32 as u32, i32 as u32, u64 as u64, i64 as u64);

macro_rules! real_value {
    ($($t:ty),*) => {
        $(impl Value for $t {
            fn sample(i: usize) -> Self {
                (noise(i) % 4001) as Self / 4.0 - 500.0
            }
            fn small(i: usize) -> Self {
                (1 + noise(i) % 7) as Self
            }
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn bits(self) -> u128 {
                u128::from(self.to_bits())
            }
        }

        impl Value for Complex<$t> {
            fn sample(i: usize) -> Self {
                Self::new(Value::sample(2 * i), Value::sample(2 * i + 1))
            }
            fn small(i: usize) -> Self {
                Self::new(Value::small(2 * i), Value::small(2 * i + 1))
            }
            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn bits(self) -> u128 {
                self.re.bits() | self.im.bits() << 64
            }
        })*
    };
}
real_value!(f32, f64);

fn samples<T: Value>(seed: usize, n: usize) -> Vec<T> {
    (0..n).map(|i| T::sample(seed * 1_000_000 + i)).collect()
}

/// Fails at the first place where the bits differ.
#[track_caller]
fn assert_same<T: Value>(found: &[T], expected: &[T], what: impl Debug) {
    assert_eq!(found.len(), expected.len(), "{what:?}: length");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert_eq!(
            f.bits(),
            e.bits(),
            "{what:?}: [{i}] is {f:?} instead of {e:?}"
        );
    }
}

#[test]
#[should_panic(expected = "[2] is 3.0 instead of -3.0")]
fn comparison_fails_on_a_wrong_value() {
    assert_same(&[1.0, 2.0, 3.0], &[1.0, 2.0, -3.0], "values");
}

#[test]
fn indices_are_those_of_the_launch() {
    let (grid, block) = ([2, 3, 2], [4, 3, 5]);
    let mut expected = Vec::new();
    for bz in 0..grid[2] {
        for by in 0..grid[1] {
            for bx in 0..grid[0] {
                for thread in 0..block[0] * block[1] * block[2] {
                    let (tx, rest) = (thread % block[0], thread / block[0]);
                    let (ty, tz) = (rest % block[1], rest / block[1]);
                    expected.extend([tx, ty, tz, bx, by, bz]);
                    expected.extend(block);
                    expected.extend(grid);
                    expected.extend([thread % 32, thread / 32]);
                }
            }
        }
    }
    for stream in streams() {
        let mut out = stream.alloc_zeroed::<u32>(expected.len()).unwrap();
        let config = LaunchConfig {
            grid,
            block,
            ..LaunchConfig::linear(1, 1)
        };
        launch!(dsl::indices::launch(&stream, &config, &mut out));
        assert_same(&stream.download(&out).unwrap(), &expected, "indices");
    }
}

#[test]
fn strides_visit_every_element_once() {
    for (blocks, block) in [(1, 1), (3, 33), (2, 64)] {
        for len in [0, 1, 31, 32, 33, 1025] {
            let threads = blocks * block;
            let by_grid: Vec<u32> = (0..len).map(|i| i % threads + 1).collect();
            let by_block: Vec<u32> = (0..blocks)
                .flat_map(|_| (0..len).map(|i| i % block + 1))
                .collect();
            for stream in streams() {
                let mut grid = stream.alloc_zeroed::<u32>(len as usize).unwrap();
                let mut blocked = stream.alloc_zeroed::<u32>((blocks * len) as usize).unwrap();
                let mut count = stream.alloc_zeroed::<u32>(threads as usize).unwrap();
                launch!(dsl::strides::launch(
                    &stream,
                    &LaunchConfig::linear(blocks, block),
                    &mut grid,
                    &mut blocked,
                    &mut count,
                ));
                let what = (blocks, block, len);
                assert_same(&stream.download(&grid).unwrap(), &by_grid, what);
                assert_same(&stream.download(&blocked).unwrap(), &by_block, what);
                let counts = vec![threads; threads as usize];
                assert_same(&stream.download(&count).unwrap(), &counts, what);
            }
        }
    }
}

#[test]
fn parameters_arrive_as_they_were_given() {
    for stream in streams() {
        let input = stream.upload(&[0.0f32; 5]).unwrap();
        let mut bits = stream.alloc_zeroed::<u64>(9).unwrap();
        launch!(dsl::parameters::launch(
            &stream,
            &LaunchConfig::linear(1, 32),
            0xdead_beef,
            -5,
            &input,
            0x0123_4567_89ab_cdef,
            i64::MIN + 3,
            &mut bits,
            -1.5,
            std::f64::consts::PI,
        ));
        let expected = [
            0xdead_beef,
            u64::from(-5i32 as u32),
            0x0123_4567_89ab_cdef,
            (i64::MIN + 3) as u64,
            u64::from((-1.5f32).to_bits()),
            std::f64::consts::PI.to_bits(),
            5,
            9,
            0,
        ];
        assert_same(&stream.download(&bits).unwrap(), &expected, "parameters");
    }
}

#[test]
fn fields_of_structs_and_records_arrive_by_name() {
    let stretches = [
        dsl::Stretch {
            len: 4,
            first: 2,
            factors: [1, 10],
        },
        dsl::Stretch {
            len: 1,
            first: 0,
            factors: [3, 0],
        },
        dsl::Stretch {
            len: 0,
            first: u64::MAX,
            factors: [u32::MAX; 2],
        },
    ];
    for stream in streams() {
        let numbers = stream.upload(&[5.0, 0.0, 1.0, 2.0, 3.0, 4.0]).unwrap();
        let behind = stream.upload(&[0.25]).unwrap();
        let mut sums = stream.alloc::<f64>(9).unwrap();
        let given = dsl::StretchesBuffers {
            scale: 2.0,
            stretches: &stream.upload_records(&stretches).unwrap(),
            numbers: &numbers,
            sums: &mut sums,
        };
        let config = LaunchConfig::linear(3, 32);
        launch!(dsl::structs::launch::<f64, _>(
            &stream, &config, 0.5, given, &behind
        ));
        // 2 · (1·1 + 10·2 + 1·3 + 10·4), 2 · 3·5, nothing; and 0.75 more.
        let expected = [128.75, 30.75, 0.75].map(|sum| [sum; 3]);
        let found = stream.download(&sums).unwrap();
        assert_same(&found, expected.as_flattened(), "structs");
    }
}

#[test]
fn parts_of_buffers_are_seen_as_buffers() {
    for stream in streams() {
        let x = stream.upload(&samples::<f64>(1, 100)).unwrap();
        let mut y = stream.upload(&[1.0; 100]).unwrap();
        launch!(dsl::axpy::launch::<f64, _>(
            &stream,
            &LaunchConfig::linear(2, 32),
            2.0,
            &x.slice(7..40),
            &mut y.slice_mut(50..83),
        ));
        let mut expected = vec![1.0; 100];
        for i in 0..33 {
            expected[50 + i] = 2.0 * f64::sample(1_000_007 + i) + 1.0;
        }
        assert_same(&stream.download(&y).unwrap(), &expected, "axpy on slices");
    }
}

fn check_axpy<T: Value + dsl::axpy::Instance>(a: T, fused: impl Fn(T, T) -> T) {
    for n in [0, 1, 31, 32, 33, 1025] {
        let (x, y) = (samples::<T>(1, n), samples::<T>(2, n));
        let expected: Vec<T> = x.iter().zip(&y).map(|(x, y)| fused(*x, *y)).collect();
        for stream in streams() {
            let x = stream.upload(&x).unwrap();
            let mut y = stream.upload(&y).unwrap();
            let config = LaunchConfig::linear(3, 64);
            launch!(dsl::axpy::launch::<T, _>(&stream, &config, a, &x, &mut y));
            assert_same(&stream.download(&y).unwrap(), &expected, ("axpy", n));
        }
    }
}

#[test]
fn axpy_of_every_field() {
    check_axpy(0.1f32, |x, y| 0.1f32.mul_add(x, y));
    check_axpy(0.1f64, |x, y| 0.1f64.mul_add(x, y));
    // (0.1 + 0.7i) (a + bi), the products with the real part first.
    check_axpy(Complex::new(0.1f32, 0.7), |x, y| {
        let (re, im) = (0.1f32.mul_add(x.re, y.re), 0.1f32.mul_add(x.im, y.im));
        Complex::new((-0.7f32).mul_add(x.im, re), 0.7f32.mul_add(x.re, im))
    });
    check_axpy(Complex::new(0.1f64, 0.7), |x, y| {
        let (re, im) = (0.1f64.mul_add(x.re, y.re), 0.1f64.mul_add(x.im, y.im));
        Complex::new((-0.7f64).mul_add(x.im, re), 0.7f64.mul_add(x.re, im))
    });
}

#[test]
#[should_panic(expected = "precondition does not hold")]
fn launcher_refuses_lengths_that_differ() {
    let device = luge_device::Device::simulator(Default::default());
    let stream = device.create_stream().unwrap();
    let x = stream.upload(&[1.0f32; 4]).unwrap();
    let mut y = stream.upload(&[1.0f32; 3]).unwrap();
    let config = LaunchConfig::linear(1, 32);
    launch!(dsl::axpy::launch::<f32, _>(
        &stream, &config, 1.0, &x, &mut y
    ));
}

#[test]
#[should_panic(expected = "a block of 64 threads, where at most 32 fit")]
fn launcher_refuses_a_block_that_is_too_large() {
    let device = luge_device::Device::simulator(Default::default());
    let stream = device.create_stream().unwrap();
    let none = stream.alloc_zeroed::<f64>(0).unwrap();
    let mut out = stream.alloc_zeroed::<f64>(0).unwrap();
    let config = LaunchConfig::linear(1, 64);
    launch!(dsl::mma::launch(
        &stream, &config, 0, &none, &none, &none, &mut out
    ));
}

macro_rules! arithmetic_test {
    ($name:ident, $t:ty) => {
        #[test]
        fn $name() {
            let tiny = <$t>::MIN_POSITIVE / 3.0;
            let third = 1.0 as $t / 3.0;
            let special = [
                1.0,
                -2.5,
                third,
                tiny,
                <$t>::MAX,
                <$t>::INFINITY,
                <$t>::NAN,
                1e10,
            ];
            let mut rows: Vec<[$t; 3]> = Vec::new();
            for x in special {
                for y in special {
                    rows.push([x, y, third * 7.0]);
                }
            }
            // Products whose rounding error a fused multiply-add keeps and two operations lose.
            for i in 0..500 {
                let [x, y] = [1, 2].map(|k| 1.0 + (noise(3 * i + k) % 8191) as $t * <$t>::EPSILON);
                rows.push([x, y, -(x * y)]);
            }
            let column = |k: usize| rows.iter().map(|row| row[k]).collect::<Vec<$t>>();
            let (x, y, z) = (column(0), column(1), column(2));
            let per_row = |f: fn($t, $t, $t) -> $t| rows.iter().map(move |r| f(r[0], r[1], r[2]));
            let expected: Vec<$t> = per_row(|x, y, z| x.mul_add(y, z))
                .chain(per_row(|x, y, z| x * y + z))
                .chain(per_row(|x, y, _| x - y))
                .chain(per_row(|x, y, _| x / y))
                .chain(per_row(|x, _, _| -x))
                .chain(per_row(|x, _, _| x.abs()))
                .chain(per_row(|x, _, _| x.abs().sqrt()))
                .chain(per_row(|x, y, _| x.max(y)))
                .chain(per_row(|x, y, _| x.min(y)))
                .chain(per_row(|x, y, _| (f64::from(x) * f64::from(y)) as $t))
                .chain(per_row(|x, y, _| if x > y { 1.0 } else { 0.0 }))
                .chain(per_row(|x, y, z| (x + y - z) * y / z))
                .collect();
            assert!(
                rows.iter()
                    .any(|r| r[0].mul_add(r[1], r[2]) != r[0] * r[1] + r[2]),
                "the samples tell fused from not fused"
            );
            for stream in streams() {
                let [x, y, z] = [&x, &y, &z].map(|values| stream.upload(values).unwrap());
                let mut out = stream.alloc_zeroed::<$t>(expected.len()).unwrap();
                launch!(dsl::arithmetic::launch::<$t, _>(
                    &stream,
                    &LaunchConfig::for_elements(rows.len(), 64),
                    &x,
                    &y,
                    &z,
                    &mut out,
                ));
                let found = stream.download(&out).unwrap();
                for (i, (f, e)) in found.iter().zip(&expected).enumerate() {
                    let row = rows[i % rows.len()];
                    assert!(
                        f.to_bits() == e.to_bits() || (f.is_nan() && e.is_nan()),
                        "operation {} of {row:?} is {f:?} instead of {e:?}",
                        i / rows.len()
                    );
                }
            }
        }
    };
}
arithmetic_test!(arithmetic_of_f32_is_that_of_the_host, f32);
arithmetic_test!(arithmetic_of_f64_is_that_of_the_host, f64);

#[test]
fn bits_are_counted() {
    let mut x: Vec<u64> = (0..64).map(|i| 1 << i).collect();
    x.extend([0, u64::MAX]);
    x.extend((0..40).map(noise));
    let square = |x: u64| u128::from(x) * u128::from(x);
    let expected: Vec<u64> = (x.iter().map(|x| u64::from(x.leading_zeros())))
        .chain(x.iter().map(|x| u64::from(x.trailing_zeros())))
        .chain(x.iter().map(|x| u64::from(x.count_ones())))
        .chain(x.iter().map(|&x| (square(x) >> 64) as u64))
        .chain(x.iter().map(|&x| square(x) as u64))
        .collect();
    for stream in streams() {
        let x = stream.upload(&x).unwrap();
        let mut out = stream.alloc_zeroed::<u64>(expected.len()).unwrap();
        launch!(dsl::bits::launch(
            &stream,
            &LaunchConfig::linear(1, 64),
            &x,
            &mut out
        ));
        assert_same(&stream.download(&out).unwrap(), &expected, "bits");
    }
}

#[test]
fn barriers_order_and_count() {
    for n in [1, 31, 32, 33, 96, 1024] {
        let mut values: Vec<u32> = (0..n).map(|i| noise(i) as u32 % 1000).collect();
        let input = values.clone();
        for round in 0..3 {
            values = (0..n).map(|t| values[n - 1 - t] + round).collect();
        }
        let count = values.iter().filter(|v| *v % 3 == 0).count() as u32;
        let mut expected = values;
        for value in [count, 1, 0, 1, 0] {
            expected.extend(vec![value; n]);
        }
        for stream in streams() {
            let input = stream.upload(&input).unwrap();
            let mut out = stream.alloc_zeroed::<u32>(expected.len()).unwrap();
            let config = LaunchConfig::linear(1, n as u32);
            launch!(dsl::barriers::launch(&stream, &config, &input, &mut out));
            assert_same(&stream.download(&out).unwrap(), &expected, ("barriers", n));
        }
    }
}

#[test]
fn every_barrier_orders_memory() {
    for n in [1, 33, 256] {
        let expected: Vec<u32> = (0..n).map(|t| (t + 1) % n * 1001 + 8).collect();
        for stream in streams() {
            let mut out = stream.alloc_zeroed::<u32>(n as usize).unwrap();
            let config = LaunchConfig::linear(1, n);
            launch!(dsl::barriers_order::launch(&stream, &config, &mut out));
            assert_same(&stream.download(&out).unwrap(), &expected, ("barriers", n));
        }
    }
}

fn check_shuffles<T: Value + dsl::shuffles::Instance>() {
    let n = 96;
    let x = samples::<T>(1, n);
    // What a lane reads from; its own value where there is no such lane.
    let kinds: [fn(usize) -> usize; dsl::SHUFFLES] = [
        |lane| (7 * lane + 3) % 32,
        |_| 5,
        |lane| if lane >= 1 { lane - 1 } else { lane },
        |lane| if lane == 31 { 0 } else { lane },
        |lane| if lane + 5 < 32 { lane + 5 } else { lane },
        |lane| lane,
        |lane| lane ^ 16,
        |lane| lane ^ 9,
    ];
    let mut expected = Vec::new();
    for kind in kinds {
        expected.extend((0..n).map(|t| x[t - t % 32 + kind(t % 32)]));
    }
    for stream in streams() {
        let x = stream.upload(&x).unwrap();
        let mut out = stream.alloc_zeroed::<T>(expected.len()).unwrap();
        launch!(dsl::shuffles::launch::<T, _>(
            &stream,
            &LaunchConfig::linear(3, 32),
            &x,
            &mut out,
        ));
        let what = std::any::type_name::<T>();
        assert_same(&stream.download(&out).unwrap(), &expected, what);
    }
}

#[test]
fn shuffles_of_all_types() {
    check_shuffles::<u32>();
    check_shuffles::<i32>();
    check_shuffles::<u64>();
    check_shuffles::<i64>();
    check_shuffles::<f32>();
    check_shuffles::<f64>();
    check_shuffles::<Complex<f32>>();
    check_shuffles::<Complex<f64>>();
}

/// Masks of one lane, of some, of all.
const MASKS: [u32; 7] = [
    !0,
    1,
    1 << 31,
    0x8000_0001,
    0x0f0f_f0f0,
    0xaaaa_aaaa,
    0x0000_ffff,
];

/// What a lane outside the mask must leave as it was.
const UNTOUCHED: u32 = 0xdead_beef;

/// For each value, the lanes of `mask` with that value and nothing for the others.
fn in_lanes(mask: u32, value: impl Fn(usize) -> u32) -> impl Iterator<Item = u32> {
    (0..32).map(move |lane| {
        if mask >> lane & 1 == 1 {
            value(lane)
        } else {
            UNTOUCHED
        }
    })
}

fn lanes(mask: u32) -> Vec<usize> {
    (0..32).filter(|lane| mask >> lane & 1 == 1).collect()
}

#[test]
fn votes_of_the_lanes_of_a_mask() {
    let patterns: [fn(usize) -> u32; 4] = [
        |i| noise(i) as u32 % 5,
        |_| 3,
        |_| 2,
        |i| if i == 31 { 1 } else { 4 },
    ];
    for mask in MASKS {
        for pattern in patterns {
            let value: Vec<u32> = (0..32).map(pattern).collect();
            let of = |lanes: Vec<usize>, yes: &dyn Fn(usize) -> bool| -> u32 {
                lanes.iter().filter(|&&l| yes(l)).map(|l| 1 << l).sum()
            };
            let odd = of(lanes(mask), &|l| value[l] % 2 == 1);
            let first = mask.trailing_zeros() as usize;
            let expected: Vec<u32> = (in_lanes(mask, |_| u32::from(odd != 0)))
                .chain(in_lanes(mask, |_| u32::from(odd == mask)))
                .chain(in_lanes(mask, |_| 0))
                .chain(in_lanes(mask, |_| 1))
                .chain(in_lanes(mask, |_| odd))
                .chain(in_lanes(mask, |t| {
                    of(lanes(mask), &|l| value[l] == value[t])
                }))
                .chain(in_lanes(mask, |_| value[first]))
                .chain(in_lanes(mask, |_| 1))
                .chain(in_lanes(mask, |_| 1))
                .collect();
            for stream in streams() {
                let value = stream.upload(&value).unwrap();
                let mut out = stream.upload(&vec![UNTOUCHED; expected.len()]).unwrap();
                let config = LaunchConfig::linear(1, 32);
                launch!(dsl::votes::launch(&stream, &config, mask, &value, &mut out));
                let what = format!("votes, mask {mask:#x}");
                assert_same(&stream.download(&out).unwrap(), &expected, what);
            }
        }
    }
}

#[test]
fn halves_of_a_warp_vote_apart() {
    let value: Vec<u32> = (0..32).map(|i| noise(i) as u32 % 2).collect();
    let all: u32 = (0..32).map(|l| value[l] << l).sum();
    let half = |t: usize| if t < 16 { all & 0xffff } else { all & !0xffff };
    let sum = |t: usize| if t < 16 { 120 } else { 376 };
    let expected: Vec<u32> = (0..32)
        .map(half)
        .chain([all; 32])
        .chain((0..32).map(sum))
        .collect();
    for stream in streams() {
        let value = stream.upload(&value).unwrap();
        let mut out = stream.alloc_zeroed::<u32>(96).unwrap();
        let config = LaunchConfig::linear(1, 32);
        launch!(dsl::votes_of_halves::launch(
            &stream, &config, &value, &mut out
        ));
        assert_same(&stream.download(&out).unwrap(), &expected, "halves");
    }
}

#[test]
fn reductions_of_the_lanes_of_a_mask() {
    let x: Vec<u32> = (0..32).map(|i| noise(i) as u32).collect();
    let signed: Vec<i32> = x.iter().map(|&v| v as i32).collect();
    for mask in MASKS {
        let own = || lanes(mask).into_iter().map(|l| x[l]);
        let own_signed = || lanes(mask).into_iter().map(|l| signed[l]);
        let sum = own().fold(0, u32::wrapping_add);
        let expect = |values: [u32; 3]| -> Vec<u32> {
            values
                .iter()
                .flat_map(|&v| in_lanes(mask, move |_| v))
                .collect()
        };
        let unsigned_expected = expect([sum, own().min().unwrap(), own().max().unwrap()]);
        let signed_expected = expect([
            sum,
            own_signed().min().unwrap() as u32,
            own_signed().max().unwrap() as u32,
        ]);
        let bits_expected = expect([
            own().fold(!0, |a, b| a & b),
            own().fold(0, |a, b| a | b),
            own().fold(0, |a, b| a ^ b),
        ]);
        for stream in streams() {
            let config = LaunchConfig::linear(1, 32);
            let what = format!("mask {mask:#x}");
            let values = stream.upload(&x).unwrap();
            let mut out = stream.upload(&[UNTOUCHED; 96]).unwrap();
            launch!(dsl::reductions::launch::<u32, _>(
                &stream, &config, mask, &values, &mut out
            ));
            assert_same(&stream.download(&out).unwrap(), &unsigned_expected, &what);
            let mut out = stream.upload(&[UNTOUCHED; 96]).unwrap();
            launch!(dsl::bit_reductions::launch(
                &stream, &config, mask, &values, &mut out
            ));
            assert_same(&stream.download(&out).unwrap(), &bits_expected, &what);
            let values = stream.upload(&signed).unwrap();
            let mut out = stream.upload(&[UNTOUCHED as i32; 96]).unwrap();
            launch!(dsl::reductions::launch::<i32, _>(
                &stream, &config, mask, &values, &mut out
            ));
            let found: Vec<u32> = stream
                .download(&out)
                .unwrap()
                .iter()
                .map(|&v| v as u32)
                .collect();
            assert_same(&found, &signed_expected, &what);
        }
    }
}

macro_rules! warp_sum_test {
    ($name:ident, $t:ty, $real:ty, $of_parts:expr) => {
        #[test]
        fn $name() {
            // Beside the first value of a warp one small value is lost, and many are not.
            let part = |i: usize, seed: usize| match i % 32 {
                0 => 4.0 / <$real>::EPSILON,
                _ => 1.0 + (noise(i + seed) % 1000) as $real / 3000.0,
            };
            let of_parts: fn($real, $real) -> $t = $of_parts;
            let x: Vec<$t> = (0..96).map(|i| of_parts(part(i, 0), part(i, 96))).collect();
            let mut expected = x.clone();
            for distance in [16, 8, 4, 2, 1] {
                expected = (0..96)
                    .map(|t| expected[t] + expected[t ^ distance])
                    .collect();
            }
            let in_order: $t = x[..32].iter().sum();
            assert_ne!(
                expected[0], in_order,
                "the samples tell one order from another"
            );
            for stream in streams() {
                let x = stream.upload(&x).unwrap();
                let mut out = stream.alloc_zeroed::<$t>(96).unwrap();
                launch!(dsl::warp_sums::launch::<$t, _>(
                    &stream,
                    &LaunchConfig::linear(1, 96),
                    &x,
                    &mut out,
                ));
                assert_same(&stream.download(&out).unwrap(), &expected, "warp sums");
            }
        }
    };
}
warp_sum_test!(warp_sums_of_f32_have_one_order, f32, f32, |re, _| re);
warp_sum_test!(warp_sums_of_f64_have_one_order, f64, f64, |re, _| re);
warp_sum_test!(
    warp_sums_of_complex_f32_have_one_order,
    Complex<f32>,
    f32,
    Complex::new
);
warp_sum_test!(
    warp_sums_of_complex_f64_have_one_order,
    Complex<f64>,
    f64,
    Complex::new
);

#[test]
fn folds_pair_lanes_at_falling_distances() {
    let x: Vec<u32> = (0..96).map(|i| i * i * 0x9E37).collect();
    for lanes in [1u32, 4, 16, 32] {
        let mut expected = x.clone();
        let mut distance = lanes as usize / 2;
        while distance > 0 {
            let step = |i: usize| expected[i].wrapping_mul(3) ^ expected[i ^ distance];
            expected = (0..x.len()).map(step).collect();
            distance /= 2;
        }
        for stream in streams() {
            let input = stream.upload(&x).unwrap();
            let mut out = stream.alloc_zeroed::<u32>(x.len()).unwrap();
            let config = LaunchConfig::linear(1, 96);
            launch!(dsl::warp_folds::launch(
                &stream, &config, lanes, &input, &mut out
            ));
            assert_same(&stream.download(&out).unwrap(), &expected, ("folds", lanes));
        }
    }
}

#[test]
fn sync_warp_orders_shared_memory() {
    for n in [32, 96, 256] {
        let mut value: Vec<u32> = (0..n as u32).collect();
        for round in 0..3 {
            let tile: Vec<u32> = value.iter().map(|v| v + round).collect();
            value = (0..n).map(|t| tile[t - t % 32 + (t + 1) % 32]).collect();
        }
        let mirrored = |t: usize| match t % 32 {
            lane @ 0..16 => t - lane + 15 - lane,
            lane => t - lane + 47 - lane,
        };
        let expected: Vec<u32> = (0..n).map(|t| 2 * value[mirrored(t)]).collect();
        for stream in streams() {
            let mut out = stream.alloc_zeroed::<u32>(n).unwrap();
            let config = LaunchConfig::linear(1, n as u32);
            launch!(dsl::warp_exchange::launch(&stream, &config, &mut out));
            assert_same(&stream.download(&out).unwrap(), &expected, ("exchange", n));
        }
    }
}

/// The integer operations in the order of `int_atomics`: operand and cell to the new cell.
macro_rules! int_atomics_test {
    ($name:ident, $t:ty) => {
        #[test]
        fn $name() {
            let operations: [fn($t, $t) -> $t; dsl::INT_OPERATIONS - 1] = [
                |cell, v| cell.wrapping_sub(v),
                |cell, v| cell.min(v),
                |cell, v| cell.max(v),
                |cell, v| cell & v,
                |cell, v| cell | v,
                |cell, v| cell ^ v,
            ];
            for n in [1, 32, 33, 150] {
                let (v, current) = (samples::<$t>(1, n), samples::<$t>(2, n));
                let mut cells = samples::<$t>(3, dsl::INT_OPERATIONS * dsl::ORDERS * n);
                // The compare exchange of every other thread finds what it expects.
                let exchanges = (dsl::INT_OPERATIONS - 1) * dsl::ORDERS * n;
                for (i, cell) in cells[exchanges..].iter_mut().enumerate() {
                    if i % n % 2 == 0 {
                        *cell = current[i % n];
                    }
                }
                let expected: Vec<$t> = (cells.iter().enumerate())
                    .map(|(i, &cell)| {
                        let t = i % n;
                        match operations.get(i / n / dsl::ORDERS) {
                            Some(operation) => operation(cell, v[t]),
                            None if cell == current[t] => v[t],
                            None => cell,
                        }
                    })
                    .collect();
                for stream in streams() {
                    let v = stream.upload(&v).unwrap();
                    let current = stream.upload(&current).unwrap();
                    let mut memory = stream.upload(&cells).unwrap();
                    let mut old = stream.alloc_zeroed::<$t>(cells.len()).unwrap();
                    launch!(dsl::int_atomics::launch::<$t, _>(
                        &stream,
                        &LaunchConfig::for_elements(n, 64),
                        &v,
                        &current,
                        &mut memory,
                        &mut old,
                    ));
                    assert_same(&stream.download(&old).unwrap(), &cells, ("old, global", n));
                    assert_same(&stream.download(&memory).unwrap(), &expected, ("global", n));
                    if n == 32 {
                        let mut memory = stream.upload(&cells).unwrap();
                        let mut old = stream.alloc_zeroed::<$t>(cells.len()).unwrap();
                        launch!(dsl::int_atomics_shared::launch::<$t, _>(
                            &stream,
                            &LaunchConfig::linear(1, 32),
                            &v,
                            &current,
                            &mut memory,
                            &mut old,
                        ));
                        assert_same(&stream.download(&old).unwrap(), &cells, "old, shared");
                        assert_same(&stream.download(&memory).unwrap(), &expected, "shared");
                    }
                }
            }
        }
    };
}
int_atomics_test!(atomics_of_u32, u32);
int_atomics_test!(atomics_of_i32, i32);
int_atomics_test!(atomics_of_u64, u64);
int_atomics_test!(atomics_of_i64, i64);

fn check_element_atomics<T>()
where
    T: Value + dsl::element_atomics::Instance + dsl::element_atomics_shared::Instance,
{
    for n in [1, 32, 33, 150] {
        let v = samples::<T>(1, n);
        let cells = samples::<T>(2, dsl::ELEMENT_CELLS * n);
        // By place: swap, add, load, store, reduction.
        let (orders, half) = (dsl::ORDERS, dsl::HALF_ORDERS);
        let at = |i: usize| (i / n, cells[i], v[i % n]);
        let new: Vec<T> = (0..cells.len())
            .map(|i| match at(i) {
                (place, _, v) if place < orders => v,
                (place, cell, v) if place < 2 * orders => cell.plus(v),
                (place, cell, _) if place < 2 * orders + half => cell,
                (place, _, v) if place < 2 * orders + 2 * half => v,
                (_, cell, v) => cell.plus(v),
            })
            .collect();
        let answers: Vec<T> = (0..cells.len())
            .map(|i| match at(i) {
                (place, cell, _) if place < 2 * orders + half => cell,
                (_, _, v) => v,
            })
            .collect();
        let what = (std::any::type_name::<T>(), n);
        for stream in streams() {
            let v = stream.upload(&v).unwrap();
            let mut memory = stream.upload(&cells).unwrap();
            let mut old = stream.alloc_zeroed::<T>(cells.len()).unwrap();
            let config = LaunchConfig::for_elements(n, 64);
            launch!(dsl::element_atomics::launch::<T, _>(
                &stream,
                &config,
                &v,
                &mut memory,
                &mut old,
            ));
            assert_same(
                &stream.download(&old).unwrap(),
                &answers,
                ("old, global", what),
            );
            assert_same(&stream.download(&memory).unwrap(), &new, ("global", what));
            if n == 32 {
                let mut memory = stream.upload(&cells).unwrap();
                let mut old = stream.alloc_zeroed::<T>(cells.len()).unwrap();
                launch!(dsl::element_atomics_shared::launch::<T, _>(
                    &stream,
                    &LaunchConfig::linear(1, 32),
                    &v,
                    &mut memory,
                    &mut old,
                ));
                assert_same(
                    &stream.download(&old).unwrap(),
                    &answers,
                    ("old, shared", what),
                );
                assert_same(&stream.download(&memory).unwrap(), &new, ("shared", what));
            }
        }
    }
}

#[test]
fn atomics_of_all_types() {
    check_element_atomics::<u32>();
    check_element_atomics::<i32>();
    check_element_atomics::<u64>();
    check_element_atomics::<i64>();
    check_element_atomics::<f32>();
    check_element_atomics::<f64>();
}

fn check_contended<T: Value + dsl::contended::Instance>() {
    for n in [1, 33, 1025] {
        let v: Vec<T> = (0..n).map(T::small).collect();
        let start = T::small(77);
        let sum = v.iter().fold(start, |sum, v| sum.plus(*v));
        for stream in streams() {
            let operands = stream.upload(&v).unwrap();
            let mut cells = stream.upload(&[start; 3]).unwrap();
            let mut added = stream.alloc_zeroed::<T>(n).unwrap();
            let mut swapped = stream.alloc_zeroed::<T>(n).unwrap();
            launch!(dsl::contended::launch::<T, _>(
                &stream,
                &LaunchConfig::linear(4, 96),
                &operands,
                &mut cells,
                &mut added,
                &mut swapped,
            ));
            let cells = stream.download(&cells).unwrap();
            let what = (std::any::type_name::<T>(), n);
            assert_same(&cells[..2], &[sum, sum], what);
            // The additions happened one after another: the old values form a chain.
            let mut steps: Vec<(T, T)> = stream
                .download(&added)
                .unwrap()
                .into_iter()
                .zip(v.iter().copied())
                .collect();
            steps.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap());
            let mut value = start;
            for (old, v) in steps {
                assert_eq!(old, value, "{what:?}");
                value = value.plus(v);
            }
            // What went in by swapping came out, but for the last.
            let sorted = |mut values: Vec<u128>| {
                values.sort_unstable();
                values
            };
            let went_in = v.iter().chain([&start]).map(|v| v.bits()).collect();
            let came_out = stream.download(&swapped).unwrap();
            let came_out = came_out
                .iter()
                .chain([&cells[2]])
                .map(|v| v.bits())
                .collect();
            assert_eq!(sorted(went_in), sorted(came_out), "{what:?}");
        }
    }
}

#[test]
fn contended_cells_lose_nothing() {
    check_contended::<u32>();
    check_contended::<i32>();
    check_contended::<u64>();
    check_contended::<i64>();
    check_contended::<f32>();
    check_contended::<f64>();
}

macro_rules! contended_int_test {
    ($name:ident, $t:ty) => {
        #[test]
        fn $name() {
            for n in [1, 33, 1025] {
                let v = samples::<$t>(1, n);
                let start: [$t; 6] = [<$t>::MAX, <$t>::MIN, !0, 0, 5, 9];
                let expected = [
                    v.iter().fold(start[0], |a, &b| a.min(b)),
                    v.iter().fold(start[1], |a, &b| a.max(b)),
                    v.iter().fold(start[2], |a, &b| a & b),
                    v.iter().fold(start[3], |a, &b| a | b),
                    v.iter().fold(start[4], |a, &b| a ^ b),
                    v.iter().fold(start[5], |a, &b| a.wrapping_sub(b)),
                ];
                for stream in streams() {
                    let v = stream.upload(&v).unwrap();
                    let mut cells = stream.upload(&start).unwrap();
                    let config = LaunchConfig::linear(4, 96);
                    launch!(dsl::contended_int::launch::<$t, _>(
                        &stream, &config, &v, &mut cells
                    ));
                    assert_same(&stream.download(&cells).unwrap(), &expected, n);
                }
            }
        }
    };
}
contended_int_test!(contended_cells_of_u32, u32);
contended_int_test!(contended_cells_of_i32, i32);
contended_int_test!(contended_cells_of_u64, u64);
contended_int_test!(contended_cells_of_i64, i64);

#[test]
fn compare_exchange_gives_each_thread_its_turn() {
    for n in [1, 33, 300] {
        for stream in streams() {
            let mut count = stream.alloc_zeroed::<u32>(1).unwrap();
            let mut turn = stream.alloc_zeroed::<u32>(n).unwrap();
            let config = LaunchConfig::linear(3, 64);
            launch!(dsl::compare_exchange_count::launch(
                &stream, &config, &mut count, &mut turn
            ));
            assert_same(&stream.download(&count).unwrap(), &[n as u32], n);
            let mut turns = stream.download(&turn).unwrap();
            turns.sort_unstable();
            let expected: Vec<u32> = (0..n as u32).collect();
            assert_same(&turns, &expected, n);
        }
    }
}

#[test]
fn histogram_in_shared_memory() {
    for n in [0, 1, 33, 1025] {
        let x: Vec<u32> = (0..n).map(|i| noise(i) as u32 % 64).collect();
        let mut expected = [0; 64];
        for &v in &x {
            expected[v as usize] += 1;
        }
        for stream in streams() {
            let x = stream.upload(&x).unwrap();
            let mut counts = stream.alloc_zeroed::<u32>(64).unwrap();
            let config = LaunchConfig::linear(3, 48);
            launch!(dsl::histogram::launch(&stream, &config, &x, &mut counts));
            assert_same(&stream.download(&counts).unwrap(), &expected, n);
        }
    }
}

/// Rounds of message passing: few where every access is checked, many on the chip.
fn rounds(stream: &Stream) -> u32 {
    match stream.device().properties().backend {
        luge_device::Backend::Simulator => 6,
        luge_device::Backend::Cuda => 10_000,
    }
}

macro_rules! ping_pong_test {
    ($name:ident, $kernel:ident) => {
        #[test]
        fn $name() {
            for n in [1, 32, 96] {
                for stream in streams() {
                    let rounds = rounds(&stream);
                    let start: Vec<u32> = (0..n).collect();
                    let mut turn = stream.alloc_zeroed::<u32>(1).unwrap();
                    let mut data = stream.upload(&start).unwrap();
                    let config = LaunchConfig::linear(2, n).cooperative();
                    launch!(dsl::$kernel::launch(
                        &stream, &config, rounds, &mut turn, &mut data
                    ));
                    let expected: Vec<u32> = start.iter().map(|v| v + 2 * rounds).collect();
                    assert_same(&stream.download(&data).unwrap(), &expected, n);
                }
            }
        }
    };
}
ping_pong_test!(blocks_pass_messages_by_release_and_acquire, ping_pong);
ping_pong_test!(blocks_pass_messages_by_fences, ping_pong_fence);
ping_pong_test!(blocks_pass_messages_by_read_modify_writes, ping_pong_rmw);

#[test]
fn warps_pass_messages_in_shared_memory() {
    for stream in streams() {
        let rounds = rounds(&stream);
        let mut out = stream.alloc_zeroed::<u32>(32).unwrap();
        let config = LaunchConfig::linear(1, 64);
        launch!(dsl::ping_pong_warps::launch(
            &stream, &config, rounds, &mut out
        ));
        let expected: Vec<u32> = (0..32).map(|t| t + 2 * rounds).collect();
        assert_same(&stream.download(&out).unwrap(), &expected, "warps");
    }
}

#[test]
fn blocks_wait_in_a_chain() {
    for n in [1, 33, 500] {
        let expected: Vec<u64> = (0..n).map(|b| b * (b + 1) / 2).collect();
        for stream in streams() {
            let mut ticket = stream.alloc_zeroed::<u32>(1).unwrap();
            let mut ready = stream.alloc_zeroed::<u32>(n as usize).unwrap();
            let mut out = stream.alloc_zeroed::<u64>(n as usize).unwrap();
            let config = LaunchConfig::linear(n as u32, 1);
            launch!(dsl::chain::launch(
                &stream,
                &config,
                &mut ticket,
                &mut ready,
                &mut out
            ));
            assert_same(&stream.download(&out).unwrap(), &expected, n);
        }
    }
}

macro_rules! static_shared_test {
    ($name:ident, $t:ty) => {
        #[test]
        fn $name() {
            let value = |other: u32| f64::from(other) * 1.5 + f64::from(1 << 20);
            let expected: Vec<$t> = (0..64).map(|t| value(63 - t) as $t).collect();
            for stream in streams() {
                let mut out = stream.alloc_zeroed::<$t>(64).unwrap();
                let config = LaunchConfig::linear(1, 64);
                launch!(dsl::static_shared::launch::<$t, _>(
                    &stream, &config, &mut out
                ));
                assert_same(&stream.download(&out).unwrap(), &expected, "static shared");
            }
        }
    };
}
static_shared_test!(static_shared_arrays_with_f32, f32);
static_shared_test!(static_shared_arrays_with_f64, f64);

#[test]
fn dynamic_shared_arrays_lie_side_by_side() {
    for n in [1, 32, 33, 256] {
        let x: Vec<u32> = (0..n).map(|i| noise(i) as u32).collect();
        let doubles: Vec<f64> = x.iter().rev().map(|&v| f64::from(v) + 0.25).collect();
        let words: Vec<u32> = (0..n).map(|t| x[(t + 1) % n]).collect();
        for stream in streams() {
            let x = stream.upload(&x).unwrap();
            let mut out = stream.alloc_zeroed::<f64>(n).unwrap();
            let mut rotated = stream.alloc_zeroed::<u32>(n).unwrap();
            let config = LaunchConfig::linear(1, n as u32).with_shared(12 * n as u32);
            launch!(dsl::dynamic_shared_arrays::launch(
                &stream,
                &config,
                &x,
                &mut out,
                &mut rotated
            ));
            assert_same(&stream.download(&out).unwrap(), &doubles, ("doubles", n));
            assert_same(&stream.download(&rotated).unwrap(), &words, ("words", n));
        }
    }
}

#[test]
fn mma_multiplies_small_matrices() {
    for (products, k) in [(1, 1), (3, 2), (5, 7)] {
        let depth = 4 * k;
        // Multiples of 1/8 below 16: every sum is exact, in whatever order the chip adds.
        let value = |i: usize| (noise(i) % 255) as f64 / 8.0 - 16.0;
        let a: Vec<f64> = (0..products * 8 * depth).map(value).collect();
        let b: Vec<f64> = (0..products * 8 * depth)
            .map(|i| value(i + 10_000))
            .collect();
        let c: Vec<f64> = (0..products * 64).map(|i| value(i + 20_000)).collect();
        let mut expected = c.clone();
        for (i, d) in expected.iter_mut().enumerate() {
            let (product, row, col) = (i / 64, i / 8 % 8, i % 8);
            let first = product * 8 * depth;
            for l in 0..depth {
                *d += a[first + row * depth + l] * b[first + col * depth + l];
            }
        }
        for stream in streams() {
            let [a, b, c] = [&a, &b, &c].map(|values| stream.upload(values).unwrap());
            let mut d = stream.alloc_zeroed::<f64>(expected.len()).unwrap();
            let config = LaunchConfig::linear(products as u32, 32);
            launch!(dsl::mma::launch(
                &stream, &config, k as u32, &a, &b, &c, &mut d
            ));
            assert_same(&stream.download(&d).unwrap(), &expected, (products, k));
        }
    }
}

/// Every instance of every kernel.
fn descriptions() -> Vec<&'static KernelDesc> {
    macro_rules! all {
        ($($module:ident: $($kernel:ident)*;)*) => {
            [$($($module::$kernel::DESCS),*),*].concat()
        };
    }
    all! {
        dsl: indices strides structs parameters axpy arithmetic bits barriers barriers_order shuffles votes
            votes_of_halves reductions bit_reductions warp_sums warp_folds warp_exchange int_atomics
            int_atomics_shared element_atomics element_atomics_shared contended contended_int
            compare_exchange_count histogram ping_pong ping_pong_fence ping_pong_rmw ping_pong_warps
            chain static_shared dynamic_shared_arrays mma;
        field_kernels: field_arithmetic conjugate_transpose weighted_update complex_parameters
            dynamic_shared_complex;
    }
}

/// The PTX as it is embedded.
fn text_of<'a>(module: &KernelModule, image: &'a PtxImage) -> Cow<'a, str> {
    let text = module.ptx(image, decompressed).expect("PTX is text");
    text.read(text.as_packed()).expect("registers have numbers")
}

/// The SHA-256 of an image's text as `cargo xtask ptx` wrote it down.
fn listed_sha256(sm: u32) -> String {
    let manifest = include_str!("../../../gpu-kernels/ptx/manifest.json");
    let manifest: serde_json::Value = serde_json::from_str(manifest).unwrap();
    let sha256 = &manifest["images"][format!("sm_{sm}")]["sha256"];
    sha256.as_str().unwrap().to_owned()
}

#[test]
fn the_embedded_ptx_is_the_listed_one() {
    let sha256 = |text: &str| {
        let bytes = Sha256::digest(text);
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let embedded = luge_gpu_kernels::MODULE.images;
    assert!(!embedded.is_empty());
    for image in embedded {
        let whole = text_of(&luge_gpu_kernels::MODULE, image);
        assert_eq!(sha256(&whole), listed_sha256(image.sm));
        // A device reads one kernel at a time.
        let text = luge_gpu_kernels::MODULE.ptx(image, decompressed).unwrap();
        let pieces = text.as_packed().split_inclusive("\n}\n");
        let pieces: String = pieces.map(|piece| text.read(piece).unwrap()).collect();
        assert!(pieces == whole);
    }
}

/// The launcher and the PTX come from one function by two roads; they must agree on its parameters.
#[test]
fn entry_points_take_what_their_launchers_pass() {
    let ptx_type = |kind| match kind {
        ElementKind::ComplexF32 => ".align 4 .b8 [8]",
        ElementKind::ComplexF64 => ".align 8 .b8 [16]",
        ElementKind::U32 | ElementKind::I32 => ".u32",
        ElementKind::U64 | ElementKind::I64 => ".u64",
        ElementKind::F32 => ".f32",
        ElementKind::F64 => ".f64",
    };
    for image in MODULE.images {
        let text = text_of(&MODULE, image);
        for kernel in descriptions() {
            let head = format!(".visible .entry {}(", kernel.name);
            let (_, rest) = text
                .split_once(&head)
                .unwrap_or_else(|| panic!("sm_{} has no {}", image.sm, kernel.name));
            let (params, body) = rest.split_once(')').unwrap();
            let found: Vec<String> = params
                .lines()
                .filter_map(|line| line.trim().trim_end_matches(',').strip_prefix(".param "))
                .map(|param| match param.split_once('[') {
                    // `.align 8 .b8 name[16]`: what is larger than a register.
                    Some((start, bytes)) => {
                        let (ty, _name) = start.rsplit_once(' ').unwrap();
                        format!("{ty} [{bytes}")
                    }
                    None => param.split_whitespace().next().unwrap().to_owned(),
                })
                .collect();
            let expected: Vec<&str> = kernel
                .arguments()
                .flat_map(|argument| match argument.kind {
                    ParamKind::Scalar(element) => vec![ptx_type(element)],
                    ParamKind::Buffer { .. } => vec![".u64", ".u64"],
                    ParamKind::Struct(_) => panic!("{argument} is not taken apart"),
                })
                .collect();
            assert_eq!(found, expected, "sm_{}, {}", image.sm, kernel.name);
            let bound = format!(".maxntid {}, 1, 1", kernel.max_threads);
            let directives = body.split_once('{').unwrap().0;
            assert!(directives.contains(&bound), "{}: {directives}", kernel.name);
        }
    }
}

/// A compiler that copied a barrier into the two arms of a branch would make threads of one warp
/// wait at different barriers, which never ends on the chip. These kernels tempt it: the same
/// condition is tested before and after a barrier.
#[test]
fn the_compiler_copies_no_barrier() {
    for image in MODULE.images {
        let text = text_of(&MODULE, image);
        for (kernel, barriers) in [("ping_pong", 2), ("ping_pong_fence", 2)] {
            let head = format!(".visible .entry {kernel}(");
            let (_, rest) = text.split_once(&head).unwrap();
            let (body, _) = rest.split_once("\n}\n").unwrap();
            let found = body.matches("bar.sync").count();
            assert_eq!(found, barriers, "sm_{}, {kernel}", image.sm);
        }
    }
}
