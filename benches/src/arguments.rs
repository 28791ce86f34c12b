//! Options that commands have in common.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use luge::device::{Device, DeviceError, SimulatorOptions};
use luge::{BackendChoice, DeviceEngine, ResidualCheck};
use luge_peers::{Missing, cudss};
use luge_testkit::corpus::Kind;

use crate::results::{LUGE, Results, Settings, write_json};
use crate::statistics::Statistic;
use crate::systems::{Selection, Source};
use crate::tables::{Counted, report};

/// Where results go.
#[derive(Debug, Clone, Args)]
pub struct OutputArguments {
    /// Write the raw results here as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables here as Markdown.
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    #[command(flatten)]
    counted: Counted,
}

impl OutputArguments {
    /// Prints the tables and writes the files that are asked for. Fails if no matrix ran, or Luge has a wrong solution of
    /// one that is not close to singular, or what it found is not what was expected.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn finish(&self, results: &Results) -> anyhow::Result<ExitCode> {
        let text = report(results, &self.counted);
        println!("{text}");
        if let Some(path) = &self.json {
            write_json(path, results)?;
        }
        if let Some(path) = &self.table {
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let mut failed = results.matrices.is_empty();
        if failed {
            eprintln!("no matrix ran");
        }
        for matrix in &results.matrices {
            for run in &matrix.runs {
                for wrong in run.wrong_solutions() {
                    println!("WRONG: {} on {}: {wrong}", run.solver, matrix.name);
                    failed |= run.solver == LUGE && !matrix.near_singular;
                }
                if let Some([positive, negative]) = matrix.wrong_inertia(run) {
                    println!(
                        "WRONG: {} on {}: inertia {positive} + {negative} −",
                        run.solver, matrix.name
                    );
                }
                failed |= run.equal == Some(false);
            }
        }
        Ok(if failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }
}

/// Results of benchmarks as tables.
#[derive(Debug, Clone, Args)]
pub struct ReportArguments {
    /// Results that `--json` wrote. The matrices of several files are compared together; what is said of the machine and
    /// the commit is the first file's.
    #[arg(required = true, value_name = "RESULTS.json")]
    results: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

impl ReportArguments {
    /// Prints the tables of results that are kept.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let mut all = Results::read(&self.results[0])?;
        for path in &self.results[1..] {
            let other = Results::read(path)?;
            for solver in other.solvers {
                if all.solvers.iter().all(|own| own.name != solver.name) {
                    all.solvers.push(solver);
                }
            }
            all.matrices.extend(other.matrices);
        }
        self.output.finish(&all)
    }
}

/// How often solvers take turns on a matrix, and how long they may take.
#[derive(Debug, Clone, Args)]
pub struct RoundsArguments {
    /// Seconds of samples per matrix, all solvers together.
    #[arg(long, default_value_t = 6.0)]
    time_budget: f64,
    /// Seconds that a solver on the CPU may take to read and factorize a matrix for the first time.
    #[arg(long, default_value_t = 60.0)]
    time_limit: f64,
    /// Fewest samples of each phase, whatever the budget.
    #[arg(long, default_value_t = 3)]
    min_rounds: usize,
    /// Most samples of each phase.
    #[arg(long, default_value_t = 15)]
    max_rounds: usize,
    /// What ratios are made of.
    #[arg(long, value_enum, default_value_t = Statistic::Median)]
    statistic: Statistic,
}

impl RoundsArguments {
    /// One round at least.
    pub fn settings(&self) -> Settings {
        let min_rounds = self.min_rounds.max(1);
        Settings {
            time_limit: self.time_limit,
            budget: self.time_budget,
            min_rounds,
            max_rounds: self.max_rounds.max(min_rounds),
            statistic: self.statistic,
        }
    }
}

/// Where Luge runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The host.
    Cpu,
    /// The first GPU.
    Gpu,
    /// The simulator, whose times mean nothing.
    Sim,
}

impl Backend {
    /// The device, if it is one.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn device(self) -> Result<Option<Device>, DeviceError> {
        Ok(match self {
            Self::Cpu => None,
            Self::Gpu => Some(Device::cuda(0)?),
            Self::Sim => Some(Device::simulator(SimulatorOptions::default())),
        })
    }
}

impl From<Backend> for BackendChoice {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Cpu => Self::Cpu,
            Backend::Gpu => Self::Gpu { ordinal: 0 },
            Backend::Sim => Self::Simulator { seed: 0 },
        }
    }
}

/// When a refactorization on a device is measured by a solve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Check {
    /// Each.
    Always,
    /// Where what is known of the factors leaves a doubt.
    WhereInDoubt,
    /// None.
    Never,
}

impl From<Check> for ResidualCheck {
    fn from(check: Check) -> Self {
        match check {
            Check::Always => Self::Always,
            Check::WhereInDoubt => Self::WhereInDoubt,
            Check::Never => Self::Never,
        }
    }
}

/// What factorizes on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// Whichever is predicted to be faster.
    Auto,
    /// Column by column, level after level.
    Columns,
    /// Fronts up the forest.
    Tree,
}

impl From<EngineName> for DeviceEngine {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Auto => Self::Auto,
            EngineName::Columns => Self::Columns,
            EngineName::Tree => Self::Tree,
        }
    }
}

