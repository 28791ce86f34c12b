//! New values on a known pattern, with the pivots of a finished factorization.
//!
//! The first call makes a plan (see `plan`); each call then goes through the columns in the order of
//! the plan. A column of L is subtracted in the same order as in `factorize`, so the same values give
//! the same bits.
//!
//! A column is computed in one of two ways:
//!
//! * **listed**: where the columns of L that it subtracts are short, the products are listed one by one
//!   in the plan, with their places in the column. One loop goes through all of them, where loops over
//!   the columns would be over before the processor has learnt how long they are.
//! * **scattered**: else the column is spread over a vector of all rows, and columns of L with the same
//!   rows below are subtracted together, up to four at a time.
//!
//! # Threads
//!
//! The plan cuts the elimination tree into independent subtrees, which threads claim one after the
//! other, and the columns above them. Those are claimed in increasing order; before it subtracts a
//! column from there, a thread waits until that is done. It was claimed earlier, so the smallest
//! unfinished column never waits, and all get done however few threads really run.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use luge_sparse::num_traits::Float;
use luge_sparse::{
    CancelFlag, Cancelled, CompressedPattern, MemoryBudget, PivotPolicy, Quality, RealScalar,
    ResolvedPivots, Scalar, bytes_of,
};
use rayon::prelude::*;

use super::changed::{Changed, Kept, Measured, Part};
use super::check::{ColumnCheck, Report, Sums};
use super::factorize::resolve;
use super::plan::{Layout, MOST_LISTED, Plan, Product, Step};
use super::{ColumnLu, Options};
use crate::cpu::entries::{Entries, STRETCH};
use crate::error::NumericError;

/// Bytes that the plan and its making take for each column, with the reciprocal of the pivot left out.
const fn lists_per_column<F: Scalar>() -> usize {
    2 * size_of::<Step>() + size_of::<Sums<F::Wide>>() + 80
}

/// Columns between two looks at the cancel flag, where they are short.
const STRIDE: usize = 64;

/// What of [`Options`] a refactorization asks for.
#[derive(Debug, Clone, Copy)]
pub(in crate::cpu) struct Renewal<'a> {
    pub pivots: PivotPolicy,
    pub threads: usize,
    pub memory: &'a MemoryBudget,
    pub cancel: &'a CancelFlag,
}

impl<F: Scalar> ColumnLu<F> {
    /// Factorizes new values on the pattern and the pivots of this factorization, in place.
    ///
    /// `cols` is the pattern that was factorized. The first call allocates what later calls use. Small
    /// pivots are replaced as in `factorize` if the policy says so; otherwise they stay as they
    /// come, and the report tells what that did: a value that is not finite makes its growth NaN.
    ///
    /// # Errors
    ///
    /// [`NumericError::ZeroPivot`] with the first column whose pivot is zero;
    /// [`NumericError::Cancelled`]. The values of the factors are then unspecified until the next
    /// successful call.
    ///
    /// # Panics
    ///
    /// If `cols` or `values` differ from what was factorized in order or number of entries.
    #[track_caller]
    pub fn refactorize(
        &mut self,
        cols: &CompressedPattern,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
    ) -> Result<Quality, NumericError> {
        assert_eq!(cols.nnz(), values.count(), "one value for each entry of B");
        let mut quality = Quality::default();
        let options = Renewal {
            pivots: options.pivots,
            threads: options.threads,
            memory: &options.memory,
            cancel: &options.cancel,
        };
        self.refactorize_first(cols, values, None, options, &mut quality)?;
        Ok(quality)
    }

    /// As [`refactorize`](Self::refactorize) for `values` of which only the entries `changed` may differ from those that were
    /// factorized last: what it leaves, and tells, is the same, bit for bit. Only columns on the paths from these entries
    /// are computed again, if what was measured of the others is known: from the second such call on, unless a call
    /// failed, and where small pivots are not replaced.
    ///
    /// # Errors
    ///
    /// As [`refactorize`](Self::refactorize).
    ///
    /// # Panics
    ///
    /// As [`refactorize`](Self::refactorize), and if the numbers of the entries do not ascend, or there is no such entry.
    #[track_caller]
    pub fn refactorize_changed(
        &mut self,
        cols: &CompressedPattern,
        values: &(impl Entries<F> + ?Sized),
        changed: &[u32],
        options: &Options,
    ) -> Result<Quality, NumericError> {
        assert_eq!(cols.nnz(), values.count(), "one value for each entry of B");
        assert!(changed.is_sorted_by(|a, b| a < b), "entries that ascend");
        assert!(
            changed
                .last()
                .is_none_or(|&last| (last as usize) < cols.nnz()),
            "entries of B"
        );
        let mut quality = Quality::default();
        let options = Renewal {
            pivots: options.pivots,
            threads: options.threads,
            memory: &options.memory,
            cancel: &options.cancel,
        };
        self.refactorize_first(cols, values, Some(changed), options, &mut quality)?;
        Ok(quality)
    }

