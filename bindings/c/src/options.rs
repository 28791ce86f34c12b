//! Options by number.

use std::sync::{Arc, RwLock};

use luge::ordering::{Matching, Method};
use luge::{
    BackendChoice, ColPerm, CpuEngine, DeviceEngine, FactorPrecision, MatrixKind, Options,
    Pivoting, Regularization, ResidualCheck, RowPerm, SingularAction, SymmetricPivoting,
};

use crate::handle::{Handle, array, free, guarded, put, read, required_mut, state, write};
use crate::matrix::order;
use crate::status::luge_status::*;
use crate::status::{Failure, Outcome, luge_status};

use luge_backend::*;
use luge_cpu_engine::*;
use luge_device_engine::*;
use luge_int_option::*;
use luge_kind::*;
use luge_matching::*;
use luge_ordering::*;
use luge_pivoting::*;
use luge_precision::*;
use luge_real_option::*;
use luge_residual_check::*;
use luge_singular::*;
use luge_symmetric_pivoting::*;

/// The value of an option that is not set: the library takes what it thinks best.
pub const LUGE_UNSET: i32 = -1;

/// Options with integer values, for luge_options_set_int and luge_options_get_int.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_int_option {
    /// Where the phases run, one of luge_backend. Default: LUGE_BACKEND_AUTO.
    LUGE_OPTION_BACKEND = 0,
    /// Number of the GPU for LUGE_BACKEND_GPU, as the driver counts them from 0. Default: 0.
    LUGE_OPTION_DEVICE = 1,
    /// Seed of the schedule for LUGE_BACKEND_SIMULATOR. Default: 0.
    LUGE_OPTION_SIMULATOR_SEED = 2,
    /// What is known of the matrix beside its entries, one of luge_kind. Default: LUGE_KIND_GENERAL. A matrix that is
    /// declared symmetric or Hermitian may be stored whole, then each entry and its counterpart must agree to 1e-10 of the largest
    /// entry, or by one of its triangles with the diagonal; which one is seen from the entries.
    LUGE_OPTION_KIND = 3,
    /// What becomes of a singular symmetric matrix, one of luge_singular. Default: LUGE_SINGULAR_REFUSE.
    LUGE_OPTION_SINGULAR = 4,
    /// Most threads on the CPU, 1 to 1024, or LUGE_UNSET: as many as there are cores. Default: LUGE_UNSET. Results are
    /// the same, bit for bit.
    LUGE_OPTION_THREADS = 5,
    /// How pivots are found, one of luge_pivoting. Default: LUGE_PIVOTING_AUTO.
    LUGE_OPTION_PIVOTING = 6,
    /// How the CPU searches the pivots of a symmetric matrix, one of luge_symmetric_pivoting. Default:
    /// LUGE_SYMMETRIC_BLOCKS.
    LUGE_OPTION_SYMMETRIC_PIVOTING = 7,
    /// How often a column of a symmetric matrix is delayed at most, before its pivot is taken as it is or replaced, or
    /// LUGE_UNSET: as often as it takes. Default: LUGE_UNSET. On the CPU only.
    LUGE_OPTION_MAX_DELAYS = 8,
    /// What factorizes on the CPU, one of luge_cpu_engine. Default: LUGE_CPU_ENGINE_AUTO.
    LUGE_OPTION_CPU_ENGINE = 9,
    /// What factorizes on a device, one of luge_device_engine. Default: LUGE_DEVICE_ENGINE_AUTO.
    LUGE_OPTION_DEVICE_ENGINE = 10,
    /// The type that factors are kept in, one of luge_precision. Default: LUGE_PRECISION_MATRIX.
    LUGE_OPTION_PRECISION = 11,
    /// Most steps of iterative refinement in a solve, at least 0. Default: 10.
    LUGE_OPTION_MAX_REFINEMENT_STEPS = 12,
    /// When a refactorization on a device, or of a symmetric matrix, is measured by a solve, one of luge_residual_check. Default:
    /// LUGE_RESIDUAL_ALWAYS.
    LUGE_OPTION_RESIDUAL_CHECK = 13,
    /// 1: factorizations also estimate the reciprocal condition number, at the cost of up to ten solves. Default: 0.
    LUGE_OPTION_ESTIMATE_CONDITION = 14,
    /// Most bytes that a solver and all that was made with it hold on the host at once, or LUGE_UNSET: no limit.
    /// Default: LUGE_UNSET.
    LUGE_OPTION_MAX_HOST_BYTES = 15,
    /// Most bytes on the device, or LUGE_UNSET: what is free there. Default: LUGE_UNSET.
    LUGE_OPTION_MAX_DEVICE_BYTES = 16,
    /// The fill-reducing ordering, one of luge_ordering. Default: LUGE_ORDERING_AUTO.
    LUGE_OPTION_ORDERING = 17,
    /// Whether rows are moved to put large entries on the diagonal, one of luge_matching. Default: LUGE_MATCHING_AUTO.
    LUGE_OPTION_MATCHING = 18,
    /// 1: rows and columns are scaled; 0: they are not. Default: 1.
    LUGE_OPTION_SCALING = 19,
    /// 1: if no matching scales, logarithms of the entries are first made zero on average, for entries that span
    /// hundreds of orders of magnitude. Default: 0.
    LUGE_OPTION_AVERAGED_SCALING = 20,
    /// 1: permute to block triangular form. Default: 1.
    LUGE_OPTION_BLOCK_TRIANGULAR = 21,
}

