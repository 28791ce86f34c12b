//! How many threads a solver may use.

use std::sync::Arc;

#[cfg(feature = "gpu")]
use luge_device::{Buffer, BufferViewMut, DeviceError, Element, Stream};
use rayon::ThreadPool;
use tracing::{Dispatch, dispatcher};

use crate::error::Error;

/// Work below this many seconds, as predicted for one thread, is not worth waking threads for.
const WORTH_WAKING: f64 = 1e-4;

/// Seconds that a thread takes to copy a byte to a device, roughly and at least.
#[cfg(feature = "gpu")]
const SECONDS_PER_BYTE: f64 = 1e-10;

/// The threads of a solver: the pool of the process, or one of its own if a number was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Threads {
    pool: Option<Arc<ThreadPool>>,
    count: usize,
}

impl Threads {
    /// `None`: as many as rayon's own pool has. At least 1, which [`Options::check_ranges`](crate::Options) sees to.
    pub(crate) fn new(wanted: Option<usize>) -> Result<Self, Error> {
        let pool = match wanted {
            None | Some(1) => None,
            Some(count) => Some(Arc::new(
                rayon::ThreadPoolBuilder::new()
                    .num_threads(count)
                    .thread_name(|i| format!("luge-{i}"))
                    .build()
                    .map_err(|e| Error::Threads(Arc::new(e)))?,
            )),
        };
        Ok(Self {
            pool,
            count: wanted.unwrap_or_else(rayon::current_num_threads),
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Calls `work` with the number of threads to use: inside the pool, or with 1 on this thread if
    /// `seconds`, what the work is predicted to take, is too little to share.
    pub(crate) fn run<R: Send>(&self, seconds: f64, work: impl FnOnce(usize) -> R + Send) -> R {
        if self.count == 1 || seconds < WORTH_WAKING {
            return work(1);
        }
        // Whoever listens to this thread listens to the one that takes the work over.
        let listener = dispatcher::get_default(Dispatch::clone);
        let work = || dispatcher::with_default(&listener, || work(self.count));
        match &self.pool {
            Some(pool) => pool.install(work),
            // Inside the pool, where a thread that shares its work need not wait for another to take it over.
            None => rayon::scope(|_| work()),
        }
    }
}

#[cfg(feature = "gpu")]
impl Threads {
    /// As [`Stream::copy_from_host`], with as many threads as are worth it.
    pub(crate) fn copy_from_host<W: Element + Send + Sync>(
        &self,
        stream: &Stream,
        destination: &mut (impl BufferViewMut<W> + Send),
        source: &[W],
    ) -> Result<(), DeviceError> {
        let seconds = size_of_val(source) as f64 * SECONDS_PER_BYTE;
        self.run(seconds, |threads| {
            stream.copy_from_host_on(threads, destination, source)
        })
    }

    /// As [`Stream::upload`], likewise.
    pub(crate) fn upload<W: Element + Send + Sync>(
        &self,
        stream: &Stream,
        values: &[W],
    ) -> Result<Buffer<W>, DeviceError> {
        let mut buffer = stream.alloc(values.len())?;
        self.copy_from_host(stream, &mut buffer, values)?;
        Ok(buffer)
    }
}
