//! Factors of one matrix.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use luge_device::{Buffer, LaunchConfig, PinnedBuffer, Stream};
use luge_gpu_kernels::frontal::lu as kernels;
use luge_gpu_kernels::frontal::plan::{
    self as words, LargePlanBuffers, SmallPlanBuffers, WorkBuffers, report,
};
use luge_sparse::{PivotPolicy, ResolvedPivots};

use super::solve::{SolveState, Vectors};
use super::tree::DeviceTree;
use super::{DeviceFrontalError, DeviceQuality, DeviceScalar};
use crate::storage::Storage;

/// What factorizations and solves with one tree work in.
///
/// Factors of several matrices may share it if all their work is on one stream, which has it in order, and nobody
/// begins a factorization before the report on the last one was read.
#[derive(Debug)]
pub struct Workspace<T: DeviceScalar> {
    working: Mutex<Working<T>>,
}

#[derive(Debug)]
struct Working<T: DeviceScalar> {
    elements: Buffer<T>,
    /// Counters and flags of the factorizations.
    joined: Buffer<u32>,
    arrived: Buffer<u32>,
    assembled: Buffer<u32>,
    flags: Buffer<u32>,
    state: Buffer<u32>,
    extremes: Buffer<u64>,
    report: Buffer<u64>,
    report_on_host: PinnedBuffer<u64>,
    /// Number of factorizations so far, around the end of the integers.
    epoch: u32,
    /// What solves work in beside the elements.
    vectors: Vectors<T>,
}

impl<T: DeviceScalar> Workspace<T> {
    /// Memory for factors on `tree`.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    pub fn new<S: Storage>(
        stream: &Stream,
        tree: &DeviceTree<S>,
    ) -> Result<Self, DeviceFrontalError> {
        let plan = &tree.plan;
        Ok(Self {
            working: Mutex::new(Working {
                elements: stream.alloc(plan.element_entries as usize)?,
                joined: stream.alloc_zeroed(plan.fronts.len())?,
                arrived: stream.alloc_zeroed(plan.num_large)?,
                assembled: stream.alloc_zeroed(plan.num_large)?,
                flags: stream.alloc_zeroed(plan.num_flags)?,
                state: stream.alloc_zeroed(words::state::LEN)?,
                extremes: stream.alloc_zeroed(report::NUM_EXTREMES)?,
                report: stream.alloc(report::LEN)?,
                report_on_host: stream.device().alloc_pinned(report::LEN)?,
                epoch: 0,
                vectors: Vectors::new(stream)?,
            }),
        })
    }

    /// Bytes on the device that it takes, with what a solve for one right-hand side works in.
    pub fn bytes<S: Storage>(tree: &DeviceTree<S>) -> u64 {
        let plan = &tree.plan;
        let values = plan.element_entries * size_of::<T>() as u64;
        let of_solves = Vectors::<T>::bytes(tree, plan.element_entries);
        let counters = plan.fronts.len() + 2 * plan.num_large + plan.num_flags + words::state::LEN;
        let reports = report::NUM_EXTREMES + report::LEN;
        values + of_solves + (4 * counters + 8 * reports) as u64
    }

    fn lock(&self) -> MutexGuard<'_, Working<T>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the launches of a factorization have in common.
struct Launch<'a, T: DeviceScalar> {
    epoch: u32,
    pivots: ResolvedPivots<T>,
    tree: &'a DeviceTree,
    values: &'a Buffer<f64>,
    factors: &'a mut Buffer<T>,
    pivot_rows: &'a mut Buffer<u32>,
    row_places: &'a mut Buffer<u32>,
    working: &'a mut Working<T>,
}

