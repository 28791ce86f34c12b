//! Ranks that agree about failures.
//!
//! # Protocol
//!
//! All ranks run the same program: the same operations in the same order. Every message of an operation says which operation it
//! is of, and how many came before it. Ranks 1, 2, … exchange messages with rank 0 alone.
//!
//! After a piece of work all call [`Team::agree`], each with what went wrong on it, if anything did:
//!
//! ```text
//!   rank 0                                    rank r
//!   STOP to all, if something went wrong      STATUS to rank 0
//!   reads all messages up to each STATUS      reads all messages up to VERDICT
//!   VERDICT to all: the statuses of all
//! ```
//!
//! A rank that gives up in the midst of an operation goes there at once. Whoever still waits for a message of that operation
//! gets a STATUS or a STOP in its place, ends it with [`CommError::Interrupted`], and goes there too; whatever else it tries
//! before ends at once with the same error. A rank waits for rank 0
//! alone, and rank 0 for one whose messages come in the order of the program, so each of them comes to its STATUS. Since everybody
//! reads up to the STATUS or the VERDICT, no message of the work before is left, and the next one starts afresh.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Comm, CommError};

/// What ranks do together, so that no message is taken for one of another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Sharing what a call was given.
    Input = 1,
    /// A symbolic factorization.
    Symbolic,
    /// A numeric factorization.
    Factorize,
    /// A solve.
    Solve,
    /// A measurement of the factors.
    Measure,
}

/// What went wrong on a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The rank on which it went wrong, which may be another one than that which says so.
    pub rank: usize,
    /// What kind of failure it is; the meaning is the caller's.
    pub kind: u8,
    /// What it is, in words.
    pub message: String,
}

/// One rank of a group whose ranks run the same program and agree about failures.
///
/// Clones are the same rank.
#[derive(Debug, Clone)]
pub struct Team {
    comm: Arc<dyn Comm>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Operations since the last agreement, and the last of them.
    step: AtomicU64,
    agreement: Mutex<Agreement>,
}

#[derive(Debug, Default)]
struct Agreement {
    /// Statuses that came in the place of other messages, by rank; on rank 0.
    early: Vec<(usize, Vec<u8>)>,
    /// The first failure of communication since the last agreement.
    failure: Option<CommError>,
    /// The rank whose work an error that all ranks have is from.
    culprit: Option<usize>,
}

/// Kinds of messages, their first byte.
const DATA: u8 = 0;
const STOP: u8 = 1;
const STATUS: u8 = 2;
const VERDICT: u8 = 3;

/// Bytes before the contents: kind and step.
const HEADER: usize = 9;

impl Team {
    /// The rank that `comm` is. All of them make their teams at the same time.
    pub fn new(comm: Arc<dyn Comm>) -> Self {
        Self {
            comm,
            state: Arc::default(),
        }
    }

    fn agreement(&self) -> MutexGuard<'_, Agreement> {
        let agreement = self.state.agreement.lock();
        agreement.unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an operation. All messages up to the next call are of it.
    pub fn enter(&self, operation: Operation) {
        let before = self.state.step.load(Ordering::Relaxed) >> 8;
        let step = (before + 1) << 8 | operation as u64;
        self.state.step.store(step, Ordering::Relaxed);
    }

    /// Notes on which rank an error arose that all ranks have.
    pub fn blame(&self, rank: usize) {
        self.agreement().culprit = Some(rank);
    }

    /// Rank on which an error of this rank arose: that which was [blamed](Self::blame) since the last agreement, or this one.
    pub fn culprit(&self) -> usize {
        self.agreement().culprit.unwrap_or(self.rank())
    }

    /// The first failure of communication since the last agreement.
    pub fn failure(&self) -> Option<CommError> {
        self.agreement().failure.clone()
    }

