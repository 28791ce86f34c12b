//! Factors: made, renewed, and what is known of them.

use std::ffi::c_char;
use std::sync::RwLock;

use luge::num_complex::Complex;
use luge::{Analysis, Error, Factors, Inform, Refactorized, Solver};

use crate::handle::{
    Handle, array, check_wanted, copy_numbers, copy_text, fill, fill_wanted, free, guarded, put,
    read, required_mut, size, state, write,
};
use crate::matrix::{Integers, Matrix, Typed, Value, luge_matrix, with_typed};
use crate::report::{in_words, luge_inform, luge_refactorized};
use crate::solver::luge_analysis;
use crate::status::{Failure, Outcome, luge_status};

/// The factors of a matrix. Calls that take a const pointer only read them, so several threads may solve with the same
/// factors at once; calls that renew them need them for themselves.
pub struct luge_factors {
    _private: (),
}

impl Handle for luge_factors {
    type State = FactorsState;
    const TAG: u64 = 0x6c75_6765_6661_6331;
    const NAME: &'static str = "luge_factors";
}

/// An analysis for any type of values.
pub(crate) type AnyAnalysis =
    Typed<Analysis<f64>, Analysis<f32>, Analysis<Complex<f64>>, Analysis<Complex<f32>>>;

/// Factors of any type of values.
pub(crate) type AnyFactors =
    Typed<Factors<f64>, Factors<f32>, Factors<Complex<f64>>, Factors<Complex<f32>>>;

/// What is behind factors.
pub(crate) struct FactorsState {
    pub(crate) n: usize,
    /// Entries as they are stored.
    pub(crate) nnz: usize,
    pub(crate) factors: RwLock<AnyFactors>,
    /// For its stream.
    #[cfg_attr(not(feature = "gpu"), allow(dead_code))]
    pub(crate) solver: Solver,
}

/// A type of values, and the factors of it.
pub(crate) trait FactorsOf: Value {
    fn analysis(any: &AnyAnalysis) -> Option<&Analysis<Self>>;
    fn factors(any: &AnyFactors) -> Option<&Factors<Self>>;
    fn factors_mut(any: &mut AnyFactors) -> Option<&mut Factors<Self>>;
    fn wrap(factors: Factors<Self>) -> AnyFactors;
}

macro_rules! factors_of {
    ($type:ty, $variant:ident) => {
        impl FactorsOf for $type {
            fn analysis(any: &AnyAnalysis) -> Option<&Analysis<Self>> {
                match any {
                    Typed::$variant(analysis) => Some(analysis),
                    _ => None,
                }
            }

            fn factors(any: &AnyFactors) -> Option<&Factors<Self>> {
                match any {
                    Typed::$variant(factors) => Some(factors),
                    _ => None,
                }
            }

            fn factors_mut(any: &mut AnyFactors) -> Option<&mut Factors<Self>> {
                match any {
                    Typed::$variant(factors) => Some(factors),
                    _ => None,
                }
            }

            fn wrap(factors: Factors<Self>) -> AnyFactors {
                Typed::$variant(factors)
            }
        }
    };
}
factors_of!(f64, F64);
factors_of!(f32, F32);
factors_of!(Complex<f64>, ComplexF64);
factors_of!(Complex<f32>, ComplexF32);

/// The name in C of the type of values.
fn type_of(any: &AnyFactors) -> &'static str {
    fn name<T: Value>(_: &Factors<T>) -> &'static str {
        T::C_NAME
    }
    with_typed!(any, factors => name(factors))
}

/// As [`type_of`], for an analysis.
fn analyzed_type(any: &AnyAnalysis) -> &'static str {
    fn name<T: Value>(_: &Analysis<T>) -> &'static str {
        T::C_NAME
    }
    with_typed!(any, analysis => name(analysis))
}

pub(crate) fn of_type<T: FactorsOf>(any: &AnyFactors) -> Outcome<&Factors<T>> {
    T::factors(any).ok_or_else(|| other_type::<T>(type_of(any)))
}

fn of_type_mut<T: FactorsOf>(any: &mut AnyFactors) -> Outcome<&mut Factors<T>> {
    let found = type_of(any);
    T::factors_mut(any).ok_or_else(|| other_type::<T>(found))
}

