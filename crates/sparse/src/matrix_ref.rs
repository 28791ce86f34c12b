//! Matrices in the storage of their owners.

use std::fmt::{self, Debug};

use crate::pattern::PatternError;

mod sealed {
    pub trait Sealed {}
}

/// The integers that offsets and indices may be stored in: `u32`, `i32`, `u64`, `i64` and `usize`.
pub trait Index: sealed::Sealed + Copy + Debug + Send + Sync + 'static {
    /// The number; one that is negative becomes larger than any size.
    fn to_u64(self) -> u64;
}

macro_rules! index {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {}
        impl Index for $type {
            #[inline(always)]
            fn to_u64(self) -> u64 {
                // Signed numbers keep their sign in 64 bits.
                self as i64 as u64
            }
        }
    )*};
}
index!(i32, u64, i64, usize);

impl sealed::Sealed for u32 {}
impl Index for u32 {
    #[inline(always)]
    fn to_u64(self) -> u64 {
        u64::from(self)
    }
}

/// Which way a compressed matrix is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Compressed sparse rows (CSR): the entries of a row stand together.
    Rows,
    /// Compressed sparse columns (CSC): the entries of a column stand together.
    Columns,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rows => "row",
            Self::Columns => "column",
        })
    }
}

/// Why arrays are not a sparse matrix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// There is not one offset for each row (or column), and one for the end.
    #[error(
        "there are {found} {compression} offsets; a matrix with {count} {compression}s has one more than that"
    )]
    OffsetCount {
        /// What the offsets are of.
        compression: Compression,
        /// Number of offsets.
        found: usize,
        /// Number of rows or columns.
        count: usize,
    },
    /// The offsets do not end where the indices do.
    #[error(
        "the {compression} offsets are for another number of entries than the {entries} indices"
    )]
    OffsetEnds {
        /// What the offsets are of.
        compression: Compression,
        /// Number of indices.
        entries: usize,
    },
    /// A row (or column) ends before it starts.
    #[error(
        "{compression} {at} ends before it starts, or is longer than the space to the next one"
    )]
    DecreasingOffset {
        /// Whether it is a row or a column.
        compression: Compression,
        /// Its number.
        at: usize,
    },
    /// The indices of a row (or column) do not increase, or one stands there twice.
    #[error(
        "the indices of {compression} {at} do not increase at index {index}; each row or column must be sorted, without an index twice"
    )]
    NotSorted {
        /// Whether it is a row or a column.
        compression: Compression,
        /// Its number.
        at: usize,
        /// The first index that is not above the one before it.
        index: u32,
    },
    /// An index is negative or too large.
    #[error("{compression} {at} has an index beyond the size of the matrix, {size}")]
    OutOfRange {
        /// Whether it is a row or a column.
        compression: Compression,
        /// Its number.
        at: usize,
        /// The number of columns, or of rows.
        size: usize,
    },
    /// There is not one value for each entry.
    #[error("there are {values} values for {entries} entries")]
    ValueCount {
        /// Number of entries of the pattern.
        entries: usize,
        /// Number of values.
        values: usize,
    },
}

impl MatrixError {
    /// What is wrong with a pattern that is stored this way.
    pub fn of_pattern(error: PatternError, compression: Compression) -> Self {
        match error {
            PatternError::OffsetEnds { entries } => Self::OffsetEnds {
                compression,
                entries,
            },
            PatternError::DecreasingOffset { line } => Self::DecreasingOffset {
                compression,
                at: line - 1,
            },
            PatternError::IndexOutOfRange {
                line, minor_dim, ..
            } => Self::OutOfRange {
                compression,
                at: line,
                size: minor_dim as usize,
            },
            PatternError::NotSorted { line, index } => Self::NotSorted {
                compression,
                at: line,
                index,
            },
            PatternError::IndexOverflow(overflow) => Self::OutOfRange {
                compression,
                at: 0,
                size: overflow.value,
            },
        }
    }
}

/// The pattern of a sparse matrix in the storage of its owner, without values: compressed rows (CSR) or columns (CSC),
/// offsets and indices of any [`Index`] type.
///
/// Made from the arrays, from a [`MatrixRef`], or by `From` and `Into` from what a [`MatrixRef`] is made of.
#[derive(Debug, Clone, Copy)]
pub struct PatternRef<'a, I = usize> {
    rows: usize,
    cols: usize,
    compression: Compression,
    /// One for each row or column, and the end. The first may be any number, which all of them are meant without.
    offsets: &'a [I],
    /// How many entries each row or column has, where that is less than there is space for.
    lengths: Option<&'a [I]>,
    indices: &'a [I],
}

