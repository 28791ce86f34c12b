//! Factors that are saved and loaded.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use luge_sparse::{Index, MatrixRef, Reservation, Scalar, bytes_of};

use super::{Computed, Factors, NORMS_PER_ROW, RENEWAL_PER_ENTRY};
use crate::codec::Sink;
use crate::error::Error;
#[cfg(feature = "gpu")]
use crate::error::SavedError;
use crate::host_path::HostFactors;
use crate::inform::Inform;
use crate::path::{Path, Plan};
use crate::saved_factors;
use crate::task::Journal;

impl<T: Scalar> Factors<T> {
    /// Writes the factors, for [`Solver::load_factors`](crate::Solver::load_factors): permutations and scaling, the values of
    /// the matrix, L and U or L and D, and what was measured of them, in a format with a version and checksums. It takes the
    /// bytes of the factors and of the matrix. Buffers by itself.
    ///
    /// What is loaded gives the same bits, in solves of all kinds and after refactorizations, on machines with the same
    /// instruction set. Nothing is written of what the next solve or refactorization makes for itself.
    ///
    /// # Errors
    ///
    /// [`Error::Saved`] if the factors are on a device, or writing fails; [`Error::OutOfMemory`]; [`Error::Cancelled`].
    pub fn save(&self, mut out: impl Write) -> Result<(), Error> {
        let shared = &self.plan.shared;
        let (host, path) = match (&self.computed, &self.plan.path) {
            (Computed::Host(host), Path::Host(path)) => (host, path),
            #[cfg(feature = "gpu")]
            _ => return Err(SavedError::OnDevice.into()),
        };
        let sink = Sink::new(&mut out, &shared.limits.cancel);
        saved_factors::write(sink, shared, path, host, self.values()?, &self.analyzed)
    }

    /// What is reserved for the values of a matrix and its norms, as [`restored`](Self::restored) takes it.
    pub(crate) fn reserve_values(plan: &Plan<T::Wide>) -> Result<Reservation, Error> {
        let shared = &plan.shared;
        let held = bytes_of::<T>(shared.nnz()) + NORMS_PER_ROW * shared.n() as u64;
        shared.limits.reserve(held, "numeric")
    }

    /// Factors on the CPU that were saved, with these values of the matrix in stored order.
    pub(crate) fn restored(
        plan: Arc<Plan<T::Wide>>,
        values: Vec<T>,
        host: HostFactors<T::Wide>,
        analyzed: Inform,
        memory: Reservation,
    ) -> Result<Self, Error> {
        let journal = Journal::after(&analyzed);
        let mut factors = Self {
            plan,
            values: OnceLock::from(Arc::new(values)),
            norms: OnceLock::new(),
            transpose_norms: OnceLock::new(),
            computed: Computed::Host(host),
            condition: None,
            doubt: OnceLock::new(),
            analyzed: Arc::new(analyzed),
            journal,
            inform: OnceLock::new(),
            largest: None,
            refactorized_part: None,
            _memory: memory,
        };
        factors.condition = factors.wanted_condition()?;
        Ok(factors)
    }

    /// Whether these are the factors of the matrix `a`, with the very values that it has. It may be stored in another way than
    /// the analyzed one, as for [`refactorize`](Self::refactorize).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidMatrix`], [`Error::OtherSize`], [`Error::ExtraEntry`], [`Error::NotFinite`], [`Error::NotSymmetric`],
    /// [`Error::OutOfMemory`], [`Error::Cancelled`]; those of the device.
    pub fn is_of<'a, I: Index>(&self, a: impl Into<MatrixRef<'a, T, I>>) -> Result<bool, Error> {
        Ok(self.differs_from(&a.into())?.is_none())
    }

    /// Row and column of the first entry that differs from that of `a`, if there is one.
    pub(crate) fn differs_from<I: Index>(
        &self,
        a: &MatrixRef<'_, T, I>,
    ) -> Result<Option<(usize, usize)>, Error> {
        let shared = &self.plan.shared;
        let seconds = RENEWAL_PER_ENTRY * a.nnz() as f64;
        let (given, _) = shared
            .threads
            .run(seconds, |threads| shared.values_of(a, threads))?;
        let mut pairs = self.values()?.iter().zip(given.iter());
        let at = pairs.position(|(own, given)| own != given);
        Ok(at.map(|at| shared.place_of(at)))
    }
}
