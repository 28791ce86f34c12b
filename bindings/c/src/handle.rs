//! Handles that are checked before they are used, structures that can grow, and where panics end.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use crate::status::{Failure, Outcome, luge_status, record};

/// Runs a call. A failure, and a panic, becomes the code that is returned and the last error of this thread.
pub(crate) fn guarded(call: impl FnOnce() -> Outcome) -> luge_status {
    // What a panic may leave half done is behind a lock that is poisoned then.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => luge_status::LUGE_OK,
        Ok(Err(failure)) => record(failure),
        Err(payload) => record(Failure::of_panic(&*payload)),
    }
}

/// A type that C knows by its pointers alone; these point to a [`Tagged`] of its state.
pub(crate) trait Handle {
    /// What is behind it. Any thread may use it, and several may read it at once.
    type State: Send + Sync;
    /// What the memory of such a handle starts with.
    const TAG: u64;
    /// The name in C.
    const NAME: &'static str;
}

/// What a handle points to. `repr(C)`, so that the tag can be looked at before the kind of handle is known.
#[repr(C)]
struct Tagged<S> {
    tag: u64,
    state: S,
}

/// A new handle. Whoever gets it frees it by [`free`].
fn create<H: Handle>(state: H::State) -> *mut H {
    let tagged = Tagged { tag: H::TAG, state };
    Box::into_raw(Box::new(tagged)).cast()
}

/// Refuses a pointer that is NULL, not aligned, or of another kind of handle.
///
/// # Safety
///
/// `handle` is NULL, not aligned to eight bytes, or points to at least eight bytes that can be read.
unsafe fn check<H: Handle>(handle: *const H, name: &str) -> Outcome {
    if handle.is_null() {
        return Err(Failure::null(name));
    }
    let tag: *const u64 = handle.cast();
    // SAFETY: the caller says that there are eight bytes, and they are aligned.
    if !tag.is_aligned() || unsafe { tag.read() } != H::TAG {
        return Err(Failure::new(
            luge_status::LUGE_ERROR_HANDLE,
            format!("`{name}` is not a {}", H::NAME),
        ));
    }
    Ok(())
}

/// The state of a handle, for the time of a call.
///
/// # Safety
///
/// As [`check`]; and a handle is not freed while a call uses it.
pub(crate) unsafe fn state<'a, H: Handle>(handle: *const H, name: &str) -> Outcome<&'a H::State> {
    // SAFETY: as the caller says.
    unsafe { check(handle, name) }?;
    // SAFETY: the tag says that `create` made it, and it is not freed yet.
    Ok(&unsafe { &*handle.cast::<Tagged<H::State>>() }.state)
}

/// Puts a new handle, which `make` makes the state of, to `out`; NULL if it fails.
///
/// # Safety
///
/// `out` is NULL, not aligned, or room for a pointer.
pub(crate) unsafe fn put<H: Handle>(
    out: *mut *mut H,
    make: impl FnOnce() -> Outcome<H::State>,
) -> Outcome {
    // SAFETY: as the caller says.
    let out = unsafe { required_mut(out, "out") }?;
    *out = std::ptr::null_mut();
    *out = create(make()?);
    Ok(())
}

/// Frees a handle and sets it to NULL; nothing happens if it is NULL, or `handle` is.
///
/// # Safety
///
/// `handle` is NULL, not aligned, or points to a pointer as [`check`] takes it, which no call is using.
pub(crate) unsafe fn free<H: Handle>(handle: *mut *mut H) -> Outcome {
    if handle.is_null() {
        return Ok(());
    }
    // SAFETY: as the caller says.
    let handle = unsafe { required_mut(handle, "handle") }?;
    if handle.is_null() {
        return Ok(());
    }
    // SAFETY: as the caller says.
    unsafe { check(*handle, "handle") }?;
    let tagged: *mut Tagged<H::State> = handle.cast();
    *handle = std::ptr::null_mut();
    // SAFETY: `create` made it from a box, and the only pointer to it is gone.
    drop(unsafe { Box::from_raw(tagged) });
    Ok(())
}

/// Reads what may be changed by other calls.
pub(crate) fn read<'a, S>(lock: &'a RwLock<S>) -> Outcome<RwLockReadGuard<'a, S>> {
    lock.try_read().map_err(busy)
}

