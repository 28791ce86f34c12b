//! Columns that can be factorized side by side.
//!
//! As long as every column takes its pivot among the rows of its own subtree of the elimination tree of
//! B + Bᵀ, columns of disjoint subtrees never read each other. The tree is known beforehand, the pivots
//! are not: threads factorize subtrees as if that held, and those for which it did not are done again.

use std::ops::Range;

use luge_sparse::etree::{
    NONE, inverse, postorder, renumbered, try_elimination_tree, try_weighted_column_counts,
};
use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};

/// Subtrees are this part of the whole work, or smaller.
const SHARES: u64 = 48;

/// Nanoseconds, roughly, of a factorization that is worth sharing.
const WORTH_SHARING: u64 = 300_000;

/// The columns of a matrix cut into ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cpu) struct Subtrees {
    /// All columns, in order.
    pub(super) ranges: Vec<Part>,
}

/// Consecutive columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) columns: Range<usize>,
    /// Whether these are whole subtrees, not columns above them.
    pub(super) is_independent: bool,
}

impl Subtrees {
    /// For a matrix given by columns. `None` if there is too little to share. Where the order is no
    /// postorder of the tree, subtrees that are no ranges count as columns above.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub(in crate::cpu) fn new(
        cols: &CompressedPattern,
        cancel: &CancelFlag,
    ) -> Result<Option<Self>, Cancelled> {
        let n = cols.major_dim();
        // Each column takes some time for each of its entries.
        if (cols.nnz() as u64) * 20 < WORTH_SHARING {
            return Ok(None);
        }
        cancel.check()?;
        let rows = cols.transpose();
        let joined = |k: u32| {
            let own = cols.line(k as usize).iter();
            own.chain(rows.line(k as usize)).copied()
        };
        let parent = try_elimination_tree(n, joined, || cancel.check())?;
        let mut first: Vec<u32> = (0..n as u32).collect();
        let mut size = vec![1u32; n];
        for k in 0..n {
            if parent[k] != NONE {
                let p = parent[k] as usize;
                first[p] = first[p].min(first[k]);
                size[p] += size[k];
            }
        }
        // Counting wants a postorder, whatever the order of the columns.
        let post = postorder(&parent);
        cancel.check()?;
        let position = inverse(&post);
        let counts = try_weighted_column_counts(
            &renumbered(&parent, &post, &position),
            |_| 1,
            |k| joined(post[k as usize]).map(|w| position[w as usize]),
            || cancel.check(),
        )?;
        let mut work: Vec<u64> = position
            .iter()
            .map(|&at| u64::from(counts[at as usize]))
            .map(|count| count * (40 + count))
            .collect();
        let total: u64 = work.iter().sum();
        let largest = total / SHARES + 1;
        for k in 0..n {
            if parent[k] != NONE {
                work[parent[k] as usize] += work[k];
            }
        }

        // From the top down, the largest subtrees that are small enough, and ranges.
        let mut found: Vec<(Range<usize>, u64)> = Vec::new();
        let mut end = n;
        while end > 0 {
            let k = end - 1;
            if work[k] <= largest && first[k] + size[k] == end as u32 {
                end = first[k] as usize;
                found.push((end..k + 1, work[k]));
            } else {
                end = k;
            }
        }

        let mut ranges: Vec<Part> = Vec::new();
        let mut push = |columns: Range<usize>, is_independent| {
            if !columns.is_empty() {
                ranges.push(Part {
                    columns,
                    is_independent,
                });
            }
        };
        // Neighbours are taken together until they are large enough.
        let (mut together, mut gathered, mut shared) = (0..0, 0, 0);
        for (range, work) in found.into_iter().rev() {
            if range.start > together.end || gathered > largest / 2 {
                let above = together.end..range.start;
                push(together, true);
                push(above, false);
                (together, gathered) = (range.start..range.start, 0);
            }
            together.end = range.end;
            gathered += work;
            shared += work;
        }
        let above = together.end..n;
        push(together, true);
        push(above, false);
        let worth = total >= WORTH_SHARING && 4 * shared >= total;
        let found = Self { ranges };
        Ok((worth && found.independent().count() > 1).then_some(found))
    }

    /// The ranges of whole subtrees.
    pub(super) fn independent(&self) -> impl Iterator<Item = &Range<usize>> {
        let independent = self.ranges.iter().filter(|part| part.is_independent);
        independent.map(|part| &part.columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subtrees(cols: &CompressedPattern) -> Option<Subtrees> {
        Subtrees::new(cols, &CancelFlag::new()).unwrap()
    }

    /// A tridiagonal matrix of `n` columns in nested dissection order, `levels` deep.
    fn dissected(n: usize, levels: usize) -> CompressedPattern {
        fn order(range: Range<usize>, levels: usize, out: &mut Vec<usize>) {
            if levels == 0 || range.len() < 3 {
                out.extend(range);
                return;
            }
            let middle = range.start + range.len() / 2;
            order(range.start..middle, levels - 1, out);
            order(middle + 1..range.end, levels - 1, out);
            out.push(middle);
        }
        let mut old = Vec::new();
        order(0..n, levels, &mut old);
        let mut new = vec![0; n];
        for (k, &v) in old.iter().enumerate() {
            new[v] = k as u32;
        }
        let (mut ptr, mut idx) = (vec![0], Vec::new());
        for &v in &old {
            let mut rows: Vec<u32> = (v.saturating_sub(1)..(v + 2).min(n))
                .map(|w| new[w])
                .collect();
            rows.sort_unstable();
            idx.extend(rows);
            ptr.push(idx.len() as u64);
        }
        CompressedPattern::new(n, ptr, idx).unwrap()
    }

    #[test]
    fn ranges_cover_the_columns_and_do_not_lead_to_each_other() {
        let cols = dissected(40_000, 10);
        let subtrees = subtrees(&cols).unwrap();
        let mut next = 0;
        for Part {
            columns,
            is_independent,
        } in &subtrees.ranges
        {
            assert_eq!(columns.start, next);
            next = columns.end;
            if !is_independent {
                continue;
            }
            // What is joined to a column of a subtree from outside is an ancestor, in no subtree.
            for k in columns.clone() {
                for &row in cols.line(k) {
                    let row = row as usize;
                    let inside = columns.contains(&row);
                    let other = subtrees.independent().any(|range| range.contains(&row));
                    assert!(inside || !other, "column {k}, row {row}");
                    assert!(row >= columns.start);
                }
            }
        }
        assert_eq!(next, 40_000);
        assert!(subtrees.independent().count() >= SHARES as usize / 2);
    }

    #[test]
    fn a_path_and_a_small_matrix_are_not_shared() {
        assert_eq!(subtrees(&dissected(40_000, 0)), None);
        assert_eq!(subtrees(&dissected(400, 4)), None);
    }

    /// Vertex k is joined to k + 2: two paths, intertwined, whose order is no postorder.
    #[test]
    fn other_orders_are_not_shared() {
        let n = 40_000u32;
        let (mut ptr, mut idx) = (vec![0], Vec::new());
        for k in 0..n {
            idx.extend([k.checked_sub(2), Some(k)].into_iter().flatten());
            idx.extend((k + 2 < n).then_some(k + 2));
            ptr.push(idx.len() as u64);
        }
        let cols = CompressedPattern::new(n as usize, ptr, idx).unwrap();
        assert_eq!(subtrees(&cols), None);
    }
}
