//! Schedules: a seed replays exactly, another seed gives another one.

use std::collections::HashSet;

use luge_kernel::host::{KernelBufferMut, LaunchConfig};
use luge_kernel::prelude::*;
use luge_kernel::sim::{self, Buffer, LaunchStats, Options};

/// Each thread takes tickets.
#[kernel]
pub unsafe fn tickets(counter: GlobalMut<u32>, order: GlobalMut<u32>) {
    for _ in 0..2 {
        let at = counter
            .atomic(0)
            .fetch_add(1, Ordering::Relaxed, Scope::Device);
        order.set(at as usize, thread::index_1d());
    }
    thread::sync_threads();
    let at = counter
        .atomic(0)
        .fetch_add(1, Ordering::Relaxed, Scope::Device);
    order.set(at as usize, thread::index_1d());
}

fn order(options: &Options) -> (Vec<u32>, LaunchStats) {
    let config = LaunchConfig::linear(5, 40);
    let mut counter = Buffer::<u32>::zeroed("counter", 1);
    let mut order = Buffer::<u32>::uninitialized("order", 600);
    let args = [counter.kernel_arg_mut(), order.kernel_arg_mut()];
    let stats = sim::launch(tickets::desc(), &config, &args, options).unwrap();
    (order.to_vec(), stats)
}

#[test]
fn a_seed_replays_its_schedule_and_others_differ() {
    let mut seen = HashSet::new();
    for seed in super::SEEDS {
        let options = Options {
            seed,
            ..Options::default()
        };
        let (first, stats) = order(&options);
        assert_eq!((first.clone(), stats), order(&options));
        assert_eq!((stats.blocks, stats.threads), (5, 200));
        assert!(stats.switches >= 5 * 39);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        let expected: Vec<u32> = (0..600).map(|k| k / 3).collect();
        assert_eq!(sorted, expected);
        seen.insert(first);
    }
    assert_eq!(seen.len(), super::SEEDS.count());
}

#[test]
fn preemption_interleaves_threads_within_a_phase() {
    // Without preemption a thread draws its first two tickets in a row.
    let in_a_row = |preempt_one_in| {
        let options = Options {
            preempt_one_in,
            ..Options::default()
        };
        let (order, _) = order(&options);
        order.windows(2).filter(|w| w[0] == w[1]).count()
    };
    assert!(in_a_row(0) >= 200);
    assert!(in_a_row(2) < 190);
}

#[test]
fn blocks_interleave_at_barriers() {
    // Without preemption, blocks still take turns: the last ticket of one block comes after the
    // first of another.
    let mixed = super::SEEDS.filter(|&seed| {
        let options = Options {
            seed,
            preempt_one_in: 0,
            ..Options::default()
        };
        let (order, _) = order(&options);
        let blocks: Vec<u32> = order.iter().map(|t| t / 40).collect();
        let mut changes = blocks.windows(2).filter(|w| w[0] != w[1]).count();
        changes += 1;
        changes > 5
    });
    assert!(mixed.count() >= 15);
}

/// Races in many places.
#[kernel]
pub unsafe fn messy(x: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    x.set(i % 7, x.get((i * 5 + 1) % 7) + 1);
}

#[test]
fn a_seed_replays_its_fault() {
    let mut seen = HashSet::new();
    for seed in super::SEEDS {
        let options = Options {
            seed,
            ..Options::default()
        };
        let run = || {
            let mut x = Buffer::<u32>::zeroed("x", 7);
            let config = LaunchConfig::linear(3, 50);
            sim::launch(messy::desc(), &config, &[x.kernel_arg_mut()], &options).unwrap_err()
        };
        let fault = run();
        assert_eq!(fault, run());
        seen.insert(fault.to_string());
    }
    assert!(seen.len() > 10);
}

#[test]
fn launches_on_other_threads_do_not_disturb_each_other() {
    let expected = order(&Options::default());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(order(&Options::default()), expected));
        }
    });
}
