//! Which pivots are taken, delayed, accepted as zero and refused.

use luge_frontal::{FrontalError, FrontalLdlt, Options, Pivot, SymmetricQuality, TreeOptions};
use luge_reference::Dense;
use luge_sparse::{CancelFlag, Inertia, PivotPolicy, SmallPivots, SymmetricPivoting};

use crate::checks::{
    METHODS, all_trees, bits, check, factorize_and_check, factorize_and_check_all, policy, with,
};
use crate::eigenvalues::inertia_of;
use crate::matrices::{Matrix, Random, grid, random_matrix, saddle, tree_laplacian};

fn accepting(below: f64, method: SymmetricPivoting) -> Options {
    with(PivotPolicy {
        small: SmallPivots::Accept { below },
        ..policy(0.01, method)
    })
}

fn factorized(
    a: &Matrix,
    options: &Options,
) -> Result<(FrontalLdlt<f64>, SymmetricQuality), FrontalError> {
    FrontalLdlt::factorize(&a.symbolic(&TreeOptions::default()), &a.values, options)
}

#[test]
fn saddle_points_have_as_many_negative_eigenvalues_as_constraints() {
    let mut random = Random(5);
    let mut delayed = 0;
    for (n, m) in [(6, 2), (30, 10), (90, 40), (300, 100)] {
        let a = saddle(n, m, &mut random);
        for threshold in [0.01, 0.1, 0.5] {
            factorize_and_check_all(&a, threshold);
        }
        let expected = inertia_of(&a, 0.0);
        assert_eq!((expected.positive, expected.negative), (n, m));
        for method in METHODS {
            let (ldlt, quality) = factorized(&a, &with(policy(0.01, method))).unwrap();
            assert_eq!(ldlt.inertia().unwrap(), expected);
            assert_eq!(ldlt.rank(), n + m);
            delayed += quality.num_delayed;
        }
    }
    assert!(delayed > 40, "only {delayed} columns were delayed");
}

/// A zero on the diagonal and one row below: no pivot until that row is fully summed.
#[test]
fn zero_diagonals_are_delayed_to_their_partners() {
    let half = 20;
    let n = 2 * half;
    let mut random = Random(6);
    // [0 C; Cᵀ 0] with the first half of the columns first.
    let places = (0..half).flat_map(|i| (0..half).map(move |j| (half + i, j)));
    let entries: Vec<_> = places
        .map(|(i, j)| {
            let large = if i == half + j { 30.0 } else { 0.0 };
            (i, j, large + random.next())
        })
        .collect();
    let a = Matrix::from_entries(n, entries);
    factorize_and_check_all(&a, 0.01);
    let symbolic = a.symbolic(&all_trees()[2]);
    assert_eq!(symbolic.tree().num_supernodes(), half);
    for method in METHODS {
        let options = with(policy(0.01, method));
        let (ldlt, quality) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
        // The last of the columns is part of the root: its front has no row that the root has not.
        assert_eq!(quality.num_delayed, half - 1);
        assert_eq!(quality.num_two, half);
        let (positive, negative) = (half, half);
        let expected = Inertia {
            positive,
            negative,
            zero: 0,
        };
        assert_eq!(ldlt.inertia().unwrap(), expected);
        check(&a, &ldlt, &quality, 100.0);
    }
}

/// The diagonal of the first column is just large enough, or just too small, for the largest entry below it, which is in
/// the front of another column.
#[test]
fn the_threshold_is_what_decides() {
    for threshold in [0.0625, 0.25, 0.5] {
        for (diagonal, delayed) in [(threshold, 0), (threshold * 0.999, 1)] {
            // The front of the last three columns has a row that the first has not, so they are not merged.
            let entries = [
                (0, 0, diagonal),
                (2, 0, 1.0),
                (1, 1, 1.0),
                (2, 1, 0.5),
                (3, 1, 0.25),
                (2, 2, 4.0),
                (3, 2, 0.5),
                (3, 3, 4.0),
            ];
            let a = Matrix::from_entries(4, entries);
            let symbolic = a.symbolic(&all_trees()[2]);
            for method in METHODS {
                let options = with(policy(threshold, method));
                let (ldlt, quality) =
                    FrontalLdlt::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
                assert_eq!(quality.num_delayed, delayed, "{method:?}, {diagonal}");
                check(&a, &ldlt, &quality, threshold.recip());
            }
        }
    }
}

