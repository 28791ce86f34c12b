//! Memory, streams, events, arenas and graphs: the same tests on every machine.
//!
//! The simulator always runs them. With `LUGE_TEST_BACKEND=cuda` the first GPU runs them too, and a
//! missing one is a failure; each test that opened it adds a line to the file named by
//! `LUGE_TEST_DEVICE_LOG`. The kernels of this file exist for the simulator only.

use std::fmt::Debug;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;

use luge_device::{
    ARENA_ALIGNMENT, Arena, Backend, Device, DeviceError, LaunchConfig, LaunchLimit, Readback,
    SimulatorOptions, Stream,
};
use luge_kernel::host::KernelModule;
use luge_kernel::prelude::*;
use luge_kernel::sim::FaultKind;

/// The kernels below have no PTX.
pub static MODULE: KernelModule = KernelModule {
    name: "device-tests",
    images: &[],
};

/// y := a·x + y.
#[kernel(T = [f32, f64], require(x.len() == y.len()))]
pub unsafe fn axpy<T: Real>(a: T, x: Global<T>, y: GlobalMut<T>) {
    for i in thread::grid_stride(y.len()) {
        y.set(i, a.mul_add(x.get(i), y.get(i)));
    }
}

/// Reads past the end of `x`.
#[kernel]
pub unsafe fn read_past_the_end(x: Global<u32>, y: GlobalMut<u32>) {
    y.set(0, x.get(x.len()));
}

/// Sums a block's share through shared memory that the launch provides.
#[kernel(require(out.len() == 1), max_threads(64))]
pub unsafe fn block_sum(x: Global<u32>, out: GlobalMut<u32>) {
    let me = thread::thread_idx_x() as usize;
    let tile = dynamic_shared::<u32>(0, thread::block_dim_x() as usize);
    tile.set(me, if me < x.len() { x.get(me) } else { 0 });
    thread::sync_threads();
    if me == 0 {
        let mut sum = 0;
        for i in 0..tile.len() {
            sum += tile.get(i);
        }
        out.set(0, sum);
    }
}

const SIZES: [usize; 6] = [0, 1, 31, 32, 33, 1025];

fn simulator() -> Device {
    Device::simulator(SimulatorOptions::default())
}

/// The machines to test.
fn devices() -> Vec<Device> {
    let mut devices = vec![simulator()];
    match std::env::var("LUGE_TEST_BACKEND").as_deref() {
        Ok("cuda") => {
            devices.push(Device::cuda(0).expect("LUGE_TEST_BACKEND=cuda needs a GPU"));
            if let Some(path) = std::env::var_os("LUGE_TEST_DEVICE_LOG") {
                let mut log = OpenOptions::new().append(true).open(path).unwrap();
                writeln!(log, "cuda\tluge-device").unwrap();
            }
        }
        Ok(other) => assert_eq!(other, "simulator", "LUGE_TEST_BACKEND"),
        Err(_) => {}
    }
    devices
}

/// Runs a test on a new stream of each machine.
fn on_each(test: impl Fn(&Device, &Stream)) {
    for device in devices() {
        test(&device, &device.create_stream().unwrap());
    }
}

fn round_trip<T: Element + PartialEq + Debug>(stream: &Stream, value: impl Fn(usize) -> T) {
    for len in SIZES {
        let values: Vec<T> = (0..len).map(&value).collect();
        let buffer = stream.upload(&values).unwrap();
        assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
        assert_eq!(stream.download(&buffer).unwrap(), values);
        let mut other = stream.alloc::<T>(len).unwrap();
        stream.copy(&mut other, &buffer).unwrap();
        let mut back = values.clone();
        back.reverse();
        stream.copy_to_host(&other, &mut back).unwrap();
        assert_eq!(back, values);
        let mut pinned = stream.device().alloc_pinned::<T>(len).unwrap();
        stream.copy_to_pinned(&other, &mut pinned, 0).unwrap();
        assert_eq!(pinned.as_slice().unwrap(), values);
        pinned.as_mut_slice().unwrap().reverse();
        stream.copy_from_pinned(&mut other, &pinned, 0).unwrap();
        let mut reversed = values;
        reversed.reverse();
        assert_eq!(stream.download(&other).unwrap(), reversed);
    }
}

#[test]
fn values_of_every_type_and_size_round_trip() {
    on_each(|_, stream| {
        round_trip(stream, |i| i as u32 ^ 0xDEAD_BEEF);
        round_trip(stream, |i| -(i as i32));
        round_trip(stream, |i| i as u64 * 0x1_0000_0001);
        round_trip(stream, |i| -(i as i64) << 33);
        round_trip(stream, |i| i as f32 + 0.5);
        round_trip(stream, |i| 1.0 / (i as f64 + 1.0));
        round_trip(stream, |i| Complex::new(i as f32, -0.5));
        round_trip(stream, |i| Complex::new(0.25, 1.0 / (i as f64 + 1.0)));
    });
}

