//! What engines of the tree work in beside their factors: patterns for residuals, and a system with a known solution.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use luge_device::{Buffer, Slice, SliceMut, Stream};
use luge_frontal::gpu::{DeviceScalar, Workspace};
use luge_solve::gpu::{
    self as solve_gpu, Across, DeviceMatrix, DevicePattern, Measures, Mirror, RefineScalar,
    Residuals,
};
use luge_sparse::Scalar;

use crate::device_analysis::IdleSearches;
use crate::error::Error;
use crate::shared::Shared;
use crate::symmetry::Symmetry;

/// Numbers on the device of a row of a system with a known solution: right-hand side, solution, residual.
pub(crate) const KNOWN_PER_ROW: usize = 3;

/// A's pattern for products with A and with Aᵀ, and where the counterparts of its entries are, on the device once somebody needs it.
#[derive(Default)]
pub(crate) struct Patterns {
    of: Mutex<[Option<Arc<DevicePattern>>; 2]>,
    mirror: Mutex<Option<Arc<Mirror>>>,
}

/// What engines on one stream work in, one after another.
pub(crate) struct Scratch<T: DeviceScalar, W: RefineScalar> {
    pub space: Arc<Workspace<T>>,
    pub known: Mutex<Option<Known<W>>>,
    pub across: Mutex<Option<Across>>,
    pub idle: IdleSearches,
}

/// A system whose solution is known, and what comes of solving it.
pub(crate) struct Known<W: RefineScalar> {
    pub x: Buffer<W>,
    pub b: Buffer<W>,
    residual: Buffer<W>,
    residuals: Residuals<W>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Patterns {
    /// The pattern of A, or of Aᵀ, for products with values of the type `W`.
    pub(crate) fn get<W: Scalar>(
        &self,
        stream: &Stream,
        shared: &Shared,
        transpose: bool,
    ) -> Result<Arc<DevicePattern>, Error> {
        // A triangle was completed to a matrix that is its own transpose, or the conjugate of that.
        let symmetry = shared.symmetry.as_deref();
        let source = symmetry.and_then(Symmetry::source);
        let conjugates = symmetry.is_some_and(|known| known.form.conjugates::<W>());
        let transpose = transpose && (source.is_none() || conjugates);
        let slot = &mut lock(&self.of)[usize::from(transpose)];
        if let Some(pattern) = slot {
            return Ok(Arc::clone(pattern));
        }
        // Copies from the host are done when they return, so other streams see them.
        let (rows, by_rows) = (&shared.pattern, !shared.by_columns);
        let num_values = shared.stored_nnz();
        let pattern = match (source, symmetry) {
            (Some(source), Some(symmetry)) if conjugates => {
                // Aᵀ is the conjugate of A.
                let mut are = vec![transpose; source.len()];
                let whole = (&**rows, shared.by_columns);
                symmetry.visit_conjugated::<W>(whole, |p| are[p] = !transpose);
                DevicePattern::upload_conjugated(stream, rows, (source, &are), num_values)?
            }
            (Some(source), _) => DevicePattern::upload_mapped(stream, rows, source, num_values)?,
            (None, _) => DevicePattern::upload(stream, rows, by_rows, transpose)?,
        };
        Ok(Arc::clone(slot.insert(Arc::new(pattern))))
    }

    /// The counterparts of a symmetric A's entries across the diagonal, if they are stored.
    pub(crate) fn mirror<W: Scalar>(
        &self,
        stream: &Stream,
        symmetry: &Symmetry,
    ) -> Result<Option<Arc<Mirror>>, Error> {
        let Some(places) = symmetry.mirror() else {
            return Ok(None);
        };
        let slot = &mut *lock(&self.mirror);
        if let Some(mirror) = slot {
            return Ok(Some(Arc::clone(mirror)));
        }
        let mirror = Mirror::upload(stream, places, symmetry.form.conjugates::<W>());
        let mirror = mirror.map_err(|e| Error::from_device(e, "numeric"))?;
        Ok(Some(Arc::clone(slot.insert(Arc::new(mirror)))))
    }
}

impl<T: DeviceScalar, W: RefineScalar> Scratch<T, W> {
    pub(crate) fn new(space: Workspace<T>) -> Self {
        Self {
            space: Arc::new(space),
            known: Mutex::default(),
            across: Mutex::default(),
            idle: IdleSearches::default(),
        }
    }
}

impl<W: RefineScalar> Known<W> {
    fn new(stream: &Stream, pattern: &DevicePattern) -> Result<Self, Error> {
        let in_probe = |e| Error::from_device(e, "numeric");
        let alloc = || stream.alloc(pattern.n()).map_err(in_probe);
        Ok(Self {
            x: alloc()?,
            b: alloc()?,
            residual: alloc()?,
            residuals: Residuals::new(stream, pattern, 1)?,
        })
    }

    /// Makes a right-hand side of the known solution, solves and measures. Nothing is waited for.
    pub(crate) fn enqueue(
        &mut self,
        stream: &Stream,
        a: DeviceMatrix<'_, W>,
        solve: impl FnOnce(&mut Buffer<W>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let in_probe = |e| Error::from_device(e, "solve");
        let Self {
            x,
            b,
            residual,
            residuals,
        } = self;
        solve_gpu::set_known_solution(stream, x)?;
        // 0 − A·x is the right-hand side of −x.
        stream.fill_zero(residual).map_err(in_probe)?;
        residuals.enqueue(stream, a, x, residual, b)?;
        stream.copy(x, b).map_err(in_probe)?;
        solve(x)?;
        residuals.enqueue(stream, a, x, b, residual)?;
        Ok(())
    }

    /// Waits for what was measured last.
    pub(crate) fn measures(&self) -> Result<Measures, Error> {
        Ok(self.residuals.measures()?[0])
    }
}

/// Numbers of which these are the components.
pub(crate) fn numbers_of<W: RefineScalar>(components: &Buffer<f64>) -> Slice<'_, W> {
    components.slice(..).into_elements()
}

/// Likewise, for writing.
pub(crate) fn numbers_mut<W: RefineScalar>(components: &mut Buffer<f64>) -> SliceMut<'_, W> {
    components.slice_mut(..).into_elements()
}

/// What is there, or a new one.
pub(crate) fn known<'a, W: RefineScalar>(
    slot: &'a mut Option<Known<W>>,
    stream: &Stream,
    pattern: &DevicePattern,
) -> Result<&'a mut Known<W>, Error> {
    Ok(match slot {
        Some(known) => known,
        None => slot.insert(Known::new(stream, pattern)?),
    })
}

/// What is there, or a new one.
pub(crate) fn across<'a>(
    slot: &'a mut Option<Across>,
    stream: &Stream,
) -> Result<&'a mut Across, Error> {
    Ok(match slot {
        Some(across) => across,
        None => slot.insert(Across::new(stream)?),
    })
}
