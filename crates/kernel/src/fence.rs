//! Memory fences.

use crate::atomic::Scope;
use crate::imp;

/// Orders the accesses of this thread before it and after it, as seen by the threads of `scope`
/// (PTX `fence.acq_rel.cta` / `.gpu`).
///
/// A relaxed atomic write after the fence releases what came before the fence; a fence after a
/// relaxed atomic read acquires what the read's writer released. Both fences and both atomics must
/// include the other side in their scope.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence(scope: Scope) {
    imp::fence(scope);
}
