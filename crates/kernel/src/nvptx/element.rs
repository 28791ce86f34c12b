//! What differs by element type: the width of a register and the names of PTX types.

use core::arch::asm;

use num_complex::Complex;

use super::atomic::{IntRmw, Rmw};

/// Loads, stores and words of one element type.
///
/// Shared addresses are those of the shared window, global ones generic pointers. Each is a multiple of the element's
/// size.
pub trait ElementImp: Copy {
    /// # Safety
    /// `ptr` is valid for a read, and nobody writes there during the launch.
    unsafe fn load_read_only(ptr: *const Self) -> Self;

    /// Whether the element is two components, which one access covers if the compiler knows of the alignment.
    const IS_PAIR: bool = false;

    /// Loads from global memory.
    ///
    /// # Safety
    /// `ptr` is valid for a read.
    #[inline(always)]
    unsafe fn load_pair(ptr: *const Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { ptr.read() }
    }

    /// Stores to global memory.
    ///
    /// # Safety
    /// `ptr` is valid for a write.
    #[inline(always)]
    unsafe fn store_pair(ptr: *mut Self, v: Self) {
        // SAFETY: the caller's promise.
        unsafe { ptr.write(v) }
    }

    /// # Safety
    /// `addr` is valid in the block's shared memory.
    unsafe fn load_shared(addr: u32) -> Self;

    /// # Safety
    /// `addr` is valid in the block's shared memory.
    unsafe fn store_shared(addr: u32, v: Self);

    /// The bits of the first eight bytes, zero-extended.
    fn to_bits64(self) -> u64;

    /// The value of the low bits; 0 in what is beyond eight bytes.
    fn from_bits64(bits: u64) -> Self;

    /// The value whose first and second eight bytes are `f` of those of this one.
    #[inline(always)]
    fn map_halves(self, f: impl Fn(u64) -> u64) -> Self {
        Self::from_bits64(f(self.to_bits64()))
    }
}

macro_rules! element {
    ($t:ty, $reg:ident, $bits:literal, $to:expr, $from:expr) => {
        impl ElementImp for $t {
            #[inline(always)]
            unsafe fn load_read_only(ptr: *const Self) -> Self {
                let v: Self;
                // SAFETY: the caller's promise. Nobody writes there, so the value depends on the
                // address alone: `pure` and `nomem` hold.
                unsafe {
                    asm!(
                        concat!("ld.global.nc.b", $bits, " {v}, [{ptr}];"),
                        v = out($reg) v,
                        ptr = in(reg64) ptr,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
                v
            }

            #[inline(always)]
            unsafe fn load_shared(addr: u32) -> Self {
                let v: Self;
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!("ld.shared.b", $bits, " {v}, [{addr}];"),
                        v = out($reg) v,
                        addr = in(reg32) addr,
                        options(pure, readonly, nostack, preserves_flags),
                    );
                }
                v
            }

            #[inline(always)]
            unsafe fn store_shared(addr: u32, v: Self) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!("st.shared.b", $bits, " [{addr}], {v};"),
                        addr = in(reg32) addr,
                        v = in($reg) v,
                        options(nostack, preserves_flags),
                    );
                }
            }

            #[inline(always)]
            fn to_bits64(self) -> u64 {
                ($to)(self)
            }

            #[inline(always)]
            fn from_bits64(bits: u64) -> Self {
                ($from)(bits)
            }
        }

        impl AtomicElementImp for $t {}
    };
}
element!(u32, reg32, "32", u64::from, |bits| bits as u32);
element!(i32, reg32, "32", |v| u64::from(v as u32), |bits| bits
    as i32);
element!(f32, reg32, "32", |v: f32| u64::from(v.to_bits()), |bits| {
    f32::from_bits(bits as u32)
});
element!(u64, reg64, "64", |v| v, |bits| bits);
element!(i64, reg64, "64", |v| v as u64, |bits| bits as i64);
element!(f64, reg64, "64", f64::to_bits, f64::from_bits);

