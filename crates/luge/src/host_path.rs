//! How the CPU path comes by factors it can trust, and when it stops trusting old pivots.

use std::sync::Arc;
use std::time::Instant;

use luge_ordering::{Matching, Ordering, equilibrate, equilibrate_symmetric};
use luge_sparse::num_traits::Float;
use luge_sparse::{MatrixView, PivotPolicy, Quality, RealScalar, Reservation, Scalar};
use smallvec::{SmallVec, smallvec};

use crate::accuracy::{
    self, BoundOf, OnePass, SAME_SCALE, SLACK, WILD, is_small, is_small_by_growth, is_suspicious,
    keeps_scale,
};
use crate::attempts::{
    Attempt, Found, REMEDIES, Remedy, best_of, is_numerical, is_of_pivots, remedies,
    unless_pivots_failed,
};
use crate::backend::Field;
use crate::engine::{Condition, SINGULAR};
use crate::error::Error;
use crate::host::{AnyHost, HostEngine, HostPlace, KeptValues};
use crate::inform::{Inform, Warning};
use crate::options::{Pivoting, ResidualCheck, SingularAction};
use crate::ordered::order_within;
use crate::planner::planner;
use crate::probe::{OnePassOf, Probe, Quick, is_above};
use crate::shared::Shared;
use crate::stored::Rows;
use crate::symmetric;
use crate::task::{Journal, Refactorized, Task};

/// Diagonal preference of the first attempt under [`Pivoting::Auto`], that of KLU.
const DIAGONAL_PREFERENCE: f64 = 1e-3;

/// Beyond this factor the scaling is as stale as the pivots.
const OTHER_SCALE: f64 = 1e12;

/// Products of the scale factors of a row and a column from the inverse of this power of two on leave entries of ordinary size
/// in the range of `f32`.
const TAMEST_EXPONENT: i32 = 120;

/// The CPU, for matrices whose [wide](Scalar::Wide) type is `W`.
#[derive(Clone)]
pub(crate) struct HostPath<W> {
    pub analysis: Arc<dyn AnyHost<W>>,
    /// What else might do if the pivots on this analysis do not.
    pub alternative: Option<Matching>,
    single: bool,
}

impl<W: Field> HostPath<W> {
    pub(crate) fn new(
        place: HostPlace<'_>,
        (ordering, memory): (Ordering, Reservation),
    ) -> Result<Self, Error> {
        let alternative = if ordering.log10_matching_product.is_some() {
            Some(Matching::Never)
        } else {
            ordering.matching_refused.then_some(Matching::Always)
        };
        let analysis = planner::<W>().blocks(place, (ordering, memory))?;
        Ok(Self {
            analysis,
            alternative,
            single: place.single,
        })
    }

    /// The path for a symmetric matrix that is planned so.
    pub(crate) fn symmetric(planned: symmetric::Planned<W>, single: bool) -> Self {
        let matching_used = planned.ordering.matching_used;
        Self {
            analysis: planned.analysis,
            alternative: matching_used.then_some(Matching::Never),
            single,
        }
    }

    /// The path of factors that were written with this alternative.
    pub(crate) fn of(
        analysis: Arc<dyn AnyHost<W>>,
        alternative: Option<Matching>,
        single: bool,
    ) -> Self {
        Self {
            analysis,
            alternative,
            single,
        }
    }

    /// Whether factors are of single precision.
    pub(crate) fn is_single(&self) -> bool {
        self.single
    }

    /// Orders and plans anew for other values.
    pub(crate) fn analyze_again(
        &self,
        shared: &Shared,
        values: &[W],
        remedy: Remedy,
    ) -> Result<Arc<dyn AnyHost<W>>, Error> {
        if let Some(request) = symmetric::Request::again(shared, remedy, self.single, false) {
            let ordered = request.order(Some(&W::in_real(values)))?;
            return Ok(planner::<W>().symmetric(&request, ordered)?.analysis);
        }
        let (order, nnz) = (shared.n() as u64, shared.nnz() as u64);
        let turned = Rows::bytes(order, nnz, shared.by_columns);
        let _of_rows = shared.limits.reserve(turned, "ordering")?;
        let rows = Rows::new(&shared.pattern, shared.by_columns, &shared.limits.cancel)?;
        let sizes = W::in_real(values);
        let by_rows = rows.values(&sizes);
        let options = (*shared.ordering)
            .clone()
            .matching(remedy.matching(shared.ordering.matching))
            .averaged(remedy == Remedy::Averages);
        let ordered = order_within(&options, &shared.threads, &shared.limits, &rows, &by_rows)?;
        let place = HostPlace {
            engine: shared.options.engine,
            threads: &shared.threads,
            limits: &shared.limits,
            rows: &rows,
            single: self.single,
        };
        planner::<W>().blocks(place, ordered)
    }

