//! What a caller may choose.

use std::fmt::Debug;
use std::sync::Arc;

use luge_ordering::{Costs, Method, OrderingOptions};
use luge_sparse::{
    CancelFlag, Form, PivotKind, PivotPolicy, PivotPolicyError, SmallPivots, SymmetricPivoting,
};
use serde::Serialize;

use crate::error::Error;
use crate::ordinals::Ordinals;

/// Where the phases run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum BackendChoice {
    /// The first GPU or the CPU, whichever is predicted to be faster for the matrix and as many
    /// [`factorizations`](field@Options::factorizations) as the options say, the start of the GPU (0.25 s) included while
    /// this process has not used it. [`Inform::backend`](crate::Inform::backend) says which was chosen,
    /// [`Inform::predicted_seconds`](crate::Inform::predicted_seconds) why. Without a GPU that works, the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// A GPU, by the driver's number. An error where there is none.
    Gpu {
        /// Number of the device, from 0.
        ordinal: usize,
    },
    /// Several GPUs of this host. The first of them, by the driver's number, does all that one of them would; what is dealt out
    /// to the others is said where it is: the systems of a [batch](crate::BatchFactors), and
    /// [subtrees](field@Options::deal_out) of one matrix. Results are those of one GPU, bit for bit.
    Gpus {
        /// Numbers of the devices.
        ordinals: Ordinals,
    },
    /// The simulator of the GPU's kernels: checks every access, and is slow.
    Simulator {
        /// Seed of the thread schedule.
        seed: u64,
    },
    /// Several simulated devices, as [`Gpus`](Self::Gpus) has several GPUs.
    Simulators {
        /// Seed of the thread schedules.
        seed: u64,
        /// Number of devices, from 1.
        count: usize,
    },
}

/// What is known of a matrix beside its entries, and so how it is factorized.
///
/// A symmetric matrix may be stored whole, or by one of its triangles with the diagonal; which one is seen from the
/// entries, and solutions are those of the whole matrix in each case. Where it is stored whole, each entry and its
/// counterpart across the diagonal must be there and agree to 10⁻¹⁰ of the largest entry; the lower triangle is factorized,
/// and residuals are those of the matrix as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MatrixKind {
    /// Any square matrix: A = L·U.
    #[default]
    General,
    /// A = Aᵀ, maybe indefinite: A = L·D·Lᵀ, with pivots of order 1 and 2 that are searched anew for each matrix; on a
    /// device where those of the matrix before do not serve. A complex matrix of this kind has no inertia.
    Symmetric,
    /// A = Aᴴ, maybe indefinite: A = L·D·Lᴴ, likewise, with real eigenvalues. Over the real numbers the same as
    /// [`Symmetric`](Self::Symmetric).
    Hermitian,
    /// A = Aᴴ, of a real matrix A = Aᵀ, with positive eigenvalues: A = L·Lᴴ. A matrix that is not is an
    /// [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite).
    PositiveDefinite,
    /// As the analyzed matrix is: Hermitian if it is stored whole and equals its conjugate transpose, entry for entry, else
    /// symmetric if it equals its transpose; of a Hermitian one, or a real symmetric one, then positive
    /// definite if its diagonal is positive and Cholesky's factorization succeeds. Later matrices of the analysis must be of the kind of the
    /// analyzed one. A triangle alone is a triangular matrix, and so general. Patterns without values are general, and so
    /// is what [`DeviceEngine::Columns`] factorizes.
    Auto,
}

impl MatrixKind {
    /// The kind of indefinite matrices of a form.
    pub(crate) fn of_form(form: Form) -> Self {
        match form {
            Form::Symmetric => Self::Symmetric,
            Form::Hermitian => Self::Hermitian,
        }
    }

    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Symmetric => "symmetric",
            Self::Hermitian => "Hermitian",
            Self::PositiveDefinite => "positive definite",
            Self::Auto => "auto",
        }
    }
}

/// What becomes of a symmetric matrix that turns out to be singular while it is factorized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SingularAction {
    /// It is refused.
    #[default]
    Refuse,
    /// The factorization goes on: columns that are zero to rounding (64 ε of the largest entry of the scaled matrix, or what
    /// [`Options::zero_pivot`] says) get a zero pivot, which solves take as a zero in the solution. Consistent systems are solved; others miss the target.
    /// [`Inform::rank`](crate::Inform::rank) has the rank, and a [`Warning::RankDeficient`](crate::Warning::RankDeficient) says so.
    Continue,
}

