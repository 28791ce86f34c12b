//! `klu_malloc`, `klu_realloc`, `klu_free`: blocks of the C library, counted.

use std::ffi::c_void;
use std::ptr;

use crate::call::{Control, Failure, Outcome, guarded_quietly};
use crate::layout::{Common, Integer};

/// Bytes of a block of `count` items, at least one, if its size is not beyond what the integers count.
fn bytes_of<I: Integer>(count: usize, size: usize) -> Outcome<usize> {
    if size == 0 {
        return Err(Failure::Invalid);
    }
    if count as u64 >= I::MAX {
        return Err(Failure::TooLarge);
    }
    count.max(1).checked_mul(size).ok_or(Failure::TooLarge)
}

/// `klu_malloc`: null if it fails.
///
/// # Safety
///
/// `common` as [`Control::new`].
pub(crate) unsafe fn malloc<I: Integer>(
    count: usize,
    size: usize,
    common: *mut Common<I>,
) -> *mut c_void {
    // SAFETY: as the caller says; a block has at least one byte.
    unsafe {
        guarded_quietly(common, ptr::null_mut(), |control| {
            let bytes = bytes_of::<I>(count, size)?;
            let block = libc::malloc(bytes);
            if block.is_null() {
                return Err(Failure::OutOfMemory);
            }
            control.count_bytes(bytes, 0);
            Ok(block)
        })
    }
}

/// `klu_free`: always null.
///
/// # Safety
///
/// `common` as [`Control::new`]; `block` is null or a block of [`malloc`] or [`realloc`].
pub(crate) unsafe fn free<I: Integer>(
    block: *mut c_void,
    count: usize,
    size: usize,
    common: *mut Common<I>,
) -> *mut c_void {
    // SAFETY: as the caller says.
    unsafe {
        if let Some(control) = Control::new(common)
            && !block.is_null()
        {
            libc::free(block);
            control.count_bytes(0, count.max(1).saturating_mul(size));
        }
    }
    ptr::null_mut()
}

/// `klu_realloc`: a block of another size with what is in the old one; if that fails, the old one, and a status.
///
/// # Safety
///
/// As [`free`].
pub(crate) unsafe fn realloc<I: Integer>(
    (count, old_count, size): (usize, usize, usize),
    block: *mut c_void,
    common: *mut Common<I>,
) -> *mut c_void {
    if block.is_null() {
        // SAFETY: as the caller says.
        return unsafe { malloc(count, size, common) };
    }
    // SAFETY: as the caller says; a block has at least one byte.
    unsafe {
        guarded_quietly(common, block, |control| {
            let bytes = bytes_of::<I>(count, size)?;
            let moved = libc::realloc(block, bytes);
            if moved.is_null() {
                return Err(Failure::OutOfMemory);
            }
            control.count_bytes(bytes, old_count.max(1).saturating_mul(size));
            Ok(moved)
        })
    }
}
