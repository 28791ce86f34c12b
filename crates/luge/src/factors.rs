//! Factors, what they solve, and their renewal for new values.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use luge_solve::backward_error::{Residual, RowNorms, max_abs};
use luge_solve::refine::{self, Refined, refine};
use luge_sparse::{FilledPattern, Levels, MatrixView, Scalar};
use serde::Serialize;
use sprs::CsMat;

use crate::chain::{AnyChain, Condition, Engine, Perturbation};
use crate::error::Error;
use crate::inform::{Inform, Warning};
use crate::options::Pivoting;
use crate::solver::{Shared, by_rows, to_f64};

/// Diagonal preference of the first search for pivots under [`Pivoting::Auto`].
const SEARCH_THRESHOLD: f64 = 0.01;

/// A matrix whose pivots were searched and whose reciprocal condition number, scaled, is below this
/// times ε is singular to rounding. Matrices of the condition 1/ε still solve with a small backward
/// error; those beyond by two orders are noise.
const SINGULAR: f64 = 1.0 / 64.0;

/// Below this times ε the reciprocal condition number is worth a warning: one digit is left.
const ILL_CONDITIONED: f64 = 10.0;

/// Factors of one matrix, which solve with it and its transpose.
pub struct Factors<T> {
    shared: Arc<Shared>,
    /// The matrix, by rows, for residuals.
    a: CsMat<T>,
    norms: RowNorms,
    transpose_norms: OnceLock<RowNorms>,
    established: Established,
    /// The report of the analysis, from which each factorization starts its own.
    analyzed: Inform,
    inform: Inform,
}

/// Factors that passed their probe, or the best there were.
struct Established {
    chain: Arc<dyn AnyChain>,
    engine: Box<dyn Engine>,
    probe: Probe,
    /// Off-diagonal pivots, if they were searched.
    searched: Option<usize>,
    /// Estimated if pivots were searched, or if the options ask for it.
    condition: Option<Condition>,
}

/// A solve with a known solution.
#[derive(Debug, Clone, Copy)]
struct Probe {
    /// Normwise; infinite if the solve overflowed.
    backward_error: f64,
    componentwise: f64,
    steps: usize,
    /// The row with the largest componentwise error.
    worst_row: usize,
}

/// A solution and how good it is.
#[derive(Debug, Clone)]
pub struct Solution<T> {
    /// The solution; with many right-hand sides, one column after another.
    pub x: Vec<T>,
    /// The report, backward error and refinement steps included.
    pub inform: Inform,
}

/// How new values were factorized.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Refactorized {
    /// The old pivots and scaling serve the new values too.
    Reused {
        /// Growth max|U|/max|B|.
        growth: f64,
        /// Normwise backward error of the probe.
        backward_error: f64,
    },
    /// New pivots had to be found; the scaling and the column order stayed.
    Repivoted {
        /// What was wrong with the old pivots.
        reason: String,
        /// Growth with the new pivots.
        growth: f64,
        /// Normwise backward error of the probe with the new pivots.
        backward_error: f64,
    },
}

impl<T: Scalar> Factors<T> {
    pub(crate) fn new(shared: Arc<Shared>, a: &CsMat<T>, analyzed: &Inform) -> Result<Self, Error> {
        let a = check(&shared, a)?;
        let norms = RowNorms::new(shared.view(&a));
        let mut inform = analyzed.clone();
        let established = establish(&shared, shared.view(&a), &norms, &mut inform)?;
        let mut factors = Self {
            shared,
            a,
            norms,
            transpose_norms: OnceLock::new(),
            established,
            analyzed: analyzed.clone(),
            inform,
        };
        factors.complete_inform()?;
        Ok(factors)
    }

