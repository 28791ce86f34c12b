//! Luge behind the trait that the peers have: on the CPU or on a device, in any precision, through the public facade.

use luge::device::{Buffer, DeviceError, Stream};
use luge::{Analysis, Error, Factors, Inform, MatrixKind, Options, Refactorized, Scalar, Solver};
use luge_peers::{Matrix, Peer, PeerError, Resident, Staged, Statistics, Structure};

use crate::results::LUGE;

/// One matrix in Luge.
pub struct Luge<T: Scalar> {
    solver: Solver,
    structure: Structure,
    analysis: Option<Analysis<T>>,
    factors: Option<Factors<T>>,
    on_device: Option<OnDevice>,
    reused: u64,
    repivoted: u64,
}

/// What Luge finds on the device.
struct OnDevice {
    stream: Stream,
    values: Vec<Buffer<f64>>,
    /// Right-hand sides, and where they are solved.
    systems: [(Buffer<f64>, Buffer<f64>); 2],
}

impl<T: Scalar> Luge<T> {
    /// A solver of general matrices with these options.
    ///
    /// # Errors
    ///
    /// [`PeerError::Failed`] if the threads cannot be started, or the device cannot be used.
    pub fn new(options: Options) -> Result<Self, PeerError> {
        Self::told(Structure::General, options)
    }

    /// A solver that is told this of its matrices, with these options, whose kind it sets. It gets the upper triangle of
    /// symmetric ones.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn told(structure: Structure, options: Options) -> Result<Self, PeerError> {
        let options = options.kind(match structure {
            Structure::General => MatrixKind::General,
            Structure::Symmetric => MatrixKind::Symmetric,
            Structure::Hermitian => MatrixKind::Hermitian,
            Structure::Definite => MatrixKind::PositiveDefinite,
        });
        Ok(Self {
            solver: Solver::new(options).map_err(refusal)?,
            structure,
            analysis: None,
            factors: None,
            on_device: None,
            reused: 0,
            repivoted: 0,
        })
    }

    /// Entries of L+U, or of L alone, that the analysis predicts, if there is one.
    pub fn predicted_entries(&self) -> Option<u64> {
        Some(entries(self.structure, self.analysis.as_ref()?.inform()))
    }

    fn count(&mut self, outcome: &Refactorized) {
        match outcome {
            Refactorized::Reused { .. } => self.reused += 1,
            _ => self.repivoted += 1,
        }
    }

    fn factors(&self) -> Result<&Factors<T>, PeerError> {
        self.factors.as_ref().ok_or(PeerError::OutOfOrder)
    }

    fn parts(&mut self) -> Result<(&mut Factors<T>, &mut OnDevice), PeerError> {
        let factors = self.factors.as_mut().ok_or(PeerError::OutOfOrder)?;
        Ok((
            factors,
            self.on_device.as_mut().ok_or(PeerError::OutOfOrder)?,
        ))
    }
}

fn refusal(error: Error) -> PeerError {
    match error {
        Error::StructurallySingular { .. }
        | Error::ZerosOnly { .. }
        | Error::ZeroPivot { .. }
        | Error::SingularToRounding { .. } => PeerError::Singular(None),
        Error::NotPositiveDefinite { .. } => PeerError::NotPositiveDefinite,
        Error::OutOfMemory { .. } => PeerError::OutOfMemory,
        other => PeerError::Failed(other.to_string()),
    }
}

/// Entries of L+U, the diagonal once; of a symmetric matrix those of L.
fn entries(structure: Structure, inform: &Inform) -> u64 {
    match structure {
        Structure::General => (inform.lnz + inform.unz).saturating_sub(inform.n as u64),
        _ => inform.lnz,
    }
}

/// Numbers as a device takes them: components of 64 bits, one number after another.
pub fn components<T: Scalar>(numbers: &[T]) -> Vec<f64> {
    let mut components = Vec::with_capacity(numbers.len() * T::COMPONENTS);
    for number in numbers {
        number.widen().map_components(|component| {
            components.push(component);
            component
        });
    }
    components
}

fn of_device(error: DeviceError) -> PeerError {
    PeerError::Failed(error.to_string())
}

impl<T: Scalar> Peer<T> for Luge<T> {
    fn name(&self) -> &'static str {
        LUGE
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn analyze(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        self.drop_analysis();
        let analysis = self.solver.analyze(a.told(self.structure));
        self.analysis = Some(analysis.map_err(refusal)?);
        (self.reused, self.repivoted) = (0, 0);
        Ok(())
    }

    fn analysis_seconds(&self) -> [Option<f64>; 2] {
        let seconds = self
            .analysis
            .as_ref()
            .map(|analysis| analysis.inform().seconds);
        let after_symbolic = |s: luge::Seconds| {
            let found = [s.supernode, s.levelize].into_iter().flatten();
            s.symbolic + found.sum::<f64>()
        };
        [seconds.map(|s| s.ordering), seconds.map(after_symbolic)]
    }

    fn factorize(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        self.drop_factors();
        let analysis = self.analysis.as_ref().ok_or(PeerError::OutOfOrder)?;
        let factors = analysis.factorize(a.told(self.structure));
        self.factors = Some(factors.map_err(refusal)?);
        Ok(())
    }

    fn refactorize(&mut self, a: &Matrix<T>) -> Result<(), PeerError> {
        let a = a.told(self.structure);
        let factors = self.factors.as_mut().ok_or(PeerError::OutOfOrder)?;
        let outcome = factors.refactorize(a).map_err(refusal)?;
        self.count(&outcome);
        Ok(())
    }

