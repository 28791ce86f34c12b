//! Many matrices of one pattern, factorized and solved together.
//!
//! Each system has factors of its own and goes through the same steps as if it were alone, so its results have the same
//! bits. On the CPU the threads of the solver share the systems. On a device with the tree engine, the systems share the
//! plan and are dealt out to a few streams, each with a thread of the host that enqueues and waits: a small system does
//! not fill a GPU, and while one is waited for, others run. Systems of a stream also share what factorizations work in. A
//! group of devices has the plan once each, and streams on all of them; values and vectors of callers, on the first device,
//! are copied to where their system is.

#[cfg(feature = "gpu")]
mod device;

use std::borrow::Cow;
#[cfg(feature = "gpu")]
use std::num::NonZero;
use std::sync::Arc;

#[cfg(feature = "gpu")]
use luge_device::{Backend, DeviceError, Stream};
#[cfg(any(feature = "gpu", test))]
use luge_sparse::beside;
use luge_sparse::{Scalar, to_u32};
use rayon::prelude::*;

use crate::accuracy::Accuracy;
use crate::analysis::Analysis;
#[cfg(feature = "gpu")]
use crate::backend::Field;
#[cfg(feature = "gpu")]
use crate::device_plan::DevicePath;
use crate::error::Error;
use crate::factors::{Factors, Solution};
use crate::inform::Inform;
use crate::path::{Path, Plan};
use crate::task::Refactorized;

/// Streams of a batch on one device, at most: more bring nothing.
#[cfg(any(feature = "gpu", test))]
const MAX_STREAMS: usize = 16;

/// Streams by which a device is shared, if there are more and not twice as many.
#[cfg(any(feature = "gpu", test))]
const SHARING: usize = 6;

/// Streams of a batch of few systems, and on hosts with as few cores, at most.
#[cfg(any(feature = "gpu", test))]
const FEW_STREAMS: usize = 8;

/// From so many systems a stream on, those that are left over at the end count for little.
#[cfg(any(feature = "gpu", test))]
const FEW_LEFT_OVER: usize = 4;

/// Seconds that a factorization or a solve takes for each entry, roughly and at least.
const SECONDS_PER_ENTRY: f64 = 5e-9;

/// Factors of many matrices of one pattern: Monte-Carlo samples, corners, the frequencies of a sweep.
///
/// Made by [`Analysis::factorize_batch`]. Values, right-hand sides and solutions of the systems stand one system after
/// another. What fails fails for its system alone, with an [`Error::System`] that names it; the others go on.
///
/// ```
/// use luge::{BackendChoice, Error, Options, Solver};
/// use sprs::CsMat;
///
/// // 2 1
/// // 1 3
/// let a: CsMat<f64> =
///     CsMat::new((2, 2), vec![0, 2, 4], vec![0, 1, 0, 1], vec![2.0, 1.0, 1.0, 3.0]);
/// let options = Options::default().backend(BackendChoice::Cpu);
/// let analysis = Solver::new(options)?.analyze(&a)?;
///
/// // Three systems; the second is singular.
/// let values = [[2.0, 1.0, 1.0, 3.0], [1.0, 1.0, 1.0, 1.0], [4.0, 1.0, 1.0, 3.0]].concat();
/// let mut factors = analysis.factorize_batch(&values, 3)?;
/// assert!(matches!(factors.inform(1), Err(Error::System { system: 1, .. })));
///
/// let right_hand_sides = [[3.0, 4.0], [0.0, 0.0], [5.0, 4.0]].concat();
/// let solutions = factors.solve(&right_hand_sides, 1);
/// assert!((solutions[0].as_ref().unwrap().x[1] - 1.0).abs() < 1e-15);
/// assert!(solutions[1].is_err());
/// assert!((solutions[2].as_ref().unwrap().x[0] - 1.0).abs() < 1e-15);
///
/// // Other values for all of them.
/// let values = [[2.0, 1.0, 1.0, 3.0], [2.0, 1.0, 1.0, 4.0], [4.0, 1.0, 1.0, 5.0]].concat();
/// assert!(factors.refactorize(&values).iter().all(|outcome| outcome.is_ok()));
/// # Ok::<(), luge::Error>(())
/// ```
pub struct BatchFactors<T: Scalar> {
    workers: Workers<T::Wide>,
    /// Of the analysis: where callers enqueue their work, and what the report of factors starts from.
    plan: Arc<Plan<T::Wide>>,
    analyzed: Arc<Inform>,
    systems: Vec<Slot<T>>,
}

