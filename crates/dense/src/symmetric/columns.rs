//! Threshold partial pivoting, column by column.

use luge_sparse::num_traits::{Float, One, Zero};
use luge_sparse::{ResolvedSymmetric, Scalar};

use super::{
    Progress, SymmetricEvent, SymmetricPanel, counts_as_zero, divide, form, inverse_of_two,
    is_regular, product::times_two, update_columns,
};
use crate::dense::max_abs;
use crate::simd::Simd;

/// What the search for the next pivot found.
enum Choice {
    /// A column in which all counts as zero.
    Zero(usize),
    One(usize),
    Two(usize, usize),
}

/// Eliminates as many of the columns `lo..hi` as have acceptable pivots, of order 1 and 2 with both columns among these,
/// and updates the others of them. The pivots stand at `lo..` afterwards.
///
/// With the pivots so far in front of column q, candidates p = q + 1, q + 2, … are tried one after the other: first the
/// pivot of order 2 of p and that t from q to p − 1 where |a(p, t)| is largest, the first of equal ones, then the pivot of
/// order 1 of p. If none will do, the pivot of order 1 of q is tried last. A column that counts as zero is taken as soon as
/// its turn comes, or ends the factorization.
///
/// Sizes |·| of complex numbers are [magnitudes](Scalar::magnitude). A pivot of order 1 is acceptable if |a(p, p)| ≥ u · max |a(i, p)| over all i ≠ p that are left; one of order 2, with the
/// block E, if |E⁻¹|·(max |a(i, t)|, max |a(i, p)|)ᵀ ≤ 1/u over the other i, and its determinant is more than rounding. A
/// pivot of order 1 is at least as large as what counts as zero; so is an entry of E.
///
/// # Safety
///
/// The panel is valid for its sizes, `lo <= hi <= k`, and the columns have seen all pivots before them.
#[inline(always)]
pub(crate) unsafe fn eliminate_symmetric<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    front: &SymmetricPanel<F>,
    lo: usize,
    hi: usize,
    rule: &ResolvedSymmetric<F::Real>,
) -> Progress<F::Real> {
    let mut q = lo;
    let mut event = None;
    while q < hi {
        // SAFETY: q < hi, and the caller's contract.
        unsafe {
            match choose::<F, S, HERMITIAN>(front, q, hi, rule) {
                None => break,
                Some(Choice::Zero(p)) => {
                    if !rule.accept {
                        event = Some(SymmetricEvent::Zero(*front.col.add(p)));
                        break;
                    }
                    front.swap(q, p);
                    front.set_diagonal(q, F::zero(), F::zero());
                    let column = front.lp.add(q * front.m);
                    for i in q + 1..front.m {
                        *column.add(i) = F::zero();
                    }
                    q += 1;
                }
                Some(Choice::One(p)) => {
                    front.swap(q, p);
                    eliminate_one::<F, S, HERMITIAN>(front, q, hi);
                    q += 1;
                }
                Some(Choice::Two(t, p)) => {
                    // t comes before p, so the first exchange leaves p where it is.
                    front.swap(q, t);
                    front.swap(q + 1, p);
                    eliminate_two::<F, S, HERMITIAN>(front, q, hi);
                    q += 2;
                }
            }
        }
    }
    Progress {
        pivots: q - lo,
        event,
    }
}

/// The largest magnitude in column `p` of the panel, rows `from..to`.
///
/// # Safety
///
/// As [`eliminate_symmetric`]; `from <= to <= m`.
#[inline(always)]
unsafe fn below<F: Scalar, S: Simd<F>>(
    front: &SymmetricPanel<F>,
    p: usize,
    from: usize,
    to: usize,
) -> F::Real {
    // SAFETY: the caller's contract.
    unsafe { max_abs::<F, S>(to - from, front.lp.add(p * front.m + from)) }
}

/// The largest magnitude in row `p` of the panel, columns `from..p` but `except`, and the first column that has it.
///
/// # Safety
///
/// As [`eliminate_symmetric`]; `from <= p < k`.
#[inline(always)]
unsafe fn left<F: Scalar>(
    front: &SymmetricPanel<F>,
    p: usize,
    from: usize,
    except: usize,
) -> (F::Real, usize) {
    let (mut largest, mut at) = (F::Real::zero(), from);
    for t in (from..p).filter(|&t| t != except) {
        // SAFETY: the caller's contract.
        let size = unsafe { (*front.lp.add(t * front.m + p)).magnitude() };
        if size > largest {
            (largest, at) = (size, t);
        }
    }
    (largest, at)
}

/// # Safety
///
/// As [`eliminate_symmetric`]; `q < hi`.
#[inline(always)]
unsafe fn choose<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    front: &SymmetricPanel<F>,
    q: usize,
    hi: usize,
    rule: &ResolvedSymmetric<F::Real>,
) -> Option<Choice> {
    let m = front.m;
    // SAFETY: the caller's contract; candidates are below k.
    unsafe {
        let on_diagonal = |v: F| form(HERMITIAN).on_diagonal(v);
        let diagonal = |p: usize| on_diagonal(*front.lp.add(p * (m + 1))).magnitude();
        let may_be_one = |size: F::Real, largest: F::Real| {
            !counts_as_zero(size, rule) && size >= rule.threshold * largest
        };
        let of_first = below::<F, S>(front, q, q + 1, m);
        if is_zero::<F, HERMITIAN>(front, q, q, of_first.max(diagonal(q)), rule) {
            return Some(Choice::Zero(q));
        }
        for p in q + 1..hi {
            let (of_row, t) = left(front, p, q, p);
            let of_column = below::<F, S>(front, p, p + 1, m);
            let largest = of_row.max(of_column);
            if is_zero::<F, HERMITIAN>(front, p, q, largest.max(diagonal(p)), rule) {
                return Some(Choice::Zero(p));
            }
            if may_be_two::<F, S, HERMITIAN>(front, q, [t, p], of_column, rule) {
                return Some(Choice::Two(t, p));
            }
            if may_be_one(diagonal(p), largest) {
                return Some(Choice::One(p));
            }
        }
        may_be_one(diagonal(q), of_first).then_some(Choice::One(q))
    }
}

