//! Determinants, which overflow any floating-point type.

use luge_solve::extended::split;
use luge_sparse::{Form, Permutation, Scalar};
use serde::Serialize;

/// A determinant: `mantissa · 2^exponent`, over the real numbers or, where `W` is `Complex<f64>`, over the complex ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Determinant<W = f64> {
    /// Of magnitude in [0.5, 1), or zero; of a complex number that is the magnitude of the larger part.
    pub mantissa: W,
    /// Power of two; 0 if the mantissa is zero.
    pub exponent: i64,
}

impl<W: Scalar<Real = f64>> Determinant<W> {
    /// 1, that of a matrix of order 0.
    pub(crate) fn one() -> Self {
        Self {
            mantissa: W::from_real(0.5),
            exponent: 1,
        }
    }

    /// Multiplies by a finite number.
    pub(crate) fn times(mut self, factor: W) -> Self {
        let (mantissa, exponent) = split(factor);
        self.mantissa *= mantissa;
        self.exponent += i64::from(exponent);
        self.renormalized()
    }

    /// Multiplies by the determinant of a pivot of order 2 with the entries (1, 1), (2, 1) and (2, 2), of which the second is not
    /// zero.
    pub(crate) fn times_block(self, [a, mut b, c]: [W; 3], form: Form) -> Self {
        if form.conjugates::<W>() {
            // It is a·c − |b|².
            b = W::from_real(b.modulus());
        }
        // Divided before they are multiplied, so that nothing overflows.
        self.times(b).times(a.quotient(b) * c - b)
    }

    /// Divides by a finite real number other than zero.
    pub(crate) fn over(mut self, divisor: f64) -> Self {
        let (mantissa, exponent) = split(divisor);
        self.mantissa = self.mantissa.over_real(mantissa);
        self.exponent -= i64::from(exponent);
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
        let (mantissa, exponent) = split(self.mantissa);
        self.mantissa = mantissa;
        if mantissa.is_zero() {
            self.exponent = 0;
        } else {
            self.exponent += i64::from(exponent);
        }
        self
    }

    /// The determinant in `f64`, or its complex numbers: infinite, or zero, where it is out of range.
    pub fn value(&self) -> W {
        let mut value = self.mantissa;
        let mut left = self.exponent.clamp(-3000, 3000);
        while left != 0 {
            let step = left.clamp(-1000, 1000);
            value = value.scaled_by(2f64.powi(step as i32));
            left -= step;
        }
        value
    }

    /// log10 of its absolute value; −∞ for zero.
    pub fn log10_abs(&self) -> f64 {
        self.mantissa.modulus().log10() + self.exponent as f64 * std::f64::consts::LOG10_2
    }
}

impl<W: Scalar<Real = f64>> std::fmt::Display for Determinant<W> {
    /// In powers of ten, which all parts of a complex number have in common.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.mantissa.is_zero() {
            return f.write_str("0");
        }
        let largest = self.mantissa.largest_component();
        let log = largest.log10() + self.exponent as f64 * std::f64::consts::LOG10_2;
        let exponent = log.floor();
        let size = 10f64.powf(log - exponent);
        let mantissa = self.mantissa.map_components(|part| part / largest * size);
        if W::COMPONENTS == 1 {
            write!(f, "{mantissa:.6}e{exponent}")
        } else {
            write!(f, "({mantissa:.6})e{exponent}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;

    #[test]
    fn products_leave_the_range_and_come_back() {
        let huge = (0..10).fold(Determinant::one(), |d, _| d.times(-1e300));
        assert!((huge.log10_abs() - 3000.0).abs() < 1e-9);
        assert_eq!(huge.value(), f64::INFINITY);
        let one = (0..10).fold(huge, |d, _| d.over(-1e300));
        assert!((one.value() - 1.0).abs() < 1e-13);
        assert_eq!(Determinant::one().times(-6.0).to_string(), "-6.000000e0");
        assert_eq!(Determinant::one().times(5e-324).value(), 5e-324);
    }

    #[test]
    fn complex_products_leave_the_range_and_come_back() {
        let turned = Complex::new(3e250, -4e250);
        let huge = (0..12).fold(Determinant::one(), |d, _| d.times(turned));
        assert!((huge.log10_abs() - 12.0 * 5e250f64.log10()).abs() < 1e-9);
        assert!(!huge.value().is_number());
        // The direction is the twelfth power of that of 3 − 4i.
        let direction = Complex::new(0.6, -0.8f64).powi(12);
        assert!((huge.mantissa.direction() - direction).modulus() < 1e-14);
        let small = (0..12).fold(huge, |d, _| d.over(-5e250));
        assert!((small.value() - direction).modulus() < 1e-13);
        let swap = Permutation::new(vec![1, 0]).unwrap();
        assert_eq!(small.permuted(&swap).value(), -small.value());
        let zero = huge.times(Complex::ZERO);
        assert_eq!((zero.mantissa, zero.exponent), (Complex::ZERO, 0));
        assert_eq!(zero.log10_abs(), f64::NEG_INFINITY);
        assert_eq!(zero.to_string(), "0");
        let printed = Determinant::one().times(Complex::new(-300.0, 40.0));
        assert_eq!(printed.to_string(), "(-3.000000+0.400000i)e2");
    }

    #[test]
    fn zero_stays_zero() {
        let zero = Determinant::one().times(0.0).times(3.0);
        assert_eq!((zero.mantissa, zero.exponent), (0.0, 0));
        assert_eq!(zero.to_string(), "0");
    }

    #[test]
    fn a_swap_changes_the_sign_and_a_rotation_of_three_does_not() {
        let sign = |perm: &[u32]| {
            let perm = Permutation::new(perm.to_vec()).unwrap();
            Determinant::<f64>::one().permuted(&perm).value()
        };
        assert_eq!(sign(&[0, 1, 2]), 1.0);
        assert_eq!(sign(&[1, 0, 2]), -1.0);
        assert_eq!(sign(&[1, 2, 0]), 1.0);
        assert_eq!(sign(&[]), 1.0);
    }
}
