//! The column engine against the reference and against dense definitions.

use luge_numeric::cpu::columns::{ColumnLu, Options};
use luge_numeric::{LuPattern, NumericError};
use luge_reference::numeric::lu_left_looking;
use luge_reference::symbolic::fill2;
use luge_sparse::{ColPerm, CompressedPattern, PivotPolicy, Quality, RealScalar, Scaling};
use luge_testkit::convert::{pattern_of, permuted_and_scaled, to_scalar};
use luge_testkit::generators::adversaries::{
    ArrowHead, arrow, near_singular, permuted_diagonal, wilkinson_growth,
};
use luge_testkit::generators::applications::{
    circuit, circuit_sequence, convection_diffusion_2d, power_flow_jacobian, power_grid,
    random_unsymmetric,
};
use luge_testkit::residual::{
    assert_backward_error, error_bound, factor_error, normwise_backward_error,
};
use luge_testkit::strategies::{dominant_matrices, matrices, nonsingular_matrices};
use proptest::prelude::*;
use sprs::{CsMat, TriMat};

/// The columns of a matrix: those of B by columns are the rows of Bᵀ.
fn columns<T: RealScalar>(b: &CsMat<T>) -> (CompressedPattern, Vec<T>) {
    let transpose = b.to_csc().transpose_into();
    (pattern_of(&transpose), transpose.data().to_vec())
}

fn f64_of<T: RealScalar>(value: T) -> f64 {
    RealScalar::to_f64(value)
}

fn following(pivots: PivotPolicy) -> Options {
    Options {
        pivots,
        ..Options::default()
    }
}

fn with_threshold(threshold: f64) -> Options {
    following(PivotPolicy::threshold(threshold))
}

/// P·B.
fn permuted<T: RealScalar>(b: &CsMat<T>, lu: &ColumnLu<T>) -> CsMat<T> {
    let n = b.rows();
    permuted_and_scaled(
        b,
        lu.row_perm(),
        &Scaling::identity(n, n),
        &ColPerm::identity(n),
    )
}

/// Growth, checksum bound and pivots, from the definitions.
fn check_quality<T: RealScalar>(pb: &CsMat<T>, lu: &ColumnLu<T>, quality: &Quality) {
    let n = lu.n();
    if n == 0 {
        assert_eq!((quality.growth, quality.checksum), (1.0, 0.0));
        return;
    }
    let mut norms = vec![0.0; n];
    for (&value, (_, j)) in pb {
        norms[j] += f64_of(value).abs();
    }
    let sums: Vec<f64> = (0..n)
        .map(|j| 1.0 + lu.lower(j).1.iter().map(|l| f64_of(*l).abs()).sum::<f64>())
        .collect();
    let growth = |k: usize| {
        let (rows, values) = lu.upper(k);
        let above: f64 = rows
            .iter()
            .zip(values)
            .map(|(&j, u)| sums[j as usize] * f64_of(*u).abs())
            .sum();
        (above + sums[k] * f64_of(lu.pivots()[k]).abs()) / norms[k]
    };
    let largest = (0..n).map(growth).fold(0.0, f64::max);
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * (n as f64) * b.abs();
    assert!(
        close(quality.growth, largest),
        "{} for {largest}",
        quality.growth
    );
    assert!(close(growth(quality.worst_column), largest));
    let bound = 4.0 * (n as f64 + 2.0) * f64_of(T::epsilon()) * largest;
    assert!(quality.checksum <= bound, "{} > {bound}", quality.checksum);
    let magnitudes = || lu.pivots().iter().map(|p| f64_of(*p).abs());
    assert_eq!(
        quality.min_pivot,
        magnitudes().fold(f64::INFINITY, f64::min)
    );
    assert_eq!(quality.max_pivot, magnitudes().fold(0.0, f64::max));
}

