//! Luge on the CPU beside other solvers; run by `cargo xtask bench cpu`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use luge::CpuEngine;
use luge_benches::cpu::allocator::Counting;
use luge_benches::cpu::bounds::{LUGE, Verdict, bounds};
use luge_benches::cpu::child::{Trial, attempt, watch};
use luge_benches::cpu::contest::{Lane, contest};
use luge_benches::cpu::luge_peer::Luge;
use luge_benches::cpu::machine::{Machine, command_without_folders, commit, now};
use luge_benches::cpu::results::{
    MatrixResult, Outcome, Phase, Results, Run, SCHEMA, Settings, SolverInfo, Statistic,
};
use luge_benches::cpu::systems::{Origin, Selection, Source, System};
use luge_benches::cpu::table;
use luge_peers::{Found, Missing, NAMES, Peer};
use luge_testkit::corpus::Kind;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs Luge and other solvers on the same matrices, in turn, and compares.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench cpu")]
struct Arguments {
    /// Folder of the corpus.
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// Matrix Market files, instead of a corpus.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    matrix: Vec<PathBuf>,
    /// Generated matrices, instead of a corpus.
    #[arg(long)]
    generated: bool,
    /// Kinds of matrices.
    #[arg(long, value_delimiter = ',', default_value = "circuit,power,cfd,fem")]
    kinds: Vec<Kind>,
    /// These matrices only, whatever their kind.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Leave out matrices of smaller order.
    #[arg(long, default_value_t = 0)]
    min_n: u64,
    /// Leave out matrices of larger order.
    #[arg(long)]
    max_n: Option<u64>,
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
    /// Where a peer's library is: `klu=/usr/lib/libklu.so.1`.
    #[arg(long, value_name = "PEER=FILE")]
    library: Vec<String>,
    /// Seconds of samples per matrix, all solvers together.
    #[arg(long, default_value_t = 6.0)]
    time_budget: f64,
    /// Seconds that a solver may take to read and factorize a matrix for the first time.
    #[arg(long, default_value_t = 60.0)]
    time_limit: f64,
    /// Fewest samples of each phase, whatever the budget.
    #[arg(long, default_value_t = 3)]
    min_rounds: usize,
    /// Most samples of each phase.
    #[arg(long, default_value_t = 15)]
    max_rounds: usize,
    /// What ratios are made of.
    #[arg(long, value_enum, default_value_t = StatisticName::Median)]
    statistic: StatisticName,
    /// Do not try each solver in a process of its own first: no time limit, no resident memory.
    #[arg(long)]
    no_children: bool,
    /// Write the raw results here.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write all tables here as Markdown.
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Also print the times of every solver.
    #[arg(long)]
    times: bool,
    /// Fail if a bound is missed.
    #[arg(long)]
    require: bool,
    /// The commit to record; default: the one that is checked out.
    #[arg(long)]
    commit: Option<String>,
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
            let mut results = read_results(first)?;
            for path in others {
                results.add(read_results(path)?);
            }
            results
        }
        None => run(&arguments)?,
    };
    report(&arguments, &results)
}

fn read_results(path: &Path) -> anyhow::Result<Results> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} holds no results of this benchmark", path.display()))
}

fn library_of(arguments: &Arguments, peer: &str) -> Option<PathBuf> {
    let paths = arguments
        .library
        .iter()
        .filter_map(|word| word.split_once('='));
    paths
        .filter(|(name, _)| *name == peer)
        .map(|(_, path)| PathBuf::from(path))
        .next_back()
}

fn maker(arguments: &Arguments, solver: &str) -> Result<Maker, Missing> {
    if solver == LUGE {
        return Ok(Maker::Luge(arguments.engine.into()));
    }
    Found::load(solver, library_of(arguments, solver).as_ref()).map(Maker::Peer)
}

