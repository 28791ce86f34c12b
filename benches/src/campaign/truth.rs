//! What is true of a matrix, found without the solver.

use std::cell::OnceCell;

use luge::RealScalar;
use luge_reference::matching::structural_rank;
use luge_sparse::CompressedPattern;
use luge_testkit::exact::{Wide, WideMatrix};
use luge_testkit::generators::hostile::Kind;
use nalgebra::DMatrix;
use sprs::CsMat;

/// Order up to which the condition is computed with double-double numbers.
const WIDE_ORDER: usize = 64;

/// A matrix of the campaign, and what is known of it.
pub struct Truth<T> {
    /// The matrix, by rows.
    pub matrix: CsMat<T>,
    /// What its values are like; singular by construction only if rounding to `T` left it so.
    pub kind: Kind,
    exact: WideMatrix,
    optimal_rcond: OnceCell<Option<f64>>,
    singular_ratios: OnceCell<[f64; 2]>,
}

impl<T: RealScalar> Truth<T> {
    /// Of a matrix by rows whose values are rounded to `T`.
    pub fn new(given: &CsMat<f64>, kind: Kind) -> Self {
        let matrix: CsMat<T> = given.map(|&v| {
            let value = T::from_f64(v);
            if value.is_finite() {
                value
            } else {
                T::max_value().copysign(value)
            }
        });
        let is_exact = matrix
            .data()
            .iter()
            .zip(given.data())
            .all(|(value, &given)| RealScalar::to_f64(*value) == given);
        Self {
            exact: WideMatrix::new(&matrix),
            matrix,
            kind: Kind {
                is_singular: kind.is_singular && is_exact,
                ..kind
            },
            optimal_rcond: OnceCell::new(),
            singular_ratios: OnceCell::new(),
        }
    }

    /// Order.
    pub fn n(&self) -> usize {
        self.exact.n()
    }

    /// ε of the values.
    pub fn epsilon(&self) -> f64 {
        T::epsilon().to_f64()
    }

    /// Normwise backward error of a solution; infinite if that is not finite.
    pub fn backward_error(&self, x: &[f64], b: &[T], transpose: bool) -> f64 {
        self.exact.backward_error(x, &T::in_f64(b), transpose)
    }

    /// A·x or Aᵀ·x rounded to `T`; `None` where that overflows.
    pub fn times(&self, x: &[f64], transpose: bool) -> Option<Vec<T>> {
        let x: Vec<Wide> = x.iter().map(|&x| Wide::new(x)).collect();
        let product = self.exact.times(&x, transpose).into_iter();
        let product: Vec<T> = product.map(|v| T::from_f64(v.to_f64())).collect();
        product.iter().all(|v| v.is_finite()).then_some(product)
    }

    /// The reciprocal condition number with the best scaling there is; `None` if that cannot be told.
    pub fn optimal_rcond(&self) -> Option<f64> {
        *self.optimal_rcond.get_or_init(|| {
            (self.n() <= WIDE_ORDER)
                .then(|| self.exact.optimal_rcond())
                .flatten()
        })
    }

    /// By how much its entries have to change at least, each in its own size, to make it singular: never less than that.
    /// `None` for a matrix of too large an order.
    pub fn distance_to_singular(&self) -> Option<f64> {
        (self.n() <= WIDE_ORDER).then(|| self.exact.distance_to_singular())
    }

    /// The smallest by the largest singular value after equilibration: without averages, and with the better of both.
    pub fn singular_ratios(&self) -> [f64; 2] {
        *self.singular_ratios.get_or_init(|| {
            let plain = singular_ratio(&self.exact.equilibrated(false));
            [
                plain,
                plain.max(singular_ratio(&self.exact.equilibrated(true))),
            ]
        })
    }

    /// As the better of [`singular_ratios`](Self::singular_ratios), with scale factors that are normal `f64`.
    pub fn singular_ratio_by_doubles(&self) -> f64 {
        let ratio = |averaged| singular_ratio(&self.exact.equilibrated_by_doubles(averaged));
        ratio(false).max(ratio(true))
    }

    /// The largest entry of the solution over the largest number of the type: of the exact one, and of those that a solver may
    /// find that is stable in the norm of an equilibrated matrix, if every entry of that may differ by `epsilon`, and every
    /// entry of b by that in its own size. `None` if that cannot be told.
    pub fn overflow(&self, b: &[T], transpose: bool, epsilon: f64) -> Option<[f64; 2]> {
        if self.n() > WIDE_ORDER {
            return None;
        }
        let b = b
            .iter()
            .map(|b| Wide::new(RealScalar::to_f64(*b)))
            .collect::<Vec<_>>();
        let x = self.exact.solve(&b, transpose)?;
        let epsilon = Wide::new(epsilon);
        let mut largest = [Wide::ZERO; 2];
        for averaged in [false, true] {
            let moves = self.exact.sensitivity(&x, &b, transpose, averaged)?;
            for (x, moves) in x.iter().zip(moves) {
                largest[0] = largest[0].max(x.abs());
                largest[1] = largest[1].max(x.abs() + epsilon * moves);
            }
        }
        let most = Wide::new(T::max_value().to_f64());
        Some(largest.map(|largest| (largest / most).to_f64()))
    }

    /// The size of a maximum matching of the stored entries, or of those that are not zero.
    pub fn matching(&self, nonzero: bool) -> usize {
        let mut ptr = vec![0];
        let mut idx = Vec::new();
        for row in self.matrix.outer_iterator() {
            let entries = row.iter().filter(|(_, v)| !nonzero || !v.is_zero());
            idx.extend(entries.map(|(j, _)| j as u32));
            ptr.push(idx.len() as u64);
        }
        let pattern = CompressedPattern::new(self.n(), ptr, idx);
        structural_rank(&pattern.unwrap_or_else(|e| unreachable!("rows of a matrix: {e}")))
    }
}

fn singular_ratio(a: &WideMatrix) -> f64 {
    let n = a.n();
    let dense = a.to_dense();
    let dense = DMatrix::from_fn(n, n, |i, j| dense[i * n + j].to_f64());
    // More sweeps than it ever takes.
    let Some(svd) = dense.try_svd_unordered(false, false, f64::EPSILON, 100 * n + 1000) else {
        return f64::NAN;
    };
    let values = svd.singular_values;
    if n > 0 && values.max() > 0.0 {
        values.min() / values.max()
    } else {
        0.0
    }
}