macro_rules! complex {
    ($t:ty, $reg:ident, $bits:literal, $whole:ident = $bytes:literal) => {
        /// Aligned to its size, so that the compiler takes both components for one access.
        #[repr(C, align($bytes))]
        struct $whole(Complex<$t>);

        impl ElementImp for Complex<$t> {
            const IS_PAIR: bool = true;

            #[inline(always)]
            unsafe fn load_read_only(ptr: *const Self) -> Self {
                let (re, im): ($t, $t);
                // SAFETY: the caller's promise. Nobody writes there, so the value depends on the
                // address alone: `pure` and `nomem` hold.
                unsafe {
                    asm!(
                        concat!("ld.global.nc.v2.b", $bits, " {{{re}, {im}}}, [{ptr}];"),
                        re = out($reg) re,
                        im = out($reg) im,
                        ptr = in(reg64) ptr,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
                Complex::new(re, im)
            }

            #[inline(always)]
            unsafe fn load_pair(ptr: *const Self) -> Self {
                // SAFETY: the caller's promise, and that the address is a multiple of the size.
                unsafe { ptr.cast::<$whole>().read() }.0
            }

            #[inline(always)]
            unsafe fn store_pair(ptr: *mut Self, v: Self) {
                // SAFETY: as in `load_pair`.
                unsafe { ptr.cast::<$whole>().write($whole(v)) }
            }

            #[inline(always)]
            unsafe fn load_shared(addr: u32) -> Self {
                let (re, im): ($t, $t);
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!("ld.shared.v2.b", $bits, " {{{re}, {im}}}, [{addr}];"),
                        re = out($reg) re,
                        im = out($reg) im,
                        addr = in(reg32) addr,
                        options(pure, readonly, nostack, preserves_flags),
                    );
                }
                Complex::new(re, im)
            }

            #[inline(always)]
            unsafe fn store_shared(addr: u32, v: Self) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!("st.shared.v2.b", $bits, " [{addr}], {{{re}, {im}}};"),
                        addr = in(reg32) addr,
                        re = in($reg) v.re,
                        im = in($reg) v.im,
                        options(nostack, preserves_flags),
                    );
                }
            }

            #[inline(always)]
            fn to_bits64(self) -> u64 {
                match size_of::<$t>() {
                    4 => self.im.to_bits64() << 32 | self.re.to_bits64(),
                    _ => self.re.to_bits64(),
                }
            }

            #[inline(always)]
            fn from_bits64(bits: u64) -> Self {
                match size_of::<$t>() {
                    4 => Complex::new(<$t>::from_bits64(bits), <$t>::from_bits64(bits >> 32)),
                    _ => Complex::new(<$t>::from_bits64(bits), 0.0),
                }
            }

            #[inline(always)]
            fn map_halves(self, f: impl Fn(u64) -> u64) -> Self {
                match size_of::<$t>() {
                    4 => Self::from_bits64(f(self.to_bits64())),
                    _ => Complex::new(self.re.map_halves(&f), self.im.map_halves(&f)),
                }
            }
        }
    };
}
complex!(f32, reg32, "32", WholeF32 = 8);
complex!(f64, reg64, "64", WholeF64 = 16);

/// The elements that one atomic instruction covers.
pub trait AtomicElementImp: ElementImp + Rmw {}

/// The integers.
pub trait IntElementImp: AtomicElementImp + IntRmw {}
impl IntElementImp for u32 {}
impl IntElementImp for i32 {}
impl IntElementImp for u64 {}
impl IntElementImp for i64 {}

/// Arithmetic that is not an operator.
pub trait RealImp: ElementImp {
    /// self·b + c, rounded once.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// The square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// 1/self, nearly.
    fn reciprocal(self) -> Self;
    /// The absolute value.
    fn abs(self) -> Self;
    /// The larger; the other one if one is NaN.
    fn max(self, other: Self) -> Self;
    /// The smaller; the other one if one is NaN.
    fn min(self, other: Self) -> Self;
}

/// About 20 binary digits, and two steps of Newton's method.
#[inline(always)]
fn reciprocal_f64(x: f64) -> f64 {
    let mut y: f64;
    // SAFETY: arithmetic on registers.
    unsafe {
        core::arch::asm!(
            "rcp.approx.ftz.f64 {}, {};",
            out(reg64) y,
            in(reg64) x,
            options(pure, nomem, nostack)
        );
    }
    let first = core::f64::math::mul_add(-x, y, 1.0);
    y = core::f64::math::mul_add(y, first, y);
    let second = core::f64::math::mul_add(-x, y, 1.0);
    y = core::f64::math::mul_add(y, second, y);
    // The approximation takes these for zero, or has zero for their reciprocals.
    let size = f64::abs(x);
    if size < f64::MIN_POSITIVE || size > 0.25 / f64::MIN_POSITIVE {
        y = 1.0 / x;
    }
    y
}

/// Correctly rounded.
#[inline(always)]
fn reciprocal_f32(x: f32) -> f32 {
    1.0 / x
}

macro_rules! real {
    ($t:ident, $reciprocal:ident) => {
        impl RealImp for $t {
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                core::$t::math::mul_add(self, b, c)
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                core::$t::math::sqrt(self)
            }

            #[inline(always)]
            fn reciprocal(self) -> Self {
                $reciprocal(self)
            }

            #[inline(always)]
            fn abs(self) -> Self {
                $t::abs(self)
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                $t::max(self, other)
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                $t::min(self, other)
            }
        }
    };
}
real!(f32, reciprocal_f32);
real!(f64, reciprocal_f64);
