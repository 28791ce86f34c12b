//! The numeric types of the solver: fields, and the real numbers that their magnitudes are.

use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{AddAssign, DivAssign, MulAssign, Neg, SubAssign};

use num_complex::Complex;
use num_traits::{Float, Num};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for num_complex::Complex<f32> {}
    impl Sealed for num_complex::Complex<f64> {}
}

/// An element of the field that a matrix is over: a real number, or a complex one.
///
/// What orders numbers, measures them or rounds belongs to [`Real`](Self::Real). Sums whose accuracy matters are
/// formed in [`Wide`](Self::Wide).
///
/// Sealed, because kernels exist for exactly these types.
pub trait Scalar:
    sealed::Sealed
    + Copy
    + Num
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + Sum
    + Default
    + Debug
    + Display
    + Send
    + Sync
    + 'static
{
    /// The type of magnitudes.
    type Real: RealScalar;

    /// The same field with components of 64 bits.
    type Wide: Scalar<Real = f64, Wide = Self::Wide>;

    /// The name as it appears in reports: `"f64"`, `"complex f64"`.
    const NAME: &'static str;

    /// 1 for a real number, 2 for a complex one: its real and its imaginary part.
    const COMPONENTS: usize;

    /// The number with these components, which are asked for from 0 on.
    fn from_components(component: impl FnMut(usize) -> Self::Real) -> Self;

    /// The number whose components are `map` of those of this one.
    fn map_components(self, map: impl FnMut(Self::Real) -> Self::Real) -> Self;

    /// The real part; a real number itself.
    fn real(self) -> Self::Real;

    /// The largest magnitude of a component; any component where one is NaN.
    fn largest_component(self) -> Self::Real;

    /// A real number as one of this field.
    #[inline(always)]
    fn from_real(real: Self::Real) -> Self {
        Self::from_components(|at| if at == 0 { real } else { Self::Real::default() })
    }

    /// The product with a real number, each component rounded once.
    #[inline(always)]
    fn scaled_by(self, factor: Self::Real) -> Self {
        self.map_components(|component| component * factor)
    }

    /// The quotient by a real number, each component rounded once.
    #[inline(always)]
    fn over_real(self, divisor: Self::Real) -> Self {
        self.map_components(|component| component / divisor)
    }

    /// Converts exactly.
    fn widen(self) -> Self::Wide;

    /// Rounds each component to the nearest number.
    fn narrow(wide: Self::Wide) -> Self;

    /// |x|, or |re| + |im|: at least the absolute value, and at most √2 times that. This is what pivots are compared by,
    /// as in LAPACK (`cabs1`).
    fn magnitude(self) -> Self::Real;

    /// |x|, the absolute value, without overflow or underflow on the way.
    fn modulus(self) -> Self::Real;

    /// x/|x|, of absolute value 1: for a real number, zero and NaN included, 1 with its sign; 1 for a complex zero.
    fn direction(self) -> Self;

    /// Whether no component is infinite or NaN.
    fn is_number(self) -> bool;

    /// The complex conjugate; a real number itself.
    fn conjugate(self) -> Self;

    /// 1/x. Without an overflow or underflow on the way, if neither x nor 1/x is near the ends of the range.
    fn reciprocal(self) -> Self;

    /// x/divisor, likewise.
    fn quotient(self, divisor: Self) -> Self;

    /// A number of magnitude `magnitude` in the direction of x; `magnitude` itself for zero.
    fn with_magnitude(self, magnitude: Self::Real) -> Self;

    /// −x if the highest bit of `sign` is set, else x: without a branch.
    fn negated_by(self, sign: u64) -> Self;

    /// `values` in the [wide](Self::Wide) type: themselves if they are, else converted.
    fn in_wide(values: &[Self]) -> Cow<'_, [Self::Wide]>;

    /// Real numbers with the [magnitudes](Self::magnitude) of `values`: themselves if they are real, whatever their sign.
    fn in_real(values: &[Self]) -> Cow<'_, [Self::Real]>;

    /// `values`, if they are of the [wide](Self::Wide) type.
    fn as_wide_mut(values: &mut [Self]) -> Option<&mut [Self::Wide]>;

    /// Chooses by the field: what `choice` has for real numbers, or for complex ones.
    fn by_field<C: FieldChoice>(choice: C) -> C::Output<Self::Wide>;
}

