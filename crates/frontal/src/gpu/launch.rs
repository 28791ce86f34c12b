//! What factorizations of every kind launch: memory that they work in, arguments that they have in common, the report.

use std::sync::{Mutex, MutexGuard, PoisonError};

use luge_device::{Buffer, DeviceError, KernelDesc, LaunchConfig, PinnedBuffer, Stream};
use luge_gpu_kernels::frontal::plan::{
    self as words, LargePlanBuffers, SmallPlanBuffers, WorkBuffers, report,
};

use super::solve::Vectors;
use super::tree::DeviceTree;
use super::{DeviceFrontalError, DeviceScalar};
use crate::storage::Storage;

/// What factorizations and solves with one tree work in.
///
/// Factors of several matrices may share it if all their work is on one stream, which has it in order, and nobody
/// begins a factorization before the report on the last one was read.
#[derive(Debug)]
pub struct Workspace<T: DeviceScalar> {
    working: Mutex<Working<T>>,
}

#[derive(Debug)]
pub(super) struct Working<T: DeviceScalar> {
    elements: Buffer<T>,
    /// Counters and flags of the factorizations.
    joined: Buffer<u32>,
    arrived: Buffer<u32>,
    assembled: Buffer<u32>,
    flags: Buffer<u32>,
    /// Number (epoch) of the last search that failed at each pivot.
    failed: Buffer<u32>,
    state: Buffer<u32>,
    extremes: Buffer<u64>,
    report: Buffer<u64>,
    report_on_host: PinnedBuffer<u64>,
    /// Number of factorizations so far, around the end of the integers.
    epoch: u32,
    /// What solves work in beside the elements.
    vectors: Vectors<T>,
}

impl<T: DeviceScalar> Workspace<T> {
    /// Memory for factors on `tree`.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`].
    pub fn new<S: Storage>(
        stream: &Stream,
        tree: &DeviceTree<S>,
    ) -> Result<Self, DeviceFrontalError> {
        let plan = &tree.plan;
        Ok(Self {
            working: Mutex::new(Working {
                elements: stream.alloc(plan.element_entries as usize)?,
                joined: stream.alloc_zeroed(plan.fronts.len())?,
                arrived: stream.alloc_zeroed(plan.num_large)?,
                assembled: stream.alloc_zeroed(plan.num_large)?,
                flags: stream.alloc_zeroed(plan.num_flags)?,
                failed: stream.alloc_zeroed(tree.symbolic.n())?,
                state: stream.alloc_zeroed(words::state::LEN)?,
                extremes: stream.alloc_zeroed(report::NUM_EXTREMES)?,
                report: stream.alloc(report::LEN)?,
                report_on_host: stream.device().alloc_pinned(report::LEN)?,
                epoch: 0,
                vectors: Vectors::new(stream)?,
            }),
        })
    }

    /// Bytes on the device that it takes, with what a solve for one right-hand side works in.
    pub fn bytes<S: Storage>(tree: &DeviceTree<S>) -> u64 {
        let plan = &tree.plan;
        let values = plan.element_entries * size_of::<T>() as u64;
        let of_solves = Vectors::<T>::bytes(tree, plan.element_entries);
        let of_fronts = plan.fronts.len() + 2 * plan.num_large + plan.num_flags;
        let counters = of_fronts + tree.symbolic.n() + words::state::LEN;
        let reports = report::NUM_EXTREMES + report::LEN;
        values + of_solves + (4 * counters + 8 * reports) as u64
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Working<T>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: DeviceScalar> Working<T> {
    /// What solves work in: vectors, and the elements, whose content nobody needs any more.
    pub(super) fn memory(&mut self) -> (&mut Vectors<T>, &mut Buffer<T>) {
        (&mut self.vectors, &mut self.elements)
    }
}

/// The kernels of one kind of factorization, with what they need beside the arguments that all have.
pub(super) trait FrontKernels<T: DeviceScalar> {
    /// The kernel for wide fronts or the one for all others.
    fn desc(&self, is_wide: bool) -> &'static KernelDesc;

    /// Enqueues it.
    ///
    /// # Safety
    ///
    /// As the kernel demands.
    unsafe fn launch(
        &mut self,
        stream: &Stream,
        config: &LaunchConfig,
        is_wide: bool,
        arguments: Arguments<'_, T>,
    ) -> Result<(), DeviceError>;
}

/// The arguments that all have.
pub(super) struct Arguments<'a, T: DeviceScalar> {
    pub work: WorkBuffers<'a, T>,
    pub small: SmallPlanBuffers<'a>,
    pub large: LargePlanBuffers<'a>,
}

/// A factorization that is to be enqueued.
pub(super) struct Factorization<'a, T: DeviceScalar, S: Storage> {
    pub tree: &'a DeviceTree<S>,
    /// Values of A.
    pub values: &'a Buffer<f64>,
    pub threshold: T,
    pub smallest: T,
    /// A search leaves out columns of L with larger entries.
    pub max_l: T,
    pub factors: &'a mut Buffer<T>,
    pub pivot_rows: &'a mut Buffer<u32>,
    pub row_places: &'a mut Buffer<u32>,
}

