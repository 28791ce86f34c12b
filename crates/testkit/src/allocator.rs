//! What a step takes of the heap, counted by the allocator of the program.
//!
//! ```
//! use luge_testkit::allocator::{Counting, measure};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! let measured = measure(|| {
//!     drop(vec![0u8; 3000]);
//!     vec![0u8; 1000]
//! });
//! assert_eq!((measured.peak, measured.held), (3000, 1000));
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use luge_sparse::MemoryBudget;

/// Bytes that are allocated, less those that were there at the last reset.
static LIVE: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// Steps are measured one after another.
static ALONE: Mutex<()> = Mutex::new(());

/// The system's allocator, with a count. While an array is moved, its old and its new memory count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting;

fn add(bytes: usize) {
    let live = LIVE.fetch_add(bytes as i64, Relaxed) + bytes as i64;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: the system's allocator does the work; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        add(new_size);
        LIVE.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: the caller's contract.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

/// What [`measure`] finds.
#[derive(Debug, Clone, Copy)]
pub struct Measured<R> {
    /// What the step gave.
    pub result: R,
    /// The most bytes that were held during the step beyond those that were there before.
    pub peak: u64,
    /// Bytes that are held after the step beyond those that were there before, the result's included.
    pub held: u64,
}

/// Runs `step` and counts what is allocated meanwhile, by whatever thread: nothing else should run in the process. Zeros
/// unless [`Counting`] is the allocator of the program.
pub fn measure<R>(step: impl FnOnce() -> R) -> Measured<R> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    LIVE.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    let result = step();
    let [peak, held] = [&PEAK, &LIVE].map(|bytes| bytes.load(Relaxed).max(0) as u64);
    Measured { result, peak, held }
}

/// The smallest limit in bytes under which `step` says that it got on, to within one in a thousand.
///
/// # Panics
///
/// If it does not get on with a gigabyte.
#[track_caller]
pub fn smallest_budget(step: impl Fn(&MemoryBudget) -> bool) -> u64 {
    let gets_on = |limit: u64| step(&MemoryBudget::new(limit));
    let (mut low, mut high) = (0, 1 << 30);
    assert!(gets_on(high), "a gigabyte is not enough");
    while high - low > high / 1000 {
        let middle = low + (high - low) / 2;
        if gets_on(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}
