//! The filled pattern by panels up the elimination forest: tree, panels, structures, rows.

use luge_device::{Buffer, DeviceError, LaunchConfig, Stream};
use luge_gpu_kernels::long::LONG_COUNTERS;
use luge_gpu_kernels::sort;
use luge_gpu_kernels::symbolic::args::{
    FoundPanelsBuffers, LongRowsBuffers, NewStructuresBuffers, PanelLinksBuffers, PanelsBuffers,
    PatternBuffers, RowOffsetsBuffers, RunsBuffers, StructuresBuffers,
};
use luge_gpu_kernels::symbolic::{etree, expand, panels as kernels};
use luge_sparse::{CancelFlag, CompressedPattern};
use serde::Serialize;

use super::clock::Clock;
use super::filled::DeviceFilled;
use super::geometry::Geometry;
use super::primitives;
use crate::assert_square;
use crate::blocks::diagonal_blocks;
use crate::error::SymbolicError;

/// Entries of a pool that is small on any device.
const SMALL_POOL: usize = 5 << 18;

/// Fewest list nodes that there is room for.
const FEWEST_NODES: usize = 1 << 15;

/// Pool entries and nodes are numbered with 32 bits.
const LARGEST_POOL: u64 = 1 << 32;

/// Shortest structure that others are merged into, instead of being collected with them.
const BASE_MIN: u32 = 64;

/// What a caller may set for [`panels`].
#[derive(Debug, Clone)]
pub struct PanelOptions {
    /// Most bytes for everything but B and the result; `None`: what is available.
    pub budget_bytes: Option<u64>,
    /// How many columns a block collects before it merges them, from 1 to [`ROUND`](kernels::ROUND); the result
    /// does not depend on it.
    pub round: u32,
    /// Shortest structure that others are merged into, at least 1; the result does not depend on it.
    pub base_min: u32,
    /// Stops the phase between its steps when raised.
    pub cancel: CancelFlag,
}

impl Default for PanelOptions {
    fn default() -> Self {
        Self {
            budget_bytes: None,
            round: kernels::ROUND as u32,
            base_min: BASE_MIN,
            cancel: CancelFlag::new(),
        }
    }
}

/// Device seconds of the steps of [`panels`], the gaps between their launches included.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PanelSeconds {
    /// B to the device.
    pub transfer: f64,
    /// The transpose of B, or finding out that it is B.
    pub transpose: f64,
    /// Elimination forest and panels.
    pub forest: f64,
    /// Structures of the panels.
    pub structures: f64,
    /// Rows of L+U.
    pub rows: f64,
    /// Columns of L+U, and which entry of the rows stands where in them.
    pub columns: f64,
}

/// What [`panels`] did.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct PanelReport {
    /// Panels of at most 64 pivots.
    pub num_panels: usize,
    /// Whether the pattern was symmetric, so that one triangle was enough.
    pub symmetric: bool,
    /// Pool entries taken for the structures, 12 bytes each.
    pub pool_entries: u64,
    /// Times that a panel took part in another than its parent.
    pub list_nodes: u64,
    /// Times that the pool was too small and the structures were begun anew.
    pub restarts: u32,
    /// Most bytes beside B and the result at any time.
    pub peak_bytes: u64,
    /// Where the time went.
    pub seconds: PanelSeconds,
}

/// Keeps what lies on the device beside B and the result within a budget.
struct Ledger {
    available: u64,
    peak: u64,
}

impl Ledger {
    /// Notes that `bytes` will be in use at the same time, beside words that are counted here.
    fn need(&mut self, bytes: u64) -> Result<(), SymbolicError> {
        let bytes = bytes + FIXED_BYTES;
        if bytes > self.available {
            return Err(SymbolicError::OutOfMemory {
                row: 0,
                asked: bytes,
                available: self.available,
            });
        }
        self.peak = self.peak.max(bytes);
        Ok(())
    }
}

/// Bytes of counters, barriers, and sums of blocks, of which there are at most a thousand.
const FIXED_BYTES: u64 = 16 << 10;

/// Bytes a vertex of a [`Cut`] and of a [`Forest`], and of what is needed besides to make them.
const CUT_BYTES: u64 = 8;
const FOREST_BYTES: u64 = 20;
const PLANTING_BYTES: u64 = 4 * (etree::SCRATCH as u64 + 1);

