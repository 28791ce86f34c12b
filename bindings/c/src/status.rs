//! Codes for errors, and the last error of each thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

use luge::{Compression, Error, MatrixError};

use crate::handle::{Versioned, copy_numbers, fill, guarded, required_mut};

/// What a call returns. Rows and columns in messages and in luge_error count from 0.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_status {
    /// The call did what it says.
    LUGE_OK = 0,
    /// A pointer that must not be NULL is NULL.
    LUGE_ERROR_NULL = 1,
    /// An argument has a value that it must not have: a negative size, a leading dimension below the order, a pointer that
    /// is not aligned, a structure whose `size` is not set, a number that is not one of an enumeration.
    LUGE_ERROR_ARGUMENT = 2,
    /// A pointer is not a handle of the kind that the call takes.
    LUGE_ERROR_HANDLE = 3,
    /// Another thread is in a call with the same handle, and one of the two calls changes it.
    LUGE_ERROR_BUSY = 4,
    /// The call does not apply: an inertia of a general matrix, vectors on a device for factors on the CPU.
    LUGE_ERROR_NOT_APPLICABLE = 5,
    /// Values or vectors are of another type (double or float, real or complex) than the matrix that was analyzed.
    LUGE_ERROR_TYPE = 6,
    /// An option has a value outside of its range, does not go with another option, or is for real matrices only and the matrix is
    /// complex.
    LUGE_ERROR_OPTION = 7,
    /// The arrays are not a sparse matrix: offsets decrease, indices are not sorted, appear twice or are out of range.
    LUGE_ERROR_MATRIX = 8,
    /// The matrix, a permutation or an array of signs is of another size than the analyzed matrix.
    LUGE_ERROR_SIZE = 9,
    /// The matrix has an entry where the analyzed matrix has none: `row`, `column`.
    LUGE_ERROR_EXTRA_ENTRY = 10,
    /// A value of the matrix is infinite or not a number: `row`, `column`.
    LUGE_ERROR_NOT_FINITE = 20,
    /// A value of a right-hand side is infinite or not a number: `row`, and in `column` the number of the right-hand side.
    LUGE_ERROR_RHS_NOT_FINITE = 21,
    /// No permutation brings entries to the whole diagonal: `rank`; luge_last_error_unmatched has rows and columns.
    LUGE_ERROR_STRUCTURALLY_SINGULAR = 22,
    /// The matrix has full structural rank only by counting stored zeros: `rank`; luge_last_error_unmatched has rows and
    /// columns.
    LUGE_ERROR_ZEROS_ONLY = 23,
    /// The matrix is singular, exactly or to rounding: `column` has no pivot.
    LUGE_ERROR_ZERO_PIVOT = 24,
    /// The search for the pivots of a symmetric matrix did not end: `column` is one that is left, or -1.
    LUGE_ERROR_NO_PIVOTS = 25,
    /// The options say that the matrix is symmetric or Hermitian, and the entry in `row`, `column` has no equal, or no conjugate,
    /// across the diagonal.
    LUGE_ERROR_NOT_SYMMETRIC = 26,
    /// The options say that the matrix is positive definite, and the pivot of `column` is not positive: `value`.
    LUGE_ERROR_NOT_POSITIVE_DEFINITE = 27,
    /// The matrix is nearer to a singular one than rounding can tell: `column` takes part most, `value` is the reciprocal
    /// condition number.
    LUGE_ERROR_SINGULAR_TO_ROUNDING = 28,
    /// The factorization overflows in `column`.
    LUGE_ERROR_OVERFLOW = 29,
    /// Entry `row` of the solution is infinite or not a number.
    LUGE_ERROR_SOLUTION_NOT_FINITE = 30,
    /// New values do not go with static pivots: `row`, the backward error in `value`, and `growth`.
    LUGE_ERROR_UNSTABLE = 31,
    /// The memory that is allowed or there does not do: `asked_bytes`, `available_bytes`.
    LUGE_ERROR_OUT_OF_MEMORY = 40,
    /// A dimension does not fit 32-bit indices.
    LUGE_ERROR_INDEX_OVERFLOW = 41,
    /// The threads that were asked for could not be started.
    LUGE_ERROR_THREADS = 42,
    /// The ordering failed for another reason.
    LUGE_ERROR_ORDERING = 43,
    /// The device, its driver, or a kernel on it failed.
    LUGE_ERROR_DEVICE = 44,
    /// The library was built without what the options ask for.
    LUGE_ERROR_FEATURE_OFF = 45,
    /// luge_solver_cancel stopped the call.
    LUGE_ERROR_CANCELLED = 46,
    /// A defect of Luge. Please report it with the message. Factors that the call would have changed can only be freed.
    LUGE_ERROR_INTERNAL = 99,
}

