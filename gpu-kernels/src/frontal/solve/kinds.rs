//! The kinds of factors that are solved with, and what each of them uses in which direction.
//!
//! | factors | up | before the way down | down |
//! |---|---|---|---|
//! | L·U | L | | U |
//! | (L·U)ᵀ | Uᵀ | | Lᵀ |
//! | L·D·Lᵀ | L | D⁻¹ | Lᵀ |
//!
//! Where the matrix is Hermitian, Lᴴ·x = y is solved as Lᵀ·x̄ = ȳ: what goes down is conjugated before and behind.
//!
//! L has a unit diagonal and goes with the exchanges of rows, U is divided by and does not: so all that a direction does
//! follows from which of the two it uses.

use luge_kernel::prelude::*;
use luge_kernel::record::InGlobal;

use super::Front;
use super::handover::{take, take_several};
use super::layout::{CONJUGATED, Couplings, Factored, HERMITIAN, SingleIn, factors};
use crate::frontal::symmetric::Form;

/// A direction of a solve, and what it uses of each front: a triangle of the pivots' block, as it is stored or transposed,
/// and the panel beside it, by columns, one a pivot.
#[derive(Clone, Copy)]
pub(super) struct Side {
    /// Whether it is the way up.
    pub is_up: bool,
    /// Whether it uses L, or U.
    pub uses_l: bool,
}

impl Side {
    /// Whether the pivots are divided by: L has ones in their place.
    #[inlined]
    pub fn divides(self) -> bool {
        !self.uses_l
    }

    /// Whether right-hand sides (upwards) or solutions (downwards) are where they were before rows were exchanged.
    #[inlined]
    pub fn exchanges(self) -> bool {
        self.uses_l
    }

    /// Whether the triangle is used transposed: upwards it is a lower one, downwards an upper one.
    #[inlined]
    fn is_transposed(self) -> bool {
        self.uses_l != self.is_up
    }

    /// How far it is from one row of the pivots' block to the next.
    #[inlined]
    pub fn along_row(self, front: Front) -> u32 {
        if self.is_transposed() { front.m() } else { 1 }
    }

    /// How far it is from one column of the pivots' block to the next.
    #[inlined]
    pub fn along_col(self, front: Front) -> u32 {
        if self.is_transposed() { 1 } else { front.m() }
    }

    /// Place of (i, j) of the pivots' block.
    #[inlined]
    pub fn pivot(self, front: Front, i: u32, j: u32) -> u32 {
        i * self.along_row(front) + j * self.along_col(front)
    }

    /// Where the panel begins whose columns are those of L below the pivots, or the rows of U right of them, and how far
    /// they are apart.
    #[inlined]
    pub fn panel(self, front: Front) -> (u32, u32) {
        if self.uses_l {
            (front.k, front.m())
        } else {
            (front.k * front.m(), front.c)
        }
    }
}

/// A kind of factors.
pub(super) trait Kind<T: Field>: Copy {
    /// Whether very large fronts are worked on by strips. Where there are none, the kernel has fewer registers to spill, and a
    /// block works for one chunk of right-hand sides at a time.
    const STRIPS: bool;

    /// What the way up uses, or the way down.
    fn side(self, is_up: bool) -> Side;

    /// Whether the triangle of a direction is solved with.
    fn goes(self, is_up: bool) -> bool;

    /// What goes up for an entry of a right-hand side.
    fn given(self, entry: T::Wide) -> T::Wide;

    /// The entry of a solution for what went down.
    fn found(self, entry: T) -> T;

    /// What goes down for what went up, but for D.
    fn turned(self, entry: T) -> T;

    /// The entries right of the diagonal blocks, if there may be any.
    fn couplings(self) -> Option<Couplings<T>>;

    /// What the unknown of a front of one pivot and nothing else is multiplied with.
    fn inverse_of_single(self, tree: Factored<T>, single: SingleIn<InGlobal>) -> T;

    /// What the way down begins with for a pivot of the order of elimination, if it is `wanted`, else zeros: that is made
    /// of what the way up leaves, which for each pivot begins at its `place` of `eliminated` and is waited for. All lanes of
    /// a warp call it.
    fn take_eliminated<const N: usize>(
        self,
        eliminated: GlobalMut<T::Real>,
        place: impl Fn(u32) -> usize,
        pivot: u32,
        wanted: bool,
    ) -> [T; N];
}

/// L·U, or its transpose.
#[derive(Clone, Copy)]
pub(super) struct General<T: Field, const STRIPS: bool> {
    pub transpose: bool,
    pub couplings: Couplings<T>,
}

impl<T: Field, const STRIPS: bool> Kind<T> for General<T, STRIPS> {
    const STRIPS: bool = STRIPS;

    #[inlined]
    fn side(self, is_up: bool) -> Side {
        Side {
            is_up,
            uses_l: is_up != self.transpose,
        }
    }

    #[inlined]
    fn goes(self, _: bool) -> bool {
        true
    }

    #[inlined]
    fn given(self, entry: T::Wide) -> T::Wide {
        entry
    }

    #[inlined]
    fn found(self, entry: T) -> T {
        entry
    }

    #[inlined]
    fn turned(self, entry: T) -> T {
        entry
    }

    #[inlined]
    fn couplings(self) -> Option<Couplings<T>> {
        Some(self.couplings)
    }

    #[inlined]
    fn inverse_of_single(self, tree: Factored<T>, single: SingleIn<InGlobal>) -> T {
        tree.factors.get(single.slot() as usize).reciprocal()
    }

    #[inlined]
    fn take_eliminated<const N: usize>(
        self,
        eliminated: GlobalMut<T::Real>,
        place: impl Fn(u32) -> usize,
        pivot: u32,
        wanted: bool,
    ) -> [T; N] {
        take(eliminated, place(pivot), wanted)
    }
}

