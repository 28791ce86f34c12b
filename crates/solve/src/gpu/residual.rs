//! Residuals and backward errors of solutions on the device, in `f64` or its complex numbers.

use std::marker::PhantomData;

use luge_device::{
    Buffer, BufferView, BufferViewMut, LaunchConfig, Maxima, RecordBuffer, Stream, Uploads,
};
use luge_gpu_kernels::refine::{
    self as kernels, CONJUGATED, LongRowsBuffers, MeasuredBuffers, RowsBuffers, Segment, measure,
};
use luge_kernel::math::{Complex, Field};
use luge_sparse::{CompressedPattern, Scalar};
use luge_symbolic::gpu::{Geometry, primitives};

use crate::backward_error::{is_safe, normwise};
use crate::error::SolveError;

/// Numbers from which on a thread looks at several.
const MANY_NUMBERS: usize = 1 << 17;

/// The numbers that residuals are computed in: `f64` or `Complex<f64>`.
pub trait RefineScalar:
    Scalar<Real = f64, Wide = Self>
    + Field<Real = f64, Wide = Self>
    + kernels::residuals::Instance
    + kernels::correct::Instance
    + kernels::find_not_finite::Instance
    + kernels::compare_across::Instance
    + kernels::sum_magnitudes::Instance
    + kernels::set_known_solution::Instance
{
}
impl RefineScalar for f64 {}
impl RefineScalar for Complex<f64> {}

/// The pattern of a square matrix A on the device, for products with A or with Aᵀ.
///
/// Values stay with the caller, in the order in which A is stored.
#[derive(Debug)]
pub struct DevicePattern {
    /// The rows of A, or of Aᵀ.
    ptr: Buffer<u64>,
    idx: Buffer<u32>,
    /// Places of the values; empty where they are in this order.
    entries: Buffer<u32>,
    long_rows: LongRows,
    n: usize,
    num_values: usize,
    /// Whether entries may have the bit [`CONJUGATED`].
    is_flagged: bool,
}

/// Rows that several warps share.
#[derive(Debug)]
struct LongRows {
    rows: Buffer<u32>,
    /// Their segments in `segments`.
    ptr: Buffer<u32>,
    segments: RecordBuffer<Segment>,
}

/// [`LongRows`] on the host.
struct LongRowsPlan {
    rows: Vec<u32>,
    ptr: Vec<u32>,
    segments: Vec<Segment>,
}

impl LongRowsPlan {
    fn new(lines: &CompressedPattern) -> Self {
        let (mut rows, mut ptr, mut segments) = (Vec::new(), vec![0], Vec::new());
        for (i, ends) in lines.ptr().windows(2).enumerate() {
            if ends[1] - ends[0] <= kernels::SEGMENT {
                continue;
            }
            for begin in (ends[0]..ends[1]).step_by(kernels::SEGMENT as usize) {
                let end = ends[1].min(begin + kernels::SEGMENT);
                segments.push(Segment {
                    begin: begin as u32,
                    end: end as u32,
                });
            }
            rows.push(i as u32);
            ptr.push(segments.len() as u32);
        }
        Self {
            rows,
            ptr,
            segments,
        }
    }
}

impl LongRows {
    fn num_segments(&self) -> usize {
        self.segments.len()
    }
}

/// A matrix on the device: values in the order in which it is stored.
#[derive(Debug, Clone, Copy)]
pub struct DeviceMatrix<'a, W: RefineScalar> {
    /// For products with it.
    pub pattern: &'a DevicePattern,
    /// As many values as that says.
    pub values: &'a Buffer<W>,
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
    /// Those of one solution.
    fn from_words(words: &[u64]) -> Self {
        let number = |which: usize| f64::from_bits(words[which]);
        Self {
            norm_x: number(measure::X),
            norm_b: number(measure::B),
            norm_residual: number(measure::RESIDUAL),
            norm_a: number(measure::A),
            componentwise: [number(measure::LARGE_ROWS), number(measure::SMALL_ROWS)],
        }
    }

    /// Both componentwise backward errors together.
    pub fn omega(&self) -> f64 {
        self.componentwise[0] + self.componentwise[1]
    }

    /// Whether the numbers are too large or too small for what was measured in plain `f64`: the host measures such systems.
    pub fn is_out_of_range(&self) -> bool {
        !is_safe(self.norm_a, self.norm_x, self.norm_b)
    }

    /// The normwise backward error, see [`Residual::normwise`](crate::backward_error::Residual::normwise).
    pub fn normwise(&self) -> f64 {
        normwise(self.norm_residual, self.norm_a, self.norm_x, self.norm_b)
    }
}

