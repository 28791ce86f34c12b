//! LU of a block triangular matrix: the driver of the two engines.
//!
//! B is upper block triangular, as the ordering left it. Only the diagonal blocks are factorized,
//! each by the engine that is predicted to be faster for it: [`columns`](super::columns) where a
//! column has few entries, the fronts of `luge-frontal` where there are many operations per entry.
//! The entries above the diagonal blocks stay as they are, and a solve goes through the blocks from
//! the last to the first (Duff and Reid 1978; Davis and Palamadai Natarajan 2010 on KLU).
//!
//! A [`BlockPlan`] belongs to a pattern and says which entry of A goes where; a [`BlockLu`] has the
//! factors of one set of values.

mod lu;
mod parts;
mod whole;

pub use lu::{BlockLu, Options};
pub use parts::{BlockParts, BlockPartsError, Split};
pub use whole::{Triangle, Whole};

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use luge_frontal::{FrontalError, FrontalScalar, Symbolic, TreeOptions};
use luge_sparse::etree::EliminationForest;
use luge_sparse::{
    CancelFlag, Cancelled, CompressedPattern, Limits, RealScalar, Reservation, RowPerm, bytes_of,
    to_u32,
};

use super::columns::{ColumnLu, Subtrees};
use crate::error::NumericError;

/// Which engine factorizes the diagonal blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// For each block the one that is predicted to be faster.
    #[default]
    Auto,
    /// Column by column.
    Columns,
    /// In fronts, every block of more than one column.
    Fronts,
}

/// Where the entries of a block triangular matrix go, and which engine takes which block.
#[derive(Debug)]
pub struct BlockPlan {
    n: usize,
    /// The blocks in their order, runs of blocks of one column taken together.
    steps: Vec<Step>,
    /// The blocks for the column engine, one behind the other.
    columns: CompressedPattern,
    /// What of them threads factorize side by side; looked for when it pays.
    subtrees: OnceLock<Option<Subtrees>>,
    /// Floating-point operations that they are predicted to take; 0: unknown.
    flops: f64,
    /// Whether threads have factorized with this plan.
    was_used: AtomicBool,
    fronts: Vec<Front>,
    /// The entries above the diagonal blocks, by columns of B.
    above: CompressedPattern,
    /// For each entry, in the order of the plan (columns, fronts, above), its number in B.
    source: Vec<u32>,
    /// Entries that L and U of the column engine are each expected to have; 0: unknown.
    expected: usize,
    /// What is reserved for all of this but the trees.
    memory: Reservation,
}

/// Consecutive columns of B that are solved together.
#[derive(Debug, Clone)]
struct Step {
    columns: Range<usize>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Blocks of one column each, from this column of the column engine on.
    Singletons(usize),
    /// One block, from this column of the column engine on.
    Columns(usize),
    /// One block, by its number among the fronts.
    Front(usize),
}

#[derive(Debug)]
struct Front {
    symbolic: Arc<Symbolic>,
    first_column: usize,
    /// Where its columns begin in the order of the plan, and where the last one ends.
    ptr: Vec<u32>,
}

impl Front {
    fn entries(&self) -> Range<usize> {
        self.ptr[0] as usize..self.ptr[self.ptr.len() - 1] as usize
    }

    fn column_counts(&self) -> impl Iterator<Item = usize> + '_ {
        self.ptr.windows(2).map(|ends| (ends[1] - ends[0]) as usize)
    }
}

/// What a plan tells of the blocks that go to the fronts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FrontSizes {
    /// Columns in them.
    pub columns: usize,
    /// Entries of L+U, the diagonal counted once, without what delayed pivots add.
    pub entries: u64,
    /// Floating-point operations.
    pub flops: f64,
    /// Fronts.
    pub num_supernodes: usize,
    /// Order of the largest front.
    pub max_front: usize,
}

/// What is known of the factors of a diagonal block before they are computed.
#[derive(Debug, Clone, Copy)]
pub struct Predicted<'a> {
    /// Entries of L+U, the diagonal counted once.
    pub entries: u64,
    /// Floating-point operations.
    pub flops: f64,
    /// The elimination forest of the block and its transpose, of which its columns are a postorder.
    pub forest: Option<&'a EliminationForest>,
}

