//! The benchmark of partial refactorization: a share of the devices of a circuit gets other values, and the factors are renewed,
//! once with all values and once told which ones changed, in turn ([`turns`]).
//!
//! A device is a pair of unknowns with an entry off the diagonal: its stamp has up to four entries. Of as many devices as the share of
//! the unknowns says, `spread` takes each anywhere, `near` takes one after another from the neighbours of those taken before. Both
//! kinds of factors must solve with the same bits.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;
use comfy_table::Table;
use luge::sprs::CsMat;
use luge::{Factors, Options, Refactorized, Solver};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::arguments::{Backend, SourceArguments};
use crate::statistics::Samples;
use crate::systems::Source;
use crate::tables::table;
use crate::turns;

/// Measures partial refactorizations.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    #[command(flatten)]
    sources: SourceArguments,
    /// Devices with other values, over the number of unknowns.
    #[arg(long, default_value_t = 0.01)]
    share: f64,
    /// Where Luge runs.
    #[arg(long, value_enum, default_value_t = Backend::Cpu)]
    backend: Backend,
    /// Threads on the CPU.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Samples of each.
    #[arg(long, default_value_t = 25)]
    samples: usize,
}

/// Who takes turns.
struct Contestant {
    factors: Factors<f64>,
    is_told: bool,
    seconds: Vec<f64>,
    /// Of the first two rounds.
    planning: Vec<f64>,
}

impl Arguments {
    /// Runs the benchmark, and prints a table.
    ///
    /// # Errors
    ///
    /// If a matrix cannot be read or factorized, or solutions differ.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        ensure!(
            (0.0..=1.0).contains(&self.share),
            "a share is between 0 and 1"
        );
        let header = [
            "matrix",
            "n",
            "devices",
            "entries",
            "part",
            "first ms",
            "second ms",
            "whole ms",
            "changed ms",
            "ratio",
        ];
        let mut rows = table(header, 3);
        for source in &self.sources.sources()? {
            let measured = self.run_matrix(source, &mut rows);
            measured.with_context(|| source.name.clone())?;
        }
        println!("{rows}");
        Ok(ExitCode::SUCCESS)
    }

    fn run_matrix(&self, source: &Source, rows: &mut Table) -> anyhow::Result<()> {
        let a = source.read_real()?;
        let a = a.rows();
        let options = Options::default()
            .backend(self.backend.into())
            .threads(Some(self.threads));
        let analysis = Solver::new(options)?.analyze(a)?;
        for is_near in [false, true] {
            let places = stamps(a, self.share, is_near);
            let mut all = Vec::with_capacity(2);
            for is_told in [false, true] {
                all.push(Contestant {
                    factors: analysis.factorize(a)?,
                    is_told,
                    seconds: Vec::new(),
                    planning: Vec::new(),
                });
            }
            // The first rounds are not counted: one plans for all changes, one for those of these places.
            for round in 0..self.samples.max(1) + 2 {
                let mut values = a.data().to_vec();
                for &place in &places {
                    values[place] *= 1.0 + 1e-3 * (round + 1) as f64;
                }
                let changed: Vec<f64> = places.iter().map(|&place| values[place]).collect();
                let mut outcome = Ok(());
                turns::round(
                    &mut all,
                    round,
                    |_| true,
                    |contestant| {
                        let start = Instant::now();
                        let renewed = if contestant.is_told {
                            contestant.factors.refactorize_changed(&places, &changed)
                        } else {
                            contestant.factors.refactorize_values(&values)
                        };
                        let seconds = start.elapsed().as_secs_f64();
                        if round <= 1 {
                            contestant.planning.push(seconds);
                        }
                        match renewed {
                            Ok(Refactorized::Reused { .. }) if round > 1 => {
                                contestant.seconds.push(seconds)
                            }
                            Ok(_) => {}
                            Err(error) => outcome = Err(error),
                        }
                    },
                );
                outcome?;
            }
            let b = vec![1.0; a.rows()];
            let [x, y] = [0, 1].map(|which| {
                let mut x = b.clone();
                all[which].factors.solve_in_place(&mut x).map(|_| x)
            });
            ensure!(x? == y?, "solutions differ");
            let part = all[1].factors.inform().refactorized_part;
            let [whole, told] = [0, 1].map(|which| {
                let samples = std::mem::take(&mut all[which].seconds);
                (!samples.is_empty()).then(|| Samples::new(samples).median)
            });
            let [whole, told] =
                [whole, told].map(|median| median.context("new pivots were searched"));
            let (whole, told) = (whole?, told?);
            let way = if is_near { "near" } else { "spread" };
            rows.add_row([
                source.name.clone(),
                a.rows().to_string(),
                way.to_owned(),
                places.len().to_string(),
                format!("{:.3}", part.unwrap_or(1.0)),
                format!("{:.3}", 1e3 * all[1].planning[0]),
                format!("{:.3}", 1e3 * all[1].planning[1]),
                format!("{:.3}", 1e3 * whole),
                format!("{:.3}", 1e3 * told),
                format!("{:.2}", told / whole),
            ]);
        }
        Ok(())
    }
}

/// Where the entries of the devices that change are stored.
fn stamps(a: &CsMat<f64>, share: f64, is_near: bool) -> Vec<usize> {
    let n = a.rows();
    let count = (share * n as f64).ceil() as usize;
    let mut rng = SmallRng::seed_from_u64(1);
    let partner = |i: usize, rng: &mut SmallRng| {
        let row = a.indptr().outer_inds_sz(i);
        let others: Vec<usize> = a.indices()[row]
            .iter()
            .copied()
            .filter(|&j| j != i)
            .collect();
        (!others.is_empty()).then(|| others[rng.random_range(0..others.len())])
    };
    let mut devices: Vec<(usize, usize)> = Vec::new();
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut is_seen = vec![false; n];
    for _ in 0..4 * count {
        if devices.len() == count {
            break;
        }
        let i = match queue.pop_front() {
            Some(i) => i,
            None => rng.random_range(0..n),
        };
        if is_near {
            for &j in &a.indices()[a.indptr().outer_inds_sz(i)] {
                if !std::mem::replace(&mut is_seen[j], true) {
                    queue.push_back(j);
                }
            }
        }
        devices.extend(partner(i, &mut rng).map(|j| (i, j)));
    }
    let mut places = Vec::new();
    for (i, j) in devices {
        for (row, col) in [(i, i), (i, j), (j, i), (j, j)] {
            let range = a.indptr().outer_inds_sz(row);
            let at = a.indices()[range.clone()].binary_search(&col);
            places.extend(at.map(|at| range.start + at));
        }
    }
    places.sort_unstable();
    places.dedup();
    places
}
