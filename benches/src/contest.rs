//! All solvers on one system, in turn.
//!
//! All live in one process and take turns, phase by phase and round after round, in an order that changes
//! ([`turns`]), so that a disturbance of the machine meets all of them alike. The first call of a phase is not counted,
//! unless it is so long that it stays the only one. A turn of a short call begins with one that is not counted, so that
//! every solver finds its own data in the caches, as it does in a Newton iteration; a sample of a tiny matrix is the mean of
//! as many calls as fill 50 µs. Freeing what an earlier call made is not timed, nor is bringing the matrix into the form
//! that a solver takes. Every solution is measured here, whatever the solver says of it.

use std::time::{Duration, Instant};

use luge_peers::{Peer, PeerError, Resident, Staged, Structure};
use luge_sparse::Scalar;
use luge_testkit::residual::normwise_backward_error;
use sprs::CsMat;

use crate::results::{Outcome, Phase, Precision, Run, Settings};
use crate::statistics::{Samples, recordable};
use crate::systems::System;
use crate::turns;

/// A sample takes at least this long: shorter calls are repeated.
const SHORTEST_SAMPLE: f64 = 50e-6;
/// Most calls in a sample.
const LARGEST_BATCH: usize = 64;
/// Calls shorter than this are preceded by one that is not counted.
const LONG_CALL: f64 = 5e-3;

/// What goes before first solves of a solver: worker threads of the solver before, which wait for more to do without giving up their
/// cores (libgomp's: some milliseconds), are asleep after it. Once a turn: before every call of a short batch it would
/// measure cold caches.
const PAUSE: Duration = Duration::from_millis(20);

/// Seconds of the phases of one call, that of the whole call first; nothing if the solver has no such call.
type Taken = Vec<(Phase, f64)>;

/// A solver that takes part, or one that is out before the contest begins.
pub struct Entrant<T> {
    peer: Option<Box<dyn Peer<T>>>,
    state: State<T>,
}

/// What is known of a solver beside its factors.
struct State<T> {
    run: Run,
    samples: Vec<(Phase, Vec<f64>)>,
    /// Right-hand sides, then solutions.
    x: Vec<T>,
    /// Whether the next values are those of the last refactorization.
    has_next: bool,
    /// Seconds of the last call.
    last: f64,
    is_due: bool,
    error: Option<PeerError>,
}

impl<T: Scalar> Entrant<T> {
    /// A solver whose results go to `run`, which says in which precision it works.
    pub fn new(peer: Box<dyn Peer<T>>, run: Run) -> Self {
        Self {
            peer: Some(peer),
            ..Self::out(run)
        }
    }

    /// One that is out, with its outcome.
    pub fn out(run: Run) -> Self {
        Self {
            peer: None,
            state: State {
                run,
                samples: Vec::new(),
                x: Vec::new(),
                has_next: false,
                last: 0.0,
                is_due: false,
                error: None,
            },
        }
    }

    fn goes_on(&self) -> bool {
        self.peer.is_some() && self.state.error.is_none()
    }

    /// A turn of a round; the first one is not counted unless its call is longer than `long`.
    fn turn<S>(
        &mut self,
        round: usize,
        long: f64,
        pause: Duration,
        step: &mut S,
    ) -> Result<(), PeerError>
    where
        S: FnMut(&mut dyn Peer<T>, &mut State<T>) -> Result<Taken, PeerError>,
    {
        let Some(peer) = self.peer.as_deref_mut() else {
            return Ok(());
        };
        std::thread::sleep(pause);
        let state = &mut self.state;
        let mut calls = 1;
        if round > 0 && state.last < LONG_CALL {
            step(peer, state)?;
            calls = (SHORTEST_SAMPLE / state.last.max(1e-9)).ceil() as usize;
        }
        let calls = calls.clamp(1, LARGEST_BATCH);
        let mut sums = step(peer, state)?;
        for _ in 1..calls {
            let more = step(peer, state)?;
            for (sum, (_, seconds)) in sums.iter_mut().zip(more) {
                sum.1 += seconds;
            }
        }
        let Some(&(_, all)) = sums.first() else {
            state.is_due = false;
            return Ok(());
        };
        state.last = all / calls as f64;
        let is_only_one = round == 0 && state.last > long;
        if round > 0 || is_only_one {
            state.run.largest_batch = state.run.largest_batch.max(calls);
            for (phase, seconds) in sums {
                let mean = seconds / calls as f64;
                match state.samples.iter_mut().find(|(of, _)| *of == phase) {
                    Some((_, samples)) => samples.push(mean),
                    None => state.samples.push((phase, vec![mean])),
                }
            }
        }
        state.is_due = !is_only_one;
        Ok(())
    }