impl Predicted<'_> {
    fn is_for_fronts(&self) -> bool {
        self.flops >= OPERATIONS_PER_ENTRY * self.entries as f64
    }
}

/// Blocks below this order go to the column engine unless fronts are forced: their trees cost more
/// than they save.
const MIN_FRONT_BLOCK: usize = 32;

/// `Auto` takes fronts from so many operations per entry of L+U on. Below, dense kernels have too
/// little to do to make up for assembling fronts, for the zeros that they pad columns with, and for the
/// gathering in solves. Measured on circuits, power flow and grids: where a block has 45 operations an
/// entry, both engines factorize equally fast, and columns refactorize and solve faster.
const OPERATIONS_PER_ENTRY: f64 = 45.0;

/// Columns between two looks at the cancel flag.
const STRIDE: usize = 1 << 12;

/// Seconds that it takes to find the subtrees that threads factorize side by side, for each entry of B; and seconds of a
/// factorization by one thread, for each column, each entry of L and U and each operation. All roughly, on one core of a Xeon.
const SECONDS_TO_FIND: f64 = 20e-9;
const SECONDS_PER_COLUMN: f64 = 100e-9;
const SECONDS_PER_ENTRY: f64 = 15e-9;
const SECONDS_PER_OPERATION: f64 = 0.5e-9;

/// Threads whose time a first factorization by subtrees saves at most, by and large: columns above subtrees are not shared.
const THREADS_OF_USE: usize = 4;

