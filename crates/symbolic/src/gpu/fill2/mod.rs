//! The filled pattern on the device: fill2 from many sources at once, row sort, columns.
//!
//! Sources are walked from in batches, one launch each, in the memory of a
//! [`FrontierPool`]: as many at once as a byte budget holds. What a source cannot reach gets no
//! memory: below the source what lies before the smallest range of pivots that ends with it and that
//! no entry joins to a smaller one, above it what lies behind the last neighbour of that range.
//!
//! | stages | how |
//! |---|---|
//! | [`Stages::Two`] | count the rows, prefix sum, walk again and write the columns |
//! | [`Stages::Fused`] | the walk that counts also writes the entries it finds to a log in the arena, from where they go to their rows; rows from the batch on that the log had no room for are walked again |
//! | [`Stages::Auto`] | fused, if the budget has room for a log that is worth it |
//!
//! Several devices share the sources ([`dealing`]). Each walks from those that it was dealt, with memory of its own, and has
//! their rows one after another; the first one brings the rows of all together.

mod dealing;

use std::ops::Range;
use std::time::Instant;

use luge_device::{Buffer, LaunchConfig, SliceMut, Stream};
use luge_frontier_pool::{
    Batch, Demand, FrontierPool, Measured, PoolError, PoolOptions, PoolStatistics, Queues, Shape,
    largest_arena,
};
use luge_gpu_kernels::grid::GRID_BARRIER_WORDS;
use luge_gpu_kernels::symbolic::fill2::{self as kernels, BatchBuffers, FrontiersBuffers};
use luge_gpu_kernels::symbolic::merge;
use luge_kernel::host::KernelDesc;
use luge_sparse::{CancelFlag, CompressedPattern, beside};
use serde::Serialize;

use dealing::{Group, Share};

use super::filled::DeviceFilled;
use super::geometry::Geometry;
use super::primitives;
use crate::assert_square;
use crate::error::SymbolicError;
use crate::forest;

/// Longest row that a warp walks together with others; longer ones are walked by whole blocks.
const LONG_ROW: u32 = 1024;

/// Bytes of the arena, unless the caller says otherwise.
const DEFAULT_BUDGET: u64 = 16 << 30;

/// Bytes of page-locked host memory for the stacks of [`Parallelism::Coarse`], unless the caller says otherwise.
const DEFAULT_HOST_BUDGET: u64 = 256 << 20;

/// Entries of L+U for each of B that a log should have room for to be worth its memory: rows that it has no room
/// for are walked twice, with what the log left of the arena.
const WORTHWHILE_FILL: u64 = 16;

/// Words between what all blocks wait for and what they count with: a line of the cache, so that
/// waiting does not disturb counting.
const LINE: usize = 16;

/// Word of the control words where the barrier is.
const BARRIER: usize = kernels::CONTROL_WORDS + LINE;

/// Words of the arena that the kernels need.
const SHAPE: Shape = Shape {
    control_words: BARRIER + GRID_BARRIER_WORDS.div_ceil(2) + LINE,
    slot_words: kernels::SLOT_WORDS,
};

/// How the columns come to their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stages {
    /// Two walks: one counts, one writes.
    Two,
    /// One walk for the rows whose entries fit a log, two for the others. The log is a quarter of the budget, or
    /// what the walks have no use for.
    Fused,
    /// [`Stages::Fused`] if the log has room for sixteen times the entries of B, [`Stages::Two`] otherwise.
    #[default]
    Auto,
}

/// Which threads work on a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parallelism {
    /// All threads on the frontiers of all sources.
    #[default]
    Fine,
    /// One thread a source, by the sequential fill2; for comparison. Always in two stages.
    Coarse,
}

/// What a caller may set for [`fill2`].
#[derive(Debug, Clone, Default)]
pub struct Fill2Options {
    /// Most bytes of device memory for walking, beside the pattern and the result; `None`: half of
    /// what is available, up to 16 GiB. Less is used where more does not help.
    pub budget_bytes: Option<u64>,
    /// Most bytes of page-locked host memory for frontiers that the device has no room for; they are allocated
    /// when they are needed. `None`: no bytes, frontiers without room are then found by their bits; with
    /// [`Parallelism::Coarse`], which has none, 256 MiB.
    pub host_budget_bytes: Option<u64>,
    /// Most sources at work at once; `None`: as many as the budget holds.
    pub max_sources: Option<u32>,
    /// How the columns come to their rows.
    pub stages: Stages,
    /// Which threads work on a source.
    pub parallelism: Parallelism,
    /// Whether to look if a vertex is in the row before its `max_id` is lowered (gSoFa, line 9.5),
    /// instead of after. Both tests read the same word here.
    pub fill_first: bool,
    /// Stops the phase at the next batch of sources when raised.
    pub cancel: CancelFlag,
}

