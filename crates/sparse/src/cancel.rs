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

    /// A flag of its own that is also raised when this one is: it stops a part of what this one stops.
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

    /// Whether [`cancel`](Self::cancel) was called, here or on a parent.
    pub fn is_cancelled(&self) -> bool {
        let flag = &*self.0;
        flag.is_raised.load(Ordering::Relaxed)
            || flag.parent.as_ref().is_some_and(Self::is_cancelled)
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
    }
}
