//! The functions of cuDSS 1 that are called, with the numbers of its enumerations.

use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;

use super::CudssError;
use crate::library::{Loaded, Missing};

/// The major version whose functions are declared here.
pub(super) const MAJOR: c_int = 1;

/// A step of `cudssExecute`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Reordering,
    SymbolicFactorization,
    Factorization,
    Refactorization,
    Solve,
}

impl Step {
    pub(super) fn number(self) -> c_int {
        match self {
            Self::Reordering => 1,
            Self::SymbolicFactorization => 2,
            Self::Factorization => 4,
            Self::Refactorization => 8,
            // Permutation, forward, diagonal, backward, permutation, refinement: bits 4 to 9.
            Self::Solve => 0x3f0,
        }
    }

    pub(super) fn call(self) -> &'static str {
        match self {
            Self::Reordering => "cudssExecute, reordering",
            Self::SymbolicFactorization => "cudssExecute, symbolic factorization",
            Self::Factorization => "cudssExecute, factorization",
            Self::Refactorization => "cudssExecute, refactorization",
            Self::Solve => "cudssExecute, solve",
        }
    }
}

/// `cudssConfigParam_t`, as far as it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConfigParam {
    /// One `int`.
    DeviceCount = 21,
    /// An `int` a device.
    DeviceIndices = 22,
}

/// `cudssDataParam_t`, as far as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataParam {
    /// One `int`.
    Info = 0,
    /// One 64-bit integer.
    LuNnz = 1,
    /// One `int`.
    NumPivots = 2,
    /// Two `int`s: positive and negative eigenvalues.
    Inertia = 3,
    /// Sixteen 64-bit integers: bytes on the device that stay, and at most; the same on the host; more.
    MemoryEstimates = 13,
}

/// `cudaDataType_t`.
pub(super) const R_32F: c_int = 0;
pub(super) const R_64F: c_int = 1;
pub(super) const C_32F: c_int = 4;
pub(super) const C_64F: c_int = 5;
pub(super) const R_32I: c_int = 10;

/// `CUDSS_BASE_ZERO`.
pub(super) const BASE_ZERO: c_int = 0;
/// `CUDSS_LAYOUT_COL_MAJOR`.
pub(super) const COLUMN_MAJOR: c_int = 0;

/// A handle, configuration, data or matrix of the library.
pub(super) type Object = *mut c_void;
pub(super) type Status = c_int;

type Create = unsafe extern "C" fn(*mut Object) -> Status;
type Destroy = unsafe extern "C" fn(Object) -> Status;
type GetProperty = unsafe extern "C" fn(c_int, *mut c_int) -> Status;
type CreateOnGroup = unsafe extern "C" fn(*mut Object, c_int, *const c_int) -> Status;
type SetStreams = unsafe extern "C" fn(Object, *const *mut c_void, c_int) -> Status;
type ConfigSet = unsafe extern "C" fn(Object, c_int, *const c_void, usize) -> Status;
type SetStream = unsafe extern "C" fn(Object, *mut c_void) -> Status;
type SetThreadingLayer = unsafe extern "C" fn(Object, *const c_char) -> Status;
type DataCreate = unsafe extern "C" fn(Object, *mut Object) -> Status;
type DataDestroy = unsafe extern "C" fn(Object, Object) -> Status;
type DataGet =
    unsafe extern "C" fn(Object, Object, c_int, *mut c_void, usize, *mut usize) -> Status;
type Execute =
    unsafe extern "C" fn(Object, c_int, Object, Object, Object, Object, Object) -> Status;
type CreateDense =
    unsafe extern "C" fn(*mut Object, i64, i64, i64, *const c_void, c_int, c_int) -> Status;
type CreateCsr = unsafe extern "C" fn(
    *mut Object,
    i64,
    i64,
    i64,
    *const c_void,
    *const c_void,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
) -> Status;
type SetValues = unsafe extern "C" fn(Object, *const c_void) -> Status;

/// A loaded libcudss.
#[derive(Debug)]
pub struct Library {
    pub(super) create: Create,
    pub(super) create_on_group: CreateOnGroup,
    pub(super) destroy: Destroy,
    pub(super) set_stream: SetStream,
    pub(super) set_streams_of_group: SetStreams,
    pub(super) set_threading_layer: SetThreadingLayer,
    pub(super) config_create: Create,
    pub(super) config_destroy: Destroy,
    pub(super) config_set: ConfigSet,
    pub(super) data_create: DataCreate,
    pub(super) data_destroy: DataDestroy,
    pub(super) data_get: DataGet,
    pub(super) execute: Execute,
    pub(super) matrix_create_dense: CreateDense,
    pub(super) matrix_create_csr: CreateCsr,
    pub(super) matrix_set_values: SetValues,
    pub(super) matrix_destroy: Destroy,
    version: String,
    /// Last, so that it is unloaded after the functions are out of reach.
    _loaded: Loaded,
}