/// Options with real values, for luge_options_set_real and luge_options_get_real.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_real_option {
    /// How many factorizations one analysis is to serve, above 0, or LUGE_UNSET. Default: LUGE_UNSET. The more, the
    /// longer an ordering may take that shortens them.
    LUGE_OPTION_FACTORIZATIONS = 100,
    /// The threshold for LUGE_PIVOTING_THRESHOLD, 0 to 1: the diagonal is taken if it is at least this times the
    /// largest candidate. For a symmetric matrix 0 to 0.5: entries of L are at most its inverse. Default: 0.1.
    LUGE_OPTION_PIVOT_THRESHOLD = 101,
    /// Static pivots below this times the largest entry of the scaled matrix are replaced by it, 0 to 1, or LUGE_UNSET.
    /// Default: LUGE_UNSET.
    LUGE_OPTION_PERTURBATION = 102,
    /// Normwise backward error that a solution must reach, above 0 and at most 1, or LUGE_UNSET: 1e-12 for double, 1e-6
    /// for float. Default: LUGE_UNSET.
    LUGE_OPTION_TARGET_BACKWARD_ERROR = 103,
    /// Growth beyond which a refactorization does not trust the old pivots, at least 0. Default: 1e8.
    LUGE_OPTION_MAX_GROWTH = 104,
    /// After a matching, LUGE_ORDERING_AUTO also tries the rows in their old places if every scaled diagonal entry is
    /// at least this large: 0 to 1, or infinite: never. Default: 0.1.
    LUGE_OPTION_DIAGONAL_THRESHOLD = 105,
}

/// Where the phases run.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_backend {
    /// The first GPU or the CPU, whichever is predicted to be faster for the matrix; without a GPU that works, the CPU.
    LUGE_BACKEND_AUTO = 0,
    /// The CPU.
    LUGE_BACKEND_CPU = 1,
    /// A GPU; an error where there is none.
    LUGE_BACKEND_GPU = 2,
    /// The simulator of the GPU's kernels, for tests; LUGE_ERROR_FEATURE_OFF in libraries that are installed.
    LUGE_BACKEND_SIMULATOR = 3,
}

/// What is known of a matrix beside its entries.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_kind {
    /// Any square matrix: A = L*U.
    LUGE_KIND_GENERAL = 0,
    /// Symmetric, A = A^T, maybe indefinite: A = L*D*L^T. A complex matrix of this kind has no inertia.
    LUGE_KIND_SYMMETRIC = 1,
    /// Hermitian, of a real matrix symmetric, and positive definite: A = L*L^H.
    LUGE_KIND_POSITIVE_DEFINITE = 2,
    /// As the analyzed matrix is: Hermitian if it is stored whole and equals its conjugate transpose, symmetric if it equals its
    /// transpose. A triangle is general.
    LUGE_KIND_AUTO = 3,
    /// Hermitian, A = A^H, maybe indefinite: A = L*D*L^H. A real matrix is as with LUGE_KIND_SYMMETRIC.
    LUGE_KIND_HERMITIAN = 4,
}

/// What becomes of a singular symmetric matrix.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_singular {
    /// It is refused.
    LUGE_SINGULAR_REFUSE = 0,
    /// The factorization goes on with zero pivots; consistent systems are solved.
    LUGE_SINGULAR_CONTINUE = 1,
}