    fn view(&self) -> MatrixView<'_, T> {
        self.shared.view(&self.a)
    }

    /// What is known of these factors: sizes, pivots, growth, the probe's backward error.
    pub fn inform(&self) -> &Inform {
        &self.inform
    }

    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.a.rows()
    }

    /// The filled pattern of the matrix that was factorized in the end and its levels: those of
    /// [`Analysis::structure`](crate::Analysis::structure), or, after a search for pivots, those of
    /// the matrix with its rows so permuted.
    ///
    /// # Errors
    ///
    /// As for the analysis.
    pub fn structure(&self) -> Result<(FilledPattern, Levels), Error> {
        self.established.chain.structure(&self.shared.limits)
    }

    /// Solves A·x = b.
    ///
    /// A solution whose backward error stays above the target is given all the same, with a
    /// [`Warning::TargetMissed`].
    ///
    /// # Errors
    ///
    /// [`Error::NotFinite`] if `b` holds a value that is not finite, [`Error::SolutionNotFinite`],
    /// [`Error::Cancelled`], those of the device.
    ///
    /// # Panics
    ///
    /// If `b` is not of length n.
    #[track_caller]
    pub fn solve(&self, b: &[T]) -> Result<Solution<T>, Error> {
        self.solve_many(b, 1)
    }

    /// Solves Aᵀ·x = b; otherwise as [`solve`](Self::solve).
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// If `b` is not of length n.
    #[track_caller]
    pub fn solve_transpose(&self, b: &[T]) -> Result<Solution<T>, Error> {
        assert_eq!(b.len(), self.n(), "right-hand side of another length");
        let norms = self
            .transpose_norms
            .get_or_init(|| RowNorms::new(self.view().transpose()));
        self.solve_columns(self.view().transpose(), norms, b, 1, true)
    }

    /// Solves A·X = B for `nrhs` right-hand sides that stand one after another in `b`. The inform
    /// has the largest errors and the most steps of them all.
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// If `b` is not of length n · nrhs.
    #[track_caller]
    pub fn solve_many(&self, b: &[T], nrhs: usize) -> Result<Solution<T>, Error> {
        assert_eq!(
            b.len(),
            self.n() * nrhs,
            "right-hand side of another length"
        );
        self.solve_columns(self.view(), &self.norms, b, nrhs, false)
    }

    fn solve_columns(
        &self,
        a: MatrixView<'_, T>,
        norms: &RowNorms,
        b: &[T],
        nrhs: usize,
        transpose: bool,
    ) -> Result<Solution<T>, Error> {
        let _span = tracing::info_span!("solve").entered();
        let start = Instant::now();
        let n = self.n();
        let b = to_f64(b);
        if let Some(at) = b.iter().position(|v| !v.is_finite()) {
            return Err(Error::NotFinite {
                row: at % n,
                column: at / n,
            });
        }
        let mut x = Vec::with_capacity(b.len());
        let (mut worst, mut worst_componentwise, mut most_steps) = (0.0f64, 0.0f64, 0);
        // All first solutions at once, then each right-hand side is refined by itself.
        let first = self.established.engine.solve(&b, nrhs, transpose)?;
        for (column, b) in b.chunks_exact(n.max(1)).enumerate() {
            let mut given = Some(first[column * n..(column + 1) * n].to_vec());
            let refined = refine(
                a,
                norms,
                b,
                |r| match given.take() {
                    Some(x) => Ok(x),
                    None => self.established.engine.solve(r, 1, transpose),
                },
                &self.shared.refinement::<T>(),
            )?;
            let rounded: Vec<T> = refined.x.iter().map(|&v| T::from_f64(v)).collect();
            let (normwise, componentwise) = measure_rounded(a, norms, &refined, &rounded, b)?;
            worst = max_abs(&[worst, normwise]);
            worst_componentwise = max_abs(&[worst_componentwise, componentwise]);
            most_steps = most_steps.max(refined.steps);
            x.extend(rounded);
        }
        let mut inform = self.inform.clone();
        inform.backward_error = Some(worst);
        inform.componentwise_error = Some(worst_componentwise);
        inform.refinement_steps = Some(most_steps);
        inform.seconds.solve = Some(start.elapsed().as_secs_f64());
        inform.take_device_costs(self.established.engine.as_ref());
        inform
            .warnings
            .retain(|warning| !matches!(warning, Warning::TargetMissed { .. }));
        inform.check_target(self.shared.target);
        Ok(Solution { x, inform })
    }

    /// Factorizes new values on the same pattern.
    ///
    /// Pivots and scaling are kept if the growth stays below
    /// [`max_growth`](crate::Options::max_growth), no pivot has to be replaced (under
    /// [`Pivoting::Auto`]) and a probe reaches the target backward error. Otherwise new pivots are
    /// searched, unless the options forbid it.
    ///
    /// # Errors
    ///
    /// [`Error::Unstable`] if neither serves; [`Error::PatternMismatch`], [`Error::NotFinite`],
    /// [`Error::ZeroPivot`], [`Error::Overflow`], [`Error::OutOfMemory`], [`Error::Cancelled`] and
    /// those of the device. After an error these are still the factors of the last matrix.
    pub fn refactorize(&mut self, a: &CsMat<T>) -> Result<Refactorized, Error> {
        let shared = Arc::clone(&self.shared);
        let a = check(&shared, a)?;
        let norms = RowNorms::new(shared.view(&a));
        let values = to_f64(a.data());
        let mut inform = self.analyzed.clone();

        let perturbation = match (shared.options.pivoting, self.established.searched) {
            (Pivoting::Threshold { .. }, _) | (_, Some(_)) => Perturbation::Never,
            _ => shared.perturbation(),
        };
        let start = Instant::now();
        let again =
            Arc::clone(&self.established.chain).factorize(&values, perturbation, &shared.limits);
        inform.seconds.numeric = Some(start.elapsed().as_secs_f64());
        let reason = match again {
            Ok(engine) => {
                let probe = probe(
                    &shared,
                    shared.view(&a),
                    &norms,
                    engine.as_ref(),
                    &mut inform,
                )?;
                let pivots = engine.pivots();
                let growth = pivots.growth;
                let reason = if growth > shared.options.max_growth {
                    Some(format!("growth {growth:.1e}"))
                } else if missed(probe.backward_error, shared.target) {
                    Some(format!("backward error {:.1e}", probe.backward_error))
                } else if pivots.num_perturbed > 0 && shared.options.pivoting == Pivoting::Auto {
                    Some(format!("{} tiny pivots", pivots.num_perturbed))
                } else {
                    None
                };
                let Some(reason) = reason else {
                    let established = Established {
                        chain: Arc::clone(&self.established.chain),
                        engine,
                        probe,
                        searched: self.established.searched,
                        condition: None,
                    };
                    inform.describe_plan(established.chain.as_ref());
                    self.replace(a, norms, established, inform)?;
                    return Ok(Refactorized::Reused {
                        growth,
                        backward_error: probe.backward_error,
                    });
                };
                if shared.options.pivoting == Pivoting::Static {
                    return Err(Error::Unstable {
                        row: probe.worst_row,
                        growth,
                        backward_error: probe.backward_error,
                    });
                }
                reason
            }
            Err(error @ (Error::ZeroPivot { .. } | Error::Overflow { .. }))
                if shared.options.pivoting != Pivoting::Static =>
            {
                error.to_string()
            }
            Err(error) => return Err(error),
        };

        let mut inform = self.analyzed.clone();
        let established = search(&shared, shared.view(&a), &norms, &values, &mut inform)?;
        let (growth, probe) = (established.engine.pivots().growth, established.probe);
        if missed(probe.backward_error, shared.target) {
            return Err(Error::Unstable {
                row: probe.worst_row,
                growth,
                backward_error: probe.backward_error,
            });
        }
        inform.warnings.push(Warning::PivotsSearched {
            reason: reason.clone(),
        });
        self.replace(a, norms, established, inform)?;
        Ok(Refactorized::Repivoted {
            reason,
            growth,
            backward_error: probe.backward_error,
        })
    }

    fn replace(
        &mut self,
        a: CsMat<T>,
        norms: RowNorms,
        established: Established,
        inform: Inform,
    ) -> Result<(), Error> {
        let old = std::mem::replace(&mut self.established, established);
        let old_inform = std::mem::replace(&mut self.inform, inform);
        if let Err(error) = self.complete_inform() {
            self.established = old;
            self.inform = old_inform;
            return Err(error);
        }
        self.a = a;
        self.norms = norms;
        self.transpose_norms = OnceLock::new();
        Ok(())
    }

    /// Fills in what the established factors tell.
    fn complete_inform(&mut self) -> Result<(), Error> {
        let Established {
            engine,
            probe,
            searched,
            condition,
            ..
        } = &self.established;
        let pivots = engine.pivots();
        let inform = &mut self.inform;
        inform.num_perturbed = Some(pivots.num_perturbed);
        inform.num_off_diagonal = *searched;
        inform.growth = Some(pivots.growth);
        inform.rank = Some(inform.n);
        inform.backward_error = Some(probe.backward_error);
        inform.componentwise_error = Some(probe.componentwise);
        inform.refinement_steps = Some(probe.steps);
        inform.pivoting = Some(if searched.is_some() {
            "threshold"
        } else {
            "static"
        });
        inform.code_path.push(engine.code_path());
        let matrix_bytes = self.a.nnz() * (size_of::<T>() + size_of::<usize>());
        let held = engine.host_bytes() + matrix_bytes as u64;
        inform.peak_host_bytes = inform.peak_host_bytes.max(held);
        if let Some(first_column) = engine.first_perturbed() {
            inform.warnings.push(Warning::PerturbedPivots {
                count: pivots.num_perturbed,
                first_column,
            });
        }
        let condition = match condition {
            None if self.shared.options.estimate_condition => {
                let start = Instant::now();
                let estimated = engine.condition()?;
                *inform.seconds.probe.get_or_insert(0.0) += start.elapsed().as_secs_f64();
                Some(estimated)
            }
            known => *known,
        };
        inform.rcond = condition.map(|c| c.rcond);
        inform.warnings.extend(
            condition
                .filter(|c| c.rcond < ILL_CONDITIONED * c.epsilon)
                .map(|c| Warning::IllConditioned { rcond: c.rcond }),
        );
        inform.take_device_costs(engine.as_ref());
        inform.check_target(self.shared.target);
        Ok(())
    }
}

