//! What the ordering phase is asked for, and what it returns.

use std::sync::Arc;

use luge_sparse::etree::EliminationForest;
use luge_sparse::{CancelFlag, ColPerm, MemoryBudget, RowPerm, Scaling};
use serde::Serialize;

use crate::cost::{Costs, Prediction, TreeCost};

/// How columns are ordered to keep fill low.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Method {
    /// Approximate minimum degree or nested dissection, whichever is predicted to factorize faster;
    /// see [`order`](crate::order()) for the rule.
    #[default]
    Auto,
    /// Approximate minimum degree on B + Bᵀ.
    Amd,
    /// Column approximate minimum degree: keeps fill low whatever rows partial pivoting chooses.
    Colamd,
    /// Nested dissection of what is left of B + Bᵀ after vertices of low degree are eliminated, on several threads.
    NestedDissection,
    /// Nested dissection of all of B + Bᵀ by METIS 5, for comparison: serial, and not stopped by a cancel flag. Needs the
    /// feature `metis`, without which it is refused with [`OrderingError::FeatureOff`](crate::OrderingError::FeatureOff); [`Auto`](Self::Auto) never takes it.
    Metis,
    /// No reordering inside the diagonal blocks.
    Natural,
    /// These permutations as they are: no matching, no block triangular form.
    User {
        /// Row permutation, new to old.
        rows: RowPerm,
        /// Column permutation, new to old.
        cols: ColPerm,
    },
}

/// Whether rows are moved to put large entries on the diagonal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matching {
    /// For pivots that are searched: rows stay where they are as long as the diagonal entries are there
    /// and are mostly large enough in their columns to be taken as pivots. Where only few entries are
    /// missing, few rows move; otherwise as `Always`. See [`order`](crate::order()) for the rule.
    #[default]
    Auto,
    /// For static pivots: the product of the diagonal is made as large as possible; without values,
    /// the diagonal is made free of zeros.
    Always,
    /// Rows keep their place, unless the block triangular form needs entries on the diagonal that are
    /// not there.
    Never,
}

/// What [`order`](crate::order()) does. Each field has a method of its name, which sets it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OrderingOptions {
    /// The fill-reducing method.
    pub method: Method,
    /// Whether rows are moved to put large entries on the diagonal.
    pub matching: Matching,
    /// Scale rows and columns: by the duals of the matching if there is one of largest product,
    /// otherwise by powers of two that bring the largest entry of every row and column to [1, 2).
    pub scaling: bool,
    /// If no matching of largest product scales: before that the logarithms of the entries of each row and column are made
    /// zero on average (Curtis and Reid 1972), which undoes any scaling of rows and columns. For entries that span hundreds of
    /// orders of magnitude.
    pub averaged: bool,
    /// Permute to block triangular form.
    pub block_triangular: bool,
    /// After a matching of largest product, [`Method::Auto`] also tries the rows in their old places
    /// if every diagonal entry, scaled with the matching's factors, is at least this large. In [0, 1];
    /// infinite: never.
    pub diagonal_threshold: f64,
    /// What the choice of a method assumes about the machine.
    pub costs: Costs,
    /// Predicts, in place of `costs`, what a factorization takes; the choice is then between trees.
    pub tree_cost: Option<Arc<dyn TreeCost>>,
    /// The elimination forest is wanted also without a `tree_cost`.
    pub(crate) keep_forest: bool,
    /// Columns that minimum degree does not eliminate before one of their neighbours.
    pub(crate) waits: Option<Arc<[bool]>>,
    /// The pattern is symmetric, and rows stay with their columns.
    pub(crate) is_symmetric: bool,
    /// 1: no other thread is used; more: candidates run in parallel on the current rayon pool where
    /// they take long. The result is the same.
    pub threads: usize,
    /// Stops the phase within milliseconds. METIS cannot be stopped: it works on a thread of its own, and the phase
    /// leaves it behind when this is raised. It goes on until it is done, and the next call of METIS in the process waits
    /// for it.
    pub cancel: CancelFlag,
    /// What nested dissection reserves of its memory, see [`PEAK_BYTES`](crate::PEAK_BYTES). [`Method::Auto`] does without it
    /// where too little is left.
    pub memory: MemoryBudget,
}

impl Default for OrderingOptions {
    fn default() -> Self {
        Self {
            method: Method::Auto,
            matching: Matching::Auto,
            scaling: true,
            averaged: false,
            block_triangular: true,
            diagonal_threshold: 0.1,
            costs: Costs::default(),
            tree_cost: None,
            keep_forest: false,
            waits: None,
            is_symmetric: false,
            threads: 1,
            cancel: CancelFlag::new(),
            memory: MemoryBudget::unlimited(),
        }
    }
}

