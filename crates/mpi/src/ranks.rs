//! Ranks that are processes of MPI.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Equivalence, Source};
use mpi::{Tag, Threading};

use luge_comm::{Comm, CommError};

/// Tag of messages, of which each begins with its number of bytes.
const MESSAGE: Tag = 1;

/// Tag of what a rank tells of one that failed or left.
const FAILURE: Tag = 2;

/// Tag of the last message of a rank, which is empty.
const LEFT: Tag = 3;

/// Most bytes in one call, for MPI counts in 31 bits.
const MAX_BYTES: usize = 1 << 30;

/// Looks for a message before a rank that waits lets others have its core.
const LOOKS: u32 = 200;

/// Longest pause between two looks. Ranks may be more than cores.
const LONGEST_PAUSE: Duration = Duration::from_micros(500);

/// A rank that is a process of MPI, started by `mpirun` or whatever starts processes of the installation.
///
/// MPI is started with the first value and ended when that is dropped, which waits until all ranks have come so far; so a rank
/// that returns early with an error does not leave others waiting. If it is dropped in a panic, all processes are ended
/// (`MPI_Abort`, exit code 1). Where a process is killed, `mpirun` ends the others.
pub struct Mpi {
    rank: usize,
    size: usize,
    inner: Mutex<Inner>,
}

struct Inner {
    world: SimpleCommunicator,
    /// The first failure that this rank knows of.
    failure: Option<CommError>,
    /// Which other ranks have left.
    has_left: Vec<bool>,
    /// Ends MPI when it is dropped.
    _universe: Universe,
}

// SAFETY: the handles belong to MPI, which was started for calls from any thread, one at a time, and the mutex sees to that.
unsafe impl Send for Inner {}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mpi {{ rank: {}, size: {} }}", self.rank, self.size)
    }
}

impl Mpi {
    #[track_caller]
    fn check_other(&self, other: usize) {
        assert!(
            other < self.size && other != self.rank,
            "rank {} of {} has no other rank {other}",
            self.rank,
            self.size
        );
    }

