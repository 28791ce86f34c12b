//! Factors in parts that are written down and put together again.
//!
//! Solves and refactorizations read indices without a check. [`ColumnLu::from_parts`] therefore looks at all of them: that rows
//! move within diagonal blocks, that L and U stay in these, and that every column has the entries of B and of each column of L
//! that it subtracts. It visits each product of a factorization once, without its numbers.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use luge_sparse::num_traits::Float;
use luge_sparse::{
    CancelFlag, Cancelled, CompressedPattern, RealScalar, Reservation, RowPerm, Scalar, bytes_of,
};

use super::factorize::boundaries;
use super::{ColumnLu, Columns, STRIDE, per_column};

/// Compressed columns of L or U, without the diagonal.
#[derive(Debug, Clone, PartialEq)]
pub struct TriangleParts<'a, F: Scalar> {
    /// Start of each column, and where the last one ends.
    pub ptr: Cow<'a, [usize]>,
    /// Row of each entry.
    pub idx: Cow<'a, [u32]>,
    /// Its value.
    pub values: Cow<'a, [F]>,
}

/// The factors P·B = L·U of a matrix of order n.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnParts<'a, F: Scalar> {
    /// Row i of L·U is row `row_perm[i]` of B.
    pub row_perm: Cow<'a, [u32]>,
    /// L below its unit diagonal; rows ascend in each column.
    pub lower: TriangleParts<'a, F>,
    /// U above its diagonal; in each column an entry comes after those that change it.
    pub upper: TriangleParts<'a, F>,
    /// The diagonal of U.
    pub pivots: Cow<'a, [F]>,
    /// ‖ |L|·|U|·e_k ‖₁ by column.
    pub products: Cow<'a, [f64]>,
    /// Multiplications, divisions and subtractions of the factorization.
    pub flops: u64,
    /// Pivots not taken from the diagonal of B.
    pub num_off_diagonal: usize,
}

/// Why parts are not the factors of a matrix with a given pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnPartsError {
    /// They contradict each other, or the pattern.
    #[error("{what} of the factors")]
    Unsound {
        /// What is not as it can be.
        what: &'static str,
    },
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

const fn unsound(what: &'static str) -> ColumnPartsError {
    ColumnPartsError::Unsound { what }
}

impl<'a, F: Scalar> TriangleParts<'a, F> {
    fn of(columns: &'a Columns<F>) -> Self {
        Self {
            ptr: Cow::Borrowed(&columns.ptr[..]),
            idx: Cow::Borrowed(&columns.idx[..]),
            values: Cow::Borrowed(&columns.values[..]),
        }
    }

    /// The columns, if starts ascend to the number of entries.
    fn into_columns(self, n: usize) -> Option<Columns<F>> {
        let Self { ptr, idx, values } = self;
        let is_sound = ptr.len() == n + 1
            && ptr.first() == Some(&0)
            && ptr.is_sorted()
            && ptr.last() == Some(&idx.len())
            && idx.len() == values.len();
        is_sound.then(|| Columns {
            ptr: ptr.into_owned(),
            idx: idx.into_owned(),
            values: values.into_owned(),
        })
    }
}

