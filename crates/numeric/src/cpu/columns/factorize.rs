//! Gilbert and Peierls with symmetric pruning (Eisenstat and Liu 1992), search and arithmetic in one
//! sweep.
//!
//! A column of B starts with its own rows. The smallest column of L that leads to one of them is
//! subtracted, its rows join the pattern, the next smallest is looked for, and so on: the columns come
//! in increasing order, which is an order of need, and each is fetched once for both the pattern and
//! the numbers. The time is proportional to the arithmetic.
//!
//! Among the rows that are not pivots yet, the diagonal is taken if its magnitude is at least
//! `threshold` times the largest, else the largest. When a column takes the diagonal row of another,
//! that one gets the displaced row as its diagonal: `label` maps each row to its column at all times,
//! and is the final row number in the end. The pattern of column k keeps its rows in the order of
//! their labels at step k; if no two rows were ever exchanged, that is the final order.

use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use luge_sparse::num_traits::{Float, Zero};
use luge_sparse::{
    CancelFlag, CompressedPattern, MemoryBudget, OutOfMemory, PivotPolicy, Quality, RealScalar,
    Reservation, ResolvedPivots, RowPerm, Scalar, bytes_of,
};
use rayon::prelude::*;
use tracing::{Dispatch, dispatcher};

use super::check::{ColumnCheck, Report, Sums};
use super::reach::Reach;
use super::subtrees::Subtrees;
use super::{ColumnLu, Columns, Options, SINGULAR, grow, per_column};
use crate::cpu::entries::{Entries, STRETCH, largest, load_range};
use crate::error::NumericError;

/// Columns between two progress events.
const STRIDE: usize = 256;

/// Columns between two looks at the cancel flag, and operations after which there is another look.
const LOOK: usize = 16;
const LOOK_FLOPS: u64 = 1 << 20;

impl<F: Scalar> ColumnLu<F> {
    /// Factorizes the square matrix B, given by columns: `values[p]` stands in row `cols.idx()[p]`.
    ///
    /// # Errors
    ///
    /// [`NumericError::ZeroPivot`] with the first column without a usable pivot (see the module's
    /// page; with static pivots, one whose pivot is zero and not replaced);
    /// [`NumericError::NotFinite`]; [`NumericError::OutOfMemory`]; [`NumericError::Cancelled`].
    ///
    /// # Panics
    ///
    /// If B is not square, `values` has another length than B has entries, or
    /// [`PivotPolicy::check`](luge_sparse::PivotPolicy::check) refuses the policy.
    #[track_caller]
    pub fn factorize(
        cols: &CompressedPattern,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
    ) -> Result<(Self, Quality), NumericError> {
        assert_eq!(cols.nnz(), values.count(), "one value for each entry of B");
        let subtrees = if options.threads > 1 {
            Subtrees::new(cols, &options.cancel)?
        } else {
            None
        };
        Self::factorize_first(cols, subtrees.as_ref(), values, options)
    }

    /// As [`factorize`](Self::factorize), for the first of the values; threads share the subtrees.
    #[track_caller]
    pub(in crate::cpu) fn factorize_first(
        cols: &CompressedPattern,
        subtrees: Option<&Subtrees>,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
    ) -> Result<(Self, Quality), NumericError> {
        let n = cols.major_dim();
        assert_eq!(n, cols.minor_dim(), "only square matrices are factorized");
        let span = tracing::debug_span!("factorize_columns", n, nnz = cols.nnz());
        let _entered = span.enter();

        let limits = Limits::new(cols, values, options);
        let memory = &options.memory;
        let mut work = Elimination::new(cols, values, &limits, 0..n, options.expected, memory)?;
        let outcome = match subtrees {
            Some(subtrees) if options.threads > 1 => {
                let parts = side_by_side(&work, subtrees, options);
                work.join(subtrees, parts, &options.cancel)
            }
            _ => work.columns(0..n, &options.cancel),
        };
        match outcome {
            Ok(()) => Ok(work.finish()),
            Err(Stop::Numeric(error)) => Err(error),
            Err(Stop::Foreign) => unreachable!("no row is outside of the whole matrix"),
        }
    }
}

/// Factorizes whole subtrees on the threads of the current rayon pool, as if no row of theirs had been
/// taken by a column outside of them. `None` where a column would take the row of an ancestor, or there
/// is other trouble: [`Elimination::join`] will do that part again.
fn side_by_side<'a, F: Scalar, V: Entries<F> + ?Sized>(
    whole: &Elimination<'a, F, V>,
    subtrees: &Subtrees,
    options: &Options,
) -> Vec<Option<Elimination<'a, F, V>>> {
    let n = whole.x.len();
    let limits = &whole.limits;
    // What is found here is held twice until it is joined.
    let room = AtomicI64::new(i64::try_from(limits.max_entries / 2).unwrap_or(i64::MAX));
    let idle: Mutex<Vec<(Vec<F>, Reach, Reservation)>> = Mutex::default();
    let (cancel, memory) = (&options.cancel, &options.memory);
    let locked = || idle.lock().unwrap_or_else(PoisonError::into_inner);
    // Whoever listens to this thread is told by all.
    let listener = dispatcher::get_default(Dispatch::clone);
    let factorize = |columns: &Range<usize>| {
        let (first, last) = (columns.start, columns.end - 1);
        let expected = (whole.cols.range(last).end - whole.cols.range(first).start) / 2;
        let (cols, values) = (whole.cols, whole.values);
        let expected = (expected, expected);
        let new = Elimination::new(cols, values, limits, columns.clone(), expected, memory);
        let mut work = new.ok()?;
        let scratch = locked().pop();
        let of_scratch;
        (work.x, work.reach, of_scratch) = match scratch {
            Some(scratch) => scratch,
            None => {
                let reserved = memory.reserve(scratch_bytes::<F>(n)).ok()?;
                (vec![F::zero(); n], Reach::new(n), reserved)
            }
        };
        let mut counted = 0;
        for first in columns.clone().step_by(STRIDE) {
            let some = first..columns.end.min(first + STRIDE);
            dispatcher::with_default(&listener, || work.columns(some, cancel)).ok()?;
            let more = work.entries() - counted;
            counted += more;
            if room.fetch_sub(more as i64, Ordering::Relaxed) < more as i64 {
                return None;
            }
        }
        // Both are as empty as they were.
        let (x, reach) = (std::mem::take(&mut work.x), std::mem::take(&mut work.reach));
        locked().push((x, reach, of_scratch));
        work.loaded = Vec::new();
        Some(work)
    };
    let ranges: Vec<&Range<usize>> = subtrees.independent().collect();
    ranges
        .into_par_iter()
        .with_max_len(1)
        .map(factorize)
        .collect()
}

