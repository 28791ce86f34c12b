//! Warp collectives.
//!
//! `shfl.sync`, `vote.sync`, `match.sync`, `redux.sync` and `mma.sync` make the lanes of the mask
//! meet, but the PTX memory model gives memory order to `bar.warp.sync` alone. The DSL promises that
//! every collective orders the accesses of its lanes, so each one is preceded by a `bar.warp.sync`
//! of the same mask: what a lane did before is then visible to every lane that got past it.

use core::arch::asm;

use super::element::ElementImp;
use crate::warp::{FULL_MASK, ReduceOp, ShuffleKind};

#[allow(improper_ctypes)]
unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp_sync(mask: u32);
    #[link_name = "llvm.nvvm.activemask"]
    fn activemask() -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shfl_idx(mask: u32, v: u32, lane: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    fn shfl_up(mask: u32, v: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    fn shfl_down(mask: u32, v: u32, delta: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    fn shfl_bfly(mask: u32, v: u32, lane_mask: u32, clamp: u32) -> u32;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    fn vote_sync_any(mask: u32, pred: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.all.sync"]
    fn vote_sync_all(mask: u32, pred: bool) -> bool;
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    fn vote_sync_ballot(mask: u32, pred: bool) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i32"]
    fn match_any_sync(mask: u32, v: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.add"]
    fn redux_add(v: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    fn redux_umin(v: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    fn redux_umax(v: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.min"]
    fn redux_min(v: i32, mask: u32) -> i32;
    #[link_name = "llvm.nvvm.redux.sync.max"]
    fn redux_max(v: i32, mask: u32) -> i32;
    #[link_name = "llvm.nvvm.redux.sync.and"]
    fn redux_and(v: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.or"]
    fn redux_or(v: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.xor"]
    fn redux_xor(v: u32, mask: u32) -> u32;
}

#[inline(always)]
pub fn active_mask() -> u32 {
    // SAFETY: reading the mask has no preconditions.
    unsafe { activemask() }
}

#[inline(always)]
pub fn fold<T: ElementImp>(lanes: u32, v: T, f: impl Fn(T, T) -> T) -> T {
    let mut folded = v;
    let mut distance = lanes / 2;
    while distance > 0 {
        folded = f(
            folded,
            shuffle(ShuffleKind::Xor, FULL_MASK, folded, distance),
        );
        distance /= 2;
    }
    folded
}

#[inline(always)]
pub fn sync_warp(mask: u32) {
    // SAFETY: that the lanes of the mask, the own among them, all get here is the kernel's promise.
    unsafe { bar_warp_sync(mask) }
}

/// The last operand of `shfl.sync`: the lane that a read must not pass, for sections of 32 lanes.
const HIGHEST_LANE: u32 = 31;
const LOWEST_LANE: u32 = 0;

#[inline(always)]
fn shuffle_word(kind: ShuffleKind, mask: u32, v: u32, operand: u32) -> u32 {
    // SAFETY: as in `sync_warp`; by the kernel's promise the lane read from is in the mask, and a
    // distance is at most 31 (the instruction looks at its low five bits only).
    unsafe {
        match kind {
            ShuffleKind::Index => shfl_idx(mask, v, operand, HIGHEST_LANE),
            ShuffleKind::Up => shfl_up(mask, v, operand, LOWEST_LANE),
            ShuffleKind::Down => shfl_down(mask, v, operand, HIGHEST_LANE),
            ShuffleKind::Xor => shfl_bfly(mask, v, operand, HIGHEST_LANE),
        }
    }
}

#[inline(always)]
pub fn shuffle<T: ElementImp>(kind: ShuffleKind, mask: u32, v: T, operand: u32) -> T {
    sync_warp(mask);
    if size_of::<T>() == 16 {
        let words = |bits: u64| {
            let low = shuffle_word(kind, mask, bits as u32, operand);
            let high = shuffle_word(kind, mask, (bits >> 32) as u32, operand);
            u64::from(high) << 32 | u64::from(low)
        };
        return v.map_halves(words);
    }
    let bits = v.to_bits64();
    let low = shuffle_word(kind, mask, bits as u32, operand);
    if size_of::<T>() == 8 {
        let high = shuffle_word(kind, mask, (bits >> 32) as u32, operand);
        T::from_bits64(u64::from(high) << 32 | u64::from(low))
    } else {
        T::from_bits64(u64::from(low))
    }
}

#[inline(always)]
pub fn vote_any(mask: u32, pred: bool) -> bool {
    sync_warp(mask);
    // SAFETY: as in `sync_warp`.
    unsafe { vote_sync_any(mask, pred) }
}

#[inline(always)]
pub fn vote_all(mask: u32, pred: bool) -> bool {
    sync_warp(mask);
    // SAFETY: as in `sync_warp`.
    unsafe { vote_sync_all(mask, pred) }
}

#[inline(always)]
pub fn ballot(mask: u32, pred: bool) -> u32 {
    sync_warp(mask);
    // SAFETY: as in `sync_warp`.
    unsafe { vote_sync_ballot(mask, pred) }
}

#[inline(always)]
pub fn match_any(mask: u32, v: u32) -> u32 {
    sync_warp(mask);
    // SAFETY: as in `sync_warp`.
    unsafe { match_any_sync(mask, v) }
}

#[inline(always)]
pub fn redux_u32(op: ReduceOp, mask: u32, v: u32) -> u32 {
    sync_warp(mask);
    // SAFETY: as in `sync_warp`.
    unsafe {
        match op {
            ReduceOp::Add => redux_add(v, mask),
            ReduceOp::Min => redux_umin(v, mask),
            ReduceOp::Max => redux_umax(v, mask),
            ReduceOp::And => redux_and(v, mask),
            ReduceOp::Or => redux_or(v, mask),
            ReduceOp::Xor => redux_xor(v, mask),
        }
    }
}

#[inline(always)]
pub fn redux_i32(op: ReduceOp, mask: u32, v: i32) -> i32 {
    match op {
        ReduceOp::Min => {
            sync_warp(mask);
            // SAFETY: as in `sync_warp`.
            unsafe { redux_min(v, mask) }
        }
        ReduceOp::Max => {
            sync_warp(mask);
            // SAFETY: as in `sync_warp`.
            unsafe { redux_max(v, mask) }
        }
        // The others do not see the sign.
        ReduceOp::Add | ReduceOp::And | ReduceOp::Or | ReduceOp::Xor => {
            redux_u32(op, mask, v as u32) as i32
        }
    }
}

#[inline(always)]
pub fn mma_m8n8k4_f64(a: f64, b: f64, c: [f64; 2]) -> [f64; 2] {
    sync_warp(FULL_MASK);
    let (d0, d1): (f64, f64);
    // SAFETY: that the whole warp gets here together is the kernel's promise. Not `pure`: it must
    // stay where all lanes are.
    unsafe {
        asm!(
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{{d0}, {d1}}}, {{{a}}}, {{{b}}}, {{{c0}, {c1}}};",
            d0 = out(reg64) d0,
            d1 = out(reg64) d1,
            a = in(reg64) a,
            b = in(reg64) b,
            c0 = in(reg64) c[0],
            c1 = in(reg64) c[1],
            options(nomem, nostack, preserves_flags),
        );
    }
    [d0, d1]
}

#[inline(always)]
pub fn mma_m16n8k8_f64<const M: usize, const N: usize>(
    a: &[[f64; 4]; M],
    b: &[[f64; 2]; N],
    c: &mut [[[f64; 4]; N]; M],
) {
    // One for all of them: nothing between them lets lanes part.
    sync_warp(FULL_MASK);
    let mut i = 0;
    while i < M {
        let mut j = 0;
        while j < N {
            c[i][j] = mma_of_one(a[i], b[j], c[i][j]);
            j += 1;
        }
        i += 1;
    }
}

#[cfg(target_feature = "sm_90")]
#[inline(always)]
fn mma_of_one(a: [f64; 4], b: [f64; 2], c: [f64; 4]) -> [f64; 4] {
    let (d0, d1, d2, d3): (f64, f64, f64, f64);
    // SAFETY: as in `mma_m8n8k4_f64`.
    unsafe {
        asm!(
            "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {{{d0}, {d1}, {d2}, {d3}}}, {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, {{{c0}, {c1}, {c2}, {c3}}};",
            d0 = out(reg64) d0,
            d1 = out(reg64) d1,
            d2 = out(reg64) d2,
            d3 = out(reg64) d3,
            a0 = in(reg64) a[0],
            a1 = in(reg64) a[1],
            a2 = in(reg64) a[2],
            a3 = in(reg64) a[3],
            b0 = in(reg64) b[0],
            b1 = in(reg64) b[1],
            c0 = in(reg64) c[0],
            c1 = in(reg64) c[1],
            c2 = in(reg64) c[2],
            c3 = in(reg64) c[3],
            options(nomem, nostack, preserves_flags),
        );
    }
    [d0, d1, d2, d3]
}

#[cfg(not(target_feature = "sm_90"))]
#[inline(always)]
fn mma_of_one(a: [f64; 4], b: [f64; 2], c: [f64; 4]) -> [f64; 4] {
    let mut upper = [c[0], c[1]];
    let mut lower = [c[2], c[3]];
    let mut half = 0;
    while half < 2 {
        upper = mma_m8n8k4_f64(a[2 * half], b[half], upper);
        lower = mma_m8n8k4_f64(a[2 * half + 1], b[half], lower);
        half += 1;
    }
    [upper[0], upper[1], lower[0], lower[1]]
}
