//! The assembly tree on the device.

use std::sync::Arc;

use luge_device::{Buffer, DeviceError, Stream};
use luge_gpu_kernels::frontal::plan as words;

use super::placement::Placement;
use super::plan::{Limits, Plan};
use super::solve::SolvePlan;
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
    fn upload(stream: &Stream, plan: &Plan) -> Result<Self, DeviceError> {
        Ok(Self {
            fronts: stream.upload(&plan.fronts)?,
            children: stream.upload(&plan.children)?,
            starts: stream.upload(&plan.starts)?,
            tasks: stream.upload(&plan.tasks)?,
            pieces: stream.upload(&plan.pieces)?,
            sums: stream.upload(&plan.sums)?,
            addends: stream.upload(&plan.addends)?,
            source: stream.upload(&plan.source)?,
            places: stream.upload(&plan.places)?,
            num_small: plan.fronts.len() / words::small::LEN as usize,
            num_tasks: plan.tasks.len() / words::task::LEN as usize,
            num_large: plan.num_large as usize,
            num_flags: plan.num_flags as usize,
            element_entries: plan.element_entries,
        })
    }
}

impl DeviceTree {
    /// Copies a tree to the device, with the places of its entries in A.
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
    ) -> Result<Self, DeviceError> {
        Self::upload_with(stream, tree, placement, Limits::default())
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
    ) -> Result<Self, DeviceError> {
        placement.check(tree.n(), tree.nnz());
        let plan = Plan::new(tree, placement, limits);
        let columns = tree.perm().iter();
        let columns = columns.map(|&j| placement.col_perm.as_slice()[j as usize]);
        let sources = plan.source.iter().chain(placement.coupling_entries);
        Ok(Self {
            plan: DevicePlan::upload(stream, &plan)?,
            solve: SolvePlan::upload(stream, tree, placement)?,
            row_idx: stream.upload(&tree.rows)?,
            relative: stream.upload(&tree.relative)?,
            columns: columns.collect(),
            max_source: sources.max().map_or(0, |&p| p as usize + 1),
            tree: Arc::clone(tree),
        })
    }

    /// The tree on the host.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }
}
