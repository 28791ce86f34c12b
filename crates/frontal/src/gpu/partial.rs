//! LU factors of which only some fronts are factorized again where values of A changed.
//!
//! The tree is cut as on the CPU ([`Cut`]): elements are kept of the fronts above the cut and right below it, so a change costs the
//! subtrees below the cut in which it is, and the paths above them. The memory of other elements is used again and again, within a
//! factorization and by solves; so factors of which something is kept have memory for elements of their own, in which those that are
//! kept lie apart ([`Elements`]). They are planned once more for that. Each set of changed values has a plan for its fronts, of which
//! the last is there for the next call.
//!
//! A plan of some fronts is one of a part of the tree whose other fronts are given. Classes of fronts, the order in which elements are
//! added up and their places are those of the whole tree, so the bits of the factors are as well. The report is put together: nothing
//! was replaced in fronts that stay, or all would be factorized; and the extremes are looked for in all factors, which takes some
//! percent of what it takes to make them.

use std::sync::Arc;

use luge_device::{Buffer, DeviceError, LaunchConfig, Maxima, RecordBuffer, Stream, Uploads};
use luge_gpu_kernels::frontal::changed as kernels;
use luge_gpu_kernels::frontal::changed::PanelPart;
use luge_gpu_kernels::frontal::plan::{THREADS, report};
use luge_sparse::etree::NONE;
use luge_sparse::{CancelFlag, PivotPolicy, Scalar};

use super::cost::DeviceCosts;
use super::launch::{Counted, FrontKernels, Launches, Report, Results, Rule};
use super::memory::MemoryPlan;
use super::placement::{PlacedOnHost, Placement};
use super::plan::elements::Elements;
use super::plan::{Plan, Roles, Source};
use super::scalar::{RealOf, WideOf};
use super::tree::{DevicePlan, DeviceTree};
use super::{DeviceFrontalError, DeviceFrontalLu, DeviceScalar};
use crate::factorize::Cut;
use crate::portion::{Portion, Slots};
use crate::storage::{Full, Storage};
use crate::symbolic::Symbolic;

/// Entries of a part of the panels that a warp looks through, unless a column has more.
const PART: u32 = 2048;

/// Values of A that changed.
#[derive(Debug, Clone, Copy)]
pub struct Changed<'a> {
    /// Which of A's values they are, in ascending order.
    pub places: &'a [u32],
    /// How the tree's entries come from A, as for [`DeviceTree::upload`].
    pub placement: &'a Placement<'a>,
    /// Looked at while the tree is planned.
    pub cancel: &'a CancelFlag,
    /// With more than one, those of the current rayon pool share the planning.
    pub threads: usize,
}

/// Whether something is kept of factors.
#[derive(Debug)]
pub(super) enum Keeping<T: DeviceScalar> {
    /// Nobody told what changes.
    Not,
    Some(Box<Kept<T>>),
    /// There is no memory for it, or no kernel.
    Never,
}

/// What is kept.
#[derive(Debug)]
pub(super) struct Kept<T: DeviceScalar> {
    cut: Cut,
    roles: Roles,
    memory: MemoryPlan,
    rows: PlacedOnHost,
    cols: PlacedOnHost,
    /// The front of each value of A, or [`NONE`].
    front_of: Vec<u32>,
    elements: Buffer<T>,
    whole: Planned<T>,
    /// The values that changed last, if any did, and the plan of the fronts that are factorized for them.
    some: Option<(Vec<u32>, Planned<T>)>,
    /// All panels, and their extremes with those of B.
    panels: RecordBuffer<PanelPart>,
    num_entries: u32,
    extremes: Maxima,
    /// How the factorization that was begun last takes pivots, and whether it is of all fronts.
    begun: Option<(Rule<RealOf<T>>, bool)>,
    /// How those factors did of which all elements are kept that have to be.
    current: Option<Rule<RealOf<T>>>,
}

/// A plan on the device, and what its launches work in beside the elements.
#[derive(Debug)]
struct Planned<T: DeviceScalar> {
    plan: DevicePlan,
    counted: Counted<T>,
    /// Operations on its fronts.
    flops: f64,
}

impl<T: DeviceScalar> Keeping<T> {
    pub fn kept(&mut self) -> Option<&mut Kept<T>> {
        match self {
            Self::Some(kept) => Some(kept),
            Self::Not | Self::Never => None,
        }
    }
}

impl<T: DeviceScalar> Planned<T> {
    fn upload(
        stream: &Stream,
        plan: &Plan,
        relative: &[u32],
        (n, threads): (usize, usize),
        flops: f64,
    ) -> Result<Self, DeviceError> {
        let mut uploads = Uploads::new(stream);
        let plan = DevicePlan::upload(&mut uploads, plan, relative)?;
        uploads.finish_on(threads)?;
        Ok(Self {
            counted: Counted::with(stream, &plan, n, stream.alloc(0)?)?,
            plan,
            flops,
        })
    }
}

