//! Errors, cancellation, memory limits, calls that break the contract.

use luge_frontal::{FrontalError, FrontalLdlt, Options, TreeOptions};
use luge_sparse::{CancelFlag, MemoryBudget, PivotKind, PivotPolicy};

use crate::checks::{METHODS, all_trees, bits, policy, with};
use crate::matrices::{Matrix, Random, grid, saddle};

fn pool(threads: usize) -> rayon::ThreadPool {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
    builder.build().unwrap()
}

fn both_kinds() -> [Options; 2] {
    [
        with(PivotPolicy::symmetric(0.01)),
        with(PivotPolicy::DEFINITE),
    ]
}

#[test]
fn values_that_are_not_finite_name_their_column() {
    let mut a = grid(5, 5, 8.0, &mut Random(9));
    let at = a.cols.range(7).end - 1;
    let symbolic = a.symbolic(&TreeOptions::default());
    for bad in [f64::NAN, f64::INFINITY] {
        a.values[at] = bad;
        for options in both_kinds() {
            let result = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options);
            assert_eq!(result.unwrap_err(), FrontalError::NotFinite { column: 7 });
        }
    }
    // Of two columns that overflow together the first that the sum is too large for is named.
    let a = Matrix::from_entries(2, [(0, 0, 1.0), (1, 0, 1.5e308), (1, 1, 1.5e308)]);
    let symbolic = a.symbolic(&TreeOptions::default());
    for options in both_kinds() {
        let result = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options);
        assert_eq!(result.unwrap_err(), FrontalError::NotFinite { column: 1 });
    }
}

/// Two infinities of opposite signs meet in the last column, or one infinity stays there.
#[test]
fn factors_that_overflow_name_a_column() {
    for last in [-4.0, 4.0] {
        // The columns of the corners have pivots of opposite signs, or of the same.
        let entries = [
            (0, 0, 1.0),
            (2, 0, 3e154),
            (1, 1, last / 4.0),
            (2, 1, 3e154),
            (2, 2, 1.0),
        ];
        let a = Matrix::from_entries(3, entries);
        for tree_options in all_trees() {
            let symbolic = a.symbolic(&tree_options);
            for method in METHODS {
                // Any pivot will do, so the ones of the corners do.
                let options = with(policy(0.0, method));
                let result = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options);
                if let Err(error) = result {
                    assert!(matches!(error, FrontalError::NotFinite { .. }), "{error}");
                } else {
                    let (ldlt, quality) = result.unwrap();
                    assert!(!quality.growth.is_nan() && quality.max_pivot.is_finite());
                    assert!(ldlt.d().iter().all(|v| v.is_finite()));
                }
            }
        }
    }
    // Only one order is there for a definite matrix.
    let a = Matrix::from_entries(2, [(0, 0, 1e-300), (1, 0, 1e10), (1, 1, 1.0)]);
    let symbolic = a.symbolic(&TreeOptions::default());
    let options = with(PivotPolicy::DEFINITE);
    let result = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options);
    assert_eq!(result.unwrap_err(), FrontalError::NotFinite { column: 1 });
    // L overflows below the first column of fronts of two, whose pivots are positive.
    let leaves = (0..3).flat_map(|leaf| {
        let first = 2 * leaf;
        let below = [first, first + 1].map(|j| [(6, j, 1e10), (7, j, 1e-3)]);
        let diagonal = [(first, first, 1e-300), (first + 1, first, 1e-301)];
        let entries = below.into_iter().flatten().chain(diagonal);
        entries.chain([(first + 1, first + 1, 1.0)])
    });
    let root = [(6, 6, 1.0), (7, 6, 0.5), (7, 7, 1.0)];
    let a = Matrix::from_entries(8, leaves.chain(root).collect::<Vec<_>>());
    let unmerged = TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        ..TreeOptions::default()
    };
    let symbolic = a.symbolic(&unmerged);
    assert!(symbolic.tree().num_supernodes() > 1);
    let result = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options);
    let error = result.unwrap_err();
    assert!(
        matches!(error, FrontalError::NotFinite { column: 0 | 2 | 4 }),
        "{error}"
    );
}

#[test]
fn errors_are_the_same_for_any_number_of_threads() {
    let mut a = grid(40, 37, 8.0, &mut Random(13));
    let entries: Vec<_> = a.entries().collect();
    for (value, &(i, j, _)) in a.values.iter_mut().zip(&entries) {
        if i == 700 || j == 700 {
            *value = 0.0;
        }
        // Others in many places, later in the order.
        if i == j && i > 900 && i % 50 == 0 {
            *value = -1.0;
        }
    }
    let symbolic = a.symbolic(&TreeOptions::default());
    for options in both_kinds() {
        let error = |threads| {
            let options = Options {
                threads,
                ..options.clone()
            };
            let run = || FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options);
            pool(threads).install(run).unwrap_err()
        };
        let first = error(1);
        for threads in [2, 7, 7, 7] {
            assert_eq!(error(threads), first);
        }
        let is_named = match options.pivots.kind {
            PivotKind::Definite => matches!(first, FrontalError::NotPositiveDefinite { .. }),
            _ => first == FrontalError::Singular { column: 700 },
        };
        assert!(is_named, "{first}");
    }
}