/// The columns before which no column leads to a row from there on, and after which none leads to a row
/// before.
pub(super) fn boundaries<F>(lower: &Columns<F>, upper: &Columns<F>) -> Vec<bool> {
    let n = lower.ptr.len() - 1;
    let mut is_boundary = vec![true; n];
    // Columns are sorted.
    let mut last = 0;
    for (j, is_boundary) in is_boundary.iter_mut().enumerate() {
        *is_boundary = last <= j;
        let (start, end) = (lower.ptr[j], lower.ptr[j + 1]);
        if start < end {
            last = last.max(lower.idx[end - 1] as usize + 1);
        }
    }
    let mut first = n;
    for j in (0..n).rev() {
        let (start, end) = (upper.ptr[j], upper.ptr[j + 1]);
        if start < end {
            first = first.min(upper.idx[start] as usize);
        }
        // Column j is the first of a block if no later column, itself included, leads above it.
        is_boundary[j] &= first >= j;
    }
    is_boundary
}

/// The policy for the first `nnz` of the values.
#[track_caller]
pub(super) fn resolve<F: Scalar>(
    policy: PivotPolicy,
    values: &(impl Entries<F> + ?Sized),
    nnz: usize,
) -> ResolvedPivots<F::Real> {
    policy.resolve(|| largest(values, 0..nnz).to_f64())
}

/// A finished column of L.
struct Head<W> {
    /// Where it starts.
    start: usize,
    len: u32,
    /// Only its first rows, as many as this, lead to rows that no other column leads to.
    walk: u32,
    sums: Sums<W>,
}

/// Why a column is not finished.
enum Stop {
    Numeric(NumericError),
    /// Its pivot would be a row of an ancestor.
    Foreign,
}

impl<E: Into<NumericError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Numeric(error.into())
    }
}

/// What pivots and sizes are measured by.
#[derive(Clone)]
struct Limits<F: Scalar> {
    pivots: ResolvedPivots<F::Real>,
    /// Multiplies the sum of the magnitudes of a column's terms.
    noise: f64,
    /// Entries of L and U that fit the memory, and what was allowed.
    max_entries: u64,
    max_bytes: u64,
}

impl<F: Scalar> Limits<F> {
    #[track_caller]
    fn new(
        cols: &CompressedPattern,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
    ) -> Self {
        let max_bytes = options.max_bytes.unwrap_or(u64::MAX);
        let fixed = ColumnLu::<F>::estimate_bytes(cols.major_dim(), 0, 0);
        Self {
            pivots: resolve(options.pivots, values, cols.nnz()),
            noise: SINGULAR * F::Real::epsilon().to_f64(),
            max_entries: max_bytes.saturating_sub(fixed) / (4 + size_of::<F>() as u64),
            max_bytes,
        }
    }
}

/// Everything in the middle of a factorization of all columns, or of whole subtrees.
///
/// Invariants that the unchecked accesses rest on: once `exchanged`, `label` and `row_at` are
/// permutations of 0..n, inverse to each other; every index of `lower` is below n; `heads` describes ranges within `lower`;
/// all other vectors by row or label have n elements.
struct Elimination<'a, F: Scalar, V: ?Sized> {
    cols: &'a CompressedPattern,
    values: &'a V,
    /// The entries of B from `loaded_from` on.
    loaded: Vec<F>,
    loaded_from: usize,
    limits: Limits<F>,
    /// The first column, at which `heads`, `upper` and `pivots` begin, and where the columns end whose rows
    /// may be pivots.
    first: usize,
    end: usize,

    /// The column that each row is, or would be, the pivot of, and the other way round; empty as long as
    /// they are the identity.
    label: Vec<u32>,
    row_at: Vec<u32>,
    /// Whether they no longer are.
    exchanged: bool,
    /// The column under way, by row; zero in between.
    x: Vec<F>,
    reach: Reach,
    heads: Vec<Head<F::Wide>>,
    /// Rows of B until the end, then those of L.
    lower_idx: Vec<u32>,
    lower_values: Vec<F>,
    upper: Columns<F>,
    pivots: Vec<F>,
    /// ‖ |L|·|U|·e_k ‖₁.
    products: Vec<f64>,
    /// Rows of the column that are not pivots yet, and their values.
    below: Vec<u32>,
    candidates: Vec<F>,
    /// Columns that were walked as a whole and have the diagonal row of this one, and where.
    prunable: Vec<(u32, u32)>,
    terms: Vec<f64>,
    report: Report,
    flops: u64,
    /// What is reserved for all of this but `x` and `reach` of subtrees.
    memory: Reservation,
}

