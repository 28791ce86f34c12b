//! Numbers with a bound of their rounding errors.

use luge_sparse::RealScalar;

/// A number as it was computed, and how far it may be from what the same operations give without rounding.
///
/// This is running error analysis: each operation adds its own rounding error to what its operands bring along, so the
/// bound knows of growth and small pivots as they come (J. H. Wilkinson, "Error analysis revisited", IMA Bulletin 22,
/// 1986; N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., SIAM 2002, section 3.3).
///
/// An operation counts as two unit roundoffs, one machine epsilon. That leaves room for terms of second order, for
/// products that are rounded or fused with a sum, and for quotients that are off by one unit in the last place.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rounded<T> {
    /// The number.
    pub value: T,
    /// The bound: at least 0, and infinite where nothing is known.
    pub error: f64,
}

impl<T: RealScalar> Rounded<T> {
    /// A number without error.
    pub fn exact(value: T) -> Self {
        Self { value, error: 0.0 }
    }

    /// One operation with this result, whose operands bring `error` along.
    fn computed(value: T, error: f64) -> Self {
        let own = T::epsilon().to_f64() * value.abs().to_f64();
        Self {
            value,
            error: error + own,
        }
    }

    /// The sum of `self` and `terms`, whatever the order in which they are added up. Exact zeros count for nothing.
    #[must_use]
    pub fn plus_all(self, terms: &[Self]) -> Self {
        let zero = Self::exact(T::zero());
        let all = std::iter::once(&self).chain(terms);
        let (mut sum, mut size, mut count) = (zero, 0.0, 0.0);
        for term in all.filter(|&&term| term != zero) {
            sum.value += term.value;
            sum.error += term.error;
            size += term.value.abs().to_f64();
            count += 1.0;
        }
        if count > 1.0 {
            sum.error += (count - 1.0) * T::epsilon().to_f64() * size;
        }
        sum
    }

    /// The product.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        let (a, b) = (self.value.abs().to_f64(), other.value.abs().to_f64());
        let error = a * other.error + b * self.error + self.error * other.error;
        Self::computed(self.value * other.value, error)
    }

    /// `self` − a·b, product and difference rounded apart.
    #[must_use]
    pub fn minus_product(self, a: Self, b: Self) -> Self {
        let product = a.times(b);
        let error = self.error + product.error;
        Self::computed(self.value - product.value, error)
    }

    /// `self` − Σ a·b over `products`, whatever the order in which they are added up.
    #[must_use]
    pub fn minus_products(self, products: impl Iterator<Item = (Self, Self)>) -> Self {
        let (mut value, mut error) = (self.value, self.error);
        let (mut size, mut count) = (self.value.abs().to_f64(), 1.0);
        for (a, b) in products {
            let product = a.times(b);
            value -= product.value;
            error += product.error;
            size += product.value.abs().to_f64();
            count += 1.0;
        }
        error += count * T::epsilon().to_f64() * size;
        Self { value, error }
    }

    /// The quotient. Nothing is known of it if the divisor may be zero.
    #[must_use]
    pub fn over(self, divisor: Self) -> Self {
        let value = self.value / divisor.value;
        let least = divisor.value.abs().to_f64() - divisor.error;
        let error = if least > 0.0 {
            (self.error + value.abs().to_f64() * divisor.error) / least
        } else {
            f64::INFINITY
        };
        Self::computed(value, error)
    }

    /// Whether `other` may be the result of the same operations with other roundings: both are within the bound of the
    /// exact number.
    pub fn agrees_with(self, other: T) -> bool {
        let difference = self.value.to_f64() - other.to_f64();
        difference.abs() <= 2.0 * self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zeros_add_no_error() {
        let (zero, one) = (Rounded::exact(0.0), Rounded::exact(1.0));
        assert_eq!(zero.plus_all(&[one, zero]), one);
        assert_eq!(one.plus_all(&[zero]), one);
        assert!(one.plus_all(&[one]).error > 0.0);
    }

    #[test]
    fn nothing_is_known_of_a_quotient_by_what_may_be_zero() {
        let divisor = Rounded {
            value: 1.0,
            error: 1.0,
        };
        assert_eq!(Rounded::exact(1.0).over(divisor).error, f64::INFINITY);
        assert!(Rounded::exact(1.0f64).over(Rounded::exact(1.0)).error < 1e-15);
    }

    #[test]
    fn what_is_off_by_more_than_rounding_disagrees() {
        let third = Rounded::exact(1.0f64).over(Rounded::exact(3.0));
        assert!(third.agrees_with(1.0 / 3.0));
        assert!(third.agrees_with(1.0 / 3.0 + f64::EPSILON / 4.0));
        assert!(!third.agrees_with(1.0 / 3.0 + f64::EPSILON));
        assert!(!third.agrees_with(f64::NAN));
    }

    proptest! {
        /// Numbers of 24 bits, whose sums and products are exact in double precision or nearly so.
        #[test]
        fn errors_stay_within_their_bounds(v in proptest::collection::vec(-1.0f32..1.0, 6)) {
            let single = |i: usize| Rounded::exact(v[i]);
            let double = |i: usize| Rounded::exact(f64::from(v[i]));
            let chain = single(0).plus_all(&[single(1)]).minus_product(single(2), single(3)).over(single(4)).times(single(5));
            let exact = double(0).plus_all(&[double(1)]).minus_product(double(2), double(3)).over(double(4)).times(double(5));
            let error = (f64::from(chain.value) - exact.value).abs();
            prop_assert!(error <= chain.error + exact.error, "{chain:?} for {exact:?}");
            let sums = |forwards: bool| {
                let products = [(single(1), single(2)), (single(3), single(4)), (single(0), single(5))];
                if forwards {
                    chain.minus_products(products.into_iter())
                } else {
                    chain.minus_products(products.into_iter().rev())
                }
            };
            prop_assert!(sums(true).agrees_with(sums(false).value));
            let sums = |order: [usize; 3]| chain.plus_all(&order.map(single));
            prop_assert!(sums([0, 1, 2]).agrees_with(sums([2, 0, 1]).value));
        }
    }
}
