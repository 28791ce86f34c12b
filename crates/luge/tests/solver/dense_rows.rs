//! Dense rows, which give a front very many children.

use luge::{Analysis, BackendChoice, DeviceEngine, MatrixKind, Options, Solver};
use luge_testkit::residual::{known_solution, normwise_backward_error};
use sprs::{CsMat, TriMat};

/// A diagonal with three dense rows and columns behind it.
fn bordered(n: usize) -> CsMat<f64> {
    let mut a = TriMat::new((n, n));
    for i in 0..n {
        a.add_triplet(i, i, 4.0 + (i % 7) as f64);
        for j in (n - 3).max(i + 1)..n {
            let value = 0.1 + ((i + 2 * j) % 5) as f64 * 0.1;
            a.add_triplet(i, j, value);
            a.add_triplet(j, i, value);
        }
    }
    a.to_csr()
}

/// The bordered matrix of order n, analyzed for a device.
fn analyzed(n: usize, kind: MatrixKind) -> (CsMat<f64>, Analysis<f64>) {
    let a = bordered(n);
    let options = Options::default()
        .kind(kind)
        .backend(BackendChoice::Simulator { seed: 5 })
        .device_engine(DeviceEngine::Tree);
    let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
    (a, analysis)
}

/// Fronts of a device for it, which solves with them.
fn fronts(n: usize, kind: MatrixKind) -> usize {
    let (a, analysis) = analyzed(n, kind);
    let fronts = analysis.inform().num_supernodes.unwrap();
    let (b, _) = known_solution(&a);
    let factors = analysis.factorize(&a).unwrap();
    assert_eq!(factors.inform().num_supernodes, Some(fronts));
    let x = factors.solve(&b).unwrap().x;
    let error = normwise_backward_error(&a, &x, &b);
    assert!(error <= 1e-14, "{n}, {kind:?}: {error:e}");
    fronts
}

/// Groups of the children are fronts of their own.
#[test]
fn very_many_children_are_added_up_by_groups() {
    for kind in [MatrixKind::General, MatrixKind::Symmetric] {
        // A front for each column, but for those that are one front with the border: the same number for any order.
        let merged = 900 - analyzed(900, kind).1.inform().num_supernodes.unwrap();
        let children = 1100 - merged - 1;
        assert!(children > 1024, "more than a front has without groups");
        let expected = 1100 - merged + children.div_ceil(128);
        assert_eq!(fronts(1100, kind), expected, "{kind:?}");
    }
}
