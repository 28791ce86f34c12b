//! POUNCE with its own linear solver and with Luge in turn, each on one thread, on small and large problems.
//!
//! ```sh
//! cargo run --release --example compare -- [--rounds 3] [--only NAME] [--json FILE]
//! ```
//!
//! prints how each run ended, its iterations, the objective, and the processor seconds of all calls of the linear solver, the
//! least of the rounds. It fails where its own solver solves a problem and Luge does not, or Luge takes more iterations by more
//! than a twentieth, and by more than one.

use std::fmt::Write as _;
use std::process::ExitCode;

use luge_pounce::problems::families::{
    bratu, chain, control, least_squares, minimal_surface, obstacle, pendulum, poisson, regulator,
    ring, rosenbrock,
};
use luge_pounce::problems::{Problem, small};
use luge_pounce::runs::{Backend, Outcome, solve};

/// Both runs of a problem, its own solver first.
struct Pair {
    problem: Problem,
    outcomes: [Outcome; 2],
}

impl Pair {
    /// The time of Luge over that of POUNCE's own solver.
    fn ratio(&self) -> f64 {
        let [own, luge] = self.outcomes.map(|outcome| outcome.work.seconds);
        luge / own
    }

    fn is_accepted(&self) -> bool {
        let [own, luge] = self.outcomes;
        let most = (f64::from(own.iterations) * 1.05).max(f64::from(own.iterations) + 1.0);
        !own.is_solved() || (luge.is_solved() && f64::from(luge.iterations) <= most)
    }

    fn row(&self) -> String {
        let [own, luge] = self.outcomes;
        format!(
            "| {} | {} | {} | {} | {:?} | {:?} | {} | {} | {:.9e} | {:.1e} | {} | {} | {:.4} | {:.4} | {:.2} |",
            self.problem.name,
            self.problem.n(),
            self.problem.m(),
            luge.work.order,
            own.status,
            luge.status,
            own.iterations,
            luge.iterations,
            luge.objective,
            (luge.objective - own.objective).abs(),
            own.work.factorizations,
            luge.work.factorizations,
            own.work.seconds,
            luge.work.seconds,
            self.ratio(),
        )
    }

    fn json(&self) -> String {
        let outcomes = self.outcomes.map(|outcome| {
            let work = outcome.work;
            format!(
                r#"{{"status": "{:?}", "iterations": {}, "objective": {:e}, "seconds": {:e}, "factorizations": {}, "wrong_inertia": {}, "singular": {}, "escalations": {}}}"#,
                outcome.status,
                outcome.iterations,
                outcome.objective,
                work.seconds,
                work.factorizations,
                work.wrong_inertia,
                work.singular,
                work.escalations,
            )
        });
        format!(
            r#"{{"name": "{}", "n": {}, "m": {}, "own": {}, "luge": {}}}"#,
            self.problem.name,
            self.problem.n(),
            self.problem.m(),
            outcomes[0],
            outcomes[1],
        )
    }
}

fn problems() -> Vec<Problem> {
    let mut problems = small::all();
    problems.extend([
        rosenbrock(2000),
        control(50),
        obstacle(60),
        pendulum(2_000),
        minimal_surface(70),
        least_squares(4_000),
    ]);
    problems.extend([
        control(75),
        control(110),
        obstacle(110),
        obstacle(160),
        chain(50_002),
        pendulum(5_000),
        pendulum(20_000),
        bratu(50_000),
        regulator(50_000),
        poisson(75),
        poisson(200),
        ring(50_000),
        minimal_surface(120),
        minimal_surface(180),
        least_squares(20_000),
    ]);
    problems
}

/// Runs each solver once in each round, each first as often.
fn run(problem: Problem, rounds: usize) -> Pair {
    let mut kept: [Option<Outcome>; 2] = [None, None];
    for round in 0..rounds {
        for turn in [round % 2, 1 - round % 2] {
            let backend = [Backend::Own, Backend::Luge][turn];
            let outcome = solve(&problem, backend, "tol 1e-8\nmax_iter 3000");
            if kept[turn].is_none_or(|kept| outcome.work.seconds < kept.work.seconds) {
                kept[turn] = Some(outcome);
            }
        }
    }
    Pair {
        problem,
        outcomes: kept.map(|outcome| outcome.expect("at least one round")),
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut rounds, mut only, mut json) = (3, String::new(), None);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().expect("a value after each option");
        match argument.as_str() {
            "--rounds" => rounds = value.parse::<usize>().expect("a number of rounds").max(1),
            "--only" => only = value,
            "--json" => json = Some(value),
            other => panic!("unknown option {other}"),
        }
    }
    println!(
        "| problem | n | m | order | status, own | Luge | iterations, own | Luge | objective | difference | factorizations, own | Luge | linear solver, own, s | Luge, s | Luge / own |"
    );
    println!("|---|--:|--:|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut pairs = Vec::new();
    for problem in problems() {
        if problem.name.contains(&only) {
            let pair = run(problem, rounds);
            println!("{}", pair.row());
            pairs.push(pair);
        }
    }
    println!();
    for (what, is_large) in [("n > 10,000", true), ("n ≤ 10,000", false)] {
        let of_size = pairs
            .iter()
            .filter(|pair| (pair.problem.n() > 10_000) == is_large);
        let logarithms: Vec<f64> = of_size.map(|pair| pair.ratio().ln()).collect();
        if !logarithms.is_empty() {
            let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
            println!(
                "Luge / own, geometric mean of {} problems with {what}, the least of {rounds} rounds each: {:.2}",
                logarithms.len(),
                mean.exp()
            );
        }
    }
    if let Some(path) = json {
        let mut text = String::from("[\n");
        for (at, pair) in pairs.iter().enumerate() {
            let comma = if at + 1 < pairs.len() { "," } else { "" };
            writeln!(text, "  {}{comma}", pair.json()).expect("memory");
        }
        text.push_str("]\n");
        std::fs::write(&path, text).expect("a file that can be written");
    }
    let refused = pairs.iter().filter(|pair| !pair.is_accepted());
    let refused: Vec<&str> = refused.map(|pair| pair.problem.name.as_str()).collect();
    if refused.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("not as with its own solver: {}", refused.join(", "));
    ExitCode::FAILURE
}
