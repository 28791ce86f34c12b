//! The CUDA backend against the test double of the driver.

use std::sync::{Arc, OnceLock};

use luge_kernel::host::{
    Binaries, KernelArg, KernelBuffer, KernelBufferMut, KernelDesc, KernelModule, LaunchConfig,
    LaunchTarget, Ptx, PtxImage,
};
use luge_kernel::math::Complex;
use luge_kernel::sim::Arguments;

use super::driver::{Driver, NEEDED_VERSION};
use super::{Context, fake};
use crate::{Arena, Device, DeviceError, DriverVersion, LaunchLimit, Stream, Uploads};

fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(Driver::fake)
}

fn try_open() -> Result<Device, DeviceError> {
    Device::from_context(|| Context::open_with(driver(), 0))
}

/// A device of a fresh double.
fn open() -> Device {
    fake::reset();
    try_open().unwrap()
}

const NOTHING_LEFT: (usize, usize, usize, i32) = (0, 0, 0, 0);

static MODULE: KernelModule = KernelModule {
    name: "test",
    images: &[
        PtxImage {
            sm: 80,
            ptx: Ptx::Text(".version 7.0"),
            binaries: None,
        },
        PtxImage {
            sm: 90,
            ptx: Ptx::Text(
                ".version 7.8
.visible .entry axpy(
)
{
\tfma.rn.f64;
}
.visible .entry axpy_f64(
)
{
\tadd.rn.f64;
}
.visible .entry scale(
)
{
\tmul.rn.f64;
}
.visible .entry missing_too(
)
{
}
",
            ),
            binaries: None,
        },
        PtxImage {
            sm: 100,
            ptx: Ptx::Text("too new"),
            binaries: None,
        },
    ],
};
static NEW_MODULE: KernelModule = KernelModule {
    name: "new",
    images: &[PtxImage {
        sm: 100,
        ptx: Ptx::Text(".version 8.6"),
        binaries: None,
    }],
};
static BROKEN_MODULE: KernelModule = KernelModule {
    name: "broken",
    images: &[PtxImage {
        sm: 80,
        ptx: Ptx::Text("nonsense\n.entry axpy()\n{\n}\n"),
        binaries: None,
    }],
};

unsafe fn never(_: &mut Arguments<'_>) {
    unreachable!("the kernels of these tests run nowhere");
}

const fn kernel(name: &'static str, module: &'static KernelModule) -> KernelDesc {
    KernelDesc {
        name,
        module,
        params: &[],
        shared: &[],
        max_threads: 1024,
        min_blocks: 0,
        entry: never,
    }
}

static KERNEL: KernelDesc = kernel("axpy", &MODULE);
static OTHER: KernelDesc = kernel("scale", &MODULE);
static LONGER: KernelDesc = kernel("axpy_f64", &MODULE);
static MISSING: KernelDesc = kernel("missing", &MODULE);
/// In the text, and not in what the driver makes of it.
static MISSING_TOO: KernelDesc = kernel("missing_too", &MODULE);
static NEW: KernelDesc = kernel("axpy", &NEW_MODULE);
static BROKEN: KernelDesc = kernel("axpy", &BROKEN_MODULE);

fn calls(name: &str) -> usize {
    fake::with(|state| state.calls.iter().filter(|&&call| call == name).count())
}

