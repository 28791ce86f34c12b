//! Failures that all ranks have in common.

use luge_comm::{Comm, CommError, Complaint, Team};

use crate::error::Error;

/// A failure of one rank, as all ranks return it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("rank {rank}: {message}")]
pub struct RankError {
    /// The rank on which it arose: of several the first. Where every rank would have failed, as with a matrix that is not
    /// square, it is rank 0, and where a front has no pivot, the rank that has the front.
    pub rank: usize,
    /// What kind of failure it is.
    pub kind: RankErrorKind,
    /// What it is, in words.
    pub message: String,
    /// What this rank returned.
    own: Option<Error>,
    /// Whether all ranks failed for themselves, at the same place.
    is_of_all: bool,
}

impl RankError {
    /// The error of this rank, with its details; `None` if others alone had one.
    pub fn own(&self) -> Option<&Error> {
        self.own.as_ref()
    }

    /// Whether the call failed on all ranks at the same place, so that they are still in the same state.
    pub(super) fn is_of_all(&self) -> bool {
        self.is_of_all
    }
}

/// As far as all ranks know.
impl PartialEq for RankError {
    fn eq(&self, other: &Self) -> bool {
        (self.rank, self.kind, &self.message) == (other.rank, other.kind, &other.message)
    }
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum RankErrorKind {
    /// What was handed in is not valid, or not the same on all ranks.
    BadInput = 1,
    /// The matrix is singular, not definite as it should be, or its factors are unstable.
    Singular = 2,
    /// Memory is short.
    OutOfMemory = 3,
    /// The caller raised a cancel flag.
    Cancelled = 4,
    /// A rank is gone, or no longer in step.
    Communication = 5,
    /// Anything else.
    Other = 6,
}

/// That a rank was interrupted by another one's failure.
const INTERRUPTED: u8 = 0;

impl RankErrorKind {
    fn of(error: &Error) -> Self {
        match error {
            Error::OutOfMemory { .. } | Error::BatchOutOfMemory { .. } => Self::OutOfMemory,
            Error::Cancelled(_) => Self::Cancelled,
            Error::StructurallySingular { .. }
            | Error::ZerosOnly { .. }
            | Error::ZeroPivot { .. }
            | Error::NoPivots { .. }
            | Error::NotPositiveDefinite { .. }
            | Error::SingularToRounding { .. }
            | Error::Overflow { .. }
            | Error::SolutionNotFinite { .. }
            | Error::Unstable { .. } => Self::Singular,
            Error::Threads(_)
            | Error::Ordering(_)
            | Error::FeatureOff { .. }
            | Error::Device(_) => Self::Other,
            _ => Self::BadInput,
        }
    }

    fn from_code(code: u8) -> Self {
        let all = [
            Self::BadInput,
            Self::Singular,
            Self::OutOfMemory,
            Self::Cancelled,
            Self::Communication,
        ];
        let found = all.into_iter().find(|&kind| kind as u8 == code);
        found.unwrap_or(Self::Other)
    }
}

/// An error that [`together`](super::Ranks::together) tells the other ranks.
pub trait Outcome: std::fmt::Display {
    /// What kind of failure it is.
    fn kind(&self) -> RankErrorKind;

    /// The error as the solver returned it, if it is one of those.
    fn into_error(self) -> Option<Error>
    where
        Self: Sized;
}

impl Outcome for Error {
    fn kind(&self) -> RankErrorKind {
        RankErrorKind::of(self)
    }

    fn into_error(self) -> Option<Error> {
        Some(self)
    }
}

/// Anything that was handed in and cannot be used, in words.
impl Outcome for String {
    fn kind(&self) -> RankErrorKind {
        RankErrorKind::BadInput
    }

    fn into_error(self) -> Option<Error> {
        None
    }
}

/// What can be wrong with what ranks share with each other; all of them see the same, and have blamed the same rank.
#[derive(Debug, thiserror::Error)]
pub(super) enum Shared {
    #[error("it was given {0}")]
    Input(String),
    #[error(transparent)]
    Comm(#[from] CommError),
}

impl Outcome for Shared {
    fn kind(&self) -> RankErrorKind {
        match self {
            Self::Input(_) => RankErrorKind::BadInput,
            Self::Comm(_) => RankErrorKind::Communication,
        }
    }

    fn into_error(self) -> Option<Error> {
        None
    }
}

/// Does `work`, and agrees with all ranks on what became of it.
pub(super) fn together<T, E: Outcome>(
    team: &Team,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, RankError> {
    let outcome = work();
    let complaint = outcome.as_ref().err().map(|error| {
        let (kind, message) = match team.failure() {
            Some(CommError::Interrupted { .. }) => (INTERRUPTED, String::new()),
            Some(failure) => (RankErrorKind::Communication as u8, failure.to_string()),
            None => (error.kind() as u8, error.to_string()),
        };
        Complaint {
            rank: team.culprit(),
            kind,
            message,
        }
    });
    let own = |outcome: Result<T, E>| outcome.err().and_then(Outcome::into_error);
    let all = match team.agree(complaint.as_ref()) {
        Ok(all) => all,
        Err(error) => {
            let rank = match error {
                CommError::Left { rank } | CommError::Failed { rank, .. } => rank,
                _ => team.rank(),
            };
            return Err(RankError {
                rank,
                kind: RankErrorKind::Communication,
                message: error.to_string(),
                own: own(outcome),
                is_of_all: false,
            });
        }
    };
    let is_own = |complaint: &Complaint| complaint.kind != INTERRUPTED;
    let is_of_all = all
        .iter()
        .all(|of_rank| of_rank.as_ref().is_some_and(is_own));
    let complaints = || all.iter().flatten();
    let cause = complaints().find(|complaint| is_own(complaint));
    let Some(first) = cause.or(complaints().next()) else {
        return outcome.map_err(|_| unreachable!("this rank's failure is among all"));
    };
    Err(RankError {
        rank: first.rank,
        kind: RankErrorKind::from_code(first.kind),
        message: first.message.clone(),
        own: own(outcome),
        is_of_all,
    })
}