/// Seconds of the parts of [`fill2`].
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Fill2Seconds {
    /// What each source can reach, memory, and the upload of the pattern.
    pub setup: f64,
    /// The first walk, and the prefix sum of its counts.
    pub count: f64,
    /// Bringing logged entries to their rows.
    pub place: f64,
    /// The second walk.
    pub positions: f64,
    /// Sorting the rows.
    pub sort: f64,
    /// Bringing the rows of several devices together.
    pub collect: f64,
    /// The columns and maps that later phases use.
    pub columns: f64,
}

/// What [`fill2`] did.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Fill2Report {
    /// What the frontier pool did.
    pub pool: PoolStatistics,
    /// Bytes kept aside for the log of entries, part of the arena.
    pub log_bytes: u64,
    /// Rows whose entries came from the log; the others were walked twice.
    pub fused_rows: u64,
    /// Edges walked in all stages; zero in [`Parallelism::Coarse`].
    pub traversed_edges: u64,
    /// Devices that shared the sources.
    pub devices: usize,
    /// Time of each part; where several devices work side by side, that of the slowest.
    pub seconds: Fill2Seconds,
}

impl Fill2Report {
    /// Adds what another device did beside this one.
    fn add(&mut self, other: &Self) {
        let (own, others) = (&mut self.seconds, &other.seconds);
        for (own, other) in [
            (&mut own.setup, others.setup),
            (&mut own.count, others.count),
            (&mut own.place, others.place),
            (&mut own.positions, others.positions),
            (&mut own.sort, others.sort),
        ] {
            *own = own.max(other);
        }
        self.pool.add(&other.pool);
        self.log_bytes += other.log_bytes;
        self.fused_rows += other.fused_rows;
        self.traversed_edges += other.traversed_edges;
        self.devices += other.devices;
    }
}

/// What each source can reach: vertices from `first` to `last`.
#[derive(Debug)]
struct Reach {
    first: Vec<u32>,
    last: Vec<u32>,
}

impl Reach {
    fn of(pattern: &CompressedPattern) -> Self {
        let first = forest::first_descendants(pattern);
        let last = forest::last_reached(pattern, &first);
        Self { first, last }
    }

    /// What the sources of a share need.
    fn demand(&self, share: Share) -> Demand {
        Demand::new(share.sources().map(|src| {
            let (first, last) = (self.first[src], self.last[src]);
            (src as u32 - first, last - src as u32)
        }))
    }
}

/// Entries in the rows of L+U of these sources, at most.
fn most_entries(demand: &Demand) -> u64 {
    let all = 0..demand.num_sources();
    demand.labels(all.clone()) + demand.marks(all.clone()) + all.len() as u64
}

/// The smallest budget that [`fill2`] works with, in bytes: one byte less does not.
///
/// # Panics
///
/// If `pattern` is not square.
#[track_caller]
pub fn smallest_budget(pattern: &CompressedPattern, options: &Fill2Options) -> u64 {
    assert_square(pattern);
    let options = pool_options(pattern.major_dim(), 0, options);
    let all = Share::of(pattern.major_dim(), 0, 1);
    FrontierPool::smallest_budget(&Reach::of(pattern).demand(all), &options)
}

fn pool_options(n: usize, budget_bytes: u64, options: &Fill2Options) -> PoolOptions {
    let (queues, host_budget) = match options.parallelism {
        Parallelism::Fine => (Queues::Partial, 0),
        Parallelism::Coarse => (Queues::Whole, DEFAULT_HOST_BUDGET),
    };
    PoolOptions {
        budget_bytes,
        queues,
        host_budget_bytes: options.host_budget_bytes.unwrap_or(host_budget),
        max_sources: options.max_sources.map_or(usize::MAX, |most| most as usize),
        shape: SHAPE,
        aside_words: 0,
        window: n.max(1) as u32,
    }
}