/// One system.
struct Slot<T: Scalar> {
    number: usize,
    plan: Arc<Plan<T::Wide>>,
    state: Result<Box<Factors<T>>, Arc<Error>>,
}

/// Who works on which systems.
enum Workers<W> {
    /// The threads of the solver, on any.
    Host(Arc<Plan<W>>),
    /// A thread for each stream, if there are several, on the systems that it was dealt.
    #[cfg(any(feature = "gpu", test))]
    Device { deal: Deal, threaded: bool },
}

/// Which stream works on which system.
#[cfg(any(feature = "gpu", test))]
struct Deal {
    num_streams: usize,
    /// The stream of each system.
    owner: Vec<usize>,
}

#[cfg(any(feature = "gpu", test))]
impl Deal {
    /// Deals systems in turn to streams, each of which is on the device that `device_of` says, until each device has its share
    /// of them. A device with a share has a stream.
    fn new(device_of: &[usize], mut shares: Vec<usize>) -> Self {
        let count = shares.iter().sum();
        let mut owner = Vec::with_capacity(count);
        while owner.len() < count {
            for (stream, &device) in device_of.iter().enumerate() {
                if shares[device] > 0 {
                    shares[device] -= 1;
                    owner.push(stream);
                }
            }
        }
        Self {
            num_streams: device_of.len(),
            owner,
        }
    }
}

/// Workers, and what the systems of each have in common.
type Team<W> = (Workers<W>, Vec<Arc<Plan<W>>>);

impl<W> Workers<W> {
    /// Which of the places that the team has is that of each of `count` systems.
    fn places(&self, count: usize) -> Vec<usize> {
        match self {
            Self::Host(_) => vec![0; count],
            #[cfg(any(feature = "gpu", test))]
            Self::Device { deal, .. } => deal.owner.clone(),
        }
    }

    /// Calls `work` for each item; `seconds` is what one is predicted to take at least.
    fn for_each<I: Send, R: Send>(
        &self,
        items: Vec<I>,
        seconds: f64,
        work: impl Fn(I) -> R + Sync,
    ) -> Vec<R> {
        match self {
            Self::Host(plan) => {
                let seconds = seconds * items.len() as f64;
                plan.shared.threads.run(seconds, |threads| {
                    if threads == 1 || items.len() == 1 {
                        items.into_iter().map(&work).collect()
                    } else {
                        items.into_par_iter().map(&work).collect()
                    }
                })
            }
            #[cfg(any(feature = "gpu", test))]
            Self::Device {
                deal,
                threaded: true,
            } if deal.num_streams > 1 => {
                let streams = 0..deal.num_streams;
                let mut dealt: Vec<Vec<I>> = streams.map(|_| Vec::new()).collect();
                for (item, &stream) in items.into_iter().zip(&deal.owner) {
                    dealt[stream].push(item);
                }
                let work = &work;
                let each = dealt.into_iter().map(|items| {
                    move || items.into_iter().map(work).collect::<Vec<R>>().into_iter()
                });
                let ((), mut done) = beside(each, || ());
                let next = |&stream: &usize| done[stream].next();
                deal.owner.iter().filter_map(next).collect()
            }
            #[cfg(any(feature = "gpu", test))]
            Self::Device { .. } => items.into_iter().map(work).collect(),
        }
    }
}

