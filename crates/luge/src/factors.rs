//! Factors, what they solve, and their renewal for new values.

mod changed;
mod kept;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

#[cfg(feature = "gpu")]
use luge_device::{Buffer, Slice};
use luge_solve::backward_error::{Measured, RowNorms, max_abs};
use luge_solve::extended::Extended;
#[cfg(feature = "gpu")]
use luge_solve::gpu::{Measures, Refined as OnDevice};
use luge_solve::refine::{self, Refined, refine, refine_extended};
use luge_sparse::num_traits::Float;
use luge_sparse::{
    FilledPattern, Index, Inertia, Levels, MatrixRef, MatrixView, RealScalar, Reservation, Scalar,
    bytes_of,
};

use crate::accuracy::{Accuracy, ORDINARY, OnePass};
use crate::attempts::Found;
use crate::backend::Field;
use crate::determinant::Determinant;
#[cfg(feature = "gpu")]
use crate::device_analysis::{NewValues, ResidentEngine, Search, System};
#[cfg(feature = "gpu")]
use crate::device_factors::DeviceFactors;
#[cfg(feature = "gpu")]
use crate::device_path::Verdict;
#[cfg(feature = "gpu")]
use crate::device_plan::DevicePath;
use crate::engine::{Condition, Engine, FactorReport, check_right_hand_sides, solve_extended};
use crate::error::Error;
use crate::host::KeptValues;
use crate::host_path::HostFactors;
use crate::host_plan::SymmetricReport;
use crate::inform::{Inform, Warning};
use crate::ldlt::Ldlt;
use crate::lower_upper::LowerUpper;
use crate::options::MatrixKind;
#[cfg(doc)]
use crate::options::Pivoting;
use crate::path::{Path, Plan};
use crate::probe::is_above;
#[cfg(feature = "gpu")]
use crate::probe::of_probe;
use crate::reductions;
use crate::task::{Journal, Refactorized, Task};

/// Seconds that the comparison of a pattern and the copy of its values take for each entry, roughly and
/// at least.
pub(crate) const RENEWAL_PER_ENTRY: f64 = 2e-9;

/// Below this times ε, or the error of the factors if that is more, the reciprocal condition number is worth a warning: one
/// digit is left.
const ILL_CONDITIONED: f64 = 10.0;

/// An upper bound of the reciprocal condition number below ε, or the error of the factors, to this power is followed by an
/// estimate: a matrix that is singular to rounding misses that by chance once in a million factorizations in `f64`.
const DOUBTFUL: f64 = 0.6;

/// Numbers from which on solutions go straight from the device to where they are wanted, once the device has looked
/// through them: memory that is new to the process, and two more passes over it, take longer than to wait for that.
#[cfg(feature = "gpu")]
const MANY_NUMBERS: usize = 1 << 15;

/// Host memory for sums and maxima of the rows of a matrix and of its transpose, and once more for those of the next
/// matrix.
const NORMS_PER_ROW: u64 = 48;

/// Vectors of a probe with refinement, or of the refinement of one right-hand side, if their numbers have exponents apart.
const VECTORS: usize = 18;

/// Host memory for the values in the wide type, if they are not, and for a probe.
fn work_bytes<T: Scalar>(n: usize, nnz: usize) -> u64 {
    let widened = if size_of::<T>() == size_of::<T::Wide>() {
        0
    } else {
        2 * nnz
    };
    bytes_of::<T::Wide>(widened + VECTORS * n)
}

/// Factors of one matrix, which solve with it and its transpose.
pub struct Factors<T: Scalar> {
    plan: Arc<Plan<T::Wide>>,
    /// The values of the matrix in the stored order of the analysis, for residuals; empty until somebody asks where
    /// they came from the device.
    values: OnceLock<Arc<Vec<T>>>,
    norms: OnceLock<RowNorms>,
    transpose_norms: OnceLock<RowNorms>,
    computed: Computed<T::Wide>,
    /// Estimated because the options ask for it.
    condition: Option<Condition>,
    /// Estimated, where one solve raised the question, for the report; the error is in words.
    doubt: OnceLock<Result<Option<Condition>, String>>,
    /// The report of the analysis, from which that of the factors starts.
    analyzed: Arc<Inform>,
    journal: Journal,
    inform: OnceLock<Inform>,
    /// The largest magnitude of the values, if it is known.
    largest: Option<f64>,
    /// See [`Inform::refactorized_part`].
    refactorized_part: Option<f64>,
    /// What is reserved on the host for values and norms.
    _memory: Reservation,
}

/// The factors of one path.
enum Computed<W> {
    Host(HostFactors<W>),
    #[cfg(feature = "gpu")]
    Device(DeviceFactors<W>),
}

/// A solution and how good it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Solution<T> {
    /// The solution; with many right-hand sides, one column after another.
    pub x: Vec<T>,
    /// The report, backward error and refinement steps included.
    pub inform: Inform,
}

/// Whether solutions that were begun on a device are finite: see [`Factors::begin_solve_on_device`].
#[cfg(feature = "gpu")]
#[must_use = "a solution that is not finite is told of by `wait` alone"]
pub struct SolutionCheck {
    /// None where that is known already.
    search: Option<Search>,
    accuracy: Accuracy,
}

#[cfg(feature = "gpu")]
impl SolutionCheck {
    /// Waits for the solutions, and tells how good they are.
    ///
    /// # Errors
    ///
    /// [`Error::SolutionNotFinite`] if a solution has an entry that is infinite or not a number, maybe because its
    /// right-hand side has one; those of the device.
    pub fn wait(self) -> Result<Accuracy, Error> {
        let Some(search) = self.search else {
            return Ok(self.accuracy);
        };
        // Outside, right-hand sides or solutions may have lost digits to underflow.
        if ORDINARY.contains(&search.wait()?) {
            Ok(self.accuracy)
        } else {
            Ok(Accuracy::bounded(None))
        }
    }
}

#[cfg(feature = "gpu")]
impl std::fmt::Debug for SolutionCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SolutionCheck").finish_non_exhaustive()
    }
}

impl<W: Field> Computed<W> {
    fn engine(&self) -> &dyn Engine<W> {
        match self {
            Self::Host(host) => host.engine.as_ref(),
            #[cfg(feature = "gpu")]
            Self::Device(device) => device.engine.as_ref(),
        }
    }

    /// Whether the values of the matrix are with the factors.
    fn has_values(&self) -> bool {
        match self {
            Self::Host(_) => false,
            #[cfg(feature = "gpu")]
            Self::Device(device) => device.engine.resident().is_some(),
        }
    }
}

impl<T: Scalar> Factors<T> {
    pub(crate) fn new<I: Index>(
        plan: Arc<Plan<T::Wide>>,
        a: &MatrixRef<'_, T, I>,
        analyzed: &Arc<Inform>,
    ) -> Result<Self, Error> {
        let seconds = RENEWAL_PER_ENTRY * a.nnz() as f64;
        let shared = &plan.shared;
        let (values, largest) = shared
            .threads
            .run(seconds, |threads| shared.values_of(a, threads))?;
        Self::of_values(plan, values, largest, analyzed)
    }

    #[track_caller]
    pub(crate) fn with_values(
        plan: Arc<Plan<T::Wide>>,
        values: &[T],
        analyzed: &Arc<Inform>,
    ) -> Result<Self, Error> {
        let shared = &plan.shared;
        shared.check_count(values.len());
        let seconds = RENEWAL_PER_ENTRY * values.len() as f64;
        let (values, largest) = shared.threads.run(seconds, |threads| {
            shared.accepted(Cow::Borrowed(values), threads)
        })?;
        Self::of_values(plan, values, largest, analyzed)
    }

