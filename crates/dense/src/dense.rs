//! Dense kernels, generic over the vectors.
//!
//! Every entry of every result is one chain of `fnma` in ascending order of the inner index, started
//! from the entry itself. Splitting the inner dimension over several calls, the outer ones over
//! tiles or threads, or changing any block size therefore changes no bit. The imaginary part of a complex product has two
//! terms, which are subtracted one after the other: so that it is the same chain in each kernel that eliminates,
//! the entry of L comes first in `fnma`.

use std::ops::Range;

use luge_sparse::Scalar;

use super::Products;
use super::simd::Simd;

/// Columns of a register tile.
pub(crate) const NR: usize = 8;
/// Vectors of a register tile.
const MV: usize = 3;

/// One register tile: C(MV·W × N) −= A·Bᵀ; the last vector's lanes are those of `mask`. `LAST`: A is the second factor.
///
/// # Safety
///
/// As [`gemm`], for the rows of the tile.
#[inline(always)]
#[expect(clippy::too_many_arguments)]
unsafe fn tile<
    F: Scalar,
    S: Simd<F>,
    const MV: usize,
    const N: usize,
    const NT: bool,
    const LAST: bool,
>(
    depth: usize,
    mut a: *const F,
    lda: usize,
    mut b: *const F,
    ldb: usize,
    c: *mut F,
    ldc: usize,
    mask: S::M,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut acc = [[S::splat(F::zero()); MV]; N];
        for (j, column) in acc.iter_mut().enumerate() {
            let cj = c.add(j * ldc);
            for (i, v) in column.iter_mut().enumerate() {
                *v = if i + 1 == MV {
                    S::load_masked(cj.add(i * S::W), mask)
                } else {
                    S::load(cj.add(i * S::W))
                };
            }
        }
        for _ in 0..depth {
            let mut av = [S::splat(F::zero()); MV];
            for (i, v) in av.iter_mut().enumerate() {
                *v = if i + 1 == MV {
                    S::load_masked(a.add(i * S::W), mask)
                } else {
                    S::load(a.add(i * S::W))
                };
            }
            for (j, column) in acc.iter_mut().enumerate() {
                let bv = S::splat(*b.add(if NT { j } else { j * ldb }));
                for (v, &x) in column.iter_mut().zip(&av) {
                    *v = if LAST {
                        S::fnma(bv, x, *v)
                    } else {
                        S::fnma(x, bv, *v)
                    };
                }
            }
            a = a.wrapping_add(lda);
            b = b.wrapping_add(if NT { ldb } else { 1 });
        }
        for (j, column) in acc.iter().enumerate() {
            let cj = c.add(j * ldc);
            for (i, &v) in column.iter().enumerate() {
                if i + 1 == MV {
                    S::store_masked(cj.add(i * S::W), v, mask);
                } else {
                    S::store(cj.add(i * S::W), v);
                }
            }
        }
    }
}

/// Tiles of N columns, all rows.
///
/// # Safety
///
/// As [`gemm`].
#[inline(always)]
#[expect(clippy::too_many_arguments)]
unsafe fn strip<F: Scalar, S: Simd<F>, const N: usize, const NT: bool, const LAST: bool>(
    rows: usize,
    depth: usize,
    a: *const F,
    lda: usize,
    b: *const F,
    ldb: usize,
    c: *mut F,
    ldc: usize,
) {
    // SAFETY: the caller's contract; every tile stays within `rows`.
    unsafe {
        // One copy of each tile: the compiler takes its time for them.
        let full = S::mask(S::W);
        let mut i = 0;
        while rows - i > 2 * S::W {
            let left = rows - i;
            let mask = if left >= MV * S::W {
                full
            } else {
                S::mask(left - 2 * S::W)
            };
            tile::<F, S, MV, N, NT, LAST>(depth, a.add(i), lda, b, ldb, c.add(i), ldc, mask);
            i += MV * S::W;
            if left <= MV * S::W {
                return;
            }
        }
        let left = rows - i;
        if left == 0 {
            return;
        }
        let (a, c) = (a.add(i), c.add(i));
        if left > S::W {
            let mask = S::mask(left - S::W);
            tile::<F, S, 2, N, NT, LAST>(depth, a, lda, b, ldb, c, ldc, mask);
        } else {
            let mask = S::mask(left);
            tile::<F, S, 1, N, NT, LAST>(depth, a, lda, b, ldb, c, ldc, mask);
        }
    }
}

