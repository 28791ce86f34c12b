//! `luge solve --repeat`: matrices of one pattern, one after the other.
//!
//! The first one is analyzed and factorized, each that follows is refactorized: its pattern may lack entries of the first
//! one, and has none beyond them. One matrix is in memory at a time.

use std::path::Path;
use std::time::Instant;

use comfy_table::{CellAlignment, Table, TableComponent, presets};
use luge::{Analysis, Factors, Refactorized, Solution};
use luge_matrix_io::DenseMatrix;
use serde::Serialize;

use super::input::{Loaded, check_square, load, right_hand_sides};
use super::progress::Progress;
use super::report::{footer, plural, seconds};
use super::solve::{Arguments, Progressed, error_of_ones, missed_target, write_solution};
use super::{Failure, print};

/// What became of one matrix.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Step {
    pub matrix: String,
    pub rhs: String,
    pub nnz: usize,
    /// `"factorized"`, `"reused"`, or `"repivoted"`.
    pub factors: &'static str,
    /// Why pivots were searched anew.
    pub reason: Option<String>,
    pub seconds_read: f64,
    /// Wall time of the factorization or refactorization.
    pub seconds_factors: f64,
    pub seconds_solve: f64,
    pub growth: Option<f64>,
    pub refinement_steps: Option<usize>,
    pub backward_error: Option<f64>,
    pub componentwise_error: Option<f64>,
    /// Largest error of the solution, where it is known to be 1 everywhere.
    pub error: Option<f64>,
    pub target_missed: bool,
}

/// A sequence as a whole.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Summary {
    pub matrices: usize,
    pub reused: usize,
    pub repivoted: usize,
    pub seconds_read: f64,
    pub seconds_analyze: f64,
    pub seconds_factorize: f64,
    /// Wall time of all refactorizations.
    pub seconds_refactorize: f64,
    pub seconds_solve: f64,
    pub largest_backward_error: Option<f64>,
}

impl Summary {
    fn new(steps: &[Step], seconds_analyze: f64) -> Self {
        let count = |factors: &str| steps.iter().filter(|step| step.factors == factors).count();
        let sum = |of: fn(&Step) -> f64| steps.iter().map(of).sum();
        let errors = steps.iter().filter_map(|step| step.backward_error);
        Self {
            matrices: steps.len(),
            reused: count("reused"),
            repivoted: count("repivoted"),
            seconds_read: sum(|step| step.seconds_read),
            seconds_analyze,
            seconds_factorize: steps.first().map_or(0.0, |step| step.seconds_factors),
            seconds_refactorize: steps.iter().skip(1).map(|step| step.seconds_factors).sum(),
            seconds_solve: sum(|step| step.seconds_solve),
            largest_backward_error: errors.reduce(f64::max),
        }
    }

    /// The lines below the table.
    fn lines(&self) -> [String; 2] {
        let following = self.matrices - 1;
        let mean = self.seconds_refactorize / following.max(1) as f64;
        [
            format!(
                "{}: pivots of {} reused, of {} searched anew; largest backward error {:.1e}",
                plural(self.matrices, "matrix", "matrices"),
                self.reused,
                self.repivoted,
                self.largest_backward_error.unwrap_or(f64::NAN)
            ),
            format!(
                "analysis {}, factorization {}, {} {} ({} each), solves {}",
                seconds(self.seconds_analyze),
                seconds(self.seconds_factorize),
                plural(following, "refactorization", "refactorizations"),
                seconds(self.seconds_refactorize),
                seconds(mean),
                seconds(self.seconds_solve)
            ),
        ]
    }
}

