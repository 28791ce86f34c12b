//! Which pivots are taken, delayed, replaced, kept and refused.

use luge_frontal::{FrontalError, FrontalLu, Options, Symbolic, TreeOptions};
use luge_sparse::{PivotPolicy, Quality};

use crate::checks::{all_trees, bits, check, factor_difference, factorize_and_check};
use crate::matrices::{Matrix, Random, grid, random_matrix, saddle, tree_laplacian};

/// Fronts without children that eliminate one column whose diagonal is zero: they cannot.
fn hopeless_leaves(a: &Matrix, symbolic: &Symbolic) -> usize {
    let dense = a.dense();
    symbolic
        .tree()
        .fronts()
        .iter()
        .filter(|f| f.num_children == 0 && f.pivots == 1 && f.below > 0)
        .filter(|f| {
            let column = symbolic.tree().perm()[f.start as usize] as usize;
            dense[column][column] == 0.0
        })
        .count()
}

#[test]
fn saddle_points_delay_their_pivots() {
    let mut random = Random(5);
    let mut hopeless = 0;
    for (n, m) in [(6, 2), (30, 10), (90, 40), (400, 150)] {
        let a = saddle(n, m, &mut random);
        for threshold in [0.05, 0.1, 1.0] {
            let options = Options {
                pivots: PivotPolicy::threshold(threshold),
                ..Options::default()
            };
            factorize_and_check(&a, &options);
        }
        for tree_options in all_trees() {
            let symbolic = a.symbolic(&tree_options);
            let (lu, quality) =
                FrontalLu::<f64>::factorize(&symbolic, &a.values, &Options::default()).unwrap();
            assert_eq!(lu.num_delayed(), quality.num_delayed);
            let leaves = hopeless_leaves(&a, &symbolic);
            assert!(quality.num_delayed >= leaves);
            hopeless += leaves;
        }
    }
    assert!(
        hopeless > 100,
        "only {hopeless} leaves with a zero diagonal"
    );
}

/// [εI B; C 0] with a large root: nothing can be eliminated before it, and nothing on the diagonal.
#[test]
fn tiny_pivots_are_delayed_to_the_root() {
    let half = 20;
    let n = 2 * half;
    let mut random = Random(6);
    let mut entries = Vec::new();
    for i in 0..half {
        entries.push((i, i, 1e-20));
        for j in 0..half {
            let large = if i == j { 30.0 } else { 0.0 };
            entries.push((i, half + j, large + random.next()));
            entries.push((half + i, j, large + random.next()));
        }
    }
    let a = Matrix::from_entries(n, entries);
    factorize_and_check(&a, &Options::default());
    let symbolic = a.symbolic(&all_trees()[2]);
    // The last of the columns is part of the root: its front has no row that the root has not.
    assert_eq!(symbolic.tree().num_supernodes(), half);
    let (lu, quality) =
        FrontalLu::<f64>::factorize(&symbolic, &a.values, &Options::default()).unwrap();
    assert_eq!(quality.num_delayed, half - 1);
    assert_eq!(quality.num_off_diagonal, n);
    check(&a, &lu, &quality);
}

/// A star with one tiny diagonal. What arrives at the center decides whether its pivots stand on the
/// diagonal: it is the center's diagonal less 1/2 for each of the other leaves.
#[test]
fn a_delayed_pivot_takes_the_diagonal_if_it_can() {
    let n = 40;
    for (center, off_diagonal) in [(1.0, 0), (0.5 * (n - 2) as f64, 2)] {
        let mut entries = vec![(n - 1, n - 1, center)];
        for i in 0..n - 1 {
            entries.push((i, i, if i == 3 { 1e-20 } else { 2.0 }));
            entries.push((n - 1, i, 1.0));
            entries.push((i, n - 1, 1.0));
        }
        let star = Matrix::from_entries(n, entries);
        let symbolic = star.symbolic(&all_trees()[2]);
        let (lu, quality) =
            FrontalLu::<f64>::factorize(&symbolic, &star.values, &Options::default()).unwrap();
        assert_eq!(quality.num_delayed, 1);
        assert_eq!(quality.num_off_diagonal, off_diagonal);
        check(&star, &lu, &quality);
        factorize_and_check(&star, &Options::default());
    }
}

