//! Memory of the simulated device.
//!
//! An [`Allocation`] is what an allocation of the device is: bytes with an address of their own,
//! uninitialised until somebody writes them. It carries the simulator's shadow: which 4-byte
//! granules were ever written, and during a launch who accessed each cell last. The shadow belongs
//! to the allocation, so sub-slices and arenas are tracked exactly.
//!
//! A launch holds the lock of each allocation that it was given, so host accesses from other
//! operating-system threads wait for it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::boxed::Box;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::string::String;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec;
use std::vec::Vec;

use super::shadow::Cell;
use crate::element::Element;
use crate::host::{BufferBase, ElementKind, KernelArg, KernelBuffer, KernelBufferMut};

/// Bytes of a granule, the unit in which initialisation is tracked.
pub(crate) const GRANULE: usize = 4;

/// Memory of the simulated device; a clone is the same memory.
#[derive(Clone)]
pub struct Allocation(Arc<Inner>);

struct Inner {
    id: u64,
    name: String,
    bytes: usize,
    /// Of `bytes` bytes rounded up to 8, never null, aligned to 256. Accessed under `state`'s lock
    /// alone.
    data: NonNull<u8>,
    state: Mutex<State>,
}

// SAFETY: `data` is owned and accessed only while `state` is locked.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// What is known about the memory of an allocation.
pub(crate) struct State {
    /// Which granules were written.
    pub init: InitMap,
    /// Cells of the race check, made when a launch first tracks the allocation.
    pub cells: Box<[Cell]>,
}

/// One bit a granule: written or not. Complete maps hold no bits.
pub(crate) struct InitMap {
    bits: Vec<u64>,
    missing: usize,
}

impl InitMap {
    fn unwritten(granules: usize) -> InitMap {
        InitMap {
            bits: vec![0; granules.div_ceil(64)],
            missing: granules,
        }
    }

    fn written() -> InitMap {
        InitMap {
            bits: Vec::new(),
            missing: 0,
        }
    }

    /// Whether all was written.
    #[inline(always)]
    pub fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Declares all written.
    pub fn complete(&mut self) {
        *self = InitMap::written();
    }

    /// Whether granule `g` was written.
    #[inline]
    pub fn get(&self, g: usize) -> bool {
        self.missing == 0 || self.bits[g / 64] >> (g % 64) & 1 == 1
    }

    /// Declares granule `g` written.
    #[inline]
    pub fn set(&mut self, g: usize) {
        if self.missing == 0 {
            return;
        }
        let word = &mut self.bits[g / 64];
        let bit = 1u64 << (g % 64);
        if *word & bit == 0 {
            *word |= bit;
            self.missing -= 1;
            if self.missing == 0 {
                self.bits = Vec::new();
            }
        }
    }

    fn set_range(&mut self, granules: std::ops::Range<usize>, value: bool, total: usize) {
        if granules.is_empty() || (value && self.missing == 0) {
            return;
        }
        if granules.len() == total {
            *self = if value {
                InitMap::written()
            } else {
                InitMap::unwritten(total)
            };
            return;
        }
        if self.missing == 0 {
            self.bits = vec![u64::MAX; total.div_ceil(64)];
        }
        for word in granules.start / 64..granules.end.div_ceil(64) {
            let low = granules.start.saturating_sub(word * 64);
            let high = (granules.end - word * 64).min(64);
            let mask = (u64::MAX << low) & (u64::MAX >> (64 - high));
            let old = self.bits[word];
            if value {
                self.missing -= (!old & mask).count_ones() as usize;
                self.bits[word] |= mask;
            } else {
                self.missing += (old & mask).count_ones() as usize;
                self.bits[word] &= !mask;
            }
        }
        if self.missing == 0 {
            self.bits = Vec::new();
        }
    }

    fn first_unwritten(&self, granules: std::ops::Range<usize>) -> Option<usize> {
        if self.missing == 0 {
            return None;
        }
        granules.into_iter().find(|&g| !self.get(g))
    }
}

/// The granules that a byte range touches.
fn granules(byte_offset: usize, len: usize) -> std::ops::Range<usize> {
    if len == 0 {
        return 0..0;
    }
    byte_offset / GRANULE..(byte_offset + len).div_ceil(GRANULE)
}

impl Allocation {
    /// `bytes` bytes that count as not written (they are zero).
    pub fn uninitialized(name: impl Into<String>, bytes: usize) -> Allocation {
        Allocation::with_init(
            name.into(),
            bytes,
            InitMap::unwritten(bytes.div_ceil(GRANULE)),
        )
    }

    /// `bytes` bytes of zeros that count as written.
    pub fn zeroed(name: impl Into<String>, bytes: usize) -> Allocation {
        Allocation::with_init(name.into(), bytes, InitMap::written())
    }

