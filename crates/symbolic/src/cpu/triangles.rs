//! The strictly upper parts of the rows and of the columns' mirror images.

use luge_sparse::CompressedPattern;

/// For every pivot k of a square pattern, the entries beyond k of its row and of its column.
///
/// The rows are read in place; the columns take one counting sort of the lower triangle.
pub(super) struct Triangles<'a> {
    rows: &'a CompressedPattern,
    /// Where row k goes on behind the diagonal, counted from the start of the row.
    beyond: Vec<u32>,
    col_ptr: Vec<u64>,
    col_idx: Vec<u32>,
}

impl<'a> Triangles<'a> {
    /// Of the square CSR pattern `rows`.
    pub(super) fn new(rows: &'a CompressedPattern) -> Self {
        let n = rows.major_dim();
        let mut beyond = Vec::with_capacity(n);
        let mut col_ptr = vec![0u64; n + 1];
        for (i, row) in rows.lines().enumerate() {
            let mut below = 0;
            for &j in row.iter().take_while(|&&j| (j as usize) < i) {
                col_ptr[j as usize + 1] += 1;
                below += 1;
            }
            let diagonal = row.get(below) == Some(&(i as u32));
            beyond.push((below + usize::from(diagonal)) as u32);
        }
        for k in 0..n {
            col_ptr[k + 1] += col_ptr[k];
        }
        let mut next = col_ptr[..n].to_vec();
        let mut col_idx = vec![0u32; col_ptr[n] as usize];
        for (i, row) in rows.lines().enumerate() {
            for &j in row.iter().take_while(|&&j| (j as usize) < i) {
                let slot = &mut next[j as usize];
                col_idx[*slot as usize] = i as u32;
                *slot += 1;
            }
        }
        Self {
            rows,
            beyond,
            col_ptr,
            col_idx,
        }
    }

    /// Order of the pattern.
    pub(super) fn n(&self) -> usize {
        self.beyond.len()
    }

    /// Columns of row `k` beyond k, increasing.
    pub(super) fn row(&self, k: usize) -> &[u32] {
        &self.rows.line(k)[self.beyond[k] as usize..]
    }

    /// Rows of column `k` beyond k, increasing.
    pub(super) fn col(&self, k: usize) -> &[u32] {
        &self.col_idx[self.col_ptr[k] as usize..self.col_ptr[k + 1] as usize]
    }
}
