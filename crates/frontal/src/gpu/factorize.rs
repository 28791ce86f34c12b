//! Factors of one matrix.

use std::sync::Arc;

use luge_device::{Buffer, LaunchConfig, Stream};
use luge_gpu_kernels::frontal::lu::{self as kernels, counter, extreme};
use luge_kernel::math::Real;

use super::solve::SolveState;
use super::tree::DeviceTree;
use super::{DeviceFrontalError, DeviceQuality, DeviceScalar, StaticPivots};

/// Factors of one matrix on the device.
#[derive(Debug)]
pub struct DeviceFrontalLu<T: DeviceScalar> {
    pub(super) tree: Arc<DeviceTree>,
    pub(super) factors: Buffer<T>,
    elements: Buffer<T>,
    pub(super) pivot_rows: Buffer<u32>,
    pub(super) pending: Buffer<u32>,
    pub(super) solve_state: SolveState<T>,
    /// Largest magnitude in B, of which the smallest pivot is a part.
    scale: f64,
}

impl<T: DeviceScalar> DeviceFrontalLu<T> {
    /// Factorizes B for the values `a` of A.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::ZeroPivot`], [`DeviceFrontalError::NotFinite`] with the first column concerned;
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If `a` has fewer values than the placement of the tree refers to.
    #[track_caller]
    pub fn factorize(
        stream: &Stream,
        tree: &Arc<DeviceTree>,
        a: &Buffer<f64>,
        pivots: &StaticPivots,
    ) -> Result<(Self, DeviceQuality), DeviceFrontalError> {
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
            solve_state: SolveState::new(stream, tree)?,
            scale: 1.0,
            tree: Arc::clone(tree),
        };
        let quality = factors.run_scaled(stream, a, pivots, true)?;
        Ok((factors, quality))
    }

    /// Factorizes B for other values of A in place, with the rows of the pivots found before. After an error the
    /// factors are those of no matrix.
    ///
    /// # Errors
    ///
    /// As [`factorize`](Self::factorize).
    ///
    /// # Panics
    ///
    /// As [`factorize`](Self::factorize).
    #[track_caller]
    pub fn refactorize(
        &mut self,
        stream: &Stream,
        a: &Buffer<f64>,
        pivots: &StaticPivots,
    ) -> Result<DeviceQuality, DeviceFrontalError> {
        self.run_scaled(stream, a, pivots, false)
    }

    /// Factorizes with the smallest pivot for the largest magnitude that B had last time, and again if that is far
    /// from what it is.
    #[track_caller]
    fn run_scaled(
        &mut self,
        stream: &Stream,
        a: &Buffer<f64>,
        pivots: &StaticPivots,
        search: bool,
    ) -> Result<DeviceQuality, DeviceFrontalError> {
        let tree = Arc::clone(&self.tree);
        assert!(
            a.len() >= tree.max_source,
            "a value for each entry of the tree"
        );
        if tree.tree.num_supernodes() == 0 {
            return Ok(DeviceQuality::default());
        }
        let mut report = self.run(stream, a, pivots, search)?;
        let max_b = report.quality.max_b;
        if max_b.is_finite() && max_b > 0.0 && !(0.25..=4.0).contains(&(max_b / self.scale)) {
            self.scale = max_b;
            report = self.run(stream, a, pivots, search)?;
        }
        let column = |pivot: u32| tree.columns[pivot as usize] as usize;
        if let Some(pivot) = report.first_not_finite {
            return Err(DeviceFrontalError::NotFinite {
                column: column(pivot),
            });
        }
        if let Some(pivot) = report.first_zero {
            return Err(DeviceFrontalError::ZeroPivot {
                column: column(pivot),
            });
        }
        self.solve_state
            .refresh(stream, &tree, a, &self.pivot_rows, search)?;
        Ok(report.quality)
    }

    /// One launch.
    fn run(
        &mut self,
        stream: &Stream,
        a: &Buffer<f64>,
        pivots: &StaticPivots,
        search: bool,
    ) -> Result<Report, DeviceFrontalError> {
        let tree = &*self.tree;
        let num_fronts = tree.tree.num_supernodes();
        let (mut queue, mut schedule) = tree.to_factorize.schedule(stream)?;
        let mut counters = [u32::MAX; counter::LEN];
        counters[counter::NUM_PERTURBED] = 0;
        let mut counters = stream.upload(&counters)?;
        let mut extremes = stream.alloc_zeroed::<u64>(extreme::LEN)?;
        let device = stream.device();
        let kernel = kernels::lu_fronts::desc::<T>();
        let shared_bytes = kernels::BLOCK_VALUES * size_of::<T>() as u32;
        let resident = device.max_resident_blocks(kernel, kernels::THREADS, shared_bytes)?;
        // A warp a leaf, and a block for the queue.
        let blocks = (num_fronts as u32).div_ceil(kernels::THREADS / 32);
        let config = LaunchConfig::linear(blocks.min(resident.max(1)), kernels::THREADS)
            .with_shared(shared_bytes)
            .cooperative();
        // SAFETY: the tree is valid and in postorder, A has a value for each of its entries; queue, schedule, counters
        // and `pending` are as the kernel wants them, the last set by the launch before.
        unsafe {
            kernels::lu_fronts::launch::<T, _>(
                stream,
                &config,
                search.into(),
                Real::from_f64(pivots.threshold),
                Real::from_f64(pivots.smallest * self.scale),
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
                &tree.destination,
                &tree.exponents,
                a,
                &tree.slots,
                &tree.element_at,
                &mut self.factors,
                &mut self.elements,
                &mut self.pivot_rows,
                &mut self.pending,
                &mut queue,
                &mut schedule,
                &mut counters,
                &mut extremes,
            )?;
        }
        let counters = stream.download(&counters)?;
        let extremes = stream.download(&extremes)?;
        let pivot = |which: usize| (counters[which] != u32::MAX).then_some(counters[which]);
        let extreme = |which: usize| f64::from_bits(extremes[which]);
        Ok(Report {
            first_not_finite: pivot(counter::FIRST_NOT_FINITE),
            first_zero: pivot(counter::FIRST_ZERO),
            quality: DeviceQuality {
                num_perturbed: counters[counter::NUM_PERTURBED],
                first_perturbed: pivot(counter::FIRST_PERTURBED)
                    .map(|pivot| tree.columns[pivot as usize] as usize),
                max_b: extreme(extreme::MAX_B),
                max_u: extreme(extreme::MAX_U),
                max_l: extreme(extreme::MAX_L),
            },
        })
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

/// What a launch found. Pivots are counted in the order of elimination.
struct Report {
    first_not_finite: Option<u32>,
    first_zero: Option<u32>,
    quality: DeviceQuality,
}
