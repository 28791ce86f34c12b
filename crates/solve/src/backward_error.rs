//! Residuals and backward errors, computed in `f64`, or its complex numbers, whatever the matrix is stored in.
//!
//! The normwise backward error ‖b−Ax‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞) is the size of the smallest relative
//! change of A and b that makes x exact (Rigal and Gaches 1967). The componentwise one,
//! max |b−Ax| / (|A|·|x| + |b|), asks the same entry by entry (Oettli and Prager 1964) and does not
//! change when rows are scaled.
//!
//! |z| of a complex number is in all of this |re| + |im|, the [magnitude](Scalar::magnitude), as in LAPACK's `zgerfs`: at
//! least the absolute value, and at most √2 times that. With absolute values componentwise errors would differ by a factor
//! of √2 at most, and normwise ones by a factor between 1/√2 and 2.

use luge_sparse::{MatrixView, Scalar};

use crate::extended::Extended;
use crate::measures::Measures;

/// Longer rows are summed in stretches of so many entries: one after another, the rounding of a hundred thousand would
/// reach 10⁻¹².
const STRETCH: usize = 256;

/// The residual of one solution and the sizes that errors are measured by.
#[derive(Debug, Clone)]
pub struct Residual<W = f64> {
    /// `b − A·x`.
    pub residual: Vec<W>,
    /// `|A|·|x|`, row by row.
    pub magnitude: Vec<f64>,
}

/// Norms of the rows of a matrix.
#[derive(Debug, Clone)]
pub struct RowNorms {
    /// Sum of magnitudes of each row.
    pub sums: Vec<f64>,
    /// Largest magnitude of each row.
    pub maxima: Vec<f64>,
    /// The largest sum.
    infinity: f64,
    /// The smallest; infinite if there is none.
    smallest: f64,
}

impl RowNorms {
    /// Norms of the rows of `a`. For those of the transpose hand in `a.transpose()`.
    pub fn new<T: Scalar>(a: MatrixView<'_, T>) -> Self {
        let mut sums = vec![0.0; a.rows()];
        let mut maxima = vec![0.0f64; a.rows()];
        a.for_each(|i, _, v| {
            let v = v.widen().magnitude();
            sums[i] += v;
            maxima[i] = maxima[i].max(v);
        });
        Self::of_rows(sums, maxima)
    }

    fn of_rows(sums: Vec<f64>, maxima: Vec<f64>) -> Self {
        let infinity = max_abs(&sums);
        let smallest = sums.iter().copied().fold(f64::INFINITY, f64::min);
        Self {
            sums,
            maxima,
            infinity,
            smallest,
        }
    }

    /// ‖A‖∞, the largest row sum.
    pub fn infinity_norm(&self) -> f64 {
        self.infinity
    }
}

/// ‖v‖∞; NaN if an entry is NaN.
pub fn max_abs<W: Scalar<Real = f64>>(v: &[W]) -> f64 {
    // Once NaN, `max` compares false with everything and stays.
    let larger = |max: f64, x: f64| if x > max || x.is_nan() { x } else { max };
    v.iter().map(|x| x.magnitude()).fold(0.0, larger)
}

/// The normwise backward error from its norms: zero if the residual is zero, NaN if anything is not finite. Products and
/// quotients on the way neither overflow nor underflow.
pub(crate) fn normwise(norm_r: f64, norm_a: f64, norm_x: f64, norm_b: f64) -> f64 {
    if norm_r == 0.0 {
        return 0.0;
    }
    if ![norm_r, norm_x, norm_b, norm_a]
        .iter()
        .all(|v| v.is_finite())
    {
        return f64::NAN;
    }
    let [r, a, x, b] = [norm_r, norm_a, norm_x, norm_b].map(Extended::<f64>::of);
    r.over((a * x) + b)
}

/// Sums beyond these are not computed in plain `f64`: below, what rounding leaves of a residual may be subnormal.
const SAFE: std::ops::RangeInclusive<f64> = 1e-270..=1e300;

