//! The tables that people read, as Markdown, out of results.

mod fastest;
mod groups;

pub use fastest::{OfFastest, of_fastest};

use comfy_table::{CellAlignment, Table, presets};
use luge_peers::Structure;
use luge_testkit::corpus::Kind;

use crate::results::{
    Benchmark, Ceilings, LUGE, MatrixResult, Outcome, Phase, Precision, Results, Run, SolverInfo,
};
use crate::statistics::Ratios;

/// Which matrices count in means.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Counted {
    /// In means, count matrices with more entries of L+U than this alone.
    #[arg(long, default_value_t = 0)]
    pub counted_entries: u64,
    /// In the mean over all, count matrices of these kinds alone.
    #[arg(long, value_delimiter = ',')]
    pub counted_kinds: Vec<Kind>,
}

/// An empty table in which all columns behind the first `words` hold numbers.
pub fn table<S: ToString>(header: impl IntoIterator<Item = S>, words: usize) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::ASCII_MARKDOWN)
        .set_header(header.into_iter().map(|title| title.to_string()));
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A dash for what is not there.
pub fn or_dash<V>(value: Option<V>, words: impl Fn(V) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), words)
}

/// Milliseconds with four digits or so.
pub fn milliseconds(seconds: f64) -> String {
    match seconds * 1e3 {
        ms if ms < 0.1 => format!("{ms:.4}"),
        ms if ms < 10.0 => format!("{ms:.3}"),
        ms => format!("{ms:.1}"),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}

fn error(error: f64) -> String {
    if error == f64::MAX {
        "not finite".to_owned()
    } else {
        format!("{error:.0e}")
    }
}

/// A solver in one variant, on any matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    solver: String,
    variant: String,
    precision: Precision,
    structure: Structure,
    threads: usize,
}

impl Series {
    fn of(run: &Run) -> Self {
        Self {
            solver: run.solver.clone(),
            variant: run.variant.clone(),
            precision: run.precision,
            structure: run.structure,
            threads: run.threads,
        }
    }

    /// All that have a run, in the order of their first ones.
    pub fn all(results: &Results) -> Vec<Self> {
        let mut all = Vec::new();
        for run in results.matrices.iter().flat_map(|matrix| &matrix.runs) {
            let series = Self::of(run);
            if !all.contains(&series) {
                all.push(series);
            }
        }
        all
    }

    /// Its name in tables: `luge (gpu) mixed @16`.
    pub fn label(&self) -> String {
        let mut label = self.solver.clone();
        if !self.variant.is_empty() {
            label.push_str(&format!(" ({})", self.variant));
        }
        if self.structure != Structure::General {
            label.push_str(&format!(" {}", self.structure));
        }
        if self.precision != Precision::F64 {
            label.push_str(&format!(" {}", self.precision));
        }
        if self.threads > 1 {
            label.push_str(&format!(" @{}", self.threads));
        }
        label
    }

    fn run<'a>(&self, matrix: &'a MatrixResult) -> Option<&'a Run> {
        matrix.runs.iter().find(|run| Self::of(run) == *self)
    }

    /// The time that counts: none where the solver failed, or where its solution or inertia is wrong.
    fn seconds(&self, results: &Results, matrix: &MatrixResult, phase: Phase) -> Option<f64> {
        let run = self.run(matrix)?;
        let valid = run.outcome == Outcome::Measured && !is_wrong(matrix, run);
        let samples = run.phases.get(&phase).filter(|_| valid)?;
        Some(samples.get(results.settings.statistic))
    }

    /// Whether it took part in a matrix and has no right solution of it.
    fn lost(&self, matrix: &MatrixResult) -> bool {
        let lost = |run: &Run| {
            run.outcome != Outcome::Measured || run.failed_steps > 0 || is_wrong(matrix, run)
        };
        !matrix.near_singular && self.run(matrix).is_some_and(lost)
    }
}

fn is_wrong(matrix: &MatrixResult, run: &Run) -> bool {
    !run.wrong_solutions().is_empty() || matrix.wrong_inertia(run).is_some()
}