/// Words for the log of entries: none in two stages.
fn log_words(
    pattern: &CompressedPattern,
    demand: &Demand,
    pool: &PoolOptions,
    options: &Fill2Options,
) -> usize {
    let smallest = FrontierPool::smallest_budget(demand, pool);
    let spare = pool.budget_bytes.saturating_sub(smallest) / 8;
    // The first word counts the entries.
    let most = most_entries(demand) + 1;
    let all_else = largest_arena(demand, SHAPE) / 8;
    let unused = (pool.budget_bytes / 8).saturating_sub(all_else);
    // More would leave the walks too few sources, and queues that are too small.
    let words = most.min((spare / 4).max(unused));
    // A log without room for an entry is none.
    let least = match (options.parallelism, options.stages) {
        (Parallelism::Coarse, _) | (_, Stages::Two) => return 0,
        (_, Stages::Fused) => 2,
        (_, Stages::Auto) => most.min(WORTHWHILE_FILL * pattern.nnz() as u64).max(2),
    };
    if words < least { 0 } else { words as usize }
}

impl From<PoolError> for SymbolicError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::BudgetTooSmall {
                source_id,
                smallest,
                available,
            } => SymbolicError::OutOfMemory {
                row: source_id,
                asked: smallest,
                available,
            },
            PoolError::Device(error) => SymbolicError::Device(error),
        }
    }
}

/// A batch, as its kernel is given it.
struct Walk<'a, 'r> {
    config: &'a LaunchConfig,
    /// The end of its sources.
    end: usize,
    batch: BatchBuffers<'a>,
    frontiers: FrontiersBuffers<'a>,
    /// What is kept aside of the arena.
    aside: SliceMut<'r, u64>,
}

/// What every batch is walked with.
struct Input<'a> {
    stream: &'a Stream,
    geometry: Geometry,
    options: &'a Fill2Options,
    group: &'a Group,
    share: Share,
    n: usize,
    row_ptr: Buffer<u64>,
    col_idx: Buffer<u32>,
    first: &'a [u32],
}

