//! Launches, graphs, events, streams and occupancy on every machine, with the kernels of
//! `luge_test_kernels::dsl`.

use std::sync::Arc;

use luge_device::{Arena, Backend, Buffer, Device, DeviceError, LaunchConfig, LaunchLimit, Stream};
use luge_test_kernels::{MODULE, dsl};

const SIZES: [usize; 6] = [0, 1, 31, 32, 33, 1025];

/// Runs a test on a new stream of each machine, opened for this test alone: what these tests ask
/// about allocations and modules must not hold those of tests that run beside them.
fn on_each(test: impl Fn(&Device, &Stream)) {
    for shared in luge_tests::devices() {
        let device = match shared.properties().backend {
            Backend::Simulator => shared,
            Backend::Cuda => Device::cuda(0).unwrap(),
        };
        test(&device, &device.create_stream().unwrap());
    }
}

/// y := a·x + y on `stream`.
fn axpy(stream: &Stream, a: f64, x: &Buffer<f64>, y: &mut Buffer<f64>) -> Result<(), DeviceError> {
    let config = LaunchConfig::for_elements(x.len(), 128);
    // SAFETY: the launcher checks the lengths; the kernel asks nothing else.
    unsafe { dsl::axpy::launch(stream, &config, a, x, y) }
}

fn ramp(len: usize) -> Vec<f64> {
    (0..len).map(|i| i as f64).collect()
}

#[test]
fn launches_of_one_stream_are_ordered() {
    on_each(|_, stream| {
        for len in SIZES {
            let x = stream.upload(&ramp(len)).unwrap();
            let mut y = stream.alloc_zeroed(len).unwrap();
            for step in 0..10 {
                // Doubling what is there needs the launch before to be done.
                let mut copy = stream.alloc(len).unwrap();
                stream.copy(&mut copy, &y).unwrap();
                axpy(stream, 1.0, &copy, &mut y).unwrap();
                axpy(stream, f64::from(step), &x, &mut y).unwrap();
            }
            let factor = (0..10).fold(0.0, |sum, step| 2.0 * sum + f64::from(step));
            let expected: Vec<f64> = (0..len).map(|i| factor * i as f64).collect();
            assert_eq!(stream.download(&y).unwrap(), expected);
        }
    });
}

#[test]
fn slices_and_arena_pieces_are_arguments() {
    on_each(|_, stream| {
        let x = stream.upload(&ramp(100)).unwrap();
        let mut y = stream.alloc_zeroed::<f64>(100).unwrap();
        let arena = Arena::new(stream, 4096).unwrap();
        let mut piece = arena.alloc::<f64>(33).unwrap();
        stream.copy(&mut piece, &x.slice(3..36)).unwrap();
        let config = LaunchConfig::linear(2, 64);
        // SAFETY: the launcher checks the lengths; the kernel asks nothing else.
        unsafe {
            dsl::axpy::launch(stream, &config, 2.0, &piece, &mut y.slice_mut(50..83)).unwrap();
            let (low, mut high) = y.split_at_mut(60);
            dsl::axpy::launch(
                stream,
                &config,
                1.0,
                &low.slice(50..),
                &mut high.slice_mut(30..),
            )
            .unwrap();
        }
        let mut expected = vec![0.0; 100];
        for i in 0..33 {
            expected[50 + i] = 2.0 * (3 + i) as f64;
        }
        for i in 0..10 {
            expected[90 + i] = expected[50 + i];
        }
        assert_eq!(stream.download(&y).unwrap(), expected);
    });
}

#[test]
fn a_graph_gives_the_same_result_each_time() {
    on_each(|_, stream| {
        for len in SIZES {
            let x = stream.upload(&ramp(len)).unwrap();
            let mut y = stream.alloc::<f64>(len).unwrap();
            let mut enqueue = |stream: &Stream| {
                stream.fill_zero(&mut y)?;
                axpy(stream, 3.0, &x, &mut y)?;
                axpy(stream, -1.0, &x, &mut y)
            };
            enqueue(stream).unwrap();
            let graph = stream.capture(enqueue).unwrap();
            // Neither the fill nor the copy of no elements is an operation.
            assert_eq!(graph.num_operations(), if len == 0 { 2 } else { 3 });
            let direct = stream.download(&y).unwrap();
            let expected: Vec<f64> = (0..len).map(|i| 2.0 * i as f64).collect();
            assert_eq!(direct, expected);
            for _ in 0..2 {
                stream.fill_bytes(&mut y, 0x7F).unwrap();
                // SAFETY: the lengths are those of the capture; the kernel asks nothing else.
                unsafe { graph.launch(stream).unwrap() };
                assert_eq!(stream.download(&y).unwrap(), direct);
            }
        }
    });
}

