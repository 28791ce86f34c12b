//! The factors of the diagonal blocks, and solves with them.

use std::ops::Range;
use std::sync::Arc;

use luge_frontal::{FrontalLu, FrontalScalar, RankOptions};
use luge_sparse::{
    CancelFlag, Cancelled, MemoryBudget, Permutation, PivotPolicy, Quality, RealScalar,
    Reservation, RowPerm, bytes_of, larger,
};

use super::{BlockPlan, Kind, from_fronts};
use crate::cpu::columns::{self, ColumnLu, Renewal};
use crate::cpu::entries::{Entries, largest, load_range, load_range_unless};
use crate::error::NumericError;

/// Steps of a solve between two looks at the cancel flag.
const STEPS: usize = 32;

/// What [`BlockLu::factorize`] may do.
#[derive(Debug, Clone)]
pub struct Options {
    /// How pivots are chosen inside the diagonal blocks. The fronts follow it
    /// [in their way](PivotPolicy::in_fronts), with their default threshold.
    pub pivots: PivotPolicy,
    /// 1: this thread alone; more: the current rayon pool. The factors are the same, bit for bit.
    pub threads: usize,
    /// Largest size of the factors with the memory to find them, in bytes; `None`: no limit.
    pub max_bytes: Option<u64>,
    /// Where all memory is reserved before it is allocated.
    pub memory: MemoryBudget,
    /// Stops the phase when raised.
    pub cancel: CancelFlag,
    /// The ranks that factorize the fronts together; each has all of the column engine's blocks. `None`: this process alone.
    pub ranks: Option<RankOptions>,
}

impl Options {
    /// The largest magnitude, where the policy needs it.
    fn max_b<F: FrontalScalar>(&self, values: &(impl Entries<F> + ?Sized)) -> Option<f64> {
        let replaces = self.pivots.replaces();
        replaces.then(|| largest(values, 0..values.count()).to_f64())
    }
}

/// The factors of one set of values of a [`BlockPlan`].
#[derive(Debug)]
pub struct BlockLu<F: FrontalScalar> {
    pub(super) plan: Arc<BlockPlan>,
    pub(super) columns: ColumnLu<F>,
    pub(super) fronts: Vec<FrontalLu<F>>,
    /// Values above the diagonal blocks.
    pub(super) above: Vec<F>,
    /// Their rows among those of the factors, where the column engine moved rows; else as planned.
    pub(super) above_rows: Option<Vec<u32>>,
    /// For the entries of a block that goes to the fronts; empty before the first refactorization.
    pub(super) room: Vec<F>,
    /// What is reserved for entries above the blocks, and for the room.
    pub(super) memory: Reservation,
    /// Whether all parts are of the values of one matrix.
    pub(super) is_current: bool,
    /// The operations of the last refactorization over those of a whole one.
    pub(super) part: f64,
}

