//! What factorizations of every kind launch: memory that they work in, arguments that they have in common, the report.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use luge_device::{Buffer, DeviceError, KernelDesc, LaunchConfig, Readback, Stream};
use luge_gpu_kernels::frontal::plan::{
    self as words, LargePlanBuffers, SmallPlanBuffers, WorkBuffers, report,
};

use super::check::CheckMemory;
use super::dealt::{DealtOut, PartMemory};
use super::memory::counted_bytes;
use super::scalar::{RealOf, WideOf};
use super::solve::Vectors;
use super::streamed::{Chained, HostElements, StoredPanels};
use super::tree::{DevicePlan, DeviceTree};
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
    own: Counted<T>,
    /// Of the parts of a tree that is dealt out to devices.
    parts: Vec<PartMemory<T>>,
    /// Of a tree in links.
    links: Option<LinkMemory<T>>,
    /// What solves work in beside the elements.
    vectors: Vectors<T>,
    /// What checks work in, once there was one.
    check: Option<CheckMemory<T>>,
}

/// What the links of a tree work in, beside the last.
#[derive(Debug)]
struct LinkMemory<T: DeviceScalar> {
    counted: Vec<Counted<T>>,
    elements: HostElements<T>,
}

/// What the launches of one plan work in: elements, counters, their report.
#[derive(Debug)]
pub(super) struct Counted<T: DeviceScalar> {
    pub elements: Buffer<T>,
    /// Counters and flags of the factorizations.
    joined: Buffer<u32>,
    arrived: Buffer<u32>,
    assembled: Buffer<u32>,
    flags: Buffer<u32>,
    /// Number (epoch) of the last search that failed at each pivot.
    failed: Buffer<u32>,
    /// Zero between factorizations, once one was enqueued; and so are the extremes.
    state: Buffer<u32>,
    extremes: Buffer<u64>,
    report: Readback<u64>,
    /// Number of factorizations so far, around the end of the integers.
    epoch: u32,
}

/// Entries of the elements that a factorization on the tree has on the device of its stream.
fn num_elements<S: Storage>(tree: &DeviceTree<S>) -> u64 {
    let chain = tree.chain.as_ref();
    chain.map_or(tree.plan.element_entries, |chain| {
        chain.element_entries as u64
    })
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
        let n = tree.symbolic.n();
        let parts = tree.parts.iter();
        let (own, links) = match &tree.chain {
            None => (Counted::new(stream, &tree.plan, n)?, None),
            Some(chain) => {
                let elements = stream.alloc(chain.element_entries)?;
                let counted = |plan| Counted::with(stream, plan, n, stream.alloc(0)?);
                let memory = LinkMemory {
                    counted: chain.plans.iter().map(counted).collect::<Result<_, _>>()?,
                    elements: HostElements::new(stream, chain)?,
                };
                let own = Counted::with(stream, &tree.plan, n, elements)?;
                (own, Some(memory))
            }
        };
        Ok(Self {
            working: Mutex::new(Working {
                own,
                links,
                parts: parts
                    .map(|part| PartMemory::new::<S>(stream, part, n))
                    .collect::<Result<_, _>>()?,
                vectors: Vectors::new(stream)?,
                check: None,
            }),
        })
    }

    /// Bytes on the device that it takes, with what a solve for one right-hand side works in. Those on other devices are
    /// not counted.
    pub fn bytes<S: Storage>(tree: &DeviceTree<S>) -> u64 {
        let value_bytes = size_of::<T>();
        let whole = || counted_bytes(&tree.plan, tree.symbolic.n(), value_bytes);
        Vectors::<T>::bytes(tree, num_elements(tree))
            + tree
                .planned_workspace_bytes(value_bytes)
                .unwrap_or_else(whole)
    }

    /// Gives back the memory of the elements that are on the device of the stream, and whose content nobody needs any more. The next
    /// factorization takes it anew.
    pub(super) fn release_elements(&self, stream: &Stream) -> Result<(), DeviceError> {
        self.lock().own.elements = stream.alloc(0)?;
        Ok(())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Working<T>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: DeviceScalar> Working<T> {
    /// What solves work in: vectors, and the elements, whose content nobody needs any more.
    pub(super) fn memory(&mut self) -> (&mut Vectors<T>, &mut Buffer<T>) {
        (&mut self.vectors, &mut self.own.elements)
    }

    /// What checks work in.
    pub(super) fn check(&mut self) -> &mut Option<CheckMemory<T>> {
        &mut self.check
    }
}

impl<T: DeviceScalar> Counted<T> {
    /// For a plan, whose fronts have pivots among `n`.
    pub fn new(stream: &Stream, plan: &DevicePlan, n: usize) -> Result<Self, DeviceError> {
        let elements = stream.alloc(plan.element_entries as usize)?;
        Self::with(stream, plan, n, elements)
    }

    /// As [`new`](Self::new), with memory for the elements.
    pub fn with(
        stream: &Stream,
        plan: &DevicePlan,
        n: usize,
        elements: Buffer<T>,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            elements,
            joined: stream.alloc_zeroed(plan.fronts.len())?,
            arrived: stream.alloc_zeroed(plan.num_large)?,
            assembled: stream.alloc_zeroed(plan.num_large)?,
            flags: stream.alloc_zeroed(plan.num_flags)?,
            failed: stream.alloc_zeroed(n)?,
            state: stream.alloc(words::state::LEN)?,
            extremes: stream.alloc(report::NUM_EXTREMES)?,
            report: Readback::new(stream, report::LEN)?,
            epoch: 0,
        })
    }

    /// Waits for the report of the launches that were enqueued last.
    pub fn report(&self) -> Result<Report, DeviceError> {
        let mut words = [0; report::LEN];
        words.copy_from_slice(&self.report.read()?);
        Ok(Report { words })
    }

    /// Notes which of these pivots the search that was enqueued last has failed at.
    pub fn note_failed(
        &self,
        stream: &Stream,
        pivots: Range<usize>,
        has_failed: &mut [bool],
    ) -> Result<(), DeviceError> {
        let epochs = stream.download(&self.failed.slice(pivots.clone()))?;
        for (has_failed, epoch) in has_failed[pivots].iter_mut().zip(epochs) {
            *has_failed |= epoch == self.epoch;
        }
        Ok(())
    }
}

