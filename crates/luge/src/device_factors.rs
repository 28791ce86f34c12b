//! Factors on a device, whichever engine made them, and what is known of them.

use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use luge_frontal::gpu::DeviceCheck;
use luge_sparse::{PivotKind, PivotPolicy, Scalar};

use crate::accuracy::{
    BoundOf, ORDINARY, ORDINARY_SINGLE, OnePass, SAME_SCALE, SLACK, TRUSTED_GROWTH, WILD, bound,
    inverse_exponent, is_small, is_small_by_growth, is_suspicious, keeps_scale, may_be_rounding,
    of_definite,
};
use crate::attempts::Found;
use crate::device_analysis::{AnyDeviceAnalysis, AnyDeviceEngine, ResidentEngine};
use crate::engine::{Condition, FactorReport, SINGULAR};
use crate::error::Error;
use crate::options::SingularAction;
use crate::probe::{OnePassOf, Probe, Quick, is_above, of_probe};
use crate::shared::Shared;
use crate::task::{Journal, Task};

/// How pivots of a general matrix were searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PivotSearch {
    pub place: SearchPlace,
    pub num_off_diagonal: usize,
}

/// Where that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchPlace {
    /// By the column engine of the CPU.
    Host,
    /// In the fronts on the device, columns without a pivot delayed.
    Fronts,
}

impl SearchPlace {
    /// What ran.
    pub(crate) fn code_path(self) -> &'static str {
        match self {
            Self::Host => "pivots: Gilbert-Peierls on the CPU",
            Self::Fronts => "pivots: searched in fronts, columns without one delayed",
        }
    }
}

/// What checks of refactorizations said lately: where they leave doubts, factors are probed without one for a while.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Doubts {
    /// How many left a doubt since the last that did not, up to a bound.
    in_a_row: u32,
    /// Refactorizations before the next check.
    waits: u32,
}

impl Doubts {
    /// Most doubts that count: a check comes every sixteenth time then.
    const MOST: u32 = 4;

    /// Whether the next refactorization is to be checked; one that is not is one nearer to the next that is.
    pub(crate) fn let_check(&mut self) -> bool {
        let is_due = self.waits == 0;
        self.waits = self.waits.saturating_sub(1);
        is_due
    }

    /// Whether the last check left one.
    pub(crate) fn are_there(self) -> bool {
        self.in_a_row > 0
    }

    /// Takes in what a check said.
    pub(crate) fn note(&mut self, is_doubt: bool) {
        self.in_a_row = if is_doubt {
            Self::MOST.min(self.in_a_row + 1)
        } else {
            0
        };
        self.waits = (1 << self.in_a_row) - 1;
    }
}

/// Factors on the device that passed their probe, or the best there were.
pub(crate) struct DeviceFactors<W> {
    pub analysis: Arc<dyn AnyDeviceAnalysis<W>>,
    pub engine: Box<dyn AnyDeviceEngine<W>>,
    /// None where the options ask for none, or a check left no doubt.
    pub probe: Option<Probe>,
    /// A bound of the backward error of one pass for any right-hand side, if a check left no doubt.
    pub bound: Option<f64>,
    pub doubts: Doubts,
    /// If pivots of a general matrix were searched beyond their fronts.
    pub searched: Option<PivotSearch>,
    /// By what the pivots of a symmetric matrix were searched.
    pub pivots: Option<PivotPolicy>,
    /// Estimated if pivots were searched.
    pub condition: Option<Condition>,
    /// That of the analysis's scaling, once somebody asks.
    inverse_exponent: OnceLock<i32>,
}

impl<W> DeviceFactors<W> {
    /// Of a new engine, pivots not searched.
    pub(crate) fn new(
        analysis: Arc<dyn AnyDeviceAnalysis<W>>,
        engine: Box<dyn AnyDeviceEngine<W>>,
        probe: Probe,
    ) -> Self {
        Self {
            analysis,
            engine,
            probe: Some(probe),
            bound: None,
            doubts: Doubts::default(),
            searched: None,
            pivots: None,
            condition: None,
            inverse_exponent: OnceLock::new(),
        }
    }