impl<F: FrontalScalar> BlockLu<F> {
    /// Factorizes the diagonal blocks of B, whose values are in the order of the plan.
    ///
    /// # Errors
    ///
    /// [`NumericError`] with a column of B.
    ///
    /// # Panics
    ///
    /// If there is not one value per entry of the plan, or [`PivotPolicy::check`] refuses the policy.
    #[track_caller]
    pub fn factorize(
        plan: &Arc<BlockPlan>,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
    ) -> Result<(Self, Quality), NumericError> {
        let count = plan.source.len();
        assert_eq!(values.count(), count, "one value for each entry");
        let mut quality = Quality::default();
        let mut left = options.max_bytes;
        let max_b = options.max_b(values);
        let mut fronts = Vec::with_capacity(plan.fronts.len());
        let mut room = Vec::new();
        let of_room = options.memory.reserve(plan.room_bytes::<F>())?;
        // Their values, and their rows with the permutation that tells them.
        let moved = if plan.columns.major_dim() > 0 {
            16 * plan.n
        } else {
            0
        };
        let above_bytes = (size_of::<F>() + 4) * plan.above.nnz() + moved;
        let mut memory = options.memory.reserve(above_bytes as u64)?;
        for front in &plan.fronts {
            let options = front_options(options, max_b, left);
            load_range_unless(&options.cancel, values, front.entries(), &mut room)?;
            let (lu, measured) = FrontalLu::factorize(&front.symbolic, &room, &options)
                .map_err(|e| from_fronts(e, front.first_column))?;
            quality.merge(&measured, |j| front.first_column + j);
            left = left.map(|left| left.saturating_sub(lu.bytes()));
            fronts.push(lu);
        }
        drop(room);
        drop(of_room);
        let (columns, measured) = ColumnLu::factorize_first(
            &plan.columns,
            plan.subtrees(options.threads, &options.cancel)?,
            values,
            &column_options(options, left, plan.expected),
        )
        .map_err(|e| plan.in_terms_of_b(e))?;
        quality.merge(&measured, |j| plan.column_of(j));

        let above_rows = plan.final_above(columns.row_perm());
        let mut above = Vec::new();
        memory.shrink_to(((size_of::<F>() + 4) * plan.above.nnz()) as u64);
        load_range(values, count - plan.above.nnz()..count, &mut above);
        let lu = Self {
            plan: Arc::clone(plan),
            columns,
            fronts,
            above,
            above_rows,
            room: Vec::new(),
            memory,
            is_current: true,
            part: 1.0,
        };
        Ok((lu, quality))
    }

    /// Factorizes other values with the pivots that are there, in the same memory, and writes what was
    /// measured to `quality`: the smallest matrices would notice a copy. After an error the factors are those of no matrix
    /// until another call succeeds, and `quality` says nothing.
    ///
    /// # Errors
    ///
    /// [`NumericError`] with a column of B.
    ///
    /// # Panics
    ///
    /// If there is not one value per entry of the plan, or [`PivotPolicy::check`] refuses the policy.
    #[track_caller]
    pub fn refactorize(
        &mut self,
        values: &(impl Entries<F> + ?Sized),
        options: &Options,
        quality: &mut Quality,
    ) -> Result<(), NumericError> {
        self.renew(values, None, options, quality)
    }

    /// As [`refactorize`](Self::refactorize) for `values` of which only the entries `changed`, numbers in the order of the plan,
    /// may differ from those that were factorized last: the same factors and the same `quality`, bit for bit, for the work
    /// on what depends on these entries. [`refactorized_part`](Self::refactorized_part) tells how much that was: all of it in
    /// the first such call, after a call that failed, and where small pivots are replaced.
    ///
    /// # Errors
    ///
    /// As [`refactorize`](Self::refactorize).
    ///
    /// # Panics
    ///
    /// As [`refactorize`](Self::refactorize), and if the numbers do not ascend or there is no such entry.
    #[track_caller]
    pub fn refactorize_changed(
        &mut self,
        values: &(impl Entries<F> + ?Sized),
        changed: &[u32],
        options: &Options,
        quality: &mut Quality,
    ) -> Result<(), NumericError> {
        assert!(changed.is_sorted_by(|a, b| a < b), "entries that ascend");
        let last = changed.last().map(|&last| last as usize);
        assert!(last < Some(self.plan.source.len()), "entries of the plan");
        self.renew(values, Some(changed), options, quality)
    }

    /// The predicted operations of the last refactorization over those of all columns and fronts; 1 before the first.
    pub fn refactorized_part(&self) -> f64 {
        self.part
    }

    /// As [`renew_once`](Self::renew_once). Where what is kept for partial refactorizations leaves too little memory, it is
    /// given up.
    #[track_caller]
    fn renew(
        &mut self,
        values: &(impl Entries<F> + ?Sized),
        changed: Option<&[u32]>,
        options: &Options,
        quality: &mut Quality,
    ) -> Result<(), NumericError> {
        let outcome = self.renew_once(values, changed, options, quality);
        if !matches!(outcome, Err(NumericError::OutOfMemory { .. })) {
            return outcome;
        }
        let mut was_kept = self.columns.keep_nothing();
        for front in &mut self.fronts {
            was_kept |= front.keep_nothing();
        }
        if was_kept {
            return self.renew_once(values, None, options, quality);
        }
        outcome
    }

