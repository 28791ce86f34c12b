//! Matching rows to columns: what makes a matrix structurally singular.

use luge_sparse::CompressedPattern;

/// A largest set of entries of which no two share a row or a column, found by augmenting paths
/// (breadth first, one search a row; O(n·nnz)). Returns the column of each row, `None` for a row that
/// stays without.
///
/// Which of the largest sets is returned is not specified; its size is the structural rank.
pub fn maximum_matching(rows: &CompressedPattern) -> Vec<Option<u32>> {
    let mut col_of: Vec<Option<u32>> = vec![None; rows.major_dim()];
    let mut row_of: Vec<Option<usize>> = vec![None; rows.minor_dim()];
    for start in 0..rows.major_dim() {
        // The row from which each column was reached in this search.
        let mut reached_from: Vec<Option<usize>> = vec![None; rows.minor_dim()];
        let mut queue = std::collections::VecDeque::from([start]);
        let mut free_column = None;
        while let (None, Some(i)) = (free_column, queue.pop_front()) {
            for &j in rows.line(i) {
                if reached_from[j as usize].is_some() {
                    continue;
                }
                reached_from[j as usize] = Some(i);
                match row_of[j as usize] {
                    Some(other) => queue.push_back(other),
                    None => {
                        free_column = Some(j);
                        break;
                    }
                }
            }
        }
        // Walk back to the start: each row on the way takes the column through which it was left.
        let mut column = free_column;
        while let Some(j) = column {
            let i = reached_from[j as usize].expect("the path was reached");
            column = col_of[i].replace(j);
            row_of[j as usize] = Some(i);
        }
    }
    col_of
}

/// The structural rank: the size of a largest matching, which bounds the rank from above and is
/// reached for almost all values.
pub fn structural_rank(rows: &CompressedPattern) -> usize {
    maximum_matching(rows).iter().flatten().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::{pattern_of, patterns};
    use proptest::prelude::*;

    /// The best that can be done for rows from `i` on, with the columns in `free`: all choices tried.
    fn brute_force(a: &CompressedPattern, i: usize, free: u32) -> usize {
        if i == a.major_dim() {
            return 0;
        }
        let choices = a.line(i).iter().filter(|&&j| free & (1 << j) != 0);
        let best = choices
            .map(|&j| 1 + brute_force(a, i + 1, free & !(1 << j)))
            .max();
        best.unwrap_or(0).max(brute_force(a, i + 1, free))
    }

    #[test]
    fn an_augmenting_path_moves_earlier_choices() {
        // Row 2 can only have column 0, which moves row 0 to column 1 and row 1 to column 2.
        let a = pattern_of(3, [(0, 0), (0, 1), (1, 1), (1, 2), (2, 0)]);
        assert_eq!(maximum_matching(&a), [Some(1), Some(2), Some(0)]);
        assert_eq!(structural_rank(&pattern_of(33, [])), 0);
        assert_eq!(structural_rank(&pattern_of(0, [])), 0);
    }

    #[test]
    fn a_chain_of_a_thousand_moves() {
        // Rows prefer the column before them, and the last row wants column 0.
        let n = 1025u32;
        let chain = (0..n - 1).flat_map(|i| [(i, i), (i, i + 1)]);
        let a = pattern_of(n as usize, chain.chain([(n - 1, 0)]));
        assert_eq!(structural_rank(&a), n as usize);
    }

    proptest! {
        #[test]
        fn no_choice_does_better(a in patterns(7)) {
            let matching = maximum_matching(&a);
            let mut taken = vec![false; a.minor_dim()];
            for (i, j) in matching.iter().enumerate().filter_map(|(i, j)| Some((i, (*j)?))) {
                prop_assert!(a.line(i).contains(&j));
                prop_assert!(!std::mem::replace(&mut taken[j as usize], true));
            }
            let all = (1u32 << a.minor_dim()) - 1;
            prop_assert_eq!(structural_rank(&a), brute_force(&a, 0, all));
        }
    }
}