/// Whether column `p`, of which this is the largest magnitude, counts as zero, and none of its entries is not a number,
/// which the largest of them does not tell.
///
/// # Safety
///
/// As [`choose`].
#[inline(always)]
unsafe fn is_zero<F: Scalar, const HERMITIAN: bool>(
    front: &SymmetricPanel<F>,
    p: usize,
    q: usize,
    largest: F::Real,
    rule: &ResolvedSymmetric<F::Real>,
) -> bool {
    let is_small = |v: F| counts_as_zero(v.magnitude(), rule);
    // SAFETY: the caller's contract.
    let entry = |i: usize, j: usize| unsafe { *front.lp.add(j * front.m + i) };
    counts_as_zero(largest, rule)
        && (q..p).all(|t| is_small(entry(p, t)))
        && is_small(form(HERMITIAN).on_diagonal(entry(p, p)))
        && (p + 1..front.m).all(|i| is_small(entry(i, p)))
}

/// Whether columns t < p make an acceptable pivot; `of_column` is the largest magnitude in column p below its diagonal.
///
/// # Safety
///
/// As [`choose`].
#[inline(always)]
unsafe fn may_be_two<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    front: &SymmetricPanel<F>,
    q: usize,
    [t, p]: [usize; 2],
    of_column: F::Real,
    rule: &ResolvedSymmetric<F::Real>,
) -> bool {
    let m = front.m;
    // SAFETY: the caller's contract.
    unsafe {
        let entry = |i: usize, j: usize| *front.lp.add(j * m + i);
        let form = form(HERMITIAN);
        let d21 = entry(p, t);
        let [d11, d22] = [entry(t, t), entry(p, p)].map(|d| form.on_diagonal(d));
        let block = [d11, d21, d22];
        let [size11, size21, size22] = block.map(F::magnitude);
        let size = size11.max(size21).max(size22);
        if d21 == F::zero() || size < rule.small || !is_regular(form, block) {
            return false;
        }
        let [e11, e21, e22] = inverse_of_two(form, block).map(F::magnitude);
        let of_p = left(front, p, q, t).0.max(of_column);
        let beside = below::<F, S>(front, t, t + 1, p).max(below::<F, S>(front, t, p + 1, m));
        let of_t = left(front, t, q, t).0.max(beside);
        let largest = (e11 * of_t + e21 * of_p).max(e21 * of_t + e22 * of_p);
        rule.threshold * largest <= F::Real::one()
    }
}

/// Column q is a pivot of order 1; columns up to `hi` are updated.
///
/// # Safety
///
/// As [`choose`].
#[inline(always)]
unsafe fn eliminate_one<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    front: &SymmetricPanel<F>,
    q: usize,
    hi: usize,
) {
    let (lp, m) = (front.lp, front.m);
    // SAFETY: the caller's contract.
    unsafe {
        let l = lp.add(q * m);
        let form = form(HERMITIAN);
        let d = form.on_diagonal(*l.add(q));
        front.set_diagonal(q, d, F::zero());
        divide::<F, S>(m - q - 1, l.add(q + 1), d);
        let weight = |j| form.counterpart(d * *l.add(j));
        update_columns::<F, S>([q + 1, hi, m], lp, m, l, weight);
    }
}

/// Columns q and q + 1 are a pivot of order 2; columns up to `hi` are updated.
///
/// # Safety
///
/// As [`choose`]; `q + 1 < hi`.
#[inline(always)]
unsafe fn eliminate_two<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    front: &SymmetricPanel<F>,
    q: usize,
    hi: usize,
) {
    let (lp, m) = (front.lp, front.m);
    // SAFETY: the caller's contract.
    unsafe {
        let (x, y) = (lp.add(q * m), lp.add((q + 1) * m));
        let form = form(HERMITIAN);
        let d21 = *x.add(q + 1);
        let [d11, d22] = [*x.add(q), *y.add(q + 1)].map(|d| form.on_diagonal(d));
        let d12 = form.counterpart(d21);
        front.set_diagonal(q, d11, F::zero());
        front.set_diagonal(q + 1, d22, d21);
        *x.add(q + 1) = F::zero();
        let below = q + 2;
        let (p, r) = (x.add(below), y.add(below));
        let inverse = inverse_of_two(form, [d11, d21, d22]);
        times_two::<F, S, HERMITIAN, false>(m - below, inverse, [p, r], [p, r]);
        update_columns::<F, S>([below, hi, m], lp, m, x, |j| {
            form.counterpart(d11 * *x.add(j) + d21 * *y.add(j))
        });
        update_columns::<F, S>([below, hi, m], lp, m, y, |j| {
            form.counterpart(d12 * *x.add(j) + d22 * *y.add(j))
        });
    }
}
