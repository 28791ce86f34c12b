//! The CPU path against the reference and against a reach row by row.

mod reach;

use luge_reference::symbolic as reference;
use luge_sparse::{CompressedPattern, FilledPattern};
use luge_symbolic::SymbolicError;
use luge_symbolic::cpu::{
    Options, SourceTraversal, counts, counts_with, filled_pattern, filled_pattern_with,
};
use luge_testkit::compare::assert_same_filled;
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::Corpus;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::convection_diffusion_2d;
use luge_testkit::generators::gallery;
use luge_testkit::strategies::{pattern_from, patterns, symmetric_matrices};
use proptest::prelude::*;

/// Everything that the library says of `a` against `expected`, for several thread counts.
#[track_caller]
fn check(a: &CompressedPattern, expected: &FilledPattern) {
    assert_same_filled(&filled_pattern(a).unwrap(), expected);
    let counted = counts(a).unwrap();
    assert_eq!(counted.n(), expected.n());
    assert_eq!(counted.lnz, expected.lnz() as u64);
    assert_eq!(counted.unz, expected.unz() as u64);
    assert_eq!(counted.nnz(), expected.nnz() as u64);
    assert_eq!(counted.flops, expected.flops());
    let mut below = vec![0; expected.n()];
    for i in 0..expected.n() {
        assert_eq!(counted.lower_rows[i] as usize, expected.lower(i).len());
        assert_eq!(counted.upper_rows[i] as usize, expected.upper(i).len());
        for &k in expected.lower(i) {
            below[k as usize] += 1;
        }
    }
    assert_eq!(counted.lower_cols, below);
    // Each row by itself, in another order.
    let mut traversal = SourceTraversal::new(a);
    for i in (0..expected.n()).rev() {
        let mut row = vec![7];
        traversal.append_row(i as u32, &mut row);
        assert_eq!(row[1..], *expected.rows().line(i), "row {i}");
    }
    for threads in [2, 3, 8] {
        let options = Options {
            threads,
            ..Options::default()
        };
        assert_same_filled(&filled_pattern_with(a, &options).unwrap(), expected);
        assert_eq!(counts_with(a, &options).unwrap(), counted);
    }
}

