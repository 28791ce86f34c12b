//! New values on old pivots: never reused with a large backward error, whatever was done to them.

use luge::{
    BackendChoice, CpuEngine, Error, Factors, Options, Pivoting, Refactorized, Scalar, Solver,
};
use luge_ordering::{Matching, Method, OrderingOptions};
use luge_testkit::convert::turned;
use luge_testkit::generators::applications::{
    circuit, convection_diffusion_2d, interior_point_kkt, random_unsymmetric,
};
use luge_testkit::generators::gallery;
use luge_testkit::residual::{known_solution, normwise_backward_error};
use proptest::prelude::*;
use sprs::{CsMat, TriMat};

use crate::fields::C;

/// What old pivots may cost at most.
const BOUND: f64 = 1e-10;

const ENGINES: [CpuEngine; 2] = [CpuEngine::Columns, CpuEngine::Fronts];

fn options(engine: CpuEngine) -> Options {
    Options::default()
        .backend(BackendChoice::Cpu)
        .engine(engine)
}

/// Options under which B is A, but for powers of two in its rows and columns where `scaling` is wanted.
fn in_place(engine: CpuEngine, scaling: bool) -> Options {
    options(engine).ordering(
        OrderingOptions::default()
            .method(Method::Natural)
            .matching(Matching::Never)
            .scaling(scaling)
            .block_triangular(false),
    )
}

fn factorize<T: Scalar>(a: &CsMat<T>, options: Options) -> Factors<T> {
    let analysis = Solver::new(options).unwrap().analyze(a).unwrap();
    analysis.factorize(a).unwrap()
}

/// Backward error of a solve with the factors, with refinement and without.
fn errors<T: Scalar>(a: &CsMat<T>, factors: &Factors<T>) -> Result<[f64; 2], Error> {
    let (b, _) = known_solution(a);
    let refined = factors.solve(&b)?.x;
    let mut plain = b.clone();
    factors.solve_in_place(&mut plain)?;
    Ok([refined, plain].map(|x| normwise_backward_error(a, &x, &b)))
}

/// Renews the factors and checks that what is said of them is true, over both fields.
/// The outcome is that of the real matrix.
fn renew(old: &CsMat<f64>, new: &CsMat<f64>, engine: CpuEngine) -> Result<Refactorized, Error> {
    renew_with(old, new, options(engine)).0
}

/// As [`renew`], for any options; also the outcome of the complex matrix.
fn renew_with(old: &CsMat<f64>, new: &CsMat<f64>, options: Options) -> Outcomes {
    let complex = renew_over(&turned::<C>(old), &turned(new), options.clone());
    (renew_over(old, new, options), complex)
}

type Outcomes = (Result<Refactorized, Error>, Result<Refactorized, Error>);

/// The outcomes, which are no errors.
fn accepted((real, complex): Outcomes) -> [Refactorized; 2] {
    [real, complex].map(|outcome| outcome.unwrap())
}

/// As [`renew_with`], over one field.
fn renew_over<T: Scalar>(
    old: &CsMat<T>,
    new: &CsMat<T>,
    options: Options,
) -> Result<Refactorized, Error> {
    let mut factors = factorize(old, options);
    let outcome = factors.refactorize(new);
    match &outcome {
        Ok(renewed) => {
            let [refined, plain] = match errors(new, &factors) {
                // So close to singular that rounding the right-hand side overflows the solution.
                Err(Error::SolutionNotFinite { .. })
                    if matches!(renewed, Refactorized::Repivoted { .. }) =>
                {
                    return outcome;
                }
                errors => errors.unwrap(),
            };
            assert!(refined <= BOUND, "{renewed:?}, but refined {refined:e}");
            if let Refactorized::Reused { backward_error, .. } = renewed {
                assert!(backward_error.is_some_and(|e| e <= BOUND));
                assert!(plain <= BOUND, "{renewed:?}, but {plain:e}");
            }
        }
        Err(_) => {
            let [refined, _] = errors(old, &factors).unwrap();
            assert!(refined <= BOUND, "the old factors are gone: {refined:e}");
        }
    }
    outcome
}

