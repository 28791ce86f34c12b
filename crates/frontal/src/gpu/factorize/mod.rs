//! Factors of one matrix.

mod search;

use std::ops::Range;
use std::sync::Arc;

use luge_device::{Buffer, BufferViewMut, DeviceError, KernelDesc, LaunchConfig, Stream};
use luge_gpu_kernels::frontal::lu as kernels;
use luge_gpu_kernels::frontal::plan::report as words;
use luge_sparse::num_traits::Float;
use luge_sparse::{PivotPolicy, RealScalar, Scalar};

use super::delays::in_order;
use super::launch::{
    Arguments, Factorization, FrontKernels, Fronts, OwnValues, Results, Rule, Workspace,
};
use super::partial::{Changed, Keeping};
use super::scalar::{RealOf, WideOf};
use super::solve::SolveState;
use super::streamed::StoredPanels;
use super::tree::DeviceTree;
use super::{DeviceFrontalError, DeviceQuality, DeviceScalar};

/// The kernels of LU.
struct LuKernels {
    search: bool,
}

impl<T: DeviceScalar> FrontKernels<T> for LuKernels {
    type On<'b> = Self;

    fn on<'b>(&'b self, _: &'b mut OwnValues<T>) -> Self {
        Self { ..*self }
    }

    fn fetch(&mut self, _: &Stream, _: &OwnValues<T>, _: Range<usize>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn leave_panels(&self) -> bool {
        !self.search
    }

    fn desc(&self, fronts: Fronts) -> Option<&'static KernelDesc> {
        match (fronts, self.search) {
            (Fronts::Small, false) => T::small_fronts(),
            (Fronts::Small, true) => None,
            (Fronts::Narrow, false) => Some(kernels::lu_fronts::desc::<T>()),
            (Fronts::Narrow, true) => Some(kernels::lu_fronts_search::desc::<T>()),
            (Fronts::Wide, search) => Some(T::wide_fronts(search)),
        }
    }

    unsafe fn launch(
        &mut self,
        stream: &Stream,
        config: &LaunchConfig,
        fronts: Fronts,
        arguments: Arguments<'_, T>,
    ) -> Result<(), DeviceError> {
        let Arguments { work, small, large } = arguments;
        // SAFETY: the caller's contract.
        unsafe {
            match (fronts, self.search) {
                (Fronts::Small, _) => T::launch_small_fronts(stream, config, work, small),
                (Fronts::Narrow, false) => {
                    kernels::lu_fronts::launch::<T, _>(stream, config, work, small, large)
                }
                (Fronts::Narrow, true) => {
                    kernels::lu_fronts_search::launch::<T, _>(stream, config, work, small, large)
                }
                (Fronts::Wide, search) => {
                    T::launch_wide_fronts(stream, config, search, work, large)
                }
            }
        }
    }
}

/// Factors of one matrix on the device.
#[derive(Debug)]
pub struct DeviceFrontalLu<T: DeviceScalar> {
    pub(super) tree: Arc<DeviceTree>,
    pub(super) workspace: Arc<Workspace<T>>,
    /// Where `factors` are those of one link of the tree at a time. Before these, for it waits for copies when it is dropped.
    pub(super) stored_panels: Option<StoredPanels<T>>,
    pub(super) factors: Buffer<T>,
    pub(super) pivot_rows: Buffer<u32>,
    /// Where the exchange of rows puts each of the pivots' rows within its front.
    row_places: Buffer<u32>,
    pub(super) solve_state: SolveState<T>,
    /// Largest magnitude in B, of which the smallest pivot is a part.
    scale: f64,
    num_delayed: usize,
    pub(super) keeping: Keeping<T>,
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
    /// [`PivotPolicy::check`] or not static: that is for
    /// [`factorize_by_threshold`](Self::factorize_by_threshold).
    #[track_caller]
    pub fn factorize(
        stream: &Stream,
        tree: &Arc<DeviceTree>,
        a: &Buffer<WideOf<T>>,
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
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
    ) -> Result<(Self, DeviceQuality), DeviceFrontalError> {
        assert!(pivots.is_static(), "pivots of their own fronts");
        let mut factors = Self::unfactorized(stream, tree, workspace)?;
        if let Some(quality) = factors.factorize_on_diagonal(stream, a, pivots)? {
            return Ok((factors, quality));
        }
        // Looking for pivots moves rows, which the factors know nothing of: they are computed once more.
        loop {
            factors.launch_fronts(stream, a, pivots, true, None)?;
            if factors.report()?.is_some() {
                break;
            }
        }
        factors.refresh_solves(stream, a, true)?;
        let quality = factors.refactorize(stream, a, pivots)?;
        Ok((factors, quality))
    }