impl<T: DeviceScalar> Launch<'_, T> {
    /// Enqueues a launch of those that the plan asks for; the first also works on the small fronts.
    fn enqueue(
        &mut self,
        stream: &Stream,
        number: usize,
        search: bool,
    ) -> Result<(), DeviceFrontalError> {
        let device = stream.device();
        let plan = &self.tree.plan;
        let of = plan.launches[number].clone();
        let kernel = match (of.is_wide, search) {
            (false, false) => kernels::lu_fronts::desc::<T>(),
            (false, true) => kernels::lu_fronts_search::desc::<T>(),
            (true, false) => kernels::lu_wide_fronts::desc::<T>(),
            (true, true) => kernels::lu_wide_fronts_search::desc::<T>(),
        };
        let values = if of.is_wide {
            words::WIDE_VALUES
        } else {
            words::BLOCK_VALUES
        };
        let shared_bytes = values * size_of::<T>() as u32;
        let resident = device.max_resident_blocks(kernel, words::THREADS, shared_bytes)?;
        let warps = words::THREADS as usize / 32;
        let of_small = if number == 0 { plan.starts.len() } else { 0 };
        let blocks = of_small.div_ceil(warps).max(of.tasks.len());
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let config = LaunchConfig::linear(blocks.clamp(1, resident.max(1)), words::THREADS)
            .with_shared(shared_bytes);
        let (work, small, large) = self.buffers(number);
        // SAFETY: the plan is that of a valid tree, and A has a value for each of its entries; the counters were zero at
        // first, and each launch leaves them as the next wants them. What tasks wait for is done in this launch or in one
        // before.
        unsafe {
            match (of.is_wide, search) {
                (false, false) => {
                    kernels::lu_fronts::launch::<T, _>(stream, &config, work, small, large)?;
                }
                (false, true) => {
                    kernels::lu_fronts_search::launch::<T, _>(stream, &config, work, small, large)?;
                }
                (true, false) => {
                    kernels::lu_wide_fronts::launch::<T, _>(stream, &config, work, large)?;
                }
                (true, true) => {
                    kernels::lu_wide_fronts_search::launch::<T, _>(stream, &config, work, large)?;
                }
            }
        }
        // Counted once a launch is made: flags and epoch go together.
        self.working.epoch = self.epoch;
        Ok(())
    }

    /// The arguments of a launch.
    fn buffers(
        &mut self,
        number: usize,
    ) -> (
        WorkBuffers<'_, T>,
        SmallPlanBuffers<'_>,
        LargePlanBuffers<'_>,
    ) {
        let (tree, working) = (self.tree, &mut *self.working);
        let plan = &tree.plan;
        let tasks = &plan.launches[number].tasks;
        let work = WorkBuffers {
            epoch: self.epoch,
            goes_on: (number > 0).into(),
            threshold: self.pivots.threshold,
            smallest: self.pivots.small,
            relative: &tree.relative,
            source: &plan.source,
            places: &plan.places,
            values: self.values,
            arrived: &mut working.arrived,
            factors: self.factors,
            elements: &mut working.elements,
            pivot_rows: self.pivot_rows,
            row_places: self.row_places,
            state: &mut working.state,
            extremes: &mut working.extremes,
            report: &mut working.report,
        };
        let small = SmallPlanBuffers {
            fronts: &plan.fronts,
            children: &plan.children,
            starts: &plan.starts,
            joined: &mut working.joined,
        };
        let large = LargePlanBuffers {
            first_task: tasks.start,
            num_tasks: tasks.end - tasks.start,
            tasks: &plan.tasks,
            pieces: &plan.pieces,
            sums: &plan.sums,
            addends: &plan.addends,
            waits: &plan.waits,
            assembled: &mut working.assembled,
            flags: &mut working.flags,
        };
        (work, small, large)
    }
}