/// A sparse matrix in the storage of its owner: compressed rows (CSR) or columns (CSC), offsets and indices of any
/// [`Index`] type.
///
/// It is made from the arrays themselves, or by `From` and `Into` from
///
/// | crate | feature | types |
/// |---|---|---|
/// | [sprs](https://docs.rs/sprs) | | `&CsMat`, `&CsMatView`, `CsMatView`: CSR and CSC, parts of a matrix too |
/// | [nalgebra-sparse](https://docs.rs/nalgebra-sparse) | `nalgebra-sparse` | `&CsrMatrix`, `&CscMatrix` |
/// | [faer](https://docs.rs/faer) | `faer` | `&SparseRowMat`, `&SparseColMat`, `SparseRowMatRef`, `SparseColMatRef` |
///
/// Nothing is copied. Whoever works with it checks the arrays once, and refuses them with a [`MatrixError`].
///
/// ```
/// use luge_sparse::MatrixRef;
///
/// // 4 1
/// // . 3
/// let a = MatrixRef::by_rows(2, 2, &[0i32, 2, 3], &[0, 1, 1], &[4.0, 1.0, 3.0]);
/// assert_eq!((a.rows(), a.cols(), a.nnz()), (2, 2, 3));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct MatrixRef<'a, T, I = usize> {
    pattern: PatternRef<'a, I>,
    values: &'a [T],
}

impl<'a, I: Index> PatternRef<'a, I> {
    /// A pattern of `rows` by `cols` by rows: the entries of row i are in the columns
    /// `columns[offsets[i]..offsets[i + 1]]`, which increase. In a row that was cut out of a larger matrix the first
    /// offset may be above 0; it is the one of `columns[0]`.
    pub fn by_rows(rows: usize, cols: usize, offsets: &'a [I], columns: &'a [I]) -> Self {
        Self {
            rows,
            cols,
            compression: Compression::Rows,
            offsets,
            lengths: None,
            indices: columns,
        }
    }

    /// The same by columns.
    pub fn by_columns(rows: usize, cols: usize, offsets: &'a [I], row_indices: &'a [I]) -> Self {
        Self {
            compression: Compression::Columns,
            ..Self::by_rows(rows, cols, offsets, row_indices)
        }
    }

    /// Which way it is stored.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of entries.
    pub fn nnz(&self) -> usize {
        match self.lengths {
            None => self.indices.len(),
            Some(lengths) => lengths.iter().map(|l| l.to_u64() as usize).sum(),
        }
    }

    /// Whether the entries of each row or column end where those of the next one start.
    pub fn is_compact(&self) -> bool {
        self.lengths.is_none()
    }

    /// Offsets; all of them may be larger by the first one.
    pub fn offsets(&self) -> &'a [I] {
        self.offsets
    }

    /// Indices, in a pattern that is not [compact](Self::is_compact) with what stands between rows or columns.
    pub fn indices(&self) -> &'a [I] {
        self.indices
    }

    /// Where the entries of a row or column stand in [`indices`](Self::indices), for offsets that were
    /// [checked](Self::check).
    pub fn range(&self, at: usize) -> std::ops::Range<usize> {
        let first = self.offsets[0].to_u64();
        let offset = |at: usize| (self.offsets[at].to_u64() - first) as usize;
        let start = offset(at);
        match self.lengths {
            None => start..offset(at + 1),
            Some(lengths) => start..start + lengths[at].to_u64() as usize,
        }
    }

    /// Checks the lengths of the arrays and the offsets; not the indices.
    ///
    /// # Errors
    ///
    /// [`MatrixError`], naming the first row or column that is wrong.
    pub fn check(&self) -> Result<(), MatrixError> {
        let compression = self.compression;
        let count = match compression {
            Compression::Rows => self.rows,
            Compression::Columns => self.cols,
        };
        if self.offsets.len() != count + 1 {
            return Err(MatrixError::OffsetCount {
                compression,
                found: self.offsets.len(),
                count,
            });
        }
        let first = self.offsets[0].to_u64();
        let end = self.offsets[count].to_u64().wrapping_sub(first);
        let entries = self.indices.len();
        if end != entries as u64 {
            return Err(MatrixError::OffsetEnds {
                compression,
                entries,
            });
        }
        let pairs = self.offsets.windows(2);
        let mut sizes = pairs.map(|w| w[1].to_u64().checked_sub(w[0].to_u64()));
        let wrong = match self.lengths {
            None => sizes.position(|size| size.is_none()),
            Some(lengths) if lengths.len() != count => Some(count),
            Some(lengths) => sizes
                .zip(lengths)
                .position(|(size, length)| size.is_none_or(|size| size < length.to_u64())),
        };
        match wrong {
            None => Ok(()),
            Some(at) => Err(MatrixError::DecreasingOffset { compression, at }),
        }
    }
}

