//! Iterative refinement: x ← x + A⁻¹·(b − A·x) with the factors at hand, the residual in `f64` or its complex numbers.
//!
//! Stops by the rule of Arioli, Demmel and Duff (1989): when the componentwise backward error ω
//! reaches rounding, or no step halves it any more. While the normwise backward error is above the
//! target any decrease of ω counts, and a normwise error that is halved: rows that the norm does not see
//! may hold ω up until the others are exact. An iterate that is worse while the target is missed gets one
//! more correction: one that takes x down by orders of magnitude leaves a residual that is large beside the
//! new x, though the next correction is right. The best iterate is the answer, so steps that make things
//! worse are undone. Cost of a step: one residual and one solve.

use luge_sparse::{CancelFlag, MatrixView, Scalar};

use crate::backward_error::{Measured, RowNorms};
use crate::error::SolveError;
use crate::extended::{Extended, shift};
use crate::measures::Measures;

/// When to stop.
#[derive(Debug, Clone)]
pub struct Options {
    /// Most corrections to make; 0 measures only.
    pub max_steps: usize,
    /// Normwise backward error that the caller wants.
    pub target: f64,
    /// Componentwise backward error at which nothing is left to gain: ε of the type of x.
    pub epsilon: f64,
    /// The componentwise backward error up to which the target is enough, ∞ if it is enough whatever that error; `None` to go
    /// on for as long as steps gain anything.
    pub enough: Option<f64>,
    /// Stops the phase at the next step when raised.
    pub cancel: CancelFlag,
}

impl Options {
    /// [`SolveError::Cancelled`] if the flag is raised.
    pub(crate) fn check<E: From<SolveError>>(&self) -> Result<(), E> {
        self.cancel
            .check()
            .map_err(|c| E::from(SolveError::from(c)))
    }

    /// Whether a solution with such errors needs no correction.
    pub(crate) fn is_content(&self, normwise: f64, omega: f64) -> bool {
        let is_enough = |most: f64| normwise <= self.target && omega <= most;
        omega <= self.epsilon || self.enough.is_some_and(is_enough)
    }
}

/// A refined solution.
#[derive(Debug, Clone)]
pub struct Refined<W = f64> {
    /// The solution.
    pub x: Vec<W>,
    /// Corrections that were kept.
    pub steps: usize,
    /// Normwise backward error of `x`.
    pub normwise: f64,
    /// The two componentwise backward errors, see [`Residual::componentwise`](crate::backward_error::Residual::componentwise).
    pub componentwise: [f64; 2],
}

/// What becomes of an iterate that a correction made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the best one.
    Better {
        /// Another correction is worth it.
        goes_on: bool,
    },
    /// It is worse, and corrected once more: the best one is put aside.
    Trial,
    /// It is worse, and the refinement ends.
    Worse,
}

impl Verdict {
    /// Of an iterate beside the best one, by the componentwise and the normwise error of each. `is_trial`: it was made from
    /// another one, which was worse.
    pub(crate) fn of(next: [f64; 2], best: [f64; 2], target: f64, is_trial: bool) -> Self {
        // A NaN compares false and ends it too.
        let is_missed = best[1] > target;
        let is_halved = next[0] <= best[0] / 2.0;
        if next[0] < best[0] || is_missed && next[1] <= best[1] / 2.0 {
            let goes_on = is_halved || is_missed;
            Self::Better { goes_on }
        } else if is_missed && !is_trial && next.iter().all(|e| e.is_finite()) {
            Self::Trial
        } else {
            Self::Worse
        }
    }
}

/// The iterates of a refinement that are still of use.
struct Iterates<I> {
    /// The one that is corrected next.
    last: I,
    /// The best one while `last` is worse.
    aside: Option<I>,
}

impl<I> Iterates<I> {
    fn new(first: I) -> Self {
        Self {
            last: first,
            aside: None,
        }
    }

    fn best(&self) -> &I {
        self.aside.as_ref().unwrap_or(&self.last)
    }

    fn into_best(self) -> I {
        self.aside.unwrap_or(self.last)
    }