/// Factors of one matrix on the device.
#[derive(Debug)]
pub struct DeviceFrontalLu<T: DeviceScalar> {
    pub(super) tree: Arc<DeviceTree>,
    workspace: Arc<Workspace<T>>,
    pub(super) factors: Buffer<T>,
    pub(super) pivot_rows: Buffer<u32>,
    /// Where the exchange of rows puts each of the pivots' rows within its front.
    row_places: Buffer<u32>,
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
    /// If `a` has fewer values than the placement of the tree refers to, or the policy is refused by
    /// [`PivotPolicy::check`] or not static.
    #[track_caller]
    pub fn factorize(
        stream: &Stream,
        tree: &Arc<DeviceTree>,
        a: &Buffer<f64>,
        pivots: &PivotPolicy,
    ) -> Result<(Self, DeviceQuality), DeviceFrontalError> {
        let workspace = Arc::new(Workspace::new(stream, tree)?);
        Self::factorize_in(&workspace, stream, tree, a, pivots)
    }

    /// As [`factorize`](Self::factorize), in memory that was made for the same tree on the same stream.
    ///
    /// # Errors
    ///
    /// As [`factorize`](Self::factorize).
    ///
    /// # Panics
    ///
    /// As [`factorize`](Self::factorize).
    #[track_caller]
    pub fn factorize_in(
        workspace: &Arc<Workspace<T>>,
        stream: &Stream,
        tree: &Arc<DeviceTree>,
        a: &Buffer<f64>,
        pivots: &PivotPolicy,
    ) -> Result<(Self, DeviceQuality), DeviceFrontalError> {
        let host = tree.symbolic();
        let mut factors = Self {
            factors: stream.alloc(host.layout.slots as usize)?,
            pivot_rows: stream.alloc(host.n())?,
            row_places: stream.alloc(host.n())?,
            solve_state: SolveState::new(stream, tree)?,
            scale: 1.0,
            workspace: Arc::clone(workspace),
            tree: Arc::clone(tree),
        };
        // Looking for pivots moves rows, which the factors know nothing of: they are computed once more.
        loop {
            factors.launch_fronts(stream, a, pivots, true)?;
            if factors.report()?.is_some() {
                break;
            }
        }
        factors.refresh_solves(stream, a, true)?;
        let quality = factors.refactorize(stream, a, pivots)?;
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
        pivots: &PivotPolicy,
    ) -> Result<DeviceQuality, DeviceFrontalError> {
        loop {
            self.begin_refactorize(stream, a, pivots)?;
            if let Some(quality) = self.report()? {
                return Ok(quality);
            }
        }
    }

    /// Enqueues what [`refactorize`](Self::refactorize) does, and does not wait for it. Work enqueued afterwards uses the
    /// new factors, whatever their [`report`](Self::report) will say of them.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// As [`factorize`](Self::factorize).
    #[track_caller]
    pub fn begin_refactorize(
        &mut self,
        stream: &Stream,
        a: &Buffer<f64>,
        pivots: &PivotPolicy,
    ) -> Result<(), DeviceFrontalError> {
        self.launch_fronts(stream, a, pivots, false)?;
        self.refresh_solves(stream, a, false)
    }

    /// What pivots are compared with: max|B| of the last factorization, or of one before it whose entries were of that
    /// size.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Brings back a [scale](Self::scale), so that a factorization of the values of then has the bits of then.
    pub fn set_scale(&mut self, scale: f64) {
        self.scale = scale;
    }

    /// Waits for the factorization that was begun last, and tells what became of it. `None` if the magnitude of B is far
    /// from that of the matrix before, by which the smallest pivot was chosen: it has to be begun again.
    ///
    /// # Errors
    ///
    /// As [`factorize`](Self::factorize).
    pub fn report(&mut self) -> Result<Option<DeviceQuality>, DeviceFrontalError> {
        let tree = &*self.tree;
        if tree.symbolic.tree.num_supernodes() == 0 {
            return Ok(Some(DeviceQuality::default()));
        }
        let working = self.workspace.lock();
        let report = working.report_on_host.as_slice()?;
        let column = |which: usize| {
            let pivot = !(report[which] as u32);
            (report[which] != 0).then(|| tree.columns[pivot as usize] as usize)
        };
        let extreme = |which: usize| f64::from_bits(report[which]);
        let max_b = extreme(report::MAX_B);
        if max_b.is_finite() && max_b > 0.0 && !(0.25..=4.0).contains(&(max_b / self.scale)) {
            self.scale = max_b;
            return Ok(None);
        }
        if let Some(column) = column(report::FIRST_NOT_FINITE) {
            return Err(DeviceFrontalError::NotFinite { column });
        }
        if let Some(column) = column(report::FIRST_ZERO) {
            return Err(DeviceFrontalError::ZeroPivot { column });
        }
        Ok(Some(DeviceQuality {
            num_perturbed: report[report::NUM_PERTURBED] as u32,
            first_perturbed: column(report::FIRST_PERTURBED),
            max_b,
            max_u: extreme(report::MAX_U),
            max_l: extreme(report::MAX_L),
        }))
    }

