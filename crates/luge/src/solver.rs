//! The solver and the analysis of a pattern.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

use luge_device::Stream;
use luge_ordering::{
    BlockReport, Costs, Matching, Method, MethodUsed, Ordering, OrderingOptions, order,
};
use luge_solve::refine;
use luge_sparse::{
    CancelFlag, Cancelled, CompressedPattern, FilledPattern, Levels, MatrixView, MemoryBudget,
    Reservation, Scalar, Scaling, bytes_of, to_u32,
};
use sprs::CsMat;

use crate::backend::gpu::GpuBackend;
use crate::backend::{Backend, Limits};
use crate::device_chain::AnyDeviceChain;
use crate::device_choice;
use crate::device_columns::{ColumnChain, permuted_rows};
use crate::device_tree::Forest;
use crate::engine::Transform;
use crate::error::{Error, PhaseError};
use crate::factors::Factors;
use crate::host::{AnyHost, HostChain};
use crate::inform::{Inform, Seconds, Warning};
use crate::lanes::{all_stretches, largest_magnitude, mapped, same_integers};
use crate::options::{DeviceEngine, FactorPrecision, Options, Pivoting};
use crate::threads::Threads;

/// Solves sparse linear systems: options and a device, ready for any number of matrices.
///
/// ```
/// use luge::{Options, Solver};
/// use sprs::CsMat;
///
/// // 2 1
/// // 1 3
/// let a: CsMat<f64> =
///     CsMat::new((2, 2), vec![0, 2, 4], vec![0, 1, 0, 1], vec![2.0, 1.0, 1.0, 3.0]);
/// let solver = Solver::new(Options::default())?;
/// let factors = solver.analyze(&a)?.factorize(&a)?;
/// let solution = factors.solve(&[4.0, 7.0])?;
/// assert!((solution.x[0] - 1.0).abs() < 1e-15 && (solution.x[1] - 2.0).abs() < 1e-15);
/// assert!(solution.inform.backward_error.is_some_and(|e| e < 1e-15));
/// # Ok::<(), luge::Error>(())
/// ```
///
/// The steps in another order do not compile: a solver has no factors,
///
/// ```compile_fail,E0599
/// # let a: sprs::CsMat<f64> = sprs::CsMat::eye(2);
/// luge::Solver::new(luge::Options::default())?.factorize(&a)?;
/// # Ok::<(), luge::Error>(())
/// ```
///
/// and an analysis does not solve.
///
/// ```compile_fail,E0599
/// # let a: sprs::CsMat<f64> = sprs::CsMat::eye(2);
/// luge::Solver::new(luge::Options::default())?.analyze(&a)?.solve(&[1.0, 1.0])?;
/// # Ok::<(), luge::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Solver {
    options: Arc<Options>,
    /// How to order for the backend.
    ordering: Arc<OrderingOptions>,
    backend: Backend,
    threads: Threads,
    memory: MemoryBudget,
    /// For the solver itself, and what is too small to be counted one by one.
    _slack: Arc<Reservation>,
}

/// What can be known of a matrix before its values are eliminated: permutations, scaling, filled
/// pattern and levels. Good for every matrix of the same pattern, though permutations and scaling
/// were chosen for the values that were analyzed.
pub struct Analysis<T> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) inform: Arc<Inform>,
    scalar: PhantomData<T>,
}

/// What an analysis and its factors have in common.
pub(crate) struct Shared {
    pub options: Arc<Options>,
    ordering: Arc<OrderingOptions>,
    pub limits: Limits,
    pub threads: Threads,
    /// The pattern that was analyzed, as it is stored.
    pub pattern: Arc<CompressedPattern>,
    /// What is reserved for it.
    _memory: Reservation,
    /// Whether it is stored by columns.
    pub by_columns: bool,
    pub path: Path,
    /// Normwise backward error to reach.
    pub target: f64,
}

/// What carries out the phases after the ordering.
pub(crate) enum Path {
    Host(HostPath),
    Device(DevicePath),
}

/// The CPU.
pub(crate) struct HostPath {
    pub chain: Arc<dyn AnyHost>,
    /// What else might do if the pivots on this chain do not.
    pub alternative: Option<Matching>,
    single: bool,
}

