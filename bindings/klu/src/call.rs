//! How every call begins and ends: the caller's `klu_common`, status codes, and where panics end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use luge_frontal::FrontalScalar;
use luge_numeric::NumericError;
use luge_ordering::OrderingError;
use luge_sparse::IndexOverflow;
use num_complex::Complex;

use crate::layout::{Common, INVALID, Integer, OK, OUT_OF_MEMORY, SINGULAR, TOO_LARGE};

/// The fields that matrices may have.
pub(crate) trait Field: FrontalScalar<Real = f64, Wide = Self> {}

impl Field for f64 {}
impl Field for Complex<f64> {}

/// Why a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// An argument is not what it has to be.
    Invalid,
    /// A pivot is zero.
    Singular,
    /// Memory is short.
    OutOfMemory,
    /// A number does not fit the integers.
    TooLarge,
}

impl Failure {
    fn status(self) -> i64 {
        match self {
            Self::Invalid => INVALID,
            Self::Singular => SINGULAR,
            Self::OutOfMemory => OUT_OF_MEMORY,
            Self::TooLarge => TOO_LARGE,
        }
    }
}

impl From<IndexOverflow> for Failure {
    fn from(_: IndexOverflow) -> Self {
        Self::TooLarge
    }
}

impl From<OrderingError> for Failure {
    fn from(error: OrderingError) -> Self {
        match error {
            OrderingError::IndexOverflow(_) => Self::TooLarge,
            OrderingError::OutOfMemory(_) => Self::OutOfMemory,
            _ => Self::Invalid,
        }
    }
}

impl From<NumericError> for Failure {
    fn from(error: NumericError) -> Self {
        match error {
            NumericError::ZeroPivot { .. } | NumericError::NotFinite { .. } => Self::Singular,
            NumericError::OutOfMemory { .. } => Self::OutOfMemory,
            NumericError::IndexOverflow(_) => Self::TooLarge,
            _ => Self::Invalid,
        }
    }
}

/// What a call returns, or why it fails.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// The caller's `klu_common`, for the time of a call. Functions of the caller may change it meanwhile, so no reference to it is kept.
#[derive(Clone, Copy)]
pub(crate) struct Control<I>(NonNull<Common<I>>);

impl<I: Integer> Control<I> {
    /// # Safety
    ///
    /// `common` is null, not aligned, or a structure that no other thread uses during the call.
    pub(crate) unsafe fn new(common: *mut Common<I>) -> Option<Self> {
        NonNull::new(common)
            .filter(|common| common.is_aligned())
            .map(Self)
    }

    /// What it has now.
    pub(crate) fn get(self) -> Common<I> {
        // SAFETY: as `new` requires.
        unsafe { self.0.read() }
    }

    /// Changes it.
    pub(crate) fn set(self, change: impl FnOnce(&mut Common<I>)) {
        let mut common = self.get();
        change(&mut common);
        // SAFETY: as `new` requires.
        unsafe { self.0.write(common) };
    }

    pub(crate) fn set_status(self, status: i64) {
        self.set(|common| common.status = I::of_code(status));
    }

    /// For functions of the caller.
    pub(crate) fn pointer(self) -> *mut Common<I> {
        self.0.as_ptr()
    }

    /// Counts bytes that are there now in place of others.
    pub(crate) fn count_bytes(self, more: usize, less: usize) {
        self.set(|common| {
            common.memusage = common.memusage.saturating_sub(less).saturating_add(more);
            common.mempeak = common.mempeak.max(common.memusage);
        });
    }
}

/// Runs a call. Its status is `KLU_OK` unless the call sets another, or fails: then `failed` is returned.
///
/// # Safety
///
/// As [`Control::new`].
pub(crate) unsafe fn guarded<I: Integer, T>(
    common: *mut Common<I>,
    failed: T,
    call: impl FnOnce(Control<I>) -> Outcome<T>,
) -> T {
    // SAFETY: as the caller says.
    unsafe {
        guarded_quietly(common, failed, |control| {
            control.set_status(OK);
            call(control)
        })
    }
}

/// As [`guarded`], but the status stays what it was unless the call fails: so what is freed or allocated after a failure does not
/// hide it.
///
/// # Safety
///
/// As [`Control::new`].
pub(crate) unsafe fn guarded_quietly<I: Integer, T>(
    common: *mut Common<I>,
    failed: T,
    call: impl FnOnce(Control<I>) -> Outcome<T>,
) -> T {
    // SAFETY: as the caller says.
    let Some(control) = (unsafe { Control::new(common) }) else {
        return failed;
    };
    // What a panic may leave half done is behind a lock, and dropped with its object.
    let failure = match catch_unwind(AssertUnwindSafe(|| call(control))) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::Invalid,
    };
    control.set_status(failure.status());
    failed
}

/// `klu_defaults`: the default parameters, and no statistics. 0 if there is no room.
///
/// # Safety
///
/// `common` is null, not aligned, or room for the structure.
pub(crate) unsafe fn defaults<I: Integer>(common: *mut Common<I>) -> I {
    if common.is_null() || !common.is_aligned() {
        return I::of_code(0);
    }
    // SAFETY: as the caller says.
    unsafe { common.write(Common::defaults()) };
    I::of_code(1)
}