#[inlined]
fn conjugate_if<F: Field>(turns: bool, number: F) -> F {
    if F::COMPONENTS > 1 && turns {
        number.conjugate()
    } else {
        number
    }
}

/// L·D·Lᵀ, or some of these factors.
#[derive(Clone, Copy)]
pub(super) struct Symmetric<T: Field, const STRIPS: bool> {
    /// Which of them: see [`factors`], [`HERMITIAN`] and [`CONJUGATED`].
    pub factors: u32,
    /// Two values for each pivot: its entry of D, and the one below it that couples it to the next one.
    pub diagonal: Global<T>,
}

impl<T: Field, const STRIPS: bool> Symmetric<T, STRIPS> {
    /// Whether D is one of the factors.
    #[inlined]
    fn has_d(self) -> bool {
        self.factors & factors::D != 0
    }

    #[inlined]
    fn form(self) -> Form {
        Form {
            is_hermitian: self.factors & HERMITIAN != 0,
        }
    }

    /// Whether what goes down are conjugates.
    #[inlined]
    fn turns(self) -> bool {
        self.form().is_hermitian && self.factors & factors::TRANSPOSED_L != 0
    }

    /// One over the entry of D for a pivot of order 1; zero for a zero pivot, whose unknown may be anything.
    #[inlined]
    fn inverse_of_one(d: T) -> T {
        if d == T::ZERO {
            T::ZERO
        } else {
            d.reciprocal()
        }
    }

    /// The row of D⁻¹ that belongs to a pivot: what it has for the pivot itself, for the other one of a pivot of order 2,
    /// and the number of that one; the pivot's own, and zero, if there is none.
    #[inlined]
    fn row_of_inverse(self, pivot: u32) -> (T, T, u32) {
        let entry = |pivot: u32| self.diagonal.get(2 * pivot as usize);
        let coupling = |pivot: u32| self.diagonal.get(2 * pivot as usize + 1);
        // All are read at once: a read on a condition would be waited for before the next.
        let last = self.diagonal.len() as u32 / 2 - 1;
        let (before, after) = (pivot.saturating_sub(1), (pivot + 1).min(last));
        let (d, d_before, d_after) = (entry(pivot), entry(before), entry(after));
        let (e_before, e_after) = (coupling(before), coupling(pivot));
        let is_second = pivot > 0 && e_before != T::ZERO;
        let (other, e, d_other) = if is_second {
            (before, e_before, d_before)
        } else {
            (after, e_after, d_after)
        };
        if e == T::ZERO {
            return (Self::inverse_of_one(d), T::ZERO, pivot);
        }
        // In units of the largest entry, so that no product of two overflows.
        let unit = d
            .magnitude()
            .max(e.magnitude())
            .max(d_other.magnitude())
            .reciprocal();
        let form = self.form();
        let across = e.scale(unit) * form.counterpart(e);
        let determinant = form.on_diagonal(d.scale(unit) * d_other - across);
        let inverse = determinant.reciprocal();
        let e = form.counterpart_if(!is_second, e);
        (
            d_other.scale(unit) * inverse,
            -(e.scale(unit) * inverse),
            other,
        )
    }
}

impl<T: Field, const STRIPS: bool> Kind<T> for Symmetric<T, STRIPS> {
    const STRIPS: bool = STRIPS;

    #[inlined]
    fn side(self, is_up: bool) -> Side {
        Side {
            is_up,
            uses_l: true,
        }
    }

    #[inlined]
    fn goes(self, is_up: bool) -> bool {
        let factor = if is_up {
            factors::L
        } else {
            factors::TRANSPOSED_L
        };
        self.factors & factor != 0
    }

    #[inlined]
    fn given(self, entry: T::Wide) -> T::Wide {
        conjugate_if(self.factors & CONJUGATED != 0, entry)
    }

    #[inlined]
    fn found(self, entry: T) -> T {
        conjugate_if(self.turns() != (self.factors & CONJUGATED != 0), entry)
    }

    #[inlined]
    fn turned(self, entry: T) -> T {
        conjugate_if(self.turns(), entry)
    }

    #[inlined]
    fn couplings(self) -> Option<Couplings<T>> {
        None
    }

    #[inlined]
    fn inverse_of_single(self, _: Factored<T>, single: SingleIn<InGlobal>) -> T {
        if self.has_d() {
            Self::inverse_of_one(self.diagonal.get(2 * single.pivot() as usize))
        } else {
            T::ONE
        }
    }

    #[inlined]
    fn take_eliminated<const N: usize>(
        self,
        eliminated: GlobalMut<T::Real>,
        place: impl Fn(u32) -> usize,
        pivot: u32,
        wanted: bool,
    ) -> [T; N] {
        if !self.has_d() {
            let mut values: [T; N] = take(eliminated, place(pivot), wanted);
            let mut r = 0;
            while T::COMPONENTS > 1 && r < N {
                values[r] = self.turned(values[r]);
                r += 1;
            }
            return values;
        }
        let (own, other, of_other) = self.row_of_inverse(if wanted { pivot } else { 0 });
        let is_two = wanted && of_other != pivot;
        let mut values = [[T::ZERO; N]; 2];
        take_several(
            eliminated,
            |u| place(if u == 0 { pivot } else { of_other }),
            |u| if u == 0 { wanted } else { is_two },
            &mut values,
        );
        let mut r = 0;
        while r < N {
            let of_own = own * values[0][r];
            let sum = if is_two {
                other.mul_add(values[1][r], of_own)
            } else {
                of_own
            };
            values[0][r] = self.turned(sum);
            r += 1;
        }
        values[0]
    }
}
