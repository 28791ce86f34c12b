//! What the cells of a kernel's memory hold.

use num_complex::Complex;

use crate::imp;

mod sealed {
    pub trait Sealed {}
}

/// What an element of a kernel's memory may be: `u32`, `i32`, `u64`, `i64`, `f32`, `f64`, `Complex<f32>`,
/// `Complex<f64>`.
///
/// In memory an element starts at a multiple of its size, a complex number too (8 or 16 bytes, real part first): both of
/// its components are read and written together.
pub trait Element:
    imp::ElementImp + Copy + PartialEq + core::fmt::Debug + sealed::Sealed + 'static
{
}

/// The elements that can be accessed atomically: all but complex numbers, for which the chip has no atomic addition.
pub trait AtomicElement: Element + imp::AtomicElementImp + PartialOrd {}

/// The integer elements, which have the full set of atomics.
pub trait IntElement: AtomicElement + imp::IntElementImp {}

macro_rules! implement {
    ($trait:path: $($t:ty),*) => {
        $(impl $trait for $t {})*
    };
}
implement!(sealed::Sealed: u32, i32, u64, i64, f32, f64, Complex<f32>, Complex<f64>);
implement!(Element: u32, i32, u64, i64, f32, f64, Complex<f32>, Complex<f64>);
implement!(AtomicElement: u32, i32, u64, i64, f32, f64);
implement!(IntElement: u32, i32, u64, i64);
