//! How the device path comes by factors it can trust: static pivots first, searched ones if they fail.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use luge_solve::backward_error::RowNorms;
use luge_solve::refine;
use luge_sparse::{MatrixView, Scalar};

use crate::device_chain::{AnyDeviceChain, Perturbation};
use crate::engine::{Condition, Engine};
use crate::error::Error;
use crate::factors::{Journal, Outcome, Refactorized, SINGULAR};
use crate::inform::Warning;
use crate::options::Pivoting;
use crate::probe::{Probe, is_above};
use crate::solver::{DevicePath, Shared};

/// Diagonal preference of the first search for pivots under [`Pivoting::Auto`].
const SEARCH_THRESHOLD: f64 = 0.01;

/// Factors on the device that passed their probe, or the best there were.
pub(crate) struct DeviceFactors {
    pub chain: Arc<dyn AnyDeviceChain>,
    pub engine: Box<dyn Engine>,
    pub probe: Probe,
    /// Off-diagonal pivots, if they were searched.
    pub searched: Option<usize>,
    /// Estimated if pivots were searched.
    pub condition: Option<Condition>,
}

/// A matrix to factorize, and what the way there needs.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a, T> {
    pub shared: &'a Shared,
    pub a: MatrixView<'a, T>,
    /// The values of `a`.
    pub values: &'a [f64],
    /// Norms of its rows, once somebody asks.
    pub norms: &'a OnceLock<RowNorms>,
}

impl<T: Scalar> Task<'_, T> {
    /// Solves for a known solution with refinement, and writes down how long that took.
    pub(crate) fn probe(&self, engine: &dyn Engine, journal: &mut Journal) -> Result<Probe, Error> {
        let max_steps = self.shared.options.max_refinement_steps;
        self.probe_with(max_steps, engine, journal)
    }

    /// As [`probe`](Self::probe), with so many steps of refinement.
    pub(crate) fn probe_with(
        &self,
        max_steps: usize,
        engine: &dyn Engine,
        journal: &mut Journal,
    ) -> Result<Probe, Error> {
        let start = Instant::now();
        let refinement = refine::Options {
            max_steps,
            ..self.shared.refinement::<T>()
        };
        let probe = Probe::run(
            self.a,
            self.norms.get_or_init(|| RowNorms::new(self.a)),
            engine,
            &refinement,
        )?;
        journal.add_probe(start.elapsed());
        Ok(probe)
    }
}

impl DevicePath {
    fn perturbation(shared: &Shared) -> Perturbation {
        shared
            .options
            .perturbation
            .map_or(Perturbation::Default, Perturbation::Below)
    }

