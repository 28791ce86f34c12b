//! The tree engine of a device: the diagonal blocks of B, or a symmetric B, as one forest of fronts, pivots searched within
//! fronts.
//!
//! [`Forest`] is the plan on the host, by which memory is predicted; [`TreeAnalysis`] the same on the device; its engine
//! has the factors, which are of the kind and type of a [`TreeFactors`], and the values they were made of, on the device.
//! New values are factorized in the memory of the old factors. Two buffers of values take turns, so the old ones can be
//! factorized again, with the same pivots, where the new ones fail. Only where new values of a symmetric matrix want other
//! pivots are there two sets of factors, until one of them is given up.

mod resident;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use luge_device::{Buffer, Stream};
use luge_frontal::gpu::{DeviceTree, ExpectedPivots, Room, Workspace};
use luge_solve::gpu::{self as solve_gpu, DeviceMatrix, DevicePattern, Measures, Mirror};
use luge_sparse::{CancelFlag, FilledPattern, Levels, PivotPolicy, Reservation, RowPerm, Scalar};

use crate::accuracy::of_growth;
use crate::backend::gpu::GpuBackend;
use crate::backend::{DeviceCosts, Limits};
use crate::determinant::Determinant;
use crate::device_analysis::{
    AnyDeviceAnalysis, AnyDeviceEngine, BatchBytes, Measured, NewValues, ResidentEngine,
    SearchedPivots,
};
use crate::device_forest::Forest;
use crate::device_scratch::{Patterns, Scratch, across, known, lock};
use crate::device_upload::Uploaded;
use crate::engine::{self, Condition, Engine, FactorReport, Pivots, Transform};
use crate::error::Error;
use crate::inform::Inform;
use crate::shared::Shared;
use crate::task::Check;
use crate::threads::Threads;
use crate::tree_factors::{Outcome, Place, TreeFactors, TreeQuality, epsilon, numeric_error};

/// What a solve with factors of this kind takes for itself.
type ScratchOf<L> = Scratch<<L as TreeFactors>::Value, <L as TreeFactors>::Wide>;

/// The analysis for the tree engine, for factors of the kind and type of `L`: the plan on the device, and what solves and
/// refinement need beside it.
pub(crate) struct TreeAnalysis<L: TreeFactors> {
    forest: Arc<Forest<L::Storage>>,
    on_device: Arc<DeviceTree<L::Storage>>,
    /// The same for the first device alone, where the tree is dealt out to several: made for the first batch.
    alone: OnceLock<Arc<DeviceTree<L::Storage>>>,
    /// What there is room for, if the tree is in links because there is none for all.
    room: Option<Room>,
    /// Devices of the group, if there is one, and how much faster they are predicted to be than one.
    group: Option<(usize, Option<f64>)>,
    expected: Option<Arc<ExpectedPivots<L::Value>>>,
    /// All work of its engines is on it, in order.
    stream: Stream,
    /// Those of the host that share in copies.
    threads: Threads,
    patterns: Arc<Patterns>,
    /// What its engines work in, if they share it; each its own otherwise.
    scratch: Option<Arc<ScratchOf<L>>>,
    /// Sum of the magnitudes of a known solution, once it was asked for.
    known_size: OnceLock<f64>,
    /// Seconds of transfers before the plan was made.
    earlier_transfers: f64,
    upload_seconds: f64,
}

struct TreeEngine<L: TreeFactors> {
    analysis: Arc<TreeAnalysis<L>>,
    scratch: Arc<ScratchOf<L>>,
    /// A solve works in memory of the factors.
    factors: Mutex<L>,
    /// Of what is kept of them there.
    _host_memory: Reservation,
    /// The values of A as callers store them.
    values: Buffer<L::Wide>,
    /// For other values, once there were some.
    spare: Option<Buffer<L::Wide>>,
    pivots: PivotPolicy,
    cancel: CancelFlag,
    quality: TreeQuality,
    /// How `spare` was factorized, until the values that came after it are kept.
    previous: Option<Previous<L>>,
}

