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
use std::sync::OnceLock;

use luge_sparse::{CompressedPattern, Quality, RowPerm, Scalar};

use super::check::{ColumnCheck, Report, Sums};
use super::reach::Reach;
use super::{ColumnLu, Columns, Options};
use crate::cpu::entries::{Entries, STRETCH, largest, load_range};
use crate::error::NumericError;
use crate::pivots::TinyPivots;

/// Columns between two looks at the cancel flag and two progress events.
const STRIDE: usize = 256;

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
    /// If B is not square, `values` has another length than B has entries, or the threshold is not
    /// in 0 to 1.
    #[track_caller]
    pub fn factorize(
        cols: &CompressedPattern,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
    ) -> Result<(Self, Quality), NumericError> {
        assert_eq!(cols.nnz(), values.count(), "one value for each entry of B");
        Self::factorize_first(cols, values, options)
    }

    /// As [`factorize`](Self::factorize), for the first of the values.
    #[track_caller]
    pub(in crate::cpu) fn factorize_first(
        cols: &CompressedPattern,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
    ) -> Result<(Self, Quality), NumericError> {
        let n = cols.major_dim();
        assert_eq!(n, cols.minor_dim(), "only square matrices are factorized");
        assert!(
            (0.0..=1.0).contains(&options.threshold),
            "the pivot threshold is a fraction of the largest candidate"
        );
        let span = tracing::debug_span!("factorize_columns", n, nnz = cols.nnz());
        let _entered = span.enter();

        let mut work = Elimination::new(cols, values, options);
        for j in 0..n {
            if j % STRIDE == 0 {
                options.cancel.check()?;
                tracing::debug!(target: "luge::progress", done = j as u64, total = n as u64);
            }
            if work.exchanged {
                work.column::<true>(j)?;
            } else {
                work.column::<false>(j)?;
            }
        }
        Ok(work.finish())
    }
}

/// The columns before which no column leads to a row from there on, and after which none leads to a row
/// before.
fn boundaries<F>(lower: &Columns<F>, upper: &Columns<F>) -> Vec<bool> {
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

/// Below which a static pivot is replaced.
pub(super) fn smallest_pivot<F: Scalar>(
    values: &(impl Entries<F> + ?Sized),
    nnz: usize,
    pivots: Option<TinyPivots>,
) -> F {
    match pivots {
        Some(TinyPivots::Perturb { threshold }) => {
            F::from_f64(threshold * largest(values, 0..nnz).to_f64())
        }
        Some(TinyPivots::Keep) | None => F::zero(),
    }
}

/// A finished column of L.
struct Head {
    /// Where it starts.
    start: usize,
    len: u32,
    /// Only its first rows, as many as this, lead to rows that no other column leads to.
    walk: u32,
    sums: Sums,
}

/// Everything in the middle of a factorization.
///
/// Invariants that the unchecked accesses rest on: once `exchanged`, `label` and `row_at` are
/// permutations of 0..n, inverse to each other; every index of `lower` is below n; `heads` describes ranges within `lower`;
/// all other vectors by row or label have n elements.
struct Elimination<'a, F, V: ?Sized> {
    cols: &'a CompressedPattern,
    values: &'a V,
    /// The entries of B from `loaded_from` on.
    loaded: Vec<F>,
    loaded_from: usize,
    threshold: F,
    /// Multiplies the sum of the magnitudes of a column's terms.
    noise: f64,
    static_pivots: bool,
    smallest: F,
    /// Entries of L and U that fit the memory, and what was allowed.
    max_entries: u64,
    max_bytes: u64,

    /// The column that each row is, or would be, the pivot of, and the other way round; empty as long as
    /// they are the identity.
    label: Vec<u32>,
    row_at: Vec<u32>,
    /// Whether they no longer are.
    exchanged: bool,
    /// The column under way, by row; zero in between.
    x: Vec<F>,
    reach: Reach,
    heads: Vec<Head>,
    /// Rows of B until the end, then those of L.
    lower_idx: Vec<u32>,
    lower_values: Vec<F>,
    upper: Columns<F>,
    pivots: Vec<F>,
    /// Rows of the column that are not pivots yet, and their values.
    below: Vec<u32>,
    candidates: Vec<F>,
    /// Columns that were walked as a whole and have the diagonal row of this one, and where.
    prunable: Vec<(u32, u32)>,
    terms: Vec<f64>,
    report: Report,
    flops: u64,
}