    fn with_init(name: String, bytes: usize, init: InitMap) -> Allocation {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let layout = Inner::layout(bytes);
        // SAFETY: the layout is not of size zero.
        let data = unsafe { alloc_zeroed(layout) };
        let Some(data) = NonNull::new(data) else {
            handle_alloc_error(layout)
        };
        Allocation(Arc::new(Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            bytes,
            data,
            state: Mutex::new(State {
                init,
                cells: Box::default(),
            }),
        }))
    }

    /// Its name, for the reader of a report.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// A number that no other allocation of the process has.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Writes `src` at `byte_offset`.
    ///
    /// # Panics
    ///
    /// If the range does not lie in the allocation.
    #[track_caller]
    pub fn write(&self, byte_offset: usize, src: &[u8]) {
        self.check_range(byte_offset, src.len());
        let mut state = self.lock();
        // SAFETY: the range lies in the allocation, which the lock makes ours.
        unsafe {
            self.data()
                .add(byte_offset)
                .copy_from_nonoverlapping(src.as_ptr(), src.len());
        }
        self.mark(&mut state, byte_offset, src.len(), true);
    }

    /// Writes `value` to each of `len` bytes from `byte_offset`.
    ///
    /// # Panics
    ///
    /// If the range does not lie in the allocation.
    #[track_caller]
    pub fn fill(&self, byte_offset: usize, len: usize, value: u8) {
        self.check_range(byte_offset, len);
        let mut state = self.lock();
        // SAFETY: the range lies in the allocation, which the lock makes ours.
        unsafe { self.data().add(byte_offset).write_bytes(value, len) };
        self.mark(&mut state, byte_offset, len, true);
    }

    /// Reads `dst.len()` bytes from `byte_offset`. Bytes that nobody wrote are zero; see
    /// [`Allocation::first_unwritten`].
    ///
    /// # Panics
    ///
    /// If the range does not lie in the allocation.
    #[track_caller]
    pub fn read(&self, byte_offset: usize, dst: &mut [u8]) {
        self.check_range(byte_offset, dst.len());
        let _state = self.lock();
        // SAFETY: the range lies in the allocation, which the lock makes ours.
        unsafe {
            dst.as_mut_ptr()
                .copy_from_nonoverlapping(self.data().add(byte_offset), dst.len());
        }
    }

    /// Copies `len` bytes from `src` at `src_offset` to here at `byte_offset`, and with them
    /// whether they were written. The ranges may overlap.
    ///
    /// # Panics
    ///
    /// If a range does not lie in its allocation.
    #[track_caller]
    pub fn copy_from(&self, byte_offset: usize, src: &Allocation, src_offset: usize, len: usize) {
        self.check_range(byte_offset, len);
        src.check_range(src_offset, len);
        if self.id() == src.id() {
            let mut state = self.lock();
            let written: Vec<bool> = granules(src_offset, len)
                .map(|g| state.init.get(g))
                .collect();
            // SAFETY: both ranges lie in the allocation, which the lock makes ours.
            unsafe {
                self.data()
                    .add(src_offset)
                    .copy_to(self.data().add(byte_offset), len);
            }
            self.mark_each(&mut state, byte_offset, len, &written);
            return;
        }
        let (first, second) = if self.id() < src.id() {
            (self, src)
        } else {
            (src, self)
        };
        let (first_state, second_state) = (first.lock(), second.lock());
        let (mut state, src_state) = if self.id() < src.id() {
            (first_state, second_state)
        } else {
            (second_state, first_state)
        };
        // SAFETY: both ranges lie in their allocations, which the locks make ours.
        unsafe {
            src.data()
                .add(src_offset)
                .copy_to_nonoverlapping(self.data().add(byte_offset), len);
        }
        if src_state.init.is_complete() {
            self.mark(&mut state, byte_offset, len, true);
        } else {
            let written: Vec<bool> = granules(src_offset, len)
                .map(|g| src_state.init.get(g))
                .collect();
            self.mark_each(&mut state, byte_offset, len, &written);
        }
    }

    /// Offset of the first byte of the range that nobody wrote (to 4 bytes).
    ///
    /// # Panics
    ///
    /// If the range does not lie in the allocation.
    #[track_caller]
    pub fn first_unwritten(&self, byte_offset: usize, len: usize) -> Option<usize> {
        self.check_range(byte_offset, len);
        self.lock()
            .init
            .first_unwritten(granules(byte_offset, len))
            .map(|g| (g * GRANULE).max(byte_offset))
    }

    /// Declares the range not written again, as a fresh allocation is: for allocators that hand
    /// out parts of it.
    ///
    /// # Panics
    ///
    /// If the range does not lie in the allocation, or is not of whole 4-byte granules.
    #[track_caller]
    pub fn forget(&self, byte_offset: usize, len: usize) {
        self.check_range(byte_offset, len);
        let end = byte_offset + len;
        assert!(
            byte_offset.is_multiple_of(GRANULE)
                && (end.is_multiple_of(GRANULE) || end == self.bytes()),
            "bytes {byte_offset}..{end} are not whole granules"
        );
        let mut state = self.lock();
        self.mark(&mut state, byte_offset, len, false);
    }

    /// The launch argument for `len` elements of `T` from `byte_offset`.
    pub fn arg<T: Element>(&self, byte_offset: usize, len: usize, writable: bool) -> KernelArg {
        KernelArg::Buffer {
            base: BufferBase::Simulated(self.clone()),
            byte_offset: byte_offset as u64,
            len,
            element: ElementKind::of::<T>(),
            writable,
        }
    }

    /// Start of the memory; to be accessed under the lock alone.
    pub(crate) fn data(&self) -> *mut u8 {
        self.0.data.as_ptr()
    }

    /// Takes the memory and its shadow.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves every granule in some valid state.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    fn check_range(&self, byte_offset: usize, len: usize) {
        assert!(
            byte_offset
                .checked_add(len)
                .is_some_and(|end| end <= self.bytes()),
            "{len} bytes from {byte_offset} do not lie in the {} bytes of `{}`",
            self.bytes(),
            self.name()
        );
    }

    fn mark(&self, state: &mut State, byte_offset: usize, len: usize, value: bool) {
        let total = self.bytes().div_ceil(GRANULE);
        state
            .init
            .set_range(granules(byte_offset, len), value, total);
    }

    fn mark_each(&self, state: &mut State, byte_offset: usize, len: usize, written: &[bool]) {
        for (g, &value) in granules(byte_offset, len).zip(written) {
            self.mark(state, g * GRANULE, 1, value);
        }
    }
}

