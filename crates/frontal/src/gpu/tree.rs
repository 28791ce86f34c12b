//! The assembly tree on the device.

use std::sync::Arc;

use luge_device::{Buffer, DeviceError, Stream, Uploads};
use luge_gpu_kernels::frontal::plan as words;

use super::placement::Placement;
use super::plan::{Limits, Plan, Source};
use super::solve::{SolvePlan, SolveWords};
use crate::shares::both;
use crate::tree::Tree;

/// An assembly tree on the device.
#[derive(Debug)]
pub struct DeviceTree {
    pub(super) tree: Arc<Tree>,
    /// Column of A of each pivot, in the order of elimination.
    pub(super) columns: Vec<u32>,
    /// Number of values that A has at least.
    pub(super) max_source: usize,
    pub(super) plan: DevicePlan,
    pub(super) solve: SolvePlan,
    /// Rows below the pivots of all fronts.
    pub(super) row_idx: Buffer<u32>,
    /// Position of each of them in the parent's front.
    pub(super) relative: Buffer<u32>,
}

/// The words of a [`Plan`] on the device.
#[derive(Debug)]
pub(super) struct DevicePlan {
    pub fronts: Buffer<u32>,
    pub children: Buffer<u32>,
    pub starts: Buffer<u32>,
    pub tasks: Buffer<u32>,
    pub pieces: Buffer<u32>,
    pub sums: Buffer<u32>,
    pub addends: Buffer<u32>,
    pub source: Buffer<u32>,
    pub places: Buffer<u32>,
    pub num_small: usize,
    pub num_tasks: usize,
    pub num_large: usize,
    pub num_flags: usize,
    pub element_entries: u64,
}

impl DevicePlan {
    fn upload<'a>(uploads: &mut Uploads<'a>, plan: &'a Plan) -> Result<Self, DeviceError> {
        Ok(Self {
            fronts: uploads.add(&plan.fronts)?,
            children: uploads.add(&plan.children)?,
            starts: uploads.add(&plan.starts)?,
            tasks: uploads.add(&plan.tasks)?,
            pieces: uploads.add(&plan.pieces)?,
            sums: uploads.add(&plan.sums)?,
            addends: uploads.add(&plan.addends)?,
            source: uploads.add(&plan.source)?,
            places: uploads.add(&plan.places)?,
            num_small: plan.fronts.len() / words::small::LEN as usize,
            num_tasks: plan.tasks.len() / words::task::LEN as usize,
            num_large: plan.num_large as usize,
            num_flags: plan.num_flags as usize,
            element_entries: plan.element_entries,
        })
    }
}

impl DeviceTree {
    /// Copies a tree to the device, with the places of its entries in A. With `threads` above 1, those of the current
    /// rayon pool share the planning; the plan is the same.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Panics
    ///
    /// If the lengths of `placement` do not go with the tree.
    #[track_caller]
    pub fn upload(
        stream: &Stream,
        tree: &Arc<Tree>,
        placement: &Placement<'_>,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        Self::upload_with(stream, tree, placement, Limits::default(), threads)
    }

    /// As [`upload`](Self::upload), with other limits between the ways to work on a front.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Panics
    ///
    /// If the lengths of `placement` do not go with the tree, or a limit is larger than that by default.
    #[track_caller]
    pub fn upload_with(
        stream: &Stream,
        tree: &Arc<Tree>,
        placement: &Placement<'_>,
        limits: Limits,
        threads: usize,
    ) -> Result<Self, DeviceError> {
        placement.check(tree.n(), tree.nnz());
        let (rows, cols) = placement.placed(tree.perm(), threads);
        let source = Source {
            entries: placement.entries,
            rows: &rows,
            cols: &cols,
        };
        // One of them is copied while the other is still being planned.
        let (factorization, solve) = both(
            threads,
            || {
                let plan = Plan::new(tree, source, limits, threads);
                let mut uploads = Uploads::new(stream);
                let on_device = DevicePlan::upload(&mut uploads, &plan)?;
                let relative = uploads.add(&tree.relative)?;
                uploads.finish()?;
                Ok::<_, DeviceError>((on_device, relative))
            },
            || {
                let words = SolveWords::new(tree, placement, threads);
                let mut uploads = Uploads::new(stream);
                let on_device = SolvePlan::upload(&mut uploads, &words, placement, &rows, &cols)?;
                let row_idx = uploads.add(&tree.rows)?;
                uploads.finish()?;
                Ok::<_, DeviceError>((on_device, row_idx))
            },
        );
        let (plan, relative) = factorization?;
        let (solve, row_idx) = solve?;
        let sources = placement.entries.iter().chain(placement.coupling_entries);
        Ok(Self {
            plan,
            solve,
            row_idx,
            relative,
            max_source: sources.max().map_or(0, |&p| p as usize + 1),
            columns: cols.places,
            tree: Arc::clone(tree),
        })
    }

    /// The tree on the host.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }
}
