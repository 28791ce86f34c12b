//! The two sweeps of a solve through the tree.
//!
//! Values travel in a vector by label. Forward a front takes those of its fully summed rows, and what its children's *elements*
//! add to its rows: the element of a front is one value for each row below its pivots. It leaves the values of its fully
//! summed rows, and an element of its own. Backward it takes the values of all its rows and leaves those of its pivots. So a
//! value has one writer at a time, the front whose row it is, and every sum is added up from the last child to the first, whoever
//! works on them: the bits depend neither on threads nor on ranks.
//!
//! With threads, whole subtrees are tasks ([`SolveSchedule`]); forward the last child to be done goes on with its parent,
//! backward a front that is done has its children worked on. Fronts above the subtrees may share their own work, too.
//!
//! With ranks, each has a vector of full length:
//!
//! ```text
//!   each rank        forward through its subtrees
//!   ranks 1, 2, …    the values of columns that were delayed, and the elements of the roots of their subtrees, to rank 0
//!   rank 0           forward and backward through what is above; the values of the pivots there, to all
//!   each rank        backward through its subtrees
//!   all              the values of the pivots of all
//! ```
//!
//! After the backward sweep all ranks have the whole vector.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use luge_comm::{Collectives, Comm, Operation};
use luge_sparse::etree::NONE;
use luge_sparse::{Cancelled, Scalar, bytes_of};

use crate::deal::{Ranks, as_bytes, from_bytes, told};
use crate::factorize::{FrontState, FrontStore, Spread};
use crate::solve_schedule::{Job, SolveSchedule};
use crate::storage::Storage;
use crate::symbolic::Symbolic;
use crate::tree::AssemblyTree;
use crate::triangular::BLOCK;

/// A path through the fronts of a tree, and back.
#[derive(Clone, Copy)]
pub(crate) struct Sweep<'a> {
    pub tree: &'a AssemblyTree,
    pub records: &'a [FrontState],
    /// `None`: all fronts are here.
    pub ranks: Option<&'a Ranks>,
    /// The subtrees that threads of the current rayon pool share; `None`: this thread does all.
    pub schedule: Option<&'a SolveSchedule>,
    /// Most rows of elements on the stack of one who works, and of a front.
    pub stack_rows: usize,
    pub front_rows: usize,
    /// Values by label.
    pub width: usize,
}

impl<'a> Sweep<'a> {
    /// Through the fronts of factors, with so many values by label, by so many threads.
    pub fn new<S: Storage, F: Scalar>(
        symbolic: &'a Symbolic<S>,
        store: &'a FrontStore<F>,
        spread: Option<&'a Spread<F>>,
        [width, threads]: [usize; 2],
    ) -> Self {
        let solves = symbolic.solves();
        let schedule = Some(solves).filter(|_| threads > 1);
        Self {
            tree: &symbolic.tree,
            records: &store.records,
            ranks: spread.map(|Spread { ranks, .. }| ranks),
            schedule: schedule.filter(|schedule| schedule.is_worth_sharing()),
            stack_rows: solves.element_rows(threads).of_worker as usize,
            front_rows: store.largest(&symbolic.tree),
            width,
        }
    }
}

/// Bytes that solves with so many right-hand sides work in: `vectors` by label for each that is under way, elements, and for
/// each thread the values of the largest front, which has so many rows.
pub(crate) fn scratch_bytes<F: Scalar>(
    schedule: &SolveSchedule,
    [nrhs, threads]: [usize; 2],
    [vectors, largest]: [usize; 2],
) -> u64 {
    let under_way = nrhs.div_ceil(BLOCK).min(threads.max(1)) as u64;
    let elements = schedule.element_rows(threads);
    let of_threads = threads.max(1) as u64 * (elements.of_worker + largest as u64);
    let rows = under_way * (vectors as u64 + elements.handed) + of_threads;
    rows * bytes_of::<F>(nrhs.min(BLOCK))
}

/// Values by label, of which each front uses those of its own rows.
struct Shared<'a, F> {
    values: *mut F,
    len: usize,
    vector: PhantomData<&'a mut [F]>,
}

// SAFETY: whoever reads or writes a value says why nobody else does.
unsafe impl<F: Send> Sync for Shared<'_, F> {}

impl<'a, F> Shared<'a, F> {
    fn new(values: &'a mut [F]) -> Self {
        Self {
            values: values.as_mut_ptr(),
            len: values.len(),
            vector: PhantomData,
        }
    }