/// How pivots are found.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_pivoting {
    /// On the CPU threshold partial pivoting that prefers the diagonal; on a device static pivoting, and a search where that
    /// does not reach the target backward error.
    LUGE_PIVOTING_AUTO = 0,
    /// Static: small pivots are replaced, counted and left to refinement. Not for symmetric matrices.
    LUGE_PIVOTING_STATIC = 1,
    /// Threshold partial pivoting with LUGE_OPTION_PIVOT_THRESHOLD.
    LUGE_PIVOTING_THRESHOLD = 2,
}

/// How the CPU searches the pivots of a symmetric matrix.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_symmetric_pivoting {
    /// A posteriori by blocks, then column by column for what that does not take.
    LUGE_SYMMETRIC_BLOCKS = 0,
    /// By blocks alone: what that does not take is delayed.
    LUGE_SYMMETRIC_BLOCKS_ALONE = 1,
    /// Column by column.
    LUGE_SYMMETRIC_COLUMNS = 2,
}

/// What factorizes on the CPU.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_cpu_engine {
    /// For each diagonal block the one that is predicted to be faster.
    LUGE_CPU_ENGINE_AUTO = 0,
    /// Column by column (Gilbert-Peierls), for circuits and power grids.
    LUGE_CPU_ENGINE_COLUMNS = 1,
    /// In dense fronts (multifrontal), for meshes.
    LUGE_CPU_ENGINE_FRONTS = 2,
}

/// What factorizes on a device.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_device_engine {
    /// The tree, unless its factors are predicted not to fit the device where those of the columns do.
    LUGE_DEVICE_ENGINE_AUTO = 0,
    /// Column by column, level after level.
    LUGE_DEVICE_ENGINE_COLUMNS = 1,
    /// A forest of dense fronts.
    LUGE_DEVICE_ENGINE_TREE = 2,
}

/// The type that factors are kept in.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_precision {
    /// That of the matrix.
    LUGE_PRECISION_MATRIX = 0,
    /// float: half the memory; refinement recovers the accuracy of double unless the matrix is too ill-conditioned.
    LUGE_PRECISION_SINGLE = 1,
}

/// When a refactorization on a device, or of a symmetric matrix, is measured by a solve with a known solution.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_residual_check {
    /// Every time.
    LUGE_RESIDUAL_ALWAYS = 0,
    /// Where the growth leaves a doubt.
    LUGE_RESIDUAL_WHERE_IN_DOUBT = 1,
    /// Never.
    LUGE_RESIDUAL_NEVER = 2,
}

/// The fill-reducing ordering.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_ordering {
    /// Approximate minimum degree or nested dissection, whichever is predicted to factorize faster.
    LUGE_ORDERING_AUTO = 0,
    /// Approximate minimum degree.
    LUGE_ORDERING_AMD = 1,
    /// Column approximate minimum degree; not for symmetric matrices.
    LUGE_ORDERING_COLAMD = 2,
    /// Nested dissection.
    LUGE_ORDERING_NESTED_DISSECTION = 3,
    /// No reordering within diagonal blocks.
    LUGE_ORDERING_NATURAL = 4,
    /// The permutations of luge_options_set_permutations, which sets this. No value for luge_options_set_int.
    LUGE_ORDERING_USER = 5,
}

/// Whether rows are moved to put large entries on the diagonal.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum luge_matching {
    /// Where diagonal entries are missing, or too small to be pivots.
    LUGE_MATCHING_AUTO = 0,
    /// Always.
    LUGE_MATCHING_ALWAYS = 1,
    /// Never, unless block triangular form needs it.
    LUGE_MATCHING_NEVER = 2,
}

/// All options with integer values.
const INT_OPTIONS: [luge_int_option; 22] = [
    LUGE_OPTION_BACKEND,
    LUGE_OPTION_DEVICE,
    LUGE_OPTION_SIMULATOR_SEED,
    LUGE_OPTION_KIND,
    LUGE_OPTION_SINGULAR,
    LUGE_OPTION_THREADS,
    LUGE_OPTION_PIVOTING,
    LUGE_OPTION_SYMMETRIC_PIVOTING,
    LUGE_OPTION_MAX_DELAYS,
    LUGE_OPTION_CPU_ENGINE,
    LUGE_OPTION_DEVICE_ENGINE,
    LUGE_OPTION_PRECISION,
    LUGE_OPTION_MAX_REFINEMENT_STEPS,
    LUGE_OPTION_RESIDUAL_CHECK,
    LUGE_OPTION_ESTIMATE_CONDITION,
    LUGE_OPTION_MAX_HOST_BYTES,
    LUGE_OPTION_MAX_DEVICE_BYTES,
    LUGE_OPTION_ORDERING,
    LUGE_OPTION_MATCHING,
    LUGE_OPTION_SCALING,
    LUGE_OPTION_AVERAGED_SCALING,
    LUGE_OPTION_BLOCK_TRIANGULAR,
];

