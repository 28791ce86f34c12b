//! Every peer that is installed solves small systems right; one that is not is skipped loudly.

use std::f64::consts::PI;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use luge_peers::{Found, Matrix, NAMES, Peer, PeerError, PeerScalar, Structure};
use luge_sparse::Scalar;
use luge_testkit::convert::turned;
use luge_testkit::corpus::skip_loudly;
use luge_testkit::generators::applications::{
    circuit_sequence, convection_diffusion_2d, laplacian_2d, staged_columns,
};
use luge_testkit::generators::mixed::{darcy, random_symmetric};
use luge_testkit::residual::{error_bound, known_solution, normwise_backward_error};
use num_complex::Complex;
use sprs::CsMat;

/// Peers that are crates and have no library to be missing.
const CRATES: [&str; 2] = ["faer", "feral"];

/// Runs `check` with a solver of general matrices of each peer that is here, on one thread and on two.
fn with_peers<T: PeerScalar>(check: impl Fn(&mut dyn Peer<T>)) {
    with_peers_told(Structure::General, check);
}

/// The same with solvers that are told this of their matrices.
fn with_peers_told<T: PeerScalar>(structure: Structure, check: impl Fn(&mut dyn Peer<T>)) {
    // The BLAS, whose number of threads is set, belongs to all tests of this process.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for name in NAMES {
        match Found::load(name, None) {
            Ok(found) => {
                for threads in [1, 2] {
                    if let Some(mut solver) = found.solver(structure, threads) {
                        check(solver.as_mut());
                    }
                }
            }
            Err(missing) => skip_loudly(1, &format!("{name} is missing: {missing}")),
        }
    }
}

fn matrix<T: Scalar>(a: CsMat<T>) -> Matrix<T> {
    Matrix::new(a).expect("test matrices are small and square")
}

/// The backward errors of the solves of A·x = b, Aᵀ·x = b and A·X = [b, 2b].
fn backward_errors<T: PeerScalar>(peer: &mut dyn Peer<T>, a: &Matrix<T>) -> [f64; 3] {
    let by_rows = a.rows();
    let transposed = by_rows.transpose_view().to_csr();
    let (b, _) = known_solution(by_rows);
    let (bt, _) = known_solution(&transposed);
    let mut x = b.clone();
    peer.solve(&mut x, 1).expect("it solves");
    let mut xt = bt.clone();
    peer.solve_transpose(&mut xt, 1)
        .expect("it solves with the transpose");
    let doubled: Vec<T> = b.iter().map(|&v| v + v).collect();
    let mut many = [b.clone(), doubled.clone()].concat();
    peer.solve(&mut many, 2).expect("it solves many");
    [
        normwise_backward_error(by_rows, &x, &b),
        normwise_backward_error(&transposed, &xt, &bt),
        normwise_backward_error(by_rows, &many[a.n()..], &doubled),
    ]
}

#[track_caller]
fn assert_small<T: PeerScalar>(peer: &dyn Peer<T>, a: &Matrix<T>, errors: [f64; 3]) {
    let bound = error_bound::<T>(a.n());
    assert!(
        errors.iter().all(|&error| error <= bound),
        "{}: backward errors {errors:?} of A, its transpose, many right-hand sides; bound {bound:e}",
        peer.name()
    );
}

#[test]
fn peers_solve() {
    peers_solve_over::<f64>();
    peers_solve_over::<Complex<f64>>();
}

fn peers_solve_over<T: PeerScalar>() {
    let systems = [
        CsMat::eye(1),
        convection_diffusion_2d(8, 4, 10.0),
        convection_diffusion_2d(11, 3, 100.0),
        staged_columns(3, 6, 3, 7),
        circuit_sequence(1000, 5, 1).remove(0),
    ];
    for a in systems.map(|a| matrix(turned::<T>(&a))) {
        with_peers(|peer: &mut dyn Peer<T>| {
            peer.analyze(&a).expect("it analyzes");
            peer.factorize(&a).expect("it factorizes");
            let errors = backward_errors(peer, &a);
            assert_small(peer, &a, errors);
        });
    }
}

#[test]
fn peers_refactorize() {
    peers_refactorize_over::<f64>();
    peers_refactorize_over::<Complex<f64>>();
}

