//! Barriers that not all reach, and warp masks that do not match.

use luge_kernel::host::LaunchConfig;
use luge_kernel::prelude::*;
use luge_kernel::sim::{Buffer, Fault, FaultKind};

use super::{faults, silent, source_line};

const SOURCE: &str = include_str!("collectives.rs");

/// Thread `who` returns before the barrier, or waits at another one.
#[kernel]
pub unsafe fn diverging_barrier(who: u32, elsewhere: u32) {
    if thread::thread_idx_x() == who {
        if elsewhere == 1 {
            thread::sync_threads(); // the other barrier
        }
        return;
    }
    thread::sync_threads(); // the barrier
}

#[test]
fn a_thread_that_returns_before_a_barrier_is_caught() {
    let config = LaunchConfig::linear(3, 40);
    // SAFETY: simulated.
    for fault in faults("diverging_barrier", "collectives.rs", |s| unsafe {
        diverging_barrier::launch(s, &config, 37, 0)
    }) {
        assert!(
            matches!(&fault.kind, FaultKind::BarrierDivergence { what } if what.contains("returned"))
        );
        assert!(source_line(&fault, SOURCE).ends_with("// the barrier"));
        let other = fault.other.as_ref().expect("another party");
        assert_eq!(other.thread, [37, 0, 0]);
        assert_eq!(other.block, fault.block);
        assert_eq!(other.location, None);
    }
    // SAFETY: simulated.
    silent(|s| unsafe { diverging_barrier::launch(s, &config, 40, 0) });
}

#[test]
fn threads_at_different_barriers_are_caught() {
    let config = LaunchConfig::linear(3, 40);
    // SAFETY: simulated.
    for fault in faults("diverging_barrier", "collectives.rs", |s| unsafe {
        diverging_barrier::launch(s, &config, 5, 1)
    }) {
        assert!(
            matches!(&fault.kind, FaultKind::BarrierDivergence { what } if what.contains("another"))
        );
        let other = fault.other.as_ref().expect("another party");
        assert!(fault.thread[0] == 5 || other.thread[0] == 5, "{fault}");
        assert_ne!(fault.location, other.location);
    }
    // SAFETY: simulated.
    silent(|s| unsafe { diverging_barrier::launch(s, &config, 40, 1) });
}

/// What goes wrong in `masks`.
mod case {
    pub const RIGHT: u32 = 0;
    pub const NOT_IN_OWN_MASK: u32 = 1;
    pub const DIFFERENT_MASKS: u32 = 2;
    pub const DIFFERENT_OPERATIONS: u32 = 3;
    pub const RETURNED: u32 = 4;
    pub const SOURCE_OUTSIDE: u32 = 5;
    pub const TOO_FAR: u32 = 6;
    pub const DIFFERENT_KINDS: u32 = 7;
}

/// A shuffle of the lower half of each warp, wrong by `case` in lane 3 of the second warp.
#[kernel]
pub unsafe fn masks(which: u32, out: GlobalMut<u32>) {
    let lane = thread::lane_id();
    if lane >= 16 {
        return;
    }
    let odd_one = thread::warp_id() == 1 && lane == 3;
    if odd_one && which == case::RETURNED {
        return;
    }
    let mut mask = 0xffff;
    let mut source = lane ^ 1;
    if odd_one {
        match which {
            case::NOT_IN_OWN_MASK => mask = 0xfff7,
            case::DIFFERENT_MASKS => mask = 0x00ff,
            case::SOURCE_OUTSIDE => source = 16,
            _ => {}
        }
    }
    let v = if odd_one && which == case::DIFFERENT_OPERATIONS {
        warp::ballot(mask, true)
    } else if odd_one && which == case::DIFFERENT_KINDS {
        warp::shuffle_xor(mask, lane, 1)
    } else if which == case::TOO_FAR {
        warp::shuffle_up(mask, lane, if odd_one { 32 } else { 0 })
    } else {
        warp::shuffle(mask, lane, source)
    };
    out.set(thread::thread_idx_x() as usize, v);
}

fn mask_faults(which: u32) -> Vec<(u32, String, Fault)> {
    let config = LaunchConfig::linear(1, 64);
    let mut out = Buffer::<u32>::uninitialized("out", 64);
    // SAFETY: simulated.
    faults("masks", "collectives.rs", |s| unsafe {
        masks::launch(s, &config, which, &mut out)
    })
    .into_iter()
    .map(|fault| {
        let FaultKind::WarpMaskMismatch { mask, what } = &fault.kind else {
            panic!("not a mask: {fault}");
        };
        assert_eq!(fault.thread[0] / 32, 1, "{fault}");
        (*mask, what.clone(), fault)
    })
    .collect()
}