    /// Starts MPI: the rank that this process is among all that were started with it.
    ///
    /// # Errors
    ///
    /// [`CommError::Unavailable`] if MPI was started before, or allows no calls from several threads.
    pub fn start() -> Result<Self, CommError> {
        let unavailable = |reason| CommError::Unavailable { reason };
        let (universe, threading) = mpi::initialize_with_threading(Threading::Serialized)
            .ok_or(unavailable("it was started before"))?;
        if threading < Threading::Serialized {
            return Err(unavailable("it allows no calls from several threads"));
        }
        // Messages of others in the same process do not mix with these.
        let world = universe.world().duplicate();
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        let inner = Inner {
            world,
            failure: None,
            has_left: vec![false; size],
            _universe: universe,
        };
        Ok(Self {
            rank,
            size,
            inner: Mutex::new(inner),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No invariant spans a panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the first failure that this rank knows of, and tells the others.
    fn tell(&self, inner: &mut Inner, error: CommError) {
        for other in self.others() {
            inner.send(other, FAILURE, &told_of(&error));
        }
        inner.failure = Some(error);
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.size).filter(move |&other| other != rank)
    }
}

impl Inner {
    fn send(&self, to: usize, tag: Tag, message: &[u8]) {
        let process = self.world.process_at_rank(to as i32);
        let mut first = (message.len() as u64).to_le_bytes().to_vec();
        let (begin, rest) = message.split_at(message.len().min(MAX_BYTES - first.len()));
        first.extend(begin);
        process.send_with_tag(&first[..], tag);
        for part in rest.chunks(MAX_BYTES) {
            process.send_with_tag(part, tag);
        }
    }

    /// The next message of a rank with this tag, if one is there.
    fn take(&self, from: usize, tag: Tag) -> Option<Vec<u8>> {
        let process = self.world.process_at_rank(from as i32);
        let (message, status) = process.immediate_matched_probe_with_tag(tag)?;
        let mut bytes = vec![0u8; status.count(u8::equivalent_datatype()) as usize];
        message.matched_receive_into(&mut bytes[..]);
        let length = bytes
            .first_chunk()
            .map_or(0, |length| u64::from_le_bytes(*length)) as usize;
        bytes.drain(..8.min(bytes.len()));
        while bytes.len() < length {
            let begin = bytes.len();
            bytes.resize(length.min(begin + MAX_BYTES), 0);
            process.receive_into_with_tag(&mut bytes[begin..], tag);
        }
        Some(bytes)
    }

    /// Takes in what other ranks say of themselves.
    fn listen(&mut self, others: impl Iterator<Item = usize>) {
        for other in others {
            if let Some(told) = self.take(other, FAILURE) {
                self.failure.get_or_insert(failure_told(&told, other));
            }
            if !self.has_left[other] && self.take(other, LEFT).is_some() {
                self.has_left[other] = true;
            }
        }
    }
}

/// What others are told of a failure: the rank that failed or left, and the reason if it failed.
fn told_of(error: &CommError) -> Vec<u8> {
    let (rank, reason) = match error {
        CommError::Left { rank } => (*rank, None),
        CommError::Failed { rank, reason } => (*rank, Some(reason)),
        _ => unreachable!("ranks fail or leave"),
    };
    let mut told = (rank as u64).to_le_bytes().to_vec();
    told.push(u8::from(reason.is_some()));
    told.extend(reason.into_iter().flat_map(|reason| reason.bytes()));
    told
}

/// The failure that rank `other` told of.
fn failure_told(told: &[u8], other: usize) -> CommError {
    let (rank, rest) = match told.split_first_chunk() {
        Some((rank, rest)) => (u64::from_le_bytes(*rank) as usize, rest),
        None => (other, told),
    };
    match rest.split_first() {
        Some((1, reason)) => CommError::Failed {
            rank,
            reason: String::from_utf8_lossy(reason).into_owned(),
        },
        _ => CommError::Left { rank },
    }
}

/// Looks again and again, the longer it takes the more seldom.
fn poll<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let mut looks = 0;
    let mut pause = Duration::from_micros(1);
    loop {
        if let Some(found) = look() {
            return found;
        }
        looks += 1;
        if looks < LOOKS {
            thread::yield_now();
        } else {
            thread::sleep(pause);
            pause = LONGEST_PAUSE.min(2 * pause);
        }
    }
}

impl Comm for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<(), CommError> {
        self.check_other(to);
        let inner = self.lock();
        if let Some(error) = &inner.failure {
            return Err(error.clone());
        }
        inner.send(to, MESSAGE, message);
        Ok(())
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, CommError> {
        self.check_other(from);
        poll(|| {
            let mut inner = self.lock();
            if let Some(error) = &inner.failure {
                return Some(Err(error.clone()));
            }
            // It left before the message was looked for, so what it sent is there.
            let has_left = inner.has_left[from];
            if let Some(message) = inner.take(from, MESSAGE) {
                return Some(Ok(message));
            }
            if has_left {
                // It may have told before why, and whoever waits for this rank learns which one left first.
                inner.listen(self.others());
                if inner.failure.is_none() {
                    let error = CommError::Left { rank: from };
                    self.tell(&mut inner, error);
                }
                return inner.failure.clone().map(Err);
            }
            inner.listen(self.others());
            None
        })
    }

    fn fail(&self, reason: &str) {
        let mut inner = self.lock();
        if inner.failure.is_none() {
            let error = CommError::Failed {
                rank: self.rank,
                reason: reason.to_owned(),
            };
            self.tell(&mut inner, error);
        }
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        let inner = self.lock();
        if thread::panicking() {
            inner.world.abort(1);
        }
        for other in self.others() {
            inner.send(other, LEFT, &[]);
        }
        drop(inner);
        // Messages that nobody wants any more are taken, or their senders would wait for ever.
        poll(|| {
            let mut inner = self.lock();
            for other in self.others() {
                while inner.take(other, MESSAGE).is_some() {}
            }
            inner.listen(self.others());
            self.others()
                .all(|other| inner.has_left[other])
                .then_some(())
        });
    }
}
