//! A dense matrix for small oracles.

use std::ops::{Index, IndexMut};

use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{CompressedPattern, Form, RealScalar, Scalar};

/// A dense matrix, row by row. `a[(i, j)]` is the entry of row `i` and column `j`.
#[derive(Debug, Clone, PartialEq)]
pub struct Dense<T> {
    nrows: usize,
    ncols: usize,
    data: Vec<T>,
}

impl<T: Scalar> Dense<T> {
    /// An `nrows` × `ncols` matrix of zeros.
    pub fn zeros(nrows: usize, ncols: usize) -> Self {
        Self {
            nrows,
            ncols,
            data: vec![T::zero(); nrows * ncols],
        }
    }

    /// The identity of order `n`.
    pub fn identity(n: usize) -> Self {
        let mut identity = Self::zeros(n, n);
        for i in 0..n {
            identity[(i, i)] = T::one();
        }
        identity
    }

    /// The matrix with entry `f(i, j)` at row `i` and column `j`.
    pub fn from_fn(nrows: usize, ncols: usize, f: impl Fn(usize, usize) -> T) -> Self {
        let mut a = Self::zeros(nrows, ncols);
        for i in 0..nrows {
            for j in 0..ncols {
                a[(i, j)] = f(i, j);
            }
        }
        a
    }

    /// Spreads a CSR matrix out.
    ///
    /// # Panics
    ///
    /// If `values` is not as long as the pattern has entries.
    #[track_caller]
    pub fn from_csr(rows: &CompressedPattern, values: &[T]) -> Self {
        assert_eq!(rows.nnz(), values.len(), "one value per entry");
        let mut a = Self::zeros(rows.major_dim(), rows.minor_dim());
        for i in 0..rows.major_dim() {
            for p in rows.range(i) {
                a[(i, rows.idx()[p] as usize)] = values[p];
            }
        }
        a
    }

    /// Number of rows.
    pub fn nrows(&self) -> usize {
        self.nrows
    }

    /// Number of columns.
    pub fn ncols(&self) -> usize {
        self.ncols
    }

    /// The transpose.
    pub fn transpose(&self) -> Self {
        Self::from_fn(self.ncols, self.nrows, |i, j| self[(j, i)])
    }

    /// The transpose of counterparts: A is of this form if it is equal to that.
    pub fn reflected(&self, form: Form) -> Self {
        Self::from_fn(self.ncols, self.nrows, |i, j| {
            form.counterpart(self[(j, i)])
        })
    }

    /// The product `self · other`.
    ///
    /// # Panics
    ///
    /// If the inner dimensions differ.
    #[track_caller]
    pub fn mul(&self, other: &Self) -> Self {
        assert_eq!(self.ncols, other.nrows, "inner dimensions differ");
        Self::from_fn(self.nrows, other.ncols, |i, j| {
            (0..self.ncols).map(|k| self[(i, k)] * other[(k, j)]).sum()
        })
    }

    /// The product `self · x`.
    ///
    /// # Panics
    ///
    /// If `x` is not as long as there are columns.
    #[track_caller]
    pub fn mul_vec(&self, x: &[T]) -> Vec<T> {
        assert_eq!(self.ncols, x.len(), "one entry of x per column");
        (0..self.nrows)
            .map(|i| (0..self.ncols).map(|j| self[(i, j)] * x[j]).sum())
            .collect()
    }

    /// The largest absolute value of an entry; zero for a matrix without entries.
    pub fn max_abs(&self) -> T::Real {
        let magnitudes = self.data.iter().map(|v| v.magnitude());
        magnitudes.fold(T::Real::zero(), Float::max)
    }

    /// ‖·‖∞, the largest sum of absolute values over a row.
    pub fn norm_inf(&self) -> f64 {
        (0..self.nrows)
            .map(|i| {
                (0..self.ncols)
                    .map(|j| self[(i, j)].magnitude().to_f64())
                    .sum()
            })
            .fold(0.0, f64::max)
    }

    /// Exchanges two rows.
    pub fn swap_rows(&mut self, r: usize, s: usize) {
        for j in 0..self.ncols {
            self.data.swap(r * self.ncols + j, s * self.ncols + j);
        }
    }

    /// Exchanges two columns.
    pub fn swap_cols(&mut self, r: usize, s: usize) {
        for i in 0..self.nrows {
            self.data.swap(i * self.ncols + r, i * self.ncols + s);
        }
    }
}

impl<T> Index<(usize, usize)> for Dense<T> {
    type Output = T;

    #[track_caller]
    fn index(&self, (i, j): (usize, usize)) -> &T {
        assert!(j < self.ncols, "column {j} of {}", self.ncols);
        &self.data[i * self.ncols + j]
    }
}

impl<T> IndexMut<(usize, usize)> for Dense<T> {
    #[track_caller]
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut T {
        assert!(j < self.ncols, "column {j} of {}", self.ncols);
        &mut self.data[i * self.ncols + j]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_norms_of_a_small_matrix() {
        let a = Dense::from_fn(2, 3, |i, j| (i * 3 + j) as f64 - 2.0); // -2 -1 0 / 1 2 3
        assert_eq!(a.mul_vec(&[1.0, 1.0, 1.0]), [-3.0, 6.0]);
        assert_eq!(a.norm_inf(), 6.0);
        assert_eq!(a.max_abs(), 3.0);
        let product = a.mul(&a.transpose());
        assert_eq!(
            product,
            Dense::from_fn(2, 2, |i, j| [[5.0, -4.0], [-4.0, 14.0]][i][j])
        );
        assert_eq!(Dense::identity(2).mul(&a), a);
    }

    #[test]
    fn swaps_move_whole_lines() {
        let mut a = Dense::from_fn(2, 2, |i, j| (2 * i + j) as f64);
        a.swap_rows(0, 1);
        assert_eq!((a[(0, 0)], a[(0, 1)]), (2.0, 3.0));
        a.swap_cols(0, 1);
        assert_eq!((a[(0, 0)], a[(0, 1)]), (3.0, 2.0));
    }

    #[test]
    fn csr_entries_land_in_their_place() {
        let rows = CompressedPattern::new(3, vec![0, 1, 1, 3], vec![2, 0, 1]).unwrap();
        let a = Dense::from_csr(&rows, &[5.0, 6.0, 7.0]);
        assert_eq!(a[(0, 2)], 5.0);
        assert_eq!(a[(2, 0)], 6.0);
        assert_eq!(a[(2, 1)], 7.0);
        assert_eq!(a[(1, 1)], 0.0);
    }
}