impl<T: DeviceScalar> Kept<T> {
    /// For factors on this tree. None if there is no memory, or not all places of elements that are added entry by entry have 32 bits,
    /// for that would change the order of sums.
    fn new(
        stream: &Stream,
        tree: &DeviceTree,
        changed: &Changed<'_>,
    ) -> Result<Option<Self>, DeviceFrontalError> {
        let Changed {
            placement,
            cancel,
            threads,
            ..
        } = *changed;
        let symbolic = &*tree.symbolic;
        let limits = tree.limits;
        let costs = DeviceCosts::default().of_components(<T as Scalar>::COMPONENTS);
        let cut = Cut::new(symbolic, cancel)?;
        let roles = Roles::new(&symbolic.tree, &limits);
        let is_kept = Some(&*cut.is_kept);
        let elements = Elements::new::<Full>(
            &symbolic.tree,
            &roles.classes,
            (&limits, &costs),
            is_kept,
            1,
        );
        if elements.gathered > u64::from(u32::MAX) {
            return Ok(None);
        }
        let memory = MemoryPlan {
            limits,
            costs,
            elements: Arc::new(elements),
        };
        let value_bytes = size_of::<T>();
        let bytes = DeviceTree::predicted_bytes(symbolic, &memory, value_bytes)
            - DeviceTree::factor_bytes(symbolic, value_bytes);
        // Other work needs memory, too.
        if bytes > stream.device().available_bytes()? / 2 {
            return Ok(None);
        }
        cancel.check()?;
        let (rows, cols) = placement.placed(symbolic.tree.perm(), threads);
        let source = Source {
            entries: placement.entries,
            rows: &rows,
            cols: &cols,
            conjugated: &[],
        };
        let whole = symbolic.tree_and_layout();
        let plan = Plan::keeping::<Full>(whole, source, &memory, (roles.clone(), is_kept), threads);
        let of_tree = (symbolic.n(), threads);
        let relative = &symbolic.tree.relative;
        Ok(Some(Self {
            front_of: front_of_values(symbolic, placement.entries, tree.max_source),
            elements: stream.alloc(memory.elements.entries as usize)?,
            whole: Planned::upload(stream, &plan, relative, of_tree, symbolic.flops())?,
            some: None,
            panels: stream.upload_records(&panel_parts(symbolic))?,
            num_entries: symbolic.nnz() as u32,
            extremes: Maxima::new(stream, report::NUM_EXTREMES)?,
            begun: None,
            current: None,
            cut,
            roles,
            memory,
            rows,
            cols,
        }))
    }

    /// Plans the fronts that are factorized where values of A changed.
    fn plan(
        &self,
        stream: &Stream,
        symbolic: &Symbolic,
        changed: &Changed<'_>,
    ) -> Result<Planned<T>, DeviceError> {
        let whole = symbolic.tree_and_layout();
        let fronts = whole.0.fronts();
        let front_of = |&place: &u32| self.front_of.get(place as usize).copied();
        let of_values = changed.places.iter().filter_map(front_of);
        let of_values = of_values.filter(|&s| s != NONE).map(|s| s as usize);
        let mut is_in = Vec::new();
        self.cut.follow(fronts, of_values, &mut is_in);
        let portion = Portion::new(whole, 0..is_in.len(), |s| is_in[s], Slots::Whole);
        let roles = self.roles.of_part(&portion);
        let numbers = portion.fronts.iter().map(|&s| s as usize);
        let is_kept: Vec<bool> = numbers.map(|s| self.cut.is_kept[s]).collect();
        let MemoryPlan {
            limits,
            costs,
            elements,
        } = &self.memory;
        let table = (limits, costs);
        let elements = elements.of_part::<Full>(&portion, &roles.classes, table, &is_kept);
        let memory = MemoryPlan {
            elements: Arc::new(elements),
            ..self.memory
        };
        let source = Source {
            entries: changed.placement.entries,
            rows: &self.rows,
            cols: &self.cols,
            conjugated: &[],
        };
        let own = (&portion.tree, &portion.layout);
        let plan = Plan::keeping::<Full>(own, source, &memory, (roles, Some(&is_kept)), 1);
        let factorized = portion.tree.fronts().iter().filter(|front| !front.is_given);
        let flops = factorized.map(|front| Full::flops(front.pivots, front.below));
        let relative = &portion.tree.relative;
        Planned::upload(stream, &plan, relative, (symbolic.n(), 1), flops.sum())
    }

