//! The small parallel building blocks, stated as what they compute.

use luge_sparse::CompressedPattern;

/// Offsets of lines of the given lengths: entry `i` is the sum of `counts[..i]`, so there is one
/// entry more than there are counts and the last is the total.
pub fn exclusive_prefix_sum(counts: &[u32]) -> Vec<u64> {
    let mut offsets = Vec::with_capacity(counts.len() + 1);
    let mut sum = 0;
    offsets.push(sum);
    for &count in counts {
        sum += u64::from(count);
        offsets.push(sum);
    }
    offsets
}

/// The indices with each segment `idx[ptr[i]..ptr[i + 1]]` in increasing order.
///
/// # Panics
///
/// If the offsets do not lie within `idx` or decrease.
#[track_caller]
pub fn sort_segments(ptr: &[u64], idx: &[u32]) -> Vec<u32> {
    let mut sorted = idx.to_vec();
    for ends in ptr.windows(2) {
        let segment = &mut sorted[ends[0] as usize..ends[1] as usize];
        // Insertion sort: before step `k` the first `k` entries are in order.
        for k in 1..segment.len() {
            let mut at = k;
            while at > 0 && segment[at - 1] > segment[at] {
                segment.swap(at - 1, at);
                at -= 1;
            }
        }
    }
    sorted
}

/// The pattern of the transpose.
pub fn transpose(rows: &CompressedPattern) -> CompressedPattern {
    transpose_with_map(rows).0
}

/// CSR to CSC: the lines of the result are the columns of `rows`, and for each entry of the result
/// the second vector holds its position in `rows`.
pub fn transpose_with_map(rows: &CompressedPattern) -> (CompressedPattern, Vec<u64>) {
    // Rows are visited in order, so each column receives its rows in order.
    let mut columns = vec![Vec::new(); rows.minor_dim()];
    for i in 0..rows.major_dim() {
        for p in rows.range(i) {
            columns[rows.idx()[p] as usize].push((i as u32, p as u64));
        }
    }
    let counts: Vec<u32> = columns.iter().map(|c| c.len() as u32).collect();
    let entries: Vec<(u32, u64)> = columns.into_iter().flatten().collect();
    let pattern = CompressedPattern::new(
        rows.major_dim(),
        exclusive_prefix_sum(&counts),
        entries.iter().map(|e| e.0).collect(),
    )
    .expect("columns list rows in increasing order");
    (pattern, entries.iter().map(|e| e.1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitrary::patterns;
    use proptest::prelude::*;

    #[test]
    fn prefix_sums_of_many_sizes() {
        assert_eq!(exclusive_prefix_sum(&[]), [0]);
        assert_eq!(exclusive_prefix_sum(&[3, 0, 2]), [0, 3, 3, 5]);
        // A sum beyond 32 bits.
        assert_eq!(exclusive_prefix_sum(&[u32::MAX, 1])[2], 1u64 << 32);
        for n in [1usize, 31, 32, 33, 1025] {
            let counts: Vec<u32> = (0..n as u32).collect();
            let sums = exclusive_prefix_sum(&counts);
            for (i, &sum) in sums.iter().enumerate() {
                assert_eq!(sum, (i * i.saturating_sub(1) / 2) as u64);
            }
        }
    }

    proptest! {
        #[test]
        fn segments_are_sorted_and_kept_apart(
            segments in proptest::collection::vec(
                proptest::collection::vec(0u32..50, 0..40), 0..10)
        ) {
            let counts: Vec<u32> = segments.iter().map(|s| s.len() as u32).collect();
            let ptr = exclusive_prefix_sum(&counts);
            let sorted = sort_segments(&ptr, &segments.concat());
            for (i, mut segment) in segments.into_iter().enumerate() {
                segment.sort_unstable();
                prop_assert_eq!(&sorted[ptr[i] as usize..ptr[i + 1] as usize], &segment[..]);
            }
        }

        #[test]
        fn transpose_exchanges_row_and_column(a in patterns(20)) {
            let (t, map) = transpose_with_map(&a);
            for i in 0..a.major_dim() as u32 {
                for j in 0..a.minor_dim() as u32 {
                    prop_assert_eq!(
                        a.line(i as usize).contains(&j),
                        t.line(j as usize).contains(&i)
                    );
                }
            }
            for j in 0..t.major_dim() {
                for q in t.range(j) {
                    prop_assert_eq!(a.idx()[map[q] as usize] as usize, j);
                    prop_assert!(a.range(t.idx()[q] as usize).contains(&(map[q] as usize)));
                }
            }
            prop_assert_eq!(transpose(&t), a);
        }
    }
}
