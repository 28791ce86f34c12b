//! The CUDA backend: a device's primary context, its memory pool and its loaded kernels.
//!
//! A kernel is compiled by the driver when it is first needed, as a module of its own that is cut out of the PTX.
//!
//! Every call first makes the context current on the calling thread. Nothing here is timed or
//! tracked implicitly: the only events are those that the user records, and those of pinned
//! transfers.

mod driver;
#[cfg(test)]
mod fake;
mod image;
mod staging;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use cudarc::driver::sys::{
    self, CUdevice, CUdevice_attribute as Attribute, CUdeviceptr, CUfunction_attribute,
    CUjit_option, CUmemPool_attribute,
};
use luge_kernel::host::{Binaries, BufferBase, KernelArg, KernelDesc, KernelModule, LaunchConfig};

pub(crate) use self::driver::CallError;
use self::driver::{Driver, code};
use self::image::Image;
pub(crate) use self::staging::LEAST_STAGED;
use self::staging::Staging;
use crate::error::{ComputeCapability, DeviceError, DriverVersion, LaunchLimit};
use crate::properties::{Backend, LoadedModule, MemoryInfo, Properties};

/// The oldest architecture that the kernels are built for (sm_80).
const NEEDED_CAPABILITY: ComputeCapability = ComputeCapability { major: 8, minor: 0 };

/// `CU_STREAM_NON_BLOCKING`: no implicit order against the legacy default stream.
const STREAM_NON_BLOCKING: u32 = 1;

/// `CU_EVENT_DISABLE_TIMING`.
const EVENT_WITHOUT_TIME: u32 = 2;

/// Bytes of the buffer for the driver's compiler log.
const LOG_BYTES: usize = 16 * 1024;

/// Most threads that have the driver compile kernels side by side.
const MOST_COMPILING: usize = 16;

/// A pointer that the driver gave out: an opaque handle of a context, stream, event, module,
/// function, pool or graph, which may be used from any thread in which the context is current, or
/// page-locked host memory, whose owner orders the accesses.
pub(crate) struct Handle<T>(*mut T);

impl<T> Handle<T> {
    pub(crate) fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    pub(crate) fn pointer(self) -> *mut T {
        self.0
    }

