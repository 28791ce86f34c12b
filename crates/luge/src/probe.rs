//! A solve with a known solution: what factors are worth, whoever made them.

use std::time::Instant;

use luge_solve::backward_error::{Residual, RowNorms, is_safe, max_abs};
#[cfg(feature = "gpu")]
use luge_solve::gpu::Measures;
use luge_solve::known_solution;
use luge_solve::refine::{self, refine};
use luge_sparse::{MatrixView, Scalar};

use crate::accuracy::{TRUSTED_GROWTH, WILD};
#[cfg(feature = "gpu")]
use crate::device_analysis::ResidentEngine;
use crate::engine::Engine;
use crate::error::Error;
use crate::shared::Shared;
use crate::task::{Journal, Task};

/// What came back for the known solution, whose entries are of magnitude 1 to 2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    /// Normwise; infinite if the solve overflowed.
    pub backward_error: f64,
    /// That of one solve, before any refinement; infinite if it was not measured.
    pub unrefined: f64,
    pub componentwise: f64,
    pub steps: usize,
    /// The row with the largest componentwise error, if the target was missed.
    pub worst_row: usize,
    /// ‖x‖∞ of what came back, where 1 to 2 was asked for.
    pub norm_x: f64,
    /// ‖A‖∞.
    pub norm_a: f64,
}

/// A probe of one solve in plain arithmetic.
pub(crate) struct Quick<W> {
    pub probe: Probe,
    /// What came back.
    pub x: Vec<W>,
}

/// A probe that was not refined tells of one pass for other right-hand sides, up to this factor: all entries of its solution
/// are of one size, so that its residual has the size of the largest row of Dr⁻¹·|L|·|U|·Dc⁻¹, but for the signs of rounding
/// errors. A factor of 54 was seen once in 10⁴ hostile systems.
const REPRESENTATIVE: f64 = 4096.0;

/// The same where nothing is bounded, and a usual factor is asked for.
const USUAL: f64 = 64.0;

/// Solutions beyond this are not what was asked for, and their large entries hide what the others would show.
const AS_KNOWN: f64 = 4.0;

/// Refinement gains a digit a step where the reciprocal condition number is that many ε of the factors.
const CONVERGENT: f64 = 10.0;

/// Componentwise error above which refinement left a row without three correct digits: it did not converge.
const CONVERGED: f64 = 1e-3;

/// The poorest bound of one pass from which refinement gains digits for every right-hand side.
const POOREST: f64 = WILD;

/// What is known of one pass of triangular solves, and so of the refinement that goes on from it.
pub(crate) struct OnePassOf {
    /// Its backward error is at most this, but for replaced pivots.
    pub bound: f64,
    pub growth: f64,
    /// Of the scaled matrix, or an upper bound of it, if somebody asked.
    pub rcond: Option<f64>,
    /// ε of the factors.
    pub epsilon: f64,
    /// Pivots were replaced, so that the factors are those of another matrix.
    pub is_perturbed: bool,
}

