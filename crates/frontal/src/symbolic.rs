//! The symbolic factorization: an assembly tree, and what one kind of factorization stores on it.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

#[cfg(feature = "gpu")]
use luge_sparse::IndexOverflow;
use luge_sparse::etree::EliminationForest;
use luge_sparse::{CancelFlag, CompressedPattern, Limits, Reservation};

use crate::error::FrontalError;
use crate::layout::Layout;
use crate::schedule::Schedule;
use crate::shares::both;
use crate::solve_schedule::SolveSchedule;
use crate::storage::{Full, Storage};
use crate::totals::Totals;
use crate::tree::{Analysis, AssemblyTree, CostModel, Pairs, TreeOptions};
#[cfg(feature = "gpu")]
use crate::tree::{Gathering, Move, Structure, gathered, moved};

/// The symbolic factorization of one irreducible diagonal block (or any square matrix): its assembly tree, where the
/// factors of each front are stored, where each entry of the matrix goes, and what the factorization is predicted to
/// take.
#[derive(Debug, Clone)]
pub struct Symbolic<S: Storage = Full> {
    pub(crate) tree: AssemblyTree,
    pub(crate) layout: Layout,
    pub(crate) totals: Totals,
    /// Which fronts threads share in a solve, once that is asked for: trees that were made for a device do without.
    solves: OnceLock<SolveSchedule>,
    /// By which seconds were predicted.
    #[cfg(feature = "gpu")]
    model: CostModel,
    /// What is reserved for all of this but the pattern.
    memory: Reservation,
    storage: PhantomData<S>,
}

impl<S: Storage> Symbolic<S> {
    /// Analyzes the pattern of a square matrix B given by columns, whose order is a good elimination
    /// order of B + Bᵀ; only the order within a postorder is changed.
    ///
    /// Near linear in the entries of B and the rows of all fronts.
    ///
    /// # Errors
    ///
    /// [`FrontalError::NotSquare`]; [`FrontalError::IndexOverflow`] if a front or the entries of B
    /// exceed 32-bit positions.
    pub fn analyze(cols: &CompressedPattern, options: &TreeOptions) -> Result<Self, FrontalError> {
        Self::analyze_within(Arc::new(cols.clone()), options, &Limits::none())
    }

    /// As [`analyze`](Self::analyze), within limits. `cols` counts as reserved by the caller.
    ///
    /// # Errors
    ///
    /// As [`analyze`](Self::analyze), [`FrontalError::OutOfMemory`] and [`FrontalError::Cancelled`].
    pub fn analyze_within(
        cols: Arc<CompressedPattern>,
        options: &TreeOptions,
        limits: &Limits,
    ) -> Result<Self, FrontalError> {
        let nnz = cols.nnz();
        let at_first = Analysis::bytes(cols.major_dim(), nnz);
        let memory = limits.memory.reserve(at_first)?;
        let analysis = Analysis::new(cols, options, &limits.cancel)?;
        Self::within(analysis, nnz, options, 1, limits, memory)
    }

    /// As [`analyze_posted`](Self::analyze_posted), within limits. `cols` counts as reserved by the caller.
    ///
    /// # Errors
    ///
    /// As [`analyze`](Self::analyze), [`FrontalError::OutOfMemory`] and [`FrontalError::Cancelled`].
    ///
    /// # Panics
    ///
    /// As [`analyze_posted`](Self::analyze_posted).
    #[track_caller]
    pub fn analyze_posted_within(
        cols: Arc<CompressedPattern>,
        forest: &EliminationForest,
        options: &TreeOptions,
        threads: usize,
        limits: &Limits,
    ) -> Result<Self, FrontalError> {
        let nnz = cols.nnz();
        let at_first = Analysis::bytes(cols.major_dim(), nnz);
        let memory = limits.memory.reserve(at_first)?;
        limits.cancel.check()?;
        let (analysis, ()) = Analysis::posted(|| (cols, ()), forest, None, options, threads)?;
        Self::within(analysis, nnz, options, threads, limits, memory)
    }

    /// As [`of`](Self::of), with what `memory` has been reserved for so far.
    fn within(
        analysis: Analysis,
        nnz: usize,
        options: &TreeOptions,
        threads: usize,
        limits: &Limits,
        mut memory: Reservation,
    ) -> Result<Self, FrontalError> {
        // With the layout, and where each entry is among a column's while it is made.
        memory.grow(analysis.tree_bytes() + 16 * nnz as u64)?;
        let mut symbolic = Self::of(analysis, &options.cost, threads, &limits.cancel)?;
        // Its memory is reserved with the rest.
        symbolic.solves();
        memory.shrink_to(symbolic.own_bytes());
        symbolic.memory = memory;
        Ok(symbolic)
    }