    /// Tells what is planned; the ordering predicts `lnz` and `unz`.
    pub(crate) fn describe(&self, inform: &mut Inform, lnz: u64, unz: u64) {
        let fronts = self.analysis.front_sizes();
        inform.lnz = lnz;
        inform.unz = unz;
        if fronts.columns > 0 {
            inform.num_supernodes = Some(fronts.num_supernodes);
            inform.max_front = Some(fronts.max_front);
        }
        inform.peak_host_bytes = self.analysis.plan_bytes();
        inform.precision = self.analysis.precision();
        inform.predicted_host_bytes = Some(self.analysis.predicted_bytes(lnz + unz));
    }
}

/// Factors on the CPU.
pub(crate) struct HostFactors<W> {
    pub analysis: Arc<dyn AnyHost<W>>,
    pub engine: Box<dyn HostEngine<W>>,
    /// Where the fused measurements were not enough.
    pub probe: Option<Probe>,
    /// Estimated where pivots or a probe raised the question.
    pub condition: Option<Condition>,
    /// A bound of the backward error of one pass of solves, from growth and checksum; infinite if there is none.
    pub bound: f64,
    /// Whether columns of zeros of B, if there are any, [are those of A](has_zeros_of_a).
    pub has_zeros_of_a: bool,
}

impl<W: Field> HostFactors<W> {
    /// The backward error that solutions can be expected to have, for a matrix whose largest entry is `largest`; `rcond` is
    /// that of [`rcond`](Self::rcond).
    fn statement(&self, rcond: Option<f64>, largest: f64, target: f64) -> Option<f64> {
        let Some(probe) = self.probe else {
            return Some(self.bound).filter(|bound| bound.is_finite());
        };
        let (analysis, quality) = (self.analysis.as_ref(), self.engine.quality());
        // What underflows in a shorter type is no matter of roundings, and without a checksum nothing tells of it.
        let may_underflow = !analysis.has_checksum()
            && analysis.epsilon() > f64::EPSILON
            && analysis.inverse_exponent() > TAMEST_EXPONENT;
        let one_pass = OnePassOf {
            bound: if may_underflow {
                f64::INFINITY
            } else {
                bound_of_roundings(analysis, quality, largest)
            },
            growth: quality.growth,
            rcond,
            epsilon: analysis.epsilon(),
            is_perturbed: quality.num_perturbed > 0,
        };
        probe.statement(&one_pass, target)
    }

    /// The reciprocal condition number, or an upper bound of it, if it matters after this probe: one solve tells whether
    /// refinement converges for others as it did there.
    fn rcond(
        &self,
        probe: Option<&Probe>,
        condition: Option<&Condition>,
    ) -> Result<Option<f64>, Error> {
        match (condition, probe) {
            (Some(condition), _) => Ok(Some(condition.rcond)),
            (None, Some(probe))
                if probe.is_refined() || self.engine.quality().num_perturbed > 0 =>
            {
                self.engine.screen().map(Some)
            }
            (None, _) => Ok(None),
        }
    }

    /// What is known of one pass of solves, where `target` is to be reached. The probe knows nothing of the transpose.
    pub(crate) fn one_pass(&self, target: f64, transpose: bool) -> OnePass {
        let of_probe = match self.probe {
            Some(probe) if !transpose && self.bound <= WILD => probe.bound(self.analysis.epsilon()),
            _ => f64::INFINITY,
        };
        let bound = self.bound.min(of_probe);
        if !is_above(bound, SLACK * target) {
            OnePass::Bounded(bound)
        } else if self.probe.is_none() {
            // Factors that say no more of themselves are probed unless the options forbid it.
            OnePass::Unknown
        } else {
            OnePass::Measured
        }
    }
}

/// The bound of one pass that follows from what the factorization measured, for a matrix whose largest entry is `largest`.
/// Where that is not enough for factors that are accurate, each column with its own scale factors tells more of rows and columns
/// of A that are far apart in size, and a pass through the factors tells most.
fn bound_of<T: Scalar>(
    analysis: &dyn AnyHost<T::Wide>,
    engine: &dyn HostEngine<T::Wide>,
    task: Task<'_, T>,
) -> Result<f64, Error> {
    let (largest, target) = (task.largest, task.shared.target);
    let quality = engine.quality();
    if quality.num_perturbed > 0 {
        return Ok(f64::INFINITY);
    }
    let bound = bound_of_roundings(analysis, quality, largest);
    let epsilon = analysis.epsilon();
    // Zero pivots were accepted, and no rounding tells what they left out.
    let has_zeros = quality.max_residual.is_infinite();
    let is_hopeless = has_zeros || epsilon > SLACK * target || !is_accurate(analysis, quality);
    if bound <= SLACK * target || is_hopeless {
        return Ok(bound);
    }
    let bound_by = |product, norm_a| {
        let bound_by = accuracy::bound(BoundOf {
            epsilon,
            product,
            residual: 0.0,
            norm_a,
            exponent: analysis.inverse_exponent(),
        });
        bound.min(bound_by)
    };
    let closer = bound_by(engine.product_bound()?, largest);
    if closer <= SLACK * target {
        return Ok(closer);
    }
    let norm_a = if task.shared.symmetry.is_some() {
        norm_of_lines(task.a)
    } else {
        largest
    };
    Ok(bound_by(engine.product_norm()?, norm_a))
}

