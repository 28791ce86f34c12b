//! What a caller may get wrong: options out of their range, matrices stored in an unusual way, lengths that do not go
//! together, numbers that are not finite. Each is refused by name, or works.

use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, Mutex};

use luge::ordering::{Costs, Method, OrderingOptions};
use luge::{
    BackendChoice, ColPerm, DeviceEngine, Error, Factors, Options, Pivoting, RowPerm, Solver,
};
use luge_testkit::generators::applications::{
    circuit, convection_diffusion_2d, random_unsymmetric,
};
use sprs::{CsMat, TriMat};

fn on_cpu() -> Options {
    Options::default().backend(BackendChoice::Cpu)
}

fn on_simulator(device_engine: DeviceEngine) -> Options {
    Options::default()
        .backend(BackendChoice::Simulator { seed: 7 })
        .device_engine(device_engine)
}

fn everywhere() -> [Options; 3] {
    [
        on_cpu(),
        on_simulator(DeviceEngine::Tree),
        on_simulator(DeviceEngine::Columns),
    ]
}

fn factorize(a: &CsMat<f64>, options: &Options) -> Factors<f64> {
    let solver = Solver::new(options.clone()).unwrap();
    solver.analyze(a).unwrap().factorize(a).unwrap()
}

/// `a` with other rows before and after it (other columns, if it is stored by columns).
fn within_a_longer_matrix(a: &CsMat<f64>) -> CsMat<f64> {
    let n = a.rows();
    let mut longer = if a.is_csr() {
        TriMat::new((n + 5, n))
    } else {
        TriMat::new((n, n + 5))
    };
    let mut add = |outer: usize, inner: usize, value: f64| {
        if a.is_csr() {
            longer.add_triplet(outer, inner, value);
        } else {
            longer.add_triplet(inner, outer, value);
        }
    };
    for outer in [0, 1, 2, n + 3, n + 4] {
        for inner in 0..n.min(outer + 2) {
            add(outer, inner, 0.5);
        }
    }
    for (outer, row) in a.outer_iterator().enumerate() {
        for (inner, &value) in row.iter() {
            add(outer + 3, inner, value);
        }
    }
    if a.is_csr() {
        longer.to_csr()
    } else {
        longer.to_csc()
    }
}

#[test]
fn a_matrix_cut_out_of_another_one_is_as_good_as_any() {
    let by_rows = random_unsymmetric(60, 4, 8);
    let other_values = by_rows.map(|v| 1.5 * v + 0.25 * v.abs());
    let b: Vec<f64> = (0..60).map(|i| 1.0 + f64::from(i % 7)).collect();
    for options in everywhere() {
        for (a, other) in [
            (by_rows.clone(), other_values.clone()),
            (by_rows.to_csc(), other_values.to_csc()),
        ] {
            let longer = within_a_longer_matrix(&a);
            let part = longer.slice_outer(3..63).to_owned();
            let other_part = within_a_longer_matrix(&other).slice_outer(3..63).to_owned();
            assert_ne!(part.indptr().raw_storage()[0], 0, "as sprs cuts it out");
            assert_eq!(part.data(), a.data());

            let mut expected = factorize(&a, &options);
            let mut factors = factorize(&part, &options);
            let solution = |factors: &Factors<f64>| factors.solve(&b).unwrap().x;
            assert_eq!(solution(&factors), solution(&expected));
            assert_eq!(
                factors.refactorize(&other_part).unwrap(),
                expected.refactorize(&other).unwrap()
            );
            assert_eq!(solution(&factors), solution(&expected));
            // The same pattern, whichever of both was analyzed, and whichever way the other one is stored.
            factors.refactorize(&a).unwrap();
            expected.refactorize(&part).unwrap();
            assert_eq!(solution(&factors), solution(&expected));
            let other_way =
                within_a_longer_matrix(&if a.is_csr() { a.to_csc() } else { a.to_csr() })
                    .slice_outer(3..63)
                    .to_owned();
            factors.refactorize(&other_way).unwrap();
            assert_eq!(solution(&factors), solution(&expected));

            // Another part has another pattern, and other rows.
            let shifted = longer.slice_outer(2..62).to_owned();
            let refused = factors.refactorize(&shifted);
            let Err(Error::ExtraEntry { row, column }) = refused else {
                panic!("{refused:?}")
            };
            assert!(shifted.get(row, column).is_some() && a.get(row, column).is_none());
        }
    }
}

