//! Matrices in C arrays, and types of values.

use std::borrow::Cow;
use std::ffi::c_void;

use luge::num_complex::Complex;
use luge::{Compression, Index, MatrixRef, PatternRef, Scalar};

use crate::handle::{Versioned, array, size, take};
use crate::status::luge_status::*;
use crate::status::{Failure, Outcome};

/// Which way a matrix is stored.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_format {
    /// Compressed sparse rows: `offsets` are those of rows, `indices` are columns.
    LUGE_CSR = 0,
    /// Compressed sparse columns: `offsets` are those of columns, `indices` are rows.
    LUGE_CSC = 1,
}

/// The integers of a matrix: both its offsets and its indices.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_index_type {
    /// int32_t.
    LUGE_INT32 = 0,
    /// int64_t.
    LUGE_INT64 = 1,
}

/// The type of values and vectors.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_value_type {
    /// double.
    LUGE_F64 = 0,
    /// float.
    LUGE_F32 = 1,
    /// double _Complex, `std::complex<double>` in C++: two double, the real and the imaginary part.
    LUGE_COMPLEX_F64 = 2,
    /// float _Complex, `std::complex<float>` in C++: two float.
    LUGE_COMPLEX_F32 = 3,
}

/// A square sparse matrix in arrays of the caller, which are read during the call that it is passed to and not kept.
///
/// luge_csr and its kin, below, make one. A structure that is zero but for `size`, `n`, `nnz` and the arrays is CSR with
/// int32_t indices from 0 and double values.
///
/// The entries of row (or column) k are `indices[offsets[k] - index_base]` up to, and without,
/// `indices[offsets[k + 1] - index_base]`. In each row (or column) the indices increase, and none is there twice.
/// A symmetric or Hermitian matrix is stored whole or by one of its triangles with the diagonal, whichever; see
/// LUGE_OPTION_KIND.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct luge_matrix {
    /// sizeof(luge_matrix), set by the caller.
    pub size: usize,
    /// Order: number of rows, and of columns; at most 2^32 - 2.
    pub n: i64,
    /// Number of stored entries.
    pub nnz: i64,
    /// One of luge_format.
    pub format: i32,
    /// One of luge_index_type.
    pub index_type: i32,
    /// One of luge_value_type.
    pub value_type: i32,
    /// 0 or 1: the number of the first row, the first column and the first entry, as in C or in Fortran. With 1, indices are
    /// copied in each call.
    pub index_base: i32,
    /// n + 1 numbers: `offsets[0]` is `index_base`, `offsets[n]` is `index_base` + nnz.
    pub offsets: *const c_void,
    /// nnz numbers.
    pub indices: *const c_void,
    /// nnz numbers of the type `value_type`. NULL for luge_analyze if they are not known yet.
    pub values: *const c_void,
}

// SAFETY: the first field is the size; zeros are numbers and null pointers.
unsafe impl Versioned for luge_matrix {
    const NAME: &'static str = "luge_matrix";
}

/// Types of values that C hands over.
pub(crate) trait Value: Scalar {
    const TYPE: luge_value_type;
    /// The name in C.
    const C_NAME: &'static str;
}

impl Value for f64 {
    const TYPE: luge_value_type = luge_value_type::LUGE_F64;
    const C_NAME: &'static str = "double";
}

impl Value for f32 {
    const TYPE: luge_value_type = luge_value_type::LUGE_F32;
    const C_NAME: &'static str = "float";
}

impl Value for Complex<f64> {
    const TYPE: luge_value_type = luge_value_type::LUGE_COMPLEX_F64;
    const C_NAME: &'static str = "complex double";
}

impl Value for Complex<f32> {
    const TYPE: luge_value_type = luge_value_type::LUGE_COMPLEX_F32;
    const C_NAME: &'static str = "complex float";
}

/// What exists for each type of values.
pub(crate) enum Typed<D, S, CD, CS> {
    F64(D),
    F32(S),
    ComplexF64(CD),
    ComplexF32(CS),
}

/// Evaluates `$call` with what is of any type.
macro_rules! with_typed {
    ($any:expr, $inner:ident => $call:expr) => {
        match $any {
            $crate::matrix::Typed::F64($inner) => $call,
            $crate::matrix::Typed::F32($inner) => $call,
            $crate::matrix::Typed::ComplexF64($inner) => $call,
            $crate::matrix::Typed::ComplexF32($inner) => $call,
        }
    };
}
pub(crate) use with_typed;

/// Values of a matrix.
pub(crate) type Values<'a> = Typed<&'a [f64], &'a [f32], &'a [Complex<f64>], &'a [Complex<f32>]>;

/// Integers of matrices.
pub(crate) trait Integer: Index {
    /// One less; the smallest number, which is no index either, stays as it is.
    fn before(self) -> Self;
}

impl Integer for i32 {
    fn before(self) -> Self {
        self.saturating_sub(1)
    }
}

impl Integer for i64 {
    fn before(self) -> Self {
        self.saturating_sub(1)
    }
}

/// A matrix whose pointers are slices.
pub(crate) struct Matrix<'a> {
    pub(crate) n: usize,
    pub(crate) nnz: usize,
    pub(crate) arrays: Integers<'a>,
    /// None for a pattern alone.
    pub(crate) values: Option<Values<'a>>,
}

/// Offsets and indices.
pub(crate) enum Integers<'a> {
    I32(Arrays<'a, i32>),
    I64(Arrays<'a, i64>),
}

/// Offsets, and indices from 0.
pub(crate) struct Arrays<'a, I: Clone> {
    n: usize,
    compression: Compression,
    offsets: &'a [I],
    indices: Cow<'a, [I]>,
}

