//! Atomic cells with ordering and scope.
//!
//! An atomic access never races with another atomic access of the same cell whose scope includes
//! it; it does race with an unordered plain access. `Relaxed` makes the access atomic and nothing
//! more; `Release` publishes what happened before it to whoever reads the value with `Acquire`,
//! when the scope of each side includes the other.
//!
//! Complex numbers have no atomic accesses: the chip adds numbers one by one, and a sum of complex numbers whose
//! components were added apart is read half done. An attempt does not compile:
//!
//! ```compile_fail,E0599
//! use luge_kernel::prelude::*;
//!
//! fn add(sums: GlobalMut<Complex<f64>>, term: Complex<f64>) {
//!     sums.atomic(0).reduce_add(term, Ordering::Relaxed, Scope::Device);
//! }
//! ```
//!
//! Of real numbers it does:
//!
//! ```
//! use luge_kernel::prelude::*;
//!
//! fn add(sums: GlobalMut<f64>, term: f64) {
//!     sums.atomic(0).reduce_add(term, Ordering::Relaxed, Scope::Device);
//! }
//! ```

use crate::element::{AtomicElement, IntElement};
use crate::imp;

/// How an atomic access orders the other accesses of its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// Atomic, orders nothing.
    Relaxed,
    /// What the release side did before is visible after (loads and read-modify-writes).
    Acquire,
    /// What this thread did before is visible to the acquire side (stores and
    /// read-modify-writes).
    Release,
    /// Both (read-modify-writes).
    AcqRel,
}

/// Between which threads an atomic access or a fence is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The threads of the block (PTX `.cta`).
    Block,
    /// All threads of the device (PTX `.gpu`).
    Device,
}

/// One element of writable memory, accessed atomically.
#[derive(Clone, Copy)]
pub struct Atomic<T: AtomicElement>(pub(crate) imp::RawAtomic<T>);

impl<T: AtomicElement> Atomic<T> {
    /// Reads; `ordering` is `Relaxed` or `Acquire`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn load(self, ordering: Ordering, scope: Scope) -> T {
        self.0.load(ordering, scope)
    }

    /// Writes; `ordering` is `Relaxed` or `Release`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn store(self, v: T, ordering: Ordering, scope: Scope) {
        self.0.store(v, ordering, scope);
    }

    /// Writes `v`, answers the old value.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn swap(self, v: T, ordering: Ordering, scope: Scope) -> T {
        self.0.swap(v, ordering, scope)
    }

    /// Adds `v` (integers wrap), answers the old value.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn fetch_add(self, v: T, ordering: Ordering, scope: Scope) -> T {
        self.0.fetch_add(v, ordering, scope)
    }

    /// Adds `v` (integers wrap) where the old value is not wanted: a reduction (PTX `red`).
    /// `ordering` is `Relaxed` or `Release`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn reduce_add(self, v: T, ordering: Ordering, scope: Scope) {
        self.0.reduce_add(v, ordering, scope);
    }
}

macro_rules! integer_rmw {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        impl<T: IntElement> Atomic<T> {
            $(
                $(#[$doc])*
                #[inline(always)]
                #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
                pub fn $name(self, v: T, ordering: Ordering, scope: Scope) -> T {
                    self.0.$name(v, ordering, scope)
                }
            )*

            /// Writes `new` if the value is `current`. Answers the old value: it succeeded exactly
            /// if that equals `current`. A failure is a load with the acquire half of `ordering`.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn compare_exchange(self, current: T, new: T, ordering: Ordering, scope: Scope) -> T {
                self.0.compare_exchange(current, new, ordering, scope)
            }
        }
    };
}
integer_rmw! {
    /// Subtracts `v`, wrapping; answers the old value.
    fetch_sub,
    /// Writes the minimum of the value and `v`; answers the old value.
    fetch_min,
    /// Writes the maximum of the value and `v`; answers the old value.
    fetch_max,
    /// Writes the bitwise and; answers the old value.
    fetch_and,
    /// Writes the bitwise or; answers the old value.
    fetch_or,
    /// Writes the bitwise exclusive or; answers the old value.
    fetch_xor,
}
