//! What every benchmark records: one format for all of them.
//!
//! [`Results`] tell where, when and how a benchmark ran, which solvers took part and which were missing, and hold
//! each sample of each phase of each solver on each matrix, with backward errors that were measured here.
//!
//! Times are seconds of wall time, rates bytes or operations a second. An error that is infinite or not a number is
//! recorded as [`recordable`](crate::statistics::recordable) makes it. What a benchmark does not measure is `None`
//! or empty.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use clap::ValueEnum;
use luge_device::Device;
use luge_peers::Structure;
use luge_sparse::Scalar;
use serde::{Deserialize, Serialize};

use crate::machine::{Machine, command_without_folders, commit, now};
use crate::statistics::{Samples, Statistic};

/// The format of [`Results`]; raised when it changes.
pub const SCHEMA: &str = "luge-bench/2";

/// Luge's name in results.
pub const LUGE: &str = "luge";

/// Backward error above which a solution is called wrong.
pub const WRONG: f64 = 1e-9;

/// A solver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SolverInfo {
    /// Its name.
    pub name: String,
    /// Its version, as far as it tells.
    pub version: String,
    /// The numbers of threads it was run with.
    pub threads: Vec<usize>,
    /// Options that differ from its defaults, the BLAS.
    pub notes: Vec<String>,
    /// Why it is not here, if it is not.
    pub missing: Option<String>,
}

/// What became of a solver on a matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Outcome {
    /// It was timed.
    Measured,
    /// It was stopped: its first factorization takes longer than the limit.
    TooSlow {
        /// Seconds after which it was stopped.
        seconds: f64,
    },
    /// It refused the matrix, or ended.
    Failed {
        /// Its words.
        reason: String,
    },
}

/// Backward error above which a solution in single precision is called wrong.
pub const WRONG_SINGLE: f64 = 1e-3;

/// Which benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Benchmark {
    /// The symbolic phase on a device.
    Symbolic,
    /// What a group of devices shares, on one and on several.
    Devices,
    /// A circuit at many frequencies: a batch, and one after another.
    Sweep,
    /// Luge beside its peers, from the matrix to refined solutions.
    #[serde(alias = "cpu", alias = "numeric", alias = "end-to-end")]
    Peers,
}

impl Benchmark {
    /// What stands above its results.
    pub fn title(self) -> &'static str {
        match self {
            Self::Symbolic => "The symbolic phase on a device",
            Self::Devices => "Groups of devices",
            Self::Sweep => "Sweeps of frequencies",
            Self::Peers => "Luge and its peers",
        }
    }
}

/// Everything of one run of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// Which benchmark.
    pub benchmark: Benchmark,
    /// Where it ran.
    pub machine: Machine,
    /// The device, if one was used.
    pub device: Option<DeviceInfo>,
    /// When it began, in universal time.
    pub date: String,
    /// The commit that was built.
    pub commit: String,
    /// `"release"` or `"dev"`.
    pub profile: String,
    /// The command, without folders.
    pub command: Vec<String>,
    /// How times were taken.
    pub settings: Settings,
    /// What the machine and the device give, as measured in the same run.
    #[serde(default)]
    pub ceilings: Ceilings,
    /// The solvers, also those that are missing.
    pub solvers: Vec<SolverInfo>,
    /// The matrices.
    pub matrices: Vec<MatrixResult>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// Its name as the driver gives it.
    pub name: String,
    /// The version of CUDA that the driver supports.
    pub driver: Option<String>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
}

impl DeviceInfo {
    /// Of a device that is open.
    pub fn of(device: &Device) -> Self {
        let properties = device.properties();
        Self {
            name: properties.name.clone(),
            driver: properties.driver_version.map(|version| version.to_string()),
            memory_bytes: Some(properties.total_bytes),
        }
    }
}

/// How times are taken and compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Seconds that a solver may take for the first factorization of a matrix, reading it included.
    pub time_limit: f64,
    /// Seconds of samples per matrix; at least `min_rounds` rounds are run all the same.
    pub budget: f64,
    /// Fewest samples of each solver and phase.
    pub min_rounds: usize,
    /// Most samples of each solver and phase.
    pub max_rounds: usize,
    /// What ratios are made of.
    pub statistic: Statistic,
}

