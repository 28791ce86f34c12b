//! Factors of one matrix.

use std::sync::Arc;

use luge_device::{Buffer, LaunchConfig, PinnedBuffer, Stream};
use luge_gpu_kernels::frontal::lu as kernels;
use luge_gpu_kernels::frontal::plan::{self as words, report};
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
    /// Where the exchange of rows puts each of the pivots' rows within its front.
    row_places: Buffer<u32>,
    /// Counters and flags of the factorizations.
    joined: Buffer<u32>,
    arrived: Buffer<u32>,
    flags: Buffer<u32>,
    state: Buffer<u32>,
    extremes: Buffer<u64>,
    report: Buffer<u64>,
    report_on_host: PinnedBuffer<u64>,
    /// Number of factorizations so far, around the end of the integers.
    epoch: u32,
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
        let plan = &tree.plan;
        let mut factors = Self {
            factors: stream.alloc(host.layout.slots as usize)?,
            elements: stream.alloc(plan.element_entries as usize)?,
            pivot_rows: stream.alloc(host.n())?,
            row_places: stream.alloc(host.n())?,
            joined: stream.alloc_zeroed(plan.num_small)?,
            arrived: stream.alloc_zeroed(plan.num_large)?,
            flags: stream.alloc_zeroed(plan.num_flags)?,
            state: stream.alloc_zeroed(words::state::LEN)?,
            extremes: stream.alloc_zeroed(report::NUM_EXTREMES)?,
            report: stream.alloc(report::LEN)?,
            report_on_host: stream.device().alloc_pinned(report::LEN)?,
            epoch: 0,
            solve_state: SolveState::new(stream, tree)?,
            scale: 1.0,
            tree: Arc::clone(tree),
        };
        // Looking for pivots moves rows, which the factors know nothing of: they are computed once more.
        factors.run_scaled(stream, a, pivots, true)?;
        let quality = factors.run_scaled(stream, a, pivots, false)?;
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
        let plan = &tree.plan;
        let device = stream.device();
        let kernel = if search {
            kernels::lu_fronts_search::desc::<T>()
        } else {
            kernels::lu_fronts::desc::<T>()
        };
        let shared_bytes = words::BLOCK_VALUES * size_of::<T>() as u32;
        let resident = device.max_resident_blocks(kernel, words::THREADS, shared_bytes)?;
        let warps = words::THREADS as usize / 32;
        let blocks = plan.starts.len().div_ceil(warps).max(plan.num_tasks);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let config = LaunchConfig::linear(blocks.clamp(1, resident.max(1)), words::THREADS)
            .with_shared(shared_bytes);
        self.epoch = self.epoch.wrapping_add(1);
        macro_rules! launch {
            ($kernel:ident) => {
                // SAFETY: the plan is that of a valid tree, and A has a value for each of its entries; the counters
                // were zero at first, and each launch leaves them as the next wants them.
                unsafe {
                    kernels::$kernel::launch::<T, _>(
                        stream,
                        &config,
                        self.epoch,
                        Real::from_f64(pivots.threshold),
                        Real::from_f64(pivots.smallest * self.scale),
                        &plan.fronts,
                        &plan.children,
                        &plan.starts,
                        &mut self.joined,
                        &plan.tasks,
                        &plan.pieces,
                        &plan.sums,
                        &plan.addends,
                        &mut self.arrived,
                        &mut self.flags,
                        &tree.relative,
                        &plan.source,
                        &plan.places,
                        a,
                        &mut self.factors,
                        &mut self.elements,
                        &mut self.pivot_rows,
                        &mut self.row_places,
                        &mut self.state,
                        &mut self.extremes,
                        &mut self.report,
                    )
                }
            };
        }
        if search {
            launch!(lu_fronts_search)?;
        } else {
            launch!(lu_fronts)?;
        }
        stream.copy_to_pinned(&self.report, &mut self.report_on_host, 0)?;
        let report = self.report_on_host.as_slice()?;
        let pivot = |which: usize| (report[which] != 0).then(|| !(report[which] as u32));
        let extreme = |which: usize| f64::from_bits(report[which]);
        Ok(Report {
            first_not_finite: pivot(report::FIRST_NOT_FINITE),
            first_zero: pivot(report::FIRST_ZERO),
            quality: DeviceQuality {
                num_perturbed: report[report::NUM_PERTURBED] as u32,
                first_perturbed: pivot(report::FIRST_PERTURBED)
                    .map(|pivot| tree.columns[pivot as usize] as usize),
                max_b: extreme(report::MAX_B),
                max_u: extreme(report::MAX_U),
                max_l: extreme(report::MAX_L),
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
