//! The whole phase: valid permutations, block triangular shape, honest predictions.

use crate::common::{fill_entries, grid, is_permutation, pattern, random_pattern, random_values};
use luge_ordering::{
    Costs, Matching, Method, MethodUsed, Ordering, OrderingError, OrderingOptions, maximum_product,
    order,
};
use luge_sparse::{CancelFlag, Cancelled, ColPerm, CompressedPattern, RowPerm, Scaling};
use luge_testkit::convert::pattern_of;
use luge_testkit::strategies::matrices;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

const METHODS: &[Method] = &[
    Method::Auto,
    Method::Amd,
    Method::Colamd,
    Method::NestedDissection,
    #[cfg(feature = "metis")]
    Method::Metis,
    Method::Natural,
];

fn options(method: Method) -> OrderingOptions {
    OrderingOptions::default().method(method)
}

/// With these the ordering may take as long as it likes.
fn many_factorizations() -> Costs {
    Costs {
        factorizations: f64::INFINITY,
        ..Costs::default()
    }
}

/// The largest value of every row and column is in [1, 2), and the factors are powers of two.
fn assert_equilibrated(a: &CompressedPattern, values: &[f64], scaling: &Scaling) {
    let n = a.major_dim();
    let (mut rows, mut cols) = (vec![0.0; n], vec![0.0; n]);
    for (i, row) in rows.iter_mut().enumerate() {
        for p in a.range(i) {
            let j = a.idx()[p] as usize;
            let value = scaling.apply(i, j, values[p]).abs();
            *row = f64::max(*row, value);
            cols[j] = f64::max(cols[j], value);
        }
    }
    for largest in rows.iter().chain(&cols) {
        assert!((1.0..2.0).contains(largest), "{largest}");
    }
    for factor in scaling.rows.iter().chain(&scaling.cols) {
        assert_eq!(factor.log2().fract(), 0.0);
    }
}

fn assert_valid(a: &CompressedPattern, ordering: &Ordering) {
    let n = a.major_dim();
    let (rows, cols) = (ordering.row_perm.as_slice(), ordering.col_perm.as_slice());
    assert_eq!(
        (rows.len(), cols.len(), ordering.structural_rank),
        (n, n, n)
    );
    assert!(is_permutation(rows) && is_permutation(cols));
    assert_eq!(ordering.block_ptr.first(), Some(&0));
    assert_eq!(ordering.block_ptr.last(), Some(&n));
    assert!(ordering.block_ptr.is_sorted_by(|x, y| x < y));
    let new_col = ordering.col_perm.inverse();
    let mut above = 0;
    for block in ordering.block_ptr.windows(2) {
        for &row in &rows[block[0]..block[1]] {
            for &col in a.line(row as usize) {
                let col = new_col[col as usize] as usize;
                assert!(col >= block[0], "an entry lies below the blocks");
                above += u64::from(col >= block[1]);
            }
        }
    }
    assert_eq!(ordering.predicted.off_diagonal_nnz, above);
}

fn has_diagonal(a: &CompressedPattern, ordering: &Ordering) -> bool {
    (0..a.major_dim()).all(|i| {
        let (row, col) = (
            ordering.row_perm.as_slice()[i],
            ordering.col_perm.as_slice()[i],
        );
        a.line(row as usize).contains(&col)
    })
}