    /// As [`analyze`](Self::analyze), for columns whose order is a postorder of the elimination forest of B + Bᵀ, which
    /// is given with the sizes of the columns of the Cholesky factor. With `threads` above 1, independent parts are done
    /// side by side on the current rayon pool; the result is the same.
    ///
    /// # Errors
    ///
    /// As [`analyze`](Self::analyze).
    ///
    /// # Panics
    ///
    /// If `forest` has another number of columns. The tree of a forest that is not B's has rows that the entries of B
    /// do not fill; where that would lead out of bounds, it panics.
    #[track_caller]
    pub fn analyze_posted(
        cols: Arc<CompressedPattern>,
        forest: &EliminationForest,
        options: &TreeOptions,
        threads: usize,
    ) -> Result<Self, FrontalError> {
        let symbolic = Self::analyze_posted_beside(|| (cols, ()), forest, options, threads);
        symbolic.map(|(symbolic, ())| symbolic)
    }

    /// As [`analyze_posted`](Self::analyze_posted), where pairs of columns stay in one tile of their front, as far as there
    /// are single columns that can stand between them.
    ///
    /// # Errors
    ///
    /// As [`analyze`](Self::analyze).
    ///
    /// # Panics
    ///
    /// As [`analyze_posted`](Self::analyze_posted), and if a pair begins with a column that there is not.
    #[track_caller]
    pub fn analyze_pairs(
        cols: Arc<CompressedPattern>,
        forest: &EliminationForest,
        pairs: Pairs<'_>,
        options: &TreeOptions,
        threads: usize,
    ) -> Result<Self, FrontalError> {
        let make = || (cols, ());
        let (analysis, ()) = Analysis::posted(make, forest, Some(pairs), options, threads)?;
        Self::of(analysis, &options.cost, threads, &CancelFlag::new())
    }

    /// As [`analyze_posted`](Self::analyze_posted), for columns that `make` makes, with something else, while the part
    /// of the analysis goes on that needs the forest alone.
    ///
    /// # Errors
    ///
    /// As [`analyze`](Self::analyze).
    ///
    /// # Panics
    ///
    /// As [`analyze_posted`](Self::analyze_posted).
    #[track_caller]
    pub fn analyze_posted_beside<R: Send>(
        make: impl FnOnce() -> (Arc<CompressedPattern>, R) + Send,
        forest: &EliminationForest,
        options: &TreeOptions,
        threads: usize,
    ) -> Result<(Self, R), FrontalError> {
        let (analysis, rest) = Analysis::posted(make, forest, None, options, threads)?;
        let symbolic = Self::of(analysis, &options.cost, threads, &CancelFlag::new())?;
        Ok((symbolic, rest))
    }

    fn of(
        analysis: Analysis,
        model: &CostModel,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<Self, FrontalError> {
        let (tree, (layout, totals)) = analysis.tree(threads, cancel, |structure| {
            let (layout, totals) = both(
                threads,
                || Layout::new::<S>(structure, threads, cancel),
                || Totals::new::<S>(structure.fronts, structure.children, model),
            );
            Ok((layout?, totals))
        })?;
        Ok(Self {
            solves: OnceLock::new(),
            tree,
            layout,
            totals,
            #[cfg(feature = "gpu")]
            model: *model,
            memory: Reservation::default(),
            storage: PhantomData,
        })
    }

    /// The symbolic factorization in which these columns are eliminated later, at the end of their front or in one above.
    /// Its memory is not reserved. With `threads` above 1, those of the current rayon pool share the work.
    ///
    /// # Errors
    ///
    /// [`IndexOverflow`] if a front exceeds 32-bit positions.
    ///
    /// # Panics
    ///
    /// If a column moves twice.
    #[cfg(feature = "gpu")]
    #[track_caller]
    pub(crate) fn moved(&self, moves: &[Move], threads: usize) -> Result<Self, IndexOverflow> {
        let made = moved(&self.tree, moves, threads, self.beside(threads));
        let (tree, made) = made.map_err(only_overflow)?;
        Ok(Self::again(tree, made, self.model))
    }

    /// The symbolic factorization in which fronts with very many children have these added up by groups, side by side, and groups by
    /// groups: each has a front without pivots. Elements are added in another order then. With `threads` above 1, those of the
    /// current rayon pool share the work.
    ///
    /// # Errors
    ///
    /// [`IndexOverflow`] if a front exceeds 32-bit positions.
    #[cfg(feature = "gpu")]
    pub fn gathered(self, gathering: &Gathering, threads: usize) -> Result<Self, IndexOverflow> {
        let made = gathered(&self.tree, gathering, threads, self.beside(threads));
        Ok(match made.map_err(only_overflow)? {
            Some((tree, made)) => Self::again(tree, made, self.model),
            None => self,
        })
    }

    /// What is made of a tree beside its relative indices.
    #[cfg(feature = "gpu")]
    fn beside(
        &self,
        threads: usize,
    ) -> impl FnOnce(Structure<'_>) -> Result<(Layout, Totals), FrontalError> + Send + use<S> {
        let model = self.model;
        move |structure| {
            let layout = Layout::new::<S>(structure, threads, &CancelFlag::new())?;
            let totals = Totals::new::<S>(structure.fronts, structure.children, &model);
            Ok((layout, totals))
        }
    }

    /// Of a tree that was made of that of another symbolic factorization.
    #[cfg(feature = "gpu")]
    fn again(tree: AssemblyTree, (layout, totals): (Layout, Totals), model: CostModel) -> Self {
        Self {
            solves: OnceLock::new(),
            tree,
            layout,
            totals,
            model,
            memory: Reservation::default(),
            storage: PhantomData,
        }
    }

    /// The assembly tree, and where factors lie and entries go.
    #[cfg(feature = "gpu")]
    pub(crate) fn tree_and_layout(&self) -> (&AssemblyTree, &Layout) {
        (&self.tree, &self.layout)
    }

    /// The assembly tree.
    pub fn tree(&self) -> &AssemblyTree {
        &self.tree
    }

    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.tree.n()
    }

