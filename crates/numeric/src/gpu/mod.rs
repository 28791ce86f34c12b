//! Static factorization on the device: hybrid right-looking LU by levels (GLU).
//!
//! A [`ColumnPlan`] is made once for a pattern. Every factorization is four launches then, whatever the number of
//! levels: clear, scatter B, eliminate all levels, divide L. The host waits twice: until B's values are copied, and for the
//! report on the pivots.
//!
//! | choice | options |
//! |---|---|
//! | who works on what | [`ColumnMode`], by default for each level after its columns, sub-columns and rows |
//! | how entries are found | [`ElementAccess`]: by search in sorted columns, or in dense columns as far as memory reaches |
//! | in which order updates are added | atomically, so that factors may differ in the last bits from run to run; or [`deterministic`](ColumnOptions::deterministic) |
//!
//! Cost: the flops of the filled pattern, for each update a search in a column or a look at a dense one, one grid
//! barrier a level; 8 bytes for each entry of B, one value for each entry of B and of L+U, n values for each dense
//! column.

mod mapping;
mod monitor;
mod order;
mod plan;

use luge_device::{Buffer, DeviceError, KernelDesc, Stream};
use luge_gpu_kernels::numeric::levels::lu_levels;
use luge_gpu_kernels::numeric::ordered::lu_levels_ordered;
use luge_gpu_kernels::numeric::{self as kernels, EliminationBuffers};
use luge_kernel::math::{Complex, Field, Real};
use luge_levelize::gpu::DeviceLevels;
use luge_sparse::{CancelFlag, CompressedPattern, PivotPolicy, RealScalar, Scalar};
use luge_symbolic::gpu::{DeviceFilled, Geometry, primitives};

use self::monitor::{Counted, Monitor};
pub use plan::{ColumnMode, ColumnOptions, ColumnPlan, ColumnReport, ElementAccess};

use crate::error::NumericError;
use crate::pivots::PivotReport;

/// A type that the device factorizes in: `f32`, `f64` or complex numbers of these.
pub trait DeviceScalar:
    Scalar<Real = <Self as DeviceScalar>::Magnitude>
    + Field<Real = <Self as DeviceScalar>::Magnitude>
    + kernels::scatter_values::Instance
    + lu_levels::Instance
    + lu_levels_ordered::Instance
    + kernels::lu_finish::Instance
{
    /// The type of magnitudes.
    type Magnitude: RealScalar + Real;
}

impl DeviceScalar for f32 {
    type Magnitude = f32;
}

impl DeviceScalar for f64 {
    type Magnitude = f64;
}

impl DeviceScalar for Complex<f32> {
    type Magnitude = f32;
}

impl DeviceScalar for Complex<f64> {
    type Magnitude = f64;
}

/// The type of magnitudes.
type RealOf<T> = <T as DeviceScalar>::Magnitude;

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

/// The kernels of a plan and of factorizations with updates in any order, for
/// [`Device::load_kernels`](luge_device::Device::load_kernels).
pub fn kernels<T: DeviceScalar>() -> [&'static KernelDesc; 4] {
    [
        kernels::mapping::level_shapes::desc(),
        kernels::scatter_values::desc::<T>(),
        lu_levels::desc::<T>(),
        kernels::lu_finish::desc::<T>(),
    ]
}

/// A pattern with its levels and its plan.
#[derive(Debug)]
pub struct Columns<'a, T: DeviceScalar> {
    /// Pattern of L+U.
    pub filled: &'a DeviceFilled,
    /// Its levels.
    pub levels: &'a DeviceLevels,
    /// The plan made of both.
    pub plan: &'a ColumnPlan<T>,
}

impl<T: DeviceScalar> Clone for Columns<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: DeviceScalar> Copy for Columns<'_, T> {}