    /// Multiplications of the last refactorization, and of one of all columns; none before the first.
    pub(in crate::cpu) fn refactorized_work(&self) -> [u64; 2] {
        self.plan.as_ref().map_or([0, 0], |plan| {
            let all = plan.layout.work;
            [plan.kept.as_ref().map_or(all, |kept| kept.work), all]
        })
    }

    /// Gives back what is kept for refactorizations of some columns, from now on; whether there was something.
    pub(in crate::cpu) fn keep_nothing(&mut self) -> bool {
        let Some(plan) = self.plan.as_mut() else {
            return false;
        };
        plan.keeps_nothing = true;
        let was_kept = plan.kept.take().is_some();
        if was_kept {
            let bytes = Kept::bytes_for(self.n(), self.entries, self.unz());
            self.of_plan.shrink_to(self.of_plan.bytes() - bytes);
        }
        was_kept
    }

    /// Has the next refactorization compute all columns, whatever it is told of changes.
    pub(in crate::cpu) fn forget_measured(&mut self) {
        if let Some(kept) = self.plan.as_mut().and_then(|plan| plan.kept.as_mut()) {
            kept.forget();
        }
    }

    /// As [`refactorize`](Self::refactorize), for the first of the values, or those entries among them that
    /// [changed](Self::refactorize_changed). What was measured is written to `quality`.
    // Within its caller the loop over the columns runs out of registers: up to a tenth slower.
    #[inline(never)]
    #[track_caller]
    pub(in crate::cpu) fn refactorize_first(
        &mut self,
        cols: &CompressedPattern,
        values: &(impl Entries<F> + ?Sized),
        changed: Option<&[u32]>,
        options: Renewal<'_>,
        quality: &mut Quality,
    ) -> Result<(), NumericError> {
        let n = self.n();
        assert_eq!(n, cols.major_dim(), "another matrix was factorized");
        assert_eq!(n, cols.minor_dim(), "another matrix was factorized");
        assert_eq!(cols.nnz(), self.entries, "another matrix was factorized");
        if self.plan.is_none() {
            // With what it is made of: lists by column and entry, the products, counted first, the entries of B, and
            // vectors of each thread.
            let products = Plan::num_products(self, cols, options.cancel)?;
            let vectors = bytes_of::<F>(options.threads.clamp(1, 256) * (n + n.min(MOST_LISTED)));
            let lists = lists_per_column::<F>() * n + 4 * cols.nnz() + self.unz() + 8 * products;
            let values = bytes_of::<F>(cols.nnz() + n);
            self.of_plan = options.memory.reserve(vectors + lists as u64 + values)?;
            self.plan = Some(Box::new(Plan::new(self, cols, products, options.cancel)?));
        }
        let resolved = resolve(options.pivots, values, cols.nnz());
        self.inverse_pivots();
        let (Some(plan), Some(inverse_pivots)) =
            (self.plan.as_deref_mut(), self.inverse_pivots.get_mut())
        else {
            unreachable!("just made");
        };
        let Plan {
            layout,
            scratch,
            b,
            sums,
            progress,
            kept,
            keeps_nothing,
        } = plan;
        if changed.is_some() && kept.is_none() && !*keeps_nothing {
            let bytes = Kept::bytes_for(n, cols.nnz(), self.upper.idx.len());
            // Without memory for it, and for work that is to come, everything is computed, as before.
            let has_room = bytes <= options.memory.available() / 2;
            if has_room && self.of_plan.grow(bytes).is_ok() {
                *kept = Some(Kept::new(layout, &self.upper, options.cancel)?);
            }
        }
        // Whether a pivot is small depends on all of B where small ones are replaced.
        let changed = changed.filter(|_| !options.pivots.replaces());
        let upper_idx = &self.upper.idx;
        let changes = match kept.as_mut() {
            Some(kept) => Some(kept.changes(layout, cols, upper_idx, changed, options.cancel)?),
            None => None,
        };
        let work = changes.as_ref().map_or(layout.work, |changes| changes.work);
        let threads = Plan::<F>::useful_threads(work, options.threads);
        match &changes {
            Some(Changed {
                entries: Some(entries),
                ..
            }) => {
                for &entry in *entries {
                    let entry = entry as usize;
                    values.load(entry, &mut b[entry..=entry]);
                }
            }
            _ => {
                b.resize(cols.nnz(), F::zero());
                if threads == 1 {
                    values.load(0, b);
                } else {
                    let stretches = b.par_chunks_mut(STRETCH).enumerate();
                    stretches.for_each(|(number, b)| values.load(number * STRETCH, b));
                }
            }
        }
        scratch.reserve_exact(threads.saturating_sub(scratch.len()));
        scratch.resize_with(threads, || layout.scratch());
        let shared = Shared {
            plan: layout,
            b,
            resolved,
            lower_idx: &self.lower.idx,
            upper_idx: &self.upper.idx,
            lower: self.lower.values.as_mut_ptr(),
            upper: self.upper.values.as_mut_ptr(),
            pivots: self.pivots.as_mut_ptr(),
            inverse_pivots: inverse_pivots.as_mut_ptr(),
            sums: sums.as_mut_ptr(),
            products: self.products.as_mut_ptr(),
            measured: match &changes {
                Some(changes) => changes.measured,
                None => std::ptr::null_mut(),
            },
            cancel: options.cancel,
        };
        let scratch = &mut scratch[..threads];
        let mut report = match &changes {
            None => shared.run(&Whole(layout), progress, scratch)?,
            Some(changes) => shared.run(&changes.part, progress, scratch)?,
        };
        if let Some(column) = report.zero_pivot.take() {
            return Err(NumericError::ZeroPivot { column });
        }
        let measured = kept.as_mut().map(|kept| kept.accept());
        *quality = report.finish(&self.products, &self.pivots, measured, threads);
        quality.num_off_diagonal = self.num_off_diagonal;
        self.is_invertible = quality.min_pivot >= F::Real::min_positive_value().to_f64();
        Ok(())
    }
}