    fn solve(&mut self, x: &mut [T], _: usize) -> Result<(), PeerError> {
        self.factors()?.solve_in_place(x).map(drop).map_err(refusal)
    }

    fn solve_in_one_pass(&mut self, x: &mut [T]) -> Result<(), PeerError> {
        let parts = self.factors()?.ldlt().map_err(refusal)?;
        parts
            .ok_or(PeerError::Unsupported)?
            .solve(x)
            .map_err(refusal)
    }

    fn solve_transpose(&mut self, x: &mut [T], _: usize) -> Result<(), PeerError> {
        if self.structure != Structure::General {
            // It is the same solve again.
            return Err(PeerError::Unsupported);
        }
        let solved = self.factors()?.solve_transpose_in_place(x);
        solved.map(drop).map_err(refusal)
    }

    fn solve_refined(&mut self, b: &[T]) -> Result<Vec<T>, PeerError> {
        let solved = self.factors()?.solve(b);
        solved.map(|solution| solution.x).map_err(refusal)
    }

    fn resident(&mut self) -> Option<&mut dyn Resident<T>> {
        self.solver.stream()?;
        self.factors.as_ref()?;
        // The engine that goes by levels takes its values from the host. The report of the analysis tells it at no cost;
        // that of factors looks at their condition, which takes a solve.
        let by_levels = self.analysis.as_ref()?.inform().num_levels.is_some();
        (!by_levels).then_some(self)
    }

    fn statistics(&mut self) -> Statistics {
        let Some(factors) = &self.factors else {
            return Statistics::default();
        };
        let inform = factors.inform();
        Statistics {
            factor_entries: Some(entries(self.structure, inform)),
            flops: Some(inform.flops),
            peak_bytes: Some(inform.peak_host_bytes),
            device_bytes: inform.peak_device_bytes,
            num_levels: inform.num_levels.map(|count| count as u64),
            num_perturbed: inform.num_perturbed.map(|count| count as u64),
            inertia: factors
                .inertia()
                .map(|inertia| [inertia.positive as u64, inertia.negative as u64]),
            // Pivots of symmetric matrices are searched each time.
            reused_and_repivoted: (self.structure == Structure::General)
                .then_some((self.reused, self.repivoted)),
            details: inform.warnings.iter().map(ToString::to_string).collect(),
            report: Some(inform.to_json()),
        }
    }

    fn drop_factors(&mut self) {
        self.on_device = None;
        self.factors = None;
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        self.analysis = None;
    }
}

impl<T: Scalar> Resident<T> for Luge<T> {
    fn stage(&mut self, staged: &Staged<'_, T>) -> Result<(), PeerError> {
        let stream = self.solver.stream().ok_or(PeerError::OutOfOrder)?.clone();
        let upload = |numbers: &[T]| stream.upload(&components(numbers)).map_err(of_device);
        let system = |b: &[T]| {
            let b = upload(b)?;
            let x = stream.alloc(b.len()).map_err(of_device)?;
            Ok::<_, PeerError>((b, x))
        };
        let values = std::iter::once(staged.a).chain(staged.others);
        let values = values.map(|a| upload(a.told(self.structure).data()));
        self.on_device = Some(OnDevice {
            values: values.collect::<Result<_, _>>()?,
            systems: [system(staged.b[0])?, system(staged.b[1])?],
            stream: stream.clone(),
        });
        Resident::refactorize(self, 0)
    }

    fn refactorize(&mut self, number: usize) -> Result<(), PeerError> {
        let (factors, staged) = self.parts()?;
        let values = &staged.values[number];
        let outcome = factors.refactorize_on_device(values).map_err(refusal)?;
        staged.stream.synchronize().map_err(of_device)?;
        self.count(&outcome);
        Ok(())
    }

    fn solve(&mut self, nrhs: usize) -> Result<(), PeerError> {
        let (factors, staged) = self.parts()?;
        let (b, x) = &mut staged.systems[usize::from(nrhs > 1)];
        staged.stream.copy(x, b).map_err(of_device)?;
        factors.solve_on_device(x, nrhs, false).map_err(refusal)?;
        staged.stream.synchronize().map_err(of_device)
    }

    fn refactorize_on_clock(&mut self) -> Result<f64, PeerError> {
        let (factors, staged) = self.parts()?;
        let mut outcome = None;
        let seconds = between_marks(&staged.stream, || {
            outcome = Some(
                factors
                    .refactorize_on_device(&staged.values[0])
                    .map_err(refusal)?,
            );
            Ok(())
        })?;
        outcome.iter().for_each(|outcome| self.count(outcome));
        Ok(seconds)
    }

    fn solve_on_clock(&mut self, nrhs: usize) -> Result<f64, PeerError> {
        let (factors, staged) = self.parts()?;
        let (b, x) = &mut staged.systems[usize::from(nrhs > 1)];
        staged.stream.copy(x, b).map_err(of_device)?;
        between_marks(&staged.stream, || {
            factors
                .solve_on_device(x, nrhs, false)
                .map(drop)
                .map_err(refusal)
        })
    }
}

/// Seconds between two marks on the stream, one before the work of `step` and one behind it.
fn between_marks(
    stream: &Stream,
    step: impl FnOnce() -> Result<(), PeerError>,
) -> Result<f64, PeerError> {
    let device = stream.device();
    let mark = || device.create_event().map_err(of_device);
    let (start, end) = (mark()?, mark()?);
    stream.record(&start).map_err(of_device)?;
    step()?;
    stream.record(&end).map_err(of_device)?;
    end.synchronize().map_err(of_device)?;
    Ok(f64::from(start.elapsed_ms(&end).map_err(of_device)?) / 1e3)
}