#[test]
fn a_matrix_of_another_size_is_told_from_one_that_is_not_square() {
    let solver = Solver::new(on_cpu()).unwrap();
    let analysis = solver.analyze(&circuit(10, 1)).unwrap();
    let n = analysis.inform().n;
    let refused = analysis.factorize(&CsMat::eye(n + 1)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "the matrix is {0} by {0}; the matrix that was analyzed has order {n}",
            n + 1
        )
    );
    let refused = solver.analyze(&CsMat::<f64>::zero((2, 3))).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the matrix is 2 by 3, and only square systems are solved"
    );
}

/// Each option out of its range, with the field that is to be named.
fn out_of_range() -> Vec<(&'static str, Options)> {
    let mut cases = Vec::new();
    let mut add = |field, set: &dyn Fn(&mut Options)| {
        let mut options = on_cpu();
        set(&mut options);
        cases.push((field, options));
    };
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    for threshold in [nan, 2.0, 1.0 + f64::EPSILON, -1.0, inf, -inf] {
        add("pivoting.threshold", &|o| {
            o.pivoting = Pivoting::Threshold { threshold };
        });
    }
    for threads in [0, Options::MAX_THREADS + 1, 100_000, usize::MAX] {
        add("threads", &|o| o.threads = Some(threads));
    }
    for value in [nan, -1e-300, -inf, inf, 1.5] {
        add("perturbation", &|o| o.perturbation = Some(value));
    }
    for value in [nan, 0.0, -0.0, -1e-12, inf, -inf, 1.5] {
        add("target_backward_error", &|o| {
            o.target_backward_error = Some(value);
        });
    }
    for value in [nan, -1.0, -inf] {
        add("max_growth", &|o| o.max_growth = value);
    }
    for value in [nan, 0.0, -1.0, -inf] {
        add("factorizations", &|o| o.factorizations = Some(value));
        add("ordering.costs.factorizations", &|o| {
            o.ordering.costs.factorizations = value;
        });
    }
    for value in [nan, -0.1, 1.1, -inf] {
        add("ordering.diagonal_threshold", &|o| {
            o.ordering.diagonal_threshold = value;
        });
    }
    for value in [nan, -1e-9, inf, -inf] {
        type Cost = (&'static str, fn(&mut Costs) -> &mut f64);
        let costs: [Cost; 8] = [
            ("ordering.costs.column_flop", |c| &mut c.column_flop),
            ("ordering.costs.column_entry", |c| &mut c.column_entry),
            ("ordering.costs.front_flop", |c| &mut c.front_flop),
            ("ordering.costs.front_overhead", |c| &mut c.front_overhead),
            ("ordering.costs.front_entry", |c| &mut c.front_entry),
            ("ordering.costs.front", |c| &mut c.front),
            ("ordering.costs.dissection_entry", |c| {
                &mut c.dissection_entry
            }),
            ("ordering.costs.minimum_degree_entry", |c| {
                &mut c.minimum_degree_entry
            }),
        ];
        for (field, of) in costs {
            add(field, &|o| *of(&mut o.ordering.costs) = value);
        }
    }
    add("backend", &|o| {
        o.backend = BackendChoice::Simulators { seed: 1, count: 0 };
    });
    add("ordering.method", &|o| {
        o.ordering.method = Method::User {
            rows: RowPerm::identity(3),
            cols: ColPerm::identity(4),
        };
    });
    cases
}

#[test]
fn an_option_out_of_its_range_is_named_when_the_solver_is_made() {
    for (expected, options) in out_of_range() {
        match Solver::new(options) {
            Err(
                ref error @ Error::InvalidOption {
                    field,
                    ref value,
                    range,
                },
            ) => {
                assert_eq!(field, expected, "{error}");
                assert_eq!(
                    error.to_string(),
                    format!("the option {field} is {value}; it must be {range}")
                );
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
    let threads = on_cpu().threads(Some(0));
    assert_eq!(
        Solver::new(threads).unwrap_err().to_string(),
        format!(
            "the option threads is 0; it must be from 1 to {}",
            Options::MAX_THREADS
        )
    );
}

#[test]
fn an_option_at_the_end_of_its_range_solves() {
    let mut cases = Vec::new();
    for threshold in [0.0, -0.0, f64::MIN_POSITIVE, 1.0] {
        cases.push(on_cpu().pivoting(Pivoting::Threshold { threshold }));
    }
    for perturbation in [0.0, 1e-300, 1e-12] {
        cases.push(
            on_cpu()
                .perturbation(Some(perturbation))
                .pivoting(Pivoting::Static),
        );
    }
    for target in [f64::MIN_POSITIVE, 1.0] {
        cases.push(on_cpu().target_backward_error(Some(target)));
    }
    for max_growth in [0.0, 1.0, f64::INFINITY] {
        cases.push(on_cpu().max_growth(max_growth));
    }
    for factorizations in [f64::MIN_POSITIVE, f64::INFINITY] {
        cases.push(on_cpu().factorizations(Some(factorizations)));
    }
    for diagonal_threshold in [0.0, 1.0, f64::INFINITY] {
        let ordering = OrderingOptions::default().diagonal_threshold(diagonal_threshold);
        cases.push(on_cpu().ordering(ordering));
    }
    cases.push(on_cpu().max_refinement_steps(usize::MAX));
    cases.push(on_cpu().threads(Some(Options::MAX_THREADS)));
    let a = convection_diffusion_2d(12, 12, 3.0);
    let b = vec![1.0; a.rows()];
    for options in cases {
        let mut factors = factorize(&a, &options);
        factors.refactorize(&a).unwrap();
        let solution = factors.solve(&b).unwrap();
        let error = solution.inform.backward_error.unwrap();
        assert!(error <= 1e-13, "{error:e} with {options:?}");
    }
}

#[test]
fn permutations_of_another_order_are_refused_with_both_sizes() {
    for mut options in everywhere() {
        options.ordering.method = Method::User {
            rows: RowPerm::identity(4),
            cols: ColPerm::identity(4),
        };
        let solver = Solver::new(options).unwrap();
        solver.analyze(&CsMat::<f64>::eye(4)).unwrap();
        for n in [0, 3, 5] {
            match solver.analyze(&CsMat::<f64>::eye(n)) {
                Err(error @ Error::PermutationLength { .. }) => assert_eq!(
                    error.to_string(),
                    format!(
                        "the option ordering.method permutes 4 rows and columns; the matrix has order {n}"
                    )
                ),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// The message of the panic of `call`, which must name the line that `call` is on.
#[track_caller]
fn panic_at_the_callers_line(call: impl FnOnce()) -> String {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    static PLACE: Mutex<Option<(String, u32)>> = Mutex::new(None);
    let guard = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| (at.file().to_owned(), at.line()));
        if let Ok(mut kept) = PLACE.lock() {
            *kept = place;
        }
    }));
    let outcome = catch_unwind(AssertUnwindSafe(call));
    std::panic::set_hook(before);
    let place = PLACE.lock().unwrap().take();
    drop(guard);
    let panic = outcome.expect_err("a broken call contract");
    let (file, line) = place.expect("a panic has a place");
    let here = Location::caller();
    // The closure begins on the line of this call, or on one of the next.
    assert!(
        file == here.file() && (here.line()..here.line() + 4).contains(&line),
        "{file}:{line} is not at {here}"
    );
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
    }
}

#[test]
fn lengths_that_do_not_go_together_panic_at_the_callers_line() {
    let a = random_unsymmetric(5, 2, 1);
    let nnz = a.nnz();
    let factors = factorize(&a, &on_cpu());
    let message = panic_at_the_callers_line(|| drop(factors.solve(&[1.0; 7])));
    assert_eq!(
        message,
        "the right-hand side has 7 entries; the matrix has order 5"
    );
    let message = panic_at_the_callers_line(|| drop(factors.solve_transpose(&[1.0; 7])));
    assert_eq!(
        message,
        "the right-hand side has 7 entries; the matrix has order 5"
    );
    let message = panic_at_the_callers_line(|| drop(factors.solve_in_place(&mut [1.0; 7])));
    assert_eq!(
        message,
        "the right-hand sides have 7 entries; the matrix has order 5"
    );
    // Products that are 0 in the arithmetic of 64 bits.
    for nrhs in [1 << 63, 1 << 62, usize::MAX] {
        let message = panic_at_the_callers_line(|| drop(factors.solve_many(&[], nrhs)));
        assert_eq!(
            message,
            format!("the {nrhs} right-hand sides have 0 entries; the matrix has order 5")
        );
    }
    let eight = factorize(&random_unsymmetric(8, 2, 1), &on_cpu());
    for nrhs in [1 << 61, 1 << 63] {
        let message = panic_at_the_callers_line(|| drop(eight.solve_many(&[], nrhs)));
        assert!(message.ends_with("have 0 entries; the matrix has order 8"));
    }

    let analysis = Solver::new(on_cpu()).unwrap().analyze(&a).unwrap();
    for count in [2, 1 << 63, usize::MAX] {
        let message = panic_at_the_callers_line(|| drop(analysis.factorize_batch(&[], count)));
        assert_eq!(
            message,
            format!("there are 0 values; each of the {count} matrices has {nnz} entries")
        );
    }
    let values = [a.data(), a.data()].concat();
    let mut batch = analysis.factorize_batch(&values, 2).unwrap();
    let message = panic_at_the_callers_line(|| drop(batch.refactorize(a.data())));
    assert_eq!(
        message,
        format!("there are {nnz} values; each of the 2 matrices has {nnz} entries")
    );
    for nrhs in [1, 1 << 62, 1 << 63, usize::MAX] {
        let expected = format!(
            "the right-hand sides have 0 entries; there are {nrhs} for each of 2 systems of order 5"
        );
        let message = panic_at_the_callers_line(|| drop(batch.solve(&[], nrhs)));
        assert_eq!(message, expected);
        let message =
            panic_at_the_callers_line(|| drop(batch.solve_in_place(&mut [], nrhs, false)));
        assert_eq!(message, expected);
    }
    // The same product, of an order that divides 2⁶⁴.
    let a = random_unsymmetric(8, 2, 1);
    let analysis = Solver::new(on_cpu()).unwrap().analyze(&a).unwrap();
    let eight = analysis.factorize_batch(a.data(), 1).unwrap();
    let message = panic_at_the_callers_line(|| drop(eight.solve(&[], 1 << 61)));
    assert!(message.ends_with("for each of 1 systems of order 8"));
    let message = panic_at_the_callers_line(|| drop(batch.inform(2).map(|_| ())));
    assert_eq!(
        message,
        "there is no system 2; the batch has 2 systems, counted from 0"
    );
}

#[test]
fn lengths_on_a_device_panic_at_the_callers_line() {
    let a = random_unsymmetric(5, 2, 1);
    for engine in [DeviceEngine::Tree, DeviceEngine::Columns] {
        let solver = Solver::new(on_simulator(engine)).unwrap();
        let mut factors = solver.analyze(&a).unwrap().factorize(&a).unwrap();
        let stream = solver.stream().unwrap();
        let mut seven = stream.upload(&[1.0; 7]).unwrap();
        let mut none = stream.alloc::<f64>(0).unwrap();
        let expected = "the right-hand side has 7 entries; the matrix has order 5";
        let message = panic_at_the_callers_line(|| {
            drop(factors.solve_on_device(&mut seven, 1, false));
        });
        assert_eq!(message, expected);
        let message = panic_at_the_callers_line(|| {
            drop(factors.begin_solve_on_device(&mut seven, 1, false));
        });
        assert_eq!(message, expected);
        let b = stream.upload(&[1.0; 5]).unwrap();
        let message = panic_at_the_callers_line(|| {
            drop(factors.solve_refined_on_device(&b, &mut seven, 1, true));
        });
        assert_eq!(message, expected);
        for nrhs in [1 << 63, usize::MAX] {
            let message = panic_at_the_callers_line(|| {
                drop(factors.solve_on_device(&mut none, nrhs, false));
            });
            assert_eq!(
                message,
                format!("the {nrhs} right-hand sides have 0 entries; the matrix has order 5")
            );
        }
        let message = panic_at_the_callers_line(|| {
            drop(factors.refactorize_on_device(&seven));
        });
        assert_eq!(
            message,
            format!("there are 7 values; the matrix has {} entries", a.nnz())
        );
    }
}

#[test]
fn systems_of_order_0_have_any_number_of_right_hand_sides() {
    let empty = CsMat::<f64>::zero((0, 0));
    for options in everywhere() {
        let solver = Solver::new(options).unwrap();
        let analysis = solver.analyze(&empty).unwrap();
        let factors = analysis.factorize(&empty).unwrap();
        for nrhs in [0, 1, 3, 1 << 63, usize::MAX] {
            let solution = factors.solve_many(&[], nrhs).unwrap();
            assert!(solution.x.is_empty());
            let batch = analysis.factorize_batch(&[], 2).unwrap();
            for solution in batch.solve(&[], nrhs) {
                assert!(solution.unwrap().x.is_empty());
            }
            for outcome in batch.solve_in_place(&mut [], nrhs, false) {
                outcome.unwrap();
            }
            if let Some(stream) = solver.stream() {
                let b = stream.alloc(0).unwrap();
                let mut x = stream.alloc(0).unwrap();
                factors.solve_on_device(&mut x, nrhs, false).unwrap();
                factors
                    .solve_refined_on_device(&b, &mut x, nrhs, false)
                    .unwrap();
            }
        }
        factors.solve_in_place(&mut []).unwrap();
        let too_many = analysis.factorize_batch(&[], 1 << 33);
        assert!(
            matches!(too_many, Err(Error::IndexOverflow(_))),
            "{too_many:?}"
        );
    }
    let factors = factorize(&empty, &on_cpu());
    let message = panic_at_the_callers_line(|| drop(factors.solve_in_place(&mut [1.0])));
    assert_eq!(
        message,
        "the right-hand sides have 1 entries; the matrix has order 0"
    );
}

#[test]
fn a_right_hand_side_that_is_not_finite_is_not_blamed_on_the_solution() {
    let bad_numbers = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    // From 2¹⁵ numbers on, solutions of the tree go another way.
    let cases: [(Options, usize, &[usize], &[f64]); 3] = [
        (on_cpu(), 16, &[1, 2, 130], &bad_numbers),
        (
            on_simulator(DeviceEngine::Tree),
            16,
            &[1, 129],
            &bad_numbers[..1],
        ),
        (
            on_simulator(DeviceEngine::Columns),
            4,
            &[1, 2],
            &bad_numbers[..2],
        ),
    ];
    for (options, m, counts, bad_numbers) in cases {
        let a = convection_diffusion_2d(m, m, 1.0);
        let n = a.rows();
        let factors = factorize(&a, &options);
        for (&nrhs, &bad) in counts
            .iter()
            .flat_map(|nrhs| bad_numbers.iter().map(move |bad| (nrhs, bad)))
        {
            let (row, column) = (n - 9, nrhs - 1);
            let mut b = vec![1.0; n * nrhs];
            b[column * n + row] = bad;
            let is_named = |refused: Result<(), Error>| {
                assert!(
                    matches!(
                        refused,
                        Err(Error::RightHandSideNotFinite { row: r, column: c })
                            if (r, c) == (row, column)
                    ),
                    "{refused:?} for {bad} among {nrhs} with {options:?}"
                );
            };
            is_named(factors.solve_many(&b, nrhs).map(|_| ()));
            for transpose in [false, true] {
                let mut x = b.clone();
                is_named(if transpose {
                    factors.solve_transpose_in_place(&mut x).map(|_| ())
                } else {
                    factors.solve_in_place(&mut x).map(|_| ())
                });
                let same = x.iter().zip(&b).all(|(x, b)| x.to_bits() == b.to_bits());
                assert!(same, "the right-hand sides are as they were");
            }
        }
        let mut b = vec![1.0; n];
        b[3] = f64::NAN;
        assert_eq!(
            factors.solve(&b).unwrap_err().to_string(),
            "the value of the right-hand side in row 3, column 0 is infinite or not a number"
        );
    }
}

#[test]
fn a_right_hand_side_of_a_batch_is_named_too() {
    let a = circuit(20, 1);
    let n = a.rows();
    let values = [a.data(), a.data()].concat();
    for options in everywhere() {
        let device_engine = options.device_engine;
        let solver = Solver::new(options).unwrap();
        let analysis = solver.analyze(&a).unwrap();
        let batch = analysis.factorize_batch(&values, 2).unwrap();
        let mut b = vec![1.0; 4 * n];
        b[3 * n + 5] = f64::NAN;
        let check = |mut outcomes: Vec<Result<(), Error>>| {
            let second = outcomes.pop().unwrap().unwrap_err();
            assert_eq!(
                second.to_string(),
                "system 1: the value of the right-hand side in row 5, column 1 is infinite or not a number"
            );
            outcomes.pop().unwrap().unwrap();
        };
        let solutions = batch.solve(&b, 2);
        check(solutions.into_iter().map(|s| s.map(|_| ())).collect());
        let outcomes = batch.solve_in_place(&mut b.clone(), 2, false);
        check(outcomes.into_iter().map(|o| o.map(|_| ())).collect());
        if let Some(stream) = solver.stream() {
            let mut x = stream.upload(&b).unwrap();
            let outcomes = batch.solve_on_device(&mut x, 2, false).unwrap();
            if device_engine == DeviceEngine::Columns {
                check(outcomes.into_iter().map(|o| o.map(|_| ())).collect());
            } else {
                // They are gone when the solutions are looked through.
                let message = outcomes[1].as_ref().unwrap_err().to_string();
                assert!(message.contains("of the solution is infinite"), "{message}");
            }
        }
    }
}

#[test]
fn a_message_has_its_cause_once() {
    let cause = || Arc::new(std::io::Error::other("the cable is out"));
    for (error, expected) in [
        (
            Error::Device(cause()),
            "the device cannot be used: the cable is out",
        ),
        (
            Error::Threads(cause()),
            "the threads could not be started: the cable is out",
        ),
        (
            Error::Ordering(luge::ordering::OrderingError::Metis { status: -3 }),
            "the ordering failed: nested dissection failed: METIS returned status -3",
        ),
        (
            Error::System {
                system: 4,
                error: Arc::new(Error::Device(cause())),
            },
            "system 4: the device cannot be used: the cable is out",
        ),
    ] {
        assert_eq!(error.to_string(), expected);
        assert_eq!(format!("{:#}", anyhow::Error::new(error)), expected);
    }
}

#[test]
fn a_batch_of_no_systems_needs_no_memory() {
    let a = convection_diffusion_2d(12, 12, 1.0);
    let predicted = factorize(&a, &on_simulator(DeviceEngine::Tree))
        .inform()
        .predicted_device_bytes
        .unwrap();
    let options =
        on_simulator(DeviceEngine::Tree).max_device_bytes(Some(predicted + predicted / 8));
    let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
    let held = analysis.factorize(&a).unwrap();
    let full = analysis.factorize_batch(a.data(), 1);
    assert!(
        matches!(full, Err(Error::BatchOutOfMemory { .. })),
        "{full:?}"
    );
    assert!(analysis.factorize_batch(&[], 0).unwrap().is_empty());
    drop(held);
}
