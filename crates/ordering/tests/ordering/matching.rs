//! Matchings against brute force, and against the conditions that prove them optimal.

use crate::common::{pattern, random_pattern, random_values};
use luge_ordering::{
    OrderingError, Part, ProductMatching, dulmage_mendelsohn, maximum_cardinality, maximum_product,
};
use luge_sparse::{CancelFlag, Cancelled, CompressedPattern};
use luge_testkit::convert::pattern_of;
use luge_testkit::strategies::{matrices, patterns};
use proptest::prelude::*;

/// Rounding of the logarithms: a few units in the last place of numbers below 2^12, in base two.
const TOLERANCE: f64 = 1e-11;

fn product(a: &CompressedPattern, values: &[f64]) -> Result<ProductMatching, OrderingError> {
    maximum_product(a, values, &CancelFlag::new())
}

fn value_at(a: &CompressedPattern, values: &[f64], row: usize, col: usize) -> Option<f64> {
    let k = a.line(row).binary_search(&(col as u32)).ok()?;
    Some(values[a.range(row).start + k])
}

/// Calls `found` with the size of each way to give every row from `row` on a free column or none,
/// and the sum of the weights.
fn all_matchings(
    weights: &[Vec<Option<f64>>],
    row: usize,
    used: &mut Vec<bool>,
    size: usize,
    sum: f64,
    found: &mut dyn FnMut(usize, f64),
) {
    if row == weights.len() {
        found(size, sum);
        return;
    }
    all_matchings(weights, row + 1, used, size, sum, found);
    for col in 0..used.len() {
        if let (Some(weight), false) = (weights[row][col], used[col]) {
            used[col] = true;
            all_matchings(weights, row + 1, used, size + 1, sum + weight, found);
            used[col] = false;
        }
    }
}

/// The largest size, and the largest sum of weights among matchings of full size, by trying all.
fn brute_force(n: usize, weights: &[Vec<Option<f64>>]) -> (usize, Option<f64>) {
    let (mut rank, mut best) = (0, None);
    all_matchings(weights, 0, &mut vec![false; n], 0, 0.0, &mut |size, sum| {
        rank = rank.max(size);
        if size == n {
            best = Some(f64::max(best.unwrap_or(f64::NEG_INFINITY), sum));
        }
    });
    (rank, best)
}

fn weights(
    a: &CompressedPattern,
    mut weight: impl FnMut(usize, usize) -> Option<f64>,
) -> Vec<Vec<Option<f64>>> {
    (0..a.major_dim())
        .map(|i| (0..a.minor_dim()).map(|j| weight(i, j)).collect())
        .collect()
}

