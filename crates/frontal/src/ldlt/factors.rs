//! Reading the factors, and writing D.

#[cfg(feature = "gpu")]
use std::sync::Arc;

use luge_dense::FrontalScalar;

use super::{FrontView, FrontalLdlt};
#[cfg(feature = "gpu")]
use crate::storage::Lower;
#[cfg(feature = "gpu")]
use crate::symbolic::Symbolic;

/// A pivot: a block of D, with its columns of the pattern.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pivot<F> {
    /// A pivot of order 1.
    One {
        /// Its column.
        column: usize,
        /// Its entry of D; zero if the column was accepted as a zero pivot.
        d: F,
    },
    /// A pivot of order 2.
    Two {
        /// Its columns, in their order of elimination.
        columns: [usize; 2],
        /// The block of D: its entries (1, 1), (2, 1) and (2, 2). Entry (1, 2) is the counterpart of (2, 1), its conjugate if the
        /// matrix is Hermitian.
        d: [F; 3],
    },
}

impl<F: FrontalScalar> FrontView<'_, F> {
    /// Entries of D by pivot column: on the diagonal, and beside it in the row of the column before, which is zero unless both
    /// are a pivot of order 2.
    pub(super) fn diagonal(&self, j: usize) -> [F; 2] {
        if let Some(&entries) = self.elsewhere.get(j) {
            return entries;
        }
        let before = if j == 0 {
            F::zero()
        } else {
            self.lp[j * self.m + j - 1]
        };
        [self.lp[j * (self.m + 1)], before]
    }

    /// The entry of D off the diagonal in pivot columns j and j + 1.
    pub(super) fn off_diagonal(&self, j: usize) -> F {
        if j + 1 < self.pivots {
            self.diagonal(j + 1)[1]
        } else {
            F::zero()
        }
    }
}

impl<F: FrontalScalar> FrontalLdlt<F> {
    /// Visits the pivots in elimination order.
    ///
    /// # Panics
    ///
    /// If the last refactorization failed.
    #[track_caller]
    pub fn for_each_pivot(&self, mut visit: impl FnMut(Pivot<F>)) {
        self.check_valid();
        let perm = &self.symbolic.tree.perm;
        for s in 0..self.store.records.len() {
            let f = self.front(s);
            let column = |j: usize| perm[f.cols[j] as usize] as usize;
            let mut j = 0;
            while j < f.pivots {
                let [d, off] = [f.diagonal(j)[0], f.off_diagonal(j)];
                if off == F::zero() {
                    visit(Pivot::One {
                        column: column(j),
                        d,
                    });
                    j += 1;
                } else {
                    visit(Pivot::Two {
                        columns: [column(j), column(j + 1)],
                        d: [d, off, f.diagonal(j + 1)[0]],
                    });
                    j += 2;
                }
            }
        }
    }

    /// Columns of the pattern in elimination order: P maps new to old.
    ///
    /// # Panics
    ///
    /// If the last refactorization failed.
    #[track_caller]
    pub fn elimination_order(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.n());
        self.for_each_pivot(|pivot| match pivot {
            Pivot::One { column, .. } => order.push(column),
            Pivot::Two { columns, .. } => order.extend(columns),
        });
        order
    }

    /// The panels of all fronts of `symbolic`, and the column of each pivot in the order before pivots were searched; `None`
    /// if pivots were delayed, or this is no factorization on that tree.
    #[cfg(feature = "gpu")]
    pub(crate) fn without_delays(&self, symbolic: &Arc<Symbolic<Lower>>) -> Option<(&[F], &[u32])> {
        self.check_valid();
        self.check_here();
        let fronts = self.store.records.iter().zip(self.symbolic.tree.fronts());
        let mut as_planned =
            fronts.map(|(record, front)| [record.k, record.pivots] == [front.pivots; 2]);
        let fits = Arc::ptr_eq(&self.symbolic, symbolic) && as_planned.all(|is_planned| is_planned);
        fits.then(|| (&self.store.values[..], &self.store.cols[..]))
    }

    /// Visits the entries of L with (row of B, pivot column, value): everything below the unit diagonal, explicit zeros
    /// included. Pivot columns count in elimination order. Between the columns of a pivot of order 2, L is zero.
    ///
    /// # Panics
    ///
    /// If the last refactorization failed, or a part of the factors is on other ranks.
    #[track_caller]
    pub fn for_each_l(&self, mut visit: impl FnMut(usize, usize, F)) {
        self.check_valid();
        self.check_here();
        let perm = &self.symbolic.tree.perm;
        let mut first = 0;
        for s in 0..self.store.records.len() {
            let f = self.front(s);
            for j in 0..f.pivots {
                let labels = f.cols.iter().chain(f.below_rows);
                for (i, &row) in labels.enumerate().skip(j + 1) {
                    visit(perm[row as usize] as usize, first + j, f.lp[i + j * f.m]);
                }
            }
            first += f.pivots;
        }
    }

    /// D in elimination order, 2 n entries: entry 2 i is D(i, i), entry 2 i + 1 is D(i + 1, i), zero unless columns i and
    /// i + 1 are a pivot of order 2.
    ///
    /// # Panics
    ///
    /// If the last refactorization failed.
    #[track_caller]
    pub fn d(&self) -> Vec<F> {
        let mut d = Vec::with_capacity(2 * self.n());
        self.for_each_pivot(|pivot| match pivot {
            Pivot::One { d: value, .. } => d.extend([value, F::zero()]),
            Pivot::Two {
                d: [first, off, second],
                ..
            } => d.extend([first, off, second, F::zero()]),
        });
        d
    }

    #[track_caller]
    pub(super) fn check_valid(&self) {
        assert!(self.valid, "the last refactorization failed");
    }
}
