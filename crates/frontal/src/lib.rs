//! Sparse factorization in an assembly tree of dense fronts.
//!
//! | item | what it is |
//! |---|---|
//! | [`Tree`] | elimination tree, supernodes, structure and cost of a symmetrised pattern |
//! | [`FrontalLu`] | unsymmetric multifrontal LU with threshold pivoting, on the CPU |
//!
//! The method: I. S. Duff and J. K. Reid, "The multifrontal solution of unsymmetric sets of linear
//! equations", SIAM J. Sci. Stat. Comput. 5 (1984); J. W. H. Liu, "The multifrontal method for sparse
//! matrix solution: theory and practice", SIAM Review 34 (1992).
//!
//! # Same bits
//!
//! Every entry of the factors is one chain of fused operations in elimination order, started from
//! a sum over matrix and children in a fixed order. No block size, tile or number of threads enters
//! it: factors are identical for any number of threads, and a refactorization of the same values
//! repeats the factorization. They differ between instruction sets.
//!
//! # Current limitations
//!
//! One front has at most 2³²−2 entries in its panels. Delayed pivots are never passed sideways, and
//! memory for them is not predicted.

mod error;
mod kernels;
mod lu;
mod tree;

pub use error::FrontalError;
pub use kernels::{FrontalScalar, Kernels};
pub use lu::{FrontalLu, Options};
pub use tree::{CostModel, Front, Tree, TreeOptions};