#[test]
fn names_every_library_it_tried() {
    let error = Driver::load(&["libluge-none.so.1", "libluge-none.so"]).unwrap_err();
    let DeviceError::NoDriver { tried } = &error else {
        panic!("{error}")
    };
    assert_eq!(tried.len(), 2);
    assert!(tried[0].starts_with("libluge-none.so.1: "), "{tried:?}");
    assert!(error.to_string().starts_with("no CUDA driver"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_library_without_the_symbols_is_no_driver() {
    let error = Driver::load(&["libc.so.6"]).unwrap_err();
    let DeviceError::NoDriver { tried } = &error else {
        panic!("{error}")
    };
    assert_eq!(tried, &["libc.so.6: it has no symbol cuGetErrorName"]);
}

#[test]
fn an_old_driver_is_refused() {
    fake::reset();
    fake::with(|state| state.version = 11080);
    let error = driver().initialize().unwrap_err();
    assert!(
        matches!(
            error,
            DeviceError::DriverTooOld {
                found: DriverVersion {
                    major: 11,
                    minor: 8
                },
                needed: NEEDED_VERSION,
            }
        ),
        "{error}"
    );
    fake::with(|state| state.version = 12000);
    driver().initialize().unwrap();
}

#[test]
fn initialisation_failures_are_told_apart() {
    let initialize = |code| {
        fake::reset();
        fake::with(|state| state.fail = Some(("cuInit", 0, code)));
        driver().initialize().unwrap_err()
    };
    assert!(matches!(initialize(100), DeviceError::NoDevice));
    for code in [34, 802, 803, 804] {
        assert!(
            matches!(initialize(code), DeviceError::NoDriver { .. }),
            "{code}"
        );
    }
    assert!(matches!(
        initialize(999),
        DeviceError::Driver {
            call: "cuInit",
            code: 999,
            ..
        }
    ));
}

#[test]
fn devices_that_cannot_serve_are_refused() {
    fake::reset();
    fake::with(|state| state.devices = 0);
    assert!(matches!(try_open(), Err(DeviceError::NoDevice)));

    fake::reset();
    let error = Context::open_with(driver(), 3).err().unwrap();
    assert!(
        matches!(
            error,
            DeviceError::InvalidDevice {
                ordinal: 3,
                count: 1
            }
        ),
        "{error}"
    );

    fake::with(|state| state.capability = (7, 5));
    let error = try_open().unwrap_err();
    assert_eq!(
        error.to_string(),
        "Fake GPU has compute capability 7.5, and 8.0 is needed"
    );
    assert_eq!(fake::leaks(), NOTHING_LEFT);
}

#[test]
fn everything_is_given_back() {
    for pools in [true, false] {
        fake::reset();
        fake::with(|state| state.pools = pools);
        let device = try_open().unwrap();
        assert_eq!(device.properties().stream_ordered_memory, pools);
        let stream = device.create_stream().unwrap();
        let buffer = stream.upload(&[1_u32, 2, 3]).unwrap();
        let event = device.create_event().unwrap();
        let pinned = device.alloc_pinned::<f64>(7).unwrap();
        let arena = Arena::new(&stream, 4096).unwrap();
        let slice = arena.alloc::<f32>(3).unwrap();
        stream.record(&event).unwrap();
        device.load_kernels(&[&KERNEL, &OTHER]).unwrap();
        let graph = stream.capture(|_| Ok(())).unwrap();
        // The owners go first, the memory last.
        drop((device, stream, arena, event, graph, pinned));
        assert_ne!(fake::leaks(), NOTHING_LEFT);
        drop((slice, buffer));
        assert_eq!(fake::leaks(), NOTHING_LEFT, "pools: {pools}");
    }
}

#[test]
fn out_of_memory_names_what_was_asked_and_left() {
    for pools in [true, false] {
        fake::reset();
        fake::with(|state| state.pools = pools);
        let device = try_open().unwrap();
        let stream = device.create_stream().unwrap();
        let _kept = stream.alloc::<u64>(1000).unwrap();
        let free = (1 << 20) - 8000 + if pools { 256 } else { 0 };
        for (asked, name) in [(1 << 20, "refused by the driver"), (1 << 23, "not tried")] {
            let error = stream.alloc::<u64>(asked as usize / 8).unwrap_err();
            assert!(
                matches!(error, DeviceError::OutOfMemory { asked: a, available }
                    if a == asked && available == free),
                "{name}: {error}"
            );
        }
        assert_eq!(device.allocated_bytes(), 8000, "the charge is taken back");
        assert_eq!(calls("cuMemPoolTrimTo"), usize::from(pools));
        assert_eq!(device.memory().unwrap().free, free);
    }
}

#[test]
fn memory_that_waits_in_the_pool_is_tried_again() {
    let device = open();
    let stream = device.create_stream().unwrap();
    fake::with(|state| state.fail = Some(("cuMemAllocFromPoolAsync", 0, 2)));
    let buffer = stream.alloc::<u32>(10).unwrap();
    assert_eq!((buffer.len(), calls("cuMemPoolTrimTo")), (10, 1));
}

#[test]
fn a_thread_that_cannot_change_its_context_keeps_it() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let held = fake::hold();
    let other = open();
    let stream_of_other = other.create_stream().unwrap();
    held.lock().unwrap().fail = Some(("cuCtxSetCurrent", 0, 1));
    stream.synchronize().unwrap_err();
    stream_of_other.synchronize().unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn memory_that_is_read_back_is_waited_for_and_kept() {
    let device = open();
    let stream = device.create_stream().unwrap();
    for _ in 0..3 {
        let mut left = crate::Readback::<u64>::new(&stream, 15).unwrap();
        left.buffer_mut();
        left.record(&stream).unwrap();
        let before = ["cuEventSynchronize", "cuMemcpyDtoHAsync_v2"].map(calls);
        assert_eq!(left.read().unwrap().len(), 15);
        let after = ["cuEventSynchronize", "cuMemcpyDtoHAsync_v2"].map(calls);
        assert_eq!(after, [before[0] + 1, before[1]]);
    }
    let allocated = ["cuMemHostAlloc", "cuMemFreeHost"].map(calls);
    assert_eq!(allocated, [1, 0], "of three in turn");
    let untimed = fake::with(|state| state.untimed.len());
    assert_eq!(untimed, 3, "nobody measures between their events");
}

#[test]
fn streams_that_share_a_device_make_way() {
    let device = open();
    let waits = |stream: &crate::Stream| {
        let before = calls("cuStreamSynchronize");
        stream.make_way().unwrap();
        calls("cuStreamSynchronize") - before
    };
    assert_eq!(waits(&device.create_stream().unwrap()), 0);
    assert_eq!(waits(&device.create_sharing_stream(1).unwrap()), 0);
    assert_eq!(waits(&device.create_sharing_stream(2).unwrap()), 1);
}

#[test]
fn nothing_is_allocated_for_no_elements() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let mut empty = stream.upload::<f64>(&[]).unwrap();
    stream.fill_zero(&mut empty).unwrap();
    let other = stream.alloc_zeroed::<f64>(0).unwrap();
    stream.copy(&mut empty, &other).unwrap();
    assert!(stream.download(&empty).unwrap().is_empty());
    for call in [
        "cuMemAllocFromPoolAsync",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyDtoDAsync_v2",
        "cuMemsetD8Async",
    ] {
        assert_eq!(calls(call), 0, "{call}");
    }
}

#[test]
fn arguments_reach_the_driver_flattened() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let x = stream.upload(&[1.0_f64; 10]).unwrap();
    let mut y = stream.alloc::<u32>(6).unwrap();
    fake::with(|state| state.num_parameters = 12);
    let arguments = [
        KernelArg::U32(7),
        KernelArg::I32(-1),
        KernelArg::U64(u64::MAX - 1),
        KernelArg::I64(-2),
        KernelArg::F32(1.5),
        KernelArg::F64(-2.5),
        KernelArg::ComplexF32(Complex::new(0.5, -3.5)),
        KernelArg::ComplexF64(Complex::new(-4.5, 5.5)),
        x.slice(3..9).kernel_arg(),
        y.kernel_arg_mut(),
    ];
    let config = LaunchConfig {
        grid: [5, 2, 3],
        block: [32, 4, 2],
        shared_bytes: 100,
        cooperative: false,
    };
    stream.launch(&KERNEL, &config, &arguments).unwrap();
    let address = |argument: &KernelArg| match argument {
        KernelArg::Buffer {
            base: luge_kernel::host::BufferBase::Device(address),
            ..
        } => *address,
        _ => panic!("a device buffer"),
    };
    fake::with(|state| {
        let launch = state.launches.pop().unwrap();
        assert_eq!(launch.kernel, "axpy");
        assert_eq!((launch.grid, launch.block), ([5, 2, 3], [32, 4, 2]));
        assert_eq!((launch.shared_bytes, launch.cooperative), (100, false));
        let narrow = |value: u64| value as u32;
        let parameters: Vec<u64> = launch.parameters.iter().map(|pair| pair[0]).collect();
        assert_eq!(narrow(parameters[0]), 7);
        assert_eq!(narrow(parameters[1]), u32::MAX);
        assert_eq!(parameters[2], u64::MAX - 1);
        assert_eq!(parameters[3], -2_i64 as u64);
        assert_eq!(narrow(parameters[4]), 1.5_f32.to_bits());
        assert_eq!(parameters[5], (-2.5_f64).to_bits());
        let pair = [0.5_f32, -3.5].map(f32::to_ne_bytes);
        assert_eq!(parameters[6].to_ne_bytes(), pair.as_flattened());
        assert_eq!(launch.parameters[7], [-4.5_f64, 5.5].map(f64::to_bits));
        assert_eq!(parameters[8], address(&arguments[8]) + 24);
        assert_eq!(parameters[9], 6);
        assert_eq!(parameters[10], address(&arguments[9]));
        assert_eq!(parameters[11], 6);
    });
}

#[test]
fn cooperative_launches_fit_or_are_refused() {
    let device = open();
    let stream = device.create_stream().unwrap();
    // The double lets 2048 / block blocks onto each of 132 multiprocessors.
    assert_eq!(stream.max_resident_blocks(&KERNEL, 512, 0).unwrap(), 528);
    let config = LaunchConfig::linear(528, 512).cooperative();
    stream.launch(&KERNEL, &config, &[]).unwrap();
    assert!(fake::with(|state| state.launches[0].cooperative));
    let config = LaunchConfig::linear(529, 512).cooperative();
    let error = stream.launch(&KERNEL, &config, &[]).unwrap_err();
    assert!(
        matches!(
            error,
            DeviceError::TooLarge {
                limit: LaunchLimit::CooperativeBlocks,
                asked: 529,
                most: 528,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn launches_over_a_limit_are_refused() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let refused = |config: LaunchConfig| match stream.launch(&KERNEL, &config, &[]) {
        Err(DeviceError::TooLarge {
            limit, asked, most, ..
        }) => (limit, asked, most),
        other => panic!("{other:?}"),
    };
    let block = |x, y, z| LaunchConfig {
        block: [x, y, z],
        ..LaunchConfig::linear(1, 1)
    };
    assert_eq!(
        refused(block(2000, 1, 1)),
        (LaunchLimit::BlockAxis(0), 2000, 1024)
    );
    assert_eq!(
        refused(block(1, 1, 65)),
        (LaunchLimit::BlockAxis(2), 65, 64)
    );
    assert_eq!(
        refused(block(1024, 2, 1)),
        (LaunchLimit::ThreadsPerBlock, 2048, 1024)
    );
    // The kernel's registers allow 512.
    assert_eq!(
        refused(block(513, 1, 1)),
        (LaunchLimit::ThreadsPerBlock, 513, 512)
    );
    let grid = LaunchConfig {
        grid: [1, 65_536, 1],
        ..LaunchConfig::linear(1, 1)
    };
    assert_eq!(refused(grid), (LaunchLimit::GridAxis(1), 65_536, 65_535));
    // 1024 bytes are the kernel's own.
    let shared = LaunchConfig::linear(1, 32).with_shared(232_448 - 1023);
    assert_eq!(
        refused(shared),
        (LaunchLimit::SharedBytesPerBlock, 232_449, 232_448)
    );
    let empty = LaunchConfig::linear(0, 32);
    assert!(matches!(
        stream.launch(&KERNEL, &empty, &[]),
        Err(DeviceError::Launch { kernel: "axpy", .. })
    ));
    assert!(fake::with(|state| state.launches.is_empty()));
}

#[test]
fn large_shared_memory_is_allowed_once() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let launch = |bytes| {
        let config = LaunchConfig::linear(1, 32).with_shared(bytes);
        stream.launch(&KERNEL, &config, &[]).unwrap();
        (
            calls("cuFuncSetAttribute"),
            fake::with(|state| state.dynamic_limit),
        )
    };
    assert_eq!(launch(48_128), (0, 0), "within what the kernel has");
    assert_eq!(launch(100_000), (1, 100_000));
    assert_eq!(launch(60_000), (1, 100_000), "allowed already");
    assert_eq!(launch(200_000), (2, 200_000));
}

#[test]
fn kernels_are_loaded_once_from_the_newest_image_that_runs() {
    let device = open();
    let stream = device.create_stream().unwrap();
    assert!(device.loaded_modules().is_empty());
    for kernel in [&KERNEL, &OTHER, &KERNEL] {
        stream
            .launch(kernel, &LaunchConfig::linear(1, 1), &[])
            .unwrap();
    }
    device.load_kernels(&[&OTHER, &KERNEL]).unwrap();
    assert_eq!(calls("cuModuleLoadDataEx"), 2);
    assert_eq!(calls("cuModuleGetFunction"), 2);
    // Each text has its own kernel and no other.
    let texts = fake::with(|state| state.texts.clone());
    for (text, own) in texts.iter().zip(["fma", "mul"]) {
        assert!(text.starts_with(".version 7.8\n"), "{text}");
        for mark in ["fma", "add", "mul", "missing"] {
            assert_eq!(text.contains(mark), mark == own, "{mark} in {text}");
        }
    }
    let modules = device.loaded_modules();
    assert_eq!(
        modules.iter().map(|m| (m.name, m.sm)).collect::<Vec<_>>(),
        [("test", 90)]
    );
    assert!(modules[0].seconds > 0.0);
    assert_eq!(device.module_load_seconds(), modules[0].seconds);
}

/// A module of the kernels `axpy` and `scale`, the first of which has a binary for `sm`.
fn module_with_binary(sm: u32) -> [&'static KernelDesc; 2] {
    let mut stream = Vec::new();
    let binaries = b"axpy\n9\n\x7fELF axpyother\n4\n\x7fELF";
    let params = brotli::enc::BrotliEncoderParams::default();
    brotli::BrotliCompress(&mut &binaries[..], &mut stream, &params).unwrap();
    let module = KernelModule {
        name: "binaries",
        images: vec![PtxImage {
            sm,
            ptx: Ptx::Text(".version 7.8\n.entry axpy()\n{\n}\n.entry scale()\n{\n}\n"),
            binaries: Some(Binaries::compressed(stream.leak())),
        }]
        .leak(),
    };
    let module: &KernelModule = Box::leak(Box::new(module));
    ["axpy", "scale"].map(|name| &*Box::leak(Box::new(kernel(name, module))))
}

#[test]
fn a_kernel_with_a_binary_is_not_compiled() {
    let device = open();
    device.load_kernels(&module_with_binary(90)).unwrap();
    let [binaries, texts] = fake::with(|state| [state.binaries.clone(), state.texts.clone()]);
    assert_eq!(binaries, ["\x7fELF axpy"]);
    assert_eq!(texts, [".version 7.8\n.entry scale()\n{\n}\n"]);
    drop(device);
    assert_eq!(fake::leaks(), NOTHING_LEFT);
}

#[test]
fn binaries_for_other_devices_are_left_alone() {
    // The double's capability is 9.0.
    let device = open();
    device.load_kernels(&module_with_binary(80)).unwrap();
    assert!(fake::with(|state| state.binaries.is_empty()));
    assert_eq!(fake::with(|state| state.texts.len()), 2);
}

#[test]
fn a_kernel_whose_binary_is_refused_is_compiled() {
    let device = open();
    fake::with(|state| state.takes_binaries = false);
    device.load_kernels(&module_with_binary(90)).unwrap();
    assert!(fake::with(|state| state.binaries.is_empty()));
    assert_eq!(fake::with(|state| state.texts.len()), 2);
    drop(device);
    assert_eq!(fake::leaks(), NOTHING_LEFT);
}

#[test]
fn kernels_that_are_wanted_together_are_compiled_side_by_side() {
    let device = open();
    device.load_kernels(&[&KERNEL]).unwrap();
    fake::with(|state| {
        state.together = Some(("cuModuleLoadDataEx", Arc::new(fake::Meeting::of(2))));
    });
    // One is loaded already, and one is named twice.
    device
        .load_kernels(&[&OTHER, &KERNEL, &LONGER, &OTHER])
        .unwrap();
    assert_eq!(calls("cuModuleLoadDataEx"), 3);
    fake::with(|state| state.together = None);
    let stream = device.create_stream().unwrap();
    for kernel in [&KERNEL, &OTHER, &LONGER] {
        stream
            .launch(kernel, &LaunchConfig::linear(1, 1), &[])
            .unwrap();
    }
    let launched = |state: &mut fake::State| {
        let launches = state.launches.iter();
        launches.map(|l| l.kernel.clone()).collect::<Vec<_>>()
    };
    assert_eq!(fake::with(launched), ["axpy", "scale", "axpy_f64"]);
    assert_eq!(calls("cuModuleLoadDataEx"), 3);
    drop((stream, device));
    assert_eq!(fake::leaks(), NOTHING_LEFT);
}

#[test]
fn threads_that_want_one_kernel_have_it_compiled_once() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let config = LaunchConfig::linear(1, 1);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| stream.launch(&KERNEL, &config, &[]).unwrap());
        }
    });
    assert_eq!(calls("cuModuleLoadDataEx"), 1);
    assert_eq!(fake::with(|state| state.launches.len()), 8);
}

