//! Factors and solves of all kinds of matrices, on all kernels, for any number of threads.

use luge_frontal::{FrontalError, FrontalLu, FrontalScalar, Options, TreeOptions};
use luge_sparse::{CancelFlag, PivotPolicy};
use luge_testkit::strategies;
use num_complex::Complex;
use proptest::prelude::*;

use crate::checks::{all_trees, bits, check, factorize_and_check};
use crate::matrices::{Matrix, Random, grid, random_matrix, saddle};

#[test]
fn special_sizes() {
    let mut random = Random(1);
    for n in [0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 129, 513] {
        let per_column = if n > 200 { 3 } else { 4 };
        factorize_and_check(
            &random_matrix(n, per_column, false, &mut random),
            &Options::default(),
        );
    }
}

#[test]
fn dense_blocks_of_special_sizes() {
    let mut random = Random(2);
    for n in [1, 2, 7, 8, 9, 31, 32, 33, 40, 127, 128, 129, 150] {
        for threshold in [0.05, 1.0] {
            let entries = (0..n * n).map(|e| (e % n, e / n, random.next())).collect();
            let options = Options {
                pivots: PivotPolicy::threshold(threshold),
                ..Options::default()
            };
            factorize_and_check(&Matrix::from_entries(n, entries), &options);
        }
    }
}

#[test]
fn grids() {
    let mut random = Random(3);
    for (nx, ny) in [(5, 4), (12, 11), (30, 9), (7, 60)] {
        factorize_and_check(&grid(nx, ny, &mut random), &Options::default());
    }
}

#[test]
fn shuffled_rows_need_pivots_off_the_diagonal() {
    let mut random = Random(4);
    for n in [2, 5, 33, 100] {
        let a = random_matrix(n, 4, true, &mut random);
        let symbolic = a.symbolic(&TreeOptions::default());
        let (lu, quality) =
            FrontalLu::<f64>::factorize(&symbolic, &a.values, &Options::default()).unwrap();
        assert!(n < 33 || quality.num_off_diagonal > 0);
        check(&a, &lu, &quality);
        factorize_and_check(&a, &Options::default());
    }
}

/// |L|·|U| of 2 1 0 / 1 ¼ 1 / 0 1 4, whose second pivot is −¼, is 2 1 0 / 1 ¾ 1 / 0 1 12.
#[test]
fn products_of_magnitudes_are_weighted_by_row_and_column() {
    let entries = [
        (0, 0, 2.0),
        (1, 0, 1.0),
        (0, 1, 1.0),
        (1, 1, 0.25),
        (2, 1, 1.0),
        (1, 2, 1.0),
        (2, 2, 4.0),
    ];
    let a = Matrix::from_entries(3, entries.to_vec());
    for tree_options in all_trees() {
        let symbolic = a.symbolic(&tree_options);
        let (lu, _) = FrontalLu::factorize(&symbolic, &a.values, &Options::default()).unwrap();
        let rows = [1.0, 0.5, 0.25];
        for (cols, norm) in [
            ([8.0, 1.0, 1.0], 8.0 * (2.0 + 0.5)),
            ([1.0, 8.0, 1.0], 8.0 * (1.0 + 0.375 + 0.25)),
            ([1.0, 1.0, 8.0], 8.0 * (0.5 + 3.0)),
        ] {
            let found = lu.product_norm(&rows, &cols, 1, &CancelFlag::new());
            assert_eq!(found, Ok(norm), "{cols:?}, {tree_options:?}");
        }
        let cancelled = CancelFlag::new();
        cancelled.cancel();
        assert!(lu.product_norm(&rows, &rows, 1, &cancelled).is_err());
    }
}

/// Of an arrow (a diagonal, the last row and the last column) |L|·|U| has the diagonal, and the last row and column: the
/// largest weight that a column meets is that of its own row or of the last one, and the last column meets all.
#[test]
fn weights_of_columns_are_the_largest_of_their_rows() {
    let n = 9;
    let mut entries: Vec<(usize, usize, f64)> = (0..n).map(|i| (i, i, 4.0)).collect();
    for i in 0..n - 1 {
        entries.extend([(n - 1, i, 1.0), (i, n - 1, 1.0)]);
    }
    let a = Matrix::from_entries(n, entries);
    // Without fronts that are merged no row stands in a front for the sake of another one.
    let symbolic = a.symbolic(&all_trees()[2]);
    let (lu, _) = FrontalLu::factorize(&symbolic, &a.values, &Options::default()).unwrap();
    let mut rows: Vec<f64> = (0..n).map(|i| 10.0 + i as f64).collect();
    rows[n - 1] = 12.5;
    let mut expected: Vec<f64> = rows.iter().map(|&w| w.max(12.5)).collect();
    expected[n - 1] = rows.iter().copied().fold(0.0, f64::max);
    assert_eq!(lu.largest_weights(&rows), expected);
}

