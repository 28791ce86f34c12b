//! Work on arrays that the threads of the current rayon pool share.
//!
//! With one thread, or too little to do, everything is done where it is called. The outcome does not depend on the number
//! of threads: shares are put together in their order.

use std::ops::Range;

use rayon::prelude::*;

/// Elements that are not worth waking a thread for. Few in tests, so that small trees are shared there.
pub(crate) const WORTH_WAKING: usize = if cfg!(test) { 4 } else { 1 << 12 };

/// Entries of dense panels that are not worth waking a thread for.
const ENTRIES_WORTH_WAKING: usize = if cfg!(test) { 1 << 5 } else { 1 << 15 };

/// Shares for each thread, so that one whose share is small helps with others.
pub(crate) const PER_THREAD: usize = 4;

/// Pointers that threads share; who may write what is said where they are used.
#[derive(Clone, Copy)]
pub(crate) struct Parts<T>(T);

// SAFETY: those who share them read what nobody writes, and write disjoint parts.
unsafe impl<T> Send for Parts<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Parts<T> {}

impl<T: Copy> Parts<T> {
    /// Of values that may be sent between threads.
    pub fn new(pointers: T) -> Self {
        Self(pointers)
    }

    pub fn get(&self) -> T {
        self.0
    }
}

/// Calls `work` with ranges that make up `0..len`, all but the last a multiple of `step`; from the threads of the pool if
/// `is_shared` and `entries` for each are enough to wake them for. Inlined, for most that call it do not share.
#[inline(always)]
pub(crate) fn pieces<E: Send>(
    is_shared: bool,
    len: usize,
    entries: usize,
    step: usize,
    work: impl Fn(Range<usize>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let pieces = len * entries / ENTRIES_WORTH_WAKING;
    if !is_shared || pieces < 2 {
        return work(0..len);
    }
    let pieces = pieces.min(PER_THREAD * rayon::current_num_threads());
    let piece = len.div_ceil(pieces).next_multiple_of(step);
    let starts = (0..len.div_ceil(piece)).into_par_iter().map(|i| i * piece);
    starts.try_for_each(|start| work(start..len.min(start + piece)))
}

/// Does both, side by side if there is more than one thread.
pub(crate) fn both<A: Send, B: Send>(
    threads: usize,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    if threads > 1 {
        rayon::join(one, other)
    } else {
        (one(), other())
    }
}

/// `of(i)` for each i below `len`.
#[cfg(feature = "gpu")]
pub(crate) fn collected<T: Send>(
    threads: usize,
    len: usize,
    of: impl Fn(usize) -> T + Sync + Send,
) -> Vec<T> {
    if threads == 1 || len <= WORTH_WAKING {
        (0..len).map(of).collect()
    } else {
        let all = (0..len).into_par_iter().with_min_len(WORTH_WAKING);
        all.map(of).collect()
    }
}

/// Cuts `0..len` into ranges of about the same work: `before(i)`, which grows with i up to `before(len)`, is the number of
/// elements to work on before i. There is one range at least.
pub(crate) fn shares(
    threads: usize,
    len: usize,
    before: impl Fn(usize) -> u64,
) -> Vec<Range<usize>> {
    let total = before(len);
    let most = threads * PER_THREAD;
    let count = if threads == 1 {
        1
    } else {
        most.min(total as usize / WORTH_WAKING).clamp(1, len.max(1))
    };
    let mut start = 0;
    (1..=count)
        .map(|share| {
            // The first element before which there is that much.
            let wanted = (u128::from(total) * share as u128 / count as u128) as u64;
            let (mut low, mut high) = (start, len);
            while low < high {
                let middle = low + (high - low) / 2;
                if before(middle) < wanted {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            let end = if share == count { len } else { low };
            let range = start..end;
            start = end;
            range
        })
        .collect()
}

/// `of` each item, in their order.
pub(crate) fn mapped<I: Send, T: Send>(items: Vec<I>, of: impl Fn(I) -> T + Sync + Send) -> Vec<T> {
    if items.len() <= 1 {
        items.into_iter().map(of).collect()
    } else {
        items.into_par_iter().map(of).collect()
    }
}

/// Cuts a slice into consecutive pieces of these lengths.
#[track_caller]
pub(crate) fn split<T>(
    mut slice: &mut [T],
    lengths: impl IntoIterator<Item = usize>,
) -> Vec<&mut [T]> {
    lengths
        .into_iter()
        .map(|length| {
            let (piece, rest) = std::mem::take(&mut slice).split_at_mut(length);
            slice = rest;
            piece
        })
        .collect()
}

/// The parts one after another, with room for so many `more` elements behind them.
pub(crate) fn joined<T: Copy + Send + Sync>(mut parts: Vec<Vec<T>>, more: usize) -> Vec<T> {
    if parts.len() == 1 {
        let mut part = parts.swap_remove(0);
        part.reserve_exact(more);
        return part;
    }
    let len = parts.iter().map(Vec::len).sum();
    let mut whole = Vec::with_capacity(len + more);
    // Memory is first touched by the threads that copy, not by one that fills it before.
    let pieces = split(
        &mut whole.spare_capacity_mut()[..len],
        parts.iter().map(Vec::len),
    );
    let pairs: Vec<_> = pieces.into_iter().zip(&parts).collect();
    mapped(pairs, |(piece, part)| {
        for (to, from) in piece.iter_mut().zip(part) {
            to.write(*from);
        }
    });
    // SAFETY: the pieces are as long as their parts, and all of the first `len` elements: each has been written.
    unsafe { whole.set_len(len) };
    whole
}

/// Sorts distinct numbers.
#[cfg(feature = "gpu")]
pub(crate) fn sort<T: Ord + Send>(threads: usize, numbers: &mut [T]) {
    if threads == 1 || numbers.len() <= WORTH_WAKING {
        numbers.sort_unstable();
    } else {
        numbers.par_sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_every_element_once() {
        for (len, threads, each) in [(0, 4, 1), (1, 4, 1 << 20), (10, 2, 1), (5000, 16, 7)] {
            let shares = shares(threads, len, |i| i as u64 * each);
            let elements: Vec<usize> = shares.iter().cloned().flatten().collect();
            assert_eq!(elements, (0..len).collect::<Vec<_>>());
        }
        assert_eq!(shares(16, 5000, |i| i as u64).len(), 16 * PER_THREAD);
        // One element has all the work.
        let shares = shares(3, 4, |i| if i < 2 { 0 } else { 1 << 20 });
        assert!(shares.iter().any(|share| share.contains(&1)));
        assert_eq!(shares.last().map(|share| share.end), Some(4));
    }

    #[test]
    fn parts_are_joined_in_order() {
        let parts = vec![vec![1, 2], Vec::new(), vec![3]];
        let whole = joined(parts, 5);
        assert_eq!(whole, [1, 2, 3]);
        assert!(whole.capacity() >= 8);
        let mut whole = [1, 2, 3];
        let pieces = split(&mut whole, [1, 0, 2]);
        assert_eq!(pieces, [&mut [1][..], &mut [], &mut [2, 3]]);
    }
}