#[test]
fn a_launch_does_not_wait_for_the_compilation_of_another_kernel() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let config = LaunchConfig::linear(1, 1);
    stream.launch(&KERNEL, &config, &[]).unwrap();
    // The compilation does not end before the launch meets it.
    let meeting = Arc::new(fake::Meeting::of(2));
    fake::with(|state| state.together = Some(("cuModuleLoadDataEx", Arc::clone(&meeting))));
    std::thread::scope(|scope| {
        let compiling = scope.spawn(|| device.load_kernels(&[&OTHER]));
        meeting.wait_for(1).unwrap();
        stream.launch(&KERNEL, &config, &[]).unwrap();
        meeting.attend().unwrap();
        compiling.join().unwrap().unwrap();
    });
    assert_eq!(calls("cuModuleLoadDataEx"), 2);
}

#[test]
fn a_module_is_loaded_whole_on_demand() {
    let device = open();
    let error = device.load_module(&MODULE).unwrap_err();
    assert!(
        matches!(
            error,
            DeviceError::UnknownKernel {
                kernel: "missing_too",
                module: "test"
            }
        ),
        "{error}"
    );
    // The others are there.
    assert_eq!(calls("cuModuleLoadDataEx"), 4);
    device.load_kernels(&[&KERNEL, &OTHER, &LONGER]).unwrap();
    assert_eq!(calls("cuModuleLoadDataEx"), 4);
    assert!(device.load_module(&MODULE).is_err());
    assert_eq!(calls("cuModuleLoadDataEx"), 5, "what failed is tried again");
    drop(device);
    assert_eq!(fake::leaks(), NOTHING_LEFT);
}

