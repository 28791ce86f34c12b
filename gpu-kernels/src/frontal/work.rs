//! What all who work on a factorization share: the matrix, the factors, and what is reported of them.

use luge_kernel::prelude::*;

use super::plan::{CONJUGATED, Work, exponent, report, state};
use crate::maxima::is_last_block;

/// What a thread has seen so far.
#[derive(Clone, Copy)]
pub(super) struct Seen<T: Field> {
    pub max_b: f64,
    pub max_u: T::Real,
    pub max_l: T::Real,
    /// Of a symmetric matrix: the smallest and the largest magnitude of an eigenvalue of D, but for zeros.
    pub min_pivot: T::Real,
    pub max_pivot: T::Real,
    /// Negative eigenvalues of D.
    pub num_negative: u32,
    /// Its pivots of order 2.
    pub num_two: u32,
    /// Those that count as zero.
    pub num_zero: u32,
    /// How often a search failed.
    pub num_failed: u32,
    /// Fronts and tiles in which a search did not keep what was known.
    pub num_searched: u32,
}

impl<T: Field> Seen<T> {
    #[inlined]
    pub fn nothing() -> Self {
        Self {
            max_b: 0.0,
            max_u: T::Real::ZERO,
            max_l: T::Real::ZERO,
            min_pivot: T::Real::ZERO.reciprocal(),
            max_pivot: T::Real::ZERO,
            num_negative: 0,
            num_two: 0,
            num_zero: 0,
            num_failed: 0,
            num_searched: 0,
        }
    }

    /// What the entries of a trial are noted in, so that nothing is if it fails.
    #[inlined]
    pub fn before_trial(&self) -> Self {
        Self {
            max_l: T::Real::ZERO,
            ..*self
        }
    }

    /// Takes over what was noted since.
    #[inlined]
    pub fn after_trial(&mut self, tried: &Self) {
        self.max_u = tried.max_u;
        self.max_l = self.max_l.max(tried.max_l);
    }

    /// Takes note of the magnitudes of the eigenvalues of a pivot.
    #[inlined]
    pub fn pivot(&mut self, small: T::Real, large: T::Real) {
        self.min_pivot = self.min_pivot.min(small);
        self.max_pivot = self.max_pivot.max(large);
    }

    /// Takes note of an entry of the factors.
    #[inlined]
    pub fn entry(&mut self, value: T, is_lower: bool) {
        let size = value.magnitude();
        if is_lower {
            self.max_l = self.max_l.max(size);
        } else {
            self.max_u = self.max_u.max(size);
        }
    }
}

/// `value` / `divisor`, `inverse` being nearly 1/`divisor`: rounded correctly but for rare cases, so that what divides
/// exactly does, and a singular matrix of small integers has a pivot of zero (P. W. Markstein, "Computation of
/// elementary functions on the IBM RISC System/6000 processor", IBM J. Res. Dev. 34, 1990).
#[inlined]
pub(super) fn quotient<T: Field>(value: T, divisor: T, inverse: T) -> T {
    let quotient = value * inverse;
    let rest = (-quotient).mul_add(divisor, value);
    rest.mul_add(inverse, quotient)
}

/// `value` · 2^`exponent` for |exponent| <= 2044.
#[inlined]
pub(super) fn times_power_of_two<W: Field<Real = f64>>(value: W, exponent: i32) -> W {
    // The power itself may be out of range where the product is not.
    let half = exponent >> 1;
    value
        .scale(power_of_two(half))
        .scale(power_of_two(exponent - half))
}

/// 2^`exponent` for |exponent| <= 1022.
#[inlined]
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + i64::from(exponent)) as u64) << 52)
}

const _: () = assert!(
    report::NUM_SEARCHED - report::NUM_PERTURBED == state::NUM_SEARCHED - state::NUM_PERTURBED
        && state::LEN == state::NUM_SEARCHED + 1,
    "counts of the state and of the report stand in the same order"
);
const _: () = assert!(
    report::NUM_EXTREMES <= warp::WARP_SIZE as usize && state::LEN <= warp::WARP_SIZE as usize,
    "each word has a thread of the smallest block"
);

impl<T: Field> Work<T> {
    /// A value of A as an entry of B.
    #[inlined]
    pub(super) fn scaled(self, value: T::Wide, place: u32, seen: &mut Seen<T>) -> T {
        let mut value = times_power_of_two(value, exponent(place));
        if T::COMPONENTS > 1 && place & CONJUGATED != 0 {
            value = value.conjugate();
        }
        seen.max_b = seen.max_b.max(value.magnitude());
        T::narrow(value)
    }

    /// What is divided by for a pivot that came so.
    #[inlined]
    pub(super) fn usable(self, came: T) -> T {
        // What is not a number is not smaller.
        if came.magnitude() < self.smallest {
            came.with_magnitude(self.smallest)
        } else {
            came
        }
    }

    /// What is divided by for a pivot that came so, and nearly its reciprocal.
    #[inlined]
    pub(super) fn pivot(&self, came: T) -> (T, T) {
        // Most pivots are taken as they come: their reciprocals do not wait for the comparison.
        let (mut pivot, mut inverse) = (came, came.reciprocal());
        if came.magnitude() < self.smallest {
            pivot = self.usable(came);
            inverse = pivot.reciprocal();
        }
        (pivot, inverse)
    }

