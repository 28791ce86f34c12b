//! What is recorded, and the rates and ratios that follow from it.
//!
//! Times are seconds of wall time. An error that is infinite or not a number is recorded as
//! [`recordable`](crate::statistics::recordable) makes it.

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::report::{LUGE, Outcome, SolverInfo, WRONG};
use crate::statistics::{Ratios, Samples};

/// The format of [`Results`]; raised when it changes.
pub const SCHEMA: &str = "luge-bench-numeric/1";

/// Entries of L+U from which on a matrix counts in the geometric means.
pub const COUNTED_ENTRIES: u64 = 100_000;

/// The kinds of matrices that count in the geometric means.
pub const COUNTED_KINDS: [&str; 2] = ["circuit", "power"];

/// Backward error above which a solution in single precision is called wrong.
pub const WRONG_SINGLE: f64 = 1e-3;

/// Everything of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// The host.
    pub machine: Machine,
    /// The device.
    pub device: String,
    /// When it began, in universal time.
    pub date: String,
    /// The commit that was built.
    pub commit: String,
    /// `"release"` or `"dev"`.
    pub profile: String,
    /// The command, without folders.
    pub command: Vec<String>,
    /// Samples of each phase.
    pub samples: usize,
    /// The solvers, also those that are missing.
    pub solvers: Vec<SolverInfo>,
    /// The matrices.
    pub matrices: Vec<MatrixResult>,
}

/// One matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixResult {
    /// Its name.
    pub name: String,
    /// The application it comes from.
    pub kind: String,
    /// Order.
    pub n: usize,
    /// Stored entries.
    pub nnz: usize,
    /// Whether it is so close to singular that a solver may refuse it.
    pub near_singular: bool,
    /// Every solver in every precision.
    pub runs: Vec<Run>,
}

/// The type of the matrix, and that of the factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Both `f64`.
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

    /// Bytes of an entry of the factors.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Matching, scaling, ordering, as the solver tells.
    Ordering,
    /// Structure of the factors, as the solver tells.
    Symbolic,
    /// Both, and what belongs to them.
    Analyze,
    /// First factorization.
    Factorize,
    /// Analysis, factorization and one solve, refined in mixed precision.
    FirstSolve,
    /// Factorization of other values, which are on the host.
    Refactorize,
    /// The same of values on the device.
    RefactorizeResident,
    /// Triangular solves, one right-hand side on the host.
    Solve,
    /// The same on the device.
    SolveResident,
    /// Triangular solves, 16 right-hand sides on the host.
    SolveMany,
    /// The same on the device.
    SolveManyResident,
    /// One right-hand side on the host, with refinement and backward error.
    SolveRefined,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Ordering,
        Self::Symbolic,
        Self::Analyze,
        Self::Factorize,
        Self::FirstSolve,
        Self::Refactorize,
        Self::RefactorizeResident,
        Self::Solve,
        Self::SolveResident,
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
            Self::FirstSolve => "first solve",
            Self::Refactorize => "refactorize",
            Self::RefactorizeResident => "refactorize (on device)",
            Self::Solve => "solve",
            Self::SolveResident => "solve (on device)",
            Self::SolveMany => "solve 16",
            Self::SolveManyResident => "solve 16 (on device)",
            Self::SolveRefined => "solve refined",
        }
    }
}

/// One solver in one precision on one matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The solver.
    pub solver: String,
    /// The types.
    pub precision: Precision,
    /// What became of it.
    pub outcome: Outcome,
    /// Steps after the first solve that failed; `details` says why.
    pub failed_steps: usize,
    /// The samples of every phase that it has.
    pub phases: BTreeMap<Phase, Samples>,
    /// Seconds between the first and the last work on the device, of the phases where they are known.
    pub device_seconds: BTreeMap<Phase, f64>,
    /// Backward errors.
    pub errors: Errors,
    /// Entries of L+U.
    pub factor_entries: Option<u64>,
    /// Operations of the factorization, as the solver counts them.
    pub flops: Option<f64>,
    /// Most bytes on the device, as the solver counts them.
    pub peak_device_bytes: Option<u64>,
    /// Most bytes on the host, as the solver counts them.
    pub peak_host_bytes: Option<u64>,
    /// Pivots that were replaced.
    pub num_perturbed: Option<u64>,
    /// Refactorizations that kept the pivots, and that searched new ones.
    pub reused_and_repivoted: Option<(u64, u64)>,
    /// Luge's whole report of the last factors.
    pub inform: Option<serde_json::Value>,
    /// What else the solver tells.
    pub details: Vec<String>,
}

