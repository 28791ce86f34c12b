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
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// A lowered flag.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everyone who holds a clone to stop.
    pub fn cancel(&self) {
        // Relaxed: the flag carries no data, and seeing it one unit of work later is allowed.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
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
}
