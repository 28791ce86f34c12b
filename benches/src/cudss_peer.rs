//! cuDSS behind the trait that the peers on the CPU have.

use std::path::Path;
use std::sync::Arc;

use luge_device::Stream;
use luge_peers::cudss::{Cudss, CudssError, Library};
use luge_peers::{Matrix, Peer, PeerError, Statistics};

/// cuDSS on the GPU of a stream; matrices, right-hand sides and solutions are on the host.
pub struct OnCudss {
    cudss: Cudss<f64>,
    version: String,
    notes: Vec<String>,
    /// Of the last factors.
    statistics: Statistics,
}

impl OnCudss {
    /// A solver on `stream`, with the threading layer that is named.
    ///
    /// # Errors
    ///
    /// As [`Cudss::new`].
    pub fn new(
        library: Arc<Library>,
        stream: &Stream,
        threading: Option<&Path>,
        notes: Vec<String>,
    ) -> Result<Self, CudssError> {
        Ok(Self {
            version: library.version().to_owned(),
            cudss: Cudss::new(library, stream, threading)?,
            notes,
            statistics: Statistics::default(),
        })
    }
}

fn refusal(error: CudssError) -> PeerError {
    match error {
        CudssError::OutOfOrder => PeerError::OutOfOrder,
        other => PeerError::Failed(other.to_string()),
    }
}

impl Peer for OnCudss {
    fn name(&self) -> &'static str {
        "cudss"
    }

    fn version(&self) -> String {
        self.version.clone()
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        // A `Matrix` has indices that fit 32 bits.
        let narrow =
            |indices: &[usize]| -> Vec<u32> { indices.iter().map(|&i| i as u32).collect() };
        let rows = a.rows();
        let (row_ptr, col_idx) = (narrow(rows.indptr().raw_storage()), narrow(rows.indices()));
        let taken = self.cudss.take(&row_ptr, &col_idx, rows.data());
        taken.map_err(refusal)?;
        self.cudss.reorder().map_err(refusal)?;
        self.cudss.symbolic().map_err(refusal)
    }

    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.cudss.set_values(a.rows().data()).map_err(refusal)?;
        self.cudss.factorize().map_err(refusal)?;
        self.statistics = Statistics::default();
        if let Ok(found) = self.cudss.statistics() {
            self.statistics.factor_entries = Some(found.factor_entries);
            self.statistics.peak_bytes = Some(found.peak_host_bytes);
        }
        Ok(())
    }

    fn can_refactorize(&self) -> bool {
        true
    }

    fn refactorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.cudss.set_values(a.rows().data()).map_err(refusal)?;
        self.cudss.refactorize().map_err(refusal)
    }

    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        let given = self.cudss.set_right_hand_sides(x, nrhs);
        given.map_err(refusal)?;
        self.cudss.solve(nrhs).map_err(refusal)?;
        self.cudss.solutions(x, nrhs).map_err(refusal)
    }

    fn solve_transpose(&mut self, _: &mut [f64], _: usize) -> Result<(), PeerError> {
        Err(PeerError::Unsupported)
    }

    fn statistics(&self) -> Statistics {
        self.statistics.clone()
    }

    fn drop_factors(&mut self) {
        // There is no call for that alone; what comes next takes the place.
    }

    fn drop_analysis(&mut self) {
        self.cudss.forget();
    }
}
