//! What is decided about a pattern before its values come: who works on what, in which memory.

use std::marker::PhantomData;

use luge_device::{Buffer, DeviceError, LaunchConfig, Stream};
use luge_gpu_kernels::numeric::levels::lu_levels;
use luge_gpu_kernels::numeric::mapping::{Mapping, level_shapes, shape};
use luge_gpu_kernels::numeric::ordered::lu_levels_ordered;
use luge_levelize::gpu::DeviceLevels;
use luge_sparse::CompressedPattern;
use luge_symbolic::gpu::{DeviceFilled, Geometry};
use serde::Serialize;

use super::mapping::{Choice, Grid, LevelMode, SourceWork};
use super::monitor::Monitor;
use super::order::{DeviceOrder, UpdateOrder};
use super::{DeviceScalar, positions};
use crate::error::NumericError;

/// How the columns of a level are shared out to threads: the modes of GLU 3.0, as parts of one launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ColumnMode {
    /// For each level the mode of its shape.
    #[default]
    Auto,
    /// Many thin columns: a column for each group of threads within a block, from part of a warp on; of those groups, a
    /// warp or less takes a sub-column.
    SmallBlock,
    /// A column for each block, or for several if there are fewer columns; a warp or less takes a sub-column.
    LargeBlock,
    /// Few fat columns: all blocks work on all of them, a block or several take a sub-column.
    Stream,
}

/// How an entry of a column is found by its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ElementAccess {
    /// Dense columns in levels where the count of accesses promises less time, and which get one for each column that is
    /// worked on at once; else by search. Without [`ColumnOptions::max_device_bytes`] dense columns take at most a
    /// quarter of the free memory.
    #[default]
    Auto,
    /// By binary search in the sorted column, in no memory.
    Search,
    /// In dense columns of n values. There are as many columns worked on at once as dense ones have room.
    Dense,
}

/// What a caller chooses of the column algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnOptions {
    /// Who works on what.
    pub mode: ColumnMode,
    /// How entries are found.
    pub access: ElementAccess,
    /// Adds the updates of each entry in one order, without atomics: the same bits from every run, mode, access and
    /// device of one type of values. A column that very many columns of one level update, as the dense column of an
    /// arrow, takes long so. The plan copies the pattern to the host, and takes up to 20 bytes an entry of U more.
    pub deterministic: bool,
    /// Bytes of device memory that one plan and one set of factors may take beside pattern and levels; free memory
    /// bounds them too.
    pub max_device_bytes: Option<u64>,
}

/// What a [`ColumnPlan`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ColumnReport {
    /// Levels in [`ColumnMode::SmallBlock`].
    pub small_block_levels: usize,
    /// Levels in [`ColumnMode::LargeBlock`].
    pub large_block_levels: usize,
    /// Levels in [`ColumnMode::Stream`].
    pub stream_levels: usize,
    /// Levels, of all of them, whose entries are found in dense columns.
    pub dense_levels: usize,
    /// Dense columns of a set of factors: how many columns are worked on at once in such a level.
    pub dense_columns: usize,
    /// Bytes of device memory of the plan.
    pub plan_bytes: u64,
    /// Bytes of device memory of a set of factors, dense columns included.
    pub factor_bytes: u64,
}

impl ColumnReport {
    /// Adds a level of so many columns: with the mapping that is taken, if there is memory for `most_dense` dense
    /// columns.
    fn count(
        &mut self,
        columns: u64,
        choice: Choice,
        grid: Grid,
        access: ElementAccess,
        most_dense: u64,
    ) -> Mapping {
        match choice.mode {
            LevelMode::SmallBlock => self.small_block_levels += 1,
            LevelMode::LargeBlock => self.large_block_levels += 1,
            LevelMode::Stream => self.stream_levels += 1,
        }
        let wanted = grid.dense_teams(choice.dense, columns);
        let dense = match access {
            ElementAccess::Search => false,
            ElementAccess::Dense => true,
            ElementAccess::Auto => choice.dense_pays && wanted <= most_dense,
        };
        if !dense {
            return choice.search;
        }
        // A level may have nothing to update.
        let teams = wanted.min(most_dense).max(1);
        self.dense_levels += 1;
        self.dense_columns = self.dense_columns.max(teams as usize);
        // Teams without a dense column do not work, so more parts would be parts of nobody.
        let parts = (teams / columns.max(1)).max(1) as u32;
        Mapping {
            parts: choice.dense.parts.min(parts),
            ..choice.dense
        }
    }
}

/// The column algorithm for one pattern and any number of value sets.
///
/// Holds the places of B's entries and, for each level, how its work is shared out. It belongs to the pattern and the
/// levels that it was made of.
#[derive(Debug)]
pub struct ColumnPlan<T: DeviceScalar> {
    pub(super) n: usize,
    pub(super) nnz: usize,
    pub(super) positions: Buffer<u64>,
    pub(super) mappings: Buffer<u32>,
    pub(super) order: Option<DeviceOrder>,
    pub(super) config: LaunchConfig,
    report: ColumnReport,
    values: PhantomData<T>,
}

