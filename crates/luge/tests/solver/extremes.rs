//! Systems of wild numbers, and singular ones: what is said of them is true, and what can be solved is solved.

use luge::{
    Accuracy, BackendChoice, DeviceEngine, Error, FactorPrecision, Factors, Options, Pivoting,
    Refactorized, Scalar, Solution, Solver, Warning,
};
use luge_ordering::{Matching, Method, OrderingOptions};
use luge_testkit::exact::WideMatrix;
use luge_testkit::residual::normwise_backward_error;
use sprs::CsMat;

use crate::fields::C;

/// The CPU, and both engines of a device.
fn everywhere() -> Vec<Options> {
    let on_device = |device_engine| {
        Options::default()
            .backend(BackendChoice::Simulator { seed: 3 })
            .device_engine(device_engine)
    };
    let cpu = Options::default().backend(BackendChoice::Cpu);
    vec![
        cpu,
        on_device(DeviceEngine::Tree),
        on_device(DeviceEngine::Columns),
    ]
}

fn factorize(a: &CsMat<f64>, options: Options) -> Factors<f64> {
    let analysis = Solver::new(options).unwrap().analyze(a).unwrap();
    analysis.factorize(a).unwrap()
}

fn dense(rows: &[&[f64]]) -> CsMat<f64> {
    let mut entries = sprs::TriMat::new((rows.len(), rows[0].len()));
    for (i, row) in rows.iter().enumerate() {
        for (j, &value) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
            entries.add_triplet(i, j, value);
        }
    }
    entries.to_csr()
}

fn times(a: &CsMat<f64>, x: &[f64]) -> Vec<f64> {
    let rows = a.outer_iterator();
    rows.map(|row| row.iter().map(|(j, v)| v * x[j]).sum())
        .collect()
}

/// The residual of the first solution is one unit of the subnormal numbers, and its correction in units of that overflows.
#[test]
fn a_correction_that_overflows_ends_no_solve() {
    let a = dense(&[
        &[6.451990684435125e-1, -1.8438094470016593e0],
        &[-7.50184234203e-311, -1.01598113672736e-310],
    ]);
    for options in everywhere() {
        let factors = factorize(&a, options);
        for x in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]] {
            let solution = factors.solve(&times(&a, &x)).unwrap();
            let error = solution.inform.backward_error.unwrap();
            assert!(error < 1e-15, "{error:.1e}");
            // The second row has 13 digits.
            for (found, x) in solution.x.iter().zip(x) {
                assert!((found - x).abs() < 1e-12, "{:?}", solution.x);
            }
        }
    }
}

/// The scaling by which a matching is found is one of many, and of this matrix, shuffled, a wide one: its factors outgrow
/// `f64`, and there are others that do not.
#[test]
fn a_scaling_in_range_is_found() {
    let a = dense(&[
        &[
            0.0,
            1.428551818682668e-253,
            -4.869852504033175e-3,
            0.0,
            2.0717709145576308e-49,
        ],
        &[0.0, -3.614413059977577e57, 1.6300591941084265e57, 0.0, 0.0],
        &[0.0, 0.0, -6.319845216189452e-4, -5.823207444366012e31, 0.0],
        &[
            -4.25025518525169e-278,
            -7.235832085917743e56,
            1.4475569645951075e-2,
            0.0,
            0.0,
        ],
        &[0.0, 3.944515343044659e-3, 0.0, 2e-322, 0.0],
    ]);
    for options in everywhere() {
        let factors = factorize(
            &a,
            options.ordering(OrderingOptions::default().matching(Matching::Always)),
        );
        let b = [1.0, 2.0, 3.0, 4.0, 1e-200];
        let solution = factors.solve(&b).unwrap();
        let error = normwise_backward_error(&a, &solution.x, &b);
        assert!(error < 1e-15, "{error:.1e}");
    }
}

/// The first solution has an entry of 10³¹⁷ where zero is right; refined, it has not.
#[test]
fn entries_that_overflow_only_before_refinement_come_back() {
    let a = dense(&[
        &[1e300, 1e300, 1.0],
        &[1e300, -1e300, 0.0],
        &[0.0, 1e-10, 1e-10],
    ]);
    for options in everywhere() {
        let factors = factorize(&a, options);
        let x = factors.solve(&[3e300, 1e300, 1e-10]).unwrap();
        let error = normwise_backward_error(&a, &x.x, &[3e300, 1e300, 1e-10]);
        assert!(error < 1e-15, "{error:.1e}");
    }
}

