//! Lists of pairs by numbers, as transposing a matrix makes them.

use rayon::prelude::*;

use crate::shares::{WORTH_WAKING, split};

/// Pairs of numbers, in a list for each of the numbers they are grouped by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouped {
    /// Where each list starts, and the end of the last.
    pub ptr: Vec<u64>,
    /// The first of each pair.
    pub first: Vec<u32>,
    /// The second of each pair.
    pub second: Vec<u32>,
}

/// Triples that are worth it to be grouped by several threads.
pub(crate) const WORTH_DEALING: usize = 8 * WORTH_WAKING;

/// Ranges of numbers for each thread, so that those who are done early help with others.
const RANGES: usize = 4;

/// Groups triples by their first number, which is below `len`. The triples are those of the lines that `share` lists for
/// each number below `num_shares`, each time it is asked the same; lists are in that order, so they do not depend on how
/// the triples are shared. More than one share is worked on by the current rayon pool.
///
/// Two steps of a bucket sort, both linear: each share deals its triples out to ranges of numbers, then every range
/// counts and places its own.
///
/// # Panics
///
/// If a number is `len` or more.
#[track_caller]
pub fn grouped<I: Iterator<Item: Iterator<Item = [u32; 3]>>>(
    len: usize,
    num_shares: usize,
    share: impl Fn(usize) -> I + Sync,
) -> Grouped {
    if num_shares == 1 {
        return serial(len, || share(0));
    }
    // The numbers of a range agree but for so many bits.
    let threads = rayon::current_num_threads().min(num_shares);
    let bits = (len / (RANGES * threads)).max(1).ilog2();
    let num_ranges = len.div_ceil(1 << bits);
    let dealt: Vec<(Vec<usize>, Vec<[u32; 3]>)> = (0..num_shares)
        .into_par_iter()
        .with_max_len(1)
        .map(|s| dealt(num_ranges, bits, || share(s)))
        .collect();
    let of_range = |range: usize| {
        let pieces = dealt.iter();
        pieces.map(move |(ptr, triples)| &triples[ptr[range]..ptr[range + 1]])
    };
    let counts: Vec<usize> = (0..num_ranges)
        .map(|range| of_range(range).map(<[_]>::len).sum())
        .collect();
    let total = counts.iter().sum();
    let mut result = Grouped {
        ptr: vec![0; len + 1],
        first: vec![0; total],
        second: vec![0; total],
    };
    let ends = result.ptr[1..].par_chunks_mut(1 << bits);
    let firsts = split(&mut result.first, counts.iter().copied());
    let seconds = split(&mut result.second, counts.iter().copied());
    let mut before = 0;
    let before = counts.iter().map(|count| {
        let start = before;
        before += *count as u64;
        start
    });
    let before: Vec<u64> = before.collect();
    ends.zip(firsts)
        .zip(seconds)
        .zip(before)
        .enumerate()
        .with_max_len(1)
        .for_each(|(range, (((ends, first), second), before))| {
            let mask = (1 << bits) - 1;
            for triples in of_range(range) {
                for &[number, ..] in triples {
                    ends[(number & mask) as usize] += 1;
                }
            }
            // From counts to where the lists start; once they are filled, where they end.
            let mut next = before;
            for end in &mut *ends {
                next += std::mem::replace(end, next);
            }
            for triples in of_range(range) {
                for &[number, one, other] in triples {
                    let end = &mut ends[(number & mask) as usize];
                    let at = (*end - before) as usize;
                    first[at] = one;
                    second[at] = other;
                    *end += 1;
                }
            }
        });
    result
}

/// Triples by ranges of numbers that agree but for so many bits, and where each range starts, and the end of the last.
fn dealt<I: Iterator<Item: Iterator<Item = [u32; 3]>>>(
    num_ranges: usize,
    bits: u32,
    lines: impl Fn() -> I,
) -> (Vec<usize>, Vec<[u32; 3]>) {
    // Counts are shifted by two, so that after the sums ptr[range + 1] is where a range starts and, once it is filled,
    // where it ends.
    let mut ptr = vec![0; num_ranges + 2];
    for line in lines() {
        for [number, ..] in line {
            ptr[(number >> bits) as usize + 2] += 1;
        }
    }
    for range in 2..ptr.len() {
        ptr[range] += ptr[range - 1];
    }
    let mut dealt = vec![[0; 3]; ptr[num_ranges + 1]];
    for line in lines() {
        for triple in line {
            let next = &mut ptr[(triple[0] >> bits) as usize + 1];
            dealt[*next] = triple;
            *next += 1;
        }
    }
    ptr.pop();
    (ptr, dealt)
}

/// As [`grouped`], on one thread.
fn serial<I: Iterator<Item: Iterator<Item = [u32; 3]>>>(
    len: usize,
    lines: impl Fn() -> I,
) -> Grouped {
    // As in `dealt`.
    let mut ptr = vec![0u64; len + 2];
    for line in lines() {
        for [number, ..] in line {
            ptr[number as usize + 2] += 1;
        }
    }
    for i in 2..ptr.len() {
        ptr[i] += ptr[i - 1];
    }
    let total = ptr[len + 1] as usize;
    let (mut first, mut second) = (vec![0; total], vec![0; total]);
    for line in lines() {
        for [number, one, other] in line {
            let next = &mut ptr[number as usize + 1];
            first[*next as usize] = one;
            second[*next as usize] = other;
            *next += 1;
        }
    }
    ptr.pop();
    Grouped { ptr, first, second }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_are_in_the_order_of_the_triples(
            len in 1usize..200,
            numbers in proptest::collection::vec(any::<u32>(), 0..400),
            num_shares in 1usize..9,
            threads in 1usize..5,
        ) {
            let triple = |(at, number): (usize, &u32)| [number % len as u32, at as u32, *number];
            let triples: Vec<[u32; 3]> = numbers.iter().enumerate().map(triple).collect();
            let size = triples.len().div_ceil(num_shares).max(1);
            let share = |s: usize| {
                let end = |s: usize| (s * size).min(triples.len());
                triples[end(s)..end(s + 1)].chunks(3).map(|line| line.iter().copied())
            };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let found = pool.install(|| grouped(len, num_shares, share));
            let mut sorted = triples.clone();
            sorted.sort_by_key(|triple| triple[0]);
            let pairs: Vec<(u32, u32)> = sorted.iter().map(|t| (t[1], t[2])).collect();
            prop_assert_eq!(found.first.into_iter().zip(found.second).collect::<Vec<_>>(), pairs);
            let before = |i: usize| sorted.partition_point(|t| (t[0] as usize) < i) as u64;
            prop_assert_eq!(found.ptr, (0..=len).map(before).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn numbers_out_of_range_are_refused() {
        grouped(3, 2, |_| [[[3, 0, 0]].into_iter()].into_iter());
    }
}
