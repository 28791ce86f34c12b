//! Generators, residuals, comparators and the corpus list for Luge's tests and benchmarks.
//!
//! | module | what it gives |
//! |---|---|
//! | [`generators`] | matrices that model applications, and matrices made to break a solver |
//! | [`strategies`] | `proptest` strategies for patterns, matrices, permutations |
//! | [`residual`] | backward errors, factor errors, and the one bound c·n·ε they are held to |
//! | [`exact`] | backward errors and conditions that neither overflow nor underflow |
//! | [`compare`] | comparisons of patterns, levels and values that name the first difference |
//! | [`corpus`] | the matrices of the corpus on disk, with what the degenerate ones must give |
//! | [`process`] | other programs that tests run |
//! | [`allocator`] | the bytes that a step takes of the heap |
//! | [`convert`] | from `sprs` matrices to the types of `luge-sparse`, and permuted and scaled |
//!
//! Only tests, benchmarks and `xtask` use this crate; so, unlike in a library, helpers here panic with
//! a report, read the environment ([`corpus::Corpus::open`]) and print what they skip.
//!
//! # Current limitations
//!
//! Generators make `f64` matrices of moderate size; nothing here is tuned for speed.

pub mod allocator;
pub mod compare;
pub mod convert;
pub mod corpus;
pub mod exact;
pub mod generators;
pub mod process;
pub mod residual;
pub mod strategies;