    /// What is known of one pass of solves, where `target` is to be reached. The probe knows nothing of the transpose.
    pub(crate) fn one_pass(&self, target: f64, transpose: bool) -> OnePass {
        let Some(probe) = self.probe else {
            return self.bound.map_or(OnePass::Unknown, OnePass::Bounded);
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
        ordinary(report.epsilon).contains(&report.largest)
    }

    /// [`is_in_range`](Found::is_in_range), by a report that is at hand.
    pub(crate) fn is_reported_in_range(&self, report: &FactorReport) -> bool {
        report.largest == 0.0 || self.holds_digits(report)
    }

    /// Whether these are Cholesky factors, which cannot grow.
    pub(crate) fn are_definite(&self) -> bool {
        self.pivots
            .is_some_and(|policy| policy.kind == PivotKind::Definite)
    }

    /// The bound of one pass, if a check left no doubt in the factors: growth and checksum are small, also beside A, no digits
    /// were lost, and pivots are about as large as they were. L·D·Lᵀ has neither checksum nor pivots of before: its growth bounds the
    /// error whatever they are. Cholesky factors need no check.
    pub(crate) fn trusted(&self, shared: &Shared) -> Option<f64> {
        if self.are_definite() {
            return self.trusted_as_definite(shared);
        }
        let DeviceCheck {
            quality,
            max_product,
            max_residual,
            max_value,
        } = self.engine.resident()?.check()?;
        let report = self.engine.report();
        let epsilon = report.epsilon;
        let range = ordinary(epsilon);
        let bound = bound(BoundOf {
            epsilon,
            product: max_product,
            residual: max_residual,
            norm_a: max_value,
            exponent: self.inverse_exponent(),
        });
        let options = &shared.options;
        let may_be_singular = options.is_static()
            || report.symmetric.is_some() && options.singular == SingularAction::Continue;
        let is_small = match report.symmetric {
            Some(symmetric) => {
                symmetric.num_zero == 0
                    && is_small_by_growth(&quality)
                    && !is_above(quality.growth, options.max_growth)
            }
            None => is_small(&quality, epsilon),
        };
        let is_trusted = is_small
            && range.contains(&quality.min_norm)
            && range.contains(&quality.max_norm)
            && keeps_scale(&quality, SAME_SCALE)
            && (may_be_singular || !is_suspicious(&quality, epsilon))
            && bound <= SLACK * shared.target;
        is_trusted.then_some(bound)
    }

    /// The same of Cholesky factors: no pivot may be nothing but rounding, and none is above its entry of B, so that these have lost
    /// no digits either.
    fn trusted_as_definite(&self, shared: &Shared) -> Option<f64> {
        let report = self.engine.report();
        let [smallest, largest] = self.engine.resident()?.pivot_range()?;
        let range = ordinary(report.epsilon);
        let bound = of_definite(report.epsilon);
        let is_trusted = range.contains(&smallest)
            && range.contains(&report.largest)
            && !may_be_rounding(smallest, largest, report.epsilon)
            && !is_above(report.growth, shared.options.max_growth)
            && bound <= SLACK * shared.target;
        is_trusted.then_some(bound)
    }

    fn inverse_exponent(&self) -> i32 {
        let scaling = || inverse_exponent(&self.analysis.transform().scaling);
        *self.inverse_exponent.get_or_init(scaling)
    }

    /// The bound of one pass that follows from the growth.
    fn bound_of_growth(&self, report: &FactorReport, probe: &Probe) -> f64 {
        bound(BoundOf {
            epsilon: report.epsilon,
            product: report.product,
            residual: 0.0,
            norm_a: probe.norm_a,
            exponent: self.inverse_exponent(),
        })
    }

    /// The backward error that solutions can be expected to have, if there was a probe, or a bound of it if a check left no doubt.
    pub(crate) fn statement(&self, target: f64) -> Result<Option<f64>, Error> {
        let Some(probe) = self.probe else {
            return Ok(self.bound);
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
            is_perturbed: report.num_perturbed > 0,
        };
        Ok(probe.statement(&one_pass, target))
    }

    /// Brings the factors of the old values back, and gives `error`, or what kept them from coming back.
    pub(crate) fn restored(&mut self, error: Error) -> Error {
        self.engine.restore().err().unwrap_or(error)
    }

    pub(crate) fn misses(&self, target: f64) -> bool {
        self.probe.is_none_or(|probe| probe.misses(target))
    }

    pub(crate) fn unstable(&self) -> Error {
        unstable(self.engine.as_ref(), self.probe)
    }
}

/// The range in which numbers of a type with this ε have lost no digits.
fn ordinary(epsilon: f64) -> RangeInclusive<f64> {
    if epsilon > f64::EPSILON {
        ORDINARY_SINGLE
    } else {
        ORDINARY
    }
}

/// ε of the factors times their growth: rounding errors are about that large, relative to B.
pub(crate) fn expected_error<W>(engine: &dyn AnyDeviceEngine<W>) -> f64 {
    let report = engine.report();
    report.growth * report.epsilon
}

pub(crate) fn unstable<W>(engine: &dyn AnyDeviceEngine<W>, probe: Option<Probe>) -> Error {
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

/// What was looked at of factors that serve.
#[derive(Default)]
pub(crate) struct Judged {
    /// Where the options ask for it.
    pub probe: Option<Probe>,
    /// The bound of one pass, where a check left no doubt.
    pub bound: Option<f64>,
    /// Where pivots raised the question.
    pub condition: Option<Condition>,
}

impl<T: Scalar> Task<'_, T> {
    /// Solves for a known solution and writes down how long that took. One solve does where it shows that the factors
    /// are as good as they must be; else refinement shows what can be made of them. All of that is on the device if the
    /// engine keeps the values there.
    pub(crate) fn probe_on_device(
        &self,
        engine: &dyn AnyDeviceEngine<T::Wide>,
        journal: &mut Journal,
    ) -> Result<Probe, Error> {
        let start = Instant::now();
        let max_steps = self.shared.options.max_refinement_steps;
        if let Some(resident) = engine.resident() {
            let refinement = of_probe::<T>(self.shared);
            let probe = Probe::resident(resident, self.shared, None, &refinement)?;
            journal.add_probe(start.elapsed());
            if let Some(probe) = probe {
                return Ok(probe);
            }
            return self.probe_with(max_steps, engine, None, journal);
        }
        let quick = Probe::quick(self.a, |x| {
            let solution = engine.solve(x, 1, false)?;
            x.copy_from_slice(&solution);
            Ok(())
        })?;
        journal.add_probe(start.elapsed());
        match quick {
            Some(Quick { probe, .. }) if !probe.misses(self.shared.target) => Ok(probe),
            Some(Quick { probe, x }) => Ok(Probe {
                unrefined: probe.unrefined,
                ..self.probe_with(max_steps, engine, Some(x), journal)?
            }),
            None => self.probe_with(max_steps, engine, None, journal),
        }
    }
}

/// The condition of what was factorized, unless it is singular to rounding.
pub(crate) fn regular<W>(engine: &dyn AnyDeviceEngine<W>) -> Result<Condition, Error> {
    let condition = resident(engine).condition_of_values()?;
    condition.refuse_below(SINGULAR)?;
    Ok(condition)
}

/// Whether pivots are so far apart that the matrix may be singular.
fn has_suspicious_pivots<W>(engine: &dyn AnyDeviceEngine<W>) -> bool {
    let range = resident(engine).pivot_range();
    let epsilon = engine.report().epsilon;
    range.is_some_and(|[smallest, largest]| may_be_rounding(smallest, largest, epsilon))
}

fn resident<W>(engine: &dyn AnyDeviceEngine<W>) -> &dyn ResidentEngine<W> {
    let resident = engine.resident();
    resident.unwrap_or_else(|| unreachable!("the tree keeps the values of a symmetric matrix"))
}

/// The condition of a symmetric matrix that is to be refused if it is singular, where its pivots raise the question in a
/// refactorization; in words if it is singular.
pub(crate) fn looked_at<W>(
    engine: &dyn AnyDeviceEngine<W>,
    shared: &Shared,
) -> Result<Result<Option<Condition>, String>, Error> {
    let refuses = shared.symmetry.is_some() && shared.options.singular == SingularAction::Refuse;
    if !refuses || !has_suspicious_pivots(engine) {
        return Ok(Ok(None));
    }
    match regular(engine) {
        Ok(condition) => Ok(Ok(Some(condition))),
        Err(error @ Error::SingularToRounding { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

impl<W> DeviceFactors<W> {
    /// Whether a new factorization leaves a doubt that the matrix is regular, which it has to be.
    pub(crate) fn is_doubtful(&self, shared: &Shared) -> bool {
        if shared.options.singular == SingularAction::Continue || shared.options.is_static() {
            return false;
        }
        let growth = self.engine.report().growth;
        !self.serves(shared)
            || growth.is_nan()
            || growth > TRUSTED_GROWTH
            || has_suspicious_pivots(self.engine.as_ref())
    }
}

impl<W> Found for DeviceFactors<W> {
    fn backward_error(&self) -> f64 {
        self.probe
            .map_or(f64::INFINITY, |probe| probe.backward_error)
    }

    fn is_in_range(&self) -> bool {
        self.is_reported_in_range(&self.engine.report())
    }

    fn serves(&self, shared: &Shared) -> bool {
        self.is_in_range() && self.probe.is_some_and(|probe| !probe.misses(shared.target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_that_leave_doubts_come_more_rarely() {
        let mut doubts = Doubts::default();
        let mut checked = Vec::new();
        for number in 0..50 {
            if doubts.let_check() {
                checked.push(number);
                doubts.note(true);
                assert!(doubts.are_there());
            }
        }
        assert_eq!(checked, [0, 2, 6, 14, 30, 46]);
        while !doubts.let_check() {}
        doubts.note(false);
        assert!(!doubts.are_there() && doubts.let_check() && doubts.let_check());
    }
}
