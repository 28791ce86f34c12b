//! Ranks that are processes of MPI: the type `Mpi`, with the feature `mpi`, which is off by default.
//!
//! It is a crate of its own because phases stand on `luge-comm`: with MPI as a feature there, all of them would be built once
//! more for it.

#[cfg(feature = "mpi")]
mod ranks;

#[cfg(feature = "mpi")]
pub use ranks::Mpi;
