//! The contest: who is called when, what is counted, and that wrong solutions are found out.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use luge::{BackendChoice, FactorPrecision, Options};
use luge_benches::contest::{Entrant, contest};
use luge_benches::luge_peer::Luge;
use luge_benches::results::{Field, Outcome, Phase, Precision, Run, Settings};
use luge_benches::statistics::Statistic;
use luge_benches::systems::{RESCALING, System, rescaling};
use luge_peers::{Found, Matrix, Peer, PeerError, Resident, Staged, Statistics, Structure};
use luge_testkit::corpus::skip_loudly;
use luge_testkit::generators::applications::circuit;

fn settings(samples: usize) -> Settings {
    Settings {
        time_limit: 60.0,
        budget: 60.0,
        min_rounds: samples,
        max_rounds: samples,
        statistic: Statistic::Median,
    }
}

fn system_of(a: sprs::CsMat<f64>) -> System {
    let a = Matrix::new(a).expect("it is small");
    let next = a.map_values(|value, number| value * rescaling(number));
    System::new(a, next, "rescaled".to_owned())
}

fn small() -> System {
    system_of(circuit(60, 5))
}

fn luge(options: Options, precision: Precision) -> Entrant<f64> {
    let luge = Luge::new(options.precision(match precision {
        Precision::Mixed => FactorPrecision::Single,
        _ => FactorPrecision::Matrix,
    }));
    let run = Run::new("luge", 1).in_precision(precision);
    Entrant::new(Box::new(luge.expect("the backend is there")), run)
}

fn on(backend: BackendChoice) -> Options {
    Options::default().backend(backend).threads(Some(1))
}

fn count(run: &Run, phase: Phase) -> usize {
    run.phases
        .get(&phase)
        .map_or(0, |samples| samples.seconds.len())
}

#[test]
fn every_phase_of_luge_is_timed_and_right_on_the_host_and_on_a_device() {
    let simulator = BackendChoice::Simulator { seed: 0 };
    for (backend, on_device) in [(BackendChoice::Cpu, false), (simulator, true)] {
        let entrants = [Precision::F64, Precision::Mixed].map(|p| luge(on(backend), p));
        for run in contest(&small(), Vec::from(entrants), &settings(2)) {
            assert_eq!(
                (run.outcome.clone(), run.failed_steps),
                (Outcome::Measured, 0)
            );
            for phase in Phase::ALL {
                let is_resident = phase.title().ends_with("(on device)");
                let expected = if is_resident && !on_device { 0 } else { 2 };
                assert_eq!(count(&run, phase), expected, "{phase:?}");
            }
            assert_eq!(run.wrong_solutions(), Vec::<String>::new());
            let refined = run.errors.refined.expect("it is measured");
            assert!(refined < 1e-12, "{refined}");
            assert_eq!(run.device_seconds.len(), if on_device { 2 } else { 0 });
            assert_eq!(run.memory.device.is_some(), on_device);
            let (reused, repivoted) = run.reused_and_repivoted.expect("Luge tells");
            assert!(
                reused + repivoted >= 5,
                "a first call, two samples, and the other values and back"
            );
            let inform = run.inform.as_ref().expect("its report");
            assert_eq!(inform["n"], small().a.n());
            let moved = run
                .factor_byte_rate(Phase::Refactorize, Field::Real, 100)
                .expect("a rate")
                * run.seconds(Phase::Refactorize).expect("a time");
            let expected = (run.factor_entries.expect("told") + 100) * run.precision.bytes();
            assert!((moved / expected as f64 - 1.0).abs() < 1e-12);
        }
    }
}

#[test]
fn single_precision_is_measured_by_its_own_bound() {
    let single = small().to_type::<f32>();
    let luge = Luge::<f32>::new(on(BackendChoice::Cpu)).expect("the CPU is there");
    let run = Run::new("luge", 1).in_precision(Precision::F32);
    let runs = contest(
        &single,
        vec![Entrant::new(Box::new(luge), run)],
        &settings(1),
    );
    let error = runs[0].errors.known.expect("it is measured");
    assert!(error > 1e-12 && error < 1e-4, "{error}");
    assert!(runs[0].wrong_solutions().is_empty());
}

