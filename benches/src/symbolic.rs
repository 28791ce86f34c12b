//! The benchmark of the symbolic phase on a device: the automatic mode, and every traversal in every budget, beside the
//! path of the CPU on the same patterns. Whatever is found must be the same, entry for entry.
//!
//! A pattern is that of the matrix with its rows matched by value, in the order in which the CPU path eliminates.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::{Args, ValueEnum};
use luge_device::Stream;
use luge_matrix_io::{WriteOptions, write_pattern};
use luge_sparse::{CompressedPattern, FilledPattern};
use luge_supernode as supernode;
use luge_symbolic::SymbolicError;
use luge_symbolic::gpu::{
    DeviceFilled, Fill2Options, PanelOptions, Parallelism, Stages, fill2, panels, smallest_budget,
};

use crate::arguments::{Backend, OutputArguments, SourceArguments};
use crate::ceilings;
use crate::progress::Progress;
use crate::results::{
    Benchmark, Field, LUGE, MatrixResult, Phase, Results, Run, Settings, SolverInfo,
};
use crate::statistics::{Samples, Statistic};
use crate::systems::{Source, ordered_pattern};

/// Measures the symbolic phase.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    #[command(flatten)]
    sources: SourceArguments,
    /// Write the patterns here as Matrix Market, for another program, and measure nothing.
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// Leave out patterns with no more entries of L+U than this.
    #[arg(long, default_value_t = 500_000)]
    min_entries: u64,
    /// Leave out patterns with more entries of L+U than this.
    #[arg(long, default_value_t = 300_000_000)]
    max_entries: u64,
    /// Traversals that run beside the automatic mode; `none` for none.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "two,auto")]
    modes: Vec<Mode>,
    /// Their budgets in MiB; 0: the smallest that works, up to order 20,000.
    #[arg(long, value_delimiter = ',', default_value = "16384,5120,1024,64,0")]
    budgets: Vec<u64>,
    /// Samples of the automatic mode and of the CPU path.
    #[arg(long, default_value_t = 9)]
    samples: usize,
    /// Samples of each traversal; one that takes more than 2 s runs once.
    #[arg(long, default_value_t = 3)]
    repetitions: usize,
    /// Where it runs.
    #[arg(long, value_enum, default_value_t = Backend::Gpu)]
    backend: Backend,
    /// Milliseconds of another program on the same patterns, a line `name milliseconds` each.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

/// A traversal that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Nothing.
    None,
    /// Counting, then positions.
    Two,
    /// Both in one pass.
    Fused,
    /// Whichever the budget allows.
    Auto,
    /// Counting, then positions, a source a block.
    Coarse,
}

impl Mode {
    fn options(self) -> Fill2Options {
        let (stages, parallelism) = match self {
            Self::Two | Self::None => (Stages::Two, Parallelism::Fine),
            Self::Fused => (Stages::Fused, Parallelism::Fine),
            Self::Auto => (Stages::Auto, Parallelism::Fine),
            Self::Coarse => (Stages::Two, Parallelism::Coarse),
        };
        Fill2Options {
            stages,
            parallelism,
            ..Fill2Options::default()
        }
    }
}

/// A traversal whose call took longer than this in seconds is not repeated.
const LONG: f64 = 2.0;
/// Largest order on which the smallest budget is tried.
const SMALLEST_MAX_N: usize = 20_000;