use luge_status::*;

/// The last error of a thread. What an error does not have is -1, or NaN.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct luge_error {
    /// sizeof(luge_error), set by the caller.
    pub size: usize,
    /// The code that the call returned.
    pub status: luge_status,
    /// Row, from 0.
    pub row: i64,
    /// Column, from 0; of a right-hand side that is not finite, its number.
    pub column: i64,
    /// Size of a maximum matching, of a structurally singular matrix.
    pub rank: i64,
    /// How many rows, and as many columns, that matching leaves out.
    pub num_unmatched: i64,
    /// Bytes that were needed, or -1.
    pub asked_bytes: i64,
    /// Bytes that are allowed, or -1.
    pub available_bytes: i64,
    /// The pivot, reciprocal condition number or backward error that the code names.
    pub value: f64,
    /// Growth of factors that are unstable.
    pub growth: f64,
}

// SAFETY: the first field is the size; the others are plain numbers, of which zeros are a value.
unsafe impl Versioned for luge_error {
    const NAME: &'static str = "luge_error";
}

/// What goes wrong in a call, before it is a code.
pub(crate) struct Failure {
    status: luge_status,
    message: String,
    /// What the facade says, where the error is its own.
    error: Option<Error>,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(status: luge_status, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            error: None,
        }
    }

    pub(crate) fn null(name: &str) -> Self {
        Self::new(LUGE_ERROR_NULL, format!("`{name}` is NULL"))
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(LUGE_ERROR_ARGUMENT, message)
    }

    pub(crate) fn not_applicable(message: impl Into<String>) -> Self {
        Self::new(LUGE_ERROR_NOT_APPLICABLE, message)
    }

    /// A panic that ends here.
    pub(crate) fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no message");
        Self::new(LUGE_ERROR_INTERNAL, format!("defect of Luge: {text}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            status: code(&error),
            message: error.to_string(),
            error: Some(error),
        }
    }
}

/// The code of an error of the facade.
fn code(error: &Error) -> luge_status {
    match error {
        Error::InvalidOption { .. } | Error::RealOnly { .. } => LUGE_ERROR_OPTION,
        Error::PermutationLength { .. }
        | Error::SignsLength { .. }
        | Error::NotSquare { .. }
        | Error::OtherSize { .. }
        | Error::OtherCount { .. } => LUGE_ERROR_SIZE,
        Error::NoEntry { .. } | Error::TwoValues { .. } => LUGE_ERROR_ARGUMENT,
        Error::InvalidMatrix(_) => LUGE_ERROR_MATRIX,
        Error::NotFinite { .. } => LUGE_ERROR_NOT_FINITE,
        Error::RightHandSideNotFinite { .. } => LUGE_ERROR_RHS_NOT_FINITE,
        Error::StructurallySingular { .. } => LUGE_ERROR_STRUCTURALLY_SINGULAR,
        Error::ZerosOnly { .. } => LUGE_ERROR_ZEROS_ONLY,
        Error::ZeroPivot { .. } => LUGE_ERROR_ZERO_PIVOT,
        Error::NoPivots { .. } => LUGE_ERROR_NO_PIVOTS,
        Error::NotSymmetric { .. } | Error::NotHermitian { .. } => LUGE_ERROR_NOT_SYMMETRIC,
        Error::NotPositiveDefinite { .. } => LUGE_ERROR_NOT_POSITIVE_DEFINITE,
        Error::SingularToRounding { .. } => LUGE_ERROR_SINGULAR_TO_ROUNDING,
        Error::Overflow { .. } => LUGE_ERROR_OVERFLOW,
        Error::SolutionNotFinite { .. } => LUGE_ERROR_SOLUTION_NOT_FINITE,
        Error::Unstable { .. } => LUGE_ERROR_UNSTABLE,
        Error::ExtraEntry { .. } => LUGE_ERROR_EXTRA_ENTRY,
        Error::OutOfMemory { .. } | Error::BatchOutOfMemory { .. } => LUGE_ERROR_OUT_OF_MEMORY,
        Error::System { error, .. } => code(error),
        Error::IndexOverflow(_) => LUGE_ERROR_INDEX_OVERFLOW,
        Error::Threads(_) => LUGE_ERROR_THREADS,
        Error::Ordering(_) => LUGE_ERROR_ORDERING,
        Error::FeatureOff { .. } => LUGE_ERROR_FEATURE_OFF,
        Error::Device(_) => LUGE_ERROR_DEVICE,
        Error::Cancelled(_) => LUGE_ERROR_CANCELLED,
        // The facade may get errors that this crate does not know yet; `every_error_has_a_code` lists those of today.
        _ => LUGE_ERROR_INTERNAL,
    }
}

