//! The numeric benchmark on the simulator, end to end, and what it says of solvers that are wrong or missing.

use std::path::Path;
use std::process::{Command, Output};

use luge::{BackendChoice, DeviceEngine, ResidualCheck};
use luge_benches::machine::Machine;
use luge_benches::numeric::contenders::{
    AnalysisSeconds, Contender, Luge, LugeSettings, Refusal, Resident,
};
use luge_benches::numeric::means::{COUNTED_ENTRIES, ratios};
use luge_benches::numeric::measure::{Effort, measure};
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
};

fn small() -> (Matrix, Matrix) {
    let a = Matrix::new(circuit(33, 5)).unwrap();
    let next = rescaled(&a);
    (a, next)
}

fn measured<T: Scalar>(engine: DeviceEngine, precision: Precision) -> Run {
    let (a, next) = small();
    let problem = Problem::<T>::new(&a, &next);
    let mut luge = Luge::new(&problem, on_simulator(engine), precision).unwrap();
    measure(
        &problem,
        &mut luge,
        precision,
        EFFORT,
        Run::new("luge", 1).in_precision(precision),
    )
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
    let mut solver = Stale {
        problem: &problem,
        refuses_to_refactorize,
        resident_calls: Vec::new(),
    };
    let run = Run::new("stale", 1);
    measure(&problem, &mut solver, Precision::F64, EFFORT, run)
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
    let mut luge = Luge::new(&problem, on_simulator(DeviceEngine::Auto), Precision::F64).unwrap();
    let effort = Effort {
        samples: 5,
        long: 0.0,
    };
    let run = Run::new("luge", 1);
    let run = measure(&problem, &mut luge, Precision::F64, effort, run);
    assert!(
        run.phases
            .values()
            .all(|samples| samples.seconds.len() == 1)
    );
    assert!(run.seconds(Phase::Ordering).is_some());
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
