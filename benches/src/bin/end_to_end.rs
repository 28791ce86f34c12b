//! From the matrix to a solution, Luge on the CPU and on a GPU beside all peers; run by
//! `cargo xtask bench end-to-end`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use luge::{BackendChoice, Options};
use luge_benches::arguments::{
    LibraryArguments, OutputArguments, RoundsArguments, SourceArguments,
};
use luge_benches::ceilings;
use luge_benches::child::{Trial, attempt, try_apart};
use luge_benches::cpu::contest::{Lane, contest};
use luge_benches::cpu::luge_peer::Luge;
use luge_benches::cudss_peer::OnCudss;
use luge_benches::machine::{Machine, command_without_folders, now};
use luge_benches::page::field::{Contender, contenders, ratios};
use luge_benches::progress::Progress;
use luge_benches::report::{LUGE, Outcome, SolverInfo, heading, profile};
use luge_benches::results::{
    Benchmark, Ceilings, DeviceInfo, MatrixResult, Phase, Results, Run, SCHEMA, Settings,
};
use luge_benches::statistics::Statistic;
use luge_benches::systems::{Source, System};
use luge_benches::table::solvers;
use luge_device::{Device, SimulatorOptions};
use luge_peers::cudss::{self, threading_layer_beside};
use luge_peers::{Found, Missing, NAMES, Peer};

/// Measures analysis, factorization and solve together, of Luge on all its paths and of all peers, in turn.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench end-to-end")]
struct Arguments {
    #[command(flatten)]
    sources: SourceArguments,
    /// Where Luge runs; a GPU that is not there is shown as missing.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cpu,gpu")]
    backends: Vec<Backend>,
    /// Threads on the CPU, of Luge and of the peers that use more than one. Default: all cores.
    #[arg(long)]
    threads: Option<usize>,
    /// Other solvers: klu, umfpack, superlu, faer, cudss; `none` for Luge alone.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "klu,umfpack,superlu,faer,cudss"
    )]
    peers: Vec<String>,
    /// libcudss.so.1, with libcublas.so.13 and libnvrtc.so.13 where its loader finds them.
    #[arg(long, value_name = "FILE")]
    cudss: Option<PathBuf>,
    #[command(flatten)]
    libraries: LibraryArguments,
    #[command(flatten)]
    rounds: RoundsArguments,
    #[command(flatten)]
    output: OutputArguments,
    /// Print the tables of a finished run, and run nothing.
    #[arg(long, value_name = "FILE")]
    read: Option<PathBuf>,
    /// Try one solver on one matrix and print what happened (for this program's own use).
    #[arg(long, hide = true, value_name = "SOLVER@THREADS")]
    child: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    Cpu,
    Gpu,
    /// The kernels on the host, to try the program; times mean nothing.
    Sim,
}

impl Backend {
    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Sim => "sim",
        }
    }
}

/// Who takes part.
struct Entrant {
    name: &'static str,
    variant: &'static str,
    threads: usize,
    maker: Maker,
}

enum Maker {
    Luge(BackendChoice),
    OnCpu(Found),
    Cudss {
        library: Arc<cudss::Library>,
        device: Device,
        threading: Option<PathBuf>,
    },
}

impl Maker {
    fn solver(&self, threads: usize) -> anyhow::Result<Box<dyn Peer>> {
        Ok(match self {
            Self::Luge(backend) => Box::new(Luge::with_options(Options {
                backend: *backend,
                threads: Some(threads),
                ..Options::default()
            })?),
            Self::OnCpu(found) => found.solver(threads),
            Self::Cudss {
                library,
                device,
                threading,
            } => {
                let note = match threading {
                    Some(_) => "with its threading layer",
                    None => "no threading layer",
                };
                let notes = vec![note.to_owned(), "default options".to_owned()];
                let stream = device.create_stream()?;
                let library = Arc::clone(library);
                Box::new(OnCudss::new(library, &stream, threading.as_deref(), notes)?)
            }
        })
    }

    /// Whether it is tried in a process of its own first: a process on a GPU takes seconds to begin.
    fn is_tried_apart(&self) -> bool {
        matches!(self, Self::Luge(BackendChoice::Cpu) | Self::OnCpu(_))
    }
}