/// The signs that the pivots of a symmetric matrix are expected to have, and what is done about those that have not: the
/// dynamic regularization of interior-point methods.
///
/// Their systems [H Aᵀ; A −C], with H and C positive definite or made so by small multiples of the identity, are
/// quasidefinite: every symmetric permutation has a factorization L·D·Lᵀ with a diagonal D of known signs (R. J. Vanderbei,
/// "Symmetric quasidefinite matrices", SIAM J. Optim. 5, 1995). No pivots are searched, none are delayed, and every
/// factorization takes the same time and memory. A pivot that comes out with another sign, or too small, is replaced, and
/// counted: the factors are then those of a matrix with another diagonal there, and solves are refined for the matrix
/// itself. Singular matrices are factorized, too, and [`Options::singular`] does not matter.
///
/// ```
/// use luge::{MatrixKind, MatrixRef, Options, Regularization, Solver};
///
/// // 2 . 1
/// // . 3 1    two unknowns and one constraint; the last diagonal entry should be negative
/// // 1 1 .
/// let (offsets, columns, values) = ([0u32, 1, 2, 5], [0u32, 1, 0, 1, 2], [2.0, 3.0, 1.0, 1.0, 0.0]);
/// let a = MatrixRef::by_rows(3, 3, &offsets, &columns, &values);
/// let options = Options::default()
///     .kind(MatrixKind::Symmetric)
///     .regularization(Some(Regularization::new(vec![1, 1, -1], 1e-7)));
/// let factors = Solver::new(options)?.analyze(a)?.factorize(a)?;
/// let inertia = factors.inertia().expect("the matrix is symmetric");
/// assert_eq!((inertia.positive, inertia.negative), (2, 1));
/// let solution = factors.solve(&[5.0, 9.0, 3.0])?;
/// assert!((solution.x[2] - 3.0_f64).abs() < 1e-12);
/// # Ok::<(), luge::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Regularization {
    /// The sign of the pivot of each column of the matrix: 1 or −1.
    pub signs: Arc<[i8]>,
    /// What a pivot is replaced by, times its sign: above 0 and finite, a normal number in the type of the factors. In terms
    /// of the matrix as it is handed in, which is not scaled.
    pub delta: f64,
    /// A pivot is replaced if it is at most this, times its sign; from 0 (only the other sign, and zero) to `delta`.
    pub below: f64,
}

impl Regularization {
    /// Pivots that are at most `delta`, times their sign, are replaced by that.
    pub fn new(signs: impl Into<Arc<[i8]>>, delta: f64) -> Self {
        Self {
            signs: signs.into(),
            delta,
            below: delta,
        }
    }

    /// Sets [`below`](field@Self::below).
    #[must_use]
    pub fn below(mut self, below: f64) -> Self {
        self.below = below;
        self
    }

    /// What follows from it for pivots.
    fn policy(&self) -> PivotPolicy {
        PivotPolicy::signed(self.below / self.delta)
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(at) = self.signs.iter().position(|sign| !matches!(sign, 1 | -1)) {
            return Err(Error::InvalidOption {
                field: "regularization.signs",
                value: format!("{} for column {at}", self.signs[at]),
                range: "1 or -1 for each",
            });
        }
        let range = "above 0 and finite";
        in_range("regularization.delta", self.delta, range, |v| {
            v > 0.0 && v.is_finite()
        })?;
        in_range("regularization.below", self.below, "from 0 to delta", |v| {
            (0.0..=self.delta).contains(&v)
        })
    }
}