    /// Factors of the matrix with these values in the stored order of the analysis, all finite, the `largest` by
    /// magnitude.
    pub(crate) fn of_values(
        plan: Arc<Plan<T::Wide>>,
        values: Cow<'_, [T]>,
        largest: f64,
        analyzed: &Arc<Inform>,
    ) -> Result<Self, Error> {
        let norms = OnceLock::new();
        let mut journal = Journal::after(analyzed);
        // The values, and the norms of rows and columns when they are wanted.
        let shared = &plan.shared;
        let (n, nnz) = (shared.n(), shared.nnz());
        let held = bytes_of::<T>(nnz) + NORMS_PER_ROW * n as u64;
        let memory = shared.limits.reserve(held, "numeric")?;
        let _of_work = shared.limits.reserve(work_bytes::<T>(n, nnz), "numeric")?;
        let computed = {
            let in_wide = T::in_wide(&values);
            let task = Task {
                shared,
                a: shared.view(&values),
                values: &in_wide,
                largest,
                norms: &norms,
            };
            match &plan.path {
                Path::Host(path) => Computed::Host(path.create(task, &mut journal)?),
                #[cfg(feature = "gpu")]
                Path::Device(path) => Computed::Device(path.create(task, &mut journal)?),
            }
        };
        let mut factors = Self {
            values: if computed.has_values() {
                OnceLock::new()
            } else {
                OnceLock::from(Arc::new(values.into_owned()))
            },
            plan,
            norms,
            transpose_norms: OnceLock::new(),
            computed,
            condition: None,
            doubt: OnceLock::new(),
            analyzed: Arc::clone(analyzed),
            journal,
            inform: OnceLock::new(),
            largest: None,
            refactorized_part: None,
            _memory: memory,
        };
        factors.condition = factors.wanted_condition()?;
        Ok(factors)
    }