/// Which matrices.
#[derive(Debug, Clone, Args)]
pub struct SourceArguments {
    /// Folder of the corpus.
    #[arg(long)]
    pub corpus: Option<PathBuf>,
    /// Matrix Market files, instead of a corpus.
    #[arg(long, num_args = 1.., value_name = "FILE")]
    pub matrix: Vec<PathBuf>,
    /// Generated matrices, instead of a corpus.
    #[arg(long)]
    pub generated: bool,
    /// Complex matrices of the corpus, or complex generated ones. Of the matrix of a circuit at its operating point, `x_op`, and
    /// that of a step in time beside it, `x_t1`, the one of its small signals is made, `x_ac`.
    #[arg(long)]
    pub complex: bool,
    /// Matrices of families of any size, real or complex, instead of a corpus: `elasticity:50000`, `ac-multiplier:20000`.
    #[arg(long, value_delimiter = ',', value_name = "NAME:ORDER")]
    pub family: Vec<String>,
    /// Kinds of matrices.
    #[arg(long, value_delimiter = ',', default_value = "circuit,power,cfd,fem")]
    pub kinds: Vec<Kind>,
    /// These matrices only, whatever their kind.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Leave out matrices of smaller order.
    #[arg(long, default_value_t = 0)]
    pub min_n: u64,
    /// Leave out matrices of larger order.
    #[arg(long)]
    pub max_n: Option<u64>,
}

impl SourceArguments {
    /// The matrices that are asked for; generated ones, and a word of it, where the corpus is not there.
    ///
    /// # Errors
    ///
    /// As [`Selection::of_corpus`].
    pub fn sources(&self) -> anyhow::Result<Vec<Source>> {
        if !self.matrix.is_empty() {
            return self.matrix.iter().map(|path| self.of_file(path)).collect();
        }
        if !self.family.is_empty() {
            let of_family = |name: &String| {
                Source::of_generator(name).with_context(|| format!("there is no family {name}"))
            };
            return self.family.iter().map(of_family).collect();
        }
        let selection = Selection {
            kinds: self.kinds.clone(),
            only: self.only.clone(),
            min_n: self.min_n,
            max_n: self.max_n,
            complex: self.complex,
        };
        match &self.corpus {
            _ if self.generated => Ok(selection.of_generators()),
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

    /// A file, which may be complex; a real one, if complex ones are wanted, makes small signals with the one beside it.
    fn of_file(&self, path: &Path) -> anyhow::Result<Source> {
        let source = Source::of_file(path);
        if !self.complex {
            return Ok(source);
        }
        Ok(source.small_signals().unwrap_or(source))
    }

    /// The one matrix of a trial: a file, or the generator that is named.
    ///
    /// # Errors
    ///
    /// If there is neither.
    pub fn source_of_trial(&self) -> anyhow::Result<Source> {
        match (self.matrix.first(), self.only.first()) {
            (Some(path), _) => self.of_file(path),
            (None, Some(name)) => Source::of_generator(name).context("no such generator"),
            (None, None) => bail!("a trial needs a matrix"),
        }
    }
}

/// Where the peers' libraries are.
#[derive(Debug, Clone, Default, Args)]
pub struct LibraryArguments {
    /// Where a peer's library is: `klu=/usr/lib/libklu.so.1`. `cudss=FILE` finds libcublas.so.13 and libnvrtc.so.13 in the
    /// folder it lies in, and its threading layer, if `cudss-threading=FILE` names no other one.
    #[arg(long, value_name = "PEER=FILE")]
    pub library: Vec<String>,
}

impl LibraryArguments {
    /// The last path that is given for `peer`; `pardiso-matched` has that of `pardiso`.
    pub fn path(&self, peer: &str) -> Option<PathBuf> {
        let peer = peer.strip_suffix("-matched").unwrap_or(peer);
        let paths = self.library.iter().filter_map(|word| word.split_once('='));
        paths
            .filter(|(name, _)| *name == peer)
            .map(|(_, path)| PathBuf::from(path))
            .next_back()
    }

    /// cuDSS, on the first GPU.
    ///
    /// # Errors
    ///
    /// [`Missing`] if there is no GPU, or as [`cudss::Found::load`]. What is there without its threading layer is told on
    /// standard error: its analyses take up to three times as long then.
    pub fn cudss(&self) -> Result<cudss::Found, Missing> {
        let device = Device::cuda(0).map_err(|error| Missing(error.to_string()))?;
        self.cudss_on(&[device])
    }

    /// Loads cuDSS for a group of devices.
    ///
    /// # Errors
    ///
    /// As [`cudss`](Self::cudss).
    ///
    /// # Panics
    ///
    /// If there is no device.
    #[track_caller]
    pub fn cudss_on(&self, devices: &[Device]) -> Result<cudss::Found, Missing> {
        let threading = self.path("cudss-threading");
        let found = cudss::Found::load(self.path("cudss").as_ref(), threading, devices)?;
        if let Some(reason) = found.unshared() {
            eprintln!("INCOMPLETE: cudss: {reason}, so its analyses use one core");
        }
        Ok(found)
    }

    /// The options again, for a process of the same program.
    pub fn words(&self) -> impl Iterator<Item = String> {
        self.library.iter().map(|word| format!("--library={word}"))
    }
}
