//! The peer benchmark: Luge on its backends and in its precisions beside other solvers, matrix by matrix.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use luge::{CpuEngine, FactorPrecision, Options};
use luge_peers::cudss::{self, CudssScalar};
use luge_peers::{Found, Matrix, Missing, NAMES, Peer, PeerError, Structure};
use luge_sparse::Scalar;
use num_complex::Complex;

use crate::arguments::{
    Backend, Check, EngineName, LibraryArguments, OutputArguments, RoundsArguments, SourceArguments,
};
use crate::ceilings;
use crate::child::{Trial, attempt, try_apart};
use crate::contest::{Entrant, contest};
use crate::luge_peer::Luge;
use crate::progress::Progress;
use crate::results::{
    Benchmark, Field, LUGE, MatrixResult, Outcome, Phase, Precision, Results, Run, SolverInfo,
};
use crate::systems::{AnyMatrix, BenchScalar, MANY, Source, System};

/// Runs Luge and other solvers on the same matrices, in turn, and compares.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    #[command(flatten)]
    sources: SourceArguments,
    /// Leave out matrices with no more entries of L+U than this.
    #[arg(long, default_value_t = 0)]
    min_entries: u64,
    /// Where Luge runs.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cpu")]
    backends: Vec<Backend>,
    /// Types of matrix and factors. Peers on the CPU know f64 alone; mixed is compared with their f64.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "f64")]
    precisions: Vec<Precision>,
    /// What solvers are told of a matrix: general, symmetric, hermitian (complex matrices), definite; those that know two of them
    /// take part twice. Without general, matrices of which one of these is true alone are measured, and those that are told
    /// definite have a positive diagonal.
    #[arg(long, value_delimiter = ',', default_value = "general")]
    structures: Vec<Structure>,
    /// Numbers of threads of solvers on the CPU; KLU and SuperLU always run on one. What runs on a device has all cores.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Other solvers: klu, umfpack, superlu, faer, feral, mumps, cholmod, spral, pardiso, cudss; `none` for Luge alone. Those
    /// that can be told that a matrix is symmetric: faer, feral, mumps, spral, pardiso, pardiso-matched (scaled and matched),
    /// cudss and, if it is definite, faer, mumps, cholmod, spral, pardiso, cudss. Of complex matrices: klu, umfpack, faer as
    /// general ones, cudss.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "klu,umfpack,superlu,faer"
    )]
    peers: Vec<String>,
    /// Luge's engine for every block on the CPU, instead of the one that is predicted to be faster.
    #[arg(long, value_enum, default_value_t = CpuEngineName::Auto)]
    engine: CpuEngineName,
    /// What factorizes on a device in Luge.
    #[arg(long, value_enum, default_value_t = EngineName::Auto)]
    device_engine: EngineName,
    /// When Luge measures a refactorization on a device by a solve; cuDSS never does.
    #[arg(long, value_enum, default_value_t = Check::Always)]
    residual_check: Check,
    /// Refactorize with values changed by a thousandth, also where the next matrix of a sequence is there.
    #[arg(long)]
    rescale: bool,
    /// Right-hand sides of the solve with many, two at least.
    #[arg(long, default_value_t = MANY)]
    right_hand_sides: usize,
    #[command(flatten)]
    libraries: LibraryArguments,
    #[command(flatten)]
    rounds: RoundsArguments,
    /// Do not try each solver on the CPU in a process of its own first: no time limit, no resident memory.
    #[arg(long)]
    no_children: bool,
    #[command(flatten)]
    output: OutputArguments,
    /// Try one solver on one matrix and print what happened (for this program's own use).
    #[arg(long, hide = true, value_name = "SOLVER@THREADS")]
    child: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CpuEngineName {
    Auto,
    Columns,
    Fronts,
}

/// A solver that is here, with a number of threads.
struct Candidate {
    name: &'static str,
    threads: usize,
    structure: Structure,
    maker: Maker,
}

enum Maker {
    Luge(Backend),
    OnCpu(Found),
    Cudss(cudss::Found),
}

