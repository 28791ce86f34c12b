//! Page-locked host memory, which the device reads and writes beside other work.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use luge_kernel::mem::Element;

use crate::cuda::Handle;
use crate::device::{DeviceBackend, DeviceInner};
use crate::error::DeviceError;
use crate::event::Event;

enum Storage<T> {
    Cuda(Handle<T>),
    Host(Box<[T]>),
}

/// `len` elements of page-locked host memory, zero at first.
///
/// Transfers to and from it are enqueued and run beside the host. Looking at it with
/// [`PinnedBuffer::as_slice`] or [`PinnedBuffer::as_mut_slice`], and dropping it, wait for the
/// transfers that use it.
pub struct PinnedBuffer<T: Element> {
    device: Arc<DeviceInner>,
    storage: Storage<T>,
    len: usize,
    /// Recorded after the last transfer; each transfer waits on the device for the one before.
    last_transfer: Mutex<Option<Event>>,
}

impl<T: Element> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedBuffer")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl<T: Element> PinnedBuffer<T> {
    pub(crate) fn new(device: &Arc<DeviceInner>, len: usize) -> Result<Self, DeviceError> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or(DeviceError::OutOfHostMemory { asked: u64::MAX })?;
        let storage = match &device.backend {
            DeviceBackend::Cuda(context) if len > 0 => {
                let pointer = context.allocate_pinned(bytes)?.cast::<T>();
                // SAFETY: the driver gave `bytes` bytes, aligned to a page; zeros are valid numbers.
                unsafe { pointer.write_bytes(0, len) };
                Storage::Cuda(Handle::new(pointer))
            }
            _ => Storage::Host(zeros(len).into_boxed_slice()),
        };
        Ok(Self {
            device: device.clone(),
            storage,
            len,
            last_transfer: Mutex::new(None),
        })
    }

    pub(crate) fn device(&self) -> &Arc<DeviceInner> {
        &self.device
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements; waits for the transfers that use them.
    ///
    /// # Errors
    /// [`DeviceError::Asynchronous`] if work before those transfers failed, or the driver's.
    pub fn as_slice(&self) -> Result<&[T], DeviceError> {
        self.wait()?;
        Ok(match &self.storage {
            // SAFETY: `len` initialised elements, and no transfer writes them: those enqueued are
            // done, and a new one would need `&mut self`.
            Storage::Cuda(pointer) => unsafe {
                std::slice::from_raw_parts(pointer.pointer(), self.len)
            },
            Storage::Host(values) => values,
        })
    }

    /// The elements, for writing; waits for the transfers that use them.
    ///
    /// # Errors
    /// [`DeviceError::Asynchronous`] if work before those transfers failed, or the driver's.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], DeviceError> {
        self.wait()?;
        Ok(match &mut self.storage {
            // SAFETY: as above, and a transfer that reads them would need `&self`.
            Storage::Cuda(pointer) => unsafe {
                std::slice::from_raw_parts_mut(pointer.pointer(), self.len)
            },
            Storage::Host(values) => values,
        })
    }

    /// The elements, for a transfer that is ordered by [`PinnedBuffer::transfer`].
    pub(crate) fn as_ptr(&self) -> *mut T {
        match &self.storage {
            Storage::Cuda(pointer) => pointer.pointer(),
            Storage::Host(values) => values.as_ptr().cast_mut(),
        }
    }

    /// Orders a transfer after the one before: `enqueue` gets the event to wait for, if there is
    /// one, and the event to record at the end.
    pub(crate) fn transfer(
        &self,
        enqueue: impl FnOnce(Option<&Event>, &Event) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut last = self
            .last_transfer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(event) => enqueue(Some(event), event),
            None => enqueue(None, last.insert(Event::untimed(&self.device)?)),
        }
    }

    fn wait(&self) -> Result<(), DeviceError> {
        let last = self
            .last_transfer
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map_or(Ok(()), Event::synchronize)
    }
}

impl<T: Element> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        if let (DeviceBackend::Cuda(context), Storage::Cuda(pointer)) =
            (&self.device.backend, &self.storage)
        {
            // Nothing can be reported from here. Where waiting fails, the context is broken and
            // no transfer runs any more.
            let _ = self.wait();
            let bytes = self.len * size_of::<T>();
            // SAFETY: given back once, and no transfer uses it.
            let _ = unsafe { context.recycle_pinned(pointer.pointer().cast(), bytes) };
        }
    }
}

/// `len` zeros.
pub(crate) fn zeros<T: Element>(len: usize) -> Vec<T> {
    let mut values: Vec<T> = Vec::with_capacity(len);
    // SAFETY: the capacity is `len`, and zero bytes are a valid number of every element type.
    unsafe {
        values.as_mut_ptr().write_bytes(0, len);
        values.set_len(len);
    }
    values
}
