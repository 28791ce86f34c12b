//! Whether an elimination forest that was read from a file is one, and one of a given matrix: trees are built from it by code
//! that counts on that.

use luge_sparse::CompressedPattern;
use luge_sparse::etree::{EliminationForest, NONE, column_counts};

/// Whether the columns are a postorder of the forest, and their entries fit the matrix.
pub(crate) fn is_posted(forest: &EliminationForest) -> bool {
    let n = forest.parent.len();
    let mut children = vec![0u32; n];
    for (column, &parent) in forest.parent.iter().enumerate() {
        if parent == NONE {
            continue;
        }
        if parent as usize <= column || parent as usize >= n {
            return false;
        }
        children[parent as usize] += 1;
    }
    // Roots of the trees so far: the children of the next column are the last of them.
    let mut roots: Vec<u32> = Vec::new();
    for (column, &expected) in children.iter().enumerate() {
        let of_column = |&&root: &&u32| forest.parent[root as usize] == column as u32;
        let last = roots.iter().rev().take_while(of_column).count();
        if last != expected as usize {
            return false;
        }
        roots.truncate(roots.len() - last);
        roots.push(column as u32);
    }
    let fits = |(column, &count): (usize, &u32)| (1..=n - column).contains(&(count as usize));
    forest.counts.iter().enumerate().all(fits)
}

/// Whether a [posted](is_posted) forest is one of the symmetric matrix with this lower triangle, given by columns: the row of
/// each entry is an ancestor of its column, and counts are those of the rows that lead through a column. The only child of a
/// column may have the rows of that column and its own place: the two are eliminated together, as pivots of order 2 are, and
/// what was below the second is below the first.
///
/// Near linear in the entries.
pub(crate) fn fits(forest: &EliminationForest, lower: &CompressedPattern) -> bool {
    let EliminationForest { parent, counts } = forest;
    let n = parent.len();
    if [lower.major_dim(), lower.minor_dim(), counts.len()] != [n; 3] {
        return false;
    }
    let mut first: Vec<u32> = (0..n as u32).collect();
    let mut num_children = vec![0u32; n];
    for j in 0..n {
        if parent[j] != NONE {
            let above = parent[j] as usize;
            first[above] = first[above].min(first[j]);
            num_children[above] += 1;
        }
    }
    // Whether an earlier column has an entry in the row.
    let mut is_reached = vec![false; n];
    for (j, rows) in lower.lines().enumerate() {
        for &i in rows {
            // In a postorder the descendants of i are the columns from the first one up to i.
            if !(first[i as usize] as usize..=i as usize).contains(&j) {
                return false;
            }
            is_reached[i as usize] |= i as usize != j;
        }
    }
    // Counts are added up from leaves of rows. A row that nothing below leads to gets one, its last child, in whose count it
    // is then one too many.
    let is_lent = |j: usize| parent[j] as usize == j + 1 && !is_reached[j + 1];
    let leads_to = |j: u32| {
        let lent = is_lent(j as usize).then_some(j + 1);
        lower.line(j as usize).iter().copied().chain(lent)
    };
    let exact = column_counts(parent, leads_to);
    (0..n).all(|j| {
        let next = j + 1;
        let is_joined =
            parent[j] as usize == next && num_children[next] == 1 && counts[j] == counts[next] + 1;
        counts[j] == exact[j] - u32::from(is_lent(j)) || is_joined
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forest(parent: &[u32], counts: &[u32]) -> EliminationForest {
        EliminationForest {
            parent: parent.to_vec(),
            counts: counts.to_vec(),
        }
    }

    /// Rows of each column, from the diagonal on.
    fn lower(rows: &[&[u32]]) -> CompressedPattern {
        let mut ptr = vec![0];
        for rows in rows {
            ptr.push(ptr[ptr.len() - 1] + rows.len() as u64);
        }
        CompressedPattern::new(rows.len(), ptr, rows.concat()).unwrap()
    }

    #[test]
    fn a_forest_is_a_postorder_or_is_refused() {
        assert!(is_posted(&forest(&[], &[])));
        assert!(is_posted(&forest(&[2, 2, 4, 4, NONE], &[2, 2, 2, 2, 1])));
        assert!(is_posted(&forest(&[NONE, 2, NONE], &[1, 2, 1])));
        // 0 and 2 have one parent, and 1, which lies between them, another one.
        assert!(!is_posted(&forest(&[3, 4, 3, 4, NONE], &[1; 5])));
        for parent in [[1, 0], [0, NONE], [2, NONE]] {
            assert!(!is_posted(&forest(&parent, &[1, 1])), "{parent:?}");
        }
        assert!(!is_posted(&forest(&[1, NONE], &[3, 1])));
        assert!(!is_posted(&forest(&[1, NONE], &[2, 0])));
    }

    #[test]
    fn a_forest_fits_its_matrix_and_no_other() {
        // Column 0 leads to rows 1, 2 and 3, and fills the others.
        let matrix = lower(&[&[0, 1, 2, 3], &[1], &[2], &[3]]);
        assert!(fits(&forest(&[1, 2, 3, NONE], &[4, 3, 2, 1]), &matrix));
        // Row 3 is no ancestor of column 0.
        assert!(!fits(&forest(&[1, 2, NONE, NONE], &[4, 3, 1, 1]), &matrix));
        for counts in [[3, 3, 2, 1], [5, 3, 2, 1], [4, 3, 1, 1], [4, 3, 2, 2]] {
            let other = forest(&[1, 2, 3, NONE], &counts);
            assert!(!fits(&other, &matrix), "{counts:?}");
        }
        assert!(!fits(&forest(&[1, 2, NONE], &[3, 2, 1]), &matrix));
        // A pair: 0 has the rows of 1 although it leads to 1 alone.
        let pair = lower(&[&[0, 1], &[1, 2, 3], &[2], &[3]]);
        assert!(fits(&forest(&[1, 2, 3, NONE], &[2, 3, 2, 1]), &pair));
        assert!(fits(&forest(&[1, 2, 3, NONE], &[4, 3, 2, 1]), &pair));
        assert!(!fits(&forest(&[1, 2, 3, NONE], &[3, 3, 2, 1]), &pair));
        // Not if 1 has another child.
        let two = lower(&[&[0, 2], &[1, 2], &[2, 3], &[3]]);
        assert!(fits(&forest(&[2, 2, 3, NONE], &[2, 2, 2, 1]), &two));
        assert!(!fits(&forest(&[2, 2, 3, NONE], &[2, 3, 2, 1]), &two));
        // What was below the second of a pair, 2, is below the first, to which nothing leads; 0 may share its rows in turn.
        for (counts, fit) in [
            ([2, 2, 2, 1], true),
            ([2, 3, 2, 1], true),
            ([4, 3, 2, 1], true),
            ([3, 3, 2, 1], false),
            ([2, 3, 3, 1], false),
        ] {
            let below = forest(&[1, 2, 3, NONE], &counts);
            assert_eq!(fits(&below, &two), fit, "{counts:?}");
        }
    }
}
