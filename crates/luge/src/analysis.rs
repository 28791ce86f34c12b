//! The analysis of a pattern.

use std::io::Write;
use std::marker::PhantomData;
use std::sync::Arc;

use luge_sparse::{CompressedPattern, FilledPattern, Index, Levels, MatrixRef, Scalar};

use crate::error::{Error, SavedError};
use crate::factors::Factors;
use crate::inform::Inform;
use crate::options::Pivoting;
use crate::path::{Path, Plan};
use crate::saved::Saved;
use crate::shared::Shared;

/// What can be known of a matrix before its values are eliminated: permutations, scaling, filled
/// pattern and levels. Good for every matrix of the same pattern, though permutations and scaling
/// were chosen for the values that were analyzed.
pub struct Analysis<T: Scalar> {
    pub(crate) plan: Arc<Plan<T::Wide>>,
    pub(crate) inform: Arc<Inform>,
    /// The order, where it is kept to be saved.
    saved: Option<Arc<Saved>>,
    scalar: PhantomData<T>,
}

impl<T: Scalar> Analysis<T> {
    pub(crate) fn new(
        path: Path<T::Wide>,
        shared: Shared,
        inform: Inform,
        saved: Option<Arc<Saved>>,
    ) -> Self {
        Self {
            plan: Arc::new(Plan { path, shared }),
            inform: Arc::new(inform),
            saved,
            scalar: PhantomData,
        }
    }

    /// Writes the order of the matrix, for [`Solver::load_analysis`](crate::Solver::load_analysis): permutations, scaling, blocks and elimination forest, in
    /// a format with a version and a checksum. About 32 bytes for each row. What is planned from it, and factors, are not
    /// written. Buffers by itself.
    ///
    /// # Errors
    ///
    /// [`Error::Saved`] if [`Options::keep_order`](crate::Options::keep_order) is off, or writing fails.
    pub fn save(&self, out: impl Write) -> Result<(), Error> {
        let saved = self.saved.as_ref().ok_or(SavedError::NotKept)?;
        Ok(saved.write(out)?)
    }

    /// Sizes, times and the code path of the analysis.
    pub fn inform(&self) -> &Inform {
        &self.inform
    }

    /// The filled pattern of the permuted matrix B and the levels of its columns. From the column engine of a device
    /// they are copied to the host as it found them; otherwise they are computed, on the CPU.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], [`Error::Cancelled`], those of the device.
    pub fn structure(&self) -> Result<(FilledPattern, Levels), Error> {
        match &self.plan.path {
            Path::Host(path) => self
                .plan
                .shared
                .host_structure(path.analysis.transform().clone()),
            #[cfg(feature = "gpu")]
            Path::Device(path) => path.analysis.structure(&self.plan.shared),
        }
    }

    /// The time that a factorization is predicted to take on one GPU over that on a [group](crate::BackendChoice::Gpus) of so many,
    /// which need not be there. `None` where nothing can be dealt out: on the CPU, by columns, and where no subtree is worth a copy.
    #[cfg(feature = "gpu")]
    pub fn predicted_speedup(&self, devices: usize) -> Option<f64> {
        match &self.plan.path {
            Path::Host(_) => None,
            Path::Device(path) => path.analysis.predicted_speedup(devices),
        }
    }

    /// The rows of B, for an analysis on the CPU.
    pub(crate) fn rows_of_b(&self) -> Result<CompressedPattern, Error> {
        match &self.plan.path {
            Path::Host(path) => self.plan.shared.rows_of_b(path.analysis.transform()),
            #[cfg(feature = "gpu")]
            Path::Device(_) => unreachable!("only several ranks ask, which work on the CPU"),
        }
    }

    /// The same analysis with another choice of pivots: with [`Options::pivoting`](crate::Options::pivoting) and
    /// [`Options::zero_pivot`](crate::Options::zero_pivot). Order and scaling are shared, so it costs next to nothing; factors
    /// that are there stay as they are.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] if a value is out of its range, or does not go with the other options.
    pub fn with_pivots(&self, pivoting: Pivoting, zero_pivot: Option<f64>) -> Result<Self, Error> {
        let options = (*self.plan.shared.options).clone();
        let options = options.pivoting(pivoting).zero_pivot(zero_pivot);
        options.check_ranges()?;
        let shared = Shared {
            options: Arc::new(options),
            ..self.plan.shared.clone()
        };
        Ok(Self {
            plan: Arc::new(Plan {
                path: self.plan.path.clone(),
                shared,
            }),
            inform: Arc::clone(&self.inform),
            saved: self.saved.clone(),
            scalar: PhantomData,
        })
    }

    /// Factorizes a matrix of the pattern that was analyzed, or of a part of it: what it has no entry for is zero.
    ///
    /// It may be stored another way than the analyzed one, by rows or by columns and with other integers; it takes a
    /// transposition, or a search, if it is.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMatrix`]; [`Error::OtherSize`]; [`Error::ExtraEntry`] if it has an entry that the analyzed matrix
    /// has not; [`Error::NotFinite`]; [`Error::NotSymmetric`] and [`Error::NotPositiveDefinite`] if it is not of the
    /// [kind](crate::Options::kind) that the options say; [`Error::ZeroPivot`] if it is singular to rounding;
    /// [`Error::Overflow`]; [`Error::OutOfMemory`]; [`Error::Cancelled`]; those of the device.
    pub fn factorize<'a, I: Index>(
        &self,
        a: impl Into<MatrixRef<'a, T, I>>,
    ) -> Result<Factors<T>, Error> {
        Factors::new(Arc::clone(&self.plan), &a.into(), &self.inform)
    }

    /// As [`factorize`](Self::factorize), for the values alone, in the order in which the analyzed matrix is stored.
    ///
    /// # Errors
    ///
    /// As [`factorize`](Self::factorize).
    ///
    /// # Panics
    ///
    /// If there is not one value for each entry of the analyzed matrix.
    #[track_caller]
    pub fn factorize_values(&self, values: &[T]) -> Result<Factors<T>, Error> {
        Factors::with_values(Arc::clone(&self.plan), values, &self.inform)
    }
}

impl<T: Scalar> std::fmt::Debug for Analysis<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Analysis")
            .field("inform", &self.inform)
            .finish_non_exhaustive()
    }
}
