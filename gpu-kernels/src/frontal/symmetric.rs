//! What small and large fronts of symmetric matrices have in common: which pivots are acceptable, and what is kept and
//! noted of them.
//!
//! A pivot of order 1 in column p is acceptable if |a(p, p)| ≥ u · max |a(i, p)| over the other rows i that are left; one of
//! order 2, with the block E in columns p and t, if |E⁻¹|·(max |a(i, p)|, max |a(i, t)|)ᵀ ≤ 1/u over the other i, and its
//! determinant is more than the rounding of the products it is the difference of. (I. S. Duff and J. K. Reid, "The
//! multifrontal solution of indefinite sparse symmetric linear equations", ACM Trans. Math. Software 9, 1983, with the
//! bounds of J. Hogg, E. Ovtchinnikov and J. Scott, "A sparse symmetric indefinite direct solver for GPU architectures",
//! ACM Trans. Math. Software 42, 2016.) Both bound the entries of L by 1/u.
//!
//! Where signs are expected of pivots ([`Expectation`]), none is searched and L is not bounded: what has not its sign is replaced.

use luge_kernel::prelude::*;

use super::plan::{ExpectedPivots, SymmetricWork, Work, kind, report, state};
use super::work::Seen;

/// The kind of a factorization, by what it stores of a front.
pub(super) trait FrontKind<T: Field>: Copy {
    /// Whether rows and columns of pivots move together, and only the lower triangle is kept.
    const SYMMETRIC: bool;

    /// D's entry on the diagonal for a pivot in the order of elimination, and the one that couples it with the next, zero but
    /// for the first of a pivot of order 2. LU has no such thing.
    fn kept(self, pivot: u32) -> [T; 2];

    /// How entries determine those across the diagonal. LU has no such thing.
    fn form(self) -> Form;
}

/// How an entry determines its counterpart across the diagonal. Over the real numbers both forms are the same.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// A = Aᴴ: the counterpart is the conjugate, and the diagonal is real. Else A = Aᵀ.
    pub is_hermitian: bool,
}

impl Form {
    /// The counterpart of an entry.
    #[inlined]
    pub fn counterpart<T: Field>(self, entry: T) -> T {
        self.counterpart_if(true, entry)
    }

    /// The counterpart of an entry if it `is_across`, else the entry.
    #[inlined]
    pub fn counterpart_if<T: Field>(self, is_across: bool, entry: T) -> T {
        if T::COMPONENTS > 1 && self.is_hermitian && is_across {
            entry.conjugate()
        } else {
            entry
        }
    }

    /// An entry of the diagonal, without the imaginary part that rounding leaves where it is real.
    #[inlined]
    pub fn on_diagonal<T: Field>(self, entry: T) -> T {
        if T::COMPONENTS > 1 && self.is_hermitian {
            T::from_real(entry.real())
        } else {
            entry
        }
    }
}

/// Both triangles.
#[derive(Clone, Copy)]
pub(super) struct Lu;

impl<T: Field> FrontKind<T> for Lu {
    const SYMMETRIC: bool = false;

    #[inlined]
    fn kept(self, _: u32) -> [T; 2] {
        [T::ONE, T::ZERO]
    }

    #[inlined]
    fn form(self) -> Form {
        Form {
            is_hermitian: false,
        }
    }
}

/// What is expected of the pivots of order 1 of a symmetric matrix before they are divided by.
pub(super) trait Expectation<T: Field>: Copy {
    /// Whether it is a sign. Then all pivots are of order 1, in the order that was planned.
    const OF_SIGNS: bool;

    /// By what a pivot of the order of elimination is replaced if it has not the sign of that.
    fn expected(self, pivot: u32) -> T;

    /// Takes note that it was. One thread calls it.
    fn note_replaced(self, work: &Work<T>, pivot: u32);
}

/// Nothing: pivots are known to serve, or are searched.
#[derive(Clone, Copy)]
pub(super) struct AnySign;

impl<T: Field> Expectation<T> for AnySign {
    const OF_SIGNS: bool = false;

    #[inlined]
    fn expected(self, _: u32) -> T {
        T::ZERO
    }

    #[inlined]
    fn note_replaced(self, _: &Work<T>, _: u32) {}
}

impl<T: Field> Expectation<T> for ExpectedPivots<T> {
    const OF_SIGNS: bool = true;

    #[inlined]
    fn expected(self, pivot: u32) -> T {
        self.pivots.get(pivot as usize)
    }

    #[inlined]
    fn note_replaced(self, work: &Work<T>, pivot: u32) {
        let count = work.state.atomic(state::NUM_PERTURBED);
        let number = count.fetch_add(1, Ordering::Relaxed, Scope::Device);
        self.replaced.set(number as usize, pivot);
    }
}

