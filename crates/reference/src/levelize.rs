//! Which columns must be finished before which, and the levels that follow.
//!
//! Notation: U(i, k) ≠ 0 and L(k, i) ≠ 0 mean structural entries of the filled pattern. A set of
//! dependencies is a [`CompressedPattern`] whose line `k` lists, in increasing order, the columns
//! `i < k` on which column `k` depends.
//!
//! In the hybrid right-looking algorithm (GLU 3.0, Algorithm 2) column `i` first divides its L part,
//! then subtracts L(r, i)·U(i, c) from every (r, c). Subtractions into one cell commute, so column
//! `k` must wait for column `i` only if `i` writes a cell that `k` reads. These are the cells of column
//! `k` from the diagonal down ("look up": U(i, k) ≠ 0) and, if `k` has an L part to multiply them by,
//! the cells of row `k` right of the diagonal (the double-U dependency: L(k, i) ≠ 0).

use luge_sparse::{CompressedPattern, FilledPattern, Levels};

use crate::primitives::{exclusive_prefix_sum, transpose};

fn dependencies_of(lists: Vec<Vec<u32>>) -> CompressedPattern {
    let n = lists.len();
    let counts: Vec<u32> = lists.iter().map(|l| l.len() as u32).collect();
    CompressedPattern::new(n, exclusive_prefix_sum(&counts), lists.concat())
        .expect("dependencies are listed in increasing order")
}

/// Looking up: column `k` depends on every `i < k` with U(i, k) ≠ 0.
///
/// This is all that a left-looking factorization needs, and what the backward and forward
/// substitutions with U need too.
pub fn look_up_dependencies(filled: &FilledPattern) -> CompressedPattern {
    let columns = transpose(filled.rows());
    dependencies_of(
        (0..filled.n())
            .map(|k| {
                let column = columns.line(k).iter().copied();
                column.take_while(|&i| (i as usize) < k).collect()
            })
            .collect(),
    )
}

/// The double-U dependencies alone (GLU 3.0, Algorithm 3): `t` depends on `i < t` iff L(t, i) ≠ 0 and
/// for some `j > t` with L(j, t) ≠ 0 rows `i` and `j` have a common column `k > t`. Then column `i`
/// updates (t, k), which column `t` reads to update (j, k).
///
/// The paper's loop over `j` starts at `t` itself; since (t, t) is always present, that would also
/// report a column `t` without L part, which reads nothing of its row. Here `j` starts after `t`.
pub fn double_u_dependencies(filled: &FilledPattern) -> CompressedPattern {
    let n = filled.n();
    let columns = transpose(filled.rows());
    let mut lists = vec![Vec::new(); n];
    for i in 0..n {
        for &t in columns.line(i).iter().filter(|&&t| t as usize > i) {
            let double_u = columns.line(t as usize).iter().any(|&j| {
                j > t
                    && filled
                        .rows()
                        .line(i)
                        .iter()
                        .any(|&k| k > t && filled.rows().line(j as usize).contains(&k))
            });
            if double_u {
                lists[t as usize].push(i as u32);
            }
        }
    }
    dependencies_of(lists)
}

/// The relaxed dependencies (after GLU 3.0, Algorithm 4): column `k` depends on `i < k` iff
/// U(i, k) ≠ 0 (look up) or L(k, i) ≠ 0 (look left).
///
/// Algorithm 4 skips the look up where column `i` of L is empty. Luge keeps it, so that the levels
/// also order the triangular solves with L, U and their transposes.
pub fn relaxed_dependencies(filled: &FilledPattern) -> CompressedPattern {
    let columns = transpose(filled.rows());
    dependencies_of(
        (0..filled.n())
            .map(|k| {
                let above = columns.line(k).iter().take_while(|&&i| (i as usize) < k);
                let mut list: Vec<u32> = above.chain(filled.lower(k)).copied().collect();
                list.sort_unstable();
                list.dedup();
                list
            })
            .collect(),
    )
}