/// Two matrices of which the second has a row that the norm of A hides: the solution of the probe comes back as another one.
#[test]
fn a_probe_that_tells_nothing_of_others_is_not_stated() {
    let old = dense(&[&[2.0, 1.0], &[1.0, 3.0]]);
    let new = dense(&[&[1e200, 2e200], &[1e-200, 3e-200]]);
    let options = Options::default()
        .backend(BackendChoice::Cpu)
        .ordering(OrderingOptions::default().scaling(false));
    let mut factors = factorize(&old, options);
    let told = |outcome: Refactorized| match outcome {
        Refactorized::Reused { backward_error, .. }
        | Refactorized::Repivoted { backward_error, .. } => backward_error,
    };
    assert!(told(factors.refactorize(&old).unwrap()).is_some_and(|e| e < 1e-14));
    if let Ok(outcome) = factors.refactorize(&new) {
        assert_eq!(told(outcome), None);
    }
}

/// A bound of one pass that follows from a checksum of B says nothing of A where the scaling spans 2¹⁰⁰.
#[test]
fn a_pass_in_place_is_as_good_as_it_says() {
    let (ptr, idx) = (vec![0, 2, 3, 6, 8], vec![0, 2, 1, 0, 2, 3, 2, 3]);
    let values = vec![4e-27, 0.832, -4e-23, 0.863, 4e-21, 0.538, 0.464, 9e-29];
    let a = CsMat::new((4, 4), ptr, idx, values);
    let b = times(&a, &[1.0; 4]);
    for options in everywhere() {
        let factors = factorize(&a, options);
        let mut x = b.clone();
        let accuracy = factors.solve_in_place(&mut x).unwrap();
        let error = WideMatrix::new(&a).backward_error(&x, &b, false);
        let stated = accuracy.backward_error.unwrap();
        assert!(
            error <= 10.0 * stated.max(1e-16) && stated < 1e-10,
            "{error:.1e}, stated {stated:.1e}"
        );
    }
}

/// ‖A‖·‖x‖ + ‖b‖ overflows, or what is below it underflows.
#[test]
fn errors_near_the_ends_of_the_range_are_no_zeros() {
    let perturbed = |options: Options| {
        options
            .pivoting(Pivoting::Static)
            .perturbation(Some(1e-3))
            .max_refinement_steps(0)
            .ordering(OrderingOptions::default().matching(Matching::Never))
    };
    let a = dense(&[&[1e-12, 1.0], &[1.0, 1e-12]]);
    for options in everywhere() {
        let factors = factorize(&a, perturbed(options));
        let b = [1e308, -3e307];
        let solution = factors.solve(&b).unwrap();
        check_statement(&a, &solution, &b);
    }
    let tiny = dense(&[&[2e-160, 1e-160], &[1e-160, 3e-160]]);
    for options in everywhere() {
        let factors = factorize(&tiny, options);
        let b = [1.7e-320, 0.0];
        let solution = factors.solve(&b).unwrap();
        check_statement(&tiny, &solution, &b);
    }
}

/// Checks what a solution states of itself by arithmetic that does not overflow.
fn check_statement(a: &CsMat<f64>, solution: &Solution<f64>, b: &[f64]) {
    let error = WideMatrix::new(a).backward_error(&solution.x, b, false);
    let stated = solution.inform.backward_error.unwrap();
    // What is stated is measured with a rounding error of its own.
    assert!(
        error <= 10.0 * stated.max(1e-16),
        "{error:.1e}, stated {stated:.1e}"
    );
}

/// Factors of numbers that are far smaller than those that were analyzed are accurate, but a solve with them may not be: the
/// scaling is made anew.
#[test]
fn a_scaling_for_other_numbers_is_made_anew() {
    let a = dense(&[&[2.0, 1.0], &[1.0, 3.0]]);
    let small = a.map(|value| value * 2f64.powi(-960));
    let options = Options::default().backend(BackendChoice::Cpu);
    let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
    for (matrix, is_anew) in [(&a, false), (&small, true)] {
        let factors = analysis.factorize(matrix).unwrap();
        assert_eq!(factors.inform().seconds.pivot_search.is_some(), is_anew);
        let x = factors.solve(&times(matrix, &[1.0, -2.0])).unwrap().x;
        assert!((x[0] - 1.0).abs() + (x[1] + 2.0).abs() < 1e-14, "{x:?}");
    }
}

