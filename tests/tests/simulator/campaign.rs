//! Hostile systems: what the solver says of its answers, its refusals and its factors is held against exact measures. See
//! `luge_benches::campaign`, and `cargo xtask campaign` for other seeds, more steps, and a GPU.

use luge_benches::campaign::{Backend, Settings, run, run_step};

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
    hold(Settings::new(Backend::Cpu, 1, 2000));
}

#[test]
fn every_statement_holds_for_symmetric_matrices() {
    hold(Settings {
        symmetric: true,
        ..Settings::new(Backend::Cpu, 1, 1000)
    });
}

#[test]
fn every_statement_holds_on_the_simulator() {
    hold(Settings {
        max_n: 16,
        ..Settings::new(Backend::Simulator, 1, SIMULATED)
    });
    hold(Settings {
        max_n: 16,
        symmetric: true,
        ..Settings::new(Backend::Simulator, 1, SIMULATED / 2)
    });
}

/// Steps of a hundred thousand in which something once did not hold, and that is easily broken again: underflow of factors in
/// `f32`, or of scaled numbers, under a bound that knows of rounding alone; a probe that refinement makes good by luck; singular
/// matrices without a warning; a correction that was undone though the norm wanted it; values refused that an analysis of their
/// own takes, or whose rows and columns only averages tell how to scale; one right-hand side that replaced pivots do not hurt.
const ONCE_FAILED: [u64; 14] = [
    0x02d7_3dd7_001d_838c,
    0xb008_8094_c7bf_cfef,
    0xc03a_b143_29da_fe72,
    0x31a1_b7fd_6395_cfc1,
    0x74f6_dc01_e7f1_3a7b,
    0x428b_970f_a43a_2672,
    0x5d1b_6ada_3767_00ed,
    0x3f7b_076a_b80a_c625,
    0xc985_bf48_3dcb_8e78,
    0xd86c_8fa3_cd6b_419f,
    0xafa9_d996_1de4_a5be,
    0x6341_5cad_1508_8a4c,
    0x4ac5_722a_a0fd_3af4,
    0x4ff9_c1bb_4a2d_e95d,
];

/// Of symmetric matrices: a pivot of order 2 whose inverse overflows; factors in `f32` whose entries underflow; values
/// refused that averages tell how to scale; solutions that `f32` holds once they are refined.
const ONCE_FAILED_SYMMETRIC: [u64; 7] = [
    0xd95b_282b_fc86_9c63,
    0xa268_889c_3515_4493,
    0x2ad9_4bec_a3d6_d1ce,
    0x6170_6c08_d386_232c,
    0x2622_fe83_911f_25f2,
    0x7898_286a_41d0_18b5,
    0x3d4f_835b_48c3_7f46,
];

/// Of symmetric matrices on a device: factors that were restored with other pivots after a refused refactorization.
const ONCE_FAILED_ON_A_DEVICE: [u64; 1] = [0x595a_db1a_0f68_0a48];

/// Of general matrices on a device: refactorizations that were probed beside a check, whose product a report of factors lacked.
const ONCE_FAILED_BESIDE_CHECKS: [u64; 2] = [0x08be_7918_a6c4_44b0, 0x6e4c_7683_4d90_975e];

#[test]
fn what_once_failed_holds() {
    let general = ONCE_FAILED.map(|seed| (seed, false, Backend::Cpu));
    let symmetric = ONCE_FAILED_SYMMETRIC.map(|seed| (seed, true, Backend::Cpu));
    let on_a_device = ONCE_FAILED_ON_A_DEVICE.map(|seed| (seed, true, Backend::Simulator));
    let beside_checks = ONCE_FAILED_BESIDE_CHECKS.map(|seed| (seed, false, Backend::Simulator));
    let on_devices = on_a_device.into_iter().chain(beside_checks);
    let steps = general.into_iter().chain(symmetric).chain(on_devices);
    for (seed, symmetric, backend) in steps {
        let settings = Settings {
            symmetric,
            ..Settings::new(backend, 0, 0)
        };
        let outcome = run_step(seed, &settings, &mut Default::default(), true);
        let text = outcome.transcript.join("\n");
        assert!(
            outcome.failures.is_empty(),
            "{seed:#018x}: {:?}\n{text}",
            outcome.failures
        );
    }
}

/// Steps on the simulator, which takes a tenth of a second for one.
const SIMULATED: u64 = 60;

#[test]
#[ignore = "takes minutes: `cargo test -p luge-tests --release --test simulator campaign:: -- --ignored`"]
fn every_statement_holds_on_the_cpu_a_hundred_thousand_times() {
    hold(Settings {
        jobs: jobs(),
        ..Settings::new(Backend::Cpu, 3, 100_000)
    });
}

#[test]
#[ignore = "takes minutes: `cargo test -p luge-tests --release --test simulator campaign:: -- --ignored`"]
fn every_statement_holds_on_the_simulator_a_thousand_times() {
    hold(Settings {
        jobs: jobs(),
        ..Settings::new(Backend::Simulator, 3, 1000)
    });
}
