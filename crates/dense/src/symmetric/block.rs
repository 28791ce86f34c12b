//! A posteriori threshold pivoting of one block of columns.

use luge_sparse::{RealScalar, ResolvedSymmetric};

use super::product::{scaled, times_two};
use super::{
    Progress, SymmetricEvent, SymmetricPanel, counts_as_zero, divide, inverse_of_two, is_regular,
    update_columns,
};
use crate::dense::{max_abs, trsm};
use crate::simd::Simd;

/// Most columns that [`factorize_block`](crate::SymmetricKernels::factorize_block) takes at once.
pub const BLOCK_COLUMNS: usize = 32;

/// Distance of the columns of a block's copies.
const LD: usize = BLOCK_COLUMNS;

/// Within a block, a diagonal entry that is at least this times the largest entry below it is taken without a search:
/// L then has no entry above 2 there, about as with the largest entry of all.
const DIAGONAL: f64 = 0.5;

/// What blocks are worked on in, by one thread.
#[derive(Debug)]
pub struct BlockScratch<F> {
    /// A block's triangle as it was, and under elimination.
    original: Vec<F>,
    block: Vec<F>,
    /// Entries of D off the diagonal, by their first column; zero: a pivot of order 1.
    off: [F; BLOCK_COLUMNS],
    /// Where each column of the block came from.
    perm: [u32; BLOCK_COLUMNS],
}

impl<F: RealScalar> BlockScratch<F> {
    /// Bytes of the arrays.
    pub const BYTES: usize = 2 * BLOCK_COLUMNS * BLOCK_COLUMNS * size_of::<F>();

    /// Allocates the arrays.
    pub fn new() -> Self {
        let zeros = || vec![F::zero(); BLOCK_COLUMNS * BLOCK_COLUMNS];
        Self {
            original: zeros(),
            block: zeros(),
            off: [F::zero(); BLOCK_COLUMNS],
            perm: [0; BLOCK_COLUMNS],
        }
    }
}

impl<F: RealScalar> Default for BlockScratch<F> {
    fn default() -> Self {
        Self::new()
    }
}

/// Eliminates as many of the columns `lo..hi` as have acceptable pivots if the rows and columns of the block alone are
/// searched, and leaves the others of them as they are, but for their order. The pivots stand at `lo..` afterwards; no
/// other column has seen them. At most [`BLOCK_COLUMNS`] columns.
///
/// The triangle of the block is factorized in a copy, with complete pivoting where the diagonal is not large; then its
/// columns below are divided by that. Up to the first column of L with an entry above 1/u in magnitude they are taken.
///
/// Without a method in the `rule`, the diagonal is taken in its order, as long as it is positive, or with what the panel
/// [expects](SymmetricPanel::expected) of it, and nothing is checked.
///
/// `x` has room for (m − `hi`) × (`hi` − `lo`) values.
///
/// # Safety
///
/// The panel is valid for its sizes, `lo <= hi <= k`, and the columns have seen all pivots before them.
#[inline(always)]
pub(crate) unsafe fn factorize_block<F: RealScalar, S: Simd<F>>(
    front: &SymmetricPanel<F>,
    lo: usize,
    hi: usize,
    rule: &ResolvedSymmetric<F>,
    scratch: &mut BlockScratch<F>,
    x: *mut F,
) -> Progress<F> {
    let (lp, m) = (front.lp, front.m);
    let width = hi - lo;
    let rows = m - hi;
    // SAFETY: the caller's contract; the copies have room for a block.
    unsafe {
        for j in 0..width {
            let from = lp.add((lo + j) * m + lo + j);
            for copy in [&mut scratch.original, &mut scratch.block] {
                let to = copy.as_mut_ptr().add(j * LD + j);
                std::ptr::copy_nonoverlapping(from, to, width - j);
            }
            scratch.perm[j] = j as u32;
        }
        let tried = match rule.method {
            Some(_) => search::<F, S>(width, rule, scratch),
            None if front.expected.is_null() => descend::<F, S>(width, scratch, None),
            None => {
                let expected = std::slice::from_raw_parts_mut(front.expected.add(lo), width);
                descend::<F, S>(width, scratch, Some((expected, rule.threshold)))
            }
        };
        let mut event = None;
        if rule.method.is_none() && tried < width {
            let value = *scratch.block.as_ptr().add(tried * (LD + 1));
            event = Some(SymmetricEvent::NotPositive(
                *front.col.add(lo + tried),
                value,
            ));
        }
        for j in 0..width {
            let from = lp.add((lo + scratch.perm[j] as usize) * m + hi);
            std::ptr::copy_nonoverlapping(from, x.add(j * rows), rows);
        }
        permute(front, lo, width, scratch, x, rows);
        trsm::<F, S>(rows, tried, scratch.block.as_ptr(), LD, x, rows);
        let pivots = commit::<F, S>(front, [lo, width, tried], rule, scratch, x);
        Progress { pivots, event }
    }
}