impl Arguments {
    /// Runs the benchmark; fails if a solution of Luge's is wrong, or nothing ran.
    ///
    /// # Errors
    ///
    /// If the matrices cannot be listed, a device fails, or a file cannot be written.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        // What runs outside of a pool of its own has one thread.
        if self.backends == [Backend::Cpu] {
            rayon::ThreadPoolBuilder::new()
                .num_threads(1)
                .build_global()?;
        }
        if let Some(solver) = &self.child {
            println!("{}", serde_json::to_string(&self.trial(solver)?)?);
            return Ok(ExitCode::SUCCESS);
        }
        let sources = self.sources.sources()?;
        let device = self
            .backends
            .iter()
            .find(|&&backend| backend != Backend::Cpu);
        let device = device.map_or(Ok(None), |backend| backend.device())?;
        let mut results = Results::begun(Benchmark::Peers, self.rounds.settings(), device.as_ref());
        results.ceilings = match &device {
            Some(device) => ceilings::with_device(device)?,
            None => ceilings::of_host(),
        };
        let candidates = self.candidates(&mut results.solvers)?;
        let progress = Progress::over(sources.len());
        for source in &sources {
            progress.begin(&source.name);
            let line = match self.run_matrix(source, &candidates) {
                Ok(Some(matrix)) => {
                    let line = line(&matrix);
                    results.matrices.push(matrix);
                    line
                }
                Ok(None) => " left out".to_owned(),
                Err(error) => format!(" not read: {error:#}"),
            };
            progress.end(&format!("{:<26}{line}", source.name));
        }
        drop(progress);
        self.output.finish(&results)
    }

    fn options(&self, backend: Backend, threads: usize, precision: Precision) -> Options {
        Options::default()
            .backend(backend.into())
            .engine(match self.engine {
                CpuEngineName::Auto => CpuEngine::Auto,
                CpuEngineName::Columns => CpuEngine::Columns,
                CpuEngineName::Fronts => CpuEngine::Fronts,
            })
            .device_engine(self.device_engine.into())
            .residual_check(self.residual_check.into())
            .threads(Some(threads))
            .precision(match precision {
                Precision::F64 | Precision::F32 => FactorPrecision::Matrix,
                Precision::Mixed => FactorPrecision::Single,
            })
    }

    /// The solver `name` with `threads` on the matrix of a trial.
    fn trial(&self, solver: &str) -> anyhow::Result<Trial> {
        let (name, threads) = solver.split_once('@').context("SOLVER@THREADS")?;
        let threads = threads.parse()?;
        match self.sources.source_of_trial()?.read()? {
            AnyMatrix::Real(a) => self.trial_on(&a, name, threads),
            AnyMatrix::Complex(a) => self.trial_on(&a, name, threads),
        }
    }

    fn trial_on<T: BenchScalar>(
        &self,
        a: &Matrix<T>,
        name: &str,
        threads: usize,
    ) -> anyhow::Result<Trial> {
        let structure = self.structures.first().copied().unwrap_or_default();
        let mut peer: Box<dyn Peer<T>> = match name {
            LUGE => Box::new(Luge::told(
                structure,
                self.options(Backend::Cpu, threads, Precision::F64),
            )?),
            peer => Found::load(peer, self.libraries.path(peer).as_ref())?
                .solver(structure, threads)
                .with_context(|| format!("{peer} takes no such {structure} matrices"))?,
        };
        Ok(attempt(a, peer.as_mut()))
    }

    /// Every solver that is here with every number of threads and all that it may be told; tells of those that are not.
    fn candidates(&self, infos: &mut Vec<SolverInfo>) -> anyhow::Result<Vec<Candidate>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut several = self.threads.clone();
        several.sort_unstable();
        several.dedup();
        if several.first().is_none_or(|&least| least == 0) {
            bail!("a solver needs at least one thread");
        }
        let mut candidates = Vec::new();
        let mut add =
            |name: &'static str, threads: &[usize], maker: &dyn Fn() -> Maker, version| {
                for &structure in &self.structures {
                    let of = |&threads| Candidate {
                        name,
                        threads,
                        structure,
                        maker: maker(),
                    };
                    let here = threads.iter().map(of);
                    candidates
                        .extend(here.filter(|candidate| candidate.maker.takes_any(structure)));
                }
                let (version, notes) = version;
                infos.push(SolverInfo {
                    name: name.to_owned(),
                    version,
                    threads: threads.to_vec(),
                    notes,
                    missing: None,
                });
            };
        let mut missing = Vec::new();
        for &backend in &self.backends {
            let threads = match backend {
                Backend::Cpu => &several[..],
                Backend::Gpu | Backend::Sim => &[cores],
            };
            let mut notes = vec![backend_name(backend).to_owned()];
            if backend != Backend::Cpu && self.residual_check != Check::Always {
                notes.push(format!("residual check {:?}", self.residual_check));
            }
            let version = env!("CARGO_PKG_VERSION").to_owned();
            add(LUGE, threads, &|| Maker::Luge(backend), (version, notes));
        }
        let mut peers: Vec<&String> = self.peers.iter().filter(|p| *p != "none").collect();
        // It comes with a BLAS under the usual names.
        peers.sort_by_key(|peer| peer.starts_with("pardiso"));
        for peer in peers {
            let path = self.libraries.path(peer);
            match NAMES.into_iter().find(|name| name == peer) {
                Some(name) => match Found::load(name, path.as_ref()) {
                    Ok(found) => {
                        let of = |&told: &Structure| {
                            let real = || Some(about(found.solver::<f64>(told, 1)?.as_ref()));
                            let complex =
                                || Some(about(found.solver::<Complex<f64>>(told, 1)?.as_ref()));
                            real().or_else(complex)
                        };
                        let Some(about) = self.structures.iter().find_map(of) else {
                            let reason = "it cannot be told that a matrix is such";
                            missing.push((name, Missing(reason.to_owned())));
                            continue;
                        };
                        let threads = if found.uses_threads() {
                            &several[..]
                        } else {
                            &[1]
                        };
                        add(name, threads, &|| Maker::OnCpu(found.clone()), about);
                    }
                    Err(reason) => missing.push((name, reason)),
                },
                None if peer == "cudss" => match self.libraries.cudss() {
                    Ok(found) => {
                        let solver = found.solver::<f64>(Structure::General)?;
                        let about = about(&solver);
                        add("cudss", &[cores], &|| Maker::Cudss(found.clone()), about);
                    }
                    Err(reason) => missing.push(("cudss", reason)),
                },
                None => bail!("{peer} is none of {}, cudss", NAMES.join(", ")),
            }
        }
        for (name, reason) in missing {
            eprintln!("MISSING: {name}: {reason}");
            infos.push(SolverInfo {
                name: name.to_owned(),
                version: "-".to_owned(),
                threads: Vec::new(),
                notes: Vec::new(),
                missing: Some(reason.to_string()),
            });
        }
        Ok(candidates)
    }

    /// All solvers on one matrix; `None` if its factors are too small, or if nothing of what solvers should be told of it is true.
    fn run_matrix(
        &self,
        source: &Source,
        candidates: &[Candidate],
    ) -> anyhow::Result<Option<MatrixResult>> {
        match source.read()? {
            AnyMatrix::Real(a) => self.run_on(source, a, candidates),
            AnyMatrix::Complex(a) => self.run_on(source, a, candidates),
        }
    }

    fn run_on<T: BenchScalar>(
        &self,
        source: &Source,
        a: Matrix<T>,
        candidates: &[Candidate],
    ) -> anyhow::Result<Option<MatrixResult>> {
        let mut structures = self.structures.clone();
        structures.retain(|&structure| a.may_be(structure));
        let is_told_more = |s: &Structure| *s != Structure::General;
        if self.structures.iter().any(is_told_more) && !structures.iter().any(is_told_more) {
            return Ok(None);
        }
        let system = System::of(source, a, self.rescale).with_many(self.right_hand_sides);
        let candidates: Vec<&Candidate> = candidates
            .iter()
            .filter(|candidate| structures.contains(&candidate.structure))
            .filter(|candidate| candidate.maker.takes::<T>(candidate.structure))
            .collect();
        if self.min_entries > 0 {
            let first = self.backends.first().copied().unwrap_or(Backend::Cpu);
            let structure = structures.first().copied().unwrap_or_default();
            let options = self.options(first, 1, Precision::F64);
            let mut luge = Luge::<T>::told(structure, options)?;
            // A matrix that is refused is run, so that the table says so.
            let filled = luge
                .analyze(&system.a)
                .ok()
                .and_then(|()| luge.predicted_entries());
            if filled.is_some_and(|filled| filled <= self.min_entries) {
                return Ok(None);
            }
        }
        let settings = self.rounds.settings();
        let mut runs = Vec::new();
        if self
            .precisions
            .iter()
            .any(|p| p.of_peer() == Precision::F64)
        {
            let mut entrants = self.entrants::<T>(&candidates, Precision::F64, Some(source));
            for candidate in &candidates {
                if let Maker::OnCpu(found) = &candidate.maker {
                    let Candidate {
                        name,
                        threads,
                        structure,
                        ..
                    } = **candidate;
                    let mut run = Run::new(name, threads).told(structure);
                    self.try_apart(source, candidate, &mut run);
                    let solver = found.solver(structure, threads);
                    let solver = solver.filter(|_| run.outcome == Outcome::Measured);
                    entrants.push(match solver {
                        Some(solver) => Entrant::new(solver, run),
                        None => Entrant::out(run),
                    });
                }
            }
            runs.extend(contest(&system, entrants, &settings));
        }
        if self.precisions.contains(&Precision::F32) {
            let single = system.to_type::<T::Single>();
            let entrants = self.entrants::<T::Single>(&candidates, Precision::F32, None);
            runs.extend(contest(&single, entrants, &settings));
        }
        Ok(Some(MatrixResult {
            name: source.name.clone(),
            kind: source.kind.to_string(),
            field: Field::of::<T>(),
            n: system.a.n(),
            nnz: system.a.nnz(),
            near_singular: source.near_singular,
            refactorized_with: system.next_from,
            runs,
        }))
    }

    /// Luge in each of its precisions in which the peers run in `peers`, and cuDSS. Luge on the CPU is tried apart on the
    /// matrix of `source`, if there is one.
    fn entrants<T: CudssScalar>(
        &self,
        candidates: &[&Candidate],
        peers: Precision,
        source: Option<&Source>,
    ) -> Vec<Entrant<T>> {
        let mut entrants = Vec::new();
        let mut add = |mut run: Run, made: Result<Box<dyn Peer<T>>, PeerError>| {
            if run.outcome != Outcome::Measured {
                return entrants.push(Entrant::out(run));
            }
            entrants.push(match made {
                Ok(peer) => Entrant::new(peer, run),
                Err(error) => {
                    run.outcome = Outcome::Failed {
                        reason: error.to_string(),
                    };
                    Entrant::out(run)
                }
            });
        };
        for candidate in candidates {
            let Candidate {
                name,
                threads,
                structure,
                ..
            } = **candidate;
            match &candidate.maker {
                Maker::OnCpu(_) => {}
                Maker::Cudss(found) => {
                    let run = Run::new(name, threads).told(structure).in_precision(peers);
                    add(
                        run,
                        found
                            .solver::<T>(structure)
                            .map(|solver| Box::new(solver) as _),
                    );
                }
                Maker::Luge(backend) => {
                    let wanted =
                        |p: &Precision| p.of_peer() == peers && self.precisions.contains(p);
                    for precision in Precision::ALL.into_iter().filter(wanted) {
                        let mut run = Run::new(name, threads)
                            .told(structure)
                            .in_precision(precision)
                            .in_variant(backend_name(*backend));
                        if let Some(source) = source.filter(|_| *backend == Backend::Cpu) {
                            self.try_apart(source, candidate, &mut run);
                        }
                        let options = self.options(*backend, threads, precision);
                        let luge = Luge::told(structure, options);
                        add(run, luge.map(|luge| Box::new(luge) as _));
                    }
                }
            }
        }
        entrants
    }

    /// The solver on the matrix in a process of its own, while nobody else runs.
    fn try_apart(&self, source: &Source, candidate: &Candidate, run: &mut Run) {
        if self.no_children {
            return;
        }
        let mut words: Vec<String> = self.libraries.words().collect();
        if let Some(engine) = self.engine.to_possible_value() {
            words.push(format!("--engine={}", engine.get_name()));
        }
        words.push(format!("--structures={}", candidate.structure));
        let solver = format!("{}@{}", candidate.name, candidate.threads);
        let limit = self.rounds.settings().time_limit;
        (run.outcome, run.memory.resident) = try_apart(source, &solver, &words, limit);
    }
}