/// All options with real values.
const REAL_OPTIONS: [luge_real_option; 6] = [
    LUGE_OPTION_FACTORIZATIONS,
    LUGE_OPTION_PIVOT_THRESHOLD,
    LUGE_OPTION_PERTURBATION,
    LUGE_OPTION_TARGET_BACKWARD_ERROR,
    LUGE_OPTION_MAX_GROWTH,
    LUGE_OPTION_DIAGONAL_THRESHOLD,
];

fn int_option(number: i32) -> Outcome<luge_int_option> {
    let mut options = INT_OPTIONS.into_iter();
    options
        .find(|&option| option as i32 == number)
        .ok_or_else(|| unknown(number))
}

fn real_option(number: i32) -> Outcome<luge_real_option> {
    let mut options = REAL_OPTIONS.into_iter();
    options
        .find(|&option| option as i32 == number)
        .ok_or_else(|| unknown(number))
}

/// Options of a solver. Calls that set one need the handle for themselves.
pub struct luge_options {
    _private: (),
}

impl Handle for luge_options {
    type State = RwLock<Chosen>;
    const TAG: u64 = 0x6c75_6765_6f70_7431;
    const NAME: &'static str = "luge_options";
}

/// The options of the facade, and what they have in one field and C in two.
#[derive(Clone)]
pub(crate) struct Chosen {
    options: Options,
    backend: luge_backend,
    device: usize,
    seed: u64,
    is_threshold: bool,
    threshold: f64,
}

impl Default for Chosen {
    fn default() -> Self {
        Self {
            options: Options::default(),
            backend: LUGE_BACKEND_AUTO,
            device: 0,
            seed: 0,
            is_threshold: false,
            threshold: 0.1,
        }
    }
}

/// Numbers of C, and what they are in the facade.
type Table<C, const N: usize> = [(C, i32); N];

