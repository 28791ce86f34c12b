//! Threshold pivoting of LU on the device: columns without a pivot in their front are delayed, L is bounded, and the factors
//! are those of the matrix, always with the same bits.

use std::cell::Cell;
use std::sync::Arc;

use luge_device::Stream;
use luge_frontal::gpu::{
    DeviceFrontalError, DeviceFrontalLu, DeviceQuality, Limits, MovedTree, Workspace,
};
use luge_frontal::{Full, TreeOptions};
use luge_sparse::{PivotPolicy, RealScalar};
use luge_testkit::generators::applications::staged_columns;
use luge_testkit::generators::mixed::{darcy, stokes};
use luge_testkit::strategies::patterns_with_diagonal;
use proptest::prelude::*;
use sprs::{CsMat, TriMat};

use crate::chain::{RealDeviceScalar, noise, seeded_streams, streams};
use crate::frontal::{Problem, assert_extremes, backward_error, tree_on_device};

const U: f64 = 0.01;

const PIVOTS: PivotPolicy = PivotPolicy::threshold(U);

/// Uniform in −1 .. 1.
fn uniform(seed: u64, i: usize) -> f64 {
    (noise(seed, i) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

fn unmerged() -> TreeOptions {
    TreeOptions {
        zero_fraction: 0.0,
        tiny_zero_fraction: 0.0,
        ..TreeOptions::default()
    }
}

/// Factors by threshold pivoting, with the values that they were made of.
fn factorize<T: RealDeviceScalar>(
    stream: &Stream,
    problem: &Problem,
    limits: Limits,
    pivots: &PivotPolicy,
) -> Result<(DeviceFrontalLu<T>, DeviceQuality), DeviceFrontalError> {
    factorize_counting(stream, problem, limits, pivots, &Cell::new(0))
}

/// As that, with the number of trees in which columns have moved.
fn factorize_counting<T: RealDeviceScalar>(
    stream: &Stream,
    problem: &Problem,
    limits: Limits,
    pivots: &PivotPolicy,
    rounds: &Cell<usize>,
) -> Result<(DeviceFrontalLu<T>, DeviceQuality), DeviceFrontalError> {
    let tree = Arc::new(tree_on_device(stream, problem, &problem.symbolic, limits));
    let values = stream.upload(&problem.values).unwrap();
    let upload = |moved: MovedTree<'_, Full>| {
        rounds.set(rounds.get() + 1);
        Ok(tree_on_device(stream, problem, &moved.symbolic(1)?, limits))
    };
    let workspace = Arc::new(Workspace::new(stream, &tree)?);
    DeviceFrontalLu::factorize_by_threshold(&workspace, stream, &tree, &values, pivots, &upload)
}

/// Checks factors by the definition: they solve, and L is bounded.
fn check<T: RealDeviceScalar>(
    stream: &Stream,
    problem: &Problem,
    factors: &DeviceFrontalLu<T>,
    quality: &DeviceQuality,
    what: &str,
) {
    let epsilon = RealScalar::to_f64(T::epsilon());
    let error = backward_error(stream, problem, factors);
    let bound = 64.0 * epsilon * problem.symbolic.n() as f64;
    assert!(error <= bound, "{what}: {error:e}, at most {bound:e}");
    assert_extremes(stream, factors.tree().symbolic().tree(), factors, quality);
    let most = (1.0 + epsilon.sqrt()) / U;
    assert!(quality.max_l <= most, "{what}: |L| of {}", quality.max_l);
    assert_eq!(quality.num_perturbed, 0);
}

/// Dense blocks of these numbers of columns below one of `c`, each without entries in one of its rows and columns, so that
/// they need not be merged. `value(block, i, j)` for rows and columns counted within blocks; the last block is that of `c`,
/// and between blocks values are about one.
fn joined(pivots: &[usize], c: usize, value: impl Fn(usize, usize, usize) -> f64) -> CsMat<f64> {
    let mut blocks = Vec::new();
    for (block, &k) in pivots.iter().chain([&c]).enumerate() {
        let start = blocks.len();
        blocks.extend(std::iter::repeat_n((block, start), k));
    }
    let n = blocks.len();
    let mut a = TriMat::new((n, n));
    for i in 0..n {
        for j in 0..n {
            let ((of_row, row), (of_column, column)) = (blocks[i], blocks[j]);
            let lower = of_row.min(of_column);
            if of_row == of_column {
                a.add_triplet(i, j, value(of_row, i - row, j - column));
            } else if of_row.max(of_column) == pivots.len() && i.max(j) != n - 1 - lower {
                a.add_triplet(i, j, uniform(3, i * n + j));
            }
        }
    }
    a.to_csr()
}

/// In a block: large on the diagonal.
fn dominant(block: usize, i: usize, j: usize) -> f64 {
    let value = uniform(7 + block as u64, 1000 * i + j);
    if i == j { 100.0 } else { value }
}

/// As that, but for rows and columns taken in pairs, whose rows are exchanged.
fn exchanged(block: usize, i: usize, j: usize) -> f64 {
    dominant(block, i ^ 1, j)
}

/// Limits under which fronts are worked on as they are by default, and as tiles and wide ones.
fn limits(small_front: u32, whole_front: u32, tiled_front: u32) -> Limits {
    Limits {
        small_front,
        whole_front,
        tiled_front,
        gathered: 0,
        apart: 0,
        many_of_thread: 0,
    }
}

/// The elements of a tree that columns move away from have no memory until a factorization needs it.
#[test]
fn a_search_gives_back_the_elements_of_the_tree_before() {
    let stream = &seeded_streams()[0];
    let device = stream.device();
    let a = joined(&[40, 40], 30, |block, i, j| {
        let is_bad = block == 1 && j == 39;
        dominant(block, i, j) * if is_bad { 0.0 } else { 1.0 }
    });
    let problem = Problem::new(&a, &unmerged());
    let limits = Limits::default();
    let tree = Arc::new(tree_on_device(stream, &problem, &problem.symbolic, limits));
    let values = stream.upload(&problem.values).unwrap();
    let workspace = Arc::new(Workspace::<f64>::new(stream, &tree).unwrap());
    let upload = |moved: MovedTree<'_, Full>| {
        let symbolic = moved.symbolic(1)?;
        Ok(tree_on_device(stream, &problem, &symbolic, limits))
    };
    let factorized = || {
        let made = DeviceFrontalLu::factorize_by_threshold(
            &workspace, stream, &tree, &values, &PIVOTS, &upload,
        );
        let (factors, quality) = made.unwrap();
        assert_eq!(quality.num_delayed, 1);
        stream.download(factors.factors()).unwrap()
    };
    let before = device.allocated_bytes();
    let bits = factorized();
    let after = device.allocated_bytes();
    assert!(after < before, "{after} bytes, {before} before");
    assert!(factorized() == bits);
    assert_eq!(device.allocated_bytes(), after);
}