#[test]
fn every_method_orders_every_size() {
    for n in [0, 1, 2, 31, 32, 33, 1025] {
        for seed in 0..3 {
            let a = random_pattern(n, 3, true, seed);
            let values = random_values(&a, 2.0, seed + 10);
            for method in METHODS {
                for (matching, block_triangular) in [
                    (Matching::Never, false),
                    (Matching::Never, true),
                    (Matching::Always, false),
                    (Matching::Always, true),
                    (Matching::Auto, true),
                ] {
                    let options = options(method.clone())
                        .matching(matching)
                        .block_triangular(block_triangular);
                    for values in [Some(&values[..]), None] {
                        let ordering = order(&a, values, &options).unwrap();
                        assert_valid(&a, &ordering);
                        assert!(has_diagonal(&a, &ordering));
                        if !block_triangular {
                            assert!(ordering.block_ptr.len() <= 2);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn disconnected_dense_and_diagonal_patterns_are_ordered() {
    let n = 3000u32;
    let diagonal = pattern(n as usize, &(0..n).map(|i| vec![i]).collect::<Vec<_>>());
    // Pairs, then one dense row and column through everything.
    let pairs: Vec<Vec<u32>> = (0..n).map(|i| vec![i, i ^ 1]).collect();
    let mut arrow = pairs.clone();
    arrow[5] = (0..n).collect();
    for row in &mut arrow {
        row.push(5);
    }
    let pairs = pattern(n as usize, &pairs);
    let arrow = pattern(n as usize, &arrow);
    for a in [&diagonal, &pairs, &arrow] {
        for method in METHODS {
            for block_triangular in [false, true] {
                let natural = *method == Method::Natural;
                let options = options(method.clone()).block_triangular(block_triangular);
                let ordering = order(a, None, &options).unwrap();
                assert_valid(a, &ordering);
                // The dense column last: no fill at all.
                if !natural {
                    assert_eq!(
                        ordering.predicted.factor_nnz(n as usize),
                        a.nnz() as u64,
                        "{method:?}"
                    );
                }
            }
        }
    }
    let natural = order(&arrow, None, &options(Method::Natural)).unwrap();
    assert!(natural.predicted.factor_nnz(n as usize) > 1_000_000);
}

#[test]
fn a_dense_row_alone_does_not_blow_up() {
    let n = 120_000u32;
    let mut rows: Vec<Vec<u32>> = (0..n)
        .map(|i| vec![i, (i + 1) % n, (i + 300) % n])
        .collect();
    rows[77] = (0..n).collect();
    let a = pattern(n as usize, &rows);
    let ordering = order(&a, None, &options(Method::Amd)).unwrap();
    assert_valid(&a, &ordering);
    let colamd = order(&a, None, &options(Method::Colamd)).unwrap();
    assert_valid(&a, &colamd);
    assert!(ordering.predicted.factor_nnz(n as usize) < 600 * a.nnz() as u64);
}

#[test]
fn dissection_beats_minimum_degree_on_a_large_grid() {
    let small = grid(40, 40);
    let nnz = |a: &CompressedPattern, method| {
        let ordering = order(a, None, &options(method)).unwrap();
        let (rows, cols) = (ordering.row_perm.as_slice(), ordering.col_perm.as_slice());
        let predicted = ordering.predicted.factor_nnz(a.major_dim());
        // The pattern is symmetric, so the prediction is exact.
        assert_eq!(predicted, fill_entries(a, rows, cols));
        predicted as f64
    };
    let (amd, dissection) = (
        nnz(&small, Method::Amd),
        nnz(&small, Method::NestedDissection),
    );
    assert!(dissection < 2.0 * amd, "{dissection} against {amd}");
    let natural = nnz(&small, Method::Natural);
    assert!(amd < 0.6 * natural && nnz(&small, Method::Colamd) < natural);

    let large = grid(300, 300);
    let flops = |method| {
        let options = options(method).costs(many_factorizations());
        order(&large, None, &options).unwrap()
    };
    let (amd, dissection) = (flops(Method::Amd), flops(Method::NestedDissection));
    assert!(dissection.predicted.flops < amd.predicted.flops);
    assert!(dissection.predicted.lnz < amd.predicted.lnz);
    let auto = flops(Method::Auto);
    assert_eq!(auto.method_used, MethodUsed::NestedDissection);
    assert_eq!(auto.predicted, dissection.predicted);
    assert!(auto.seconds.amd > 0.0 && auto.seconds.nested_dissection > 0.0);
}

#[test]
fn the_matching_takes_time_without_values_too() {
    // Nothing to look at, and then the rows of the pattern are matched.
    let options = options(Method::Amd).block_triangular(false);
    let seconds = order(&grid(40, 40), None, &options).unwrap().seconds;
    assert!(seconds.matching > 0.0 && seconds.matching < seconds.total);
}

#[test]
fn the_result_is_the_same_every_time() {
    let a = grid(60, 50);
    let values = random_values(&a, 1.0, 1);
    let first = order(&a, Some(&values), &OrderingOptions::default()).unwrap();
    let again: Vec<Ordering> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| order(&a, Some(&values), &OrderingOptions::default()).unwrap()))
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for other in again {
        assert_eq!(
            (&other.row_perm, &other.col_perm),
            (&first.row_perm, &first.col_perm)
        );
        assert_eq!(other.predicted, first.predicted);
    }
}

#[test]
fn matching_and_scaling_follow_the_options() {
    let a = random_pattern(200, 4, true, 1);
    let values = random_values(&a, 5.0, 2);
    let with = |matching, scaling| {
        let options = OrderingOptions::default()
            .matching(matching)
            .scaling(scaling)
            .diagonal_threshold(f64::INFINITY);
        order(&a, Some(&values), &options).unwrap()
    };
    let best = maximum_product(&a, &values, &CancelFlag::new()).unwrap();
    let matched = with(Matching::Always, true);
    assert_eq!(matched.scaling, best.scaling);
    assert_eq!(matched.log10_matching_product, Some(best.log10_product));
    assert!(matched.rows_matched);
    for (&row, &col) in matched
        .row_perm
        .as_slice()
        .iter()
        .zip(matched.col_perm.as_slice())
    {
        assert_eq!(best.row_of_col[col as usize], row);
    }
    assert_eq!(
        with(Matching::Always, false).scaling,
        Scaling::identity(200, 200)
    );
    let unmatched = with(Matching::Never, true);
    assert_equilibrated(&a, &values, &unmatched.scaling);
    assert!(!unmatched.rows_matched);
    assert_eq!(unmatched.row_perm.as_slice(), unmatched.col_perm.as_slice());
    assert_eq!(unmatched.log10_matching_product, None);
}

#[test]
fn auto_moves_rows_back_when_that_saves_much_and_the_diagonal_allows_it() {
    // A grid whose diagonal is a little smaller than a far entry of every row: the matching takes
    // the far entries, which spoils the pattern.
    let (nx, n) = (50, 2500);
    let base = grid(nx, nx);
    let far = |i: usize| ((i * 811 + 13) % n) as u32;
    let rows: Vec<Vec<u32>> = (0..n)
        .map(|i| {
            base.line(i)
                .iter()
                .copied()
                .chain([far(i)].into_iter().filter(|_| i % 5 == 0))
                .collect()
        })
        .collect();
    let a = pattern(n, &rows);
    let values_with = |diagonal: f64| -> Vec<f64> {
        (0..n)
            .flat_map(|i| {
                a.line(i).iter().map(move |&j| match j as usize == i {
                    true => diagonal,
                    false if (j as usize).abs_diff(i) == nx => 1.0,
                    false => 0.01,
                })
            })
            .collect()
    };
    let run = |values: &[f64], diagonal_threshold| {
        let options = OrderingOptions::default()
            .matching(Matching::Always)
            .diagonal_threshold(diagonal_threshold)
            .costs(many_factorizations());
        order(&a, Some(values), &options).unwrap()
    };
    let values = values_with(0.9);
    let forced = run(&values, f64::INFINITY);
    let free = run(&values, 0.1);
    assert!(forced.rows_matched && !free.rows_matched);
    assert!(free.predicted.flops < 0.8 * forced.predicted.flops);
    assert_eq!(free.scaling, forced.scaling);
    // A diagonal too small to pivot on stays away.
    assert!(run(&values_with(1e-6), 0.1).rows_matched);
}

#[test]
fn user_permutations_are_taken_as_they_are() {
    let a = grid(5, 5);
    let reversed: Vec<u32> = (0..25).rev().collect();
    let user = Method::User {
        rows: RowPerm::new(reversed.clone()).unwrap(),
        cols: ColPerm::new(reversed.clone()).unwrap(),
    };
    let ordering = order(&a, Some(&vec![2.0; a.nnz()]), &options(user)).unwrap();
    assert_eq!(ordering.row_perm.as_slice(), reversed);
    assert_eq!(ordering.col_perm.as_slice(), reversed);
    assert_eq!(ordering.method_used, MethodUsed::User);
    assert_eq!(
        ordering.predicted.factor_nnz(25),
        fill_entries(&a, &reversed, &reversed)
    );

    // Nor do several threads begin another order.
    let a = grid(30, 30);
    let reversed: Vec<u32> = (0..900).rev().collect();
    let options = options(Method::User {
        rows: RowPerm::new(reversed.clone()).unwrap(),
        cols: ColPerm::new(reversed.clone()).unwrap(),
    })
    .threads(2);
    let ordering = order(&a, Some(&vec![2.0; a.nnz()]), &options).unwrap();
    assert_eq!(ordering.row_perm.as_slice(), reversed);
    assert_eq!(ordering.col_perm.as_slice(), reversed);
}

#[test]
#[should_panic(expected = "user permutations of another length")]
fn a_user_permutation_of_another_length_is_a_broken_contract() {
    let user = Method::User {
        rows: RowPerm::identity(24),
        cols: ColPerm::identity(25),
    };
    let _ = order(&grid(5, 5), None, &options(user));
}

#[test]
fn what_cannot_be_ordered_is_named() {
    let wide = pattern(3, &[vec![0], vec![1]]);
    assert_eq!(
        order(&wide, None, &OrderingOptions::default()),
        Err(OrderingError::NotSquare { nrows: 2, ncols: 3 })
    );
    let a = pattern(2, &[vec![0, 1], vec![0, 1]]);
    for method in METHODS {
        for matching in [Matching::Auto, Matching::Always, Matching::Never] {
            let options = options(method.clone()).matching(matching);
            assert_eq!(
                order(&a, Some(&[1.0, 2.0, f64::NAN, 3.0]), &options),
                Err(OrderingError::NotFinite { row: 1, column: 0 })
            );
            assert!(matches!(
                order(&a, Some(&[1.0, 0.0, 2.0, 0.0]), &options),
                Err(OrderingError::NumericallySingular { rank: 1, .. })
            ));
            // The pattern alone is fine.
            assert!(order(&a, None, &options).is_ok());
            let hole = pattern(2, &[vec![1], vec![1]]);
            let singular = OrderingError::StructurallySingular {
                rank: 1,
                unmatched_rows: vec![0],
                unmatched_cols: vec![0],
            };
            assert_eq!(
                order(&hole, Some(&[1.0, 2.0]), &options),
                Err(singular.clone())
            );
            assert_eq!(order(&hole, None, &options), Err(singular));
        }
    }
    let cancelled = OrderingOptions::default();
    cancelled.cancel.cancel();
    assert_eq!(
        order(&a, None, &cancelled),
        Err(OrderingError::Cancelled(Cancelled))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn predictions_bound_the_fill(a in matrices(24), seed in 0usize..METHODS.len()) {
        let p = pattern_of(&a);
        let n = p.major_dim();
        let options = options(METHODS[seed].clone()).block_triangular(seed % 2 == 0);
        match order(&p, None, &options) {
            Ok(ordering) => {
                assert_valid(&p, &ordering);
                prop_assert!(has_diagonal(&p, &ordering));
                if !options.block_triangular {
                    let (rows, cols) = (ordering.row_perm.as_slice(), ordering.col_perm.as_slice());
                    prop_assert!(fill_entries(&p, rows, cols) <= ordering.predicted.factor_nnz(n));
                }
            }
            Err(error) => {
                let is_singular = matches!(error, OrderingError::StructurallySingular { .. });
                prop_assert!(is_singular, "{}", error);
            }
        }
    }
}

/// The only perfect matching is the diagonal, whose duals grow tenfold from row to row ten times over.
#[test]
fn a_matching_of_wild_scaling_is_used_on_demand_only() {
    let n = 64;
    let (mut ptr, mut idx, mut values) = (vec![0], Vec::new(), Vec::new());
    for i in 0..n as u32 {
        if i > 0 {
            idx.push(i - 1);
            values.push(1.0);
        }
        idx.push(i);
        values.push(1e-10);
        ptr.push(idx.len() as u64);
    }
    let a = CompressedPattern::new(n, ptr, idx).unwrap();
    let run = |matching| {
        let options = OrderingOptions::default().matching(matching);
        order(&a, Some(&values), &options).unwrap()
    };
    let free = run(Matching::Auto);
    assert!(free.matching_refused);
    assert_eq!(free.log10_matching_product, None);
    assert!(
        free.scaling.span() < 2f64.powi(40),
        "{}",
        free.scaling.span()
    );
    let forced = run(Matching::Always);
    assert!(!forced.matching_refused);
    let product = forced.log10_matching_product.unwrap();
    assert!((product + 640.0).abs() < 1e-6, "{product}");
    assert!(forced.scaling.span() > 2f64.powi(1000));
    assert!(!run(Matching::Never).matching_refused);
}

/// The edges of a random tree whose vertices have at most `most` children, numbered at random.
fn random_tree(n: u32, most: usize, seed: u64) -> CompressedPattern {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut names: Vec<u32> = (0..n).collect();
    names.shuffle(&mut rng);
    let mut rows: Vec<Vec<u32>> = (0..n).map(|v| vec![v]).collect();
    let mut children = vec![0; n as usize];
    for v in 1..n {
        // Near ancestors, for long branches.
        let parent = loop {
            let parent = rng.random_range(v.saturating_sub(20)..v);
            if children[parent as usize] < most {
                break parent;
            }
        };
        children[parent as usize] += 1;
        let (v, parent) = (names[v as usize], names[parent as usize]);
        rows[v as usize].push(parent);
        rows[parent as usize].push(v);
    }
    pattern(n as usize, &rows)
}

/// A vertex whose degree is known after each elimination is taken when one edge of it is left.
#[test]
fn trees_get_no_fill() {
    for seed in 0..20 {
        for n in [2, 33, 400] {
            let a = random_tree(n, 2 + seed as usize % 4, seed);
            let ordering = order(&a, None, &options(Method::Amd)).unwrap();
            let entries = fill_entries(
                &a,
                ordering.row_perm.as_slice(),
                ordering.col_perm.as_slice(),
            );
            assert_eq!(entries, a.nnz() as u64, "n {n}, seed {seed}");
            let predicted = ordering.predicted.factor_nnz(n as usize);
            assert_eq!(predicted, entries, "n {n}, seed {seed}");
        }
    }
}
