//! Symmetric fronts on the device with pivots of expected signs: those are replaced that the CPU replaces, and the factors are
//! those of the matrix with another diagonal there.

use std::sync::Arc;

use luge_device::Stream;
use luge_frontal::gpu::{
    DeviceFrontalError, DeviceFrontalLdlt, DeviceSymmetricQuality, ExpectedPivots, Limits,
    MovedTree, Workspace,
};
use luge_frontal::{FrontalLdlt, FrontalScalar, Lower, Options};
use luge_sparse::{PivotPolicy, RealScalar};

use crate::chain::{RealDeviceScalar, seeded_streams, streams};
use crate::frontal_ldlt::{
    Problem, all_limits, definite, dense_factors, joined, named_problems, problem, uniform,
    unmerged,
};

/// Of each column by what its pivot is replaced.
fn expected(n: usize, seed: u64, delta: f64) -> Vec<f64> {
    let sign = |i: usize| if uniform(seed, i) < 0.3 { 1.0 } else { -1.0 };
    (0..n).map(|i| sign(i) * delta).collect()
}

/// The same pattern with rows in which the entries beside the diagonal sum up to no more than one, and with diagonals of which
/// some have the sign that is expected, some have it but are small, and others have it not: so nothing grows.
fn mild(problem: &Problem, expected: &[f64], seed: u64) -> Problem {
    let sizes = |row: &Vec<f64>| row.iter().map(|v| v.abs()).sum::<f64>();
    let most = problem.dense().iter().map(sizes).fold(1.0, f64::max);
    problem.with(|i, j, v| {
        if i != j {
            return v / most;
        }
        let kind = uniform(seed + 1, i);
        let size = if kind < -0.3 {
            -0.8
        } else if kind < 0.0 {
            0.4
        } else {
            1.2
        };
        expected[i].signum() * size + 0.05 * uniform(seed + 2, i)
    })
}

type Found<T> = (DeviceFrontalLdlt<T>, DeviceSymmetricQuality);

fn factorize<T: RealDeviceScalar>(
    stream: &Stream,
    problem: &Problem,
    limits: Limits,
    (below, expected): (f64, &[f64]),
) -> Result<Found<T>, DeviceFrontalError> {
    let tree = Arc::new(problem.uploaded(stream, &problem.symbolic, limits));
    let workspace = Arc::new(Workspace::new(stream, &tree)?);
    let values = stream.upload(&problem.values)?;
    let expected = Arc::new(ExpectedPivots::upload(stream, &tree, expected)?);
    let pivots = PivotPolicy::signed(below);
    DeviceFrontalLdlt::factorize_signed(&workspace, stream, &tree, &values, &pivots, &expected)
}

/// What the CPU makes of the same.
fn on_host<T: FrontalScalar + RealScalar>(
    problem: &Problem,
    below: f64,
    expected: &[f64],
) -> FrontalLdlt<T> {
    let options = Options {
        pivots: PivotPolicy::signed(below),
        expected: Some(expected.into()),
        ..Options::default()
    };
    let values: Vec<T> = problem.values.iter().map(|&v| T::from_f64(v)).collect();
    let factorized = FrontalLdlt::factorize(&problem.symbolic, &values, &options);
    factorized.unwrap().0
}

/// Checks that factors are those of the matrix, but for the diagonal where pivots were replaced by what is expected of them.
fn check<T: RealDeviceScalar + FrontalScalar>(
    stream: &Stream,
    problem: &Problem,
    (factors, quality): &Found<T>,
    (below, expected): (f64, &[f64]),
    what: &str,
) {
    let n = problem.n;
    let host = on_host::<T>(problem, below, expected);
    let replaced: Vec<usize> = host
        .perturbed()
        .unwrap()
        .iter()
        .map(|&c| c as usize)
        .collect();
    assert_eq!(factors.perturbed(), Some(&replaced[..]), "{what}");
    assert_eq!(quality.num_perturbed, replaced.len(), "{what}");
    assert_eq!(quality.first_perturbed, replaced.first().copied(), "{what}");
    assert_eq!(Some(quality.inertia), host.inertia(), "{what}");
    assert_eq!(
        (quality.num_two, quality.num_zero, quality.num_delayed),
        (0, 0, 0),
        "{what}"
    );
    let [l, d] = dense_factors(stream, factors);
    let order = factors.elimination_order();
    for (p, &column) in order.iter().enumerate() {
        let sign = expected[column].signum();
        if replaced.contains(&column) {
            let by = RealScalar::to_f64(<T as RealScalar>::from_f64(expected[column]));
            assert_eq!(d[p][p], by, "{what}: pivot of column {column}");
        } else {
            let least = below * expected[column].abs() * (1.0 - 1e-6);
            assert!(d[p][p] * sign >= least, "{what}: pivot of column {column}");
        }
    }
    let epsilon = RealScalar::to_f64(T::epsilon());
    let dense = problem.dense();
    for i in 0..n {
        for j in 0..=i {
            let (mut sum, mut size) = (0.0, dense[i][j].abs());
            for p in 0..n {
                let term = l[i][p] * d[p][p] * l[j][p];
                sum += term;
                size += term.abs();
            }
            let error = (sum - dense[i][j]).abs();
            let is_other = i == j && replaced.contains(&i);
            assert!(
                is_other || error <= 8.0 * n as f64 * epsilon * size,
                "{what}: ({i}, {j}) is off by {error:e} of {size:e}"
            );
        }
    }
}

