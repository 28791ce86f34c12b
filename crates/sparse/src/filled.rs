//! The filled pattern of an LU factorization.

use crate::pattern::CompressedPattern;

/// The pattern of L+U of a square matrix in CSR form: rows sorted, every diagonal entry present.
///
/// Row `i` holds first the columns of L(i, ·), then the diagonal, then those of U(i, ·).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilledPattern {
    rows: CompressedPattern,
    diag_pos: Vec<u64>,
}

impl FilledPattern {
    /// Takes the rows of L+U; `Err` with the first row whose diagonal entry is missing.
    ///
    /// # Errors
    ///
    /// The index of the first row without its diagonal entry.
    ///
    /// # Panics
    ///
    /// If the pattern is not square.
    #[track_caller]
    pub fn new(rows: CompressedPattern) -> Result<Self, usize> {
        assert_eq!(
            rows.major_dim(),
            rows.minor_dim(),
            "a filled pattern is square"
        );
        let mut diag_pos = Vec::with_capacity(rows.major_dim());
        for (i, row) in rows.lines().enumerate() {
            let below = row.binary_search(&(i as u32)).map_err(|_| i)?;
            diag_pos.push(rows.ptr()[i] + below as u64);
        }
        Ok(Self { rows, diag_pos })
    }

    /// Takes what the symbolic phase has built, without going through the entries again: offsets and
    /// columns of the rows as in [`CompressedPattern::new`], and the position of each diagonal entry.
    ///
    /// # Panics
    ///
    /// If the arrays have the wrong lengths; with debug assertions, if any invariant is broken.
    ///
    /// # Safety
    ///
    /// The rows are as [`CompressedPattern::new`] wants them, with as many columns as there are rows,
    /// and the positions are those of their diagonal entries.
    #[track_caller]
    pub unsafe fn new_unchecked(ptr: Vec<u64>, idx: Vec<u32>, diag_pos: Vec<u64>) -> Self {
        assert_eq!(ptr.len(), diag_pos.len() + 1, "one diagonal entry per row");
        assert_eq!(ptr.last(), Some(&(idx.len() as u64)), "last offset");
        let filled = Self {
            // SAFETY: the caller's.
            rows: unsafe { CompressedPattern::new_unchecked(diag_pos.len(), ptr, idx) },
            diag_pos,
        };
        debug_assert_eq!(
            Self::new(filled.rows.clone()).as_ref(),
            Ok(&filled),
            "diagonal positions"
        );
        filled
    }

    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.diag_pos.len()
    }

    /// Entries of L below the diagonal plus those of U with the diagonal.
    pub fn nnz(&self) -> usize {
        self.rows.nnz()
    }

    /// Entries of L, its unit diagonal included.
    pub fn lnz(&self) -> usize {
        (0..self.n()).map(|i| self.lower(i).len() + 1).sum()
    }

    /// Entries of U, its diagonal included.
    pub fn unz(&self) -> usize {
        self.nnz() + self.n() - self.lnz()
    }

    /// All rows of L+U.
    pub fn rows(&self) -> &CompressedPattern {
        &self.rows
    }

    /// Position of each diagonal entry in `rows().idx()`.
    pub fn diag_pos(&self) -> &[u64] {
        &self.diag_pos
    }

    /// Columns of L(i, ·) left of the diagonal.
    pub fn lower(&self, i: usize) -> &[u32] {
        &self.rows.idx()[self.rows.ptr()[i] as usize..self.diag_pos[i] as usize]
    }

    /// Columns of U(i, ·) right of the diagonal.
    pub fn upper(&self, i: usize) -> &[u32] {
        &self.rows.idx()[self.diag_pos[i] as usize + 1..self.rows.ptr()[i + 1] as usize]
    }

    /// Floating-point operations of the factorization: for each pivot k one division per entry of
    /// L(·, k) and a multiplication and an addition per pair of L(·, k) and U(k, ·).
    pub fn flops(&self) -> f64 {
        let mut below = vec![0u64; self.n()];
        for i in 0..self.n() {
            for &k in self.lower(i) {
                below[k as usize] += 1;
            }
        }
        (0..self.n())
            .map(|k| below[k] as f64 * (1.0 + 2.0 * self.upper(k).len() as f64))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_split_at_the_diagonal() {
        // x . x
        // x x .
        // x x x
        let rows = CompressedPattern::new(3, vec![0, 2, 4, 7], vec![0, 2, 0, 1, 0, 1, 2]).unwrap();
        let filled = FilledPattern::new(rows).unwrap();
        assert_eq!(filled.lower(2), [0, 1]);
        assert_eq!(filled.upper(0), [2]);
        assert_eq!((filled.lnz(), filled.unz()), (6, 4));
        // k=0: two divisions, two products; k=1: one division, no entry of U.
        assert_eq!(filled.flops(), 2.0 * 3.0 + 1.0);
    }

    #[test]
    fn a_missing_diagonal_is_named() {
        let rows = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 0]).unwrap();
        assert_eq!(FilledPattern::new(rows), Err(1));
    }
}