impl BlockPlan {
    /// Plans B, given by columns, whose diagonal blocks begin at the columns `block_ptr` (with n at
    /// its end); no entry lies below them. A block of more than one column goes to the fronts if
    /// they are predicted to be faster, or if `engine` demands it. `predicted` tells what is known of
    /// the factors of the block of a number; what is needed and not known is found out. With `threads` above 1, those of the
    /// current rayon pool share some of it; the plan is the same.
    ///
    /// # Errors
    ///
    /// [`NumericError::IndexOverflow`] from 2³² entries on; [`NumericError::OutOfMemory`];
    /// [`NumericError::Cancelled`].
    ///
    /// # Panics
    ///
    /// If `block_ptr` does not go from 0 to n, or an entry lies below the diagonal blocks.
    #[track_caller]
    pub fn new<'a>(
        cols: &CompressedPattern,
        block_ptr: &[usize],
        engine: Engine,
        predicted: impl Fn(usize) -> Option<Predicted<'a>>,
        threads: usize,
        limits: &Limits,
    ) -> Result<Self, NumericError> {
        Self::with_engines(cols, block_ptr, |_| engine, predicted, threads, limits)
    }

    /// As [`new`](Self::new), where `engine_of` tells of each block what is demanded of it.
    #[track_caller]
    fn with_engines<'a>(
        cols: &CompressedPattern,
        block_ptr: &[usize],
        engine_of: impl Fn(usize) -> Engine,
        predicted: impl Fn(usize) -> Option<Predicted<'a>>,
        threads: usize,
        limits: &Limits,
    ) -> Result<Self, NumericError> {
        let cancel = &limits.cancel;
        let n = cols.major_dim();
        assert_eq!(n, cols.minor_dim(), "only square matrices are factorized");
        assert_eq!(
            (block_ptr.first(), block_ptr.last()),
            (Some(&0), Some(&n)),
            "blocks cover the columns"
        );
        to_u32(cols.nnz(), "number of entries")?;

        let mut of_trees = Reservation::default();
        let mut steps: Vec<Step> = Vec::new();
        let mut trees = Vec::new();
        let mut num_local = 0;
        let mut expected = 0;
        let mut flops = 0.0;
        for (number, ends) in block_ptr.windows(2).enumerate() {
            if number.is_multiple_of(64) {
                cancel.check()?;
            }
            let columns = ends[0]..ends[1];
            let known = predicted(number);
            let singleton = columns.len() == 1;
            let engine = engine_of(number);
            let may_take_fronts = match engine {
                Engine::Columns => false,
                Engine::Fronts => !singleton,
                Engine::Auto => {
                    columns.len() >= MIN_FRONT_BLOCK
                        && known.is_none_or(|known| known.is_for_fronts())
                }
            };
            let tree = if may_take_fronts {
                // Where it is not all of B its lists grow, and the old ones are there until they have.
                let is_part = columns.len() < n;
                let entries = cols.range(columns.end - 1).end - cols.range(columns.start).start;
                let bytes = 8 * (columns.len() + 1) + 4 * entries;
                let mut of_block = limits
                    .memory
                    .reserve(if is_part { 4 * bytes } else { bytes } as u64)?;
                let block = Arc::new(diagonal_block(cols, columns.clone()));
                of_block.shrink_to(8 * (columns.len() as u64 + 1) + 4 * block.nnz() as u64);
                let options = TreeOptions::default();
                let forest = known.and_then(|known| known.forest);
                let tree = match forest {
                    Some(forest) => {
                        Symbolic::analyze_posted_within(block, forest, &options, threads, limits)
                    }
                    None => Symbolic::analyze_within(block, &options, limits),
                };
                let tree = tree.map_err(|e| from_fronts(e, columns.start))?;
                let found = Predicted {
                    entries: tree.factor_entries(),
                    flops: tree.flops(),
                    forest,
                };
                let serves = engine == Engine::Fronts || found.is_for_fronts();
                serves.then(|| {
                    of_trees.absorb(of_block);
                    tree
                })
            } else {
                None
            };
            if let Some(tree) = tree {
                steps.push(Step {
                    columns,
                    kind: Kind::Front(trees.len()),
                });
                trees.push(tree);
                continue;
            }
            expected += known.map_or(0, |known| known.entries);
            flops += known.map_or(0.0, |known| known.flops);
            match steps.last_mut() {
                Some(Step {
                    columns: run,
                    kind: Kind::Singletons(_),
                }) if singleton => run.end = columns.end,
                _ => steps.push(Step {
                    columns: columns.clone(),
                    kind: if singleton {
                        Kind::Singletons(num_local)
                    } else {
                        Kind::Columns(num_local)
                    },
                }),
            }
            num_local += columns.len();
        }
        cancel.check()?;
        // Starts of columns of each kind, which entries are in fronts, and the three lists of entries.
        let (n_, nnz) = (n as u64, cols.nnz() as u64);
        let step_bytes = 2 * bytes_of::<Step>(steps.capacity());
        let mut memory = limits.memory.reserve(32 * n_ + 16 * nnz + step_bytes)?;
        let mut plan = Self::split(cols, block_ptr, steps, trees, num_local, cancel)?;
        memory.shrink_to(plan.own_bytes());
        memory.absorb(of_trees);
        plan.memory = memory;
        // Bounds for unsymmetric blocks can be far too large.
        plan.expected = (expected as usize / 2).min(16 * cols.nnz());
        plan.flops = flops;
        Ok(plan)
    }

    /// Sends each entry to its engine, or to those above the blocks.
    fn split(
        cols: &CompressedPattern,
        block_ptr: &[usize],
        steps: Vec<Step>,
        trees: Vec<Symbolic>,
        num_local: usize,
        cancel: &CancelFlag,
    ) -> Result<Self, NumericError> {
        let n = cols.major_dim();
        let mut local = Parts::with_capacity(num_local, cols.nnz());
        let mut above = Parts::with_capacity(n, cols.nnz().min(FEW_ENTRIES));
        let mut in_fronts: Vec<u32> = Vec::new();
        if !trees.is_empty() {
            in_fronts.reserve_exact(cols.nnz());
        }
        let mut fronts: Vec<Front> = Vec::with_capacity(trees.len());
        let mut trees = trees.into_iter();
        let mut blocks = block_ptr.windows(2).map(|ends| ends[0]..ends[1]);
        for step in &steps {
            let mut ptr = Vec::new();
            if let Kind::Front(_) = step.kind {
                ptr.reserve_exact(step.columns.len() + 1);
                ptr.push(in_fronts.len() as u32);
            }
            let mut block = 0..0;
            for j in step.columns.clone() {
                if j.is_multiple_of(STRIDE) {
                    cancel.check()?;
                }
                while j >= block.end {
                    block = blocks
                        .next()
                        .unwrap_or_else(|| unreachable!("the blocks cover the columns"));
                }
                let (range, rows) = (cols.range(j), cols.line(j));
                let inside = range.start + rows.partition_point(|&i| (i as usize) < block.start);
                assert!(
                    rows.last().is_none_or(|&i| (i as usize) < block.end),
                    "column {j} has an entry below its diagonal block"
                );
                above.push_line(cols, range.start..inside, 0);
                match step.kind {
                    Kind::Front(_) => {
                        in_fronts.extend(inside as u32..range.end as u32);
                        ptr.push(in_fronts.len() as u32);
                    }
                    Kind::Singletons(first) | Kind::Columns(first) => {
                        let shift = step.columns.start - first;
                        local.push_line(cols, inside..range.end, shift);
                    }
                }
            }
            if let Kind::Front(_) = step.kind
                && let Some(tree) = trees.next()
            {
                fronts.push(Front {
                    symbolic: Arc::new(tree),
                    first_column: step.columns.start,
                    ptr,
                });
            }
        }
        cancel.check()?;
        let shift = local.source.len() as u32;
        for front in &mut fronts {
            front.ptr.iter_mut().for_each(|p| *p += shift);
        }
        let mut source = local.source;
        source.extend(in_fronts);
        source.extend(above.source);
        for idx in [&mut local.idx, &mut above.idx] {
            if idx.capacity() > idx.len() + (idx.len() / 8).max(FEW_ENTRIES) {
                idx.shrink_to_fit();
            }
        }
        // SAFETY: each line is a part of a sorted one, its rows less what they are all at least and
        // after that below the number of columns, which the assertion above saw to.
        let pattern =
            |minor, ptr, idx| unsafe { CompressedPattern::new_unchecked(minor, ptr, idx) };
        Ok(Self {
            n,
            steps,
            columns: pattern(num_local, local.ptr, local.idx),
            subtrees: OnceLock::new(),
            flops: 0.0,
            was_used: AtomicBool::new(false),
            fronts,
            above: pattern(n, above.ptr, above.idx),
            source,
            expected: 0,
            memory: Reservation::default(),
        })
    }

    /// Order of B.
    pub fn n(&self) -> usize {
        self.n
    }

    /// For each entry in the order of the plan, its number among the entries of B by columns.
    pub fn source(&self) -> &[u32] {
        &self.source
    }

    /// Sizes of what goes to the fronts.
    pub fn front_sizes(&self) -> FrontSizes {
        let mut sizes = FrontSizes::default();
        for Front { symbolic, .. } in &self.fronts {
            let tree = symbolic.tree();
            sizes.columns += tree.n();
            sizes.entries += symbolic.factor_entries();
            sizes.flops += symbolic.flops();
            sizes.num_supernodes += tree.num_supernodes();
            sizes.max_front = sizes.max_front.max(tree.max_front());
        }
        sizes
    }

    /// Bytes that factors of type `F` with so many `entries` of L and U, and the memory to find them,
    /// are predicted to take with so many threads.
    pub fn predicted_bytes<F: FrontalScalar>(&self, entries: u64, threads: usize) -> u64 {
        let in_fronts: u64 = self
            .fronts
            .iter()
            .map(|front| front.symbolic.peak_bytes(size_of::<F>(), threads))
            .sum();
        let in_columns = entries.saturating_sub(self.front_sizes().entries);
        in_fronts + ColumnLu::<F>::estimate_bytes(self.columns.major_dim(), in_columns, 0)
    }

    /// Seconds that a factorization is predicted to take on one thread, to be compared with what it
    /// costs to share it.
    pub fn seconds(&self) -> f64 {
        const PER_ENTRY: f64 = 20e-9;
        let fronts: f64 = self
            .fronts
            .iter()
            .map(|front| front.symbolic.seconds())
            .sum();
        fronts + self.columns.nnz() as f64 * PER_ENTRY
    }

    /// Bytes that the plan holds.
    pub fn bytes(&self) -> u64 {
        let trees: u64 = self.fronts.iter().map(|front| front.symbolic.bytes()).sum();
        self.own_bytes() + trees
    }

    /// Those without the trees. Lists of entries may have an eighth of room.
    fn own_bytes(&self) -> u64 {
        let pattern = |p: &CompressedPattern| 8 * p.ptr().len() as u64 + 9 * p.nnz() as u64 / 2;
        let starts: usize = self
            .fronts
            .iter()
            .map(|front| 4 * front.ptr.len() + 64)
            .sum();
        let lists =
            bytes_of::<u32>(self.source.capacity()) + bytes_of::<Step>(self.steps.capacity());
        pattern(&self.columns) + pattern(&self.above) + starts as u64 + lists + 4096
    }

    /// ‖B‖₁, of absolute values, for values in the order of the plan.
    pub fn norm1<F: FrontalScalar>(&self, values: &[F]) -> f64 {
        let mut sums = vec![0.0; self.n];
        let mut rest = values.iter().map(|v| v.modulus().to_f64());
        let mut add = |column: usize, count: usize| {
            sums[column] += rest.by_ref().take(count).sum::<f64>();
        };
        for step in &self.steps {
            if let Kind::Singletons(first) | Kind::Columns(first) = step.kind {
                for j in step.columns.clone() {
                    add(j, self.columns.line(first + j - step.columns.start).len());
                }
            }
        }
        for front in &self.fronts {
            for (j, count) in front.column_counts().enumerate() {
                add(front.first_column + j, count);
            }
        }
        for (j, line) in self.above.lines().enumerate() {
            add(j, line.len());
        }
        sums.into_iter().fold(0.0, f64::max)
    }

    /// Replaces the numbers in [`source`](Self::source) by what `map` has for them.
    pub fn compose(&mut self, map: impl Fn(u32) -> u32) {
        self.source.iter_mut().for_each(|p| *p = map(*p));
    }
}