fn analysis_of_type<T: FactorsOf>(any: &AnyAnalysis) -> Outcome<&Analysis<T>> {
    T::analysis(any).ok_or_else(|| other_type::<T>(analyzed_type(any)))
}

/// Values or vectors are of another type than the matrix.
fn other_type<T: Value>(analyzed: &str) -> Failure {
    let message = format!(
        "the numbers are {}; the matrix that was analyzed has {analyzed}",
        T::C_NAME,
    );
    Failure::new(luge_status::LUGE_ERROR_TYPE, message)
}

fn no_values() -> Failure {
    Failure::null("matrix.values")
}

/// Factorizes a matrix of the pattern that was analyzed, or of a part of it: an entry that is not stored is zero.
///
/// `matrix`: with values of the analyzed type. It may be stored another way than the analyzed one, by rows or by columns and
/// with other integers; it takes a transposition, or a search, if it is. `out`: output, the handle, which the caller frees by
/// luge_factors_free; NULL if the call fails.
///
/// Errors: LUGE_ERROR_TYPE, LUGE_ERROR_MATRIX, LUGE_ERROR_SIZE, LUGE_ERROR_EXTRA_ENTRY, LUGE_ERROR_NOT_FINITE,
/// LUGE_ERROR_NOT_SYMMETRIC, LUGE_ERROR_NOT_POSITIVE_DEFINITE, LUGE_ERROR_ZERO_PIVOT, LUGE_ERROR_NO_PIVOTS,
/// LUGE_ERROR_ZEROS_ONLY, LUGE_ERROR_SINGULAR_TO_ROUNDING, LUGE_ERROR_OVERFLOW, LUGE_ERROR_OUT_OF_MEMORY,
/// LUGE_ERROR_CANCELLED, LUGE_ERROR_DEVICE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_factorize(
    analysis: *const luge_analysis,
    matrix: *const luge_matrix,
    out: *mut *mut luge_factors,
) -> luge_status {
    let make = || {
        // SAFETY: the caller passes NULL or a handle, and NULL or a matrix.
        let (analysis, matrix) = unsafe { (state(analysis, "analysis")?, Matrix::new(matrix)?) };
        let factors = match &matrix.values {
            None => return Err(no_values()),
            Some(values) => {
                with_typed!(values, values => factorize(&analysis.analysis, &matrix, values)?)
            }
        };
        Ok(FactorsState {
            n: analysis.n,
            nnz: analysis.nnz,
            factors: RwLock::new(factors),
            solver: analysis.solver.clone(),
        })
    };
    // SAFETY: the caller passes NULL or room for a pointer.
    guarded(|| unsafe { put(out, make) })
}

fn factorize<T: FactorsOf>(
    analysis: &AnyAnalysis,
    matrix: &Matrix<'_>,
    values: &[T],
) -> Outcome<AnyFactors> {
    let analysis = analysis_of_type::<T>(analysis)?;
    let factors = match &matrix.arrays {
        Integers::I32(arrays) => analysis.factorize(arrays.with(values)),
        Integers::I64(arrays) => analysis.factorize(arrays.with(values)),
    };
    Ok(T::wrap(factors?))
}

/// As luge_factorize, for the values alone, in the order in which the analyzed matrix is stored.
///
/// `values`: `count` numbers, as many as the analyzed matrix has entries.
///
/// Errors: LUGE_ERROR_SIZE if `count` is another number; otherwise those of luge_factorize.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_factorize_values(
    analysis: *const luge_analysis,
    count: i64,
    values: *const f64,
    out: *mut *mut luge_factors,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { factorize_values(analysis, count, values, out) }
}

/// As luge_factorize_values, for float.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_factorize_values_f32(
    analysis: *const luge_analysis,
    count: i64,
    values: *const f32,
    out: *mut *mut luge_factors,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { factorize_values(analysis, count, values, out) }
}

/// As luge_factorize_values, for complex numbers of double.
///
/// `values`: `count` numbers, each of two double: the real and the imaginary part.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_factorize_values_complex(
    analysis: *const luge_analysis,
    count: i64,
    values: *const f64,
    out: *mut *mut luge_factors,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { factorize_values(analysis, count, values.cast::<Complex<f64>>(), out) }
}

