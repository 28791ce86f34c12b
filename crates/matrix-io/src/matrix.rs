//! What is read.

use luge_sparse::{CompressedPattern, PatternError, to_u32};
use num_complex::Complex64;
use sprs::CsMat;

use crate::error::NotReal;
use crate::header::{Field, Header};

/// A sparse matrix, with the header of its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Header of the file.
    pub header: Header,
    /// Entries that the file stores, before duplicates are summed and symmetric storage is expanded.
    /// For an array, all positions that it stores.
    pub stored: u64,
    /// The matrix.
    pub data: MatrixData,
    /// Right-hand sides, if the file has any: Harwell–Boeing files of matrices that are not complex may.
    pub rhs: Option<DenseMatrix>,
}

/// A sparse matrix by rows (CSR), the columns of each row strictly increasing.
#[derive(Debug, Clone, PartialEq)]
pub enum MatrixData {
    /// Fields `real` and `integer`.
    Real(CsMat<f64>),
    /// Field `complex`.
    Complex(CsMat<Complex64>),
    /// Field `pattern`: the major dimension are the rows.
    Pattern(CompressedPattern),
}

impl Matrix {
    /// Number of rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        match &self.data {
            MatrixData::Real(a) => a.shape(),
            MatrixData::Complex(a) => a.shape(),
            MatrixData::Pattern(a) => (a.major_dim(), a.minor_dim()),
        }
    }

    /// Number of entries, explicit zeros included.
    pub fn nnz(&self) -> usize {
        match &self.data {
            MatrixData::Real(a) => a.nnz(),
            MatrixData::Complex(a) => a.nnz(),
            MatrixData::Pattern(a) => a.nnz(),
        }
    }

    /// The real matrix, in CSR.
    ///
    /// # Errors
    ///
    /// [`NotReal`] if the field is complex or pattern.
    pub fn into_real(self) -> Result<CsMat<f64>, NotReal> {
        match self.data {
            MatrixData::Real(a) => Ok(a),
            MatrixData::Complex(_) => Err(NotReal {
                field: Field::Complex,
            }),
            MatrixData::Pattern(_) => Err(NotReal {
                field: Field::Pattern,
            }),
        }
    }

    /// The pattern by rows, whatever the field. Explicit zeros belong to it.
    ///
    /// # Panics
    ///
    /// If there are more than 2³²−2 rows or columns, which no file that was read has.
    pub fn pattern(&self) -> CompressedPattern {
        fn of<V>(a: &CsMat<V>) -> CompressedPattern {
            // From 0, which the offsets of a part cut out of another matrix are not.
            let ptr = a.proper_indptr().iter().map(|&p| p as u64).collect();
            let idx = a.indices().iter();
            let idx = idx.map(|&col| to_u32(col, "column of the matrix"));
            idx.collect::<Result<_, _>>()
                .map_err(PatternError::from)
                .and_then(|idx| CompressedPattern::new(a.cols(), ptr, idx))
                .expect("a sprs matrix keeps the same invariants")
        }
        match &self.data {
            MatrixData::Real(a) => of(a),
            MatrixData::Complex(a) => of(a),
            MatrixData::Pattern(a) => a.clone(),
        }
    }
}

/// A dense matrix, real or complex, column by column: right-hand sides and solutions.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseMatrix<V = f64> {
    nrows: usize,
    ncols: usize,
    values: Vec<V>,
}

impl<V: Copy> DenseMatrix<V> {
    /// Takes `nrows · ncols` values, column by column.
    ///
    /// # Panics
    ///
    /// If there are more or fewer values.
    #[track_caller]
    pub fn new(nrows: usize, ncols: usize, values: Vec<V>) -> Self {
        assert_eq!(
            Some(values.len()),
            nrows.checked_mul(ncols),
            "a {nrows} x {ncols} matrix has a value for each position"
        );
        Self {
            nrows,
            ncols,
            values,
        }
    }

    /// Takes the values of one column.
    pub fn from_vector(values: Vec<V>) -> Self {
        Self::new(values.len(), 1, values)
    }

    /// Number of rows.
    pub fn nrows(&self) -> usize {
        self.nrows
    }

    /// Number of columns.
    pub fn ncols(&self) -> usize {
        self.ncols
    }

    /// All values, column by column.
    pub fn values(&self) -> &[V] {
        &self.values
    }

    /// All values, column by column.
    pub fn into_values(self) -> Vec<V> {
        self.values
    }

    /// The matrix of what `of` makes of each value.
    pub fn map<W>(self, of: impl FnMut(V) -> W) -> DenseMatrix<W> {
        DenseMatrix {
            nrows: self.nrows,
            ncols: self.ncols,
            values: self.values.into_iter().map(of).collect(),
        }
    }

    /// Values of column `col`.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    #[track_caller]
    pub fn column(&self, col: usize) -> &[V] {
        assert!(col < self.ncols, "column {col} of {}", self.ncols);
        &self.values[col * self.nrows..][..self.nrows]
    }
}
