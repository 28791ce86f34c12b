//! Triangular solves on one diagonal block.

use std::ops::Range;

use luge_sparse::Scalar;

use super::ColumnLu;

impl<F: Scalar> ColumnLu<F> {
    /// Solves L·U·X = Y on the rows `block`, which must be those of whole diagonal blocks: other rows
    /// are neither read nor written.
    ///
    /// `x` holds Y and receives X: entry `i` of vector `v` is `x[v * ld + i]`, rows counted as in P·B.
    ///
    /// # Panics
    ///
    /// If `block` is beyond the matrix, or `x` is too short for `nrhs` vectors.
    #[track_caller]
    pub fn solve_range(&self, block: Range<usize>, x: &mut [F], ld: usize, nrhs: usize) {
        self.assert_shape(&block, x.len(), ld, nrhs);
        for v in 0..nrhs {
            let x = &mut x[v * ld..];
            for j in block.clone() {
                let xj = x[j];
                let (rows, values) = self.lower.column(j);
                for (&i, &l) in rows.iter().zip(values) {
                    x[i as usize] -= l * xj;
                }
            }
            for j in block.clone().rev() {
                let xj = x[j] / self.pivots[j];
                x[j] = xj;
                let (rows, values) = self.upper.column(j);
                for (&i, &u) in rows.iter().zip(values) {
                    x[i as usize] -= u * xj;
                }
            }
        }
    }

    /// Solves (L·U)ᵀ·X = Y on the rows `block`; otherwise as [`solve_range`](Self::solve_range).
    ///
    /// # Panics
    ///
    /// As `solve_range`.
    #[track_caller]
    pub fn solve_transpose_range(&self, block: Range<usize>, x: &mut [F], ld: usize, nrhs: usize) {
        self.assert_shape(&block, x.len(), ld, nrhs);
        for v in 0..nrhs {
            let x = &mut x[v * ld..];
            for j in block.clone() {
                let (rows, values) = self.upper.column(j);
                let mut sum = x[j];
                for (&i, &u) in rows.iter().zip(values) {
                    sum -= u * x[i as usize];
                }
                x[j] = sum / self.pivots[j];
            }
            for j in block.clone().rev() {
                let (rows, values) = self.lower.column(j);
                let mut sum = x[j];
                for (&i, &l) in rows.iter().zip(values) {
                    sum -= l * x[i as usize];
                }
                x[j] = sum;
            }
        }
    }

    #[track_caller]
    fn assert_shape(&self, block: &Range<usize>, len: usize, ld: usize, nrhs: usize) {
        assert!(
            block.start <= block.end && block.end <= self.n(),
            "the block is not within the matrix"
        );
        assert!(
            nrhs == 0 || (nrhs == 1 || ld >= block.end) && len >= (nrhs - 1) * ld + block.end,
            "the vectors are too short"
        );
    }
}
