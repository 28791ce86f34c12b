//! Numeric LU factorization on the GPU and the CPU.
//!
//! | module | how |
//! |---|---|
//! | [`cpu::blocks`] | a block triangular matrix, each diagonal block by one of the two engines below |
//! | [`cpu::columns`] | pivots are searched column by column, or kept for new values; for factors with few entries a column |
//! | [`luge_frontal`] | pivots are searched in dense fronts; for factors with many operations an entry |
//! | [`cpu::static_pivoting`] | the filled pattern is given; pivots are the diagonal, small ones are replaced and counted; the measure of the GPU |
//! | [`gpu`] | static pivoting on the device: hybrid right-looking by levels |
//!
//! Threshold pivoting exists on the CPU; a GPU factorizes statically with the row permutation found
//! there. Both follow the same [`PivotPolicy`](luge_sparse::PivotPolicy).
//!
//! The static paths keep the factors of B = L·U in one array, aligned with the columns of the filled
//! pattern: a [`LuPattern`] (CSC of L+U, rows sorted) and one value per entry. The unit diagonal of L
//! is not stored; the diagonal holds that of U. The engines of the CPU keep L and U apart.

pub mod cpu;
mod error;
#[cfg(feature = "gpu")]
pub mod gpu;
mod pattern;
mod pivots;

pub use error::NumericError;
pub use pattern::LuPattern;
pub use pivots::{LuValues, PivotReport};
