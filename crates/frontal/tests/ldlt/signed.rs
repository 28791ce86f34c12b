//! Pivots of expected signs, and what replaces them.

use std::sync::Arc;

use luge_frontal::{FrontalError, FrontalLdlt, FrontalScalar, Options, TreeOptions};
use luge_sparse::{Form, Inertia, MemoryBudget, PivotPolicy, RealScalar};

use crate::checks::{all_trees, bits, check, dense_factors, in_form, product, with};
use crate::matrices::{Matrix, Random, Turn, grid, random_matrix, saddle};

fn expecting(below: f64, expected: &[f64]) -> Options {
    Options {
        expected: Some(Arc::from(expected)),
        ..with(PivotPolicy::signed(below))
    }
}

/// D in elimination order and the columns that were replaced, ascending, by dense elimination.
fn by_definition(
    a: &Matrix,
    order: &[usize],
    expected: &[f64],
    below: f64,
) -> (Vec<f64>, Vec<u32>) {
    let mut rest = a.dense();
    let (mut d, mut replaced) = (Vec::new(), Vec::new());
    for (at, &p) in order.iter().enumerate() {
        let mut pivot = rest[p][p];
        if pivot * expected[p].signum() <= below * expected[p].abs() {
            pivot = expected[p];
            replaced.push(p as u32);
        }
        d.push(pivot);
        for &i in &order[at + 1..] {
            let l = rest[i][p] / pivot;
            for &j in &order[at + 1..] {
                rest[i][j] -= l * rest[p][j];
            }
        }
    }
    replaced.sort_unstable();
    (d, replaced)
}

/// Factorizes, and compares with the definition: D, what was replaced, and the matrix that was factorized. How many pivots
/// were replaced.
fn factorize_and_check<F: FrontalScalar + RealScalar>(
    a: &Matrix,
    options: &Options,
    below: f64,
) -> usize {
    let expected = options.expected.as_deref().unwrap();
    let symbolic = a.symbolic(&TreeOptions::default());
    let (n, epsilon) = (a.n(), F::epsilon().to_f64());
    let mut count = 0;
    for kernels in F::all_symmetric_kernels(Form::Symmetric) {
        let (ldlt, quality) =
            FrontalLdlt::factorize_with(&symbolic, &a.cast::<F>(), options, kernels).unwrap();
        let order = ldlt.elimination_order();
        let (d, replaced) = by_definition(a, &order, expected, below);
        assert_eq!(ldlt.perturbed(), Some(&replaced[..]));
        assert_eq!(quality.num_perturbed, replaced.len());
        let first = replaced.first().map(|&column| column as usize);
        assert_eq!(quality.first_perturbed, first);
        let error = 8.0 * (n + 1) as f64 * epsilon * quality.growth * quality.max_norm;
        for (pair, expected) in ldlt.d().chunks_exact(2).zip(&d) {
            assert!((pair[0].to_f64() - expected).abs() <= error);
            assert!(pair[1] == F::zero());
        }
        // The diagonal of what was replaced is another one, and nothing else.
        let product = product(&dense_factors(&ldlt), Form::Symmetric);
        for (i, row) in a.dense().iter().enumerate() {
            for (j, v) in row.iter().enumerate() {
                let is_replaced = i == j && replaced.binary_search(&(i as u32)).is_ok();
                assert!(is_replaced || (product[i][j] - v).abs() <= error);
            }
        }
        if replaced.is_empty() {
            check(a, &ldlt, &quality, f64::INFINITY);
        }
        count = replaced.len();
    }
    count
}

/// With as many diagonal entries as columns, so that there is something to add to.
fn with_diagonal(a: &Matrix) -> Matrix {
    let entries = a.entries().chain((0..a.n()).map(|i| (i, i, 0.0)));
    Matrix::from_entries(a.n(), entries.collect::<Vec<_>>())
}

