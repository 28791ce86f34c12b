//! Multifrontal LU with static pivots on the device.
//!
//! [`DeviceTree`] is the assembly tree on the device, for many matrices of one pattern; [`DeviceFrontalLu`] the factors
//! of one. A factorization is one launch (see `luge_gpu_kernels::frontal::lu`); the host sends the values and waits for
//! the report on the pivots.
//!
//! Memory: the factors, and the elements of all fronts at once.

use std::sync::Arc;

use luge_device::{Buffer, DeviceError, LaunchConfig, Stream};
use luge_gpu_kernels::frontal::climb::schedule;
use luge_gpu_kernels::frontal::lu::{self as kernels, counter};
use luge_gpu_kernels::frontal::solve as solve_kernels;
use luge_kernel::math::Real;
use luge_sparse::etree::NONE;

use crate::tree::Tree;

/// A type that the device factorizes in: `f32` or `f64`.
pub trait DeviceScalar:
    luge_sparse::Scalar
    + Real
    + kernels::lu_fronts::Instance
    + solve_kernels::solve_fronts_up::Instance
    + solve_kernels::solve_fronts_down::Instance
{
}
impl DeviceScalar for f32 {}
impl DeviceScalar for f64 {}

/// Why there are no factors. Columns count in the matrix that was handed in.
#[derive(Debug, thiserror::Error)]
pub enum DeviceFrontalError {
    /// A pivot is zero.
    #[error("the pivot of column {column} is zero")]
    ZeroPivot {
        /// The column.
        column: usize,
    },
    /// A value of the matrix or of the factors is infinite or not a number.
    #[error("column {column} leads to a pivot that is not finite")]
    NotFinite {
        /// The column.
        column: usize,
    },
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Rules for the pivots of [`DeviceFrontalLu::factorize`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StaticPivots {
    /// The diagonal is taken if it reaches this fraction of the largest entry of its column among the rows of the
    /// front's pivots, else that entry. 0 to 1.
    pub threshold: f64,
    /// Pivots below this magnitude are replaced by it, with their sign.
    pub smallest: f64,
}

/// What became of the pivots of a factorization. Columns are counted in the order of elimination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DevicePivots {
    /// Number of replaced pivots.
    pub num_perturbed: u32,
    /// The first of them.
    pub first_perturbed: Option<u32>,
}

/// An assembly tree on the device.
#[derive(Debug)]
pub struct DeviceTree {
    tree: Arc<Tree>,
    to_factorize: Start,
    to_solve: Start,
    starts: Buffer<u32>,
    below: Buffer<u32>,
    parents: Buffer<u32>,
    child_ptr: Buffer<u32>,
    children: Buffer<u32>,
    rows: Buffer<u64>,
    relative: Buffer<u32>,
    row_idx: Buffer<u32>,
    entry_ptr: Buffer<u32>,
    source: Buffer<u32>,
    target: Buffer<u32>,
    slots: Buffer<u64>,
    element_at: Buffer<u64>,
    element_entries: u64,
}

/// How a climb of the tree begins.
#[derive(Debug)]
struct Start {
    /// Fronts without children, for warps.
    leaves: Buffer<u32>,
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
    fn schedule(&self, stream: &Stream) -> Result<(Buffer<u32>, Buffer<u32>), DeviceError> {
        let mut counters = [0u32; schedule::LEN];
        counters[schedule::TAIL] = self.num_queued;
        Ok((stream.upload(&self.queue)?, stream.upload(&counters)?))
    }
}

impl DeviceTree {
    /// Copies a tree to the device.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    pub fn upload(stream: &Stream, tree: &Arc<Tree>) -> Result<Self, DeviceError> {
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
            to_solve: Start::new(stream, tree, &childless, solve_kernels::WARP_FRONT)?,
            starts: stream.upload(&starts)?,
            below: stream.upload(&of(|front| front.below))?,
            parents: stream.upload(&of(|front| front.parent))?,
            child_ptr: stream.upload(&child_ptr)?,
            children: stream.upload(&tree.children)?,
            rows: stream.upload(&fronts.iter().map(|front| front.rows).collect::<Vec<_>>())?,
            relative: stream.upload(&tree.relative)?,
            row_idx: stream.upload(&tree.rows)?,
            entry_ptr: stream.upload(&tree.layout.entry_ptr)?,
            source: stream.upload(&tree.layout.source)?,
            target: stream.upload(&tree.layout.target)?,
            slots: stream.upload(&tree.layout.slot)?,
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

/// Factors of one matrix on the device.
#[derive(Debug)]
pub struct DeviceFrontalLu<T: DeviceScalar> {
    tree: Arc<DeviceTree>,
    factors: Buffer<T>,
    elements: Buffer<T>,
    pivot_rows: Buffer<u32>,
    pending: Buffer<u32>,
    pivots: DevicePivots,
}

impl<T: DeviceScalar> DeviceFrontalLu<T> {
    /// Factorizes the matrix with the pattern of `tree` and these values, in the pattern's order.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::ZeroPivot`], [`DeviceFrontalError::NotFinite`] with the first column concerned, as the matrix counts
    /// them; [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If `values` has not one value per entry of the pattern.
    #[track_caller]
    pub fn factorize(
        stream: &Stream,
        tree: &Arc<DeviceTree>,
        values: &[T],
        pivots: &StaticPivots,
    ) -> Result<Self, DeviceFrontalError> {
        let host = tree.tree();
        let children: Vec<u32> = host
            .fronts()
            .iter()
            .map(|front| front.num_children)
            .collect();
        let mut factors = Self {
            factors: stream.alloc(host.layout.slots as usize)?,
            elements: stream.alloc(tree.element_entries as usize)?,
            pivot_rows: stream.alloc(host.n())?,
            pending: stream.upload(&children)?,
            pivots: DevicePivots::default(),
            tree: Arc::clone(tree),
        };
        factors.run(stream, values, pivots, true)?;
        Ok(factors)
    }