fn peers_refactorize_over<T: PeerScalar>() {
    let steps: Vec<Matrix<T>> = circuit_sequence(300, 2, 3)
        .into_iter()
        .map(|a| matrix(turned(&a)))
        .collect();
    with_peers(|peer: &mut dyn Peer<T>| {
        peer.analyze(&steps[0]).expect("it analyzes");
        peer.factorize(&steps[0]).expect("it factorizes");
        for a in &steps[1..] {
            if !["umfpack", "faer"].contains(&peer.name()) {
                peer.refactorize(a).expect("it refactorizes");
            } else {
                assert_eq!(peer.refactorize(a), Err(PeerError::Unsupported));
                peer.factorize(a).expect("it factorizes again");
            }
            let errors = backward_errors(peer, a);
            assert_small(peer, a, errors);
        }
    });
}

#[test]
fn peers_refuse_singular_matrices() {
    peers_refuse_singular_matrices_over::<f64>();
    peers_refuse_singular_matrices_over::<Complex<f64>>();
}

fn peers_refuse_singular_matrices_over<T: PeerScalar>() {
    // The last row is the sum of the others; every row and column can be matched. All but the pivots are exact in either field.
    let values = [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0];
    let both = |value: f64| T::narrow(T::Wide::from_components(|_| value));
    let singular = matrix(CsMat::new(
        (3, 3),
        vec![0, 2, 4, 7],
        vec![0, 1, 1, 2, 0, 1, 2],
        values.map(both).to_vec(),
    ));
    with_peers(|peer: &mut dyn Peer<T>| {
        let refused: Result<(), PeerError> = peer
            .analyze(&singular)
            .and_then(|()| peer.factorize(&singular))
            .and_then(|()| {
                if peer.name() == "pardiso" {
                    // It solves a matrix beside this one, and says so.
                    assert_eq!(peer.statistics().num_perturbed, Some(1));
                    return Err(PeerError::Singular(None));
                }
                // faer leaves it to the solution.
                let b = [1.0, 2.0, 4.0].map(both);
                let mut x = b;
                peer.solve(&mut x, 1)?;
                let error = normwise_backward_error(singular.rows(), &x, &b);
                assert!(error > 1e-3, "{} solves what has no solution", peer.name());
                Err(PeerError::Singular(None))
            });
        assert!(
            matches!(refused, Err(PeerError::Singular(_))),
            "{}: {refused:?}",
            peer.name()
        );
    });
}

#[test]
fn peers_report_their_factors() {
    peers_report_their_factors_over::<f64>();
    peers_report_their_factors_over::<Complex<f64>>();
}

fn peers_report_their_factors_over<T: PeerScalar>() {
    let a = matrix(turned(&convection_diffusion_2d(20, 20, 10.0)));
    with_peers(|peer: &mut dyn Peer<T>| {
        assert_eq!(peer.statistics().factor_entries, None, "no factors yet");
        peer.analyze(&a).expect("it analyzes");
        peer.factorize(&a).expect("it factorizes");
        let statistics = peer.statistics();
        if peer.name() == "faer" {
            assert_eq!(statistics.factor_entries, None);
            return;
        }
        let entries = statistics.factor_entries.expect("it tells the entries");
        assert!(
            (a.nnz() as u64..160_000).contains(&entries),
            "{}: {entries} entries",
            peer.name()
        );
        let bytes = statistics.peak_bytes.expect("it tells its memory");
        assert!(
            (size_of::<T>() as u64 * entries..1 << 30).contains(&bytes),
            "{}: {bytes} bytes",
            peer.name()
        );
        assert_eq!(statistics.inertia, None, "they are LU");
        if let Some(flops) = statistics.flops {
            // A product of complex numbers counts as up to eight operations.
            assert!(
                (1e3..8.0 * 64e6).contains(&flops),
                "{}: {flops}",
                peer.name()
            );
        }
        peer.drop_analysis();
        assert_eq!(peer.statistics().factor_entries, None, "they are freed");
    });
}

#[test]
fn steps_out_of_order_are_errors() {
    steps_out_of_order_are_errors_over::<f64>();
    steps_out_of_order_are_errors_over::<Complex<f64>>();
}