/// Columns that are zero in the rows of their front, or too small beside those below, go to the parent: alone where the others have rows of their own, else
/// with the column that has their row.
#[test]
fn columns_without_a_pivot_go_to_the_parent() {
    let wide = limits(0, 0, 0);
    let tiled = limits(0, 0, 4096);
    for (k, c, limits, what) in [
        (6, 8, Limits::default(), "small"),
        (40, 30, Limits::default(), "whole"),
        (40, 30, tiled, "one tile"),
        (40, 30, wide, "one wide tile"),
        (80, 40, wide, "one wide tile of two parts"),
    ] {
        // In a tile a tiny pivot is found out behind others that it spoils.
        let small = if limits.whole_front > 0 { 1e-8 } else { 0.0 };
        // Of several tiles, or parts of one, the last one alone has no other rows in the front to go to.
        let bad = [k - 5, k - 1];
        for (of_block, others) in [
            (dominant as fn(usize, usize, usize) -> f64, vec![]),
            (exchanged, vec![k - 6, k - 2]),
        ] {
            let a = joined(&[k, k], c, |block, i, j| {
                let is_bad = block == 1 && bad.contains(&j);
                of_block(block, i, j) * if is_bad { small } else { 1.0 }
            });
            let problem = Problem::new(&a, &unmerged());
            let pivots = |tree: &luge_frontal::AssemblyTree| -> Vec<u32> {
                tree.fronts().iter().map(|front| front.pivots).collect()
            };
            let before = pivots(problem.symbolic.tree());
            assert_eq!(before, [k, k, c].map(|size| size as u32), "{what}");
            let mut bits = None;
            let count = if others.is_empty() { 1 } else { 2 };
            for stream in seeded_streams().iter().take(count) {
                let rounds = Cell::new(0);
                let made = factorize_counting::<f64>(stream, &problem, limits, &PIVOTS, &rounds);
                let (factors, quality) = made.unwrap();
                // A column that has the row of one that fails goes in the same round.
                assert_eq!(rounds.get(), 1, "{what}");
                check(stream, &problem, &factors, &quality, what);
                let delayed = bad.len() + others.len();
                assert_eq!(quality.num_delayed, delayed, "{what}");
                let after = [k, k - delayed, c + delayed].map(|size| size as u32);
                assert_eq!(pivots(factors.tree().symbolic().tree()), after, "{what}");
                let found = stream.download(factors.factors()).unwrap();
                assert!(
                    *bits.get_or_insert_with(|| found.clone()) == found,
                    "{what}"
                );
            }
        }
    }
}

