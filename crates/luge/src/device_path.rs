//! How the device path comes by factors it can trust: static pivots first, searched ones if they fail: in the fronts of the
//! tree on the device, and where those do not serve, by columns on the CPU.

use std::sync::Arc;
use std::time::Instant;

use luge_device::{Buffer, BufferView};
use luge_ordering::Matching;
use luge_solve::gpu::Measures;
use luge_solve::refine;
use luge_sparse::{PivotPolicy, Scalar};
use smallvec::{SmallVec, smallvec};

use crate::accuracy::SLACK;
use crate::attempts::{self, Found, REMEDIES, Remedy, is_of_pivots};
use crate::backend::Field;
use crate::device_analysis::{
    AnyDeviceAnalysis, AnyDeviceEngine, Measured, NewValues, components_of, fetched, of_components,
};
use crate::device_factors::{
    DeviceFactors, Judged, PivotSearch, SearchPlace, expected_error, looked_at, unstable,
};
use crate::device_plan::DevicePath;
use crate::engine::SINGULAR;
use crate::error::Error;
use crate::inform::Warning;
use crate::options::{Pivoting, ResidualCheck};
use crate::probe::{Probe, is_above};
use crate::shared::Shared;
use crate::task::{Journal, Refactorized, Task};

/// Diagonal preference of the first search for pivots under [`Pivoting::Auto`].
const SEARCH_THRESHOLD: f64 = 0.01;

/// Thresholds of searches in fronts under [`Pivoting::Auto`], one after another.
const SEARCH_THRESHOLDS: [f64; 2] = [SEARCH_THRESHOLD, 0.1];

/// The largest threshold of a search in fronts. A stricter one delays too many columns.
const FRONT_SEARCH_THRESHOLD: f64 = 0.5;

/// How far from the target, or from ε of the factors if that is more, a solve with static pivots may be before it is
/// refined: under [`Pivoting::Auto`] others are searched beyond that.
const WORST_UNREFINED: f64 = 1e3;

/// Whether the options want the new factors of a refactorization measured by a solve, which no check [lets trust](DeviceFactors::trusted).
fn is_to_be_probed<W>(engine: &dyn AnyDeviceEngine<W>, shared: &Shared) -> bool {
    match shared.options.residual_check {
        ResidualCheck::Always => true,
        ResidualCheck::WhereInDoubt => {
            let is_checked = engine
                .resident()
                .is_some_and(|engine| engine.check().is_some());
            is_checked || is_above(expected_error(engine), shared.target)
        }
        ResidualCheck::Never => false,
    }
}

/// Whether fronts were too large for the memory or for the device's indices.
fn is_too_large(error: &Error) -> bool {
    is_of_memory(error) || matches!(error, Error::IndexOverflow(_))
}

/// Whether there was too little memory for something.
fn is_of_memory(error: &Error) -> bool {
    matches!(error, Error::OutOfMemory { .. })
}

/// Whether other pivots might do better.
fn is_numerical(error: &Error) -> bool {
    attempts::is_numerical(error) || matches!(error, Error::Unstable { .. })
}

/// What came of factors with some pivots.
pub(crate) enum Verdict<T> {
    /// They serve.
    Serve(T),
    /// They do not, for this reason, and others may be searched.
    Fail(String),
}

impl<W: Field> DevicePath<W> {
    /// The policy of factorizations whose pivots are not searched.
    fn static_pivots(&self, shared: &Shared) -> PivotPolicy {
        shared.options.static_pivots(self.epsilon())
    }

