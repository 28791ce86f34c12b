//! Solves with the panels of one front, and the vectors of right-hand sides.

use std::convert::Infallible;
use std::ops::Range;

use luge_dense::{FrontalScalar, Gemm, Kernels};
use luge_sparse::Scalar;
use rayon::prelude::*;

use crate::shares::{Parts, pieces};

/// Right-hand sides that travel together.
pub(crate) const BLOCK: usize = 16;

/// Order of the triangles that are solved by plain loops.
const TRIANGLE: usize = 8;

/// Columns that are solved with before the others see them, in a large panel.
const PANEL: usize = 128;

/// Entries of a panel that is large. The order of sums depends on it, not on who adds them up. Few in tests, so that small
/// fronts are shared there.
const LARGE: usize = if cfg!(test) { 1 << 8 } else { 1 << 17 };

/// Rows of right-hand sides that a thread moves at once, and that more than one thread is worth.
const ROWS_AT_ONCE: usize = if cfg!(test) { 2 } else { 1 << 13 };

/// Rows whose values begin a line of memory together.
const ALIGNED_ROWS: usize = if cfg!(test) { 1 } else { 16 };

/// The dense work of solves on one front, in which x has `width` values for each row, one after the other.
///
/// Every value is the same whoever does the work: products are shared by rows or columns of the panel, and each value takes
/// its products in the order of the columns, or is one sum.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'a, F: Scalar> {
    pub kernels: &'a Kernels<F>,
    /// Whether the threads of the current rayon pool share large products.
    pub is_shared: bool,
}

/// A panel by columns, a part of a larger one.
#[derive(Clone, Copy)]
pub(crate) struct Panel<F> {
    pub entries: *const F,
    pub rows: usize,
    pub cols: usize,
    /// Entries between the starts of columns.
    pub ld: usize,
}

impl<F: FrontalScalar> Panel<F> {
    fn is_large(&self) -> bool {
        self.rows * self.cols >= LARGE
    }

    /// The part with these rows and columns.
    ///
    /// # Safety
    ///
    /// It has them.
    unsafe fn part(&self, rows: Range<usize>, cols: Range<usize>) -> Self {
        Self {
            // SAFETY: the caller's contract.
            entries: unsafe { self.entries.add(rows.start + cols.start * self.ld) },
            rows: rows.len(),
            cols: cols.len(),
            ld: self.ld,
        }
    }

    /// How many columns are solved with before others see them: all, if the panel is not large.
    fn width(&self) -> usize {
        if self.is_large() { PANEL } else { self.cols }
    }
}

/// The ranges of so many numbers that make up `0..len`, from the first on.
fn upwards(len: usize, width: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let range = start..len.min(start + width);
        start = range.end;
        (!range.is_empty()).then_some(range)
    })
}

/// Likewise from the last on, which may be shorter.
fn downwards(len: usize, width: usize) -> impl Iterator<Item = Range<usize>> {
    let mut end = len;
    std::iter::from_fn(move || {
        let start = if end <= width {
            0
        } else {
            (end - 1) / width * width
        };
        let range = start..end;
        end = start;
        (!range.is_empty()).then_some(range)
    })
}

