//! Errors of communication.

/// Why a message was not sent or did not come.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// A rank ended while others still waited for it.
    #[error("rank {rank} has ended")]
    Left {
        /// The rank.
        rank: usize,
    },
    /// A rank declared that it cannot go on, or panicked.
    #[error("rank {rank} failed: {reason}")]
    Failed {
        /// The rank.
        rank: usize,
        /// What it said.
        reason: String,
    },
    /// A message has another length than its kind has.
    #[error("rank {rank} sent {bytes} bytes where {expected}")]
    Length {
        /// The rank that sent it.
        rank: usize,
        /// Its bytes.
        bytes: usize,
        /// What was expected, in words.
        expected: &'static str,
    },
    /// A rank is at another place of the program.
    #[error(
        "rank {rank} is at another step: its message is of step {found}, not of step {expected}"
    )]
    OutOfStep {
        /// The rank that sent the message.
        rank: usize,
        /// Its step.
        found: u64,
        /// The step of the rank that received it.
        expected: u64,
    },
    /// A rank gave up what all were doing; [`Team::agree`](crate::Team::agree) tells why.
    #[error("rank {rank} gave up")]
    Interrupted {
        /// The rank that was heard of it.
        rank: usize,
    },
    /// MPI could not be started, or was already.
    #[error("MPI cannot be used: {reason}")]
    Unavailable {
        /// Why.
        reason: &'static str,
    },
}
