//! Takes matrices through every phase and measures each result apart from the solver.
//!
//! | phase | what is checked | against |
//! |---|---|---|
//! | symbolic | the filled pattern, entry for entry | the definition in `luge-reference`, or the CPU path |
//! | levels | the level of each column | likewise |
//! | supernodes | where they begin | the definition |
//! | solve | normwise backward error of A·x = A·1 | [`TARGET`] |
//! | solve transposed | the same with Aᵀ | [`TARGET`] |
//! | solve adjoint | the same with Aᴴ, of a complex matrix | [`TARGET`] |
//! | solve many | the largest of three right-hand sides | [`TARGET`] |
//! | refactorize | the error with other values of the pattern, against the matrix that has these | [`TARGET`] |
//!
//! A matrix that must not solve passes if it is refused for the reason that holds. Backward errors are computed
//! here from the matrix, the solution and the right-hand side; what the solver says of its own solution counts for
//! nothing. What cannot be checked is skipped, with the reason, and counted apart.

mod command;
mod subject;

use std::fmt;
use std::process::ExitCode;
use std::time::Instant;

use luge::ordering::Matching;
use luge::{
    BackendChoice, Error, Factors, FilledPattern, Inform, Levels, Options, Scalar, Solver, Warning,
};
use luge_benches::statistics::recordable;
use luge_benches::systems::{ordered_pattern, rescaling};
use luge_reference::{levelize, supernode, symbolic};
use luge_testkit::compare::{level_difference, pattern_difference};
use luge_testkit::corpus::{Entry, Expectation, Refusal};
use luge_testkit::residual::normwise_backward_error;
use serde::Serialize;
use sprs::CsMat;

pub use command::{Arguments, verify};
pub use subject::{AnyMatrix, Subject, Unread, made};

/// Normwise backward error that counts as solved, unless the options have another target.
pub const TARGET: f64 = 1e-12;

/// Order up to which patterns, levels and supernodes are compared with the definitions, which take their time.
pub const REFERENCE_ORDER: usize = 2000;

/// Right-hand sides of the solve with many.
const MANY: usize = 3;

/// What became of a matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Outcome {
    /// It gave solutions; whether they are right the checks say.
    Solved,
    /// Analyzed, and no more was asked for.
    Analyzed,
    /// Refused for one of the reasons for which a matrix may be refused.
    Refused {
        /// The solver's or the reader's words.
        reason: String,
    },
    /// Not tried.
    Skipped {
        /// Why.
        reason: String,
    },
    /// Anything else.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Whether a matrix, or a check of it, is as it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Verdict {
    /// It is.
    Passed,
    /// It is not.
    Failed {
        /// Why.
        reason: String,
    },
    /// It was not looked at.
    Skipped {
        /// Why.
        reason: String,
    },
}

/// A result of a phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// The phase.
    pub phase: Phase,
    /// Whether it is right.
    pub verdict: Verdict,
    /// The backward error, where it is one that was measured.
    pub backward_error: Option<f64>,
}

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The filled pattern.
    Symbolic,
    /// Levels of the columns.
    Levels,
    /// Supernodes of the rows.
    Supernodes,
    /// One right-hand side.
    Solve,
    /// One right-hand side, with the transpose.
    SolveTransposed,
    /// One right-hand side, with the conjugate transpose.
    SolveAdjoint,
    /// Many right-hand sides.
    SolveMany,
    /// Other values.
    Refactorize,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Symbolic => "symbolic",
            Self::Levels => "levels",
            Self::Supernodes => "supernodes",
            Self::Solve => "solve",
            Self::SolveTransposed => "solve transposed",
            Self::SolveAdjoint => "solve adjoint",
            Self::SolveMany => "solve many",
            Self::Refactorize => "refactorize",
        })
    }
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
    fn new(found: &(FilledPattern, Levels), expected: &(FilledPattern, Levels)) -> Self {
        let pattern = pattern_difference(found.0.rows(), expected.0.rows());
        let levels = level_difference(&found.1, &expected.1);
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
    /// Name of the matrix.
    pub name: String,
    /// Its group.
    pub group: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether the outcome is one that is expected, and no check failed.
    pub passed: bool,
    /// What was checked.
    pub checks: Vec<Check>,
    /// The last report that the solver gave, if it came that far.
    pub inform: Option<Inform>,
    /// Device against CPU, on a device.
    pub comparison: Option<Comparison>,
    /// Wall seconds, reading and comparing included.
    pub seconds: f64,
}

