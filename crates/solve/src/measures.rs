//! Residuals and backward errors of systems beyond the range of `f64`.
//!
//! Sums are formed in `f64` relative to the largest term of their row, so a term that is lost is 2^−1000 of it.

use luge_sparse::{MatrixView, Scalar};

use crate::extended::Extended;

/// What is known of a solution, in numbers of any size.
pub(crate) struct Measures<W> {
    /// b − A·x.
    pub(crate) residual: Vec<Extended<W>>,
    pub(crate) normwise: f64,
    /// As in [`Measured`](crate::backward_error::Measured).
    pub(crate) componentwise: [f64; 2],
    pub(crate) norm_r: Extended,
    pub(crate) norm_a: Extended,
    pub(crate) norm_x: Extended,
}

impl<W: Scalar<Real = f64, Wide = W>> Measures<W> {
    /// Of finite numbers.
    pub(crate) fn new<T: Scalar<Wide = W>>(
        a: MatrixView<'_, T>,
        x: &[Extended<W>],
        b: &[Extended<W>],
    ) -> Self {
        let largest = |v: &[Extended<W>]| {
            v.iter()
                .map(|v| v.magnitude())
                .fold(Extended::ZERO, Extended::max)
        };
        let (norm_x, norm_b) = (largest(x), largest(b));
        // The exponents of the largest term of each row, and of its largest entry.
        let of = |number: Extended<W>| (!number.is_zero()).then_some(number.parts().1);
        let mut terms: Vec<Option<i32>> = b.iter().map(|&b| of(b)).collect();
        let mut entries: Vec<Option<i32>> = vec![None; b.len()];
        a.for_each(|i, j, value| {
            let value = Extended::of(value.widen());
            terms[i] = terms[i].max(of(value * x[j]));
            entries[i] = entries[i].max(of(value));
        });
        let unit = |exponent: Option<i32>| exponent.unwrap_or(0);
        let mut residuals: Vec<W> = terms
            .iter()
            .zip(b)
            .map(|(&e, b)| b.relative_to(unit(e)))
            .collect();
        let mut magnitudes = vec![0.0f64; b.len()];
        let mut sums = vec![0.0f64; b.len()];
        let mut maxima = vec![0.0f64; b.len()];
        a.for_each(|i, j, value| {
            let value = Extended::of(value.widen());
            let product = (value * x[j]).relative_to(unit(terms[i]));
            residuals[i] -= product;
            magnitudes[i] += product.magnitude();
            let entry = value.magnitude().relative_to(unit(entries[i]));
            sums[i] += entry;
            maxima[i] = maxima[i].max(entry);
        });
        let mut norm_a = Extended::ZERO;
        let mut norm_r = Extended::ZERO;
        let mut componentwise = [0.0f64; 2];
        let n = x.len() as f64;
        let mut residual = Vec::with_capacity(b.len());
        for i in 0..b.len() {
            let difference = Extended::new(residuals[i], unit(terms[i]));
            let magnitude = Extended::new(magnitudes[i], unit(terms[i]));
            let sum = Extended::new(sums[i], unit(entries[i]));
            let maximum = Extended::new(maxima[i], unit(entries[i]));
            norm_a = norm_a.max(sum);
            norm_r = norm_r.max(difference.magnitude());
            let size = magnitude + b[i].magnitude();
            let rounding =
                Extended::of(1000.0 * n * f64::EPSILON) * (maximum * norm_x + b[i].magnitude());
            let (which, size) = if size.exceeds(rounding) {
                (0, size)
            } else {
                (1, magnitude + sum * norm_x)
            };
            componentwise[which] = componentwise[which].max(difference.magnitude().over(size));
            residual.push(difference);
        }
        Self {
            residual,
            normwise: norm_r.over(norm_a * norm_x + norm_b),
            componentwise,
            norm_r,
            norm_a,
            norm_x,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backward_error::{Measured, RowNorms};
    use crate::extended::shift;
    use luge_sparse::CompressedPattern;
    use num_complex::Complex;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn systems_of_usual_size_are_measured_alike(
            values in proptest::array::uniform4(-10.0..10.0f64),
            x in proptest::array::uniform2(-10.0..10.0f64),
            b in proptest::array::uniform2(-10.0..10.0f64),
        ) {
            let pattern = CompressedPattern::new(2, vec![0, 2, 4], vec![0, 1, 0, 1]).unwrap();
            let a = MatrixView::by_rows(&pattern, &values);
            let plain = Measured::new(a, &RowNorms::new(a), &x, &b);
            let extended = Measured::apart(a, &x, &b);
            let close = |p: f64, q: f64| (p - q).abs() <= 1e-12 * p.abs().max(1e-3);
            prop_assert!(close(plain.normwise, extended.normwise));
            prop_assert!(close(plain.componentwise[0], extended.componentwise[0]));
            for (p, q) in plain.residual.iter().zip(&extended.residual) {
                prop_assert!(close(*p, shift(*q, extended.exponent)));
            }
        }

        #[test]
        fn powers_of_two_change_no_error(
            of_a in -900..900i32,
            of_x in -900..900i32,
            values in proptest::array::uniform4(0.1..1.0f64),
            x in proptest::array::uniform2(0.1..1.0f64),
        ) {
            let pattern = CompressedPattern::new(2, vec![0, 2, 4], vec![0, 1, 0, 1]).unwrap();
            let b = [1.0, 1.0];
            let expected = Measured::apart(MatrixView::by_rows(&pattern, &values), &x, &b);
            // b has the size of A·x, where that is in range.
            prop_assume!((-1000..1000).contains(&(of_a + of_x)));
            let far = values.map(|v| shift(v, of_a));
            let a = MatrixView::by_rows(&pattern, &far);
            let measured = Measured::new(
                a,
                &RowNorms::new(a),
                &x.map(|v| shift(v, of_x)),
                &b.map(|v| shift(v, of_a + of_x)),
            );
            prop_assert!((measured.normwise - expected.normwise).abs() <= 1e-14);
            prop_assert!((measured.componentwise[0] - expected.componentwise[0]).abs() <= 1e-14);
        }
    }

    #[test]
    fn sums_beyond_the_range_are_measured() {
        // ‖A‖∞·‖x‖∞ is 2e316.
        let pattern = CompressedPattern::new(1, vec![0, 1], vec![0]).unwrap();
        let a = MatrixView::by_rows(&pattern, &[1e158]);
        let norms = RowNorms::new(a);
        let measured = Measured::new(a, &norms, &[1e158], &[1e308]);
        assert!((measured.normwise - 1.0).abs() < 1e-7);
        // A row sum that overflows, and an exact solution.
        let pattern = CompressedPattern::new(2, vec![0, 2, 3], vec![0, 1, 1]).unwrap();
        let a = MatrixView::by_rows(&pattern, &[1e308, 1e308, 1e-300]);
        let measured = Measured::new(a, &RowNorms::new(a), &[-1.0, 1.0], &[0.0, 1e-300]);
        assert_eq!((measured.normwise, measured.componentwise), (0.0, [0.0; 2]));
    }

    #[test]
    fn corrections_for_a_tiny_row_are_in_range() {
        // The residual is one unit of the subnormal numbers; in units of the size of A its correction would be 1e310.
        let pattern = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap();
        let a = MatrixView::by_rows(&pattern, &[1.0f64, 1e-310]);
        let (x, b) = ([1.0, 1.0], [1.0, 1e-310 + 5e-324]);
        let measured = Measured::new(a, &RowNorms::new(a), &x, &b);
        let correction = measured.residual[1] / 1e-310;
        assert!(correction.is_finite() && correction != 0.0, "{measured:?}");
        assert_eq!(shift(correction, measured.exponent), 5e-324 / 1e-310);
    }

    #[test]
    fn complex_systems_beyond_the_range_are_measured() {
        // 1e200i 1e200
        // .      1e-300·(1 + i)
        let z = Complex::<f64>::new;
        let pattern = CompressedPattern::new(2, vec![0, 2, 3], vec![0, 1, 1]).unwrap();
        let values = [z(0.0, 1e200), z(1e200, 0.0), z(1e-300, 1e-300)];
        let a = MatrixView::by_rows(&pattern, &values);
        let x = [z(0.0, 1e100), z(1e100, 0.0)];
        // Row 0 is 0, its terms are of 1e300; row 1 is (1 + i)·1e-200, and its real part is missed by half.
        let b = [z(0.0, 0.0), z(2e-200, 1e-200)];
        let measured = Measured::apart(a, &x, &b);
        let residual: Vec<_> = measured
            .residual
            .iter()
            .map(|&r| shift(r, measured.exponent))
            .collect();
        assert_eq!(residual[0], z(0.0, 0.0));
        assert!((residual[1] - z(1e-200, 0.0)).modulus() <= 1e-215);
        assert!((measured.componentwise[0] - 1.0 / 5.0).abs() <= 1e-15);
        let sizes = |x: [Complex<f64>; 2]| x.map(Extended::of);
        let huge = sizes(x).map(|x| x * Extended::of(z(1e300, 0.0)));
        let measures = Measures::new(a, &huge, &sizes(b));
        // The same row, of 1e100 now: b is nothing beside it.
        assert!(measures.residual[0].is_zero());
        let (residual, norm_r) = (measures.residual[1].to_wide(), measures.norm_r.to_wide());
        assert!((residual + z(1e100, 1e100)).modulus() <= 1e86, "{residual}");
        assert!((norm_r / 2e100 - 1.0).abs() <= 1e-14);
        assert!(!measures.norm_x.to_wide().is_finite() && measures.norm_x.is_finite());
    }

    #[test]
    fn a_tiny_row_is_measured_beside_large_ones() {
        // The second row is 1e-300 where 3e-300 is wanted.
        let pattern = CompressedPattern::new(2, vec![0, 1, 2], vec![0, 1]).unwrap();
        let a = MatrixView::by_rows(&pattern, &[1.0, 1e-290]);
        let (x, b) = ([1.0, 1e-10], [1.0, 3e-300]);
        let measured = Measured::new(a, &RowNorms::new(a), &x, &b);
        assert!((measured.componentwise[0] - 0.5).abs() < 1e-15);
        assert!(measured.normwise < 1e-299);
    }
}