/// Columns that are zero, or too small beside the tiles below, in the rows of a tile that is not the last go to the end of their
/// front.
#[test]
fn columns_of_tiles_go_to_the_end_of_their_front() {
    for (limits, what) in [
        (limits(0, 0, 4096), "tiles"),
        (limits(0, 0, 0), "wide tiles"),
    ] {
        for (small, c) in [(0.0, 70), (1e-3, 70), (0.0, 0), (1e-3, 0)] {
            // In the first part of a tile, and in the second of a wide one.
            let bad = [3, 63, 70, 100];
            let k = 200;
            let a = joined(&[k], c.max(1), |block, i, j| {
                // Nor does it get anything there from the tiles before.
                let is_bad = block == 0 && bad.contains(&j) && i / 64 <= j / 64;
                if is_bad && i == j {
                    small
                } else if is_bad || block == 0 && bad.contains(&i) && i / 64 == j / 64 {
                    0.0
                } else {
                    dominant(block, i, j)
                }
            });
            let problem = Problem::new(&a, &unmerged());
            let mut bits = None;
            let count = if c > 0 && small == 0.0 { 2 } else { 1 };
            for stream in seeded_streams().iter().take(count) {
                let (factors, quality) =
                    factorize::<f64>(stream, &problem, limits, &PIVOTS).unwrap();
                check(stream, &problem, &factors, &quality, what);
                assert_eq!(quality.num_delayed, 0, "{what}: they stay in their front");
                let tree = factors.tree().symbolic().tree();
                let order = &tree.perm()[..k];
                let mut end: Vec<u32> = order[k - 4..].to_vec();
                let others = problem.symbolic.tree().perm()[..k].iter();
                let is_bad = |column: &u32| bad.contains(&(*column as usize));
                assert!(
                    order[..k - 4].iter().eq(others.filter(|c| !is_bad(c))),
                    "{what}"
                );
                end.sort_unstable();
                assert_eq!(end, [3, 63, 70, 100], "{what}");
                let found = stream.download(factors.factors()).unwrap();
                assert!(
                    *bits.get_or_insert_with(|| found.clone()) == found,
                    "{what}"
                );
            }
        }
    }
}

/// The matrix with rows and columns in the opposite order.
fn backwards(a: &CsMat<f64>) -> CsMat<f64> {
    let n = a.rows();
    let mut turned = TriMat::new((n, n));
    for (&v, (i, j)) in a.iter() {
        turned.add_triplet(n - 1 - i, n - 1 - j, v);
    }
    turned.to_csr()
}

/// Matrices with blocks of zeros on the diagonal, in fronts of every kind, in both types.
#[test]
fn saddle_points_have_bounded_factors() {
    let streams = seeded_streams();
    let matrices = [
        ("Darcy", darcy(5, 4, 5)),
        ("Stokes", backwards(&stokes(4, 4))),
        ("distillation", staged_columns(2, 5, 2, 3)),
    ];
    let all_limits = [
        Limits::default(),
        limits(0, 95, 4096),
        limits(0, 0, 4096),
        limits(6, 20, 30),
    ];
    for (at, (name, a)) in matrices.iter().enumerate() {
        let problem = Problem::new(a, &unmerged());
        let mut num_delayed = 0;
        for (schedule, &limits) in all_limits.iter().enumerate() {
            let what = format!("{name}, {limits:?}");
            let mut bits = None;
            // The schedules take turns, and two of them one matrix and one way.
            let count = 1 + usize::from(at == schedule);
            for stream in streams.iter().cycle().skip(at + schedule).take(count) {
                let (mut factors, quality) =
                    factorize::<f64>(stream, &problem, limits, &PIVOTS).unwrap();
                check(stream, &problem, &factors, &quality, &what);
                num_delayed += quality.num_delayed;
                let found = stream.download(factors.factors()).unwrap();
                assert!(
                    *bits.get_or_insert_with(|| found.clone()) == found,
                    "{what}"
                );
                let values = stream.upload(&problem.values).unwrap();
                let again = factors.refactorize(stream, &values, &PIVOTS).unwrap();
                assert_eq!(again, quality, "{what}");
                assert!(
                    stream.download(factors.factors()).unwrap() == found,
                    "{what}"
                );
            }
            let stream = &streams[schedule % streams.len()];
            let (factors, quality) = factorize::<f32>(stream, &problem, limits, &PIVOTS).unwrap();
            check(stream, &problem, &factors, &quality, &what);
        }
        assert!(num_delayed > 0, "{name}");
    }
}