struct Setup {
    entrants: Vec<Entrant>,
    solvers: Vec<SolverInfo>,
    device: Option<Device>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(solver) = &arguments.child {
        let trial = trial(&arguments, solver)?;
        println!("{}", serde_json::to_string(&trial)?);
        return Ok(ExitCode::SUCCESS);
    }
    let results = match &arguments.read {
        Some(path) => Results::read(path)?,
        None => run(&arguments)?,
    };
    report(&arguments, &results)
}

fn trial(arguments: &Arguments, solver: &str) -> anyhow::Result<Trial> {
    let (name, threads) = solver.split_once('@').context("SOLVER@THREADS")?;
    let maker = match name {
        LUGE => Maker::Luge(BackendChoice::Cpu),
        peer => Maker::OnCpu(Found::load(peer, arguments.libraries.path(peer).as_ref())?),
    };
    let source = arguments.sources.source_of_trial()?;
    attempt(&source, maker.solver(threads.parse()?)?.as_mut())
}

fn missing(name: &str, reason: &str) -> SolverInfo {
    eprintln!("MISSING: {name}: {reason}");
    SolverInfo {
        name: name.to_owned(),
        version: "-".to_owned(),
        threads: Vec::new(),
        notes: Vec::new(),
        missing: Some(reason.to_owned()),
    }
}

impl Setup {
    fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = arguments.threads.unwrap_or(cores).max(1);
        let mut this = Self {
            entrants: Vec::new(),
            solvers: Vec::new(),
            device: None,
        };
        for &backend in &arguments.backends {
            let choice = match backend {
                Backend::Cpu => BackendChoice::Cpu,
                Backend::Gpu => match Device::cuda(0) {
                    Ok(device) => {
                        this.device = Some(device);
                        BackendChoice::Gpu { ordinal: 0 }
                    }
                    Err(error) => {
                        this.solvers.push(missing("luge (gpu)", &error.to_string()));
                        continue;
                    }
                },
                Backend::Sim => {
                    this.device = Some(Device::simulator(SimulatorOptions::default()));
                    BackendChoice::Simulator { seed: 0 }
                }
            };
            this.add(LUGE, backend.name(), threads, Maker::Luge(choice))?;
        }
        for peer in &arguments.peers {
            match NAMES.into_iter().find(|name| name == peer) {
                _ if peer == "none" => {}
                Some(name) => match Found::load(name, arguments.libraries.path(name).as_ref()) {
                    Ok(found) => {
                        let threads = if found.uses_threads() { threads } else { 1 };
                        this.add(name, "", threads, Maker::OnCpu(found))?;
                    }
                    Err(reason) => this.solvers.push(missing(name, &reason.to_string())),
                },
                None if peer == "cudss" => match open_cudss(arguments) {
                    Ok(maker) => this.add("cudss", "", threads, maker)?,
                    Err(reason) => this.solvers.push(missing("cudss", &reason.to_string())),
                },
                None => bail!("{peer} is none of {}, cudss", NAMES.join(", ")),
            }
        }
        Ok(this)
    }

    fn add(
        &mut self,
        name: &'static str,
        variant: &'static str,
        threads: usize,
        maker: Maker,
    ) -> anyhow::Result<()> {
        let solver = maker.solver(threads)?;
        let label = match variant {
            "" => name.to_owned(),
            variant => format!("{name} ({variant})"),
        };
        self.solvers.push(SolverInfo {
            name: label,
            version: solver.version(),
            threads: vec![threads],
            notes: solver.notes(),
            missing: None,
        });
        self.entrants.push(Entrant {
            name,
            variant,
            threads,
            maker,
        });
        Ok(())
    }
}

/// cuDSS, with the threading layer beside it if that works.
fn open_cudss(arguments: &Arguments) -> Result<Maker, Missing> {
    let library = Arc::new(cudss::Library::load(arguments.cudss.as_ref())?);
    let device = Device::cuda(0).map_err(|error| Missing(error.to_string()))?;
    let stream = device.create_stream();
    let stream = stream.map_err(|error| Missing(error.to_string()))?;
    let beside = arguments.cudss.as_deref().and_then(threading_layer_beside);
    let threading = beside.filter(|layer| library.try_on(&stream, Some(layer)).is_ok());
    library.try_on(&stream, threading.as_deref())?;
    Ok(Maker::Cudss {
        library,
        device,
        threading,
    })
}

