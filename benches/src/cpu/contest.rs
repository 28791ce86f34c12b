//! All solvers on one matrix, in turn.

use std::time::Instant;

use luge_peers::{Peer, PeerError};
use luge_testkit::residual::normwise_backward_error;
use sprs::CsMat;

use super::allocator;
use crate::report::Outcome;
use crate::results::{Phase, Run, Settings};
use crate::statistics::{Samples, recordable};
use crate::systems::{MANY, System};
use crate::turns;

/// A sample takes at least this long: shorter calls are repeated.
const SHORTEST_SAMPLE: f64 = 50e-6;
/// Most calls in a sample.
const LARGEST_BATCH: usize = 64;
/// Calls shorter than this are preceded by one that is not timed.
const LONG_CALL: f64 = 5e-3;

/// A solver that takes part.
pub struct Lane {
    /// It.
    pub peer: Box<dyn Peer>,
    /// What is known of it so far: name, threads, and what a process of its own found out.
    pub run: Run,
    /// Whether its memory is what Rust code allocates.
    pub counts_memory: bool,
    samples: Vec<(Phase, Vec<f64>)>,
    /// Seconds of the first analysis and factorization.
    first: f64,
    /// Which values the next refactorization gets.
    next_is_due: bool,
}

impl Lane {
    /// A solver before its first step.
    pub fn new(peer: Box<dyn Peer>, run: Run, counts_memory: bool) -> Self {
        Self {
            peer,
            run,
            counts_memory,
            samples: Vec::new(),
            first: 0.0,
            next_is_due: true,
        }
    }

    fn is_alive(&self) -> bool {
        self.run.outcome == Outcome::Measured
    }

    fn add(&mut self, phase: Phase, seconds: f64, calls: usize) {
        let mean = seconds / calls as f64;
        match self.samples.iter_mut().find(|(of, _)| *of == phase) {
            Some((_, samples)) => samples.push(mean),
            None => self.samples.push((phase, vec![mean])),
        }
        self.run.largest_batch = self.run.largest_batch.max(calls);
    }

    fn fail(&mut self, error: &PeerError) {
        self.run.outcome = Outcome::Failed {
            reason: error.to_string(),
        };
        self.samples.clear();
        self.peer.drop_analysis();
    }

    fn last(&self, phase: Phase) -> Option<f64> {
        let (_, samples) = self.samples.iter().find(|(of, _)| *of == phase)?;
        samples.last().copied()
    }

    /// First analysis and factorization: is it possible, and in how much memory?
    fn start(&mut self, system: &System) {
        let start = Instant::now();
        let mut step = || {
            self.peer.analyze(&system.a)?;
            self.peer.factorize(&system.a)
        };
        let (done, bytes) = if self.counts_memory {
            let (done, bytes) = allocator::peak_of(step);
            (done, Some(bytes).filter(|&bytes| bytes > 0))
        } else {
            (step(), None)
        };
        self.first = start.elapsed().as_secs_f64();
        if let Err(error) = done {
            self.fail(&error);
            return;
        }
        let statistics = self.peer.statistics();
        self.run.memory.allocated = bytes;
        self.run.memory.reported = statistics.peak_bytes;
        self.run.factor_entries = statistics.factor_entries;
        self.run.flops = statistics.flops;
        self.run.details = statistics.details;
    }

