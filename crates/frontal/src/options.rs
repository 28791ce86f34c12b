//! How a factorization goes about its pivots and resources.

use std::sync::Arc;

use luge_sparse::{CancelFlag, Form, MemoryBudget, PivotPolicy};

use crate::deal::RankOptions;

/// How a factorization goes about its pivots and resources.
#[derive(Debug, Clone)]
pub struct Options {
    /// How pivots are chosen. A candidate is compared with all of its column in the front. Static pivots are never
    /// delayed, and one that would be replaced is not taken where another row of the front has one that would not.
    pub pivots: PivotPolicy,
    /// What small pivots are relative to where the matrix is a part of another one; `None`: the largest magnitude of the
    /// matrix.
    pub max_b: Option<f64>,
    /// What the entries of a symmetric matrix are across its diagonal. General matrices have no use for it.
    pub form: Form,
    /// Where pivots have [expected signs](luge_sparse::PivotKind::Signed): by what the pivot of each column of the pattern is
    /// replaced if it has not the sign of that, or is too small beside it; finite and not zero.
    pub expected: Option<Arc<[f64]>>,
    /// 1: no threads at all; more: the current rayon pool.
    pub threads: usize,
    /// Stops the factorization between fronts and between column blocks of large ones.
    pub cancel: CancelFlag,
    /// Bytes that the factors and the working memory may take.
    pub max_bytes: Option<u64>,
    /// Where all memory is reserved before it is allocated.
    pub memory: MemoryBudget,
    /// The ranks that factorize this matrix together, and solve with its factors; `None`: this process alone. A refactorization
    /// is the work of those of the first factorization.
    pub ranks: Option<RankOptions>,
}

impl Options {
    /// The default threshold. Pivots in fronts are searched among a few rows at hand, where a strict preference costs
    /// nothing and keeps the growth low.
    pub const THRESHOLD: f64 = 0.05;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pivots: PivotPolicy::threshold(Self::THRESHOLD),
            max_b: None,
            form: Form::Symmetric,
            expected: None,
            threads: 1,
            cancel: CancelFlag::new(),
            max_bytes: None,
            memory: MemoryBudget::unlimited(),
            ranks: None,
        }
    }
}
