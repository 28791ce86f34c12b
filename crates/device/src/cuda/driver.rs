//! The driver's entry points, found at run time.
//!
//! Types, constants and signatures are cudarc's (`cudarc::driver::sys`, for CUDA 12.0). The calls
//! are not made through cudarc's functions, for two reasons: those panic where the library or a
//! symbol is missing, and they return a Rust enum of the error codes known when the binding was
//! made, which a newer driver may exceed. Here all symbols are resolved once, a missing one is a
//! typed error, and an error code is a number. Each signature is held against cudarc's by the
//! compiler.
//!
//! **Which drivers.** Every symbol used exists since CUDA 11.4 and is still exported by the driver
//! of CUDA 13; the least version accepted is 12.0, the one the binding is for (driver 525 and
//! later).

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::fmt;
use std::sync::OnceLock;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUfunction_attribute, CUgraph, CUgraphExec, CUjit_option, CUmemAccessDesc, CUmemPool_attribute,
    CUmemPoolProps, CUmemoryPool, CUmodule, CUstream, CUstreamCaptureMode,
};
use libloading::Library;

use crate::error::{DeviceError, DriverVersion};

/// The least version of CUDA that a driver must support.
pub(crate) const NEEDED_VERSION: DriverVersion = DriverVersion {
    major: 12,
    minor: 0,
};

/// The driver library's names, in the order in which they are tried.
pub(crate) const LIBRARY_NAMES: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &["libcuda.so.1", "libcuda.so"]
};

/// The codes this crate tells apart (`CUresult`).
pub(crate) mod code {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    pub(crate) const STUB_LIBRARY: u32 = 34;
    pub(crate) const NO_DEVICE: u32 = 100;
    pub(crate) const NOT_FOUND: u32 = 500;
    pub(crate) const NOT_READY: u32 = 600;
    pub(crate) const SYSTEM_NOT_READY: u32 = 802;
    pub(crate) const SYSTEM_DRIVER_MISMATCH: u32 = 803;
    pub(crate) const COMPAT_NOT_SUPPORTED: u32 = 804;

    /// Whether the code tells of a kernel or copy that failed after it was enqueued: the faults
    /// that leave a context unusable (addresses, instructions, stacks, asserts, timeouts, ECC).
    pub(crate) fn is_asynchronous(code: u32) -> bool {
        matches!(code, 214 | 220 | 700 | 702 | 710 | 714..=719 | 721)
    }
}

/// A driver call that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallError {
    /// The function.
    pub(crate) call: &'static str,
    /// What it returned; never 0.
    pub(crate) code: u32,
}

type GetErrorText = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;

macro_rules! entry_points {
    ($($symbol:ident($($arg:ident: $ty:ty),* $(,)?);)*) => {
        /// The driver library and its resolved entry points; it stays loaded until the process ends.
        #[allow(non_snake_case, reason = "the fields are named as the driver's functions")]
        pub(crate) struct Driver {
            cuGetErrorName: GetErrorText,
            cuGetErrorString: GetErrorText,
            $($symbol: unsafe extern "C" fn($($ty),*) -> u32,)*
            /// Last, so that it outlives the pointers into it.
            _library: Option<Library>,
        }

        // The signatures above are cudarc's.
        $(const _: unsafe fn($($ty),*) -> sys::CUresult = sys::$symbol;)*

        impl Driver {
            /// Finds every entry point, or answers with the name of the first one missing.
            fn resolve(library: Library) -> Result<Self, &'static str> {
                // SAFETY: the symbols of the CUDA driver have the signatures that cudarc generated
                // from its header (checked above); the two error texts take a `CUresult`, which is
                // a 32-bit enum, and a pointer to a string pointer.
                unsafe {
                    Ok(Self {
                        cuGetErrorName: find(&library, "cuGetErrorName")?,
                        cuGetErrorString: find(&library, "cuGetErrorString")?,
                        $($symbol: find(&library, stringify!($symbol))?,)*
                        _library: Some(library),
                    })
                }
            }

            /// A driver whose entry points are the test double's.
            #[cfg(test)]
            pub(super) fn fake() -> Self {
                use super::fake;
                Self {
                    cuGetErrorName: fake::cuGetErrorName,
                    cuGetErrorString: fake::cuGetErrorString,
                    $($symbol: fake::$symbol,)*
                    _library: None,
                }
            }

            $(
                /// The driver's function of this name.
                ///
                /// # Safety
                /// As the CUDA driver API documents for it.
                #[allow(non_snake_case, reason = "named as the driver's function")]
                #[allow(clippy::too_many_arguments, reason = "the driver's signature")]
                pub(crate) unsafe fn $symbol(&self, $($arg: $ty),*) -> Result<(), CallError> {
                    // SAFETY: passed on to the caller.
                    match unsafe { (self.$symbol)($($arg),*) } {
                        code::SUCCESS => Ok(()),
                        code => Err(CallError { call: stringify!($symbol), code }),
                    }
                }
            )*
        }
    };
}