fn scaled_rows(a: &CsMat<f64>, factor: impl Fn(usize) -> f64) -> CsMat<f64> {
    let mut scaled = a.clone();
    for (i, mut row) in scaled.outer_iterator_mut().enumerate() {
        row.iter_mut().for_each(|(_, v)| *v *= factor(i));
    }
    scaled
}

fn samples() -> Vec<CsMat<f64>> {
    vec![
        circuit(150, 4),
        convection_diffusion_2d(12, 11, 20.0),
        interior_point_kkt(60, 25, 1e-3, 4),
        random_unsymmetric(80, 5, 6),
    ]
}

#[test]
fn rows_that_leave_their_scale_are_noticed() {
    for a in samples() {
        for engine in ENGINES {
            for (large, small) in [(1e150, 1e-150), (1e-150, 1.0), (1.0, 1e150)] {
                let new = scaled_rows(&a, |i| if i % 3 == 0 { large } else { small });
                for outcome in accepted(renew_with(&a, &new, options(engine))) {
                    assert!(
                        matches!(outcome, Refactorized::Repivoted { .. }),
                        "{engine:?}: {outcome:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_common_factor_changes_nothing() {
    for a in samples() {
        for engine in ENGINES {
            for factor in [1e-3, 8.0] {
                let new = a.map(|v| v * factor);
                for outcome in accepted(renew_with(&a, &new, options(engine))) {
                    assert!(
                        matches!(outcome, Refactorized::Reused { .. }),
                        "{engine:?}: {outcome:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_pivot_driven_to_zero_is_noticed() {
    for a in samples() {
        let n = a.rows();
        for engine in ENGINES {
            for value in [0.0, 1e-300, 1e-30, 1e-18, 1e-13] {
                for at in [0, n / 2, n - 1] {
                    let mut new = a.clone();
                    if let Some(diagonal) = new.get_mut(at, at) {
                        *diagonal *= value;
                    }
                    // Singular matrices are refused; `renew` checks the rest.
                    let _ = renew(&a, &new, engine);
                }
            }
        }
    }
}

/// Block diagonal 2×2 blocks chained to the next, large on the diagonal or beside it.
fn chained_blocks(blocks: usize, on: f64, off: f64) -> CsMat<f64> {
    let mut a = sprs::TriMat::new((2 * blocks, 2 * blocks));
    for k in 0..blocks {
        let (i, j) = (2 * k, 2 * k + 1);
        for (row, col, v) in [(i, i, on), (i, j, off), (j, i, off), (j, j, on)] {
            a.add_triplet(row, col, v);
        }
        if k > 0 {
            a.add_triplet(i, i - 2, 0.01);
            a.add_triplet(i - 2, i, 0.02);
        }
    }
    a.to_csr()
}

#[test]
fn a_permuted_diagonal_is_noticed() {
    let straight = chained_blocks(40, 1.0, 1e-14);
    for small in [0.0, 1e-200, 1e-14, 1e-9] {
        let swapped = chained_blocks(40, small, 1.0);
        for engine in ENGINES {
            for outcome in accepted(renew_with(&straight, &swapped, options(engine))) {
                assert!(
                    matches!(outcome, Refactorized::Repivoted { .. }),
                    "{engine:?}, {small:e}: {outcome:?}"
                );
            }
        }
    }
}

#[test]
fn cancellation_far_from_the_diagonal_is_noticed() {
    // The second pivot of each block cancels to rounding while every entry stays as it was.
    let old = chained_blocks(30, 1.0, 0.5);
    let new = chained_blocks(30, 1.0, 1.0 - 1e-15);
    for engine in ENGINES {
        let _ = renew(&old, &new, engine);
    }
}

#[test]
fn every_sample_keeps_its_promise_under_rough_treatment() {
    for sample in gallery(7) {
        let a = &sample.matrix;
        for engine in ENGINES {
            let reversed = {
                let mut new = a.clone();
                let mut values: Vec<f64> = new.data().to_vec();
                values.reverse();
                new.data_mut().copy_from_slice(&values);
                new
            };
            let _ = renew(a, &reversed, engine);
            let squared = a.map(|v| v * v.abs());
            let _ = renew(a, &squared, engine);
        }
    }
}

/// All pivots are 1 before and after, and L·U is B to the last bit, so the checksum is 0: the growth alone, 1.4·10⁶ and
/// 5.6·10⁶, tells.
#[test]
fn growth_that_the_checksum_does_not_show_is_noticed() {
    let of_order_3 = |values: [f64; 9]| {
        let idx = vec![0, 1, 2, 0, 1, 2, 0, 1, 2];
        CsMat::new((3, 3), vec![0, 3, 6, 9], idx, values.to_vec())
    };
    let old = of_order_3([1.0, 0.5, 1.0, 0.5, 1.25, 0.0, 0.5, 0.0, 1.625]);
    for exponent in [21, 23] {
        let large = 2f64.powi(exponent);
        let new = of_order_3([1.0, 1.0 / large, 1.0, large, 2.0, 0.0, 0.5, 0.0, 2.0]);
        for engine in ENGINES {
            let options = in_place(engine, false).max_growth(1e6);
            // Turned entries are rounded, and the checksum shows that.
            let outcome = renew_with(&old, &new, options).0.unwrap();
            assert!(
                matches!(outcome, Refactorized::Repivoted { .. }),
                "{engine:?}, 2^{exponent}: {outcome:?}"
            );
        }
    }
}

/// The last row was small and was scaled up. It is as large as the others now, so B has 2³² in it, which hides the
/// growth in the rows above from the norms of its columns. Only the pivots, which changed by 10⁸ to 10¹⁰, tell.
#[test]
fn growth_below_a_row_of_another_scale_is_noticed() {
    let of_order_3 = |values: [f64; 7]| {
        let (ptr, idx) = (vec![0, 2, 5, 7], vec![0, 1, 0, 1, 2, 1, 2]);
        CsMat::new((3, 3), ptr, idx, values.to_vec())
    };
    let scale = 2f64.powi(-32);
    let old = of_order_3([1.0, 0.5, 0.5, 1.0, 0.25, 0.5 * scale, scale]);
    for exponent in [-22, -27, -32] {
        let pivot = 1.3 * 2f64.powi(exponent);
        let new = of_order_3([pivot, 1.1, 1.7, 0.0, 0.9, 0.6, 1.2]);
        for engine in ENGINES {
            for outcome in accepted(renew_with(&old, &new, in_place(engine, true))) {
                assert!(
                    matches!(outcome, Refactorized::Repivoted { .. }),
                    "{engine:?}, 2^{exponent}: {outcome:?}"
                );
            }
        }
    }
}

/// Row factors fall by 2⁸ from row to row, and column factors rise: the smallest of both, which meet in no entry, would bound
/// the error of a pass by 10⁻² and more. The rows that columns meet show that it is rounding alone, or, where they meet some in
/// entries that are small after scaling, a pass through the factors.
#[test]
fn scale_factors_that_never_meet_need_no_probe() {
    let n = 10;
    let banded = |diagonal: f64, has_small: bool| {
        let mut a = TriMat::new((n, n));
        for i in 0..n {
            for j in 0..n {
                let scale = 2f64.powi(8 * (i as i32 - j as i32));
                match i.abs_diff(j) {
                    0 => a.add_triplet(i, j, diagonal),
                    1 => a.add_triplet(i, j, scale),
                    _ if i > j && has_small => a.add_triplet(i, j, 1.0),
                    _ => {}
                }
            }
        }
        a.to_csr::<usize>()
    };
    for (engine, has_small) in ENGINES.iter().flat_map(|&e| [(e, false), (e, true)]) {
        let (a, new) = (banded(4.0, has_small), banded(5.0, has_small));
        let mut options = in_place(engine, true);
        options.ordering.matching = Matching::Always;
        let mut factors = factorize(&a, options);
        for a in [&a, &new] {
            if std::ptr::eq(a, &new) {
                let outcome = factors.refactorize(a).unwrap();
                let Refactorized::Reused { backward_error, .. } = outcome else {
                    panic!("{engine:?}: {outcome:?}");
                };
                assert!(backward_error.is_some_and(|e| e < 1e-12), "{outcome:?}");
            }
            assert_eq!(factors.inform().seconds.probe, None, "{engine:?}");
            let (b, _) = known_solution(a);
            for transpose in [false, true] {
                let mut x = b.clone();
                let accuracy = if transpose {
                    factors.solve_transpose_in_place(&mut x).unwrap()
                } else {
                    factors.solve_in_place(&mut x).unwrap()
                };
                assert!(!accuracy.is_measured, "{engine:?}: {accuracy:?}");
                let bound = accuracy.backward_error.unwrap();
                let a = if transpose {
                    a.transpose_view().to_csr()
                } else {
                    a.clone()
                };
                let error = normwise_backward_error(&a, &x, &b);
                assert!(
                    error <= bound && bound < 1e-12,
                    "{engine:?}: {error:e}, {bound:e}"
                );
            }
        }
    }
}

/// Zeros come where the pivots are. Rows that changed places would do, as they do where these values are analyzed.
#[test]
fn static_pivots_that_vanish_are_an_error() {
    let (old, new) = (chained_blocks(3, 4.0, 1.0), chained_blocks(3, 0.0, 1.0));
    for engine in ENGINES {
        let options = options(engine)
            .pivoting(Pivoting::Static)
            .perturbation(Some(0.0));
        let refused = factorize::<C>(&turned(&old), options.clone()).refactorize(&turned(&new));
        assert!(
            matches!(refused, Err(Error::ZeroPivot { .. })),
            "{engine:?}: {refused:?}"
        );
        let mut factors = factorize(&old, options.clone());
        let refused = factors.refactorize(&new);
        assert!(
            matches!(refused, Err(Error::ZeroPivot { .. })),
            "{engine:?}: {refused:?}"
        );
        // The old factors are still in place.
        assert!(errors(&old, &factors).unwrap()[0] <= 1e-15);
        assert!(errors(&new, &factorize(&new, options)).unwrap()[0] <= 1e-15);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn rescaled_rows_and_columns_never_lie(
        which in 0usize..4,
        fronts in any::<bool>(),
        exponents in proptest::collection::vec(-150i32..150, 16),
        spread in 0.0f64..1.0,
    ) {
        let a = &samples()[which];
        let engine = ENGINES[usize::from(fronts)];
        let power = |k: usize| 10f64.powf(f64::from(exponents[k % 16]) * spread);
        let mut new = scaled_rows(a, power);
        if exponents[0] % 2 == 0 {
            for mut row in new.outer_iterator_mut() {
                row.iter_mut().for_each(|(j, v)| *v /= power(3 * j + 1));
            }
        }
        if new.data().iter().all(|v| v.is_finite()) {
            let _ = renew(a, &new, engine);
        }
    }

    #[test]
    fn random_values_never_lie(
        which in 0usize..4,
        fronts in any::<bool>(),
        factors in proptest::collection::vec(-1.0f64..1.0, 64),
        exponent in 0i32..40,
    ) {
        let a = &samples()[which];
        let engine = ENGINES[usize::from(fronts)];
        let mut new = a.clone();
        for (k, v) in new.data_mut().iter_mut().enumerate() {
            let factor = factors[(k * 7 + k / 64) % 64];
            *v *= factor.signum() * factor.abs().powi(exponent);
        }
        let _ = renew(a, &new, engine);
    }
}