    fn sample_factorization(&mut self, system: &System) {
        let (calls, warm) = batch(self.first);
        let (mut analyze, mut factorize) = (0.0, 0.0);
        // Of a first solution; none if a solve fails.
        let mut solve = Some(0.0);
        let mut x = system.b.clone();
        for call in 0..calls + usize::from(warm) {
            self.peer.drop_analysis();
            let start = Instant::now();
            if let Err(error) = self.peer.analyze(&system.a) {
                return self.fail(&error);
            }
            let between = Instant::now();
            if let Err(error) = self.peer.factorize(&system.a) {
                return self.fail(&error);
            }
            let factorized = Instant::now();
            if call >= usize::from(warm) {
                analyze += (between - start).as_secs_f64();
                factorize += (factorized - between).as_secs_f64();
            }
            x.copy_from_slice(&system.b);
            let start = Instant::now();
            let solved = self.peer.solve(&mut x, 1);
            let seconds = start.elapsed().as_secs_f64();
            if call >= usize::from(warm) {
                solve = solve.filter(|_| solved.is_ok()).map(|sum| sum + seconds);
            }
        }
        self.add(Phase::Analyze, analyze, calls);
        self.add(Phase::Factorize, factorize, calls);
        self.add(Phase::AnalyzeFactorize, analyze + factorize, calls);
        if let Some(solve) = solve {
            self.add(Phase::FirstSolve, analyze + factorize + solve, calls);
        }
    }

    fn sample_refactorization(&mut self, system: &System) {
        if !self.peer.can_refactorize() || self.run.refactorize_error.is_some() {
            return;
        }
        let expected = self.last(Phase::Refactorize).unwrap_or(self.first);
        let (calls, warm) = batch(expected);
        let mut seconds = 0.0;
        for call in 0..calls + usize::from(warm) {
            let a = if self.next_is_due {
                &system.next
            } else {
                &system.a
            };
            self.next_is_due = !self.next_is_due;
            let start = Instant::now();
            if let Err(error) = self.peer.refactorize(a) {
                self.run.refactorize_error = Some(error.to_string());
                return;
            }
            if call >= usize::from(warm) {
                seconds += start.elapsed().as_secs_f64();
            }
        }
        self.add(Phase::Refactorize, seconds, calls);
    }

    /// The error after a refactorization; then the factors are those of the matrix again.
    fn finish_refactorization(&mut self, system: &System) {
        if self.peer.can_refactorize() && self.run.refactorize_error.is_none() {
            match self.peer.refactorize(&system.next) {
                Ok(()) => {
                    self.run.errors.refactorized =
                        self.error_of(system.next.rows(), &system.next_b, |peer, x, nrhs| {
                            peer.solve(x, nrhs)
                        });
                }
                Err(error) => self.run.refactorize_error = Some(error.to_string()),
            }
            self.run.reused_and_repivoted = self.peer.statistics().reused_and_repivoted;
        }
        if let Err(error) = self.peer.factorize(&system.a) {
            self.fail(&error);
        }
    }

    /// The backward error of one solve; `None` if the solver refuses.
    fn error_of(
        &mut self,
        a: &CsMat<f64>,
        b: &[f64],
        solve: impl Fn(&mut dyn Peer, &mut [f64], usize) -> Result<(), PeerError>,
    ) -> Option<f64> {
        let mut x = b.to_vec();
        match solve(self.peer.as_mut(), &mut x, 1) {
            Ok(()) => Some(recordable(normwise_backward_error(a, &x, b))),
            Err(error) => {
                self.run.details.push(format!("a solve failed: {error}"));
                None
            }
        }
    }

    fn measure_errors(&mut self, system: &System) {
        let a = system.a.rows();
        self.run.errors.known = self.error_of(a, &system.b, |peer, x, nrhs| peer.solve(x, nrhs));
        self.run.errors.random =
            self.error_of(a, &system.random_b, |peer, x, nrhs| peer.solve(x, nrhs));
        self.run.errors.transposed =
            self.error_of(&system.transposed, &system.transposed_b, |peer, x, nrhs| {
                peer.solve_transpose(x, nrhs)
            });
        let mut x = system.many_b.clone();
        if self.peer.solve(&mut x, MANY).is_ok() {
            let n = a.rows().max(1);
            let each = x.chunks_exact(n).zip(system.many_b.chunks_exact(n));
            let worst = each.map(|(x, b)| normwise_backward_error(a, x, b));
            self.run.errors.many = Some(recordable(worst.fold(0.0, f64::max)));
        }
        match self.peer.solve_checked(&system.b) {
            Some(Ok(checked)) => {
                let error = normwise_backward_error(a, &checked.x, &system.b);
                self.run.errors.refined = Some(recordable(error));
            }
            Some(Err(error)) => {
                let words = format!("the checked solve failed: {error}");
                self.run.details.push(words);
            }
            None => {}
        }
    }

