//! What the simulator needs of element types.

use core::ops::{BitAnd, BitOr, BitXor};

use num_complex::Complex;

use crate::host::{ElementKind, KernelArg};

/// What the simulator needs of an element type.
pub trait ElementImp: Copy + Into<KernelArg> {
    /// The type, as a value.
    const KIND: ElementKind;

    /// The bits, in the low part; those of the imaginary part of a complex number in the second word.
    fn to_bits(self) -> [u64; 2];

    /// From the low bits.
    fn from_bits(bits: [u64; 2]) -> Self;
}

/// What the simulator needs of a type with atomic accesses.
pub trait AtomicElementImp: ElementImp {
    /// Sum; integers wrap.
    fn sum(self, other: Self) -> Self;
}

/// What the simulator needs of an integer type.
pub trait IntElementImp:
    AtomicElementImp + Ord + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    /// Difference, wrapping.
    fn difference(self, other: Self) -> Self;
}

/// What the simulator needs of a real type.
pub trait RealImp: ElementImp {
    /// `self · b + c`, rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// 1/self.
    fn reciprocal(self) -> Self;
    /// The larger.
    fn max(self, other: Self) -> Self;
    /// The smaller.
    fn min(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($t:ident: $kind:ident),*) => {
        $(
            impl ElementImp for $t {
                const KIND: ElementKind = ElementKind::$kind;

                #[inline(always)]
                fn to_bits(self) -> [u64; 2] {
                    [self as u64, 0]
                }

                #[inline(always)]
                fn from_bits(bits: [u64; 2]) -> $t {
                    bits[0] as $t
                }
            }

            impl AtomicElementImp for $t {
                #[inline(always)]
                fn sum(self, other: $t) -> $t {
                    self.wrapping_add(other)
                }
            }

            impl IntElementImp for $t {
                #[inline(always)]
                fn difference(self, other: $t) -> $t {
                    self.wrapping_sub(other)
                }
            }
        )*
    };
}
integers!(u32: U32, i32: I32, u64: U64, i64: I64);

macro_rules! reals {
    ($($t:ident: $kind:ident, $complex:ident),*) => {
        $(
            impl ElementImp for $t {
                const KIND: ElementKind = ElementKind::$kind;

                #[inline(always)]
                fn to_bits(self) -> [u64; 2] {
                    [<$t>::to_bits(self).into(), 0]
                }

                #[inline(always)]
                fn from_bits(bits: [u64; 2]) -> $t {
                    <$t>::from_bits(bits[0] as _)
                }
            }

            impl ElementImp for Complex<$t> {
                const KIND: ElementKind = ElementKind::$complex;

                #[inline(always)]
                fn to_bits(self) -> [u64; 2] {
                    [self.re.to_bits().into(), self.im.to_bits().into()]
                }

                #[inline(always)]
                fn from_bits(bits: [u64; 2]) -> Self {
                    let [re, im] = bits.map(|part| <$t>::from_bits(part as _));
                    Complex::new(re, im)
                }
            }

            impl AtomicElementImp for $t {
                #[inline(always)]
                fn sum(self, other: $t) -> $t {
                    self + other
                }
            }

            impl RealImp for $t {
                #[inline(always)]
                fn mul_add(self, b: $t, c: $t) -> $t {
                    $t::mul_add(self, b, c)
                }

                #[inline(always)]
                fn sqrt(self) -> $t {
                    $t::sqrt(self)
                }

                #[inline(always)]
                fn abs(self) -> $t {
                    $t::abs(self)
                }

                #[inline(always)]
                fn reciprocal(self) -> $t {
                    1.0 / self
                }

                #[inline(always)]
                fn max(self, other: $t) -> $t {
                    $t::max(self, other)
                }

                #[inline(always)]
                fn min(self, other: $t) -> $t {
                    $t::min(self, other)
                }
            }
        )*
    };
}
reals!(f32: F32, ComplexF32, f64: F64, ComplexF64);