/// Bytes a vertex of [`Structures`] beside the pool, and of what is needed besides to make them.
const STRUCTURES_BYTES: u64 = 20;
const ELIMINATION_BYTES: u64 = 24;

/// Bytes of a pool entry: its index and its word.
const ENTRY_BYTES: u64 = 12;

/// Bytes of a list node, and of a run of a row of L.
const NODE_BYTES: u64 = 8;
const RUN_BYTES: u64 = 8;

/// Bytes a vertex that expanding the rows takes.
const ROWS_BYTES: u64 = 20;

/// The vertices, cut into panels. The arrays have room for a panel a vertex.
struct Cut {
    num_panels: Buffer<u32>,
    panel_of: Buffer<u32>,
    panel_start: Buffer<u32>,
}

/// The forest that the panels form. The arrays have room for a panel a vertex.
struct Forest {
    panel_parent: Buffer<u32>,
    children: Buffer<u32>,
    child_ptr: Buffer<u64>,
    child: Buffer<u32>,
}

/// B, or its transpose.
struct Lines {
    ptr: Buffer<u64>,
    idx: Buffer<u32>,
}

impl Lines {
    fn bytes(&self) -> u64 {
        8 * self.ptr.len() as u64 + 4 * self.idx.len() as u64
    }
}

/// Structures of all panels.
struct Structures {
    symmetric: u32,
    index: Buffer<u32>,
    mask: Buffer<u64>,
    /// Of each panel: where its upper structure begins, with the lower one behind it, and their lengths.
    at: Buffer<u32>,
    upper_len: Buffer<u32>,
    /// Empty where the pattern is symmetric: then the lower structure is the upper one.
    lower_len: Buffer<u32>,
    diagonal: Buffer<u64>,
}

impl Structures {
    /// As the kernels take them.
    fn buffers(&self) -> StructuresBuffers<'_> {
        StructuresBuffers {
            index: &self.index,
            mask: &self.mask,
            at: &self.at,
            upper_len: &self.upper_len,
            lower_len: &self.lower_len,
            diagonal: &self.diagonal,
        }
    }
}

/// An array of [`etree::NONE`].
fn none(stream: &Stream, len: usize) -> Result<Buffer<u32>, DeviceError> {
    let mut buffer = stream.alloc(len)?;
    stream.fill_bytes(&mut buffer, 0xff)?;
    Ok(buffer)
}

/// Computes the filled pattern of the square CSR `pattern` on the device of `stream`, merging along the
/// elimination forest of its diagonal blocks.
///
/// # Errors
///
/// [`SymbolicError::OutOfMemory`] if the budget does not hold what is needed beside the result;
/// [`SymbolicError::Cancelled`]; [`SymbolicError::Device`].
///
/// # Panics
///
/// If `pattern` is not square or its order not below 2³¹, or an option is out of its range.
#[track_caller]
pub fn panels(
    stream: &Stream,
    pattern: &CompressedPattern,
    options: &PanelOptions,
) -> Result<(DeviceFilled, PanelReport), SymbolicError> {
    assert_square(pattern);
    let n = pattern.major_dim();
    assert!(
        (1..=kernels::ROUND as u32).contains(&options.round),
        "a round of {} columns",
        options.round
    );
    assert!(n < kernels::MAX_ORDER, "a pattern of order {n}");
    let span = tracing::debug_span!("panels", n, nnz = pattern.nnz());
    let _entered = span.enter();
    options.cancel.check()?;
    let mut report = PanelReport::default();
    if n == 0 {
        return Ok((DeviceFilled::empty(stream)?, report));
    }
    let available = stream.device().available_bytes()?;
    let mut ledger = Ledger {
        available: options.budget_bytes.unwrap_or(available).min(available),
        peak: 0,
    };
    let blocks = diagonal_blocks(pattern);
    let mut clock = Clock::start(stream)?;
    let block_of = stream.upload(&blocks)?;
    let rows = Lines {
        ptr: stream.upload(pattern.ptr())?,
        idx: stream.upload(pattern.idx())?,
    };
    clock.next()?;
    report.symmetric = is_symmetric(stream, &rows)?;
    let columns = if report.symmetric {
        None
    } else {
        // SAFETY: a pattern is valid and its rows increase strictly.
        let (ptr, idx) = unsafe { primitives::transpose(stream, n, &rows.ptr, &rows.idx)? };
        Some(Lines { ptr, idx })
    };
    clock.next()?;
    let order = n as u64;
    let transposed = columns.as_ref().map_or(0, Lines::bytes);
    ledger.need(transposed + order * (CUT_BYTES + FOREST_BYTES + PLANTING_BYTES))?;
    let (cut, forest) = forest(stream, &block_of, &rows, columns.as_ref())?;
    drop(block_of);
    clock.next()?;
    options.cancel.check()?;
    let structures = structures(
        stream,
        &rows,
        columns.as_ref(),
        (&cut, &forest),
        options,
        (&mut ledger, transposed),
        &mut report,
    )?;
    drop((columns, forest));
    clock.next()?;
    options.cancel.check()?;
    let (row_ptr, col_idx) =
        expand_rows(stream, &cut, report.num_panels, &structures, &mut ledger)?;
    report.peak_bytes = ledger.peak;
    drop((structures, cut, rows));
    clock.next()?;
    // SAFETY: the rows of a filled pattern, sorted, with their diagonals.
    let filled = unsafe { DeviceFilled::from_rows(stream, n, row_ptr, col_idx)? };
    clock.next()?;
    let [transfer, transpose, forest, structures, rows, columns] = clock.seconds()?;
    report.seconds = PanelSeconds {
        transfer,
        transpose,
        forest,
        structures,
        rows,
        columns,
    };
    Ok((filled, report))
}

