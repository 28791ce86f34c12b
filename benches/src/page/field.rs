//! Who is compared with whom in a run of a benchmark.

use crate::report::{LUGE, Outcome};
use crate::results::{Benchmark, MatrixResult, Phase, Precision, Results, Run};
use crate::statistics::{Ratios, Statistic};

/// A solver in one variant, as it is drawn and listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// The solver.
    pub solver: String,
    /// The variant.
    pub variant: String,
    /// The types.
    pub precision: Precision,
    /// Threads on the host: the fewest with which it ran.
    pub threads: usize,
}

impl Contender {
    fn of(run: &Run) -> Self {
        Self {
            solver: run.solver.clone(),
            variant: run.variant.clone(),
            precision: run.precision,
            threads: run.threads,
        }
    }

    /// Its name in the page.
    pub fn label(&self) -> String {
        let mut label = self.solver.clone();
        if !self.variant.is_empty() {
            label.push_str(&format!(" ({})", self.variant));
        }
        if self.precision != Precision::F64 {
            label.push_str(&format!(" {}", self.precision));
        }
        label
    }

    /// Whether a run is one of its.
    pub fn is_of(&self, run: &Run) -> bool {
        *self == Self::of(run)
    }

    /// Its run on a matrix.
    pub fn run<'a>(&self, matrix: &'a MatrixResult) -> Option<&'a Run> {
        matrix.runs.iter().find(|run| self.is_of(run))
    }
}

/// All who took part, Luge as it is compared first.
///
/// Where a solver ran with several numbers of threads, it is compared with the fewest.
pub fn contenders(results: &Results) -> Vec<Contender> {
    let mut all: Vec<Contender> = Vec::new();
    for run in results.matrices.iter().flat_map(|matrix| &matrix.runs) {
        if run.phases.keys().eq([&Phase::Supernodes]) {
            continue;
        }
        let next = Contender::of(run);
        let same = |known: &&mut Contender| {
            (&known.solver, &known.variant, known.precision)
                == (&next.solver, &next.variant, next.precision)
        };
        match all.iter_mut().find(same) {
            Some(known) => known.threads = known.threads.min(next.threads),
            None => all.push(next),
        }
    }
    // What a device does in its usual mode stands for Luge where there is one.
    let rank = |contender: &Contender| {
        let is_luge = contender.solver == LUGE;
        let usual = ["gpu", "panels", ""];
        let mode = usual.iter().position(|mode| *mode == contender.variant);
        (!is_luge, contender.precision, mode.unwrap_or(usual.len()))
    };
    all.sort_by_key(rank);
    all
}

/// The phases that are compared, in the order in which they are done.
pub fn compared_phases(benchmark: Benchmark) -> &'static [Phase] {
    match benchmark {
        Benchmark::Cpu => &[
            Phase::AnalyzeFactorize,
            Phase::Factorize,
            Phase::Refactorize,
            Phase::Solve,
            Phase::SolveMany,
        ],
        Benchmark::Symbolic => &[Phase::Symbolic],
        Benchmark::Numeric => &[
            Phase::FirstSolve,
            Phase::Refactorize,
            Phase::RefactorizeResident,
            Phase::Solve,
            Phase::SolveResident,
            Phase::SolveMany,
        ],
        Benchmark::EndToEnd => &[Phase::FirstSolve, Phase::Refactorize, Phase::Solve],
    }
}

/// The parts of a first solution, which stand on top of each other.
pub fn stacked_phases(contender: &Contender, results: &Results) -> Vec<Phase> {
    let has = |phase: Phase| {
        let runs = results.matrices.iter().filter_map(|m| contender.run(m));
        runs.into_iter().any(|run| run.phases.contains_key(&phase))
    };
    let analysis = if has(Phase::Ordering) && has(Phase::Symbolic) {
        vec![Phase::Ordering, Phase::Symbolic]
    } else {
        vec![Phase::Analyze]
    };
    let parts = analysis.into_iter().chain([Phase::Factorize, Phase::Solve]);
    parts.filter(|&phase| has(phase)).collect()
}