/// Solves with P·B = L·U, both ways, with one vector and with many.
fn check_solves<T: RealScalar>(pb: &CsMat<T>, lu: &ColumnLu<T>, quality: &Quality) {
    let n = lu.n();
    for nrhs in [1, 2, 3, 4, 5, 9] {
        let ld = n + 3;
        let rhs: Vec<T> = (0..nrhs * ld)
            .map(|p| T::from_f64(((p * 7 + 3) % 11) as f64 - 4.0))
            .collect();
        for transposed in [false, true] {
            let mut x = rhs.clone();
            let matrix = if transposed {
                lu.solve_transpose_range(0..n, &mut x, ld, nrhs);
                pb.transpose_view().to_csr()
            } else {
                lu.solve_range(0..n, &mut x, ld, nrhs);
                pb.clone()
            };
            for v in 0..nrhs {
                let range = v * ld..v * ld + n;
                let error =
                    normwise_backward_error(&matrix, &x[range.clone()], &rhs[range.clone()]);
                let bound = error_bound::<T>(n) * quality.growth.max(1.0);
                assert!(error <= bound, "{error:e} > {bound:e}");
                assert_eq!(x[range.end..(v + 1) * ld], rhs[range.end..(v + 1) * ld]);
            }
        }
    }
}

/// The factors reproduce P·B up to rounding, which is proportional to |L|·|U| and so to the growth
/// (Higham, Accuracy and Stability, theorem 9.3): with a low threshold pivots may be small.
fn check_product<T: RealScalar>(pb: &CsMat<T>, lu: &ColumnLu<T>, quality: &Quality) {
    let (pattern, merged) = lu.merged();
    let error = factor_error(pb, pattern.cols(), &merged);
    let bound = error_bound::<T>(lu.n()) * quality.growth.max(1.0);
    assert!(error <= bound, "{error:e} > {bound:e}, {quality:?}");
}

/// Searched pivots must reproduce B, on the filled pattern of the permuted rows.
fn check_searched<T: RealScalar>(b: &CsMat<T>, threshold: f64) -> ColumnLu<T> {
    let (cols, values) = columns(b);
    let options = with_threshold(threshold);
    let (mut lu, quality) = ColumnLu::factorize(&cols, &values, &options).unwrap();
    let pb = permuted(b, &lu);
    let (pattern, merged) = lu.merged();
    assert_eq!(pattern, LuPattern::new(&fill2(&pattern_of(&pb))));
    check_product(&pb, &lu, &quality);
    assert_eq!(lu.lnz() + lu.unz() + lu.n(), pattern.nnz());
    if threshold > 0.0 {
        for j in 0..lu.n() {
            for l in lu.lower(j).1 {
                let l = f64_of(*l).abs();
                assert!(l * threshold <= 1.0 + 1e-6, "L has {l} in column {j}");
            }
        }
    }
    check_quality(&pb, &lu, &quality);
    check_solves(&pb, &lu, &quality);
    let flops = flops_of(&lu);
    assert_eq!(lu.flops(), flops);
    assert!(lu.bytes() >= ColumnLu::<T>::estimate_bytes(lu.n(), lu.lnz() as u64, lu.unz() as u64));

    // Twice: the first call makes its plan.
    for _ in 0..2 {
        let quality = lu.refactorize(&cols, &values, &options).unwrap();
        assert_eq!(
            lu.merged(),
            (pattern.clone(), merged.clone()),
            "the same bits"
        );
        check_quality(&pb, &lu, &quality);
        let n = lu.n() as f64;
        let tolerance = 64.0 * n * f64_of(T::epsilon()) * quality.growth / quality.min_pivot;
        if tolerance < 1e-3 {
            let near_one = |r: f64| (r - 1.0).abs() <= 1e-2;
            assert!(near_one(quality.min_pivot_ratio) && near_one(quality.max_pivot_ratio));
        }
        check_solves(&pb, &lu, &quality);
    }
    lu
}

fn flops_of<T: RealScalar>(lu: &ColumnLu<T>) -> u64 {
    let n = lu.n();
    (0..n)
        .map(|k| {
            let products: usize = lu
                .upper(k)
                .0
                .iter()
                .map(|&j| lu.lower(j as usize).0.len())
                .sum();
            (2 * products + lu.lower(k).0.len()) as u64
        })
        .sum()
}

