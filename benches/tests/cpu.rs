//! The peer benchmark on small matrices, with solvers that are right and one that is wrong.

use luge::CpuEngine;
use luge_benches::cpu::bounds::{Verdict, bounds};
use luge_benches::cpu::contest::{Lane, contest};
use luge_benches::cpu::luge_peer::Luge;
use luge_benches::cpu::table;
use luge_benches::machine::Machine;
use luge_benches::report::{Outcome, SolverInfo};
use luge_benches::results::{
    Benchmark, Ceilings, MatrixResult, Phase, Results, Run, SCHEMA, Settings,
};
use luge_benches::statistics::{Samples, Statistic, geometric_mean};
use luge_benches::systems::System;
use luge_benches::table::solvers;
use luge_peers::{Found, Matrix, Peer, PeerError, Statistics};
use luge_testkit::corpus::skip_loudly;
use luge_testkit::generators::applications::circuit_sequence;

fn settings() -> Settings {
    Settings {
        time_limit: 60.0,
        budget: 0.2,
        min_rounds: 3,
        max_rounds: 5,
        statistic: Statistic::Median,
    }
}

fn system() -> System {
    let mut steps = circuit_sequence(200, 3, 2);
    let next = Matrix::new(steps.remove(1)).expect("it is small");
    let a = Matrix::new(steps.remove(0)).expect("it is small");
    System::new(a, Some((next, "the next step".to_owned())))
}

fn luge(threads: usize) -> Lane {
    let peer = Box::new(Luge::new(threads, CpuEngine::Auto).expect("the CPU is there"));
    Lane::new(peer, Run::new("luge", threads), true)
}

/// Luge, but that a third of each solution is off.
struct Wrong(Luge);

impl Peer for Wrong {
    fn name(&self) -> &'static str {
        "wrong"
    }
    fn version(&self) -> String {
        "-".to_owned()
    }
    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.0.analyze(a)
    }
    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.0.factorize(a)
    }
    fn can_refactorize(&self) -> bool {
        false
    }
    fn refactorize(&mut self, _: &Matrix) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }
    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        self.0.solve(x, nrhs)?;
        // Not one factor for all: the residual of that is small where the solution is large.
        x.iter_mut().step_by(3).for_each(|x| *x *= 1.5);
        Ok(())
    }
    fn solve_transpose(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        self.0.solve_transpose(x, nrhs)
    }
    fn statistics(&self) -> Statistics {
        self.0.statistics()
    }
    fn drop_factors(&mut self) {
        self.0.drop_factors();
    }
    fn drop_analysis(&mut self) {
        self.0.drop_analysis();
    }
}

#[test]
fn every_phase_of_luge_is_timed_and_right() {
    let runs = contest(&system(), vec![luge(1), luge(2)], &settings());
    for run in &runs {
        assert_eq!(run.outcome, Outcome::Measured);
        for phase in Phase::ON_CPU {
            let samples = run
                .phases
                .get(&phase)
                .unwrap_or_else(|| panic!("no {phase:?}"));
            assert!(
                (3..=5).contains(&samples.seconds.len()),
                "{phase:?}: {samples:?}"
            );
            assert!(samples.minimum > 0.0, "{phase:?}: {samples:?}");
        }
        assert_eq!(run.wrong_solutions(), Vec::<String>::new());
        for error in [
            run.errors.solve(),
            run.errors.refactorized,
            run.errors.refined,
        ] {
            assert!(error.expect("measured") < 1e-12, "{:?}", run.errors);
        }
        let (reused, repivoted) = run.reused_and_repivoted.expect("Luge tells");
        assert!(reused + repivoted >= 4, "three samples and the check");
    }
    assert_eq!(runs[0].factor_entries, runs[1].factor_entries);
}

