//! Many matrices of one pattern: each as if it were alone, on every backend.

use luge::ordering::{Matching, OrderingOptions};
use luge::{
    Accuracy, Analysis, BackendChoice, DeviceEngine, Error, FactorPrecision, Factors, Options,
    Pivoting, Refactorized, Scalar, Solver,
};
use luge_testkit::convert::{to_scalar, turned};
use luge_testkit::generators::adversaries::{needs_other_rows, tiny_diagonal};
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use sprs::CsMat;

use crate::fields::C;

fn backends() -> Vec<Options> {
    let simulator = |device_engine, precision| {
        Options::default()
            .backend(BackendChoice::Simulator { seed: 5 })
            .device_engine(device_engine)
            .precision(precision)
    };
    let simulators = |count, device_engine| {
        Options::default()
            .backend(BackendChoice::Simulators { seed: 5, count })
            .device_engine(device_engine)
    };
    let cpu = |threads| {
        Options::default()
            .backend(BackendChoice::Cpu)
            .threads(Some(threads))
    };
    vec![
        cpu(1),
        cpu(3),
        simulator(DeviceEngine::Tree, FactorPrecision::Matrix),
        simulator(DeviceEngine::Tree, FactorPrecision::Single),
        simulator(DeviceEngine::Columns, FactorPrecision::Matrix),
        simulators(3, DeviceEngine::Tree),
        // A plan that cannot be shared stays on the first one.
        simulators(2, DeviceEngine::Columns),
    ]
}

fn name(options: &Options) -> String {
    let Options {
        backend,
        device_engine,
        precision,
        threads,
        ..
    } = options;
    format!("{backend:?}, {device_engine:?}, {precision:?}, {threads:?}")
}

/// The matrix with its values changed by up to a tenth, another way for each `seed`.
fn sample<T: Scalar>(a: &CsMat<T>, seed: u64) -> CsMat<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut sample = a.clone();
    for v in sample.data_mut() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let unit = (state >> 40) as f64 / (1u64 << 24) as f64;
        *v = T::narrow(v.widen().scaled_by(0.9 + 0.2 * unit));
    }
    sample
}

fn values_of<T: Scalar>(systems: &[CsMat<T>]) -> Vec<T> {
    systems.iter().flat_map(|a| a.data().to_vec()).collect()
}

fn vectors<T: Scalar>(len: usize, seed: usize) -> Vec<T> {
    let part = |i: usize| ((i * 7 + seed * 3) % 11) as f64 - 4.5;
    let value = |i: usize| T::narrow(T::Wide::from_components(|at| part(i + 5 * at)));
    (0..len).map(value).collect()
}

fn bits<T: Scalar>(x: &[T]) -> Vec<u64> {
    let mut bits = Vec::new();
    for v in x {
        v.widen().map_components(|part| {
            bits.push(part.to_bits());
            part
        });
    }
    bits
}

/// What one system answers alone, and what it answered in the batch, are the same words.
fn same<R: std::fmt::Debug>(alone: &Result<R, Error>, batch: &Result<R, Error>, at: &str) {
    match (alone, batch) {
        (Ok(alone), Ok(batch)) => assert_eq!(format!("{alone:?}"), format!("{batch:?}"), "{at}"),
        (Err(alone), Err(Error::System { error, .. })) => {
            assert_eq!(format!("{alone:?}"), format!("{error:?}"), "{at}");
        }
        other => panic!("{at}: {other:?}"),
    }
}

/// Checks all solves of a batch against those of the factors of each system alone.
fn check_solves<T: Scalar>(
    batch: &luge::BatchFactors<T>,
    alone: &[Result<Factors<T>, Error>],
    n: usize,
    at: &str,
) {
    let nrhs = 2;
    let b = vectors::<T>(batch.len() * n * nrhs, 1);
    let solutions = batch.solve(&b, nrhs);
    assert_eq!(solutions.len(), batch.len());
    for (k, (solution, b)) in solutions
        .iter()
        .zip(b.chunks((n * nrhs).max(1)))
        .enumerate()
    {
        match &alone[k] {
            Ok(factors) => {
                let expected = factors.solve_many(b, nrhs).unwrap();
                let solution = solution.as_ref().unwrap();
                assert_eq!(bits(&solution.x), bits(&expected.x), "{at}, system {k}");
                let errors =
                    |inform: &luge::Inform| (inform.backward_error, inform.refinement_steps);
                assert_eq!(errors(&solution.inform), errors(&expected.inform));
            }
            Err(_) => assert!(
                matches!(solution, Err(Error::System { system, .. }) if *system == k),
                "{at}, system {k}"
            ),
        }
    }
    for transpose in [false, true] {
        let mut x = b.clone();
        let outcomes = batch.solve_in_place(&mut x, nrhs, transpose);
        for (k, outcome) in outcomes.iter().enumerate() {
            let range = k * n * nrhs..(k + 1) * n * nrhs;
            let mut expected = b[range.clone()].to_vec();
            let accuracy = match &alone[k] {
                Ok(factors) if transpose => factors.solve_transpose_in_place(&mut expected).ok(),
                Ok(factors) => factors.solve_in_place(&mut expected).ok(),
                Err(_) => None,
            };
            assert_eq!(outcome.as_ref().ok(), accuracy.as_ref(), "{at}, system {k}");
            assert_eq!(accuracy.is_some(), alone[k].is_ok(), "{at}, system {k}");
            assert_eq!(bits(&x[range]), bits(&expected), "{at}, system {k}");
        }
    }
}

