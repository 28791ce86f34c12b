//! What a fault on the GPU looks like to the host. It leaves the process without a usable context,
//! so this file holds one test only.

use luge_device::{Backend, DeviceError, LaunchConfig};
use luge_kernel::host::{BufferBase, ElementKind, KernelArg, KernelBufferMut, LaunchTarget};
use luge_test_kernels::dsl;

#[test]
fn a_fault_names_the_kernel_and_nothing_panics_after_it() {
    let devices = luge_tests::devices();
    let Some(device) = devices
        .iter()
        .find(|device| device.properties().backend == Backend::Cuda)
    else {
        eprintln!(
            "SKIPPED a_fault_names_the_kernel_and_nothing_panics_after_it: no GPU under test"
        );
        return;
    };
    let stream = device.create_stream().unwrap();
    let event = device.create_event().unwrap();
    let mut y = stream.upload(&[0.0_f64; 32]).unwrap();
    // An address that no allocation has.
    let x = KernelArg::Buffer {
        base: BufferBase::Device(0x10),
        byte_offset: 0,
        len: 32,
        element: ElementKind::F64,
        writable: false,
    };
    let arguments = [KernelArg::F64(1.0), x, y.kernel_arg_mut()];
    stream
        .launch(
            dsl::axpy::desc::<f64>(),
            &LaunchConfig::linear(1, 32),
            &arguments,
        )
        .expect("the launch itself is asynchronous");
    let error = stream.synchronize().unwrap_err();
    assert!(
        matches!(&error, DeviceError::Asynchronous { kernels, .. } if kernels == &["axpy_f64"]),
        "{error}"
    );
    // The context is broken: every call says so, and dropping everything is quiet.
    assert!(stream.record(&event).is_err() || stream.synchronize().is_err());
    assert!(stream.download(&y).is_err());
    assert!(stream.alloc::<f64>(1000).is_err() || stream.synchronize().is_err());
}
