//! Streams: work enqueued in order, and what enqueues it.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use luge_kernel::host::{
    BufferBase, ElementKind, KernelArg, KernelDesc, LaunchConfig, LaunchTarget,
};
use luge_kernel::mem::Element;
use luge_kernel::record::Record;
use luge_kernel::sim;

use crate::accounting::Exhausted;
use crate::buffer::{Buffer, BufferView, BufferViewMut, RecordBuffer};
use crate::cuda::{self, StreamHandle};
use crate::device::{Device, DeviceBackend, DeviceInner};
use crate::error::{DeviceError, LaunchLimit};
use crate::event::Event;
use crate::graph::{Graph, Replay};
use crate::memory::{Backing, Memory, Region};
use crate::pinned::{PinnedBuffer, zeros};
use crate::simulator::SimulatorOptions;

/// How many kernels are remembered for the report of a fault.
const NUM_RECENT: usize = 8;

/// Work in order. Cloning gives another handle to the same stream.
///
/// See the crate's front page for what is ordered and what is asynchronous.
#[derive(Clone)]
pub struct Stream {
    inner: Arc<StreamInner>,
}

pub(crate) struct StreamInner {
    pub(crate) device: Arc<DeviceInner>,
    /// The driver's stream; none on the simulator.
    handle: Option<StreamHandle>,
    state: Mutex<State>,
    /// How many streams share the device.
    sharing: u32,
}

#[derive(Default)]
struct State {
    capture: Option<Capture>,
    recent: Recent,
}

/// The kernels enqueued since the last synchronisation, newest first.
#[derive(Default)]
struct Recent {
    kernels: [&'static str; NUM_RECENT],
    len: usize,
}

impl Recent {
    fn push(&mut self, kernel: &'static str) {
        self.kernels.rotate_right(1);
        self.kernels[0] = kernel;
        self.len = (self.len + 1).min(NUM_RECENT);
    }

    fn clear(&mut self) {
        self.len = 0;
    }

