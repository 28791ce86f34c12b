//! The traversal of the tree: one thread in postorder, or subtrees as tasks and counters above.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use luge_sparse::Reservation;
use luge_sparse::etree::NONE;

use super::across;
use super::element::Element;
use super::front::Worker;
use super::partial::Partial;
use super::progress::Progress;
use super::store::FrontStore;
use super::work::{Context, FrontWork, Report};
use crate::deal::{Ranks, Share};
use crate::error::FrontalError;
use crate::options::Options;
use crate::schedule::{Schedule, Subtree};
use crate::symbolic::Symbolic;
use crate::totals::stack_entries;

/// Elements that are made between two looks at the cancel flag: new memory may take some milliseconds.
const NEW_ELEMENTS: usize = 1 << 14;

/// A factorization to be run.
pub(crate) struct Run<'a, W: FrontWork> {
    pub symbolic: &'a Symbolic<W::Storage>,
    /// Those that do it together; `None`: this process does all.
    pub ranks: Option<&'a Ranks>,
    /// Values of the matrix.
    pub input: &'a [W::Scalar],
    pub options: &'a Options,
    /// Whether pivots are searched; otherwise those of the store are kept.
    pub search: bool,
    /// What is kept of it, and which fronts it is of.
    pub partial: Option<Partial<'a, W>>,
    /// Bytes that it is predicted to take, if there is a limit, else 0.
    pub predicted: u64,
    pub shared: W::Shared<'a>,
}

/// Factorizes into `store`, whose memory is reserved in `memory`. What is worked in is reserved while it is used.
pub(crate) fn factorize<W: FrontWork>(
    run: Run<'_, W>,
    store: &mut FrontStore<W::Scalar>,
    memory: &mut Reservation,
) -> Result<W::Report, FrontalError> {
    let Run {
        symbolic,
        ranks,
        input,
        options,
        search,
        mut partial,
        predicted,
        shared,
    } = run;
    let num_fronts = symbolic.tree.num_supernodes();
    let prepared = match &partial {
        Some(_) => Ok((Vec::new(), Reservation::default())),
        None => Ranks::agreed(ranks, prepare::<W>(num_fronts, options)),
    };
    let (mut elements, _of_fronts) = prepared?;
    store.delayed.resize_with(num_fronts, || None);
    let context = Context::<W> {
        symbolic,
        slot: ranks.map_or(&symbolic.layout.slot[..], |ranks| &ranks.share.slot),
        share: ranks.map(|ranks| &*ranks.share),
        input,
        options,
        search,
        shared,
        values: store.values.as_mut_ptr(),
        records: store.records.as_mut_ptr(),
        rows: store.rows.as_mut_ptr(),
        cols: store.cols.as_mut_ptr(),
        delayed: store.delayed.as_mut_ptr(),
        elements: match &mut partial {
            Some(partial) => partial.elements.as_mut_ptr(),
            None => elements.as_mut_ptr(),
        },
        is_kept: partial.as_ref().map(|partial| partial.is_kept),
        reports: match &mut partial {
            Some(partial) => partial.reports.as_mut_ptr(),
            None => std::ptr::null_mut(),
        },
        progress: Progress::new(symbolic.totals.flops),
        excess: AtomicU64::new(0),
        predicted,
        of_factors: Mutex::new(std::mem::take(memory)),
    };
    let result = match ranks {
        Some(ranks) => across::factorize(&context, ranks),
        None => {
            let is_in = partial.as_ref().and_then(|partial| partial.is_in);
            let extent = is_in.map_or(Extent::Whole, Extent::Changed);
            match traverse(&context, &extent) {
                (report, None) => Ok(report),
                (_, Some((_, error))) => Err(error),
            }
        }
    };
    let of_factors = context.of_factors.into_inner();
    *memory = of_factors.unwrap_or_else(PoisonError::into_inner);
    drop(elements);
    if store.delayed.iter().all(Option::is_none) {
        store.delayed = Vec::new();
    }
    let report = match (result, &mut partial) {
        (Ok(_), Some(partial)) => partial.report(),
        (Err(error), Some(partial)) => {
            partial.clear();
            return Err(error);
        }
        (result, None) => result?,
    };
    let (delayed, growth) = report.delays_and_growth();
    tracing::debug!(
        fronts = num_fronts,
        delayed,
        growth,
        search,
        "fronts factorized"
    );
    Ok(report)
}