impl<T: DeviceScalar, S: Storage> Factorization<'_, T, S> {
    /// Enqueues the launches that the plan asks for, and the copy of their report.
    ///
    /// # Panics
    ///
    /// If A has too few values.
    #[track_caller]
    pub fn enqueue(
        mut self,
        stream: &Stream,
        workspace: &Workspace<T>,
        kernels: &mut impl FrontKernels<T>,
    ) -> Result<(), DeviceFrontalError> {
        assert!(
            self.values.len() >= self.tree.max_source,
            "a value for each entry of the tree"
        );
        if self.tree.is_empty() {
            return Ok(());
        }
        let mut working = workspace.lock();
        let working = &mut *working;
        let epoch = working.epoch.wrapping_add(1);
        for number in 0..self.tree.plan.launches.len() {
            self.launch(stream, number, (&mut *working, epoch), kernels)?;
        }
        stream.copy_to_pinned(&working.report, &mut working.report_on_host, 0)?;
        Ok(())
    }

    /// Enqueues one of the launches; the first also works on the small fronts.
    fn launch(
        &mut self,
        stream: &Stream,
        number: usize,
        (working, epoch): (&mut Working<T>, u32),
        kernels: &mut impl FrontKernels<T>,
    ) -> Result<(), DeviceFrontalError> {
        let plan = &self.tree.plan;
        let of = plan.launches[number].clone();
        let values = if of.is_wide {
            words::WIDE_VALUES
        } else {
            words::BLOCK_VALUES
        };
        let shared_bytes = values * size_of::<T>() as u32;
        let kernel = kernels.desc(of.is_wide);
        let resident = stream
            .device()
            .max_resident_blocks(kernel, words::THREADS, shared_bytes)?;
        let warps = words::THREADS as usize / 32;
        let of_small = if number == 0 { plan.starts.len() } else { 0 };
        let blocks = of_small.div_ceil(warps).max(of.tasks.len());
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let config = LaunchConfig::linear(blocks.clamp(1, resident.max(1)), words::THREADS)
            .with_shared(shared_bytes);
        let arguments = self.arguments(number, (&mut *working, epoch));
        // SAFETY: the plan is that of a valid tree, and A has a value for each of its entries; the counters were zero at
        // first, and each launch leaves them as the next wants them. What tasks wait for is done in this launch or in one
        // before.
        unsafe { kernels.launch(stream, &config, of.is_wide, arguments)? };
        // Counted once a launch is made: flags and epoch go together.
        working.epoch = epoch;
        Ok(())
    }

    fn arguments<'a>(
        &'a mut self,
        number: usize,
        (working, epoch): (&'a mut Working<T>, u32),
    ) -> Arguments<'a, T> {
        let plan = &self.tree.plan;
        let tasks = &plan.launches[number].tasks;
        Arguments {
            work: WorkBuffers {
                epoch,
                goes_on: (number > 0).into(),
                threshold: self.threshold,
                smallest: self.smallest,
                max_l: self.max_l,
                relative: &self.tree.relative,
                source: &plan.source,
                places: &plan.places,
                values: self.values,
                arrived: &mut working.arrived,
                factors: self.factors,
                elements: &mut working.elements,
                pivot_rows: self.pivot_rows,
                row_places: self.row_places,
                failed: &mut working.failed,
                state: &mut working.state,
                extremes: &mut working.extremes,
                report: &mut working.report,
            },
            small: SmallPlanBuffers {
                fronts: &plan.fronts,
                children: &plan.children,
                starts: &plan.starts,
                joined: &mut working.joined,
            },
            large: LargePlanBuffers {
                first_task: tasks.start,
                num_tasks: tasks.end - tasks.start,
                tasks: &plan.tasks,
                pieces: &plan.pieces,
                sums: &plan.sums,
                addends: &plan.addends,
                waits: &plan.waits,
                assembled: &mut working.assembled,
                flags: &mut working.flags,
            },
        }
    }
}

/// The report on a factorization that has ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Report {
    words: [u64; report::LEN],
}

impl<T: DeviceScalar> Workspace<T> {
    /// Waits for the factorization that was enqueued last.
    pub(super) fn report(&self) -> Result<Report, DeviceError> {
        let working = self.lock();
        let mut words = [0; report::LEN];
        words.copy_from_slice(working.report_on_host.as_slice()?);
        Ok(Report { words })
    }

    /// Whether the search that was enqueued last has failed at each of the pivots, by their places in the order of elimination.
    pub(super) fn has_failed(&self, stream: &Stream) -> Result<Vec<bool>, DeviceError> {
        let working = self.lock();
        let epochs = stream.download(&working.failed)?;
        Ok(epochs.iter().map(|&epoch| epoch == working.epoch).collect())
    }
}

impl Report {
    /// An extreme that is a magnitude.
    pub fn extreme(&self, which: usize) -> f64 {
        f64::from_bits(self.words[which])
    }

    /// The first pivot of its kind, by its place in the order of elimination.
    pub fn first(&self, which: usize) -> Option<u32> {
        let word = self.words[which];
        (word != 0).then_some(!(word as u32))
    }

    /// An extreme that is the smallest magnitude; infinite if there is none.
    pub fn least(&self, which: usize) -> f64 {
        match self.words[which] {
            0 => f64::INFINITY,
            complement => f64::from_bits(!complement),
        }
    }

    pub fn count(&self, which: usize) -> usize {
        self.words[which] as usize
    }

    /// Largest magnitude of B, if it is far from the one that small pivots were told by.
    pub fn other_scale(&self, scale: f64) -> Option<f64> {
        let max_b = self.extreme(report::MAX_B);
        let is_other = max_b.is_finite() && max_b > 0.0 && !(0.25..=4.0).contains(&(max_b / scale));
        is_other.then_some(max_b)
    }
}