#[test]
fn slices_are_ranges() {
    on_each(|_, stream| {
        let values: Vec<u32> = (0..100).collect();
        let mut buffer = stream.upload(&values).unwrap();
        assert_eq!(stream.download(&buffer.slice(..)).unwrap(), values);
        assert_eq!(stream.download(&buffer.slice(7..=9)).unwrap(), [7, 8, 9]);
        assert_eq!(
            stream.download(&buffer.slice(10..90).slice(78..)).unwrap(),
            [88, 89]
        );
        assert!(stream.download(&buffer.slice(100..)).unwrap().is_empty());
        {
            let (mut low, mut high) = buffer.split_at_mut(50);
            stream.fill_zero(&mut low.slice_mut(10..20)).unwrap();
            stream
                .copy(&mut high.slice_mut(48..), &low.slice(1..3))
                .unwrap();
        }
        let mut expected = values;
        expected[10..20].fill(0);
        expected[98..].copy_from_slice(&[1, 2]);
        assert_eq!(stream.download(&buffer).unwrap(), expected);
    });
}

#[test]
fn ranges_split_and_change_their_elements() {
    on_each(|_, stream| {
        let mut buffer = stream.upload(&[1u64, 2 << 32, 3, 4]).unwrap();
        let (low, high) = buffer.slice_mut(1..).into_split_at(1);
        let mut low = low.into_elements::<u32>();
        assert_eq!(stream.download(&low).unwrap(), [0, 2]);
        assert_eq!(stream.download(&high).unwrap(), [3, 4]);
        stream
            .copy_from_host(&mut low.slice_mut(..1), &[5])
            .unwrap();
        let again = low.into_elements::<u64>();
        assert_eq!(stream.download(&again).unwrap(), [(2 << 32) + 5]);
    });
}

#[test]
#[should_panic(expected = "are not elements of 8 bytes")]
fn half_an_element_is_none() {
    let stream = simulator().create_stream().unwrap();
    let mut buffer = stream.upload(&[1u32, 2, 3, 4]).unwrap();
    let _ = buffer.slice_mut(1..3).into_elements::<u64>();
}

#[test]
fn fills_set_every_byte() {
    on_each(|_, stream| {
        for len in SIZES {
            assert_eq!(
                stream
                    .download(&stream.alloc_zeroed::<f64>(len).unwrap())
                    .unwrap(),
                vec![0.0; len]
            );
            let mut buffer = stream.alloc::<u32>(len).unwrap();
            stream.fill_bytes(&mut buffer, 0xFF).unwrap();
            assert_eq!(stream.download(&buffer).unwrap(), vec![u32::MAX; len]);
            stream.fill_bytes(&mut buffer, 1).unwrap();
            assert_eq!(stream.download(&buffer).unwrap(), vec![0x0101_0101; len]);
        }
    });
}

#[test]
fn pinned_ranges_are_placed_by_their_offset() {
    on_each(|device, stream| {
        let mut pinned = device.alloc_pinned::<u32>(6).unwrap();
        assert_eq!((pinned.len(), pinned.is_empty()), (6, false));
        pinned
            .as_mut_slice()
            .unwrap()
            .copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        let mut buffer = stream.alloc::<u32>(3).unwrap();
        stream.copy_from_pinned(&mut buffer, &pinned, 2).unwrap();
        stream
            .copy_to_pinned(&buffer.slice(1..), &mut pinned, 0)
            .unwrap();
        assert_eq!(pinned.as_slice().unwrap(), [4, 5, 3, 4, 5, 6]);
        let transfers = device.transfers();
        assert_eq!(
            (transfers.to_device_bytes, transfers.to_host_bytes),
            (12, 8)
        );
    });
}

#[test]
fn the_budget_is_obeyed_and_counted() {
    on_each(|device, stream| {
        assert_eq!((device.allocated_bytes(), device.budget()), (0, None));
        let first = stream.alloc::<f64>(100).unwrap();
        device.set_budget(Some(1000));
        assert_eq!(device.budget(), Some(1000));
        let error = stream.alloc::<u32>(51).unwrap_err();
        assert!(
            matches!(
                error,
                DeviceError::OutOfMemory {
                    asked: 204,
                    available: 200
                }
            ),
            "{error}"
        );
        assert_eq!(device.available_bytes().unwrap(), 200);
        let second = stream.alloc::<u32>(50).unwrap();
        assert_eq!(device.allocated_bytes(), 1000);
        assert!(stream.alloc::<u32>(0).unwrap().is_empty());
        drop(first);
        assert_eq!((device.allocated_bytes(), device.peak_bytes()), (200, 1000));
        device.reset_peak();
        assert_eq!(device.peak_bytes(), 200);
        device.set_budget(None);
        stream.alloc::<f64>(1000).unwrap();
        drop(second);
        assert_eq!((device.allocated_bytes(), device.peak_bytes()), (0, 8200));
    });
}