fn steps_out_of_order_are_errors_over<T: PeerScalar>() {
    let a = matrix(turned(&CsMat::eye(3)));
    let b = [T::one(); 3];
    with_peers(|peer: &mut dyn Peer<T>| {
        assert_eq!(peer.factorize(&a), Err(PeerError::OutOfOrder));
        assert_eq!(peer.solve(&mut b.clone(), 1), Err(PeerError::OutOfOrder));
        peer.analyze(&a).expect("it analyzes");
        assert_eq!(peer.solve(&mut b.clone(), 1), Err(PeerError::OutOfOrder));
        peer.factorize(&a).expect("it factorizes");
        peer.drop_factors();
        assert_eq!(peer.solve(&mut b.clone(), 1), Err(PeerError::OutOfOrder));
        peer.factorize(&a).expect("the analysis is kept");
        peer.solve(&mut b.clone(), 1).expect("it solves");
    });
}

#[test]
fn a_missing_library_is_named() {
    let nowhere = PathBuf::from("no-such-folder/libklu.so.1");
    for name in NAMES.into_iter().filter(|name| !CRATES.contains(name)) {
        let missing = Found::load(name, Some(&nowhere))
            .err()
            .expect("it is not there");
        assert!(missing.to_string().contains("no-such-folder"), "{missing}");
    }
    assert!(Found::load("nobody", None).is_err());
}

#[test]
fn a_library_of_another_layout_is_refused() {
    // A library that is there and is not KLU has no klu_defaults.
    let other = PathBuf::from("libm.so.6");
    for name in NAMES.into_iter().filter(|name| !CRATES.contains(name)) {
        let Err(missing) = Found::load(name, Some(&other)) else {
            panic!("libm was taken for {name}");
        };
        let words = missing.to_string();
        // PARDISO may lack what it needs beside its library.
        assert!(
            words.contains("libm") || words.contains("libiomp5"),
            "{words}"
        );
    }
}

/// The backward error of a solve with a known solution, and of two right-hand sides at once.
fn symmetric_errors(peer: &mut dyn Peer, a: &Matrix) -> [f64; 3] {
    assert_eq!(
        peer.solve_transpose(&mut vec![0.0; a.n()], 1),
        Err(PeerError::Unsupported),
        "it is the same solve"
    );
    let (b, _) = known_solution(a.rows());
    let mut many = [b.clone(), b.iter().map(|v| -2.0 * v).collect()].concat();
    peer.solve(&mut many, 2).expect("it solves many");
    let mut x = b.clone();
    peer.solve(&mut x, 1).expect("it solves");
    let doubled: Vec<f64> = b.iter().map(|v| -2.0 * v).collect();
    [
        normwise_backward_error(a.rows(), &x, &b),
        normwise_backward_error(a.rows(), &many[..a.n()], &b),
        normwise_backward_error(a.rows(), &many[a.n()..], &doubled),
    ]
}

fn rescaled(a: &Matrix) -> Matrix {
    a.map_symmetric_values(|value, number| value * (1.0 + 1e-3 * (number % 7) as f64))
}

/// The Laplacian less `shift` on the diagonal, and its inertia: its eigenvalues are 4 − 2·cos(iπ/(nx + 1)) − 2·cos(jπ/(ny + 1)).
fn shifted_laplacian(nx: usize, ny: usize, shift: f64) -> (CsMat<f64>, Option<[u64; 2]>) {
    let a = laplacian_2d(nx, ny).map(|&v| if v == 4.0 { v - shift } else { v });
    let cosine = |i: usize, n: usize| (i as f64 * PI / (n as f64 + 1.0)).cos();
    let all = (1..=nx).flat_map(|i| (1..=ny).map(move |j| [i, j]));
    let is_negative =
        |&[i, j]: &[usize; 2]| 4.0 - 2.0 * cosine(i, nx) - 2.0 * cosine(j, ny) < shift;
    let negative = all.filter(is_negative).count() as u64;
    (a, Some([(nx * ny) as u64 - negative, negative]))
}

