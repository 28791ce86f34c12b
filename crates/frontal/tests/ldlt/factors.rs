//! Factors and solves of all kinds of matrices, on all kernels, for any number of threads.

use luge_frontal::{FrontalLdlt, FrontalScalar, TreeOptions};
use luge_sparse::{CancelFlag, PivotPolicy};

use crate::checks::METHODS;
use crate::checks::{
    all_trees, bits, check, factorize_and_check, factorize_and_check_all, policy, with,
};
use crate::matrices::{Matrix, Random, grid, random_matrix, saddle};

#[test]
fn special_sizes() {
    let mut random = Random(1);
    for n in [0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 129, 1025] {
        let per_column = if n > 200 { 3 } else { 4 };
        let a = random_matrix(n, per_column, 4.0, &mut random);
        factorize_and_check_all(&a, 0.01);
    }
}

#[test]
fn dense_blocks_of_special_sizes() {
    let mut random = Random(2);
    for n in [1, 2, 7, 8, 9, 31, 32, 33, 40, 127, 128, 129, 150, 300] {
        for threshold in [0.01, 0.5] {
            factorize_and_check_all(&Matrix::full(n, |_, _| random.next()), threshold);
        }
        let definite = Matrix::full(n, |i, j| {
            random.next() + if i == j { n as f64 + 1.0 } else { 0.0 }
        });
        factorize_and_check(&definite, &with(PivotPolicy::DEFINITE));
        factorize_and_check_all(&definite, 0.01);
    }
}

#[test]
fn grids() {
    let mut random = Random(3);
    for (nx, ny) in [(5, 4), (12, 11), (30, 9), (7, 60)] {
        for diagonal in [0.5, 4.0] {
            factorize_and_check_all(&grid(nx, ny, diagonal, &mut random), 0.01);
        }
        let definite = grid(nx, ny, 8.0, &mut random);
        factorize_and_check(&definite, &with(PivotPolicy::DEFINITE));
        factorize_and_check(&definite.mixed(&mut random), &with(PivotPolicy::DEFINITE));
    }
}

#[test]
fn single_precision() {
    let mut random = Random(10);
    for n in [1, 33, 150] {
        let a = random_matrix(n, 6, 2.0, &mut random);
        let values: Vec<f32> = a.cast();
        let a = Matrix {
            cols: a.cols.clone(),
            values: values.iter().map(|&v| f64::from(v)).collect(),
        };
        for tree_options in all_trees() {
            let symbolic = a.symbolic(&tree_options);
            for kernels in f32::all_kernels() {
                for method in METHODS {
                    let options = with(policy(0.01, method));
                    let factorized =
                        FrontalLdlt::factorize_with(&symbolic, &values, &options, kernels);
                    let (mut ldlt, quality) = factorized.unwrap();
                    check(&a, &ldlt, &quality, 100.0);
                    let before = bits(&ldlt);
                    ldlt.refactorize(&values, &options).unwrap();
                    assert!(bits(&ldlt) == before);
                }
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let mut random = Random(12);
    // The banded matrix has fronts large enough for shared products.
    let n = 700usize;
    let band = (0..n).flat_map(|j| (j..(j + 260).min(n)).map(move |i| (i, j)));
    let band: Vec<_> = band.map(|(i, j)| (i, j, random.next())).collect();
    let never = CancelFlag::new();
    for a in [
        grid(40, 37, 1.0, &mut random),
        saddle(300, 120, &mut random),
        Matrix::from_entries(n, band),
    ] {
        let symbolic = a.symbolic(&TreeOptions::default());
        let mut expected = None;
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let mut options = with(PivotPolicy::symmetric(0.01));
            options.threads = threads;
            let (mut ldlt, quality) = pool
                .install(|| FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options))
                .unwrap();
            let mut x: Vec<f64> = (0..a.n() * 40).map(|i| (i % 11) as f64).collect();
            pool.install(|| ldlt.solve(&mut x, 40, threads, &never))
                .unwrap();
            let x: Vec<u64> = x.iter().map(|v| v.to_bits()).collect();
            let found = (bits(&ldlt), x, quality);
            let expected = expected.get_or_insert_with(|| found.clone());
            assert!(*expected == found, "{threads} threads");
            let again = pool
                .install(|| ldlt.refactorize(&a.values, &options))
                .unwrap();
            assert_eq!(again, quality);
            assert!(bits(&ldlt) == found.0, "{threads} threads, again");
        }
    }
}