impl<T: Scalar> Analysis<T> {
    /// Factorizes `count` matrices of the pattern that was analyzed, with `values` one matrix after another, each in the
    /// order in which the analyzed one is stored.
    ///
    /// Each matrix is treated as [`factorize`](Self::factorize) does it, and the factors have the same bits.
    ///
    /// # Errors
    ///
    /// [`Error::BatchOutOfMemory`] before any work, if the factors of all together are predicted to need more memory than
    /// [`max_host_bytes`](crate::Options::max_host_bytes), or than the device has left; [`Error::IndexOverflow`] for more
    /// than 2³² − 2 systems. What is wrong with one system alone is asked for by [`BatchFactors::inform`].
    ///
    /// # Panics
    ///
    /// If there are not `count` times as many values as entries.
    #[track_caller]
    pub fn factorize_batch(&self, values: &[T], count: usize) -> Result<BatchFactors<T>, Error> {
        let nnz = self.plan.shared.stored_nnz();
        check_length(values.len(), nnz, count);
        to_u32(count, "number of systems")?;
        let (workers, places) = self.workers(count)?;
        let own = workers
            .places(count)
            .into_iter()
            .map(|place| &places[place]);
        let items: Vec<_> = values_of(values, nnz, count).zip(own).enumerate().collect();
        let systems = workers.for_each(items, seconds(&self.inform), |(number, (values, plan))| {
            let factors = plan
                .shared
                .accepted(Cow::Borrowed(values), 1)
                .and_then(|(values, largest)| {
                    Factors::of_values(Arc::clone(plan), values, largest, &self.inform)
                })
                .and_then(|factors| settled(plan).map(|()| factors));
            Slot {
                number,
                plan: Arc::clone(plan),
                state: factors.map(Box::new).map_err(Arc::new),
            }
        });
        Ok(BatchFactors {
            workers,
            plan: Arc::clone(&self.plan),
            analyzed: Arc::clone(&self.inform),
            systems,
        })
    }

    /// Who is to work on `count` systems, and what the systems of each have in common, if there is memory for all.
    fn workers(&self, count: usize) -> Result<Team<T::Wide>, Error> {
        let plan = &self.plan;
        match &plan.path {
            Path::Host(path) => {
                if let (Some(asked), Some(_)) = (
                    self.inform.predicted_host_bytes,
                    plan.shared.limits.max_host_bytes,
                ) {
                    // The plan is there already.
                    let each = asked.saturating_sub(path.analysis.plan_bytes());
                    check_memory(count, 0, each, plan.shared.limits.memory.available())?;
                }
                Ok((Workers::Host(Arc::clone(plan)), vec![Arc::clone(plan)]))
            }
            #[cfg(feature = "gpu")]
            Path::Device(path) => streams(plan, path, count),
        }
    }
}

/// The streams of `path` and of the other devices of its group for `count` systems, and what the systems of each have in
/// common, if there is memory for all.
#[cfg(feature = "gpu")]
fn streams<W: Field>(
    plan: &Arc<Plan<W>>,
    path: &DevicePath<W>,
    count: usize,
) -> Result<Team<W>, Error> {
    let one = || {
        let workers = Workers::Device {
            deal: Deal::new(&[0], vec![count]),
            threaded: false,
        };
        Ok((workers, vec![Arc::clone(plan)]))
    };
    let Some(bytes) = path.analysis.batch_bytes()?.filter(|_| count > 0) else {
        return one();
    };
    let peers = path.on_peers()?;
    let paths: Vec<&DevicePath<W>> = std::iter::once(path).chain(&peers).collect();
    let (mut fits, mut available) = (Vec::new(), Vec::new());
    for path in &paths {
        let bytes_left = path.backend.available_bytes()?;
        fits.push(bytes.fitting(bytes_left));
        available.push(bytes_left);
    }
    let fitting = fits
        .iter()
        .fold(0usize, |sum, &fits| sum.saturating_add(fits));
    if fitting < count {
        return Err(Error::BatchOutOfMemory {
            systems: count,
            fitting,
            asked: count as u64 * bytes.system + paths.len() as u64 * (bytes.common + bytes.stream),
            available: available.iter().sum(),
        });
    }
    let threaded = path.backend.stream().device().properties().backend == Backend::Cuda;
    // The thread of each stream waits for its device most of the time, awake.
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get) / paths.len();
    let shares = shares(count, &fits);
    let (mut places, mut device_of) = (Vec::new(), Vec::new());
    for (number, path) in paths.iter().enumerate() {
        let systems = shares[number];
        let left = available[number].saturating_sub(bytes.common + systems as u64 * bytes.system);
        let affordable = (left / bytes.stream.max(1)).max(1);
        let affordable = usize::try_from(affordable).unwrap_or(usize::MAX);
        let device = path.backend.stream().device();
        let num_streams = affordable.min(most_streams(cores, systems));
        let sharing = sharing(num_streams, systems);
        for _ in 0..num_streams {
            let stream = device.create_sharing_stream(sharing).map_err(in_batch)?;
            let Some(path) = path.on_stream(&stream)? else {
                return one();
            };
            places.push(Arc::new(plan.on_path(Path::Device(path))));
            device_of.push(number);
        }
    }
    let workers = Workers::Device {
        deal: Deal::new(&device_of, shares),
        // The simulator takes the launches of all streams in one order.
        threaded,
    };
    Ok((workers, places))
}