/// Panics unless the matrix is square, and each of its entries has a value.
#[track_caller]
fn check_mapped(rows: &CompressedPattern, entries: &[u32], num_values: usize) {
    assert_eq!(rows.major_dim(), rows.minor_dim(), "a square matrix");
    assert!(u32::try_from(rows.nnz()).is_ok(), "fewer than 2³² entries");
    assert_eq!(entries.len(), rows.nnz(), "a value for each entry");
    let last = entries.iter().fold(0, |last, &entry| last.max(entry));
    assert!(
        entries.is_empty() || (last as usize) < num_values,
        "a value beyond the last one"
    );
}

impl DevicePattern {
    /// Most values of a matrix whose entries may be conjugates of them.
    pub const MOST_CONJUGATED: usize = CONJUGATED as usize;

    /// Copies the pattern of a square matrix A, which is stored by rows, or if not `by_rows` by columns, to the device:
    /// for products with A, or if `transpose` with Aᵀ.
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
        transpose: bool,
    ) -> Result<Self, SolveError> {
        let n = pattern.major_dim();
        assert_eq!(n, pattern.minor_dim(), "a square matrix");
        assert!(
            u32::try_from(pattern.nnz()).is_ok(),
            "fewer than 2³² entries"
        );
        let turned;
        let (lines, entries): (&CompressedPattern, Vec<u32>) = if by_rows == transpose {
            turned = pattern.transpose_with_map();
            (&turned.0, turned.1.iter().map(|&p| p as u32).collect())
        } else {
            (pattern, Vec::new())
        };
        Self::of_lines(stream, lines, &entries, pattern.nnz())
    }

    /// Copies the rows of a square matrix to the device whose values stand in another order, or of which some share one:
    /// entry p has the value of number `entries[p]`, of so many.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    ///
    /// # Panics
    ///
    /// If the matrix is not square, has 2³² entries, or not one number for each that is below that of the values.
    #[track_caller]
    pub fn upload_mapped(
        stream: &Stream,
        rows: &CompressedPattern,
        entries: &[u32],
        num_values: usize,
    ) -> Result<Self, SolveError> {
        check_mapped(rows, entries, num_values);
        Self::of_lines(stream, rows, entries, num_values)
    }

    /// As [`upload_mapped`](Self::upload_mapped) for complex values, of which entry p is the conjugate if so `is_conjugated`.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    ///
    /// # Panics
    ///
    /// As there, or if there are more than 2³¹ values, or not one answer for each entry.
    #[track_caller]
    pub fn upload_conjugated(
        stream: &Stream,
        rows: &CompressedPattern,
        (entries, is_conjugated): (&[u32], &[bool]),
        num_values: usize,
    ) -> Result<Self, SolveError> {
        assert!(num_values <= Self::MOST_CONJUGATED, "at most 2³¹ values");
        assert_eq!(is_conjugated.len(), entries.len(), "an answer for each");
        check_mapped(rows, entries, num_values);
        let flag = |(&entry, &is): (&u32, &bool)| if is { entry | CONJUGATED } else { entry };
        let flagged: Vec<u32> = entries.iter().zip(is_conjugated).map(flag).collect();
        Ok(Self {
            is_flagged: true,
            ..Self::of_lines(stream, rows, &flagged, num_values)?
        })
    }

    fn of_lines(
        stream: &Stream,
        lines: &CompressedPattern,
        entries: &[u32],
        num_values: usize,
    ) -> Result<Self, SolveError> {
        let long_rows = LongRowsPlan::new(lines);
        let mut uploads = Uploads::new(stream);
        let there = Self {
            ptr: uploads.add(lines.ptr())?,
            idx: uploads.add(lines.idx())?,
            entries: uploads.add(entries)?,
            long_rows: LongRows {
                rows: uploads.add(&long_rows.rows)?,
                ptr: uploads.add(&long_rows.ptr)?,
                segments: uploads.add_records(&long_rows.segments)?,
            },
            n: lines.major_dim(),
            num_values,
            is_flagged: false,
        };
        uploads.finish()?;
        Ok(there)
    }

    /// Bytes on the device of the pattern of a matrix of order `n` with `nnz` entries, and of what measuring one solution of
    /// numbers with so many `components` takes, at most.
    pub fn predicted_bytes(n: usize, nnz: usize, components: usize) -> u64 {
        // A long row has less than two segments for each full one.
        let num_segments = 2 * nnz / kernels::SEGMENT as usize;
        let of_segment = (4 * 2 + size_of::<Segment>()) + 8 * kernels::segment_sums(1, components);
        (8 * (n + 1) + (4 + 4) * nnz + of_segment * num_segments) as u64
    }

    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of its values.
    pub fn num_values(&self) -> usize {
        self.num_values
    }
}

