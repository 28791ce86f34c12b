//! Luge on the CPU beside other solvers; run by `cargo xtask bench cpu`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use luge::CpuEngine;
use luge_benches::arguments::{
    LibraryArguments, OutputArguments, RoundsArguments, SourceArguments,
};
use luge_benches::ceilings;
use luge_benches::child::{Trial, attempt, try_apart};
use luge_benches::cpu::allocator::Counting;
use luge_benches::cpu::bounds::{Verdict, bounds};
use luge_benches::cpu::contest::{Lane, contest};
use luge_benches::cpu::luge_peer::Luge;
use luge_benches::cpu::table;
use luge_benches::machine::{Machine, command_without_folders, now};
use luge_benches::progress::Progress;
use luge_benches::report::{LUGE, Outcome, SolverInfo, heading, profile};
use luge_benches::results::{Benchmark, MatrixResult, Phase, Results, Run, SCHEMA, Settings};
use luge_benches::statistics::Statistic;
use luge_benches::systems::{Source, System};
use luge_benches::table::solvers;
use luge_peers::{Found, Missing, NAMES, Peer};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs Luge and other solvers on the same matrices, in turn, and compares.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench cpu")]
struct Arguments {
    #[command(flatten)]
    sources: SourceArguments,
    /// Numbers of threads; KLU and SuperLU always run on one.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Other solvers: klu, umfpack, superlu, faer; `none` for Luge alone.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "klu,umfpack,superlu,faer"
    )]
    peers: Vec<String>,
    /// Luge's engine for every block, instead of the one that is predicted to be faster.
    #[arg(long, value_enum, default_value_t = EngineName::Auto)]
    engine: EngineName,
    #[command(flatten)]
    libraries: LibraryArguments,
    #[command(flatten)]
    rounds: RoundsArguments,
    /// What ratios are made of.
    #[arg(long, value_enum, default_value_t = StatisticName::Median)]
    statistic: StatisticName,
    /// Do not try each solver in a process of its own first: no time limit, no resident memory.
    #[arg(long)]
    no_children: bool,
    #[command(flatten)]
    output: OutputArguments,
    /// Also print the times of every solver.
    #[arg(long)]
    times: bool,
    /// Fail if a bound is missed.
    #[arg(long)]
    require: bool,
    /// Print the comparison that results files hold, and run nothing. The matrices of several files are
    /// compared together; what is said of the machine and the commit is the first file's.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    read: Vec<PathBuf>,
    /// Try one solver on one matrix and print what happened (for this program's own use).
    #[arg(long, hide = true, value_name = "SOLVER@THREADS")]
    child: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EngineName {
    Auto,
    Columns,
    Fronts,
}

impl From<EngineName> for CpuEngine {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Auto => Self::Auto,
            EngineName::Columns => Self::Columns,
            EngineName::Fronts => Self::Fronts,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StatisticName {
    Median,
    Minimum,
}

impl From<StatisticName> for Statistic {
    fn from(name: StatisticName) -> Self {
        match name {
            StatisticName::Median => Self::Median,
            StatisticName::Minimum => Self::Minimum,
        }
    }
}

/// A solver that takes part, or one that is not here.
struct Entrant {
    info: SolverInfo,
    maker: Option<Maker>,
}

enum Maker {
    Luge(CpuEngine),
    Peer(Found),
}

impl Maker {
    fn solver(&self, threads: usize) -> anyhow::Result<Box<dyn Peer>> {
        Ok(match self {
            Self::Luge(engine) => Box::new(Luge::new(threads, *engine)?),
            Self::Peer(found) => found.solver(threads),
        })
    }

