//! A device: what the kernels run on, its memory account, its modules.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use luge_kernel::host::{KernelDesc, KernelModule};
use luge_kernel::mem::Element;

use crate::accounting::Accounting;
use crate::cuda;
use crate::error::{DeviceError, DriverVersion, LaunchLimit};
use crate::event::Event;
use crate::memory::Memory;
use crate::pinned::PinnedBuffer;
use crate::properties::{LoadedModule, MemoryInfo, Properties, Transfers};
use crate::simulator::SimulatorOptions;
use crate::stream::Stream;

pub(crate) enum DeviceBackend {
    Cuda(cuda::Context),
    #[cfg_attr(
        not(feature = "simulator"),
        expect(dead_code, reason = "only `Device::simulator` makes it")
    )]
    Simulator(SimulatorOptions),
}

pub(crate) struct DeviceInner {
    pub(crate) properties: Properties,
    pub(crate) accounting: Accounting,
    pub(crate) transfers: Mutex<Transfers>,
    pub(crate) backend: DeviceBackend,
    /// Memory by its key (see `Memory::key`), so that a graph can keep what its launches refer to.
    live: Mutex<HashMap<u64, Weak<Memory>>>,
    start_seconds: f64,
}

impl DeviceInner {
    fn new(
        backend: DeviceBackend,
        properties: Properties,
        capacity: u64,
        start_seconds: f64,
    ) -> Self {
        Self {
            properties,
            accounting: Accounting::new(capacity),
            transfers: Mutex::default(),
            backend,
            live: Mutex::default(),
            start_seconds,
        }
    }

    pub(crate) fn register(&self, key: u64, memory: &Arc<Memory>) {
        self.live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, Arc::downgrade(memory));
    }

    pub(crate) fn unregister(&self, key: u64) {
        self.live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&key);
    }

    /// The memory of this key, unless it is being freed.
    pub(crate) fn find(&self, key: u64) -> Option<Arc<Memory>> {
        self.live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)?
            .upgrade()
    }

    pub(crate) fn count_transfer(&self, to_device: u64, to_host: u64, seconds: f64) {
        let mut transfers = self
            .transfers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        transfers.to_device_bytes += to_device;
        transfers.to_host_bytes += to_host;
        transfers.seconds += seconds;
    }

    pub(crate) fn max_resident_blocks(
        &self,
        kernel: &'static KernelDesc,
        block_size: u32,
        shared_bytes: u32,
    ) -> Result<u32, DeviceError> {
        let most = kernel
            .max_threads
            .min(self.properties.max_threads_per_block);
        if block_size == 0 || block_size > most {
            return Err(DeviceError::TooLarge {
                kernel: kernel.name,
                limit: LaunchLimit::ThreadsPerBlock,
                asked: u64::from(block_size),
                most: u64::from(most),
            });
        }
        match &self.backend {
            DeviceBackend::Cuda(context) => {
                context.max_resident_blocks(kernel, block_size, shared_bytes)
            }
            DeviceBackend::Simulator(options) => Ok(options.max_resident_blocks(block_size)),
        }
    }
}

/// A GPU or the simulator. Cloning gives another handle to the same device.
#[derive(Clone)]
pub struct Device {
    pub(crate) inner: Arc<DeviceInner>,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("properties", &self.inner.properties)
            .field("allocated_bytes", &self.allocated_bytes())
            .finish_non_exhaustive()
    }
}

impl Device {
    /// Opens the GPU of this number.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`], [`DeviceError::DriverTooOld`], [`DeviceError::NoDevice`],
    /// [`DeviceError::InvalidDevice`], [`DeviceError::UnsupportedDevice`], or
    /// [`DeviceError::Driver`] for what else the driver may refuse.
    pub fn cuda(ordinal: usize) -> Result<Self, DeviceError> {
        Self::from_context(|| cuda::Context::open(ordinal))
    }

    pub(crate) fn from_context(
        open: impl FnOnce() -> Result<(cuda::Context, Properties), DeviceError>,
    ) -> Result<Self, DeviceError> {
        let start = Instant::now();
        let (context, properties) = open()?;
        let seconds = start.elapsed().as_secs_f64();
        tracing::debug!(name = properties.name, seconds, "device opened");
        Ok(Self {
            inner: Arc::new(DeviceInner::new(
                DeviceBackend::Cuda(context),
                properties,
                u64::MAX,
                seconds,
            )),
        })
    }

    /// A simulated device. Exists with the feature `simulator`.
    #[cfg(feature = "simulator")]
    pub fn simulator(options: SimulatorOptions) -> Self {
        let properties = options.properties();
        let capacity = options.total_bytes;
        Self {
            inner: Arc::new(DeviceInner::new(
                DeviceBackend::Simulator(options),
                properties,
                capacity,
                0.0,
            )),
        }
    }

    /// The CUDA version that the driver of this machine supports. Loads the driver, and starts no GPU, which takes far
    /// longer.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`], [`DeviceError::DriverTooOld`].
    pub fn cuda_driver() -> Result<DriverVersion, DeviceError> {
        cuda::driver_version()
    }

    /// The GPUs that the driver sees.
    ///
    /// # Errors
    /// [`DeviceError::NoDriver`], [`DeviceError::DriverTooOld`]; no GPU is not an error here.
    pub fn cuda_count() -> Result<usize, DeviceError> {
        cuda::device_count()
    }

    /// Whether two handles are of the same device, opened once.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The device's name, limits and sizes.
    pub fn properties(&self) -> &Properties {
        &self.inner.properties
    }