fn check_batch<T: Scalar>(a: &CsMat<T>, options: Options, count: usize) {
    let at = name(&options);
    let analysis: Analysis<T> = Solver::new(options).unwrap().analyze(a).unwrap();
    let systems: Vec<_> = (0..count).map(|k| sample(a, k as u64)).collect();
    let mut batch = analysis
        .factorize_batch(&values_of(&systems), count)
        .unwrap();
    assert_eq!((batch.len(), batch.is_empty()), (count, count == 0));
    let mut alone: Vec<_> = systems.iter().map(|a| analysis.factorize(a)).collect();
    for (k, alone) in alone.iter().enumerate() {
        let of =
            |inform: &luge::Inform| (inform.growth, inform.backward_error, inform.num_perturbed);
        assert_eq!(
            of(batch.inform(k).unwrap()),
            of(alone.as_ref().unwrap().inform())
        );
    }
    check_solves(&batch, &alone, a.rows(), &at);

    let systems: Vec<_> = (0..count).map(|k| sample(a, 100 + k as u64)).collect();
    let outcomes = batch.refactorize(&values_of(&systems));
    assert_eq!(outcomes.len(), count);
    for ((outcome, alone), a) in outcomes.iter().zip(&mut alone).zip(&systems) {
        same(&alone.as_mut().unwrap().refactorize(a), outcome, &at);
    }
    check_solves(&batch, &alone, a.rows(), &at);
}

#[test]
fn systems_of_a_batch_have_the_bits_that_they_have_alone() {
    let grid = convection_diffusion_2d(6, 5, 3.0);
    let circuit = circuit(30, 2).to_csc();
    for options in backends() {
        // More systems than streams, one, and none.
        for count in [9, 1, 0] {
            check_batch(&grid, options.clone(), count);
        }
        check_batch(&circuit, options.clone(), 3);
        check_batch(&to_scalar::<f32>(&grid), options.clone(), 3);
        check_batch(&CsMat::<f64>::zero((0, 0)), options.clone(), 2);
        if options.backend == BackendChoice::Cpu {
            check_batch(&turned::<C>(&grid), options.clone(), 9);
            check_batch(&turned::<C>(&circuit), options, 3);
        }
    }
}

