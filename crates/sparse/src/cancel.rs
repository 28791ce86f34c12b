//! Cooperative cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A phase stopped because its [`CancelFlag`] was raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

/// A flag that another thread raises to stop a long phase.
///
/// Clones share one flag. Phases look at it between units of work (a row, a column, a level), so a
/// phase stops within one such unit.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<Flag>);

#[derive(Debug, Default)]
struct Flag {
    is_raised: AtomicBool,
    /// Counts as raised when this is.
    parent: Option<CancelFlag>,
}

impl CancelFlag {
    /// A lowered flag.
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag of its own that is also raised when this one is seen to be: it stops a part of what this one stops,
    /// and stays raised when this one is lowered.
    pub fn child(&self) -> Self {
        Self(Arc::new(Flag {
            is_raised: AtomicBool::new(false),
            parent: Some(self.clone()),
        }))
    }

    /// Asks everyone who holds a clone or a child to stop.
    pub fn cancel(&self) {
        // Relaxed: the flag carries no data, and seeing it one unit of work later is allowed.
        self.0.is_raised.store(true, Ordering::Relaxed);
    }

    /// Takes [`cancel`](Self::cancel) back, so that calls which begin from now on run. One that is under way may have
    /// seen the flag, and then stops.
    pub fn lower(&self) {
        self.0.is_raised.store(false, Ordering::Relaxed);
    }

    /// Whether the flag is raised, here or on a parent.
    pub fn is_cancelled(&self) -> bool {
        let flag = &*self.0;
        if flag.is_raised.load(Ordering::Relaxed) {
            return true;
        }
        let is_above = flag.parent.as_ref().is_some_and(Self::is_cancelled);
        if is_above {
            self.cancel();
        }
        is_above
    }

    /// `Err(Cancelled)` once the flag is raised, for use with `?`.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() {
            Err(Cancelled)
        } else {
            Ok(())
        }
    }
}

/// Bytes that it takes some milliseconds to give back.
const MANY_BYTES: u64 = 32 << 20;

/// Drops a value that holds so many bytes: a large one on a thread of its own, so that a call that was cancelled does not
/// wait for the system to take the memory back.
pub fn drop_aside<T: Send + 'static>(value: T, bytes: u64) {
    if bytes >= MANY_BYTES {
        let thread = std::thread::Builder::new().name("luge-drop".into());
        // Without a thread the value is dropped here, with the closure.
        let _ = thread.spawn(move || drop(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_flag() {
        let flag = CancelFlag::new();
        let seen_by_worker = flag.clone();
        assert_eq!(seen_by_worker.check(), Ok(()));
        flag.cancel();
        assert_eq!(seen_by_worker.check(), Err(Cancelled));
    }

    #[test]
    fn a_child_stops_with_its_parent_and_alone() {
        let parent = CancelFlag::new();
        let (first, second) = (parent.child(), parent.child());
        first.cancel();
        assert!(first.is_cancelled() && !parent.is_cancelled() && !second.is_cancelled());
        parent.cancel();
        assert!(second.is_cancelled());
        // What has seen the flag does not forget it, what has not never knew.
        let third = parent.child();
        parent.lower();
        assert!(second.is_cancelled() && !third.is_cancelled() && !parent.is_cancelled());
    }
}
