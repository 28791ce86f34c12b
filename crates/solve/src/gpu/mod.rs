//! Triangular solves on the device, by levels, one launch a triangle; residuals and refinement there.
//!
//! The sum of an unknown is formed in a fixed order, so the solution depends on the factors and the
//! right-hand side alone.
//!
//! Cost: one pass over L and one over U for each right-hand side, one grid barrier a level and
//! triangle.

mod mirror;
mod refine;
mod residual;

use luge_device::{Buffer, KernelDesc, Stream};
use luge_gpu_kernels::{refine as refine_kernels, solve as kernels};
use luge_kernel::math::Complex;
use luge_levelize::gpu::DeviceLevels;
use luge_numeric::gpu::DeviceScalar;
use luge_sparse::to_u32;
use luge_symbolic::gpu::{DeviceFilled, Geometry, primitives};

use crate::error::SolveError;

pub use mirror::{Across, Mirror};
pub use refine::{Refined, refine};
pub use residual::{
    DeviceMatrix, DevicePattern, Measures, NotFinite, RefineScalar, Residuals, correct, residuals,
    set_known_solution, sum_of_magnitudes,
};

/// A type that the device solves in: `f32`, `f64` or complex numbers of these.
pub trait SolveScalar:
    DeviceScalar
    + kernels::solve_lower::Instance
    + kernels::solve_upper::Instance
    + kernels::solve_upper_transpose::Instance
    + kernels::solve_lower_transpose::Instance
{
}
impl SolveScalar for f32 {}
impl SolveScalar for f64 {}
impl SolveScalar for Complex<f32> {}
impl SolveScalar for Complex<f64> {}

/// The kernels that measure and refine solutions, for
/// [`Device::load_kernels`](luge_device::Device::load_kernels).
pub fn kernels<W: RefineScalar>() -> [&'static KernelDesc; 5] {
    [
        refine_kernels::residuals::desc::<W>(),
        refine_kernels::correct::desc::<W>(),
        refine_kernels::find_not_finite::desc::<W>(),
        refine_kernels::set_known_solution::desc::<W>(),
        refine_kernels::sum_magnitudes::desc::<W>(),
    ]
}

/// The kernels of [`DeviceLu::solve_lower`] and [`DeviceLu::solve_upper`], likewise.
pub fn triangular_kernels<T: SolveScalar>() -> [&'static KernelDesc; 2] {
    [
        kernels::solve_lower::desc::<T>(),
        kernels::solve_upper::desc::<T>(),
    ]
}

/// Factors on the device with what describes them.
#[derive(Debug, Clone, Copy)]
pub struct DeviceLu<'a, T: SolveScalar> {
    /// Pattern of L+U.
    pub filled: &'a DeviceFilled,
    /// Levels of its columns.
    pub levels: &'a DeviceLevels,
    /// Values by columns of the pattern.
    pub values: &'a Buffer<T>,
}