/// One front of many columns below which a row has large entries: blocks are taken back, and what is taken back is tried
/// column by column, unless blocks are all there is.
#[test]
fn what_a_block_takes_back_is_tried_again() {
    let (k, n) = (80, 120);
    let mut random = Random(7);
    let a = Matrix::full(n, |i, j| {
        let scale = if i >= 70 && j < 70 && j % 3 == 0 {
            1e3
        } else {
            1.0
        };
        let diagonal = if i == j { 8.0 } else { 0.0 };
        scale * random.next() + diagonal
    });
    // Columns from k on are apart from the others by a column of their own each, so that they are another front.
    let mut entries: Vec<_> = a.entries().collect();
    entries.extend((k..n).flat_map(|i| [(n + i - k, i, 0.25), (n + i - k, n + i - k, 4.0)]));
    let a = Matrix::from_entries(2 * n - k, entries);
    let quality = |method| {
        let options = with(policy(0.01, method));
        let symbolic = a.symbolic(&all_trees()[2]);
        let (ldlt, quality) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
        check(&a, &ldlt, &quality, 100.0);
        quality
    };
    let blocks = quality(SymmetricPivoting::Blocks);
    let alone = quality(SymmetricPivoting::BlocksAlone);
    let columns = quality(SymmetricPivoting::Columns);
    assert!(
        blocks.num_first_pass > 0 && blocks.num_second_pass > 0,
        "{blocks:?}"
    );
    assert!(alone.num_delayed > blocks.num_delayed, "{alone:?}");
    assert_eq!(
        (columns.num_first_pass, columns.num_second_pass),
        (0, a.n())
    );
    for found in [alone, columns] {
        assert_eq!(found.inertia, blocks.inertia);
    }
    factorize_and_check_all(&a, 0.01);
}

/// Zeros on the diagonal of a front with a parent, and the partner of each column far from it: none is delayed, for partners
/// are brought beside each other.
#[test]
fn partners_far_apart_find_each_other() {
    for half in [17, 40, 100] {
        let k = 2 * half;
        let front = Matrix::full(k, |i, j| if i == j + half { 2.0 } else { 0.0 });
        let mut entries: Vec<_> = front.entries().collect();
        entries.extend((0..k).map(|j| (k, j, 0.25)));
        // The parent has a row that the front has not, so they are not merged.
        entries.extend([(k, k, 4.0), (k + 1, k, 0.5), (k + 1, k + 1, 4.0)]);
        let a = Matrix::from_entries(k + 2, entries);
        let symbolic = a.symbolic(&all_trees()[2]);
        assert_eq!(symbolic.tree().num_supernodes(), 2);
        for method in [SymmetricPivoting::Blocks, SymmetricPivoting::Columns] {
            let options = with(policy(0.01, method));
            let (ldlt, quality) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
            assert_eq!(quality.num_delayed, 0);
            // The root may have one, too.
            assert!((half..=half + 1).contains(&quality.num_two));
            check(&a, &ldlt, &quality, 100.0);
        }
    }
}

/// A long front whose pivots, after one of order 1, are of order 2, so that one of them lies across every even number of
/// columns: what is below is updated by several stretches of pivots, and none is split.
#[test]
fn updates_split_no_pivot() {
    let k = 601;
    let front = Matrix::full(k, |i, j| match (i, j) {
        (0, 0) => 100.0,
        _ if i == j + 1 && j % 2 == 1 => 2.0,
        _ => 0.0,
    });
    let mut random = Random(22);
    let mut entries: Vec<_> = front.entries().collect();
    let below = (0..k).flat_map(|j| (k..k + 10).map(move |i| (i, j)));
    entries.extend(below.map(|(i, j)| (i, j, random.next())));
    entries.extend((k..k + 11).map(|i| (i, i, 700.0)));
    // The parent has a row that the front has not, so they are not merged.
    entries.extend((k..k + 10).map(|i| (k + 10, i, 1.0)));
    let a = Matrix::from_entries(k + 11, entries);
    let symbolic = a.symbolic(&all_trees()[2]);
    assert_eq!(symbolic.tree().fronts()[0].pivots as usize, k);
    for method in METHODS {
        let options = with(policy(0.01, method));
        let (ldlt, quality) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
        let mut across = 0;
        for (p, pair) in ldlt.d().chunks_exact(2).enumerate() {
            across += usize::from(pair[1] != 0.0 && (p + 1) % 256 == 0);
        }
        assert!(method == SymmetricPivoting::BlocksAlone || across == 2);
        check(&a, &ldlt, &quality, 100.0);
    }
}

