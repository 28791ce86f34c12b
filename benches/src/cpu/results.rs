//! What a run of the peer benchmark records.
//!
//! Times are seconds of wall time. An error that is infinite or not a number is recorded as
//! [`recordable`](crate::statistics::recordable) makes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::report::{Outcome, SolverInfo, WRONG};
use crate::statistics::{Samples, Statistic};

/// The format of [`Results`]; raised when it changes.
pub const SCHEMA: &str = "luge-bench-cpu/1";

/// Everything of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where it ran.
    pub machine: Machine,
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
    /// The solvers, also those that are missing.
    pub solvers: Vec<SolverInfo>,
    /// The matrices.
    pub matrices: Vec<MatrixResult>,
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
    /// Whether it is so close to singular that a solver may refuse it, and that what another solver
    /// makes of it says little: neither refusals nor backward errors count then.
    #[serde(default)]
    pub near_singular: bool,
    /// Where the values of the refactorizations are from.
    pub refactorized_with: String,
    /// Every solver and number of threads.
    pub runs: Vec<Run>,
}

/// A part of the work that is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Ordering and symbolic work.
    Analyze,
    /// Factorization with a search for pivots.
    Factorize,
    /// Both.
    AnalyzeFactorize,
    /// Factorization on kept pivots.
    Refactorize,
    /// Triangular solves, one right-hand side.
    Solve,
    /// The same with the transpose.
    SolveTranspose,
    /// Triangular solves, 16 right-hand sides.
    SolveMany,
    /// The solver's careful solve, with refinement and backward error.
    SolveChecked,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Analyze,
        Self::Factorize,
        Self::AnalyzeFactorize,
        Self::Refactorize,
        Self::Solve,
        Self::SolveTranspose,
        Self::SolveMany,
        Self::SolveChecked,
    ];

    /// The heading of its column.
    pub fn title(self) -> &'static str {
        match self {
            Self::Analyze => "analyze",
            Self::Factorize => "factorize",
            Self::AnalyzeFactorize => "analyze+factorize",
            Self::Refactorize => "refactorize",
            Self::Solve => "solve",
            Self::SolveTranspose => "solve transposed",
            Self::SolveMany => "solve 16",
            Self::SolveChecked => "solve checked",
        }
    }
}

/// One solver with one number of threads on one matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The solver.
    pub solver: String,
    /// Threads it may use.
    pub threads: usize,
    /// What became of it.
    pub outcome: Outcome,
    /// The samples of every phase that it has.
    pub phases: BTreeMap<Phase, Samples>,
    /// Calls in one sample of the shortest phase.
    pub largest_batch: usize,
    /// Entries that a solve reads.
    pub factor_entries: Option<u64>,
    /// Operations of the factorization, as the solver counts them.
    pub flops: Option<f64>,
    /// Memory.
    pub memory: Memory,
    /// Backward errors.
    pub errors: Errors,
    /// Refactorizations that kept the pivots, and that searched new ones.
    pub reused_and_repivoted: Option<(u64, u64)>,
    /// Why it could not refactorize, if it tried.
    pub refactorize_error: Option<String>,
    /// What else the solver tells.
    pub details: Vec<String>,
}

/// Most bytes held at once by analysis and factorization; `None` where it is not known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// As the solver counts them.
    pub reported: Option<u64>,
    /// As the allocator of the benchmark counted them: solvers in Rust.
    pub allocated: Option<u64>,
    /// Growth of the resident set of a process that does nothing else.
    pub resident: Option<u64>,
}

impl Memory {
    /// What is compared: what was counted at the allocator where it can be, else what the solver says.
    pub fn compared(&self) -> Option<u64> {
        self.allocated.or(self.reported)
    }
}

/// Normwise backward errors, measured here; `None` where there was no solution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Errors {
    /// A·x = A·(known x).
    pub known: Option<f64>,
    /// A·x = b, b random.
    pub random: Option<f64>,
    /// Aᵀ·x = Aᵀ·(known x).
    pub transposed: Option<f64>,
    /// The worst of 16 right-hand sides.
    pub many: Option<f64>,
    /// Known solution after a refactorization with other values.
    pub refactorized: Option<f64>,
    /// Known solution by the solver's careful solve.
    pub checked: Option<f64>,
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
    /// Solutions that are wrong, in words.
    pub fn wrong_solutions(&self) -> Vec<String> {
        let Errors {
            known,
            random,
            transposed,
            many,
            refactorized,
            checked,
        } = self.errors;
        let all = [
            ("a known solution", known),
            ("a random right-hand side", random),
            ("the transpose", transposed),
            ("16 right-hand sides", many),
            ("a known solution after refactorization", refactorized),
            ("the checked solve", checked),
        ];
        let is_wrong = |error: f64| error.is_nan() || error > WRONG;
        all.into_iter()
            .filter_map(|(what, error)| Some((what, error.filter(|&error| is_wrong(error))?)))
            .map(|(what, error)| format!("backward error {error:.1e} for {what}"))
            .collect()
    }
}

impl Results {
    /// Adds the matrices of another run, and the solvers that only that one had.
    pub fn add(&mut self, other: Self) {
        for solver in other.solvers {
            if self.solvers.iter().all(|own| own.name != solver.name) {
                self.solvers.push(solver);
            }
        }
        self.matrices.extend(other.matrices);
    }

    /// The run of `solver` with `threads` on `matrix`.
    pub fn run<'a>(
        &self,
        matrix: &'a MatrixResult,
        solver: &str,
        threads: usize,
    ) -> Option<&'a Run> {
        matrix
            .runs
            .iter()
            .find(|run| run.solver == solver && run.threads == threads)
    }

    /// The time of a phase, if it was measured.
    pub fn seconds(
        &self,
        matrix: &MatrixResult,
        solver: &str,
        threads: usize,
        phase: Phase,
    ) -> Option<f64> {
        let run = self.run(matrix, solver, threads)?;
        Some(run.phases.get(&phase)?.get(self.settings.statistic))
    }
}