    fn as_slice(&self) -> &[&'static str] {
        &self.kernels[..self.len]
    }
}

/// A capture under way.
struct Capture {
    thread: ThreadId,
    /// What to replay on the simulator.
    operations: Vec<Operation>,
    num_operations: usize,
    kernels: Vec<&'static str>,
    /// What the graph refers to.
    memory: Vec<Arc<Memory>>,
    /// Memory dropped meanwhile: freeing it would become part of the graph.
    dropped: Vec<u64>,
    /// Mapped host memory dropped meanwhile: the capture cannot be waited for.
    dropped_mapped: Vec<(u64, usize)>,
}

impl Capture {
    /// Counts an operation and keeps the memory that it refers to.
    fn note(&mut self, memory: &[&Arc<Memory>]) {
        self.num_operations += 1;
        self.memory
            .extend(memory.iter().map(|&memory| memory.clone()));
    }
}

/// What a simulated graph replays.
pub(crate) enum Operation {
    Copy {
        destination: sim::Allocation,
        destination_offset: usize,
        source: sim::Allocation,
        source_offset: usize,
        bytes: usize,
    },
    Fill {
        destination: sim::Allocation,
        offset: usize,
        bytes: usize,
        value: u8,
    },
    Launch {
        kernel: &'static KernelDesc,
        config: LaunchConfig,
        arguments: Vec<KernelArg>,
    },
}

impl Operation {
    fn perform(&self, options: &SimulatorOptions) -> Result<(), DeviceError> {
        match self {
            Self::Copy {
                destination,
                destination_offset,
                source,
                source_offset,
                bytes,
            } => {
                destination.copy_from(*destination_offset, source, *source_offset, *bytes);
                Ok(())
            }
            Self::Fill {
                destination,
                offset,
                bytes,
                value,
            } => {
                destination.fill(*offset, *bytes, *value);
                Ok(())
            }
            Self::Launch {
                kernel,
                config,
                arguments,
            } => Ok(sim::launch(kernel, config, arguments, &options.simulator).map(drop)?),
        }
    }
}

/// The machine behind a stream.
#[derive(Clone, Copy)]
enum Machine<'a> {
    Cuda(&'a cuda::Context, StreamHandle),
    Simulator(&'a SimulatorOptions),
}

impl StreamInner {
    fn machine(&self) -> Machine<'_> {
        match (&self.device.backend, self.handle) {
            (DeviceBackend::Cuda(context), Some(handle)) => Machine::Cuda(context, handle),
            (DeviceBackend::Simulator(options), _) => Machine::Simulator(options),
            (DeviceBackend::Cuda(_), None) => unreachable!("a CUDA stream has a handle"),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees CUDA memory in the order of this stream, or after the capture under way.
    pub(crate) fn free(&self, address: u64) {
        if let Machine::Cuda(context, handle) = self.machine() {
            let mut state = self.state();
            match &mut state.capture {
                Some(capture) => capture.dropped.push(address),
                None => free_now(context, address, handle),
            }
        }
    }

    /// Frees mapped host memory once this stream has done its work, or after the capture under way.
    pub(crate) fn free_mapped(&self, address: u64, bytes: usize) {
        if let Machine::Cuda(context, handle) = self.machine() {
            let mut state = self.state();
            match &mut state.capture {
                Some(capture) => capture.dropped_mapped.push((address, bytes)),
                None => free_mapped_now(context, (address, bytes), handle),
            }
        }
    }
}

fn free_mapped_now(context: &cuda::Context, (address, bytes): (u64, usize), handle: StreamHandle) {
    // Called from `drop`, where nothing can be reported; in a broken context no kernel runs any more.
    let waited = context.synchronize(handle);
    // SAFETY: freed once, by its owner; the kernels that use it are done.
    let freed = unsafe { context.recycle_pinned(address as usize as *mut c_void, bytes) };
    if let Err(error) = waited.and(freed) {
        tracing::debug!(?error, "mapped host memory was not freed in order");
    }
}

fn free_now(context: &cuda::Context, address: u64, handle: StreamHandle) {
    // Called from `drop`, where nothing can be reported; a broken context frees all at its end.
    if let Err(error) = context.free(address, handle) {
        tracing::debug!(?error, "device memory was not freed");
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        if let Machine::Cuda(context, handle) = self.machine() {
            // Nothing can be reported from here.
            let _ = context.destroy_stream(handle);
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("device", &self.inner.device.properties.name)
            .finish_non_exhaustive()
    }
}

fn as_bytes<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: the elements are numbers without padding; the range is the slice's.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

pub(crate) fn as_bytes_mut<T: Element>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: as above, and any bytes are valid numbers.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

impl Stream {
    pub(crate) fn new(device: &Arc<DeviceInner>, sharing: u32) -> Result<Self, DeviceError> {
        let handle = match &device.backend {
            DeviceBackend::Cuda(context) => Some(
                context
                    .create_stream()
                    .map_err(|error| context.error(error, &[]))?,
            ),
            DeviceBackend::Simulator(_) => None,
        };
        Ok(Self {
            inner: Arc::new(StreamInner {
                device: device.clone(),
                handle,
                state: Mutex::default(),
                sharing,
            }),
        })
    }

    /// The stream's device.
    pub fn device(&self) -> Device {
        Device {
            inner: self.inner.device.clone(),
        }
    }

    /// Whether two handles are of the same stream.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Whether memory is of this stream's device. Between devices it goes by [`copy_across`](Self::copy_across).
    pub fn reaches<T: Element>(&self, memory: &impl BufferView<T>) -> bool {
        Arc::ptr_eq(&self.inner.device, memory.region().memory.device())
    }

    /// The driver's stream, for a library that enqueues work of its own; `None` on the simulator.
    ///
    /// Such work runs in the order of this stream. This crate knows nothing of it: a fault of it is reported
    /// by a later call, and whoever enqueues it keeps the buffers that it uses until it is done. The pointer
    /// is valid while a handle of the stream lives, in the primary context of the device, which is current
    /// on every thread that has called this crate.
    pub fn driver_stream(&self) -> Option<NonNull<c_void>> {
        let handle = self.inner.handle?;
        NonNull::new(handle.pointer().cast())
    }

    /// Orders what is enqueued here from now on after what is enqueued on `other`, a stream of another library; null is
    /// the driver's legacy default stream.
    ///
    /// # Errors
    /// [`DeviceError::Capturing`], or the driver's.
    ///
    /// # Panics
    /// On the simulator, which has no streams of the driver.
    ///
    /// # Safety
    /// `other` is a stream of the driver in the primary context of this device, and alive.
    pub unsafe fn wait_for_driver_stream(&self, other: *mut c_void) -> Result<(), DeviceError> {
        // SAFETY: as the caller says.
        let other = unsafe { StreamHandle::from_pointer(other.cast()) };
        let event = Event::new(&self.inner.device)?;
        let state = self.enter_uncaptured("wait")?;
        let Machine::Cuda(context, own) = self.inner.machine() else {
            panic!("the simulator has no streams of the driver")
        };
        // The driver keeps what it needs of the event when this is dropped.
        let recorded = context.record(event.handle(), other);
        recorded
            .and_then(|()| context.wait(own, event.handle()))
            .map_err(|error| context.error(error, state.recent.as_slice()))
    }

    /// `len` elements at a device address that another library owns, as a buffer that does not free them. They are not
    /// charged to the device.
    ///
    /// # Panics
    /// On the simulator, which has no addresses.
    ///
    /// # Safety
    /// From `address` on there are `len` elements, aligned, in memory that this device reaches. They live until the buffer is
    /// dropped and the work that was enqueued with it is done. Nobody writes them in the meantime, nor reads what is written
    /// through the buffer, but in the order of this stream.
    pub unsafe fn borrow_foreign<T: Element>(&self, address: NonZeroU64, len: usize) -> Buffer<T> {
        assert!(
            matches!(self.inner.machine(), Machine::Cuda(..)),
            "the simulator has no memory at an address of a device"
        );
        let backing = if len == 0 {
            Backing::None
        } else {
            Backing::Foreign(address.get())
        };
        Buffer {
            memory: Memory::new(backing, 0, &self.inner),
            len,
            marker: PhantomData,
        }
    }

    /// Locks the stream for one operation; refused while another thread captures it.
    fn enter(&self, call: &'static str) -> Result<MutexGuard<'_, State>, DeviceError> {
        let state = self.inner.state();
        match &state.capture {
            Some(capture) if capture.thread != thread::current().id() => {
                Err(DeviceError::Capturing { call })
            }
            _ => Ok(state),
        }
    }

    /// As [`Stream::enter`], and refused while this thread captures it, too.
    fn enter_uncaptured(&self, call: &'static str) -> Result<MutexGuard<'_, State>, DeviceError> {
        let state = self.inner.state();
        match state.capture {
            Some(_) => Err(DeviceError::Capturing { call }),
            None => Ok(state),
        }
    }

    #[track_caller]
    fn check_device(&self, device: &Arc<DeviceInner>) {
        assert!(
            Arc::ptr_eq(&self.inner.device, device),
            "an object of one device used on a stream of another"
        );
    }

    #[track_caller]
    fn check_backend(&self, device: &Arc<DeviceInner>) {
        assert_eq!(
            self.inner.device.properties.backend, device.properties.backend,
            "an object of one backend used on a stream of another"
        );
    }

    #[track_caller]
    fn check_region(&self, region: Region<'_>) {
        self.check_device(region.memory.device());
    }

    /// `len` elements whose content is undefined until it is written; the simulator finds a read
    /// before that.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Capturing`], or the driver's.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let memory = self.allocate(bytes, || {
            self.allocate_simulated::<T>(len)
                .map_or(Backing::None, Backing::Simulator)
        })?;
        Ok(Buffer {
            memory,
            len,
            marker: PhantomData,
        })
    }

    /// `len` zeros.
    ///
    /// # Errors
    /// As [`Stream::alloc`].
    pub fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        let mut buffer = self.alloc(len)?;
        self.fill_zero(&mut buffer)?;
        Ok(buffer)
    }

    /// `len` elements of page-locked host memory that kernels of this device read and write where
    /// they are, over the bus; the content is undefined until it is written. Not charged to the
    /// device. Dropping it waits for this stream.
    ///
    /// # Errors
    /// [`DeviceError::OutOfHostMemory`], [`DeviceError::Capturing`], or the driver's.
    pub fn alloc_mapped<T: Element>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or(DeviceError::OutOfHostMemory { asked: u64::MAX })?;
        let state = self.enter_uncaptured("allocation")?;
        let backing = match self.inner.machine() {
            Machine::Simulator(_) => self
                .allocate_simulated::<T>(len)
                .map_or(Backing::None, Backing::Simulator),
            Machine::Cuda(..) if bytes == 0 => Backing::None,
            // Host memory that the driver allocates lies in the address space of the device.
            Machine::Cuda(context, _) => {
                Backing::Mapped(context.allocate_pinned(bytes)? as usize as u64, bytes)
            }
        };
        drop(state);
        Ok(Buffer {
            memory: Memory::new(backing, 0, &self.inner),
            len,
            marker: PhantomData,
        })
    }

    pub(crate) fn inner_device(&self) -> &Arc<DeviceInner> {
        &self.inner.device
    }

    /// Untyped memory of an arena; on the simulator only the charge for it.
    pub(crate) fn allocate_block(&self, bytes: u64) -> Result<Arc<Memory>, DeviceError> {
        self.allocate(bytes, || Backing::None)
    }

    /// The simulator's memory for `len` elements, uncharged; none on CUDA.
    pub(crate) fn allocate_simulated<T: Element>(&self, len: usize) -> Option<sim::Allocation> {
        match self.inner.machine() {
            Machine::Cuda(..) => None,
            Machine::Simulator(_) => Some(sim::Allocation::uninitialized(
                format!("{len} of {:?}", ElementKind::of::<T>()),
                len * size_of::<T>(),
            )),
        }
    }

    /// Charges the bytes, then takes the memory: `simulated` tells what that is on the simulator.
    fn allocate(
        &self,
        bytes: u64,
        simulated: impl FnOnce() -> Backing,
    ) -> Result<Arc<Memory>, DeviceError> {
        let state = self.enter_uncaptured("allocation")?;
        let device = &self.inner.device;
        device
            .accounting
            .reserve(bytes)
            .map_err(|Exhausted { available }| DeviceError::OutOfMemory {
                asked: bytes,
                available,
            })?;
        let backing = match self.inner.machine() {
            Machine::Simulator(_) => simulated(),
            Machine::Cuda(..) if bytes == 0 => Backing::None,
            Machine::Cuda(context, handle) => {
                let allocated = if bytes > device.properties.total_bytes {
                    // The driver calls such sizes invalid.
                    let available = context.memory_info().map(|memory| memory.free);
                    Err(match available {
                        Ok(available) => DeviceError::OutOfMemory {
                            asked: bytes,
                            available,
                        },
                        Err(error) => context.error(error, state.recent.as_slice()),
                    })
                } else {
                    // At most the device's memory, which is a `usize`.
                    context.allocate(bytes as usize, handle, state.recent.as_slice())
                };
                match allocated {
                    Ok(address) => Backing::Cuda(address),
                    Err(error) => {
                        device.accounting.release(bytes);
                        return Err(error);
                    }
                }
            }
        };
        drop(state);
        Ok(Memory::new(backing, bytes, &self.inner))
    }

    /// A buffer with the values; done when it returns.
    ///
    /// # Errors
    /// As [`Stream::alloc`] and [`Stream::copy_from_host`].
    pub fn upload<T: Element>(&self, values: &[T]) -> Result<Buffer<T>, DeviceError> {
        let mut buffer = self.alloc(values.len())?;
        self.copy_from_host(&mut buffer, values)?;
        Ok(buffer)
    }

    /// As [`upload`](Self::upload), for records.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    pub fn upload_records<R: Record>(&self, records: &[R]) -> Result<RecordBuffer<R>, DeviceError> {
        self.upload(R::as_words(records)).map(RecordBuffer::new)
    }