/// The time that counts: none where the solver failed, or where its solution is wrong.
pub fn seconds(run: &Run, phase: Phase, statistic: Statistic) -> Option<f64> {
    let valid = run.outcome == Outcome::Measured && run.wrong_solutions().is_empty();
    let samples = run.phases.get(&phase).filter(|_| valid)?;
    Some(samples.get(statistic))
}

/// Ratios of the times of one to those of another, matrix by matrix. `refused` has the matrices that only the other
/// one solves; those that are singular to rounding do not count there.
pub fn ratios(results: &Results, ours: &Contender, theirs: &Contender, phase: Phase) -> Ratios {
    let statistic = results.settings.statistic;
    let mut ratios = Ratios::default();
    for matrix in &results.matrices {
        let of = |contender: &Contender| {
            let run = contender.run(matrix)?;
            seconds(run, phase, statistic)
        };
        match (of(ours), of(theirs)) {
            (Some(ours), Some(theirs)) if theirs > 0.0 => {
                ratios.of.push((matrix.name.clone(), ours / theirs));
            }
            (None, Some(_)) if is_lost(ours, matrix) => ratios.refused.push(matrix.name.clone()),
            _ => {}
        }
    }
    ratios
}

/// Whether somebody took part in a matrix and has no right solution of it.
fn is_lost(contender: &Contender, matrix: &MatrixResult) -> bool {
    let lost = |run: &Run| {
        run.outcome != Outcome::Measured
            || run.failed_steps > 0
            || !run.wrong_solutions().is_empty()
    };
    !matrix.near_singular && contender.run(matrix).is_some_and(lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::results::{SCHEMA, Settings};
    use crate::statistics::Samples;

    fn timed(solver: &str, threads: usize, seconds: f64) -> Run {
        let mut run = Run::new(solver, threads);
        run.phases.insert(Phase::Solve, Samples::new(vec![seconds]));
        run.errors.known = Some(1e-16);
        run
    }

    fn results(runs: Vec<Vec<Run>>) -> Results {
        let matrix = |(number, runs): (usize, Vec<Run>)| MatrixResult {
            name: format!("m{number}"),
            kind: "circuit".to_owned(),
            n: 2,
            nnz: 3,
            near_singular: false,
            refactorized_with: String::new(),
            runs,
        };
        Results {
            schema: SCHEMA.to_owned(),
            benchmark: Benchmark::Cpu,
            machine: Machine::here(),
            device: None,
            date: String::new(),
            commit: String::new(),
            profile: String::new(),
            command: Vec::new(),
            settings: Settings {
                time_limit: 1.0,
                budget: 1.0,
                min_rounds: 1,
                max_rounds: 1,
                statistic: Statistic::Median,
            },
            ceilings: Default::default(),
            solvers: Vec::new(),
            matrices: runs.into_iter().enumerate().map(matrix).collect(),
        }
    }

    #[test]
    fn luge_comes_first_and_each_with_its_fewest_threads() {
        let on_gpu = timed("luge", 4, 1.0).in_variant("gpu");
        let on_cpu = timed("luge", 4, 1.0).in_variant("cpu");
        let runs = vec![
            timed("klu", 1, 1.0),
            on_cpu,
            timed("faer", 2, 1.0),
            on_gpu,
            timed("faer", 1, 1.0),
        ];
        let found = contenders(&results(vec![runs]));
        let labels: Vec<String> = found.iter().map(Contender::label).collect();
        assert_eq!(labels, ["luge (gpu)", "luge (cpu)", "klu", "faer"]);
        assert_eq!(found[3].threads, 1);
    }

    #[test]
    fn a_wrong_solution_has_no_time() {
        let mut wrong = timed("klu", 1, 1.0);
        wrong.errors.known = Some(1e-3);
        let mut lost = timed("luge", 1, 1.0);
        lost.errors.known = Some(f64::MAX);
        let results = results(vec![
            vec![timed("luge", 1, 1.0), timed("klu", 1, 2.0)],
            vec![timed("luge", 1, 1.0), wrong],
            vec![lost, timed("klu", 1, 2.0)],
        ]);
        let all = contenders(&results);
        let ratios = ratios(&results, &all[0], &all[1], Phase::Solve);
        assert_eq!(ratios.of, [("m0".to_owned(), 0.5)]);
        assert_eq!(ratios.refused, ["m2"]);
    }
}
