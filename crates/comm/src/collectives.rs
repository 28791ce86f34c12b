//! What all ranks call together.

use crate::plain::{Plain, bytes_of, from_bytes};
use crate::{Comm, CommError};

/// Messages of numbers, and collective calls, on any [`Comm`].
///
/// Every rank makes the same collective calls in the same order. Each returns the same on all ranks. Where one fails on a
/// rank, those of the others end with an error too, as the failed rank's next messages do not come.
pub trait Collectives: Comm {
    /// Sends numbers.
    ///
    /// # Errors
    ///
    /// As [`Comm::send`].
    fn send_slice<T: Plain>(&self, to: usize, values: &[T]) -> Result<(), CommError> {
        self.send(to, bytes_of(values))
    }

    /// Waits for the numbers that rank `from` sends next.
    ///
    /// # Errors
    ///
    /// As [`Comm::receive`]; [`CommError::Length`] if they are not of this type.
    fn receive_vec<T: Plain>(&self, from: usize) -> Result<Vec<T>, CommError> {
        let message = self.receive(from)?;
        from_bytes(&message).ok_or(CommError::Length {
            rank: from,
            bytes: message.len(),
            expected: "a whole number of values was expected",
        })
    }

    /// Replaces `values` by those of rank `root`, whatever their number.
    ///
    /// # Errors
    ///
    /// [`CommError`].
    ///
    /// # Panics
    ///
    /// If there is no rank `root`.
    fn broadcast<T: Plain>(&self, root: usize, values: &mut Vec<T>) -> Result<(), CommError> {
        assert!(root < self.size(), "a rank of the group");
        if self.rank() != root {
            *values = self.receive_vec(root)?;
            return Ok(());
        }
        let others = (0..self.size()).filter(|&other| other != root);
        for other in others {
            self.send_slice(other, values)?;
        }
        Ok(())
    }

    /// The values of all ranks, by rank; each may have another number of them.
    ///
    /// # Errors
    ///
    /// [`CommError`].
    fn all_gather<T: Plain>(&self, values: &[T]) -> Result<Vec<Vec<T>>, CommError> {
        let mut all = self.gather(values)?.unwrap_or_default();
        let mut lengths: Vec<u64> = all.iter().map(|of_rank| of_rank.len() as u64).collect();
        let mut joined: Vec<T> = all.concat();
        self.broadcast(0, &mut lengths)?;
        self.broadcast(0, &mut joined)?;
        if self.rank() == 0 {
            return Ok(all);
        }
        let mut rest = &joined[..];
        for &length in &lengths {
            let (of_rank, others) =
                rest.split_at_checked(length as usize)
                    .ok_or(CommError::Length {
                        rank: 0,
                        bytes: size_of_val(&joined[..]),
                        expected: "more were announced",
                    })?;
            all.push(of_rank.to_vec());
            rest = others;
        }
        Ok(all)
    }

    /// On rank 0 the values of all ranks, by rank; on others nothing.
    ///
    /// # Errors
    ///
    /// [`CommError`].
    fn gather<T: Plain>(&self, values: &[T]) -> Result<Option<Vec<Vec<T>>>, CommError> {
        if self.rank() > 0 {
            self.send_slice(0, values)?;
            return Ok(None);
        }
        let mut all = vec![values.to_vec()];
        for other in 1..self.size() {
            all.push(self.receive_vec(other)?);
        }
        Ok(Some(all))
    }

    /// Replaces each value by that of rank 0, combined by `combine` with that of rank 1, of rank 2, and so on.
    ///
    /// # Errors
    ///
    /// [`CommError`]; [`CommError::Length`] if a rank has another number of values.
    fn all_reduce<T: Plain>(
        &self,
        values: &mut [T],
        combine: impl Fn(T, T) -> T,
    ) -> Result<(), CommError> {
        let mut reduced = Vec::new();
        if let Some(all) = self.gather(values)? {
            reduced = all[0].clone();
            for (rank, of_rank) in all.iter().enumerate().skip(1) {
                if of_rank.len() != reduced.len() {
                    return Err(CommError::Length {
                        rank,
                        bytes: size_of_val(&of_rank[..]),
                        expected: "as many values as rank 0 has were expected",
                    });
                }
                for (sum, &value) in reduced.iter_mut().zip(of_rank) {
                    *sum = combine(*sum, value);
                }
            }
        }
        self.broadcast(0, &mut reduced)?;
        values.copy_from_slice(&reduced);
        Ok(())
    }

    /// Waits until all ranks are here.
    ///
    /// # Errors
    ///
    /// [`CommError`].
    fn barrier(&self) -> Result<(), CommError> {
        self.all_reduce::<u8>(&mut [], |a, _| a)
    }
}

impl<C: Comm + ?Sized> Collectives for C {}