    fn sample_solve(
        &mut self,
        phase: Phase,
        b: &[f64],
        x: &mut [f64],
        solve: impl Fn(&mut dyn Peer, &mut [f64]) -> Result<(), PeerError>,
    ) {
        let (calls, warm) = batch(self.last(phase).unwrap_or(0.1 * self.first));
        let mut seconds = 0.0;
        for call in 0..calls + usize::from(warm) {
            x.copy_from_slice(b);
            let start = Instant::now();
            if solve(self.peer.as_mut(), x).is_err() {
                return;
            }
            if call >= usize::from(warm) {
                seconds += start.elapsed().as_secs_f64();
            }
        }
        self.add(phase, seconds, calls);
    }

    fn sample_solves(&mut self, system: &System, x: &mut [f64]) {
        let n = system.a.n();
        self.sample_solve(Phase::Solve, &system.b, &mut x[..n], |peer, x| {
            peer.solve(x, 1)
        });
        self.sample_solve(
            Phase::SolveTranspose,
            &system.transposed_b,
            &mut x[..n],
            |peer, x| peer.solve_transpose(x, 1),
        );
        self.sample_solve(Phase::SolveMany, &system.many_b, x, |peer, x| {
            peer.solve(x, MANY)
        });
        if self.run.errors.refined.is_some() {
            self.sample_solve(Phase::SolveRefined, &system.b, &mut x[..n], |peer, x| {
                peer.solve_checked(x)
                    .map_or(Err(PeerError::Unsupported), |solved| solved.map(drop))
            });
        }
    }

    fn finish(mut self) -> Run {
        let samples = std::mem::take(&mut self.samples);
        self.run.phases = samples
            .into_iter()
            .map(|(phase, seconds)| (phase, Samples::new(seconds)))
            .collect();
        self.run
    }
}

/// How many calls of `seconds` make a sample, and whether one goes before it.
fn batch(seconds: f64) -> (usize, bool) {
    let calls = (SHORTEST_SAMPLE / seconds.max(1e-9)).ceil() as usize;
    (calls.clamp(1, LARGEST_BATCH), seconds < LONG_CALL)
}

/// Rounds of samples, in the order of [`turns`], until `budget` seconds are over.
fn rounds(lanes: &mut [Lane], settings: &Settings, budget: f64, mut sample: impl FnMut(&mut Lane)) {
    let start = Instant::now();
    for round in 0..settings.max_rounds {
        if round >= settings.min_rounds && start.elapsed().as_secs_f64() > budget {
            break;
        }
        turns::round(lanes, round, Lane::is_alive, &mut sample);
    }
}

/// Times every phase of every solver and measures their solutions.
pub fn contest(system: &System, mut lanes: Vec<Lane>, settings: &Settings) -> Vec<Run> {
    for lane in lanes.iter_mut().filter(|lane| lane.is_alive()) {
        lane.start(system);
    }
    rounds(&mut lanes, settings, 0.5 * settings.budget, |lane| {
        lane.sample_factorization(system);
    });
    rounds(&mut lanes, settings, 0.25 * settings.budget, |lane| {
        lane.sample_refactorization(system);
    });
    for lane in lanes.iter_mut().filter(|lane| lane.is_alive()) {
        lane.finish_refactorization(system);
    }
    for lane in lanes.iter_mut().filter(|lane| lane.is_alive()) {
        lane.measure_errors(system);
    }
    let mut x = vec![0.0; system.a.n() * MANY];
    rounds(&mut lanes, settings, 0.25 * settings.budget, |lane| {
        lane.sample_solves(system, &mut x);
    });
    lanes.into_iter().map(Lane::finish).collect()
}