const BACKENDS: Table<luge_backend, 4> = [
    (LUGE_BACKEND_AUTO, LUGE_BACKEND_AUTO as i32),
    (LUGE_BACKEND_CPU, LUGE_BACKEND_CPU as i32),
    (LUGE_BACKEND_GPU, LUGE_BACKEND_GPU as i32),
    (LUGE_BACKEND_SIMULATOR, LUGE_BACKEND_SIMULATOR as i32),
];
const KINDS: Table<MatrixKind, 5> = [
    (MatrixKind::General, LUGE_KIND_GENERAL as i32),
    (MatrixKind::Symmetric, LUGE_KIND_SYMMETRIC as i32),
    (
        MatrixKind::PositiveDefinite,
        LUGE_KIND_POSITIVE_DEFINITE as i32,
    ),
    (MatrixKind::Auto, LUGE_KIND_AUTO as i32),
    (MatrixKind::Hermitian, LUGE_KIND_HERMITIAN as i32),
];
const SINGULAR: Table<SingularAction, 2> = [
    (SingularAction::Refuse, LUGE_SINGULAR_REFUSE as i32),
    (SingularAction::Continue, LUGE_SINGULAR_CONTINUE as i32),
];
const PIVOTING: Table<Pivoting, 2> = [
    (Pivoting::Auto, LUGE_PIVOTING_AUTO as i32),
    (Pivoting::Static, LUGE_PIVOTING_STATIC as i32),
];
const SYMMETRIC_PIVOTING: Table<SymmetricPivoting, 3> = [
    (SymmetricPivoting::Blocks, LUGE_SYMMETRIC_BLOCKS as i32),
    (
        SymmetricPivoting::BlocksAlone,
        LUGE_SYMMETRIC_BLOCKS_ALONE as i32,
    ),
    (SymmetricPivoting::Columns, LUGE_SYMMETRIC_COLUMNS as i32),
];
const CPU_ENGINES: Table<CpuEngine, 3> = [
    (CpuEngine::Auto, LUGE_CPU_ENGINE_AUTO as i32),
    (CpuEngine::Columns, LUGE_CPU_ENGINE_COLUMNS as i32),
    (CpuEngine::Fronts, LUGE_CPU_ENGINE_FRONTS as i32),
];
const DEVICE_ENGINES: Table<DeviceEngine, 3> = [
    (DeviceEngine::Auto, LUGE_DEVICE_ENGINE_AUTO as i32),
    (DeviceEngine::Columns, LUGE_DEVICE_ENGINE_COLUMNS as i32),
    (DeviceEngine::Tree, LUGE_DEVICE_ENGINE_TREE as i32),
];
const PRECISIONS: Table<FactorPrecision, 2> = [
    (FactorPrecision::Matrix, LUGE_PRECISION_MATRIX as i32),
    (FactorPrecision::Single, LUGE_PRECISION_SINGLE as i32),
];
const RESIDUAL_CHECKS: Table<ResidualCheck, 3> = [
    (ResidualCheck::Always, LUGE_RESIDUAL_ALWAYS as i32),
    (
        ResidualCheck::WhereInDoubt,
        LUGE_RESIDUAL_WHERE_IN_DOUBT as i32,
    ),
    (ResidualCheck::Never, LUGE_RESIDUAL_NEVER as i32),
];
const ORDERINGS: Table<Method, 5> = [
    (Method::Auto, LUGE_ORDERING_AUTO as i32),
    (Method::Amd, LUGE_ORDERING_AMD as i32),
    (Method::Colamd, LUGE_ORDERING_COLAMD as i32),
    (
        Method::NestedDissection,
        LUGE_ORDERING_NESTED_DISSECTION as i32,
    ),
    (Method::Natural, LUGE_ORDERING_NATURAL as i32),
];
const MATCHINGS: Table<Matching, 3> = [
    (Matching::Auto, LUGE_MATCHING_AUTO as i32),
    (Matching::Always, LUGE_MATCHING_ALWAYS as i32),
    (Matching::Never, LUGE_MATCHING_NEVER as i32),
];
const FLAGS: Table<bool, 2> = [(false, 0), (true, 1)];

/// What a number of C is in the facade.
fn of_number<C: Clone, const N: usize>(table: Table<C, N>, number: i64) -> Outcome<C> {
    let found = table.iter().find(|(_, known)| i64::from(*known) == number);
    found.map(|(choice, _)| choice.clone()).ok_or_else(|| {
        let message = format!(
            "the value of the option is {number}; it must be from 0 to {}",
            N - 1
        );
        Failure::new(LUGE_ERROR_OPTION, message)
    })
}

/// The number in C of what the facade has.
fn number_of<C: PartialEq, const N: usize>(table: Table<C, N>, choice: &C) -> i64 {
    let found = table.iter().find(|(known, _)| known == choice);
    found.map_or(i64::from(LUGE_UNSET), |&(_, number)| i64::from(number))
}

/// A size that may be unset.
fn unless_unset(value: i64) -> Outcome<Option<u64>> {
    if value == i64::from(LUGE_UNSET) {
        return Ok(None);
    }
    at_least_zero(value).map(Some)
}

fn at_least_zero(value: i64) -> Outcome<u64> {
    u64::try_from(value).map_err(|_| {
        let message = format!("the value of the option is {value}; it must be at least 0");
        Failure::new(LUGE_ERROR_OPTION, message)
    })
}

fn or_unset(value: Option<u64>) -> i64 {
    value.map_or(i64::from(LUGE_UNSET), |value| value as i64)
}

fn unknown(option: i32) -> Failure {
    Failure::new(
        LUGE_ERROR_OPTION,
        format!("there is no option of number {option} with values of this type"),
    )
}

impl Chosen {
    /// The options as the facade takes them.
    pub(crate) fn options(&self) -> Options {
        let backend = match self.backend {
            LUGE_BACKEND_AUTO => BackendChoice::Auto,
            LUGE_BACKEND_CPU => BackendChoice::Cpu,
            LUGE_BACKEND_GPU => BackendChoice::Gpu {
                ordinal: self.device,
            },
            LUGE_BACKEND_SIMULATOR => BackendChoice::Simulator { seed: self.seed },
        };
        let mut options = self.options.clone().backend(backend);
        if self.is_threshold {
            options.pivoting = Pivoting::Threshold {
                threshold: self.threshold,
            };
        }
        options
    }

