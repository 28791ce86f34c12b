//! Batches whose values and vectors are on a device.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use luge_device::{Buffer, Event, SliceMut};
use luge_sparse::Scalar;

use super::{
    BatchFactors, Slot, Workers, check_length, check_vectors, in_batch, settled, stream_of,
};
use crate::accuracy::Accuracy;
use crate::analysis::Analysis;
use crate::device_analysis::of_components;
use crate::error::Error;
use crate::factors::{Factors, count_of};
use crate::inform::Inform;
use crate::path::Path;
use crate::task::Refactorized;

impl<T: Scalar> Analysis<T> {
    /// As [`factorize_batch`](Self::factorize_batch), for values on the device: `f64`, of complex numbers one component
    /// after the other, made on [`Solver::stream`](crate::Solver::stream). They are brought to the host once, where pivots may have to be
    /// searched; a refactorization leaves them on the device.
    ///
    /// # Errors
    ///
    /// As [`factorize_batch`](Self::factorize_batch); those of the device.
    ///
    /// # Panics
    ///
    /// If the analysis is for the CPU, or there are not `count` times as many values as entries.
    #[track_caller]
    pub fn factorize_batch_on_device(
        &self,
        values: &Buffer<f64>,
        count: usize,
    ) -> Result<BatchFactors<T>, Error> {
        let Path::Device(path) = &self.plan.path else {
            panic!("an analysis for the CPU takes no values on a device")
        };
        let len = count_of::<T>(values.len(), "values");
        check_length(len, self.plan.shared.stored_nnz(), count);
        let values = path.fetch(values)?.into_iter().map(T::narrow);
        self.factorize_batch(&values.collect::<Vec<T>>(), count)
    }
}

/// Data that is on a device: `f64`, of complex numbers one component after the other.
impl<T: Scalar> BatchFactors<T> {
    /// As [`refactorize`](Self::refactorize), for values that are on the device and stay there, as
    /// [`Factors::refactorize_on_device`] does it. What is enqueued on [`Solver::stream`](crate::Solver::stream) before
    /// is done before, and the call returns when all factors are there.
    ///
    /// # Errors
    ///
    /// As [`refactorize`](Self::refactorize); those of the device for all systems together.
    ///
    /// # Panics
    ///
    /// If the factors are on the CPU, or there are not as many values as entries of all systems.
    #[track_caller]
    pub fn refactorize_on_device(
        &mut self,
        values: &Buffer<f64>,
    ) -> Result<Vec<Result<Refactorized, Error>>, Error> {
        let nnz = self.plan.shared.stored_nnz();
        self.check_device("factors on the CPU take no values on a device");
        let len = count_of::<T>(values.len(), "values");
        check_length(len, nnz, self.systems.len());
        let each = nnz * T::COMPONENTS;
        let before = self.enqueued()?;
        let analyzed = &self.analyzed;
        let of_caller = stream_of(&self.plan);
        let items: Vec<_> = self
            .systems
            .iter_mut()
            .enumerate()
            .map(|(k, slot)| (slot, values.slice(k * each..(k + 1) * each)))
            .collect();
        Ok(self.workers.for_each(items, 0.0, |(slot, values)| {
            slot.renew(
                |slot| {
                    let fetched = of_caller.download(&values).map_err(in_batch)?;
                    let values = of_components::<T::Wide>(&fetched);
                    let values = values.into_iter().map(T::narrow).collect();
                    let (values, largest) = slot.plan.shared.accepted(Cow::Owned(values), 1)?;
                    Factors::of_values(Arc::clone(&slot.plan), values, largest, analyzed)
                },
                |factors, plan| {
                    stream_of(plan).wait(&before).map_err(in_batch)?;
                    factors.refactorize_slice(values)
                },
            )
        }))
    }