/// Residuals of some solutions, measured on the device.
#[derive(Debug)]
pub struct Residuals<W: RefineScalar> {
    nrhs: usize,
    measures: Maxima,
    /// What the segments of long rows add up to.
    sums: Buffer<f64>,
    barrier: Buffer<u32>,
    marker: PhantomData<W>,
}

impl<W: RefineScalar> Residuals<W> {
    /// For `nrhs` solutions at a time of systems with such a matrix.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    pub fn new(stream: &Stream, pattern: &DevicePattern, nrhs: usize) -> Result<Self, SolveError> {
        let num_sums = pattern.long_rows.num_segments()
            * kernels::segment_sums(nrhs, <W as Scalar>::COMPONENTS);
        Ok(Self {
            nrhs,
            measures: Maxima::new(stream, nrhs * measure::LEN)?,
            sums: stream.alloc(num_sums)?,
            barrier: primitives::grid_barrier(stream)?,
            marker: PhantomData,
        })
    }

    /// Leaves b − A·x in `residual`, for solutions one after another, and measures each. Nothing is waited for.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    ///
    /// # Panics
    ///
    /// If a length does not go with the matrix and the number of solutions, or this was made for another pattern that
    /// has fewer long rows.
    #[track_caller]
    pub fn enqueue(
        &mut self,
        stream: &Stream,
        a: DeviceMatrix<'_, W>,
        x: &impl BufferView<W>,
        b: &impl BufferView<W>,
        residual: &mut impl BufferViewMut<W>,
    ) -> Result<(), SolveError> {
        let DeviceMatrix { pattern, values } = a;
        let nrhs = self.nrhs;
        assert_eq!(values.len(), pattern.num_values, "the values of A");
        assert!(
            !pattern.is_flagged || <W as Scalar>::COMPONENTS > 1,
            "real values have no conjugates"
        );
        assert_eq!(x.len(), pattern.n * nrhs, "nrhs solutions of length n");
        assert_eq!(b.len(), x.len(), "a right-hand side for each solution");
        assert_eq!(residual.len(), x.len(), "a residual for each solution");
        if nrhs == 0 {
            return Ok(());
        }
        let device = stream.device();
        let kernel = kernels::residuals::desc::<W>();
        let config = Geometry::of(&device).persistent_threads(&device, kernel, pattern.n)?;
        let LongRows {
            rows,
            ptr,
            segments,
        } = &pattern.long_rows;
        let a = RowsBuffers {
            row_ptr: &pattern.ptr,
            col_idx: &pattern.idx,
            entries: &pattern.entries,
            values,
        };
        let long = LongRowsBuffers {
            rows,
            segment_ptr: ptr,
            segments,
            sums: &mut self.sums,
        };
        let barrier = &mut self.barrier;
        self.measures.enqueue(stream, |measures, found| {
            // SAFETY: a CompressedPattern of a square matrix, and its long rows; each launch leaves measures and barrier zero, as
            // they were at first; the launch is cooperative.
            unsafe {
                kernels::residuals::launch::<W, _>(
                    stream,
                    &config,
                    nrhs as u32,
                    a,
                    x,
                    b,
                    residual,
                    long,
                    MeasuredBuffers {
                        measures,
                        found,
                        barrier,
                    },
                )
            }
        })?;
        Ok(())
    }

    /// What was measured last, one solution after another; waits for it.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    ///
    /// # Panics
    ///
    /// If nothing was.
    #[track_caller]
    pub fn measures(&self) -> Result<Vec<Measures>, SolveError> {
        if self.nrhs == 0 {
            return Ok(Vec::new());
        }
        let words = self.measures.read()?;
        Ok(words
            .chunks_exact(measure::LEN)
            .map(Measures::from_words)
            .collect())
    }
}

