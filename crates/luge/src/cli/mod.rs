//! Command line: arguments, exit codes, and which module does what.
//!
//! | module | what |
//! |---|---|
//! | [`solve`] | `luge solve` |
//! | [`repeat`] | `luge solve --repeat` |
//! | [`analyze`] | `luge analyze` |
//! | [`info`] | `luge info` |
//! | [`input`] | matrices, samples and right-hand sides |
//! | [`files`] | which files may be written, and how |
//! | [`memory`] | what the machine has left |
//! | [`print`] | standard output and standard error |
//! | `plot` | pictures, with the feature `plot` |
//! | `ranks` | `luge solve --mpi`, with the feature `mpi` |
//! | [`sample`] | generated matrices |
//! | [`progress`] | the bar of a phase that lasts, fed by `tracing` |
//! | [`report`] | the table and the JSON file |

mod analyze;
mod files;
mod info;
mod input;
mod memory;
#[cfg(feature = "plot")]
mod plot;
mod print;
mod progress;
#[cfg(feature = "mpi")]
mod ranks;
mod repeat;
mod report;
mod sample;
mod solve;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use files::{Destination, Files};
use luge::Scalar;
use luge::ordering::{Matching, Method, OrderingOptions};
use luge::{
    Analysis, BackendChoice, ColPerm, CpuEngine, DealOut, DeviceEngine, Error, FactorPrecision,
    MatrixKind, Options, Ordinals, Pivoting, RowPerm, SavedError, SingularAction, Solver,
};
use sprs::CsMat;

/// Sparse direct solver for GPUs and CPUs.
#[derive(Parser)]
#[command(
    name = "luge",
    version,
    about,
    after_help = "Exit codes: 0 solved, 2 bad input, 3 singular or unstable, 4 device trouble, 1 anything else. A closed pipe\nends what is printed; the exit code is still that of the work.\nFiles that exist are overwritten with --force alone.\nRows and columns in messages count from 0, except where they name a place in a file."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Solve a linear system.
    Solve(solve::Arguments),
    /// Order a matrix and predict the cost of its factors, without computing them.
    Analyze(analyze::Arguments),
    /// Describe a matrix.
    Info(info::Arguments),
}

/// What `luge solve` and `luge analyze` share.
#[derive(Args)]
struct SolverArguments {
    /// Where to run: a GPU if there is one, the CPU, a GPU, or the simulator of its kernels.
    #[arg(long, value_enum, default_value = "auto")]
    backend: BackendName,
    /// Number of the GPU, or of several with commas between them, or `all`: they share the traversals of the columns' symbolic
    /// phase.
    #[arg(long, default_value = "0", value_name = "N")]
    device: Ordinals,
    /// Seed of the simulator's thread schedule.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What kind of matrix it is. A symmetric one is factorized as L·D·Lᵀ, or if it is positive definite as L·Lᵀ.
    #[arg(long, value_enum, default_value = "general")]
    kind: KindName,
    /// What becomes of a singular symmetric matrix: it is refused, or the factorization continues with zero pivots.
    #[arg(long, value_enum, default_value = "refuse")]
    on_singular: SingularName,
    /// Fill-reducing ordering of the columns.
    #[arg(long, value_enum, default_value = "auto")]
    ordering: OrderingName,
    /// For `--ordering file`: the new order, one index from 1 a line, or row and column index a line.
    #[arg(long, value_name = "FILE", required_if_eq("ordering", "file"))]
    permutation: Option<PathBuf>,
    /// Leave rows in their place instead of matching them to columns by value.
    #[arg(long)]
    no_matching: bool,
    /// Do not scale.
    #[arg(long)]
    no_scaling: bool,
    /// Do not permute to block triangular form.
    #[arg(long)]
    no_blocks: bool,
    /// What factorizes on the CPU: column by column, in dense fronts, or for each block whichever
    /// promises to be faster.
    #[arg(long, value_enum, default_value = "auto")]
    engine: EngineName,
    /// What factorizes on a GPU: the columns of the whole matrix by levels, or a tree of dense fronts.
    #[arg(long, value_enum, default_value = "auto")]
    device_engine: DeviceEngineName,
    /// Whether several GPUs factorize one matrix: where that is predicted to be faster, never, or wherever it can be done.
    #[arg(long, value_enum, default_value = "auto")]
    deal_out: DealOutName,
    /// Most threads on the CPU; without it, all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_THREADS))]
    threads: Option<u16>,
    /// Most bytes on the host; more is refused before it is allocated.
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,
    /// Factors that a GPU has no room for are refused; without it they go to the host's memory where that is possible.
    #[arg(long)]
    no_host_factors: bool,
    /// Most bytes on the GPU; what is predicted to take more is refused.
    #[arg(long, value_name = "BYTES")]
    max_device_bytes: Option<u64>,
    /// Type of the factors; with f32 refinement recovers the accuracy of f64.
    #[arg(long, value_enum, default_value = "f64")]
    precision: PrecisionName,
    /// Write the order that the analysis found to this file, for --load-analysis.
    #[arg(long, value_name = "FILE")]
    save_analysis: Option<PathBuf>,
    /// Take the order of the matrix from a file of --save-analysis, of the same pattern, instead of searching one.
    #[arg(long, value_name = "FILE")]
    load_analysis: Option<PathBuf>,
    /// Write the report as JSON to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Overwrite files that exist.
    #[arg(long)]
    force: bool,
}