entry_points! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    cuDeviceCanAccessPeer(can_access: *mut c_int, device: CUdevice, peer: CUdevice);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuCtxGetCurrent(context: *mut CUcontext);
    cuCtxSetCurrent(context: CUcontext);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytes: usize);
    cuMemFree_v2(pointer: CUdeviceptr);
    cuMemAllocFromPoolAsync(
        pointer: *mut CUdeviceptr,
        bytes: usize,
        pool: CUmemoryPool,
        stream: CUstream,
    );
    cuMemFreeAsync(pointer: CUdeviceptr, stream: CUstream);
    cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps);
    cuMemPoolDestroy(pool: CUmemoryPool);
    cuMemPoolSetAttribute(
        pool: CUmemoryPool,
        attribute: CUmemPool_attribute,
        value: *mut c_void,
    );
    cuMemPoolGetAttribute(
        pool: CUmemoryPool,
        attribute: CUmemPool_attribute,
        value: *mut c_void,
    );
    cuMemPoolSetAccess(pool: CUmemoryPool, access: *const CUmemAccessDesc, count: usize);
    cuMemPoolTrimTo(pool: CUmemoryPool, keep_bytes: usize);
    cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(pointer: *mut c_void);
    cuMemcpyHtoDAsync_v2(
        destination: CUdeviceptr,
        source: *const c_void,
        bytes: usize,
        stream: CUstream,
    );
    cuMemcpyDtoHAsync_v2(
        destination: *mut c_void,
        source: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    );
    cuMemcpyDtoDAsync_v2(
        destination: CUdeviceptr,
        source: CUdeviceptr,
        bytes: usize,
        stream: CUstream,
    );
    cuMemcpyPeerAsync(
        destination: CUdeviceptr,
        destination_context: CUcontext,
        source: CUdeviceptr,
        source_context: CUcontext,
        bytes: usize,
        stream: CUstream,
    );
    cuMemsetD8Async(destination: CUdeviceptr, value: c_uchar, bytes: usize, stream: CUstream);
    cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    cuStreamDestroy_v2(stream: CUstream);
    cuStreamSynchronize(stream: CUstream);
    cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode);
    cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    cuEventCreate(event: *mut CUevent, flags: c_uint);
    cuEventRecord(event: CUevent, stream: CUstream);
    cuEventQuery(event: CUevent);
    cuEventSynchronize(event: CUevent);
    cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    cuEventDestroy_v2(event: CUevent);
    cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    cuGraphUpload(executable: CUgraphExec, stream: CUstream);
    cuGraphLaunch(executable: CUgraphExec, stream: CUstream);
    cuGraphExecDestroy(executable: CUgraphExec);
    cuGraphDestroy(graph: CUgraph);
    cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        num_options: c_uint,
        options: *mut CUjit_option,
        option_values: *mut *mut c_void,
    );
    cuModuleUnload(module: CUmodule);
    cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
    cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
    cuLaunchCooperativeKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
    );
    cuOccupancyMaxActiveBlocksPerMultiprocessor(
        num_blocks: *mut c_int,
        function: CUfunction,
        block_size: c_int,
        shared_bytes: usize,
    );
}

