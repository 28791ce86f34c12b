//! Supernodes on the device.
//!
//! Marks by two phases in shared memory, a prefix sum, and one launch that writes the first rows; the
//! host waits once, for their number. A sweep of the relaxation judges all pairs by a warp each, chooses
//! those that merge, and closes the gaps behind a prefix sum; the host waits once a sweep.

use luge_device::{Buffer, KernelDesc, Stream};
use luge_gpu_kernels::supernode::{self as kernels, Tier};
use luge_symbolic::gpu::{DeviceFilled, Geometry, primitives};

use crate::error::SupernodeError;
use crate::options::{Options, Relaxation};
use crate::supernodes::Supernodes;

/// The kernels of [`supernodes`] without relaxation, for
/// [`Device::load_kernels`](luge_device::Device::load_kernels).
pub fn kernels() -> [&'static KernelDesc; 2] {
    [
        kernels::mark_supernodes::desc(),
        kernels::place_supernodes::desc(),
    ]
}

/// Supernodes on the device.
#[derive(Debug)]
pub struct DeviceSupernodes {
    n: usize,
    ptr: Buffer<u32>,
    zeros: u64,
}

impl DeviceSupernodes {
    /// Number of rows.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of supernodes.
    pub fn len(&self) -> usize {
        self.ptr.len() - 1
    }

    /// Whether there are none, because there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// First row of each supernode in increasing order, then the number of rows.
    pub fn ptr(&self) -> &Buffer<u32> {
        &self.ptr
    }

    /// Explicit zeros, as [`Supernodes::zeros`].
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// Copies the supernodes to the host.
    ///
    /// # Errors
    ///
    /// [`SupernodeError::Device`]; [`SupernodeError::Corrupt`] if they are no partition of the rows.
    pub fn download(&self, stream: &Stream) -> Result<Supernodes, SupernodeError> {
        let ptr = stream.download(&self.ptr)?;
        match Supernodes::new(ptr, self.zeros) {
            Some(supernodes) if supernodes.n() == self.n => Ok(supernodes),
            _ => Err(SupernodeError::Corrupt),
        }
    }
}

/// The supernodes of `filled`, which must be closed under fill, as the pattern of an L+U is.
///
/// # Errors
///
/// [`SupernodeError::Device`].
///
/// # Panics
///
/// If `options.max_size` is zero or above [`LARGEST_SUPERNODE`](crate::LARGEST_SUPERNODE), or tiers do not
/// come by increasing rows.
#[track_caller]
pub fn supernodes(
    stream: &Stream,
    filled: &DeviceFilled,
    options: &Options,
) -> Result<DeviceSupernodes, SupernodeError> {
    options.check();
    let n = filled.n();
    let span = tracing::debug_span!("supernodes", n, entries = filled.nnz());
    let _entered = span.enter();
    let ptr = if n == 0 {
        stream.upload(&[0])?
    } else {
        t3(stream, filled, options.max_size)?
    };
    let (ptr, zeros) = match &options.relax {
        None => (ptr, 0),
        Some(relax) => relaxed(stream, filled, ptr, options.max_size, relax)?,
    };
    let found = DeviceSupernodes { n, ptr, zeros };
    tracing::debug!(num_supernodes = found.len(), zeros = found.zeros(), "found");
    Ok(found)
}

/// First rows of the T3 supernodes of at least one row, then n.
fn t3(
    stream: &Stream,
    filled: &DeviceFilled,
    max_size: u32,
) -> Result<Buffer<u32>, SupernodeError> {
    let n = filled.n();
    let geometry = Geometry::of(&stream.device());
    // A thread a row of the chunk; a block of more threads than that would have idle warps.
    let chunk = geometry.threads.min(kernels::MAX_CHUNK as u32);
    let mut starts = stream.alloc::<u32>(n)?;
    // SAFETY: the pattern on the device is a filled one, sorted, with its diagonal; blocks are warps.
    unsafe {
        kernels::mark_supernodes::launch(
            stream,
            &geometry.strided(n, chunk as usize),
            max_size,
            chunk,
            filled.row_ptr(),
            filled.diag_pos(),
            filled.col_idx(),
            &mut starts,
        )?;
    }
    let offsets = primitives::exclusive_scan_u32(stream, &starts)?;
    let num_supernodes = stream.download(&offsets.slice(n..))?[0] as usize;
    let mut ptr = stream.alloc::<u32>(num_supernodes + 1)?;
    // SAFETY: `offsets` is the prefix sum of `starts`, and `ptr` has a place for each that is set.
    unsafe {
        kernels::place_supernodes::launch(
            stream,
            &geometry.threads_for(n),
            &starts,
            &offsets,
            &mut ptr,
        )?;
    }
    Ok(ptr)
}

/// First rows of the relaxed supernodes, then n, and the zeros in their blocks.
fn relaxed(
    stream: &Stream,
    filled: &DeviceFilled,
    mut ptr: Buffer<u32>,
    max_size: u32,
    relax: &Relaxation,
) -> Result<(Buffer<u32>, u64), SupernodeError> {
    let geometry = Geometry::of(&stream.device());
    let tiers = relax.tiers.iter().map(|tier| Tier {
        max_rows: tier.max_rows,
        max_zeros: tier.max_zeros,
    });
    let tiers = stream.upload_records(&tiers.collect::<Vec<_>>())?;
    let mut zeros = stream.alloc_zeroed::<u64>(ptr.len() - 1)?;
    while zeros.len() > 1 {
        let before = zeros.len();
        let mut allowed = stream.alloc::<u32>(before)?;
        let mut zeros_together = stream.alloc::<u64>(before)?;
        let mut kept = stream.alloc::<u32>(before)?;
        // SAFETY: the pattern is a filled one; `ptr` holds supernodes of it, which increase from 0 to n.
        unsafe {
            kernels::judge_pairs::launch(
                stream,
                &geometry.warps_for(before),
                max_size,
                filled.buffers(),
                &tiers,
                &ptr,
                &zeros,
                &mut allowed,
                &mut zeros_together,
            )?;
            kernels::choose_merges::launch(
                stream,
                &geometry.threads_for(before),
                &allowed,
                &mut kept,
            )?;
        }
        let offsets = primitives::exclusive_scan_u32(stream, &kept)?;
        let remaining = stream.download(&offsets.slice(before..))?[0] as usize;
        if remaining == before {
            break;
        }
        let mut ptr_out = stream.alloc::<u32>(remaining + 1)?;
        let mut zeros_out = stream.alloc::<u64>(remaining)?;
        // SAFETY: `offsets` is the prefix sum of `kept`, and there is a place for each that is.
        unsafe {
            kernels::place_merged::launch(
                stream,
                &geometry.threads_for(before),
                &kept,
                &offsets,
                &ptr,
                &zeros,
                &zeros_together,
                &mut ptr_out,
                &mut zeros_out,
            )?;
        }
        ptr = ptr_out;
        zeros = zeros_out;
    }
    let total = primitives::exclusive_scan_u64(stream, &zeros)?;
    let total = stream.download(&total.slice(zeros.len()..))?[0];
    Ok((ptr, total))
}
