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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::columns::Options;

    /// 4 . 1 .
    /// 1 4 . .
    /// . 1 4 .
    /// . . . 2, with a fill in row 1 of column 2.
    fn factorized() -> (CompressedPattern, ColumnLu<f64>) {
        let cols = CompressedPattern::new(4, vec![0, 2, 4, 6, 7], vec![0, 1, 1, 2, 0, 2, 3]);
        let cols = cols.unwrap();
        let values = [4.0, 1.0, 4.0, 1.0, 1.0, 4.0, 2.0];
        let (lu, _) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
        (cols, lu)
    }

    /// Puts changed parts together.
    fn changed(change: impl FnOnce(&mut ColumnParts<'_, f64>)) -> Result<ColumnLu<f64>, String> {
        let (cols, lu) = factorized();
        let mut parts = lu.parts();
        change(&mut parts);
        let blocks = [0..3, 3..4].into_iter();
        let (memory, cancel) = (Reservation::default(), CancelFlag::new());
        let made = ColumnLu::from_parts(&cols, blocks, parts, memory, &cancel);
        made.map_err(|error| error.to_string())
    }

    #[test]
    fn parts_make_the_same_factors() {
        let (cols, lu) = factorized();
        let mut again = changed(|_| ()).unwrap();
        assert_eq!(again.parts(), lu.parts());
        assert_eq!(again.is_boundary, lu.is_boundary);
        assert_eq!(again.is_invertible, lu.is_invertible);
        assert_eq!(again.bytes(), lu.bytes());
        let other = [5.0, 1.0, 4.0, 2.0, 1.0, 4.0, 3.0];
        let mut first = lu.clone();
        let options = Options::default();
        first.refactorize(&cols, &other, &options).unwrap();
        again.refactorize(&cols, &other, &options).unwrap();
        assert_eq!(again.parts(), first.parts());
    }

    #[test]
    fn parts_that_are_no_factors_are_refused() {
        let (_, lu) = factorized();
        assert_eq!(lu.lower.idx, [1, 2], "one entry in columns 0 and 1");
        assert_eq!(lu.upper.idx, [0, 1], "both in column 2");
        let refused = |what: &str, change: &dyn Fn(&mut ColumnParts<'_, f64>)| {
            let message = changed(change).unwrap_err();
            assert_eq!(message, format!("{what} of the factors"));
        };
        refused("the order of the rows", &|p| p.row_perm.to_mut()[0] = 1);
        refused("the size", &|p| p.pivots.to_mut().push(1.0));
        refused("the size", &|p| {
            p.products.to_mut().pop();
        });
        refused("the columns", &|p| p.lower.ptr.to_mut()[0] = 1);
        refused("the columns", &|p| p.lower.ptr.to_mut()[1] = 3);
        refused("the columns", &|p| p.upper.ptr.to_mut()[4] = 9);
        refused("the columns", &|p| {
            p.upper.values.to_mut().pop();
        });
        // Not below the diagonal, and beyond the block.
        refused("the rows of L", &|p| p.lower.idx.to_mut()[0] = 0);
        refused("the rows of L", &|p| p.lower.idx.to_mut()[1] = 3);
        refused("the rows of L", &|p| p.lower.idx.to_mut()[1] = 9);
        refused("the rows of U", &|p| p.upper.idx.to_mut()[1] = 2);
        refused("the rows of U", &|p| p.upper.idx.to_mut()[1] = 0);
        refused("the rows of U", &|p| p.upper.idx.to_mut().swap(0, 1));
        // Row 1 of column 0 is in B, and row 1 of column 2 is filled.
        refused("the pattern", &|p| p.lower.idx.to_mut()[0] = 2);
        // Nor has column 3 an entry in row 2.
        refused("the pattern", &|p| p.row_perm.to_mut().swap(2, 3));
        refused("the pattern", &|p| {
            p.upper.ptr.to_mut()[3..].fill(1);
            p.upper.idx.to_mut().pop();
            p.upper.values.to_mut().pop();
        });
    }

    #[test]
    fn blocks_that_are_not_those_of_the_factors_are_refused() {
        let (cols, lu) = factorized();
        let cancel = CancelFlag::new();
        let made = |blocks: &[Range<usize>]| {
            let (blocks, memory) = (blocks.iter().cloned(), Reservation::default());
            ColumnLu::from_parts(&cols, blocks, lu.parts(), memory, &cancel).is_ok()
        };
        assert!(made(&[0..3, 3..4]));
        assert!(made(std::slice::from_ref(&(0..4))));
        assert!(!made(std::slice::from_ref(&(0..3))));
        for blocks in [[0..2, 2..4], [0..3, 2..4], [0..3, 3..5]] {
            assert!(!made(&blocks), "{blocks:?}");
        }
        cancel.cancel();
        assert!(!made(&[0..3, 3..4]));
    }
}
