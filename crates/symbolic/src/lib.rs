//! Symbolic LU factorization: exact filled patterns on the GPU and the CPU.
//!
//! The filled pattern of a square matrix B is the pattern of L+U under elimination without
//! pivoting and without cancellation. By the path theorem of Rose and Tarjan, (i, j) is in it iff
//! the graph of B has a path i → j whose inner vertices are all smaller than min(i, j); the
//! diagonal always counts as present.
//!
//! | module | how |
//! |---|---|
//! | [`cpu`] | structures of supernodes, pruned on both sides, then the rows of L+U from them; independent subtrees by several threads |
//! | [`gpu`] | on the device: panels up the elimination forest, or all rows at once by fill2 on the graph of B |
//!
//! Every backend gives the same pattern, bit for bit.

mod blocks;
pub mod cpu;
mod error;
mod forest;
#[cfg(feature = "gpu")]
pub mod gpu;

pub use blocks::diagonal_blocks;
pub use error::SymbolicError;

use luge_sparse::CompressedPattern;

#[track_caller]
pub(crate) fn assert_square(pattern: &CompressedPattern) {
    assert_eq!(
        pattern.major_dim(),
        pattern.minor_dim(),
        "the symbolic phase needs a square pattern"
    );
}