/// As luge_factorize_values, for complex numbers of float.
///
/// `values`: `count` numbers, each of two float.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_factorize_values_complex_f32(
    analysis: *const luge_analysis,
    count: i64,
    values: *const f32,
    out: *mut *mut luge_factors,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { factorize_values(analysis, count, values.cast::<Complex<f32>>(), out) }
}

/// # Safety
///
/// Pointers are NULL or what the head of luge.h requires of them.
unsafe fn factorize_values<T: FactorsOf>(
    analysis: *const luge_analysis,
    count: i64,
    values: *const T,
    out: *mut *mut luge_factors,
) -> luge_status {
    let make = || {
        // SAFETY: the caller passes NULL or a handle.
        let analysis = unsafe { state(analysis, "analysis") }?;
        check_count(count, analysis.nnz)?;
        // SAFETY: the caller passes NULL or as many values.
        let values = unsafe { array(values, analysis.nnz, "values") }?;
        let typed = analysis_of_type::<T>(&analysis.analysis)?;
        Ok(FactorsState {
            n: analysis.n,
            nnz: analysis.nnz,
            factors: RwLock::new(T::wrap(typed.factorize_values(values)?)),
            solver: analysis.solver.clone(),
        })
    };
    // SAFETY: the caller passes NULL or room for a pointer.
    guarded(|| unsafe { put(out, make) })
}

/// Refuses values that are not one for each entry.
pub(crate) fn check_count(count: i64, nnz: usize) -> Outcome {
    if size(count, "count")? == nnz {
        return Ok(());
    }
    let message =
        format!("there are {count} values; the matrix that was analyzed has {nnz} entries");
    Err(Failure::new(luge_status::LUGE_ERROR_SIZE, message))
}

/// Frees factors and sets `*factors` to NULL. NULL, and a pointer to NULL, are allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_factors_free(factors: *mut *mut luge_factors) -> luge_status {
    // SAFETY: the caller passes NULL or a pointer to a handle.
    guarded(|| unsafe { free(factors) })
}

/// Computes the factors of a new matrix of the pattern that was analyzed, or of a part of it, in the memory of the old ones
/// and with the old pivots, as long as these serve. If they do not, new ones are found, or the error says that there are none.
///
/// `matrix`: as for luge_factorize. `outcome`: output, or NULL; `outcome->size` is set by the caller.
///
/// Errors: those of luge_factorize; LUGE_ERROR_UNSTABLE with LUGE_PIVOTING_STATIC; LUGE_ERROR_BUSY. After an error the factors
/// are still those of the last matrix.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_refactorize(
    factors: *mut luge_factors,
    matrix: *const luge_matrix,
    outcome: *mut luge_refactorized,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, NULL or a structure, and NULL or a matrix.
        let (factors, matrix) = unsafe {
            check_wanted(outcome, "outcome")?;
            (state(factors, "factors")?, Matrix::new(matrix)?)
        };
        let mut any = write(&factors.factors)?;
        let refactorized = match &matrix.values {
            None => return Err(no_values()),
            Some(values) => with_typed!(values, values => refactorize(&mut any, &matrix, values)?),
        };
        // SAFETY: as above.
        unsafe { fill_wanted(outcome, "outcome", (&refactorized).into()) }
    })
}

fn refactorize<T: FactorsOf>(
    any: &mut AnyFactors,
    matrix: &Matrix<'_>,
    values: &[T],
) -> Outcome<Refactorized> {
    let factors = of_type_mut::<T>(any)?;
    let refactorized = match &matrix.arrays {
        Integers::I32(arrays) => factors.refactorize(arrays.with(values)),
        Integers::I64(arrays) => factors.refactorize(arrays.with(values)),
    };
    Ok(refactorized?)
}

/// As luge_refactorize, for the values alone, in the order in which the analyzed matrix is stored.
///
/// `values`: `count` numbers, as many as the analyzed matrix has entries. `outcome`: output, or NULL.
///
/// Errors: LUGE_ERROR_SIZE if `count` is another number; otherwise those of luge_refactorize.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_refactorize_values(
    factors: *mut luge_factors,
    count: i64,
    values: *const f64,
    outcome: *mut luge_refactorized,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { refactorize_values(factors, count, values, outcome) }
}

/// As luge_refactorize_values, for float.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_refactorize_values_f32(
    factors: *mut luge_factors,
    count: i64,
    values: *const f32,
    outcome: *mut luge_refactorized,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { refactorize_values(factors, count, values, outcome) }
}