#[test]
fn more_than_the_device_has_is_out_of_memory() {
    on_each(|device, stream| {
        let memory = device.memory().unwrap();
        let total = device.properties().total_bytes;
        // The driver may keep some of the device's memory to itself.
        assert!(memory.free <= memory.total && memory.total <= total);
        assert!(memory.total > total / 10 * 9);
        let asked = total + 8;
        let error = stream.alloc::<f64>((asked / 8) as usize).unwrap_err();
        assert!(
            matches!(error, DeviceError::OutOfMemory { asked: a, available }
                if a == asked / 8 * 8 && available <= memory.total),
            "{error}"
        );
        assert!(matches!(
            stream.alloc::<f64>(usize::MAX).unwrap_err(),
            DeviceError::OutOfMemory { .. }
        ));
        assert_eq!(device.allocated_bytes(), 0);
        stream.alloc::<f64>(10).unwrap();
    });
}

#[test]
fn memory_that_was_freed_is_there_again() {
    for device in devices() {
        let device = match device.properties().backend {
            Backend::Cuda => device,
            Backend::Simulator => Device::simulator(SimulatorOptions {
                total_bytes: 1 << 20,
                ..SimulatorOptions::default()
            }),
        };
        let stream = device.create_stream().unwrap();
        // Two of these fit one after the other, and not together.
        let most = (device.memory().unwrap().free / 4 * 3 / 8) as usize;
        let first = stream.alloc::<f64>(most).unwrap();
        assert!(matches!(
            stream.alloc::<f64>(most).unwrap_err(),
            DeviceError::OutOfMemory { asked, .. } if asked == 8 * most as u64
        ));
        drop(first);
        drop(stream.alloc::<f64>(most).unwrap());
        assert_eq!(device.allocated_bytes(), 0);
    }
}

#[test]
fn an_arena_hands_out_its_budget() {
    on_each(|device, stream| {
        let mut arena = Arena::new(stream, 1024).unwrap();
        assert_eq!(device.allocated_bytes(), 1024);
        let mut first = arena.alloc::<u32>(1).unwrap();
        assert_eq!((arena.used(), arena.remaining()), (4, 768));
        let mut second = arena.alloc::<f64>(33).unwrap();
        assert_eq!(arena.used(), ARENA_ALIGNMENT + 264);
        assert_eq!(arena.remaining(), 1024 - 768);
        let error = arena.alloc::<u32>(65).unwrap_err();
        assert!(
            matches!(
                error,
                DeviceError::OutOfMemory {
                    asked: 260,
                    available: 256
                }
            ),
            "{error}"
        );
        let third = arena.alloc::<u64>(32).unwrap();
        assert_eq!((arena.used(), arena.remaining()), (1024, 0));
        assert!(arena.alloc::<f64>(0).unwrap().is_empty());
        assert!(arena.alloc::<u32>(1).is_err());

        stream.copy_from_host(&mut first, &[7]).unwrap();
        let values: Vec<f64> = (0..33).map(f64::from).collect();
        stream.copy_from_host(&mut second, &values).unwrap();
        assert_eq!(stream.download(&first).unwrap(), [7]);
        assert_eq!(stream.download(&second).unwrap(), values);
        stream.fill_zero(&mut second.slice_mut(1..)).unwrap();
        assert_eq!(
            stream.download(&first).unwrap(),
            [7],
            "pieces do not overlap"
        );

        drop((first, second, third));
        arena.reset();
        assert_eq!((arena.used(), arena.peak()), (0, 1024));
        assert_eq!(arena.alloc::<f64>(128).unwrap().len(), 128);
        arena.reset();
        assert_eq!(arena.budget(), 1024);
        let piece = arena.alloc::<u32>(1).unwrap();
        drop(arena);
        assert_eq!(device.allocated_bytes(), 1024, "the piece keeps the block");
        drop(piece);
        assert_eq!(device.allocated_bytes(), 0);
    });
}

#[test]
#[should_panic(expected = "an arena was reset while 1 pieces are alive")]
fn an_arena_in_use_is_not_reset() {
    let stream = simulator().create_stream().unwrap();
    let mut arena = Arena::new(&stream, 1024).unwrap();
    let _piece = arena.alloc::<u32>(1).unwrap();
    arena.reset();
}

