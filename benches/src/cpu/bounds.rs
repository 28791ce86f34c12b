//! Geometric means, and the bounds that Luge is held to.
//!
//! A ratio is Luge's number over the peer's, so below 1 is better, but where a bound says otherwise. A
//! matrix counts where both have a number. Where the peer has one and Luge has none because it refused
//! the matrix, the bound is missed, unless the matrix is known to be singular to rounding.

use crate::report::{LUGE, Outcome};
use crate::results::{MatrixResult, Phase, Results};
use crate::statistics::Ratios;

/// Whether a bound holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// Nothing was measured that it speaks of.
    NoData,
}

/// A bound and what was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// What is bounded.
    pub what: String,
    /// The number that must not be exceeded, or must be reached.
    pub limit: f64,
    /// Whether larger is better.
    pub at_least: bool,
    /// What was measured.
    pub measured: Option<f64>,
    /// Matrices that count.
    pub count: usize,
    /// The matrix with the worst number.
    pub worst: Option<(String, f64)>,
    /// Matrices that a peer solves and Luge refuses.
    pub refused: Vec<String>,
}

impl Bound {
    /// Whether it holds.
    pub fn verdict(&self) -> Verdict {
        match self.measured {
            _ if !self.refused.is_empty() => Verdict::Fail,
            None => Verdict::NoData,
            Some(measured) => {
                let holds = if self.at_least {
                    measured >= self.limit
                } else {
                    measured <= self.limit
                };
                if holds { Verdict::Pass } else { Verdict::Fail }
            }
        }
    }
}

/// KLU's name in results.
const KLU: &str = "klu";

/// The ratios of a number over the matrices of some kinds (of all if there are none named).
pub fn ratios(
    results: &Results,
    kinds: &[&str],
    luge: impl Fn(&MatrixResult) -> Option<f64>,
    peer: impl Fn(&MatrixResult) -> Option<f64>,
) -> Ratios {
    let mut ratios = Ratios::default();
    for matrix in &results.matrices {
        if !kinds.is_empty() && !kinds.contains(&matrix.kind.as_str()) {
            continue;
        }
        let Some(peer) = peer(matrix) else { continue };
        let refused = matrix
            .runs
            .iter()
            .any(|run| run.solver == LUGE && !matches!(run.outcome, Outcome::Measured));
        match luge(matrix) {
            Some(luge) if peer > 0.0 => ratios.of.push((matrix.name.clone(), luge / peer)),
            None if refused && !matrix.near_singular => ratios.refused.push(matrix.name.clone()),
            _ => {}
        }
    }
    ratios
}

/// The ratios of the time of a phase: Luge with `threads` over the peer with one.
pub fn time_ratios(
    results: &Results,
    kinds: &[&str],
    phase: Phase,
    threads: usize,
    peer: &str,
) -> Ratios {
    ratios(
        results,
        kinds,
        |matrix| results.seconds(matrix, LUGE, threads, phase),
        |matrix| results.seconds(matrix, peer, 1, phase),
    )
}

/// A bound on the geometric mean of ratios.
fn on_mean(what: &str, limit: f64, ratios: Ratios) -> Bound {
    Bound {
        what: what.to_owned(),
        limit,
        at_least: false,
        measured: ratios.mean(),
        count: ratios.of.len(),
        worst: ratios.extreme(false),
        refused: ratios.refused,
    }
}

/// A bound on the worst of ratios.
fn on_worst(what: &str, limit: f64, ratios: Ratios) -> Bound {
    Bound {
        measured: ratios.extreme(false).map(|(_, ratio)| ratio),
        ..on_mean(what, limit, ratios)
    }
}

/// Backward errors up to this are all the same: a few rounding errors.
const ERROR_FLOOR: f64 = 4.0 * f64::EPSILON;