/// Which steps of the plan are gone through, in which order: the tasks one by one, then those above.
pub(super) trait Walk: Sync {
    /// Whether what is measured of each column is kept.
    const KEEPS: bool;

    /// Steps of each task, and those above the tasks.
    fn tasks(&self) -> usize;
    fn task(&self, task: usize) -> Range<usize>;
    fn above(&self) -> Range<usize>;

    fn step(&self, at: usize) -> &Step;

    /// Whether column `j` is computed, and not in a task.
    fn is_above(&self, j: u32) -> bool;
}

/// All steps.
struct Whole<'a>(&'a Layout);

impl Walk for Whole<'_> {
    const KEEPS: bool = false;

    fn tasks(&self) -> usize {
        self.0.tasks()
    }

    fn task(&self, task: usize) -> Range<usize> {
        self.0.task(task)
    }

    fn above(&self) -> Range<usize> {
        self.0.above()
    }

    #[inline(always)]
    fn step(&self, at: usize) -> &Step {
        &self.0.steps[at]
    }

    #[inline(always)]
    fn is_above(&self, j: u32) -> bool {
        self.0.is_above[j as usize]
    }
}

impl Walk for Part<'_> {
    const KEEPS: bool = true;

    fn tasks(&self) -> usize {
        self.task_ptr.len() - 1
    }

    fn task(&self, task: usize) -> Range<usize> {
        self.task_ptr[task]..self.task_ptr[task + 1]
    }

    fn above(&self) -> Range<usize> {
        self.task_ptr[self.tasks()]..self.steps.len()
    }

    #[inline(always)]
    fn step(&self, at: usize) -> &Step {
        &self.layout.steps[self.steps[at] as usize]
    }

    #[inline(always)]
    fn is_above(&self, j: u32) -> bool {
        self.is_in(j) && self.layout.is_above[j as usize]
    }
}

/// What one thread computes in.
#[derive(Debug, Clone)]
pub(super) struct Scratch<F> {
    /// By row; zero between columns.
    pub(super) x: Vec<F>,
    /// A listed column: U, the pivot, L; zero between columns.
    pub(super) column: Vec<F>,
    report: Report,
}