/// Bytes of a column under way, by row, and of its reach.
fn scratch_bytes<F>(n: usize) -> u64 {
    bytes_of::<F>(n) + n as u64 / 4 + 64
}

impl<'a, F: Scalar, V: Entries<F> + ?Sized> Elimination<'a, F, V> {
    fn new(
        cols: &'a CompressedPattern,
        values: &'a V,
        limits: &Limits<F>,
        columns: Range<usize>,
        expected: (usize, usize),
        memory: &MemoryBudget,
    ) -> Result<Self, OutOfMemory> {
        let n = cols.major_dim();
        let is_whole = columns == (0..n);
        let room = |expected: usize| (expected as u64).min(limits.max_entries) as usize;
        let (lower, upper) = match expected {
            (0, 0) => (room(cols.nnz()), room(cols.nnz())),
            (lower, upper) => (room(lower), room(upper)),
        };
        let of_column =
            size_of::<Head<F::Wide>>() + size_of::<usize>() + size_of::<F>() + size_of::<f64>();
        let mut fixed = (columns.len() + 1) as u64 * of_column as u64;
        // Loaded entries: a stretch, or a column that is longer.
        fixed += bytes_of::<F>(2 * STRETCH.max(n.min(cols.nnz())));
        if is_whole {
            // And what is made of all in the end: starts, boundaries and rows; and labels, where rows are exchanged.
            fixed += scratch_bytes::<F>(n) + 32 * n as u64;
        } else {
            fixed += 8 * n as u64;
        }
        let per_entry = (size_of::<u32>() + size_of::<F>()) as u64;
        // Room that was expected in vain is not worth failing for.
        let of_entries = (lower + upper) as u64 * per_entry;
        let mut reserved = memory.reserve(fixed)?;
        let (lower, upper) = match reserved.grow(of_entries) {
            Ok(()) => (lower, upper),
            Err(_) => (0, 0),
        };
        Ok(Self {
            memory: reserved,
            cols,
            values,
            loaded: Vec::new(),
            loaded_from: 0,
            limits: limits.clone(),
            first: columns.start,
            end: columns.end,
            label: Vec::new(),
            row_at: Vec::new(),
            exchanged: false,
            x: vec![F::zero(); if is_whole { n } else { 0 }],
            reach: Reach::new(if is_whole { n } else { 0 }),
            heads: Vec::with_capacity(columns.len()),
            lower_idx: Vec::with_capacity(lower),
            lower_values: Vec::with_capacity(lower),
            upper: Columns::with_capacity(columns.len(), upper),
            pivots: Vec::with_capacity(columns.len()),
            products: Vec::with_capacity(columns.len()),
            below: Vec::new(),
            candidates: Vec::new(),
            prunable: Vec::new(),
            terms: Vec::new(),
            report: Report::new(),
            flops: 0,
        })
    }

    /// Entries of L and U so far.
    fn entries(&self) -> u64 {
        (self.lower_idx.len() + self.upper.idx.len()) as u64
    }

    /// Computes these columns, after those before them.
    fn columns(&mut self, columns: Range<usize>, cancel: &CancelFlag) -> Result<(), Stop> {
        let total = self.cols.major_dim() as u64;
        let mut looked = 0;
        for k in columns.clone() {
            let done = k - columns.start;
            if done.is_multiple_of(LOOK) || self.flops - looked >= LOOK_FLOPS {
                cancel.check()?;
                looked = self.flops;
            }
            if done.is_multiple_of(STRIDE) {
                tracing::debug!(target: "luge::progress", done = k as u64, total);
            }
            if self.exchanged {
                self.column::<true>(k)?;
            } else {
                self.column::<false>(k)?;
            }
        }
        Ok(())
    }

    /// Takes over the columns of the subtrees, and computes those above, and those of subtrees that were
    /// not found or are not right.
    fn join(
        &mut self,
        subtrees: &Subtrees,
        parts: Vec<Option<Self>>,
        cancel: &CancelFlag,
    ) -> Result<(), Stop> {
        let found = || parts.iter().flatten();
        let lower = found().map(|part| part.lower_idx.len()).sum();
        let upper = found().map(|part| part.upper.idx.len()).sum();
        grow(&mut self.lower_idx, lower, &mut self.memory)?;
        grow(&mut self.lower_values, lower, &mut self.memory)?;
        self.upper.grow(upper, &mut self.memory)?;
        let mut parts = parts.into_iter();
        for range in &subtrees.ranges {
            let part = range.is_independent.then(|| parts.next()).flatten();
            // Where they do not fit, the column is named at which one thread would have noticed.
            let fits = |part: &Self| self.entries() + part.entries() <= self.limits.max_entries;
            let usable = part
                .flatten()
                .filter(|part| self.is_right(part) && fits(part));
            match usable {
                Some(part) => self.append(part)?,
                None => self.columns(range.columns.clone(), cancel)?,
            }
        }
        Ok(())
    }

    /// Whether no row that the part shares with its ancestors was taken by a column before it.
    fn is_right(&self, part: &Self) -> bool {
        let moved = |i: u32| i as usize >= part.end && self.label[i as usize] != i;
        !self.exchanged || !part.lower_idx.iter().any(|&i| moved(i))
    }