    fn set_int(&mut self, option: luge_int_option, value: i64) -> Outcome {
        let options = &mut self.options;
        match option {
            LUGE_OPTION_BACKEND => self.backend = of_number(BACKENDS, value)?,
            LUGE_OPTION_DEVICE => self.device = at_least_zero(value)? as usize,
            LUGE_OPTION_SIMULATOR_SEED => self.seed = at_least_zero(value)?,
            LUGE_OPTION_KIND => options.kind = of_number(KINDS, value)?,
            LUGE_OPTION_SINGULAR => options.singular = of_number(SINGULAR, value)?,
            LUGE_OPTION_THREADS => {
                options.threads = unless_unset(value)?.map(|threads| threads as usize)
            }
            LUGE_OPTION_PIVOTING if value == LUGE_PIVOTING_THRESHOLD as i64 => {
                self.is_threshold = true
            }
            LUGE_OPTION_PIVOTING => {
                let choice = of_number(PIVOTING, value).map_err(|_| {
                    let message =
                        format!("the value of the option is {value}; it must be from 0 to 2");
                    Failure::new(LUGE_ERROR_OPTION, message)
                })?;
                options.pivoting = choice;
                self.is_threshold = false;
            }
            LUGE_OPTION_SYMMETRIC_PIVOTING => {
                options.symmetric_pivoting = of_number(SYMMETRIC_PIVOTING, value)?
            }
            LUGE_OPTION_MAX_DELAYS => {
                let delays = unless_unset(value)?;
                options.max_delays = delays.map(|delays| u32::try_from(delays).unwrap_or(u32::MAX));
            }
            LUGE_OPTION_CPU_ENGINE => options.engine = of_number(CPU_ENGINES, value)?,
            LUGE_OPTION_DEVICE_ENGINE => options.device_engine = of_number(DEVICE_ENGINES, value)?,
            LUGE_OPTION_PRECISION => options.precision = of_number(PRECISIONS, value)?,
            LUGE_OPTION_MAX_REFINEMENT_STEPS => {
                options.max_refinement_steps = at_least_zero(value)? as usize
            }
            LUGE_OPTION_RESIDUAL_CHECK => {
                options.residual_check = of_number(RESIDUAL_CHECKS, value)?
            }
            LUGE_OPTION_ESTIMATE_CONDITION => options.estimate_condition = of_number(FLAGS, value)?,
            LUGE_OPTION_MAX_HOST_BYTES => options.max_host_bytes = unless_unset(value)?,
            LUGE_OPTION_MAX_DEVICE_BYTES => options.max_device_bytes = unless_unset(value)?,
            LUGE_OPTION_ORDERING => options.ordering.method = of_number(ORDERINGS, value)?,
            LUGE_OPTION_MATCHING => options.ordering.matching = of_number(MATCHINGS, value)?,
            LUGE_OPTION_SCALING => options.ordering.scaling = of_number(FLAGS, value)?,
            LUGE_OPTION_AVERAGED_SCALING => options.ordering.averaged = of_number(FLAGS, value)?,
            LUGE_OPTION_BLOCK_TRIANGULAR => {
                options.ordering.block_triangular = of_number(FLAGS, value)?
            }
        }
        Ok(())
    }