    /// Copies to allocations from their beginning, with up to `threads` threads of the current rayon pool; done when it
    /// returns, with everything enqueued before.
    fn copy_all_from_host(
        &self,
        copies: &[(Arc<Memory>, &[u8])],
        threads: usize,
    ) -> Result<(), DeviceError> {
        let call = "copies from the host";
        match self.inner.machine() {
            Machine::Simulator(_) => {
                let _state = self.enter_uncaptured(call)?;
                let start = Instant::now();
                let mut total = 0;
                for (memory, bytes) in copies {
                    memory.simulated().write(0, bytes);
                    total += bytes.len();
                }
                self.count(total, 0, start);
                Ok(())
            }
            Machine::Cuda(..) => {
                let copies = copies.iter();
                let copies: Vec<_> = copies
                    .map(|(memory, bytes)| (memory.address(), *bytes))
                    .collect();
                // SAFETY: each allocation is alive, has as many bytes as its values, and nobody else has it.
                unsafe { self.copy_to_device(call, &copies, threads) }
            }
        }
    }

    /// Copies to these addresses; done when it returns, with everything enqueued before. With more than one of `threads`
    /// those of the current rayon pool share it, if there is much to copy, and page-locked memory to copy through.
    ///
    /// # Safety
    /// The destinations are alive and as large as what is copied there, and nothing that is enqueued elsewhere uses them.
    unsafe fn copy_to_device(
        &self,
        call: &'static str,
        copies: &[(u64, &[u8])],
        threads: usize,
    ) -> Result<(), DeviceError> {
        let Machine::Cuda(context, handle) = self.inner.machine() else {
            unreachable!("a copy through the driver");
        };
        let total = copies.iter().map(|(_, bytes)| bytes.len()).sum();
        if threads > 1 && total >= cuda::LEAST_STAGED {
            // The lock is not kept: a thread that waits for others may copy something else meanwhile.
            drop(self.wait_uncaptured(call, context, handle)?);
            let start = Instant::now();
            // SAFETY: passed on to the caller.
            if unsafe { context.copy_staged(copies, threads)? } {
                self.count(total, 0, start);
                return Ok(());
            }
        }
        self.blocking_copy(call, total, true, || {
            for &(destination, bytes) in copies {
                // SAFETY: passed on to the caller; `blocking_copy` waits, so both sides outlive the copies.
                unsafe { context.copy_to_device(destination, bytes, handle)? };
            }
            Ok(())
        })
    }