/// Entries of `a`, and of it what `keep` lets through.
fn filtered(a: &CompressedPattern, keep: impl Fn(u32, u32) -> bool) -> CompressedPattern {
    let entries = (0..a.major_dim()).flat_map(|i| a.line(i).iter().map(move |&j| (i as u32, j)));
    pattern_from(a.major_dim(), entries.filter(|&(i, j)| keep(i, j)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn filled_pattern_matches_elimination(a in patterns(40)) {
        check(&a, &reference::dense_boolean_elimination(&a));
    }

    #[test]
    fn symmetric_patterns_match_elimination(a in symmetric_matrices(60)) {
        let a = pattern_of(&a);
        check(&a, &reference::dense_boolean_elimination(&a));
    }

    /// Symmetric but for one entry in so many.
    #[test]
    fn nearly_symmetric_patterns_match_elimination(a in symmetric_matrices(60), every in 2u32..20) {
        let a = filtered(&pattern_of(&a), |i, j| i <= j || (7 * i + 3 * j) % every != 0);
        check(&a, &reference::dense_boolean_elimination(&a));
    }

    #[test]
    fn block_triangular_patterns_match_elimination(a in patterns(60), size in 1u32..12) {
        let a = filtered(&a, |i, j| i / size <= j / size);
        check(&a, &reference::dense_boolean_elimination(&a));
    }

    #[test]
    fn dense_rows_and_columns_match_elimination(
        a in patterns(40), row in 0u32..40, col in 0u32..40,
    ) {
        let n = a.major_dim() as u32;
        let entries = (0..n).flat_map(|i| a.line(i as usize).iter().map(move |&j| (i, j)));
        let dense = (0..n).flat_map(|k| [(row, k), (k, col)]);
        let all = entries.chain(dense).filter(|&(i, j)| i < n && j < n);
        let a = pattern_from(n as usize, all);
        check(&a, &reference::dense_boolean_elimination(&a));
    }

    /// The limit is exact: to the byte the pattern's own size, known before it is allocated.
    #[test]
    fn the_limit_is_the_size_of_the_pattern(a in patterns(40), short in 1u64..400) {
        let filled = filled_pattern(&a).unwrap();
        let bytes = 4 * filled.nnz() as u64 + 16 * filled.n() as u64;
        prop_assert_eq!(counts(&a).unwrap().pattern_bytes(), bytes);
        let limited = |max_bytes| Options { max_bytes: Some(max_bytes), ..Options::default() };
        assert_same_filled(&filled_pattern_with(&a, &limited(bytes)).unwrap(), &filled);
        let limit = bytes.saturating_sub(short);
        if limit < bytes {
            match filled_pattern_with(&a, &limited(limit)) {
                Err(SymbolicError::OutOfMemory { row, asked, available }) => {
                    prop_assert!(asked <= bytes && asked > limit && available == limit);
                    prop_assert!(row < filled.n());
                    if asked == bytes {
                        let up_to = |row: usize| 4 * filled.rows().ptr()[row] + 16 * filled.n() as u64;
                        prop_assert!(up_to(row + 1) > limit);
                        prop_assert!(row == 0 || up_to(row) <= limit);
                    }
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    #[test]
    fn filled_pattern_matches_the_path_theorem(a in patterns(20)) {
        assert_same_filled(&filled_pattern(&a).unwrap(), &reference::fill_by_path_theorem(&a));
    }
}

#[test]
fn filled_pattern_matches_reference_on_the_gallery() {
    for sample in gallery(7) {
        let a = pattern_of(&sample.matrix);
        let expected = reference::dense_boolean_elimination(&a);
        check(&a, &expected);
    }
}

#[test]
fn rows_of_all_densities_are_sorted() {
    // The head of the arrow makes dense rows, its tail sparse ones over a wide range of columns.
    for head in [ArrowHead::First, ArrowHead::Last] {
        for n in [1, 31, 32, 33, 129] {
            let a = pattern_of(&arrow(n, head));
            let expected = reference::fill2(&a);
            check(&a, &expected);
        }
    }
    let grid = pattern_of(&convection_diffusion_2d(41, 25, 1.0));
    assert_eq!(grid.major_dim(), 1025);
    check(&grid, &reference::fill2(&grid));
}

/// Reach and elimination share no code.
#[test]
fn filled_pattern_matches_a_reach_row_by_row_on_the_corpus() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let mut compared = 0;
    for entry in corpus.square_real(20_000) {
        let matrix = entry.read().unwrap_or_else(|e| panic!("{e}"));
        let a = matrix.pattern();
        // In the order of the file, some of the largest fill completely.
        let size = counts(&a).unwrap();
        if size.nnz() > 10_000_000 {
            eprintln!("SKIPPED {}: {} entries in L+U", entry.name, size.nnz());
            continue;
        }
        let expected = reach::filled_pattern(&a);
        for threads in [1, 3] {
            let options = Options {
                threads,
                ..Options::default()
            };
            let filled = filled_pattern_with(&a, &options).unwrap();
            assert_same_filled(&filled, &expected);
        }
        assert_eq!(size.nnz(), expected.nnz() as u64);
        compared += 1;
    }
    assert!(compared > 60, "{compared} matrices");
}

#[test]
fn filled_pattern_matches_reference_on_the_corpus() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let entries = corpus.square_real(600);
    assert!(entries.len() > 20, "{} matrices", entries.len());
    for entry in entries {
        let matrix = entry.read().unwrap_or_else(|e| panic!("{e}"));
        let a = matrix.pattern();
        let expected = reference::dense_boolean_elimination(&a);
        check(&a, &expected);
    }
}

/// The structures of the pivots are counted against the limit while they are found: those of a tridiagonal matrix have
/// one entry each, of the last pivot none. What the whole pattern would take is not known by then.
#[test]
fn structures_stop_at_the_limit() {
    let n = 100;
    let near = |i: u32| i.saturating_sub(1)..(i + 2).min(n);
    let a = pattern_from(
        n as usize,
        (0..n).flat_map(|i| near(i).map(move |j| (i, j))),
    );
    for stored in [0, 1, 50, 98, 99] {
        let available = 16 * u64::from(n) + 4 * stored;
        let options = Options {
            max_bytes: Some(available),
            ..Options::default()
        };
        let told = match filled_pattern_with(&a, &options) {
            Err(SymbolicError::OutOfMemory {
                row,
                asked,
                available,
            }) => (row, asked, available),
            other => panic!("{other:?}"),
        };
        let expected = if stored < 99 {
            (stored as usize, available + 4, available)
        } else {
            // All structures fit. 2 entries in the first row, 3 in each of the others: the limit is in row 33.
            (
                33,
                16 * u64::from(n) + 4 * (3 * u64::from(n) - 2),
                available,
            )
        };
        assert_eq!(told, expected);
        assert!(counts_with(&a, &options).is_ok(), "counts take no limit");
    }
}
