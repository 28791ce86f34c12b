//! The types of numbers that matrices have, and what exists for each of them.

use luge::num_complex::Complex;
use luge::{Analysis, BatchFactors, Factors, Scalar};
use numpy::Element;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// A type of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarType {
    Single,
    Double,
    ComplexSingle,
    ComplexDouble,
}

impl<'py> FromPyObject<'_, 'py> for ScalarType {
    type Error = PyErr;

    /// From NumPy's letter.
    fn extract(letter: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match letter.extract::<char>()? {
            'f' => Ok(Self::Single),
            'd' => Ok(Self::Double),
            'F' => Ok(Self::ComplexSingle),
            'D' => Ok(Self::ComplexDouble),
            other => Err(PyTypeError::new_err(format!(
                "matrices of the type '{other}' are not solved"
            ))),
        }
    }
}

/// What there is of one of the types.
pub(crate) enum Typed<S, D, CS, CD> {
    Single(S),
    Double(D),
    ComplexSingle(CS),
    ComplexDouble(CD),
}

pub(crate) type AnyAnalysis =
    Typed<Analysis<f32>, Analysis<f64>, Analysis<Complex<f32>>, Analysis<Complex<f64>>>;
pub(crate) type AnyFactors =
    Typed<Factors<f32>, Factors<f64>, Factors<Complex<f32>>, Factors<Complex<f64>>>;
pub(crate) type AnyBatch = Typed<
    BatchFactors<f32>,
    BatchFactors<f64>,
    BatchFactors<Complex<f32>>,
    BatchFactors<Complex<f64>>,
>;

/// Evaluates `$body` with what is in `$any`, whichever type it is of.
macro_rules! of_any {
    ($any:expr, |$inner:ident| $body:expr) => {
        match $any {
            $crate::scalar::Typed::Single($inner) => $body,
            $crate::scalar::Typed::Double($inner) => $body,
            $crate::scalar::Typed::ComplexSingle($inner) => $body,
            $crate::scalar::Typed::ComplexDouble($inner) => $body,
        }
    };
}
pub(crate) use of_any;

/// Evaluates `$body` with `$scalar` for a [`ScalarType`].
macro_rules! by_type {
    ($type:expr, $scalar:ident => $body:expr) => {{
        use luge::num_complex::Complex;
        use $crate::scalar::ScalarType;
        match $type {
            ScalarType::Single => {
                type $scalar = f32;
                $body
            }
            ScalarType::Double => {
                type $scalar = f64;
                $body
            }
            ScalarType::ComplexSingle => {
                type $scalar = Complex<f32>;
                $body
            }
            ScalarType::ComplexDouble => {
                type $scalar = Complex<f64>;
                $body
            }
        }
    }};
}
pub(crate) use by_type;

/// Evaluates `$body` with `$scalar` for a real type, or `$complex` for another one: data on a device is real.
macro_rules! by_real_type {
    ($type:expr, $scalar:ident => $body:expr, else $complex:expr) => {{
        use $crate::scalar::ScalarType;
        match $type {
            ScalarType::Single => {
                type $scalar = f32;
                $body
            }
            ScalarType::Double => {
                type $scalar = f64;
                $body
            }
            ScalarType::ComplexSingle | ScalarType::ComplexDouble => $complex,
        }
    }};
}
pub(crate) use by_real_type;

/// A scalar of a matrix, which finds what is of its type. Callers ask for what is there: the type is told beside it.
pub(crate) trait Number: Scalar + Element {
    fn analysis(any: &AnyAnalysis) -> &Analysis<Self>;
    fn of_analysis(analysis: Analysis<Self>) -> AnyAnalysis;
    fn factors(any: &AnyFactors) -> &Factors<Self>;
    fn factors_mut(any: &mut AnyFactors) -> &mut Factors<Self>;
    fn of_factors(factors: Factors<Self>) -> AnyFactors;
    fn batch(any: &AnyBatch) -> &BatchFactors<Self>;
    fn batch_mut(any: &mut AnyBatch) -> &mut BatchFactors<Self>;
    fn of_batch(batch: BatchFactors<Self>) -> AnyBatch;
}

macro_rules! number {
    ($scalar:ty, $variant:ident) => {
        impl Number for $scalar {
            fn analysis(any: &AnyAnalysis) -> &Analysis<Self> {
                match any {
                    Typed::$variant(analysis) => analysis,
                    _ => unreachable!("an analysis keeps its type"),
                }
            }

            fn of_analysis(analysis: Analysis<Self>) -> AnyAnalysis {
                Typed::$variant(analysis)
            }

            fn factors(any: &AnyFactors) -> &Factors<Self> {
                match any {
                    Typed::$variant(factors) => factors,
                    _ => unreachable!("factors keep their type"),
                }
            }

            fn factors_mut(any: &mut AnyFactors) -> &mut Factors<Self> {
                match any {
                    Typed::$variant(factors) => factors,
                    _ => unreachable!("factors keep their type"),
                }
            }

            fn of_factors(factors: Factors<Self>) -> AnyFactors {
                Typed::$variant(factors)
            }

            fn batch(any: &AnyBatch) -> &BatchFactors<Self> {
                match any {
                    Typed::$variant(batch) => batch,
                    _ => unreachable!("a batch keeps its type"),
                }
            }

            fn batch_mut(any: &mut AnyBatch) -> &mut BatchFactors<Self> {
                match any {
                    Typed::$variant(batch) => batch,
                    _ => unreachable!("a batch keeps its type"),
                }
            }

            fn of_batch(batch: BatchFactors<Self>) -> AnyBatch {
                Typed::$variant(batch)
            }
        }
    };
}
number!(f32, Single);
number!(f64, Double);
number!(Complex<f32>, ComplexSingle);
number!(Complex<f64>, ComplexDouble);
