//! What is recorded, and the tables that people read.

use luge_symbolic::gpu::{Fill2Report, PanelReport};
use serde_json::Value;

use super::measure::Mode;
use crate::report::LUGE;
use crate::results::{self, Phase, Run};
use crate::statistics::{Ratios, Samples};
use crate::table::{ratio, table};

/// Entries of L+U from which on a matrix counts in the geometric means.
pub const COUNTED_ENTRIES: u64 = 500_000;

/// What the device's memory gives, in bytes a second.
#[derive(Debug, Clone, Copy)]
pub struct Ceilings {
    /// A copy between buffers that no cache holds, read and written bytes.
    pub copy: f64,
    /// Words one after another, out of the second-level cache.
    pub cached_stream: f64,
    /// Sectors of 32 bytes for words at random, out of the second-level cache.
    pub cached_scattered: f64,
    /// Sectors of 32 bytes for words at random, out of a gibibyte.
    pub scattered: f64,
}

/// The automatic mode on a pattern.
#[derive(Debug, Clone)]
pub struct Panels {
    /// Seconds, median, without the columns of L+U.
    pub seconds: f64,
    /// Of all calls that count.
    pub samples: Samples,
    /// The report of the call with that time.
    pub report: PanelReport,
    /// Whether each repetition gave the CPU path's pattern.
    pub equal: bool,
}

/// The traversal on a pattern, with one set of options.
#[derive(Debug, Clone)]
pub struct Fill2 {
    /// The mode.
    pub mode: Mode,
    /// The budget that was asked for, in bytes.
    pub budget_bytes: u64,
    /// Whether that is the smallest that works.
    pub smallest: bool,
    /// Seconds, median, without the columns of L+U.
    pub seconds: f64,
    /// Of all calls that count.
    pub samples: Samples,
    /// Edges a second of the walks.
    pub edges_per_second: f64,
    /// The report of the call with that time.
    pub report: Fill2Report,
    /// Whether each repetition gave the CPU path's pattern.
    pub equal: bool,
}

impl Fill2 {
    /// Bytes a second that the walks read of columns and labels, four of each an edge: less than what moves,
    /// since labels come in sectors.
    pub fn bytes_per_second(&self) -> f64 {
        8.0 * self.edges_per_second
    }
}

/// Supernodes of a pattern.
#[derive(Debug, Clone)]
pub struct Supernodes {
    /// How many.
    pub number: usize,
    /// Seconds on the device.
    pub samples: Samples,
    /// Whether they are those that the definition gives, found on the host.
    pub equal: bool,
}

/// Everything on a pattern.
#[derive(Debug, Clone)]
pub struct MatrixResult {
    /// Name of the matrix.
    pub name: String,
    /// Order.
    pub n: usize,
    /// Entries of B.
    pub nnz: usize,
    /// Entries of L+U, the diagonal once.
    pub filled: usize,
    /// The application it comes from.
    pub kind: String,
    /// Seconds of the CPU path on one core.
    pub cpu: Samples,
    /// Seconds of another program, if they are known.
    pub peer_seconds: Option<f64>,
    /// The automatic mode.
    pub panels: Panels,
    /// The traversal.
    pub fill2: Vec<Fill2>,
    /// Supernodes.
    pub supernodes: Supernodes,
}

impl MatrixResult {
    /// Bytes of B by rows.
    pub fn own_bytes(&self) -> u64 {
        8 * (self.n as u64 + 1) + 4 * self.nnz as u64
    }

    /// How many times as fast as the CPU path, the upload of B apart.
    pub fn speedup(&self) -> f64 {
        self.cpu.median / (self.panels.seconds - self.panels.report.seconds.transfer)
    }

    /// Bytes beside B and L+U for each byte of B.
    pub fn memory(&self) -> f64 {
        self.panels.report.peak_bytes as f64 / self.own_bytes() as f64
    }

    /// Whether every result was equal.
    pub fn is_equal(&self) -> bool {
        self.panels.equal && self.supernodes.equal && self.fill2.iter().all(|run| run.equal)
    }
}

