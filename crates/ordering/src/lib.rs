//! The ordering phase: which row goes with which column, how the matrix is scaled, which blocks it
//! falls into and in which order its columns are eliminated.
//!
//! | item | what it does |
//! |---|---|
//! | [`order`] | the whole phase, as the solver calls it |
//! | [`order_symmetric`] | the whole phase for symmetric matrices |
//! | [`maximum_product`] | permutation of largest diagonal product with its scaling (MC64's objective) |
//! | [`maximum_cardinality`] | structural rank, unmatched rows and columns |
//! | [`dulmage_mendelsohn`] | which rows and columns make a matrix structurally singular |
//! | [`equilibrate`] | scaling by powers of two |
//! | [`block_triangular`] | block triangular form |
//!
//! Fill is reduced by approximate minimum degree, column approximate minimum degree, or nested dissection of what is left
//! after vertices of low degree are eliminated, on several threads.
//! Candidates are compared by the column counts of a symbolic Cholesky factorization, or by what a [`TreeCost`] says of
//! their elimination trees.
//!
//! # Features
//!
//! `metis` (off by default): [`Method::Metis`], nested dissection by METIS, for comparison. The crate `metis-sys` compiles its
//! C source, so this takes a C compiler. No other choice changes with it.
//!
//! # Current limitations
//!
//! - Square real matrices. METIS takes at most 2³¹−1 graph entries.
//! - While METIS runs, one call at a time in the process, it handles SIGTERM and SIGABRT itself,
//!   and other code that draws from the C library's `rand` makes its result vary.
//! - METIS cannot be cancelled: it works on a thread of its own, which a cancelled phase leaves behind, and which
//!   the next call of METIS in the process waits for.
//! - The fill-reducing methods but for nested dissection are serial; candidates run in parallel on rayon's pool.

mod averages;
mod block_order;
mod btf;
mod candidate;
mod column_degree;
mod cost;
mod dissection;
mod elimination;
mod equilibrate;
mod error;
mod graph;
mod matching;
#[cfg(feature = "metis")]
mod metis;
mod minimum_degree;
mod options;
mod order;
mod parts;
mod survey;
mod symmetric;

pub use btf::{BlockTriangular, block_triangular};
pub use cost::{Costs, Prediction, TreeCost};
pub use equilibrate::equilibrate;
pub use error::OrderingError;
pub use matching::{
    CardinalityMatching, CoarseDecomposition, Part, ProductMatching, check_rank,
    dulmage_mendelsohn, maximum_cardinality, maximum_product,
};
pub use options::{
    BlockReport, Matching, Method, MethodUsed, Ordering, OrderingOptions, OrderingSeconds,
};
pub use order::{PEAK_BYTES, order};
pub use symmetric::{
    SymmetricOptions, SymmetricOrdering, SymmetricScaling, equilibrate_symmetric, order_symmetric,
};