impl Input<'_> {
    /// Calls `stage`, which launches `kernel`, for one batch of `sources` after another; between them looks
    /// at the cancel flag and reports how much of the two stages is done. Answers how many edges were walked.
    fn for_each_batch(
        &self,
        pool: &mut FrontierPool,
        sources: Range<usize>,
        kernel: &'static KernelDesc,
        mut stage: impl FnMut(Walk<'_, '_>) -> Result<(), SymbolicError>,
    ) -> Result<u64, SymbolicError> {
        let device = self.stream.device();
        let resident = device.max_resident_blocks(kernel, self.geometry.threads, 0)?;
        let mut edges = 0;
        let mut first = sources.start;
        while first < sources.end {
            self.group.cancel.check()?;
            let done = self.group.done();
            tracing::debug!(target: "luge::progress", done, total = 2 * self.n as u64);
            let batch = pool.plan(first, sources.end);
            let slots = self.slots(&batch, pool.demand());
            // A warp for each frontier that there can be, if so many are resident together.
            let frontiers = (batch.labels as usize).max(batch.sources.len());
            let blocks = self.geometry.warps_for(frontiers).grid[0].min(resident.max(1));
            let mut config = LaunchConfig::linear(blocks, self.geometry.threads);
            if self.options.parallelism == Parallelism::Fine {
                config = config.cooperative();
            }
            let mut regions = pool.open(&batch)?;
            self.stream.copy_from_host(&mut regions.slots, &slots)?;
            let (mut control, mut barrier) = counters_and_barrier(&mut regions.control);
            stage(Walk {
                config: &config,
                end: batch.sources.end,
                batch: BatchBuffers {
                    first_source: batch.sources.start as u32,
                    num_sources: batch.sources.len() as u32,
                    stride: self.share.stride,
                    offset: self.share.offset,
                    base: regions.base,
                    row_ptr: &self.row_ptr,
                    col_idx: &self.col_idx,
                    slots: &regions.slots,
                    labels: &mut regions.labels,
                    above: &mut regions.marks,
                    queue: &mut regions.queue,
                    spill: &mut regions.spill,
                },
                frontiers: FrontiersBuffers {
                    fill_first: self.options.fill_first.into(),
                    long_row: LONG_ROW,
                    queued: &mut regions.queued,
                    control: &mut control,
                    barrier: &mut barrier,
                },
                aside: regions.aside,
            })?;
            let counters = control.slice(..kernels::CONTROL_WORDS);
            let control = self.stream.download(&counters)?;
            edges += control[kernels::CONTROL_EDGES];
            pool.close(
                &batch,
                Measured {
                    iterations: control[kernels::CONTROL_ITERATIONS],
                    peak_entries: control[kernels::CONTROL_PEAK],
                    spilled_entries: control[kernels::CONTROL_SPILLED],
                    rescans: control[kernels::CONTROL_RESCANS],
                },
            );
            first = batch.sources.end;
            self.group.add_done(batch.sources.len());
        }
        Ok(edges)
    }

    /// For each slot of a batch what to add, modulo 2⁶⁴, to a vertex below the source to find its label,
    /// and to one above it to find its mark.
    fn slots(&self, batch: &Batch, demand: &Demand) -> Vec<u64> {
        let start = batch.sources.start;
        batch
            .sources
            .clone()
            .flat_map(|number| {
                let labels = demand.labels(start..number);
                let marks = demand.marks(start..number);
                let src = self.share.source(number);
                [
                    labels.wrapping_sub(self.first[src].into()),
                    marks.wrapping_sub(src as u64 + 1),
                ]
            })
            .collect()
    }

    /// Walks from the sources of the share and counts their rows. The counts of other rows are zero.
    fn count(&self, pool: &mut FrontierPool) -> Result<(Buffer<u32>, Counted), SymbolicError> {
        let Self { stream, n, .. } = *self;
        let mut counts = stream.alloc_zeroed::<u32>(n)?;
        let mut counted = Counted::default();
        let coarse = self.options.parallelism == Parallelism::Coarse;
        let mut log_is_open = {
            let mut log = pool.aside();
            if !log.is_empty() {
                stream.fill_zero(&mut log.slice_mut(..1))?;
            }
            !log.is_empty()
        };
        let kernel = if coarse {
            kernels::fill2_count_coarse::desc()
        } else {
            kernels::fill2_count::desc()
        };
        let all = 0..self.share.len;
        let edges = self.for_each_batch(pool, all, kernel, |mut walk| {
            if coarse {
                // SAFETY: the pattern is valid, `slots` are those of the batch, and the pool vouches
                // for the rest.
                unsafe {
                    kernels::fill2_count_coarse::launch(
                        stream,
                        walk.config,
                        walk.batch,
                        &mut counts,
                    )?;
                }
                return Ok(());
            }
            let words = if log_is_open { walk.aside.len() } else { 0 };
            let mut log = walk.aside.slice_mut(..words);
            // SAFETY: the pattern is valid, `slots` are those of the batch, and the pool vouches for
            // the rest.
            unsafe {
                kernels::fill2_count::launch(
                    stream,
                    walk.config,
                    walk.batch,
                    walk.frontiers,
                    &mut counts,
                    &mut log,
                )?;
            }
            if log_is_open {
                let entries = stream.download(&log.slice(..1))?[0];
                log_is_open = entries < log.len() as u64;
                if log_is_open {
                    counted.entries = entries;
                    counted.logged = walk.end;
                }
            }
            Ok(())
        })?;
        counted.edges = edges;
        self.group.add_done(counted.logged);
        Ok((counts, counted))
    }

    /// Walks again from some sources and writes the columns of their rows; answers the edges walked.
    fn positions(
        &self,
        pool: &mut FrontierPool,
        sources: Range<usize>,
        filled_ptr: &Buffer<u64>,
        taken: &mut Buffer<u32>,
        filled_idx: &mut Buffer<u32>,
    ) -> Result<u64, SymbolicError> {
        let stream = self.stream;
        let coarse = self.options.parallelism == Parallelism::Coarse;
        let kernel = if coarse {
            kernels::fill2_positions_coarse::desc()
        } else {
            kernels::fill2_positions::desc()
        };
        self.for_each_batch(pool, sources, kernel, |walk| {
            if coarse {
                // SAFETY: as in the first stage, and `filled_ptr` is the prefix sum of its counts.
                unsafe {
                    kernels::fill2_positions_coarse::launch(
                        stream,
                        walk.config,
                        walk.batch,
                        filled_ptr,
                        filled_idx,
                    )?;
                }
                return Ok(());
            }
            // SAFETY: as in the first stage, and `filled_ptr` is the prefix sum of its counts; `taken`
            // is zero for these sources.
            unsafe {
                kernels::fill2_positions::launch(
                    stream,
                    walk.config,
                    walk.batch,
                    walk.frontiers,
                    filled_ptr,
                    taken,
                    filled_idx,
                )?;
            }
            Ok(())
        })
    }
}