/// A run of the benchmark.
#[derive(Debug, Clone)]
pub struct Results {
    /// What the device's memory gives.
    pub ceilings: Ceilings,
    /// The matrices.
    pub matrices: Vec<MatrixResult>,
}

impl MatrixResult {
    /// In the format of all benchmarks: a run for each way to find the pattern, and one for the supernodes.
    pub fn recorded(&self) -> results::MatrixResult {
        let of = |variant: &str, phase: Phase, samples: &Samples| {
            let mut run = Run::new(LUGE, 1).in_variant(variant);
            run.phases.insert(phase, samples.clone());
            run.factor_entries = Some(self.filled as u64);
            run
        };
        let on_device =
            |variant: &str, samples: &Samples, equal: bool, report: Option<Value>| Run {
                equal: Some(equal),
                inform: report,
                ..of(variant, Phase::Symbolic, samples)
            };
        let panels = &self.panels;
        let report = serde_json::to_value(panels.report).ok();
        let mut runs = vec![
            of("cpu", Phase::Symbolic, &self.cpu),
            on_device("panels", &panels.samples, panels.equal, report),
        ];
        for walk in &self.fill2 {
            let variant = match walk.smallest {
                true => format!("fill2 {}, the smallest budget", walk.mode),
                false => format!("fill2 {}, {} MiB", walk.mode, walk.budget_bytes >> 20),
            };
            let report = serde_json::to_value(walk.report).ok();
            runs.push(on_device(&variant, &walk.samples, walk.equal, report));
        }
        let supernodes = &self.supernodes;
        let mut found = of("supernodes", Phase::Supernodes, &supernodes.samples);
        found.equal = Some(supernodes.equal);
        found.details = vec![format!("{} supernodes", supernodes.number)];
        runs.push(found);
        if let Some(seconds) = self.peer_seconds {
            let mut peer = of("", Phase::Symbolic, &Samples::new(vec![seconds]));
            peer.solver = "another program".to_owned();
            runs.push(peer);
        }
        results::MatrixResult {
            name: self.name.clone(),
            kind: self.kind.clone(),
            n: self.n,
            nnz: self.nnz,
            near_singular: false,
            refactorized_with: String::new(),
            runs,
        }
    }
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.2}", seconds * 1e3)
}

fn yes(equal: bool) -> &'static str {
    if equal { "yes" } else { "NO" }
}

/// The automatic mode: times of its steps, against the CPU path and the peer, memory.
pub fn panels(results: &Results) -> String {
    let mut table = table(
        &[
            "matrix",
            "n",
            "nnz(B)",
            "nnz(L+U)",
            "CPU ms",
            "GPU ms",
            "transfer",
            "transpose",
            "forest",
            "structures",
            "rows",
            "CPU / GPU",
            "peer / GPU",
            "bytes / own",
            "columns",
            "supernodes",
            "supernodes ms",
            "equal",
        ],
        1,
    );
    for matrix in &results.matrices {
        let panels = &matrix.panels;
        let s = panels.report.seconds;
        let peer = matrix.peer_seconds.map(|peer| peer / panels.seconds);
        table.add_row([
            matrix.name.clone(),
            matrix.n.to_string(),
            matrix.nnz.to_string(),
            matrix.filled.to_string(),
            milliseconds(matrix.cpu.median),
            milliseconds(panels.seconds),
            milliseconds(s.transfer),
            milliseconds(s.transpose),
            milliseconds(s.forest),
            milliseconds(s.structures),
            milliseconds(s.rows),
            ratio(Some(matrix.speedup())),
            ratio(peer),
            ratio(Some(matrix.memory())),
            milliseconds(s.columns),
            matrix.supernodes.number.to_string(),
            milliseconds(matrix.supernodes.samples.median),
            yes(matrix.is_equal()).to_owned(),
        ]);
    }
    table.to_string()
}