/// What a search says of a column; [`Verdict::PARTNER`] is added times the partner's.
pub(super) struct Verdict;

impl Verdict {
    /// No pivot with this column is acceptable.
    pub const UNFIT: u32 = 0;
    /// All that is left of it counts as zero.
    pub const ZERO: u32 = 1;
    /// A pivot of order 1.
    pub const ONE: u32 = 2;
    /// A pivot of order 2.
    pub const TWO: u32 = 3;
    /// It has entries that are not finite.
    pub const NOT_FINITE: u32 = 4;
    /// What the partner's number is multiplied by.
    pub const PARTNER: u32 = 8;

    /// What it says, and the partner.
    #[inlined]
    pub fn split(verdict: u32) -> (u32, u32) {
        (verdict % Self::PARTNER, verdict / Self::PARTNER)
    }
}

/// Lanes of a warp that look at one column together: a power of two of them, beginning with a multiple of it.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub lanes: u32,
}

impl Group {
    /// The lane's number in its group.
    #[inlined]
    fn lane(self) -> u32 {
        thread::lane_id() & (self.lanes - 1)
    }

    /// Whether this holds for all lanes of the group.
    #[inlined]
    fn all(self, holds: bool) -> bool {
        let fails = warp::ballot(warp::FULL_MASK, !holds);
        let own = thread::lane_id() & !(self.lanes - 1);
        let mask = u32::MAX >> (warp::WARP_SIZE - self.lanes);
        fails >> own & mask == 0
    }

    /// The largest that the lanes of the group have.
    #[inlined]
    fn largest<R: Real>(self, value: R) -> R {
        warp::fold(self.lanes, value, |most, other| most.max(other))
    }
}

/// A pivot of order 1 that reaches so much of its column is taken without a look at others: where that of order 2 has the
/// smaller growth (J. R. Bunch and L. Kaufman, "Some stable methods for calculating inertia and solving symmetric linear
/// systems", Math. Comp. 31, 1977).
const ALPHA: f64 = 0.64;

/// E⁻¹ for E with the entries (11), (21), (22), as these entries.
#[inlined]
pub(super) fn inverse_of_two<T: Field>([d11, d21, d22]: [T; 3], form: Form) -> [T; 3] {
    // Scaled, so that no product of two entries overflows.
    let size = d11.magnitude().max(d21.magnitude()).max(d22.magnitude());
    let across = form.counterpart(d21);
    let determinant = form.on_diagonal(d11.over_real(size) * d22 - d21.over_real(size) * across);
    [
        d22.over_real(size).quotient(determinant),
        (-d21).over_real(size).quotient(determinant),
        d11.over_real(size).quotient(determinant),
    ]
}

/// The determinant of a pivot of order 2 that a search takes is at least this times the larger of the products it is the
/// difference of.
const FOUND: f64 = 0.5;

/// Likewise of a known one, which may have been found for other values: four bits of it may be rounding, and what L
/// becomes is looked at all the same.
const KNOWN: f64 = 1.0 / 16.0;

/// Whether the determinant of a block of order 2 is at least so many times the larger of the products it is the difference
/// of.
#[inlined]
fn is_regular<T: Field>([d11, d21, d22]: [T; 3], form: Form, least: f64) -> bool {
    let size = d11.magnitude().max(d21.magnitude()).max(d22.magnitude());
    let across = form.counterpart(d21);
    let (left, right) = (d11.over_real(size) * d22, d21.over_real(size) * across);
    let least = T::Real::from_f64(least) * left.magnitude().max(right.magnitude());
    let determinant = (left - right).magnitude();
    determinant >= least && determinant > T::Real::ZERO
}

impl<T: Field> Work<T> {
    /// Whether a magnitude counts as zero.
    #[inlined]
    pub(super) fn counts_as_zero(self, size: T::Real) -> bool {
        size == T::Real::ZERO || size < self.smallest
    }

    /// What is divided by for a pivot that came so, and whether that is the one that is `expected`: it is if the one that came
    /// has another sign, or is at most the part of it that the threshold says. What is not a number stays.
    #[inlined]
    pub(super) fn with_sign(self, came: T, expected: T) -> (T, bool) {
        let part = expected.magnitude() * self.threshold;
        let is_replaced = if expected.real() < T::Real::ZERO {
            -came.real() <= part
        } else {
            came.real() <= part
        };
        (if is_replaced { expected } else { came }, is_replaced)
    }

    /// What L has for the entry `value` left in the column of a pivot `d` of order 1, whose reciprocal is `inverse`. A pivot
    /// that counts as zero has a column that does so too, or what was seen says that it does not serve.
    #[inlined]
    pub(super) fn multiplier(self, value: T, d: T, inverse: T, seen: &mut Seen<T>) -> T {
        if !self.counts_as_zero(d.magnitude()) {
            return super::work::quotient(value, d, inverse);
        }
        if !self.counts_as_zero(value.magnitude()) {
            seen.max_l = T::Real::ZERO.reciprocal();
        }
        T::ZERO
    }

