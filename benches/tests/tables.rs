//! Means, bounds of what counts, and the format of results.

use luge_benches::results::{
    Benchmark, MatrixResult, Outcome, Phase, Results, Run, Settings, write_json,
};
use luge_benches::statistics::{Samples, Statistic};
use luge_benches::tables::{Counted, Series, ratios, report};
use luge_testkit::corpus::Kind;

fn run(solver: &str, seconds: f64, entries: u64) -> Run {
    let mut run = Run::new(solver, 1);
    run.phases
        .insert(Phase::Refactorize, Samples::new(vec![seconds]));
    run.factor_entries = Some(entries);
    run
}

/// A matrix that Luge refactorizes in one time and KLU in another.
fn matrix(name: &str, kind: &str, entries: u64, luge: f64, klu: f64) -> MatrixResult {
    MatrixResult {
        name: name.to_owned(),
        kind: kind.to_owned(),
        n: 9,
        nnz: 30,
        near_singular: false,
        refactorized_with: String::new(),
        runs: vec![run("luge", luge, entries), run("klu", klu, entries)],
    }
}

fn results(matrices: Vec<MatrixResult>) -> Results {
    let settings = Settings {
        time_limit: 60.0,
        budget: 0.0,
        min_rounds: 1,
        max_rounds: 1,
        statistic: Statistic::Median,
    };
    Results {
        matrices,
        ..Results::begun(Benchmark::Peers, settings, None)
    }
}

#[test]
fn means_are_of_the_matrices_that_count() {
    let mut refused = matrix("refused", "circuit", 11, 1.0, 1.0);
    refused.runs[0].phases.clear();
    refused.runs[0].outcome = Outcome::Failed {
        reason: "no".to_owned(),
    };
    let mut wrong = matrix("wrong", "circuit", 11, 1.0, 1.0);
    wrong.runs[0].errors.known = Some(1e-3);
    let mut near = refused.clone();
    near.name = "near".to_owned();
    near.near_singular = true;
    let results = results(vec![
        matrix("fast", "circuit", 11, 1.0, 8.0),
        matrix("slow", "power", 11, 1.0, 2.0),
        matrix("small", "power", 10, 9.0, 1.0),
        matrix("fluid", "cfd", 11, 9.0, 1.0),
        refused,
        wrong,
        near,
    ]);
    let [luge, klu] = &Series::all(&results)[..] else {
        panic!("two series");
    };
    let all = ratios(&results, luge, klu, Phase::Refactorize, |_| true);
    assert_eq!(all.of.len(), 4);
    assert_eq!(all.refused, ["refused", "wrong"]);
    let counted = Counted {
        counted_entries: 10,
        counted_kinds: vec![Kind::Circuit, Kind::Power],
    };
    let text = report(&results, &counted);
    let line = |words: &str| text.lines().find(|line| line.contains(words));
    let all = line("| all ").expect("a line over all");
    assert!(all.contains("| 0.25 (0.50) "), "{all}");
    assert!(
        line("klu solves and luge does not: refused, wrong").is_some(),
        "{text}"
    );
    // The fluid counts in its own kind.
    assert!(
        line("| cfd ").is_some_and(|line| line.contains("9.00")),
        "{text}"
    );
}

#[test]
fn what_is_written_is_read() {
    let mut full = matrix("full", "power", 7, 0.25, 0.5);
    let run = &mut full.runs[0];
    run.device_seconds.insert(Phase::Solve, 0.125);
    run.errors.many = Some(f64::MAX);
    run.reused_and_repivoted = Some((3, 1));
    run.inform = Some(serde_json::json!({ "seconds": { "numeric": 0.5 } }));
    let written = results(vec![full]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("results.json");
    write_json(&path, &written).expect("it is written");
    assert_eq!(Results::read(&path).expect("it is read"), written);
    let nowhere = write_json(&folder.path().join("nowhere/results.json"), &written);
    assert!(nowhere.is_err_and(|error| error.to_string().contains("nowhere")));
    std::fs::write(&path, "{}").expect("it is written");
    assert!(Results::read(&path).is_err());
}

#[test]
fn results_that_are_kept_are_read() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/results/2026-11-22-h200-evidence"
    );
    for name in [
        "checked",
        "unchecked",
        "others",
        "precisions",
        "end-to-end-circuits",
        "end-to-end-fields",
    ] {
        let path = format!("{folder}/{name}.json");
        let results = Results::read(path.as_ref()).unwrap_or_else(|error| panic!("{error:#}"));
        let text = report(&results, &Counted::default());
        assert!(
            text.contains("refactorize ms") && text.contains("luge"),
            "{name}"
        );
    }
}
