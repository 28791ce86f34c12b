//! How the CPU path comes by factors it can trust, and when it stops trusting old pivots.

use std::sync::Arc;
use std::time::Instant;

use luge_numeric::TinyPivots;
use luge_numeric::cpu::blocks::Rule;
use luge_ordering::Matching;
use luge_sparse::{Quality, Scalar};
use smallvec::{SmallVec, smallvec};

use crate::device_path::Task;
use crate::engine::Condition;
use crate::error::Error;
use crate::factors::{Journal, Outcome, Refactorized, SINGULAR};
use crate::host::{AnyHost, HostEngine};
use crate::inform::Warning;
use crate::options::Pivoting;
use crate::probe::{Probe, is_above};
use crate::solver::{HostPath, Shared};

/// Diagonal preference of the first attempt under [`Pivoting::Auto`], that of KLU.
const DIAGONAL_PREFERENCE: f64 = 1e-3;

/// Factors whose checksum is below this many ε, and whose growth is below [`TRUSTED_GROWTH`], are as
/// good as any: a probe would only repeat the measurement.
const TRUSTED_CHECKSUM: f64 = 512.0;

/// See [`TRUSTED_CHECKSUM`].
const TRUSTED_GROWTH: f64 = 1e6;

/// Pivots that are this many ε apart make a matrix worth a condition estimate.
const SUSPICIOUS_PIVOTS: f64 = 512.0;

/// As long as each pivot stays within this factor of what it was, rows and columns have kept their
/// scale, and what is small in the norm of the matrix is small in each of its rows.
const SAME_SCALE: f64 = 1e6;

/// Beyond this factor the scaling is as stale as the pivots.
const OTHER_SCALE: f64 = 1e12;

/// Factors on the CPU.
pub(crate) struct HostFactors {
    pub chain: Arc<dyn AnyHost>,
    pub engine: Box<dyn HostEngine>,
    /// Where the fused measurements were not enough.
    pub probe: Option<Probe>,
    /// Estimated where pivots or a probe raised the question.
    pub condition: Option<Condition>,
}

impl HostFactors {
    /// The backward error that is known of these factors: the probe's, else the checksum.
    pub(crate) fn backward_error(&self) -> f64 {
        self.probe
            .map_or(self.engine.quality().checksum, |probe| probe.backward_error)
    }
}

impl<T: Scalar> Task<'_, T> {
    /// What the factors are worth in themselves, that is without refinement, unless perturbed pivots
    /// or factors in a shorter type need it.
    fn probe_factors(
        &self,
        engine: &dyn HostEngine,
        epsilon: f64,
        journal: &mut Journal,
    ) -> Result<Probe, Error> {
        let exact = engine.quality().num_perturbed == 0 && epsilon <= T::epsilon().to_f64();
        if exact {
            let start = Instant::now();
            let quick = Probe::quick(self.a, |x| engine.solve_in_place(x, false))?;
            journal.add_probe(start.elapsed());
            if let Some(probe) = quick {
                return Ok(probe);
            }
        }
        let max_steps = if exact {
            0
        } else {
            self.shared.options.max_refinement_steps
        };
        self.probe_with(max_steps, engine, journal)
    }
}

/// Whether `chain`'s factors need no probe. Where the scaling of rows and columns spans too much, what
/// is small in a column of B may be large in a row of A.
fn is_trusted(chain: &dyn AnyHost, quality: &Quality) -> bool {
    let epsilon = chain.epsilon();
    chain.is_mildly_scaled()
        && quality.num_perturbed == 0
        && quality.checksum <= TRUSTED_CHECKSUM * epsilon
        && quality.growth <= TRUSTED_GROWTH
}

/// Whether other pivots might do better.
fn is_numerical(error: &Error) -> bool {
    matches!(
        error,
        Error::ZeroPivot { .. } | Error::Overflow { .. } | Error::SingularToRounding { .. }
    )
}

fn is_suspicious(quality: &Quality, epsilon: f64) -> bool {
    quality.min_pivot < SUSPICIOUS_PIVOTS * epsilon * quality.max_pivot
}

fn keeps_scale(quality: &Quality, factor: f64) -> bool {
    quality.min_pivot_ratio * factor >= 1.0 && quality.max_pivot_ratio <= factor
}

