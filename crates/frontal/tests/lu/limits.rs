//! Errors, cancellation, memory limits, calls that break the contract.

use luge_frontal::{FrontalError, FrontalLu, Full, Options, Symbolic, TreeOptions};
use luge_sparse::{CompressedPattern, MemoryBudget, PivotPolicy};

use crate::checks::all_trees;
use crate::matrices::{Matrix, Random, grid, grid_with, saddle};

#[test]
fn values_that_are_not_finite_name_their_column() {
    let mut a = grid(5, 5, &mut Random(9));
    let at = a.cols.range(7).start;
    for bad in [f64::NAN, f64::INFINITY] {
        a.values[at] = bad;
        let symbolic = a.symbolic(&TreeOptions::default());
        let result = FrontalLu::<f64>::factorize(&symbolic, &a.values, &Options::default());
        assert_eq!(result.unwrap_err(), FrontalError::NotFinite { column: 7 });
    }
}

#[test]
fn errors_are_the_same_for_any_number_of_threads() {
    let mut a = grid(40, 37, &mut Random(13));
    for p in a.cols.range(700) {
        a.values[p] = 0.0;
    }
    let symbolic = a.symbolic(&TreeOptions::default());
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    for threads in [1, 3] {
        let options = Options {
            threads,
            ..Options::default()
        };
        let result = pool.install(|| FrontalLu::<f64>::factorize(&symbolic, &a.values, &options));
        assert_eq!(result.unwrap_err(), FrontalError::Singular { column: 700 });
    }
}

/// Chains that meet in the last column. Zeros in the first column of several chains are as many kept
/// pivots that vanish; the one named is that of the serial order.
#[test]
fn the_first_of_several_errors_is_named() {
    let (chains, length) = (64, 30);
    let n = chains * length + 1;
    let mut entries = vec![(n - 1, n - 1, 100.0)];
    for c in 0..chains {
        for i in c * length..(c + 1) * length {
            let next = if (i + 1) % length == 0 { n - 1 } else { i + 1 };
            entries.extend([(i, i, 4.0), (i, next, 1.0), (next, i, 1.0)]);
        }
    }
    let a = Matrix::from_entries(n, entries);
    let mut values = a.values.clone();
    for c in (0..chains).step_by(3) {
        let column = c * length;
        let p = a.cols.range(column).start;
        assert_eq!(a.cols.idx()[p] as usize, column);
        values[p] = 0.0;
    }
    let symbolic = a.symbolic(&all_trees()[2]);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(4)
        .build()
        .unwrap();
    let error = |threads| {
        let options = Options {
            threads,
            ..Options::default()
        };
        pool.install(|| {
            let (mut lu, _) = FrontalLu::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
            lu.refactorize(&values, &options).unwrap_err()
        })
    };
    let first = error(1);
    assert!(matches!(first, FrontalError::ZeroPivot { .. }));
    for _ in 0..20 {
        assert_eq!(error(4), first);
    }
}

#[test]
fn factors_that_overflow_name_a_column() {
    // An infinite pivot.
    let growing =
        |u| Matrix::from_entries(2, vec![(0, 0, 1.0), (1, 0, -2.0), (0, 1, u), (1, 1, 1.0)]);
    // Two infinities of opposite signs meet.
    let meeting = |u| {
        let corners = [(0, -4.0), (1, 4.0)];
        let mut entries = vec![(2, 2, 1.0)];
        for (i, l) in corners {
            entries.extend([(i, i, 1.0), (2, i, l), (i, 2, u)]);
        }
        Matrix::from_entries(3, entries)
    };
    for (tame, wild) in [
        (growing(1.0), growing(1e308)),
        (meeting(1.0), meeting(0.8e308)),
    ] {
        let column = tame.n() - 1;
        for tree_options in all_trees() {
            let symbolic = tame.symbolic(&tree_options);
            let replacing = PivotPolicy::replacing(1e-9).in_fronts(Options::THRESHOLD);
            for pivots in [Options::default().pivots, replacing] {
                let options = Options {
                    pivots,
                    max_b: Some(1.0),
                    ..Options::default()
                };
                let result = FrontalLu::<f64>::factorize(&symbolic, &wild.values, &options);
                assert_eq!(result.unwrap_err(), FrontalError::NotFinite { column });
                let (mut lu, _) =
                    FrontalLu::<f64>::factorize(&symbolic, &tame.values, &options).unwrap();
                let result = lu.refactorize(&wild.values, &options);
                assert_eq!(result.unwrap_err(), FrontalError::NotFinite { column });
            }
        }
    }
}