/// What the first walk of a device left.
#[derive(Debug, Default)]
struct Counted {
    /// Edges walked.
    edges: u64,
    /// Sources of the share, from the first on, all of whose entries are in the log, and the number of those.
    logged: usize,
    entries: u64,
}

/// The counters of the kernels and their barrier.
fn counters_and_barrier<'a>(
    control: &'a mut SliceMut<'_, u64>,
) -> (SliceMut<'a, u64>, SliceMut<'a, u32>) {
    let (counters, barrier) = control.split_at_mut(BARRIER);
    let (barrier, _) = barrier.into_elements().into_split_at(GRID_BARRIER_WORDS);
    (counters, barrier)
}

/// Seconds since `start`, which becomes now.
fn lap(start: &mut Instant) -> f64 {
    let seconds = start.elapsed().as_secs_f64();
    *start = Instant::now();
    seconds
}

/// The rows that one device has walked from.
struct Rows {
    /// Where each row begins; those of other devices are empty.
    ptr: Buffer<u64>,
    /// The sorted columns.
    idx: Buffer<u32>,
}

/// Walks from the sources of a device's share. When it returns, what it has enqueued is done.
fn rows_of(
    stream: &Stream,
    share: Share,
    pattern: &CompressedPattern,
    reach: &Reach,
    group: &Group,
    options: &Fill2Options,
) -> Result<(Rows, Fill2Report), SymbolicError> {
    let n = pattern.major_dim();
    let mut report = Fill2Report {
        devices: 1,
        ..Fill2Report::default()
    };
    let mut start = Instant::now();
    let row_ptr = stream.upload(pattern.ptr())?;
    let col_idx = stream.upload(pattern.idx())?;
    let available = stream.device().available_bytes()?;
    let budget = options
        .budget_bytes
        .unwrap_or((available / 2).min(DEFAULT_BUDGET));
    let demand = reach.demand(share);
    let mut pool_options = pool_options(n, budget.min(available), options);
    pool_options.aside_words = log_words(pattern, &demand, &pool_options, options);
    report.log_bytes = 8 * pool_options.aside_words as u64;
    let mut pool = FrontierPool::new(stream, demand, &pool_options)?;
    let input = Input {
        stream,
        geometry: Geometry::of(&stream.device()),
        options,
        group,
        share,
        n,
        row_ptr,
        col_idx,
        first: &reach.first,
    };
    report.seconds.setup = lap(&mut start);

    let (mut taken, counted) = input.count(&mut pool)?;
    report.traversed_edges = counted.edges;
    report.fused_rows = counted.logged as u64;
    let ptr = primitives::exclusive_scan_u32(stream, &taken)?;
    let nnz = stream.download(&ptr.slice(n..))?[0];
    tracing::debug!(
        offset = share.offset,
        nnz,
        logged = counted.entries,
        "rows counted"
    );
    report.seconds.count = lap(&mut start);

    let mut idx = stream.alloc::<u32>(nnz as usize)?;
    // From now on the entries of each row that have found their place.
    stream.fill_zero(&mut taken)?;
    if counted.entries > 0 {
        let log = pool.aside();
        let config = input.geometry.threads_for(counted.entries as usize);
        // SAFETY: the log holds that many entries of rows below n, and `ptr` is the prefix sum of the counts, which
        // count them.
        unsafe {
            kernels::fill2_place::launch(
                stream,
                &config,
                counted.entries,
                &log,
                &ptr,
                &mut taken,
                &mut idx,
            )?;
        }
        stream.synchronize()?;
    }
    report.seconds.place = lap(&mut start);
    let rest = counted.logged..share.len;
    report.traversed_edges += input.positions(&mut pool, rest, &ptr, &mut taken, &mut idx)?;
    report.seconds.positions = lap(&mut start);
    report.pool = pool.statistics();
    // Make room before the columns are built.
    drop((pool, taken, input));
    // SAFETY: the rows lie one after another in `idx`, each of distinct columns below n.
    unsafe { primitives::sort_distinct_rows(stream, n, &ptr, &mut idx)? };
    stream.synchronize()?;
    report.seconds.sort = lap(&mut start);
    Ok((Rows { ptr, idx }, report))
}

