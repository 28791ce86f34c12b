//! Data races, found by happens-before: whatever the schedule, under all seeds.

use luge_kernel::host::{KernelBuffer, KernelBufferMut, LaunchConfig};
use luge_kernel::prelude::*;
use luge_kernel::sim::{self, Access, Buffer, Fault, FaultKind, Options};

use super::{faults, silent, source_line};

const SOURCE: &str = include_str!("races.rs");

/// The two accesses of a race, sorted, so that either order of the threads is fine.
#[track_caller]
fn race(fault: &Fault) -> [Access; 2] {
    let FaultKind::Race {
        access,
        other_access,
        scope,
    } = &fault.kind
    else {
        panic!("not a race: {fault}");
    };
    assert!(!scope, "{fault}");
    let other = fault.other.as_ref().expect("another party");
    assert!(
        (other.block, other.thread) != (fault.block, fault.thread),
        "{fault}"
    );
    assert!(other.location.is_some());
    let mut both = [*access, *other_access];
    both.sort_by_key(|a| *a as u8);
    both
}

/// Reverses 64 elements through shared memory.
#[kernel]
pub unsafe fn reverse(barrier: u32, x: GlobalMut<u32>) {
    let tile = shared_array![u32; 64];
    let t = thread::thread_idx_x() as usize;
    tile.set(t, x.get(t)); // written here
    if barrier == 1 {
        thread::sync_threads();
    }
    if barrier == 1 || t >= 32 {
        x.set(t, tile.get(63 - t)); // read there
    }
}

#[test]
fn shared_memory_without_a_barrier() {
    let values: Vec<u32> = (0..64).collect();
    let config = LaunchConfig::linear(1, 64);
    let mut x = Buffer::from_slice("x", &values);
    // SAFETY: simulated.
    for fault in faults("reverse", "races.rs", |s| unsafe {
        reverse::launch(s, &config, 0, &mut x)
    }) {
        // Where the reader comes first it reads what nobody wrote: that is the fault then.
        if fault.kind == FaultKind::Uninitialized {
            assert!(source_line(&fault, SOURCE).ends_with("// read there"));
        } else {
            assert_eq!(race(&fault), [Access::Read, Access::Write]);
            let other = fault.other.as_ref().expect("another party");
            assert_eq!(fault.thread[0] + other.thread[0], 63, "{fault}");
            let reader = fault.thread[0].max(other.thread[0]);
            assert_eq!(fault.index, Some(63 - reader as usize), "{fault}");
        }
        assert_eq!(fault.buffer.as_deref(), Some("tile"));
    }
    // SAFETY: simulated.
    silent(|s| unsafe {
        x.copy_from_slice(&values);
        reverse::launch(s, &config, 1, &mut x)
    });
    let reversed: Vec<u32> = (0..64).rev().collect();
    assert_eq!(x.to_vec(), reversed);
}

/// A sum by halves; the barrier of one step may be missing.
#[kernel]
pub unsafe fn halving(missing: u32, out: GlobalMut<u32>) {
    let parts = shared_array![u32; 128];
    let t = thread::thread_idx_x() as usize;
    parts.set(t, t as u32);
    thread::sync_threads();
    let mut half = 64;
    while half > 0 {
        if t < half {
            parts.set(t, parts.get(t) + parts.get(t + half));
        }
        if half as u32 != missing {
            thread::sync_threads();
        }
        half /= 2;
    }
    if t == 0 {
        out.set(0, parts.get(0));
    }
}

#[test]
fn one_barrier_too_few_in_a_reduction() {
    let config = LaunchConfig::linear(1, 128);
    let mut out = Buffer::<u32>::uninitialized("out", 1);
    for missing in [2, 16, 64] {
        // SAFETY: simulated.
        for fault in faults("halving", "races.rs", |s| unsafe {
            halving::launch(s, &config, missing, &mut out)
        }) {
            assert_eq!(race(&fault), [Access::Read, Access::Write]);
            assert_eq!(fault.buffer.as_deref(), Some("parts"));
            let index = fault.index.expect("an index") as u32;
            assert!((missing / 2..missing).contains(&index), "{fault}");
        }
    }
    // SAFETY: simulated.
    silent(|s| unsafe { halving::launch(s, &config, 0, &mut out) });
    assert_eq!(out.to_vec(), [127 * 64]);
}

