//! A matrix in the forms that the solvers take.

use sprs::CsMat;

/// A square matrix by rows for Luge and by columns with 32-bit indices for the others, so that no
/// solver is timed while it converts its input.
#[derive(Debug, Clone)]
pub struct Matrix<T = f64> {
    rows: CsMat<T>,
    col_ptr: Vec<u32>,
    row_idx: Vec<u32>,
    values: Vec<T>,
}

/// A matrix that is not square, or too large for signed 32-bit indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{rows} × {cols} with {nnz} entries is not square or too large for 32-bit indices")]
pub struct TooLarge {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// Number of entries.
    pub nnz: usize,
}

impl<T: Copy + Default> Matrix<T> {
    /// Takes a square matrix, stored by rows or by columns.
    ///
    /// # Errors
    ///
    /// [`TooLarge`] if it is not square, or if n or nnz exceeds 2³¹ − 1.
    pub fn new(a: CsMat<T>) -> Result<Self, TooLarge> {
        let most = i32::MAX as usize;
        if a.rows() != a.cols() || a.rows() > most || a.nnz() > most {
            return Err(TooLarge {
                rows: a.rows(),
                cols: a.cols(),
                nnz: a.nnz(),
            });
        }
        let cols = a.to_csc();
        let rows = if a.is_csr() { a } else { a.to_csr() };
        // No index exceeds 2³¹ − 1: checked above.
        let narrow = |indices: &[usize]| indices.iter().map(|&i| i as u32).collect();
        Ok(Self {
            rows,
            col_ptr: narrow(cols.indptr().raw_storage()),
            row_idx: narrow(cols.indices()),
            values: cols.data().to_vec(),
        })
    }

    /// Order.
    pub fn n(&self) -> usize {
        self.rows.rows()
    }

    /// Stored entries.
    pub fn nnz(&self) -> usize {
        self.values.len()
    }

    /// The matrix by rows.
    pub fn rows(&self) -> &CsMat<T> {
        &self.rows
    }

    /// Where each column starts in [`row_idx`](Self::row_idx); n + 1 of them.
    pub fn col_ptr(&self) -> &[u32] {
        &self.col_ptr
    }

    /// Row indices, ascending within a column.
    pub fn row_idx(&self) -> &[u32] {
        &self.row_idx
    }

    /// Values, as [`row_idx`](Self::row_idx).
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Whether `other` has its entries at the same places.
    pub fn has_pattern_of(&self, other: &Self) -> bool {
        self.col_ptr == other.col_ptr && self.row_idx == other.row_idx
    }

    /// The same pattern with each value made of `change(value, its number by rows)`.
    pub fn map_values<S: Copy + Default>(&self, change: impl Fn(T, usize) -> S) -> Matrix<S> {
        let indptr = self.rows.proper_indptr().into_owned();
        let given = self.rows.data().iter().enumerate();
        let rows = CsMat::new(
            self.rows.shape(),
            indptr,
            self.rows.indices().to_vec(),
            given
                .map(|(number, &value)| change(value, number))
                .collect(),
        );
        Matrix {
            values: rows.to_csc().data().to_vec(),
            rows,
            col_ptr: self.col_ptr.clone(),
            row_idx: self.row_idx.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_hold_the_same_entries() {
        // 0 5 0
        // 1 0 2
        // 0 3 4
        let a = CsMat::new(
            (3, 3),
            vec![0, 1, 3, 5],
            vec![1, 0, 2, 1, 2],
            vec![5.0, 1.0, 2.0, 3.0, 4.0],
        );
        let matrix = Matrix::<f64>::new(a.clone()).expect("it is small");
        assert_eq!(matrix.col_ptr(), [0, 1, 3, 5]);
        assert_eq!(matrix.row_idx(), [1, 0, 2, 1, 2]);
        assert_eq!(matrix.values(), [1.0, 5.0, 3.0, 2.0, 4.0]);
        let by_columns = Matrix::new(a.to_csc()).expect("it is small");
        assert_eq!(by_columns.rows(), &a);

        let changed = matrix.map_values(|value, number| value + 10.0 * number as f64);
        assert_eq!(changed.values(), [11.0, 5.0, 33.0, 22.0, 44.0]);
        assert!(changed.has_pattern_of(&matrix));
    }

    #[test]
    fn a_rectangle_is_refused() {
        let rectangle = CsMat::<f64>::zero((2, 3));
        assert!(Matrix::new(rectangle).is_err());
    }

    #[test]
    fn another_pattern_is_noticed() {
        let diagonal = Matrix::new(CsMat::eye(4)).expect("it is small");
        let other = CsMat::new((4, 4), vec![0, 1, 2, 3, 4], vec![1, 0, 2, 3], vec![1.0; 4]);
        let other = Matrix::new(other).expect("it is small");
        assert!(!diagonal.has_pattern_of(&other));
    }
}
