//! Runs and times a solver on a problem.

use std::time::Instant;

use luge_sparse::Scalar;
use luge_testkit::residual::normwise_backward_error;
use sprs::CsMat;

use super::contenders::{Contender, Refusal};
use super::problem::{Problem, Values};
use crate::report::Outcome;
use crate::results::{Phase, Precision, Run};
use crate::statistics::{Samples, recordable};
use crate::systems::MANY;

/// How often everything is run.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Samples of each phase.
    pub samples: usize,
    /// Seconds from which on a call is not repeated: the first one is the sample.
    pub long: f64,
}

/// The samples of the phases so far.
#[derive(Default)]
struct Clock {
    samples: Vec<(Phase, Vec<f64>)>,
}

impl Clock {
    fn add(&mut self, phase: Phase, seconds: f64) {
        match self.samples.iter_mut().find(|(of, _)| *of == phase) {
            Some((_, samples)) => samples.push(seconds),
            None => self.samples.push((phase, vec![seconds])),
        }
    }

    /// Calls `step` as often as `effort` says, and keeps its seconds but those of the first call.
    fn sample(
        &mut self,
        phase: Phase,
        effort: Effort,
        mut step: impl FnMut() -> Result<f64, Refusal>,
    ) -> Result<(), Refusal> {
        let first = step()?;
        if first > effort.long {
            self.add(phase, first);
            return Ok(());
        }
        for _ in 0..effort.samples.max(1) {
            let seconds = step()?;
            self.add(phase, seconds);
        }
        Ok(())
    }
}

/// Seconds of a step.
fn timed(step: impl FnOnce() -> Result<(), Refusal>) -> Result<f64, Refusal> {
    let start = Instant::now();
    step()?;
    Ok(start.elapsed().as_secs_f64())
}

/// The largest normwise backward error of columns one after another.
fn backward_error<T: Scalar>(a: &CsMat<T>, x: &[T], b: &[T]) -> f64 {
    let n = a.rows().max(1);
    let each = x.chunks_exact(n).zip(b.chunks_exact(n));
    let errors = each.map(|(x, b)| normwise_backward_error(a, x, b));
    recordable(errors.fold(0.0, f64::max))
}

/// Times every phase of a solver and measures its solutions.
pub fn measure<T: Scalar>(
    problem: &Problem<T>,
    contender: &mut dyn Contender<T>,
    precision: Precision,
    effort: Effort,
    mut run: Run,
) -> Run {
    let mut clock = Clock::default();
    if let Err(refusal) = first_solves(problem, contender, precision, effort, &mut clock) {
        contender.forget();
        run.outcome = Outcome::Failed {
            reason: refusal.to_string(),
        };
        return run;
    }
    let mut remark = |what: &str, done: Result<(), Refusal>| {
        if let Err(refusal) = done {
            run.details.push(format!("{what} failed: {refusal}"));
            run.failed_steps += 1;
        }
    };
    let errors = &mut run.errors;
    remark(
        "a solve",
        solved(problem, contender, Values::First).map(|error| errors.known = Some(error)),
    );
    remark("a refactorization", {
        refactorizations(contender, effort, &mut clock).and_then(|()| {
            contender.refactorize(Values::Next)?;
            errors.refactorized = Some(solved(problem, contender, Values::Next)?);
            if let Some(x) = contender.solve_refined(&problem.next_b) {
                errors.refined = Some(backward_error(&problem.next, &x?, &problem.next_b));
            }
            contender.refactorize(Values::First)
        })
    });
    remark(
        "a solve",
        solves(problem, contender, effort, &mut clock).map(|error| errors.many = Some(error)),
    );
    let device_seconds = &mut run.device_seconds;
    if let Some(resident) = contender.resident() {
        remark("a step on the device", {
            let mut values = Values::First;
            let mut all = || {
                resident.stage()?;
                clock.sample(Phase::RefactorizeResident, effort, || {
                    values = values.other();
                    timed(|| resident.refactorize(values))
                })?;
                for (phase, nrhs) in [(Phase::SolveResident, 1), (Phase::SolveManyResident, MANY)] {
                    clock.sample(phase, effort, || timed(|| resident.solve(nrhs)))?;
                }
                let seconds = resident.refactorize_on_clock()?;
                device_seconds.insert(Phase::RefactorizeResident, seconds);
                let seconds = resident.solve_on_clock(1)?;
                device_seconds.insert(Phase::SolveResident, seconds);
                Ok(())
            };
            all()
        });
    }
    contender.describe(&mut run);
    contender.forget();
    let samples = clock.samples.into_iter();
    run.phases = samples
        .map(|(phase, seconds)| (phase, Samples::new(seconds)))
        .collect();
    run
}