fn check_factorization<T: RealDeviceScalar + FrontalScalar>(
    stream: &Stream,
    problem: &Problem,
    limits: Limits,
    signs: (f64, &[f64]),
    what: &str,
) -> Found<T> {
    let found = factorize::<T>(stream, problem, limits, signs).unwrap();
    check(stream, problem, &found, signs, what);
    found
}

#[test]
fn the_pivots_are_replaced_that_the_cpu_replaces() {
    let stream = &seeded_streams()[0];
    let (mut replaced, mut all) = (0, 0);
    for (at, (name, problem)) in named_problems().iter().enumerate() {
        for (below, delta) in [(1.0, 0.75), (0.0, 2.0), (0.5, 1.0)] {
            let expected = expected(problem.n, at as u64, delta);
            let problem = mild(problem, &expected, at as u64);
            let signs = (below, &expected[..]);
            let limits = all_limits()[(at + (4.0 * below) as usize) % 5];
            let (factors, _) = check_factorization::<f64>(stream, &problem, limits, signs, name);
            check_factorization::<f32>(stream, &problem, limits, signs, name);
            replaced += factors.perturbed().unwrap().len();
            all += problem.n;
        }
    }
    assert!(
        5 * replaced > all && 5 * (all - replaced) > all,
        "{replaced} of {all}"
    );
}

/// Fronts of each way to work on them, with rows below: what is replaced is divided by in all of them.
#[test]
fn every_way_to_work_on_a_front_replaces_pivots() {
    let problem = problem(
        joined(&[5, 12, 70, 100], 40, |_, i, j| uniform(9, i * 100 + j)),
        &unmerged(),
    );
    let expected = expected(problem.n, 3, 1.0);
    let problem = mild(&problem, &expected, 3);
    for stream in &streams() {
        for limits in all_limits() {
            let what = format!("{limits:?}");
            check_factorization::<f64>(stream, &problem, limits, (1.0, &expected), &what);
        }
    }
}

