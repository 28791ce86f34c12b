//! Whether values of a symmetric matrix that is stored whole are those across its diagonal, on the device.

use luge_device::{Buffer, DeviceError, Maxima, Stream};
use luge_gpu_kernels::refine as kernels;
use luge_symbolic::gpu::Geometry;

use super::RefineScalar;
use crate::error::SolveError;

/// For each value of a matrix its place across the diagonal.
#[derive(Debug)]
pub struct Mirror {
    places: Buffer<u32>,
    conjugates: bool,
}

impl Mirror {
    /// Copies the places to the device; if it `conjugates`, the matrix is Hermitian.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Panics
    ///
    /// If a place is not that of a value.
    #[track_caller]
    pub fn upload(stream: &Stream, places: &[u32], conjugates: bool) -> Result<Self, DeviceError> {
        assert!(
            places.iter().all(|&p| (p as usize) < places.len()),
            "places of values"
        );
        Ok(Self {
            places: stream.upload(places)?,
            conjugates,
        })
    }

    /// Bytes on the device for so many values.
    pub fn bytes(num_values: usize) -> u64 {
        (num_values * size_of::<u32>()) as u64
    }
}

/// A comparison of values with those across the diagonal.
#[derive(Debug)]
pub struct Across {
    found: Maxima,
}

impl Across {
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

    /// Compares `values`. Nothing is waited for.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    ///
    /// # Panics
    ///
    /// If there is not a place for each value.
    #[track_caller]
    pub fn enqueue<W: RefineScalar>(
        &mut self,
        stream: &Stream,
        mirror: &Mirror,
        values: &Buffer<W>,
    ) -> Result<(), SolveError> {
        let config = Geometry::of(&stream.device()).entries_for(values.len());
        self.found.enqueue(stream, |state, found| {
            // SAFETY: the state is zero, blocks are of whole warps, and all places are those of values.
            unsafe {
                kernels::compare_across::launch::<W, _>(
                    stream,
                    &config,
                    &mirror.places,
                    mirror.conjugates.into(),
                    values,
                    state,
                    found,
                )
            }
        })?;
        Ok(())
    }

    /// The largest magnitude of a value and the largest difference that were found last; not numbers if there are any such
    /// values. Waits for the comparison.
    ///
    /// # Errors
    ///
    /// [`SolveError::Device`].
    pub fn found(&self) -> Result<[f64; 2], SolveError> {
        let words = self.found.read()?;
        Ok([0, 1].map(|at| f64::from_bits(words[at])))
    }
}