impl<I: Integer> Arrays<'_, I> {
    pub(crate) fn pattern(&self) -> PatternRef<'_, I> {
        match self.compression {
            Compression::Rows => PatternRef::by_rows(self.n, self.n, self.offsets, &self.indices),
            Compression::Columns => {
                PatternRef::by_columns(self.n, self.n, self.offsets, &self.indices)
            }
        }
    }

    pub(crate) fn with<'b, T>(&'b self, values: &'b [T]) -> MatrixRef<'b, T, I> {
        let (n, offsets, indices) = (self.n, self.offsets, &self.indices);
        match self.compression {
            Compression::Rows => MatrixRef::by_rows(n, n, offsets, indices, values),
            Compression::Columns => MatrixRef::by_columns(n, n, offsets, indices, values),
        }
    }
}

/// The largest order; the library's indices have 32 bits, and the last two numbers mean other things.
const MAX_ORDER: usize = u32::MAX as usize - 1;

/// An order that C hands over.
pub(crate) fn order(number: i64, name: &str) -> Outcome<usize> {
    let n = size(number, name)?;
    if n > MAX_ORDER {
        let message = format!("`{name}` is {n}; an order is at most {MAX_ORDER}");
        return Err(Failure::new(LUGE_ERROR_INDEX_OVERFLOW, message));
    }
    Ok(n)
}

impl<'a> Matrix<'a> {
    /// The matrix that a structure describes: pointers, sizes, offsets and kinds are checked, indices are not.
    ///
    /// # Safety
    ///
    /// `from` is NULL, not aligned, or points to a structure whose size is set, and whose arrays, as far as they are not
    /// NULL, have the lengths that it states and are not changed during the call.
    pub(crate) unsafe fn new(from: *const luge_matrix) -> Outcome<Self> {
        // SAFETY: as the caller says.
        let from = unsafe { take(from, "matrix") }?;
        let n = order(from.n, "matrix.n")?;
        let nnz = size(from.nnz, "matrix.nnz")?;
        if nnz as u128 > (n as u128) * (n as u128) {
            let message = format!("a matrix of order {n} cannot have {nnz} entries");
            return Err(Failure::argument(message));
        }
        let compression = match from.format {
            0 => Compression::Rows,
            1 => Compression::Columns,
            other => return Err(not_one_of("matrix.format", other, "luge_format")),
        };
        let base = match from.index_base {
            0 | 1 => from.index_base as u64,
            other => {
                let message = format!("`matrix.index_base` is {other}; it must be 0 or 1");
                return Err(Failure::argument(message));
            }
        };
        let description = (n, nnz, compression, base);
        let arrays = match from.index_type {
            // SAFETY: as the caller says of the arrays.
            0 => Integers::I32(unsafe { arrays(description, &from) }?),
            // SAFETY: likewise.
            1 => Integers::I64(unsafe { arrays(description, &from) }?),
            other => return Err(not_one_of("matrix.index_type", other, "luge_index_type")),
        };
        // Without entries there are values, too.
        let has_values = !from.values.is_null() || nnz == 0;
        let values = match from.value_type {
            // SAFETY: as the caller says of the arrays.
            0 if has_values => Some(Typed::F64(unsafe { values(nnz, &from) }?)),
            // SAFETY: likewise.
            1 if has_values => Some(Typed::F32(unsafe { values(nnz, &from) }?)),
            // SAFETY: likewise.
            2 if has_values => Some(Typed::ComplexF64(unsafe { values(nnz, &from) }?)),
            // SAFETY: likewise.
            3 if has_values => Some(Typed::ComplexF32(unsafe { values(nnz, &from) }?)),
            0..=3 => None,
            other => return Err(not_one_of("matrix.value_type", other, "luge_value_type")),
        };
        Ok(Self {
            n,
            nnz,
            arrays,
            values,
        })
    }
}

/// # Safety
///
/// The arrays of `from` have the lengths that it states.
unsafe fn values<'a, T>(nnz: usize, from: &luge_matrix) -> Outcome<&'a [T]> {
    // SAFETY: as the caller says.
    unsafe { array(from.values.cast(), nnz, "matrix.values") }
}

/// # Safety
///
/// The arrays of `from` have the lengths that it states.
unsafe fn arrays<'a, I: Integer>(
    (n, nnz, compression, base): (usize, usize, Compression, u64),
    from: &luge_matrix,
) -> Outcome<Arrays<'a, I>> {
    // SAFETY: as the caller says.
    let offsets: &[I] = unsafe { array(from.offsets.cast(), n + 1, "matrix.offsets") }?;
    // SAFETY: as the caller says.
    let indices: &[I] = unsafe { array(from.indices.cast(), nnz, "matrix.indices") }?;
    for (at, expected, what) in [
        (0, base, "index_base"),
        (n, base + nnz as u64, "index_base + nnz"),
    ] {
        let found = offsets[at].to_u64() as i64;
        if found != expected as i64 {
            let message = format!(
                "the offset number {at} of the matrix is {found}; it must be {what}, {expected}"
            );
            return Err(Failure::new(LUGE_ERROR_MATRIX, message));
        }
    }
    let indices = if base == 0 {
        Cow::Borrowed(indices)
    } else {
        indices.iter().map(|&index| index.before()).collect()
    };
    Ok(Arrays {
        n,
        compression,
        offsets,
        indices,
    })
}

/// A number is not one of an enumeration.
pub(crate) fn not_one_of(name: &str, found: i32, enumeration: &str) -> Failure {
    Failure::argument(format!(
        "`{name}` is {found}, which is not one of {enumeration}"
    ))
}