/// How pivots are found. An engine is given a [`PivotPolicy`] made of it and of [`Options::perturbation`], or one after
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub enum Pivoting {
    /// On the CPU, threshold partial pivoting that prefers the diagonal: at 0.001 first, and if that
    /// does not reach the target backward error, partial pivoting. On a device, static pivoting on
    /// the matched and scaled matrix; if a pivot is too small, or a probe does not reach the target,
    /// rows are matched by value where they were not yet, and if that does not do either, pivots are
    /// searched: in the fronts of the tree, columns without an acceptable one delayed to the fronts
    /// above, or where that does not do, and with the columns, on the CPU, and the device factorizes
    /// with the row permutation found there.
    #[default]
    Auto,
    /// Static pivoting: tiny pivots are replaced, counted and left to refinement.
    Static,
    /// Threshold partial pivoting from the start.
    Threshold {
        /// The diagonal is taken if it is at least this times the largest candidate, from 0 (any
        /// diagonal that is not zero) to 1 (partial pivoting).
        ///
        /// For a [symmetric](MatrixKind::Symmetric) matrix, from 0 to 0.5: entries of L are at most the inverse of it. Of complex
        /// ones, whose sizes are |re| + |im|, they are at most twice that, and what is above 0.24 counts as 0.24.
        /// [`Auto`](Self::Auto) takes 0.01 there, and 0.1 and 0.5 where that does not reach the target.
        threshold: f64,
    },
}

/// The type that factors are computed and kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum FactorPrecision {
    /// The type of the matrix.
    #[default]
    Matrix,
    /// `f32`, also for an `f64` matrix: half the memory; refinement recovers the accuracy of `f64`
    /// unless the matrix is too ill-conditioned.
    Single,
}

pub use luge_numeric::cpu::blocks::Engine as CpuEngine;

/// What factorizes on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum DeviceEngine {
    /// The tree, unless its factors and fronts are predicted not to fit the device's memory where the columns' do.
    #[default]
    Auto,
    /// The filled pattern of the whole permuted matrix is found on the device, and its columns are factorized level by
    /// level, hybrid right-looking, with the pivots on the diagonal. Rows are matched by value unless the options
    /// say otherwise.
    Columns,
    /// The diagonal blocks of the block triangular form are factorized as a forest of dense fronts, with pivots
    /// searched within each front. New values take the memory of the old ones. A
    /// [symmetric](MatrixKind::Symmetric) matrix is one block, and columns that find no pivot in their front are delayed.
    Tree,
}

/// Whether subtrees of one matrix are dealt out to the devices of a [group](BackendChoice::Gpus).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum DealOut {
    /// Where that is predicted to take less than nine tenths of the time of one device.
    #[default]
    Auto,
    /// Never: the first device factorizes.
    Never,
    /// Wherever there are two subtrees that are large enough to be dealt out.
    Always,
}

/// What the phases of [`DeviceEngine::Columns`] do. None of it changes the structure of the factors.
#[cfg(feature = "gpu")]
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DeviceColumns {
    /// How the filled pattern is found: panel by panel, or by fill2 with its stages, threads and budgets. The cancel flag
    /// is that of [`Options`].
    pub symbolic: luge_symbolic::gpu::Options,
    /// Which rows form a supernode, for [`Inform::num_supernodes`](crate::Inform::num_supernodes).
    pub supernodes: luge_supernode::Options,
    /// Who works on the columns of a level (the modes of GLU 3.0), how their entries are found, and whether updates are
    /// added in one order.
    pub numeric: luge_numeric::gpu::ColumnOptions,
}

#[cfg(feature = "gpu")]
luge_sparse::setters!(DeviceColumns {
    symbolic: luge_symbolic::gpu::Options,
    supernodes: luge_supernode::Options,
    numeric: luge_numeric::gpu::ColumnOptions,
});

/// When a refactorization solves for a known solution to measure what the new factors are worth: on a device, and of a
/// [symmetric](MatrixKind::Symmetric) matrix on the CPU as well.
///
/// Growth and replaced pivots are measured in every factorization, at no cost. A solve may take as long as the refactorization of a small
/// matrix, and is spared where other measurements leave no doubt: growth and checksum of L·U, on the CPU always, on a device in the fronts
/// of a tree; the growth of L·D·Lᵀ on the CPU, of the type of the matrix; nothing of L·Lᵀ on a device, which cannot grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum ResidualCheck {
    /// Every time, by one of these or by a solve. On a device that goes on behind the factorization, and the host waits once.
    #[default]
    Always,
    /// Where growth times ε of the factors is above the target backward error, or a checksum leaves a doubt, and always for factors
    /// in a shorter type than the target needs.
    WhereInDoubt,
    /// Never: the growth alone, against [`Options::max_growth`], and replaced pivots decide. For callers who compute the
    /// residual of each solution by themselves, as interior-point methods do. On the CPU, factors with replaced pivots are
    /// measured all the same, and so are those in a shorter type than the matrix.
    Never,
}

