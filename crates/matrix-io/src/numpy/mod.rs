//! Arrays of NumPy (`.npy`), and archives of them in which SciPy keeps sparse matrices (`.npz`).
//!
//! The header of an array is a small dictionary in Python's syntax. The crates that read it (`npyz`, `ndarray-npy`) take a
//! parser of Python literals whose parser generator needs a C compiler to build, which nothing here may, so the dictionary
//! is taken apart here.

mod array;
#[cfg(feature = "npz")]
mod npz;

pub(crate) use array::{MAGIC, read_dense, write_dense};
#[cfg(feature = "npz")]
pub(crate) use npz::read_npz;