    /// Takes in what a correction made of the last one, and tells whether another correction is worth it. `errors`: of it and of the
    /// best one, for [`Verdict::of`]. A best one that is not in range gives way to whatever comes.
    fn follow(&mut self, next: I, errors: [[f64; 2]; 2], target: f64, is_in_range: bool) -> bool {
        let verdict = if is_in_range {
            Verdict::of(errors[0], errors[1], target, self.aside.is_some())
        } else {
            Verdict::Better { goes_on: true }
        };
        match verdict {
            Verdict::Better { goes_on } => {
                *self = Self::new(next);
                goes_on
            }
            Verdict::Trial => {
                self.aside = Some(std::mem::replace(&mut self.last, next));
                true
            }
            Verdict::Worse => false,
        }
    }
}

/// Solves A·x = b with `correct`, which applies an approximate inverse of A, and refines.
///
/// # Errors
///
/// [`SolveError::NotFinite`] with the first entry of the first solution that is not finite, while a correction that is not
/// ends the refinement; [`SolveError::Cancelled`]; what `correct` gives back.
///
/// # Panics
///
/// If `b` is not as long as A has rows, or `correct` answers with another length.
#[track_caller]
pub fn refine<T, E>(
    a: MatrixView<'_, T>,
    norms: &RowNorms,
    b: &[T::Wide],
    mut correct: impl FnMut(&[T::Wide]) -> Result<Vec<T::Wide>, E>,
    options: &Options,
) -> Result<Refined<T::Wide>, E>
where
    T: Scalar,
    E: From<SolveError>,
{
    assert_eq!(a.rows(), b.len(), "right-hand side of another length");
    let measure = |x: Vec<T::Wide>, steps: usize| {
        let measured = Measured::new(a, norms, &x, b);
        options.check()?;
        let refined = Refined {
            steps,
            normwise: measured.normwise,
            componentwise: measured.componentwise,
            x,
        };
        Ok::<_, E>((refined, measured.residual, measured.exponent))
    };
    let errors = |of: &Refined<T::Wide>| [of.componentwise[0] + of.componentwise[1], of.normwise];
    let x = correct(b)?;
    options.check()?;
    if let Some(row) = x.iter().position(|v| !v.is_number()) {
        return Err(SolveError::NotFinite { row }.into());
    }
    let mut iterates = Iterates::new(measure(x, 0)?);
    for step in 1..=options.max_steps {
        options.check()?;
        let (best, ..) = iterates.best();
        let [omega, normwise] = errors(best);
        let is_in_range = is_in_range::<T>(&best.x);
        if is_in_range && options.is_content(normwise, omega) {
            break;
        }
        let (last, residual, exponent) = &iterates.last;
        let mut correction = correct(residual)?;
        options.check()?;
        if !correction.iter().all(|d| d.is_number()) {
            break;
        }
        if *exponent != 0 {
            let back = |d: &mut T::Wide| *d = shift(*d, *exponent);
            correction.iter_mut().for_each(back);
        }
        let pairs = last.x.iter().zip(&correction);
        let next = measure(pairs.map(|(&x, &d)| x + d).collect(), step)?;
        let made = errors(&next.0);
        tracing::trace!(step, omega = made[0], normwise = made[1], "refined");
        let both = [made, [omega, normwise]];
        if !iterates.follow(next, both, options.target, is_in_range) {
            break;
        }
    }
    Ok(iterates.into_best().0)
}

/// Whether each number of a solution is one of `T` too. Entries that are not make the errors small in which `x` counts, so
/// that these must not end the refinement; each step makes such entries smaller by about 1/ε.
fn is_in_range<T: Scalar>(x: &[T::Wide]) -> bool {
    size_of::<T>() == size_of::<T::Wide>() || x.iter().all(|&v| T::narrow(v).is_number())
}

