//! What the cells of a kernel's memory hold.

use crate::imp;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for i32 {}
    impl Sealed for u64 {}
    impl Sealed for i64 {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// What a memory cell of a kernel may hold: `u32`, `i32`, `u64`, `i64`, `f32`, `f64`.
pub trait Element:
    imp::ElementImp + Copy + PartialEq + PartialOrd + core::fmt::Debug + sealed::Sealed + 'static
{
}
impl Element for u32 {}
impl Element for i32 {}
impl Element for u64 {}
impl Element for i64 {}
impl Element for f32 {}
impl Element for f64 {}

/// The integer elements, which have the full set of atomics.
pub trait IntElement: Element + imp::IntElementImp {}
impl IntElement for u32 {}
impl IntElement for i32 {}
impl IntElement for u64 {}
impl IntElement for i64 {}
