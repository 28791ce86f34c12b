//! The assembly tree on the device.

use std::sync::Arc;

use luge_device::{Buffer, DeviceError, Stream};
use luge_gpu_kernels::frontal::climb::schedule;
use luge_gpu_kernels::frontal::lu as kernels;
use luge_sparse::etree::NONE;

use super::placement::{Placement, exponent};
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
    pub(super) to_factorize: Start,
    pub(super) solve: SolvePlan,
    pub(super) starts: Buffer<u32>,
    pub(super) below: Buffer<u32>,
    pub(super) parents: Buffer<u32>,
    pub(super) child_ptr: Buffer<u32>,
    pub(super) children: Buffer<u32>,
    pub(super) rows: Buffer<u64>,
    pub(super) relative: Buffer<u32>,
    pub(super) row_idx: Buffer<u32>,
    pub(super) entry_ptr: Buffer<u32>,
    pub(super) source: Buffer<u32>,
    pub(super) destination: Buffer<u32>,
    pub(super) exponents: Buffer<i32>,
    pub(super) slots: Buffer<u64>,
    pub(super) element_at: Buffer<u64>,
    pub(super) element_entries: u64,
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
        placement.check(tree.n(), tree.nnz());
        let exponents = entry_exponents(tree, placement);
        let layout = &tree.layout;
        let source: Vec<u32> = layout
            .source
            .iter()
            .map(|&p| placement.entries[p as usize])
            .collect();
        let columns = tree.perm().iter();
        let columns = columns.map(|&j| placement.col_perm.as_slice()[j as usize]);
        let fronts = tree.fronts();
        let mut starts: Vec<u32> = fronts.iter().map(|front| front.start).collect();
        starts.push(tree.n() as u32);
        let mut child_ptr: Vec<u32> = fronts.iter().map(|front| front.children).collect();
        child_ptr.push(tree.children.len() as u32);
        let mut element_at = Vec::with_capacity(fronts.len());
        let mut element_entries = 0;
        for front in fronts {
            element_at.push(element_entries);
            element_entries += u64::from(front.below).pow(2);
        }
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
            to_factorize: Start::new(stream, tree, &childless, kernels::WARP_FRONT)?,
            solve: SolvePlan::upload(stream, tree, placement)?,
            starts: stream.upload(&starts)?,
            below: stream.upload(&of(|front| front.below))?,
            parents: stream.upload(&of(|front| front.parent))?,
            child_ptr: stream.upload(&child_ptr)?,
            children: stream.upload(&tree.children)?,
            rows: stream.upload(&fronts.iter().map(|front| front.rows).collect::<Vec<_>>())?,
            relative: stream.upload(&tree.relative)?,
            row_idx: stream.upload(&tree.rows)?,
            entry_ptr: stream.upload(&layout.entry_ptr)?,
            source: stream.upload(&source)?,
            destination: stream.upload(&layout.target)?,
            exponents: stream.upload(&exponents)?,
            columns: columns.collect(),
            max_source: source
                .iter()
                .chain(placement.coupling_entries)
                .max()
                .map_or(0, |&p| p as usize + 1),
            slots: stream.upload(&layout.slot)?,
            element_at: stream.upload(&element_at)?,
            element_entries,
            tree: Arc::clone(tree),
        })
    }

    /// The tree on the host.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }
}

/// The exponent of the factor that each entry of A is multiplied with, in the order of the layout.
fn entry_exponents(tree: &Tree, placement: &Placement<'_>) -> Vec<i32> {
    let pattern = &tree.pattern;
    let mut exponents = Vec::with_capacity(pattern.nnz());
    for (j, &column) in placement.col_perm.as_slice().iter().enumerate() {
        let of_column = exponent(placement.scaling.cols[column as usize]);
        exponents.extend(pattern.lane(j).iter().map(|&i| {
            let row = placement.row_perm.as_slice()[i as usize];
            of_column + exponent(placement.scaling.rows[row as usize])
        }));
    }
    let source = tree.layout.source.iter();
    source.map(|&p| exponents[p as usize]).collect()
}
