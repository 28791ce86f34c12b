//! Errors, cancellation, memory limits, calls that break the contract.

use luge_frontal::{FrontalError, FrontalLu, Options, Tree, TreeOptions};
use luge_sparse::CompressedPattern;

use crate::matrices::{Random, grid, saddle};

#[test]
fn values_that_are_not_finite_name_their_column() {
    let mut a = grid(5, 5, &mut Random(9));
    let at = a.cols.range(7).start;
    for bad in [f64::NAN, f64::INFINITY] {
        a.values[at] = bad;
        let tree = a.tree(&TreeOptions::default());
        let result = FrontalLu::<f64>::factorize(&tree, &a.values, &Options::default());
        assert_eq!(result.unwrap_err(), FrontalError::NotFinite { column: 7 });
    }
}

#[test]
fn errors_are_the_same_for_any_number_of_threads() {
    let mut a = grid(40, 37, &mut Random(13));
    for p in a.cols.range(700) {
        a.values[p] = 0.0;
    }
    let tree = a.tree(&TreeOptions::default());
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    for threads in [1, 3] {
        let options = Options {
            threads,
            ..Options::default()
        };
        let result = pool.install(|| FrontalLu::<f64>::factorize(&tree, &a.values, &options));
        assert_eq!(result.unwrap_err(), FrontalError::Singular { column: 700 });
    }
}

#[test]
fn cancelled() {
    let a = grid(20, 20, &mut Random(14));
    let tree = a.tree(&TreeOptions::default());
    for threads in [1, 2] {
        let options = Options {
            threads,
            ..Options::default()
        };
        let (mut lu, _) = FrontalLu::<f64>::factorize(&tree, &a.values, &options).unwrap();
        options.cancel.cancel();
        let result = FrontalLu::<f64>::factorize(&tree, &a.values, &options);
        assert!(matches!(result, Err(FrontalError::Cancelled(_))));
        let result = lu.refactorize(&a.values, &options);
        assert!(matches!(result, Err(FrontalError::Cancelled(_))));
    }
}

#[test]
fn the_memory_limit_holds() {
    let a = grid(20, 20, &mut Random(15));
    let tree = a.tree(&TreeOptions::default());
    let peak = tree.peak_bytes(8, 1);
    let limit = |max| Options {
        max_bytes: Some(max),
        ..Options::default()
    };
    assert!(FrontalLu::<f64>::factorize(&tree, &a.values, &limit(peak)).is_ok());
    let result = FrontalLu::<f64>::factorize(&tree, &a.values, &limit(peak - 1));
    assert_eq!(
        result.unwrap_err(),
        FrontalError::OutOfMemory {
            asked: peak,
            available: peak - 1
        }
    );
    // Delayed pivots need more than predicted.
    let a = saddle(400, 150, &mut Random(16));
    let tree = a.tree(&TreeOptions::default());
    let peak = tree.peak_bytes(8, 1);
    let result = FrontalLu::<f64>::factorize(&tree, &a.values, &limit(peak));
    assert!(matches!(result, Err(FrontalError::OutOfMemory { .. })));
    assert!(FrontalLu::<f64>::factorize(&tree, &a.values, &limit(10 * peak)).is_ok());
}

#[test]
#[should_panic(expected = "one value per entry")]
fn a_wrong_number_of_values_panics() {
    let a = grid(3, 3, &mut Random(19));
    let tree = a.tree(&TreeOptions::default());
    let _ = FrontalLu::<f64>::factorize(&tree, &a.values[1..], &Options::default());
}

#[test]
fn a_rectangle_is_refused() {
    let cols = CompressedPattern::new(3, vec![0, 1, 2], vec![0, 2]).unwrap();
    assert_eq!(
        Tree::analyze(&cols, &TreeOptions::default()).unwrap_err(),
        FrontalError::NotSquare {
            rows: 3,
            columns: 2
        }
    );
}