impl Inner {
    fn layout(bytes: usize) -> Layout {
        // At least 8, so that the layout is never empty and a 64-bit cell never overhangs.
        let size = bytes.max(1).next_multiple_of(8);
        Layout::from_size_align(size, 256).expect("an allocation of less than isize::MAX bytes")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `with_init`.
        unsafe { dealloc(self.data.as_ptr(), Inner::layout(self.bytes)) };
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation")
            .field("id", &self.id())
            .field("name", &self.name())
            .field("bytes", &self.bytes())
            .finish()
    }
}

/// A whole allocation as `len` elements of `T`: what tests of kernels launch on.
#[derive(Clone, Debug)]
pub struct Buffer<T: Element> {
    allocation: Allocation,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    /// `len` elements that nobody wrote.
    pub fn uninitialized(name: &str, len: usize) -> Buffer<T> {
        Buffer::new(Allocation::uninitialized(name, len * size_of::<T>()), len)
    }

    /// `len` zeros.
    pub fn zeroed(name: &str, len: usize) -> Buffer<T> {
        Buffer::new(Allocation::zeroed(name, len * size_of::<T>()), len)
    }

    /// The elements of `values`.
    pub fn from_slice(name: &str, values: &[T]) -> Buffer<T> {
        let buffer = Buffer::uninitialized(name, values.len());
        buffer.allocation.write(0, as_bytes(values));
        buffer
    }

    fn new(allocation: Allocation, len: usize) -> Buffer<T> {
        Buffer {
            allocation,
            len,
            element: PhantomData,
        }
    }

    /// The memory.
    pub fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// All elements.
    pub fn to_vec(&self) -> Vec<T> {
        let mut out = Vec::<T>::with_capacity(self.len);
        let bytes = self.len * size_of::<T>();
        // SAFETY: the capacity is `bytes` bytes, zeros make valid elements, and any bytes do.
        unsafe {
            out.as_mut_ptr().write_bytes(0, self.len);
            let view = std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<u8>(), bytes);
            self.allocation.read(0, view);
            out.set_len(self.len);
        }
        out
    }

    /// Overwrites all elements.
    ///
    /// # Panics
    ///
    /// If `values` has another length.
    #[track_caller]
    pub fn copy_from_slice(&mut self, values: &[T]) {
        assert_eq!(values.len(), self.len, "lengths differ");
        self.allocation.write(0, as_bytes(values));
    }
}

/// The bytes of elements.
fn as_bytes<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: elements are numbers without padding; the range is that of the slice.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) }
}

impl<T: Element> KernelBuffer<T> for Buffer<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn kernel_arg(&self) -> KernelArg {
        self.allocation.arg::<T>(0, self.len, false)
    }
}

impl<T: Element> KernelBufferMut<T> for Buffer<T> {
    fn kernel_arg_mut(&mut self) -> KernelArg {
        self.allocation.arg::<T>(0, self.len, true)
    }
}
