//! Runs and times solvers on a problem, in turn.

use std::time::{Duration, Instant};

use luge_sparse::Scalar;
use luge_testkit::residual::normwise_backward_error;
use sprs::CsMat;

use super::contenders::{Contender, Refusal, Resident};
use super::problem::{Problem, Values};
use crate::report::Outcome;
use crate::results::{Phase, Precision, Run};
use crate::statistics::{Samples, recordable};
use crate::systems::MANY;
use crate::turns;

/// What goes before a first solve: worker threads of the solver before, which wait for more to do without giving up their
/// cores (libgomp's: some milliseconds), are asleep after it.
const PAUSE: Duration = Duration::from_millis(20);

/// How often everything is run.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Samples of each phase.
    pub samples: usize,
    /// Seconds from which on a call is not repeated: the first one is the sample.
    pub long: f64,
    /// Seconds below which a turn begins with a call that is not counted, so that a solver finds its own data in the
    /// caches and not what the one before left there.
    pub short: f64,
}

/// A solver in the race, or one that is out of it.
pub struct Lane<'a, T> {
    /// `None` from when it is out.
    contender: Option<Box<dyn Contender<T> + 'a>>,
    record: Record<T>,
}

/// What is known of a solver.
struct Record<T> {
    run: Run,
    samples: Vec<(Phase, Vec<f64>)>,
    /// Right-hand sides before a solve, solutions after it.
    x: Vec<T>,
    /// Which values the last refactorization of a phase got.
    values: Values,
    /// Seconds of the last call of the present phase.
    last: f64,
    /// Whether the present phase goes on for it.
    is_due: bool,
    /// Why the present group of phases does not go on for it.
    refusal: Option<Refusal>,
}

/// Seconds of a call of a contender, and of parts of it if it has some; nothing if it has no such call.
type Taken = Vec<(Phase, f64)>;

impl<'a, T> Lane<'a, T> {
    /// A solver whose results go to `run`, which says in which precision it works.
    pub fn new(contender: Box<dyn Contender<T> + 'a>, run: Run) -> Self {
        Self {
            contender: Some(contender),
            ..Self::out(run)
        }
    }

    /// One that does not take part; `run` says why.
    pub fn out(run: Run) -> Self {
        Self {
            contender: None,
            record: Record {
                run,
                samples: Vec::new(),
                x: Vec::new(),
                values: Values::First,
                last: 0.0,
                is_due: false,
                refusal: None,
            },
        }
    }

    /// Whether it is in the race, and nothing of the present group of phases has failed.
    fn goes_on(&self) -> bool {
        self.contender.is_some() && self.record.refusal.is_none()
    }

