//! Sizes of the factors without their pattern.

/// How many entries L and U have, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    /// Entries of L, its unit diagonal included.
    pub lnz: u64,
    /// Entries of U, its diagonal included.
    pub unz: u64,
    /// Floating-point operations, counted as
    /// [`FilledPattern::flops`](luge_sparse::FilledPattern::flops) does.
    pub flops: f64,
    /// Entries of each row of L left of the diagonal.
    pub lower_rows: Vec<u32>,
    /// Entries of each column of L below the diagonal.
    pub lower_cols: Vec<u32>,
    /// Entries of each row of U right of the diagonal.
    pub upper_rows: Vec<u32>,
}

impl Counts {
    /// Sums what the rows and columns have.
    pub(super) fn new(lower_rows: Vec<u32>, lower_cols: Vec<u32>, upper_rows: Vec<u32>) -> Self {
        let n = lower_rows.len() as u64;
        let sum = |counts: &[u32]| n + counts.iter().map(|&c| u64::from(c)).sum::<u64>();
        Self {
            lnz: sum(&lower_cols),
            unz: sum(&upper_rows),
            flops: lower_cols
                .iter()
                .zip(&upper_rows)
                .map(|(&below, &right)| f64::from(below) * (1.0 + 2.0 * f64::from(right)))
                .sum(),
            lower_rows,
            lower_cols,
            upper_rows,
        }
    }

    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.lower_rows.len()
    }

    /// Entries of L+U, the diagonal counted once.
    pub fn nnz(&self) -> u64 {
        self.lnz + self.unz - self.n() as u64
    }

    /// Bytes of the filled pattern: 4 an entry, 16 a row.
    pub fn pattern_bytes(&self) -> u64 {
        4 * self.nnz() + 16 * self.n() as u64
    }

    /// First row at whose end the filled pattern has more than `bytes`; `None` if it never has.
    pub(super) fn first_row_beyond(&self, bytes: u64) -> Option<usize> {
        let mut used = 16 * self.n() as u64;
        self.lower_rows
            .iter()
            .zip(&self.upper_rows)
            .position(|(&left, &right)| {
                used += 4 * (u64::from(left) + 1 + u64::from(right));
                used > bytes
            })
    }
}