/// Options of a [`Solver`](crate::Solver).
///
/// [`Solver::new`](crate::Solver::new) refuses values outside of the ranges that the fields state, with an
/// [`Error::InvalidOption`] that names the field and the range.
///
/// Each field has a method of its name, which sets it:
///
/// ```
/// use luge::{BackendChoice, Options, Pivoting};
///
/// let options = Options::default()
///     .backend(BackendChoice::Cpu)
///     .pivoting(Pivoting::Threshold { threshold: 0.1 })
///     .threads(4);
/// assert_eq!(options.threads, Some(4));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Where the phases run.
    pub backend: BackendChoice,
    /// What kind of matrix it is. Symmetric ones are factorized in fronts: on the CPU by
    /// [`CpuEngine::Fronts`], on a device by [`DeviceEngine::Tree`].
    pub kind: MatrixKind,
    /// What becomes of a singular symmetric matrix.
    pub singular: SingularAction,
    /// Below which size, relative to the largest entry of the scaled matrix, a column of a symmetric matrix is zero where
    /// [`SingularAction::Continue`] goes on; from 0, columns of zeros alone, to 1. `None`: 64 ε of the factors' type.
    ///
    /// Matrices of interior-point methods have entries that are twenty orders of magnitude apart, and are not singular for
    /// that: callers who judge solutions by themselves choose less.
    pub zero_pivot: Option<f64>,
    /// The signs that the pivots of a [symmetric](MatrixKind::Symmetric) matrix are expected to have; `None`: they are searched
    /// as [`pivoting`](field@Self::pivoting) says.
    pub regularization: Option<Regularization>,
    /// Matching, scaling and the fill-reducing ordering. The solver sets `threads` and `cancel` from its own
    /// options. The times in `costs` are finite and at least 0; `diagonal_threshold` is from 0 to 1, or infinite.
    pub ordering: OrderingOptions,
    /// How many factorizations one analysis is to serve, above 0: the more, the longer an ordering may take that shortens
    /// them. Infinite: however long that is.
    /// `None`: what `ordering.costs` says; 100 for the [tree](DeviceEngine::Tree) on a device, and for the choice of
    /// [`BackendChoice::Auto`].
    pub factorizations: Option<f64>,
    /// How pivots are found.
    pub pivoting: Pivoting,
    /// How the CPU searches the pivots of a [symmetric](MatrixKind::Symmetric) matrix: by blocks, by blocks alone, or column by
    /// column. The bound of the entries of L is the same. A device searches column by column.
    pub symmetric_pivoting: SymmetricPivoting,
    /// How often a column of a [symmetric](MatrixKind::Symmetric) matrix is delayed at most; `None`: as often as it takes. A
    /// column that was delayed so often is eliminated where it is with a pivot that is not acceptable, and if that is smaller
    /// than [`perturbation`](field@Self::perturbation) times the largest entry of the scaled matrix, it is replaced by that, and
    /// counted. 0: pivots are searched within fronts alone, as PARDISO does it.
    ///
    /// That bounds what a factorization takes whose delays would lead to ever more; its factors, and the inertia, are then those
    /// of a nearby matrix. Solves are refined and measured for the matrix itself, and
    /// [`Factors::perturbed_columns`](crate::Factors::perturbed_columns) names the columns whose pivots were replaced. On the CPU
    /// only, which [`BackendChoice::Auto`] then takes, and not with [`SingularAction::Continue`].
    pub max_delays: Option<u32>,
    /// Which engine factorizes on the CPU.
    pub engine: CpuEngine,
    /// Which engine factorizes on a device.
    pub device_engine: DeviceEngine,
    /// Whether [the tree](DeviceEngine::Tree) of one matrix is dealt out to the devices of a group, with the same bits. The first
    /// device has all factors and solves; delayed columns and expected signs of pivots are its work alone.
    /// [`Inform::num_devices`](crate::Inform::num_devices) tells how many share in it.
    pub deal_out: DealOut,
    /// Whether [the tree](DeviceEngine::Tree) of uncoupled diagonal blocks may keep factors without room elsewhere: on other devices of
    /// the group, then in page-locked host memory ([`Inform::host_factor_bytes`](crate::Inform::host_factor_bytes)). Same bits.
    pub host_factors: bool,
    /// What the columns do on a device.
    #[cfg(feature = "gpu")]
    pub device_columns: DeviceColumns,
    /// Most threads that may work on the CPU, from 1 to [`MAX_THREADS`](Self::MAX_THREADS); `None`: as many as
    /// rayon's global pool has. Results do not depend on it, bit for bit. Each solver with more than one starts a
    /// pool of its own.
    pub threads: Option<usize>,
    /// Static pivots below this times max|B| are replaced by it; from 0 to 1. `None`: √ε of the factors' type under
    /// [`Pivoting::Static`], and where [`max_delays`](field@Self::max_delays) limits delays; on a device under [`Pivoting::Auto`] 64 ε, for a probe tells whether larger ones do
    /// harm.
    pub perturbation: Option<f64>,
    /// The type of the factors.
    pub precision: FactorPrecision,
    /// Most steps of iterative refinement in a solve.
    pub max_refinement_steps: usize,
    /// Normwise backward error that a solution must reach, above 0 and at most 1, which every solution
    /// reaches; `None`: 10⁻¹² for an `f64` matrix, 10⁻⁶ for an `f32` one.
    pub target_backward_error: Option<f64>,
    /// Growth (see [`Inform::growth`](crate::Inform::growth)), at least 0, beyond which a refactorization
    /// does not trust the old pivots; infinite: no growth is too large. On a device, unless one solve without refinement is measured to reach the
    /// target backward error, see [`ResidualCheck`].
    pub max_growth: f64,
    /// When a refactorization on a device, or of a symmetric matrix, is measured by a solve. New factorizations always are.
    pub residual_check: ResidualCheck,
    /// Whether a factorization also estimates the reciprocal condition number of the scaled matrix,
    /// at the cost of up to ten solves.
    pub estimate_condition: bool,
    /// Whether an analysis keeps the order of the matrix as it was found, which
    /// [`Analysis::save`](crate::Analysis::save) writes. It takes 32 bytes for each row.
    pub keep_order: bool,
    /// Most bytes on the host's heap that a solver and all that it has made and that still is there (analyses, factors)
    /// hold at once, the working memory of the call that runs included; `None`: no limit. On the CPU every array is
    /// reserved before it is allocated, in each phase, so the limit is never exceeded: what does not fit is
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) with the bytes that would be held, the limit and the phase.
    /// Solutions belong to the caller once they are returned, and so do matrices that are handed in. About 100 KiB, and 16
    /// KiB for each thread, are set aside for what is too small to be counted; stacks of threads do not count. Of a call
    /// that was cancelled, memory may be given back shortly after it returned.
    pub max_host_bytes: Option<u64>,
    /// Most bytes that the solver may hold on a device at once; `None`: what is free there. The
    /// [tree](DeviceEngine::Tree) is checked against it, and against what is free, before it is copied to the
    /// device.
    pub max_device_bytes: Option<u64>,
    /// Raise it to stop the call that runs, and those that follow until it is lowered; they return
    /// [`Error::Cancelled`](crate::Error::Cancelled). On the CPU a call returns within some tens of milliseconds. Two
    /// things may go on for a while after it: memory that is given back on another thread; and the factors of a
    /// refactorization that was stopped, which are those of the last matrix again from their next use on, and that use
    /// takes as long as a refactorization in addition. METIS, where
    /// [`Method::Metis`](luge_ordering::Method::Metis) asks for it, cannot be stopped: it goes on on a thread of its own.
    pub cancel: CancelFlag,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backend: BackendChoice::default(),
            kind: MatrixKind::default(),
            singular: SingularAction::default(),
            zero_pivot: None,
            regularization: None,
            ordering: OrderingOptions::default(),
            factorizations: None,
            pivoting: Pivoting::default(),
            symmetric_pivoting: SymmetricPivoting::default(),
            max_delays: None,
            engine: CpuEngine::default(),
            device_engine: DeviceEngine::default(),
            deal_out: DealOut::default(),
            host_factors: true,
            #[cfg(feature = "gpu")]
            device_columns: DeviceColumns::default(),
            threads: None,
            perturbation: None,
            precision: FactorPrecision::default(),
            max_refinement_steps: 10,
            target_backward_error: None,
            max_growth: 1e8,
            residual_check: ResidualCheck::default(),
            estimate_condition: false,
            keep_order: false,
            max_host_bytes: None,
            max_device_bytes: None,
            cancel: CancelFlag::new(),
        }
    }
}

