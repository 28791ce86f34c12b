//! What the kernels of the columns are given: the filled pattern, and its levels.

use luge_kernel::prelude::*;

/// The pattern of L+U, by rows and by columns; indices increase within each.
#[derive(Clone, Copy, KernelArgs)]
pub struct Filled {
    /// Offsets of the rows, n + 1.
    pub row_ptr: Global<u64>,
    /// Position of each diagonal entry by rows.
    pub diag_pos: Global<u64>,
    /// Column of each entry by rows.
    pub col_idx: Global<u32>,
    /// For each entry by rows its position by columns.
    pub csr_to_csc: Global<u64>,
    /// Offsets of the columns, n + 1.
    pub col_ptr: Global<u64>,
    /// Row of each entry by columns.
    pub row_idx: Global<u32>,
}

/// The columns in an order in which each comes after those that it waits for.
#[derive(Clone, Copy, KernelArgs)]
pub struct ColumnLevels {
    /// Where the columns of each level begin in `cols`, and the end of the last.
    pub ptr: Global<u64>,
    /// The columns, level by level.
    pub cols: Global<u32>,
}
