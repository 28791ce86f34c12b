//! Memory within a limit.
//!
//! What a phase is about to allocate is reserved first, so that a limit is kept at every moment and not
//! only where somebody looks. The allocator is not asked: who allocates counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cancel::{CancelFlag, Cancelled};

/// More memory is needed than the limit leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{asked} bytes are needed, {available} are allowed")]
pub struct OutOfMemory {
    /// Bytes that would be held with what was asked for.
    pub asked: u64,
    /// Bytes that may be held.
    pub available: u64,
}

/// A limit on bytes that several phases and threads share, and what is reserved of it.
///
/// Clones share one account. Without a limit, nothing is counted.
#[derive(Debug, Clone, Default)]
pub struct MemoryBudget(Option<Arc<Account>>);

#[derive(Debug)]
struct Account {
    limit: u64,
    /// Never above `limit`.
    used: AtomicU64,
}

impl MemoryBudget {
    /// Any number of bytes.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// At most this many bytes.
    pub fn new(limit: u64) -> Self {
        let used = AtomicU64::new(0);
        Self(Some(Arc::new(Account { limit, used })))
    }

    /// The limit in bytes, if there is one.
    pub fn limit(&self) -> Option<u64> {
        self.0.as_ref().map(|account| account.limit)
    }

    /// Bytes that can still be reserved; `u64::MAX` without a limit.
    pub fn available(&self) -> u64 {
        self.0.as_ref().map_or(u64::MAX, |account| {
            account.limit - account.used.load(Ordering::Relaxed)
        })
    }

    /// Reserves bytes until the reservation is dropped.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if the limit leaves less; nothing is reserved then.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, OutOfMemory> {
        let mut reservation = Reservation {
            account: self.0.clone(),
            bytes: 0,
        };
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    /// As [`reserve`](Self::reserve), for `count` values of type `T`.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve).
    pub fn reserve_for<T>(&self, count: usize) -> Result<Reservation, OutOfMemory> {
        self.reserve(bytes_of::<T>(count))
    }
}

/// Bytes of `count` values of type `T`.
pub fn bytes_of<T>(count: usize) -> u64 {
    (count as u64).saturating_mul(size_of::<T>() as u64)
}

/// Memory of fewer bytes stays with the pages that the allocator chose.
#[cfg(target_os = "linux")]
const LARGE: usize = 8 << 20;

/// Large pages of most machines; of others, what part of the memory the advice reaches differs.
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20;

/// Asks the operating system to back the memory of `values`, most of which nobody has written yet, by large pages, where
/// it does so on request: Linux by transparent huge pages. Then a five-hundredth of the page faults is taken when it is
/// written, and a five-hundredth of the steps when it is given back. It is a hint: nothing but time depends on it.
pub fn in_large_pages<T>(values: Vec<T>) -> Vec<T> {
    #[cfg(target_os = "linux")]
    {
        let bytes = values.capacity().saturating_mul(size_of::<T>());
        let start = values.as_ptr().addr();
        let first = start.next_multiple_of(LARGE_PAGE);
        let end = (start + bytes) & !(LARGE_PAGE - 1);
        if bytes >= LARGE && first < end {
            // SAFETY: the range lies in the allocation, which is ours; the advice changes no byte of it. A kernel without
            // large pages refuses it, which is as good.
            unsafe {
                libc::madvise(
                    values.as_ptr().with_addr(first).cast_mut().cast(),
                    end - first,
                    libc::MADV_HUGEPAGE,
                )
            };
        }
    }
    values
}

/// Bytes of a [`MemoryBudget`], which go back to it when this is dropped.
#[derive(Debug, Default)]
pub struct Reservation {
    account: Option<Arc<Account>>,
    bytes: u64,
}

/// A copy of what the bytes were reserved for has memory of its own, which is not counted.
impl Clone for Reservation {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Reservation {
    /// The bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves more bytes.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] if the limit leaves less; the reservation stays as it was.
    pub fn grow(&mut self, more: u64) -> Result<(), OutOfMemory> {
        if let Some(account) = &self.account {
            let add = |used: u64| {
                let used = used.checked_add(more);
                used.filter(|&used| used <= account.limit)
            };
            // Relaxed: the number guards no other memory.
            let added = account
                .used
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
            added.map_err(|used| OutOfMemory {
                asked: used.saturating_add(more),
                available: account.limit,
            })?;
        }
        self.bytes = self.bytes.saturating_add(more);
        Ok(())
    }

