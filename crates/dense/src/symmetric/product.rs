//! Products on a triangle, and with D.

use luge_sparse::RealScalar;

use crate::dense::{Gemm, NR, strip};
use crate::simd::Simd;

/// C −= A·Bᵀ with B columns × depth, for the entries of C on and below its diagonal; some above it, within the tiles, are
/// changed too. `g.rows` is at least `g.columns`.
///
/// # Safety
///
/// The matrices are valid for their sizes, and C overlaps neither A nor B.
#[inline(always)]
pub(crate) unsafe fn gemm_lower<F: RealScalar, S: Simd<F>>(g: &Gemm<F>) {
    if g.depth == 0 {
        return;
    }
    let mut j = 0;
    while j < g.columns {
        let rows = g.rows - j;
        // SAFETY: the caller's contract; the strips stay within the matrices.
        unsafe {
            let (a, b, c) = (g.a.add(j), g.b.add(j), g.c.add(j + j * g.ldc));
            macro_rules! strips {
                ($($n:literal)*) => {
                    match g.columns - j {
                        $($n => strip::<F, S, $n, true, false>(rows, g.depth, a, g.lda, b, g.ldb, c, g.ldc),)*
                        _ => strip::<F, S, NR, true, false>(rows, g.depth, a, g.lda, b, g.ldb, c, g.ldc),
                    }
                };
            }
            strips!(1 2 3 4 5 6 7);
        }
        j += NR;
    }
}

/// to := a·x.
///
/// # Safety
///
/// The arrays are valid for `n` values.
#[inline(always)]
pub(super) unsafe fn scaled<F: RealScalar, S: Simd<F>>(n: usize, a: F, x: *const F, to: *mut F) {
    // SAFETY: the caller's contract.
    unsafe {
        let a = S::splat(a);
        let mut i = 0;
        while i + S::W <= n {
            S::store(to.add(i), S::mul(S::load(x.add(i)), a));
            i += S::W;
        }
        if i < n {
            let mask = S::mask(n - i);
            S::store_masked(to.add(i), S::mul(S::load_masked(x.add(i), mask), a), mask);
        }
    }
}

/// (to₁ to₂) := (x y)·E for a symmetric E = `[e11 e21; e21 e22]`; the largest magnitude of the results. `to` may be the
/// same as `from`; null: nothing is written.
///
/// # Safety
///
/// The arrays are valid for `n` values.
#[inline(always)]
pub(super) unsafe fn times_two<F: RealScalar, S: Simd<F>>(
    n: usize,
    [e11, e21, e22]: [F; 3],
    from: [*const F; 2],
    to: [*mut F; 2],
) -> F {
    // SAFETY: the caller's contract.
    unsafe {
        let [e11, e21, e22] = [S::splat(e11), S::splat(e21), S::splat(e22)];
        let mut largest = S::splat(F::zero());
        let mut i = 0;
        while i < n {
            let mask = S::mask(S::W.min(n - i));
            let x = S::load_masked(from[0].add(i), mask);
            let y = S::load_masked(from[1].add(i), mask);
            let first = S::fma(y, e21, S::mul(x, e11));
            let second = S::fma(y, e22, S::mul(x, e21));
            largest = S::max(largest, S::max(S::abs(first), S::abs(second)));
            if !to[0].is_null() {
                S::store_masked(to[0].add(i), first, mask);
                S::store_masked(to[1].add(i), second, mask);
            }
            i += S::W;
        }
        S::largest(largest)
    }
}

/// X (rows × pivots) := L·D for so many rows of L: rows, pivots, L, the diagonal block of its pivots, the leading
/// dimension of both, X, its leading dimension.
///
/// # Safety
///
/// The matrices are valid for their sizes; X overlaps nothing.
#[inline(always)]
pub(crate) unsafe fn times_diagonal<F: RealScalar, S: Simd<F>>(
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
                scaled::<F, S>(rows, d11, from, to);
                j += 1;
            } else {
                let d22 = *d.add((j + 1) * (ld + 1));
                let (from, to) = ([from, from.add(ld)], [to, to.add(ldx)]);
                times_two::<F, S>(rows, [d11, off, d22], from, to);
                j += 2;
            }
        }
    }
}
