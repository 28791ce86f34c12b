//! The real numbers of kernels.

use core::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::imp::RealImp;
use crate::mem::Element;

/// `f32` or `f64` in a kernel that is generic over both.
pub trait Real:
    Element
    + RealImp
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
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        RealImp::mul_add(self, b, c)
    }

    /// The absolute value.
    #[inline(always)]
    fn abs(self) -> Self {
        RealImp::abs(self)
    }

    /// The square root, correctly rounded.
    #[inline(always)]
    fn sqrt(self) -> Self {
        RealImp::sqrt(self)
    }

    /// The larger of the two; the other one where one is NaN.
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        RealImp::max(self, other)
    }

    /// The smaller of the two; the other one where one is NaN.
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        RealImp::min(self, other)
    }

    /// As `f64`, exactly.
    fn to_f64(self) -> f64;

    /// Rounded from `f64`.
    fn from_f64(v: f64) -> Self;
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn from_f64(v: f64) -> f32 {
        v as f32
    }
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn from_f64(v: f64) -> f64 {
        v
    }
}