/// One symbol, copied out of the library.
///
/// # Safety
/// The symbol must have the type `F`, and the library must outlive the value.
unsafe fn find<F: Copy>(library: &Library, symbol: &'static str) -> Result<F, &'static str> {
    // SAFETY: passed on to the caller.
    unsafe { library.get::<F>(symbol.as_bytes()) }
        .map(|found| *found)
        .map_err(|_| symbol)
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

impl Driver {
    /// The driver of this machine: loaded, checked and initialised once a process. A failure is not
    /// remembered, so a later call tries again.
    pub(crate) fn get() -> Result<&'static Self, DeviceError> {
        static READY: OnceLock<()> = OnceLock::new();
        let driver = Self::loaded()?;
        if READY.get().is_none() {
            driver.initialize()?;
            READY.get_or_init(|| ());
        }
        Ok(driver)
    }

    /// The driver of this machine, loaded once a process and maybe not initialised, which takes far longer.
    pub(crate) fn loaded() -> Result<&'static Self, DeviceError> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        let driver = Self::load(LIBRARY_NAMES)?;
        Ok(DRIVER.get_or_init(|| driver))
    }

    /// Opens the first of the named libraries that has every entry point.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`] with each name and its reason.
    pub(crate) fn load(names: &[&str]) -> Result<Self, DeviceError> {
        let mut tried = Vec::new();
        for name in names {
            // SAFETY: opening the CUDA driver runs its initialisers, which ask nothing of the
            // process; the names are constants of this crate.
            match unsafe { Library::new(*name) } {
                Err(error) => tried.push(format!("{name}: {error}")),
                Ok(library) => match Self::resolve(library) {
                    Ok(driver) => return Ok(driver),
                    Err(symbol) => tried.push(format!("{name}: it has no symbol {symbol}")),
                },
            }
        }
        Err(DeviceError::NoDriver { tried })
    }

    /// The version, if it is not too old.
    pub(crate) fn checked_version(&self) -> Result<DriverVersion, DeviceError> {
        let found = self.version().map_err(|error| self.error(error, &[]))?;
        if found < NEEDED_VERSION {
            return Err(DeviceError::DriverTooOld {
                found,
                needed: NEEDED_VERSION,
            });
        }
        Ok(found)
    }

    /// Checks the version, then initialises the driver.
    pub(crate) fn initialize(&self) -> Result<(), DeviceError> {
        self.checked_version()?;
        // SAFETY: the only flags the driver knows are none.
        unsafe { self.cuInit(0) }.map_err(|error| match error.code {
            code::NO_DEVICE => DeviceError::NoDevice,
            code::STUB_LIBRARY
            | code::SYSTEM_NOT_READY
            | code::SYSTEM_DRIVER_MISMATCH
            | code::COMPAT_NOT_SUPPORTED => DeviceError::NoDriver {
                tried: vec![format!(
                    "the CUDA driver library: {}",
                    self.text(error.code)
                )],
            },
            _ => self.error(error, &[]),
        })
    }

    /// The CUDA version that the driver supports.
    pub(crate) fn version(&self) -> Result<DriverVersion, CallError> {
        let mut raw = 0;
        // SAFETY: the pointer is to a live integer; the call needs no initialised driver.
        unsafe { self.cuDriverGetVersion(&mut raw)? };
        Ok(DriverVersion::from_raw(raw))
    }

    /// The driver's name and description of an error code.
    fn describe(&self, code: u32) -> (String, String) {
        let text = |get: GetErrorText, otherwise: &str| {
            let mut pointer = std::ptr::null();
            // SAFETY: the pointer is to a live pointer. On success the driver sets it to a
            // NUL-terminated string of its own that is never freed; an unknown code leaves it null.
            unsafe {
                if get(code, &mut pointer) == code::SUCCESS && !pointer.is_null() {
                    CStr::from_ptr(pointer).to_string_lossy().into_owned()
                } else {
                    otherwise.to_owned()
                }
            }
        };
        (
            text(self.cuGetErrorName, "an error unknown to this driver"),
            text(self.cuGetErrorString, "no description"),
        )
    }

    /// Name, number and description in one line.
    pub(crate) fn text(&self, code: u32) -> String {
        let (name, message) = self.describe(code);
        format!("{name} ({code}): {message}")
    }

    /// The typed error of a failed call; `kernels` are those enqueued last, newest first.
    pub(crate) fn error(&self, error: CallError, kernels: &[&'static str]) -> DeviceError {
        let CallError { call, code } = error;
        let (name, message) = self.describe(code);
        if code::is_asynchronous(code) {
            DeviceError::Asynchronous {
                call,
                code,
                name,
                message,
                kernels: kernels.to_vec(),
            }
        } else {
            DeviceError::Driver {
                call,
                code,
                name,
                message,
            }
        }
    }
}
