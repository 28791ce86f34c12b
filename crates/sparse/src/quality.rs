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
        self.growth.is_finite() && self.checksum.is_finite()
    }
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