#[test]
fn modules_that_do_not_load_say_why() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let launch = |kernel| {
        stream
            .launch(kernel, &LaunchConfig::linear(1, 1), &[])
            .unwrap_err()
    };
    let error = launch(&NEW);
    assert!(
        matches!(&error, DeviceError::NoImage { module: "new", images, .. } if images == &[100]),
        "{error}"
    );
    fake::with(|state| state.log = "line 1: syntax error");
    let error = launch(&BROKEN);
    assert!(
        matches!(&error, DeviceError::ModuleLoad { kernel: "axpy", module: "broken", sm: 80, log, .. }
            if log == "line 1: syntax error"),
        "{error}"
    );
    let error = launch(&MISSING);
    assert!(
        matches!(
            error,
            DeviceError::UnknownKernel {
                kernel: "missing",
                module: "test"
            }
        ),
        "{error}"
    );
    assert_eq!(
        calls("cuModuleLoadDataEx"),
        1,
        "the text has no such kernel"
    );
    let error = launch(&MISSING_TOO);
    assert!(
        matches!(
            error,
            DeviceError::UnknownKernel {
                kernel: "missing_too",
                ..
            }
        ),
        "{error}"
    );
    let error = device.load_kernels(&[&KERNEL, &BROKEN]).unwrap_err();
    assert!(
        matches!(
            error,
            DeviceError::ModuleLoad {
                module: "broken",
                ..
            }
        ),
        "{error}"
    );
    let modules = device.loaded_modules();
    assert_eq!(modules.len(), 1, "{modules:?}");
    assert_eq!(modules[0].name, "test");
    fake::with(|state| state.fail = Some(("cuLaunchKernel", 0, 1)));
    let error = launch(&KERNEL);
    assert!(
        matches!(&error, DeviceError::Launch { kernel: "axpy", message, .. }
            if message.contains("CUDA_ERROR_INVALID_VALUE (1)")),
        "{error}"
    );
}