fn run(arguments: &Arguments) -> anyhow::Result<Results> {
    let settings = arguments.rounds.settings(Statistic::Median);
    let sources = arguments.sources.sources()?;
    let setup = Setup::new(arguments)?;
    let date = now();
    let progress = Progress::over(sources.len());
    let mut matrices = Vec::new();
    for source in &sources {
        progress.begin(&source.name);
        let line = match run_matrix(arguments, source, &setup, &settings) {
            Ok(matrix) => {
                let line = line(&matrix);
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
        benchmark: Benchmark::EndToEnd,
        machine: Machine::here(),
        device: setup.device.as_ref().map(DeviceInfo::of),
        date,
        commit: arguments.output.commit(),
        profile: profile().to_owned(),
        command: command_without_folders(std::env::args()),
        settings,
        ceilings: ceilings_of(setup.device.as_ref())?,
        solvers: setup.solvers,
        matrices,
    })
}

fn ceilings_of(device: Option<&Device>) -> anyhow::Result<Ceilings> {
    Ok(match device {
        Some(device) => ceilings::with_device(device)?,
        None => ceilings::of_host(),
    })
}

fn run_matrix(
    arguments: &Arguments,
    source: &Source,
    setup: &Setup,
    settings: &Settings,
) -> anyhow::Result<MatrixResult> {
    let system = System::read(source)?;
    let words: Vec<String> = arguments.libraries.words().collect();
    let mut lanes = Vec::new();
    for entrant in &setup.entrants {
        let mut run = Run::new(entrant.name, entrant.threads).in_variant(entrant.variant);
        if entrant.maker.is_tried_apart() {
            let solver = format!("{}@{}", entrant.name, entrant.threads);
            let (outcome, resident) = try_apart(source, &solver, &words, settings.time_limit);
            run.outcome = outcome;
            run.memory.resident = resident;
        }
        let peer = entrant.maker.solver(entrant.threads)?;
        lanes.push(Lane::new(peer, run, false));
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

fn label(run: &Run) -> String {
    match run.variant.as_str() {
        "" => run.solver.clone(),
        variant => format!("{} ({variant})", run.solver),
    }
}

/// One line of progress: times of first solutions, in milliseconds.
fn line(matrix: &MatrixResult) -> String {
    let mut line = format!(" n {:>8}  nnz {:>9} ", matrix.n, matrix.nnz);
    for run in &matrix.runs {
        let words = match (&run.outcome, run.seconds(Phase::FirstSolve)) {
            (Outcome::TooSlow { .. }, _) => "too slow".to_owned(),
            (Outcome::Failed { reason }, _) => format!("FAILED ({reason})"),
            (Outcome::Measured, Some(seconds)) => format!("{:.3} ms", seconds * 1e3),
            (Outcome::Measured, None) => "-".to_owned(),
        };
        line.push_str(&format!(" {} {words} ", label(run)));
    }
    line
}

/// Luge's ratios to all others, a line each.
fn summary(results: &Results) -> String {
    let all = contenders(results);
    let (ours, others): (Vec<&Contender>, Vec<&Contender>) =
        all.iter().partition(|contender| contender.solver == LUGE);
    let mut lines = vec!["Luge's time / the other's, geometric means:".to_owned()];
    for luge in &ours {
        for other in &others {
            for phase in [Phase::FirstSolve, Phase::Refactorize, Phase::Solve] {
                let what = format!("{} / {}, {}", luge.label(), other.label(), phase.title());
                lines.extend(ratios(results, luge, other, phase).line(&what, true));
            }
        }
    }
    lines.join("\n")
}

fn report(arguments: &Arguments, results: &Results) -> anyhow::Result<ExitCode> {
    let mut text = heading(
        results.benchmark.title(),
        &results.machine,
        &results.date,
        &results.commit,
        &results.command,
    );
    text.push_str(&format!("\n## Solvers\n\n{}\n", solvers(&results.solvers)));
    text.push_str(&format!("\n## Geometric means\n\n{}\n", summary(results)));
    println!("{text}");
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
                println!("WRONG: {} on {}: {wrong}", label(run), matrix.name);
                failed |= run.solver == LUGE && !matrix.near_singular;
            }
        }
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
