//! The size of |L|·|D|·|Lᵀ|, weighted by rows and columns.

use luge_comm::Collectives;
use luge_dense::FrontalScalar;
use luge_sparse::{CancelFlag, Cancelled, RealScalar, larger};

use super::{FrontView, FrontalLdlt};
use crate::deal::told;
use crate::factorize::Spread;
use crate::sweep::Sweep;

/// Sums that a column of L is added up in, so that they do not wait for each other.
const LANES: usize = 8;

/// Numbers that a small front works with, for which nothing is allocated.
const ON_STACK: usize = 96;

/// Σ_i |l(i)|·w(i).
fn weighted_size<F: FrontalScalar>(column: &[F], weights: &[f64]) -> f64 {
    let of = |(entry, weight): (&F, &f64)| entry.magnitude().to_f64() * weight;
    let mut sums = [0.0; LANES];
    let (whole, rest) = column.as_chunks::<LANES>();
    for (entries, weights) in whole.iter().zip(weights.chunks_exact(LANES)) {
        for (sum, pair) in sums.iter_mut().zip(entries.iter().zip(weights)) {
            *sum += of(pair);
        }
    }
    let rest = rest.iter().zip(&weights[column.len() - rest.len()..]);
    sums.iter().sum::<f64>() + rest.map(of).sum::<f64>()
}

impl<F: FrontalScalar> FrontView<'_, F> {
    /// Adds what the front has to the weighted sums over columns of |L|·|D|·|Lᵀ|, by its rows, for their weights: these sums are
    /// |L|·(|D|·(|Lᵀ|·w)), of which the front has some columns of L. `sizes` has room for one number for each pivot.
    fn add_weighted_products(&self, weights: &[f64], sizes: &mut [f64], sums: &mut [f64]) {
        let below = |j: usize| &self.lp[j * self.m + j + 1..(j + 1) * self.m];
        for (j, size) in sizes.iter_mut().enumerate() {
            *size = weights[j] + weighted_size(below(j), &weights[j + 1..]);
        }
        let mut j = 0;
        while j < self.pivots {
            let d = self.diagonal(j)[0].magnitude().to_f64();
            let off = self.off_diagonal(j);
            if off == F::zero() {
                sizes[j] *= d;
                j += 1;
                continue;
            }
            let off = off.magnitude().to_f64();
            let second = self.diagonal(j + 1)[0].magnitude().to_f64();
            let [one, other] = [sizes[j], sizes[j + 1]];
            sizes[j] = d * one + off * other;
            sizes[j + 1] = off * one + second * other;
            j += 2;
        }
        for (j, size) in sizes.iter().enumerate() {
            sums[j] += size;
            for (sum, entry) in sums[j + 1..].iter_mut().zip(below(j)) {
                *sum += entry.magnitude().to_f64() * size;
            }
        }
    }
}

impl<F: FrontalScalar> FrontalLdlt<F> {
    /// max over columns k of w(k)·Σ_i w(i)·(|L|·|D|·|Lᵀ|)(i,k), with weights for the rows and columns of B. NaN if a term is.
    ///
    /// One pass through the factors, front by front. With `threads > 1` the threads of the current rayon pool share it; the result
    /// does not depend on it.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    ///
    /// # Panics
    ///
    /// If there is not one weight for each row, or the last refactorization failed.
    #[track_caller]
    pub fn product_norm(
        &self,
        weights: &[f64],
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<f64, Cancelled> {
        let n = self.n();
        self.check_valid();
        assert_eq!(weights.len(), n, "one weight for each row");
        let perm = &self.symbolic.tree.perm;
        let weight = |label: u32| weights[perm[label as usize] as usize];
        // By label.
        let mut products = vec![0.0f64; n];
        let work = |s: usize, sums: &mut [f64], _: bool| {
            cancel.check()?;
            let f = self.front(s);
            let (mut on_stack, mut on_heap) = ([0.0; ON_STACK], Vec::new());
            let numbers = f.m + f.pivots;
            let numbers = if numbers <= ON_STACK {
                &mut on_stack[..numbers]
            } else {
                on_heap.resize(numbers, 0.0);
                &mut on_heap[..]
            };
            let (weights, sizes) = numbers.split_at_mut(f.m);
            let labels = f.cols.iter().chain(f.below_rows);
            for (own, &label) in weights.iter_mut().zip(labels) {
                *own = weight(label);
            }
            f.add_weighted_products(weights, sizes, sums);
            Ok(())
        };
        let labels = |s: usize| self.store.labels(&self.symbolic.tree, s).1;
        let spread = self.spread.as_ref();
        let threads = if spread.is_some() { 1 } else { threads };
        let sweep = Sweep::new(&self.symbolic, &self.store, spread, [1, threads]);
        sweep.forward(&mut products, labels, work)?;
        let mut norm = 0.0;
        for s in (0..self.store.records.len()).filter(|&s| self.is_here(s)) {
            let f = self.front(s);
            for &label in &f.cols[..f.pivots] {
                norm = larger(norm, products[label as usize] * weight(label));
            }
        }
        if let Some(Spread { ranks, .. }) = spread {
            let norm = std::slice::from_mut(&mut norm);
            told(ranks.team.all_reduce(norm, larger))?;
        }
        Ok(norm)
    }
}