/// The most threads, as clap takes ranges.
const MAX_THREADS: i64 = Options::MAX_THREADS as i64;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BackendName {
    Auto,
    Cpu,
    Gpu,
    Sim,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindName {
    /// Any square matrix.
    General,
    /// Equal to its transpose, maybe indefinite.
    Symmetric,
    /// Equal to its conjugate transpose, maybe indefinite.
    Hermitian,
    /// Positive definite, and symmetric or Hermitian.
    Spd,
    /// Symmetric or Hermitian if pattern and values are.
    Auto,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SingularName {
    Refuse,
    Continue,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OrderingName {
    /// Whichever of AMD and nested dissection promises less work.
    Auto,
    /// Approximate minimum degree.
    Amd,
    /// Column approximate minimum degree.
    Colamd,
    /// Nested dissection.
    Nd,
    /// Nested dissection by METIS.
    #[cfg(feature = "metis")]
    Metis,
    /// As the columns stand.
    Natural,
    /// As the file of `--permutation` says.
    File,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineName {
    Auto,
    Columns,
    Fronts,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DeviceEngineName {
    Auto,
    Columns,
    Tree,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DealOutName {
    Auto,
    Never,
    Always,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PrecisionName {
    F64,
    F32,
}

/// Why a command failed, with its exit code.
#[derive(Debug)]
struct Failure {
    code: u8,
    /// Short name for the JSON report.
    kind: &'static str,
    error: anyhow::Error,
}

impl Failure {
    fn bad_input(error: impl Into<anyhow::Error>) -> Self {
        Self {
            code: 2,
            kind: "bad_input",
            error: error.into(),
        }
    }

    /// The same, with the name of the file that it is about.
    fn at(mut self, name: &str) -> Self {
        self.error = self.error.context(name.to_owned());
        self
    }

    /// The message with those of its causes, each once: some errors say their cause themselves.
    fn message(&self) -> String {
        let mut message = String::new();
        for cause in self.error.chain().map(ToString::to_string) {
            if message.is_empty() {
                message = cause;
            } else if !message.contains(&cause) {
                message.push_str(": ");
                message.push_str(&cause);
            }
        }
        message
    }

    fn other(error: impl Into<anyhow::Error>) -> Self {
        Self {
            code: 1,
            kind: "failed",
            error: error.into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (code, kind) = match &error {
            Error::InvalidOption { .. } => (2, "invalid_option"),
            Error::RealOnly { .. } => (2, "real_only"),
            Error::NotSquare { .. } => (2, "not_square"),
            Error::OtherSize { .. }
            | Error::OtherCount { .. }
            | Error::NoEntry { .. }
            | Error::TwoValues { .. }
            | Error::PermutationLength { .. }
            | Error::SignsLength { .. } => (2, "other_size"),
            Error::NotFinite { .. } => (2, "not_finite"),
            Error::RightHandSideNotFinite { .. } => (2, "right_hand_side_not_finite"),
            Error::InvalidMatrix(_) => (2, "invalid_matrix"),
            Error::ExtraEntry { .. } => (2, "extra_entry"),
            Error::Saved(_) => (2, "saved_file"),
            Error::NotSymmetric { .. } => (2, "not_symmetric"),
            Error::NotHermitian { .. } => (2, "not_hermitian"),
            Error::NotPositiveDefinite { .. } => (3, "not_positive_definite"),
            Error::IndexOverflow(_) => (2, "index_overflow"),
            Error::StructurallySingular { .. } => (3, "structurally_singular"),
            Error::ZerosOnly { .. }
            | Error::ZeroPivot { .. }
            | Error::NoPivots { .. }
            | Error::SingularToRounding { .. } => (3, "numerically_singular"),
            Error::Overflow { .. } | Error::SolutionNotFinite { .. } => (3, "overflow"),
            Error::Unstable { .. } => (3, "unstable"),
            Error::Device(_) => (4, "device"),
            Error::OutOfMemory { .. } => (1, "out_of_memory"),
            Error::Cancelled(_) => (1, "cancelled"),
            _ => (1, "failed"),
        };
        Self {
            code,
            kind,
            error: error.into(),
        }
    }
}

/// Parses the arguments, runs the command and turns its outcome into an exit code.
pub(crate) fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Solve(arguments) => solve::solve(&arguments),
        Command::Analyze(arguments) => analyze::analyze(&arguments),
        Command::Info(arguments) => info::describe(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            print::failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}

/// Loads what was saved to a file, which errors name.
fn load<T>(
    path: &Path,
    load: impl FnOnce(BufReader<File>) -> Result<T, Error>,
) -> Result<T, Failure> {
    let at = |failure: Failure| failure.at(&path.display().to_string());
    let file = File::open(path).map_err(|e| at(Failure::bad_input(e)))?;
    load(BufReader::new(file)).map_err(|error| match error {
        Error::Saved(_) => at(error.into()),
        other => other.into(),
    })
}

/// Saves something to a file.
fn save(
    path: &Path,
    save: impl FnOnce(&mut dyn std::io::Write) -> Result<(), Error>,
) -> Result<(), Failure> {
    files::write(path, |to| {
        let saved = match to {
            Destination::Path(path) => save(&mut File::create(path)?),
            Destination::Stdout(out) => save(out),
        };
        saved.map_err(|error| match error {
            Error::Saved(SavedError::Io { kind, message }) => std::io::Error::new(kind, message),
            other => std::io::Error::other(other),
        })
    })
}

impl SolverArguments {
    /// The files of these arguments.
    fn files(&self) -> Files<'_> {
        Files::default()
            .read("--permutation", self.permutation.as_deref())
            .read("--load-analysis", self.load_analysis.as_deref())
            .written("--save-analysis", self.save_analysis.as_deref())
            .written("--json", self.json.as_deref())
    }

    /// The library's options; `n` is the order of the matrix, for a permutation from a file.
    fn options(&self, n: usize) -> Result<Options, Failure> {
        let method = match self.ordering {
            OrderingName::Auto => Method::Auto,
            OrderingName::Amd => Method::Amd,
            OrderingName::Colamd => Method::Colamd,
            OrderingName::Nd => Method::NestedDissection,
            #[cfg(feature = "metis")]
            OrderingName::Metis => Method::Metis,
            OrderingName::Natural => Method::Natural,
            OrderingName::File => self.permutation_from_file(n)?,
        };
        Ok(Options::default()
            .kind(match self.kind {
                KindName::General => MatrixKind::General,
                KindName::Symmetric => MatrixKind::Symmetric,
                KindName::Hermitian => MatrixKind::Hermitian,
                KindName::Spd => MatrixKind::PositiveDefinite,
                KindName::Auto => MatrixKind::Auto,
            })
            .singular(match self.on_singular {
                SingularName::Refuse => SingularAction::Refuse,
                SingularName::Continue => SingularAction::Continue,
            })
            .backend(match self.backend {
                BackendName::Auto => BackendChoice::Auto,
                BackendName::Cpu => BackendChoice::Cpu,
                BackendName::Gpu => BackendChoice::Gpus {
                    ordinals: self.device,
                },
                BackendName::Sim => BackendChoice::Simulator { seed: self.seed },
            })
            .ordering(
                OrderingOptions::default()
                    .method(method)
                    .matching(if self.no_matching {
                        Matching::Never
                    } else {
                        Matching::Auto
                    })
                    .scaling(!self.no_scaling)
                    .block_triangular(!self.no_blocks),
            )
            .pivoting(Pivoting::Auto)
            .engine(match self.engine {
                EngineName::Auto => CpuEngine::Auto,
                EngineName::Columns => CpuEngine::Columns,
                EngineName::Fronts => CpuEngine::Fronts,
            })
            .device_engine(match self.device_engine {
                DeviceEngineName::Auto => DeviceEngine::Auto,
                DeviceEngineName::Columns => DeviceEngine::Columns,
                DeviceEngineName::Tree => DeviceEngine::Tree,
            })
            .deal_out(match self.deal_out {
                DealOutName::Auto => DealOut::Auto,
                DealOutName::Never => DealOut::Never,
                DealOutName::Always => DealOut::Always,
            })
            .host_factors(!self.no_host_factors)
            .threads(self.threads.map(usize::from))
            .keep_order(self.save_analysis.is_some())
            .max_host_bytes(self.max_bytes)
            .max_device_bytes(self.max_device_bytes)
            .precision(match self.precision {
                PrecisionName::F64 => FactorPrecision::Matrix,
                PrecisionName::F32 => FactorPrecision::Single,
            }))
    }

    /// Analyzes a matrix, or loads its analysis, and saves it, as the arguments say.
    fn analyze<T: Scalar>(&self, solver: &Solver, a: &CsMat<T>) -> Result<Analysis<T>, Failure> {
        let analysis = match &self.load_analysis {
            None => solver.analyze(a)?,
            Some(path) => load(path, |file| solver.load_analysis(a, file))?,
        };
        if let Some(path) = &self.save_analysis {
            save(path, |out| analysis.save(out))?;
        }
        Ok(analysis)
    }

    fn permutation_from_file(&self, n: usize) -> Result<Method, Failure> {
        let Some(path) = &self.permutation else {
            unreachable!("clap asks for --permutation with --ordering file");
        };
        let at = |line: usize, what: String| {
            Failure::bad_input(anyhow::anyhow!("{}: line {line}: {what}", path.display()))
        };
        let text = std::fs::read_to_string(path)
            .map_err(|e| Failure::bad_input(anyhow::anyhow!("{}: {e}", path.display())))?;
        let (mut rows, mut cols) = (Vec::new(), Vec::new());
        for (line, words) in text.lines().enumerate() {
            let indices = words
                .split_whitespace()
                .map(|word| match word.parse::<u32>() {
                    Ok(index) if index > 0 => Ok(index - 1),
                    _ => Err(at(line + 1, format!("{word:?} is not an index from 1"))),
                })
                .collect::<Result<Vec<_>, _>>()?;
            match indices[..] {
                [] => continue,
                [both] => (rows.push(both), cols.push(both)),
                [row, col] => (rows.push(row), cols.push(col)),
                _ => return Err(at(line + 1, "one or two indices are expected".into())),
            };
        }
        if rows.len() != n {
            let found = rows.len();
            return Err(at(
                found,
                format!("{found} lines for a matrix of order {n}"),
            ));
        }
        let of = |e| Failure::bad_input(anyhow::anyhow!("{}: {e}", path.display()));
        Ok(Method::User {
            rows: RowPerm::new(rows).map_err(of)?,
            cols: ColPerm::new(cols).map_err(of)?,
        })
    }
}