impl Probe {
    /// Solves for the known solution with one pass of `solve`, which works in place, and measures in
    /// plain arithmetic, which tells errors that are large enough to matter. `None` if numbers leave the
    /// range of `f64` on the way.
    pub(crate) fn quick<T: Scalar>(
        a: MatrixView<'_, T>,
        solve: impl FnOnce(&mut [T::Wide]) -> Result<(), Error>,
    ) -> Result<Option<Quick<T::Wide>>, Error> {
        let _span = tracing::info_span!("probe").entered();
        let known: Vec<T::Wide> = (0..a.cols() as u64).map(known_solution).collect();
        let (b, norms) = products(a, &known);
        let mut x = b.clone();
        match solve(&mut x) {
            Ok(()) => {}
            Err(Error::SolutionNotFinite { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let (ax, magnitudes) = products(a, &x);
        let (mut residual, mut componentwise, mut worst_row, mut sum) = (0.0f64, 0.0f64, 0, 0.0);
        for (i, (&b, (&ax, &magnitude))) in b.iter().zip(ax.iter().zip(&magnitudes)).enumerate() {
            let r = (b - ax).magnitude();
            sum += r + magnitude;
            residual = residual.max(r);
            let error = r / (magnitude + b.magnitude());
            if error > componentwise {
                (componentwise, worst_row) = (error, i);
            }
        }
        // Magnitudes of the known solution are in [1, 2), so this is ‖A‖∞ or less.
        let (norm_a, norm_x) = (largest(&norms) / 2.0, largest(&x));
        let scale = norm_a * norm_x + largest(&b);
        if !sum.is_finite() || !is_safe(norm_a, norm_x, largest(&b)) {
            return Ok(None);
        }
        let backward_error = if residual == 0.0 {
            0.0
        } else {
            residual / scale
        };
        let probe = Self {
            backward_error,
            unrefined: backward_error,
            componentwise,
            steps: 0,
            worst_row,
            norm_x,
            norm_a,
        };
        Ok(Some(Quick { probe, x }))
    }

    /// Solves for the known solution and measures, refinement included. It goes on from the `first` solution, if there was a
    /// [quick](Self::quick) probe.
    pub(crate) fn run<T: Scalar>(
        a: MatrixView<'_, T>,
        norms: &RowNorms,
        engine: &dyn Engine<T::Wide>,
        first: Option<Vec<T::Wide>>,
        refinement: &refine::Options,
    ) -> Result<Self, Error> {
        let _span = tracing::info_span!("probe").entered();
        // A·x is to be in range, whatever the range of A.
        let scale = if is_safe(norms.infinity_norm(), 1.0, 0.0) {
            1.0
        } else {
            2f64.powi(-(max_abs(&norms.maxima).log2() as i32).clamp(-1000, 1000))
        };
        let known: Vec<T::Wide> = (0..a.cols() as u64)
            .map(|j| known_solution::<T::Wide>(j).scaled_by(scale))
            .collect();
        let zero = vec![T::Wide::default(); a.rows()];
        let b: Vec<T::Wide> = Residual::new(a, &known, &zero)
            .residual
            .into_iter()
            .map(|r| -r)
            .collect();
        let mut first = first.filter(|_| scale == 1.0);
        let correct = |r: &[T::Wide]| match first.take() {
            Some(x) => Ok(x),
            None => engine.solve(r, 1, false),
        };
        match refine(a, norms, &b, correct, refinement) {
            Ok(refined) => {
                let worst_row = if is_above(refined.normwise, refinement.target) {
                    worst_row(&Residual::new(a, &refined.x, &b), &b)
                } else {
                    0
                };
                Ok(Self {
                    backward_error: refined.normwise,
                    unrefined: f64::INFINITY,
                    componentwise: refined.componentwise[0] + refined.componentwise[1],
                    steps: refined.steps,
                    worst_row,
                    norm_x: max_abs(&refined.x) / scale,
                    norm_a: norms.infinity_norm(),
                })
            }
            Err(Error::SolutionNotFinite { row }) => Ok(Self::overflowed(row)),
            Err(error) => Err(error),
        }
    }

    /// Solves for the known solution on a device and measures there; with refinement where one solve, which may have
    /// been measured before, misses `target`. `None` if norms are out of the range in which a device measures.
    #[cfg(feature = "gpu")]
    pub(crate) fn resident<W>(
        engine: &dyn ResidentEngine<W>,
        shared: &Shared,
        measured: Option<Measures>,
        refinement: &refine::Options,
    ) -> Result<Option<Self>, Error> {
        let _span = tracing::info_span!("probe").entered();
        let measures = match measured {
            Some(measures) => measures,
            None => engine.probe(shared)?,
        };
        if measures.is_out_of_range() && shared.n() > 0 {
            return Ok(None);
        }
        let quick = Self::measured(&measures, 0, None);
        if !quick.misses(shared.target) {
            return Ok(Some(quick));
        }
        match engine.refine_probe(shared, refinement) {
            Ok((refined, row)) => Ok(Some(Self {
                unrefined: quick.unrefined,
                ..Self::measured(&refined.measures, refined.steps, row)
            })),
            Err(Error::SolutionNotFinite { row }) => Ok(Some(Self::overflowed(row))),
            Err(error) => Err(error),
        }
    }

    #[cfg(feature = "gpu")]
    fn measured(measures: &Measures, steps: usize, worst_row: Option<usize>) -> Self {
        let or_infinite = |error: f64| {
            if error.is_nan() { f64::INFINITY } else { error }
        };
        let backward_error = or_infinite(measures.normwise());
        Self {
            backward_error,
            unrefined: backward_error,
            componentwise: or_infinite(measures.omega()),
            steps,
            worst_row: worst_row.unwrap_or(0),
            norm_x: measures.norm_x,
            norm_a: measures.norm_a,
        }
    }

    /// The entry of the solution in this row is not finite.
    pub(crate) fn overflowed(row: usize) -> Self {
        Self {
            backward_error: f64::INFINITY,
            unrefined: f64::INFINITY,
            componentwise: f64::INFINITY,
            steps: 0,
            worst_row: row,
            norm_x: f64::INFINITY,
            norm_a: f64::NAN,
        }
    }

    /// A bound of the backward error of one pass that the probe lets expect; infinite if it does not tell.
    pub(crate) fn bound(&self, epsilon: f64) -> f64 {
        REPRESENTATIVE * self.of_one_pass(epsilon)
    }

    /// The backward error that one pass usually has; infinite if the probe does not tell.
    pub(crate) fn usual(&self, epsilon: f64) -> f64 {
        USUAL * self.of_one_pass(epsilon)
    }

    fn of_one_pass(&self, epsilon: f64) -> f64 {
        if self.norm_x <= AS_KNOWN && self.unrefined.is_finite() {
            self.unrefined.max(epsilon)
        } else {
            f64::INFINITY
        }
    }

    /// The backward error, if solutions for other right-hand sides, refined as this one, can be expected to reach the target
    /// where this one does. They may not if the solution that came back is another one, whose large entries hide the errors of
    /// the others; nor, if it took refinement or others may, if one pass may lose nearly all digits, which leaves the rest to luck.
    pub(crate) fn statement(&self, one_pass: &OnePassOf, target: f64) -> Option<f64> {
        // A replaced pivot is wrong by about √ε of the matrix.
        let accuracy = if one_pass.is_perturbed {
            one_pass.epsilon.sqrt()
        } else {
            one_pass.epsilon
        };
        let converges = || {
            self.componentwise <= CONVERGED
                && one_pass.bound <= POOREST
                && one_pass.growth <= TRUSTED_GROWTH
                && one_pass
                    .rcond
                    .is_none_or(|rcond| rcond >= CONVERGENT * accuracy)
        };
        let is_plain = !self.is_refined() && !one_pass.is_perturbed;
        let is_representative = self.norm_x <= AS_KNOWN && (is_plain || converges());
        (is_representative || self.misses(target)).then_some(self.backward_error)
    }

    /// Whether another solution came back than the known one, small as the backward error may be: then the matrix is as good as
    /// singular, whatever an estimate says of its factors.
    pub(crate) fn lost_solution(&self) -> bool {
        self.norm_x > AS_KNOWN
    }

    /// Whether it took refinement, or may have.
    pub(crate) fn is_refined(&self) -> bool {
        self.steps > 0 || !self.unrefined.is_finite()
    }

    /// The error that says so.
    pub(crate) fn unstable(&self, growth: f64) -> Error {
        Error::Unstable {
            row: self.worst_row,
            growth,
            backward_error: self.backward_error,
        }
    }

    /// Whether the normwise error is above `target`; one that could not be measured is.
    pub(crate) fn misses(&self, target: f64) -> bool {
        is_above(self.backward_error, target)
    }
}

/// The row with the largest componentwise error.
pub(crate) fn worst_row<W: Scalar<Real = f64>>(residual: &Residual<W>, b: &[W]) -> usize {
    let error = |i: usize| {
        let r = residual.residual[i].magnitude();
        if r == 0.0 {
            0.0
        } else {
            r / (residual.magnitude[i] + b[i].magnitude())
        }
    };
    (0..b.len()).fold(0, |at, i| if error(i) > error(at) { i } else { at })
}

/// The largest magnitude; NaN is passed over.
fn largest<W: Scalar<Real = f64>>(values: &[W]) -> f64 {
    values.iter().fold(0.0f64, |max, v| max.max(v.magnitude()))
}

/// A·x and |A|·|x|.
fn products<T: Scalar>(a: MatrixView<'_, T>, x: &[T::Wide]) -> (Vec<T::Wide>, Vec<f64>) {
    let mut sums = vec![T::Wide::default(); a.rows()];
    let mut magnitudes = vec![0.0; a.rows()];
    for (line, (indices, values)) in a.lines().enumerate() {
        let terms = indices.iter().zip(values);
        if a.is_by_columns() {
            let x = x[line];
            for (&i, &value) in terms {
                let product = value.widen() * x;
                sums[i as usize] += product;
                magnitudes[i as usize] += product.magnitude();
            }
        } else {
            let (mut sum, mut magnitude) = (T::Wide::default(), 0.0);
            for (&j, &value) in terms {
                let product = value.widen() * x[j as usize];
                sum += product;
                magnitude += product.magnitude();
            }
            (sums[line], magnitudes[line]) = (sum, magnitude);
        }
    }
    (sums, magnitudes)
}

impl<T: Scalar> Task<'_, T> {
    /// Solves for a known solution with so many steps of refinement, from the `first` solution on if there is one.
    pub(crate) fn probe_with(
        &self,
        max_steps: usize,
        engine: &dyn Engine<T::Wide>,
        first: Option<Vec<T::Wide>>,
        journal: &mut Journal,
    ) -> Result<Probe, Error> {
        let start = Instant::now();
        let refinement = refine::Options {
            max_steps,
            ..of_probe::<T>(self.shared)
        };
        let probe = Probe::run(
            self.a,
            self.norms.get_or_init(|| RowNorms::new(self.a)),
            engine,
            first,
            &refinement,
        )?;
        journal.add_probe(start.elapsed());
        Ok(probe)
    }
}

/// How the solution of a probe is refined: until the target is reached and refinement is seen to converge. What more steps
/// would gain, nobody asks.
pub(crate) fn of_probe<T: Scalar>(shared: &Shared) -> refine::Options {
    refine::Options {
        enough: Some(CONVERGED),
        ..shared.refinement::<T>()
    }
}

/// Whether a measured error is above the target; NaN is.
pub(crate) fn is_above(error: f64, target: f64) -> bool {
    error.is_nan() || error > target
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_sparse::CompressedPattern;
    use num_complex::Complex;

    #[test]
    fn products_are_of_values_and_of_magnitudes() {
        // (1 −2; 0 3) times (10, 1).
        let by_rows = CompressedPattern::new(2, vec![0, 2, 3], vec![0, 1, 1]).unwrap();
        let a = MatrixView::by_rows(&by_rows, &[1.0, -2.0, 3.0]);
        let expected = (vec![8.0, 3.0], vec![12.0, 3.0]);
        assert_eq!(products(a, &[10.0, 1.0]), expected);
        let by_cols = CompressedPattern::new(2, vec![0, 1, 3], vec![0, 0, 1]).unwrap();
        let a = MatrixView::by_columns(&by_cols, &[1.0, -2.0, 3.0]);
        assert_eq!(products(a, &[10.0, 1.0]), expected);
    }

    #[test]
    fn a_quick_probe_measures_complex_systems() {
        // 1+i  2i
        // .    3
        let pattern = CompressedPattern::new(2, vec![0, 2, 3], vec![0, 1, 1]).unwrap();
        let z = Complex::<f64>::new;
        let values = [z(1.0, 1.0), z(0.0, 2.0), z(3.0, 0.0)];
        let probe = |turn: Complex<f64>| {
            let a = MatrixView::by_rows(&pattern, &values);
            let solve = |x: &mut [Complex<f64>]| {
                x[1] = x[1] / 3.0 * turn;
                x[0] = (x[0] - z(0.0, 2.0) * x[1]).quotient(z(1.0, 1.0));
                Ok(())
            };
            Probe::quick(a, solve).unwrap().unwrap().probe
        };
        let exact = probe(Complex::ONE);
        assert!(exact.backward_error < 1e-15 && exact.componentwise < 1e-15);
        assert!(1.0 <= exact.norm_x && exact.norm_x < 2.0 + 1e-15);
        // The norm is 4 by magnitudes, and counts as half of that at least.
        assert!(1.0 <= exact.norm_a && exact.norm_a <= 4.0);
        // A solution of the right size in the wrong direction.
        let turned = probe(Complex::I);
        assert!(turned.componentwise > 0.1 && turned.worst_row == 1);
        assert!(turned.backward_error > 0.1);
    }

    #[test]
    fn a_quick_probe_measures_one_pass_where_residuals_keep_their_digits() {
        let diagonal = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap();
        let quick = |values: [f64; 2], factor: f64| {
            let a = MatrixView::by_rows(&diagonal, &values);
            let solve = |x: &mut [f64]| {
                x.iter_mut().zip(values).for_each(|(x, v)| *x *= factor / v);
                Ok(())
            };
            Probe::quick(a, solve).unwrap().map(|quick| quick.probe)
        };
        let probe = quick([2.0, 4.0], 1.0).unwrap();
        assert_eq!((probe.backward_error, probe.unrefined), (0.0, 0.0));
        assert_eq!((probe.componentwise, probe.steps), (0.0, 0));
        assert!(1.0 <= probe.norm_x && probe.norm_x < 2.0);
        // Half of what it should be: b is twice A·x. With m = ‖b‖∞ / 4 in [1, 2), ‖A‖∞ counts as 2·m and ‖x‖∞ is m / 2.
        let probe = quick([4.0, 4.0], 0.5).unwrap();
        assert!((probe.componentwise - 1.0 / 3.0).abs() < 1e-15);
        assert!(2.0 / 6.0 < probe.backward_error && probe.backward_error <= 2.0 / 5.0);
        // Out of the range in which plain arithmetic measures.
        assert!(quick([2e-300, 4e-300], 1.0).is_none());
        assert!(quick([f64::INFINITY, 1.0], 1.0).is_none());
    }

    #[test]
    fn other_right_hand_sides_are_expected_to_do_as_well_within_a_factor() {
        let probe = Probe {
            backward_error: 0.0,
            unrefined: 2f64.powi(-50),
            componentwise: 0.0,
            steps: 0,
            worst_row: 0,
            norm_x: 2.0,
            norm_a: 1.0,
        };
        let epsilon = 2f64.powi(-52);
        assert_eq!(probe.usual(epsilon), 2f64.powi(-44));
        assert_eq!(probe.bound(epsilon), 2f64.powi(-38));
        // No pass does better than rounding.
        assert_eq!(probe.usual(2f64.powi(-23)), 2f64.powi(-17));
        // Another solution came back, or nothing that can be measured.
        for untold in [
            Probe {
                norm_x: 5.0,
                ..probe
            },
            Probe {
                unrefined: f64::INFINITY,
                ..probe
            },
        ] {
            assert_eq!(untold.usual(epsilon), f64::INFINITY);
            assert_eq!(untold.bound(epsilon), f64::INFINITY);
        }
    }

    #[test]
    fn a_solution_is_lost_beyond_twice_what_was_asked_for() {
        let of_norm = |norm_x: f64| Probe {
            backward_error: 0.0,
            unrefined: 0.0,
            componentwise: 0.0,
            steps: 0,
            worst_row: 0,
            norm_x,
            norm_a: 1.0,
        };
        let one_pass = OnePassOf {
            bound: 0.0,
            growth: 1.0,
            rcond: None,
            epsilon: f64::EPSILON,
            is_perturbed: false,
        };
        for (norm_x, is_lost) in [(4.0, false), (4f64.next_up(), true), (f64::INFINITY, true)] {
            let probe = of_norm(norm_x);
            assert_eq!(probe.lost_solution(), is_lost, "{norm_x}");
            assert_eq!(probe.usual(f64::EPSILON).is_infinite(), is_lost);
            let stated = probe.statement(&one_pass, 1e-12);
            assert_eq!(stated.is_none(), is_lost);
        }
    }

    #[test]
    fn a_pass_that_was_not_measured_counts_as_refined() {
        let probe = |unrefined: f64, steps: usize| Probe {
            unrefined,
            steps,
            ..Probe::overflowed(0)
        };
        assert!(!probe(1e-3, 0).is_refined());
        assert!(probe(1e-16, 1).is_refined() && probe(f64::INFINITY, 0).is_refined());
    }

    #[test]
    fn an_error_that_is_no_number_is_above_any_target() {
        assert!(is_above(2.0, 1.0) && is_above(f64::NAN, 1.0));
        assert!(!is_above(1.0, 1.0) && !is_above(0.5, 1.0));
    }

    #[test]
    fn a_statement_needs_a_solution_that_came_back_and_refinement_that_converges() {
        let target = 1e-12;
        let refined = Probe {
            backward_error: 1e-15,
            unrefined: 1e-7,
            componentwise: 1e-15,
            steps: 2,
            worst_row: 0,
            norm_x: 2.0,
            norm_a: 1.0,
        };
        let one_pass = || OnePassOf {
            bound: 1e-5,
            growth: 10.0,
            rcond: Some(1e-3),
            epsilon: 1e-7,
            is_perturbed: false,
        };
        let told = |probe: Probe, of: OnePassOf| probe.statement(&of, target);
        assert_eq!(told(refined, one_pass()), Some(1e-15));
        // Each alone is a reason.
        let other = Probe {
            norm_x: 5.0,
            ..refined
        };
        assert_eq!(told(other, one_pass()), None);
        assert!(other.lost_solution() && !refined.lost_solution());
        let stuck = Probe {
            componentwise: 0.3,
            ..refined
        };
        assert_eq!(told(stuck, one_pass()), None);
        for of in [
            OnePassOf {
                bound: 0.1,
                ..one_pass()
            },
            OnePassOf {
                growth: 1e7,
                ..one_pass()
            },
            OnePassOf {
                rcond: Some(5e-7),
                ..one_pass()
            },
        ] {
            assert_eq!(told(refined, of), None);
        }
        let unknown = OnePassOf {
            rcond: None,
            ..one_pass()
        };
        assert_eq!(told(refined, unknown), Some(1e-15));
        // One pass that was measured needs no refinement to converge, but a solution that came back.
        let plain = Probe {
            unrefined: 1e-15,
            steps: 0,
            ..refined
        };
        let poor = || OnePassOf {
            bound: f64::INFINITY,
            growth: 1e9,
            rcond: Some(0.0),
            ..one_pass()
        };
        assert_eq!(told(plain, poor()), Some(1e-15));
        let other = Probe {
            norm_x: 5.0,
            ..plain
        };
        assert_eq!(told(other, poor()), None);
        // Of replaced pivots one right-hand side may know nothing, if they matter much.
        for (rcond, stated) in [(1e-3, None), (0.1, Some(1e-15))] {
            let perturbed = OnePassOf {
                is_perturbed: true,
                rcond: Some(rcond),
                ..one_pass()
            };
            assert_eq!(told(plain, perturbed), stated);
        }
        // What misses the target is told in any case.
        let missed = Probe {
            backward_error: 1e-9,
            ..other
        };
        assert_eq!(told(missed, poor()), Some(1e-9));
    }
}