#[test]
fn what_fails_fails_alone() {
    let a = convection_diffusion_2d(7, 6, 3.0);
    let n = a.rows();
    for options in backends() {
        let at = name(&options);
        let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
        let mut systems: Vec<_> = (0..5).map(|k| sample(&a, k)).collect();
        let good = systems.clone();
        let (row, entry) = (2, a.indptr().outer_inds(2).start);
        systems[1].data_mut()[entry] = f64::NAN;
        systems[3] = a.map(|_| 0.0);
        let fails = |k: usize| k == 1 || k == 3;

        let mut batch = analysis.factorize_batch(&values_of(&systems), 5).unwrap();
        let alone: Vec<_> = systems.iter().map(|a| analysis.factorize(a)).collect();
        for (k, alone) in alone.iter().enumerate() {
            same(
                &alone.as_ref().map(|_| ()).map_err(copy_of),
                &batch.inform(k).map(|_| ()),
                &at,
            );
            assert_eq!(alone.is_err(), fails(k));
        }
        match batch.inform(1) {
            Err(Error::System { system: 1, error }) => {
                let column = a.indices()[entry];
                assert_eq!(
                    error.to_string(),
                    Error::NotFinite { row, column }.to_string()
                );
            }
            other => panic!("{at}: {other:?}"),
        }
        check_solves(&batch, &alone, n, &at);

        // All are good again, then the same two fail as new values of factors that were there.
        let outcomes = batch.refactorize(&values_of(&good));
        let mut alone: Vec<_> = good.iter().map(|a| analysis.factorize(a)).collect();
        for (k, outcome) in outcomes.iter().enumerate() {
            let outcome = outcome.as_ref().unwrap();
            let is_new = matches!(outcome, Refactorized::Repivoted { .. });
            assert_eq!(is_new, fails(k), "{at}: {outcome:?}");
        }
        // Those with new pivots have been factorized anew.
        for k in (0..5).filter(|&k| !fails(k)) {
            alone[k].as_mut().unwrap().refactorize(&good[k]).unwrap();
        }
        check_solves(&batch, &alone, n, &at);
        let outcomes = batch.refactorize(&values_of(&systems));
        for (k, outcome) in outcomes.iter().enumerate() {
            let factors = alone[k].as_mut().unwrap();
            same(&factors.refactorize(&systems[k]), outcome, &at);
            if let Err(error) = outcome {
                // No factors are better than those of other values.
                alone[k] = Err(copy_of(error));
            }
            assert_eq!(outcome.is_err(), fails(k));
        }
        check_solves(&batch, &alone, n, &at);
    }
}

