//! The numeric types of the solver.

use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{AddAssign, DivAssign, MulAssign, SubAssign};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A numeric type that Luge factorizes in: `f32` or `f64`.
///
/// Sealed, because kernels exist for exactly these types.
pub trait Scalar:
    sealed::Sealed
    + num_traits::Float
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
    /// `"f32"` or `"f64"`, as it appears in reports.
    const NAME: &'static str;

    /// Rounds to this type.
    fn from_f64(value: f64) -> Self;

    /// Converts exactly.
    fn to_f64(self) -> f64;

    /// `values` in `f64`: themselves if they are, else converted.
    fn in_f64(values: &[Self]) -> Cow<'_, [f64]>;

    /// `values`, if they are `f64`.
    fn as_f64_mut(values: &mut [Self]) -> Option<&mut [f64]>;
}

impl Scalar for f32 {
    const NAME: &'static str = "f32";

    #[inline]
    fn from_f64(value: f64) -> Self {
        value as f32
    }

    #[inline]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn in_f64(values: &[Self]) -> Cow<'_, [f64]> {
        values.iter().map(|&v| f64::from(v)).collect()
    }

    fn as_f64_mut(_values: &mut [Self]) -> Option<&mut [f64]> {
        None
    }
}

impl Scalar for f64 {
    const NAME: &'static str = "f64";

    #[inline]
    fn from_f64(value: f64) -> Self {
        value
    }

    #[inline]
    fn to_f64(self) -> f64 {
        self
    }

    fn in_f64(values: &[Self]) -> Cow<'_, [f64]> {
        Cow::Borrowed(values)
    }

    fn as_f64_mut(values: &mut [Self]) -> Option<&mut [f64]> {
        Some(values)
    }
}