    /// The values of a buffer or slice; waits for everything enqueued before.
    ///
    /// # Errors
    /// As [`Stream::copy_to_host`].
    #[track_caller]
    pub fn download<T: Element>(&self, source: &impl BufferView<T>) -> Result<Vec<T>, DeviceError> {
        let mut values = zeros(source.len());
        self.copy_to_host(source, &mut values)?;
        Ok(values)
    }

    /// Copies from the host; done when it returns, with everything enqueued before.
    ///
    /// # Errors
    /// [`DeviceError::Asynchronous`] if work before it failed, [`DeviceError::Capturing`], or the
    /// driver's.
    ///
    /// # Panics
    /// If the lengths differ, or the destination is of another device.
    #[track_caller]
    pub fn copy_from_host<T: Element>(
        &self,
        destination: &mut impl BufferViewMut<T>,
        source: &[T],
    ) -> Result<(), DeviceError> {
        self.copy_from_host_on(1, destination, source)
    }

    /// Likewise; if there is much to copy, up to `threads` threads of the current rayon pool share that.
    ///
    /// # Errors
    /// As [`copy_from_host`](Self::copy_from_host).
    ///
    /// # Panics
    /// As [`copy_from_host`](Self::copy_from_host).
    #[track_caller]
    pub fn copy_from_host_on<T: Element>(
        &self,
        threads: usize,
        destination: &mut impl BufferViewMut<T>,
        source: &[T],
    ) -> Result<(), DeviceError> {
        check_lengths(destination.len(), source.len());
        let region = destination.region_mut();
        self.check_region(region);
        let bytes = as_bytes(source);
        match self.inner.machine() {
            Machine::Simulator(_) => {
                let _state = self.enter_uncaptured("copy from the host")?;
                let start = Instant::now();
                region.memory.simulated().write(region.byte_offset, bytes);
                self.count(bytes.len(), 0, start);
                Ok(())
            }
            Machine::Cuda(..) => {
                // SAFETY: the destination is lent for as long, and the lengths agree.
                unsafe {
                    self.copy_to_device("copy from the host", &[(region.address(), bytes)], threads)
                }
            }
        }
    }

    /// Copies to the host; done when it returns, with everything enqueued before.
    ///
    /// # Errors
    /// [`DeviceError::Asynchronous`] if work before it failed, [`DeviceError::Uninitialized`] on
    /// the simulator if nobody wrote an element, [`DeviceError::Capturing`], or the driver's.
    ///
    /// # Panics
    /// If the lengths differ, or the source is of another device.
    #[track_caller]
    pub fn copy_to_host<T: Element>(
        &self,
        source: &impl BufferView<T>,
        destination: &mut [T],
    ) -> Result<(), DeviceError> {
        check_lengths(destination.len(), source.len());
        let region = source.region();
        self.check_region(region);
        let bytes = as_bytes_mut(destination);
        match self.inner.machine() {
            Machine::Simulator(options) => {
                let _state = self.enter_uncaptured("copy to the host")?;
                let start = Instant::now();
                check_initialized::<T>(options, region, bytes.len())?;
                region.memory.simulated().read(region.byte_offset, bytes);
                self.count(0, bytes.len(), start);
                Ok(())
            }
            Machine::Cuda(context, handle) => {
                let (pointer, len) = (bytes.as_mut_ptr(), bytes.len());
                // SAFETY: `blocking_copy` waits for the copy, so that both sides outlive it; the
                // lengths agree.
                self.blocking_copy("copy to the host", len, false, || unsafe {
                    context.copy_to_host(pointer, region.address(), len, handle)
                })
            }
        }
    }

    /// Waits for the stream, then for the copy, and counts its bytes and its time.
    ///
    /// A copy that was enqueued is waited for whatever happens, since it refers to host memory.
    fn blocking_copy(
        &self,
        call: &'static str,
        bytes: usize,
        to_device: bool,
        enqueue: impl FnOnce() -> Result<(), cuda::CallError>,
    ) -> Result<(), DeviceError> {
        let Machine::Cuda(context, handle) = self.inner.machine() else {
            unreachable!("a copy through the driver");
        };
        let state = self.wait_uncaptured(call, context, handle)?;
        if bytes == 0 {
            return Ok(());
        }
        let start = Instant::now();
        let enqueued = enqueue();
        let done = context.synchronize(handle);
        enqueued
            .and(done)
            .map_err(|error| context.error(error, state.recent.as_slice()))?;
        drop(state);
        let (to_device, to_host) = if to_device { (bytes, 0) } else { (0, bytes) };
        self.count(to_device, to_host, start);
        Ok(())
    }

