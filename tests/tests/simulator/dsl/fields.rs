//! Complex numbers in kernels: elements of two words, and the field's operations, which are those of the host's `Scalar`.

use luge_sparse::Scalar;

use super::*;

/// One test for a type, with its real type, a fused multiply-add from the definition, and values that are no numbers.
macro_rules! field_test {
    ($name:ident, $t:ty, $real:ty, $fused:expr, $special:expr) => {
        #[test]
        fn $name() {
            let n = 500;
            let (mut x, mut y) = (samples::<$t>(1, n), samples::<$t>(2, n));
            let z = samples::<$t>(3, n);
            let special: [$t; 4] = $special;
            for (i, value) in special.into_iter().enumerate() {
                x[i] = value;
                y[special.len() + i] = value;
            }
            let factor = 0.3 as $real;
            let fused: fn($t, $t, $t) -> $t = $fused;
            let each = |f: &dyn Fn($t, $t, $t) -> $t| -> Vec<$t> {
                (0..n).map(|i| f(x[i], y[i], z[i])).collect()
            };
            let (zero, one) = (<$t>::from(0.0), <$t>::from(1.0));
            let expected = [
                each(&fused),
                each(&|x, y, z| x * y + z),
                each(&|x, y, _| x - y),
                each(&|x, y, _| x / y),
                each(&|x, _, _| -x),
                each(&|x, _, _| Scalar::conjugate(x)),
                each(&|x, _, _| x * factor),
                each(&|x, y, _| Scalar::quotient(x, y)),
                each(&|x, _, _| Scalar::with_magnitude(x, factor)),
                each(&|x, y, _| Scalar::narrow(Scalar::widen(x) * Scalar::widen(y))),
                each(&|x, _, _| if Scalar::is_number(x) { one } else { zero }),
                each(&|_, y, z| (<$t>::from(factor) + y - z) * y / z),
            ];
            let magnitudes: Vec<$real> = x.iter().map(|&x| Scalar::magnitude(x)).collect();
            for stream in streams() {
                let [x_on, y_on, z_on] = [&x, &y, &z].map(|v| stream.upload(v).unwrap());
                let mut out = stream.alloc::<$t>(field_kernels::FIELD_VALUES * n).unwrap();
                let mut sizes = stream.alloc::<$real>(n).unwrap();
                launch!(field_kernels::field_arithmetic::launch::<$t, _>(
                    &stream,
                    &LaunchConfig::for_elements(n, 64),
                    factor,
                    &x_on,
                    &y_on,
                    &z_on,
                    &mut out,
                    &mut sizes,
                ));
                let out = stream.download(&out).unwrap();
                for (k, (found, expected)) in out.chunks(n).zip(&expected).enumerate() {
                    assert_same_numbers(found, expected, ("operation", k));
                }
                let sizes = stream.download(&sizes).unwrap();
                assert_same_numbers(&sizes, &magnitudes, "magnitudes");
                for (x, found) in x.iter().zip(&out[12 * n..]).skip(special.len()) {
                    let error = Scalar::magnitude(*found * *x - one);
                    assert!(error < 8.0 * <$real>::EPSILON, "1/{x} is {found}");
                }
            }
        }
    };
}
field_test!(
    field_of_f32_is_that_of_the_host,
    f32,
    f32,
    |x, y, z| x.mul_add(y, z),
    [0.0, -0.0, f32::INFINITY, f32::NAN]
);
field_test!(
    field_of_f64_is_that_of_the_host,
    f64,
    f64,
    |x, y, z| x.mul_add(y, z),
    [0.0, -0.0, f64::INFINITY, f64::NAN]
);
field_test!(
    field_of_complex_f32_is_that_of_the_host,
    Complex<f32>,
    f32,
    |x, y, z| {
        let (re, im) = (x.re.mul_add(y.re, z.re), x.re.mul_add(y.im, z.im));
        Complex::new((-x.im).mul_add(y.im, re), x.im.mul_add(y.re, im))
    },
    [
        Complex::new(0.0, 0.0),
        Complex::new(-0.0, 3.0),
        Complex::new(1.0, f32::INFINITY),
        Complex::new(f32::NAN, 1.0),
    ]
);
field_test!(
    field_of_complex_f64_is_that_of_the_host,
    Complex<f64>,
    f64,
    |x, y, z| {
        let (re, im) = (x.re.mul_add(y.re, z.re), x.re.mul_add(y.im, z.im));
        Complex::new((-x.im).mul_add(y.im, re), x.im.mul_add(y.re, im))
    },
    [
        Complex::new(0.0, 0.0),
        Complex::new(-0.0, 3.0),
        Complex::new(1.0, f64::INFINITY),
        Complex::new(f64::NAN, 1.0),
    ]
);

