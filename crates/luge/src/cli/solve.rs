//! `luge solve`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use luge::{Analysis, Factors, Inform, Options, Pivoting, Solution, Solver, Warning};
use luge_matrix_io::{DenseMatrix, WriteError, WriteOptions, write_dense, write_dense_to};
use luge_sparse::PivotPolicy;
use sprs::CsMat;

use super::files::{self, Destination};
use super::input::{
    AnyMatrix, Loaded, MatrixArguments, Number, RightHandSides, Source, check_square,
    right_hand_sides,
};
use super::print;
use super::progress::Progress;
use super::repeat::{self, Step, Summary};
use super::report::{Report, footer, phases, plural};
use super::{Failure, SolverArguments, load, save};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    matrix: MatrixArguments,
    /// Matrices of the same pattern that follow: analyzed once, factorized and refactorized, and solved each. Without
    /// A.mtx the first of them is the one that is analyzed.
    #[arg(long, value_name = "A.mtx", num_args = 1.., conflicts_with_all = ["sample", "size", "determinant"])]
    repeat: Vec<PathBuf>,
    /// Right-hand sides, dense: Matrix Market, NumPy's .npy, or those of a Harwell-Boeing file. Without it those that the
    /// file of the matrix has, or else A·1, whose solution is 1 everywhere. With --repeat one for all matrices, or as
    /// often as there are matrices.
    #[arg(long, value_name = "B.mtx")]
    rhs: Vec<PathBuf>,
    /// Write the solution to this file: as NumPy's array if its name ends in .npy, compressed if it ends in .gz. With
    /// --repeat, the solution of the last matrix.
    #[arg(long, value_name = "X.mtx")]
    out: Option<PathBuf>,
    /// Write the factors to this file, for --load-factors. Of the CPU alone.
    #[arg(long, value_name = "FILE", conflicts_with = "repeat")]
    save_factors: Option<PathBuf>,
    /// Take the factors from a file of --save-factors instead of computing them: those of this matrix, or of another one with
    /// the same pattern, which are refactorized.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["repeat", "save_analysis", "load_analysis"])]
    load_factors: Option<PathBuf>,
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
    /// Solve on all processes that `mpirun` or the like has started, on the CPU. Rank 0 prints, and writes the solution.
    #[cfg(feature = "mpi")]
    #[arg(long, conflicts_with_all = ["repeat", "save_factors", "load_factors", "save_analysis", "load_analysis"])]
    mpi: bool,
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

impl Arguments {
    /// The matrices of a sequence in their order, if there is one.
    pub(crate) fn sequence(&self) -> Vec<&Path> {
        if self.repeat.is_empty() {
            return Vec::new();
        }
        let following = self.repeat.iter().map(PathBuf::as_path);
        self.matrix.path().into_iter().chain(following).collect()
    }

    /// The right-hand sides of the matrix at `step` of a sequence.
    pub(crate) fn rhs_of(&self, step: usize) -> Option<&Path> {
        let one_for_all = self.rhs.first().filter(|_| self.rhs.len() == 1);
        self.rhs.get(step).or(one_for_all).map(PathBuf::as_path)
    }

    pub(crate) fn out(&self) -> Option<&Path> {
        self.out.as_deref()
    }

    /// What the report calls the matrix, or the first of a sequence, before it is read.
    fn name(&self) -> String {
        match self.sequence().first() {
            Some(path) => path.display().to_string(),
            None => self.matrix.name(),
        }
    }