impl Record {
    /// Of a matrix that is not tried.
    pub fn skipped(subject: &Subject, reason: String) -> Self {
        Self {
            name: subject.name.clone(),
            group: subject.group.clone(),
            outcome: Outcome::Skipped { reason },
            passed: false,
            checks: Vec::new(),
            inform: None,
            comparison: None,
            seconds: 0.0,
        }
    }

    /// Passed, failed with every reason, or skipped.
    pub fn verdict(&self) -> Verdict {
        if let Outcome::Skipped { reason } = &self.outcome {
            return Verdict::Skipped {
                reason: reason.clone(),
            };
        }
        if self.passed {
            return Verdict::Passed;
        }
        let mut reasons = Vec::new();
        match &self.outcome {
            Outcome::Failed { reason } => reasons.push(reason.clone()),
            Outcome::Refused { reason } => {
                reasons.push(format!("refused, which is not expected: {reason}"));
            }
            _ => {}
        }
        for check in &self.checks {
            if let Verdict::Failed { reason } = &check.verdict {
                reasons.push(format!("{}: {reason}", check.phase));
            }
        }
        if let Some(comparison) = &self.comparison {
            let pattern = comparison.pattern_difference.iter();
            reasons.extend(pattern.map(|d| format!("pattern, device and CPU: {d}")));
            let levels = comparison.level_difference.iter();
            reasons.extend(levels.map(|d| format!("levels, device and CPU: {d}")));
        }
        if reasons.is_empty() {
            reasons.push("it solves, which is not expected".to_owned());
        }
        Verdict::Failed {
            reason: reasons.join("; "),
        }
    }

    /// The largest backward error that was measured.
    pub fn worst_error(&self) -> Option<f64> {
        let errors = self.checks.iter().filter_map(|check| check.backward_error);
        errors.max_by(f64::total_cmp)
    }
}

/// How many matrices passed, failed and were skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// As they must be.
    pub passed: usize,
    /// Not as they must be.
    pub failed: usize,
    /// Not tried.
    pub skipped: usize,
}

impl Summary {
    /// Of all records.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut summary = Self::default();
        for record in records {
            match record.verdict() {
                Verdict::Passed => summary.passed += 1,
                Verdict::Failed { .. } => summary.failed += 1,
                Verdict::Skipped { .. } => summary.skipped += 1,
            }
        }
        summary
    }

    /// Whether something was tried and nothing failed.
    pub fn is_success(self) -> bool {
        self.failed == 0 && self.passed > 0
    }

    /// The exit code of a run.
    pub fn exit_code(self) -> ExitCode {
        if self.is_success() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// How far a matrix is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Ordering, symbolic, levels.
    Analyze,
    /// One solution.
    Solve,
    /// Every phase, and patterns against their definitions.
    Every,
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
    /// What becomes of each solution, of a complex one of its real parts, before it is measured: nothing, but in tests of
    /// the measurement.
    pub touch: fn(Phase, &mut [f64]),
}

impl Plan {
    /// Leaves solutions as they are.
    pub fn new(options: Options, depth: Depth, compare: bool) -> Self {
        Self {
            options,
            depth,
            compare,
            touch: |_, _| {},
        }
    }

