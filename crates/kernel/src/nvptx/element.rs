//! What differs by element type: the width of a register and the names of PTX types.

use core::arch::asm;

use super::atomic::{IntRmw, Rmw};

/// Loads, stores and read-modify-writes of one element type.
///
/// Shared addresses are those of the shared window, global ones generic pointers.
pub trait ElementImp: Copy + Rmw {
    /// # Safety
    /// `ptr` is valid for a read, and nobody writes there during the launch.
    unsafe fn load_read_only(ptr: *const Self) -> Self;

    /// # Safety
    /// `addr` is valid in the block's shared memory.
    unsafe fn load_shared(addr: u32) -> Self;

    /// # Safety
    /// `addr` is valid in the block's shared memory.
    unsafe fn store_shared(addr: u32, v: Self);

    /// The bits, zero-extended.
    fn to_bits64(self) -> u64;

    /// The value of the low bits.
    fn from_bits64(bits: u64) -> Self;
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

/// The integers.
pub trait IntElementImp: ElementImp + IntRmw {}
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