    /// The values with a label.
    ///
    /// # Safety
    ///
    /// Nobody writes them while the slice lives.
    #[inline(always)]
    unsafe fn get(&self, label: usize, width: usize) -> &[F] {
        let start = label * width;
        debug_assert!(start + width <= self.len);
        // SAFETY: labels are below the length; the caller's contract.
        unsafe { std::slice::from_raw_parts(self.values.add(start), width) }
    }

    /// The values with a label, to be written.
    ///
    /// # Safety
    ///
    /// Nobody else uses them while the slice lives.
    #[allow(clippy::mut_from_ref)]
    #[inline(always)]
    unsafe fn of(&self, label: usize, width: usize) -> &mut [F] {
        let start = label * width;
        debug_assert!(start + width <= self.len);
        // SAFETY: labels are below the length; the caller's contract.
        unsafe { std::slice::from_raw_parts_mut(self.values.add(start), width) }
    }
}

/// Elements that do not lie on the stack of a worker.
struct Handed<'a, F> {
    /// Fronts that hand on such an element, ascending.
    fronts: &'a [u32],
    elements: Vec<UnsafeCell<Vec<F>>>,
}

// SAFETY: an element is written by who works on the front, and taken by who works on its parent afterwards.
unsafe impl<F: Send> Sync for Handed<'_, F> {}

impl<'a, F> Handed<'a, F> {
    fn new(fronts: &'a [u32]) -> Self {
        let elements = fronts.iter().map(|_| UnsafeCell::new(Vec::new()));
        Self {
            fronts,
            elements: elements.collect(),
        }
    }

    fn place(&self, s: u32) -> Option<&UnsafeCell<Vec<F>>> {
        let at = self.fronts.binary_search(&s).ok()?;
        Some(&self.elements[at])
    }
}

/// Where the elements of a front's children lie, and where its own goes.
#[derive(Clone, Copy)]
struct Way {
    children: Lie,
    hands_on: bool,
    /// Whether the work on the front may be shared among threads.
    is_shared: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Lie {
    /// On the stack, in their order, last of all.
    Stacked,
    /// In memory of their own.
    Handed,
    /// Some here, some there.
    Either,
}

impl Way {
    const SERIAL: Self = Self {
        children: Lie::Stacked,
        hands_on: false,
        is_shared: false,
    };
    const ABOVE_TASKS: Self = Self {
        children: Lie::Handed,
        hands_on: true,
        is_shared: true,
    };
}

/// One thread's memory.
struct Worker<F> {
    /// Values of a front.
    local: Vec<F>,
    /// Elements of the last fronts in postorder whose parents are to come.
    stack: Vec<F>,
}

impl<F: Scalar> Worker<F> {
    /// For fronts above tasks, whose elements do not lie on a stack.
    fn new() -> Self {
        Self {
            local: Vec::new(),
            stack: Vec::new(),
        }
    }

    /// For whole subtrees.
    fn with_stack(sweep: &Sweep<'_>) -> Self {
        Self {
            local: vec![F::zero(); sweep.front_rows * sweep.width],
            stack: Vec::with_capacity(sweep.stack_rows * sweep.width),
        }
    }

    fn reserve(&mut self, len: usize) {
        if self.local.len() < len {
            // What was there is not needed any more.
            self.local = vec![F::zero(); len];
        }
    }
}

/// The labels of a front's fully summed rows.
type Labels<'s, 'l> = &'s (dyn Fn(usize) -> &'l [u32] + Sync);

/// The work on a front and its values; whether threads may share it. Not generic: the sweeps are compiled once for each scalar.
type Visit<'s, F> = &'s (dyn Fn(usize, &mut [F], bool) -> Result<(), Cancelled> + Sync);

/// The forward sweep.
struct Forward<'s, 'a, 'l, F> {
    sweep: &'s Sweep<'a>,
    values: Shared<'s, F>,
    handed: Handed<'s, F>,
    labels: Labels<'s, 'l>,
    visit: Visit<'s, F>,
}

