//! Columns that are delayed so often and no more.

use luge_frontal::{FrontalError, FrontalLdlt, FrontalScalar, Options, SymmetricQuality};
use luge_sparse::{Form, PivotPolicy, RealScalar, SmallPivots, SymmetricPivoting};
use luge_testkit::generators::mixed::{darcy, stokes};

use crate::checks::{METHODS, all_trees, bits, dense_factors, policy, product, with};
use crate::matrices::{Matrix, Random, grid, random_matrix, saddle};

const U: f64 = 0.01;

fn limited(max_delays: u32, below: f64, method: SymmetricPivoting) -> Options {
    with(PivotPolicy {
        small: SmallPivots::Limited { max_delays, below },
        ..policy(U, method)
    })
}

/// Checks that factors are those of the matrix, but for the diagonal where pivots were replaced: there by `most` at most, up to
/// rounding.
fn check<F: FrontalScalar + RealScalar>(
    a: &Matrix,
    (ldlt, quality): &(FrontalLdlt<F>, SymmetricQuality),
    most: f64,
) {
    let replaced = ldlt.perturbed().unwrap();
    assert_eq!(quality.num_perturbed, replaced.len());
    let first = replaced.first().map(|&column| column as usize);
    assert_eq!(quality.first_perturbed, first);
    assert!(replaced.is_sorted_by(|a, b| a < b));
    let (n, epsilon) = (a.n(), RealScalar::to_f64(F::epsilon()));
    let error = 8.0 * (n + 1) as f64 * epsilon * quality.growth * quality.max_norm;
    let product = product(&dense_factors(ldlt), Form::Symmetric);
    for (i, row) in a.dense().iter().enumerate() {
        for (j, v) in row.iter().enumerate() {
            let is_replaced = i == j && replaced.binary_search(&(i as u32)).is_ok();
            // A small pivot is replaced by one that is small, so the change is no more than both.
            let bound = if is_replaced { 2.0 * most } else { 0.0 } + error;
            let difference = (product[i][j] - v).abs();
            assert!(difference <= bound, "({i}, {j}): {difference:e}, {bound:e}");
        }
    }
}

/// A chain of fronts, in the first of which stands `first` on the diagonal, above a larger entry in the last row.
fn chain(n: usize, first: &[(usize, usize, f64)]) -> Matrix {
    let mut entries = first.to_vec();
    let k = 1 + first.iter().map(|entry| entry.0).max().unwrap();
    for i in 0..n {
        // All of the first front have the same rows below it.
        let next = if i < k { k } else { i + 1 };
        if next + 1 < n {
            entries.push((next, i, 1e-6));
        }
        entries.push(if i < k { (n - 1, i, 1.0) } else { (i, i, 2.0) });
    }
    Matrix::from_entries(n, entries)
}

#[test]
fn columns_are_put_off_as_often_as_is_said() {
    let a = chain(12, &[(0, 0, 0.0)]);
    let symbolic = a.symbolic(&all_trees()[2]);
    let below = 1e-3;
    let smallest = 2.0 * below;
    for method in METHODS {
        let (_, quality) =
            FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &with(policy(U, method))).unwrap();
        let delays = quality.num_delayed;
        assert!(delays > 5, "{delays}");
        for max_delays in 0..=delays + 1 {
            let options = limited(max_delays as u32, below, method);
            let found = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
            check(&a, &found, smallest);
            let (ldlt, quality) = found;
            assert_eq!(quality.num_delayed, max_delays.min(delays));
            assert_eq!(ldlt.num_delayed(), quality.num_delayed);
            let order = ldlt.elimination_order();
            let place = order.iter().position(|&column| column == 0).unwrap();
            if max_delays < delays {
                assert_eq!(ldlt.perturbed(), Some(&[0][..]));
                // What eliminated columns take off it makes it negative.
                let sign = if max_delays == 0 { 1.0 } else { -1.0 };
                assert_eq!(ldlt.d()[2 * place], sign * smallest);
                assert!((quality.max_l * smallest - 1.0).abs() < 1e-6);
            } else {
                assert_eq!(ldlt.perturbed(), Some(&[][..]));
                assert!(quality.max_l <= 1.0 / U);
            }
        }
    }
}