    /// Whether it is written in Rust, so that the allocator sees what it allocates.
    fn is_rust(&self) -> bool {
        matches!(self, Self::Luge(_) | Self::Peer(Found::Faer))
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    // What runs outside of a pool of its own has one thread.
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build_global()?;
    if let Some(solver) = &arguments.child {
        let trial = trial(&arguments, solver)?;
        println!("{}", serde_json::to_string(&trial)?);
        return Ok(ExitCode::SUCCESS);
    }
    let results = match arguments.read.split_first() {
        Some((first, others)) => {
            let mut results = Results::read(first)?;
            for path in others {
                results.add(Results::read(path)?);
            }
            results
        }
        None => run(&arguments)?,
    };
    report(&arguments, &results)
}

fn maker(arguments: &Arguments, solver: &str) -> Result<Maker, Missing> {
    if solver == LUGE {
        return Ok(Maker::Luge(arguments.engine.into()));
    }
    Found::load(solver, arguments.libraries.path(solver).as_ref()).map(Maker::Peer)
}

fn trial(arguments: &Arguments, solver: &str) -> anyhow::Result<Trial> {
    let (name, threads) = solver.split_once('@').context("SOLVER@THREADS")?;
    let maker = maker(arguments, name)?;
    let source = arguments.sources.source_of_trial()?;
    attempt(&source, maker.solver(threads.parse()?)?.as_mut())
}

fn entrants(arguments: &Arguments) -> anyhow::Result<Vec<Entrant>> {
    let mut threads = arguments.threads.clone();
    threads.sort_unstable();
    threads.dedup();
    if threads.first().is_none_or(|&least| least == 0) {
        bail!("a solver needs at least one thread");
    }
    let mut names = vec![LUGE];
    for peer in &arguments.peers {
        match peer.as_str() {
            "none" => {}
            known if NAMES.contains(&known) => names.push(known),
            other => bail!("{other} is none of {}", NAMES.join(", ")),
        }
    }
    names
        .into_iter()
        .map(|name| entrant(arguments, name, &threads))
        .collect()
}

fn entrant(arguments: &Arguments, name: &str, threads: &[usize]) -> anyhow::Result<Entrant> {
    let maker = match maker(arguments, name) {
        Ok(maker) => maker,
        Err(missing) => {
            eprintln!("MISSING: {name}: {missing}");
            return Ok(Entrant {
                info: SolverInfo {
                    name: name.to_owned(),
                    version: "-".to_owned(),
                    threads: Vec::new(),
                    notes: Vec::new(),
                    missing: Some(missing.to_string()),
                },
                maker: None,
            });
        }
    };
    let threads = match &maker {
        Maker::Peer(found) if !found.uses_threads() => vec![1],
        _ => threads.to_vec(),
    };
    let solver = maker.solver(1)?;
    Ok(Entrant {
        info: SolverInfo {
            name: name.to_owned(),
            version: solver.version(),
            threads,
            notes: solver.notes(),
            missing: None,
        },
        maker: Some(maker),
    })
}

fn run(arguments: &Arguments) -> anyhow::Result<Results> {
    let settings = arguments.rounds.settings(arguments.statistic.into());
    let sources = arguments.sources.sources()?;
    let entrants = entrants(arguments)?;
    let date = now();
    let mut matrices = Vec::new();
    let progress = Progress::over(sources.len());
    for source in &sources {
        progress.begin(&source.name);
        let line = match run_matrix(arguments, source, &entrants, &settings) {
            Ok(matrix) => {
                let line = line(&matrix, settings.statistic);
                matrices.push(matrix);
                line
            }
            Err(error) => format!(" not read: {error:#}"),
        };
        progress.end(&format!("{:<26}{line}", source.name));
    }
    drop(progress);
    Ok(Results {
        schema: SCHEMA.to_owned(),
        benchmark: Benchmark::Cpu,
        machine: Machine::here(),
        device: None,
        date,
        commit: arguments.output.commit(),
        profile: profile().to_owned(),
        command: command_without_folders(std::env::args()),
        settings,
        ceilings: ceilings::of_host(),
        solvers: entrants.into_iter().map(|entrant| entrant.info).collect(),
        matrices,
    })
}

fn run_matrix(
    arguments: &Arguments,
    source: &Source,
    entrants: &[Entrant],
    settings: &Settings,
) -> anyhow::Result<MatrixResult> {
    let system = System::read(source)?;
    let mut lanes = Vec::new();
    for entrant in entrants {
        let Some(maker) = &entrant.maker else {
            continue;
        };
        let mut tried: Option<(Outcome, Option<u64>)> = None;
        for &threads in &entrant.info.threads {
            let mut run = Run::new(&entrant.info.name, threads);
            if !arguments.no_children {
                let first = tried.is_none();
                let (outcome, resident) = tried.get_or_insert_with(|| {
                    trial_apart(arguments, source, &entrant.info.name, threads)
                });
                run.outcome = outcome.clone();
                run.memory.resident = resident.filter(|_| first);
            }
            lanes.push(Lane::new(maker.solver(threads)?, run, maker.is_rust()));
        }
    }
    Ok(MatrixResult {
        name: source.name.clone(),
        kind: source.kind.to_string(),
        n: system.a.n(),
        nnz: system.a.nnz(),
        near_singular: source.near_singular,
        refactorized_with: system.next_from.clone(),
        runs: contest(&system, lanes, settings),
    })
}

/// The solver on the matrix in a process of its own.
fn trial_apart(
    arguments: &Arguments,
    source: &Source,
    solver: &str,
    threads: usize,
) -> (Outcome, Option<u64>) {
    let mut options: Vec<String> = arguments.libraries.words().collect();
    if let Some(name) = arguments.engine.to_possible_value() {
        options.push(format!("--engine={}", name.get_name()));
    }
    try_apart(
        source,
        &format!("{solver}@{threads}"),
        &options,
        arguments.rounds.time_limit,
    )
}

/// One line of progress: times of analysis and factorization, in milliseconds.
fn line(matrix: &MatrixResult, statistic: Statistic) -> String {
    let mut line = format!(" n {:>8}  nnz {:>9} ", matrix.n, matrix.nnz);
    for run in &matrix.runs {
        let time = |phase| {
            run.phases
                .get(&phase)
                .map(|samples| samples.get(statistic) * 1e3)
        };
        let words = match (&run.outcome, time(Phase::AnalyzeFactorize)) {
            (Outcome::TooSlow { .. }, _) => "too slow".to_owned(),
            (Outcome::Failed { reason }, _) => format!("FAILED ({reason})"),
            (Outcome::Measured, Some(ms)) => format!("{ms:.3} ms"),
            (Outcome::Measured, None) => "-".to_owned(),
        };
        line.push_str(&format!(" {}@{} {words} ", run.solver, run.threads));
    }
    line
}

fn report(arguments: &Arguments, results: &Results) -> anyhow::Result<ExitCode> {
    let bounds = bounds(results);
    let mut sections = vec![("Solvers".to_owned(), solvers(&results.solvers))];
    let here = |name: &str| {
        results
            .solvers
            .iter()
            .any(|s| s.name == name && s.missing.is_none())
    };
    for peer in NAMES.into_iter().filter(|name| here(name)) {
        sections.push((format!("Luge / {peer}"), table::ratios(results, peer)));
    }
    let times = ("Times".to_owned(), table::times(results));
    let only_in_file = ["Luge / umfpack", "Luge / superlu", "Luge / faer"];
    sections.push(("Geometric means".to_owned(), table::summary(results)));
    sections.push(("Bounds".to_owned(), table::bounds(&bounds)));

    for (title, table) in &sections {
        if !only_in_file.contains(&title.as_str()) {
            println!("## {title}\n\n{table}\n");
        }
    }
    if arguments.times {
        println!("## Times\n\n{}\n", times.1);
    }
    let mut text = heading(
        "Luge and its peers on the CPU",
        &results.machine,
        &results.date,
        &results.commit,
        &results.command,
    );
    for (title, table) in sections.iter().chain([&times]) {
        text.push_str(&format!("\n## {title}\n\n{table}\n"));
    }
    arguments
        .output
        .write(results, &text, arguments.sources.corpus.as_deref())?;

    let mut failed = results.matrices.is_empty();
    if failed {
        eprintln!("no matrix ran");
    }
    for matrix in &results.matrices {
        for run in &matrix.runs {
            for wrong in run.wrong_solutions() {
                let (name, threads) = (&run.solver, run.threads);
                println!("WRONG: {name}@{threads} on {}: {wrong}", matrix.name);
                failed |= name == LUGE;
            }
        }
    }
    let missed = bounds.iter().any(|bound| bound.verdict() == Verdict::Fail);
    Ok(if failed || (arguments.require && missed) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
