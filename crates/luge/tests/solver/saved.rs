//! Analyses that were saved.

use luge::ordering::{Method, OrderingOptions};
use luge::{
    BackendChoice, DeviceEngine, Error, FactorPrecision, MatrixKind, Options, RealScalar,
    SavedError, Solver,
};
use luge_testkit::convert::to_scalar;
use luge_testkit::generators::adversaries::badly_scaled;
use luge_testkit::generators::applications::{
    circuit, circuit_sequence, convection_diffusion_2d, interior_point_kkt, laplacian_2d,
    random_unsymmetric, saddle_point,
};
use luge_testkit::residual::known_solution;
use proptest::prelude::*;
use sprs::CsMat;

fn on_cpu() -> Options {
    Options::default().backend(BackendChoice::Cpu)
}

/// The file of an analysis.
fn saved<T: RealScalar>(a: &CsMat<T>, options: &Options) -> Vec<u8> {
    let solver = Solver::new(options.clone().keep_order(true)).unwrap();
    let mut file = Vec::new();
    solver.analyze(a).unwrap().save(&mut file).unwrap();
    file
}

/// Whether a loaded analysis gives the bits of the one that was saved, and says the same of itself.
fn comes_back<T: RealScalar>(a: &CsMat<T>, options: &Options) {
    let solver = Solver::new(options.clone()).unwrap();
    let analysis = solver.analyze(a).unwrap();
    let file = saved(a, options);
    let loaded = solver.load_analysis(a, &file[..]).unwrap();
    let told = [analysis.inform(), loaded.inform()];
    assert_eq!(told[0].ordering, told[1].ordering);
    assert_eq!(told[0].num_blocks, told[1].num_blocks);
    assert_eq!((told[0].lnz, told[0].unz), (told[1].lnz, told[1].unz));
    assert_eq!(told[0].flops, told[1].flops);
    assert_eq!(
        (told[0].matched, told[0].kind),
        (told[1].matched, told[1].kind)
    );
    assert_eq!(told[1].seconds.ordering, 0.0, "nothing was ordered");
    let (b, _) = known_solution(a);
    let solutions =
        [&analysis, &loaded].map(|analysis| analysis.factorize(a).unwrap().solve(&b).unwrap().x);
    assert!(solutions[0] == solutions[1], "other bits");
    // Saved once more, it is the same file.
    let again = Solver::new(options.clone().keep_order(true)).unwrap();
    let mut file_again = Vec::new();
    again
        .load_analysis(a, &file[..])
        .unwrap()
        .save(&mut file_again)
        .unwrap();
    assert!(file == file_again);
}

#[test]
fn general_matrices_come_back() {
    let options = [
        on_cpu(),
        on_cpu().precision(FactorPrecision::Single),
        on_cpu().ordering(
            OrderingOptions::default()
                .method(Method::NestedDissection)
                .block_triangular(false),
        ),
        on_cpu().ordering(OrderingOptions::default().method(Method::Natural)),
    ];
    for a in [
        circuit(200, 3),
        random_unsymmetric(150, 3, 5),
        convection_diffusion_2d(20, 20, 10.0),
        badly_scaled(60, 9.0, 1),
        CsMat::eye(1),
        CsMat::eye(0),
    ] {
        for options in &options {
            comes_back(&a, options);
        }
        comes_back(&to_scalar::<f32>(&a), &options[0]);
    }
}

#[test]
fn symmetric_matrices_come_back_with_their_pairs() {
    for a in [saddle_point(80, 30, 2), interior_point_kkt(60, 20, 1e-4, 3)] {
        comes_back(&a, &on_cpu().kind(MatrixKind::Symmetric));
        comes_back(&a, &on_cpu().kind(MatrixKind::Auto));
    }
    let definite = laplacian_2d(15, 15);
    for kind in [
        MatrixKind::PositiveDefinite,
        MatrixKind::Auto,
        MatrixKind::General,
    ] {
        comes_back(&definite, &on_cpu().kind(kind));
    }
    let natural = OrderingOptions::default().method(Method::Natural);
    comes_back(
        &definite,
        &on_cpu().kind(MatrixKind::Symmetric).ordering(natural),
    );
}

#[test]
fn analyses_for_devices_come_back() {
    for engine in [DeviceEngine::Tree, DeviceEngine::Columns] {
        let options = Options::default()
            .backend(BackendChoice::Simulator { seed: 2 })
            .device_engine(engine);
        comes_back(&circuit(30, 3), &options);
    }
    let options = Options::default()
        .backend(BackendChoice::Simulator { seed: 2 })
        .kind(MatrixKind::Symmetric);
    comes_back(&saddle_point(20, 8, 2), &options);
    // The order for a device serves the CPU.
    let a = circuit(30, 3);
    let file = saved(
        &a,
        &Options::default().backend(BackendChoice::Simulator { seed: 2 }),
    );
    let analysis = Solver::new(on_cpu())
        .unwrap()
        .load_analysis(&a, &file[..])
        .unwrap();
    let (b, x) = known_solution(&a);
    let found = analysis.factorize(&a).unwrap().solve(&b).unwrap().x;
    assert!(
        found
            .iter()
            .zip(&x)
            .all(|(found, x)| (found - x).abs() <= 1e-6 * x.abs())
    );
}