    /// Factorizes other values; if entries `changed`, the others are as before.
    #[track_caller]
    fn renew_once(
        &mut self,
        values: &(impl Entries<F> + ?Sized),
        changed: Option<&[u32]>,
        options: &Options,
        quality: &mut Quality,
    ) -> Result<(), NumericError> {
        let plan = &self.plan;
        let count = plan.source.len();
        assert_eq!(values.count(), count, "one value for each entry");
        let max_b = options.max_b(values);
        *quality = Quality::default();
        if self.room.capacity() == 0 {
            self.memory.grow(plan.room_bytes::<F>())?;
        }
        let is_current = std::mem::replace(&mut self.is_current, false);
        // What is small, and replaced, depends on all of B.
        let some = changed.filter(|_| is_current && max_b.is_none() && options.ranks.is_none());
        let [mut done, mut all] = [0.0; 2];
        for (front, lu) in plan.fronts.iter().zip(&mut self.fronts) {
            all += front.symbolic.flops();
            let options = front_options(options, max_b, None);
            let entries = front.entries();
            let of_block = some.map(|changed| within(changed, entries.clone()));
            if of_block.is_some_and(<[u32]>::is_empty) {
                quality.merge(&lu.keep(), |j| front.first_column + j);
                continue;
            }
            load_range_unless(&options.cancel, values, entries.clone(), &mut self.room)?;
            let measured = match of_block {
                Some(changed) => {
                    let first = entries.start as u32;
                    let changed: Vec<u32> = changed.iter().map(|&entry| entry - first).collect();
                    lu.refactorize_changed(&self.room, &changed, &options)
                }
                None => lu.refactorize(&self.room, &options),
            };
            let measured = measured.map_err(|e| from_fronts(e, front.first_column))?;
            done += lu.flops_done()[0];
            quality.merge(&measured, |j| front.first_column + j);
        }
        let mut measured = Quality::default();
        let renewal = Renewal {
            pivots: options.pivots,
            threads: options.threads,
            memory: &options.memory,
            cancel: &options.cancel,
        };
        if !is_current {
            self.columns.forget_measured();
        }
        let in_columns = changed.map(|changed| within(changed, 0..plan.columns.nnz()));
        self.columns
            .refactorize_first(&plan.columns, values, in_columns, renewal, &mut measured)
            .map_err(|e| plan.in_terms_of_b(e))?;
        quality.merge(&measured, |j| plan.column_of(j));
        let first_above = count - plan.above.nnz();
        match some {
            Some(changed) => {
                for &entry in within(changed, first_above..count) {
                    let at = entry as usize - first_above;
                    values.load(entry as usize, &mut self.above[at..=at]);
                }
            }
            None => values.load(first_above, &mut self.above),
        }
        // A multiplication of a column goes with a subtraction.
        let [done_in_columns, all_in_columns] = self.columns.refactorized_work();
        done += 2.0 * done_in_columns as f64;
        all += 2.0 * all_in_columns as f64;
        self.part = if all > 0.0 { done / all } else { 1.0 };
        self.is_current = true;
        Ok(())
    }

    /// Row i of the factors is row `row_perm[i]` of B; `None`: rows stay where they are. The fronts keep
    /// their exchanges to themselves.
    pub fn row_perm(&self) -> Option<RowPerm> {
        self.plan.final_rows(self.columns.row_perm())
    }

    /// Entries of L with its unit diagonal.
    pub fn lnz(&self) -> u64 {
        let fronts: u64 = self.fronts.iter().map(FrontalLu::lnz).sum();
        fronts + (self.columns.lnz() + self.columns.n()) as u64
    }

    /// Entries of U with its diagonal, and those above the diagonal blocks.
    pub fn unz(&self) -> u64 {
        let fronts: u64 = self.fronts.iter().map(FrontalLu::unz).sum();
        fronts + (self.columns.unz() + self.columns.n() + self.above.len()) as u64
    }