    /// Takes note of a pivot that came so, if there is something to note.
    #[inlined]
    pub(super) fn note(self, came: T, pivot: u32) {
        let size = self.usable(came).magnitude().to_f64();
        let is_replaced = came.magnitude() < self.smallest;
        if is_replaced || size == 0.0 || !size.is_finite() {
            if is_replaced {
                let count = self.state.atomic(state::NUM_PERTURBED);
                count.reduce_add(1, Ordering::Relaxed, Scope::Device);
                self.note_first(report::FIRST_PERTURBED, pivot);
            }
            if size == 0.0 {
                self.note_first(report::FIRST_ZERO, pivot);
            }
            if !size.is_finite() {
                self.note_first(report::FIRST_NOT_FINITE, pivot);
            }
        }
    }

    /// Takes note of a pivot among those of which the first is reported.
    #[inlined]
    pub(super) fn note_first(self, which: usize, pivot: u32) {
        let extreme = self.extremes.atomic(which);
        extreme.fetch_max(u64::from(!pivot), Ordering::Relaxed, Scope::Device);
    }

    /// Tells a large front that an element for it is there. One thread calls it, behind a barrier of those who wrote.
    #[inlined]
    pub(super) fn arrive(self, front: u32) {
        let arrived = self.arrived.atomic(front as usize);
        arrived.reduce_add(1, Ordering::Release, Scope::Device);
    }

    /// Takes note that the search failed at this pivot.
    #[inlined]
    pub(super) fn fail(self, pivot: u32, seen: &mut Seen<T>) {
        // Several rows of a column may fail.
        let failed = self.failed.atomic(pivot as usize);
        failed.store(self.epoch, Ordering::Relaxed, Scope::Device);
        seen.num_failed += 1;
    }

    /// Ends the launch: the last block makes the report and clears what the next launch wants to be zero; what was found is not
    /// cleared if more launches of the factorization follow. What is counted of a matrix is counted if it is SYMMETRIC, failures
    /// of a SEARCH if it is one. All threads of the grid call it; a block has at least a warp.
    #[inlined]
    pub(super) fn finish<const SYMMETRIC: bool, const SEARCH: bool>(self, seen: Seen<T>) {
        self.raise(report::MAX_B, seen.max_b);
        self.raise(report::MAX_U, seen.max_u.to_f64());
        self.raise(report::MAX_L, seen.max_l.to_f64());
        if SYMMETRIC {
            self.raise(report::MAX_PIVOT, seen.max_pivot.to_f64());
            self.lower(report::MIN_PIVOT, seen.min_pivot.to_f64());
            self.count(state::NUM_NEGATIVE, seen.num_negative);
            self.count(state::NUM_TWO, seen.num_two);
            self.count(state::NUM_ZERO, seen.num_zero);
            self.count(state::NUM_SEARCHED, seen.num_searched);
        }
        if SEARCH {
            self.count(state::NUM_FAILED, seen.num_failed);
        }
        if is_last_block(self.state.atomic(state::BLOCKS_DONE)) {
            let is_last_launch = self.more_follow == 0;
            // A word a thread: one after another would take longer than the rest of a small factorization.
            let which = thread::thread_idx_x() as usize;
            if which < report::NUM_EXTREMES {
                self.report.set(which, self.extremes.get(which));
                if is_last_launch {
                    self.extremes.set(which, 0);
                }
            }
            if which < state::LEN {
                if which >= state::NUM_PERTURBED {
                    let count = u64::from(self.state.get(which));
                    let of_report = report::NUM_PERTURBED - state::NUM_PERTURBED;
                    self.report.set(which + of_report, count);
                }
                if is_last_launch || which < state::NUM_PERTURBED {
                    self.state.set(which, 0);
                }
            }
        }
    }

    /// Adds what the lanes of a warp have counted.
    #[inlined]
    fn count(self, which: usize, value: u32) {
        let sum = warp::fold(warp::WARP_SIZE, value, |sum, other| sum + other);
        if thread::lane_id() == 0 && sum > 0 {
            let count = self.state.atomic(which);
            count.reduce_add(sum, Ordering::Relaxed, Scope::Device);
        }
    }

    /// Lowers an extreme, whose complement is kept, to the smallest that the lanes of a warp have.
    #[inlined]
    fn lower(self, which: usize, value: f64) {
        let least = warp::fold(warp::WARP_SIZE, value, |least: f64, other| least.min(other));
        if thread::lane_id() == 0 && least.is_finite() {
            let extreme = self.extremes.atomic(which);
            extreme.fetch_max(!least.to_bits(), Ordering::Relaxed, Scope::Device);
        }
    }

    /// Raises an extreme to the largest that the lanes of a warp have.
    #[inlined]
    fn raise(self, which: usize, value: f64) {
        let most = warp::fold(warp::WARP_SIZE, value, |most: f64, other| most.max(other));
        if thread::lane_id() == 0 {
            let extreme = self.extremes.atomic(which);
            extreme.fetch_max(most.to_bits(), Ordering::Relaxed, Scope::Device);
        }
    }
}
