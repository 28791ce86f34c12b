//! Loops over whole arrays: in lanes that do not wait for each other, and in stretches that threads
//! share.

use std::ops::Range;

use luge_sparse::Scalar;
use rayon::prelude::*;

/// Elements taken at once.
const LANES: usize = 16;

/// Likewise where each has two results: more do not fit the registers of most processors.
const FEW_LANES: usize = 8;

/// The sum of `term` over all elements, in an order of its own.
pub(crate) fn sum_in_lanes<T: Copy>(values: &[T], term: impl Fn(T) -> f64) -> f64 {
    let mut sums = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (sum, &value) in sums.iter_mut().zip(chunk) {
            *sum += term(value);
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&value| term(value)).sum::<f64>()
}

/// The largest magnitude of some values, NaN if one of them is not finite.
pub(crate) fn largest_magnitude<T: Scalar>(values: &[T], threads: usize) -> f64 {
    let size = |value: T| value.widen().magnitude();
    let of = |values: &[T]| {
        let (mut largest, mut sums) = ([0.0f64; FEW_LANES], [0.0f64; FEW_LANES]);
        let mut take = |values: [f64; FEW_LANES]| {
            for ((largest, sum), value) in largest.iter_mut().zip(&mut sums).zip(values) {
                *sum += value;
                *largest = if value > *largest { value } else { *largest };
            }
        };
        let (chunks, rest) = values.as_chunks::<FEW_LANES>();
        for chunk in chunks {
            take(chunk.map(size));
        }
        let mut last = [0.0; FEW_LANES];
        for (last, &value) in last.iter_mut().zip(rest) {
            *last = size(value);
        }
        take(last);
        // A sum may also have overflowed.
        let is_finite =
            sums.iter().all(|sum| sum.is_finite()) || values.iter().all(|value| value.is_number());
        if is_finite {
            largest.into_iter().fold(0.0, f64::max)
        } else {
            f64::NAN
        }
    };
    if threads == 1 || values.len() <= SHARE {
        return of(values);
    }
    let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
    values.par_chunks(SHARE).map(of).reduce(|| 0.0, larger)
}

/// Whether the integers of both arrays, which are of the same length, are the same.
pub(crate) fn same_integers<A: Copy, B: Copy>(
    ours: &[A],
    theirs: &[B],
    differ: impl Fn(A, B) -> u64,
) -> bool {
    const STRETCH: usize = 512;
    ours.chunks(STRETCH)
        .zip(theirs.chunks(STRETCH))
        .all(|(ours, theirs)| {
            // No early exit within a stretch, so that it goes in lanes.
            let pairs = ours.iter().zip(theirs);
            pairs.fold(0, |all, (&a, &b)| all | differ(a, b)) == 0
        })
}

/// Elements that a thread takes at a time.
pub(crate) const SHARE: usize = 1 << 14;

/// Whether `holds` for all stretches of `0..len`, which the threads share if there are several.
pub(crate) fn all_stretches(
    len: usize,
    threads: usize,
    holds: impl Fn(Range<usize>) -> bool + Sync,
) -> bool {
    if threads == 1 || len <= SHARE {
        return holds(0..len);
    }
    (0..len.div_ceil(SHARE))
        .into_par_iter()
        .all(|share| holds(share * SHARE..len.min((share + 1) * SHARE)))
}

/// `of` each element; several threads share that.
pub(crate) fn mapped<A: Copy + Sync, B: Send>(
    from: &[A],
    threads: usize,
    of: impl Fn(A) -> B + Sync + Send,
) -> Vec<B> {
    if threads == 1 || from.len() <= SHARE {
        return from.iter().map(|&element| of(element)).collect();
    }
    let shares = from.par_iter().with_min_len(SHARE);
    shares.map(|&element| of(element)).collect()
}

/// Copies `from` to `to`, of the same length; several threads share that.
pub(crate) fn copy<T: Copy + Send + Sync>(from: &[T], to: &mut [T], threads: usize) {
    if threads == 1 || from.len() <= SHARE {
        to.copy_from_slice(from);
    } else {
        assert_eq!(from.len(), to.len(), "arrays of different length");
        to.par_chunks_mut(SHARE)
            .zip(from.par_chunks(SHARE))
            .for_each(|(to, from)| to.copy_from_slice(from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;

    #[test]
    fn sums_have_every_element() {
        for n in [0usize, 1, 15, 16, 17, 1025] {
            let values: Vec<u32> = (0..n as u32).collect();
            assert_eq!(
                sum_in_lanes(&values, f64::from),
                (n * n.saturating_sub(1) / 2) as f64
            );
        }
        assert!(sum_in_lanes(&[1.0, f64::NAN], |v| v * 0.0).is_nan());
    }

    #[test]
    fn the_largest_magnitude_is_found_unless_a_value_is_not_finite() {
        for n in [1usize, 7, 8, 9, 3 * SHARE] {
            let mut values: Vec<f32> = (0..n).map(|k| (k % 5) as f32 - 2.0).collect();
            values[n / 2] = -7.0;
            assert_eq!(largest_magnitude(&values, 2), 7.0);
            // A sum that overflows is not what is looked for.
            let huge: Vec<f64> = values.iter().map(|_| -f64::MAX).collect();
            assert_eq!(largest_magnitude(&huge, 2), f64::MAX);
            let mut complex: Vec<Complex<f64>> = values.iter().map(|&v| v.widen().into()).collect();
            complex[n - 1] = Complex::new(3.0, -5.0);
            assert_eq!(largest_magnitude(&complex, 2), 8.0);
            complex[n - 1] = Complex::new(f64::MAX, f64::MAX);
            assert_eq!(largest_magnitude(&complex, 2), f64::INFINITY);
            complex[0].im = f64::NAN;
            assert!(largest_magnitude(&complex, 2).is_nan());
            values[n - 1] = f32::NEG_INFINITY;
            assert!(largest_magnitude(&values, 2).is_nan());
        }
    }

    #[test]
    fn one_other_integer_is_found() {
        for n in [1usize, 511, 512, 513, 1025] {
            let ours: Vec<u32> = (0..n as u32).collect();
            let mut theirs: Vec<usize> = (0..n).collect();
            let differ = |a: u32, b: usize| u64::from(a) ^ b as u64;
            assert!(same_integers(&ours, &theirs, differ));
            theirs[n - 1] += 1 << 32;
            assert!(!same_integers(&ours, &theirs, differ));
        }
    }

    #[test]
    fn shares_are_the_whole() {
        for len in [0, 1, SHARE, SHARE + 1, 3 * SHARE] {
            let from: Vec<usize> = (0..len).collect();
            let mut to = vec![usize::MAX; len];
            copy(&from, &mut to, 2);
            assert_eq!(to, from);
            assert!(all_stretches(len, 2, |range| range.end <= len));
            for bad in [0, len / 2, len.saturating_sub(1)] {
                let found = !all_stretches(len, 2, |range| !range.contains(&bad));
                assert_eq!(found, bad < len);
            }
        }
    }
}
