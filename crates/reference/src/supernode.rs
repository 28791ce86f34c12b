//! T3 supernodes: runs of rows whose U parts have the same structure; and what becomes of them when
//! neighbours are merged at the price of explicit zeros.

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

/// Rows of a block that is stored whole: a square on the diagonal, and right of it every column in
/// which at least one of its rows has an entry of U.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenseBlock {
    /// Places of the block.
    pub stored: u64,
    /// Places without an entry of L+U.
    pub zeros: u64,
}

/// The block of rows `first..end` of L+U.
///
/// # Panics
///
/// If the range reaches out of the matrix or is reversed.
#[track_caller]
pub fn dense_block(filled: &FilledPattern, first: usize, end: usize) -> DenseBlock {
    let mut right_of_it = std::collections::BTreeSet::new();
    let mut entries = 0;
    for i in first..end {
        for &j in filled.rows().line(i) {
            if j as usize >= first {
                entries += 1;
            }
            if j as usize >= end {
                right_of_it.insert(j);
            }
        }
    }
    let size = end - first;
    let stored = (size * (size + right_of_it.len())) as u64;
    DenseBlock {
        stored,
        zeros: stored - entries,
    }
}

/// Whether rows `first..middle` and `middle..end` may become one relaxed supernode:
///
/// 1. they are at most `max_size` rows together;
/// 2. the last row of the first has its parent in the second: an entry of L in its column lies in one
///    of the second's rows, so that the first adds no column to what the second stores on the right;
/// 3. of 1000 places that they store together, at most as many hold a zero as the first of `tiers`
///    allows whose number of rows is not exceeded; without such a tier they stay apart.
pub fn may_merge(
    filled: &FilledPattern,
    [first, middle, end]: [usize; 3],
    max_size: usize,
    tiers: &[(usize, u64)],
) -> bool {
    let size = end - first;
    let is_child = (middle..end).any(|s| filled.lower(s).contains(&(middle as u32 - 1)));
    let Some(&(_, limit)) = tiers.iter().find(|&&(rows, _)| size <= rows) else {
        return false;
    };
    let block = dense_block(filled, first, end);
    size <= max_size && is_child && block.zeros * 1000 <= limit * block.stored
}