/// Whether each entry has its mirror image.
fn is_symmetric(stream: &Stream, rows: &Lines) -> Result<bool, DeviceError> {
    let mut missing = stream.alloc_zeroed::<u32>(1)?;
    let config = Geometry::of(&stream.device()).threads_for(rows.idx.len());
    // SAFETY: the rows increase strictly, and `missing` is zero.
    unsafe {
        etree::find_unmirrored::launch(stream, &config, &rows.ptr, &rows.idx, &mut missing)?;
    }
    Ok(stream.download(&missing)?[0] == 0)
}

fn forest(
    stream: &Stream,
    block_of: &Buffer<u32>,
    rows: &Lines,
    columns: Option<&Lines>,
) -> Result<(Cut, Forest), DeviceError> {
    let n = block_of.len();
    let device = stream.device();
    let most = n.max(rows.idx.len());
    let config =
        Geometry::of(&device).persistent_threads(&device, etree::plant_forest::desc(), most)?;
    let mut scratch = stream.alloc::<u32>(etree::SCRATCH * n)?;
    let mut sums = stream.alloc::<u64>(config.grid[0] as usize)?;
    let mut barrier = primitives::grid_barrier(stream)?;
    let mut cut = Cut {
        num_panels: stream.alloc(1)?,
        panel_of: stream.alloc(n)?,
        panel_start: stream.alloc(n + 1)?,
    };
    let mut forest = Forest {
        panel_parent: stream.alloc(n)?,
        children: stream.alloc(n)?,
        child_ptr: stream.alloc(n + 1)?,
        child: stream.alloc(n)?,
    };
    let found = FoundPanelsBuffers {
        panel_of: &mut cut.panel_of,
        panel_start: &mut cut.panel_start,
        panel_parent: &mut forest.panel_parent,
        children: &mut forest.children,
        child_ptr: &mut forest.child_ptr,
        child: &mut forest.child,
        num_panels: &mut cut.num_panels,
    };
    // SAFETY: rows and columns of B are valid; the barrier is zero; the blocks are resident together.
    unsafe {
        etree::plant_forest::launch(
            stream,
            &config,
            u32::from(columns.is_none()),
            pattern(rows, columns),
            block_of,
            &mut scratch,
            &mut sums,
            found,
            &mut barrier,
        )?;
    }
    Ok((cut, forest))
}

/// B as the kernels take it.
fn pattern<'a>(rows: &'a Lines, columns: Option<&'a Lines>) -> PatternBuffers<'a> {
    let columns = columns.unwrap_or(rows);
    PatternBuffers {
        row_ptr: &rows.ptr,
        col_idx: &rows.idx,
        col_ptr: &columns.ptr,
        row_idx: &columns.idx,
    }
}