impl<F: FrontalScalar> Steps<'_, F> {
    #[inline(always)]
    fn share(&self, len: usize, entries: usize, step: usize, work: impl Fn(Range<usize>) + Sync) {
        let all = pieces(
            self.is_shared,
            len,
            entries,
            step,
            |range| -> Result<(), Infallible> {
                work(range);
                Ok(())
            },
        );
        all.unwrap_or_else(|never| match never {});
    }

    /// y −= A·x.
    ///
    /// # Safety
    ///
    /// x has values for the columns of A, and y, which overlaps nothing, for its rows.
    pub unsafe fn subtract(&self, a: Panel<F>, x: *const F, y: *mut F, width: usize) {
        let parts = Parts::new((a.entries, x, y));
        let (cols, ld) = (a.cols, a.ld);
        if a.rows == 0 || cols == 0 {
            return;
        }
        self.share(a.rows, cols * width, ALIGNED_ROWS, |rows| {
            // SAFETY: the values of these rows of y are this call's.
            unsafe {
                let (a, x, y) = parts.get();
                let (a, y) = (a.add(rows.start), y.add(rows.start * width));
                if width == 1 {
                    (self.kernels.gemv)(rows.len(), cols, a, ld, x, y);
                } else {
                    (self.kernels.gemm_nt)(&Gemm {
                        rows: width,
                        columns: rows.len(),
                        depth: cols,
                        a: x,
                        lda: width,
                        b: a,
                        ldb: ld,
                        c: y,
                        ldc: width,
                    });
                }
            }
        });
    }

    /// y −= Aᵀ·x.
    ///
    /// # Safety
    ///
    /// x has values for the rows of A, and y, which overlaps nothing, for its columns.
    pub unsafe fn subtract_transposed(&self, a: Panel<F>, x: *const F, y: *mut F, width: usize) {
        let parts = Parts::new((a.entries, x, y));
        let (rows, ld) = (a.rows, a.ld);
        if rows == 0 || a.cols == 0 {
            return;
        }
        self.share(a.cols, rows * width, 4, |cols| {
            // SAFETY: the values of these columns of y are this call's.
            unsafe {
                let (a, x, y) = parts.get();
                let (a, y) = (a.add(cols.start * ld), y.add(cols.start * width));
                if width == 1 {
                    (self.kernels.gemv_transposed)(rows, cols.len(), a, ld, x, y);
                } else {
                    (self.kernels.gemm_nn)(&Gemm {
                        rows: width,
                        columns: cols.len(),
                        depth: rows,
                        a: x,
                        lda: width,
                        b: a,
                        ldb: ld,
                        c: y,
                        ldc: width,
                    });
                }
            }
        });
    }

    /// Solves with the unit lower triangle at the top of a panel, and subtracts from the rows below.
    ///
    /// # Safety
    ///
    /// x has values for the rows of the panel, which has no more columns than rows.
    pub unsafe fn lower(&self, l: Panel<F>, x: *mut F, width: usize) {
        if !l.is_large() {
            // SAFETY: the caller's contract.
            unsafe { self.lower_at_once(l, x, width) };
            return;
        }
        for cols in upwards(l.cols, PANEL) {
            // SAFETY: the caller's contract.
            unsafe {
                let x = x.add(cols.start * width);
                self.lower_at_once(l.part(cols.start..l.rows, cols), x, width);
            }
        }
    }

    /// [`lower`](Self::lower), all columns before the rows below.
    #[inline(always)]
    unsafe fn lower_at_once(&self, l: Panel<F>, x: *mut F, width: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            if width == 1 {
                self.lower_square(l, x);
            } else {
                (self.kernels.trsm)(width, l.cols, l.entries, l.ld, x, width);
            }
            let below = x.add(l.cols * width);
            self.subtract(l.part(l.cols..l.rows, 0..l.cols), x, below, width);
        }
    }

    /// [`lower`](Self::lower) with the triangle alone, for one right-hand side.
    unsafe fn lower_square(&self, l: Panel<F>, x: *mut F) {
        for j in (0..l.cols).step_by(TRIANGLE) {
            let end = l.cols.min(j + TRIANGLE);
            // SAFETY: the caller's contract.
            unsafe {
                for q in j..end {
                    let v = *x.add(q);
                    for i in q + 1..end {
                        *x.add(i) -= *l.entries.add(i + q * l.ld) * v;
                    }
                }
                if end < l.cols {
                    let rest = l.part(end..l.cols, j..end).entries;
                    let (rows, cols) = (l.cols - end, end - j);
                    (self.kernels.gemv)(rows, cols, rest, l.ld, x.add(j), x.add(end));
                }
            }
        }
    }

    /// Solves with the transpose of the unit lower triangle at the top of a panel, given the values of the rows below.
    ///
    /// # Safety
    ///
    /// As [`lower`](Self::lower).
    pub unsafe fn lower_transposed(&self, l: Panel<F>, x: *mut F, width: usize) {
        for cols in downwards(l.cols, l.width()) {
            // SAFETY: the caller's contract.
            unsafe {
                let (top, below) = (x.add(cols.start * width), x.add(cols.end * width));
                let (block, top) = if l.is_large() {
                    let rest = l.part(cols.end..l.rows, cols.clone());
                    self.subtract_transposed(rest, below, top, width);
                    (l.part(cols.clone(), cols), top)
                } else {
                    (l, x)
                };
                if width == 1 {
                    self.lower_transposed_block::<true>(block, top, 1);
                } else {
                    self.lower_transposed_block::<false>(block, top, width);
                }
            }
        }
    }

    /// [`lower_transposed`](Self::lower_transposed), a few columns at a time.
    unsafe fn lower_transposed_block<const ONE: bool>(&self, l: Panel<F>, x: *mut F, width: usize) {
        let width = if ONE { 1 } else { width };
        let alone = Self {
            is_shared: false,
            ..*self
        };
        for begin in (0..l.cols).step_by(TRIANGLE).rev() {
            let end = l.cols.min(begin + TRIANGLE);
            // SAFETY: the caller's contract.
            unsafe {
                let (top, below) = (x.add(begin * width), x.add(end * width));
                alone.subtract_transposed(l.part(end..l.rows, begin..end), below, top, width);
                for q in (begin..end).rev() {
                    for i in q + 1..end {
                        let entry = *l.entries.add(i + q * l.ld);
                        for t in 0..width {
                            *x.add(q * width + t) -= entry * *x.add(i * width + t);
                        }
                    }
                }
            }
        }
    }

    /// Solves with the upper triangle of a square panel.
    ///
    /// # Safety
    ///
    /// x has values for the rows of the panel.
    pub unsafe fn upper(&self, u: Panel<F>, x: *mut F, width: usize) {
        for cols in downwards(u.cols, u.width()) {
            // SAFETY: the caller's contract.
            unsafe {
                let part = x.add(cols.start * width);
                let square = u.part(cols.clone(), cols.clone());
                if width == 1 {
                    self.upper_square::<true>(square, part, 1);
                } else {
                    self.upper_square::<false>(square, part, width);
                }
                self.subtract(u.part(0..cols.start, cols), part, x, width);
            }
        }
    }

    /// [`upper`](Self::upper), a few columns at a time.
    unsafe fn upper_square<const ONE: bool>(&self, u: Panel<F>, x: *mut F, width: usize) {
        let width = if ONE { 1 } else { width };
        let alone = Self {
            is_shared: false,
            ..*self
        };
        let mut end = u.cols;
        while end > 0 {
            let begin = end.saturating_sub(TRIANGLE);
            // SAFETY: the caller's contract.
            unsafe {
                for q in (begin..end).rev() {
                    let column = u.entries.add(q * u.ld);
                    for t in 0..width {
                        let value = x.add(q * width + t);
                        *value = (*value).quotient(*column.add(q));
                    }
                    for i in begin..q {
                        let entry = *column.add(i);
                        for t in 0..width {
                            *x.add(i * width + t) -= entry * *x.add(q * width + t);
                        }
                    }
                }
                let above = u.part(0..begin, begin..end);
                alone.subtract(above, x.add(begin * width), x, width);
            }
            end = begin;
        }
    }

    /// Solves with the transpose of the upper triangle of a square panel.
    ///
    /// # Safety
    ///
    /// As [`upper`](Self::upper).
    pub unsafe fn upper_transposed(&self, u: Panel<F>, x: *mut F, width: usize) {
        for cols in upwards(u.cols, u.width()) {
            // SAFETY: the caller's contract.
            unsafe {
                let part = x.add(cols.start * width);
                self.subtract_transposed(u.part(0..cols.start, cols.clone()), x, part, width);
                let square = u.part(cols.clone(), cols);
                if width == 1 {
                    self.upper_transposed_square::<true>(square, part, 1);
                } else {
                    self.upper_transposed_square::<false>(square, part, width);
                }
            }
        }
    }

    /// [`upper_transposed`](Self::upper_transposed), a few columns at a time.
    unsafe fn upper_transposed_square<const ONE: bool>(
        &self,
        u: Panel<F>,
        x: *mut F,
        width: usize,
    ) {
        let width = if ONE { 1 } else { width };
        let alone = Self {
            is_shared: false,
            ..*self
        };
        for j in (0..u.cols).step_by(TRIANGLE) {
            let end = u.cols.min(j + TRIANGLE);
            // SAFETY: the caller's contract.
            unsafe {
                alone.subtract_transposed(u.part(0..j, j..end), x, x.add(j * width), width);
                for q in j..end {
                    let column = u.entries.add(q * u.ld);
                    for i in j..q {
                        let entry = *column.add(i);
                        for t in 0..width {
                            *x.add(q * width + t) -= entry * *x.add(i * width + t);
                        }
                    }
                    for t in 0..width {
                        let value = x.add(q * width + t);
                        *value = (*value).quotient(*column.add(q));
                    }
                }
            }
        }
    }
}

