//! Peaks of memory, counted by the allocator. One test, because the counter is global.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use luge_matrix_io::{read_bytes, read_dense_from};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to `System` unchanged; the counters touch no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's contract is that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract is that of `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `body` gives, and how far memory rose above where it started.
fn peak<T>(body: impl FnOnce() -> T) -> (T, usize) {
    let start = LIVE.load(Relaxed);
    PEAK.store(start, Relaxed);
    let result = body();
    (result, PEAK.load(Relaxed) - start)
}

#[test]
fn memory_follows_what_is_read() {
    // Announcements alone cost nothing but the buffers of the reader.
    for text in [
        "%%MatrixMarket matrix coordinate real general\n40 40 4000000000000\n1 1 1\n",
        "%%MatrixMarket matrix coordinate real general\n4000000000 4000000000 1\n4000000000 1 1\n",
        "%%MatrixMarket matrix array real general\n4000000000 4000000000\n1\n",
        "%%MatrixMarket matrix array real symmetric\n4000000000 4000000000\n1\n",
    ] {
        let (result, sparse) = peak(|| read_bytes(text.as_bytes()));
        assert!(result.is_err(), "{text}");
        let (result, dense) = peak(|| read_dense_from(text.as_bytes()));
        assert!(result.is_err(), "{text}");
        assert!(
            sparse.max(dense) < 1 << 20,
            "{sparse} and {dense} bytes for {text}"
        );
    }

    let n = 100_000;
    // Sorted by columns; then with columns in a scattered order, so that rows need sorting.
    for (symmetry, step) in [("general", 1), ("symmetric", 1), ("general", 617)] {
        let mut entries = String::new();
        let mut count = 0;
        for col in (0..n).map(|k| k * step % n + 1) {
            for row in (0..4).map(|k| col + 3 * k).filter(|&row| row <= n) {
                entries += &format!("{row} {col} 0.{col}\n");
                count += 1;
            }
        }
        let text =
            format!("%%MatrixMarket matrix coordinate real {symmetry}\n{n} {n} {count}\n{entries}");
        let (matrix, peak) = peak(|| read_bytes(text.as_bytes()).expect("well formed"));
        let bytes = matrix.nnz() * 16 + (n + 1) * 8;
        assert!(
            2 * peak <= 5 * bytes,
            "{peak} bytes for a matrix of {bytes}, {symmetry}, {step}"
        );
        println!("{peak} bytes for a matrix of {bytes}, {symmetry}, {step}");
    }
}