impl<F: Scalar> Scratch<F> {
    pub(super) fn new(n: usize, longest: usize) -> Self {
        Self {
            x: vec![F::zero(); n],
            column: vec![F::zero(); longest],
            report: Report::new(),
        }
    }
}

/// How far the threads have got.
#[derive(Debug)]
pub(super) struct Progress {
    /// Tasks claimed, and tasks finished.
    claimed: AtomicUsize,
    finished: AtomicUsize,
    /// Steps above the tasks that were claimed.
    above: AtomicUsize,
    /// By column above the tasks: the round in which it was finished last.
    done: Vec<AtomicU32>,
    round: u32,
    stop: AtomicBool,
}

impl Clone for Progress {
    fn clone(&self) -> Self {
        Self::new(self.done.len())
    }
}

impl Progress {
    pub(super) fn new(n: usize) -> Self {
        Self {
            claimed: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            above: AtomicUsize::new(0),
            done: (0..n).map(|_| AtomicU32::new(0)).collect(),
            round: 0,
            stop: AtomicBool::new(false),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.done) as u64
    }

    fn reset(&mut self) {
        *self.claimed.get_mut() = 0;
        *self.finished.get_mut() = 0;
        *self.above.get_mut() = 0;
        *self.stop.get_mut() = false;
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.done.iter_mut().for_each(|done| *done.get_mut() = 0);
            self.round = 1;
        }
    }
}

