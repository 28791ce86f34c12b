//! Atomic accesses: one PTX instruction each, its ordering and scope in the text.

use core::arch::asm;

use crate::atomic::{Ordering, Scope};

/// The address of an atomic cell.
#[derive(Clone, Copy)]
pub enum Place {
    /// A pointer to global memory.
    Global(u64),
    /// An address in the shared window.
    Shared(u32),
}

/// One instruction on the cell at `addr`.
macro_rules! on_cell {
    ($text:expr, $reg:ident($addr:expr), [$($args:tt)*]) => {
        asm!($text, addr = in($reg) $addr, $($args)*, options(nostack, preserves_flags))
    };
}

/// Emits `$instruction.<ordering>.<scope>.<space>.$suffix` for the place, scope and ordering at
/// hand. These are constants after inlining, so one arm is left. The orderings that an instruction
/// does not know are listed with the stronger one that takes their place.
macro_rules! ordered {
    (
        $instruction:literal, $suffix:expr, $operands:literal, $place:expr, $ordering:expr, $scope:expr,
        [$($($given:ident)|+ => $text:literal),*], $args:tt
    ) => {
        match ($place, $scope, $ordering) {
            $(
                (Place::Global(addr), Scope::Block, $(Ordering::$given)|+) => on_cell!(
                    concat!($instruction, ".", $text, ".cta.global.", $suffix, " ", $operands, ";"),
                    reg64(addr), $args
                ),
                (Place::Global(addr), Scope::Device, $(Ordering::$given)|+) => on_cell!(
                    concat!($instruction, ".", $text, ".gpu.global.", $suffix, " ", $operands, ";"),
                    reg64(addr), $args
                ),
                (Place::Shared(addr), Scope::Block, $(Ordering::$given)|+) => on_cell!(
                    concat!($instruction, ".", $text, ".cta.shared.", $suffix, " ", $operands, ";"),
                    reg32(addr), $args
                ),
                (Place::Shared(addr), Scope::Device, $(Ordering::$given)|+) => on_cell!(
                    concat!($instruction, ".", $text, ".gpu.shared.", $suffix, " ", $operands, ";"),
                    reg32(addr), $args
                ),
            )*
        }
    };
}

/// A read-modify-write that answers the old value.
macro_rules! rmw {
    ($reg:ident, $suffix:expr, $place:expr, $v:expr, $ordering:expr, $scope:expr) => {{
        let old: Self;
        // SAFETY: the caller's promise: the place is a valid, aligned cell.
        unsafe {
            ordered!(
                "atom", $suffix, "{old}, [{addr}], {v}", $place, $ordering, $scope,
                [
                    Relaxed => "relaxed", Acquire => "acquire",
                    Release => "release", AcqRel => "acq_rel"
                ],
                [old = out($reg) old, v = in($reg) $v]
            )
        }
        old
    }};
}