/// Each block writes its element; if `shared_cell`, also a common one.
#[kernel]
pub unsafe fn block_flags(shared_cell: u32, flags: GlobalMut<u32>) {
    if thread::thread_idx_x() == 3 {
        flags.set(thread::block_idx_x() as usize, 1);
        if shared_cell == 1 {
            flags.set(100, 7);
        }
    }
}

#[test]
fn global_memory_between_blocks() {
    let mut flags = Buffer::<u32>::zeroed("flags", 101);
    // More blocks than can be resident: those that never run together race as well.
    for blocks in [2, 100] {
        let config = LaunchConfig::linear(blocks, 32);
        // SAFETY: simulated.
        for fault in faults("block_flags", "races.rs", |s| unsafe {
            block_flags::launch(s, &config, 1, &mut flags)
        }) {
            // The same value, by all: still a race.
            assert_eq!(race(&fault), [Access::Write, Access::Write]);
            assert_eq!(fault.buffer.as_deref(), Some("flags"));
            assert_eq!(fault.index, Some(100));
            assert_eq!(fault.thread, [3, 0, 0]);
            let other = fault.other.expect("another party");
            assert_ne!(fault.block, other.block);
        }
        // SAFETY: simulated.
        silent(|s| unsafe { block_flags::launch(s, &config, 0, &mut flags) });
    }
}

#[test]
fn blocks_race_even_when_one_has_ended_before_the_other_began() {
    let mut flags = Buffer::<u32>::zeroed("flags", 101);
    let config = LaunchConfig::linear(2, 32);
    for seed in super::SEEDS {
        let options = Options {
            seed,
            resident_blocks: 1,
            ..Options::default()
        };
        let args = [1u32.into(), flags.kernel_arg_mut()];
        let fault = sim::launch(block_flags::desc(), &config, &args, &options).unwrap_err();
        assert_eq!(race(&fault), [Access::Write, Access::Write]);
    }
}

/// Every thread adds to a counter; the last thread of the grid reads it, plainly or not, or writes
/// it.
#[kernel]
pub unsafe fn plain_and_atomic(how: u32, counter: GlobalMut<u32>, out: GlobalMut<u32>) {
    let cell = counter.atomic(5);
    cell.fetch_add(1, Ordering::AcqRel, Scope::Device);
    if thread::index_1d() == thread::num_threads_1d() - 1 {
        match how {
            0 => out.set(0, counter.get(5)),
            1 => counter.set(5, 0),
            _ => out.set(0, cell.load(Ordering::Relaxed, Scope::Device)),
        }
    }
}

#[test]
fn plain_against_atomic() {
    let config = LaunchConfig::linear(2, 33);
    let mut counter = Buffer::<u32>::zeroed("counter", 6);
    let mut out = Buffer::<u32>::uninitialized("out", 1);
    for (how, expected) in [
        (0, [Access::Read, Access::AtomicWrite]),
        (1, [Access::Write, Access::AtomicWrite]),
    ] {
        // SAFETY: simulated.
        for fault in faults("plain_and_atomic", "races.rs", |s| unsafe {
            plain_and_atomic::launch(s, &config, how, &mut counter, &mut out)
        }) {
            assert_eq!(race(&fault), expected, "{fault}");
            assert_eq!(fault.buffer.as_deref(), Some("counter"));
            assert_eq!(fault.index, Some(5));
        }
    }
    // SAFETY: simulated.
    silent(|s| unsafe { plain_and_atomic::launch(s, &config, 2, &mut counter, &mut out) });
}

/// Lane 0 writes for its warp, with or without `sync_warp`.
#[kernel]
pub unsafe fn warp_broadcast(how: u32, out: GlobalMut<u32>) {
    let cell = shared_array![u32; 2];
    let t = thread::thread_idx_x();
    let w = thread::warp_id() as usize;
    if thread::lane_id() == 0 {
        cell.set(w, t + 1);
    }
    match how {
        0 => {}
        1 => warp::sync_warp(warp::FULL_MASK),
        2 => {
            // Half warps: the upper one is left out.
            let half = if thread::lane_id() < 16 {
                0xffff
            } else {
                0xffff_0000
            };
            warp::sync_warp(half);
        }
        _ => {
            warp::ballot(warp::FULL_MASK, true);
        }
    }
    if how != 0 || thread::lane_id() == 0 || thread::lane_id() == 20 {
        out.set(t as usize, cell.get(w));
    }
}