    fn finish(mut self) -> Run {
        let mut run = self.state.run;
        if let Some(peer) = &mut self.peer {
            let found = peer.statistics();
            run.factor_entries = found.factor_entries;
            run.flops = found.flops;
            run.num_levels = found.num_levels;
            run.num_perturbed = found.num_perturbed;
            run.inertia = found.inertia;
            run.memory.reported = found.peak_bytes;
            run.memory.device = found.device_bytes;
            run.reused_and_repivoted = found.reused_and_repivoted;
            run.details.extend(found.details);
            run.inform = found
                .report
                .and_then(|json| serde_json::from_str(&json).ok());
            let samples = self.state.samples.into_iter();
            run.phases = samples
                .map(|(phase, seconds)| (phase, Samples::new(seconds)))
                .collect();
        }
        run
    }
}

/// Times every phase of every solver and measures their solutions.
pub fn contest<T: Scalar>(
    system: &System<T>,
    entrants: Vec<Entrant<T>>,
    settings: &Settings,
) -> Vec<Run> {
    let mut contest = Contest {
        system,
        entrants,
        settings,
    };
    contest.first_solves();
    contest.solves();
    contest.refactorizations();
    contest.steps_on_device();
    contest.entrants.into_iter().map(Entrant::finish).collect()
}

struct Contest<'a, T> {
    system: &'a System<T>,
    entrants: Vec<Entrant<T>>,
    settings: &'a Settings,
}

/// The largest backward error of solutions that stand one after another.
fn backward_error<T: Scalar>(a: &CsMat<T>, x: &[T], b: &[T]) -> f64 {
    let n = a.rows().max(1);
    let each = x.chunks_exact(n).zip(b.chunks_exact(n));
    let errors = each.map(|(x, b)| normwise_backward_error(a, x, b));
    // A fold by `max` would forget a NaN.
    recordable(errors.fold(0.0, |worst: f64, error| {
        if error.is_nan() {
            error
        } else {
            worst.max(error)
        }
    }))
}

fn timed(step: impl FnOnce() -> Result<(), PeerError>) -> Result<f64, PeerError> {
    let start = Instant::now();
    step()?;
    Ok(start.elapsed().as_secs_f64())
}

