//! Release, acquire, fences and their scopes.

use luge_kernel::host::LaunchConfig;
use luge_kernel::prelude::*;
use luge_kernel::sim::{Access, Buffer, Fault, FaultKind, Simulator};

use super::{faults, silent};

/// How a message is sent, by number, since kernels take numbers.
mod how {
    pub const RELEASE_ACQUIRE: u32 = 0;
    pub const RELAXED_STORE: u32 = 1;
    pub const RELAXED_LOAD: u32 = 2;
    pub const BLOCK_RELEASE: u32 = 3;
    pub const BLOCK_ACQUIRE: u32 = 4;
    pub const FENCES: u32 = 5;
    pub const BLOCK_FENCE_BEFORE: u32 = 6;
    pub const BLOCK_FENCE_AFTER: u32 = 7;
    pub const NO_FENCE_AFTER: u32 = 8;
    pub const READ_MODIFY_WRITE: u32 = 9;
    pub const RELAXED_CHAIN: u32 = 10;
}

/// The sender's half: data first, then the flag.
#[inline]
fn send(h: u32, data: GlobalMut<f64>, flag: GlobalMut<u32>, value: f64) {
    data.set(3, value);
    let cell = flag.atomic(0);
    match h {
        how::RELAXED_STORE => cell.store(1, Ordering::Relaxed, Scope::Device),
        how::BLOCK_RELEASE => cell.store(1, Ordering::Release, Scope::Block),
        how::FENCES | how::BLOCK_FENCE_AFTER | how::NO_FENCE_AFTER => {
            fence::fence(Scope::Device);
            cell.store(1, Ordering::Relaxed, Scope::Device);
        }
        how::BLOCK_FENCE_BEFORE => {
            fence::fence(Scope::Block);
            cell.store(1, Ordering::Relaxed, Scope::Device);
        }
        how::READ_MODIFY_WRITE => {
            cell.fetch_add(1, Ordering::AcqRel, Scope::Device);
        }
        _ => cell.store(1, Ordering::Release, Scope::Device),
    }
}

/// The receiver's half.
#[inline]
fn receive(h: u32, flag: GlobalMut<u32>) {
    let cell = flag.atomic(0);
    match h {
        how::RELAXED_LOAD => spin_wait(|| cell.load(Ordering::Relaxed, Scope::Device) != 0),
        how::BLOCK_ACQUIRE => spin_wait(|| cell.load(Ordering::Acquire, Scope::Block) != 0),
        how::FENCES | how::BLOCK_FENCE_BEFORE => {
            spin_wait(|| cell.load(Ordering::Relaxed, Scope::Device) != 0);
            fence::fence(Scope::Device);
        }
        how::BLOCK_FENCE_AFTER => {
            spin_wait(|| cell.load(Ordering::Relaxed, Scope::Device) != 0);
            fence::fence(Scope::Block);
        }
        how::NO_FENCE_AFTER => spin_wait(|| cell.load(Ordering::Relaxed, Scope::Device) != 0),
        how::READ_MODIFY_WRITE => {
            spin_wait(|| cell.fetch_add(0, Ordering::AcqRel, Scope::Device) != 0);
        }
        how::RELAXED_CHAIN => {
            spin_wait(|| cell.load(Ordering::Acquire, Scope::Device) == 2);
        }
        _ => spin_wait(|| cell.load(Ordering::Acquire, Scope::Device) != 0),
    }
}

/// One thread sends a value to another one, of the same block or the next.
#[kernel]
pub unsafe fn message(h: u32, data: GlobalMut<f64>, flag: GlobalMut<u32>, out: GlobalMut<f64>) {
    let i = thread::index_1d();
    if i == 0 {
        send(h, data, flag, 2.5);
    } else if i == 1 && h == how::RELAXED_CHAIN {
        // A relaxed read-modify-write hands on what the value before it published.
        let cell = flag.atomic(0);
        spin_wait(|| cell.compare_exchange(1, 2, Ordering::Relaxed, Scope::Device) == 1);
    } else if i == thread::num_threads_1d() - 1 {
        receive(h, flag);
        out.set(0, data.get(3));
    }
}

