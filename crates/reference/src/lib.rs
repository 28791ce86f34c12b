//! Textbook definitions of every phase of the Luge sparse solver: the oracle of its tests.
//!
//! Plain loops, one thread, no unsafe code, and nothing shared with the code that is checked except
//! the types of `luge-sparse`. Each function follows a definition or the pseudocode of a paper, and
//! is itself checked against another one that reaches the same answer by a different road:
//!
//! | module | what it defines | checked against |
//! |---|---|---|
//! | [`primitives`] | prefix sum, segmented sort, transpose | direct evaluation, each other |
//! | [`matching`] | largest matchings, structural rank | all choices tried |
//! | [`symbolic`] | the filled pattern, five times over | each other |
//! | [`levelize`] | column dependencies and levels | hazards enumerated cell by cell |
//! | [`supernode`] | T3 and relaxed supernodes | equality of row structures; what a merge must keep |
//! | [`numeric`] | dense LU with three pivot rules, sparse LU right- and left-looking | each other, bit for bit |
//! | [`solve`] | triangular solves, residuals, backward errors | products with the factors |
//! | [`ldlt`] | dense LDLᵀ with 1×1 and 2×2 pivots, inertia | known inertia, LU |
//! | [`frontal`] | fronts: assembly, partial LU and LDLᵀ with delayed pivots, solves, with error bounds | dense LU, products with the factors, known inertia |
//!
//! A sparse matrix is a [`CompressedPattern`](luge_sparse::CompressedPattern) of its rows beside a
//! slice of values in the same order; a dense one is a [`Dense`].
//!
//! # Current limitations
//!
//! Made to be right and readable, not fast: dense routines take O(n³), the path theorem O(n²·nnz).

// Loops carry the indices of the definitions they follow.
#![allow(clippy::needless_range_loop)]

mod dense;
pub mod frontal;
pub mod ldlt;
pub mod levelize;
pub mod matching;
pub mod numeric;
pub mod primitives;
pub mod solve;
pub mod supernode;
pub mod symbolic;

#[cfg(test)]
mod arbitrary;

pub use dense::Dense;
