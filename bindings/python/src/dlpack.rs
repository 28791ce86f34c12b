//! Arrays of other libraries by DLPack, the memory layout that they exchange: `dlpack.h` of versions 0.8 and 1.x, and the Python
//! specification of the array API standard.
//!
//! A producer hands over a capsule named `dltensor`, or `dltensor_versioned` for version 1 and later. Whoever takes what is in it
//! renames the capsule, and calls the deleter in the end.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3::{ffi, pyclass, pymethods};

/// The last version whose layout is known here; later ones with the same major number only add flags.
const MAJOR: u32 = 1;

/// Of the flags of a versioned tensor: it must not be written.
const READ_ONLY: u64 = 1;

/// More dimensions are no matrix, vector or batch of these.
const MAX_DIMENSIONS: i32 = 8;

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *const i64,
    /// In elements; null for a compact array in C order.
    strides: *const i64,
    byte_offset: u64,
}

/// A tensor before version 1.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

/// A tensor of version 1.
#[repr(C)]
struct Versioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// A tensor that was taken out of its capsule, whose deleter is still to be called.
#[derive(Clone, Copy)]
enum Owned {
    Old(*mut Managed),
    Versioned(*mut Versioned),
}

/// An array of another library. It is held by that library as long as this is.
#[pyclass(module = "luge._luge", frozen)]
pub(crate) struct DlpackArray(Owned);

// SAFETY: nobody else has the tensor, which is only read; the standard asks of a deleter that any thread may call it, and objects
// of Python are dropped by threads that are attached.
unsafe impl Send for DlpackArray {}
// SAFETY: likewise.
unsafe impl Sync for DlpackArray {}

impl Drop for DlpackArray {
    fn drop(&mut self) {
        // SAFETY: the tensor is owned, and its deleter is called once.
        unsafe {
            match self.0 {
                Owned::Old(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
                Owned::Versioned(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
            }
        }
    }
}

impl DlpackArray {
    fn tensor(&self) -> &Tensor {
        // SAFETY: the tensor is owned, and lives until the deleter is called.
        unsafe {
            match self.0 {
                Owned::Old(managed) => &(*managed).tensor,
                Owned::Versioned(managed) => &(*managed).tensor,
            }
        }
    }

    fn dimensions(&self) -> usize {
        self.tensor().ndim as usize
    }

    /// What the producer must not have done.
    fn check(&self) -> PyResult<()> {
        if let Owned::Versioned(managed) = self.0 {
            // SAFETY: the version comes first whatever it is.
            let found = unsafe { (*managed).version.major };
            if found != MAJOR {
                return Err(PyBufferError::new_err(format!(
                    "the array is of DLPack {found}; it must be of version {MAJOR} or older"
                )));
            }
        }
        let tensor = self.tensor();
        if !(0..=MAX_DIMENSIONS).contains(&tensor.ndim) {
            return Err(PyBufferError::new_err(format!(
                "the array has {} dimensions",
                tensor.ndim
            )));
        }
        let sizes = self.sizes();
        if (tensor.ndim > 0 && tensor.shape.is_null()) || sizes.iter().any(|&size| size < 0) {
            return Err(PyBufferError::new_err("the shape of the array is no shape"));
        }
        Ok(())
    }

    fn sizes(&self) -> &[i64] {
        let tensor = self.tensor();
        if tensor.shape.is_null() {
            return &[];
        }
        // SAFETY: the shape has as many numbers as there are dimensions, whose number was checked.
        unsafe { std::slice::from_raw_parts(tensor.shape, self.dimensions()) }
    }
}

#[pymethods]
impl DlpackArray {
    /// Takes a tensor out of its capsule.
    #[new]
    fn new(capsule: &Bound<'_, PyCapsule>) -> PyResult<Self> {
        let at = |name: &'static CStr, used: &'static CStr| -> PyResult<Option<*mut c_void>> {
            // SAFETY: the object is a capsule; the names are constants, which a capsule may keep; the pointer of a capsule with
            // such a name is a tensor, and the new name tells the capsule that it has another owner.
            unsafe {
                if ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 0 {
                    return Ok(None);
                }
                let at = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr());
                if at.is_null() || ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) != 0 {
                    return Err(PyErr::fetch(capsule.py()));
                }
                Ok(Some(at))
            }
        };
        let owned = if let Some(at) = at(c"dltensor_versioned", c"used_dltensor_versioned")? {
            Owned::Versioned(at.cast())
        } else if let Some(at) = at(c"dltensor", c"used_dltensor")? {
            Owned::Old(at.cast())
        } else {
            return Err(PyTypeError::new_err(
                "the capsule is no DLPack tensor, or was used before",
            ));
        };
        let array = Self(owned);
        array.check()?;
        Ok(array)
    }

    /// Kind and number of the device, as `__dlpack_device__` has it.
    #[getter]
    fn device(&self) -> (i32, i32) {
        let device = self.tensor().device;
        (device.kind, device.id)
    }

    /// The type of the numbers as NumPy and `__cuda_array_interface__` write it.
    #[getter]
    fn typestr(&self) -> String {
        let DataType { code, bits, lanes } = self.tensor().dtype;
        let kind = match code {
            0 => "i",
            1 => "u",
            2 => "f",
            4 => "bfloat",
            5 => "c",
            6 => "b",
            _ => "unknown",
        };
        let bytes = bits / 8;
        if lanes == 1 {
            format!("<{kind}{bytes}")
        } else {
            format!("{lanes} times <{kind}{bytes}")
        }
    }

    /// Of the first number.
    #[getter]
    fn address(&self) -> u64 {
        let tensor = self.tensor();
        tensor.data as u64 + tensor.byte_offset
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.sizes())
    }

    /// In bytes; nothing for a compact array in C order.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let tensor = self.tensor();
        if tensor.strides.is_null() {
            return Ok(None);
        }
        // SAFETY: there are as many numbers as dimensions, whose number was checked.
        let strides = unsafe { std::slice::from_raw_parts(tensor.strides, self.dimensions()) };
        let bytes = i64::from(tensor.dtype.bits / 8);
        PyTuple::new(py, strides.iter().map(|stride| stride * bytes)).map(Some)
    }

    /// Whether it must not be written. Before version 1 nothing tells.
    #[getter]
    fn read_only(&self) -> bool {
        match self.0 {
            Owned::Old(_) => false,
            // SAFETY: the tensor is owned.
            Owned::Versioned(managed) => unsafe { (*managed).flags & READ_ONLY != 0 },
        }
    }
}