/// An error that says the same, for the tests alone: errors are not cloned.
fn copy_of(error: &Error) -> Error {
    match *error {
        Error::NotFinite { row, column } => Error::NotFinite { row, column },
        Error::ZeroPivot { column } => Error::ZeroPivot { column },
        Error::ZerosOnly {
            rank,
            ref unmatched_rows,
            ref unmatched_columns,
        } => Error::ZerosOnly {
            rank,
            unmatched_rows: unmatched_rows.clone(),
            unmatched_columns: unmatched_columns.clone(),
        },
        Error::System { ref error, .. } => copy_of(error),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn one_system_gets_new_pivots_and_the_others_keep_theirs() {
    let (even, uneven) = (needs_other_rows(40, 4.0), needs_other_rows(40, 1e-17));
    for options in backends() {
        if options.precision == FactorPrecision::Single {
            continue;
        }
        let at = name(&options);
        let options = options.max_growth(100.0);
        let analysis = Solver::new(options).unwrap().analyze(&even).unwrap();
        let old = vec![even.clone(); 3];
        let new = [even.clone(), uneven.clone(), even.clone()];
        let mut batch = analysis.factorize_batch(&values_of(&old), 3).unwrap();
        let mut alone: Vec<_> = old.iter().map(|a| analysis.factorize(a)).collect();
        // The third time the pivots of the second have to serve values that did not need them.
        for systems in [&new[..], &old[..]] {
            let outcomes = batch.refactorize(&values_of(systems));
            for (k, outcome) in outcomes.iter().enumerate() {
                let factors = alone[k].as_mut().unwrap();
                same(&factors.refactorize(&systems[k]), outcome, &at);
                let is_kept = matches!(outcome, Ok(Refactorized::Reused { .. }));
                assert!(is_kept || k == 1, "{at}: {outcome:?}");
            }
            check_solves(&batch, &alone, 40, &at);
        }
    }
}

#[test]
fn replaced_pivots_are_counted_for_each_system() {
    let (good, bad) = (tiny_diagonal(40, 10.0, 3), tiny_diagonal(40, 1e-20, 3));
    let systems = [good.clone(), bad.clone(), good.clone(), bad];
    for options in backends() {
        let at = name(&options);
        let options = options
            .ordering(
                OrderingOptions::default()
                    .matching(Matching::Never)
                    .scaling(false)
                    .block_triangular(false),
            )
            .pivoting(Pivoting::Static);
        let analysis = Solver::new(options).unwrap().analyze(&good).unwrap();
        let batch = analysis.factorize_batch(&values_of(&systems), 4).unwrap();
        for (k, a) in systems.iter().enumerate() {
            let alone = analysis.factorize(a).unwrap();
            let (alone, inform) = (alone.inform(), batch.inform(k).unwrap());
            assert_eq!(inform.num_perturbed, alone.num_perturbed, "{at}");
            assert_eq!(inform.warnings, alone.warnings, "{at}");
            assert_eq!(inform.num_perturbed > Some(0), k % 2 == 1, "{at}");
        }
    }
}

#[test]
fn batches_on_the_device_stay_there() {
    let a = convection_diffusion_2d(7, 6, 3.0);
    let (n, nnz, count) = (a.rows(), a.nnz(), 10);
    for options in backends().into_iter().skip(2) {
        let at = name(&options);
        let is_tree = options.device_engine == DeviceEngine::Tree;
        let solver = Solver::new(options).unwrap();
        let stream = solver.stream().unwrap();
        let analysis = solver.analyze(&a).unwrap();
        let first: Vec<_> = (0..count).map(|k| sample(&a, k)).collect();
        let values = stream.upload(&values_of(&first)).unwrap();
        let mut batch = analysis
            .factorize_batch_on_device(&values, count as usize)
            .unwrap();
        let mut systems: Vec<_> = (0..count).map(|k| sample(&a, 50 + k)).collect();
        // One system has no factors afterwards.
        systems[4].data_mut()[nnz - 1] = f64::INFINITY;
        let values = stream.upload(&values_of(&systems)).unwrap();
        let mut b = vectors::<f64>(count as usize * n * 2, 2);
        // One system has a right-hand side that is not a number.
        b[7 * 2 * n + n + 3] = f64::NAN;
        for transpose in [false, true] {
            let mut x = stream.upload(&b).unwrap();
            let before = stream.device().transfers();
            let outcomes = batch.refactorize_on_device(&values).unwrap();
            let solved = batch.solve_on_device(&mut x, 2, transpose).unwrap();
            let moved = stream.device().transfers().to_host_bytes - before.to_host_bytes;
            if is_tree {
                // Reports, with the measures of a check; and the values of the one that failed, twice at most.
                let most = 2 * 8 * nnz as u64 + count * (400 + 1024);
                assert!(moved < most, "{at}: {moved} bytes");
            }
            let x = stream.download(&x).unwrap();
            for k in 0..count as usize {
                let range = 2 * n * k..2 * n * (k + 1);
                if k == 4 {
                    for refused in [
                        &outcomes[k].as_ref().map(|_| ()),
                        &solved[k].as_ref().map(|_| ()),
                    ] {
                        assert!(
                            matches!(refused, Err(Error::System { system: 4, .. })),
                            "{at}"
                        );
                    }
                    assert_eq!(bits(&x[range.clone()]), bits(&b[range]), "{at}");
                    continue;
                }
                let outcome = outcomes[k].as_ref().unwrap();
                assert!(
                    matches!(outcome, Refactorized::Reused { .. }),
                    "{outcome:?}"
                );
                let mut alone = analysis.factorize(&first[k]).unwrap();
                alone.refactorize(&systems[k]).unwrap();
                let mut expected = stream.upload(&b[range.clone()]).unwrap();
                let expected_outcome = alone.solve_on_device(&mut expected, 2, transpose);
                same(&expected_outcome, &as_owned(&solved[k]), &at);
                assert_eq!(solved[k].is_err(), k == 7, "{at}");
                let expected = stream.download(&expected).unwrap();
                for (x, expected) in x[range].iter().zip(&expected) {
                    assert!(x.to_bits() == expected.to_bits() || x.is_nan() && expected.is_nan());
                }
            }
        }
    }
}

#[test]
fn batches_refine_on_the_device() {
    let a = convection_diffusion_2d(7, 6, 3.0);
    let (n, count) = (a.rows(), 10);
    for options in backends().into_iter().skip(2) {
        let at = name(&options);
        let solver = Solver::new(options).unwrap();
        let stream = solver.stream().unwrap();
        let analysis = solver.analyze(&a).unwrap();
        let mut systems: Vec<_> = (0..count).map(|k| sample(&a, k)).collect();
        // One system has no factors.
        systems[4].data_mut()[3] = f64::INFINITY;
        let batch = analysis
            .factorize_batch(&values_of(&systems), systems.len())
            .unwrap();
        let b = vectors::<f64>(systems.len() * n * 2, 2);
        let there = stream.upload(&b).unwrap();
        for transpose in [false, true] {
            let mut x = stream.alloc_zeroed(b.len()).unwrap();
            let solved = batch
                .solve_refined_on_device(&there, &mut x, 2, transpose)
                .unwrap();
            assert_eq!(bits(&stream.download(&there).unwrap()), bits(&b), "{at}");
            let x = stream.download(&x).unwrap();
            for (k, inform) in solved.iter().enumerate() {
                let range = 2 * n * k..2 * n * (k + 1);
                if k == 4 {
                    assert!(
                        matches!(inform, Err(Error::System { system: 4, .. })),
                        "{at}"
                    );
                    continue;
                }
                let alone = analysis.factorize(&systems[k]).unwrap();
                let b = stream.upload(&b[range.clone()]).unwrap();
                let mut expected = stream.alloc_zeroed(2 * n).unwrap();
                let report = alone
                    .solve_refined_on_device(&b, &mut expected, 2, transpose)
                    .unwrap();
                let expected = stream.download(&expected).unwrap();
                assert_eq!(bits(&x[range]), bits(&expected), "{at}");
                let inform = inform.as_ref().unwrap();
                assert_eq!(inform.backward_error, report.backward_error, "{at}");
                assert_eq!(inform.refinement_steps, report.refinement_steps, "{at}");
            }
        }
    }
}

fn as_owned(outcome: &Result<Accuracy, Error>) -> Result<Accuracy, Error> {
    match outcome {
        Ok(accuracy) => Ok(*accuracy),
        Err(Error::System { system, error }) => Err(Error::System {
            system: *system,
            error: error.clone(),
        }),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn batches_that_do_not_fit_say_how_many_would() {
    let a = convection_diffusion_2d(12, 12, 1.0);
    for options in backends() {
        let is_double = options.precision == FactorPrecision::Matrix;
        if options.device_engine == DeviceEngine::Columns || !is_double {
            continue;
        }
        let at = name(&options);
        let num_devices = match options.backend {
            BackendChoice::Simulators { count, .. } => count as u64,
            _ => 1,
        };
        // What the solver takes on the host for itself.
        const OF_SOLVER: u64 = 512 << 10;
        let on_host = options.backend == BackendChoice::Cpu;
        let limited = |bytes: u64| {
            options
                .clone()
                // The host has the values of all of them.
                .max_host_bytes(Some((bytes + OF_SOLVER) * num_devices))
                .max_device_bytes(Some(bytes))
        };
        let inform = {
            let solver = Solver::new(limited(1 << 30)).unwrap();
            solver.analyze(&a).unwrap().inform().clone()
        };
        let predicted = inform
            .predicted_device_bytes
            .or(inform.predicted_host_bytes)
            .unwrap();
        // Four systems, of which those on a device cost the simulator's time.
        let limit = 4 * predicted;
        let solver = Solver::new(limited(limit)).unwrap();
        let analysis = solver.analyze(&a).unwrap();
        let held = solver.stream().map(|s| s.device().allocated_bytes());
        let batch_of = |count: usize| {
            let systems: Vec<_> = (0..count).map(|k| sample(&a, k as u64)).collect();
            analysis.factorize_batch(&values_of(&systems), count)
        };
        let fits = match batch_of(100) {
            Err(Error::BatchOutOfMemory {
                systems: 100,
                fitting,
                asked,
                available,
            }) => {
                let limit = limit + if on_host { OF_SOLVER } else { 0 };
                assert!(
                    asked > available && available <= limit * num_devices,
                    "{at}"
                );
                fitting
            }
            other => panic!("{at}: {other:?}"),
        };
        assert!(
            (3..50 * num_devices as usize).contains(&fits),
            "{at}: {fits}"
        );
        assert!(matches!(
            batch_of(fits + 1),
            Err(Error::BatchOutOfMemory { systems, fitting, .. })
                if (systems, fitting) == (fits + 1, fits)
        ));
        // Nothing was begun.
        let now = solver.stream().map(|s| s.device().allocated_bytes());
        assert_eq!(now, held, "{at}");
        let batch = batch_of(fits).unwrap();
        for k in 0..fits {
            batch.inform(k).unwrap_or_else(|e| panic!("{at}: {e}"));
        }
    }
}

#[test]
#[should_panic(expected = "each of the 3 matrices has")]
fn values_of_another_number_are_a_broken_call() {
    let a = circuit(10, 1);
    let options = backends().swap_remove(0);
    let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
    let _ = analysis.factorize_batch(&values_of(&[a.clone(), a]), 3);
}

#[test]
#[should_panic(expected = "factors on the CPU take no values on a device")]
fn batches_on_the_cpu_take_no_values_on_a_device() {
    let a = circuit(10, 1);
    let mut options = backends();
    let elsewhere = Solver::new(options.swap_remove(2)).unwrap();
    let values = elsewhere.stream().unwrap().upload(a.data()).unwrap();
    let analysis = Solver::new(options.swap_remove(0))
        .unwrap()
        .analyze(&a)
        .unwrap();
    let mut batch = analysis.factorize_batch(a.data(), 1).unwrap();
    let _ = batch.refactorize_on_device(&values);
}