#[test]
fn a_graph_keeps_what_its_launches_refer_to() {
    on_each(|device, stream| {
        let x = stream.upload(&ramp(33)).unwrap();
        let mut y = stream.alloc_zeroed(33).unwrap();
        let mut z = stream.alloc_zeroed::<f64>(33).unwrap();
        let graph = stream
            .capture(|stream| {
                axpy(stream, 1.0, &x, &mut y)?;
                stream.copy(&mut z, &y)
            })
            .unwrap();
        drop((x, y));
        assert_eq!(device.allocated_bytes(), 3 * 33 * 8);
        // What is allocated now must not be what was dropped.
        let other = stream.upload(&[f64::NAN; 33]).unwrap();
        // SAFETY: the graph keeps the memory; the kernel asks nothing else.
        unsafe {
            graph.launch(stream).unwrap();
            graph.launch(stream).unwrap();
        }
        let expected: Vec<f64> = (0..33).map(|i| 2.0 * f64::from(i)).collect();
        assert_eq!(stream.download(&z).unwrap(), expected);
        drop((graph, other, z));
        assert_eq!(device.allocated_bytes(), 0);
    });
}

#[test]
fn events_order_streams_and_time_them() {
    on_each(|device, stream| {
        let other = device.create_stream().unwrap();
        let (start, end) = (
            device.create_event().unwrap(),
            device.create_event().unwrap(),
        );
        let len = 10_000;
        let x = stream.upload(&ramp(len)).unwrap();
        let mut y = stream.alloc_zeroed(len).unwrap();
        stream.record(&start).unwrap();
        // The streams take turns.
        for round in 0..6 {
            let (from, to) = if round % 2 == 0 {
                (stream, &other)
            } else {
                (&other, stream)
            };
            axpy(from, 1.0, &x, &mut y).unwrap();
            from.record(&end).unwrap();
            to.wait(&end).unwrap();
        }
        let expected: Vec<f64> = (0..len).map(|i| 6.0 * i as f64).collect();
        assert_eq!(stream.download(&y).unwrap(), expected);
        let elapsed = start.elapsed_ms(&end).unwrap();
        assert!(elapsed > 0.0 && elapsed < 60_000.0, "{elapsed} ms");
    });
}

#[test]
fn resident_blocks_can_wait_for_each_other() {
    on_each(|device, stream| {
        let kernel = dsl::chain::desc();
        let most = stream.max_resident_blocks(kernel, 32, 0).unwrap();
        assert!(most >= 2, "{most}");
        if device.properties().backend == Backend::Cuda {
            let properties = device.properties();
            assert_eq!(most % properties.num_sms, 0);
            assert!(most <= properties.num_sms * properties.max_threads_per_sm / 32);
        }
        let blocks = most.min(64) as usize;
        let mut ticket = stream.alloc_zeroed::<u32>(1).unwrap();
        let mut ready = stream.alloc_zeroed::<u32>(blocks).unwrap();
        let mut out = stream.alloc_zeroed::<u64>(blocks).unwrap();
        let config = LaunchConfig::linear(blocks as u32, 1).cooperative();
        // SAFETY: one thread a block; the blocks are resident together.
        unsafe {
            dsl::chain::launch(stream, &config, &mut ticket, &mut ready, &mut out).unwrap();
        }
        let expected: Vec<u64> = (0..blocks as u64).map(|b| b * (b + 1) / 2).collect();
        assert_eq!(stream.download(&out).unwrap(), expected);

        // SAFETY: the launch is refused.
        let error = unsafe {
            let config = LaunchConfig::linear(most + 1, 32).cooperative();
            dsl::chain::launch(stream, &config, &mut ticket, &mut ready, &mut out).unwrap_err()
        };
        assert!(
            matches!(error, DeviceError::TooLarge { kernel: "chain", limit: LaunchLimit::CooperativeBlocks, asked, most: m }
                if asked == u64::from(most) + 1 && m == u64::from(most)),
            "{error}"
        );
    });
}

