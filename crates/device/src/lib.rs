//! The host side of the device: a GPU through the CUDA driver, or the checking simulator, behind
//! one interface.
//!
//! ```
//! use luge_device::{Device, SimulatorOptions};
//!
//! # fn main() -> Result<(), luge_device::DeviceError> {
//! let device = Device::simulator(SimulatorOptions::default());
//! let stream = device.create_stream()?;
//! let x = stream.upload(&[1.0, 2.0, 3.0])?;
//! let mut y = stream.alloc::<f64>(3)?;
//! stream.copy(&mut y, &x)?;
//! assert_eq!(stream.download(&y)?, [1.0, 2.0, 3.0]);
//! # Ok(())
//! # }
//! ```
//!
//! # What is ordered with what
//!
//! Work on one [`Stream`] runs in the order in which it was enqueued: copies, fills, launches,
//! graphs, and also the allocation and the freeing of a [`Buffer`]. Work on two streams is not
//! ordered unless an [`Event`] recorded on one is waited for on the other, and nothing is tracked
//! behind the user's back. In particular a buffer is freed in the order of the stream that
//! allocated it, so another stream that uses it must be waited for before the buffer is dropped.
//!
//! # What is asynchronous
//!
//! | call | returns when |
//! |---|---|
//! | launch, [`Stream::copy`], fills, [`Graph::launch`], [`Stream::record`], [`Stream::wait`] | enqueued |
//! | [`Stream::alloc`], dropping a buffer | enqueued |
//! | [`Stream::copy_from_pinned`], [`Stream::copy_to_pinned`] | enqueued; the [`PinnedBuffer`] waits when it is looked at |
//! | [`Readback::record`], [`Maxima::enqueue`] | enqueued; [`Readback::read`] and [`Maxima::read`] wait |
//! | [`Stream::upload`], [`Uploads::finish`], [`Stream::download`], [`Stream::copy_from_host`], [`Stream::copy_to_host`], those with several threads | done, with everything enqueued before |
//! | [`Stream::synchronize`], [`Event::synchronize`] | everything before is done |
//!
//! A kernel that faults on the GPU is reported by a later call, as
//! [`DeviceError::Asynchronous`] with the kernels enqueued last. On the simulator everything runs
//! at once and a fault is the launch's own error.
//!
//! # Who owns memory
//!
//! A [`Buffer`] owns its memory; a [`Slice`] or [`SliceMut`] borrows a range of it. An [`Arena`]
//! owns one block and its [`ArenaSlice`]s share it. [`Stream::alloc_mapped`] makes buffers in the
//! host's memory that kernels reach over the bus; a [`Readback`] is a small one that kernels write for the
//! host. A [`Graph`] keeps the memory that it refers to.
//! Everything keeps its stream and its device alive. [`Device::allocated_bytes`] counts the bytes
//! asked for, and a budget refuses what would exceed it before the driver is asked.
//!
//! # Threads
//!
//! Every type is `Send` and `Sync`; the CUDA context is made current by each call. Two threads that
//! use one stream have their work enqueued in an unspecified order, call by call; while one of them
//! captures the stream, the other is refused.
//!
//! # Features
//!
//! `simulator` (on by default): [`Device`] can be the simulator; without it neither that nor the code of the kernels is in
//! the program.
//!
//! # Architecture invariant
//!
//! This is the only crate that touches the CUDA driver. The driver library is opened at run time:
//! a program that uses this crate starts on a machine without it, and [`Device::cuda`] says what is
//! missing. No failure of the driver panics; the panics documented here are broken call contracts.
//!
//! # Current limitations
//!
//! - One process drives one context a device; there is no peer access between devices.
//! - Host copies, allocations and events cannot be captured into a graph.
//! - On the simulator streams run one after another, so a missing event between two streams is
//!   not found there.

mod accounting;
mod arena;
mod buffer;
mod cuda;
mod device;
mod error;
mod event;
mod graph;
mod memory;
mod pinned;
mod properties;
mod readback;
mod simulator;
mod stream;

pub use arena::{ARENA_ALIGNMENT, Arena, ArenaSlice};
pub use buffer::{Buffer, BufferView, BufferViewMut, RecordBuffer, Slice, SliceMut};
pub use device::Device;
pub use error::{ComputeCapability, DeviceError, DriverVersion, LaunchLimit};
pub use event::Event;
pub use graph::Graph;
pub use pinned::PinnedBuffer;
pub use properties::{Backend, LoadedModule, MemoryInfo, Properties, Transfers};
pub use readback::{Maxima, Readback};
pub use simulator::SimulatorOptions;
pub use stream::{Stream, Uploads};

pub use luge_kernel::host::{KernelDesc, LaunchConfig};
pub use luge_kernel::mem::Element;
