//! The tables that people read, as Markdown.

use super::means::{COUNTED_ENTRIES, COUNTED_KINDS, counts, ratios};
use crate::report::Outcome;
use crate::results::{Phase, Precision, Results, Run};
use crate::table::{error, mebibytes, milliseconds, or_dash, ratio, strings, table};

/// Times, rates, memory and errors of every solver on every matrix.
pub fn runs(results: &Results) -> String {
    let mut header = strings(&["matrix", "solver", "types", "n", "nnz", "L+U"]);
    header.extend(Phase::ON_DEVICE.map(|phase| format!("{} ms", phase.title())));
    header.extend(strings(&[
        "GFlop/s",
        "refactorize GB/s",
        "solve GB/s",
        "device / wall refactorize",
        "device / wall solve",
        "device MiB",
        "host MiB",
        "error",
        "error refactorized",
        "error 16",
        "error refined",
        "remarks",
    ]));
    let mut table = table(&header, 3);
    for matrix in &results.matrices {
        for run in &matrix.runs {
            let mut row = vec![
                matrix.name.clone(),
                run.solver.clone(),
                run.precision.to_string(),
                matrix.n.to_string(),
                matrix.nnz.to_string(),
                or_dash(run.factor_entries.map(|entries| entries.to_string())),
            ];
            row.extend(Phase::ON_DEVICE.map(|phase| milliseconds(run.seconds(phase))));
            let giga = |rate: Option<f64>| ratio(rate.map(|rate| rate / 1e9));
            let share = |phases: [Phase; 2]| {
                let mut shares = phases.into_iter();
                ratio(shares.find_map(|phase| run.device_share(phase)))
            };
            row.extend([
                giga(run.flop_rate(Phase::Refactorize)),
                giga(run.factor_byte_rate(Phase::Refactorize, matrix.nnz)),
                giga(run.solve_byte_rate()),
                share([Phase::Refactorize, Phase::RefactorizeResident]),
                share([Phase::Solve, Phase::SolveResident]),
                mebibytes(run.memory.device),
                mebibytes(run.memory.reported),
                error(run.errors.known),
                error(run.errors.refactorized),
                error(run.errors.many),
                error(run.errors.refined),
                remarks(run),
            ]);
            table.add_row(row);
        }
    }
    table.to_string()
}

fn remarks(run: &Run) -> String {
    let mut remarks = Vec::new();
    match &run.outcome {
        Outcome::Measured => {}
        Outcome::TooSlow { seconds } => remarks.push(format!("skipped (time): over {seconds} s")),
        Outcome::Failed { reason } => remarks.push(format!("FAILED: {reason}")),
    }
    if run.failed_steps > 0 {
        remarks.push(format!("FAILED: {}", run.details.join("; ")));
    }
    if let Some(count) = run.num_perturbed.filter(|&count| count > 0) {
        remarks.push(format!("{count} pivots replaced"));
    }
    if let Some((_, repivoted)) = run.reused_and_repivoted.filter(|(_, r)| *r > 0) {
        remarks.push(format!("repivoted {repivoted} times"));
    }
    if !run.wrong_solutions().is_empty() {
        remarks.push("WRONG SOLUTION".to_owned());
    }
    remarks.join("; ")
}

/// Geometric means of Luge's times over a peer's, and the worst, for the matrices that count.
pub fn summary(results: &Results) -> String {
    use Phase::{
        FirstSolve, Refactorize, RefactorizeResident, Solve, SolveMany, SolveManyResident,
        SolveRefined, SolveResident,
    };
    let mut lines = vec![format!(
        "Luge's time / the peer's, {} with more than {COUNTED_ENTRIES} entries of L+U, geometric means:",
        COUNTED_KINDS.join(" and ")
    )];
    for precision in Precision::ALL {
        let solve = match precision {
            Precision::Mixed => SolveRefined,
            Precision::F64 | Precision::F32 => Solve,
        };
        for (peer, pairs) in [
            (
                "klu",
                &[
                    (Refactorize, Refactorize),
                    (solve, Solve),
                    (SolveMany, SolveMany),
                    (FirstSolve, FirstSolve),
                ][..],
            ),
            (
                "cudss",
                &[
                    (Refactorize, Refactorize),
                    (Refactorize, RefactorizeResident),
                    (solve, Solve),
                    (solve, SolveResident),
                    (SolveMany, SolveMany),
                    (SolveMany, SolveManyResident),
                    (FirstSolve, FirstSolve),
                ][..],
            ),
        ] {
            for &(ours, theirs) in pairs {
                let ratios = ratios(results, precision, ours, peer, theirs);
                let what = format!("{precision}: {} / {peer} {}", ours.title(), theirs.title());
                lines.extend(ratios.line(&what, true));
            }
        }
    }
    let missing = results.solvers.iter().filter_map(|solver| {
        let reason = solver.missing.as_ref()?;
        Some(format!("no ratios to {}: {reason}", solver.name))
    });
    lines.extend(missing);
    let counted = results.matrices.iter().filter(|m| counts(m)).count();
    lines.push(format!(
        "{} matrices, {counted} of them count",
        results.matrices.len()
    ));
    lines.join("\n")
}