/// A product to subtract: C (rows × columns, column-major) −= A (rows × depth) · B'.
#[derive(Debug)]
pub struct Gemm<F> {
    /// Rows of A and C.
    pub rows: usize,
    /// Columns of C.
    pub columns: usize,
    /// Columns of A.
    pub depth: usize,
    /// A.
    pub a: *const F,
    /// Entries between two columns of A.
    pub lda: usize,
    /// B, columns × depth or depth × columns.
    pub b: *const F,
    /// Entries between two columns of B.
    pub ldb: usize,
    /// C.
    pub c: *mut F,
    /// Entries between two columns of C.
    pub ldc: usize,
}

/// C −= A·Bᵀ with B columns × depth (`NT`), or C −= A·B with B depth × columns. `LAST`: A is the second factor of products.
///
/// # Safety
///
/// The matrices are valid for their sizes, and C overlaps neither A nor B.
#[inline(always)]
pub(crate) unsafe fn gemm<F: Scalar, S: Simd<F>, const NT: bool, const LAST: bool>(g: &Gemm<F>) {
    if g.depth == 0 || g.rows == 0 {
        return;
    }
    // Rows of A that stay in the second-level cache while the columns pass.
    let block =
        (BLOCK_BYTES / (g.depth * size_of::<F>())).max(8 * MV * S::W) / (MV * S::W) * (MV * S::W);
    let mut i = 0;
    while i < g.rows {
        let rows = block.min(g.rows - i);
        let mut j = 0;
        while j < g.columns {
            // SAFETY: the caller's contract; tiles stay within the matrices.
            unsafe {
                let a = g.a.add(i);
                let b = g.b.add(if NT { j } else { j * g.ldb });
                let c = g.c.add(i + j * g.ldc);
                macro_rules! strips {
                    ($($n:literal)*) => {
                        match g.columns - j {
                            $($n => strip::<F, S, $n, NT, LAST>(rows, g.depth, a, g.lda, b, g.ldb, c, g.ldc),)*
                            _ => strip::<F, S, NR, NT, LAST>(rows, g.depth, a, g.lda, b, g.ldb, c, g.ldc),
                        }
                    };
                }
                strips!(1 2 3 4 5 6 7);
            }
            j += NR;
        }
        i += rows;
    }
}

/// Bytes of A that [`gemm`] keeps in the second-level cache.
const BLOCK_BYTES: usize = 384 * 1024;

/// X (rows × p, column-major) := X · L⁻ᵀ for a unit lower triangular L (p × p).
///
/// # Safety
///
/// The matrices are valid for their sizes and do not overlap.
#[inline(always)]
pub(crate) unsafe fn trsm<F: Scalar, S: Products<F>>(
    rows: usize,
    p: usize,
    l: *const F,
    ldl: usize,
    x: *mut F,
    ldx: usize,
) {
    let mut j = 0;
    while j < p {
        // SAFETY: the caller's contract.
        unsafe {
            if j > 0 {
                S::gemm_nt_last(&Gemm {
                    rows,
                    columns: NR.min(p - j),
                    depth: j,
                    a: x,
                    lda: ldx,
                    b: l.add(j),
                    ldb: ldl,
                    c: x.add(j * ldx),
                    ldc: ldx,
                });
            }
            let (l, x) = (l.add(j + j * ldl), x.add(j * ldx));
            macro_rules! triangles {
                ($($n:literal)*) => {
                    match p - j {
                        1 => {}
                        $($n => triangle::<F, S, $n>(rows, l, ldl, x, ldx),)*
                        _ => triangle::<F, S, NR>(rows, l, ldl, x, ldx),
                    }
                };
            }
            triangles!(2 3 4 5 6 7);
        }
        j += NR;
    }
}

/// [`trsm`] for p = N.
///
/// # Safety
///
/// As [`trsm`].
#[inline(always)]
unsafe fn triangle<F: Scalar, S: Simd<F>, const N: usize>(
    rows: usize,
    l: *const F,
    ldl: usize,
    x: *mut F,
    ldx: usize,
) {
    let mut i = 0;
    while i < rows {
        // SAFETY: the caller's contract; the mask covers rows i .. rows.
        unsafe {
            let mask = S::mask(S::W.min(rows - i));
            let mut v = [S::splat(F::zero()); N];
            for (j, v) in v.iter_mut().enumerate() {
                *v = S::load_masked(x.add(i + j * ldx), mask);
            }
            for q in 0..N - 1 {
                for j in q + 1..N {
                    v[j] = S::fnma(S::splat(*l.add(j + q * ldl)), v[q], v[j]);
                }
            }
            for (j, &v) in v.iter().enumerate().skip(1) {
                S::store_masked(x.add(i + j * ldx), v, mask);
            }
        }
        i += S::W;
    }
}

