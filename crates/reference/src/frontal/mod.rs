//! Dense fronts of the multifrontal method: assembly, elimination of their pivots, solves.
//!
//! A front of order m has k fully summed rows and columns, from which pivots are taken, and m − k rows and columns below
//! and right of them. Eliminating the pivots leaves a Schur complement there, the contribution block, which is added
//! to the front of the parent (I. S. Duff and J. K. Reid, "The multifrontal solution of indefinite sparse symmetric
//! linear equations", ACM TOMS 9, 1983; "The multifrontal solution of unsymmetric sets of linear equations", SIAM J.
//! Sci. Stat. Comput. 5, 1984).
//!
//! Every number of an LU front comes with a bound of its rounding error ([`Rounded`]), so that what others compute by
//! the same operations can be compared with it.

pub mod ldlt;
pub mod lu;
mod rounded;
pub mod solve;

use luge_sparse::Scalar;

pub use rounded::Rounded;

use crate::dense::Dense;

/// A square matrix with a bound of the rounding error of each entry: a front, or a contribution block.
#[derive(Debug, Clone, PartialEq)]
pub struct Front<T> {
    values: Dense<T>,
    errors: Dense<f64>,
}

impl<T: Scalar> Front<T> {
    /// A front of zeros.
    pub fn zeros(order: usize) -> Self {
        Self::exact(Dense::zeros(order, order))
    }

    /// A front with these entries, free of error.
    ///
    /// # Panics
    ///
    /// If `values` is not square.
    #[track_caller]
    pub fn exact(values: Dense<T>) -> Self {
        assert_eq!(values.nrows(), values.ncols(), "a front is square");
        let errors = Dense::zeros(values.nrows(), values.ncols());
        Self { values, errors }
    }

    /// Number of rows, and of columns.
    pub fn order(&self) -> usize {
        self.values.nrows()
    }

    /// The entries without their bounds.
    pub fn values(&self) -> &Dense<T> {
        &self.values
    }

    /// Entry (i, j).
    #[track_caller]
    pub fn get(&self, i: usize, j: usize) -> Rounded<T> {
        Rounded {
            value: self.values[(i, j)],
            error: self.errors[(i, j)],
        }
    }

    /// Sets entry (i, j).
    #[track_caller]
    fn set(&mut self, i: usize, j: usize, entry: Rounded<T>) {
        self.values[(i, j)] = entry.value;
        self.errors[(i, j)] = entry.error;
    }

    /// Adds a number to entry (i, j).
    #[track_caller]
    pub fn add(&mut self, i: usize, j: usize, entry: Rounded<T>) {
        self.set(i, j, self.get(i, j).plus(entry));
    }

    /// Adds the contribution block of a child, whose row and column `i` are row and column `positions[i]` here.
    ///
    /// # Panics
    ///
    /// If `positions` is not as long as the block has rows, or leads out of the front.
    #[track_caller]
    pub fn extend_add(&mut self, contribution: &Self, positions: &[usize]) {
        assert_eq!(contribution.order(), positions.len(), "a position per row");
        for (i, &row) in positions.iter().enumerate() {
            for (j, &column) in positions.iter().enumerate() {
                self.add(row, column, contribution.get(i, j));
            }
        }
    }

    fn swap_rows(&mut self, r: usize, s: usize) {
        self.values.swap_rows(r, s);
        self.errors.swap_rows(r, s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contributions_add_up_where_their_positions_say() {
        let block =
            |first: f64| Front::exact(Dense::from_fn(2, 2, |i, j| first + (2 * i + j) as f64));
        let mut front = Front::zeros(3);
        front.add(2, 0, Rounded::exact(0.5));
        front.extend_add(&block(1.0), &[0, 2]);
        front.extend_add(&block(10.0), &[1, 2]);
        let expected = [[1.0, 0.0, 2.0], [0.0, 10.0, 11.0], [3.5, 12.0, 17.0]];
        assert_eq!(front.values(), &Dense::from_fn(3, 3, |i, j| expected[i][j]));
        assert_eq!(front.get(0, 2).error, 0.0);
        assert!(front.get(2, 0).error > 0.0);
    }
}
