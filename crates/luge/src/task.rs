//! What a path works on, and what it tells of its work.

use std::sync::OnceLock;
use std::time::Duration;

use luge_solve::backward_error::RowNorms;
use luge_sparse::{MatrixView, Scalar};
use serde::Serialize;

use crate::error::Error;
use crate::inform::{Inform, Seconds, Warning};
use crate::shared::Shared;

/// A matrix to factorize, and what the way there needs.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a, T: Scalar> {
    pub shared: &'a Shared,
    pub a: MatrixView<'a, T>,
    /// The values of `a`.
    pub values: &'a [T::Wide],
    /// The largest magnitude among them, where the CPU path factorizes.
    pub largest: f64,
    /// Norms of its rows, once somebody asks.
    pub norms: &'a OnceLock<RowNorms>,
}

/// Whether a matrix can be factorized, as far as that is not known yet.
pub(crate) type Check<'a> = &'a (dyn Fn() -> Result<(), Error> + Sync);

/// What happened on the way to the factors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    pub seconds: Seconds,
    pub warnings: Vec<Warning>,
}

impl Journal {
    /// A journal that starts after the analysis.
    pub fn after(analyzed: &Inform) -> Self {
        Self {
            seconds: analyzed.seconds,
            warnings: Vec::new(),
        }
    }

    pub fn add_numeric(&mut self, time: Duration) {
        *self.seconds.numeric.get_or_insert(0.0) += time.as_secs_f64();
    }

    pub fn add_probe(&mut self, time: Duration) {
        *self.seconds.probe.get_or_insert(0.0) += time.as_secs_f64();
    }
}

/// How new values were factorized.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Refactorized {
    /// The old pivots and scaling serve the new values too; of a symmetric matrix, whose pivots are found anew each time, the
    /// old order and scaling.
    Reused {
        /// Growth, see [`Inform::growth`].
        growth: f64,
        /// Normwise backward error of a probe; on the CPU, where growth and a checksum show that none is needed, a bound
        /// of that of one pass of triangular solves. `None` where nothing can be said of other right-hand sides: the probe's
        /// solution came back as another one, or needed refinement with factors so poor that its convergence was luck, or, on
        /// a device, the options forbade a probe. Solving calls measure by themselves then.
        backward_error: Option<f64>,
    },
    /// The old pivots were not accurate enough, and new ones were found; on the CPU, where these were not either, with a
    /// new scaling and order. The caller need not act: the factors are valid. It took as long as a factorization.
    Repivoted {
        /// What was wrong with the old pivots.
        reason: String,
        /// Growth with the new pivots.
        growth: f64,
        /// Backward error with the new pivots, as above.
        backward_error: Option<f64>,
    },
}
