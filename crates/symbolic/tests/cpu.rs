//! The CPU path against the reference.

use luge_reference::symbolic as reference;
use luge_symbolic::cpu::filled_pattern;
use luge_testkit::compare::assert_same_filled;
use luge_testkit::convert::pattern_of;
use luge_testkit::corpus::Corpus;
use luge_testkit::generators::adversaries::{ArrowHead, arrow};
use luge_testkit::generators::applications::convection_diffusion_2d;
use luge_testkit::generators::gallery;
use luge_testkit::strategies::patterns;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn filled_pattern_matches_elimination(a in patterns(40)) {
        assert_same_filled(&filled_pattern(&a).unwrap(), &reference::dense_boolean_elimination(&a));
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
        assert_same_filled(&filled_pattern(&a).unwrap(), &expected);
    }
}

#[test]
fn rows_of_all_densities_are_sorted() {
    // The head of the arrow makes dense rows, its tail sparse ones over a wide range of columns.
    for head in [ArrowHead::First, ArrowHead::Last] {
        for n in [1, 31, 32, 33, 129] {
            let a = pattern_of(&arrow(n, head));
            let expected = reference::fill2(&a);
            assert_same_filled(&filled_pattern(&a).unwrap(), &expected);
        }
    }
    let grid = pattern_of(&convection_diffusion_2d(41, 25, 1.0));
    assert_eq!(grid.major_dim(), 1025);
    assert_same_filled(&filled_pattern(&grid).unwrap(), &reference::fill2(&grid));
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
        let a = luge_sparse::CompressedPattern::from_sparsity(&matrix.pattern()).unwrap();
        let expected = reference::dense_boolean_elimination(&a);
        assert_same_filled(&filled_pattern(&a).unwrap(), &expected);
    }
}
