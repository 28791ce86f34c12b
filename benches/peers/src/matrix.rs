//! A matrix in the forms that the solvers take.

use std::sync::Arc;

use luge_sparse::Scalar;
use sprs::CsMat;

use crate::Structure;
use crate::forms::{Compressed, Coordinates, Forms, Part};

/// A square matrix by rows for Luge and by columns with 32-bit indices for the others, so that no
/// solver is timed while it converts its input. Other forms are made when a solver first asks for them.
#[derive(Debug, Clone)]
pub struct Matrix<T = f64> {
    rows: CsMat<T>,
    col_ptr: Vec<u32>,
    row_idx: Vec<u32>,
    values: Vec<T>,
    forms: Forms<T>,
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
            forms: Forms::default(),
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

    /// A part of the matrix by rows with 32-bit indices.
    pub fn form(&self, part: Part) -> &Arc<Compressed<T>> {
        self.forms.compressed(&self.rows, part)
    }

    /// Where the entries of a part are, in the order of [`form`](Self::form).
    pub fn coordinates(&self, part: Part) -> &Coordinates {
        self.forms.coordinates(&self.rows, part)
    }

    /// The upper triangle by rows.
    pub fn upper_rows(&self) -> &CsMat<T> {
        self.forms.upper_rows(&self.rows)
    }

    /// What a solver that is told this of it is given by rows: all of it, or the upper triangle.
    pub fn told(&self, structure: Structure) -> &CsMat<T> {
        match structure {
            Structure::General => &self.rows,
            _ => self.upper_rows(),
        }
    }

    /// Whether `other` has its entries at the same places.
    pub fn has_pattern_of(&self, other: &Self) -> bool {
        self.col_ptr == other.col_ptr && self.row_idx == other.row_idx
    }

    /// The same pattern with each value made of `change(value, its number by rows)`. As
    /// [`map_symmetric_values`](Self::map_symmetric_values), but an entry below the diagonal has a number of its own.
    pub fn map_values<S: Copy + Default>(&self, change: impl Fn(T, usize) -> S) -> Matrix<S> {
        let given = self.rows.data().iter().enumerate();
        self.with_values(given.map(|(number, &value)| change(value, number)))
    }

    /// The same pattern, which is symmetric, with each value made of `change(value, number)`: an entry on or above the
    /// diagonal has its number by rows, one below that of its counterpart. What is symmetric stays so.
    pub fn map_symmetric_values<S: Copy + Default>(
        &self,
        change: impl Fn(T, usize) -> S,
    ) -> Matrix<S> {
        // Entry k by columns is the counterpart of entry k by rows. Columns come in order, so their entries in one row are
        // met in the order of that row.
        let mut next = self.rows.proper_indptr().into_owned();
        let mut numbers = vec![0; self.nnz()];
        for (k, &i) in self.row_idx.iter().enumerate() {
            let place = &mut next[i as usize];
            numbers[*place] = k;
            *place += 1;
        }
        let rows = self.rows.iter().zip(self.rows.data()).enumerate();
        self.with_values(rows.map(|(number, ((_, (i, j)), &value))| {
            change(value, if j < i { numbers[number] } else { number })
        }))
    }

    fn with_values<S: Copy + Default>(&self, values: impl Iterator<Item = S>) -> Matrix<S> {
        let indptr = self.rows.proper_indptr().into_owned();
        let rows = CsMat::new(
            self.rows.shape(),
            indptr,
            self.rows.indices().to_vec(),
            values.collect(),
        );
        Matrix {
            values: rows.to_csc().data().to_vec(),
            rows,
            col_ptr: self.col_ptr.clone(),
            row_idx: self.row_idx.clone(),
            forms: Forms::default(),
        }
    }
}

impl<T: Scalar> Matrix<T> {
    /// Whether each entry is `counterpart` of the one on the other side of the diagonal.
    fn is_its_own(&self, counterpart: impl Fn(T) -> T) -> bool {
        let same = |ours: &[usize], theirs: &[u32]| {
            ours.iter().zip(theirs).all(|(&i, &j)| i == j as usize)
        };
        let indptr = self.rows.proper_indptr();
        let mut both = self.rows.data().iter().zip(&self.values);
        same(&indptr, &self.col_ptr)
            && same(self.rows.indices(), &self.row_idx)
            && both.all(|(&ours, &theirs)| ours == counterpart(theirs))
    }

    /// Whether the matrix equals its transpose.
    pub fn is_symmetric(&self) -> bool {
        self.is_its_own(|value| value)
    }

