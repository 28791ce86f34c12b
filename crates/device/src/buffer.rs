//! Typed device memory: buffers and borrowed ranges of them.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use luge_kernel::host::{ElementKind, KernelArg, KernelBuffer, KernelBufferMut};
use luge_kernel::mem::Element;

use crate::arena::ArenaSlice;
use crate::memory::{Memory, Region};

/// `len` elements of device memory, owned.
///
/// Made by a [`Stream`](crate::Stream) and freed in its order. The content is undefined until it is
/// written.
pub struct Buffer<T: Element> {
    pub(crate) memory: Arc<Memory>,
    pub(crate) len: usize,
    pub(crate) marker: PhantomData<T>,
}

/// Records in device memory, owned.
pub type RecordBuffer<R> = luge_kernel::host::RecordBuffer<Buffer<u32>, R>;

/// A range of device memory, borrowed for reading.
#[derive(Clone, Copy)]
pub struct Slice<'a, T: Element> {
    memory: &'a Arc<Memory>,
    byte_offset: usize,
    len: usize,
    marker: PhantomData<&'a T>,
}

/// A range of device memory, borrowed for writing.
pub struct SliceMut<'a, T: Element> {
    memory: &'a Arc<Memory>,
    byte_offset: usize,
    len: usize,
    marker: PhantomData<&'a mut T>,
}

mod sealed {
    pub trait Sealed {}
}

/// Device memory that a copy can read: [`Buffer`], [`Slice`], [`SliceMut`], [`ArenaSlice`].
pub trait BufferView<T: Element>: KernelBuffer<T> + sealed::Sealed {
    /// All of it.
    fn view(&self) -> Slice<'_, T>;

    /// Where it is.
    #[doc(hidden)]
    fn region(&self) -> Region<'_>;
}

/// Device memory that a copy or fill can write: [`Buffer`], [`SliceMut`], [`ArenaSlice`].
pub trait BufferViewMut<T: Element>: BufferView<T> + KernelBufferMut<T> {
    /// All of it.
    fn view_mut(&mut self) -> SliceMut<'_, T>;

    /// Where it is.
    #[doc(hidden)]
    fn region_mut(&mut self) -> Region<'_>;
}

/// Start and length of a range of elements.
#[track_caller]
fn resolve(range: impl RangeBounds<usize>, len: usize) -> Range<usize> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end + 1,
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    assert!(
        start <= end && end <= len,
        "range {start}..{end} of a buffer of {len} elements"
    );
    start..end
}

fn argument<T: Element>(region: Region<'_>, len: usize, writable: bool) -> KernelArg {
    KernelArg::Buffer {
        base: region.memory.base(),
        byte_offset: region.byte_offset as u64,
        len,
        element: ElementKind::of::<T>(),
        writable,
    }
}

macro_rules! view {
    ([$($generics:tt)*] $name:ty, |$this:ident| $offset:expr) => {
        impl<$($generics)*> sealed::Sealed for $name {}

        impl<$($generics)*> $name {
            /// Number of elements.
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// A range of elements, for reading.
            ///
            /// # Panics
            /// If the range is not within the buffer.
            #[track_caller]
            pub fn slice(&self, range: impl RangeBounds<usize>) -> Slice<'_, T> {
                let range = resolve(range, self.len);
                let region = self.region();
                Slice {
                    memory: region.memory,
                    byte_offset: region.byte_offset + range.start * size_of::<T>(),
                    len: range.len(),
                    marker: PhantomData,
                }
            }
        }

        impl<$($generics)*> KernelBuffer<T> for $name {
            fn len(&self) -> usize {
                self.len
            }

            fn kernel_arg(&self) -> KernelArg {
                argument::<T>(self.region(), self.len, false)
            }
        }

        impl<$($generics)*> BufferView<T> for $name {
            fn view(&self) -> Slice<'_, T> {
                self.slice(..)
            }

            fn region(&self) -> Region<'_> {
                let $this = self;
                Region { memory: &$this.memory, byte_offset: $offset }
            }
        }

        impl<$($generics)*> fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("element", &ElementKind::of::<T>())
                    .field("len", &self.len)
                    .finish_non_exhaustive()
            }
        }
    };
}

