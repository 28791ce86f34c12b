//! Memory handles: global memory passed to a launch, and the shared memory of a block.
//!
//! A handle is a pointer with a length, copied freely. On the chip accesses are not checked: an
//! index at or past `len` is undefined behaviour there, which the kernel's preconditions must
//! exclude. The simulator checks each access (bounds, initialisation, races) and names the line.

use crate::atomic::Atomic;
pub use crate::element::{AtomicElement, Element, IntElement};
use crate::imp;

/// Global memory that nobody writes during the launch.
#[derive(Clone, Copy)]
pub struct Global<T: Element>(pub(crate) imp::RawGlobal<T>);

/// Global memory that this launch may write.
#[derive(Clone, Copy)]
pub struct GlobalMut<T: Element>(pub(crate) imp::RawGlobalMut<T>);

/// Shared memory of the running block. Its content is undefined at the start of the block.
#[derive(Clone, Copy)]
pub struct Shared<T: Element>(pub(crate) imp::RawShared<T>);

impl<T: Element> Global<T> {
    /// Number of elements.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Element `i`; requires `i < len`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn get(self, i: usize) -> T {
        self.0.get(i)
    }
}

macro_rules! writable {
    ($handle:ident) => {
        impl<T: Element> $handle<T> {
            /// Number of elements.
            #[inline(always)]
            pub fn len(self) -> usize {
                self.0.len()
            }

            /// Whether there are no elements.
            #[inline(always)]
            pub fn is_empty(self) -> bool {
                self.len() == 0
            }

            /// Element `i`; requires `i < len`, and that no other thread writes it unordered.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn get(self, i: usize) -> T {
                self.0.get(i)
            }

            /// Writes element `i`; requires `i < len`, and that no other thread accesses it
            /// unordered.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn set(self, i: usize, v: T) {
                self.0.set(i, v);
            }
        }

        impl<T: AtomicElement> $handle<T> {
            /// Element `i` as an atomic cell; requires `i < len`.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn atomic(self, i: usize) -> Atomic<T> {
                Atomic(self.0.atomic(i))
            }
        }
    };
}
writable!(GlobalMut);
writable!(Shared);

impl<T: AtomicElement> GlobalMut<T> {
    /// Elements `i` and `i + 1`, each read atomically for itself, relaxed, between the threads of the device: one access for
    /// both (PTX `.v2`). Requires that `i` is even, `i + 1 < len`, and that the memory begins at a multiple of two elements.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn load_two(self, i: usize) -> [T; 2] {
        self.0.load_two(i)
    }

    /// Writes elements `i` and `i + 1`, as [`load_two`](Self::load_two) reads them and with its requirements.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn store_two(self, i: usize, v: [T; 2]) {
        self.0.store_two(i, v);
    }
}

/// Dynamic shared memory: `len` elements from `byte_offset` of the `shared_bytes` of the launch.
///
/// `byte_offset` must be a multiple of the element size, and the range must lie within
/// `LaunchConfig::shared_bytes`. Views may overlap; they are the same memory.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn dynamic_shared<T: Element>(byte_offset: usize, len: usize) -> Shared<T> {
    Shared(imp::dynamic_shared(byte_offset, len))
}
