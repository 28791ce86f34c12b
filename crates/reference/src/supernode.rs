//! T3 supernodes: runs of rows whose U parts have the same structure.

use luge_sparse::FilledPattern;

/// Supernodes by Definition 1 of gSoFa (T3): row `s` joins the supernode that starts at row `r` and
/// holds rows `r..s` iff nnz(U(s, :)) = nnz(U(s−1, :)) − 1 and L(s, r) ≠ 0, and the supernode has
/// fewer than `max_size` rows.
///
/// Returns `supernode_ptr`: the first row of each supernode in order, then `n`.
///
/// # Panics
///
/// If `max_size` is zero.
#[track_caller]
pub fn supernodes_by_definition(filled: &FilledPattern, max_size: usize) -> Vec<u32> {
    assert!(max_size > 0, "a supernode has at least one row");
    let unz = |i: usize| filled.upper(i).len() + 1;
    let mut supernode_ptr = vec![0];
    let mut r = 0;
    for s in 1..filled.n() {
        let joins =
            s - r < max_size && unz(s) == unz(s - 1) - 1 && filled.lower(s).contains(&(r as u32));
        if !joins {
            supernode_ptr.push(s as u32);
            r = s;
        }
    }
    if filled.n() > 0 {
        supernode_ptr.push(filled.n() as u32);
    }
    supernode_ptr
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::{pattern_of, patterns};
    use crate::symbolic::fill1;
    use proptest::prelude::*;

    /// What the counts stand for: row `s` joins iff it has an entry in column `r` and its U part is
    /// that of the row above without that row's diagonal.
    fn supernodes_by_structure(filled: &FilledPattern, max_size: usize) -> Vec<u32> {
        let u = |i: usize| [&[i as u32], filled.upper(i)].concat();
        let mut starts = Vec::new();
        for s in 0..filled.n() {
            let joins = starts.last().is_some_and(|&r: &u32| {
                s - (r as usize) < max_size
                    && filled.rows().lane(s).contains(&r)
                    && u(s - 1)[1..] == u(s)[..]
            });
            if !joins {
                starts.push(s as u32);
            }
        }
        starts.push(filled.n() as u32);
        starts
    }

    #[test]
    fn a_dense_matrix_is_cut_at_the_maximum_size() {
        for n in [0u32, 1, 31, 32, 33] {
            let dense = fill1(&pattern_of(
                n as usize,
                (0..n).flat_map(|i| (0..n).map(move |j| (i, j))),
            ));
            let mut expected: Vec<u32> = (0..n).step_by(32).collect();
            expected.push(n);
            assert_eq!(supernodes_by_definition(&dense, 32), expected);
        }
    }

    #[test]
    fn a_diagonal_matrix_has_only_single_rows() {
        let diagonal = fill1(&pattern_of(4, []));
        assert_eq!(supernodes_by_definition(&diagonal, 8), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn both_conditions_are_needed() {
        // Row 0 has U = {0, 2}, row 1 has U = {1}: one entry fewer, but L(1, 0) is zero.
        let counts_only = fill1(&pattern_of(3, [(0, 2)]));
        assert_eq!(supernodes_by_definition(&counts_only, 8), [0, 1, 2, 3]);
        // L(1, 0) is there, but row 1 has as many entries in U as row 0.
        let entry_only = fill1(&pattern_of(3, [(0, 1), (1, 0), (1, 2)]));
        assert_eq!(supernodes_by_definition(&entry_only, 8), [0, 1, 2, 3]);
    }

    proptest! {
        #[test]
        fn counts_and_structures_agree(a in patterns(40), max_size in 1usize..8) {
            let filled = fill1(&a);
            prop_assert_eq!(
                supernodes_by_definition(&filled, max_size),
                supernodes_by_structure(&filled, max_size)
            );
        }
    }
}