#[test]
fn an_arena_of_nothing_and_one_too_large() {
    on_each(|device, stream| {
        let arena = Arena::new(stream, 0).unwrap();
        assert!(arena.alloc::<f64>(0).unwrap().is_empty());
        assert!(arena.alloc::<u32>(1).is_err());
        device.set_budget(Some(100));
        assert!(matches!(
            Arena::new(stream, 101),
            Err(DeviceError::OutOfMemory {
                asked: 101,
                available: 100
            })
        ));
    });
}

#[test]
fn events_order_and_measure() {
    on_each(|device, stream| {
        let other = device.create_stream().unwrap();
        assert!(stream.same_as(&stream.clone()) && !stream.same_as(&other));
        let (start, end) = (
            device.create_event().unwrap(),
            device.create_event().unwrap(),
        );
        assert!(start.is_complete().unwrap(), "never recorded");
        start.synchronize().unwrap();
        stream.record(&start).unwrap();
        let mut x = stream.alloc::<u64>(1 << 18).unwrap();
        stream.fill_bytes(&mut x, 3).unwrap();
        stream.record(&end).unwrap();
        other.wait(&end).unwrap();
        let mut y = other.alloc::<u64>(1 << 18).unwrap();
        other.copy(&mut y, &x).unwrap();
        let values = other.download(&y).unwrap();
        assert!(values.iter().all(|&v| v == 0x0303_0303_0303_0303));
        let elapsed = start.elapsed_ms(&end).unwrap();
        assert!(elapsed > 0.0 && elapsed < 1e5, "{elapsed}");
        end.synchronize().unwrap();
        assert!(end.is_complete().unwrap());
    });
}

#[test]
#[should_panic(expected = "never recorded")]
fn the_time_from_an_unrecorded_event_is_not_measured() {
    let device = simulator();
    let event = device.create_event().unwrap();
    let _ = event.elapsed_ms(&event);
}

#[test]
fn a_stream_runs_in_order() {
    on_each(|_, stream| {
        // A chain in which every step depends on the one before.
        let mut values = vec![0_u32; 1025];
        values[0] = 42;
        let mut buffer = stream.upload(&values).unwrap();
        for i in 1..1025 {
            let (low, mut high) = buffer.split_at_mut(i);
            stream
                .copy(&mut high.slice_mut(..1), &low.slice(i - 1..))
                .unwrap();
        }
        stream.fill_zero(&mut buffer.slice_mut(..1)).unwrap();
        let result = stream.download(&buffer).unwrap();
        assert_eq!(result[0], 0);
        assert!(result[1..].iter().all(|&v| v == 42));
    });
}

#[test]
fn a_buffer_is_freed_in_the_order_of_its_stream() {
    on_each(|_, stream| {
        let mut y = stream.alloc::<u32>(1 << 16).unwrap();
        for round in 0..20_u8 {
            let mut x = stream.alloc::<u32>(1 << 16).unwrap();
            stream.fill_bytes(&mut x, round).unwrap();
            stream.copy(&mut y, &x).unwrap();
            // Dropped while the copy may still run; the next round may get the same memory.
        }
        let expected = u32::from_ne_bytes([19; 4]);
        assert!(
            stream
                .download(&y)
                .unwrap()
                .iter()
                .all(|&value| value == expected)
        );
    });
}

#[test]
fn graphs_of_copies_and_fills_replay() {
    on_each(|device, stream| {
        let mut source = stream.upload(&[1_u32, 2, 3, 4]).unwrap();
        let mut target = stream.alloc_zeroed::<u32>(8).unwrap();
        let before = device.allocated_bytes();
        let graph = stream
            .capture(|stream| {
                stream.fill_bytes(&mut target, 0xFF)?;
                stream.copy(&mut target.slice_mut(2..6), &source)
            })
            .unwrap();
        assert_eq!(graph.num_operations(), 2);
        assert_eq!(stream.download(&target).unwrap(), [0; 8], "not run yet");
        for round in 0..2 {
            stream
                .copy_from_host(&mut source, &[10 + round, 2, 3, 4])
                .unwrap();
            stream.fill_zero(&mut target).unwrap();
            // SAFETY: copies and fills have no preconditions.
            unsafe { graph.launch(stream).unwrap() };
            let max = u32::MAX;
            assert_eq!(
                stream.download(&target).unwrap(),
                [max, max, 10 + round, 2, 3, 4, max, max]
            );
        }
        drop((source, target));
        assert_eq!(device.allocated_bytes(), before, "the graph keeps both");
        // SAFETY: as above.
        unsafe { graph.launch(stream).unwrap() };
        stream.synchronize().unwrap();
        drop(graph);
        assert_eq!(device.allocated_bytes(), 0);
    });
}

