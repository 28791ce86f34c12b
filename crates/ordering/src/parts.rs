//! Work in parts, on the current rayon pool or one after another.

use std::ops::Range;

use rayon::prelude::*;

/// Fewer elements than this are not worth waking threads for. Very few in tests, so that small matrices are shared there.
pub(crate) const WORTH_SHARING: usize = if cfg!(test) { 8 } else { 20_000 };

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

/// In how many parts of at least `least` elements so many are shared out on the current pool, if `parallel`.
pub(crate) fn num_parts(len: usize, least: usize, parallel: bool) -> usize {
    // Very few in tests, so that small matrices are shared there.
    let least = if cfg!(test) { 2 } else { least };
    if parallel {
        (len / least).clamp(1, 2 * rayon::current_num_threads())
    } else {
        1
    }
}

/// Calls `make` on parts of `0..len` of at least `least` elements, at once if `parallel`, and returns the results in order.
/// For the same numbers and pool the parts are the same.
pub(crate) fn by_parts<T: Send>(
    len: usize,
    least: usize,
    parallel: bool,
    make: impl Fn(Range<usize>) -> T + Sync,
) -> Vec<T> {
    let num_parts = num_parts(len, least, parallel);
    if num_parts == 1 {
        return vec![make(0..len)];
    }
    let start = |k: usize| len * k / num_parts;
    (0..num_parts)
        .into_par_iter()
        .map(|k| make(start(k)..start(k + 1)))
        .collect()
}

/// What `of` says of each number below `len`, on the current rayon pool if `parallel` and there are at least two times `least`.
pub(crate) fn collected<T: Send>(
    len: usize,
    least: usize,
    parallel: bool,
    of: impl Fn(usize) -> T + Sync + Send,
) -> Vec<T> {
    if parallel && len >= 2 * least {
        let numbers = (0..len).into_par_iter().with_min_len(least);
        numbers.map(of).collect()
    } else {
        (0..len).map(of).collect()
    }
}

/// Lists one behind the other, from the lists of the parts and where each ends within its part; several long ones
/// are copied at once, on the current rayon pool.
pub(crate) fn joined_lists(mut parts: Vec<(Vec<u32>, Vec<usize>)>) -> (Vec<usize>, Vec<u32>) {
    if parts.len() == 1 {
        let (mut idx, mut ptr) = parts.swap_remove(0);
        idx.shrink_to_fit();
        ptr.insert(0, 0);
        return (ptr, idx);
    }
    let mut ptr = vec![0; parts.iter().map(|(_, ends)| ends.len()).sum::<usize>() + 1];
    let num_entries = parts.iter().map(|(idx, _)| idx.len()).sum();
    let mut idx = vec![0; num_entries];
    let (mut ptr_left, mut idx_left) = (&mut ptr[1..], &mut idx[..]);
    let mut start = 0;
    let copies: Vec<_> = parts
        .into_iter()
        .map(|(part, ends)| {
            let of_ptr = ptr_left.split_off_mut(..ends.len());
            let of_idx = idx_left.split_off_mut(..part.len());
            let fits = "there is room for every part";
            let copy = (start, of_ptr.expect(fits), of_idx.expect(fits), part, ends);
            start += copy.3.len();
            copy
        })
        .collect();
    type Copy<'a> = (usize, &'a mut [usize], &'a mut [u32], Vec<u32>, Vec<usize>);
    // Each thread also frees the parts it copied.
    let copy = |(start, of_ptr, of_idx, part, ends): Copy<'_>| {
        of_idx.copy_from_slice(&part);
        for (place, end) in of_ptr.iter_mut().zip(ends) {
            *place = start + end;
        }
    };
    if num_entries >= 4 * WORTH_SHARING {
        copies.into_par_iter().for_each(copy);
    } else {
        copies.into_iter().for_each(copy);
    }
    (ptr, idx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_joined_in_order() {
        let parts = vec![
            (vec![5, 6, 7], vec![2, 2, 3]),
            (vec![], vec![]),
            (vec![], vec![0]),
            (vec![8, 9], vec![1, 2]),
        ];
        let one = joined_lists(vec![(vec![5, 6, 7, 8, 9], vec![2, 2, 3, 3, 4, 5])]);
        assert_eq!(one, (vec![0, 2, 2, 3, 3, 4, 5], vec![5, 6, 7, 8, 9]));
        assert_eq!(joined_lists(parts), one);
    }
}