/// The most that the hardware gives, in bytes or operations a second; `None` where it was not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ceilings {
    /// The host's memory, one thread: a copy between arrays that no cache holds, read and written bytes.
    pub host_copy: Option<f64>,
    /// The same, all cores.
    pub host_copy_all: Option<f64>,
    /// The host's arithmetic, one thread: a product of dense matrices in double precision.
    pub host_flops: Option<f64>,
    /// The same, all cores.
    pub host_flops_all: Option<f64>,
    /// The device's arithmetic: products of small matrices in double precision, all in registers.
    pub device_flops: Option<f64>,
    /// The device's memory: a copy between buffers that no cache holds, read and written bytes.
    pub copy: Option<f64>,
    /// Words one after another, out of the device's second-level cache.
    pub cached_stream: Option<f64>,
    /// Sectors of 32 bytes for words at random, out of the second-level cache.
    pub cached_scattered: Option<f64>,
    /// Sectors of 32 bytes for words at random, out of a gibibyte.
    pub scattered: Option<f64>,
}

/// What the entries of a matrix are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// Real numbers.
    #[default]
    Real,
    /// Complex ones.
    Complex,
}

impl Field {
    /// That of `T`.
    pub fn of<T: Scalar>() -> Self {
        match T::COMPONENTS {
            1 => Self::Real,
            _ => Self::Complex,
        }
    }

    /// Numbers of a precision that an entry has.
    pub fn components(self) -> u64 {
        match self {
            Self::Real => 1,
            Self::Complex => 2,
        }
    }
}

/// One matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixResult {
    /// Its name.
    pub name: String,
    /// The application it comes from.
    pub kind: String,
    /// What its entries are.
    #[serde(default)]
    pub field: Field,
    /// Order.
    pub n: usize,
    /// Stored entries.
    pub nnz: usize,
    /// Whether it is so close to singular that a solver may refuse it, and that what another solver
    /// makes of it says little: neither refusals nor backward errors count then.
    #[serde(default)]
    pub near_singular: bool,
    /// Where the values of the refactorizations are from.
    #[serde(default)]
    pub refactorized_with: String,
    /// Every solver in every variant. How they took turns is not recorded: the benchmark of that commit says it.
    pub runs: Vec<Run>,
}

/// The type of the matrix, and that of the factors.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Both `f64`.
    #[default]
    F64,
    /// Both `f32`.
    F32,
    /// Factors in `f32` of a matrix in `f64`, whose solutions are refined.
    Mixed,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F64, Self::F32, Self::Mixed];

    /// That of a peer's that gives as good solutions.
    pub fn of_peer(self) -> Self {
        match self {
            Self::F32 => Self::F32,
            Self::F64 | Self::Mixed => Self::F64,
        }
    }

    /// Bytes of an entry of real factors.
    pub fn bytes(self) -> u64 {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::Mixed => 4,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::Mixed => "mixed",
        })
    }
}

/// A part of the work that is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Matching, scaling, ordering, as the solver tells.
    Ordering,
    /// Structure of the factors, as the solver tells.
    Symbolic,
    /// Both, and what belongs to them.
    Analyze,
    /// First factorization, with a search for pivots where there is one.
    Factorize,
    /// Analysis and factorization.
    AnalyzeFactorize,
    /// Analysis, factorization and one solve, refined in mixed precision.
    FirstSolve,
    /// Factorization of other values on kept pivots; the values are on the host.
    Refactorize,
    /// The same of values on the device.
    RefactorizeResident,
    /// Triangular solves, one right-hand side on the host.
    Solve,
    /// The same on the device.
    SolveResident,
    /// The same as [`Solve`](Self::Solve) with the transpose.
    SolveTranspose,
    /// Triangular solves, many right-hand sides on the host.
    SolveMany,
    /// The same on the device.
    SolveManyResident,
    /// The solver's careful solve of one right-hand side on the host, with refinement and backward error.
    SolveRefined,
    /// Supernodes of a filled pattern.
    Supernodes,
    /// A refactorization and a solve of every system of a sweep; values and right-hand sides are on the host.
    Sweep,
    /// The same on the device.
    SweepResident,
}