    fn touch<T: Scalar<Real = f64>>(&self, phase: Phase, x: &mut [T]) {
        let mut first = Vec::with_capacity(x.len());
        for &value in &*x {
            let mut parts = Vec::with_capacity(T::COMPONENTS);
            value.map_components(|part| {
                parts.push(part);
                part
            });
            first.push(parts[0]);
        }
        (self.touch)(phase, &mut first);
        for (value, first) in x.iter_mut().zip(first) {
            let mut at = 0;
            *value = value.map_components(|part| {
                at += 1;
                if at == 1 { first } else { part }
            });
        }
    }
}

/// Takes one entry of the corpus through the phases.
pub fn run_entry(entry: &Entry, plan: &Plan) -> Record {
    run(&Subject::of_entry(entry), plan)
}

/// Takes a matrix through the phases.
pub fn run(subject: &Subject, plan: &Plan) -> Record {
    let start = Instant::now();
    let mut report = Report {
        target: plan.options.target_backward_error.unwrap_or(TARGET),
        ..Report::default()
    };
    // Other values of a matrix that is close to singular may be closer.
    let may_refuse = subject
        .expectations
        .contains(&Expectation::NumericallySingular);
    let (outcome, met) = match subject.read() {
        Err(Unread { reason, met }) => (Outcome::Refused { reason }, met),
        Ok(a) => match match a {
            AnyMatrix::Real(a) => run_phases(&a, plan, may_refuse, &mut report),
            AnyMatrix::Complex(a) => run_phases(&a, plan, may_refuse, &mut report),
        } {
            Ok(outcome) => (outcome, Some(report.solved())),
            Err(error @ Error::RealOnly { .. }) => {
                return Record::skipped(subject, error.to_string());
            }
            Err(error) => {
                let (met, reason) = (expectation_of_error(&error), error.to_string());
                match met {
                    Some(_) => (Outcome::Refused { reason }, met),
                    None => (Outcome::Failed { reason }, None),
                }
            }
        },
    };
    // An analysis cannot tell whether the values are singular.
    let expected = outcome == Outcome::Analyzed
        || met.is_some_and(|met| subject.expectations.iter().any(|e| covers(*e, met)));
    let agrees = report.comparison.as_ref().is_none_or(Comparison::is_equal);
    let failed = |check: &Check| matches!(check.verdict, Verdict::Failed { .. });
    let checked = !report.checks.iter().any(failed);
    Record {
        name: subject.name.clone(),
        group: subject.group.clone(),
        outcome,
        passed: expected && agrees && checked,
        checks: report.checks,
        inform: report.inform,
        comparison: report.comparison,
        seconds: start.elapsed().as_secs_f64(),
    }
}

/// What is known of a matrix when it fails midway.
#[derive(Default)]
struct Report {
    /// Largest backward error of a solution.
    target: f64,
    inform: Option<Inform>,
    comparison: Option<Comparison>,
    checks: Vec<Check>,
}

impl Report {
    fn check(&mut self, phase: Phase, difference: Option<String>) {
        self.checks.push(Check {
            phase,
            verdict: match difference {
                None => Verdict::Passed,
                Some(reason) => Verdict::Failed { reason },
            },
            backward_error: None,
        });
    }

    fn skip(&mut self, phases: &[Phase], reason: &str) {
        self.checks.extend(phases.iter().map(|&phase| Check {
            phase,
            verdict: Verdict::Skipped {
                reason: reason.to_owned(),
            },
            backward_error: None,
        }));
    }

    /// Measures solutions that stand one after another.
    fn measure<T: Scalar>(&mut self, phase: Phase, a: &CsMat<T>, x: &[T], b: &[T]) {
        let n = a.rows().max(1);
        let pairs = x.chunks_exact(n).zip(b.chunks_exact(n));
        let errors = pairs.map(|(x, b)| recordable(normwise_backward_error(a, x, b)));
        let error = errors.fold(0.0, f64::max);
        self.checks.push(Check {
            phase,
            verdict: if error <= self.target {
                Verdict::Passed
            } else {
                Verdict::Failed {
                    reason: format!("backward error {error:.1e} is above {:.0e}", self.target),
                }
            },
            backward_error: Some(error),
        });
    }
}

