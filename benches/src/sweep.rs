//! The benchmark of a sweep of frequencies: the matrices G + iωC of one circuit, each refactorized and solved with, as one batch of
//! Luge's and one after another, by Luge and by its peers.
//!
//! The matrix of a source is taken for G + iω₀C, G its real part; at other frequencies the imaginary part is larger or smaller. All
//! have one right-hand side. Who takes part goes through all frequencies in its turn ([`turns`]), first with values and right-hand
//! sides on the host, then with all of it on the device. Every solution from the host is measured once, before anything is timed.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use luge::device::{Buffer, Stream};
use luge::{BatchFactors, Options, Solver};
use luge_peers::{Found, Matrix, Peer, PeerError, Resident, Staged, Structure};
use luge_testkit::residual::normwise_backward_error;
use num_complex::Complex;

use crate::arguments::{Backend, Check, LibraryArguments, OutputArguments, SourceArguments};
use crate::devices::check;
use crate::luge_peer::{Luge, components};
use crate::progress::Progress;
use crate::results::{
    Benchmark, Field, LUGE, MatrixResult, Phase, Results, Run, Settings, SolverInfo,
};
use crate::statistics::{Samples, Statistic, recordable};
use crate::systems::{AnyMatrix, Source, rescaled};
use crate::turns;

type Number = Complex<f64>;

/// Measures sweeps of frequencies.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    #[command(flatten)]
    sources: SourceArguments,
    /// Frequencies of the sweep, each as many times the one before.
    #[arg(long, default_value_t = 256)]
    frequencies: usize,
    /// The lowest, over that of the matrix.
    #[arg(long, default_value_t = 1e-3)]
    lowest: f64,
    /// The highest.
    #[arg(long, default_value_t = 10.0)]
    highest: f64,
    /// Where Luge runs.
    #[arg(long, value_enum, default_value_t = Backend::Gpu)]
    backend: Backend,
    /// Threads of Luge on the CPU. Peers have one.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// When Luge measures a refactorization on a device by a solve; cuDSS never does.
    #[arg(long, value_enum, default_value_t = Check::Always)]
    residual_check: Check,
    /// Other solvers, of those that know complex matrices: klu, umfpack, faer, cudss; `none` for Luge alone.
    #[arg(long, value_delimiter = ',', default_value = "none")]
    peers: Vec<String>,
    #[command(flatten)]
    libraries: LibraryArguments,
    /// Samples.
    #[arg(long, default_value_t = 3)]
    samples: usize,
    #[command(flatten)]
    output: OutputArguments,
}

/// The systems of a sweep.
struct Systems {
    matrices: Vec<Matrix<Number>>,
    /// The right-hand side of each.
    b: Vec<Number>,
}

/// Who takes part.
struct Contestant {
    run: Run,
    how: How,
    /// Solutions of all systems, one after another.
    x: Vec<Number>,
    seconds: [Vec<f64>; 2],
}

enum How {
    /// One system after another.
    Alone(Box<dyn Peer<Number>>),
    /// All of them together, by Luge.
    Batch(Box<Batch>),
}

struct Batch {
    factors: BatchFactors<Number>,
    /// The values of all systems.
    values: Vec<Number>,
    on_device: Option<OnDevice>,
}

/// What a batch finds on the device.
struct OnDevice {
    stream: Stream,
    values: Buffer<f64>,
    b: Buffer<f64>,
    x: Buffer<f64>,
}

