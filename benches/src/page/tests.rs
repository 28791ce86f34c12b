use super::*;
use crate::machine::Machine;
use crate::results::{Ceilings, DeviceInfo, SCHEMA, Settings};
use crate::statistics::{Samples, Statistic};
use luge_testkit::generators::applications::circuit;

fn timed(solver: &str, seconds: f64) -> Run {
    let mut run = Run::new(solver, 1);
    for phase in Phase::ON_CPU {
        run.phases
            .insert(phase, Samples::new(vec![seconds, 1.1 * seconds, seconds]));
    }
    run.factor_entries = Some(1000);
    run.flops = Some(1e6);
    run.num_levels = Some(12);
    run.errors.known = Some(1e-16);
    run
}

fn info(name: &str, missing: Option<&str>) -> SolverInfo {
    SolverInfo {
        name: name.to_owned(),
        version: "1.2".to_owned(),
        threads: vec![1],
        notes: vec!["a note".to_owned()],
        missing: missing.map(str::to_owned),
    }
}

fn named(benchmark: Benchmark, matrices: Vec<Vec<Run>>) -> Named {
    let matrix = |(number, runs): (usize, Vec<Run>)| MatrixResult {
        name: format!("matrix{number}"),
        kind: "circuit".to_owned(),
        n: 100 * (number + 1),
        nnz: 400 * (number + 1),
        near_singular: false,
        refactorized_with: String::new(),
        runs,
    };
    Named {
        file: "results.json".to_owned(),
        results: Results {
            schema: SCHEMA.to_owned(),
            benchmark,
            machine: Machine::here(),
            device: None,
            date: "2026-11-22T00:00:00Z".to_owned(),
            commit: "0123456789ab".to_owned(),
            profile: "release".to_owned(),
            command: vec!["cpu".to_owned(), "--json".to_owned()],
            settings: Settings {
                time_limit: 1.0,
                budget: 1.0,
                min_rounds: 3,
                max_rounds: 3,
                statistic: Statistic::Median,
            },
            ceilings: Ceilings {
                host_copy: Some(1e10),
                ..Ceilings::default()
            },
            solvers: vec![
                info("luge", None),
                info("klu", None),
                info("umfpack", Some("libumfpack.so.5 is not there")),
            ],
            matrices: matrices.into_iter().enumerate().map(matrix).collect(),
        },
    }
}

fn two() -> Named {
    named(
        Benchmark::Cpu,
        vec![
            vec![timed("luge", 1.0), timed("klu", 4.0)],
            vec![timed("luge", 3.0), timed("klu", 1.0)],
        ],
    )
}

#[test]
fn the_page_needs_nothing_else_and_shows_wins_and_losses() {
    let html = page(&[two()], None).expect("it is drawn");
    for outside in [
        "http://", "https://", "<script", "src=", "<link", "@import", "url(",
    ] {
        // The name of the SVG dialect is no address that is fetched.
        let rest = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!rest.contains(outside), "{outside}");
    }
    assert!(html.contains("prefers-color-scheme:dark"));
    assert!(
        html.contains("<td class=\"number win\">0.25</td>"),
        "the best ratio"
    );
    assert!(
        html.contains("<td class=\"number loss\">3.00</td>"),
        "the worst ratio"
    );
    assert!(html.contains("missing: libumfpack.so.5 is not there"));
    assert!(html.contains("Missing, so not compared: umfpack."));
    for words in [
        "Performance profile",
        "parts of a first solution",
        "host memory",
        "Levels.",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(html.matches("<svg role=\"img\" aria-label=").count() >= 8);
}

#[test]
fn a_wrong_solution_and_a_refusal_are_said() {
    let mut wrong = timed("klu", 0.1);
    wrong.errors.known = Some(0.5);
    let mut refused = timed("luge", 1.0);
    refused.phases.clear();
    refused.outcome = Outcome::Failed {
        reason: "singular".to_owned(),
    };
    let runs = vec![
        vec![timed("luge", 1.0), wrong],
        vec![refused, timed("klu", 1.0)],
    ];
    let html = page(&[named(Benchmark::Cpu, runs)], None).expect("it is drawn");
    assert!(
        html.contains("1 wrong solutions; their times do not count"),
        "{html}"
    );
    assert!(
        html.contains("<td class=\"alarm\">matrix1</td>"),
        "only the other solves it"
    );
    assert!(html.contains("failed: singular"));
    assert!(!html.contains(">10.00<"), "the ratio to the wrong solution");
}

#[test]
fn luge_alone_and_nothing_at_all_are_said() {
    let alone = named(Benchmark::Cpu, vec![vec![timed("luge", 1.0)]]);
    let html = page(&[alone], None).expect("it is drawn");
    assert!(html.contains("nothing to compare Luge with"), "{html}");
    let nobody = named(Benchmark::Cpu, Vec::new());
    let html = page(&[nobody], None).expect("it is drawn");
    assert!(html.contains("Luge did not take part"), "{html}");
}

#[test]
fn several_results_and_a_matrix_are_one_page() {
    let on_device = |solver: &str, seconds: f64| {
        let mut run = timed(solver, seconds).in_variant("");
        for phase in Phase::ON_DEVICE {
            run.phases.insert(phase, Samples::new(vec![seconds]));
        }
        run
    };
    let mut device = named(
        Benchmark::Numeric,
        vec![vec![
            on_device("luge", 1.0),
            on_device("luge", 0.5).in_precision(Precision::F32),
            on_device("cudss", 2.0),
        ]],
    );
    device.results.device = Some(DeviceInfo {
        name: "A <device>".to_owned(),
        driver: Some("13.0".to_owned()),
        memory_bytes: Some(1 << 37),
    });
    device.results.ceilings.copy = Some(4e12);
    let pictures = pattern::Pictures::of("a circuit", &circuit(200, 1)).expect("it is drawn");
    let html = page(&[two(), device], Some(&pictures)).expect("it is drawn");
    assert!(html.contains("id=\"run-0\"") && html.contains("id=\"run-1\""));
    assert!(
        html.contains("A &lt;device&gt;, driver for CUDA 13.0, 128 GiB"),
        "{html}"
    );
    assert!(html.contains("device memory, measured"));
    assert!(html.contains("A matrix and its factors: a circuit"));
    assert!(
        html.contains("ordering"),
        "the parts that a solver tells apart"
    );
}

#[test]
fn the_committed_results_make_a_page() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    for file in [
        "2026-11-21-cpu-xeon/fem.json",
        "2026-11-22-h200-numeric/checked.json",
        "2026-11-21-h200-symbolic/large.json",
    ] {
        let results = Results::read(&folder.join(file)).expect("it is read");
        let named = Named {
            file: file.to_owned(),
            results,
        };
        let html = page(&[named], None).expect("it is drawn");
        assert!(html.contains("Performance profile"), "{file}");
        assert!(html.len() < 5 << 20, "{file}: {} bytes", html.len());
    }
}
