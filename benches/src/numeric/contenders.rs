//! The solvers that are compared, each on one problem.

use std::sync::Arc;
use std::time::Instant;

use luge::{
    Analysis, BackendChoice, DeviceEngine, FactorPrecision, Factors, Inform, Options, Refactorized,
    ResidualCheck,
};
use luge_device::{Buffer, DeviceError, Stream};
use luge_peers::cudss::{Cudss, CudssError, CudssScalar, Library};
use luge_peers::klu::Klu;
use luge_peers::{Matrix, Peer, PeerError};
use luge_sparse::Scalar;

use super::problem::{Problem, Values};
use crate::results::{Precision, Run};
use crate::systems::MANY;

/// A solver's words when it refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl From<luge::Error> for Refusal {
    fn from(error: luge::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<DeviceError> for Refusal {
    fn from(error: DeviceError) -> Self {
        Self(error.to_string())
    }
}

impl From<PeerError> for Refusal {
    fn from(error: PeerError) -> Self {
        Self(error.to_string())
    }
}

impl From<CudssError> for Refusal {
    fn from(error: CudssError) -> Self {
        Self(error.to_string())
    }
}

/// Seconds of the parts of an analysis, as far as the solver tells them apart.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AnalysisSeconds {
    /// Matching, scaling, ordering.
    pub ordering: Option<f64>,
    /// Structure of the factors, and what else is planned before there are values.
    pub symbolic: Option<f64>,
}

/// A solver on a problem. Every step returns when it is done.
pub trait Contender<T> {
    /// Orders and analyzes the first matrix.
    ///
    /// # Errors
    ///
    /// The solver's own; so have all steps.
    fn analyze(&mut self) -> Result<AnalysisSeconds, Refusal>;

    /// Factorizes the first matrix.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn factorize(&mut self) -> Result<(), Refusal>;

    /// Factorizes these values, which are on the host, with what is known of the earlier ones.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn refactorize(&mut self, values: Values) -> Result<(), Refusal>;

    /// Replaces right-hand sides on the host by solutions, by one pass of triangular solves.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn solve(&mut self, x: &mut [T], nrhs: usize) -> Result<(), Refusal>;

    /// Solves with refinement; `None` if the solver has no such call.
    fn solve_refined(&mut self, b: &[T]) -> Option<Result<Vec<T>, Refusal>> {
        let _ = b;
        None
    }

    /// The same solver on what is on the device already; `None` if it takes no such thing.
    fn resident(&mut self) -> Option<&mut dyn Resident> {
        None
    }

    /// Adds what the solver tells of its factors.
    fn describe(&mut self, run: &mut Run);

    /// Frees everything but the problem.
    fn forget(&mut self);
}

/// Steps on values, right-hand sides and solutions that stay on the device.
pub trait Resident {
    /// Brings both value sets to the device, and the factors to the first.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn stage(&mut self) -> Result<(), Refusal>;

    /// As [`Contender::refactorize`].
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn refactorize(&mut self, values: Values) -> Result<(), Refusal>;

    /// Solves with the right-hand sides of the last solve from the host with as many.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn solve(&mut self, nrhs: usize) -> Result<(), Refusal>;

    /// Seconds of a refactorization between its first and its last work on the device.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn refactorize_on_clock(&mut self) -> Result<f64, Refusal>;

    /// Seconds of a solve between its first and its last work on the device.
    ///
    /// # Errors
    ///
    /// The solver's own.
    fn solve_on_clock(&mut self, nrhs: usize) -> Result<f64, Refusal>;
}

fn out_of_order() -> Refusal {
    PeerError::OutOfOrder.into()
}

/// Luge through its public facade.
pub struct Luge<'a, T: Scalar> {
    problem: &'a Problem<T>,
    solver: luge::Solver,
    analysis: Option<Analysis<T>>,
    factors: Option<Factors<T>>,
    staged: Option<Staged>,
    reused: u64,
    repivoted: u64,
}

/// What Luge finds on the device.
struct Staged {
    stream: Stream,
    first: Buffer<f64>,
    next: Buffer<f64>,
    /// One right-hand side, and where it is solved; then the same for many.
    systems: [(Buffer<f64>, Buffer<f64>); 2],
}

impl Staged {
    fn values(&self, values: Values) -> &Buffer<f64> {
        match values {
            Values::First => &self.first,
            Values::Next => &self.next,
        }
    }

