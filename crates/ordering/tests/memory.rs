//! What an ordering takes of the heap, counted by the allocator.

use luge_ordering::{Method, OrderingError, OrderingOptions, PEAK_BYTES, order};
use luge_sparse::MemoryBudget;
use luge_testkit::allocator::{Counting, measure, smallest_budget};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::{Sample, for_memory};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_ordering_takes_more_than_it_says() {
    for s in [1, 2] {
        for Sample { name, matrix: a } in for_memory(s) {
            let pattern = pattern_of(&a);
            let (n, nnz) = (a.rows() as u64, a.nnz() as u64);
            let base = PEAK_BYTES[0] * n + PEAK_BYTES[1] * nnz;
            for threads in [1, 2] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let pool = pool.build().unwrap();
                let ordered = |method: Method, memory: &MemoryBudget| {
                    let options = OrderingOptions::default()
                        .threads(threads)
                        .method(method)
                        .memory(memory.clone());
                    pool.install(|| order(&pattern, Some(a.data()), &options))
                };
                let check = |what: &str, peak: u64, reserved: u64| {
                    assert!(
                        peak <= base + reserved,
                        "{name}, n {n}, {threads} threads, {what}: {peak} bytes at once, {base} + {reserved} said"
                    );
                };
                // Without memory for a dissection there is still minimum degree.
                let nothing = MemoryBudget::new(0);
                let measured = measure(|| ordered(Method::Auto, &nothing).unwrap());
                check("without a dissection", measured.peak, 0);
                let dissected = |memory: &MemoryBudget| ordered(Method::NestedDissection, memory);
                let unlimited = MemoryBudget::unlimited();
                let measured = measure(|| dissected(&unlimited).unwrap());
                let reserved = smallest_budget(|memory| dissected(memory).is_ok());
                check("by nested dissection", measured.peak, reserved);
                let refused = dissected(&MemoryBudget::new(reserved / 2));
                assert!(matches!(refused, Err(OrderingError::OutOfMemory(_))));
            }
        }
    }
}
