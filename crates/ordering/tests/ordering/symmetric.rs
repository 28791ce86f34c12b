//! The phase for symmetric matrices: orders, pairs, scalings, and what is refused.

use std::sync::Arc;

use luge_ordering::{
    Matching, Method, MethodUsed, OrderingError, SymmetricOptions, SymmetricOrdering,
    SymmetricScaling, TreeCost, maximum_product, order_symmetric,
};
use luge_sparse::etree::{EliminationForest, NONE, postorder};
use luge_sparse::{
    CancelFlag, Cancelled, ColPerm, CompressedPattern, MemoryBudget, RowPerm, Scaling,
};
use luge_testkit::convert::pattern_of;
use luge_testkit::generators::applications::{interior_point_kkt, laplacian_2d, saddle_point};
use luge_testkit::strategies::symmetric_matrices;
use proptest::prelude::*;

use crate::common::{is_permutation, pattern};

const METHODS: &[Method] = &[
    Method::Auto,
    Method::Amd,
    Method::NestedDissection,
    #[cfg(feature = "metis")]
    Method::Metis,
    Method::Natural,
];

fn options() -> SymmetricOptions {
    SymmetricOptions::default()
}

/// A symmetric matrix from entries of one triangle.
fn symmetric(n: usize, entries: &[(u32, u32, f64)]) -> (CompressedPattern, Vec<f64>) {
    let mut all: Vec<(u32, u32, f64)> = entries.to_vec();
    let mirrored = entries.iter().filter(|(i, j, _)| i != j);
    all.extend(mirrored.map(|&(i, j, x)| (j, i, x)));
    all.sort_by_key(|&(i, j, _)| (i, j));
    let rows: Vec<Vec<u32>> = (0..n as u32)
        .map(|row| {
            let of_row = all.iter().filter(|&&(i, _, _)| i == row);
            of_row.map(|&(_, j, _)| j).collect()
        })
        .collect();
    (pattern(n, &rows), all.iter().map(|&(_, _, x)| x).collect())
}

/// By elimination of the permuted pattern, both vertices of a pair at once.
fn forest_by_elimination(
    a: &CompressedPattern,
    perm: &[u32],
    pair_starts: &[u32],
) -> EliminationForest {
    let n = perm.len();
    let mut joined = vec![vec![false; n]; n];
    for i in 0..n {
        for j in 0..n {
            joined[i][j] = i != j && a.line(perm[i] as usize).contains(&perm[j]);
        }
    }
    let mut forest = EliminationForest::default();
    let mut k = 0;
    while k < n {
        let width = if pair_starts.contains(&(k as u32)) {
            2
        } else {
            1
        };
        let end = k + width;
        let rows: Vec<usize> = (end..n)
            .filter(|&i| (k..end).any(|pivot| joined[i][pivot]))
            .collect();
        for &i in &rows {
            for &j in &rows {
                joined[i][j] |= i != j;
            }
        }
        // The parent of a column is a pair's first one if it is either of the pair.
        let first = rows.first().map_or(NONE, |&row| {
            let row = row as u32;
            let is_second = row > 0 && pair_starts.contains(&(row - 1));
            if is_second { row - 1 } else { row }
        });
        for pivot in k..end {
            let is_last = pivot + 1 == end;
            let parent = if is_last { first } else { pivot as u32 + 1 };
            forest.parent.push(parent);
            forest.counts.push((end - pivot + rows.len()) as u32);
        }
        k = end;
    }
    forest
}

fn assert_symmetric(scaling: &Scaling, n: usize) {
    assert_eq!(scaling.rows.len(), n);
    assert_eq!(scaling.rows, scaling.cols);
    for factor in &scaling.rows {
        assert!(factor.is_normal() && *factor > 0.0);
        assert_eq!(factor.log2().fract(), 0.0);
    }
}

