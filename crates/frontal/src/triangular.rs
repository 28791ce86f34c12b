//! Solves with the part of L in one front, and the vectors that travel between fronts.

use luge_dense::{FrontalScalar, Gemm, Kernels};

/// Right-hand sides that travel together.
pub(crate) const BLOCK: usize = 16;

/// Solves with the pivots' part of L and subtracts from the rest of the front's values. `m` rows, `p` pivots.
///
/// # Safety
///
/// `lp` has p columns of m rows, `x` has m values.
pub(crate) unsafe fn lower<F: FrontalScalar>(
    kernels: &Kernels<F>,
    lp: *const F,
    [m, p]: [usize; 2],
    x: *mut F,
) {
    let mut j = 0;
    while j < p {
        let width = TRIANGLE.min(p - j);
        let next = j + width;
        // SAFETY: indices stay below m and p.
        unsafe {
            for q in j..next {
                let v = *x.add(q);
                for i in q + 1..next {
                    *x.add(i) -= *lp.add(i + q * m) * v;
                }
            }
            (kernels.gemv)(
                m - next,
                width,
                lp.add(next + j * m),
                m,
                x.add(j),
                x.add(next),
            );
        }
        j = next;
    }
}

/// Solves with the transpose of the pivots' part of L, given the values of the other rows.
///
/// # Safety
///
/// As [`lower`].
pub(crate) unsafe fn lower_transposed<F: FrontalScalar>(
    kernels: &Kernels<F>,
    lp: *const F,
    [m, p]: [usize; 2],
    x: *mut F,
) {
    let mut end = p;
    while end > 0 {
        let begin = end.saturating_sub(TRIANGLE);
        // SAFETY: indices stay below m and p.
        unsafe {
            let panel = lp.add(end + begin * m);
            (kernels.gemv_transposed)(m - end, end - begin, panel, m, x.add(end), x.add(begin));
            for q in (begin..end).rev() {
                let mut v = *x.add(q);
                for i in q + 1..end {
                    v -= *lp.add(i + q * m) * *x.add(i);
                }
                *x.add(q) = v;
            }
        }
        end = begin;
    }
}

/// As [`lower`], for several right-hand sides: value t of row i at `i * width + t`.
///
/// # Safety
///
/// As [`lower`], and `v` has width × m values.
pub(crate) unsafe fn lower_many<F: FrontalScalar>(
    kernels: &Kernels<F>,
    lp: *const F,
    [m, p]: [usize; 2],
    v: *mut F,
    width: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        (kernels.trsm)(width, p, lp, m, v, width);
        (kernels.gemm_nt)(&Gemm {
            rows: width,
            columns: m - p,
            depth: p,
            a: v,
            lda: width,
            b: lp.add(p),
            ldb: m,
            c: v.add(p * width),
            ldc: width,
        });
    }
}

/// As [`lower_transposed`], for several right-hand sides: value t of row i at `i * width + t`.
///
/// # Safety
///
/// As [`lower_many`].
pub(crate) unsafe fn lower_transposed_many<F: FrontalScalar>(
    kernels: &Kernels<F>,
    lp: *const F,
    [m, p]: [usize; 2],
    v: *mut F,
    width: usize,
) {
    let mut end = p;
    while end > 0 {
        let begin = end.saturating_sub(TRIANGLE);
        // SAFETY: indices stay below m and p.
        unsafe {
            (kernels.gemm_nn)(&Gemm {
                rows: width,
                columns: end - begin,
                depth: m - end,
                a: v.add(end * width),
                lda: width,
                b: lp.add(end + begin * m),
                ldb: m,
                c: v.add(begin * width),
                ldc: width,
            });
            for q in (begin..end).rev() {
                for i in q + 1..end {
                    let l = *lp.add(i + q * m);
                    for t in 0..width {
                        *v.add(q * width + t) -= l * *v.add(i * width + t);
                    }
                }
            }
        }
        end = begin;
    }
}

/// Order of the triangles that are solved by plain loops.
pub(crate) const TRIANGLE: usize = 8;

pub(crate) fn unpack<F: Copy>(y: &[F], perm: &[u32], x: &mut [F], ld: usize, width: usize) {
    for (row, &old) in y.chunks_exact(width).zip(perm) {
        for (q, &v) in row.iter().enumerate() {
            x[q * ld + old as usize] = v;
        }
    }
}

pub(crate) fn gather<F: Copy>(from: &[F], labels: &[u32], width: usize, to: &mut [F]) {
    for (to, &label) in to.chunks_exact_mut(width).zip(labels) {
        let at = label as usize * width;
        to.copy_from_slice(&from[at..at + width]);
    }
}

pub(crate) fn scatter<F: Copy>(from: &[F], labels: &[u32], width: usize, to: &mut [F]) {
    for (from, &label) in from.chunks_exact(width).zip(labels) {
        let at = label as usize * width;
        to[at..at + width].copy_from_slice(from);
    }
}

pub(crate) fn add<F: FrontalScalar>(from: &[F], labels: &[u32], width: usize, to: &mut [F]) {
    for (from, &label) in from.chunks_exact(width).zip(labels) {
        let at = label as usize * width;
        for (to, &v) in to[at..at + width].iter_mut().zip(from) {
            *to += v;
        }
    }
}