impl Phase {
    /// Those of the benchmark beside peers, in the order of its tables.
    pub const ALL: [Self; 14] = [
        Self::Ordering,
        Self::Symbolic,
        Self::Analyze,
        Self::Factorize,
        Self::AnalyzeFactorize,
        Self::FirstSolve,
        Self::Refactorize,
        Self::RefactorizeResident,
        Self::Solve,
        Self::SolveResident,
        Self::SolveTranspose,
        Self::SolveMany,
        Self::SolveManyResident,
        Self::SolveRefined,
    ];

    /// The heading of its column.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ordering => "ordering",
            Self::Symbolic => "symbolic",
            Self::Analyze => "analyze",
            Self::Factorize => "factorize",
            Self::AnalyzeFactorize => "analyze+factorize",
            Self::FirstSolve => "first solve",
            Self::Refactorize => "refactorize",
            Self::RefactorizeResident => "refactorize (on device)",
            Self::Solve => "solve",
            Self::SolveResident => "solve (on device)",
            Self::SolveTranspose => "solve transposed",
            Self::SolveMany => "solve 16",
            Self::SolveManyResident => "solve 16 (on device)",
            Self::SolveRefined => "solve refined",
            Self::Supernodes => "supernodes",
            Self::Sweep => "sweep",
            Self::SweepResident => "sweep (on device)",
        }
    }
}

/// One solver in one variant on one matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The solver.
    pub solver: String,
    /// Where it ran or in which mode, if that is not told by the rest: `"cpu"`, `"gpu"`, `"two stages, 64 MiB"`.
    #[serde(default)]
    pub variant: String,
    /// Threads it may use on the host.
    pub threads: usize,
    /// The types.
    #[serde(default)]
    pub precision: Precision,
    /// What it was told of the matrix.
    #[serde(default)]
    pub structure: Structure,
    /// What became of it.
    pub outcome: Outcome,
    /// Steps after the first solution that failed; `details` says why.
    #[serde(default)]
    pub failed_steps: usize,
    /// The samples of every phase that it has.
    pub phases: BTreeMap<Phase, Samples>,
    /// Seconds between the first and the last work on the device, of the phases where they are known.
    #[serde(default)]
    pub device_seconds: BTreeMap<Phase, f64>,
    /// Devices of the group that one matrix is factorized on, where groups are measured.
    #[serde(default)]
    pub devices: Option<usize>,
    /// Calls in one sample of the shortest phase.
    #[serde(default = "one")]
    pub largest_batch: usize,
    /// Entries that a solve reads: those of L+U, or of L of a symmetric matrix.
    pub factor_entries: Option<u64>,
    /// Operations of the factorization, as the solver counts them.
    pub flops: Option<f64>,
    /// Levels of the columns, where work goes by levels.
    #[serde(default)]
    pub num_levels: Option<u64>,
    /// Memory.
    #[serde(default)]
    pub memory: Memory,
    /// Backward errors.
    #[serde(default)]
    pub errors: Errors,
    /// Pivots that were replaced.
    #[serde(default)]
    pub num_perturbed: Option<u64>,
    /// Positive and negative eigenvalues of a symmetric matrix, as the solver counts them.
    #[serde(default)]
    pub inertia: Option<[u64; 2]>,
    /// Refactorizations that kept the pivots, and that searched new ones.
    #[serde(default)]
    pub reused_and_repivoted: Option<(u64, u64)>,
    /// Why it could not refactorize, if it tried.
    #[serde(default)]
    pub refactorize_error: Option<String>,
    /// Whether what it found is what was expected, where results are compared and not measured.
    #[serde(default)]
    pub equal: Option<bool>,
    /// The solver's own report of the last factors.
    #[serde(default)]
    pub inform: Option<serde_json::Value>,
    /// What else the solver tells.
    #[serde(default)]
    pub details: Vec<String>,
}

fn one() -> usize {
    1
}