impl<'a, F: Scalar, V: Entries<F> + ?Sized> Elimination<'a, F, V> {
    fn new(cols: &'a CompressedPattern, values: &'a V, options: &Options) -> Self {
        let n = cols.major_dim();
        let max_bytes = options.max_bytes.unwrap_or(u64::MAX);
        let fixed = ColumnLu::<F>::estimate_bytes(n, 0, 0);
        let max_entries = max_bytes.saturating_sub(fixed) / (4 + size_of::<F>() as u64);
        let room = |expected: usize| (expected as u64).min(max_entries) as usize;
        let (lower, upper) = match options.expected {
            (0, 0) => (room(cols.nnz()), room(cols.nnz())),
            (lower, upper) => (room(lower), room(upper)),
        };
        Self {
            cols,
            values,
            loaded: Vec::new(),
            loaded_from: 0,
            threshold: F::from_f64(options.threshold),
            noise: options.singular * F::epsilon().to_f64(),
            static_pivots: options.static_pivots.is_some(),
            smallest: smallest_pivot(values, cols.nnz(), options.static_pivots),
            max_entries,
            max_bytes,
            label: Vec::new(),
            row_at: Vec::new(),
            exchanged: false,
            x: vec![F::zero(); n],
            reach: Reach::new(n),
            heads: Vec::with_capacity(n),
            lower_idx: Vec::with_capacity(lower),
            lower_values: Vec::with_capacity(lower),
            upper: Columns::with_capacity(n, upper),
            pivots: Vec::with_capacity(n),
            below: Vec::new(),
            candidates: Vec::new(),
            prunable: Vec::new(),
            terms: Vec::new(),
            report: Report::new(),
            flops: 0,
        }
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
    fn column<const EXCHANGED: bool>(&mut self, k: usize) -> Result<(), NumericError> {
        self.load(k);
        let rows = self.cols.lane(k);
        let values = &self.loaded[self.loaded(k)];
        let diagonal = if EXCHANGED { self.row_at[k] } else { k as u32 };
        if let (&[row], &[value]) = (rows, values)
            && row == diagonal
        {
            return self.singleton(k, row, value);
        }

        let mut check = ColumnCheck::default();
        let mut first = k as u32;
        if self.static_pivots {
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
            check.entry(row, value.to_f64());
        }

        self.prunable.clear();
        self.below.clear();
        self.reach.start(first);
        let mut flops = 0;
        let mut next = self.reach.pop();
        while let Some(j) = next.filter(|&j| (j as usize) < k) {
            // SAFETY: j < k, and column j is finished, so it has its head, row_at[j] < n, and its
            // head describes entries of L, whose rows are below n and have labels below n.
            unsafe {
                let row = if EXCHANGED {
                    *self.row_at.get_unchecked(j as usize)
                } else {
                    j
                };
                let u = std::mem::replace(self.x.get_unchecked_mut(row as usize), F::zero());
                self.upper.push(j, u);
                let head = self.heads.get_unchecked(j as usize);
                check.upper(head.sums, u.to_f64());
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
                self.below.push(row);
                let x = self.x.get_unchecked_mut(row as usize);
                self.candidates.push(std::mem::replace(x, F::zero()));
            }
            next = self.reach.pop();
        }

        let chosen = if self.static_pivots {
            self.replace_tiny(k)?
        } else {
            self.search(k, diagonal, &check)?
        };
        let at = self.below[chosen];
        let pivot = self.candidates[chosen];
        let mut sums = Sums::unit(at);
        let start = self.lower_idx.len();
        let len = self.below.len() - 1;
        self.lower_idx.reserve(len);
        self.lower_values.reserve(len);
        let column = self.below.iter().zip(&self.candidates);
        for (p, (&row, &candidate)) in column.enumerate() {
            if p != chosen {
                let l = candidate / pivot;
                sums.entry(row, l.to_f64());
                self.lower_idx.push(row);
                self.lower_values.push(l);
            }
        }
        self.flops += len as u64;
        check.upper(sums, pivot.to_f64());
        if !(sums.magnitude.is_finite() && check.growth.is_finite()) {
            self.assert_finite(k, start, pivot)?;
        }
        self.report.column(k, &check, pivot.to_f64());
        self.pivots.push(pivot);
        self.heads.push(Head {
            start,
            len: len as u32,
            walk: len as u32,
            sums,
        });

        if at == diagonal && !EXCHANGED {
            // Rows are sorted: those after the diagonal of this column are reached through it.
            for &(j, p) in &self.prunable {
                self.heads[j as usize].walk = p + 1;
            }
        } else {
            if at != diagonal {
                self.exchange(k, at, diagonal);
            }
            self.prune(k, at);
        }
        let entries = (self.lower_idx.len() + self.upper.idx.len()) as u64;
        if entries > self.max_entries {
            return Err(NumericError::OutOfMemory {
                column: k,
                asked: ColumnLu::<F>::estimate_bytes(self.cols.major_dim(), entries, 0),
                available: self.max_bytes,
            });
        }
        Ok(())
    }

    /// A column whose only entry is its diagonal.
    fn singleton(&mut self, k: usize, row: u32, value: F) -> Result<(), NumericError> {
        if !value.is_finite() {
            return Err(NumericError::NotFinite { column: k });
        }
        let mut pivot = value;
        if self.static_pivots && pivot.abs() < self.smallest {
            pivot = self.replacement(k, pivot);
        }
        if pivot == F::zero() {
            return Err(NumericError::ZeroPivot { column: k });
        }
        let mut check = ColumnCheck::default();
        check.entry(row, value.to_f64());
        let sums = Sums::unit(row);
        check.upper(sums, pivot.to_f64());
        self.report.column(k, &check, pivot.to_f64());
        self.upper.ptr.push(self.upper.idx.len());
        self.pivots.push(pivot);
        self.heads.push(Head {
            start: self.lower_idx.len(),
            len: 0,
            walk: 0,
            sums,
        });
        Ok(())
    }

    fn replacement(&mut self, k: usize, pivot: F) -> F {
        self.report.perturbed(k);
        if pivot < F::zero() {
            -self.smallest
        } else {
            self.smallest
        }
    }

    /// Takes the diagonal, the first candidate, whatever it is.
    fn replace_tiny(&mut self, k: usize) -> Result<usize, NumericError> {
        let pivot = self.candidates[0];
        if pivot.abs() < self.smallest {
            self.candidates[0] = self.replacement(k, pivot);
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
        check: &ColumnCheck,
    ) -> Result<usize, NumericError> {
        let (mut largest, mut chosen) = (F::zero(), 0);
        let mut sum = 0.0;
        for (p, x) in self.candidates.iter().enumerate() {
            let x = x.abs();
            sum += x.to_f64();
            if x > largest {
                (largest, chosen) = (x, p);
            }
        }
        // What is not finite ends up in the sums over B or U, or among the candidates.
        if !(sum + check.growth + check.norm).is_finite() {
            let finite = |v: &F| v.is_finite();
            if !self.loaded[self.loaded(k)].iter().all(finite)
                || !self.upper.values[self.upper.ptr[k]..].iter().all(finite)
                || !self.candidates.iter().all(finite)
            {
                return Err(NumericError::NotFinite { column: k });
            }
        }
        if largest == F::zero() {
            return Err(NumericError::ZeroPivot { column: k });
        }
        // No candidate's terms exceed those of the whole column, so columns whose candidate is clear
        // of all the rounding that could be in it skip the exact sums.
        if largest.to_f64() <= self.noise * (check.norm + check.growth) && self.is_noise(k) {
            return Err(NumericError::ZeroPivot { column: k });
        }
        // The diagonal has the smallest label of all, so it comes first.
        if chosen != 0 && self.below[0] == diagonal {
            let x = self.candidates[0].abs();
            if x > F::zero() && x >= self.threshold * largest {
                chosen = 0;
            }
        }
        Ok(chosen)
    }

    /// Whether every candidate of column `k` is within the rounding of its terms, which are those of B
    /// and every product.
    fn is_noise(&mut self, k: usize) -> bool {
        self.terms.resize(self.x.len(), 0.0);
        let terms = &mut self.terms;
        let range = self.cols.range(k);
        let values = &self.loaded[range.start - self.loaded_from..];
        for (&i, value) in self.cols.lane(k).iter().zip(values) {
            terms[i as usize] += value.abs().to_f64();
        }
        let (above, u) = self.upper.column(k);
        let products = || {
            above.iter().zip(u).flat_map(|(&j, u)| {
                let head = &self.heads[j as usize];
                let range = head.start..head.start + head.len as usize;
                self.lower_idx[range.clone()]
                    .iter()
                    .zip(&self.lower_values[range])
                    .map(move |(&i, l)| (i as usize, l.abs().to_f64() * u.abs().to_f64()))
            })
        };
        for (i, product) in products() {
            terms[i] += product;
        }
        let mut candidates = self.below.iter().zip(&self.candidates);
        let noise = self.noise;
        let is_noise = candidates.all(|(&i, x)| x.abs().to_f64() <= noise * terms[i as usize]);
        for &i in self.cols.lane(k) {
            terms[i as usize] = 0.0;
        }
        for (i, _) in products() {
            terms[i] = 0.0;
        }
        is_noise
    }

    /// Column `k`, whose L starts at `start`, has sums that are not finite: the values may be.
    #[cold]
    fn assert_finite(&self, k: usize, start: usize, pivot: F) -> Result<(), NumericError> {
        let finite = |v: &F| v.is_finite();
        if pivot.is_finite()
            && self.lower_values[start..].iter().all(finite)
            && self.upper.values[self.upper.ptr[k]..].iter().all(finite)
        {
            return Ok(());
        }
        Err(NumericError::NotFinite { column: k })
    }

    /// Column `k` took row `at`, and the column whose diagonal that was gets row `diagonal`.
    fn exchange(&mut self, k: usize, at: u32, diagonal: u32) {
        self.report.off_diagonal();
        if !self.exchanged {
            let n = self.x.len() as u32;
            (self.label, self.row_at) = ((0..n).collect(), (0..n).collect());
            self.exchanged = true;
        }
        let robbed = self.label[at as usize];
        self.label.swap(at as usize, diagonal as usize);
        self.row_at.swap(k, robbed as usize);
    }

    /// After column `k` took row `at`: a column j of U(·, k) whose L has row `at` need be walked only
    /// through its rows that are pivots by now, for column k leads on to the rest.
    fn prune(&mut self, k: usize, at: u32) {
        for &j in self.upper.column(k).0 {
            let head = &mut self.heads[j as usize];
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
        lower.shrink();
        self.upper.shrink();
        let quality = self.report.finish(n);
        let lu = ColumnLu {
            row_perm: if self.exchanged {
                RowPerm::new(self.row_at)
                    .unwrap_or_else(|e| unreachable!("exchanges keep a permutation: {e}"))
            } else {
                RowPerm::identity(n)
            },
            inverse_pivots: OnceLock::new(),
            is_invertible: quality.min_pivot >= F::min_positive_value().to_f64(),
            entries_of: OnceLock::new(),
            is_boundary: boundaries(&lower, &self.upper),
            lower,
            upper: self.upper,
            pivots: self.pivots,
            entries: self.cols.nnz(),
            flops: self.flops,
            num_off_diagonal: quality.num_off_diagonal,
            plan: None,
        };
        (lu, quality)
    }
}