impl luge_error {
    fn of(status: luge_status) -> Self {
        Self {
            size: size_of::<Self>(),
            status,
            row: -1,
            column: -1,
            rank: -1,
            num_unmatched: -1,
            asked_bytes: -1,
            available_bytes: -1,
            value: f64::NAN,
            growth: f64::NAN,
        }
    }

    fn with(mut self, error: &Error) -> Self {
        let place = |at: usize| at as i64;
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        match *error {
            Error::NotFinite { row, column }
            | Error::RightHandSideNotFinite { row, column }
            | Error::NotSymmetric { row, column }
            | Error::NotHermitian { row, column }
            | Error::ExtraEntry { row, column } => {
                (self.row, self.column) = (place(row), place(column));
            }
            Error::StructurallySingular {
                rank,
                ref unmatched_rows,
                ..
            }
            | Error::ZerosOnly {
                rank,
                ref unmatched_rows,
                ..
            } => {
                self.rank = place(rank);
                self.num_unmatched = place(unmatched_rows.len());
            }
            Error::ZeroPivot { column } | Error::Overflow { column } => self.column = place(column),
            Error::NoPivots { column } => self.column = column.map_or(-1, place),
            Error::NotPositiveDefinite { column, pivot } => {
                (self.column, self.value) = (place(column), pivot);
            }
            Error::SingularToRounding { column, rcond } => {
                (self.column, self.value) = (place(column), rcond);
            }
            Error::SolutionNotFinite { row } => self.row = place(row),
            Error::Unstable {
                row,
                growth,
                backward_error,
            } => {
                self.row = place(row);
                (self.value, self.growth) = (backward_error, growth);
            }
            Error::OutOfMemory {
                asked, available, ..
            } => {
                (self.asked_bytes, self.available_bytes) = (bytes(asked), bytes(available));
            }
            Error::InvalidMatrix(ref error) => (self.row, self.column) = place_of(error),
            _ => {}
        }
        self
    }
}

/// Row and column that an invalid matrix is wrong in.
fn place_of(error: &MatrixError) -> (i64, i64) {
    let (compression, at, index) = match *error {
        MatrixError::DecreasingOffset { compression, at }
        | MatrixError::OutOfRange {
            compression, at, ..
        } => (compression, at as i64, -1),
        MatrixError::NotSorted {
            compression,
            at,
            index,
        } => (compression, at as i64, i64::from(index)),
        _ => return (-1, -1),
    };
    match compression {
        Compression::Rows => (at, index),
        Compression::Columns => (index, at),
    }
}

/// The last error of a thread.
struct Last {
    error: luge_error,
    message: CString,
    unmatched: [Vec<usize>; 2],
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::new(Last {
        error: luge_error::of(LUGE_OK),
        message: CString::default(),
        unmatched: [Vec::new(), Vec::new()],
    });
}

/// Keeps what went wrong for the calling thread, and answers with its code.
pub(crate) fn record(failure: Failure) -> luge_status {
    let status = failure.status;
    let error = luge_error::of(status);
    let message = failure.message.replace('\0', " ");
    let (error, unmatched) = match failure.error {
        None => (error, Default::default()),
        Some(cause) => (
            error.with(&cause),
            match cause {
                Error::StructurallySingular {
                    unmatched_rows,
                    unmatched_columns,
                    ..
                }
                | Error::ZerosOnly {
                    unmatched_rows,
                    unmatched_columns,
                    ..
                } => [unmatched_rows, unmatched_columns],
                _ => Default::default(),
            },
        ),
    };
    let last = Last {
        error,
        message: CString::new(message).unwrap_or_default(),
        unmatched,
    };
    // A thread that ends has no last error any more.
    let _ = LAST.try_with(|slot| slot.replace(last));
    status
}

