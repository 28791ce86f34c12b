//! `luge solve --mpi`: one matrix on all processes that `mpirun` started.
//!
//! Each process reads the matrix and the right-hand sides. Rank 0 prints, writes files, and tells by its exit code how it went; the
//! others say nothing and end with 0: at the first other code `mpirun` kills whoever is still printing.

use std::process::ExitCode;

use luge::distributed::{Mpi, RankError, RankErrorKind, Ranks};
use luge::{Inform, Solution};

use super::Failure;
use super::input::{AnyMatrix, Loaded, Number, check_square, right_hand_sides};
use super::progress::Progress;
use super::solve::{Arguments, Progressed, Solved, report};

impl From<RankError> for Failure {
    fn from(error: RankError) -> Self {
        let (code, kind) = match error.kind {
            RankErrorKind::BadInput => (2, "bad_input"),
            RankErrorKind::Singular => (3, "numerically_singular"),
            RankErrorKind::OutOfMemory => (1, "out_of_memory"),
            RankErrorKind::Cancelled => (1, "cancelled"),
            RankErrorKind::Communication => (1, "communication"),
            _ => (1, "failed"),
        };
        Self {
            code,
            kind,
            error: error.into(),
        }
    }
}

/// Solves on all ranks, and reports on rank 0.
pub(crate) fn solve(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let ranks = Ranks::new(Mpi::start().map_err(Failure::other)?)?;
    let progress = (ranks.rank() == 0).then(Progress::start);
    let mut progressed = Progressed::default();
    // Before any of them writes a file.
    let checked = ranks.together(|| arguments.check().map_err(|failure| failure.message()));
    let matrix = checked
        .and_then(|()| ranks.together(|| arguments.load().map_err(|failure| failure.message())));
    let outcome = match matrix {
        Ok(AnyMatrix::Real(matrix)) => solve_over(&matrix, arguments, &ranks, &mut progressed),
        Ok(AnyMatrix::Complex(matrix)) => solve_over(&matrix, arguments, &ranks, &mut progressed),
        Err(error) => Err(error.into()),
    };
    drop(progress);
    let outcome = outcome.and_then(|print| match ranks.rank() {
        0 => print(),
        _ => Ok(()),
    });
    if ranks.rank() == 0 {
        return report(arguments, outcome, progressed);
    }
    Ok(ExitCode::SUCCESS)
}

/// What prints the result.
type Print<'a> = Box<dyn FnOnce() -> Result<(), Failure> + 'a>;

fn solve_over<'a, T: Number>(
    matrix: &Loaded<T>,
    arguments: &'a Arguments,
    ranks: &Ranks,
    progressed: &mut Progressed,
) -> Result<Print<'a>, Failure> {
    let (a, source) = (&matrix.a, matrix.source.clone());
    progressed.source = Some(source.clone());
    check_square(&source)?;
    let (rhs, options) = ranks.together(|| {
        let rhs = right_hand_sides(arguments.rhs_of(0), matrix);
        let both = rhs.and_then(|rhs| Ok((rhs, arguments.options(a.rows(), 1)?)));
        both.map_err(|failure| failure.message())
    })?;
    progressed.rhs = Some(rhs.told.clone());
    let analysis = ranks.solver(options)?.analyze(a)?;
    progressed.inform = Some(analysis.inform().clone());
    let factors = analysis.factorize(a)?;
    progressed.inform = Some(factors.inform()?.clone());
    let Solution { x, inform, .. } = factors.solve_many(rhs.b.values(), rhs.b.ncols())?;
    progressed.inform = Some(Inform::clone(&inform));
    let determinant = arguments
        .wants_determinant()
        .then(|| factors.determinant())
        .transpose()?;
    let size = ranks.size();
    Ok(Box::new(move || {
        let solved = Solved {
            x,
            inform,
            determinant: determinant.map(|determinant| determinant.to_string()),
            ranks: Some(size),
        };
        solved.print(arguments, &source, &rhs)
    }))
}