/// Rows and columns multiplied by 1000 here and there, whole blocks of zeros, columns that are multiples of each other.
#[test]
fn torture() {
    let mut random = Random(8);
    for n in [17, 40, 95, 150] {
        for sparse in [false, true] {
            let mut dense = Dense::zeros(n, n);
            let a = if sparse {
                random_matrix(n, 8, 1.0, &mut random)
            } else {
                Matrix::full(n, |_, _| random.next())
            };
            for (i, j, v) in a.all_entries() {
                dense[(i, j)] = v;
            }
            for _ in 0..n / 8 {
                let i = random.below(n);
                for j in 0..n {
                    dense[(i, j)] *= 1000.0;
                    dense[(j, i)] *= 1000.0;
                }
            }
            // A singular diagonal block: two equal rows within it.
            for _ in 0..n / 16 + 1 {
                let at = random.below(n.saturating_sub(9).max(1));
                for j in at..(at + 8).min(n) {
                    let value = dense[(at, j)];
                    dense[(at + 1, j)] = value;
                    dense[(j, at + 1)] = value;
                }
                let value = dense[(at, at)];
                dense[(at + 1, at + 1)] = value;
                dense[(at + 1, at)] = value;
                dense[(at, at + 1)] = value;
            }
            let zero = random.below(n - 8);
            for i in zero..zero + 7 {
                for j in zero..zero + 7 {
                    dense[(i, j)] = 0.0;
                }
            }
            let entries = a.entries().map(|(i, j, _)| (i, j, dense[(i, j)]));
            let a = Matrix::from_entries(n, entries);
            for threshold in [0.01, 0.5] {
                factorize_and_check_all(&a, threshold);
            }
        }
    }
}

/// Any nonzero pivot is good enough at the threshold zero; at a half all are found all the same.
#[test]
fn extreme_thresholds() {
    let mut random = Random(9);
    for n in [5, 33, 70] {
        let a = random_matrix(n, 8, 1.0, &mut random);
        for method in METHODS {
            let (_, quality) = factorized(&a, &with(policy(0.0, method))).unwrap();
            assert!(quality.max_l.is_finite());
            assert_eq!(quality.inertia, inertia_of(&a, 0.0));
        }
        factorize_and_check_all(&a, 0.5);
    }
}

#[test]
fn inertia_is_that_of_the_eigenvalues() {
    let mut random = Random(10);
    for n in [1, 2, 31, 32, 33, 100] {
        for a in [
            Matrix::full(n, |_, _| random.next()),
            random_matrix(n, 6, 1.0, &mut random),
        ] {
            let expected = inertia_of(&a, 0.0);
            for method in METHODS {
                let (ldlt, _) = factorized(&a, &with(policy(0.01, method))).unwrap();
                assert_eq!(ldlt.inertia().unwrap(), expected, "{n}, {method:?}");
            }
        }
    }
}

/// C·Cᵀ − E·Eᵀ of random thin C and E of integers: rank and inertia are those of the columns.
fn deficient(n: usize, positive: usize, negative: usize, random: &mut Random) -> Matrix {
    let columns: Vec<Vec<f64>> = (0..positive + negative)
        .map(|_| (0..n).map(|_| (random.next() * 4.0).round()).collect())
        .collect();
    Matrix::full(n, |i, j| {
        let terms = columns.iter().enumerate().map(|(q, c)| {
            let sign = if q < positive { 1.0 } else { -1.0 };
            sign * c[i] * c[j]
        });
        terms.sum()
    })
}