/// Values whose rows have another scale than those that were analyzed are the same matrix to factorize, to refactorize and
/// with an analysis of their own.
#[test]
fn one_rule_tells_which_matrices_are_singular() {
    let old = dense(&[&[2.0, 1.0], &[1.0, 3.0]]);
    let new = dense(&[&[2.0, 1.0], &[1e-18, 3e-18]]);
    for options in everywhere() {
        let analysis = Solver::new(options.clone()).unwrap().analyze(&old).unwrap();
        let mut renewed = analysis.factorize(&old).unwrap();
        renewed.refactorize(&new).unwrap();
        let other = analysis.factorize(&new).unwrap();
        for factors in [renewed, other, factorize(&new, options)] {
            let x = factors.solve(&[3.0, 4e-18]).unwrap().x;
            assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-14), "{x:?}");
        }
    }
}

/// The scaling of values that are larger by 10³⁰⁷ is no use once the diagonal is small.
#[test]
fn a_stale_scaling_makes_no_solution_overflow() {
    let of = |on: f64, off: f64| dense(&[&[2.0 * on, off], &[off, 3.0 * on]]);
    for options in everywhere() {
        let mut factors = factorize(&of(1.0, 1.0), options);
        for next in [of(4e307, 4e307), of(1e-20, 1.0)] {
            factors.refactorize(&next).unwrap();
            let b = times(&next, &[0.25, 0.25]);
            let solution = factors.solve(&b).unwrap();
            assert!(solution.inform.backward_error.unwrap() < 1e-15);
            assert!(solution.x.iter().all(|x| (x - 0.25).abs() < 1e-14));
        }
    }
}

/// Skew-symmetric of odd order, and with rows that sum to zero: exactly singular, and no factorization finds zeros.
#[test]
fn singular_matrices_are_refused_or_warned_of() {
    let skew = dense(&[&[0.0, 0.3, -0.7], &[-0.3, 0.0, 0.9], &[0.7, -0.9, 0.0]]);
    let n = 40;
    let laplacian = {
        let mut entries = sprs::TriMat::new((n, n));
        for i in 0..n {
            let weight = |k: usize| 0.1 + ((k * 7919) % 101) as f64 / 97.0;
            let (left, right) = (weight(i), weight((i + 1) % n));
            entries.add_triplet(i, (i + n - 1) % n, -left);
            entries.add_triplet(i, (i + 1) % n, -right);
            entries.add_triplet(i, i, left + right);
        }
        entries.to_csr::<usize>()
    };
    for (a, is_constant) in [(skew, false), (laplacian, true)] {
        for options in everywhere() {
            check_singular(&a, is_constant, options);
        }
        // Each row at another angle: the null vector stays what it is.
        let mut complex = a.map(|&v| C::from(v));
        for (i, mut row) in complex.outer_iterator_mut().enumerate() {
            let turn = C::from_polar(1.0, i as f64);
            row.iter_mut().for_each(|(_, v)| *v *= turn);
        }
        check_singular(&complex, is_constant, everywhere()[0].clone());
    }
}

fn check_singular<T: Scalar>(a: &CsMat<T>, is_constant: bool, options: Options) {
    let analysis = Solver::new(options).unwrap().analyze(a).unwrap();
    match analysis.factorize(a) {
        Ok(factors) => {
            let hint = factors.inform().warnings.iter().find_map(|w| match w {
                Warning::IllConditioned { is_constant, .. } => Some(*is_constant),
                _ => None,
            });
            assert_eq!(hint, Some(is_constant));
        }
        Err(error) => assert!(
            matches!(
                error,
                Error::SingularToRounding { .. } | Error::ZeroPivot { .. }
            ),
            "{error}"
        ),
    }
}

/// The growth of the columns on a device leaves L out, so it bounds no solve; a probe tells of A, and not of its transpose.
#[test]
fn growth_without_l_bounds_no_pass() {
    let a = dense(&[&[4.0, 1.0, 0.0], &[1.0, 3.0, 1.0], &[0.0, 1.0, 5.0]]);
    let [_, tree, columns] = everywhere().try_into().unwrap_or_else(|_| unreachable!());
    for (options, is_measured) in [(tree, false), (columns, true)] {
        let factors = factorize(&a, options);
        let mut x = [5.0, 5.0, 6.0];
        assert!(!factors.solve_in_place(&mut x).unwrap().is_measured);
        let mut x = [5.0, 5.0, 6.0];
        let accuracy = factors.solve_transpose_in_place(&mut x).unwrap();
        assert_eq!(accuracy.is_measured, is_measured);
    }
}

