//! The facade end to end on the CPU, and once on the simulator.

use luge::Pivoting;
use luge::ordering::{Matching, OrderingOptions};
use luge_testkit::convert::{to_scalar, turned};
use luge_testkit::generators::applications::random_unsymmetric;
use luge_testkit::strategies::{dominant_matrices, nonsingular_matrices};
use num_complex::Complex;
use proptest::prelude::*;

use crate::fields::{C, check_all_solves, factorize, on_cpu};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn f64_systems_solve(a in nonsingular_matrices(40)) {
        check_all_solves(&a, &factorize(&a, on_cpu()).unwrap());
    }

    #[test]
    fn f32_systems_solve(a in nonsingular_matrices(40)) {
        let a = to_scalar::<f32>(&a);
        check_all_solves(&a, &factorize(&a, on_cpu()).unwrap());
    }

    #[test]
    fn complex_f64_systems_solve(a in nonsingular_matrices(40)) {
        let a = turned::<C>(&a);
        check_all_solves(&a, &factorize(&a, on_cpu()).unwrap());
    }

    #[test]
    fn complex_f32_systems_solve(a in nonsingular_matrices(40)) {
        let a = turned::<Complex<f32>>(&a);
        check_all_solves(&a, &factorize(&a, on_cpu()).unwrap());
    }

    #[test]
    fn nothing_is_needed_but_pivots(a in dominant_matrices(40)) {
        let options = on_cpu().ordering(OrderingOptions::default().matching(Matching::Never).scaling(false).block_triangular(false)).pivoting(Pivoting::Static);
        let factors = factorize(&a, options).unwrap();
        prop_assert_eq!(factors.inform().num_perturbed, Some(0));
        check_all_solves(&a, &factors);
    }
}

#[test]
#[should_panic(expected = "the right-hand side has 4 entries; the matrix has order 5")]
fn a_right_hand_side_of_another_length_is_a_broken_call() {
    let a = random_unsymmetric(5, 2, 1);
    let _ = factorize(&a, on_cpu()).unwrap().solve(&[1.0; 4]);
}

#[cfg(feature = "simulator")]
#[test]
fn the_simulator_finds_the_structure_of_the_cpu_and_solves() {
    use luge::{BackendChoice, DeviceEngine, Options, Solver, SymbolicReport};
    use luge_testkit::generators::applications::circuit;

    let a = circuit(25, 6);
    let analyze = |backend| {
        let options = Options::default()
            .backend(backend)
            .device_engine(DeviceEngine::Columns)
            .pivoting(Pivoting::Static);
        Solver::new(options).unwrap().analyze(&a).unwrap()
    };
    let simulated = analyze(BackendChoice::Simulator { seed: 5 });
    check_all_solves(&a, &simulated.factorize(&a).unwrap());
    let (filled, levels) = simulated.structure().unwrap();
    let inform = simulated.inform();
    assert_eq!(inform.lnz as usize, filled.lnz());
    assert_eq!(inform.unz as usize, filled.unz());
    assert_eq!(inform.flops, filled.flops());
    let supernodes = luge_reference::supernode::supernodes_by_definition(&filled, 128);
    assert_eq!(inform.num_supernodes, Some(supernodes.len() - 1));
    assert_eq!(inform.spilled_bytes, Some(0));
    assert!(matches!(
        &inform.symbolic,
        Some(SymbolicReport::Panels(panels)) if panels.num_panels > 0 && panels.peak_bytes > 0
    ));
    assert_eq!(inform.num_levels, Some(levels.num_levels()));
    assert_eq!(inform.max_level_width, Some(levels.max_width()));
    let matched = Options::default()
        .backend(BackendChoice::Cpu)
        .ordering(OrderingOptions::default().matching(Matching::Always));
    let on_cpu = Solver::new(matched).unwrap().analyze(&a).unwrap();
    assert_eq!(on_cpu.structure().unwrap(), (filled, levels));
}