/// The largest sum of magnitudes in a row, or in a column as A is stored.
fn norm_of_lines<T: Scalar>(a: MatrixView<'_, T>) -> f64 {
    let size = |values: &[T]| values.iter().map(|v| v.widen().magnitude()).sum::<f64>();
    a.lines()
        .map(|(_, values)| size(values))
        .fold(0.0, f64::max)
}

/// As [`bound_of`], as if no pivot had been replaced.
fn bound_of_roundings<W>(analysis: &dyn AnyHost<W>, quality: &Quality, largest: f64) -> f64 {
    accuracy::bound(BoundOf {
        epsilon: analysis.epsilon(),
        product: quality.max_product,
        residual: quality.max_residual,
        norm_a: largest,
        exponent: analysis.inverse_exponent(),
    })
}

impl<T: Scalar> Task<'_, T> {
    /// What the factors are worth in themselves, that is without refinement, unless perturbed pivots
    /// or factors in a shorter type need it. Factors of a symmetric matrix may need it as well: a larger threshold may
    /// delay so many pivots that it costs more than any refinement.
    fn probe_factors(
        &self,
        engine: &dyn HostEngine<T::Wide>,
        analysis: &dyn AnyHost<T::Wide>,
        journal: &mut Journal,
    ) -> Result<Probe, Error> {
        let is_as_long = analysis.epsilon() <= T::Real::epsilon().to_f64();
        let exact = engine.quality().num_perturbed == 0 && is_as_long;
        let may_refine = self.shared.symmetry.is_some();
        let mut first = None;
        if exact {
            let start = Instant::now();
            let quick = Probe::quick(self.a, |x| engine.solve_in_place(x, false))?;
            journal.add_probe(start.elapsed());
            if let Some(Quick { probe, x }) = quick {
                if !(may_refine && probe.misses(self.shared.target)) {
                    return Ok(probe);
                }
                first = Some(x);
            }
        }
        let max_steps = if exact && !may_refine {
            0
        } else {
            self.shared.options.max_refinement_steps
        };
        self.probe_with(max_steps, engine, first, journal)
    }
}

/// Whether the options want the refactorized factors of a symmetric matrix measured by a solve.
fn is_to_be_probed<T: Scalar>(shared: &Shared, quality: &Quality, epsilon: f64) -> bool {
    let is_longer = epsilon > T::Real::epsilon().to_f64();
    if shared.symmetry.is_none()
        || shared.options.is_static()
        || is_longer
        || quality.num_perturbed > 0
    {
        return true;
    }
    match shared.options.residual_check {
        ResidualCheck::Always => true,
        ResidualCheck::WhereInDoubt => is_above(quality.growth * epsilon, shared.target),
        ResidualCheck::Never => false,
    }
}

/// Whether `analysis`'s factors are as good as any are for B: their growth and checksum are small.
fn is_accurate<W>(analysis: &dyn AnyHost<W>, quality: &Quality) -> bool {
    let is_small = if analysis.has_checksum() {
        is_small(quality, analysis.epsilon())
    } else {
        is_small_by_growth(quality)
    };
    is_in_range(analysis, quality, false) && is_small
}

/// Whether they need no probe: what follows from that for A is small too, since what is small in a column of B may be large
/// in a row of A. `bound` is that of [`bound_of`]. Where there is no checksum, the growth bounds the error
/// (Higham, *Accuracy and Stability of Numerical Algorithms*, theorem 11.3), but not what underflows in a shorter type.
fn is_trusted<W>(analysis: &dyn AnyHost<W>, quality: &Quality, bound: f64, target: f64) -> bool {
    let tells_errors = analysis.has_checksum() || analysis.epsilon() <= f64::EPSILON;
    tells_errors && is_accurate(analysis, quality) && bound <= SLACK * target
}

/// Whether no column of B is so small or large that its entries lost digits: a scaling that was made for other values may
/// do that, and a checksum does not notice. Columns of zeros have none to lose if they [are those of A](has_zeros_of_a).
fn is_in_range<W>(analysis: &dyn AnyHost<W>, quality: &Quality, has_zeros_of_a: bool) -> bool {
    let [least, most] = analysis.range();
    let is_least = quality.min_norm >= least || (quality.min_norm == 0.0 && has_zeros_of_a);
    quality.max_norm == 0.0 || (is_least && quality.max_norm <= most)
}

