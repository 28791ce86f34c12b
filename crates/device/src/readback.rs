//! What kernels leave for the host to read.

use luge_kernel::mem::Element;

use crate::buffer::Buffer;
use crate::error::DeviceError;
use crate::event::Event;
use crate::stream::Stream;

/// Few elements that a kernel writes where the host reads them, in [page-locked host memory](Stream::alloc_mapped): a copy behind the
/// kernel would take longer than most of what it waits for. What the kernel writes goes over the bus once; it should read nothing here.
///
/// ```
/// # use luge_device::{Device, Readback, SimulatorOptions};
/// # fn main() -> Result<(), luge_device::DeviceError> {
/// # let stream = Device::simulator(SimulatorOptions::default()).create_stream()?;
/// let mut found = Readback::<u32>::new(&stream, 2)?;
/// // In the place of a launch that writes.
/// stream.copy_from_host(found.buffer_mut(), &[3, 4])?;
/// found.record(&stream)?;
/// assert_eq!(found.read()?, [3, 4]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Readback<T: Element> {
    buffer: Buffer<T>,
    /// Behind what wrote last.
    written: Event,
    is_recorded: bool,
}

impl<T: Element> Readback<T> {
    /// `len` elements, of undefined content until they are written. They are not charged to the device.
    ///
    /// # Errors
    /// As [`Stream::alloc_mapped`].
    pub fn new(stream: &Stream, len: usize) -> Result<Self, DeviceError> {
        Ok(Self {
            buffer: stream.alloc_mapped(len)?,
            written: Event::untimed(stream.inner_device())?,
            is_recorded: false,
        })
    }

    /// The elements, for what is enqueued to write all of them. Before they are [read](Self::read) that is to be
    /// [recorded](Self::record).
    pub fn buffer_mut(&mut self) -> &mut Buffer<T> {
        self.is_recorded = false;
        &mut self.buffer
    }

    /// Whether what was to be written last was recorded; false at first.
    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Records that all that writes has been enqueued on `stream`.
    ///
    /// # Errors
    /// As [`Stream::record`].
    ///
    /// # Panics
    /// As [`Stream::record`].
    #[track_caller]
    pub fn record(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        stream.record(&self.written)?;
        self.is_recorded = true;
        Ok(())
    }

    /// The elements; waits for what writes them.
    ///
    /// # Errors
    /// [`DeviceError::Asynchronous`] if work before that failed, or the driver's.
    ///
    /// # Panics
    /// If nothing was recorded since they were [to be written](Self::buffer_mut).
    #[track_caller]
    pub fn read(&self) -> Result<Vec<T>, DeviceError> {
        assert!(
            self.is_recorded,
            "elements are read that a launch may be writing"
        );
        self.written.synchronize()?;
        // SAFETY: what writes them is done, and whoever enqueues more has to record it first.
        Ok(unsafe { self.buffer.memory.mapped_elements(self.buffer.len) })
    }
}

/// Words that the blocks of a launch raise, each for itself, and that the last of them leaves for the host, zero behind it for the next
/// launch.
#[derive(Debug)]
pub struct Maxima {
    /// The words, and how many blocks are done. Zero between launches.
    state: Buffer<u64>,
    found: Readback<u64>,
}

impl Maxima {
    /// `len` words.
    ///
    /// # Errors
    /// As [`Stream::alloc_mapped`].
    pub fn new(stream: &Stream, len: usize) -> Result<Self, DeviceError> {
        Ok(Self {
            state: stream.alloc_zeroed(len + 1)?,
            found: Readback::new(stream, len)?,
        })
    }

    /// Has `launch` enqueue, on `stream`, what raises the words. It gets them, with the number of blocks that are done behind them, and
    /// the memory in which the last block leaves what was found.
    ///
    /// # Errors
    /// Those of `launch`; as [`Stream::record`].
    pub fn enqueue(
        &mut self,
        stream: &Stream,
        launch: impl FnOnce(&mut Buffer<u64>, &mut Buffer<u64>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        launch(&mut self.state, self.found.buffer_mut())?;
        self.found.record(stream)
    }

    /// What the launch that was enqueued last found; waits for it.
    ///
    /// # Errors
    /// As [`Readback::read`].
    ///
    /// # Panics
    /// If none was enqueued.
    #[track_caller]
    pub fn read(&self) -> Result<Vec<u64>, DeviceError> {
        self.found.read()
    }
}