/// The diagonal in its order, as long as it is positive, or a number where something is expected of it: how many columns.
/// What is at most a part of the `expected` number, as large as is said, is replaced by that.
///
/// # Safety
///
/// The block has `width` columns.
#[inline(always)]
unsafe fn descend<F: RealScalar, S: Simd<F>>(
    width: usize,
    scratch: &mut BlockScratch<F>,
    mut expected: Option<(&mut [F], F)>,
) -> usize {
    let a = scratch.block.as_mut_ptr();
    for q in 0..width {
        // SAFETY: q is below the width, the caller's contract.
        unsafe {
            let pivot = a.add(q * (LD + 1));
            if let Some((expected, part)) = &mut expected {
                let sign = expected[q].signum();
                if *pivot * sign <= expected[q].abs() * *part {
                    *pivot = std::mem::replace(&mut expected[q], F::zero());
                } else if pivot.read().is_nan() {
                    return q;
                }
            } else if pivot.read().is_nan() || *pivot <= F::zero() {
                return q;
            }
            scratch.off[q] = F::zero();
            eliminate_one::<F, S>(a, q, width);
        }
    }
    width
}

/// Factorizes the block's copy with pivots of order 1 and 2, as far as what is left does not count as zero: the number of
/// columns.
///
/// # Safety
///
/// The block has `width` columns.
#[inline(always)]
unsafe fn search<F: RealScalar, S: Simd<F>>(
    width: usize,
    rule: &ResolvedSymmetric<F>,
    scratch: &mut BlockScratch<F>,
) -> usize {
    let a = scratch.block.as_mut_ptr();
    let mut q = 0;
    // SAFETY: indices stay below the width, the caller's contract.
    unsafe {
        while q < width {
            let diagonal = (*a.add(q * (LD + 1))).abs();
            let below = max_abs::<F, S>(width - q - 1, a.add(q * LD + q + 1));
            let is_large = diagonal >= F::from_f64(DIAGONAL) * below;
            if !is_large || counts_as_zero(diagonal, rule) {
                let (i, j) = largest::<F, S>(a, q, width);
                let size = (*a.add(j * LD + i)).abs();
                if counts_as_zero(size, rule) || size.is_nan() {
                    break;
                }
                let (d11, d21, d22) = (
                    *a.add(j * (LD + 1)),
                    *a.add(j * LD + i),
                    *a.add(i * (LD + 1)),
                );
                if i != j && is_regular(d11, d21, d22) {
                    swap(a, width, q, j, &mut scratch.perm);
                    swap(a, width, q + 1, i, &mut scratch.perm);
                    scratch.off[q] = d21;
                    scratch.off[q + 1] = F::zero();
                    eliminate_two::<F, S>(a, q, width);
                    q += 2;
                    continue;
                }
                // Where the determinant vanishes, both diagonal entries are about as large as the other one.
                let at = if d22.abs() > d11.abs() { i } else { j };
                swap(a, width, q, at, &mut scratch.perm);
                if counts_as_zero((*a.add(q * (LD + 1))).abs(), rule) {
                    break;
                }
            }
            scratch.off[q] = F::zero();
            eliminate_one::<F, S>(a, q, width);
            q += 1;
        }
    }
    q
}

