//! The tree's predictions against the factors.

use luge_frontal::{FrontalLu, Options, TreeOptions};

use crate::checks::all_trees;
use crate::matrices::{Matrix, Random, grid_with, random_matrix};

#[test]
fn the_factors_count_their_entries() {
    let mut random = Random(17);
    let a = random_matrix(40, 4, true, &mut random);
    let symbolic = a.symbolic(&TreeOptions::default());
    let (lu, quality) =
        FrontalLu::<f64>::factorize(&symbolic, &a.values, &Options::default()).unwrap();
    let (mut l, mut u) = (0, 0);
    lu.for_each_l(|_, _, _| l += 1);
    lu.for_each_u(|_, _, _| u += 1);
    assert_eq!((lu.lnz(), lu.unz()), (l + 40, u));
    assert_eq!(lu.factor_entries(), l + u);
    assert!(lu.bytes() >= 8 * lu.factor_entries());
    assert!(quality.num_delayed > 0 || lu.factor_entries() == symbolic.factor_entries());
}

#[test]
fn the_peak_of_a_single_front_is_its_factors_and_its_scratch() {
    let entries = (0..100).map(|p| (p / 10, p % 10, if p % 11 == 0 { 20.0 } else { 1.0 }));
    let a = Matrix::from_entries(10, entries.collect());
    let symbolic = a.symbolic(&TreeOptions::default());
    assert_eq!(
        (
            symbolic.tree().num_supernodes(),
            symbolic.tree().max_front()
        ),
        (1, 10)
    );
    // A row has 8 values of a worker and 4 of the matrix.
    assert_eq!(
        symbolic.peak_bytes(8, 1),
        symbolic.factor_bytes(8) + 12 * 10 * 8
    );
    assert_eq!(
        symbolic.peak_bytes(4, 1),
        symbolic.factor_bytes(4) + 12 * 10 * 4
    );
}

#[test]
fn the_tree_predicts_what_happens() {
    // A diagonal that dominates rows and columns stays dominant, so nothing is delayed.
    let a = grid_with(30, 30, 7.5, &mut Random(18));
    let symbolic = a.symbolic(&TreeOptions::default());
    let (lu, quality) =
        FrontalLu::<f64>::factorize(&symbolic, &a.values, &Options::default()).unwrap();
    assert_eq!(quality.num_delayed, 0);
    assert_eq!(lu.factor_entries(), symbolic.factor_entries());
    assert!(symbolic.factor_bytes(8) >= 8 * symbolic.factor_entries());
    assert!(symbolic.peak_bytes(8, 1) > symbolic.factor_bytes(8));
    assert!(symbolic.flops() > symbolic.factor_entries() as f64);
    assert!(symbolic.seconds() > 0.0);
    assert!(symbolic.tree().max_front() >= 30);
    // Rows below a front are later pivots, ascending, and those of a child are in its parent.
    for (s, front) in symbolic.tree().fronts().iter().enumerate() {
        let rows = symbolic.tree().rows_below(s);
        assert!(rows.windows(2).all(|w| w[0] < w[1]));
        if let Some(&first) = rows.first() {
            let parent = &symbolic.tree().fronts()[front.parent as usize];
            assert!((parent.start..parent.start + parent.pivots).contains(&first));
            let above = symbolic.tree().rows_below(front.parent as usize);
            assert!(rows.iter().all(|r| {
                (parent.start..parent.start + parent.pivots).contains(r) || above.contains(r)
            }));
        }
    }
    let none = a.symbolic(&all_trees()[2]);
    let much = a.symbolic(&all_trees()[1]);
    assert!(none.factor_entries() <= symbolic.factor_entries());
    assert!(much.tree().num_supernodes() <= symbolic.tree().num_supernodes());
    assert!(symbolic.tree().num_supernodes() < none.tree().num_supernodes());
    let limit = none.factor_entries() as f64 * 1.35;
    assert!((symbolic.factor_entries() as f64) < limit);
}