/// Streams that work on so many `systems` of one device, at most, where the host has so many `cores` for it.
#[cfg(any(feature = "gpu", test))]
fn most_streams(cores: usize, systems: usize) -> usize {
    let most = cores.clamp(FEW_STREAMS, MAX_STREAMS);
    if systems < FEW_LEFT_OVER * most {
        FEW_STREAMS.min(systems)
    } else {
        most
    }
}

/// By how many streams a device is shared for so many `systems`, of which each of its streams works on one at a time. A launch
/// has blocks for all of its work otherwise, and those of others wait for it to end: small systems, which are a path of small
/// fronts, would come one after another. Of eight streams two wait for the host at any time, of sixteen half. Where few are left over at the end,
/// they would have a small part of an idle device.
#[cfg(any(feature = "gpu", test))]
fn sharing(num_streams: usize, systems: usize) -> u32 {
    if systems <= num_streams || systems >= FEW_LEFT_OVER * num_streams {
        num_streams.min(SHARING.max(num_streams / 2)) as u32
    } else {
        1
    }
}

/// Deals `count` systems out to devices that fit so many each, as evenly as they do. They fit that many together.
#[cfg(any(feature = "gpu", test))]
fn shares(count: usize, fits: &[usize]) -> Vec<usize> {
    let mut by_room: Vec<usize> = (0..fits.len()).collect();
    by_room.sort_by_key(|&device| fits[device]);
    let mut shares = vec![0; fits.len()];
    let mut left = count;
    for (before, device) in by_room.into_iter().enumerate() {
        // Those with the most room come last, and have what the others could not take.
        let even = left.div_ceil(fits.len() - before);
        shares[device] = even.min(fits[device]);
        left -= shares[device];
    }
    shares
}

/// What work on one system is predicted to take on the CPU at least.
fn seconds(analyzed: &Inform) -> f64 {
    SECONDS_PER_ENTRY * (analyzed.lnz + analyzed.unz) as f64
}

impl<T: Scalar> BatchFactors<T> {
    /// Number of systems.
    pub fn len(&self) -> usize {
        self.systems.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.systems.is_empty()
    }

    /// What is known of the factors of a system, as [`Factors::inform`] tells it: growth, replaced pivots, backward error
    /// of the probe.
    ///
    /// # Errors
    ///
    /// [`Error::System`] if it has none, with the reason.
    ///
    /// # Panics
    ///
    /// If there is no such system.
    #[track_caller]
    pub fn inform(&self, system: usize) -> Result<&Inform, Error> {
        let count = self.systems.len();
        let Some(slot) = self.systems.get(system) else {
            panic!("there is no system {system}; the batch has {count} systems, counted from 0")
        };
        Ok(slot.factors()?.inform())
    }

    /// Factorizes new values for all systems, each as [`Factors::refactorize`] does it: the old pivots are kept where they
    /// serve. A system without factors is factorized from the start, which counts as [`Refactorized::Repivoted`]; one
    /// whose new values fail has none from then on.
    ///
    /// # Errors
    ///
    /// One outcome for each system, [`Error::System`] with the reason where there is none.
    ///
    /// # Panics
    ///
    /// If there are not as many values as entries of all systems.
    #[track_caller]
    pub fn refactorize(&mut self, values: &[T]) -> Vec<Result<Refactorized, Error>> {
        let nnz = self.plan.shared.stored_nnz();
        check_length(values.len(), nnz, self.systems.len());
        let values = values_of(values, nnz, self.systems.len());
        let items: Vec<_> = self.systems.iter_mut().zip(values).collect();
        let analyzed = &self.analyzed;
        self.workers
            .for_each(items, seconds(&self.analyzed), |(slot, values)| {
                slot.renew(
                    |slot| {
                        let shared = &slot.plan.shared;
                        let (values, largest) = shared.accepted(Cow::Borrowed(values), 1)?;
                        Factors::of_values(Arc::clone(&slot.plan), values, largest, analyzed)
                    },
                    |factors, plan| factors.renew(plan, Cow::Borrowed(values), 1),
                )
            })
    }