/// Right-hand sides `x`, `ld` apart, as rows of values, row i of which is given by `perm`.
pub(crate) fn pack<F: Scalar>(
    perm: &[u32],
    x: &[F],
    ld: usize,
    width: usize,
    threads: usize,
) -> Vec<F> {
    let row = |(to, &old): (&mut [F], &u32)| {
        for (q, v) in to.iter_mut().enumerate() {
            *v = x[q * ld + old as usize];
        }
    };
    let mut y = vec![F::zero(); perm.len() * width];
    if threads == 1 || perm.len() <= ROWS_AT_ONCE {
        y.chunks_exact_mut(width).zip(perm).for_each(row);
    } else {
        let rows = y.par_chunks_exact_mut(width).zip(perm);
        rows.with_min_len(ROWS_AT_ONCE).for_each(row);
    }
    y
}

/// The way back from [`pack`]: `perm` is a permutation.
pub(crate) fn unpack<F: Scalar>(
    y: &[F],
    perm: &[u32],
    x: &mut [F],
    ld: usize,
    width: usize,
    threads: usize,
) {
    assert!(ld >= perm.len() && x.len() >= (width - 1) * ld + perm.len());
    let to = Parts::new(x.as_mut_ptr());
    let row = |(from, &old): (&[F], &u32)| {
        assert!((old as usize) < perm.len());
        for (q, &v) in from.iter().enumerate() {
            // SAFETY: within x, as was checked; every entry has one row.
            unsafe { *to.get().add(q * ld + old as usize) = v };
        }
    };
    if threads == 1 || perm.len() <= ROWS_AT_ONCE {
        y.chunks_exact(width).zip(perm).for_each(row);
    } else {
        let rows = y.par_chunks_exact(width).zip(perm);
        rows.with_min_len(ROWS_AT_ONCE).for_each(row);
    }
}
