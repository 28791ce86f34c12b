//! The solver and the analysis of a pattern.

mod loaded;

use std::borrow::Cow;
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;

#[cfg(feature = "gpu")]
use luge_device::Stream;
use luge_frontal::RankOptions;
#[cfg(feature = "gpu")]
use luge_frontal::{Full, Lower};
use luge_ordering::{Method, Ordering, OrderingOptions, SymmetricOrdering};
use luge_sparse::num_traits::One;
use luge_sparse::{
    CompressedPattern, Compression, Index, MatrixRef, MemoryBudget, PatternRef, Reservation,
    Scalar, bytes_of, to_u32,
};

use crate::analysis::Analysis;
use crate::attempts::Remedy;
#[cfg(feature = "gpu")]
use crate::backend::auto::{Auto, Chosen, CpuWork, Work, tree_seconds};
#[cfg(feature = "gpu")]
use crate::backend::gpu::GpuBackend;
use crate::backend::{Backend, Limits};
#[cfg(feature = "gpu")]
use crate::device_choice;
#[cfg(feature = "gpu")]
use crate::device_place::DevicePlace;
#[cfg(feature = "gpu")]
use crate::device_plan::DevicePath;
use crate::error::Error;
use crate::factors::RENEWAL_PER_ENTRY;
use crate::host::HostPlace;
use crate::host_path::HostPath;
use crate::inform::{Inform, PredictedSeconds, Seconds, Warning};
#[cfg(feature = "gpu")]
use crate::options::BackendChoice;
use crate::options::{DeviceEngine, FactorPrecision, MatrixKind, Options, Pivoting, SymmetricKind};
use crate::ordered::{costs_of, for_static_pivots, order_within};
use crate::path::Path;
use crate::planner::planner;
use crate::reductions;
use crate::saved::{Order, Purpose, Saved};
use crate::shared::Shared;
use crate::stored::{Rows, pattern_of, values_in_wide};
use crate::symmetric;
use crate::symmetry::Symmetry;
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
    /// A GPU in place of the backend, where that is predicted to be faster.
    #[cfg(feature = "gpu")]
    auto: Option<Auto>,
    /// Why there is none, if the options ask for one.
    no_gpu: Option<String>,
    threads: Threads,
    memory: MemoryBudget,
    /// The ranks that work on a matrix together.
    ranks: Option<RankOptions>,
    /// For the solver itself, and what is too small to be counted one by one.
    _slack: Arc<Reservation>,
}

/// Where a matrix goes, and its order for that place.
struct Choice<O> {
    backend: Backend,
    options: Arc<OrderingOptions>,
    ordering: (O, Reservation),
    predicted: Option<PredictedSeconds>,
}

#[cfg(feature = "gpu")]
impl<O> Choice<O> {
    /// With what was chosen in place of what the options name.
    fn with(self, chosen: Chosen<(O, Reservation)>, auto: &Auto) -> Self {
        let (options, ordering) = match chosen.order {
            Some(order) => (Arc::clone(&auto.ordering), order),
            None => (self.options, self.ordering),
        };
        Self {
            backend: chosen.backend,
            options,
            ordering,
            predicted: Some(chosen.predicted),
        }
    }
}

