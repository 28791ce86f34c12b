//! The benchmark of a group of devices: what is dealt out to all of them, on one and on several. The symbolic phase by
//! traversals, subtrees of one matrix, and batches of systems of one pattern. Patterns and solutions must be those of one
//! device, bit for bit. cuDSS takes one matrix on the same groups, in its mode for several GPUs; for groups that are not there,
//! what is predicted of them can be asked for.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;
use luge::device::{Device, SimulatorOptions, Stream};
use luge::sprs::CsMat;
use luge::{BackendChoice, DealOut, MatrixKind, Options, Ordinals, ResidualCheck, Solver};
use luge_peers::{Matrix, Peer, Staged, Structure, cudss};
use luge_sparse::{FilledPattern, Scalar};
use luge_symbolic::gpu::{Fill2Options, Stages, fill2_on};
use luge_testkit::residual::normwise_backward_error;

use crate::arguments::{Backend, LibraryArguments, OutputArguments, SourceArguments};
use crate::ceilings;
use crate::luge_peer::components;
use crate::progress::Progress;
use crate::results::{
    Benchmark, Field, LUGE, MatrixResult, Outcome, Phase, Results, Run, Settings, SolverInfo,
};
use crate::statistics::{Samples, Statistic};
use crate::systems::{AnyMatrix, BenchScalar, Source, ordered_pattern, rescaled};

/// The name of cuDSS in results.
const CUDSS: &str = "cudss";

/// Measures groups of devices.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    #[command(flatten)]
    sources: SourceArguments,
    /// Sizes of the groups. The first is what the others are held against.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    devices: Vec<usize>,
    /// Systems of a batch; 0 for no batch.
    #[arg(long, default_value_t = 512)]
    systems: usize,
    /// Leave out the symbolic phase.
    #[arg(long)]
    no_symbolic: bool,
    /// Leave out the factorization of one matrix.
    #[arg(long)]
    no_tree: bool,
    /// Deal subtrees of one matrix out even where one device is predicted to be as fast.
    #[arg(long)]
    always: bool,
    /// Factorize it as a symmetric one.
    #[arg(long)]
    symmetric: bool,
    /// Also factorize it on groups whose devices have so many bytes each, for each of these numbers: what has no room on the first
    /// is on the others, and what has none there in the memory of the host.
    #[arg(long, value_delimiter = ',')]
    within: Vec<u64>,
    /// Also tell how much faster than one device groups of these sizes are predicted to factorize a matrix.
    #[arg(long, value_delimiter = ',')]
    predict: Vec<usize>,
    /// Also run cuDSS on the groups, with one matrix.
    #[arg(long)]
    cudss: bool,
    #[command(flatten)]
    libraries: LibraryArguments,
    /// Samples.
    #[arg(long, default_value_t = 5)]
    samples: usize,
    /// Where it runs.
    #[arg(long, value_enum, default_value_t = Backend::Gpu)]
    backend: Backend,
    #[command(flatten)]
    output: OutputArguments,
}