    /// Factorizes new values of the same pattern in place, with the rows of the pivots found before.
    ///
    /// # Errors
    ///
    /// As [`factorize`](Self::factorize).
    ///
    /// # Panics
    ///
    /// If `values` has not one value per entry of the pattern.
    #[track_caller]
    pub fn refactorize(
        &mut self,
        stream: &Stream,
        values: &[T],
        pivots: &StaticPivots,
    ) -> Result<(), DeviceFrontalError> {
        self.run(stream, values, pivots, false)
    }

    #[track_caller]
    fn run(
        &mut self,
        stream: &Stream,
        values: &[T],
        pivots: &StaticPivots,
        search: bool,
    ) -> Result<(), DeviceFrontalError> {
        let tree = &*self.tree;
        let host = &*tree.tree;
        assert_eq!(
            values.len(),
            host.nnz(),
            "one value per entry of the pattern"
        );
        let num_fronts = host.num_supernodes();
        if num_fronts == 0 {
            return Ok(());
        }
        let values = stream.upload(values)?;
        let (mut queue, mut schedule) = tree.to_factorize.schedule(stream)?;
        let mut counters = [u32::MAX; counter::LEN];
        counters[counter::NUM_PERTURBED] = 0;
        let mut counters = stream.upload(&counters)?;
        let device = stream.device();
        let kernel = kernels::lu_fronts::desc::<T>();
        let shared_bytes = kernels::BLOCK_VALUES * size_of::<T>() as u32;
        let resident = device.max_resident_blocks(kernel, kernels::THREADS, shared_bytes)?;
        // A warp a leaf, and a block for the queue.
        let blocks = (num_fronts as u32).div_ceil(kernels::THREADS / 32);
        let config = LaunchConfig::linear(blocks.min(resident.max(1)), kernels::THREADS)
            .with_shared(shared_bytes)
            .cooperative();
        // SAFETY: the tree is valid and in postorder; queue, schedule, counters and `pending` are as the kernel
        // wants them, the last set by the launch before.
        unsafe {
            kernels::lu_fronts::launch::<T, _>(
                stream,
                &config,
                search.into(),
                Real::from_f64(pivots.threshold),
                Real::from_f64(pivots.smallest),
                &tree.to_factorize.leaves,
                &tree.starts,
                &tree.below,
                &tree.parents,
                &tree.child_ptr,
                &tree.children,
                &tree.rows,
                &tree.relative,
                &tree.entry_ptr,
                &tree.source,
                &tree.target,
                &values,
                &tree.slots,
                &tree.element_at,
                &mut self.factors,
                &mut self.elements,
                &mut self.pivot_rows,
                &mut self.pending,
                &mut queue,
                &mut schedule,
                &mut counters,
            )?;
        }
        let counters = stream.download(&counters)?;
        let column = |which: usize| {
            (counters[which] != u32::MAX).then(|| host.perm()[counters[which] as usize] as usize)
        };
        if let Some(column) = column(counter::FIRST_NOT_FINITE) {
            return Err(DeviceFrontalError::NotFinite { column });
        }
        if let Some(column) = column(counter::FIRST_ZERO) {
            return Err(DeviceFrontalError::ZeroPivot { column });
        }
        self.pivots = DevicePivots {
            num_perturbed: counters[counter::NUM_PERTURBED],
            first_perturbed: (counters[counter::FIRST_PERTURBED] != u32::MAX)
                .then_some(counters[counter::FIRST_PERTURBED]),
        };
        Ok(())
    }