#[test]
fn what_a_graph_cannot_hold_is_refused() {
    on_each(|device, stream| {
        let event = device.create_event().unwrap();
        let mut x = stream.upload(&[1_u32]).unwrap();
        let mut pinned = device.alloc_pinned::<u32>(1).unwrap();
        let refused = |result: Result<(), DeviceError>, name: &str| {
            assert!(
                matches!(result, Err(DeviceError::Capturing { call }) if call == name),
                "{name}"
            );
        };
        let graph = stream
            .capture(|stream| {
                refused(stream.alloc::<u32>(1).map(drop), "allocation");
                refused(stream.download(&x).map(drop), "copy to the host");
                refused(stream.copy_from_host(&mut x, &[1]), "copy from the host");
                refused(
                    stream.copy_from_pinned(&mut x, &pinned, 0),
                    "copy from pinned memory",
                );
                refused(
                    stream.copy_to_pinned(&x, &mut pinned, 0),
                    "copy to pinned memory",
                );
                refused(stream.record(&event), "record");
                refused(stream.wait(&event), "wait");
                refused(stream.synchronize(), "synchronize");
                refused(stream.capture(|_| Ok(())).map(drop), "capture");
                let from_another_thread =
                    std::thread::scope(|scope| scope.spawn(|| stream.fill_zero(&mut x)).join());
                refused(from_another_thread.unwrap(), "fill");
                Ok(())
            })
            .unwrap();
        assert_eq!(graph.num_operations(), 0);
        // SAFETY: the graph is empty.
        unsafe { graph.launch(stream).unwrap() };
        assert_eq!(stream.download(&x).unwrap(), [1]);
    });
}

#[test]
fn handles_work_from_any_thread() {
    on_each(|device, stream| {
        let buffers: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4_u32)
                .map(|i| scope.spawn(move || stream.upload(&vec![i; 1025]).unwrap()))
                .collect();
            workers.into_iter().map(|w| w.join().unwrap()).collect()
        });
        let shared = Arc::new(stream.clone());
        let sums: Vec<u32> = buffers
            .into_iter()
            .map(|buffer| {
                let stream = shared.clone();
                std::thread::spawn(move || stream.download(&buffer).unwrap().iter().sum())
                    .join()
                    .unwrap()
            })
            .collect();
        assert_eq!(sums, [0, 1025, 2050, 3075]);
        assert_eq!(device.allocated_bytes(), 0);
    });
}

#[test]
fn transfers_are_counted() {
    on_each(|device, stream| {
        let buffer = stream.upload(&[1.0_f64; 1025]).unwrap();
        stream.download(&buffer.slice(..25)).unwrap();
        let transfers = device.transfers();
        assert_eq!(
            (transfers.to_device_bytes, transfers.to_host_bytes),
            (8200, 200)
        );
        assert!(transfers.seconds > 0.0);
    });
}

#[test]
fn properties_are_plausible() {
    on_each(|device, _| {
        let properties = device.properties();
        assert!(!properties.name.is_empty());
        assert!(properties.compute_capability.sm() >= 80);
        assert!(properties.num_sms > 0);
        assert!(properties.max_threads_per_block >= 1024);
        assert!(properties.shared_bytes_per_block >= 48 * 1024);
        assert!(properties.max_shared_bytes_per_block >= properties.shared_bytes_per_block);
        assert!(properties.max_grid[0] == i32::MAX as u32 && properties.max_grid[1] >= 65_535);
        assert!(properties.l2_bytes > 0 && properties.total_bytes > 1 << 30);
        match properties.backend {
            Backend::Simulator => assert!(properties.driver_version.is_none()),
            Backend::Cuda => {
                assert!(properties.driver_version.unwrap().major >= 12);
                assert!(device.start_seconds() > 0.0);
                assert!(Device::cuda_count().unwrap() >= 1);
            }
        }
    });
}

#[test]
#[should_panic(expected = "a copy of 3 elements to 4")]
fn copies_of_different_lengths_panic() {
    let stream = simulator().create_stream().unwrap();
    let x = stream.upload(&[1_u32; 3]).unwrap();
    let mut y = stream.alloc::<u32>(4).unwrap();
    let _ = stream.copy(&mut y, &x);
}

#[test]
#[should_panic(expected = "range 2..5 of a buffer of 4 elements")]
fn a_slice_outside_its_buffer_panics() {
    let stream = simulator().create_stream().unwrap();
    stream.upload(&[1_u32; 4]).unwrap().slice(2..5);
}

