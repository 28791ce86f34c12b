//! The whole LU on a GPU beside KLU and cuDSS; run by `cargo xtask bench numeric`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{bail, ensure};
use clap::{Parser, ValueEnum};
use luge::{BackendChoice, ResidualCheck};
use luge_benches::arguments::{EngineName, LibraryArguments, OutputArguments, SourceArguments};
use luge_benches::ceilings;
use luge_benches::child::{attempt, try_apart};
use luge_benches::machine::{Machine, command_without_folders, now};
use luge_benches::numeric::contenders::{Contender, Luge, LugeSettings, OnCudss, OnKlu, Refusal};
use luge_benches::numeric::measure::{Effort, Lane, measure};
use luge_benches::numeric::problem::{Problem, RESCALING, rescaled};
use luge_benches::numeric::table;
use luge_benches::progress::Progress;
use luge_benches::report::{LUGE, Outcome, SolverInfo, heading, profile};
use luge_benches::results::{
    Benchmark, Ceilings, DeviceInfo, MatrixResult, Phase, Precision, Results, Run, SCHEMA, Settings,
};
use luge_benches::statistics::Statistic;
use luge_benches::systems::Source;
use luge_benches::table::solvers;
use luge_device::{Device, SimulatorOptions, Stream};
use luge_peers::cudss::{self, CudssScalar, threading_layer_beside};
use luge_peers::klu::{self, Klu};
use luge_peers::{Found, Matrix, Missing, Peer};
use luge_sparse::Scalar;

/// KLU's name as it is tried in a process of its own.
const KLU_TRIAL: &str = "klu@1";

/// Runs Luge on a GPU, KLU on one core and cuDSS on the same GPU, in turn, and compares.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench numeric")]
struct Arguments {
    #[command(flatten)]
    sources: SourceArguments,
    /// Leave out matrices with no more entries of L+U.
    #[arg(long, default_value_t = 0)]
    min_entries: u64,
    /// Samples of each phase, of which the median is taken; one a round, and in a round all solvers take their turn.
    #[arg(long, default_value_t = 9)]
    samples: usize,
    /// Seconds from which on a call is not repeated.
    #[arg(long, default_value_t = 10.0)]
    long: f64,
    /// Seconds below which each counted call goes right after one of the same solver that is not counted.
    #[arg(long, default_value_t = 5e-3)]
    short: f64,
    /// Types of matrix and factors; mixed: factors in f32 of a matrix in f64.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "f64,f32,mixed"
    )]
    precisions: Vec<Precision>,
    /// Where Luge runs; times on the simulator mean nothing.
    #[arg(long, value_enum, default_value_t = Backend::Gpu)]
    backend: Backend,
    /// What factorizes on the device in Luge.
    #[arg(long, value_enum, default_value_t = EngineName::Auto)]
    engine: EngineName,
    /// When Luge measures a refactorization on the device by a solve; cuDSS never does.
    #[arg(long, value_enum, default_value_t = Check::Always)]
    residual_check: Check,
    /// Other solvers: klu, cudss; `none` for Luge alone.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "klu,cudss")]
    peers: Vec<PeerName>,
    /// libcudss.so.1, with libcublas.so.13 and libnvrtc.so.13 where its loader finds them.
    #[arg(long, value_name = "FILE")]
    cudss: Option<PathBuf>,
    /// cuDSS's threading layer; default: the one beside the file of `--cudss`, if there is one.
    #[arg(long, value_name = "FILE")]
    cudss_threading: Option<PathBuf>,
    #[command(flatten)]
    libraries: LibraryArguments,
    /// Seconds that KLU may take to read and factorize a matrix for the first time.
    #[arg(long, default_value_t = 60.0)]
    time_limit: f64,
    #[command(flatten)]
    output: OutputArguments,
    /// Print the tables of a finished run, and run nothing.
    #[arg(long, value_name = "FILE")]
    read: Option<PathBuf>,
    /// Try KLU on one matrix and print what happened (for this program's own use).
    #[arg(long, hide = true, value_name = "SOLVER@THREADS")]
    child: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    Gpu,
    Sim,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    Always,
    WhereInDoubt,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PeerName {
    Klu,
    Cudss,
    None,
}