    /// As [`solve_in_place`](Self::solve_in_place), for vectors that are on the device and stay there, as
    /// [`Factors::solve_on_device`] does it. What is enqueued on [`Solver::stream`](crate::Solver::stream) before is done
    /// before, and the call returns when all solutions are there.
    ///
    /// # Errors
    ///
    /// As [`solve_in_place`](Self::solve_in_place); those of the device for all systems together.
    ///
    /// # Panics
    ///
    /// If the factors are on the CPU, or `x` has not `nrhs` right-hand sides for each system.
    #[track_caller]
    pub fn solve_on_device(
        &self,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<Vec<Result<Accuracy, Error>>, Error> {
        self.check_device("factors on the CPU solve for no vectors on a device");
        let len = count_of::<T>(x.len(), "right-hand sides");
        let len = check_vectors(len, self.plan.shared.n(), nrhs, self.systems.len());
        let len = len * T::COMPONENTS;
        let (before, own) = (self.enqueued()?, self.lent());
        let items: Vec<_> = self.systems.iter().zip(parts(x, len)).collect();
        Ok(self.workers.for_each(items, 0.0, |(slot, mut x)| {
            let factors = slot.factors()?;
            let mut own = lock(&own[self.worker_of(slot)]);
            slot.solve_slice(&before, &mut x, &mut own, |own| {
                let [x] = own;
                factors.solve_on_device(x, nrhs, transpose)
            })
            .map_err(|error| slot.named(error))
        }))
    }

    /// Solves with each system for `nrhs` right-hand sides of its own, which are in `b` one system after another, or with its
    /// transpose, and refines, as [`Factors::solve_refined_on_device`] does it: `b` and `x` are on the device. What is enqueued
    /// on [`Solver::stream`](crate::Solver::stream) before is done before, and the call returns when all solutions are there.
    ///
    /// # Errors
    ///
    /// One report for each system, [`Error::System`] with the reason where there is no solution, `x` being of no use there;
    /// those of the device for all systems together.
    ///
    /// # Panics
    ///
    /// If the factors are on the CPU, or `b` or `x` has not `nrhs` right-hand sides for each system.
    #[track_caller]
    pub fn solve_refined_on_device(
        &self,
        b: &Buffer<f64>,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<Vec<Result<Inform, Error>>, Error> {
        self.check_device("factors on the CPU solve for no vectors on a device");
        let (n, count) = (self.plan.shared.n(), self.systems.len());
        let len = check_vectors(count_of::<T>(b.len(), "right-hand sides"), n, nrhs, count);
        check_vectors(count_of::<T>(x.len(), "solutions"), n, nrhs, count);
        let len = len * T::COMPONENTS;
        // Right-hand sides go to their systems by the way of the solutions.
        stream_of(&self.plan).copy(x, b).map_err(in_batch)?;
        let (before, own) = (self.enqueued()?, self.lent());
        let items: Vec<_> = self.systems.iter().zip(parts(x, len)).collect();
        Ok(self.workers.for_each(items, 0.0, |(slot, mut x)| {
            let factors = slot.factors()?;
            let mut own = lock(&own[self.worker_of(slot)]);
            slot.solve_slice(&before, &mut x, &mut own, |own| {
                let [x, b] = own;
                let stream = stream_of(&slot.plan);
                stream.copy(b, x).map_err(in_batch)?;
                factors.solve_refined_on_device(b, x, nrhs, transpose)
            })
            .map_err(|error| slot.named(error))
        }))
    }

    /// Vectors for each worker, which are made for the first of its systems and serve all of them, one after another.
    fn lent<const N: usize>(&self) -> Vec<Mutex<Vectors<N>>> {
        let count = match &self.workers {
            Workers::Host(_) => 0,
            Workers::Device { deal, .. } => deal.num_streams,
        };
        (0..count).map(|_| Mutex::default()).collect()
    }

    /// Whose system it is.
    fn worker_of(&self, slot: &Slot<T>) -> usize {
        match &self.workers {
            Workers::Host(_) => 0,
            Workers::Device { deal, .. } => deal.owner[slot.number],
        }
    }

    #[track_caller]
    fn check_device(&self, message: &str) {
        assert!(matches!(self.plan.path, Path::Device(_)), "{message}");
    }

    /// What was enqueued on the caller's stream so far.
    fn enqueued(&self) -> Result<Event, Error> {
        let stream = stream_of(&self.plan);
        let event = stream.device().create_event().map_err(in_batch)?;
        stream.record(&event).map_err(in_batch)?;
        Ok(event)
    }
}

/// `N` vectors as long as those of one system, in which a worker solves.
type Vectors<const N: usize> = Option<[Buffer<f64>; N]>;

fn lock<const N: usize>(own: &Mutex<Vectors<N>>) -> MutexGuard<'_, Vectors<N>> {
    own.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The vectors of one system after another, `len` numbers each.
fn parts(x: &mut Buffer<f64>, len: usize) -> impl Iterator<Item = SliceMut<'_, f64>> {
    let mut rest = Some(x.slice_mut(..));
    std::iter::from_fn(move || {
        let (part, after) = rest.take()?.into_split_at(len);
        rest = Some(after);
        Some(part)
    })
}

impl<T: Scalar> Slot<T> {
    /// Solves in vectors of the worker, which the right-hand sides go to and the solutions come from.
    fn solve_slice<const N: usize, R>(
        &self,
        before: &Event,
        x: &mut SliceMut<'_, f64>,
        own: &mut Vectors<N>,
        solve: impl FnOnce(&mut [Buffer<f64>; N]) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let stream = stream_of(&self.plan);
        stream.wait(before).map_err(in_batch)?;
        let own = match own {
            Some(own) => own,
            none => {
                let mut new = Vec::with_capacity(N);
                for _ in 0..N {
                    new.push(stream.alloc(x.len()).map_err(in_batch)?);
                }
                let Ok(new) = new.try_into() else {
                    unreachable!("there are as many")
                };
                none.insert(new)
            }
        };
        stream.copy_across(&mut own[0], x).map_err(in_batch)?;
        let solved = solve(own);
        stream.copy_across(x, &own[0]).map_err(in_batch)?;
        settled(&self.plan).and(solved)
    }
}