    /// Floating-point operations of the factorization.
    pub fn flops(&self) -> f64 {
        let fronts: f64 = self
            .plan
            .fronts
            .iter()
            .map(|front| front.symbolic.flops())
            .sum();
        fronts + self.columns.flops() as f64
    }

    /// Bytes that the first solve adds.
    pub fn solve_bytes(&self) -> u64 {
        self.columns.solve_bytes()
    }

    /// Bytes that a solve with so many right-hand sides works in.
    pub fn solve_scratch_bytes(&self, nrhs: usize, threads: usize) -> u64 {
        let of_fronts = self
            .fronts
            .iter()
            .map(|lu| lu.solve_scratch_bytes(nrhs, threads));
        let of_columns = if nrhs > 1 {
            4 * bytes_of::<F>(self.columns.n())
        } else {
            0
        };
        of_fronts.max().unwrap_or(0).max(of_columns)
    }

    /// Bytes of the factors.
    pub fn bytes(&self) -> u64 {
        let fronts: u64 = self.fronts.iter().map(FrontalLu::bytes).sum();
        let moved = self.above_rows.as_ref().map_or(0, Vec::len);
        let held = size_of_val(&*self.above) + 4 * moved + size_of_val(&*self.room);
        fronts + self.columns.bytes() + held as u64
    }

    /// Seconds that a refactorization is predicted to take on one thread, to be compared with what it
    /// costs to share it.
    pub fn refactorize_seconds(&self) -> f64 {
        let fronts = self.plan.fronts.iter();
        let fronts: f64 = fronts.map(|front| front.symbolic.seconds()).sum();
        fronts + self.columns.flops() as f64 * 0.5e-9 + self.columns.lnz() as f64 * 2e-9
    }

    /// Likewise for one solve.
    pub fn solve_seconds(&self) -> f64 {
        const PER_ENTRY: f64 = 1e-9;
        let entries: u64 = self.fronts.iter().map(FrontalLu::factor_entries).sum();
        entries as f64 * PER_ENTRY
    }

