//! The numeric benchmark on the simulator, end to end, and what it says of solvers that are wrong or missing.

use std::cell::RefCell;
use std::path::Path;
use std::process::{Command, Output};
use std::rc::Rc;
use std::time::Duration;

use luge::{BackendChoice, DeviceEngine, ResidualCheck};
use luge_benches::machine::Machine;
use luge_benches::numeric::contenders::{
    AnalysisSeconds, Contender, Luge, LugeSettings, Refusal, Resident,
};
use luge_benches::numeric::means::{COUNTED_ENTRIES, ratios};
use luge_benches::numeric::measure::{Effort, Lane, measure};
use luge_benches::numeric::problem::{Problem, RESCALING, Values, rescaled};
use luge_benches::numeric::table;
use luge_benches::report::{Outcome, SolverInfo, write_json};
use luge_benches::results::{
    Benchmark, Ceilings, DeviceInfo, MatrixResult, Phase, Precision, Results, Run, SCHEMA, Settings,
};
use luge_benches::statistics::{Samples, Statistic};
use luge_peers::Matrix;
use luge_sparse::Scalar;
use luge_testkit::generators::applications::circuit;
use luge_testkit::residual::error_bound;

const SIMULATOR: BackendChoice = BackendChoice::Simulator { seed: 0 };

fn on_simulator(device_engine: DeviceEngine) -> LugeSettings {
    LugeSettings {
        backend: SIMULATOR,
        device_engine,
        residual_check: ResidualCheck::Always,
    }
}

const EFFORT: Effort = Effort {
    samples: 2,
    long: 1e9,
    short: 0.0,
};

fn small() -> (Matrix, Matrix) {
    let a = Matrix::new(circuit(33, 5)).unwrap();
    let next = rescaled(&a);
    (a, next)
}

/// The run of a solver that has nobody to take turns with.
fn alone<'a, T: Scalar>(
    problem: &Problem<T>,
    contender: impl Contender<T> + 'a,
    run: Run,
    effort: Effort,
) -> Run {
    let lane = Lane::new(Box::new(contender), run);
    measure(problem, vec![lane], effort).remove(0)
}

fn measured<T: Scalar>(engine: DeviceEngine, precision: Precision) -> Run {
    let (a, next) = small();
    let problem = Problem::<T>::new(&a, &next);
    let luge = Luge::new(&problem, on_simulator(engine), precision).unwrap();
    let run = Run::new("luge", 1).in_precision(precision);
    alone(&problem, luge, run, EFFORT)
}

#[test]
fn every_phase_is_timed_and_every_solution_measured() {
    let n = small().0.n();
    let bounds = [
        (Precision::F64, error_bound::<f64>(n), error_bound::<f64>(n)),
        (Precision::F32, error_bound::<f32>(n), error_bound::<f32>(n)),
        (
            Precision::Mixed,
            error_bound::<f32>(n),
            error_bound::<f64>(n),
        ),
    ];
    let engines = [DeviceEngine::Columns, DeviceEngine::Tree];
    let runs = engines.map(|engine| bounds.map(|bounds| (engine, bounds)));
    for (engine, (precision, plain, refined)) in runs.into_iter().flatten() {
        let run = match precision {
            Precision::F32 => measured::<f32>(engine, precision),
            Precision::F64 | Precision::Mixed => measured::<f64>(engine, precision),
        };
        assert_eq!(run.outcome, Outcome::Measured);
        assert_eq!((run.failed_steps, &run.details), (0, &Vec::new()));
        let resident = [
            Phase::RefactorizeResident,
            Phase::SolveResident,
            Phase::SolveManyResident,
        ];
        for phase in Phase::ON_DEVICE {
            let samples = run.phases.get(&phase).map(|samples| samples.seconds.len());
            let is_timed = engine == DeviceEngine::Tree || !resident.contains(&phase);
            let expected = is_timed.then_some(EFFORT.samples);
            assert_eq!(samples, expected, "{precision}, {phase:?}");
        }
        let errors = [run.errors.known, run.errors.many, run.errors.refactorized];
        for error in errors {
            assert!(error.is_some_and(|e| e <= plain), "{precision}: {error:?}");
        }
        let error = run.errors.refined;
        assert!(
            error.is_some_and(|e| e <= refined),
            "{precision}: {error:?}"
        );
        assert!(run.wrong_solutions().is_empty());
        assert!(run.flop_rate(Phase::Refactorize).unwrap() > 0.0);
        let moved = run.factor_byte_rate(Phase::Refactorize, 100).unwrap()
            * run.seconds(Phase::Refactorize).unwrap();
        let expected = (run.factor_entries.unwrap() + 100) * precision.bytes();
        assert!((moved / expected as f64 - 1.0).abs() < 1e-12);
        assert!(run.memory.device.unwrap() > 0);
        // A first call and one that ends at the other values, and back, beside the samples; where data stays on the
        // device, one that brings it there, a first call, and one on the device's clock.
        let rounds = if engine == DeviceEngine::Tree { 2 } else { 1 };
        let (reused, repivoted) = run.reused_and_repivoted.unwrap();
        assert_eq!(reused + repivoted, rounds * (EFFORT.samples as u64 + 3));
        let on_clock = run.device_seconds.values().filter(|&&s| s > 0.0).count();
        assert_eq!(on_clock, if engine == DeviceEngine::Tree { 2 } else { 0 });
        let inform = run.inform.unwrap();
        assert_eq!(inform["backend"], "simulator");
        assert_eq!(inform["n"], n);
    }
}

