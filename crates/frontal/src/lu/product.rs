//! The size of |L|·|U|, weighted by rows and columns.

use luge_comm::Collectives;
use luge_dense::{CheckFront, CheckPart, FrontalScalar};
use luge_sparse::{CancelFlag, Cancelled, RealScalar, larger};

use super::FrontalLu;
use crate::deal::told;
use crate::factorize::Spread;

impl<F: FrontalScalar> FrontalLu<F> {
    /// ‖ |L|·|U|·e_k ‖₁ by column.
    pub fn products(&self) -> &[F::Real] {
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
    /// One pass through the factors, front by front, in their type. With `threads > 1` the threads of the current rayon pool
    /// share it; the result does not depend on it.
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
        threads: usize,
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
        let mut products = vec![0.0f64; n];
        let work = |s: usize, sums: &mut [f64], _: bool| {
            cancel.check()?;
            let f = self.front(s);
            let labels = f.rows.iter().chain(f.below_rows);
            let weights = labels.map(|&label| {
                let weight = F::Real::from_f64(rows[perm[label as usize] as usize]);
                F::from_real(weight)
            });
            let weights: Vec<F> = weights.collect();
            // Of the pivots Σ_i rows[i]·|L(i,j)|, and what the front adds to its columns.
            let (mut pivots, mut added) = (vec![F::zero(); f.k], vec![F::zero(); f.m]);
            // SAFETY: the panels are those of a front; there are m weights and sums, and room for k pivots.
            unsafe {
                (self.kernels.weigh_front)(&CheckFront {
                    lp: f.lp.as_ptr(),
                    m: f.m,
                    k: f.k,
                    ut: f.ut.as_ptr(),
                    pivots: f.pivots,
                    w: weights.as_ptr(),
                    products: std::ptr::null_mut(),
                    check: added.as_mut_ptr(),
                    s: std::ptr::null_mut(),
                    t: pivots.as_mut_ptr(),
                    part: CheckPart::All,
                });
            }
            for (sum, added) in sums.iter_mut().zip(&added) {
                *sum += added.magnitude().to_f64();
            }
            Ok(())
        };
        let sweep = self.sweep(1, threads);
        sweep.forward(&mut products, |s| self.col_labels(s), work)?;
        let mut norm = 0.0;
        for s in (0..self.store.records.len()).filter(|&s| self.is_here(s)) {
            let f = self.front(s);
            for &col in &f.cols[..f.pivots] {
                let weight = cols[perm[col as usize] as usize];
                norm = larger(norm, products[col as usize] * weight);
            }
        }
        if let Some(Spread { ranks, .. }) = &self.spread {
            told(
                ranks
                    .team
                    .all_reduce(std::slice::from_mut(&mut norm), larger),
            )?;
        }
        Ok(norm)
    }
}
