//! Matrix multiply-accumulate by a whole warp (tensor cores).

use crate::imp;

/// C := A·B + C for A 8×4, B 4×8, C 8×8 in `f64`, by all 32 lanes of a warp together
/// (PTX `mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64`, sm_80 and later).
///
/// Lane l holds A\[l/4\]\[l%4\] in `a`, B\[l%4\]\[l/4\] in `b`, and C\[l/4\]\[2·(l%4)\] and
/// C\[l/4\]\[2·(l%4)+1\] in `c`. It is a collective over the full warp. The simulator sums over k in
/// ascending order with fused multiply-adds, beginning with C.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn mma_m8n8k4_f64(a: f64, b: f64, c: [f64; 2]) -> [f64; 2] {
    imp::mma_m8n8k4_f64(a, b, c)
}

/// C := A·B + C for each pair of M matrices A, 16×8, and N matrices B, 8×8, in `f64`: `c[i][j]` is that of `a[i]` and
/// `b[j]`. All 32 lanes of a warp call it together (PTX `mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64`, sm_90 and
/// later).
///
/// With g = l/4 and t = l%4, lane l holds A\[g\]\[t\], A\[g+8\]\[t\], A\[g\]\[t+4\] and A\[g+8\]\[t+4\] of each A,
/// B\[t\]\[g\] and B\[t+4\]\[g\] of each B, C\[g\]\[2·t\], C\[g\]\[2·t+1\], C\[g+8\]\[2·t\] and C\[g+8\]\[2·t+1\] of
/// each C. Twice the rate of [`mma_m8n8k4_f64`] on chips that have it; elsewhere, and on the simulator, it is four of
/// those, k ascending.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn mma_m16n8k8_f64<const M: usize, const N: usize>(
    a: &[[f64; 4]; M],
    b: &[[f64; 2]; N],
    c: &mut [[[f64; 4]; N]; M],
) {
    imp::mma_m16n8k8_f64(a, b, c);
}