impl HostPath {
    fn rules(&self, shared: &Shared) -> SmallVec<[Rule; 2]> {
        match shared.options.pivoting {
            Pivoting::Auto => smallvec![Rule::Threshold(DIAGONAL_PREFERENCE), Rule::Threshold(1.0)],
            Pivoting::Threshold { threshold } => smallvec![Rule::Threshold(threshold)],
            Pivoting::Static => smallvec![Rule::Static(match shared.options.perturbation {
                Some(threshold) => TinyPivots::Perturb { threshold },
                None if self.chain.precision() == "f32" => TinyPivots::perturb_default::<f32>(),
                None => TinyPivots::perturb_default::<f64>(),
            })],
        }
    }

    /// Finds factors by the pivoting that the options ask for.
    pub(crate) fn establish<T: Scalar>(
        &self,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<HostFactors, Error> {
        let shared = task.shared;
        let mut rules = self.rules(shared);
        let found = self.establish_on(&self.chain, &rules, task, journal);
        let serves = match &found {
            Ok(found) => !is_above(found.backward_error(), shared.target),
            Err(error) => !is_numerical(error),
        };
        let is_static = shared.options.pivoting == Pivoting::Static;
        let alternative = self.alternative.filter(|_| !serves && !is_static);
        let Some(matching) = alternative else {
            return found;
        };
        // The scaling by a matching of largest product may be too wild for the norm of A; or the rows
        // need it all the same, and then other pivots do not make up for it.
        if matching == Matching::Always {
            rules.truncate(1);
        }
        let start = Instant::now();
        let chain = self.analyze_again(shared, task.values, Some(matching));
        *journal.seconds.pivot_search.get_or_insert(0.0) += start.elapsed().as_secs_f64();
        let other = chain.and_then(|chain| self.establish_on(&chain, &rules, task, journal));
        match (found, other) {
            (Ok(found), Ok(other)) if is_above(found.backward_error(), other.backward_error()) => {
                Ok(other)
            }
            (Err(_), Ok(other)) => Ok(other),
            (found, _) => found,
        }
    }

    /// Tries the rules one after another until the factors can be trusted, and keeps the best.
    fn establish_on<T: Scalar>(
        &self,
        chain: &Arc<dyn AnyHost>,
        rules: &[Rule],
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<HostFactors, Error> {
        let shared = task.shared;
        let epsilon = chain.epsilon();
        let mut best: Option<HostFactors> = None;
        let mut failure = None;
        for &rule in rules {
            let start = Instant::now();
            let factorized = Arc::clone(chain).factorize(task.values, rule, &shared.limits);
            journal.add_numeric(start.elapsed());
            let engine = match factorized {
                Ok(engine) => engine,
                Err(error @ (Error::ZeroPivot { .. } | Error::Overflow { .. })) => {
                    failure = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if is_trusted(chain.as_ref(), engine.quality()) {
                best = Some(HostFactors {
                    chain: Arc::clone(chain),
                    engine,
                    probe: None,
                    condition: None,
                });
                break;
            }
            let probe = task.probe_factors(engine.as_ref(), epsilon, journal)?;
            let reached = !probe.misses(shared.target);
            if best
                .as_ref()
                .is_none_or(|best| !is_above(probe.backward_error, best.backward_error()))
            {
                best = Some(HostFactors {
                    chain: Arc::clone(chain),
                    engine,
                    probe: Some(probe),
                    condition: None,
                });
            }
            if reached {
                break;
            }
        }
        let Some(mut best) = best else {
            return Err(failure.unwrap_or_else(|| unreachable!("there is a rule to try")));
        };
        let is_static = shared.options.pivoting == Pivoting::Static;
        if !is_static && (best.probe.is_some() || is_suspicious(best.engine.quality(), epsilon)) {
            best.condition = Some(condition(&best, task, journal)?);
        }
        Ok(best)
    }

    /// Factorizes new values in the memory of `old`, with its pivots, or finds new ones if those do
    /// not serve. After an error `old` has its old values again.
    pub(crate) fn refactorize<T: Scalar>(
        &self,
        old: &mut HostFactors,
        old_values: &[f64],
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Outcome, Error> {
        let outcome = self.try_refactorize(old, task, journal);
        if outcome.is_err() {
            // They were factors before, with these very pivots.
            let never = crate::backend::Limits::default();
            let restored = old.engine.refactorize(old_values, &never);
            debug_assert!(restored.is_ok(), "{restored:?}");
        }
        outcome
    }

    fn try_refactorize<T: Scalar>(
        &self,
        old: &mut HostFactors,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Outcome, Error> {
        let shared = task.shared;
        let is_static = shared.options.pivoting == Pivoting::Static;
        let epsilon = old.chain.epsilon();
        let start = Instant::now();
        let again = old.engine.refactorize(task.values, &shared.limits);
        journal.add_numeric(start.elapsed());
        let (reason, stale_scale) = match again {
            Ok(quality) => {
                if is_trusted(old.chain.as_ref(), &quality) && keeps_scale(&quality, SAME_SCALE) {
                    (old.probe, old.condition) = (None, None);
                    return Ok(Refactorized::Reused {
                        growth: quality.growth,
                        backward_error: quality.checksum,
                    });
                }
                let probe = task.probe_factors(old.engine.as_ref(), epsilon, journal)?;
                let stale_scale = !keeps_scale(&quality, OTHER_SCALE);
                let reason = if is_above(quality.growth, shared.options.max_growth) {
                    Some(format!("growth {:.1e}", quality.growth))
                } else if probe.misses(shared.target) {
                    Some(format!("backward error {:.1e}", probe.backward_error))
                } else if stale_scale && !is_static {
                    Some(format!(
                        "pivots between {:.1e} and {:.1e} times the old ones",
                        quality.min_pivot_ratio, quality.max_pivot_ratio
                    ))
                } else if !is_static && is_suspicious(&quality, epsilon) {
                    let start = Instant::now();
                    let condition = old.engine.condition(task.values)?;
                    journal.add_probe(start.elapsed());
                    condition
                        .refuse_below(SINGULAR)
                        .err()
                        .map(|error| error.to_string())
                } else {
                    None
                };
                let Some(reason) = reason else {
                    old.probe = Some(probe);
                    old.condition = None;
                    return Ok(Refactorized::Reused {
                        growth: quality.growth,
                        backward_error: probe.backward_error,
                    });
                };
                if is_static {
                    return Err(probe.unstable(quality.growth));
                }
                (reason, stale_scale)
            }
            Err(error @ (Error::ZeroPivot { .. } | Error::Overflow { .. })) if !is_static => {
                let stale_scale = matches!(error, Error::Overflow { .. });
                (error.to_string(), stale_scale)
            }
            Err(error) => return Err(error),
        };

        let found = self.repivot(&old.chain, stale_scale, task, journal)?;
        let (growth, backward_error) = (found.engine.quality().growth, found.backward_error());
        *old = found;
        journal.warnings.push(Warning::PivotsSearched {
            reason: reason.clone(),
        });
        Ok(Refactorized::Repivoted {
            reason,
            growth,
            backward_error,
        })
    }

    /// New pivots on the old order and scaling, and if those do not do, or the scaling is stale too,
    /// everything anew for the new values.
    fn repivot<T: Scalar>(
        &self,
        chain: &Arc<dyn AnyHost>,
        stale_scale: bool,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<HostFactors, Error> {
        let target = task.shared.target;
        let serves = |found: &HostFactors| !is_above(found.backward_error(), target);
        let rules = self.rules(task.shared);
        let mut failure = None;
        if !stale_scale {
            match self.establish_on(chain, &rules, task, journal) {
                Ok(found) if serves(&found) => return Ok(found),
                Ok(found) => failure = Some(found.unstable()),
                Err(error) if is_numerical(&error) => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        let start = Instant::now();
        let chain = self.analyze_again(task.shared, task.values, None);
        *journal.seconds.pivot_search.get_or_insert(0.0) += start.elapsed().as_secs_f64();
        let found = chain.and_then(|chain| self.establish_on(&chain, &rules, task, journal));
        match (found, failure) {
            (Ok(found), _) if serves(&found) => Ok(found),
            (_, Some(failure)) => Err(failure),
            (Ok(found), None) => Err(found.unstable()),
            (Err(error), None) => Err(error),
        }
    }
}

impl HostFactors {
    fn unstable(&self) -> Error {
        let growth = self.engine.quality().growth;
        match self.probe {
            Some(probe) => probe.unstable(growth),
            None => Error::Unstable {
                row: 0,
                growth,
                backward_error: self.backward_error(),
            },
        }
    }
}

/// The condition of what was factorized, unless it is singular to rounding.
fn condition<T: Scalar>(
    factors: &HostFactors,
    task: Task<'_, T>,
    journal: &mut Journal,
) -> Result<Condition, Error> {
    let start = Instant::now();
    let condition = factors.engine.condition(task.values)?;
    journal.add_probe(start.elapsed());
    condition.refuse_below(SINGULAR)?;
    Ok(condition)
}
