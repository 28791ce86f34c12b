//! How the device path comes by factors it can trust: static pivots first, searched ones if they fail.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use luge_device::{BufferView, Stream};
use luge_frontal::gpu::DeviceFrontalLu;
use luge_ordering::{Matching, Ordering, OrderingOptions};
use luge_solve::gpu::Measures;
use luge_solve::refine;
use luge_sparse::{PivotPolicy, RealScalar};
use smallvec::{SmallVec, smallvec};

use crate::accuracy::{
    BoundOf, ORDINARY, ORDINARY_SINGLE, OnePass, SLACK, WILD, bound, inverse_exponent,
};
use crate::attempts::Found;
use crate::backend::Limits;
use crate::backend::gpu::GpuBackend;
use crate::device_analysis::{AnyDeviceAnalysis, AnyDeviceEngine, NewValues};
use crate::device_choice;
use crate::device_columns::ColumnAnalysis;
use crate::device_forest::Forest;
use crate::device_symmetric;
use crate::device_tree::TreeAnalysis;
use crate::engine::{Condition, FactorReport, SINGULAR};
use crate::error::Error;
use crate::inform::{Inform, Warning};
use crate::options::{DeviceEngine, Options, Pivoting, ResidualCheck};
use crate::ordered::{
    costs_of, for_static_pivots, order_rows, round_to_powers_of_two, transform_of,
};
use crate::probe::{OnePassOf, Probe, is_above};
use crate::shared::Shared;
use crate::stored::Rows;
use crate::task::{Journal, Refactorized, Task};
use crate::threads::Threads;

/// Diagonal preference of the first search for pivots under [`Pivoting::Auto`].
const SEARCH_THRESHOLD: f64 = 0.01;

/// How far from the target, or from ε of the factors if that is more, a solve with static pivots may be before it is
/// refined: under [`Pivoting::Auto`] others are searched beyond that.
const WORST_UNREFINED: f64 = 1e3;

/// A device.
pub(crate) struct DevicePath {
    pub analysis: Arc<dyn AnyDeviceAnalysis>,
    pub backend: GpuBackend,
    /// What else might do if static pivots on this analysis do not.
    pub alternative: Option<Matching>,
    /// The engine that was chosen, and how rows of a general matrix are matched for it.
    engine: DeviceEngine,
    matching: Matching,
    pub single: bool,
}

/// Seconds that the analysis of a tree takes for each entry of a matrix, likewise.
const TREE_PER_ENTRY: f64 = 20e-9;

/// What plans for a device are made of.
#[derive(Clone, Copy)]
pub(crate) struct DevicePlace<'a> {
    pub backend: &'a GpuBackend,
    pub limits: &'a Limits,
    pub threads: &'a Threads,
    pub rows: &'a Rows<'a>,
    pub single: bool,
}