#[test]
fn other_values_and_the_other_storage_are_taken() {
    let sequence = circuit_sequence(60, 4, 2);
    let file = saved(&sequence[0], &on_cpu());
    let solver = Solver::new(on_cpu()).unwrap();
    let (b, _) = known_solution(&sequence[1]);
    for a in [sequence[1].clone(), sequence[1].to_csc()] {
        let loaded = solver.load_analysis(&a, &file[..]).unwrap();
        let x = loaded.factorize(&a).unwrap().solve(&b).unwrap().x;
        let first = if a.is_csr() {
            sequence[0].clone()
        } else {
            sequence[0].to_csc()
        };
        let expected = solver.analyze(&first).unwrap().factorize(&a).unwrap();
        assert!(
            x == expected.solve(&b).unwrap().x,
            "by rows: {}",
            a.is_csr()
        );
    }
    // What was analyzed without values scales each matrix for its own ones, also when it was saved in between.
    let a = badly_scaled(60, 9.0, 1);
    let keeps = Solver::new(on_cpu().keep_order(true)).unwrap();
    let analysis = keeps.analyze_pattern::<f64, _>(&a).unwrap();
    let mut file = Vec::new();
    analysis.save(&mut file).unwrap();
    let loaded = solver.load_analysis(&a, &file[..]).unwrap();
    let (b, _) = known_solution(&a);
    let solutions =
        [&analysis, &loaded].map(|analysis| analysis.factorize(&a).unwrap().solve(&b).unwrap().x);
    assert!(solutions[0] == solutions[1]);
}

#[track_caller]
fn refused<T: RealScalar>(a: &CsMat<T>, options: Options, file: &[u8]) -> SavedError {
    match Solver::new(options).unwrap().load_analysis(a, file) {
        Err(Error::Saved(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was loaded"),
    }
}

#[test]
fn what_is_for_something_else_is_refused() {
    let a = random_unsymmetric(40, 3, 7);
    let file = saved(&a, &on_cpu());
    let analysis = Solver::new(on_cpu()).unwrap().analyze(&a).unwrap();
    let unkept = analysis.save(Vec::new()).unwrap_err();
    assert!(matches!(unkept, Error::Saved(SavedError::NotKept)));

    // Another size; and the same size with one entry elsewhere.
    let other = random_unsymmetric(41, 3, 7);
    assert!(matches!(
        refused(&other, on_cpu(), &file),
        SavedError::OtherPattern {
            saved: (40, _),
            given: (41, _)
        }
    ));
    let (ptr, mut idx, values) = a.clone().into_raw_storage();
    let row = (0..40)
        .find(|&i| idx[ptr[i + 1] - 1] + 1 < 40)
        .expect("there is room");
    idx[ptr[row + 1] - 1] += 1;
    let moved = CsMat::new((40, 40), ptr, idx, values);
    assert!(matches!(
        refused(&moved, on_cpu(), &file),
        SavedError::OtherPattern { .. }
    ));

    let single = to_scalar::<f32>(&a);
    let expected = SavedError::OtherScalar {
        saved: "f64",
        given: "f32",
    };
    assert_eq!(refused(&single, on_cpu(), &file), expected);
    let unscaled = on_cpu().ordering(OrderingOptions::default().scaling(false));
    assert_eq!(
        refused(&a, unscaled, &file).to_string(),
        "it was made with ordering.scaling true; here it is false"
    );
    let symmetric = laplacian_2d(6, 6);
    let general = saved(&symmetric, &on_cpu());
    let definite = on_cpu().kind(MatrixKind::PositiveDefinite);
    assert_eq!(
        refused(&symmetric, definite, &general).to_string(),
        "it was made with kind General; here it is Definite"
    );

    let mut version = file.clone();
    version[12] = 2;
    assert_eq!(
        refused(&a, on_cpu(), &version),
        SavedError::OtherVersion { found: 2, known: 1 }
    );
    assert_eq!(
        refused(&a, on_cpu(), b"%%MatrixMarket matrix coordinate"),
        SavedError::NotAnAnalysis
    );
    assert_eq!(refused(&a, on_cpu(), &[]), SavedError::Truncated);
    for len in (0..file.len())
        .step_by(7)
        .chain([27, 28, 29, file.len() - 1])
    {
        assert_eq!(
            refused(&a, on_cpu(), &file[..len]),
            SavedError::Truncated,
            "{len}"
        );
    }
    // Nothing is allocated for what is not there.
    let mut huge = file.clone();
    huge[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(refused(&a, on_cpu(), &huge), SavedError::Truncated);
    struct Broken;
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let keeps = Solver::new(on_cpu().keep_order(true)).unwrap();
    let error = keeps.analyze(&a).unwrap().save(Broken).unwrap_err();
    assert_eq!(error.to_string(), "saved file: the disk is full");
}

proptest! {
    #[test]
    fn no_damage_goes_unnoticed(at in any::<prop::sample::Index>(), flip in 1u8..) {
        let a = random_unsymmetric(20, 3, 7);
        let mut file = saved(&a, &on_cpu());
        let at = at.index(file.len());
        file[at] ^= flip;
        let outcome = Solver::new(on_cpu()).unwrap().load_analysis(&a, &file[..]);
        prop_assert!(matches!(outcome, Err(Error::Saved(_))), "byte {}", at);
    }
}