impl Maker {
    /// Whether its solvers can be told this of a matrix over `T`. Luge refuses in its own words what it cannot do on a backend.
    fn takes<T: Scalar>(&self, structure: Structure) -> bool {
        match self {
            Self::Luge(_) | Self::Cudss(_) => true,
            Self::OnCpu(found) => found.takes::<T>(structure),
        }
    }

    /// Whether they can be told it of any matrix.
    fn takes_any(&self, structure: Structure) -> bool {
        self.takes::<f64>(structure) || self.takes::<Complex<f64>>(structure)
    }
}

/// Version and notes.
fn about<T>(solver: &dyn Peer<T>) -> (String, Vec<String>) {
    (solver.version(), solver.notes())
}

fn backend_name(backend: Backend) -> &'static str {
    match backend {
        Backend::Cpu => "cpu",
        Backend::Gpu => "gpu",
        Backend::Sim => "sim",
    }
}

/// One line of progress: times of first solutions, in milliseconds.
fn line(matrix: &MatrixResult) -> String {
    let mut line = format!(" n {:>8}  nnz {:>9} ", matrix.n, matrix.nnz);
    for run in &matrix.runs {
        let words = match (&run.outcome, run.seconds(Phase::FirstSolve)) {
            (Outcome::TooSlow { .. }, _) => "too slow".to_owned(),
            (Outcome::Failed { reason }, _) => format!("FAILED ({reason})"),
            (Outcome::Measured, Some(seconds)) => format!("{:.3} ms", seconds * 1e3),
            (Outcome::Measured, None) => "-".to_owned(),
        };
        let told = match run.structure {
            Structure::General => "",
            Structure::Symmetric => " sym",
            Structure::Hermitian => " herm",
            Structure::Definite => " spd",
        };
        line.push_str(&format!(" {}{told}@{} {words} ", run.solver, run.threads));
    }
    line
}
