//! The handles: a pointer or shared address, and a length that nothing here checks.

use core::arch::{asm, global_asm};
use core::marker::PhantomData;

use super::atomic::Place;
use super::element::{AtomicElementImp, ElementImp, IntElementImp};
use crate::atomic::{Ordering, Scope};

/// Global memory that nobody writes during the launch.
#[derive(Clone, Copy)]
pub struct RawGlobal<T> {
    ptr: *const T,
    len: u64,
}

impl<T: ElementImp> RawGlobal<T> {
    /// # Safety
    /// `ptr` is a multiple of the element's size, and valid for reads of `len` elements during the launch, in which
    /// nobody writes them.
    #[inline(always)]
    pub unsafe fn from_parts(ptr: *const T, len: u64) -> Self {
        Self { ptr, len }
    }

    #[inline(always)]
    pub fn len(self) -> usize {
        self.len as usize
    }

    #[inline(always)]
    pub fn get(self, i: usize) -> T {
        // SAFETY: `i < len` is the kernel's promise; the rest is that of `from_parts`.
        unsafe { T::load_read_only(self.ptr.add(i)) }
    }
}

/// Global memory that this launch may write.
#[derive(Clone, Copy)]
pub struct RawGlobalMut<T> {
    ptr: *mut T,
    len: u64,
}

impl<T: ElementImp> RawGlobalMut<T> {
    /// # Safety
    /// `ptr` is a multiple of the element's size, and valid for reads and writes of `len` elements during the launch.
    #[inline(always)]
    pub unsafe fn from_parts(ptr: *mut T, len: u64) -> Self {
        Self { ptr, len }
    }

    #[inline(always)]
    pub fn len(self) -> usize {
        self.len as usize
    }

    #[inline(always)]
    pub fn get(self, i: usize) -> T {
        // SAFETY: `i < len` is the kernel's promise; the rest is that of `from_parts`.
        unsafe {
            if T::IS_PAIR {
                return T::load_pair(self.ptr.add(i));
            }
            self.ptr.add(i).read()
        }
    }

    #[inline(always)]
    pub fn set(self, i: usize, v: T) {
        // SAFETY: as in `get`.
        unsafe {
            if T::IS_PAIR {
                return T::store_pair(self.ptr.add(i), v);
            }
            self.ptr.add(i).write(v)
        }
    }
}

impl<T: AtomicElementImp> RawGlobalMut<T> {
    #[inline(always)]
    pub fn atomic(self, i: usize) -> RawAtomic<T> {
        // SAFETY: as in `get`.
        let ptr = unsafe { self.ptr.add(i) };
        RawAtomic {
            place: Place::Global(ptr as u64),
            element: PhantomData,
        }
    }

    #[inline(always)]
    pub fn load_two(self, i: usize) -> [T; 2] {
        // SAFETY: `i + 1 < len` and the alignment are the kernel's promise; the rest is that of `from_parts`.
        unsafe { T::load_two(self.ptr.add(i) as u64) }
    }

    #[inline(always)]
    pub fn store_two(self, i: usize, v: [T; 2]) {
        // SAFETY: as in `load_two`.
        unsafe { T::store_two(self.ptr.add(i) as u64, v) }
    }
}

/// Shared memory of the block.
#[derive(Clone, Copy)]
pub struct RawShared<T> {
    addr: u32,
    len: u32,
    element: PhantomData<*mut T>,
}

impl<T: ElementImp> RawShared<T> {
    /// # Safety
    /// `addr`, a multiple of the element's size, is where an array of `len` elements starts in the shared window.
    #[inline(always)]
    pub unsafe fn from_parts(addr: u32, len: usize) -> Self {
        Self {
            addr,
            len: len as u32,
            element: PhantomData,
        }
    }

    #[inline(always)]
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Where element `i` is. A block's shared memory is far below 4 GiB: 32 bits hold its offsets.
    #[inline(always)]
    fn address(self, i: usize) -> u32 {
        self.addr
            .wrapping_add((i as u32).wrapping_mul(size_of::<T>() as u32))
    }

    #[inline(always)]
    pub fn get(self, i: usize) -> T {
        // SAFETY: `i < len` is the kernel's promise; the rest is that of `from_parts`.
        unsafe { T::load_shared(self.address(i)) }
    }

    #[inline(always)]
    pub fn set(self, i: usize, v: T) {
        // SAFETY: as in `get`.
        unsafe { T::store_shared(self.address(i), v) }
    }
}

impl<T: AtomicElementImp> RawShared<T> {
    #[inline(always)]
    pub fn atomic(self, i: usize) -> RawAtomic<T> {
        RawAtomic {
            place: Place::Shared(self.address(i)),
            element: PhantomData,
        }
    }
}

/// One cell, accessed atomically.
#[derive(Clone, Copy)]
pub struct RawAtomic<T> {
    place: Place,
    element: PhantomData<*mut T>,
}

impl<T: AtomicElementImp> RawAtomic<T> {
    #[inline(always)]
    pub fn load(self, ordering: Ordering, scope: Scope) -> T {
        // SAFETY: the place is a cell of a handle, valid by the kernel's promise `i < len`.
        unsafe { T::load(self.place, ordering, scope) }
    }

    #[inline(always)]
    pub fn store(self, v: T, ordering: Ordering, scope: Scope) {
        // SAFETY: as in `load`.
        unsafe { T::store(self.place, v, ordering, scope) }
    }

    #[inline(always)]
    pub fn reduce_add(self, v: T, ordering: Ordering, scope: Scope) {
        // SAFETY: as in `load`.
        unsafe { T::reduce_add(self.place, v, ordering, scope) }
    }
}

macro_rules! rmw {
    ($bound:ident: $($name:ident),*) => {
        impl<T: $bound> RawAtomic<T> {
            $(
                #[inline(always)]
                pub fn $name(self, v: T, ordering: Ordering, scope: Scope) -> T {
                    // SAFETY: as in `load`.
                    unsafe { T::$name(self.place, v, ordering, scope) }
                }
            )*
        }
    };
}
rmw!(AtomicElementImp: swap, fetch_add);
rmw!(IntElementImp: fetch_sub, fetch_min, fetch_max, fetch_and, fetch_or, fetch_xor);

impl<T: IntElementImp> RawAtomic<T> {
    #[inline(always)]
    pub fn compare_exchange(self, current: T, new: T, ordering: Ordering, scope: Scope) -> T {
        // SAFETY: as in `load`.
        unsafe { T::compare_exchange(self.place, current, new, ordering, scope) }
    }
}

// The driver sizes this array at each launch. All kernels share the one name.
global_asm!(".extern .shared .align 16 .b8 __luge_dynamic_shared[];");

#[inline(always)]
pub fn dynamic_shared<T: ElementImp>(byte_offset: usize, len: usize) -> RawShared<T> {
    let base: u32;
    // SAFETY: the address of a symbol is a constant.
    unsafe {
        asm!(
            "mov.u32 {base}, __luge_dynamic_shared;",
            base = out(reg32) base,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    // SAFETY: that the range lies within the launch's shared bytes is the kernel's promise.
    unsafe { RawShared::from_parts(base.wrapping_add(byte_offset as u32), len) }
}