    /// The inverse of a pivot of order 2; zeros if it has none, in which case what was seen says so.
    #[inlined]
    pub(super) fn inverse(self, block: [T; 3], form: Form, seen: &mut Seen<T>) -> [T; 3] {
        let [d11, d21, d22] = block;
        let size = d11.magnitude().max(d21.magnitude()).max(d22.magnitude());
        if self.counts_as_zero(size) || !is_regular(block, form, KNOWN) {
            seen.max_l = T::Real::ZERO.reciprocal();
            return [T::ZERO; 3];
        }
        inverse_of_two(block, form)
    }

    /// What a search says of column `p` of a front of which the columns `j..k` are candidates and the rows `j..m` are left.
    /// `entry` has both triangles. All lanes of the warp call it, those of a group for one column.
    #[inlined]
    pub(super) fn verdict(
        self,
        group: Group,
        (entry, form): (impl Fn(u32, u32) -> T, Form),
        p: u32,
        (j, k, m): (u32, u32, u32),
    ) -> u32 {
        let size = form.on_diagonal(entry(p, p)).magnitude();
        // The largest of the lane's candidates, and the largest of its other rows.
        let (mut most, mut partner, mut others) = (T::Real::ZERO, p, T::Real::ZERO);
        let mut is_finite = true;
        let mut i = j + group.lane();
        while i < m {
            let value = entry(i, p);
            is_finite = is_finite && value.is_number();
            let size = value.magnitude();
            if i != p {
                if i < k && size > most {
                    others = others.max(most);
                    (most, partner) = (size, i);
                } else {
                    others = others.max(size);
                }
            }
            i += group.lanes;
        }
        let is_finite = group.all(is_finite);
        let beside = group.largest(most.max(others));
        let is_zero = self.counts_as_zero(size.max(beside));
        let may_be_one = !self.counts_as_zero(size) && size >= self.threshold * beside;
        let is_one = may_be_one && size >= T::Real::from_f64(ALPHA) * beside;
        let mut said = if !is_finite {
            Verdict::NOT_FINITE
        } else if is_zero {
            Verdict::ZERO
        } else {
            Verdict::ONE
        };
        // What follows is for pivots of order 2.
        if warp::vote_all(warp::FULL_MASK, !is_finite || is_zero || is_one) {
            return said;
        }
        let of_lane = most;
        let own_partner = partner;
        let mut distance = group.lanes / 2;
        while distance > 0 {
            let other = warp::shuffle_xor(warp::FULL_MASK, most, distance);
            let of_other = warp::shuffle_xor(warp::FULL_MASK, partner, distance);
            // The first of those of the same size.
            if other > most || other == most && of_other < partner {
                (most, partner) = (other, of_other);
            }
            distance /= 2;
        }
        if own_partner != partner {
            others = others.max(of_lane);
        }
        let of_first = group.largest(others);
        let growth = self.growth_of_two(group, (entry, form), (p, partner), (j, m), of_first);
        if is_finite && !is_zero && !is_one {
            let may_be_two = self.threshold * growth <= T::Real::ONE;
            // 0 · ∞ is no growth, and compares as such.
            let bounds_better = growth * size < beside;
            said = if may_be_one && !bounds_better {
                Verdict::ONE
            } else if may_be_two {
                Verdict::TWO + partner * Verdict::PARTNER
            } else {
                Verdict::UNFIT
            };
        }
        said
    }

    /// The bound of the entries of L that a pivot of order 2 of these columns leads to; infinite if it is not one.
    /// `of_first` is the largest magnitude in the first column but for both rows. All lanes of the warp call it.
    #[inlined]
    fn growth_of_two(
        self,
        group: Group,
        (entry, form): (impl Fn(u32, u32) -> T, Form),
        (p, t): (u32, u32),
        (j, m): (u32, u32),
        of_first: T::Real,
    ) -> T::Real {
        let mut of_second = T::Real::ZERO;
        let mut is_finite = true;
        let mut i = j + group.lane();
        while i < m {
            let value = entry(i, t);
            is_finite = is_finite && value.is_number();
            if i != p && i != t {
                of_second = of_second.max(value.magnitude());
            }
            i += group.lanes;
        }
        let is_finite = group.all(is_finite);
        let of_second = group.largest(of_second);
        let (d11, d22) = (form.on_diagonal(entry(p, p)), form.on_diagonal(entry(t, t)));
        let d21 = entry(t, p);
        let size = d11.magnitude().max(d21.magnitude()).max(d22.magnitude());
        if p == t
            || !is_finite
            || self.counts_as_zero(size)
            || !is_regular([d11, d21, d22], form, FOUND)
        {
            return T::Real::ZERO.reciprocal();
        }
        let [e11, e21, e22] = inverse_of_two([d11, d21, d22], form);
        let (e11, e21, e22) = (e11.magnitude(), e21.magnitude(), e22.magnitude());
        (e11 * of_first + e21 * of_second).max(e21 * of_first + e22 * of_second)
    }
}