/// The atomics of every element type.
///
/// # Safety
/// Of every method: `place` is a valid cell of this type, aligned to its size.
#[allow(clippy::missing_safety_doc)]
pub trait Rmw: Sized {
    unsafe fn load(place: Place, ordering: Ordering, scope: Scope) -> Self;
    unsafe fn store(place: Place, v: Self, ordering: Ordering, scope: Scope);
    /// Two cells side by side in global memory, relaxed; `addr` is a multiple of their size.
    unsafe fn load_two(addr: u64) -> [Self; 2];
    /// As `load_two`.
    unsafe fn store_two(addr: u64, v: [Self; 2]);
    unsafe fn swap(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self;
    unsafe fn fetch_add(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self;
    unsafe fn reduce_add(place: Place, v: Self, ordering: Ordering, scope: Scope);
}

/// The further atomics of the integers.
///
/// # Safety
/// As of [`Rmw`].
#[allow(clippy::missing_safety_doc)]
pub trait IntRmw: Rmw {
    unsafe fn fetch_sub(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self;
    unsafe fn fetch_min(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self;
    unsafe fn fetch_max(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self;
    unsafe fn fetch_and(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self;
    unsafe fn fetch_or(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self;
    unsafe fn fetch_xor(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self;
    unsafe fn compare_exchange(
        place: Place,
        current: Self,
        new: Self,
        ordering: Ordering,
        scope: Scope,
    ) -> Self;
}

macro_rules! impl_rmw {
    ($t:ty, $reg:ident, $bits:literal, add = $add:literal) => {
        impl Rmw for $t {
            #[inline(always)]
            unsafe fn load(place: Place, ordering: Ordering, scope: Scope) -> Self {
                let v: Self;
                // SAFETY: the caller's promise.
                unsafe {
                    ordered!(
                        "ld", concat!("b", $bits), "{v}, [{addr}]", place, ordering, scope,
                        [Relaxed => "relaxed", Acquire | Release | AcqRel => "acquire"],
                        [v = out($reg) v]
                    )
                }
                v
            }

            #[inline(always)]
            unsafe fn store(place: Place, v: Self, ordering: Ordering, scope: Scope) {
                // SAFETY: the caller's promise.
                unsafe {
                    ordered!(
                        "st", concat!("b", $bits), "[{addr}], {v}", place, ordering, scope,
                        [Relaxed => "relaxed", Acquire | Release | AcqRel => "release"],
                        [v = in($reg) v]
                    )
                }
            }

            #[inline(always)]
            unsafe fn load_two(addr: u64) -> [Self; 2] {
                let (first, second): (Self, Self);
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!("ld.relaxed.gpu.global.v2.b", $bits, " {{{first}, {second}}}, [{addr}];"),
                        first = out($reg) first,
                        second = out($reg) second,
                        addr = in(reg64) addr,
                        options(nostack, preserves_flags),
                    );
                }
                [first, second]
            }

            #[inline(always)]
            unsafe fn store_two(addr: u64, [first, second]: [Self; 2]) {
                // SAFETY: the caller's promise.
                unsafe {
                    asm!(
                        concat!("st.relaxed.gpu.global.v2.b", $bits, " [{addr}], {{{first}, {second}}};"),
                        addr = in(reg64) addr,
                        first = in($reg) first,
                        second = in($reg) second,
                        options(nostack, preserves_flags),
                    );
                }
            }

            #[inline(always)]
            unsafe fn swap(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self {
                rmw!($reg, concat!("exch.b", $bits), place, v, ordering, scope)
            }

            #[inline(always)]
            unsafe fn fetch_add(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self {
                rmw!($reg, $add, place, v, ordering, scope)
            }

            /// `red` knows no acquire: it has no result to acquire by. Where one is asked for, this
            /// is an `atom` whose result is dropped.
            #[inline(always)]
            unsafe fn reduce_add(place: Place, v: Self, ordering: Ordering, scope: Scope) {
                match ordering {
                    Ordering::Acquire | Ordering::AcqRel => {
                        // SAFETY: the caller's promise.
                        unsafe { Self::fetch_add(place, v, ordering, scope) };
                    }
                    Ordering::Relaxed | Ordering::Release => {
                        // SAFETY: the caller's promise.
                        unsafe {
                            ordered!(
                                "red", $add, "[{addr}], {v}", place, ordering, scope,
                                [Relaxed => "relaxed", Acquire | Release | AcqRel => "release"],
                                [v = in($reg) v]
                            )
                        }
                    }
                }
            }
        }
    };
}
impl_rmw!(u32, reg32, "32", add = "add.u32");
impl_rmw!(i32, reg32, "32", add = "add.s32");
impl_rmw!(f32, reg32, "32", add = "add.f32");
impl_rmw!(u64, reg64, "64", add = "add.u64");
// PTX has no add.s64; two's complement makes it the same operation.
impl_rmw!(i64, reg64, "64", add = "add.u64");
impl_rmw!(f64, reg64, "64", add = "add.f64");

macro_rules! impl_int_rmw {
    ($t:ty, $reg:ident, $bits:literal, $sign:literal) => {
        impl IntRmw for $t {
            #[inline(always)]
            unsafe fn fetch_sub(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self {
                // SAFETY: the caller's promise.
                unsafe { Self::fetch_add(place, v.wrapping_neg(), ordering, scope) }
            }

            #[inline(always)]
            unsafe fn fetch_min(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self {
                rmw!($reg, concat!("min.", $sign, $bits), place, v, ordering, scope)
            }

            #[inline(always)]
            unsafe fn fetch_max(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self {
                rmw!($reg, concat!("max.", $sign, $bits), place, v, ordering, scope)
            }

            #[inline(always)]
            unsafe fn fetch_and(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self {
                rmw!($reg, concat!("and.b", $bits), place, v, ordering, scope)
            }

            #[inline(always)]
            unsafe fn fetch_or(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self {
                rmw!($reg, concat!("or.b", $bits), place, v, ordering, scope)
            }

            #[inline(always)]
            unsafe fn fetch_xor(place: Place, v: Self, ordering: Ordering, scope: Scope) -> Self {
                rmw!($reg, concat!("xor.b", $bits), place, v, ordering, scope)
            }

            #[inline(always)]
            unsafe fn compare_exchange(
                place: Place,
                current: Self,
                new: Self,
                ordering: Ordering,
                scope: Scope,
            ) -> Self {
                let old: Self;
                // SAFETY: the caller's promise.
                unsafe {
                    ordered!(
                        "atom", concat!("cas.b", $bits), "{old}, [{addr}], {current}, {new}",
                        place, ordering, scope,
                        [
                            Relaxed => "relaxed", Acquire => "acquire",
                            Release => "release", AcqRel => "acq_rel"
                        ],
                        [old = out($reg) old, current = in($reg) current, new = in($reg) new]
                    )
                }
                old
            }
        }
    };
}
impl_int_rmw!(u32, reg32, "32", "u");
impl_int_rmw!(i32, reg32, "32", "s");
impl_int_rmw!(u64, reg64, "64", "u");
impl_int_rmw!(i64, reg64, "64", "s");
