//! Waits that can never end.

use luge_kernel::host::{KernelBufferMut, LaunchConfig};
use luge_kernel::prelude::*;
use luge_kernel::sim::{self, Buffer, Fault, FaultKind, Options, Simulator, WaitKind};

use super::{faults, silent, source_line};

const SOURCE: &str = include_str!("waits.rs");

/// Block b waits for block b − 1, if `chain`; block 0 waits for `first`.
#[kernel]
pub unsafe fn block_chain(first: u32, flags: GlobalMut<u32>) {
    let b = thread::block_idx_x() as usize;
    if thread::thread_idx_x() == 0 {
        let wanted = if b == 0 { first } else { 1 };
        let cell = flags.atomic(if b == 0 { flags.len() - 1 } else { b - 1 });
        spin_wait(|| cell.load(Ordering::Acquire, Scope::Device) == wanted); // the wait
    }
    thread::sync_threads();
    if thread::thread_idx_x() == 1 {
        flags.atomic(b).store(1, Ordering::Release, Scope::Device);
    }
}

#[track_caller]
fn deadlock(fault: &Fault) -> (Vec<sim::Waiter>, usize, u64) {
    match &fault.kind {
        FaultKind::Deadlock {
            waiters,
            waiting,
            blocks_not_started,
            livelock: false,
        } => (waiters.clone(), *waiting, *blocks_not_started),
        _ => panic!("not a deadlock: {fault}"),
    }
}

#[test]
fn blocks_that_wait_in_a_circle_are_caught() {
    let blocks = 5;
    let config = LaunchConfig::linear(blocks, 3);
    let run = |s: &Simulator, first| {
        let mut flags = Buffer::<u32>::zeroed("flags", blocks as usize);
        // SAFETY: simulated.
        unsafe { block_chain::launch(s, &config, first, &mut flags) }
    };
    for fault in faults("block_chain", "waits.rs", |s| run(s, 1)) {
        let (waiters, waiting, not_started) = deadlock(&fault);
        assert_eq!((waiting, not_started), (15, 0));
        let spinning: Vec<_> = waiters
            .iter()
            .filter(|w| w.kind == WaitKind::Spin)
            .collect();
        let mut blocks: Vec<u32> = spinning.iter().map(|w| w.block[0]).collect();
        blocks.sort_unstable();
        assert_eq!(blocks, [0, 1, 2, 3, 4]);
        assert!(spinning.iter().all(|w| w.thread == [0; 3]));
        let barrier = waiters.iter().filter(|w| w.kind == WaitKind::Barrier);
        assert_eq!(barrier.count(), 10);
        assert!(source_line(&fault, SOURCE).ends_with("// the wait"));
        assert!(
            fault
                .to_string()
                .contains("block [4, 0, 0] thread [0, 0, 0] spins at")
        );
    }
    silent(|s| run(s, 0));
}

#[test]
fn a_wait_for_a_block_that_is_not_resident_is_caught() {
    let blocks = 6u32;
    let config = LaunchConfig::linear(blocks, 3);
    let mut caught = 0;
    for seed in super::SEEDS {
        for resident_blocks in [2, blocks] {
            let options = Options {
                seed,
                resident_blocks,
                ..Options::default()
            };
            let mut flags = Buffer::<u32>::zeroed("flags", blocks as usize);
            let args = [0u32.into(), flags.kernel_arg_mut()];
            let result = sim::launch(block_chain::desc(), &config, &args, &options);
            if resident_blocks == blocks {
                result.unwrap();
            } else if let Err(fault) = result {
                // Blocks start in any order: mostly some block waits for one that cannot start.
                let (_, _, not_started) = deadlock(&fault);
                assert!(not_started > 0, "{fault}");
                assert!(fault.to_string().contains("have not started"));
                caught += 1;
            }
        }
    }
    assert!(caught >= 15, "caught {caught}");
}