/// What is looked at while new values are factorized: see [`Measured`].
#[derive(Default)]
struct Looks<'a> {
    is_checked: bool,
    /// A's pattern, for a known solution.
    probed: Option<&'a DevicePattern>,
    mirror: Option<&'a Mirror>,
}

/// How values were factorized, so that they can be factorized so again.
struct Previous<L> {
    pivots: PivotPolicy,
    quality: TreeQuality,
    scale: f64,
    /// The factors, if others had to be made.
    factors: Option<L>,
}

impl<L: TreeFactors> TreeAnalysis<L> {
    /// Copies the plan to the device. `count` of `threads` share the work, if it is above 1 in their pool.
    pub(crate) fn upload(
        forest: impl Into<Arc<Forest<L::Storage>>>,
        backend: &GpuBackend,
        threads: &Threads,
        count: usize,
    ) -> Result<Arc<Self>, Error> {
        let forest = forest.into();
        let stream = backend.stream().clone();
        let earlier_transfers = stream.device().transfers().seconds;
        let start = Instant::now();
        let Uploaded {
            tree: on_device,
            room,
            predicted_speedup,
        } = Uploaded::new(&forest, backend, count)?;
        let expected = forest.expected.as_ref();
        let expected = expected.map(|pivots| ExpectedPivots::upload(&stream, &on_device, pivots));
        let expected = expected.transpose();
        let expected = expected.map_err(|e| Error::from_device(e, "symbolic"))?;
        Ok(Arc::new(Self {
            group: (!backend.peers().is_empty())
                .then(|| (on_device.num_devices(), predicted_speedup)),
            on_device: Arc::new(on_device),
            room,
            alone: OnceLock::new(),
            expected: expected.map(Arc::new),
            forest,
            stream,
            threads: threads.clone(),
            patterns: Arc::default(),
            scratch: None,
            known_size: OnceLock::new(),
            earlier_transfers,
            upload_seconds: start.elapsed().as_secs_f64(),
        }))
    }

    /// The plan for one device.
    fn alone(&self) -> Result<Arc<DeviceTree<L::Storage>>, Error> {
        if self.on_device.num_devices() == 1 {
            return Ok(Arc::clone(&self.on_device));
        }
        if let Some(alone) = self.alone.get() {
            return Ok(Arc::clone(alone));
        }
        let forest = &self.forest;
        let plan = (&forest.symbolic, &forest.memory);
        let alone = forest.upload(plan, None, &self.stream, 1);
        let alone = Arc::new(alone.map_err(|e| Error::from_device(e, "symbolic"))?);
        Ok(Arc::clone(self.alone.get_or_init(|| alone)))
    }

    /// Where its engines make factors.
    fn place<'a>(&'a self, scratch: &'a ScratchOf<L>, cancel: &'a CancelFlag) -> Place<'a, L> {
        Place {
            forest: &self.forest,
            room: self.room.as_ref(),
            tree: &self.on_device,
            expected: self.expected.as_ref(),
            space: &scratch.space,
            stream: &self.stream,
            threads: &self.threads,
            cancel,
        }
    }

    fn scratch(stream: &Stream, tree: &DeviceTree<L::Storage>) -> Result<Arc<ScratchOf<L>>, Error> {
        let space = Workspace::new(stream, tree);
        Ok(Arc::new(Scratch::new(space.map_err(numeric_error)?)))
    }
}

impl<L: TreeFactors> AnyDeviceAnalysis<L::Wide> for TreeAnalysis<L> {
    fn transform(&self) -> &Transform {
        &self.forest.transform
    }

    fn describe(&self, inform: &mut Inform) {
        let forest = &self.forest;
        let symbolic = &forest.symbolic;
        (inform.lnz, inform.unz) = forest.sizes(symbolic);
        inform.flops = symbolic.flops();
        inform.num_supernodes = Some(symbolic.tree().num_supernodes());
        inform.max_front = Some(symbolic.tree().max_front());
        inform.predicted_device_bytes = Some(forest.device_bytes_of(&self.on_device));
        (inform.num_devices, inform.predicted_speedup) = match self.group {
            Some((devices, speedup)) => (Some(devices), speedup),
            None => (None, None),
        };
        let elsewhere = self.on_device.streamed_bytes(forest.value_bytes());
        inform.peer_factor_bytes = elsewhere.map(|[_, on_peers, _]| on_peers);
        inform.host_factor_bytes = elsewhere.map(|[_, _, on_host]| on_host);
        let host_bytes = forest.host_bytes() + inform.host_factor_bytes.unwrap_or(0);
        inform.peak_host_bytes = inform.peak_host_bytes.max(host_bytes);
        inform.seconds.symbolic = forest.seconds + self.upload_seconds;
        inform.precision = L::Value::NAME;
        inform.code_path = vec!["symbolic: forest of fronts, on the CPU"];
    }

