//! The host's side of the shared surface.
#![allow(unused_variables)]

use std::marker::PhantomData;

use crate::atomic::{Ordering, Scope};
use crate::host::{ElementKind, KernelArg};
use crate::mem::{Element, Global, GlobalMut, IntElement};
use crate::warp::{ReduceOp, ShuffleKind};

/// Hooks of elements.
pub trait ElementImp: Copy + Into<KernelArg> {
    /// The kind.
    const KIND: ElementKind;
}
/// Hooks of integers.
pub trait IntElementImp: ElementImp {}
/// Hooks of reals.
pub trait RealImp: ElementImp {
    fn mul_add(self, b: Self, c: Self) -> Self;
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    fn max(self, o: Self) -> Self;
    fn min(self, o: Self) -> Self;
}
macro_rules! elements { ($($t:ty: $k:ident),*) => { $(impl ElementImp for $t { const KIND: ElementKind = ElementKind::$k; })* } }
elements!(u32: U32, i32: I32, u64: U64, i64: I64, f32: F32, f64: F64);
macro_rules! ints { ($($t:ty),*) => { $(impl IntElementImp for $t {})* } }
ints!(u32, i32, u64, i64);
macro_rules! reals { ($($t:ident),*) => { $(impl RealImp for $t {
    fn mul_add(self, b: $t, c: $t) -> $t { $t::mul_add(self, b, c) }
    fn sqrt(self) -> $t { $t::sqrt(self) }
    fn abs(self) -> $t { $t::abs(self) }
    fn max(self, o: $t) -> $t { $t::max(self, o) }
    fn min(self, o: $t) -> $t { $t::min(self, o) }
})* } }
reals!(f32, f64);

macro_rules! raw { ($($name:ident),*) => { $(
    #[derive(Clone, Copy)]
    pub struct $name<T>(PhantomData<*mut T>);
    impl<T: Element> $name<T> {
        #[inline(always)]
        pub fn len(self) -> usize { later() }
        pub fn get(self, i: usize) -> T { later() }
        pub fn set(self, i: usize, v: T) { later() }
        pub fn atomic(self, i: usize) -> RawAtomic<T> { later() }
    }
)* } }
raw!(RawGlobal, RawGlobalMut, RawShared);

#[derive(Clone, Copy)]
pub struct RawAtomic<T>(PhantomData<*mut T>);
impl<T: Element> RawAtomic<T> {
    pub fn load(self, o: Ordering, s: Scope) -> T {
        later()
    }
    pub fn store(self, v: T, o: Ordering, s: Scope) {
        later()
    }
    pub fn swap(self, v: T, o: Ordering, s: Scope) -> T {
        later()
    }
    pub fn fetch_add(self, v: T, o: Ordering, s: Scope) -> T {
        later()
    }
    pub fn reduce_add(self, v: T, o: Ordering, s: Scope) {
        later()
    }
}
macro_rules! rmw { ($($name:ident),*) => { impl<T: IntElement> RawAtomic<T> { $(
    pub fn $name(self, v: T, o: Ordering, s: Scope) -> T { later() }
)*
    pub fn compare_exchange(self, c: T, v: T, o: Ordering, s: Scope) -> T { later() }
} } }
rmw!(
    fetch_sub, fetch_min, fetch_max, fetch_and, fetch_or, fetch_xor
);

fn later() -> ! {
    unreachable!("no kernel runs yet")
}
macro_rules! index { ($($name:ident),*) => { $(pub fn $name() -> u32 { later() })* } }
index!(
    thread_idx_x,
    thread_idx_y,
    thread_idx_z,
    block_idx_x,
    block_idx_y,
    block_idx_z,
    block_dim_x,
    block_dim_y,
    block_dim_z,
    grid_dim_x,
    grid_dim_y,
    grid_dim_z,
    lane_id,
    warp_id,
    active_mask
);
pub fn sync_threads() {
    later()
}
pub fn sync_threads_count(p: bool) -> u32 {
    later()
}
pub fn sync_threads_and(p: bool) -> bool {
    later()
}
pub fn sync_threads_or(p: bool) -> bool {
    later()
}
pub fn nanosleep(ns: u32) {
    later()
}
pub fn sync_warp(mask: u32) {
    later()
}
pub fn shuffle<T: Element>(k: ShuffleKind, mask: u32, v: T, operand: u32) -> T {
    later()
}
pub fn vote_any(mask: u32, p: bool) -> bool {
    later()
}
pub fn vote_all(mask: u32, p: bool) -> bool {
    later()
}
pub fn ballot(mask: u32, p: bool) -> u32 {
    later()
}
pub fn match_any(mask: u32, v: u32) -> u32 {
    later()
}
pub fn redux_u32(op: ReduceOp, mask: u32, v: u32) -> u32 {
    later()
}
pub fn redux_i32(op: ReduceOp, mask: u32, v: i32) -> i32 {
    later()
}
pub fn fence(s: Scope) {
    later()
}
pub fn spin_wait(c: impl FnMut() -> bool) {
    later()
}
pub fn mma_m8n8k4_f64(a: f64, b: f64, c: [f64; 2]) -> [f64; 2] {
    later()
}
pub fn dynamic_shared<T: Element>(byte_offset: usize, len: usize) -> RawShared<T> {
    later()
}
pub fn static_shared<T: Element>(site: usize, len: usize) -> RawShared<T> {
    later()
}

/// The arguments of a simulated thread.
pub struct ArgReader(());
impl ArgReader {
    /// Scalar argument `i`.
    pub fn scalar<T: Element>(&self, i: usize) -> T {
        later()
    }
    /// Read-only buffer `i`.
    pub fn global<T: Element>(&self, i: usize) -> Global<T> {
        later()
    }
    /// Writable buffer `i`.
    pub fn global_mut<T: Element>(&self, i: usize) -> GlobalMut<T> {
        later()
    }
}