impl<T: SolveScalar> DeviceLu<'_, T> {
    /// Grid for one sweep over the levels with this many right-hand sides.
    fn config(
        &self,
        stream: &Stream,
        kernel: &'static KernelDesc,
        nrhs: u32,
    ) -> Result<luge_device::LaunchConfig, SolveError> {
        let device = stream.device();
        let items = self.filled.n().saturating_mul(nrhs as usize);
        Ok(Geometry::of(&device).persistent(&device, kernel, items)?)
    }

    #[track_caller]
    fn check(&self, x: &Buffer<T>, nrhs: u32) {
        let n = self.filled.n();
        assert_eq!(self.levels.n(), n, "levels and pattern differ in size");
        assert_eq!(
            self.values.len(),
            self.filled.nnz(),
            "one value for each entry of L+U"
        );
        assert_eq!(x.len(), n * nrhs as usize, "nrhs columns of length n");
    }

    /// Solves `L·Y = B` in place.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    ///
    /// # Panics
    ///
    /// If the lengths do not fit each other.
    #[track_caller]
    pub fn solve_lower(
        &self,
        stream: &Stream,
        x: &mut Buffer<T>,
        nrhs: u32,
    ) -> Result<(), SolveError> {
        self.check(x, nrhs);
        let config = self.config(stream, kernels::solve_lower::desc::<T>(), nrhs)?;
        let mut barrier = primitives::grid_barrier(stream)?;
        // SAFETY: pattern, levels and values belong to each other; the launch is cooperative.
        unsafe {
            kernels::solve_lower::launch::<T, _>(
                stream,
                &config,
                self.levels.num_levels(),
                nrhs,
                self.levels.buffers(),
                self.filled.buffers(),
                self.values,
                x,
                &mut barrier,
            )?;
        }
        Ok(())
    }

    /// Solves `U·X = Y` in place.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    ///
    /// # Panics
    ///
    /// If the lengths do not fit each other.
    #[track_caller]
    pub fn solve_upper(
        &self,
        stream: &Stream,
        x: &mut Buffer<T>,
        nrhs: u32,
    ) -> Result<(), SolveError> {
        self.check(x, nrhs);
        let config = self.config(stream, kernels::solve_upper::desc::<T>(), nrhs)?;
        let mut barrier = primitives::grid_barrier(stream)?;
        // SAFETY: pattern, levels and values belong to each other; the launch is cooperative.
        unsafe {
            kernels::solve_upper::launch::<T, _>(
                stream,
                &config,
                self.levels.num_levels(),
                nrhs,
                self.levels.buffers(),
                self.filled.buffers(),
                self.values,
                x,
                &mut barrier,
            )?;
        }
        Ok(())
    }

    /// Solves `Uᵀ·Y = B` in place.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    ///
    /// # Panics
    ///
    /// If the lengths do not fit each other.
    #[track_caller]
    pub fn solve_upper_transpose(
        &self,
        stream: &Stream,
        x: &mut Buffer<T>,
        nrhs: u32,
    ) -> Result<(), SolveError> {
        self.check(x, nrhs);
        let config = self.config(stream, kernels::solve_upper_transpose::desc::<T>(), nrhs)?;
        let mut barrier = primitives::grid_barrier(stream)?;
        // SAFETY: pattern, levels and values belong to each other; the launch is cooperative.
        unsafe {
            kernels::solve_upper_transpose::launch::<T, _>(
                stream,
                &config,
                self.levels.num_levels(),
                nrhs,
                self.levels.buffers(),
                self.filled.buffers(),
                self.values,
                x,
                &mut barrier,
            )?;
        }
        Ok(())
    }

    /// Solves `Lᵀ·X = Y` in place.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    ///
    /// # Panics
    ///
    /// If the lengths do not fit each other.
    #[track_caller]
    pub fn solve_lower_transpose(
        &self,
        stream: &Stream,
        x: &mut Buffer<T>,
        nrhs: u32,
    ) -> Result<(), SolveError> {
        self.check(x, nrhs);
        let config = self.config(stream, kernels::solve_lower_transpose::desc::<T>(), nrhs)?;
        let mut barrier = primitives::grid_barrier(stream)?;
        // SAFETY: pattern, levels and values belong to each other; the launch is cooperative.
        unsafe {
            kernels::solve_lower_transpose::launch::<T, _>(
                stream,
                &config,
                self.levels.num_levels(),
                nrhs,
                self.levels.buffers(),
                self.filled.buffers(),
                self.values,
                x,
                &mut barrier,
            )?;
        }
        Ok(())
    }
}

/// Solves `L·U·X = B` (or `(L·U)ᵀ·X = B`) in place for the `nrhs` columns of `x`, n values each.
///
/// # Errors
///
/// [`SolveError::Device`].
///
/// # Panics
///
/// If the lengths do not fit each other.
#[track_caller]
pub fn solve<T: SolveScalar>(
    stream: &Stream,
    lu: DeviceLu<'_, T>,
    x: &mut [T],
    nrhs: usize,
    transpose: bool,
) -> Result<(), SolveError> {
    assert_eq!(x.len(), lu.filled.n() * nrhs, "nrhs columns of length n");
    let span = tracing::debug_span!("solve_levels", n = lu.filled.n(), nrhs, transpose);
    let _entered = span.enter();
    if x.is_empty() {
        return Ok(());
    }
    let nrhs = to_u32(nrhs, "number of right-hand sides").unwrap_or_else(|e| panic!("{e}"));
    let mut on_device = stream.upload(x)?;
    if transpose {
        lu.solve_upper_transpose(stream, &mut on_device, nrhs)?;
        lu.solve_lower_transpose(stream, &mut on_device, nrhs)?;
    } else {
        lu.solve_lower(stream, &mut on_device, nrhs)?;
        lu.solve_upper(stream, &mut on_device, nrhs)?;
    }
    stream.copy_to_host(&on_device, x)?;
    Ok(())
}