/// Largest magnitude among `n` values; unspecified if one is NaN.
///
/// # Safety
///
/// `p` is valid for `n` values.
#[inline(always)]
pub(crate) unsafe fn max_abs<F: Scalar, S: Simd<F>>(n: usize, p: *const F) -> F::Real {
    // SAFETY: the caller's contract.
    unsafe {
        let mut v = S::splat(F::zero());
        let mut i = 0;
        while i + S::W <= n {
            v = S::max(v, S::abs(S::load(p.add(i))));
            i += S::W;
        }
        if i < n {
            let mask = S::mask(n - i);
            v = S::max(v, S::abs(S::load_masked(p.add(i), mask)));
        }
        S::largest(v)
    }
}

/// x·= factor for `n` values.
///
/// # Safety
///
/// `p` is valid for `n` values.
#[inline(always)]
pub(crate) unsafe fn scale<F: Scalar, S: Simd<F>>(n: usize, p: *mut F, factor: F) {
    // SAFETY: the caller's contract.
    unsafe {
        let f = S::splat(factor);
        let mut i = 0;
        while i + S::W <= n {
            S::store(p.add(i), S::mul(S::load(p.add(i)), f));
            i += S::W;
        }
        if i < n {
            let mask = S::mask(n - i);
            S::store_masked(p.add(i), S::mul(S::load_masked(p.add(i), mask), f), mask);
        }
    }
}

/// N columns at distance `ld`, `n` rows each: c_q −= l·u_q.
///
/// # Safety
///
/// The columns and `l` are valid for `n` values and do not overlap.
#[inline(always)]
pub(crate) unsafe fn rank_one<F: Scalar, S: Simd<F>, const N: usize>(
    n: usize,
    l: *const F,
    c: *mut F,
    ld: usize,
    u: [F; N],
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut factors = [S::splat(F::zero()); N];
        for (v, &value) in factors.iter_mut().zip(&u) {
            *v = S::splat(value);
        }
        let mut i = 0;
        while i + S::W <= n {
            let lv = S::load(l.add(i));
            for (q, &f) in factors.iter().enumerate() {
                let p = c.add(q * ld + i);
                S::store(p, S::fnma(lv, f, S::load(p)));
            }
            i += S::W;
        }
        if i < n {
            let mask = S::mask(n - i);
            let lv = S::load_masked(l.add(i), mask);
            for (q, &f) in factors.iter().enumerate() {
                let p = c.add(q * ld + i);
                S::store_masked(p, S::fnma(lv, f, S::load_masked(p, mask)), mask);
            }
        }
    }
}

/// y −= A·x for A n × k, column-major.
///
/// # Safety
///
/// All arrays are valid for their sizes; y overlaps nothing.
#[inline(always)]
pub(crate) unsafe fn gemv<F: Scalar, S: Simd<F>>(
    n: usize,
    k: usize,
    a: *const F,
    lda: usize,
    x: *const F,
    y: *mut F,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut j = 0;
        while j + 4 <= k {
            gemv_columns::<F, S, 4>(n, a.add(j * lda), lda, x.add(j), y);
            j += 4;
        }
        match k - j {
            1 => gemv_columns::<F, S, 1>(n, a.add(j * lda), lda, x.add(j), y),
            2 => gemv_columns::<F, S, 2>(n, a.add(j * lda), lda, x.add(j), y),
            3 => gemv_columns::<F, S, 3>(n, a.add(j * lda), lda, x.add(j), y),
            _ => {}
        }
    }
}