    /// Takes over columns that follow on those that are there.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`]: columns that were done again may have taken the room that was made.
    fn append(&mut self, part: Self) -> Result<(), OutOfMemory> {
        let (lower, upper) = (self.lower_idx.len(), self.upper.idx.len());
        grow(&mut self.lower_idx, part.lower_idx.len(), &mut self.memory)?;
        grow(
            &mut self.lower_values,
            part.lower_idx.len(),
            &mut self.memory,
        )?;
        self.upper.grow(part.upper.idx.len(), &mut self.memory)?;
        self.lower_idx.extend(part.lower_idx);
        self.lower_values.extend(part.lower_values);
        self.heads.extend(part.heads.into_iter().map(|head| Head {
            start: head.start + lower,
            ..head
        }));
        self.upper.idx.extend(part.upper.idx);
        self.upper.values.extend(part.upper.values);
        let ends = part.upper.ptr[1..].iter();
        self.upper.ptr.extend(ends.map(|end| end + upper));
        self.pivots.extend(part.pivots);
        self.products.extend(part.products);
        if part.exchanged {
            self.track_exchanges();
            let own = part.first..part.end;
            self.label[own.clone()].copy_from_slice(&part.label[own.clone()]);
            self.row_at[own.clone()].copy_from_slice(&part.row_at[own]);
        }
        self.report.join(&part.report);
        self.flops += part.flops;
        Ok(())
    }

    /// Where the entries of column `k` are among those that are loaded.
    fn loaded(&self, k: usize) -> Range<usize> {
        let range = self.cols.range(k);
        range.start - self.loaded_from..range.end - self.loaded_from
    }

    /// Loads the entries of column `k`, and of those after it as far as they fit.
    fn load(&mut self, k: usize) {
        let range = self.cols.range(k);
        if range.end <= self.loaded_from + self.loaded.len() {
            return;
        }
        let end = range.end.max(self.cols.nnz().min(range.start + STRETCH));
        load_range(self.values, range.start..end, &mut self.loaded);
        self.loaded_from = range.start;
    }

    /// Column `k`, after all before it. `EXCHANGED`: rows and labels may differ.
    fn column<const EXCHANGED: bool>(&mut self, k: usize) -> Result<(), Stop> {
        self.load(k);
        let first_column = self.first;
        let rows = self.cols.line(k);
        let values = &self.loaded[self.loaded(k)];
        let diagonal = if EXCHANGED { self.row_at[k] } else { k as u32 };
        if let (&[row], &[value]) = (rows, values)
            && row == diagonal
        {
            return Ok(self.singleton(k, row, value)?);
        }
        if rows
            .first()
            .is_some_and(|&row| (row as usize) < first_column)
        {
            return Err(Stop::Foreign);
        }

        let mut check = ColumnCheck::default();
        let mut first = k as u32;
        if self.limits.pivots.is_static {
            // SAFETY: k < n.
            unsafe { self.reach.insert(first) };
        }
        for (&row, &value) in rows.iter().zip(values) {
            // SAFETY: the indices of a square pattern are below n, and so are all labels.
            unsafe {
                *self.x.get_unchecked_mut(row as usize) = value;
                let label = if EXCHANGED {
                    *self.label.get_unchecked(row as usize)
                } else {
                    row
                };
                self.reach.insert(label);
                first = first.min(label);
            }
            check.entry(row, value.widen());
        }

        self.prunable.clear();
        self.below.clear();
        self.reach.start(first);
        let mut flops = 0;
        let mut next = self.reach.pop();
        while let Some(j) = next.filter(|&j| (j as usize) < k) {
            // SAFETY: j < k is no smaller than the first column, for no row is; column j is finished, so
            // it has its head, row_at[j] < n, and its head describes entries of L, whose rows are below n and have labels below n.
            unsafe {
                let row = if EXCHANGED {
                    *self.row_at.get_unchecked(j as usize)
                } else {
                    j
                };
                let u = std::mem::replace(self.x.get_unchecked_mut(row as usize), F::zero());
                if self.upper.is_full() {
                    self.upper.grow(1, &mut self.memory)?;
                }
                self.upper.push(j, u);
                let head = self.heads.get_unchecked(j as usize - first_column);
                check.upper(head.sums, u.widen());
                flops += 2 * u64::from(head.len);
                let (start, walk, len) = (head.start, head.walk as usize, head.len as usize);
                let idx = self.lower_idx.as_ptr().add(start);
                let l = self.lower_values.as_ptr().add(start);
                let x = self.x.as_mut_ptr();
                for p in 0..walk {
                    let i = *idx.add(p);
                    *x.add(i as usize) -= *l.add(p) * u;
                    self.reach.insert(if EXCHANGED {
                        *self.label.get_unchecked(i as usize)
                    } else {
                        i
                    });
                    if i == diagonal && walk == len {
                        grow(&mut self.prunable, 1, &mut self.memory)?;
                        self.prunable.push((j, p as u32));
                    }
                }
                for p in walk..len {
                    *x.add(*idx.add(p) as usize) -= *l.add(p) * u;
                }
            }
            next = self.reach.pop();
        }
        self.upper.ptr.push(self.upper.idx.len());
        self.flops += flops;

        self.candidates.clear();
        while let Some(label) = next {
            // SAFETY: what comes out of the set is below n.
            unsafe {
                let row = if EXCHANGED {
                    *self.row_at.get_unchecked(label as usize)
                } else {
                    label
                };
                grow(&mut self.below, 1, &mut self.memory)?;
                self.below.push(row);
                let x = self.x.get_unchecked_mut(row as usize);
                grow(&mut self.candidates, 1, &mut self.memory)?;
                self.candidates.push(std::mem::replace(x, F::zero()));
            }
            next = self.reach.pop();
        }

        let chosen = if self.limits.pivots.is_static {
            self.replace_small(k)?
        } else {
            self.search(k, diagonal, &check)?
        };
        let at = self.below[chosen];
        let column_of_row = if EXCHANGED {
            self.label[at as usize]
        } else {
            at
        };
        if column_of_row as usize >= self.end {
            return Err(Stop::Foreign);
        }
        let pivot = self.candidates[chosen];
        let mut sums = Sums::unit(at);
        let start = self.lower_idx.len();
        let len = self.below.len() - 1;
        grow(&mut self.lower_idx, len, &mut self.memory)?;
        grow(&mut self.lower_values, len, &mut self.memory)?;
        let column = self.below.iter().zip(&self.candidates);
        for (p, (&row, &candidate)) in column.enumerate() {
            if p != chosen {
                let l = candidate.quotient(pivot);
                sums.entry(row, l.widen());
                self.lower_idx.push(row);
                self.lower_values.push(l);
            }
        }
        self.flops += len as u64;
        check.upper(sums, pivot.widen());
        if !(sums.magnitude.is_finite() && check.product.is_finite()) {
            self.assert_finite(k, start, pivot)?;
        }
        self.report.column(k, &check);
        self.pivots.push(pivot);
        self.products.push(check.product);
        self.heads.push(Head {
            start,
            len: len as u32,
            walk: len as u32,
            sums,
        });

        if at == diagonal && !EXCHANGED {
            // Rows are sorted: those after the diagonal of this column are reached through it.
            for &(j, p) in &self.prunable {
                self.heads[j as usize - first_column].walk = p + 1;
            }
        } else {
            if at != diagonal {
                self.exchange(k, at, diagonal);
            }
            self.prune(k, at);
        }
        let entries = self.entries();
        if entries > self.limits.max_entries {
            return Err(Stop::Numeric(NumericError::OutOfMemory {
                column: k,
                asked: ColumnLu::<F>::estimate_bytes(self.cols.major_dim(), entries, 0),
                available: self.limits.max_bytes,
            }));
        }
        Ok(())
    }