    /// Solves B·X = R, or Bᵀ·X = R, in place, for as many right-hand sides as `x` has columns of the order of B.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If `x` is not made of whole columns.
    #[track_caller]
    pub fn solve(
        &mut self,
        stream: &Stream,
        x: &mut [T],
        transpose: bool,
    ) -> Result<(), DeviceFrontalError> {
        let tree = &*self.tree;
        let host = &*tree.tree;
        let n = host.n();
        if n == 0 || x.is_empty() {
            assert!(x.is_empty(), "a matrix of order 0 has no unknowns");
            return Ok(());
        }
        assert_eq!(x.len() % n, 0, "whole columns of {n} values");
        let nrhs = x.len() / n;
        let eliminated: Vec<T> = x
            .chunks_exact(n)
            .flat_map(|column| host.perm().iter().map(|&old| column[old as usize]))
            .collect();
        let mut on_device = stream.upload(&eliminated)?;
        let mut carried = stream.alloc(nrhs * host.rows.len())?;
        let (mut queue, mut schedule) = tree.to_solve.schedule(stream)?;
        let device = stream.device();
        let threads = kernels::THREADS;
        let blocks = (host.num_supernodes() as u32).div_ceil(threads / 32);
        let kernel = solve_kernels::solve_fronts_up::desc::<T>();
        let resident = device.max_resident_blocks(kernel, threads, 0)?;
        let config = LaunchConfig::linear(blocks.min(resident.max(1)), threads).cooperative();
        // SAFETY: the factors are those of the tree; queue, schedule and `pending` are as the kernel wants them, the
        // last left so by the factorization.
        unsafe {
            solve_kernels::solve_fronts_up::launch::<T, _>(
                stream,
                &config,
                transpose.into(),
                nrhs as u32,
                &tree.to_solve.leaves,
                &tree.starts,
                &tree.below,
                &tree.parents,
                &tree.child_ptr,
                &tree.children,
                &tree.rows,
                &tree.relative,
                &tree.slots,
                &self.factors,
                &self.pivot_rows,
                &mut on_device,
                &mut carried,
                &mut self.pending,
                &mut queue,
                &mut schedule,
            )?;
        }
        let mut done = stream.alloc_zeroed::<u32>(host.num_supernodes())?;
        let mut taken = stream.alloc_zeroed::<u32>(1)?;
        let kernel = solve_kernels::solve_fronts_down::desc::<T>();
        let resident = device.max_resident_blocks(kernel, threads, 0)?;
        let config = LaunchConfig::linear(blocks.min(resident.max(1)), threads);
        // SAFETY: the factors are those of the tree; `done` and `taken` are zero.
        unsafe {
            solve_kernels::solve_fronts_down::launch::<T, _>(
                stream,
                &config,
                transpose.into(),
                nrhs as u32,
                &tree.starts,
                &tree.below,
                &tree.parents,
                &tree.rows,
                &tree.row_idx,
                &tree.slots,
                &self.factors,
                &self.pivot_rows,
                &mut on_device,
                &mut done,
                &mut taken,
            )?;
        }
        let solution = stream.download(&on_device)?;
        for (column, found) in x.chunks_exact_mut(n).zip(solution.chunks_exact(n)) {
            for (&old, &value) in host.perm().iter().zip(found) {
                column[old as usize] = value;
            }
        }
        Ok(())
    }

    /// What became of the pivots.
    pub fn pivots(&self) -> &DevicePivots {
        &self.pivots
    }

    /// The panels of all fronts, one after the other: of front s with k pivots and c rows below, (k + c) × k values of
    /// L and the pivots' block of U by columns, then c × k values of the rest of U by rows.
    pub fn factors(&self) -> &Buffer<T> {
        &self.factors
    }

    /// For each pivot the row that changed places with its own before it was eliminated, counted within its front.
    pub fn pivot_rows(&self) -> &Buffer<u32> {
        &self.pivot_rows
    }
}
