//! Row structure of the fronts and relative indices for extend-add.

use luge_sparse::CompressedPattern;
use luge_sparse::etree::NONE;

use super::Front;

/// The graph of B + Bᵀ, read off B and Bᵀ; entries that both have appear twice, the diagonal too.
pub(super) struct Symmetrized<'a> {
    /// Columns of B.
    pub cols: &'a CompressedPattern,
    /// Rows of B.
    pub rows: &'a CompressedPattern,
}

impl Symmetrized<'_> {
    pub fn neighbours(&self, v: u32) -> impl Iterator<Item = u32> + '_ {
        let v = v as usize;
        self.cols.lane(v).iter().chain(self.rows.lane(v)).copied()
    }
}

/// Fills `rows` (the rows below the pivots of each front, ascending) from the pattern: row i belongs
/// to every front on the tree paths from its earlier neighbours up to its own front. Rows are
/// visited in ascending order, so nothing is sorted.
pub(super) fn row_structure(
    graph: &Symmetrized<'_>,
    fronts: &[Front],
    front_of: &[u32],
    perm: &[u32],
    inv_perm: &[u32],
    rows: &mut [u32],
) {
    let mut next: Vec<u64> = fronts.iter().map(|f| f.rows).collect();
    let mut seen = vec![NONE; fronts.len()];
    for (i, &old) in perm.iter().enumerate() {
        let own = front_of[i];
        for w in graph.neighbours(old) {
            let j = inv_perm[w as usize] as usize;
            if j >= i {
                continue;
            }
            let mut s = front_of[j];
            while s != own && seen[s as usize] != i as u32 {
                seen[s as usize] = i as u32;
                rows[next[s as usize] as usize] = i as u32;
                next[s as usize] += 1;
                s = fronts[s as usize].parent;
            }
        }
    }
    debug_assert!(
        fronts
            .iter()
            .zip(&next)
            .all(|(f, &end)| f.rows + u64::from(f.below) == end),
        "the structure has as many rows as the column counts say"
    );
}

/// For each row below the pivots of a front, its position in the parent's front; and how many of
/// them are pivots there.
pub(super) fn relative_indices(fronts: &mut [Front], children: &[u32], rows: &[u32]) -> Vec<u32> {
    let n = fronts.last().map_or(0, |f| (f.start + f.pivots) as usize);
    let mut relative = vec![0u32; rows.len()];
    let mut position = vec![0u32; n];
    for p in 0..fronts.len() {
        let parent = fronts[p];
        if parent.num_children == 0 {
            continue;
        }
        for (i, &row) in rows[parent.row_range()].iter().enumerate() {
            position[row as usize] = parent.pivots + i as u32;
        }
        let end = parent.start + parent.pivots;
        for &c in &children[parent.child_range()] {
            let child = &mut fronts[c as usize];
            let range = child.row_range();
            let mut in_pivots = 0;
            for (target, &row) in relative[range.clone()].iter_mut().zip(&rows[range]) {
                if row < end {
                    in_pivots += 1;
                    *target = row - parent.start;
                } else {
                    *target = position[row as usize];
                }
            }
            child.pivots_in_parent = in_pivots;
        }
    }
    relative
}
