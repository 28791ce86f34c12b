//! Block triangular form against reachability.

use crate::common::{is_permutation, pattern, random_pattern};
use luge_ordering::{BlockTriangular, block_triangular, maximum_cardinality};
use luge_sparse::{CancelFlag, CompressedPattern};
use luge_testkit::strategies::patterns_with_diagonal;
use proptest::prelude::*;

/// Whether each vertex reaches each other one, by Warshall's algorithm.
fn reachable(a: &CompressedPattern, row_of_col: &[u32]) -> Vec<Vec<bool>> {
    let n = a.major_dim();
    let mut reach = vec![vec![false; n]; n];
    for j in 0..n {
        reach[j][j] = true;
        for &k in a.line(row_of_col[j] as usize) {
            reach[j][k as usize] = true;
        }
    }
    for via in 0..n {
        for from in 0..n {
            if reach[from][via] {
                let onwards = reach[via].clone();
                for (to, also) in reach[from].iter_mut().zip(onwards) {
                    *to |= also;
                }
            }
        }
    }
    reach
}

fn block_of(form: &BlockTriangular) -> Vec<usize> {
    let mut block_of = vec![0; form.perm.len()];
    for (b, range) in form.block_ptr.windows(2).enumerate() {
        assert!(range[0] < range[1], "block {b} is empty");
        for &old in &form.perm.as_slice()[range[0]..range[1]] {
            block_of[old as usize] = b;
        }
    }
    block_of
}

fn assert_upper(a: &CompressedPattern, row_of_col: &[u32], form: &BlockTriangular) {
    assert!(is_permutation(form.perm.as_slice()));
    let block_of = block_of(form);
    for j in 0..a.major_dim() {
        for &k in a.line(row_of_col[j] as usize) {
            assert!(
                block_of[j] <= block_of[k as usize],
                "({j}, {k}) lies below the blocks"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn blocks_are_the_sets_that_reach_each_other(
        a in patterns_with_diagonal(14),
        shuffle in Just((0..14u32).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        // Shuffle the rows, so that the diagonal stands elsewhere.
        let n = a.major_dim();
        let order: Vec<usize> =
            shuffle.iter().map(|&i| i as usize).filter(|&i| i < n).collect();
        let rows: Vec<Vec<u32>> = order.iter().map(|&i| a.line(i).to_vec()).collect();
        let shuffled = pattern(n, &rows);
        let matching = maximum_cardinality(&shuffled, &CancelFlag::new()).unwrap();
        let row_of_col = matching.into_perfect().expect("the diagonal is a perfect matching");

        let form = block_triangular(&shuffled, &row_of_col);
        assert_upper(&shuffled, &row_of_col, &form);
        let reach = reachable(&shuffled, &row_of_col);
        let block_of = block_of(&form);
        for j in 0..n {
            for k in 0..n {
                prop_assert_eq!(block_of[j] == block_of[k], reach[j][k] && reach[k][j]);
            }
        }
    }
}

#[test]
fn triangular_matrices_fall_into_single_columns() {
    for n in [0usize, 1, 31, 32, 33, 1025] {
        let lower: Vec<Vec<u32>> = (0..n as u32).map(|i| vec![0, i / 2, i]).collect();
        let identity: Vec<u32> = (0..n as u32).collect();
        let a = pattern(n, &lower);
        let form = block_triangular(&a, &identity);
        assert_eq!(form.block_ptr, (0..=n).collect::<Vec<_>>());
        assert_upper(&a, &identity, &form);
    }
}

#[test]
fn cycles_stay_whole_and_deep_chains_do_not_overflow() {
    let n = 300_000u32;
    let identity: Vec<u32> = (0..n).collect();
    let cycle: Vec<Vec<u32>> = (0..n).map(|i| vec![i, (i + 1) % n]).collect();
    let form = block_triangular(&pattern(n as usize, &cycle), &identity);
    assert_eq!(form.block_ptr, [0, n as usize]);
    assert_eq!(form.perm.as_slice(), identity);

    let chain: Vec<Vec<u32>> = (0..n).map(|i| vec![i.saturating_sub(1), i]).collect();
    let a = pattern(n as usize, &chain);
    let form = block_triangular(&a, &identity);
    assert_eq!(form.block_ptr.len(), n as usize + 1);
    assert_upper(&a, &identity, &form);
}

#[test]
fn large_random_forms_are_upper_triangular() {
    for seed in 0..5 {
        let a = random_pattern(5000, 1, true, seed);
        let identity: Vec<u32> = (0..5000).collect();
        let form = block_triangular(&a, &identity);
        assert_upper(&a, &identity, &form);
        assert!(
            form.block_ptr.len() > 100,
            "{} blocks",
            form.block_ptr.len() - 1
        );
    }
}
