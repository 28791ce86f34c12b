//! The corpus end to end: every matrix solves, or is refused for the reason that holds.
//!
//! What must become of each matrix stands in `luge_testkit::corpus`. Without a corpus these tests are
//! skipped, and say so.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use luge::{BackendChoice, DeviceEngine, Options};
use luge_device::Backend;
use luge_testkit::corpus::{Corpus, Entry, Group};
use luge_tests::verify::{Depth, Plan, Record, run_entry};

/// Takes the entries of order up to `max_n` and all degenerate ones through the phases on each backend, on a device by
/// `device_engine`, and panics with all records that are not as expected.
fn check(max_n: u64, backends: &[BackendChoice], device_engine: DeviceEngine, compare: bool) {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let plans: Vec<Plan> = backends
        .iter()
        .map(|&backend| {
            let options = Options::default()
                .backend(backend)
                .device_engine(device_engine);
            Plan::new(options, Depth::Solve, compare)
        })
        .collect();
    // Complex ones have a test of their own: `complex::small_complex_matrices_of_the_corpus_solve_on_the_device`.
    let small = |entry: &&Entry| {
        !entry.is_square_complex()
            && (entry.group == Group::Degenerate || entry.order().is_none_or(|n| n <= max_n))
    };
    let mut entries: Vec<&Entry> = corpus.entries().iter().filter(small).collect();
    // The largest first, so that no thread is left alone with one at the end.
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.order()));
    let runs: Vec<(&Entry, &Plan)> = entries
        .iter()
        .flat_map(|&entry| plans.iter().map(move |plan| (entry, plan)))
        .collect();
    assert!(
        backends.is_empty() || !runs.is_empty(),
        "the corpus has no matrix of order up to {max_n}"
    );

    let next = AtomicUsize::new(0);
    let bad: Mutex<Vec<Record>> = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((entry, plan)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let record = run_entry(entry, plan);
                    if !record.passed {
                        let mut bad = bad.lock().expect("no worker panics with the lock");
                        bad.push(record);
                    }
                }
            });
        }
    });
    let bad = bad.into_inner().expect("no worker panics with the lock");
    assert!(
        bad.is_empty(),
        "{} of {} runs are not as expected:\n{}",
        bad.len(),
        runs.len(),
        bad.iter().map(describe).collect::<String>()
    );
}

fn describe(record: &Record) -> String {
    format!("{}: {:?}\n", record.name, record.verdict())
}

/// Larger ones, which take most of the time, are for `cargo xtask verify`.
#[test]
fn corpus_on_the_cpu() {
    check(8_000, &[BackendChoice::Cpu], DeviceEngine::Auto, false);
}

/// Orders up to which the simulator takes one schedule, and more than one.
const MEDIUM: u64 = 400;
const SMALL: u64 = 120;

/// On the simulator by the first of the seeds, small matrices by all of them.
fn corpus_on_the_device(engine: DeviceEngine, seeds: &[u64]) {
    // Names the test in the log of device tests, and opens the GPU if it is asked for.
    drop(luge_tests::devices());
    match luge_tests::backend() {
        Backend::Simulator => {
            let on_seed = |&seed| BackendChoice::Simulator { seed };
            let backends: Vec<BackendChoice> = seeds.iter().map(on_seed).collect();
            check(MEDIUM, &backends[..1], engine, true);
            check(SMALL, &backends[1..], engine, true);
        }
        Backend::Cuda => check(20_000, &[BackendChoice::Gpu { ordinal: 0 }], engine, true),
    }
}

#[test]
fn corpus_by_columns_on_the_device() {
    // Two schedules: the tests of the kernels try all of them.
    corpus_on_the_device(DeviceEngine::Columns, &luge_tests::SEEDS[..2]);
}

#[test]
fn corpus_by_the_tree_on_the_device() {
    // One schedule: the tests of the fronts try more of them.
    corpus_on_the_device(DeviceEngine::Tree, &luge_tests::SEEDS[..1]);
}
