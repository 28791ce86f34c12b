//! `luge-bench` as a user runs it.

use std::path::Path;
use std::process::{Command, Output};

use luge_benches::device_costs::groups::Group;
use luge_benches::device_costs::model::Entry;
use luge_benches::device_costs::{self, Measured};
use luge_benches::results::{
    Benchmark, Field, LUGE, MatrixResult, Outcome, Phase, Precision, Results, Run, SCHEMA,
};
use luge_benches::systems::{AnyMatrix, Source};
use luge_peers::{Found, Structure};
use luge_testkit::corpus::skip_loudly;
use luge_testkit::generators::applications::circuit;
use num_complex::Complex;

fn luge_bench(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_luge-bench"))
        .args(words)
        .output()
        .expect("the program starts")
}

/// Runs `peers` with results in `folder`.
fn peers(folder: &Path, words: &[&str]) -> Output {
    let json = folder.join("out.json").display().to_string();
    let rounds = [
        "--threads=1",
        "--time-budget=0.2",
        "--min-rounds=1",
        "--max-rounds=2",
    ];
    let output = ["--json", &json];
    luge_bench(&[&["peers"], &rounds[..], words, &output[..]].concat())
}

fn written(folder: &Path, a: &sprs::CsMat<f64>) -> String {
    written_as(folder, "small", a)
}

fn written_as(folder: &Path, name: &str, a: &sprs::CsMat<f64>) -> String {
    let path = folder.join(name).with_extension("mtx");
    let options = luge_matrix_io::WriteOptions::default();
    luge_matrix_io::write(&path, &a.view(), &options).expect("it is written");
    path.display().to_string()
}

#[test]
fn one_command_makes_results_that_say_who_is_missing() {
    let Some((name, _)) = Found::first() else {
        skip_loudly(1, "no other solver is there");
        return;
    };
    let missing = if name == "umfpack" { "klu" } else { "umfpack" };
    let folder = tempfile::tempdir().expect("a folder");
    let output = peers(
        folder.path(),
        &[
            "--generated",
            "--only=gen_circuit_500",
            &format!("--peers={name},{missing},cudss"),
            &format!("--library={missing}=/nowhere/libnothing.so"),
            "--library=cudss=/nowhere/libcudss.so.1",
        ],
    );
    assert!(output.status.success(), "{output:?}");
    let path = folder.path().join("out.json");
    let results = Results::read(&path).expect("results");
    assert_eq!(
        (results.schema.as_str(), results.benchmark),
        (SCHEMA, Benchmark::Peers)
    );
    let [matrix] = &results.matrices[..] else {
        panic!("{} matrices", results.matrices.len());
    };
    let of = |run: &luge_benches::results::Run| (run.solver.clone(), run.variant.clone());
    let runs: Vec<_> = matrix.runs.iter().map(of).collect();
    let expected = [(LUGE, "cpu"), (name, "")];
    assert_eq!(runs, expected.map(|(s, v)| (s.to_owned(), v.to_owned())));
    for run in &matrix.runs {
        assert_eq!(run.outcome, Outcome::Measured, "{}", run.solver);
        let whole = run.seconds(Phase::FirstSolve).expect("it is timed");
        let parts = [Phase::Analyze, Phase::Factorize].map(|phase| run.phases[&phase].minimum);
        assert!(whole > parts[0].min(parts[1]), "{}", run.solver);
        assert!(run.wrong_solutions().is_empty());
        assert!(run.memory.resident.is_some(), "each was tried apart");
    }
    assert!(results.ceilings.host_copy.is_some());
    for name in [missing, "cudss"] {
        let missing = results.solvers.iter().find(|solver| solver.name == name);
        let missing = missing.and_then(|solver| solver.missing.as_deref());
        assert!(missing.is_some_and(|reason| !reason.is_empty()), "{name}");
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("MISSING: ") && said.contains(&format!("luge (cpu) / {name}")),
        "{said}"
    );

    let again = luge_bench(&["report", &path.display().to_string()]);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(String::from_utf8_lossy(&again.stdout), said);
}