impl Arguments {
    /// The precisions in which Luge runs beside peers in `peers`.
    fn precisions_beside(&self, peers: Precision) -> Vec<Precision> {
        let wanted = |precision: &Precision| {
            precision.of_peer() == peers && self.precisions.contains(precision)
        };
        Precision::ALL.into_iter().filter(wanted).collect()
    }
}

/// What takes part.
struct Setup {
    luge: LugeSettings,
    device: DeviceInfo,
    ceilings: Ceilings,
    cores: usize,
    klu: Option<Arc<klu::Library>>,
    cudss: Option<OpenCudss>,
    solvers: Vec<SolverInfo>,
    effort: Effort,
}

/// cuDSS on a stream.
struct OpenCudss {
    library: Arc<cudss::Library>,
    threading: Option<PathBuf>,
    stream: Stream,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(solver) = &arguments.child {
        ensure!(solver == KLU_TRIAL, "only KLU is tried apart");
        let found = Found::load("klu", arguments.libraries.path("klu").as_ref())?;
        let source = arguments.sources.source_of_trial()?;
        let trial = attempt(&source, found.solver(1).as_mut())?;
        println!("{}", serde_json::to_string(&trial)?);
        return Ok(ExitCode::SUCCESS);
    }
    let results = match &arguments.read {
        Some(path) => Results::read(path)?,
        None => run(&arguments)?,
    };
    report(&arguments, &results)
}

fn info(name: &str, version: String, notes: Vec<String>) -> SolverInfo {
    SolverInfo {
        name: name.to_owned(),
        version,
        threads: vec![1],
        notes,
        missing: None,
    }
}

fn missing(name: &str, reason: &Missing) -> SolverInfo {
    eprintln!("MISSING: {name}: {reason}");
    SolverInfo {
        threads: Vec::new(),
        missing: Some(reason.to_string()),
        ..info(name, "-".to_owned(), Vec::new())
    }
}

impl Setup {
    fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let (backend, device) = match arguments.backend {
            Backend::Gpu => (BackendChoice::Gpu { ordinal: 0 }, Device::cuda(0)?),
            Backend::Sim => (
                BackendChoice::Simulator { seed: 0 },
                Device::simulator(SimulatorOptions::default()),
            ),
        };
        let name = device.properties().name.clone();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let residual_check = match arguments.residual_check {
            Check::Always => ResidualCheck::Always,
            Check::WhereInDoubt => ResidualCheck::WhereInDoubt,
            Check::Never => ResidualCheck::Never,
        };
        let mut notes = vec![name.clone()];
        if residual_check != ResidualCheck::Always {
            notes.push(format!("residual check {residual_check:?}"));
        }
        let mut this = Self {
            luge: LugeSettings {
                backend,
                device_engine: arguments.engine.into(),
                residual_check,
            },
            device: DeviceInfo::of(&device),
            ceilings: ceilings::with_device(&device)?,
            cores,
            klu: None,
            cudss: None,
            solvers: vec![SolverInfo {
                threads: vec![cores],
                ..info(LUGE, env!("CARGO_PKG_VERSION").to_owned(), notes)
            }],
            effort: Effort {
                samples: arguments.samples,
                long: arguments.long,
                short: arguments.short,
            },
        };
        if arguments.peers.contains(&PeerName::Klu) {
            let found = klu::Library::load(arguments.libraries.path("klu").as_ref());
            this.solvers.push(match found.map(Arc::new) {
                Ok(library) => {
                    let klu = Klu::new(Arc::clone(&library));
                    this.klu = Some(library);
                    info("klu", klu.version(), klu.notes())
                }
                Err(reason) => missing("klu", &reason),
            });
        }
        if arguments.peers.contains(&PeerName::Cudss) {
            this.solvers.push(match open_cudss(arguments, &device) {
                Ok((cudss, notes)) => {
                    let version = cudss.library.version().to_owned();
                    this.cudss = Some(cudss);
                    SolverInfo {
                        threads: vec![cores],
                        ..info("cudss", version, notes)
                    }
                }
                Err(reason) => missing("cudss", &reason),
            });
        }
        Ok(this)
    }
}