    /// Number of entries of the matrix.
    pub fn nnz(&self) -> usize {
        self.tree.nnz()
    }

    /// Predicted entries of the factors, the diagonal counted once, explicit zeros included; delayed
    /// pivots add to it.
    pub fn factor_entries(&self) -> u64 {
        self.totals.factor_entries
    }

    /// Entries that the panels of all fronts have room for.
    pub fn panel_entries(&self) -> u64 {
        self.layout.slots
    }

    /// Predicted operations, those on explicit zeros included.
    pub fn flops(&self) -> f64 {
        self.totals.flops
    }

    /// Predicted bytes of the factors with entries of `value_bytes` bytes.
    pub fn factor_bytes(&self, value_bytes: usize) -> u64 {
        self.factor_bytes_of(self.layout.slots, value_bytes)
    }

    /// Those where the panels of the fronts have so many entries.
    pub(crate) fn factor_bytes_of(&self, slots: u64, value_bytes: usize) -> u64 {
        let fronts = self.tree.num_supernodes() as u64;
        slots * value_bytes as u64 + 24 * fronts + 8 * self.n() as u64
    }

    /// Predicted bytes at the peak of a factorization: factors, generated elements and working
    /// memory.
    pub fn peak_bytes(&self, value_bytes: usize, threads: usize) -> u64 {
        let elements = if threads > 1 {
            self.schedule(threads).element_entries(threads)
        } else {
            self.totals.stack_entries.iter().sum()
        };
        let in_fronts = threads.max(1) as u64 * self.totals.scratch_entries;
        // Norms of columns, and with LU the vectors of its check.
        let vectors = if S::SYMMETRIC { 1 } else { 4 };
        let scratch = in_fronts + vectors * self.n() as u64;
        self.factor_bytes(value_bytes) + (elements + scratch) * value_bytes as u64
    }

    /// Which fronts threads share in a solve.
    pub(crate) fn solves(&self) -> &SolveSchedule {
        let new = || SolveSchedule::new::<S>(&self.tree.fronts, &self.tree.children);
        self.solves.get_or_init(new)
    }

    pub(crate) fn schedule(&self, threads: usize) -> Schedule {
        Schedule::new::<S>(&self.tree, &self.totals, threads, |_| true)
    }

    /// Bytes of all this, the pattern included.
    pub fn bytes(&self) -> u64 {
        let pattern = &self.tree.pattern;
        self.own_bytes() + (4 * pattern.nnz() + 8 * pattern.ptr().len()) as u64
    }

    /// Those without the pattern.
    fn own_bytes(&self) -> u64 {
        let seconds = size_of_val(&self.totals.subtree_seconds[..]) as u64;
        let solves = self.solves.get().map_or(0, SolveSchedule::bytes);
        self.tree.bytes() + self.layout.bytes() + seconds + solves
    }

    /// Predicted seconds of a factorization in f64 on one core of the machine that
    /// [`CostModel`] was fitted on. Meant to be compared with other predictions, not with a clock.
    pub fn seconds(&self) -> f64 {
        self.totals.seconds(self.tree.fronts())
    }
}

/// The one thing that can go wrong where a tree is made of another one and nothing is cancelled.
#[cfg(feature = "gpu")]
fn only_overflow(error: FrontalError) -> IndexOverflow {
    match error {
        FrontalError::IndexOverflow(error) => error,
        error => unreachable!("a tree of a square pattern: {error}"),
    }
}
