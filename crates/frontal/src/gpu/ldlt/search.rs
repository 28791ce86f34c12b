//! The search for pivots of a symmetric matrix, and the trees that columns without one move to.

use std::sync::Arc;

use luge_device::{Buffer, Stream};
use luge_gpu_kernels::frontal::plan::report as words;
use luge_sparse::{PivotPolicy, RealScalar};

use super::{DeviceFrontalLdlt, Mode, Panels, largest_threshold};
use crate::gpu::delays::{Delays, Found, UploadTree};
use crate::gpu::launch::Workspace;
use crate::gpu::scalar::RealOf;
use crate::gpu::solve::invert_places;
use crate::gpu::{DeviceFrontalError, DeviceScalar, WideOf};
use crate::storage::Lower;

/// What a search came to.
#[derive(Clone, Copy, Default)]
pub(super) struct Searched {
    /// Whether its last launch kept all pivots that were known before it: then it has left the factors that one with these
    /// pivots does.
    pub has_factors: bool,
    /// Whether pivots are others than before the search.
    pub has_changed: bool,
}

impl<T: DeviceScalar> DeviceFrontalLdlt<T> {
    /// Searches pivots, with so many times the threshold, on trees in which ever more columns have moved, until none fails.
    /// After an error the pivots that it has found have to be [forgotten](Self::forget_pivots).
    #[track_caller]
    pub(super) fn search(
        &mut self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
        times: f64,
        upload: &UploadTree<'_, Lower>,
    ) -> Result<Searched, DeviceFrontalError> {
        let mut delays = Delays::default();
        let mut searched = Searched::default();
        let mut is_old = self.is_known;
        loop {
            let mut rule = pivots.resolve_symmetric::<RealOf<T>>(|| self.scale);
            // Up to there a nonsingular front has always a pivot.
            let threshold =
                (RealScalar::to_f64(rule.threshold) * times).min(largest_threshold::<T>());
            rule.threshold = RealScalar::from_f64(threshold);
            self.launch(stream, a, rule, Mode::Search)?;
            if self.tree.is_empty() {
                return Ok(searched);
            }
            self.is_known = true;
            let report = self.workspace.report()?;
            searched.has_factors = report.count(words::NUM_SEARCHED) == 0;
            searched.has_changed |= !searched.has_factors;
            if rule.small > RealScalar::from_f64(0.0)
                && let Some(max_b) = report.other_scale(self.scale)
            {
                self.scale = max_b;
                is_old = false;
                // Pivots that were told from zero by another magnitude are not known to be any.
                self.forget_pivots(stream)?;
                continue;
            }
            let num_failed = report.count(words::NUM_FAILED);
            if num_failed == 0 && !searched.has_changed {
                return Ok(searched);
            }
            if num_failed > 0 && std::mem::take(&mut is_old) {
                // Of values before: before columns move, all is searched.
                searched.has_changed = true;
                self.forget_pivots(stream)?;
                continue;
            }
            let places = stream.download(&self.panels.row_places)?;
            if let Some(pivot) = report.first(words::FIRST_NOT_FINITE) {
                let column = self.column(&places, pivot);
                return Err(DeviceFrontalError::NotFinite { column });
            }
            self.places = places;
            if num_failed == 0 {
                self.num_delayed += delays.num_delayed;
                let Panels {
                    row_places, order, ..
                } = &mut self.panels;
                invert_places(stream, &self.tree, row_places, order)?;
                return Ok(searched);
            }
            searched.has_changed = true;
            self.delay(stream, &mut delays, upload)?;
        }
    }

    /// Goes over to a tree in which the columns have moved that the last search failed at.
    fn delay(
        &mut self,
        stream: &Stream,
        delays: &mut Delays,
        upload: &UploadTree<'_, Lower>,
    ) -> Result<(), DeviceFrontalError> {
        let by_place = self.workspace.has_failed(stream, &self.tree)?;
        let symbolic = &self.tree.symbolic;
        let mut failed = Vec::new();
        for front in symbolic.tree().fronts() {
            let has_failed = |&e: &usize| by_place[(front.start + self.places[e]) as usize];
            failed.extend(front.pivot_range().filter(has_failed).map(|e| e as u32));
        }
        let kinds = stream.download(&self.panels.kinds)?;
        let found = Found {
            places: &self.places,
            kinds: &kinds,
            failed: &failed,
        };
        let tree = delays.tree(&self.tree, &found, upload)?;
        // A search leaves nothing of use there, and if there is no memory for the new tree, whoever needs it takes it anew.
        self.panels.factors = stream.alloc(0)?;
        self.workspace.release_elements(stream)?;
        let workspace = Arc::new(Workspace::new(stream, &tree)?);
        // What has been found, as far as it can stay: most fronts are the same.
        let (places, kinds) = found.carried(symbolic.tree(), tree.symbolic.tree(), &tree.limits);
        let mut panels = Panels::new(stream, &tree)?;
        panels.row_places = stream.upload(&places)?;
        panels.kinds = stream.upload(&kinds)?;
        // All or nothing, or they would be of different trees after an error.
        (self.panels, self.places) = (panels, places);
        (self.tree, self.workspace) = (tree, workspace);
        Ok(())
    }
}