/// Something that there is for real and for complex numbers, where code over any [`Scalar`] needs the one for its field.
pub trait FieldChoice {
    /// What is chosen, for the [wide](Scalar::Wide) type of a field.
    type Output<W: Scalar>;

    /// For real numbers.
    fn real(self) -> Self::Output<f64>;

    /// For complex ones.
    fn complex(self) -> Self::Output<Complex<f64>>;
}

/// A real type that Luge factorizes in: `f32` or `f64`.
pub trait RealScalar: Scalar<Real = Self, Wide = f64> + Float {
    /// Rounds to this type.
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Self::narrow(value)
    }

    /// Converts exactly.
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.widen()
    }

    /// `values` in `f64`: themselves if they are, else converted.
    #[inline]
    fn in_f64(values: &[Self]) -> Cow<'_, [f64]> {
        Self::in_wide(values)
    }
}

/// The conversions of slices, of a type that is its own wide type or of a narrower one.
macro_rules! slices {
    (wide) => {
        #[inline]
        fn in_wide(values: &[Self]) -> Cow<'_, [Self]> {
            Cow::Borrowed(values)
        }

        #[inline]
        fn as_wide_mut(values: &mut [Self]) -> Option<&mut [Self]> {
            Some(values)
        }
    };
    (narrow) => {
        fn in_wide(values: &[Self]) -> Cow<'_, [Self::Wide]> {
            values.iter().map(|&value| value.widen()).collect()
        }

        #[inline]
        fn as_wide_mut(_values: &mut [Self]) -> Option<&mut [Self::Wide]> {
            None
        }
    };
}