/// As [`assert_same`], but that any NaN is as good as another: their bits differ between machines.
#[track_caller]
fn assert_same_numbers<T: Value + Parts>(found: &[T], expected: &[T], what: impl Debug) {
    assert_eq!(found.len(), expected.len(), "{what:?}: length");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        let both = f.parts().into_iter().zip(e.parts());
        let mut same = both.map(|(f, e)| f.to_bits() == e.to_bits() || f.is_nan() && e.is_nan());
        assert!(
            same.all(|same| same),
            "{what:?}: [{i}] is {f:?} instead of {e:?}"
        );
    }
}

#[test]
#[should_panic(
    expected = "[1] is Complex { re: 1.0, im: 0.0 } instead of Complex { re: 1.0, im: -0.0 }"
)]
fn comparison_fails_on_a_wrong_part() {
    let nan = Complex::new(f64::NAN, 2.0);
    let found = [nan, Complex::new(1.0, 0.0)];
    assert_same_numbers(&found, &[-nan.conj(), Complex::new(1.0, -0.0)], "numbers");
}

/// Real and imaginary part, widened.
trait Parts {
    fn parts(self) -> [f64; 2];
}

macro_rules! parts {
    ($($real:ty),*) => {
        $(
            impl Parts for $real {
                fn parts(self) -> [f64; 2] {
                    [f64::from(self), 0.0]
                }
            }

            impl Parts for Complex<$real> {
                fn parts(self) -> [f64; 2] {
                    [f64::from(self.re), f64::from(self.im)]
                }
            }
        )*
    };
}
parts!(f32, f64);

fn check_transposition<T: Value + Scalar + field_kernels::conjugate_transpose::Instance>() {
    for (rows, columns) in [(1, 1), (31, 33), (32, 32), (65, 40), (3, 70)] {
        let a = samples::<T>(1, rows * columns);
        let mut expected = Vec::new();
        for column in 0..columns {
            expected.extend((0..rows).map(|row| Scalar::conjugate(a[row * columns + column])));
        }
        let config = LaunchConfig {
            grid: [columns.div_ceil(32) as u32, rows.div_ceil(32) as u32, 1],
            block: [32, 8, 1],
            ..LaunchConfig::linear(1, 1)
        };
        for stream in streams() {
            let a = stream.upload(&a).unwrap();
            let mut out = stream.alloc::<T>(expected.len()).unwrap();
            launch!(field_kernels::conjugate_transpose::launch::<T, _>(
                &stream,
                &config,
                rows as u32,
                columns as u32,
                &a,
                &mut out,
            ));
            let what = (std::any::type_name::<T>(), rows, columns);
            assert_same(&stream.download(&out).unwrap(), &expected, what);
        }
    }
}

#[test]
fn tiles_are_transposed_and_conjugated_in_shared_memory() {
    check_transposition::<f32>();
    check_transposition::<f64>();
    check_transposition::<Complex<f32>>();
    check_transposition::<Complex<f64>>();
}

/// One test for a type, with its real type and a number made of two parts.
macro_rules! update_test {
    ($name:ident, $t:ty, $real:ty, $of_parts:expr) => {
        #[test]
        fn $name() {
            let of_parts: fn($real, $real) -> $t = $of_parts;
            let (factor, shift) = (of_parts(0.5, -2.0), of_parts(0.25, 4.0));
            for n in [0, 1, 33, 1025] {
                let (x, y) = (samples::<$t>(1, n), samples::<$t>(2, n));
                let weights: Vec<$real> = (0..n).map(Value::small).collect();
                // Small multiples of powers of two: nothing is rounded, fused or not.
                let expected: Vec<$t> = (0..n)
                    .map(|i| match Scalar::magnitude(x[i]) >= 300.0 {
                        true => factor * (x[i] * weights[i]) + y[i] + shift,
                        false => y[i],
                    })
                    .collect();
                for stream in streams() {
                    let x = stream.upload(&x).unwrap();
                    let weights = stream.upload(&weights).unwrap();
                    let mut y = stream.upload(&y).unwrap();
                    let update = field_kernels::UpdateBuffers {
                        factor,
                        bound: 300.0,
                        x: &x,
                        weights: &weights,
                        y: &mut y,
                    };
                    launch!(field_kernels::weighted_update::launch::<$t, _>(
                        &stream,
                        &LaunchConfig::linear(3, 64),
                        shift,
                        update,
                    ));
                    assert_same(&stream.download(&y).unwrap(), &expected, n);
                }
            }
        }
    };
}
update_test!(structs_of_f32_arrive, f32, f32, |re, _| re);
update_test!(structs_of_f64_arrive, f64, f64, |re, _| re);
update_test!(
    structs_of_complex_f32_arrive,
    Complex<f32>,
    f32,
    Complex::new
);
update_test!(
    structs_of_complex_f64_arrive,
    Complex<f64>,
    f64,
    Complex::new
);