/// Every scaled entry at most one, matched entries one: together the proof that no other
/// permutation has a larger product.
fn assert_optimal(a: &CompressedPattern, values: &[f64], matching: &ProductMatching) {
    let n = a.major_dim();
    assert!(crate::common::is_permutation(&matching.row_of_col));
    assert_eq!((matching.num_matched, matching.row_of_col.len()), (n, n));
    let mut log10 = 0.0;
    for row in 0..n {
        for p in a.range(row) {
            let col = a.idx()[p] as usize;
            let scaled = matching.scaling.apply(row, col, values[p]).abs();
            assert!(
                scaled <= 1.0 + TOLERANCE,
                "({row}, {col}) scales to {scaled}"
            );
            if matching.row_of_col[col] as usize == row {
                assert!(
                    (scaled - 1.0).abs() <= TOLERANCE,
                    "matched ({row}, {col}): {scaled}"
                );
                log10 += values[p].abs().log10();
            }
        }
    }
    assert_eq!(matching.num_clamped, 0);
    assert!((matching.log10_product - log10).abs() <= 1e-12 * (1.0 + log10.abs()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn product_equals_the_best_of_all_permutations(a in matrices(6)) {
        let p = pattern_of(&a);
        let values = a.data();
        let n = p.major_dim();
        let log = |i, j| value_at(&p, values, i, j).filter(|&v| v != 0.0).map(|v| v.abs().log10());
        let (rank, best) = brute_force(n, &weights(&p, log));
        let structural = brute_force(n, &weights(&p, |i, j| value_at(&p, values, i, j))).0;
        match product(&p, values) {
            Ok(matching) => {
                let best = best.expect("a matching was found, so there is one");
                prop_assert!((matching.log10_product - best).abs() <= 1e-9, "{best}");
                assert_optimal(&p, values, &matching);
            }
            Err(OrderingError::StructurallySingular { rank: found, unmatched_rows, unmatched_cols }) => {
                prop_assert_eq!(found, structural);
                prop_assert!(structural < n);
                assert_rest_is_matchable(&p, &unmatched_rows, &unmatched_cols, structural);
            }
            Err(OrderingError::NumericallySingular { rank: found, unmatched_rows, unmatched_cols }) => {
                prop_assert_eq!((found, structural), (rank, n));
                prop_assert!(rank < n);
                let nonzero: Vec<Vec<u32>> = (0..n)
                    .map(|i| (0..n).filter(|&j| log(i, j).is_some()).map(|j| j as u32).collect())
                    .collect();
                assert_rest_is_matchable(&pattern(n, &nonzero), &unmatched_rows, &unmatched_cols, rank);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn cardinality_equals_brute_force(p in patterns(7)) {
        let n = p.major_dim();
        let has = |i: usize, j: usize| p.line(i).contains(&(j as u32)).then_some(0.0);
        let rank = brute_force(n, &weights(&p, has)).0;
        let matching = maximum_cardinality(&p, &CancelFlag::new()).unwrap();
        prop_assert_eq!(matching.num_matched(), rank);
        for col in 0..n {
            if let Some(row) = matching.row_of_col(col) {
                prop_assert!(p.line(row as usize).contains(&(col as u32)));
                prop_assert_eq!(matching.col_of_row(row as usize), Some(col as u32));
            }
        }
        assert_rest_is_matchable(&p, &matching.unmatched_rows(), &matching.unmatched_cols(), rank);
        prop_assert_eq!(matching.into_perfect().is_some(), rank == n);
    }

    #[test]
    fn coarse_parts_explain_the_rank(p in patterns(12)) {
        let matching = maximum_cardinality(&p, &CancelFlag::new()).unwrap();
        let parts = dulmage_mendelsohn(&p, &matching);
        let count = |parts: &[Part], part| parts.iter().filter(|&&x| x == part).count();
        let deficiency = p.major_dim() - matching.num_matched();
        // Overdetermined rows have entries in overdetermined columns only, and there are too few.
        for i in 0..p.major_dim() {
            for &j in p.line(i) {
                let (row, col) = (parts.rows[i], parts.cols[j as usize]);
                prop_assert!(row != Part::Overdetermined || col == Part::Overdetermined);
                prop_assert!(col != Part::Underdetermined || row == Part::Underdetermined);
            }
        }
        prop_assert_eq!(
            count(&parts.rows, Part::Overdetermined),
            count(&parts.cols, Part::Overdetermined) + deficiency
        );
        prop_assert_eq!(
            count(&parts.cols, Part::Underdetermined),
            count(&parts.rows, Part::Underdetermined) + deficiency
        );
        prop_assert_eq!(count(&parts.rows, Part::Square), count(&parts.cols, Part::Square));
        prop_assert!(matching.unmatched_rows().iter().all(|&i| parts.rows[i as usize] == Part::Overdetermined));
        prop_assert!(matching.unmatched_cols().iter().all(|&j| parts.cols[j as usize] == Part::Underdetermined));
    }
}

/// Leaving out the unmatched rows and columns, the rest must have a perfect matching of that rank.
fn assert_rest_is_matchable(p: &CompressedPattern, rows: &[u32], cols: &[u32], rank: usize) {
    let n = p.major_dim();
    assert_eq!((rows.len(), cols.len()), (n - rank, n - rank));
    assert!(rows.is_sorted() && cols.is_sorted());
    let rest: Vec<Vec<Option<f64>>> = (0..n)
        .filter(|&i| !rows.contains(&(i as u32)))
        .map(|i| {
            let free = |j: usize| !cols.contains(&(j as u32));
            (0..n)
                .map(|j| (free(j) && p.line(i).contains(&(j as u32))).then_some(0.0))
                .collect()
        })
        .collect();
    let mut best = 0;
    all_matchings(&rest, 0, &mut vec![false; n], 0, 0.0, &mut |size, _| {
        best = best.max(size)
    });
    assert_eq!(best, rank);
}

#[test]
fn large_random_matrices_are_matched_optimally() {
    for (seed, n) in [(1, 31), (2, 32), (3, 33), (4, 1025), (5, 4000)] {
        for per_row in [1, 3, 8] {
            for decades in [0.0, 1.0, 10.0] {
                let a = random_pattern(n, per_row, true, seed);
                let values = random_values(&a, decades, seed + 100);
                let matching = product(&a, &values).unwrap();
                assert_optimal(&a, &values, &matching);
            }
        }
    }
}

#[test]
fn rows_that_all_want_the_same_columns_are_matched_optimally() {
    // A dense row, and many rows whose largest entries stand in the first two columns.
    let n = 2000;
    let mut rows: Vec<Vec<u32>> = (0..n as u32)
        .map(|i| vec![0, 1, i, (i * 7) % n as u32])
        .collect();
    rows[3] = (0..n as u32).collect();
    let a = pattern(n, &rows);
    let mut values = random_values(&a, 2.0, 11);
    for i in 0..n {
        for p in a.range(i) {
            if a.idx()[p] < 2 {
                values[p] *= 1e9;
            }
        }
    }
    assert_optimal(&a, &values, &product(&a, &values).unwrap());
}

#[test]
fn an_optimal_diagonal_stays() {
    let a = crate::common::grid(40, 30);
    let values: Vec<f64> = (0..a.major_dim())
        .flat_map(|i| {
            a.line(i)
                .iter()
                .map(move |&j| if j as usize == i { 4.0 } else { -1.0 })
        })
        .collect();
    let matching = product(&a, &values).unwrap();
    let identity: Vec<u32> = (0..1200).collect();
    assert_eq!(matching.row_of_col, identity);
}

#[test]
fn the_whole_range_of_exponents_is_matched() {
    let a = pattern(3, &[vec![0, 1], vec![1, 2], vec![0, 2]]);
    // Products 1e-310·1e308·5e-324 and 1e300·1e-300·1e10.
    let values = [1e-310, 1e300, 1e308, 1e-300, 1e10, 5e-324];
    let matching = product(&a, &values).unwrap();
    assert_eq!(matching.row_of_col, [2, 0, 1]);
    assert_optimal(&a, &values, &matching);

    let subnormal = pattern(2, &[vec![0, 1], vec![0, 1]]);
    let values = [5e-324, 1e-310, 2e-312, 1e-315];
    let matching = product(&subnormal, &values).unwrap();
    assert_eq!(matching.row_of_col, [1, 0]);
    assert_optimal(&subnormal, &values, &matching);
}

#[test]
fn factors_beyond_f64_are_clamped_and_counted() {
    // Matched on the diagonal of ones, and every row bound to the next by an entry of 1e-20 below
    // and 1e19 above: the factors fall by 1e19 from one row to the next.
    let n = 64u32;
    let rows: Vec<Vec<u32>> = (0..n)
        .map(|i| (i.saturating_sub(1)..(i + 2).min(n)).collect())
        .collect();
    let a = pattern(n as usize, &rows);
    let values: Vec<f64> = (0..n)
        .flat_map(|i| {
            a.line(i as usize).iter().map(move |&j| match j.cmp(&i) {
                std::cmp::Ordering::Less => 1e-20,
                std::cmp::Ordering::Equal => 1.0,
                std::cmp::Ordering::Greater => 1e19,
            })
        })
        .collect();
    let matching = product(&a, &values).unwrap();
    assert_eq!(matching.row_of_col, (0..n).collect::<Vec<_>>());
    assert!(matching.num_clamped > 0);
    let factors = [&matching.scaling.rows[..], &matching.scaling.cols[..]].concat();
    assert!(
        factors
            .iter()
            .all(|x| x.is_normal() && x.recip().is_normal())
    );
}

#[test]
fn small_and_singular_matrices() {
    let empty = pattern(0, &[]);
    let matching = product(&empty, &[]).unwrap();
    assert_eq!((matching.num_matched, matching.log10_product), (0, 0.0));

    let one = pattern(1, &[vec![0]]);
    let matching = product(&one, &[-4.0]).unwrap();
    assert_eq!(matching.row_of_col, [0]);
    assert_eq!(matching.scaling.apply(0, 0, -4.0), -1.0);
    assert_eq!(
        product(&one, &[0.0]),
        Err(OrderingError::NumericallySingular {
            rank: 0,
            unmatched_rows: vec![0],
            unmatched_cols: vec![0]
        })
    );
    assert_eq!(
        product(&pattern(1, &[vec![]]), &[]),
        Err(OrderingError::StructurallySingular {
            rank: 0,
            unmatched_rows: vec![0],
            unmatched_cols: vec![0]
        })
    );

    // An empty row and an empty column: row 1, column 2.
    let hole = pattern(4, &[vec![0, 3], vec![], vec![1], vec![0, 1, 3]]);
    assert_eq!(
        product(&hole, &[1.0; 6]),
        Err(OrderingError::StructurallySingular {
            rank: 3,
            unmatched_rows: vec![1],
            unmatched_cols: vec![2]
        })
    );

    // Column 1 holds stored zeros only.
    let zeros = pattern(2, &[vec![0, 1], vec![0, 1]]);
    assert!(matches!(
        product(&zeros, &[1.0, 0.0, 2.0, -0.0]),
        Err(OrderingError::NumericallySingular { rank: 1, unmatched_cols, .. }) if unmatched_cols == [1]
    ));
}

#[test]
fn bad_values_and_shapes_are_named() {
    let a = pattern(3, &[vec![0], vec![], vec![1, 2]]);
    let error = |values: &[f64]| product(&a, values).unwrap_err();
    let at = |row, column| OrderingError::NotFinite { row, column };
    assert_eq!(error(&[1.0, f64::NAN, f64::INFINITY]), at(2, 1));
    assert_eq!(error(&[1.0, 1.0, f64::NEG_INFINITY]), at(2, 2));
    assert_eq!(
        product(&pattern(2, &[vec![0]]), &[1.0]),
        Err(OrderingError::NotSquare { nrows: 1, ncols: 2 })
    );
    let cancel = CancelFlag::new();
    cancel.cancel();
    assert_eq!(maximum_cardinality(&a, &cancel), Err(Cancelled));
    assert_eq!(
        maximum_product(&a, &[1.0; 3], &cancel),
        Err(OrderingError::Cancelled(Cancelled))
    );
}

#[test]
fn long_alternating_paths_are_found() {
    // Row i holds columns i and i + 1, the last row column 0: greedy from the diagonal is perfect;
    // with the diagonal of the first row gone, every pair must shift.
    let n = 100_000u32;
    let mut rows: Vec<Vec<u32>> = (0..n).map(|i| vec![i, (i + 1) % n]).collect();
    rows[0] = vec![1];
    let a = pattern(n as usize, &rows);
    let matching = maximum_cardinality(&a, &CancelFlag::new()).unwrap();
    assert_eq!(matching.num_matched(), n as usize);
    assert_eq!(matching.row_of_col(0), Some(n - 1));
    let values = random_values(&a, 1.0, 5);
    assert_optimal(&a, &values, &product(&a, &values).unwrap());
}

#[test]
#[should_panic(expected = "one value per entry")]
fn a_missing_value_is_a_broken_contract() {
    let _ = product(&pattern(1, &[vec![0]]), &[]);
}

/// The factor of each column is 2⁶³ times that of the next, and that of its row the inverse, so with exponents
/// of 63·(i − 31.5) those of the outer 16 at either end are beyond 2^±1021.
#[test]
fn every_clamped_factor_is_counted() {
    let n = 64u32;
    let rows: Vec<Vec<u32>> = (0..n)
        .map(|i| (i.saturating_sub(1)..(i + 2).min(n)).collect())
        .collect();
    let a = pattern(n as usize, &rows);
    let value = |i: u32, j: u32| 2f64.powi(63 * (j as i32 - i as i32));
    let values: Vec<f64> = (0..n)
        .flat_map(|i| a.line(i as usize).iter().map(move |&j| value(i, j)))
        .collect();
    let matching = product(&a, &values).unwrap();
    assert_eq!(matching.num_clamped, 64);
    for (i, &factor) in matching.scaling.rows.iter().enumerate() {
        let exponent = (63.0 * (i as f64 - 31.5)).clamp(-1021.0, 1021.0);
        assert!((factor.log2() - exponent).abs() < 1e-9, "row {i}");
    }
}