/// The message of the last call of this thread that failed: one sentence that names row, column or option. Empty if
/// none failed.
///
/// The text belongs to the library and is valid until another call of this thread fails, or the thread ends. Successful
/// calls leave it as it is.
#[unsafe(no_mangle)]
pub extern "C" fn luge_last_error_message() -> *const c_char {
    LAST.try_with(|slot| slot.borrow().message.as_ptr())
        .unwrap_or(c"".as_ptr())
}

/// Fills `error` with the numbers of the last call of this thread that failed; its status is LUGE_OK if none failed.
///
/// `error`: output; `error->size` is set by the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_last_error(error: *mut luge_error) -> luge_status {
    guarded(|| {
        let last = LAST.try_with(|slot| slot.borrow().error);
        let last = last.unwrap_or(luge_error::of(LUGE_OK));
        // SAFETY: the caller passes NULL or a structure whose first field is its size.
        unsafe { fill(error, "error", last) }
    })
}

/// Rows and columns that no maximum matching of the last matrix of this thread that was refused reaches, after
/// LUGE_ERROR_STRUCTURALLY_SINGULAR and LUGE_ERROR_ZEROS_ONLY; otherwise there are none.
///
/// `rows`, `columns`: outputs of `capacity` numbers each, from 0, or NULL; no more than `capacity` are written.
/// `count`: output, how many rows there are, and how many columns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_last_error_unmatched(
    capacity: i64,
    rows: *mut i64,
    columns: *mut i64,
    count: *mut i64,
) -> luge_status {
    guarded(|| {
        let found = LAST.try_with(|slot| slot.borrow().unmatched.clone());
        let [unmatched_rows, unmatched_columns] = found.unwrap_or_default();
        // SAFETY: the caller passes NULL or a number of its own.
        let count = unsafe { required_mut(count, "count") }?;
        // SAFETY: the caller passes NULL or room for `capacity` numbers.
        unsafe {
            copy_numbers(&unmatched_rows, capacity, rows, "rows")?;
            copy_numbers(&unmatched_columns, capacity, columns, "columns")?;
        }
        *count = unmatched_rows.len() as i64;
        Ok(())
    })
}

/// The name of a status, such as "LUGE_ERROR_ZERO_PIVOT"; "unknown status" for a number that is none. The text belongs to the
/// library and is always valid.
#[unsafe(no_mangle)]
pub extern "C" fn luge_status_name(status: i32) -> *const c_char {
    let known = STATUSES.iter().find(|(known, _)| *known as i32 == status);
    known.map_or(c"unknown status", |(_, name)| name).as_ptr()
}