#[test]
fn symmetric_matrices_are_factorized_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let families = "--family=darcy:300,convection-diffusion-2d:100,elasticity:300";
    let output = peers(
        folder.path(),
        &[
            "--structures=symmetric,definite",
            "--peers=mumps,cholmod,spral,feral,pardiso,klu",
            families,
        ],
    );
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("left out"), "one is not symmetric: {said}");
    let results = Results::read(&folder.path().join("out.json")).expect("results");
    let klu = results.solvers.iter().find(|solver| solver.name == "klu");
    assert!(
        klu.is_some_and(|solver| solver.missing.is_some()),
        "{klu:?}"
    );
    let [darcy, elasticity] = &results.matrices[..] else {
        panic!("{} matrices", results.matrices.len());
    };
    let here: Vec<&str> = results.solvers.iter().map(|s| s.name.as_str()).collect();
    for matrix in [darcy, elasticity] {
        for run in &matrix.runs {
            assert_eq!(
                run.outcome,
                Outcome::Measured,
                "{} {}",
                run.solver,
                matrix.name
            );
            assert!(run.wrong_solutions().is_empty(), "{}", run.solver);
            assert!(run.seconds(Phase::Refactorize).is_some(), "{}", run.solver);
            assert_eq!(run.seconds(Phase::SolveTranspose), None, "{}", run.solver);
            assert_eq!(run.wrong_before_refinement(), None, "{}", run.solver);
            let [before, after] = [run.errors.one_pass, run.errors.refined];
            assert!(before.is_some() && after.is_some(), "{}", run.solver);
            assert!(here.contains(&run.solver.as_str()));
        }
        let counted = matrix.runs.iter().filter_map(|run| run.inertia);
        let mut counted: Vec<[u64; 2]> = counted.collect();
        counted.dedup();
        assert_eq!(counted.len(), 1, "all count the same on {}", matrix.name);
    }
    let told = |matrix: &MatrixResult, structure| {
        let of = |run: &&Run| run.solver == LUGE && run.structure == structure;
        matrix.runs.iter().filter(of).count()
    };
    assert_eq!(told(darcy, Structure::Symmetric), 1);
    assert_eq!(
        told(darcy, Structure::Definite),
        0,
        "it has zeros on the diagonal"
    );
    assert_eq!(told(elasticity, Structure::Symmetric), 1);
    assert_eq!(told(elasticity, Structure::Definite), 1);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("luge (cpu) definite"), "{said}");
}

#[test]
fn luge_runs_on_a_device_beside_itself_on_the_host_in_every_precision() {
    let folder = tempfile::tempdir().expect("a folder");
    let matrix = written(folder.path(), &circuit(33, 5));
    let output = peers(
        folder.path(),
        &[
            "--backends=cpu,sim",
            "--precisions=f64,f32,mixed",
            "--peers=none",
            "--matrix",
            &matrix,
        ],
    );
    assert!(output.status.success(), "{output:?}");
    let results = Results::read(&folder.path().join("out.json")).expect("results");
    assert!(results.device.is_some() && results.ceilings.copy.is_some());
    let runs = &results.matrices[0].runs;
    for variant in ["cpu", "sim"] {
        let of = runs.iter().filter(|run| run.variant == variant);
        let precisions: Vec<Precision> = of.map(|run| run.precision).collect();
        assert_eq!(
            precisions,
            [Precision::F64, Precision::Mixed, Precision::F32]
        );
    }
    for run in runs {
        assert_eq!(run.outcome, Outcome::Measured, "{}", run.variant);
        assert!(run.seconds(Phase::FirstSolve).is_some() && run.wrong_solutions().is_empty());
    }
}

#[test]
fn complex_matrices_are_measured_as_what_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = peers(
        folder.path(),
        &[
            "--family=ac-multiplier:100,lattice-indefinite:50",
            "--structures=general,hermitian",
            "--backends=cpu,sim",
            "--peers=klu,superlu",
        ],
    );
    assert!(output.status.success(), "{output:?}");
    let results = Results::read(&folder.path().join("out.json")).expect("results");
    // A circuit is not Hermitian, and so it is left out.
    let [lattice] = &results.matrices[..] else {
        panic!("{} matrices", results.matrices.len());
    };
    assert_eq!(lattice.field, Field::Complex);
    let klu = Found::load("klu", None);
    let runs = lattice.runs.iter().map(|run| {
        assert!(run.wrong_solutions().is_empty(), "{}", run.solver);
        let is_measured = run.outcome == Outcome::Measured;
        (&*run.solver, &*run.variant, run.structure, is_measured)
    });
    let mut expected = vec![
        (LUGE, "cpu", Structure::General, true),
        (LUGE, "cpu", Structure::Hermitian, true),
        (LUGE, "sim", Structure::General, true),
        (LUGE, "sim", Structure::Hermitian, true),
    ];
    match klu {
        Ok(_) => expected.push(("klu", "", Structure::General, true)),
        Err(missing) => skip_loudly(1, &missing.to_string()),
    }
    assert_eq!(runs.collect::<Vec<_>>(), expected);
    for of_hermitian in [&lattice.runs[1], &lattice.runs[3]] {
        let [positive, negative] = of_hermitian.inertia.expect("it is Hermitian");
        assert!(positive > 0 && negative > 0 && positive + negative == 49);
    }
}