impl<'a, T, I: Index> MatrixRef<'a, T, I> {
    /// A matrix of `rows` by `cols` by rows: row i has the values `values[offsets[i]..offsets[i + 1]]` in the columns
    /// `columns[offsets[i]..offsets[i + 1]]`, which increase.
    pub fn by_rows(
        rows: usize,
        cols: usize,
        offsets: &'a [I],
        columns: &'a [I],
        values: &'a [T],
    ) -> Self {
        Self {
            pattern: PatternRef::by_rows(rows, cols, offsets, columns),
            values,
        }
    }

    /// The same by columns.
    pub fn by_columns(
        rows: usize,
        cols: usize,
        offsets: &'a [I],
        row_indices: &'a [I],
        values: &'a [T],
    ) -> Self {
        Self {
            pattern: PatternRef::by_columns(rows, cols, offsets, row_indices),
            values,
        }
    }

    /// The pattern alone.
    pub fn pattern(&self) -> PatternRef<'a, I> {
        self.pattern
    }

    /// The values, in a matrix whose pattern is not [compact](PatternRef::is_compact) with what stands between rows or
    /// columns.
    pub fn values(&self) -> &'a [T] {
        self.values
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.pattern.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.pattern.cols
    }

    /// Number of entries.
    pub fn nnz(&self) -> usize {
        self.pattern.nnz()
    }

    /// Checks the lengths of the arrays and the offsets; not the indices.
    ///
    /// # Errors
    ///
    /// [`MatrixError`], naming the first row or column that is wrong.
    pub fn check(&self) -> Result<(), MatrixError> {
        self.pattern.check()?;
        let (entries, values) = (self.pattern.indices.len(), self.values.len());
        if entries == values {
            Ok(())
        } else {
            Err(MatrixError::ValueCount { entries, values })
        }
    }
}

impl<'a, T, I> From<MatrixRef<'a, T, I>> for PatternRef<'a, I> {
    fn from(matrix: MatrixRef<'a, T, I>) -> Self {
        matrix.pattern
    }
}

impl<'a, T, I: Copy> From<&MatrixRef<'a, T, I>> for MatrixRef<'a, T, I> {
    fn from(matrix: &MatrixRef<'a, T, I>) -> Self {
        Self {
            pattern: matrix.pattern,
            values: matrix.values,
        }
    }
}

/// `From` for a [`PatternRef`] by way of the [`MatrixRef`].
macro_rules! pattern_too {
    ($([$($generics:tt)*] $type:ty, $index:ty;)*) => {$(
        impl<'a, $($generics)*> From<$type> for PatternRef<'a, $index> {
            fn from(matrix: $type) -> Self {
                MatrixRef::from(matrix).pattern
            }
        }
    )*};
}

mod of_sprs {
    use std::ops::Deref;

    use sprs::{CsMatBase, CsMatViewI, SpIndex};

    use super::{Compression, Index, MatrixRef, PatternRef};

    impl<'a, T, I, O, J, D> From<&'a CsMatBase<T, I, O, J, D>> for MatrixRef<'a, T, I>
    where
        I: Index + SpIndex,
        O: Deref<Target = [I]>,
        J: Deref<Target = [I]>,
        D: Deref<Target = [T]>,
    {
        fn from(matrix: &'a CsMatBase<T, I, O, J, D>) -> Self {
            Self::from(matrix.view())
        }
    }

