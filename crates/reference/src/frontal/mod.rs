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

use luge_sparse::RealScalar;

pub use rounded::Rounded;

use crate::dense::Dense;

/// A square matrix with a bound of the rounding error of each entry: a front, or a contribution block.
#[derive(Debug, Clone, PartialEq)]
pub struct Front<T> {
    values: Dense<T>,
    errors: Dense<f64>,
}

impl<T: RealScalar> Front<T> {
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
    pub fn set(&mut self, i: usize, j: usize, entry: Rounded<T>) {
        self.values[(i, j)] = entry.value;
        self.errors[(i, j)] = entry.error;
    }

    /// Extend-add: adds the contribution blocks of children, each with the position here of each of its rows and columns.
    /// The bounds hold for any order of the children.
    ///
    /// # Panics
    ///
    /// If there are not as many positions as rows of a block, or one leads out of the front.
    #[track_caller]
    pub fn extend_add(&mut self, children: &[(Self, Vec<usize>)]) {
        let m = self.order();
        let mut terms: Vec<Vec<Rounded<T>>> = vec![Vec::new(); m * m];
        for (block, positions) in children {
            assert_eq!(block.order(), positions.len(), "a position per row");
            for (i, &row) in positions.iter().enumerate() {
                for (j, &column) in positions.iter().enumerate() {
                    assert!(row < m && column < m, "positions within the front");
                    terms[row * m + column].push(block.get(i, j));
                }
            }
        }
        for i in 0..m {
            for j in 0..m {
                let sum = self.get(i, j).plus_all(&terms[i * m + j]);
                self.set(i, j, sum);
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
        front.set(2, 0, Rounded::exact(0.5));
        front.extend_add(&[(block(1.0), vec![0, 2]), (block(10.0), vec![1, 2])]);
        let expected = [[1.0, 0.0, 2.0], [0.0, 10.0, 11.0], [3.5, 12.0, 17.0]];
        assert_eq!(front.values(), &Dense::from_fn(3, 3, |i, j| expected[i][j]));
        assert_eq!(front.get(0, 2).error, 0.0);
        assert!(front.get(2, 0).error > 0.0);
    }
}