/// A device.
pub(crate) struct DevicePath {
    pub chain: Arc<dyn AnyDeviceChain>,
    pub backend: GpuBackend,
    /// What else might do if static pivots on this chain do not.
    pub alternative: Option<Matching>,
    /// The engine that was chosen, and how rows are matched for it.
    engine: DeviceEngine,
    matching: Matching,
    single: bool,
}

impl Solver {
    /// Opens the backend that `options` ask for.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`]; [`Error::Device`] if a GPU was asked for and cannot be used; [`Error::Threads`].
    pub fn new(options: Options) -> Result<Self, Error> {
        options.check_ranges()?;
        let backend = Backend::open(&options)?;
        let threads = Threads::new(options.threads)?;
        let on_device = matches!(backend, Backend::Gpu(_));
        let on_columns = on_device && options.device_engine == DeviceEngine::Columns;
        let searches = !on_columns && options.pivoting != Pivoting::Static;
        let matching = options.ordering.matching;
        let mut ordering = OrderingOptions {
            cancel: options.cancel.clone(),
            matching: if searches {
                matching
            } else {
                for_static_pivots(matching)
            },
            costs: costs_of(&options),
            threads: 1,
            ..options.ordering.clone()
        };
        if on_device && !on_columns {
            ordering = device_choice::ordering_for_tree(ordering, options.factorizations);
        }
        let memory = options.max_host_bytes.map(MemoryBudget::new);
        let memory = memory.unwrap_or_default();
        let slack = SLACK_BYTES + threads.count() as u64 * SLACK_PER_THREAD;
        let slack = memory.reserve(slack);
        let slack = slack.map_err(|error| Error::from_budget(error, "setup"))?;
        Ok(Self {
            options: Arc::new(options),
            ordering: Arc::new(ordering),
            backend,
            threads,
            memory,
            _slack: Arc::new(slack),
        })
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The stream of the device on which all work of this solver is, in order; `None` on the CPU.
    ///
    /// Buffers for [`Factors::refactorize_on_device`] and [`Factors::solve_on_device`] are made on it; what is enqueued
    /// on it before such a call is done before, and what comes after sees the results.
    pub fn stream(&self) -> Option<&Stream> {
        match &self.backend {
            Backend::Cpu { .. } => None,
            Backend::Gpu(backend) => Some(backend.stream()),
        }
    }

    /// Orders and analyzes a square matrix; its values guide matching and scaling.
    ///
    /// # Errors
    ///
    /// [`Error::NotSquare`], [`Error::PermutationLength`], [`Error::NotFinite`],
    /// [`Error::StructurallySingular`], [`Error::ZerosOnly`], [`Error::OutOfMemory`],
    /// [`Error::IndexOverflow`], [`Error::Cancelled`], and those of the device.
    pub fn analyze<T: Scalar>(&self, a: &CsMat<T>) -> Result<Analysis<T>, Error> {
        let n = a.rows();
        if a.cols() != n {
            return Err(Error::NotSquare {
                rows: n,
                cols: a.cols(),
            });
        }
        to_u32(n, "number of rows")?;
        if let Method::User { rows, .. } = &self.ordering.method
            && rows.len() != n
        {
            let permuted = rows.len();
            return Err(Error::PermutationLength { permuted, n });
        }
        let limits = Limits {
            cancel: self.options.cancel.clone(),
            max_host_bytes: self.options.max_host_bytes,
            memory: self.memory.clone(),
        };
        let by_columns = !a.is_csr();
        let is_single = size_of::<T>() != size_of::<f64>();
        let (order, nnz) = (n as u64, a.nnz() as u64);
        let of_pattern = limits.reserve(8 * (order + 1) + 4 * nnz, "ordering")?;
        // The rows, where each entry is among the columns, and the values in that order and in f64.
        let turned = if by_columns {
            16 * (order + 1) + 20 * nnz
        } else {
            0
        };
        let widened = if is_single { 8 * nnz } else { 0 };
        let of_rows = limits.reserve(turned + widened, "ordering")?;
        let pattern = self
            .threads
            .run(a.nnz() as f64 * PATTERN_PER_ENTRY, |threads| {
                pattern_of(a, threads, &limits.cancel)
            })?;
        let rows = Rows::new(&pattern, by_columns, &limits.cancel)?;
        let in_f64 = T::in_f64(a.data());
        let values = rows.values(&in_f64);
        limits.cancel.check()?;
        let single =
            self.options.precision == FactorPrecision::Single || size_of::<T>() == size_of::<f32>();
        let (ordering, of_ordering) =
            order_within(&self.ordering, &self.threads, &limits, &rows, &values)?;
        let description = self.backend.description(self.threads.count());
        let mut inform = Inform {
            n,
            nnz: a.nnz(),
            seconds: Seconds {
                module_load: description.module_load_seconds,
                ..Seconds::default()
            },
            backend: description.backend,
            device: description.device,
            scaled: self.options.ordering.scaling,
            ..Inform::default()
        };
        inform.describe_ordering(&ordering);
        inform
            .warnings
            .extend(description.no_gpu.map(|reason| Warning::NoGpu { reason }));
        let path = match &self.backend {
            Backend::Cpu { .. } => {
                let start = Instant::now();
                let (predicted, off_diagonal) =
                    (ordering.predicted, ordering.predicted.off_diagonal_nnz);
                let path = HostPath::new(
                    &self.options,
                    &self.threads,
                    &limits,
                    &rows,
                    (ordering, of_ordering),
                    single,
                )?;
                inform.seconds.symbolic = start.elapsed().as_secs_f64();
                inform.describe_host(&path, predicted.lnz, predicted.unz + off_diagonal);
                if inform.flops == 0.0 {
                    inform.flops = predicted.flops;
                }
                Path::Host(path)
            }
            Backend::Gpu(backend) => {
                let place = DevicePlace {
                    backend,
                    limits: &limits,
                    threads: &self.threads,
                    rows: &rows,
                    single,
                };
                let path = self.device_path(place, &values, ordering, &mut inform)?;
                path.chain.describe(&mut inform);
                Path::Device(path)
            }
        };
        drop(values);
        drop((rows, of_rows));
        Ok(Analysis {
            shared: Arc::new(Shared {
                target: self.options.target_backward_error.unwrap_or(
                    // An f32 solution cannot do better than its rounding.
                    if size_of::<T>() == size_of::<f32>() {
                        1e-6
                    } else {
                        1e-12
                    },
                ),
                options: Arc::clone(&self.options),
                ordering: Arc::clone(&self.ordering),
                limits,
                threads: self.threads.clone(),
                pattern: Arc::new(pattern),
                _memory: of_pattern,
                by_columns,
                path,
            }),
            inform: Arc::new(inform),
            scalar: PhantomData,
        })
    }
}

/// What plans for a device are made of.
#[derive(Clone, Copy)]
struct DevicePlace<'a> {
    backend: &'a GpuBackend,
    limits: &'a Limits,
    threads: &'a Threads,
    rows: &'a Rows<'a>,
    single: bool,
}