/// cuDSS with the threading layer that is named, or with the one beside it if that works.
fn open_cudss(arguments: &Arguments, device: &Device) -> Result<(OpenCudss, Vec<String>), Missing> {
    let library = Arc::new(cudss::Library::load(arguments.cudss.as_ref())?);
    let stream = device
        .create_stream()
        .map_err(|error| Missing(error.to_string()))?;
    let beside = || threading_layer_beside(arguments.cudss.as_deref()?);
    let (threading, note) = match arguments.cudss_threading.clone().or_else(beside) {
        None => (None, "no threading layer".to_owned()),
        Some(path) => match library.try_on(&stream, Some(&path)) {
            Ok(()) => (Some(path), "with its threading layer".to_owned()),
            Err(reason) if arguments.cudss_threading.is_some() => return Err(reason),
            Err(reason) => (None, format!("no threading layer: {reason}")),
        },
    };
    library.try_on(&stream, threading.as_deref())?;
    let cudss = OpenCudss {
        library,
        threading,
        stream,
    };
    Ok((cudss, vec![note, "default options".to_owned()]))
}

fn run(arguments: &Arguments) -> anyhow::Result<Results> {
    if arguments.precisions.is_empty() {
        bail!("there is no precision to run in");
    }
    let sources = arguments.sources.sources()?;
    let setup = Setup::new(arguments)?;
    let date = now();
    let mut matrices = Vec::new();
    let progress = Progress::over(sources.len());
    for source in &sources {
        progress.begin(&source.name);
        let line = match run_matrix(arguments, source, &setup) {
            Ok(Some(matrix)) => {
                let line = line(&matrix);
                matrices.push(matrix);
                line
            }
            Ok(None) => " left out".to_owned(),
            Err(error) => format!(" not read: {error:#}"),
        };
        progress.end(&format!("{:<26}{line}", source.name));
    }
    drop(progress);
    Ok(Results {
        schema: SCHEMA.to_owned(),
        benchmark: Benchmark::Numeric,
        machine: Machine::here(),
        device: Some(setup.device),
        date,
        commit: arguments.output.commit(),
        profile: profile().to_owned(),
        command: command_without_folders(std::env::args()),
        settings: Settings {
            time_limit: arguments.time_limit,
            budget: 0.0,
            min_rounds: arguments.samples,
            max_rounds: arguments.samples,
            statistic: Statistic::Median,
        },
        ceilings: setup.ceilings,
        solvers: setup.solvers,
        matrices,
    })
}

/// All solvers on one matrix; `None` if its factors are too small.
fn run_matrix(
    arguments: &Arguments,
    source: &Source,
    setup: &Setup,
) -> anyhow::Result<Option<MatrixResult>> {
    let a = source.read()?;
    let next = rescaled(&a);
    if arguments.min_entries > 0 {
        let problem = Problem::<f64>::new(&a, &next);
        let filled = Luge::new(&problem, setup.luge, Precision::F64)?.filled();
        // A matrix that is refused is run, so that the table says so.
        if filled.is_ok_and(|filled| filled <= arguments.min_entries) {
            return Ok(None);
        }
    }
    let mut runs = Vec::new();
    if !arguments.precisions_beside(Precision::F64).is_empty() {
        let problem = Problem::<f64>::new(&a, &next);
        let klu = setup.klu.as_ref();
        let klu = klu.map(|library| klu_lane(arguments, source, library, &a, &next));
        let mut lanes = lanes(arguments, setup, &problem, Precision::F64);
        lanes.extend(klu);
        runs.extend(measure(&problem, lanes, setup.effort));
    }
    // KLU knows no single precision.
    if !arguments.precisions_beside(Precision::F32).is_empty() {
        let problem = Problem::<f32>::new(&a, &next);
        let lanes = lanes(arguments, setup, &problem, Precision::F32);
        runs.extend(measure(&problem, lanes, setup.effort));
    }
    Ok(Some(MatrixResult {
        name: source.name.clone(),
        kind: source.kind.to_string(),
        n: a.n(),
        nnz: a.nnz(),
        near_singular: source.near_singular,
        refactorized_with: format!("each value times a factor within 1 ± {RESCALING:e}"),
        runs,
    }))
}