fn trial(arguments: &Arguments, solver: &str) -> anyhow::Result<Trial> {
    let (name, threads) = solver.split_once('@').context("SOLVER@THREADS")?;
    let maker = maker(arguments, name)?;
    let source = match (arguments.matrix.first(), arguments.only.first()) {
        (Some(path), _) => Source::of_file(path),
        (None, Some(name)) => Source::of_generator(name).context("no such generator")?,
        (None, None) => bail!("a trial needs a matrix"),
    };
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

fn sources(arguments: &Arguments) -> anyhow::Result<Vec<Source>> {
    if !arguments.matrix.is_empty() {
        return Ok(arguments
            .matrix
            .iter()
            .map(|path| Source::of_file(path))
            .collect());
    }
    let selection = Selection {
        kinds: arguments.kinds.clone(),
        only: arguments.only.clone(),
        min_n: arguments.min_n,
        max_n: arguments.max_n,
    };
    match &arguments.corpus {
        _ if arguments.generated => Ok(selection.of_generators()),
        Some(folder) if folder.is_dir() => selection.of_corpus(folder),
        other => {
            let folder = other.as_deref().unwrap_or(Path::new("none given"));
            eprintln!(
                "NO CORPUS ({}): generated matrices stand in for it, and prove less",
                folder.display()
            );
            Ok(selection.of_generators())
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<Results> {
    let settings = Settings {
        time_limit: arguments.time_limit,
        budget: arguments.time_budget,
        min_rounds: arguments.min_rounds.max(1),
        max_rounds: arguments.max_rounds.max(arguments.min_rounds.max(1)),
        statistic: arguments.statistic.into(),
    };
    let sources = sources(arguments)?;
    let entrants = entrants(arguments)?;
    let date = now();
    let mut matrices = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        eprint!("[{}/{}] {:<26}", number + 1, sources.len(), source.name);
        let matrix = match run_matrix(arguments, source, &entrants, &settings) {
            Ok(matrix) => matrix,
            Err(error) => {
                eprintln!(" not read: {error:#}");
                continue;
            }
        };
        eprintln!("{}", line(&matrix, settings.statistic));
        matrices.push(matrix);
    }
    Ok(Results {
        schema: SCHEMA.to_owned(),
        machine: Machine::here(),
        date,
        commit: arguments.commit.clone().unwrap_or_else(commit),
        profile: if cfg!(debug_assertions) {
            "dev"
        } else {
            "release"
        }
        .to_owned(),
        command: command_without_folders(std::env::args()),
        settings,
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
                    try_apart(arguments, source, &entrant.info.name, threads)
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
fn try_apart(
    arguments: &Arguments,
    source: &Source,
    solver: &str,
    threads: usize,
) -> (Outcome, Option<u64>) {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => {
            let reason = format!("this program is not found: {error}");
            return (Outcome::Failed { reason }, None);
        }
    };
    let mut command = Command::new(program);
    command.arg(format!("--child={solver}@{threads}"));
    if let Some(name) = arguments.engine.to_possible_value() {
        command.arg(format!("--engine={}", name.get_name()));
    }
    command.args(
        arguments
            .library
            .iter()
            .map(|word| format!("--library={word}")),
    );
    match &source.origin {
        Origin::File(path) => command.arg("--matrix").arg(path),
        Origin::Generator => command.arg(format!("--only={}", source.name)),
    };
    watch(command, arguments.time_limit)
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
    let mut sections = vec![("Solvers".to_owned(), table::solvers(results))];
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
    if let Some(path) = &arguments.table {
        let machine = &results.machine;
        let mut text = format!(
            "# Luge and its peers on the CPU\n\n{}, {} cores, {} GiB, {}; {}; commit {}; {} build\n\n`{}`\n",
            machine.cpu,
            machine.cores,
            machine.memory_gib,
            machine.system,
            results.date,
            results.commit,
            results.profile,
            results.command.join(" ")
        );
        for (title, table) in sections.iter().chain([&times]) {
            text.push_str(&format!("\n## {title}\n\n{table}\n"));
        }
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string(results)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }

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