    /// Solves with each system for `nrhs` right-hand sides of its own, and refines, as [`Factors::solve_many`] does it.
    ///
    /// # Errors
    ///
    /// One solution for each system, [`Error::System`] with the reason where there is none.
    ///
    /// # Panics
    ///
    /// If `b` has not `nrhs` right-hand sides for each system.
    #[track_caller]
    pub fn solve(&self, b: &[T], nrhs: usize) -> Vec<Result<Solution<T>, Error>> {
        let len = check_vectors(b.len(), self.plan.shared.n(), nrhs, self.systems.len());
        let b = values_of(b, len, self.systems.len());
        let items: Vec<_> = self.systems.iter().zip(b).collect();
        self.workers
            .for_each(items, seconds(&self.analyzed), |(slot, b)| {
                let solution = slot.factors()?.solve_many(b, nrhs);
                solution
                    .and_then(|solution| settled(&slot.plan).map(|()| solution))
                    .map_err(|error| slot.named(error))
            })
    }

    /// Replaces the right-hand sides of each system, `nrhs` of its own, by solutions with it, or with its transpose: one
    /// pass of triangular solves, as [`Factors::solve_in_place`] does it.
    ///
    /// # Errors
    ///
    /// One outcome for each system, [`Error::System`] with the reason where there is no solution.
    ///
    /// # Panics
    ///
    /// If `x` has not `nrhs` right-hand sides for each system.
    #[track_caller]
    pub fn solve_in_place(
        &self,
        x: &mut [T],
        nrhs: usize,
        transpose: bool,
    ) -> Vec<Result<Accuracy, Error>> {
        let len = check_vectors(x.len(), self.plan.shared.n(), nrhs, self.systems.len());
        let mut rest = x;
        let items = self.systems.iter().map(|slot| {
            let (x, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            (slot, x)
        });
        let items: Vec<_> = items.collect();
        self.workers
            .for_each(items, seconds(&self.analyzed), |(slot, x)| {
                let factors = slot.factors()?;
                let solved = if transpose {
                    factors.solve_transpose_in_place(x)
                } else {
                    factors.solve_in_place(x)
                };
                solved
                    .and_then(|accuracy| settled(&slot.plan).map(|()| accuracy))
                    .map_err(|error| slot.named(error))
            })
    }
}

impl<T: Scalar> Slot<T> {
    fn factors(&self) -> Result<&Factors<T>, Error> {
        match &self.state {
            Ok(factors) => Ok(factors),
            Err(error) => Err(Error::System {
                system: self.number,
                error: Arc::clone(error),
            }),
        }
    }

    fn named(&self, error: Error) -> Error {
        Error::System {
            system: self.number,
            error: Arc::new(error),
        }
    }