#[test]
fn single_precision() {
    let mut random = Random(10);
    for n in [1, 33, 150] {
        let a = random_matrix(n, 4, n == 150, &mut random);
        in_single_precision::<f32>(&a);
        in_single_precision::<Complex<f32>>(&a.turned());
    }
}

fn in_single_precision<F: FrontalScalar>(a: &Matrix<F::Wide>) {
    let values: Vec<F> = a.values.iter().map(|&v| F::narrow(v)).collect();
    let a = Matrix {
        cols: a.cols.clone(),
        values: values.iter().map(|v| v.widen()).collect(),
    };
    for options in all_trees() {
        for kernels in F::all_kernels() {
            let (mut lu, quality) = FrontalLu::factorize_with(
                &a.symbolic(&options),
                &values,
                &Options::default(),
                kernels,
            )
            .unwrap();
            check(&a, &lu, &quality);
            let before = bits(&lu);
            lu.refactorize(&values, &Options::default()).unwrap();
            assert!(bits(&lu) == before);
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let mut random = Random(12);
    // The banded matrix has fronts large enough for shared products, also those of solves; the grid has several tasks of these.
    let big = {
        let n = 700usize;
        let mut entries = Vec::new();
        for j in 0..n {
            for i in j.saturating_sub(260)..(j + 260).min(n) {
                entries.push((i, j, random.next() + if i == j { 40.0 } else { 0.0 }));
            }
        }
        Matrix::from_entries(n, entries)
    };
    for a in [
        grid(90, 61, &mut random),
        saddle(300, 120, &mut random),
        big,
    ] {
        let symbolic = a.symbolic(&TreeOptions::default());
        let weights: Vec<f64> = (0..a.n()).map(|i| 1.0 + (i % 7) as f64).collect();
        let never = CancelFlag::new();
        let mut expected = None;
        for threads in [1, 2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let options = Options {
                threads,
                ..Options::default()
            };
            let (mut lu, quality) = pool
                .install(|| FrontalLu::<f64>::factorize(&symbolic, &a.values, &options))
                .unwrap();
            let b: Vec<f64> = (0..a.n() * 40).map(|i| (i % 11) as f64).collect();
            let mut x = b.clone();
            let (one, many) = x.split_at_mut(a.n());
            let (transposed, many) = many.split_at_mut(a.n());
            let norm = pool.install(|| {
                lu.solve(one, a.n(), 1, threads);
                lu.solve_transpose(transposed, a.n(), 1, threads);
                lu.solve(&mut many[..19 * a.n()], a.n(), 19, threads);
                lu.solve_transpose(&mut many[19 * a.n()..], a.n(), 19, threads);
                lu.product_norm(&weights, &weights, threads, &never)
            });
            x.push(norm.unwrap());
            let x: Vec<u64> = x.iter().map(|v| v.to_bits()).collect();
            let found = (bits(&lu), x);
            let (factors, x) = expected.get_or_insert_with(|| found.clone());
            assert!(*factors == found.0 && *x == found.1, "{threads} threads");
            let again = pool
                .install(|| lu.refactorize(&a.values, &options))
                .unwrap();
            assert_eq!(again, quality);
            assert!(bits(&lu) == found.0, "{threads} threads, again");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nonsingular_matrices(a in strategies::nonsingular_matrices(40)) {
        factorize_and_check(&Matrix::from_sprs(&a), &Options::default());
    }

    #[test]
    fn dominant_matrices(a in strategies::dominant_matrices(60)) {
        factorize_and_check(&Matrix::from_sprs(&a), &Options { pivots: PivotPolicy::threshold(1e-3), ..Options::default() });
    }

    /// Often singular: either an error that names a column, or factors.
    #[test]
    fn any_matrices(a in strategies::matrices(25), threads in 1usize..3) {
        let a = Matrix::from_sprs(&a);
        let symbolic = a.symbolic(&TreeOptions::default());
        let options = Options { threads, ..Options::default() };
        match FrontalLu::<f64>::factorize(&symbolic, &a.values, &options) {
            Ok((lu, quality)) => check(&a, &lu, &quality),
            Err(FrontalError::Singular { column }) => prop_assert!(column < a.n()),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn symmetric_matrices(a in strategies::symmetric_matrices(30)) {
        let a = Matrix::from_sprs(&a);
        let symbolic = a.symbolic(&TreeOptions::default());
        if let Ok((lu, quality)) = FrontalLu::<f64>::factorize(&symbolic, &a.values, &Options::default()) {
            check(&a, &lu, &quality);
        }
    }
}
