//! The filled pattern on the device: count, prefix sum, positions, row sort, columns.

use luge_device::{Buffer, DeviceError, LaunchConfig, Stream};
use luge_gpu_kernels::symbolic::fill2 as kernels;
use luge_sparse::{CancelFlag, CompressedPattern, FilledPattern};

use super::filled::DeviceFilled;
use super::geometry::Geometry;
use super::primitives;
use crate::error::SymbolicError;

/// Sources that each slot takes, on average, between two looks at the cancel flag.
const SOURCES_PER_LAUNCH: u64 = 256;

/// What a caller may set for [`fill2`].
#[derive(Debug, Clone, Default)]
pub struct Fill2Options {
    /// Most bytes for the slots of concurrent sources ([`slot_bytes`] each); `None`: half of what is
    /// available. Fewer slots are used when not all fit.
    pub budget_bytes: Option<u64>,
    /// Most sources at work at once; `None`: as many as keep the device busy.
    pub max_sources: Option<u32>,
    /// Stops the phase at the next batch of sources when raised.
    pub cancel: CancelFlag,
}

/// Bytes of the slot of one source for a matrix of order n: 16.25 bytes a vertex (`max_id`, `fill`,
/// two queues of n entries and their bitmaps).
pub fn slot_bytes(n: usize) -> u64 {
    16 * n as u64 + 8 * kernels::queued_words(n) as u64
}

/// The slots of the concurrent sources.
struct Slots {
    count: u32,
    max_id: Buffer<u32>,
    fill: Buffer<u32>,
    queues: Buffer<u32>,
    queued: Buffer<u32>,
    next_source: Buffer<u64>,
}

impl Slots {
    /// As many slots as are wanted, the budget holds and the device can run at once.
    fn alloc(
        stream: &Stream,
        geometry: Geometry,
        n: usize,
        options: &Fill2Options,
    ) -> Result<Self, SymbolicError> {
        let device = stream.device();
        let available = device.available_bytes()?;
        let budget = options.budget_bytes.unwrap_or(available / 2).min(available);
        let fitting = budget / slot_bytes(n);
        if fitting == 0 {
            return Err(SymbolicError::OutOfMemory {
                row: 0,
                asked: slot_bytes(n),
                available: budget,
            });
        }
        let resident =
            device.max_resident_blocks(kernels::fill2_positions::desc(), geometry.threads, 0)?;
        let wanted = options.max_sources.unwrap_or(geometry.blocks).max(1);
        let count = [resident.max(1), wanted]
            .into_iter()
            .map(u64::from)
            .chain([fitting, n as u64])
            .fold(u64::MAX, u64::min) as u32;
        let vertices = count as usize * n;
        Ok(Self {
            count,
            max_id: stream.alloc(vertices)?,
            fill: stream.alloc(vertices)?,
            queues: stream.alloc(2 * vertices)?,
            queued: stream.alloc(count as usize * 2 * kernels::queued_words(n))?,
            next_source: stream.alloc(1)?,
        })
    }
}

/// Binary logarithm of the number of threads that share the neighbours of a frontier: the smallest
/// power of two that is at least the mean number of neighbours, up to a warp.
fn lanes_log2(pattern: &CompressedPattern) -> u32 {
    let mean = pattern.nnz().div_ceil(pattern.major_dim().max(1)).max(1);
    mean.next_power_of_two().trailing_zeros().min(5)
}