#[test]
fn a_warp_without_sync_warp() {
    let config = LaunchConfig::linear(1, 64);
    let mut out = Buffer::<u32>::uninitialized("out", 64);
    for how in [0, 2] {
        // SAFETY: simulated.
        for fault in faults("warp_broadcast", "races.rs", |s| unsafe {
            warp_broadcast::launch(s, &config, how, &mut out)
        }) {
            if fault.kind != FaultKind::Uninitialized {
                assert_eq!(race(&fault), [Access::Read, Access::Write]);
                let other = fault.other.as_ref().expect("another party");
                assert_eq!(fault.thread[0] / 32, other.thread[0] / 32);
                assert_eq!(fault.index, Some(fault.thread[0] as usize / 32));
                let reader = fault.thread[0].max(other.thread[0]) % 32;
                assert!(
                    if how == 0 { reader == 20 } else { reader >= 16 },
                    "{fault}"
                );
            }
            assert_eq!(fault.buffer.as_deref(), Some("cell"));
        }
    }
    for how in [1, 3] {
        // SAFETY: simulated.
        silent(|s| unsafe { warp_broadcast::launch(s, &config, how, &mut out) });
        let expected: Vec<u32> = (0..64).map(|t| t / 32 * 32 + 1).collect();
        assert_eq!(out.to_vec(), expected);
    }
}

#[test]
fn collectives_order_memory_only_when_asked_to() {
    let config = LaunchConfig::linear(1, 64);
    let mut out = Buffer::<u32>::uninitialized("out", 64);
    let strict = Options {
        collectives_order_memory: false,
        ..Options::default()
    };
    // SAFETY: simulated.
    for fault in super::faults_with("warp_broadcast", "races.rs", &strict, |s| unsafe {
        warp_broadcast::launch(s, &config, 3, &mut out)
    }) {
        assert_eq!(race(&fault), [Access::Read, Access::Write]);
        assert_eq!(fault.buffer.as_deref(), Some("cell"));
    }
    let args = [1u32.into(), out.kernel_arg_mut()];
    sim::launch(warp_broadcast::desc(), &config, &args, &strict).unwrap();
}

/// Groups of lanes meet again and again; lane 31 reads all at the end.
#[kernel]
pub unsafe fn groups(last: u32, out: GlobalMut<u32>) {
    let cells = shared_array![u32; 32];
    let lane = thread::lane_id();
    cells.set(lane as usize, lane);
    // Pairs, fours, … : after `last` all is known to lane 31 by a chain of partial masks.
    let mut width = 2;
    while width <= last {
        let group = (((1u64 << width) - 1) as u32) << (lane / width * width);
        warp::sync_warp(group);
        width *= 2;
    }
    if lane == 31 {
        let mut sum = 0;
        for i in 0..32 {
            sum += cells.get(i);
        }
        out.set(0, sum);
    }
}

#[test]
fn partial_masks_chain() {
    let config = LaunchConfig::linear(1, 32);
    let mut out = Buffer::<u32>::uninitialized("out", 1);
    // SAFETY: simulated.
    for fault in faults("groups", "races.rs", |s| unsafe {
        groups::launch(s, &config, 16, &mut out)
    }) {
        if fault.kind != FaultKind::Uninitialized {
            race(&fault);
            assert!(fault.index.expect("an index") < 16, "{fault}");
        }
    }
    // SAFETY: simulated.
    silent(|s| unsafe { groups::launch(s, &config, 32, &mut out) });
    assert_eq!(out.to_vec(), [31 * 16]);
}

/// Writes and reads two views of one allocation.
#[kernel]
pub unsafe fn shift(x: Global<u32>, y: GlobalMut<u32>) {
    let i = thread::index_1d() as usize;
    y.set(i, x.get(i));
}

