//! Times of this library beside those of libklu on the circuits of the corpus, call by call in turn: a table of ratios.
//!
//! ```sh
//! cargo run --release -p luge-klu --example beside_klu
//! ```
//!
//! Each call is made several times with either library, one after the other in a changing order; what counts is the shortest, which
//! other work on the machine disturbs least. The first refactorization of each makes what later ones use, and is left out, as is the first solve.

// The tests use more of it.
#[allow(dead_code)]
#[path = "../tests/support/mod.rs"]
mod api;

use std::time::Instant;

use api::{Api, Solver};
use luge_matrix_io::MatrixData;
use luge_testkit::corpus::{Corpus, Kind};

/// Phases, and how often each is measured at least.
const PHASES: [&str; 4] = ["analyze", "factor", "refactor", "solve"];
const ROUNDS: usize = 5;

/// Rounds go on for so many seconds, up to [`MOST`].
const SECONDS: f64 = 1.0;
const MOST: usize = 41;

/// What one library takes for each phase, round after round.
struct Series<'a> {
    solver: Solver<'a, i32>,
    seconds: [Vec<f64>; 4],
}

impl Series<'_> {
    /// One round; None if a call fails.
    fn measure(&mut self, ptr: &[i32], idx: &[i32], values: &[f64], b: &mut [f64]) -> Option<()> {
        let api = self.solver.api;
        self.solver = Solver::new(api);
        let solver = &mut self.solver;
        let mut times = [0.0; 4];
        let mut timed = |phase: usize, call: &mut dyn FnMut() -> bool| {
            let start = Instant::now();
            let done = call();
            times[phase] = start.elapsed().as_secs_f64();
            done.then_some(())
        };
        timed(0, &mut || solver.analyze(ptr, idx))?;
        timed(1, &mut || solver.factor(ptr, idx, values))?;
        for _ in 0..2 {
            timed(2, &mut || solver.refactor(ptr, idx, values))?;
        }
        for _ in 0..2 {
            b.fill(1.0);
            timed(3, &mut || solver.solve(b, false))?;
        }
        for (seconds, time) in self.seconds.iter_mut().zip(times) {
            seconds.push(time);
        }
        Some(())
    }

    fn shortest(&self) -> [f64; 4] {
        let least = |seconds: &Vec<f64>| seconds.iter().copied().fold(f64::INFINITY, f64::min);
        self.seconds.each_ref().map(least)
    }
}

fn main() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let Some(klu) = api::klu::<i32>(false) else {
        return;
    };
    let ours = Api::<i32>::load(&api::ours(), false).expect("the library is there");
    println!(
        "| matrix | order | {} |",
        PHASES
            .map(|phase| format!("KLU {phase}, ms | Luge / KLU"))
            .join(" | ")
    );
    println!("|---|--:|{}", "--:|--:|".repeat(4));
    let mut ratios: [Vec<f64>; 4] = Default::default();
    for entry in corpus.square_real(u64::MAX) {
        if !matches!(entry.kind(), Kind::Circuit | Kind::Power) {
            continue;
        }
        let Ok(MatrixData::Real(a)) = entry.read().map(|matrix| matrix.data) else {
            continue;
        };
        let a = a.to_csc();
        let ptr: Vec<i32> = a.indptr().raw_storage().iter().map(|&p| p as i32).collect();
        let idx: Vec<i32> = a.indices().iter().map(|&i| i as i32).collect();
        let mut b = vec![1.0; a.rows()];
        let mut both = [&klu, &ours].map(|api| Series {
            solver: Solver::new(api),
            seconds: Default::default(),
        });
        let start = Instant::now();
        let mut done = Some(());
        for round in 0..MOST {
            if round >= ROUNDS && start.elapsed().as_secs_f64() > SECONDS {
                break;
            }
            for turn in 0..2 {
                let series = &mut both[(round + turn) % 2];
                done = done.and(series.measure(&ptr, &idx, a.data(), &mut b));
            }
        }
        if done.is_none() {
            println!("| {} | {} | one of both refuses it |", entry.name, a.rows());
            continue;
        }
        let [theirs, ours] = both.each_ref().map(Series::shortest);
        let cells = theirs
            .iter()
            .zip(ours)
            .zip(&mut ratios)
            .map(|((theirs, ours), ratios)| {
                ratios.push((ours / theirs).ln());
                format!("{:.4} | {:.2}", theirs * 1e3, ours / theirs)
            });
        let cells: Vec<String> = cells.collect();
        println!("| {} | {} | {} |", entry.name, a.rows(), cells.join(" | "));
    }
    let means = ratios.map(|ratios| {
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        format!(" | {:.2}", mean.exp())
    });
    println!("| geometric mean | | {} |", means.join(" | "));
}