#[test]
fn peers_solve_symmetric_systems_and_count_eigenvalues() {
    // 5 × 4 cells: 5·5 + 4·6 = 49 fluxes and 20 pressures.
    let darcy = (darcy(5, 4, 3), Some([49, 20]));
    let small = CsMat::new((2, 2), vec![0, 1, 2], vec![1, 0], vec![3.0, 3.0]);
    let systems = [
        darcy,
        (small, Some([1, 1])),
        (random_symmetric(60, 4, 5), None),
        (laplacian_2d(9, 8), Some([72, 0])),
        shifted_laplacian(9, 8, 1.7),
    ];
    for (a, inertia) in systems.map(|(a, inertia)| (matrix(a), inertia)) {
        with_peers_told(Structure::Symmetric, |peer: &mut dyn Peer| {
            peer.analyze(&a).expect("it analyzes");
            peer.factorize(&a).expect("it factorizes");
            let errors = symmetric_errors(peer, &a);
            let has_whole_diagonal = (0..a.n()).all(|i| a.rows().get(i, i).is_some());
            if peer.name() == "faer" && a.n() > 2 && !has_whole_diagonal {
                // It delays no pivot, and divides by the zeros there. The error alone tells.
                assert_eq!(errors, [f64::INFINITY; 3]);
                return;
            }
            assert_small(peer, &a, errors);
            let found = peer.statistics();
            let counted = found.inertia.expect("it counts");
            assert_eq!(counted[0] + counted[1], a.n() as u64, "{}", peer.name());
            if let Some(inertia) = inertia {
                assert_eq!(counted, inertia, "{}", peer.name());
            }
            let entries = found.factor_entries.expect("it tells the entries");
            assert!(entries >= a.n() as u64, "{}: {entries}", peer.name());
            let tells_memory = !["faer", "feral", "spral"].contains(&peer.name());
            assert_eq!(found.peak_bytes.is_some(), tells_memory, "{}", peer.name());
            let next = rescaled(&a);
            peer.refactorize(&next).expect("it refactorizes");
            let errors = symmetric_errors(peer, &next);
            assert_small(peer, &next, errors);
        });
    }
}

#[test]
fn peers_solve_definite_systems() {
    let a = matrix(laplacian_2d(30, 30));
    with_peers_told(Structure::Definite, |peer: &mut dyn Peer| {
        assert_eq!(peer.factorize(&a), Err(PeerError::OutOfOrder));
        peer.analyze(&a).expect("it analyzes");
        peer.factorize(&a).expect("it factorizes");
        let errors = symmetric_errors(peer, &a);
        assert_small(peer, &a, errors);
        let found = peer.statistics();
        assert!(
            found.inertia.is_none_or(|inertia| inertia == [900, 0]),
            "{}: {:?}",
            peer.name(),
            found.inertia
        );
        let entries = found.factor_entries.expect("it tells the entries");
        assert!((2_640..100_000).contains(&entries), "{entries}");
        let next = rescaled(&a);
        peer.refactorize(&next).expect("it refactorizes");
        let errors = symmetric_errors(peer, &next);
        assert_small(peer, &next, errors);
        peer.drop_factors();
        assert_eq!(peer.solve(&mut [1.0; 900], 1), Err(PeerError::OutOfOrder));
        peer.factorize(&a).expect("the analysis is kept");
        peer.drop_analysis();
        assert_eq!(peer.statistics().factor_entries, None);
    });
}

#[test]
fn peers_tell_what_is_not_definite_or_solve_it() {
    let indefinite = CsMat::new(
        (2, 2),
        vec![0, 2, 4],
        vec![0, 1, 0, 1],
        vec![1.0, 2.0, 2.0, 1.0],
    );
    let a = matrix(indefinite);
    with_peers_told(Structure::Definite, |peer: &mut dyn Peer| {
        peer.analyze(&a).expect("it analyzes");
        match peer.factorize(&a) {
            Err(PeerError::NotPositiveDefinite) => {}
            // CHOLMOD, row by row, does not look at signs, and says nothing of them.
            Ok(()) if peer.name() == "cholmod" => {
                let errors = symmetric_errors(peer, &a);
                assert_small(peer, &a, errors);
                assert_eq!(peer.statistics().inertia, None);
            }
            other => panic!("{}: {other:?}", peer.name()),
        }
    });
}

#[test]
fn peers_take_the_structures_that_they_say() {
    for name in NAMES {
        let Ok(found) = Found::load(name, None) else {
            continue;
        };
        for structure in Structure::ALL {
            let real = found.solver::<f64>(structure, 1).is_some();
            let complex = found.solver::<Complex<f64>>(structure, 1).is_some();
            assert_eq!(real, found.takes::<f64>(structure), "{name} {structure}");
            let takes_complex =
                structure == Structure::General && ["klu", "umfpack", "faer"].contains(&name);
            assert_eq!(complex, takes_complex, "{name} {structure}");
            assert_eq!(found.takes::<Complex<f64>>(structure), complex);
            assert_eq!(structure.name().parse(), Ok(structure));
        }
    }
    assert!("triangular".parse::<Structure>().is_err());
}