#[test]
fn overlapping_views_of_one_allocation() {
    let a = Buffer::from_slice("arena", &vec![1u32; 128]);
    let config = LaunchConfig::linear(1, 32);
    for seed in super::SEEDS {
        let options = Options {
            seed,
            ..Options::default()
        };
        let views = |offset| {
            [
                a.allocation().arg::<u32>(0, 32, false),
                a.allocation().arg::<u32>(offset, 32, true),
            ]
        };
        let fault = sim::launch(shift::desc(), &config, &views(16), &options).unwrap_err();
        assert_eq!(race(&fault), [Access::Read, Access::Write]);
        let other = fault.other.as_ref().expect("another party");
        // Element i + 4 of `x` is element i of `y`.
        let (x, y) = match fault.buffer.as_deref() {
            Some("x") => (fault.thread[0], other.thread[0]),
            Some("y") => (other.thread[0], fault.thread[0]),
            _ => panic!("{fault}"),
        };
        assert_eq!(x, y + 4, "{fault}");
        sim::launch(shift::desc(), &config, &views(128), &options).unwrap();
    }
}

/// A view of 64-bit elements over 32-bit ones.
#[kernel]
pub unsafe fn mixed_widths(words: GlobalMut<u32>, doubles: GlobalMut<u64>) {
    if thread::thread_idx_x() == 0 {
        words.set(5, 1);
    } else {
        doubles.set(2, 1);
    }
}

#[test]
fn the_halves_of_a_64_bit_element_are_tracked() {
    let config = LaunchConfig::linear(1, 2);
    let a = Buffer::from_slice("arena", &[0u64; 8]);
    for seed in super::SEEDS {
        let options = Options {
            seed,
            ..Options::default()
        };
        let args = |offset| {
            [
                a.allocation().arg::<u32>(0, 16 - offset / 4, true),
                a.allocation().arg::<u64>(offset, 4, true),
            ]
        };
        let fault = sim::launch(mixed_widths::desc(), &config, &args(0), &options).unwrap_err();
        assert_eq!(race(&fault), [Access::Write, Access::Write]);
        sim::launch(mixed_widths::desc(), &config, &args(8), &options).unwrap();
    }
}

#[test]
fn launches_are_ordered() {
    let mut x = Buffer::from_slice("x", &vec![0u32; 64]);
    let y = Buffer::from_slice("y", &vec![0u32; 64]);
    let mut z = Buffer::<u32>::uninitialized("z", 64);
    let config = LaunchConfig::linear(2, 32);
    // SAFETY: simulated.
    silent(|s| unsafe {
        shift::launch(s, &config, &y, &mut x)?;
        shift::launch(s, &config, &x, &mut z)?;
        shift::launch(s, &config, &z, &mut x)
    });
    assert_eq!(x.len(), 64);
}

/// Each thread reads a common cell many times, then one writes it after a barrier or not.
#[kernel]
pub unsafe fn many_readers(barrier: u32, x: GlobalMut<u32>, out: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    let mut sum = 0;
    for _ in 0..3 {
        sum += x.get(0);
    }
    out.set(t as usize, sum);
    if barrier == 1 {
        thread::sync_threads();
    }
    if t == 17 {
        x.set(0, 5);
    }
}

#[test]
fn a_write_races_with_every_concurrent_reader() {
    let config = LaunchConfig::linear(1, 96);
    let mut out = Buffer::<u32>::uninitialized("out", 96);
    let mut x = Buffer::from_slice("x", &[1u32]);
    // SAFETY: simulated.
    for fault in faults("many_readers", "races.rs", |s| unsafe {
        many_readers::launch(s, &config, 0, &mut x, &mut out)
    }) {
        assert_eq!(race(&fault), [Access::Read, Access::Write]);
        assert_eq!(fault.buffer.as_deref(), Some("x"));
        assert_eq!(fault.index, Some(0));
        let other = fault.other.as_ref().expect("another party");
        assert!(fault.thread[0] == 17 || other.thread[0] == 17, "{fault}");
    }
    // SAFETY: simulated.
    silent(|s| unsafe { many_readers::launch(s, &config, 1, &mut x, &mut out) });
}

/// All lanes of a warp read a cell, and one writes it that has waited for all but one of them.
#[kernel]
pub unsafe fn all_but_one(left_out: u32, x: GlobalMut<u32>, out: GlobalMut<u32>) {
    let lane = thread::lane_id();
    out.set(lane as usize, x.get(0));
    if lane != left_out {
        let waits_for_all = left_out == warp::WARP_SIZE;
        let others = !(1u32 << (left_out % warp::WARP_SIZE));
        warp::sync_warp(if waits_for_all {
            warp::FULL_MASK
        } else {
            others
        });
    }
    if lane == (left_out + 1) % warp::WARP_SIZE {
        x.set(0, 5);
    }
}