/// Whether all columns of zeros of B are columns of zeros of A, and no other column is so small that its entries lost digits:
/// a singular matrix may have some, and no scaling changes that. Looks at A where there are any.
pub(crate) fn has_zeros_of_a<T: Scalar>(
    a: MatrixView<'_, T>,
    analysis: &dyn AnyHost<T::Wide>,
    quality: &Quality,
) -> bool {
    if quality.min_norm > 0.0 {
        return true;
    }
    let ([least, _], transform) = (analysis.range(), analysis.transform());
    let (rows, cols) = (&transform.scaling.rows, &transform.scaling.cols);
    let mut norms: Vec<Option<f64>> = vec![None; a.cols()];
    a.for_each(|i, j, value| {
        let size = value.widen().magnitude();
        if size > 0.0 {
            *norms[j].get_or_insert(0.0) += size * rows[i] * cols[j];
        }
    });
    norms.into_iter().flatten().all(|norm| norm >= least)
}

impl<W: Field> HostPath<W> {
    /// The pivot policies to try, one after another.
    fn policies(&self, shared: &Shared) -> SmallVec<[PivotPolicy; 4]> {
        if let Some(symmetry) = &shared.symmetry {
            let policies = shared
                .options
                .symmetric_pivots(symmetry.kind, self.analysis.epsilon());
            return policies.into();
        }
        match shared.options.searched_pivots() {
            Some(policy) => smallvec![policy],
            None if shared.options.pivoting == Pivoting::Auto => smallvec![
                PivotPolicy::threshold(DIAGONAL_PREFERENCE),
                PivotPolicy::PARTIAL
            ],
            None => smallvec![shared.options.static_pivots(self.analysis.epsilon())],
        }
    }