/// The bounds on Luge's speed, accuracy, fill and memory, against what was measured.
pub fn bounds(results: &Results) -> Vec<Bound> {
    let circuits = ["circuit", "power"];
    let fluids = ["cfd", "fem"];
    let on_circuits = |phase, threads| time_ratios(results, &circuits, phase, threads, KLU);
    let phases = [
        (Phase::AnalyzeFactorize, 1.0),
        (Phase::Refactorize, 0.8),
        (Phase::Solve, 1.0),
    ];
    let mut bounds = Vec::new();
    for (phase, limit) in phases {
        let what = format!("circuit+power, {} / KLU, geometric mean", phase.title());
        bounds.push(on_mean(&what, limit, on_circuits(phase, 1)));
    }
    bounds.push(on_mean(
        "circuit+power, refactorize with 2 threads / KLU, geometric mean",
        0.55,
        on_circuits(Phase::Refactorize, 2),
    ));
    for (phase, _) in phases {
        let what = format!("circuit+power, {} / KLU, worst matrix", phase.title());
        bounds.push(on_worst(&what, 2.0, on_circuits(phase, 1)));
    }

    let faster = ratios(
        results,
        &fluids,
        |matrix| klu_or_its_limit(results, matrix),
        |matrix| results.seconds(matrix, LUGE, 1, Phase::Factorize),
    );
    let refused = time_ratios(results, &fluids, Phase::Factorize, 1, KLU).refused;
    bounds.push(Bound {
        what: "cfd+fem, KLU / Luge, factorize, geometric mean (KLU stopped counts with its limit)"
            .to_owned(),
        limit: 3.0,
        at_least: true,
        measured: faster.mean(),
        count: faster.of.len(),
        worst: faster.extreme(true),
        refused,
    });
    bounds.push(on_mean(
        "cfd+fem, factorize / the faster of UMFPACK and faer, geometric mean",
        1.3,
        ratios(
            results,
            &fluids,
            |matrix| results.seconds(matrix, LUGE, 1, Phase::Factorize),
            |matrix| {
                let times = ["umfpack", "faer"]
                    .map(|peer| results.seconds(matrix, peer, 1, Phase::Factorize));
                times.into_iter().flatten().min_by(f64::total_cmp)
            },
        ),
    ));

    let error = |matrix: &MatrixResult, solver: &str| {
        let error = results.run(matrix, solver, 1)?.errors.solve()?;
        Some(error.max(ERROR_FLOOR))
    };
    bounds.push(on_worst(
        "backward error of a plain solve / KLU's (both at least 4 ε), worst matrix",
        10.0,
        ratios(
            results,
            &[],
            |m| error(m, LUGE).filter(|_| !m.near_singular),
            |m| error(m, KLU),
        ),
    ));
    let entries = |matrix: &MatrixResult, solver: &str| {
        Some(results.run(matrix, solver, 1)?.factor_entries? as f64)
    };
    bounds.push(on_mean(
        "entries of L+U / KLU, geometric mean",
        1.05,
        ratios(results, &[], |m| entries(m, LUGE), |m| entries(m, KLU)),
    ));
    bounds.push(on_worst(
        "peak memory / KLU, worst of its ten largest",
        1.2,
        memory_of_the_largest(results),
    ));
    bounds
}

/// KLU's factorization time, or the time at which it was stopped, which is less.
fn klu_or_its_limit(results: &Results, matrix: &MatrixResult) -> Option<f64> {
    match results.run(matrix, KLU, 1)?.outcome {
        Outcome::TooSlow { seconds } => Some(seconds),
        _ => results.seconds(matrix, KLU, 1, Phase::Factorize),
    }
}

/// Ratios of peak memory on the ten matrices on which KLU needs most.
fn memory_of_the_largest(results: &Results) -> Ratios {
    let bytes = |matrix: &MatrixResult, solver: &str| {
        Some(results.run(matrix, solver, 1)?.memory.compared()? as f64)
    };
    let all = ratios(results, &[], |m| bytes(m, LUGE), |m| bytes(m, KLU));
    let mut sizes: Vec<(f64, &str)> = results
        .matrices
        .iter()
        .filter_map(|matrix| Some((bytes(matrix, KLU)?, matrix.name.as_str())))
        .collect();
    sizes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let largest: Vec<&str> = sizes.iter().take(10).map(|(_, name)| *name).collect();
    let is_large = |name: &str| largest.contains(&name);
    Ratios {
        of: all
            .of
            .into_iter()
            .filter(|(name, _)| is_large(name))
            .collect(),
        refused: all
            .refused
            .into_iter()
            .filter(|name| is_large(name))
            .collect(),
    }
}