/// Whether residuals of a system of this size, ‖A‖∞·‖x‖∞ + ‖b‖∞, keep their digits in plain `f64`.
pub fn is_safe(norm_a: f64, norm_x: f64, norm_b: f64) -> bool {
    let size = norm_a * norm_x + norm_b;
    SAFE.contains(&size) || (norm_b == 0.0 && (norm_x == 0.0 || norm_a == 0.0) && size == 0.0)
}

/// Whether a row that is not zero is so small that its residual may have lost digits to underflow.
fn has_tiny_rows<W: Scalar<Real = f64>>(norms: &RowNorms, norm_x: f64, b: &[W]) -> bool {
    norm_x > 0.0
        && norms.smallest * norm_x < *SAFE.start()
        && norms.sums.iter().zip(b).fold(false, |tiny, (sum, b)| {
            let b = b.magnitude();
            let size = sum * norm_x + b;
            tiny | ((size < *SAFE.start()) & (sum + b > 0.0))
        })
}

/// A correction that is as large as x is this power of two at most, in the units of the residual.
const HEADROOM: i32 = 900;

/// What is known of a solution x of A·x = b: the residual, and the backward errors that follow from it.
#[derive(Debug, Clone)]
pub struct Measured<W = f64> {
    /// (b − A·x) · 2^−`exponent`.
    pub residual: Vec<W>,
    /// Zero, unless the residual would leave the range of `f64`.
    pub exponent: i32,
    /// The normwise backward error; NaN if anything is not finite.
    pub normwise: f64,
    /// The two componentwise backward errors, see [`Residual::componentwise`].
    pub componentwise: [f64; 2],
}

impl<W: Scalar<Real = f64, Wide = W>> Measured<W> {
    /// Measures `x`, whatever the exponents of A, x and b are. `norms` are those of A.
    ///
    /// # Panics
    ///
    /// If the lengths do not fit the matrix.
    #[track_caller]
    pub fn new<T: Scalar<Wide = W>>(
        a: MatrixView<'_, T>,
        norms: &RowNorms,
        x: &[W],
        b: &[W],
    ) -> Self {
        let (norm_a, norm_x, norm_b) = (norms.infinity_norm(), max_abs(x), max_abs(b));
        if is_safe(norm_a, norm_x, norm_b) && !has_tiny_rows(norms, norm_x, b) {
            let residual = Residual::new(a, x, b);
            return Self {
                exponent: 0,
                normwise: normwise(max_abs(&residual.residual), norm_a, norm_x, norm_b),
                componentwise: residual.componentwise(norms, x, b),
                residual: residual.residual,
            };
        }
        if x.iter().chain(b).any(|v| !v.is_number()) {
            return Self {
                residual: Residual::new(a, x, b).residual,
                exponent: 0,
                normwise: f64::NAN,
                componentwise: [f64::NAN; 2],
            };
        }
        Self::apart(a, x, b)
    }

    /// As [`new`](Self::new), with exponents apart, for finite numbers.
    pub(crate) fn apart<T: Scalar<Wide = W>>(a: MatrixView<'_, T>, x: &[W], b: &[W]) -> Self {
        let extended =
            |v: &[W]| -> Vec<Extended<W>> { v.iter().map(|&v| Extended::of(v)).collect() };
        let measures = Measures::new(a, &extended(x), &extended(b));
        let [r, a, x] = [measures.norm_r, measures.norm_a, measures.norm_x].map(|n| n.parts().1);
        // In units in which the residual has the size of A, its correction is of ordinary size, unless A hides small rows:
        // but it is hardly larger than x, which is in range.
        let exponent = (r - a.clamp(-960, 960)).max(x - HEADROOM);
        let residual = measures.residual.iter().map(|r| r.relative_to(exponent));
        Self {
            residual: residual.collect(),
            exponent,
            normwise: measures.normwise,
            componentwise: measures.componentwise,
        }
    }
}