/// Two blocks of two, or one block of four.
const APART: LaunchConfig = LaunchConfig::linear(2, 2);
const TOGETHER: LaunchConfig = LaunchConfig::linear(1, 4);

fn launch(s: &Simulator, config: &LaunchConfig, h: u32) -> Result<(), Box<Fault>> {
    let mut data = Buffer::<f64>::zeroed("data", 4);
    let mut flag = Buffer::<u32>::zeroed("flag", 1);
    let mut out = Buffer::<f64>::uninitialized("out", 1);
    // SAFETY: simulated.
    unsafe { message::launch(s, config, h, &mut data, &mut flag, &mut out) }?;
    assert_eq!(out.to_vec(), [2.5]);
    Ok(())
}

#[track_caller]
fn caught(config: &LaunchConfig, h: u32) {
    for fault in faults("message", "scopes.rs", |s| launch(s, config, h)) {
        let FaultKind::Race { scope: false, .. } = fault.kind else {
            panic!("not the race: {fault}");
        };
        assert_eq!(fault.buffer.as_deref(), Some("data"), "{fault}");
        assert_eq!(fault.index, Some(3));
        let last = if config == &APART {
            [1, 0, 0]
        } else {
            [3, 0, 0]
        };
        assert_eq!(fault.thread, last, "{fault}");
        let other = fault.other.expect("another party");
        assert_eq!((other.block, other.thread), ([0; 3], [0; 3]));
    }
}

/// For atomics whose scope leaves the other block out.
#[track_caller]
fn too_narrow(h: u32) {
    for fault in faults("message", "scopes.rs", |s| launch(s, &APART, h)) {
        let FaultKind::Race {
            access,
            other_access,
            scope,
        } = fault.kind
        else {
            panic!("not the race: {fault}");
        };
        assert!(scope, "{fault}");
        assert_eq!(fault.buffer.as_deref(), Some("flag"));
        assert!([access, other_access].contains(&Access::AtomicWrite));
    }
}

#[test]
fn release_and_acquire_order_blocks() {
    silent(|s| launch(s, &APART, how::RELEASE_ACQUIRE));
    silent(|s| launch(s, &TOGETHER, how::RELEASE_ACQUIRE));
    silent(|s| launch(s, &APART, how::READ_MODIFY_WRITE));
    silent(|s| launch(s, &APART, how::RELAXED_CHAIN));
}

#[test]
fn a_relaxed_side_orders_nothing() {
    for config in [APART, TOGETHER] {
        caught(&config, how::RELAXED_STORE);
        caught(&config, how::RELAXED_LOAD);
    }
}

#[test]
fn block_scope_atomics_between_blocks_are_caught() {
    too_narrow(how::BLOCK_RELEASE);
    too_narrow(how::BLOCK_ACQUIRE);
    silent(|s| launch(s, &TOGETHER, how::BLOCK_RELEASE));
    silent(|s| launch(s, &TOGETHER, how::BLOCK_ACQUIRE));
}

#[test]
fn fences_need_both_sides_and_the_scope() {
    silent(|s| launch(s, &APART, how::FENCES));
    silent(|s| launch(s, &TOGETHER, how::FENCES));
    caught(&APART, how::BLOCK_FENCE_BEFORE);
    caught(&APART, how::BLOCK_FENCE_AFTER);
    caught(&APART, how::NO_FENCE_AFTER);
    caught(&TOGETHER, how::NO_FENCE_AFTER);
    silent(|s| launch(s, &TOGETHER, how::BLOCK_FENCE_BEFORE));
    silent(|s| launch(s, &TOGETHER, how::BLOCK_FENCE_AFTER));
}