/// Luge in each of its precisions in which the peers run in `peers`, and cuDSS.
fn lanes<'a, T: CudssScalar + Scalar>(
    arguments: &Arguments,
    setup: &'a Setup,
    problem: &'a Problem<T>,
    peers: Precision,
) -> Vec<Lane<'a, T>> {
    let lane =
        |name: &str, precision: Precision, made: Result<Box<dyn Contender<T> + 'a>, Refusal>| {
            let mut run = Run::new(name, setup.cores).in_precision(precision);
            match made {
                Ok(contender) => Lane::new(contender, run),
                Err(refusal) => {
                    run.outcome = Outcome::Failed {
                        reason: refusal.to_string(),
                    };
                    Lane::out(run)
                }
            }
        };
    let mut lanes = Vec::new();
    for precision in arguments.precisions_beside(peers) {
        let luge = Luge::new(problem, setup.luge, precision);
        lanes.push(lane(LUGE, precision, luge.map(|luge| Box::new(luge) as _)));
    }
    if let Some(OpenCudss {
        library,
        threading,
        stream,
    }) = &setup.cudss
    {
        let library = Arc::clone(library);
        let cudss = OnCudss::new(problem, library, stream, threading.as_deref());
        lanes.push(lane(
            "cudss",
            peers,
            cudss.map(|cudss| Box::new(cudss) as _),
        ));
    }
    lanes
}

/// KLU, in the race if it factorizes the matrix in time in a process of its own, while nobody else runs.
fn klu_lane(
    arguments: &Arguments,
    source: &Source,
    library: &Arc<klu::Library>,
    a: &Matrix,
    next: &Matrix,
) -> Lane<'static, f64> {
    let words: Vec<String> = arguments.libraries.words().collect();
    let (outcome, _) = try_apart(source, KLU_TRIAL, &words, arguments.time_limit);
    let mut run = Run::new("klu", 1);
    run.outcome = outcome;
    if run.outcome != Outcome::Measured {
        return Lane::out(run);
    }
    let klu = Klu::new(Arc::clone(library));
    Lane::new(Box::new(OnKlu::new(klu, a.clone(), next.clone())), run)
}

/// One line of progress: times of refactorizations, in milliseconds.
fn line(matrix: &MatrixResult) -> String {
    let mut line = format!(" n {:>8}  nnz {:>9} ", matrix.n, matrix.nnz);
    for run in &matrix.runs {
        let words = match (&run.outcome, run.seconds(Phase::Refactorize)) {
            (Outcome::TooSlow { .. }, _) => "too slow".to_owned(),
            (Outcome::Failed { reason }, _) => format!("FAILED ({reason})"),
            (Outcome::Measured, Some(seconds)) => format!("{:.3} ms", seconds * 1e3),
            (Outcome::Measured, None) => "-".to_owned(),
        };
        line.push_str(&format!(" {}@{} {words} ", run.solver, run.precision));
    }
    line
}

fn device_name(results: &Results) -> &str {
    let device = results.device.as_ref();
    device.map_or("no device", |device| device.name.as_str())
}

fn report(arguments: &Arguments, results: &Results) -> anyhow::Result<ExitCode> {
    let sections = [
        ("Solvers", solvers(&results.solvers)),
        ("Geometric means", table::summary(results)),
        ("Every matrix", table::runs(results)),
    ];
    let mut text = heading(
        &format!("The whole LU on {}", device_name(results)),
        &results.machine,
        &results.date,
        &results.commit,
        &results.command,
    );
    for (title, table) in &sections {
        text.push_str(&format!("\n## {title}\n\n{table}\n"));
    }
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
                let (name, precision) = (&run.solver, run.precision);
                println!("WRONG: {name}@{precision} on {}: {wrong}", matrix.name);
                failed |= name == LUGE && !matrix.near_singular;
            }
        }
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
