//! Systems in memory, found by the number that is in the caller's arrays.
//!
//! Nobody says when a system is done with: MA57 has no call for that, its callers free their arrays. So what is here is only
//! kept to save time: the arrays have all that it takes to make a system anew, and to factorize its last matrix again. It is
//! dropped
//!
//! - when an array of another system overlaps one of its own: then it was freed;
//! - when the thread that used it last has used [`SYSTEMS_OF_A_THREAD`] others since, or ends;
//! - when a call panicked while it worked on it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::system::System;

/// Systems of one thread that are kept. Ipopt has one at work, and one for each of its runs that is called from within
/// another.
pub(crate) const SYSTEMS_OF_A_THREAD: usize = 8;

/// Which of the arrays of a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Array {
    Keep,
    Ifact,
    Fact,
}

/// Addresses of an array, from its first byte to past its last one.
pub(crate) type Place = Range<usize>;

struct Entry {
    system: Arc<Mutex<System>>,
    places: [Place; 3],
    thread: u64,
    used: u64,
}

/// Systems by their number.
static SYSTEMS: Mutex<Option<HashMap<u64, Entry>>> = Mutex::new(None);

/// Gives numbers that were not there before: to systems, factorizations, threads, and uses. 0 is none.
static NEXT: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn entries() -> MutexGuard<'static, Option<HashMap<u64, Entry>>> {
    // No entry is half made when a thread panics.
    SYSTEMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the systems of a thread when it ends.
struct Thread(u64);

impl Drop for Thread {
    fn drop(&mut self) {
        drop_where(|entry| entry.thread == self.0);
    }
}

thread_local! {
    static THREAD: RefCell<Thread> = RefCell::new(Thread(next()));
}

/// The number of this thread; 0 for all that are ending.
fn thread() -> u64 {
    let number = THREAD.try_with(|thread| thread.borrow().0);
    number.unwrap_or(0)
}

/// Drops systems outside of the lock: it may take a while.
fn drop_where(is_done: impl Fn(&Entry) -> bool) {
    let mut done = Vec::new();
    if let Some(entries) = entries().as_mut() {
        done.extend(entries.extract_if(|_, entry| is_done(entry)));
    }
    drop(done);
}

/// The system of this number, if it is still here.
pub(crate) fn find(id: u64) -> Option<Arc<Mutex<System>>> {
    let mut entries = entries();
    let entry = entries.as_mut()?.get_mut(&id)?;
    (entry.thread, entry.used) = (thread(), next());
    Some(Arc::clone(&entry.system))
}

/// Keeps a system under this number; one that is there already stays.
pub(crate) fn keep(id: u64, system: System) -> Arc<Mutex<System>> {
    let thread = thread();
    let mut done = Vec::new();
    let kept = {
        let mut entries = entries();
        let entries = entries.get_or_insert_default();
        let entry = entries.entry(id).or_insert_with(|| Entry {
            system: Arc::new(Mutex::new(system)),
            places: [0..0, 0..0, 0..0],
            thread,
            used: 0,
        });
        (entry.thread, entry.used) = (thread, next());
        let kept = Arc::clone(&entry.system);
        let mut of_thread: Vec<_> = entries
            .iter()
            .filter(|(_, entry)| entry.thread == thread)
            .map(|(&id, entry)| (entry.used, id))
            .collect();
        of_thread.sort_unstable();
        let surplus = of_thread.len().saturating_sub(SYSTEMS_OF_A_THREAD);
        done.extend(
            of_thread[..surplus]
                .iter()
                .map(|(_, id)| entries.remove(id)),
        );
        kept
    };
    drop(done);
    kept
}

/// Tells where an array of a system is, and forgets systems with an array there.
pub(crate) fn place(id: u64, array: Array, place: Place) {
    if let Some(entry) = entries().as_mut().and_then(|entries| entries.get_mut(&id)) {
        entry.places[array as usize] = place.clone();
    }
    let overlaps = |other: &Place| other.start < place.end && place.start < other.end;
    let mut done = Vec::new();
    if let Some(entries) = entries().as_mut() {
        let gone =
            |other: &u64, entry: &mut Entry| *other != id && entry.places.iter().any(overlaps);
        done.extend(entries.extract_if(gone));
    }
    drop(done);
}

/// Forgets a system.
pub(crate) fn forget(id: u64) {
    let gone = entries().as_mut().and_then(|entries| entries.remove(&id));
    drop(gone);
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::controls::Order;
    use crate::triplets::Triangle;

    fn system() -> System {
        System::new(Triangle::new(1, &[1], &[1]).0, Order::Auto, None, 1)
    }

    /// The numbers of so many new systems.
    fn kept(count: usize) -> Vec<u64> {
        let ids: Vec<_> = (0..count).map(|_| next()).collect();
        ids.iter().for_each(|&id| drop(keep(id, system())));
        ids
    }

    fn is_here(id: u64) -> bool {
        entries()
            .as_ref()
            .is_some_and(|entries| entries.contains_key(&id))
    }

    #[test]
    fn the_last_systems_of_a_thread_are_kept() {
        let ids = kept(SYSTEMS_OF_A_THREAD);
        assert!(ids.iter().all(|&id| is_here(id)));
        assert!(find(ids[0]).is_some());
        // Now the second one was used first.
        kept(1);
        assert!(is_here(ids[0]) && !is_here(ids[1]) && ids[2..].iter().all(|&id| is_here(id)));
        assert!(find(ids[1]).is_none());
    }

    #[test]
    fn a_thread_that_ends_drops_what_it_used_last() {
        let shared = kept(1)[0];
        let (of_thread, used) = std::thread::spawn(move || {
            let ids = kept(3);
            assert!(find(shared).is_some());
            (ids, shared)
        })
        .join()
        .unwrap();
        assert!(!of_thread.iter().any(|&id| is_here(id)) && !is_here(used));
    }

    #[test]
    fn arrays_that_overlap_were_freed() {
        let [first, second, third] = kept(3)[..] else {
            unreachable!("three of them")
        };
        // Addresses that no array of a test has.
        place(first, Array::Keep, 100..200);
        place(first, Array::Fact, 300..400);
        place(second, Array::Keep, 200..300);
        assert!(is_here(first) && is_here(second), "they touch");
        place(third, Array::Ifact, 399..401);
        assert!(!is_here(first) && is_here(second) && is_here(third));
        // Its own older place is no other's.
        place(third, Array::Ifact, 350..360);
        place(third, Array::Keep, 355..370);
        assert!(is_here(third));
        place(second, Array::Keep, 365..366);
        assert!(!is_here(third));
    }

    #[test]
    fn what_is_there_stays_under_its_number() {
        let id = kept(1)[0];
        let there = find(id).unwrap();
        assert!(Arc::ptr_eq(&there, &keep(id, system())));
        forget(id);
        assert!(find(id).is_none());
        assert!(!Arc::ptr_eq(&there, &keep(id, system())));
    }
}
