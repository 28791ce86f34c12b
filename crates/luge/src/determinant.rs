//! Determinants, which overflow any floating-point type.

use luge_sparse::Permutation;
use serde::Serialize;

/// A determinant: `mantissa · 2^exponent`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Determinant {
    /// Of magnitude in [0.5, 1), or zero.
    pub mantissa: f64,
    /// Power of two; 0 if the mantissa is zero.
    pub exponent: i64,
}

impl Determinant {
    /// 1, that of a matrix of order 0.
    pub(crate) const ONE: Self = Self {
        mantissa: 0.5,
        exponent: 1,
    };

    /// Multiplies by a finite number.
    pub(crate) fn times(mut self, factor: f64) -> Self {
        self.mantissa *= normal(factor, &mut self.exponent);
        self.renormalized()
    }

    /// Divides by a finite number other than zero.
    pub(crate) fn over(mut self, divisor: f64) -> Self {
        let mut shift = 0;
        self.mantissa /= normal(divisor, &mut shift);
        self.exponent -= shift;
        self.renormalized()
    }

    /// Multiplies by the sign of a permutation.
    pub(crate) fn permuted(mut self, perm: &Permutation) -> Self {
        if perm.is_odd() {
            self.mantissa = -self.mantissa;
        }
        self
    }

    fn renormalized(mut self) -> Self {
        self.mantissa = normal(self.mantissa, &mut self.exponent);
        if self.mantissa == 0.0 {
            self.exponent = 0;
        }
        self
    }

    /// The determinant in `f64`: infinite, or zero, where it is out of range.
    pub fn value(&self) -> f64 {
        let mut value = self.mantissa;
        let mut left = self.exponent.clamp(-3000, 3000);
        while left != 0 {
            let step = left.clamp(-1000, 1000);
            value *= 2f64.powi(step as i32);
            left -= step;
        }
        value
    }

    /// log10 of its magnitude; −∞ for zero.
    pub fn log10_abs(&self) -> f64 {
        self.mantissa.abs().log10() + self.exponent as f64 * std::f64::consts::LOG10_2
    }
}

impl std::fmt::Display for Determinant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.mantissa == 0.0 {
            return f.write_str("0");
        }
        let log = self.log10_abs();
        let exponent = log.floor();
        let mantissa = 10f64.powf(log - exponent).copysign(self.mantissa);
        write!(f, "{mantissa:.6}e{exponent}")
    }
}

/// Splits off the power of two that leaves a magnitude in [0.5, 1).
fn normal(x: f64, exponent: &mut i64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let biased = |x: f64| ((x.to_bits() >> 52) & 0x7ff) as i64;
    // Subnormals get a normal exponent first.
    let (x, shift) = if biased(x) == 0 {
        (x * 2f64.powi(64), 64)
    } else {
        (x, 0)
    };
    *exponent += biased(x) - 1022 - shift;
    f64::from_bits((x.to_bits() & !(0x7ff << 52)) | (1022 << 52))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_leave_the_range_and_come_back() {
        let huge = (0..10).fold(Determinant::ONE, |d, _| d.times(-1e300));
        assert!((huge.log10_abs() - 3000.0).abs() < 1e-9);
        assert_eq!(huge.value(), f64::INFINITY);
        let one = (0..10).fold(huge, |d, _| d.over(-1e300));
        assert!((one.value() - 1.0).abs() < 1e-13);
        assert_eq!(Determinant::ONE.times(-6.0).to_string(), "-6.000000e0");
        assert_eq!(Determinant::ONE.times(5e-324).value(), 5e-324);
    }

    #[test]
    fn zero_stays_zero() {
        let zero = Determinant::ONE.times(0.0).times(3.0);
        assert_eq!((zero.mantissa, zero.exponent), (0.0, 0));
        assert_eq!(zero.to_string(), "0");
    }

    #[test]
    fn a_swap_changes_the_sign_and_a_rotation_of_three_does_not() {
        let sign = |perm: &[u32]| {
            let perm = Permutation::new(perm.to_vec()).unwrap();
            Determinant::ONE.permuted(&perm).value()
        };
        assert_eq!(sign(&[0, 1, 2]), 1.0);
        assert_eq!(sign(&[1, 0, 2]), -1.0);
        assert_eq!(sign(&[1, 2, 0]), 1.0);
        assert_eq!(sign(&[]), 1.0);
    }
}