macro_rules! real {
    ($real:ty, $bits:ty, $width:ident) => {
        impl Scalar for $real {
            type Real = Self;
            type Wide = f64;

            const NAME: &'static str = stringify!($real);
            const COMPONENTS: usize = 1;

            #[inline(always)]
            fn from_components(mut component: impl FnMut(usize) -> Self) -> Self {
                component(0)
            }

            #[inline(always)]
            fn map_components(self, mut map: impl FnMut(Self) -> Self) -> Self {
                map(self)
            }

            #[inline(always)]
            fn real(self) -> Self {
                self
            }

            #[inline(always)]
            fn largest_component(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn widen(self) -> f64 {
                f64::from(self)
            }

            #[inline(always)]
            fn narrow(wide: f64) -> Self {
                wide as Self
            }

            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn modulus(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn direction(self) -> Self {
                (1.0 as Self).copysign(self)
            }

            #[inline(always)]
            fn is_number(self) -> bool {
                self.is_finite()
            }

            #[inline(always)]
            fn conjugate(self) -> Self {
                self
            }

            #[inline(always)]
            fn reciprocal(self) -> Self {
                self.recip()
            }

            #[inline(always)]
            fn quotient(self, divisor: Self) -> Self {
                self / divisor
            }

            #[inline(always)]
            fn with_magnitude(self, magnitude: Self) -> Self {
                if self < 0.0 { -magnitude } else { magnitude }
            }

            #[inline(always)]
            fn negated_by(self, sign: u64) -> Self {
                let sign = (sign & (1 << 63)) >> (64 - <$bits>::BITS);
                Self::from_bits(self.to_bits() ^ sign as $bits)
            }

            #[inline]
            fn in_real(values: &[Self]) -> Cow<'_, [Self]> {
                Cow::Borrowed(values)
            }

            fn by_field<C: FieldChoice>(choice: C) -> C::Output<f64> {
                choice.real()
            }

            slices!($width);
        }
    };
}

real!(f32, u32, narrow);
real!(f64, u64, wide);

impl RealScalar for f32 {}
impl RealScalar for f64 {}

macro_rules! complex {
    ($real:ty, $name:literal, $width:ident) => {
        impl Scalar for Complex<$real> {
            type Real = $real;
            type Wide = Complex<f64>;

            const NAME: &'static str = $name;
            const COMPONENTS: usize = 2;

            #[inline(always)]
            fn from_components(mut component: impl FnMut(usize) -> $real) -> Self {
                let re = component(0);
                Self::new(re, component(1))
            }

            #[inline(always)]
            fn map_components(self, mut map: impl FnMut($real) -> $real) -> Self {
                let re = map(self.re);
                Self::new(re, map(self.im))
            }

            #[inline(always)]
            fn real(self) -> $real {
                self.re
            }

            #[inline(always)]
            fn largest_component(self) -> $real {
                self.re.abs().max(self.im.abs())
            }

            #[inline(always)]
            fn widen(self) -> Complex<f64> {
                Complex::new(self.re.widen(), self.im.widen())
            }

            #[inline(always)]
            fn narrow(wide: Complex<f64>) -> Self {
                Self::new(<$real>::narrow(wide.re), <$real>::narrow(wide.im))
            }

            #[inline(always)]
            fn magnitude(self) -> $real {
                self.l1_norm()
            }

            #[inline]
            fn modulus(self) -> $real {
                self.re.hypot(self.im)
            }

            #[inline]
            fn direction(self) -> Self {
                let largest = self.largest_component();
                if largest == 0.0 {
                    return Self::new(1.0, 0.0);
                }
                // Neither the reciprocal of a subnormal number nor the absolute value of a large one is in range.
                let near_one = self.over_real(largest);
                near_one.over_real(near_one.modulus())
            }

            #[inline(always)]
            fn is_number(self) -> bool {
                self.re.is_finite() && self.im.is_finite()
            }

            #[inline(always)]
            fn conjugate(self) -> Self {
                self.conj()
            }

            #[inline]
            fn reciprocal(self) -> Self {
                Self::new(1.0, 0.0).quotient(self)
            }

            /// As R. L. Smith, "Algorithm 116: Complex division", Comm. ACM 5, 1962: no square of a component is formed.
            #[inline]
            fn quotient(self, divisor: Self) -> Self {
                let (a, b) = (self.re, self.im);
                let (c, d) = (divisor.re, divisor.im);
                if c.abs() >= d.abs() {
                    let ratio = d / c;
                    let denominator = c + d * ratio;
                    Self::new((a + b * ratio) / denominator, (b - a * ratio) / denominator)
                } else {
                    let ratio = c / d;
                    let denominator = c * ratio + d;
                    Self::new((a * ratio + b) / denominator, (b * ratio - a) / denominator)
                }
            }

            #[inline]
            fn with_magnitude(self, magnitude: $real) -> Self {
                let own = self.magnitude();
                if own == 0.0 {
                    return Self::new(magnitude, 0.0);
                }
                Self::new(self.re / own * magnitude, self.im / own * magnitude)
            }

            #[inline(always)]
            fn negated_by(self, sign: u64) -> Self {
                Self::new(self.re.negated_by(sign), self.im.negated_by(sign))
            }

            fn in_real(values: &[Self]) -> Cow<'_, [$real]> {
                values.iter().map(|value| value.magnitude()).collect()
            }

            fn by_field<C: FieldChoice>(choice: C) -> C::Output<Complex<f64>> {
                choice.complex()
            }

            slices!($width);
        }
    };
}

