//! Untyped device memory, freed in the order of the stream that allocated it.

use std::sync::Arc;

use luge_kernel::host::BufferBase;
use luge_kernel::mem::Element;
use luge_kernel::sim;

use crate::device::DeviceInner;
use crate::pinned::zeros;
use crate::stream::{StreamInner, as_bytes_mut};

/// Where memory lies.
pub(crate) enum Backing {
    /// Nowhere: no bytes on CUDA, or the reservation of a simulated arena.
    None,
    /// At a device address.
    Cuda(u64),
    /// So many bytes of page-locked memory of the host, which the device addresses alike.
    Mapped(u64, usize),
    /// At a device address, owned by somebody else.
    Foreign(u64),
    /// In the simulator.
    Simulator(sim::Allocation),
}

/// An allocation, charged to its device's account until it is dropped.
pub struct Memory {
    backing: Backing,
    /// Bytes charged.
    bytes: u64,
    /// The stream in whose order it is freed.
    stream: Arc<StreamInner>,
}

impl Memory {
    /// Takes over `backing`, for which `bytes` are charged already.
    pub(crate) fn new(backing: Backing, bytes: u64, stream: &Arc<StreamInner>) -> Arc<Self> {
        let memory = Arc::new(Self {
            backing,
            bytes,
            stream: stream.clone(),
        });
        if let Some(key) = memory.key() {
            stream.device.register(key, &memory);
        }
        memory
    }

    /// What tells it from other memory of its device that is alive: its address, or the number of
    /// the simulator's allocation.
    fn key(&self) -> Option<u64> {
        match &self.backing {
            // Foreign memory may be that of several buffers, and a graph cannot keep it.
            Backing::None | Backing::Foreign(_) => None,
            Backing::Cuda(address) | Backing::Mapped(address, _) => Some(*address),
            Backing::Simulator(allocation) => Some(allocation.id()),
        }
    }

    pub(crate) fn device(&self) -> &Arc<DeviceInner> {
        &self.stream.device
    }

    pub(crate) fn stream(&self) -> &Arc<StreamInner> {
        &self.stream
    }

    /// The device address; 0 where there is none.
    pub(crate) fn address(&self) -> u64 {
        match self.backing {
            Backing::Cuda(address) | Backing::Mapped(address, _) | Backing::Foreign(address) => {
                address
            }
            Backing::None | Backing::Simulator(_) => 0,
        }
    }

    /// The simulator's memory.
    pub(crate) fn simulated(&self) -> &sim::Allocation {
        match &self.backing {
            Backing::Simulator(allocation) => allocation,
            Backing::None | Backing::Cuda(_) | Backing::Mapped(..) | Backing::Foreign(_) => {
                unreachable!("memory of a simulated device")
            }
        }
    }

    /// The first `len` elements of mapped memory of the host, or of the simulator's.
    ///
    /// # Safety
    ///
    /// They are there and written, and nothing that was enqueued writes them meanwhile.
    pub(crate) unsafe fn mapped_elements<T: Element>(&self, len: usize) -> Vec<T> {
        match &self.backing {
            Backing::Mapped(address, bytes) => {
                assert!(len * size_of::<T>() <= *bytes, "elements of this memory");
                let first = *address as usize as *const T;
                // SAFETY: the caller's promise; the driver's memory is aligned to pages. Volatile, for the device has written it.
                let read = |i: usize| unsafe { first.add(i).read_volatile() };
                (0..len).map(read).collect()
            }
            Backing::Simulator(allocation) => {
                let mut elements = zeros(len);
                allocation.read(0, as_bytes_mut(&mut elements));
                elements
            }
            Backing::None => Vec::new(),
            Backing::Cuda(_) | Backing::Foreign(_) => unreachable!("memory of the host"),
        }
    }

    pub(crate) fn base(&self) -> BufferBase {
        match &self.backing {
            Backing::Simulator(allocation) => BufferBase::Simulated(allocation.clone()),
            Backing::None | Backing::Cuda(_) | Backing::Mapped(..) | Backing::Foreign(_) => {
                BufferBase::Device(self.address())
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(key) = self.key() {
            // First, since the driver may hand out the address again at once.
            self.stream.device.unregister(key);
        }
        match self.backing {
            Backing::Cuda(address) => self.stream.free(address),
            Backing::Mapped(address, bytes) => self.stream.free_mapped(address, bytes),
            Backing::None | Backing::Foreign(_) | Backing::Simulator(_) => {}
        }
        self.stream.device.accounting.release(self.bytes);
    }
}

/// A place within memory.
#[derive(Clone, Copy)]
pub struct Region<'a> {
    pub(crate) memory: &'a Arc<Memory>,
    pub(crate) byte_offset: usize,
}

impl Region<'_> {
    /// The device address; meaningful on CUDA only.
    pub(crate) fn address(&self) -> u64 {
        self.memory.address() + self.byte_offset as u64
    }
}