/// The kernels of one kind of factorization, with what they need beside the arguments that all have.
pub(super) trait FrontKernels<T: DeviceScalar> {
    /// The same with what they need on another device.
    type On<'b>: FrontKernels<T>
    where
        Self: 'b;

    /// Those that work in `there`, which has no own values of an LU.
    fn on<'b>(&'b self, there: &'b mut OwnValues<T>) -> Self::On<'b>;

    /// Enqueues copies of what a launch on these kernels has written for some pivots.
    fn fetch(
        &mut self,
        stream: &Stream,
        there: &OwnValues<T>,
        pivots: Range<usize>,
    ) -> Result<(), DeviceError>;

    /// Whether panels are those of factors; else the launch is one that searches pivots alone.
    fn leave_panels(&self) -> bool;

    /// The kernel for some fronts, if there is one.
    fn desc(&self, fronts: Fronts) -> Option<&'static KernelDesc>;

    /// Enqueues it.
    ///
    /// # Safety
    ///
    /// As the kernel demands.
    unsafe fn launch(
        &mut self,
        stream: &Stream,
        config: &LaunchConfig,
        fronts: Fronts,
        arguments: Arguments<'_, T>,
    ) -> Result<(), DeviceError>;
}

/// The fronts that a launch works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fronts {
    /// Small ones alone.
    Small,
    /// Those that are not wide, without the small ones if a launch has worked on them.
    Narrow,
    /// Wide ones.
    Wide,
}

impl Fronts {
    /// Values of dynamic shared memory of a block.
    fn block_values(self) -> u32 {
        match self {
            Self::Small => words::SMALL_BLOCK_VALUES,
            Self::Narrow => words::BLOCK_VALUES,
            Self::Wide => words::WIDE_VALUES,
        }
    }
}

/// What symmetric factorizations have for each pivot on a device, beside what all have; nothing of an LU.
#[derive(Debug)]
pub(super) struct OwnValues<T: DeviceScalar> {
    /// D: two values for each pivot.
    pub diagonal: Buffer<T>,
    /// Where a search puts rows and columns.
    pub found_places: Buffer<u32>,
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
    pub values: &'a Buffer<WideOf<T>>,
    pub rule: Rule<RealOf<T>>,
    pub results: Results<'a, T>,
}

/// Which pivots are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rule<T> {
    pub threshold: T,
    pub smallest: T,
    /// A search leaves out columns of L with larger entries.
    pub max_l: T,
}

/// What factorizations of all kinds write.
#[derive(Debug)]
pub(super) struct Results<'a, T: DeviceScalar> {
    pub factors: &'a mut Buffer<T>,
    pub pivot_rows: &'a mut Buffer<u32>,
    pub row_places: &'a mut Buffer<u32>,
    /// Panels that are kept elsewhere, of a tree in links.
    pub stored_panels: Option<&'a mut StoredPanels<T>>,
}

