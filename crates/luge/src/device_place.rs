//! Plans for the engines of a device.

use std::sync::Arc;

use luge_frontal::gpu::{DeviceFrontalLdlt, DeviceFrontalLu, DeviceScalar, WideOf};
use luge_ordering::{Ordering, SymmetricOrdering};
use luge_solve::gpu::RefineScalar;

use crate::backend::gpu::GpuBackend;
use crate::backend::{DeviceScalar as ColumnScalar, Field, Limits};
use crate::device_analysis::AnyDeviceAnalysis;
use crate::device_columns::ColumnAnalysis;
use crate::device_forest::{Forest, Numbers};
use crate::device_tree::TreeAnalysis;
use crate::error::Error;
use crate::ordered::{round_to_powers_of_two, transform_of};
use crate::stored::Rows;
use crate::symmetric::Request;
use crate::threads::Threads;

/// Seconds that the analysis of a tree takes for each entry of a matrix, likewise.
const TREE_PER_ENTRY: f64 = 20e-9;

/// What plans for a device are made of.
#[derive(Clone, Copy)]
pub(crate) struct DevicePlace<'a> {
    pub backend: &'a GpuBackend,
    pub limits: &'a Limits,
    pub threads: &'a Threads,
    pub rows: &'a Rows<'a>,
    pub single: bool,
}

impl DevicePlace<'_> {
    /// The columns on the device, with factors of the type `F`.
    pub(crate) fn columns<F: ColumnScalar>(
        self,
        ordering: Ordering,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<F::Wide>>, Error> {
        let transform = transform_of(ordering).0;
        Ok(ColumnAnalysis::<F>::analyze(
            self.rows,
            transform,
            self.backend,
            self.limits,
        )?)
    }

    /// Of a matrix of the field `W`.
    pub(crate) fn forest<W: Field>(self, mut ordering: Ordering) -> Result<Forest, Error> {
        let _span = tracing::info_span!("symbolic").entered();
        if ordering.log10_matching_product.is_some() {
            round_to_powers_of_two(&mut ordering.scaling);
        }
        let elimination = ordering.forest.take();
        let (transform, block_ptr) = transform_of(ordering);
        self.threads.run(self.work(), |threads| {
            Forest::analyze(
                self.rows,
                transform,
                block_ptr,
                elimination.as_ref(),
                Numbers::of::<W>(self.single),
                threads,
            )
        })
    }

    /// The tree on the device with factors of the type `T`, if there is memory for these.
    pub(crate) fn tree<T>(
        self,
        forest: Forest,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<WideOf<T>>>, Error>
    where
        T: DeviceScalar,
        WideOf<T>: RefineScalar,
    {
        self.backend.check_tiles(size_of::<T>())?;
        let (backend, threads) = (self.backend, self.threads);
        threads.run(
            self.work(),
            |count| -> Result<Arc<dyn AnyDeviceAnalysis<WideOf<T>>>, Error> {
                Ok(TreeAnalysis::<DeviceFrontalLu<T>>::upload(
                    forest, backend, threads, count,
                )?)
            },
        )
    }

    /// Seconds of the analysis of a tree on one thread, or of its upload, at least.
    fn work(self) -> f64 {
        self.rows.pattern.nnz() as f64 * TREE_PER_ENTRY
    }
}

/// Plans for the tree of a symmetric matrix that is so ordered, with factors of the type `T`, if there is memory for these.
pub(crate) fn symmetric_tree<T>(
    request: &Request<'_>,
    ordering: &mut SymmetricOrdering,
    backend: &GpuBackend,
) -> Result<Arc<dyn AnyDeviceAnalysis<WideOf<T>>>, Error>
where
    T: DeviceScalar,
    WideOf<T>: RefineScalar,
{
    backend.check_tiles(size_of::<T>())?;
    let forest = request.forest::<WideOf<T>>(ordering)?;
    let threads = request.threads;
    let upload = |count| -> Result<Arc<dyn AnyDeviceAnalysis<WideOf<T>>>, Error> {
        Ok(TreeAnalysis::<DeviceFrontalLdlt<T>>::upload(
            forest, backend, threads, count,
        )?)
    };
    threads.run(request.seconds(), upload)
}