impl<W: Scalar<Real = f64, Wide = W>> Residual<W> {
    /// The residual of `x` in A·x = b.
    ///
    /// # Panics
    ///
    /// If the lengths do not fit the matrix.
    #[track_caller]
    pub fn new<T: Scalar<Wide = W>>(a: MatrixView<'_, T>, x: &[W], b: &[W]) -> Self {
        assert_eq!(a.cols(), x.len(), "solution of another length");
        assert_eq!(a.rows(), b.len(), "right-hand side of another length");
        let mut this = Self {
            residual: b.to_vec(),
            magnitude: vec![0.0; b.len()],
        };
        if a.is_by_columns() {
            // What rounding took from each sum (D. E. Knuth, "The Art of Computer Programming", volume 2, section 4.2.2).
            let mut lost = vec![W::zero(); b.len()];
            a.for_each(|i, j, v| {
                let product = v.widen() * x[j];
                let sum = this.residual[i];
                let total = sum - product;
                let back = total - sum;
                lost[i] += (sum - (total - back)) - (product + back);
                this.residual[i] = total;
                this.magnitude[i] += product.magnitude();
            });
            for (residual, lost) in this.residual.iter_mut().zip(lost) {
                // Nothing can be told of a sum that overflowed.
                if lost.is_number() {
                    *residual += lost;
                }
            }
            return this;
        }
        let take_off = |(mut residual, mut magnitude), columns: &[u32], values: &[T]| {
            for (&j, &value) in columns.iter().zip(values) {
                let product = value.widen() * x[j as usize];
                residual -= product;
                magnitude += product.magnitude();
            }
            (residual, magnitude)
        };
        for (i, (columns, values)) in a.lines().enumerate() {
            let start = (b[i], 0.0);
            (this.residual[i], this.magnitude[i]) = if columns.len() <= STRETCH {
                take_off(start, columns, values)
            } else {
                let stretches = columns.chunks(STRETCH).zip(values.chunks(STRETCH));
                stretches.fold(start, |(residual, magnitude), (columns, values)| {
                    let (part, size) = take_off((W::zero(), 0.0), columns, values);
                    (residual + part, magnitude + size)
                })
            };
        }
        this
    }

    /// The normwise backward error for a matrix with ‖A‖∞ = `norm_a`. Zero if the residual is zero,
    /// NaN if anything is not finite.
    pub fn normwise(&self, norm_a: f64, x: &[W], b: &[W]) -> f64 {
        normwise(max_abs(&self.residual), norm_a, max_abs(x), max_abs(b))
    }