#[test]
fn small_signals_are_made_of_two_real_matrices() {
    let folder = tempfile::tempdir().expect("a folder");
    let at_rest = circuit(60, 5);
    // As if each conductance had a capacitance beside it.
    let step = at_rest.map(|g| 3.0 * g);
    let file = written_as(folder.path(), "x_op", &at_rest);
    written_as(folder.path(), "x_t1", &step);
    let output = peers(
        folder.path(),
        &["--complex", "--peers=none", "--matrix", &file],
    );
    assert!(output.status.success(), "{output:?}");
    let results = Results::read(&folder.path().join("out.json")).expect("results");
    let [matrix] = &results.matrices[..] else {
        panic!("{} matrices", results.matrices.len());
    };
    assert_eq!((&*matrix.name, matrix.field), ("x_ac", Field::Complex));
    assert_eq!(matrix.nnz, at_rest.nnz());
    let [run] = &matrix.runs[..] else {
        panic!("{} runs", matrix.runs.len());
    };
    assert_eq!(run.outcome, Outcome::Measured);
    assert!(run.memory.resident.is_some(), "it was tried apart");

    let AnyMatrix::Complex(a) = Source::of_file(Path::new(&file))
        .small_signals()
        .expect("both are there")
        .read()
        .expect("they are read")
    else {
        panic!("small signals are complex");
    };
    for (value, (i, j)) in a.rows() {
        let g = at_rest.get(i, j).expect("the pattern is the same");
        assert!((value - Complex::new(*g, 2.0 * g)).norm() <= 1e-15 * g.abs());
    }
    let alone = written_as(folder.path(), "y_op", &at_rest);
    assert_eq!(Source::of_file(Path::new(&alone)).small_signals(), None);
}

#[test]
fn a_sweep_is_solved_as_a_batch_and_one_after_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("out.json").display().to_string();
    let sweep = |words: &[&str]| {
        let common = ["sweep", "--frequencies=3", "--samples=1", "--json", &json];
        luge_bench(&[&common[..], words].concat())
    };
    let klu = match Found::load("klu", None) {
        Ok(_) => "--peers=klu",
        Err(missing) => {
            skip_loudly(1, &missing.to_string());
            "--peers=none"
        }
    };
    let output = sweep(&["--family=ac-multiplier:100", "--backend=sim", klu]);
    assert!(output.status.success(), "{output:?}");
    let results = Results::read(Path::new(&json)).expect("results");
    assert_eq!(results.benchmark, Benchmark::Sweep);
    let runs = &results.matrices[0].runs;
    let expected = [
        (LUGE, "batch"),
        (LUGE, "one after another"),
        ("klu", "one after another"),
    ];
    for (run, (solver, variant)) in runs.iter().zip(expected) {
        assert_eq!((&*run.solver, &*run.variant), (solver, variant));
        let error = run.errors.refactorized.expect("it is measured");
        assert!(error < 1e-13, "{solver}, {variant}: {error}");
        assert!(run.seconds(Phase::Sweep).is_some());
        let on_device = run.seconds(Phase::SweepResident).is_some();
        assert_eq!(on_device, solver == LUGE, "{solver}, {variant}");
    }
    assert_eq!(runs.len(), if klu == "--peers=klu" { 3 } else { 2 });

    let real = sweep(&["--family=circuit:100", "--backend=cpu"]);
    let said = String::from_utf8_lossy(&real.stderr).into_owned();
    assert!(!real.status.success() && said.contains("complex"), "{said}");
    let unknown = sweep(&[
        "--family=ac-multiplier:100",
        "--backend=cpu",
        "--peers=superlu",
    ]);
    assert!(!unknown.status.success());
}

#[test]
fn nothing_at_all_is_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["--generated", "--peers=none"];
    let none = peers(folder.path(), &[&words[..], &["--max-n=1"]].concat());
    assert!(!none.status.success(), "no matrix ran");
    let one = [
        "--only=gen_circuit_500",
        "--min-entries=100000",
        "--no-children",
    ];
    let small = peers(folder.path(), &[&words[..], &one].concat());
    let said = String::from_utf8_lossy(&small.stderr).into_owned();
    assert!(said.contains("left out"), "{said}");
    assert!(!small.status.success(), "nothing ran");
}