/// [`gemv`] for k = N.
///
/// # Safety
///
/// As [`gemv`].
#[inline(always)]
unsafe fn gemv_columns<F: Scalar, S: Simd<F>, const N: usize>(
    n: usize,
    a: *const F,
    lda: usize,
    x: *const F,
    y: *mut F,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut factors = [S::splat(F::zero()); N];
        for (j, v) in factors.iter_mut().enumerate() {
            *v = S::splat(*x.add(j));
        }
        let mut i = 0;
        while i + S::W <= n {
            let mut v = S::load(y.add(i));
            for (j, &f) in factors.iter().enumerate() {
                v = S::fnma(S::load(a.add(i + j * lda)), f, v);
            }
            S::store(y.add(i), v);
            i += S::W;
        }
        if i < n {
            let mask = S::mask(n - i);
            let mut v = S::load_masked(y.add(i), mask);
            for (j, &f) in factors.iter().enumerate() {
                v = S::fnma(S::load_masked(a.add(i + j * lda), mask), f, v);
            }
            S::store_masked(y.add(i), v, mask);
        }
    }
}

/// y −= Aᵀ·x for A n × k, column-major.
///
/// # Safety
///
/// All arrays are valid for their sizes; y overlaps nothing.
#[inline(always)]
pub(crate) unsafe fn gemv_transposed<F: Scalar, S: Simd<F>>(
    n: usize,
    k: usize,
    a: *const F,
    lda: usize,
    x: *const F,
    y: *mut F,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut j = 0;
        while j + 4 <= k {
            dots::<F, S, 4>(n, a.add(j * lda), lda, x, y.add(j));
            j += 4;
        }
        match k - j {
            1 => dots::<F, S, 1>(n, a.add(j * lda), lda, x, y.add(j)),
            2 => dots::<F, S, 2>(n, a.add(j * lda), lda, x, y.add(j)),
            3 => dots::<F, S, 3>(n, a.add(j * lda), lda, x, y.add(j)),
            _ => {}
        }
    }
}

/// [`gemv_transposed`] for k = N.
///
/// # Safety
///
/// As [`gemv_transposed`].
#[inline(always)]
unsafe fn dots<F: Scalar, S: Simd<F>, const N: usize>(
    n: usize,
    a: *const F,
    lda: usize,
    x: *const F,
    y: *mut F,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut acc = [S::splat(F::zero()); N];
        let mut i = 0;
        while i + S::W <= n {
            let xv = S::load(x.add(i));
            for (j, v) in acc.iter_mut().enumerate() {
                *v = S::fma(S::load(a.add(i + j * lda)), xv, *v);
            }
            i += S::W;
        }
        if i < n {
            let mask = S::mask(n - i);
            let xv = S::load_masked(x.add(i), mask);
            for (j, v) in acc.iter_mut().enumerate() {
                *v = S::fma(S::load_masked(a.add(i + j * lda), mask), xv, *v);
            }
        }
        for (j, &v) in acc.iter().enumerate() {
            *y.add(j) -= S::sum(v);
        }
    }
}

/// What the check of one front reads and adds to.
#[derive(Debug)]
pub struct CheckFront<F> {
    /// Panel of the pivots' columns, `m` rows, `k` columns.
    pub lp: *const F,
    /// Rows of the front.
    pub m: usize,
    /// Fully summed columns.
    pub k: usize,
    /// Transposed panel of the pivots' rows, `m − k` rows.
    pub ut: *const F,
    /// Number of pivots.
    pub pivots: usize,
    /// Weights of the rows, in the order of the panel.
    pub w: *const F,
    /// Sums of |L||U| by column of the front, added to; not used by [`weigh_front`](crate::Kernels::weigh_front).
    pub products: *mut F,
    /// Sums of wᵀLU by column of the front, or of wᵀ|L||U|, added to.
    pub check: *mut F,
    /// `k` values to work in; not used by [`weigh_front`](crate::Kernels::weigh_front).
    pub s: *mut F,
    /// `k` values to work in.
    pub t: *mut F,
    /// What of the check is to be done.
    pub part: CheckPart,
}

/// A part of the check of a front. All of the pivots come before the others, which may come in any order or at once: the sums
/// are the same.
#[derive(Debug, Clone)]
pub enum CheckPart {
    /// The whole of it.
    All,
    /// The sums over the columns of L of these pivots, which are written to `s` and `t`.
    Pivots(Range<usize>),
    /// What these fully summed columns are added.
    Columns(Range<usize>),
    /// And these columns below them.
    Below(Range<usize>),
}

/// Adds the columns sums of |L|·|U| and of (wᵀL)·U of a front's pivots.
///
/// # Safety
///
/// The arrays of `f` are valid for the sizes they name and do not overlap.
#[inline(always)]
pub(crate) unsafe fn check_front<F: Scalar, S: Simd<F>>(f: &CheckFront<F>) {
    // SAFETY: the caller's contract.
    unsafe { sum_up_front::<F, S, false>(f) }
}