    /// Enqueues a factorization in which only some values of A are others than those of the factors that are there, or maybe all.
    /// Nothing that is kept is of the factors until it is [accepted](Self::accept).
    pub fn enqueue(
        &mut self,
        stream: &Stream,
        symbolic: &Symbolic,
        changed: Option<&Changed<'_>>,
        (values, rule): (&Buffer<WideOf<T>>, Rule<RealOf<T>>),
        mut results: Results<'_, T>,
        kernels: &mut impl FrontKernels<T>,
    ) -> Result<(), DeviceError> {
        let current = self.current.take();
        let mut changed = changed.filter(|_| current == Some(rule));
        if let Some(of) = changed
            && self
                .some
                .as_ref()
                .is_none_or(|(others, _)| others != of.places)
        {
            // Memory of the old plan is free for the new one.
            self.some = None;
            match self.plan(stream, symbolic, of) {
                Ok(planned) => self.some = Some((of.places.to_vec(), planned)),
                // The plan of all fronts is there.
                Err(DeviceError::OutOfMemory { .. }) => changed = None,
                Err(error) => return Err(error),
            }
        }
        self.begun = Some((rule, changed.is_none()));
        let planned = match (changed, &mut self.some) {
            (Some(_), Some((_, some))) => some,
            _ => &mut self.whole,
        };
        let Planned { plan, counted, .. } = planned;
        std::mem::swap(&mut counted.elements, &mut self.elements);
        let launches = Launches {
            plan,
            values,
            rule,
            counted,
            results: results.reborrow(),
        };
        let enqueued = launches.enqueue(stream, kernels);
        std::mem::swap(&mut counted.elements, &mut self.elements);
        enqueued?;
        if changed.is_some() {
            self.look_for_extremes(stream, values, results.factors)?;
        }
        Ok(())
    }

    /// Enqueues looking for the extremes of B and all factors.
    fn look_for_extremes(
        &mut self,
        stream: &Stream,
        values: &Buffer<WideOf<T>>,
        factors: &Buffer<T>,
    ) -> Result<(), DeviceError> {
        let kernel = kernels::extremes_of_lu::desc::<T>();
        let resident = stream.share_of_blocks(kernel, THREADS, 0)?;
        let threads = (32 * self.panels.len()).max(self.num_entries as usize);
        let blocks = threads.div_ceil(THREADS as usize);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let config = LaunchConfig::linear(blocks.clamp(1, resident.max(1)), THREADS);
        let plan = &self.whole.plan;
        self.extremes.enqueue(stream, |extremes, found| {
            // SAFETY: the parts are those of the panels of this tree, A has a value for each of its entries, and extremes are zero.
            unsafe {
                kernels::extremes_of_lu::launch::<T, _>(
                    stream,
                    &config,
                    &self.panels,
                    factors,
                    self.num_entries,
                    &plan.source,
                    &plan.places,
                    values,
                    extremes,
                    found,
                )
            }
        })
    }

    /// Waits for the factorization that was enqueued last; what is told is told of all fronts.
    pub fn report(&self) -> Result<Report, DeviceError> {
        match (&self.begun, &self.some) {
            (Some((_, false)), Some((_, some))) => {
                let mut report = some.counted.report()?;
                let extremes = self.extremes.read()?;
                for which in [report::MAX_B, report::MAX_U, report::MAX_L] {
                    report.set(which, extremes[which]);
                }
                Ok(report)
            }
            _ => self.whole.counted.report(),
        }
    }

    /// The factorization that was enqueued last serves. If pivots were `replaced`, those of fronts that stay are not counted in the
    /// next one, which is of all for that.
    pub fn accept(&mut self, replaced: bool) {
        self.current = self.begun.filter(|_| !replaced).map(|(rule, _)| rule);
    }

    /// The part of the work that the factorization that was enqueued last did.
    fn part(&self) -> f64 {
        match (&self.begun, &self.some) {
            (Some((_, false)), Some((_, some))) if self.whole.flops > 0.0 => {
                some.flops / self.whole.flops
            }
            _ => 1.0,
        }
    }
}