macro_rules! statuses {
    ($($name:ident),* $(,)?) => {
        const STATUSES: &[(luge_status, &CStr)] = &[$((
            $name,
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
        )),*];
    };
}
statuses!(
    LUGE_OK,
    LUGE_ERROR_NULL,
    LUGE_ERROR_ARGUMENT,
    LUGE_ERROR_HANDLE,
    LUGE_ERROR_BUSY,
    LUGE_ERROR_NOT_APPLICABLE,
    LUGE_ERROR_TYPE,
    LUGE_ERROR_OPTION,
    LUGE_ERROR_MATRIX,
    LUGE_ERROR_SIZE,
    LUGE_ERROR_EXTRA_ENTRY,
    LUGE_ERROR_NOT_FINITE,
    LUGE_ERROR_RHS_NOT_FINITE,
    LUGE_ERROR_STRUCTURALLY_SINGULAR,
    LUGE_ERROR_ZEROS_ONLY,
    LUGE_ERROR_ZERO_PIVOT,
    LUGE_ERROR_NO_PIVOTS,
    LUGE_ERROR_NOT_SYMMETRIC,
    LUGE_ERROR_NOT_POSITIVE_DEFINITE,
    LUGE_ERROR_SINGULAR_TO_ROUNDING,
    LUGE_ERROR_OVERFLOW,
    LUGE_ERROR_SOLUTION_NOT_FINITE,
    LUGE_ERROR_UNSTABLE,
    LUGE_ERROR_OUT_OF_MEMORY,
    LUGE_ERROR_INDEX_OVERFLOW,
    LUGE_ERROR_THREADS,
    LUGE_ERROR_ORDERING,
    LUGE_ERROR_DEVICE,
    LUGE_ERROR_FEATURE_OFF,
    LUGE_ERROR_CANCELLED,
    LUGE_ERROR_INTERNAL,
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every error of the facade but an overflow of indices, which it lets nobody make.
    #[test]
    fn every_error_has_a_code() {
        let cancelled = luge::CancelFlag::new();
        cancelled.cancel();
        let cause = || std::sync::Arc::new(std::fmt::Error);
        let lists = || (vec![0], vec![0]);
        let ((unmatched_rows, unmatched_columns), (rows, columns)) = (lists(), lists());
        let errors = [
            (
                Error::InvalidOption {
                    field: "threads",
                    value: "0".into(),
                    range: "above 0",
                },
                LUGE_ERROR_OPTION,
            ),
            (
                Error::PermutationLength { permuted: 1, n: 2 },
                LUGE_ERROR_SIZE,
            ),
            (Error::SignsLength { signs: 1, n: 2 }, LUGE_ERROR_SIZE),
            (
                MatrixError::ValueCount {
                    entries: 1,
                    values: 2,
                }
                .into(),
                LUGE_ERROR_MATRIX,
            ),
            (Error::NotSquare { rows: 1, cols: 2 }, LUGE_ERROR_SIZE),
            (
                Error::OtherSize {
                    rows: 1,
                    cols: 1,
                    n: 2,
                },
                LUGE_ERROR_SIZE,
            ),
            (
                Error::OtherCount {
                    places: 1,
                    values: 2,
                },
                LUGE_ERROR_SIZE,
            ),
            (Error::NoEntry { place: 1, nnz: 1 }, LUGE_ERROR_ARGUMENT),
            (Error::TwoValues { place: 0 }, LUGE_ERROR_ARGUMENT),
            (
                Error::NotFinite { row: 0, column: 0 },
                LUGE_ERROR_NOT_FINITE,
            ),
            (
                Error::RightHandSideNotFinite { row: 0, column: 0 },
                LUGE_ERROR_RHS_NOT_FINITE,
            ),
            (
                Error::StructurallySingular {
                    rank: 1,
                    unmatched_rows,
                    unmatched_columns,
                },
                LUGE_ERROR_STRUCTURALLY_SINGULAR,
            ),
            (
                Error::ZerosOnly {
                    rank: 1,
                    unmatched_rows: rows,
                    unmatched_columns: columns,
                },
                LUGE_ERROR_ZEROS_ONLY,
            ),
            (Error::ZeroPivot { column: 0 }, LUGE_ERROR_ZERO_PIVOT),
            (Error::NoPivots { column: None }, LUGE_ERROR_NO_PIVOTS),
            (
                Error::NotSymmetric { row: 0, column: 1 },
                LUGE_ERROR_NOT_SYMMETRIC,
            ),
            (
                Error::NotHermitian { row: 0, column: 1 },
                LUGE_ERROR_NOT_SYMMETRIC,
            ),
            (
                Error::RealOnly {
                    option: "backend",
                    value: String::from("gpu"),
                },
                LUGE_ERROR_OPTION,
            ),
            (
                Error::NotPositiveDefinite {
                    column: 0,
                    pivot: 0.0,
                },
                LUGE_ERROR_NOT_POSITIVE_DEFINITE,
            ),
            (
                Error::SingularToRounding {
                    column: 0,
                    rcond: 0.0,
                },
                LUGE_ERROR_SINGULAR_TO_ROUNDING,
            ),
            (Error::Overflow { column: 0 }, LUGE_ERROR_OVERFLOW),
            (
                Error::SolutionNotFinite { row: 0 },
                LUGE_ERROR_SOLUTION_NOT_FINITE,
            ),
            (
                Error::Unstable {
                    row: 0,
                    growth: 1.0,
                    backward_error: 1.0,
                },
                LUGE_ERROR_UNSTABLE,
            ),
            (
                Error::ExtraEntry { row: 0, column: 0 },
                LUGE_ERROR_EXTRA_ENTRY,
            ),
            (
                Error::OutOfMemory {
                    asked: 2,
                    available: 1,
                    phase: "solve",
                },
                LUGE_ERROR_OUT_OF_MEMORY,
            ),
            (
                Error::BatchOutOfMemory {
                    systems: 2,
                    fitting: 1,
                    asked: 2,
                    available: 1,
                },
                LUGE_ERROR_OUT_OF_MEMORY,
            ),
            (
                Error::System {
                    system: 3,
                    error: Error::ZeroPivot { column: 0 }.into(),
                },
                LUGE_ERROR_ZERO_PIVOT,
            ),
            (Error::Threads(cause()), LUGE_ERROR_THREADS),
            (
                Error::Ordering(luge::ordering::OrderingError::NotForSymmetric),
                LUGE_ERROR_ORDERING,
            ),
            (Error::FeatureOff { feature: "gpu" }, LUGE_ERROR_FEATURE_OFF),
            (Error::Device(cause()), LUGE_ERROR_DEVICE),
            (
                cancelled.check().expect_err("it is raised").into(),
                LUGE_ERROR_CANCELLED,
            ),
        ];
        for (error, expected) in errors {
            assert_eq!(code(&error), expected, "{error}");
        }
    }

    #[test]
    fn every_field_of_an_error_arrives() {
        let fields = |error: Error| luge_error::of(code(&error)).with(&error);
        let found = fields(Error::NotFinite { row: 3, column: 4 });
        assert_eq!((found.row, found.column), (3, 4));
        let found = fields(Error::RightHandSideNotFinite { row: 5, column: 1 });
        assert_eq!(found.status, LUGE_ERROR_RHS_NOT_FINITE);
        assert_eq!((found.row, found.column), (5, 1));
        let found = fields(Error::NotSymmetric { row: 6, column: 7 });
        assert_eq!((found.row, found.column), (6, 7));
        let found = fields(Error::ExtraEntry { row: 8, column: 9 });
        assert_eq!((found.row, found.column), (8, 9));
        let singular = Error::ZerosOnly {
            rank: 2,
            unmatched_rows: vec![1, 2],
            unmatched_columns: vec![0, 3],
        };
        let found = fields(singular);
        assert_eq!((found.rank, found.num_unmatched, found.row), (2, 2, -1));
        assert_eq!(fields(Error::ZeroPivot { column: 4 }).column, 4);
        assert_eq!(fields(Error::Overflow { column: 5 }).column, 5);
        assert_eq!(fields(Error::NoPivots { column: Some(6) }).column, 6);
        assert_eq!(fields(Error::NoPivots { column: None }).column, -1);
        let found = fields(Error::NotPositiveDefinite {
            column: 1,
            pivot: -2.0,
        });
        assert_eq!((found.column, found.value), (1, -2.0));
        let found = fields(Error::SingularToRounding {
            column: 2,
            rcond: 1e-17,
        });
        assert_eq!((found.column, found.value), (2, 1e-17));
        assert_eq!(fields(Error::SolutionNotFinite { row: 9 }).row, 9);
        let found = fields(Error::Unstable {
            row: 1,
            growth: 1e9,
            backward_error: 0.5,
        });
        assert_eq!((found.row, found.value, found.growth), (1, 0.5, 1e9));
        let found = fields(Error::OutOfMemory {
            asked: u64::MAX,
            available: 7,
            phase: "solve",
        });
        let bytes = (found.asked_bytes, found.available_bytes);
        assert_eq!(bytes, (i64::MAX, 7));
        assert!(found.value.is_nan() && found.growth.is_nan());
    }

    #[test]
    fn rows_and_columns_of_an_invalid_matrix_are_told_apart() {
        let not_sorted = |compression| MatrixError::NotSorted {
            compression,
            at: 2,
            index: 5,
        };
        assert_eq!(place_of(&not_sorted(Compression::Rows)), (2, 5));
        assert_eq!(place_of(&not_sorted(Compression::Columns)), (5, 2));
        let counts = MatrixError::ValueCount {
            entries: 1,
            values: 2,
        };
        assert_eq!(place_of(&counts), (-1, -1));
    }

    #[test]
    fn codes_have_the_numbers_and_the_names_of_the_header() {
        let header = include_str!("../include/luge.h");
        for &(status, name) in STATUSES {
            let line = format!("  {} = {},", name.to_str().unwrap(), status as i32);
            assert!(header.contains(&line), "{line}");
        }
        let declared = header.matches("\n  LUGE_ERROR_").count();
        assert_eq!(declared + 1, STATUSES.len());
    }

    #[test]
    fn a_message_with_a_nul_is_whole() {
        assert_eq!(record(Failure::argument("a\0b")), LUGE_ERROR_ARGUMENT);
        // SAFETY: the text is valid until the next failure of this thread.
        let text = unsafe { CStr::from_ptr(luge_last_error_message()) };
        assert_eq!(text.to_str(), Ok("a b"));
    }
}