impl DevicePlace<'_> {
    fn columns(self, ordering: Ordering) -> Result<Arc<dyn AnyDeviceChain>, Error> {
        let transform = transform_of(ordering).0;
        Ok(if self.single {
            ColumnChain::<f32>::analyze(self.rows, transform, self.backend, self.limits)?
        } else {
            ColumnChain::<f64>::analyze(self.rows, transform, self.backend, self.limits)?
        })
    }

    fn forest(self, mut ordering: Ordering) -> Result<Forest, Error> {
        let _span = tracing::info_span!("symbolic").entered();
        if ordering.log10_matching_product.is_some() {
            round_to_powers_of_two(&mut ordering.scaling);
        }
        let elimination = ordering.forest.take();
        let (transform, block_ptr) = transform_of(ordering);
        self.threads.run(self.work(), |threads| {
            Forest::analyze(
                self.rows,
                transform,
                block_ptr,
                elimination.as_ref(),
                self.single,
                threads,
            )
        })
    }

    /// The tree on the device, if there is memory for its factors.
    fn tree(self, forest: Forest) -> Result<Arc<dyn AnyDeviceChain>, Error> {
        self.backend.check_memory(forest.device_bytes())?;
        let upload = |count| forest.upload(self.backend, self.threads, count);
        Ok(self.threads.run(self.work(), upload)?)
    }

    /// Seconds of the analysis of a tree on one thread, or of its upload, at least.
    fn work(self) -> f64 {
        self.rows.pattern.nnz() as f64 * TREE_PER_ENTRY
    }
}