impl Library {
    /// Loads libcudss; `path` overrides where it is looked for. It needs libcublas and libnvrtc, and its
    /// loader finds them beside it.
    ///
    /// # Errors
    ///
    /// [`Missing`] if it cannot be loaded, lacks a function, or is of another major version than 1.
    pub fn load(path: Option<&PathBuf>) -> Result<Self, Missing> {
        let loaded = Loaded::open(path, &["libcudss.so.1", "libcudss.so"])?;
        // SAFETY: the types are those of the functions of that name in cuDSS 1; the library is kept for
        // as long as they can be called. The version is checked before any but `cudssGetProperty` is called.
        let library = unsafe {
            let get_property = loaded.function::<GetProperty>("cudssGetProperty")?;
            Self {
                create: loaded.function("cudssCreate")?,
                create_on_group: loaded.function("cudssCreateMg")?,
                destroy: loaded.function("cudssDestroy")?,
                set_stream: loaded.function("cudssSetStream")?,
                set_streams_of_group: loaded.function("cudssSetMgStreams")?,
                set_threading_layer: loaded.function("cudssSetThreadingLayer")?,
                config_create: loaded.function("cudssConfigCreate")?,
                config_destroy: loaded.function("cudssConfigDestroy")?,
                config_set: loaded.function("cudssConfigSet")?,
                data_create: loaded.function("cudssDataCreate")?,
                data_destroy: loaded.function("cudssDataDestroy")?,
                data_get: loaded.function("cudssDataGet")?,
                execute: loaded.function("cudssExecute")?,
                matrix_create_dense: loaded.function("cudssMatrixCreateDn")?,
                matrix_create_csr: loaded.function("cudssMatrixCreateCsr")?,
                matrix_set_values: loaded.function("cudssMatrixSetValues")?,
                matrix_destroy: loaded.function("cudssMatrixDestroy")?,
                version: version(get_property, &loaded.file)?,
                _loaded: loaded,
            }
        };
        Ok(library)
    }

    /// The version and the name of the file.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// The version, if its functions are those that are declared here.
fn version(get_property: GetProperty, file: &str) -> Result<String, Missing> {
    let mut numbers = [0; 3];
    for (property, number) in (0..).zip(&mut numbers) {
        // SAFETY: properties 0, 1 and 2 are the parts of the version; the pointer is to a live integer.
        let status = unsafe { get_property(property, number) };
        check("cudssGetProperty", status).map_err(|error| Missing(format!("{file}: {error}")))?;
    }
    let [major, minor, patch] = numbers;
    let version = format!("cuDSS {major}.{minor}.{patch} ({file})");
    if major == MAJOR {
        Ok(version)
    } else {
        let wanted = format!("{version}: version {MAJOR} is needed");
        Err(Missing(wanted))
    }
}

/// Turns a status into an error that names the call.
pub(super) fn check(call: &'static str, status: Status) -> Result<(), CudssError> {
    match status {
        0 => Ok(()),
        status => Err(CudssError::Call { call, status }),
    }
}

/// What a status is called.
pub(super) fn name_of(status: Status) -> &'static str {
    match status {
        1 => "CUDSS_STATUS_NOT_INITIALIZED",
        2 => "CUDSS_STATUS_ALLOC_FAILED",
        3 => "CUDSS_STATUS_INVALID_VALUE",
        4 => "CUDSS_STATUS_NOT_SUPPORTED",
        5 => "CUDSS_STATUS_EXECUTION_FAILED",
        6 => "CUDSS_STATUS_INTERNAL_ERROR",
        7 => "CUDSS_STATUS_IR_FAILED",
        _ => "unknown status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn of_version_1(property: c_int, value: *mut c_int) -> Status {
        // SAFETY: called with a pointer to a live integer.
        unsafe { *value = [1, 0, 7][property as usize] };
        0
    }

    unsafe extern "C" fn of_version_0(_: c_int, value: *mut c_int) -> Status {
        // SAFETY: as above.
        unsafe { *value = 0 };
        0
    }

    unsafe extern "C" fn failing(_: c_int, _: *mut c_int) -> Status {
        3
    }

    #[test]
    fn another_major_version_is_refused() {
        assert_eq!(version(of_version_1, "x.so").unwrap(), "cuDSS 1.0.7 (x.so)");
        let refused = version(of_version_0, "x.so").unwrap_err().to_string();
        assert!(
            refused.contains("0.0.0") && refused.contains("1 is needed"),
            "{refused}"
        );
        let failed = version(failing, "x.so").unwrap_err().to_string();
        assert!(failed.contains("cudssGetProperty"), "{failed}");
    }

    #[test]
    fn errors_name_the_call() {
        assert!(check("cudssCreate", 0).is_ok());
        let error = check(Step::Solve.call(), 5).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cudssExecute, solve: CUDSS_STATUS_EXECUTION_FAILED (5)"
        );
    }

    #[test]
    fn steps_are_disjoint_bits() {
        let steps = [
            Step::Reordering,
            Step::SymbolicFactorization,
            Step::Factorization,
            Step::Refactorization,
            Step::Solve,
        ];
        let all = steps.iter().fold(0, |all, step| {
            assert_eq!(all & step.number(), 0, "{step:?}");
            all | step.number()
        });
        assert_eq!(all, 0x3ff);
    }
}