#[test]
fn peers_that_are_here_take_part() {
    let mut lanes = vec![luge(1)];
    for name in luge_peers::NAMES {
        match Found::load(name, None) {
            Ok(found) => lanes.push(Lane::new(
                found.solver(1),
                Run::new(name, 1),
                name == "faer",
            )),
            Err(missing) => skip_loudly(1, &format!("{name} is missing: {missing}")),
        }
    }
    for run in contest(&system(), lanes, &settings()) {
        assert_eq!(run.outcome, Outcome::Measured, "{}", run.solver);
        assert_eq!(
            run.wrong_solutions(),
            Vec::<String>::new(),
            "{}",
            run.solver
        );
        assert!(run.phases.contains_key(&Phase::Solve), "{}", run.solver);
        let refactorizes = ["luge", "klu", "superlu"].contains(&run.solver.as_str());
        assert_eq!(run.phases.contains_key(&Phase::Refactorize), refactorizes);
    }
}

#[test]
fn a_wrong_solution_is_flagged() {
    let wrong = Wrong(Luge::new(1, CpuEngine::Auto).expect("the CPU is there"));
    let lane = Lane::new(Box::new(wrong), Run::new("wrong", 1), false);
    let runs = contest(&system(), vec![lane, luge(1)], &settings());
    let flagged = runs[0].wrong_solutions();
    // The known one, the random one, and 16 of them; the transposed solve is right.
    assert_eq!(flagged.len(), 3, "{flagged:?}");
    assert!(runs[1].wrong_solutions().is_empty());
}

#[test]
fn a_refused_matrix_is_no_time() {
    let zero_row = sprs::CsMat::new((2, 2), vec![0, 1, 1], vec![0], vec![1.0]);
    let system = System::new(Matrix::new(zero_row).expect("it is small"), None);
    let runs = contest(&system, vec![luge(1)], &settings());
    assert!(
        matches!(runs[0].outcome, Outcome::Failed { .. }),
        "{:?}",
        runs[0]
    );
    assert!(runs[0].phases.is_empty());
}

#[test]
fn geometric_means() {
    assert_eq!(geometric_mean([]), None);
    let mean = geometric_mean([0.5, 2.0, 8.0]).expect("of three");
    assert!((mean - 2.0).abs() < 1e-15, "{mean}");
}

/// A run with the same time in every phase.
fn timed(solver: &str, threads: usize, seconds: f64) -> Run {
    let mut run = Run::new(solver, threads);
    for phase in Phase::ON_CPU {
        run.phases.insert(phase, Samples::new(vec![seconds; 3]));
    }
    run.factor_entries = Some(1000);
    run.memory.reported = Some((1e6 * seconds) as u64);
    run.errors.known = Some(1e-17);
    run
}

fn results(matrices: Vec<MatrixResult>) -> Results {
    let solver = |name: &str, threads: Vec<usize>, missing: Option<&str>| SolverInfo {
        name: name.to_owned(),
        version: "1".to_owned(),
        threads,
        notes: vec!["a note".to_owned()],
        missing: missing.map(str::to_owned),
    };
    Results {
        schema: SCHEMA.to_owned(),
        benchmark: Benchmark::Cpu,
        machine: Machine::here(),
        device: None,
        date: "2026-11-21T00:00:00Z".to_owned(),
        commit: "0123456789ab".to_owned(),
        profile: "dev".to_owned(),
        command: vec!["cpu".to_owned()],
        settings: settings(),
        ceilings: Ceilings::default(),
        solvers: vec![
            solver("luge", vec![1, 2], None),
            solver("klu", vec![1], None),
            solver("umfpack", Vec::new(), Some("libumfpack.so.5 is not there")),
        ],
        matrices,
    }
}

fn matrix(name: &str, kind: &str, runs: Vec<Run>) -> MatrixResult {
    MatrixResult {
        name: name.to_owned(),
        kind: kind.to_owned(),
        n: 10,
        nnz: 40,
        near_singular: false,
        refactorized_with: "perturbed".to_owned(),
        runs,
    }
}

/// The verdict of the bound whose words begin so, and what was measured.
#[track_caller]
fn verdict(results: &Results, words: &str) -> (Verdict, Option<f64>) {
    let bounds = bounds(results);
    let mut found = bounds.iter().filter(|bound| bound.what.starts_with(words));
    let bound = found.next().unwrap_or_else(|| panic!("no bound {words}"));
    (bound.verdict(), bound.measured)
}