/// Copies: a solver of diagonal matrices that does not look at new values.
struct Stale<'a> {
    problem: &'a Problem<f64>,
    refuses_to_refactorize: bool,
    resident_calls: Vec<Values>,
}

impl Contender<f64> for Stale<'_> {
    fn analyze(&mut self) -> Result<AnalysisSeconds, Refusal> {
        Ok(AnalysisSeconds::default())
    }
    fn factorize(&mut self) -> Result<(), Refusal> {
        Ok(())
    }
    fn refactorize(&mut self, _: Values) -> Result<(), Refusal> {
        if self.refuses_to_refactorize {
            return Err(Refusal("not today".to_owned()));
        }
        Ok(())
    }
    fn solve(&mut self, x: &mut [f64], _: usize) -> Result<(), Refusal> {
        let diagonal = self.problem.a.data();
        x.iter_mut()
            .zip(diagonal.iter().cycle())
            .for_each(|(x, d)| *x /= d);
        Ok(())
    }
    fn resident(&mut self) -> Option<&mut dyn Resident> {
        Some(self)
    }
    fn describe(&mut self, run: &mut Run) {
        run.details.push(format!("{:?}", self.resident_calls));
    }
    fn forget(&mut self) {}
}

impl Resident for Stale<'_> {
    fn stage(&mut self) -> Result<(), Refusal> {
        Ok(())
    }
    fn refactorize(&mut self, values: Values) -> Result<(), Refusal> {
        self.resident_calls.push(values);
        Ok(())
    }
    fn solve(&mut self, _: usize) -> Result<(), Refusal> {
        Ok(())
    }
    fn refactorize_on_clock(&mut self) -> Result<f64, Refusal> {
        Ok(1.0)
    }
    fn solve_on_clock(&mut self, _: usize) -> Result<f64, Refusal> {
        Ok(2.0)
    }
}

fn stale(refuses_to_refactorize: bool) -> Run {
    let n = 5;
    let diagonal = (1..=n).map(|i| i as f64).collect();
    let a = sprs::CsMat::new((n, n), (0..=n).collect(), (0..n).collect(), diagonal);
    let a = Matrix::new(a).unwrap();
    let problem = Problem::new(&a, &rescaled(&a));
    let solver = Stale {
        problem: &problem,
        refuses_to_refactorize,
        resident_calls: Vec::new(),
    };
    let run = Run::new("stale", 1);
    alone(&problem, solver, run, EFFORT)
}

#[test]
fn stale_factors_are_found_out() {
    let run = stale(false);
    assert_eq!(run.failed_steps, 0);
    assert!(run.errors.known.unwrap() < 1e-15);
    assert!(run.errors.many.unwrap() < 1e-15);
    assert!(run.errors.refactorized.unwrap() > 1e-2 * RESCALING);
    let wrong = run.wrong_solutions();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].ends_with("after refactorization"), "{wrong:?}");
}