    /// A column whose only entry is its diagonal.
    fn singleton(&mut self, k: usize, row: u32, value: F) -> Result<(), NumericError> {
        if !value.is_number() {
            return Err(NumericError::NotFinite { column: k });
        }
        let pivot = self.replacement(k, value).unwrap_or(value);
        if pivot == F::zero() {
            return Err(NumericError::ZeroPivot { column: k });
        }
        let mut check = ColumnCheck::default();
        check.entry(row, value.widen());
        let sums = Sums::unit(row);
        check.upper(sums, pivot.widen());
        self.report.column(k, &check);
        self.upper.ptr.push(self.upper.idx.len());
        self.pivots.push(pivot);
        self.products.push(check.product);
        self.heads.push(Head {
            start: self.lower_idx.len(),
            len: 0,
            walk: 0,
            sums,
        });
        Ok(())
    }

    /// What replaces the pivot of column `k` if it is small, which is counted.
    #[inline]
    fn replacement(&mut self, k: usize, pivot: F) -> Option<F> {
        let replacement = self.limits.pivots.replacement(pivot);
        if replacement.is_some() {
            self.report.perturbed(k);
        }
        replacement
    }

    /// Takes the diagonal, the first candidate, whatever it is.
    fn replace_small(&mut self, k: usize) -> Result<usize, NumericError> {
        let pivot = self.candidates[0];
        if let Some(replacement) = self.replacement(k, pivot) {
            self.candidates[0] = replacement;
        } else if pivot == F::zero() {
            return Err(NumericError::ZeroPivot { column: k });
        }
        Ok(0)
    }

    /// Chooses among the candidates: their position.
    fn search(
        &mut self,
        k: usize,
        diagonal: u32,
        check: &ColumnCheck<F::Wide>,
    ) -> Result<usize, NumericError> {
        let (mut largest, mut chosen) = (F::Real::zero(), 0);
        let mut sum = 0.0;
        for (p, x) in self.candidates.iter().enumerate() {
            let x = x.magnitude();
            sum += x.to_f64();
            if x > largest {
                (largest, chosen) = (x, p);
            }
        }
        // What is not finite ends up in the sums over B or U, or among the candidates.
        if !(sum + check.product + check.norm).is_finite() {
            let finite = |v: &F| v.is_number();
            if !self.loaded[self.loaded(k)].iter().all(finite)
                || !self.upper.values[self.upper.ptr[k - self.first]..]
                    .iter()
                    .all(finite)
                || !self.candidates.iter().all(finite)
            {
                return Err(NumericError::NotFinite { column: k });
            }
        }
        if largest == F::Real::zero() {
            return Err(NumericError::ZeroPivot { column: k });
        }
        // No candidate's terms exceed those of the whole column, so columns whose candidate is clear
        // of all the rounding that could be in it skip the exact sums.
        if largest.to_f64() <= self.limits.noise * (check.norm + check.product)
            && self.is_noise(k)?
        {
            return Err(NumericError::ZeroPivot { column: k });
        }
        // The diagonal has the smallest label of all, so it comes first.
        if chosen != 0 && self.below[0] == diagonal {
            let x = self.candidates[0].magnitude();
            if x > F::Real::zero() && x >= self.limits.pivots.threshold * largest {
                chosen = 0;
            }
        }
        Ok(chosen)
    }