#[test]
fn faults_name_the_kernels_enqueued_last() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let config = LaunchConfig::linear(1, 1);
    stream.launch(&OTHER, &config, &[]).unwrap();
    stream.synchronize().unwrap();
    stream.launch(&OTHER, &config, &[]).unwrap();
    stream.launch(&KERNEL, &config, &[]).unwrap();
    fake::with(|state| state.fail = Some(("cuStreamSynchronize", 0, 700)));
    let error = stream.synchronize().unwrap_err();
    assert!(
        matches!(&error, DeviceError::Asynchronous { call: "cuStreamSynchronize", code: 700, name, kernels, .. }
            if name == "CUDA_ERROR_ILLEGAL_ADDRESS" && kernels == &["axpy", "scale"]),
        "{error}"
    );
    fake::with(|state| state.fail = Some(("cuLaunchKernel", 0, 719)));
    let error = stream.launch(&KERNEL, &config, &[]).unwrap_err();
    assert!(
        matches!(&error, DeviceError::Asynchronous { code: 719, kernels, .. } if kernels.len() == 2),
        "{error}"
    );
}

#[test]
fn graphs_replay_and_keep_their_memory() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let mut y = stream.upload(&[0_u32; 4]).unwrap();
    let x = stream.upload(&[1_u32, 2, 3, 4]).unwrap();
    let mut z = stream.upload(&[9_u32; 4]).unwrap();
    fake::with(|state| state.num_parameters = 2);
    let graph = stream
        .capture(|stream| {
            stream.copy(&mut y, &x)?;
            stream.fill_bytes(&mut z, 0xFF)?;
            stream.launch(&KERNEL, &LaunchConfig::linear(1, 1), &[z.kernel_arg_mut()])?;
            // Freeing them must not become part of the graph, and must not happen.
            drop((x, z));
            Ok(())
        })
        .unwrap();
    assert_eq!(graph.num_operations(), 3);
    assert_eq!(stream.download(&y).unwrap(), [0; 4], "not run yet");
    assert!(fake::with(|state| state.launches.is_empty()));
    for round in 1..=2 {
        stream.fill_zero(&mut y).unwrap();
        // SAFETY: the kernel has no preconditions, since it runs nowhere.
        unsafe { graph.launch(&stream).unwrap() };
        assert_eq!(stream.download(&y).unwrap(), [1, 2, 3, 4]);
        assert_eq!(fake::with(|state| state.launches.len()), round);
    }
    assert_eq!(device.allocated_bytes(), 48);
    drop(graph);
    assert_eq!(device.allocated_bytes(), 16);
    drop((y, stream, device));
    assert_eq!(fake::leaks(), NOTHING_LEFT);
}