/// Changes what no other call uses.
pub(crate) fn write<'a, S>(lock: &'a RwLock<S>) -> Outcome<RwLockWriteGuard<'a, S>> {
    lock.try_write().map_err(busy)
}

fn busy<G>(error: TryLockError<G>) -> Failure {
    match error {
        TryLockError::WouldBlock => Failure::new(
            luge_status::LUGE_ERROR_BUSY,
            "another thread is in a call with the same handle",
        ),
        TryLockError::Poisoned(_) => Failure::new(
            luge_status::LUGE_ERROR_INTERNAL,
            "a defect of Luge stopped an earlier call that changed this handle; it can only be freed",
        ),
    }
}

/// A structure that begins with its size, which later versions may append fields to.
///
/// # Safety
///
/// The type is `repr(C)`, its first field is a `usize`, and all bytes zero are a value of it.
pub(crate) unsafe trait Versioned: Copy {
    /// The name in C.
    const NAME: &'static str;
}

/// No structure is ever that large: a `size` above was not set.
const ABSURD_SIZE: usize = 4096;

/// The size that the caller has set.
///
/// # Safety
///
/// `at` is NULL, not aligned, or points to a structure whose `size` is set.
unsafe fn size_of_caller<S: Versioned>(at: *const S, name: &str) -> Outcome<usize> {
    let (struct_name, least) = (S::NAME, size_of::<S>());
    // SAFETY: the structure begins with its size.
    let size = unsafe { *required(at.cast::<usize>(), name)? };
    if !at.is_aligned() {
        return Err(Failure::argument(format!("`{name}` is not aligned")));
    }
    // This is the first version of all structures; one that gets longer keeps its first length here.
    if !(least..=ABSURD_SIZE).contains(&size) {
        return Err(Failure::argument(format!(
            "the size of `{name}` is {size}; set it to sizeof({struct_name})"
        )));
    }
    Ok(size)
}

/// Fills a structure of the caller, as far as he knows it. What he knows and this version does not is zero, and `size` is
/// then what was filled.
///
/// # Safety
///
/// `to` is NULL, not aligned, or points to a structure whose `size` is set.
pub(crate) unsafe fn fill<S: Versioned>(to: *mut S, name: &str, from: S) -> Outcome {
    // SAFETY: as the caller says.
    let size = unsafe { size_of_caller(to, name) }?;
    let known = size.min(size_of::<S>());
    // SAFETY: there is room for `size` bytes, the first of them a `usize`, and `from` has at least `known`.
    unsafe {
        to.cast::<u8>().write_bytes(0, size);
        (&raw const from)
            .cast::<u8>()
            .copy_to_nonoverlapping(to.cast(), known);
        to.cast::<usize>().write(known);
    }
    Ok(())
}

/// As [`fill`], where NULL says that nobody wants to know.
///
/// # Safety
///
/// As [`fill`].
pub(crate) unsafe fn fill_wanted<S: Versioned>(to: *mut S, name: &str, from: S) -> Outcome {
    if to.is_null() {
        return Ok(());
    }
    // SAFETY: as the caller says.
    unsafe { fill(to, name, from) }
}

/// Refuses a structure that [`fill_wanted`] would refuse, before the work.
///
/// # Safety
///
/// As [`fill`].
pub(crate) unsafe fn check_wanted<S: Versioned>(to: *const S, name: &str) -> Outcome {
    if !to.is_null() {
        // SAFETY: as the caller says.
        unsafe { size_of_caller(to, name) }?;
    }
    Ok(())
}

/// A structure of the caller; fields that he does not know are zero.
///
/// # Safety
///
/// As [`fill`].
pub(crate) unsafe fn take<S: Versioned>(from: *const S, name: &str) -> Outcome<S> {
    // SAFETY: as the caller says.
    let size = unsafe { size_of_caller(from, name) }?;
    // SAFETY: zeros are a value.
    let mut taken: S = unsafe { std::mem::zeroed() };
    let known = size.min(size_of::<S>());
    // SAFETY: both have `known` bytes.
    unsafe {
        from.cast::<u8>()
            .copy_to_nonoverlapping((&raw mut taken).cast(), known);
    }
    Ok(taken)
}

