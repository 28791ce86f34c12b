//! Numeric LU factorization on the GPU and the CPU.
//!
//! The factors of B = L·U live in one array, aligned with the columns of the filled pattern: a
//! [`LuPattern`] (CSC of L+U, rows sorted) and one value per entry. The unit diagonal of L is not
//! stored; the diagonal holds that of U.
//!
//! | module | how |
//! |---|---|
//! | [`cpu::static_pivoting`] | the filled pattern is given; pivots are the diagonal, tiny ones are replaced and counted |
//! | [`cpu::threshold`] | pivots are searched, column by column; yields a row permutation, or the column in which the matrix is singular |
//! | [`gpu`] | static pivoting on the device: hybrid right-looking by levels |
//!
//! Static pivoting is the same algorithm on every backend. Threshold pivoting exists on the CPU; a
//! GPU factorizes statically with the row permutation found there.
//!
//! # Current limitations
//!
//! The CPU paths run on one thread and use no dense blocks.

pub mod cpu;
mod error;
pub mod gpu;
mod pattern;
mod pivots;

pub use error::NumericError;
pub use pattern::LuPattern;
pub use pivots::{LuValues, PivotReport, TinyPivots};