    /// # Safety
    ///
    /// It is one of the context that it is used with, and alive as long as that is done.
    pub(crate) unsafe fn from_pointer(pointer: *mut T) -> Self {
        Self(pointer)
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: an opaque handle is followed by the driver alone, whose functions are thread-safe for it;
// memory is plain numbers that `PinnedBuffer` lends as `&[T]` and `&mut [T]`.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

/// A stream of the driver.
pub(crate) type StreamHandle = Handle<sys::CUstream_st>;
/// An event of the driver.
pub(crate) type EventHandle = Handle<sys::CUevent_st>;
/// An executable graph of the driver.
pub(crate) type GraphHandle = Handle<sys::CUgraphExec_st>;

/// A loaded kernel.
struct Function {
    /// The driver's module, which holds this kernel alone.
    module: Handle<sys::CUmod_st>,
    handle: Handle<sys::CUfunc_st>,
    /// Threads a block may have with the registers the kernel needs.
    max_threads: u32,
    /// Bytes of shared memory declared in the kernel.
    static_shared_bytes: u32,
    /// Bytes of dynamic shared memory that the kernel was allowed so far.
    dynamic_shared_bytes: AtomicU32,
    /// Held by who raises that allowance.
    raising: Mutex<()>,
}

/// A kernel of an image, loaded or not.
#[derive(Default)]
struct Slot {
    function: OnceLock<Arc<Function>>,
    /// Held by who loads the kernel, so that nobody else does.
    loading: Mutex<()>,
}

/// A module of which kernels are asked for.
struct Module {
    name: &'static str,
    /// The target of the image.
    sm: u32,
    image: Image<'static>,
    /// Those that the device runs.
    binaries: Option<&'static Binaries>,
    /// One for each entry of the image.
    kernels: Vec<Slot>,
    clock: Mutex<LoadClock>,
}

/// Measures the time in which at least one kernel of a module is being loaded.
#[derive(Default)]
struct LoadClock {
    running: usize,
    since: Option<Instant>,
    seconds: f64,
}

impl LoadClock {
    fn start(&mut self) {
        if self.running == 0 {
            self.since = Some(Instant::now());
        }
        self.running += 1;
    }

    fn stop(&mut self) {
        self.running -= 1;
        if self.running == 0
            && let Some(since) = self.since.take()
        {
            self.seconds += since.elapsed().as_secs_f64();
        }
    }
}

impl Module {
    /// Takes the newest image that a device of this capability can run.
    fn new(
        module: &'static KernelModule,
        capability: ComputeCapability,
    ) -> Result<Self, DeviceError> {
        let image = module
            .images
            .iter()
            .filter(|image| image.sm <= capability.sm())
            .max_by_key(|image| image.sm)
            .ok_or_else(|| DeviceError::NoImage {
                module: module.name,
                compute_capability: capability,
                images: module.images.iter().map(|image| image.sm).collect(),
            })?;
        let sm = image.sm;
        let runs_binaries = sm / 10 == capability.sm() / 10;
        let binaries = image.binaries.as_ref().filter(|_| runs_binaries);
        let text = module.ptx(image, image::decompressed);
        let text = text.ok_or(DeviceError::CorruptImage {
            module: module.name,
            sm,
        })?;
        let image = Image::new(text);
        Ok(Self {
            name: module.name,
            sm,
            kernels: (0..image.len()).map(|_| Slot::default()).collect(),
            image,
            binaries,
            clock: Mutex::default(),
        })
    }

    fn clock(&self) -> MutexGuard<'_, LoadClock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a kernel of this module.
    fn find(&self, kernel: &'static KernelDesc) -> Result<usize, DeviceError> {
        self.image
            .find(kernel.name)
            .ok_or(DeviceError::UnknownKernel {
                kernel: kernel.name,
                module: self.name,
            })
    }

    fn is_loaded(&self, entry: usize) -> bool {
        self.kernels[entry].function.get().is_some()
    }
}

/// A kernel to load: its module, name and number there.
struct Wanted {
    module: Arc<Module>,
    name: &'static str,
    entry: usize,
}

/// The driver refuses the code of a kernel.
fn refused(kernel: &Wanted, message: String, log: String) -> DeviceError {
    DeviceError::ModuleLoad {
        kernel: kernel.name,
        module: kernel.module.name,
        sm: kernel.module.sm,
        message,
        log,
    }
}

/// The version of the driver, which is not initialised for that.
pub(crate) fn driver_version() -> Result<DriverVersion, DeviceError> {
    Driver::loaded()?.checked_version()
}

/// The number of devices that the driver sees.
pub(crate) fn device_count() -> Result<usize, DeviceError> {
    match Driver::get() {
        Ok(driver) => count(driver),
        Err(DeviceError::NoDevice) => Ok(0),
        Err(error) => Err(error),
    }
}

fn count(driver: &Driver) -> Result<usize, DeviceError> {
    let mut count = 0;
    // SAFETY: the driver is initialised; the pointer is to a live integer.
    match unsafe { driver.cuDeviceGetCount(&mut count) } {
        Ok(()) => Ok(usize::try_from(count).unwrap_or(0)),
        Err(error) if error.code == code::NO_DEVICE => Ok(0),
        Err(error) => Err(driver.error(error, &[])),
    }
}

/// A device's primary context.
pub(crate) struct Context {
    driver: &'static Driver,
    device: CUdevice,
    context: Handle<sys::CUctx_st>,
    pool: Option<Handle<sys::CUmemPoolHandle_st>>,
    num_sms: u32,
    capability: ComputeCapability,
    shared_bytes_per_block: u32,
    max_shared_bytes_per_block: u32,
    /// By the address of the static description. Not locked while the driver compiles.
    modules: Mutex<HashMap<usize, Arc<Module>>>,
    /// Page-locked blocks of [`SMALL_PINNED`] bytes that nobody uses.
    spare_pinned: Mutex<Vec<Handle<c_void>>>,
    /// What copies from pageable memory go through, while nobody uses it.
    spare_staging: Mutex<Vec<Staging>>,
    /// The devices that were asked whether they reach the memory of the pool, and given access if so.
    peers: Mutex<Vec<CUdevice>>,
}

/// Bytes of the page-locked blocks that are kept for later: to lock a page takes the driver a millisecond.
const SMALL_PINNED: usize = 4096;

/// Most blocks that are kept.
const MOST_SPARE_PINNED: usize = 256;

impl Context {
    /// Opens a device: driver, device, primary context, memory pool.
    pub(crate) fn open(ordinal: usize) -> Result<(Self, Properties), DeviceError> {
        Self::open_with(Driver::get()?, ordinal)
    }

    fn open_with(
        driver: &'static Driver,
        ordinal: usize,
    ) -> Result<(Self, Properties), DeviceError> {
        let fail = |error| driver.error(error, &[]);
        let count = count(driver)?;
        if count == 0 {
            return Err(DeviceError::NoDevice);
        }
        if ordinal >= count {
            return Err(DeviceError::InvalidDevice { ordinal, count });
        }
        let mut device: CUdevice = 0;
        // SAFETY: the ordinal is below the count, which is a `c_int`.
        unsafe { driver.cuDeviceGet(&mut device, ordinal as c_int) }.map_err(fail)?;

        let properties = read_properties(driver, device, ordinal).map_err(fail)?;
        if properties.compute_capability < NEEDED_CAPABILITY {
            return Err(DeviceError::UnsupportedDevice {
                name: properties.name,
                compute_capability: properties.compute_capability,
                needed: NEEDED_CAPABILITY,
            });
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: the device is valid; the matching release is in `drop`.
        unsafe { driver.cuDevicePrimaryCtxRetain(&mut context, device) }.map_err(fail)?;
        // From here on `drop` gives back what was taken.
        let mut this = Self {
            driver,
            device,
            context: Handle(context),
            pool: None,
            num_sms: properties.num_sms,
            capability: properties.compute_capability,
            shared_bytes_per_block: properties.shared_bytes_per_block,
            max_shared_bytes_per_block: properties.max_shared_bytes_per_block,
            modules: Mutex::new(HashMap::new()),
            spare_pinned: Mutex::default(),
            spare_staging: Mutex::default(),
            peers: Mutex::default(),
        };
        this.bind().map_err(fail)?;
        if properties.stream_ordered_memory {
            this.pool = Some(this.create_pool().map_err(fail)?);
        }
        Ok((this, properties))
    }

    /// Makes the context current on this thread.
    fn bind(&self) -> Result<(), CallError> {
        let mut current = std::ptr::null_mut();
        // SAFETY: the pointer is to a live pointer; the context is retained while `self` lives.
        unsafe {
            self.driver.cuCtxGetCurrent(&mut current)?;
            if current != self.context.0 {
                self.driver.cuCtxSetCurrent(self.context.0)?;
            }
        }
        Ok(())
    }

    /// A pool of this context's own that keeps what is freed, so that the next allocation of the
    /// size is cheap.
    fn create_pool(&self) -> Result<Handle<sys::CUmemPoolHandle_st>, CallError> {
        let properties = sys::CUmemPoolProps {
            allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: self.device,
            },
            win32SecurityAttributes: std::ptr::null_mut(),
            reserved: [0; 64],
        };
        let mut pool = std::ptr::null_mut();
        let mut threshold = u64::MAX;
        // SAFETY: both pointers are to live values; the threshold is a 64-bit number as the driver
        // documents for this attribute.
        unsafe {
            self.driver.cuMemPoolCreate(&mut pool, &properties)?;
            let set = self.driver.cuMemPoolSetAttribute(
                pool,
                CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut threshold).cast(),
            );
            if let Err(error) = set {
                // The first error is the one to report.
                let _ = self.driver.cuMemPoolDestroy(pool);
                return Err(error);
            }
        }
        Ok(Handle(pool))
    }

    /// The typed error of a failed call; `kernels` are those enqueued last, newest first.
    pub(crate) fn error(&self, error: CallError, kernels: &[&'static str]) -> DeviceError {
        self.driver.error(error, kernels)
    }

    /// Free and total memory; what the pool holds unused counts as free.
    pub(crate) fn memory_info(&self) -> Result<MemoryInfo, CallError> {
        self.bind()?;
        let (mut free, mut total) = (0_usize, 0_usize);
        // SAFETY: the pointers are to live integers.
        unsafe { self.driver.cuMemGetInfo_v2(&mut free, &mut total)? };
        let mut unused = 0;
        if let Some(pool) = self.pool {
            let read = |attribute| {
                let mut value = 0_u64;
                // SAFETY: the pool is alive; both attributes read are 64-bit numbers.
                unsafe {
                    self.driver.cuMemPoolGetAttribute(
                        pool.0,
                        attribute,
                        (&raw mut value).cast(),
                    )?;
                }
                Ok(value)
            };
            let reserved = read(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
            let used = read(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
            unused = reserved.saturating_sub(used);
        }
        Ok(MemoryInfo {
            free: free as u64 + unused,
            total: total as u64,
        })
    }

    /// Memory of `bytes` > 0 bytes, in the order of the stream.
    pub(crate) fn allocate(
        &self,
        bytes: usize,
        stream: StreamHandle,
        kernels: &[&'static str],
    ) -> Result<CUdeviceptr, DeviceError> {
        let fail = |error| self.error(error, kernels);
        self.bind().map_err(fail)?;
        let attempt = || {
            let mut pointer: CUdeviceptr = 0;
            // SAFETY: the pointer is to a live integer, the stream and the pool belong to the
            // context.
            unsafe {
                match self.pool {
                    Some(pool) => self.driver.cuMemAllocFromPoolAsync(
                        &mut pointer,
                        bytes,
                        pool.0,
                        stream.0,
                    )?,
                    None => self.driver.cuMemAlloc_v2(&mut pointer, bytes)?,
                }
            }
            Ok(pointer)
        };
        let error: CallError = match attempt() {
            Ok(pointer) => return Ok(pointer),
            Err(error) => error,
        };
        if error.code != code::OUT_OF_MEMORY {
            return Err(fail(error));
        }
        // What was freed may still wait for the stream, or lie in the pool in pieces of other sizes.
        if let Some(pool) = self.pool {
            self.synchronize(stream).map_err(fail)?;
            // SAFETY: the pool is alive.
            unsafe { self.driver.cuMemPoolTrimTo(pool.0, 0) }.map_err(fail)?;
            match attempt() {
                Ok(pointer) => return Ok(pointer),
                Err(error) if error.code != code::OUT_OF_MEMORY => return Err(fail(error)),
                Err(_) => {}
            }
        }
        Err(DeviceError::OutOfMemory {
            asked: bytes as u64,
            available: self.memory_info().map_err(fail)?.free,
        })
    }

    /// Frees memory of [`Context::allocate`], in the order of the stream.
    pub(crate) fn free(&self, pointer: CUdeviceptr, stream: StreamHandle) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: the pointer is from `allocate` and is freed once, by its owner.
        unsafe {
            match self.pool {
                Some(_) => self.driver.cuMemFreeAsync(pointer, stream.0),
                None => self.driver.cuMemFree_v2(pointer),
            }
        }
    }

    /// Page-locked host memory of `bytes` > 0 bytes, in any state.
    pub(crate) fn allocate_pinned(&self, bytes: usize) -> Result<*mut c_void, DeviceError> {
        if bytes <= SMALL_PINNED
            && let Some(spare) = self.spare_pinned().pop()
        {
            return Ok(spare.pointer());
        }
        self.bind().map_err(|error| self.error(error, &[]))?;
        let mut pointer = std::ptr::null_mut();
        let rounded = bytes.max(SMALL_PINNED);
        // SAFETY: the pointer is to a live pointer; no flags.
        unsafe { self.driver.cuMemHostAlloc(&mut pointer, rounded, 0) }.map_err(
            |error| match error.code {
                code::OUT_OF_MEMORY => DeviceError::OutOfHostMemory {
                    asked: bytes as u64,
                },
                _ => self.error(error, &[]),
            },
        )?;
        Ok(pointer)
    }

    /// Takes back memory of an [`allocate_pinned`](Self::allocate_pinned) of `bytes` bytes, for later.
    ///
    /// # Safety
    /// The memory is given back once, and no transfer uses it any more.
    pub(crate) unsafe fn recycle_pinned(
        &self,
        pointer: *mut c_void,
        bytes: usize,
    ) -> Result<(), CallError> {
        if bytes <= SMALL_PINNED {
            let mut spares = self.spare_pinned();
            if spares.len() < MOST_SPARE_PINNED {
                spares.push(Handle::new(pointer));
                return Ok(());
            }
        }
        // SAFETY: passed on to the caller.
        unsafe { self.release_pinned(pointer) }
    }

    /// Frees memory of an [`allocate_pinned`](Self::allocate_pinned).
    ///
    /// # Safety
    /// The memory is freed once, and no transfer uses it any more.
    pub(crate) unsafe fn release_pinned(&self, pointer: *mut c_void) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: passed on to the caller.
        unsafe { self.driver.cuMemFreeHost(pointer) }
    }

    fn spare_pinned(&self) -> MutexGuard<'_, Vec<Handle<c_void>>> {
        self.spare_pinned
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn spare_staging(&self) -> MutexGuard<'_, Vec<Staging>> {
        self.spare_staging
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn create_stream(&self) -> Result<StreamHandle, CallError> {
        self.bind()?;
        let mut stream = std::ptr::null_mut();
        // SAFETY: the pointer is to a live pointer.
        unsafe {
            self.driver
                .cuStreamCreate(&mut stream, STREAM_NON_BLOCKING)?
        };
        Ok(Handle(stream))
    }

    /// Destroys the stream; what was enqueued still runs to its end.
    pub(crate) fn destroy_stream(&self, stream: StreamHandle) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: the stream is destroyed once, by its owner.
        unsafe { self.driver.cuStreamDestroy_v2(stream.0) }
    }

    pub(crate) fn synchronize(&self, stream: StreamHandle) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: the stream is alive.
        unsafe { self.driver.cuStreamSynchronize(stream.0) }
    }

    pub(crate) fn create_event(&self, is_timed: bool) -> Result<EventHandle, CallError> {
        self.bind()?;
        let mut event = std::ptr::null_mut();
        let flags = if is_timed { 0 } else { EVENT_WITHOUT_TIME };
        // SAFETY: the pointer is to a live pointer.
        unsafe { self.driver.cuEventCreate(&mut event, flags)? };
        Ok(Handle(event))
    }

    pub(crate) fn destroy_event(&self, event: EventHandle) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: the event is destroyed once, by its owner.
        unsafe { self.driver.cuEventDestroy_v2(event.0) }
    }