#[test]
fn the_right_masks_stay_silent() {
    let config = LaunchConfig::linear(1, 64);
    let mut out = Buffer::<u32>::zeroed("out", 64);
    // SAFETY: simulated.
    silent(|s| unsafe { masks::launch(s, &config, case::RIGHT, &mut out) });
    let expected: Vec<u32> = (0..64)
        .map(|t| if t % 32 < 16 { (t % 32) ^ 1 } else { 0 })
        .collect();
    assert_eq!(out.to_vec(), expected);
}

#[test]
fn a_lane_outside_of_its_own_mask_is_caught() {
    for (mask, what, fault) in mask_faults(case::NOT_IN_OWN_MASK) {
        assert_eq!(fault.thread, [35, 0, 0]);
        assert_eq!(mask, 0xfff7);
        assert!(what.contains("lane 3 itself"), "{what}");
    }
}

#[test]
fn lanes_with_different_masks_are_caught() {
    for (mask, _, fault) in mask_faults(case::DIFFERENT_MASKS) {
        let other = fault.other.as_ref().expect("another party");
        assert!(fault.thread[0] == 35 || other.thread[0] == 35, "{fault}");
        assert_eq!(mask, if fault.thread[0] == 35 { 0xff } else { 0xffff });
    }
}

#[test]
fn lanes_with_different_operations_are_caught() {
    for which in [case::DIFFERENT_OPERATIONS, case::DIFFERENT_KINDS] {
        for (_, what, fault) in mask_faults(which) {
            let other = fault.other.as_ref().expect("another party");
            assert!(fault.thread[0] == 35 || other.thread[0] == 35, "{fault}");
            assert!(what.contains("Shuffle"), "{what}");
            assert_ne!(fault.location, other.location);
        }
    }
}

#[test]
fn a_lane_of_the_mask_that_has_returned_is_caught() {
    for (mask, what, fault) in mask_faults(case::RETURNED) {
        let other = fault.other.as_ref().expect("another party");
        assert_eq!(other.thread, [35, 0, 0]);
        assert_eq!(other.location, None);
        assert_eq!(mask, 0xffff);
        assert!(what.contains("lane 3 is in the mask, but has returned"));
    }
}

#[test]
fn reading_a_lane_outside_of_the_mask_is_caught() {
    for (_, what, fault) in mask_faults(case::SOURCE_OUTSIDE) {
        assert_eq!(fault.thread, [35, 0, 0]);
        assert!(what.contains("lane 3 reads lane 16"), "{what}");
    }
}

#[test]
fn a_shuffle_over_more_than_a_warp_is_caught() {
    for (_, what, fault) in mask_faults(case::TOO_FAR) {
        assert_eq!(fault.thread, [35, 0, 0]);
        assert!(what.contains("32 lanes"), "{what}");
    }
}

/// A full mask in a block that ends within a warp.
#[kernel]
pub unsafe fn short_warp(mask: u32, out: GlobalMut<u32>) {
    if thread::warp_id() == 1 {
        let votes = warp::ballot(mask, true);
        if thread::lane_id() == 0 {
            out.set(0, votes);
        }
    }
}

#[test]
fn a_lane_that_the_block_does_not_have_is_caught() {
    let config = LaunchConfig::linear(1, 40);
    let mut out = Buffer::<u32>::uninitialized("out", 1);
    // SAFETY: simulated.
    for fault in faults("short_warp", "collectives.rs", |s| unsafe {
        short_warp::launch(s, &config, warp::FULL_MASK, &mut out)
    }) {
        assert!(
            matches!(&fault.kind, FaultKind::WarpMaskMismatch { what, .. }
                if what.contains("lane 8") && what.contains("no such thread")),
            "{fault}"
        );
    }
    // SAFETY: simulated.
    silent(|s| unsafe { short_warp::launch(s, &config, 0xff, &mut out) });
    assert_eq!(out.to_vec(), [0xff]);
}

/// Lane 1 does something with lane 2 before it joins lane 0.
#[kernel]
pub unsafe fn nested_masks(out: GlobalMut<u32>) {
    let lane = thread::lane_id();
    let mut v = lane;
    if lane == 1 || lane == 2 {
        v += warp::shuffle_xor(0b110, v, 3);
    }
    if lane < 2 {
        v += warp::shuffle_xor(0b011, v, 1);
    }
    out.set(lane as usize, v);
}

#[test]
fn a_lane_may_serve_another_mask_first() {
    let config = LaunchConfig::linear(1, 32);
    let mut out = Buffer::<u32>::uninitialized("out", 32);
    // SAFETY: simulated.
    silent(|s| unsafe { nested_masks::launch(s, &config, &mut out) });
    assert_eq!(out.to_vec()[..4], [3, 3, 3, 3]);
}