luge_sparse::setters!(Options {
    backend: BackendChoice,
    kind: MatrixKind,
    singular: SingularAction,
    zero_pivot: Option<f64>,
    regularization: Option<Regularization>,
    ordering: OrderingOptions,
    factorizations: Option<f64>,
    pivoting: Pivoting,
    symmetric_pivoting: SymmetricPivoting,
    max_delays: Option<u32>,
    engine: CpuEngine,
    device_engine: DeviceEngine,
    deal_out: DealOut,
    host_factors: bool,
    threads: Option<usize>,
    perturbation: Option<f64>,
    precision: FactorPrecision,
    max_refinement_steps: usize,
    target_backward_error: Option<f64>,
    max_growth: f64,
    residual_check: ResidualCheck,
    estimate_condition: bool,
    keep_order: bool,
    max_host_bytes: Option<u64>,
    max_device_bytes: Option<u64>,
    cancel: CancelFlag,
});

#[cfg(feature = "gpu")]
luge_sparse::setters!(Options {
    device_columns: DeviceColumns,
});

/// Thresholds of a symmetric matrix under [`Pivoting::Auto`], one after another: that of SSIDS, and stricter ones.
const SYMMETRIC_THRESHOLDS: [f64; 3] = [0.01, 0.1, 0.5];

