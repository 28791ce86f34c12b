//! Messages between ranks: the numbered participants of a distributed computation, each with memory of its own.
//!
//! | item | what it is |
//! |---|---|
//! | [`Comm`] | one rank's end: bytes to and from each other rank |
//! | [`Collectives`] | what all ranks call together, on any [`Comm`]: broadcast, gathering, reduction, barrier |
//! | [`Threads`] | ranks that are threads of one process; processes of MPI are those of `luge-mpi` |
//! | [`Team`] | a [`Comm`] on which ranks agree about failures, and notice when they are not at the same place |
//! | [`Plain`] | numbers that are sent as they lie in memory |
//!
//! ```
//! use luge_comm::{Collectives, Threads};
//!
//! let sums = Threads::run(3, |comm| {
//!     let mut sum = [1.0, comm.rank() as f64];
//!     comm.all_reduce(&mut sum, |a, b| a + b)?;
//!     Ok::<_, luge_comm::CommError>(sum)
//! });
//! assert!(sums.into_iter().all(|sum| sum == Ok([3.0, 3.0])));
//! # use luge_comm::Comm;
//! ```
//!
//! # Order
//!
//! Messages from one rank to another arrive in the order in which they were sent. A reduction takes the ranks' values in the
//! order of the ranks, so sums of floating-point numbers are the same bits each time and on every rank.
//!
//! # Failures
//!
//! No call waits for a rank that is gone. A rank that ends, panics or calls [`Comm::fail`] makes the calls of all others that
//! wait for a message end with a [`CommError`] that names it, and all later ones. With MPI a process that is killed is noticed
//! by `mpirun`, which ends the others; one that panics ends all by `MPI_Abort`.
//!
//! # Cost
//!
//! Collectives go by rank 0: gathering and broadcasting take the time of one message for each other rank. That is meant for
//! tens of ranks, with much work between two collectives.
//!
//! # Current limitations
//!
//! * All ranks must have one byte order: numbers are sent as they are.
//! * A send to a rank that does not receive may wait until that rank is gone (MPI), or takes memory (threads).

mod collectives;
mod error;
mod plain;
mod team;
mod threads;

use std::fmt::Debug;

pub use collectives::Collectives;
pub use error::CommError;
pub use plain::{Plain, bytes_of, from_bytes};
pub use team::{Complaint, Operation, Team};
pub use threads::Threads;

/// One rank's end of a group of ranks.
///
/// All calls are those of one rank; they may come from any thread, one at a time.
pub trait Comm: Debug + Send + Sync {
    /// The number of this rank, from 0 to [`size`](Self::size) − 1.
    fn rank(&self) -> usize;

    /// Number of ranks, at least 1.
    fn size(&self) -> usize;

    /// Sends a message.
    ///
    /// # Errors
    ///
    /// [`CommError`] if a rank has failed.
    ///
    /// # Panics
    ///
    /// If there is no other rank `to`.
    fn send(&self, to: usize, message: &[u8]) -> Result<(), CommError>;

    /// Waits for the next message of rank `from`.
    ///
    /// # Errors
    ///
    /// [`CommError::Left`] if that rank ended and has sent nothing more; [`CommError::Failed`] if any rank failed.
    ///
    /// # Panics
    ///
    /// If there is no other rank `from`.
    fn receive(&self, from: usize) -> Result<Vec<u8>, CommError>;

    /// Declares that this rank cannot go on: calls of all others that wait end with [`CommError::Failed`] and this `reason`, and
    /// so do later ones.
    fn fail(&self, reason: &str);
}

/// Panics at the caller's line unless `other` is another rank of the group.
#[track_caller]
fn check_other(comm: &(impl Comm + ?Sized), other: usize) {
    let (rank, size) = (comm.rank(), comm.size());
    assert!(
        other < size && other != rank,
        "rank {rank} of {size} has no other rank {other}"
    );
}
