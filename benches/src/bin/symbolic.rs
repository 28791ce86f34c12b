//! The symbolic phase on a GPU beside the CPU path; run by `cargo xtask bench symbolic`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use luge_benches::arguments::OutputArguments;
use luge_benches::machine::{Machine, command_without_folders, now};
use luge_benches::progress::Progress;
use luge_benches::report::{LUGE, SolverInfo, profile};
use luge_benches::statistics::Statistic;
use luge_benches::symbolic::measure::{self, Effort, Mode, Walk};
use luge_benches::symbolic::patterns::{Source, save};
use luge_benches::symbolic::results::{
    COUNTED_ENTRIES, MatrixResult, Results, fill2, panels, summary,
};
use luge_benches::{ceilings, results};
use luge_device::{Device, SimulatorOptions, Stream};
use luge_testkit::corpus::{Group, Kind};

/// Runs every mode of the symbolic phase on the same patterns, compares the results, and times them.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench symbolic")]
struct Arguments {
    /// Folder of the corpus; its matrices are ordered first.
    #[arg(long)]
    corpus: Option<PathBuf>,
    /// Folder of patterns that `--save` wrote, instead of a corpus.
    #[arg(long, value_name = "FOLDER", conflicts_with = "corpus")]
    patterns: Option<PathBuf>,
    /// Write the ordered patterns to this folder, and run nothing.
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// These matrices only.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Leave out matrices with no more entries of L+U.
    #[arg(long, default_value_t = COUNTED_ENTRIES)]
    min_entries: u64,
    /// Leave out matrices with more entries of L+U.
    #[arg(long, default_value_t = 300_000_000)]
    max_entries: u64,
    /// Ways of the traversal to run beside the automatic mode: `two` stages, `fused` where there is room for the
    /// entries, `auto` for the one of the two that suits the budget, `coarse` for a thread a row; `none` for the
    /// automatic mode alone.
    #[arg(long, value_parser = mode, value_delimiter = ',', default_value = "two,auto")]
    modes: Vec<Option<Mode>>,
    /// Budgets of the traversal, in MiB; 0: the smallest that works.
    #[arg(long, value_delimiter = ',', default_value = "16384,5120,1024,64,0")]
    budgets: Vec<u64>,
    /// Leave out the smallest budget for matrices of larger order: it walks from one row at a time.
    #[arg(long, default_value_t = 20_000)]
    smallest_max_n: usize,
    /// Samples of the automatic mode and of the CPU path, of which the median is taken.
    #[arg(long, default_value_t = 9)]
    samples: usize,
    /// Runs of each traversal, and results that are compared with the CPU path's.
    #[arg(long, default_value_t = 3)]
    repetitions: usize,
    /// Seconds from which on a traversal is run once.
    #[arg(long, default_value_t = 2.0)]
    long: f64,
    /// Where the phases run; times on the simulator mean nothing.
    #[arg(long, value_enum, default_value_t = Backend::Gpu)]
    backend: Backend,
    /// Milliseconds of another program, a line `name milliseconds` a matrix, to compare with.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

impl Arguments {
    /// Whether a matrix with so many entries of L+U is to run.
    fn wants(&self, filled: u64) -> bool {
        filled > self.min_entries && filled <= self.max_entries
    }
}

/// A mode, or none.
fn mode(name: &str) -> Result<Option<Mode>, String> {
    if name == "none" {
        return Ok(None);
    }
    Mode::from_str(name, false).map(Some)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    Gpu,
    Sim,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut sources = match (&arguments.patterns, &arguments.corpus) {
        (Some(folder), _) => Source::of_saved(folder)?,
        (None, Some(folder)) => Source::of_corpus(folder)?,
        (None, None) => bail!("where are the matrices? --corpus or --patterns"),
    };
    if !arguments.only.is_empty() {
        sources.retain(|source| arguments.only.contains(&source.name));
    }
    if let Some(folder) = &arguments.save {
        save_all(&sources, folder, &arguments)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (results, recorded) = run(&arguments, &sources)?;
    let text = format!(
        "{}\n\n{}\n\n{}\n",
        panels(&results),
        fill2(&results),
        summary(&results)
    );
    print!("{text}");
    arguments
        .output
        .write(&recorded, &text, arguments.corpus.as_deref())?;
    let is_equal = results.matrices.iter().all(MatrixResult::is_equal);
    if results.matrices.is_empty() {
        eprintln!("no matrix ran");
    }
    Ok(if is_equal && !results.matrices.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn save_all(sources: &[Source], folder: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for source in sources {
        let Some(pattern) = source.pattern()? else {
            eprintln!("{}: structurally singular", source.name);
            continue;
        };
        let filled = luge_symbolic::cpu::counts(&pattern)?.nnz();
        if arguments.wants(filled) {
            eprintln!("{}: {filled} entries of L+U", source.name);
            save(folder, &source.name, &pattern)?;
        }
    }
    Ok(())
}

/// Seconds by matrix.
fn peer(path: &Path) -> anyhow::Result<HashMap<String, f64>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, milliseconds) = line
                .split_once(char::is_whitespace)
                .with_context(|| format!("not `name milliseconds`: {line}"))?;
            Ok((name.to_owned(), milliseconds.trim().parse::<f64>()? / 1e3))
        })
        .collect()
}

