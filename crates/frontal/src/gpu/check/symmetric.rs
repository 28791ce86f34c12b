//! Growth of the factors of a symmetric matrix: see `luge_gpu_kernels::frontal::check::symmetric`.

use luge_device::{Buffer, DeviceError, Stream};
use luge_gpu_kernels::frontal::check::GROUP;
use luge_gpu_kernels::frontal::check::symmetric::{
    self as kernels, SymmetricCheckedBuffers, SymmetricSumsBuffers,
};
use luge_sparse::{Form, Quality};

use super::{CheckMemory, CheckPlan, DeviceCheck, of_groups, of_measures};
use crate::gpu::placement::Placement;
use crate::gpu::scalar::WideOf;
use crate::gpu::{DeviceFrontalError, DeviceFrontalLdlt, DeviceScalar};
use crate::tree::AssemblyTree;

/// The exponents of scale factors in the order of elimination. All are the same where what underflows in B may be large in A, of which
/// roundings do not tell: then sums are those of B.
pub(super) fn exponents(
    tree: &AssemblyTree,
    placement: &Placement<'_>,
    threads: usize,
) -> Vec<i32> {
    if placement.scaling.is_tame() {
        placement.placed(tree.perm(), threads).0.exponents
    } else {
        vec![0; tree.n()]
    }
}

impl<T: DeviceScalar> CheckMemory<T> {
    /// The arguments of kernels for symmetric matrices.
    fn symmetric_sums(&mut self) -> SymmetricSumsBuffers<'_> {
        SymmetricSumsBuffers {
            segment_norms: &mut self.segment_norms,
            segment_values: &mut self.segment_values,
            norms: &mut self.norms,
            sizes: &mut self.sizes,
            products: &mut self.products,
            pivots: &mut self.pivots,
            measures: &mut self.measures,
            found: self.found.buffer_mut(),
        }
    }
}

impl<T: DeviceScalar> DeviceFrontalLdlt<T> {
    /// Enqueues what a check does before the factorization of the values `a`: it sums up long columns.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If checks on the tree were not [prepared](crate::gpu::DeviceTree::prepare_checks).
    #[track_caller]
    pub fn prepare_check(
        &self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
    ) -> Result<(), DeviceFrontalError> {
        self.workspace
            .in_check_memory(stream, &self.tree, |plan, memory| {
                let config = of_groups(plan.segments.len().max(GROUP as usize));
                let columns = plan.columns(&self.tree, a);
                // SAFETY: the plan has rows of B and values of A.
                unsafe {
                    kernels::begin_symmetric_check::launch::<T, _>(
                        stream,
                        &config,
                        columns,
                        memory.symmetric_sums(),
                    )
                }
            })
    }

    /// Enqueues a check of the factors that are there as those of the values `a`, of which [`check`](Self::check) tells. Behind
    /// [`prepare_check`](Self::prepare_check) for the same values, with the factorization in between if they are new.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If checks on the tree were not [prepared](crate::gpu::DeviceTree::prepare_checks), or the last factorization was an error
    /// that left no memory for factors.
    #[track_caller]
    pub fn begin_check(
        &self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
    ) -> Result<(), DeviceFrontalError> {
        self.workspace
            .in_check_memory(stream, &self.tree, |plan, memory| {
                self.enqueue_check(stream, a, plan, memory)
            })
    }

    fn enqueue_check(
        &self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        plan: &CheckPlan,
        memory: &mut CheckMemory<T>,
    ) -> Result<(), DeviceError> {
        let Self { tree, panels, .. } = self;
        let n = tree.symbolic.n();
        assert_eq!(
            panels.factors.len(),
            tree.panel_entries(),
            "memory for factors"
        );
        let checked = || SymmetricCheckedBuffers {
            fronts: &tree.solve.fronts,
            front_of: &plan.front_of,
            row_idx: &tree.row_idx,
            order: &panels.order,
            factors: &panels.factors,
            diagonal: &panels.diagonal,
            tiles: &plan.tiles,
            exponents: &plan.weights,
            least_exponent: plan.least_weight,
            hermitian: (tree.form() == Form::Hermitian).into(),
        };
        let columns = plan.columns(tree, a);
        // SAFETY: the plan has rows of B and values of A, tiles of fronts, and a front for each pivot; measures are zero, and each
        // launch is behind the one whose sums it takes.
        unsafe {
            kernels::sum_up_columns::launch::<T, _>(
                stream,
                &of_groups(n),
                checked(),
                columns,
                memory.symmetric_sums(),
            )?;
            kernels::apply_pivots::launch::<T, _>(
                stream,
                &of_measures(n),
                checked(),
                memory.symmetric_sums(),
            )?;
            kernels::sum_up_rows::launch::<T, _>(
                stream,
                &of_groups(plan.tiles.len()),
                checked(),
                memory.symmetric_sums(),
            )?;
            kernels::measure_products::launch::<T, _>(
                stream,
                &of_measures(n),
                checked(),
                memory.symmetric_sums(),
            )?;
        }
        memory.found.record(stream)
    }

    /// Waits for the check that was begun last, on these factors or others in the same [`Workspace`](crate::gpu::Workspace), and tells
    /// what it measured. What it says of factors whose [report](Self::report) is an error is of no use.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    ///
    /// # Panics
    ///
    /// If none was begun.
    pub fn check(&self) -> Result<DeviceCheck, DeviceFrontalError> {
        let check = self.workspace.checked()?;
        Ok(DeviceCheck {
            quality: Quality {
                checksum: 0.0,
                min_pivot: self.quality().min_pivot,
                max_pivot: self.quality().max_pivot,
                min_pivot_ratio: 1.0,
                max_pivot_ratio: 1.0,
                ..check.quality
            },
            max_residual: 0.0,
            ..check
        })
    }
}
