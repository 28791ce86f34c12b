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