#[test]
fn peers_that_are_here_take_part() {
    let mut entrants = vec![luge(on(BackendChoice::Cpu), Precision::F64)];
    for name in luge_peers::NAMES {
        match Found::load(name, None) {
            Ok(found) => {
                if let Some(solver) = found.solver(Structure::General, 1) {
                    entrants.push(Entrant::new(solver, Run::new(name, 1)));
                }
            }
            Err(missing) => skip_loudly(1, &format!("{name} is missing: {missing}")),
        }
    }
    for run in contest(&small(), entrants, &settings(1)) {
        assert_eq!(run.outcome, Outcome::Measured, "{}", run.solver);
        assert_eq!(run.failed_steps, 0, "{:?}", run.details);
        assert_eq!(
            run.wrong_solutions(),
            Vec::<String>::new(),
            "{}",
            run.solver
        );
        assert_eq!(count(&run, Phase::Solve), 1, "{}", run.solver);
        let refactorizes = !["umfpack", "faer"].contains(&run.solver.as_str());
        assert_eq!(count(&run, Phase::Refactorize), usize::from(refactorizes));
        assert_eq!(run.refactorize_error, None);
    }
}

#[test]
fn a_refused_matrix_is_no_time() {
    let system = system_of(sprs::CsMat::new((2, 2), vec![0, 1, 1], vec![0], vec![1.0]));
    let entrants = vec![luge(on(BackendChoice::Cpu), Precision::F64)];
    let runs = contest(&system, entrants, &settings(1));
    assert!(
        matches!(runs[0].outcome, Outcome::Failed { .. }),
        "{:?}",
        runs[0]
    );
    assert!(runs[0].phases.is_empty());
}

/// What was called on whom, in order.
type Log = Rc<RefCell<Vec<(char, &'static str)>>>;

/// A solver of diagonal matrices that writes down its calls and does not look at new values.
struct Logged {
    name: char,
    log: Log,
    diagonal: Vec<f64>,
    /// A call that it refuses when it is asked for it for the given time, from 0.
    refuses: Option<(&'static str, usize)>,
    /// How long a call takes.
    takes: Duration,
    is_slow_in: Option<&'static str>,
    has_resident: bool,
}

/// Longer than calls that are repeated.
const TAKES: Duration = Duration::from_millis(6);
const SLOW: Duration = Duration::from_millis(400);

impl Logged {
    fn call(&self, what: &'static str) -> Result<(), PeerError> {
        let event = (self.name, what);
        let earlier = self.log.borrow().iter().filter(|&&e| e == event).count();
        self.log.borrow_mut().push(event);
        std::thread::sleep(match self.is_slow_in {
            Some(slow) if slow == what => SLOW,
            _ => self.takes,
        });
        if self.refuses == Some((what, earlier)) {
            return Err(PeerError::Failed("not today".to_owned()));
        }
        Ok(())
    }
}

impl Peer for Logged {
    fn name(&self) -> &'static str {
        "logged"
    }
    fn version(&self) -> String {
        String::new()
    }
    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.diagonal = a.values().to_vec();
        self.call("analyze")
    }
    fn factorize(&mut self, _: &Matrix) -> Result<(), PeerError> {
        self.call("factorize")
    }
    fn refactorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.call(match a.values() == self.diagonal {
            true => "refactorize first",
            false => "refactorize next",
        })
    }
    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        let diagonal = self.diagonal.iter().cycle();
        x.iter_mut().zip(diagonal).for_each(|(x, d)| *x /= d);
        self.call(if nrhs == 1 { "solve" } else { "solve many" })
    }
    fn solve_transpose(&mut self, _: &mut [f64], _: usize) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }
    fn resident(&mut self) -> Option<&mut dyn Resident<f64>> {
        self.has_resident.then_some(self)
    }
    fn statistics(&mut self) -> Statistics {
        Statistics::default()
    }
    fn drop_factors(&mut self) {}
    fn drop_analysis(&mut self) {
        self.log.borrow_mut().push((self.name, "drop"));
    }
}

impl Resident<f64> for Logged {
    fn stage(&mut self, _: &Staged<'_, f64>) -> Result<(), PeerError> {
        self.call("stage")
    }
    fn refactorize(&mut self, number: usize) -> Result<(), PeerError> {
        self.call(match number {
            0 => "resident first",
            _ => "resident next",
        })
    }
    fn solve(&mut self, nrhs: usize) -> Result<(), PeerError> {
        self.call(if nrhs == 1 {
            "on device"
        } else {
            "many on device"
        })
    }
    fn refactorize_on_clock(&mut self) -> Result<f64, PeerError> {
        self.call("clock").map(|()| 1.0)
    }
    fn solve_on_clock(&mut self, _: usize) -> Result<f64, PeerError> {
        self.call("clock").map(|()| 2.0)
    }
}