/// Adds the column sums of (wᵀ|L|)·|U| of a front's pivots.
///
/// # Safety
///
/// The arrays of `f` that are used are valid for the sizes they name and do not overlap.
#[inline(always)]
pub(crate) unsafe fn weigh_front<F: Scalar, S: Simd<F>>(f: &CheckFront<F>) {
    // SAFETY: the caller's contract.
    unsafe { sum_up_front::<F, S, true>(f) }
}

/// An entry as it counts in the weighted sums.
#[inline(always)]
unsafe fn taken<F: Scalar, S: Simd<F>, const WEIGH: bool>(v: S::V) -> S::V {
    // SAFETY: the processor has the instructions.
    if WEIGH { unsafe { S::abs(v) } } else { v }
}

/// Both sums of the check, or with `WEIGH` the one of weighted magnitudes.
#[inline(always)]
unsafe fn sum_up_front<F: Scalar, S: Simd<F>, const WEIGH: bool>(f: &CheckFront<F>) {
    // SAFETY: the caller's contract.
    unsafe {
        let (m, k, p) = (f.m, f.k, f.pivots);
        let c = m - k;
        let (of_pivots, of_columns, of_below) = match &f.part {
            CheckPart::All => (0..p, 0..k, 0..c),
            CheckPart::Pivots(part) => (part.clone(), 0..0, 0..0),
            CheckPart::Columns(part) => (0..0, part.clone(), 0..0),
            CheckPart::Below(part) => (0..0, 0..0, part.clone()),
        };
        for j in of_pivots {
            let mut magnitude = S::splat(F::zero());
            let mut weighted = S::splat(F::zero());
            let mut i = j + 1;
            let column = f.lp.add(j * m);
            while i + S::W <= m {
                let v = S::load(column.add(i));
                if !WEIGH {
                    magnitude = S::add(magnitude, S::abs(v));
                }
                weighted = S::fma(taken::<F, S, WEIGH>(v), S::load(f.w.add(i)), weighted);
                i += S::W;
            }
            if i < m {
                let mask = S::mask(m - i);
                let v = S::load_masked(column.add(i), mask);
                if !WEIGH {
                    magnitude = S::add(magnitude, S::abs(v));
                }
                weighted = S::fma(
                    taken::<F, S, WEIGH>(v),
                    S::load_masked(f.w.add(i), mask),
                    weighted,
                );
            }
            if !WEIGH {
                *f.s.add(j) = F::one() + S::sum(magnitude);
            }
            *f.t.add(j) = *f.w.add(j) + S::sum(weighted);
        }
        for q in of_columns {
            let rows = (q + 1).min(p);
            let column = f.lp.add(q * m);
            let mut product = S::splat(F::zero());
            let mut check = S::splat(F::zero());
            let mut i = 0;
            while i < rows {
                let mask = S::mask(S::W.min(rows - i));
                let v = S::load_masked(column.add(i), mask);
                if !WEIGH {
                    product = S::fma(S::abs(v), S::load_masked(f.s.add(i), mask), product);
                }
                check = S::fma(
                    taken::<F, S, WEIGH>(v),
                    S::load_masked(f.t.add(i), mask),
                    check,
                );
                i += S::W;
            }
            if !WEIGH {
                *f.products.add(q) += S::sum(product);
            }
            *f.check.add(q) += S::sum(check);
        }
        let (products, check) = (f.products.wrapping_add(k), f.check.add(k));
        let mut i = of_below.start;
        while i < of_below.end {
            let mask = S::mask(S::W.min(of_below.end - i));
            let mut g = S::splat(F::zero());
            if !WEIGH {
                g = S::load_masked(products.add(i), mask);
            }
            let mut h = S::load_masked(check.add(i), mask);
            for j in 0..p {
                let v = S::load_masked(f.ut.add(i + j * c), mask);
                if !WEIGH {
                    g = S::fma(S::abs(v), S::splat(*f.s.add(j)), g);
                }
                h = S::fma(taken::<F, S, WEIGH>(v), S::splat(*f.t.add(j)), h);
            }
            if !WEIGH {
                S::store_masked(products.add(i), g, mask);
            }
            S::store_masked(check.add(i), h, mask);
            i += S::W;
        }
    }
}