#[test]
fn a_write_races_with_each_lane_that_has_read() {
    let config = LaunchConfig::linear(1, 32);
    let mut out = Buffer::<u32>::uninitialized("out", 32);
    let mut x = Buffer::from_slice("x", &[1u32]);
    for left_out in [0, 1, 17, 31] {
        // SAFETY: simulated.
        for fault in faults("all_but_one", "races.rs", |s| unsafe {
            all_but_one::launch(s, &config, left_out, &mut x, &mut out)
        }) {
            assert_eq!(race(&fault), [Access::Read, Access::Write]);
            let other = fault.other.as_ref().expect("another party");
            assert!(
                [fault.thread[0], other.thread[0]].contains(&left_out),
                "{fault}"
            );
        }
    }
    // SAFETY: simulated.
    silent(|s| unsafe { all_but_one::launch(s, &config, 32, &mut x, &mut out) });
}

/// Block 0 lets lanes 0 and 2 meet often; in the others they never meet, only 0 and 1 do.
#[kernel]
pub unsafe fn forgetful_place(meet: u32, x: GlobalMut<u32>) {
    let lane = thread::lane_id();
    let b = thread::block_idx_x() as usize;
    if b == 0 && lane != 1 {
        for _ in 0..20 {
            warp::sync_warp(0b101);
        }
    } else if b > 0 {
        if lane < 2 {
            warp::sync_warp(0b011);
        }
        if lane == 2 {
            x.set(b, 1);
        }
        if meet == 1 {
            warp::sync_warp(0b111);
        }
        if lane == 0 {
            x.get(b);
        }
    }
}

#[test]
fn a_block_inherits_nothing_from_the_one_before_it_in_its_place() {
    let config = LaunchConfig::linear(2, 3);
    let mut x = Buffer::<u32>::zeroed("x", 2);
    let one_place = Options {
        resident_blocks: 1,
        ..Options::default()
    };
    // SAFETY: simulated.
    for fault in super::faults_with("forgetful_place", "races.rs", &one_place, |s| unsafe {
        forgetful_place::launch(s, &config, 0, &mut x)
    }) {
        assert_eq!(race(&fault), [Access::Read, Access::Write]);
        assert_eq!((fault.block, fault.index), ([1, 0, 0], Some(1)));
    }
    // SAFETY: simulated.
    silent(|s| unsafe { forgetful_place::launch(s, &config, 1, &mut x) });
}

/// Reverses 64 complex numbers through shared memory.
#[kernel(T = [Complex<f32>, Complex<f64>])]
pub unsafe fn reverse_complex<T: Field>(barrier: u32, x: GlobalMut<T>) {
    let pairs = shared_array![T; 64];
    let t = thread::thread_idx_x() as usize;
    pairs.set(t, x.get(t));
    if barrier == 1 {
        thread::sync_threads();
    }
    x.set(t, pairs.get(63 - t).conjugate()); // read there
}

#[test]
fn complex_numbers_in_shared_memory_without_a_barrier() {
    fn check<T: reverse_complex::Instance>(of_parts: fn(f32, f32) -> T, name: &str) {
        let values: Vec<T> = (0..64).map(|i| of_parts(i as f32, 0.5)).collect();
        let config = LaunchConfig::linear(1, 64);
        let mut x = Buffer::from_slice("x", &values);
        // SAFETY: simulated.
        for fault in faults(name, "races.rs", |s| unsafe {
            reverse_complex::launch(s, &config, 0, &mut x)
        }) {
            if fault.kind == FaultKind::Uninitialized {
                assert!(source_line(&fault, SOURCE).ends_with("// read there"));
            } else {
                assert_eq!(race(&fault), [Access::Read, Access::Write]);
                let other = fault.other.as_ref().expect("another party");
                assert_eq!(fault.thread[0] + other.thread[0], 63, "{fault}");
            }
            assert_eq!(fault.buffer.as_deref(), Some("pairs"));
        }
        // SAFETY: simulated.
        silent(|s| unsafe {
            x.copy_from_slice(&values);
            reverse_complex::launch(s, &config, 1, &mut x)
        });
        let reversed: Vec<T> = (0..64).rev().map(|i| of_parts(i as f32, -0.5)).collect();
        assert_eq!(x.to_vec(), reversed);
    }
    check(Complex::<f32>::new, "reverse_complex_complex_f32");
    check(
        |re, im| Complex::<f64>::new(re.into(), im.into()),
        "reverse_complex_complex_f64",
    );
}

