//! Where a factorization on the CPU takes the entries of a matrix from.

use std::ops::Range;

use luge_sparse::Scalar;
use luge_sparse::num_traits::{Float, Zero};

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
}
