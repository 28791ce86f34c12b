//! The phase harness: the matrices of a corpus through every phase on one backend, with raw results.
//!
//! [`run_entry`] reads a matrix, solves A·x = A·1 and records what each phase reported. On a device it
//! also takes the matrix through the CPU and compares the filled patterns and the levels, which must be
//! equal. A record passes if its [`Outcome`] is one that the corpus expects of the matrix.
//!
//! The binary `corpus` runs it over a folder and writes the records as JSON.
//!
//! [`cpu`] is the peer benchmark: Luge on the CPU beside KLU, UMFPACK, SuperLU and faer. Its binary is
//! `cpu`, run by `cargo xtask bench cpu`.
//!
//! [`symbolic`] is the benchmark of the symbolic phase on a GPU. Its binary is `symbolic`, run by
//! `cargo xtask bench symbolic`.
//!
//! [`numeric`] is the benchmark of the whole LU on a GPU, beside KLU and cuDSS. Its binary is `numeric`, run
//! by `cargo xtask bench numeric`.
//!
//! What the benchmarks share: [`systems`] chooses matrices, reads them, finds the next of a sequence and makes
//! right-hand sides; [`child`] tries a solver in a process of its own, for the time limit and the memory;
//! [`statistics`] has samples and means, [`report`] what is recorded of solvers and written to files,
//! [`machine`] where and when, [`table`] the cells of the tables,
//! [`arguments`] options.

pub mod arguments;
pub mod child;
pub mod cpu;
pub mod machine;
pub mod numeric;
pub mod report;
pub mod statistics;
pub mod symbolic;
pub mod systems;
pub mod table;

use std::time::Instant;

use luge::ordering::Matching;
use luge::{BackendChoice, Error, FilledPattern, Inform, Levels, Options, Solver};
use luge_matrix_io::{Field, ReadError, ReadErrorKind};
use luge_testkit::compare::{level_difference, pattern_difference};
use luge_testkit::corpus::{Entry, Expectation, Refusal};
use serde::Serialize;
use sprs::CsMat;

/// Normwise backward error that counts as solved.
pub const TARGET: f64 = 1e-12;

/// What became of a matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Outcome {
    /// A solution with a backward error of at most [`TARGET`].
    Solved,
    /// Analyzed, and no more was asked for.
    Analyzed,
    /// Refused for one of the reasons for which a matrix may be refused.
    Refused {
        /// The solver's or the reader's words.
        reason: String,
    },
    /// Anything else.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Whether the device found what the CPU found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// First difference of the filled patterns; `None`: they are equal.
    pub pattern_difference: Option<String>,
    /// First difference of the levels; `None`: they are equal.
    pub level_difference: Option<String>,
}

impl Comparison {
    fn new(device: (FilledPattern, Levels), cpu: (FilledPattern, Levels)) -> Self {
        let pattern = pattern_difference(device.0.rows(), cpu.0.rows());
        let levels = level_difference(&device.1, &cpu.1);
        Self {
            pattern_difference: pattern.map(|difference| difference.to_string()),
            level_difference: levels.map(|difference| difference.to_string()),
        }
    }

    /// The differences of both, this one's first.
    fn or(self, other: Self) -> Self {
        Self {
            pattern_difference: self.pattern_difference.or(other.pattern_difference),
            level_difference: self.level_difference.or(other.level_difference),
        }
    }

    /// Whether nothing differs.
    pub fn is_equal(&self) -> bool {
        self.pattern_difference.is_none() && self.level_difference.is_none()
    }
}

/// One matrix on one backend.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// Name in the corpus.
    pub name: String,
    /// Group in the corpus.
    pub group: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether the outcome is one that the corpus expects, and the device agrees with the CPU.
    pub passed: bool,
    /// The last report that the solver gave, if it came that far.
    pub inform: Option<Inform>,
    /// Device against CPU, on a device.
    pub comparison: Option<Comparison>,
    /// Wall seconds, reading and comparing included.
    pub seconds: f64,
}

/// How far a matrix is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Ordering, symbolic, levels.
    Analyze,
    /// Everything.
    Solve,
}

/// What a run does with each matrix.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Options of the solver, the backend among them.
    pub options: Options,
    /// How far a matrix is taken.
    pub depth: Depth,
    /// Whether patterns and levels are compared with the CPU's. Only the column engine of a device finds any.
    pub compare: bool,
}