/// Four samples, so that with the call that is not counted three solvers come in each order but one.
const FOUR: usize = 4;

/// The runs of a, b and c, b changed by `change`, and what was called.
fn race(
    settings: &Settings,
    change: impl FnOnce(&mut Logged),
) -> ([Run; 3], Vec<(char, &'static str)>) {
    let n = 5;
    let diagonal = (1..=n).map(|i| i as f64).collect();
    let system = system_of(sprs::CsMat::new(
        (n, n),
        (0..=n).collect(),
        (0..n).collect(),
        diagonal,
    ));
    let log = Log::default();
    let mut solvers = ['a', 'b', 'c'].map(|name| Logged {
        name,
        log: Rc::clone(&log),
        diagonal: Vec::new(),
        refuses: None,
        takes: TAKES,
        is_slow_in: None,
        has_resident: true,
    });
    change(&mut solvers[1]);
    let entrants = solvers.map(|solver| {
        let run = Run::new(&solver.name.to_string(), 1);
        Entrant::new(Box::new(solver), run)
    });
    let runs = contest(&system, Vec::from(entrants), settings);
    let runs: [Run; 3] = runs.try_into().expect("a run each");
    let log = log.borrow().clone();
    (runs, log)
}

/// Who was called, in order, of the calls whose name begins so.
fn callers(log: &[(char, &'static str)], what: &str) -> String {
    let called = log.iter().filter(|(_, call)| call.starts_with(what));
    called.map(|(name, _)| name).collect()
}

#[test]
fn solvers_take_turns_in_every_phase_and_the_order_changes() {
    let (runs, log) = race(&settings(FOUR), |_| {});
    let rounds = "abcbcacabacbcba";
    assert_eq!(callers(&log, "analyze"), rounds);
    assert_eq!(callers(&log, "factorize"), rounds);
    // Behind the rounds each refactorizes with the other values and back, and is done before the next one begins.
    assert_eq!(callers(&log, "refactorize"), format!("{rounds}aabbcc"));
    assert_eq!(callers(&log, "solve many"), rounds);
    // The first solves, the phase, many, the random right-hand side, the solution with other values.
    assert_eq!(
        callers(&log, "solve"),
        format!("{}abcabc", rounds.repeat(3))
    );
    assert_eq!(callers(&log, "stage"), "abc");
    assert_eq!(callers(&log, "resident"), rounds);
    assert_eq!(callers(&log, "on device"), rounds);
    assert_eq!(callers(&log, "many on device"), rounds);
    assert_eq!(callers(&log, "clock"), "aabbcc");
    for run in &runs {
        assert_eq!(
            (run.outcome.clone(), run.failed_steps),
            (Outcome::Measured, 0)
        );
        assert_eq!(run.largest_batch, 1);
        let timed = [
            Phase::FirstSolve,
            Phase::Refactorize,
            Phase::Solve,
            Phase::SolveMany,
            Phase::RefactorizeResident,
            Phase::SolveResident,
        ];
        assert!(timed.iter().all(|&phase| count(run, phase) == FOUR));
        assert_eq!(
            count(run, Phase::SolveTranspose) + count(run, Phase::SolveRefined),
            0
        );
        assert_eq!(run.device_seconds[&Phase::RefactorizeResident], 1.0);
        let share = run
            .device_share(Phase::SolveResident)
            .expect("both are known");
        assert_eq!(
            share,
            2.0 / run.seconds(Phase::SolveResident).expect("it is timed")
        );
        let samples = &run.phases[&Phase::Refactorize];
        assert!(samples.minimum >= TAKES.as_secs_f64(), "{samples:?}");
    }
    for name in ['a', 'b', 'c'] {
        let its = log.iter().filter(|(of, _)| *of == name);
        let calls: Vec<&str> = its.map(|(_, call)| *call).collect();
        // A first solve is not interrupted, and begins with nothing; what the last one made is kept.
        let first = ["drop", "analyze", "factorize", "solve"];
        assert_eq!(calls[..20], first.repeat(5)[..], "{name}");
        assert!(!calls[20..].contains(&"drop"));
        let values = |of: &str| -> Vec<String> {
            let values = calls.iter().filter_map(|call| call.strip_prefix(of));
            values.take(5).map(str::to_owned).collect()
        };
        for phase in ["refactorize ", "resident "] {
            assert_eq!(values(phase), ["next", "first", "next", "first", "next"]);
        }
    }
}

/// A solver of diagonal matrices whose solutions are too large by a thousandth.
struct Careless {
    diagonal: Vec<f64>,
}

impl Peer for Careless {
    fn name(&self) -> &'static str {
        "careless"
    }
    fn version(&self) -> String {
        String::new()
    }
    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.diagonal = a.values().to_vec();
        Ok(())
    }
    fn factorize(&mut self, _: &Matrix) -> Result<(), PeerError> {
        Ok(())
    }
    fn refactorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.analyze(a)
    }
    fn solve(&mut self, x: &mut [f64], _: usize) -> Result<(), PeerError> {
        let diagonal = self.diagonal.iter().cycle();
        x.iter_mut()
            .zip(diagonal)
            .for_each(|(x, d)| *x *= 1.001 / d);
        Ok(())
    }
    fn solve_transpose(&mut self, _: &mut [f64], _: usize) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }
    fn statistics(&mut self) -> Statistics {
        Statistics::default()
    }
    fn drop_factors(&mut self) {}
    fn drop_analysis(&mut self) {}
}