impl DevicePlace<'_> {
    fn columns(self, ordering: Ordering) -> Result<Arc<dyn AnyDeviceAnalysis>, Error> {
        let transform = transform_of(ordering).0;
        Ok(if self.single {
            ColumnAnalysis::<f32>::analyze(self.rows, transform, self.backend, self.limits)?
        } else {
            ColumnAnalysis::<f64>::analyze(self.rows, transform, self.backend, self.limits)?
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
    fn tree(self, forest: Forest) -> Result<Arc<dyn AnyDeviceAnalysis>, Error> {
        self.backend.check_memory(forest.device_bytes())?;
        let (backend, threads) = (self.backend, self.threads);
        threads.run(
            self.work(),
            |count| -> Result<Arc<dyn AnyDeviceAnalysis>, Error> {
                Ok(if self.single {
                    TreeAnalysis::<DeviceFrontalLu<f32>>::upload(forest, backend, threads, count)?
                } else {
                    TreeAnalysis::<DeviceFrontalLu<f64>>::upload(forest, backend, threads, count)?
                })
            },
        )
    }

    /// Seconds of the analysis of a tree on one thread, or of its upload, at least.
    fn work(self) -> f64 {
        self.rows.pattern.nnz() as f64 * TREE_PER_ENTRY
    }
}

impl DevicePath {
    /// The path by a tree that is there.
    pub(crate) fn of_tree(
        analysis: Arc<dyn AnyDeviceAnalysis>,
        backend: &GpuBackend,
        alternative: Option<Matching>,
        single: bool,
    ) -> Self {
        Self {
            analysis,
            backend: backend.clone(),
            alternative,
            engine: DeviceEngine::Tree,
            matching: Matching::Auto,
            single,
        }
    }

    /// Chooses an engine for a matrix with these values by rows, and plans for it. Where that takes another ordering
    /// than the one there is, the inform hears of it.
    pub(crate) fn choose(
        options: &Options,
        ordering_options: &OrderingOptions,
        place: DevicePlace<'_>,
        values: &[f64],
        ordering: Ordering,
        inform: &mut Inform,
    ) -> Result<Self, Error> {
        let path = |engine, matching, alternative, analysis| Self {
            analysis,
            backend: place.backend.clone(),
            alternative,
            engine,
            matching,
            single: place.single,
        };
        let matching = ordering_options.matching;
        let wanted = options.device_engine;
        if wanted == DeviceEngine::Columns {
            let analysis = place.columns(ordering)?;
            return Ok(path(DeviceEngine::Columns, matching, None, analysis));
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
            let analysis = place.tree(forest)?;
            return Ok(path(DeviceEngine::Tree, matching, alternative, analysis));
        }
        let matching = for_static_pivots(matching);
        // The columns' levels are not the tree's.
        let for_columns = ordering_options
            .clone()
            .matching(matching)
            .costs(costs_of(options))
            .tree_cost(None);
        let ordering = order_rows(&for_columns, place.threads, place.rows, values)?;
        inform.describe_ordering(&ordering);
        let analysis = place.columns(ordering)?;
        Ok(path(DeviceEngine::Columns, matching, None, analysis))
    }
}

impl DevicePath {
    /// The same plan for work on another stream, if the engine can share it.
    pub(crate) fn on_stream(&self, stream: &Stream) -> Result<Option<Self>, Error> {
        let analysis = Arc::clone(&self.analysis).on_stream(stream)?;
        Ok(analysis.map(|analysis| Self {
            analysis,
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
    ) -> Result<Arc<dyn AnyDeviceAnalysis>, Error> {
        let rows = Rows::new(&shared.pattern, shared.by_columns, &shared.limits.cancel)?;
        let by_rows = rows.values(values);
        let mut options = (*shared.ordering)
            .clone()
            .matching(matching.unwrap_or(self.matching));
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

/// Factors on the device that passed their probe, or the best there were.
pub(crate) struct DeviceFactors {
    pub analysis: Arc<dyn AnyDeviceAnalysis>,
    pub engine: Box<dyn AnyDeviceEngine>,
    /// None where the options ask for none.
    pub probe: Option<Probe>,
    /// Off-diagonal pivots, if they were searched on the CPU.
    pub searched: Option<usize>,
    /// By what the pivots of a symmetric matrix were searched.
    pub pivots: Option<PivotPolicy>,
    /// Estimated if pivots were searched.
    pub condition: Option<Condition>,
    /// That of the analysis's scaling, once somebody asks.
    inverse_exponent: OnceLock<i32>,
}

impl DeviceFactors {
    /// Of a new engine, pivots not searched.
    pub(crate) fn new(
        analysis: Arc<dyn AnyDeviceAnalysis>,
        engine: Box<dyn AnyDeviceEngine>,
        probe: Probe,
    ) -> Self {
        Self {
            analysis,
            engine,
            probe: Some(probe),
            searched: None,
            pivots: None,
            condition: None,
            inverse_exponent: OnceLock::new(),
        }
    }

    /// What is known of one pass of solves, where `target` is to be reached. The probe knows nothing of the transpose.
    pub(crate) fn one_pass(&self, target: f64, transpose: bool) -> OnePass {
        let Some(probe) = self.probe else {
            return OnePass::Unknown;
        };
        let report = self.engine.report();
        let of_growth = self.bound_of_growth(&report, &probe);
        let of_probe = if transpose || of_growth > WILD {
            f64::INFINITY
        } else {
            probe.bound(report.epsilon)
        };
        let bound = if report.growth_bounds {
            of_growth.min(of_probe)
        } else {
            of_probe
        };
        if report.num_perturbed > 0
            || !self.holds_digits(&report)
            || is_above(bound, SLACK * target)
        {
            OnePass::Measured
        } else {
            OnePass::Bounded(bound)
        }
    }

    /// Whether entries of B are not subnormal in the type of the factors, or nearly: those have lost digits.
    pub(crate) fn holds_digits(&self, report: &FactorReport) -> bool {
        if report.epsilon > f64::EPSILON {
            ORDINARY_SINGLE.contains(&report.largest)
        } else {
            ORDINARY.contains(&report.largest)
        }
    }

    /// The bound of one pass that follows from the growth.
    fn bound_of_growth(&self, report: &FactorReport, probe: &Probe) -> f64 {
        bound(BoundOf {
            epsilon: report.epsilon,
            product: report.growth * report.largest,
            residual: 0.0,
            norm_a: probe.norm_a,
            exponent: *self
                .inverse_exponent
                .get_or_init(|| inverse_exponent(&self.analysis.transform().scaling)),
        })
    }

    /// The backward error that solutions can be expected to have, if there was a probe.
    fn statement(&self, target: f64) -> Result<Option<f64>, Error> {
        let Some(probe) = self.probe else {
            return Ok(None);
        };
        let report = self.engine.report();
        // The threshold of a symmetric matrix leaves much to refinement, so one solve tells whether it converges for others as
        // it did in the probe.
        let rcond = match &self.condition {
            Some(condition) => Some(condition.rcond),
            None if self.pivots.is_some() && probe.is_refined() => Some(self.engine.screen()?),
            None => None,
        };
        let one_pass = OnePassOf {
            bound: self.bound_of_growth(&report, &probe),
            growth: report.growth,
            rcond,
            epsilon: report.epsilon,
        };
        Ok(probe.statement(&one_pass, target))
    }

    /// Brings the factors of the old values back, and gives `error`, or what kept them from coming back.
    pub(crate) fn restored(&mut self, error: Error) -> Error {
        self.engine.restore().err().unwrap_or(error)
    }

    fn misses(&self, target: f64) -> bool {
        self.probe.is_none_or(|probe| probe.misses(target))
    }

    fn unstable(&self) -> Error {
        unstable(self.engine.as_ref(), self.probe)
    }
}

/// ε of the factors times their growth: rounding errors are about that large, relative to B.
fn expected_error(engine: &dyn AnyDeviceEngine) -> f64 {
    let report = engine.report();
    report.growth * report.epsilon
}

/// Whether the options want the new factors of a refactorization measured by a solve.
fn is_to_be_probed(engine: &dyn AnyDeviceEngine, shared: &Shared) -> bool {
    match shared.options.residual_check {
        ResidualCheck::Always => true,
        ResidualCheck::WhereInDoubt => is_above(expected_error(engine), shared.target),
        ResidualCheck::Never => false,
    }
}

fn unstable(engine: &dyn AnyDeviceEngine, probe: Option<Probe>) -> Error {
    let growth = engine.report().growth;
    match probe {
        Some(probe) => probe.unstable(growth),
        None => Error::Unstable {
            row: 0,
            growth,
            backward_error: expected_error(engine),
        },
    }
}

/// Whether other pivots might do better.
fn is_numerical(error: &Error) -> bool {
    matches!(
        error,
        Error::ZeroPivot { .. }
            | Error::Overflow { .. }
            | Error::SingularToRounding { .. }
            | Error::Unstable { .. }
    )
}

impl<T: RealScalar> Task<'_, T> {
    /// Solves for a known solution and writes down how long that took. One solve does where it shows that the factors
    /// are as good as they must be; else refinement shows what can be made of them. All of that is on the device if the
    /// engine keeps the values there.
    pub(crate) fn probe_on_device(
        &self,
        engine: &dyn AnyDeviceEngine,
        journal: &mut Journal,
    ) -> Result<Probe, Error> {
        let start = Instant::now();
        if let Some(resident) = engine.resident() {
            let refinement = self.shared.refinement::<T>();
            let probe = Probe::resident(resident, self.shared, None, &refinement)?;
            journal.add_probe(start.elapsed());
            if let Some(probe) = probe {
                return Ok(probe);
            }
            return self.probe_with(self.shared.options.max_refinement_steps, engine, journal);
        }
        let quick = Probe::quick(self.a, |x| {
            let solution = engine.solve(x, 1, false)?;
            x.copy_from_slice(&solution);
            Ok(())
        })?;
        journal.add_probe(start.elapsed());
        match quick {
            Some(probe) if !probe.misses(self.shared.target) => Ok(probe),
            _ => Ok(Probe {
                unrefined: quick.map_or(f64::INFINITY, |probe| probe.unrefined),
                ..self.probe_with(self.shared.options.max_refinement_steps, engine, journal)?
            }),
        }
    }
}

/// What was looked at of factors that serve.
pub(crate) struct Judged {
    /// Where the options ask for it.
    probe: Option<Probe>,
    /// Where pivots raised the question.
    condition: Option<Condition>,
}

/// What came of factors with some pivots.
pub(crate) enum Verdict<T> {
    /// They serve.
    Serve(T),
    /// They do not, for this reason, and others may be searched.
    Fail(String),
}

impl DevicePath {
    /// ε of the type of the factors.
    pub(crate) fn epsilon(&self) -> f64 {
        if self.single {
            f64::from(f32::EPSILON)
        } else {
            f64::EPSILON
        }
    }

    /// The policy of factorizations whose pivots are not searched.
    fn static_pivots(&self, shared: &Shared) -> PivotPolicy {
        shared.options.static_pivots(self.epsilon())
    }

    /// Finds factors by the pivoting that the options ask for.
    pub(crate) fn create<T: RealScalar>(
        &self,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors, Error> {
        if task.shared.symmetry.is_some() {
            return self.create_symmetric(task, journal);
        }
        match self.create_on(&self.analysis, self.alternative, task, journal) {
            Err(error) if is_numerical(&error) => {
                self.establish_anew(task, journal).map_err(|_| error)
            }
            done => done,
        }
    }

    /// Orders, scales and factorizes for the values at hand, with one matching after another: the scaling of other values
    /// may be all that is wrong with a matrix.
    fn establish_anew<T: RealScalar>(
        &self,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors, Error> {
        let mut failure = None;
        for matching in [None, Some(Matching::Always)] {
            let start = Instant::now();
            let analysis = self.analyze_again(task.shared, task.values, matching);
            *journal.seconds.pivot_search.get_or_insert(0.0) += start.elapsed().as_secs_f64();
            let alternative = self.alternative.filter(|_| matching.is_none());
            match analysis
                .and_then(|analysis| self.create_on(&analysis, alternative, task, journal))
            {
                Err(error) if is_numerical(&error) => failure = failure.or(Some(error)),
                done => return done,
            }
        }
        Err(failure.unwrap_or_else(|| unreachable!("two matchings were tried")))
    }

    /// As [`create`](Self::create), with the first analysis to try and what else might do.
    fn create_on<T: RealScalar>(
        &self,
        analysis: &Arc<dyn AnyDeviceAnalysis>,
        alternative: Option<Matching>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors, Error> {
        if let Pivoting::Threshold { .. } = task.shared.options.pivoting {
            return self.search(analysis, task, journal);
        }
        let reason = match self.try_static(analysis, task, journal)? {
            Verdict::Serve(factors) => return Ok(factors),
            Verdict::Fail(reason) => reason,
        };
        let mut analysis = Arc::clone(analysis);
        if let Some(matching) = alternative {
            let start = Instant::now();
            analysis = self.analyze_again(task.shared, task.values, Some(matching))?;
            *journal.seconds.pivot_search.get_or_insert(0.0) += start.elapsed().as_secs_f64();
            if let Verdict::Serve(factors) = self.try_static(&analysis, task, journal)? {
                journal.warnings.push(Warning::RowsMatched { reason });
                return Ok(factors);
            }
        }
        journal.warnings.push(Warning::PivotsSearched { reason });
        self.search(&analysis, task, journal)
    }

    /// Factorizes with static pivots.
    fn try_static<T: RealScalar>(
        &self,
        analysis: &Arc<dyn AnyDeviceAnalysis>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Verdict<DeviceFactors>, Error> {
        let shared = task.shared;
        let is_auto = shared.options.pivoting == Pivoting::Auto;
        let start = Instant::now();
        let pivots = self.static_pivots(shared);
        let factorized = Arc::clone(analysis).factorize(task.values, pivots, &shared.limits);
        journal.add_numeric(start.elapsed());
        let engine = match factorized {
            Ok(engine) => engine,
            Err(error @ (Error::ZeroPivot { .. } | Error::Overflow { .. })) if is_auto => {
                return Ok(Verdict::Fail(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let probe = task.probe_on_device(engine.as_ref(), journal)?;
        let report = engine.report();
        let reason = if report.num_perturbed > 0 {
            Some(format!("{} tiny pivots", report.num_perturbed))
        } else if probe.misses(shared.target) {
            Some(format!("backward error {:.1e}", probe.backward_error))
        } else if is_above(
            probe.unrefined,
            WORST_UNREFINED * shared.target.max(report.epsilon),
        ) {
            Some(format!(
                "backward error {:.1e} before refinement",
                probe.unrefined
            ))
        } else {
            None
        };
        Ok(match reason.filter(|_| is_auto) {
            Some(reason) => Verdict::Fail(reason),
            None => Verdict::Serve(DeviceFactors::new(Arc::clone(analysis), engine, probe)),
        })
    }

    /// Searches pivots and factorizes with them. Under [`Pivoting::Auto`], if the probe misses the
    /// target with the diagonal preferred, it tries partial pivoting and keeps what is better.
    fn search<T: RealScalar>(
        &self,
        analysis: &Arc<dyn AnyDeviceAnalysis>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors, Error> {
        let shared = task.shared;
        let policies: SmallVec<[PivotPolicy; 2]> = match shared.options.searched_pivots() {
            Some(policy) => smallvec![policy],
            None => smallvec![
                PivotPolicy::threshold(SEARCH_THRESHOLD),
                PivotPolicy::PARTIAL
            ],
        };
        let mut best: Option<DeviceFactors> = None;
        for pivots in policies {
            let found = Arc::clone(analysis).search_pivots(
                task.values,
                pivots,
                &self.backend,
                &shared.limits,
            )?;
            *journal.seconds.pivot_search.get_or_insert(0.0) += found.seconds;
            let start = Instant::now();
            let engine = Arc::clone(&found.analysis).factorize(
                task.values,
                PivotPolicy::STATIC,
                &shared.limits,
            )?;
            journal.add_numeric(start.elapsed());
            let probe = task.probe_on_device(engine.as_ref(), journal)?;
            let reached = !probe.misses(shared.target);
            if best
                .as_ref()
                .is_none_or(|best| !is_above(probe.backward_error, best.backward_error()))
            {
                best = Some(DeviceFactors {
                    searched: Some(found.num_off_diagonal),
                    ..DeviceFactors::new(found.analysis, engine, probe)
                });
            }
            if reached {
                break;
            }
        }
        let mut best = best.unwrap_or_else(|| unreachable!("there is a policy to try"));
        // The search sees a singular matrix by a column of noise, but noise can also spread.
        let start = Instant::now();
        let condition = best.engine.condition(task.values)?;
        journal.add_probe(start.elapsed());
        condition.refuse_below(SINGULAR)?;
        best.condition = Some(condition);
        Ok(best)
    }

    /// Factorizes new values with the pivots of `old`, whose engine keeps no values, or with new ones if those do not serve.
    /// After an error `old` has its old values again.
    pub(crate) fn refactorize<T: RealScalar>(
        &self,
        old: &mut DeviceFactors,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Refactorized, Error> {
        let shared = task.shared;
        let pivots = self.kept_pivots(old, shared);
        let start = Instant::now();
        let renewed = old.engine.refactorize(task.values, pivots, &shared.limits);
        journal.add_numeric(start.elapsed());
        let probe = |engine: &dyn AnyDeviceEngine, journal: &mut Journal| {
            let probe =
                is_to_be_probed(engine, shared).then(|| task.probe_on_device(engine, journal));
            probe.transpose()
        };
        match self.judge(old, renewed, shared, journal, probe) {
            Ok(Verdict::Serve(judged)) => Self::keep(old, judged, shared.target),
            Ok(Verdict::Fail(reason)) => self.repivot(old, reason, task, journal),
            Err(error) => Err(old.restored(error)),
        }
    }

    /// As [`refactorize`](Self::refactorize), for an engine that keeps values on the device. Where the old
    /// pivots fail, [`repivot`](Self::repivot) has to go on, whatever it takes to bring all values to the host.
    pub(crate) fn refactorize_resident(
        &self,
        old: &mut DeviceFactors,
        values: NewValues<'_>,
        shared: &Shared,
        refinement: &refine::Options,
        journal: &mut Journal,
    ) -> Result<Verdict<Refactorized>, Error> {
        match self.renew_resident(old, values, shared, refinement, journal) {
            Ok(Verdict::Serve(judged)) => {
                Self::keep(old, judged, shared.target).map(Verdict::Serve)
            }
            Ok(Verdict::Fail(reason)) => Ok(Verdict::Fail(reason)),
            Err(error) => Err(old.restored(error)),
        }
    }

    /// New values on old pivots, and whether they serve. The host waits once unless that leaves a doubt.
    fn renew_resident(
        &self,
        old: &mut DeviceFactors,
        values: NewValues<'_>,
        shared: &Shared,
        refinement: &refine::Options,
        journal: &mut Journal,
    ) -> Result<Verdict<Judged>, Error> {
        let pivots = self.kept_pivots(old, shared);
        let is_always_probed = shared.options.residual_check == ResidualCheck::Always;
        let engine = old
            .engine
            .resident_mut()
            .unwrap_or_else(|| unreachable!("only engines that take such values are given them"));
        let start = Instant::now();
        let renewed =
            engine.refactorize_resident(values, pivots, is_always_probed.then_some(shared));
        journal.add_numeric(start.elapsed());
        let (renewed, measured): (_, Option<Measures>) = match renewed {
            Ok(measured) => (Ok(()), measured),
            Err(error) => (Err(error), None),
        };
        let probe = |engine: &dyn AnyDeviceEngine, journal: &mut Journal| {
            let Some(engine) = engine
                .resident()
                .filter(|_| is_to_be_probed(engine, shared))
            else {
                return Ok(None);
            };
            let start = Instant::now();
            let probe = Probe::resident(engine, shared, measured, refinement)?;
            journal.add_probe(start.elapsed());
            // Numbers out of range are measured on the host, where new pivots are searched.
            Ok(Some(probe.unwrap_or_else(|| Probe::overflowed(0))))
        };
        self.judge(old, renewed, shared, journal, probe)
    }

    /// Numbers on the device, copied to the host.
    pub(crate) fn fetch(&self, numbers: &impl BufferView<f64>) -> Result<Vec<f64>, Error> {
        let fetched = self.backend.stream().download(numbers);
        fetched.map_err(|e| Error::from_device(e, "numeric"))
    }

    /// The policy of a refactorization of `old`: pivots that were searched are used as they are.
    fn kept_pivots(&self, old: &DeviceFactors, shared: &Shared) -> PivotPolicy {
        if let Some(pivots) = old.pivots {
            pivots
        } else if old.searched.is_some() || shared.options.searched_pivots().is_some() {
            PivotPolicy::STATIC
        } else {
            self.static_pivots(shared)
        }
    }

    /// Whether the factors of new values on old pivots serve. `probe` measures what the engine did not.
    fn judge(
        &self,
        old: &DeviceFactors,
        renewed: Result<(), Error>,
        shared: &Shared,
        journal: &mut Journal,
        probe: impl FnOnce(&dyn AnyDeviceEngine, &mut Journal) -> Result<Option<Probe>, Error>,
    ) -> Result<Verdict<Judged>, Error> {
        let is_static = shared.options.pivoting == Pivoting::Static;
        match renewed {
            Ok(()) => {}
            Err(
                error @ (Error::ZeroPivot { .. }
                | Error::Overflow { .. }
                | Error::NotPositiveDefinite { .. }),
            ) if !is_static => {
                return Ok(Verdict::Fail(error.to_string()));
            }
            Err(error) => return Err(error),
        }
        let engine = old.engine.as_ref();
        let report = engine.report();
        let growth = is_above(report.growth, shared.options.max_growth)
            .then(|| format!("growth {:.1e}", report.growth));
        let hopeless = if growth.is_some() && !is_to_be_probed(engine, shared) {
            growth.clone()
        } else if report.num_perturbed > 0 && shared.options.pivoting == Pivoting::Auto {
            Some(format!("{} tiny pivots", report.num_perturbed))
        } else {
            None
        };
        if let Some(reason) = hopeless.clone().filter(|_| !is_static) {
            return Ok(Verdict::Fail(reason));
        }
        let probe = probe(engine, journal)?;
        let missed = probe.filter(|probe| probe.misses(shared.target));
        // The growth is an upper bound, of factors that one solve may show to be good all the same.
        let is_overruled = probe.is_some_and(|probe| !is_above(probe.unrefined, shared.target));
        let failure = match missed {
            Some(probe) => Some(format!("backward error {:.1e}", probe.backward_error)),
            None => hopeless.or(growth.filter(|_| !is_overruled)),
        };
        match failure {
            None => Ok(match device_symmetric::looked_at(engine, shared)? {
                Ok(condition) => Verdict::Serve(Judged { probe, condition }),
                Err(reason) => Verdict::Fail(reason),
            }),
            Some(reason) if !is_static => Ok(Verdict::Fail(reason)),
            Some(_) => Err(unstable(engine, probe)),
        }
    }

    /// Accepts the factors of new values. They stay those of the old ones if what can be said of them cannot be found out.
    fn keep(old: &mut DeviceFactors, judged: Judged, target: f64) -> Result<Refactorized, Error> {
        let before = (old.probe, old.condition.take());
        (old.probe, old.condition) = (judged.probe, judged.condition);
        match old.statement(target) {
            Ok(backward_error) => {
                old.engine.keep();
                Ok(Refactorized::Reused {
                    growth: old.engine.report().growth,
                    backward_error,
                })
            }
            Err(error) => {
                (old.probe, old.condition) = before;
                Err(old.restored(error))
            }
        }
    }

    /// New pivots for new values, the old ones having failed for `reason`. After an error `old` has its old values
    /// again.
    pub(crate) fn repivot<T: RealScalar>(
        &self,
        old: &mut DeviceFactors,
        reason: String,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Refactorized, Error> {
        let found = if task.shared.symmetry.is_some() {
            self.new_symmetric_pivots(old, task, journal)
        } else {
            self.new_pivots(old, task, journal)
        };
        let found = found.and_then(|factors| {
            let statement = factors.statement(task.shared.target)?;
            Ok((factors, statement))
        });
        let (factors, backward_error) = match found {
            Ok(found) => found,
            Err(error) => return Err(old.restored(error)),
        };
        let outcome = Refactorized::Repivoted {
            reason: reason.clone(),
            growth: factors.engine.report().growth,
            backward_error,
        };
        journal.warnings.push(Warning::PivotsSearched { reason });
        *old = factors;
        Ok(outcome)
    }

    /// New pivots on the old order and scaling; if those do not serve, everything anew for the new values, as if they had
    /// been analyzed and factorized.
    fn new_pivots<T: RealScalar>(
        &self,
        old: &DeviceFactors,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors, Error> {
        let target = task.shared.target;
        let serves = |found: DeviceFactors| {
            if found.misses(target) {
                Err(found.unstable())
            } else {
                Ok(found)
            }
        };
        let failure = match self.search(&old.analysis, task, journal).and_then(serves) {
            Err(error) if is_numerical(&error) || matches!(error, Error::OutOfMemory { .. }) => {
                error
            }
            done => return done,
        };
        let warnings = journal.warnings.len();
        let found = self.establish_anew(task, journal);
        // One warning tells why there are new pivots.
        journal.warnings.truncate(warnings);
        found.map_err(|_| failure)
    }
}
