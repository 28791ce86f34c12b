//! The real numbers of kernels.

use core::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::element::Element;
use crate::imp::RealImp;

/// `f32` or `f64` in a kernel that is generic over both.
pub trait Real:
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
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// `self · b + c` with one rounding (PTX `fma.rn`).
    fn mul_add(self, b: Self, c: Self) -> Self;

    /// The absolute value.
    fn abs(self) -> Self;

    /// The square root, correctly rounded.
    fn sqrt(self) -> Self;

    /// 1/`self` to an error of about one unit in the last place; infinite at zero.
    fn reciprocal(self) -> Self;

    /// The larger of the two; the other one where one is NaN.
    fn max(self, other: Self) -> Self;

    /// The smaller of the two; the other one where one is NaN.
    fn min(self, other: Self) -> Self;

    /// As `f64`, exactly.
    fn to_f64(self) -> f64;

    /// Rounded from `f64`.
    fn from_f64(v: f64) -> Self;
}

macro_rules! real {
    ($t:ty) => {
        impl Real for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;

            #[inline(always)]
            fn mul_add(self, b: $t, c: $t) -> $t {
                RealImp::mul_add(self, b, c)
            }

            #[inline(always)]
            fn abs(self) -> $t {
                RealImp::abs(self)
            }

            #[inline(always)]
            fn sqrt(self) -> $t {
                RealImp::sqrt(self)
            }

            #[inline(always)]
            fn reciprocal(self) -> $t {
                RealImp::reciprocal(self)
            }

            #[inline(always)]
            fn max(self, other: $t) -> $t {
                RealImp::max(self, other)
            }

            #[inline(always)]
            fn min(self, other: $t) -> $t {
                RealImp::min(self, other)
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn from_f64(v: f64) -> $t {
                v as $t
            }
        }
    };
}
real!(f32);
real!(f64);
