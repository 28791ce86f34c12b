//! Counts the bytes that Rust code allocates.
//!
//! C libraries call `malloc` and are not seen here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
/// Bytes allocated since counting began, less those freed.
static CURRENT: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, with a count that can be switched on; off, it costs one load.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

fn count(bytes: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        let now = CURRENT.fetch_add(bytes, Ordering::Relaxed) + bytes;
        PEAK.fetch_max(now, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: by the caller.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: by the caller.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Runs `step` and gives the most bytes that Rust code held during it beyond what it held before.
/// Zero unless [`Counting`] is the program's allocator. One step at a time.
pub fn peak_of<R>(step: impl FnOnce() -> R) -> (R, u64) {
    CURRENT.store(0, Ordering::Relaxed);
    PEAK.store(0, Ordering::Relaxed);
    COUNTING.store(true, Ordering::Relaxed);
    let result = step();
    COUNTING.store(false, Ordering::Relaxed);
    (result, PEAK.load(Ordering::Relaxed).max(0) as u64)
}