/// The filled pattern of L+U for the square CSR `pattern`; the diagonal need not be stored in it.
///
/// Stage one counts each row, a prefix sum places the rows, stage two walks again and writes the
/// columns, which are then sorted. The result does not depend on the options nor on the device.
/// Reports progress by events with target `luge::progress` and the fields `done` and `total`.
///
/// # Errors
///
/// [`SymbolicError::OutOfMemory`] if not one slot fits the budget; [`SymbolicError::Device`];
/// [`SymbolicError::Cancelled`].
///
/// # Panics
///
/// If `pattern` is not square.
#[track_caller]
pub fn fill2(
    stream: &Stream,
    pattern: &CompressedPattern,
    options: &Fill2Options,
) -> Result<DeviceFilled, SymbolicError> {
    let n = pattern.major_dim();
    assert_eq!(
        n,
        pattern.minor_dim(),
        "the symbolic phase needs a square pattern"
    );
    let span = tracing::debug_span!("fill2", n, nnz = pattern.nnz());
    let _entered = span.enter();
    options.cancel.check()?;
    if n == 0 {
        let empty = FilledPattern::new(pattern.clone())
            .unwrap_or_else(|row| unreachable!("there is no row {row}"));
        return DeviceFilled::upload(stream, &empty);
    }
    let order = n as u32;
    let lanes = lanes_log2(pattern);
    let geometry = Geometry::of(&stream.device());
    let b_ptr = stream.upload(pattern.ptr())?;
    let b_idx = stream.upload(pattern.idx())?;
    let mut slots = Slots::alloc(stream, geometry, n, options)?;
    let config = LaunchConfig::linear(slots.count, geometry.threads);
    tracing::debug!(slots = slots.count, "concurrent sources");

    let mut counts = stream.alloc::<u32>(n)?;
    for_each_batch(stream, n, 0, &mut slots, options, |slots, end| {
        // SAFETY: there is a slot a block; the pattern's columns are distinct and below n; the
        // counter holds the first source of the batch.
        unsafe {
            kernels::fill2_count::launch(
                stream,
                &config,
                order,
                end,
                lanes,
                kernels::max_windows(order),
                &b_ptr,
                &b_idx,
                &mut slots.next_source,
                &mut slots.max_id,
                &mut slots.fill,
                &mut slots.queues,
                &mut slots.queued,
                &mut counts,
            )
        }
    })?;
    let row_ptr = primitives::exclusive_scan_u32(stream, &counts)?;
    drop(counts);
    let nnz = stream.download(&row_ptr.slice(n..))?[0];
    tracing::debug!(nnz, "rows counted");

    let mut col_idx = stream.alloc::<u32>(nnz as usize)?;
    for_each_batch(stream, n, 1, &mut slots, options, |slots, end| {
        // SAFETY: as above; `row_ptr` is the prefix sum of the counts that stage one found.
        unsafe {
            kernels::fill2_positions::launch(
                stream,
                &config,
                order,
                end,
                lanes,
                kernels::max_windows(order),
                &b_ptr,
                &b_idx,
                &row_ptr,
                &mut slots.next_source,
                &mut slots.max_id,
                &mut slots.fill,
                &mut slots.queues,
                &mut slots.queued,
                &mut col_idx,
            )
        }
    })?;
    let count = slots.count;
    // Make room before the columns are built.
    drop(slots);
    // SAFETY: the rows lie one after another in `col_idx`, and are sorted here.
    unsafe {
        primitives::sort_rows(stream, &row_ptr, &mut col_idx)?;
        Ok(DeviceFilled::from_rows(stream, n, row_ptr, col_idx, count)?)
    }
}

/// Launches `stage(slots, end)` for one batch of sources after another, each with the counter at its
/// first source; between them looks at the cancel flag and reports how much of the two stages is done.
fn for_each_batch(
    stream: &Stream,
    n: usize,
    stages_done: u64,
    slots: &mut Slots,
    options: &Fill2Options,
    mut stage: impl FnMut(&mut Slots, u64) -> Result<(), DeviceError>,
) -> Result<(), SymbolicError> {
    let batch = SOURCES_PER_LAUNCH * u64::from(slots.count);
    let mut first = 0;
    while first < n as u64 {
        options.cancel.check()?;
        let done = stages_done * n as u64 + first;
        tracing::debug!(target: "luge::progress", done, total = 2 * n as u64);
        let end = (first + batch).min(n as u64);
        // The copy waits for the batch before.
        stream.copy_from_host(&mut slots.next_source, &[first])?;
        stage(slots, end)?;
        first = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_follow_the_mean_degree() {
        let of = |n: usize, nnz: usize| {
            let mut ptr = vec![nnz as u64; n + 1];
            ptr[0] = 0;
            let idx = (0..nnz as u32).collect();
            lanes_log2(&CompressedPattern::new(nnz.max(n), ptr, idx).unwrap())
        };
        assert_eq!(of(1, 0), 0);
        assert_eq!(of(2, 2), 0);
        assert_eq!(of(2, 3), 1);
        assert_eq!(of(1, 5), 3);
        assert_eq!(of(1, 1000), 5);
    }

    #[test]
    fn a_slot_takes_what_the_kernel_indexes() {
        assert_eq!(slot_bytes(0), 0);
        assert_eq!(slot_bytes(1), 16 + 8);
        assert_eq!(slot_bytes(64), 64 * 16 + 16);
    }
}
