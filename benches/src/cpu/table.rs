//! The tables that people read, as Markdown.

use super::bounds::{Bound, Verdict, time_ratios};
use crate::report::{LUGE, Outcome, SolverInfo};
use crate::results::{Phase, Results, Run};
use crate::table::{error, mebibytes, milliseconds, or_dash, ratio, strings, table};

/// Times of every solver on every matrix.
pub fn times(results: &Results) -> String {
    let mut header = strings(&["matrix", "solver"]);
    header.extend(Phase::ON_CPU.map(|phase| format!("{} ms", phase.title())));
    header.extend(strings(&[
        "L+U",
        "peak MiB",
        "resident MiB",
        "error",
        "error refactorized",
        "error refined",
        "remarks",
    ]));
    let mut table = table(&header, 2);
    for matrix in &results.matrices {
        for run in &matrix.runs {
            let mut row = vec![matrix.name.clone(), label(run)];
            row.extend(Phase::ON_CPU.map(|phase| {
                let samples = run.phases.get(&phase);
                milliseconds(samples.map(|s| s.get(results.settings.statistic)))
            }));
            row.extend([
                or_dash(run.factor_entries.map(|entries| entries.to_string())),
                mebibytes(run.memory.compared()),
                mebibytes(run.memory.resident),
                error(run.errors.solve()),
                error(run.errors.refactorized),
                error(run.errors.refined),
                remarks(run),
            ]);
            table.add_row(row);
        }
    }
    table.to_string()
}

/// `luge` or `luge@2`.
fn label(run: &Run) -> String {
    match run.threads {
        1 => run.solver.clone(),
        threads => format!("{}@{threads}", run.solver),
    }
}

fn remarks(run: &Run) -> String {
    let mut remarks = Vec::new();
    match &run.outcome {
        Outcome::Measured => {}
        Outcome::TooSlow { seconds } => remarks.push(format!("skipped (time): over {seconds} s")),
        Outcome::Failed { reason } => remarks.push(format!("FAILED: {reason}")),
    }
    if let Some((_, repivoted)) = run.reused_and_repivoted.filter(|(_, r)| *r > 0) {
        remarks.push(format!("repivoted {repivoted} times"));
    }
    if let Some(reason) = &run.refactorize_error {
        remarks.push(format!("no refactorization: {reason}"));
    }
    if !run.wrong_solutions().is_empty() {
        remarks.push("WRONG SOLUTION".to_owned());
    }
    remarks.join("; ")
}

/// Luge's ratios to one peer on every matrix, with the peer's times.
pub fn ratios(results: &Results, peer: &str) -> String {
    let threads: Vec<usize> = luge_threads(results);
    let mut header = strings(&["matrix", "kind", "n", "nnz"]);
    header.push(format!("{peer} analyze+factorize ms"));
    header.push(format!("{peer} refactorize ms"));
    header.push(format!("{peer} solve ms"));
    header.extend(strings(&[
        "analyze ×",
        "factorize ×",
        "analyze+factorize ×",
    ]));
    header.extend(threads.iter().map(|t| format!("refactorize@{t} ×")));
    header.extend(strings(&[
        "solve ×",
        "solve 16 ×",
        "L+U ×",
        "memory ×",
        "error luge",
    ]));
    header.push(format!("error {peer}"));
    header.push("remarks".to_owned());
    let mut table = table(&header, 2);
    for matrix in &results.matrices {
        let of =
            |solver: &str, threads: usize, phase| results.seconds(matrix, solver, threads, phase);
        let times = |threads: usize, phase| Some(of(LUGE, threads, phase)? / of(peer, 1, phase)?);
        let (luge_run, peer_run) = (results.run(matrix, LUGE, 1), results.run(matrix, peer, 1));
        let entries = |run: Option<&Run>| Some(run?.factor_entries? as f64);
        let memory = |run: Option<&Run>| Some(run?.memory.compared()? as f64);
        let mut row = vec![
            matrix.name.clone(),
            matrix.kind.clone(),
            matrix.n.to_string(),
            matrix.nnz.to_string(),
            milliseconds(of(peer, 1, Phase::AnalyzeFactorize)),
            milliseconds(of(peer, 1, Phase::Refactorize)),
            milliseconds(of(peer, 1, Phase::Solve)),
            ratio(times(1, Phase::Analyze)),
            ratio(times(1, Phase::Factorize)),
            ratio(times(1, Phase::AnalyzeFactorize)),
        ];
        row.extend(threads.iter().map(|&t| ratio(times(t, Phase::Refactorize))));
        row.extend([
            ratio(times(1, Phase::Solve)),
            ratio(times(1, Phase::SolveMany)),
            ratio(entries(luge_run).zip(entries(peer_run)).map(|(l, p)| l / p)),
            ratio(memory(luge_run).zip(memory(peer_run)).map(|(l, p)| l / p)),
            error(luge_run.and_then(|run| run.errors.solve())),
            error(peer_run.and_then(|run| run.errors.solve())),
            both_remarks(luge_run, peer_run),
        ]);
        table.add_row(row);
    }
    table.to_string()
}