impl Inform {
    /// Warns if there is no GPU where one was asked for.
    fn warn_of(&mut self, backend: &Backend) {
        if let Backend::Cpu {
            no_gpu: Some(reason),
        } = backend
        {
            let reason = reason.clone();
            self.warnings.push(Warning::NoGpu { reason });
        }
    }
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
        let ordering = ordering_options(&options, !matches!(backend, Backend::Cpu { .. }));
        #[cfg(feature = "gpu")]
        let (auto, no_gpu) = match options.backend {
            BackendChoice::Auto if options.max_delays.is_none() => {
                match Auto::new(ordering_options(&options, true)) {
                    Ok(auto) => (Some(auto), None),
                    Err(Error::Device(cause)) => (None, Some(cause.to_string())),
                    Err(error) => (None, Some(error.to_string())),
                }
            }
            _ => (None, None),
        };
        // Whoever built this program without GPUs knows that it uses none.
        #[cfg(not(feature = "gpu"))]
        let no_gpu = None;
        let memory = options.max_host_bytes.map(MemoryBudget::new);
        let memory = memory.unwrap_or_default();
        let slack = SLACK_BYTES + threads.count() as u64 * SLACK_PER_THREAD;
        let slack = memory.reserve(slack);
        let slack = slack.map_err(|error| Error::from_budget(error, "setup"))?;
        Ok(Self {
            options: Arc::new(options),
            ordering: Arc::new(ordering),
            backend,
            #[cfg(feature = "gpu")]
            auto,
            no_gpu,
            threads,
            memory,
            ranks: None,
            _slack: Arc::new(slack),
        })
    }

    /// The same with the ranks that work on a matrix together. All of them make the same calls.
    pub(crate) fn on_ranks(self, ranks: RankOptions) -> Self {
        Self {
            ranks: Some(ranks),
            ..self
        }
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The stream of the device on which all work of this solver is, in order; `None` on the CPU.
    ///
    /// Buffers for [`Factors::refactorize_on_device`](crate::Factors::refactorize_on_device) and
    /// [`Factors::solve_on_device`](crate::Factors::solve_on_device) are made on it; what is enqueued
    /// on it before such a call is done before, and what comes after sees the results. With
    /// [`BackendChoice::Auto`] there is none until a matrix was analyzed for which a GPU was chosen.
    #[cfg(feature = "gpu")]
    pub fn stream(&self) -> Option<&Stream> {
        match &self.backend {
            Backend::Cpu { .. } => self.auto.as_ref()?.opened().map(GpuBackend::stream),
            Backend::Gpu(backend) => Some(backend.stream()),
        }
    }

    /// Orders and analyzes a square matrix; its values guide matching and scaling.
    ///
    /// The matrix is anything that becomes a [`MatrixRef`]: a matrix of sprs, nalgebra-sparse or faer, or raw arrays.
    /// Whether it is stored by rows (CSR) or by columns (CSC) makes no difference to the factors, nor to what solves
    /// return; by rows the analysis is spared a transposition.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMatrix`], [`Error::NotSquare`], [`Error::NotSymmetric`], [`Error::NotHermitian`],
    /// [`Error::RealOnly`] for complex matrices on a device without room for their tiles, [`Error::PermutationLength`],
    /// [`Error::SignsLength`], [`Error::NotFinite`],
    /// [`Error::StructurallySingular`], [`Error::ZerosOnly`], [`Error::OutOfMemory`],
    /// [`Error::IndexOverflow`], [`Error::Cancelled`], and those of the device.
    pub fn analyze<'a, T: Scalar, I: Index>(
        &self,
        a: impl Into<MatrixRef<'a, T, I>>,
    ) -> Result<Analysis<T>, Error> {
        let a = a.into();
        a.check()?;
        self.analyze_checked(&a.pattern(), Some(&a), None)
    }

    /// Orders and analyzes a pattern whose values are not known yet, for matrices of the scalar type `T`.
    ///
    /// Rows are matched to columns by the pattern alone. On the CPU each matrix is scaled for its own values when it is
    /// factorized; on a device it is not. A matrix whose pivots do not serve in this order is ordered anew with its values,
    /// each time that [`Analysis::factorize`] sees it. Where values are known, [`analyze`](Self::analyze) is the better
    /// choice.
    ///
    /// ```
    /// use luge::{Options, PatternRef, Solver};
    ///
    /// // x .
    /// // x x
    /// let pattern = PatternRef::by_rows(2, 2, &[0u32, 1, 3], &[0, 0, 1]);
    /// let analysis = Solver::new(Options::default())?.analyze_pattern(pattern)?;
    /// let factors = analysis.factorize_values(&[2.0, 1.0, 4.0])?;
    /// assert_eq!(factors.solve(&[2.0, 9.0])?.x, [1.0, 2.0]);
    /// # Ok::<(), luge::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`analyze`](Self::analyze).
    pub fn analyze_pattern<'a, T: Scalar, I: Index>(
        &self,
        pattern: impl Into<PatternRef<'a, I>>,
    ) -> Result<Analysis<T>, Error> {
        let pattern = pattern.into();
        pattern.check()?;
        self.analyze_checked(&pattern, None, None)
    }

    /// Analyzes a matrix by what [`Analysis::save`] wrote, which takes the time of what comes after an ordering.
    ///
    /// The matrix has the pattern of the one whose analysis was saved, by rows or by columns, and is to be analyzed with the
    /// same options as far as they concern matching, scaling and blocks, and be of the same kind. It may have other values:
    /// permutations and scaling are those of the values that were analyzed. The backend may be another one; an order that
    /// was found for a device serves the CPU too, and the other way round, though either may find one that suits it more.
    ///
    /// ```
    /// use luge::{Options, Solver};
    ///
    /// let a = sprs::CsMat::<f64>::eye(3);
    /// let mut file = Vec::new();
    /// let solver = Solver::new(Options::default().keep_order(true))?;
    /// solver.analyze(&a)?.save(&mut file)?;
    ///
    /// let analysis = Solver::new(Options::default())?.load_analysis(&a, &file[..])?;
    /// assert_eq!(analysis.factorize(&a)?.solve(&[1.0, 2.0, 3.0])?.x, [1.0, 2.0, 3.0]);
    /// # Ok::<(), luge::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Saved`] if the file is damaged, of another version, or of another pattern, scalar or kind; those of
    /// [`analyze`](Self::analyze).
    pub fn load_analysis<'a, T: Scalar, I: Index>(
        &self,
        a: impl Into<MatrixRef<'a, T, I>>,
        source: impl Read,
    ) -> Result<Analysis<T>, Error> {
        let a = a.into();
        a.check()?;
        let saved = Saved::read(source)?;
        self.analyze_checked(&a.pattern(), Some(&a), Some(&saved))
    }

    /// Chooses the backend for a matrix of so many rows, entries and components of one that is ordered for the backend that the
    /// options name; `order` orders it with other options.
    fn choose(
        &self,
        (n, nnz, components): (usize, usize, usize),
        ordered: (Ordering, Reservation),
        order: impl FnOnce(&OrderingOptions) -> Result<(Ordering, Reservation), Error>,
    ) -> Result<Choice<Ordering>, Error> {
        let choice = self.not_chosen(ordered);
        // There are no kernels for columns of complex numbers.
        #[cfg(feature = "gpu")]
        if let Some(auto) = &self.auto
            && (components == 1 || self.options.device_engine != DeviceEngine::Columns)
        {
            let predicted = choice.ordering.0.predicted;
            let work = Work {
                matrix: (n, nnz),
                on_cpu: CpuWork::General(&predicted),
                threads: self.threads.count(),
                components,
            };
            let seconds = |(o, _): &(Ordering, _)| tree_seconds::<Full>(&o.forest, components);
            let order = || order(&auto.ordering);
            let chosen = auto.choose(&self.options, work, order, seconds)?;
            return Ok(choice.with(chosen, auto));
        }
        #[cfg(not(feature = "gpu"))]
        drop((order, n, nnz, components));
        Ok(choice)
    }

    /// Likewise for a symmetric matrix of numbers with so many components.
    fn choose_symmetric(
        &self,
        components: usize,
        request: &symmetric::Request<'_>,
        order: impl Fn(&symmetric::Request<'_>) -> Result<(SymmetricOrdering, Reservation), Error>,
    ) -> Result<Choice<SymmetricOrdering>, Error> {
        let choice = self.not_chosen(order(request)?);
        #[cfg(feature = "gpu")]
        if let Some(auto) = &self.auto
            && self.options.device_engine != DeviceEngine::Columns
        {
            let predicted = choice.ordering.0.predicted;
            let work = Work {
                matrix: (request.pattern.major_dim(), request.pattern.nnz()),
                on_cpu: CpuWork::Symmetric(&predicted),
                threads: self.threads.count(),
                components,
            };
            let seconds = |(ordering, _): &(SymmetricOrdering, _)| {
                tree_seconds::<Lower>(&ordering.forest, components)
            };
            let order = || {
                order(&symmetric::Request {
                    on_device: true,
                    ..*request
                })
            };
            let chosen = auto.choose(&self.options, work, order, seconds)?;
            return Ok(choice.with(chosen, auto));
        }
        #[cfg(not(feature = "gpu"))]
        let _ = components;
        Ok(choice)
    }

    /// The backend that the options name.
    fn not_chosen<O>(&self, ordering: (O, Reservation)) -> Choice<O> {
        let mut backend = self.backend.clone();
        match &mut backend {
            Backend::Cpu { no_gpu } => no_gpu.clone_from(&self.no_gpu),
            #[cfg(feature = "gpu")]
            Backend::Gpu(_) => {}
        }
        Choice {
            backend,
            options: Arc::clone(&self.ordering),
            ordering,
            predicted: None,
        }
    }

    /// Refuses options that are for another order of the matrix.
    fn check_lengths(&self, n: usize) -> Result<(), Error> {
        if let Method::User { rows, .. } = &self.ordering.method
            && rows.len() != n
        {
            let permuted = rows.len();
            return Err(Error::PermutationLength { permuted, n });
        }
        if let Some(regularization) = &self.options.regularization
            && regularization.signs.len() != n
        {
            let signs = regularization.signs.len();
            return Err(Error::SignsLength { signs, n });
        }
        Ok(())
    }

    /// The limits for work on a matrix of this pattern, if the options go with it.
    fn limits_for<T: Scalar, I: Index>(&self, a: &PatternRef<'_, I>) -> Result<Limits, Error> {
        let n = a.rows();
        if a.cols() != n {
            return Err(Error::NotSquare {
                rows: n,
                cols: a.cols(),
            });
        }
        to_u32(n, "number of rows")?;
        planner::<T::Wide>().check(&self.options)?;
        self.check_lengths(n)?;
        Ok(Limits {
            cancel: self.options.cancel.clone(),
            max_host_bytes: self.options.max_host_bytes,
            memory: self.memory.clone(),
            ranks: self.ranks.clone(),
        })
    }

    /// Analyzes a checked pattern, with the values of a matrix that has it if they are known.
    fn analyze_checked<T: Scalar, I: Index>(
        &self,
        a: &PatternRef<'_, I>,
        matrix: Option<&MatrixRef<'_, T, I>>,
        saved: Option<&Saved>,
    ) -> Result<Analysis<T>, Error> {
        let (n, nnz) = (a.rows(), a.nnz());
        let limits = self.limits_for::<T, I>(a)?;
        let by_columns = a.compression() == Compression::Columns;
        let of_pattern_alone = Saved::is_of_pattern_alone(matrix.is_none(), saved);
        let is_single = size_of::<T::Real>() != size_of::<f64>();
        let is_complex = T::COMPONENTS > 1;
        let (order, entries) = (n as u64, nnz as u64);
        let of_pattern = limits.reserve(8 * (order + 1) + 4 * entries, "ordering")?;
        // The rows, where each entry is among the columns, and the sizes of values in that order.
        let turned = Rows::bytes(order, entries, by_columns);
        let widened = if is_single || matrix.is_none() || !a.is_compact() {
            bytes_of::<T::Wide>(nnz)
        } else {
            0
        };
        let sizes = if is_complex { 8 * entries } else { 0 };
        let of_rows = limits.reserve(turned + widened + sizes, "ordering")?;
        let seconds = nnz as f64 * PATTERN_PER_ENTRY;
        let pattern = self
            .threads
            .run(seconds, |threads| pattern_of(a, threads, &limits.cancel))?;
        let single = self.options.precision == FactorPrecision::Single || is_single;
        // Without values every entry is as good as any other.
        let in_wide = matrix.map_or_else(|| vec![T::Wide::one(); nnz].into(), values_in_wide);
        let sizes = T::Wide::in_real(&in_wide);
        // The columns of a device know of no symmetric matrices.
        let kind = match self.backend {
            #[cfg(feature = "gpu")]
            Backend::Gpu(_) if self.options.device_engine == DeviceEngine::Columns => {
                MatrixKind::General
            }
            _ => self.options.kind,
        };
        let bytes = Symmetry::search_bytes(kind, order, entries);
        let of_search = limits.reserve(bytes, "ordering")?;
        let known = matrix.map(|_| &*in_wide);
        let within = limits.of_phase();
        let found = self.threads.run(seconds, |threads| {
            Symmetry::find(kind, &pattern, by_columns, known, threads, &within)
        })?;
        if let Some((mut symmetry, whole)) = found {
            if self.options.regularization.is_some() {
                symmetry.kind = SymmetricKind::Signed;
            }
            // What is left of it is counted with the pattern.
            drop(of_search);
            let stored = Stored {
                pattern: whole.unwrap_or(pattern),
                memory: of_pattern,
                by_columns,
            };
            drop(sizes);
            let values = matrix.map(|_| in_wide);
            return self.analyze_symmetric(stored, symmetry, values, limits, single, saved);
        }
        drop(of_search);
        let rows = Rows::new(&pattern, by_columns, &limits.cancel)?;
        let values = rows.values(&sizes);
        limits.cancel.check()?;
        let purpose = || {
            Purpose::new(
                &rows.pattern,
                None,
                &self.ordering,
                T::NAME,
                of_pattern_alone,
            )
        };
        let order = |options: &OrderingOptions| match saved {
            Some(saved) => saved.general(&purpose(), &limits),
            None => order_within(options, &self.threads, &limits, &rows, &values),
        };
        let (ordering, of_ordering) = order(&self.ordering)?;
        let Choice {
            backend,
            options: ordering_options,
            ordering: (ordering, of_ordering),
            predicted,
        } = self.choose((n, nnz, T::COMPONENTS), (ordering, of_ordering), order)?;
        let kept = self.keep(&limits, || (purpose(), Order::General(ordering.clone())))?;
        let mut inform = self.inform_on(&backend, n, nnz);
        inform.predicted_seconds = predicted;
        inform.describe_ordering(&ordering);
        inform.warn_of(&backend);
        let general = General {
            limits: &limits,
            rows: &rows,
            values: &values,
            single,
        };
        let ordered = (ordering, of_ordering);
        let path = self.plan::<T>(&backend, general, &ordering_options, ordered, &mut inform)?;
        drop(values);
        drop((rows, of_rows));
        let stored = Stored {
            pattern,
            memory: of_pattern,
            by_columns,
        };
        let shared = self.shared::<T>(stored, None, limits, ordering_options, of_pattern_alone);
        Ok(Analysis::new(path, shared, inform, kept))
    }

    /// Plans the phases after the ordering of a general matrix.
    fn plan<T: Scalar>(
        &self,
        backend: &Backend,
        matrix: General<'_>,
        ordering_options: &OrderingOptions,
        (ordering, of_ordering): (Ordering, Reservation),
        inform: &mut Inform,
    ) -> Result<Path<T::Wide>, Error> {
        #[cfg(not(feature = "gpu"))]
        let _ = (ordering_options, matrix.values);
        let General {
            limits,
            rows,
            single,
            ..
        } = matrix;
        #[cfg(feature = "gpu")]
        let values = matrix.values;
        Ok(match backend {
            Backend::Cpu { .. } => {
                let start = Instant::now();
                let (predicted, off_diagonal) =
                    (ordering.predicted, ordering.predicted.off_diagonal_nnz);
                let place = HostPlace {
                    engine: self.options.engine,
                    threads: &self.threads,
                    limits,
                    rows,
                    single,
                };
                let path = HostPath::new(place, (ordering, of_ordering))?;
                inform.seconds.symbolic = start.elapsed().as_secs_f64();
                path.describe(inform, predicted.lnz, predicted.unz + off_diagonal);
                if inform.flops == 0.0 {
                    inform.flops = predicted.flops;
                }
                Path::Host(path)
            }
            #[cfg(feature = "gpu")]
            Backend::Gpu(backend) => {
                let place = DevicePlace {
                    backend,
                    limits,
                    threads: &self.threads,
                    rows,
                    single,
                };
                let path = DevicePath::choose(
                    &self.options,
                    ordering_options,
                    place,
                    values,
                    ordering,
                    inform,
                )?;
                path.analysis.describe(inform);
                Path::Device(path)
            }
        })
    }

    /// Analyzes a symmetric matrix, all of whose pattern is `stored`, with the values that the caller stores if they are
    /// known.
    fn analyze_symmetric<T: Scalar>(
        &self,
        mut stored: Stored,
        symmetry: Symmetry,
        values: Option<Cow<'_, [T::Wide]>>,
        limits: Limits,
        single: bool,
        saved: Option<&Saved>,
    ) -> Result<Analysis<T>, Error> {
        let (n, nnz) = (stored.pattern.major_dim(), stored.pattern.nnz());
        let held = 8 * (n as u64 + 1) + 4 * nnz as u64 + symmetry.bytes();
        let more = held.saturating_sub(stored.memory.bytes());
        let grown = stored.memory.grow(more);
        grown.map_err(|error| Error::from_budget(error, "ordering"))?;
        let _of_values = limits.reserve(8 * nnz as u64, "ordering")?;
        let of_pattern_alone = Saved::is_of_pattern_alone(values.is_none(), saved);
        let values = match values {
            None => None,
            Some(values) => {
                let pattern = (&stored.pattern, stored.by_columns);
                let seconds = RENEWAL_PER_ENTRY * nnz as f64;
                let completed = self.threads.run(seconds, |threads| {
                    let largest = reductions::largest_magnitude(&values, threads);
                    symmetry.check(&values, largest, pattern, threads)?;
                    Ok::<_, Error>(symmetry.completed(values, pattern, threads))
                });
                Some(completed?)
            }
        };
        let request = symmetric::Request {
            options: &self.options,
            threads: &self.threads,
            limits: &limits,
            symmetry: &symmetry,
            pattern: &stored.pattern,
            by_columns: stored.by_columns,
            remedy: Remedy::AsAsked,
            single,
            on_device: self.backend.is_device(),
        };
        let sizes = values.as_deref().map(T::Wide::in_real);
        let purpose = || {
            let (pattern, kind) = (&stored.pattern, Some(symmetry.kind));
            Purpose::new(pattern, kind, &self.ordering, T::NAME, of_pattern_alone)
        };
        let order = |request: &symmetric::Request<'_>| match saved {
            Some(saved) => saved.symmetric(&purpose(), &limits),
            None => request.order(sizes.as_deref()),
        };
        let Choice {
            backend,
            ordering,
            predicted,
            ..
        } = self.choose_symmetric(T::COMPONENTS, &request, order)?;
        let kept = self.keep(&limits, || {
            (purpose(), Order::Symmetric(ordering.0.clone()))
        })?;
        let mut inform = self.inform_on(&backend, n, nnz);
        inform.predicted_seconds = predicted;
        inform.describe_symmetric(&ordering.0);
        inform.warn_of(&backend);
        inform.kind = match symmetry.kind {
            SymmetricKind::Definite => MatrixKind::PositiveDefinite.name(),
            SymmetricKind::MaybeDefinite | SymmetricKind::Indefinite | SymmetricKind::Signed => {
                MatrixKind::of_form(symmetry.form).name()
            }
        };
        let path = match &backend {
            Backend::Cpu { .. } => {
                let start = Instant::now();
                let planned = planner::<T::Wide>().symmetric(&request, ordering)?;
                inform.seconds.symbolic = start.elapsed().as_secs_f64();
                inform.flops = planned.predicted.flops;
                let lnz = planned.predicted.lnz;
                let path = HostPath::symmetric(planned, single);
                path.describe(&mut inform, lnz, lnz);
                Path::Host(path)
            }
            #[cfg(feature = "gpu")]
            Backend::Gpu(backend) => {
                let (mut ordering, _memory) = ordering;
                let path = DevicePath::symmetric(&request, &mut ordering, backend)?;
                path.analysis.describe(&mut inform);
                Path::Device(path)
            }
        };
        let ordering = Arc::clone(&self.ordering);
        let symmetry = Some(Arc::new(symmetry));
        let shared = self.shared::<T>(stored, symmetry, limits, ordering, of_pattern_alone);
        Ok(Analysis::new(path, shared, inform, kept))
    }

    /// The order and what it is for, if it is to be kept.
    fn keep(
        &self,
        limits: &Limits,
        order: impl FnOnce() -> (Purpose, Order),
    ) -> Result<Option<Arc<Saved>>, Error> {
        if !self.options.keep_order {
            return Ok(None);
        }
        let (purpose, order) = order();
        Ok(Some(Arc::new(Saved::new(purpose, order, limits)?)))
    }

    /// The beginning of a report.
    fn inform_on(&self, backend: &Backend, n: usize, nnz: usize) -> Inform {
        let description = backend.description(self.threads.count());
        Inform {
            n,
            nnz,
            seconds: Seconds {
                module_load: description.module_load_seconds,
                ..Seconds::default()
            },
            backend: description.backend,
            device: description.device,
            scaled: self.options.ordering.scaling && self.options.regularization.is_none(),
            kind: MatrixKind::General.name(),
            ..Inform::default()
        }
    }

    /// What an analysis and its factors have in common.
    fn shared<T: Scalar>(
        &self,
        stored: Stored,
        symmetry: Option<Arc<Symmetry>>,
        limits: Limits,
        ordering: Arc<OrderingOptions>,
        of_pattern_alone: bool,
    ) -> Shared {
        Shared {
            target: self.options.target_backward_error.unwrap_or(
                // An f32 solution cannot do better than its rounding.
                if size_of::<T::Real>() == size_of::<f32>() {
                    1e-6
                } else {
                    1e-12
                },
            ),
            options: Arc::clone(&self.options),
            ordering,
            limits,
            threads: self.threads.clone(),
            pattern: Arc::new(stored.pattern),
            symmetry,
            _memory: Arc::new(stored.memory),
            by_columns: stored.by_columns,
            of_pattern_alone,
        }
    }
}