    /// Refuses more or fewer right-hand sides than there are matrices, and files that do not go together.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let matrices = self.sequence().len().max(1);
        if self.rhs.len() > 1 && self.rhs.len() != matrices {
            return Err(Failure::bad_input(anyhow::anyhow!(
                "--rhs is given {} times for {}",
                self.rhs.len(),
                plural(matrices, "matrix", "matrices")
            )));
        }
        let mut files = self
            .solver
            .files()
            .read("the matrix", self.matrix.path())
            .read("--load-factors", self.load_factors.as_deref())
            .written("--save-factors", self.save_factors.as_deref())
            .written("--out", self.out());
        for path in &self.repeat {
            files = files.read("--repeat", Some(path));
        }
        for path in &self.rhs {
            files = files.read("--rhs", Some(path));
        }
        files.check(self.solver.force)
    }

    /// Analyzes a matrix, as the arguments say.
    pub(crate) fn analyze<T: Number>(
        &self,
        solver: &Solver,
        a: &CsMat<T>,
    ) -> Result<Analysis<T>, Failure> {
        self.solver.analyze(solver, a)
    }

    /// The factors of a matrix: computed, or those of a file, with new values if it has others.
    fn factors<T: Number>(
        &self,
        solver: &Solver,
        a: &CsMat<T>,
        progressed: &mut Progressed,
    ) -> Result<Factors<T>, Failure> {
        let Some(path) = &self.load_factors else {
            let analysis = self.analyze(solver, a)?;
            progressed.inform = Some(analysis.inform().clone());
            return Ok(analysis.factorize(a)?);
        };
        let mut factors = load(path, |file| solver.load_factors_of_pattern(a, file))?;
        if !factors.is_of(a)? {
            factors.refactorize(a)?;
        }
        Ok(factors)
    }

    /// Reads the matrix, or makes the sample.
    #[cfg(feature = "mpi")]
    pub(crate) fn load(&self) -> Result<AnyMatrix, Failure> {
        self.matrix.load()
    }

    #[cfg(feature = "mpi")]
    pub(crate) fn wants_determinant(&self) -> bool {
        self.determinant
    }

    /// A solver for so many factorizations of matrices of order `n`.
    pub(crate) fn solver(&self, n: usize, factorizations: usize) -> Result<Solver, Failure> {
        Ok(Solver::new(self.options(n, factorizations)?)?)
    }

    /// Its options.
    pub(crate) fn options(&self, n: usize, factorizations: usize) -> Result<Options, Failure> {
        let options = self
            .solver
            .options(n)?
            .factorizations(factorizations as f64)
            .pivoting(self.pivoting)
            .perturbation(self.perturbation)
            .max_refinement_steps(self.refinement_steps)
            .target_backward_error(Some(self.target))
            .estimate_condition(self.condition);
        Ok(options)
    }
}

/// What there is to report, however far the command came.
#[derive(Default)]
pub(crate) struct Progressed {
    pub source: Option<Source>,
    pub rhs: Option<String>,
    pub inform: Option<Inform>,
    pub steps: Vec<Step>,
    pub summary: Option<Summary>,
}

impl Progressed {
    /// Exit code of a command that ended without an error.
    pub(crate) fn exit_code(&self) -> u8 {
        let missed = self.inform.as_ref().is_some_and(missed_target)
            || self.steps.iter().any(|step| step.target_missed);
        if missed { 3 } else { 0 }
    }
}

/// Whether a solve ended above its target.
pub(crate) fn missed_target(inform: &Inform) -> bool {
    let missed = |w: &Warning| matches!(w, Warning::TargetMissed { .. });
    inform.warnings.iter().any(missed)
}

/// Solves and reports; the JSON report is written on failure too, unless the files do not go together.
pub(crate) fn solve(arguments: &Arguments) -> Result<ExitCode, Failure> {
    #[cfg(feature = "mpi")]
    if arguments.mpi {
        return super::ranks::solve(arguments);
    }
    arguments.check()?;
    let mut progressed = Progressed::default();
    let outcome = if arguments.repeat.is_empty() {
        solve_and_print(arguments, &mut progressed)
    } else {
        repeat::solve_and_print(arguments, &mut progressed)
    };
    report(arguments, outcome, progressed)
}