#[test]
fn steps_on_the_device_are_timed_apart_and_change_values() {
    let run = stale(false);
    assert_eq!(run.details, ["[Next, First, Next]"]);
    let samples = &run.phases[&Phase::RefactorizeResident];
    assert_eq!(samples.seconds.len(), EFFORT.samples);
    assert_eq!(run.device_seconds[&Phase::RefactorizeResident], 1.0);
    assert_eq!(run.device_share(Phase::Solve), None);
    let share = run.device_share(Phase::SolveResident).unwrap();
    assert_eq!(share, 2.0 / run.seconds(Phase::SolveResident).unwrap());
}

#[test]
fn a_refused_refactorization_is_told() {
    let run = stale(true);
    assert_eq!(run.outcome, Outcome::Measured);
    assert_eq!(run.failed_steps, 1);
    assert!(run.details[0].contains("not today"), "{:?}", run.details);
    assert_eq!(run.seconds(Phase::Refactorize), None);
    assert!(run.seconds(Phase::Solve).is_some(), "other phases go on");
}

#[test]
fn a_long_call_is_not_repeated() {
    let (a, next) = small();
    let problem = Problem::<f64>::new(&a, &next);
    let luge = Luge::new(&problem, on_simulator(DeviceEngine::Auto), Precision::F64).unwrap();
    let effort = Effort {
        samples: 5,
        long: 0.0,
        short: 0.0,
    };
    let run = alone(&problem, luge, Run::new("luge", 1), effort);
    assert!(
        run.phases
            .values()
            .all(|samples| samples.seconds.len() == 1)
    );
    assert!(run.seconds(Phase::Ordering).is_some());
}

