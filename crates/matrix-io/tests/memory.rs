//! Peaks of memory, counted by the allocator. One test, because the counter is global.

use luge_matrix_io::{read_bytes, read_dense_from};
use luge_testkit::allocator::{Counting, measure};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn memory_follows_what_is_read() {
    // Announcements alone cost nothing but the buffers of the reader.
    for text in [
        "%%MatrixMarket matrix coordinate real general\n40 40 4000000000000\n1 1 1\n",
        "%%MatrixMarket matrix coordinate real general\n4000000000 4000000000 1\n4000000000 1 1\n",
        "%%MatrixMarket matrix array real general\n4000000000 4000000000\n1\n",
        "%%MatrixMarket matrix array real symmetric\n4000000000 4000000000\n1\n",
    ] {
        let sparse = measure(|| read_bytes(text.as_bytes()));
        assert!(sparse.result.is_err(), "{text}");
        let dense = measure(|| read_dense_from(text.as_bytes()));
        assert!(dense.result.is_err(), "{text}");
        let (sparse, dense) = (sparse.peak, dense.peak);
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
        let measured = measure(|| read_bytes(text.as_bytes()).expect("well formed"));
        let (peak, nnz) = (measured.peak as usize, measured.result.nnz());
        let bytes = nnz * 16 + (n + 1) * 8;
        assert!(
            2 * peak <= 5 * bytes,
            "{peak} bytes for a matrix of {bytes}, {symmetry}, {step}"
        );
        println!("{peak} bytes for a matrix of {bytes}, {symmetry}, {step}");
    }
}