    fn predicted_speedup(&self, devices: usize) -> Option<f64> {
        self.forest.predicted_speedup(devices)
    }

    fn structure(&self, shared: &Shared) -> Result<(FilledPattern, Levels), Error> {
        shared.host_structure(self.forest.transform.clone())
    }

    fn factorize(
        self: Arc<Self>,
        a: &[L::Wide],
        pivots: PivotPolicy,
        limits: &Limits,
    ) -> Result<Box<dyn AnyDeviceEngine<L::Wide>>, Error> {
        let _span = tracing::info_span!("numeric").entered();
        let elsewhere = self.on_device.streamed_bytes(self.forest.value_bytes());
        let on_host = elsewhere.map_or(0, |[_, _, on_host]| on_host);
        let host_memory = limits.reserve(on_host, "numeric")?;
        let values = self
            .threads
            .upload(&self.stream, a)
            .map_err(|e| Error::from_device(e, "numeric"))?;
        let scratch = match &self.scratch {
            Some(scratch) => Arc::clone(scratch),
            None => Self::scratch(&self.stream, &self.on_device)?,
        };
        let place = self.place(&scratch, &limits.cancel);
        let (factors, quality) = L::factorize(place, &values, &pivots)?;
        Ok(Box::new(TreeEngine {
            factors: Mutex::new(factors),
            _host_memory: host_memory,
            scratch,
            values,
            spare: None,
            pivots,
            cancel: limits.cancel.clone(),
            quality,
            previous: None,
            analysis: self,
        }))
    }

    fn on_stream(
        self: Arc<Self>,
        stream: &Stream,
    ) -> Result<Option<Arc<dyn AnyDeviceAnalysis<L::Wide>>>, Error> {
        let on_device = self.alone()?;
        Ok(Some(Arc::new(Self {
            forest: Arc::clone(&self.forest),
            alone: OnceLock::new(),
            group: None,
            room: self.room.clone(),
            expected: self.expected.clone(),
            stream: stream.clone(),
            threads: self.threads.clone(),
            patterns: Arc::clone(&self.patterns),
            known_size: self.known_size.clone(),
            scratch: Some(Self::scratch(stream, &on_device)?),
            on_device,
            ..*self
        })))
    }

    fn on_device(
        &self,
        backend: &GpuBackend,
    ) -> Result<Option<Arc<dyn AnyDeviceAnalysis<L::Wide>>>, Error> {
        let forest = Arc::clone(&self.forest);
        Ok(Some(Self::upload(forest, backend, &self.threads, 1)?))
    }

    fn searches_pivots(&self) -> bool {
        L::SEARCHES
    }

    fn batch_bytes(&self) -> Result<Option<BatchBytes>, Error> {
        let workspace = Workspace::<L::Value>::bytes(&*self.alone()?);
        Ok(Some(self.forest.batch_bytes(workspace)))
    }