/// Level of each column: 0 without dependencies, else one more than the largest level among them;
/// that is the length of the longest chain of dependencies that ends in the column.
///
/// # Panics
///
/// If a line lists a column that is not smaller than the line.
#[track_caller]
pub fn levels(dependencies: &CompressedPattern) -> Levels {
    let mut level_of = Vec::with_capacity(dependencies.major_dim());
    for (k, list) in dependencies.lines().enumerate() {
        let mut level = 0;
        for &i in list {
            assert!((i as usize) < k, "column {k} depends on {i}");
            level = level.max(level_of[i as usize] + 1);
        }
        level_of.push(level);
    }
    Levels::from_level_of(level_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::{pattern_of, patterns};
    use crate::symbolic::fill1;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn union(a: &CompressedPattern, b: &CompressedPattern) -> CompressedPattern {
        dependencies_of(
            (0..a.major_dim())
                .map(|k| {
                    let both: BTreeSet<u32> = a.line(k).iter().chain(b.line(k)).copied().collect();
                    both.into_iter().collect()
                })
                .collect(),
        )
    }

    fn is_subset(a: &CompressedPattern, b: &CompressedPattern) -> bool {
        (0..a.major_dim()).all(|k| a.line(k).iter().all(|i| b.line(k).contains(i)))
    }

    /// Every cell that column `i` of Algorithm 2 changes in other columns, and every cell that
    /// column `t` reads as an operand: `t` must wait for `i` iff the sets meet.
    fn hazards(filled: &FilledPattern) -> CompressedPattern {
        let n = filled.n();
        let has = |r: usize, c: usize| filled.rows().line(r).contains(&(c as u32));
        let mut writes = vec![BTreeSet::new(); n];
        let mut reads = vec![BTreeSet::new(); n];
        for j in 0..n {
            reads[j].insert((j, j));
            for r in (j + 1..n).filter(|&r| has(r, j)) {
                reads[j].insert((r, j));
                for c in (j + 1..n).filter(|&c| has(j, c)) {
                    reads[j].insert((j, c));
                    writes[j].insert((r, c));
                }
            }
        }
        dependencies_of(
            (0..n)
                .map(|t| {
                    (0..t)
                        .filter(|&i| !writes[i].is_disjoint(&reads[t]))
                        .map(|i| i as u32)
                        .collect()
                })
                .collect(),
        )
    }

    /// The hazard of GLU 3.0, Figure 4, with the paper's columns 4, 6, 7, 8 renumbered 0 to 3.
    #[test]
    fn the_papers_double_u_is_found_by_looking_left_only() {
        let diagonal = (0..4).map(|i| (i, i));
        // A(4,7), A(6,4), A(6,7), A(8,4), A(8,6), A(8,7)
        let entries = [(0, 2), (1, 0), (1, 2), (3, 0), (3, 1), (3, 2)];
        let filled = fill1(&pattern_of(4, diagonal.chain(entries)));
        assert_eq!(double_u_dependencies(&filled).line(1), [0]);
        assert!(look_up_dependencies(&filled).line(1).is_empty());
        assert_eq!(relaxed_dependencies(&filled).line(1), [0]);
        assert_eq!(
            levels(&relaxed_dependencies(&filled)).level_of(),
            [0, 1, 2, 3]
        );
        assert_eq!(
            levels(&look_up_dependencies(&filled)).level_of(),
            [0, 0, 1, 0]
        );
    }

    #[test]
    fn diagonal_and_chain_are_the_extremes() {
        for n in [0u32, 1, 31, 32, 33, 1025] {
            let diagonal = fill1(&pattern_of(n as usize, []));
            let flat = levels(&relaxed_dependencies(&diagonal));
            assert_eq!(flat.num_levels(), n.min(1) as usize);
            let chain = fill1(&pattern_of(n as usize, (1..n).map(|i| (i - 1, i))));
            let deep = levels(&relaxed_dependencies(&chain));
            assert_eq!(deep.level_of(), (0..n).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn relaxed_dependencies_are_the_union_of_both_looks(a in patterns(30)) {
            let filled = fill1(&a);
            let has = |r: u32, c: u32| filled.rows().line(r as usize).contains(&c);
            let relaxed = relaxed_dependencies(&filled);
            for k in 0..filled.n() as u32 {
                let both: Vec<u32> = (0..k).filter(|&i| has(i, k) || has(k, i)).collect();
                prop_assert_eq!(relaxed.line(k as usize), both);
            }
        }
    }

    #[test]
    #[should_panic(expected = "column 0 depends on 1")]
    fn a_dependency_on_a_later_column_is_refused() {
        levels(&pattern_of(2, [(0, 1)]));
    }

    proptest! {
        #[test]
        fn every_hazard_is_covered(a in patterns(30)) {
            let filled = fill1(&a);
            let exact = union(&look_up_dependencies(&filled), &double_u_dependencies(&filled));
            let relaxed = relaxed_dependencies(&filled);
            prop_assert!(is_subset(&hazards(&filled), &exact));
            prop_assert!(is_subset(&exact, &relaxed));
        }

        /// Neither set holds anything but hazards, once the columns are left out that write nothing
        /// at or below the diagonal of the waiting one.
        #[test]
        fn double_u_dependencies_are_hazards(a in patterns(30)) {
            let filled = fill1(&a);
            prop_assert!(is_subset(&double_u_dependencies(&filled), &hazards(&filled)));
        }

        #[test]
        fn a_level_is_the_longest_chain(a in patterns(12)) {
            let dependencies = relaxed_dependencies(&fill1(&a));
            let found = levels(&dependencies);
            for k in 0..dependencies.major_dim() {
                prop_assert_eq!(found.level_of()[k], longest_chain(&dependencies, k));
            }
        }
    }

    fn longest_chain(dependencies: &CompressedPattern, k: usize) -> u32 {
        let chains = dependencies.line(k).iter();
        chains
            .map(|&i| longest_chain(dependencies, i as usize) + 1)
            .max()
            .unwrap_or(0)
    }
}
