//! Bytes of device memory in use, their peak, and the budget they are held to.

use std::sync::atomic::{AtomicU64, Ordering};

/// A refused reservation: how many bytes the limit left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted {
    pub(crate) available: u64,
}

/// Counts bytes against a limit; any thread may reserve and release.
#[derive(Debug)]
pub(crate) struct Accounting {
    current: AtomicU64,
    peak: AtomicU64,
    budget: AtomicU64,
    /// What no budget can exceed: the simulator's memory, or nothing (the driver knows better).
    capacity: u64,
}

impl Accounting {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            current: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            budget: AtomicU64::new(u64::MAX),
            capacity,
        }
    }

    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn reset_peak(&self) {
        self.peak.store(self.current(), Ordering::Relaxed);
    }

    pub(crate) fn budget(&self) -> Option<u64> {
        Some(self.budget.load(Ordering::Relaxed)).filter(|&bytes| bytes != u64::MAX)
    }

    pub(crate) fn set_budget(&self, bytes: Option<u64>) {
        self.budget
            .store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Bytes that can still be reserved, as far as the budget and the capacity tell.
    pub(crate) fn available(&self) -> u64 {
        self.limit().saturating_sub(self.current())
    }

    fn limit(&self) -> u64 {
        self.budget.load(Ordering::Relaxed).min(self.capacity)
    }

    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), Exhausted> {
        let limit = self.limit();
        let before = self
            .current
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |current| {
                current.checked_add(bytes).filter(|&after| after <= limit)
            })
            .map_err(|current| Exhausted {
                available: limit.saturating_sub(current),
            })?;
        self.peak.fetch_max(before + bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.current.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_against_the_smaller_limit() {
        let accounting = Accounting::new(100);
        accounting.reserve(60).unwrap();
        assert_eq!(
            accounting.reserve(41),
            Err(Exhausted { available: 40 }),
            "the capacity binds"
        );
        accounting.set_budget(Some(70));
        assert_eq!(accounting.budget(), Some(70));
        assert_eq!(accounting.reserve(11), Err(Exhausted { available: 10 }));
        accounting.reserve(10).unwrap();
        assert_eq!((accounting.current(), accounting.available()), (70, 0));
        accounting.release(50);
        accounting.set_budget(Some(5));
        assert_eq!(
            accounting.reserve(1),
            Err(Exhausted { available: 0 }),
            "a budget below what is in use leaves nothing"
        );
        assert_eq!((accounting.current(), accounting.peak()), (20, 70));
        accounting.reset_peak();
        assert_eq!(accounting.peak(), 20);
        accounting.set_budget(None);
        assert_eq!(accounting.budget(), None);
        assert_eq!(
            accounting.reserve(u64::MAX),
            Err(Exhausted { available: 80 }),
            "no overflow"
        );
    }
}