    /// Seconds between two marks on the stream, one before the work of `step` and one behind it.
    fn between_marks(&self, step: impl FnOnce() -> Result<(), Refusal>) -> Result<f64, Refusal> {
        let device = self.stream.device();
        let (start, end) = (device.create_event()?, device.create_event()?);
        self.stream.record(&start)?;
        step()?;
        self.stream.record(&end)?;
        end.synchronize()?;
        Ok(f64::from(start.elapsed_ms(&end)?) / 1e3)
    }
}

/// How Luge runs.
#[derive(Debug, Clone, Copy)]
pub struct LugeSettings {
    /// Where.
    pub backend: BackendChoice,
    /// What factorizes on a device.
    pub device_engine: DeviceEngine,
    /// When refactorizations on a device are measured by a solve.
    pub residual_check: ResidualCheck,
}

impl<'a, T: Scalar> Luge<'a, T> {
    /// Luge with these settings and else the default options, its factors in `precision`.
    ///
    /// # Errors
    ///
    /// Luge's own if the backend cannot be used.
    pub fn new(
        problem: &'a Problem<T>,
        settings: LugeSettings,
        precision: Precision,
    ) -> Result<Self, Refusal> {
        let options = Options {
            backend: settings.backend,
            device_engine: settings.device_engine,
            residual_check: settings.residual_check,
            precision: match precision {
                Precision::F64 | Precision::F32 => FactorPrecision::Matrix,
                Precision::Mixed => FactorPrecision::Single,
            },
            ..Options::default()
        };
        Ok(Self {
            problem,
            solver: luge::Solver::new(options)?,
            analysis: None,
            factors: None,
            staged: None,
            reused: 0,
            repivoted: 0,
        })
    }

    /// Analyzes, and tells the entries of L+U that the analysis found.
    ///
    /// # Errors
    ///
    /// As [`analyze`](Contender::analyze).
    pub fn filled(&mut self) -> Result<u64, Refusal> {
        let analysis = self.solver.analyze(&self.problem.a)?;
        Ok(entries(analysis.inform()))
    }
}

/// Entries of L+U, the diagonal once.
fn entries(inform: &Inform) -> u64 {
    (inform.lnz + inform.unz).saturating_sub(inform.n as u64)
}

impl<T: Scalar> Contender<T> for Luge<'_, T> {
    fn analyze(&mut self) -> Result<AnalysisSeconds, Refusal> {
        let analysis = self.solver.analyze(&self.problem.a)?;
        let seconds = analysis.inform().seconds;
        self.analysis = Some(analysis);
        let after_symbolic = [seconds.supernode, seconds.levelize];
        Ok(AnalysisSeconds {
            ordering: Some(seconds.ordering),
            symbolic: Some(seconds.symbolic + after_symbolic.into_iter().flatten().sum::<f64>()),
        })
    }

    fn factorize(&mut self) -> Result<(), Refusal> {
        let analysis = self.analysis.as_ref().ok_or_else(out_of_order)?;
        self.factors = Some(analysis.factorize(&self.problem.a)?);
        Ok(())
    }

    fn refactorize(&mut self, values: Values) -> Result<(), Refusal> {
        let factors = self.factors.as_mut().ok_or_else(out_of_order)?;
        let outcome = factors.refactorize(self.problem.matrix(values))?;
        self.count(&outcome);
        Ok(())
    }

    fn solve(&mut self, x: &mut [T], _nrhs: usize) -> Result<(), Refusal> {
        let factors = self.factors.as_ref().ok_or_else(out_of_order)?;
        factors.solve_in_place(x)?;
        Ok(())
    }

    fn solve_refined(&mut self, b: &[T]) -> Option<Result<Vec<T>, Refusal>> {
        let solution = self.factors.as_ref()?.solve(b);
        Some(solution.map(|solution| solution.x).map_err(Refusal::from))
    }

    fn resident(&mut self) -> Option<&mut dyn Resident> {
        self.solver.stream()?;
        // The engine that goes by levels takes its values from the host.
        let by_levels = self.factors.as_ref()?.inform().num_levels.is_some();
        (!by_levels).then_some(self)
    }

    fn describe(&mut self, run: &mut Run) {
        let Some(factors) = &self.factors else { return };
        let inform = factors.inform();
        run.factor_entries = Some(entries(inform));
        run.flops = Some(inform.flops);
        run.memory.device = inform.peak_device_bytes;
        run.memory.reported = Some(inform.peak_host_bytes);
        run.num_levels = inform.num_levels.map(|count| count as u64);
        run.num_perturbed = inform.num_perturbed.map(|count| count as u64);
        run.reused_and_repivoted = Some((self.reused, self.repivoted));
        run.details
            .extend(inform.warnings.iter().map(ToString::to_string));
        run.inform = serde_json::to_value(inform).ok();
    }

    fn forget(&mut self) {
        self.staged = None;
        self.factors = None;
        self.analysis = None;
    }
}

