//! The tree engine of a device: the diagonal blocks of B as one forest of fronts, pivots searched within fronts.
//!
//! [`Forest`] is the plan on the host, by which memory is predicted; [`TreeAnalysis`] the same on the device; its engine
//! has the factors, and the values they were made of, on the device. New values are factorized in the memory of the
//! old factors. Two buffers of values take turns, so the old ones can be factorized again, with the same pivots,
//! where the new ones fail.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use luge_device::{Buffer, DeviceError, PinnedBuffer, Stream};
use luge_frontal::gpu::{
    DeviceFrontalError, DeviceFrontalLu, DeviceQuality, DeviceTree, MemoryPlan, Parts, Placement,
    Workspace,
};
use luge_frontal::{FrontalError, Symbolic, TreeOptions};
use luge_numeric::cpu::columns::{self, ColumnLu};
use luge_solve::backward_error::Residual;
use luge_solve::gpu::{
    self as solve_gpu, DeviceMatrix, DevicePattern, Measures, Refined, Residuals,
};
use luge_solve::refine;
use luge_sparse::etree::EliminationForest;
use luge_sparse::{
    CompressedPattern, FilledPattern, Levels, PivotPolicy, RealScalar, RowPerm, Scalar,
};

use crate::accuracy::of_growth;
use crate::backend::gpu::GpuBackend;
use crate::backend::{DeviceCosts, Limits};
use crate::determinant::Determinant;
use crate::device_analysis::{
    AnyDeviceAnalysis, AnyDeviceEngine, BatchBytes, IdleSearches, NewValues, ResidentEngine,
    Search, SearchedPivots, System,
};
use crate::engine::{self, Condition, Engine, FactorReport, Transform};
use crate::error::{Error, PhaseError};
use crate::inform::Inform;
use crate::permuted::permuted_columns_shared;
use crate::probe::{is_above, worst_row};
use crate::shared::Shared;
use crate::stored::Rows;
use crate::task::Check;
use crate::threads::Threads;

/// The diagonal is taken as a pivot if it reaches this fraction of the largest candidate of its front. Exchanges within
/// a front cost no fill.
const FRONT_THRESHOLD: f64 = 0.1;

/// Bytes on the device of an entry right of the diagonal blocks, beside its value: where it comes from, its scaling, and
/// its place and number in the lists of two directions.
const COUPLING_BYTES: usize = (2 + 2 * 2) * 4;

/// Bytes on the device of a row of a system with a known solution: right-hand side, solution, residual.
const KNOWN_BYTES_PER_ROW: usize = 3 * 8;

/// Bytes of the words that measures and searches leave, at most.
const SMALL_BUFFERS: u64 = 256;

/// The plan for a pattern on the host.
pub(crate) struct Forest {
    symbolic: Arc<Symbolic>,
    memory: MemoryPlan,
    transform: Transform,
    block_ptr: Vec<usize>,
    /// B by columns, and the place of each entry among those of A, as it is stored.
    columns: Arc<CompressedPattern>,
    source: Arc<Vec<u32>>,
    /// Place in A of each entry of the tree.
    entries: Arc<Vec<u32>>,
    /// The rows of B right of its diagonal blocks.
    coupling: Arc<CompressedPattern>,
    coupling_entries: Vec<u32>,
    single: bool,
    seconds: f64,
}

/// The analysis for the tree engine: the plan on the device, and what solves and refinement need beside it.
pub(crate) struct TreeAnalysis {
    forest: Arc<Forest>,
    on_device: Arc<DeviceTree>,
    /// All work of its engines is on it, in order.
    stream: Stream,
    /// Those of the host that share in copies.
    threads: Threads,
    patterns: Arc<Patterns>,
    /// What its engines work in, if they share it; each its own otherwise.
    scratch: Option<Arc<Scratch>>,
    /// Seconds of transfers before the plan was made.
    earlier_transfers: f64,
    upload_seconds: f64,
}

/// A's pattern for products with A and with Aᵀ, on the device once somebody needs it.
#[derive(Default)]
struct Patterns {
    of: Mutex<[Option<Arc<DevicePattern>>; 2]>,
}

/// What engines on one stream work in, one after another.
struct Scratch {
    lu: TreeWorkspace,
    known: Mutex<Option<Known>>,
    idle: IdleSearches,
}

/// In the type of the factors.
enum TreeWorkspace {
    Single(Arc<Workspace<f32>>),
    Double(Arc<Workspace<f64>>),
}

/// A system whose solution is known, and what comes of solving it.
struct Known {
    x: Buffer<f64>,
    b: Buffer<f64>,
    residual: Buffer<f64>,
    residuals: Residuals,
    measures: PinnedBuffer<u64>,
}

/// Factors in the type that was asked for.
enum TreeLu {
    Single(DeviceFrontalLu<f32>),
    Double(DeviceFrontalLu<f64>),
}