impl Arguments {
    /// Runs the benchmark; fails if several devices find another pattern or solution than one, or nothing ran.
    ///
    /// # Errors
    ///
    /// If the matrices cannot be listed, a device fails, or a file cannot be written.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        ensure!(!self.devices.contains(&0), "a group has a device");
        let most = self.devices.iter().copied().max();
        let most = most.context("no group to measure")?;
        let devices = self.open(most)?;
        let streams = devices.iter().map(Device::create_stream);
        let streams = streams.collect::<Result<Vec<Stream>, _>>()?;
        let settings = Settings {
            time_limit: 0.0,
            budget: 0.0,
            min_rounds: self.samples.max(1),
            max_rounds: self.samples.max(1),
            statistic: Statistic::Median,
        };
        let mut results = Results::begun(Benchmark::Devices, settings, Some(&devices[0]));
        results.ceilings = ceilings::with_device(&devices[0])?;
        results.solvers.push(SolverInfo {
            name: LUGE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            threads: vec![1],
            notes: Vec::new(),
            missing: None,
        });
        let cudss = self.cudss_on_groups(&devices)?;
        if let Some((_, first)) = cudss.first() {
            let solver = first.solver::<f64>(Structure::General)?;
            results.solvers.push(SolverInfo {
                name: solver.name().to_owned(),
                version: solver.version(),
                threads: vec![1],
                notes: solver.notes(),
                missing: None,
            });
        }
        let sources = self.sources.sources()?;
        let progress = Progress::over(sources.len());
        for source in &sources {
            progress.begin(&source.name);
            let runs = self.run_matrix(source, &streams, &cudss);
            let runs = runs.with_context(|| source.name.clone())?;
            progress.end(&source.name);
            results.matrices.push(runs);
        }
        drop(progress);
        self.output.finish(&results)
    }

    fn open(&self, count: usize) -> anyhow::Result<Vec<Device>> {
        let devices = (0..count).map(|ordinal| match self.backend {
            Backend::Gpu => Device::cuda(ordinal),
            Backend::Cpu | Backend::Sim => Ok(Device::simulator(SimulatorOptions::default())),
        });
        Ok(devices.collect::<Result<_, _>>()?)
    }

    fn group(&self, count: usize) -> anyhow::Result<BackendChoice> {
        Ok(match self.backend {
            Backend::Gpu => BackendChoice::Gpus {
                ordinals: Ordinals::of(0..count).context("no such group of devices")?,
            },
            Backend::Cpu | Backend::Sim => BackendChoice::Simulators { seed: 0, count },
        })
    }

    /// cuDSS on each group, if it is asked for.
    fn cudss_on_groups(&self, devices: &[Device]) -> anyhow::Result<Vec<(usize, cudss::Found)>> {
        if !self.cudss {
            return Ok(Vec::new());
        }
        let on_group = |&count| Ok((count, self.libraries.cudss_on(&devices[..count])?));
        self.devices.iter().map(on_group).collect()
    }

    fn run_matrix(
        &self,
        source: &Source,
        streams: &[Stream],
        cudss: &[(usize, cudss::Found)],
    ) -> anyhow::Result<MatrixResult> {
        match source.read()? {
            AnyMatrix::Real(a) => self.run_on(source, &a, streams, cudss),
            AnyMatrix::Complex(a) => self.run_on(source, &a, streams, cudss),
        }
    }

    fn run_on<T: BenchScalar>(
        &self,
        source: &Source,
        a: &Matrix<T>,
        streams: &[Stream],
        cudss: &[(usize, cudss::Found)],
    ) -> anyhow::Result<MatrixResult> {
        let mut runs = Vec::new();
        if !self.no_symbolic {
            let magnitudes = a.rows().map(|value| value.widen().magnitude());
            runs.extend(self.symbolic(&magnitudes, streams)?);
        }
        if !self.no_tree {
            runs.extend(self.tree(a.rows())?);
            for (count, found) in cudss {
                let mut run = Run::new(CUDSS, 1).in_variant(&format!("tree, {count} devices"));
                run.devices = Some(*count);
                if let Err(error) = self.peer(a, found, &mut run) {
                    run.outcome = Outcome::Failed {
                        reason: format!("{error:#}"),
                    };
                }
                runs.push(run);
            }
        }
        if self.systems > 0 {
            runs.extend(self.batches(a.rows())?);
        }
        Ok(MatrixResult {
            name: source.name.clone(),
            kind: source.kind.to_string(),
            field: Field::of::<T>(),
            n: a.n(),
            nnz: a.rows().nnz(),
            near_singular: false,
            refactorized_with: String::new(),
            runs,
        })
    }

    /// Traversals with the memory that they take by themselves. The columns of the result, which only the first device makes,
    /// do not count.
    fn symbolic(&self, a: &CsMat<f64>, streams: &[Stream]) -> anyhow::Result<Vec<Run>> {
        let pattern = ordered_pattern(a)?;
        let options = Fill2Options {
            stages: Stages::Auto,
            ..Fill2Options::default()
        };
        let mut expected: Option<FilledPattern> = None;
        let mut runs = Vec::new();
        for &count in &self.devices {
            let (mut seconds, mut equal, mut last) = (Vec::new(), true, None);
            for sample in 0..=self.samples.max(1) {
                let start = Instant::now();
                let (filled, report) = fill2_on(&streams[..count], &pattern, &options)?;
                let all = start.elapsed().as_secs_f64();
                // The first call is not counted.
                if sample > 0 {
                    seconds.push(all - report.seconds.columns);
                    last = Some(report);
                    continue;
                }
                let found = filled.download(&streams[0])?;
                equal &= *expected.get_or_insert_with(|| found.clone()) == found;
            }
            let mut run = Self::run_of("fill2", count);
            run.phases.insert(Phase::Symbolic, Samples::new(seconds));
            run.inform = last.and_then(|report| serde_json::to_value(report).ok());
            run.factor_entries = expected.as_ref().map(|filled| filled.nnz() as u64);
            run.equal = Some(equal);
            runs.push(run);
        }
        Ok(runs)
    }

    /// One matrix, with new values on the first device; refactorizations are not checked.
    fn tree<T: Scalar>(&self, a: &CsMat<T>) -> anyhow::Result<Vec<Run>> {
        let values = |seed: usize| -> Vec<T> {
            let scaled = |(at, &value): (usize, &T)| rescaled(value, at + seed * a.nnz());
            a.data().iter().enumerate().map(scaled).collect()
        };
        let upload = |stream: &Stream, numbers: &[T]| stream.upload(&components(numbers));
        let b: Vec<T> = (0..a.rows()).map(|i| rescaled(T::one(), i)).collect();
        let mut expected: Option<Vec<u64>> = None;
        let mut runs = Vec::new();
        let groups = |bytes| self.devices.iter().map(move |&count| (count, bytes));
        let within = self.within.iter().flat_map(|&bytes| groups(Some(bytes)));
        for (count, bytes) in groups(None).chain(within) {
            // Beside what the caller of the benchmark has there: two sets of values, two vectors.
            let own = (16 * T::COMPONENTS * (a.nnz() + a.rows())) as u64;
            let options = Options::default()
                .max_device_bytes(bytes.map(|bytes| bytes + own))
                .backend(self.group(count)?)
                .kind(self.kind())
                .deal_out(if self.always {
                    DealOut::Always
                } else {
                    DealOut::Auto
                })
                .residual_check(ResidualCheck::Never);
            let solver = Solver::new(options)?;
            let stream = solver.stream().context("a group of devices has a stream")?;
            let start = Instant::now();
            let analysis = solver.analyze(a)?;
            let analyzed = start.elapsed().as_secs_f64();
            if runs.is_empty() {
                for &devices in &self.predict {
                    let predicted = analysis.predicted_speedup(devices);
                    let mut run = Self::run_of("tree predicted", devices);
                    run.devices = Some(devices);
                    run.inform = Some(serde_json::json!({ "predicted_speedup": predicted }));
                    runs.push(run);
                }
            }
            let start = Instant::now();
            let mut factors = analysis.factorize(a)?;
            let factorized = start.elapsed().as_secs_f64();
            let there = [upload(stream, &values(1))?, upload(stream, &values(2))?];
            let right = upload(stream, &b)?;
            let mut x = stream.alloc::<f64>(right.len())?;
            let (mut refactorized, mut solved) = (Vec::new(), Vec::new());
            for round in 0..=self.samples.max(1) {
                stream.copy(&mut x, &right)?;
                stream.synchronize()?;
                let start = Instant::now();
                factors.refactorize_on_device(&there[round % 2])?;
                let of_factors = start.elapsed().as_secs_f64();
                let start = Instant::now();
                factors.solve_on_device(&mut x, 1, false)?;
                if round > 0 {
                    refactorized.push(of_factors);
                    solved.push(start.elapsed().as_secs_f64());
                }
            }
            let bits = stream.download(&x)?.iter().map(|v| v.to_bits()).collect();
            let what = match bytes {
                Some(bytes) => format!("tree within {bytes} bytes"),
                None => "tree".to_owned(),
            };
            let mut run = Self::run_of(&what, count);
            run.devices = bytes.is_none().then_some(count);
            run.equal = Some(*expected.get_or_insert_with(|| Vec::clone(&bits)) == bits);
            run.factor_entries = factors.inform().lnz.checked_add(factors.inform().unz);
            run.inform = serde_json::to_value(factors.inform()).ok();
            time_tree(&mut run, [analyzed, factorized], [refactorized, solved]);
            runs.push(run);
        }
        Ok(runs)
    }

    fn kind(&self) -> MatrixKind {
        if self.symmetric {
            MatrixKind::Symmetric
        } else {
            MatrixKind::General
        }
    }

    /// One matrix by cuDSS, with new values on the first device.
    fn peer<T: BenchScalar>(
        &self,
        a: &Matrix<T>,
        found: &cudss::Found,
        run: &mut Run,
    ) -> anyhow::Result<()> {
        let others = [1, 2].map(|seed| {
            let other = |value, at| rescaled(value, at + seed * a.nnz());
            if self.symmetric {
                a.map_symmetric_values(other)
            } else {
                a.map_values(other)
            }
        });
        let b: Vec<T> = (0..a.n()).map(|i| rescaled(T::one(), i)).collect();
        let structure = if self.symmetric {
            Structure::Symmetric
        } else {
            Structure::General
        };
        let mut solver = found.solver::<T>(structure)?;
        let start = Instant::now();
        solver.analyze(a)?;
        let analyzed = start.elapsed().as_secs_f64();
        let start = Instant::now();
        solver.factorize(a)?;
        let factorized = start.elapsed().as_secs_f64();
        let mut x = b.clone();
        solver.solve(&mut x, 1)?;
        run.errors.random = Some(normwise_backward_error(a.rows(), &x, &b));
        let statistics = solver.statistics();
        run.factor_entries = statistics.factor_entries;
        run.memory.device = statistics.device_bytes;
        let staged = Staged {
            a,
            others: &others,
            b: [&b, &b],
        };
        let resident = solver.resident().context("cuDSS works on the device")?;
        resident.stage(&staged)?;
        let (mut refactorized, mut solved) = (Vec::new(), Vec::new());
        for round in 0..=self.samples.max(1) {
            let start = Instant::now();
            resident.refactorize(round % 2)?;
            let of_factors = start.elapsed().as_secs_f64();
            let start = Instant::now();
            resident.solve(1)?;
            if round > 0 {
                refactorized.push(of_factors);
                solved.push(start.elapsed().as_secs_f64());
            }
        }
        time_tree(run, [analyzed, factorized], [refactorized, solved]);
        Ok(())
    }

    /// Batches of systems whose values are on the host, or on the first device. Times are those of all systems together.
    fn batches<T: Scalar>(&self, a: &CsMat<T>) -> anyhow::Result<Vec<Run>> {
        let (n, nnz) = (a.rows(), a.nnz());
        let sample = |seed: usize| -> Vec<T> {
            let numbers = 0..nnz * self.systems;
            let value = |at| rescaled(a.data()[at % nnz], at + seed * nnz * self.systems);
            numbers.map(value).collect()
        };
        let b = (0..n * self.systems).map(|i| rescaled(T::one(), i));
        let b: Vec<T> = b.collect();
        let mut expected: Option<Vec<u64>> = None;
        let mut runs = Vec::new();
        for &count in &self.devices {
            let options = Options::default()
                .backend(self.group(count)?)
                .residual_check(ResidualCheck::Never);
            let solver = Solver::new(options)?;
            let analysis = solver.analyze(a)?;
            let stream = solver.stream().context("a group of devices has a stream")?;
            let values = sample(0);
            let mut batch = analysis.factorize_batch(&values, self.systems)?;
            let values = [sample(1), sample(2)];
            let mut there = Vec::new();
            for values in &values {
                there.push(stream.upload(&components(values))?);
            }
            let right = stream.upload(&components(&b))?;
            let mut x = stream.alloc::<f64>(right.len())?;
            let mut on_host = b.clone();
            let mut seconds = [const { Vec::new() }; 4];
            let mut equal = true;
            for round in 0..=self.samples.max(1) {
                let mut laps = Vec::new();
                let start = Instant::now();
                check(batch.refactorize(&values[round % 2]))?;
                laps.push(start.elapsed().as_secs_f64());
                let start = Instant::now();
                check(batch.refactorize_on_device(&there[round % 2])?)?;
                laps.push(start.elapsed().as_secs_f64());
                on_host.copy_from_slice(&b);
                let start = Instant::now();
                check(batch.solve_in_place(&mut on_host, 1, false))?;
                laps.push(start.elapsed().as_secs_f64());
                stream.copy(&mut x, &right)?;
                stream.synchronize()?;
                let start = Instant::now();
                check(batch.solve_on_device(&mut x, 1, false)?)?;
                laps.push(start.elapsed().as_secs_f64());
                if round == 0 {
                    let bits = |x: &[f64]| x.iter().map(|v| v.to_bits()).collect::<Vec<u64>>();
                    let solved = bits(&stream.download(&x)?);
                    equal &= bits(&components(&on_host)) == solved;
                    equal &= *expected.get_or_insert_with(|| solved.clone()) == solved;
                    continue;
                }
                for (seconds, lap) in seconds.iter_mut().zip(laps) {
                    seconds.push(lap);
                }
            }
            let mut run = Self::run_of(&format!("batch of {}", self.systems), count);
            let phases = [
                Phase::Refactorize,
                Phase::RefactorizeResident,
                Phase::Solve,
                Phase::SolveResident,
            ];
            for (phase, seconds) in phases.into_iter().zip(seconds) {
                run.phases.insert(phase, Samples::new(seconds));
            }
            run.equal = Some(equal);
            runs.push(run);
        }
        Ok(runs)
    }

    fn run_of(what: &str, devices: usize) -> Run {
        Run::new(LUGE, 1).in_variant(&format!("{what}, {devices} devices"))
    }
}

/// Notes what one matrix took: analysis and first factorization once, the others as often as they were measured.
fn time_tree(
    run: &mut Run,
    [analyzed, factorized]: [f64; 2],
    [refactorized, solved]: [Vec<f64>; 2],
) {
    for (phase, seconds) in [
        (Phase::Analyze, vec![analyzed]),
        (Phase::Factorize, vec![factorized]),
        (Phase::RefactorizeResident, refactorized),
        (Phase::SolveResident, solved),
    ] {
        run.phases.insert(phase, Samples::new(seconds));
    }
}

/// The first error of a system.
pub(crate) fn check<R>(outcomes: Vec<Result<R, luge::Error>>) -> anyhow::Result<()> {
    for outcome in outcomes {
        outcome?;
    }
    Ok(())
}