    /// Its turn in a round of a phase; the first round is not counted unless it is the only one.
    fn turn<S>(&mut self, round: usize, effort: Effort, step: &mut S) -> Result<(), Refusal>
    where
        S: FnMut(&mut (dyn Contender<T> + 'a), &mut Record<T>) -> Result<Taken, Refusal>,
    {
        let Some(contender) = self.contender.as_deref_mut() else {
            return Ok(());
        };
        let record = &mut self.record;
        if round > 0 && record.last < effort.short {
            step(contender, record)?;
        }
        let taken = step(contender, record)?;
        let Some(&(_, seconds)) = taken.first() else {
            record.is_due = false;
            return Ok(());
        };
        record.last = seconds;
        let is_only_one = round == 0 && seconds > effort.long;
        if round > 0 || is_only_one {
            taken.into_iter().for_each(|taken| record.add(taken));
        }
        record.is_due = !is_only_one;
        Ok(())
    }

    fn finish(mut self) -> Run {
        if let Some(mut contender) = self.contender.take() {
            contender.describe(&mut self.record.run);
            contender.forget();
            let samples = self.record.samples.into_iter();
            self.record.run.phases = samples
                .map(|(phase, seconds)| (phase, Samples::new(seconds)))
                .collect();
        }
        self.record.run
    }
}

impl<T> Record<T> {
    fn add(&mut self, (phase, seconds): (Phase, f64)) {
        match self.samples.iter_mut().find(|(of, _)| *of == phase) {
            Some((_, samples)) => samples.push(seconds),
            None => self.samples.push((phase, vec![seconds])),
        }
    }

    /// The values of the next refactorization: not those of the last one.
    fn other_values(&mut self) -> Values {
        self.values = self.values.other();
        self.values
    }
}

impl<T: Scalar> Record<T> {
    fn put(&mut self, b: &[T]) {
        self.x.clear();
        self.x.extend_from_slice(b);
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

/// Times every phase of all solvers, which take turns, and measures their solutions. The runs come in the order of the
/// lanes.
pub fn measure<T: Scalar>(
    problem: &Problem<T>,
    lanes: Vec<Lane<'_, T>>,
    effort: Effort,
) -> Vec<Run> {
    let mut race = Race {
        problem,
        lanes,
        effort,
    };
    race.first_solves();
    race.each(|contender, record| {
        record.run.errors.known = Some(solved(problem, contender, Values::First)?);
        Ok(())
    });
    race.end("a solve");
    race.refactorizations();
    race.end("a refactorization");
    race.solves();
    race.end("a solve");
    race.steps_on_device();
    race.end("a step on the device");
    race.lanes.into_iter().map(Lane::finish).collect()
}

/// All solvers on a problem. Whoever fails in the first phase is out; later, it misses what is left of the group of phases
/// in which it failed.
struct Race<'p, 'a, T> {
    problem: &'p Problem<T>,
    lanes: Vec<Lane<'a, T>>,
    effort: Effort,
}

impl<'a, T: Scalar> Race<'_, 'a, T> {
    /// Rounds of a phase, in the order of [`turns`] over those for which the phase goes on.
    fn sample<S>(&mut self, mut step: S)
    where
        S: FnMut(&mut (dyn Contender<T> + 'a), &mut Record<T>) -> Result<Taken, Refusal>,
    {
        for lane in &mut self.lanes {
            lane.record.is_due = lane.goes_on();
        }
        let effort = self.effort;
        for round in 0..=effort.samples.max(1) {
            turns::round(
                &mut self.lanes,
                round,
                |lane| lane.record.is_due,
                |lane| {
                    if let Err(refusal) = lane.turn(round, effort, &mut step) {
                        lane.record.refusal = Some(refusal);
                        lane.record.is_due = false;
                    }
                },
            );
        }
    }

    /// One call of each that goes on, of which no samples are taken.
    fn each<S>(&mut self, mut step: S)
    where
        S: FnMut(&mut (dyn Contender<T> + 'a), &mut Record<T>) -> Result<(), Refusal>,
    {
        for lane in self.lanes.iter_mut().filter(|lane| lane.goes_on()) {
            if let Some(contender) = lane.contender.as_deref_mut() {
                lane.record.refusal = step(contender, &mut lane.record).err();
            }
        }
    }

    /// Ends a group of phases: what failed in it is told, and the next group is for all again.
    fn end(&mut self, what: &str) {
        for record in self.lanes.iter_mut().map(|lane| &mut lane.record) {
            if let Some(refusal) = record.refusal.take() {
                record.run.details.push(format!("{what} failed: {refusal}"));
                record.run.failed_steps += 1;
            }
        }
    }

    /// From the matrix to a solution, again and again; the last factors are kept.
    fn first_solves(&mut self) {
        let problem = self.problem;
        let is_alone = self.lanes.iter().filter(|lane| lane.goes_on()).count() < 2;
        self.sample(|contender, record| {
            contender.forget();
            if !is_alone {
                std::thread::sleep(PAUSE);
            }
            let taken = first_solve(problem, contender, record);
            if taken.is_err() {
                // It may be memory that it lacked, and the others need theirs.
                contender.forget();
            }
            taken
        });
        for lane in &mut self.lanes {
            if let Some(refusal) = lane.record.refusal.take() {
                lane.contender = None;
                lane.record.run.outcome = Outcome::Failed {
                    reason: refusal.to_string(),
                };
            }
        }
    }

    /// With other values each time; in the end the factors are those of the first matrix.
    fn refactorizations(&mut self) {
        let problem = self.problem;
        self.sample(|contender, record| {
            let values = record.other_values();
            let seconds = timed(|| contender.refactorize(values))?;
            Ok(vec![(Phase::Refactorize, seconds)])
        });
        self.each(|contender, record| {
            contender.refactorize(Values::Next)?;
            let errors = &mut record.run.errors;
            errors.refactorized = Some(solved(problem, contender, Values::Next)?);
            if let Some(x) = contender.solve_refined(&problem.next_b) {
                errors.refined = Some(backward_error(&problem.next, &x?, &problem.next_b));
            }
            contender.refactorize(Values::First)
        });
    }

    /// Solves with the first matrix.
    fn solves(&mut self) {
        let problem = self.problem;
        let systems = [
            (Phase::Solve, &problem.b, 1),
            (Phase::SolveMany, &problem.many_b, MANY),
        ];
        for (phase, b, nrhs) in systems {
            self.sample(|contender, record| {
                record.put(b);
                let seconds = timed(|| contender.solve(&mut record.x, nrhs))?;
                Ok(vec![(phase, seconds)])
            });
        }
        self.sample(|contender, _| {
            let start = Instant::now();
            let solved = contender.solve_refined(&problem.b).transpose()?.map(drop);
            let seconds = start.elapsed().as_secs_f64();
            let taken = solved.map(|()| (Phase::SolveRefined, seconds));
            Ok(taken.into_iter().collect())
        });
        self.each(|_, record| {
            let error = backward_error(&problem.a, &record.x, &problem.many_b);
            record.run.errors.many = Some(error);
            Ok(())
        });
    }

    /// The phases of those that take what is on the device.
    fn steps_on_device(&mut self) {
        self.each(|contender, record| {
            record.values = Values::First;
            contender.resident().map_or(Ok(()), Resident::stage)
        });
        self.sample(|contender, record| {
            let Some(resident) = contender.resident() else {
                return Ok(Taken::new());
            };
            let values = record.other_values();
            let seconds = timed(|| resident.refactorize(values))?;
            Ok(vec![(Phase::RefactorizeResident, seconds)])
        });
        for (phase, nrhs) in [(Phase::SolveResident, 1), (Phase::SolveManyResident, MANY)] {
            self.sample(|contender, _| {
                let Some(resident) = contender.resident() else {
                    return Ok(Taken::new());
                };
                let seconds = timed(|| resident.solve(nrhs))?;
                Ok(vec![(phase, seconds)])
            });
        }
        self.each(|contender, record| {
            let Some(resident) = contender.resident() else {
                return Ok(());
            };
            let device_seconds = &mut record.run.device_seconds;
            let seconds = resident.refactorize_on_clock()?;
            device_seconds.insert(Phase::RefactorizeResident, seconds);
            let seconds = resident.solve_on_clock(1)?;
            device_seconds.insert(Phase::SolveResident, seconds);
            Ok(())
        });
    }
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

/// From the matrix to a solution.
fn first_solve<T: Scalar>(
    problem: &Problem<T>,
    contender: &mut dyn Contender<T>,
    record: &mut Record<T>,
) -> Result<Taken, Refusal> {
    record.put(&problem.b);
    let start = Instant::now();
    let analysis = contender.analyze()?;
    let analyzed = start.elapsed().as_secs_f64();
    contender.factorize()?;
    let factorized = start.elapsed().as_secs_f64();
    // Only refinement makes of factors in single precision what was asked for.
    match record.run.precision {
        Precision::Mixed => drop(contender.solve_refined(&problem.b).transpose()?),
        Precision::F64 | Precision::F32 => contender.solve(&mut record.x, 1)?,
    }
    let all = start.elapsed().as_secs_f64();
    let parts = [
        (Phase::FirstSolve, Some(all)),
        (Phase::Ordering, analysis.ordering),
        (Phase::Symbolic, analysis.symbolic),
        (Phase::Analyze, Some(analyzed)),
        (Phase::Factorize, Some(factorized - analyzed)),
    ];
    let known = parts.into_iter();
    Ok(known
        .filter_map(|(phase, seconds)| Some((phase, seconds?)))
        .collect())
}
