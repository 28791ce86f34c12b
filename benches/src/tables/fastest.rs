//! Luge's times over those of the fastest other solver, matrix by matrix.

use super::{Series, or_dash, table};
use crate::results::{LUGE, MatrixResult, Phase, Results};
use crate::statistics::geometric_mean;

const PHASES: [Phase; 4] = [
    Phase::Analyze,
    Phase::Factorize,
    Phase::Refactorize,
    Phase::Solve,
];

/// The ratio of Luge's time to that of the fastest other solver, and which that is.
#[derive(Debug, Clone, PartialEq)]
pub struct OfFastest {
    /// Luge's time over the other's.
    pub ratio: f64,
    /// The other's label.
    pub of: String,
}

/// For every series of Luge the matrices, those with the largest ratio of factorizations first, and below them geometric
/// means. Compared are the solvers that are told the same of a matrix, give as good solutions, use no more threads, and whose
/// solutions and inertia are right.
pub(super) fn fastest(results: &Results) -> String {
    let header = ["matrix", "solver"].into_iter();
    let mut table = table(header.chain(PHASES.map(Phase::title)), 2);
    let all = Series::all(results);
    for ours in all.iter().filter(|series| series.solver == LUGE) {
        let mut rows: Vec<_> = results
            .matrices
            .iter()
            .map(|matrix| {
                let of = |phase| of_fastest(results, &all, ours, matrix, phase);
                (matrix.name.as_str(), PHASES.map(of))
            })
            .filter(|(_, of)| of.iter().any(Option::is_some))
            .collect();
        let factorize = |of: &[Option<OfFastest>; 4]| of[1].as_ref().map_or(0.0, |of| of.ratio);
        rows.sort_by(|(_, a), (_, b)| factorize(b).total_cmp(&factorize(a)));
        if rows.is_empty() {
            continue;
        }
        let label = ours.label();
        let mut add = |name: &str, words: [String; 4]| {
            table.add_row([name.to_owned(), label.clone()].into_iter().chain(words));
        };
        for (name, of) in &rows {
            let words = |of: &Option<OfFastest>| {
                or_dash(of.as_ref(), |of| format!("{:.2} of {}", of.ratio, of.of))
            };
            add(name, of.each_ref().map(words));
        }
        let means = std::array::from_fn(|at| {
            let ratios: Vec<f64> = rows
                .iter()
                .filter_map(|(_, of)| Some(of[at].as_ref()?.ratio))
                .collect();
            let count = ratios.len();
            or_dash(geometric_mean(ratios), |mean| {
                format!("{mean:.2} over {count}")
            })
        });
        add("geometric mean", means);
    }
    table.to_string()
}

/// Luge's time in a phase over that of the fastest of `all` that is comparable; `None` if Luge or all others have none.
pub fn of_fastest(
    results: &Results,
    all: &[Series],
    ours: &Series,
    matrix: &MatrixResult,
    phase: Phase,
) -> Option<OfFastest> {
    let luge = ours.seconds(results, matrix, phase)?;
    let comparable = all.iter().filter(|theirs| {
        theirs.solver != LUGE
            && theirs.precision == ours.precision.of_peer()
            && theirs.structure == ours.structure
            && theirs.threads <= ours.threads
    });
    let times = comparable.filter_map(|theirs| {
        let seconds = theirs.seconds(results, matrix, phase)?;
        (seconds > 0.0).then_some((seconds, theirs))
    });
    let (seconds, fastest) = times.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(OfFastest {
        ratio: luge / seconds,
        of: fastest.solver.clone(),
    })
}