    /// Waits for everything that was enqueued.
    fn wait_uncaptured(
        &self,
        call: &'static str,
        context: &cuda::Context,
        handle: cuda::StreamHandle,
    ) -> Result<MutexGuard<'_, State>, DeviceError> {
        let mut state = self.enter_uncaptured(call)?;
        context
            .synchronize(handle)
            .map_err(|error| context.error(error, state.recent.as_slice()))?;
        state.recent.clear();
        Ok(state)
    }

    fn count(&self, to_device: usize, to_host: usize, start: Instant) {
        self.inner.device.count_transfer(
            to_device as u64,
            to_host as u64,
            start.elapsed().as_secs_f64(),
        );
    }

    /// Enqueues a copy of the `destination.len()` elements of `source` from element `offset` on.
    ///
    /// # Errors
    /// [`DeviceError::Capturing`], or the driver's.
    ///
    /// # Panics
    /// If the range is not within the source, or one side is of another device.
    #[track_caller]
    pub fn copy_from_pinned<T: Element>(
        &self,
        destination: &mut impl BufferViewMut<T>,
        source: &PinnedBuffer<T>,
        offset: usize,
    ) -> Result<(), DeviceError> {
        let len = destination.len();
        let region = destination.region_mut();
        self.check_pinned(region, source, offset, len);
        let bytes = len * size_of::<T>();
        match self.inner.machine() {
            Machine::Simulator(_) => {
                let _state = self.enter_uncaptured("copy from pinned memory")?;
                let values = &source.as_slice()?[offset..offset + len];
                region
                    .memory
                    .simulated()
                    .write(region.byte_offset, as_bytes(values));
                self.inner.device.count_transfer(bytes as u64, 0, 0.0);
                Ok(())
            }
            Machine::Cuda(context, handle) => {
                self.pinned_copy("copy from pinned memory", source, bytes, || {
                    // SAFETY: the range lies within the pinned memory, which waits for the
                    // transfer before it is written or freed; the destination is freed in the
                    // order of its stream.
                    unsafe {
                        let values = std::slice::from_raw_parts(
                            source.as_ptr().add(offset).cast::<u8>(),
                            bytes,
                        );
                        context.copy_to_device(region.address(), values, handle)
                    }
                })?;
                self.inner.device.count_transfer(bytes as u64, 0, 0.0);
                Ok(())
            }
        }
    }

    /// Enqueues a copy of all of `source` to the elements of `destination` from element `offset` on.
    ///
    /// # Errors
    /// [`DeviceError::Capturing`], [`DeviceError::Uninitialized`] on the simulator, or the driver's.
    ///
    /// # Panics
    /// If the range is not within the destination, or one side is of another device.
    #[track_caller]
    pub fn copy_to_pinned<T: Element>(
        &self,
        source: &impl BufferView<T>,
        destination: &mut PinnedBuffer<T>,
        offset: usize,
    ) -> Result<(), DeviceError> {
        let len = source.len();
        let region = source.region();
        self.check_pinned(region, destination, offset, len);
        let bytes = len * size_of::<T>();
        match self.inner.machine() {
            Machine::Simulator(options) => {
                let _state = self.enter_uncaptured("copy to pinned memory")?;
                check_initialized::<T>(options, region, bytes)?;
                let values = &mut destination.as_mut_slice()?[offset..offset + len];
                region
                    .memory
                    .simulated()
                    .read(region.byte_offset, as_bytes_mut(values));
                self.inner.device.count_transfer(0, bytes as u64, 0.0);
                Ok(())
            }
            Machine::Cuda(context, handle) => {
                let destination = &*destination;
                self.pinned_copy("copy to pinned memory", destination, bytes, || {
                    // SAFETY: the range lies within the pinned memory, which waits for the
                    // transfer before it is looked at or freed; the source is freed in the order
                    // of its stream.
                    unsafe {
                        context.copy_to_host(
                            destination.as_ptr().add(offset).cast::<u8>(),
                            region.address(),
                            bytes,
                            handle,
                        )
                    }
                })?;
                self.inner.device.count_transfer(0, bytes as u64, 0.0);
                Ok(())
            }
        }
    }

    #[track_caller]
    fn check_pinned<T: Element>(
        &self,
        region: Region<'_>,
        pinned: &PinnedBuffer<T>,
        offset: usize,
        len: usize,
    ) {
        self.check_region(region);
        self.check_device(pinned.device());
        assert!(
            offset
                .checked_add(len)
                .is_some_and(|end| end <= pinned.len()),
            "{len} elements from element {offset} of a pinned buffer of {}",
            pinned.len()
        );
    }

    fn pinned_copy<T: Element>(
        &self,
        call: &'static str,
        pinned: &PinnedBuffer<T>,
        bytes: usize,
        enqueue: impl FnOnce() -> Result<(), cuda::CallError>,
    ) -> Result<(), DeviceError> {
        let state = self.enter_uncaptured(call)?;
        let Machine::Cuda(context, handle) = self.inner.machine() else {
            unreachable!("a copy through the driver");
        };
        if bytes == 0 {
            return Ok(());
        }
        let fail = |error| context.error(error, state.recent.as_slice());
        pinned.transfer(|before, after| {
            if let Some(before) = before {
                context.wait(handle, before.handle()).map_err(fail)?;
            }
            let enqueued = enqueue();
            let recorded = context.record(after.handle(), handle);
            if enqueued.is_ok() && recorded.is_err() {
                // Nothing else would make the pinned memory wait for the transfer.
                let _ = context.synchronize(handle);
            }
            enqueued.and(recorded).map_err(fail)?;
            after.mark_recorded();
            Ok(())
        })
    }

    /// Enqueues a copy within the device.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If the lengths differ, or one side is of another device.
    #[track_caller]
    pub fn copy<T: Element>(
        &self,
        destination: &mut impl BufferViewMut<T>,
        source: &impl BufferView<T>,
    ) -> Result<(), DeviceError> {
        check_lengths(destination.len(), source.len());
        let bytes = source.len() * size_of::<T>();
        let (to, from) = (destination.region_mut(), source.region());
        self.check_region(to);
        self.check_region(from);
        if bytes == 0 {
            return Ok(());
        }
        let state = self.enter("copy")?;
        match self.inner.machine() {
            Machine::Simulator(options) => perform_or_capture(
                state,
                options,
                Operation::Copy {
                    destination: to.memory.simulated().clone(),
                    destination_offset: to.byte_offset,
                    source: from.memory.simulated().clone(),
                    source_offset: from.byte_offset,
                    bytes,
                },
                &[to.memory, from.memory],
            ),
            Machine::Cuda(context, handle) => {
                // SAFETY: both ranges lie in live memory, which is freed in stream order or kept
                // by the graph.
                let enqueued = unsafe { context.copy(to.address(), from.address(), bytes, handle) };
                note_operation(state, context, enqueued, &[to.memory, from.memory])
            }
        }
    }

    /// Enqueues a copy between this stream's device and another one of the same backend; within this one, it is
    /// [`copy`](Self::copy). Directly where the two devices reach each other's memory, by NVLink or PCI Express, else through
    /// the host.
    ///
    /// Only this stream orders it. What other streams do with both sides before and after is ordered by
    /// [events](Self::wait), and memory of the other device has to stay until the copy is done: it is freed in the order of
    /// the stream that allocated it.
    ///
    /// # Errors
    /// The driver's; [`DeviceError::Capturing`] between two devices.
    ///
    /// # Panics
    /// If the lengths differ, neither side is of this device, or one is of another backend.
    #[track_caller]
    pub fn copy_across<T: Element>(
        &self,
        destination: &mut impl BufferViewMut<T>,
        source: &impl BufferView<T>,
    ) -> Result<(), DeviceError> {
        check_lengths(destination.len(), source.len());
        let bytes = source.len() * size_of::<T>();
        let (to, from) = (destination.region_mut(), source.region());
        let [of_to, of_from] = [to.memory.device(), from.memory.device()];
        let is_own = |device| Arc::ptr_eq(&self.inner.device, device);
        match [of_to, of_from].map(is_own) {
            [true, true] => return self.copy(destination, source),
            [true, false] => self.check_backend(of_from),
            [false, true] => self.check_backend(of_to),
            [false, false] => panic!("a copy between two other devices"),
        }
        if bytes == 0 {
            return Ok(());
        }
        let state = self.enter_uncaptured("copy between devices")?;
        match (self.inner.machine(), &of_to.backend, &of_from.backend) {
            (
                Machine::Cuda(context, handle),
                DeviceBackend::Cuda(to_context),
                DeviceBackend::Cuda(from_context),
            ) => {
                // SAFETY: both ranges lie in live memory; that of this device is freed in stream order, the other by
                // whoever keeps it for the copy.
                let enqueued = unsafe {
                    context.copy_between(
                        (to_context, to.address()),
                        (from_context, from.address()),
                        bytes,
                        handle,
                    )
                };
                note_operation(state, context, enqueued, &[])
            }
            _ => {
                to.memory.simulated().copy_from(
                    to.byte_offset,
                    from.memory.simulated(),
                    from.byte_offset,
                    bytes,
                );
                Ok(())
            }
        }
    }

    /// Enqueues setting every byte to zero, which makes every element zero.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If the destination is of another device.
    #[track_caller]
    pub fn fill_zero<T: Element>(
        &self,
        destination: &mut impl BufferViewMut<T>,
    ) -> Result<(), DeviceError> {
        self.fill_bytes(destination, 0)
    }

    /// Enqueues setting every byte to `value`: 0xFF makes `u32::MAX`, −1, or a NaN.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If the destination is of another device.
    #[track_caller]
    pub fn fill_bytes<T: Element>(
        &self,
        destination: &mut impl BufferViewMut<T>,
        value: u8,
    ) -> Result<(), DeviceError> {
        let bytes = destination.len() * size_of::<T>();
        let region = destination.region_mut();
        self.check_region(region);
        if bytes == 0 {
            return Ok(());
        }
        let state = self.enter("fill")?;
        match self.inner.machine() {
            Machine::Simulator(options) => perform_or_capture(
                state,
                options,
                Operation::Fill {
                    destination: region.memory.simulated().clone(),
                    offset: region.byte_offset,
                    bytes,
                    value,
                },
                &[region.memory],
            ),
            Machine::Cuda(context, handle) => {
                // SAFETY: the range lies in live memory, which is freed in stream order or kept by
                // the graph.
                let enqueued = unsafe { context.fill(region.address(), value, bytes, handle) };
                note_operation(state, context, enqueued, &[region.memory])
            }
        }
    }

    /// Waits for everything enqueued.
    ///
    /// # Errors
    /// [`DeviceError::Asynchronous`] if some of it failed, [`DeviceError::Capturing`], or the
    /// driver's.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        let mut state = self.enter_uncaptured("synchronize")?;
        if let Machine::Cuda(context, handle) = self.inner.machine() {
            context
                .synchronize(handle)
                .map_err(|error| context.error(error, state.recent.as_slice()))?;
        }
        state.recent.clear();
        Ok(())
    }

    /// Moves the event to the end of what is enqueued here.
    ///
    /// # Errors
    /// [`DeviceError::Capturing`], or the driver's.
    ///
    /// # Panics
    /// If the event is of another device.
    #[track_caller]
    pub fn record(&self, event: &Event) -> Result<(), DeviceError> {
        self.check_device(event.device());
        let state = self.enter_uncaptured("record")?;
        if let Machine::Cuda(context, handle) = self.inner.machine() {
            context
                .record(event.handle(), handle)
                .map_err(|error| context.error(error, state.recent.as_slice()))?;
        }
        event.mark_recorded();
        Ok(())
    }

    /// Orders what is enqueued here from now on after the event, wherever it was recorded, on another device too.
    ///
    /// # Errors
    /// [`DeviceError::Capturing`], or the driver's.
    ///
    /// # Panics
    /// If the event is of another backend.
    #[track_caller]
    pub fn wait(&self, event: &Event) -> Result<(), DeviceError> {
        self.check_backend(event.device());
        let state = self.enter_uncaptured("wait")?;
        if let Machine::Cuda(context, handle) = self.inner.machine() {
            context
                .wait(handle, event.handle())
                .map_err(|error| context.error(error, state.recent.as_slice()))?;
        }
        Ok(())
    }

    /// Runs `enqueue` and makes a graph of the copies, fills and launches that it enqueues on this
    /// stream, instead of running them.
    ///
    /// Memory dropped meanwhile is freed afterwards.
    ///
    /// # Errors
    /// What `enqueue` answers; [`DeviceError::Capturing`] for what a graph cannot hold, or if a
    /// capture is under way; or the driver's.
    pub fn capture(
        &self,
        enqueue: impl FnOnce(&Self) -> Result<(), DeviceError>,
    ) -> Result<Graph, DeviceError> {
        let mut state = self.enter_uncaptured("capture")?;
        if let Machine::Cuda(context, handle) = self.inner.machine() {
            context
                .begin_capture(handle)
                .map_err(|error| context.error(error, state.recent.as_slice()))?;
        }
        state.capture = Some(Capture {
            thread: thread::current().id(),
            operations: Vec::new(),
            num_operations: 0,
            kernels: Vec::new(),
            memory: Vec::new(),
            dropped: Vec::new(),
            dropped_mapped: Vec::new(),
        });
        drop(state);
        // Ends the capture also when `enqueue` panics.
        let pending = PendingCapture { stream: self };
        let enqueued = enqueue(self);
        mem::forget(pending);
        let graph = self.end_capture(enqueued.is_err());
        enqueued?;
        graph
    }

    fn end_capture(&self, discard: bool) -> Result<Graph, DeviceError> {
        let mut state = self.inner.state();
        let capture = state.capture.take().expect("a capture is under way");
        let replay = match self.inner.machine() {
            Machine::Simulator(_) => Ok(Replay::Simulator(capture.operations)),
            Machine::Cuda(context, handle) => {
                let ended = context
                    .end_capture(handle, discard)
                    .map_err(|error| context.error(error, state.recent.as_slice()));
                for address in capture.dropped {
                    free_now(context, address, handle);
                }
                for mapped in capture.dropped_mapped {
                    free_mapped_now(context, mapped, handle);
                }
                ended.map(Replay::Cuda)
            }
        };
        // Before the memory that the capture kept is dropped, which may need the lock.
        drop(state);
        Ok(Graph {
            device: self.inner.device.clone(),
            replay: replay?,
            kernels: capture.kernels,
            num_operations: capture.num_operations,
            _memory: capture.memory,
        })
    }

    /// See [`Graph::launch`].
    ///
    /// # Safety
    /// As there.
    #[track_caller]
    pub(crate) unsafe fn launch_graph(&self, graph: &Graph) -> Result<(), DeviceError> {
        self.check_device(&graph.device);
        let mut state = self.enter_uncaptured("graph launch")?;
        match (self.inner.machine(), &graph.replay) {
            (Machine::Simulator(options), Replay::Simulator(operations)) => operations
                .iter()
                .try_for_each(|operation| operation.perform(options)),
            (Machine::Cuda(context, handle), &Replay::Cuda(executable)) => {
                if let Some(executable) = executable {
                    // SAFETY: the graph keeps its memory, which is freed in stream order.
                    unsafe { context.launch_graph(executable, handle) }
                        .map_err(|error| context.error(error, state.recent.as_slice()))?;
                }
                let first = graph.kernels.len().saturating_sub(NUM_RECENT);
                for kernel in &graph.kernels[first..] {
                    state.recent.push(kernel);
                }
                Ok(())
            }
            _ => unreachable!("the graph is of the stream's device"),
        }
    }

    /// See [`Device::max_resident_blocks`].
    ///
    /// # Errors
    /// As there.
    pub fn max_resident_blocks(
        &self,
        kernel: &'static KernelDesc,
        block_size: u32,
        shared_bytes: u32,
    ) -> Result<u32, DeviceError> {
        self.inner
            .device
            .max_resident_blocks(kernel, block_size, shared_bytes)
    }

    /// Most blocks of a launch that leaves the other streams that [share](Device::create_sharing_stream) the device their part:
    /// those that it has room for at once, over the number of streams, but one at least. A kernel whose work is handed out to
    /// the blocks there are does not wait for others to end then.
    ///
    /// # Errors
    /// As [`max_resident_blocks`](Self::max_resident_blocks).
    pub fn share_of_blocks(
        &self,
        kernel: &'static KernelDesc,
        block_size: u32,
        shared_bytes: u32,
    ) -> Result<u32, DeviceError> {
        let resident = self.max_resident_blocks(kernel, block_size, shared_bytes)?;
        // None if not one fits, which the launch reports.
        Ok(resident.min((resident / self.inner.sharing).max(1)))
    }

    /// Whether it [shares](Device::create_sharing_stream) the device with others.
    pub fn shares_device(&self) -> bool {
        self.inner.sharing > 1
    }

    /// Waits for what was enqueued if it [shares](Device::create_sharing_stream) the device with others.
    ///
    /// To be called behind launches that take long. A driver feeds a device through few queues, 8 by default, and what waits
    /// for such a launch would hold up in its queue what other streams enqueue after it.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize).
    pub fn make_way(&self) -> Result<(), DeviceError> {
        if self.shares_device() {
            self.synchronize()?;
        }
        Ok(())
    }

    /// Checks a launch against the limits that both machines know.
    fn check_launch(
        &self,
        kernel: &'static KernelDesc,
        config: &LaunchConfig,
    ) -> Result<(), DeviceError> {
        let properties = &self.inner.device.properties;
        let at_most = |limit, asked: u64, most: u64| {
            if asked <= most {
                return Ok(());
            }
            Err(DeviceError::TooLarge {
                kernel: kernel.name,
                limit,
                asked,
                most,
            })
        };
        if config.grid.contains(&0) || config.block.contains(&0) {
            return Err(DeviceError::Launch {
                kernel: kernel.name,
                config: *config,
                message: "the grid or the block is empty".into(),
            });
        }
        for axis in 0..3 {
            at_most(
                LaunchLimit::BlockAxis(axis),
                u64::from(config.block[axis]),
                u64::from(properties.max_block[axis]),
            )?;
            at_most(
                LaunchLimit::GridAxis(axis),
                u64::from(config.grid[axis]),
                u64::from(properties.max_grid[axis]),
            )?;
        }
        at_most(
            LaunchLimit::ThreadsPerBlock,
            config.threads_per_block(),
            u64::from(kernel.max_threads.min(properties.max_threads_per_block)),
        )?;
        at_most(
            LaunchLimit::SharedBytesPerBlock,
            kernel.static_shared_bytes() as u64 + u64::from(config.shared_bytes),
            u64::from(properties.max_shared_bytes_per_block),
        )?;
        if config.cooperative {
            let most = self.max_resident_blocks(
                kernel,
                config.threads_per_block() as u32,
                config.shared_bytes,
            )?;
            at_most(
                LaunchLimit::CooperativeBlocks,
                config.num_blocks(),
                u64::from(most),
            )?;
        }
        Ok(())
    }

    /// The memory that arguments name, for the graph under capture.
    fn memory_of(&self, arguments: &[KernelArg]) -> Vec<Arc<Memory>> {
        arguments
            .iter()
            .filter_map(|argument| match argument {
                KernelArg::Buffer { base, .. } => self.inner.device.find(match base {
                    BufferBase::Device(address) => *address,
                    BufferBase::Simulated(allocation) => allocation.id(),
                }),
                _ => None,
            })
            .collect()
    }

    #[track_caller]
    fn check_arguments(&self, arguments: &[KernelArg]) {
        let simulated = matches!(self.inner.machine(), Machine::Simulator(_));
        for argument in arguments {
            if let KernelArg::Buffer { base, .. } = argument {
                assert!(
                    matches!(base, BufferBase::Simulated(_)) == simulated,
                    "a buffer of one device launched on a stream of another"
                );
            }
        }
    }
}

