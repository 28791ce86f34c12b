//! The filled pattern as the phases on the device share it: by rows and by columns.

use luge_device::{Buffer, DeviceError, Stream};
use luge_gpu_kernels::filled::FilledBuffers;
use luge_sparse::{CompressedPattern, FilledPattern};

use super::primitives;
use crate::error::SymbolicError;

/// Sizes of a filled pattern, as [`FilledPattern`] counts them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FillStatistics {
    /// Entries of L, its unit diagonal included.
    pub lnz: u64,
    /// Entries of U, its diagonal included.
    pub unz: u64,
    /// Floating-point operations of the factorization.
    pub flops: f64,
}

/// The pattern of L+U on the device, by rows and by columns.
///
/// Both orders are sorted, both hold every diagonal entry.
#[derive(Debug)]
pub struct DeviceFilled {
    n: usize,
    row_ptr: Buffer<u64>,
    col_idx: Buffer<u32>,
    diag_pos: Buffer<u64>,
    col_ptr: Buffer<u64>,
    row_idx: Buffer<u32>,
    csr_to_csc: Buffer<u64>,
}

impl DeviceFilled {
    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Entries of L below the diagonal plus those of U with the diagonal.
    pub fn nnz(&self) -> usize {
        self.col_idx.len()
    }

    /// Offsets of the rows, n + 1.
    pub fn row_ptr(&self) -> &Buffer<u64> {
        &self.row_ptr
    }

    /// Column of each entry by rows.
    pub fn col_idx(&self) -> &Buffer<u32> {
        &self.col_idx
    }

    /// Position of each diagonal entry in [`col_idx`](Self::col_idx).
    pub fn diag_pos(&self) -> &Buffer<u64> {
        &self.diag_pos
    }

    /// Offsets of the columns, n + 1.
    pub fn col_ptr(&self) -> &Buffer<u64> {
        &self.col_ptr
    }

    /// Row of each entry by columns.
    pub fn row_idx(&self) -> &Buffer<u32> {
        &self.row_idx
    }

    /// For each entry by rows its position by columns.
    pub fn csr_to_csc(&self) -> &Buffer<u64> {
        &self.csr_to_csc
    }

    /// The pattern as kernels take it.
    pub fn buffers(&self) -> FilledBuffers<'_> {
        FilledBuffers {
            row_ptr: &self.row_ptr,
            diag_pos: &self.diag_pos,
            col_idx: &self.col_idx,
            csr_to_csc: &self.csr_to_csc,
            col_ptr: &self.col_ptr,
            row_idx: &self.row_idx,
        }
    }

    /// Copies a pattern to the device.
    ///
    /// # Errors
    ///
    /// [`SymbolicError::Device`].
    pub fn upload(stream: &Stream, filled: &FilledPattern) -> Result<Self, SymbolicError> {
        let row_ptr = stream.upload(filled.rows().ptr())?;
        let col_idx = stream.upload(filled.rows().idx())?;
        // SAFETY: a filled pattern is valid, sorted, and has its diagonal.
        Ok(unsafe { Self::from_rows(stream, filled.n(), row_ptr, col_idx)? })
    }

    /// The pattern of order zero.
    pub(super) fn empty(stream: &Stream) -> Result<Self, SymbolicError> {
        let nothing = CompressedPattern::new(0, vec![0], Vec::new())
            .unwrap_or_else(|e| unreachable!("no offset is wrong: {e}"));
        let filled =
            FilledPattern::new(nothing).unwrap_or_else(|row| unreachable!("there is no row {row}"));
        Self::upload(stream, &filled)
    }

    /// Copies the pattern to the host, where its invariants are checked again.
    ///
    /// # Errors
    ///
    /// [`SymbolicError::Device`]; [`SymbolicError::Corrupt`] if it is not a filled pattern.
    pub fn download(&self, stream: &Stream) -> Result<FilledPattern, SymbolicError> {
        let ptr = stream.download(&self.row_ptr)?;
        let idx = stream.download(&self.col_idx)?;
        let rows = CompressedPattern::new(self.n, ptr, idx)
            .map_err(|e| SymbolicError::Corrupt(e.to_string()))?;
        FilledPattern::new(rows)
            .map_err(|row| SymbolicError::Corrupt(format!("row {row} has no diagonal entry")))
    }

    /// Counts entries and operations, from the offsets alone.
    ///
    /// # Errors
    ///
    /// [`SymbolicError::Device`].
    pub fn statistics(&self, stream: &Stream) -> Result<FillStatistics, SymbolicError> {
        // SAFETY: the columns are sorted.
        let col_diag =
            unsafe { primitives::diagonal_positions(stream, &self.col_ptr, &self.row_idx)? };
        let row_ptr = stream.download(&self.row_ptr)?;
        let row_diag = stream.download(&self.diag_pos)?;
        let col_ptr = stream.download(&self.col_ptr)?;
        let col_diag = stream.download(&col_diag)?;
        let mut statistics = FillStatistics::default();
        for k in 0..self.n {
            let right = row_ptr[k + 1] - row_diag[k];
            let below = col_ptr[k + 1] - col_diag[k];
            statistics.unz += right;
            statistics.lnz += below;
            statistics.flops += (below - 1) as f64 * (2 * right - 1) as f64;
        }
        Ok(statistics)
    }

    /// Adds the columns to sorted rows.
    ///
    /// # Safety
    ///
    /// The rows are a valid pattern of order n, sorted, each with its diagonal entry.
    pub(super) unsafe fn from_rows(
        stream: &Stream,
        n: usize,
        row_ptr: Buffer<u64>,
        col_idx: Buffer<u32>,
    ) -> Result<Self, DeviceError> {
        // SAFETY: the rows are valid and sorted; the transpose has the same entries, sorted.
        unsafe {
            let diag_pos = primitives::diagonal_positions(stream, &row_ptr, &col_idx)?;
            let (col_ptr, row_idx) = primitives::transpose(stream, n, &row_ptr, &col_idx)?;
            let csr_to_csc =
                primitives::map_entries(stream, &row_ptr, &col_idx, &col_ptr, &row_idx)?;
            Ok(Self {
                n,
                row_ptr,
                col_idx,
                diag_pos,
                col_ptr,
                row_idx,
                csr_to_csc,
            })
        }
    }
}