    /// Whether every candidate of column `k` is within the rounding of its terms, which are those of B
    /// and every product.
    fn is_noise(&mut self, k: usize) -> Result<bool, OutOfMemory> {
        // Columns of noise are rare, so this is not reserved for all.
        if self.terms.is_empty() {
            self.memory.grow(bytes_of::<f64>(self.x.len()))?;
        }
        self.terms.resize(self.x.len(), 0.0);
        let terms = &mut self.terms;
        let range = self.cols.range(k);
        let values = &self.loaded[range.start - self.loaded_from..];
        for (&i, value) in self.cols.line(k).iter().zip(values) {
            terms[i as usize] += value.magnitude().to_f64();
        }
        let (above, u) = self.upper.column(k - self.first);
        let products = || {
            above.iter().zip(u).flat_map(|(&j, u)| {
                let head = &self.heads[j as usize - self.first];
                let range = head.start..head.start + head.len as usize;
                self.lower_idx[range.clone()]
                    .iter()
                    .zip(&self.lower_values[range])
                    .map(move |(&i, l)| {
                        (i as usize, l.magnitude().to_f64() * u.magnitude().to_f64())
                    })
            })
        };
        for (i, product) in products() {
            terms[i] += product;
        }
        let mut candidates = self.below.iter().zip(&self.candidates);
        let noise = self.limits.noise;
        let is_noise =
            candidates.all(|(&i, x)| x.magnitude().to_f64() <= noise * terms[i as usize]);
        for &i in self.cols.line(k) {
            terms[i as usize] = 0.0;
        }
        for (i, _) in products() {
            terms[i] = 0.0;
        }
        Ok(is_noise)
    }

    /// Column `k`, whose L starts at `start`, has sums that are not finite: the values may be.
    #[cold]
    fn assert_finite(&self, k: usize, start: usize, pivot: F) -> Result<(), NumericError> {
        let finite = |v: &F| v.is_number();
        if pivot.is_number()
            && self.lower_values[start..].iter().all(finite)
            && self.upper.values[self.upper.ptr[k - self.first]..]
                .iter()
                .all(finite)
        {
            return Ok(());
        }
        Err(NumericError::NotFinite { column: k })
    }

    /// Column `k` took row `at`, and the column whose diagonal that was gets row `diagonal`.
    fn exchange(&mut self, k: usize, at: u32, diagonal: u32) {
        self.report.off_diagonal();
        self.track_exchanges();
        let robbed = self.label[at as usize];
        self.label.swap(at as usize, diagonal as usize);
        self.row_at.swap(k, robbed as usize);
    }

    fn track_exchanges(&mut self) {
        if !self.exchanged {
            let n = self.cols.major_dim() as u32;
            (self.label, self.row_at) = ((0..n).collect(), (0..n).collect());
            self.exchanged = true;
        }
    }

    /// After column `k` took row `at`: a column j of U(·, k) whose L has row `at` need be walked only
    /// through its rows that are pivots by now, for column k leads on to the rest.
    fn prune(&mut self, k: usize, at: u32) {
        for &j in self.upper.column(k - self.first).0 {
            let head = &mut self.heads[j as usize - self.first];
            let whole = head.start..head.start + head.len as usize;
            if head.walk < head.len || !self.lower_idx[whole.clone()].contains(&at) {
                continue;
            }
            let mut end = head.start;
            for p in whole {
                if self.label[self.lower_idx[p] as usize] as usize <= k {
                    self.lower_idx.swap(p, end);
                    self.lower_values.swap(p, end);
                    end += 1;
                }
            }
            head.walk = (end - head.start) as u32;
        }
    }