    /// The values on the host, fetched from the device if they came from there.
    fn values(&self) -> Result<&[T], Error> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        #[cfg(feature = "gpu")]
        if let Some(engine) = self.resident() {
            let values = engine.download_values()?.into_iter().map(T::narrow);
            let (values, _) = self.plan.shared.accepted(values.collect(), 1)?;
            return Ok(self.values.get_or_init(|| Arc::new(values.into_owned())));
        }
        unreachable!("values are here unless an engine has them")
    }

    fn view(&self) -> Result<MatrixView<'_, T>, Error> {
        Ok(self.plan.shared.view(self.values()?))
    }

    /// What is known of these factors: sizes, pivots, growth, the probe's backward error.
    pub fn inform(&self) -> &Inform {
        self.inform.get_or_init(|| self.describe())
    }

    /// Order of the matrix.
    pub fn n(&self) -> usize {
        self.plan.shared.n()
    }

    /// The filled pattern of the matrix that was factorized in the end and its levels: those of
    /// [`Analysis::structure`](crate::Analysis::structure), or, where pivots moved rows, those of the
    /// matrix with its rows so permuted.
    ///
    /// # Errors
    ///
    /// As for the analysis.
    pub fn structure(&self) -> Result<(FilledPattern, Levels), Error> {
        match &self.computed {
            Computed::Host(host) => self.plan.shared.host_structure(host.engine.transform()),
            #[cfg(feature = "gpu")]
            Computed::Device(device) => device.analysis.structure(&self.plan.shared),
        }
    }

    /// As [`structure`](Self::structure), but found on the CPU for the permutations of these factors:
    /// what a device found must be the same, entry for entry.
    ///
    /// # Errors
    ///
    /// As [`Analysis::structure`](crate::Analysis::structure).
    pub fn structure_on_cpu(&self) -> Result<(FilledPattern, Levels), Error> {
        self.plan.shared.host_structure(match &self.computed {
            Computed::Host(host) => host.engine.transform(),
            #[cfg(feature = "gpu")]
            Computed::Device(device) => device.analysis.transform().clone(),
        })
    }

    /// The determinant of the matrix.
    ///
    /// # Errors
    ///
    /// Those of the device.
    pub fn determinant(&self) -> Result<Determinant<T::Wide>, Error> {
        self.computed.engine().determinant()
    }

    /// How many eigenvalues of a symmetric or Hermitian matrix are positive, negative and zero: those of the D of its factorization
    /// (Sylvester's law of inertia). `None` if the matrix was factorized as a general one, or is complex symmetric: then its
    /// eigenvalues have no signs.
    ///
    /// No solve and no other work is needed. Zero are the pivots with which
    /// [`SingularAction::Continue`](crate::SingularAction::Continue) went on.
    pub fn inertia(&self) -> Option<Inertia> {
        let report = self.computed.engine().report();
        report.symmetric.and_then(|symmetric| symmetric.inertia)
    }

    /// The columns of the matrix whose pivots were replaced, ascending: as many as [`Inform::num_perturbed`] says. `None` where
    /// only their number is known, that is with neither a [`Regularization`](crate::Regularization) nor a
    /// [limit of delays](field@crate::Options::max_delays).
    pub fn perturbed_columns(&self) -> Option<Vec<usize>> {
        self.computed.engine().perturbed()
    }

    /// L and U of a general matrix as matrices, with the permutations: see [`LowerUpper`]. `None` if the matrix was
    /// factorized as a symmetric one ([`ldlt`](Self::ldlt) has L and D then), or on a device.
    ///
    /// They are made for this call: the entries of U above the diagonal blocks, which no solve needs, are computed, and
    /// all are sorted and copied. That may take as long as the factorization.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] and [`Error::Cancelled`]; [`Error::Overflow`] if an entry leaves the range of `T` once the
    /// scaling is undone.
    pub fn lower_upper(&self) -> Result<Option<LowerUpper<T>>, Error> {
        LowerUpper::of(self.computed.engine())
    }

    /// Estimate of 1/(‖B‖₁·‖B⁻¹‖₁) for the scaled matrix B, from a few solves (Hager 1984,
    /// Higham 1988).
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`], those of the device.
    pub fn rcond(&self) -> Result<f64, Error> {
        let known = self.known_condition();
        match known {
            Some(condition) => Ok(condition.rcond),
            None => {
                let values = T::in_wide(self.values()?);
                Ok(self.computed.engine().condition(&values)?.rcond)
            }
        }
    }

    /// Replaces b by the solution of A·x = b, or each of several right-hand sides, stored one after
    /// another, and returns how good the solutions are.
    ///
    /// One pass of triangular solves is all, where it is known that this is good enough for any right-hand side: growth,
    /// checksum and scaling of the factors bound its backward error by at most a hundred times the
    /// [target](crate::Options::target_backward_error), or a probe measured that. The bound is then in the [`Accuracy`], and
    /// nothing is measured, for callers who compute their own residual, as a Newton iteration does. Otherwise (replaced
    /// pivots, large growth, factors in a shorter type, a scaling that does not go with the norm of A) each solution is
    /// measured, and refined until it reaches the target or
    /// [`max_refinement_steps`](crate::Options::max_refinement_steps); then the `Accuracy` has the measured error, which may
    /// still be above the target. [`solve`](Self::solve) always measures, and refines further.
    ///
    /// # Errors
    ///
    /// [`Error::RightHandSideNotFinite`] and [`Error::SolutionNotFinite`], `x` being as it was; [`Error::Cancelled`]; those
    /// of the device.
    ///
    /// # Panics
    ///
    /// If the length of `x` is not a multiple of n.
    #[track_caller]
    pub fn solve_in_place(&self, x: &mut [T]) -> Result<Accuracy, Error> {
        self.pass_in_place(x, false)
    }

    /// Replaces b by the solution of Aᵀ·x = b; otherwise as [`solve_in_place`](Self::solve_in_place).
    ///
    /// # Errors
    ///
    /// As [`solve_in_place`](Self::solve_in_place).
    ///
    /// # Panics
    ///
    /// If the length of `x` is not a multiple of n.
    #[track_caller]
    pub fn solve_transpose_in_place(&self, x: &mut [T]) -> Result<Accuracy, Error> {
        self.pass_in_place(x, true)
    }

    /// Replaces b by the solution of Aᴴ·x = b, with the conjugate transpose; otherwise as
    /// [`solve_in_place`](Self::solve_in_place). Of a real matrix that is
    /// [`solve_transpose_in_place`](Self::solve_transpose_in_place).
    ///
    /// # Errors
    ///
    /// As [`solve_in_place`](Self::solve_in_place).
    ///
    /// # Panics
    ///
    /// If the length of `x` is not a multiple of n.
    #[track_caller]
    pub fn solve_adjoint_in_place(&self, x: &mut [T]) -> Result<Accuracy, Error> {
        // Aᴴ·x = b is the conjugate of Aᵀ·x̄ = b̄.
        conjugate(x);
        let solved = self.pass_in_place(x, true);
        conjugate(x);
        solved
    }

    #[track_caller]
    fn pass_in_place(&self, x: &mut [T], transpose: bool) -> Result<Accuracy, Error> {
        assert!(
            x.len().is_multiple_of(self.n()),
            "the right-hand sides have {} entries; the matrix has order {}",
            x.len(),
            self.n()
        );
        let bound = match self.one_pass(transpose) {
            OnePass::Bounded(bound) => Some(bound),
            OnePass::Unknown => None,
            OnePass::Measured => return self.measured_in_place(x, transpose),
        };
        if self.plain_pass(x, transpose)? {
            Ok(Accuracy::bounded(bound))
        } else {
            self.measured_in_place(x, transpose)
        }
    }

    /// One pass of triangular solves in place; false, and `x` as it was, if right-hand sides or solutions are so small or
    /// large that digits may be lost.
    fn plain_pass(&self, x: &mut [T], transpose: bool) -> Result<bool, Error> {
        let n = self.n().max(1);
        let nrhs = x.len() / n;
        if let (Computed::Host(host), Some(x)) = (&self.computed, T::as_wide_mut(x)) {
            return host.engine.solve_near(x, transpose);
        }
        #[cfg(feature = "gpu")]
        if x.len() >= MANY_NUMBERS
            && let Some(engine) = self.resident()
            && let Some(x) = T::as_wide_mut(x)
        {
            let in_solve = |e| Error::from_device(e, "solve");
            let mut solution = engine.upload(x).map_err(in_solve)?;
            let search = engine.begin_solve(&mut solution, nrhs, transpose)?;
            match search.wait() {
                Ok(largest) if ORDINARY.contains(&largest) => {}
                Ok(_) | Err(Error::SolutionNotFinite { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
            engine.copy_to_host(&solution, x).map_err(in_solve)?;
            return Ok(true);
        }
        let bytes = bytes_of::<f64>(2 * x.len());
        let _memory = self.plan.shared.limits.reserve(bytes, "solve")?;
        let solution = self
            .computed
            .engine()
            .solve(&T::in_wide(x), nrhs, transpose)?;
        // What is hardly above the smallest normal number has lost digits.
        let smallest = T::Real::min_positive_value().to_f64() / T::Real::epsilon().to_f64().powi(2);
        let range =
            ORDINARY.start().max(smallest)..=ORDINARY.end().min(T::Real::max_value().to_f64());
        let largest = |x: &[T::Wide]| reductions::largest_magnitude(x, 1);
        if !solution.chunks(n).all(|x| range.contains(&largest(x))) {
            return Ok(false);
        }
        x.iter_mut()
            .zip(solution)
            .for_each(|(x, value)| *x = T::narrow(value));
        Ok(true)
    }

    /// What is known of one pass of triangular solves. Of a singular matrix nothing: what is left of an inconsistent system
    /// is no rounding error.
    fn one_pass(&self, transpose: bool) -> OnePass {
        let target = self.plan.shared.target;
        let report = self.computed.engine().report();
        if report.symmetric.is_some_and(|known| known.num_zero > 0) {
            return OnePass::Measured;
        }
        match &self.computed {
            Computed::Host(host) => host.one_pass(target, transpose),
            #[cfg(feature = "gpu")]
            Computed::Device(device) => device.one_pass(target, transpose),
        }
    }

    /// The refinement of solutions that are computed in place.
    fn up_to_target(&self) -> refine::Options {
        refine::Options {
            enough: Some(f64::INFINITY),
            ..self.plan.shared.refinement::<T>()
        }
    }

    /// Solves in place, measures, and refines until the target is reached.
    fn measured_in_place(&self, x: &mut [T], transpose: bool) -> Result<Accuracy, Error> {
        let nrhs = x.len() / self.n().max(1);
        let (solution, achieved) = self.solve_to(x, nrhs, transpose, &self.up_to_target())?;
        x.copy_from_slice(&solution);
        Ok(achieved.accuracy())
    }

    /// Solves A·x = b.
    ///
    /// A solution whose backward error stays above the target is given all the same, with a
    /// [`Warning::TargetMissed`].
    ///
    /// # Errors
    ///
    /// [`Error::RightHandSideNotFinite`], [`Error::SolutionNotFinite`],
    /// [`Error::Cancelled`], those of the device.
    ///
    /// # Panics
    ///
    /// If `b` is not of length n.
    #[track_caller]
    pub fn solve(&self, b: &[T]) -> Result<Solution<T>, Error> {
        self.solve_many(b, 1)
    }

    /// Solves Aᵀ·x = b; otherwise as [`solve`](Self::solve).
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// If `b` is not of length n.
    #[track_caller]
    pub fn solve_transpose(&self, b: &[T]) -> Result<Solution<T>, Error> {
        self.solve_transpose_many(b, 1)
    }

    /// Solves Aᴴ·x = b, with the conjugate transpose; otherwise as [`solve`](Self::solve). Of a real matrix that is
    /// [`solve_transpose`](Self::solve_transpose).
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// If `b` is not of length n.
    #[track_caller]
    pub fn solve_adjoint(&self, b: &[T]) -> Result<Solution<T>, Error> {
        let mut b = b.to_vec();
        conjugate(&mut b);
        let mut solution = self.solve_transpose(&b)?;
        conjugate(&mut solution.x);
        Ok(solution)
    }

    /// Solves A·X = B for `nrhs` right-hand sides that stand one after another in `b`. The inform
    /// has the largest errors and the most steps of them all.
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// If `b` is not of length n · nrhs.
    #[track_caller]
    pub fn solve_many(&self, b: &[T], nrhs: usize) -> Result<Solution<T>, Error> {
        let nrhs = check_length(b.len(), self.n(), nrhs);
        self.solve_and_describe(b, nrhs, false)
    }

    /// Solves Aᵀ·X = B for `nrhs` right-hand sides; otherwise as [`solve_many`](Self::solve_many).
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// If `b` is not of length n · nrhs.
    #[track_caller]
    pub fn solve_transpose_many(&self, b: &[T], nrhs: usize) -> Result<Solution<T>, Error> {
        let nrhs = check_length(b.len(), self.n(), nrhs);
        self.solve_and_describe(b, nrhs, true)
    }

    /// Solves Aᴴ·X = B for `nrhs` right-hand sides, with the conjugate transpose; otherwise as
    /// [`solve_many`](Self::solve_many).
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve).
    ///
    /// # Panics
    ///
    /// If `b` is not of length n · nrhs.
    #[track_caller]
    pub fn solve_adjoint_many(&self, b: &[T], nrhs: usize) -> Result<Solution<T>, Error> {
        let nrhs = check_length(b.len(), self.n(), nrhs);
        // Aᴴ·X = B is the conjugate of Aᵀ·X̄ = B̄.
        let mut b = b.to_vec();
        conjugate(&mut b);
        let mut solution = self.solve_and_describe(&b, nrhs, true)?;
        conjugate(&mut solution.x);
        Ok(solution)
    }

    fn solve_and_describe(
        &self,
        b: &[T],
        nrhs: usize,
        transpose: bool,
    ) -> Result<Solution<T>, Error> {
        let start = Instant::now();
        let (x, achieved) =
            self.solve_to(b, nrhs, transpose, &self.plan.shared.refinement::<T>())?;
        let inform = self.describe_solve(start, achieved);
        Ok(Solution { x, inform })
    }

    /// Solves, measures and refines, on the device if the factors are there and the numbers in its range.
    fn solve_to(
        &self,
        b: &[T],
        nrhs: usize,
        transpose: bool,
        refinement: &refine::Options,
    ) -> Result<(Vec<T>, Achieved), Error> {
        let _span = tracing::info_span!("solve").entered();
        let b = T::in_wide(b);
        check_right_hand_sides(&b, self.n())?;
        #[cfg(feature = "gpu")]
        if let Some(resident) = self.resident() {
            match self.solve_columns_resident(resident, &b, nrhs, transpose, refinement) {
                Ok(Some(solved)) => return Ok(solved),
                Ok(None) | Err(Error::SolutionNotFinite { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.solve_columns(&b, nrhs, transpose, refinement)
    }
}

/// What works with vectors on a device.
#[cfg(feature = "gpu")]
impl<T: Scalar> Factors<T> {
    /// The engine that keeps values and vectors on the device, if that is where they are.
    fn resident(&self) -> Option<&dyn ResidentEngine<T::Wide>> {
        match &self.computed {
            Computed::Device(factors) => factors.engine.resident(),
            Computed::Host(_) => None,
        }
    }

    /// Solves and refines on the device. Right-hand sides go there and solutions come back, once. `None` if the numbers
    /// are out of the range in which the device measures.
    fn solve_columns_resident(
        &self,
        engine: &dyn ResidentEngine<T::Wide>,
        b: &[T::Wide],
        nrhs: usize,
        transpose: bool,
        refinement: &refine::Options,
    ) -> Result<Option<(Vec<T>, Achieved)>, Error> {
        let in_solve = |e| Error::from_device(e, "solve");
        let n = self.n();
        let mut achieved = Achieved::default();
        let mut x = Vec::with_capacity(n * nrhs);
        for b in b.chunks(AT_ONCE * n.max(1)) {
            let system = System {
                shared: &self.plan.shared,
                nrhs: b.len() / n,
                transpose,
            };
            let there = engine.upload(b).map_err(in_solve)?;
            let mut solution = engine.alloc(b.len()).map_err(in_solve)?;
            let refined = engine.solve_refined(system, &there, &mut solution, refinement)?;
            if is_out_of_range(&refined) {
                return Ok(None);
            }
            let mut solved = engine.download(solution.slice(..)).map_err(in_solve)?;
            achieved.add_steps(refined.iter().map(|refined| refined.steps));
            if size_of::<T>() == size_of::<T::Wide>() {
                achieved.add_errors(refined.iter().map(|refined| refined.measures));
            } else {
                // What the caller gets is measured.
                solved.iter_mut().for_each(|v| *v = T::narrow(*v).widen());
                if let Some(at) = solved.iter().position(|v| !v.is_number()) {
                    return Err(Error::SolutionNotFinite { row: at % n });
                }
                let copied = engine.copy_from_host(&mut solution, &solved);
                copied.map_err(in_solve)?;
                achieved.add_errors(engine.measure(system, &there, &solution)?);
            }
            x.extend(solved.into_iter().map(T::narrow));
        }
        Ok(Some((x, achieved)))
    }

    /// Factorizes new values, which are in the order in which callers store the analyzed matrix, with an engine that keeps
    /// them. They are on the host after it only where the old pivots do not serve.
    fn renew_resident(
        &mut self,
        plan: &Plan<T::Wide>,
        values: NewValues<'_, T::Wide>,
        threads: usize,
    ) -> Result<Refactorized, Error> {
        let shared = &plan.shared;
        let (Path::Device(path), Computed::Device(factors)) = (&plan.path, &mut self.computed)
        else {
            unreachable!("factors on a device")
        };
        let mut journal = Journal::after(&self.analyzed);
        let work = work_bytes::<T>(shared.n(), shared.nnz());
        let _of_work = shared.limits.reserve(work, "numeric")?;
        let refinement = of_probe::<T>(shared);
        let reason =
            match path.refactorize_resident(factors, values, shared, &refinement, &mut journal)? {
                Verdict::Serve(outcome) => {
                    self.values = OnceLock::new();
                    self.accept(OnceLock::new(), journal)?;
                    return Ok(outcome);
                }
                Verdict::Fail(reason) => reason,
            };
        let engine = factors.engine.resident();
        let engine = engine.unwrap_or_else(|| unreachable!("an engine that keeps values"));
        let stored = match values {
            NewValues::OnHost { values, .. } => Ok(Cow::Borrowed(values)),
            NewValues::OnDevice(values) => {
                let values = engine.download(values).map(Cow::Owned);
                values.map_err(|e| Error::from_device(e, "numeric"))
            }
            NewValues::Changed { .. } => engine.download_values().map(Cow::Owned),
        };
        let whole = stored.and_then(|stored| Self::whole_values(plan, &stored, threads));
        let (values, largest) = whole.map_err(|error| factors.restored(error))?;
        let norms = OnceLock::new();
        let task = Task {
            shared,
            a: shared.view(&values),
            values: &T::in_wide(&values),
            largest,
            norms: &norms,
        };
        let outcome = path.repivot(factors, reason, task, &mut journal)?;
        self.values = OnceLock::from(Arc::new(values));
        self.accept(norms, journal)?;
        Ok(outcome)
    }

    /// The values of all entries of the analyzed matrix, given those that callers store, and the largest magnitude among
    /// them.
    fn whole_values(
        plan: &Plan<T::Wide>,
        stored: &[T::Wide],
        threads: usize,
    ) -> Result<(Vec<T>, f64), Error> {
        let stored = stored.iter().map(|&v| T::narrow(v)).collect();
        let (values, largest) = plan.shared.accepted(stored, threads)?;
        Ok((values.into_owned(), largest))
    }
}

impl<T: Scalar> Factors<T> {
    /// L and D of a symmetric or Hermitian matrix, to solve with each by itself, and with another D. `None` if the matrix was factorized
    /// as a general one.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] and [`Error::Cancelled`], where the factors have to be restored first; those of the device, from
    /// which D is copied.
    pub fn ldlt(&self) -> Result<Option<Ldlt<'_, T>>, Error> {
        Ldlt::of(self.computed.engine(), self.n())
    }
}

impl<T: Scalar> Factors<T> {
    /// Solves, and measures and refines on the host.
    fn solve_columns(
        &self,
        b: &[T::Wide],
        nrhs: usize,
        transpose: bool,
        refinement: &refine::Options,
    ) -> Result<(Vec<T>, Achieved), Error> {
        let n = self.n();
        // First solutions, right-hand sides in f64, and what is handed over; beside what one is refined in.
        let bytes = bytes_of::<T::Wide>(3 * b.len() + VECTORS * n);
        let _memory = self.plan.shared.limits.reserve(bytes, "solve")?;
        let (a, norms) = if transpose {
            (self.view()?.transpose(), &self.transpose_norms)
        } else {
            (self.view()?, &self.norms)
        };
        let norms = norms.get_or_init(|| RowNorms::new(a));
        let mut x = Vec::with_capacity(b.len());
        let mut achieved = Achieved::default();
        // All first solutions at once, then each right-hand side is refined by itself.
        let first = self.computed.engine().solve(b, nrhs, transpose)?;
        for (column, b) in b.chunks_exact(n.max(1)).enumerate() {
            let mut given = Some(first[column * n..(column + 1) * n].to_vec());
            let engine = self.computed.engine();
            let refined = refine(
                a,
                norms,
                b,
                |r| match given.take() {
                    Some(x) => Ok(x),
                    None => engine.solve(r, 1, transpose),
                },
                refinement,
            );
            let refined = match refined {
                // Maybe only before it is refined.
                Err(Error::SolutionNotFinite { .. }) => {
                    let solve = |r: &[Extended<T::Wide>]| solve_extended(engine, r, transpose);
                    refine_extended(a, norms, b, solve, refinement)
                }
                refined => refined,
            }?;
            let rounded: Vec<T> = refined.x.iter().map(|&v| T::narrow(v)).collect();
            let (normwise, componentwise) = measure_rounded(a, norms, &refined, &rounded, b)?;
            achieved.add(normwise, componentwise);
            achieved.add_steps([refined.steps]);
            x.extend(rounded);
        }
        Ok((x, achieved))
    }

    /// The report of these factors with what came of a solve that began at `start`.
    fn describe_solve(&self, start: Instant, achieved: Achieved) -> Inform {
        let mut inform = self.inform().clone();
        inform.backward_error = Some(achieved.normwise);
        inform.componentwise_error = Some(achieved.componentwise);
        inform.refinement_steps = Some(achieved.steps);
        inform.seconds.solve = Some(start.elapsed().as_secs_f64());
        inform.take_device_costs(self.computed.engine());
        inform
            .warnings
            .retain(|warning| !matches!(warning, Warning::TargetMissed { .. }));
        inform.check_target(self.plan.shared.target);
        inform
    }

    /// Factorizes the same matrix again with a stricter choice of pivots, and returns its threshold; `None`, and nothing
    /// happens, where there is none, or pivots are not searched. On a device only those of symmetric matrices are.
    ///
    /// This is for callers whose own measure of a solution is not content: the "increase quality" of interior-point methods.
    /// A threshold up to 0.1 becomes 0.1, then that of [partial pivoting](Pivoting::Threshold): 1, or 0.5 for a symmetric
    /// matrix. Entries of L get smaller, and more pivots leave the diagonal or are delayed. Later refactorizations keep the
    /// threshold, until one has to search new pivots.
    ///
    /// # Errors
    ///
    /// As [`refactorize`](Self::refactorize); the factors are then those that they were.
    pub fn raise_threshold(&mut self) -> Result<Option<f64>, Error> {
        let plan = Arc::clone(&self.plan);
        let shared = &plan.shared;
        shared.limits.cancel.check()?;
        // Those of a device come to the host.
        self.values()?;
        let Some(values) = self.values.get() else {
            unreachable!("the values are on the host")
        };
        let mut journal = Journal::after(&self.analyzed);
        let work = work_bytes::<T>(shared.n(), shared.nnz());
        let _of_work = shared.limits.reserve(work, "numeric")?;
        let norms = OnceLock::new();
        let in_wide = T::in_wide(values);
        let task = Task {
            shared,
            a: shared.view(values),
            values: &in_wide,
            largest: reductions::largest_magnitude(&in_wide, 1),
            norms: &norms,
        };
        let threshold = match (&plan.path, &mut self.computed) {
            (Path::Host(path), Computed::Host(factors)) => {
                path.raise_threshold(factors, task, &mut journal)?
            }
            #[cfg(feature = "gpu")]
            (Path::Device(path), Computed::Device(factors)) => {
                path.raise_threshold(factors, task, &mut journal)?
            }
            #[cfg(feature = "gpu")]
            _ => unreachable!("factors stay on the path of their analysis"),
        };
        drop(in_wide);
        if threshold.is_some() {
            self.accept(norms, journal)?;
        }
        Ok(threshold)
    }

    /// Factorizes a new matrix of the pattern that was analyzed, or of a part of it: what it has no entry for is zero.
    ///
    /// Of a symmetric matrix order and scaling are kept, and pivots are found anew each time, on a device where those of the
    /// matrix before leave entries of L that are too large; a probe, as often as
    /// [`residual_check`](crate::Options::residual_check) says, tells whether the factors reach the target.
    ///
    /// Pivots and scaling of others are kept if the growth stays below
    /// [`max_growth`](crate::Options::max_growth) (on a device a measured solve may overrule that), no pivot has to be replaced (under
    /// [`Pivoting::Auto`]) and the factors reach the target backward error. Growth and a checksum of B − L·U
    /// are measured, on the CPU while the columns are at hand, on a device in the fronts of a tree, as
    /// [`residual_check`](crate::Options::residual_check) says; a probe, a solve with a known solution, follows where these, or
    /// pivots that changed by orders of magnitude, leave a doubt. Where the old pivots do not serve, new ones are
    /// searched, unless the options forbid it, and if these do not serve either, the matrix is ordered, scaled and
    /// factorized as if it were a new one: then the outcome is that of [`Analysis::factorize`](crate::Analysis::factorize)
    /// with an analysis of its own, and may be factors with a [`Warning::TargetMissed`] in their
    /// [`inform`](Self::inform).
    ///
    /// # Errors
    ///
    /// With static pivots [`Error::Unstable`] if they do not serve; [`Error::InvalidMatrix`], [`Error::OtherSize`],
    /// [`Error::ExtraEntry`], [`Error::NotFinite`], [`Error::NotSymmetric`], [`Error::NotPositiveDefinite`],
    /// [`Error::ZerosOnly`], [`Error::ZeroPivot`], [`Error::NoPivots`], [`Error::SingularToRounding`],
    /// [`Error::Overflow`],
    /// [`Error::OutOfMemory`], [`Error::Cancelled`] and those of the device. After an error these are
    /// still the factors of the last matrix; after [`Error::Cancelled`] and [`Error::OutOfMemory`] their values are
    /// computed again when they are next used.
    pub fn refactorize<'a, I: Index>(
        &mut self,
        a: impl Into<MatrixRef<'a, T, I>>,
    ) -> Result<Refactorized, Error> {
        let a = a.into();
        let plan = Arc::clone(&self.plan);
        let shared = &plan.shared;
        shared.limits.cancel.check()?;
        // Threads that are called once serve all steps.
        let seconds = RENEWAL_PER_ENTRY * a.nnz() as f64;
        shared.threads.run(seconds, |threads| {
            #[cfg(feature = "gpu")]
            if shared.is_stored_alike(&a) && self.computed.has_values() {
                // The device works with them in the meantime. A part of the pattern has fewer of them.
                let values = NewValues::OnHost {
                    values: &T::in_wide(a.values()),
                    check: &|| {
                        let stored = shared.stored_values_of(&a, threads)?;
                        shared.check_values(&stored, threads).map(drop)
                    },
                };
                return self.renew_resident(&plan, values, threads);
            }
            let values = shared.stored_values_of(&a, threads)?;
            self.renew(&plan, values, threads)
        })
    }

    /// As [`refactorize`](Self::refactorize), for the values alone, in the order in which the analyzed matrix is stored.
    ///
    /// # Errors
    ///
    /// As [`refactorize`](Self::refactorize).
    ///
    /// # Panics
    ///
    /// If there is not one value for each entry of the analyzed matrix.
    #[track_caller]
    pub fn refactorize_values(&mut self, values: &[T]) -> Result<Refactorized, Error> {
        let plan = Arc::clone(&self.plan);
        let shared = &plan.shared;
        shared.check_count(values.len());
        shared.limits.cancel.check()?;
        let seconds = RENEWAL_PER_ENTRY * values.len() as f64;
        shared.threads.run(seconds, |threads| {
            self.renew(&plan, Cow::Borrowed(values), threads)
        })
    }

    /// Factorizes these values, in the order in which callers store the analyzed matrix.
    pub(crate) fn renew(
        &mut self,
        plan: &Plan<T::Wide>,
        stored: Cow<'_, [T]>,
        threads: usize,
    ) -> Result<Refactorized, Error> {
        let shared = &plan.shared;
        #[cfg(feature = "gpu")]
        if self.computed.has_values() {
            let check = || shared.check_values(&stored, threads).map(drop);
            let values = NewValues::OnHost {
                values: &T::in_wide(&stored),
                check: &check,
            };
            return self.renew_resident(plan, values, threads);
        }
        let (values, largest) = shared.accepted(stored, threads)?;
        self.renew_on_host(plan, values, largest, None, threads)
    }

    /// Factorizes these values, of all entries of the analyzed matrix and the `largest` by magnitude, with an engine that
    /// keeps no values itself. If entries `changed`, in ascending order, the others are as before.
    fn renew_on_host(
        &mut self,
        plan: &Plan<T::Wide>,
        values: Cow<'_, [T]>,
        largest: f64,
        changed: Option<&[usize]>,
        threads: usize,
    ) -> Result<Refactorized, Error> {
        let norms = OnceLock::new();
        let mut journal = Journal::after(&self.analyzed);
        let shared = &plan.shared;
        let work = work_bytes::<T>(shared.n(), shared.nnz());
        let _of_work = shared.limits.reserve(work, "numeric")?;
        let in_wide = T::in_wide(&values);
        let task = Task {
            shared,
            a: shared.view(&values),
            values: &in_wide,
            largest,
            norms: &norms,
        };
        let outcome = match (&plan.path, &mut self.computed) {
            (Path::Host(path), Computed::Host(factors)) => {
                let old = self.values.get();
                let old = old.unwrap_or_else(|| unreachable!("they never left the host"));
                let old: Arc<dyn KeptValues<T::Wide>> = Arc::<Vec<T>>::clone(old);
                path.refactorize(factors, &old, changed, task, &mut journal)?
            }
            #[cfg(feature = "gpu")]
            (Path::Device(path), Computed::Device(factors)) => {
                path.refactorize(factors, task, &mut journal)?
            }
            #[cfg(feature = "gpu")]
            _ => unreachable!("factors stay on the path of their analysis"),
        };
        drop(in_wide);
        // Nobody else keeps them any longer.
        match self.values.get_mut().and_then(Arc::get_mut) {
            Some(old) => reductions::copy(&values, old, threads),
            None => self.values = OnceLock::from(Arc::new(values.into_owned())),
        }
        self.accept(norms, journal)?;
        Ok(outcome)
    }
}

/// Data that is on a device.
///
/// It is of `f64`. A complex number is two of these, the real part first, as CUDA's libraries have it: n of them are 2·n
/// numbers of a buffer.
#[cfg(feature = "gpu")]
impl<T: Scalar> Factors<T> {
    /// As [`refactorize`](Self::refactorize), for values that are on the device and stay there: `f64`, in the order in
    /// which the analyzed matrix is stored. Those of a symmetric matrix that is stored whole are compared across the diagonal
    /// there.
    ///
    /// Everything is enqueued on [`Solver::stream`](crate::Solver::stream): a copy of the values, the factorization, and
    /// a check of growth and checksum, or a probe where factors have no check. The host waits once, for a report of a few words. The
    /// guard is that of `refactorize`. Factors whose check leaves no doubt are accepted, and what is stated is a bound of the
    /// backward error of a solve. For others:
    ///
    /// - the [growth](Inform::growth) may be [`max_growth`](crate::Options::max_growth) at most, unless
    ///   the probe reaches the target before it is refined;
    /// - under [`Pivoting::Auto`] no pivot may have been replaced;
    /// - the probe must reach the target backward error: a right-hand side is made from the new values for a solution
    ///   with entries from 1 to 2, the new factors solve for it, and ‖b − A·x‖∞ / (‖A‖∞·‖x‖∞ + ‖b‖∞) is measured, all on the
    ///   device. Where one solve misses the target, as with factors in `f32`, the solution is refined there.
    ///   [`residual_check`](crate::Options::residual_check) makes the probe rarer; without one no backward error is
    ///   stated.
    ///
    /// Where these tell that the old pivots do not serve, the values are brought to the host, and new pivots are searched
    /// as in `refactorize`. With [`DeviceEngine::Columns`](crate::DeviceEngine::Columns) every refactorization goes that
    /// way round.
    ///
    /// ```
    /// use luge::{BackendChoice, Options, Refactorized, Solver};
    /// use sprs::CsMat;
    ///
    /// // 4 1
    /// // 1 3
    /// let a: CsMat<f64> =
    ///     CsMat::new((2, 2), vec![0, 2, 4], vec![0, 1, 0, 1], vec![4.0, 1.0, 1.0, 3.0]);
    /// let options = Options::default().backend(BackendChoice::Simulator { seed: 1 });
    /// let solver = Solver::new(options)?;
    /// let mut factors = solver.analyze(&a)?.factorize(&a)?;
    ///
    /// let stream = solver.stream().expect("the solver is on a device");
    /// let values = stream.upload(&[5.0, 2.0, 2.0, 4.0]).expect("there is memory");
    /// let outcome = factors.refactorize_on_device(&values)?;
    /// assert!(matches!(outcome, Refactorized::Reused { backward_error: Some(e), .. } if e < 1e-14));
    ///
    /// let mut x = stream.upload(&[9.0, 10.0]).expect("there is memory");
    /// factors.solve_on_device(&mut x, 1, false)?;
    /// let x = stream.download(&x).expect("the solution is there");
    /// assert!((x[0] - 1.0).abs() < 1e-14 && (x[1] - 2.0).abs() < 1e-14);
    /// # Ok::<(), luge::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`refactorize`](Self::refactorize). A value that is not finite may also be an [`Error::Overflow`].
    ///
    /// # Panics
    ///
    /// If the factors are on the CPU, or `values` has not one value for each entry of the matrix.
    #[track_caller]
    pub fn refactorize_on_device(&mut self, values: &Buffer<f64>) -> Result<Refactorized, Error> {
        assert!(
            matches!(self.computed, Computed::Device(_)),
            "factors on the CPU take no values on a device"
        );
        self.plan
            .shared
            .check_count(count_of::<T>(values.len(), "values"));
        self.refactorize_slice(values.slice(..))
    }

    /// As [`refactorize_on_device`](Self::refactorize_on_device), for factors that are there.
    pub(crate) fn refactorize_slice(
        &mut self,
        values: Slice<'_, f64>,
    ) -> Result<Refactorized, Error> {
        let plan = Arc::clone(&self.plan);
        if self.computed.has_values() {
            return self.renew_resident(&plan, NewValues::OnDevice(values), 1);
        }
        let Path::Device(path) = &plan.path else {
            unreachable!("factors on a device")
        };
        let (values, largest) = Self::whole_values(&plan, &path.fetch(&values)?, 1)?;
        self.renew_on_host(&plan, Cow::Owned(values), largest, None, 1)
    }

    /// Replaces right-hand sides on the device, `f64` and one after another, by solutions of A·X = B, or of Aᵀ·X = B if
    /// `transpose`, and returns how good they are: one pass of triangular solves where that is known to be enough, else
    /// measured and refined, as [`solve_in_place`](Self::solve_in_place) says.
    /// [`solve_refined_on_device`](Self::solve_refined_on_device) always measures. Vectors stay on the device, but for those
    /// with [`DeviceEngine::Columns`](crate::DeviceEngine::Columns), which go over the host.
    ///
    /// The solutions are looked through for numbers that are not finite, behind the solve on the same stream, and the
    /// call returns when that is done.
    ///
    /// # Errors
    ///
    /// [`Error::SolutionNotFinite`] if a solution has an entry that is infinite or not a number; `x` then holds what was
    /// computed. That may come from such an entry of the right-hand side, which is gone from `x` by then:
    /// [`Error::RightHandSideNotFinite`] names it only where vectors go over the host. Those of the device.
    ///
    /// # Panics
    ///
    /// If the factors are on the CPU, or `x` has not n · `nrhs` values.
    #[track_caller]
    pub fn solve_on_device(
        &self,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<Accuracy, Error> {
        self.begin_solve_on_device(x, nrhs, transpose)?.wait()
    }

    /// As [`solve_on_device`](Self::solve_on_device), but does not wait: what is enqueued on
    /// [`Solver::stream`](crate::Solver::stream) afterwards works with the solutions, and [`SolutionCheck::wait`] tells
    /// later whether they are finite, and how good. Where solutions have to be measured, and with
    /// [`DeviceEngine::Columns`](crate::DeviceEngine::Columns), it is all done at once.
    ///
    /// # Errors
    ///
    /// As [`solve_on_device`](Self::solve_on_device), here or from [`SolutionCheck::wait`].
    ///
    /// # Panics
    ///
    /// As [`solve_on_device`](Self::solve_on_device).
    #[track_caller]
    pub fn begin_solve_on_device(
        &self,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<SolutionCheck, Error> {
        let (path, nrhs) = self.check_vectors(x, nrhs);
        let accuracy = match self.one_pass(transpose) {
            OnePass::Bounded(bound) => Accuracy::bounded(Some(bound)),
            OnePass::Unknown => Accuracy::bounded(None),
            OnePass::Measured => {
                let stream = path.backend.stream();
                let in_solve = |e| Error::from_device(e, "solve");
                let mut b = stream.alloc(x.len()).map_err(in_solve)?;
                stream.copy(&mut b, x).map_err(in_solve)?;
                let achieved =
                    self.solve_vectors(path, &b, x, nrhs, transpose, &self.up_to_target())?;
                return Ok(SolutionCheck {
                    search: None,
                    accuracy: achieved.accuracy(),
                });
            }
        };
        if let Some(engine) = self.resident() {
            let search = engine.begin_solve(x, nrhs, transpose)?;
            return Ok(SolutionCheck {
                search: Some(search),
                accuracy,
            });
        }
        let engine = self.computed.engine();
        let b = path.fetch(x)?;
        let solution = engine.solve(&b, nrhs, transpose)?;
        path.send(x, &solution)?;
        match solution.iter().position(|v| !v.is_number()) {
            Some(at) => {
                let error = Error::SolutionNotFinite { row: at % self.n() };
                Err(blamed(error, &b, self.n()))
            }
            None => {
                let n = self.n().max(1);
                let is_ordinary = |x: &[T::Wide]| ORDINARY.contains(&max_abs(x));
                let accuracy = if solution.chunks(n).all(is_ordinary) {
                    accuracy
                } else {
                    Accuracy::bounded(None)
                };
                Ok(SolutionCheck {
                    search: None,
                    accuracy,
                })
            }
        }
    }

    /// Solves A·X = B, or Aᵀ·X = B if `transpose`, for right-hand sides on the device, `f64` and one after another, and
    /// refines: residuals, corrections and backward errors are computed on the device in `f64`, whatever the type of the
    /// factors, and the host reads a few words for each step. The inform is that of [`solve_many`](Self::solve_many).
    ///
    /// With [`DeviceEngine::Columns`](crate::DeviceEngine::Columns) vectors go over the host.
    ///
    /// # Errors
    ///
    /// As [`solve`](Self::solve). After one `x` is of no use.
    ///
    /// # Panics
    ///
    /// If the factors are on the CPU, or `b` or `x` has not n · `nrhs` values.
    #[track_caller]
    pub fn solve_refined_on_device(
        &self,
        b: &Buffer<f64>,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<Inform, Error> {
        let (path, nrhs) = self.check_vectors(x, nrhs);
        self.check_vectors(b, nrhs);
        let start = Instant::now();
        let refinement = self.plan.shared.refinement::<T>();
        let achieved = self.solve_vectors(path, b, x, nrhs, transpose, &refinement)?;
        Ok(self.describe_solve(start, achieved))
    }

    /// Solves, measures and refines for vectors on the device, over the host where the numbers are out of the range in
    /// which a device measures.
    fn solve_vectors(
        &self,
        path: &DevicePath<T::Wide>,
        b: &Buffer<f64>,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
        refinement: &refine::Options,
    ) -> Result<Achieved, Error> {
        let _span = tracing::info_span!("solve").entered();
        let n = self.n();
        if let Some(engine) = self.resident() {
            let system = System {
                shared: &self.plan.shared,
                nrhs,
                transpose,
            };
            match engine.solve_refined(system, b, x, refinement) {
                Ok(refined) if !is_out_of_range(&refined) => {
                    let mut achieved = Achieved::default();
                    achieved.add_steps(refined.iter().map(|refined| refined.steps));
                    achieved.add_errors(refined.iter().map(|refined| refined.measures));
                    return Ok(achieved);
                }
                Ok(_) | Err(Error::SolutionNotFinite { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let b = path.fetch(b)?;
        check_right_hand_sides(&b, n)?;
        let (solution, achieved) = self.solve_columns(&b, nrhs, transpose, refinement)?;
        path.send(x, &T::in_wide(&solution))?;
        Ok(achieved)
    }

    /// The path of factors on a device, for vectors of the right length, and how many of these have entries.
    #[track_caller]
    fn check_vectors(&self, x: &Buffer<f64>, nrhs: usize) -> (&DevicePath<T::Wide>, usize) {
        let Path::Device(path) = &self.plan.path else {
            panic!("factors on the CPU solve for no vectors on a device")
        };
        let len = count_of::<T>(x.len(), "entries");
        (path, check_length(len, self.n(), nrhs))
    }
}

impl<T: Scalar> Factors<T> {
    /// Forgets what was known of the old values.
    fn accept(&mut self, norms: OnceLock<RowNorms>, journal: Journal) -> Result<(), Error> {
        self.norms = norms;
        self.transpose_norms = OnceLock::new();
        self.journal = journal;
        self.inform = OnceLock::new();
        self.largest = None;
        self.refactorized_part = None;
        self.doubt = OnceLock::new();
        self.condition = self.wanted_condition()?;
        Ok(())
    }

    /// What is already known of the condition.
    fn known_condition(&self) -> Option<&Condition> {
        let of_path = match &self.computed {
            Computed::Host(host) => &host.condition,
            #[cfg(feature = "gpu")]
            Computed::Device(device) => &device.condition,
        };
        let of_doubt = self.doubt.get().and_then(|doubt| doubt.as_ref().ok());
        let known = [&self.condition, of_path, of_doubt.unwrap_or(&None)];
        known.into_iter().find_map(Option::as_ref)
    }

    /// Whether a probe showed that solutions are not determined.
    fn lost_solution(&self) -> bool {
        let probe = match &self.computed {
            Computed::Host(host) => host.probe,
            #[cfg(feature = "gpu")]
            Computed::Device(device) => device.probe,
        };
        probe.is_some_and(|probe| probe.lost_solution())
    }

    /// How far the factors are from those of B, relative to B: ε at least.
    fn factor_error(&self, report: &FactorReport) -> f64 {
        let of_probe = match &self.computed {
            #[cfg(feature = "gpu")]
            Computed::Device(device) => device.probe.map(|probe| probe.usual(report.epsilon)),
            Computed::Host(_) => None,
        };
        let error = report.error.min(of_probe.unwrap_or(f64::INFINITY));
        error.max(report.epsilon)
    }

    /// Looks at the condition for the report, where nobody has done that: one solve tells most matrices from those that
    /// may be singular, and these are estimated.
    fn look_at_condition(&self) -> Result<Option<Condition>, Error> {
        if self.n() == 0 || self.known_condition().is_some() {
            return Ok(None);
        }
        let engine = self.computed.engine();
        let bound = engine.screen()?;
        if bound >= self.factor_error(&engine.report()).powf(DOUBTFUL) && !self.lost_solution() {
            return Ok(None);
        }
        let values = T::in_wide(self.values()?);
        engine.condition(&values).map(Some)
    }

    /// The condition, if the options ask for it.
    fn wanted_condition(&mut self) -> Result<Option<Condition>, Error> {
        self.condition = None;
        let known = self.known_condition();
        if known.is_some() || !self.plan.shared.options.estimate_condition {
            return Ok(None);
        }
        let start = Instant::now();
        let values = T::in_wide(self.values()?);
        let estimated = self.computed.engine().condition(&values)?;
        self.journal.add_probe(start.elapsed());
        Ok(Some(estimated))
    }

    /// The report of the analysis with what the factors add to it.
    fn describe(&self) -> Inform {
        let mut inform = Inform {
            seconds: self.journal.seconds,
            ..(*self.analyzed).clone()
        };
        inform
            .warnings
            .extend(self.journal.warnings.iter().cloned());
        let report = self.computed.engine().report();
        inform.num_perturbed = Some(report.num_perturbed);
        inform.num_off_diagonal = report.num_off_diagonal;
        inform.num_delay = report.num_delayed;
        inform.growth = Some(report.growth).filter(|growth| !growth.is_nan());
        inform.rank = Some(inform.n);
        inform.refactorized_part = self.refactorized_part;
        let is_static = self.plan.shared.options.is_static();
        let (probe, searched) = match &self.computed {
            Computed::Host(host) => {
                if host.probe.is_none() {
                    let bound = host.backward_error();
                    inform.backward_error = Some(bound).filter(|bound| bound.is_finite());
                }
                (host.probe, !is_static)
            }
            #[cfg(feature = "gpu")]
            Computed::Device(device) => {
                device.analysis.describe(&mut inform);
                if let Some(searched) = device.searched {
                    inform.code_path.insert(0, searched.place.code_path());
                }
                inform.num_off_diagonal = device.searched.map(|searched| searched.num_off_diagonal);
                inform.backward_error = device.bound;
                (device.probe, device.searched.is_some())
            }
        };
        if let Some(probe) = probe {
            inform.backward_error = Some(probe.backward_error);
            inform.componentwise_error = Some(probe.componentwise);
            inform.refinement_steps = Some(probe.steps);
        }
        inform.pivoting = Some(if searched { "threshold" } else { "static" });
        if let Some(symmetric) = &report.symmetric {
            inform.describe_symmetric_factors(symmetric);
        }
        inform.code_path.extend(&report.code_path);
        if let Some((lnz, unz)) = report.sizes {
            (inform.lnz, inform.unz) = (lnz, unz);
        }
        let values = self.values.get().map_or(0, |values| size_of_val(&**values));
        let held = report.host_bytes + values as u64;
        inform.peak_host_bytes = inform.peak_host_bytes.max(held);
        if let Some(first_column) = report.first_perturbed {
            inform.warnings.push(Warning::PerturbedPivots {
                count: report.num_perturbed,
                first_column,
            });
        }
        let looked_at = self
            .doubt
            .get_or_init(|| self.look_at_condition().map_err(|error| error.to_string()));
        if let Err(reason) = looked_at {
            let reason = reason.clone();
            inform.warnings.push(Warning::ConditionUnknown { reason });
        }
        if let Some(condition) = self.known_condition() {
            inform.rcond = Some(condition.rcond);
            let limit = ILL_CONDITIONED * self.factor_error(&report);
            if condition.rcond.is_nan() || condition.rcond < limit || self.lost_solution() {
                inform.warnings.push(Warning::IllConditioned {
                    rcond: condition.rcond,
                    unknowns: condition.columns.clone(),
                    is_constant: condition.is_constant,
                });
            }
        }
        inform.take_device_costs(self.computed.engine());
        if probe.is_some() {
            inform.check_target(self.plan.shared.target);
        }
        inform
    }
}

impl<T: Scalar> std::fmt::Debug for Factors<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Factors")
            .field("n", &self.plan.shared.n())
            .field("backend", &self.analyzed.backend)
            .finish_non_exhaustive()
    }
}

impl Inform {
    fn describe_symmetric_factors(&mut self, symmetric: &SymmetricReport) {
        let rank = self.n - symmetric.num_zero;
        self.num_two = Some(symmetric.num_two);
        self.num_second_pass = symmetric.num_second_pass;
        self.num_neg = symmetric.inertia.map(|inertia| inertia.negative);
        self.rank = Some(rank);
        self.kind = if symmetric.is_definite {
            MatrixKind::PositiveDefinite.name()
        } else {
            MatrixKind::of_form(symmetric.form).name()
        };
        let searched = symmetric.is_searched;
        self.pivoting = Some(if searched { "threshold" } else { "static" });
        if let Some(first_column) = symmetric.first_zero {
            self.warnings
                .push(Warning::RankDeficient { rank, first_column });
        }
    }

    fn take_device_costs<W>(&mut self, engine: &dyn Engine<W>) {
        let costs = engine.report().device;
        self.peak_device_bytes = costs.peak_bytes;
        self.seconds.transfer = costs.transfer_seconds;
    }

    fn check_target(&mut self, target: f64) {
        if let Some(backward_error) = self.backward_error.filter(|&e| is_above(e, target)) {
            self.warnings.push(Warning::TargetMissed {
                backward_error,
                target,
            });
        }
    }
}

/// Right-hand sides that are refined together on a device.
#[cfg(feature = "gpu")]
const AT_ONCE: usize = 64;

/// The largest errors and the most steps of several right-hand sides.
#[derive(Default)]
struct Achieved {
    normwise: f64,
    componentwise: f64,
    steps: usize,
}

impl Achieved {
    /// NaN stays.
    fn add(&mut self, normwise: f64, componentwise: f64) {
        self.normwise = max_abs(&[self.normwise, normwise]);
        self.componentwise = max_abs(&[self.componentwise, componentwise]);
    }

    #[cfg(feature = "gpu")]
    fn add_errors(&mut self, measures: impl IntoIterator<Item = Measures>) {
        for measures in measures {
            self.add(measures.normwise(), measures.omega());
        }
    }

    fn accuracy(&self) -> Accuracy {
        Accuracy::measured(self.normwise, self.steps)
    }

    fn add_steps(&mut self, steps: impl IntoIterator<Item = usize>) {
        self.steps = steps.into_iter().fold(self.steps, usize::max);
    }
}

/// Whether a solution is one that a device cannot measure: its norms leave the range, and it is not zero.
#[cfg(feature = "gpu")]
fn is_out_of_range(refined: &[OnDevice]) -> bool {
    refined
        .iter()
        .any(|refined| refined.measures.is_out_of_range())
}

/// How many numbers so many components are.
///
/// # Panics
///
/// At the caller's line, if they are not whole numbers.
#[cfg(feature = "gpu")]
#[track_caller]
pub(crate) fn count_of<T: Scalar>(len: usize, what: &str) -> usize {
    assert!(
        len.is_multiple_of(T::COMPONENTS),
        "{what} of complex numbers are pairs, and not {len} numbers"
    );
    len / T::COMPONENTS
}

/// Panics at the caller's line unless `len` values are `nrhs` right-hand sides of length `n`. Answers with how many of
/// them have entries: none if `n` is 0, and then `nrhs` may be any number.
#[track_caller]
fn check_length(len: usize, n: usize, nrhs: usize) -> usize {
    let (sides, have, count) = if nrhs == 1 {
        ("side", "has", String::new())
    } else {
        ("sides", "have", format!("{nrhs} "))
    };
    assert!(
        n.checked_mul(nrhs) == Some(len),
        "the {count}right-hand {sides} {have} {len} entries; the matrix has order {n}"
    );
    if n == 0 { 0 } else { nrhs }
}

/// Takes the complex conjugates of numbers.
fn conjugate<T: Scalar>(numbers: &mut [T]) {
    if T::COMPONENTS > 1 {
        numbers.iter_mut().for_each(|v| *v = v.conjugate());
    }
}

/// What is wrong where a solution of length `n` is not finite: the right-hand side, if that is not finite either.
fn blamed<W: Scalar>(error: Error, b: &[W], n: usize) -> Error {
    match error {
        Error::SolutionNotFinite { .. } => check_right_hand_sides(b, n).err().unwrap_or(error),
        error => error,
    }
}

/// Backward errors of the solution as the caller gets it.
fn measure_rounded<T: Scalar>(
    a: MatrixView<'_, T>,
    norms: &RowNorms,
    refined: &Refined<T::Wide>,
    rounded: &[T],
    b: &[T::Wide],
) -> Result<(f64, f64), Error> {
    if let Some(row) = rounded.iter().position(|v| !v.is_number()) {
        return Err(Error::SolutionNotFinite { row });
    }
    let [large, small] = refined.componentwise;
    if size_of::<T::Real>() == size_of::<f64>() {
        return Ok((refined.normwise, large + small));
    }
    let measured = Measured::new(a, norms, &T::in_wide(rounded), b);
    let [large, small] = measured.componentwise;
    Ok((measured.normwise, large + small))
}

#[cfg(all(test, feature = "simulator"))]
mod tests {
    use luge_ordering::OrderingOptions;
    use luge_solve::known_solution;
    use sprs::CsMat;

    use crate::{BackendChoice, DeviceEngine, Options, Solver};

    /// ‖s‖₁ / (‖B‖₁·‖B⁻¹·s‖₁) for the known solution s, in the order of A.
    #[test]
    fn a_tree_on_a_device_screens_conditions_by_a_solve() {
        let a = CsMat::new((2, 2), vec![0, 1, 2], vec![0, 1], vec![1.0, 2f64.powi(-20)]);
        let [first, second] = [0, 1].map(|at| known_solution::<f64>(at).abs());
        let expected = (first + second) / (first + 2f64.powi(20) * second);
        let options = Options::default()
            .backend(BackendChoice::Simulator { seed: 1 })
            .device_engine(DeviceEngine::Tree)
            .ordering(OrderingOptions::default().scaling(false));
        let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
        let factors = analysis.factorize(&a).unwrap();
        let screened = factors.computed.engine().screen().unwrap();
        assert!((screened / expected - 1.0).abs() < 1e-12, "{screened:e}");
    }
}