/// Eliminates the panels, with a pool as large as that takes.
fn structures(
    stream: &Stream,
    rows: &Lines,
    columns: Option<&Lines>,
    (cut, forest): (&Cut, &Forest),
    options: &PanelOptions,
    (ledger, transposed): (&mut Ledger, u64),
    report: &mut PanelReport,
) -> Result<Structures, SymbolicError> {
    let device = stream.device();
    let n = cut.panel_of.len();
    let symmetric = u32::from(columns.is_none());
    let nnz = rows.idx.len();
    let threads = Geometry::of(&device)
        .wide_threads
        .min(kernels::THREADS as u32);
    let resident = device.max_resident_blocks(kernels::eliminate_panels::desc(), threads, 0)?;
    let blocks = resident.clamp(1, n as u32);
    let config = LaunchConfig::linear(blocks, threads);
    // What most matrices need, with which everything takes less than ten times the bytes of B; a little more where
    // that is next to nothing.
    let most = (13 * nnz / 4).min(SMALL_POOL);
    let mut entries = (2 * nnz).max(most) as u64 + u64::from(256 * blocks);
    let mut nodes = (nnz / 32).max(FEWEST_NODES) as u64;
    loop {
        if entries.max(nodes) >= LARGEST_POOL {
            return Err(SymbolicError::OutOfMemory {
                row: 0,
                asked: ENTRY_BYTES * entries,
                available: ENTRY_BYTES * LARGEST_POOL,
            });
        }
        let of_vertices = CUT_BYTES + FOREST_BYTES + STRUCTURES_BYTES + ELIMINATION_BYTES;
        let of_pool = ENTRY_BYTES * entries + NODE_BYTES * nodes;
        ledger.need(transposed + n as u64 * of_vertices + of_pool)?;
        let mut waiting = stream.alloc::<u32>(n)?;
        stream.copy(&mut waiting, &forest.children)?;
        let mut counters = stream.alloc_zeroed::<u64>(kernels::COUNTERS)?;
        let mut index = stream.alloc::<u32>(entries as usize)?;
        let mut mask = stream.alloc::<u64>(entries as usize)?;
        let mut node_panel = stream.alloc::<u32>(nodes as usize)?;
        let mut node_next = stream.alloc::<u32>(nodes as usize)?;
        let lower_panels = if columns.is_some() { n } else { 0 };
        let mut at = stream.alloc::<u32>(n)?;
        let mut upper_len = stream.alloc::<u32>(n)?;
        let mut lower_len = stream.alloc::<u32>(lower_panels)?;
        let mut upper_head = none(stream, n)?;
        let mut lower_head = none(stream, lower_panels)?;
        let mut diagonal = stream.alloc::<u64>(n)?;
        let mut meets = stream.alloc::<u32>(n)?;
        let mut live = stream.alloc::<u64>(n)?;
        let panels = PanelsBuffers {
            num_panels: &cut.num_panels,
            panel_start: &cut.panel_start,
            panel_of: &cut.panel_of,
            panel_parent: &forest.panel_parent,
            child_ptr: &forest.child_ptr,
            child: &forest.child,
        };
        let links = PanelLinksBuffers {
            waiting: &mut waiting,
            counters: &mut counters,
            upper_head: &mut upper_head,
            lower_head: &mut lower_head,
            node_panel: &mut node_panel,
            node_next: &mut node_next,
            meets: &mut meets,
            live: &mut live,
        };
        let made = NewStructuresBuffers {
            index: &mut index,
            mask: &mut mask,
            at: &mut at,
            upper_len: &mut upper_len,
            lower_len: &mut lower_len,
            diagonal: &mut diagonal,
        };
        // SAFETY: rows and columns of B are sorted; the forest is that of B; counters and lists are empty.
        unsafe {
            kernels::eliminate_panels::launch(
                stream,
                &config,
                symmetric,
                options.round,
                options.base_min,
                pattern(rows, columns),
                panels,
                links,
                made,
            )?;
        }
        let asked = stream.download(&counters)?;
        report.num_panels = asked[kernels::PANELS] as usize;
        report.pool_entries = asked[kernels::ENTRIES];
        report.list_nodes = asked[kernels::NODES];
        if report.pool_entries <= entries && report.list_nodes <= nodes {
            return Ok(Structures {
                symmetric,
                index,
                mask,
                at,
                upper_len,
                lower_len,
                diagonal,
            });
        }
        // What was asked for is a lower bound: panels without room brought nothing.
        if report.pool_entries > entries {
            entries = (report.pool_entries + report.pool_entries / 4).max(entries + entries / 2);
        }
        if report.list_nodes > nodes {
            nodes = report.list_nodes.max(2 * nodes);
        }
        report.restarts += 1;
    }
}

