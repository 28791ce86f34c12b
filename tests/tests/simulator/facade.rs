//! The facade with data that stays on the device, on every device: refactorizations with their checks, refinement, and
//! batches on several streams.

use luge::{
    BackendChoice, DeviceEngine, Error, FactorPrecision, Options, Refactorized, ResidualCheck,
    Solver,
};
use luge_device::Backend;
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use luge_testkit::residual::{assert_backward_error, known_solution};
use sprs::CsMat;

use crate::chain::noise;

/// One for each device.
pub fn choices() -> Vec<BackendChoice> {
    // Leaves a line in the log of the tests that used a device.
    let count = luge_tests::devices().len();
    match luge_tests::backend() {
        Backend::Cuda => vec![BackendChoice::Gpu { ordinal: 0 }],
        Backend::Simulator => (0..count)
            .map(|k| BackendChoice::Simulator {
                seed: luge_tests::SEEDS[k],
            })
            .collect(),
    }
}

pub fn is_gpu() -> bool {
    luge_tests::backend() == Backend::Cuda
}

/// What the simulator can do in a second, and more than that for a GPU.
/// Factors in single precision are wanted of all of them, so none is singular to that.
fn matrices() -> Vec<CsMat<f64>> {
    if is_gpu() {
        vec![
            convection_diffusion_2d(70, 60, 3.0),
            circuit(400, 3),
            convection_diffusion_2d(9, 8, 3.0),
        ]
    } else {
        vec![convection_diffusion_2d(9, 8, 3.0), circuit(40, 3)]
    }
}

/// The matrix with its values changed by up to a tenth, another way for each `seed`.
fn sample(a: &CsMat<f64>, seed: u64) -> CsMat<f64> {
    let mut sample = a.clone();
    for (p, v) in sample.data_mut().iter_mut().enumerate() {
        *v *= 0.9 + 0.2 * (noise(seed, p) >> 11) as f64 / (1u64 << 53) as f64;
    }
    sample
}

/// On a GPU the time is that of the driver's compiler; the simulator has none.
#[test]
fn a_solver_loads_its_kernels_when_it_is_made() {
    // Which kernels there are has nothing to do with schedules.
    let backend = choices()[0];
    for device_engine in [DeviceEngine::Tree, DeviceEngine::Columns] {
        for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
            let solver = Solver::new(
                Options::default()
                    .backend(backend)
                    .device_engine(device_engine)
                    .precision(precision)
                    // Checks load theirs at the first.
                    .residual_check(ResidualCheck::Never),
            )
            .unwrap();
            let device = solver.stream().unwrap().device();
            let modules = device.loaded_modules();
            assert_eq!(device.module_load_seconds() > 0.0, is_gpu());
            let mut is_estimated = false;
            for a in matrices() {
                let mut factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
                let (b, _) = known_solution(&a);
                factors.solve(&b).unwrap();
                is_estimated |= factors.inform().rcond.is_some();
                factors.refactorize(&sample(&a, 1)).unwrap();
            }
            // An estimate of the condition solves with the transpose, which few matrices need.
            assert!(
                is_estimated || device.loaded_modules() == modules,
                "{device_engine:?}, {precision:?}: a list of kernels lacks one of\n{:?}\nafter\n{modules:?}",
                device.loaded_modules()
            );
        }
    }
}

