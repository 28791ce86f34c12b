//! Products on a triangle, and with D.

use luge_sparse::Scalar;

use super::form;
use crate::Products;
use crate::dense::{Gemm, NR};
use crate::simd::Simd;

/// C −= A·Bᵀ with B columns × depth, for the entries of C on and below its diagonal; some above it, within the tiles, are
/// changed too. `g.rows` is at least `g.columns`.
///
/// # Safety
///
/// The matrices are valid for their sizes, and C overlaps neither A nor B.
#[inline(always)]
pub(crate) unsafe fn gemm_lower<F: Scalar, S: Products<F>>(g: &Gemm<F>) {
    let mut j = 0;
    while j < g.columns {
        // SAFETY: the caller's contract; the strips stay within the matrices.
        unsafe {
            S::gemm_nt(&Gemm {
                rows: g.rows - j,
                columns: NR.min(g.columns - j),
                a: g.a.add(j),
                b: g.b.add(j),
                c: g.c.add(j + j * g.ldc),
                ..*g
            });
        }
        j += NR;
    }
}

/// to := a·x, or its conjugate.
///
/// # Safety
///
/// The arrays are valid for `n` values.
#[inline(always)]
pub(super) unsafe fn scaled<F: Scalar, S: Simd<F>, const CONJUGATE: bool>(
    n: usize,
    a: F,
    x: *const F,
    to: *mut F,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let a = S::splat(a);
        let mut i = 0;
        while i + S::W <= n {
            let product = S::mul(S::load(x.add(i)), a);
            S::store(to.add(i), maybe_conjugate::<F, S, CONJUGATE>(product));
            i += S::W;
        }
        if i < n {
            let mask = S::mask(n - i);
            let product = S::mul(S::load_masked(x.add(i), mask), a);
            let product = maybe_conjugate::<F, S, CONJUGATE>(product);
            S::store_masked(to.add(i), product, mask);
        }
    }
}

/// # Safety
///
/// The processor has the instructions.
#[inline(always)]
unsafe fn maybe_conjugate<F: Scalar, S: Simd<F>, const CONJUGATE: bool>(v: S::V) -> S::V {
    if CONJUGATE {
        // SAFETY: the caller's contract.
        unsafe { S::conjugate(v) }
    } else {
        v
    }
}

/// (to₁ to₂) := (x y)·E for E = `[e11 e12; e21 e22]`, where e12 is the counterpart of e21, or the conjugates of that; the
/// largest magnitude of the results. `to` may be the same as `from`; null: nothing is written.
///
/// # Safety
///
/// The arrays are valid for `n` values.
#[inline(always)]
pub(super) unsafe fn times_two<
    F: Scalar,
    S: Simd<F>,
    const HERMITIAN: bool,
    const CONJUGATE: bool,
>(
    n: usize,
    [e11, e21, e22]: [F; 3],
    from: [*const F; 2],
    to: [*mut F; 2],
) -> F::Real {
    // SAFETY: the caller's contract.
    unsafe {
        let e12 = S::splat(form(HERMITIAN).counterpart(e21));
        let [e11, e21, e22] = [S::splat(e11), S::splat(e21), S::splat(e22)];
        let mut largest = S::splat(F::zero());
        let mut i = 0;
        while i < n {
            let mask = S::mask(S::W.min(n - i));
            let x = S::load_masked(from[0].add(i), mask);
            let y = S::load_masked(from[1].add(i), mask);
            let first = S::fma(y, e21, S::mul(x, e11));
            let second = S::fma(y, e22, S::mul(x, e12));
            largest = S::max(largest, S::max(S::abs(first), S::abs(second)));
            if !to[0].is_null() {
                let first = maybe_conjugate::<F, S, CONJUGATE>(first);
                let second = maybe_conjugate::<F, S, CONJUGATE>(second);
                S::store_masked(to[0].add(i), first, mask);
                S::store_masked(to[1].add(i), second, mask);
            }
            i += S::W;
        }
        S::largest(largest)
    }
}

/// X (rows × pivots) := L·D for so many rows of L, or where that is Hermitian its conjugate, by which Lᵀ is multiplied in an
/// update: rows, pivots, L, the diagonal block of its pivots, the leading dimension of both, X, its leading dimension.
///
/// # Safety
///
/// The matrices are valid for their sizes; X overlaps nothing.
#[inline(always)]
pub(crate) unsafe fn times_diagonal<F: Scalar, S: Simd<F>, const HERMITIAN: bool>(
    rows: usize,
    pivots: usize,
    l: *const F,
    d: *const F,
    ld: usize,
    x: *mut F,
    ldx: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut j = 0;
        while j < pivots {
            let d11 = *d.add(j * (ld + 1));
            let off = if j + 1 < pivots {
                *d.add(j + (j + 1) * ld)
            } else {
                F::zero()
            };
            let (from, to) = (l.add(j * ld), x.add(j * ldx));
            if off == F::zero() {
                scaled::<F, S, HERMITIAN>(rows, d11, from, to);
                j += 1;
            } else {
                let d22 = *d.add((j + 1) * (ld + 1));
                let (from, to) = ([from, from.add(ld)], [to, to.add(ldx)]);
                times_two::<F, S, HERMITIAN, HERMITIAN>(rows, [d11, off, d22], from, to);
                j += 2;
            }
        }
    }
}
