//! What every phase reports.

use std::borrow::Cow;

#[cfg(feature = "gpu")]
use luge_numeric::gpu::ColumnReport;
#[cfg(feature = "gpu")]
use luge_symbolic::gpu::Report as SymbolicReport;
use serde::Serialize;

/// Seconds of wall time per phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Seconds {
    /// Matching, scaling and ordering.
    pub ordering: f64,
    /// Filled pattern on a device, or the tree of the fronts and its way there; on the CPU, the choice of engines and
    /// the trees of the fronts.
    pub symbolic: f64,
    /// Search for supernodes in the filled pattern, on a device.
    pub supernode: Option<f64>,
    /// Dependencies and levels, where work goes by levels.
    pub levelize: Option<f64>,
    /// Search for pivots on the CPU, if there was one, with the symbolic phase after it; on a device the search in fronts of
    /// a general matrix, with the trees in which columns are delayed and the factorization after it.
    pub pivot_search: Option<f64>,
    /// Numeric factorization.
    pub numeric: Option<f64>,
    /// Probe of the factors: a solve with a known solution, and the condition estimate. In a refactorization by the tree
    /// on a device the first solve counts as numeric: the host waits for both at once.
    pub probe: Option<f64>,
    /// Triangular solves and refinement.
    pub solve: Option<f64>,
    /// Host to device and back, if there is a device; contained in the phases above.
    pub transfer: Option<f64>,
    /// Loading of kernels, if there is a device; contained in no phase.
    pub module_load: Option<f64>,
}

/// What a choice of the backend was made by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PredictedSeconds {
    /// On the CPU: all factorizations, each with a solve.
    pub cpu: f64,
    /// On the GPU, its start included if this process has not used it yet. Where the CPU is faster than any GPU starts,
    /// at least this.
    pub device: f64,
    /// How many factorizations: [`Options::factorizations`](crate::Options::factorizations), or 100.
    pub factorizations: f64,
}

/// Trouble that still yields factors or a solution.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Warning {
    /// Static pivots were replaced.
    PerturbedPivots {
        /// How many.
        count: usize,
        /// Column of A of the first.
        first_column: usize,
    },
    /// Static pivots on the diagonal were not accurate enough, and rows were matched to columns by value.
    RowsMatched {
        /// Why.
        reason: String,
    },
    /// The given pivots were not accurate enough, and new ones were searched.
    PivotsSearched {
        /// Why.
        reason: String,
    },
    /// The matrix is singular, and the factorization went on with zero pivots.
    RankDeficient {
        /// Pivots that are not zero.
        rank: usize,
        /// The column of A of the first zero pivot.
        first_column: usize,
    },
    /// The backward error stayed above the target.
    TargetMissed {
        /// Normwise backward error.
        backward_error: f64,
        /// What was asked for.
        target: f64,
    },
    /// The matrix is so ill-conditioned that solutions may have no correct digit, small as their
    /// backward errors are. It may be singular. Either `rcond` says so, or a solve for a known solution found another one.
    IllConditioned {
        /// Estimate of 1/(‖B‖₁·‖B⁻¹‖₁), B the scaled matrix.
        rcond: f64,
        /// The unknowns with the largest entries of the scaled vector v that makes B·v nearly zero, the largest first;
        /// three at most.
        unknowns: Vec<usize>,
        /// Whether A times a constant vector is nearly zero, as in a circuit without a reference node, or where only fluxes
        /// are given on the boundary.
        is_constant: bool,
    },
    /// The condition of the matrix could not be looked at.
    ConditionUnknown {
        /// Why.
        reason: String,
    },
    /// No GPU could be used and the CPU took over.
    NoGpu {
        /// What is missing.
        reason: String,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PerturbedPivots {
                count,
                first_column,
            } => write!(
                f,
                "{count} tiny pivots were replaced, the first in column {first_column}"
            ),
            Self::RowsMatched { reason } => write!(
                f,
                "rows were matched to columns by value, because static pivots on the diagonal were not accurate enough: {reason}"
            ),
            Self::PivotsSearched { reason } => {
                write!(
                    f,
                    "new pivots were searched, because the given ones were not accurate enough: {reason}"
                )
            }
            Self::RankDeficient { rank, first_column } => write!(
                f,
                "the matrix is singular, of rank {rank}: the first column without a pivot is {first_column}"
            ),
            Self::TargetMissed {
                backward_error,
                target,
            } => write!(
                f,
                "the backward error {backward_error:.1e} is above the target {target:.1e}"
            ),
            Self::IllConditioned {
                rcond,
                unknowns,
                is_constant,
            } => {
                write!(
                    f,
                    "the matrix is singular or nearly so, and solutions may have no correct digit: reciprocal condition number {rcond:.1e}"
                )?;
                if *is_constant {
                    return write!(
                        f,
                        "; constant vectors are mapped to nearly zero: is a reference node or a Dirichlet condition missing?"
                    );
                }
                match &unknowns[..] {
                    [] => Ok(()),
                    [unknown] => write!(f, "; unknown {unknown} is nearly undetermined"),
                    many => write!(
                        f,
                        "; the unknowns {many:?} take part most in the dependence"
                    ),
                }
            }
            Self::ConditionUnknown { reason } => {
                write!(f, "the condition number could not be estimated: {reason}")
            }
            Self::NoGpu { reason } => write!(f, "no GPU, the CPU is used: {reason}"),
        }
    }
}