impl<T: Scalar> Luge<'_, T> {
    fn count(&mut self, outcome: &Refactorized) {
        match outcome {
            Refactorized::Reused { .. } => self.reused += 1,
            Refactorized::Repivoted { .. } => self.repivoted += 1,
        }
    }

    /// The factors, and what is on the device beside them.
    fn on_device(&mut self) -> Result<(&mut Factors<T>, &mut Staged), Refusal> {
        let factors = self.factors.as_mut().ok_or_else(out_of_order)?;
        Ok((factors, self.staged.as_mut().ok_or_else(out_of_order)?))
    }
}

impl<T: Scalar> Resident for Luge<'_, T> {
    fn stage(&mut self) -> Result<(), Refusal> {
        let stream = self.solver.stream().ok_or_else(out_of_order)?.clone();
        let problem = self.problem;
        let upload = |numbers: &[T]| stream.upload(&T::in_f64(numbers));
        let system = |b: &[T]| Ok::<_, DeviceError>((upload(b)?, stream.alloc(b.len())?));
        self.staged = Some(Staged {
            first: upload(problem.a.data())?,
            next: upload(problem.next.data())?,
            systems: [system(&problem.b)?, system(&problem.many_b)?],
            stream: stream.clone(),
        });
        Resident::refactorize(self, Values::First)
    }

    fn refactorize(&mut self, values: Values) -> Result<(), Refusal> {
        let (factors, staged) = self.on_device()?;
        let outcome = factors.refactorize_on_device(staged.values(values))?;
        staged.stream.synchronize()?;
        self.count(&outcome);
        Ok(())
    }

    fn solve(&mut self, nrhs: usize) -> Result<(), Refusal> {
        let (factors, staged) = self.on_device()?;
        let (b, x) = &mut staged.systems[usize::from(nrhs == MANY)];
        staged.stream.copy(x, b)?;
        factors.solve_on_device(x, nrhs, false)?;
        Ok(staged.stream.synchronize()?)
    }

    fn refactorize_on_clock(&mut self) -> Result<f64, Refusal> {
        let (factors, staged) = self.on_device()?;
        let mut outcome = None;
        let seconds = staged.between_marks(|| {
            outcome = Some(factors.refactorize_on_device(&staged.first)?);
            Ok(())
        })?;
        outcome.iter().for_each(|outcome| self.count(outcome));
        Ok(seconds)
    }

    fn solve_on_clock(&mut self, nrhs: usize) -> Result<f64, Refusal> {
        let (factors, staged) = self.on_device()?;
        let (b, _) = &staged.systems[usize::from(nrhs == MANY)];
        let mut x = staged.stream.alloc(b.len())?;
        staged.stream.copy(&mut x, b)?;
        staged.between_marks(|| Ok(factors.solve_on_device(&mut x, nrhs, false).map(drop)?))
    }
}

/// KLU on one core.
pub struct OnKlu {
    klu: Klu,
    a: Matrix,
    next: Matrix,
}

impl OnKlu {
    /// KLU on a matrix and the same with other values.
    pub fn new(klu: Klu, a: Matrix, next: Matrix) -> Self {
        Self { klu, a, next }
    }
}

impl Contender<f64> for OnKlu {
    fn analyze(&mut self) -> Result<AnalysisSeconds, Refusal> {
        self.klu.analyze(&self.a)?;
        Ok(AnalysisSeconds::default())
    }

    fn factorize(&mut self) -> Result<(), Refusal> {
        Ok(self.klu.factorize(&self.a)?)
    }

    fn refactorize(&mut self, values: Values) -> Result<(), Refusal> {
        let matrix = match values {
            Values::First => &self.a,
            Values::Next => &self.next,
        };
        Ok(self.klu.refactorize(matrix)?)
    }

    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), Refusal> {
        Ok(self.klu.solve(x, nrhs)?)
    }

    fn describe(&mut self, run: &mut Run) {
        let statistics = self.klu.statistics();
        run.factor_entries = statistics.factor_entries;
        run.flops = statistics.flops;
        run.memory.reported = statistics.peak_bytes;
        run.details.extend(statistics.details);
    }

    fn forget(&mut self) {
        self.klu.drop_analysis();
    }
}

