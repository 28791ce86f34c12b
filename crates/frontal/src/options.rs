//! How a factorization goes about its pivots and resources.

use luge_sparse::{CancelFlag, MemoryBudget};

/// How a factorization goes about its pivots and resources.
#[derive(Debug, Clone)]
pub struct Options {
    /// A pivot must reach this fraction of the largest magnitude of its column; the diagonal is
    /// taken if it does. 0 to 1.
    pub threshold: f64,
    /// Eliminate every column in its own front, on the largest entry there if the diagonal is not
    /// acceptable, and replace pivots of less than this magnitude by it, with their sign. Nothing is
    /// delayed then, and no matrix is singular unless the magnitude is zero.
    pub static_pivots: Option<f64>,
    /// 1: no threads at all; more: the current rayon pool.
    pub threads: usize,
    /// Stops the factorization between fronts and between column blocks of large ones.
    pub cancel: CancelFlag,
    /// Bytes that the factors and the working memory may take.
    pub max_bytes: Option<u64>,
    /// Where all memory is reserved before it is allocated.
    pub memory: MemoryBudget,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threshold: 0.05,
            static_pivots: None,
            threads: 1,
            cancel: CancelFlag::new(),
            max_bytes: None,
            memory: MemoryBudget::unlimited(),
        }
    }
}