/// Relaxed supernodes: those of `supernode_ptr` merged with their neighbours as [`may_merge`] allows.
///
/// Each sweep numbers the pairs of neighbours from 0 and asks for each whether it may merge. Pairs with
/// even numbers that may do; so do those with odd numbers that may, if the pairs on both sides may not. The
/// sweep that merges nothing is the last: then no two neighbours may merge.
///
/// Of a pair that may merge one half grows in every sweep, and what becomes one supernode in the end
/// depends on nothing else. So there are no more sweeps than rows in the largest supernode, `max_size` at
/// most.
///
/// The tiers are CHOLMOD's rule for a child beside its parent; its order, from the last supernode to
/// the first, is replaced by one in which the merges of a sweep are independent.
pub fn relaxed_supernodes(
    filled: &FilledPattern,
    supernode_ptr: &[u32],
    max_size: usize,
    tiers: &[(usize, u64)],
) -> Vec<u32> {
    let mut relaxed = supernode_ptr.to_vec();
    loop {
        let may: Vec<bool> = relaxed
            .windows(3)
            .map(|ends| {
                let ends = [ends[0], ends[1], ends[2]].map(|row| row as usize);
                may_merge(filled, ends, max_size, tiers)
            })
            .collect();
        let may_at = |pair: Option<usize>| pair.and_then(|pair| may.get(pair)) == Some(&true);
        let merges = |pair: usize| {
            let alone = !may_at(pair.checked_sub(1)) && !may_at(Some(pair + 1));
            may[pair] && (pair.is_multiple_of(2) || alone)
        };
        // The border inside pair number g is entry g + 1.
        let inner = |border: usize| border > 0 && border <= may.len();
        let remaining: Vec<u32> = (0..relaxed.len())
            .filter(|&border| !inner(border) || !merges(border - 1))
            .map(|border| relaxed[border])
            .collect();
        if remaining.len() == relaxed.len() {
            return remaining;
        }
        relaxed = remaining;
    }
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
                    && filled.rows().line(s).contains(&r)
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

    #[test]
    fn t3_supernodes_store_no_zeros() {
        let grid = |i: u32| [(i, i.saturating_sub(1)), (i, i / 2), (i / 2, i)];
        let filled = fill1(&pattern_of(40, (0..40).flat_map(grid)));
        let ptr = supernodes_by_definition(&filled, 8);
        assert!(ptr.len() < 40, "there is a supernode of more than one row");
        for ends in ptr.windows(2) {
            assert_eq!(
                dense_block(&filled, ends[0] as usize, ends[1] as usize).zeros,
                0
            );
        }
    }

    #[test]
    fn leaves_join_their_parent() {
        // Rows 0 and 1 are leaves below row 2; together 9 places, 7 entries.
        let star = fill1(&pattern_of(3, [(0, 2), (2, 0), (1, 2), (2, 1)]));
        let block = dense_block(&star, 0, 3);
        assert_eq!((block.stored, block.zeros), (9, 2));
        let t3 = supernodes_by_definition(&star, 8);
        assert_eq!(t3, [0, 1, 3]);
        // Row 0 is no child of row 1, so it waits until rows 1 and 2 are one.
        assert_eq!(relaxed_supernodes(&star, &t3, 8, &[(8, 223)]), [0, 3]);
        assert_eq!(relaxed_supernodes(&star, &t3, 8, &[(8, 222)]), [0, 1, 3]);
        assert_eq!(relaxed_supernodes(&star, &t3, 2, &[(8, 1000)]), [0, 1, 3]);
        assert_eq!(relaxed_supernodes(&star, &t3, 8, &[(2, 1000)]), [0, 1, 3]);
        assert_eq!(
            relaxed_supernodes(&star, &[0, 1, 2, 3], 8, &[(8, 1000)]),
            [0, 3]
        );
    }

    #[test]
    fn strangers_stay_apart() {
        let diagonal = fill1(&pattern_of(4, []));
        let apart = [0, 1, 2, 3, 4];
        assert_eq!(
            relaxed_supernodes(&diagonal, &apart, 8, &[(8, 1000)]),
            apart
        );
        assert_eq!(
            relaxed_supernodes(&fill1(&pattern_of(0, [])), &[0], 8, &[(8, 1000)]),
            [0]
        );
    }

    proptest! {
        /// A child adds no column to what its parent stores on the right, at most `max_size` rows are
        /// merged, no border is new, and at the end no two neighbours may merge.
        #[test]
        fn relaxed_supernodes_are_maximal(
            a in patterns(40),
            max_size in 1usize..16,
            limit in 0u64..1000,
        ) {
            let filled = fill1(&a);
            let t3 = supernodes_by_definition(&filled, max_size);
            let tiers = [(3, 1000), (12, limit)];
            let relaxed = relaxed_supernodes(&filled, &t3, max_size, &tiers);
            prop_assert!(relaxed.iter().all(|border| t3.contains(border)));
            prop_assert_eq!(relaxed.last(), t3.last());
            for ends in relaxed.windows(2) {
                let (first, end) = (ends[0] as usize, ends[1] as usize);
                let size = end - first;
                prop_assert!(size <= max_size);
                let stored = size * (size + filled.upper(end - 1).len());
                prop_assert_eq!(dense_block(&filled, first, end).stored, stored as u64);
            }
            for ends in relaxed.windows(3) {
                let ends = [ends[0], ends[1], ends[2]].map(|row| row as usize);
                prop_assert!(!may_merge(&filled, ends, max_size, &tiers));
            }
        }

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
