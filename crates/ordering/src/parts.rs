//! Work in parts, on the current rayon pool or one after another.

use std::ops::Range;

use rayon::prelude::*;

/// Both results; at once if `parallel`.
pub(crate) fn join_if<A: Send, B: Send>(
    parallel: bool,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    if parallel {
        rayon::join(first, second)
    } else {
        (first(), second())
    }
}

/// Calls `make` on parts of `0..len`, at once if `parallel`, and returns the results in order.
pub(crate) fn by_parts<T: Send>(
    len: usize,
    parallel: bool,
    make: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    if !parallel {
        return vec![make(0..len)];
    }
    let num_parts = 2 * rayon::current_num_threads();
    let start = |k: usize| len * k / num_parts;
    (0..num_parts)
        .into_par_iter()
        .map(|k| make(start(k)..start(k + 1)))
        .collect()
}

/// Lists one behind the other, from the lists of the parts and where each ends within its part.
pub(crate) fn joined_lists(mut parts: Vec<(Vec<u32>, Vec<usize>)>) -> (Vec<usize>, Vec<u32>) {
    let mut ptr = Vec::with_capacity(parts.iter().map(|(_, ends)| ends.len()).sum::<usize>() + 1);
    ptr.push(0);
    if parts.len() == 1 {
        let (idx, ends) = parts.remove(0);
        ptr.extend(ends);
        return (ptr, idx);
    }
    let mut idx = Vec::with_capacity(parts.iter().map(|(idx, _)| idx.len()).sum());
    for (part, ends) in parts {
        ptr.extend(ends.iter().map(|end| idx.len() + end));
        idx.extend(part);
    }
    (ptr, idx)
}
