//! One matrix on groups of devices: how many times as fast as the smallest group, as measured and as predicted.

use super::{milliseconds, or_dash, table};
use crate::results::{MatrixResult, Phase, Results, Run};

/// A line for each solver and group, those that were predicted alone too.
pub(super) fn groups(results: &Results) -> String {
    let header = [
        "matrix",
        "solver",
        "devices",
        "refactorize",
        "times as fast",
        "predicted",
        "solve",
        "times as fast",
    ];
    let mut table = table(header, 2);
    for matrix in &results.matrices {
        for run in matrix.runs.iter().filter(|run| run.devices.is_some()) {
            let milliseconds = |phase| or_dash(run.seconds(phase), milliseconds);
            let gained = |phase| or_dash(gained(matrix, run, phase), |ratio| format!("{ratio:.2}"));
            table.add_row([
                matrix.name.clone(),
                run.solver.clone(),
                or_dash(run.devices, |devices| devices.to_string()),
                milliseconds(Phase::RefactorizeResident),
                gained(Phase::RefactorizeResident),
                or_dash(predicted(run), |ratio| format!("{ratio:.2}")),
                milliseconds(Phase::SolveResident),
                gained(Phase::SolveResident),
            ]);
        }
    }
    table.to_string()
}

/// How many times as fast as on the smallest group of the same solver.
fn gained(matrix: &MatrixResult, run: &Run, phase: Phase) -> Option<f64> {
    let own = matrix
        .runs
        .iter()
        .filter(|other| other.solver == run.solver && other.devices.is_some());
    let measured = own.filter_map(|other| Some((other.devices, other.seconds(phase)?)));
    let (_, first) = measured.min_by_key(|&(devices, _)| devices)?;
    Some(first / run.seconds(phase)?)
}

fn predicted(run: &Run) -> Option<f64> {
    run.inform.as_ref()?.get("predicted_speedup")?.as_f64()
}

#[cfg(test)]
mod tests {
    use luge_testkit::corpus::Kind;

    use super::*;
    use crate::results::{Benchmark, Field, LUGE, Settings};
    use crate::statistics::{Samples, Statistic};

    #[test]
    fn groups_are_held_against_the_smallest_of_their_solver() {
        let settings = Settings {
            time_limit: 0.0,
            budget: 0.0,
            min_rounds: 1,
            max_rounds: 1,
            statistic: Statistic::Median,
        };
        let run = |solver: &str, devices, seconds: Option<f64>, predicted: Option<f64>| {
            let mut run = Run::new(solver, 1);
            run.devices = Some(devices);
            if let Some(seconds) = seconds {
                let samples = Samples::new(vec![seconds]);
                run.phases.insert(Phase::RefactorizeResident, samples);
            }
            run.inform =
                predicted.map(|speedup| serde_json::json!({ "predicted_speedup": speedup }));
            run
        };
        let mut results = Results::begun(Benchmark::Devices, settings, None);
        results.matrices.push(MatrixResult {
            name: "cube".to_owned(),
            kind: Kind::Cfd.to_string(),
            field: Field::Real,
            n: 8,
            nnz: 32,
            near_singular: false,
            refactorized_with: String::new(),
            runs: vec![
                run(LUGE, 64, None, Some(2.5)),
                run(LUGE, 1, Some(0.4), None),
                run(LUGE, 2, Some(0.25), Some(1.5)),
                run("cudss", 1, Some(0.6), None),
                run("cudss", 2, Some(0.3), None),
                Run::new(LUGE, 1),
            ],
        });
        let text = groups(&results);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(2)
            .map(|row| row.split('|').map(str::trim).collect())
            .collect();
        let expected = [
            ["luge", "64", "-", "-", "2.50"],
            ["luge", "1", "400.0", "1.00", "-"],
            ["luge", "2", "250.0", "1.60", "1.50"],
            ["cudss", "1", "600.0", "1.00", "-"],
            ["cudss", "2", "300.0", "2.00", "-"],
        ];
        assert_eq!(rows.len(), expected.len(), "{text}");
        for (row, expected) in rows.iter().zip(expected) {
            assert_eq!(row[2..7], expected, "{text}");
        }
    }
}