    impl<'a, T, I: Index + SpIndex> From<CsMatViewI<'a, T, I>> for MatrixRef<'a, T, I> {
        fn from(matrix: CsMatViewI<'a, T, I>) -> Self {
            let (rows, cols) = matrix.shape();
            let compression = if matrix.is_csr() {
                Compression::Rows
            } else {
                Compression::Columns
            };
            let (offsets, indices, values) = matrix.into_raw_storage();
            Self {
                pattern: PatternRef {
                    rows,
                    cols,
                    compression,
                    offsets,
                    lengths: None,
                    indices,
                },
                values,
            }
        }
    }

    impl<'a, T, I, O, J, D> From<&'a CsMatBase<T, I, O, J, D>> for PatternRef<'a, I>
    where
        I: Index + SpIndex,
        O: Deref<Target = [I]>,
        J: Deref<Target = [I]>,
        D: Deref<Target = [T]>,
    {
        fn from(matrix: &'a CsMatBase<T, I, O, J, D>) -> Self {
            MatrixRef::from(matrix).pattern
        }
    }

    pattern_too! {
        [T, I: Index + SpIndex] CsMatViewI<'a, T, I>, I;
    }
}

#[cfg(feature = "nalgebra-sparse")]
mod of_nalgebra {
    use nalgebra_sparse::{CscMatrix, CsrMatrix};

    use super::{MatrixRef, PatternRef};

    impl<'a, T> From<&'a CsrMatrix<T>> for MatrixRef<'a, T> {
        fn from(a: &'a CsrMatrix<T>) -> Self {
            let (rows, cols) = (a.nrows(), a.ncols());
            Self::by_rows(rows, cols, a.row_offsets(), a.col_indices(), a.values())
        }
    }

    impl<'a, T> From<&'a CscMatrix<T>> for MatrixRef<'a, T> {
        fn from(a: &'a CscMatrix<T>) -> Self {
            let (rows, cols) = (a.nrows(), a.ncols());
            Self::by_columns(rows, cols, a.col_offsets(), a.row_indices(), a.values())
        }
    }

    pattern_too! {
        [T] &'a CsrMatrix<T>, usize;
        [T] &'a CscMatrix<T>, usize;
    }
}

#[cfg(feature = "faer")]
mod of_faer {
    use faer::sparse::{SparseColMat, SparseColMatRef, SparseRowMat, SparseRowMatRef};

    use super::{Compression, Index, MatrixRef, PatternRef};

    impl<'a, T, I: Index + faer::Index> From<SparseColMatRef<'a, I, T>> for MatrixRef<'a, T, I> {
        fn from(a: SparseColMatRef<'a, I, T>) -> Self {
            let offsets = a.symbolic().col_ptr();
            // The arrays may be longer than what they are used for.
            let used = offsets[0].zx()..offsets[a.ncols()].zx();
            Self {
                pattern: PatternRef {
                    rows: a.nrows(),
                    cols: a.ncols(),
                    compression: Compression::Columns,
                    offsets,
                    lengths: a.symbolic().col_nnz(),
                    indices: &a.symbolic().row_idx()[used.clone()],
                },
                values: &a.val()[used],
            }
        }
    }

    impl<'a, T, I: Index + faer::Index> From<SparseRowMatRef<'a, I, T>> for MatrixRef<'a, T, I> {
        fn from(a: SparseRowMatRef<'a, I, T>) -> Self {
            let offsets = a.symbolic().row_ptr();
            let used = offsets[0].zx()..offsets[a.nrows()].zx();
            Self {
                pattern: PatternRef {
                    rows: a.nrows(),
                    cols: a.ncols(),
                    compression: Compression::Rows,
                    offsets,
                    lengths: a.symbolic().row_nnz(),
                    indices: &a.symbolic().col_idx()[used.clone()],
                },
                values: &a.val()[used],
            }
        }
    }

    impl<'a, T, I: Index + faer::Index> From<&'a SparseColMat<I, T>> for MatrixRef<'a, T, I> {
        fn from(a: &'a SparseColMat<I, T>) -> Self {
            Self::from(a.as_ref())
        }
    }

    impl<'a, T, I: Index + faer::Index> From<&'a SparseRowMat<I, T>> for MatrixRef<'a, T, I> {
        fn from(a: &'a SparseRowMat<I, T>) -> Self {
            Self::from(a.as_ref())
        }
    }

    pattern_too! {
        [T, I: Index + faer::Index] SparseColMatRef<'a, I, T>, I;
        [T, I: Index + faer::Index] SparseRowMatRef<'a, I, T>, I;
        [T, I: Index + faer::Index] &'a SparseColMat<I, T>, I;
        [T, I: Index + faer::Index] &'a SparseRowMat<I, T>, I;
    }
}