fn run_phases<T: Scalar<Real = f64, Wide = T>>(
    a: &CsMat<T>,
    plan: &Plan,
    may_refuse: bool,
    report: &mut Report,
) -> Result<Outcome, Error> {
    let analysis = Solver::new(plan.options.clone())?.analyze(a)?;
    report.inform = Some(analysis.inform().clone());
    let compare = plan.compare && analysis.inform().num_levels.is_some();
    if compare {
        let mut options = plan.options.clone().backend(BackendChoice::Cpu);
        if options.ordering.matching == Matching::Auto {
            // What a device takes for its static pivots, so that both order alike.
            options.ordering.matching = Matching::Always;
        }
        let on_cpu = Solver::new(options)?.analyze(a)?;
        let (found, expected) = (analysis.structure()?, on_cpu.structure()?);
        report.comparison = Some(Comparison::new(&found, &expected));
    }
    if plan.depth == Depth::Every {
        against_definitions(a, report);
    }
    if plan.depth == Depth::Analyze {
        return Ok(Outcome::Analyzed);
    }

    let mut factors = analysis.factorize(a)?;
    report.inform = Some(factors.inform().clone());
    let rows_moved = factors.inform().pivoting == Some("threshold");
    if compare && rows_moved {
        // What was compared above is not what was factorized.
        let factorized = Comparison::new(&factors.structure()?, &factors.structure_on_cpu()?);
        report.comparison = report.comparison.take().map(|first| first.or(factorized));
    }

    let solution = factors.solve(&row_sums(a))?;
    let mut x = solution.x;
    report.inform = Some(solution.inform);
    plan.touch(Phase::Solve, &mut x);
    report.measure(Phase::Solve, a, &x, &row_sums(a));
    if plan.depth == Depth::Every {
        every_solve(a, &mut factors, plan, may_refuse, report)?;
    }
    Ok(Outcome::Solved)
}

/// The filled pattern, the levels and the supernodes of the matrix as the CPU path orders it, against what defines
/// them.
fn against_definitions<T: Scalar<Real = f64>>(a: &CsMat<T>, report: &mut Report) {
    let phases = [Phase::Symbolic, Phase::Levels, Phase::Supernodes];
    if a.rows() > REFERENCE_ORDER {
        let reason = format!("the definition is computed up to order {REFERENCE_ORDER}");
        return report.skip(&phases, &reason);
    }
    let b = match ordered_pattern(&a.to_csr().map(|v| v.magnitude())) {
        Ok(b) => b,
        Err(error) => return report.skip(&phases, &error.to_string()),
    };
    let filled = match luge_symbolic::cpu::filled_pattern(&b) {
        Ok(filled) => filled,
        Err(error) => return report.check(Phase::Symbolic, Some(error.to_string())),
    };
    let expected = symbolic::fill1(&b);
    let difference = pattern_difference(filled.rows(), expected.rows());
    report.check(Phase::Symbolic, difference.map(|d| d.to_string()));
    let levels = levelize::levels(&levelize::relaxed_dependencies(&expected));
    let difference = level_difference(&luge_levelize::cpu::levels(&filled), &levels);
    report.check(Phase::Levels, difference.map(|d| d.to_string()));
    let options = luge_supernode::Options {
        relax: None,
        ..luge_supernode::Options::default()
    };
    let found = luge_supernode::cpu::supernodes(&filled, &options);
    let expected = supernode::supernodes_by_definition(&expected, options.max_size as usize);
    let same = found.ptr() == expected;
    let difference = || {
        let (found, expected) = (found.len(), expected.len().saturating_sub(1));
        format!("{found} supernodes, by the definition {expected}, or others")
    };
    report.check(Phase::Supernodes, (!same).then(difference));
}