#[test]
#[should_panic(expected = "an object of one device used on a stream of another")]
fn devices_are_not_mixed() {
    let (a, b) = (simulator(), simulator());
    let x = a.create_stream().unwrap().upload(&[1_u32]).unwrap();
    let _ = b.create_stream().unwrap().download(&x);
}

#[test]
#[should_panic(expected = "a copy between two other devices")]
fn copies_are_enqueued_where_one_side_is() {
    let [a, b] = [simulator(), simulator()].map(|device| device.create_stream().unwrap());
    let x = a.upload(&[1_u32]).unwrap();
    let mut y = a.alloc::<u32>(1).unwrap();
    let _ = b.copy_across(&mut y, &x);
}

/// What lies on one device goes to another one, whichever of the two enqueues it.
#[test]
fn memory_goes_from_device_to_device() {
    let mut groups = vec![[simulator(), simulator()]];
    if std::env::var("LUGE_TEST_BACKEND").is_ok_and(|backend| backend == "cuda") {
        if Device::cuda_count().unwrap() > 1 {
            groups.push([0, 1].map(|ordinal| Device::cuda(ordinal).unwrap()));
        } else {
            eprintln!("SKIPPED memory_goes_from_device_to_device: this machine has one GPU");
        }
    }
    for devices in groups {
        let [one, other] = devices.map(|device| device.create_stream().unwrap());
        for len in SIZES {
            let numbers: Vec<u64> = (0..len as u64).map(|i| i * i).collect();
            let x = one.upload(&numbers).unwrap();
            assert!(one.reaches(&x) && !other.reaches(&x));
            let mut y = other.alloc::<u64>(len + 3).unwrap();
            other.fill_zero(&mut y.slice_mut(..)).unwrap();
            let event = one.device().create_event().unwrap();
            one.record(&event).unwrap();
            other.wait(&event).unwrap();
            other.copy_across(&mut y.slice_mut(1..len + 1), &x).unwrap();
            let mut back = one.alloc::<u64>(len).unwrap();
            let there = other.device().create_event().unwrap();
            other.record(&there).unwrap();
            one.wait(&there).unwrap();
            one.copy_across(&mut back, &y.slice(1..len + 1)).unwrap();
            assert_eq!(one.download(&back).unwrap(), numbers);
            let mut padded = vec![0; len + 3];
            padded[1..=len].copy_from_slice(&numbers);
            assert_eq!(other.download(&y).unwrap(), padded);
        }
    }
}

/// Where there is no driver, opening a device says so; nothing panics.
#[test]
fn no_driver_is_an_error() {
    // SAFETY: opening the driver's library runs its initialisers, which ask nothing of the process.
    let library = ["libcuda.so.1", "libcuda.so", "nvcuda.dll"]
        .into_iter()
        .find_map(|name| unsafe { libloading::Library::new(name) }.ok());
    if library.is_some() {
        eprintln!("SKIPPED no_driver_is_an_error: this machine has the CUDA driver's library");
        return;
    }
    let error = Device::cuda(0).unwrap_err();
    assert!(
        matches!(&error, DeviceError::NoDriver { tried } if !tried.is_empty()),
        "{error}"
    );
    assert!(matches!(
        Device::cuda_count(),
        Err(DeviceError::NoDriver { .. })
    ));
}

#[test]
fn the_simulator_finds_what_the_host_may_not_read() {
    let stream = simulator().create_stream().unwrap();
    let mut x = stream.alloc::<f64>(10).unwrap();
    stream.fill_zero(&mut x.slice_mut(..7)).unwrap();
    assert!(stream.download(&x.slice(..7)).is_ok());
    let error = stream.download(&x.slice(2..)).unwrap_err();
    assert!(
        matches!(error, DeviceError::Uninitialized { index: 5 }),
        "{error}"
    );
    let mut pinned = stream.device().alloc_pinned::<f64>(10).unwrap();
    assert!(matches!(
        stream.copy_to_pinned(&x, &mut pinned, 0),
        Err(DeviceError::Uninitialized { index: 7 })
    ));
    // A copy carries what is not written with it.
    let mut y = stream.alloc_zeroed::<f64>(10).unwrap();
    stream.copy(&mut y, &x).unwrap();
    assert!(matches!(
        stream.download(&y),
        Err(DeviceError::Uninitialized { index: 7 })
    ));
    // What an arena hands out again counts as not written.
    let mut arena = Arena::new(&stream, 80).unwrap();
    let mut piece = arena.alloc::<f64>(10).unwrap();
    stream.fill_zero(&mut piece).unwrap();
    drop(piece);
    arena.reset();
    let piece = arena.alloc::<f64>(10).unwrap();
    assert!(matches!(
        stream.download(&piece),
        Err(DeviceError::Uninitialized { index: 0 })
    ));
}