/// What is known of the eigenvalues of a symmetric matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SymmetricKind {
    /// All are to be positive.
    Definite,
    /// The diagonal is positive, so all may be.
    MaybeDefinite,
    /// Nothing.
    Indefinite,
    /// The sign of each pivot is expected.
    Signed,
}

/// Pivots below this times ε · max|B| may be nothing but rounding: the matrix may be singular.
const NEGLIGIBLE: f64 = 64.0;

impl Options {
    /// The most [`threads`](Self::threads).
    pub const MAX_THREADS: usize = 1024;

    /// The policy where pivots are searched from the start.
    pub(crate) fn searched_pivots(&self) -> Option<PivotPolicy> {
        match self.pivoting {
            Pivoting::Threshold { threshold } => Some(PivotPolicy::threshold(threshold)),
            Pivoting::Auto | Pivoting::Static => None,
        }
    }

    /// The policy where pivots are static, for factors of a type with this ε.
    ///
    /// Under [`Pivoting::Auto`] others may be searched, and a probe tells whether small pivots do harm: there is no need
    /// to replace more than what may be rounding. That is, for it makes the search look whether the matrix is singular.
    pub(crate) fn static_pivots(&self, epsilon: f64) -> PivotPolicy {
        match self.perturbation {
            Some(below) => PivotPolicy::replacing(below),
            None if self.pivoting == Pivoting::Auto => PivotPolicy::replacing(NEGLIGIBLE * epsilon),
            None => PivotPolicy::replacing_by_default(epsilon),
        }
    }

    /// The policies for a symmetric matrix, to be tried one after another, for factors of a type with this ε.
    pub(crate) fn symmetric_pivots(&self, order: SymmetricKind, epsilon: f64) -> Vec<PivotPolicy> {
        let small = match (self.max_delays, self.singular) {
            (Some(max_delays), _) => SmallPivots::Limited {
                max_delays,
                below: self.perturbation.unwrap_or(epsilon.sqrt()),
            },
            (None, SingularAction::Refuse) => SmallPivots::Stop,
            (None, SingularAction::Continue) => SmallPivots::Accept {
                below: self.zero_pivot.unwrap_or(NEGLIGIBLE * epsilon),
            },
        };
        let symmetric = |threshold| PivotPolicy {
            kind: PivotKind::Symmetric {
                threshold,
                method: self.symmetric_pivoting,
            },
            small,
        };
        let thresholds = match self.pivoting {
            Pivoting::Threshold { threshold } => &[threshold][..],
            Pivoting::Auto | Pivoting::Static => &SYMMETRIC_THRESHOLDS,
        };
        let searched = thresholds.iter().map(|&threshold| symmetric(threshold));
        match order {
            SymmetricKind::Definite => vec![PivotPolicy::DEFINITE],
            SymmetricKind::MaybeDefinite => std::iter::once(PivotPolicy::DEFINITE)
                .chain(searched)
                .collect(),
            SymmetricKind::Indefinite => searched.collect(),
            SymmetricKind::Signed => self
                .regularization
                .iter()
                .map(Regularization::policy)
                .collect(),
        }
    }