/// What a block wrote, its barrier gathers, one thread releases, one acquires, its barrier spreads.
#[kernel]
pub unsafe fn block_message(
    barriers: u32,
    data: GlobalMut<u32>,
    flag: GlobalMut<u32>,
    out: GlobalMut<u32>,
) {
    let t = thread::thread_idx_x() as usize;
    let n = thread::block_dim_x() as usize;
    if thread::block_idx_x() == 0 {
        data.set(t, t as u32 + 1);
        if barriers & 1 == 1 {
            thread::sync_threads();
        }
        if t == 0 {
            flag.atomic(0).store(1, Ordering::Release, Scope::Device);
        }
    } else {
        if t == 0 {
            spin_wait(|| flag.atomic(0).load(Ordering::Acquire, Scope::Device) == 1);
        }
        if barriers & 2 == 2 {
            thread::sync_threads();
        }
        out.set(t, data.get(n - 1 - t));
    }
}

#[test]
fn barriers_and_release_acquire_compose() {
    let n = 48;
    let config = LaunchConfig::linear(2, n);
    let mut out = Buffer::<u32>::uninitialized("out", n as usize);
    let mut run = |s: &Simulator, barriers| {
        let mut data = Buffer::<u32>::zeroed("data", n as usize);
        let mut flag = Buffer::<u32>::zeroed("flag", 1);
        // SAFETY: simulated.
        unsafe { block_message::launch(s, &config, barriers, &mut data, &mut flag, &mut out) }
    };
    for barriers in 0..3 {
        for fault in faults("block_message", "scopes.rs", |s| run(s, barriers)) {
            assert!(matches!(fault.kind, FaultKind::Race { .. }), "{fault}");
            assert_eq!(fault.buffer.as_deref(), Some("data"));
            let other = fault.other.as_ref().expect("another party");
            assert_ne!(fault.block, other.block);
            assert_eq!(fault.thread[0] + other.thread[0], n - 1, "{fault}");
        }
    }
    silent(|s| run(s, 3));
    let expected: Vec<u32> = (1..=n).rev().collect();
    assert_eq!(out.to_vec(), expected);
}

/// A lock around a plain counter.
#[kernel]
pub unsafe fn locked(release: u32, lock: GlobalMut<u32>, counter: GlobalMut<u32>) {
    let cell = lock.atomic(0);
    spin_wait(|| cell.compare_exchange(0, 1, Ordering::Acquire, Scope::Device) == 0);
    counter.set(0, counter.get(0) + 1);
    let ordering = if release == 1 {
        Ordering::Release
    } else {
        Ordering::Relaxed
    };
    cell.store(0, ordering, Scope::Device);
}

#[test]
fn a_lock_orders_its_critical_sections() {
    let config = LaunchConfig::linear(3, 40);
    let run = |s: &Simulator, release| {
        let mut lock = Buffer::<u32>::zeroed("lock", 1);
        let mut counter = Buffer::<u32>::zeroed("counter", 1);
        // SAFETY: simulated.
        unsafe { locked::launch(s, &config, release, &mut lock, &mut counter) }?;
        assert_eq!(counter.to_vec(), [120]);
        Ok(())
    };
    for fault in faults("locked", "scopes.rs", |s| run(s, 0)) {
        assert!(matches!(fault.kind, FaultKind::Race { .. }), "{fault}");
        assert_eq!(fault.buffer.as_deref(), Some("counter"));
        assert_eq!(fault.index, Some(0));
    }
    silent(|s| run(s, 1));
}

/// The grid's threads count themselves; the last one reads what all wrote.
#[kernel]
pub unsafe fn last_one(
    ordered: u32,
    parts: GlobalMut<u64>,
    count: GlobalMut<u32>,
    out: GlobalMut<u64>,
) {
    let i = thread::index_1d();
    parts.set(i as usize, u64::from(i));
    let ordering = if ordered == 1 {
        Ordering::AcqRel
    } else {
        Ordering::Relaxed
    };
    let before = count.atomic(0).fetch_add(1, ordering, Scope::Device);
    if before == thread::num_threads_1d() - 1 {
        let mut sum = 0;
        for i in 0..parts.len() {
            sum += parts.get(i);
        }
        out.set(0, sum);
    }
}

