//! Takes the matrices of a folder through every phase on one backend and records what happened.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use comfy_table::{Table, presets};
use luge::{BackendChoice, DeviceEngine, Options};
use luge_benches::{Comparison, Depth, Outcome, Plan, Record, run_entry};
use luge_testkit::corpus::{Corpus, Group};
use serde::Serialize;

#[derive(Debug, Parser)]
struct Arguments {
    /// Folder of the corpus.
    corpus: PathBuf,
    /// Where the phases run.
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
    /// Seeds of the simulator's schedules; each matrix runs once with each.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seeds: Vec<u64>,
    /// Leave out matrices of larger order, but for the degenerate ones.
    #[arg(long, default_value_t = u64::MAX)]
    max_n: u64,
    /// Run these matrices only.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Stop after symbolic and levels.
    #[arg(long)]
    analyze: bool,
    /// What factorizes on a device.
    #[arg(long, value_enum, default_value = "auto")]
    engine: EngineName,
    /// Do not compare the device's patterns and levels with the CPU's.
    #[arg(long)]
    no_compare: bool,
    /// Write the records here as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Words about the machine and the commit, for the file.
    #[arg(long, default_value = "")]
    note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineName {
    Auto,
    /// Whose patterns and levels are compared with the CPU's.
    Columns,
    Tree,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    Cpu,
    Gpu,
    Sim,
}

#[derive(Debug, Serialize)]
struct Results<'a> {
    note: &'a str,
    command: Vec<String>,
    records: Vec<Run>,
}

#[derive(Debug, Serialize)]
struct Run {
    seed: u64,
    #[serde(flatten)]
    record: Record,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let corpus = Corpus::open_at(&arguments.corpus)
        .with_context(|| format!("cannot list {}", arguments.corpus.display()))?;
    let depth = if arguments.analyze {
        Depth::Analyze
    } else {
        Depth::Solve
    };
    let backends = match arguments.backend {
        Backend::Cpu => vec![(0, BackendChoice::Cpu)],
        Backend::Gpu => vec![(0, BackendChoice::Gpu { ordinal: 0 })],
        Backend::Sim => {
            let on_seed = |&seed: &u64| (seed, BackendChoice::Simulator { seed });
            arguments.seeds.iter().map(on_seed).collect()
        }
    };
    let device_engine = match arguments.engine {
        EngineName::Auto => DeviceEngine::Auto,
        EngineName::Columns => DeviceEngine::Columns,
        EngineName::Tree => DeviceEngine::Tree,
    };
    let compare = arguments.backend != Backend::Cpu && !arguments.no_compare;

    let mut runs = Vec::new();
    for entry in corpus.entries() {
        let named = arguments.only.is_empty() || arguments.only.contains(&entry.name);
        let small =
            entry.group == Group::Degenerate || entry.order().is_none_or(|n| n <= arguments.max_n);
        if !named || !small {
            continue;
        }
        for &(seed, backend) in &backends {
            let plan = Plan {
                options: Options {
                    backend,
                    device_engine,
                    ..Options::default()
                },
                depth,
                compare,
            };
            let record = run_entry(entry, &plan);
            eprintln!("{}", line(&record));
            runs.push(Run { seed, record });
        }
    }

    print!("{}", table(&runs));
    let count = |wanted: fn(&Outcome) -> bool| {
        runs.iter()
            .filter(|run| wanted(&run.record.outcome))
            .count()
    };
    let failures = runs.iter().filter(|run| !run.record.passed).count();
    let equal = |run: &&Run| {
        run.record
            .comparison
            .as_ref()
            .is_some_and(Comparison::is_equal)
    };
    println!(
        "\n{} runs: {} solved, {} analyzed, {} refused; {} equal to the CPU in patterns and levels; {failures} not as expected",
        runs.len(),
        count(|o| matches!(o, Outcome::Solved)),
        count(|o| matches!(o, Outcome::Analyzed)),
        count(|o| matches!(o, Outcome::Refused { .. })),
        runs.iter().filter(equal).count(),
    );
    let none = runs.is_empty();
    if let Some(path) = &arguments.json {
        let results = Results {
            note: &arguments.note,
            command: std::env::args().collect(),
            records: runs,
        };
        std::fs::write(path, serde_json::to_string_pretty(&results)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if none {
        eprintln!("no matrix ran");
    }
    Ok(if failures == 0 && !none {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn line(record: &Record) -> String {
    let error = record.inform.as_ref().and_then(|i| i.backward_error);
    format!(
        "{:<28} {:8.3} s  {}  {}",
        record.name,
        record.seconds,
        error.map_or_else(|| "-".to_owned(), |e| format!("{e:.1e}")),
        verdict(record)
    )
}

fn verdict(record: &Record) -> String {
    let mut words = match &record.outcome {
        Outcome::Solved => "solved".to_owned(),
        Outcome::Analyzed => "analyzed".to_owned(),
        Outcome::Refused { reason } => format!("refused: {reason}"),
        Outcome::Failed { reason } => format!("FAILED: {reason}"),
    };
    if !record.passed && !matches!(record.outcome, Outcome::Failed { .. }) {
        words.push_str(" (NOT AS EXPECTED)");
    }
    if let Some(comparison) = &record.comparison {
        for (what, difference) in [
            ("pattern", &comparison.pattern_difference),
            ("levels", &comparison.level_difference),
        ] {
            match difference {
                None => words.push_str(&format!(", {what} equal")),
                Some(d) => words.push_str(&format!(", {what} DIFFER: {d}")),
            }
        }
    }
    words
}

fn table(runs: &[Run]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header([
        "matrix",
        "n",
        "nnz",
        "lnz+unz",
        "levels",
        "ordering ms",
        "symbolic ms",
        "levels ms",
        "numeric ms",
        "solve ms",
        "steps",
        "backward error",
        "pivoting",
        "verdict",
    ]);
    let milliseconds = |seconds: f64| format!("{:.2}", seconds * 1e3);
    for run in runs {
        let mut row = vec![run.record.name.clone()];
        match &run.record.inform {
            None => row.extend((0..12).map(|_| "-".to_owned())),
            Some(i) => {
                let optional = |s: Option<f64>| s.map_or_else(|| "-".to_owned(), milliseconds);
                let number =
                    |count: Option<usize>| count.map_or_else(|| "-".to_owned(), |c| c.to_string());
                row.extend([
                    i.n.to_string(),
                    i.nnz.to_string(),
                    (i.lnz + i.unz).saturating_sub(i.n as u64).to_string(),
                    number(i.num_levels),
                    milliseconds(i.seconds.ordering),
                    milliseconds(i.seconds.symbolic),
                    optional(i.seconds.levelize),
                    optional(i.seconds.numeric),
                    optional(i.seconds.solve),
                    number(i.refinement_steps),
                    i.backward_error
                        .map_or_else(|| "-".to_owned(), |e| format!("{e:.1e}")),
                    i.pivoting.unwrap_or("-").to_owned(),
                ]);
            }
        }
        row.push(verdict(&run.record));
        table.add_row(row);
    }
    table.to_string()
}
