//! `proptest` strategies. All shrink towards small orders, few entries and simple values.

use luge_sparse::{ColPerm, CompressedPattern, RowPerm};
use proptest::collection::vec;
use proptest::prelude::*;
use sprs::{CsMat, TriMat};

use crate::convert::matrix_of;

/// Square patterns (CSR) of order 0 to `max_n`, about three entries a row: unsymmetric, with empty
/// rows and columns and missing diagonals.
pub fn patterns(max_n: usize) -> impl Strategy<Value = CompressedPattern> {
    (0..=max_n).prop_flat_map(|n| {
        vec(entry(n), 0..=6 * n).prop_map(move |entries| pattern_from(n, entries))
    })
}

/// As [`patterns`], with the whole diagonal.
pub fn patterns_with_diagonal(max_n: usize) -> impl Strategy<Value = CompressedPattern> {
    (0..=max_n).prop_flat_map(|n| {
        vec(entry(n), 0..=5 * n).prop_map(move |entries| {
            let diagonal = (0..n as u32).map(|i| (i, i));
            pattern_from(n, entries.into_iter().chain(diagonal))
        })
    })
}

/// Square matrices on [`patterns`], often singular. Values lie between −10 and 10; one in eight is a
/// stored zero, one in eight spans thirty orders of magnitude.
pub fn matrices(max_n: usize) -> impl Strategy<Value = CsMat<f64>> {
    patterns(max_n).prop_flat_map(|pattern| {
        vec(value(), pattern.nnz()).prop_map(move |values| matrix_of(&pattern, values))
    })
}

/// Square matrices whose diagonal exceeds the sum of the other absolute values of its row by at
/// least one: nonsingular, and stable without pivoting.
pub fn dominant_matrices(max_n: usize) -> impl Strategy<Value = CsMat<f64>> {
    (0..=max_n).prop_flat_map(|n| {
        let off_diagonal = vec((entry(n), -1.0..1.0f64), 0..=4 * n);
        let diagonal = vec((1.0..2.0f64, any::<bool>()), n);
        (off_diagonal, diagonal).prop_map(move |(off_diagonal, diagonal)| {
            let mut a = TriMat::new((n, n));
            let mut sums = vec![0.0; n];
            for ((i, j), v) in off_diagonal {
                if i != j {
                    a.add_triplet(i as usize, j as usize, v);
                    sums[i as usize] += v.abs();
                }
            }
            for (i, (excess, positive)) in diagonal.into_iter().enumerate() {
                let size = sums[i] + excess;
                a.add_triplet(i, i, if positive { size } else { -size });
            }
            a.to_csr()
        })
    })
}

/// Nonsingular matrices with useless diagonals: those of [`dominant_matrices`] with their rows
/// shuffled, so that a solver needs a permutation.
pub fn nonsingular_matrices(max_n: usize) -> impl Strategy<Value = CsMat<f64>> {
    dominant_matrices(max_n).prop_flat_map(|a| {
        row_perms_of(a.rows()).prop_map(move |perm| {
            let new_row = perm.inverse();
            let mut shuffled = TriMat::with_capacity(a.shape(), a.nnz());
            for (&value, (i, j)) in &a {
                shuffled.add_triplet(new_row[i] as usize, j, value);
            }
            shuffled.to_csr()
        })
    })
}

/// Symmetric matrices on a whole diagonal, mostly indefinite; zeros on the diagonal are common.
pub fn symmetric_matrices(max_n: usize) -> impl Strategy<Value = CsMat<f64>> {
    (0..=max_n).prop_flat_map(|n| {
        let diagonal = vec(prop_oneof![2 => -10.0..10.0f64, 1 => Just(0.0)], n);
        let off_diagonal = vec((entry(n), -10.0..10.0f64), 0..=3 * n);
        (diagonal, off_diagonal).prop_map(move |(diagonal, off_diagonal)| {
            // Repeated entries are summed in one order for both triangles: keep the lower one only.
            let mut lower = std::collections::BTreeMap::new();
            for ((i, j), v) in off_diagonal.into_iter().filter(|((i, j), _)| i != j) {
                *lower.entry((i.max(j), i.min(j))).or_insert(0.0) += v;
            }
            let mut a = TriMat::new((n, n));
            for (i, v) in diagonal.into_iter().enumerate() {
                a.add_triplet(i, i, v);
            }
            for ((i, j), v) in lower {
                a.add_triplet(i as usize, j as usize, v);
                a.add_triplet(j as usize, i as usize, v);
            }
            a.to_csr()
        })
    })
}