#[test]
fn a_counter_orders_by_its_chain_of_read_modify_writes() {
    let config = LaunchConfig::linear(4, 33);
    let mut out = Buffer::<u64>::uninitialized("out", 1);
    let mut run = |s: &Simulator, ordered| {
        let mut parts = Buffer::<u64>::uninitialized("parts", 132);
        let mut count = Buffer::<u32>::zeroed("count", 1);
        // SAFETY: simulated.
        unsafe { last_one::launch(s, &config, ordered, &mut parts, &mut count, &mut out) }
    };
    for fault in faults("last_one", "scopes.rs", |s| run(s, 0)) {
        assert!(matches!(fault.kind, FaultKind::Race { .. }), "{fault}");
        assert_eq!(fault.buffer.as_deref(), Some("parts"));
    }
    silent(|s| run(s, 1));
    assert_eq!(out.to_vec(), [131 * 66]);
}

/// A flag is released and then used plainly; another thread acquires another flag.
#[kernel]
pub unsafe fn unrelated_flag(same: u32, data: GlobalMut<u32>, flags: GlobalMut<u32>) {
    let device = Scope::Device;
    if thread::block_idx_x() == 0 {
        data.set(0, 1);
        flags.atomic(0).store(1, Ordering::Release, device);
        if same == 0 {
            flags.set(0, 2);
        }
        flags.atomic(1).store(1, Ordering::Relaxed, device);
    } else {
        spin_wait(|| flags.atomic(1).load(Ordering::Relaxed, device) == 1);
        let flag = if same == 1 { 0 } else { 2 };
        flags.atomic(flag).load(Ordering::Acquire, device);
        data.get(0);
    }
}

#[test]
fn a_plain_write_takes_back_what_was_published() {
    let config = LaunchConfig::linear(2, 1);
    let run = |s: &Simulator, same| {
        let mut data = Buffer::<u32>::zeroed("data", 1);
        let mut flags = Buffer::<u32>::zeroed("flags", 3);
        // SAFETY: simulated.
        unsafe { unrelated_flag::launch(s, &config, same, &mut data, &mut flags) }
    };
    for fault in faults("unrelated_flag", "scopes.rs", |s| run(s, 0)) {
        assert!(matches!(fault.kind, FaultKind::Race { .. }), "{fault}");
        assert_eq!(fault.buffer.as_deref(), Some("data"));
    }
    silent(|s| run(s, 1));
}

/// Block 0 counts and releases. A thread of block 1 acquires that and counts again and again, each time at another clock; then
/// another one of that block, which nothing orders, counts for its block alone.
#[kernel]
pub unsafe fn count_often(flags: GlobalMut<u32>, counter: GlobalMut<u32>) {
    let device = Scope::Device;
    if thread::block_idx_x() == 0 {
        if thread::thread_idx_x() == 0 {
            counter.atomic(0).fetch_add(1, Ordering::Relaxed, device);
            flags.atomic(0).store(1, Ordering::Release, device);
        }
    } else if thread::thread_idx_x() == 0 {
        spin_wait(|| flags.atomic(0).load(Ordering::Acquire, device) == 1);
        for _ in 0..40 {
            counter.atomic(0).fetch_add(1, Ordering::Relaxed, device);
            fence::fence(device);
        }
        flags.atomic(1).store(1, Ordering::Relaxed, device);
    } else {
        spin_wait(|| flags.atomic(1).load(Ordering::Relaxed, device) == 1);
        counter
            .atomic(0)
            .fetch_add(1, Ordering::Relaxed, Scope::Block);
    }
}

#[test]
fn an_atomic_of_another_block_is_remembered_among_many_of_the_own() {
    let config = LaunchConfig::linear(2, 2);
    let run = |s: &Simulator| {
        let mut flags = Buffer::<u32>::zeroed("flags", 2);
        let mut counter = Buffer::<u32>::zeroed("counter", 1);
        // SAFETY: simulated.
        unsafe { count_often::launch(s, &config, &mut flags, &mut counter) }
    };
    for fault in faults("count_often", "scopes.rs", run) {
        assert!(
            matches!(fault.kind, FaultKind::Race { scope: true, .. }),
            "{fault}"
        );
        assert_eq!(fault.buffer.as_deref(), Some("counter"));
        assert_eq!(fault.other.as_ref().unwrap().block, [0, 0, 0]);
    }
}