/// The diagonal as it comes, or replaced: as the reference does it.
fn check_static<T: RealScalar>(b: &CsMat<T>, policy: PivotPolicy) {
    let rows = pattern_of(b);
    let filled = fill2(&rows);
    let expected = lu_left_looking(&filled, &rows, b.data(), policy);
    let (cols, values) = columns(b);
    // Each column is a front of its own, and has no other row to take.
    let options = following(policy.in_fronts(1.0));
    match (ColumnLu::factorize(&cols, &values, &options), expected) {
        (Ok((mut lu, quality)), Ok(expected)) => {
            let (pattern, merged) = lu.merged();
            assert_eq!(pattern.cols(), &expected.cols);
            assert_eq!(quality.num_perturbed, expected.perturbed.len());
            let first = expected.perturbed.first().map(|&j| j as usize);
            assert_eq!(quality.first_perturbed, first);
            assert_eq!(quality.num_off_diagonal, 0);
            // Equal as numbers: -0 and 0 may differ.
            assert_eq!(merged, expected.values);
            let again = lu.refactorize(&cols, &values, &options).unwrap();
            assert_eq!(again.num_perturbed, quality.num_perturbed);
            assert_eq!(again.first_perturbed, quality.first_perturbed);
        }
        // The reference looks at pivots alone, so it may notice an overflow later or never.
        (Err(NumericError::NotFinite { .. }), _) => {}
        (Err(NumericError::ZeroPivot { column }), Err(expected)) => {
            let expected = format!("{expected:?}");
            assert!(expected.contains(&column.to_string()), "{expected}");
        }
        (actual, expected) => panic!("{actual:?} where {expected:?} is right"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn searched_pivots_reproduce_the_matrix(b in nonsingular_matrices(30)) {
        for threshold in [0.01, 0.1, 1.0] {
            check_searched(&b, threshold);
        }
        check_searched(&to_scalar::<f32>(&b), 0.1);
    }

    #[test]
    fn dominant_matrices_keep_their_diagonal(b in dominant_matrices(40)) {
        let lu = check_searched(&b, 1e-3);
        prop_assert_eq!(lu.num_off_diagonal(), 0);
        check_static(&b, PivotPolicy::STATIC);
    }

    #[test]
    fn static_pivots_match_reference(b in matrices(30)) {
        check_static(&b, PivotPolicy::STATIC);
        check_static(&b, PivotPolicy::replacing_by_default(f64::EPSILON));
        check_static(&to_scalar::<f32>(&b), PivotPolicy::replacing_by_default(f32::EPSILON.into()));
    }

    /// Whatever the matrix, there are factors of small error or an error of the right kind.
    #[test]
    fn any_matrix_gives_factors_or_a_column(b in matrices(20)) {
        let (cols, values) = columns(&b);
        match ColumnLu::factorize(&cols, &values, &with_threshold(0.1)) {
            Ok((lu, quality)) => check_product(&permuted(&b, &lu), &lu, &quality),
            Err(NumericError::ZeroPivot { column }) => prop_assert!(column < b.rows()),
            Err(e) => prop_assert!(false, "{}", e),
        }
    }
}

#[test]
fn sizes_around_the_powers_of_two() {
    for n in [1, 31, 32, 33] {
        for seed in 0..3 {
            check_searched(&random_unsymmetric(n, 3.min(n), seed), 1.0);
            check_searched(&permuted_diagonal(n, seed), 1e-3);
        }
        check_searched(&arrow(n, ArrowHead::First), 1e-3);
        check_searched(&arrow(n, ArrowHead::Last), 1e-3);
    }
    check_searched(&arrow(1025, ArrowHead::Last), 1e-3);
    check_searched(&random_unsymmetric(1025, 2, 5), 0.1);
}

#[test]
fn applications_are_factorized() {
    check_searched(&circuit(400, 1), 1e-3);
    check_searched(&power_flow_jacobian(300, 2), 1e-3);
    check_searched(&power_grid(2, 15, 14, 3), 1e-3);
    check_searched(&convection_diffusion_2d(33, 31, 100.0), 0.1);
    check_searched(&convection_diffusion_2d(33, 31, 100.0), 1.0);
    check_searched(
        &to_scalar::<f32>(&convection_diffusion_2d(13, 17, 10.0)),
        0.1,
    );
}

/// Diagonal blocks of several orders: blocks of one column in between, and blocks that pivot.
fn block_diagonal() -> (CsMat<f64>, Vec<usize>) {
    let blocks = [
        random_unsymmetric(5, 2, 1),
        arrow(1, ArrowHead::First),
        permuted_diagonal(33, 2),
        arrow(1, ArrowHead::First),
        arrow(1, ArrowHead::First),
        circuit(60, 7),
        power_flow_jacobian(40, 3),
    ];
    let n = blocks.iter().map(CsMat::rows).sum();
    let mut all = TriMat::new((n, n));
    let mut ends = vec![0];
    for block in &blocks {
        let start = ends[ends.len() - 1];
        for (&value, (i, j)) in block {
            all.add_triplet(start + i, start + j, value);
        }
        ends.push(start + block.rows());
    }
    (all.to_csr(), ends)
}

#[test]
fn blocks_are_solved_one_by_one() {
    let (b, ends) = block_diagonal();
    let lu = check_searched(&b, 1e-3);
    let pb = permuted(&b, &lu);
    let n = b.rows();
    let rhs: Vec<f64> = (0..2 * n).map(|i| (i as f64).sin()).collect();
    for transposed in [false, true] {
        let mut x = rhs.clone();
        for w in ends.windows(2) {
            let before = x.clone();
            if transposed {
                lu.solve_transpose_range(w[0]..w[1], &mut x, n, 2);
            } else {
                lu.solve_range(w[0]..w[1], &mut x, n, 2);
            }
            for i in (0..n).filter(|i| !(w[0]..w[1]).contains(i)) {
                assert_eq!((x[i], x[n + i]), (before[i], before[n + i]));
            }
        }
        let matrix = if transposed {
            pb.transpose_view().to_csr()
        } else {
            pb.clone()
        };
        assert_backward_error(&matrix, &x[..n], &rhs[..n]);
        assert_backward_error(&matrix, &x[n..], &rhs[n..]);
    }
}

#[test]
fn singletons_are_divided_by() {
    let n = 1025;
    let b: CsMat<f64> = CsMat::<f64>::eye(n).map(|_| 4.0);
    let lu = check_searched(&b, 1e-3);
    let mut x = vec![2.0; n];
    for j in 0..n {
        lu.solve_range(j..j + 1, &mut x, n, 1);
    }
    assert_eq!(x, vec![0.5; n]);
}

#[test]
fn nothing_is_factorized_at_once() {
    let cols = CompressedPattern::new(0, vec![0], vec![]).unwrap();
    let (mut lu, quality) = ColumnLu::<f64>::factorize(&cols, &[], &Options::default()).unwrap();
    assert_eq!((lu.n(), quality.growth), (0, 1.0));
    assert_eq!(
        lu.refactorize(&cols, &[], &Options::default())
            .unwrap()
            .growth,
        1.0
    );
    lu.solve_range(0..0, &mut [], 0, 1);
}

fn dense<T: RealScalar>(n: usize, by_columns: &[T]) -> (CompressedPattern, Vec<T>) {
    let ptr = (0..=n).map(|j| (j * n) as u64).collect();
    let idx = (0..n * n).map(|p| (p % n) as u32).collect();
    (
        CompressedPattern::new(n, ptr, idx).unwrap(),
        by_columns.to_vec(),
    )
}

#[test]
fn the_threshold_decides_between_diagonal_and_largest() {
    let (cols, values) = dense(2, &[0.3, 1.0, 1.0, 0.0]);
    let (lu, quality) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
    assert_eq!(lu.row_perm().as_slice(), [0, 1]);
    assert_eq!(quality.num_off_diagonal, 0);
    let (lu, _) = ColumnLu::factorize(&cols, &values, &with_threshold(1.0)).unwrap();
    assert_eq!(lu.row_perm().as_slice(), [1, 0]);
    assert_eq!(lu.merged().1, [1.0, 0.3, 0.0, 1.0]);
}

#[test]
fn the_displaced_row_becomes_a_diagonal() {
    // Rows 0 and 1 swap; that counts as one exchange, the rest stays.
    let (cols, values) = dense(3, &[0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let (lu, quality) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
    assert_eq!(lu.row_perm().as_slice(), [1, 0, 2]);
    assert_eq!(quality.num_off_diagonal, 1);
}

#[test]
fn a_dependent_column_is_named() {
    let (cols, values) = dense(3, &[0.1, 0.2, 0.3, 0.7, 0.1, 0.9, 0.8, 0.3, 1.2]);
    let column_of = |result: Result<_, NumericError>| match result {
        Err(NumericError::ZeroPivot { column }) => column,
        other => panic!("{:?}", other.map(|_: (ColumnLu<f64>, Quality)| ())),
    };
    assert_eq!(
        column_of(ColumnLu::factorize(&cols, &values, &Options::default())),
        2
    );
    let (cols, values) = dense(1, &[0.0]);
    assert_eq!(
        column_of(ColumnLu::factorize(&cols, &values, &Options::default())),
        0
    );
    let empty = CompressedPattern::new(2, vec![0, 1, 1], vec![0]).unwrap();
    assert_eq!(
        column_of(ColumnLu::factorize(&empty, &[1.0], &Options::default())),
        1
    );
    let (cols, values) = columns(&near_singular(40, 0.0, 3));
    assert!(matches!(
        ColumnLu::factorize(&cols, &values, &Options::default()),
        Err(NumericError::ZeroPivot { .. })
    ));
}

#[test]
fn an_ill_conditioned_triangle_is_not_singular() {
    let cols = CompressedPattern::new(2, vec![0, 1, 3], vec![0, 0, 1]).unwrap();
    let (_, quality) = ColumnLu::factorize(&cols, &[1.0, 1.0, 1e-40], &Options::default()).unwrap();
    assert_eq!(quality.min_pivot, 1e-40);
}

#[test]
fn growth_is_seen() {
    let (cols, values) = columns(&wilkinson_growth(40));
    let (_, quality) = ColumnLu::factorize(&cols, &values, &with_threshold(1.0)).unwrap();
    assert!(quality.growth > 2f64.powi(34), "{}", quality.growth);
    assert_eq!(quality.worst_column, 39);
}

#[test]
fn nan_overflow_and_limits_are_reported() {
    let (cols, values) = dense(2, &[1.0, f64::NAN, 1.0, 1.0]);
    assert!(matches!(
        ColumnLu::factorize(&cols, &values, &Options::default()),
        Err(NumericError::NotFinite { column: 0 })
    ));
    let (cols, values) = dense(2, &[1.0, 1.0, -3e38f32, 3e38]);
    assert!(matches!(
        ColumnLu::factorize(&cols, &values, &Options::default()),
        Err(NumericError::NotFinite { column: 1 })
    ));
    // Finite, though the sums of magnitudes are not.
    let (cols, values) = dense(2, &[1e308, 1e308, 1e308, -1e307]);
    let (_, quality) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
    assert!(!quality.is_finite());
    let limited = Options {
        max_bytes: Some(ColumnLu::<f64>::estimate_bytes(2, 1, 0)),
        ..Options::default()
    };
    let (cols, values) = dense(2, &[1.0, 0.5, 0.5, 1.0]);
    match ColumnLu::factorize(&cols, &values, &limited) {
        Err(NumericError::OutOfMemory {
            asked, available, ..
        }) => {
            assert_eq!(Some(available), limited.max_bytes);
            assert_eq!(asked, ColumnLu::<f64>::estimate_bytes(2, 1, 1));
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    let cancelled = Options::default();
    cancelled.cancel.cancel();
    assert!(matches!(
        ColumnLu::factorize(&cols, &values, &cancelled),
        Err(NumericError::Cancelled(_))
    ));
}

#[test]
fn new_values_go_on_the_old_pivots() {
    let steps = circuit_sequence(300, 5, 4);
    let (cols, values) = columns(&steps[0]);
    let options = with_threshold(0.1);
    let (mut lu, _) = ColumnLu::factorize(&cols, &values, &options).unwrap();
    for step in &steps[1..] {
        let (same, values) = columns(step);
        assert_eq!(same, cols);
        let quality = lu.refactorize(&cols, &values, &options).unwrap();
        let pb = permuted(step, &lu);
        check_product(&pb, &lu, &quality);
        check_quality(&pb, &lu, &quality);
        check_solves(&pb, &lu, &quality);
        assert!(quality.min_pivot_ratio <= 1.0 && quality.max_pivot_ratio >= 1.0);
    }
}

#[test]
fn stale_pivots_are_not_hidden() {
    let (cols, values) = dense(2, &[1.0, 0.5, 0.5, 1.0]);
    let (mut lu, _) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
    let options = Options::default();
    let mut refactorize = |values: &[f64]| lu.refactorize(&cols, values, &options);
    assert!(matches!(
        refactorize(&[0.0, 0.5, 0.5, 1.0]),
        Err(NumericError::ZeroPivot { column: 0 })
    ));
    assert!(matches!(
        refactorize(&[1.0, 1.0, 1.0, 1.0]),
        Err(NumericError::ZeroPivot { column: 1 })
    ));
    assert!(!refactorize(&[1.0, f64::NAN, 0.5, 1.0]).unwrap().is_finite());
    assert!(
        !refactorize(&[1.0, 0.5, 0.5, f64::INFINITY])
            .unwrap()
            .is_finite()
    );
    let tiny = refactorize(&[1e-12, 0.5, 0.5, 1.0]).unwrap();
    assert!(tiny.growth > 1e11 && tiny.min_pivot_ratio < 1e-11);
    let good = refactorize(&[1.0, 0.5, 0.5, 1.0]).unwrap();
    assert!(good.growth <= 2.0 && good.checksum < 1e-15);
    // With static pivots, a tiny pivot is replaced and counted here, too.
    let options = following(PivotPolicy::replacing(1e-8));
    let quality = lu
        .refactorize(&cols, &[1.0, 1.0, 1.0, 1.0], &options)
        .unwrap();
    assert_eq!(
        (quality.num_perturbed, quality.first_perturbed),
        (1, Some(1))
    );
    assert_eq!(quality.min_pivot, 1e-8);
}

/// A large matrix with both long and short columns, one that pivots, and a block diagonal one.
fn threaded_samples() -> Vec<CsMat<f64>> {
    vec![
        convection_diffusion_2d(24, 24, 10.0),
        power_flow_jacobian(300, 1),
        power_grid(2, 12, 12, 3),
        circuit(1000, 4),
        random_unsymmetric(200, 4, 2),
        block_diagonal().0,
    ]
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for b in threaded_samples() {
        let (cols, values) = columns(&b);
        let (serial, quality) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
        let merged = serial.merged();
        let mut renewed = serial.clone();
        let other: Vec<f64> = values
            .iter()
            .enumerate()
            .map(|(p, v)| v * (1.0 + (p % 7) as f64 / 100.0))
            .collect();
        let renewed_quality = renewed
            .refactorize(&cols, &other, &Options::default())
            .unwrap();
        let bytes_of_one = renewed.bytes();
        let renewed = renewed.merged();
        for threads in [2, 3, 8] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let options = Options {
                threads,
                ..Options::default()
            };
            pool.install(|| {
                let (mut lu, q) = ColumnLu::factorize(&cols, &values, &options).unwrap();
                assert_eq!(q, quality);
                assert_eq!(lu.merged(), merged);
                let again = Quality {
                    min_pivot_ratio: 1.0,
                    max_pivot_ratio: 1.0,
                    ..renewed_quality
                };
                for expected in [&renewed_quality, &again, &again] {
                    let quality = lu.refactorize(&cols, &other, &options).unwrap();
                    assert_eq!(&quality, expected);
                    assert_eq!(lu.merged(), renewed);
                }
                // Each thread has vectors of its own: the work was worth more than one, but for the many small blocks.
                let is_shared = lu.bytes() > bytes_of_one;
                assert!(is_shared || b.rows() < 150, "{} rows", b.rows());
            });
        }
        // More threads than the pool has.
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        let options = Options {
            threads: 8,
            ..Options::default()
        };
        let mut lu = serial.clone();
        pool.install(|| lu.refactorize(&cols, &other, &options).unwrap());
        assert_eq!(lu.merged(), renewed);
    }
}

#[test]
#[should_panic(expected = "the range cuts a diagonal block")]
fn a_range_that_cuts_a_block_is_a_broken_call() {
    let (cols, values) = dense(3, &[4.0, 1.0, 0.0, 1.0, 4.0, 0.0, 0.0, 0.0, 2.0]);
    let (lu, _) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
    lu.solve_range(1..3, &mut [0.0; 3], 3, 1);
}

#[test]
#[should_panic(expected = "the range cuts a diagonal block")]
fn a_range_below_which_rows_lead_into_it_is_a_broken_call() {
    // 4
    // 1 4
    //   1 4
    let cols = CompressedPattern::new(3, vec![0, 2, 4, 5], vec![0, 1, 1, 2, 2]).unwrap();
    let values = [4.0, 1.0, 4.0, 1.0, 4.0];
    let (lu, _) = ColumnLu::factorize(&cols, &values[..], &Options::default()).unwrap();
    lu.solve_range(1..3, &mut [0.0; 3], 3, 1);
}

/// Pivots whose reciprocals overflow.
#[test]
fn subnormal_pivots_are_divided_by() {
    let (cols, values) = dense(2, &[1e-310, 0.0, 1e-310, 1e-310]);
    let (lu, _) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
    let mut x = [3e-310, 1e-310];
    lu.solve_range(0..2, &mut x, 2, 1);
    assert_backward_error(
        &CsMat::new(
            (2, 2),
            vec![0, 2, 4],
            vec![0, 1, 0, 1],
            vec![1.0, 1.0, 0.0, 1.0],
        ),
        &x,
        &[3.0, 1.0],
    );
}

#[test]
fn a_cancelled_refactorization_stops() {
    for threads in [1, 2] {
        let (cols, values) = columns(&power_flow_jacobian(600, 1));
        let options = Options {
            threads,
            ..Options::default()
        };
        let (mut lu, _) = ColumnLu::factorize(&cols, &values, &options).unwrap();
        options.cancel.cancel();
        assert!(matches!(
            lu.refactorize(&cols, &values, &options),
            Err(NumericError::Cancelled(_))
        ));
        let quality = lu.refactorize(&cols, &values, &Options::default()).unwrap();
        assert!(quality.checksum < 1e-10);
    }
}

#[test]
fn near_singular_is_not_refused() {
    for seed in 0..20 {
        for n in [5, 33, 60] {
            let (cols, values) = columns(&near_singular(n, 1e-12, seed));
            ColumnLu::factorize(&cols, &values, &Options::default())
                .unwrap_or_else(|e| panic!("n {n}, seed {seed}: {e}"));
        }
    }
}

/// Columns 2 and 3 have an entry of 10⁴⁰ in row 1, which is a pivot by then, so both are compared with the rounding of
/// their terms. Those of column 2 in row 3 are 10²⁰, an entry or a product, and must be gone for column 3, where
/// that row has an entry of 1 alone.
#[test]
fn terms_of_one_column_do_not_count_in_the_next() {
    let entry = (
        vec![0, 1, 2, 5, 7],
        vec![0, 1, 1, 2, 3, 1, 3],
        vec![1.0, 1.0, 1e40, 1e20, 1e20, 1e40, 1.0],
    );
    let product = (
        vec![0, 2, 3, 6, 8],
        vec![0, 3, 1, 0, 1, 2, 1, 3],
        vec![1.0, 1.0, 1.0, 1e20, 1e40, 1e20, 1e40, 1.0],
    );
    for (ptr, idx, values) in [entry, product] {
        let (cols, values) = columns(&CsMat::new_csc((4, 4), ptr, idx, values));
        let (lu, quality) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
        assert_eq!((quality.min_pivot, quality.max_pivot), (1.0, 1e20));
        assert_eq!(lu.row_perm().as_slice(), [0, 1, 2, 3]);
    }
}

/// A pool of `threads` threads, and options for as many.
fn on_threads(threads: usize) -> (rayon::ThreadPool, Options) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let options = Options {
        threads,
        ..Options::default()
    };
    (pool.build().unwrap(), options)
}

/// What one thread makes of `values` on the pivots of `lu`.
fn alone(
    lu: &ColumnLu<f64>,
    cols: &CompressedPattern,
    values: &[f64],
) -> (Result<Quality, NumericError>, ColumnLu<f64>) {
    let mut lu = lu.clone();
    let outcome = lu.refactorize(cols, values, &Options::default());
    (outcome, lu)
}

/// Neither the threads that a cancellation stopped nor what they had reported before is left over in the
/// next refactorization.
#[test]
fn a_refactorization_after_a_cancelled_one_is_whole() {
    let (cols, values) = columns(&convection_diffusion_2d(24, 24, 10.0));
    let small: Vec<f64> = values.iter().map(|v| v * 1e-3).collect();
    let (factors, _) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
    let (expected, by_one) = alone(&factors, &cols, &values);
    let (expected, merged) = (expected.unwrap(), by_one.merged());
    for threads in [1, 3] {
        let (pool, options) = on_threads(threads);
        let cancelled = Options {
            threads,
            ..Options::default()
        };
        cancelled.cancel.cancel();
        let mut lu = factors.clone();
        pool.install(|| {
            for _ in 0..3 {
                lu.refactorize(&cols, &small, &options).unwrap();
                let stopped = lu.refactorize(&cols, &small, &cancelled);
                assert!(matches!(stopped, Err(NumericError::Cancelled(_))));
                let quality = lu.refactorize(&cols, &values, &options).unwrap();
                // Pivots that were unspecified are no measure of change.
                let of_change = |q: &Quality| Quality {
                    min_pivot_ratio: 1.0,
                    max_pivot_ratio: 1.0,
                    ..*q
                };
                assert_eq!(of_change(&quality), of_change(&expected));
                assert_eq!(lu.merged(), merged);
            }
        });
    }
}

/// The same from one thread as from several, and gone with the next values.
#[test]
fn errors_of_any_thread_are_told_and_forgotten() {
    let (cols, values) = columns(&power_grid(2, 12, 12, 3));
    let n = cols.major_dim();
    let (factors, _) = ColumnLu::factorize(&cols, &values, &Options::default()).unwrap();
    let (_, by_one) = alone(&factors, &cols, &values);
    let merged = by_one.merged();
    let with = |columns: &[usize], value: f64| {
        let mut values = values.clone();
        for &k in columns {
            values[cols.range(k)].fill(value);
        }
        values
    };
    for threads in [2, 3] {
        let (pool, options) = on_threads(threads);
        let mut lu = factors.clone();
        pool.install(|| {
            for places in [vec![n / 3], vec![n / 2, n / 5, n - 2]] {
                // Column sums overflow, the values may be finite or not.
                for value in [f64::MAX, f64::NAN] {
                    let values = with(&places, value);
                    let quality = lu.refactorize(&cols, &values, &options).unwrap();
                    let context = format!("{threads} threads, {value} in {places:?}");
                    assert!(quality.growth.is_nan(), "{context}: {quality:?}");
                    assert!(quality.checksum.is_nan(), "{context}: {quality:?}");
                }
                let zero = with(&places, 0.0);
                let (expected, _) = alone(&factors, &cols, &zero);
                let first = *places.iter().min().unwrap();
                for outcome in [expected, lu.refactorize(&cols, &zero, &options)] {
                    assert!(
                        matches!(outcome, Err(NumericError::ZeroPivot { column }) if column == first),
                        "{threads} threads, {places:?}: {outcome:?}"
                    );
                }
                let quality = lu.refactorize(&cols, &values, &options).unwrap();
                assert!(quality.checksum < 1e-13, "{quality:?}");
                assert_eq!(lu.merged(), merged);
            }
        });
    }
}

/// Sums that overflow in a column of one of several threads, though all values stay finite.
#[test]
fn overflow_of_sums_in_any_thread_is_told() {
    let (cols, values) = columns(&power_grid(2, 20, 20, 3));
    // Nothing is subtracted from a column without entries above its diagonal.
    let leaves: Vec<usize> = (0..cols.major_dim())
        .filter(|&k| cols.line(k).first() == Some(&(k as u32)) && cols.range(k).len() > 2)
        .collect();
    for threads in [1, 2, 3] {
        let (pool, options) = on_threads(threads);
        for k in [
            leaves[0],
            leaves[leaves.len() / 2],
            leaves[leaves.len() - 1],
        ] {
            let mut large = values.clone();
            large[cols.range(k)].fill(1e308);
            pool.install(|| {
                let (mut lu, quality) = ColumnLu::factorize(&cols, &large, &options).unwrap();
                assert!(quality.growth.is_nan() && quality.checksum.is_nan());
                let quality = lu.refactorize(&cols, &large, &options).unwrap();
                assert!(quality.growth.is_nan() && quality.checksum.is_nan());
                let (_, quality) = ColumnLu::factorize(&cols, &values, &options).unwrap();
                assert!(quality.is_finite());
            });
        }
    }
}

#[test]
fn of_candidates_of_one_size_the_first_row_is_taken() {
    // Column 0 is (1, 2, −2), and its diagonal is too small.
    let cols = CompressedPattern::new(3, vec![0, 3, 5, 7], vec![0, 1, 2, 0, 1, 0, 2]).unwrap();
    let values = [1.0, 2.0, -2.0, 5.0, 1.0, 1.0, 5.0];
    let (lu, _) = ColumnLu::factorize(&cols, &values, &with_threshold(1.0)).unwrap();
    assert_eq!(lu.row_perm().as_slice()[0], 1);
}

#[test]
fn a_pivot_of_rounding_errors_is_zero_at_any_scale() {
    // 3 / 10 of column 0, but for the rounding of 0.3 and of 1 / 10.
    let cols = CompressedPattern::new(2, vec![0, 2, 4], vec![0, 1, 0, 1]).unwrap();
    for exponent in [-300, -30, 0, 30, 300] {
        let values = [10.0, 1.0, 3.0, 0.3].map(|v| v * 2f64.powi(exponent));
        let result = ColumnLu::factorize(&cols, &values, &Options::default());
        assert!(matches!(result, Err(NumericError::ZeroPivot { column: 1 })));
    }
}
