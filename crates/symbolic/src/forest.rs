//! Ranges of pivots that can be eliminated independently.
//!
//! A range of pivots that no entry of B joins to a smaller pivot needs nothing from outside itself.
//! The smallest such ranges that end at a given pivot nest: they are the subtrees of the elimination
//! forest of B + Bᵀ wherever that is postordered (J. W. H. Liu, "The role of elimination trees in
//! sparse factorization", SIAM J. Matrix Anal. Appl. 11, 1990), which the orderings of Luge see to,
//! and unions of subtrees elsewhere. They follow from the first neighbour of every pivot alone, so
//! neither the forest nor a symmetrised graph is formed: O(nnz) for the neighbours, O(n) for the rest.

use std::ops::Range;

use luge_sparse::CompressedPattern;

/// First pivot of the smallest independent range that ends with each pivot.
pub(crate) fn first_descendants(rows: &CompressedPattern) -> Vec<u32> {
    let n = rows.major_dim();
    let mut first: Vec<u32> = (0..n as u32).collect();
    for (i, row) in rows.lines().enumerate() {
        if let Some(&j) = row.first() {
            first[i] = first[i].min(j);
        }
        for &j in row {
            // Rows come in order, so a later one cannot lower what this one does.
            first[j as usize] = first[j as usize].min(i as u32);
        }
    }
    // From neighbours to descendants: the ranges before a pivot, the last one first, are its
    // children as long as they reach to its first neighbour.
    for k in 0..n {
        let neighbour = first[k];
        let mut start = k as u32;
        while start > neighbour {
            start = first[start as usize - 1];
        }
        first[k] = start;
    }
    first
}

/// Largest neighbour of any pivot in the smallest independent range that ends with each pivot, at
/// least that pivot itself: nothing above it is reached by walks from the pivot through smaller ones.
///
/// `first` are the [`first_descendants`].
#[cfg(any(feature = "gpu", test))]
pub(crate) fn last_reached(rows: &CompressedPattern, first: &[u32]) -> Vec<u32> {
    let mut last: Vec<u32> = Vec::with_capacity(first.len());
    for (k, row) in rows.lines().enumerate() {
        let mut reached = row.last().map_or(0, |&j| j).max(k as u32);
        // The children of the range, as above.
        let mut start = k as u32;
        while start > first[k] {
            let child = start as usize - 1;
            reached = reached.max(last[child]);
            start = first[child];
        }
        last.push(reached);
    }
    last
}

/// Disjoint independent ranges of at most `max_len` pivots each, in increasing order, as long as
/// they can be, none shorter than a sixteenth of that. A pivot in none of them may depend on earlier
/// ranges, never on later ones, and no range depends on it.
pub(crate) fn independent_ranges(rows: &CompressedPattern, max_len: usize) -> Vec<Range<usize>> {
    let first = first_descendants(rows);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut end = first.len();
    while end > 0 {
        let start = first[end - 1] as usize;
        if end - start > max_len {
            end -= 1;
            continue;
        }
        match ranges.last_mut() {
            // Two neighbours are independent together, too.
            Some(last) if last.start == end && last.end - start <= max_len => last.start = start,
            _ => ranges.push(start..end),
        }
        end = start;
    }
    ranges.reverse();
    ranges.retain(|range| range.len() >= max_len.div_ceil(16));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_testkit::strategies::patterns;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_independent(a in patterns(40), max_len in 1usize..20) {
            let ranges = independent_ranges(&a, max_len);
            for range in &ranges {
                prop_assert!(!range.is_empty() && range.len() <= max_len);
                for (i, row) in a.lines().enumerate() {
                    for &j in row {
                        let (low, high) = (i.min(j as usize), i.max(j as usize));
                        prop_assert!(!(low < range.start && range.contains(&high)));
                    }
                }
            }
            prop_assert!(ranges.windows(2).all(|w| w[0].end <= w[1].start));
        }
    }

    proptest! {
        #[test]
        fn rows_of_the_factors_stay_within_their_reach(a in patterns(24)) {
            let filled = luge_reference::symbolic::dense_boolean_elimination(&a);
            let first = first_descendants(&a);
            let last = last_reached(&a, &first);
            for (i, row) in filled.rows().lines().enumerate() {
                prop_assert!(row[0] >= first[i] && row[row.len() - 1] <= last[i]);
                let widest = (first[i] as usize..=i).flat_map(|k| a.line(k)).max();
                prop_assert_eq!(last[i], widest.map_or(i as u32, |&j| j.max(i as u32)));
            }
        }
    }

    #[test]
    fn a_dissected_path_falls_apart() {
        // 0-1-4, 2-3-4 and the separator 4.
        let rows: [&[u32]; 5] = [&[1], &[4], &[3], &[4], &[]];
        let mut ptr = vec![0];
        for row in rows {
            ptr.push(ptr[ptr.len() - 1] + row.len() as u64);
        }
        let a = CompressedPattern::new(5, ptr, rows.concat()).unwrap();
        assert_eq!(first_descendants(&a), [0, 0, 2, 2, 0]);
        assert_eq!(last_reached(&a, &first_descendants(&a)), [1, 4, 3, 4, 4]);
        assert_eq!(independent_ranges(&a, 2), [0..2, 2..4]);
        assert_eq!(independent_ranges(&a, 4), vec![0..4; 1]);
        assert_eq!(independent_ranges(&a, 5), vec![0..5; 1]);
    }
}