impl<T: DeviceScalar, S: Storage> Factorization<'_, T, S> {
    /// Enqueues the launches that the plan asks for.
    ///
    /// # Panics
    ///
    /// If A has too few values.
    #[track_caller]
    pub fn enqueue(
        self,
        stream: &Stream,
        workspace: &Workspace<T>,
        kernels: &mut impl FrontKernels<T>,
    ) -> Result<(), DeviceFrontalError> {
        let Self {
            tree,
            values,
            rule,
            mut results,
        } = self;
        tree.check_values(values.len());
        if tree.is_empty() {
            return Ok(());
        }
        let mut working = workspace.lock();
        let Working {
            own, parts, links, ..
        } = &mut *working;
        let num_elements = num_elements(tree) as usize;
        if own.elements.len() < num_elements {
            own.elements = stream.alloc(num_elements)?;
        }
        if let (Some(chain), Some(memory)) = (&tree.chain, links) {
            let panels = results.stored_panels.take().expect("panels elsewhere");
            let chained = Chained {
                chain,
                last: &tree.plan,
                values,
                rule,
                elements: &mut memory.elements,
                panels,
                counted: &mut memory.counted,
            };
            return Ok(chained.enqueue::<S>(stream, own, &mut results, kernels)?);
        }
        let dealt = DealtOut {
            parts: &tree.parts,
            memory: parts,
            values,
            num_values: tree.max_source,
            rule,
        };
        dealt.enqueue(
            stream,
            own,
            &mut results,
            kernels,
            |own, results, kernels| {
                let launches = Launches {
                    plan: &tree.plan,
                    values,
                    rule,
                    counted: own,
                    results: results.reborrow(),
                };
                launches.enqueue(stream, kernels)
            },
        )?;
        Ok(())
    }
}

impl<T: DeviceScalar> Results<'_, T> {
    pub fn reborrow(&mut self) -> Results<'_, T> {
        Results {
            factors: self.factors,
            pivot_rows: self.pivot_rows,
            row_places: self.row_places,
            stored_panels: None,
        }
    }
}

/// The launches of one plan that are to be enqueued.
pub(super) struct Launches<'a, T: DeviceScalar> {
    pub plan: &'a DevicePlan,
    /// Values of A.
    pub values: &'a Buffer<WideOf<T>>,
    pub rule: Rule<RealOf<T>>,
    pub counted: &'a mut Counted<T>,
    pub results: Results<'a, T>,
}

/// What one of the launches of a factorization does.
struct OneLaunch {
    tasks: Range<u32>,
    /// Number of the factorization.
    epoch: u32,
    /// Whether launches came before, and whether others come after.
    goes_on: bool,
    more_follow: bool,
}

