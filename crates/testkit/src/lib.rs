//! Generators, residuals, comparators and the corpus list for Luge's tests and benchmarks.
//!
//! | module | what it gives |
//! |---|---|
//! | [`generators`] | matrices that model applications, and matrices made to break a solver |
//! | [`strategies`] | `proptest` strategies for patterns, matrices, permutations |
//! | [`residual`] | backward errors, factor errors, and the one bound c·n·ε they are held to |
//! | [`compare`] | comparisons of patterns, levels and values that name the first difference |
//! | [`convert`] | from `sprs` matrices to the types of `luge-sparse`, and permuted and scaled |
//!
//! Only tests, benchmarks and `xtask` use this crate; so, unlike in a library, helpers here panic with
//! a report.
//!
//! # Current limitations
//!
//! Generators make `f64` matrices of moderate size; nothing here is tuned for speed.

pub mod compare;
pub mod convert;
pub mod generators;
pub mod residual;
pub mod strategies;