#[test]
fn bounds_pass_and_fail() {
    let good = matrix(
        "good",
        "circuit",
        vec![
            timed("luge", 1, 0.5),
            timed("luge", 2, 0.3),
            timed("klu", 1, 1.0),
        ],
    );
    let bad = matrix(
        "bad",
        "power",
        vec![
            timed("luge", 1, 3.0),
            timed("luge", 2, 2.0),
            timed("klu", 1, 1.0),
        ],
    );

    let only_good = results(vec![good.clone()]);
    for words in [
        "circuit+power, analyze+factorize / KLU, g",
        "circuit+power, refactorize / KLU, g",
    ] {
        assert_eq!(verdict(&only_good, words), (Verdict::Pass, Some(0.5)));
    }
    let words = "circuit+power, refactorize with 2 threads";
    assert_eq!(verdict(&only_good, words), (Verdict::Pass, Some(0.3)));
    assert_eq!(
        verdict(&only_good, "cfd+fem, KLU / Luge").0,
        Verdict::NoData
    );
    assert_eq!(verdict(&only_good, "peak memory").0, Verdict::Pass);
    // Errors far below rounding count as equal.
    assert_eq!(
        verdict(&only_good, "backward error"),
        (Verdict::Pass, Some(1.0))
    );

    let both = results(vec![good, bad]);
    let mean = verdict(&both, "circuit+power, solve / KLU, g");
    assert_eq!(mean.0, Verdict::Fail);
    assert!((mean.1.expect("measured") - 1.5f64.sqrt()).abs() < 1e-12);
    assert_eq!(
        verdict(&both, "circuit+power, solve / KLU, w"),
        (Verdict::Fail, Some(3.0))
    );
    assert_eq!(verdict(&both, "peak memory"), (Verdict::Fail, Some(3.0)));
}

#[test]
fn a_matrix_that_only_luge_refuses_fails_the_bounds() {
    let mut refused = Run::new("luge", 1);
    refused.outcome = Outcome::Failed {
        reason: "singular".to_owned(),
    };
    let results = results(vec![
        matrix(
            "fine",
            "circuit",
            vec![timed("luge", 1, 0.1), timed("klu", 1, 1.0)],
        ),
        matrix("lost", "circuit", vec![refused, timed("klu", 1, 1.0)]),
    ]);
    assert_eq!(
        verdict(&results, "circuit+power, solve / KLU, g").0,
        Verdict::Fail
    );
}

#[test]
fn a_stopped_peer_counts_with_its_limit() {
    let mut stopped = Run::new("klu", 1);
    stopped.outcome = Outcome::TooSlow { seconds: 60.0 };
    let results = results(vec![matrix(
        "cube",
        "cfd",
        vec![timed("luge", 1, 2.0), stopped],
    )]);
    assert_eq!(verdict(&results, "cfd+fem, KLU / Luge").0, Verdict::Pass);
    assert!(table::times(&results).contains("skipped (time)"));
    assert!(table::ratios(&results, "klu").contains("skipped (time)"));
}

#[test]
fn results_are_read_back_and_missing_peers_are_shown() {
    let mut wrong = timed("luge", 2, 0.25);
    wrong.errors.random = Some(f64::MAX);
    wrong.reused_and_repivoted = Some((3, 1));
    let results = results(vec![matrix(
        "m",
        "circuit",
        vec![timed("luge", 1, 0.5), wrong, timed("klu", 1, 1.0)],
    )]);
    let text = serde_json::to_string(&results).expect("it can be written");
    let read: Results = serde_json::from_str(&text).expect("it can be read");
    assert_eq!(read, results);

    assert!(text.contains("libumfpack.so.5 is not there"));
    let solvers = solvers(&results.solvers);
    assert!(
        solvers.contains("MISSING: libumfpack.so.5 is not there"),
        "{solvers}"
    );
    let times = table::times(&results);
    assert!(times.contains("WRONG SOLUTION"), "{times}");
    assert!(times.contains("repivoted 1 times"), "{times}");
    let summary = table::summary(&results);
    assert!(summary.contains("luge@2 / klu"), "{summary}");
    assert!(!summary.contains("umfpack"), "{summary}");
}