    /// The engines that were used.
    pub fn code_path(&self) -> Vec<&'static str> {
        let mut path = Vec::with_capacity(2);
        if self.columns.n() > 0 {
            path.push("numeric: left-looking columns");
        }
        if !self.fronts.is_empty() {
            path.push("numeric: multifrontal");
        }
        path
    }

    /// Calls `visit` with every pivot.
    pub fn for_each_pivot(&self, mut visit: impl FnMut(F)) {
        self.columns.pivots().iter().for_each(|&pivot| visit(pivot));
        for front in &self.fronts {
            front.pivots().for_each(|(_, _, pivot)| visit(pivot));
        }
    }

    /// Whether the exchanges of rows and columns inside the fronts are an odd permutation.
    pub fn exchanges_are_odd(&self) -> bool {
        self.fronts.iter().fold(false, |odd, front| {
            let mut column_of = vec![0; front.n()];
            for (row, col, _) in front.pivots() {
                column_of[row] = col as u32;
            }
            let exchanges = Permutation::new(column_of)
                .unwrap_or_else(|e| unreachable!("every row and column has one pivot: {e}"));
            odd ^ exchanges.is_odd()
        })
    }

    /// For each column of B, at least the largest weight of a row of the factors in which |L|·|U| has an entry. That depends
    /// on where entries are, not on their values.
    ///
    /// # Panics
    ///
    /// If there is not one weight for each row.
    #[track_caller]
    pub fn largest_weights(&self, rows: &[f64]) -> Vec<f64> {
        assert_eq!(rows.len(), self.plan.n, "one weight for each row");
        let mut largest = Vec::with_capacity(rows.len());
        for step in &self.plan.steps {
            let rows = &rows[step.columns.clone()];
            match step.kind {
                Kind::Singletons(_) => largest.extend(rows),
                Kind::Columns(first) => {
                    let block = first..first + rows.len();
                    largest.extend(self.columns.largest_weights(block, rows));
                }
                Kind::Front(front) => largest.extend(self.fronts[front].largest_weights(rows)),
            }
        }
        largest
    }

    /// max over columns k of weights(k)·‖ |L|·|U|·e_k ‖₁, which the last factorization measured.
    ///
    /// # Panics
    ///
    /// If there is not one weight for each column.
    #[track_caller]
    pub fn weighted_product(&self, weights: &[f64]) -> f64 {
        assert_eq!(weights.len(), self.plan.n, "one weight for each column");
        let mut most = 0.0;
        for step in &self.plan.steps {
            let weights = &weights[step.columns.clone()];
            let of_step = match step.kind {
                Kind::Singletons(first) | Kind::Columns(first) => {
                    let products = self.columns.products()[first..].iter();
                    most_of(products.copied(), weights)
                }
                Kind::Front(front) => {
                    let products = self.fronts[front].products().iter();
                    most_of(products.map(|&product| product.to_f64()), weights)
                }
            };
            most = larger(most, of_step);
        }
        most
    }

    /// max over columns k of cols(k)·Σ_i rows(i)·(|L|·|U|)(i,k), with weights for the rows of the factors and the columns of
    /// B; NaN if that is not known. Blocks of one column and the entries above the blocks, which are those of B, do not
    /// count.
    ///
    /// With the inverse scale factors of A it tells how far solutions can be from those of A, where its rows and columns
    /// are of other sizes than those of B.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    ///
    /// # Panics
    ///
    /// If there is not one weight for each row and column.
    #[track_caller]
    pub fn product_norm(
        &self,
        rows: &[f64],
        cols: &[f64],
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<f64, Cancelled> {
        let n = self.plan.n;
        assert_eq!(
            [rows.len(), cols.len()],
            [n, n],
            "one weight for each row and column"
        );
        let mut norm = 0.0;
        for step in &self.plan.steps {
            let (rows, cols) = (&rows[step.columns.clone()], &cols[step.columns.clone()]);
            let of_block = match step.kind {
                Kind::Singletons(_) => continue,
                Kind::Columns(first) => {
                    let block = first..first + step.columns.len();
                    self.columns.product_norm(block, rows, cols, cancel)?
                }
                Kind::Front(front) => {
                    self.fronts[front].product_norm(rows, cols, threads, cancel)?
                }
            };
            norm = larger(norm, of_block);
        }
        Ok(norm)
    }

    /// The factors of the blocks that the column engine has, one behind the other: of all of B if it has all of them, with rows and
    /// columns in the places that they have there.
    pub fn columns(&self) -> &ColumnLu<F> {
        &self.columns
    }

    /// The entries above the diagonal blocks in column j of B: their rows among those of the factors, and their values.
    pub fn above(&self, j: usize) -> impl Iterator<Item = (usize, F)> + '_ {
        let range = self.plan.above.range(j);
        let rows = self.above_rows.as_deref().unwrap_or(self.plan.above.idx());
        rows[range.clone()]
            .iter()
            .zip(&self.above[range])
            .map(|(&i, &value)| (i as usize, value))
    }

    /// Replaces right-hand sides of B, their rows in the order of the factors, by solutions: `nrhs`
    /// vectors of length n, one after another. Stops soon after `cancel` is raised; `x` is then of no use.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    ///
    /// # Panics
    ///
    /// If `x` is not of length n · nrhs.
    #[track_caller]
    pub fn solve(
        &self,
        x: &mut [F],
        nrhs: usize,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let n = self.plan.n;
        assert_eq!(x.len(), n * nrhs, "right-hand sides of another length");
        for (number, step) in self.plan.steps.iter().rev().enumerate() {
            if number.is_multiple_of(STEPS) {
                cancel.check()?;
            }
            let start = step.columns.start;
            match step.kind {
                Kind::Singletons(first) => {
                    let pivots = &self.columns.pivots()[first..];
                    for x in x.chunks_exact_mut(n) {
                        for j in step.columns.clone().rev() {
                            let xj = x[j].quotient(pivots[j - start]);
                            x[j] = xj;
                            self.above(j).for_each(|(i, value)| x[i] -= value * xj);
                        }
                    }
                    continue;
                }
                Kind::Columns(first) => {
                    let block = first..first + step.columns.len();
                    self.columns
                        .solve_within(block, &mut x[start - first..], n, nrhs, cancel)?;
                }
                Kind::Front(front) => {
                    let x = &mut x[start..];
                    self.fronts[front].solve_within(x, n, nrhs, threads, cancel)?;
                }
            }
            if self.above.is_empty() {
                continue;
            }
            for x in x.chunks_exact_mut(n) {
                for j in step.columns.clone() {
                    let xj = x[j];
                    self.above(j).for_each(|(i, value)| x[i] -= value * xj);
                }
            }
        }
        Ok(())
    }

    /// Replaces right-hand sides of Bᵀ by solutions, whose entries are in the order of the factors'
    /// rows; otherwise as [`solve`](Self::solve).
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    ///
    /// # Panics
    ///
    /// If `x` is not of length n · nrhs.
    #[track_caller]
    pub fn solve_transpose(
        &self,
        x: &mut [F],
        nrhs: usize,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<(), Cancelled> {
        let n = self.plan.n;
        assert_eq!(x.len(), n * nrhs, "right-hand sides of another length");
        for (number, step) in self.plan.steps.iter().enumerate() {
            if number.is_multiple_of(STEPS) {
                cancel.check()?;
            }
            let start = step.columns.start;
            if !self.above.is_empty() {
                let pivots = match step.kind {
                    Kind::Singletons(first) => Some(&self.columns.pivots()[first..]),
                    Kind::Columns(_) | Kind::Front(_) => None,
                };
                for x in x.chunks_exact_mut(n) {
                    for j in step.columns.clone() {
                        let sum = self
                            .above(j)
                            .fold(x[j], |sum, (i, value)| sum - value * x[i]);
                        x[j] = pivots.map_or(sum, |pivots| sum.quotient(pivots[j - start]));
                    }
                }
                if pivots.is_some() {
                    continue;
                }
            }
            match step.kind {
                Kind::Singletons(first) | Kind::Columns(first) => {
                    let block = first..first + step.columns.len();
                    let x = &mut x[start - first..];
                    self.columns
                        .solve_transpose_within(block, x, n, nrhs, cancel)?;
                }
                Kind::Front(front) => {
                    let x = &mut x[start..];
                    self.fronts[front].solve_transpose_within(x, n, nrhs, threads, cancel)?;
                }
            }
        }
        Ok(())
    }
}