    /// Takes from the values `a` of A, and from the exchanges if they are `new_pivots`, what solves need.
    fn refresh_solves(
        &mut self,
        stream: &Stream,
        a: &Buffer<f64>,
        new_pivots: bool,
    ) -> Result<(), DeviceFrontalError> {
        if self.tree.symbolic.tree.num_supernodes() == 0 {
            return Ok(());
        }
        self.solve_state
            .refresh(stream, &self.tree, a, &self.pivot_rows, new_pivots)
    }

    /// Enqueues one launch and the copy of its report.
    #[track_caller]
    fn launch_fronts(
        &mut self,
        stream: &Stream,
        a: &Buffer<f64>,
        pivots: &PivotPolicy,
        search: bool,
    ) -> Result<(), DeviceFrontalError> {
        let tree = &*self.tree;
        let pivots = pivots.resolve_static::<T>(|| self.scale);
        assert!(
            a.len() >= tree.max_source,
            "a value for each entry of the tree"
        );
        if tree.symbolic.tree.num_supernodes() == 0 {
            return Ok(());
        }
        let plan = &tree.plan;
        let mut working = self.workspace.lock();
        let working = &mut *working;
        let mut launch = Launch {
            epoch: working.epoch.wrapping_add(1),
            pivots,
            tree,
            values: a,
            factors: &mut self.factors,
            pivot_rows: &mut self.pivot_rows,
            row_places: &mut self.row_places,
            working,
        };
        for number in 0..plan.launches.len() {
            launch.enqueue(stream, number, search)?;
        }
        let working = launch.working;
        stream.copy_to_pinned(&working.report, &mut working.report_on_host, 0)?;
        Ok(())
    }

    /// Enqueues a solve of A·X = R, or Aᵀ·X = R, in place, for `nrhs` right-hand sides of A's order, one after another.
    ///
    /// Right-hand sides may be of any magnitude. The bits of a solution depend on the factors, its right-hand side and
    /// whether it comes alone. Nothing is waited for: errors of the device may come later. Only the first solve with Aᵀ,
    /// where entries are right of the diagonal blocks, copies lists to the device and waits for that.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If `x` has not n · `nrhs` values.
    #[track_caller]
    pub fn solve(
        &mut self,
        stream: &Stream,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<(), DeviceFrontalError> {
        self.solve_in_workspace(stream, x, nrhs, transpose, true)
    }

    /// As [`solve`](Self::solve) for one right-hand side, with the scaled matrix, its rows and columns in the order of A.
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// As [`solve`](Self::solve).
    #[track_caller]
    pub fn solve_scaled(
        &mut self,
        stream: &Stream,
        x: &mut Buffer<f64>,
        transpose: bool,
    ) -> Result<(), DeviceFrontalError> {
        self.solve_in_workspace(stream, x, 1, transpose, false)
    }

    #[track_caller]
    fn solve_in_workspace(
        &mut self,
        stream: &Stream,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
        scales: bool,
    ) -> Result<(), DeviceFrontalError> {
        let workspace = Arc::clone(&self.workspace);
        let working = &mut *workspace.lock();
        let memory = (&mut working.vectors, &mut working.elements);
        self.solve_with(memory, stream, x, nrhs, transpose, scales)
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
