//! The search for the row of a pivot of LU among those of its column.
//!
//! A pivot is acceptable if no entry of its column of L gets larger than a bound that the search is told (I. S. Duff and
//! J. K. Reid, "The multifrontal solution of unsymmetric sets of linear equations", SIAM J. Sci. Stat. Comput. 5, 1984).

use luge_kernel::prelude::*;

use super::plan::Work;

/// The row that a search takes as that of a pivot.
#[derive(Clone, Copy)]
pub(super) struct RowChoice {
    pub row: u32,
    /// Whether L is bounded with it.
    pub is_acceptable: bool,
}

impl<T: Field> Work<T> {
    /// Whether a search of LU leaves out columns for which it has no acceptable pivot.
    #[inlined]
    pub(super) fn leaves_out(self) -> bool {
        self.max_l.is_number()
    }

    /// Row of the pivot of column `j`, whose entries are told by `column`, among the candidates `j..k`, the rows `j..m` being
    /// left: that of the largest entry, unless the diagonal is large enough. All lanes of a warp call it, and have the same
    /// answer.
    #[inlined]
    pub(super) fn pivot_row(
        self,
        column: impl Fn(u32) -> T,
        (j, k, m): (u32, u32, u32),
    ) -> RowChoice {
        let first = j + thread::lane_id();
        let (mut row, mut most) = (j, T::Real::ZERO);
        let mut i = first;
        while i < k {
            let size = column(i).magnitude();
            if size > most {
                (row, most) = (i, size);
            }
            i += warp::WARP_SIZE;
        }
        let mut distance = warp::WARP_SIZE / 2;
        while distance > 0 {
            let other = warp::shuffle_xor(warp::FULL_MASK, most, distance);
            let other_row = warp::shuffle_xor(warp::FULL_MASK, row, distance);
            // The first of those of the same size.
            if other > most || (other == most && other_row < row) {
                (row, most) = (other_row, other);
            }
            distance /= 2;
        }
        let of_diagonal = column(j).magnitude();
        let prefers_diagonal = of_diagonal >= self.threshold * most;
        if !self.leaves_out() {
            return RowChoice {
                row: if prefers_diagonal { j } else { row },
                is_acceptable: true,
            };
        }
        let (mut largest, mut is_finite) = (T::Real::ZERO, true);
        let mut i = first;
        while i < m {
            let value = column(i);
            is_finite = is_finite && value.is_number();
            largest = largest.max(value.magnitude());
            i += warp::WARP_SIZE;
        }
        // What is not finite is noted when it is a pivot, and goes nowhere before.
        let is_finite = warp::vote_all(warp::FULL_MASK, is_finite);
        let largest = warp::fold(warp::WARP_SIZE, largest, |most, other| most.max(other));
        if prefers_diagonal && largest <= self.max_l * of_diagonal {
            (row, most) = (j, of_diagonal);
        }
        RowChoice {
            row,
            is_acceptable: !is_finite || most > T::Real::ZERO && largest <= self.max_l * most,
        }
    }

    /// What a pivot of a column of L is multiplied with: nearly the reciprocal of the one on the diagonal, or zero if a SEARCH has
    /// left the column out.
    #[inlined]
    pub(super) fn inverse_of<const SEARCH: bool>(self, on_diagonal: T) -> T {
        if SEARCH && on_diagonal == T::ZERO && self.leaves_out() {
            T::ZERO
        } else {
            on_diagonal.reciprocal()
        }
    }
}
