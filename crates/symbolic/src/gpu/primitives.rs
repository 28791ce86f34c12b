//! Parallel building blocks of the phases: prefix sums, sorted lines, the transpose of a pattern.

use luge_device::{Buffer, DeviceError, LaunchConfig, Stream};
use luge_gpu_kernels::long::LONG_COUNTERS;
use luge_gpu_kernels::{scan, sort, transpose as kernels};
use luge_kernel::host::{KernelBuffer, KernelBufferMut};

use super::geometry::Geometry;

/// Elements that a thread scans.
const ELEMENTS_PER_THREAD: u32 = 8;

/// Tile of a block and number of tiles of `len` elements, at least one.
fn tiles(geometry: Geometry, len: usize) -> (u32, LaunchConfig) {
    let tile = geometry.threads * ELEMENTS_PER_THREAD;
    let mut config = LaunchConfig::for_elements(len, tile);
    config.block = [geometry.threads, 1, 1];
    (tile, config)
}

macro_rules! exclusive_scan {
    ($name:ident, $count:ty, $sums:ident, $tiles:ident) => {
        /// Offsets of lines of the given lengths: entry `i` is the sum of `counts[..i]`, and one
        /// entry past the counts is the total.
        ///
        /// # Errors
        ///
        /// Those of the device.
        pub fn $name(
            stream: &Stream,
            counts: &impl KernelBuffer<$count>,
        ) -> Result<Buffer<u64>, DeviceError> {
            let geometry = Geometry::of(&stream.device());
            let (tile, config) = tiles(geometry, counts.len());
            let num_tiles = config.grid[0] as usize;
            let offsets = if num_tiles == 1 {
                stream.alloc_zeroed(1)?
            } else {
                let mut sums = stream.alloc(num_tiles)?;
                // SAFETY: one block a tile, and `sums` has an element a block.
                unsafe { scan::$sums::launch(stream, &config, tile, counts, &mut sums)? };
                exclusive_scan_u64(stream, &sums)?
            };
            let mut out = stream.alloc(counts.len() + 1)?;
            // SAFETY: one block a tile, and `offsets` has an element a block.
            unsafe { scan::$tiles::launch(stream, &config, tile, counts, &offsets, &mut out)? };
            Ok(out)
        }
    };
}
exclusive_scan!(exclusive_scan_u32, u32, scan_tile_sums_u32, scan_tiles_u32);
exclusive_scan!(exclusive_scan_u64, u64, scan_tile_sums_u64, scan_tiles_u64);

/// Sorts each line `idx[ptr[i]..ptr[i + 1]]` in increasing order.
///
/// # Safety
///
/// `ptr` does not decrease and ends within `idx`.
///
/// # Errors
///
/// Those of the device.
///
/// # Panics
///
/// If `ptr` is empty.
#[track_caller]
pub unsafe fn sort_rows(
    stream: &Stream,
    ptr: &impl KernelBuffer<u64>,
    idx: &mut impl KernelBufferMut<u32>,
) -> Result<(), DeviceError> {
    let geometry = Geometry::of(&stream.device());
    let config = geometry.strided(ptr.len().saturating_sub(1), 1);
    // SAFETY: the caller's promise is the kernel's.
    unsafe { sort::sort_rows::launch(stream, &config, ptr, idx) }
}

/// Sorts each line `idx[ptr[i]..ptr[i + 1]]`, whose entries are distinct and below `minor_dim`, in increasing
/// order.
///
/// # Safety
///
/// `ptr` does not decrease and ends within `idx`; the entries are as told.
///
/// # Errors
///
/// Those of the device.
///
/// # Panics
///
/// If `ptr` is empty.
#[track_caller]
pub unsafe fn sort_distinct_rows(
    stream: &Stream,
    minor_dim: usize,
    ptr: &impl KernelBuffer<u64>,
    idx: &mut impl KernelBufferMut<u32>,
) -> Result<(), DeviceError> {
    let device = stream.device();
    let geometry = Geometry::of(&device);
    let config = geometry.strided(ptr.len().saturating_sub(1), 1);
    let most_long = idx.len() / sort::SHARED_LANE;
    let mut long = stream.alloc::<u32>(most_long)?;
    let mut counters = stream.alloc_zeroed::<u32>(LONG_COUNTERS)?;
    // SAFETY: the caller's promise is the kernel's; the counters are zero.
    unsafe { sort::sort_short_rows::launch(stream, &config, ptr, idx, &mut long, &mut counters)? };
    if most_long == 0 {
        return Ok(());
    }
    let words = minor_dim.div_ceil(32).max(1);
    let blocks = most_long.min(geometry.persistent_blocks as usize);
    let mut bits = stream.alloc_zeroed::<u32>(blocks * words)?;
    let config = LaunchConfig::linear(blocks as u32, geometry.threads);
    // SAFETY: the bits are zero, a piece for each block, and hold every entry.
    unsafe {
        sort::sort_long_rows::launch(
            stream,
            &config,
            words as u32,
            ptr,
            idx,
            &long,
            &mut counters,
            &mut bits,
        )
    }
}

