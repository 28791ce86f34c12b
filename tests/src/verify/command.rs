//! The command `verify`: every matrix of the corpus through every phase on one backend.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use luge::{BackendChoice, Options};
use luge_benches::arguments::{Backend, EngineName};
use luge_benches::machine::{Machine, command_without_folders, commit, now};
use luge_benches::progress::Progress;
use luge_benches::results::write_json;
use luge_benches::tables::{milliseconds, or_dash, table};
use luge_testkit::corpus::Corpus;
use serde::Serialize;

use super::{Depth, Outcome, Plan, Record, Subject, Summary, Verdict, run};

/// Takes matrices through every phase, measures every solution apart from the solver, and compares patterns, levels
/// and supernodes with their definitions, and a device's with the CPU's.
///
/// The last line says how many passed, failed and were skipped. The exit code is 0 if some passed and none failed.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Matrix Market files, which must solve, instead of a corpus.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    matrix: Vec<PathBuf>,
    /// A matrix of each generated family, instead of a corpus.
    #[arg(long)]
    generated: bool,
    /// Order of generated matrices.
    #[arg(long, default_value_t = 1500)]
    size: usize,
    /// Where the phases run.
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
    /// Seeds of the simulator's schedules; each matrix runs once with each.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seeds: Vec<u64>,
    /// Skip matrices of larger order, but for the degenerate ones.
    #[arg(long)]
    max_n: Option<u64>,
    /// These matrices only.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Stop after symbolic and levels.
    #[arg(long)]
    analyze: bool,
    /// What factorizes on a device; patterns and levels are compared with the CPU's where it is the columns.
    #[arg(long, value_enum, default_value_t = EngineName::Auto)]
    engine: EngineName,
    /// Normwise backward error that solutions must reach, by refinement if need be.
    #[arg(long, value_name = "ERROR")]
    target: Option<f64>,
    /// Do not compare the device's patterns and levels with the CPU's.
    #[arg(long)]
    no_compare: bool,
    /// Print a table of all matrices with the times of their phases.
    #[arg(long)]
    times: bool,
    /// Write the records here as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Results {
    schema: &'static str,
    machine: Machine,
    date: String,
    commit: String,
    command: Vec<String>,
    records: Vec<Run>,
}

#[derive(Debug, Serialize)]
struct Run {
    seed: u64,
    #[serde(flatten)]
    record: Record,
}

/// Verifies; without a corpus, a matrix of each generated family stands in for it.
///
/// # Errors
///
/// If the matrices cannot be listed, or the results cannot be written.
pub fn verify(arguments: &Arguments, corpus: Option<&Path>) -> anyhow::Result<ExitCode> {
    let date = now();
    let subjects = subjects(arguments, corpus)?;
    let plans = plans(arguments);
    let progress = Progress::over(subjects.len() * plans.len());
    let mut runs = Vec::new();
    for subject in &subjects {
        for (seed, plan) in &plans {
            progress.begin(&subject.name);
            let record = match skip_reason(arguments, subject) {
                Some(reason) => Record::skipped(subject, reason),
                None => run(subject, plan),
            };
            progress.end(&line(&record));
            runs.push(Run {
                seed: *seed,
                record,
            });
        }
    }
    drop(progress);

    if arguments.times {
        println!("{}\n", times(&runs));
    }
    print!("{}", unchecked(&runs));
    for run in &runs {
        if let Verdict::Failed { reason } = run.record.verdict() {
            println!("FAILED {}: {reason}", run.record.name);
        }
    }
    let summary = Summary::of(runs.iter().map(|run| &run.record));
    if summary.passed + summary.failed == 0 {
        println!("no matrix ran, so nothing is verified");
    }
    println!("{summary}");
    if let Some(path) = &arguments.json {
        let results = Results {
            schema: "luge-verify/1",
            machine: Machine::here(),
            date,
            commit: commit(),
            command: command_without_folders(std::env::args()),
            records: runs,
        };
        write_json(path, &results)?;
    }
    Ok(summary.exit_code())
}