#[test]
fn every_mode_of_the_symbolic_phase_is_compared_with_the_cpu() {
    let folder = tempfile::tempdir().expect("a folder");
    let matrix = written(folder.path(), &circuit(40, 1));
    let saved = folder.path().join("patterns");
    let json = folder.path().join("out.json");
    let against = folder.path().join("other.txt");
    std::fs::write(&against, "# name milliseconds\nsmall 1500\n").expect("written");
    let common = ["symbolic", "--min-entries=0", "--matrix", &matrix];
    let output = Command::new(env!("CARGO_BIN_EXE_luge-bench"))
        .args(common)
        .args(["--backend=sim", "--samples=1", "--repetitions=1"])
        .args(["--modes=two,fused,auto,coarse", "--budgets=1,0"])
        .arg("--against")
        .arg(&against)
        .arg("--json")
        .arg(&json)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let results = Results::read(&json).expect("results");
    assert_eq!(results.benchmark, Benchmark::Symbolic);
    let runs = &results.matrices[0].runs;
    // CPU, automatic mode, supernodes, four modes in two budgets, and the other program.
    assert_eq!(runs.len(), 12, "{runs:?}");
    let compared = runs.iter().filter(|run| run.equal == Some(true)).count();
    assert_eq!(compared, 10);
    let other = runs.last().and_then(|run| run.seconds(Phase::Symbolic));
    assert_eq!(other, Some(1.5));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("luge (cpu) / luge (panels)"), "{said}");

    let output = Command::new(env!("CARGO_BIN_EXE_luge-bench"))
        .args(common)
        .arg("--save")
        .arg(&saved)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let pattern = luge_matrix_io::read(saved.join("small.mtx")).expect("a pattern");
    assert_eq!(pattern.nnz(), circuit(40, 1).nnz());
}

#[test]
fn fingerprints_are_printed_for_every_mode() {
    let folder = tempfile::tempdir().expect("a folder");
    let matrix = written(folder.path(), &circuit(40, 1));
    let output = luge_bench(&["bits", &matrix]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    // The ordering, and five modes with one thread and with two, which give the same bits.
    assert_eq!(lines.len(), 11, "{said}");
    for line in &lines[1..6] {
        let twin = line.replacen(" 1 ", " 2 ", 1);
        assert!(lines.contains(&twin.as_str()), "{line}");
    }
}

#[test]
fn device_costs_are_fitted_to_what_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("costs.json");
    let json = path.display().to_string();
    let words = [
        "device-costs",
        "--backend=sim",
        "--samples=2",
        "--warm-up=0",
    ];
    let output = luge_bench(&[&words[..], &["--json", &json]].concat());
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&path).expect("results");
    let measured: Measured = serde_json::from_str(&text).expect("a table");
    assert_eq!(measured.schema, device_costs::SCHEMA);
    assert!(!measured.device.name.is_empty());
    let names: Vec<&str> = measured.table.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, Entry::ALL.map(Entry::name));
    for entry in &measured.table {
        assert!(
            entry.measured > 0.0 && entry.measured.is_finite(),
            "{entry:?}"
        );
    }
    assert_eq!(measured.groups.len(), Group::ALL.len());
    for (result, group) in measured.groups.iter().zip(Group::ALL) {
        assert_eq!(result.name, group.name());
        let known = group.unknowns().len() + 1;
        assert_eq!(result.unknowns.len(), known);
        assert!(result.cases.len() >= known, "{}", result.name);
        for case in &result.cases {
            assert_eq!(case.samples.seconds.len(), 2);
            let residual = case.samples.median / case.fitted - 1.0;
            let error = (case.residual - residual).abs();
            assert!(error <= 1e-9 * (1.0 + residual.abs()), "{}", case.name);
        }
    }
    // The call is measured, not fitted.
    let call = measured.table.last().expect("entries");
    assert_eq!(
        (call.name.as_str(), call.measured),
        ("call", measured.call.median)
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in [
        "small_front_shared",
        "measured / default",
        "fronts in tiles",
    ] {
        assert!(said.contains(words), "{said}");
    }
    let on_host = luge_bench(&["device-costs", "--backend=cpu"]);
    assert!(!on_host.status.success(), "the host has no device costs");
}
