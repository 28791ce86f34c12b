//! What the ordering of a symmetric matrix is asked for, and what it returns.

use std::sync::Arc;

use luge_sparse::etree::EliminationForest;
use luge_sparse::{CancelFlag, ColPerm, MemoryBudget, Scaling};

use crate::cost::{Costs, Prediction, TreeCost};
use crate::options::{Matching, Method, MethodUsed, OrderingSeconds};

/// How a symmetric matrix is scaled. All factors are powers of two, so that scaling a value is exact.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum SymmetricScaling {
    /// By the matching, if [`order_symmetric`](crate::order_symmetric) pairs entries by it; otherwise as `Equilibrate`.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// The largest entry of every row is brought near one: between 1/4 and 4, unless a factor had to be clamped.
    Equilibrate,
    /// As `Equilibrate`, from factors for which the logarithms of the entries of each row are zero on average (Curtis and Reid
    /// 1972), which undoes any symmetric scaling. For entries that span hundreds of orders of magnitude.
    Average,
    /// By the duals of the matching of largest product: no entry is above 2, and matched entries are in [1/2, 2]. The
    /// matching is found even if no entries are paired. As `Equilibrate` if the matrix is known to be definite, or if the
    /// factors of the matching outgrow `f64`.
    Matching,
    /// By these factors, one a row, each rounded to the nearest power of two.
    User(Vec<f64>),
}

/// What [`order_symmetric`](crate::order_symmetric) does. Each field has a method of its name, which sets it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SymmetricOptions {
    /// The fill-reducing method. [`Method::Colamd`] is refused, and [`Method::User`] must give the same permutation for
    /// rows and columns.
    pub method: Method,
    /// Whether large entries off the diagonal are paired, so that they can become pivots of order 2: `Auto` where the
    /// diagonal has few pivots (see [`order_symmetric`](crate::order_symmetric) for the rule), `Always`, or `Never`. The
    /// caller's and the natural order are taken as they are.
    pub matching: Matching,
    /// How the matrix is scaled.
    pub scaling: SymmetricScaling,
    /// The matrix is known to be positive or negative definite: nothing is paired, and it is equilibrated at most.
    pub is_definite: bool,
    /// The pattern was seen to be symmetric, and is not looked through for that again. If it is not, the order is of no use.
    pub is_known_symmetric: bool,
    /// A structurally singular matrix is refused before it is ordered: one whose matching is not perfect, if a matching is
    /// looked for, or whose diagonal has holes that no other entries make up for.
    pub refuses_singular: bool,
    /// What the choice of a method assumes about the machine.
    pub costs: Costs,
    /// Predicts, in place of `costs`, what a factorization takes; the choice is then between trees.
    pub tree_cost: Option<Arc<dyn TreeCost>>,
    /// 1: no other thread is used; more: what is independent runs in parallel on the current rayon pool where it takes
    /// long. The result is the same.
    pub threads: usize,
    /// Stops the phase as it stops [`order`](crate::order()).
    pub cancel: CancelFlag,
    /// What nested dissection reserves of its memory, see [`PEAK_BYTES`](crate::PEAK_BYTES). [`Method::Auto`] does without it
    /// where too little is left.
    pub memory: MemoryBudget,
}

impl Default for SymmetricOptions {
    fn default() -> Self {
        Self {
            method: Method::Auto,
            matching: Matching::Auto,
            scaling: SymmetricScaling::Auto,
            is_definite: false,
            is_known_symmetric: false,
            refuses_singular: false,
            costs: Costs::default(),
            tree_cost: None,
            threads: 1,
            cancel: CancelFlag::new(),
            memory: MemoryBudget::unlimited(),
        }
    }
}

luge_sparse::setters!(SymmetricOptions {
    method: Method,
    matching: Matching,
    scaling: SymmetricScaling,
    is_definite: bool,
    is_known_symmetric: bool,
    refuses_singular: bool,
    costs: Costs,
    threads: usize,
    cancel: CancelFlag,
    memory: MemoryBudget,
});

impl SymmetricOptions {
    /// Sets [`tree_cost`](field@Self::tree_cost).
    #[must_use]
    pub fn tree_cost(mut self, tree_cost: Option<Arc<dyn TreeCost>>) -> Self {
        self.tree_cost = tree_cost;
        self
    }
}

/// The permuted and scaled matrix B = Pᵀ·(S·A·S)·P, and what its factorization L·D·Lᵀ will cost.
#[derive(Debug, Clone, PartialEq)]
pub struct SymmetricOrdering {
    /// P: row and column `k` of B are row and column `perm[k]` of A.
    pub perm: ColPerm,
    /// S twice, `rows` and `cols` alike, in A's order: `B[i][j] = s[perm[i]] · A[perm[i]][perm[j]] · s[perm[j]]`.
    /// Powers of two within 2^±1021.
    pub scaling: Scaling,
    /// Number of pairs that stand together.
    pub pairs: usize,
    /// The first column of B of each of these, increasing; the second is the next one. Such a pair is meant as one pivot of
    /// order 2, and is in one front.
    pub pair_starts: Vec<u32>,
    /// Structural rank of A, counting nonzero values, if a matching was looked for.
    pub structural_rank: Option<usize>,
    /// log10 of the product of the matched entries of A (as many as the structural rank), if A has values and a matching
    /// was looked for.
    pub log10_matching_product: Option<f64>,
    /// Whether order or scaling come from a matching of largest product.
    pub matching_used: bool,
    /// What ordered the columns.
    pub method_used: MethodUsed,
    /// Predicted size and cost of the factors if every pivot is taken where it stands: `lnz` counts L once, with its unit
    /// diagonal; `unz` the n diagonal entries of D. `flops` counts, for each column of L with m entries below the
    /// diagonal, m divisions and m·(m + 1) for the multiplications and additions in the lower triangle. Fronts are
    /// lower triangles, too. Entries that are zero because only one of a pair has the row count as others.
    pub predicted: Prediction,
    /// The elimination forest of B, of which B's columns are a postorder, with the sizes of L's columns; the two columns of
    /// a pair have the same rows, those of both. `None` if the order is the caller's or the natural one, which may be no
    /// postorder.
    pub forest: Option<EliminationForest>,
    /// Time per step. `block_triangular` is for connected components.
    pub seconds: OrderingSeconds,
}
