//! NumPy arrays as slices of the solver's types.

use numpy::{Element, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// One-dimensional, contiguous, of the type `T`: `None` where it has another one.
pub(crate) fn typed<'py, T: Element>(
    array: &Bound<'py, PyAny>,
) -> Option<PyReadonlyArray1<'py, T>> {
    array.extract().ok()
}

/// As [`typed`], or an exception that names the array.
pub(crate) fn readable<'py, T: Element>(
    array: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<PyReadonlyArray1<'py, T>> {
    typed(array).ok_or_else(|| {
        PyTypeError::new_err(format!(
            "{name} must be a one-dimensional array of another type"
        ))
    })
}

/// As [`readable`], to be written.
pub(crate) fn writable<'py, T: Element>(
    array: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<PyReadwriteArray1<'py, T>> {
    array.extract().map_err(|_| {
        PyTypeError::new_err(format!(
            "{name} must be a one-dimensional, writable array of another type"
        ))
    })
}

/// Refuses an array of the wrong length, for which the solver would panic.
pub(crate) fn check_length(found: usize, expected: usize, name: &str) -> PyResult<()> {
    if found == expected {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{name} has {found} numbers; {expected} are expected"
    )))
}

/// Evaluates `$body` with `$o` and `$i` the slices of offsets and indices, in the integer type that both have.
macro_rules! with_indices {
    ($offsets:expr, $indices:expr, |$o:ident, $i:ident| $body:expr) => {
        with_indices!(@ $offsets, $indices, $o, $i, $body, i32, i64, u32, u64)
    };
    (@ $offsets:expr, $indices:expr, $o:ident, $i:ident, $body:expr, $($integer:ty),*) => {{
        $(
            if let (Some(offsets), Some(indices)) = (
                $crate::arrays::typed::<$integer>($offsets),
                $crate::arrays::typed::<$integer>($indices),
            ) {
                let ($o, $i) = (offsets.as_slice()?, indices.as_slice()?);
                $body
            } else
        )*
        {
            Err(pyo3::exceptions::PyTypeError::new_err(
                "indptr and indices must be arrays of one type: int32, int64, uint32 or uint64",
            ))
        }
    }};
}
pub(crate) use with_indices;