impl<T> std::fmt::Debug for Factors<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Factors")
            .field("inform", &self.inform)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// The matrix, which has the pattern that was analyzed.
    fn view<'a, T: Scalar>(&'a self, a: &'a CsMat<T>) -> MatrixView<'a, T> {
        MatrixView::by_rows(&self.a_rows, a.data())
    }

    fn refinement<T: Scalar>(&self) -> refine::Options {
        refine::Options {
            max_steps: self.options.max_refinement_steps,
            target: self.target,
            epsilon: T::epsilon().to_f64(),
            cancel: self.options.cancel.clone(),
        }
    }

    fn perturbation(&self) -> Perturbation {
        self.options
            .perturbation
            .map_or(Perturbation::Default, Perturbation::Below)
    }
}

impl Inform {
    fn take_device_costs(&mut self, engine: &dyn Engine) {
        let costs = engine.device_costs();
        self.peak_device_bytes = costs.peak_bytes;
        self.seconds.transfer = costs.transfer_seconds;
    }

    fn check_target(&mut self, target: f64) {
        if let Some(backward_error) = self.backward_error.filter(|&e| missed(e, target)) {
            self.warnings.push(Warning::TargetMissed {
                backward_error,
                target,
            });
        }
    }
}

/// Whether a backward error is above the target; one that could not be measured is.
fn missed(backward_error: f64, target: f64) -> bool {
    backward_error.is_nan() || backward_error > target
}