/// Where all have pivots, nothing moves, and the factors are those of a static factorization with the same rows.
#[test]
fn nothing_moves_where_all_columns_have_pivots() {
    let stream = &streams()[0];
    let a = joined(&[6, 40], 100, dominant);
    let problem = Problem::new(&a, &unmerged());
    let (factors, quality) =
        factorize::<f64>(stream, &problem, Limits::default(), &PIVOTS).unwrap();
    check(stream, &problem, &factors, &quality, "dominant");
    assert_eq!(quality.num_delayed, 0);
    assert_eq!(factors.num_off_diagonal(stream).unwrap(), 0);
    assert!(Arc::ptr_eq(factors.tree().symbolic(), &problem.symbolic));
    let tree = Arc::new(tree_on_device(
        stream,
        &problem,
        &problem.symbolic,
        Limits::default(),
    ));
    let values = stream.upload(&problem.values).unwrap();
    let pivots = PivotPolicy::STATIC.in_fronts(U);
    let (others, _) = DeviceFrontalLu::<f64>::factorize(stream, &tree, &values, &pivots).unwrap();
    let panels = |factors: &DeviceFrontalLu<f64>| stream.download(factors.factors()).unwrap();
    assert!(panels(&factors) == panels(&others));
    // Rows of pairs have changed places.
    let a = joined(&[6], 40, exchanged);
    let problem = Problem::new(&a, &unmerged());
    let (factors, quality) =
        factorize::<f64>(stream, &problem, Limits::default(), &PIVOTS).unwrap();
    check(stream, &problem, &factors, &quality, "exchanged");
    assert_eq!(factors.num_off_diagonal(stream).unwrap(), 46);
}

/// A column of zeros goes up to the root, and there nothing is left to be done; what is not finite is named.
#[test]
fn columns_that_no_front_has_a_pivot_for_are_named() {
    let stream = &streams()[0];
    let a = joined(&[6, 6], 40, dominant);
    let mut problem = Problem::new(&a, &unmerged());
    let fill = |problem: &mut Problem, column: usize, value: f64| {
        for p in problem.columns.range(column) {
            problem.values[p] = value;
        }
    };
    let outcome = |problem: &Problem| {
        factorize::<f64>(stream, problem, Limits::default(), &PIVOTS).map(|_| ())
    };
    fill(&mut problem, 8, 0.0);
    match outcome(&problem) {
        Err(DeviceFrontalError::NoPivots { column: Some(8) }) => {}
        other => panic!("{other:?}"),
    }
    fill(&mut problem, 8, f64::INFINITY);
    match outcome(&problem) {
        Err(DeviceFrontalError::NotFinite { column: 8 }) => {}
        other => panic!("{other:?}"),
    }
}

/// A threshold of zero takes anything but zero.
#[test]
fn a_threshold_of_zero_takes_anything_but_zero() {
    let stream = &streams()[0];
    for (small, delayed) in [(1e-200, 0), (0.0, 1)] {
        let a = joined(&[6], 8, |block, i, j| {
            if block == 0 && j == 3 {
                if i == 3 { small } else { 0.0 }
            } else if block == 0 && i == 3 {
                0.0
            } else {
                dominant(block, i, j)
            }
        });
        let problem = Problem::new(&a, &unmerged());
        let pivots = PivotPolicy::threshold(0.0);
        let (_, quality) = factorize::<f64>(stream, &problem, Limits::default(), &pivots).unwrap();
        assert_eq!(quality.num_delayed, delayed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Values between −1 and 1, half of those on the diagonal zeros.
    #[test]
    fn any_matrix_has_bounded_factors_or_none(
        pattern in patterns_with_diagonal(40),
        seed in any::<u64>(),
        small in any::<bool>(),
    ) {
        let stream = &streams()[0];
        let n = pattern.major_dim();
        let mut a = TriMat::new((n, n));
        for (i, row) in pattern.lines().enumerate() {
            for &j in row {
                let j = j as usize;
                let value = uniform(seed, i * n + j);
                a.add_triplet(i, j, if i == j && value > 0.0 { 0.0 } else { value });
            }
        }
        let problem = Problem::new(&a.to_csr(), &TreeOptions::default());
        let limits = if small { Limits::default() } else { limits(3, 6, 8) };
        match factorize::<f64>(stream, &problem, limits, &PIVOTS) {
            Ok((factors, quality)) => {
                let error = backward_error(stream, &problem, &factors);
                prop_assert!(error <= 1e-12, "{error:e}");
                prop_assert!(quality.max_l <= 1.0001 / U);
            }
            Err(DeviceFrontalError::NoPivots { column }) => prop_assert!(column.is_some()),
            Err(other) => panic!("{other}"),
        }
    }
}