/// Those of some ascending numbers that are in a range.
fn within(numbers: &[u32], range: Range<usize>) -> &[u32] {
    let below = |end: usize| numbers.partition_point(|&number| (number as usize) < end);
    &numbers[below(range.start)..below(range.end)]
}

/// The largest product of two numbers in the same place; NaN if one is.
fn most_of(numbers: impl Iterator<Item = f64>, weights: &[f64]) -> f64 {
    let products = numbers.zip(weights).map(|(number, weight)| number * weight);
    products.fold(0.0, larger)
}

/// Options of the fronts for a block; `max_b` is the largest magnitude in B.
fn front_options(
    options: &Options,
    max_b: Option<f64>,
    max_bytes: Option<u64>,
) -> luge_frontal::Options {
    let threshold = luge_frontal::Options::THRESHOLD;
    luge_frontal::Options {
        pivots: options.pivots.in_fronts(threshold),
        expected: None,
        form: luge_sparse::Form::Symmetric,
        max_b,
        threads: options.threads,
        max_bytes,
        memory: options.memory.clone(),
        cancel: options.cancel.clone(),
        ranks: options.ranks.clone(),
    }
}

fn column_options(options: &Options, max_bytes: Option<u64>, expected: usize) -> columns::Options {
    columns::Options {
        pivots: options.pivots,
        threads: options.threads,
        expected: (expected, expected),
        max_bytes,
        memory: options.memory.clone(),
        cancel: options.cancel.clone(),
    }
}