#[test]
fn a_failed_capture_leaves_the_stream_usable() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let mut y = stream.upload(&[5_u32; 4]).unwrap();
    let dropped = stream.alloc::<f64>(100).unwrap();
    let error = stream
        .capture(|stream| {
            drop(dropped);
            stream.fill_zero(&mut y)?;
            stream.alloc::<f64>(3).map(drop)
        })
        .unwrap_err();
    assert!(
        matches!(error, DeviceError::Capturing { call: "allocation" }),
        "{error}"
    );
    assert_eq!(stream.download(&y).unwrap(), [5; 4]);
    assert_eq!(device.allocated_bytes(), 16);

    fake::with(|state| state.fail = Some(("cuGraphInstantiateWithFlags", 0, 1)));
    let error = stream
        .capture(|stream| stream.fill_zero(&mut y))
        .unwrap_err();
    assert!(matches!(error, DeviceError::Driver { .. }), "{error}");

    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = stream.capture(|_| panic!("within the capture"));
    }));
    assert!(panicked.is_err());
    assert_eq!(stream.download(&y).unwrap(), [5; 4]);
    drop((y, stream, device));
    assert_eq!(fake::leaks(), NOTHING_LEFT);
}

#[test]
fn large_uploads_go_through_blocks_that_threads_fill() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let pool = threads(3);
    // Several blocks for each thread, and a rest; nothing; less than a block.
    let long: Vec<u32> = (0..1003).collect();
    let short = [7_u64, 8, 9];
    for threads in [1, 2, 40] {
        let mut uploads = Uploads::new(&stream);
        let copies = calls("cuMemcpyHtoDAsync_v2");
        let buffers = (
            uploads.add(&long).unwrap(),
            uploads.add::<u32>(&[]).unwrap(),
            uploads.add(&short).unwrap(),
        );
        pool.install(|| uploads.finish_on(threads)).unwrap();
        assert_eq!(stream.download(&buffers.0).unwrap(), long);
        assert_eq!(stream.download(&buffers.2).unwrap(), short);
        let expected = if threads == 1 { 2 } else { 63 + 1 };
        assert_eq!(calls("cuMemcpyHtoDAsync_v2"), copies + expected);
    }
    // Blocks are there once, for whoever comes next.
    assert_eq!(calls("cuMemHostAlloc"), 1);
    assert_eq!(device.transfers().to_device_bytes, 3 * (4 * 1003 + 8 * 3));
    // Where no memory can be locked, here in another context, all bytes are left to the driver.
    let _held = fake::hold();
    let others = open();
    let stream_of_others = others.create_stream().unwrap();
    fake::with(|state| state.fail = Some(("cuMemHostAlloc", 0, 2)));
    let mut uploads = Uploads::new(&stream_of_others);
    let there = uploads.add(&long).unwrap();
    let copies = calls("cuMemcpyHtoDAsync_v2");
    uploads.finish_on(4).unwrap();
    assert_eq!(calls("cuMemcpyHtoDAsync_v2"), copies + 1);
    assert_eq!(stream_of_others.download(&there).unwrap(), long);
    drop((there, stream_of_others, others));
    // So are few.
    let mut uploads = Uploads::new(&stream);
    let few = uploads.add(&short).unwrap();
    let copies = calls("cuMemcpyHtoDAsync_v2");
    uploads.finish_on(2).unwrap();
    assert_eq!(calls("cuMemcpyHtoDAsync_v2"), copies + 1);
    assert_eq!(stream.download(&few).unwrap(), short);
    drop((few, stream, device));
    assert_eq!(fake::leaks(), NOTHING_LEFT);
}

