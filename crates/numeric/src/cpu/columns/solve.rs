//! Triangular solves on one diagonal block.
//!
//! Loops over columns of two or three entries are over before the processor has learnt how long they
//! are. Where columns are short, a solve with one vector therefore goes through the entries of all
//! columns in one loop, for which [`Entries`] holds the column of each entry. Several vectors are
//! gathered four at a time, so that L and U are read once for four.

use std::ops::Range;

use luge_sparse::{CancelFlag, Cancelled, Scalar, bytes_of};

use super::{ColumnLu, Columns};

/// Entries per column from which on a loop over each column is worth its end.
const SHORT: usize = 10;

/// Columns between two looks at the cancel flag; entries, where columns are short.
const COLUMNS: usize = 512;
const ENTRIES: usize = 1 << 16;

/// The range in pieces of `len`, but for the last.
fn stretches(range: Range<usize>, len: usize) -> impl DoubleEndedIterator<Item = Range<usize>> {
    let count = range.len().div_ceil(len);
    (0..count).map(move |k| {
        let start = range.start + k * len;
        start..range.end.min(start + len)
    })
}

/// The column of each entry of L and U, if columns are short; else nothing.
#[derive(Debug, Clone)]
pub(super) struct Entries {
    lower_col: Vec<u32>,
    upper_col: Vec<u32>,
}

impl Entries {
    pub(super) fn new<F: Scalar>(lower: &Columns<F>, upper: &Columns<F>) -> Self {
        let columns_of = |columns: &Columns<F>| {
            let mut of = Vec::with_capacity(Self::len_of(columns));
            if of.capacity() > 0 {
                for (j, w) in columns.ptr.windows(2).enumerate() {
                    for _ in w[0]..w[1] {
                        of.push(j as u32);
                    }
                }
            }
            of
        };
        Self {
            lower_col: columns_of(lower),
            upper_col: columns_of(upper),
        }
    }

    /// Entries of L or U that are listed.
    fn len_of<F: Scalar>(columns: &Columns<F>) -> usize {
        let nnz = columns.idx.len();
        if nnz < SHORT * (columns.ptr.len() - 1) {
            nnz
        } else {
            0
        }
    }

    /// Bytes that [`new`](Self::new) will take.
    pub(super) fn bytes_of<F: Scalar>(lower: &Columns<F>, upper: &Columns<F>) -> u64 {
        bytes_of::<u32>(Self::len_of(lower) + Self::len_of(upper))
    }

    pub(super) fn bytes(&self) -> u64 {
        (size_of_val(&*self.lower_col) + size_of_val(&*self.upper_col)) as u64
    }
}

impl<F: Scalar> ColumnLu<F> {
    /// Solves L·U·X = Y on the rows `block`, which must be those of whole diagonal blocks: other rows
    /// are neither read nor written.
    ///
    /// `x` holds Y and receives X: entry `i` of vector `v` is `x[v * ld + i]`, rows counted as in P·B.
    /// Each vector is solved for as if it were alone, to the bit or nearly so.
    ///
    /// # Panics
    ///
    /// If `block` is beyond the matrix, cuts a diagonal block, or `x` is too short for `nrhs` vectors.
    #[inline]
    #[track_caller]
    pub fn solve_range(&self, block: Range<usize>, x: &mut [F], ld: usize, nrhs: usize) {
        if self.divided(&block, x, ld, nrhs) {
            return;
        }
        let never = CancelFlag::new();
        let solved = self.solve_block(block, x, ld, nrhs, &never);
        solved.unwrap_or_else(|_| unreachable!("nobody raises the flag"));
    }

    /// As [`solve_range`](Self::solve_range), stopping soon after `cancel` is raised; the rows `block` of `x`
    /// are then of no use.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    ///
    /// # Panics
    ///
    /// As `solve_range`.
    #[inline]
    #[track_caller]
    pub fn solve_within(
        &self,
        block: Range<usize>,
        x: &mut [F],
        ld: usize,
        nrhs: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        if self.divided(&block, x, ld, nrhs) {
            return Ok(());
        }
        self.solve_block(block, x, ld, nrhs, cancel)
    }