    /// Tells all ranks whether something went wrong on this one, and learns it of all: the complaints by rank.
    ///
    /// # Errors
    ///
    /// [`CommError`] if a rank is gone. Ranks that merely gave up are no error.
    pub fn agree(
        &self,
        complaint: Option<&Complaint>,
    ) -> Result<Vec<Option<Complaint>>, CommError> {
        let early = {
            let mut agreement = self.agreement();
            let early = std::mem::take(&mut agreement.early);
            *agreement = Agreement::default();
            early
        };
        self.state.step.store(0, Ordering::Relaxed);
        let own = encode(complaint);
        if self.rank() > 0 {
            self.send_as(STATUS, 0, &own)?;
            let verdict = self.receive_as(VERDICT, 0)?;
            return decode_all(&verdict, self.size()).ok_or(garbled(0, verdict.len()));
        }
        let size = self.size();
        let mut statuses = vec![own];
        if complaint.is_some() {
            for rank in 1..size {
                self.send_as(STOP, rank, &[])?;
            }
        }
        for rank in 1..size {
            let came = early.iter().find(|(from, _)| *from == rank);
            statuses.push(match came {
                Some((_, status)) => status.clone(),
                None => self.receive_as(STATUS, rank)?,
            });
        }
        let verdict = statuses.concat();
        for rank in 1..size {
            self.send_as(VERDICT, rank, &verdict)?;
        }
        decode_all(&verdict, size).ok_or(garbled(0, verdict.len()))
    }

    fn send_as(&self, kind: u8, to: usize, contents: &[u8]) -> Result<(), CommError> {
        let step = self.state.step.load(Ordering::Relaxed);
        let mut message = Vec::with_capacity(HEADER + contents.len());
        message.push(kind);
        message.extend(step.to_le_bytes());
        message.extend(contents);
        self.comm.send(to, &message)
    }

    /// The next message of this kind; those of others are of work that was given up.
    fn receive_as(&self, kind: u8, from: usize) -> Result<Vec<u8>, CommError> {
        loop {
            let mut message = self.comm.receive(from)?;
            let (found, _) = header(&message).ok_or(garbled(from, message.len()))?;
            if found == kind {
                message.drain(..HEADER);
                return Ok(message);
            }
        }
    }

    fn receive_data(&self, from: usize) -> Result<Vec<u8>, CommError> {
        let mut message = self.comm.receive(from)?;
        let (kind, found) = header(&message).ok_or(garbled(from, message.len()))?;
        let expected = self.state.step.load(Ordering::Relaxed);
        match kind {
            DATA if found == expected => {
                message.drain(..HEADER);
                Ok(message)
            }
            DATA => Err(CommError::OutOfStep {
                rank: from,
                found: found >> 8,
                expected: expected >> 8,
            }),
            _ => {
                if kind == STATUS {
                    message.drain(..HEADER);
                    self.agreement().early.push((from, message));
                }
                Err(CommError::Interrupted { rank: from })
            }
        }
    }

    /// What `exchange` does, unless something failed since the last agreement: others are on their way there, and would not
    /// answer.
    fn unless_failed<T>(
        &self,
        exchange: impl FnOnce() -> Result<T, CommError>,
    ) -> Result<T, CommError> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let outcome = exchange();
        if let Err(error) = &outcome {
            self.agreement().failure = Some(error.clone());
        }
        outcome
    }
}