impl Solver {
    /// Chooses an engine for a matrix with these values by rows, and plans for it. Where that takes another ordering
    /// than the one there is, the inform hears of it.
    fn device_path(
        &self,
        place: DevicePlace<'_>,
        values: &[f64],
        ordering: Ordering,
        inform: &mut Inform,
    ) -> Result<DevicePath, Error> {
        let path = |engine, matching, alternative, chain| DevicePath {
            chain,
            backend: place.backend.clone(),
            alternative,
            engine,
            matching,
            single: place.single,
        };
        let matching = self.ordering.matching;
        let wanted = self.options.device_engine;
        if wanted == DeviceEngine::Columns {
            let chain = place.columns(ordering)?;
            return Ok(path(DeviceEngine::Columns, matching, None, chain));
        }
        let predicted = ordering.predicted;
        let is_matched = ordering.log10_matching_product.is_some();
        let forest = place.forest(ordering)?;
        let n = place.rows.pattern.major_dim();
        let value_bytes = if place.single { 4 } else { 8 };
        let chosen = device_choice::choose(
            forest.device_bytes(),
            device_choice::column_bytes(n, &predicted, value_bytes),
            place.backend.available_bytes()?,
        );
        if wanted == DeviceEngine::Tree || chosen == DeviceEngine::Tree {
            let unmatched = matching == Matching::Auto && !is_matched;
            let alternative = unmatched.then_some(Matching::Always);
            let chain = place.tree(forest)?;
            return Ok(path(DeviceEngine::Tree, matching, alternative, chain));
        }
        let matching = for_static_pivots(matching);
        // The columns' levels are not the tree's.
        let options = OrderingOptions {
            matching,
            costs: costs_of(&self.options),
            tree_cost: None,
            ..(*self.ordering).clone()
        };
        let ordering = order_rows(&options, &self.threads, place.rows, values)?;
        inform.describe_ordering(&ordering);
        let chain = place.columns(ordering)?;
        Ok(path(DeviceEngine::Columns, matching, None, chain))
    }
}

impl DevicePath {
    /// The same plan for work on another stream, if the engine can share it.
    pub(crate) fn on_stream(&self, stream: &Stream) -> Result<Option<Self>, Error> {
        let chain = Arc::clone(&self.chain).on_stream(stream)?;
        Ok(chain.map(|chain| Self {
            chain,
            backend: self.backend.on_stream(stream),
            ..*self
        }))
    }

    /// Orders and plans anew for other values, and if that is given with another matching.
    pub(crate) fn analyze_again(
        &self,
        shared: &Shared,
        values: &[f64],
        matching: Option<Matching>,
    ) -> Result<Arc<dyn AnyDeviceChain>, Error> {
        let rows = Rows::new(&shared.pattern, shared.by_columns, &shared.limits.cancel)?;
        let by_rows = rows.values(values);
        let mut options = OrderingOptions {
            matching: matching.unwrap_or(self.matching),
            ..(*shared.ordering).clone()
        };
        if self.engine == DeviceEngine::Columns {
            options.costs = costs_of(&shared.options);
            options.tree_cost = None;
        }
        let ordering = order_rows(&options, &shared.threads, &rows, &by_rows)?;
        let place = DevicePlace {
            backend: &self.backend,
            limits: &shared.limits,
            threads: &shared.threads,
            rows: &rows,
            single: self.single,
        };
        match self.engine {
            DeviceEngine::Columns => place.columns(ordering),
            DeviceEngine::Tree | DeviceEngine::Auto => place.tree(place.forest(ordering)?),
        }
    }
}

/// What is assumed about the machine for orders that are compared by their operations.
fn costs_of(options: &Options) -> Costs {
    let costs = options.ordering.costs;
    Costs {
        factorizations: options.factorizations.unwrap_or(costs.factorizations),
        ..costs
    }
}

/// Static pivots on the diagonal want the largest diagonal there is.
fn for_static_pivots(matching: Matching) -> Matching {
    match matching {
        Matching::Auto => Matching::Always,
        chosen => chosen,
    }
}

/// A matrix by rows, and where its entries stand in the caller's storage if that is by columns.
pub(crate) struct Rows<'a> {
    pub pattern: Cow<'a, CompressedPattern>,
    pub entries: Option<Vec<u64>>,
}

