//! Row and column scaling.

use crate::scalar::Scalar;

/// Positive factors `dr`, `dc` with which `Dr·A·Dc` is better balanced than A.
///
/// The factors are kept in `f64` whatever the scalar of the matrix, and may span the whole range of
/// exponents: multiply an entry by both factors in `f64` before rounding it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// Factor of each row of A, in A's original row order.
    pub rows: Vec<f64>,
    /// Factor of each column of A, in A's original column order.
    pub cols: Vec<f64>,
}

impl Scaling {
    /// Factors within 2^±this are tame: no product of a few of them leaves the range of `f64`, and nothing that matters for A
    /// becomes zero by underflow in B.
    pub const TAME_EXPONENT: i32 = 120;

    /// Whether all factors are [tame](Self::TAME_EXPONENT).
    pub fn is_tame(&self) -> bool {
        let range = 2f64.powi(Self::TAME_EXPONENT);
        // Without a way out, so that it is done in lanes.
        let are_tame = |factors: &[f64]| {
            let is_tame = |&f: &f64| (f <= range) & (f * range >= 1.0);
            factors.iter().fold(true, |all, f| all & is_tame(f))
        };
        are_tame(&self.rows) && are_tame(&self.cols)
    }

    /// The ratio of the largest to the smallest of the row factors or of the column factors, whichever
    /// is larger; 1 if there are none.
    pub fn span(&self) -> f64 {
        let span = |factors: &[f64]| {
            let (least, most) = factors
                .iter()
                .fold((f64::INFINITY, 0.0), |(least, most), &f| {
                    (f64::min(least, f), f64::max(most, f))
                });
            if factors.is_empty() {
                1.0
            } else {
                most / least
            }
        };
        f64::max(span(&self.rows), span(&self.cols))
    }

    /// All factors one.
    pub fn identity(nrows: usize, ncols: usize) -> Self {
        Self {
            rows: vec![1.0; nrows],
            cols: vec![1.0; ncols],
        }
    }

    /// `dr[row] · value · dc[col]`, ordered so that an intermediate product overflows or underflows
    /// only when both orders of multiplication would.
    #[inline]
    pub fn apply<W: Scalar<Real = f64>>(&self, row: usize, col: usize, value: W) -> W {
        let (dr, dc) = (self.rows[row], self.cols[col]);
        // Multiply by the factor first that moves |value| towards one.
        let grows = value.largest_component() < 1.0;
        if (dr > dc) == grows {
            value.scaled_by(dr).scaled_by(dc)
        } else {
            value.scaled_by(dc).scaled_by(dr)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extreme_factors_do_not_lose_the_product() {
        let scaling = Scaling {
            rows: vec![1e-200, 1e200],
            cols: vec![1e250, 1e-250],
        };
        let close = |x: f64, y: f64| (x / y - 1.0).abs() < 1e-14;
        assert!(close(scaling.apply(0, 0, 1e-40), 1e10));
        assert!(close(scaling.apply(1, 1, 1e60), 1e10));
        // 1e-200 first would underflow to zero.
        assert!(close(scaling.apply(0, 0, 1e-200), 1e-150));
    }
}