/// Row and column of the largest magnitude in what is left of the triangle, the first by columns of equal ones.
///
/// # Safety
///
/// As [`search`].
#[inline(always)]
unsafe fn largest<F: RealScalar, S: Simd<F>>(
    a: *const F,
    q: usize,
    width: usize,
) -> (usize, usize) {
    let (mut size, mut column) = (F::zero(), q);
    // SAFETY: the caller's contract.
    unsafe {
        for j in q..width {
            let of_column = max_abs::<F, S>(width - j, a.add(j * (LD + 1)));
            if of_column > size {
                (size, column) = (of_column, j);
            }
        }
        let mut row = column;
        for i in (column..width).rev() {
            if (*a.add(column * LD + i)).abs() == size {
                row = i;
            }
        }
        (row, column)
    }
}

/// Exchanges rows and columns p ≥ q of a triangle of order `width`, and with them the rows of the pivots before q.
///
/// # Safety
///
/// As [`search`]; `q <= p < width`.
#[inline(always)]
unsafe fn swap<F: RealScalar>(
    a: *mut F,
    width: usize,
    q: usize,
    p: usize,
    perm: &mut [u32; BLOCK_COLUMNS],
) {
    if p == q {
        return;
    }
    let block = SymmetricPanel {
        lp: a,
        m: LD,
        k: width,
        col: perm.as_mut_ptr(),
        expected: std::ptr::null_mut(),
    };
    // SAFETY: the caller's contract. The rows below the width, which nobody reads, are exchanged too.
    unsafe { block.swap(q, p) };
}

/// Column q is a pivot of order 1: L takes its place below the diagonal.
///
/// # Safety
///
/// As [`search`]; `q < width`.
#[inline(always)]
unsafe fn eliminate_one<F: RealScalar, S: Simd<F>>(a: *mut F, q: usize, width: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        let l = a.add(q * LD);
        let d = *l.add(q);
        divide::<F, S>(width - q - 1, l.add(q + 1), d);
        update_columns::<F, S>([q + 1, width, width], a, LD, l, |j| d * *l.add(j));
    }
}

/// Columns q and q + 1 are a pivot of order 2. The entry of D off its diagonal is known elsewhere; zero, as that of L,
/// takes its place.
///
/// # Safety
///
/// As [`search`]; `q + 1 < width`.
#[inline(always)]
unsafe fn eliminate_two<F: RealScalar, S: Simd<F>>(a: *mut F, q: usize, width: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        let (x, y) = (a.add(q * LD), a.add((q + 1) * LD));
        let (d11, d21, d22) = (*x.add(q), *x.add(q + 1), *y.add(q + 1));
        *x.add(q + 1) = F::zero();
        let below = q + 2;
        let (p, r) = (x.add(below), y.add(below));
        times_two::<F, S>(width - below, inverse_of_two(d11, d21, d22), [p, r], [p, r]);
        let bounds = [below, width, width];
        update_columns::<F, S>(bounds, a, LD, x, |j| d11 * *x.add(j) + d21 * *y.add(j));
        update_columns::<F, S>(bounds, a, LD, y, |j| d21 * *x.add(j) + d22 * *y.add(j));
    }
}