impl Arguments {
    /// Runs the benchmark; fails if anything that was found differs from what the CPU path finds, or nothing ran.
    ///
    /// # Errors
    ///
    /// If the matrices cannot be listed, the device fails, or a file cannot be written.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let sources = self.sources.sources()?;
        if let Some(folder) = &self.save {
            return self.save(&sources, folder);
        }
        let against = self.against()?;
        let device = self
            .backend
            .device()?
            .context("the CPU is always beside the device")?;
        luge_symbolic::gpu::load_kernels(&device)?;
        let stream = device.create_stream()?;
        let settings = Settings {
            time_limit: 0.0,
            budget: 0.0,
            min_rounds: self.repetitions.max(1),
            max_rounds: self.samples.max(1),
            statistic: Statistic::Median,
        };
        let mut results = Results::begun(Benchmark::Symbolic, settings, Some(&device));
        results.ceilings = ceilings::with_device(&device)?;
        results.solvers.push(SolverInfo {
            name: LUGE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            threads: vec![1],
            notes: Vec::new(),
            missing: None,
        });
        let progress = Progress::over(sources.len());
        for source in &sources {
            progress.begin(&source.name);
            let line = match self.run_matrix(source, &stream)? {
                Some(mut matrix) => {
                    if let Some(&seconds) = against.get(&source.name) {
                        let mut run = Run::new("another program", 1);
                        run.phases
                            .insert(Phase::Symbolic, Samples::new(vec![seconds]));
                        matrix.runs.push(run);
                    }
                    let line = format!(" {} entries", matrix.filled().unwrap_or(0));
                    results.matrices.push(matrix);
                    line
                }
                None => " left out".to_owned(),
            };
            progress.end(&format!("{:<26}{line}", source.name));
        }
        drop(progress);
        self.output.finish(&results)
    }

    /// The pattern of a source; `None` if it is singular in structure or its factors are not wanted.
    fn pattern(&self, source: &Source) -> anyhow::Result<Option<CompressedPattern>> {
        let Ok(pattern) = ordered_pattern(source.read_real()?.rows()) else {
            return Ok(None);
        };
        let filled = luge_symbolic::cpu::counts(&pattern)?.nnz();
        let wanted = filled > self.min_entries && filled <= self.max_entries;
        Ok(wanted.then_some(pattern))
    }

    fn save(&self, sources: &[Source], folder: &PathBuf) -> anyhow::Result<ExitCode> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for source in sources {
            if let Some(pattern) = self.pattern(source)? {
                let path = folder.join(format!("{}.mtx", source.name));
                write_pattern(&path, &pattern, &WriteOptions::default())
                    .with_context(|| format!("cannot write {}", path.display()))?;
                println!("{}", path.display());
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Seconds by name.
    fn against(&self) -> anyhow::Result<HashMap<String, f64>> {
        let Some(path) = &self.against else {
            return Ok(HashMap::new());
        };
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|line| {
                let (name, milliseconds) = line
                    .split_once(char::is_whitespace)
                    .with_context(|| format!("not `name milliseconds`: {line}"))?;
                Ok((name.to_owned(), milliseconds.trim().parse::<f64>()? / 1e3))
            })
            .collect()
    }

    fn run_matrix(&self, source: &Source, stream: &Stream) -> anyhow::Result<Option<MatrixResult>> {
        let Some(pattern) = self.pattern(source)? else {
            return Ok(None);
        };
        let (cpu, expected) = self.on_cpu(&pattern)?;
        let mut runs = vec![
            cpu,
            self.by_panels(stream, &pattern, &expected)?,
            self.supernodes(stream, &expected)?,
        ];
        for &mode in self.modes.iter().filter(|mode| **mode != Mode::None) {
            for &mib in &self.budgets {
                if mib > 0 || pattern.major_dim() <= SMALLEST_MAX_N {
                    match self.by_fill2(stream, &pattern, &expected, mode, mib)? {
                        Some(run) => runs.push(run),
                        None => eprintln!("{}, {mode:?}: {mib} MiB are not enough", source.name),
                    }
                }
            }
        }
        for run in &mut runs {
            run.factor_entries = Some(expected.nnz() as u64);
        }
        Ok(Some(MatrixResult {
            name: source.name.clone(),
            kind: source.kind.to_string(),
            field: Field::Real,
            n: pattern.major_dim(),
            nnz: pattern.nnz(),
            near_singular: false,
            refactorized_with: String::new(),
            runs,
        }))
    }

    fn on_cpu(&self, pattern: &CompressedPattern) -> Result<(Run, FilledPattern), SymbolicError> {
        let (mut seconds, mut last) = (Vec::new(), None);
        for _ in 0..self.samples.max(1) {
            // Freeing the last result is not timed.
            drop(last.take());
            let start = Instant::now();
            let filled = luge_symbolic::cpu::filled_pattern(pattern)?;
            seconds.push(start.elapsed().as_secs_f64());
            last = Some(filled);
        }
        let filled = last.unwrap_or_else(|| unreachable!("there is a sample"));
        Ok((run("cpu", Phase::Symbolic, seconds), filled))
    }

    /// The automatic mode; the transposed form of the pattern, which solves need, does not count.
    fn by_panels(
        &self,
        stream: &Stream,
        pattern: &CompressedPattern,
        expected: &FilledPattern,
    ) -> Result<Run, SymbolicError> {
        let (mut seconds, mut equal, mut last) = (Vec::new(), true, None);
        for sample in 0..self.samples.max(1) + 2 {
            let start = Instant::now();
            let (filled, report) = panels(stream, pattern, &PanelOptions::default())?;
            stream.synchronize()?;
            let all = start.elapsed().as_secs_f64() - report.seconds.columns;
            if sample < self.repetitions {
                equal &= filled.download(stream)? == *expected;
            }
            // The first calls are not counted.
            if sample >= 2 {
                seconds.push(all);
                last = Some((all - report.seconds.transfer, report));
            }
        }
        let mut run = run("panels", Phase::Symbolic, seconds);
        if let Some((on_device, report)) = last {
            run.device_seconds.insert(Phase::Symbolic, on_device);
            run.memory.device = Some(report.peak_bytes);
            run.inform = serde_json::to_value(report).ok();
        }
        run.equal = Some(equal);
        Ok(run)
    }

    /// A traversal within `mib`, 0 being the smallest budget that works; `None` if it does not get along with that.
    fn by_fill2(
        &self,
        stream: &Stream,
        pattern: &CompressedPattern,
        expected: &FilledPattern,
        mode: Mode,
        mib: u64,
    ) -> Result<Option<Run>, SymbolicError> {
        let mut options = mode.options();
        let (bytes, budget) = match mib {
            0 => (
                smallest_budget(pattern, &options),
                "the smallest budget".to_owned(),
            ),
            mib => (mib << 20, format!("{mib} MiB")),
        };
        options.budget_bytes = Some(bytes);
        let (mut seconds, mut equal, mut last) = (Vec::new(), true, None);
        for repetition in 0..=self.repetitions.max(1) {
            let start = Instant::now();
            let (filled, report) = match fill2(stream, pattern, &options) {
                Err(SymbolicError::OutOfMemory { .. }) => return Ok(None),
                done => done?,
            };
            stream.synchronize()?;
            let all = start.elapsed().as_secs_f64();
            equal &= filled.download(stream)? == *expected;
            let is_long = all > LONG;
            // The first call is not counted, unless it stays the only one.
            if repetition > 0 || is_long {
                seconds.push(all - report.seconds.columns);
                last = Some(report);
            }
            if is_long {
                break;
            }
        }
        let name = mode.to_possible_value();
        let name = name.as_ref().map_or("", |name| name.get_name());
        let mut run = run(&format!("fill2 {name}, {budget}"), Phase::Symbolic, seconds);
        if let Some(report) = last {
            let walked = report.seconds.count + report.seconds.positions;
            let edges = report.traversed_edges as f64 / walked;
            run.details.push(format!("{edges:.2e} edges/s"));
            run.memory.device = Some(report.pool.peak_bytes);
            run.inform = serde_json::to_value(report).ok();
        }
        run.equal = Some(equal);
        Ok(Some(run))
    }

    fn supernodes(&self, stream: &Stream, expected: &FilledPattern) -> anyhow::Result<Run> {
        let filled = DeviceFilled::upload(stream, expected)?;
        let options = supernode::Options::default();
        let definition = supernode::cpu::supernodes(expected, &options);
        let (mut seconds, mut equal) = (Vec::new(), true);
        for sample in 0..self.samples.max(1) + 2 {
            stream.synchronize()?;
            let start = Instant::now();
            let found = supernode::gpu::supernodes(stream, &filled, &options)?;
            stream.synchronize()?;
            let all = start.elapsed().as_secs_f64();
            if sample < self.repetitions {
                equal &= found.download(stream)? == definition;
            }
            if sample >= 2 {
                seconds.push(all);
            }
        }
        let mut run = run("supernodes", Phase::Supernodes, seconds);
        run.details.push(format!("{} supernodes", definition.len()));
        run.equal = Some(equal);
        Ok(run)
    }
}

fn run(variant: &str, phase: Phase, seconds: Vec<f64>) -> Run {
    let mut run = Run::new(LUGE, 1).in_variant(variant);
    run.phases.insert(phase, Samples::new(seconds));
    run
}