/// Row permutations of the given length.
pub fn row_perms_of(n: usize) -> impl Strategy<Value = RowPerm> {
    Just((0..n as u32).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_map(|new_to_old| RowPerm::new(new_to_old).expect("a shuffle is a permutation"))
}

/// Column permutations of the given length.
pub fn col_perms_of(n: usize) -> impl Strategy<Value = ColPerm> {
    row_perms_of(n).prop_map(|perm| ColPerm(perm.0))
}

/// Right-hand sides of the given length, values between −10 and 10, zeros among them.
pub fn right_hand_sides(n: usize) -> impl Strategy<Value = Vec<f64>> {
    vec(prop_oneof![4 => -10.0..10.0f64, 1 => Just(0.0)], n)
}

fn entry(n: usize) -> impl Strategy<Value = (u32, u32)> + Clone {
    // With n = 0 the collections above are empty, so this range is never drawn from.
    let top = n.max(1) as u32;
    (0..top, 0..top)
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => -10.0..10.0f64,
        1 => Just(0.0),
        1 => (-15.0..15.0f64, any::<bool>()).prop_map(|(exponent, positive)| {
            if positive { 10f64.powf(exponent) } else { -(10f64.powf(exponent)) }
        }),
    ]
}

/// The square pattern of n rows with these entries (row, column), which may come in any order and
/// more than once.
///
/// # Panics
///
/// If an index is not below n.
pub fn pattern_from(n: usize, entries: impl IntoIterator<Item = (u32, u32)>) -> CompressedPattern {
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
    CompressedPattern::new(n, ptr, idx).expect("sets are sorted, and columns below n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::pattern_of;
    use crate::residual::assert_backward_error;
    use luge_reference::Dense;
    use luge_reference::numeric::lu_dense;
    use luge_reference::solve::dense_solve;
    use luge_sparse::PivotPolicy;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    /// Draws 300 values, the same ones each time.
    fn draw<S: Strategy>(strategy: S) -> Vec<S::Value> {
        let mut runner = TestRunner::deterministic();
        (0..300)
            .map(|_| {
                strategy
                    .new_tree(&mut runner)
                    .expect("no rejection")
                    .current()
            })
            .collect()
    }

    #[test]
    fn patterns_have_the_awkward_shapes() {
        let drawn = draw(patterns(8));
        assert!(drawn.iter().any(|p| p.major_dim() == 0));
        assert!(drawn.iter().any(|p| p.major_dim() == 8));
        assert!(
            drawn
                .iter()
                .any(|p| p.major_dim() > 2 && p.lines().any(|row| row.is_empty()))
        );
        assert!(drawn.iter().any(|p| p.transpose() != *p));
        let lacks_diagonal =
            |p: &CompressedPattern| p.lines().enumerate().any(|(i, r)| !r.contains(&(i as u32)));
        assert!(drawn.iter().any(lacks_diagonal));
        assert!(!draw(patterns_with_diagonal(8)).iter().any(lacks_diagonal));
    }

    #[test]
    fn matrices_hold_stored_zeros_and_wide_values() {
        let drawn = draw(matrices(8));
        let values = || drawn.iter().flat_map(|a| a.data());
        assert!(values().any(|&v| v == 0.0));
        assert!(
            values().any(|v| v.abs() > 1e6) && values().any(|v| (1e-12..1e-6).contains(&v.abs()))
        );
    }

    #[test]
    fn symmetric_matrices_are_symmetric() {
        for a in draw(symmetric_matrices(10)) {
            assert_eq!(a.transpose_view().to_csr(), a);
        }
    }

    #[test]
    fn nonsingular_matrices_need_and_allow_a_permutation() {
        let drawn = draw(nonsingular_matrices(12));
        let lacks_diagonal = |a: &CsMat<f64>| (0..a.rows()).any(|i| a.get(i, i).is_none());
        assert!(drawn.iter().filter(|a| lacks_diagonal(a)).count() > 100);
        for a in drawn {
            let dense = Dense::from_csr(&pattern_of(&a), a.data());
            let lu = lu_dense(&dense, PivotPolicy::PARTIAL).expect("nonsingular");
            let b = vec![1.0; a.rows()];
            assert_backward_error(&a, &dense_solve(&lu, &b), &b);
        }
    }

    #[test]
    fn dominant_matrices_need_no_pivoting() {
        for a in draw(dominant_matrices(12)) {
            let dense = Dense::from_csr(&pattern_of(&a), a.data());
            let lu = lu_dense(&dense, PivotPolicy::STATIC).expect("dominant");
            assert!(lu.element_growth(&dense) <= 2.0);
        }
    }
}