macro_rules! view_mut {
    ([$($generics:tt)*] $name:ty) => {
        impl<$($generics)*> $name {
            /// A range of elements, for writing.
            ///
            /// # Panics
            /// If the range is not within the buffer.
            #[track_caller]
            pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> SliceMut<'_, T> {
                let range = resolve(range, self.len);
                let region = self.region();
                SliceMut {
                    memory: region.memory,
                    byte_offset: region.byte_offset + range.start * size_of::<T>(),
                    len: range.len(),
                    marker: PhantomData,
                }
            }

            /// The elements before `mid` and those from `mid` on, both for writing.
            ///
            /// # Panics
            /// If `mid` is past the end.
            #[track_caller]
            pub fn split_at_mut(&mut self, mid: usize) -> (SliceMut<'_, T>, SliceMut<'_, T>) {
                let len = self.len;
                assert!(mid <= len, "a buffer of {len} elements split at {mid}");
                let region = self.region();
                let part = |range: Range<usize>| SliceMut {
                    memory: region.memory,
                    byte_offset: region.byte_offset + range.start * size_of::<T>(),
                    len: range.len(),
                    marker: PhantomData,
                };
                (part(0..mid), part(mid..len))
            }
        }

        impl<$($generics)*> KernelBufferMut<T> for $name {
            fn kernel_arg_mut(&mut self) -> KernelArg {
                argument::<T>(self.region(), self.len, true)
            }
        }

        impl<$($generics)*> BufferViewMut<T> for $name {
            fn view_mut(&mut self) -> SliceMut<'_, T> {
                self.slice_mut(..)
            }

            fn region_mut(&mut self) -> Region<'_> {
                self.region()
            }
        }
    };
}

impl<T: Element> Buffer<T> {
    /// The device address of the first element, for a library that takes one; `None` on the simulator and
    /// of a buffer without elements.
    ///
    /// The address is valid until the buffer is dropped. What is read or written through it is not checked
    /// against the borrows of this buffer: whoever passes it on keeps the buffer, and orders the accesses, on
    /// its stream ([`Stream::driver_stream`](crate::Stream::driver_stream)) or by waiting.
    pub fn driver_address(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.region().address())
    }
}

view!([T: Element] Buffer<T>, |_this| 0);
view_mut!([T: Element] Buffer<T>);
view!(['a, T: Element] Slice<'a, T>, |this| this.byte_offset);
view!(['a, T: Element] SliceMut<'a, T>, |this| this.byte_offset);
view_mut!(['a, T: Element] SliceMut<'a, T>);
impl<'a, T: Element> SliceMut<'a, T> {
    /// The elements before `mid` and those from `mid` on, for as long as this range was borrowed.
    ///
    /// # Panics
    /// If `mid` is past the end.
    #[track_caller]
    pub fn into_split_at(self, mid: usize) -> (Self, Self) {
        let len = self.len;
        assert!(mid <= len, "a buffer of {len} elements split at {mid}");
        let part = |range: Range<usize>| Self {
            memory: self.memory,
            byte_offset: self.byte_offset + range.start * size_of::<T>(),
            len: range.len(),
            marker: PhantomData,
        };
        (part(0..mid), part(mid..len))
    }

    /// The same bytes as elements of another type.
    ///
    /// # Panics
    /// If the bytes are not whole elements, or do not start at a multiple of one.
    #[track_caller]
    pub fn into_elements<U: Element>(self) -> SliceMut<'a, U> {
        SliceMut {
            memory: self.memory,
            byte_offset: self.byte_offset,
            len: num_elements::<U>(self.byte_offset, self.len * size_of::<T>()),
            marker: PhantomData,
        }
    }
}

impl<'a, T: Element> Slice<'a, T> {
    /// The same bytes as elements of another type.
    ///
    /// # Panics
    /// If the bytes are not whole elements, or do not start at a multiple of one.
    #[track_caller]
    pub fn into_elements<U: Element>(self) -> Slice<'a, U> {
        Slice {
            memory: self.memory,
            byte_offset: self.byte_offset,
            len: num_elements::<U>(self.byte_offset, self.len * size_of::<T>()),
            marker: PhantomData,
        }
    }
}

/// How many elements so many bytes from an offset are.
///
/// # Panics
/// If they are not whole elements.
#[track_caller]
fn num_elements<U: Element>(byte_offset: usize, bytes: usize) -> usize {
    assert!(
        bytes.is_multiple_of(size_of::<U>()) && byte_offset.is_multiple_of(size_of::<U>()),
        "{bytes} bytes from byte {byte_offset} are not elements of {} bytes",
        size_of::<U>()
    );
    bytes / size_of::<U>()
}

view!([T: Element] ArenaSlice<T>, |this| this.byte_offset);
view_mut!([T: Element] ArenaSlice<T>);
