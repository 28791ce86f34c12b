//! Random square patterns and matrices for the tests of this crate.

use luge_sparse::CompressedPattern;
use proptest::prelude::*;

/// Builds the square pattern of order `n` with the given entries; repeated ones count once.
pub fn pattern_of(n: usize, entries: impl IntoIterator<Item = (u32, u32)>) -> CompressedPattern {
    let mut rows = vec![std::collections::BTreeSet::new(); n];
    for (i, j) in entries {
        rows[i as usize].insert(j);
    }
    let mut ptr = vec![0u64];
    let mut idx = Vec::new();
    for row in rows {
        idx.extend(row);
        ptr.push(idx.len() as u64);
    }
    CompressedPattern::new(n, ptr, idx).unwrap()
}

/// Unsymmetric square patterns of order 0 to `max_n` with up to four entries a row on average, so
/// that empty rows and columns and missing diagonals are common.
pub fn patterns(max_n: usize) -> impl Strategy<Value = CompressedPattern> {
    (0..=max_n).prop_flat_map(|n| {
        let top = n.max(1) as u32;
        proptest::collection::vec((0..top, 0..top), 0..=4 * n)
            .prop_map(move |entries| pattern_of(n, entries))
    })
}

/// A pattern with its whole diagonal, and values between −1 and 1 that may be zero.
pub fn matrices(max_n: usize) -> impl Strategy<Value = (CompressedPattern, Vec<f64>)> {
    patterns(max_n).prop_flat_map(|a| {
        let n = a.major_dim();
        let off_diagonal = (0..n).flat_map(|i| a.line(i).iter().map(move |&j| (i as u32, j)));
        let a = pattern_of(n, off_diagonal.chain((0..n as u32).map(|i| (i, i))));
        let value = prop_oneof![9 => -1.0..1.0f64, 1 => Just(0.0)];
        let values = proptest::collection::vec(value, a.nnz());
        (Just(a), values)
    })
}