fn bits(x: &[f64]) -> Vec<u64> {
    x.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn refactorizations_and_solves_stay_on_the_device() {
    for (number, backend) in choices().into_iter().enumerate() {
        for precision in [FactorPrecision::Matrix, FactorPrecision::Single] {
            // Further schedules for one matrix.
            for a in matrices().into_iter().skip(number.min(1)) {
                let options = Options::default()
                    .backend(backend)
                    .precision(precision)
                    .device_engine(DeviceEngine::Tree);
                let solver = Solver::new(options).unwrap();
                let stream = solver.stream().unwrap();
                let mut factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
                let n = a.rows();
                for seed in 0..3 {
                    let a = sample(&a, seed);
                    let values = stream.upload(a.data()).unwrap();
                    let outcome = factors.refactorize_on_device(&values).unwrap();
                    let (Refactorized::Reused {
                        backward_error,
                        growth,
                    }
                    | Refactorized::Repivoted {
                        backward_error,
                        growth,
                        ..
                    }) = outcome;
                    // Of factors in `f32` that grew, refinement of one right-hand side tells nothing of others.
                    let is_small = match backward_error {
                        Some(error) => error > 0.0 && error <= 1e-12,
                        None => precision == FactorPrecision::Single && growth > 100.0,
                    };
                    assert!(is_small, "{precision:?}: {outcome:?}");
                    let (b, _) = known_solution(&a);
                    let two = [b.clone(), b.iter().map(|v| 3.0 * v).collect()].concat();
                    let there = stream.upload(&two).unwrap();
                    let mut x = stream.alloc(2 * n).unwrap();
                    let inform = factors
                        .solve_refined_on_device(&there, &mut x, 2, false)
                        .unwrap();
                    assert!(inform.backward_error.unwrap() <= 1e-12);
                    let x = stream.download(&x).unwrap();
                    for (x, b) in x.chunks(n).zip(two.chunks(n)) {
                        assert_backward_error(&a, x, b);
                    }
                    let solution = factors.solve_many(&two, 2).unwrap();
                    assert_eq!(bits(&solution.x), bits(&x));
                    let mut bad = two.clone();
                    bad[n + n / 2] = f64::NAN;
                    let mut bad = stream.upload(&bad).unwrap();
                    let refused = factors.solve_on_device(&mut bad, 2, false);
                    assert!(matches!(
                        refused,
                        Err(Error::SolutionNotFinite { .. } | Error::RightHandSideNotFinite { .. })
                    ));
                }
            }
        }
    }
}

#[test]
fn every_residual_check_gives_the_same_factors() {
    for backend in choices() {
        for a in matrices() {
            let solved = [
                ResidualCheck::Always,
                ResidualCheck::WhereInDoubt,
                ResidualCheck::Never,
            ]
            .map(|residual_check| {
                let options = Options::default()
                    .backend(backend)
                    .residual_check(residual_check)
                    .device_engine(DeviceEngine::Tree);
                let solver = Solver::new(options).unwrap();
                let stream = solver.stream().unwrap();
                let mut factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
                let a = sample(&a, 7);
                let values = stream.upload(a.data()).unwrap();
                factors.refactorize_on_device(&values).unwrap();
                let mut x = stream.upload(&known_solution(&a).0).unwrap();
                factors.solve_on_device(&mut x, 1, false).unwrap();
                bits(&stream.download(&x).unwrap())
            });
            assert!(solved[0] == solved[1] && solved[1] == solved[2]);
        }
    }
}

#[test]
fn batches_on_several_streams_have_the_bits_of_their_systems() {
    let count = if is_gpu() { 40 } else { 9 };
    for (number, backend) in choices().into_iter().enumerate() {
        // Further schedules for one matrix.
        for a in matrices().into_iter().skip(number.min(1)) {
            let options = Options::default()
                .backend(backend)
                .device_engine(DeviceEngine::Tree);
            let solver = Solver::new(options).unwrap();
            let stream = solver.stream().unwrap();
            let analysis = solver.analyze(&a).unwrap();
            let n = a.rows();
            let systems = |from: usize| -> Vec<CsMat<f64>> {
                (from..from + count).map(|k| sample(&a, k as u64)).collect()
            };
            let values_of = |systems: &[CsMat<f64>]| -> Vec<f64> {
                systems.iter().flat_map(|a| a.data().to_vec()).collect()
            };
            let mut first = systems(0);
            first[2] = a.map(|_| 0.0);
            let mut batch = analysis.factorize_batch(&values_of(&first), count).unwrap();
            assert!(matches!(
                batch.inform(2),
                Err(Error::System { system: 2, .. })
            ));
            let mut alone: Vec<_> = first.iter().map(|a| analysis.factorize(a).ok()).collect();
            let rounds = if number == 0 { 3 } else { 1 };
            for round in 1..=rounds {
                let mut next = systems(round * count);
                next[round].data_mut()[0] = f64::NAN;
                let values = stream.upload(&values_of(&next)).unwrap();
                let outcomes = batch.refactorize_on_device(&values).unwrap();
                let b: Vec<f64> = next.iter().flat_map(|_| known_solution(&a).0).collect();
                let mut x = stream.upload(&b).unwrap();
                let solved = batch.solve_on_device(&mut x, 1, round == 2).unwrap();
                let x = stream.download(&x).unwrap();
                for k in 0..count {
                    assert_eq!(outcomes[k].is_err(), k == round, "{:?}", outcomes[k]);
                    assert_eq!(solved[k].is_err(), k == round);
                    if k == round {
                        alone[k] = None;
                        continue;
                    }
                    match &mut alone[k] {
                        Some(factors) => {
                            factors.refactorize(&next[k]).unwrap();
                        }
                        None => alone[k] = Some(analysis.factorize(&next[k]).unwrap()),
                    }
                    let factors = alone[k].as_ref().unwrap();
                    let mut expected = b[k * n..(k + 1) * n].to_vec();
                    if round == 2 {
                        factors.solve_transpose_in_place(&mut expected).unwrap();
                    } else {
                        factors.solve_in_place(&mut expected).unwrap();
                    }
                    assert_eq!(bits(&x[k * n..(k + 1) * n]), bits(&expected), "system {k}");
                }
                // With refinement, from the host.
                for (k, solution) in batch.solve(&b, 1).into_iter().enumerate() {
                    if k != round {
                        assert_backward_error(
                            &next[k],
                            &solution.unwrap().x,
                            &b[k * n..(k + 1) * n],
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn single_precision_matrices_refine_on_the_device() {
    for backend in choices() {
        for a in matrices() {
            let a = luge_testkit::convert::to_scalar::<f32>(&a);
            let options = Options::default()
                .backend(backend)
                .device_engine(DeviceEngine::Tree);
            let solver = Solver::new(options).unwrap();
            let factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
            let (b, _) = known_solution(&a);
            let solution = factors.solve(&b).unwrap();
            assert_backward_error(&a, &solution.x, &b);
            assert!(solution.inform.backward_error.unwrap() <= f64::from(f32::EPSILON));
        }
    }
}