/// The first column fits no front on a long path to the root.
#[test]
fn a_pivot_is_put_off_as_often_as_it_takes() {
    let n = 33;
    let mut entries = vec![(0, 0, 1e-20), (n - 1, n - 1, 1.0)];
    for i in 0..n - 1 {
        if i > 0 {
            entries.push((i, i, 2.0));
        }
        entries.push((n - 1, i, 1.0));
        entries.push((i, n - 1, 1.0));
        if i + 1 < n - 1 {
            entries.push((i, i + 1, 0.0));
            entries.push((i + 1, i, 0.0));
        }
    }
    let a = Matrix::from_entries(n, entries);
    factorize_and_check(&a, &Options::default());
    let symbolic = a.symbolic(&all_trees()[2]);
    assert!(symbolic.tree().num_supernodes() > n / 2);
    let (_, quality) =
        FrontalLu::<f64>::factorize(&symbolic, &a.values, &Options::default()).unwrap();
    assert_eq!(quality.num_delayed, symbolic.tree().num_supernodes() - 1);
}

/// Replacing a pivot of row i and column j is adding to that entry of B: that, and the sum over
/// all of it, is what the factors and the report must show.
#[test]
fn static_pivots_are_replaced_and_counted() {
    let n = 30;
    let mut entries = Vec::new();
    for i in 0..n {
        entries.push((i, i, if i % 7 == 3 { 0.0 } else { 2.0 }));
        if i + 1 < n {
            entries.push((i, i + 1, 1.0));
            entries.push((i + 1, i, 1.0));
        }
    }
    let a = Matrix::from_entries(n, entries);
    let norms = a.column_norms();
    let replacement = 0.8;
    let mut num_replaced = 0;
    for tree_options in all_trees() {
        let symbolic = a.symbolic(&tree_options);
        let options = Options {
            // The largest entry is 2.
            pivots: PivotPolicy::replacing(replacement / 2.0).in_fronts(Options::THRESHOLD),
            ..Options::default()
        };
        let (mut lu, quality) =
            FrontalLu::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
        assert_eq!(quality.num_delayed, 0);
        assert!(quality.min_pivot >= replacement);

        let difference = factor_difference(&a, &lu);
        let mut replaced = Vec::new();
        let mut checksum = 0.0f64;
        for (row, column, pivot) in lu.pivots() {
            let added = -difference[row][column];
            for (i, line) in difference.iter().enumerate() {
                assert!(i == row || line[column].abs() < 1e-13);
            }
            checksum = checksum.max(added.abs() / norms[column]);
            if added.abs() > 1e-13 {
                assert!(pivot.abs() == replacement && added.abs() <= 2.0 * replacement);
                replaced.push(column);
            }
        }
        num_replaced += replaced.len();
        assert_eq!(quality.num_perturbed, replaced.len());
        assert_eq!(quality.first_perturbed, replaced.iter().copied().min());
        assert!((quality.checksum - checksum).abs() < 1e-13);

        let before = bits(&lu);
        assert_eq!(lu.refactorize(&a.values, &options).unwrap(), quality);
        assert!(bits(&lu) == before);
    }
    assert!(num_replaced > 0, "no symbolic leaves a small pivot");
}