#[test]
fn simulated_kernels_run_in_stream_order() {
    let device = simulator();
    let stream = device.create_stream().unwrap();
    for len in SIZES {
        let x = stream
            .upload(&(0..len).map(|i| i as f64).collect::<Vec<_>>())
            .unwrap();
        let mut y = stream.alloc_zeroed::<f64>(len).unwrap();
        let config = LaunchConfig::linear(3, 64);
        // SAFETY: the lengths agree; the kernel asks nothing else.
        unsafe {
            axpy::launch(&stream, &config, 2.0, &x, &mut y).unwrap();
            axpy::launch(&stream, &config, 1.0, &x, &mut y).unwrap();
        }
        let expected: Vec<f64> = (0..len).map(|i| 3.0 * i as f64).collect();
        assert_eq!(stream.download(&y).unwrap(), expected);
    }
}

#[test]
fn kernels_reach_mapped_host_memory() {
    let device = simulator();
    let stream = device.create_stream().unwrap();
    for len in SIZES {
        let mut x = stream.alloc_mapped::<f64>(len).unwrap();
        let mut y = stream.alloc_mapped::<f64>(len).unwrap();
        assert_eq!(device.allocated_bytes(), 0);
        let config = LaunchConfig::linear(3, 64);
        // SAFETY: the lengths agree; the kernel asks nothing else.
        let unwritten = unsafe { axpy::launch(&stream, &config, 2.0, &x, &mut y) };
        assert_eq!(unwritten.is_err(), len > 0);
        let values: Vec<f64> = (0..len).map(|i| i as f64).collect();
        stream.copy_from_host(&mut x, &values).unwrap();
        stream.copy_from_host(&mut y, &values).unwrap();
        // SAFETY: as above.
        unsafe { axpy::launch(&stream, &config, 2.0, &x, &mut y).unwrap() };
        let expected: Vec<f64> = (0..len).map(|i| 3.0 * i as f64).collect();
        assert_eq!(stream.download(&y).unwrap(), expected);
    }
}

#[test]
fn what_kernels_leave_is_read_on_the_host() {
    let device = simulator();
    let stream = device.create_stream().unwrap();
    for len in SIZES {
        let mut left = Readback::<f64>::new(&stream, len).unwrap();
        assert_eq!(device.allocated_bytes(), 0);
        for factor in [1.0, -3.0] {
            let values: Vec<f64> = (0..len).map(|i| factor * i as f64).collect();
            stream.copy_from_host(left.buffer_mut(), &values).unwrap();
            left.record(&stream).unwrap();
            assert_eq!(left.read().unwrap(), values);
        }
    }
}

#[test]
#[should_panic(expected = "that a launch may be writing")]
fn what_may_be_written_is_not_read() {
    let stream = simulator().create_stream().unwrap();
    let mut left = Readback::<u32>::new(&stream, 1).unwrap();
    stream.copy_from_host(left.buffer_mut(), &[1]).unwrap();
    left.record(&stream).unwrap();
    left.buffer_mut();
    let _ = left.read();
}

