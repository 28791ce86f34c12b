//! Row structure of the fronts and relative indices for extend-add.

use luge_sparse::CompressedPattern;
use luge_sparse::etree::NONE;

use super::Front;

/// The rows of a square matrix given by columns, with fewer than 2³² entries.
pub(crate) struct Transposed {
    ptr: Vec<u32>,
    /// Columns of the entries, ascending in each row.
    idx: Vec<u32>,
    /// Position of each entry in the columns.
    map: Vec<u32>,
}

impl Transposed {
    pub(super) fn new(cols: &CompressedPattern) -> Self {
        let n = cols.major_dim();
        // Counts are shifted by two, so that after the sums ptr[i + 1] is where row i starts and, once it is filled,
        // where it ends.
        let mut ptr = vec![0u32; n + 2];
        for &i in cols.idx() {
            ptr[i as usize + 2] += 1;
        }
        for i in 2..n + 2 {
            ptr[i] += ptr[i - 1];
        }
        let mut idx = vec![0u32; cols.nnz()];
        let mut map = vec![0u32; cols.nnz()];
        for (j, lane) in cols.lanes().enumerate() {
            let start = cols.ptr()[j] as u32;
            for (&i, p) in lane.iter().zip(start..) {
                let next = &mut ptr[i as usize + 1];
                idx[*next as usize] = j as u32;
                map[*next as usize] = p;
                *next += 1;
            }
        }
        ptr.pop();
        Self { ptr, idx, map }
    }

    pub fn range(&self, i: usize) -> std::ops::Range<usize> {
        self.ptr[i] as usize..self.ptr[i + 1] as usize
    }

    fn lane(&self, i: usize) -> &[u32] {
        &self.idx[self.range(i)]
    }

    /// Columns of the entries of row `i`, and their positions in the columns.
    pub fn entries(&self, i: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let range = self.range(i);
        let map = self.map[range.clone()].iter();
        self.idx[range].iter().copied().zip(map.copied())
    }
}

/// The graph of B + Bᵀ, read off B, and off Bᵀ if that has another pattern; then entries that both have appear twice.
/// The diagonal appears too.
pub(super) struct Symmetrized<'a> {
    /// Columns of B.
    cols: &'a CompressedPattern,
    /// Rows of B, if its pattern is not symmetric.
    rows: Option<&'a Transposed>,
}

impl<'a> Symmetrized<'a> {
    pub fn new(cols: &'a CompressedPattern, rows: &'a Transposed) -> Self {
        let is_symmetric = cols.idx() == rows.idx
            && cols
                .ptr()
                .iter()
                .zip(&rows.ptr)
                .all(|(&p, &q)| p == u64::from(q));
        Self {
            cols,
            rows: (!is_symmetric).then_some(rows),
        }
    }

    pub fn neighbours(&self, v: u32) -> impl Iterator<Item = u32> + '_ {
        let v = v as usize;
        let more = self.rows.map_or(&[][..], |rows| rows.lane(v));
        self.cols.lane(v).iter().chain(more).copied()
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

/// For each row below the pivots of a front, its position in the parent's front; and for each front, how many of them are
/// pivots there.
pub(super) fn relative_indices(
    fronts: &[Front],
    children: &[u32],
    rows: &[u32],
) -> (Vec<u32>, Vec<u32>) {
    let n = fronts.last().map_or(0, |f| (f.start + f.pivots) as usize);
    let mut relative = vec![0u32; rows.len()];
    let mut pivots_in_parent = vec![0u32; fronts.len()];
    let mut position = vec![0u32; n];
    for parent in fronts {
        if parent.num_children == 0 {
            continue;
        }
        for (i, &row) in rows[parent.row_range()].iter().enumerate() {
            position[row as usize] = parent.pivots + i as u32;
        }
        let end = parent.start + parent.pivots;
        for &c in &children[parent.child_range()] {
            let range = fronts[c as usize].row_range();
            let mut in_pivots = 0;
            for (target, &row) in relative[range.clone()].iter_mut().zip(&rows[range]) {
                if row < end {
                    in_pivots += 1;
                    *target = row - parent.start;
                } else {
                    *target = position[row as usize];
                }
            }
            pivots_in_parent[c as usize] = in_pivots;
        }
    }
    (relative, pivots_in_parent)
}