    /// Free and total device memory. Free memory is what the device has, whatever the budget.
    ///
    /// # Errors
    /// The driver's.
    pub fn memory(&self) -> Result<MemoryInfo, DeviceError> {
        match &self.inner.backend {
            DeviceBackend::Cuda(context) => context
                .memory_info()
                .map_err(|error| context.error(error, &[])),
            DeviceBackend::Simulator(options) => Ok(MemoryInfo {
                free: options
                    .total_bytes
                    .saturating_sub(self.inner.accounting.current()),
                total: options.total_bytes,
            }),
        }
    }

    /// Bytes of the buffers and arenas alive, as they were asked for.
    pub fn allocated_bytes(&self) -> u64 {
        self.inner.accounting.current()
    }

    /// The most that [`Device::allocated_bytes`] was since the device was opened or the peak reset.
    pub fn peak_bytes(&self) -> u64 {
        self.inner.accounting.peak()
    }

    /// Starts the peak again from what is allocated now.
    pub fn reset_peak(&self) {
        self.inner.accounting.reset_peak();
    }

    /// The budget, if there is one.
    pub fn budget(&self) -> Option<u64> {
        self.inner.accounting.budget()
    }

    /// Holds [`Device::allocated_bytes`] to this many bytes from now on; what is already allocated
    /// stays. `None` lifts the budget.
    pub fn set_budget(&self, bytes: Option<u64>) {
        self.inner.accounting.set_budget(bytes);
    }

    /// Bytes that can still be allocated: the smaller of the budget's rest and the free memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn available_bytes(&self) -> Result<u64, DeviceError> {
        Ok(self.memory()?.free.min(self.inner.accounting.available()))
    }

    /// A new stream, not ordered with any other.
    ///
    /// # Errors
    /// The driver's.
    pub fn create_stream(&self) -> Result<Stream, DeviceError> {
        Stream::new(&self.inner, 1)
    }

    /// A new stream, not ordered with any other, that is one of `streams` which share the device: see
    /// [`Stream::share_of_blocks`].
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If there are no `streams`.
    #[track_caller]
    pub fn create_sharing_stream(&self, streams: u32) -> Result<Stream, DeviceError> {
        assert!(streams > 0, "the stream itself is one");
        Stream::new(&self.inner, streams)
    }

    /// A new event, not recorded yet.
    ///
    /// # Errors
    /// The driver's.
    pub fn create_event(&self) -> Result<Event, DeviceError> {
        Event::new(&self.inner)
    }

    /// `len` zeros in page-locked host memory, which transfers reach without a copy in between.
    ///
    /// # Errors
    /// [`DeviceError::OutOfHostMemory`], or the driver's.
    pub fn alloc_pinned<T: Element>(&self, len: usize) -> Result<PinnedBuffer<T>, DeviceError> {
        PinnedBuffer::new(&self.inner, len)
    }

    /// Loads these kernels now instead of each at its first launch: threads have the driver compile those that are not
    /// loaded yet side by side. A kernel is loaded once a device; the simulator needs no loading.
    ///
    /// # Errors
    /// [`DeviceError::NoImage`], [`DeviceError::UnknownKernel`], [`DeviceError::ModuleLoad`], or the driver's. The other
    /// kernels may be loaded then.
    pub fn load_kernels(&self, kernels: &[&'static KernelDesc]) -> Result<(), DeviceError> {
        match &self.inner.backend {
            DeviceBackend::Cuda(context) => context.load_kernels(kernels),
            DeviceBackend::Simulator(_) => Ok(()),
        }
    }

    /// Loads all kernels of a module now, as [`load_kernels`](Self::load_kernels) does.
    ///
    /// # Errors
    /// [`DeviceError::NoImage`], [`DeviceError::ModuleLoad`], or the driver's.
    pub fn load_module(&self, module: &'static KernelModule) -> Result<(), DeviceError> {
        match &self.inner.backend {
            DeviceBackend::Cuda(context) => context.load_module(module),
            DeviceBackend::Simulator(_) => Ok(()),
        }
    }

    /// The modules of which kernels were loaded so far, each with the image picked and the time they took.
    pub fn loaded_modules(&self) -> Vec<LoadedModule> {
        match &self.inner.backend {
            DeviceBackend::Cuda(context) => context.loaded_modules(),
            DeviceBackend::Simulator(_) => Vec::new(),
        }
    }

    /// Seconds spent loading kernels so far, see [`LoadedModule::seconds`].
    pub fn module_load_seconds(&self) -> f64 {
        self.loaded_modules()
            .iter()
            .map(|module| module.seconds)
            .sum()
    }

    /// Seconds that opening the device took: the driver, its context, its memory pool.
    pub fn start_seconds(&self) -> f64 {
        self.inner.start_seconds
    }

    /// Copies between host and device so far.
    pub fn transfers(&self) -> Transfers {
        *self
            .inner
            .transfers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks of `block_size` threads with `shared_bytes` of dynamic shared memory that can be
    /// resident on the whole device together: the largest grid whose blocks may wait for each
    /// other. On the simulator, the residency of its options.
    ///
    /// # Errors
    /// [`DeviceError::TooLarge`] for a block that cannot run at all, or what loading the kernel
    /// may answer.
    pub fn max_resident_blocks(
        &self,
        kernel: &'static KernelDesc,
        block_size: u32,
        shared_bytes: u32,
    ) -> Result<u32, DeviceError> {
        self.inner
            .max_resident_blocks(kernel, block_size, shared_bytes)
    }
}