    fn int(&self, option: luge_int_option) -> i64 {
        let options = &self.options;
        let ordering = &options.ordering;
        match option {
            LUGE_OPTION_BACKEND => number_of(BACKENDS, &self.backend),
            LUGE_OPTION_DEVICE => self.device as i64,
            LUGE_OPTION_SIMULATOR_SEED => self.seed as i64,
            LUGE_OPTION_KIND => number_of(KINDS, &options.kind),
            LUGE_OPTION_SINGULAR => number_of(SINGULAR, &options.singular),
            LUGE_OPTION_THREADS => or_unset(options.threads.map(|threads| threads as u64)),
            LUGE_OPTION_PIVOTING if self.is_threshold => LUGE_PIVOTING_THRESHOLD as i64,
            LUGE_OPTION_PIVOTING => number_of(PIVOTING, &options.pivoting),
            LUGE_OPTION_SYMMETRIC_PIVOTING => {
                number_of(SYMMETRIC_PIVOTING, &options.symmetric_pivoting)
            }
            LUGE_OPTION_MAX_DELAYS => or_unset(options.max_delays.map(u64::from)),
            LUGE_OPTION_CPU_ENGINE => number_of(CPU_ENGINES, &options.engine),
            LUGE_OPTION_DEVICE_ENGINE => number_of(DEVICE_ENGINES, &options.device_engine),
            LUGE_OPTION_PRECISION => number_of(PRECISIONS, &options.precision),
            LUGE_OPTION_MAX_REFINEMENT_STEPS => options.max_refinement_steps as i64,
            LUGE_OPTION_RESIDUAL_CHECK => number_of(RESIDUAL_CHECKS, &options.residual_check),
            LUGE_OPTION_ESTIMATE_CONDITION => i64::from(options.estimate_condition),
            LUGE_OPTION_MAX_HOST_BYTES => or_unset(options.max_host_bytes),
            LUGE_OPTION_MAX_DEVICE_BYTES => or_unset(options.max_device_bytes),
            LUGE_OPTION_ORDERING => match &ordering.method {
                Method::User { .. } => LUGE_ORDERING_USER as i64,
                method => number_of(ORDERINGS, method),
            },
            LUGE_OPTION_MATCHING => number_of(MATCHINGS, &ordering.matching),
            LUGE_OPTION_SCALING => i64::from(ordering.scaling),
            LUGE_OPTION_AVERAGED_SCALING => i64::from(ordering.averaged),
            LUGE_OPTION_BLOCK_TRIANGULAR => i64::from(ordering.block_triangular),
        }
    }

    fn set_real(&mut self, option: luge_real_option, value: f64) {
        let unless_unset = || (value != f64::from(LUGE_UNSET)).then_some(value);
        let options = &mut self.options;
        match option {
            LUGE_OPTION_FACTORIZATIONS => options.factorizations = unless_unset(),
            LUGE_OPTION_PIVOT_THRESHOLD => self.threshold = value,
            LUGE_OPTION_PERTURBATION => options.perturbation = unless_unset(),
            LUGE_OPTION_TARGET_BACKWARD_ERROR => options.target_backward_error = unless_unset(),
            LUGE_OPTION_MAX_GROWTH => options.max_growth = value,
            LUGE_OPTION_DIAGONAL_THRESHOLD => options.ordering.diagonal_threshold = value,
        }
    }

    fn real(&self, option: luge_real_option) -> f64 {
        let options = &self.options;
        let unset = f64::from(LUGE_UNSET);
        match option {
            LUGE_OPTION_FACTORIZATIONS => options.factorizations.unwrap_or(unset),
            LUGE_OPTION_PIVOT_THRESHOLD => self.threshold,
            LUGE_OPTION_PERTURBATION => options.perturbation.unwrap_or(unset),
            LUGE_OPTION_TARGET_BACKWARD_ERROR => options.target_backward_error.unwrap_or(unset),
            LUGE_OPTION_MAX_GROWTH => options.max_growth,
            LUGE_OPTION_DIAGONAL_THRESHOLD => options.ordering.diagonal_threshold,
        }
    }
}

/// Makes options with the default values, which are meant to be good for all matrices.
///
/// `out`: output, the handle, which the caller frees by luge_options_free; NULL if the call fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_options_create(out: *mut *mut luge_options) -> luge_status {
    // SAFETY: the caller passes NULL or room for a pointer.
    guarded(|| unsafe { put(out, || Ok(RwLock::default())) })
}

/// Frees options and sets `*options` to NULL. Solvers that were made with them keep a copy. NULL, and a pointer to NULL, are
/// allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_options_free(options: *mut *mut luge_options) -> luge_status {
    // SAFETY: the caller passes NULL or a pointer to a handle.
    guarded(|| unsafe { free(options) })
}

/// Sets an option that has an integer value.
///
/// `option`: one of luge_int_option, which says what values there are. Enumerations are checked here, ranges of numbers and
/// what does not go together when a solver is made.
///
/// Errors: LUGE_ERROR_OPTION if there is no such option, or no such value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_options_set_int(
    options: *mut luge_options,
    option: i32,
    value: i64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle.
        let options = unsafe { state(options, "options") }?;
        write(options)?.set_int(int_option(option)?, value)
    })
}