#[test]
fn pivots_that_are_not_small_are_taken_as_they_are() {
    for method in METHODS {
        // Of order 1 and 2; too small for what stands below them, but no smaller than others are replaced by.
        for (first, of_two) in [
            (&[(0, 0, -4e-3)][..], 0.0),
            (&[(0, 0, 0.0), (1, 0, 4e-3), (1, 1, 0.0)], 4e-3),
        ] {
            let a = chain(12, first);
            let symbolic = a.symbolic(&all_trees()[2]);
            let factorize = |below: f64| {
                let options = limited(0, below, method);
                let found = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
                check(&a, &found, 2.0 * below);
                found
            };
            let (ldlt, quality) = factorize(1.9e-3);
            assert_eq!(ldlt.perturbed(), Some(&[][..]));
            assert_eq!((quality.num_delayed, ldlt.d()[1]), (0, of_two));
            assert!((quality.max_l * 4e-3 - 1.0).abs() < 1e-6);
            let (ldlt, _) = factorize(2.1e-3);
            let columns: &[u32] = if of_two == 0.0 { &[0] } else { &[0, 1] };
            assert_eq!((ldlt.perturbed(), ldlt.d()[1]), (Some(columns), 0.0));
        }
    }
}

/// Of columns that are due and have small pivots the one with the largest comes first.
#[test]
fn what_is_nearest_to_a_pivot_is_replaced_first() {
    let a = chain(12, &[(0, 0, 1e-9), (1, 0, 1e-3), (1, 1, 1.9e-3)]);
    let symbolic = a.symbolic(&all_trees()[2]);
    for method in METHODS {
        let options = limited(0, 1e-3, method);
        let found = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
        check(&a, &found, 2e-3);
        assert_eq!(found.0.elimination_order()[..2], [1, 0]);
        assert_eq!(found.0.d()[..4], [2e-3, 0.0, -2e-3, 0.0]);
    }
}

/// Where a column that is due is eliminated, others of its front have pivots that had none.
#[test]
fn others_are_searched_once_more() {
    let n = 12;
    // Column 0 comes to the front of column 1, which has no pivot but by the former, and then one by far.
    let mut entries = vec![
        (0, 0, 0.0),
        (1, 0, 0.005),
        (n - 1, 0, 1.0),
        (1, 1, 0.0),
        (2, 1, 1e-6),
        (n - 1, 1, 0.0251),
        (n - 1, n - 1, 2.0),
    ];
    for i in 2..n - 1 {
        entries.push((i, i, 2.0));
        entries.push((i + 1, i, 1e-6));
    }
    let a = Matrix::from_entries(n, entries);
    let symbolic = a.symbolic(&all_trees()[2]);
    for method in METHODS {
        let options = limited(1, 0.1, method);
        let found = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
        check(&a, &found, 0.2);
        assert_eq!(found.1.num_delayed, 1);
        assert_eq!(found.0.perturbed(), Some(&[0][..]));
    }
}

/// More columns than windows and updates take at a time, of which all or none have to be replaced.
#[test]
fn many_columns_are_due_at_once() {
    let k = 200;
    for (size, below) in [(1e-6, 1e-3), (4e-3, 1e-6)] {
        let mut random = Random(23);
        let pairs = (0..k).flat_map(|i| (0..=i).map(move |j| (i, j)));
        let mut block: Vec<_> = pairs
            .map(|(i, j)| (i, j, size * random.next() / k as f64))
            .collect();
        block
            .iter_mut()
            .filter(|entry| entry.0 == entry.1)
            .for_each(|entry| entry.2 = size);
        let a = chain(k + 10, &block);
        let symbolic = a.symbolic(&all_trees()[2]);
        for method in METHODS {
            let options = limited(0, below, method);
            let found = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
            check(&a, &found, 2.0 * below);
            let expected = if size < below { k } else { 0 };
            assert_eq!((found.1.num_delayed, found.1.num_perturbed), (0, expected));
        }
    }
}

fn matrices() -> Vec<Matrix> {
    let mut random = Random(17);
    let reversed = |a: Matrix| {
        let n = a.n();
        let entries: Vec<_> = a.entries().collect();
        let turned = entries
            .into_iter()
            .map(|(i, j, v)| (n - 1 - i, n - 1 - j, v));
        Matrix::from_entries(n, turned.collect::<Vec<_>>())
    };
    vec![
        reversed(saddle(60, 25, &mut random)),
        reversed(Matrix::from_sprs(&darcy(6, 6, 2))),
        reversed(Matrix::from_sprs(&stokes(5, 5))),
        random_matrix(120, 5, 0.3, &mut random),
        grid(15, 14, 0.5, &mut random),
    ]
}