impl<'a> Rows<'a> {
    fn new(
        stored: &'a CompressedPattern,
        by_columns: bool,
        cancel: &CancelFlag,
    ) -> Result<Self, Cancelled> {
        if by_columns {
            let (rows, map) = stored.try_transpose_with_map(|| cancel.check())?;
            Ok(Self {
                pattern: Cow::Owned(rows),
                entries: Some(map),
            })
        } else {
            Ok(Self {
                pattern: Cow::Borrowed(stored),
                entries: None,
            })
        }
    }

    /// The values in the order of the rows.
    fn values<'v>(&self, stored: &'v [f64]) -> Cow<'v, [f64]> {
        match &self.entries {
            None => Cow::Borrowed(stored),
            Some(entries) => entries.iter().map(|&p| stored[p as usize]).collect(),
        }
    }
}

/// Host memory for what is too small to be counted one by one, and for each thread.
const SLACK_BYTES: u64 = 96 << 10;
const SLACK_PER_THREAD: u64 = 16 << 10;

/// Seconds that it takes to copy an entry of a pattern, and to check it, at least.
const PATTERN_PER_ENTRY: f64 = 1e-9;

/// Seconds that ordering takes for each entry of a matrix, roughly and at least.
const ORDERING_PER_ENTRY: f64 = 50e-9;

/// Seconds that the analysis of a tree takes for each entry of a matrix, likewise.
const TREE_PER_ENTRY: f64 = 20e-9;

/// Orders with as many threads as are worth it.
fn order_rows(
    options: &OrderingOptions,
    threads: &Threads,
    rows: &Rows<'_>,
    values: &[f64],
) -> Result<Ordering, Error> {
    let _span = tracing::info_span!("ordering").entered();
    let work = rows.pattern.nnz() as f64 * ORDERING_PER_ENTRY;
    threads
        .run(work, |threads| {
            if threads == options.threads {
                return order(&rows.pattern, Some(values), options);
            }
            let options = OrderingOptions {
                threads,
                ..options.clone()
            };
            order(&rows.pattern, Some(values), &options)
        })
        .map_err(Error::from)
}

/// Bytes that an ordering takes at most for each column and each entry of the matrix, its result included. Measured on
/// circuits, power flow, grids, finite elements, bases and Markov chains, by minimum degree with and without a matching by
/// value and with one and two threads: at most 203 bytes for each column beside 30 for each entry. The rest is for METIS,
/// whose memory comes from the C library, and which runs when minimum degree has given its back.
const ORDERING_PER_COLUMN: u64 = 240;
const ORDERING_BYTES_PER_ENTRY: u64 = 36;

/// Orders within the memory budget. What is reserved in the end is for permutations and scaling.
fn order_within(
    options: &OrderingOptions,
    threads: &Threads,
    limits: &Limits,
    rows: &Rows<'_>,
    values: &[f64],
) -> Result<(Ordering, Reservation), Error> {
    let (n, nnz) = (rows.pattern.major_dim() as u64, rows.pattern.nnz() as u64);
    let most = ORDERING_PER_COLUMN * n + ORDERING_BYTES_PER_ENTRY * nnz;
    let mut memory = limits.reserve(most, "ordering")?;
    let ordering = order_rows(options, threads, rows, values)?;
    let blocks = bytes_of::<BlockReport>(ordering.blocks.capacity());
    memory.shrink_to(24 * n + bytes_of::<usize>(ordering.block_ptr.capacity()) + blocks);
    Ok((ordering, memory))
}

fn transform_of(ordering: Ordering) -> (Transform, Vec<usize>) {
    let transform = Transform {
        row_perm: ordering.row_perm,
        col_perm: ordering.col_perm,
        scaling: Arc::new(ordering.scaling),
    };
    (transform, ordering.block_ptr)
}

impl HostPath {
    fn new(
        options: &Options,
        threads: &Threads,
        limits: &Limits,
        rows: &Rows<'_>,
        (ordering, memory): (Ordering, Reservation),
        single: bool,
    ) -> Result<Self, Error> {
        let alternative = if ordering.log10_matching_product.is_some() {
            Some(Matching::Never)
        } else {
            ordering.matching_refused.then_some(Matching::Always)
        };
        let chain = host_chain(options, threads, limits, rows, (ordering, memory), single)?;
        Ok(Self {
            chain,
            alternative,
            single,
        })
    }