    /// Factorizes with all pivots on the diagonal, if a search would leave them there: no entry of L is larger than those
    /// that the search accepts. Otherwise the factors are those of no matrix.
    fn factorize_on_diagonal(
        &mut self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
    ) -> Result<Option<DeviceQuality>, DeviceFrontalError> {
        let own = in_order(&self.tree.symbolic);
        stream.copy_from_host(&mut self.pivot_rows, &own)?;
        stream.copy(&mut self.row_places, &self.pivot_rows)?;
        loop {
            self.launch_fronts(stream, a, pivots, false, None)?;
            self.refresh_solves(stream, a, true)?;
            match self.report() {
                Ok(Some(quality)) => {
                    let threshold = pivots.resolve::<RealOf<T>>(|| self.scale).threshold;
                    // Sizes of complex numbers are sums, of which those of quotients may be smaller by √2.
                    let largest = quality.max_l * WideOf::<T>::COMPONENTS as f64;
                    let is_bounded = largest * threshold.to_f64() <= 1.0;
                    let found = is_bounded && quality.num_perturbed == 0;
                    return Ok(found.then_some(quality));
                }
                // The smallest pivot was chosen for numbers of another size.
                Ok(None) => {}
                Err(
                    DeviceFrontalError::NotFinite { .. } | DeviceFrontalError::ZeroPivot { .. },
                ) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// The memory of factors on a tree.
    fn unfactorized(
        stream: &Stream,
        tree: &Arc<DeviceTree>,
        workspace: &Arc<Workspace<T>>,
    ) -> Result<Self, DeviceFrontalError> {
        let host = tree.symbolic();
        Ok(Self {
            factors: stream.alloc(tree.panel_entries())?,
            stored_panels: tree.stored_panels(stream)?,
            pivot_rows: stream.alloc(host.n())?,
            row_places: stream.alloc(host.n())?,
            solve_state: SolveState::new(stream, tree)?,
            scale: 1.0,
            num_delayed: 0,
            keeping: Keeping::Not,
            workspace: Arc::clone(workspace),
            tree: Arc::clone(tree),
        })
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
        a: &Buffer<WideOf<T>>,
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
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
    ) -> Result<(), DeviceFrontalError> {
        self.tree.check_values(a.len());
        // Before the fronts: nothing is to wait for their launch.
        self.refresh_solves(stream, a, false)?;
        self.launch_fronts(stream, a, pivots, false, None)
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
        if self.tree.is_empty() {
            return Ok(Some(DeviceQuality::default()));
        }
        let report = match self.keeping.kept() {
            Some(kept) => kept.report()?,
            None => self.workspace.report()?,
        };
        if let Some(max_b) = report.other_scale(self.scale) {
            self.scale = max_b;
            return Ok(None);
        }
        let column = |which: usize| {
            let pivot = report.first(which);
            pivot.map(|pivot| self.tree.columns[pivot as usize] as usize)
        };
        if let Some(column) = column(words::FIRST_NOT_FINITE) {
            return Err(DeviceFrontalError::NotFinite { column });
        }
        if let Some(column) = column(words::FIRST_ZERO) {
            return Err(DeviceFrontalError::ZeroPivot { column });
        }
        if let Some(kept) = self.keeping.kept() {
            kept.accept(report.count(words::NUM_PERTURBED) > 0);
        }
        Ok(Some(DeviceQuality {
            num_perturbed: report.count(words::NUM_PERTURBED) as u32,
            first_perturbed: column(words::FIRST_PERTURBED),
            num_delayed: self.num_delayed,
            max_b: report.extreme(words::MAX_B),
            max_u: report.extreme(words::MAX_U),
            max_l: report.extreme(words::MAX_L),
        }))
    }

    /// Takes from the values `a` of A, and from the exchanges if they are `new_pivots`, what solves need.
    pub(super) fn refresh_solves(
        &mut self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        new_pivots: bool,
    ) -> Result<(), DeviceFrontalError> {
        if self.tree.is_empty() {
            return Ok(());
        }
        self.solve_state
            .refresh(stream, &self.tree, a, &self.pivot_rows, new_pivots)
    }

    /// Enqueues the launches. Only the values that `changed` are others than those of the factors, or maybe
    /// all.
    #[track_caller]
    pub(super) fn launch_fronts(
        &mut self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
        search: bool,
        changed: Option<&Changed<'_>>,
    ) -> Result<(), DeviceFrontalError> {
        let bounds_l = search && !pivots.is_static();
        let pivots = pivots.resolve::<RealOf<T>>(|| self.scale);
        let max_l = if bounds_l {
            // Anything but zero is acceptable to a threshold of zero.
            Float::min(Float::recip(pivots.threshold), Float::max_value())
        } else {
            Float::infinity()
        };
        let rule = Rule {
            threshold: pivots.threshold,
            smallest: pivots.small,
            max_l,
        };
        let results = Results {
            factors: &mut self.factors,
            pivot_rows: &mut self.pivot_rows,
            row_places: &mut self.row_places,
            stored_panels: self.stored_panels.as_mut(),
        };
        if let Some(kept) = self.keeping.kept() {
            self.tree.check_values(a.len());
            let kernels = &mut LuKernels { search };
            let symbolic = &self.tree.symbolic;
            return Ok(kept.enqueue(stream, symbolic, changed, (a, rule), results, kernels)?);
        }
        let factorization = Factorization {
            tree: &*self.tree,
            values: a,
            rule,
            results,
        };
        factorization.enqueue(stream, &self.workspace, &mut LuKernels { search })
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
        x: &mut impl BufferViewMut<WideOf<T>>,
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
        x: &mut impl BufferViewMut<WideOf<T>>,
        transpose: bool,
    ) -> Result<(), DeviceFrontalError> {
        self.solve_in_workspace(stream, x, 1, transpose, false)
    }

    #[track_caller]
    fn solve_in_workspace(
        &mut self,
        stream: &Stream,
        x: &mut impl BufferViewMut<WideOf<T>>,
        nrhs: usize,
        transpose: bool,
        scales: bool,
    ) -> Result<(), DeviceFrontalError> {
        let workspace = Arc::clone(&self.workspace);
        let mut working = workspace.lock();
        self.solve_with(working.memory(), stream, x, nrhs, transpose, scales)
    }

    /// The tree of the factors, in which columns may have [moved](Self::factorize_by_threshold).
    pub fn tree(&self) -> &Arc<DeviceTree> {
        &self.tree
    }

    /// The diagonal of U, in the order of elimination. Waits for the factorization that was begun last.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    pub fn pivots(&self, stream: &Stream) -> Result<Vec<T>, DeviceFrontalError> {
        let tree = &self.tree;
        let fronts = tree.symbolic.tree.fronts();
        let mut pivots = vec![T::ZERO; tree.symbolic.n()];
        let mut take = |s: usize, slot: u64, panels: &[T]| {
            let front = &fronts[s];
            let diagonal = panels[slot as usize..]
                .iter()
                .step_by(front.size() as usize + 1);
            for (to, &pivot) in pivots[front.pivot_range()].iter_mut().zip(diagonal) {
                *to = pivot;
            }
        };
        if let (Some(chain), Some(stored)) = (&tree.chain, &self.stored_panels) {
            for (link, panels) in (0..).zip(stored.links()) {
                let panels = panels?;
                for s in (0..fronts.len()).filter(|&s| chain.link_of[s] == link) {
                    take(s, chain.slots[s], &panels);
                }
            }
        } else {
            let panels = stream.download(&self.factors)?;
            for s in 0..fronts.len() {
                take(s, tree.symbolic.layout.slot[s], &panels);
            }
        }
        Ok(pivots)
    }

    /// The panels of all fronts, of a tree in links those of one link, one after the other: of front s with k pivots and c rows below, (k + c) × k values of
    /// L and the pivots' block of U by columns, then c × k values of the rest of U by rows.
    pub fn factors(&self) -> &Buffer<T> {
        &self.factors
    }

    /// For each pivot the row that changed places with its own before it was eliminated, counted within its front.
    pub fn pivot_rows(&self) -> &Buffer<u32> {
        &self.pivot_rows
    }
}