/// The matrix by rows, if it has the analyzed pattern and finite values.
fn check<T: Scalar>(shared: &Shared, a: &CsMat<T>) -> Result<CsMat<T>, Error> {
    let rows = &shared.a_rows;
    let n = rows.major_dim();
    if (a.rows(), a.cols()) != (n, n) {
        return Err(Error::NotSquare {
            rows: a.rows(),
            cols: a.cols(),
        });
    }
    let a = by_rows(a);
    for (row, (lane, analyzed)) in a.outer_iterator().zip(rows.lanes()).enumerate() {
        let same = lane.indices().len() == analyzed.len()
            && lane
                .indices()
                .iter()
                .zip(analyzed)
                .all(|(&i, &j)| i == j as usize);
        if !same {
            return Err(Error::PatternMismatch { row });
        }
        if let Some((column, _)) = lane.iter().find(|(_, v)| !v.is_finite()) {
            return Err(Error::NotFinite { row, column });
        }
    }
    Ok(a)
}

/// Finds factors by the pivoting that the options ask for.
fn establish<T: Scalar>(
    shared: &Shared,
    a: MatrixView<'_, T>,
    norms: &RowNorms,
    inform: &mut Inform,
) -> Result<Established, Error> {
    let values = to_f64(a.values());
    let is_auto = match shared.options.pivoting {
        Pivoting::Threshold { .. } => return search(shared, a, norms, &values, inform),
        Pivoting::Static => false,
        Pivoting::Auto => true,
    };
    let start = Instant::now();
    let factorized =
        Arc::clone(&shared.chain).factorize(&values, shared.perturbation(), &shared.limits);
    inform.seconds.numeric = Some(start.elapsed().as_secs_f64());
    let reason = match factorized {
        Ok(engine) => {
            let probe = probe(shared, a, norms, engine.as_ref(), inform)?;
            let num_perturbed = engine.pivots().num_perturbed;
            let reason = if num_perturbed > 0 {
                Some(format!("{num_perturbed} tiny pivots"))
            } else if missed(probe.backward_error, shared.target) {
                Some(format!("backward error {:.1e}", probe.backward_error))
            } else {
                None
            };
            match reason.filter(|_| is_auto) {
                Some(reason) => reason,
                None => {
                    return Ok(Established {
                        chain: Arc::clone(&shared.chain),
                        engine,
                        probe,
                        searched: None,
                        condition: None,
                    });
                }
            }
        }
        Err(error @ (Error::ZeroPivot { .. } | Error::Overflow { .. })) if is_auto => {
            error.to_string()
        }
        Err(error) => return Err(error),
    };
    inform.warnings.push(Warning::PivotsSearched { reason });
    search(shared, a, norms, &values, inform)
}

