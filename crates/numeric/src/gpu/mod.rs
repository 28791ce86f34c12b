//! Static factorization on the device: hybrid right-looking LU by levels (GLU).
//!
//! Every factorization is four launches: clear, scatter B, eliminate all levels, divide L. The host
//! waits once, for the report on the pivots. Updates within a level are added atomically, so the
//! factors may differ in the last bits from run to run.
//!
//! Cost: the flops of the filled pattern, a binary search in a column for each update, one grid
//! barrier a level; 8 bytes for each entry of B and one value for each entry of L+U.

use luge_device::{Buffer, Stream};
use luge_gpu_kernels::numeric::{self as kernels, counter, extreme};
use luge_kernel::math::Real;
use luge_levelize::gpu::DeviceLevels;
use luge_sparse::{CancelFlag, CompressedPattern, Scalar};
use luge_symbolic::gpu::{DeviceFilled, Geometry, primitives};

use crate::error::NumericError;
use crate::pivots::{PivotReport, TinyPivots};

/// A type that the device factorizes in: `f32` or `f64`.
pub trait DeviceScalar:
    Scalar
    + Real
    + kernels::scatter_values::Instance
    + kernels::lu_levels::Instance
    + kernels::lu_finish::Instance
{
}
impl DeviceScalar for f32 {}
impl DeviceScalar for f64 {}

/// Place of each entry of B among the values of L+U.
///
/// # Errors
///
/// [`NumericError::Device`].
///
/// # Panics
///
/// If the dimensions differ, or an entry of B is not in the filled pattern.
#[track_caller]
pub fn positions(
    stream: &Stream,
    filled: &DeviceFilled,
    rows: &CompressedPattern,
) -> Result<Buffer<u64>, NumericError> {
    assert_eq!(
        (rows.major_dim(), rows.minor_dim()),
        (filled.n(), filled.n()),
        "matrix and filled pattern differ in size"
    );
    let b_ptr = stream.upload(rows.ptr())?;
    let b_idx = stream.upload(rows.idx())?;
    // SAFETY: both patterns are valid and of one size, the columns of L+U are sorted.
    let map = unsafe {
        primitives::map_entries(stream, &b_ptr, &b_idx, filled.col_ptr(), filled.row_idx())?
    };
    let missing = stream.download(&map)?.iter().position(|&p| p == u64::MAX);
    if let Some(p) = missing {
        let row = rows.ptr().partition_point(|&start| start <= p as u64) - 1;
        panic!(
            "entry ({row}, {}) is not in the filled pattern",
            rows.idx()[p]
        );
    }
    Ok(map)
}

/// The factors of one B on the device: U on and above the diagonal, L below it, by columns of the
/// filled pattern.
#[derive(Debug)]
pub struct DeviceFactors<T: DeviceScalar> {
    values: Buffer<T>,
    pivots: PivotReport,
}

impl<T: DeviceScalar> DeviceFactors<T> {
    /// One value for each entry of the columns of the filled pattern.
    pub fn values(&self) -> &Buffer<T> {
        &self.values
    }

    /// What happened to the pivots.
    pub fn pivots(&self) -> &PivotReport {
        &self.pivots
    }

    /// The diagonal of U, on the host.
    ///
    /// # Errors
    ///
    /// [`NumericError::Device`].
    pub fn diagonal(&self, stream: &Stream, filled: &DeviceFilled) -> Result<Vec<T>, NumericError> {
        let by_rows = stream.download(filled.diag_pos())?;
        let by_columns = stream.download(filled.csr_to_csc())?;
        let values = stream.download(&self.values)?;
        Ok(by_rows
            .into_iter()
            .map(|p| values[by_columns[p as usize] as usize])
            .collect())
    }
}

/// Factorizes B statically. `positions[p]` is the place of `b[p]`, as [`positions`] gives it.
///
/// # Errors
///
/// [`NumericError::ZeroPivot`] and [`NumericError::NotFinite`] with the smallest column concerned;
/// [`NumericError::Device`]; [`NumericError::Cancelled`] if the flag is raised before the launch.
///
/// # Panics
///
/// If the arguments do not fit each other.
#[track_caller]
pub fn factorize<T: DeviceScalar>(
    stream: &Stream,
    filled: &DeviceFilled,
    levels: &DeviceLevels,
    positions: &Buffer<u64>,
    b: &[T],
    tiny_pivots: TinyPivots,
    cancel: &CancelFlag,
) -> Result<DeviceFactors<T>, NumericError> {
    let values = stream.alloc(filled.nnz())?;
    factorize_into(
        stream,
        filled,
        levels,
        positions,
        b,
        tiny_pivots,
        cancel,
        values,
    )
}

/// As [`factorize`], in the memory of `previous`.
///
/// # Errors
///
/// As [`factorize`].
///
/// # Panics
///
/// As [`factorize`].
#[track_caller]
#[allow(clippy::too_many_arguments)]
pub fn refactorize<T: DeviceScalar>(
    stream: &Stream,
    filled: &DeviceFilled,
    levels: &DeviceLevels,
    positions: &Buffer<u64>,
    b: &[T],
    tiny_pivots: TinyPivots,
    cancel: &CancelFlag,
    previous: DeviceFactors<T>,
) -> Result<DeviceFactors<T>, NumericError> {
    factorize_into(
        stream,
        filled,
        levels,
        positions,
        b,
        tiny_pivots,
        cancel,
        previous.values,
    )
}