    /// Whether pivots are taken as they come, and replaced where they do not serve.
    pub(crate) fn is_static(&self) -> bool {
        self.pivoting == Pivoting::Static || self.regularization.is_some()
    }

    /// Refuses what does not go with signs that pivots are expected to have.
    fn check_regularization(&self, regularization: &Regularization) -> Result<(), Error> {
        regularization.check()?;
        if !matches!(self.kind, MatrixKind::Symmetric | MatrixKind::Hermitian) {
            let range = "Symmetric or Hermitian with a regularization";
            return refuse("kind", &self.kind, range);
        }
        if self.pivoting != Pivoting::Auto {
            return refuse("pivoting", &self.pivoting, "Auto with a regularization");
        }
        Ok(())
    }

    /// Refuses what does not go with a limit of delays.
    fn check_max_delays(&self) -> Result<(), Error> {
        if !matches!(self.kind, MatrixKind::Symmetric | MatrixKind::Hermitian) {
            let range = "Symmetric or Hermitian with a limit of delays";
            return refuse("kind", &self.kind, range);
        }
        if self.singular == SingularAction::Continue {
            let range = "Refuse with a limit of delays";
            return refuse("singular", &self.singular, range);
        }
        if !matches!(self.backend, BackendChoice::Auto | BackendChoice::Cpu) {
            let range = "Auto or Cpu with a limit of delays";
            return refuse("backend", &self.backend, range);
        }
        Ok(())
    }

    /// Refuses what does not go with a symmetric matrix.
    fn check_symmetric(&self) -> Result<(), Error> {
        if self.device_engine == DeviceEngine::Columns {
            return refuse(
                "device_engine",
                &self.device_engine,
                "Auto or Tree for a symmetric matrix",
            );
        }
        if self.pivoting == Pivoting::Static {
            let range = "Auto or Threshold for a symmetric matrix";
            return refuse("pivoting", &self.pivoting, range);
        }
        if self.engine == CpuEngine::Columns {
            return refuse(
                "engine",
                &self.engine,
                "Auto or Fronts for a symmetric matrix",
            );
        }
        if let Pivoting::Threshold { threshold } = self.pivoting {
            let range = "from 0 to 0.5 for a symmetric matrix";
            in_range("pivoting.threshold", threshold, range, |v| {
                (0.0..=0.5).contains(&v)
            })?;
        }
        Ok(())
    }

    /// Refuses a field whose value is outside of the range that it states.
    pub(crate) fn check_ranges(&self) -> Result<(), Error> {
        if matches!(
            self.kind,
            MatrixKind::Symmetric | MatrixKind::Hermitian | MatrixKind::PositiveDefinite
        ) {
            self.check_symmetric()?;
        }
        if let Some(regularization) = &self.regularization {
            self.check_regularization(regularization)?;
        }
        if self.max_delays.is_some() {
            self.check_max_delays()?;
        }
        if let BackendChoice::Simulators { count: 0, .. } = self.backend {
            return refuse("backend", &self.backend, "one simulated device at least");
        }
        if let Some(policy) = self.searched_pivots() {
            check_pivots("pivoting.threshold", policy)?;
        }
        if let Some(threads) = self.threads {
            in_range("threads", threads, "from 1 to 1024", |v| {
                (1..=Self::MAX_THREADS).contains(&v)
            })?;
        }
        if let Some(perturbation) = self.perturbation {
            check_pivots("perturbation", PivotPolicy::replacing(perturbation))?;
        }
        if let Some(zero_pivot) = self.zero_pivot {
            in_range("zero_pivot", zero_pivot, "from 0 to 1", |v| {
                (0.0..=1.0).contains(&v)
            })?;
        }
        if let Some(target) = self.target_backward_error {
            let range = "above 0 and at most 1";
            in_range("target_backward_error", target, range, |v| {
                v > 0.0 && v <= 1.0
            })?;
        }
        in_range("max_growth", self.max_growth, "at least 0", |v| v >= 0.0)?;
        if let Some(factorizations) = self.factorizations {
            in_range("factorizations", factorizations, "above 0", |v| v > 0.0)?;
        }
        #[cfg(feature = "gpu")]
        self.device_columns.check_ranges()?;
        check_ordering(&self.ordering)
    }
}