impl<T: Scalar> Contest<'_, T> {
    /// Rounds of samples until this share of the budget is over; the step of who fails is not repeated.
    fn sample<S>(&mut self, share: f64, step: S)
    where
        S: FnMut(&mut dyn Peer<T>, &mut State<T>) -> Result<Taken, PeerError>,
    {
        self.sample_after(Duration::ZERO, share, step);
    }

    /// As [`sample`](Self::sample), with a pause before each turn.
    fn sample_after<S>(&mut self, pause: Duration, share: f64, mut step: S)
    where
        S: FnMut(&mut dyn Peer<T>, &mut State<T>) -> Result<Taken, PeerError>,
    {
        for entrant in &mut self.entrants {
            entrant.state.is_due = entrant.goes_on();
            entrant.state.last = 0.0;
        }
        let (settings, start) = (self.settings, Instant::now());
        let budget = share * settings.budget;
        for round in 0..=settings.max_rounds {
            if round > settings.min_rounds && start.elapsed().as_secs_f64() > budget {
                break;
            }
            turns::round(
                &mut self.entrants,
                round,
                |entrant| entrant.state.is_due,
                |entrant| {
                    if let Err(error) = entrant.turn(round, budget, pause, &mut step) {
                        entrant.state.error = Some(error);
                        entrant.state.is_due = false;
                    }
                },
            );
        }
    }

    fn each<S>(&mut self, mut step: S)
    where
        S: FnMut(&mut dyn Peer<T>, &mut State<T>) -> Result<(), PeerError>,
    {
        for entrant in self.entrants.iter_mut().filter(|entrant| entrant.goes_on()) {
            if let Some(peer) = entrant.peer.as_deref_mut() {
                entrant.state.error = step(peer, &mut entrant.state).err();
            }
        }
    }

    /// Ends a group of phases: who failed in it misses its rest, and goes on with the next group.
    fn end(&mut self, what: &str) {
        for state in self.entrants.iter_mut().map(|entrant| &mut entrant.state) {
            match state.error.take() {
                None | Some(PeerError::Unsupported) => {}
                Some(error) => {
                    state.run.details.push(format!("{what} failed: {error}"));
                    state.run.failed_steps += 1;
                }
            }
        }
    }

    fn first_solves(&mut self) {
        let system = self.system;
        let is_alone = self.entrants.iter().filter(|e| e.goes_on()).count() < 2;
        let pause = if is_alone { Duration::ZERO } else { PAUSE };
        self.sample_after(pause, 0.5, |peer, state| {
            peer.drop_analysis();
            let taken = first_solve(system, peer, state);
            if taken.is_err() {
                // It may be memory that it lacked, and the others need theirs.
                peer.drop_analysis();
            }
            taken
        });
        for entrant in &mut self.entrants {
            if let Some(error) = entrant.state.error.take() {
                entrant.peer = None;
                entrant.state.run.outcome = Outcome::Failed {
                    reason: error.to_string(),
                };
            }
        }
    }

    fn solves(&mut self) {
        let system = self.system;
        type Solve<T> = fn(&mut dyn Peer<T>, &mut [T], usize) -> Result<(), PeerError>;
        let plain: Solve<T> = |peer, x, nrhs| peer.solve(x, nrhs);
        let transposed: Solve<T> = |peer, x, nrhs| peer.solve_transpose(x, nrhs);
        let all = [
            (Phase::Solve, &system.b, 1, plain),
            (Phase::SolveTranspose, &system.transposed_b, 1, transposed),
            (Phase::SolveMany, &system.many_b, system.nrhs(), plain),
        ];
        for (phase, b, nrhs, solve) in all {
            self.sample(0.07, |peer, state| {
                state.put(b);
                let seconds = timed(|| solve(peer, &mut state.x, nrhs))?;
                Ok(vec![(phase, seconds)])
            });
            self.each(|_, state| {
                let errors = &mut state.run.errors;
                let (error, a) = match phase {
                    Phase::SolveTranspose => (&mut errors.transposed, &system.transposed),
                    Phase::SolveMany => (&mut errors.many, system.a.rows()),
                    _ => (&mut errors.known, system.a.rows()),
                };
                *error = Some(backward_error(a, &state.x, b));
                Ok(())
            });
            self.end(phase.title());
        }
        self.each(|peer, state| {
            state.put(&system.random_b);
            peer.solve(&mut state.x, 1)?;
            let error = backward_error(system.a.rows(), &state.x, &system.random_b);
            state.run.errors.random = Some(error);
            Ok(())
        });
        self.end("a solve");
        self.sample(0.07, |peer, state| {
            let start = Instant::now();
            state.x = peer.solve_refined(&system.b)?;
            Ok(vec![(Phase::SolveRefined, start.elapsed().as_secs_f64())])
        });
        self.each(|_, state| {
            let error = backward_error(system.a.rows(), &state.x, &system.b);
            state.run.errors.refined = Some(error);
            Ok(())
        });
        self.end("a refined solve");
        self.each(|peer, state| {
            if state.run.structure == Structure::General {
                return Ok(());
            }
            state.put(&system.b);
            let a = system.a.rows();
            let errors = &mut state.run.errors;
            let x = &mut state.x;
            if supported(peer.solve_in_one_pass(x))?.is_some() {
                errors.one_pass = Some(backward_error(a, x, &system.b));
            }
            if errors.refined.is_none() {
                refine(peer, a, x, &system.b)?;
                errors.refined = Some(backward_error(a, x, &system.b));
            }
            Ok(())
        });
        self.end("one pass of solves");
    }

    /// Each refactorization gets other values than the last one; in the end the factors are those of the matrix again.
    fn refactorizations(&mut self) {
        let system = self.system;
        self.sample(0.22, |peer, state| {
            state.has_next = !state.has_next;
            let seconds = timed(|| peer.refactorize(system.values(state.has_next)))?;
            Ok(vec![(Phase::Refactorize, seconds)])
        });
        self.each(|peer, state| {
            peer.refactorize(&system.next)?;
            state.put(&system.next_b);
            peer.solve(&mut state.x, 1)?;
            let error = backward_error(system.next.rows(), &state.x, &system.next_b);
            state.run.errors.refactorized = Some(error);
            peer.refactorize(&system.a)
        });
        for state in self.entrants.iter_mut().map(|entrant| &mut entrant.state) {
            state.has_next = false;
            if let Some(error) = state
                .error
                .as_ref()
                .filter(|e| **e != PeerError::Unsupported)
            {
                state.run.refactorize_error = Some(error.to_string());
            }
        }
        self.end("a refactorization");
    }

    /// Refactorizations and solves that leave values and vectors on the device.
    fn steps_on_device(&mut self) {
        let system = self.system;
        let staged = Staged {
            a: &system.a,
            others: std::slice::from_ref(&system.next),
            b: [&system.b, &system.many_b],
        };
        self.each(|peer, _| resident(peer)?.stage(&staged));
        self.sample(0.2, |peer, state| {
            state.has_next = !state.has_next;
            let seconds = timed(|| resident(peer)?.refactorize(state.has_next.into()))?;
            Ok(vec![(Phase::RefactorizeResident, seconds)])
        });
        let many = system.nrhs();
        for (phase, nrhs) in [(Phase::SolveResident, 1), (Phase::SolveManyResident, many)] {
            self.sample(0.07, |peer, _| {
                let seconds = timed(|| resident(peer)?.solve(nrhs))?;
                Ok(vec![(phase, seconds)])
            });
        }
        self.each(|peer, state| {
            let resident = resident(peer)?;
            let seconds = &mut state.run.device_seconds;
            let on_clock = resident.refactorize_on_clock()?;
            seconds.insert(Phase::RefactorizeResident, on_clock);
            seconds.insert(Phase::SolveResident, resident.solve_on_clock(1)?);
            Ok(())
        });
        self.end("a step on the device");
    }
}