/// Searches pivots and factorizes with them. Under [`Pivoting::Auto`], if the probe misses the
/// target with the diagonal preferred, it tries partial pivoting and keeps what is better.
fn search<T: Scalar>(
    shared: &Shared,
    a: MatrixView<'_, T>,
    norms: &RowNorms,
    values: &[f64],
    inform: &mut Inform,
) -> Result<Established, Error> {
    let thresholds: &[f64] = match shared.options.pivoting {
        Pivoting::Threshold { threshold } => &[threshold],
        Pivoting::Auto | Pivoting::Static => &[SEARCH_THRESHOLD, 1.0],
    };
    let mut best: Option<Established> = None;
    for &threshold in thresholds {
        let found = Arc::clone(&shared.chain).search_pivots(
            values,
            threshold,
            &shared.backend,
            &shared.limits,
        )?;
        *inform.seconds.pivot_search.get_or_insert(0.0) += found.seconds;
        let start = Instant::now();
        let engine =
            Arc::clone(&found.chain).factorize(values, Perturbation::Never, &shared.limits)?;
        *inform.seconds.numeric.get_or_insert(0.0) += start.elapsed().as_secs_f64();
        let probe = probe(shared, a, norms, engine.as_ref(), inform)?;
        let reached = !missed(probe.backward_error, shared.target);
        if best
            .as_ref()
            .is_none_or(|best| !missed(probe.backward_error, best.probe.backward_error))
        {
            best = Some(Established {
                chain: found.chain,
                engine,
                probe,
                searched: Some(found.num_off_diagonal),
                condition: None,
            });
        }
        if reached {
            break;
        }
    }
    let mut best = best.unwrap_or_else(|| unreachable!("there is a threshold to try"));
    // The search sees a singular matrix by a column of noise, but noise can also spread.
    let start = Instant::now();
    let condition = best.engine.condition()?;
    *inform.seconds.probe.get_or_insert(0.0) += start.elapsed().as_secs_f64();
    // NaN, an overflow on the way, is not a condition that anything can be done with either.
    if condition.rcond.is_nan() || condition.rcond < SINGULAR * condition.epsilon {
        return Err(Error::SingularToRounding {
            column: condition.column,
            rcond: condition.rcond,
        });
    }
    best.condition = Some(condition);
    inform.describe_plan(best.chain.as_ref());
    inform
        .code_path
        .insert(0, "pivots: Gilbert-Peierls on the CPU");
    Ok(best)
}

