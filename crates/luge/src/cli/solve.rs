//! `luge solve`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use luge::{Inform, Pivoting, Solution, Solver, Warning};
use luge_matrix_io::{DenseMatrix, WriteError, WriteOptions, write_dense, write_dense_to};
use luge_sparse::PivotPolicy;

use super::files::{self, Destination};
use super::input::{MatrixArguments, Source, check_square, right_hand_sides};
use super::print;
use super::progress::Progress;
use super::report::{Report, footer, phases};
use super::{Failure, SolverArguments};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    matrix: MatrixArguments,
    /// Right-hand sides, dense; without it A·1, whose solution is 1 everywhere.
    #[arg(long, value_name = "B.mtx")]
    rhs: Option<PathBuf>,
    /// Write the solution to this file, compressed if its name ends in .gz.
    #[arg(long, value_name = "X.mtx")]
    out: Option<PathBuf>,
    /// How pivots are found: `auto` prefers the diagonal, and searches as far as it has to; `static`;
    /// `threshold`, or `threshold=0.5` to take the diagonal only if it is at least half of the
    /// largest.
    #[arg(long, default_value = "auto", value_parser = parse_pivoting, value_name = "RULE")]
    pivoting: Pivoting,
    /// Replace static pivots below this times the largest entry.
    #[arg(long, value_name = "EPS", value_parser = parse_positive)]
    perturbation: Option<f64>,
    /// Most steps of refinement.
    #[arg(long, default_value_t = 10, value_name = "N")]
    refinement_steps: usize,
    /// Backward error to reach.
    #[arg(long, default_value = "1e-12", value_name = "ERROR", value_parser = parse_positive)]
    target: f64,
    /// Estimate the condition number too.
    #[arg(long)]
    condition: bool,
    /// Print the determinant too.
    #[arg(long)]
    determinant: bool,
    #[command(flatten)]
    solver: SolverArguments,
}

fn parse_pivoting(text: &str) -> Result<Pivoting, String> {
    match text.split_once('=').unwrap_or((text, "")) {
        ("auto", "") => Ok(Pivoting::Auto),
        ("static", "") => Ok(Pivoting::Static),
        ("threshold", "") => Ok(Pivoting::Threshold { threshold: 0.1 }),
        ("threshold", value) => match value.parse() {
            Ok(threshold) if PivotPolicy::threshold(threshold).check().is_ok() => {
                Ok(Pivoting::Threshold { threshold })
            }
            _ => Err(format!("the threshold {value:?} is not between 0 and 1")),
        },
        _ => Err("expected auto, static, threshold or threshold=VALUE".into()),
    }
}

fn parse_positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("expected a positive number".into()),
    }
}

/// What there is to report, however far the command came.
#[derive(Default)]
struct Progressed {
    source: Option<Source>,
    rhs: Option<String>,
    inform: Option<Inform>,
}

/// Solves and reports; the JSON report is written on failure too, unless the files do not go together.
pub(crate) fn solve(arguments: &Arguments) -> Result<ExitCode, Failure> {
    arguments
        .solver
        .files()
        .read("the matrix", arguments.matrix.path())
        .read("--rhs", arguments.rhs.as_deref())
        .written("--out", arguments.out.as_deref())
        .check(arguments.solver.force)?;
    let mut progressed = Progressed::default();
    let outcome = solve_and_print(arguments, &mut progressed);
    let missed = progressed.inform.as_ref().is_some_and(|inform| {
        inform
            .warnings
            .iter()
            .any(|w| matches!(w, Warning::TargetMissed { .. }))
    });
    let (status, exit_code) = match &outcome {
        Err(failure) => (failure.kind, failure.code),
        Ok(()) if missed => ("target_missed", 3),
        Ok(()) => ("solved", 0),
    };
    let report = Report {
        command: "solve",
        version: env!("CARGO_PKG_VERSION"),
        status,
        exit_code,
        error: outcome.as_ref().err().map(Failure::message),
        name: arguments.matrix.name(),
        matrix: progressed.source.as_ref(),
        rhs: progressed.rhs,
        inform: progressed.inform.as_ref(),
    };
    let written = report.write(arguments.solver.json.as_deref());
    outcome?;
    written?;
    Ok(ExitCode::from(exit_code))
}

fn solve_and_print(arguments: &Arguments, progressed: &mut Progressed) -> Result<(), Failure> {
    let progress = Progress::start();
    let (a, source) = arguments.matrix.load()?;
    progressed.source = Some(source.clone());
    check_square(&a, &source)?;
    let options = arguments
        .solver
        .options(a.rows())?
        // No other one follows.
        .factorizations(1.0)
        .pivoting(arguments.pivoting)
        .perturbation(arguments.perturbation)
        .max_refinement_steps(arguments.refinement_steps)
        .target_backward_error(Some(arguments.target))
        .estimate_condition(arguments.condition);
    let solver = Solver::new(options)?;
    let b = right_hand_sides(arguments.rhs.as_deref(), &a)?;
    let rhs = match &arguments.rhs {
        Some(path) => format!("{} ({})", path.display(), columns(b.ncols())),
        None => "A·1, as none was given; the solution is 1 everywhere".to_owned(),
    };
    progressed.rhs = Some(rhs.clone());

    let analysis = solver.analyze(&a)?;
    progressed.inform = Some(analysis.inform().clone());
    let factors = analysis.factorize(&a)?;
    progressed.inform = Some(factors.inform().clone());
    let Solution { x, inform, .. } = factors.solve_many(b.values(), b.ncols())?;
    progressed.inform = Some(inform.clone());
    let determinant = arguments
        .determinant
        .then(|| factors.determinant())
        .transpose()?;
    drop(progress);

    let error = x.iter().fold(0.0f64, |max, x| max.max((x - 1.0).abs()));
    if let Some(path) = &arguments.out {
        write_solution(path, &DenseMatrix::new(b.nrows(), b.ncols(), x))?;
    }
    print::line(&source.name)?;
    print::line(format_args!("right-hand side: {rhs}"))?;
    print::line(phases(&source, &inform))?;
    if arguments.rhs.is_none() {
        print::line(format_args!("largest error of the solution: {error:.1e}"))?;
    }
    if let Some(determinant) = determinant {
        print::line(format_args!("determinant: {determinant}"))?;
    }
    for line in footer(&inform) {
        print::line(line)?;
    }
    if let Some(path) = &arguments.out {
        print::line(format_args!("solution: {}", path.display()))?;
    }
    Ok(())
}

fn write_solution(path: &Path, x: &DenseMatrix) -> Result<(), Failure> {
    let options = WriteOptions::default();
    files::write(path, |to| {
        let written = match to {
            Destination::Path(path) => write_dense(path, x, &options),
            Destination::Stdout(out) => write_dense_to(out, x, &options),
        };
        written.map_err(|error| match error {
            // Its path is not the one that the solution is to have.
            WriteError::Io { source, .. } => source,
            other => std::io::Error::other(other),
        })
    })
}

fn columns(count: usize) -> String {
    if count == 1 {
        "1 column".into()
    } else {
        format!("{count} columns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pivoting_rules_are_read() {
        assert_eq!(parse_pivoting("auto"), Ok(Pivoting::Auto));
        assert_eq!(parse_pivoting("static"), Ok(Pivoting::Static));
        assert_eq!(
            parse_pivoting("threshold=0.5"),
            Ok(Pivoting::Threshold { threshold: 0.5 })
        );
        assert!(parse_pivoting("threshold=2").is_err());
        assert!(parse_pivoting("static=1").is_err());
    }
}