/// As luge_refactorize_values, for complex numbers of double.
///
/// `values`: `count` numbers, each of two double: the real and the imaginary part.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_refactorize_values_complex(
    factors: *mut luge_factors,
    count: i64,
    values: *const f64,
    outcome: *mut luge_refactorized,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { refactorize_values(factors, count, values.cast::<Complex<f64>>(), outcome) }
}

/// As luge_refactorize_values, for complex numbers of float.
///
/// `values`: `count` numbers, each of two float.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_refactorize_values_complex_f32(
    factors: *mut luge_factors,
    count: i64,
    values: *const f32,
    outcome: *mut luge_refactorized,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { refactorize_values(factors, count, values.cast::<Complex<f32>>(), outcome) }
}

/// # Safety
///
/// Pointers are NULL or what the head of luge.h requires of them.
unsafe fn refactorize_values<T: FactorsOf>(
    factors: *mut luge_factors,
    count: i64,
    values: *const T,
    outcome: *mut luge_refactorized,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, and NULL or a structure.
        let factors = unsafe {
            check_wanted(outcome, "outcome")?;
            state(factors, "factors")?
        };
        check_count(count, factors.nnz)?;
        // SAFETY: the caller passes NULL or as many values.
        let values = unsafe { array(values, factors.nnz, "values") }?;
        let mut any = write(&factors.factors)?;
        let typed = of_type_mut::<T>(&mut any)?;
        let refactorized = typed.refactorize_values(values)?;
        // SAFETY: as above.
        unsafe { fill_wanted(outcome, "outcome", (&refactorized).into()) }
    })
}

/// As luge_refactorize_values with all values of the matrix, where only some have changed: the outcome is the same, bit for bit.
/// Only what depends on these entries is factorized again, from the second such call on: on the CPU, and of general matrices
/// on a device; of others on a device all is.
///
/// `places`: `count` positions among the stored entries of the analyzed matrix, from 0 on, in any order. `values`: as many
/// numbers, the new values there. `outcome`: output, or NULL.
///
/// Errors: LUGE_ERROR_ARGUMENT if `count` is negative, for a place that no entry has, and for one that comes twice with different
/// values; otherwise those of luge_refactorize.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_refactorize_changed(
    factors: *mut luge_factors,
    count: i64,
    places: *const i64,
    values: *const f64,
    outcome: *mut luge_refactorized,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { refactorize_changed(factors, count, places, values, outcome) }
}

/// As luge_refactorize_changed, for float.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_refactorize_changed_f32(
    factors: *mut luge_factors,
    count: i64,
    places: *const i64,
    values: *const f32,
    outcome: *mut luge_refactorized,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe { refactorize_changed(factors, count, places, values, outcome) }
}

/// As luge_refactorize_changed, for complex numbers of double.
///
/// `values`: `count` numbers, each of two double: the real and the imaginary part.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_refactorize_changed_complex(
    factors: *mut luge_factors,
    count: i64,
    places: *const i64,
    values: *const f64,
    outcome: *mut luge_refactorized,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe {
        refactorize_changed(
            factors,
            count,
            places,
            values.cast::<Complex<f64>>(),
            outcome,
        )
    }
}

/// As luge_refactorize_changed, for complex numbers of float.
///
/// `values`: `count` numbers, each of two float.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_refactorize_changed_complex_f32(
    factors: *mut luge_factors,
    count: i64,
    places: *const i64,
    values: *const f32,
    outcome: *mut luge_refactorized,
) -> luge_status {
    // SAFETY: as this call requires.
    unsafe {
        refactorize_changed(
            factors,
            count,
            places,
            values.cast::<Complex<f32>>(),
            outcome,
        )
    }
}

