//! Elimination of a few columns of a front, with or without a search for pivots.

use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{ResolvedPivots, Scalar};

use super::dense::{max_abs, rank_one, scale};
use super::simd::Simd;

/// The panels of a front under elimination.
#[derive(Debug)]
pub struct FrontPanels<F> {
    /// Panel of the fully summed columns: `m` rows, `k` columns.
    pub lp: *mut F,
    /// Rows of the front.
    pub m: usize,
    /// Fully summed rows and columns.
    pub k: usize,
    /// Transposed panel of the fully summed rows: `m − k` rows, `k` columns.
    pub ut: *mut F,
    /// Where each fully summed row stood before the elimination, `k` of them.
    pub row: *mut u32,
    /// Where each fully summed column stood.
    pub col: *mut u32,
}

/// What happened to pivots beyond being taken.
#[derive(Debug, Default)]
pub struct PivotEvents {
    /// Positions before the elimination of columns whose pivot was replaced.
    pub replaced: Vec<u32>,
    /// Position before the elimination of the first column with a zero pivot that had to be taken.
    pub zero: Option<u32>,
    /// Whether a row or column moved.
    pub moved: bool,
}

impl<F: Scalar> FrontPanels<F> {
    /// Exchanges two fully summed rows everywhere.
    ///
    /// # Safety
    ///
    /// The panels are valid for their sizes; `a` and `b` are below `k`.
    pub unsafe fn swap_rows(&self, a: usize, b: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            for j in 0..self.k {
                let column = self.lp.add(j * self.m);
                std::ptr::swap(column.add(a), column.add(b));
            }
            let c = self.m - self.k;
            if c > 0 {
                std::ptr::swap_nonoverlapping(self.ut.add(a * c), self.ut.add(b * c), c);
            }
            std::ptr::swap(self.row.add(a), self.row.add(b));
        }
    }

    /// Exchanges two fully summed columns, and the rows of the same positions.
    ///
    /// # Safety
    ///
    /// As [`swap_rows`](Self::swap_rows).
    pub unsafe fn swap_positions(&self, a: usize, b: usize) {
        if a == b {
            return;
        }
        // SAFETY: the caller's contract.
        unsafe {
            std::ptr::swap_nonoverlapping(self.lp.add(a * self.m), self.lp.add(b * self.m), self.m);
            std::ptr::swap(self.col.add(a), self.col.add(b));
            self.swap_rows(a, b);
        }
    }
}

/// Eliminates as many of the columns `lo..hi` as have acceptable pivots, at most eight, and updates
/// the others of them. Returns the number of pivots; they stand at `lo..`, columns without a pivot
/// after them.
///
/// # Safety
///
/// The panels are valid for their sizes, and `lo <= hi <= k`.
#[inline(always)]
pub(super) unsafe fn eliminate_columns<F: Scalar, S: Simd<F>>(
    front: &FrontPanels<F>,
    lo: usize,
    hi: usize,
    policy: &ResolvedPivots<F::Real>,
    events: &mut PivotEvents,
) -> usize {
    let m = front.m;
    let mut next = lo;
    // Columns from here to `hi` failed since the last pivot that may have changed that.
    let mut failed = hi;
    let mut retry = false;
    loop {
        if next == failed {
            if failed == hi || !retry {
                return next - lo;
            }
            failed = hi;
            retry = false;
        }
        // SAFETY: next < hi <= k, and the caller's contract.
        unsafe {
            let column = front.lp.add(next * m);
            if policy.search {
                match search::<F, S>(front, next, policy) {
                    Some(row) if row == next => {}
                    Some(row) => {
                        events.moved = true;
                        front.swap_rows(next, row);
                    }
                    None => {
                        events.moved = true;
                        failed -= 1;
                        front.swap_positions(next, failed);
                        continue;
                    }
                }
            }
            let mut pivot = *column.add(next);
            if let Some(replacement) = policy.replacement(pivot) {
                pivot = replacement;
                *column.add(next) = pivot;
                events.replaced.push(*front.col.add(next));
            }
            if pivot == F::zero() && events.zero.is_none() {
                events.zero = Some(*front.col.add(next));
            }
            let below = column.add(next + 1);
            let rows = m - next - 1;
            let reciprocal = pivot.reciprocal();
            if reciprocal.magnitude().is_normal() {
                scale::<F, S>(rows, below, reciprocal);
            } else {
                for i in 0..rows {
                    let entry = below.add(i);
                    *entry = (*entry).quotient(pivot);
                }
            }
            // One step to the right and one down from the pivot of each further column.
            let mut q = next + 1;
            let row_of = |q: usize| front.lp.add(q * m + next);
            while q + 4 <= hi {
                let u = [*row_of(q), *row_of(q + 1), *row_of(q + 2), *row_of(q + 3)];
                rank_one::<F, S, 4>(rows, below, row_of(q).add(1), m, u);
                q += 4;
            }
            match hi - q {
                1 => rank_one::<F, S, 1>(rows, below, row_of(q).add(1), m, [*row_of(q)]),
                2 => {
                    let u = [*row_of(q), *row_of(q + 1)];
                    rank_one::<F, S, 2>(rows, below, row_of(q).add(1), m, u);
                }
                3 => {
                    let u = [*row_of(q), *row_of(q + 1), *row_of(q + 2)];
                    rank_one::<F, S, 3>(rows, below, row_of(q).add(1), m, u);
                }
                _ => {}
            }
        }
        next += 1;
        retry = true;
    }
}

/// The row of an acceptable pivot for column `next`: the diagonal if it is one, else the largest
/// fully summed entry if that is one.
///
/// # Safety
///
/// As [`eliminate_columns`].
#[inline(always)]
unsafe fn search<F: Scalar, S: Simd<F>>(
    front: &FrontPanels<F>,
    next: usize,
    policy: &ResolvedPivots<F::Real>,
) -> Option<usize> {
    // SAFETY: the caller's contract.
    unsafe {
        let column = front.lp.add(next * front.m);
        let largest = max_abs::<F, S>(front.m - next, column.add(next));
        let bound = policy.threshold * largest;
        let diagonal = (*column.add(next)).magnitude();
        let wanted = if policy.is_static {
            bound.max(policy.small)
        } else {
            bound
        };
        if diagonal >= wanted && diagonal > F::Real::zero() {
            return Some(next);
        }
        let (mut best, mut row) = (diagonal, next);
        for i in next + 1..front.k {
            let value = (*column.add(i)).magnitude();
            if value > best {
                (best, row) = (value, i);
            }
        }
        ((best >= bound && best > F::Real::zero()) || policy.is_static).then_some(row)
    }
}