/// The backward error of one pass of triangular solves.
fn solved<T: Scalar>(
    problem: &Problem<T>,
    contender: &mut dyn Contender<T>,
    values: Values,
) -> Result<f64, Refusal> {
    let b = problem.right_hand_side(values);
    let mut x = b.to_vec();
    contender.solve(&mut x, 1)?;
    Ok(backward_error(problem.matrix(values), &x, b))
}

/// From the matrix to a solution, again and again.
fn first_solves<T: Scalar>(
    problem: &Problem<T>,
    contender: &mut dyn Contender<T>,
    precision: Precision,
    effort: Effort,
    clock: &mut Clock,
) -> Result<(), Refusal> {
    let mut parts = Vec::new();
    clock.sample(Phase::FirstSolve, effort, || {
        contender.forget();
        let mut x = problem.b.clone();
        let start = Instant::now();
        let analysis = contender.analyze()?;
        let analyzed = start.elapsed().as_secs_f64();
        contender.factorize()?;
        let factorized = start.elapsed().as_secs_f64();
        // Only refinement makes of factors in single precision what was asked for.
        match precision {
            Precision::Mixed => drop(contender.solve_refined(&problem.b).transpose()?),
            Precision::F64 | Precision::F32 => contender.solve(&mut x, 1)?,
        }
        let all = start.elapsed().as_secs_f64();
        parts.push([
            (Phase::Ordering, analysis.ordering),
            (Phase::Symbolic, analysis.symbolic),
            (Phase::Analyze, Some(analyzed)),
            (Phase::Factorize, Some(factorized - analyzed)),
        ]);
        Ok(all)
    })?;
    // The first call counts if it is the only one.
    let uncounted = usize::from(parts.len() > 1);
    for (phase, seconds) in parts.into_iter().skip(uncounted).flatten() {
        if let Some(seconds) = seconds {
            clock.add(phase, seconds);
        }
    }
    Ok(())
}

/// With other values each time.
fn refactorizations<T>(
    contender: &mut dyn Contender<T>,
    effort: Effort,
    clock: &mut Clock,
) -> Result<(), Refusal> {
    let mut values = Values::First;
    clock.sample(Phase::Refactorize, effort, || {
        values = values.other();
        timed(|| contender.refactorize(values))
    })
}

/// Solves with the first matrix; gives the largest backward error of [`MANY`] right-hand sides.
fn solves<T: Scalar>(
    problem: &Problem<T>,
    contender: &mut dyn Contender<T>,
    effort: Effort,
    clock: &mut Clock,
) -> Result<f64, Refusal> {
    let mut x = problem.b.clone();
    clock.sample(Phase::Solve, effort, || {
        x.copy_from_slice(&problem.b);
        timed(|| contender.solve(&mut x, 1))
    })?;
    let mut x = problem.many_b.clone();
    clock.sample(Phase::SolveMany, effort, || {
        x.copy_from_slice(&problem.many_b);
        timed(|| contender.solve(&mut x, MANY))
    })?;
    if contender.solve_refined(&problem.b).is_some() {
        clock.sample(Phase::SolveRefined, effort, || {
            timed(|| contender.solve_refined(&problem.b).transpose().map(drop))
        })?;
    }
    Ok(backward_error(&problem.a, &x, &problem.many_b))
}
