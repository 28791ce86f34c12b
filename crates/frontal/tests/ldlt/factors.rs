//! Factors and solves of all kinds of matrices, on all kernels, for any number of threads.

use luge_frontal::{FrontalError, FrontalLdlt, FrontalScalar, TreeOptions};
use luge_reference::Dense;
use luge_reference::ldlt::ldlt_dense;
use luge_sparse::{CancelFlag, Form, PivotPolicy, SmallPivots};
use luge_testkit::strategies;
use num_complex::Complex;
use proptest::prelude::*;

use crate::checks::{
    METHODS, all_trees, bits, check, factorize_and_check, factorize_and_check_all, in_form, policy,
    with,
};
use crate::matrices::{Matrix, Random, Turn, grid, random_matrix, saddle, tree_laplacian};

#[test]
fn special_sizes() {
    let mut random = Random(1);
    for n in [0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 129, 513] {
        let per_column = if n > 200 { 3 } else { 4 };
        let a = random_matrix(n, per_column, 4.0, &mut random);
        factorize_and_check_all(&a, 0.01);
    }
}

#[test]
fn dense_blocks_of_special_sizes() {
    let mut random = Random(2);
    for n in [1, 2, 7, 8, 9, 31, 32, 33, 40, 127, 128, 129, 150, 257] {
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
            values: values.iter().map(|&v| f64::from(v)).collect(),
            ..a
        };
        for tree_options in all_trees() {
            let symbolic = a.symbolic(&tree_options);
            for kernels in f32::all_symmetric_kernels(Form::Symmetric) {
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
    for a in [
        // Its factors are several tasks of a solve, and those of the banded one large panels.
        grid(90, 61, 1.0, &mut random),
        saddle(300, 120, &mut random),
        Matrix::from_entries(n, band),
    ] {
        check_threads(&a);
        for form in [Form::Symmetric, Form::Hermitian] {
            check_threads(&a.turned(form, Turn::Angles));
        }
    }
}

fn check_threads<F: FrontalScalar<Real = f64>>(a: &Matrix<F>) {
    let never = CancelFlag::new();
    let symbolic = a.symbolic(&TreeOptions::default());
    let mut expected = None;
    for threads in [1, 2, 3, 7] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let mut options = in_form(&with(PivotPolicy::symmetric(0.01)), a.form);
        options.threads = threads;
        let (mut ldlt, quality) = pool
            .install(|| FrontalLdlt::factorize(&symbolic, &a.values, &options))
            .unwrap();
        let numbers = (0..a.n() * 40).map(|i| F::from_components(|at| ((i + at) % 11) as f64));
        let mut x: Vec<F> = numbers.collect();
        let (one, many) = x.split_at_mut(a.n());
        for (x, nrhs) in [(one, 1), (many, 39)] {
            pool.install(|| ldlt.solve(x, nrhs, threads, &never))
                .unwrap();
        }
        let weights: Vec<f64> = (0..a.n()).map(|i| 1.0 / (1.0 + (i % 7) as f64)).collect();
        let norm = pool.install(|| ldlt.product_norm(&weights, threads, &never));
        let found = (bits(&ldlt), x, norm.unwrap(), quality);
        let expected = expected.get_or_insert_with(|| found.clone());
        assert!(*expected == found, "{threads} threads");
        let again = pool
            .install(|| ldlt.refactorize(&a.values, &options))
            .unwrap();
        assert_eq!(again, quality);
        assert!(bits(&ldlt) == found.0, "{threads} threads, again");
        let cancelled = CancelFlag::new();
        cancelled.cancel();
        assert!(ldlt.product_norm(&weights, 1, &cancelled).is_err());
    }
}

/// Multiplied by powers of i, and given as complex, a matrix has the pivots that it has as a real one, and factors of the same
/// absolute values, to the bit: each product of numbers has one part that is not zero.
#[test]
fn complex_factors_are_those_of_the_real_matrix_times_powers_of_i() {
    let mut random = Random(19);
    let (mut num_two, mut num_delayed, mut num_zero) = (0, 0, 0);
    for a in [
        grid(12, 11, 0.5, &mut random),
        saddle(90, 40, &mut random),
        random_matrix(150, 8, 1.0, &mut random),
        Matrix::full(70, |_, _| random.next()),
        tree_laplacian(60, &mut random),
    ] {
        let symbolic = a.symbolic(&TreeOptions::default());
        let policy = PivotPolicy {
            small: SmallPivots::Accept { below: 1e-14 },
            ..PivotPolicy::symmetric(0.01)
        };
        let (real, expected) = FrontalLdlt::factorize(&symbolic, &a.values, &with(policy)).unwrap();
        let sizes = |ldlt: &FrontalLdlt<Complex<f64>>| {
            let mut sizes: Vec<f64> = ldlt.d().iter().map(|v| v.l1_norm()).collect();
            ldlt.for_each_l(|_, _, v| sizes.push(v.l1_norm()));
            sizes
        };
        let mut of_real: Vec<f64> = real.d().iter().map(|v| v.abs()).collect();
        real.for_each_l(|_, _, v| of_real.push(v.abs()));
        for form in [Form::Symmetric, Form::Hermitian] {
            for b in [a.turned(form, Turn::Quarters), a.as_complex(form)] {
                let options = in_form(&with(policy), form);
                let (ldlt, found) = FrontalLdlt::factorize(&symbolic, &b.values, &options).unwrap();
                assert_eq!(ldlt.elimination_order(), real.elimination_order());
                assert!(sizes(&ldlt) == of_real);
                assert_eq!(found.num_two, expected.num_two);
                assert_eq!(found.num_delayed, expected.num_delayed);
                assert_eq!(found.num_zero, expected.num_zero);
                let has_inertia = form == Form::Hermitian;
                assert_eq!(ldlt.inertia(), has_inertia.then_some(expected.inertia));
                assert_eq!(found.max_l, expected.max_l);
                let range = [found.min_pivot, found.max_pivot];
                let expected = [expected.min_pivot, expected.max_pivot];
                for (found, expected) in range.iter().zip(expected) {
                    assert!(
                        (found / expected - 1.0).abs() <= 1e-12,
                        "{found} for {expected}"
                    );
                }
            }
        }
        num_two += expected.num_two;
        num_delayed += expected.num_delayed;
        num_zero += expected.num_zero;
    }
    assert!(num_two > 20 && num_delayed > 5 && num_zero == 1);
}

/// A complex symmetric matrix has no pivots with signs.
#[test]
#[should_panic(expected = "the pivots of a complex symmetric matrix have no signs")]
fn a_complex_symmetric_matrix_has_no_cholesky_factorization() {
    let a = grid(3, 3, 8.0, &mut Random(1)).as_complex(Form::Symmetric);
    let symbolic = a.symbolic(&TreeOptions::default());
    let _ = FrontalLdlt::factorize(&symbolic, &a.values, &with(PivotPolicy::DEFINITE));
}

/// Where no column is put off and the whole matrix is one front, inertia and factors are those of dense elimination.
#[test]
fn whole_matrices_have_the_inertia_of_the_reference() {
    let mut random = Random(16);
    for n in [1, 5, 33, 64] {
        let a = random_matrix(n, 8, 1.0, &mut random);
        let dense = a.dense();
        let reference =
            ldlt_dense(&Dense::from_fn(n, n, |i, j| dense[i][j]), Form::Symmetric).unwrap();
        let expected = reference.inertia();
        for tree_options in all_trees() {
            for method in METHODS {
                let options = with(policy(0.01, method));
                let symbolic = a.symbolic(&tree_options);
                let (ldlt, _) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
                let found = ldlt.inertia().unwrap();
                assert_eq!(
                    (found.positive, found.negative, found.zero),
                    (expected.positive, expected.negative, expected.zero)
                );
            }
        }
    }
}

/// In which triangle an entry is stored changes no bit of the factors.
#[test]
fn either_triangle_gives_the_same_bits() {
    let mut random = Random(17);
    for a in [
        grid(9, 13, 1.0, &mut random),
        saddle(60, 25, &mut random),
        random_matrix(90, 6, 2.0, &mut random),
    ] {
        let options = with(PivotPolicy::symmetric(0.01));
        let factors = |a: &Matrix| {
            let symbolic = a.symbolic(&TreeOptions::default());
            let (ldlt, quality) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
            let norms = [quality.min_norm, quality.max_norm];
            let mut quality = quality;
            (quality.min_norm, quality.max_norm) = (0.0, 0.0);
            (bits(&ldlt), quality, norms)
        };
        let (expected, quality, norms) = factors(&a);
        for _ in 0..3 {
            let mixed = a.mixed(&mut random);
            assert_ne!(mixed.cols, a.cols);
            let found = factors(&mixed);
            assert!(found.0 == expected);
            assert_eq!(found.1, quality);
            // Columns are summed in the order in which their entries are stored.
            for (found, norm) in found.2.iter().zip(norms) {
                assert!((found / norm - 1.0).abs() <= 16.0 * f64::EPSILON);
            }
        }
    }
}

/// Sizes are those of the definitions.
#[test]
fn entries_and_bytes_are_counted() {
    let mut random = Random(18);
    let a = saddle(60, 25, &mut random);
    for tree_options in all_trees() {
        let symbolic = a.symbolic(&tree_options);
        let options = with(PivotPolicy::symmetric(0.01));
        let (ldlt, _) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
        let mut below = 0;
        ldlt.for_each_l(|_, _, _| below += 1);
        assert_eq!(ldlt.lnz(), below + a.n() as u64);
        assert_eq!(ldlt.factor_entries(), ldlt.lnz() + ldlt.num_two() as u64);
        assert_eq!(ldlt.n(), a.n());
        assert!(std::sync::Arc::ptr_eq(ldlt.symbolic(), &symbolic));
        let definite = grid(12, 9, 8.0, &mut random);
        let symbolic = definite.symbolic(&tree_options);
        let options = with(PivotPolicy::DEFINITE);
        let (ldlt, _) = FrontalLdlt::factorize(&symbolic, &definite.values, &options).unwrap();
        assert_eq!(ldlt.factor_entries(), symbolic.factor_entries());
        let largest = symbolic.tree().max_front() as u64;
        let n = definite.n() as u64;
        // Elements of the forward sweep that wait for their parents, at most, in postorder.
        let tree = symbolic.tree();
        let below = |s: u32| tree.rows_below(s as usize).len() as u64;
        let (mut waiting, mut most) = (0, 0);
        for s in 0..tree.num_supernodes() as u32 {
            waiting -= tree
                .children(s as usize)
                .iter()
                .map(|&c| below(c))
                .sum::<u64>();
            waiting += below(s);
            most = most.max(waiting);
        }
        let of_thread = largest + most;
        assert_eq!(ldlt.solve_scratch_bytes(1, 1), 8 * (n + of_thread));
        // Two blocks of 16 at once; the tree is too small to be shared.
        assert_eq!(
            ldlt.solve_scratch_bytes(40, 2),
            2 * 16 * 8 * (n + of_thread)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Often singular: either an error that names a column, or factors.
    #[test]
    fn symmetric_matrices(a in strategies::symmetric_matrices(30), threads in 1usize..3) {
        let a = Matrix::from_sprs(&a);
        let symbolic = a.symbolic(&TreeOptions::default());
        for method in METHODS {
            let mut options = with(policy(0.01, method));
            options.threads = threads;
            match FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options) {
                Ok((ldlt, quality)) => check(&a, &ldlt, &quality, 100.0),
                Err(FrontalError::Singular { column }) => prop_assert!(column < a.n()),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }
}
