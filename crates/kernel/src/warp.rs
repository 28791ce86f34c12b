//! Warp collectives: what 32 consecutive threads of a block do together.
//!
//! Every collective names its lanes by a mask. Each lane of the mask must execute the same
//! operation with the same mask, its own lane must be in it, and none may have returned. Reading
//! the value of a lane outside the mask is not allowed. Never assume that a warp runs in step:
//! since Volta it does not; the simulator runs the lanes in any order between collectives.

use crate::element::Element;
use crate::imp;
use crate::math::Field;

/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// The mask of all lanes.
pub const FULL_MASK: u32 = !0;

/// Which lane a shuffle reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShuffleKind {
    /// Lane `operand % 32`.
    Index,
    /// Lane − `operand`; the own value where that is below 0.
    Up,
    /// Lane + `operand`; the own value where that is above 31.
    Down,
    /// Lane xor `operand`.
    Xor,
}

/// The operation of a warp reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Wrapping sum.
    Add,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

/// Some lanes that happen to run together, the own one among them. A hint: the simulator answers
/// the own lane alone.
#[inline(always)]
pub fn active_mask() -> u32 {
    imp::active_mask()
}

/// Waits for the lanes of `mask`, and orders their accesses.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_warp(mask: u32) {
    imp::sync_warp(mask);
}

/// The value `v` of lane `src_lane % 32`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn shuffle<T: Element>(mask: u32, v: T, src_lane: u32) -> T {
    imp::shuffle(ShuffleKind::Index, mask, v, src_lane)
}

/// The value `v` of the lane `delta` ≤ 31 below; the own where there is none.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn shuffle_up<T: Element>(mask: u32, v: T, delta: u32) -> T {
    imp::shuffle(ShuffleKind::Up, mask, v, delta)
}

/// The value `v` of the lane `delta` ≤ 31 above; the own where there is none.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn shuffle_down<T: Element>(mask: u32, v: T, delta: u32) -> T {
    imp::shuffle(ShuffleKind::Down, mask, v, delta)
}

/// The value `v` of the lane whose number is the own xor `lane_mask` ≤ 31.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn shuffle_xor<T: Element>(mask: u32, v: T, lane_mask: u32) -> T {
    imp::shuffle(ShuffleKind::Xor, mask, v, lane_mask)
}

/// Whether `pred` holds for any lane of `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn vote_any(mask: u32, pred: bool) -> bool {
    imp::vote_any(mask, pred)
}

/// Whether `pred` holds for all lanes of `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn vote_all(mask: u32, pred: bool) -> bool {
    imp::vote_all(mask, pred)
}

/// The lanes of `mask` for which `pred` holds.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn ballot(mask: u32, pred: bool) -> u32 {
    imp::ballot(mask, pred)
}

/// The lanes of `mask` whose `v` equals the own.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn match_any(mask: u32, v: u32) -> u32 {
    imp::match_any(mask, v)
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for i32 {}
}

/// What the warp reductions of PTX `redux.sync` take: `u32`, `i32`.
pub trait ReduceElement: Element + sealed::Sealed {
    /// Reduces `v` over the lanes of `mask`; `And`, `Or`, `Xor` are bitwise.
    #[doc(hidden)]
    fn redux(op: ReduceOp, mask: u32, v: Self) -> Self;
}

impl ReduceElement for u32 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn redux(op: ReduceOp, mask: u32, v: u32) -> u32 {
        imp::redux_u32(op, mask, v)
    }
}

impl ReduceElement for i32 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn redux(op: ReduceOp, mask: u32, v: i32) -> i32 {
        imp::redux_i32(op, mask, v)
    }
}

/// The wrapping sum of `v` over the lanes of `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce_add<T: ReduceElement>(mask: u32, v: T) -> T {
    T::redux(ReduceOp::Add, mask, v)
}

/// The minimum of `v` over the lanes of `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce_min<T: ReduceElement>(mask: u32, v: T) -> T {
    T::redux(ReduceOp::Min, mask, v)
}

/// The maximum of `v` over the lanes of `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce_max<T: ReduceElement>(mask: u32, v: T) -> T {
    T::redux(ReduceOp::Max, mask, v)
}

/// The bitwise and of `v` over the lanes of `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce_and(mask: u32, v: u32) -> u32 {
    imp::redux_u32(ReduceOp::And, mask, v)
}

/// The bitwise or of `v` over the lanes of `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce_or(mask: u32, v: u32) -> u32 {
    imp::redux_u32(ReduceOp::Or, mask, v)
}

/// The bitwise exclusive or of `v` over the lanes of `mask`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce_xor(mask: u32, v: u32) -> u32 {
    imp::redux_u32(ReduceOp::Xor, mask, v)
}

/// `v` folded by `f`(own, other) over each group of `lanes` lanes, a power of two: pairs at distance `lanes`/2, …, 2, 1.
/// All lanes of a warp call it with the same `lanes` and `f`, and all of a group get the same bits if `f` is commutative.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fold<T: Element>(lanes: u32, v: T, f: impl Fn(T, T) -> T) -> T {
    imp::fold(lanes, v, f)
}

/// The sum of real or complex `v` over a full warp, in a fixed order: pairs at distance 16, 8, 4, 2, 1.
/// All lanes of a warp call it and get the same bits, on every machine and run.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn reduce_sum<T: Field>(v: T) -> T {
    fold(WARP_SIZE, v, |own, other| own + other)
}