/// Most bytes held at once by analysis and factorization; `None` where it is not known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// On the host, as the solver counts them.
    pub reported: Option<u64>,
    /// Increase of the resident set of a process that does nothing else.
    pub resident: Option<u64>,
    /// On the device, as the solver counts them.
    pub device: Option<u64>,
}

/// Normwise backward errors, measured here; `None` where there was no solution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Errors {
    /// A·x = A·(known x), one pass of solves after a factorization.
    pub known: Option<f64>,
    /// A·x = b, b random.
    pub random: Option<f64>,
    /// Aᵀ·x = Aᵀ·(known x).
    pub transposed: Option<f64>,
    /// The worst of many right-hand sides.
    pub many: Option<f64>,
    /// Known solution after a refactorization with other values, against the matrix with these.
    pub refactorized: Option<f64>,
    /// Known solution of a symmetric matrix by one pass of triangular solves, before any refinement.
    pub one_pass: Option<f64>,
    /// Known solution by the solver's careful solve; of a symmetric matrix, if it has none, after two steps of refinement
    /// by its solves and residuals that are computed here.
    pub refined: Option<f64>,
}

impl Errors {
    /// The larger one of the two solves of A·x = b.
    pub fn solve(&self) -> Option<f64> {
        match (self.known, self.random) {
            (Some(known), Some(random)) => Some(known.max(random)),
            (one, other) => one.or(other),
        }
    }
}

impl Run {
    /// A run in double precision of which nothing is known yet.
    pub fn new(solver: &str, threads: usize) -> Self {
        Self {
            solver: solver.to_owned(),
            variant: String::new(),
            threads,
            precision: Precision::F64,
            structure: Structure::General,
            outcome: Outcome::Measured,
            failed_steps: 0,
            phases: BTreeMap::new(),
            device_seconds: BTreeMap::new(),
            devices: None,
            largest_batch: 1,
            factor_entries: None,
            flops: None,
            num_levels: None,
            memory: Memory::default(),
            errors: Errors::default(),
            num_perturbed: None,
            inertia: None,
            reused_and_repivoted: None,
            refactorize_error: None,
            equal: None,
            inform: None,
            details: Vec::new(),
        }
    }

    /// The same in another precision.
    pub fn in_precision(self, precision: Precision) -> Self {
        Self { precision, ..self }
    }

    /// The same of a solver that was told this of the matrix.
    pub fn told(self, structure: Structure) -> Self {
        Self { structure, ..self }
    }

    /// The same in a variant.
    pub fn in_variant(self, variant: &str) -> Self {
        Self {
            variant: variant.to_owned(),
            ..self
        }
    }

    /// The median of a phase, if it was measured.
    pub fn seconds(&self, phase: Phase) -> Option<f64> {
        Some(self.phases.get(&phase)?.median)
    }

    /// Operations a second of a phase that factorizes.
    pub fn flop_rate(&self, phase: Phase) -> Option<f64> {
        Some(self.flops? / self.seconds(phase)?)
    }

    /// Bytes a second of a phase that factorizes a matrix with `nnz` entries: it reads each of them and writes each
    /// of L+U, once, which is the least that it can move.
    pub fn factor_byte_rate(&self, phase: Phase, field: Field, nnz: usize) -> Option<f64> {
        let entries = self.factor_entries? + nnz as u64;
        Some((entries * self.entry_bytes(field)) as f64 / self.seconds(phase)?)
    }

    /// Bytes a second of a solve that reads each entry of L+U once.
    pub fn solve_byte_rate(&self, field: Field) -> Option<f64> {
        let bytes = self.factor_entries? * self.entry_bytes(field);
        Some(bytes as f64 / self.seconds(Phase::Solve)?)
    }

    fn entry_bytes(&self, field: Field) -> u64 {
        field.components() * self.precision.bytes()
    }

    /// Seconds on the device over wall seconds of a phase.
    pub fn device_share(&self, phase: Phase) -> Option<f64> {
        Some(self.device_seconds.get(&phase)? / self.seconds(phase)?)
    }

