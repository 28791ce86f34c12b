//! The chip: every primitive as an LLVM intrinsic or a line of inline PTX.
//!
//! Two rules decide which of the two a primitive is.
//!
//! * What several threads must execute together (barriers, shuffles, votes, reductions) is an
//!   intrinsic, because LLVM knows intrinsics as *convergent*: it neither copies them into the arms
//!   of a branch nor moves them under another condition. rustc does not mark inline assembly so.
//!   The one collective without a convergent intrinsic, `mma`, follows a convergent `bar.warp.sync`
//!   in its block, which keeps that block in one piece.
//! * What carries an ordering and a scope (atomics, fences) is inline PTX that clobbers memory, so
//!   that the text says exactly what was asked for, and the compiler moves no access across it.
//!
//! rustc's own optimisations know of neither: `cargo xtask ptx` turns off the one that copies code
//! into the arms of a branch (jump threading), barriers included.
//!
//! Shared memory is addressed in its own 32-bit window with `ld.shared` / `st.shared`; read-only
//! global memory is read with `ld.global.nc`; writable global memory is accessed by ordinary loads
//! and stores, for which LLVM infers the global address space from the kernel's parameter.

mod atomic;
mod element;
mod memory;
mod warp;

use core::arch::asm;
use core::arch::nvptx;

pub use element::{AtomicElementImp, ElementImp, IntElementImp, RealImp};
pub use memory::{RawAtomic, RawGlobal, RawGlobalMut, RawShared, dynamic_shared};
pub use warp::{
    active_mask, ballot, fold, match_any, mma_m8n8k4_f64, mma_m16n8k8_f64, redux_i32, redux_u32,
    shuffle, sync_warp, vote_all, vote_any,
};

use crate::atomic::Scope;

#[allow(improper_ctypes)]
unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.barrier.cta.red.popc.aligned.all"]
    fn barrier_red_popc(barrier: u32, pred: bool) -> u32;
    #[link_name = "llvm.nvvm.barrier.cta.red.and.aligned.all"]
    fn barrier_red_and(barrier: u32, pred: bool) -> bool;
    #[link_name = "llvm.nvvm.barrier.cta.red.or.aligned.all"]
    fn barrier_red_or(barrier: u32, pred: bool) -> bool;
    #[link_name = "llvm.nvvm.nanosleep"]
    fn sleep(nanoseconds: u32);
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    fn sreg_laneid() -> u32;
}

/// A kernel has nobody to report a panic to: it stops the launch, which then answers with an error.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: `trap` has no preconditions.
    unsafe { nvptx::trap() }
}

macro_rules! special_registers {
    ($($name:ident = $register:ident),* $(,)?) => {
        $(
            #[inline(always)]
            pub fn $name() -> u32 {
                // SAFETY: reading a special register has no preconditions.
                unsafe { nvptx::$register() as u32 }
            }
        )*
    };
}
special_registers! {
    thread_idx_x = _thread_idx_x,
    thread_idx_y = _thread_idx_y,
    thread_idx_z = _thread_idx_z,
    block_idx_x = _block_idx_x,
    block_idx_y = _block_idx_y,
    block_idx_z = _block_idx_z,
    block_dim_x = _block_dim_x,
    block_dim_y = _block_dim_y,
    block_dim_z = _block_dim_z,
    grid_dim_x = _grid_dim_x,
    grid_dim_y = _grid_dim_y,
    grid_dim_z = _grid_dim_z,
}

#[inline(always)]
pub fn lane_id() -> u32 {
    // SAFETY: reading a special register has no preconditions.
    unsafe { sreg_laneid() }
}

/// Not `%warpid`, which names the hardware's slot and may change while the warp runs.
#[inline(always)]
pub fn warp_id() -> u32 {
    let thread = (thread_idx_z() * block_dim_y() + thread_idx_y()) * block_dim_x() + thread_idx_x();
    thread / 32
}

#[inline(always)]
pub fn sync_threads() {
    // SAFETY: that every thread of the block gets here is the kernel's promise.
    unsafe { nvptx::_syncthreads() }
}

#[inline(always)]
pub fn sync_threads_count(pred: bool) -> u32 {
    // SAFETY: that every thread of the block gets here is the kernel's promise.
    unsafe { barrier_red_popc(0, pred) }
}

#[inline(always)]
pub fn sync_threads_and(pred: bool) -> bool {
    // SAFETY: that every thread of the block gets here is the kernel's promise.
    unsafe { barrier_red_and(0, pred) }
}

#[inline(always)]
pub fn sync_threads_or(pred: bool) -> bool {
    // SAFETY: that every thread of the block gets here is the kernel's promise.
    unsafe { barrier_red_or(0, pred) }
}

#[inline(always)]
pub fn nanosleep(ns: u32) {
    // SAFETY: sleeping has no preconditions; the hardware caps the time at a millisecond.
    unsafe { sleep(ns) }
}

#[inline(always)]
pub fn fence(scope: Scope) {
    // SAFETY: a fence has no preconditions.
    unsafe {
        match scope {
            Scope::Block => asm!("fence.acq_rel.cta;", options(nostack, preserves_flags)),
            Scope::Device => asm!("fence.acq_rel.gpu;", options(nostack, preserves_flags)),
        }
    }
}

/// First and longest pause of a spin-wait in nanoseconds. Short first, since most waits are for a
/// block that is about to finish; the cap keeps many waiting blocks from flooding the L2 cache.
const FIRST_PAUSE: u32 = 16;
const LONGEST_PAUSE: u32 = 256;

#[inline(always)]
pub fn spin_wait(mut condition: impl FnMut() -> bool) {
    let mut pause = FIRST_PAUSE;
    while !condition() {
        nanosleep(pause);
        if pause < LONGEST_PAUSE {
            pause *= 2;
        }
    }
}
