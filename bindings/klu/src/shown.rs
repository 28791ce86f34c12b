//! Memory whose address callers know.

use std::ptr::NonNull;

/// A structure whose address callers know, and may write to.
pub(crate) struct Public<S>(NonNull<S>);

impl<S> Public<S> {
    pub(crate) fn new(structure: S) -> Self {
        Self(NonNull::from(Box::leak(Box::new(structure))))
    }

    pub(crate) fn pointer(&self) -> *mut S {
        self.0.as_ptr()
    }
}

impl<S> Drop for Public<S> {
    fn drop(&mut self) {
        // SAFETY: `new` made it from a box, and nothing else frees it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: what is behind the pointer is for the caller; calls on one object write to it one after another.
unsafe impl<S> Send for Public<S> {}
// SAFETY: as above.
unsafe impl<S> Sync for Public<S> {}

/// An array that callers read, and may write to: nothing depends on what is in it.
pub(crate) struct Shown<T>(NonNull<[T]>);

impl<T: Copy> Shown<T> {
    pub(crate) fn new(values: impl Into<Box<[T]>>) -> Self {
        Self(NonNull::from(Box::leak(values.into())))
    }

    pub(crate) fn pointer(&self) -> *mut T {
        self.0.as_ptr().cast()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * size_of::<T>()
    }

    /// Writes anew what is there, as far as there are `values`.
    pub(crate) fn write(&self, values: impl Iterator<Item = T>) {
        for (at, value) in (0..self.0.len()).zip(values) {
            // SAFETY: `at` is in the array, and the caller reads it between calls alone.
            unsafe { self.pointer().add(at).write(value) };
        }
    }
}

impl<T> Drop for Shown<T> {
    fn drop(&mut self) {
        // SAFETY: `new` made it from a box, and nothing else frees it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: as for `Public`.
unsafe impl<T: Send> Send for Shown<T> {}
// SAFETY: as for `Public`.
unsafe impl<T: Sync> Sync for Shown<T> {}
