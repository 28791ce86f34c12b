//! Sparse factorization in an assembly tree of dense fronts.
//!
//! | item | what it is |
//! |---|---|
//! | [`AssemblyTree`] | elimination tree, supernodes and structure of a symmetrised pattern, for every kind of factorization |
//! | [`Symbolic`] | an assembly tree with what one kind of factorization ([`Storage`]) stores on it and what that costs |
//! | [`FrontalLu`] | unsymmetric multifrontal LU with threshold pivoting, on the CPU |
//! | [`FrontalLdlt`] | symmetric multifrontal LDLᵀ with threshold pivoting, and Cholesky, on the CPU |
//!
//! The method: I. S. Duff and J. K. Reid, "The multifrontal solution of unsymmetric sets of linear
//! equations", SIAM J. Sci. Stat. Comput. 5 (1984); J. W. H. Liu, "The multifrontal method for sparse
//! matrix solution: theory and practice", SIAM Review 34 (1992).
//!
//! Threshold pivoting within the fully summed rows of a front, and columns without an acceptable pivot
//! passed on to the parent: I. S. Duff, "Parallel implementation of multifrontal schemes", Parallel
//! Computing 3 (1986); P. R. Amestoy and I. S. Duff, "Vectorization of a multiprocessor multifrontal
//! code", Int. J. Supercomputer Applications 3 (1989). Of symmetric fronts, by pivots of order 1 and 2: I. S. Duff and
//! J. K. Reid, "The multifrontal solution of indefinite sparse symmetric linear equations", ACM TOMS 9 (1983), and by blocks
//! with a check afterwards: J. Hogg, E. Ovtchinnikov and J. Scott, "A sparse symmetric indefinite direct solver for GPU
//! architectures", ACM TOMS 42 (2016).
//!
//! # Cost
//!
//! A [`CostModel`] predicts the seconds of a front with k pivots and c rows below them from its
//! k (k + 2 c) entries of L and U, the c² entries that it hands to its parent, and the operations of its
//! elimination, about 2/3 k³ + 2 k² c + 2 k c². The prediction decides which fronts are merged, which
//! subtrees become tasks of threads, and ([`Symbolic::seconds`]) whether a block is worth fronts at all.
//! Memory is predicted too ([`Symbolic::peak_bytes`]), for each number of threads: factors, generated
//! elements on two stacks by depth, and those that wait between threads.
//!
//! # Same bits
//!
//! Every entry of the factors is one chain of fused operations in elimination order, started from
//! a sum over matrix and children in a fixed order. No block size, tile or number of threads enters
//! it: factors are identical for any number of threads, and a refactorization of the same values
//! repeats the factorization. They differ between instruction sets.
//!
//! # Ranks
//!
//! With [`RankOptions`] the subtrees of a tree are dealt out to the ranks of a [`Team`](luge_comm::Team), threads or processes with
//! memories of their own, which all make the same calls with the same matrix. A rank has the panels of the fronts that it
//! eliminated, and all have the tree, the pivots and the labels of all fronts. The same bits come out as with one rank.
//!
//! # Current limitations
//!
//! * What is above the subtrees that are dealt out is the work of rank 0, while the others wait.
//!
//! * One front has at most 2³²−2 entries in its panels.
//! * Memory for delayed pivots is not predicted, only counted against a limit as it is taken. Nor is
//!   the copy of one panel that a refactorization makes of fronts whose rows or columns moved.
//! * A delayed column goes to the parent alone, and the columns of a front are tried in their order:
//!   nothing looks for the order that delays the fewest.
//! * Pivots that are mere rounding errors are taken, as in LAPACK; the report shows them. Only a column
//!   of exact zeros is called singular.

mod cut;
mod deal;
mod error;
mod factorize;
#[cfg(feature = "gpu")]
pub mod gpu;
mod grouped;
mod layout;
mod ldlt;
mod lu;
mod options;
mod parts;
#[cfg(feature = "gpu")]
mod portion;
mod schedule;
mod shares;
mod solve_schedule;
mod storage;
mod sweep;
mod symbolic;
mod totals;
mod tree;
mod triangular;
mod widths;

pub use deal::RankOptions;
pub use error::FrontalError;
pub use grouped::{Grouped, grouped};
pub use ldlt::{FrontalLdlt, Pivot, SymmetricQuality};
pub use lu::FrontalLu;
pub use luge_dense::{FrontalScalar, Kernels, SymmetricKernels, inverse_of_two};
pub use options::Options;
pub use parts::{FrontParts, PartsError};
pub use storage::{FrontEntries, Full, Lower, Storage};
pub use symbolic::Symbolic;
#[cfg(feature = "gpu")]
pub use tree::Gathering;
pub use tree::{AssemblyTree, CostModel, Front, Pairs, PathCosts, TreeOptions};