    /// Finds factors by the pivoting that the options ask for.
    pub(crate) fn establish<T: Scalar>(
        &self,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors, Error> {
        let shared = task.shared;
        let is_auto = match shared.options.pivoting {
            Pivoting::Threshold { .. } => return self.search(&self.chain, task, journal),
            Pivoting::Static => false,
            Pivoting::Auto => true,
        };
        let start = Instant::now();
        let factorized = Arc::clone(&self.chain).factorize(
            task.values,
            Self::perturbation(shared),
            &shared.limits,
        );
        journal.add_numeric(start.elapsed());
        let reason = match factorized {
            Ok(engine) => {
                let probe = task.probe(engine.as_ref(), journal)?;
                let num_perturbed = engine.report().num_perturbed;
                let reason = if num_perturbed > 0 {
                    Some(format!("{num_perturbed} tiny pivots"))
                } else if probe.misses(shared.target) {
                    Some(format!("backward error {:.1e}", probe.backward_error))
                } else {
                    None
                };
                match reason.filter(|_| is_auto) {
                    Some(reason) => reason,
                    None => {
                        return Ok(DeviceFactors {
                            chain: Arc::clone(&self.chain),
                            engine,
                            probe,
                            searched: None,
                            condition: None,
                        });
                    }
                }
            }
            Err(error @ (Error::ZeroPivot { .. } | Error::Overflow { .. })) if is_auto => {
                error.to_string()
            }
            Err(error) => return Err(error),
        };
        journal.warnings.push(Warning::PivotsSearched { reason });
        self.search(&self.chain, task, journal)
    }

    /// Searches pivots and factorizes with them. Under [`Pivoting::Auto`], if the probe misses the
    /// target with the diagonal preferred, it tries partial pivoting and keeps what is better.
    fn search<T: Scalar>(
        &self,
        chain: &Arc<dyn AnyDeviceChain>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors, Error> {
        let shared = task.shared;
        let thresholds: &[f64] = match shared.options.pivoting {
            Pivoting::Threshold { threshold } => &[threshold],
            Pivoting::Auto | Pivoting::Static => &[SEARCH_THRESHOLD, 1.0],
        };
        let mut best: Option<DeviceFactors> = None;
        for &threshold in thresholds {
            let found = Arc::clone(chain).search_pivots(
                task.values,
                threshold,
                &self.backend,
                &shared.limits,
            )?;
            *journal.seconds.pivot_search.get_or_insert(0.0) += found.seconds;
            let start = Instant::now();
            let engine = Arc::clone(&found.chain).factorize(
                task.values,
                Perturbation::Never,
                &shared.limits,
            )?;
            journal.add_numeric(start.elapsed());
            let probe = task.probe(engine.as_ref(), journal)?;
            let reached = !probe.misses(shared.target);
            if best
                .as_ref()
                .is_none_or(|best| !is_above(probe.backward_error, best.probe.backward_error))
            {
                best = Some(DeviceFactors {
                    chain: found.chain,
                    engine,
                    probe,
                    searched: Some(found.num_off_diagonal),
                    condition: None,
                });
            }
            if reached {
                break;
            }
        }
        let mut best = best.unwrap_or_else(|| unreachable!("there is a threshold to try"));
        // The search sees a singular matrix by a column of noise, but noise can also spread.
        let start = Instant::now();
        let condition = best.engine.condition(task.values)?;
        journal.add_probe(start.elapsed());
        condition.refuse_below(SINGULAR)?;
        best.condition = Some(condition);
        Ok(best)
    }

    /// Factorizes new values with the pivots of `old`, or with new ones if those do not serve.
    pub(crate) fn refactorize<T: Scalar>(
        &self,
        old: &DeviceFactors,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<(Outcome, DeviceFactors), Error> {
        let shared = task.shared;
        let perturbation = match (shared.options.pivoting, old.searched) {
            (Pivoting::Threshold { .. }, _) | (_, Some(_)) => Perturbation::Never,
            _ => Self::perturbation(shared),
        };
        let start = Instant::now();
        let again = Arc::clone(&old.chain).factorize(task.values, perturbation, &shared.limits);
        journal.add_numeric(start.elapsed());
        let is_static = shared.options.pivoting == Pivoting::Static;
        let reason = match again {
            Ok(engine) => {
                let probe = task.probe(engine.as_ref(), journal)?;
                let report = engine.report();
                let growth = report.growth;
                let reason = if is_above(growth, shared.options.max_growth) {
                    Some(format!("growth {growth:.1e}"))
                } else if probe.misses(shared.target) {
                    Some(format!("backward error {:.1e}", probe.backward_error))
                } else if report.num_perturbed > 0 && shared.options.pivoting == Pivoting::Auto {
                    Some(format!("{} tiny pivots", report.num_perturbed))
                } else {
                    None
                };
                let Some(reason) = reason else {
                    let outcome = Refactorized::Reused {
                        growth,
                        backward_error: probe.backward_error,
                    };
                    let factors = DeviceFactors {
                        chain: Arc::clone(&old.chain),
                        engine,
                        probe,
                        searched: old.searched,
                        condition: None,
                    };
                    return Ok((outcome, factors));
                };
                if is_static {
                    return Err(probe.unstable(growth));
                }
                reason
            }
            Err(error @ (Error::ZeroPivot { .. } | Error::Overflow { .. })) if !is_static => {
                error.to_string()
            }
            Err(error) => return Err(error),
        };

        let factors = self.search(&old.chain, task, journal)?;
        let growth = factors.engine.report().growth;
        if factors.probe.misses(shared.target) {
            return Err(factors.probe.unstable(growth));
        }
        journal.warnings.push(Warning::PivotsSearched {
            reason: reason.clone(),
        });
        let outcome = Refactorized::Repivoted {
            reason,
            growth,
            backward_error: factors.probe.backward_error,
        };
        Ok((outcome, factors))
    }
}
