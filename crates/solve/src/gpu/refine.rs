//! Iterative refinement on the device, of many solutions at once.
//!
//! The rule is that of [`crate::refine`](mod@crate::refine), for each right-hand side by itself. Vectors stay on the
//! device; a step brings the measures of each solution to the host, a few words.

use luge_device::{Buffer, BufferView, BufferViewMut, Slice, SliceMut, Stream};

use super::residual::{DeviceMatrix, Measures, NotFinite, RefineScalar, Residuals, correct};
use crate::error::SolveError;
use crate::refine::{Options, Verdict};

/// What came of one right-hand side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Refined {
    /// Corrections that were kept.
    pub steps: usize,
    /// Measures of the solution.
    pub measures: Measures,
}

/// Refines solutions `x` of A·X = B, one after another, with `solve`, which replaces right-hand sides by what an
/// approximate inverse of A makes of them, all at once.
///
/// Works in three more vectors a right-hand side, in four where a correction makes a solution worse. A solution depends on the
/// others only as far as `solve` lets it.
///
/// # Errors
///
/// [`SolveError::NotFinite`] with the first row in which a solution came with an entry that is not finite;
/// [`SolveError::Cancelled`]; [`SolveError::Device`]; what `solve` gives back.
///
/// # Panics
///
/// If a length does not go with the matrix and `nrhs`.
#[track_caller]
pub fn refine<W: RefineScalar, E: From<SolveError>>(
    stream: &Stream,
    a: DeviceMatrix<'_, W>,
    b: &impl BufferView<W>,
    x: &mut impl BufferViewMut<W>,
    nrhs: usize,
    mut solve: impl FnMut(&mut Buffer<W>) -> Result<(), E>,
    options: &Options,
) -> Result<Vec<Refined>, E> {
    let n = a.pattern.n();
    let mut x = x.view_mut();
    let x = &mut x;
    let device = |e| E::from(SolveError::Device(e));
    let mut residuals = Residuals::new(stream, a.pattern, nrhs)?;
    let mut residual = stream.alloc(x.len()).map_err(device)?;
    residuals.enqueue(stream, a, x, b, &mut residual)?;
    let measured = residuals.measures()?.into_iter();
    let mut best: Vec<Refined> = measured
        .map(|measures| Refined { steps: 0, measures })
        .collect();
    if best
        .iter()
        .any(|refined| !refined.measures.norm_x.is_finite())
    {
        let mut search = NotFinite::new(stream)?;
        search.enqueue(stream, x)?;
        let first = search.first()?;
        let row = first.map_or(0, |at| at % n.max(1));
        return Err(SolveError::NotFinite { row }.into());
    }
    let mut goes_on = vec![true; nrhs];
    let mut next: Option<(Buffer<W>, Buffer<W>)> = None;
    // The best solutions of those whose last iterate, in `x`, is worse.
    let mut aside: Option<Buffer<W>> = None;
    let mut is_trial = vec![false; nrhs];
    let copy = |mut to: SliceMut<'_, W>, from: Slice<'_, W>, of: &[bool]| {
        for range in runs(of) {
            let range = range.start * n..range.end * n;
            stream.copy(&mut to.slice_mut(range.clone()), &from.slice(range))?;
        }
        Ok(())
    };
    for step in 1..=options.max_steps {
        options.check()?;
        for (goes_on, best) in goes_on.iter_mut().zip(&best) {
            if options.is_content(best.measures.normwise(), best.measures.omega()) {
                *goes_on = false;
            }
        }
        if !goes_on.contains(&true) {
            break;
        }
        let (next_x, next_residual) = match &mut next {
            Some(next) => next,
            None => {
                let alloc = || stream.alloc(x.len()).map_err(device);
                next.insert((alloc()?, alloc()?))
            }
        };
        let correction = &mut *next_residual;
        stream.copy(correction, &residual).map_err(device)?;
        solve(correction)?;
        stream.copy(next_x, x).map_err(device)?;
        correct(stream, correction, next_x)?;
        residuals.enqueue(stream, a, next_x, b, next_residual)?;
        let measured = residuals.measures()?;
        let mut is_taken = vec![false; nrhs];
        let mut becomes_trial = vec![false; nrhs];
        for (rhs, &measures) in measured.iter().enumerate() {
            if !goes_on[rhs] {
                continue;
            }
            let errors = |of: &Measures| [of.omega(), of.normwise()];
            let both = [errors(&measures), errors(&best[rhs].measures)];
            tracing::trace!(rhs, step, omega = both[0][0], "refined");
            match Verdict::of(both[0], both[1], options.target, is_trial[rhs]) {
                Verdict::Better { goes_on: more } => {
                    best[rhs] = Refined {
                        steps: step,
                        measures,
                    };
                    is_taken[rhs] = true;
                    is_trial[rhs] = false;
                    goes_on[rhs] = more;
                }
                Verdict::Trial => {
                    is_taken[rhs] = true;
                    is_trial[rhs] = true;
                    becomes_trial[rhs] = true;
                }
                Verdict::Worse => goes_on[rhs] = false,
            }
        }
        if becomes_trial.contains(&true) {
            let aside = match &mut aside {
                Some(aside) => aside,
                None => aside.insert(stream.alloc(x.len()).map_err(device)?),
            };
            copy(aside.slice_mut(..), x.slice(..), &becomes_trial).map_err(device)?;
        }
        copy(x.slice_mut(..), next_x.slice(..), &is_taken).map_err(device)?;
        copy(residual.slice_mut(..), next_residual.slice(..), &is_taken).map_err(device)?;
    }
    if let Some(aside) = &aside {
        copy(x.slice_mut(..), aside.slice(..), &is_trial).map_err(device)?;
    }
    Ok(best)
}

/// The stretches of `true`.
fn runs(flags: &[bool]) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, _) in flags.iter().enumerate().filter(|&(_, &flag)| flag) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn runs_are_the_stretches_of_true() {
        assert!(runs(&[]).is_empty() && runs(&[false, false]).is_empty());
        assert_eq!(runs(&[true, true, false, true]), [0..2, 3..4]);
        assert_eq!(runs(&[false, true, false, true, true]), [1..2, 3..5]);
    }
}