    /// Orders and plans anew for other values, and if that is given with another matching.
    pub(crate) fn analyze_again(
        &self,
        shared: &Shared,
        values: &[f64],
        matching: Option<Matching>,
    ) -> Result<Arc<dyn AnyHost>, Error> {
        let (order, nnz) = (shared.n() as u64, shared.nnz() as u64);
        let turned = if shared.by_columns {
            16 * (order + 1) + 20 * nnz
        } else {
            0
        };
        let _of_rows = shared.limits.reserve(turned, "ordering")?;
        let rows = Rows::new(&shared.pattern, shared.by_columns, &shared.limits.cancel)?;
        let by_rows = rows.values(values);
        let options = OrderingOptions {
            matching: matching.unwrap_or(shared.ordering.matching),
            ..(*shared.ordering).clone()
        };
        let ordered = order_within(&options, &shared.threads, &shared.limits, &rows, &by_rows)?;
        host_chain(
            &shared.options,
            &shared.threads,
            &shared.limits,
            &rows,
            ordered,
            self.single,
        )
    }
}

/// The factors of a matching are as good with one binary digit, and scaling is exact then.
fn round_to_powers_of_two(scaling: &mut Scaling) {
    for factor in scaling.rows.iter_mut().chain(&mut scaling.cols) {
        *factor = nearest_power_of_two(*factor);
    }
}

/// The power of two that is nearest to a positive normal number, by ratio.
fn nearest_power_of_two(x: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let up = bits & MANTISSA > std::f64::consts::SQRT_2.to_bits() & MANTISSA;
    f64::from_bits((bits & !MANTISSA) + (u64::from(up) << 52))
}

fn host_chain(
    options: &Options,
    threads: &Threads,
    limits: &Limits,
    rows: &Rows<'_>,
    (mut ordering, memory): (Ordering, Reservation),
    single: bool,
) -> Result<Arc<dyn AnyHost>, Error> {
    let _span = tracing::info_span!("symbolic").entered();
    let blocks = std::mem::take(&mut ordering.blocks);
    if ordering.log10_matching_product.is_some() {
        round_to_powers_of_two(&mut ordering.scaling);
    }
    let (transform, block_ptr) = transform_of(ordering);
    Ok(if single {
        HostChain::<f32>::analyze(
            rows,
            transform,
            &block_ptr,
            &blocks,
            options.engine,
            threads,
            limits,
            memory,
        )?
    } else {
        HostChain::<f64>::analyze(
            rows,
            transform,
            &block_ptr,
            &blocks,
            options.engine,
            threads,
            limits,
            memory,
        )?
    })
}

impl Shared {
    pub(crate) fn n(&self) -> usize {
        self.pattern.major_dim()
    }

    pub(crate) fn nnz(&self) -> usize {
        self.pattern.nnz()
    }

    /// The same for factors on another path.
    pub(crate) fn on_path(&self, path: Path) -> Self {
        Self {
            options: Arc::clone(&self.options),
            ordering: Arc::clone(&self.ordering),
            limits: self.limits.clone(),
            threads: self.threads.clone(),
            pattern: Arc::clone(&self.pattern),
            _memory: Reservation::default(),
            path,
            by_columns: self.by_columns,
            target: self.target,
        }
    }

    /// The matrix with these values in stored order.
    pub(crate) fn view<'a, T: Scalar>(&'a self, values: &'a [T]) -> MatrixView<'a, T> {
        if self.by_columns {
            MatrixView::by_columns(&self.pattern, values)
        } else {
            MatrixView::by_rows(&self.pattern, values)
        }
    }

    pub(crate) fn refinement<T: Scalar>(&self) -> refine::Options {
        refine::Options {
            max_steps: self.options.max_refinement_steps,
            target: self.target,
            epsilon: T::epsilon().to_f64(),
            stops_at_target: false,
            cancel: self.options.cancel.clone(),
        }
    }