impl<F: Scalar> Forward<'_, '_, '_, F> {
    /// Works on front `s`.
    ///
    /// # Safety
    ///
    /// The children are done, nobody else works on `s`, and the stack is that of a postorder that `s` continues.
    #[inline]
    unsafe fn front(&self, worker: &mut Worker<F>, s: usize, way: Way) -> Result<(), Cancelled> {
        // SAFETY: the caller's contract.
        unsafe {
            match self.sweep.width {
                1 => self.front_of::<true>(worker, s, way),
                _ => self.front_of::<false>(worker, s, way),
            }
        }
    }

    /// [`front`](Self::front), with one value for each row, or any number of them.
    unsafe fn front_of<const ONE: bool>(
        &self,
        worker: &mut Worker<F>,
        s: usize,
        way: Way,
    ) -> Result<(), Cancelled> {
        let Sweep { tree, width, .. } = *self.sweep;
        let width = if ONE { 1 } else { width };
        let front = &tree.fronts[s];
        let (own, below) = (front.pivots as usize, front.below as usize);
        let k = self.sweep.records[s].k as usize;
        let m = k + below;
        worker.reserve(m * width);
        let Worker { local, stack } = worker;
        let local = &mut local[..m * width];
        let (summed, rest) = local.split_at_mut(k * width);
        rest.fill(F::zero());
        let children = tree.children(s);
        let handed = |child: u32| match way.children {
            Lie::Stacked => None,
            Lie::Handed | Lie::Either => self.handed.place(child),
        };
        // From the last child on, whose element is on top.
        let mut at = stack.len();
        for &child in children.iter().rev() {
            let of_child = &tree.fronts[child as usize];
            let rows = &tree.relative[of_child.row_range()];
            if rows.is_empty() {
                continue;
            }
            let taken;
            let element = match handed(child) {
                Some(place) => {
                    // SAFETY: the child is done, and this is its parent.
                    taken = std::mem::take(unsafe { &mut *place.get() });
                    &taken[..]
                }
                None => {
                    at -= rows.len() * width;
                    &stack[at..at + rows.len() * width]
                }
            };
            let (of_pivots, of_rest) = rows.split_at(of_child.pivots_in_parent as usize);
            let (to_pivots, to_rest) = element.split_at(of_pivots.len() * width);
            for (&row, from) in of_pivots.iter().zip(to_pivots.chunks_exact(width)) {
                // SAFETY: the row is one of this front's pivots, as planned.
                let to = unsafe { self.values.of(front.start as usize + row as usize, width) };
                to.iter_mut().zip(from).for_each(|(to, &v)| *to += v);
            }
            for (&row, from) in of_rest.iter().zip(to_rest.chunks_exact(width)) {
                let to = &mut rest[(row as usize - own) * width..][..width];
                to.iter_mut().zip(from).for_each(|(to, &v)| *to += v);
            }
        }
        stack.truncate(at);
        let labels = (self.labels)(s);
        for (&label, to) in labels.iter().zip(summed.chunks_exact_mut(width)) {
            // SAFETY: the rows are this front's: its own, or delayed by a child.
            to.copy_from_slice(unsafe { self.values.of(label as usize, width) });
        }
        (self.visit)(s, local, way.is_shared)?;
        let (summed, rest) = local.split_at(k * width);
        for (&label, from) in labels.iter().zip(summed.chunks_exact(width)) {
            // SAFETY: as above; those that are delayed are read by the parent, after this.
            unsafe { self.values.of(label as usize, width) }.copy_from_slice(from);
        }
        match self.handed.place(s as u32).filter(|_| way.hands_on) {
            // SAFETY: the parent takes it after this.
            Some(place) => unsafe { *place.get() = rest.to_vec() },
            None => stack.extend_from_slice(rest),
        }
        Ok(())
    }

    /// All fronts, one after another.
    fn serial(&self) -> Result<(), Cancelled> {
        let mut worker = Worker::with_stack(self.sweep);
        for s in 0..self.sweep.records.len() {
            // SAFETY: postorder, and nobody else is here.
            unsafe { self.front(&mut worker, s, Way::SERIAL)? };
        }
        Ok(())
    }

    /// The subtrees of a schedule, and what is above them.
    fn parallel(&self, schedule: &SolveSchedule) -> Result<(), Cancelled> {
        let tree = self.sweep.tree;
        let uppers = &schedule.uppers;
        let waiting = uppers.iter().map(|&s| tree.children(s as usize).len());
        let waiting: Vec<AtomicU32> = waiting.map(|n| AtomicU32::new(n as u32)).collect();
        let stopped = AtomicBool::new(false);
        let is_stopped = |outcome: Result<(), Cancelled>| {
            if outcome.is_err() {
                stopped.store(true, Ordering::Relaxed);
            }
            stopped.load(Ordering::Relaxed)
        };
        // Works up the tree from so many children of a front that are done, as long as they were the last each time.
        let climb = |worker: &mut Worker<F>, mut p: u32, mut done: u32| {
            while p != NONE {
                let waiting = &waiting[schedule.upper(p)];
                // AcqRel: the last child to arrive has seen what the others wrote.
                if waiting.fetch_sub(done, Ordering::AcqRel) != done {
                    return;
                }
                // SAFETY: all children are done, and only the last of them comes here.
                if is_stopped(unsafe { self.front(worker, p as usize, Way::ABOVE_TASKS) }) {
                    return;
                }
                (p, done) = (tree.fronts[p as usize].parent, 1);
            }
        };
        rayon::scope(|scope| {
            let (climb, is_stopped) = (&climb, &is_stopped);
            for task in &schedule.tasks {
                scope.spawn(move |_| {
                    let mut worker = Worker::with_stack(self.sweep);
                    for s in task.fronts() {
                        let way = Way {
                            hands_on: tree.fronts[s].parent as usize >= task.fronts().end,
                            ..Way::SERIAL
                        };
                        // SAFETY: whole subtrees, which are this task's, in postorder.
                        if is_stopped(unsafe { self.front(&mut worker, s, way) }) {
                            return;
                        }
                    }
                    climb(&mut worker, task.parent, task.num_subtrees);
                });
            }
            for &s in &schedule.uppers {
                if !tree.children(s as usize).is_empty() {
                    continue;
                }
                scope.spawn(move |_| {
                    let mut worker = Worker::new();
                    let way = Way::ABOVE_TASKS;
                    // SAFETY: a leaf has no children to wait for, and one owner.
                    if !is_stopped(unsafe { self.front(&mut worker, s as usize, way) }) {
                        climb(&mut worker, tree.fronts[s as usize].parent, 1);
                    }
                });
            }
        });
        if stopped.into_inner() {
            return Err(Cancelled);
        }
        Ok(())
    }
}