/// Solves for a known solution with entries ±1 and measures what comes back.
fn probe<T: Scalar>(
    shared: &Shared,
    a: MatrixView<'_, T>,
    norms: &RowNorms,
    engine: &dyn Engine,
    inform: &mut Inform,
) -> Result<Probe, Error> {
    let _span = tracing::info_span!("probe").entered();
    let start = Instant::now();
    // Signs without a pattern (multiplicative hashing), so that rows do not cancel.
    let known: Vec<f64> = (0..a.cols() as u64)
        .map(|j| {
            let bit = (j.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63) as f64;
            2.0 * bit - 1.0
        })
        .collect();
    let zero = vec![0.0; a.rows()];
    let b: Vec<f64> = Residual::new(a, &known, &zero)
        .residual
        .into_iter()
        .map(|r| -r)
        .collect();
    let options = shared.refinement::<T>();
    let refined = refine(a, norms, &b, |r| engine.solve(r, 1, false), &options);
    let probe = match refined {
        Ok(refined) => {
            let residual = Residual::new(a, &refined.x, &b);
            let error = |i: usize| {
                let r = residual.residual[i].abs();
                if r == 0.0 {
                    0.0
                } else {
                    r / (residual.magnitude[i] + b[i].abs())
                }
            };
            Probe {
                backward_error: refined.normwise,
                componentwise: refined.componentwise[0] + refined.componentwise[1],
                steps: refined.steps,
                worst_row: (0..b.len()).fold(0, |at, i| if error(i) > error(at) { i } else { at }),
            }
        }
        Err(Error::SolutionNotFinite { row }) => Probe {
            backward_error: f64::INFINITY,
            componentwise: f64::INFINITY,
            steps: 0,
            worst_row: row,
        },
        Err(error) => return Err(error),
    };
    *inform.seconds.probe.get_or_insert(0.0) += start.elapsed().as_secs_f64();
    Ok(probe)
}

/// Backward errors of the solution as the caller gets it.
fn measure_rounded<T: Scalar>(
    a: MatrixView<'_, T>,
    norms: &RowNorms,
    refined: &Refined,
    rounded: &[T],
    b: &[f64],
) -> Result<(f64, f64), Error> {
    if let Some(row) = rounded.iter().position(|v| !v.is_finite()) {
        return Err(Error::SolutionNotFinite { row });
    }
    let [large, small] = refined.componentwise;
    if size_of::<T>() == size_of::<f64>() {
        return Ok((refined.normwise, large + small));
    }
    let x = to_f64(rounded);
    let residual = Residual::new(a, &x, b);
    let [large, small] = residual.componentwise(norms, &x, b);
    Ok((
        residual.normwise(norms.infinity_norm(), &x, b),
        large + small,
    ))
}