    /// The values of `a` in stored order and the largest magnitude among them, if it has the analyzed pattern and they are
    /// finite. Threads share the comparison if there are several.
    pub(crate) fn values_of<'a, T: Scalar>(
        &self,
        a: &'a CsMat<T>,
        threads: usize,
    ) -> Result<(Cow<'a, [T]>, f64), Error> {
        let n = self.n();
        if a.shape() != (n, n) {
            let (rows, cols) = a.shape();
            return Err(Error::OtherSize { rows, cols, n });
        }
        if a.is_csr() == self.by_columns {
            // Its offsets, indices and values, and how far each row or column is filled.
            let bytes = 32 * (n as u64 + 1) + (8 + size_of::<T>() as u64) * 2 * a.nnz() as u64;
            let _memory = self.limits.reserve(bytes, "numeric")?;
            let other_way = a.to_other_storage();
            let (values, largest) = self.values_of(&other_way, threads)?;
            return Ok((Cow::Owned(values.into_owned()), largest));
        }
        let offsets = a.indptr();
        let (ptr, other_ptr) = (self.pattern.ptr(), offsets.raw_storage());
        let (idx, other_idx) = (self.pattern.idx(), a.indices());
        let first = first_offset(other_ptr);
        let same = ptr.len() == other_ptr.len()
            && idx.len() == other_idx.len()
            && all_stretches(ptr.len(), threads, |range| {
                let differ = |a: u64, b: usize| a ^ (b - first) as u64;
                same_integers(&ptr[range.clone()], &other_ptr[range], differ)
            })
            && all_stretches(idx.len(), threads, |range| {
                let differ = |a, b| u64::from(a) ^ b as u64;
                same_integers(&idx[range.clone()], &other_idx[range], differ)
            });
        if !same {
            return Err(Error::PatternMismatch {
                row: self.first_other_row(a)?,
            });
        }
        self.limits.cancel.check()?;
        let values = a.data();
        let largest = self.check_finite(values, threads)?;
        Ok((Cow::Borrowed(values), largest))
    }

    /// The largest magnitude of values in stored order, which are refused if one of them is not finite.
    pub(crate) fn check_finite<T: Scalar>(
        &self,
        values: &[T],
        threads: usize,
    ) -> Result<f64, Error> {
        let largest = largest_magnitude(values, threads, |v| v.to_f64());
        if !largest.is_nan() {
            return Ok(largest);
        }
        let at = values.iter().position(|v| !v.is_finite());
        let at = at.unwrap_or_else(|| unreachable!("one of them made it NaN"));
        let outer = self.pattern.ptr().partition_point(|&p| p <= at as u64) - 1;
        let inner = self.pattern.idx()[at] as usize;
        let (row, column) = if self.by_columns {
            (inner, outer)
        } else {
            (outer, inner)
        };
        Err(Error::NotFinite { row, column })
    }

    /// The first row in which `a` has other entries than the analyzed matrix.
    fn first_other_row<T: Scalar>(&self, a: &CsMat<T>) -> Result<usize, Cancelled> {
        let cancel = &self.limits.cancel;
        let ours = Rows::new(&self.pattern, self.by_columns, cancel)?;
        let theirs = pattern_of(&by_rows(a), 1, cancel)?;
        let row = (0..self.n()).find(|&row| ours.pattern.lane(row) != theirs.lane(row));
        Ok(row.unwrap_or(0))
    }

    /// Filled pattern and levels of the matrix so permuted, for static pivots.
    pub(crate) fn host_structure(
        &self,
        transform: Transform,
    ) -> Result<(FilledPattern, Levels), Error> {
        let rows = Rows::new(&self.pattern, self.by_columns, &self.limits.cancel)?;
        let permuted = permuted_rows(&rows.pattern, &transform).0;
        let translate = |e: PhaseError| e.in_terms_of_a(transform.col_perm.as_slice());
        // About what a thread takes for an entry of the matrix.
        let seconds = 50e-9 * permuted.nnz() as f64;
        let filled = self
            .threads
            .run(seconds, |threads| {
                let options = luge_symbolic::cpu::Options {
                    cancel: self.limits.cancel.clone(),
                    max_bytes: self
                        .limits
                        .max_host_bytes
                        .map(|_| self.limits.memory.available()),
                    threads,
                };
                luge_symbolic::cpu::filled_pattern_with(&permuted, &options)
            })
            .map_err(|e| translate(e.into()))?;
        let levels = luge_levelize::cpu::levels_cancellable(&filled, &self.limits.cancel)
            .map_err(|e| translate(e.into()))?;
        Ok((filled, levels))
    }
}

