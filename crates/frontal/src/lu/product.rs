//! The size of |L|·|U|, weighted by rows and columns.

use luge_sparse::{CancelFlag, Cancelled, RealScalar, larger};

use super::FrontalLu;
use crate::kernels::FrontalScalar;

/// Terms of a sum that are added side by side.
const LANES: usize = 8;

/// Entries between two looks at the cancel flag.
const STRIDE: usize = 1 << 16;

impl<F: FrontalScalar> FrontalLu<F> {
    /// ‖ |L|·|U|·e_k ‖₁ by column.
    pub fn products(&self) -> &[F] {
        &self.products
    }

    /// For each column, at least the largest weight of a row in which |L|·|U| has an entry.
    ///
    /// # Panics
    ///
    /// If there is not one weight for each row.
    pub fn largest_weights(&self, rows: &[f64]) -> Vec<f64> {
        let perm = self.symbolic.tree.perm();
        let mut largest = vec![0.0f64; self.n()];
        for s in 0..self.store.records.len() {
            let f = self.front(s);
            let weights = f.rows.iter().chain(f.below_rows);
            let weights = weights.map(|&label| rows[perm[label as usize] as usize]);
            let of_front = weights.fold(0.0, f64::max);
            for &label in f.cols.iter().chain(f.below_rows) {
                let largest = &mut largest[perm[label as usize] as usize];
                *largest = largest.max(of_front);
            }
        }
        largest
    }

    /// max over columns k of cols(k)·Σ_i rows(i)·(|L|·|U|)(i,k), with weights for the rows and columns of B. NaN if a
    /// term is.
    ///
    /// One pass through the factors, column by column of L and row by row of U.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    ///
    /// # Panics
    ///
    /// If there is not one weight for each row and column.
    #[track_caller]
    pub fn product_norm(
        &self,
        rows: &[f64],
        cols: &[f64],
        cancel: &CancelFlag,
    ) -> Result<f64, Cancelled> {
        let n = self.n();
        assert_eq!(
            [rows.len(), cols.len()],
            [n, n],
            "one weight for each row and column"
        );
        let perm = self.symbolic.tree.perm();
        // By elimination order: Σ_i rows[i]·(|L|·|U|)(i,k) of the rows of U so far.
        let mut products = vec![0.0; n];
        // Of one front: the weights of its rows, Σ_i rows[i]·|L(i,j)| by pivot, and what it adds below.
        let (mut weights, mut sums, mut below) = (Vec::new(), Vec::new(), Vec::new());
        let mut entries = STRIDE;
        for s in 0..self.store.records.len() {
            let f = self.front(s);
            let labels = f.rows.iter().chain(f.below_rows);
            weights.clear();
            weights.extend(labels.map(|&label| rows[perm[label as usize] as usize]));
            sums.clear();
            below.clear();
            below.resize(f.below, 0.0);
            for j in 0..f.pivots {
                entries += f.m + f.below;
                if entries >= STRIDE {
                    cancel.check()?;
                    entries = 0;
                }
                let column = &f.lp[j * f.m..(j + 1) * f.m];
                let sum = weights[j] + weighted_sum(&weights[j + 1..], &column[j + 1..]);
                sums.push(sum);
                let row = &f.ut[j * f.below..(j + 1) * f.below];
                for (product, value) in below.iter_mut().zip(row) {
                    *product += sum * value.abs().to_f64();
                }
            }
            for (q, &col) in f.cols.iter().enumerate() {
                let above = &f.lp[q * f.m..][..f.pivots.min(q + 1)];
                products[col as usize] += weighted_sum(&sums[..above.len()], above);
            }
            for (&col, sum) in f.below_rows.iter().zip(&below) {
                products[col as usize] += sum;
            }
        }
        let weights = perm.iter().map(|&col| cols[col as usize]);
        let weighted = products.iter().zip(weights);
        Ok(weighted.fold(0.0, |norm, (sum, weight)| larger(norm, sum * weight)))
    }
}

/// Σ_i weights(i)·|values[i]|.
fn weighted_sum<F: RealScalar>(weights: &[f64], values: &[F]) -> f64 {
    let (weights, last_weights) = weights.as_chunks::<LANES>();
    let (values, last_values) = values.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (weights, values) in weights.iter().zip(values) {
        for ((sum, weight), value) in sums.iter_mut().zip(weights).zip(values) {
            *sum += weight * value.abs().to_f64();
        }
    }
    let last = last_weights.iter().zip(last_values);
    sums.iter().sum::<f64>() + last.map(|(w, value)| w * value.abs().to_f64()).sum::<f64>()
}
