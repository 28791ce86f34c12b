//! What the check of a corpus sees: wrong solutions, refusals that are not expected, and that nothing ran.

use luge::{BackendChoice, DeviceEngine, Options};
use luge_testkit::generators::applications::circuit;
use luge_tests::verify::{Depth, Phase, Plan, Record, Subject, Summary, Verdict, run};
use sprs::{CsMat, TriMat};

fn plan(backend: BackendChoice, device_engine: DeviceEngine) -> Plan {
    let options = Options::default()
        .backend(backend)
        .device_engine(device_engine);
    Plan::new(options, Depth::Every, backend != BackendChoice::Cpu)
}

fn on_cpu() -> Plan {
    plan(BackendChoice::Cpu, DeviceEngine::Auto)
}

fn small() -> Subject {
    Subject::of_matrix("circuit", circuit(70, 2))
}

fn singular() -> CsMat<f64> {
    let mut a = TriMat::new((3, 3));
    a.add_triplet(0, 0, 1.0);
    a.add_triplet(1, 0, 1.0);
    a.add_triplet(2, 2, 1.0);
    a.to_csr()
}

#[test]
fn every_phase_is_checked_on_every_path() {
    let simulator = BackendChoice::Simulator { seed: 3 };
    for plan in [
        on_cpu(),
        plan(simulator, DeviceEngine::Columns),
        plan(simulator, DeviceEngine::Tree),
    ] {
        let record = run(&small(), &plan);
        assert_eq!(record.verdict(), Verdict::Passed);
        let phases: Vec<Phase> = record.checks.iter().map(|check| check.phase).collect();
        let all = [
            Phase::Symbolic,
            Phase::Levels,
            Phase::Supernodes,
            Phase::Solve,
            Phase::SolveTransposed,
            Phase::SolveMany,
            Phase::Refactorize,
        ];
        assert_eq!(phases, all);
        assert!(record.worst_error().is_some_and(|error| error < 1e-12));
        let by_columns = plan.options.device_engine == DeviceEngine::Columns;
        assert_eq!(record.comparison.is_some(), by_columns);
    }
}

#[test]
fn a_wrong_solution_of_any_phase_fails() {
    type Touch = fn(Phase, &mut [f64]);
    let touches: [(Phase, Touch); 4] = [
        (Phase::Solve, |phase, x| damage(phase == Phase::Solve, x)),
        (Phase::SolveTransposed, |phase, x| {
            damage(phase == Phase::SolveTransposed, x);
        }),
        (Phase::SolveMany, |phase, x| {
            damage(phase == Phase::SolveMany, x)
        }),
        (Phase::Refactorize, |phase, x| {
            damage(phase == Phase::Refactorize, x);
        }),
    ];
    for (phase, touch) in touches {
        let record = run(&small(), &Plan { touch, ..on_cpu() });
        let Verdict::Failed { reason } = record.verdict() else {
            panic!("{phase} passed with a wrong solution");
        };
        assert!(
            reason.starts_with(&format!("{phase}: backward error")),
            "{reason}"
        );
        let summary = Summary::of([&record, &run(&small(), &on_cpu())]);
        assert_eq!((summary.passed, summary.failed), (1, 1));
        assert!(!summary.is_success());
    }
}

/// The last entry of the last solution is off by a millionth.
fn damage(is_due: bool, x: &mut [f64]) {
    if let (true, Some(last)) = (is_due, x.last_mut()) {
        *last *= 1.0 + 1e-6;
    }
}

#[test]
fn a_solution_that_is_not_a_number_fails() {
    let touch = |_, x: &mut [f64]| x.fill(f64::NAN);
    let record = run(&small(), &Plan { touch, ..on_cpu() });
    assert!(matches!(record.verdict(), Verdict::Failed { .. }));
}

#[test]
fn a_refusal_that_is_not_expected_fails() {
    let record = run(&Subject::of_matrix("singular", singular()), &on_cpu());
    let Verdict::Failed { reason } = record.verdict() else {
        panic!("{record:?}");
    };
    assert!(reason.contains("structural"), "{reason}");
}

#[test]
fn to_skip_everything_is_no_success() {
    let skipped = Record::skipped(&small(), "too large".to_owned());
    assert_eq!(
        skipped.verdict(),
        Verdict::Skipped {
            reason: "too large".to_owned()
        }
    );
    let summary = Summary::of([&skipped]);
    assert_eq!(summary.to_string(), "0 passed, 0 failed, 1 skipped");
    assert!(!summary.is_success());
    assert!(!Summary::of([]).is_success());
    let one_passed = run(&small(), &on_cpu());
    assert!(Summary::of([&one_passed, &skipped]).is_success());
}

#[test]
fn generated_families_solve() {
    for subject in Subject::of_families(300) {
        let record = run(&subject, &on_cpu());
        assert_eq!(record.verdict(), Verdict::Passed, "{}", subject.name);
    }
}
