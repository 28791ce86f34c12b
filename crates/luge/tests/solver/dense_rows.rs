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

/// Groups of 16 of so many children, and of groups, until a front waits for no more than 40.
fn groups(mut left: usize) -> usize {
    let mut groups = 0;
    while left > 40 {
        let (whole, rest) = (left / 16, left % 16);
        groups += whole + usize::from(rest > 1);
        left = whole + usize::from(rest > 0);
    }
    groups
}

/// Groups of the children, and of groups, are fronts of their own.
#[test]
fn very_many_children_are_added_up_by_groups() {
    for kind in [MatrixKind::General, MatrixKind::Symmetric] {
        // A front for each column, but for those that are one front with the border: the same number for any order.
        let fronts_of = |n: usize, merged: usize| n - merged + groups(n - merged - 1);
        let found = analyzed(900, kind).1.inform().num_supernodes.unwrap();
        let merged = (0..20).find(|&merged| fronts_of(900, merged) == found);
        let merged = merged.unwrap_or_else(|| panic!("{kind:?}: {found} fronts"));
        assert_eq!(fronts(1100, kind), fronts_of(1100, merged), "{kind:?}");
    }
}