luge_sparse::setters!(OrderingOptions {
    method: Method,
    matching: Matching,
    scaling: bool,
    averaged: bool,
    block_triangular: bool,
    diagonal_threshold: f64,
    costs: Costs,
    threads: usize,
    cancel: CancelFlag,
    memory: MemoryBudget,
});

impl OrderingOptions {
    /// Sets [`tree_cost`](field@Self::tree_cost).
    #[must_use]
    pub fn tree_cost(mut self, tree_cost: Option<Arc<dyn TreeCost>>) -> Self {
        self.tree_cost = tree_cost;
        self
    }

    /// Whether the elimination forest is of use to who asked.
    pub(crate) fn wants_forest(&self) -> bool {
        self.keep_forest || self.tree_cost.is_some()
    }
}

/// The method that ordered the columns in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MethodUsed {
    /// Approximate minimum degree, or nothing to choose (blocks of at most two columns).
    Amd,
    /// Column approximate minimum degree.
    Colamd,
    /// Nested dissection of what was left after vertices of low degree were eliminated.
    NestedDissection,
    /// Nested dissection by METIS.
    Metis,
    /// Nested dissection for some diagonal blocks, approximate minimum degree for others.
    AmdAndNestedDissection,
    /// No reordering.
    Natural,
    /// The caller's permutations.
    User,
}

/// Wall-clock seconds of the steps. Steps of several candidates, which may overlap, are summed. Steps
/// of matrices of fewer than 64 columns are not measured: reading the clock would take as long.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct OrderingSeconds {
    /// A look at the values; structural rank, the matching and the scaling.
    pub matching: f64,
    /// Block triangular form.
    pub block_triangular: f64,
    /// Approximate minimum degree of the diagonal blocks, with the patterns of those that are ordered by
    /// it first, and its prediction.
    pub amd: f64,
    /// Column approximate minimum degree, likewise.
    pub colamd: f64,
    /// Nested dissection, likewise.
    pub nested_dissection: f64,
    /// The whole phase.
    pub total: f64,
}

impl OrderingSeconds {
    pub(crate) fn add(&mut self, other: &Self) {
        self.matching += other.matching;
        self.block_triangular += other.block_triangular;
        self.amd += other.amd;
        self.colamd += other.colamd;
        self.nested_dissection += other.nested_dissection;
    }
}

/// How one diagonal block of more than one column was ordered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BlockReport {
    /// Number of the block: its columns are `block_ptr[block]..block_ptr[block + 1]`.
    pub block: usize,
    /// The method whose order was taken.
    pub method: MethodUsed,
    /// Predicted size and cost of its factors.
    pub predicted: Prediction,
}

/// The permuted and scaled matrix B = P·(Dr·A·Dc)·Q, and what it will cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Ordering {
    /// P: row `i` of B is row `row_perm[i]` of A.
    pub row_perm: RowPerm,
    /// Q: column `j` of B is column `col_perm[j]` of A.
    pub col_perm: ColPerm,
    /// Dr and Dc, in A's order.
    pub scaling: Scaling,
    /// Diagonal blocks of B, one more offset than there are blocks; no entry lies below them. One
    /// block (none if n = 0) when the block triangular form was not asked for.
    pub block_ptr: Vec<usize>,
    /// Structural rank of A: n, anything less is an error.
    pub structural_rank: usize,
    /// Whether rows were moved to put large (or any) entries on the diagonal.
    pub rows_matched: bool,
    /// log10 of the product of the matched entries, if a matching of largest product was used.
    pub log10_matching_product: Option<f64>,
    /// Whether [`Matching::Auto`] found such a matching and did not use it, for its scaling is too wild.
    pub matching_refused: bool,
    /// What ordered the columns.
    pub method_used: MethodUsed,
    /// Predicted size and cost of the factors.
    pub predicted: Prediction,
    /// The diagonal blocks of more than one column; none with the caller's permutations.
    pub blocks: Vec<BlockReport>,
    /// The elimination forest of B + Bᵀ in the diagonal blocks, of which B's columns are a postorder. Only if a
    /// [`TreeCost`] was given, and the columns were ordered by minimum degree or nested dissection.
    pub forest: Option<EliminationForest>,
    /// Without [`forest`](Self::forest), those of the diagonal blocks for which the ordering came with one, as nested dissection
    /// does, with the numbers of these blocks, ascending. The columns of each are a postorder of its forest.
    pub block_forests: Vec<(usize, EliminationForest)>,
    /// Time per step.
    pub seconds: OrderingSeconds,
}