/// Threads 0 and 1 write a complex number each: the same one or two that lie side by side. If `part` is one of the four
/// numbers that they consist of, thread 2 writes this one alone.
#[kernel]
pub unsafe fn write_pairs(
    apart: u32,
    part: u32,
    x: GlobalMut<Complex<f64>>,
    parts: GlobalMut<f64>,
) {
    let t = thread::thread_idx_x();
    if t < 2 {
        x.set((t * apart) as usize, Complex::new(1.0, 2.0));
    } else if part < 4 {
        parts.set(part as usize, 3.0);
    }
}

#[test]
fn both_components_of_a_complex_number_are_one_element() {
    let config = LaunchConfig::linear(1, 3);
    let mut x = Buffer::<Complex<f64>>::zeroed("x", 2);
    // As complex numbers alone, and as complex and real numbers at once.
    let mut other = Buffer::<f64>::zeroed("other", 4);
    let same = x.allocation().arg::<f64>(0, 4, true);
    for parts in [other.kernel_arg_mut(), same.clone()] {
        for seed in super::SEEDS {
            let mut launch = |apart: u32, part: u32| {
                let args = [apart.into(), part.into(), x.kernel_arg_mut(), parts.clone()];
                let options = Options {
                    seed,
                    ..Options::default()
                };
                sim::launch(write_pairs::desc(), &config, &args, &options)
            };
            let fault = launch(0, 4).unwrap_err();
            assert_eq!(race(&fault), [Access::Write, Access::Write]);
            assert_eq!((fault.buffer.as_deref(), fault.index), (Some("x"), Some(0)));
            launch(1, 4).unwrap();
        }
    }
    for (part, seed) in (0..4).zip(super::SEEDS) {
        let args = [1u32.into(), part.into(), x.kernel_arg_mut(), same.clone()];
        let options = Options {
            seed,
            ..Options::default()
        };
        let fault = sim::launch(write_pairs::desc(), &config, &args, &options).unwrap_err();
        assert_eq!(race(&fault), [Access::Write, Access::Write]);
        let found = (
            fault.buffer.as_deref(),
            fault.index.expect("an index") as u32,
        );
        assert!(
            found == (Some("x"), part / 2) || found == (Some("parts"), part),
            "{fault}"
        );
    }
}

/// Reads the complex number `i`.
#[kernel]
pub unsafe fn read_pair(i: u32, x: Global<Complex<f64>>, out: GlobalMut<Complex<f64>>) {
    out.set(0, x.get(i as usize));
}

#[test]
fn a_complex_number_is_written_when_both_components_are() {
    let config = LaunchConfig::linear(1, 1);
    let x = Buffer::<Complex<f64>>::uninitialized("x", 2);
    let mut out = Buffer::<Complex<f64>>::uninitialized("out", 1);
    x.allocation().write(0, &[0; 28]);
    let s = sim::Simulator::default();
    // SAFETY: simulated.
    let fault = unsafe { read_pair::launch(&s, &config, 1, &x, &mut out) }.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Uninitialized);
    assert_eq!((fault.buffer.as_deref(), fault.index), (Some("x"), Some(1)));
    // SAFETY: simulated.
    unsafe { read_pair::launch(&s, &config, 0, &x, &mut out) }.unwrap();
    x.allocation().write(28, &[0; 4]);
    // SAFETY: simulated.
    unsafe { read_pair::launch(&s, &config, 1, &x, &mut out) }.unwrap();
}

/// A thread of block 0 reads `x`, then says so without ordering anything; block 1 waits for that, reads `x` again and again,
/// each time at another clock, and writes it.
#[kernel]
pub unsafe fn read_often(said: GlobalMut<u32>, x: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    if thread::block_idx_x() == 0 {
        if t == 0 && x.get(0) < 100 {
            said.atomic(0).store(1, Ordering::Relaxed, Scope::Device);
        }
        return;
    }
    spin_wait(|| said.atomic(0).load(Ordering::Relaxed, Scope::Device) == 1);
    let mut sum = 0;
    for _ in 0..40 {
        sum += x.get(0);
        warp::sync_warp(warp::FULL_MASK);
    }
    if t == 0 {
        x.set(0, sum); // written
    }
}