struct TreeEngine {
    analysis: Arc<TreeAnalysis>,
    scratch: Arc<Scratch>,
    /// A solve works in memory of the factors.
    lu: Mutex<TreeLu>,
    /// The values of A in stored order.
    values: Buffer<f64>,
    /// For other values, once there were some.
    spare: Option<Buffer<f64>>,
    pivots: PivotPolicy,
    quality: DeviceQuality,
    /// How `spare` was factorized, and with which scale, until the values that came after it are kept.
    previous: Option<(PivotPolicy, DeviceQuality, f64)>,
}

impl Forest {
    /// Analyzes the diagonal blocks of B for the pattern of A; `elimination` is what is known of them.
    pub(crate) fn analyze(
        a: &Rows<'_>,
        transform: Transform,
        block_ptr: Vec<usize>,
        elimination: Option<&EliminationForest>,
        single: bool,
        threads: usize,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let make = || {
            let entries = a.entries.as_deref();
            let (columns, source) =
                permuted_columns_shared(&a.pattern, entries, &transform, threads);
            let parts = Parts::new(columns, source, &block_ptr, threads);
            (Arc::clone(&parts.blocks), parts)
        };
        let options = TreeOptions::default();
        let analyzed = match elimination {
            Some(forest) => Symbolic::analyze_posted_beside(make, forest, &options, threads),
            None => {
                let (blocks, parts) = make();
                Symbolic::analyze(&blocks, &options).map(|tree| (tree, parts))
            }
        };
        Self::of_tree(analyzed, transform, block_ptr, single, start)
    }

    fn of_columns(
        columns: CompressedPattern,
        source: Vec<u32>,
        transform: Transform,
        block_ptr: Vec<usize>,
        single: bool,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let parts = Parts::new(columns, source, &block_ptr, 1);
        let tree = Symbolic::analyze(&parts.blocks, &TreeOptions::default());
        let analyzed = tree.map(|tree| (tree, parts));
        Self::of_tree(analyzed, transform, block_ptr, single, start)
    }