/// The phases after the first solution.
fn every_solve<T: Scalar<Real = f64, Wide = T>>(
    a: &CsMat<T>,
    factors: &mut Factors<T>,
    plan: &Plan,
    may_refuse: bool,
    report: &mut Report,
) -> Result<(), Error> {
    let transposed = a.transpose_view().to_csr();
    let b = balanced_sums(&a.to_csr());
    let mut x = factors.solve_transpose(&b)?.x;
    plan.touch(Phase::SolveTransposed, &mut x);
    report.measure(Phase::SolveTransposed, &transposed, &x, &b);

    if T::COMPONENTS > 1 {
        let adjoint = transposed.map(|v| v.conjugate());
        let b = balanced_sums(&a.to_csr().map(|v| v.conjugate()));
        let mut x = factors.solve_adjoint(&b)?.x;
        plan.touch(Phase::SolveAdjoint, &mut x);
        report.measure(Phase::SolveAdjoint, &adjoint, &x, &b);
    }

    let sums = row_sums(a);
    // The same, its negative, and each second entry of it.
    let b: Vec<T> = (0..MANY)
        .flat_map(|k| {
            sums.iter().enumerate().map(move |(i, &sum)| match k {
                0 => sum,
                1 => -sum,
                _ => sum.scaled_by((i % 2) as f64),
            })
        })
        .collect();
    let mut x = factors.solve_many(&b, MANY)?.x;
    plan.touch(Phase::SolveMany, &mut x);
    report.measure(Phase::SolveMany, a, &x, &b);

    let mut next = a.to_csr();
    for (number, value) in next.data_mut().iter_mut().enumerate() {
        *value = value.scaled_by(rescaling(number));
    }
    let b = row_sums(&next);
    let refactorized = factors.refactorize(&next);
    let mut x = match refactorized.and_then(|_| factors.solve(&b)) {
        Ok(solution) => solution.x,
        Err(error) if may_refuse => {
            report.skip(
                &[Phase::Refactorize],
                &format!("close to singular: {error}"),
            );
            return Ok(());
        }
        Err(error) => {
            report.check(Phase::Refactorize, Some(error.to_string()));
            return Ok(());
        }
    };
    plan.touch(Phase::Refactorize, &mut x);
    report.measure(Phase::Refactorize, &next, &x, &b);
    Ok(())
}

/// A·1, the right-hand side whose solution is all ones.
fn row_sums<T: Scalar>(a: &CsMat<T>) -> Vec<T> {
    let mut sums = vec![T::zero(); a.rows()];
    for (&value, (row, _)) in a {
        sums[row] += value;
    }
    sums
}

/// Aᵀ·y for the y that gives each row of A, which is stored by rows, the same weight: with y = 1 the rows of a badly
/// scaled matrix that are small would be lost in the sums, and with them the solution.
fn balanced_sums<T: Scalar<Real = f64>>(a: &CsMat<T>) -> Vec<T> {
    let mut sums = vec![T::zero(); a.cols()];
    for row in a.outer_iterator() {
        let largest = row
            .data()
            .iter()
            .fold(0.0, |m: f64, v| v.magnitude().max(m));
        // Of a row so small that no number is its inverse, the largest number there is, with room for rounding.
        let weight = (1.0 / largest).min(1e300);
        for (col, &value) in row.iter() {
            sums[col] += value.scaled_by(weight);
        }
    }
    sums
}

impl Report {
    /// What was met if the matrix solves.
    fn solved(&self) -> Expectation {
        let mut warnings = self.inform.iter().flat_map(|inform| &inform.warnings);
        if warnings.any(|warning| matches!(warning, Warning::IllConditioned { .. })) {
            Expectation::SolvesIllConditioned
        } else {
            Expectation::Solves
        }
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

/// Whether what was met is what was expected; a rank counts where it is known.
fn covers(expected: Expectation, met: Expectation) -> bool {
    match (expected, met) {
        (
            Expectation::StructurallySingular { rank: None },
            Expectation::StructurallySingular { .. },
        )
        | (Expectation::Solves, Expectation::SolvesIllConditioned) => true,
        (expected, met) => expected == met,
    }
}
