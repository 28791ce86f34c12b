//! Arrays of Fortran callers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use crate::failure::Failure;

/// Numbers in INFO.
pub(crate) const NUM_INFO: usize = 40;

/// Numbers in RINFO.
pub(crate) const NUM_RINFO: usize = 20;

/// The number at an address.
///
/// # Errors
///
/// -14 if there is none.
///
/// # Safety
///
/// `at` is null or the address of a number.
pub(crate) unsafe fn number<T: Copy>(at: *const T) -> Result<T, Failure> {
    if at.is_null() {
        return Err(Failure::state());
    }
    // SAFETY: the address of a number, as this function requires.
    Ok(unsafe { *at })
}

/// As many numbers at an address.
///
/// # Errors
///
/// -14 if there are none.
///
/// # Safety
///
/// `at` is null or the address of `len` numbers, which nobody changes as long as the result is there.
pub(crate) unsafe fn array<'a, T>(at: *const T, len: usize) -> Result<&'a [T], Failure> {
    match (at.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::state()),
        // SAFETY: as many numbers, as this function requires.
        (false, len) => Ok(unsafe { slice::from_raw_parts(at, len) }),
    }
}

/// As many numbers at an address, to be changed.
///
/// # Errors
///
/// -14 if there are none.
///
/// # Safety
///
/// `at` is null or the address of `len` numbers that nobody else uses as long as the result is there.
pub(crate) unsafe fn array_mut<'a, T>(at: *mut T, len: usize) -> Result<&'a mut [T], Failure> {
    match (at.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Failure::state()),
        // SAFETY: as many numbers that are ours, as this function requires.
        (false, len) => Ok(unsafe { slice::from_raw_parts_mut(at, len) }),
    }
}

/// A size that is at least `least`.
///
/// # Errors
///
/// `flag` with the size.
pub(crate) fn size(given: i32, least: usize, flag: i32) -> Result<usize, Failure> {
    match usize::try_from(given) {
        Ok(size) if size >= least => Ok(size),
        _ => Err(Failure::new(flag, given)),
    }
}

/// Entries of INFO, counted from 1, and what they become.
pub(crate) type Entries = Vec<(usize, i32)>;

/// Runs a call, and writes what it returns to INFO: INFO(1) and INFO(2), which are 0 unless the call says otherwise, and the
/// entries that it names; or why it failed. A panic is a failure.
///
/// # Safety
///
/// `info` is null or the address of 40 integers that nobody uses while they are written.
pub(crate) unsafe fn guarded(info: *mut i32, call: impl FnOnce() -> Result<Entries, Failure>) {
    // What a panic leaves half done is forgotten.
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(Failure::state()));
    let entries = outcome.unwrap_or_else(|failure| failure.entries());
    if info.is_null() {
        return;
    }
    for (at, value) in [(1, 0), (2, 0)].into_iter().chain(entries) {
        debug_assert!((1..=NUM_INFO).contains(&at));
        // SAFETY: INFO has so many integers.
        unsafe { *info.add(at - 1) = value };
    }
}