impl Arguments {
    /// Runs the benchmark; fails if a solution is wrong, or nothing ran.
    ///
    /// # Errors
    ///
    /// If a matrix is not complex, a solver refuses one, a peer that was asked for is not here, or a file cannot be written.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        ensure!(self.frequencies > 1, "a sweep has at least two frequencies");
        ensure!(
            0.0 < self.lowest && self.lowest < self.highest && self.highest.is_finite(),
            "the lowest frequency is above zero and below the highest"
        );
        let samples = self.samples.max(1);
        let settings = Settings {
            time_limit: 0.0,
            budget: 0.0,
            min_rounds: samples,
            max_rounds: samples,
            statistic: Statistic::Median,
        };
        let device = self.backend.device()?;
        let mut results = Results::begun(Benchmark::Sweep, settings, device.as_ref());
        let sources = self.sources.sources()?;
        let progress = Progress::over(sources.len());
        for source in &sources {
            progress.begin(&source.name);
            let measured = self.run_matrix(source, &mut results.solvers);
            let measured = measured.with_context(|| source.name.clone())?;
            progress.end(&source.name);
            results.matrices.push(measured);
        }
        drop(progress);
        self.output.finish(&results)
    }

    fn run_matrix(
        &self,
        source: &Source,
        solvers: &mut Vec<SolverInfo>,
    ) -> anyhow::Result<MatrixResult> {
        let AnyMatrix::Complex(a) = source.read()? else {
            bail!("a sweep takes a complex matrix, G + iωC");
        };
        let systems = self.systems(&a);
        let mut all = vec![self.batch(&systems)?];
        for peer in self.peers()? {
            if solvers.iter().all(|known| known.name != peer.name()) {
                solvers.push(SolverInfo {
                    name: peer.name().to_owned(),
                    version: peer.version(),
                    threads: vec![1],
                    notes: peer.notes(),
                    missing: None,
                });
            }
            all.push(self.alone(peer, &systems)?);
        }
        for contestant in &mut all {
            contestant.on_host(&systems)?;
            contestant.run.errors.refactorized = Some(systems.worst_error(&contestant.x));
        }
        for round in 0..self.samples.max(1) {
            turns_of(&mut all, round, |contestant| {
                let start = Instant::now();
                contestant.on_host(&systems)?;
                contestant.seconds[0].push(start.elapsed().as_secs_f64());
                Ok(())
            })?;
        }
        for contestant in &mut all {
            contestant.stage(&systems)?;
        }
        for round in 0..=self.samples.max(1) {
            turns_of(&mut all, round, |contestant| {
                let start = Instant::now();
                let is_there = contestant.on_device(&systems)?;
                // The first round is not counted.
                if is_there && round > 0 {
                    contestant.seconds[1].push(start.elapsed().as_secs_f64());
                }
                Ok(())
            })?;
        }
        Ok(MatrixResult {
            name: source.name.clone(),
            kind: source.kind.to_string(),
            field: Field::Complex,
            n: a.n(),
            nnz: a.nnz(),
            near_singular: source.near_singular,
            refactorized_with: format!(
                "{} frequencies, {:e} to {:e} times that of the matrix",
                self.frequencies, self.lowest, self.highest
            ),
            runs: all.into_iter().map(Contestant::finish).collect(),
        })
    }

    fn systems(&self, a: &Matrix<Number>) -> Systems {
        let last = (self.frequencies - 1) as f64;
        let at = |number: usize| {
            let ratio = self.lowest * (self.highest / self.lowest).powf(number as f64 / last);
            a.map_values(|value, _| Complex::new(value.re, ratio * value.im))
        };
        let (one, i) = (Complex::new(1.0, 0.0), Complex::new(0.0, 1.0));
        let n = a.n();
        Systems {
            matrices: (0..self.frequencies).map(at).collect(),
            b: (0..n)
                .map(|at| rescaled(one, at) + rescaled(i, n + at))
                .collect(),
        }
    }

    fn options(&self) -> Options {
        Options::default()
            .backend(self.backend.into())
            .threads(Some(self.threads))
            .residual_check(self.residual_check.into())
    }

    fn batch(&self, systems: &Systems) -> anyhow::Result<Contestant> {
        let first = &systems.matrices[0];
        let start = Instant::now();
        let solver = Solver::new(self.options())?;
        let analysis = solver.analyze(first.rows())?;
        let analyzed = start.elapsed().as_secs_f64();
        let values: Vec<Number> = systems
            .matrices
            .iter()
            .flat_map(|a| a.rows().data())
            .copied()
            .collect();
        let factors = analysis.factorize_batch(&values, systems.matrices.len())?;
        let mut run = Run::new(LUGE, self.threads).in_variant("batch");
        run.factor_entries = Some(factors.inform(0)?.lnz + factors.inform(0)?.unz);
        let on_device = match solver.stream() {
            Some(stream) => {
                let b = systems.b.repeat(systems.matrices.len());
                let b = stream.upload(&components(&b))?;
                Some(OnDevice {
                    values: stream.upload(&components(&values))?,
                    x: stream.alloc(b.len())?,
                    b,
                    stream: stream.clone(),
                })
            }
            None => None,
        };
        let how = How::Batch(Box::new(Batch {
            factors,
            values,
            on_device,
        }));
        Ok(Contestant::new(run, how, systems, analyzed))
    }

    fn alone(
        &self,
        mut peer: Box<dyn Peer<Number>>,
        systems: &Systems,
    ) -> anyhow::Result<Contestant> {
        let first = &systems.matrices[0];
        let start = Instant::now();
        peer.analyze(first)?;
        let analyzed = start.elapsed().as_secs_f64();
        peer.factorize(first)?;
        let threads = match peer.name() {
            LUGE => self.threads,
            _ => 1,
        };
        let run = Run::new(peer.name(), threads).in_variant("one after another");
        Ok(Contestant::new(run, How::Alone(peer), systems, analyzed))
    }

    /// Luge, and the peers that are asked for.
    fn peers(&self) -> anyhow::Result<Vec<Box<dyn Peer<Number>>>> {
        let mut all: Vec<Box<dyn Peer<Number>>> = vec![Box::new(Luge::new(self.options())?)];
        for name in self.peers.iter().filter(|name| *name != "none") {
            if name == "cudss" {
                all.push(Box::new(
                    self.libraries.cudss()?.solver(Structure::General)?,
                ));
                continue;
            }
            let solver = Found::load(name, self.libraries.path(name).as_ref())?
                .solver(Structure::General, 1)
                .with_context(|| format!("{name} takes no complex matrices"))?;
            all.push(solver);
        }
        Ok(all)
    }
}