    /// Renumbers L.
    fn finish(mut self) -> (ColumnLu<F>, Quality) {
        let n = self.x.len();
        let mut memory = std::mem::take(&mut self.memory);
        let mut ptr = Vec::with_capacity(n + 1);
        ptr.extend(self.heads.iter().map(|head| head.start));
        ptr.push(self.lower_idx.len());
        // Their memory serves for what is made here.
        (self.heads, self.x, self.loaded) = (Vec::new(), Vec::new(), Vec::new());
        if self.exchanged {
            let mut column: Vec<(u32, F)> = Vec::new();
            for w in ptr.windows(2) {
                let idx = &mut self.lower_idx[w[0]..w[1]];
                let values = &mut self.lower_values[w[0]..w[1]];
                idx.iter_mut().for_each(|i| *i = self.label[*i as usize]);
                if !idx.is_sorted() {
                    column.clear();
                    column.extend(idx.iter().copied().zip(values.iter().copied()));
                    column.sort_unstable_by_key(|&(row, _)| row);
                    for (p, &(row, value)) in column.iter().enumerate() {
                        (idx[p], values[p]) = (row, value);
                    }
                }
            }
        }
        let mut lower = Columns {
            ptr,
            idx: self.lower_idx,
            values: self.lower_values,
        };
        // Room that is left over would stay for as long as the factors do.
        lower.shrink(&mut memory);
        self.upper.shrink(&mut memory);
        let quality = self.report.finish(&self.products, &self.pivots, None, 1);
        let mut lu = ColumnLu {
            row_perm: if self.exchanged {
                RowPerm::new(self.row_at)
                    .unwrap_or_else(|e| unreachable!("exchanges keep a permutation: {e}"))
            } else {
                RowPerm::identity(n)
            },
            inverse_pivots: OnceLock::new(),
            is_invertible: quality.min_pivot >= F::Real::min_positive_value().to_f64(),
            entries_of: OnceLock::new(),
            is_boundary: boundaries(&lower, &self.upper),
            lower,
            upper: self.upper,
            pivots: self.pivots,
            products: self.products,
            entries: self.cols.nnz(),
            flops: self.flops,
            num_off_diagonal: quality.num_off_diagonal,
            plan: None,
            memory: Reservation::default(),
            of_plan: Reservation::default(),
        };
        let room = lu.lower.room() + lu.upper.room();
        let starts = bytes_of::<usize>(2 * (n + 1));
        let by_row = (n * per_column::<F>()) as u64;
        memory.shrink_to(room + starts + by_row);
        lu.memory = memory;
        (lu, quality)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// Columns of a band, bands of a group, groups, columns that join a group, columns that join all.
    const BAND: usize = 200;
    const BANDS: usize = 15;
    const GROUP: usize = BAND * BANDS + JOINT;
    const GROUPS: usize = 4;
    const JOINT: usize = 5;
    const TOP: usize = GROUPS * GROUP;
    const N: usize = TOP + 20;

    /// A matrix of symmetric pattern, in nested dissection order. Entry (i, j) is what `value` gives.
    fn nested<T>(mut value: impl FnMut(usize, usize) -> T) -> (CompressedPattern, Vec<T>) {
        let mut cols = vec![std::collections::BTreeSet::new(); N];
        let mut add = |i: usize, j: usize| {
            cols[j].insert(i);
            cols[i].insert(j);
        };
        for j in 0..N {
            add(j, j);
            let group = j / GROUP * GROUP;
            let joints = group + BAND * BANDS..(group + GROUP).min(N);
            if j >= TOP {
                (TOP..N).for_each(|i| add(i, j));
            } else if joints.contains(&j) {
                joints.chain(TOP..N).for_each(|i| add(i, j));
            } else {
                let place = j - group;
                let end = group + place / BAND * BAND + BAND;
                (j..end.min(j + 4)).for_each(|i| add(i, j));
                match place % 10 {
                    0 => add(TOP + place / 10 % (N - TOP), j),
                    5 => add(joints.start + place / 10 % JOINT, j),
                    _ => {}
                }
            }
        }
        let (mut ptr, mut idx, mut values) = (vec![0], Vec::new(), Vec::new());
        for (j, rows) in cols.iter().enumerate() {
            for &i in rows {
                idx.push(i as u32);
                values.push(value(i, j));
            }
            ptr.push(idx.len() as u64);
        }
        (CompressedPattern::new(N, ptr, idx).unwrap(), values)
    }

    /// Such a matrix whose diagonal serves as pivots.
    fn dominant(seed: u64) -> (CompressedPattern, Vec<f64>) {
        let mut rng = SmallRng::seed_from_u64(seed);
        nested(|i, j| {
            if i == j {
                30.0
            } else {
                rng.random_range(-1.0..1.0)
            }
        })
    }

    /// Factors by several threads must be those by one, bit for bit. Returns what they measure, how many
    /// parts threads found, and how many of them were right.
    fn check<F: Scalar>(cols: &CompressedPattern, values: &[F]) -> (Quality, usize, usize) {
        let options = Options::default();
        let (serial, quality) = ColumnLu::factorize(cols, values, &options).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
        pool.unwrap().install(|| {
            let options = Options {
                threads: 3,
                ..options
            };
            let (lu, measured) = ColumnLu::factorize(cols, values, &options).unwrap();
            assert_eq!(measured, quality);
            assert_eq!(lu.row_perm(), serial.row_perm());
            assert_eq!(lu.flops(), serial.flops());
            assert_eq!(lu.merged(), serial.merged());

            let subtrees = Subtrees::new(cols, &CancelFlag::new()).unwrap().unwrap();
            let limits = Limits::new(cols, values, &options);
            let memory = MemoryBudget::unlimited();
            let new = Elimination::new(cols, values, &limits, 0..N, (0, 0), &memory);
            let mut whole = new.unwrap();
            let parts = side_by_side(&whole, &subtrees, &options);
            let found = parts.iter().flatten().count();
            whole.exchanged = lu
                .row_perm()
                .as_slice()
                .iter()
                .enumerate()
                .any(|(i, &r)| i != r as usize);
            whole.label = lu.row_perm().inverse();
            let right = parts.iter().flatten().filter(|part| whole.is_right(part));
            (quality, found, right.count())
        })
    }

    fn parts(cols: &CompressedPattern) -> usize {
        Subtrees::new(cols, &CancelFlag::new())
            .unwrap()
            .unwrap()
            .independent()
            .count()
    }

    #[test]
    fn subtrees_side_by_side_give_the_bits_of_one_thread() {
        let (cols, values) = dominant(1);
        let (quality, found, right) = check(&cols, &values);
        assert_eq!(quality.num_off_diagonal, 0);
        assert_eq!((found, right), (parts(&cols), parts(&cols)));
        assert!(found >= GROUPS * BANDS / 2);
    }

    #[test]
    fn subtrees_of_a_complex_matrix_give_the_bits_of_one_thread() {
        let (cols, values) = dominant(6);
        let turned = (0..)
            .zip(&values)
            .map(|(p, value)| Complex::cis(f64::from(p)) * value);
        let (quality, found, right) = check(&cols, &turned.collect::<Vec<_>>());
        assert_eq!(quality.num_off_diagonal, 0);
        assert_eq!((found, right), (parts(&cols), parts(&cols)));
    }

    #[test]
    fn pivots_may_move_inside_their_subtrees() {
        let mut rng = SmallRng::seed_from_u64(2);
        let (cols, values) = nested(|i, j| {
            let inside = i < TOP && j < TOP && i / GROUP == j / GROUP && i % GROUP < BAND * BANDS;
            match (i, j) {
                (i, j) if j % GROUP >= BAND * BANDS || j >= TOP => {
                    if i == j {
                        30.0
                    } else {
                        1e-3
                    }
                }
                (i, j) if i == j && (j % GROUP).is_multiple_of(BAND) => 1e-12,
                _ if inside => rng.random_range(0.5..1.0),
                _ => 1e-9,
            }
        });
        let (quality, found, right) = check(&cols, &values);
        assert!(quality.num_off_diagonal >= GROUPS * BANDS, "{quality:?}");
        assert_eq!((found, right), (parts(&cols), parts(&cols)));
    }

    #[test]
    fn a_part_whose_pivot_is_the_row_of_an_ancestor_is_done_again() {
        let mut rng = SmallRng::seed_from_u64(3);
        // Its only entry of any size is on top.
        let far = GROUP + 3 * BAND + 60;
        let (cols, values) = nested(|i, j| match (i, j) {
            (i, j) if j == far && i < TOP => 1e-12,
            (i, j) if i == j => 30.0,
            _ => rng.random_range(0.1..1.0),
        });
        let (quality, found, _) = check(&cols, &values);
        assert!(quality.num_off_diagonal > 0);
        assert_eq!(found, parts(&cols) - 1);
    }

    /// A column that joins the second group takes a row on top, which columns of later groups lead to.
    #[test]
    fn parts_that_share_a_row_that_was_taken_before_them_are_done_again() {
        let mut rng = SmallRng::seed_from_u64(4);
        let joint = GROUP + BAND * BANDS + 2;
        let (cols, values) = nested(|i, j| match (i, j) {
            (i, j) if j == joint && i < TOP => 1e-12,
            (i, j) if i == j => 30.0,
            _ => rng.random_range(0.1..1.0),
        });
        let (quality, found, right) = check(&cols, &values);
        assert!(quality.num_off_diagonal > 0);
        assert_eq!(found, parts(&cols));
        assert!(right < found, "{right} of {found}");
    }

    /// In a full matrix each column leads to the next one, and that one on to the rest.
    #[test]
    fn a_column_leads_no_further_than_to_the_next_pivot() {
        let cols =
            CompressedPattern::new(4, vec![0, 4, 8, 12, 16], [0, 1, 2, 3].repeat(4)).unwrap();
        let limits = Limits::new(&cols, &[0.0; 16][..], &Options::default());
        // The pivots are on the diagonal, or rows 2 and 3 are exchanged with rows 0 and 1.
        for (shift, exchanged) in [(0, false), (2, true)] {
            let value = |p: usize| {
                if p % 4 == (p / 4 + shift) % 4 {
                    9.0
                } else {
                    1.0
                }
            };
            let values: Vec<f64> = (0..16).map(value).collect();
            let memory = MemoryBudget::unlimited();
            let new = Elimination::new(&cols, &values[..], &limits, 0..4, (0, 0), &memory);
            let mut work = new.unwrap();
            assert!(work.columns(0..4, &CancelFlag::new()).is_ok());
            assert_eq!(work.exchanged, exchanged);
            let walks: Vec<u32> = work.heads.iter().map(|head| head.walk).collect();
            assert_eq!(walks, [1, 1, 1, 0]);
        }
    }

    #[test]
    fn errors_are_those_of_one_thread() {
        let (cols, mut values) = dominant(5);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
        let pool = pool.unwrap();
        let run = |values: &[f64], max_bytes, threads| {
            let options = Options {
                threads,
                max_bytes,
                ..Options::default()
            };
            let result = pool.install(|| ColumnLu::factorize(&cols, values, &options));
            format!("{:?}", result.map(|_| ()).unwrap_err())
        };
        for limit in [400_000, 1_500_000] {
            let expected = run(&values, Some(limit), 1);
            assert!(expected.contains("OutOfMemory"), "{expected}");
            assert_eq!(run(&values, Some(limit), 3), expected);
            // Whichever parts have found room.
            let unlimited = Options::default();
            let subtrees = Subtrees::new(&cols, &CancelFlag::new()).unwrap().unwrap();
            let limits = Limits::new(&cols, &values[..], &unlimited);
            let (columns, memory) = (0..cols.major_dim(), &unlimited.memory);
            let new = Elimination::new(&cols, &values[..], &limits, columns, (0, 0), memory);
            let mut whole = new.unwrap();
            let parts = side_by_side(&whole, &subtrees, &unlimited);
            let limited = Options {
                max_bytes: Some(limit),
                ..Options::default()
            };
            whole.limits = Limits::new(&cols, &values[..], &limited);
            match whole.join(&subtrees, parts, &CancelFlag::new()) {
                Err(Stop::Numeric(error)) => assert_eq!(format!("{error:?}"), expected),
                _ => panic!("{limit} bytes suffice"),
            }
        }
        for column in [2 * GROUP + 50, GROUP + 99] {
            values[cols.range(column)].fill(0.0);
            let expected = run(&values, None, 1);
            assert!(expected.contains(&column.to_string()), "{expected}");
            assert_eq!(run(&values, None, 3), expected);
        }
        let options = Options {
            threads: 3,
            ..Options::default()
        };
        options.cancel.cancel();
        let cancelled = pool.install(|| ColumnLu::factorize(&cols, &values, &options));
        assert!(matches!(cancelled, Err(NumericError::Cancelled(_))));
    }
}
