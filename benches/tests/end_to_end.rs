//! The end-to-end benchmark and the report as a user runs them: one command, one page.

use std::path::Path;
use std::process::{Command, Output};

use luge_benches::report::{LUGE, Outcome};
use luge_benches::results::{Benchmark, Phase, Results};
use luge_testkit::generators::applications::circuit;

fn end_to_end(folder: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_end-to-end"))
        .arg("--threads=1")
        .args(["--time-budget=0.2", "--min-rounds=1", "--max-rounds=2"])
        .args(options)
        .arg("--json")
        .arg(folder.join("out.json"))
        .arg("--report")
        .arg(folder.join("out.html"))
        .output()
        .expect("the program starts")
}

#[test]
fn one_command_makes_results_and_a_page_with_who_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = end_to_end(
        folder.path(),
        &[
            "--generated",
            "--only=gen_circuit_500",
            "--backends=cpu",
            "--peers=faer,klu",
            "--library=klu=/nowhere/libklu.so",
        ],
    );
    assert!(output.status.success(), "{output:?}");
    let results = Results::read(&folder.path().join("out.json")).expect("results");
    assert_eq!(results.benchmark, Benchmark::EndToEnd);
    let [matrix] = &results.matrices[..] else {
        panic!("{} matrices", results.matrices.len());
    };
    let runs: Vec<(&str, &str)> = matrix
        .runs
        .iter()
        .map(|run| (run.solver.as_str(), run.variant.as_str()))
        .collect();
    assert_eq!(runs, [(LUGE, "cpu"), ("faer", "")]);
    for run in &matrix.runs {
        assert_eq!(run.outcome, Outcome::Measured, "{}", run.solver);
        let whole = run.seconds(Phase::FirstSolve).expect("it is timed");
        let parts = [Phase::Analyze, Phase::Factorize].map(|phase| run.phases[&phase].minimum);
        assert!(whole > parts[0].min(parts[1]), "{}", run.solver);
        assert!(run.wrong_solutions().is_empty());
    }
    assert!(results.ceilings.host_copy.is_some());
    let klu = results.solvers.iter().find(|solver| solver.name == "klu");
    let missing = klu.and_then(|klu| klu.missing.as_deref());
    assert!(
        missing.is_some_and(|reason| reason.contains("/nowhere/")),
        "{missing:?}"
    );

    let page = std::fs::read_to_string(folder.path().join("out.html")).expect("a page");
    assert!(page.contains("Missing, so not compared: klu."));
    assert!(page.contains("luge (cpu)") && page.contains("A matrix and its factors"));

    let again = Command::new(env!("CARGO_BIN_EXE_report"))
        .arg(folder.path().join("out.json"))
        .arg("--out")
        .arg(folder.path().join("again.html"))
        .output()
        .expect("the program starts");
    assert!(again.status.success(), "{again:?}");
    let again = std::fs::read_to_string(folder.path().join("again.html")).expect("a page");
    assert_eq!(again, page);
}

#[test]
fn luge_runs_on_a_device_beside_itself_on_the_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.mtx");
    let options = luge_matrix_io::WriteOptions::default();
    luge_matrix_io::write(&path, &circuit(33, 5).view(), &options).expect("it is written");
    let matrix = path.to_str().expect("a plain path");
    let options = ["--backends=cpu,sim", "--peers=none", "--matrix", matrix];
    let output = end_to_end(folder.path(), &options);
    assert!(output.status.success(), "{output:?}");
    let results = Results::read(&folder.path().join("out.json")).expect("results");
    assert!(results.device.is_some() && results.ceilings.copy.is_some());
    let runs = &results.matrices[0].runs;
    let variants: Vec<&str> = runs.iter().map(|run| run.variant.as_str()).collect();
    assert_eq!(variants, ["cpu", "sim"]);
    for run in runs {
        assert_eq!(run.outcome, Outcome::Measured, "{}", run.variant);
        assert!(run.seconds(Phase::FirstSolve).is_some() && run.wrong_solutions().is_empty());
    }
}

#[test]
fn nothing_at_all_is_a_failure_and_a_page_overwrites_no_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = end_to_end(
        folder.path(),
        &["--generated", "--backends=cpu", "--peers=none", "--max-n=1"],
    );
    assert!(!output.status.success(), "no matrix ran");
    let report = Command::new(env!("CARGO_BIN_EXE_report"))
        .arg(folder.path().join("out.json"))
        .arg("--out")
        .arg(folder.path().join("out.json"))
        .output()
        .expect("the program starts");
    assert!(
        !report.status.success(),
        "results are not overwritten by a page"
    );
    assert!(Results::read(&folder.path().join("out.json")).is_ok());
}