/// Brings the rows and columns of the block into the order of its copy: in the panel before the block, in its triangle as
/// it was, and below, whose columns `x` has in that order.
///
/// # Safety
///
/// The panel is valid, `x` has `rows` × `width` values.
#[inline(always)]
unsafe fn permute<F: RealScalar>(
    front: &SymmetricPanel<F>,
    lo: usize,
    width: usize,
    scratch: &BlockScratch<F>,
    x: *const F,
    rows: usize,
) {
    let (lp, m) = (front.lp, front.m);
    let perm = &scratch.perm[..width];
    let Some(first) = (0..width).find(|&j| perm[j] as usize != j) else {
        return;
    };
    let mut old = [F::zero(); BLOCK_COLUMNS];
    let mut labels = [0; BLOCK_COLUMNS];
    // SAFETY: the caller's contract; the permutation is one of the block.
    unsafe {
        for j in 0..lo {
            let column = lp.add(j * m + lo);
            std::ptr::copy_nonoverlapping(
                column.add(first),
                old.as_mut_ptr().add(first),
                width - first,
            );
            for i in first..width {
                *column.add(i) = old[perm[i] as usize];
            }
        }
        std::ptr::copy_nonoverlapping(front.col.add(lo), labels.as_mut_ptr(), width);
        for j in 0..width {
            *front.col.add(lo + j) = labels[perm[j] as usize];
            let to = lp.add((lo + j) * m);
            for i in j.max(first)..width {
                let (p, q) = (perm[i] as usize, perm[j] as usize);
                *to.add(lo + i) = scratch.original[p.min(q) * LD + p.max(q)];
            }
            if j >= first {
                std::ptr::copy_nonoverlapping(x.add(j * rows), to.add(lo + width), rows);
            }
        }
    }
}

/// Takes the pivots of the block's copy into the panel, up to the first with an entry of L above 1/u: the number of their
/// columns. `x` has L·D below the block.
///
/// # Safety
///
/// As [`factorize_block`]; `tried` columns of the copy are eliminated.
#[inline(always)]
unsafe fn commit<F: RealScalar, S: Simd<F>>(
    front: &SymmetricPanel<F>,
    [lo, width, tried]: [usize; 3],
    rule: &ResolvedSymmetric<F>,
    scratch: &BlockScratch<F>,
    x: *mut F,
) -> usize {
    let (lp, m) = (front.lp, front.m);
    let rows = m - lo - width;
    let bound = if rule.method.is_some() {
        rule.threshold.recip()
    } else {
        F::infinity()
    };
    let block = scratch.block.as_ptr();
    let mut j = 0;
    // SAFETY: the caller's contract.
    unsafe {
        while j < tried {
            let off = scratch.off[j];
            let order = if off == F::zero() { 1 } else { 2 };
            let d = *block.add(j * (LD + 1));
            let from = x.add(j * rows);
            let to = lp.add((lo + j) * m + lo + width);
            let reciprocal = d.recip();
            let inverse = if order == 2 {
                inverse_of_two(d, off, *block.add((j + 1) * (LD + 1)))
            } else {
                [reciprocal; 3]
            };
            let pair = [from.cast_const(), from.add(rows)];
            let size = if order == 2 {
                let nowhere = [std::ptr::null_mut(); 2];
                times_two::<F, S>(rows, inverse, pair, nowhere)
            } else if reciprocal.is_normal() {
                max_abs::<F, S>(rows, from) * reciprocal.abs()
            } else {
                max_abs::<F, S>(rows, from) / d.abs()
            };
            let mut largest = size;
            for q in j..j + order {
                let inner = max_abs::<F, S>(width - j - order, block.add(q * LD + j + order));
                largest = largest.max(inner);
            }
            if largest > bound {
                break;
            }
            if order == 2 {
                times_two::<F, S>(rows, inverse, pair, [to, to.add(m)]);
            } else if reciprocal.is_normal() {
                scaled::<F, S>(rows, reciprocal, from, to);
            } else {
                for i in 0..rows {
                    *to.add(i) = *from.add(i) / d;
                }
            }
            for q in j..j + order {
                front.set_diagonal(lo + q, *block.add(q * (LD + 1)), F::zero());
                let column = lp.add((lo + q) * m + lo);
                let below = q + 1..width;
                std::ptr::copy_nonoverlapping(
                    block.add(q * LD + below.start),
                    column.add(below.start),
                    below.len(),
                );
            }
            if order == 2 {
                *lp.add((lo + j + 1) * m + lo + j) = off;
            }
            j += order;
        }
    }
    j
}