/// Buffers that are filled from the host together, so that the host waits once for all of them.
pub struct Uploads<'v> {
    stream: Stream,
    /// Allocations, and the values that go there.
    copies: Vec<(Arc<Memory>, &'v [u8])>,
}

impl<'v> Uploads<'v> {
    /// None yet.
    pub fn new(stream: &Stream) -> Self {
        Self {
            stream: stream.clone(),
            copies: Vec::new(),
        }
    }

    /// A buffer for the values, which are in it after [`finish`](Self::finish); until then its content is undefined.
    ///
    /// # Errors
    /// As [`Stream::alloc`].
    pub fn add<T: Element>(&mut self, values: &'v [T]) -> Result<Buffer<T>, DeviceError> {
        let buffer = self.stream.alloc(values.len())?;
        if !values.is_empty() {
            self.copies
                .push((Arc::clone(&buffer.memory), as_bytes(values)));
        }
        Ok(buffer)
    }

    /// As [`add`](Self::add), for records.
    ///
    /// # Errors
    /// As [`Stream::alloc`].
    pub fn add_records<R: Record>(
        &mut self,
        records: &'v [R],
    ) -> Result<RecordBuffer<R>, DeviceError> {
        self.add(R::as_words(records)).map(RecordBuffer::new)
    }