/// Takes one entry of the corpus through the phases.
pub fn run_entry(entry: &Entry, plan: &Plan) -> Record {
    let start = Instant::now();
    let mut report = Report::default();
    let (outcome, met) = match read_real(entry) {
        Err(refusal) => refusal,
        Ok(a) => match run_phases(&a, plan, &mut report) {
            Ok(outcome @ Outcome::Failed { .. }) => (outcome, None),
            Ok(outcome) => (outcome, Some(Expectation::Solves)),
            Err(error) => match expectation_of_error(&error) {
                Some(met) => (refused(&error), Some(met)),
                None => {
                    let reason = error.to_string();
                    (Outcome::Failed { reason }, None)
                }
            },
        },
    };
    // An analysis cannot tell whether the values are singular.
    let expected = outcome == Outcome::Analyzed
        || met.is_some_and(|met| entry.expectations().iter().any(|e| covers(*e, met)));
    let agrees = report.comparison.as_ref().is_none_or(Comparison::is_equal);
    Record {
        name: entry.name.clone(),
        group: entry.group.to_string(),
        outcome,
        passed: expected && agrees,
        inform: report.inform,
        comparison: report.comparison,
        seconds: start.elapsed().as_secs_f64(),
    }
}

/// What is known of a matrix when it fails midway.
#[derive(Default)]
struct Report {
    inform: Option<Inform>,
    comparison: Option<Comparison>,
}

fn read_real(entry: &Entry) -> Result<CsMat<f64>, (Outcome, Option<Expectation>)> {
    let matrix = entry
        .read()
        .map_err(|error| (refused(&error), expectation_of_read_error(&error)))?;
    matrix.into_real().map_err(|error| {
        let refusal = match error.field {
            Field::Pattern => Refusal::Pattern,
            _ => Refusal::Complex,
        };
        (refused(&error), Some(Expectation::Refused(refusal)))
    })
}

fn run_phases(a: &CsMat<f64>, plan: &Plan, report: &mut Report) -> Result<Outcome, Error> {
    let analysis = Solver::new(plan.options.clone())?.analyze(a)?;
    report.inform = Some(analysis.inform().clone());
    let compare = plan.compare && analysis.inform().num_levels.is_some();
    if compare {
        let mut options = Options {
            backend: BackendChoice::Cpu,
            ..plan.options.clone()
        };
        if options.ordering.matching == Matching::Auto {
            // What a device takes for its static pivots, so that both order alike.
            options.ordering.matching = Matching::Always;
        }
        let on_cpu = Solver::new(options)?.analyze(a)?;
        report.comparison = Some(Comparison::new(analysis.structure()?, on_cpu.structure()?));
    }
    if plan.depth == Depth::Analyze {
        return Ok(Outcome::Analyzed);
    }

    let factors = analysis.factorize(a)?;
    report.inform = Some(factors.inform().clone());
    let rows_moved = factors.inform().pivoting == Some("threshold");
    if compare && rows_moved {
        // What was compared above is not what was factorized.
        let factorized = Comparison::new(factors.structure()?, factors.structure_on_cpu()?);
        report.comparison = report.comparison.take().map(|first| first.or(factorized));
    }

    let solution = factors.solve(&row_sums(a))?;
    let backward_error = solution.inform.backward_error;
    report.inform = Some(solution.inform);
    Ok(match backward_error {
        Some(error) if error <= TARGET => Outcome::Solved,
        other => Outcome::Failed {
            reason: format!("backward error {other:?} is above {TARGET:e}"),
        },
    })
}

/// A·1, the right-hand side whose solution is all ones.
fn row_sums(a: &CsMat<f64>) -> Vec<f64> {
    let mut sums = vec![0.0; a.rows()];
    for (&value, (row, _)) in a {
        sums[row] += value;
    }
    sums
}

fn refused(error: &dyn std::error::Error) -> Outcome {
    Outcome::Refused {
        reason: error.to_string(),
    }
}

fn expectation_of_error(error: &Error) -> Option<Expectation> {
    Some(match error {
        Error::StructurallySingular { rank, .. } => {
            Expectation::StructurallySingular { rank: Some(*rank) }
        }
        Error::ZerosOnly { .. } | Error::ZeroPivot { .. } | Error::SingularToRounding { .. } => {
            Expectation::NumericallySingular
        }
        Error::NotFinite { .. } => Expectation::NotFinite,
        Error::NotSquare { .. } => Expectation::Refused(Refusal::NotSquare),
        _ => return None,
    })
}

fn expectation_of_read_error(error: &ReadError) -> Option<Expectation> {
    Some(match &error.kind {
        ReadErrorKind::Io { .. } => Expectation::IoError,
        ReadErrorKind::Parse { .. } | ReadErrorKind::ImplausibleSize { .. } => {
            Expectation::ParseError
        }
        ReadErrorKind::IndexOverflow { .. } => Expectation::TooLarge,
        _ => return None,
    })
}

/// Whether what was met is what was expected; a rank counts where it is known.
fn covers(expected: Expectation, met: Expectation) -> bool {
    match (expected, met) {
        (
            Expectation::StructurallySingular { rank: None },
            Expectation::StructurallySingular { .. },
        ) => true,
        (expected, met) => expected == met,
    }
}