#[test]
fn delays_are_limited_in_any_matrix() {
    let (mut delayed, mut fewer, mut replaced) = (0, 0, 0);
    for a in matrices() {
        let most = a.values.iter().fold(0.0f64, |most, v| most.max(v.abs()));
        for method in METHODS {
            for tree in all_trees() {
                let symbolic = a.symbolic(&tree);
                let unlimited =
                    FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &with(policy(U, method)));
                let before = unlimited.unwrap().1.num_delayed;
                for max_delays in [0, 1, 3] {
                    let options = limited(max_delays, 1e-3, method);
                    let found = FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options);
                    let mut found = found.unwrap();
                    check(&a, &found, 1e-3 * most);
                    let single = a.cast::<f32>();
                    let in_single = FrontalLdlt::factorize(&symbolic, &single, &options).unwrap();
                    check(&a, &in_single, 1e-3 * most);
                    let (ldlt, quality) = &mut found;
                    assert!(quality.num_delayed <= max_delays as usize * a.n());
                    if max_delays == 0 {
                        assert_eq!(quality.num_delayed, 0);
                    }
                    delayed += before;
                    fewer += quality.num_delayed;
                    replaced += quality.num_perturbed;
                    // As often as one likes, on any number of threads.
                    let (first, columns) = (bits(ldlt), ldlt.perturbed().unwrap().to_vec());
                    for threads in [1, 2, 4] {
                        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                        let options = Options {
                            threads,
                            ..options.clone()
                        };
                        let pool = pool.build().unwrap();
                        let again = pool.install(|| ldlt.refactorize(&a.values, &options));
                        assert_eq!(again.unwrap(), *quality);
                        assert_eq!(bits(ldlt), first);
                        assert_eq!(ldlt.perturbed(), Some(&columns[..]));
                    }
                }
            }
        }
    }
    assert!(
        replaced > 100 && 2 * fewer < delayed && fewer > 100,
        "{replaced} replaced, {fewer} of {delayed} delays"
    );
}

#[test]
fn no_limit_that_is_reached_is_no_limit() {
    let a = &matrices()[0];
    let symbolic = a.symbolic(&all_trees()[0]);
    for method in METHODS {
        let factorize = |options: &Options| {
            FrontalLdlt::<f64>::factorize(&symbolic, &a.values, options)
                .unwrap()
                .0
        };
        let unlimited = factorize(&with(policy(U, method)));
        assert_eq!(unlimited.perturbed(), None);
        let never = factorize(&limited(u32::MAX, 0.1, method));
        assert_eq!(
            (bits(&never), never.perturbed()),
            (bits(&unlimited), Some(&[][..]))
        );
    }
}

#[test]
fn columns_of_zeros_are_refused_and_numbers_that_are_none_too() {
    for method in METHODS {
        let a = chain(12, &[(0, 0, 0.0)]);
        let zeros: Vec<_> = a
            .entries()
            .filter(|entry| entry.1 != 4 && entry.0 != 4)
            .collect();
        let zeros = Matrix::from_entries(12, zeros);
        let options = limited(0, 0.1, method);
        let symbolic = zeros.symbolic(&all_trees()[2]);
        let error = FrontalLdlt::<f64>::factorize(&symbolic, &zeros.values, &options).unwrap_err();
        assert!(
            matches!(error, FrontalError::Singular { column: 4 }),
            "{error}"
        );
        // Products that overflow.
        let huge = chain(12, &[(0, 0, 1e-300)]);
        let scaled = huge
            .entries()
            .map(|(i, j, v)| (i, j, if i == j { v } else { v * 1e300 }));
        let huge = Matrix::from_entries(12, scaled.collect::<Vec<_>>());
        let symbolic = huge.symbolic(&all_trees()[2]);
        let options = limited(0, 0.0, method);
        let error = FrontalLdlt::<f64>::factorize(&symbolic, &huge.values, &options).unwrap_err();
        assert!(matches!(error, FrontalError::NotFinite { .. }), "{error}");
    }
}