/// Rounding changes b by 10⁻¹⁷, and the second unknown by 10²⁰ times that. Each column alone is as good as any, and so is the
/// scaled matrix.
#[test]
fn a_solution_that_does_not_come_back_is_warned_of_whatever_the_condition() {
    let [cpu, tree, columns] = everywhere().try_into().unwrap_or_else(|_| unreachable!());
    for options in [cpu.precision(FactorPrecision::Single), tree, columns] {
        for (small, is_warned) in [(1.0, false), (1e-20, true)] {
            let a = dense(&[&[1.0 / 3.0, 0.2 * small], &[0.7, -0.4 * small]]);
            let factors = factorize(&a, options.clone());
            let rcond = factors.inform().warnings.iter().find_map(|w| match w {
                Warning::IllConditioned { rcond, .. } => Some(*rcond),
                _ => None,
            });
            assert_eq!(rcond.is_some(), is_warned, "{rcond:?}");
            assert!(rcond.is_none_or(|rcond| rcond > 0.1), "{rcond:?}");
        }
    }
}

/// What is known of a pass in place, of the matrix and of its transpose.
fn passes(a: &CsMat<f64>, options: Options) -> [Accuracy; 2] {
    let factors = factorize(a, options);
    let mut x = times(a, &vec![1.0; a.cols()]);
    let pass = factors.solve_in_place(&mut x).unwrap();
    let mut x = times(&a.transpose_view().to_csr(), &vec![1.0; a.cols()]);
    [pass, factors.solve_transpose_in_place(&mut x).unwrap()]
}

/// Row factors fall from row to row and column factors rise, and the smallest of both meet in no entry: growth bounds less and
/// less the further they are apart, and in the end a probe may have been lucky.
#[test]
fn a_probe_bounds_passes_where_growth_does_not_as_long_as_scales_are_near() {
    let banded = |exponent: i32| {
        let mut a = sprs::TriMat::new((10, 10));
        for (i, j) in (0..10).flat_map(|i| (0..10).map(move |j| (i, j))) {
            let place = (i as usize, j as usize);
            match i32::abs_diff(i, j) {
                0 => a.add_triplet(place.0, place.1, 4.0),
                1 => a.add_triplet(place.0, place.1, 2f64.powi(exponent * (i - j))),
                _ if i > j => a.add_triplet(place.0, place.1, 1.0),
                _ => {}
            }
        }
        a.to_csr::<usize>()
    };
    let ordering = OrderingOptions::default()
        .method(Method::Natural)
        .matching(Matching::Always)
        .block_triangular(false);
    let [_, tree, columns] = everywhere().try_into().unwrap_or_else(|_| unreachable!());
    // The columns' growth bounds no pass at all.
    for (options, exponent, expected) in [
        (&tree, 3, [false, false]),
        (&tree, 6, [false, true]),
        (&tree, 8, [true, true]),
        (&columns, 3, [false, true]),
        (&columns, 8, [true, true]),
    ] {
        let passes = passes(
            &banded(exponent),
            options.clone().ordering(ordering.clone()),
        );
        let measured = passes.map(|pass| pass.is_measured);
        assert_eq!(measured, expected, "2^{exponent}: {passes:?}");
    }
}

/// A replaced pivot is hardly another one, and numbers far from 1 lose nothing: no probe, and no bound, knows of others that do.
#[test]
fn passes_are_measured_where_pivots_are_replaced_or_digits_may_be_lost() {
    let of = |size: f64, pivot: f64| {
        let (a, b) = (size, 0.125 * size);
        dense(&[&[a, 0.0, b], &[0.0, pivot * size, 0.0], &[b, 0.0, a]])
    };
    let ordering = OrderingOptions::default()
        .matching(Matching::Never)
        .scaling(false)
        .block_triangular(false);
    let [_, tree, columns] = everywhere().try_into().unwrap_or_else(|_| unreachable!());
    let nearly = 0.25 * (1.0 - 2f64.powi(-50));
    for options in [tree, columns] {
        let options = options
            .ordering(ordering.clone())
            .pivoting(Pivoting::Static)
            .perturbation(Some(0.25));
        for (size, pivot, is_measured) in [
            (1.0, 0.25, false),
            (1.0, nearly, true),
            (1e-120, 0.25, true),
            (1e120, 0.25, true),
        ] {
            let [pass, _] = passes(&of(size, pivot), options.clone());
            assert_eq!(pass.is_measured, is_measured, "{size:e}, {pivot}: {pass:?}");
        }
    }
}