impl BlockPlan {
    /// Bytes of the entries of the front with the most. A vector that grows holds its old entries, too.
    fn room_bytes<F>(&self) -> u64 {
        let entries = self.fronts.iter().map(|front| front.entries().len());
        let most = bytes_of::<F>(entries.max().unwrap_or(0));
        if self.fronts.len() > 1 {
            3 * most
        } else {
            most
        }
    }

    /// Finds what threads factorize side by side, where already one factorization makes up for it: for whoever has a thread to
    /// spare.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    pub fn prepare(&self, threads: usize, cancel: &CancelFlag) -> Result<(), Cancelled> {
        if self.saves_time(threads) {
            self.find_subtrees(cancel)?;
        }
        Ok(())
    }

    /// What threads factorize side by side, if it pays to find that out: from the second factorization
    /// on, or in the first already if that takes long.
    ///
    /// # Errors
    ///
    /// [`Cancelled`].
    fn subtrees(
        &self,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<Option<&Subtrees>, Cancelled> {
        if threads == 1 {
            return Ok(None);
        }
        let again = self.was_used.swap(true, Ordering::Relaxed);
        if !again && self.subtrees.get().is_none() && !self.saves_time(threads) {
            return Ok(None);
        }
        self.find_subtrees(cancel)
    }

    fn find_subtrees(&self, cancel: &CancelFlag) -> Result<Option<&Subtrees>, Cancelled> {
        if let Some(found) = self.subtrees.get() {
            return Ok(found.as_ref());
        }
        let found = Subtrees::new(&self.columns, cancel)?;
        Ok(self.subtrees.get_or_init(|| found).as_ref())
    }

    /// Whether a factorization by so many threads is predicted to gain more from subtrees than it takes to find them.
    fn saves_time(&self, threads: usize) -> bool {
        let [columns, nnz] = [self.columns.major_dim(), self.columns.nnz()].map(|n| n as f64);
        let alone = columns * SECONDS_PER_COLUMN
            + 2.0 * self.expected as f64 * SECONDS_PER_ENTRY
            + self.flops * SECONDS_PER_OPERATION;
        let share = 1.0 / threads.clamp(1, THREADS_OF_USE) as f64;
        alone * (1.0 - share) > nnz * SECONDS_TO_FIND
    }

    /// Column of B of a column of the column engine.
    fn column_of(&self, local: usize) -> usize {
        self.steps
            .iter()
            .find_map(|step| match step.kind {
                Kind::Singletons(first) | Kind::Columns(first)
                    if (first..first + step.columns.len()).contains(&local) =>
                {
                    Some(step.columns.start + local - first)
                }
                _ => None,
            })
            .unwrap_or(local)
    }

    fn in_terms_of_b(&self, error: NumericError) -> NumericError {
        match error {
            NumericError::ZeroPivot { column } => NumericError::ZeroPivot {
                column: self.column_of(column),
            },
            NumericError::NotFinite { column } => NumericError::NotFinite {
                column: self.column_of(column),
            },
            other => other,
        }
    }

    /// The rows of B in the order of the factors, if that is another: `local` is the column engine's.
    fn final_rows(&self, local: &RowPerm) -> Option<RowPerm> {
        let is_identity = local
            .as_slice()
            .iter()
            .enumerate()
            .all(|(i, &row)| i == row as usize);
        if is_identity {
            return None;
        }
        let mut rows: Vec<u32> = (0..self.n as u32).collect();
        for step in &self.steps {
            if let Kind::Columns(first) = step.kind {
                let shift = (step.columns.start - first) as u32;
                for j in step.columns.clone() {
                    rows[j] = local.as_slice()[j - shift as usize] + shift;
                }
            }
        }
        let rows = RowPerm::new(rows)
            .unwrap_or_else(|e| unreachable!("rows move inside their blocks: {e}"));
        Some(rows)
    }

    /// The rows of the entries above the blocks, if the column engine moved any rows.
    fn final_above(&self, local: &RowPerm) -> Option<Vec<u32>> {
        let place = self.final_rows(local)?.inverse();
        let rows = self.above.idx().iter();
        Some(rows.map(|&i| place[i as usize]).collect())
    }
}