#[cfg(feature = "gpu")]
impl DeviceColumns {
    fn check_ranges(&self) -> Result<(), Error> {
        in_range(
            "device_columns.supernodes.max_size",
            self.supernodes.max_size,
            "from 1 to 65535",
            |v| (1..=luge_supernode::LARGEST_SUPERNODE).contains(&v),
        )?;
        if let Some(relax) = &self.supernodes.relax {
            in_range(
                "device_columns.supernodes.relax.tiers",
                relax.tiers,
                "by increasing rows",
                |tiers| tiers.is_sorted_by_key(|tier| tier.max_rows),
            )?;
        }
        if let Some(sources) = self.symbolic.fill2.max_sources {
            let field = "device_columns.symbolic.fill2.max_sources";
            in_range(field, sources, "at least 1", |v| v > 0)?;
        }
        Ok(())
    }
}

/// Refuses a policy that no engine follows; the field is what it was made of.
fn check_pivots(field: &'static str, policy: PivotPolicy) -> Result<(), Error> {
    policy.check().map_err(|error| match error {
        PivotPolicyError::Threshold { value } | PivotPolicyError::Below { value } => {
            Error::InvalidOption {
                field,
                value: format!("{value:?}"),
                range: "from 0 to 1",
            }
        }
        PivotPolicyError::SearchedAndReplaced
        | PivotPolicyError::SymmetricThreshold { .. }
        | PivotPolicyError::DefiniteAndSmall
        | PivotPolicyError::SignedAndSmall
        | PivotPolicyError::LimitedWithoutSearch
        | PivotPolicyError::AcceptedUnsymmetric => {
            unreachable!("options make policies of general matrices that search or replace")
        }
    })
}

/// Refuses the `value` of a field.
fn refuse(field: &'static str, value: &dyn Debug, range: &'static str) -> Result<(), Error> {
    Err(Error::InvalidOption {
        field,
        value: format!("{value:?}"),
        range,
    })
}

/// Refuses the `value` of a field unless `is_in` holds for it, which is what `range` says. No comparison holds for NaN.
fn in_range<V: Copy + Debug>(
    field: &'static str,
    value: V,
    range: &'static str,
    is_in: impl Fn(V) -> bool,
) -> Result<(), Error> {
    if is_in(value) {
        return Ok(());
    }
    refuse(field, &value, range)
}

fn check_ordering(ordering: &OrderingOptions) -> Result<(), Error> {
    if let Method::User { rows, cols } = &ordering.method
        && rows.len() != cols.len()
    {
        return Err(Error::InvalidOption {
            field: "ordering.method",
            value: format!("of {} rows and {} columns", rows.len(), cols.len()),
            range: "of as many rows as columns",
        });
    }
    in_range(
        "ordering.diagonal_threshold",
        ordering.diagonal_threshold,
        "from 0 to 1, or infinite",
        |v| (0.0..=1.0).contains(&v) || v == f64::INFINITY,
    )?;
    // Every field is named here, so that a new one is not forgotten.
    let Costs {
        column_flop,
        column_entry,
        front_flop,
        front_overhead,
        front_entry,
        front,
        dissection_entry,
        minimum_degree_entry,
        factorizations,
    } = ordering.costs;
    for (field, cost) in [
        ("ordering.costs.column_flop", column_flop),
        ("ordering.costs.column_entry", column_entry),
        ("ordering.costs.front_flop", front_flop),
        ("ordering.costs.front_overhead", front_overhead),
        ("ordering.costs.front_entry", front_entry),
        ("ordering.costs.front", front),
        ("ordering.costs.dissection_entry", dissection_entry),
        ("ordering.costs.minimum_degree_entry", minimum_degree_entry),
    ] {
        in_range(field, cost, "finite and at least 0", |v| {
            v >= 0.0 && v.is_finite()
        })?;
    }
    let field = "ordering.costs.factorizations";
    in_range(field, factorizations, "above 0", |v| v > 0.0)
}