#[test]
fn quasidefinite_matrices_have_the_signs_that_are_expected() {
    let mut random = Random(31);
    for (n, m) in [(1, 0), (20, 11), (90, 40), (300, 100)] {
        let a = saddle(n, m, &mut random);
        let shifted = a.entries().map(|(i, j, v)| {
            let shift = if i != j {
                0.0
            } else if i < n {
                4.0
            } else {
                -4.0
            };
            (i, j, v + shift)
        });
        let mut entries: Vec<_> = shifted.collect();
        let has_diagonal = |i: usize| entries.iter().any(|e| (e.0, e.1) == (i, i));
        let missing: Vec<_> = (n..n + m).filter(|&i| !has_diagonal(i)).collect();
        entries.extend(missing.into_iter().map(|i| (i, i, -4.0)));
        let a = Matrix::from_entries(n + m, entries);
        let expected: Vec<f64> = (0..n + m)
            .map(|i| if i < n { 1e-8 } else { -1e-8 })
            .collect();
        assert_eq!(
            factorize_and_check::<f64>(&a, &expecting(0.5, &expected), 0.5),
            0
        );
        assert_eq!(
            factorize_and_check::<f32>(&a, &expecting(0.5, &expected), 0.5),
            0
        );
        let symbolic = a.symbolic(&TreeOptions::default());
        let options = expecting(0.0, &expected);
        let (ldlt, _) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
        let inertia = Inertia {
            positive: n,
            negative: m,
            zero: 0,
        };
        assert_eq!(ldlt.inertia().unwrap(), inertia);
    }
}

/// In fronts of every size.
#[test]
fn pivots_of_another_sign_are_replaced() {
    let mut random = Random(32);
    let mut replaced = 0;
    let sizes = [1, 2, 31, 32, 33, 64, 100, 150];
    let dense = sizes.map(|n| Matrix::full(n, |_, _| random.next()));
    let sparse = [
        grid(12, 11, 0.0, &mut random),
        with_diagonal(&random_matrix(150, 3, 0.5, &mut random)),
    ];
    for a in dense.iter().chain(&sparse) {
        let expected: Vec<f64> = (0..a.n())
            .map(|_| random.next().signum() * (30.0 + random.next()))
            .collect();
        for below in [0.0, 0.1, 1.0] {
            let options = expecting(below, &expected);
            let count = factorize_and_check::<f64>(a, &options, below);
            if below == 1.0 {
                assert!(count > 0, "what is too small is replaced too");
            }
            replaced += count;
        }
    }
    assert!(replaced > 1000, "only {replaced} pivots were replaced");
}

#[test]
fn zero_is_of_no_sign() {
    let a = Matrix::from_entries(3, [(0, 0, 0.0), (1, 1, 3.0), (2, 2, -1.0)]);
    let expected = [0.5, 0.25, -0.125];
    let symbolic = a.symbolic(&TreeOptions::default());
    let options = expecting(0.0, &expected);
    let (ldlt, quality) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
    assert_eq!(
        (ldlt.perturbed(), quality.first_perturbed),
        (Some(&[0][..]), Some(0))
    );
    let order = ldlt.elimination_order();
    let at = order.iter().position(|&column| column == 0).unwrap();
    assert_eq!(ldlt.d()[2 * at], 0.5);
    // As large as what is expected, and a little larger: 1.0 is at the bound.
    let options = expecting(1.0, &[1.0, 3.0, -0.5]);
    let (ldlt, _) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
    assert_eq!(ldlt.perturbed(), Some(&[0, 1][..]));
}

