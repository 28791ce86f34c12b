//! What a factorization on the CPU measured of itself while it ran.

/// How far the factors L·U of B can be trusted, without a solve.
///
/// All of it is found while the columns are at hand, at about one multiplication and addition per
/// entry of L and U: the growth bounds the error of the factorization and of every solve with it
/// (Higham, *Accuracy and Stability of Numerical Algorithms*, theorems 9.3 and 9.4), the checksum
/// measures the error that is there (Huang and Abraham 1984).
///
/// # Growth
///
/// *Growth* is one thing in all of Luge: how much larger |L|·|U| is than B. Where columns are summed up it is measured for
/// each, in the 1-norm ([`growth`](Self::growth)). On a device it is estimated by the largest magnitudes, as
/// max(1, max|L|) · max|U| / max|B|, or where L is not measured, as if none of its entries were above 1. The quotient
/// max|U| / max|B| for itself, Wilkinson's growth factor of the entries of U, is called the *element growth*.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// The growth: max over columns k of ‖ |L|·|U|·e_k ‖₁ / ‖B·e_k‖₁; 1 for an empty matrix.
    pub growth: f64,
    /// max over columns k of |wᵀ·(B − L·U)·e_k| / ‖B·e_k‖₁ for a vector w of ±1 drawn by row.
    pub checksum: f64,
    /// The column where the growth is largest.
    pub worst_column: usize,
    /// Smallest magnitude of a pivot; infinite for an empty matrix.
    pub min_pivot: f64,
    /// Largest magnitude of a pivot.
    pub max_pivot: f64,
    /// max over columns k of ‖B·e_k‖₁.
    pub max_norm: f64,
    /// min over columns k of ‖B·e_k‖₁; infinite for an empty matrix.
    pub min_norm: f64,
    /// max over columns k of ‖ |L|·|U|·e_k ‖₁.
    pub max_product: f64,
    /// max over columns k of |wᵀ·(B − L·U)·e_k|.
    pub max_residual: f64,
    /// min over columns k of |U(k,k)| / ‖ |L|·|U|·e_k ‖₁: what cancellation and scale left of the pivot. One that is
    /// hardly above ε may be nothing but rounding, and the matrix singular. Infinite for an empty matrix.
    pub min_relative_pivot: f64,
    /// Smallest |new pivot| / |old pivot| of a refactorization; 1 after a factorization.
    pub min_pivot_ratio: f64,
    /// Largest |new pivot| / |old pivot| of a refactorization; 1 after a factorization.
    pub max_pivot_ratio: f64,
    /// Pivots not taken from the diagonal of B.
    pub num_off_diagonal: usize,
    /// Pivots delayed to a later front.
    pub num_delayed: usize,
    /// Pivots that were replaced because they were too small.
    pub num_perturbed: usize,
    /// The first column whose pivot was replaced.
    pub first_perturbed: Option<usize>,
}

impl Default for Quality {
    /// That of an empty matrix.
    fn default() -> Self {
        Self {
            growth: 1.0,
            checksum: 0.0,
            worst_column: 0,
            min_pivot: f64::INFINITY,
            max_pivot: 0.0,
            max_norm: 0.0,
            min_norm: f64::INFINITY,
            max_product: 0.0,
            max_residual: 0.0,
            min_relative_pivot: f64::INFINITY,
            min_pivot_ratio: 1.0,
            max_pivot_ratio: 1.0,
            num_off_diagonal: 0,
            num_delayed: 0,
            num_perturbed: 0,
            first_perturbed: None,
        }
    }
}