#[test]
fn cancelled() {
    let a = grid(20, 20, &mut Random(14));
    let symbolic = a.symbolic(&TreeOptions::default());
    for threads in [1, 2] {
        let options = Options {
            threads,
            ..Options::default()
        };
        let (mut lu, _) = FrontalLu::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
        options.cancel.cancel();
        let result = FrontalLu::<f64>::factorize(&symbolic, &a.values, &options);
        assert!(matches!(result, Err(FrontalError::Cancelled(_))));
        let result = lu.refactorize(&a.values, &options);
        assert!(matches!(result, Err(FrontalError::Cancelled(_))));
    }
}

#[test]
fn the_memory_limit_holds() {
    // No pivot is delayed here.
    let a = grid_with(50, 40, 7.5, &mut Random(15));
    let symbolic = a.symbolic(&TreeOptions::default());
    let limit = |max, threads| Options {
        max_bytes: Some(max),
        threads,
        ..Options::default()
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(4)
        .build()
        .unwrap();
    for threads in [1, 2, 4] {
        let peak = symbolic.peak_bytes(8, threads);
        let factorize = |max| {
            pool.install(|| {
                FrontalLu::<f64>::factorize(&symbolic, &a.values, &limit(max, threads)).map(|r| r.1)
            })
        };
        assert!(factorize(peak).is_ok(), "{threads} threads");
        assert_eq!(
            factorize(peak - 1).unwrap_err(),
            FrontalError::OutOfMemory {
                asked: peak,
                available: peak - 1
            }
        );
    }
    // Delayed pivots need more than predicted.
    let a = saddle(400, 150, &mut Random(16));
    let symbolic = a.symbolic(&TreeOptions::default());
    let peak = symbolic.peak_bytes(8, 1);
    let result = FrontalLu::<f64>::factorize(&symbolic, &a.values, &limit(peak, 1));
    assert!(matches!(result, Err(FrontalError::OutOfMemory { .. })));
    assert!(FrontalLu::<f64>::factorize(&symbolic, &a.values, &limit(10 * peak, 1)).is_ok());
}

#[test]
fn what_is_reserved_is_near_what_is_predicted() {
    let a = grid_with(50, 40, 7.5, &mut Random(15));
    let symbolic = a.symbolic(&TreeOptions::default());
    let peak = symbolic.peak_bytes(8, 1);
    let factorize = |budget: &MemoryBudget| {
        let options = Options {
            memory: budget.clone(),
            ..Options::default()
        };
        FrontalLu::<f64>::factorize(&symbolic, &a.values, &options)
    };
    let result = factorize(&MemoryBudget::new(symbolic.factor_bytes(8)));
    assert!(matches!(result, Err(FrontalError::OutOfMemory { .. })));
    let budget = MemoryBudget::new(2 * peak);
    let (lu, _) = factorize(&budget).unwrap();
    assert!(budget.available() < 2 * peak);
    drop(lu);
    assert_eq!(budget.available(), 2 * peak);
}

#[test]
#[should_panic(expected = "one value per entry")]
fn a_wrong_number_of_values_panics() {
    let a = grid(3, 3, &mut Random(19));
    let symbolic = a.symbolic(&TreeOptions::default());
    let _ = FrontalLu::<f64>::factorize(&symbolic, &a.values[1..], &Options::default());
}

#[test]
fn a_rectangle_is_refused() {
    let cols = CompressedPattern::new(3, vec![0, 1, 2], vec![0, 2]).unwrap();
    assert_eq!(
        Symbolic::<Full>::analyze(&cols, &TreeOptions::default()).unwrap_err(),
        FrontalError::NotSquare {
            rows: 3,
            columns: 2
        }
    );
}