#[test]
fn cancelled() {
    let a = grid(20, 20, 8.0, &mut Random(14));
    let symbolic = a.symbolic(&TreeOptions::default());
    for threads in [1, 2] {
        for mut options in both_kinds() {
            options.threads = threads;
            let (mut ldlt, _) =
                FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
            let before = bits(&ldlt);
            options.cancel.cancel();
            let result = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options);
            assert!(matches!(result, Err(FrontalError::Cancelled(_))));
            let mut x = vec![1.0; 3 * a.n()];
            for nrhs in [1, 3] {
                let solved = ldlt.solve(&mut x[..nrhs * a.n()], nrhs, threads, &options.cancel);
                assert!(solved.is_err());
            }
            let result = ldlt.refactorize(&a.values, &options);
            assert!(matches!(result, Err(FrontalError::Cancelled(_))));
            let solve = std::panic::AssertUnwindSafe(|| {
                ldlt.solve(&mut vec![1.0; a.n()], 1, 1, &CancelFlag::new())
            });
            assert!(
                std::panic::catch_unwind(solve).is_err(),
                "no factors, no solve"
            );
            options.cancel = CancelFlag::new();
            ldlt.refactorize(&a.values, &options).unwrap();
            assert!(bits(&ldlt) == before);
        }
    }
}

/// After values that have no factors, the old values have the old ones.
#[test]
fn a_refactorization_after_an_error_starts_anew() {
    let a = saddle(40, 15, &mut Random(15));
    let symbolic = a.symbolic(&TreeOptions::default());
    let options = with(PivotPolicy::symmetric(0.01));
    let (mut ldlt, quality) =
        FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
    let before = bits(&ldlt);
    let zeros = vec![0.0; a.values.len()];
    let error = ldlt.refactorize(&zeros, &options).unwrap_err();
    assert!(matches!(error, FrontalError::Singular { .. }), "{error}");
    assert_eq!(ldlt.refactorize(&a.values, &options).unwrap(), quality);
    assert!(bits(&ldlt) == before);
}

#[test]
fn the_memory_limit_holds() {
    let a = grid(50, 40, 8.0, &mut Random(15));
    let symbolic = a.symbolic(&TreeOptions::default());
    for threads in [1, 2, 4] {
        let peak = symbolic.peak_bytes(8, threads);
        for mut options in both_kinds() {
            options.threads = threads;
            let mut factorize = |max| {
                options.max_bytes = Some(max);
                let run = || FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options);
                pool(4).install(run).map(|r| r.1.num_delayed)
            };
            assert_eq!(factorize(peak), Ok(0), "{threads} threads");
            let refused = FrontalError::OutOfMemory {
                asked: peak,
                available: peak - 1,
            };
            assert_eq!(factorize(peak - 1), Err(refused));
        }
    }
    // Delayed columns need more than predicted.
    let a = saddle(400, 150, &mut Random(16));
    let symbolic = a.symbolic(&all_trees()[2]);
    let peak = symbolic.peak_bytes(8, 1);
    let mut options = with(PivotPolicy::symmetric(0.01));
    options.max_bytes = Some(peak);
    let result = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options);
    assert!(matches!(result, Err(FrontalError::OutOfMemory { .. })));
    options.max_bytes = Some(10 * peak);
    assert!(FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options).is_ok());
}

#[test]
fn what_is_reserved_is_near_what_is_predicted() {
    for a in [
        grid(50, 40, 8.0, &mut Random(15)),
        saddle(300, 120, &mut Random(16)),
    ] {
        let symbolic = a.symbolic(&TreeOptions::default());
        let peak = symbolic.peak_bytes(8, 1);
        let mut options = with(PivotPolicy::symmetric(0.01));
        options.memory = MemoryBudget::new(symbolic.factor_bytes(8));
        let result = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options);
        assert!(matches!(result, Err(FrontalError::OutOfMemory { .. })));
        let budget = MemoryBudget::new(4 * peak);
        options.memory = budget.clone();
        let (mut ldlt, _) = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
        let held = 4 * peak - budget.available();
        assert_eq!(held, ldlt.bytes());
        ldlt.refactorize(&a.values, &options).unwrap();
        assert_eq!(4 * peak - budget.available(), held);
        drop(ldlt);
        assert_eq!(budget.available(), 4 * peak);
    }
}

#[test]
#[should_panic(expected = "one value per entry")]
fn a_wrong_number_of_values_panics() {
    let a = grid(3, 3, 8.0, &mut Random(19));
    let symbolic = a.symbolic(&TreeOptions::default());
    let _ = FrontalLdlt::<f64>::factorize(&symbolic, &a.values[1..], &both_kinds()[0]);
}

#[test]
#[should_panic(expected = "unsymmetric pivoting is asked of an engine for symmetric matrices")]
fn a_policy_of_lu_panics() {
    let a = grid(3, 3, 8.0, &mut Random(19));
    let symbolic = a.symbolic(&TreeOptions::default());
    let _ = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &Options::default());
}

#[test]
#[should_panic(expected = "right-hand sides of a matrix of order 9")]
fn a_vector_of_another_length_panics() {
    let a = grid(3, 3, 8.0, &mut Random(19));
    let symbolic = a.symbolic(&TreeOptions::default());
    let (ldlt, _) = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &both_kinds()[0]).unwrap();
    let _ = ldlt.solve(&mut [0.0; 10], 1, 1, &CancelFlag::new());
}
