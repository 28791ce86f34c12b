//! How a device's path comes by factors of a symmetric matrix it can trust.
//!
//! Pivots are searched by each new factorization on the device, with one threshold after another, and kept while they serve
//! new values; which factors are good enough is decided as on the CPU path, but for growth and pivots that are measured by
//! extremes.

use std::sync::Arc;
use std::time::Instant;

use luge_ordering::{Matching, SymmetricOrdering};
use luge_sparse::{PivotPolicy, Scalar};

use crate::attempts::{
    Attempt, Found, REMEDIES, Remedy, best_of, is_numerical, remedies, unless_pivots_failed,
};
use crate::backend::Field;
use crate::backend::gpu::GpuBackend;
use crate::device_analysis::AnyDeviceAnalysis;
use crate::device_factors::{DeviceFactors, regular};
use crate::device_plan::DevicePath;
use crate::error::Error;
use crate::planner::planner;
use crate::shared::Shared;
use crate::symmetric::Request;
use crate::task::{Journal, Task};

impl<W: Field> DevicePath<W> {
    /// The path for a symmetric matrix that is so ordered.
    pub(crate) fn symmetric(
        request: &Request<'_>,
        ordering: &mut SymmetricOrdering,
        backend: &GpuBackend,
    ) -> Result<Self, Error> {
        let alternative = ordering.matching_used.then_some(Matching::Never);
        let analysis = planner::<W>().symmetric_tree(request, ordering, backend)?;
        Ok(Self::of_tree(
            analysis,
            backend,
            alternative,
            request.single,
        ))
    }

    /// Orders and plans a symmetric matrix anew for other values, and if that is given with another matching.
    fn symmetric_again(
        &self,
        shared: &Shared,
        values: &[W],
        remedy: Remedy,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<W>>, Error> {
        let Some(request) = Request::again(shared, remedy, self.single, true) else {
            unreachable!("a symmetric matrix")
        };
        let (mut ordering, _memory) = request.order(Some(&W::in_real(values)))?;
        planner::<W>().symmetric_tree(&request, &mut ordering, &self.backend)
    }

    /// Finds factors of a symmetric matrix by the pivoting that the options ask for.
    pub(crate) fn create_symmetric<T: Scalar<Wide = W>>(
        &self,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors<W>, Error> {
        let found = self.search_on(&self.analysis, task, journal);
        let remedies = remedies(&found, self.alternative, task.shared);
        if remedies.is_empty() {
            return found;
        }
        self.symmetric_anew(&remedies, task, journal)
            .better_than(found)
    }

    /// Orders, scales and factorizes for the values at hand, with one remedy after another until the factors serve, and
    /// gives the best.
    fn symmetric_anew<T: Scalar<Wide = W>>(
        &self,
        remedies: &[Remedy],
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors<W>, Error> {
        best_of(remedies, task.shared, |remedy| {
            let start = Instant::now();
            let analysis = self.symmetric_again(task.shared, task.values, remedy);
            *journal.seconds.pivot_search.get_or_insert(0.0) += start.elapsed().as_secs_f64();
            self.search_on(&analysis?, task, journal)
        })
    }

    /// Tries the policies that the options name.
    fn search_on<T: Scalar<Wide = W>>(
        &self,
        analysis: &Arc<dyn AnyDeviceAnalysis<W>>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors<W>, Error> {
        let policies = self.symmetric_policies(task.shared);
        self.search_by(&policies, analysis, task, journal)
    }

    /// Factorizes the values of `old` with the next stricter threshold, which is returned, if there is one.
    pub(crate) fn raise_threshold<T: Scalar<Wide = W>>(
        &self,
        old: &mut DeviceFactors<W>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<Option<f64>, Error> {
        let Some((pivots, threshold)) = old.pivots.and_then(|pivots| pivots.stricter()) else {
            return Ok(None);
        };
        *old = self.search_by(&[pivots], &old.analysis, task, journal)?;
        Ok(Some(threshold))
    }

    /// Tries the policies one after another until the factors reach the target, and keeps the best.
    fn search_by<T: Scalar<Wide = W>>(
        &self,
        policies: &[PivotPolicy],
        analysis: &Arc<dyn AnyDeviceAnalysis<W>>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors<W>, Error> {
        let shared = task.shared;
        let values = shared.stored_part(task.values);
        let mut best: Option<DeviceFactors<W>> = None;
        let mut failure = None;
        for &pivots in policies {
            let start = Instant::now();
            let factorized = Arc::clone(analysis).factorize(&values, pivots, &shared.limits);
            journal.add_numeric(start.elapsed());
            let Some(engine) = unless_pivots_failed(factorized, &mut failure)? else {
                continue;
            };
            let probe = task.probe_on_device(engine.as_ref(), journal)?;
            let mut found = DeviceFactors::new(Arc::clone(analysis), engine, probe);
            found.pivots = Some(pivots);
            let is_done = found.serves(shared);
            best = Some(match best {
                Some(best) if best.backward_error() < found.backward_error() => best,
                _ => found,
            });
            if is_done {
                break;
            }
        }
        let Some(mut best) = best else {
            return Err(failure.unwrap_or_else(|| unreachable!("there is a policy to try")));
        };
        if best.is_doubtful(shared) {
            let start = Instant::now();
            best.condition = Some(regular(best.engine.as_ref())?);
            journal.add_probe(start.elapsed());
        }
        Ok(best)
    }

    /// The pivot policies to try, one after another.
    fn symmetric_policies(&self, shared: &Shared) -> Vec<PivotPolicy> {
        let Some(symmetry) = &shared.symmetry else {
            unreachable!("a symmetric matrix")
        };
        let options = &shared.options;
        options.symmetric_pivots(symmetry.kind, self.epsilon())
    }

    /// New pivots for new values of a symmetric matrix, on the old order and scaling; if those do not serve, everything anew
    /// for the new values.
    pub(crate) fn new_symmetric_pivots<T: Scalar<Wide = W>>(
        &self,
        old: &DeviceFactors<W>,
        task: Task<'_, T>,
        journal: &mut Journal,
    ) -> Result<DeviceFactors<W>, Error> {
        match self.search_on(&old.analysis, task, journal) {
            Ok(found) if found.serves(task.shared) => Ok(found),
            Err(error) if !is_numerical(&error) => Err(error),
            _ => self.symmetric_anew(&REMEDIES, task, journal),
        }
    }
}