pub(crate) fn solve_and_print(
    arguments: &Arguments,
    progressed: &mut Progressed,
) -> Result<(), Failure> {
    let progress = Progress::start();
    let sequence = arguments.sequence();
    let mut now: Option<(Analysis<f64>, Factors<f64>)> = None;
    let mut seconds_analyze = 0.0;
    let mut last = None;
    for (step, path) in sequence.iter().enumerate() {
        let matrix = load(path)?;
        let at = |failure: Failure| failure.at(&matrix.source.name);
        let started = Instant::now();
        let (factors, how) = match &mut now {
            None => {
                check_square(&matrix.source)?;
                progressed.source = Some(matrix.source.clone());
                let solver = arguments.solver(matrix.a.rows(), sequence.len())?;
                let started = Instant::now();
                let analysis = arguments.analyze(&solver, &matrix.a).map_err(at)?;
                seconds_analyze = started.elapsed().as_secs_f64();
                progressed.inform = Some(analysis.inform().clone());
                let started = Instant::now();
                let factors = analysis.factorize(&matrix.a).map_err(|e| at(e.into()))?;
                let how = How::new("factorized", None, started);
                (&now.insert((analysis, factors)).1, how)
            }
            Some((_, factors)) => {
                let outcome = factors.refactorize(&matrix.a).map_err(|e| at(e.into()))?;
                let how = match outcome {
                    Refactorized::Reused { .. } => How::new("reused", None, started),
                    Refactorized::Repivoted { reason, .. } => {
                        How::new("repivoted", Some(reason), started)
                    }
                };
                (&*factors, how)
            }
        };
        progressed.inform = Some(factors.inform().clone());
        let rhs = arguments.rhs_of(step);
        last = Some(solve_step(rhs, &matrix, factors, how, progressed)?);
    }
    drop(progress);
    let summary = Summary::new(&progressed.steps, seconds_analyze);
    let lines = summary.lines();
    progressed.summary = Some(summary);
    if let (Some(path), Some(x)) = (arguments.out(), &last) {
        write_solution(path, x)?;
    }
    print::line(table(&progressed.steps))?;
    for line in lines {
        print::line(line)?;
    }
    for line in progressed.inform.iter().flat_map(footer) {
        print::line(line)?;
    }
    if let Some(path) = arguments.out() {
        print::line(format_args!("solution of the last: {}", path.display()))?;
    }
    Ok(())
}

/// How a matrix was factorized.
struct How {
    factors: &'static str,
    reason: Option<String>,
    seconds: f64,
}

impl How {
    fn new(factors: &'static str, reason: Option<String>, started: Instant) -> Self {
        Self {
            factors,
            reason,
            seconds: started.elapsed().as_secs_f64(),
        }
    }
}

/// Solves with factors of `matrix`, notes the step, and returns the solution.
fn solve_step(
    rhs: Option<&Path>,
    matrix: &Loaded,
    factors: &Factors<f64>,
    how: How,
    progressed: &mut Progressed,
) -> Result<DenseMatrix, Failure> {
    let rhs = right_hand_sides(rhs, matrix)?;
    progressed.rhs.get_or_insert_with(|| rhs.told.clone());
    let started = Instant::now();
    let solved = factors.solve_many(rhs.b.values(), rhs.b.ncols());
    let seconds_solve = started.elapsed().as_secs_f64();
    let Solution { x, inform, .. } =
        solved.map_err(|e| Failure::from(e).at(&matrix.source.name))?;
    progressed.steps.push(Step {
        matrix: matrix.source.name.clone(),
        rhs: rhs.told,
        nnz: matrix.a.nnz(),
        factors: how.factors,
        reason: how.reason,
        seconds_read: matrix.source.seconds,
        seconds_factors: how.seconds,
        seconds_solve,
        growth: inform.growth,
        refinement_steps: inform.refinement_steps,
        backward_error: inform.backward_error,
        componentwise_error: inform.componentwise_error,
        error: rhs.is_of_ones.then(|| error_of_ones(&x)),
        target_missed: missed_target(&inform),
    });
    progressed.inform = Some(inform);
    Ok(DenseMatrix::new(rhs.b.nrows(), rhs.b.ncols(), x))
}

fn table(steps: &[Step]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_style(TableComponent::HeaderLines, '─');
    table.set_style(TableComponent::MiddleHeaderIntersections, '─');
    let mut header = vec!["matrix", "read", "factors", "", "solve", "backward error"];
    let knows_errors = steps.iter().any(|step| step.error.is_some());
    if knows_errors {
        header.push("error");
    }
    table.set_header(header);
    for step in steps {
        let mut row = vec![
            step.matrix.clone(),
            seconds(step.seconds_read),
            seconds(step.seconds_factors),
            step.factors.to_owned(),
            seconds(step.seconds_solve),
            format!("{:.1e}", step.backward_error.unwrap_or(f64::NAN)),
        ];
        if knows_errors {
            row.push(
                step.error
                    .map_or_else(String::new, |error| format!("{error:.1e}")),
            );
        }
        table.add_row(row);
    }
    for column in [1, 2, 4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