fn assert_valid(a: &CompressedPattern, ordering: &SymmetricOrdering) {
    let n = a.major_dim();
    let perm = ordering.perm.as_slice();
    assert_eq!(perm.len(), n);
    assert!(is_permutation(perm));
    assert_symmetric(&ordering.scaling, n);
    let starts = &ordering.pair_starts;
    assert_eq!(starts.len(), ordering.pairs);
    assert!(starts.windows(2).all(|pair| pair[0] + 2 <= pair[1]));
    for &k in starts {
        let (first, second) = (perm[k as usize], perm[k as usize + 1]);
        assert!(
            a.line(first as usize).contains(&second),
            "no entry to pivot on"
        );
    }
    let expected = forest_by_elimination(a, perm, starts);
    let is_given = [MethodUsed::Natural, MethodUsed::User].contains(&ordering.method_used);
    assert_eq!(ordering.forest.is_none(), is_given);
    if let Some(forest) = &ordering.forest {
        assert_eq!(*forest, expected);
        assert_eq!(postorder(&forest.parent), (0..n as u32).collect::<Vec<_>>());
    }
    let counts = expected.counts.iter();
    let lnz: u64 = counts.clone().map(|&count| u64::from(count)).sum();
    let below = counts.map(|&count| f64::from(count - 1));
    let flops: f64 = below.map(|m| m + m * (m + 1.0)).sum();
    let predicted = &ordering.predicted;
    assert_eq!((predicted.lnz, predicted.unz), (lnz, n as u64));
    assert_eq!(predicted.flops, flops);
    assert_eq!(predicted.factor_nnz(n), lnz);
}

/// The pairs as vertices, the smaller ones first, sorted.
fn pairs_of(ordering: &SymmetricOrdering) -> Vec<(u32, u32)> {
    let perm = ordering.perm.as_slice();
    let pair = |&k: &u32| {
        let (v, w) = (perm[k as usize], perm[k as usize + 1]);
        (v.min(w), v.max(w))
    };
    let mut pairs: Vec<(u32, u32)> = ordering.pair_starts.iter().map(pair).collect();
    pairs.sort_unstable();
    pairs
}