impl Quality {
    /// Takes in column `k`: ‖B·e_k‖₁, ‖ |L|·|U|·e_k ‖₁ and |wᵀ·(B − L·U)·e_k|. Columns may come in any order, the outcome is
    /// the same; what is not finite ends up in the growth or the checksum.
    #[inline(always)]
    pub fn add_column(&mut self, k: usize, norm: f64, product: f64, residual: f64) {
        enlarge(&mut self.max_residual, residual);
        enlarge(&mut self.max_norm, norm);
        lessen(&mut self.min_norm, norm);
        // Divided, and looked at one by one, only where it matters: what is not a number compares as neither.
        let is_usual = (product < self.growth * norm) & (residual <= self.checksum * norm);
        if !is_usual {
            self.relate(k, norm, product, residual);
        }
    }

    /// What is relative to the norm of column `k`, if it is worse than in all before.
    #[cold]
    fn relate(&mut self, k: usize, norm: f64, product: f64, residual: f64) {
        // Overflowed sums of |L|·|U| tell nothing, not even where the norm overflowed too.
        let growth = if product.is_finite() {
            product / norm
        } else {
            f64::NAN
        };
        let is_first = growth == self.growth && k < self.worst_column;
        if is_first || is_worse(growth, self.growth) {
            self.growth = growth;
            self.worst_column = k;
        }
        self.checksum = larger(self.checksum, residual / norm);
    }

    /// Takes in the magnitudes of a pivot of a refactorization and of the pivot that was there before.
    #[inline(always)]
    pub fn add_pivot_ratio(&mut self, new: f64, old: f64) {
        if new < self.min_pivot_ratio * old {
            self.min_pivot_ratio = self.min_pivot_ratio.min(new / old);
        }
        if new > self.max_pivot_ratio * old {
            self.max_pivot_ratio = self.max_pivot_ratio.max(new / old);
        }
    }

    /// Counts a pivot that was replaced, in this column.
    pub fn add_perturbed(&mut self, column: usize) {
        self.num_perturbed += 1;
        let first = self
            .first_perturbed
            .map_or(column, |first| first.min(column));
        self.first_perturbed = Some(first);
    }

    /// Adds what was measured of another diagonal block, where `column` tells which column here is one of the block's.
    pub fn merge(&mut self, block: &Self, column: impl Fn(usize) -> usize) {
        if is_worse(block.growth, self.growth) {
            self.growth = block.growth;
            self.worst_column = column(block.worst_column);
        }
        self.checksum = larger(self.checksum, block.checksum);
        self.min_pivot = self.min_pivot.min(block.min_pivot);
        self.max_pivot = self.max_pivot.max(block.max_pivot);
        self.max_norm = self.max_norm.max(block.max_norm);
        self.min_norm = self.min_norm.min(block.min_norm);
        self.max_product = self.max_product.max(block.max_product);
        self.max_residual = self.max_residual.max(block.max_residual);
        self.min_relative_pivot = self.min_relative_pivot.min(block.min_relative_pivot);
        self.min_pivot_ratio = self.min_pivot_ratio.min(block.min_pivot_ratio);
        self.max_pivot_ratio = self.max_pivot_ratio.max(block.max_pivot_ratio);
        self.num_off_diagonal += block.num_off_diagonal;
        self.num_delayed += block.num_delayed;
        self.num_perturbed += block.num_perturbed;
        if self.first_perturbed.is_none() {
            self.first_perturbed = block.first_perturbed.map(column);
        }
    }

    /// Whether a number that is not finite turned up.
    pub fn is_finite(&self) -> bool {
        let sums = [self.growth, self.checksum, self.max_residual];
        sums.iter().all(|sum| sum.is_finite())
    }
}

/// Makes `most` the larger of the two; as it was if `number` is none.
#[inline(always)]
pub fn enlarge(most: &mut f64, number: f64) {
    *most = if number > *most { number } else { *most };
}

/// Makes `least` the smaller of the two, likewise.
#[inline(always)]
pub fn lessen(least: &mut f64, number: f64) {
    *least = if number < *least { number } else { *least };
}

/// The larger number; NaN if one of them is.
pub fn larger(a: f64, b: f64) -> f64 {
    if is_worse(b, a) { b } else { a }
}