#[cfg(test)]
mod tests {
    use sprs::CsMat;

    use super::*;

    #[test]
    fn numbers_below_zero_are_beyond_any_size() {
        assert_eq!((-1i32).to_u64(), u64::MAX);
        assert_eq!((-1i64).to_u64(), u64::MAX);
        assert_eq!(u32::MAX.to_u64(), u64::from(u32::MAX));
        assert_eq!(usize::MAX.to_u64(), u64::MAX);
    }

    #[test]
    fn rows_cut_out_of_a_matrix_keep_its_offsets() {
        let a: CsMat<f64> = CsMat::new(
            (3, 2),
            vec![0, 1, 3, 4],
            vec![0, 0, 1, 1],
            vec![1.0, 2.0, 3.0, 4.0],
        );
        let part = a.slice_outer(1..3);
        let part = MatrixRef::from(part);
        part.check().unwrap();
        assert_eq!((part.rows(), part.cols(), part.nnz()), (2, 2, 3));
        assert_eq!(part.values()[part.pattern().range(1)], [4.0]);
        assert_eq!(PatternRef::from(&a).compression(), Compression::Rows);
    }

    #[test]
    fn wrong_arrays_are_refused_with_the_place() {
        let check = |offsets: &[i32], indices: &[i32], values: &[f64]| {
            MatrixRef::by_columns(2, 2, offsets, indices, values)
                .check()
                .unwrap_err()
        };
        let compression = Compression::Columns;
        assert_eq!(
            check(&[0, 1], &[0], &[1.0]),
            MatrixError::OffsetCount {
                compression,
                found: 2,
                count: 2
            }
        );
        let ends = MatrixError::OffsetEnds {
            compression,
            entries: 2,
        };
        assert_eq!(check(&[0, 1, 3], &[0, 1], &[1.0, 2.0]), ends);
        assert_eq!(check(&[0, 1, -2], &[0, 1], &[1.0, 2.0]), ends);
        assert_eq!(
            check(&[0, 3, 2], &[0, 1], &[1.0, 2.0]),
            MatrixError::DecreasingOffset { compression, at: 1 }
        );
        assert_eq!(
            check(&[0, -1, 2], &[0, 1], &[1.0, 2.0]),
            MatrixError::DecreasingOffset { compression, at: 1 }
        );
        let error = check(&[0, 1, 2], &[0, 1], &[1.0]);
        assert_eq!(error.to_string(), "there are 1 values for 2 entries");
    }

    #[cfg(feature = "nalgebra-sparse")]
    #[test]
    fn both_storages_of_nalgebra_are_taken() {
        let rows = nalgebra_sparse::CsrMatrix::try_from_csr_data(
            1,
            2,
            vec![0, 2],
            vec![0, 1],
            vec![1.0, 2.0],
        )
        .unwrap();
        let taken = MatrixRef::from(&rows);
        taken.check().unwrap();
        assert_eq!((taken.rows(), taken.cols()), (1, 2));
        assert_eq!(taken.pattern().compression(), Compression::Rows);
        let columns = nalgebra_sparse::CscMatrix::from(&rows);
        let taken = MatrixRef::from(&columns);
        taken.check().unwrap();
        assert_eq!(taken.pattern().compression(), Compression::Columns);
        assert_eq!(taken.pattern().offsets(), [0, 1, 2]);
    }

    #[cfg(feature = "faer")]
    #[test]
    fn matrices_of_faer_with_gaps_are_taken() {
        use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};

        let (offsets, lengths) = ([1usize, 4, 5], [2usize, 1]);
        let (indices, values) = ([9usize, 0, 1, 9, 1], [9.0, 1.0, 2.0, 9.0, 3.0]);
        let symbolic =
            SymbolicSparseColMatRef::new_checked(2, 2, &offsets, Some(&lengths), &indices);
        let taken = MatrixRef::from(SparseColMatRef::new(symbolic, &values));
        taken.check().unwrap();
        assert!(!taken.pattern().is_compact());
        assert_eq!(taken.nnz(), 3);
        assert_eq!(taken.values()[taken.pattern().range(0)], [1.0, 2.0]);
        assert_eq!(taken.values()[taken.pattern().range(1)], [3.0]);
    }
}