    /// Whether the matrix equals its conjugate transpose.
    pub fn is_hermitian(&self) -> bool {
        self.is_its_own(T::conjugate)
    }

    /// Whether all entries of the diagonal are there and have a positive real part.
    pub fn has_positive_diagonal(&self) -> bool {
        let is_positive = |value: &T| value.real() > T::Real::default();
        (0..self.n()).all(|i| self.rows.get(i, i).is_some_and(is_positive))
    }

    /// Whether a solver may be told this of the matrix. Definite may be what is Hermitian with a positive diagonal.
    pub fn may_be(&self, structure: Structure) -> bool {
        match structure {
            Structure::General => true,
            Structure::Symmetric => self.is_symmetric(),
            Structure::Hermitian => T::COMPONENTS > 1 && self.is_hermitian(),
            Structure::Definite => self.is_hermitian() && self.has_positive_diagonal(),
        }
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;

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

    /// 4 1 0
    /// 1 0 2
    /// 0 2 .
    fn symmetric() -> Matrix {
        let a = CsMat::new(
            (3, 3),
            vec![0, 2, 5, 6],
            vec![0, 1, 0, 1, 2, 1],
            vec![4.0, 1.0, 1.0, 0.0, 2.0, 2.0],
        );
        Matrix::new(a).expect("it is small")
    }

    #[test]
    fn triangles_of_a_symmetric_matrix() {
        let matrix = symmetric();
        let upper = matrix.form(Part::Upper);
        assert_eq!(
            (&upper.ptr[..], &upper.idx[..]),
            (&[0, 2, 4, 4][..], &[0, 1, 1, 2][..])
        );
        assert_eq!(upper.values, [4.0, 1.0, 0.0, 2.0]);
        let full = matrix.form(Part::UpperWithDiagonal);
        assert_eq!(
            (&full.ptr[..], &full.idx[..]),
            (&[0, 2, 4, 5][..], &[0, 1, 1, 2, 2][..])
        );
        assert_eq!(full.values, [4.0, 1.0, 0.0, 2.0, 0.0]);
        let coordinates = matrix.coordinates(Part::Upper);
        assert_eq!(coordinates.rows, [1, 1, 2, 2]);
        assert_eq!(coordinates.columns, [1, 2, 2, 3]);
        assert_eq!(matrix.upper_rows().data(), upper.values);
        let whole = matrix.form(Part::Whole);
        assert_eq!((&whole.ptr, &whole.idx), (&matrix.col_ptr, &matrix.row_idx));
        assert_eq!(whole.values, matrix.values);
    }

    #[test]
    fn symmetry_is_seen_and_kept() {
        let matrix = symmetric();
        assert!(matrix.is_symmetric() && !matrix.has_positive_diagonal());
        let changed = matrix.map_symmetric_values(|value, number| value + 10.0 * number as f64);
        assert!(changed.is_symmetric());
        assert_eq!(
            changed.form(Part::Upper).values,
            [4.0, 11.0, 30.0, 42.0],
            "entries 0, 1, 3 and 4 by rows"
        );
        let apart = matrix.map_values(|value, number| value + 10.0 * number as f64);
        assert!(!apart.is_symmetric(), "the values differ");
        let triangle = CsMat::new((2, 2), vec![0, 2, 3], vec![0, 1, 1], vec![1.0, 1.0, 1.0]);
        let triangle = Matrix::new(triangle).expect("it is small");
        assert!(!triangle.is_symmetric(), "the patterns differ");
        assert!(triangle.has_positive_diagonal());
    }

    #[test]
    fn complex_matrices_are_symmetric_or_hermitian() {
        let with = |below: Complex<f64>| {
            let (one, above) = (Complex::from(1.0), Complex::new(2.0, 3.0));
            let a = CsMat::new(
                (2, 2),
                vec![0, 2, 4],
                vec![0, 1, 0, 1],
                vec![one, above, below, one],
            );
            let matrix = Matrix::new(a).expect("it is small");
            Structure::ALL.map(|structure| matrix.may_be(structure))
        };
        // General, symmetric, Hermitian, definite.
        assert_eq!(with(Complex::new(2.0, 3.0)), [true, true, false, false]);
        assert_eq!(with(Complex::new(2.0, -3.0)), [true, false, true, true]);
        assert_eq!(with(Complex::new(2.0, 0.0)), [true, false, false, false]);
        let real = symmetric();
        let may_be = Structure::ALL.map(|structure| real.may_be(structure));
        assert_eq!(
            may_be,
            [true, true, false, false],
            "a real one is called symmetric"
        );
    }
}