fn both_remarks(luge: Option<&Run>, peer: Option<&Run>) -> String {
    let named = |run: &Run| {
        let words = remarks(run);
        (!words.is_empty()).then(|| format!("{}: {words}", run.solver))
    };
    let all: Vec<String> = [luge, peer]
        .into_iter()
        .flatten()
        .filter_map(named)
        .collect();
    all.join("; ")
}

fn luge_threads(results: &Results) -> Vec<usize> {
    let luge = results.solvers.iter().find(|solver| solver.name == LUGE);
    luge.map_or(Vec::new(), |luge| luge.threads.clone())
}

/// Geometric means of Luge's ratios to every peer, by kind, with the worst ratio in brackets.
pub fn summary(results: &Results) -> String {
    let mut header = strings(&["luge / peer with one thread", "kind", "matrices"]);
    header.extend(Phase::ON_CPU.map(|phase| phase.title().to_owned()));
    let mut table = table(&header, 2);
    let mut kinds: Vec<&str> = results.matrices.iter().map(|m| m.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let groups: Vec<(&str, Vec<&str>)> = kinds
        .iter()
        .map(|&kind| (kind, vec![kind]))
        .chain([("all", Vec::new())])
        .collect();
    let here = |solver: &&SolverInfo| solver.name != LUGE && solver.missing.is_none();
    for peer in results.solvers.iter().filter(here) {
        for threads in luge_threads(results) {
            let pair = match threads {
                1 => format!("luge / {}", peer.name),
                threads => format!("luge@{threads} / {}", peer.name),
            };
            for (name, kinds) in &groups {
                let of = |phase| time_ratios(results, kinds, phase, threads, &peer.name);
                let count = of(Phase::Factorize).of.len();
                if count == 0 {
                    continue;
                }
                let mut row = vec![pair.clone(), (*name).to_owned(), count.to_string()];
                row.extend(Phase::ON_CPU.map(|phase| {
                    let ratios = of(phase);
                    let both = ratios.mean().zip(ratios.extreme(false));
                    or_dash(both.map(|(mean, (_, worst))| format!("{mean:.2} ({worst:.2})")))
                }));
                table.add_row(row);
            }
        }
    }
    table.to_string()
}

/// One line a bound: PASS, FAIL or NO DATA.
pub fn bounds(bounds: &[Bound]) -> String {
    let mut table = table(
        &strings(&["verdict", "bound", "limit", "measured", "matrices", "worst"]),
        2,
    );
    for bound in bounds {
        let verdict = match bound.verdict() {
            Verdict::Pass => "PASS",
            Verdict::Fail => "FAIL",
            Verdict::NoData => "NO DATA",
        };
        let sign = if bound.at_least { "≥" } else { "≤" };
        let mut worst = bound
            .worst
            .as_ref()
            .map_or_else(String::new, |(name, ratio)| format!("{name} {ratio:.2}"));
        if !bound.refused.is_empty() {
            worst.push_str(&format!("; Luge refuses {}", bound.refused.join(", ")));
        }
        table.add_row([
            verdict.to_owned(),
            bound.what.clone(),
            format!("{sign} {}", bound.limit),
            ratio(bound.measured),
            bound.count.to_string(),
            worst,
        ]);
    }
    table.to_string()
}