    /// Fills the buffers; done when it returns, with everything enqueued before.
    ///
    /// # Errors
    /// As [`Stream::copy_from_host`].
    pub fn finish(self) -> Result<(), DeviceError> {
        self.finish_on(1)
    }

    /// Likewise; if there is much to copy, up to `threads` threads of the current rayon pool share that.
    ///
    /// # Errors
    /// As [`Stream::copy_from_host`].
    pub fn finish_on(self, threads: usize) -> Result<(), DeviceError> {
        self.stream.copy_all_from_host(&self.copies, threads)
    }
}

impl fmt::Debug for Uploads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uploads")
            .field("len", &self.copies.len())
            .finish_non_exhaustive()
    }
}

/// Ends a capture whose closure panicked.
struct PendingCapture<'a> {
    stream: &'a Stream,
}

impl Drop for PendingCapture<'_> {
    fn drop(&mut self) {
        // The panic is what the caller sees.
        let _ = self.stream.end_capture(true);
    }
}

#[track_caller]
fn check_lengths(destination: usize, source: usize) {
    assert!(
        destination == source,
        "a copy of {source} elements to {destination}"
    );
}

fn check_initialized<T: Element>(
    options: &SimulatorOptions,
    region: Region<'_>,
    bytes: usize,
) -> Result<(), DeviceError> {
    if !options.simulator.checks {
        return Ok(());
    }
    let first = region
        .memory
        .simulated()
        .first_unwritten(region.byte_offset, bytes);
    first.map_or(Ok(()), |byte| {
        Err(DeviceError::Uninitialized {
            index: (byte - region.byte_offset) / size_of::<T>(),
        })
    })
}

