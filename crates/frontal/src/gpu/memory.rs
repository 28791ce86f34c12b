//! What a tree and the factors on it take on the device.

use super::DeviceTree;
use crate::tree::Tree;

impl DeviceTree {
    /// Predicted bytes on the device of `tree`, of the factors of one matrix with values of `value_bytes` bytes, and of
    /// the elements of all its fronts; the values of A and right-hand sides are not counted.
    pub fn predicted_bytes(tree: &Tree, value_bytes: usize) -> u64 {
        let fronts = tree.num_supernodes() as u64;
        let (n, nnz) = (tree.n() as u64, tree.nnz() as u64);
        let rows = tree.rows.len() as u64;
        let elements = tree.fronts().iter().map(|f| u64::from(f.below).pow(2));
        let values = (tree.layout.slots + elements.sum::<u64>()) * value_bytes as u64;
        // Starts, sizes, parents, children and their offsets, offsets of entries, what is pending, two lists of
        // leaves, a queue: of 4 bytes each; slots, elements and rows: offsets of 8.
        let of_fronts = fronts * (9 * 4 + 3 * 8);
        // The row below a pivot and its place in the parent.
        let of_rows = 2 * 4 * rows;
        // Where an entry comes from, where it goes, and its scaling.
        let of_entries = 3 * 4 * nnz;
        values + of_fronts + of_rows + of_entries + 4 * n
    }
}
