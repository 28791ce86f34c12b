//! What plans factorizations of matrices over one field: code above is generic over the scalar of A, and engines are for
//! concrete types.
//!
//! [`planner`] has the one for a field. [`Planner::check`] refuses what a field has no engine for, with the option that asks
//! for it.

use std::sync::Arc;

use luge_frontal::FrontalScalar;
use luge_numeric::cpu::blocks::Split;
use luge_ordering::{Ordering, SymmetricOrdering};
use luge_sparse::{FieldChoice, Reservation, Scalar};
use num_complex::Complex;

use crate::backend::Field;
#[cfg(feature = "gpu")]
use crate::backend::gpu::GpuBackend;
#[cfg(feature = "gpu")]
use crate::device_analysis::AnyDeviceAnalysis;
#[cfg(feature = "gpu")]
use crate::device_forest::Forest;
#[cfg(feature = "gpu")]
use crate::device_place::{DevicePlace, symmetric_tree};
use crate::engine::Transform;
use crate::error::Error;
use crate::host::{AnyHost, HostAnalysis, HostPlace, KnownBlocks};
use crate::options::{MatrixKind, Options};
use crate::ordered::{round_to_powers_of_two, transform_of};
use crate::symmetric::{Planned, Request};

/// Plans for matrices whose [wide](Scalar::Wide) type is `W`.
pub(crate) trait Planner<W>: Sync {
    /// Refuses options that there is no engine for.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for signs of pivots that have none.
    fn check(&self, options: &Options) -> Result<(), Error>;

    /// Plans LU of a general matrix on the CPU, for what `memory` is reserved with the ordering.
    fn blocks(
        &self,
        place: HostPlace<'_>,
        ordering: (Ordering, Reservation),
    ) -> Result<Arc<dyn AnyHost<W>>, Error>;

    /// Plans LU of a general matrix on the CPU as it was planned before, for what `memory` is reserved with the transform.
    ///
    /// # Errors
    ///
    /// [`Error::Saved`] if the matrix has other blocks.
    fn blocks_again(
        &self,
        place: HostPlace<'_>,
        transform: Transform,
        split: &Split,
        memory: Reservation,
    ) -> Result<Arc<dyn AnyHost<W>>, Error>;

    /// Plans the factorization of a symmetric matrix on the CPU.
    fn symmetric(
        &self,
        request: &Request<'_>,
        ordering: (SymmetricOrdering, Reservation),
    ) -> Result<Planned<W>, Error>;

    /// Plans the columns of a device.
    #[cfg(feature = "gpu")]
    fn columns(
        &self,
        place: DevicePlace<'_>,
        ordering: Ordering,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<W>>, Error>;

    /// Plans the tree of a device, for a general matrix.
    #[cfg(feature = "gpu")]
    fn tree(
        &self,
        place: DevicePlace<'_>,
        forest: Forest,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<W>>, Error>;

    /// Plans the tree of a device, for a symmetric matrix.
    #[cfg(feature = "gpu")]
    fn symmetric_tree(
        &self,
        request: &Request<'_>,
        ordering: &mut SymmetricOrdering,
        backend: &GpuBackend,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<W>>, Error>;
}

/// The planner of a field.
pub(crate) fn planner<W: Field>() -> &'static dyn Planner<W> {
    W::by_field(Planners)
}

struct Planners;

impl FieldChoice for Planners {
    type Output<W: Scalar> = &'static dyn Planner<W>;

    fn real(self) -> &'static dyn Planner<f64> {
        &Real
    }

    fn complex(self) -> &'static dyn Planner<Complex<f64>> {
        &OverComplex
    }
}

/// LU of the diagonal blocks, in factors of the type `W` or `S`.
fn blocks_in<W, S>(
    place: HostPlace<'_>,
    (mut ordering, memory): (Ordering, Reservation),
) -> Result<Arc<dyn AnyHost<W>>, Error>
where
    W: FrontalScalar + Scalar<Wide = W>,
    S: FrontalScalar + Scalar<Wide = W>,
{
    let _span = tracing::info_span!("symbolic").entered();
    let blocks = std::mem::take(&mut ordering.blocks);
    let forests = std::mem::take(&mut ordering.block_forests);
    let columns: usize = forests.iter().map(|(_, forest)| forest.parent.len()).sum();
    let _of_forests = place.limits.reserve(8 * columns as u64, "symbolic")?;
    let known = KnownBlocks {
        reports: &blocks,
        forests: &forests,
    };
    if ordering.log10_matching_product.is_some() {
        round_to_powers_of_two(&mut ordering.scaling);
    }
    let (transform, block_ptr) = transform_of(ordering);
    Ok(if place.single {
        HostAnalysis::<S>::analyze(place, transform, &block_ptr, known, memory)?
    } else {
        HostAnalysis::<W>::analyze(place, transform, &block_ptr, known, memory)?
    })
}

