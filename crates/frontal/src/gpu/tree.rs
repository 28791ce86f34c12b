//! The assembly tree on the device.

use std::sync::Arc;

use luge_device::{Buffer, DeviceError, Stream};
use luge_gpu_kernels::frontal::climb::schedule;
use luge_gpu_kernels::frontal::plan as words;
use luge_gpu_kernels::frontal::solve as solve_kernels;
use luge_sparse::etree::NONE;

use super::placement::Placement;
use super::plan::{Limits, Plan};
use crate::tree::Tree;
/// An assembly tree on the device.
#[derive(Debug)]
pub struct DeviceTree {
    pub(super) tree: Arc<Tree>,
    /// Column of A of each pivot, in the order of elimination.
    pub(super) columns: Vec<u32>,
    /// Row of A of each pivot, before rows are exchanged.
    pub(super) rows_of_a: Vec<u32>,
    /// Number of values that A has at least.
    pub(super) max_source: usize,
    pub(super) plan: DevicePlan,
    pub(super) to_solve: Start,
    pub(super) starts: Buffer<u32>,
    pub(super) below: Buffer<u32>,
    pub(super) parents: Buffer<u32>,
    pub(super) child_ptr: Buffer<u32>,
    pub(super) children: Buffer<u32>,
    pub(super) rows: Buffer<u64>,
    pub(super) relative: Buffer<u32>,
    pub(super) row_idx: Buffer<u32>,
    pub(super) slots: Buffer<u64>,
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

/// How a climb of the tree begins.
#[derive(Debug)]
pub(super) struct Start {
    /// Fronts without children, for warps.
    pub(super) leaves: Buffer<u32>,
    /// Those for blocks, in the queue.
    queue: Vec<u32>,
    num_queued: u32,
}

impl Start {
    /// `childless` are the fronts without children, in the order in which they are to be handed out; warps work on
    /// fronts of at most `small` rows.
    fn new(
        stream: &Stream,
        tree: &Tree,
        childless: &[u32],
        small: u32,
    ) -> Result<Self, DeviceError> {
        let fronts = tree.fronts();
        let (leaves, large): (Vec<u32>, Vec<u32>) = childless
            .iter()
            .partition(|&&s| fronts[s as usize].size() <= small);
        let mut queue: Vec<u32> = large.iter().map(|&s| s + 1).collect();
        let num_queued = queue.len() as u32;
        queue.resize(fronts.len(), 0);
        Ok(Self {
            leaves: stream.upload(&leaves)?,
            queue,
            num_queued,
        })
    }

    /// The queue and the counters of the schedule.
    pub(super) fn schedule(
        &self,
        stream: &Stream,
    ) -> Result<(Buffer<u32>, Buffer<u32>), DeviceError> {
        let mut counters = [0u32; schedule::LEN];
        counters[schedule::TAIL] = self.num_queued;
        Ok((stream.upload(&self.queue)?, stream.upload(&counters)?))
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
        let layout = &tree.layout;
        let rows_of_a = tree.perm().iter();
        let rows_of_a = rows_of_a.map(|&i| placement.row_perm.as_slice()[i as usize]);
        let columns = tree.perm().iter();
        let columns = columns.map(|&j| placement.col_perm.as_slice()[j as usize]);
        let fronts = tree.fronts();
        let mut starts: Vec<u32> = fronts.iter().map(|front| front.start).collect();
        starts.push(tree.n() as u32);
        let mut child_ptr: Vec<u32> = fronts.iter().map(|front| front.children).collect();
        child_ptr.push(tree.children.len() as u32);
        // Those with the longest way to the root first.
        let mut path = vec![0.0; fronts.len()];
        for (s, front) in fronts.iter().enumerate().rev() {
            let above = match front.parent {
                NONE => 0.0,
                parent => path[parent as usize],
            };
            // Steps of the elimination, and what a front costs whatever its size.
            path[s] = above + f64::from(front.pivots) + 10.0;
        }
        let mut childless: Vec<u32> = (0..fronts.len() as u32)
            .filter(|&s| fronts[s as usize].num_children == 0)
            .collect();
        childless.sort_by(|&a, &b| {
            path[b as usize]
                .total_cmp(&path[a as usize])
                .then(a.cmp(&b))
        });
        let of = |f: fn(&crate::tree::Front) -> u32| fronts.iter().map(f).collect::<Vec<_>>();
        Ok(Self {
            plan: DevicePlan::upload(stream, &plan)?,
            to_solve: Start::new(stream, tree, &childless, solve_kernels::WARP_FRONT)?,
            starts: stream.upload(&starts)?,
            below: stream.upload(&of(|front| front.below))?,
            parents: stream.upload(&of(|front| front.parent))?,
            child_ptr: stream.upload(&child_ptr)?,
            children: stream.upload(&tree.children)?,
            rows: stream.upload(&fronts.iter().map(|front| front.rows).collect::<Vec<_>>())?,
            relative: stream.upload(&tree.relative)?,
            row_idx: stream.upload(&tree.rows)?,
            columns: columns.collect(),
            rows_of_a: rows_of_a.collect(),
            max_source: plan.source.iter().max().map_or(0, |&p| p as usize + 1),
            slots: stream.upload(&layout.slot)?,
            tree: Arc::clone(tree),
        })
    }

    /// The tree on the host.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }
}