/// Whether a trial succeeds, by what each lane of a warp has seen in it: whether L is bounded, and whether it is lost. All
/// lanes call it.
#[inlined]
pub(super) fn all_serve<T: Field>(is_bounded: bool, tried: &Seen<T>) -> bool {
    warp::vote_all(warp::FULL_MASK, is_bounded && tried.max_l == T::Real::ZERO)
}

impl<T: Field> SymmetricWork<T> {
    /// D's entries for a pivot, as [`FrontKind::kept`] has them.
    #[inlined]
    pub(super) fn kept(self, pivot: u32) -> [T; 2] {
        let at = 2 * pivot as usize;
        [self.diagonal.get(at), self.diagonal.get(at + 1)]
    }

    #[inlined]
    pub(super) fn form(self) -> Form {
        Form {
            is_hermitian: self.hermitian != 0,
        }
    }

    /// Keeps pivot `pivot` of the order of elimination in D, and takes note of it: D has `d` on the diagonal, and for the
    /// first of a pivot of order 2 `off` below it and `next` in the next place. Returns what D has on the diagonal: zero if
    /// the pivot counts as zero.
    #[inlined]
    pub(super) fn keep(
        self,
        work: &Work<T>,
        (pivot, of_kind): (u32, u32),
        [d, off, next]: [T; 3],
        seen: &mut Seen<T>,
    ) -> T {
        let form = self.form();
        let (d, next) = (form.on_diagonal(d), form.on_diagonal(next));
        let is_first = of_kind == kind::FIRST_OF_TWO;
        let off = if is_first { off } else { T::ZERO };
        let is_zero = of_kind == kind::ONE && work.counts_as_zero(d.magnitude());
        let d = if is_zero { T::ZERO } else { d };
        self.diagonal.set(2 * pivot as usize, d);
        self.diagonal.set(2 * pivot as usize + 1, off);
        seen.entry(d, false);
        seen.entry(off, false);
        if !d.is_number() || !off.is_number() {
            work.note_first(report::FIRST_NOT_FINITE, pivot);
        }
        if of_kind == kind::ONE {
            seen.num_negative += u32::from(d.real() < T::Real::ZERO);
            if is_zero {
                seen.num_zero += 1;
                work.note_first(report::FIRST_ZERO, pivot);
            } else {
                seen.pivot(d.magnitude(), d.magnitude());
            }
            // What is not a number is not positive.
            let is_positive = d.real() > T::Real::ZERO;
            if self.definite != 0 && !is_positive {
                work.note_first(report::FIRST_NEGATIVE, pivot);
            }
        } else if is_first {
            // One that was found for other values may have come apart.
            seen.num_two += u32::from(off != T::ZERO);
            let (determinant, range) = spectrum_of_two([d, off, next], form);
            if determinant.real() < T::Real::ZERO {
                seen.num_negative += 1;
            } else if d.real() < T::Real::ZERO {
                seen.num_negative += 2;
            }
            seen.pivot(range[0], range[1]);
        } else if of_kind == kind::NONE {
            work.fail(pivot, seen);
        }
        d
    }
}

/// Of the pivot of order 2 with these entries (1, 1), (2, 1) and (2, 2): its determinant, divided by its largest magnitude, and the
/// smaller and the larger magnitude of an eigenvalue, of a complex block to a factor of two.
#[inlined]
pub(super) fn spectrum_of_two<T: Field>([d, off, next]: [T; 3], form: Form) -> (T, [T::Real; 2]) {
    let size = d.magnitude().max(off.magnitude()).max(next.magnitude());
    // A sixteenth of one of the products at least, so its sign is right.
    let across = form.counterpart(off);
    let determinant = d.over_real(size) * next - off.over_real(size) * across;
    let half = T::Real::from_f64(0.5);
    let (d, next) = (d.scale(half), next.scale(half));
    let (sum, difference) = (d + next, d - next);
    let x = difference.over_real(size).magnitude();
    let y = off.over_real(size).magnitude();
    let large = x.mul_add(x, y * y).sqrt().mul_add(size, sum.magnitude());
    // The product of the eigenvalues is the determinant.
    let small = determinant.magnitude() * (size / large);
    (determinant, [small, large])
}