/// Ratios of the times of `ours` to those of `theirs` over the matrices that are wanted. `refused` has those that only
/// the other one solves; those that are singular to rounding do not count there.
pub fn ratios(
    results: &Results,
    ours: &Series,
    theirs: &Series,
    phase: Phase,
    wanted: impl Fn(&MatrixResult) -> bool,
) -> Ratios {
    let mut ratios = Ratios::default();
    for matrix in results.matrices.iter().filter(|matrix| wanted(matrix)) {
        let of = |series: &Series| series.seconds(results, matrix, phase);
        match (of(ours), of(theirs)) {
            (Some(ours), Some(theirs)) if theirs > 0.0 => {
                ratios.of.push((matrix.name.clone(), ours / theirs));
            }
            (None, Some(_)) if ours.lost(matrix) => ratios.refused.push(matrix.name.clone()),
            _ => {}
        }
    }
    ratios
}

/// The phases that any run has, in their order.
fn phases(results: &Results) -> Vec<Phase> {
    let runs = || results.matrices.iter().flat_map(|matrix| &matrix.runs);
    let others = [Phase::Supernodes, Phase::Sweep, Phase::SweepResident];
    let all = Phase::ALL.into_iter().chain(others);
    all.filter(|phase| runs().any(|run| run.phases.contains_key(phase)))
        .collect()
}

/// Everything there is to say of results, with a heading for each table.
pub fn report(results: &Results, counted: &Counted) -> String {
    let machine = &results.machine;
    let mut text = format!(
        "# {}\n\n{}, {} cores, {} GiB, {}{}; {}; commit {}; {} build\n\n`{}`\n",
        results.benchmark.title(),
        machine.cpu,
        machine.cores,
        machine.memory_gib,
        machine.system,
        results
            .device
            .as_ref()
            .map_or(String::new(), |device| format!("; {}", device.name)),
        results.date,
        results.commit,
        results.profile,
        results.command.join(" ")
    );
    let mut sections = vec![("Solvers", solvers(&results.solvers))];
    sections.push(("Luge's time / the other's", means(results, counted)));
    if results.benchmark == Benchmark::Peers {
        sections.push((
            "Luge's time / that of the fastest other solver",
            fastest::fastest(results),
        ));
        sections.push(("Within a factor of the fastest", profiles(results)));
        sections.push(("Rates", rates(results)));
    }
    if results.benchmark == Benchmark::Devices {
        sections.push(("One matrix on groups of devices", groups::groups(results)));
    }
    sections.push(("Every matrix", runs(results)));
    for (title, table) in sections {
        text.push_str(&format!("\n## {title}\n\n{table}\n"));
    }
    text
}

/// Versions, threads, notes; the missing ones too.
fn solvers(solvers: &[SolverInfo]) -> String {
    let mut table = table(["solver", "version", "threads", "notes"], 4);
    for solver in solvers {
        let threads: Vec<String> = solver.threads.iter().map(usize::to_string).collect();
        let notes = match &solver.missing {
            Some(reason) => format!("MISSING: {reason}"),
            None => solver.notes.join("; "),
        };
        table.add_row([&solver.name, &solver.version, &threads.join(", "), &notes]);
    }
    table.to_string()
}