/// Normwise backward errors, measured here; `None` where there was no solution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// After a factorization.
    pub factorized: Option<f64>,
    /// The worst of 16 right-hand sides, after a refactorization.
    pub many: Option<f64>,
    /// After a refactorization with other values, against the matrix with these.
    pub refactorized: Option<f64>,
    /// The same with refinement.
    pub refined: Option<f64>,
}

impl Run {
    /// A run of which nothing is known yet.
    pub fn new(solver: &str, precision: Precision) -> Self {
        Self {
            solver: solver.to_owned(),
            precision,
            outcome: Outcome::Measured,
            failed_steps: 0,
            phases: BTreeMap::new(),
            device_seconds: BTreeMap::new(),
            errors: Errors::default(),
            factor_entries: None,
            flops: None,
            peak_device_bytes: None,
            peak_host_bytes: None,
            num_perturbed: None,
            reused_and_repivoted: None,
            inform: None,
            details: Vec::new(),
        }
    }

    /// The median of a phase, if it was measured.
    pub fn seconds(&self, phase: Phase) -> Option<f64> {
        Some(self.phases.get(&phase)?.median)
    }

    /// Operations a second of a refactorization.
    pub fn flop_rate(&self) -> Option<f64> {
        Some(self.flops? / self.seconds(Phase::Refactorize)?)
    }

    /// Bytes a second of a refactorization of a matrix with `nnz` entries that reads each of them and writes each
    /// of L+U, once: the least that it can move.
    pub fn refactorize_byte_rate(&self, nnz: usize) -> Option<f64> {
        let entries = self.factor_entries? + nnz as u64;
        Some((entries * self.precision.bytes()) as f64 / self.seconds(Phase::Refactorize)?)
    }

    /// Bytes a second of a solve that reads each entry of L+U once.
    pub fn solve_byte_rate(&self) -> Option<f64> {
        let bytes = self.factor_entries? * self.precision.bytes();
        Some(bytes as f64 / self.seconds(Phase::Solve)?)
    }

    /// Seconds on the device over wall seconds of a phase.
    pub fn device_share(&self, phase: Phase) -> Option<f64> {
        Some(self.device_seconds.get(&phase)? / self.seconds(phase)?)
    }

    /// Solutions that are wrong, in words. In mixed precision only refined ones are held to anything.
    pub fn wrong_solutions(&self) -> Vec<String> {
        let Errors {
            factorized,
            many,
            refactorized,
            refined,
        } = self.errors;
        let plain = |error: Option<f64>| error.filter(|_| self.precision != Precision::Mixed);
        let all = [
            ("after factorization", plain(factorized)),
            ("for 16 right-hand sides", plain(many)),
            ("after refactorization", plain(refactorized)),
            ("with refinement", refined),
        ];
        let limit = match self.precision {
            Precision::F64 | Precision::Mixed => WRONG,
            Precision::F32 => WRONG_SINGLE,
        };
        all.into_iter()
            .filter_map(|(what, error)| Some((what, error.filter(|&error| error > limit)?)))
            .map(|(what, error)| format!("backward error {error:.1e} {what}"))
            .collect()
    }
}

impl MatrixResult {
    /// The run of `solver` in `precision`.
    pub fn run(&self, solver: &str, precision: Precision) -> Option<&Run> {
        let found = |run: &&Run| run.solver == solver && run.precision == precision;
        self.runs.iter().find(found)
    }

    /// Entries of L+U, as Luge has them, or else the first solver that tells.
    pub fn filled(&self) -> Option<u64> {
        let luge = self.runs.iter().filter(|run| run.solver == LUGE);
        luge.chain(&self.runs).find_map(|run| run.factor_entries)
    }

    /// Whether it counts in the geometric means.
    pub fn counts(&self) -> bool {
        COUNTED_KINDS.contains(&self.kind.as_str())
            && self.filled().is_some_and(|filled| filled > COUNTED_ENTRIES)
    }
}

/// Luge's time of a phase in a precision over that of a peer's in the precision that gives as good solutions,
/// for the matrices that count.
pub fn ratios(
    results: &Results,
    precision: Precision,
    luge_phase: Phase,
    peer: &str,
    peer_phase: Phase,
) -> Ratios {
    let mut ratios = Ratios::default();
    for matrix in results.matrices.iter().filter(|matrix| matrix.counts()) {
        let theirs = matrix.run(peer, precision.of_peer());
        let Some(theirs) = theirs.and_then(|run| run.seconds(peer_phase)) else {
            continue;
        };
        let ours = matrix.run(LUGE, precision);
        match ours.map(|run| (run, run.seconds(luge_phase))) {
            Some((_, Some(ours))) => ratios.of.push((matrix.name.clone(), ours / theirs)),
            Some((run, None)) if run.outcome != Outcome::Measured || run.failed_steps > 0 => {
                ratios.refused.push(matrix.name.clone());
            }
            _ => {}
        }
    }
    ratios
}