    /// Gives back what is beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        if let Some(account) = &self.account {
            account.used.fetch_sub(less, Ordering::Relaxed);
        }
        self.bytes -= less;
    }

    /// Reserves more, or gives back, so that there are `bytes`.
    ///
    /// # Errors
    ///
    /// As [`grow`](Self::grow).
    pub fn resize(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        if bytes > self.bytes {
            return self.grow(bytes - self.bytes);
        }
        self.shrink_to(bytes);
        Ok(())
    }

    /// Takes over the bytes of another reservation of the same budget.
    pub fn absorb(&mut self, mut other: Self) {
        if self.account.is_none() {
            self.account = other.account.take();
        }
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// When a phase must stop, and the memory that it may use.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Stops the phase when raised.
    pub cancel: CancelFlag,
    /// Bytes for all that is held at once.
    pub memory: MemoryBudget,
}

impl Limits {
    /// Neither a flag that anybody raises, nor a limit on memory.
    pub fn none() -> Self {
        Self::default()
    }

    /// No limit on memory.
    pub fn of_flag(cancel: &CancelFlag) -> Self {
        Self {
            cancel: cancel.clone(),
            memory: MemoryBudget::unlimited(),
        }
    }

    /// `Err` once the flag is raised.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn check(&self) -> Result<(), Cancelled> {
        self.cancel.check()
    }
}

/// Why a phase stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// The caller raised the cancel flag.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The memory budget leaves too little.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_come_and_go() {
        let budget = MemoryBudget::new(100);
        let mut first = budget.reserve(60).unwrap();
        assert_eq!(budget.available(), 40);
        let failed = budget.clone().reserve(41).map(drop);
        let error = OutOfMemory {
            asked: 101,
            available: 100,
        };
        assert_eq!(failed, Err(error));
        assert_eq!(first.grow(41), Err(error));
        assert_eq!((first.bytes(), budget.available()), (60, 40));
        let second = budget.reserve_for::<u64>(5).unwrap();
        assert_eq!(budget.available(), 0);
        first.absorb(second);
        assert_eq!((first.bytes(), budget.available()), (100, 0));
        first.shrink_to(30);
        assert_eq!(budget.available(), 70);
        first.resize(90).unwrap();
        assert_eq!(budget.available(), 10);
        assert_eq!(first.clone().bytes(), 0);
        drop(first);
        assert_eq!(budget.available(), 100);
        assert!(budget.reserve(u64::MAX).is_err());
    }

    #[test]
    fn without_a_limit_everything_fits() {
        let budget = MemoryBudget::unlimited();
        let huge = budget.reserve(u64::MAX).unwrap();
        assert_eq!((huge.bytes(), budget.limit()), (u64::MAX, None));
        assert!(budget.reserve(u64::MAX).is_ok());
    }

    #[test]
    fn threads_never_pass_the_limit_together() {
        let budget = MemoryBudget::new(1000);
        let reserve = || {
            let mut held = Vec::new();
            while let Ok(reservation) = budget.reserve(7) {
                held.push(reservation);
            }
            held
        };
        let held = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(reserve)).collect();
            let held = threads.into_iter().map(|thread| thread.join().unwrap());
            held.collect::<Vec<_>>()
        });
        assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 1000 / 7);
        drop(held);
        assert_eq!(budget.available(), 1000);
    }

    /// The flags that Linux keeps of the mapping in which an address lies.
    #[cfg(target_os = "linux")]
    fn flags_of(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_in = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|r| r.split_once('-'));
            let number = |digits: &str| usize::from_str_radix(digits, 16).ok();
            if let Some((Some(start), Some(end))) = range.map(|(s, e)| (number(s), number(e))) {
                is_in = (start..end).contains(&address);
            } else if is_in && let Some(flags) = line.strip_prefix("VmFlags: ") {
                return flags.to_owned();
            }
        }
        panic!("no mapping has {address:#x}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn large_memory_is_advised_to_have_large_pages() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            println!("SKIPPED: this kernel has no large pages");
            return;
        }
        let is_advised = |values: &[f64]| {
            let middle = values.as_ptr().addr() + size_of_val(values) / 2;
            flags_of(middle).split(' ').any(|flag| flag == "hg")
        };
        let large = in_large_pages(vec![0.0; (3 * LARGE) / 8]);
        assert!(is_advised(&large));
        assert!(large.iter().all(|&v| v == 0.0));
        assert!(!is_advised(&vec![0.0; (3 * LARGE) / 8]));
        assert!(!is_advised(&in_large_pages(vec![0.0; 1000])));
        let room = in_large_pages(Vec::<f64>::with_capacity(LARGE));
        assert_eq!((room.len(), room.capacity()), (0, LARGE));
    }
}