#[test]
fn signs_that_come_out_are_those_of_a_launch_with_known_pivots() {
    let stream = &seeded_streams()[0];
    let problem = problem(definite(60), &unmerged());
    for limits in all_limits() {
        let ones = vec![1e-3; problem.n];
        let (signed, quality) =
            check_factorization::<f64>(stream, &problem, limits, (1.0, &ones), "definite");
        assert_eq!(quality.num_perturbed, 0);
        let tree = Arc::clone(signed.tree());
        let values = stream.upload(&problem.values).unwrap();
        let upload = |_: MovedTree<'_, Lower>| unreachable!("columns stay in their places");
        let policy = PivotPolicy::DEFINITE;
        let (known, _) =
            DeviceFrontalLdlt::<f64>::factorize(stream, &tree, &values, &policy, &upload).unwrap();
        let bits = |factors: &DeviceFrontalLdlt<f64>| {
            [factors.factors(), factors.diagonal()]
                .map(|numbers| stream.download(numbers).unwrap())
                .map(|numbers| numbers.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
        };
        assert_eq!(bits(&signed), bits(&known));
    }
}

#[test]
fn other_values_have_other_pivots_replaced() {
    let stream = &seeded_streams()[0];
    let limits = Limits::default();
    let (_, first) = named_problems().swap_remove(7);
    let expected = expected(first.n, 5, 0.5);
    let first = mild(&first, &expected, 5);
    let signs = (1.0, &expected[..]);
    let (mut factors, quality) = check_factorization::<f64>(stream, &first, limits, signs, "first");
    let columns = factors.perturbed().unwrap().to_vec();
    assert!(!columns.is_empty());
    let bits = |factors: &DeviceFrontalLdlt<f64>| {
        let panels = stream.download(factors.factors()).unwrap();
        panels.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
    };
    let before = bits(&factors);
    let policy = PivotPolicy::signed(1.0);
    let other = first.with(|i, j, v| if i == j { expected[i] * 1e3 } else { v });
    let found = other
        .refactorize(stream, limits, &mut factors, &policy)
        .unwrap();
    assert_eq!(
        (found.num_perturbed, factors.perturbed()),
        (0, Some(&[][..]))
    );
    check(stream, &other, &(factors, found), signs, "other");

    // Values that are none, and the first ones again, beside factors and in their place.
    let (mut factors, _) = factorize::<f64>(stream, &first, limits, signs).unwrap();
    let spoiled = first.with(|i, j, v| if i == 3 && j == 3 { f64::NAN } else { v });
    let error = spoiled.refactorize(stream, limits, &mut factors, &policy);
    assert!(
        matches!(error, Err(DeviceFrontalError::NotFinite { column: 3 })),
        "{error:?}"
    );
    let again = first
        .refactorize(stream, limits, &mut factors, &policy)
        .unwrap();
    assert_eq!(again, quality);
    assert_eq!(factors.perturbed(), Some(&columns[..]));
    assert_eq!(bits(&factors), before);
    let values = stream.upload(&first.values).unwrap();
    let upload = |_: MovedTree<'_, Lower>| unreachable!("columns stay in their places");
    let (beside, quality) = factors
        .factorize_beside(stream, &values, &policy, &upload)
        .unwrap();
    assert_eq!((quality, bits(&beside)), (again, before));
    assert_eq!(beside.perturbed(), Some(&columns[..]));
}

#[test]
fn a_pivot_that_is_not_a_number_is_named() {
    let stream = &seeded_streams()[0];
    let expected = vec![1.0; 135];
    for column in [3, 20, 50, 130] {
        let problem = problem(definite(100), &unmerged());
        let problem = problem.with(|i, j, v| {
            if i == column && j == column {
                f64::NAN
            } else {
                v
            }
        });
        match factorize::<f64>(stream, &problem, Limits::default(), (1.0, &expected)) {
            Err(DeviceFrontalError::NotFinite { column: named }) => assert_eq!(named, column),
            other => panic!("{column}: {:?}", other.map(|(_, quality)| quality)),
        }
    }
}

#[test]
fn nothing_has_nothing_expected_of_it() {
    let stream = &seeded_streams()[0];
    let problem = problem(Vec::new(), &unmerged());
    let (factors, quality) =
        factorize::<f32>(stream, &problem, Limits::default(), (1.0, &[])).unwrap();
    assert_eq!(quality, DeviceSymmetricQuality::default());
    assert_eq!(factors.perturbed(), Some(&[][..]));
}

#[test]
#[should_panic(expected = "what is expected of each pivot")]
fn signs_are_expected_of_all_pivots() {
    let stream = &seeded_streams()[0];
    let problem = problem(definite(3), &unmerged());
    let _ = factorize::<f64>(stream, &problem, Limits::default(), (1.0, &[1.0]));
}

#[test]
#[should_panic(expected = "pivots are expected to be normal numbers")]
fn what_is_expected_is_normal_in_the_type_of_the_factors() {
    let stream = &seeded_streams()[0];
    let problem = problem(joined(&[], 3, |_, _, _| 1.0), &unmerged());
    let tiny = [1.0, 1e-60, 1.0];
    let _ = factorize::<f32>(stream, &problem, Limits::default(), (1.0, &tiny));
}

#[test]
#[should_panic(expected = "what is expected of each pivot")]
fn signs_are_not_made_up() {
    let stream = &seeded_streams()[0];
    let problem = problem(definite(3), &unmerged());
    let tree = Arc::new(problem.uploaded(stream, &problem.symbolic, Limits::default()));
    let values = stream.upload(&problem.values).unwrap();
    let upload = |_: MovedTree<'_, Lower>| unreachable!("columns stay in their places");
    let policy = PivotPolicy::signed(1.0);
    let _ = DeviceFrontalLdlt::<f64>::factorize(stream, &tree, &values, &policy, &upload);
}