#[test]
fn large_dynamic_shared_memory_is_opted_into() {
    on_each(|device, stream| {
        let n = 200;
        let x = stream.upload(&(0..n).collect::<Vec<u32>>()).unwrap();
        let most = device.properties().max_shared_bytes_per_block;
        let own = dsl::dynamic_shared_arrays::desc().static_shared_bytes() as u32;
        // What the arrays need, more than the default limit, all there is, and too much.
        for (bytes, fits) in [
            (12 * n, true),
            (64 * 1024, true),
            (most - own, true),
            (most - own + 1, false),
        ] {
            let mut doubles = stream.alloc::<f64>(n as usize).unwrap();
            let mut words = stream.alloc::<u32>(n as usize).unwrap();
            let config = LaunchConfig::linear(1, n).with_shared(bytes);
            // SAFETY: one block of n threads with at least 12·n bytes of dynamic shared memory.
            let launched = unsafe {
                dsl::dynamic_shared_arrays::launch(stream, &config, &x, &mut doubles, &mut words)
            };
            if fits {
                launched.unwrap();
                let expected: Vec<f64> = (0..n).rev().map(|i| f64::from(i) + 0.25).collect();
                assert_eq!(stream.download(&doubles).unwrap(), expected);
                assert_eq!(stream.download(&words).unwrap()[n as usize - 1], 0);
            } else {
                let error = launched.unwrap_err();
                assert!(
                    matches!(
                        error,
                        DeviceError::TooLarge {
                            limit: LaunchLimit::SharedBytesPerBlock,
                            ..
                        }
                    ),
                    "{error}"
                );
            }
        }
    });
}

#[test]
fn a_geometry_that_the_device_does_not_have_is_refused() {
    on_each(|_, stream| {
        let x = stream.upload(&ramp(5)).unwrap();
        let mut y = stream.upload(&ramp(5)).unwrap();
        for (grid, block, refused) in [
            ([1, 1, 1], [1, 1, 65], LaunchLimit::BlockAxis(2)),
            ([1, 65_536, 1], [32, 1, 1], LaunchLimit::GridAxis(1)),
        ] {
            let config = LaunchConfig {
                grid,
                block,
                ..LaunchConfig::linear(1, 1)
            };
            // SAFETY: the launch is refused.
            let error = unsafe { dsl::axpy::launch(stream, &config, 1.0, &x, &mut y).unwrap_err() };
            assert!(
                matches!(error, DeviceError::TooLarge { kernel: "axpy_f64", limit, .. }
                    if limit == refused),
                "{error}"
            );
        }
        assert_eq!(stream.download(&y).unwrap(), ramp(5));
    });
}

#[test]
fn kernels_are_loaded_once_and_timed() {
    on_each(|device, stream| {
        device.load_kernels(&[dsl::axpy::desc::<f64>()]).unwrap();
        let seconds = device.module_load_seconds();
        let x = stream.upload(&ramp(5)).unwrap();
        let mut y = stream.upload(&ramp(5)).unwrap();
        axpy(stream, 1.0, &x, &mut y).unwrap();
        let modules = device.loaded_modules();
        match device.properties().backend {
            Backend::Simulator => assert!(modules.is_empty() && seconds == 0.0),
            Backend::Cuda => {
                assert_eq!(modules.len(), 1);
                assert_eq!(modules[0].name, MODULE.name);
                let sm = device.properties().compute_capability.sm();
                let newest = MODULE.images.iter().map(|image| image.sm);
                assert_eq!(
                    Some(modules[0].sm),
                    newest.filter(|&image| image <= sm).max()
                );
                assert!(seconds > 0.0);
                assert_eq!(device.module_load_seconds(), seconds, "loaded once");
                device.load_kernels(&[dsl::axpy::desc::<f32>()]).unwrap();
                assert!(device.module_load_seconds() > seconds, "another kernel");
            }
        }
    });
}

#[test]
fn a_stream_launches_from_any_thread() {
    on_each(|device, stream| {
        let x = Arc::new(stream.upload(&ramp(1025)).unwrap());
        let sums: Vec<Vec<f64>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|i| {
                    let x = x.clone();
                    scope.spawn(move || {
                        let mut y = stream.alloc_zeroed(1025).unwrap();
                        axpy(stream, f64::from(i), &x, &mut y).unwrap();
                        stream.download(&y).unwrap()
                    })
                })
                .collect();
            workers.into_iter().map(|w| w.join().unwrap()).collect()
        });
        for (i, sum) in sums.iter().enumerate() {
            assert!(sum.iter().enumerate().all(|(k, &v)| v == (i * k) as f64));
        }
        drop(x);
        assert_eq!(device.allocated_bytes(), 0);
    });
}
