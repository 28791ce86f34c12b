//! Where the values of L+U live.

use std::ops::Range;

use luge_sparse::{CompressedPattern, FilledPattern};

/// The filled pattern by columns: column j holds first the rows of U(·, j), then the diagonal, then
/// the rows of L(·, j), in increasing order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LuPattern {
    cols: CompressedPattern,
    diag_pos: Vec<u64>,
}

impl LuPattern {
    /// The columns of a filled pattern.
    pub fn new(filled: &FilledPattern) -> Self {
        Self::from_columns(filled.rows().transpose())
            .unwrap_or_else(|j| unreachable!("a filled pattern has diagonal entry {j}"))
    }

    /// Takes the columns of L+U; `Err` with the first column whose diagonal entry is missing.
    ///
    /// # Errors
    ///
    /// The index of the first column without its diagonal entry.
    pub fn from_columns(cols: CompressedPattern) -> Result<Self, usize> {
        let mut diag_pos = Vec::with_capacity(cols.major_dim());
        for (j, col) in cols.lines().enumerate() {
            let above = col.binary_search(&(j as u32)).map_err(|_| j)?;
            diag_pos.push(cols.ptr()[j] + above as u64);
        }
        Ok(Self { cols, diag_pos })
    }

    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.diag_pos.len()
    }

    /// Entries of L below the diagonal plus those of U with the diagonal.
    pub fn nnz(&self) -> usize {
        self.cols.nnz()
    }

    /// The columns.
    pub fn cols(&self) -> &CompressedPattern {
        &self.cols
    }

    /// Offsets of the columns, `n + 1` of them.
    pub fn col_ptr(&self) -> &[u64] {
        self.cols.ptr()
    }

    /// Row of each entry.
    pub fn row_idx(&self) -> &[u32] {
        self.cols.idx()
    }

    /// Position of each diagonal entry in [`row_idx`](Self::row_idx).
    pub fn diag_pos(&self) -> &[u64] {
        &self.diag_pos
    }

    /// Positions of U(·, j) above the diagonal.
    pub fn upper(&self, j: usize) -> Range<usize> {
        self.cols.ptr()[j] as usize..self.diag_pos[j] as usize
    }

    /// Positions of L(·, j) below the diagonal.
    pub fn lower(&self, j: usize) -> Range<usize> {
        self.diag_pos[j] as usize + 1..self.cols.ptr()[j + 1] as usize
    }

    /// For each entry of B, given by rows, its position among the values of L+U: element `p` of the
    /// result belongs to `rows.idx()[p]`.
    ///
    /// Cost: one pass over both patterns.
    ///
    /// # Panics
    ///
    /// If the dimensions differ, or an entry of B is not in the filled pattern.
    #[track_caller]
    pub fn positions_of(&self, rows: &CompressedPattern) -> Vec<u64> {
        let n = self.n();
        assert_eq!(
            (rows.major_dim(), rows.minor_dim()),
            (n, n),
            "matrix and filled pattern differ in size"
        );
        // Rows are visited in order, so each column is walked once, from its first row on.
        let mut next: Vec<u64> = self.cols.ptr()[..n].to_vec();
        let mut positions = Vec::with_capacity(rows.nnz());
        for (i, row) in rows.lines().enumerate() {
            for &j in row {
                let at = &mut next[j as usize];
                let end = self.cols.ptr()[j as usize + 1];
                while *at < end && (self.cols.idx()[*at as usize] as usize) < i {
                    *at += 1;
                }
                assert!(
                    *at < end && self.cols.idx()[*at as usize] as usize == i,
                    "entry ({i}, {j}) is not in the filled pattern"
                );
                positions.push(*at);
            }
        }
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_by_three() -> LuPattern {
        // x . x
        // x x x
        // . x x
        let rows = CompressedPattern::new(3, vec![0, 2, 5, 7], vec![0, 2, 0, 1, 2, 1, 2]).unwrap();
        LuPattern::new(&FilledPattern::new(rows).unwrap())
    }

    #[test]
    fn columns_split_at_the_diagonal() {
        let lu = three_by_three();
        assert_eq!(lu.col_ptr(), [0, 2, 4, 7]);
        assert_eq!(lu.row_idx(), [0, 1, 1, 2, 0, 1, 2]);
        assert_eq!(lu.diag_pos(), [0, 2, 6]);
        assert_eq!((lu.upper(2), lu.lower(0)), (4..6, 1..2));
    }

    #[test]
    fn every_entry_finds_its_place() {
        let b = CompressedPattern::new(3, vec![0, 1, 3, 4], vec![2, 0, 2, 1]).unwrap();
        assert_eq!(three_by_three().positions_of(&b), [4, 1, 5, 3]);
    }

    #[test]
    #[should_panic(expected = "entry (2, 0) is not in the filled pattern")]
    fn an_entry_outside_is_a_broken_call() {
        let b = CompressedPattern::new(3, vec![0, 0, 0, 1], vec![0]).unwrap();
        three_by_three().positions_of(&b);
    }
}
