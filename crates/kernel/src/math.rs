//! The numbers of kernels: fields, and the real numbers that their magnitudes are.
//!
//! [`Field`] and [`Real`] are in kernels what `Scalar` and `RealScalar` of `luge-sparse` are on the host, and what has one
//! name in both means the same.

use core::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

pub use num_complex::Complex;

use crate::element::{AtomicElement, Element};
use crate::imp::RealImp;

/// An element of the field that a matrix is over: `f32`, `f64`, `Complex<f32>` or `Complex<f64>`.
///
/// The operators of complex numbers round each real operation by itself, in the order of `num_complex`; simulator, chip
/// and host give the same bits. What orders numbers or measures them belongs to [`Real`](Self::Real).
///
/// ```
/// use luge_kernel::prelude::*;
///
/// # pub static MODULE: luge_kernel::host::KernelModule =
/// #     luge_kernel::host::KernelModule { name: "doc", images: &[] };
/// /// The entries of `x` that are larger than `bound` are multiplied with `a`.
/// ///
/// /// Entry points: `damp_f32`, `damp_f64`, `damp_complex_f32`, `damp_complex_f64`.
/// #[kernel(T = [f32, f64, Complex<f32>, Complex<f64>])]
/// pub unsafe fn damp<T: Field>(bound: T::Real, a: T, x: GlobalMut<T>) {
///     for i in thread::grid_stride(x.len()) {
///         if x.get(i).magnitude() > bound {
///             x.set(i, a * x.get(i));
///         }
///     }
/// }
/// # fn main() {}
/// ```
pub trait Field:
    Element
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
{
    /// The type of magnitudes.
    type Real: Real;

    /// The same field with components of 64 bits.
    type Wide: Field<Real = f64, Wide = Self::Wide>;

    /// Number of components: 1, or 2 for complex numbers.
    const COMPONENTS: usize;

    /// 0.
    const ZERO: Self;

    /// 1.
    const ONE: Self;

    /// A real number as a number of the field.
    fn from_real(re: Self::Real) -> Self;

    /// The number with these components: of a complex one 0 is the real part, 1 the imaginary part.
    fn from_components(component: impl FnMut(usize) -> Self::Real) -> Self;

    /// Calls `f(at, component)` for each component.
    fn for_components(self, f: impl FnMut(usize, Self::Real));

    /// The real part.
    fn real(self) -> Self::Real;

    /// The largest absolute value of a component. It overflows nowhere, as a [`magnitude`](Self::magnitude) may.
    fn largest_component(self) -> Self::Real;

    /// `self · b + c`. A real number is rounded once (PTX `fma.rn`); of a complex one each component is two of these:
    /// the first adds to that of `c` the product with the real part of `self`, the second that with the imaginary part.
    fn mul_add(self, b: Self, c: Self) -> Self;

    /// The complex conjugate; a real number itself.
    fn conjugate(self) -> Self;

    /// |x|, or |re| + |im|: at least the absolute value, and at most √2 times that. This is what pivots are compared by,
    /// as in LAPACK (`cabs1`).
    fn magnitude(self) -> Self::Real;

    /// Each component times `factor`.
    fn scale(self, factor: Self::Real) -> Self;

    /// Each component over `divisor`.
    fn over_real(self, divisor: Self::Real) -> Self;

    /// 1/`self`. Of a real number to an error of about one unit in the last place, and infinite at zero; of a complex
    /// one the [`quotient`](Self::quotient).
    fn reciprocal(self) -> Self;

    /// `self`/`divisor`. For complex numbers by R. L. Smith, "Algorithm 116: Complex division", Comm. ACM 5, 1962, which
    /// forms no square of a component; the operator `/` does, and overflows where a square does.
    fn quotient(self, divisor: Self) -> Self;

    /// A number of magnitude `magnitude` in the direction of `self`; `magnitude` itself for zero.
    fn with_magnitude(self, magnitude: Self::Real) -> Self;

    /// Whether no component is infinite or NaN.
    fn is_number(self) -> bool;

    /// Converts exactly.
    fn widen(self) -> Self::Wide;

    /// Rounds each component to the nearest number.
    fn narrow(wide: Self::Wide) -> Self;
}

/// `f32` or `f64` in a kernel that is generic over both.
pub trait Real: Field<Real = Self, Wide = f64> + AtomicElement {
    /// The absolute value.
    fn abs(self) -> Self;

    /// The square root, correctly rounded.
    fn sqrt(self) -> Self;

    /// The larger of the two; the other one where one is NaN.
    fn max(self, other: Self) -> Self;

    /// The smaller of the two; the other one where one is NaN.
    fn min(self, other: Self) -> Self;

    /// As `f64`, exactly.
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.widen()
    }

    /// Rounded from `f64`.
    #[inline(always)]
    fn from_f64(v: f64) -> Self {
        Self::narrow(v)
    }
}