/// Writes the JSON report of what became of a solve, and answers with the exit code.
pub(crate) fn report(
    arguments: &Arguments,
    outcome: Result<(), Failure>,
    progressed: Progressed,
) -> Result<ExitCode, Failure> {
    let (status, exit_code) = match (&outcome, progressed.exit_code()) {
        (Err(failure), _) => (failure.kind, failure.code),
        (Ok(()), 0) => ("solved", 0),
        (Ok(()), code) => ("target_missed", code),
    };
    let report = Report {
        command: "solve",
        version: env!("CARGO_PKG_VERSION"),
        status,
        exit_code,
        error: outcome.as_ref().err().map(Failure::message),
        name: arguments.name(),
        matrix: progressed.source.as_ref(),
        rhs: progressed.rhs,
        inform: progressed.inform.as_ref(),
        steps: &progressed.steps,
        summary: progressed.summary,
    };
    let written = report.write(arguments.solver.json.as_deref());
    outcome?;
    written?;
    Ok(ExitCode::from(exit_code))
}

fn solve_and_print(arguments: &Arguments, progressed: &mut Progressed) -> Result<(), Failure> {
    let progress = Progress::start();
    match arguments.matrix.load()? {
        AnyMatrix::Real(matrix) => solve_over(&matrix, arguments, progress, progressed),
        AnyMatrix::Complex(matrix) => solve_over(&matrix, arguments, progress, progressed),
    }
}

fn solve_over<T: Number>(
    matrix: &Loaded<T>,
    arguments: &Arguments,
    progress: Progress,
    progressed: &mut Progressed,
) -> Result<(), Failure> {
    let (a, source) = (&matrix.a, &matrix.source);
    progressed.source = Some(source.clone());
    check_square(source)?;
    // No other factorization follows.
    let solver = arguments.solver(a.rows(), 1)?;
    let rhs = right_hand_sides(arguments.rhs_of(0), matrix)?;
    let b = &rhs.b;
    progressed.rhs = Some(rhs.told.clone());

    let factors = arguments.factors(&solver, a, progressed)?;
    progressed.inform = Some(factors.inform().clone());
    if let Some(path) = &arguments.save_factors {
        save(path, |out| factors.save(out))?;
    }
    let Solution { x, inform, .. } = factors.solve_many(b.values(), b.ncols())?;
    progressed.inform = Some(inform.clone());
    let determinant = arguments
        .determinant
        .then(|| factors.determinant())
        .transpose()?;
    drop(progress);

    let solved = Solved {
        x,
        inform,
        determinant: determinant.map(|determinant| determinant.to_string()),
        ranks: None,
    };
    solved.print(arguments, source, &rhs)
}

/// What a solve found.
pub(crate) struct Solved<T> {
    pub x: Vec<T>,
    pub inform: Inform,
    pub determinant: Option<String>,
    /// How many ranks solved it, if they were several processes.
    pub ranks: Option<usize>,
}

impl<T: Number> Solved<T> {
    /// Writes the solution and prints the report.
    pub(crate) fn print(
        self,
        arguments: &Arguments,
        source: &Source,
        rhs: &RightHandSides<T>,
    ) -> Result<(), Failure> {
        let error = error_of_ones(&self.x);
        if let Some(path) = &arguments.out {
            let (rows, columns) = (rhs.b.nrows(), rhs.b.ncols());
            write_solution(path, &DenseMatrix::new(rows, columns, self.x))?;
        }
        print::line(&source.name)?;
        print::line(format_args!("right-hand side: {}", rhs.told))?;
        print::line(phases(source, &self.inform))?;
        if rhs.is_of_ones {
            print::line(format_args!("largest error of the solution: {error:.1e}"))?;
        }
        if let Some(determinant) = self.determinant {
            print::line(format_args!("determinant: {determinant}"))?;
        }
        if let Some(ranks) = self.ranks {
            print::line(format_args!("ranks: {ranks}"))?;
        }
        for line in footer(&self.inform) {
            print::line(line)?;
        }
        if let Some(path) = &arguments.out {
            print::line(format_args!("solution: {}", path.display()))?;
        }
        Ok(())
    }
}

/// The largest error of a solution that should be 1 everywhere.
pub(crate) fn error_of_ones<T: Number>(x: &[T]) -> f64 {
    let errors = x.iter().map(|&x| (x - T::one()).modulus());
    errors.fold(0.0, f64::max)
}

pub(crate) fn write_solution<T: Number>(path: &Path, x: &DenseMatrix<T>) -> Result<(), Failure> {
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