/// The traversal: times of its stages, edges a second, memory.
pub fn fill2(results: &Results) -> String {
    let mut table = table(
        &[
            "matrix",
            "mode",
            "budget MiB",
            "ms",
            "count",
            "place",
            "positions",
            "sort",
            "edges",
            "edges / s",
            "bytes / copy",
            "batches",
            "iterations",
            "spilled",
            "by bits",
            "peak MiB",
            "equal",
        ],
        1,
    );
    for matrix in &results.matrices {
        for run in &matrix.fill2 {
            let (s, pool) = (run.report.seconds, run.report.pool);
            let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
            let mark = if run.smallest { " (smallest)" } else { "" };
            table.add_row([
                matrix.name.clone(),
                run.mode.to_string(),
                mib(run.budget_bytes) + mark,
                milliseconds(run.seconds),
                milliseconds(s.count),
                milliseconds(s.place),
                milliseconds(s.positions),
                milliseconds(s.sort),
                format!("{:.3e}", run.report.traversed_edges as f64),
                format!("{:.2e}", run.edges_per_second),
                format!("{:.2}", run.bytes_per_second() / results.ceilings.copy),
                pool.batches.to_string(),
                pool.iterations.to_string(),
                pool.spilled_entries.to_string(),
                pool.rescans.to_string(),
                mib(pool.peak_bytes),
                yes(run.equal).to_owned(),
            ]);
        }
    }
    table.to_string()
}

/// The geometric means, each over the matrices with more than [`COUNTED_ENTRIES`] of L+U that have what it is
/// made of, and the worst.
pub fn summary(results: &Results) -> String {
    let c = &results.ceilings;
    let mut lines = vec![format!(
        "memory, GB/s: copy {:.0}; out of the second-level cache one after another {:.0}, scattered {:.0}; scattered over 1 GiB {:.0}",
        c.copy / 1e9,
        c.cached_stream / 1e9,
        c.cached_scattered / 1e9,
        c.scattered / 1e9,
    )];
    let counted = || {
        let matrices = results.matrices.iter();
        matrices.filter(|matrix| matrix.filled as u64 > COUNTED_ENTRIES)
    };
    let mut line =
        |what: &str, of: &dyn Fn(&MatrixResult) -> Option<f64>, largest_is_worst: bool| {
            let named = |m: &MatrixResult| Some((m.name.clone(), of(m)?));
            let ratios = Ratios {
                of: counted().filter_map(named).collect(),
                ..Ratios::default()
            };
            lines.extend(ratios.line(what, largest_is_worst));
        };
    line("CPU path / automatic mode", &|m| Some(m.speedup()), false);
    line(
        "peer / automatic mode",
        &|m| Some(m.peer_seconds? / m.panels.seconds),
        false,
    );
    line(
        "bytes beside B and L+U / bytes of B",
        &|m| Some(m.memory()),
        true,
    );
    for mode in [Mode::Two, Mode::Fused, Mode::Auto] {
        let of = |matrix: &MatrixResult, budget: u64| {
            let run = matrix
                .fill2
                .iter()
                .find(|run| run.mode == mode && run.budget_bytes == budget && !run.smallest);
            run.map(|run| run.seconds)
        };
        let mut budgets: Vec<u64> = results
            .matrices
            .iter()
            .flat_map(|m| &m.fill2)
            .filter(|run| !run.smallest)
            .map(|run| run.budget_bytes)
            .collect();
        budgets.sort_unstable();
        budgets.dedup();
        let Some(most) = budgets.pop() else {
            continue;
        };
        for budget in budgets.into_iter().rev() {
            let what = format!(
                "fill2, {mode}: time with {} MiB / with {} MiB",
                budget >> 20,
                most >> 20
            );
            line(&what, &|m| Some(of(m, budget)? / of(m, most)?), true);
        }
    }
    let unequal = results.matrices.iter().filter(|m| !m.is_equal()).count();
    lines.push(format!(
        "{} matrices, {unequal} of them not equal",
        results.matrices.len()
    ));
    lines.join("\n")
}