    fn search_pivots(
        self: Arc<Self>,
        a: &[L::Wide],
        pivots: PivotPolicy,
        backend: &GpuBackend,
        limits: &Limits,
    ) -> Result<SearchedPivots<L::Wide>, Error> {
        let _span = tracing::info_span!("pivot search").entered();
        let start = Instant::now();
        let moved = L::with_searched_pivots(&self.forest, a, pivots, limits)?;
        let (analysis, num_off_diagonal): (Arc<dyn AnyDeviceAnalysis<L::Wide>>, usize) = match moved
        {
            None => (self, 0),
            Some((forest, num_off_diagonal)) => {
                let moved = Self::upload(forest, backend, &self.threads, 1)?;
                (moved, num_off_diagonal)
            }
        };
        Ok(SearchedPivots {
            analysis,
            num_off_diagonal,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

impl<L: TreeFactors> TreeEngine<L> {
    fn factors(&self) -> MutexGuard<'_, L> {
        lock(&self.factors)
    }

    /// The matrix that was factorized, or its transpose, on the device.
    fn matrix<'a>(&'a self, pattern: &'a DevicePattern) -> DeviceMatrix<'a, L::Wide> {
        DeviceMatrix {
            pattern,
            values: &self.values,
        }
    }

    /// A's pattern, or that of Aᵀ.
    fn pattern(&self, shared: &Shared, transpose: bool) -> Result<Arc<DevicePattern>, Error> {
        let analysis = &self.analysis;
        analysis
            .patterns
            .get::<L::Wide>(&analysis.stream, shared, transpose)
    }

    /// Factorizes the values that are there, of which only those that `changed` are others than before, if any are told. The
    /// factors are checked if they are to be, and measured with a known solution if there is A's pattern to do so; values are compared
    /// across the diagonal if it is known where they are. When everything is enqueued, the host looks at the values by `check`, and waits once.
    fn renew(
        &mut self,
        changed: Option<&[u32]>,
        Looks {
            is_checked,
            probed,
            mirror,
        }: Looks<'_>,
        check: Check<'_>,
    ) -> Result<Option<Measures>, Error> {
        let _span = tracing::info_span!("numeric").entered();
        let stream = &self.analysis.stream;
        let factors = self.factors.get_mut();
        let factors = factors.unwrap_or_else(PoisonError::into_inner);
        let values = &self.values;
        let mut slot = lock(&self.scratch.known);
        let mut known = match probed {
            Some(pattern) => {
                let matrix = DeviceMatrix { pattern, values };
                Some((known(&mut slot, stream, pattern)?, matrix))
            }
            None => None,
        };
        let mut slot = lock(&self.scratch.across);
        let compared = match mirror {
            Some(mirror) => {
                let compared = across(&mut slot, stream)?;
                compared.enqueue(stream, mirror, values)?;
                Some(compared)
            }
            None => None,
        };
        let mut check = Some(check);
        loop {
            let mut outcome = Outcome::OtherPivots;
            if factors.needs_search() {
                check.take().map_or(Ok(()), |check| check())?;
            } else {
                let place = self.analysis.place(&self.scratch, &self.cancel);
                if is_checked {
                    factors.prepare_check(&place, values)?;
                }
                match changed {
                    Some(changed) => {
                        factors.begin_refactorize_changed(place, values, &self.pivots, changed)?;
                    }
                    None => factors.begin_refactorize(stream, values, &self.pivots)?,
                }
                if is_checked {
                    factors.begin_check(stream, values)?;
                }
                if let Some((known, matrix)) = &mut known {
                    known.enqueue(stream, *matrix, |x| factors.solve(stream, x, 1, false))?;
                }
                let checked = check.take().map_or(Ok(()), |check| check());
                let report = factors.report(stream, &self.pivots);
                checked?;
                outcome = report?;
                if let (true, Outcome::Done(quality)) = (is_checked, &mut outcome) {
                    quality.add(factors.check()?);
                }
            }
            match outcome {
                Outcome::Done(quality) => {
                    self.quality = quality;
                    break;
                }
                Outcome::OtherScale => {}
                Outcome::OtherPivots => {
                    // Beside the old ones, which come back if these are not kept.
                    let place = self.analysis.place(&self.scratch, &self.cancel);
                    let (found, quality) = factors.factorize_beside(place, values, &self.pivots)?;
                    let old = std::mem::replace(factors, found);
                    if let Some(previous) = &mut self.previous {
                        previous.factors.get_or_insert(old);
                    }
                    self.quality = quality;
                    if is_checked {
                        let place = self.analysis.place(&self.scratch, &self.cancel);
                        factors.prepare_check(&place, values)?;
                        factors.begin_check(stream, values)?;
                        self.quality.add(factors.check()?);
                    }
                    if let Some((known, matrix)) = &mut known {
                        known.enqueue(stream, *matrix, |x| factors.solve(stream, x, 1, false))?;
                    }
                    break;
                }
            }
        }
        self.quality.across = compared.map(|compared| compared.found()).transpose()?;
        known.map(|(known, _)| known.measures()).transpose()
    }

    /// The buffer for other values.
    fn take_spare(&mut self) -> Result<Buffer<L::Wide>, Error> {
        match self.spare.take() {
            Some(spare) => Ok(spare),
            None => self
                .analysis
                .stream
                .alloc(self.values.len())
                .map_err(|e| Error::from_device(e, "numeric")),
        }
    }

    /// The condition of B for the values of A that callers store. The order makes no difference, so it is that of A.
    fn condition_with(&self, values: &[L::Wide]) -> Result<Condition, Error> {
        let forest = &self.analysis.forest;
        Condition::estimate(
            &forest.transform,
            |at| at,
            epsilon::<L>(),
            || forest.norm1(values),
            |x: &mut [L::Wide]| self.solve_unpermuted(x, false),
            |x| self.solve_unpermuted(x, true),
        )
    }

    /// Solves with the factors of the scaled matrix for a vector on the host, in place and in the order of A.
    fn solve_unpermuted(&self, x: &mut [L::Wide], transpose: bool) -> Result<(), Error> {
        let in_solve = |e| Error::from_device(e, "solve");
        let TreeAnalysis {
            stream, threads, ..
        } = &*self.analysis;
        let mut there = threads.upload(stream, x).map_err(in_solve)?;
        self.factors().solve_scaled(stream, &mut there, transpose)?;
        stream.copy_to_host(&there, x).map_err(in_solve)
    }
}

impl<L: TreeFactors> Engine<L::Wide> for TreeEngine<L> {
    fn report(&self) -> FactorReport {
        let device = self.analysis.stream.device();
        let quality = &self.quality;
        let tree = Arc::clone(self.factors().tree());
        FactorReport {
            num_perturbed: quality.num_perturbed,
            first_perturbed: quality.first_perturbed,
            num_delayed: quality.num_delayed,
            num_off_diagonal: quality.num_off_diagonal,
            growth: quality.growth(),
            product: quality.product(),
            growth_bounds: true,
            error: of_growth(epsilon::<L>(), quality.growth()),
            largest: quality.max_b,
            epsilon: epsilon::<L>(),
            symmetric: quality.symmetric,
            sizes: Some(self.analysis.forest.sizes(tree.symbolic())),
            code_path: vec![L::code_path(&tree, quality)],
            device: DeviceCosts {
                peak_bytes: Some(device.peak_bytes()),
                transfer_seconds: Some(
                    device.transfers().seconds - self.analysis.earlier_transfers,
                ),
            },
            ..FactorReport::default()
        }
    }

    fn solve(&self, b: &[L::Wide], nrhs: usize, transpose: bool) -> Result<Vec<L::Wide>, Error> {
        let in_solve = |e| Error::from_device(e, "solve");
        let stream = &self.analysis.stream;
        let threads = &self.analysis.threads;
        let mut x = threads.upload(stream, b).map_err(in_solve)?;
        self.factors().solve(stream, &mut x, nrhs, transpose)?;
        stream.download(&x).map_err(in_solve)
    }

    fn solve_permuted(&self, c: &mut [L::Wide], transpose: bool) -> Result<(), Error> {
        let Transform {
            row_perm, col_perm, ..
        } = &self.analysis.forest.transform;
        let (rows, cols) = (row_perm.as_slice(), col_perm.as_slice());
        let (enter, leave) = if transpose {
            (cols, rows)
        } else {
            (rows, cols)
        };
        let mut x = vec![L::Wide::default(); c.len()];
        for (&old, &value) in enter.iter().zip(&*c) {
            x[old as usize] = value;
        }
        self.solve_unpermuted(&mut x, transpose)?;
        for (c, &old) in c.iter_mut().zip(leave) {
            *c = x[old as usize];
        }
        Ok(())
    }

    fn of_factors(&self) -> (&Transform, &RowPerm) {
        let transform = &self.analysis.forest.transform;
        (transform, &transform.row_perm)
    }

    fn screen(&self) -> Result<f64, Error> {
        // The vector is as good in any order, so it is that of A: nothing goes to the device, and no permutation.
        let stream = &self.analysis.stream;
        let there = stream.alloc(self.analysis.forest.symbolic.n());
        let mut there: Buffer<L::Wide> = there.map_err(|e| Error::from_device(e, "solve"))?;
        solve_gpu::set_known_solution(stream, &mut there)?;
        let before = match self.analysis.known_size.get() {
            Some(&size) => size,
            None => {
                let size = solve_gpu::sum_of_magnitudes(stream, &there)?;
                *self.analysis.known_size.get_or_init(|| size)
            }
        };
        self.factors().solve_scaled(stream, &mut there, false)?;
        let after = solve_gpu::sum_of_magnitudes(stream, &there)?;
        Ok(engine::screened(before, self.quality.max_b, after))
    }

    fn condition(&self, a: &[L::Wide]) -> Result<Condition, Error> {
        // Those of a triangle are others than those of all of the matrix.
        if a.len() == self.values.len() {
            self.condition_with(a)
        } else {
            self.condition_of_values()
        }
    }

    fn determinant(&self) -> Result<Determinant<L::Wide>, Error> {
        let forest = &self.analysis.forest;
        let product = self.factors().determinant(&self.analysis.stream)?;
        let transform = &forest.transform;
        // Rows and columns go to the order of elimination alike, which changes no sign.
        Ok(transform.undo_determinant(&transform.row_perm, product))
    }

    fn perturbed(&self) -> Option<Vec<usize>> {
        self.factors().perturbed()
    }

    fn pivots(&self) -> Result<Option<Pivots<L::Wide>>, Error> {
        self.factors().pivots(&self.analysis.stream)
    }

    fn solve_triangle(&self, x: &mut [L::Wide], transpose: bool) -> Result<(), Error> {
        let in_solve = |e| Error::from_device(e, "solve");
        let stream = &self.analysis.stream;
        let nrhs = x.len() / self.analysis.forest.symbolic.n().max(1);
        let mut there = self.analysis.threads.upload(stream, x).map_err(in_solve)?;
        self.factors()
            .solve_triangle(stream, &mut there, nrhs, transpose)?;
        stream.copy_to_host(&there, x).map_err(in_solve)
    }
}

impl<L: TreeFactors> AnyDeviceEngine<L::Wide> for TreeEngine<L> {
    fn refactorize(
        &mut self,
        a: &[L::Wide],
        pivots: PivotPolicy,
        _limits: &Limits,
    ) -> Result<(), Error> {
        let values = NewValues::OnHost {
            values: a,
            check: &|| Ok(()),
        };
        self.refactorize_resident(values, pivots, Measured::NOT)?;
        Ok(())
    }

    fn keep(&mut self) {
        self.previous = None;
    }

    fn restore(&mut self) -> Result<(), Error> {
        let (Some(previous), Some(spare)) = (self.previous.take(), self.spare.take()) else {
            return Ok(());
        };
        self.spare = Some(std::mem::replace(&mut self.values, spare));
        self.pivots = previous.pivots;
        let factors = self.factors.get_mut();
        let factors = factors.unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = previous.factors {
            *factors = old;
        }
        factors.set_scale(previous.scale);
        // With the pivots of then, which have served these values: a search may find others.
        let stream = &self.analysis.stream;
        factors.begin_refactorize(stream, &self.values, &self.pivots)?;
        if !matches!(factors.report(stream, &self.pivots)?, Outcome::Done(_)) {
            self.renew(None, Looks::default(), &|| Ok(()))?;
        }
        // What was measured of the old factors when they were accepted.
        self.quality = previous.quality;
        Ok(())
    }

    fn resident(&self) -> Option<&dyn ResidentEngine<L::Wide>> {
        Some(self)
    }

    fn resident_mut(&mut self) -> Option<&mut dyn ResidentEngine<L::Wide>> {
        Some(self)
    }
}