/// The factors of one B on the device: U on and above the diagonal, L below it, by columns of the
/// filled pattern.
///
/// They keep what a factorization needs, so that [`refactorize`] allocates nothing.
#[derive(Debug)]
pub struct DeviceFactors<T: DeviceScalar> {
    values: Buffer<T>,
    /// Values of B.
    b: Buffer<T>,
    /// Dense columns, all zero between factorizations.
    dense: Buffer<T>,
    monitor: Monitor,
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

/// Factorizes B statically; `b` are its values, in the order of the pattern that the plan was made of.
///
/// # Errors
///
/// [`NumericError::ZeroPivot`] and [`NumericError::NotFinite`] with the smallest column concerned;
/// [`NumericError::Device`], with [`DeviceError::OutOfMemory`] before anything is allocated if the factors do not fit;
/// [`NumericError::Cancelled`] if the flag is raised before the launch.
///
/// # Panics
///
/// If the arguments do not fit each other, or the policy is refused by [`PivotPolicy::check`] or not static.
#[track_caller]
pub fn factorize<T: DeviceScalar>(
    stream: &Stream,
    columns: Columns<'_, T>,
    b: &[T],
    pivots: PivotPolicy,
    cancel: &CancelFlag,
) -> Result<DeviceFactors<T>, NumericError> {
    check(columns, b);
    cancel.check()?;
    let report = columns.plan.report();
    let (asked, available) = (report.factor_bytes, stream.device().available_bytes()?);
    if asked > available {
        return Err(DeviceError::OutOfMemory { asked, available }.into());
    }
    let mut factors = DeviceFactors {
        values: stream.alloc(columns.filled.nnz())?,
        b: stream.alloc(b.len())?,
        dense: stream.alloc_zeroed(report.dense_columns * columns.plan.n)?,
        monitor: Monitor::new(stream)?,
        pivots: Counted::START.report(0.0)?,
    };
    refactorize(stream, columns, b, pivots, cancel, &mut factors)?;
    Ok(factors)
}

/// As [`factorize`], in the memory of factors of the same plan, which become those of the new values. Nothing is
/// allocated.
///
/// # Errors
///
/// As [`factorize`], but for a lack of memory. `factors` are of no use then until a refactorization succeeds, except
/// after [`NumericError::Cancelled`], which leaves them as they were.
///
/// # Panics
///
/// As [`factorize`].
#[track_caller]
pub fn refactorize<T: DeviceScalar>(
    stream: &Stream,
    columns: Columns<'_, T>,
    b: &[T],
    pivots: PivotPolicy,
    cancel: &CancelFlag,
    factors: &mut DeviceFactors<T>,
) -> Result<(), NumericError> {
    check(columns, b);
    let Columns { filled, plan, .. } = columns;
    let n = filled.n();
    assert!(
        factors.values.len() == plan.nnz
            && factors.b.len() == b.len()
            && factors.dense.len() == plan.report().dense_columns * n,
        "factors of another plan"
    );
    let span = tracing::debug_span!("factorize_levels", n, entries = filled.nnz());
    let _entered = span.enter();
    cancel.check()?;
    // A comparison with NaN is false, so NaN stays out of the maximum and shows up in the factors.
    let max_b = b.iter().fold(0.0, |max, &v| {
        f64::max(max, RealScalar::to_f64(Scalar::magnitude(v)))
    });
    if n == 0 {
        return Ok(());
    }
    let smallest: RealOf<T> = pivots.resolve_static(|| max_b).small;
    let geometry = Geometry::of(&stream.device());
    stream.copy_from_host(&mut factors.b, b)?;
    factors.monitor.restart(stream)?;
    stream.fill_zero(&mut factors.values)?;
    // SAFETY: the positions are distinct, and the other values are zero.
    unsafe {
        kernels::scatter_values::launch::<T, _>(
            stream,
            &geometry.threads_for(b.len()),
            &plan.positions,
            &factors.b,
            &mut factors.values,
        )?;
    }
    eliminate(stream, columns, smallest, factors)?;
    let (mut counters, mut extremes) = factors.monitor.counted();
    // SAFETY: the patterns belong to the values; counters and extremes are at their start.
    unsafe {
        kernels::lu_finish::launch::<T, _>(
            stream,
            &geometry.warps_for(n),
            smallest,
            filled.buffers(),
            &mut factors.values,
            &mut counters,
            &mut extremes,
        )?;
    }
    factors.pivots = factors.monitor.read(stream)?.report(max_b)?;
    Ok(())
}

/// That pattern, levels, plan and values belong to each other, as far as lengths tell.
#[track_caller]
fn check<T: DeviceScalar>(columns: Columns<'_, T>, b: &[T]) {
    let Columns {
        filled,
        levels,
        plan,
    } = columns;
    assert_eq!(
        (filled.n(), filled.nnz()),
        (plan.n, plan.nnz),
        "the plan is for another pattern"
    );
    assert_eq!(
        (levels.n(), levels.num_levels() as usize),
        (plan.n, plan.mappings.len()),
        "the plan is for other levels"
    );
    assert_eq!(
        b.len(),
        plan.positions.len(),
        "one value for each entry of B"
    );
}

/// Launches the elimination of all levels, in the order that the plan says.
fn eliminate<T: DeviceScalar>(
    stream: &Stream,
    columns: Columns<'_, T>,
    smallest: RealOf<T>,
    factors: &mut DeviceFactors<T>,
) -> Result<(), DeviceError> {
    let Columns {
        filled,
        levels,
        plan,
    } = columns;
    let mut barrier = factors.monitor.barrier();
    let mut components = factors.values.slice_mut(..).into_elements();
    let elimination = EliminationBuffers {
        num_levels: levels.num_levels(),
        num_dense: plan.report().dense_columns as u32,
        smallest,
        mappings: &plan.mappings,
        lu: &mut components,
        dense: &mut factors.dense,
        barrier: &mut barrier,
    };
    let (config, filled) = (&plan.config, filled.buffers());
    match &plan.order {
        Some(order) => {
            let updates = order.buffers();
            // SAFETY: the order was made of this pattern and these levels, and the mappings for this grid; the barrier is
            // zero; the launch is cooperative.
            unsafe {
                lu_levels_ordered::launch::<T, _>(stream, config, elimination, updates, filled)
            }
        }
        None => {
            let levels = levels.buffers();
            // SAFETY: patterns and levels belong to each other, and the mappings were made for this grid; dense columns
            // and the barrier are zero; the launch is cooperative.
            unsafe { lu_levels::launch::<T, _>(stream, config, elimination, levels, filled) }
        }
    }
}