/// A general matrix that is ordered.
#[derive(Clone, Copy)]
struct General<'a> {
    limits: &'a Limits,
    rows: &'a Rows<'a>,
    /// By rows.
    values: &'a [f64],
    single: bool,
}

/// The pattern of a matrix, and what is reserved for it.
struct Stored {
    pattern: CompressedPattern,
    memory: Reservation,
    by_columns: bool,
}

/// How to order, for the CPU or for a device.
fn ordering_options(options: &Options, on_device: bool) -> OrderingOptions {
    let on_columns = on_device && options.device_engine == DeviceEngine::Columns;
    let searches = !on_columns && options.pivoting != Pivoting::Static;
    let matching = options.ordering.matching;
    let ordering = options
        .ordering
        .clone()
        .cancel(options.cancel.clone())
        .matching(if searches {
            matching
        } else {
            for_static_pivots(matching)
        })
        .costs(costs_of(options))
        .threads(1);
    #[cfg(feature = "gpu")]
    if on_device && !on_columns {
        return device_choice::ordering_for_tree(ordering, options.factorizations);
    }
    ordering
}

/// Host memory for what is too small to be counted one by one, and for each thread.
const SLACK_BYTES: u64 = 96 << 10;
const SLACK_PER_THREAD: u64 = 16 << 10;

/// Seconds that it takes to copy an entry of a pattern, and to check it, at least.
const PATTERN_PER_ENTRY: f64 = 1e-9;