    /// Solutions that are wrong, in words. In mixed precision only refined ones are held to anything.
    pub fn wrong_solutions(&self) -> Vec<String> {
        let Errors {
            known,
            random,
            transposed,
            many,
            refactorized,
            one_pass: _,
            refined,
        } = self.errors;
        let plain = |error: Option<f64>| error.filter(|_| self.precision != Precision::Mixed);
        let all = [
            ("for a known solution", plain(known)),
            ("for a random right-hand side", plain(random)),
            ("for the transpose", plain(transposed)),
            ("for many right-hand sides", plain(many)),
            ("after refactorization", plain(refactorized)),
            ("with refinement", refined),
        ];
        all.into_iter()
            .filter_map(|(what, error)| Some((what, error.filter(|&error| self.is_wrong(error))?)))
            .map(|(what, error)| format!("backward error {error:.1e} {what}"))
            .collect()
    }

    /// The backward error of one pass of solves, if a solution with it is wrong: what the factors are worth where
    /// [`wrong_solutions`](Self::wrong_solutions) finds nothing, as each solve refines.
    pub fn wrong_before_refinement(&self) -> Option<f64> {
        let error = self.errors.one_pass;
        error.filter(|&error| self.precision != Precision::Mixed && self.is_wrong(error))
    }

    fn is_wrong(&self, error: f64) -> bool {
        let limit = match self.precision {
            Precision::F64 | Precision::Mixed => WRONG,
            Precision::F32 => WRONG_SINGLE,
        };
        error.is_nan() || error > limit
    }
}

impl MatrixResult {
    /// Its kind, and its field where that is not the real numbers: those that are compared together.
    pub fn kind_and_field(&self) -> String {
        match self.field {
            Field::Real => self.kind.clone(),
            Field::Complex => format!("{}, complex", self.kind),
        }
    }

    /// Entries of L+U, as Luge has them, or else the first solver that tells.
    pub fn filled(&self) -> Option<u64> {
        let luge = self.runs.iter().filter(|run| run.solver == LUGE);
        luge.chain(&self.runs).find_map(|run| run.factor_entries)
    }

    /// The inertia that most runs count, or of several that equally many count, Luge's or else the first.
    pub fn inertia(&self) -> Option<[u64; 2]> {
        let of = |run: &Run| run.inertia.filter(|_| run.outcome == Outcome::Measured);
        let votes = |counted: [u64; 2]| {
            let agreeing = self.runs.iter().filter(|run| of(run) == Some(counted));
            agreeing.count()
        };
        let luge = self.runs.iter().filter(|run| run.solver == LUGE);
        let candidates = luge.chain(&self.runs).filter_map(of);
        // Of equal ones `max_by_key` takes the last.
        candidates.rev().max_by_key(|&counted| votes(counted))
    }

    /// The inertia that `run` of this matrix counts, if it is not [that of most](Self::inertia). Of a matrix that is so close
    /// to singular that signs are a matter of rounding, each may be right.
    pub fn wrong_inertia(&self, run: &Run) -> Option<[u64; 2]> {
        let of_most = self.inertia()?;
        run.inertia
            .filter(|counted| !self.near_singular && *counted != of_most)
    }
}

impl Results {
    /// Of a benchmark that begins now and here, with nothing measured yet.
    pub fn begun(benchmark: Benchmark, settings: Settings, device: Option<&Device>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            benchmark,
            machine: Machine::here(),
            device: device.map(DeviceInfo::of),
            date: now(),
            commit: commit(),
            profile: PROFILE.to_owned(),
            command: command_without_folders(std::env::args()),
            settings,
            ceilings: Ceilings::default(),
            solvers: Vec::new(),
            matrices: Vec::new(),
        }
    }

    /// Reads the results of any benchmark.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or holds something else.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let results: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} holds no results of a benchmark", path.display()))?;
        if results.schema != SCHEMA {
            bail!(
                "{} has the unknown format {}",
                path.display(),
                results.schema
            );
        }
        Ok(results)
    }
}

/// Writes results as JSON.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_json(path: &Path, results: &impl Serialize) -> anyhow::Result<()> {
    fs::write(path, serde_json::to_string(results)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// How this program was built: `"release"` or `"dev"`.
pub const PROFILE: &str = if cfg!(debug_assertions) {
    "dev"
} else {
    "release"
};
