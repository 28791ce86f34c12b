//! Numbers beyond the range of `f64`: a mantissa and an exponent.
//!
//! Slow, and only for systems whose norms, or some of whose rows, are near overflow or underflow. Products are rounded as
//! in `f64`.

use std::ops::{Add, Mul};

/// Splits a finite `x` into a mantissa of magnitude in [0.5, 1) and an exponent; zero into (0, 0).
pub(crate) fn split(x: f64) -> (f64, i32) {
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
pub fn shift(mut x: f64, mut exponent: i32) -> f64 {
    while exponent.abs() > 1000 {
        let step = exponent.signum() * 1000;
        x *= power_of_two(step);
        exponent = (exponent - step).clamp(-4000, 4000);
    }
    x * power_of_two(exponent)
}

/// A number `mantissa · 2^exponent`, the mantissa zero or in [0.5, 1) by magnitude; or one that is infinite or not a number,
/// in the mantissa.
#[derive(Debug, Clone, Copy)]
pub struct Extended {
    mantissa: f64,
    exponent: i32,
}

impl Extended {
    pub(crate) const ZERO: Self = Self {
        mantissa: 0.0,
        exponent: 0,
    };

    /// The number `x`.
    pub fn of(x: f64) -> Self {
        Self::new(x, 0)
    }

    /// `x · 2^exponent`.
    pub fn new(x: f64, exponent: i32) -> Self {
        let (mantissa, own) = split(x);
        Self {
            mantissa,
            exponent: if mantissa == 0.0 { 0 } else { own + exponent },
        }
    }

    /// The nearest number in the range of `f64`, infinite or zero beyond it.
    pub fn to_f64(self) -> f64 {
        shift(self.mantissa, self.exponent)
    }

    /// Whether it is neither infinite nor not a number.
    pub fn is_finite(self) -> bool {
        self.mantissa.is_finite()
    }

    /// The mantissa and the exponent.
    pub(crate) fn parts(self) -> (f64, i32) {
        (self.mantissa, self.exponent)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.mantissa == 0.0
    }

    pub(crate) fn abs(self) -> Self {
        Self {
            mantissa: self.mantissa.abs(),
            ..self
        }
    }

    /// In units of 2^exponent.
    pub(crate) fn relative_to(self, exponent: i32) -> f64 {
        shift(self.mantissa, self.exponent - exponent)
    }

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

impl Mul for Extended {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self::new(
            self.mantissa * other.mantissa,
            self.exponent + other.exponent,
        )
    }
}

impl Add for Extended {
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn splitting_is_exact(x in proptest::num::f64::ANY) {
            prop_assume!(x.is_finite());
            let (m, e) = split(x);
            prop_assert_eq!(shift(m, e), x);
            prop_assert!(x == 0.0 || (0.5..1.0).contains(&m.abs()));
        }
    }
}
