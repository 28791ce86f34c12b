//! Levels on the device, by Kahn's algorithm in one launch.
//!
//! Cost: two atomic subtractions an entry of L+U at most and one grid barrier a level; the host waits
//! once, for the number of levels.

use luge_device::{Buffer, KernelDesc, Stream};
use luge_gpu_kernels::filled::ColumnLevelsBuffers;
use luge_gpu_kernels::levelize::{self as kernels, FoundLevelsBuffers};
use luge_sparse::Levels;
use luge_symbolic::gpu::{DeviceFilled, Geometry, primitives};

use crate::error::LevelizeError;

/// The kernels of [`levels`], for [`Device::load_kernels`](luge_device::Device::load_kernels).
pub fn kernels() -> [&'static KernelDesc; 2] {
    [
        kernels::count_dependencies::desc(),
        kernels::kahn_levels::desc(),
    ]
}

/// Columns grouped by level, on the device.
#[derive(Debug)]
pub struct DeviceLevels {
    num_levels: u32,
    level_of: Buffer<u32>,
    level_ptr: Buffer<u64>,
    level_cols: Buffer<u32>,
}

impl DeviceLevels {
    /// Number of columns.
    pub fn n(&self) -> usize {
        self.level_of.len()
    }

    /// Number of levels.
    pub fn num_levels(&self) -> u32 {
        self.num_levels
    }

    /// Level of each column.
    pub fn level_of(&self) -> &Buffer<u32> {
        &self.level_of
    }

    /// Offsets of the levels in [`level_cols`](Self::level_cols): `num_levels + 1` of them, then
    /// places without meaning.
    pub fn level_ptr(&self) -> &Buffer<u64> {
        &self.level_ptr
    }

    /// Columns by level, in increasing order within one.
    pub fn level_cols(&self) -> &Buffer<u32> {
        &self.level_cols
    }

    /// Offsets and columns as kernels take them.
    pub fn buffers(&self) -> ColumnLevelsBuffers<'_> {
        ColumnLevelsBuffers {
            ptr: &self.level_ptr,
            cols: &self.level_cols,
        }
    }

    /// Number of columns of each level, on the host.
    ///
    /// # Errors
    ///
    /// [`LevelizeError::Device`].
    pub fn widths(&self, stream: &Stream) -> Result<Vec<u64>, LevelizeError> {
        let offsets = stream.download(&self.level_ptr.slice(..=self.num_levels as usize))?;
        Ok(offsets.windows(2).map(|w| w[1] - w[0]).collect())
    }

    /// Copies the levels to the host, where the grouping is compared with the level of each column.
    ///
    /// # Errors
    ///
    /// [`LevelizeError::Device`]; [`LevelizeError::Corrupt`] if the arrays contradict each other.
    pub fn download(&self, stream: &Stream) -> Result<Levels, LevelizeError> {
        let level_of = stream.download(&self.level_of)?;
        if level_of.iter().any(|&level| level >= self.num_levels) {
            return Err(LevelizeError::Corrupt);
        }
        let offsets = stream.download(&self.level_ptr.slice(..=self.num_levels as usize))?;
        let cols = stream.download(&self.level_cols)?;
        let mut present = vec![false; self.num_levels as usize];
        for &level in &level_of {
            present[level as usize] = true;
        }
        if present.contains(&false) {
            return Err(LevelizeError::Corrupt);
        }
        let levels = Levels::from_level_of(level_of);
        if levels.level_ptr() != offsets || levels.level_cols() != cols {
            return Err(LevelizeError::Corrupt);
        }
        Ok(levels)
    }

    /// Copies levels to the device.
    ///
    /// # Errors
    ///
    /// [`LevelizeError::Device`].
    pub fn upload(stream: &Stream, levels: &Levels) -> Result<Self, LevelizeError> {
        Ok(Self {
            num_levels: levels.num_levels() as u32,
            level_of: stream.upload(levels.level_of())?,
            level_ptr: stream.upload(levels.level_ptr())?,
            level_cols: stream.upload(levels.level_cols())?,
        })
    }
}

/// The levels of the columns of `filled`, by the relaxed dependencies of the crate's front page.
///
/// # Errors
///
/// [`LevelizeError::Device`].
pub fn levels(stream: &Stream, filled: &DeviceFilled) -> Result<DeviceLevels, LevelizeError> {
    let n = filled.n();
    let span = tracing::debug_span!("levels", n, entries = filled.nnz());
    let _entered = span.enter();
    if n == 0 {
        return DeviceLevels::upload(stream, &Levels::from_level_of(Vec::new()));
    }
    let device = stream.device();
    let geometry = Geometry::of(&device);
    let mut waiting = stream.alloc::<u32>(n)?;
    // SAFETY: the pattern is a filled one; a row and a column have fewer than 2³² entries together.
    unsafe {
        kernels::count_dependencies::launch(
            stream,
            &geometry.threads_for(n),
            filled.buffers(),
            &mut waiting,
        )?;
    }
    let mut level_sizes = stream.alloc_zeroed::<u32>(n + 1)?;
    let mut level_of = stream.alloc::<u32>(n)?;
    let mut level_cols = stream.alloc::<u32>(n)?;
    let mut level_ptr = stream.alloc::<u64>(n + 1)?;
    let mut num_levels = stream.alloc::<u32>(1)?;
    let mut barrier = primitives::grid_barrier(stream)?;
    let config = geometry.persistent(&device, kernels::kahn_levels::desc(), n)?;
    let found = FoundLevelsBuffers {
        level_sizes: &mut level_sizes,
        level_of: &mut level_of,
        level_cols: &mut level_cols,
        level_ptr: &mut level_ptr,
        num_levels: &mut num_levels,
    };
    // SAFETY: `waiting` was counted on this pattern; sizes and barrier are zero; the launch is
    // cooperative.
    unsafe {
        kernels::kahn_levels::launch(
            stream,
            &config,
            n as u32,
            filled.buffers(),
            &mut waiting,
            found,
            &mut barrier,
        )?;
    }
    let num_levels = stream.download(&num_levels)?[0];
    let offsets = level_ptr.slice(..=num_levels as usize);
    // SAFETY: the offsets of the levels run from 0 to n.
    unsafe { primitives::sort_rows(stream, &offsets, &mut level_cols)? };
    tracing::debug!(num_levels, "levels found");
    Ok(DeviceLevels {
        num_levels,
        level_of,
        level_ptr,
        level_cols,
    })
}