    /// The two componentwise errors of Arioli, Demmel and Duff (1989): the first over the rows whose
    /// |A|·|x| + |b| is safely above rounding, the second over the others, measured by
    /// |A|·|x| + ‖A(i,·)‖₁·‖x‖∞. Both zero for an exact solution; NaN propagates.
    pub fn componentwise(&self, norms: &RowNorms, x: &[W], b: &[W]) -> [f64; 2] {
        let norm_x = max_abs(x);
        let n = x.len() as f64;
        let mut omega = [0.0f64; 2];
        for (i, &r) in self.residual.iter().enumerate() {
            let size_b = b[i].magnitude();
            let size = self.magnitude[i] + size_b;
            let rounding = 1000.0 * n * f64::EPSILON * (norms.maxima[i] * norm_x + size_b);
            let (which, size) = if size > rounding {
                (0, size)
            } else {
                (1, self.magnitude[i] + norms.sums[i] * norm_x)
            };
            let error = if r.is_zero() {
                0.0
            } else {
                r.magnitude() / size
            };
            if error > omega[which] || error.is_nan() {
                omega[which] = error;
            }
        }
        omega
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use luge_sparse::CompressedPattern;
    use num_complex::Complex;

    /// 2 -1
    /// 0  4
    fn pattern() -> CompressedPattern {
        CompressedPattern::new(2, vec![0, 2, 3], vec![0, 1, 1]).unwrap()
    }

    const VALUES: [f64; 3] = [2.0, -1.0, 4.0];

    #[test]
    fn plain_arithmetic_is_for_sizes_in_the_middle_of_the_range_and_for_zero() {
        // The same size of A·x and of b, as every solution has it.
        assert!(is_safe(1.0, 1.0, 1.0) && is_safe(1e-100, 1e-100, 1e-200));
        assert!(is_safe(2.0, 3.0, 0.0) && is_safe(0.0, 3.0, 4.0));
        assert!(is_safe(0.0, 0.0, 0.0) && is_safe(1.0, 0.0, 0.0) && is_safe(0.0, 1.0, 0.0));
        // Too small, underflown, too large, no number.
        assert!(!is_safe(1e-300, 1.0, 1e-300));
        assert!(!is_safe(1e-200, 1e-200, 0.0));
        assert!(!is_safe(1e200, 1e150, 1.0) && !is_safe(1.0, 1.0, f64::INFINITY));
        assert!(!is_safe(f64::NAN, 1.0, 1.0));
    }

    #[test]
    fn both_storage_orders_and_the_transpose_agree() {
        let (x, b) = ([1.0, 3.0], [1.0, 10.0]);
        let by_rows = pattern();
        let (by_columns, map) = by_rows.transpose_with_map();
        let moved: Vec<f64> = map.iter().map(|&p| VALUES[p as usize]).collect();
        for stored in [
            MatrixView::by_rows(&by_rows, &VALUES),
            MatrixView::by_columns(&by_columns, &moved),
        ] {
            let r = Residual::new(stored, &x, &b);
            assert_eq!(r.residual, [2.0, -2.0]);
            assert_eq!(r.magnitude, [5.0, 12.0]);
            let t = Residual::new(stored.transpose(), &x, &b);
            assert_eq!(t.residual, [-1.0, -1.0]);
            let norms = RowNorms::new(stored.transpose());
            assert_eq!(norms.sums, [2.0, 5.0]);
            assert_eq!(norms.maxima, [2.0, 4.0]);
        }
    }

    #[test]
    fn the_measures_by_hand() {
        let (pattern, x, b) = (pattern(), [1.0, 3.0], [1.0, 10.0]);
        let a = MatrixView::by_rows(&pattern, &VALUES);
        let norms = RowNorms::new(a);
        let r = Residual::new(a, &x, &b);
        assert_eq!(r.normwise(norms.infinity_norm(), &x, &b), 2.0 / 22.0);
        assert_eq!(r.componentwise(&norms, &x, &b), [2.0 / 6.0, 0.0]);
    }

    #[test]
    fn a_row_lost_in_rounding_is_measured_by_its_norm() {
        // Row 1: b is zero and x is noise where row 1 has entries.
        let (pattern, x, b) = (pattern(), [1.0, 1e-18], [2.0, 0.0]);
        let a = MatrixView::by_rows(&pattern, &VALUES);
        let r = Residual::new(a, &x, &b);
        let [large, small] = r.componentwise(&RowNorms::new(a), &x, &b);
        assert!(large < 1e-17);
        assert_eq!(small, 4e-18 / (4e-18 + 4.0));
    }

    #[test]
    fn tiny_rows_are_those_whose_residuals_lose_digits() {
        let has = |sums: [f64; 3], norm_x: f64, b: [f64; 3]| {
            let norms = RowNorms::of_rows(sums.to_vec(), sums.to_vec());
            has_tiny_rows(&norms, norm_x, &b)
        };
        assert!(!has([1.0, 1e-260, 1.0], 1.0, [0.0; 3]));
        // One of them, two, all; by the row, or by the right-hand side alone.
        assert!(has([1.0, 1e-280, 1.0], 1.0, [0.0; 3]));
        assert!(has([1.0, 1e-280, 1e-280], 1.0, [0.0; 3]));
        assert!(has([1e-280; 3], 1.0, [0.0; 3]));
        assert!(has([1.0, 0.0, 1.0], 1.0, [0.0, -1e-280, 0.0]));
        // The other of the two is large, or the solution.
        assert!(!has([1.0, 1e-280, 1.0], 1.0, [0.0, -1.0, 0.0]));
        assert!(!has([1.0, 1e-280, 1.0], 1e20, [0.0; 3]));
        // Nothing is lost of nothing.
        assert!(!has([1.0, 0.0, 1.0], 1.0, [0.0; 3]));
        assert!(!has([1.0, 1e-280, 1.0], 0.0, [0.0; 3]));
    }

    #[test]
    fn complex_systems_by_hand() {
        // i 2
        // . 1+i
        let z = Complex::<f64>::new;
        let (pattern, x, b) = (
            pattern(),
            [z(1.0, 1.0), z(0.0, 2.0)],
            [z(-1.0, 4.0), z(-2.0, 3.0)],
        );
        let values = [z(0.0, 1.0), z(2.0, 0.0), z(1.0, 1.0)];
        let (columns, map) = pattern.transpose_with_map();
        let moved: Vec<_> = map.iter().map(|&p| values[p as usize]).collect();
        for a in [
            MatrixView::by_rows(&pattern, &values),
            MatrixView::by_columns(&columns, &moved),
        ] {
            // A·x = (−1 + 5i, −2 + 2i).
            let r = Residual::new(a, &x, &b);
            assert_eq!(r.residual, [z(0.0, -1.0), z(0.0, 1.0)]);
            assert_eq!(r.magnitude, [2.0 + 4.0, 4.0]);
            let norms = RowNorms::new(a);
            assert_eq!(
                (&norms.sums[..], &norms.maxima[..]),
                (&[3.0, 2.0][..], &[2.0; 2][..])
            );
            assert_eq!(max_abs(&b), 5.0);
            assert_eq!(r.normwise(3.0, &x, &b), 1.0 / (3.0 * 2.0 + 5.0));
            assert_eq!(r.componentwise(&norms, &x, &b), [1.0 / 9.0, 0.0]);
            let measured = Measured::new(a, &norms, &x, &b);
            assert_eq!((measured.normwise, measured.exponent), (1.0 / 11.0, 0));
            // Without conjugation.
            let t = Residual::new(a.transpose(), &x, &b);
            assert_eq!(
                t.residual,
                [z(-1.0, 4.0) - z(-1.0, 1.0), z(-2.0, 3.0) - z(0.0, 4.0)]
            );
        }
        let single = values.map(Complex::<f32>::narrow);
        let a = MatrixView::by_rows(&pattern, &single);
        assert_eq!(
            Residual::new(a, &x, &b).residual,
            [z(0.0, -1.0), z(0.0, 1.0)]
        );
    }

    #[test]
    fn extremes_neither_overflow_nor_hide() {
        let pattern = CompressedPattern::new(1, vec![0, 1], vec![0]).unwrap();
        let a = MatrixView::by_rows(&pattern, &[1e200]);
        let r = Residual::new(a, &[1e100], &[1e300]);
        assert_eq!(r.normwise(1e200, &[1e100], &[1e300]), 0.0);
        let r = Residual {
            residual: vec![1e290],
            magnitude: vec![0.0],
        };
        let huge = r.normwise(1e200, &[1e200], &[1e300]);
        assert!((huge / 1e-110 - 1.0).abs() < 1e-12);
        let nan = Residual::new(a, &[f64::NAN], &[1.0]);
        assert!(nan.normwise(1e200, &[f64::NAN], &[1.0]).is_nan());
        assert!(max_abs(&[1.0, f64::NAN, 2.0]).is_nan());
    }
}