/// The backward sweep.
struct Backward<'s, 'a, 'l, F> {
    sweep: &'s Sweep<'a>,
    values: Shared<'s, F>,
    labels: Labels<'s, 'l>,
    visit: Visit<'s, F>,
}

impl<F: Scalar> Backward<'_, '_, '_, F> {
    /// Works on front `s`; `is_shared`: by several threads.
    ///
    /// # Safety
    ///
    /// All fronts above are done, and nobody else works on `s`.
    #[inline]
    unsafe fn front(
        &self,
        worker: &mut Worker<F>,
        s: usize,
        is_shared: bool,
    ) -> Result<(), Cancelled> {
        // SAFETY: the caller's contract.
        unsafe {
            match self.sweep.width {
                1 => self.front_of::<true>(worker, s, is_shared),
                _ => self.front_of::<false>(worker, s, is_shared),
            }
        }
    }

    /// [`front`](Self::front), with one value for each row, or any number of them.
    unsafe fn front_of<const ONE: bool>(
        &self,
        worker: &mut Worker<F>,
        s: usize,
        is_shared: bool,
    ) -> Result<(), Cancelled> {
        let Sweep { tree, width, .. } = *self.sweep;
        let width = if ONE { 1 } else { width };
        let front = &tree.fronts[s];
        let FrontState { k, pivots, .. } = self.sweep.records[s];
        let m = (k + front.below) as usize;
        worker.reserve(m * width);
        let local = &mut worker.local[..m * width];
        let labels = (self.labels)(s);
        let (summed, below) = local.split_at_mut(k as usize * width);
        for (rows, values) in [(labels, summed), (&tree.rows[front.row_range()], below)] {
            for (&label, to) in rows.iter().zip(values.chunks_exact_mut(width)) {
                // SAFETY: the rows are this front's pivots, or pivots of fronts above, which nobody writes any more.
                to.copy_from_slice(unsafe { self.values.get(label as usize, width) });
            }
        }
        (self.visit)(s, local, is_shared)?;
        let pivots = &labels[..pivots as usize];
        for (&label, from) in pivots.iter().zip(local.chunks_exact(width)) {
            // SAFETY: the row is one of this front's pivots; fronts below read it after this.
            unsafe { self.values.of(label as usize, width) }.copy_from_slice(from);
        }
        Ok(())
    }

    /// All fronts that are `chosen`, one after another.
    fn serial(&self, chosen: impl Fn(usize) -> bool) -> Result<(), Cancelled> {
        let mut worker = Worker::new();
        for s in (0..self.sweep.records.len()).rev().filter(|&s| chosen(s)) {
            // SAFETY: parents come before their children.
            unsafe { self.front(&mut worker, s, false)? };
        }
        Ok(())
    }

    /// What is above the subtrees of a schedule, and these.
    fn parallel(&self, schedule: &SolveSchedule) -> Result<(), Cancelled> {
        let outcome = OnceLock::new();
        rayon::scope(|scope| self.spawn(scope, schedule, &schedule.roots, &outcome));
        outcome.into_inner().map_or(Ok(()), Err)
    }

    /// Has these worked on, and then all that is below them.
    fn spawn<'scope>(
        &'scope self,
        scope: &rayon::Scope<'scope>,
        schedule: &'scope SolveSchedule,
        jobs: &'scope [Job],
        outcome: &'scope OnceLock<Cancelled>,
    ) {
        for job in jobs {
            scope.spawn(move |scope| {
                let done = match *job {
                    Job::Task(task) => self.task(schedule.tasks[task as usize].fronts(), outcome),
                    Job::Upper(upper) => {
                        let s = schedule.uppers[upper as usize] as usize;
                        // SAFETY: whoever spawned this has worked on the parent, and spawned it once.
                        unsafe { self.front(&mut Worker::new(), s, true) }
                    }
                };
                match (done, *job) {
                    (Err(cancelled), _) => drop(outcome.set(cancelled)),
                    (Ok(()), Job::Upper(upper)) if outcome.get().is_none() => {
                        self.spawn(scope, schedule, &schedule.below[upper as usize], outcome);
                    }
                    _ => {}
                }
            });
        }
    }

    /// Whole subtrees.
    fn task(
        &self,
        fronts: std::ops::Range<usize>,
        outcome: &OnceLock<Cancelled>,
    ) -> Result<(), Cancelled> {
        let mut worker = Worker::new();
        for s in fronts.rev() {
            if outcome.get().is_some() {
                break;
            }
            // SAFETY: the fronts above are done, the subtrees are this task's, and parents come before their children.
            unsafe { self.front(&mut worker, s, false)? };
        }
        Ok(())
    }
}

