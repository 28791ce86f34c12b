//! A captured piece of a stream's work, replayed by one call.

use std::fmt;
use std::sync::Arc;

use crate::cuda::GraphHandle;
use crate::device::{DeviceBackend, DeviceInner};
use crate::error::DeviceError;
use crate::memory::Memory;
use crate::stream::{Operation, Stream};

pub(crate) enum Replay {
    /// None if nothing was captured.
    Cuda(Option<GraphHandle>),
    Simulator(Vec<Operation>),
}

/// Copies, fills and launches captured by [`Stream::capture`], with the arguments that they had.
///
/// The graph keeps the memory that it refers to, also when the buffers are dropped. Where it is
/// launched on another stream than the one captured, drop it only after that stream was waited for.
pub struct Graph {
    pub(crate) device: Arc<DeviceInner>,
    pub(crate) replay: Replay,
    /// The kernels in order, for the report of a fault.
    pub(crate) kernels: Vec<&'static str>,
    pub(crate) num_operations: usize,
    /// After `replay`, which refers to it.
    pub(crate) _memory: Vec<Arc<Memory>>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("num_operations", &self.num_operations)
            .field("kernels", &self.kernels)
            .finish_non_exhaustive()
    }
}

impl Graph {
    /// Copies, fills and launches in the graph.
    pub fn num_operations(&self) -> usize {
        self.num_operations
    }

    /// Enqueues the graph on a stream of its device.
    ///
    /// # Errors
    /// [`DeviceError::Fault`] on the simulator, [`DeviceError::Capturing`] while the stream is
    /// captured, or the driver's.
    ///
    /// # Panics
    /// If the stream is of another device.
    ///
    /// # Safety
    /// The preconditions of every captured launch hold again, with the memory as it is then; pieces
    /// of an arena that the graph refers to have not been handed out anew.
    #[track_caller]
    pub unsafe fn launch(&self, stream: &Stream) -> Result<(), DeviceError> {
        // SAFETY: passed on to the caller.
        unsafe { stream.launch_graph(self) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let (DeviceBackend::Cuda(context), &Replay::Cuda(Some(handle))) =
            (&self.device.backend, &self.replay)
        {
            // Nothing can be reported from here.
            let _ = context.destroy_graph(handle);
        }
    }
}
