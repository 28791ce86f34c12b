//! A posteriori threshold pivoting of one block of columns.

use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{RealScalar, ResolvedSymmetric, Scalar};

use super::product::{scaled, times_two};
use super::{
    Progress, SymmetricEvent, SymmetricPanel, counts_as_zero, divide, form, inverse_of_two,
    is_regular, update_columns,
};
use crate::Products;
use crate::dense::max_abs;
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

impl<F: Scalar> BlockScratch<F> {
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

impl<F: Scalar> Default for BlockScratch<F> {
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
pub(crate) unsafe fn factorize_block<F: Scalar, S: Products<F>, const HERMITIAN: bool>(
    front: &SymmetricPanel<F>,
    lo: usize,
    hi: usize,
    rule: &ResolvedSymmetric<F::Real>,
    scratch: &mut BlockScratch<F>,
    x: *mut F,
) -> Progress<F::Real> {
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
            Some(_) => search::<F, S, HERMITIAN>(width, rule, scratch),
            None if front.expected.is_null() => descend::<F, S, HERMITIAN>(width, scratch, None),
            None => {
                let expected = std::slice::from_raw_parts_mut(front.expected.add(lo), width);
                descend::<F, S, HERMITIAN>(width, scratch, Some((expected, rule.threshold)))
            }
        };
        let mut event = None;
        if rule.method.is_none() && tried < width {
            let value = (*scratch.block.as_ptr().add(tried * (LD + 1))).real();
            event = Some(SymmetricEvent::NotPositive(
                *front.col.add(lo + tried),
                value,
            ));
        }
        for j in 0..width {
            let from = lp.add((lo + scratch.perm[j] as usize) * m + hi);
            std::ptr::copy_nonoverlapping(from, x.add(j * rows), rows);
        }
        permute::<F, HERMITIAN>(front, lo, width, scratch, x, rows);
        let mut triangle = scratch.block.as_ptr();
        if HERMITIAN {
            // The triangle as it was is not needed any more; here is room for the conjugate of L.
            for j in 0..tried {
                for i in j + 1..tried {
                    scratch.original[j * LD + i] = scratch.block[j * LD + i].conjugate();
                }
            }
            triangle = scratch.original.as_ptr();
        }
        S::trsm(rows, tried, triangle, LD, x, rows);
        let pivots = commit::<F, S, HERMITIAN>(front, [lo, width, tried], rule, scratch, x);
        Progress { pivots, event }
    }
}