impl Sweep<'_> {
    /// Calls `visit` with each front from the leaves to the roots and its values: those of its fully summed rows, whose `labels`
    /// are in the same order, and one for each row below, which is what its children add to that row. It overwrites them: the
    /// former are stored, the latter are what the front adds to the rows below. The last argument says whether the work on this
    /// front may be shared among threads.
    pub fn forward<'l, F: Scalar>(
        &self,
        values: &mut [F],
        labels: impl Fn(usize) -> &'l [u32] + Sync,
        visit: impl Fn(usize, &mut [F], bool) -> Result<(), Cancelled> + Sync,
    ) -> Result<(), Cancelled> {
        let roots: Vec<u32> = self.ranks.map_or_else(Vec::new, |ranks| {
            let mut roots = ranks.share.roots().concat();
            roots.sort_unstable();
            roots
        });
        let forward = Forward {
            sweep: self,
            values: Shared::new(values),
            handed: Handed::new(match (self.ranks, self.schedule) {
                (Some(_), _) => &roots,
                (None, Some(schedule)) => &schedule.handed,
                (None, None) => &[],
            }),
            labels: &labels,
            visit: &visit,
        };
        match (self.ranks, self.schedule) {
            (Some(ranks), _) => forward.on_ranks(ranks),
            (None, Some(schedule)) => forward.parallel(schedule),
            (None, None) => forward.serial(),
        }
    }

    /// Calls `visit` with each front from the roots to the leaves and its values: those of its fully summed rows, whose `labels`
    /// are in the same order and begin with the pivots, and of the rows below. It overwrites those of the pivots, which are
    /// stored; all ranks have them afterwards. The last argument says whether the work on this front may be shared among threads.
    pub fn backward<'l, F: Scalar>(
        &self,
        values: &mut [F],
        labels: impl Fn(usize) -> &'l [u32] + Sync,
        visit: impl Fn(usize, &mut [F], bool) -> Result<(), Cancelled> + Sync,
    ) -> Result<(), Cancelled> {
        let backward = Backward {
            sweep: self,
            values: Shared::new(values),
            labels: &labels,
            visit: &visit,
        };
        match (self.ranks, self.schedule) {
            (Some(ranks), _) => backward.on_ranks(ranks),
            (None, Some(schedule)) => backward.parallel(schedule),
            (None, None) => backward.serial(|_| true),
        }
    }
}