/// Whether `new` is larger than `old`; a NaN is larger than every number.
fn is_worse(new: f64, old: f64) -> bool {
    !old.is_nan() && (new.is_nan() || new > old)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_block_is_named() {
        let mut all = Quality::default();
        all.merge(
            &Quality {
                growth: 7.0,
                worst_column: 2,
                min_pivot: 0.5,
                max_pivot: 3.0,
                num_perturbed: 1,
                first_perturbed: Some(1),
                ..Quality::default()
            },
            |j| 10 + j,
        );
        all.merge(
            &Quality {
                growth: 3.0,
                checksum: 1e-16,
                min_pivot_ratio: 0.1,
                ..Quality::default()
            },
            |j| 20 + j,
        );
        assert_eq!((all.growth, all.worst_column), (7.0, 12));
        assert_eq!((all.min_pivot, all.max_pivot), (0.5, 3.0));
        assert_eq!((all.checksum, all.min_pivot_ratio), (1e-16, 0.1));
        assert_eq!((all.num_perturbed, all.first_perturbed), (1, Some(11)));
        assert!(all.is_finite());
    }

    #[test]
    fn columns_are_taken_in_in_any_order() {
        let columns = [
            (3, 2.0, 8.0, 1e-16),
            (1, 1.0, 4.0, 0.0),
            (2, 4.0, 4.0, 4e-16),
            (0, 8.0, 9.0, 2e-16),
        ];
        for order in [[0, 1, 2, 3], [1, 0, 3, 2], [3, 2, 1, 0], [2, 3, 0, 1]] {
            let mut quality = Quality::default();
            for (k, norm, product, residual) in order.map(|at| columns[at]) {
                quality.add_column(k, norm, product, residual);
            }
            assert_eq!((quality.growth, quality.worst_column), (4.0, 1));
            assert_eq!((quality.checksum, quality.max_residual), (1e-16, 4e-16));
            assert_eq!((quality.min_norm, quality.max_norm), (1.0, 8.0));
        }
    }

    #[test]
    fn overflow_in_one_column_is_told_whatever_comes_before_and_after() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        for (norm, product, residual) in [
            (1.0, nan, 0.0),
            (1.0, 1.0, nan),
            (1.0, inf, 0.0),
            (1.0, 1.0, inf),
            (inf, inf, 0.0),
            (inf, 1.0, inf),
        ] {
            for at in 0..3 {
                let mut quality = Quality::default();
                for k in 0..3 {
                    if k == at {
                        quality.add_column(k, norm, product, residual);
                    } else {
                        quality.add_column(k, 1.0, 10.0, 1e-10);
                    }
                }
                assert!(
                    !quality.is_finite(),
                    "{norm}, {product}, {residual} at {at}"
                );
            }
        }
    }

    #[test]
    fn ratios_of_pivots_are_the_smallest_and_the_largest() {
        let mut quality = Quality::default();
        for (new, old) in [(3.0, 2.0), (1.0, 4.0), (6.0, 1.0), (1.0, 2.0)] {
            quality.add_pivot_ratio(new, old);
        }
        assert_eq!(
            (quality.min_pivot_ratio, quality.max_pivot_ratio),
            (0.25, 6.0)
        );
    }

    #[test]
    fn replaced_pivots_are_counted_and_the_first_is_named() {
        let mut quality = Quality::default();
        [5, 2, 7]
            .into_iter()
            .for_each(|column| quality.add_perturbed(column));
        assert_eq!(
            (quality.num_perturbed, quality.first_perturbed),
            (3, Some(2))
        );
    }

    #[test]
    fn a_nan_is_not_lost() {
        let bad = Quality {
            growth: f64::NAN,
            checksum: f64::NAN,
            ..Quality::default()
        };
        for order in [[bad, Quality::default()], [Quality::default(), bad]] {
            let mut all = Quality::default();
            order.iter().for_each(|block| all.merge(block, |j| j));
            assert!(!all.is_finite());
        }
    }
}