#[test]
fn singular_matrices_are_solved_if_they_are_consistent() {
    let mut random = Random(11);
    let never = CancelFlag::new();
    for (n, positive, negative) in [(10, 3, 2), (40, 20, 7), (90, 30, 40), (90, 0, 1)] {
        let a = deficient(n, positive, negative, &mut random);
        let expected = inertia_of(&a, 1e-9);
        assert_eq!((expected.positive, expected.negative), (positive, negative));
        for method in METHODS {
            let (ldlt, quality) = factorized(&a, &accepting(1e-10, method)).unwrap();
            assert_eq!(ldlt.inertia().unwrap(), expected, "{method:?}");
            assert_eq!(ldlt.rank(), positive + negative);
            assert_eq!(quality.num_zero, n - positive - negative);
            let mut zeros = Vec::new();
            ldlt.for_each_pivot(|pivot| {
                if let Pivot::One { column, d: 0.0 } = pivot {
                    zeros.push(column);
                }
            });
            assert_eq!(zeros.len(), quality.num_zero);
            assert_eq!(zeros.iter().min().copied(), quality.first_zero);
            // What is dropped counts as zero.
            check_almost(&a, &ldlt, &quality);
            for nrhs in [1, 3] {
                let wanted: Vec<f64> = (0..n * nrhs).map(|_| random.next()).collect();
                let b: Vec<f64> = wanted.chunks(n).flat_map(|x| a.multiply(x)).collect();
                let mut x = b.clone();
                ldlt.solve(&mut x, nrhs, 1, &never).unwrap();
                let norm: f64 = a.column_norms().iter().fold(0.0, |m: f64, &v| m.max(v));
                for (x, b) in x.chunks(n).zip(b.chunks(n)) {
                    let size = x.iter().fold(1.0, |m: f64, v| m.max(v.abs()));
                    for (product, b) in a.multiply(x).iter().zip(b) {
                        assert!((product - b).abs() <= 1e-9 * norm * size);
                    }
                }
            }
        }
    }
}

/// L·D·Lᵀ is the matrix up to what was taken as zero.
fn check_almost(a: &Matrix, ldlt: &FrontalLdlt<f64>, quality: &SymmetricQuality) {
    let mut difference = crate::checks::product(
        &crate::checks::dense_factors(ldlt),
        luge_sparse::Form::Symmetric,
    );
    let mut largest = 0.0f64;
    for (i, j, v) in a.all_entries() {
        difference[i][j] -= v;
        largest = largest.max(v.abs());
    }
    let bound = 1e-10 * largest * quality.max_l.max(1.0).powi(2);
    for v in difference.iter().flatten() {
        assert!(v.abs() <= bound, "{v} > {bound}");
    }
}

/// Columns of zeros: stored ones, missing ones, and one that elimination makes.
#[test]
fn columns_of_zeros_are_named_or_accepted() {
    let mut random = Random(12);
    let mut a = grid(9, 8, 1.0, &mut random);
    let hit: Vec<usize> = a
        .entries()
        .enumerate()
        .filter(|(_, e)| e.0 == 17 || e.1 == 17)
        .map(|(p, _)| p)
        .collect();
    for p in hit {
        a.values[p] = 0.0;
    }
    let missing = Matrix::from_entries(3, [(0, 0, 1.0), (2, 2, -1.0)]);
    for method in METHODS {
        for tree_options in all_trees() {
            for (a, column, zero) in [(&a, 17, 1), (&missing, 1, 1)] {
                let symbolic = a.symbolic(&tree_options);
                let options = with(policy(0.01, method));
                let error = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap_err();
                assert_eq!(error, FrontalError::Singular { column });
                for below in [0.0, 1e-12] {
                    let options = accepting(below, method);
                    let (ldlt, quality) =
                        FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
                    assert_eq!((quality.num_zero, quality.first_zero), (zero, Some(column)));
                    assert_eq!(ldlt.rank(), a.n() - 1);
                    check(a, &ldlt, &quality, 100.0);
                }
            }
            for n in [1, 2, 31, 32, 33, 129] {
                let a = tree_laplacian(n, &mut random);
                let symbolic = a.symbolic(&tree_options);
                let options = with(policy(0.01, method));
                let error = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap_err();
                assert!(matches!(error, FrontalError::Singular { .. }), "{error}");
                let options = accepting(0.0, method);
                let (ldlt, _) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
                let expected = Inertia {
                    positive: n - 1,
                    negative: 0,
                    zero: 1,
                };
                assert_eq!(ldlt.inertia().unwrap(), expected);
            }
        }
    }
}

/// What is small is so relative to the largest entry, or to what the caller says it is.
#[test]
fn small_is_relative_to_the_matrix() {
    let a = Matrix::from_entries(3, [(0, 0, 8.0), (1, 1, 1e-3), (2, 2, 2.0)]);
    for (below, max_b, zeros) in [
        (1e-4, None, 0),
        (1.3e-4, None, 1),
        (1e-4, Some(16.0), 1),
        (0.2, Some(16.0), 2),
    ] {
        let mut options = accepting(below, SymmetricPivoting::Blocks);
        options.max_b = max_b;
        let (ldlt, quality) = factorized(&a, &options).unwrap();
        assert_eq!(quality.num_zero, zeros);
        assert_eq!(quality.max_pivot, 8.0);
        let mut x = [8.0, 1e-3, 2.0];
        ldlt.solve(&mut x, 1, 1, &CancelFlag::new()).unwrap();
        let expected = [
            1.0,
            if zeros > 0 { 0.0 } else { 1.0 },
            if zeros > 1 { 0.0 } else { 1.0 },
        ];
        assert_eq!(x, expected);
    }
}

