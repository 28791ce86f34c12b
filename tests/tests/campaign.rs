//! Hostile systems: what the solver says of its answers, its refusals and its factors is held against exact measures. See
//! `luge_benches::campaign`, and `cargo xtask campaign` for other seeds, more steps, and a GPU.

use luge_benches::campaign::{Backend, Settings, run};

/// Runs the campaign and fails with the table of what does not hold.
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
    assert!(
        tally.classes.is_empty(),
        "{backend:?}, seed {seed}: {tally}"
    );
}

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