#[test]
fn symmetric_solutions_are_measured_before_and_after_refinement() {
    let diagonal = sprs::CsMat::new((3, 3), vec![0, 1, 2, 3], vec![0, 1, 2], vec![1.0, 2.0, 4.0]);
    let entrants = [Structure::General, Structure::Symmetric].map(|structure| {
        let careless = Careless {
            diagonal: Vec::new(),
        };
        let run = Run::new("careless", 1).told(structure);
        Entrant::new(Box::new(careless), run)
    });
    let runs = contest(&system_of(diagonal), Vec::from(entrants), &settings(1));
    assert_eq!(
        (runs[0].errors.one_pass, runs[0].errors.refined),
        (None, None)
    );
    let errors = &runs[1].errors;
    assert_eq!(errors.one_pass, errors.known, "its solve is one pass");
    let before = errors.one_pass.expect("it is measured");
    assert!((1e-4..1e-3).contains(&before), "{before}");
    // Each of two steps leaves a thousandth of the error.
    let after = errors.refined.expect("it is measured") / before;
    assert!((0.9e-6..1.1e-6).contains(&after), "{after}");
    assert_eq!(runs[1].wrong_before_refinement(), Some(before));
}

#[test]
fn symmetric_factors_of_luge_are_measured_without_its_refinement() {
    let a = luge_testkit::generators::applications::laplacian_2d(9, 8);
    let system = system_of(a);
    let simulator = BackendChoice::Simulator { seed: 0 };
    for backend in [BackendChoice::Cpu, simulator] {
        for structure in [Structure::Symmetric, Structure::Definite] {
            let solver = Luge::<f64>::told(structure, on(backend));
            let run = Run::new("luge", 1).told(structure);
            let entrant = Entrant::new(Box::new(solver.expect("the backend is there")), run);
            let [run] = &contest(&system, vec![entrant], &settings(1))[..] else {
                panic!("one run");
            };
            assert_eq!(run.failed_steps, 0, "{:?}", run.details);
            assert!(run.errors.one_pass.is_some_and(|error| error < 1e-14));
            assert!(run.errors.refined.is_some_and(|error| error < 1e-14));
        }
    }
}

#[test]
fn stale_factors_are_found_out() {
    let ([run, ..], _) = race(&settings(1), |_| {});
    assert!(run.errors.known.expect("measured") < 1e-15);
    assert!(run.errors.many.expect("measured") < 1e-15);
    assert!(run.errors.refactorized.expect("measured") > 1e-2 * RESCALING);
    let wrong = run.wrong_solutions();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].ends_with("after refactorization"), "{wrong:?}");
}