/// Refactorizes a matrix of 8 on its diagonal and 1 elsewhere with `new`, and checks that the factors are those of an analysis
/// of `new` with `ordering`, which serves at once.
#[track_caller]
fn check_remedy(new: &CsMat<f64>, options: &Options, ordering: OrderingOptions) {
    let mut old = new.clone();
    for (i, mut row) in old.outer_iterator_mut().enumerate() {
        row.iter_mut()
            .for_each(|(j, v)| *v = if i == j { 8.0 } else { 1.0 });
    }
    let mut factors = factorize(&old, options.clone());
    let growth = match factors.refactorize(new).unwrap() {
        Refactorized::Repivoted { growth, .. } => growth,
        other => panic!("{other:?}"),
    };
    let inform = factors.inform();
    let searches = |w: &&Warning| matches!(w, Warning::PivotsSearched { .. });
    assert_eq!(inform.warnings.iter().filter(searches).count(), 1);
    assert!(inform.seconds.pivot_search.is_some());

    let fresh = factorize(new, options.clone().ordering(ordering));
    let expected = fresh.inform();
    assert_eq!(expected.seconds.pivot_search, None);
    assert_eq!(Some(growth), expected.growth);
    assert_eq!(inform.backward_error, expected.backward_error);
}

/// The scaling of the old values is of no use. What is tried instead, one after another: the options as they are, rows matched,
/// rows where they are, and a scaling by averages.
#[test]
fn values_that_want_another_scaling_are_given_one_after_another() {
    let wild = dense(&[
        &[4e200, 1e200, 0.0],
        &[1e-200, 3e-200, 1e-200],
        &[0.0, 1.0, 5.0],
    ]);
    let singular_unmatched = dense(&[
        &[6.81e-23, -5.55e64, 8.72e-40],
        &[0.0, -1.44e48, -4.33e-60],
        &[-2.46e-43, 0.0, 1.62e-62],
    ]);
    let unstable_matched = dense(&[
        &[-1.62e5, 2.44e-4, 1.87e-9, 2.03e-10],
        &[0.0, -2.42e-7, 0.0, -2.33e-11],
        &[6.35e13, 0.0, -11.0, 0.0],
        &[0.0, 1.13e14, 1.22e9, 1.41e10],
    ]);
    let averaged_alone = dense(&[
        &[-2.35e-31, 0.0, 0.0, 5.93e19],
        &[-2.65e8, 1.12e-27, -6.04e13, -6.25e-36],
        &[-1.97e-2, 1.57e25, 2.24e-32, -4.57e-22],
        &[0.0, -1.22e15, 7.97e-17, 0.399],
    ]);
    let matching = |matching| OrderingOptions::default().matching(matching);
    let [cpu, tree, columns] = everywhere().try_into().unwrap_or_else(|_| unreachable!());
    check_remedy(&wild, &cpu, OrderingOptions::default());
    check_remedy(&singular_unmatched, &cpu, matching(Matching::Always));
    check_remedy(&unstable_matched, &cpu, matching(Matching::Never));
    let averages = matching(Matching::Never).averaged(true);
    check_remedy(&averaged_alone, &cpu, averages);
    for options in [tree, columns] {
        check_remedy(&wild, &options, OrderingOptions::default());
        let unmatched = options.ordering(matching(Matching::Never));
        check_remedy(&singular_unmatched, &unmatched, matching(Matching::Always));
    }
}

/// The two rows that begin with 1 cancel where they come first, as the largest product wants them to, and columns on a device
/// exchange no rows.
#[test]
fn rows_stay_where_they_are_if_matched_ones_cancel() {
    let a = dense(&[&[0.001, 0.9, 1.0], &[1.0, 1.0, 0.5], &[1.0, 1.0, 0.25]]);
    let [_, _, columns] = everywhere().try_into().unwrap_or_else(|_| unreachable!());
    let ordering = OrderingOptions::default()
        .method(Method::Natural)
        .matching(Matching::Always)
        .block_triangular(false);
    let options = columns.pivoting(Pivoting::Static).perturbation(Some(0.0));
    let factors = factorize(&a, options.clone().ordering(ordering.clone()));
    let inform = factors.inform();
    assert!(inform.matched && inform.seconds.pivot_search.is_some());
    assert_eq!(inform.num_perturbed, Some(0));
    // Scaled by maxima first.
    let unmatched = factorize(&a, options.ordering(ordering.matching(Matching::Never)));
    assert_eq!(inform.growth, unmatched.inform().growth);
    let x = factors.solve(&[1.901, 2.5, 2.25]).unwrap().x;
    assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-14), "{x:?}");
}