/// A round, which ends with the first error.
fn turns_of(
    all: &mut [Contestant],
    round: usize,
    mut turn: impl FnMut(&mut Contestant) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    turns::round(
        all,
        round,
        |_| true,
        |contestant| {
            if outcome.is_ok() {
                outcome = turn(contestant);
            }
        },
    );
    outcome
}

impl Systems {
    fn worst_error(&self, x: &[Number]) -> f64 {
        let each = self.matrices.iter().zip(x.chunks_exact(self.b.len()));
        let errors = each.map(|(a, x)| normwise_backward_error(a.rows(), x, &self.b));
        recordable(errors.fold(0.0, f64::max))
    }
}

impl Contestant {
    fn new(mut run: Run, how: How, systems: &Systems, analyzed: f64) -> Self {
        run.phases
            .insert(Phase::Analyze, Samples::new(vec![analyzed]));
        Self {
            run,
            how,
            x: systems.b.repeat(systems.matrices.len()),
            seconds: [Vec::new(), Vec::new()],
        }
    }

    /// Solves all systems, with everything on the host.
    fn on_host(&mut self, systems: &Systems) -> anyhow::Result<()> {
        let each = self.x.chunks_exact_mut(systems.b.len());
        each.for_each(|x| x.copy_from_slice(&systems.b));
        match &mut self.how {
            How::Batch(batch) => {
                check(batch.factors.refactorize(&batch.values))?;
                check(batch.factors.solve_in_place(&mut self.x, 1, false))
            }
            How::Alone(peer) => {
                let each = self.x.chunks_exact_mut(systems.b.len());
                for (a, x) in systems.matrices.iter().zip(each) {
                    match peer.refactorize(a) {
                        Err(PeerError::Unsupported) => peer.factorize(a)?,
                        other => other?,
                    }
                    peer.solve(x, 1)?;
                }
                Ok(())
            }
        }
    }

    /// Brings to the device what is not there.
    fn stage(&mut self, systems: &Systems) -> anyhow::Result<()> {
        let How::Alone(peer) = &mut self.how else {
            return Ok(());
        };
        let Some(resident) = peer.resident() else {
            return Ok(());
        };
        let [first, others @ ..] = &systems.matrices[..] else {
            return Err(anyhow!("a sweep has a matrix"));
        };
        resident.stage(&Staged {
            a: first,
            others,
            b: [&systems.b, &systems.b.repeat(2)],
        })?;
        Ok(())
    }

    /// Solves all systems on the device; whether there is one.
    fn on_device(&mut self, systems: &Systems) -> anyhow::Result<bool> {
        match &mut self.how {
            How::Batch(batch) => {
                let Some(there) = &mut batch.on_device else {
                    return Ok(false);
                };
                check(batch.factors.refactorize_on_device(&there.values)?)?;
                there.stream.copy(&mut there.x, &there.b)?;
                check(batch.factors.solve_on_device(&mut there.x, 1, false)?)?;
                there.stream.synchronize()?;
            }
            How::Alone(peer) => {
                let Some(resident) = peer.resident() else {
                    return Ok(false);
                };
                for number in 0..systems.matrices.len() {
                    Resident::refactorize(resident, number)?;
                    Resident::solve(resident, 1)?;
                }
            }
        }
        Ok(true)
    }

    fn finish(mut self) -> Run {
        for (phase, seconds) in [Phase::Sweep, Phase::SweepResident]
            .into_iter()
            .zip(self.seconds)
        {
            if !seconds.is_empty() {
                self.run.phases.insert(phase, Samples::new(seconds));
            }
        }
        if let How::Alone(peer) = &mut self.how {
            let found = peer.statistics();
            self.run.factor_entries = found.factor_entries;
            self.run.num_perturbed = found.num_perturbed;
            self.run.reused_and_repivoted = found.reused_and_repivoted;
            self.run.memory.device = found.device_bytes;
        }
        self.run
    }
}
