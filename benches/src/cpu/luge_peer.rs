//! Luge behind the trait that the peers have, on the CPU or on a device.

use luge::{
    Analysis, BackendChoice, CpuEngine, Error, Factors, Options, Refactorized, Solver, Warning,
};
use luge_peers::{Checked, Matrix, Peer, PeerError, Statistics};

/// One matrix in Luge.
pub struct Luge {
    solver: Solver,
    notes: Vec<String>,
    analysis: Option<Analysis<f64>>,
    factors: Option<Factors<f64>>,
    reused: u64,
    repivoted: u64,
}

impl Luge {
    /// A solver on the CPU that may use `threads` threads, and the engine that is named.
    ///
    /// # Errors
    ///
    /// [`PeerError::Failed`] if the threads cannot be started.
    pub fn new(threads: usize, engine: CpuEngine) -> Result<Self, PeerError> {
        let mut luge = Self::with_options(Options {
            backend: BackendChoice::Cpu,
            threads: Some(threads),
            engine,
            ..Options::default()
        })?;
        luge.notes = match engine {
            CpuEngine::Auto => Vec::new(),
            CpuEngine::Columns => vec!["column by column".to_owned()],
            CpuEngine::Fronts => vec!["in fronts".to_owned()],
        };
        Ok(luge)
    }

    /// A solver with these options.
    ///
    /// # Errors
    ///
    /// [`PeerError::Failed`] if the threads cannot be started, or the device cannot be used.
    pub fn with_options(options: Options) -> Result<Self, PeerError> {
        Ok(Self {
            solver: Solver::new(options).map_err(refusal)?,
            notes: Vec::new(),
            analysis: None,
            factors: None,
            reused: 0,
            repivoted: 0,
        })
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

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn analyze(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_analysis();
        let analysis = self.solver.analyze(a.rows());
        self.analysis = Some(analysis.map_err(refusal)?);
        (self.reused, self.repivoted) = (0, 0);
        Ok(())
    }

    fn factorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        self.drop_factors();
        let analysis = self.analysis.as_ref().ok_or(PeerError::OutOfOrder)?;
        let factors = analysis.factorize(a.rows());
        self.factors = Some(factors.map_err(refusal)?);
        Ok(())
    }

    fn can_refactorize(&self) -> bool {
        true
    }

    fn refactorize(&mut self, a: &Matrix) -> Result<(), PeerError> {
        let factors = self.factors.as_mut().ok_or(PeerError::OutOfOrder)?;
        match factors.refactorize(a.rows()).map_err(refusal)? {
            Refactorized::Reused { .. } => self.reused += 1,
            _ => self.repivoted += 1,
        }
        Ok(())
    }

    fn solve(&mut self, x: &mut [f64], _nrhs: usize) -> Result<(), PeerError> {
        let factors = self.factors.as_ref().ok_or(PeerError::OutOfOrder)?;
        factors.solve_in_place(x).map(drop).map_err(refusal)
    }

    fn solve_transpose(&mut self, x: &mut [f64], _nrhs: usize) -> Result<(), PeerError> {
        let factors = self.factors.as_ref().ok_or(PeerError::OutOfOrder)?;
        factors
            .solve_transpose_in_place(x)
            .map(drop)
            .map_err(refusal)
    }

    fn solve_checked(&mut self, b: &[f64]) -> Option<Result<Checked, PeerError>> {
        let factors = self.factors.as_ref()?;
        let solution = factors.solve(b);
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
