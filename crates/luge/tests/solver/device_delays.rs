//! Pivots of general matrices that are searched on the device: no factorization of the tree goes to the CPU for them.

use luge::ordering::{Matching, OrderingOptions};
use luge::{
    BackendChoice, DeviceEngine, Error, Factors, Options, Pivoting, Refactorized, Solver, Warning,
};
use luge_testkit::generators::mixed::{darcy, stokes};
use luge_testkit::residual::{known_solution, normwise_backward_error};
use sprs::CsMat;

const FRONTS: &str = "pivots: searched in fronts, columns without one delayed";

const COLUMNS: &str = "pivots: Gilbert-Peierls on the CPU";

fn on_device(seed: u64) -> Options {
    Options::default()
        .backend(BackendChoice::Simulator { seed })
        .device_engine(DeviceEngine::Tree)
}

/// Rows stay where they are, so what is zero on the diagonal is so in the tree.
fn unmatched(options: Options) -> Options {
    options.ordering(
        OrderingOptions::default()
            .matching(Matching::Never)
            .scaling(false)
            .block_triangular(false),
    )
}

fn factorize(a: &CsMat<f64>, options: Options) -> Result<Factors<f64>, Error> {
    Solver::new(options)?.analyze(a)?.factorize(a)
}

/// Solutions by the factors, of A and of its transpose.
fn solutions(a: &CsMat<f64>, factors: &Factors<f64>) -> [Vec<f64>; 2] {
    let (b, _) = known_solution(a);
    let x = factors.solve(&b).unwrap().x;
    let error = normwise_backward_error(a, &x, &b);
    assert!(error <= 1e-13, "{error:e}");
    let transpose = a.to_csc().transpose_into();
    let (b, _) = known_solution(&transpose);
    let y = factors.solve_transpose(&b).unwrap().x;
    let error = normwise_backward_error(&transpose, &y, &b);
    assert!(error <= 1e-13, "{error:e} of the transpose");
    [x, y]
}

#[test]
fn saddle_points_are_factorized_without_the_cpu() {
    for (name, a) in [("Darcy", darcy(7, 6, 5)), ("Stokes", stokes(6, 6))] {
        for pivoting in [Pivoting::Auto, Pivoting::Threshold { threshold: 0.1 }] {
            let mut first: Option<[Vec<f64>; 2]> = None;
            for seed in [3, 4] {
                let options = unmatched(on_device(seed)).pivoting(pivoting);
                let mut factors = factorize(&a, options).unwrap();
                let inform = factors.inform();
                assert_eq!(inform.code_path[0], FRONTS, "{name}: {:?}", inform.warnings);
                assert!(!inform.code_path.contains(&COLUMNS));
                assert_eq!(inform.pivoting, Some("threshold"));
                assert!(inform.num_delay.unwrap() > 0 && inform.num_off_diagonal.is_some());
                assert!(inform.backward_error.unwrap() <= 1e-13);
                assert!(inform.seconds.pivot_search.unwrap() > 0.0);
                let searches = |w: &Warning| matches!(w, Warning::PivotsSearched { .. });
                assert_eq!(
                    inform.warnings.iter().any(searches),
                    pivoting == Pivoting::Auto
                );
                let num_delay = inform.num_delay;
                let found = solutions(&a, &factors);
                // Pivots and tree serve other values, and these again.
                let other = a.map(|v| 1.5 * v);
                let reused = |outcome| matches!(outcome, Refactorized::Reused { .. });
                assert!(reused(factors.refactorize(&other).unwrap()), "{name}");
                solutions(&other, &factors);
                assert!(reused(factors.refactorize(&a).unwrap()), "{name}");
                assert_eq!(factors.inform().num_delay, num_delay);
                assert_eq!(solutions(&a, &factors), found, "{name}");
                assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "{name}");
            }
        }
    }
}

/// Sizes are those of the tree with the delayed columns, and the determinant is that of the CPU.
#[test]
fn what_is_told_of_delayed_factors_is_theirs() {
    let a = darcy(7, 6, 5);
    let analysis = Solver::new(unmatched(on_device(3)))
        .unwrap()
        .analyze(&a)
        .unwrap();
    let factors = analysis.factorize(&a).unwrap();
    let (planned, inform) = (analysis.inform(), factors.inform());
    assert_eq!(inform.code_path[0], FRONTS);
    assert!(inform.lnz > planned.lnz && inform.unz > planned.unz);
    let on_host = unmatched(Options::default().backend(BackendChoice::Cpu));
    let on_host = factorize(&a, on_host).unwrap();
    let [device, host] = [&factors, &on_host].map(|f| f.determinant().unwrap());
    assert_eq!(device.exponent, host.exponent);
    let error = (device.mantissa / host.mantissa - 1.0).abs();
    assert!(error < 1e-10, "{error:e}");
    let [device, host] = [&factors, &on_host].map(|f| f.rcond().unwrap());
    assert!((device / host).log2().abs() < 4.0, "{device:e}, {host:e}");
}

/// A threshold that hardly a front can keep is a matter for the CPU, and so is a singular matrix.
#[test]
fn what_fronts_do_not_find_is_searched_on_the_cpu() {
    let a = darcy(5, 4, 5);
    let options = unmatched(on_device(3)).pivoting(Pivoting::Threshold { threshold: 1.0 });
    let factors = factorize(&a, options).unwrap();
    assert_eq!(factors.inform().code_path[0], COLUMNS);
    assert_eq!(factors.inform().num_delay, Some(0));
    solutions(&a, &factors);
    // Two rows are the same.
    let n = a.rows();
    let last = a.outer_view(n - 1).unwrap();
    let mut singular = sprs::TriMat::new((n, n));
    for (i, row) in a.outer_iterator().enumerate() {
        let row = if i == 0 { &last } else { &row };
        for (j, &v) in row.iter() {
            singular.add_triplet(i, j, v);
        }
    }
    let refused = factorize(&singular.to_csr(), unmatched(on_device(3)));
    assert!(
        matches!(
            refused.map(|_| ()),
            Err(Error::ZeroPivot { .. }
                | Error::NoPivots { .. }
                | Error::SingularToRounding { .. }
                | Error::StructurallySingular { .. })
        ),
        "a singular matrix was factorized"
    );
}