/// Offsets and sorted columns of the rows of L+U.
fn expand_rows(
    stream: &Stream,
    cut: &Cut,
    num_panels: usize,
    structures: &Structures,
    ledger: &mut Ledger,
) -> Result<(Buffer<u64>, Buffer<u32>), SymbolicError> {
    let n = cut.panel_of.len();
    let device = stream.device();
    let geometry = Geometry::of(&device);
    let config = geometry.persistent_threads(&device, expand::offset_rows::desc(), n)?;
    let mut sums = stream.alloc::<u64>(config.grid[0] as usize)?;
    let mut barrier = primitives::grid_barrier(stream)?;
    let mut row_len = stream.alloc::<u32>(n)?;
    let mut num_runs = stream.alloc::<u32>(n)?;
    let mut row_ptr = stream.alloc::<u64>(n + 1)?;
    let mut run_ptr = stream.alloc::<u64>(n + 1)?;
    let offsets = RowOffsetsBuffers {
        row_len: &mut row_len,
        num_runs: &mut num_runs,
        row_ptr: &mut row_ptr,
        run_ptr: &mut run_ptr,
    };
    // SAFETY: the structures are whole; the barrier is zero; the blocks are resident together.
    unsafe {
        expand::offset_rows::launch(
            stream,
            &config,
            structures.symmetric,
            &cut.num_panels,
            &cut.panel_start,
            structures.buffers(),
            &mut sums,
            offsets,
            &mut barrier,
        )?;
    }
    drop(row_len);
    let nnz = stream.download(&row_ptr.slice(n..))?[0];
    let total_runs = stream.download(&run_ptr.slice(n..))?[0];
    let words = n / 32 + 1;
    let blocks = geometry.persistent_blocks;
    ledger.need(
        n as u64 * (CUT_BYTES + STRUCTURES_BYTES + ROWS_BYTES)
            + ENTRY_BYTES * structures.index.len() as u64
            + RUN_BYTES * total_runs
            + 4 * words as u64 * u64::from(blocks),
    )?;
    let mut runs = stream.alloc::<u64>(total_runs as usize)?;
    let mut col_idx = stream.alloc::<u32>(nnz as usize)?;
    let mut long = stream.alloc::<u32>(n)?;
    let mut long_counters = stream.alloc_zeroed::<u32>(LONG_COUNTERS)?;
    let mut bits = stream.alloc_zeroed::<u32>(words * blocks as usize)?;
    // SAFETY: offsets and arrays are those that the counts gave.
    unsafe {
        expand::place_runs::launch(
            stream,
            &geometry.warps_for(num_panels),
            structures.symmetric,
            &cut.num_panels,
            &cut.panel_start,
            structures.buffers(),
            &run_ptr,
            &mut num_runs,
            &mut runs,
        )?;
        let by_row = geometry.strided(n, 1);
        sort::sort_rows_u64::launch(stream, &by_row, expand::LONG, &run_ptr, &mut runs)?;
        expand::expand_rows::launch(
            stream,
            &geometry.warps_for(n),
            &cut.panel_start,
            &cut.panel_of,
            structures.buffers(),
            RunsBuffers {
                run_ptr: &run_ptr,
                runs: &runs,
                row_ptr: &row_ptr,
            },
            &mut col_idx,
            &mut long,
            &mut long_counters,
        )?;
        expand::expand_long_rows::launch(
            stream,
            &LaunchConfig::linear(blocks, geometry.threads),
            &cut.panel_start,
            &cut.panel_of,
            structures.buffers(),
            RunsBuffers {
                run_ptr: &run_ptr,
                runs: &runs,
                row_ptr: &row_ptr,
            },
            &mut col_idx,
            LongRowsBuffers {
                rows: &long,
                counters: &mut long_counters,
                bits: &mut bits,
                words: words as u32,
            },
        )?;
    }
    Ok((row_ptr, col_idx))
}