/// cuDSS on the GPU of a stream.
pub struct OnCudss<'a, T: CudssScalar> {
    problem: &'a Problem<T>,
    cudss: Cudss<T>,
    stream: Stream,
    row_ptr: Vec<u32>,
    col_idx: Vec<u32>,
    /// The values that the solver does not have, once they are staged.
    others: Option<Buffer<T>>,
    /// Those that it has.
    staged: Values,
}

impl<'a, T: CudssScalar + Scalar> OnCudss<'a, T> {
    /// cuDSS on `problem`, whose order and number of entries fit 32 bits.
    ///
    /// # Errors
    ///
    /// As [`Cudss::new`].
    pub fn new(
        problem: &'a Problem<T>,
        library: Arc<Library>,
        stream: &Stream,
        threading: Option<&std::path::Path>,
    ) -> Result<Self, Refusal> {
        let narrow = |indices: &[usize]| indices.iter().map(|&i| i as u32).collect();
        Ok(Self {
            cudss: Cudss::new(library, stream, threading)?,
            stream: stream.clone(),
            row_ptr: narrow(problem.a.indptr().raw_storage()),
            col_idx: narrow(problem.a.indices()),
            others: None,
            staged: Values::First,
            problem,
        })
    }
}

impl<T: CudssScalar + Scalar> Contender<T> for OnCudss<'_, T> {
    fn analyze(&mut self) -> Result<AnalysisSeconds, Refusal> {
        self.cudss
            .take(&self.row_ptr, &self.col_idx, self.problem.a.data())?;
        let start = Instant::now();
        self.cudss.reorder()?;
        let between = Instant::now();
        self.cudss.symbolic()?;
        Ok(AnalysisSeconds {
            ordering: Some((between - start).as_secs_f64()),
            symbolic: Some(between.elapsed().as_secs_f64()),
        })
    }

    fn factorize(&mut self) -> Result<(), Refusal> {
        Ok(self.cudss.factorize()?)
    }

    fn refactorize(&mut self, values: Values) -> Result<(), Refusal> {
        self.cudss.set_values(self.problem.matrix(values).data())?;
        Ok(self.cudss.refactorize()?)
    }

    fn solve(&mut self, x: &mut [T], nrhs: usize) -> Result<(), Refusal> {
        self.cudss.set_right_hand_sides(x, nrhs)?;
        self.cudss.solve(nrhs)?;
        Ok(self.cudss.solutions(x, nrhs)?)
    }

    fn resident(&mut self) -> Option<&mut dyn Resident> {
        Some(self)
    }

    fn describe(&mut self, run: &mut Run) {
        match self.cudss.statistics() {
            Ok(statistics) => {
                run.factor_entries = Some(statistics.factor_entries);
                run.memory.device = Some(statistics.peak_device_bytes);
                run.memory.reported = Some(statistics.peak_host_bytes);
                run.num_perturbed = Some(statistics.num_perturbed);
                if statistics.info != 0 {
                    run.details.push(format!("info {}", statistics.info));
                }
            }
            Err(error) => run.details.push(error.to_string()),
        }
    }

    fn forget(&mut self) {
        self.others = None;
        self.cudss.forget();
    }
}

impl<T: CudssScalar + Scalar> Resident for OnCudss<'_, T> {
    fn stage(&mut self) -> Result<(), Refusal> {
        self.cudss.set_values(self.problem.a.data())?;
        self.staged = Values::First;
        let others = self.stream.upload(self.problem.next.data());
        self.others = Some(others.map_err(CudssError::from)?);
        Ok(self.cudss.refactorize()?)
    }

    fn refactorize(&mut self, values: Values) -> Result<(), Refusal> {
        if values != self.staged {
            let others = self.others.as_mut().ok_or_else(out_of_order)?;
            self.cudss.swap_values(others)?;
            self.staged = values;
        }
        Ok(self.cudss.refactorize()?)
    }

    fn solve(&mut self, nrhs: usize) -> Result<(), Refusal> {
        Ok(self.cudss.solve(nrhs)?)
    }

    fn refactorize_on_clock(&mut self) -> Result<f64, Refusal> {
        Ok(self.cudss.refactorize_on_clock()?)
    }

    fn solve_on_clock(&mut self, nrhs: usize) -> Result<f64, Refusal> {
        Ok(self.cudss.solve_on_clock(nrhs)?)
    }
}
