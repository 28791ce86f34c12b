//! Errors of the solver as Python exceptions.
//!
//! The exceptions are classes of `luge._errors`, in Python, for they have two bases each: [`luge::Error`] is told by its kind,
//! its message and its fields, and a function there makes the exception.

use luge::{Error, MatrixError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// `luge._errors.exception`.
static EXCEPTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception for `error`.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    match make(py, error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The exception for `error`, not raised.
pub(crate) fn make<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    let kind = describe(error, &fields)?;
    let make = EXCEPTION.import(py, "luge._errors", "exception")?;
    make.call1((kind, error.to_string(), fields))
}

/// Writes the fields of `error` and returns its kind.
fn describe(error: &Error, fields: &Bound<'_, PyDict>) -> PyResult<&'static str> {
    macro_rules! set {
        ($kind:literal $(, $name:ident)*) => {{
            $(fields.set_item(stringify!($name), $name)?;)*
            $kind
        }};
    }
    Ok(match error {
        Error::InvalidOption {
            field,
            value,
            range,
        } => set!("InvalidOption", field, value, range),
        Error::RealOnly { option, value } => {
            fields.set_item("field", option)?;
            fields.set_item("value", value)?;
            "RealOnly"
        }
        Error::PermutationLength { permuted, n } => set!("PermutationLength", permuted, n),
        Error::SignsLength { signs, n } => set!("SignsLength", signs, n),
        Error::InvalidMatrix(error) => {
            describe_matrix(error, fields)?;
            "InvalidMatrix"
        }
        Error::NotSquare { rows, cols } => set!("NotSquare", rows, cols),
        Error::OtherSize { rows, cols, n } => set!("OtherSize", rows, cols, n),
        Error::OtherCount { places, values } => set!("OtherCount", places, values),
        Error::NoEntry { place, nnz } => set!("NoEntry", place, nnz),
        Error::TwoValues { place } => set!("TwoValues", place),
        Error::NotFinite { row, column } => set!("NotFinite", row, column),
        Error::RightHandSideNotFinite { row, column } => {
            set!("RightHandSideNotFinite", row, column)
        }
        Error::StructurallySingular {
            rank,
            unmatched_rows,
            unmatched_columns,
        } => set!(
            "StructurallySingular",
            rank,
            unmatched_rows,
            unmatched_columns
        ),
        Error::ZerosOnly {
            rank,
            unmatched_rows,
            unmatched_columns,
        } => set!("ZerosOnly", rank, unmatched_rows, unmatched_columns),
        Error::ZeroPivot { column } => set!("ZeroPivot", column),
        Error::NoPivots { column } => set!("NoPivots", column),
        Error::NotSymmetric { row, column } => set!("NotSymmetric", row, column),
        Error::NotHermitian { row, column } => set!("NotHermitian", row, column),
        Error::NotPositiveDefinite { column, pivot } => {
            set!("NotPositiveDefinite", column, pivot)
        }
        Error::SingularToRounding { column, rcond } => set!("SingularToRounding", column, rcond),
        Error::Overflow { column } => set!("Overflow", column),
        Error::SolutionNotFinite { row } => set!("SolutionNotFinite", row),
        Error::Unstable {
            row,
            growth,
            backward_error,
        } => set!("Unstable", row, growth, backward_error),
        Error::ExtraEntry { row, column } => set!("ExtraEntry", row, column),
        Error::OutOfMemory {
            asked,
            available,
            phase,
        } => set!("OutOfMemory", asked, available, phase),
        Error::BatchOutOfMemory {
            systems,
            fitting,
            asked,
            available,
        } => set!("BatchOutOfMemory", systems, fitting, asked, available),
        Error::System { system, error } => {
            let kind = describe(error, fields)?;
            fields.set_item("system", system)?;
            kind
        }
        Error::IndexOverflow(_) => "IndexOverflow",
        Error::Threads(_) => "Threads",
        Error::Ordering(_) => "Ordering",
        Error::FeatureOff { feature } => set!("FeatureOff", feature),
        Error::Device(_) => "Device",
        Error::Cancelled(_) => "Cancelled",
        // What a later version of the crate adds has a message all the same.
        _ => "Other",
    })
}

fn describe_matrix(error: &MatrixError, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    let (reason, compression, at) = match error {
        MatrixError::OffsetCount { compression, .. } => ("OffsetCount", compression, None),
        MatrixError::OffsetEnds { compression, .. } => ("OffsetEnds", compression, None),
        MatrixError::DecreasingOffset { compression, at } => {
            ("DecreasingOffset", compression, Some(at))
        }
        MatrixError::NotSorted {
            compression, at, ..
        } => ("NotSorted", compression, Some(at)),
        MatrixError::OutOfRange {
            compression, at, ..
        } => ("OutOfRange", compression, Some(at)),
        MatrixError::ValueCount { .. } => return fields.set_item("reason", "ValueCount"),
        _ => return Ok(()),
    };
    fields.set_item("reason", reason)?;
    fields.set_item("compression", compression.to_string())?;
    if let Some(at) = at {
        fields.set_item("at", at)?;
    }
    Ok(())
}