/// Two lanes wait for each other with different masks.
#[kernel]
pub unsafe fn mask_circle(circle: u32) {
    let lane = thread::lane_id();
    if lane < 3 {
        let next = if circle == 1 { (lane + 1) % 3 } else { lane };
        warp::sync_warp(1 << lane | 1 << next);
    }
}

#[test]
fn lanes_that_wait_in_a_circle_are_caught() {
    let config = LaunchConfig::linear(1, 32);
    // SAFETY: simulated.
    for fault in faults("mask_circle", "waits.rs", |s| unsafe {
        mask_circle::launch(s, &config, 1)
    }) {
        match &fault.kind {
            // The last one to arrive waits with a lane that has returned or waits elsewhere.
            FaultKind::Deadlock { waiters, .. } => {
                assert_eq!(waiters.len(), 3);
                assert!(
                    waiters.iter().all(
                        |w| matches!(w.kind, WaitKind::Warp { mask } if mask.count_ones() == 2)
                    )
                );
            }
            _ => panic!("{fault}"),
        }
    }
    // SAFETY: simulated.
    silent(|s| unsafe { mask_circle::launch(s, &config, 0) });
}

/// Waits without the wait that the simulator knows.
#[kernel]
pub unsafe fn hand_written_wait(sleep: u32, send: u32, flag: GlobalMut<u32>) {
    let cell = flag.atomic(0);
    if thread::index_1d() == 0 {
        if send == 1 {
            cell.store(1, Ordering::Relaxed, Scope::Device);
        }
    } else {
        while cell.load(Ordering::Relaxed, Scope::Device) == 0 {
            if sleep == 1 {
                thread::nanosleep(100);
            }
        }
    }
}

#[test]
fn hand_written_waits_do_not_hang() {
    let config = LaunchConfig::linear(2, 2);
    let run = |s: &Simulator, sleep, send| {
        let mut flag = Buffer::<u32>::zeroed("flag", 1);
        // SAFETY: simulated.
        unsafe { hand_written_wait::launch(s, &config, sleep, send, &mut flag) }
    };
    silent(|s| run(s, 0, 1));
    silent(|s| run(s, 1, 1));
    let fault = run(&Simulator::default(), 1, 0).unwrap_err();
    let (waiters, ..) = deadlock(&fault);
    assert!(waiters.iter().any(|w| w.kind == WaitKind::Loop), "{fault}");
}

/// Gives up after some tries.
#[kernel]
pub unsafe fn bounded_wait(flag: GlobalMut<u32>, out: GlobalMut<u32>) {
    let mut tries = 0;
    spin_wait(|| {
        tries += 1;
        tries == 100 || flag.atomic(0).load(Ordering::Relaxed, Scope::Device) == 1
    });
    out.set(thread::index_1d() as usize, tries);
}

#[test]
fn a_wait_that_gives_up_is_no_deadlock() {
    let config = LaunchConfig::linear(1, 4);
    let mut out = Buffer::<u32>::uninitialized("out", 4);
    silent(|s| {
        let mut flag = Buffer::<u32>::zeroed("flag", 1);
        // SAFETY: simulated.
        unsafe { bounded_wait::launch(s, &config, &mut flag, &mut out) }
    });
    assert_eq!(out.to_vec(), [100; 4]);
}

#[test]
fn waits_and_barriers_are_judged_without_checks_too() {
    let config = LaunchConfig::linear(5, 3);
    for (first, ends) in [(1u32, false), (0, true)] {
        let mut flags = Buffer::<u32>::zeroed("flags", 5);
        let options = Options {
            checks: false,
            ..Options::default()
        };
        let args = [first.into(), flags.kernel_arg_mut()];
        let result = sim::launch(block_chain::desc(), &config, &args, &options);
        assert_eq!(result.is_ok(), ends);
        if let Err(fault) = result {
            deadlock(&fault);
        }
    }
}