/// A diagonal that the threshold allows is not taken if it would be replaced, while another row would not.
#[test]
fn a_row_that_is_usable_is_preferred_to_a_replaced_pivot() {
    let a = Matrix::from_entries(
        2,
        vec![(0, 0, 5e-4), (0, 1, 1.0), (1, 0, 4e-3), (1, 1, 1.0)],
    );
    let options = Options {
        pivots: PivotPolicy::replacing(1e-3).in_fronts(0.1),
        ..Options::default()
    };
    let symbolic = a.symbolic(&TreeOptions::default());
    let (lu, quality) = FrontalLu::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
    assert_eq!((quality.num_perturbed, quality.first_perturbed), (0, None));
    assert_eq!(quality.min_pivot, 4e-3);
    assert!(lu.pivots().any(|(row, column, _)| (row, column) == (1, 0)));

    // Nothing is searched: rows stay where they are, and the bound is relative to the matrix that this one is a part of.
    let options = Options {
        pivots: PivotPolicy::replacing(1e-4),
        max_b: Some(10.0),
        ..Options::default()
    };
    let (lu, quality) = FrontalLu::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
    assert_eq!(
        (quality.num_perturbed, quality.first_perturbed),
        (1, Some(0))
    );
    assert_eq!((quality.min_pivot, quality.num_off_diagonal), (1e-3, 0));
    assert!(lu.pivots().all(|(row, column, _)| row == column));
}

/// A column of the first block of eight fails until the second block is eliminated. The third block has no pivot at all,
/// and the column is tried again all the same.
#[test]
fn columns_are_tried_again_whatever_the_last_block_brings() {
    let (k, root) = (24, 25);
    let mut dense = vec![vec![0.0; k]; k];
    for (i, row) in dense.iter_mut().enumerate() {
        row[i] = if i < 16 { 1.0 } else { 0.01 };
    }
    let mut below = vec![0.0; k];
    below[16..].fill(1.0);
    // Column 3 has less than a tenth of its largest entry among the rows of pivots; column 10 brings it there.
    (dense[3][3], dense[10][3], below[3]) = (0.0, 0.09, 1.0);
    (dense[3][10], below[10]) = (9.9, 9.9);
    // The root has a column that this front has not, so they are not merged.
    let mut entries = vec![(24, 24, 1.0), (26, 26, 4.0), (root, root, 4.0)];
    for other in [24, root] {
        entries.extend([(other, 26, 0.5), (26, other, 0.5)]);
    }
    for (i, row) in dense.iter().enumerate() {
        entries.extend(row.iter().enumerate().map(|(j, &value)| (i, j, value)));
        entries.push((root, i, below[i]));
        entries.push((i, root, 0.25));
    }
    let a = Matrix::from_entries(27, entries);
    let symbolic = a.symbolic(&TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        tiny_pivots: 0,
        ..TreeOptions::default()
    });
    assert_eq!(symbolic.tree().fronts()[0].pivots, k as u32);
    let options = Options {
        pivots: PivotPolicy::threshold(0.1),
        ..Options::default()
    };
    let (_, quality) = FrontalLu::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
    assert_eq!(quality.num_delayed, 8);
}

fn factorized(a: &Matrix) -> Result<Quality, FrontalError> {
    let symbolic = a.symbolic(&TreeOptions::default());
    FrontalLu::<f64>::factorize(&symbolic, &a.values, &Options::default())
        .map(|(_, quality)| quality)
}

#[test]
fn singular_matrices_name_a_column() {
    let singular = |column| Err(FrontalError::Singular { column });
    let mut random = Random(8);
    // A column of stored zeros, somewhere.
    let mut a = random_matrix(50, 4, false, &mut random);
    for p in a.cols.range(17) {
        a.values[p] = 0.0;
    }
    assert_eq!(factorized(&a), singular(17));
    // Numerically, without rounding.
    for n in [1, 2, 31, 32, 33, 129, 1025] {
        let a = tree_laplacian(n, &mut random);
        assert_eq!(factorized(&a), singular(n - 1));
        for tree_options in all_trees() {
            let symbolic = a.symbolic(&tree_options);
            let result = FrontalLu::<f64>::factorize(&symbolic, &a.values, &Options::default());
            assert_eq!(result.map(|r| r.1), singular(n - 1));
        }
    }
    // Structurally: an empty column.
    let a = Matrix::from_entries(3, vec![(0, 0, 1.0), (1, 0, 1.0), (2, 2, 1.0)]);
    assert_eq!(factorized(&a), singular(1));
    // Structurally: two columns with one row.
    let a = Matrix::from_entries(3, vec![(0, 0, 1.0), (0, 1, 2.0), (1, 2, 3.0), (2, 2, 1.0)]);
    assert!(matches!(
        factorized(&a),
        Err(FrontalError::Singular { column: 0 | 1 })
    ));
}