/// Leaves b − A·x in `residual`, for `nrhs` solutions one after another, and measures each. Waits for the device.
///
/// # Errors
///
/// [`SolveError::Device`].
///
/// # Panics
///
/// If a length does not go with the matrix and `nrhs`.
#[track_caller]
pub fn residuals<W: RefineScalar>(
    stream: &Stream,
    a: DeviceMatrix<'_, W>,
    x: &impl BufferView<W>,
    b: &impl BufferView<W>,
    residual: &mut impl BufferViewMut<W>,
    nrhs: usize,
) -> Result<Vec<Measures>, SolveError> {
    let mut residuals = Residuals::new(stream, a.pattern, nrhs)?;
    residuals.enqueue(stream, a, x, b, residual)?;
    residuals.measures()
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
pub fn correct<W: RefineScalar>(
    stream: &Stream,
    correction: &Buffer<W>,
    x: &mut Buffer<W>,
) -> Result<(), SolveError> {
    assert_eq!(correction.len(), x.len(), "a correction for each unknown");
    if x.is_empty() {
        return Ok(());
    }
    let config = Geometry::of(&stream.device()).threads_for(x.len());
    // SAFETY: nothing beyond the lengths, which the launcher checks.
    unsafe { kernels::correct::launch::<W, _>(stream, &config, correction, x)? };
    Ok(())
}

/// The sum of the magnitudes of the numbers `x`, |re| + |im| of complex ones, the same in every run and on every device. Waits for it.
///
/// # Errors
///
/// [`SolveError::Device`].
pub fn sum_of_magnitudes<W: RefineScalar>(
    stream: &Stream,
    x: &impl BufferView<W>,
) -> Result<f64, SolveError> {
    let [blocks, threads] = kernels::SUMMING;
    let mut sums = stream.alloc(blocks as usize)?;
    let config = LaunchConfig::for_elements((blocks * threads) as usize, threads);
    // SAFETY: nothing beyond the lengths, which the launcher checks.
    unsafe { kernels::sum_magnitudes::launch::<W, _>(stream, &config, x, &mut sums)? };
    Ok(stream.download(&sums)?.iter().sum())
}

/// The search for numbers that are infinite or not a number, on the device.
#[derive(Debug)]
pub struct NotFinite {
    found: Maxima,
}

impl NotFinite {
    /// Memory for it.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    pub fn new(stream: &Stream) -> Result<Self, SolveError> {
        Ok(Self {
            found: Maxima::new(stream, 2)?,
        })
    }

    /// Looks through `x`. Nothing is waited for.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    pub fn enqueue<W: RefineScalar>(
        &mut self,
        stream: &Stream,
        x: &impl BufferView<W>,
    ) -> Result<(), SolveError> {
        let geometry = Geometry::of(&stream.device());
        // Each warp has an atomic maximum, and those of more warps than these would take longer than the numbers.
        let config = if x.len() < MANY_NUMBERS {
            geometry.threads_for(x.len())
        } else {
            geometry.entries_for(x.len())
        };
        self.found.enqueue(stream, |state, found| {
            // SAFETY: the state is zero, and blocks are of whole warps.
            unsafe { kernels::find_not_finite::launch::<W, _>(stream, &config, x, state, found) }
        })?;
        Ok(())
    }

    /// The first such place that was found last; waits for the search.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    pub fn first(&self) -> Result<Option<usize>, SolveError> {
        let word = self.found.read()?[0];
        Ok((word != 0).then_some(!word as usize))
    }

    /// The largest magnitude that was found last, infinite or not a number if there is such an entry; waits for the search.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    pub fn largest(&self) -> Result<f64, SolveError> {
        Ok(f64::from_bits(self.found.read()?[1]))
    }
}

/// Sets `x` to the entries of [`known_solution`](crate::known_solution), on the device.
///
/// # Errors
///
/// [`SolveError::Device`].
pub fn set_known_solution<W: RefineScalar>(
    stream: &Stream,
    x: &mut Buffer<W>,
) -> Result<(), SolveError> {
    if x.is_empty() {
        return Ok(());
    }
    let config = Geometry::of(&stream.device()).threads_for(x.len());
    // SAFETY: no preconditions.
    unsafe { kernels::set_known_solution::launch::<W, _>(stream, &config, x)? };
    Ok(())
}
