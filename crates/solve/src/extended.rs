//! Numbers beyond the range of `f64`: a mantissa and an exponent.
//!
//! A complex number has one exponent for both of its parts, that of the larger one: a part is lost where it is 2^−1074
//! of the other or less, which no rounding of a sum or a product of such numbers would leave.
//!
//! Slow, and only for systems whose norms, or some of whose rows, are near overflow or underflow. Products are rounded as
//! in `f64`.

use std::ops::{Add, Mul};

use luge_sparse::Scalar;

/// Splits a finite `x` into a mantissa, whose largest component is of magnitude in [0.5, 1), and an exponent; zero into
/// (0, 0). What is infinite or not a number is its own mantissa, with the exponent 0.
#[inline]
pub fn split<W: Scalar<Real = f64>>(x: W) -> (W, i32) {
    if W::COMPONENTS == 1 {
        let mut exponent = 0;
        let mantissa = x.map_components(|x| {
            let (mantissa, of_x) = split_real(x);
            exponent = of_x;
            mantissa
        });
        return (mantissa, exponent);
    }
    if !x.is_number() {
        return (x, 0);
    }
    let (_, exponent) = split_real(x.largest_component());
    (shift(x, -exponent), exponent)
}

/// [`split`] for a real number, which takes its bits apart.
#[inline]
fn split_real(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let biased = |x: f64| ((x.to_bits() >> 52) & 0x7ff) as i32;
    // Subnormals get a normal exponent first.
    let (x, shift) = if biased(x) == 0 {
        (x * 2f64.powi(64), -64)
    } else {
        (x, 0)
    };
    let exponent = biased(x) - 1022;
    let mantissa = f64::from_bits((x.to_bits() & !(0x7ff << 52)) | (1022 << 52));
    (mantissa, exponent + shift)
}

/// 2^exponent, for exponents of normal numbers.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// `x · 2^exponent`, in steps that each stay in range.
#[inline]
pub fn shift<W: Scalar<Real = f64>>(mut x: W, mut exponent: i32) -> W {
    while exponent.abs() > 1000 {
        let step = exponent.signum() * 1000;
        x = x.scaled_by(power_of_two(step));
        exponent = (exponent - step).clamp(-4000, 4000);
    }
    x.scaled_by(power_of_two(exponent))
}

/// A number `mantissa · 2^exponent`: the mantissa is zero, or its largest component is in [0.5, 1) by magnitude; or the
/// number is infinite or not a number, in the mantissa.
#[derive(Debug, Clone, Copy)]
pub struct Extended<W = f64> {
    mantissa: W,
    exponent: i32,
}

impl<W: Scalar<Real = f64>> Extended<W> {
    /// The number `x`.
    pub fn of(x: W) -> Self {
        Self::new(x, 0)
    }

    /// `x · 2^exponent`.
    pub fn new(x: W, exponent: i32) -> Self {
        let (mantissa, own) = split(x);
        Self {
            mantissa,
            exponent: if mantissa.is_zero() {
                0
            } else {
                own + exponent
            },
        }
    }

    /// The nearest number whose components are in the range of `f64`; they are infinite or zero beyond it.
    pub fn to_wide(self) -> W {
        shift(self.mantissa, self.exponent)
    }

    /// Whether it is neither infinite nor not a number.
    pub fn is_finite(self) -> bool {
        self.mantissa.is_number()
    }

    /// The mantissa and the exponent.
    pub(crate) fn parts(self) -> (W, i32) {
        (self.mantissa, self.exponent)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.mantissa.is_zero()
    }

    /// Its [magnitude](Scalar::magnitude).
    pub(crate) fn magnitude(self) -> Extended {
        Extended::new(self.mantissa.magnitude(), self.exponent)
    }

    /// In units of 2^exponent.
    pub(crate) fn relative_to(self, exponent: i32) -> W {
        shift(self.mantissa, self.exponent - exponent)
    }
}

impl Extended {
    pub(crate) const ZERO: Self = Self {
        mantissa: 0.0,
        exponent: 0,
    };

    /// Whether this magnitude is the larger one.
    pub(crate) fn exceeds(self, other: Self) -> bool {
        if self.is_zero() || other.is_zero() {
            return !self.is_zero();
        }
        (self.exponent, self.mantissa.abs()) > (other.exponent, other.mantissa.abs())
    }

    pub(crate) fn max(self, other: Self) -> Self {
        if other.exceeds(self) { other } else { self }
    }

    /// The quotient: zero if this is zero, infinite where only the divisor is.
    pub(crate) fn over(self, divisor: Self) -> f64 {
        if self.is_zero() {
            return 0.0;
        }
        shift(
            self.mantissa / divisor.mantissa,
            self.exponent - divisor.exponent,
        )
    }
}

impl<W: Scalar<Real = f64>> Mul for Extended<W> {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::new(
            self.mantissa * other.mantissa,
            self.exponent + other.exponent,
        )
    }
}

impl<W: Scalar<Real = f64>> Add for Extended<W> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        if self.is_zero() {
            return other;
        }
        if other.is_zero() {
            return self;
        }
        let exponent = self.exponent.max(other.exponent);
        Self::new(
            self.relative_to(exponent) + other.relative_to(exponent),
            exponent,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn splitting_is_exact(x in proptest::num::f64::ANY) {
            prop_assume!(x.is_finite());
            let (m, e) = split(x);
            prop_assert_eq!(shift(m, e), x);
            prop_assert!(x == 0.0 || (0.5..1.0).contains(&m.abs()));
        }

        #[test]
        fn a_complex_number_has_the_exponent_of_its_larger_part(
            re in proptest::num::f64::NORMAL,
            ratio in -1.0..1.0f64,
            swap in proptest::bool::ANY,
        ) {
            // Parts that are both far from underflow.
            prop_assume!(re.abs() > 1e-200);
            let z = if swap { Complex::new(re * ratio, re) } else { Complex::new(re, re * ratio) };
            let (m, e) = split(z);
            prop_assert_eq!(shift(m, e), z);
            prop_assert_eq!(e, split(re).1);
            prop_assert!((0.5..1.0).contains(&m.largest_component()));
        }
    }
    #[test]
    fn what_is_no_number_is_its_own_mantissa() {
        let (mantissa, exponent) = split(f64::NEG_INFINITY);
        assert_eq!((mantissa, exponent), (f64::NEG_INFINITY, 0));
        let z = Complex::new(1.0, f64::INFINITY);
        assert_eq!(split(z), (z, 0));
        assert!(!Extended::new(z, 700).is_finite());
        assert!(!Extended::of(Complex::new(f64::NAN, 1e300)).is_finite());
        assert_eq!(split(Complex::new(0.0, -0.0)), (Complex::new(0.0, 0.0), 0));
    }

    #[test]
    fn complex_numbers_of_any_size_are_added_and_multiplied() {
        // (1e200 + 1e200 i)·(1e200 − 1e200 i) = 2e400, and the other way round i is left.
        let plus = Extended::of(Complex::new(1e200, 1e200));
        let minus = Extended::of(Complex::new(1e200, -1e200));
        let product = plus * minus;
        assert!(!product.to_wide().is_number());
        let back = (product * Extended::of(Complex::new(0.0, 1e-200))).to_wide();
        assert!(
            (back - Complex::new(0.0, 2e200)).modulus() <= 1e185,
            "{back}"
        );
        let sum = (plus + minus).to_wide();
        assert_eq!(sum, Complex::new(2e200, 0.0));
        let magnitude = product.magnitude().relative_to(product.parts().1);
        assert_eq!(magnitude, product.parts().0.magnitude());
    }
}