#[test]
fn memory_of_others_is_used_and_left_to_them() {
    let device = open();
    let (stream, other) = (
        device.create_stream().unwrap(),
        device.create_stream().unwrap(),
    );
    let theirs = other.upload(&[1.0, 2.0, 3.0]).unwrap();
    let before = device.allocated_bytes();
    let address = theirs.driver_address().unwrap();
    // SAFETY: `theirs` has three elements at this address, and lives to the end of the test, as does its stream.
    let mut borrowed = unsafe { stream.borrow_foreign::<f64>(address, 3) };
    assert_eq!(borrowed.driver_address(), Some(address));
    assert_eq!(device.allocated_bytes(), before);

    let theirs_stream = other.driver_stream().unwrap().as_ptr();
    // SAFETY: as above.
    unsafe { stream.wait_for_driver_stream(theirs_stream) }.unwrap();
    assert_eq!((calls("cuEventRecord"), calls("cuStreamWaitEvent")), (1, 1));
    let mut own = stream.alloc::<f64>(3).unwrap();
    stream.copy(&mut own, &borrowed).unwrap();
    assert_eq!(stream.download(&own).unwrap(), [1.0, 2.0, 3.0]);
    stream
        .copy_from_host(&mut borrowed, &[4.0, 5.0, 6.0])
        .unwrap();
    assert_eq!(calls("cuEventDestroy_v2"), 1);

    let frees = calls("cuMemFreeAsync");
    drop(borrowed);
    assert_eq!(calls("cuMemFreeAsync"), frees);
    assert_eq!(other.download(&theirs).unwrap(), [4.0, 5.0, 6.0]);
    // SAFETY: nothing is there that could be used.
    let none = unsafe { stream.borrow_foreign::<f64>(address, 0) };
    assert_eq!(none.driver_address(), None);
}

#[test]
fn streams_of_others_that_fail_are_reported() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let other = stream.driver_stream().unwrap().as_ptr();
    for call in ["cuEventRecord", "cuStreamWaitEvent"] {
        fake::with(|state| state.fail = Some((call, 0, 999)));
        // SAFETY: it is a stream of this device.
        assert!(unsafe { stream.wait_for_driver_stream(other) }.is_err());
    }
}

#[test]
fn pinned_transfers_are_ordered_by_events() {
    let device = open();
    let stream = device.create_stream().unwrap();
    let mut pinned = device.alloc_pinned::<u32>(6).unwrap();
    assert_eq!(pinned.as_slice().unwrap(), [0; 6]);
    pinned
        .as_mut_slice()
        .unwrap()
        .copy_from_slice(&[1, 2, 3, 4, 5, 6]);
    let mut buffer = stream.alloc::<u32>(4).unwrap();
    stream.copy_from_pinned(&mut buffer, &pinned, 2).unwrap();
    assert_eq!((calls("cuEventRecord"), calls("cuStreamWaitEvent")), (1, 0));
    stream
        .copy_to_pinned(&buffer.slice(1..3), &mut pinned, 0)
        .unwrap();
    assert_eq!((calls("cuEventRecord"), calls("cuStreamWaitEvent")), (2, 1));
    let before = calls("cuEventSynchronize");
    assert_eq!(pinned.as_slice().unwrap(), [4, 5, 3, 4, 5, 6]);
    assert_eq!(calls("cuEventSynchronize"), before + 1);
    let transfers = device.transfers();
    assert_eq!(
        (transfers.to_device_bytes, transfers.to_host_bytes),
        (16, 8)
    );
}

/// Threads for one test alone: those that all tests share would make another test's calls in between.
fn threads(count: usize) -> rayon::ThreadPool {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(count);
    pool.build().unwrap()
}

/// Everything the backend does, once; what other threads share, these do.
fn scenario(others: &rayon::ThreadPool) -> Result<Device, DeviceError> {
    let device = try_open()?;
    device.memory()?;
    let stream: Stream = device.create_stream()?;
    let other = device.create_stream()?;
    let (start, end) = (device.create_event()?, device.create_event()?);
    stream.record(&start)?;
    let x = stream.upload(&[1.0_f64; 33])?;
    let mut y = stream.alloc_zeroed::<f64>(33)?;
    let config = LaunchConfig::linear(2, 32).with_shared(100_000);
    device.load_kernels(&[&KERNEL, &LONGER])?;
    stream.launch(&KERNEL, &config, &[])?;
    stream.launch(&KERNEL, &config.cooperative(), &[])?;
    let graph = stream.capture(|stream| {
        stream.copy(&mut y, &x)?;
        stream.fill_zero(&mut y.slice_mut(3..))?;
        stream.launch(&OTHER, &LaunchConfig::linear(2, 32), &[])
    })?;
    // SAFETY: the kernel has no preconditions, since it runs nowhere.
    unsafe { graph.launch(&stream)? };
    let mut pinned = device.alloc_pinned::<f64>(33)?;
    stream.copy_to_pinned(&y, &mut pinned, 0)?;
    stream.copy_from_pinned(&mut y, &pinned, 0)?;
    pinned.as_mut_slice()?[0] = 1.0;
    let mut uploads = Uploads::new(&stream);
    let staged = uploads.add(&[1_u64; 40])?;
    others.install(|| uploads.finish_on(2))?;
    stream.record(&end)?;
    other.wait(&end)?;
    end.is_complete()?;
    start.elapsed_ms(&end)?;
    let arena = Arena::new(&other, 1000)?;
    let mut piece = arena.alloc::<f64>(33)?;
    other.copy(&mut piece, &y)?;
    stream.download(&y)?;
    stream.synchronize()?;
    drop((x, y, piece, arena, graph, pinned, staged, stream, other));
    assert_eq!(device.allocated_bytes(), 0);
    Ok(device)
}