    /// Finds factors by the pivoting that the options ask for.
    pub(crate) fn create<T: Scalar<Wide = W>>(
        &self,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors<W>, Error> {
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
    fn establish_anew<T: Scalar<Wide = W>>(
        &self,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors<W>, Error> {
        let mut failure = None;
        for remedy in REMEDIES {
            let start = Instant::now();
            let analysis = self.analyze_again(task.shared, task.values, remedy);
            *journal.seconds.pivot_search.get_or_insert(0.0) += start.elapsed().as_secs_f64();
            let alternative = self.alternative.filter(|_| remedy == Remedy::AsAsked);
            match analysis
                .and_then(|analysis| self.create_on(&analysis, alternative, task, journal))
            {
                Err(error) if is_numerical(&error) => failure = failure.or(Some(error)),
                done => return done,
            }
        }
        Err(failure.unwrap_or_else(|| unreachable!("there is something to try")))
    }

    /// As [`create`](Self::create), with the first analysis to try and what else might do.
    fn create_on<T: Scalar<Wide = W>>(
        &self,
        analysis: &Arc<dyn AnyDeviceAnalysis<W>>,
        alternative: Option<Matching>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors<W>, Error> {
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
            analysis = self.analyze_again(task.shared, task.values, Remedy::Matching(matching))?;
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
    fn try_static<T: Scalar<Wide = W>>(
        &self,
        analysis: &Arc<dyn AnyDeviceAnalysis<W>>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Verdict<DeviceFactors<W>>, Error> {
        let shared = task.shared;
        let is_auto = shared.options.pivoting == Pivoting::Auto;
        let start = Instant::now();
        let pivots = self.static_pivots(shared);
        let factorized = Arc::clone(analysis).factorize(task.values, pivots, &shared.limits);
        journal.add_numeric(start.elapsed());
        let engine = match factorized {
            Ok(engine) => engine,
            Err(error) if is_of_pivots(&error) && is_auto => {
                return Ok(Verdict::Fail(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let report = engine.report();
        if report.num_perturbed > 0 && is_auto {
            let reason = format!("{} tiny pivots", report.num_perturbed);
            return Ok(Verdict::Fail(reason));
        }
        let probe = task.probe_on_device(engine.as_ref(), journal)?;
        let reason = if probe.misses(shared.target) {
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
    fn search<T: Scalar<Wide = W>>(
        &self,
        analysis: &Arc<dyn AnyDeviceAnalysis<W>>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors<W>, Error> {
        if let Some(found) = self.search_in_fronts(analysis, task, journal)? {
            return Ok(found);
        }
        let shared = task.shared;
        let policies: SmallVec<[PivotPolicy; 2]> = match shared.options.searched_pivots() {
            Some(policy) => smallvec![policy],
            None => smallvec![
                PivotPolicy::threshold(SEARCH_THRESHOLD),
                PivotPolicy::PARTIAL
            ],
        };
        let mut best: Option<DeviceFactors<W>> = None;
        for pivots in policies {
            let found = Arc::clone(analysis).search_pivots(
                task.values,
                pivots,
                &self.backend,
                &shared.limits,
            )?;
            *journal.seconds.pivot_search.get_or_insert(0.0) += found.seconds;
            let num_off_diagonal = found.num_off_diagonal;
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
                let mut found = DeviceFactors::new(found.analysis, engine, probe);
                found.searched = Some(PivotSearch {
                    place: SearchPlace::Host,
                    num_off_diagonal,
                });
                best = Some(found);
            }
            if reached {
                break;
            }
        }
        let best = best.unwrap_or_else(|| unreachable!("there is a policy to try"));
        Self::unless_singular(best, task, journal)
    }

    /// Searches pivots in the fronts of the tree, where columns without one are delayed, and factorizes with them. Under
    /// [`Pivoting::Auto`], if the probe misses the target, it tries a stricter threshold. `None` if that is not the way of the
    /// engine or the options, if the search does not end or takes too much memory, or if no factors reach the target.
    fn search_in_fronts<T: Scalar<Wide = W>>(
        &self,
        analysis: &Arc<dyn AnyDeviceAnalysis<W>>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Option<DeviceFactors<W>>, Error> {
        let shared = task.shared;
        let thresholds = match shared.options.pivoting {
            Pivoting::Threshold { threshold } => &[threshold][..],
            Pivoting::Auto | Pivoting::Static => &SEARCH_THRESHOLDS,
        };
        if !analysis.searches_pivots() {
            return Ok(None);
        }
        for &threshold in thresholds {
            if threshold > FRONT_SEARCH_THRESHOLD {
                break;
            }
            let start = Instant::now();
            let policy = PivotPolicy::threshold(threshold);
            let factorized = Arc::clone(analysis).factorize(task.values, policy, &shared.limits);
            *journal.seconds.pivot_search.get_or_insert(0.0) += start.elapsed().as_secs_f64();
            let engine = match factorized {
                Ok(engine) => engine,
                Err(error) if is_of_pivots(&error) || is_too_large(&error) => break,
                Err(error) => return Err(error),
            };
            let probe = task.probe_on_device(engine.as_ref(), journal)?;
            if !probe.misses(shared.target) {
                let num_off_diagonal = engine.report().num_off_diagonal.unwrap_or(0);
                let mut found = DeviceFactors::new(Arc::clone(analysis), engine, probe);
                found.searched = Some(PivotSearch {
                    place: SearchPlace::Fronts,
                    num_off_diagonal,
                });
                return Self::unless_singular(found, task, journal).map(Some);
            }
        }
        Ok(None)
    }

    /// Estimates the condition of factors whose pivots were searched, and refuses them if they are singular. A search sees a
    /// singular matrix by a column of noise, but noise can also spread.
    fn unless_singular<T: Scalar<Wide = W>>(
        mut found: DeviceFactors<W>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors<W>, Error> {
        let start = Instant::now();
        let condition = found.engine.condition(task.values)?;
        journal.add_probe(start.elapsed());
        condition.refuse_below(SINGULAR)?;
        found.condition = Some(condition);
        Ok(found)
    }

    /// Factorizes new values with the pivots of `old`, whose engine keeps no values, or with new ones if those do not serve.
    /// After an error `old` has its old values again.
    pub(crate) fn refactorize<T: Scalar<Wide = W>>(
        &self,
        old: &mut DeviceFactors<W>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Refactorized, Error> {
        let shared = task.shared;
        let pivots = self.kept_pivots(old, shared);
        let start = Instant::now();
        let renewed = old.engine.refactorize(task.values, pivots, &shared.limits);
        journal.add_numeric(start.elapsed());
        let probe = |engine: &dyn AnyDeviceEngine<W>, journal: &mut Journal| {
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
        old: &mut DeviceFactors<W>,
        values: NewValues<'_, W>,
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
        old: &mut DeviceFactors<W>,
        values: NewValues<'_, W>,
        shared: &Shared,
        refinement: &refine::Options,
        journal: &mut Journal,
    ) -> Result<Verdict<Judged>, Error> {
        let pivots = self.kept_pivots(old, shared);
        let are_definite = old.are_definite();
        let engine = old
            .engine
            .resident_mut()
            .unwrap_or_else(|| unreachable!("only engines that take such values are given them"));
        let asked = shared.options.residual_check;
        // Cholesky factors need none.
        let has_checks = engine.has_checks() && !are_definite;
        // Factors in a shorter type than the target needs are in doubt in any case.
        let may_be_trusted = asked != ResidualCheck::Never
            && (has_checks || are_definite)
            && self.epsilon() <= SLACK * shared.target
            && old.doubts.let_check();
        // Where the last check left a doubt, this one probably does, too.
        let is_probed =
            asked == ResidualCheck::Always && (!may_be_trusted || old.doubts.are_there());
        let measured = Measured {
            is_checked: may_be_trusted && has_checks,
            probed: is_probed.then_some(shared),
            // Those of the host are looked at there.
            across: match values {
                NewValues::OnDevice(_) => shared.symmetry.as_deref(),
                NewValues::OnHost { .. } | NewValues::Changed { .. } => None,
            },
        };
        let start = Instant::now();
        let renewed = engine.refactorize_resident(values, pivots, measured);
        journal.add_numeric(start.elapsed());
        let (renewed, measured): (_, Option<Measures>) = match renewed {
            Ok(measured) => (Ok(()), measured),
            Err(error) => (Err(error), None),
        };
        let probe = |engine: &dyn AnyDeviceEngine<W>, journal: &mut Journal| {
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
        let is_apart = old
            .engine
            .resident()
            .is_some_and(|engine| engine.is_apart());
        if renewed.is_ok() && is_apart {
            return Ok(Verdict::Fail(
                "values that differ across the diagonal".into(),
            ));
        }
        if may_be_trusted && renewed.is_ok() {
            let is_doubt = old.trusted(shared).is_none();
            old.doubts.note(is_doubt);
        }
        self.judge(old, renewed, shared, journal, probe)
    }

    /// Numbers on the device, or on another one of its group, of which these are the components, copied to the host.
    pub(crate) fn fetch(&self, numbers: &impl BufferView<f64>) -> Result<Vec<W>, Error> {
        let fetched = fetched(self.backend.stream(), numbers);
        let components = fetched.map_err(|e| Error::from_device(e, "numeric"))?;
        Ok(of_components(&components))
    }

    /// The opposite: copies numbers to the device, by components.
    pub(crate) fn send(&self, there: &mut Buffer<f64>, numbers: &[W]) -> Result<(), Error> {
        let stream = self.backend.stream();
        let copied = stream.copy_from_host(there, &components_of(numbers));
        copied.map_err(|e| Error::from_device(e, "solve"))
    }

    /// The policy of a refactorization of `old`: pivots that were searched are used as they are.
    fn kept_pivots(&self, old: &DeviceFactors<W>, shared: &Shared) -> PivotPolicy {
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
        old: &DeviceFactors<W>,
        renewed: Result<(), Error>,
        shared: &Shared,
        journal: &mut Journal,
        probe: impl FnOnce(&dyn AnyDeviceEngine<W>, &mut Journal) -> Result<Option<Probe>, Error>,
    ) -> Result<Verdict<Judged>, Error> {
        let is_static = shared.options.is_static();
        match renewed {
            Ok(()) => {}
            Err(error) if is_of_pivots(&error) && !is_static => {
                return Ok(Verdict::Fail(error.to_string()));
            }
            Err(error) => return Err(error),
        }
        if let Some(bound) = old.trusted(shared) {
            return Ok(Verdict::Serve(Judged {
                bound: Some(bound),
                ..Judged::default()
            }));
        }
        let engine = old.engine.as_ref();
        if shared.options.regularization.is_some() {
            // Whatever it does to the matrix, it is asked for; a probe tells what the factors are worth.
            let (probe, condition) = (probe(engine, journal)?, None);
            return Ok(Verdict::Serve(Judged {
                probe,
                condition,
                bound: None,
            }));
        }
        let report = engine.report();
        let growth = is_above(report.growth, shared.options.max_growth)
            .then(|| format!("growth {:.1e}", report.growth));
        let hopeless = if growth.is_some() && !is_to_be_probed(engine, shared) {
            growth.clone()
        } else if report.num_perturbed > 0 && shared.options.pivoting == Pivoting::Auto {
            Some(format!("{} tiny pivots", report.num_perturbed))
        } else if shared.options.ordering.scaling
            && !is_static
            && !old.is_reported_in_range(&report)
        {
            Some(format!("a scaling to {:.1e}", report.largest))
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
            None => Ok(match looked_at(engine, shared)? {
                Ok(condition) => Verdict::Serve(Judged {
                    probe,
                    condition,
                    bound: None,
                }),
                Err(reason) => Verdict::Fail(reason),
            }),
            Some(reason) if !is_static => Ok(Verdict::Fail(reason)),
            Some(_) => Err(unstable(engine, probe)),
        }
    }

    /// Accepts the factors of new values. They stay those of the old ones if what can be said of them cannot be found out.
    fn keep(
        old: &mut DeviceFactors<W>,
        judged: Judged,
        target: f64,
    ) -> Result<Refactorized, Error> {
        let before = (old.probe, old.bound, old.condition.take());
        (old.probe, old.bound, old.condition) = (judged.probe, judged.bound, judged.condition);
        match old.statement(target) {
            Ok(backward_error) => {
                old.engine.keep();
                Ok(Refactorized::Reused {
                    growth: old.engine.report().growth,
                    backward_error,
                })
            }
            Err(error) => {
                (old.probe, old.bound, old.condition) = before;
                Err(old.restored(error))
            }
        }
    }

    /// New pivots for new values, the old ones having failed for `reason`. After an error `old` has its old values
    /// again.
    pub(crate) fn repivot<T: Scalar<Wide = W>>(
        &self,
        old: &mut DeviceFactors<W>,
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
    fn new_pivots<T: Scalar<Wide = W>>(
        &self,
        old: &DeviceFactors<W>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors<W>, Error> {
        let shared = task.shared;
        let serves = |found: DeviceFactors<W>| {
            if found.misses(shared.target)
                || shared.options.ordering.scaling && !found.is_in_range()
            {
                Err(found.unstable())
            } else {
                Ok(found)
            }
        };
        let failure = match self.search(&old.analysis, task, journal).and_then(serves) {
            Err(error) if is_numerical(&error) || is_of_memory(&error) => error,
            done => return done,
        };
        let warnings = journal.warnings.len();
        let found = self.establish_anew(task, journal);
        // One warning tells why there are new pivots.
        journal.warnings.truncate(warnings);
        found.map_err(|_| failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_pivots_help_against_errors_of_numbers_alone() {
        let of_numbers = [
            Error::ZeroPivot { column: 0 },
            Error::NoPivots { column: None },
            Error::Overflow { column: 0 },
            Error::SingularToRounding {
                column: 0,
                rcond: 0.0,
            },
            Error::Unstable {
                row: 0,
                growth: 1e9,
                backward_error: 1.0,
            },
        ];
        assert!(of_numbers.iter().all(is_numerical));
        let no_memory = Error::OutOfMemory {
            asked: 2,
            available: 1,
            phase: "numeric",
        };
        let cancelled = Error::Cancelled(luge_sparse::Cancelled);
        let not_finite = Error::NotFinite { row: 0, column: 0 };
        assert!(![no_memory, cancelled, not_finite].iter().any(is_numerical));
    }
}