/// Geometric means by kind, each with the worst ratio in brackets, of every series of Luge to each other series that gives
/// as good solutions.
fn means(results: &Results, counted: &Counted) -> String {
    let phases = phases(results);
    let mut table = table(
        ["luge / the other", "kind", "matrices"]
            .into_iter()
            .chain(phases.iter().map(|phase| phase.title())),
        2,
    );
    let mut kinds: Vec<String> = results
        .matrices
        .iter()
        .map(MatrixResult::kind_and_field)
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let counted_kinds: Vec<String> = counted.counted_kinds.iter().map(Kind::to_string).collect();
    let all = Series::all(results);
    let (mut refused, mut is_first) = (String::new(), true);
    for ours in all.iter().filter(|series| series.solver == LUGE) {
        let comparable = |theirs: &&Series| {
            *theirs != ours
                && (theirs.solver != LUGE || results.benchmark != Benchmark::Peers && is_first)
                && theirs.precision == ours.precision.of_peer()
                && theirs.structure == ours.structure
        };
        for theirs in all.iter().filter(comparable) {
            for kind in kinds.iter().map(Some).chain([None]) {
                let wanted = |matrix: &MatrixResult| {
                    let of_kind = match kind {
                        Some(kind) => matrix.kind_and_field() == *kind,
                        None => counted_kinds.is_empty() || counted_kinds.contains(&matrix.kind),
                    };
                    of_kind
                        && (counted.counted_entries == 0
                            || matrix.filled().is_some_and(|f| f > counted.counted_entries))
                };
                let of = |phase| ratios(results, ours, theirs, phase, wanted);
                let count = phases.iter().map(|&phase| of(phase).of.len()).max();
                let lost = phases.iter().flat_map(|&phase| of(phase).refused);
                if kind.is_none() {
                    let mut lost: Vec<String> = lost.collect();
                    lost.sort_unstable();
                    lost.dedup();
                    if !lost.is_empty() {
                        let (ours, theirs) = (ours.label(), theirs.label());
                        refused.push_str(&format!(
                            "\n{theirs} solves and {ours} does not: {}\n",
                            lost.join(", ")
                        ));
                    }
                }
                if count.unwrap_or(0) == 0 {
                    continue;
                }
                let mut row = vec![
                    format!("{} / {}", ours.label(), theirs.label()),
                    kind.map_or("all", String::as_str).to_owned(),
                    count.unwrap_or(0).to_string(),
                ];
                row.extend(phases.iter().map(|&phase| {
                    let ratios = of(phase);
                    let both = ratios.mean().zip(ratios.largest());
                    or_dash(both, |(mean, (_, worst))| format!("{mean:.2} ({worst:.2})"))
                }));
                table.add_row(row);
            }
        }
        is_first = false;
    }
    format!("{table}\n{refused}")
}

/// Performance profiles (Dolan and Moré, 2002): the share of the matrices on which a solver is within a factor of the
/// fastest one.
fn profiles(results: &Results) -> String {
    const FACTORS: [f64; 6] = [1.0, 1.1, 1.5, 2.0, 5.0, 10.0];
    let header = ["phase".to_owned(), "solver".to_owned()];
    let factors = FACTORS.map(|factor| format!("≤ {factor}"));
    let mut table = table(header.into_iter().chain(factors), 2);
    let mut all = Series::all(results);
    all.retain(|series| series.precision == Precision::F64);
    for phase in [Phase::FirstSolve, Phase::Refactorize, Phase::Solve] {
        let rows: Vec<Vec<Option<f64>>> = results
            .matrices
            .iter()
            .map(|matrix| {
                all.iter()
                    .map(|s| s.seconds(results, matrix, phase))
                    .collect()
            })
            .filter(|row: &Vec<Option<f64>>| row.iter().any(Option::is_some))
            .collect();
        for (at, series) in all.iter().enumerate() {
            if rows.iter().all(|row| row[at].is_none()) {
                continue;
            }
            let share = |factor: f64| {
                let within = rows.iter().filter(|row| {
                    let fastest = row.iter().flatten().copied().fold(f64::MAX, f64::min);
                    row[at].is_some_and(|seconds| seconds <= factor * fastest)
                });
                format!("{:.0} %", 100.0 * within.count() as f64 / rows.len() as f64)
            };
            let shares = FACTORS.map(share);
            table.add_row(
                [phase.title().to_owned(), series.label()]
                    .into_iter()
                    .chain(shares),
            );
        }
    }
    table.to_string()
}

/// What Luge reaches of what the hardware gives, and how much of the time of steps on the device is the device's.
fn rates(results: &Results) -> String {
    let header = [
        "matrix",
        "solver",
        "refactorize Gflop/s",
        "of arithmetic",
        "refactorize GB/s",
        "of memory",
        "solve GB/s",
        "of memory",
        "device's share, refactorize",
        "solve",
    ];
    let mut table = table(header, 2);
    let Ceilings {
        host_copy,
        host_copy_all,
        host_flops,
        host_flops_all,
        device_flops,
        copy,
        ..
    } = results.ceilings;
    for matrix in &results.matrices {
        for run in matrix.runs.iter().filter(|run| run.solver == LUGE) {
            let (memory, flops) = match (run.memory.device, run.threads) {
                (Some(_), _) => (copy, device_flops),
                (None, 1) => (host_copy, host_flops),
                (None, _) => (host_copy_all, host_flops_all),
            };
            let giga = |rate: Option<f64>| or_dash(rate, |rate| format!("{:.2}", rate / 1e9));
            let share = |rate: Option<f64>, most: Option<f64>| {
                or_dash(rate.zip(most), |(rate, most)| {
                    format!("{:.1} %", 100.0 * rate / most)
                })
            };
            let refactorized = run.flop_rate(Phase::Refactorize);
            let moved = run.factor_byte_rate(Phase::Refactorize, matrix.field, matrix.nnz);
            let solved = run.solve_byte_rate(matrix.field);
            let of_device = |phase| share(run.device_share(phase), Some(1.0));
            table.add_row([
                matrix.name.clone(),
                Series::of(run).label(),
                giga(refactorized),
                share(refactorized, flops),
                giga(moved),
                share(moved, memory),
                giga(solved),
                share(solved, memory),
                of_device(Phase::RefactorizeResident),
                of_device(Phase::SolveResident),
            ]);
        }
    }
    table.to_string()
}