/// What a pointer points to.
///
/// # Safety
///
/// `at` is NULL, not aligned, or points to a value that nobody changes during the call.
pub(crate) unsafe fn required<'a, V>(at: *const V, name: &str) -> Outcome<&'a V> {
    if !at.is_null() && !at.is_aligned() {
        return Err(Failure::argument(format!("`{name}` is not aligned")));
    }
    // SAFETY: as the caller says, and it is aligned.
    unsafe { at.as_ref() }.ok_or_else(|| Failure::null(name))
}

/// What a pointer of an output points to.
///
/// # Safety
///
/// `at` is NULL, not aligned, or points to a value that nobody else uses during the call.
pub(crate) unsafe fn required_mut<'a, V>(at: *mut V, name: &str) -> Outcome<&'a mut V> {
    if !at.is_null() && !at.is_aligned() {
        return Err(Failure::argument(format!("`{name}` is not aligned")));
    }
    // SAFETY: as the caller says, and it is aligned.
    unsafe { at.as_mut() }.ok_or_else(|| Failure::null(name))
}

/// A size that C hands over.
pub(crate) fn size(number: i64, name: &str) -> Outcome<usize> {
    usize::try_from(number).map_err(|_| Failure::argument(format!("`{name}` is {number}")))
}

/// More bytes than any processor addresses. Sizes above are mistakes, and no array is looked at.
const ABSURD_BYTES: usize = 1 << 56;

/// Refuses an array that is NULL though it has numbers, that is not aligned, or that no memory could hold.
pub(crate) fn check_array<V>(at: *const V, len: usize, name: &str) -> Outcome {
    if len
        .checked_mul(size_of::<V>())
        .is_none_or(|bytes| bytes > ABSURD_BYTES)
    {
        return Err(Failure::argument(format!(
            "`{name}` has {len} numbers, more than any memory holds"
        )));
    }
    if len > 0 && at.is_null() {
        return Err(Failure::null(name));
    }
    if len > 0 && !at.is_aligned() {
        return Err(Failure::argument(format!("`{name}` is not aligned")));
    }
    Ok(())
}

/// An array of the caller.
///
/// # Safety
///
/// `at` is NULL, not aligned, or points to `len` numbers that nobody changes as long as they are borrowed.
pub(crate) unsafe fn array<'a, V>(at: *const V, len: usize, name: &str) -> Outcome<&'a [V]> {
    check_array(at, len, name)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: it is neither NULL nor too long, it is aligned, and the rest is as the caller says.
    Ok(unsafe { std::slice::from_raw_parts(at, len) })
}

/// An array of the caller that is written to.
///
/// # Safety
///
/// `at` is NULL, not aligned, or points to `len` numbers that nobody else uses as long as they are borrowed.
pub(crate) unsafe fn array_mut<'a, V>(at: *mut V, len: usize, name: &str) -> Outcome<&'a mut [V]> {
    check_array(at, len, name)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: it is neither NULL nor too long, it is aligned, and the rest is as the caller says.
    Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
}

/// Copies numbers to an array of the caller, no more than `capacity`; none if it is NULL.
///
/// # Safety
///
/// `to` is NULL, not aligned, or room for `capacity` numbers.
pub(crate) unsafe fn copy_numbers(
    numbers: &[usize],
    capacity: i64,
    to: *mut i64,
    name: &str,
) -> Outcome {
    let capacity = size(capacity, "capacity")?;
    if to.is_null() {
        return Ok(());
    }
    // No more is used than there are numbers.
    let len = capacity.min(numbers.len());
    // SAFETY: as the caller says.
    let to = unsafe { array_mut(to, len, name) }?;
    to.iter_mut()
        .zip(numbers)
        .for_each(|(to, &number)| *to = number as i64);
    Ok(())
}