impl<T: DeviceScalar> ColumnPlan<T> {
    /// Plans factorizations of matrices B with the pattern `rows`, whose filled pattern and levels are given.
    ///
    /// # Errors
    ///
    /// [`NumericError::Device`], with [`DeviceError::OutOfMemory`] before anything is allocated if plan and factors do
    /// not fit.
    ///
    /// # Panics
    ///
    /// If the dimensions differ, or an entry of B is not in the filled pattern.
    #[track_caller]
    pub fn new(
        stream: &Stream,
        filled: &DeviceFilled,
        levels: &DeviceLevels,
        rows: &CompressedPattern,
        options: &ColumnOptions,
    ) -> Result<Self, NumericError> {
        let n = filled.n();
        assert_eq!(levels.n(), n, "levels and filled pattern differ in size");
        let device = stream.device();
        let value_bytes = size_of::<T>() as u64;
        let num_levels = levels.num_levels() as usize;
        let mut report = ColumnReport {
            plan_bytes: 8 * rows.nnz() as u64 + 4 * num_levels as u64,
            factor_bytes: value_bytes * (filled.nnz() + rows.nnz()) as u64 + Monitor::BYTES,
            ..ColumnReport::default()
        };
        let available = options
            .max_device_bytes
            .unwrap_or(u64::MAX)
            .min(device.available_bytes()?);
        let fits = |asked: u64| {
            if asked > available {
                return Err(DeviceError::OutOfMemory { asked, available });
            }
            Ok(available - asked)
        };
        fits(report.plan_bytes + report.factor_bytes)?;
        let order = if options.deterministic {
            Some(UpdateOrder::of(stream, filled, levels)?)
        } else {
            None
        };
        report.plan_bytes += order.as_ref().map_or(0, UpdateOrder::bytes);
        let room = fits(report.plan_bytes + report.factor_bytes)?;
        let dense_bytes = value_bytes * n as u64;
        if options.access == ElementAccess::Dense {
            fits(report.plan_bytes + report.factor_bytes + dense_bytes)?;
        }

        let kernel = match order {
            Some(_) => lu_levels_ordered::desc::<T>(),
            None => lu_levels::desc::<T>(),
        };
        let entries = filled.nnz().div_ceil(32);
        let config = Geometry::of(&device).persistent(&device, kernel, entries)?;
        let grid = Grid {
            blocks: config.grid[0],
            threads: config.block[0],
        };
        let choices: Vec<(u64, Choice)> = match &order {
            Some(order) => order
                .work
                .iter()
                .map(|work| (work.targets, work.choose(options.mode, grid)))
                .collect(),
            None => shapes(stream, filled, levels)?
                .iter()
                .map(|work| (work.columns, work.choose(options.mode, grid)))
                .collect(),
        };

        let dense_room = match (options.access, options.max_device_bytes) {
            (ElementAccess::Search, _) => 0,
            (ElementAccess::Auto, None) => room / 4,
            _ => room,
        };
        let most_dense = dense_room / dense_bytes.max(1);

        let mappings: Vec<u32> = choices
            .into_iter()
            .map(|(columns, choice)| {
                let mapping = report.count(columns, choice, grid, options.access, most_dense);
                mapping.pack()
            })
            .collect();
        report.factor_bytes += report.dense_columns as u64 * dense_bytes;
        tracing::debug!(?report, "planned columns");

        Ok(Self {
            n,
            nnz: filled.nnz(),
            positions: positions(stream, filled, rows)?,
            mappings: stream.upload(&mappings)?,
            order: order.map(|order| order.upload(stream)).transpose()?,
            config,
            report,
            values: PhantomData,
        })
    }

    /// Modes, memory, and how entries are found.
    pub fn report(&self) -> &ColumnReport {
        &self.report
    }

    /// Place of each entry of B, in the order of its pattern, among the values of L+U.
    pub fn positions(&self) -> &Buffer<u64> {
        &self.positions
    }

    /// Whether factors are the same bits in every run.
    pub fn is_deterministic(&self) -> bool {
        self.order.is_some()
    }
}

/// What each level consists of, counted on the device.
fn shapes(
    stream: &Stream,
    filled: &DeviceFilled,
    levels: &DeviceLevels,
) -> Result<Vec<SourceWork>, NumericError> {
    let (n, num_levels) = (filled.n(), levels.num_levels() as usize);
    if n == 0 {
        return Ok(Vec::new());
    }
    let config = Geometry::of(&stream.device()).warps_for(n.div_ceil(32));
    let warps = config.num_blocks() * config.threads_per_block() / 32;
    let per_warp = (n as u64).div_ceil(warps) as u32;
    let mut shapes = stream.alloc_zeroed::<u64>(num_levels * shape::LEN)?;
    // SAFETY: patterns and levels are valid and belong to each other; `shapes` is zero; the warps cover the columns.
    unsafe {
        level_shapes::launch(
            stream,
            &config,
            per_warp,
            levels.level_of(),
            levels.level_cols(),
            filled.buffers(),
            &mut shapes,
        )?;
    }
    let shapes = stream.download(&shapes)?;
    let offsets = stream.download(&levels.level_ptr().slice(..=num_levels))?;
    Ok(offsets
        .windows(2)
        .zip(shapes.chunks_exact(shape::LEN))
        .map(|(offsets, figures)| SourceWork {
            columns: offsets[1] - offsets[0],
            sub_columns: figures[shape::SUB_COLUMNS],
            below: figures[shape::BELOW],
            updates: figures[shape::UPDATES],
            walked: figures[shape::WALKED],
        })
        .collect())
}
