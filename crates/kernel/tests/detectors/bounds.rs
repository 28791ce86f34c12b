//! Out of bounds, reads of memory nobody wrote, panics, refused launches.

use luge_kernel::host::{KernelBuffer, KernelBufferMut, LaunchConfig};
use luge_kernel::prelude::*;
use luge_kernel::sim::{self, Buffer, FaultKind, Options, Simulator};

use super::{faults, silent, source_line};

const SOURCE: &str = include_str!("bounds.rs");

/// Reads one past the end in the last thread.
#[kernel]
pub unsafe fn read_past_end(n: u32, x: Global<f32>, y: GlobalMut<f32>) {
    let i = thread::index_1d();
    if i < n {
        y.set(i as usize, x.get(i as usize)); // the read
    }
}

#[test]
fn a_read_past_the_end_is_caught() {
    let x = Buffer::from_slice("x", &vec![1.0f32; 69]);
    let mut y = Buffer::<f32>::uninitialized("y", 70);
    let config = LaunchConfig::linear(3, 32);
    // SAFETY: simulated.
    for fault in faults("read_past_end", "bounds.rs", |s| unsafe {
        read_past_end::launch(s, &config, 70, &x, &mut y)
    }) {
        assert_eq!(fault.kind, FaultKind::OutOfBounds { len: 69 });
        assert_eq!((fault.block, fault.thread), ([2, 0, 0], [5, 0, 0]));
        assert_eq!(fault.buffer.as_deref(), Some("x"));
        assert_eq!(fault.index, Some(69));
        assert!(source_line(&fault, SOURCE).ends_with("// the read"));
    }
    // SAFETY: simulated.
    silent(|s| unsafe { read_past_end::launch(s, &config, 69, &x, &mut y) });
}

#[test]
fn bounds_are_checked_without_the_other_checks() {
    let x = Buffer::from_slice("x", &vec![1.0f32; 69]);
    let mut y = Buffer::<f32>::uninitialized("y", 70);
    let simulator = Simulator {
        options: Options {
            checks: false,
            ..Options::default()
        },
    };
    let config = LaunchConfig::linear(3, 32);
    // SAFETY: simulated.
    let fault = unsafe { read_past_end::launch(&simulator, &config, 70, &x, &mut y) }.unwrap_err();
    assert_eq!(fault.kind, FaultKind::OutOfBounds { len: 69 });
    assert_eq!(fault.index, Some(69));
}

/// Writes, and takes an atomic, past the end of shared memory.
#[kernel]
pub unsafe fn shared_past_end(atomically: u32) {
    let row = shared_array![u32; 33];
    let i = thread::thread_idx_x() as usize + 2;
    if i < 33 {
        row.set(i, 0);
    } else if atomically == 1 {
        row.atomic(i).store(1, Ordering::Relaxed, Scope::Block);
    } else if atomically == 0 {
        row.set(i, 1);
    }
}

#[test]
fn shared_memory_past_the_end_is_caught() {
    let config = LaunchConfig::linear(1, 32);
    for atomically in [0, 1] {
        // SAFETY: simulated.
        for fault in faults("shared_past_end", "bounds.rs", |s| unsafe {
            shared_past_end::launch(s, &config, atomically)
        }) {
            assert_eq!(fault.kind, FaultKind::OutOfBounds { len: 33 });
            assert_eq!(fault.thread, [31, 0, 0]);
            assert_eq!(fault.buffer.as_deref(), Some("row"));
            assert_eq!(fault.index, Some(33));
        }
    }
    // SAFETY: simulated.
    silent(|s| unsafe { shared_past_end::launch(s, &config, 2) });
}

/// Takes a view of dynamic shared memory.
#[kernel]
pub unsafe fn dynamic_view(offset: u32, len: u32) {
    let view = dynamic_shared::<f64>(offset as usize, len as usize);
    if thread::thread_idx_x() == 0 {
        view.set(view.len() - 1, 1.0);
    }
}

#[test]
fn a_view_past_the_dynamic_shared_memory_is_caught() {
    let config = LaunchConfig::linear(1, 1).with_shared(64);
    // SAFETY: simulated.
    for fault in faults("dynamic_view", "bounds.rs", |s| unsafe {
        dynamic_view::launch(s, &config, 8, 8)
    }) {
        assert_eq!(fault.kind, FaultKind::OutOfBounds { len: 8 });
        assert_eq!(fault.buffer.as_deref(), Some("dynamic shared memory"));
        assert_eq!(fault.index, Some(8));
    }
    // SAFETY: simulated.
    silent(|s| unsafe { dynamic_view::launch(s, &config, 8, 7) });
}