#[test]
fn nothing_stays_of_pivots_that_were_replaced() {
    let mut random = Random(33);
    let a = Matrix::full(200, |_, _| random.next());
    let symbolic = a.symbolic(&TreeOptions::default());
    let expected: Vec<f64> = (0..200)
        .map(|i| if i % 3 == 0 { 20.0 } else { -20.0 })
        .collect();
    let options = expecting(0.1, &expected);
    let (mut ldlt, quality) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
    let before = (bits(&ldlt), ldlt.perturbed().unwrap().to_vec());
    assert!(quality.num_perturbed > 50);
    // All signs are as they are expected.
    let entries: Vec<_> = a.entries().collect();
    let value = |&(i, j, v): &(usize, usize, f64)| if i == j { 20.0 * expected[i] } else { v };
    let dominant: Vec<f64> = entries.iter().map(value).collect();
    let quality = ldlt.refactorize(&dominant, &options).unwrap();
    assert_eq!((quality.num_perturbed, quality.first_perturbed), (0, None));
    assert_eq!(ldlt.perturbed(), Some(&[][..]));
    for threads in [1, 3] {
        let options = Options {
            threads,
            ..options.clone()
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().unwrap();
        pool.install(|| ldlt.refactorize(&a.values, &options))
            .unwrap();
        assert!((bits(&ldlt), ldlt.perturbed().unwrap().to_vec()) == before);
    }
}

/// Small fronts are worked on in one go where nothing is expected of their pivots, and step by step where something is: with the same
/// bits, on threads as well.
#[test]
fn what_is_expected_changes_no_bits_of_definite_factors() {
    fn check_all<F: FrontalScalar<Wide = F, Real = f64>>(a: &Matrix<F>) {
        let n = a.n();
        let expected = vec![1e-8; n];
        for tree_options in all_trees() {
            let symbolic = a.symbolic(&tree_options);
            for kernels in F::all_symmetric_kernels(a.form) {
                let factorized = |options: &Options| {
                    let options = in_form(options, a.form);
                    let made = FrontalLdlt::factorize_with(&symbolic, &a.values, &options, kernels);
                    let (ldlt, quality) = made.unwrap();
                    (bits(&ldlt), quality)
                };
                let at_once = with(PivotPolicy::DEFINITE);
                let (in_one_go, quality) = factorized(&at_once);
                let (step_by_step, expected) = factorized(&expecting(0.1, &expected));
                assert!(in_one_go == step_by_step);
                assert_eq!(quality, expected);
                let pool = rayon::ThreadPoolBuilder::new().num_threads(3);
                let shared = Options {
                    threads: 3,
                    ..at_once
                };
                let shared = pool.build().unwrap().install(|| factorized(&shared));
                assert!(shared == (in_one_go, quality));
            }
        }
    }
    let mut random = Random(34);
    // A star has leaves that hand on nothing but a number, and a root with a child for each.
    let star = |n: usize| {
        let edges = (1..n).map(|i| (i, 0, -1.0));
        let diagonal = (0..n).map(move |i| (i, i, if i == 0 { n as f64 } else { 1.5 }));
        Matrix::from_entries(n, edges.chain(diagonal).collect::<Vec<_>>())
    };
    let mut matrices = vec![
        Matrix::full(1, |_, _| 2.0),
        star(5),
        star(70),
        grid(31, 1, 8.0, &mut random),
        grid(15, 17, 8.0, &mut random),
    ];
    for per_column in [1, 2, 5] {
        let a = random_matrix(150, per_column, 0.0, &mut random);
        let norms = a.column_norms();
        let diagonal = (0..150).map(|i| (i, i, 2.0 * norms[i] + 0.1));
        let off = a.entries().filter(|(i, j, _)| i != j);
        matrices.push(Matrix::from_entries(
            150,
            off.chain(diagonal).collect::<Vec<_>>(),
        ));
    }
    for a in &matrices {
        check_all(a);
        check_all(&a.turned(Form::Hermitian, Turn::Angles));
    }
}

#[test]
fn the_list_of_replaced_pivots_is_reserved() {
    let mut random = Random(34);
    let a = Matrix::full(100, |_, _| random.next());
    let symbolic = a.symbolic(&TreeOptions::default());
    let memory = MemoryBudget::new(1 << 30);
    let options = Options {
        memory: memory.clone(),
        ..expecting(1.0, &[30.0; 100])
    };
    let (mut ldlt, quality) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
    let with_all = memory.available();
    assert_eq!(quality.num_perturbed, 100);
    let identity = |(i, j, _)| if i == j { 31.0 } else { 0.0 };
    let none: Vec<f64> = a.entries().map(identity).collect();
    ldlt.refactorize(&none, &options).unwrap();
    assert_eq!(memory.available() - with_all, 400);
    drop(ldlt);
    assert_eq!(memory.available(), 1 << 30);
}

#[test]
fn numbers_must_be_there_to_be_replaced() {
    let a = Matrix::full(3, |i, j| if i == j { 1e200 } else { 1e308 });
    let symbolic = a.symbolic(&TreeOptions::default());
    let options = expecting(0.0, &[1.0; 3]);
    let error = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap_err();
    assert!(matches!(error, FrontalError::NotFinite { .. }), "{error}");
}

#[test]
#[should_panic(expected = "what is expected of each pivot")]
fn signs_are_expected_of_all_pivots() {
    let a = Matrix::full(3, |_, _| 1.0);
    let symbolic = a.symbolic(&TreeOptions::default());
    let _ = FrontalLdlt::factorize(&symbolic, &a.values, &expecting(0.0, &[1.0; 2]));
}

#[test]
#[should_panic(expected = "pivots are expected to be normal numbers")]
fn nothing_is_replaced_by_what_vanishes() {
    let a = Matrix::full(1, |_, _| 1.0);
    let symbolic = a.symbolic(&TreeOptions::default());
    let values: Vec<f32> = a.cast();
    let _ = FrontalLdlt::factorize(&symbolic, &values, &expecting(0.0, &[1e-60]));
}