/// What was called on whom, in order.
type Log = Rc<RefCell<Vec<(char, &'static str)>>>;

/// Solves nothing, and writes down its calls.
struct Logged {
    name: char,
    log: Log,
    /// A call that it refuses when it is asked for it for the given time, from 0.
    refuses: Option<(&'static str, usize)>,
    /// A call for which it needs [`SLOW`].
    is_slow_in: Option<&'static str>,
    has_resident: bool,
}

const SLOW: Duration = Duration::from_millis(400);

impl Logged {
    fn new(name: char, log: &Log) -> Self {
        Self {
            name,
            log: Rc::clone(log),
            refuses: None,
            is_slow_in: None,
            has_resident: true,
        }
    }

    fn call(&self, what: &'static str) -> Result<(), Refusal> {
        let event = (self.name, what);
        let earlier = self.log.borrow().iter().filter(|&&e| e == event).count();
        self.log.borrow_mut().push(event);
        if self.is_slow_in == Some(what) {
            std::thread::sleep(SLOW);
        }
        if self.refuses == Some((what, earlier)) {
            return Err(Refusal("not today".to_owned()));
        }
        Ok(())
    }
}

impl Contender<f64> for Logged {
    fn analyze(&mut self) -> Result<AnalysisSeconds, Refusal> {
        self.call("analyze").map(|()| AnalysisSeconds::default())
    }
    fn factorize(&mut self) -> Result<(), Refusal> {
        self.call("factorize")
    }
    fn refactorize(&mut self, values: Values) -> Result<(), Refusal> {
        self.call(match values {
            Values::First => "refactorize first",
            Values::Next => "refactorize next",
        })
    }
    fn solve(&mut self, _: &mut [f64], nrhs: usize) -> Result<(), Refusal> {
        self.call(if nrhs == 1 { "solve" } else { "solve many" })
    }
    fn solve_refined(&mut self, b: &[f64]) -> Option<Result<Vec<f64>, Refusal>> {
        Some(self.call("refined").map(|()| b.to_vec()))
    }
    fn resident(&mut self) -> Option<&mut dyn Resident> {
        self.has_resident.then_some(self)
    }
    fn describe(&mut self, _: &mut Run) {
        self.log.borrow_mut().push((self.name, "describe"));
    }
    fn forget(&mut self) {
        self.log.borrow_mut().push((self.name, "forget"));
    }
}

impl Resident for Logged {
    fn stage(&mut self) -> Result<(), Refusal> {
        self.call("stage")
    }
    fn refactorize(&mut self, _: Values) -> Result<(), Refusal> {
        self.call("resident refactorize")
    }
    fn solve(&mut self, nrhs: usize) -> Result<(), Refusal> {
        self.call(if nrhs == 1 {
            "resident solve"
        } else {
            "resident solve many"
        })
    }
    fn refactorize_on_clock(&mut self) -> Result<f64, Refusal> {
        self.call("clock").map(|()| 1.0)
    }
    fn solve_on_clock(&mut self, _: usize) -> Result<f64, Refusal> {
        self.call("clock").map(|()| 1.0)
    }
}

/// A call that is not counted and four that are, so that three solvers come in each order but two.
const FOUR: Effort = Effort {
    samples: 4,
    ..EFFORT
};

/// The runs of a, b and c, b changed by `change`, and what was called.
fn race(effort: Effort, change: impl FnOnce(&mut Logged)) -> ([Run; 3], Vec<(char, &'static str)>) {
    let (a, next) = small();
    let problem = Problem::<f64>::new(&a, &next);
    let log = Log::default();
    let mut contenders = ['a', 'b', 'c'].map(|name| Logged::new(name, &log));
    change(&mut contenders[1]);
    let lanes = contenders.map(|contender| {
        let run = Run::new(&contender.name.to_string(), 1);
        Lane::new(Box::new(contender), run)
    });
    let runs = measure(&problem, Vec::from(lanes), effort);
    let runs: [Run; 3] = runs.try_into().expect("a run a lane");
    assert_eq!(
        runs.each_ref().map(|run| run.solver.as_str()),
        ["a", "b", "c"]
    );
    let log = log.borrow().clone();
    (runs, log)
}

/// Who was called, in order, of the calls whose name begins so.
fn callers(log: &[(char, &'static str)], what: &str) -> String {
    let called = log.iter().filter(|(_, call)| call.starts_with(what));
    called.map(|(name, _)| name).collect()
}

fn count(run: &Run, phase: Phase) -> usize {
    run.phases
        .get(&phase)
        .map_or(0, |samples| samples.seconds.len())
}

/// Phases of [`Logged`].
const LOGGED: [Phase; 10] = [
    Phase::Analyze,
    Phase::Factorize,
    Phase::FirstSolve,
    Phase::Refactorize,
    Phase::RefactorizeResident,
    Phase::Solve,
    Phase::SolveResident,
    Phase::SolveMany,
    Phase::SolveManyResident,
    Phase::SolveRefined,
];

#[test]
fn solvers_take_turns_in_every_phase_and_the_order_changes() {
    let (runs, log) = race(FOUR, |_| {});
    let rounds = "abcbcacabacbcba";
    assert_eq!(callers(&log, "analyze"), rounds);
    assert_eq!(callers(&log, "factorize"), rounds);
    // Behind the rounds each refactorizes with the other values and back, and is done before the next one begins.
    assert_eq!(callers(&log, "refactorize"), format!("{rounds}aabbcc"));
    // The first solves, the two solutions that are measured, the phase.
    assert_eq!(
        callers(&log, "solve"),
        format!("{rounds}abcabc{rounds}{rounds}")
    );
    assert_eq!(callers(&log, "refined"), format!("abc{rounds}"));
    assert_eq!(callers(&log, "stage"), "abc");
    assert_eq!(callers(&log, "resident refactorize"), rounds);
    assert_eq!(callers(&log, "resident solve many"), rounds);
    assert_eq!(callers(&log, "resident solve"), rounds.repeat(2));
    assert_eq!(callers(&log, "clock"), "aabbcc");
    for run in &runs {
        assert_eq!(
            (run.outcome.clone(), run.failed_steps),
            (Outcome::Measured, 0)
        );
        for phase in LOGGED {
            assert_eq!(count(run, phase), FOUR.samples, "{phase:?}");
        }
    }
    for name in ['a', 'b', 'c'] {
        let its = log.iter().filter(|(of, _)| *of == name);
        let calls: Vec<&str> = its.map(|(_, call)| *call).collect();
        // A first solve is not interrupted, and begins with nothing; what the last one made is kept to the end.
        let first = ["forget", "analyze", "factorize", "solve"];
        assert_eq!(calls[..20], first.repeat(5)[..], "{name}");
        let forgotten = calls[20..].iter().filter(|&&call| call == "forget").count();
        assert_eq!(forgotten, 1);
        assert_eq!(calls[calls.len() - 2..], ["describe", "forget"]);
        let refactorized = calls
            .iter()
            .filter_map(|call| call.strip_prefix("refactorize "));
        let refactorized: Vec<&str> = refactorized.take(5).collect();
        assert_eq!(refactorized, ["next", "first", "next", "first", "next"]);
    }
    let at = |name, what| log.iter().position(|&event| event == (name, what)).unwrap();
    let last = log.iter().rposition(|event| event.1 == "analyze").unwrap();
    assert!(
        last < at('a', "refactorize next"),
        "one phase after the other"
    );
}

#[test]
fn one_that_fails_drops_out_and_the_others_take_turns() {
    let (runs, log) = race(FOUR, |b| b.refuses = Some(("factorize", 1)));
    assert_eq!(callers(&log, "analyze"), "abcbcaaccaac");
    let reason = "not today".to_owned();
    assert_eq!(runs[1].outcome, Outcome::Failed { reason });
    assert!(runs[1].phases.is_empty(), "{:?}", runs[1].phases);
    let of_b: Vec<&str> = log.iter().filter(|e| e.0 == 'b').map(|e| e.1).collect();
    let end = ["forget", "analyze", "factorize", "forget"];
    assert_eq!(of_b[of_b.len() - 4..], end, "its memory is for the others");
    assert_eq!(callers(&log, "stage"), "ac");
    for run in [&runs[0], &runs[2]] {
        assert_eq!(
            (run.outcome.clone(), run.failed_steps),
            (Outcome::Measured, 0)
        );
        assert!(
            LOGGED
                .iter()
                .all(|&phase| count(run, phase) == FOUR.samples)
        );
    }
}

#[test]
fn one_that_fails_later_misses_that_group_of_phases() {
    let (runs, log) = race(FOUR, |b| b.refuses = Some(("refactorize first", 0)));
    // It fails in the first counted round.
    assert_eq!(callers(&log, "refactorize"), "abcbcaaccaacaacc");
    assert_eq!(
        (runs[1].outcome.clone(), runs[1].failed_steps),
        (Outcome::Measured, 1)
    );
    let told = "a refactorization failed: not today";
    assert_eq!(runs[1].details, [told]);
    assert_eq!(runs[1].errors.refactorized, None);
    assert_eq!(count(&runs[1], Phase::Refactorize), 0);
    assert_eq!(count(&runs[1], Phase::Solve), FOUR.samples);
    assert_eq!(count(&runs[1], Phase::RefactorizeResident), FOUR.samples);
    assert_eq!([runs[0].failed_steps, runs[2].failed_steps], [0, 0]);
    assert_eq!(count(&runs[0], Phase::Refactorize), FOUR.samples);
}

#[test]
fn one_whose_call_is_long_has_one_turn_in_that_phase() {
    let effort = Effort {
        long: 0.5 * SLOW.as_secs_f64(),
        ..FOUR
    };
    let (runs, log) = race(effort, |b| b.is_slow_in = Some("resident refactorize"));
    assert_eq!(callers(&log, "resident refactorize"), "abccaaccaac");
    let samples = &runs[1].phases[&Phase::RefactorizeResident];
    assert_eq!(samples.seconds.len(), 1);
    assert!(samples.minimum >= SLOW.as_secs_f64());
    assert_eq!(count(&runs[0], Phase::RefactorizeResident), FOUR.samples);
    assert_eq!(count(&runs[1], Phase::SolveResident), FOUR.samples);
}

#[test]
fn one_that_takes_nothing_on_the_device_leaves_its_turns_to_the_others() {
    let (runs, log) = race(FOUR, |b| b.has_resident = false);
    assert_eq!(callers(&log, "resident solve many"), "accaaccaac");
    assert_eq!(callers(&log, "clock"), "aacc");
    assert_eq!(count(&runs[1], Phase::SolveResident), 0);
    assert_eq!((runs[1].failed_steps, runs[1].device_seconds.len()), (0, 0));
}

#[test]
fn a_short_call_goes_right_after_one_that_is_not_counted() {
    let effort = Effort { short: 1e9, ..FOUR };
    let (runs, log) = race(effort, |_| {});
    let rounds = "abcbbccaaccaabbaaccbbccbbaa";
    assert_eq!(callers(&log, "resident solve many"), rounds);
    assert_eq!(callers(&log, "analyze"), rounds);
    for run in &runs {
        assert!(
            LOGGED
                .iter()
                .all(|&phase| count(run, phase) == FOUR.samples)
        );
    }
}

#[test]
fn who_is_out_stays_out_and_keeps_its_reason() {
    let (a, next) = small();
    let problem = Problem::<f64>::new(&a, &next);
    let log = Log::default();
    let mut slow = Run::new("slow", 1);
    slow.outcome = Outcome::TooSlow { seconds: 3.0 };
    let lanes = vec![
        Lane::out(slow.clone()),
        Lane::new(Box::new(Logged::new('a', &log)), Run::new("a", 1)),
    ];
    let runs = measure(&problem, lanes, EFFORT);
    assert_eq!(runs[0], slow);
    assert_eq!(count(&runs[1], Phase::Solve), EFFORT.samples);
}

#[test]
fn solvers_that_take_turns_keep_their_own_factors() {
    let (a, next) = small();
    let problem = Problem::<f64>::new(&a, &next);
    let precisions = [Precision::F64, Precision::Mixed];
    let lanes = precisions.map(|precision| {
        let luge = Luge::new(&problem, on_simulator(DeviceEngine::Tree), precision);
        let run = Run::new("luge", 1).in_precision(precision);
        Lane::new(Box::new(luge.unwrap()), run)
    });
    let runs = measure(&problem, Vec::from(lanes), EFFORT);
    let n = a.n();
    for (run, bound) in runs
        .iter()
        .zip([error_bound::<f64>(n), error_bound::<f32>(n)])
    {
        assert_eq!((run.failed_steps, &run.details), (0, &Vec::new()));
        let errors = [run.errors.known, run.errors.many, run.errors.refactorized];
        for error in errors {
            assert!(error.is_some_and(|e| e <= bound), "{error:?}");
        }
        assert_eq!(count(run, Phase::SolveManyResident), EFFORT.samples);
    }
    // Factors in single precision do not reach that in one pass: solutions in place are refined to the target.
    let single = runs[1].errors.known.unwrap();
    assert!(single <= 1e-12, "{single}: not refined");
}

/// A matrix on which solvers took these seconds for a refactorization.
fn matrix(name: &str, kind: &str, entries: u64, seconds: &[(&str, f64)]) -> MatrixResult {
    let run = |&(solver, seconds): &(&str, f64)| {
        let mut run = Run::new(solver, 1);
        run.factor_entries = Some(entries);
        run.phases
            .insert(Phase::Refactorize, Samples::new(vec![seconds]));
        run
    };
    MatrixResult {
        name: name.to_owned(),
        kind: kind.to_owned(),
        n: 10,
        nnz: 20,
        near_singular: false,
        refactorized_with: String::new(),
        runs: seconds.iter().map(run).collect(),
    }
}

fn results(matrices: Vec<MatrixResult>) -> Results {
    Results {
        schema: SCHEMA.to_owned(),
        benchmark: Benchmark::Numeric,
        machine: Machine::here(),
        device: Some(DeviceInfo {
            name: "a device".to_owned(),
            driver: None,
            memory_bytes: None,
        }),
        date: String::new(),
        commit: String::new(),
        profile: String::new(),
        command: Vec::new(),
        settings: Settings {
            time_limit: 60.0,
            budget: 0.0,
            min_rounds: 1,
            max_rounds: 1,
            statistic: Statistic::Median,
        },
        ceilings: Ceilings::default(),
        solvers: vec![SolverInfo {
            name: "cudss".to_owned(),
            version: "-".to_owned(),
            threads: Vec::new(),
            notes: Vec::new(),
            missing: Some("no such file".to_owned()),
        }],
        matrices,
    }
}

#[test]
fn means_are_of_large_circuits_and_power_grids() {
    let many = COUNTED_ENTRIES + 1;
    let mut refused = matrix("refused", "circuit", many, &[("luge", 1.0), ("klu", 1.0)]);
    refused.runs[0].phases.clear();
    refused.runs[0].outcome = Outcome::Failed {
        reason: "no".to_owned(),
    };
    let results = results(vec![
        matrix("fast", "circuit", many, &[("luge", 1.0), ("klu", 8.0)]),
        matrix("slow", "power", many, &[("luge", 1.0), ("klu", 2.0)]),
        matrix(
            "small",
            "power",
            COUNTED_ENTRIES,
            &[("luge", 9.0), ("klu", 1.0)],
        ),
        matrix("fluid", "cfd", many, &[("luge", 9.0), ("klu", 1.0)]),
        refused,
    ]);
    let ratios = ratios(
        &results,
        Precision::F64,
        Phase::Refactorize,
        "klu",
        Phase::Refactorize,
    );
    assert!((ratios.mean().unwrap() - 0.25).abs() < 1e-15);
    let summary = table::summary(&results);
    let line =
        "f64: refactorize / klu refactorize: 0.25 over 2; worst 0.50 (slow); Luge refuses refused";
    assert!(summary.contains(line), "{summary}");
    assert!(
        summary.contains("no ratios to cudss: no such file"),
        "{summary}"
    );
    assert!(summary.contains("5 matrices, 3 of them count"), "{summary}");
}

fn numeric(folder: &Path, options: &[&str]) -> Output {
    let a = folder.join("small.mtx");
    luge_matrix_io::write(
        &a,
        &circuit(33, 5).view(),
        &luge_matrix_io::WriteOptions::default(),
    )
    .unwrap();
    Command::new(env!("CARGO_BIN_EXE_numeric"))
        .args(["--backend", "sim", "--samples", "1", "--matrix"])
        .arg(&a)
        .args(options)
        .arg("--json")
        .arg(folder.join("out.json"))
        .arg("--table")
        .arg(folder.join("out.md"))
        .output()
        .unwrap()
}

#[test]
fn the_program_runs_and_tells_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere/libcudss.so.1");
    let output = numeric(
        folder.path(),
        &[
            "--peers=cudss",
            "--cudss",
            nowhere.to_str().unwrap(),
            "--precisions=f64",
        ],
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(
        said.contains("MISSING: ") && said.contains("nowhere"),
        "{said}"
    );
    let table = std::fs::read_to_string(folder.path().join("out.md")).unwrap();
    assert!(table.contains("MISSING: "), "{table}");

    let results = Results::read(&folder.path().join("out.json")).unwrap();
    assert_eq!(results.schema, SCHEMA);
    let missing = results.solvers.iter().find(|s| s.name == "cudss").unwrap();
    assert!(missing.missing.as_ref().unwrap().contains("nowhere"));
    let [matrix] = &results.matrices[..] else {
        panic!("{} matrices", results.matrices.len());
    };
    let run = matrix.run("luge", Precision::F64).unwrap();
    assert!(run.errors.refined.unwrap() <= error_bound::<f64>(matrix.n));
    assert!(run.seconds(Phase::FirstSolve).is_some());

    let read = Command::new(env!("CARGO_BIN_EXE_numeric"))
        .arg("--read")
        .arg(folder.path().join("out.json"))
        .output()
        .unwrap();
    assert!(read.status.success());
    assert_eq!(String::from_utf8_lossy(&read.stdout), said);
}

#[test]
fn what_is_written_is_read() {
    let mut full = matrix("full", "power", 7, &[("luge", 0.25)]);
    let run = &mut full.runs[0];
    run.device_seconds.insert(Phase::Solve, 0.125);
    run.errors.many = Some(f64::MAX);
    run.reused_and_repivoted = Some((3, 1));
    run.inform = Some(serde_json::json!({ "seconds": { "numeric": 0.5 } }));
    let written = results(vec![full]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.json");
    write_json(&path, &written).unwrap();
    assert_eq!(Results::read(&path).unwrap(), written);
    let nowhere = write_json(&folder.path().join("nowhere/results.json"), &written);
    assert!(nowhere.unwrap_err().to_string().contains("nowhere"));
}

#[test]
fn small_factors_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let output = numeric(
        folder.path(),
        &["--peers=none", "--precisions=f64", "--min-entries=100000"],
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("left out"), "{said}");
    assert!(!output.status.success(), "nothing ran");
}