impl<F: Scalar> Forward<'_, '_, '_, F> {
    fn on_ranks(&self, Ranks { team, share }: &Ranks) -> Result<(), Cancelled> {
        team.enter(Operation::Solve);
        let Sweep {
            tree,
            records,
            width,
            ..
        } = *self.sweep;
        let serial = |chosen: &dyn Fn(usize) -> bool| {
            let mut worker = Worker::new();
            for s in (0..records.len()).filter(|&s| chosen(s)) {
                let way = Way {
                    children: Lie::Either,
                    hands_on: share.hands_on(s),
                    is_shared: false,
                };
                // SAFETY: postorder, and one thread works here.
                unsafe { self.front(&mut worker, s, way)? };
            }
            Ok(())
        };
        serial(&|s| share.is_dealt_here(s))?;
        let delayed = |root: u32| {
            let record = &records[root as usize];
            &(self.labels)(root as usize)[record.pivots as usize..record.k as usize]
        };
        let element = |root: u32| {
            let place = self.handed.place(root).expect("the root of a subtree");
            // SAFETY: one thread works here.
            unsafe { &mut *place.get() }
        };
        if team.rank() > 0 {
            let mut values = Vec::new();
            for &root in &share.roots()[team.rank()] {
                for &label in delayed(root) {
                    // SAFETY: as above.
                    values.extend_from_slice(unsafe { self.values.of(label as usize, width) });
                }
                values.extend_from_slice(element(root));
            }
            return told(team.send(0, as_bytes(&values)));
        }
        for (rank, roots) in share.roots().iter().enumerate().skip(1) {
            let values: Vec<F> = from_bytes(&told(team.receive(rank))?);
            let mut rest = &values[..];
            for &root in roots {
                for &label in delayed(root) {
                    let (of_label, others) = rest.split_at(width);
                    rest = others;
                    // SAFETY: as above.
                    unsafe { self.values.of(label as usize, width) }.copy_from_slice(of_label);
                }
                let rows = tree.fronts[root as usize].below as usize;
                let (of_root, others) = rest.split_at(rows * width);
                rest = others;
                element(root).extend_from_slice(of_root);
            }
        }
        serial(&|s| share.is_above(s))
    }
}

impl<F: Scalar> Backward<'_, '_, '_, F> {
    fn on_ranks(&self, Ranks { team, share }: &Ranks) -> Result<(), Cancelled> {
        team.enter(Operation::Solve);
        let (records, width) = (self.sweep.records, self.sweep.width);
        // Labels of the pivots of the chosen fronts, front by front.
        let pivots = |chosen: &dyn Fn(usize) -> bool| {
            let fronts = (0..records.len()).filter(|&s| chosen(s));
            let labels = fronts.flat_map(|s| &(self.labels)(s)[..records[s].pivots as usize]);
            labels.map(|&label| label as usize).collect::<Vec<_>>()
        };
        let collect = |chosen: &dyn Fn(usize) -> bool| {
            let mut found = Vec::new();
            for label in pivots(chosen) {
                // SAFETY: one thread works here.
                found.extend_from_slice(unsafe { self.values.get(label, width) });
            }
            found
        };
        let spread = |chosen: &dyn Fn(usize) -> bool, bytes: &[u8]| {
            let found: Vec<F> = from_bytes(bytes);
            for (label, of_label) in pivots(chosen).into_iter().zip(found.chunks_exact(width)) {
                // SAFETY: as above.
                unsafe { self.values.of(label, width) }.copy_from_slice(of_label);
            }
        };
        let is_above = |s: usize| share.is_above(s);
        let mut bytes = Vec::new();
        if team.rank() == 0 {
            self.serial(is_above)?;
            bytes = as_bytes(&collect(&is_above)).to_vec();
        }
        told(team.broadcast(0, &mut bytes))?;
        spread(&is_above, &bytes);
        self.serial(|s| share.is_dealt_here(s))?;
        let own = collect(&|s| share.is_dealt_here(s));
        for (rank, bytes) in told(team.all_gather(as_bytes(&own)))?.iter().enumerate() {
            spread(&|s| !is_above(s) && share.owner(s) == rank, bytes);
        }
        Ok(())
    }
}

/// The values with these labels, of a vector by label.
pub(crate) fn gather<F: Copy>(from: &[F], labels: &[u32], width: usize, to: &mut [F]) {
    if width == 1 {
        for (to, &label) in to.iter_mut().zip(labels) {
            *to = from[label as usize];
        }
        return;
    }
    for (to, &label) in to.chunks_exact_mut(width).zip(labels) {
        let at = label as usize * width;
        to.copy_from_slice(&from[at..at + width]);
    }
}
