//! Luge behind the trait that the peers have.

use luge::{Analysis, BackendChoice, Error, Factors, Options, Refactorized, Solver, Warning};
use luge_peers::{Checked, Matrix, Peer, PeerError, Statistics};

/// One matrix in Luge, on the CPU, with default options.
pub struct Luge {
    solver: Solver,
    /// Threads of its own, if it may use more than one.
    pool: Option<rayon::ThreadPool>,
    analysis: Option<Analysis<f64>>,
    factors: Option<Factors<f64>>,
    reused: u64,
    repivoted: u64,
}

impl Luge {
    /// A solver that may use `threads` threads.
    ///
    /// # Errors
    ///
    /// [`PeerError::Failed`] if the threads cannot be started.
    pub fn new(threads: usize) -> Result<Self, PeerError> {
        let pool = match threads {
            1 => None,
            _ => {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                Some(pool.map_err(|error| PeerError::Failed(error.to_string()))?)
            }
        };
        let options = Options {
            backend: BackendChoice::Cpu,
            ..Options::default()
        };
        Ok(Self {
            solver: Solver::new(options).map_err(refusal)?,
            pool,
            analysis: None,
            factors: None,
            reused: 0,
            repivoted: 0,
        })
    }
}

fn within<R: Send>(pool: Option<&rayon::ThreadPool>, step: impl FnOnce() -> R + Send) -> R {
    match pool {
        Some(pool) => pool.install(step),
        None => step(),
    }
}

fn refusal(error: Error) -> PeerError {
    match error {
        Error::StructurallySingular { .. }
        | Error::ZerosOnly { .. }
        | Error::ZeroPivot { .. }
        | Error::SingularToRounding { .. } => PeerError::Singular(None),
        Error::OutOfMemory { .. } => PeerError::OutOfMemory,
        other => PeerError::Failed(other.to_string()),
    }
}

impl Peer for Luge {
    fn name(&self) -> &'static str {
        "luge"
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_analysis();
        let analysis = within(self.pool.as_ref(), || self.solver.analyze(a.rows()));
        self.analysis = Some(analysis.map_err(refusal)?);
        (self.reused, self.repivoted) = (0, 0);
        Ok(())
    }

    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_factors();
        let analysis = self.analysis.as_ref().ok_or(PeerError::OutOfOrder)?;
        let factors = within(self.pool.as_ref(), || analysis.factorize(a.rows()));
        self.factors = Some(factors.map_err(refusal)?);
        Ok(())
    }

    fn can_refactorize(&self) -> bool {
        true
    }

    fn refactorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        let factors = self.factors.as_mut().ok_or(PeerError::OutOfOrder)?;
        match within(self.pool.as_ref(), || factors.refactorize(a.rows())).map_err(refusal)? {
            Refactorized::Reused { .. } => self.reused += 1,
            _ => self.repivoted += 1,
        }
        Ok(())
    }

    fn solve(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        let factors = self.factors.as_ref().ok_or(PeerError::OutOfOrder)?;
        let solution = within(self.pool.as_ref(), || factors.solve_many(x, nrhs));
        x.copy_from_slice(&solution.map_err(refusal)?.x);
        Ok(())
    }

    fn solve_transpose(&mut self, x: &mut [f64], nrhs: usize) -> Result<(), PeerError> {
        let factors = self.factors.as_ref().ok_or(PeerError::OutOfOrder)?;
        for x in x.chunks_exact_mut(factors.n().max(1)).take(nrhs) {
            let solution = within(self.pool.as_ref(), || factors.solve_transpose(x));
            x.copy_from_slice(&solution.map_err(refusal)?.x);
        }
        Ok(())
    }

    fn solve_checked(&mut self, b: &[f64]) -> Option<Result<Checked, PeerError>> {
        let factors = self.factors.as_ref()?;
        let solution = within(self.pool.as_ref(), || factors.solve(b));
        Some(solution.map_err(refusal).map(|solution| {
            Checked {
                backward_error: solution.inform.backward_error.unwrap_or(f64::NAN),
                warned: solution
                    .inform
                    .warnings
                    .iter()
                    .any(|warning| matches!(warning, Warning::TargetMissed { .. })),
                x: solution.x,
            }
        }))
    }

    fn statistics(&self) -> Statistics {
        let Some(factors) = &self.factors else {
            return Statistics::default();
        };
        let inform = factors.inform();
        let entries = (inform.lnz + inform.unz).saturating_sub(inform.n as u64);
        let mut details = vec![format!("{}, {} blocks", inform.ordering, inform.num_blocks)];
        details.extend(
            inform
                .pivoting
                .map(|pivoting| format!("{pivoting} pivoting")),
        );
        details.extend(inform.code_path.iter().map(|step| (*step).to_owned()));
        details.extend(inform.warnings.iter().map(ToString::to_string));
        Statistics {
            factor_entries: Some(entries),
            flops: Some(inform.flops),
            peak_bytes: Some(inform.peak_host_bytes),
            reused_and_repivoted: Some((self.reused, self.repivoted)),
            details,
        }
    }

    fn drop_factors(&mut self) {
        self.factors = None;
    }

    fn drop_analysis(&mut self) {
        self.drop_factors();
        self.analysis = None;
    }
}
