//! Where a factorization on the CPU takes the entries of a matrix from.

use std::ops::Range;

use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{CancelFlag, Cancelled, Scalar};

/// Numbered values that are read, or computed, a stretch at a time.
///
/// A factorization looks at each entry of B once. Values that have to be permuted and scaled first need
/// not be stored in between: whoever has them in another order implements `load`. Anything that is a
/// slice is such a source itself.
pub trait Entries<F>: Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// Copies the entries from number `first` on to `into`.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    fn load(&self, first: usize, into: &mut [F]);
}

impl<F: Copy, A: AsRef<[F]> + Sync + ?Sized> Entries<F> for A {
    fn count(&self) -> usize {
        self.as_ref().len()
    }

    #[inline]
    fn load(&self, first: usize, into: &mut [F]) {
        into.copy_from_slice(&self.as_ref()[first..first + into.len()]);
    }
}

/// Entries that are read one stretch after another.
pub(super) const STRETCH: usize = 2048;

/// Copies a range of entries to `into`, whose memory is used again.
pub(super) fn load_range<F: Scalar>(
    values: &(impl Entries<F> + ?Sized),
    range: Range<usize>,
    into: &mut Vec<F>,
) {
    into.resize(range.len(), F::zero());
    values.load(range.start, into);
}

/// Entries that are copied between two looks at the cancel flag: where they come from all over a large matrix, and their memory is
/// new, that takes a millisecond.
const LOADED: usize = 1 << 16;

/// As [`load_range`], for as long as the flag is not raised.
///
/// # Errors
///
/// [`Cancelled`].
pub(super) fn load_range_unless<F: Scalar>(
    cancel: &CancelFlag,
    values: &(impl Entries<F> + ?Sized),
    range: Range<usize>,
    into: &mut Vec<F>,
) -> Result<(), Cancelled> {
    into.truncate(range.len());
    into.reserve_exact(range.len() - into.len());
    for first in range.clone().step_by(LOADED) {
        cancel.check()?;
        let end = range.end.min(first + LOADED);
        let (from, to) = (first - range.start, end - range.start);
        if into.len() < to {
            into.resize(to, F::zero());
        }
        values.load(first, &mut into[from..to]);
    }
    cancel.check()
}

/// The largest magnitude.
pub(super) fn largest<F: Scalar>(
    values: &(impl Entries<F> + ?Sized),
    range: Range<usize>,
) -> F::Real {
    let mut stretch = Vec::new();
    let mut largest = F::Real::zero();
    for first in range.clone().step_by(STRETCH) {
        let end = range.end.min(first + STRETCH);
        load_range(values, first..end, &mut stretch);
        largest = stretch
            .iter()
            .fold(largest, |max, v| max.max(v.magnitude()));
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_cover_the_range() {
        let mut values: Vec<f64> = (0..3 * STRETCH).map(|i| (i % 7) as f64).collect();
        values[5] = 100.0;
        *values.last_mut().unwrap() = -50.0;
        assert_eq!(largest(&values, 0..values.len()), 100.0);
        assert_eq!(largest(&values, 6..values.len()), 50.0);
        assert_eq!(largest(&values, 6..values.len() - 1), 6.0);
        assert_eq!(largest(&values, 6..6), 0.0);
        let mut part = vec![9.0; 4];
        load_range(&values, 5..7, &mut part);
        assert_eq!(part, [100.0, 6.0]);
    }

    #[test]
    fn a_raised_flag_ends_a_copy() {
        let values: Vec<f64> = (0..3 * LOADED).map(|i| i as f64).collect();
        let cancel = CancelFlag::new();
        for length in [0, 1, 2 * LOADED + 7, 5, LOADED] {
            let mut into = vec![-1.0; 10];
            load_range_unless(&cancel, &values, 3..3 + length, &mut into).unwrap();
            assert_eq!(into, values[3..3 + length]);
        }
        cancel.cancel();
        let stopped = load_range_unless(&cancel, &values, 0..3 * LOADED, &mut Vec::new());
        assert_eq!(stopped, Err(Cancelled));
        // Raised by the copy itself, behind its first entries.
        struct Raising<'a>(&'a CancelFlag);
        impl Entries<f64> for Raising<'_> {
            fn count(&self) -> usize {
                3 * LOADED
            }

            fn load(&self, first: usize, _: &mut [f64]) {
                assert_eq!(first, 0);
                self.0.cancel();
            }
        }
        for count in [1, LOADED, 3 * LOADED] {
            let cancel = CancelFlag::new();
            let raising = Raising(&cancel);
            let stopped = load_range_unless(&cancel, &raising, 0..count, &mut Vec::new());
            assert_eq!(stopped, Err(Cancelled));
        }
    }
}