#[test]
fn eigenvalues_of_blocks_are_told_by_size() {
    // Eigenvalues 2.5 and −1.5 of a block, and 5.
    let a = Matrix::from_entries(3, [(0, 0, 0.5), (1, 0, 2.0), (1, 1, 0.5), (2, 2, 5.0)]);
    for (scale, method) in [(1.0, METHODS[0]), (1e200, METHODS[2]), (1e-200, METHODS[1])] {
        let values: Vec<f64> = a.values.iter().map(|v| v * scale).collect();
        let symbolic = a.symbolic(&TreeOptions::default());
        let options = with(policy(0.5, method));
        let (ldlt, quality) = FrontalLdlt::factorize(&symbolic, &values, &options).unwrap();
        assert_eq!(quality.num_two, 1);
        assert_eq!((quality.inertia.positive, quality.inertia.negative), (2, 1));
        assert!((quality.min_pivot / scale - 1.5).abs() < 1e-14);
        assert!((quality.max_pivot / scale - 5.0).abs() < 1e-14);
        assert_eq!(ldlt.num_two(), 1);
    }
}

#[test]
fn definite_matrices_have_no_other_pivots() {
    let mut random = Random(14);
    for n in [1, 31, 32, 33, 64, 100] {
        let definite = Matrix::full(n, |i, j| {
            random.next() + if i == j { 2.0 * n as f64 } else { 0.0 }
        });
        factorize_and_check(&definite, &with(PivotPolicy::DEFINITE));
        let (ldlt, quality) = factorized(&definite, &with(PivotPolicy::DEFINITE)).unwrap();
        assert_eq!(ldlt.inertia().unwrap().positive, n);
        assert_eq!((quality.num_two, quality.num_first_pass), (0, n));
        // A column in the middle whose pivot comes out negative, zero, or not at all.
        let at = n / 2;
        for value in [-3.0, 0.0] {
            let mut values = definite.values.clone();
            let diagonal = definite
                .entries()
                .position(|e| (e.0, e.1) == (at, at))
                .unwrap();
            values[diagonal] = value;
            let symbolic = definite.symbolic(&TreeOptions::default());
            let options = with(PivotPolicy::DEFINITE);
            let error = FrontalLdlt::factorize(&symbolic, &values, &options).unwrap_err();
            let FrontalError::NotPositiveDefinite {
                column,
                value: pivot,
            } = error
            else {
                panic!("{error}");
            };
            assert_eq!(column, at);
            assert!(
                pivot <= value && pivot >= value - 1.0,
                "{pivot} for {value}"
            );
        }
    }
    // Semidefinite: the last pivot is exactly zero.
    let a = tree_laplacian(40, &mut random);
    let error = factorized(&a, &with(PivotPolicy::DEFINITE)).unwrap_err();
    assert_eq!(
        error,
        FrontalError::NotPositiveDefinite {
            column: 39,
            value: 0.0
        }
    );
}

/// New values need other pivots and other delays, and get them; back again, nothing of them stays.
#[test]
fn refactorizations_search_anew() {
    let mut random = Random(15);
    let a = saddle(60, 25, &mut random);
    let symbolic = a.symbolic(&TreeOptions::default());
    for method in METHODS {
        let options = with(policy(0.01, method));
        let (mut ldlt, quality) = FrontalLdlt::factorize(&symbolic, &a.values, &options).unwrap();
        let before = bits(&ldlt);
        // A dominant diagonal: nothing is delayed.
        let entries: Vec<_> = a.entries().collect();
        let other: Vec<f64> = entries
            .iter()
            .map(|&(i, j, v)| if i == j { 20.0 } else { v })
            .collect();
        let changed = ldlt.refactorize(&other, &options).unwrap();
        assert!(quality.num_delayed > 0 && changed.num_delayed == 0);
        let (fresh, expected) = FrontalLdlt::factorize(&symbolic, &other, &options).unwrap();
        assert_eq!(changed, expected);
        assert!(bits(&ldlt) == bits(&fresh));
        assert_eq!(ldlt.refactorize(&a.values, &options).unwrap(), quality);
        assert!(bits(&ldlt) == before);
    }
}