/// Brings the rows of all devices to the first one, on whose stream it is done.
fn collect(stream: &Stream, rows: Vec<Rows>) -> Result<(Buffer<u64>, Buffer<u32>), SymbolicError> {
    let mut here = Vec::with_capacity(rows.len());
    for rows in rows {
        here.push(if stream.reaches(&rows.idx) {
            rows
        } else {
            let mut ptr = stream.alloc::<u64>(rows.ptr.len())?;
            let mut idx = stream.alloc::<u32>(rows.idx.len())?;
            stream.copy_across(&mut ptr, &rows.ptr)?;
            stream.copy_across(&mut idx, &rows.idx)?;
            // Before the other device frees what is copied.
            stream.synchronize()?;
            Rows { ptr, idx }
        });
    }
    let geometry = Geometry::of(&stream.device());
    let len = here[0].ptr.len();
    let mut ptr = stream.alloc::<u64>(len)?;
    stream.copy(&mut ptr, &here[0].ptr)?;
    for rows in &here[1..] {
        // SAFETY: both are offsets of as many rows.
        unsafe {
            merge::add_offsets::launch(stream, &geometry.threads_for(len), &rows.ptr, &mut ptr)?;
        }
    }
    let nnz: usize = here.iter().map(|rows| rows.idx.len()).sum();
    let mut idx = stream.alloc::<u32>(nnz)?;
    for rows in &here {
        // SAFETY: the offsets ascend to the number of columns; those of all rows are their sum, since each row is one
        // device's.
        unsafe {
            merge::place_own_rows::launch(
                stream,
                &geometry.warps_for(len - 1),
                &rows.ptr,
                &rows.idx,
                &ptr,
                &mut idx,
            )?;
        }
    }
    stream.synchronize()?;
    Ok((ptr, idx))
}

/// As [`fill2_on`], on one device.
///
/// # Errors
///
/// As there.
///
/// # Panics
///
/// If `pattern` is not square.
#[track_caller]
pub fn fill2(
    stream: &Stream,
    pattern: &CompressedPattern,
    options: &Fill2Options,
) -> Result<(DeviceFilled, Fill2Report), SymbolicError> {
    fill2_on(std::slice::from_ref(stream), pattern, options)
}