    pub(crate) fn record(&self, event: EventHandle, stream: StreamHandle) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: both are alive and of this context.
        unsafe { self.driver.cuEventRecord(event.0, stream.0) }
    }

    pub(crate) fn wait(&self, stream: StreamHandle, event: EventHandle) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: both are alive and of this context.
        unsafe { self.driver.cuStreamWaitEvent(stream.0, event.0, 0) }
    }

    /// Whether the work recorded by the event is done.
    pub(crate) fn is_complete(&self, event: EventHandle) -> Result<bool, CallError> {
        self.bind()?;
        // SAFETY: the event is alive.
        match unsafe { self.driver.cuEventQuery(event.0) } {
            Ok(()) => Ok(true),
            Err(error) if error.code == code::NOT_READY => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn synchronize_event(&self, event: EventHandle) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: the event is alive.
        unsafe { self.driver.cuEventSynchronize(event.0) }
    }

    pub(crate) fn elapsed_ms(
        &self,
        start: EventHandle,
        end: EventHandle,
    ) -> Result<f32, CallError> {
        self.bind()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive and of this context; the pointer is to a live number.
        unsafe {
            self.driver
                .cuEventElapsedTime(&mut milliseconds, start.0, end.0)?;
        }
        Ok(milliseconds)
    }

    /// Enqueues a copy from the host.
    ///
    /// # Safety
    /// The source is readable and unchanged, and the destination is alive, until the copy is done.
    pub(crate) unsafe fn copy_to_device(
        &self,
        destination: CUdeviceptr,
        source: &[u8],
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: passed on to the caller.
        unsafe {
            self.driver.cuMemcpyHtoDAsync_v2(
                destination,
                source.as_ptr().cast(),
                source.len(),
                stream.0,
            )
        }
    }

    /// Enqueues a copy to the host.
    ///
    /// # Safety
    /// The destination is writable and not looked at, and the source is alive, until the copy is
    /// done.
    pub(crate) unsafe fn copy_to_host(
        &self,
        destination: *mut u8,
        source: CUdeviceptr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: passed on to the caller.
        unsafe {
            self.driver
                .cuMemcpyDtoHAsync_v2(destination.cast(), source, bytes, stream.0)
        }
    }

    /// Enqueues a copy within the device.
    ///
    /// # Safety
    /// Both ranges are alive until the copy is done.
    pub(crate) unsafe fn copy(
        &self,
        destination: CUdeviceptr,
        source: CUdeviceptr,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: passed on to the caller.
        unsafe {
            self.driver
                .cuMemcpyDtoDAsync_v2(destination, source, bytes, stream.0)
        }
    }

    /// Enqueues a copy between two devices of one host, one of which is this one.
    ///
    /// # Safety
    /// Both ranges are alive until the copy is done, each in memory of its context.
    pub(crate) unsafe fn copy_between(
        &self,
        (to, destination): (&Self, CUdeviceptr),
        (from, source): (&Self, CUdeviceptr),
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        to.give_access(self)?;
        from.give_access(self)?;
        self.bind()?;
        // SAFETY: passed on to the caller; both contexts are retained.
        unsafe {
            self.driver.cuMemcpyPeerAsync(
                destination,
                to.context.0,
                source,
                from.context.0,
                bytes,
                stream.0,
            )
        }
    }

    /// Lets another device reach the memory of the pool, if the two can. If they cannot, the driver copies through the
    /// host.
    fn give_access(&self, peer: &Self) -> Result<(), CallError> {
        let (Some(pool), true) = (self.pool, self.device != peer.device) else {
            return Ok(());
        };
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.contains(&peer.device) {
            return Ok(());
        }
        let mut can_access: c_int = 0;
        let access = sys::CUmemAccessDesc {
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: peer.device,
            },
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the pointers are to live values; the pool is alive.
        unsafe {
            self.driver
                .cuDeviceCanAccessPeer(&mut can_access, peer.device, self.device)?;
            if can_access != 0 {
                self.driver.cuMemPoolSetAccess(pool.0, &access, 1)?;
            }
        }
        peers.push(peer.device);
        Ok(())
    }

    /// Enqueues a fill.
    ///
    /// # Safety
    /// The range is alive until the fill is done.
    pub(crate) unsafe fn fill(
        &self,
        destination: CUdeviceptr,
        value: u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: passed on to the caller.
        unsafe {
            self.driver
                .cuMemsetD8Async(destination, value, bytes, stream.0)
        }
    }

    /// Starts capturing. Relaxed, so that a kernel can be loaded at its first launch.
    pub(crate) fn begin_capture(&self, stream: StreamHandle) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: the stream is alive and not the default stream.
        unsafe {
            self.driver.cuStreamBeginCapture_v2(
                stream.0,
                sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED,
            )
        }
    }

    /// Ends capturing and makes the graph executable; with `discard`, throws it away.
    pub(crate) fn end_capture(
        &self,
        stream: StreamHandle,
        discard: bool,
    ) -> Result<Option<GraphHandle>, CallError> {
        self.bind()?;
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is being captured by this thread, or the driver answers so.
        unsafe { self.driver.cuStreamEndCapture(stream.0, &mut graph)? };
        if graph.is_null() {
            return Ok(None);
        }
        let mut executable = std::ptr::null_mut();
        let instantiated = if discard {
            Ok(())
        } else {
            // SAFETY: the graph is the one just captured; no flags.
            unsafe {
                self.driver
                    .cuGraphInstantiateWithFlags(&mut executable, graph, 0)
            }
        };
        // SAFETY: the graph is destroyed once; the executable one does not refer to it.
        let destroyed = unsafe { self.driver.cuGraphDestroy(graph) };
        instantiated?;
        if discard {
            return destroyed.map(|()| None);
        }
        let executable = Handle(executable);
        // SAFETY: the executable graph and the stream are alive.
        let uploaded =
            destroyed.and_then(|()| unsafe { self.driver.cuGraphUpload(executable.0, stream.0) });
        if let Err(error) = uploaded {
            // The first error is the one to report.
            let _ = self.destroy_graph(executable);
            return Err(error);
        }
        Ok(Some(executable))
    }

    /// Enqueues the graph.
    ///
    /// # Safety
    /// The memory that the graph refers to is alive until the work is done.
    pub(crate) unsafe fn launch_graph(
        &self,
        graph: GraphHandle,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: passed on to the caller.
        unsafe { self.driver.cuGraphLaunch(graph.0, stream.0) }
    }

    pub(crate) fn destroy_graph(&self, graph: GraphHandle) -> Result<(), CallError> {
        self.bind()?;
        // SAFETY: the graph is destroyed once, by its owner.
        unsafe { self.driver.cuGraphExecDestroy(graph.0) }
    }

    /// Loads all kernels of the module that are not loaded yet.
    pub(crate) fn load_module(&self, module: &'static KernelModule) -> Result<(), DeviceError> {
        let module = self.module(module)?;
        let all = module.image.names().map(|(name, entry)| Wanted {
            module: Arc::clone(&module),
            name,
            entry,
        });
        self.load_all(all.collect())
    }

    /// Loads those of the kernels that are not loaded yet.
    pub(crate) fn load_kernels(&self, kernels: &[&'static KernelDesc]) -> Result<(), DeviceError> {
        let wanted: Result<_, _> = kernels.iter().map(|kernel| self.wanted(kernel)).collect();
        self.load_all(wanted?)
    }

    /// The modules of which kernels were loaded so far, in no order.
    pub(crate) fn loaded_modules(&self) -> Vec<LoadedModule> {
        self.modules()
            .values()
            .filter(|module| (0..module.kernels.len()).any(|entry| module.is_loaded(entry)))
            .map(|module| LoadedModule {
                name: module.name,
                sm: module.sm,
                seconds: module.clock().seconds,
            })
            .collect()
    }

    fn modules(&self) -> MutexGuard<'_, HashMap<usize, Arc<Module>>> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The module of this description; its image is picked and cut when it is first asked for.
    fn module(&self, module: &'static KernelModule) -> Result<Arc<Module>, DeviceError> {
        use std::collections::hash_map::Entry;
        match self.modules().entry(std::ptr::from_ref(module).addr()) {
            Entry::Occupied(entry) => Ok(Arc::clone(entry.get())),
            Entry::Vacant(entry) => {
                let module = Arc::new(Module::new(module, self.capability)?);
                Ok(Arc::clone(entry.insert(module)))
            }
        }
    }

    fn wanted(&self, kernel: &'static KernelDesc) -> Result<Wanted, DeviceError> {
        let module = self.module(kernel.module)?;
        let entry = module.find(kernel)?;
        Ok(Wanted {
            module,
            name: kernel.name,
            entry,
        })
    }

    /// Has threads load the kernels side by side. All are tried; the error is that of the longest that fails.
    fn load_all(&self, mut wanted: Vec<Wanted>) -> Result<(), DeviceError> {
        wanted.retain(|Wanted { module, entry, .. }| !module.is_loaded(*entry));
        // The longest take the driver most time, so they go first.
        wanted.sort_by_key(
            |Wanted {
                 module,
                 name,
                 entry,
             }| { (std::cmp::Reverse(module.image.entry_bytes(*entry)), *name) },
        );
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<(usize, DeviceError)>> = Mutex::new(None);
        let work = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(kernel) = wanted.get(i) else { return };
                if let Err(error) = self.load(kernel) {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if failed.as_ref().is_none_or(|&(first, _)| i < first) {
                        *failed = Some((i, error));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..wanted.len().min(MOST_COMPILING) {
                // Without a thread more, those there are do its work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    fn function(&self, kernel: &'static KernelDesc) -> Result<Arc<Function>, DeviceError> {
        self.load(&self.wanted(kernel)?)
    }

    /// The kernel, loaded by this call unless it is already; who wants one that another thread loads waits for that.
    fn load(&self, kernel: &Wanted) -> Result<Arc<Function>, DeviceError> {
        let Wanted { module, entry, .. } = kernel;
        let slot = &module.kernels[*entry];
        if let Some(function) = slot.function.get() {
            return Ok(Arc::clone(function));
        }
        let _loading = slot.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = slot.function.get() {
            return Ok(Arc::clone(function));
        }
        module.clock().start();
        let compiled = self.compile(kernel);
        module.clock().stop();
        let function = Arc::new(compiled?);
        Ok(Arc::clone(slot.function.get_or_init(|| function)))
    }

    /// Takes the binary of the one kernel, or has the driver compile its PTX if there is none that the driver takes.
    fn compile(&self, kernel: &Wanted) -> Result<Function, DeviceError> {
        let Wanted {
            module,
            name,
            entry,
        } = kernel;
        let mut binaries = module
            .binaries
            .into_iter()
            .flat_map(|binaries| binaries.all(image::decompressed_bytes));
        if let Some((_, binary)) = binaries.find(|(of, _)| of == name) {
            // Which are read from an address of their own, as aligned as any number.
            let words: Vec<u64> = binary
                .chunks(size_of::<u64>())
                .map(|chunk| {
                    let mut word = [0; size_of::<u64>()];
                    word[..chunk.len()].copy_from_slice(chunk);
                    u64::from_ne_bytes(word)
                })
                .collect();
            // SAFETY: the binary is whole, and the words live until the call is over.
            match unsafe { self.load_code(kernel, words.as_ptr().cast(), binary.len()) } {
                Ok(function) => return Ok(function),
                Err(error) => tracing::warn!(
                    kernel = name,
                    %error,
                    "the driver refuses a kernel's binary, and compiles its PTX"
                ),
            }
        }
        let text = module
            .image
            .cut(*entry)
            .map_err(|error| refused(kernel, error.to_string(), String::new()))?;
        // SAFETY: the text ends with a NUL, and lives until the call is over.
        unsafe { self.load_code(kernel, text.as_ptr().cast(), text.count_bytes()) }
    }

    /// Loads the code of the one kernel: a binary or PTX.
    ///
    /// # Safety
    ///
    /// The code is a whole binary, or a text that ends with a NUL; its length is for the log alone.
    unsafe fn load_code(
        &self,
        kernel: &Wanted,
        code: *const c_void,
        bytes: usize,
    ) -> Result<Function, DeviceError> {
        self.bind().map_err(|error| self.error(error, &[]))?;
        let start = Instant::now();
        let mut log = vec![0_u8; LOG_BYTES];
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The size travels as a pointer-sized number.
        let mut values: [*mut c_void; 2] = [
            log.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(LOG_BYTES),
        ];
        let mut handle = std::ptr::null_mut();
        // SAFETY: the code is as the caller promises, the two option arrays have the length
        // given, and the log buffer has the size given; all outlive the call.
        let loaded = unsafe {
            self.driver.cuModuleLoadDataEx(
                &mut handle,
                code,
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        loaded.map_err(|error| {
            let log = CStr::from_bytes_until_nul(&log)
                .map(|text| text.to_string_lossy().into_owned())
                .unwrap_or_default();
            refused(kernel, self.driver.text(error.code), log)
        })?;
        let function = self.find_function(Handle(handle), kernel);
        if function.is_err() {
            // The first error is the one to report.
            // SAFETY: the module is loaded, and nothing of it is in use.
            let _ = unsafe { self.driver.cuModuleUnload(handle) };
        }
        tracing::debug!(
            module = kernel.module.name,
            kernel = kernel.name,
            sm = kernel.module.sm,
            bytes,
            seconds = start.elapsed().as_secs_f64(),
            "kernel loaded"
        );
        function
    }

    fn find_function(
        &self,
        module: Handle<sys::CUmod_st>,
        kernel: &Wanted,
    ) -> Result<Function, DeviceError> {
        let fail = |error| self.error(error, &[]);
        let unknown = || DeviceError::UnknownKernel {
            kernel: kernel.name,
            module: kernel.module.name,
        };
        let name = CString::new(kernel.name).map_err(|_| unknown())?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the module is loaded and the name is NUL-terminated.
        unsafe {
            self.driver
                .cuModuleGetFunction(&mut handle, module.0, name.as_ptr())
        }
        .map_err(|error| match error.code {
            code::NOT_FOUND => unknown(),
            _ => fail(error),
        })?;
        let read = |attribute| {
            let mut value = 0;
            // SAFETY: the function belongs to a loaded module; the pointer is to a live integer.
            unsafe {
                self.driver
                    .cuFuncGetAttribute(&mut value, attribute, handle)
            }
            .map(|()| u32::try_from(value).unwrap_or(0))
            .map_err(fail)
        };
        let static_shared_bytes = read(CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        // Without opting in, static and dynamic shared memory share the smaller limit.
        let dynamic_shared_bytes =
            read(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)?.min(
                self.shared_bytes_per_block
                    .saturating_sub(static_shared_bytes),
            );
        Ok(Function {
            module,
            handle: Handle(handle),
            max_threads: read(CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            static_shared_bytes,
            dynamic_shared_bytes: AtomicU32::new(dynamic_shared_bytes),
            raising: Mutex::new(()),
        })
    }

    /// Checks a block's threads and shared memory against the kernel, and allows the kernel as much
    /// dynamic shared memory as the launch wants.
    fn admit(
        &self,
        kernel: &'static KernelDesc,
        function: &Function,
        threads: u64,
        shared_bytes: u32,
    ) -> Result<(), DeviceError> {
        let too_large = |limit, asked, most| DeviceError::TooLarge {
            kernel: kernel.name,
            limit,
            asked,
            most,
        };
        if threads > u64::from(function.max_threads) {
            return Err(too_large(
                LaunchLimit::ThreadsPerBlock,
                threads,
                u64::from(function.max_threads),
            ));
        }
        let shared = u64::from(function.static_shared_bytes) + u64::from(shared_bytes);
        let most = u64::from(
            self.max_shared_bytes_per_block
                .max(self.shared_bytes_per_block),
        );
        if shared > most {
            return Err(too_large(LaunchLimit::SharedBytesPerBlock, shared, most));
        }
        if shared_bytes > function.dynamic_shared_bytes.load(Ordering::Acquire) {
            // Two threads may both raise the allowance; the lock makes the last value written the
            // larger one.
            let _raising = function
                .raising
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if shared_bytes > function.dynamic_shared_bytes.load(Ordering::Acquire) {
                // SAFETY: the function belongs to a loaded module; the value is below the
                // device's limit, which is a `c_int`.
                unsafe {
                    self.driver.cuFuncSetAttribute(
                        function.handle.0,
                        CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                        shared_bytes as c_int,
                    )
                }
                .map_err(|error| self.error(error, &[]))?;
                function
                    .dynamic_shared_bytes
                    .store(shared_bytes, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Blocks of the kernel that can be resident on the whole device together.
    pub(crate) fn max_resident_blocks(
        &self,
        kernel: &'static KernelDesc,
        threads: u32,
        shared_bytes: u32,
    ) -> Result<u32, DeviceError> {
        let function = self.function(kernel)?;
        self.bind().map_err(|error| self.error(error, &[]))?;
        self.admit(kernel, &function, u64::from(threads), shared_bytes)?;
        let mut per_sm = 0;
        // SAFETY: the function belongs to a loaded module; the pointer is to a live integer; the
        // block is at most the kernel's limit.
        unsafe {
            self.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut per_sm,
                function.handle.0,
                threads as c_int,
                shared_bytes as usize,
            )
        }
        .map_err(|error| self.error(error, &[]))?;
        Ok(u32::try_from(per_sm).unwrap_or(0) * self.num_sms)
    }

    /// Enqueues a kernel.
    ///
    /// # Safety
    /// The arguments are the kernel's, the memory they name is alive until the kernel is done, and
    /// the kernel's preconditions hold.
    pub(crate) unsafe fn launch(
        &self,
        stream: StreamHandle,
        kernel: &'static KernelDesc,
        config: &LaunchConfig,
        arguments: &[KernelArg],
        kernels: &[&'static str],
    ) -> Result<(), DeviceError> {
        let function = self.function(kernel)?;
        self.bind().map_err(|error| self.error(error, kernels))?;
        let threads = config.block.iter().map(|&n| u64::from(n)).product();
        self.admit(kernel, &function, threads, config.shared_bytes)?;
        // Aligned as the widest parameter.
        let mut values: Vec<[u64; 2]> = Vec::with_capacity(2 * arguments.len());
        for argument in arguments {
            flatten(argument, &mut values);
        }
        let mut pointers: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| (&raw mut *value).cast())
            .collect();
        let [grid_x, grid_y, grid_z] = config.grid;
        let [block_x, block_y, block_z] = config.block;
        // SAFETY: the caller vouches for the arguments; each pointer is to sixteen live bytes, and
        // the driver copies the parameters before it returns.
        let launched = unsafe {
            if config.cooperative {
                self.driver.cuLaunchCooperativeKernel(
                    function.handle.0,
                    grid_x,
                    grid_y,
                    grid_z,
                    block_x,
                    block_y,
                    block_z,
                    config.shared_bytes,
                    stream.0,
                    pointers.as_mut_ptr(),
                )
            } else {
                self.driver.cuLaunchKernel(
                    function.handle.0,
                    grid_x,
                    grid_y,
                    grid_z,
                    block_x,
                    block_y,
                    block_z,
                    config.shared_bytes,
                    stream.0,
                    pointers.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        };
        launched.map_err(|error| {
            if code::is_asynchronous(error.code) {
                return self.error(error, kernels);
            }
            DeviceError::Launch {
                kernel: kernel.name,
                config: *config,
                message: self.driver.text(error.code),
            }
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Nothing can be reported from here; a context that a fault has broken refuses every call,
        // and the process's end frees all of it.
        if self.bind().is_ok() {
            let modules = self
                .modules
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner);
            for (_, module) in modules.drain() {
                for function in module.kernels.iter().filter_map(|slot| slot.function.get()) {
                    // SAFETY: the module is loaded, and nothing that uses it is left: streams and
                    // graphs keep the device alive.
                    let _ = unsafe { self.driver.cuModuleUnload(function.module.0) };
                }
            }
            for spare in self.spare_pinned().drain(..) {
                // SAFETY: it was allocated, and nobody uses it.
                let _ = unsafe { self.driver.cuMemFreeHost(spare.pointer()) };
            }
            let stagings: Vec<Staging> = self.spare_staging().drain(..).collect();
            for staging in stagings {
                staging.destroy(self);
            }
            if let Some(pool) = self.pool.take() {
                // SAFETY: all memory of the pool was freed, since its owners keep the device alive.
                let _ = unsafe { self.driver.cuMemPoolDestroy(pool.0) };
            }
            // SAFETY: no context is a valid choice; the one that ends here must not stay current.
            let _ = unsafe { self.driver.cuCtxSetCurrent(std::ptr::null_mut()) };
        }
        // SAFETY: the context was retained once in `open_with`.
        let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// Appends what a kernel takes for an argument: a number as its bytes, a buffer as address and
/// length. Each is sixteen bytes of which the driver reads as many, from the first, as the parameter
/// has.
fn flatten(argument: &KernelArg, values: &mut Vec<[u64; 2]>) {
    let pair = |first: [u8; 4], second: [u8; 4]| {
        let [a, b, c, d] = first;
        let [e, f, g, h] = second;
        [u64::from_ne_bytes([a, b, c, d, e, f, g, h]), 0]
    };
    let narrow = |bytes| pair(bytes, [0; 4]);
    let wide = |bytes| [u64::from_ne_bytes(bytes), 0];
    match argument {
        KernelArg::U32(value) => values.push(narrow(value.to_ne_bytes())),
        KernelArg::I32(value) => values.push(narrow(value.to_ne_bytes())),
        KernelArg::F32(value) => values.push(narrow(value.to_ne_bytes())),
        KernelArg::U64(value) => values.push(wide(value.to_ne_bytes())),
        KernelArg::I64(value) => values.push(wide(value.to_ne_bytes())),
        KernelArg::F64(value) => values.push(wide(value.to_ne_bytes())),
        KernelArg::ComplexF32(value) => {
            values.push(pair(value.re.to_ne_bytes(), value.im.to_ne_bytes()));
        }
        KernelArg::ComplexF64(value) => {
            values.push([value.re, value.im].map(|part| u64::from_ne_bytes(part.to_ne_bytes())));
        }
        KernelArg::Buffer {
            base,
            byte_offset,
            len,
            ..
        } => {
            let address = match base {
                BufferBase::Device(address) => address + byte_offset,
                BufferBase::Simulated(_) => unreachable!("the stream checked the arguments"),
            };
            values.push([address, 0]);
            values.push([*len as u64, 0]);
        }
    }
}

fn read_properties(
    driver: &Driver,
    device: CUdevice,
    ordinal: usize,
) -> Result<Properties, CallError> {
    let read = |attribute| {
        let mut value = 0;
        // SAFETY: the device is valid; the pointer is to a live integer.
        unsafe { driver.cuDeviceGetAttribute(&mut value, attribute, device)? };
        Ok(u32::try_from(value).unwrap_or(0))
    };
    let mut name = [0 as c_char; 256];
    let mut total_bytes = 0_usize;
    // SAFETY: the buffer has the length given, and the driver ends the name with a NUL within it.
    let name = unsafe {
        driver.cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, device)?;
        driver.cuDeviceTotalMem_v2(&mut total_bytes, device)?;
        CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
    };
    Ok(Properties {
        name,
        backend: Backend::Cuda,
        ordinal,
        compute_capability: ComputeCapability {
            major: read(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            minor: read(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        },
        driver_version: Some(driver.version()?),
        num_sms: read(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        max_threads_per_block: read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        max_threads_per_sm: read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        max_block: [
            read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        max_grid: [
            read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        shared_bytes_per_block: read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
        max_shared_bytes_per_block: read(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?,
        shared_bytes_per_sm: read(
            Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        )?,
        registers_per_sm: read(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        l2_bytes: u64::from(read(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        total_bytes: total_bytes as u64,
        cooperative_launch: read(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? != 0,
        stream_ordered_memory: read(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0,
    })
}
