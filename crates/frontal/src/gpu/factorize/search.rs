//! Threshold partial pivoting, and the trees that columns without a pivot move to.

use std::sync::Arc;

use luge_device::{Buffer, Stream};
use luge_gpu_kernels::frontal::plan::{kind, report as words};
use luge_sparse::PivotPolicy;

use super::DeviceFrontalLu;
use crate::gpu::delays::{Delays, Found, UploadTree, closed, in_order};
use crate::gpu::launch::Workspace;
use crate::gpu::tree::DeviceTree;
use crate::gpu::{DeviceFrontalError, DeviceQuality, DeviceScalar, WideOf};
use crate::storage::Full;

impl<T: DeviceScalar> DeviceFrontalLu<T> {
    /// Factorizes B for the values `a` of A by threshold partial pivoting: no entry of L exceeds the reciprocal of the
    /// threshold. Columns for which their front has no such pivot are moved to a later place in it or to its parent, and
    /// pivots are searched anew on that tree, for which `upload` is asked, until none fails. A refactorization has the rows
    /// and the tree of the last search, and bounds nothing.
    ///
    /// It works in memory that was made for `tree` on the same stream. Once columns have moved, the factors have memory of
    /// their own.
    ///
    /// # Errors
    ///
    /// As [`factorize`](Self::factorize); [`DeviceFrontalError::NoPivots`] if the search does not end, as where a column has
    /// nothing but zeros left; [`DeviceFrontalError::IndexOverflow`] if a front gets too large; those of `upload`.
    ///
    /// # Panics
    ///
    /// If `a` has fewer values than the placement of the tree refers to, or the policy is refused by
    /// [`PivotPolicy::check`] or static.
    #[track_caller]
    pub fn factorize_by_threshold(
        workspace: &Arc<Workspace<T>>,
        stream: &Stream,
        tree: &Arc<DeviceTree>,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
        upload: &UploadTree<'_, Full>,
    ) -> Result<(Self, DeviceQuality), DeviceFrontalError> {
        assert!(!pivots.is_static(), "pivots of any front");
        let mut delays = Delays::default();
        let mut factors = Self::unfactorized(stream, tree, workspace)?;
        while factors.has_failed(stream, a, pivots)? {
            factors = factors.delayed(stream, &mut delays, upload)?;
        }
        factors.num_delayed = delays.num_delayed;
        factors.refresh_solves(stream, a, true)?;
        let quality = factors.refactorize(stream, a, pivots)?;
        Ok((factors, quality))
    }

    /// Searches pivots, and tells whether there are columns without one.
    fn has_failed(
        &mut self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
    ) -> Result<bool, DeviceFrontalError> {
        self.launch_fronts(stream, a, pivots, true, None)?;
        if self.tree.is_empty() {
            return Ok(false);
        }
        let report = self.workspace.report()?;
        if let Some(max_b) = report.other_scale(self.scale) {
            self.scale = max_b;
        }
        if let Some(pivot) = report.first(words::FIRST_NOT_FINITE) {
            let column = self.tree.columns[pivot as usize] as usize;
            return Err(DeviceFrontalError::NotFinite { column });
        }
        Ok(report.count(words::NUM_FAILED) > 0)
    }

    /// The memory of factors on a tree in which the columns have moved that the last search failed at. What there is now is
    /// given back before.
    fn delayed(
        self,
        stream: &Stream,
        delays: &mut Delays,
        upload: &UploadTree<'_, Full>,
    ) -> Result<Self, DeviceFrontalError> {
        let has_failed = self.workspace.has_failed(stream, &self.tree)?;
        let row_places = stream.download(&self.row_places)?;
        let (before, scale) = (Arc::clone(&self.tree), self.scale);
        self.workspace.release_elements(stream)?;
        drop(self);
        let failed = closed(before.symbolic.tree(), &row_places, &has_failed);
        let found = Found {
            places: &in_order(&before.symbolic),
            kinds: &vec![kind::ONE; row_places.len()],
            failed: &failed,
        };
        let tree = delays.tree(&before, &found, upload)?;
        let workspace = Arc::new(Workspace::new(stream, &tree)?);
        Ok(Self {
            scale,
            ..Self::unfactorized(stream, &tree, &workspace)?
        })
    }

    /// Number of columns whose pivot is the row of another one.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    pub fn num_off_diagonal(&self, stream: &Stream) -> Result<usize, DeviceFrontalError> {
        let row_places = stream.download(&self.row_places)?;
        let own = in_order(&self.tree.symbolic);
        Ok(row_places
            .iter()
            .zip(&own)
            .filter(|(at, own)| at != own)
            .count())
    }
}