#[test]
fn complex_parameters_arrive_bit_for_bit() {
    // A signalling NaN with a payload keeps its bits where nothing is computed.
    let (odd, odd_f32) = (
        f64::from_bits(0x7ff0_dead_beef_0001),
        f32::from_bits(0x7f80_beef),
    );
    for stream in streams() {
        let x = [Complex::new(1.0, 2.0), Complex::new(-0.0, odd_f32)];
        let x = stream.upload(&x).unwrap();
        let mut bits = stream.alloc_zeroed::<u64>(9).unwrap();
        launch!(field_kernels::complex_parameters::launch(
            &stream,
            &LaunchConfig::linear(1, 32),
            0xdead_beef,
            Complex::new(odd_f32, -1.5),
            &x,
            Complex::new(-0.0, odd),
            2.5,
            &mut bits,
        ));
        let word = |v: f32| u64::from(v.to_bits());
        let expected = [
            0xdead_beef,
            word(odd_f32),
            word(-1.5),
            1 << 63,
            odd.to_bits(),
            word(2.5),
            2,
            1 << 31,
            word(odd_f32),
        ];
        assert_same(&stream.download(&bits).unwrap(), &expected, "parameters");
    }
}

#[test]
fn arrays_of_complex_numbers_lie_side_by_side_in_dynamic_shared_memory() {
    for n in [1, 32, 33, 256] {
        let x = samples::<Complex<f64>>(1, n);
        let reversed: Vec<Complex<f64>> = x.iter().rev().copied().collect();
        let rotated: Vec<Complex<f32>> = (0..n).map(|t| Scalar::narrow(x[(t + 1) % n])).collect();
        for stream in streams() {
            let x = stream.upload(&x).unwrap();
            let mut wide = stream.alloc::<Complex<f64>>(n).unwrap();
            let mut narrow = stream.alloc::<Complex<f32>>(n).unwrap();
            let config = LaunchConfig::linear(1, n as u32).with_shared(28 * n as u32);
            launch!(field_kernels::dynamic_shared_complex::launch(
                &stream,
                &config,
                &x,
                &mut wide,
                &mut narrow,
            ));
            assert_same(&stream.download(&wide).unwrap(), &reversed, ("wide", n));
            assert_same(&stream.download(&narrow).unwrap(), &rotated, ("narrow", n));
        }
    }
}

/// The components of a complex number are loaded and stored together.
#[test]
fn a_complex_number_is_one_access() {
    let accesses = [
        (
            "axpy_complex",
            ["ld.global.nc.v2", "ld.global.v2", "st.global.v2"],
        ),
        (
            "conjugate_transpose_complex",
            ["ld.global.nc.v2", "st.shared.v2", "ld.shared.v2"],
        ),
    ];
    for image in MODULE.images {
        let text = text_of(&MODULE, image);
        for (kernel, accesses) in accesses {
            for (real, bits) in [("f32", "b32"), ("f64", "b64")] {
                let head = format!(".visible .entry {kernel}_{real}(");
                let (_, rest) = text.split_once(&head).unwrap();
                let (body, _) = rest.split_once("\n}\n").unwrap();
                for access in accesses {
                    let found = body.matches(&format!("{access}.{bits}")).count();
                    assert!(found > 0, "sm_{}, {kernel}_{real}: no {access}", image.sm);
                }
                for single in [
                    "ld.global.b",
                    "ld.global.nc.b",
                    "st.global.b",
                    "ld.shared.b",
                ] {
                    assert!(
                        !body.contains(single),
                        "sm_{}, {kernel}_{real}: {single}",
                        image.sm
                    );
                }
            }
        }
    }
}