impl<F: Scalar> ColumnLu<F> {
    /// What the factors are made of.
    pub fn parts(&self) -> ColumnParts<'_, F> {
        ColumnParts {
            row_perm: Cow::Borrowed(self.row_perm.as_slice()),
            lower: TriangleParts::of(&self.lower),
            upper: TriangleParts::of(&self.upper),
            pivots: Cow::Borrowed(&self.pivots[..]),
            products: Cow::Borrowed(&self.products[..]),
            flops: self.flops,
            num_off_diagonal: self.num_off_diagonal,
        }
    }

    /// The factors of a matrix with the pattern `cols` that these are the [`parts`](Self::parts) of. `blocks` are the diagonal
    /// blocks, one after another, in which rows move and beyond which no factor reaches; for what they take,
    /// [`estimate_bytes`](Self::estimate_bytes), `memory` is reserved. Values are taken as they are; all else is checked, so
    /// that whatever is read from a file may be given.
    ///
    /// # Errors
    ///
    /// [`ColumnPartsError`].
    ///
    /// # Panics
    ///
    /// If `cols` is not square.
    pub fn from_parts(
        cols: &CompressedPattern,
        blocks: impl Iterator<Item = Range<usize>>,
        parts: ColumnParts<'_, F>,
        memory: Reservation,
        cancel: &CancelFlag,
    ) -> Result<Self, ColumnPartsError> {
        let n = cols.major_dim();
        assert_eq!(n, cols.minor_dim(), "a square matrix");
        let row_perm = RowPerm::new(parts.row_perm.into_owned());
        let row_perm = row_perm.map_err(|_| unsound("the order of the rows"))?;
        if [row_perm.len(), parts.pivots.len(), parts.products.len()] != [n; 3] {
            return Err(unsound("the size"));
        }
        let lower = parts.lower.into_columns(n).ok_or(unsound("the columns"))?;
        let upper = parts.upper.into_columns(n).ok_or(unsound("the columns"))?;
        cancel.check()?;
        let pattern = Pattern {
            cols,
            row_perm: &row_perm,
            lower: &lower,
            upper: &upper,
        };
        pattern.check(blocks, cancel)?;
        let pivots = parts.pivots.into_owned();
        let magnitudes = pivots.iter().map(|pivot| pivot.magnitude().to_f64());
        let smallest = magnitudes.fold(f64::INFINITY, f64::min);
        let mut lu = Self {
            is_boundary: boundaries(&lower, &upper),
            row_perm,
            lower,
            upper,
            pivots,
            inverse_pivots: OnceLock::new(),
            is_invertible: smallest >= F::Real::min_positive_value().to_f64(),
            entries_of: OnceLock::new(),
            products: parts.products.into_owned(),
            entries: cols.nnz(),
            flops: parts.flops,
            num_off_diagonal: parts.num_off_diagonal,
            plan: None,
            memory,
            of_plan: Reservation::default(),
        };
        let held = lu.lower.room() + lu.upper.room() + bytes_of::<usize>(2 * (n + 1));
        lu.memory.shrink_to(held + (n * per_column::<F>()) as u64);
        Ok(lu)
    }
}

/// Where the entries of B, L and U are.
struct Pattern<'a, F> {
    cols: &'a CompressedPattern,
    row_perm: &'a RowPerm,
    lower: &'a Columns<F>,
    upper: &'a Columns<F>,
}

impl<F: Scalar> Pattern<'_, F> {
    fn check(
        &self,
        blocks: impl Iterator<Item = Range<usize>>,
        cancel: &CancelFlag,
    ) -> Result<(), ColumnPartsError> {
        let n = self.cols.major_dim();
        let final_row = self.row_perm.inverse();
        // Place of each row in the column that it was last seen in, and that column.
        let mut places = vec![(u32::MAX, 0u32); n];
        let mut end = 0;
        for block in blocks {
            if block.start != end || block.end > n {
                return Err(unsound("the diagonal blocks"));
            }
            end = block.end;
            for k in block.clone() {
                if k.is_multiple_of(STRIDE) {
                    cancel.check()?;
                }
                if !block.contains(&(self.row_perm.as_slice()[k] as usize)) {
                    return Err(unsound("the order of the rows"));
                }
                self.check_column(k, &block, &final_row, &mut places)?;
            }
        }
        if end != n {
            return Err(unsound("the diagonal blocks"));
        }
        Ok(())
    }

    fn check_column(
        &self,
        k: usize,
        block: &Range<usize>,
        final_row: &[u32],
        places: &mut [(u32, u32)],
    ) -> Result<(), ColumnPartsError> {
        let (above, below) = (self.upper.column(k).0, self.lower.column(k).0);
        let ascend = below.is_sorted_by(|a, b| a < b);
        if !ascend
            || !below
                .iter()
                .all(|&i| (k + 1..block.end).contains(&(i as usize)))
        {
            return Err(unsound("the rows of L"));
        }
        let is_first_least = above.iter().all(|i| above[0] <= *i);
        if !is_first_least
            || !above
                .iter()
                .all(|&i| (block.start..k).contains(&(i as usize)))
        {
            return Err(unsound("the rows of U"));
        }
        let rows = above.iter().copied().chain([k as u32]);
        for (place, row) in rows.chain(below.iter().copied()).enumerate() {
            let known = &mut places[row as usize];
            if known.0 == k as u32 {
                return Err(unsound("the rows of U"));
            }
            *known = (k as u32, place as u32);
        }
        let place_of = |row: u32| {
            let (column, place) = places[row as usize];
            (column == k as u32).then_some(place as usize)
        };
        for &row in self.cols.line(k) {
            if place_of(final_row[row as usize]).is_none() {
                return Err(unsound("the pattern"));
            }
        }
        // What column j of L changes comes after the entry in row j.
        for (p, &j) in above.iter().enumerate() {
            let comes_after = |&row: &u32| place_of(row).is_some_and(|place| place > p);
            if !self.lower.column(j as usize).0.iter().all(comes_after) {
                return Err(unsound("the pattern"));
            }
        }
        Ok(())
    }
}
