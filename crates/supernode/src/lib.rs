//! Supernodes of an LU factorization: rows of L+U that are stored and worked on as one dense block.
//!
//! **T3 supernodes** (Definition 1 of gSoFa). Row s joins the supernode of rows r..s iff
//!
//! ```text
//! nnz(U(s, :)) = nnz(U(s−1, :)) − 1   and   L(s, r) ≠ 0   and   s − r < max_size
//! ```
//!
//! Then all rows of the supernode have the same structure right of it, and its square on the diagonal is
//! full in L and in U: the block holds no zero.
//!
//! **Relaxed supernodes** merge neighbours where few explicit zeros are added ([`Relaxation`]), as SuperLU
//! and CHOLMOD do, because many small blocks cost more than a few zeros.
//!
//! Every backend gives the same supernodes.
//!
//! | module | how |
//! |---|---|
//! | [`cpu`] | one sweep over the rows, then sweeps over pairs of neighbours |
//! | [`gpu`] | on the device: two phases in shared memory, then the same sweeps |
//!
//! # Current limitations
//!
//! The CPU path runs on one thread. Relaxation does not postorder: what belongs together must be
//! adjacent, as fill-reducing orderings leave it.

pub mod cpu;
mod error;
#[cfg(feature = "gpu")]
pub mod gpu;
mod options;
mod supernodes;

pub use error::SupernodeError;
pub use options::{LARGEST_SUPERNODE, Options, Relaxation, Tier};
pub use supernodes::{Statistics, Supernodes};