    fn of_tree(
        analyzed: Result<(Symbolic, Parts), FrontalError>,
        transform: Transform,
        block_ptr: Vec<usize>,
        single: bool,
        start: Instant,
    ) -> Result<Self, Error> {
        let (tree, parts) = analyzed.map_err(|e| match e {
            FrontalError::IndexOverflow(e) => Error::IndexOverflow(e),
            other => unreachable!("an analysis of a square pattern: {other}"),
        })?;
        Ok(Self {
            memory: MemoryPlan::new(&tree),
            symbolic: Arc::new(tree),
            transform,
            block_ptr,
            columns: parts.columns,
            source: parts.source,
            entries: parts.entries,
            coupling: parts.coupling,
            coupling_entries: parts.coupling_entries,
            single,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Predicted bytes on the device: tree, factors, elements, the values of A twice, its pattern, and what a probe works
    /// in.
    pub(crate) fn device_bytes(&self) -> u64 {
        let value_bytes = if self.single { 4 } else { 8 };
        let values = 2 * size_of::<f64>() * self.source.len();
        let couplings = (COUPLING_BYTES + value_bytes) * self.coupling.nnz();
        let (n, nnz) = (self.symbolic.n(), self.source.len());
        DeviceTree::predicted_bytes(&self.symbolic, &self.memory, value_bytes)
            + DevicePattern::predicted_bytes(n, nnz)
            + (values + couplings + KNOWN_BYTES_PER_ROW * n) as u64
    }

    /// Copies the plan to the device. `count` of `threads` share the work, if it is above 1 in their pool.
    pub(crate) fn upload(
        self,
        backend: &GpuBackend,
        threads: &Threads,
        count: usize,
    ) -> Result<Arc<TreeAnalysis>, Error> {
        let stream = backend.stream().clone();
        let earlier_transfers = stream.device().transfers().seconds;
        let start = Instant::now();
        let Transform {
            row_perm,
            col_perm,
            scaling,
        } = &self.transform;
        let placement = Placement {
            row_perm,
            col_perm,
            scaling,
            entries: &self.entries,
            block_ptr: &self.block_ptr,
            coupling: &self.coupling,
            coupling_entries: &self.coupling_entries,
        };
        let on_device =
            DeviceTree::upload(&stream, &self.symbolic, &self.memory, &placement, count)
                .map_err(|e| Error::from_device(e, "symbolic"))?;
        Ok(Arc::new(TreeAnalysis {
            on_device: Arc::new(on_device),
            forest: Arc::new(self),
            stream,
            threads: threads.clone(),
            patterns: Arc::default(),
            scratch: None,
            earlier_transfers,
            upload_seconds: start.elapsed().as_secs_f64(),
        }))
    }
}

fn numeric_error(error: DeviceFrontalError) -> Error {
    match error {
        DeviceFrontalError::ZeroPivot { column } => Error::ZeroPivot { column },
        DeviceFrontalError::NotFinite { column } => Error::Overflow { column },
        DeviceFrontalError::NoPivots { column } => Error::ZeroPivot { column },
        DeviceFrontalError::NotPositiveDefinite { column, value } => Error::NotPositiveDefinite {
            column,
            pivot: value,
        },
        DeviceFrontalError::IndexOverflow(e) => Error::IndexOverflow(e),
        DeviceFrontalError::Device(e) => Error::from_device(e, "numeric"),
    }
}

fn solve_error(error: DeviceFrontalError) -> Error {
    match error {
        DeviceFrontalError::Device(e) => Error::from_device(e, "solve"),
        other => numeric_error(other),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Patterns {
    /// The pattern of A, or of Aᵀ, for products with it.
    fn get(
        &self,
        stream: &Stream,
        shared: &Shared,
        transpose: bool,
    ) -> Result<Arc<DevicePattern>, Error> {
        // A triangle was completed to a matrix that is its own transpose.
        let source = shared.symmetry.as_ref().and_then(|known| known.source());
        let transpose = transpose && source.is_none();
        let slot = &mut lock(&self.of)[usize::from(transpose)];
        if let Some(pattern) = slot {
            return Ok(Arc::clone(pattern));
        }
        // Copies from the host are done when they return, so other streams see them.
        let (rows, by_rows) = (&shared.pattern, !shared.by_columns);
        let pattern = match source {
            Some(source) => {
                DevicePattern::upload_mapped(stream, rows, source, shared.stored_nnz())?
            }
            None => DevicePattern::upload(stream, rows, by_rows, transpose)?,
        };
        Ok(Arc::clone(slot.insert(Arc::new(pattern))))
    }
}

impl Scratch {
    fn new(stream: &Stream, tree: &DeviceTree, single: bool) -> Result<Self, DeviceFrontalError> {
        Ok(Self {
            lu: if single {
                TreeWorkspace::Single(Arc::new(Workspace::new(stream, tree)?))
            } else {
                TreeWorkspace::Double(Arc::new(Workspace::new(stream, tree)?))
            },
            known: Mutex::default(),
            idle: IdleSearches::default(),
        })
    }
}

impl Known {
    fn new(stream: &Stream, pattern: &DevicePattern) -> Result<Self, Error> {
        let in_probe = |e| Error::from_device(e, "numeric");
        let alloc = || stream.alloc(pattern.n()).map_err(in_probe);
        let device = stream.device();
        Ok(Self {
            x: alloc()?,
            b: alloc()?,
            residual: alloc()?,
            residuals: Residuals::new(stream, pattern, 1)?,
            measures: device.alloc_pinned(Measures::NUM_WORDS).map_err(in_probe)?,
        })
    }

    /// Makes a right-hand side of the known solution, solves and measures. Nothing is waited for.
    fn enqueue(
        &mut self,
        stream: &Stream,
        a: DeviceMatrix<'_>,
        solve: impl FnOnce(&mut Buffer<f64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let in_probe = |e| Error::from_device(e, "solve");
        let Self {
            x,
            b,
            residual,
            residuals,
            measures,
        } = self;
        solve_gpu::set_known_solution(stream, x)?;
        // 0 − A·x is the right-hand side of −x.
        stream.fill_zero(residual).map_err(in_probe)?;
        residuals.enqueue(stream, a, x, residual, b)?;
        stream.copy(x, b).map_err(in_probe)?;
        solve(x)?;
        residuals.enqueue(stream, a, x, b, residual)?;
        let words = residuals.words();
        stream.copy_to_pinned(words, measures, 0).map_err(in_probe)
    }

    /// Waits for what was measured last.
    fn measures(&self) -> Result<Measures, Error> {
        let words = self.measures.as_slice();
        let words = words.map_err(|e| Error::from_device(e, "solve"))?;
        Ok(Measures::from_words(words))
    }
}

impl TreeLu {
    fn factorize(
        scratch: &Scratch,
        stream: &Stream,
        tree: &Arc<DeviceTree>,
        values: &Buffer<f64>,
        pivots: &PivotPolicy,
    ) -> Result<(Self, DeviceQuality), DeviceFrontalError> {
        Ok(match &scratch.lu {
            TreeWorkspace::Single(space) => {
                let (lu, quality) =
                    DeviceFrontalLu::factorize_in(space, stream, tree, values, pivots)?;
                (Self::Single(lu), quality)
            }
            TreeWorkspace::Double(space) => {
                let (lu, quality) =
                    DeviceFrontalLu::factorize_in(space, stream, tree, values, pivots)?;
                (Self::Double(lu), quality)
            }
        })
    }

    fn begin_refactorize(
        &mut self,
        stream: &Stream,
        values: &Buffer<f64>,
        pivots: &PivotPolicy,
    ) -> Result<(), DeviceFrontalError> {
        match self {
            Self::Single(lu) => lu.begin_refactorize(stream, values, pivots),
            Self::Double(lu) => lu.begin_refactorize(stream, values, pivots),
        }
    }

    /// See [`DeviceFrontalLu::scale`].
    fn scale(&self) -> f64 {
        match self {
            Self::Single(lu) => lu.scale(),
            Self::Double(lu) => lu.scale(),
        }
    }

    /// See [`DeviceFrontalLu::set_scale`].
    fn set_scale(&mut self, scale: f64) {
        match self {
            Self::Single(lu) => lu.set_scale(scale),
            Self::Double(lu) => lu.set_scale(scale),
        }
    }

    /// See [`DeviceFrontalLu::report`].
    fn report(&mut self) -> Result<Option<DeviceQuality>, DeviceFrontalError> {
        match self {
            Self::Single(lu) => lu.report(),
            Self::Double(lu) => lu.report(),
        }
    }

    fn solve(
        &mut self,
        stream: &Stream,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<(), DeviceFrontalError> {
        match self {
            Self::Single(lu) => lu.solve(stream, x, nrhs, transpose),
            Self::Double(lu) => lu.solve(stream, x, nrhs, transpose),
        }
    }

    /// See [`DeviceFrontalLu::solve_scaled`].
    fn solve_scaled(
        &mut self,
        stream: &Stream,
        x: &mut Buffer<f64>,
        transpose: bool,
    ) -> Result<(), DeviceFrontalError> {
        match self {
            Self::Single(lu) => lu.solve_scaled(stream, x, transpose),
            Self::Double(lu) => lu.solve_scaled(stream, x, transpose),
        }
    }

    /// The panels of all fronts in `f64`, and the row that each pivot was exchanged with.
    fn download(&self, stream: &Stream) -> Result<(Vec<f64>, Vec<u32>), DeviceError> {
        Ok(match self {
            Self::Single(lu) => (
                f32::in_f64(&stream.download(lu.factors())?).into_owned(),
                stream.download(lu.pivot_rows())?,
            ),
            Self::Double(lu) => (
                stream.download(lu.factors())?,
                stream.download(lu.pivot_rows())?,
            ),
        })
    }
}

impl TreeAnalysis {
    /// ε of the type of the factors.
    fn epsilon(&self) -> f64 {
        if self.forest.single {
            f64::from(f32::EPSILON)
        } else {
            f64::EPSILON
        }
    }

    /// Factors of the values `a` of A by rows or columns, as B is scaled: ‖B‖₁.
    fn norm1(&self, a: &[f64]) -> f64 {
        let Forest {
            columns,
            source,
            transform,
            ..
        } = &*self.forest;
        let (rows, cols) = (transform.row_perm.as_slice(), transform.col_perm.as_slice());
        let sums = (0..columns.major_dim()).map(|j| {
            columns
                .range(j)
                .map(|p| {
                    let row = rows[columns.idx()[p] as usize] as usize;
                    let value = a[source[p] as usize];
                    transform.scaling.apply(row, cols[j] as usize, value).abs()
                })
                .sum()
        });
        sums.fold(0.0, f64::max)
    }
}

impl AnyDeviceAnalysis for TreeAnalysis {
    fn transform(&self) -> &Transform {
        &self.forest.transform
    }

    fn describe(&self, inform: &mut Inform) {
        let forest = &self.forest;
        let symbolic = &forest.symbolic;
        let triangle = (symbolic.factor_entries() + symbolic.n() as u64) / 2;
        inform.lnz = triangle;
        inform.unz = triangle + forest.coupling.nnz() as u64;
        inform.flops = symbolic.flops();
        inform.num_supernodes = Some(symbolic.tree().num_supernodes());
        inform.max_front = Some(symbolic.tree().max_front());
        let lists = forest.source.len() + forest.entries.len() + forest.coupling_entries.len();
        let patterns = [&*forest.columns, &forest.coupling];
        let patterns = patterns.map(|p| 8 * p.ptr().len() + 4 * p.nnz());
        let held = 4 * lists + patterns.iter().sum::<usize>();
        let held = symbolic.bytes() + forest.memory.host_bytes() + held as u64;
        inform.peak_host_bytes = inform.peak_host_bytes.max(held);
        inform.predicted_device_bytes = Some(forest.device_bytes());
        inform.seconds.symbolic = forest.seconds + self.upload_seconds;
        inform.precision = if forest.single {
            <f32 as Scalar>::NAME
        } else {
            <f64 as Scalar>::NAME
        };
        inform.code_path = vec!["symbolic: forest of fronts, on the CPU"];
    }

    fn structure(&self, shared: &Shared) -> Result<(FilledPattern, Levels), Error> {
        shared.host_structure(self.forest.transform.clone())
    }

    fn factorize(
        self: Arc<Self>,
        a: &[f64],
        pivots: PivotPolicy,
        _limits: &Limits,
    ) -> Result<Box<dyn AnyDeviceEngine>, Error> {
        let _span = tracing::info_span!("numeric").entered();
        let pivots = pivots.in_fronts(FRONT_THRESHOLD);
        let values = self
            .threads
            .upload(&self.stream, a)
            .map_err(|e| Error::from_device(e, "numeric"))?;
        let scratch = match &self.scratch {
            Some(scratch) => Arc::clone(scratch),
            None => {
                let scratch = Scratch::new(&self.stream, &self.on_device, self.forest.single);
                Arc::new(scratch.map_err(numeric_error)?)
            }
        };
        let (lu, quality) =
            TreeLu::factorize(&scratch, &self.stream, &self.on_device, &values, &pivots)
                .map_err(numeric_error)?;
        Ok(Box::new(TreeEngine {
            lu: Mutex::new(lu),
            scratch,
            values,
            spare: None,
            pivots,
            quality,
            previous: None,
            analysis: self,
        }))
    }

    fn on_stream(
        self: Arc<Self>,
        stream: &Stream,
    ) -> Result<Option<Arc<dyn AnyDeviceAnalysis>>, Error> {
        let scratch = Scratch::new(stream, &self.on_device, self.forest.single);
        let scratch = scratch.map_err(numeric_error)?;
        Ok(Some(Arc::new(Self {
            forest: Arc::clone(&self.forest),
            on_device: Arc::clone(&self.on_device),
            stream: stream.clone(),
            threads: self.threads.clone(),
            patterns: Arc::clone(&self.patterns),
            scratch: Some(Arc::new(scratch)),
            ..*self
        })))
    }

    fn batch_bytes(&self) -> Option<BatchBytes> {
        let Forest {
            symbolic,
            source,
            coupling,
            single,
            ..
        } = &*self.forest;
        let (n, nnz) = (symbolic.n(), source.len());
        let (value_bytes, workspace) = if *single {
            (4, Workspace::<f32>::bytes(&self.on_device))
        } else {
            (8, Workspace::<f64>::bytes(&self.on_device))
        };
        let values = 2 * size_of::<f64>() * nnz + value_bytes * coupling.nnz();
        Some(BatchBytes {
            common: DevicePattern::predicted_bytes(n, nnz),
            stream: workspace + (KNOWN_BYTES_PER_ROW * n) as u64 + SMALL_BUFFERS,
            system: DeviceTree::factor_bytes(symbolic, value_bytes) + values as u64,
        })
    }

    fn search_pivots(
        self: Arc<Self>,
        a: &[f64],
        pivots: PivotPolicy,
        backend: &GpuBackend,
        limits: &Limits,
    ) -> Result<SearchedPivots, Error> {
        let _span = tracing::info_span!("pivot search").entered();
        let start = Instant::now();
        let forest = &self.forest;
        let moved = if forest.single {
            search::<f32>(forest, a, pivots, limits)
        } else {
            search::<f64>(forest, a, pivots, limits)
        }?;
        let Some((moved, num_off_diagonal)) = moved else {
            return Ok(SearchedPivots {
                analysis: self,
                num_off_diagonal: 0,
                seconds: start.elapsed().as_secs_f64(),
            });
        };
        let transform = Transform {
            row_perm: RowPerm(forest.transform.row_perm.then(&moved)),
            ..forest.transform.clone()
        };
        let new_row = moved.inverse();
        let mut idx = Vec::with_capacity(forest.columns.nnz());
        let mut source = Vec::with_capacity(forest.columns.nnz());
        let mut column: Vec<(u32, u32)> = Vec::new();
        for j in 0..forest.columns.major_dim() {
            column.clear();
            column.extend(forest.columns.range(j).map(|p| {
                let row = forest.columns.idx()[p] as usize;
                (new_row[row], forest.source[p])
            }));
            column.sort_unstable();
            idx.extend(column.iter().map(|&(row, _)| row));
            source.extend(column.iter().map(|&(_, entry)| entry));
        }
        let columns = CompressedPattern::new(
            forest.columns.minor_dim(),
            forest.columns.ptr().to_vec(),
            idx,
        )
        .unwrap_or_else(|e| unreachable!("permuted columns stay valid: {e}"));
        let forest = Forest::of_columns(
            columns,
            source,
            transform,
            forest.block_ptr.clone(),
            forest.single,
        )?;
        backend.check_memory(forest.device_bytes())?;
        Ok(SearchedPivots {
            analysis: forest.upload(backend, &self.threads, 1)?,
            num_off_diagonal,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

/// What is there, or a new one.
fn known<'a>(
    slot: &'a mut Option<Known>,
    stream: &Stream,
    pattern: &DevicePattern,
) -> Result<&'a mut Known, Error> {
    Ok(match slot {
        Some(known) => known,
        None => slot.insert(Known::new(stream, pattern)?),
    })
}

/// Searches pivots in the columns of B: where its rows go, and how many pivots are off the diagonal; `None` if all are
/// on it. A column has no entry below its block, so rows stay in their blocks.
fn search<F: crate::backend::DeviceScalar>(
    forest: &Forest,
    a: &[f64],
    pivots: PivotPolicy,
    limits: &Limits,
) -> Result<Option<(RowPerm, usize)>, Error> {
    let Transform {
        row_perm,
        col_perm,
        scaling,
    } = &forest.transform;
    let mut values: Vec<F> = Vec::with_capacity(forest.source.len());
    for (&col, rows) in col_perm.as_slice().iter().zip(forest.columns.lines()) {
        let first = values.len();
        values.extend(rows.iter().zip(&forest.source[first..]).map(|(&i, &p)| {
            let row = row_perm.as_slice()[i as usize] as usize;
            F::from_f64(scaling.apply(row, col as usize, a[p as usize]))
        }));
    }
    let options = columns::Options {
        pivots,
        cancel: limits.cancel.clone(),
        max_bytes: limits.max_host_bytes,
        ..columns::Options::default()
    };
    let (found, quality) = ColumnLu::factorize(&forest.columns, &values, &options)
        .map_err(|e| PhaseError::from(e).in_terms_of_a(col_perm.as_slice()))?;
    let count = quality.num_off_diagonal;
    Ok((count > 0).then(|| (found.row_perm().clone(), count)))
}

impl TreeEngine {
    fn lu(&self) -> MutexGuard<'_, TreeLu> {
        lock(&self.lu)
    }

    /// The growth, estimated by the largest magnitudes; see [`Inform::growth`].
    fn growth(&self) -> f64 {
        let DeviceQuality {
            max_b,
            max_u,
            max_l,
            ..
        } = self.quality;
        if max_b == 0.0 {
            return 0.0;
        }
        max_u * max_l.max(1.0) / max_b
    }

    /// The matrix that was factorized, or its transpose, on the device.
    fn matrix<'a>(&'a self, pattern: &'a DevicePattern) -> DeviceMatrix<'a> {
        DeviceMatrix {
            pattern,
            values: &self.values,
        }
    }

    /// A's pattern, or that of Aᵀ.
    fn pattern(&self, shared: &Shared, transpose: bool) -> Result<Arc<DevicePattern>, Error> {
        let analysis = &self.analysis;
        analysis.patterns.get(&analysis.stream, shared, transpose)
    }

    /// Factorizes the values that are there, and measures the factors with a known solution if there is A's pattern to
    /// do so. When everything is enqueued, the host makes the check, and waits once.
    fn renew(
        &mut self,
        probed: Option<&DevicePattern>,
        check: Check<'_>,
    ) -> Result<Option<Measures>, Error> {
        let _span = tracing::info_span!("numeric").entered();
        let stream = &self.analysis.stream;
        let lu = self.lu.get_mut().unwrap_or_else(PoisonError::into_inner);
        let values = &self.values;
        let mut slot = lock(&self.scratch.known);
        let mut known = match probed {
            Some(pattern) => {
                let matrix = DeviceMatrix { pattern, values };
                Some((known(&mut slot, stream, pattern)?, matrix))
            }
            None => None,
        };
        let mut check = Some(check);
        loop {
            lu.begin_refactorize(stream, values, &self.pivots)
                .map_err(numeric_error)?;
            if let Some((known, matrix)) = &mut known {
                known.enqueue(stream, *matrix, |x| {
                    lu.solve(stream, x, 1, false).map_err(solve_error)
                })?;
            }
            let checked = check.take().map_or(Ok(()), |check| check());
            let report = lu.report();
            checked?;
            if let Some(quality) = report.map_err(numeric_error)? {
                self.quality = quality;
                break;
            }
        }
        known.map(|(known, _)| known.measures()).transpose()
    }

    /// The buffer for other values.
    fn take_spare(&mut self) -> Result<Buffer<f64>, Error> {
        match self.spare.take() {
            Some(spare) => Ok(spare),
            None => self
                .analysis
                .stream
                .alloc(self.values.len())
                .map_err(|e| Error::from_device(e, "numeric")),
        }
    }
}

impl Engine<f64> for TreeEngine {
    fn report(&self) -> FactorReport {
        let device = self.analysis.stream.device();
        FactorReport {
            num_perturbed: self.quality.num_perturbed as usize,
            first_perturbed: self.quality.first_perturbed,
            growth: self.growth(),
            growth_bounds: true,
            error: of_growth(self.analysis.epsilon(), self.growth()),
            largest: self.quality.max_b,
            epsilon: self.analysis.epsilon(),
            code_path: vec![if self.analysis.on_device.num_launches() == 1 {
                "numeric: fronts up the forest, one launch"
            } else {
                "numeric: fronts up the forest, launches for wide fronts among them"
            }],
            device: DeviceCosts {
                peak_bytes: Some(device.peak_bytes()),
                transfer_seconds: Some(
                    device.transfers().seconds - self.analysis.earlier_transfers,
                ),
            },
            ..FactorReport::default()
        }
    }

    fn solve(&self, b: &[f64], nrhs: usize, transpose: bool) -> Result<Vec<f64>, Error> {
        let in_solve = |e| Error::from_device(e, "solve");
        let stream = &self.analysis.stream;
        let threads = &self.analysis.threads;
        let mut x = threads.upload(stream, b).map_err(in_solve)?;
        self.lu()
            .solve(stream, &mut x, nrhs, transpose)
            .map_err(solve_error)?;
        stream.download(&x).map_err(in_solve)
    }

    fn solve_permuted(&self, c: &mut [f64], transpose: bool) -> Result<(), Error> {
        let in_solve = |e| Error::from_device(e, "solve");
        let Transform {
            row_perm, col_perm, ..
        } = &self.analysis.forest.transform;
        let (rows, cols) = (row_perm.as_slice(), col_perm.as_slice());
        let (enter, leave) = if transpose {
            (cols, rows)
        } else {
            (rows, cols)
        };
        let mut x = vec![0.0; c.len()];
        for (&old, &value) in enter.iter().zip(&*c) {
            x[old as usize] = value;
        }
        let stream = &self.analysis.stream;
        let mut there = self.analysis.threads.upload(stream, &x).map_err(in_solve)?;
        let solved = self.lu().solve_scaled(stream, &mut there, transpose);
        solved.map_err(solve_error)?;
        stream.copy_to_host(&there, &mut x).map_err(in_solve)?;
        for (c, &old) in c.iter_mut().zip(leave) {
            *c = x[old as usize];
        }
        Ok(())
    }

    fn of_factors(&self) -> (&Transform, &RowPerm) {
        let transform = &self.analysis.forest.transform;
        (transform, &transform.row_perm)
    }

    fn screen(&self) -> Result<f64, Error> {
        let n = self.analysis.forest.symbolic.n();
        engine::screen(n, self.quality.max_b, |x: &mut [f64]| {
            self.solve_permuted(x, false)
        })
    }

    fn condition(&self, a: &[f64]) -> Result<Condition, Error> {
        let transform = &self.analysis.forest.transform;
        let norm1 = || self.analysis.norm1(a);
        let solve = |x: &mut [f64]| self.solve_permuted(x, false);
        let solve_transpose = |x: &mut [f64]| self.solve_permuted(x, true);
        let epsilon = self.analysis.epsilon();
        Condition::estimate(transform, epsilon, norm1, solve, solve_transpose)
    }

    fn determinant(&self) -> Result<Determinant, Error> {
        let (panels, pivot_rows) = self
            .lu()
            .download(&self.analysis.stream)
            .map_err(|e| Error::from_device(e, "numeric"))?;
        let transform = &self.analysis.forest.transform;
        let mut product = Determinant::one();
        let mut slot = 0;
        for front in self.analysis.forest.symbolic.tree().fronts() {
            let (start, pivots) = (front.start as usize, front.pivots as usize);
            let rows = front.size() as usize;
            for j in 0..pivots {
                let pivot = panels[slot + j * (rows + 1)];
                let exchanged = pivot_rows[start + j] as usize != j;
                product = product.times(if exchanged { -pivot } else { pivot });
            }
            slot += pivots * (rows + front.below as usize);
        }
        // Rows and columns go to the order of elimination alike, which changes no sign.
        Ok(transform.undo_determinant(&transform.row_perm, product))
    }
}

impl AnyDeviceEngine for TreeEngine {
    fn refactorize(
        &mut self,
        a: &[f64],
        pivots: PivotPolicy,
        _limits: &Limits,
    ) -> Result<(), Error> {
        let values = NewValues::OnHost {
            values: a,
            check: &|| Ok(()),
        };
        self.refactorize_resident(values, pivots, None)?;
        Ok(())
    }

    fn keep(&mut self) {
        self.previous = None;
    }

    fn restore(&mut self) -> Result<(), Error> {
        let (Some((pivots, quality, scale)), Some(spare)) =
            (self.previous.take(), self.spare.take())
        else {
            return Ok(());
        };
        self.spare = Some(std::mem::replace(&mut self.values, spare));
        self.pivots = pivots;
        self.lu().set_scale(scale);
        self.renew(None, &|| Ok(()))?;
        // What was measured of the old factors when they were accepted.
        self.quality = quality;
        Ok(())
    }

    fn resident(&self) -> Option<&dyn ResidentEngine> {
        Some(self)
    }

    fn resident_mut(&mut self) -> Option<&mut dyn ResidentEngine> {
        Some(self)
    }
}

impl ResidentEngine for TreeEngine {
    fn refactorize_resident(
        &mut self,
        a: NewValues<'_>,
        pivots: PivotPolicy,
        probed: Option<&Shared>,
    ) -> Result<Option<Measures>, Error> {
        let pattern = probed.map(|shared| self.pattern(shared, false));
        let pattern = pattern.transpose()?;
        let mut spare = self.take_spare()?;
        let stream = &self.analysis.stream;
        let (copied, check): (_, Check<'_>) = match a {
            NewValues::OnHost { values, check } => {
                let threads = &self.analysis.threads;
                (threads.copy_from_host(stream, &mut spare, values), check)
            }
            NewValues::OnDevice(a) => (stream.copy(&mut spare, &a), &|| Ok(())),
        };
        copied.map_err(|e| Error::from_device(e, "numeric"))?;
        self.spare = Some(std::mem::replace(&mut self.values, spare));
        let scale = self.lu().scale();
        self.previous = Some((self.pivots, self.quality, scale));
        self.pivots = pivots.in_fronts(FRONT_THRESHOLD);
        self.renew(pattern.as_deref(), check)
    }

    fn probe(&self, shared: &Shared) -> Result<Measures, Error> {
        let pattern = self.pattern(shared, false)?;
        let stream = &self.analysis.stream;
        let mut lu = self.lu();
        let mut slot = lock(&self.scratch.known);
        let known = known(&mut slot, stream, &pattern)?;
        known.enqueue(stream, self.matrix(&pattern), |x| {
            lu.solve(stream, x, 1, false).map_err(solve_error)
        })?;
        known.measures()
    }

    fn refine_probe(
        &self,
        shared: &Shared,
        options: &refine::Options,
    ) -> Result<(Refined, Option<usize>), Error> {
        let pattern = self.pattern(shared, false)?;
        let stream = &self.analysis.stream;
        let mut lu = self.lu();
        let mut slot = lock(&self.scratch.known);
        let Known { x, b, .. } = known(&mut slot, stream, &pattern)?;
        let solve = |x: &mut Buffer<f64>| lu.solve(stream, x, 1, false).map_err(solve_error);
        let matrix = self.matrix(&pattern);
        let refined = solve_gpu::refine(stream, matrix, b, x, 1, solve, options)?[0];
        if !is_above(refined.measures.normwise(), options.target) {
            return Ok((refined, None));
        }
        let fetched = |numbers| stream.download(numbers);
        let in_probe = |e| Error::from_device(e, "solve");
        let (values, _) = shared.accepted(self.download_values()?.into(), 1)?;
        let (x, b) = (fetched(x).map_err(in_probe)?, fetched(b).map_err(in_probe)?);
        let residual = Residual::new(shared.view(&values), &x, &b);
        Ok((refined, Some(worst_row(&residual, &b))))
    }

    fn begin_solve(
        &self,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<Search, Error> {
        let stream = &self.analysis.stream;
        self.lu()
            .solve(stream, x, nrhs, transpose)
            .map_err(solve_error)?;
        Search::begin(
            &self.scratch.idle,
            stream,
            x,
            self.analysis.forest.symbolic.n(),
        )
    }

    fn solve_refined(
        &self,
        system: System<'_>,
        b: &Buffer<f64>,
        x: &mut Buffer<f64>,
        options: &refine::Options,
    ) -> Result<Vec<Refined>, Error> {
        let System {
            shared,
            nrhs,
            transpose,
        } = system;
        let pattern = self.pattern(shared, transpose)?;
        let stream = &self.analysis.stream;
        let mut lu = self.lu();
        let copied = stream.copy(x, b);
        copied.map_err(|e| Error::from_device(e, "solve"))?;
        let mut solve =
            |x: &mut Buffer<f64>| lu.solve(stream, x, nrhs, transpose).map_err(solve_error);
        solve(x)?;
        solve_gpu::refine(stream, self.matrix(&pattern), b, x, nrhs, solve, options)
    }

    fn measure(
        &self,
        system: System<'_>,
        b: &Buffer<f64>,
        x: &Buffer<f64>,
    ) -> Result<Vec<Measures>, Error> {
        let pattern = self.pattern(system.shared, system.transpose)?;
        let stream = &self.analysis.stream;
        let residual = stream.alloc(b.len());
        let mut residual = residual.map_err(|e| Error::from_device(e, "solve"))?;
        let matrix = self.matrix(&pattern);
        Ok(solve_gpu::residuals(
            stream,
            matrix,
            x,
            b,
            &mut residual,
            system.nrhs,
        )?)
    }

    fn download_values(&self) -> Result<Vec<f64>, Error> {
        self.analysis
            .stream
            .download(&self.values)
            .map_err(|e| Error::from_device(e, "numeric"))
    }
}