#[track_caller]
#[allow(clippy::too_many_arguments)]
fn factorize_into<T: DeviceScalar>(
    stream: &Stream,
    filled: &DeviceFilled,
    levels: &DeviceLevels,
    positions: &Buffer<u64>,
    b: &[T],
    tiny_pivots: TinyPivots,
    cancel: &CancelFlag,
    mut values: Buffer<T>,
) -> Result<DeviceFactors<T>, NumericError> {
    let n = filled.n();
    assert_eq!(levels.n(), n, "levels and filled pattern differ in size");
    assert_eq!(positions.len(), b.len(), "one position for each value of B");
    assert_eq!(
        values.len(),
        filled.nnz(),
        "one value for each entry of L+U"
    );
    let span = tracing::debug_span!("factorize_levels", n, entries = filled.nnz());
    let _entered = span.enter();
    cancel.check()?;
    // A comparison with NaN is false, so NaN stays out of the maximum and shows up in the factors.
    let max_b = b
        .iter()
        .fold(0.0, |max, &v| f64::max(max, Scalar::to_f64(v).abs()));
    if n == 0 {
        return Ok(DeviceFactors {
            values,
            pivots: pivot_report(&counters_at_start(), &extremes_at_start(), max_b),
        });
    }
    let smallest: T = match tiny_pivots {
        TinyPivots::Perturb { threshold } => Scalar::from_f64(threshold * max_b),
        TinyPivots::Keep => T::ZERO,
    };
    let device = stream.device();
    let geometry = Geometry::of(&device);
    let b_values = stream.upload(b)?;
    stream.fill_zero(&mut values)?;
    // SAFETY: the positions are distinct, and the other values are zero.
    unsafe {
        kernels::scatter_values::launch::<T, _>(
            stream,
            &geometry.threads_for(b.len()),
            positions,
            &b_values,
            &mut values,
        )?;
    }
    let mut barrier = primitives::grid_barrier(stream)?;
    // Columns share their updates among warps, so a device full of warps is of use at any n.
    let entries = filled.nnz().div_ceil(32);
    let config = geometry.persistent(&device, kernels::lu_levels::desc::<T>(), entries)?;
    // SAFETY: patterns and levels belong to each other; the barrier is zero; the launch is
    // cooperative.
    unsafe {
        kernels::lu_levels::launch::<T, _>(
            stream,
            &config,
            levels.num_levels(),
            smallest,
            levels.level_ptr(),
            levels.level_cols(),
            filled.row_ptr(),
            filled.diag_pos(),
            filled.col_idx(),
            filled.csr_to_csc(),
            filled.col_ptr(),
            filled.row_idx(),
            &mut values,
            &mut barrier,
        )?;
    }
    let mut counters = stream.upload(&counters_at_start())?;
    let mut extremes = stream.upload(&extremes_at_start())?;
    // SAFETY: the patterns belong to the values; counters and extremes are at their start.
    unsafe {
        kernels::lu_finish::launch::<T, _>(
            stream,
            &geometry.warps_for(n),
            smallest,
            filled.diag_pos(),
            filled.csr_to_csc(),
            filled.col_ptr(),
            &mut values,
            &mut counters,
            &mut extremes,
        )?;
    }
    let counters = stream.download(&counters)?;
    let extremes = stream.download(&extremes)?;
    let zero = counters[counter::FIRST_ZERO];
    let not_finite = counters[counter::FIRST_NOT_FINITE];
    // What comes after a bad column is bad too, so the smaller of the two is the first offender. A
    // zero pivot makes its own L infinite: that column is reported as singular.
    if zero != u32::MAX && zero <= not_finite {
        return Err(NumericError::ZeroPivot {
            column: zero as usize,
        });
    }
    if not_finite != u32::MAX {
        return Err(NumericError::NotFinite {
            column: not_finite as usize,
        });
    }
    Ok(DeviceFactors {
        values,
        pivots: pivot_report(&counters, &extremes, max_b),
    })
}

fn counters_at_start() -> [u32; counter::LEN] {
    let mut counters = [u32::MAX; counter::LEN];
    counters[counter::NUM_PERTURBED] = 0;
    counters
}

fn extremes_at_start() -> [u64; extreme::LEN] {
    let mut extremes = [0; extreme::LEN];
    extremes[extreme::MIN_PIVOT] = f64::INFINITY.to_bits();
    extremes
}

fn pivot_report(counters: &[u32], extremes: &[u64], max_b: f64) -> PivotReport {
    let extreme = |which: usize| f64::from_bits(extremes[which]);
    let first = counters[counter::FIRST_PERTURBED];
    PivotReport {
        num_perturbed: counters[counter::NUM_PERTURBED] as usize,
        first_perturbed: (first != u32::MAX).then_some(first as usize),
        growth: if max_b > 0.0 {
            extreme(extreme::MAX_U) / max_b
        } else {
            1.0
        },
        min_pivot: extreme(extreme::MIN_PIVOT),
        max_pivot: extreme(extreme::MAX_PIVOT),
    }
}