/// # Safety
///
/// Pointers are NULL or what the head of luge.h requires of them.
unsafe fn refactorize_changed<T: FactorsOf>(
    factors: *mut luge_factors,
    count: i64,
    places: *const i64,
    values: *const T,
    outcome: *mut luge_refactorized,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, and NULL or a structure.
        let factors = unsafe {
            check_wanted(outcome, "outcome")?;
            state(factors, "factors")?
        };
        let count = size(count, "count")?;
        // SAFETY: the caller passes NULL or as many places and values.
        let (places, values) = unsafe {
            (
                array(places, count, "places")?,
                array(values, count, "values")?,
            )
        };
        let places = places.iter().map(|&place| {
            let negative = || Failure::argument(format!("there is no entry at place {place}"));
            usize::try_from(place).map_err(|_| negative())
        });
        let places = places.collect::<Outcome<Vec<usize>>>()?;
        let mut any = write(&factors.factors)?;
        let typed = of_type_mut::<T>(&mut any)?;
        let refactorized = typed.refactorize_changed(&places, values)?;
        // SAFETY: as above.
        unsafe { fill_wanted(outcome, "outcome", (&refactorized).into()) }
    })
}

/// Factorizes the same matrix again with the next stricter threshold of pivots, for callers who are not content with a
/// solution: up to 0.1, then 1, or 0.5 for a symmetric matrix.
///
/// `threshold`: output, the new threshold, or NaN where there is none and nothing happened.
///
/// Errors: those of luge_refactorize; the factors are then those that they were.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_raise_threshold(
    factors: *mut luge_factors,
    threshold: *mut f64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, and NULL or a number.
        let (factors, threshold) = unsafe {
            (
                state(factors, "factors")?,
                required_mut(threshold, "threshold")?,
            )
        };
        let mut any = write(&factors.factors)?;
        let raised = with_typed!(&mut *any, factors => factors.raise_threshold())?;
        *threshold = raised.unwrap_or(f64::NAN);
        Ok(())
    })
}

/// Reads what the facade knows of factors.
///
/// # Safety
///
/// `factors` is NULL or a handle.
unsafe fn ask<R>(
    factors: *const luge_factors,
    question: impl FnOnce(&AnyFactors) -> Outcome<R>,
) -> Outcome<R> {
    // SAFETY: as the caller says.
    let factors = unsafe { state(factors, "factors") }?;
    question(&*read(&factors.factors)?)
}

fn inform(any: &AnyFactors) -> &Inform {
    with_typed!(any, factors => factors.inform())
}

/// The report of factors: sizes, pivots, growth, the backward error of a probe, times.
///
/// `inform`: output; `inform->size` is set by the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_factors_inform(
    factors: *const luge_factors,
    inform: *mut luge_inform,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, and NULL or a structure whose size is set.
        unsafe {
            let found = ask(factors, |any| Ok(self::inform(any).into()))?;
            fill(inform, "inform", found)
        }
    })
}

/// The whole report of factors as JSON, with everything that luge_inform has no field for.
///
/// `text`: output of `capacity` bytes; as much as there is room for is written, with a NUL at the end. NULL if `capacity` is
/// 0. `length`: output, bytes of the whole text without the NUL, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_factors_json(
    factors: *const luge_factors,
    capacity: usize,
    text: *mut c_char,
    length: *mut usize,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, room for `capacity` bytes, and NULL or a number.
        unsafe {
            let json = ask(factors, |any| Ok(inform(any).to_json()))?;
            copy_text(&json, capacity, text, length)
        }
    })
}

/// The warnings of factors in words, a line each; empty if there is none.
///
/// `capacity`, `text`, `length`: as for luge_factors_json.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_factors_warnings(
    factors: *const luge_factors,
    capacity: usize,
    text: *mut c_char,
    length: *mut usize,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, room for `capacity` bytes, and NULL or a number.
        unsafe {
            let words = ask(factors, |any| Ok(in_words(&inform(any).warnings)))?;
            copy_text(&words, capacity, text, length)
        }
    })
}

/// The determinant of a real matrix, mantissa * 2^exponent.
///
/// `mantissa`: output, of magnitude at least 0.5 and below 1, or zero. `exponent`: output.
///
/// Errors: LUGE_ERROR_TYPE if the matrix is complex: luge_determinant_complex.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_determinant(
    factors: *const luge_factors,
    mantissa: *mut f64,
    exponent: *mut i64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, and NULL or numbers.
        unsafe {
            let found = ask(factors, |any| match any {
                Typed::F64(factors) => Ok(factors.determinant()?),
                Typed::F32(factors) => Ok(factors.determinant()?),
                Typed::ComplexF64(_) | Typed::ComplexF32(_) => Err(other_type::<f64>(type_of(any))),
            })?;
            let mantissa = required_mut(mantissa, "mantissa")?;
            *required_mut(exponent, "exponent")? = found.exponent;
            *mantissa = found.mantissa;
        }
        Ok(())
    })
}

