//! Ranks that are threads of one process.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::{Comm, CommError, check_other};

/// A rank that is a thread of this process.
///
/// Sends never wait: messages lie in a queue until they are received. When the last handle of a rank is dropped the rank has
/// left; if that happens in a panic, it has failed.
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    group: Arc<Group>,
}

/// What all ranks share.
#[derive(Debug)]
struct Group {
    state: Mutex<State>,
    /// A message was sent, or a rank left or failed.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Messages from each rank (major) to each rank that were not received yet.
    queues: Vec<Vec<VecDeque<Vec<u8>>>>,
    has_left: Vec<bool>,
    /// The first failure.
    failure: Option<CommError>,
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No invariant spans a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: CommError) {
        self.lock().failure.get_or_insert(error);
        self.changed.notify_all();
    }
}

impl Threads {
    /// The ends of a group of `size` ranks, by rank.
    ///
    /// # Panics
    ///
    /// If `size` is 0.
    pub fn group(size: usize) -> Vec<Self> {
        assert!(size > 0, "a group has a rank at least");
        let group = Arc::new(Group {
            state: Mutex::new(State {
                queues: vec![vec![VecDeque::new(); size]; size],
                has_left: vec![false; size],
                failure: None,
            }),
            changed: Condvar::new(),
        });
        let rank = |rank| Self {
            rank,
            group: Arc::clone(&group),
        };
        (0..size).map(rank).collect()
    }

    /// Runs `work` on `size` threads, each a rank, and returns what they return, by rank.
    ///
    /// # Panics
    ///
    /// If `size` is 0, or the work of a rank panics; the others have ended then.
    pub fn run<R: Send>(size: usize, work: impl Fn(Self) -> R + Sync) -> Vec<R> {
        let work = &work;
        thread::scope(|scope| {
            let ranks = Self::group(size).into_iter();
            let threads: Vec<_> = ranks.map(|comm| scope.spawn(move || work(comm))).collect();
            let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            let result = |outcome: thread::Result<R>| {
                outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            outcomes.into_iter().map(result).collect()
        })
    }
}

impl Comm for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.group.lock().has_left.len()
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<(), CommError> {
        check_other(self, to);
        let mut state = self.group.lock();
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        state.queues[self.rank][to].push_back(message.to_vec());
        self.group.changed.notify_all();
        Ok(())
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, CommError> {
        check_other(self, from);
        let mut state = self.group.lock();
        loop {
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            if let Some(message) = state.queues[from][self.rank].pop_front() {
                return Ok(message);
            }
            if state.has_left[from] {
                // Whoever waits for this rank learns which one left first.
                let error = CommError::Left { rank: from };
                state.failure = Some(error.clone());
                self.group.changed.notify_all();
                return Err(error);
            }
            let waited = self.group.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn fail(&self, reason: &str) {
        self.group.fail(CommError::Failed {
            rank: self.rank,
            reason: reason.to_owned(),
        });
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if thread::panicking() {
            self.fail("it panicked");
            return;
        }
        self.group.lock().has_left[self.rank] = true;
        self.group.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::Collectives;

    /// Runs `work`, and fails if that takes as long as a hang would.
    fn in_time<R: Send>(size: usize, work: impl Fn(Threads) -> R + Sync) -> Vec<R> {
        let start = Instant::now();
        let results = Threads::run(size, work);
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "a rank waited in vain"
        );
        results
    }

    #[test]
    fn messages_of_a_rank_come_in_order() {
        in_time(2, |comm| {
            if comm.rank() == 0 {
                for i in 0..100u32 {
                    comm.send_slice(1, &[i]).unwrap();
                }
            } else {
                for i in 0..100u32 {
                    assert_eq!(comm.receive_vec::<u32>(0), Ok(vec![i]));
                }
            }
        });
    }

    #[test]
    fn collectives_are_the_same_on_all_ranks() {
        for size in 1..=5 {
            let all = in_time(size, |comm| {
                let rank = comm.rank();
                let own: Vec<u64> = (0..rank as u64).map(|i| 10 * rank as u64 + i).collect();
                let gathered = comm.all_gather(&own).unwrap();
                for (from, of_rank) in gathered.iter().enumerate() {
                    let expected: Vec<u64> =
                        (0..from as u64).map(|i| 10 * from as u64 + i).collect();
                    assert_eq!(*of_rank, expected);
                }
                let mut told = vec![rank as i32; rank + 1];
                comm.broadcast(size - 1, &mut told).unwrap();
                assert_eq!(told, vec![size as i32 - 1; size]);
                // Rounding tells in which order it was summed up.
                let mut sum = [[1e16, 1.0, -1e16, 1.0, 3.0][rank]];
                comm.all_reduce(&mut sum, |a, b| a + b).unwrap();
                comm.barrier().unwrap();
                sum[0]
            });
            let expected = [1e16, 1.0, -1e16, 1.0, 3.0][..size].iter().copied();
            let expected = expected.reduce(|a, b| a + b).unwrap();
            assert_eq!(all, vec![expected; size]);
        }
    }

    #[test]
    fn a_rank_that_left_is_named_to_all() {
        let errors = in_time(4, |comm| {
            if comm.rank() == 2 {
                // What it sent before still arrives.
                comm.send(0, b"last").unwrap();
                return None;
            }
            if comm.rank() == 0 {
                assert_eq!(comm.receive(2).unwrap(), b"last");
            }
            Some(comm.barrier())
        });
        for (rank, error) in errors.into_iter().enumerate() {
            let expected = (rank != 2).then_some(Err(CommError::Left { rank: 2 }));
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_rank_that_panics_or_fails_is_named_to_all() {
        let failed = |reason: &str| CommError::Failed {
            rank: 1,
            reason: reason.to_owned(),
        };
        let errors = Mutex::new(Vec::new());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            in_time(3, |comm| {
                assert!(comm.rank() != 1, "on purpose");
                // Neither waits for rank 1 itself.
                let error = comm.receive(2 - comm.rank());
                errors.lock().unwrap().push(error.unwrap_err());
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(*errors.lock().unwrap(), vec![failed("it panicked"); 2]);

        let errors = in_time(3, |comm| {
            if comm.rank() == 1 {
                comm.fail("no more memory");
                return comm.send(0, &[]);
            }
            comm.receive(2 - comm.rank()).map(drop)
        });
        assert_eq!(errors, vec![Err(failed("no more memory")); 3]);
    }

    #[test]
    fn numbers_of_another_length_are_refused() {
        let errors = in_time(2, |comm| {
            if comm.rank() == 0 {
                comm.send(1, &[1, 2, 3]).unwrap();
                let mut values = [1.0f64; 2];
                return comm.all_reduce(&mut values, f64::max);
            }
            let bytes = comm.receive_vec::<u16>(0).unwrap_err();
            assert!(matches!(
                bytes,
                CommError::Length {
                    rank: 0,
                    bytes: 3,
                    ..
                }
            ));
            comm.all_reduce(&mut [1.0f64], f64::max)
        });
        assert!(matches!(
            errors[0],
            Err(CommError::Length {
                rank: 1,
                bytes: 8,
                ..
            })
        ));
        assert_eq!(errors[1], Err(CommError::Left { rank: 0 }));
    }

    #[test]
    #[should_panic(expected = "rank 0 of 1 has no other rank 0")]
    fn nobody_sends_to_itself() {
        let _ = Threads::group(1)[0].send(0, &[]);
    }
}