fn subjects(arguments: &Arguments, corpus: Option<&Path>) -> anyhow::Result<Vec<Subject>> {
    let mut subjects = if !arguments.matrix.is_empty() {
        let files = arguments.matrix.iter();
        files.map(|path| Subject::of_file(path)).collect()
    } else {
        match corpus {
            Some(folder) if folder.is_dir() && !arguments.generated => {
                let corpus = Corpus::open_at(folder)
                    .with_context(|| format!("cannot list {}", folder.display()))?;
                corpus.entries().iter().map(Subject::of_entry).collect()
            }
            other => {
                if !arguments.generated {
                    let folder = other.unwrap_or(Path::new("none given"));
                    eprintln!(
                        "NO CORPUS ({}): generated matrices stand in for it, and prove less",
                        folder.display()
                    );
                }
                Subject::of_families(arguments.size)
            }
        }
    };
    for name in &arguments.only {
        if subjects.iter().all(|subject| subject.name != *name) {
            bail!("there is no matrix {name}");
        }
    }
    if !arguments.only.is_empty() {
        subjects.retain(|subject| arguments.only.contains(&subject.name));
    }
    Ok(subjects)
}

fn plans(arguments: &Arguments) -> Vec<(u64, Plan)> {
    let backends = match arguments.backend {
        Backend::Cpu => vec![(0, BackendChoice::Cpu)],
        Backend::Gpu => vec![(0, BackendChoice::Gpu { ordinal: 0 })],
        Backend::Sim => {
            let on_seed = |&seed: &u64| (seed, BackendChoice::Simulator { seed });
            arguments.seeds.iter().map(on_seed).collect()
        }
    };
    let depth = if arguments.analyze {
        Depth::Analyze
    } else {
        Depth::Every
    };
    let compare = arguments.backend != Backend::Cpu && !arguments.no_compare;
    let plan = |backend| {
        let options = Options::default()
            .backend(backend)
            .device_engine(arguments.engine.into())
            .target_backward_error(arguments.target);
        Plan::new(options, depth, compare)
    };
    let with_seed = |(seed, backend)| (seed, plan(backend));
    backends.into_iter().map(with_seed).collect()
}

fn skip_reason(arguments: &Arguments, subject: &Subject) -> Option<String> {
    let (most, order) = arguments.max_n.zip(subject.order)?;
    (order > most && !subject.is_degenerate)
        .then(|| format!("its order {order} is above {most} (--max-n)"))
}

fn line(record: &Record) -> String {
    let words = match record.verdict() {
        Verdict::Passed => match &record.outcome {
            Outcome::Refused { reason } => {
                format!("passed, refused as it must be: {reason}")
            }
            _ => "passed".to_owned(),
        },
        Verdict::Failed { reason } => format!("FAILED: {reason}"),
        Verdict::Skipped { reason } => format!("skipped: {reason}"),
    };
    let error = record.worst_error();
    format!(
        "{:<28} {:8.3} s  {:>7}  {words}",
        record.name,
        record.seconds,
        error.map_or_else(|| "-".to_owned(), |e| format!("{e:.1e}")),
    )
}

/// Which checks were skipped on how many matrices, and why.
fn unchecked(runs: &[Run]) -> String {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for run in runs {
        for check in &run.record.checks {
            if let Verdict::Skipped { reason } = &check.verdict {
                let what = format!("{}: {reason}", check.phase);
                match reasons.iter_mut().find(|(known, _)| *known == what) {
                    Some((_, count)) => *count += 1,
                    None => reasons.push((what, 1)),
                }
            }
        }
    }
    let lines = reasons.iter();
    lines
        .map(|(what, count)| format!("not checked on {count} matrices: {what}\n"))
        .collect()
}

fn times(runs: &[Run]) -> String {
    let header = [
        "matrix",
        "n",
        "nnz",
        "L+U",
        "levels",
        "ordering ms",
        "symbolic ms",
        "levels ms",
        "numeric ms",
        "solve ms",
        "steps",
        "worst backward error",
        "pivoting",
    ];
    let mut table = table(header, 1);
    for run in runs {
        let mut row = vec![run.record.name.clone()];
        if let Some(i) = &run.record.inform {
            let number = |count: Option<usize>| or_dash(count, |count| count.to_string());
            row.extend([
                i.n.to_string(),
                i.nnz.to_string(),
                (i.lnz + i.unz).saturating_sub(i.n as u64).to_string(),
                number(i.num_levels),
                milliseconds(i.seconds.ordering),
                milliseconds(i.seconds.symbolic),
                or_dash(i.seconds.levelize, milliseconds),
                or_dash(i.seconds.numeric, milliseconds),
                or_dash(i.seconds.solve, milliseconds),
                number(i.refinement_steps),
                or_dash(run.record.worst_error(), |error| format!("{error:.1e}")),
                i.pivoting.unwrap_or("-").to_owned(),
            ]);
        }
        table.add_row(row);
    }
    table.to_string()
}