    #[track_caller]
    fn solve_block(
        &self,
        block: Range<usize>,
        x: &mut [F],
        ld: usize,
        nrhs: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        self.assert_shape(&block, x.len(), ld, nrhs);
        if nrhs == 1 {
            // SAFETY: the rows of a whole block are within it, and `x` reaches to its end.
            return unsafe { self.solve_one(block, x.as_mut_ptr(), cancel) };
        }
        let mut four = vec![[F::zero(); 4]; block.len()];
        for first in (0..nrhs).step_by(4) {
            let width = 4.min(nrhs - first);
            gather(&mut four, x, ld, first..first + width, block.start);
            // SAFETY: rows of a whole block are within it, so with its start taken off they are
            // within `four`.
            unsafe { self.solve_four(block.clone(), &mut four, cancel)? };
            scatter(&four, x, ld, first..first + width, block.start);
        }
        Ok(())
    }

    /// Solves (L·U)ᵀ·X = Y on the rows `block`; otherwise as [`solve_range`](Self::solve_range).
    ///
    /// # Panics
    ///
    /// As `solve_range`.
    #[inline]
    #[track_caller]
    pub fn solve_transpose_range(&self, block: Range<usize>, x: &mut [F], ld: usize, nrhs: usize) {
        if self.divided(&block, x, ld, nrhs) {
            return;
        }
        let never = CancelFlag::new();
        let solved = self.solve_transpose_block(block, x, ld, nrhs, &never);
        solved.unwrap_or_else(|_| unreachable!("nobody raises the flag"));
    }

    /// As [`solve_transpose_range`](Self::solve_transpose_range), stopping soon after `cancel` is raised; the rows `block` of `x`
    /// are then of no use.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    ///
    /// # Panics
    ///
    /// As `solve_range`.
    #[inline]
    #[track_caller]
    pub fn solve_transpose_within(
        &self,
        block: Range<usize>,
        x: &mut [F],
        ld: usize,
        nrhs: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        if self.divided(&block, x, ld, nrhs) {
            return Ok(());
        }
        self.solve_transpose_block(block, x, ld, nrhs, cancel)
    }

    #[track_caller]
    fn solve_transpose_block(
        &self,
        block: Range<usize>,
        x: &mut [F],
        ld: usize,
        nrhs: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        self.assert_shape(&block, x.len(), ld, nrhs);
        if nrhs == 1 {
            // SAFETY: as in `solve_range`.
            return unsafe { self.solve_transpose_one(block, x.as_mut_ptr(), cancel) };
        }
        let mut four = vec![[F::zero(); 4]; block.len()];
        for first in (0..nrhs).step_by(4) {
            let width = 4.min(nrhs - first);
            gather(&mut four, x, ld, first..first + width, block.start);
            // SAFETY: as in `solve_range`.
            unsafe { self.solve_transpose_four(block.clone(), &mut four, cancel)? };
            scatter(&four, x, ld, first..first + width, block.start);
        }
        Ok(())
    }