/// What the tables are made of, and the same in the format of all benchmarks.
fn run(arguments: &Arguments, sources: &[Source]) -> anyhow::Result<(Results, results::Results)> {
    let peer = match &arguments.against {
        Some(path) => peer(path)?,
        None => HashMap::new(),
    };
    let device = match arguments.backend {
        Backend::Gpu => Device::cuda(0)?,
        Backend::Sim => Device::simulator(SimulatorOptions::default()),
    };
    luge_symbolic::gpu::load_kernels(&device)?;
    let stream = device.create_stream()?;
    let memory = measure::ceilings(&stream)?;
    let date = now();
    let progress = Progress::over(sources.len());
    let mut matrices = Vec::new();
    for source in sources {
        progress.begin(&source.name);
        let line = match run_matrix(arguments, source, &stream, &peer)? {
            Some(matrix) => {
                let speedup = matrix.speedup();
                let equal = if matrix.is_equal() { "" } else { " NOT EQUAL" };
                let line = format!(" {} entries, {speedup:.1} x{equal}", matrix.filled);
                matrices.push(matrix);
                line
            }
            None => " left out".to_owned(),
        };
        progress.end(&format!("{:<26}{line}", source.name));
    }
    drop(progress);
    let recorded = results::Results {
        schema: results::SCHEMA.to_owned(),
        benchmark: results::Benchmark::Symbolic,
        machine: Machine::here(),
        device: Some(results::DeviceInfo::of(&device)),
        date,
        commit: arguments.output.commit(),
        profile: profile().to_owned(),
        command: command_without_folders(std::env::args()),
        settings: results::Settings {
            time_limit: 0.0,
            budget: 0.0,
            min_rounds: arguments.repetitions.max(1),
            max_rounds: arguments.samples.max(1),
            statistic: Statistic::Median,
        },
        ceilings: results::Ceilings {
            copy: Some(memory.copy),
            cached_stream: Some(memory.cached_stream),
            cached_scattered: Some(memory.cached_scattered),
            scattered: Some(memory.scattered),
            ..ceilings::of_host()
        },
        solvers: vec![SolverInfo {
            name: LUGE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            threads: vec![1],
            notes: Vec::new(),
            missing: None,
        }],
        matrices: matrices.iter().map(MatrixResult::recorded).collect(),
    };
    let results = Results {
        ceilings: memory,
        matrices,
    };
    Ok((results, recorded))
}

/// Everything on one matrix; `None` if it is structurally singular, or too small, or too large.
fn run_matrix(
    arguments: &Arguments,
    source: &Source,
    stream: &Stream,
    peer: &HashMap<String, f64>,
) -> anyhow::Result<Option<MatrixResult>> {
    let Some(pattern) = source.pattern()? else {
        return Ok(None);
    };
    let filled = luge_symbolic::cpu::counts(&pattern)?.nnz();
    if !arguments.wants(filled) {
        return Ok(None);
    }
    let effort = Effort {
        samples: arguments.samples.max(1),
        repetitions: arguments.repetitions.max(1),
        long: arguments.long,
    };
    let (cpu, expected) = measure::on_cpu(&pattern, effort.samples)?;
    let panels = measure::by_panels(stream, &pattern, &expected, effort)?;
    let supernodes = measure::supernodes(stream, &expected, effort)?;
    let mut fill2 = Vec::new();
    for mode in arguments.modes.iter().copied().flatten() {
        for &mib in &arguments.budgets {
            if mib == 0 && pattern.major_dim() > arguments.smallest_max_n {
                continue;
            }
            let walk = Walk {
                mode,
                budget_bytes: (mib > 0).then_some(mib << 20),
            };
            match measure::by_fill2(stream, &pattern, &expected, walk, effort)? {
                Some(run) => fill2.push(run),
                None => eprintln!("{}, {mode}: {mib} MiB are not enough", source.name),
            }
        }
    }
    Ok(Some(MatrixResult {
        name: source.name.clone(),
        n: pattern.major_dim(),
        nnz: pattern.nnz(),
        filled: expected.nnz(),
        kind: Kind::of(&Group::Collection, &source.name).to_string(),
        cpu,
        peer_seconds: peer.get(&source.name).copied(),
        panels,
        fill2,
        supernodes,
    }))
}