macro_rules! real {
    ($t:ty) => {
        impl Field for $t {
            type Real = $t;
            type Wide = f64;

            const COMPONENTS: usize = 1;
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;

            #[inline(always)]
            fn from_real(re: $t) -> $t {
                re
            }

            #[inline(always)]
            fn from_components(mut component: impl FnMut(usize) -> $t) -> $t {
                component(0)
            }

            #[inline(always)]
            fn for_components(self, mut f: impl FnMut(usize, $t)) {
                f(0, self);
            }

            #[inline(always)]
            fn real(self) -> $t {
                self
            }

            #[inline(always)]
            fn largest_component(self) -> $t {
                RealImp::abs(self)
            }

            #[inline(always)]
            fn mul_add(self, b: $t, c: $t) -> $t {
                RealImp::mul_add(self, b, c)
            }

            #[inline(always)]
            fn conjugate(self) -> $t {
                self
            }

            #[inline(always)]
            fn magnitude(self) -> $t {
                RealImp::abs(self)
            }

            #[inline(always)]
            fn scale(self, factor: $t) -> $t {
                self * factor
            }

            #[inline(always)]
            fn over_real(self, divisor: $t) -> $t {
                self / divisor
            }

            #[inline(always)]
            fn reciprocal(self) -> $t {
                RealImp::reciprocal(self)
            }

            #[inline(always)]
            fn quotient(self, divisor: $t) -> $t {
                self / divisor
            }

            #[inline(always)]
            fn with_magnitude(self, magnitude: $t) -> $t {
                if self < 0.0 { -magnitude } else { magnitude }
            }

            #[inline(always)]
            fn is_number(self) -> bool {
                self.is_finite()
            }

            #[inline(always)]
            fn widen(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn narrow(wide: f64) -> $t {
                wide as $t
            }
        }

        impl Real for $t {
            #[inline(always)]
            fn abs(self) -> $t {
                RealImp::abs(self)
            }

            #[inline(always)]
            fn sqrt(self) -> $t {
                RealImp::sqrt(self)
            }

            #[inline(always)]
            fn max(self, other: $t) -> $t {
                RealImp::max(self, other)
            }

            #[inline(always)]
            fn min(self, other: $t) -> $t {
                RealImp::min(self, other)
            }
        }
    };
}
real!(f32);
real!(f64);

macro_rules! complex {
    ($t:ty) => {
        impl Field for Complex<$t> {
            type Real = $t;
            type Wide = Complex<f64>;

            const COMPONENTS: usize = 2;
            const ZERO: Self = Complex::new(0.0, 0.0);
            const ONE: Self = Complex::new(1.0, 0.0);

            #[inline(always)]
            fn from_real(re: $t) -> Self {
                Complex::new(re, 0.0)
            }

            #[inline(always)]
            fn from_components(mut component: impl FnMut(usize) -> $t) -> Self {
                let re = component(0);
                Complex::new(re, component(1))
            }

            #[inline(always)]
            fn for_components(self, mut f: impl FnMut(usize, $t)) {
                f(0, self.re);
                f(1, self.im);
            }

            #[inline(always)]
            fn real(self) -> $t {
                self.re
            }

            #[inline(always)]
            fn largest_component(self) -> $t {
                RealImp::max(RealImp::abs(self.re), RealImp::abs(self.im))
            }

            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                let first = Complex::new(
                    RealImp::mul_add(self.re, b.re, c.re),
                    RealImp::mul_add(self.re, b.im, c.im),
                );
                Complex::new(
                    RealImp::mul_add(-self.im, b.im, first.re),
                    RealImp::mul_add(self.im, b.re, first.im),
                )
            }

            #[inline(always)]
            fn conjugate(self) -> Self {
                Complex::new(self.re, -self.im)
            }

            #[inline(always)]
            fn magnitude(self) -> $t {
                RealImp::abs(self.re) + RealImp::abs(self.im)
            }

            #[inline(always)]
            fn scale(self, factor: $t) -> Self {
                Complex::new(self.re * factor, self.im * factor)
            }

            #[inline(always)]
            fn over_real(self, divisor: $t) -> Self {
                Complex::new(self.re / divisor, self.im / divisor)
            }

            #[inline(always)]
            fn reciprocal(self) -> Self {
                Self::ONE.quotient(self)
            }

            #[inline(always)]
            fn quotient(self, divisor: Self) -> Self {
                let (a, b) = (self.re, self.im);
                let (c, d) = (divisor.re, divisor.im);
                if RealImp::abs(c) >= RealImp::abs(d) {
                    let ratio = d / c;
                    let denominator = c + d * ratio;
                    Complex::new((a + b * ratio) / denominator, (b - a * ratio) / denominator)
                } else {
                    let ratio = c / d;
                    let denominator = c * ratio + d;
                    Complex::new((a * ratio + b) / denominator, (b * ratio - a) / denominator)
                }
            }

            #[inline(always)]
            fn with_magnitude(self, magnitude: $t) -> Self {
                let own = Field::magnitude(self);
                if own == 0.0 {
                    return Complex::new(magnitude, 0.0);
                }
                Complex::new(self.re / own * magnitude, self.im / own * magnitude)
            }

            #[inline(always)]
            fn is_number(self) -> bool {
                self.re.is_finite() && self.im.is_finite()
            }

            #[inline(always)]
            fn widen(self) -> Complex<f64> {
                Complex::new(self.re as f64, self.im as f64)
            }

            #[inline(always)]
            fn narrow(wide: Complex<f64>) -> Self {
                Complex::new(wide.re as $t, wide.im as $t)
            }
        }
    };
}
complex!(f32);
complex!(f64);