/// Whether a call gives something back.
fn gives_back(call: &str) -> bool {
    ["Free", "Destroy", "Release", "Unload"]
        .iter()
        .any(|part| call.contains(part))
}

/// Whether the call at `nth` gives something back, or is made for the next one that does.
fn is_of_giving_back(calls: &[&str], nth: usize) -> bool {
    let prepares = ["cuCtxGetCurrent", "cuCtxSetCurrent", "cuEventSynchronize"];
    let rest = calls[nth..].iter();
    // Nothing is left behind the last preparation.
    rest.copied()
        .find(|call| !prepares.contains(call))
        .is_none_or(gives_back)
}

/// Lets each call of the scenario fail in turn, with each kind of failure.
#[test]
fn every_failure_is_an_error_and_nothing_panics() {
    fake::reset();
    // One thread, so that each call has its number.
    let others = threads(1);
    drop(scenario(&others).unwrap());
    let calls: Vec<&str> = fake::with(|state| state.calls.clone());
    let num_calls = calls.len();
    assert!(num_calls > 100, "{num_calls}");
    assert_eq!(fake::leaks(), NOTHING_LEFT);
    let mut reported = 0;
    for code in [1, 2, 700] {
        for nth in 0..num_calls {
            fake::reset();
            fake::with(|state| state.fail = Some(("", nth, code)));
            match scenario(&others) {
                Ok(device) => {
                    drop(device);
                    // Without memory there is another way: once more, or without page-locked memory.
                    let has_other_way = code == 2
                        && ["cuMemAllocFromPoolAsync", "cuMemHostAlloc"].contains(&calls[nth]);
                    assert!(
                        has_other_way || is_of_giving_back(&calls, nth),
                        "call {nth}, {}, fails with {code}, and nobody says so",
                        calls[nth]
                    );
                }
                Err(error) => {
                    reported += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
            let failed = fake::with(|state| state.calls[nth]);
            // What is not given back is at most what the failing call itself should have given
            // back; memory whose freeing failed stays.
            let (bytes, pinned, handles, contexts) = fake::leaks();
            if !gives_back(failed)
                && failed != "cuCtxGetCurrent"
                && failed != "cuCtxSetCurrent"
                && failed != "cuStreamEndCapture"
            {
                assert_eq!(
                    (bytes, pinned, handles, contexts),
                    NOTHING_LEFT,
                    "call {nth}, {failed}, fails with {code}"
                );
            }
        }
    }
    assert!(reported > num_calls, "{reported} of 3 · {num_calls}");
}

#[test]
fn devices_that_reach_each_other_are_given_access_once() {
    for (pools, peers) in [(true, true), (true, false), (false, true)] {
        fake::reset();
        fake::with(|state| (state.pools, state.peers, state.devices) = (pools, peers, 2));
        let [one, other] = [0, 1].map(|ordinal| {
            let open = || Context::open_with(driver(), ordinal);
            let device = Device::from_context(open).unwrap();
            device.create_stream().unwrap()
        });
        let x = one.upload(&[1_u32, 2, 3]).unwrap();
        let mut y = other.alloc_zeroed::<u32>(4).unwrap();
        for round in 1..4 {
            // Fetched by the one that wants it, and sent by the one that has it.
            other.copy_across(&mut y.slice_mut(1..), &x).unwrap();
            assert_eq!(other.download(&y).unwrap(), [0, 1, 2, 3]);
            let mut back = one.alloc::<u32>(2).unwrap();
            other.copy_across(&mut back, &y.slice(2..)).unwrap();
            assert_eq!(one.download(&back).unwrap(), [2, 3]);
            assert_eq!(calls("cuMemcpyPeerAsync"), 2 * round);
        }
        // Both copies are on the other one's stream, which so reaches this one's memory.
        assert_eq!(calls("cuDeviceCanAccessPeer"), usize::from(pools));
        assert_eq!(calls("cuMemPoolSetAccess"), usize::from(pools && peers));
        one.copy_across(&mut y.slice_mut(..3), &x).unwrap();
        assert_eq!(calls("cuMemPoolSetAccess"), 2 * usize::from(pools && peers));
        let event = one.device().create_event().unwrap();
        one.record(&event).unwrap();
        other.wait(&event).unwrap();
        let fails = |code| fake::with(|state| state.fail = Some(("cuMemcpyPeerAsync", 0, code)));
        fails(1);
        let refused = one.copy_across(&mut y.slice_mut(..3), &x).unwrap_err();
        assert!(
            refused.to_string().contains("cuMemcpyPeerAsync"),
            "{refused}"
        );
    }
}

#[test]
fn other_libraries_get_streams_and_addresses() {
    let device = open();
    let (one, two) = (
        device.create_stream().unwrap(),
        device.create_stream().unwrap(),
    );
    assert!(one.driver_stream().is_some());
    assert_eq!(one.driver_stream(), one.clone().driver_stream());
    assert_ne!(one.driver_stream(), two.driver_stream());
    let (x, y) = (one.alloc::<f64>(4).unwrap(), one.alloc::<f64>(4).unwrap());
    assert!(x.driver_address().is_some());
    assert_ne!(x.driver_address(), y.driver_address());
    assert_eq!(one.alloc::<f64>(0).unwrap().driver_address(), None);
}