    /// What divides by pivots of this factorization, one after another.
    fn by_pivot(&self) -> ByPivot<'_, F> {
        if self.is_invertible {
            ByPivot::Inverse(self.inverse_pivots())
        } else {
            ByPivot::Pivots(&self.pivots)
        }
    }

    /// Solves on a block of one column: divides. Whether it is one.
    #[inline]
    fn divided(&self, block: &Range<usize>, x: &mut [F], ld: usize, nrhs: usize) -> bool {
        if block.len() != 1 {
            return false;
        }
        let pivot = self.pivots[block.start];
        for v in 0..nrhs {
            let x = &mut x[v * ld + block.start];
            *x = x.quotient(pivot);
        }
        true
    }

    /// # Safety
    ///
    /// All rows of the columns `block` are in `block`, for which `x` has elements.
    unsafe fn solve_one(
        &self,
        block: Range<usize>,
        x: *mut F,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let lower = self.lower.ptr[block.start]..self.lower.ptr[block.end];
        let upper = self.upper.ptr[block.start]..self.upper.ptr[block.end];
        let entries_of = self
            .entries_of
            .get_or_init(|| Entries::new(&self.lower, &self.upper));
        // SAFETY: entries are within the arrays, and what they name is in `block`.
        unsafe {
            if entries_of.lower_col.is_empty() {
                for some in stretches(block.clone(), COLUMNS) {
                    cancel.check()?;
                    for j in some {
                        let xj = *x.add(j);
                        subtract(self.lower.column_unchecked(j), xj, x);
                    }
                }
            } else {
                let idx = self.lower.idx.as_ptr();
                let values = self.lower.values.as_ptr();
                let col = entries_of.lower_col.as_ptr();
                for some in stretches(lower, ENTRIES) {
                    cancel.check()?;
                    for p in some {
                        let product = *values.add(p) * *x.add(*col.add(p) as usize);
                        *x.add(*idx.add(p) as usize) -= product;
                    }
                }
            }
            if entries_of.upper_col.is_empty() || !self.is_invertible {
                let by_pivot = self.by_pivot();
                for some in stretches(block, COLUMNS).rev() {
                    cancel.check()?;
                    for j in some.rev() {
                        let xj = by_pivot.divide(j, *x.add(j));
                        *x.add(j) = xj;
                        subtract(self.upper.column_unchecked(j), xj, x);
                    }
                }
            } else {
                let idx = self.upper.idx.as_ptr();
                let values = self.upper.values.as_ptr();
                let col = entries_of.upper_col.as_ptr();
                let inverse = self.inverse_pivots().as_ptr();
                for some in stretches(upper, ENTRIES).rev() {
                    cancel.check()?;
                    for p in some.rev() {
                        let j = *col.add(p) as usize;
                        let xj = *x.add(j) * *inverse.add(j);
                        *x.add(*idx.add(p) as usize) -= *values.add(p) * xj;
                    }
                }
                for j in block {
                    *x.add(j) *= *inverse.add(j);
                }
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// All rows of the columns `block` are in `block`, and `x` has an element for each.
    unsafe fn solve_four(
        &self,
        block: Range<usize>,
        x: &mut [[F; 4]],
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let start = block.start;
        let by_pivot = self.by_pivot();
        // SAFETY: what the columns name is in `block`.
        unsafe {
            for some in stretches(block.clone(), COLUMNS) {
                cancel.check()?;
                for j in some {
                    let (rows, values) = self.lower.column_unchecked(j);
                    let xj = *x.get_unchecked(j - start);
                    for (&i, &l) in rows.iter().zip(values) {
                        let xi = x.get_unchecked_mut(i as usize - start);
                        for v in 0..4 {
                            xi[v] -= l * xj[v];
                        }
                    }
                }
            }
            for some in stretches(block, COLUMNS).rev() {
                cancel.check()?;
                for j in some.rev() {
                    let (rows, values) = self.upper.column_unchecked(j);
                    let xj = x.get_unchecked(j - start).map(|x| by_pivot.divide(j, x));
                    *x.get_unchecked_mut(j - start) = xj;
                    for (&i, &u) in rows.iter().zip(values) {
                        let xi = x.get_unchecked_mut(i as usize - start);
                        for v in 0..4 {
                            xi[v] -= u * xj[v];
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As [`solve_one`](Self::solve_one).
    unsafe fn solve_transpose_one(
        &self,
        block: Range<usize>,
        x: *mut F,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let by_pivot = self.by_pivot();
        // SAFETY: what the columns name is in `block`.
        unsafe {
            for some in stretches(block.clone(), COLUMNS) {
                cancel.check()?;
                for j in some {
                    let sum = *x.add(j) - dot(self.upper.column_unchecked(j), x);
                    *x.add(j) = by_pivot.divide(j, sum);
                }
            }
            for some in stretches(block, COLUMNS).rev() {
                cancel.check()?;
                for j in some.rev() {
                    *x.add(j) -= dot(self.lower.column_unchecked(j), x);
                }
            }
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As [`solve_four`](Self::solve_four).
    unsafe fn solve_transpose_four(
        &self,
        block: Range<usize>,
        x: &mut [[F; 4]],
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let start = block.start;
        let by_pivot = self.by_pivot();
        let subtract_dots = |columns: &Columns<F>, j: usize, x: &[[F; 4]]| {
            // SAFETY: the columns of `block` are there.
            let (rows, values) = unsafe { columns.column_unchecked(j) };
            let mut sums = x[j - start];
            for (&i, &value) in rows.iter().zip(values) {
                // SAFETY: the caller's: row i is in `block`.
                let xi = unsafe { x.get_unchecked(i as usize - start) };
                for v in 0..4 {
                    sums[v] -= value * xi[v];
                }
            }
            sums
        };
        for some in stretches(block.clone(), COLUMNS) {
            cancel.check()?;
            for j in some {
                let sums = subtract_dots(&self.upper, j, x);
                x[j - start] = sums.map(|sum| by_pivot.divide(j, sum));
            }
        }
        for some in stretches(block, COLUMNS).rev() {
            cancel.check()?;
            for j in some.rev() {
                x[j - start] = subtract_dots(&self.lower, j, x);
            }
        }
        Ok(())
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
        // The rows of its columns are in the block, if it is made of whole diagonal blocks.
        let is_boundary = |j: usize| j == self.n() || self.is_boundary[j];
        assert!(
            is_boundary(block.start) && is_boundary(block.end),
            "the range cuts a diagonal block"
        );
    }
}

/// Divides by pivots: by a multiplication, which others that wait for it do not wait for as long, where all reciprocals
/// are accurate.
#[derive(Clone, Copy)]
enum ByPivot<'a, F> {
    Inverse(&'a [F]),
    Pivots(&'a [F]),
}

impl<F: Scalar> ByPivot<'_, F> {
    #[inline(always)]
    fn divide(self, j: usize, value: F) -> F {
        match self {
            Self::Inverse(inverse) => value * inverse[j],
            Self::Pivots(pivots) => value.quotient(pivots[j]),
        }
    }
}

/// x −= column · xj.
///
/// # Safety
///
/// `x` has an element for each row of the column.
#[inline(always)]
unsafe fn subtract<F: Scalar>((rows, values): (&[u32], &[F]), xj: F, x: *mut F) {
    for (&i, &value) in rows.iter().zip(values) {
        // SAFETY: the caller's.
        unsafe { *x.add(i as usize) -= value * xj };
    }
}

/// columnᵀ · x.
///
/// # Safety
///
/// `x` has an element for each row of the column.
#[inline(always)]
unsafe fn dot<F: Scalar>((rows, values): (&[u32], &[F]), x: *const F) -> F {
    let mut sum = F::zero();
    for (&i, &value) in rows.iter().zip(values) {
        // SAFETY: the caller's.
        sum += value * unsafe { *x.add(i as usize) };
    }
    sum
}

/// Elements `start..` of vectors `which`, side by side.
fn gather<F: Scalar>(four: &mut [[F; 4]], x: &[F], ld: usize, which: Range<usize>, start: usize) {
    for (lane, v) in which.enumerate() {
        let x = &x[v * ld + start..][..four.len()];
        for (four, &x) in four.iter_mut().zip(x) {
            four[lane] = x;
        }
    }
}

/// The opposite of [`gather`].
fn scatter<F: Scalar>(four: &[[F; 4]], x: &mut [F], ld: usize, which: Range<usize>, start: usize) {
    for (lane, v) in which.enumerate() {
        let x = &mut x[v * ld + start..][..four.len()];
        for (four, x) in four.iter().zip(x) {
            *x = four[lane];
        }
    }
}