/// The report of an analysis, of factors or of a solution; each contains what came before it.
///
/// A field that is `None` was not measured by what ran, or does not apply to it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Inform {
    /// Order of the matrix.
    pub n: usize,
    /// Stored entries of the matrix.
    pub nnz: usize,
    /// Entries of L with its unit diagonal: predicted by the analysis, exact with factors.
    pub lnz: u64,
    /// Entries of U with its diagonal and, where blocks are factorized apart, with the entries above them.
    pub unz: u64,
    /// Floating-point operations of the factorization.
    pub flops: f64,
    /// Diagonal blocks of the block triangular form.
    pub num_blocks: usize,
    /// Levels of the columns, where work goes by levels.
    pub num_levels: Option<usize>,
    /// Columns of the widest level, likewise.
    pub max_level_width: Option<usize>,
    /// Supernodes: those of the fronts; with the columns on a device those of T3 with at most 128 rows.
    pub num_supernodes: Option<usize>,
    /// Order of the largest front.
    pub max_front: Option<usize>,
    /// Bytes of the arrays held on the host at the end of the phase that held most.
    pub peak_host_bytes: u64,
    /// Bytes that the analysis predicts for factorization and factors on the CPU; pivots off the
    /// diagonal may need more.
    pub predicted_host_bytes: Option<u64>,
    /// Bytes that the analysis predicts for plan, factors and fronts on a device, for the tree engine.
    pub predicted_device_bytes: Option<u64>,
    /// Most bytes allocated on the device at once.
    pub peak_device_bytes: Option<u64>,
    /// Bytes of frontiers moved between the device and the host for want of room, on a device.
    pub spilled_bytes: Option<u64>,
    /// What the symbolic phase did on a device: panels, or batches of sources, their memory and their times.
    #[cfg(feature = "gpu")]
    pub symbolic: Option<SymbolicReport>,
    /// How the columns of the levels were shared out on a device, how entries are found, and the memory for that.
    #[cfg(feature = "gpu")]
    pub columns: Option<ColumnReport>,
    /// Static pivots that were replaced.
    pub num_perturbed: Option<usize>,
    /// Pivots that threshold pivoting took off the diagonal.
    pub num_off_diagonal: Option<usize>,
    /// Pivots delayed to a later front.
    pub num_delay: Option<usize>,
    /// Pivots of order 2, of a symmetric matrix.
    pub num_two: Option<usize>,
    /// Columns of a symmetric matrix whose pivots were found one by one, after a
    /// [search by blocks](crate::SymmetricPivoting) or in place of one, on the CPU.
    pub num_second_pass: Option<usize>,
    /// Negative eigenvalues of a symmetric or Hermitian matrix, not of a complex symmetric one; [`Factors::inertia`](crate::Factors::inertia) has all counts.
    pub num_neg: Option<usize>,
    /// Numeric rank: n once factorized, for singular matrices are refused, unless
    /// [`SingularAction::Continue`](crate::SingularAction::Continue) lets a symmetric one pass.
    pub rank: Option<usize>,
    /// The [growth](luge_sparse::Quality#growth) of the factors: how much larger |L|·|U| is than B. On the CPU it is
    /// measured, as the max over columns k of ‖ |L|·|U|·e_k ‖₁ / ‖B·e_k‖₁. On a device it is estimated: by
    /// max(1, max|L|) · max|U| / max|B| with the tree, U being L·D of a symmetric matrix, by max|U| / max|B| with the columns,
    /// which do not measure L.
    pub growth: Option<f64>,
    /// After [`Factors::refactorize_changed`](crate::Factors::refactorize_changed) the predicted operations of the columns and
    /// fronts that were factorized again, over those of all.
    pub refactorized_part: Option<f64>,
    /// Estimate of 1/(‖B‖₁·‖B⁻¹‖₁), B the scaled matrix.
    pub rcond: Option<f64>,
    /// Normwise backward error ‖b − A·x‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞) of the solution, for A as it is stored. With many
    /// right-hand sides, the largest. Of factors: that of a probe, which is refined no further than to the
    /// [target](field@crate::Options::target_backward_error), in [`refinement_steps`](Self::refinement_steps) steps; where there was none on the
    /// CPU, a bound for one pass of triangular solves.
    pub backward_error: Option<f64>,
    /// Componentwise backward error, likewise.
    pub componentwise_error: Option<f64>,
    /// Steps of refinement, likewise.
    pub refinement_steps: Option<usize>,
    /// Time per phase.
    pub seconds: Seconds,
    /// What [`BackendChoice::Auto`](crate::BackendChoice::Auto) chose by, where there was a choice.
    pub predicted_seconds: Option<PredictedSeconds>,
    /// Devices that share in a factorization, on a [group](crate::BackendChoice::Gpus) of them.
    pub num_devices: Option<usize>,
    /// The time that a factorization is predicted to take on one device of a group over that on all of them, where its subtrees can be
    /// [dealt out](crate::DealOut).
    pub predicted_speedup: Option<f64>,
    /// Where the first device has [no room](field@crate::Options::host_factors) for the factors, the bytes of one matrix's that are on
    /// the other devices of its group.
    pub peer_factor_bytes: Option<u64>,
    /// Likewise those in the host's memory, with what crosses between parts of the tree.
    pub host_factor_bytes: Option<u64>,
    /// `"cpu"`, `"cuda"` or `"simulator"`.
    pub backend: &'static str,
    /// The device in words.
    pub device: Cow<'static, str>,
    /// `"general"`, `"symmetric"` or `"positive definite"`: what the matrix was factorized as.
    pub kind: &'static str,
    /// Type of the factors: `"f32"`, `"f64"`, `"complex f32"` or `"complex f64"`.
    pub precision: &'static str,
    /// The ordering that was used.
    pub ordering: &'static str,
    /// Whether rows were matched to columns by value.
    pub matched: bool,
    /// Whether the matrix was scaled.
    pub scaled: bool,
    /// `"static"` or `"threshold"`, as it ended up.
    pub pivoting: Option<&'static str>,
    /// Algorithm of each phase that ran.
    pub code_path: Vec<&'static str>,
    /// Trouble on the way.
    pub warnings: Vec<Warning>,
}

impl Inform {
    /// The report as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self)
            .unwrap_or_else(|e| unreachable!("plain fields always serialise: {e}"))
    }
}
