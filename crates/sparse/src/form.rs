//! Symmetric and Hermitian matrices.

use crate::scalar::Scalar;

/// How an entry of a matrix that is given by one triangle determines its counterpart across the diagonal.
///
/// Over the real numbers both forms are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Form {
    /// A = Aᵀ: the counterpart is the same number.
    #[default]
    Symmetric,
    /// A = Aᴴ: the counterpart is the complex conjugate, and the diagonal is real.
    Hermitian,
}

impl Form {
    /// Whether counterparts of numbers of the type `F` are other numbers.
    #[inline(always)]
    pub const fn conjugates<F: Scalar>(self) -> bool {
        matches!(self, Self::Hermitian) && F::COMPONENTS > 1
    }

    /// The counterpart of an entry.
    #[inline(always)]
    pub fn counterpart<F: Scalar>(self, entry: F) -> F {
        match self {
            Self::Symmetric => entry,
            Self::Hermitian => entry.conjugate(),
        }
    }

    /// An entry of the diagonal, without the imaginary part that rounding leaves where it is real.
    #[inline(always)]
    pub fn on_diagonal<F: Scalar>(self, entry: F) -> F {
        match self {
            Self::Symmetric => entry,
            Self::Hermitian => F::from_real(entry.real()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;

    #[test]
    fn counterparts_of_complex_numbers_depend_on_the_form() {
        let z = Complex::new(3.0, -4.0);
        assert_eq!(Form::Symmetric.counterpart(z), z);
        assert_eq!(Form::Symmetric.on_diagonal(z), z);
        assert_eq!(Form::Hermitian.counterpart(z), Complex::new(3.0, 4.0));
        assert_eq!(Form::Hermitian.on_diagonal(z), Complex::new(3.0, 0.0));
        assert!(Form::Hermitian.conjugates::<Complex<f32>>());
        assert!(!Form::Symmetric.conjugates::<Complex<f32>>());
        assert!(!Form::Hermitian.conjugates::<f64>());
        assert_eq!(Form::Hermitian.counterpart(-3.0f64), -3.0);
        assert_eq!(Form::Hermitian.on_diagonal(-3.0f64), -3.0);
    }
}
