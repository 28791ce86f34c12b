//! Which engine factorizes on a device.

use luge_ordering::Prediction;

use crate::options::DeviceEngine;

/// Bytes that the columns take for each entry of L+U beside its value: its row, its column, its place in the other
/// order, and about as much again while the pattern is found.
const COLUMN_BYTES_PER_ENTRY: u64 = 2 * (4 + 4 + 8);

/// Bytes that they take for each row: offsets in both orders, the diagonal, the level.
const COLUMN_BYTES_PER_ROW: u64 = 64;

/// Bytes that the column engine is predicted to need at least, for values of `value_bytes` bytes: `predicted` counts
/// the fill of the diagonal blocks, and what is filled above them comes on top.
pub(crate) fn column_bytes(n: usize, predicted: &Prediction, value_bytes: u64) -> u64 {
    let entries = predicted.lnz + predicted.unz + predicted.off_diagonal_nnz;
    entries * (value_bytes + COLUMN_BYTES_PER_ENTRY) + n as u64 * COLUMN_BYTES_PER_ROW
}

/// The engine for a matrix of which the tree is predicted to need `tree` bytes, and the columns `columns`, on a device
/// with `available` bytes.
///
/// The tree is the faster one wherever its fronts fit: its critical path is that of the forest, not the number of
/// levels. It holds all fronts at once, so large matrices may need the columns.
pub(crate) fn choose(tree: u64, columns: u64, available: u64) -> DeviceEngine {
    if tree > available && columns <= available {
        DeviceEngine::Columns
    } else {
        DeviceEngine::Tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_alone_speaks_for_columns() {
        assert_eq!(choose(100, 1, 100), DeviceEngine::Tree);
        assert_eq!(choose(101, 100, 100), DeviceEngine::Columns);
        // Neither fits: the tree's prediction is the one that is checked.
        assert_eq!(choose(101, 101, 100), DeviceEngine::Tree);
    }
}