impl<T: Scalar> Analysis<T> {
    /// Sizes, times and the code path of the analysis.
    pub fn inform(&self) -> &Inform {
        &self.inform
    }

    /// The filled pattern of the permuted matrix B and the levels of its columns. From the column engine of a device
    /// they are copied to the host as it found them; otherwise they are computed, on the CPU.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], [`Error::Cancelled`], those of the device.
    pub fn structure(&self) -> Result<(FilledPattern, Levels), Error> {
        match &self.shared.path {
            Path::Host(path) => self.shared.host_structure(path.chain.transform().clone()),
            Path::Device(path) => path.chain.structure(&self.shared),
        }
    }

    /// Factorizes a matrix of the pattern that was analyzed.
    ///
    /// # Errors
    ///
    /// [`Error::OtherSize`] and [`Error::PatternMismatch`] if it has another size or pattern;
    /// [`Error::NotFinite`]; [`Error::ZeroPivot`] if it is singular to rounding;
    /// [`Error::Overflow`]; [`Error::OutOfMemory`]; [`Error::Cancelled`]; those of the device.
    pub fn factorize(&self, a: &CsMat<T>) -> Result<Factors<T>, Error> {
        Factors::new(Arc::clone(&self.shared), a, &self.inform)
    }
}

impl<T> std::fmt::Debug for Analysis<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Analysis")
            .field("inform", &self.inform)
            .finish_non_exhaustive()
    }
}

impl Inform {
    /// Takes over what became of an ordering; times add up.
    fn describe_ordering(&mut self, ordering: &Ordering) {
        self.num_blocks = ordering.block_ptr.len() - 1;
        self.ordering = name_of(ordering.method_used);
        self.matched = ordering.rows_matched;
        self.seconds.ordering += ordering.seconds.total;
    }

    /// Takes over what is planned for the CPU; the ordering predicts `lnz` and `unz`.
    fn describe_host(&mut self, path: &HostPath, lnz: u64, unz: u64) {
        let plan = path.chain.plan();
        let fronts = plan.front_sizes();
        self.lnz = lnz;
        self.unz = unz;
        if fronts.columns > 0 {
            self.num_supernodes = Some(fronts.num_supernodes);
            self.max_front = Some(fronts.max_front);
        }
        self.peak_host_bytes = plan.bytes();
        self.precision = path.chain.precision();
        self.predicted_host_bytes = Some(path.chain.predicted_bytes(lnz + unz));
    }
}

/// `a` stored by rows.
pub(crate) fn by_rows<T: Scalar>(a: &CsMat<T>) -> CsMat<T> {
    if a.is_csr() { a.clone() } else { a.to_csr() }
}

/// Where the entries of a matrix begin by its own offsets: not at 0 in rows or columns that were cut out of another
/// matrix. sprs keeps the offsets of the whole there, and the entries of the part alone.
fn first_offset(offsets: &[usize]) -> usize {
    offsets.first().copied().unwrap_or(0)
}

/// The pattern of a matrix as it is stored, whose dimensions fit 32 bits.
fn pattern_of<T>(
    a: &CsMat<T>,
    threads: usize,
    cancel: &CancelFlag,
) -> Result<CompressedPattern, Cancelled> {
    cancel.check()?;
    let offsets = a.indptr();
    let first = first_offset(offsets.raw_storage());
    let ptr = mapped(offsets.raw_storage(), threads, |p| (p - first) as u64);
    let idx = mapped(a.indices(), threads, |i| i as u32);
    cancel.check()?;
    let pattern = CompressedPattern::new(a.rows(), ptr, idx)
        .unwrap_or_else(|e| unreachable!("sprs keeps its matrices sorted and in range: {e}"));
    Ok(pattern)
}

fn name_of(method: MethodUsed) -> &'static str {
    match method {
        MethodUsed::Amd => "AMD",
        MethodUsed::Colamd => "COLAMD",
        MethodUsed::NestedDissection => "nested dissection",
        MethodUsed::ReducedNestedDissection => "reduced nested dissection",
        MethodUsed::AmdAndNestedDissection => "AMD and nested dissection",
        MethodUsed::Natural => "natural",
        MethodUsed::User => "user",
    }
}