    /// Finds factors by the pivoting that the options ask for.
    pub(crate) fn create<T: Scalar<Wide = W>>(
        &self,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<HostFactors<W>, Error> {
        let analysis = if task.shared.of_pattern_alone {
            self.scaled_for(task)?
        } else {
            Arc::clone(&self.analysis)
        };
        let found = self.create_on(&analysis, &self.policies(task.shared), task, journal);
        let remedies = remedies(&found, self.alternative, task.shared);
        if remedies.is_empty() {
            return found;
        }
        self.establish_anew(&remedies, task, journal)
            .better_than(found)
    }

    /// The analysis of a pattern that was analyzed without values, with a scaling for the values at hand.
    fn scaled_for<T: Scalar<Wide = W>>(
        &self,
        task: Task<'_, T>,
    ) -> Result<Arc<dyn AnyHost<W>>, Error> {
        let shared = task.shared;
        // A regularization is for the matrix as it is.
        if !shared.ordering.scaling || shared.options.regularization.is_some() {
            return Ok(Arc::clone(&self.analysis));
        }
        let (order, nnz) = (shared.n() as u64, shared.nnz() as u64);
        // The rows and their values, if these are columns; logarithms, factors and maxima.
        let turned = Rows::bytes(order, nnz, shared.by_columns);
        let _memory = shared
            .limits
            .reserve(turned + 8 * nnz + 48 * order, "numeric")?;
        let sizes = W::in_real(task.values);
        let scaling = if shared.symmetry.is_some() {
            equilibrate_symmetric(&shared.pattern, &sizes, &shared.limits.cancel)?
        } else {
            let rows = Rows::new(&shared.pattern, shared.by_columns, &shared.limits.cancel)?;
            equilibrate(&rows.pattern, &rows.values(&sizes))?
        };
        self.analysis
            .rescaled(&shared.pattern, shared.by_columns, scaling)
    }

    /// Orders, scales and factorizes for the values at hand, with one remedy after another until the factors serve, and
    /// gives the best.
    fn establish_anew<T: Scalar<Wide = W>>(
        &self,
        remedies: &[Remedy],
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<HostFactors<W>, Error> {
        let shared = task.shared;
        best_of(remedies, shared, |remedy| {
            let mut policies = self.policies(shared);
            if remedy == Remedy::Matching(Matching::Always)
                && self.alternative == Some(Matching::Always)
            {
                policies.truncate(1);
            }
            let start = Instant::now();
            let analysis = self.analyze_again(shared, task.values, remedy);
            *journal.seconds.pivot_search.get_or_insert(0.0) += start.elapsed().as_secs_f64();
            self.create_on(&analysis?, &policies, task, journal)
        })
    }

    /// Tries the policies one after another until the factors can be trusted, and keeps the best.
    fn create_on<T: Scalar<Wide = W>>(
        &self,
        analysis: &Arc<dyn AnyHost<W>>,
        policies: &[PivotPolicy],
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<HostFactors<W>, Error> {
        let shared = task.shared;
        let epsilon = analysis.epsilon();
        let mut best: Option<HostFactors<W>> = None;
        let mut failure = None;
        for &pivots in policies {
            let start = Instant::now();
            let factorized = Arc::clone(analysis).factorize(task.values, pivots);
            journal.add_numeric(start.elapsed());
            let Some(engine) = unless_pivots_failed(factorized, &mut failure)? else {
                continue;
            };
            let bound = bound_of(analysis.as_ref(), engine.as_ref(), task)?;
            let is_trusted = is_trusted(analysis.as_ref(), engine.quality(), bound, shared.target);
            let probe = if is_trusted {
                None
            } else {
                Some(task.probe_factors(engine.as_ref(), analysis.as_ref(), journal)?)
            };
            let found = HostFactors {
                has_zeros_of_a: has_zeros_of_a(task.a, analysis.as_ref(), engine.quality()),
                analysis: Arc::clone(analysis),
                engine,
                probe,
                condition: None,
                bound,
            };
            let reached = probe.is_none_or(|probe| !probe.misses(shared.target));
            if is_trusted
                || best
                    .as_ref()
                    .is_none_or(|best| !is_above(found.backward_error(), best.backward_error()))
            {
                best = Some(found);
            }
            if reached {
                break;
            }
        }
        let Some(mut best) = best else {
            return Err(failure.unwrap_or_else(|| unreachable!("there is a policy to try")));
        };
        let is_static = shared.options.is_static();
        let quality = best.engine.quality();
        let is_doubtful = is_suspicious(quality, epsilon)
            || !is_accurate(analysis.as_ref(), quality)
            || best.probe.is_some_and(|probe| probe.misses(shared.target));
        let goes_on = shared.options.singular == SingularAction::Continue;
        if !is_static && is_doubtful && !goes_on {
            best.condition = Some(condition(&best, task, journal)?);
        }
        Ok(best)
    }

    /// Factorizes new values in the memory of `old`, with its pivots, or finds new ones if those do
    /// not serve. After an error `old` has its old values again. Where entries `changed`, in ascending order, the others have
    /// the values that `old` is of.
    pub(crate) fn refactorize<T: Scalar<Wide = W>>(
        &self,
        old: &mut HostFactors<W>,
        old_values: &Arc<dyn KeptValues<W>>,
        changed: Option<&[usize]>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Refactorized, Error> {
        let outcome = self.try_refactorize(old, changed, task, journal);
        if outcome.is_err() {
            // They were factors before, with these very pivots.
            old.engine.restore(old_values);
        }
        outcome
    }

    /// As [`refactorize`](Self::refactorize), but after an error `old` has yet to be [restored](HostEngine::restore).
    pub(crate) fn try_refactorize<T: Scalar<Wide = W>>(
        &self,
        old: &mut HostFactors<W>,
        changed: Option<&[usize]>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Refactorized, Error> {
        let shared = task.shared;
        let is_static = shared.options.is_static();
        let epsilon = old.analysis.epsilon();
        let start = Instant::now();
        let again = match changed {
            Some(changed) => old.engine.refactorize_changed(task.values, changed),
            None => old.engine.refactorize(task.values),
        };
        journal.add_numeric(start.elapsed());
        let (reason, stale_scale) = match again {
            Ok(()) => {
                let quality = old.engine.quality();
                let bound = bound_of(old.analysis.as_ref(), old.engine.as_ref(), task)?;
                let is_trusted = is_trusted(old.analysis.as_ref(), quality, bound, shared.target)
                    && keeps_scale(quality, SAME_SCALE)
                    && !is_above(quality.growth, shared.options.max_growth);
                if is_trusted && (is_static || !is_suspicious(quality, epsilon)) {
                    (old.probe, old.condition, old.bound) = (None, None, bound);
                    return Ok(Refactorized::Reused {
                        growth: quality.growth,
                        backward_error: Some(bound),
                    });
                }
                let probe = if is_to_be_probed::<T>(shared, quality, epsilon) {
                    let (engine, analysis) = (old.engine.as_ref(), old.analysis.as_ref());
                    Some(task.probe_factors(engine, analysis, journal)?)
                } else {
                    None
                };
                let has_zeros_of_a = has_zeros_of_a(task.a, old.analysis.as_ref(), quality);
                let stale_scale = !keeps_scale(quality, OTHER_SCALE)
                    || !is_in_range(old.analysis.as_ref(), quality, has_zeros_of_a);
                let mut condition = None;
                // Pivots that were replaced rather than delayed make L large: a probe tells what that is worth.
                let is_limited = shared.options.max_delays.is_some() && quality.num_perturbed > 0;
                let reason = if shared.options.regularization.is_some() {
                    // Whatever it does to the matrix, it is asked for; a probe tells what the factors are worth.
                    None
                } else if !is_limited && is_above(quality.growth, shared.options.max_growth) {
                    Some(format!("growth {:.1e}", quality.growth))
                } else if let Some(probe) = probe.filter(|probe| probe.misses(shared.target)) {
                    Some(format!("backward error {:.1e}", probe.backward_error))
                } else if stale_scale && !is_static {
                    Some(format!(
                        "pivots between {:.1e} and {:.1e} times the old ones",
                        quality.min_pivot_ratio, quality.max_pivot_ratio
                    ))
                } else if !is_static
                    && is_suspicious(quality, epsilon)
                    && shared.options.singular == SingularAction::Refuse
                {
                    let start = Instant::now();
                    let estimated = old.engine.condition(task.values)?;
                    journal.add_probe(start.elapsed());
                    let refused = estimated.refuse_below(SINGULAR).err();
                    condition = Some(estimated);
                    refused.map(|error| error.to_string())
                } else {
                    None
                };
                let Some(reason) = reason else {
                    let rcond = old.rcond(probe.as_ref(), condition.as_ref())?;
                    (old.probe, old.condition, old.bound) = (probe, condition, bound);
                    old.has_zeros_of_a = has_zeros_of_a;
                    return Ok(Refactorized::Reused {
                        growth: quality.growth,
                        backward_error: old.statement(rcond, task.largest, shared.target),
                    });
                };
                if let Some(probe) = probe.filter(|_| is_static) {
                    return Err(probe.unstable(quality.growth));
                }
                (reason, stale_scale)
            }
            Err(error) if is_of_pivots(&error) && !is_static => {
                // The scaling of the old values may be all that is wrong with the new ones.
                (error.to_string(), true)
            }
            Err(error) => return Err(error),
        };

        let found = self.repivot(&old.analysis, stale_scale, task, journal)?;
        let growth = found.engine.quality().growth;
        let rcond = found.rcond(found.probe.as_ref(), found.condition.as_ref())?;
        let backward_error = found.statement(rcond, task.largest, shared.target);
        *old = found;
        journal.warnings.push(Warning::PivotsSearched {
            reason: reason.clone(),
        });
        Ok(Refactorized::Repivoted {
            reason,
            growth,
            backward_error,
        })
    }

    /// Factorizes the values of `old` with the next stricter threshold, which is returned, if there is one.
    pub(crate) fn raise_threshold<T: Scalar<Wide = W>>(
        &self,
        old: &mut HostFactors<W>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Option<f64>, Error> {
        let Some((pivots, threshold)) = old.engine.policy().stricter() else {
            return Ok(None);
        };
        *old = self.create_on(&old.analysis, &[pivots], task, journal)?;
        Ok(Some(threshold))
    }

    /// New pivots on the old order and scaling, and if those do not serve, or the scaling is stale too, everything anew for
    /// the new values, as if they had been analyzed and factorized.
    fn repivot<T: Scalar<Wide = W>>(
        &self,
        analysis: &Arc<dyn AnyHost<W>>,
        stale_scale: bool,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<HostFactors<W>, Error> {
        if !stale_scale {
            match self.create_on(analysis, &self.policies(task.shared), task, journal) {
                Ok(found) if found.serves(task.shared) => return Ok(found),
                Err(error) if !is_numerical(&error) => return Err(error),
                _ => {}
            }
        }
        self.establish_anew(&REMEDIES, task, journal)
    }
}

impl<W: Field> Found for HostFactors<W> {
    fn backward_error(&self) -> f64 {
        self.probe.map_or(self.bound, |probe| probe.backward_error)
    }

    fn is_in_range(&self) -> bool {
        let quality = self.engine.quality();
        is_in_range(self.analysis.as_ref(), quality, self.has_zeros_of_a)
    }

    fn serves(&self, shared: &Shared) -> bool {
        self.is_in_range() && self.probe.is_none_or(|probe| !probe.misses(shared.target))
    }
}

/// The condition of what was factorized, unless it is singular to rounding.
fn condition<W: Field, T: Scalar<Wide = W>>(
    factors: &HostFactors<W>,
    task: Task<'_, T>,
    journal: &mut Journal,
) -> Result<Condition, Error> {
    let start = Instant::now();
    let condition = factors.engine.condition(task.values)?;
    journal.add_probe(start.elapsed());
    condition.refuse_below(SINGULAR)?;
    Ok(condition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    use luge_solve::backward_error::{Measured, RowNorms};
    use luge_solve::extended::Extended;
    use luge_solve::refine::refine;
    use luge_sparse::CompressedPattern;
    use luge_testkit::convert::pattern_of;
    use luge_testkit::generators::applications::{circuit, random_unsymmetric};
    use num_complex::Complex;

    use crate::determinant::Determinant;
    use crate::engine::{Engine, solve_extended};

    type C = Complex<f64>;

    fn path<W: Field>(shared: &Shared, values: &[W], single: bool) -> HostPath<W> {
        let Shared {
            options,
            ordering,
            threads,
            limits,
            ..
        } = shared;
        let rows = Rows::new(&shared.pattern, false, &limits.cancel).unwrap();
        let sizes = W::in_real(values);
        let ordered = order_within(ordering, threads, limits, &rows, &sizes).unwrap();
        let place = HostPlace {
            engine: options.engine,
            threads,
            limits,
            rows: &rows,
            single,
        };
        HostPath::new(place, ordered).unwrap()
    }

    fn factorized<W: Field>(shared: &Shared, values: &[W], single: bool) -> HostFactors<W> {
        let mut found = None;
        with_task(shared, values, |task, journal| {
            found = Some(path(shared, values, single).create(task, journal).unwrap());
        });
        found.unwrap()
    }

    fn with_task<W: Field>(
        shared: &Shared,
        values: &[W],
        work: impl FnOnce(Task<'_, W>, &mut Journal),
    ) {
        let task = Task {
            shared,
            a: shared.view(values),
            values,
            largest: shared.check_finite(values, 1).unwrap(),
            norms: &OnceLock::new(),
        };
        work(task, &mut Journal::default());
    }

    fn turn(k: usize) -> C {
        Complex::from_polar(1.0, 0.7 * k as f64)
    }

    fn known(n: usize) -> Vec<C> {
        (0..n as u64).map(luge_solve::known_solution).collect()
    }

    /// Solutions of both systems by one pass, and refined.
    fn check_solves(shared: &Shared, values: &[C], engine: &dyn HostEngine<C>, bound: f64) {
        let b = known(shared.n());
        for transpose in [false, true] {
            let a = shared.view(values);
            let a = if transpose { a.transpose() } else { a };
            let norms = RowNorms::new(a);
            let x = engine.solve(&b, 1, transpose).unwrap();
            let error = Measured::new(a, &norms, &x, &b).normwise;
            assert!(error <= bound, "{error:e}");
            let mut in_place = b.clone();
            engine.solve_in_place(&mut in_place, transpose).unwrap();
            assert!(in_place == x, "the same pass");
            let mut several = [b.clone(), b.clone(), b.clone()].concat();
            engine.solve_in_place(&mut several, transpose).unwrap();
            for x in several.chunks_exact(b.len()) {
                let error = Measured::new(a, &norms, x, &b).normwise;
                assert!(error <= bound, "{error:e}");
            }
            let correct = |r: &[C]| engine.solve(r, 1, transpose);
            let options = shared.refinement::<C>();
            let refined = refine(a, &norms, &b, correct, &options).unwrap();
            assert!(refined.normwise <= 1e-15 && refined.componentwise[0] <= 1e-13);
        }
    }

    #[test]
    fn complex_matrices_are_factorized_solved_and_refactorized() {
        let a = circuit(300, 7);
        let shared = Shared::of_rows(&pattern_of(&a));
        let entries = || a.data().iter().enumerate();
        let values: Vec<C> = entries().map(|(k, &v)| turn(k) * v).collect();
        let others: Vec<C> = entries().map(|(k, &v)| turn(2 * k + 1) * v).collect();
        for (single, bound) in [(false, 1e-13), (true, 1e-5)] {
            let mut factors = factorized(&shared, &values, single);
            assert_eq!(factors.probe.is_some(), single);
            check_solves(&shared, &values, factors.engine.as_ref(), bound);
            let path = path(&shared, &values, single);
            let kept = |values: &[C]| -> Arc<dyn KeptValues<C>> { Arc::new(values.to_vec()) };
            with_task(&shared, &others, |task, journal| {
                let outcome = path.refactorize(&mut factors, &kept(&values), None, task, journal);
                let error = match outcome.unwrap() {
                    Refactorized::Reused { backward_error, .. }
                    | Refactorized::Repivoted { backward_error, .. } => backward_error,
                };
                assert!(error.unwrap() <= 1e-10);
            });
            check_solves(&shared, &others, factors.engine.as_ref(), bound);
            // Values that are refused leave the old factors.
            let zeros = vec![C::ZERO; values.len()];
            with_task(&shared, &zeros, |task, journal| {
                let refused = path.refactorize(&mut factors, &kept(&others), None, task, journal);
                assert!(refused.is_err());
            });
            check_solves(&shared, &others, factors.engine.as_ref(), bound);
        }
    }

    #[test]
    fn numbers_of_any_size_are_solved_for() {
        let a = random_unsymmetric(30, 3, 2);
        let shared = Shared::of_rows(&pattern_of(&a));
        let values: Vec<C> = a
            .data()
            .iter()
            .enumerate()
            .map(|(k, v)| turn(k) * v)
            .collect();
        let engine = factorized(&shared, &values, false).engine;
        let b = known(shared.n());
        let x = engine.solve(&b, 1, false).unwrap();
        let far = |size: f64| -> Vec<C> { b.iter().map(|b| b * size).collect() };
        let size_of_x = x.iter().map(|x| x.modulus()).fold(0.0, f64::max);
        let is_near = |x: &C, y: &C| (x - y).modulus() <= 1e-10 * size_of_x;
        for size in [1e200, 1e-200] {
            let found = engine.solve(&far(size), 1, false).unwrap();
            assert!(found.iter().zip(&x).all(|(f, x)| is_near(&(f / size), x)));
            // The square of it is out of range.
            let unit = Extended::of(Complex::from(size));
            let extended: Vec<_> = far(size)
                .into_iter()
                .map(|b| Extended::of(b) * unit)
                .collect();
            let found =
                solve_extended(engine.as_ref() as &dyn Engine<C>, &extended, false).unwrap();
            let back = Extended::of(Complex::from(1.0 / size));
            for (found, x) in found.into_iter().zip(&x) {
                let found = (found * back * back).to_wide();
                assert!(is_near(&found, x), "{found} for {x}");
            }
        }
    }

    #[test]
    fn determinant_and_condition_are_those_of_the_complex_matrix() {
        // Rows turned by directions: the determinant is the product of these with the real one, and the norms stay.
        let a = random_unsymmetric(25, 3, 3);
        let pattern = pattern_of(&a);
        let shared = Shared::of_rows(&pattern);
        let rows = (0..a.rows()).flat_map(|i| pattern.range(i).map(move |_| i));
        let values: Vec<C> = rows.zip(a.data()).map(|(i, v)| turn(i) * v).collect();
        let real = factorized(&shared, a.data(), false).engine;
        let complex = factorized(&shared, &values, false).engine;
        let of_turns = (0..a.rows()).map(turn).product::<C>();
        let (det, real_det): (Determinant<C>, Determinant) =
            (complex.determinant().unwrap(), real.determinant().unwrap());
        let expected = of_turns * real_det.value();
        assert!((det.value() - expected).modulus() <= 1e-11 * expected.modulus());

        let condition = complex.condition(&values).unwrap();
        let of_real = real.condition(a.data()).unwrap();
        let ratio = condition.rcond / of_real.rcond;
        assert!((0.3..3.0).contains(&ratio), "{ratio}");
        assert_eq!(condition.epsilon, f64::EPSILON);
        let bound = complex.screen().unwrap();
        assert!(bound * 1.5 >= condition.rcond, "{bound:e}");

        // A multiple of a constant vector, turned, is nearly mapped to zero.
        let n = 12;
        let indices = (0..n as u32).flat_map(|_| 0..n as u32).collect();
        let ptr = (0..=n as u64).map(|i| i * n as u64).collect();
        let full = CompressedPattern::new(n, ptr, indices).unwrap();
        let shared = Shared::of_rows(&full);
        let values: Vec<C> = (0..n * n)
            .map(|p| {
                let (i, j) = (p / n, p % n);
                let own = if i == j { n as f64 - 1.0 + 1e-9 } else { -1.0 };
                turn(3 * i) * own
            })
            .collect();
        let condition = factorized(&shared, &values, false)
            .engine
            .condition(&values)
            .unwrap();
        assert!(
            condition.is_constant && condition.rcond < 1e-9,
            "{condition:?}"
        );
        assert_eq!(condition.columns.len(), 3);
    }

    #[test]
    fn factors_serve_in_range_and_up_to_the_target() {
        let a = circuit(300, 7);
        let shared = Shared::of_rows(&pattern_of(&a));
        let mut factors = factorized(&shared, a.data(), false);
        assert!(factors.probe.is_none() && factors.serves(&shared));
        let probe = |backward_error| Probe {
            backward_error,
            ..Probe::overflowed(0)
        };
        for (error, serves) in [
            (shared.target, true),
            (2.0 * shared.target, false),
            (f64::NAN, false),
        ] {
            factors.probe = Some(probe(error));
            assert_eq!(factors.serves(&shared), serves, "{error:e}");
        }
        let small: Vec<f64> = a.data().iter().map(|v| v * 2f64.powi(-1000)).collect();
        factors.engine.refactorize(&small).unwrap();
        for probe in [None, Some(probe(0.0))] {
            factors.probe = probe;
            assert!(!factors.is_in_range() && !factors.serves(&shared));
        }
    }

    #[test]
    fn a_complex_matrix_without_an_inverse_is_refused() {
        let pattern = CompressedPattern::new(2, vec![0, 2, 4], vec![0, 1, 0, 1]).unwrap();
        let shared = Shared::of_rows(&pattern);
        // The second row is i times the first.
        let values = [
            C::new(1.0, 2.0),
            C::new(0.0, 1.0),
            C::new(-2.0, 1.0),
            C::new(-1.0, 0.0),
        ];
        with_task(&shared, &values, |task, journal| {
            let error = path(&shared, &values, false).create(task, journal).err();
            assert!(error.is_some_and(|error| is_numerical(&error)));
        });
    }
}