impl<T: DeviceScalar> Launches<'_, T> {
    /// Enqueues them.
    pub fn enqueue(
        mut self,
        stream: &Stream,
        kernels: &mut impl FrontKernels<T>,
    ) -> Result<(), DeviceError> {
        let epoch = self.counted.epoch.wrapping_add(1);
        let plan = self.plan;
        let runs = plan.starts.len().div_ceil(words::THREADS as usize / 32);
        let small_apart =
            runs > 0 && stream.shares_device() && kernels.desc(Fronts::Small).is_some();
        let apart = small_apart.then_some((Fronts::Small, 0..0));
        let of_plan = plan.launches.iter().map(|launch| {
            let fronts = if launch.is_wide {
                Fronts::Wide
            } else {
                Fronts::Narrow
            };
            (fronts, launch.tasks.clone())
        });
        let of_plan = of_plan.filter(|(_, tasks)| !small_apart || !tasks.is_empty());
        let mut launches = apart.into_iter().chain(of_plan).peekable();
        // At first; and where a launch was not made, what those before it have found is still there.
        if !self.counted.report.is_recorded() {
            stream.fill_zero(&mut self.counted.extremes)?;
            stream.fill_zero(&mut self.counted.state)?;
        }
        let mut goes_on = false;
        while let Some((fronts, tasks)) = launches.next() {
            let blocks = if goes_on {
                stream.make_way()?;
                tasks.len()
            } else {
                tasks.len().max(runs)
            };
            let one = OneLaunch {
                tasks,
                epoch,
                goes_on,
                more_follow: launches.peek().is_some(),
            };
            self.launch(stream, (fronts, blocks), one, kernels)?;
            goes_on = true;
        }
        self.counted.report.record(stream)
    }

    /// Enqueues a launch of at most so many blocks on these tasks.
    fn launch(
        &mut self,
        stream: &Stream,
        (fronts, blocks): (Fronts, usize),
        one: OneLaunch,
        kernels: &mut impl FrontKernels<T>,
    ) -> Result<(), DeviceError> {
        let epoch = one.epoch;
        let shared_bytes = fronts.block_values() * size_of::<T>() as u32;
        let kernel = kernels.desc(fronts).expect("a kernel for these fronts");
        let resident = stream.share_of_blocks(kernel, words::THREADS, shared_bytes)?;
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let config = LaunchConfig::linear(blocks.clamp(1, resident.max(1)), words::THREADS)
            .with_shared(shared_bytes);
        let arguments = self.arguments(one);
        // SAFETY: the plan is that of a valid tree, and A has a value for each of its entries; the counters were zero at
        // first, and each launch leaves them as the next wants them. What tasks wait for is done in this launch or in one
        // before.
        unsafe { kernels.launch(stream, &config, fronts, arguments)? };
        // Counted once a launch is made: flags and epoch go together.
        self.counted.epoch = epoch;
        Ok(())
    }

    fn arguments(&mut self, one: OneLaunch) -> Arguments<'_, T> {
        let OneLaunch {
            tasks,
            epoch,
            goes_on,
            more_follow,
        } = one;
        let plan = self.plan;
        let counted = &mut *self.counted;
        Arguments {
            work: WorkBuffers {
                epoch,
                goes_on: goes_on.into(),
                more_follow: more_follow.into(),
                threshold: self.rule.threshold,
                smallest: self.rule.smallest,
                max_l: self.rule.max_l,
                relative: &plan.relative,
                source: &plan.source,
                places: &plan.places,
                values: self.values,
                arrived: &mut counted.arrived,
                factors: self.results.factors,
                elements: &mut counted.elements,
                pivot_rows: self.results.pivot_rows,
                row_places: self.results.row_places,
                failed: &mut counted.failed,
                state: &mut counted.state,
                extremes: &mut counted.extremes,
                report: counted.report.buffer_mut(),
            },
            small: SmallPlanBuffers {
                fronts: &plan.fronts,
                children: &plan.children,
                starts: &plan.starts,
                joined: &mut counted.joined,
            },
            large: LargePlanBuffers {
                first_task: tasks.start,
                num_tasks: tasks.end - tasks.start,
                tasks: &plan.tasks,
                pieces: &plan.pieces,
                sums: &plan.sums,
                addends: &plan.addends,
                waits: &plan.waits,
                assembled: &mut counted.assembled,
                flags: &mut counted.flags,
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
        let mut report = working.own.report()?;
        let of_parts = working.parts.iter().map(|part| &part.counted);
        let of_links = working.links.iter().flat_map(|links| &links.counted);
        for counted in of_parts.chain(of_links) {
            report.add(counted.report()?);
        }
        Ok(report)
    }

    /// Whether the search that was enqueued last has failed at each of the pivots, by their places in the order of elimination.
    pub(super) fn has_failed<S: Storage>(
        &self,
        stream: &Stream,
        tree: &DeviceTree<S>,
    ) -> Result<Vec<bool>, DeviceError> {
        let working = self.lock();
        let n = tree.symbolic.n();
        let mut has_failed = vec![false; n];
        let of_links = working.links.iter().flat_map(|links| &links.counted);
        for counted in std::iter::once(&working.own).chain(of_links) {
            counted.note_failed(stream, 0..n, &mut has_failed)?;
        }
        for (part, memory) in tree.parts.iter().zip(&working.parts) {
            let stream = part.peer.as_ref().unwrap_or(stream);
            for subtree in &part.subtrees {
                let pivots = subtree.pivots.clone();
                memory
                    .counted
                    .note_failed(stream, pivots, &mut has_failed)?;
            }
        }
        Ok(has_failed)
    }
}

impl Report {
    /// Adds what was found in another part of the matrix.
    fn add(&mut self, other: Self) {
        let (extremes, counts) = self.words.split_at_mut(report::NUM_EXTREMES);
        let (other_extremes, other_counts) = other.words.split_at(report::NUM_EXTREMES);
        for (extreme, other) in extremes.iter_mut().zip(other_extremes) {
            *extreme = (*extreme).max(*other);
        }
        for (count, other) in counts.iter_mut().zip(other_counts) {
            *count += other;
        }
    }

    /// Puts what was found of the whole matrix in the place of what is reported of a part.
    pub fn set(&mut self, which: usize, word: u64) {
        self.words[which] = word;
    }

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