/// The determinant of any matrix, mantissa * 2^exponent.
///
/// `mantissa`: output of two numbers, the real and the imaginary part, the larger of which is of magnitude at least 0.5 and below
/// 1, or both are zero. `exponent`: output.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_determinant_complex(
    factors: *const luge_factors,
    mantissa: *mut f64,
    exponent: *mut i64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, NULL or two numbers, and NULL or a number.
        unsafe {
            let found = ask(factors, |any| {
                let of_real = |found: luge::Determinant| luge::Determinant {
                    mantissa: Complex::from(found.mantissa),
                    exponent: found.exponent,
                };
                Ok(match any {
                    Typed::F64(factors) => of_real(factors.determinant()?),
                    Typed::F32(factors) => of_real(factors.determinant()?),
                    Typed::ComplexF64(factors) => factors.determinant()?,
                    Typed::ComplexF32(factors) => factors.determinant()?,
                })
            })?;
            let mantissa = required_mut(mantissa.cast::<Complex<f64>>(), "mantissa")?;
            *required_mut(exponent, "exponent")? = found.exponent;
            *mantissa = found.mantissa;
        }
        Ok(())
    })
}

/// Estimates the reciprocal condition number of the scaled matrix in the 1-norm, by a few solves; with
/// LUGE_OPTION_ESTIMATE_CONDITION it is known already.
///
/// `rcond`: output.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_rcond(factors: *const luge_factors, rcond: *mut f64) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, and NULL or a number.
        unsafe {
            let rcond = required_mut(rcond, "rcond")?;
            *rcond = ask(factors, |any| {
                Ok(with_typed!(any, factors => factors.rcond())?)
            })?;
        }
        Ok(())
    })
}

/// Numbers of positive, negative and zero eigenvalues of a real symmetric or a Hermitian matrix, by the law of inertia.
///
/// `positive`, `negative`, `zero`: outputs. No solve is needed.
///
/// Errors: LUGE_ERROR_NOT_APPLICABLE if the matrix was factorized as a general or a complex symmetric one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_inertia(
    factors: *const luge_factors,
    positive: *mut i64,
    negative: *mut i64,
    zero: *mut i64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, and NULL or numbers.
        unsafe {
            let found = ask(factors, |any| {
                with_typed!(any, factors => factors.inertia()).ok_or_else(no_inertia)
            })?;
            let counts = [
                (positive, "positive", found.positive),
                (negative, "negative", found.negative),
                (zero, "zero", found.zero),
            ];
            for (to, name, _) in counts {
                required_mut(to, name)?;
            }
            for (to, name, count) in counts {
                *required_mut(to, name)? = count as i64;
            }
        }
        Ok(())
    })
}

fn no_inertia() -> Failure {
    Failure::not_applicable(
        "the matrix was factorized as a general one, or a complex symmetric one, which has no inertia",
    )
}

pub(crate) fn not_symmetric() -> Failure {
    Failure::not_applicable("the matrix was factorized as a general one")
}

/// The columns whose pivots were replaced, ascending.
///
/// `columns`: output of `capacity` numbers, from 0, or NULL; no more than `capacity` are written. `count`: output, how many
/// there are.
///
/// Errors: LUGE_ERROR_NOT_APPLICABLE where only their number is known (num_perturbed of luge_inform): with neither a
/// regularization nor LUGE_OPTION_MAX_DELAYS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_perturbed_columns(
    factors: *const luge_factors,
    capacity: i64,
    columns: *mut i64,
    count: *mut i64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, NULL or room for `capacity` numbers, and NULL or a number.
        unsafe {
            let found = ask(factors, |any| {
                let found = with_typed!(any, factors => factors.perturbed_columns());
                found.ok_or_else(|| {
                    Failure::not_applicable("only the number of replaced pivots is known")
                })
            })?;
            let count = required_mut(count, "count")?;
            copy_numbers(&found, capacity, columns, "columns")?;
            *count = found.len() as i64;
        }
        Ok(())
    })
}

/// Handles may go from thread to thread, and be read by several at once.
const fn is_shared<S: Send + Sync>() {}
const _: () = {
    is_shared::<FactorsState>();
    is_shared::<Error>();
};