/// A line for each run.
fn runs(results: &Results) -> String {
    let phases = phases(results);
    let header = ["matrix", "n", "nnz", "kind", "solver"].map(str::to_owned);
    let times = phases.iter().map(|phase| format!("{} ms", phase.title()));
    let others = [
        "L+U",
        "levels",
        "host MiB",
        "resident MiB",
        "device MiB",
        "error",
        "refactorized",
        "one pass",
        "refined",
        "remarks",
    ];
    let mut table = table(
        header
            .into_iter()
            .chain(times)
            .chain(others.map(str::to_owned)),
        5,
    );
    for matrix in &results.matrices {
        for run in &matrix.runs {
            let mut row = vec![
                matrix.name.clone(),
                matrix.n.to_string(),
                matrix.nnz.to_string(),
                matrix.kind_and_field(),
                Series::of(run).label(),
            ];
            row.extend(phases.iter().map(|phase| {
                let samples = run.phases.get(phase);
                or_dash(samples, |s| milliseconds(s.get(results.settings.statistic)))
            }));
            row.extend([
                or_dash(run.factor_entries, |entries| entries.to_string()),
                or_dash(run.num_levels, |levels| levels.to_string()),
                or_dash(run.memory.reported, mebibytes),
                or_dash(run.memory.resident, mebibytes),
                or_dash(run.memory.device, mebibytes),
                or_dash(run.errors.solve(), error),
                or_dash(run.errors.refactorized, error),
                or_dash(run.errors.one_pass, error),
                or_dash(run.errors.refined, error),
                remarks(matrix, run),
            ]);
            table.add_row(row);
        }
    }
    table.to_string()
}

fn inertia([positive, negative]: [u64; 2]) -> String {
    format!("inertia {positive} + {negative} −")
}

fn remarks(matrix: &MatrixResult, run: &Run) -> String {
    let mut remarks = Vec::new();
    match &run.outcome {
        Outcome::Measured => {}
        Outcome::TooSlow { seconds } => remarks.push(format!("stopped after {seconds} s")),
        Outcome::Failed { reason } => remarks.push(format!("FAILED: {reason}")),
    }
    if let Some((_, repivoted)) = run.reused_and_repivoted.filter(|(_, r)| *r > 0) {
        remarks.push(format!("repivoted {repivoted} times"));
    }
    match matrix.wrong_inertia(run) {
        Some(wrong) => remarks.push(format!("WRONG: {}", inertia(wrong))),
        None => remarks.extend(run.inertia.map(inertia)),
    }
    if let Some(count) = run.num_perturbed.filter(|&count| count > 0) {
        remarks.push(format!("{count} pivots replaced"));
    }
    if let Some(reason) = &run.refactorize_error {
        remarks.push(format!("no refactorization: {reason}"));
    }
    if run.equal == Some(false) {
        remarks.push("NOT EQUAL".to_owned());
    }
    let spread = run
        .phases
        .get(&Phase::Refactorize)
        .map(|samples| samples.spread());
    if let Some(spread) = spread.filter(|&spread| spread > 0.2) {
        remarks.push(format!("refactorizations ± {:.0} %", 100.0 * spread));
    }
    remarks.extend(
        run.wrong_solutions()
            .into_iter()
            .map(|words| format!("WRONG: {words}")),
    );
    if let Some(one_pass) = run.wrong_before_refinement() {
        remarks.push(format!("WRONG before refinement: {}", error(one_pass)));
    }
    remarks.join("; ")
}