/// The diagonal, which is real, in its order, as long as it is positive, or a number where something is expected of it: how many columns.
/// What is at most a part of the `expected` number, as large as is said, is replaced by that.
///
/// # Safety
///
/// The block has `width` columns.
#[inline(always)]
unsafe fn descend<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    width: usize,
    scratch: &mut BlockScratch<F>,
    mut expected: Option<(&mut [F::Real], F::Real)>,
) -> usize {
    let a = scratch.block.as_mut_ptr();
    for q in 0..width {
        // SAFETY: q is below the width, the caller's contract.
        unsafe {
            let pivot = a.add(q * (LD + 1));
            let value = pivot.read().real();
            if let Some((expected, part)) = &mut expected {
                let sign = expected[q].signum();
                if value * sign <= expected[q].abs() * *part {
                    let replacement = std::mem::replace(&mut expected[q], F::Real::zero());
                    *pivot = F::from_real(replacement);
                } else if value.is_nan() {
                    return q;
                }
            } else if value.is_nan() || value <= F::Real::zero() {
                return q;
            }
            scratch.off[q] = F::zero();
            eliminate_one::<F, S, HERMITIAN>(a, q, width);
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
unsafe fn search<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    width: usize,
    rule: &ResolvedSymmetric<F::Real>,
    scratch: &mut BlockScratch<F>,
) -> usize {
    let a = scratch.block.as_mut_ptr();
    let form = form(HERMITIAN);
    // SAFETY: places are below the width, the caller's contract.
    let diagonal = |a: *const F, q: usize| unsafe { form.on_diagonal(*a.add(q * (LD + 1))) };
    let mut q = 0;
    // SAFETY: indices stay below the width, the caller's contract.
    unsafe {
        while q < width {
            let size = diagonal(a, q).magnitude();
            let below = max_abs::<F, S>(width - q - 1, a.add(q * LD + q + 1));
            let is_large = size >= F::Real::from_f64(DIAGONAL) * below;
            if !is_large || counts_as_zero(size, rule) {
                let (i, j) = largest::<F, S>(a, q, width);
                let size = (*a.add(j * LD + i)).magnitude();
                if counts_as_zero(size, rule) || size.is_nan() {
                    break;
                }
                let (d11, d21, d22) = (diagonal(a, j), *a.add(j * LD + i), diagonal(a, i));
                if i != j && is_regular(form, [d11, d21, d22]) {
                    swap::<F, HERMITIAN>(a, width, q, j, &mut scratch.perm);
                    swap::<F, HERMITIAN>(a, width, q + 1, i, &mut scratch.perm);
                    scratch.off[q] = d21;
                    scratch.off[q + 1] = F::zero();
                    eliminate_two::<F, S, HERMITIAN>(a, q, width);
                    q += 2;
                    continue;
                }
                // Where the determinant vanishes, both diagonal entries are about as large as the other one.
                let at = if d22.magnitude() > d11.magnitude() {
                    i
                } else {
                    j
                };
                swap::<F, HERMITIAN>(a, width, q, at, &mut scratch.perm);
                if counts_as_zero(diagonal(a, q).magnitude(), rule) {
                    break;
                }
            }
            scratch.off[q] = F::zero();
            eliminate_one::<F, S, HERMITIAN>(a, q, width);
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
unsafe fn largest<F: Scalar, S: Simd<F>>(a: *const F, q: usize, width: usize) -> (usize, usize) {
    let (mut size, mut column) = (F::Real::zero(), q);
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
            if (*a.add(column * LD + i)).magnitude() == size {
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
unsafe fn swap<F: Scalar, const HERMITIAN: bool>(
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
        form: form(HERMITIAN),
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
unsafe fn eliminate_one<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    a: *mut F,
    q: usize,
    width: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let l = a.add(q * LD);
        let form = form(HERMITIAN);
        let d = form.on_diagonal(*l.add(q));
        if HERMITIAN {
            *l.add(q) = d;
        }
        divide::<F, S>(width - q - 1, l.add(q + 1), d);
        let weight = |j| form.counterpart(d * *l.add(j));
        update_columns::<F, S>([q + 1, width, width], a, LD, l, weight);
    }
}

/// Columns q and q + 1 are a pivot of order 2. The entry of D off its diagonal is known elsewhere; zero, as that of L,
/// takes its place.
///
/// # Safety
///
/// As [`search`]; `q + 1 < width`.
#[inline(always)]
unsafe fn eliminate_two<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    a: *mut F,
    q: usize,
    width: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let (x, y) = (a.add(q * LD), a.add((q + 1) * LD));
        let form = form(HERMITIAN);
        let d21 = *x.add(q + 1);
        let [d11, d22] = [*x.add(q), *y.add(q + 1)].map(|d| form.on_diagonal(d));
        let d12 = form.counterpart(d21);
        if HERMITIAN {
            (*x.add(q), *y.add(q + 1)) = (d11, d22);
        }
        *x.add(q + 1) = F::zero();
        let below = q + 2;
        let (p, r) = (x.add(below), y.add(below));
        let inverse = inverse_of_two(form, [d11, d21, d22]);
        times_two::<F, S, HERMITIAN, false>(width - below, inverse, [p, r], [p, r]);
        let bounds = [below, width, width];
        update_columns::<F, S>(bounds, a, LD, x, |j| {
            form.counterpart(d11 * *x.add(j) + d21 * *y.add(j))
        });
        update_columns::<F, S>(bounds, a, LD, y, |j| {
            form.counterpart(d12 * *x.add(j) + d22 * *y.add(j))
        });
    }
}

/// Brings the rows and columns of the block into the order of its copy: in the panel before the block, in its triangle as
/// it was, and below, whose columns `x` has in that order.
///
/// # Safety
///
/// The panel is valid, `x` has `rows` × `width` values.
#[inline(always)]
unsafe fn permute<F: Scalar, const HERMITIAN: bool>(
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
                let entry = scratch.original[p.min(q) * LD + p.max(q)];
                *to.add(lo + i) = if p < q {
                    form(HERMITIAN).counterpart(entry)
                } else {
                    entry
                };
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
unsafe fn commit<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    front: &SymmetricPanel<F>,
    [lo, width, tried]: [usize; 3],
    rule: &ResolvedSymmetric<F::Real>,
    scratch: &BlockScratch<F>,
    x: *mut F,
) -> usize {
    let (lp, m) = (front.lp, front.m);
    let rows = m - lo - width;
    let bound = if rule.method.is_some() {
        rule.threshold.recip()
    } else {
        F::Real::infinity()
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
            let reciprocal = d.reciprocal();
            let is_normal = reciprocal.magnitude().is_normal();
            let inverse = if order == 2 {
                inverse_of_two(form(HERMITIAN), [d, off, *block.add((j + 1) * (LD + 1))])
            } else {
                [reciprocal; 3]
            };
            let pair = [from.cast_const(), from.add(rows)];
            let size = if order == 2 {
                let nowhere = [std::ptr::null_mut(); 2];
                times_two::<F, S, HERMITIAN, false>(rows, inverse, pair, nowhere)
            } else if is_normal {
                max_abs::<F, S>(rows, from) * reciprocal.magnitude()
            } else {
                // Of a complex number the size of 1/d is up to 2/|d|.
                let spread = F::Real::from_f64(F::COMPONENTS as f64);
                max_abs::<F, S>(rows, from) / d.magnitude() * spread
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
                times_two::<F, S, HERMITIAN, false>(rows, inverse, pair, [to, to.add(m)]);
            } else if is_normal {
                scaled::<F, S, false>(rows, reciprocal, from, to);
            } else {
                for i in 0..rows {
                    *to.add(i) = (*from.add(i)).quotient(d);
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