/// The filled pattern of L+U for the square CSR `pattern` on the device of the first of `streams`, and how it was found; the
/// diagonal need not be stored in it. The devices of all streams share the sources, each within the budget.
///
/// The result does not depend on the options nor on the devices and their number. Reports progress by events with target
/// `luge::progress` and the fields `done` and `total`.
///
/// # Errors
///
/// [`SymbolicError::OutOfMemory`] with the smallest budget that works, and the row that needs it;
/// [`SymbolicError::Device`]; [`SymbolicError::Cancelled`].
///
/// # Panics
///
/// If `pattern` is not square, or there is no stream.
#[track_caller]
pub fn fill2_on(
    streams: &[Stream],
    pattern: &CompressedPattern,
    options: &Fill2Options,
) -> Result<(DeviceFilled, Fill2Report), SymbolicError> {
    assert_square(pattern);
    let Some((stream, others)) = streams.split_first() else {
        panic!("no device to walk on")
    };
    let n = pattern.major_dim();
    let span = tracing::debug_span!("fill2", n, nnz = pattern.nnz());
    let _entered = span.enter();
    options.cancel.check()?;
    if n == 0 {
        let report = Fill2Report::default();
        return Ok((DeviceFilled::empty(stream)?, report));
    }
    let mut start = Instant::now();
    let reach = Reach::of(pattern);
    let group = Group::new(&options.cancel);
    let reached = lap(&mut start);
    let work = |number: usize, stream: &Stream| {
        let share = Share::of(n, number, streams.len());
        let done = rows_of(stream, share, pattern, &reach, &group, options);
        // Nobody has a use for the rows of the others then.
        done.inspect_err(|_| group.cancel.cancel())
    };
    let others = (1..).zip(others);
    let others = others.map(|(number, stream)| {
        let work = &work;
        move || work(number, stream)
    });
    let (first, others) = beside(others, || work(0, stream));
    let (mut rows, mut report) = (Vec::new(), Fill2Report::default());
    let mut stopped = None;
    for done in std::iter::once(first).chain(others) {
        match done {
            Ok((own, of_device)) => {
                rows.push(own);
                report.add(&of_device);
            }
            // Of the others, which a device that failed has stopped.
            Err(error @ SymbolicError::Cancelled(_)) => stopped = Some(error),
            Err(error) => return Err(error),
        }
    }
    if let Some(stopped) = stopped {
        return Err(stopped);
    }
    report.seconds.setup += reached;
    start = Instant::now();
    let (ptr, idx) = if streams.len() > 1 {
        collect(stream, rows)?
    } else {
        let Rows { ptr, idx } = rows.swap_remove(0);
        (ptr, idx)
    };
    report.seconds.collect = lap(&mut start);
    // SAFETY: the rows are those of L+U, sorted, each with its diagonal entry.
    let filled = unsafe { DeviceFilled::from_rows(stream, n, ptr, idx)? };
    stream.synchronize()?;
    report.seconds.columns = lap(&mut start);
    Ok((filled, report))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(n: u32) -> CompressedPattern {
        let rows = (0..n).map(|i| [i.checked_sub(1), Some(i), Some(i + 1).filter(|&j| j < n)]);
        let (mut ptr, mut idx) = (vec![0], Vec::new());
        for row in rows {
            idx.extend(row.into_iter().flatten());
            ptr.push(idx.len() as u64);
        }
        CompressedPattern::new(n as usize, ptr, idx).unwrap()
    }

    #[test]
    fn a_slot_holds_what_its_source_can_reach() {
        let reach = Reach::of(&path(5));
        // All below, and the next one above.
        assert_eq!(reach.first, [0; 5]);
        let demand = reach.demand(Share::of(5, 0, 1));
        assert_eq!(demand.labels(0..5), 1 + 2 + 3 + 4);
        assert_eq!(demand.marks(0..5), 4);
        assert_eq!(most_entries(&demand), 10 + 4 + 5);
    }

    #[test]
    fn reports_of_devices_are_added() {
        let of = |devices: usize, seconds: f64| Fill2Report {
            log_bytes: 8 * devices as u64,
            fused_rows: 10 * devices as u64,
            traversed_edges: 100 * devices as u64,
            devices,
            seconds: Fill2Seconds {
                setup: seconds,
                count: 3.0 - seconds,
                place: seconds,
                positions: 3.0 - seconds,
                sort: seconds,
                ..Fill2Seconds::default()
            },
            ..Fill2Report::default()
        };
        let mut both = Fill2Report::default();
        both.add(&of(1, 1.0));
        both.add(&of(2, 2.0));
        // The slower one of each part.
        let seconds = Fill2Seconds {
            count: 2.0,
            positions: 2.0,
            ..of(3, 2.0).seconds
        };
        assert_eq!(
            both,
            Fill2Report {
                seconds,
                ..of(3, 2.0)
            }
        );
    }

    #[test]
    fn the_log_takes_what_the_stages_allow() {
        let pattern = path(1000);
        let demand = Reach::of(&pattern).demand(Share::of(1000, 0, 1));
        let words = |budget, stages, parallelism| {
            let options = Fill2Options {
                stages,
                parallelism,
                ..Fill2Options::default()
            };
            let pool = pool_options(1000, budget, &options);
            log_words(&pattern, &demand, &pool, &options)
        };
        let fine = |budget, stages| words(budget, stages, Parallelism::Fine);
        let smallest = smallest_budget(&pattern, &Fill2Options::default());
        let most = most_entries(&demand) as usize + 1;
        assert_eq!(fine(1 << 30, Stages::Two), 0);
        assert_eq!(words(1 << 30, Stages::Fused, Parallelism::Coarse), 0);
        assert_eq!(fine(1 << 30, Stages::Fused), most);
        assert_eq!(fine(1 << 30, Stages::Auto), most);
        assert_eq!(fine(smallest, Stages::Fused), 0);
        assert_eq!(fine(smallest + 63, Stages::Fused), 0);
        assert_eq!(fine(smallest + 64, Stages::Fused), 2);
        // Sixteen times 2998 entries in a quarter.
        assert_eq!(fine(smallest + 4 * 8 * 47_968 - 1, Stages::Auto), 0);
        assert_eq!(fine(smallest + 4 * 8 * 47_968, Stages::Auto), 47_968);
    }
}