fn paired(a: &CompressedPattern, values: &[f64]) -> SymmetricOrdering {
    let options = options().matching(Matching::Always);
    let ordering = order_symmetric(a, Some(values), &options).unwrap();
    assert_valid(a, &ordering);
    ordering
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn orders_are_permutations_with_their_forests(a in symmetric_matrices(24), with_values in any::<bool>()) {
        let (pattern, values) = (pattern_of(&a), a.data());
        for method in METHODS {
            for matching in [Matching::Auto, Matching::Always, Matching::Never] {
                let options = options().method(method.clone()).matching(matching);
                let values = with_values.then_some(values);
                let ordering = order_symmetric(&pattern, values, &options).unwrap();
                assert_valid(&pattern, &ordering);
                if matching == Matching::Never {
                    prop_assert_eq!(ordering.pairs, 0);
                    prop_assert!(!ordering.matching_used);
                }
            }
        }
    }

    #[test]
    fn a_matching_scales_all_entries_to_two_and_matched_ones_near_one(
        a in symmetric_matrices(24),
        exponents in proptest::collection::vec(-200i32..200, 24),
    ) {
        let pattern = pattern_of(&a);
        let n = pattern.major_dim();
        // Far out of scale, but symmetric.
        let mut values = a.data().to_vec();
        for i in 0..n {
            for p in pattern.range(i) {
                values[p] *= f64::from(exponents[i] + exponents[pattern.idx()[p] as usize]).exp2();
            }
        }
        let options = options().scaling(SymmetricScaling::Matching).matching(Matching::Never);
        let ordering = order_symmetric(&pattern, Some(&values), &options).unwrap();
        assert_symmetric(&ordering.scaling, n);
        prop_assert!(ordering.matching_used);
        let rank = ordering.structural_rank.unwrap();
        let scaled = |i: usize, p: usize| {
            ordering.scaling.apply(i, pattern.idx()[p] as usize, values[p]).abs()
        };
        for i in 0..n {
            for p in pattern.range(i) {
                prop_assert!(scaled(i, p) <= 2.0 * (1.0 + 1e-9), "{}", scaled(i, p));
            }
        }
        match maximum_product(&pattern, &values, &CancelFlag::new()) {
            Ok(matching) => {
                prop_assert_eq!(rank, n);
                let log10_product = ordering.log10_matching_product.unwrap();
                prop_assert!((log10_product - matching.log10_product).abs() < 1e-9);
                for (col, &row) in matching.row_of_col.iter().enumerate() {
                    let row = row as usize;
                    let k = pattern.line(row).binary_search(&(col as u32)).unwrap();
                    let value = scaled(row, pattern.range(row).start + k);
                    prop_assert!((0.5 - 1e-9..=2.0 + 1e-9).contains(&value), "{value}");
                }
            }
            Err(OrderingError::NumericallySingular { rank: found, .. }) => prop_assert_eq!(rank, found),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn every_size_is_ordered() {
    for n in [0, 1, 2, 3, 31, 32, 33, 1025] {
        // A path without a diagonal, the diagonal alone, and nothing at all.
        let path: Vec<(u32, u32, f64)> = (1..n as u32).map(|i| (i - 1, i, 1.0)).collect();
        let diagonal: Vec<(u32, u32, f64)> = (0..n as u32).map(|i| (i, i, 1.0)).collect();
        for entries in [path, diagonal, Vec::new()] {
            let (a, values) = symmetric(n, &entries);
            for matching in [Matching::Auto, Matching::Always, Matching::Never] {
                for values in [None, Some(&values[..])] {
                    let options = options().matching(matching);
                    let ordering = order_symmetric(&a, values, &options).unwrap();
                    if n < 100 {
                        assert_valid(&a, &ordering);
                    }
                    let is_paired = matching != Matching::Never && entries.len() + 1 == n;
                    assert_eq!(ordering.pairs, if is_paired { n / 2 } else { 0 }, "{n}");
                }
            }
        }
    }
}

#[test]
fn cycles_become_pairs() {
    // Ones along a cycle, and small numbers on the diagonal.
    let cycle = |diagonal: &[f64]| {
        let n = diagonal.len() as u32;
        let mut entries: Vec<(u32, u32, f64)> =
            (0..n).zip(diagonal).map(|(i, &d)| (i, i, d)).collect();
        let num_edges = if n < 3 { n - 1 } else { n };
        entries.extend((0..num_edges).map(|i| (i, (i + 1) % n, 1.0)));
        symmetric(n as usize, &entries)
    };
    for n in 2..8 {
        for alone in 0..n {
            let diagonal: Vec<f64> = (0..n)
                .map(|i| if i == alone { 0.03 } else { 0.01 })
                .collect();
            let (a, values) = cycle(&diagonal);
            let ordering = paired(&a, &values);
            assert_eq!(ordering.pairs, n / 2, "{n}");
            assert_eq!(ordering.structural_rank, Some(n));
            if n % 2 == 1 {
                let is_alone = |(v, w): &(u32, u32)| ![*v, *w].contains(&(alone as u32));
                assert!(pairs_of(&ordering).iter().all(is_alone), "{n} {alone}");
            }
        }
    }
    // Of an even cycle the pairs with the larger entries: the other ones are not matched.
    for larger in [0, 1] {
        let edge = |i: u32| if i % 2 == larger { 1.0 } else { 0.5 };
        let entries: Vec<(u32, u32, f64)> = (0..6).map(|i| (i, (i + 1) % 6, edge(i))).collect();
        let (a, values) = symmetric(6, &entries);
        let starts = (0..3).map(|k| 2 * k + larger);
        let mut expected: Vec<(u32, u32)> = starts
            .map(|v| (v.min((v + 1) % 6), v.max((v + 1) % 6)))
            .collect();
        expected.sort_unstable();
        assert_eq!(pairs_of(&paired(&a, &values)), expected);
    }
    // Of two small diagonal entries the larger one comes first.
    let (a, values) = cycle(&[0.02, 0.03]);
    let ordering = paired(&a, &values);
    assert_eq!((ordering.pairs, ordering.perm.as_slice()), (1, &[1, 0][..]));
    // Those that are large enough are pivots themselves. Where one is, the other only has to come later.
    for (diagonal, first) in [([0.5, 0.5], 0), ([0.5, 0.02], 0), ([0.02, 0.5], 1)] {
        let (a, values) = cycle(&diagonal);
        let ordering = paired(&a, &values);
        assert_eq!((ordering.pairs, ordering.perm.as_slice()[0]), (0, first));
        assert!(ordering.matching_used);
    }
}

/// The smallest determinant, in size, of the pivots of a dense elimination of the scaled matrix in the given order, pairs
/// as pivots of order 2; zero if it stops.
fn smallest_pivot(a: &CompressedPattern, values: &[f64], ordering: &SymmetricOrdering) -> f64 {
    let n = a.major_dim();
    let perm = ordering.perm.as_slice();
    let place = ordering.perm.inverse();
    let mut dense = vec![vec![0.0; n]; n];
    for (row, &i) in dense.iter_mut().zip(perm) {
        for p in a.range(i as usize) {
            let j = a.idx()[p] as usize;
            row[place[j] as usize] = ordering.scaling.apply(i as usize, j, values[p]);
        }
    }
    let mut smallest = f64::INFINITY;
    let mut k = 0;
    while k < n {
        let is_pair = ordering.pair_starts.contains(&(k as u32));
        let end = k + if is_pair { 2 } else { 1 };
        let (x, y) = (dense[k][k], if is_pair { dense[k][k + 1] } else { 0.0 });
        let z = if is_pair { dense[k + 1][k + 1] } else { 1.0 };
        let determinant = x * z - y * y;
        smallest = f64::min(smallest, determinant.abs());
        if smallest < 1e-12 {
            return 0.0;
        }
        let pivot_rows = dense[k..end].to_vec();
        for row in &mut dense[end..] {
            let (first, second) = (row[k], if is_pair { row[k + 1] } else { 0.0 });
            let by_first = (z * first - y * second) / determinant;
            let by_second = (x * second - y * first) / determinant;
            for (j, entry) in row.iter_mut().enumerate().skip(end) {
                *entry -= by_first * pivot_rows[0][j];
                if is_pair {
                    *entry -= by_second * pivot_rows[1][j];
                }
            }
        }
        k = end;
    }
    smallest
}

#[test]
fn pivots_serve_where_they_stand() {
    for seed in 0..5 {
        for a in [
            saddle_point(120, 60, seed),
            interior_point_kkt(120, 60, 1e-3, seed),
        ] {
            let pattern = pattern_of(&a);
            for method in [Method::Amd, Method::NestedDissection] {
                let options = options().method(method);
                let auto = order_symmetric(&pattern, Some(a.data()), &options).unwrap();
                assert!(auto.matching_used);
                let pivot = smallest_pivot(&pattern, a.data(), &auto);
                assert!(pivot > 1e-3, "{pivot}");
                let never = options.matching(Matching::Never);
                let plain = order_symmetric(&pattern, Some(a.data()), &never).unwrap();
                assert_eq!(smallest_pivot(&pattern, a.data(), &plain), 0.0);
            }
        }
    }
}

#[test]
fn without_pairs_the_order_is_the_plain_one() {
    let a = laplacian_2d(40, 30);
    let pattern = pattern_of(&a);
    for method in METHODS {
        let plain = options().method(method.clone()).matching(Matching::Never);
        let plain = order_symmetric(&pattern, Some(a.data()), &plain).unwrap();
        let always = options().method(method.clone()).matching(Matching::Always);
        let always = order_symmetric(&pattern, Some(a.data()), &always).unwrap();
        assert_eq!((always.pairs, &always.perm), (0, &plain.perm));
        assert_eq!(always.forest, plain.forest);
        assert_eq!(always.predicted, plain.predicted);
        assert!(!plain.matching_used);
    }
}

#[test]
fn pairs_are_looked_for_where_the_diagonal_is_poor() {
    let n = 100;
    let with_zeros = |num_zeros: u32| {
        let mut entries: Vec<(u32, u32, f64)> = (num_zeros..n).map(|i| (i, i, 4.0)).collect();
        entries.extend((1..n).map(|i| (i - 1, i, 1.0)));
        symmetric(n as usize, &entries)
    };
    for (num_zeros, is_poor) in [(0, false), (2, false), (3, true), (40, true)] {
        let (a, values) = with_zeros(num_zeros);
        for values in [Some(&values[..]), None] {
            let ordering = order_symmetric(&a, values, &options()).unwrap();
            assert_valid(&a, &ordering);
            assert_eq!(ordering.pairs > 0, is_poor, "{num_zeros}");
            assert_eq!(ordering.matching_used, is_poor);
            assert_eq!(ordering.structural_rank, is_poor.then_some(n as usize));
            let is_known = is_poor && values.is_some();
            assert_eq!(ordering.log10_matching_product.is_some(), is_known);
        }
        let definite = options().is_definite(true).matching(Matching::Always);
        let ordering = order_symmetric(&a, Some(&values), &definite).unwrap();
        assert_eq!((ordering.pairs, ordering.structural_rank), (0, None));
    }
}

#[test]
fn a_matching_of_wild_scaling_is_used_only_if_asked_for() {
    // The matched edges of a path are ones, and the others so large that each pair must be scaled further apart than
    // the pair before it.
    let n = 12;
    let edge = |i: u32| if i % 2 == 1 { 1.0 } else { 2f64.powi(60) };
    let entries: Vec<(u32, u32, f64)> = (1..n).map(|i| (i - 1, i, edge(i))).collect();
    let (a, values) = symmetric(n as usize, &entries);
    let ordered = |options: &SymmetricOptions| order_symmetric(&a, Some(&values), options).unwrap();
    let auto = ordered(&options());
    assert_eq!((auto.pairs, auto.structural_rank), (0, None));
    assert!(!auto.matching_used);
    let equilibrated = options().scaling(SymmetricScaling::Equilibrate);
    assert_eq!(auto.scaling, ordered(&equilibrated).scaling);
    let by_matching = options().scaling(SymmetricScaling::Matching);
    for options in [by_matching, options().matching(Matching::Always)] {
        let ordering = ordered(&options);
        assert_valid(&a, &ordering);
        assert_eq!(ordering.pairs, 6);
        assert!(ordering.scaling.span() > 2f64.powi(100));
    }
    // Far apart, but so is the equilibration.
    let factor = |i: u32| 2f64.powi(40 * i as i32 - 240);
    let edges = (0..n).flat_map(|i| (0..i).map(move |j| (i, j)));
    let entries: Vec<(u32, u32, f64)> = edges.map(|(i, j)| (i, j, factor(i) * factor(j))).collect();
    let (a, values) = symmetric(n as usize, &entries);
    let ordering = order_symmetric(&a, Some(&values), &options()).unwrap();
    assert_eq!(ordering.pairs, 6);
    assert!(ordering.scaling.span() > 2f64.powi(400));
}

#[test]
fn structurally_singular_matrices_are_ordered() {
    // Three rows with an entry in the first column alone, beside a full block.
    let mut entries = vec![(0, 0, 1.0), (0, 1, 8.0), (0, 2, 64.0), (0, 3, 512.0)];
    entries.extend([(4, 4, 0.0), (4, 5, 1.0), (5, 5, 1.0)]);
    let (a, values) = symmetric(6, &entries);
    let ordering = paired(&a, &values);
    assert_eq!(ordering.structural_rank, Some(4));
    let place = ordering.perm.inverse();
    assert!(place[5] < place[4]);
    for i in 0..6 {
        let scaled = |p: usize| ordering.scaling.apply(i, a.idx()[p] as usize, values[p]);
        let largest = a.range(i).map(|p| scaled(p).abs()).fold(0.0, f64::max);
        assert!((0.5..=2.0).contains(&largest), "{i}: {largest}");
    }
    // Stored zeros count as nothing.
    let (a, values) = symmetric(3, &[(0, 1, 0.0), (0, 2, 1.0), (1, 1, 0.0)]);
    assert_eq!(paired(&a, &values).structural_rank, Some(2));
}

#[test]
fn structurally_singular_matrices_are_refused_if_asked_for() {
    let refused = |n, entries: &[_], matching, has_values: bool| {
        let (a, values) = symmetric(n, entries);
        let options = options().matching(matching).refuses_singular(true);
        let values = has_values.then_some(&values[..]);
        order_symmetric(&a, values, &options).err()
    };
    let singular = [(0, 1, 1.0), (0, 2, 64.0), (0, 3, 512.0), (4, 4, 1.0)];
    for matching in [Matching::Always, Matching::Never] {
        for has_values in [true, false] {
            match refused(5, &singular, matching, has_values) {
                Some(OrderingError::StructurallySingular {
                    rank,
                    unmatched_rows,
                    unmatched_cols,
                }) => {
                    assert_eq!(
                        (rank, unmatched_rows.len(), unmatched_cols.len()),
                        (3, 2, 2)
                    );
                    assert!(unmatched_rows.iter().all(|row| (1..=3).contains(row)));
                }
                other => panic!("{matching:?}: {other:?}"),
            }
        }
        // Holes that others make up for, and zeros that hold a place.
        assert_eq!(refused(2, &[(0, 1, 1.0)], matching, true), None);
        let zeros = [(0, 1, 0.0), (0, 2, 1.0), (1, 2, 3.0), (2, 2, 1.0)];
        match refused(3, &zeros, matching, true) {
            Some(OrderingError::NumericallySingular { rank: 2, .. }) => {}
            other => panic!("{matching:?}: {other:?}"),
        }
        assert_eq!(refused(3, &zeros, matching, false), None);
    }
}

#[test]
fn scalings_are_the_ones_asked_for() {
    let a = interior_point_kkt(60, 30, 1e-6, 5);
    let (pattern, values) = (pattern_of(&a), a.data());
    let n = pattern.major_dim();
    let scaled = |scaling: SymmetricScaling| {
        let options = options().scaling(scaling);
        let ordering = order_symmetric(&pattern, Some(values), &options).unwrap();
        assert_symmetric(&ordering.scaling, n);
        ordering.scaling
    };
    assert_eq!(scaled(SymmetricScaling::None), Scaling::identity(n, n));
    let equilibrated = scaled(SymmetricScaling::Equilibrate);
    for i in 0..n {
        let entries = pattern.range(i);
        let entries = entries.map(|p| equilibrated.apply(i, pattern.idx()[p] as usize, values[p]));
        let largest = entries.fold(0.0, |largest, x| f64::max(largest, x.abs()));
        assert!((0.25..=4.0).contains(&largest), "{largest}");
    }
    let mut factors = vec![1.0; n];
    factors[..4].copy_from_slice(&[3.0, 0.3, 1e300, 8.0]);
    let user = scaled(SymmetricScaling::User(factors)).rows;
    assert_eq!(user[..3], [4.0, 0.25, 2f64.powi(997)]);
    assert_eq!(user[3..5], [8.0, 1.0]);
    let definite = options()
        .is_definite(true)
        .scaling(SymmetricScaling::Matching);
    let definite = order_symmetric(&pattern, Some(values), &definite).unwrap();
    assert_eq!(definite.scaling, equilibrated);
    assert!(!definite.matching_used);
}

#[test]
fn given_orders_are_kept() {
    let a = saddle_point(20, 8, 3);
    let pattern = pattern_of(&a);
    let n = pattern.major_dim();
    let given: Vec<u32> = (0..n as u32).map(|i| (i * 5 + 2) % n as u32).collect();
    assert!(is_permutation(&given));
    let rows = RowPerm::new(given.clone()).unwrap();
    let cols = ColPerm::new(given.clone()).unwrap();
    let user = |rows: &RowPerm| {
        let method = Method::User {
            rows: rows.clone(),
            cols: cols.clone(),
        };
        let options = options().method(method).matching(Matching::Always);
        order_symmetric(&pattern, Some(a.data()), &options)
    };
    let ordering = user(&rows).unwrap();
    assert_valid(&pattern, &ordering);
    assert_eq!((ordering.perm.as_slice(), ordering.pairs), (&given[..], 0));
    assert_eq!(ordering.method_used, MethodUsed::User);
    let mut other = given.clone();
    other.swap(3, 9);
    let other = user(&RowPerm::new(other).unwrap());
    assert_eq!(
        other,
        Err(OrderingError::UnsymmetricPermutation { position: 3 })
    );
    let natural = options().method(Method::Natural);
    let natural = order_symmetric(&pattern, Some(a.data()), &natural).unwrap();
    assert_eq!(natural.perm, ColPerm::identity(n));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let ordered = |a: &CompressedPattern, values: Option<&[f64]>, options: &SymmetricOptions| {
        order_symmetric(a, values, options).unwrap_err()
    };
    let (a, mut values) = symmetric(3, &[(0, 0, 1.0), (0, 2, 1.0), (1, 1, 1.0)]);
    let colamd = options().method(Method::Colamd);
    assert_eq!(ordered(&a, None, &colamd), OrderingError::NotForSymmetric);
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let user = options().scaling(SymmetricScaling::User(vec![1.0, factor, 0.0]));
        let expected = OrderingError::BadScaling { row: 1 };
        assert_eq!(ordered(&a, Some(&values), &user), expected);
    }
    values[2] = f64::NAN;
    let expected = OrderingError::NotFinite { row: 1, column: 1 };
    assert_eq!(ordered(&a, Some(&values), &options()), expected);
    // The entries without a counterpart: above the diagonal, below it with and without others behind it.
    for (rows, row, column) in [
        ([vec![0, 1], vec![1], vec![]], 0, 1),
        ([vec![0], vec![0, 1], vec![]], 1, 0),
        ([vec![0, 2], vec![1], vec![0, 1]], 2, 1),
        ([vec![1], vec![0, 2], vec![0, 1]], 2, 0),
    ] {
        let error = ordered(&pattern(3, &rows), None, &options());
        assert_eq!(error, OrderingError::NotSymmetric { row, column });
    }
    let wide = pattern(3, &[vec![0], vec![1]]);
    let expected = OrderingError::NotSquare { nrows: 2, ncols: 3 };
    assert_eq!(ordered(&wide, None, &options()), expected);
    let cancelled = options();
    cancelled.cancel.cancel();
    let expected = OrderingError::Cancelled(Cancelled);
    assert_eq!(ordered(&a, None, &cancelled), expected);
}

#[test]
fn threads_change_nothing() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build();
    let pool = pool.unwrap();
    for a in [
        interior_point_kkt(4000, 2500, 1e-4, 1),
        saddle_point(3000, 1500, 2),
        laplacian_2d(90, 80),
    ] {
        let pattern = pattern_of(&a);
        for method in [Method::Auto, Method::NestedDissection] {
            for matching in [Matching::Auto, Matching::Always] {
                let options = options().method(method.clone()).matching(matching);
                let mut one = order_symmetric(&pattern, Some(a.data()), &options).unwrap();
                let options = options.threads(4);
                let by_threads = || order_symmetric(&pattern, Some(a.data()), &options).unwrap();
                let mut many = pool.install(by_threads);
                one.seconds = Default::default();
                many.seconds = Default::default();
                assert_eq!(one, many);
            }
        }
    }
}

/// Says that a tree takes as many seconds as it has entries.
#[derive(Debug)]
struct Entries;

impl TreeCost for Entries {
    fn seconds(&self, forest: &EliminationForest) -> f64 {
        forest.counts.iter().map(|&count| f64::from(count)).sum()
    }
}

#[test]
fn a_tree_cost_chooses() {
    let a = interior_point_kkt(3000, 1500, 1e-4, 8);
    let pattern = pattern_of(&a);
    let by_tree = options().tree_cost(Some(Arc::new(Entries)));
    let by_tree = order_symmetric(&pattern, Some(a.data()), &by_tree).unwrap();
    assert!(by_tree.pairs > 0 && by_tree.forest.is_some());
    let never = options()
        .tree_cost(Some(Arc::new(Entries)))
        .matching(Matching::Never);
    assert!(
        order_symmetric(&pattern, Some(a.data()), &never)
            .unwrap()
            .pairs
            == 0
    );
}

#[test]
fn without_memory_for_a_dissection_orders_are_by_minimum_degree() {
    let a = pattern_of(&laplacian_2d(60, 60));
    let within = |method, memory, by_tree: bool| {
        let cost = by_tree.then(|| Arc::new(Entries) as Arc<dyn TreeCost>);
        let options = options().method(method).memory(memory).tree_cost(cost);
        order_symmetric(&a, None, &options)
    };
    let nothing = || MemoryBudget::new(0);
    for by_tree in [false, true] {
        let ordered = within(Method::Auto, nothing(), by_tree).unwrap();
        assert_eq!(ordered.method_used, MethodUsed::Amd, "{by_tree}");
        let refused = within(Method::NestedDissection, nothing(), by_tree);
        assert!(matches!(refused, Err(OrderingError::OutOfMemory(_))));
    }
    let ordered = within(Method::Auto, MemoryBudget::unlimited(), true).unwrap();
    assert_eq!(ordered.method_used, MethodUsed::NestedDissection);
}