/// Rounding hides a singular matrix from elimination, as in LAPACK: that is a report, not an error.
#[test]
fn a_pivot_of_rounding_errors_is_reported() {
    let mut random = Random(8);
    let a = random_matrix(30, 3, false, &mut random);
    let copied: Vec<_> = a.entries().filter(|e| e.1 == 4).collect();
    let entries = a.entries().filter(|e| e.1 != 9);
    let twice = entries
        .chain(copied.iter().map(|e| (e.0, 9, e.2)))
        .collect();
    match factorized(&Matrix::from_entries(30, twice)) {
        Ok(quality) => {
            let noise = 30.0 * f64::EPSILON * quality.growth * quality.max_pivot;
            assert!(quality.min_pivot <= noise, "{quality:?}");
        }
        Err(error) => assert!(matches!(error, FrontalError::Singular { column: 4 | 9 })),
    }
}

#[test]
fn new_values_on_kept_pivots() {
    let mut random = Random(11);
    for a in [grid(12, 13, &mut random), saddle(60, 25, &mut random)] {
        let symbolic = a.symbolic(&TreeOptions::default());
        let options = Options::default();
        let (mut lu, _) = FrontalLu::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
        let kept: Vec<_> = lu.pivots().collect();
        let mut b = a.clone();
        for v in &mut b.values {
            *v *= 1.0 + 0.01 * random.next();
        }
        let quality = lu.refactorize(&b.values, &options).unwrap();
        let (mut smallest, mut largest) = (1.0f64, 1.0f64);
        for (old, new) in kept.iter().zip(lu.pivots()) {
            assert_eq!((old.0, old.1), (new.0, new.1));
            let ratio = (new.2 / old.2).abs();
            (smallest, largest) = (smallest.min(ratio), largest.max(ratio));
        }
        assert!(smallest < 1.0 && largest > 1.0);
        let reported = [quality.min_pivot_ratio, quality.max_pivot_ratio];
        for (reported, ratio) in reported.into_iter().zip([smallest, largest]) {
            assert!(
                (reported / ratio - 1.0).abs() < 1e-15,
                "{reported}, {ratio} true"
            );
        }
        check(&b, &lu, &quality);
        // Back again: nothing of the other values stays.
        let (fresh, _) = FrontalLu::<f64>::factorize(&symbolic, &a.values, &options).unwrap();
        lu.refactorize(&a.values, &options).unwrap();
        assert!(bits(&lu) == bits(&fresh));
    }
}

#[test]
fn a_kept_pivot_that_vanishes_is_an_error() {
    let a = Matrix::from_entries(2, vec![(0, 0, 2.0), (1, 1, 3.0), (0, 1, 1.0)]);
    let symbolic = a.symbolic(&TreeOptions::default());
    let (mut lu, _) =
        FrontalLu::<f64>::factorize(&symbolic, &a.values, &Options::default()).unwrap();
    let result = lu.refactorize(&[2.0, 1.0, 0.0], &Options::default());
    assert_eq!(result.unwrap_err(), FrontalError::ZeroPivot { column: 1 });
    let poisoned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lu.solve(&mut [1.0, 1.0], 2, 1, 1);
    }));
    assert!(poisoned.is_err(), "no factors, no solve");
    lu.refactorize(&a.values, &Options::default()).unwrap();
    let mut x = [3.0, 3.0];
    lu.solve(&mut x, 2, 1, 1);
    assert_eq!(x, [1.0, 1.0]);
}