/// Likewise, as it was planned before.
fn blocks_again_in<W, S>(
    place: HostPlace<'_>,
    transform: Transform,
    split: &Split,
    memory: Reservation,
) -> Result<Arc<dyn AnyHost<W>>, Error>
where
    W: FrontalScalar + Scalar<Wide = W>,
    S: FrontalScalar + Scalar<Wide = W>,
{
    Ok(if place.single {
        HostAnalysis::<S>::analyze_again(place, transform, split, memory)?
    } else {
        HostAnalysis::<W>::analyze_again(place, transform, split, memory)?
    })
}

struct Real;

impl Planner<f64> for Real {
    fn check(&self, _options: &Options) -> Result<(), Error> {
        Ok(())
    }

    fn blocks(
        &self,
        place: HostPlace<'_>,
        ordering: (Ordering, Reservation),
    ) -> Result<Arc<dyn AnyHost<f64>>, Error> {
        blocks_in::<f64, f32>(place, ordering)
    }

    fn blocks_again(
        &self,
        place: HostPlace<'_>,
        transform: Transform,
        split: &Split,
        memory: Reservation,
    ) -> Result<Arc<dyn AnyHost<f64>>, Error> {
        blocks_again_in::<f64, f32>(place, transform, split, memory)
    }

    fn symmetric(
        &self,
        request: &Request<'_>,
        ordering: (SymmetricOrdering, Reservation),
    ) -> Result<Planned<f64>, Error> {
        request.plan::<f64, f32>(ordering)
    }

    #[cfg(feature = "gpu")]
    fn columns(
        &self,
        place: DevicePlace<'_>,
        ordering: Ordering,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<f64>>, Error> {
        if place.single {
            place.columns::<f32>(ordering)
        } else {
            place.columns::<f64>(ordering)
        }
    }

    #[cfg(feature = "gpu")]
    fn tree(
        &self,
        place: DevicePlace<'_>,
        forest: Forest,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<f64>>, Error> {
        if place.single {
            place.tree::<f32>(forest)
        } else {
            place.tree::<f64>(forest)
        }
    }

    #[cfg(feature = "gpu")]
    fn symmetric_tree(
        &self,
        request: &Request<'_>,
        ordering: &mut SymmetricOrdering,
        backend: &GpuBackend,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<f64>>, Error> {
        if request.single {
            symmetric_tree::<f32>(request, ordering, backend)
        } else {
            symmetric_tree::<f64>(request, ordering, backend)
        }
    }
}

struct OverComplex;

impl Planner<Complex<f64>> for OverComplex {
    fn check(&self, options: &Options) -> Result<(), Error> {
        if options.regularization.is_some() && options.kind == MatrixKind::Symmetric {
            return Err(Error::InvalidOption {
                field: "kind",
                value: format!("{:?}", options.kind),
                range: "Hermitian with a regularization of a complex matrix",
            });
        }
        Ok(())
    }

    fn blocks(
        &self,
        place: HostPlace<'_>,
        ordering: (Ordering, Reservation),
    ) -> Result<Arc<dyn AnyHost<Complex<f64>>>, Error> {
        blocks_in::<Complex<f64>, Complex<f32>>(place, ordering)
    }

    fn blocks_again(
        &self,
        place: HostPlace<'_>,
        transform: Transform,
        split: &Split,
        memory: Reservation,
    ) -> Result<Arc<dyn AnyHost<Complex<f64>>>, Error> {
        blocks_again_in::<Complex<f64>, Complex<f32>>(place, transform, split, memory)
    }

    fn symmetric(
        &self,
        request: &Request<'_>,
        ordering: (SymmetricOrdering, Reservation),
    ) -> Result<Planned<Complex<f64>>, Error> {
        request.plan::<Complex<f64>, Complex<f32>>(ordering)
    }

    #[cfg(feature = "gpu")]
    fn columns(
        &self,
        place: DevicePlace<'_>,
        ordering: Ordering,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<Complex<f64>>>, Error> {
        if place.single {
            place.columns::<Complex<f32>>(ordering)
        } else {
            place.columns::<Complex<f64>>(ordering)
        }
    }

    #[cfg(feature = "gpu")]
    fn tree(
        &self,
        place: DevicePlace<'_>,
        forest: Forest,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<Complex<f64>>>, Error> {
        if place.single {
            place.tree::<Complex<f32>>(forest)
        } else {
            place.tree::<Complex<f64>>(forest)
        }
    }

    #[cfg(feature = "gpu")]
    fn symmetric_tree(
        &self,
        request: &Request<'_>,
        ordering: &mut SymmetricOrdering,
        backend: &GpuBackend,
    ) -> Result<Arc<dyn AnyDeviceAnalysis<Complex<f64>>>, Error> {
        if request.single {
            symmetric_tree::<Complex<f32>>(request, ordering, backend)
        } else {
            symmetric_tree::<Complex<f64>>(request, ordering, backend)
        }
    }
}