/// As [`refine`], for a solution of which entries leave the range of `f64` before they are refined: `solve` and the corrections
/// work with numbers of any size, and only the solution has to be in range. Slow.
///
/// # Errors
///
/// As [`refine`], and [`SolveError::NotFinite`] too if an entry of the refined solution is out of range.
///
/// # Panics
///
/// If `b` is not as long as A has rows, or `solve` answers with another length.
#[track_caller]
pub fn refine_extended<T, E>(
    a: MatrixView<'_, T>,
    norms: &RowNorms,
    b: &[T::Wide],
    mut solve: impl FnMut(&[Extended<T::Wide>]) -> Result<Vec<Extended<T::Wide>>, E>,
    options: &Options,
) -> Result<Refined<T::Wide>, E>
where
    T: Scalar,
    E: From<SolveError>,
{
    assert_eq!(a.rows(), b.len(), "right-hand side of another length");
    let not_finite = |row| E::from(SolveError::NotFinite { row });
    let wide: Vec<Extended<T::Wide>> = b.iter().map(|&b| Extended::of(b)).collect();
    let errors = |of: &Measures<T::Wide>| [of.componentwise[0] + of.componentwise[1], of.normwise];
    let x = solve(&wide)?;
    if let Some(row) = x.iter().position(|v| !v.is_finite()) {
        return Err(not_finite(row));
    }
    let measured = Measures::new(a, &x, &wide);
    let mut iterates = Iterates::new((x, measured, 0));
    for step in 1..=options.max_steps {
        options.check()?;
        let (best, measured, _) = iterates.best();
        let [omega, normwise] = errors(measured);
        let is_in_range = best.iter().all(|v| T::narrow(v.to_wide()).is_number());
        if is_in_range && options.is_content(normwise, omega) {
            break;
        }
        let (last, measured, _) = &iterates.last;
        let correction = solve(&measured.residual)?;
        if !correction.iter().all(|d| d.is_finite()) {
            break;
        }
        let pairs = last.iter().zip(&correction);
        let x: Vec<Extended<T::Wide>> = pairs.map(|(&x, &d)| x + d).collect();
        let measured = Measures::new(a, &x, &wide);
        let both = [errors(&measured), [omega, normwise]];
        let next = (x, measured, step);
        if !iterates.follow(next, both, options.target, is_in_range) {
            break;
        }
    }
    let (x, _, steps) = iterates.into_best();
    let x: Vec<T::Wide> = x.into_iter().map(Extended::to_wide).collect();
    if let Some(row) = x.iter().position(|v| !v.is_number()) {
        return Err(not_finite(row));
    }
    options.check()?;
    let measured = Measured::new(a, norms, &x, b);
    Ok(Refined {
        x,
        steps,
        normwise: measured.normwise,
        componentwise: measured.componentwise,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_sparse::CompressedPattern;
    use num_complex::Complex;

    fn options(max_steps: usize) -> Options {
        Options {
            max_steps,
            target: 1e-15,
            epsilon: f64::EPSILON,
            enough: None,
            cancel: CancelFlag::new(),
        }
    }

    #[test]
    fn only_smaller_errors_are_better() {
        // Of an iterate with 1e-6, whose backward error is above the target, then below it.
        let better = |goes_on| Verdict::Better { goes_on };
        for (next, normwise, expected) in [
            ([1e-6, 1.0], 1.0, Verdict::Trial),
            ([9e-7, 1.0], 1.0, better(true)),
            ([9e-7, 1e-12], 1e-12, better(false)),
            ([5e-7, 1e-12], 1e-12, better(true)),
            ([2e-6, 1.0], 1.0, Verdict::Trial),
            ([2e-6, 0.6], 1.0, Verdict::Trial),
            ([2e-6, 0.5], 1.0, better(true)),
            ([2e-6, 1e-13], 1e-12, Verdict::Worse),
            ([f64::NAN, 1.0], 1.0, Verdict::Worse),
            ([2.0, f64::INFINITY], 1.0, Verdict::Worse),
            ([f64::NAN, f64::NAN], 1.0, Verdict::Worse),
        ] {
            for is_trial in [false, true] {
                let expected = match expected {
                    Verdict::Trial if is_trial => Verdict::Worse,
                    expected => expected,
                };
                let found = Verdict::of(next, [1e-6, normwise], 1e-10, is_trial);
                assert_eq!(found, expected, "{next:?}, {normwise}, {is_trial}");
            }
        }
    }

    fn diagonal() -> CompressedPattern {
        CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap()
    }

    /// Inverse of the diagonal, wrong by the factor `1 - error`.
    fn inexact(error: f64) -> impl Fn(&[f64]) -> Result<Vec<f64>, SolveError> {
        move |r| Ok(vec![r[0] / 2.0 * (1.0 - error), r[1] / 5.0 * (1.0 - error)])
    }

    /// 2 −1
    /// 0  4
    /// With b = (2, 0) and x = (1, t), where t is rounding: row 0 has the first componentwise error, t/4, and row 1, lost
    /// in rounding, the second, t/(1 + t).
    fn with_a_lost_row<R>(use_it: impl FnOnce(MatrixView<'_, f64>, &[f64; 2]) -> R) -> R {
        let pattern = CompressedPattern::new(2, vec![0, 2, 3], vec![0, 1, 1]).unwrap();
        use_it(
            MatrixView::by_rows(&pattern, &[2.0, -1.0, 4.0]),
            &[2.0, 0.0],
        )
    }

    #[test]
    fn a_row_lost_in_rounding_is_refined_too() {
        with_a_lost_row(|a, b| {
            let mut solutions = vec![vec![0.0, -1e-14], vec![1.0, 1e-14]];
            let correct = |_: &[f64]| Ok::<_, SolveError>(solutions.pop().unwrap());
            let refined = refine(a, &RowNorms::new(a), b, correct, &options(10)).unwrap();
            assert_eq!((refined.steps, refined.x), (1, vec![1.0, 0.0]));
        });
    }

    /// (2 0; 0 5) with an inverse that is wrong by a tenth: each step gains a digit.
    #[test]
    fn the_target_is_enough_if_the_componentwise_error_is_small_enough_too() {
        let pattern = diagonal();
        let a = MatrixView::by_rows(&pattern, &[2.0, 5.0]);
        let steps = |enough| {
            let options = Options {
                target: 1e-4,
                enough,
                ..options(100)
            };
            let refined = refine(a, &RowNorms::new(a), &[1.0, 1e-3], inexact(0.1), &options);
            refined.unwrap().steps
        };
        let (at_target, at_both, to_the_end) =
            (steps(Some(f64::INFINITY)), steps(Some(1e-8)), steps(None));
        assert!((2..=4).contains(&at_target), "{at_target}");
        assert!((6..=8).contains(&at_both), "{at_both}");
        assert!(to_the_end >= 14, "{to_the_end}");
    }

    #[test]
    fn entries_out_of_the_range_of_the_matrix_are_refined_whatever_the_error() {
        let pattern = diagonal();
        let a = MatrixView::<f32>::by_rows(&pattern, &[1.0, 1e-30]);
        let (b, norms) = ([1e30, 1e-8], RowNorms::new(a));
        let at_target = Options {
            enough: Some(f64::INFINITY),
            ..options(10)
        };
        // Beside 2^130 all else is rounding: the normwise error is 1e-30, but f32 ends at 2^128.
        let [far, near] = [133, 130].map(|e| 2f64.powi(e));
        let solutions = [[1e30, far], [0.0, near - far], [0.0, -near]];
        let mut left = solutions.iter();
        let correct = |_: &[f64]| Ok::<_, SolveError>(left.next().unwrap().to_vec());
        let refined = refine(a, &norms, &b, correct, &at_target).unwrap();
        assert_eq!((refined.steps, refined.x), (2, vec![1e30, 0.0]));

        let mut left = solutions.iter();
        let solve = |_: &[Extended]| {
            let solution = left.next().unwrap();
            Ok::<_, SolveError>(solution.map(Extended::of).to_vec())
        };
        let refined = refine_extended(a, &norms, &b, solve, &at_target).unwrap();
        assert_eq!((refined.steps, refined.x), (2, vec![1e30, 0.0]));
    }

    #[test]
    fn so_is_one_with_exponents_apart() {
        with_a_lost_row(|a, b| {
            let mut solutions = vec![[0.0, -1e-14], [1.0, 1e-14]];
            let solve = |_: &[Extended]| {
                let solution = solutions.pop().unwrap();
                Ok::<_, SolveError>(solution.map(Extended::of).to_vec())
            };
            let refined = refine_extended(a, &RowNorms::new(a), b, solve, &options(10)).unwrap();
            assert_eq!((refined.steps, refined.x), (1, vec![1.0, 0.0]));
        });
    }

    #[test]
    fn a_correction_that_spoils_a_lost_row_is_undone() {
        with_a_lost_row(|a, b| {
            // Row 0 is as wrong as before.
            // The correction that a worse iterate gets changes nothing.
            let mut solutions = vec![vec![0.0; 2], vec![0.5e-13, 1e-13], vec![1.0, 1e-14]];
            let correct = |_: &[f64]| Ok::<_, SolveError>(solutions.pop().unwrap());
            let refined = refine(a, &RowNorms::new(a), b, correct, &options(10)).unwrap();
            assert_eq!((refined.steps, refined.x), (0, vec![1.0, 1e-14]));
        });
    }

    #[test]
    fn each_step_gains_the_accuracy_of_the_inverse() {
        let pattern = diagonal();
        let a = MatrixView::by_rows(&pattern, &[2.0, 5.0]);
        let norms = RowNorms::new(a);
        let b = [2.0, 10.0];
        let none = refine(a, &norms, &b, inexact(1e-4), &options(0)).unwrap();
        assert!(none.normwise > 1e-5 && none.steps == 0);
        let all = refine(a, &norms, &b, inexact(1e-4), &options(10)).unwrap();
        assert!(all.normwise < 1e-15, "{}", all.normwise);
        assert!((3..=5).contains(&all.steps), "{}", all.steps);
    }

    #[test]
    fn a_step_that_makes_it_worse_is_undone() {
        let pattern = diagonal();
        let a = MatrixView::by_rows(&pattern, &[2.0, 5.0]);
        let norms = RowNorms::new(a);
        let b = [2.0, 10.0];
        let mut calls = 0;
        let diverging = |r: &[f64]| {
            calls += 1;
            let wrong = if calls == 1 { 0.999 } else { -7.0 };
            Ok::<_, SolveError>(vec![r[0] / 2.0 * wrong, r[1] / 5.0 * wrong])
        };
        let kept = refine(a, &norms, &b, diverging, &options(10)).unwrap();
        assert_eq!(kept.steps, 0);
        assert_eq!(kept.x, [0.999, 1.998]);
        // Worse, and corrected once more.
        assert_eq!(calls, 3);
    }

    #[test]
    fn an_iterate_that_is_worse_is_corrected_once_more() {
        let pattern = diagonal();
        let a = MatrixView::by_rows(&pattern, &[2.0, 5.0]);
        let norms = RowNorms::new(a);
        let b = [2.0, 10.0];
        // From a million times the solution to −3 times: worse in both errors.
        let overshoot = (1e6 + 3.0) / (1e6 - 1.0);
        for (last, steps, at_end) in [(1.0, 2, 1.0), (-1.0, 0, 1e6_f64)] {
            let mut factors = vec![last, overshoot, 1e6];
            let mut factor = || factors.pop().unwrap_or(last);
            let correct = |r: &[f64]| {
                let factor = factor();
                Ok::<_, SolveError>(vec![r[0] / 2.0 * factor, r[1] / 5.0 * factor])
            };
            let refined = refine(a, &norms, &b, correct, &options(10)).unwrap();
            assert_eq!(refined.steps, steps);
            let error = f64::abs(refined.x[0] - at_end) / at_end;
            assert!(error < 1e-15, "{error}");

            let mut factors = vec![last, overshoot, 1e6];
            let mut factor = || Extended::of(factors.pop().unwrap_or(last));
            let halves = [Extended::of(0.5), Extended::of(0.2)];
            let solve = |r: &[Extended]| {
                let factor = factor();
                Ok::<_, SolveError>(vec![r[0] * halves[0] * factor, r[1] * halves[1] * factor])
            };
            let refined = refine_extended(a, &norms, &b, solve, &options(10)).unwrap();
            assert_eq!(refined.steps, steps);
        }
    }

    #[test]
    fn nan_is_named_and_the_flag_obeyed() {
        let pattern = diagonal();
        let a = MatrixView::by_rows(&pattern, &[2.0, 5.0]);
        let norms = RowNorms::new(a);
        let nan = |_: &[f64]| Ok::<_, SolveError>(vec![1.0, f64::NAN]);
        assert!(matches!(
            refine(a, &norms, &[1.0, 1.0], nan, &options(1)),
            Err(SolveError::NotFinite { row: 1 })
        ));
        let stopped = options(3);
        stopped.cancel.cancel();
        assert!(matches!(
            refine(a, &norms, &[1.0, 1.0], inexact(0.1), &stopped),
            Err(SolveError::Cancelled(_))
        ));
    }

    #[test]
    fn a_correction_that_is_not_finite_ends_the_refinement() {
        let pattern = diagonal();
        let a = MatrixView::by_rows(&pattern, &[2.0, 5.0]);
        let norms = RowNorms::new(a);
        let mut calls = 0;
        let overflowing = |r: &[f64]| {
            calls += 1;
            let wrong = if calls == 1 { 0.999 } else { f64::INFINITY };
            Ok::<_, SolveError>(vec![r[0] / 2.0 * wrong, r[1] / 5.0])
        };
        let kept = refine(a, &norms, &[2.0, 10.0], overflowing, &options(10)).unwrap();
        assert_eq!((kept.steps, kept.x), (0, vec![0.999, 2.0]));
    }

    #[test]
    fn entries_out_of_range_are_refined_until_they_are_not() {
        // The inverse is wrong by 1e310 below the diagonal, so that the first solution has an entry of 1e310.
        let pattern = diagonal();
        let a = MatrixView::by_rows(&pattern, &[1.0f64, 1e-300]);
        let norms = RowNorms::new(a);
        let [wrong, large] = [1e10, 1e300].map(Extended::of);
        let solve = |r: &[Extended]| Ok::<_, SolveError>(vec![r[0], (r[1] + r[0] * wrong) * large]);
        let b = [1.0, 3e-300];
        let found = refine_extended(a, &norms, &b, solve, &options(10)).unwrap();
        assert!(found.x[0] == 1.0 && (found.x[1] - 3.0).abs() < 1e-15);
        assert!(found.steps > 1 && found.normwise < 1e-300);
        // Without steps, and where the solution is out of range itself.
        for (b, max_steps) in [(b, 0), ([1.0, 1e100], 10)] {
            let lost = refine_extended(a, &norms, &b, solve, &options(max_steps));
            assert!(matches!(lost, Err(SolveError::NotFinite { row: 1 })));
        }
        let nan = |_: &[Extended]| Ok::<_, SolveError>(vec![Extended::of(f64::NAN); 2]);
        let lost = refine_extended(a, &norms, &b, nan, &options(10));
        assert!(matches!(lost, Err(SolveError::NotFinite { row: 0 })));
    }

    #[test]
    fn each_step_with_exponents_apart_gains_the_accuracy_of_the_inverse() {
        let pattern = diagonal();
        let a = MatrixView::by_rows(&pattern, &[2.0, 4.0]);
        let norms = RowNorms::new(a);
        // Errors of 2⁻¹⁴, 2⁻²⁸, 2⁻⁴² and less than rounding.
        let wrong = 1.0 - 2f64.powi(-14);
        let [half, quarter] = [0.5, 0.25].map(|v| Extended::of(v * wrong));
        let solve = |r: &[Extended]| Ok::<_, SolveError>(vec![r[0] * half, r[1] * quarter]);
        let refined =
            |max_steps| refine_extended(a, &norms, &[2.0, 8.0], solve, &options(max_steps));
        let all = refined(10).unwrap();
        assert_eq!((all.steps, all.x), (3, vec![1.0, 2.0]));
        assert_eq!(refined(2).unwrap().steps, 2);
    }

    #[test]
    fn a_correction_with_exponents_apart_that_spoils_a_lost_row_is_undone() {
        with_a_lost_row(|a, b| {
            // Row 0 is as wrong as before.
            let mut solutions = vec![[0.0; 2], [0.5e-13, 1e-13], [1.0, 1e-14]];
            let solve = |_: &[Extended]| {
                let solution = solutions.pop().unwrap();
                Ok::<_, SolveError>(solution.map(Extended::of).to_vec())
            };
            let refined = refine_extended(a, &RowNorms::new(a), b, solve, &options(10)).unwrap();
            assert_eq!((refined.steps, refined.x), (0, vec![1.0, 1e-14]));
        });
    }

    /// 2  i     A·(1 + i, 2) = (2 + 4i, 4 − 2i)
    /// .  2−i
    fn with_a_complex_system<R>(
        use_it: impl FnOnce(MatrixView<'_, Complex<f64>>, &[Complex<f64>; 2], &[Complex<f64>; 2]) -> R,
    ) -> R {
        let z = Complex::<f64>::new;
        let pattern = CompressedPattern::new(2, vec![0, 2, 3], vec![0, 1, 1]).unwrap();
        let values = [z(2.0, 0.0), z(0.0, 1.0), z(2.0, -1.0)];
        let a = MatrixView::by_rows(&pattern, &values);
        use_it(a, &[z(1.0, 1.0), z(2.0, 0.0)], &[z(2.0, 4.0), z(4.0, -2.0)])
    }

    #[test]
    fn complex_systems_gain_the_accuracy_of_the_inverse() {
        with_a_complex_system(|a, x, b| {
            // Wrong by a factor that turns as well.
            let wrong = Complex::new(1.0 - 1e-4, 1e-4);
            let correct = |r: &[Complex<f64>]| {
                let second = r[1].quotient(Complex::new(2.0, -1.0)) * wrong;
                Ok::<_, SolveError>(vec![(r[0] - Complex::<f64>::I * second) / 2.0, second])
            };
            let norms = RowNorms::new(a);
            let none = refine(a, &norms, b, correct, &options(0)).unwrap();
            assert!(none.steps == 0 && none.normwise > 1e-5);
            let all = refine(a, &norms, b, correct, &options(10)).unwrap();
            assert!((3..=5).contains(&all.steps), "{}", all.steps);
            assert!(all.normwise < 1e-15 && all.componentwise[0] < 1e-15);
            let is_close = |(x, y): (&Complex<f64>, &Complex<f64>)| (x - y).modulus() < 1e-15;
            assert!(all.x.iter().zip(x).all(is_close), "{:?}", all.x);
            let nan = |_: &[Complex<f64>]| {
                Ok::<_, SolveError>(vec![Complex::ONE, Complex::new(0.0, f64::NAN)])
            };
            assert!(matches!(
                refine(a, &norms, b, nan, &options(1)),
                Err(SolveError::NotFinite { row: 1 })
            ));
        });
    }

    #[test]
    fn complex_entries_out_of_range_are_refined_until_they_are_not() {
        // As for real numbers above: the inverse is wrong by 2^1033 below the diagonal, in another direction.
        let pattern = diagonal();
        let z = Complex::<f64>::new;
        let tiny = 2f64.powi(-1000);
        let values = [z(0.0, 1.0), z(tiny, tiny)];
        let a = MatrixView::by_rows(&pattern, &values);
        let half = 0.5 / tiny;
        let [wrong, large] = [z(0.0, 2f64.powi(33)), z(half, -half)].map(Extended::of);
        let turned = Extended::of(z(0.0, -1.0));
        let solve = |r: &[Extended<Complex<f64>>]| {
            Ok::<_, SolveError>(vec![r[0] * turned, (r[1] + r[0] * wrong) * large])
        };
        let b = [z(1.0, 2.0), z(3.0 * tiny, -tiny)];
        let found = refine_extended(a, &RowNorms::new(a), &b, solve, &options(10)).unwrap();
        assert_eq!(found.x[0], z(2.0, -1.0));
        assert!(
            (found.x[1] - z(1.0, -2.0)).modulus() < 1e-15,
            "{}",
            found.x[1]
        );
        assert!(found.steps > 1 && found.normwise < 1e-300);
        let lost = refine_extended(a, &RowNorms::new(a), &b, solve, &options(0));
        assert!(matches!(lost, Err(SolveError::NotFinite { row: 1 })));
    }

    #[test]
    fn zero_right_hand_sides_are_exact() {
        let pattern = diagonal();
        let a = MatrixView::by_rows(&pattern, &[2.0, 5.0]);
        let norms = RowNorms::new(a);
        let zero = refine(a, &norms, &[0.0, 0.0], inexact(0.5), &options(5)).unwrap();
        assert_eq!((zero.normwise, zero.steps), (0.0, 0));
    }
}
