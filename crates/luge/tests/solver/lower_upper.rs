//! L and U as matrices.

use luge::ordering::OrderingOptions;
use luge::{BackendChoice, CpuEngine, Factors, MatrixKind, Options, Pivoting, Solver};
use luge_testkit::generators::applications::{circuit, convection_diffusion_2d};
use luge_testkit::generators::gallery;
use luge_testkit::residual::error_bound;
use luge_testkit::strategies::nonsingular_matrices;
use proptest::prelude::*;
use sprs::CsMat;

fn factorize(a: &CsMat<f64>, options: Options) -> Factors<f64> {
    let options = options.backend(BackendChoice::Cpu);
    let analysis = Solver::new(options).unwrap().analyze(a).unwrap();
    analysis.factorize(a).unwrap()
}

/// P·A·Q = L·U, each entry to rounding of the magnitudes that it is a sum of (Higham, theorem 9.3); L unit lower, U upper.
fn check(a: &CsMat<f64>, factors: &Factors<f64>, what: &str) {
    let parts = factors.lower_upper().unwrap().expect("a general matrix");
    let n = a.rows();
    assert_eq!((parts.l.shape(), parts.u.shape()), ((n, n), (n, n)));
    assert!(parts.l.is_csc() && parts.u.is_csc());
    let mut diagonals = [0, 0];
    for (&value, (i, j)) in parts.l.iter() {
        assert!(
            i > j || (i == j && value == 1.0),
            "{what}: L({i}, {j}) = {value}"
        );
        diagonals[0] += usize::from(i == j);
    }
    for (&value, (i, j)) in parts.u.iter() {
        assert!(i <= j, "{what}: U({i}, {j}) = {value}");
        diagonals[1] += usize::from(i == j && value != 0.0);
    }
    assert_eq!(diagonals, [n, n], "{what}");

    let magnitude = |m: &CsMat<f64>| m.map(|v| v.abs());
    let product = &parts.l * &parts.u;
    let bound = &magnitude(&parts.l) * &magnitude(&parts.u);
    let (new_row, new_col) = (parts.row_perm.inverse(), parts.col_perm.inverse());
    for (&value, (i, j)) in a.iter().filter(|(value, _)| **value != 0.0) {
        let (p, q) = (new_row[i] as usize, new_col[j] as usize);
        let found = product.get(p, q).copied().unwrap_or(0.0);
        let sum = bound.get(p, q).copied().unwrap_or(0.0);
        let error = (found - value).abs();
        assert!(
            error <= error_bound::<f64>(n) * sum.max(value.abs()),
            "{what}: entry ({i}, {j}) is {value:e}, of L·U {found:e}"
        );
    }
    for (&found, (p, q)) in product.iter() {
        let (i, j) = (parts.row_perm.as_slice()[p], parts.col_perm.as_slice()[q]);
        let value = a.get(i as usize, j as usize).copied().unwrap_or(0.0);
        let sum = bound.get(p, q).copied().unwrap_or(0.0);
        assert!(
            (found - value).abs() <= error_bound::<f64>(n) * sum,
            "{what}: entry ({i}, {j}) is {value:e}, of L·U {found:e}"
        );
    }
}

fn engines() -> [CpuEngine; 3] {
    [CpuEngine::Auto, CpuEngine::Columns, CpuEngine::Fronts]
}

#[test]
fn l_times_u_is_the_permuted_matrix() {
    for sample in gallery(5) {
        for engine in engines() {
            for pivoting in [Pivoting::Auto, Pivoting::Threshold { threshold: 1.0 }] {
                let options = Options::default().engine(engine).pivoting(pivoting);
                let factors = factorize(&sample.matrix, options);
                check(&sample.matrix, &factors, sample.name);
            }
        }
    }
}

/// A circuit has hundreds of diagonal blocks, with entries above them that fill.
#[test]
fn u_above_the_diagonal_blocks_is_computed() {
    let a = circuit(400, 3);
    for engine in engines() {
        let factors = factorize(&a, Options::default().engine(engine));
        assert!(factors.inform().num_blocks > 1);
        check(&a, &factors, "circuit");
        let ordering = OrderingOptions::default().block_triangular(false);
        let factors = factorize(&a, Options::default().engine(engine).ordering(ordering));
        check(&a, &factors, "circuit, one block");
    }
}

#[test]
fn a_refactorization_has_its_own() {
    let a = convection_diffusion_2d(15, 12, 20.0);
    let mut factors = factorize(&a, Options::default());
    let other = a.map(|v| 2.0 * v + 0.01);
    factors.refactorize(&other).unwrap();
    check(&other, &factors, "refactorized");
}

#[test]
fn symmetric_factors_have_none() {
    let a: CsMat<f64> = CsMat::new((2, 2), vec![0, 1, 2], vec![0, 1], vec![2.0, 3.0]);
    let factors = factorize(&a, Options::default().kind(MatrixKind::Symmetric));
    assert!(factors.lower_upper().unwrap().is_none());
}

#[test]
fn memory_is_limited() {
    let a = convection_diffusion_2d(40, 40, 20.0);
    let held = factorize(&a, Options::default()).inform().peak_host_bytes;
    let options = Options::default().max_host_bytes(Some(4 * held)).threads(1);
    assert!(factorize(&a, options.clone()).lower_upper().is_ok());
    // Enough for the factors, and not for another copy of them.
    let limits = (1..40).map(|k| held + k * held / 20);
    let refused = limits.into_iter().any(|limit| {
        let options = options.clone().max_host_bytes(Some(limit));
        let analysis = Solver::new(options.backend(BackendChoice::Cpu)).and_then(|s| s.analyze(&a));
        let factors = analysis.and_then(|analysis| analysis.factorize(&a));
        factors.is_ok_and(|f| matches!(f.lower_upper(), Err(luge::Error::OutOfMemory { .. })))
    });
    assert!(refused);
}

proptest! {
    #[test]
    fn any_matrix_is_the_product(a in nonsingular_matrices(24), engine in 0..3usize) {
        let options = Options::default().backend(BackendChoice::Cpu).engine(engines()[engine]);
        let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
        // Some are singular to rounding.
        if let Ok(factors) = analysis.factorize(&a) {
            check(&a, &factors, "drawn");
        }
    }
}