#[test]
fn one_that_fails_drops_out_and_the_others_take_turns() {
    let (runs, log) = race(&settings(FOUR), |b| b.refuses = Some(("factorize", 1)));
    assert_eq!(callers(&log, "analyze"), "abcbcaaccaac");
    let reason = "not today".to_owned();
    assert_eq!(runs[1].outcome, Outcome::Failed { reason });
    assert!(runs[1].phases.is_empty(), "{:?}", runs[1].phases);
    let of_b: Vec<&str> = log.iter().filter(|e| e.0 == 'b').map(|e| e.1).collect();
    let end = ["drop", "analyze", "factorize", "drop"];
    assert_eq!(of_b[of_b.len() - 4..], end, "its memory is for the others");
    assert_eq!(callers(&log, "stage"), "ac");
    assert_eq!(count(&runs[2], Phase::Solve), FOUR);
}

#[test]
fn one_that_fails_later_misses_that_group_of_phases() {
    let (runs, log) = race(&settings(FOUR), |b| {
        b.refuses = Some(("refactorize first", 0));
    });
    // It fails in the first counted round.
    assert_eq!(callers(&log, "refactorize"), "abcbcaaccaacaacc");
    let b = &runs[1];
    assert_eq!((b.outcome.clone(), b.failed_steps), (Outcome::Measured, 1));
    assert_eq!(b.details, ["a refactorization failed: not today"]);
    assert_eq!(b.refactorize_error.as_deref(), Some("not today"));
    assert_eq!(b.errors.refactorized, None);
    assert_eq!(count(b, Phase::Refactorize), 0);
    assert_eq!(count(b, Phase::RefactorizeResident), FOUR);
    assert_eq!([runs[0].failed_steps, runs[2].failed_steps], [0, 0]);
    assert_eq!(count(&runs[0], Phase::Refactorize), FOUR);
}

#[test]
fn one_whose_call_is_long_has_one_turn_in_that_phase() {
    let short = Settings {
        // Of which a solve on the device may take 0.07.
        budget: 0.5 * SLOW.as_secs_f64() / 0.07,
        ..settings(FOUR)
    };
    let (runs, log) = race(&short, |b| b.is_slow_in = Some("on device"));
    assert_eq!(callers(&log, "on device"), "abccaaccaac");
    let samples = &runs[1].phases[&Phase::SolveResident];
    assert_eq!(samples.seconds.len(), 1);
    assert!(samples.minimum >= SLOW.as_secs_f64());
    assert_eq!(count(&runs[0], Phase::SolveResident), FOUR);
    assert_eq!(count(&runs[1], Phase::SolveManyResident), FOUR);
}

#[test]
fn rounds_end_with_the_budget_but_not_before_the_fewest() {
    let hasty = Settings {
        budget: 0.1,
        min_rounds: 2,
        max_rounds: 1000,
        ..settings(0)
    };
    let ([run, ..], _) = race(&hasty, |_| {});
    assert_eq!(count(&run, Phase::Refactorize), 2);
}

#[test]
fn one_that_takes_nothing_on_the_device_leaves_its_turns_to_the_others() {
    let (runs, log) = race(&settings(FOUR), |b| b.has_resident = false);
    assert_eq!(callers(&log, "many on device"), "accaaccaac");
    assert_eq!(callers(&log, "clock"), "aacc");
    assert_eq!(count(&runs[1], Phase::SolveResident), 0);
    assert_eq!((runs[1].failed_steps, runs[1].device_seconds.len()), (0, 0));
}

#[test]
fn a_short_call_goes_right_after_one_that_is_not_counted() {
    // Longer than what is put together to a sample, shorter than what is not repeated.
    let (runs, log) = race(&settings(FOUR), |b| b.takes = Duration::from_millis(1));
    assert_eq!(callers(&log, "many on device"), "abcbbcacabbacbbcbba");
    assert_eq!(runs[1].largest_batch, 1);
    assert_eq!(count(&runs[1], Phase::SolveManyResident), FOUR);
}

#[test]
fn who_is_out_stays_out_and_keeps_its_reason() {
    let mut slow = Run::new("slow", 1);
    slow.outcome = Outcome::TooSlow { seconds: 3.0 };
    let entrants = vec![
        Entrant::out(slow.clone()),
        luge(on(BackendChoice::Cpu), Precision::F64),
    ];
    let runs = contest(&small(), entrants, &settings(1));
    assert_eq!(runs[0], slow);
    assert_eq!(count(&runs[1], Phase::Solve), 1);
}
