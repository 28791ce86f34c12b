//! Hostile systems: what the solver says of its answers, its refusals and its factors is held against exact measures. See
//! `luge_benches::campaign`, and `cargo xtask campaign` for other seeds, more steps, and a GPU.

use luge_benches::campaign::{Backend, Settings, run};

/// Runs the campaign and fails with the table of what does not hold, but for what is known.
#[track_caller]
fn hold(settings: Settings) {
    let Settings {
        backend,
        seed,
        steps,
        ..
    } = settings;
    println!("{steps} steps on {backend:?}, seed {seed}");
    let stuck = |seed: u64| eprintln!("the step of seed {seed:#018x} takes long");
    let tally = run(&settings, &|_| {}, &stuck);
    println!("{tally}");
    assert!(tally.passed > 0 && tally.skipped == 0, "{tally}");
    let known = |class: &str| KNOWN.iter().any(|part| class.contains(part));
    let new: Vec<&String> = tally.classes.keys().filter(|c| !known(c)).collect();
    let count: u64 = tally.classes.values().map(|class| class.count).sum();
    println!("{count} known faults, {} new ones", new.len());
    assert!(new.is_empty(), "{backend:?}, seed {seed}: {new:?}");
    assert!(
        count as f64 <= 3.0 + KNOWN_SHARE * steps as f64,
        "{backend:?}, seed {seed}: {tally}"
    );
}

/// What does not always hold yet: solvable systems of numbers near the ends of the range are refused, and what a
/// refactorization states of its probe is too little for other right-hand sides.
const KNOWN: [&str; 5] = [
    "SolutionNotFinite of a good matrix",
    "SingularToRounding of a good matrix",
    "Overflow of a good matrix",
    "reused: false error",
    "repivoted: false error",
];

/// Most of them in a step, on average, beside three in all.
const KNOWN_SHARE: f64 = 0.02;

/// As many steps at a time as there are processors.
fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn every_statement_holds_on_the_cpu() {
    for seed in [1, 2] {
        hold(Settings::new(Backend::Cpu, seed, 2000));
    }
}

#[test]
fn every_statement_holds_on_the_simulator() {
    hold(Settings {
        max_n: 16,
        ..Settings::new(Backend::Simulator, 1, SIMULATED)
    });
}

/// Steps on the simulator, which takes a tenth of a second for one.
const SIMULATED: u64 = 60;

#[test]
#[ignore = "takes minutes: `cargo test -p luge-tests --release --test campaign -- --ignored`"]
fn every_statement_holds_on_the_cpu_a_hundred_thousand_times() {
    hold(Settings {
        jobs: jobs(),
        ..Settings::new(Backend::Cpu, 3, 100_000)
    });
}

#[test]
#[ignore = "takes minutes: `cargo test -p luge-tests --release --test campaign -- --ignored`"]
fn every_statement_holds_on_the_simulator_a_thousand_times() {
    hold(Settings {
        jobs: jobs(),
        ..Settings::new(Backend::Simulator, 3, 1000)
    });
}