/// The error of a block whose first column is `first`.
fn from_fronts(error: FrontalError, first: usize) -> NumericError {
    match error {
        FrontalError::Singular { column } | FrontalError::ZeroPivot { column } => {
            NumericError::ZeroPivot {
                column: first + column,
            }
        }
        FrontalError::NotFinite { column } => NumericError::NotFinite {
            column: first + column,
        },
        FrontalError::OutOfMemory { asked, available } => NumericError::OutOfMemory {
            column: first,
            asked,
            available,
        },
        FrontalError::IndexOverflow(e) => NumericError::IndexOverflow(e),
        FrontalError::Cancelled(e) => NumericError::Cancelled(e),
        FrontalError::NotSquare { .. } => unreachable!("diagonal blocks are square"),
        FrontalError::NotPositiveDefinite { .. } => {
            unreachable!("LU takes pivots of either sign")
        }
    }
}

/// Room for this many entries is not worth counting them first.
const FEW_ENTRIES: usize = 256;

/// A pattern and the numbers of its entries, line by line.
struct Parts {
    ptr: Vec<u64>,
    idx: Vec<u32>,
    source: Vec<u32>,
}

impl Parts {
    fn with_capacity(lines: usize, entries: usize) -> Self {
        let mut ptr = Vec::with_capacity(lines + 1);
        ptr.push(0);
        Self {
            ptr,
            idx: Vec::with_capacity(entries),
            source: Vec::with_capacity(entries),
        }
    }

    /// Adds entries `range` of `cols` as one line, their rows counted from `first_row`.
    fn push_line(&mut self, cols: &CompressedPattern, range: Range<usize>, first_row: usize) {
        if !range.is_empty() {
            let rows = cols.idx()[range.clone()].iter();
            self.idx.extend(rows.map(|&i| i - first_row as u32));
            self.source.extend(range.start as u32..range.end as u32);
        }
        self.ptr.push(self.idx.len() as u64);
    }
}

/// The pattern of one diagonal block, its rows and columns counted from 0.
fn diagonal_block(cols: &CompressedPattern, block: Range<usize>) -> CompressedPattern {
    if block == (0..cols.major_dim()) {
        return cols.clone();
    }
    let mut part = Parts::with_capacity(block.len(), 0);
    for j in block.clone() {
        let range = cols.range(j);
        let inside = cols
            .line(j)
            .partition_point(|&i| (i as usize) < block.start);
        part.push_line(cols, range.start + inside..range.end, block.start);
    }
    CompressedPattern::new(block.len(), part.ptr, part.idx)
        .unwrap_or_else(|e| unreachable!("a part of a valid pattern is valid: {e}"))
}