/// What a step made; nothing if the solver has no such step.
fn supported<V>(made: Result<V, PeerError>) -> Result<Option<V>, PeerError> {
    match made {
        Err(PeerError::Unsupported) => Ok(None),
        other => other.map(Some),
    }
}

/// Two steps of refinement of a solution of A·x = b by the solver's solves.
fn refine<T: Scalar>(
    peer: &mut dyn Peer<T>,
    a: &CsMat<T>,
    x: &mut [T],
    b: &[T],
) -> Result<(), PeerError> {
    for _ in 0..2 {
        let mut residual = b.to_vec();
        for (r, row) in residual.iter_mut().zip(a.outer_iterator()) {
            row.iter().for_each(|(j, &v)| *r -= v * x[j]);
        }
        peer.solve(&mut residual, 1)?;
        x.iter_mut().zip(residual).for_each(|(x, d)| *x += d);
    }
    Ok(())
}

fn resident<T>(peer: &mut dyn Peer<T>) -> Result<&mut dyn Resident<T>, PeerError> {
    peer.resident().ok_or(PeerError::Unsupported)
}

impl<T: Scalar> State<T> {
    fn put(&mut self, b: &[T]) {
        self.x.clear();
        self.x.extend_from_slice(b);
    }
}

/// Analysis, factorization and one solve.
fn first_solve<T: Scalar>(
    system: &System<T>,
    peer: &mut dyn Peer<T>,
    state: &mut State<T>,
) -> Result<Taken, PeerError> {
    state.put(&system.b);
    let start = Instant::now();
    peer.analyze(&system.a)?;
    let analyzed = start.elapsed().as_secs_f64();
    peer.factorize(&system.a)?;
    let factorized = start.elapsed().as_secs_f64();
    // Only refinement makes of factors in single precision what was asked for.
    match state.run.precision {
        Precision::Mixed => drop(peer.solve_refined(&system.b)?),
        Precision::F64 | Precision::F32 => peer.solve(&mut state.x, 1)?,
    }
    let all = start.elapsed().as_secs_f64();
    let [ordering, symbolic] = peer.analysis_seconds();
    let parts = [
        (Phase::FirstSolve, Some(all)),
        (Phase::Ordering, ordering),
        (Phase::Symbolic, symbolic),
        (Phase::Analyze, Some(analyzed)),
        (Phase::Factorize, Some(factorized - analyzed)),
        (Phase::AnalyzeFactorize, Some(factorized)),
    ];
    let known = parts.into_iter();
    Ok(known
        .filter_map(|(phase, seconds)| Some((phase, seconds?)))
        .collect())
}