complex!(f32, "complex f32", narrow);
complex!(f64, "complex f64", wide);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negated_by_a_bit() {
        let (plus, minus) = (u64::MAX >> 1, 1 << 63);
        assert_eq!(
            [1.5f64.negated_by(plus), 1.5f64.negated_by(minus)],
            [1.5, -1.5]
        );
        assert_eq!(
            [1.5f32.negated_by(plus), 1.5f32.negated_by(minus)],
            [1.5, -1.5]
        );
        let z = Complex::new(1.5, -2.0);
        assert_eq!([z.negated_by(plus), z.negated_by(minus)], [z, -z]);
    }

    #[test]
    fn quotients_of_complex_numbers_neither_overflow_nor_lose_digits_to_underflow() {
        let z = |re: f64, im: f64| Complex::new(re, im);
        assert_eq!(
            z(11.0, 2.0).quotient(z(3.0, 4.0)),
            z(41.0 / 25.0, -38.0 / 25.0)
        );
        assert_eq!(
            z(-2.0, 11.0).quotient(z(-4.0, 3.0)),
            z(41.0 / 25.0, -38.0 / 25.0)
        );
        for size in [2f64.powi(1000), 2f64.powi(-1000)] {
            let (x, y) = (z(6.0 * size, 2.0 * size), z(size, size));
            assert_eq!(x.quotient(y), z(4.0, -2.0));
        }
        let large = z(0.0, 2f64.powi(900));
        assert_eq!(large.reciprocal(), z(0.0, -(2f64.powi(-900))));
    }

    #[test]
    fn a_magnitude_is_reached_in_the_direction_of_the_number() {
        assert_eq!(
            [(-3.0f64).with_magnitude(2.0), 0f64.with_magnitude(2.0)],
            [-2.0, 2.0]
        );
        let z = Complex::new(3.0f32, -1.0).with_magnitude(2.0);
        assert_eq!((z, z.magnitude()), (Complex::new(1.5, -0.5), 2.0));
        let zero = Complex::new(0.0f32, 0.0).with_magnitude(2.0);
        assert_eq!(zero, Complex::new(2.0, 0.0));
    }

    #[test]
    fn directions_have_the_absolute_value_one_at_any_size() {
        assert_eq!(
            [
                (-3.0f64).direction(),
                (-0.0f64).direction(),
                0f64.direction()
            ],
            [-1.0, -1.0, 1.0]
        );
        let z = Complex::new(3.0f64, -4.0);
        assert_eq!((z.modulus(), z.magnitude()), (5.0, 7.0));
        for size in [1.0, 2f64.powi(1021), 2f64.powi(-1060)] {
            let direction = z.scaled_by(size).direction();
            assert!((direction - Complex::new(0.6, -0.8)).modulus() < 1e-15);
        }
        let zero = Complex::new(0.0f64, 0.0);
        assert_eq!(zero.direction(), Complex::new(1.0, 0.0));
    }

    #[test]
    fn components_are_taken_apart_and_put_together() {
        let z = Complex::<f64>::from_components(|at| [3.0, -4.0][at]);
        assert_eq!(z, Complex::new(3.0, -4.0));
        assert_eq!(z.map_components(|c| c + 1.0), Complex::new(4.0, -3.0));
        assert_eq!(z.largest_component(), 4.0);
        assert_eq!(z.over_real(2.0), z.scaled_by(0.5));
        assert_eq!(Complex::<f32>::from_real(2.0), Complex::new(2.0, 0.0));
        assert_eq!((-2f32).largest_component(), 2.0);
        assert_eq!(f64::from_components(|at| at as f64 + 5.0), 5.0);
    }

    #[test]
    fn slices_are_borrowed_where_they_are_wide() {
        let z = Complex::new(1.5f32, -2.0);
        assert_eq!(*Scalar::in_wide(&[z]), [Complex::new(1.5f64, -2.0)]);
        assert!(Scalar::as_wide_mut(&mut [z]).is_none());
        assert!(matches!(f64::in_wide(&[1.0]), Cow::Borrowed([1.0])));
        assert!(Scalar::as_wide_mut(&mut [z.widen()]).is_some());
        assert_eq!(*Scalar::in_real(&[z]), [3.5]);
        assert!(matches!(f32::in_real(&[-1.0]), Cow::Borrowed([-1.0])));
    }

    #[test]
    fn conversions_keep_both_components() {
        let z = Complex::new(1.0f32 / 3.0, -7.0);
        assert_eq!(Complex::<f32>::narrow(z.widen()), z);
        assert_eq!(z.conjugate(), Complex::new(z.re, 7.0));
        assert!(z.is_number() && !Complex::new(0.0, f64::INFINITY).is_number());
        assert!(!Complex::new(f64::NAN, 0.0).is_number());
    }
}