/// Waits until `ready`; gives the processor away if that takes long. False if `stop` was raised.
fn wait(stop: &AtomicBool, ready: impl Fn() -> bool) -> bool {
    let mut spins = 0u32;
    while !ready() {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        spins += 1;
        if spins < 2000 {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
    true
}

/// What the threads of a refactorization work on.
struct Shared<'a, F: Scalar> {
    plan: &'a super::plan::Layout,
    b: &'a [F],
    resolved: ResolvedPivots<F::Real>,
    lower_idx: &'a [u32],
    upper_idx: &'a [u32],
    lower: *mut F,
    upper: *mut F,
    pivots: *mut F,
    inverse_pivots: *mut F,
    sums: *mut Sums<F::Wide>,
    products: *mut f64,
    /// By column, where it is kept.
    measured: *mut Measured,
    cancel: &'a CancelFlag,
}

// SAFETY: the pointers are to arrays of plain numbers that outlive the borrow 'a; `column` says who may
// touch what when.
unsafe impl<F: Scalar> Sync for Shared<'_, F> {}

impl<F: Scalar> Shared<'_, F> {
    /// Does all steps of a walk, with one thread for each scratch: this one and others of rayon's current pool.
    fn run<W: Walk>(
        &self,
        walk: &W,
        progress: &mut Progress,
        scratch: &mut [Scratch<F>],
    ) -> Result<Report, Cancelled> {
        let [scratch] = scratch else {
            progress.reset();
            self.run_threads(walk, progress, scratch);
            if *progress.stop.get_mut() {
                return Err(Cancelled);
            }
            let mut report = Report::new();
            for scratch in scratch {
                report.join(&scratch.report);
            }
            return Ok(report);
        };
        let mut report = Report::new();
        let end = walk.above().end;
        for first in (0..end).step_by(STRIDE) {
            self.cancel.check()?;
            for at in first..end.min(first + STRIDE) {
                let step = walk.step(at);
                if !step.listed {
                    self.cancel.check()?;
                }
                // SAFETY: one thread goes through the steps in their order, in which a column
                // comes after those that it subtracts; nobody else has the factors.
                unsafe { self.column::<W>(step, scratch, &mut report, &mut |_| ()) };
            }
        }
        Ok(report)
    }

    fn run_threads<W: Walk>(&self, walk: &W, progress: &Progress, scratch: &mut [Scratch<F>]) {
        let Some((own, others)) = scratch.split_first_mut() else {
            return;
        };
        rayon::in_place_scope(|scope| {
            for scratch in others {
                scope.spawn(|_| self.work(walk, progress, scratch));
            }
            self.work(walk, progress, own);
        });
    }

    /// Claims tasks until there are none, then columns above them.
    fn work<W: Walk>(&self, walk: &W, progress: &Progress, scratch: &mut Scratch<F>) {
        let mut report = Report::new();
        let tasks = walk.tasks();
        loop {
            let task = progress.claimed.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                break;
            }
            for (number, at) in walk.task(task).enumerate() {
                let step = walk.step(at);
                let looks = !step.listed || number.is_multiple_of(STRIDE);
                if looks && self.cancel.is_cancelled() {
                    progress.stop.store(true, Ordering::Relaxed);
                    return;
                }
                // SAFETY: this task is claimed by this thread alone; its steps are whole subtrees in
                // an order of need, so what a step reads was written within the task.
                unsafe { self.column::<W>(step, scratch, &mut report, &mut |_| ()) };
            }
            // Release: who sees the count sees the columns.
            progress.finished.fetch_add(1, Ordering::Release);
        }
        let all_finished = || progress.finished.load(Ordering::Acquire) == tasks;
        if !wait(&progress.stop, all_finished) {
            return;
        }
        let above = walk.above();
        let chunk = if self.plan.pipelined {
            1
        } else {
            above.len().max(1)
        };
        'claims: loop {
            let first = progress.above.fetch_add(chunk, Ordering::Relaxed);
            if first >= above.len() {
                break;
            }
            for at in above.start + first..above.end.min(above.start + first + chunk) {
                let step = walk.step(at);
                if self.cancel.is_cancelled() {
                    progress.stop.store(true, Ordering::Relaxed);
                    break 'claims;
                }
                let mut stopped = false;
                let mut needs = |j: u32| {
                    if chunk == 1 && walk.is_above(j) {
                        let done = &progress.done[j as usize];
                        let ready = || done.load(Ordering::Acquire) == progress.round;
                        stopped |= !wait(&progress.stop, ready);
                    }
                };
                // SAFETY: this column is claimed by this thread alone. What it reads is in a finished
                // task, or was waited for, or (if one thread takes all) comes earlier.
                unsafe { self.column::<W>(step, scratch, &mut report, &mut needs) };
                if stopped {
                    break 'claims;
                }
                progress.done[step.column as usize].store(progress.round, Ordering::Release);
            }
        }
        scratch.report = report;
    }

    /// Computes one column. `needs(j)` is called before column j of L is read.
    ///
    /// # Safety
    ///
    /// The columns that this one subtracts are finished, at the latest when `needs` returns, and seen
    /// by this thread; nobody else reads or writes this column meanwhile. `step` is one of the plan's,
    /// the plan is that of these factors, and `scratch` was made by it.
    #[inline(always)]
    unsafe fn column<W: Walk>(
        &self,
        step: &Step,
        scratch: &mut Scratch<F>,
        report: &mut Report,
        needs: &mut impl FnMut(u32),
    ) {
        // SAFETY: the ranges of a step are within the arrays that it was made for: `lower`, `upper`,
        // `lower_idx`, `upper_idx` and the plan's own, as `Plan::new` built them.
        unsafe {
            let k = step.column;
            let (nu, nl, nb) = (
                step.num_upper as usize,
                step.num_lower as usize,
                step.num_b as usize,
            );
            let b = self.b.as_ptr().add(step.b);
            let places = self.plan.places.as_ptr().add(step.b);
            let upper_idx = self.upper_idx.as_ptr().add(step.upper);
            let lower_idx = self.lower_idx.as_ptr().add(step.lower);
            let upper = self.upper.add(step.upper);
            let lower = self.lower.add(step.lower);
            let mut check = ColumnCheck::default();
            let mut sums = Sums::unit(k);
            let pivot;
            if step.listed {
                let x = scratch.column.as_mut_ptr();
                for p in 0..nu {
                    needs(*upper_idx.add(p));
                }
                for p in 0..nb {
                    let (place, value) = (*places.add(p), *b.add(p));
                    *x.add((place >> 1) as usize) = value;
                    check.entry_signed(place, value.widen());
                }
                let products = self.plan.products.as_ptr().add(step.products);
                for p in 0..step.num_products as usize {
                    let Product { lower, to, upper } = *products.add(p);
                    let product = *self.lower.add(lower as usize) * *x.add(upper as usize);
                    *x.add(to as usize) -= product;
                }
                for p in 0..nu {
                    let u = take(x, p as u32);
                    *upper.add(p) = u;
                    check.upper(*self.sums.add(*upper_idx.add(p) as usize), u.widen());
                }
                pivot = self.pivot(k, take(x, nu as u32), report);
                for p in 0..nl {
                    let l = take(x, (nu + 1 + p) as u32).quotient(pivot);
                    *lower.add(p) = l;
                    sums.entry(*lower_idx.add(p), l.widen());
                }
            } else {
                let x = scratch.x.as_mut_ptr();
                for p in 0..nb {
                    let (row, value) = (*places.add(p), *b.add(p));
                    *x.add(row as usize) = value;
                    check.entry(row, value.widen());
                }
                let mut p = 0;
                while p < nu {
                    let j = *upper_idx.add(p);
                    let width = usize::from(*self.plan.widths.get_unchecked(step.upper + p));
                    for w in 0..width {
                        needs(j + w as u32);
                    }
                    let mut u = [F::zero(); 4];
                    match width {
                        1 => self.subtract::<1>(j, x, &mut u),
                        2 => self.subtract::<2>(j, x, &mut u),
                        3 => self.subtract::<3>(j, x, &mut u),
                        _ => self.subtract::<4>(j, x, &mut u),
                    }
                    for (w, &u) in u[..width].iter().enumerate() {
                        *upper.add(p + w) = u;
                        check.upper(*self.sums.add(j as usize + w), u.widen());
                    }
                    p += width;
                }
                pivot = self.pivot(k, take(x, k), report);
                for p in 0..nl {
                    let row = *lower_idx.add(p);
                    let l = take(x, row).quotient(pivot);
                    *lower.add(p) = l;
                    sums.entry(row, l.widen());
                }
            }
            check.upper(sums, pivot.widen());
            if W::KEEPS {
                *self.measured.add(k as usize) = Measured::of(&check);
            } else {
                report.column(k as usize, &check);
            }
            *self.sums.add(k as usize) = sums;
            *self.products.add(k as usize) = check.product;
        }
    }

    /// Takes U(j.., k) out of `x` and subtracts the `W` columns from j on, which have the same rows
    /// below themselves.
    ///
    /// # Safety
    ///
    /// As [`column`](Self::column), for columns j to j + W.
    #[inline(always)]
    unsafe fn subtract<const W: usize>(&self, j: u32, x: *mut F, u: &mut [F; 4]) {
        let j = j as usize;
        let ptr = self.plan.lower_ptr.as_ptr();
        // SAFETY: columns j to j + W have the ranges that `lower_ptr` gives, and column j + w starts
        // with the rows of those after it; `x` has an element for each row.
        unsafe {
            let mut columns = [std::ptr::null_mut::<F>(); W];
            for (w, column) in columns.iter_mut().enumerate() {
                *column = self.lower.add(*ptr.add(j + w));
            }
            for w in 0..W {
                let value = take(x, (j + w) as u32);
                u[w] = value;
                for v in w + 1..W {
                    *x.add(j + v) -= *columns[w].add(v - w - 1) * value;
                }
            }
            let (start, end) = (*ptr.add(j + W - 1), *ptr.add(j + W));
            let rows = self.lower_idx.as_ptr().add(start);
            for (w, column) in columns.iter_mut().enumerate() {
                *column = column.add(W - 1 - w);
            }
            for p in 0..end - start {
                let at = x.add(*rows.add(p) as usize);
                let mut value = *at;
                for w in 0..W {
                    value -= *columns[w].add(p) * u[w];
                }
                *at = value;
            }
        }
    }

    /// Replaces a small pivot, and stores it.
    ///
    /// # Safety
    ///
    /// As [`column`](Self::column).
    #[inline(always)]
    unsafe fn pivot(&self, k: u32, mut pivot: F, report: &mut Report) -> F {
        if let Some(replacement) = self.resolved.replacement(pivot) {
            pivot = replacement;
            report.perturbed(k as usize);
        }
        if pivot == F::zero() {
            report.zero_pivot(k as usize);
        }
        // SAFETY: column k is below n.
        let slot = unsafe { &mut *self.pivots.add(k as usize) };
        report.renewed(pivot.magnitude().to_f64(), slot.magnitude().to_f64());
        *slot = pivot;
        // SAFETY: as above.
        unsafe { *self.inverse_pivots.add(k as usize) = pivot.reciprocal() };
        pivot
    }
}

/// Takes an element out and leaves zero.
///
/// # Safety
///
/// `x` has an element `i` that nobody else uses.
#[inline(always)]
unsafe fn take<F: Scalar>(x: *mut F, i: u32) -> F {
    // SAFETY: the caller's.
    unsafe { std::ptr::replace(x.add(i as usize), F::zero()) }
}