/// Messages of the operation that was last [entered](Team::enter). Ranks other than 0 exchange them with rank 0 alone.
impl Comm for Team {
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    fn size(&self) -> usize {
        self.comm.size()
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<(), CommError> {
        assert!(to == 0 || self.rank() == 0, "messages go to or from rank 0");
        self.unless_failed(|| self.send_as(DATA, to, message))
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, CommError> {
        assert!(
            from == 0 || self.rank() == 0,
            "messages go to or from rank 0"
        );
        self.unless_failed(|| self.receive_data(from))
    }

    fn fail(&self, reason: &str) {
        self.comm.fail(reason);
    }
}

fn header(message: &[u8]) -> Option<(u8, u64)> {
    let (kind, rest) = message.split_first()?;
    Some((*kind, u64::from_le_bytes(*rest.first_chunk()?)))
}

fn garbled(rank: usize, bytes: usize) -> CommError {
    CommError::Length {
        rank,
        bytes,
        expected: "more were announced",
    }
}

/// A status: whether there is a complaint, its rank, its kind, the length of its message, the message.
fn encode(complaint: Option<&Complaint>) -> Vec<u8> {
    let Some(complaint) = complaint else {
        return vec![0];
    };
    let mut bytes = vec![1, complaint.kind];
    bytes.extend((complaint.rank as u64).to_le_bytes());
    bytes.extend((complaint.message.len() as u64).to_le_bytes());
    bytes.extend(complaint.message.as_bytes());
    bytes
}

fn decode_all(mut bytes: &[u8], size: usize) -> Option<Vec<Option<Complaint>>> {
    let mut all = Vec::with_capacity(size);
    for _ in 0..size {
        let (&is_complaint, rest) = bytes.split_first()?;
        bytes = rest;
        if is_complaint == 0 {
            all.push(None);
            continue;
        }
        let (&kind, rest) = bytes.split_first()?;
        let (rank, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (message, rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
        bytes = rest;
        all.push(Some(Complaint {
            rank: u64::from_le_bytes(*rank) as usize,
            kind,
            message: String::from_utf8_lossy(message).into_owned(),
        }));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collectives, Threads};

    fn teams<R: Send>(size: usize, work: impl Fn(Team) -> R + Sync) -> Vec<R> {
        Threads::run(size, |comm| work(Team::new(Arc::new(comm))))
    }

    fn complaint(rank: usize) -> Complaint {
        Complaint {
            rank,
            kind: 7,
            message: format!("rank {rank} has no memory for λ"),
        }
    }

    #[test]
    fn ranks_go_on_after_one_gave_up() {
        for size in 1..=5 {
            for culprit in 0..size {
                teams(size, |team| {
                    // Others are before, in, or after collectives of the work that the culprit gave up.
                    let mut complaints = None;
                    for round in 0..3 {
                        team.enter(Operation::Solve);
                        if team.rank() == culprit && round == 1 {
                            complaints = Some(complaint(culprit));
                            break;
                        }
                        if let Err(error) = team.all_gather(&[round]) {
                            assert!(matches!(error, CommError::Interrupted { .. }), "{error}");
                            assert_eq!(team.failure(), Some(error));
                            complaints = Some(complaint(team.culprit()));
                            break;
                        }
                    }
                    let all = team.agree(complaints.as_ref()).unwrap();
                    assert_eq!(all[culprit], Some(complaint(culprit)));
                    assert_eq!(team.failure(), None);
                    // Afterwards they are in step.
                    team.enter(Operation::Measure);
                    assert_eq!(team.all_gather(&[team.rank()]).unwrap().len(), size);
                    assert_eq!(team.agree(None).unwrap(), vec![None; size]);
                });
            }
        }
    }

    #[test]
    fn after_a_failure_nothing_is_waited_for() {
        teams(3, |team| {
            if team.rank() != 2 {
                team.enter(Operation::Factorize);
                let outcome = team.barrier();
                // Rank 2 has given up before, and does not answer a second time.
                team.enter(Operation::Factorize);
                assert_eq!(team.barrier(), outcome);
                assert!(matches!(outcome, Err(CommError::Interrupted { .. })));
            }
            team.agree(Some(&complaint(2))).unwrap();
            team.enter(Operation::Solve);
            team.barrier().unwrap();
        });
    }

    #[test]
    fn a_rank_that_skipped_an_operation_is_noticed() {
        let errors = teams(3, |team| {
            team.enter(Operation::Factorize);
            if team.rank() != 1 {
                team.enter(Operation::Factorize);
            }
            let outcome = team.barrier();
            team.agree(outcome.is_err().then_some(&complaint(0)))
                .unwrap();
            outcome
        });
        let expected = CommError::OutOfStep {
            rank: 1,
            found: 1,
            expected: 2,
        };
        assert_eq!(errors[0], Err(expected));
        assert!(errors[1..].iter().all(Result::is_err));
        // And so is another operation.
        let errors = teams(2, |team| {
            team.enter([Operation::Solve, Operation::Measure][team.rank()]);
            let outcome = team.barrier();
            team.agree(outcome.is_err().then_some(&complaint(0)))
                .unwrap();
            outcome.is_err()
        });
        assert_eq!(errors, [true; 2]);
    }

    #[test]
    fn the_culprit_is_who_was_blamed_last() {
        teams(2, |team| {
            assert_eq!(team.culprit(), team.rank());
            team.blame(1);
            assert_eq!(team.culprit(), 1);
            team.agree(None).unwrap();
            assert_eq!(team.culprit(), team.rank());
        });
    }
}