    /// New values: factors by `renew` if there are old ones, else by `create`.
    fn renew(
        &mut self,
        create: impl FnOnce(&Self) -> Result<Factors<T>, Error>,
        renew: impl FnOnce(&mut Factors<T>, &Plan<T::Wide>) -> Result<Refactorized, Error>,
    ) -> Result<Refactorized, Error> {
        let outcome = match &mut self.state {
            Ok(factors) => renew(factors, &self.plan),
            Err(_) => create(self).map(|factors| {
                let inform = factors.inform();
                let outcome = Refactorized::Repivoted {
                    reason: "there were no factors".into(),
                    growth: inform.growth.unwrap_or(f64::NAN),
                    backward_error: inform.backward_error,
                };
                self.state = Ok(Box::new(factors));
                outcome
            }),
        };
        let outcome = outcome.and_then(|outcome| settled(&self.plan).map(|()| outcome));
        outcome.map_err(|error| {
            let error = Arc::new(error);
            self.state = Err(Arc::clone(&error));
            Error::System {
                system: self.number,
                error,
            }
        })
    }
}

/// What is done with each system when a call returns, so that what the caller enqueues next comes after it.
fn settled<W>(plan: &Plan<W>) -> Result<(), Error> {
    match &plan.path {
        Path::Host(_) => Ok(()),
        #[cfg(feature = "gpu")]
        Path::Device(path) => path.backend.stream().synchronize().map_err(in_batch),
    }
}

#[cfg(feature = "gpu")]
fn stream_of<W>(plan: &Plan<W>) -> &Stream {
    match &plan.path {
        Path::Device(path) => path.backend.stream(),
        Path::Host(_) => unreachable!("systems on a device"),
    }
}

#[cfg(feature = "gpu")]
fn in_batch(error: DeviceError) -> Error {
    Error::from_device(error, "batch")
}

/// Refuses `count` systems of which each needs `each` bytes, if those and `common` bytes are more than there are.
fn check_memory(count: usize, common: u64, each: u64, available: u64) -> Result<(), Error> {
    let asked = common.saturating_add(each.saturating_mul(count as u64));
    if count == 0 || asked <= available {
        return Ok(());
    }
    Err(Error::BatchOutOfMemory {
        systems: count,
        fitting: (available.saturating_sub(common) / each.max(1)) as usize,
        asked,
        available,
    })
}

#[track_caller]
fn check_length(len: usize, nnz: usize, count: usize) {
    assert!(
        nnz.checked_mul(count) == Some(len),
        "there are {len} values; each of the {count} matrices has {nnz} entries"
    );
}

/// Panics at the caller's line unless `len` values are `nrhs` right-hand sides of length `n` for each of `count` systems.
/// Answers with how many values each system has.
#[track_caller]
fn check_vectors(len: usize, n: usize, nrhs: usize, count: usize) -> usize {
    let each = n.checked_mul(nrhs);
    assert!(
        each.and_then(|each| each.checked_mul(count)) == Some(len),
        "the right-hand sides have {len} entries; there are {nrhs} for each of {count} systems of order {n}"
    );
    each.unwrap_or(0)
}

/// The numbers of each of `count` systems, `each` of them.
fn values_of<T>(values: &[T], each: usize, count: usize) -> impl Iterator<Item = &[T]> {
    (0..count).map(move |k| &values[k * each..(k + 1) * each])
}

impl<T: Scalar> std::fmt::Debug for BatchFactors<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchFactors")
            .field("systems", &self.systems.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "simulator")]
    use luge_device::Device;

    use super::*;

    #[test]
    fn streams_share_a_device_unless_few_systems_are_left_over() {
        for (num_streams, systems, expected) in [
            (1, 1, 1),
            (1, 9, 1),
            (2, 2, 2),
            (8, 8, 6),
            (8, 9, 1),
            (8, 31, 1),
            (8, 32, 6),
            (3, 100, 3),
            (16, 64, 8),
            (12, 100, 6),
        ] {
            let sharing = sharing(num_streams, systems);
            assert_eq!(sharing, expected, "{systems} on {num_streams}");
        }
    }

    #[test]
    fn streams_are_as_many_as_cores_and_systems_are_for() {
        for (cores, systems, expected) in [
            (8, 3, 3),
            (8, 256, 8),
            (1, 256, 8),
            (32, 256, 16),
            (32, 64, 16),
            (32, 63, 8),
            (32, 5, 5),
            (12, 48, 12),
        ] {
            let most = most_streams(cores, systems);
            assert_eq!(most, expected, "{cores} cores, {systems} systems");
        }
    }

    /// Streams of one device, for so many systems.
    fn workers(num_streams: usize, threaded: bool, count: usize) -> Workers<f64> {
        Workers::Device {
            deal: Deal::new(&vec![0; num_streams], vec![count]),
            threaded,
        }
    }

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for num_streams in [1, 2, 3, 8] {
            for threaded in [false, true] {
                for count in [0, 1, 7, 8, 9, 100] {
                    let workers = workers(num_streams, threaded, count);
                    let doubled = workers.for_each((0..count).collect(), 0.0, |k: usize| 2 * k);
                    assert_eq!(doubled, (0..count).map(|k| 2 * k).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn every_stream_has_a_thread_if_there_are_several() {
        let caller = std::thread::current().id();
        for (num_streams, threaded) in [(1, true), (3, false), (2, true), (3, true)] {
            let workers = workers(num_streams, threaded, 7);
            let by = workers.for_each(vec![(); 7], 0.0, |()| std::thread::current().id());
            if threaded && num_streams > 1 {
                let threads: std::collections::HashSet<_> = by.iter().collect();
                assert_eq!(threads.len(), num_streams);
                assert!(!threads.contains(&caller));
                assert!((num_streams..7).all(|k| by[k] == by[k - num_streams]));
            } else {
                assert!(by.iter().all(|&thread| thread == caller));
            }
        }
    }

    #[test]
    #[should_panic(expected = "the third")]
    fn a_panic_of_one_is_that_of_all() {
        let workers = workers(2, true, 3);
        workers.for_each(vec![1, 2, 3], 0.0, |k| assert_ne!(k, 3, "the third"));
    }

    #[test]
    fn systems_are_dealt_evenly_to_devices_that_have_room() {
        for (count, fits, expected) in [
            (0, &[5][..], &[0][..]),
            (5, &[5], &[5]),
            (7, &[9, 9], &[4, 3]),
            (7, &[2, 9], &[2, 5]),
            (7, &[9, 0, 9], &[4, 0, 3]),
            (12, &[9, 1, 2], &[9, 1, 2]),
            (10, &[usize::MAX, usize::MAX, 1], &[5, 4, 1]),
        ] {
            let shares = shares(count, fits);
            assert_eq!(shares, expected, "{count} {fits:?}");
            // Two streams for each device that has a share.
            let with_share = || (0..fits.len()).filter(|&device| shares[device] > 0);
            let device_of: Vec<usize> = with_share().chain(with_share()).collect();
            let deal = Deal::new(&device_of, shares.clone());
            assert_eq!(deal.owner.len(), count);
            for (device, &share) in shares.iter().enumerate() {
                let of_device = |&&stream: &&usize| device_of[stream] == device;
                assert_eq!(deal.owner.iter().filter(of_device).count(), share);
            }
        }
        // Streams of one device take turns, and so do devices.
        let deal = Deal::new(&[0, 1, 0], vec![4, 2]);
        assert_eq!(deal.owner, [0, 1, 2, 0, 1, 2]);
    }

    /// The systems of a batch are dealt out to all devices of a group, with one copy of the plan for each.
    #[cfg(feature = "simulator")]
    #[test]
    fn every_device_has_its_share_of_the_systems() {
        use crate::options::{BackendChoice, Options};
        use luge_testkit::generators::applications::convection_diffusion_2d;

        let a = convection_diffusion_2d(6, 5, 3.0);
        for devices in [1, 2, 3, 5] {
            let group = BackendChoice::Simulators {
                seed: 3,
                count: devices,
            };
            let solver = crate::Solver::new(Options::default().backend(group)).unwrap();
            let analysis = solver.analyze(&a).unwrap();
            let named = analysis.inform().device.split(", ");
            assert_eq!(named.collect::<Vec<_>>(), vec!["Luge simulator"; devices]);
            let values = a.data().repeat(7);
            let (mut held, mut moved) = (Vec::new(), Vec::new());
            for _ in 0..2 {
                let batch = analysis.factorize_batch(&values, 7).unwrap();
                let mut shares = vec![0; devices];
                let device_of = |plan: &Plan<f64>| stream_of(plan).device();
                let Path::Device(path) = &batch.plan.path else {
                    unreachable!("a batch of simulated devices")
                };
                let peers = path.backend.peers().iter();
                let peers = peers.map(|peer| peer.stream().device());
                let all: Vec<_> = std::iter::once(device_of(&batch.plan))
                    .chain(peers)
                    .collect();
                for slot in &batch.systems {
                    let device = device_of(&slot.plan);
                    let number = all.iter().position(|one| one.same_as(&device));
                    shares[number.unwrap()] += 1;
                }
                assert_eq!(shares.iter().sum::<usize>(), 7);
                assert_eq!(shares[0], 7usize.div_ceil(devices));
                assert!(
                    shares.iter().all(|&share| share >= 7 / devices),
                    "{shares:?}"
                );
                drop(batch);
                held.push(all.iter().map(Device::allocated_bytes).collect::<Vec<_>>());
                let to_device = |device: &Device| device.transfers().to_device_bytes;
                moved.push(all.iter().map(to_device).collect::<Vec<_>>());
            }
            // The plan of the second batch is that of the first, and is not copied again.
            assert_eq!(held[0], held[1]);
            for (&first, &both) in moved[0].iter().zip(&moved[1]).skip(1) {
                assert!(
                    both - first < first,
                    "{first} bytes, {both} with the second"
                );
            }
        }
    }

    #[test]
    fn memory_says_how_many_fit() {
        assert!(check_memory(0, 10, 10, 0).is_ok());
        assert!(check_memory(3, 10, 30, 100).is_ok());
        match check_memory(4, 10, 30, 100) {
            Err(Error::BatchOutOfMemory {
                systems: 4,
                fitting: 3,
                asked: 130,
                available: 100,
            }) => {}
            other => panic!("{other:?}"),
        }
        match check_memory(1, 200, 30, 100) {
            Err(Error::BatchOutOfMemory { fitting: 0, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}