/// Elements of all fronts, and what is reserved for what each front takes: element, delayed panels, and what a schedule is
/// made of.
type Prepared<F> = (Vec<Element<F>>, Reservation);

/// Elements that are empty.
fn prepare<W: FrontWork>(
    num_fronts: usize,
    options: &Options,
) -> Result<Prepared<W::Scalar>, FrontalError> {
    let of_threads = if options.threads > 1 { 64 } else { 0 };
    let per_front = size_of::<Element<W::Scalar>>() + 8 + of_threads;
    let of_fronts = options.memory.reserve((num_fronts * per_front) as u64)?;
    let mut elements: Vec<Element<W::Scalar>> = Vec::with_capacity(num_fronts);
    while elements.len() < num_fronts {
        options.cancel.check()?;
        let end = num_fronts.min(elements.len() + NEW_ELEMENTS);
        elements.resize_with(end, Element::none);
    }
    Ok((elements, of_fronts))
}

/// Which fronts are traversed: with each, all below it that other traversals have not done before.
pub(super) enum Extent<'a> {
    Whole,
    /// Those that follow from entries that changed.
    Changed(&'a [bool]),
    /// The subtrees that were dealt out to this rank.
    Dealt(&'a Share),
    /// What is above all subtrees, but for fronts from this one on.
    Above(&'a Share, usize),
}

impl Extent<'_> {
    fn contains(&self, s: usize) -> bool {
        match self {
            Self::Whole => true,
            Self::Changed(is_in) => is_in[s],
            Self::Dealt(share) => share.is_dealt_here(s),
            Self::Above(share, limit) => share.is_above(s) && s < *limit,
        }
    }
}

/// What was found so far: the report, and the error of the first front in postorder that has one.
pub(super) type Outcome<R> = (R, Option<(usize, FrontalError)>);

/// Factorizes the fronts of an extent.
pub(super) fn traverse<W: FrontWork>(
    context: &Context<'_, W>,
    extent: &Extent<'_>,
) -> Outcome<W::Report> {
    if context.options.threads <= 1 {
        serial(context, extent)
    } else {
        parallel(context, extent)
    }
}

fn serial<W: FrontWork>(context: &Context<'_, W>, extent: &Extent<'_>) -> Outcome<W::Report> {
    let (tree, totals) = (&context.symbolic.tree, &context.symbolic.totals);
    let mut fronts = (0..tree.num_supernodes()).filter(|&s| extent.contains(s));
    let stacks = match extent {
        Extent::Whole if context.is_kept.is_none() => totals.stack_entries,
        _ => {
            // Those that are handed on have memory of their own.
            let stacked =
                |s: usize| extent.contains(s) && !context.hands_on(s) && !context.keeps(s);
            stack_entries::<W::Storage>(&tree.fronts, &tree.children, fronts.clone(), stacked)
        }
    };
    let mut worker = match Worker::new(context, false, stacks) {
        Ok(worker) => worker,
        Err(error) => {
            let failed = fronts.next().map(|first| (first, error));
            return (W::Report::default(), failed);
        }
    };
    for s in fronts {
        // SAFETY: postorder, one thread.
        if let Err(error) = unsafe { worker.front(s, false) } {
            return (worker.report, Some((s, error)));
        }
    }
    (worker.into_report(), None)
}

/// The tasks of a schedule, then the fronts above them: each starts when its last child is done,
/// and shares its large products.
fn parallel<W: FrontWork>(context: &Context<'_, W>, extent: &Extent<'_>) -> Outcome<W::Report> {
    let (tree, totals) = (&context.symbolic.tree, &context.symbolic.totals);
    let contains = |s| extent.contains(s);
    let threads = context.options.threads;
    let schedule = Schedule::new::<W::Storage>(tree, totals, threads, contains);
    // Children that are done before do not count.
    let children = |s: usize| tree.children(s).iter();
    let waiting = |s| children(s).filter(|&&c| contains(c as usize)).count();
    let waiting = (0..tree.fronts.len()).map(|s| AtomicU32::new(waiting(s) as u32));
    let shared = Traversal {
        context,
        extent,
        waiting: waiting.collect(),
        failed: AtomicUsize::new(usize::MAX),
        outcome: Mutex::new(Default::default()),
    };
    rayon::scope(|scope| {
        let (shared, schedule) = (&shared, &schedule);
        for task in &schedule.tasks {
            scope.spawn(move |_| {
                let subtrees = schedule.subtrees(task);
                let done = shared.subtrees(subtrees, task.stack_entries);
                shared.climb(&subtrees[..done]);
            });
        }
        for &s in &schedule.large_leaves {
            scope.spawn(move |_| {
                if shared.leaf(s) {
                    shared.climb(&[Subtree { first: s, top: s }]);
                }
            });
        }
    });
    let outcome = shared.outcome.into_inner();
    outcome.expect("no one panics with the lock")
}

/// What the threads of a traversal share.
struct Traversal<'c, 'a, W: FrontWork> {
    context: &'c Context<'a, W>,
    extent: &'c Extent<'c>,
    /// For each front the children that are not done.
    waiting: Vec<AtomicU32>,
    /// The first front in postorder that failed so far. Those before it go on, so that the error is
    /// that of the first of all, whatever the order in which they turn up.
    failed: AtomicUsize,
    outcome: Mutex<Outcome<W::Report>>,
}

impl<W: FrontWork> Traversal<'_, '_, W> {
    fn finish(&self, report: &W::Report, error: Option<(usize, FrontalError)>) {
        let mut outcome = self.outcome.lock().expect("no one panics with the lock");
        outcome.0.merge_fronts(report);
        if let Some((s, error)) = error {
            self.failed.fetch_min(s, Ordering::Relaxed);
            if outcome.1.as_ref().is_none_or(|(other, _)| s < *other) {
                outcome.1 = Some((s, error));
            }
        }
    }

    fn comes_behind_a_failure(&self, s: usize) -> bool {
        s > self.failed.load(Ordering::Relaxed)
    }

    /// Works on the fronts of subtrees, one after another: how many of these are done.
    fn subtrees(&self, subtrees: &[Subtree], stack_entries: [u64; 2]) -> usize {
        let mut worker = match Worker::new(self.context, false, stack_entries) {
            Ok(worker) => worker,
            Err(error) => {
                let failed = subtrees.first().map(|subtree| (subtree.first, error));
                self.finish(&W::Report::default(), failed);
                return 0;
            }
        };
        for (done, subtree) in subtrees.iter().enumerate() {
            if self.comes_behind_a_failure(subtree.first) {
                self.finish(&worker.into_report(), None);
                return done;
            }
            for s in subtree.first..=subtree.top {
                // SAFETY: these are the subtrees of one task, in postorder.
                if let Err(error) = unsafe { worker.front(s, s == subtree.top) } {
                    self.finish(&worker.into_report(), Some((s, error)));
                    return done;
                }
            }
        }
        self.finish(&worker.into_report(), None);
        subtrees.len()
    }

    /// Works on a front without children: whether it is done.
    fn leaf(&self, s: usize) -> bool {
        let mut worker = match Worker::new(self.context, true, [0, 0]) {
            Ok(worker) => worker,
            Err(error) => {
                self.finish(&W::Report::default(), Some((s, error)));
                return false;
            }
        };
        // SAFETY: a leaf has no children to wait for, and one owner.
        let result = unsafe { worker.front(s, true) };
        let error = result.err().map(|e| (s, e));
        let is_done = error.is_none();
        self.finish(&worker.into_report(), error);
        is_done
    }

    /// Works up the tree from the tops of subtrees that are done, ascending, as long as each was the last child every time. After an
    /// error all that is left would come behind it.
    fn climb(&self, from: &[Subtree]) {
        let fronts = &self.context.symbolic.tree.fronts;
        let mut worker = None;
        let mut error = None;
        'all: for top in from.iter().map(|subtree| subtree.top) {
            let mut p = fronts[top].parent;
            // AcqRel: the last child to arrive has seen what the others wrote.
            while p != NONE
                && self.extent.contains(p as usize)
                && self.waiting[p as usize].fetch_sub(1, Ordering::AcqRel) == 1
            {
                if self.comes_behind_a_failure(p as usize) {
                    break;
                }
                let worker = match &mut worker {
                    Some(worker) => worker,
                    none => match Worker::new(self.context, true, [0, 0]) {
                        Ok(new) => none.insert(new),
                        Err(e) => {
                            error = Some((p as usize, e));
                            break 'all;
                        }
                    },
                };
                // SAFETY: all children are done, and only the last of them comes here.
                if let Err(e) = unsafe { worker.front(p as usize, true) } {
                    error = Some((p as usize, e));
                    break 'all;
                }
                p = fronts[p as usize].parent;
            }
        }
        if worker.is_some() || error.is_some() {
            let report = worker.map_or_else(W::Report::default, Worker::into_report);
            self.finish(&report, error);
        }
    }
}
