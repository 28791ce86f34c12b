//! Residuals and backward errors of solutions on the device, in `f64`.

use luge_device::{Buffer, Stream};
use luge_gpu_kernels::refine as kernels;
use luge_gpu_kernels::refine::measure;
use luge_sparse::CompressedPattern;
use luge_symbolic::gpu::{Geometry, primitives};

use crate::backward_error::normwise;
use crate::error::SolveError;

/// The pattern of a square matrix A on the device, for products with A and with Aᵀ.
///
/// Values stay with the caller, in the order in which A is stored.
#[derive(Debug)]
pub struct DevicePattern {
    /// As it is stored, lane by lane.
    stored: Lanes,
    /// The transpose, with the place in the stored order of each entry.
    turned: Lanes,
    n: usize,
    nnz: usize,
    by_rows: bool,
}

/// One direction.
#[derive(Debug)]
struct Lanes {
    ptr: Buffer<u64>,
    idx: Buffer<u32>,
    /// Places of the values; empty where they are in this order.
    entries: Buffer<u32>,
}

/// What a solution's residual amounts to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measures {
    /// ‖x‖∞; this and the others are NaN if an entry is.
    pub norm_x: f64,
    /// ‖b‖∞.
    pub norm_b: f64,
    /// ‖b − A·x‖∞.
    pub norm_residual: f64,
    /// ‖A‖∞.
    pub norm_a: f64,
    /// The two componentwise backward errors, see
    /// [`Residual::componentwise`](crate::backward_error::Residual::componentwise).
    pub componentwise: [f64; 2],
}

impl Measures {
    /// The normwise backward error, see [`Residual::normwise`](crate::backward_error::Residual::normwise).
    pub fn normwise(&self) -> f64 {
        normwise(self.norm_residual, self.norm_a, self.norm_x, self.norm_b)
    }
}

impl DevicePattern {
    /// Copies the pattern of a square matrix to the device: its rows, or if not `by_rows` its columns.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    ///
    /// # Panics
    ///
    /// If the matrix is not square, or has 2³² entries.
    #[track_caller]
    pub fn upload(
        stream: &Stream,
        pattern: &CompressedPattern,
        by_rows: bool,
    ) -> Result<Self, SolveError> {
        let n = pattern.major_dim();
        assert_eq!(n, pattern.minor_dim(), "a square matrix");
        let (turned, map) = pattern.transpose_with_map();
        let entries: Vec<u32> = map
            .iter()
            .map(|&p| u32::try_from(p).expect("fewer than 2³² entries"))
            .collect();
        let lanes = |pattern: &CompressedPattern, entries: &[u32]| {
            Ok::<_, SolveError>(Lanes {
                ptr: stream.upload(pattern.ptr())?,
                idx: stream.upload(pattern.idx())?,
                entries: stream.upload(entries)?,
            })
        };
        Ok(Self {
            stored: lanes(pattern, &[])?,
            turned: lanes(&turned, &entries)?,
            n,
            nnz: pattern.nnz(),
            by_rows,
        })
    }

    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of its entries.
    pub fn nnz(&self) -> usize {
        self.nnz
    }
}

/// Leaves b − A·x, or b − Aᵀ·x, in `residual`, for `nrhs` solutions one after another, and measures each. Waits for the
/// device.
///
/// # Errors
///
/// [`SolveError::Device`].
///
/// # Panics
///
/// If a length does not go with the matrix and `nrhs`.
#[track_caller]
#[allow(clippy::too_many_arguments)]
pub fn residuals(
    stream: &Stream,
    pattern: &DevicePattern,
    values: &Buffer<f64>,
    x: &Buffer<f64>,
    b: &Buffer<f64>,
    residual: &mut Buffer<f64>,
    nrhs: usize,
    transpose: bool,
) -> Result<Vec<Measures>, SolveError> {
    assert_eq!(values.len(), pattern.nnz, "one value for each entry of A");
    assert_eq!(x.len(), pattern.n * nrhs, "nrhs solutions of length n");
    assert_eq!(b.len(), x.len(), "a right-hand side for each solution");
    assert_eq!(residual.len(), x.len(), "a residual for each solution");
    if nrhs == 0 {
        return Ok(Vec::new());
    }
    let lanes = if pattern.by_rows == transpose {
        &pattern.turned
    } else {
        &pattern.stored
    };
    let mut measures = stream.alloc_zeroed::<u64>(nrhs * measure::LEN)?;
    let mut barrier = primitives::grid_barrier(stream)?;
    let device = stream.device();
    let kernel = kernels::residuals::desc();
    let config = Geometry::of(&device).persistent_threads(&device, kernel, pattern.n)?;
    // SAFETY: a CompressedPattern of a square matrix; measures and barrier are zero; the launch is cooperative.
    unsafe {
        kernels::residuals::launch(
            stream,
            &config,
            nrhs as u32,
            &lanes.ptr,
            &lanes.idx,
            &lanes.entries,
            values,
            x,
            b,
            residual,
            &mut measures,
            &mut barrier,
        )?;
    }
    let bits = stream.download(&measures)?;
    let of = |words: &[u64]| {
        let number = |which: usize| f64::from_bits(words[which]);
        Measures {
            norm_x: number(measure::X),
            norm_b: number(measure::B),
            norm_residual: number(measure::RESIDUAL),
            norm_a: number(measure::A),
            componentwise: [number(measure::LARGE_ROWS), number(measure::SMALL_ROWS)],
        }
    };
    Ok(bits.chunks_exact(measure::LEN).map(of).collect())
}

/// x := x + `correction`, on the device.
///
/// # Errors
///
/// [`SolveError::Device`].
///
/// # Panics
///
/// If the lengths differ.
#[track_caller]
pub fn correct(
    stream: &Stream,
    correction: &Buffer<f64>,
    x: &mut Buffer<f64>,
) -> Result<(), SolveError> {
    assert_eq!(correction.len(), x.len(), "a correction for each unknown");
    if x.is_empty() {
        return Ok(());
    }
    let config = Geometry::of(&stream.device()).threads_for(x.len());
    // SAFETY: nothing beyond the lengths, which the launcher checks.
    unsafe { kernels::correct::launch(stream, &config, correction, x)? };
    Ok(())
}