/// The columns of a pattern given by rows: offsets, and the rows of each column in increasing order.
///
/// # Safety
///
/// `row_ptr` does not decrease, starts at zero and ends at `col_idx.len()`; every index is below
/// `num_cols`, and the indices of a row are distinct.
///
/// # Errors
///
/// Those of the device.
///
/// # Panics
///
/// If `row_ptr` is empty.
#[track_caller]
pub unsafe fn transpose(
    stream: &Stream,
    num_cols: usize,
    row_ptr: &impl KernelBuffer<u64>,
    col_idx: &impl KernelBuffer<u32>,
) -> Result<(Buffer<u64>, Buffer<u32>), DeviceError> {
    let geometry = Geometry::of(&stream.device());
    let nnz = col_idx.len();
    let mut counts = stream.alloc_zeroed::<u32>(num_cols)?;
    // SAFETY: `counts` is zero and every index is below its length.
    unsafe {
        kernels::count_columns::launch(stream, &geometry.threads_for(nnz), col_idx, &mut counts)?;
    }
    let col_ptr = exclusive_scan_u32(stream, &counts)?;
    stream.fill_zero(&mut counts)?;
    let mut row_idx = stream.alloc::<u32>(nnz)?;
    let config = geometry.entries_for(nnz);
    // SAFETY: `counts` is zero, and `col_ptr` holds the offsets of the columns of this pattern.
    unsafe {
        kernels::place_rows::launch(
            stream,
            &config,
            row_ptr,
            col_idx,
            &col_ptr,
            &mut counts,
            &mut row_idx,
        )?;
        sort_distinct_rows(stream, row_ptr.len() - 1, &col_ptr, &mut row_idx)?;
    }
    Ok((col_ptr, row_idx))
}

/// Place in `row_idx` of each entry (i, `col_idx[p]`) given by rows; `u64::MAX` where it is missing.
///
/// # Safety
///
/// Both pairs of offsets are valid for their indices, every `col_idx` is a column of `col_ptr`, and
/// the rows of each column increase strictly.
///
/// # Errors
///
/// Those of the device.
///
/// # Panics
///
/// If `row_ptr` is empty.
#[track_caller]
pub unsafe fn map_entries(
    stream: &Stream,
    row_ptr: &impl KernelBuffer<u64>,
    col_idx: &impl KernelBuffer<u32>,
    col_ptr: &impl KernelBuffer<u64>,
    row_idx: &impl KernelBuffer<u32>,
) -> Result<Buffer<u64>, DeviceError> {
    let mut map = stream.alloc(col_idx.len())?;
    let config = Geometry::of(&stream.device()).entries_for(col_idx.len());
    // SAFETY: the caller's promise is the kernel's.
    unsafe {
        kernels::map_entries::launch(
            stream, &config, row_ptr, col_idx, col_ptr, row_idx, &mut map,
        )?;
    }
    Ok(map)
}

/// Place of the diagonal entry of each sorted line; `u64::MAX` where it is missing.
///
/// # Safety
///
/// `ptr` is valid for `idx`, and the indices of each line increase strictly.
///
/// # Errors
///
/// Those of the device.
///
/// # Panics
///
/// If `ptr` is empty.
#[track_caller]
pub unsafe fn diagonal_positions(
    stream: &Stream,
    ptr: &impl KernelBuffer<u64>,
    idx: &impl KernelBuffer<u32>,
) -> Result<Buffer<u64>, DeviceError> {
    let n = ptr.len().checked_sub(1).expect("offsets are never empty");
    let mut diag_pos = stream.alloc(n)?;
    let config = Geometry::of(&stream.device()).threads_for(n);
    // SAFETY: the caller's promise is the kernel's.
    unsafe { kernels::diagonal_positions::launch(stream, &config, ptr, idx, &mut diag_pos)? };
    Ok(diag_pos)
}

/// One word for the barrier of a persistent kernel, zero.
///
/// # Errors
///
/// Those of the device.
pub fn grid_barrier(stream: &Stream) -> Result<Buffer<u32>, DeviceError> {
    stream.alloc_zeroed(luge_gpu_kernels::grid::GRID_BARRIER_WORDS)
}