impl<T: DeviceScalar> DeviceFrontalLu<T> {
    /// As [`begin_refactorize`](Self::begin_refactorize), where only some values of A are others than those of the factors that are
    /// there: the values that were factorized last, with a report that was not an error. Factors, report and errors are the
    /// same, to the last bit; but only fronts are factorized that follow from these values, with those beside them up to the cut.
    ///
    /// The first such call plans the tree once more, and takes memory for the elements that are kept from then on: all fronts are
    /// factorized. So they are after an error, where pivots are replaced, where that is decided by another magnitude, and, as in
    /// `begin_refactorize`, where there is no memory, or the factors are made on several devices or in links. The first call for a set
    /// of places plans its fronts.
    ///
    /// # Errors
    ///
    /// [`DeviceFrontalError::Device`], [`DeviceFrontalError::Cancelled`].
    ///
    /// # Panics
    ///
    /// As [`factorize`](Self::factorize), and if the lengths of the placement do not go with the tree.
    #[track_caller]
    pub fn begin_refactorize_changed(
        &mut self,
        stream: &Stream,
        a: &Buffer<WideOf<T>>,
        pivots: &PivotPolicy,
        changed: &Changed<'_>,
    ) -> Result<(), DeviceFrontalError> {
        let tree = Arc::clone(&self.tree);
        changed
            .placement
            .check(tree.symbolic.n(), tree.symbolic.nnz());
        if let Keeping::Not = self.keeping {
            let is_one = tree.parts.is_empty() && tree.chain.is_none() && !tree.is_empty();
            let kept = match is_one.then(|| Kept::new(stream, &tree, changed)) {
                None | Some(Err(DeviceFrontalError::Device(DeviceError::OutOfMemory { .. }))) => {
                    None
                }
                Some(kept) => kept?,
            };
            self.keeping = kept.map_or(Keeping::Never, |kept| Keeping::Some(Box::new(kept)));
        }
        tree.check_values(a.len());
        self.refresh_solves(stream, a, false)?;
        self.launch_fronts(stream, a, pivots, false, Some(changed))
    }

    /// Whether the tree has been planned for [changes](Self::begin_refactorize_changed), or cannot be.
    pub fn is_planned_for_changes(&self) -> bool {
        !matches!(self.keeping, Keeping::Not)
    }

    /// The part of the operations that the last factorization did, of those of one of all fronts.
    pub fn refactorized_part(&self) -> f64 {
        match &self.keeping {
            Keeping::Some(kept) => kept.part(),
            Keeping::Not | Keeping::Never => 1.0,
        }
    }
}

/// Enqueues putting values of A that changed to their places. Both are copied when it returns.
///
/// # Errors
///
/// [`DeviceError`].
///
/// # Panics
///
/// If there is not one value for each place, places do not ascend, or one is beyond the values.
#[track_caller]
pub fn put_changed_values<T: DeviceScalar>(
    stream: &Stream,
    (places, changed): (&[u32], &[WideOf<T>]),
    values: &mut Buffer<WideOf<T>>,
) -> Result<(), DeviceError> {
    assert_eq!(places.len(), changed.len(), "a value for each place");
    assert!(places.is_sorted_by(|a, b| a < b), "places that ascend");
    let Some(&last) = places.last() else {
        return Ok(());
    };
    assert!((last as usize) < values.len(), "places of values");
    let mut uploads = Uploads::new(stream);
    let places = uploads.add(places)?;
    let changed = uploads.add(changed)?;
    uploads.finish()?;
    let config = LaunchConfig::for_elements(places.len(), THREADS);
    // SAFETY: the places are below the number of values, and each is there once.
    unsafe {
        kernels::put_changed_values::launch::<WideOf<T>, _>(
            stream, &config, &places, &changed, values,
        )
    }
}

/// The front that has each of so many values of A, or [`NONE`]; `entries` are the values of the tree's entries.
fn front_of_values(symbolic: &Symbolic, entries: &[u32], values: usize) -> Vec<u32> {
    let layout = &symbolic.layout;
    let mut front_of = vec![NONE; values];
    for (s, ends) in (0..).zip(layout.entry_ptr.windows(2)) {
        for &e in &layout.source[ends[0] as usize..ends[1] as usize] {
            front_of[entries[e as usize] as usize] = s;
        }
    }
    front_of
}

/// The panels of all fronts in parts for a warp each.
fn panel_parts(symbolic: &Symbolic) -> Vec<PanelPart> {
    let mut parts = Vec::new();
    for (front, &slot) in symbolic.tree.fronts.iter().zip(&symbolic.layout.slot) {
        let (rows, pivots) = (front.size(), front.pivots);
        let (of_columns, of_rest) = (rows * pivots, front.below * pivots);
        if pivots == 0 {
            continue;
        }
        if u64::from(of_columns) + u64::from(of_rest) <= u64::from(PART) {
            parts.push(PanelPart {
                slot,
                rows,
                column: 0,
                of_columns,
                of_rest,
            });
            continue;
        }
        let columns = (PART / rows).max(1);
        for column in (0..pivots).step_by(columns as usize) {
            parts.push(PanelPart {
                slot: slot + u64::from(column * rows),
                rows,
                column,
                of_columns: columns.min(pivots - column) * rows,
                of_rest: 0,
            });
        }
        for first in (0..of_rest).step_by(PART as usize) {
            parts.push(PanelPart {
                slot: slot + u64::from(of_columns) + u64::from(first),
                rows,
                column: 0,
                of_columns: 0,
                of_rest: PART.min(of_rest - first),
            });
        }
    }
    parts
}
