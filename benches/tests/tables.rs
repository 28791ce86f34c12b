//! Means, bounds of what counts, and the format of results.

use luge_benches::results::{
    Benchmark, Field, MatrixResult, Outcome, Phase, Results, Run, Settings, write_json,
};
use luge_benches::statistics::{Samples, Statistic};
use luge_benches::tables::{Counted, OfFastest, Series, of_fastest, ratios, report};
use luge_peers::Structure;
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
        field: Field::Real,
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

/// Luge and three others with these inertias.
fn counting(name: &str, inertias: [Option<[u64; 2]>; 4]) -> MatrixResult {
    let mut matrix = matrix(name, "fem", 11, 3.0, 1.0);
    matrix.runs.push(run("mumps", 2.0, 11));
    matrix.runs.push(run("feral", 4.0, 11));
    for (run, inertia) in matrix.runs.iter_mut().zip(inertias) {
        run.inertia = inertia;
    }
    matrix
}

#[test]
fn who_counts_another_inertia_than_most_is_wrong_and_has_no_time() {
    let (right, wrong) = (Some([5, 4]), Some([6, 3]));
    let judged = |inertias| {
        let matrix = counting("m", inertias);
        let wrong = matrix.runs.iter().map(|run| matrix.wrong_inertia(run));
        (matrix.inertia(), wrong.collect::<Vec<_>>())
    };
    let (of_most, found) = judged([right, wrong, right, None]);
    assert_eq!(of_most, right);
    assert_eq!(found, [None, wrong, None, None]);
    let (of_most, found) = judged([wrong, right, right, wrong]);
    assert_eq!(of_most, wrong, "as many say so as not, and so does Luge");
    assert_eq!(found, [None, right, right, None]);
    let (of_most, found) = judged([wrong, right, right, None]);
    assert_eq!((of_most, found[0]), (right, wrong), "Luge may be wrong too");
    assert_eq!(judged([None; 4]).0, None);

    let mut near = counting("near", [right, wrong, right, right]);
    near.near_singular = true;
    assert_eq!(near.wrong_inertia(&near.runs[1]), None);

    let results = results(vec![counting("m", [right, wrong, right, None])]);
    let text = report(&results, &Counted::default());
    assert_eq!(text.matches("WRONG: inertia 6 + 3 −").count(), 1, "{text}");
    let all = Series::all(&results);
    let of = of_fastest(
        &results,
        &all,
        &all[0],
        &results.matrices[0],
        Phase::Refactorize,
    );
    let (ratio, of_mumps) = (1.5, "mumps".to_owned());
    assert_eq!(
        of,
        Some(OfFastest {
            ratio,
            of: of_mumps
        })
    );
}

#[test]
fn factors_that_need_refinement_are_marked() {
    let mut matrix = matrix("m", "fem", 11, 1.0, 1.0);
    let errors = &mut matrix.runs[0].errors;
    (errors.known, errors.one_pass) = (Some(1e-16), Some(2e-9));
    assert_eq!(matrix.runs[0].wrong_before_refinement(), Some(2e-9));
    assert!(matrix.runs[0].wrong_solutions().is_empty());
    let text = report(&results(vec![matrix.clone()]), &Counted::default());
    assert!(text.contains("WRONG before refinement: 2e-9"), "{text}");
    matrix.runs[0].errors.one_pass = Some(9e-10);
    assert_eq!(matrix.runs[0].wrong_before_refinement(), None);
}

#[test]
fn luge_is_compared_with_the_fastest_of_equal_ones() {
    let mut first = matrix("first", "fem", 11, 3.0, 4.0);
    first.runs.push(run("mumps", 2.0, 11));
    let mut threaded = run("umfpack", 1.0, 11);
    threaded.threads = 2;
    first.runs.push(threaded);
    first
        .runs
        .push(run("pardiso", 1.0, 11).told(Structure::Symmetric));
    let alone = matrix("alone", "fem", 11, 3.0, 4.0);
    let mut wrong = matrix("wrong", "fem", 11, 3.0, 4.0);
    wrong.runs[1].errors.random = Some(2e-9);
    let mut factorized = first.clone();
    factorized.name = "factorized".to_owned();
    for (run, seconds) in factorized.runs.iter_mut().zip([1.0, 2.0, 8.0]) {
        let samples = Samples::new(vec![seconds]);
        run.phases.insert(Phase::Factorize, samples);
    }
    let results = results(vec![first, alone, wrong, factorized]);
    let all = Series::all(&results);
    let of = |at: usize| {
        let matrix = &results.matrices[at];
        let found = of_fastest(&results, &all, &all[0], matrix, Phase::Refactorize)?;
        Some((found.ratio, found.of))
    };
    assert_eq!(
        of(0),
        Some((1.5, "mumps".to_owned())),
        "one thread, told nothing"
    );
    assert_eq!(of(1), Some((0.75, "klu".to_owned())));
    assert_eq!(of(2), None, "the other one's solution is wrong");
    let text = report(&results, &Counted::default());
    let is_row = |line: &&str| line.contains(" of mumps") || line.contains(" of klu");
    let rows: Vec<&str> = text.lines().filter(is_row).collect();
    let begin = ["| factorized ", "| first ", "| alone "];
    assert!(
        rows.iter()
            .zip(begin)
            .all(|(row, name)| row.starts_with(name)),
        "{rows:?}"
    );
    // The cube root of 1.5 · 1.5 · 0.75 of refactorizations, one half of factorizations.
    let mean = text.lines().find(|line| line.contains("geometric mean"));
    let mean = mean.expect("a line of means");
    assert!(
        mean.contains("0.50 over 1") && mean.contains("1.19 over 3"),
        "{mean}"
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