/// The value of an option that has an integer value.
///
/// `option`: one of luge_int_option. `value`: output.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_options_get_int(
    options: *const luge_options,
    option: i32,
    value: *mut i64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, and NULL or a number.
        let (options, value) =
            unsafe { (state(options, "options")?, required_mut(value, "value")?) };
        *value = read(options)?.int(int_option(option)?);
        Ok(())
    })
}

/// Sets an option that has a real value.
///
/// `option`: one of luge_real_option. Ranges are checked when a solver is made.
///
/// Errors: LUGE_ERROR_OPTION if there is no such option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_options_set_real(
    options: *mut luge_options,
    option: i32,
    value: f64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle.
        let options = unsafe { state(options, "options") }?;
        let option = real_option(option)?;
        write(options)?.set_real(option, value);
        Ok(())
    })
}

/// The value of an option that has a real value.
///
/// `option`: one of luge_real_option. `value`: output.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_options_get_real(
    options: *const luge_options,
    option: i32,
    value: *mut f64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle, and NULL or a number.
        let (options, value) =
            unsafe { (state(options, "options")?, required_mut(value, "value")?) };
        *value = read(options)?.real(real_option(option)?);
        Ok(())
    })
}

/// Orders rows and columns by these permutations as they are: without a matching and without a block triangular form.
/// Setting LUGE_OPTION_ORDERING takes it back.
///
/// `rows`, `columns`: `n` numbers each, from 0: row (column) k of the permuted matrix is row (column) `rows[k]`
/// (`columns[k]`) of the matrix. For a symmetric matrix both are the same. They are copied.
///
/// Errors: LUGE_ERROR_OPTION if one of them is not a permutation, LUGE_ERROR_INDEX_OVERFLOW if `n` is above 2^32 - 2; when a matrix is analyzed, LUGE_ERROR_SIZE if its order is
/// not `n`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_options_set_permutations(
    options: *mut luge_options,
    n: i64,
    rows: *const i64,
    columns: *const i64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle.
        let options = unsafe { state(options, "options") }?;
        let n = order(n, "n")?;
        // SAFETY: the caller passes NULL or `n` numbers.
        let (rows, cols) = unsafe { (array(rows, n, "rows")?, array(columns, n, "columns")?) };
        let of_option = |error: String| Failure::new(LUGE_ERROR_OPTION, error);
        // What does not fit is out of range, whatever the length.
        let narrow = |numbers: &[i64]| -> Vec<u32> {
            let numbers = numbers.iter();
            numbers
                .map(|&i| u32::try_from(i).unwrap_or(u32::MAX))
                .collect()
        };
        let method = Method::User {
            rows: RowPerm::new(narrow(rows))
                .map_err(|error| of_option(format!("rows: {error}")))?,
            cols: ColPerm::new(narrow(cols))
                .map_err(|error| of_option(format!("columns: {error}")))?,
        };
        write(options)?.options.ordering.method = method;
        Ok(())
    })
}

/// States the signs that the pivots of a symmetric matrix are expected to have, as those of a quasidefinite system, and
/// replaces pivots that come out with another sign or too small (dynamic regularization). Pivots are then not searched, and
/// solves are refined for the matrix itself.
///
/// `signs`: `n` numbers, 1 or -1, one for each column of the matrix; they are copied. NULL with `n` = 0 takes the call back.
/// `delta`: what a pivot is replaced by, times its sign; above 0 and finite. `below`: a pivot is replaced if it is at most
/// this, times its sign; from 0 to `delta`.
///
/// Errors: when a solver is made, LUGE_ERROR_OPTION if a number is out of range, or LUGE_OPTION_KIND is not
/// LUGE_KIND_SYMMETRIC; when a matrix is analyzed, LUGE_ERROR_SIZE if its order is not `n`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn luge_options_set_regularization(
    options: *mut luge_options,
    n: i64,
    signs: *const i8,
    delta: f64,
    below: f64,
) -> luge_status {
    guarded(|| {
        // SAFETY: the caller passes NULL or a handle.
        let options = unsafe { state(options, "options") }?;
        let n = order(n, "n")?;
        // SAFETY: the caller passes NULL or `n` numbers.
        let given = unsafe { array(signs, n, "signs") }?;
        let regularization = if signs.is_null() {
            None
        } else {
            Some(Regularization::new(Arc::<[i8]>::from(given), delta).below(below))
        };
        write(options)?.options.regularization = regularization;
        Ok(())
    })
}