/// Copies.
#[kernel(T = [u32, f64], require(x.len() == y.len()))]
pub unsafe fn copy<T: Element>(x: Global<T>, y: GlobalMut<T>) {
    for i in thread::grid_stride(x.len()) {
        y.set(i, x.get(i));
    }
}

#[test]
fn a_read_of_unwritten_global_memory_is_caught() {
    let config = LaunchConfig::linear(2, 32);
    let mut y = Buffer::<u32>::uninitialized("y", 33);
    let x = Buffer::<u32>::uninitialized("x", 33);
    x.allocation().write(0, &[7; 4 * 32]);
    // SAFETY: simulated.
    for fault in faults("copy_u32", "bounds.rs", |s| unsafe {
        copy::launch(s, &config, &x, &mut y)
    }) {
        assert_eq!(fault.kind, FaultKind::Uninitialized);
        assert_eq!((fault.block, fault.thread), ([1, 0, 0], [0, 0, 0]));
        assert_eq!(fault.buffer.as_deref(), Some("x"));
        assert_eq!(fault.index, Some(32));
    }
    assert_eq!(x.allocation().first_unwritten(0, 33 * 4), Some(128));
    x.allocation().fill(128, 4, 1);
    assert_eq!(x.allocation().first_unwritten(0, 33 * 4), None);
    // SAFETY: simulated.
    silent(|s| unsafe { copy::launch(s, &config, &x, &mut y) });
    // What the kernel wrote is written.
    assert_eq!(y.allocation().first_unwritten(0, 33 * 4), None);
}

#[test]
fn half_of_a_64_bit_element_is_not_enough() {
    let config = LaunchConfig::linear(1, 1);
    let x = Buffer::<f64>::uninitialized("x", 2);
    let mut y = Buffer::<f64>::uninitialized("y", 2);
    x.allocation().write(0, &[0; 12]);
    // SAFETY: simulated.
    let fault = unsafe { copy::launch(&Simulator::default(), &config, &x, &mut y) }.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Uninitialized);
    assert_eq!(fault.index, Some(1));
    x.allocation().write(12, &[0; 4]);
    // SAFETY: simulated.
    silent(|s| unsafe { copy::launch(s, &config, &x, &mut y) });
    // A copy between allocations takes along what was not written.
    let z = Buffer::<f64>::zeroed("z", 2);
    x.allocation().forget(0, 8);
    z.allocation().copy_from(0, x.allocation(), 0, 16);
    assert_eq!(z.allocation().first_unwritten(0, 16), Some(0));
    assert_eq!(z.allocation().first_unwritten(8, 8), None);
}

#[test]
fn an_unchecked_launch_counts_as_having_written() {
    let config = LaunchConfig::linear(1, 32);
    let x = Buffer::from_slice("x", &[1u32; 40]);
    let mut y = Buffer::<u32>::uninitialized("y", 40);
    let mut z = Buffer::<u32>::uninitialized("z", 40);
    let unchecked = Simulator {
        options: Options {
            checks: false,
            ..Options::default()
        },
    };
    // SAFETY: simulated.
    unsafe { copy::launch(&unchecked, &config, &x, &mut y) }.unwrap();
    // SAFETY: simulated.
    silent(|s| unsafe { copy::launch(s, &config, &y, &mut z) });
    assert_eq!(z.to_vec(), x.to_vec());
}

/// Sums a shared array of which thread `missing` does not write its element.
#[kernel]
pub unsafe fn sum_unwritten(missing: u32, out: GlobalMut<u32>) {
    let parts = shared_array![u32; 64];
    let t = thread::thread_idx_x();
    if t != missing {
        parts.set(t as usize, t);
    }
    thread::sync_threads();
    if t == 0 {
        let mut sum = 0;
        for i in 0..64 {
            sum += parts.get(i);
        }
        out.set(thread::block_idx_x() as usize, sum);
    }
}

#[test]
fn a_read_of_unwritten_shared_memory_is_caught() {
    // Several blocks one after the other in the same place: what an earlier block wrote does not
    // count.
    let config = LaunchConfig::linear(20, 64);
    let mut out = Buffer::<u32>::uninitialized("out", 20);
    // SAFETY: simulated.
    for fault in faults("sum_unwritten", "bounds.rs", |s| unsafe {
        sum_unwritten::launch(s, &config, 40, &mut out)
    }) {
        assert_eq!(fault.kind, FaultKind::Uninitialized);
        assert_eq!(fault.thread, [0, 0, 0]);
        assert_eq!(fault.buffer.as_deref(), Some("parts"));
        assert_eq!(fault.index, Some(40));
    }
    // SAFETY: simulated.
    silent(|s| unsafe { sum_unwritten::launch(s, &config, 64, &mut out) });
    assert_eq!(out.to_vec(), vec![63 * 32; 20]);
}

