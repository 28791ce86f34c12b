//! The symbolic benchmark on the simulator: what it saves it reads, and it sees what differs.

use clap::ValueEnum;
use luge_benches::symbolic::measure::{
    Effort, Mode, Walk, by_fill2, by_panels, on_cpu, supernodes,
};
use luge_benches::symbolic::patterns::{Source, save};
use luge_device::{Device, SimulatorOptions};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};

const EFFORT: Effort = Effort {
    samples: 1,
    repetitions: 1,
    long: 1e9,
};

#[test]
fn patterns_come_back_as_they_were_saved() {
    let folder = tempfile::tempdir().unwrap();
    let grid = pattern_of(&convection_diffusion_2d(7, 5, 1.0));
    let net = pattern_of(&circuit(60, 3));
    save(folder.path(), "net", &net).unwrap();
    save(folder.path(), "grid", &grid).unwrap();
    let saved = Source::of_saved(folder.path()).unwrap();
    let names: Vec<&str> = saved.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, ["grid", "net"]);
    assert_eq!(saved[0].pattern().unwrap(), Some(grid));
    assert_eq!(saved[1].pattern().unwrap(), Some(net));
}

#[test]
fn a_mode_has_one_name_everywhere() {
    let names = ["two", "fused", "auto", "coarse"];
    let modes = names.map(|name| Mode::from_str(name, false).unwrap());
    assert_eq!(modes, Mode::value_variants());
    assert_eq!(modes.map(|mode| mode.to_string()), names);
    let written = serde_json::to_value(modes).unwrap();
    assert_eq!(written, serde_json::json!(names));
}

#[test]
fn every_mode_is_compared_with_the_cpu() {
    let stream = Device::simulator(SimulatorOptions::default())
        .create_stream()
        .unwrap();
    let pattern = pattern_of(&circuit(40, 1));
    let (_, expected) = on_cpu(&pattern, 1).unwrap();
    let (_, other) = on_cpu(&pattern_of(&circuit(40, 2)), 1).unwrap();
    assert!(
        by_panels(&stream, &pattern, &expected, EFFORT)
            .unwrap()
            .equal
    );
    assert!(!by_panels(&stream, &pattern, &other, EFFORT).unwrap().equal);
    assert!(supernodes(&stream, &expected, EFFORT).unwrap().equal);
    for &mode in Mode::value_variants() {
        for budget_bytes in [Some(1 << 20), None] {
            let walk = Walk { mode, budget_bytes };
            let run = by_fill2(&stream, &pattern, &expected, walk, EFFORT)
                .unwrap()
                .expect("there is room");
            assert!(run.equal && run.smallest == budget_bytes.is_none());
            assert_eq!(run.edges_per_second > 0.0, mode != Mode::Coarse);
        }
    }
    let too_small = Walk {
        mode: Mode::Two,
        budget_bytes: Some(1),
    };
    let refused = by_fill2(&stream, &pattern, &expected, too_small, EFFORT).unwrap();
    assert!(refused.is_none());
}