#[test]
fn a_reader_is_remembered_among_many_that_are_ordered() {
    let config = LaunchConfig::linear(2, 32);
    let mut said = Buffer::from_slice("said", &[0u32]);
    let mut x = Buffer::from_slice("x", &[1u32]);
    // SAFETY: simulated.
    for fault in faults("read_often", "races.rs", |s| unsafe {
        said.copy_from_slice(&[0]);
        read_often::launch(s, &config, &mut said, &mut x)
    }) {
        assert_eq!(race(&fault), [Access::Read, Access::Write]);
        assert!(source_line(&fault, SOURCE).ends_with("// written"));
        assert_eq!(fault.other.as_ref().unwrap().block, [0, 0, 0]);
    }
}

/// The first thread of a block acquires what a release says, and writes.
fn write_when_said(said: GlobalMut<u32>, x: GlobalMut<u32>) {
    if thread::thread_idx_x() == 0 {
        spin_wait(|| said.atomic(0).load(Ordering::Acquire, Scope::Device) == 1);
        x.set(0, 2); // written behind a release
    }
}

/// All lanes of block 0 read `x`, and a release says so; then lane 5 reads it once more, in the same line. Block 1 acquires that
/// and writes.
#[kernel]
pub unsafe fn read_again(said: GlobalMut<u32>, x: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    if thread::block_idx_x() == 1 {
        return write_when_said(said, x);
    }
    for time in 0..2 {
        if time == 0 || t == 5 {
            x.set(1 + t as usize, x.get(0));
        }
        warp::sync_warp(warp::FULL_MASK);
        if time == 0 && t == 0 {
            said.atomic(0).store(1, Ordering::Release, Scope::Device);
        }
    }
}

#[test]
fn a_later_read_of_the_same_line_is_another_one() {
    let config = LaunchConfig::linear(2, 32);
    let mut said = Buffer::from_slice("said", &[0u32]);
    let mut x = Buffer::from_slice("x", &[1u32; 33]);
    // SAFETY: simulated.
    for fault in faults("read_again", "races.rs", |s| unsafe {
        said.copy_from_slice(&[0]);
        read_again::launch(s, &config, &mut said, &mut x)
    }) {
        assert_eq!(race(&fault), [Access::Read, Access::Write]);
        let other = fault.other.as_ref().expect("another party");
        assert_eq!(fault.thread[0].max(other.thread[0]), 5, "{fault}");
    }
}

/// Two warps of block 0 read `x`, odd lanes in another line than even ones; the first says so by a release that knows of its
/// own reads alone. Block 1 acquires that and writes.
#[kernel]
pub unsafe fn read_by_warps(said: GlobalMut<u32>, x: GlobalMut<u32>) {
    let t = thread::thread_idx_x();
    if thread::block_idx_x() == 1 {
        return write_when_said(said, x);
    }
    let value = if t & 1 == 0 {
        x.get(0) // read by even lanes
    } else {
        2 * x.get(0) // read by odd lanes
    };
    x.set(1 + t as usize, value);
    warp::sync_warp(warp::FULL_MASK);
    if t == 0 {
        said.atomic(0).store(1, Ordering::Release, Scope::Device);
    }
}

#[test]
fn readers_of_two_warps_are_kept_apart() {
    let config = LaunchConfig::linear(2, 64);
    let mut said = Buffer::from_slice("said", &[0u32]);
    let mut x = Buffer::from_slice("x", &[1u32; 65]);
    // SAFETY: simulated.
    for fault in faults("read_by_warps", "races.rs", |s| unsafe {
        said.copy_from_slice(&[0]);
        read_by_warps::launch(s, &config, &mut said, &mut x)
    }) {
        assert_eq!(race(&fault), [Access::Read, Access::Write]);
        let other = fault.other.as_ref().expect("another party");
        let line = |at: &sim::SourceLine| SOURCE.lines().nth(at.line as usize - 1).unwrap();
        let (reader, at) = if source_line(&fault, SOURCE).ends_with("behind a release") {
            (other.thread[0], other.location.as_ref().unwrap())
        } else {
            (fault.thread[0], fault.location.as_ref().unwrap())
        };
        assert!(reader >= 32, "{fault}");
        let lanes = if reader & 1 == 0 {
            "even lanes"
        } else {
            "odd lanes"
        };
        assert!(line(at).ends_with(lanes), "{fault}");
    }
}