/// Counts in shared memory that nobody set to zero.
#[kernel]
pub unsafe fn count_from_nothing(clear: u32, out: GlobalMut<u32>) {
    let counter = shared_array![u32; 1];
    if clear == 1 && thread::thread_idx_x() == 0 {
        counter.set(0, 0);
    }
    thread::sync_threads();
    counter
        .atomic(0)
        .fetch_add(1, Ordering::Relaxed, Scope::Block);
    thread::sync_threads();
    if thread::thread_idx_x() == 0 {
        out.set(0, counter.get(0));
    }
}

#[test]
fn a_read_modify_write_of_unwritten_memory_is_caught() {
    let config = LaunchConfig::linear(1, 33);
    let mut out = Buffer::<u32>::uninitialized("out", 1);
    // SAFETY: simulated.
    for fault in faults("count_from_nothing", "bounds.rs", |s| unsafe {
        count_from_nothing::launch(s, &config, 0, &mut out)
    }) {
        assert_eq!(fault.kind, FaultKind::Uninitialized);
        assert_eq!(fault.buffer.as_deref(), Some("counter"));
        assert_eq!(fault.index, Some(0));
    }
    // SAFETY: simulated.
    silent(|s| unsafe { count_from_nothing::launch(s, &config, 1, &mut out) });
    assert_eq!(out.to_vec(), [33]);
}

/// Panics in one thread.
#[kernel]
pub unsafe fn divide(x: Global<u32>, y: GlobalMut<u32>) {
    let i = thread::thread_idx_x() as usize;
    y.set(i, 100 / x.get(i)); // the division
}

#[test]
fn a_panic_is_a_fault_and_leaves_the_simulator_usable() {
    let config = LaunchConfig::linear(1, 3);
    let mut y = Buffer::<u32>::uninitialized("y", 3);
    let bad = Buffer::from_slice("x", &[5u32, 0, 10]);
    let good = Buffer::from_slice("x", &[5u32, 1, 10]);
    // SAFETY: simulated.
    for fault in faults("divide", "bounds.rs", |s| unsafe {
        divide::launch(s, &config, &bad, &mut y)
    }) {
        let FaultKind::Panic { message } = &fault.kind else {
            panic!("{fault}");
        };
        assert!(message.contains("divide by zero"), "{message}");
        assert_eq!(fault.thread, [1, 0, 0]);
        assert!(source_line(&fault, SOURCE).ends_with("// the division"));
    }
    // SAFETY: simulated.
    silent(|s| unsafe { divide::launch(s, &config, &good, &mut y) });
    assert_eq!(y.to_vec(), [20, 100, 10]);
}

#[test]
fn impossible_launches_are_refused() {
    let x = Buffer::from_slice("x", &[1u32]);
    let mut y = Buffer::<u32>::uninitialized("y", 1);
    let simulator = Simulator::default();
    let mut refused = |config: LaunchConfig| {
        // SAFETY: simulated.
        let fault = unsafe { divide::launch(&simulator, &config, &x, &mut y) }.unwrap_err();
        match fault.kind {
            FaultKind::Launch { what } => what,
            _ => panic!("{fault}"),
        }
    };
    assert!(refused(LaunchConfig::linear(0, 1)).contains("empty"));
    assert!(refused(LaunchConfig::linear(1, 0)).contains("empty"));
    assert!(refused(LaunchConfig::linear(1, 1).with_shared(1 << 20)).contains("shared memory"));
    assert!(refused(LaunchConfig::linear(9, 1).cooperative()).contains("9 blocks, of which 8"));
    assert!(refused(LaunchConfig::linear(u32::MAX, 2)).contains("more threads"));

    let desc = divide::desc();
    let config = LaunchConfig::linear(1, 1);
    let args = [x.kernel_arg(), y.kernel_arg()];
    let fault = sim::launch(desc, &config, &args, &Options::default()).unwrap_err();
    assert!(fault.to_string().contains("parameter `y`"), "{fault}");
    let args = [y.allocation().arg::<u32>(0, 2, false), y.kernel_arg_mut()];
    let fault = sim::launch(desc, &config, &args, &Options::default()).unwrap_err();
    assert!(fault.to_string().contains("argument `x`"), "{fault}");
}