fn perform_or_capture(
    mut state: MutexGuard<'_, State>,
    options: &SimulatorOptions,
    operation: Operation,
    memory: &[&Arc<Memory>],
) -> Result<(), DeviceError> {
    let Some(capture) = &mut state.capture else {
        return operation.perform(options);
    };
    capture.operations.push(operation);
    capture.note(memory);
    Ok(())
}

/// After the driver was asked to copy or fill: lets a graph under capture keep the memory.
fn note_operation(
    mut state: MutexGuard<'_, State>,
    context: &cuda::Context,
    enqueued: Result<(), cuda::CallError>,
    memory: &[&Arc<Memory>],
) -> Result<(), DeviceError> {
    enqueued.map_err(|error| context.error(error, state.recent.as_slice()))?;
    if let Some(capture) = &mut state.capture {
        capture.note(memory);
    }
    Ok(())
}

impl LaunchTarget for Stream {
    type Error = DeviceError;

    /// Enqueues a kernel; on the simulator, runs it.
    ///
    /// # Errors
    /// [`DeviceError::TooLarge`] or [`DeviceError::Launch`] for a geometry that cannot be,
    /// [`DeviceError::NoImage`], [`DeviceError::ModuleLoad`] or [`DeviceError::UnknownKernel`] at
    /// the first launch from a module, [`DeviceError::Fault`] on the simulator.
    ///
    /// # Panics
    /// If a buffer is of another kind of device.
    #[track_caller]
    fn launch(
        &self,
        kernel: &'static KernelDesc,
        config: &LaunchConfig,
        args: &[KernelArg],
    ) -> Result<(), DeviceError> {
        self.check_arguments(args);
        self.check_launch(kernel, config)?;
        // Declared before the lock, and so dropped after it: freeing memory takes the lock.
        let kept;
        let mut state = self.enter("launch")?;
        kept = match state.capture {
            Some(_) => self.memory_of(args),
            None => Vec::new(),
        };
        let memory: Vec<_> = kept.iter().collect();
        if let Some(capture) = &mut state.capture {
            capture.kernels.push(kernel.name);
        }
        match self.inner.machine() {
            Machine::Simulator(options) => perform_or_capture(
                state,
                options,
                Operation::Launch {
                    kernel,
                    config: *config,
                    arguments: args.to_vec(),
                },
                &memory,
            ),
            Machine::Cuda(context, handle) => {
                // SAFETY: the typed launcher made the arguments and its caller vouches for the
                // preconditions; memory is freed in stream order or kept by the graph.
                unsafe {
                    context.launch(handle, kernel, config, args, state.recent.as_slice())?;
                }
                match &mut state.capture {
                    Some(capture) => capture.note(&memory),
                    None => state.recent.push(kernel.name),
                }
                Ok(())
            }
        }
    }
}