/// Copies a text to an array of the caller, with a NUL at its end, and as much of it as there is room for. Its length without
/// that goes to `length`, unless it is NULL.
///
/// # Safety
///
/// `to` is NULL or room for `capacity` bytes; `length` is NULL, not aligned, or room for a number.
pub(crate) unsafe fn copy_text(
    text: &str,
    capacity: usize,
    to: *mut c_char,
    length: *mut usize,
) -> Outcome {
    if capacity > 0 {
        let len = text.floor_char_boundary((capacity - 1).min(text.len()));
        // SAFETY: as the caller says; no more than the text and a NUL are used.
        let to = unsafe { array_mut(to.cast::<u8>(), len + 1, "text") }?;
        to[..len].copy_from_slice(&text.as_bytes()[..len]);
        to[len] = 0;
    }
    if !length.is_null() {
        // SAFETY: as the caller says.
        *unsafe { required_mut(length, "length") }? = text.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::luge_status::*;

    struct Count;
    impl Handle for Count {
        type State = RwLock<u32>;
        const TAG: u64 = 17;
        const NAME: &'static str = "count";
    }

    #[test]
    fn a_panic_ends_at_the_boundary_and_spoils_what_it_changed() {
        let mut handle: *mut Count = std::ptr::null_mut();
        // SAFETY: `handle` has room for a handle, and is one after it.
        let count = unsafe {
            assert_eq!(guarded(|| put(&mut handle, || Ok(RwLock::new(1)))), LUGE_OK);
            state(handle, "handle").ok().unwrap()
        };
        let status = guarded(|| {
            let mut count = write(count)?;
            *count = 2;
            panic!("on purpose");
        });
        assert_eq!(status, LUGE_ERROR_INTERNAL);
        let later = guarded(|| read(count).map(|_| ()));
        assert_eq!(later, LUGE_ERROR_INTERNAL);
        // SAFETY: nobody uses it any more.
        assert_eq!(guarded(|| unsafe { free(&mut handle) }), LUGE_OK);
        assert!(handle.is_null());
    }

    #[test]
    fn what_another_thread_changes_is_busy() {
        let lock = RwLock::new(0);
        let reader = read(&lock).ok().unwrap();
        assert!(read(&lock).is_ok(), "several may read");
        assert_eq!(guarded(|| write(&lock).map(|_| ())), LUGE_ERROR_BUSY);
        drop(reader);
        let _writer = write(&lock).ok().unwrap();
        assert_eq!(guarded(|| read(&lock).map(|_| ())), LUGE_ERROR_BUSY);
    }

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Pair {
        size: usize,
        value: u64,
    }

    // SAFETY: as the trait says.
    unsafe impl Versioned for Pair {
        const NAME: &'static str = "pair";
    }

    /// As a later version may have it.
    #[repr(C)]
    struct Longer {
        pair: Pair,
        more: u64,
    }

    #[test]
    fn a_longer_structure_is_filled_as_far_as_it_is_known() {
        let from = Pair { size: 16, value: 5 };
        let unset = Pair { size: 24, value: 9 };
        let mut longer = Longer {
            pair: unset,
            more: 9,
        };
        // SAFETY: it has the 24 bytes that its size says.
        let filled = unsafe { fill((&raw mut longer).cast::<Pair>(), "pair", from) };
        assert!(filled.is_ok());
        assert_eq!(
            (longer.pair.size, longer.pair.value, longer.more),
            (16, 5, 0)
        );
        longer.pair.size = 24;
        // SAFETY: as above.
        let taken = unsafe { take((&raw const longer).cast::<Pair>(), "pair") };
        assert_eq!(taken.ok().unwrap().value, 5);
        for size in [0, 8, 15, 4097, usize::MAX] {
            longer.pair.size = size;
            // SAFETY: nothing is read behind the size if that is refused.
            let refused = unsafe { take((&raw const longer).cast::<Pair>(), "pair") };
            assert!(refused.is_err(), "{size}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let mut room = [1u8; 8];
        let mut length = 0;
        let mut copy = |text: &str, capacity| {
            // SAFETY: there is room for eight bytes.
            let copied =
                unsafe { copy_text(text, capacity, room.as_mut_ptr().cast(), &mut length) };
            assert!(copied.is_ok());
            (room, length)
        };
        assert_eq!(copy("abc", 8), (*b"abc\0\x01\x01\x01\x01", 3));
        assert_eq!(copy("ab\u{e9}", 4), (*b"ab\0\0\x01\x01\x01\x01", 4));
        assert_eq!(copy("xyz", 0), (*b"ab\0\0\x01\x01\x01\x01", 3));
    }
}