#[test]
fn simulated_graphs_replay_launches() {
    let stream = simulator().create_stream().unwrap();
    let x = stream.upload(&[1.0_f32; 100]).unwrap();
    let mut y = stream.alloc_zeroed::<f32>(100).unwrap();
    let config = LaunchConfig::for_elements(100, 32);
    let graph = stream
        .capture(|stream| {
            for a in [1.0, 10.0] {
                // SAFETY: the lengths agree; the kernel asks nothing else.
                unsafe { axpy::launch(stream, &config, a, &x, &mut y)? };
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(stream.download(&y).unwrap(), [0.0; 100]);
    for round in 1..=2_u8 {
        // SAFETY: as above.
        unsafe { graph.launch(&stream).unwrap() };
        assert_eq!(stream.download(&y).unwrap(), [11.0 * f32::from(round); 100]);
    }
}

#[test]
fn simulated_shared_memory_and_limits() {
    let device = Device::simulator(SimulatorOptions {
        max_threads_per_block: 128,
        ..SimulatorOptions::default()
    });
    let stream = device.create_stream().unwrap();
    let x = stream.upload(&(0..40).collect::<Vec<u32>>()).unwrap();
    let mut out = stream.alloc::<u32>(1).unwrap();
    let config = LaunchConfig::linear(1, 64).with_shared(256);
    // SAFETY: one block, with four bytes of shared memory a thread.
    unsafe { block_sum::launch(&stream, &config, &x, &mut out).unwrap() };
    assert_eq!(stream.download(&out).unwrap(), [780]);

    let kernel = axpy::desc::<f64>();
    let resident = stream.max_resident_blocks(kernel, 64, 0).unwrap();
    assert!(resident >= 2);
    for (streams, share) in [(1, resident), (2, resident / 2), (resident + 1, 1)] {
        let one_of_them = device.create_sharing_stream(streams).unwrap();
        assert_eq!(one_of_them.share_of_blocks(kernel, 64, 0).unwrap(), share);
        assert_eq!(one_of_them.shares_device(), streams > 1);
    }
    assert!(matches!(
        stream.max_resident_blocks(kernel, 129, 0),
        Err(DeviceError::TooLarge {
            limit: LaunchLimit::ThreadsPerBlock,
            asked: 129,
            most: 128,
            ..
        })
    ));
    assert!(matches!(
        stream.max_resident_blocks(block_sum::desc(), 65, 0),
        Err(DeviceError::TooLarge { most: 64, .. })
    ));
    // SAFETY: the launch is refused.
    let error = unsafe {
        let config = LaunchConfig::linear(1, 32).with_shared(300_000);
        block_sum::launch(&stream, &config, &x, &mut out).unwrap_err()
    };
    assert!(
        matches!(
            error,
            DeviceError::TooLarge {
                kernel: "block_sum",
                limit: LaunchLimit::SharedBytesPerBlock,
                asked: 300_000,
                ..
            }
        ),
        "{error}"
    );
    let most = stream
        .max_resident_blocks(block_sum::desc(), 32, 128)
        .unwrap();
    let config = LaunchConfig::linear(most + 1, 32)
        .with_shared(128)
        .cooperative();
    // SAFETY: the launch is refused.
    let error = unsafe { block_sum::launch(&stream, &config, &x, &mut out).unwrap_err() };
    assert!(
        matches!(
            error,
            DeviceError::TooLarge {
                limit: LaunchLimit::CooperativeBlocks,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn simulated_faults_come_back_from_the_launch() {
    let device = Device::simulator(SimulatorOptions::with_seed(7));
    let stream = device.create_stream().unwrap();
    let x = stream.upload(&[1_u32; 5]).unwrap();
    let mut y = stream.alloc::<u32>(1).unwrap();
    // SAFETY: not upheld; the simulator is there to find it.
    let error = unsafe {
        read_past_the_end::launch(&stream, &LaunchConfig::linear(1, 1), &x, &mut y).unwrap_err()
    };
    let DeviceError::Fault(fault) = error else {
        panic!("{error}")
    };
    assert_eq!(fault.kind, FaultKind::OutOfBounds { len: 5 });
    assert_eq!((fault.kernel, fault.seed), ("read_past_the_end", 7));
    assert_eq!(fault.buffer.as_deref(), Some("x"));
    assert_eq!(fault.index, Some(5));
    // The device goes on.
    assert_eq!(stream.download(&x).unwrap(), [1; 5]);
}

/// On a GPU, a module without an image for it is an error of its own.
#[test]
fn a_module_without_images_does_not_load() {
    on_each(|device, stream| {
        let loaded = device.load_module(&MODULE);
        match device.properties().backend {
            Backend::Simulator => loaded.unwrap(),
            Backend::Cuda => {
                assert!(matches!(loaded, Err(DeviceError::NoImage { .. })));
                let loaded = device.load_kernels(&[axpy::desc::<f64>()]);
                assert!(matches!(loaded, Err(DeviceError::NoImage { .. })));
                let x = stream.upload(&[1.0_f64]).unwrap();
                let mut y = stream.upload(&[1.0_f64]).unwrap();
                // SAFETY: the launch is refused.
                let error = unsafe {
                    axpy::launch(stream, &LaunchConfig::linear(1, 1), 1.0, &x, &mut y).unwrap_err()
                };
                assert!(matches!(error, DeviceError::NoImage { .. }), "{error}");
            }
        }
        assert!(device.loaded_modules().is_empty());
        assert_eq!(device.module_load_seconds(), 0.0);
    });
}

#[test]
fn the_simulator_has_nothing_for_other_libraries() {
    let stream = simulator().create_stream().unwrap();
    assert_eq!(stream.driver_stream(), None);
    let x = stream.upload(&[1.0]).unwrap();
    assert_eq!(x.driver_address(), None);
}

#[test]
#[should_panic(expected = "the simulator has no memory at an address of a device")]
fn the_simulator_borrows_no_memory_of_others() {
    let device = Device::simulator(SimulatorOptions::default());
    let stream = device.create_stream().unwrap();
    // SAFETY: it panics before it looks at the address.
    let _ = unsafe { stream.borrow_foreign::<f64>(std::num::NonZeroU64::MIN, 1) };
}
