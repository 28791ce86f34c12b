//! Waiting for another thread.

use crate::imp;

/// Waits until `condition` answers true.
///
/// The closure reads atomics with acquire (or relaxed, with a fence after the wait). On the chip it
/// is asked again and again with a pause that grows; on the simulator other threads run between two
/// answers, and a wait that nobody can end any more stops the launch with the names of all waiters.
/// A loop that waits in any other way is not recognised as a wait there.
///
/// A wait for a thread of another block is right only when that block is resident or has ended:
/// take work by an atomic ticket, or launch cooperatively.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn spin_wait(condition: impl FnMut() -> bool) {
    imp::spin_wait(condition);
}
