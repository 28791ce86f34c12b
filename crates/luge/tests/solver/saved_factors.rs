//! Factors that were saved.

use luge::ordering::{Matching, Method, OrderingOptions};
use luge::sprs::{CsMat, TriMat};
use luge::{
    BackendChoice, CancelFlag, CpuEngine, Error, FactorPrecision, Factors, MatrixKind, Options,
    PatternRef, Pivoting, RealScalar, Refactorized, Regularization, SavedError, Scalar,
    SingularAction, Solver,
};
use luge_sparse::Form;
use luge_testkit::convert::{to_scalar, turned, turned_in_form};
use luge_testkit::generators::adversaries::{badly_scaled, needs_other_rows, tiny_diagonal};
use luge_testkit::generators::applications::{
    circuit, convection_diffusion_2d, interior_point_kkt, laplacian_2d, random_unsymmetric,
    saddle_point, staged_columns,
};
use luge_testkit::residual::known_solution;
use num_complex::Complex;
use proptest::prelude::*;

fn on_cpu() -> Options {
    Options::default()
        .backend(BackendChoice::Cpu)
        .threads(Some(2))
}

fn factorize<T: Scalar>(a: &CsMat<T>, options: &Options) -> Factors<T> {
    let solver = Solver::new(options.clone()).unwrap();
    solver.analyze(a).unwrap().factorize(a).unwrap()
}

fn saved<T: Scalar>(factors: &Factors<T>) -> Vec<u8> {
    let mut file = Vec::new();
    factors.save(&mut file).unwrap();
    file
}

/// Whether two factorizations give the same bits in all that they can be asked for.
#[track_caller]
fn assert_same<T: Scalar>(a: &CsMat<T>, first: &Factors<T>, second: &Factors<T>) {
    let (b, _) = known_solution(a);
    let many = [b.clone(), vec![T::zero(); b.len()], b.clone()].concat();
    let in_place = |factors: &Factors<T>, transpose: bool| {
        let mut x = b.clone();
        let accuracy = if transpose {
            factors.solve_transpose_in_place(&mut x)
        } else {
            factors.solve_in_place(&mut x)
        };
        (x, accuracy.unwrap().backward_error.map(f64::to_bits))
    };
    let both = [first, second];
    let [x, y] = both.map(|factors| factors.solve(&b).unwrap());
    assert!(x.x == y.x, "solve");
    assert_eq!(x.inform.backward_error, y.inform.backward_error);
    assert_eq!(x.inform.refinement_steps, y.inform.refinement_steps);
    let [x, y] = both.map(|factors| factors.solve_transpose(&b).unwrap().x);
    assert!(x == y, "solve_transpose");
    let [x, y] = both.map(|factors| factors.solve_many(&many, 3).unwrap().x);
    assert!(x == y, "solve_many");
    for transpose in [false, true] {
        if !b.is_empty() {
            let [x, y] = both.map(|factors| in_place(factors, transpose));
            assert!(x == y, "in place, transpose {transpose}");
        }
    }
    let [x, y] = both.map(|factors| factors.inertia());
    assert_eq!(x, y);
    let [x, y] = both.map(|factors| factors.perturbed_columns());
    assert_eq!(x, y);
    let [x, y] = both.map(|factors| format!("{:?}", factors.determinant().unwrap()));
    assert_eq!(x, y);
    let [x, y] = both.map(|factors| factors.rcond().unwrap().to_bits());
    assert_eq!(x, y);
    let [x, y] = both.map(|factors| {
        // Seconds differ, memory is what was needed on the way, and warnings tell of the search for the pivots.
        let mut told = factors.inform().clone();
        told.seconds = Default::default();
        told.peak_host_bytes = 0;
        told.predicted_host_bytes = None;
        told.predicted_seconds = None;
        told.warnings.clear();
        format!("{told:?}")
    });
    assert_eq!(x, y);
}

/// Saves factors and loads them, and looks whether they are what they were: at once, after a refactorization, after one that
/// is refused, and when they are saved once more.
#[track_caller]
fn come_back<T: Scalar>(a: &CsMat<T>, options: &Options, mut factors: Factors<T>) -> Factors<T> {
    let file = saved(&factors);
    let solver = Solver::new(options.clone()).unwrap();
    let mut loaded = solver.load_factors(a, &file[..]).unwrap();
    assert_same(a, &factors, &loaded);
    assert!(file == saved(&loaded), "saved again, it is another file");

    // The same values have the same bits, and so have others.
    assert!(loaded.refactorize(a).is_ok());
    assert!(factors.refactorize(a).is_ok());
    assert_same(a, &factors, &loaded);
    let others = a.map(|v| {
        // By the value, so that a symmetric matrix stays one.
        let part = (v.magnitude().to_f64().to_bits() >> 30) % 7;
        v.scaled_by(T::Real::from_f64(1.0 + 1e-4 * part as f64))
    });
    let outcomes = [factors.refactorize(&others), loaded.refactorize(&others)];
    let [first, second] = outcomes.map(|outcome| outcome.map_err(|error| error.to_string()));
    assert_eq!(first, second);
    assert_same(a, &factors, &loaded);
    let zeros = a.map(|_| T::zero());
    let outcomes = [factors.refactorize(&zeros), loaded.refactorize(&zeros)];
    assert_eq!(outcomes[0].is_err(), outcomes[1].is_err());
    if outcomes[0].is_err() {
        assert_same(a, &factors, &loaded);
    }
    // What was refactorized is saved as well.
    let file = saved(&factors);
    let again = solver
        .load_factors_of_pattern(PatternRef::from(a), &file[..])
        .unwrap();
    assert_same(a, &factors, &again);
    again
}

#[track_caller]
fn comes_back<T: Scalar>(a: &CsMat<T>, options: &Options) {
    come_back(a, options, factorize(a, options));
}

/// As callers store it, or for complex numbers with entries turned.
fn in_all_types(a: &CsMat<f64>, options: &Options) {
    comes_back(a, options);
    comes_back(&to_scalar::<f32>(a), options);
    comes_back(&turned::<Complex<f64>>(a), options);
    comes_back(&turned::<Complex<f32>>(a), options);
}

#[test]
fn factors_by_columns_come_back() {
    let options = on_cpu().engine(CpuEngine::Columns);
    for a in [
        circuit(200, 3),
        random_unsymmetric(150, 3, 5),
        CsMat::eye(3),
    ] {
        in_all_types(&a, &options);
    }
    let code_path = factorize(&circuit(200, 3), &options)
        .inform()
        .code_path
        .clone();
    assert!(
        code_path.contains(&"numeric: left-looking columns"),
        "{code_path:?}"
    );
    comes_back(&circuit(200, 3).to_csc(), &options);
    comes_back(
        &circuit(200, 3),
        &options.clone().precision(FactorPrecision::Single),
    );
    comes_back(&CsMat::<f64>::eye(0), &options);
    // Rows that move out of their places, and several blocks.
    let moved = needs_other_rows(60, 1e-9);
    let never = OrderingOptions::default().matching(Matching::Never);
    let partial = Pivoting::Threshold { threshold: 1.0 };
    let options = options.ordering(never).pivoting(partial);
    assert!(factorize(&moved, &options).inform().num_off_diagonal > Some(0));
    comes_back(&moved, &options);
    comes_back(&staged_columns(3, 12, 3, 1), &options);
}

#[test]
fn factors_in_fronts_come_back() {
    let options = on_cpu().engine(CpuEngine::Fronts);
    for a in [
        convection_diffusion_2d(14, 13, 10.0),
        random_unsymmetric(120, 3, 5),
    ] {
        in_all_types(&a, &options);
    }
    comes_back(
        &convection_diffusion_2d(14, 13, 10.0).to_csc(),
        &options.clone().precision(FactorPrecision::Single),
    );
    // Columns that are delayed, over several fronts.
    let never = OrderingOptions::default().matching(Matching::Never);
    let delaying = options
        .clone()
        .ordering(never)
        .pivoting(Pivoting::Threshold { threshold: 1.0 });
    for a in [random_unsymmetric(200, 4, 9), tiny_diagonal(150, 1e-9, 3)] {
        let factors = factorize(&a, &delaying);
        assert!(
            factors.inform().num_delay > Some(0),
            "{:?}",
            factors.inform().num_delay
        );
        come_back(&a, &delaying, factors);
        comes_back(&turned::<Complex<f64>>(&a), &delaying);
    }
    // Both engines, and entries above the blocks.
    comes_back(&staged_columns(4, 20, 3, 1), &options);
    comes_back(&staged_columns(4, 20, 3, 1), &on_cpu());
}

#[test]
fn factors_of_symmetric_matrices_come_back() {
    let symmetric = on_cpu().kind(MatrixKind::Symmetric);
    for a in [saddle_point(80, 30, 2), interior_point_kkt(60, 20, 1e-4, 3)] {
        comes_back(&a, &symmetric);
        comes_back(&to_scalar::<f32>(&a), &symmetric);
        comes_back(&a, &on_cpu().kind(MatrixKind::Auto));
        comes_back(&a, &symmetric.clone().precision(FactorPrecision::Single));
        comes_back(&triangle(&a), &symmetric);
        comes_back(&triangle(&a).to_csc(), &symmetric);
    }
    let definite = laplacian_2d(15, 15);
    for kind in [
        MatrixKind::PositiveDefinite,
        MatrixKind::Auto,
        MatrixKind::General,
    ] {
        comes_back(&definite, &on_cpu().kind(kind));
    }
    comes_back(&CsMat::<f64>::eye(5), &on_cpu().kind(MatrixKind::Auto));
    // Zeros on the diagonal that come first are delayed.
    let a = saddle_point(60, 40, 5);
    let order: Vec<u32> = (0..a.rows() as u32).rev().collect();
    let method = Method::User {
        rows: luge::RowPerm::new(order.clone()).unwrap(),
        cols: luge::ColPerm::new(order).unwrap(),
    };
    let delaying = symmetric.clone().ordering(
        OrderingOptions::default()
            .method(method)
            .matching(Matching::Never),
    );
    let factors = factorize(&a, &delaying);
    assert!(
        factors.inform().num_delay > Some(0),
        "{:?}",
        factors.inform().num_delay
    );
    let inertia = factors.inertia().unwrap();
    assert_eq!((inertia.positive, inertia.negative), (60, 40));
    let again = come_back(&a, &delaying, factors);
    assert_eq!(again.inertia(), Some(inertia));
    // Delays that are limited, with pivots that are replaced; and signs that are expected.
    let limited = delaying.max_delays(Some(0));
    let factors = factorize(&a, &limited);
    assert!(
        factors
            .perturbed_columns()
            .is_some_and(|columns| !columns.is_empty())
    );
    come_back(&a, &limited, factors);
    let signs = (0..100)
        .map(|i| if i < 60 { 1 } else { -1 })
        .collect::<Vec<i8>>();
    let signed = symmetric
        .clone()
        .regularization(Some(Regularization::new(signs, 1e-6)));
    comes_back(&a, &signed);
    // A singular matrix that was gone on with.
    let mut singular = TriMat::new((6, 6));
    for i in 0..6 {
        let next = (i + 1) % 6;
        singular.add_triplet(i, i, 2.0);
        singular.add_triplet(i, next, -1.0);
        singular.add_triplet(next, i, -1.0);
    }
    let singular: CsMat<f64> = singular.to_csr();
    let goes_on = symmetric.singular(SingularAction::Continue);
    let factors = factorize(&singular, &goes_on);
    assert_eq!(factors.inertia().unwrap().zero, 1);
    come_back(&singular, &goes_on, factors);
}

#[test]
fn factors_of_complex_symmetric_and_hermitian_matrices_come_back() {
    let forms = [
        (Form::Symmetric, MatrixKind::Symmetric),
        (Form::Hermitian, MatrixKind::Hermitian),
    ];
    let real = saddle_point(60, 25, 2);
    for (form, kind) in forms {
        let options = on_cpu().kind(kind);
        let a = turned_in_form::<Complex<f64>>(&real, form);
        comes_back(&a, &options);
        comes_back(&a, &on_cpu().kind(MatrixKind::Auto));
        comes_back(&a, &options.clone().precision(FactorPrecision::Single));
        comes_back(&triangle(&a), &options);
        comes_back(&triangle(&a).to_csc(), &options);
        // Whichever triangle it was, and by rows or columns, the whole is taken for it.
        let solver = Solver::new(options.clone()).unwrap();
        for half in [triangle(&a), triangle(&a).to_csc()] {
            let file = saved(&factorize(&half, &options));
            assert!(saved(&solver.load_factors(&a, &file[..]).unwrap()) == file);
            let whole = saved(&factorize(&a.to_csc(), &options));
            assert!(saved(&solver.load_factors(&half, &whole[..]).unwrap()) == whole);
        }
        comes_back(&turned_in_form::<Complex<f32>>(&real, form), &options);
        // Zeros on the diagonal that come first are delayed.
        let order: Vec<u32> = (0..a.rows() as u32).rev().collect();
        let method = Method::User {
            rows: luge::RowPerm::new(order.clone()).unwrap(),
            cols: luge::ColPerm::new(order).unwrap(),
        };
        let ordering = OrderingOptions::default().matching(Matching::Never);
        let delaying = options.ordering(ordering.method(method));
        let factors = factorize(&a, &delaying);
        assert!(factors.inform().num_delay > Some(0));
        let inertia = factors.inertia();
        assert_eq!(inertia.is_some(), form == Form::Hermitian);
        let again = come_back(&a, &delaying, factors);
        assert_eq!(again.inertia(), inertia);
    }
    let definite = turned_in_form::<Complex<f64>>(&laplacian_2d(9, 8), Form::Hermitian);
    comes_back(&definite, &on_cpu().kind(MatrixKind::PositiveDefinite));
    // What counterparts were is a part of what the factors are for.
    let [symmetric, hermitian] = forms.map(|(form, kind)| {
        let a = turned_in_form::<Complex<f64>>(&real, form);
        let lower = triangle(&a);
        let file = saved(&factorize(&lower, &on_cpu().kind(kind)));
        (lower, file)
    });
    let expected = |saved: &str, given: &str| SavedError::OtherOption {
        option: "kind",
        saved: saved.to_owned(),
        given: given.to_owned(),
    };
    let error = refused(
        &symmetric.0,
        on_cpu().kind(MatrixKind::Hermitian),
        &symmetric.1,
    );
    assert_eq!(error, expected("Symmetric", "Hermitian"));
    let error = refused(
        &hermitian.0,
        on_cpu().kind(MatrixKind::Symmetric),
        &hermitian.1,
    );
    assert_eq!(error, expected("Hermitian", "Symmetric"));
    // Signs that are expected.
    let signs = (0..real.rows()).map(|i| if i < 60 { 1 } else { -1 });
    let regularization = Regularization::new(signs.collect::<Vec<i8>>(), 1e-6);
    let signed = on_cpu().kind(MatrixKind::Hermitian);
    comes_back(&hermitian.0, &signed.regularization(Some(regularization)));
}

/// The lower triangle.
fn triangle<T: Scalar>(a: &CsMat<T>) -> CsMat<T> {
    let mut lower = TriMat::new(a.shape());
    for (&v, (i, j)) in a.iter().filter(|(_, (i, j))| j <= i) {
        lower.add_triplet(i, j, v);
    }
    lower.to_csr()
}

#[test]
fn factors_on_another_order_or_scaling_than_the_analysis_come_back() {
    // Found by a remedy, with rows matched anew.
    let values = |a: &CsMat<f64>| {
        let solver = Solver::new(on_cpu()).unwrap();
        let analysis = solver.analyze_pattern::<f64, _>(a).unwrap();
        analysis.factorize(a).unwrap()
    };
    // Each matrix that was analyzed without values is scaled for its own.
    let a = badly_scaled(60, 9.0, 1);
    come_back(&a, &on_cpu(), values(&a));
    come_back(&permuted(&a), &on_cpu(), values(&permuted(&a)));
    // Pivots that do not serve are searched anew, and the order is another one.
    let a = circuit(80, 3);
    let mut factors = factorize(&a, &on_cpu());
    let mut others = a.clone();
    for (row, mut line) in others.outer_iterator_mut().enumerate() {
        let scale = if row % 3 == 0 { 1e-13 } else { 1.0 };
        line.iter_mut().for_each(|(_, v)| *v *= scale);
    }
    let outcome = factors.refactorize(&others).unwrap();
    assert!(
        matches!(outcome, Refactorized::Repivoted { .. }),
        "{outcome:?}"
    );
    come_back(&others, &on_cpu(), factors);
}

/// The rows in the opposite order.
fn permuted(a: &CsMat<f64>) -> CsMat<f64> {
    let mut turned = TriMat::new(a.shape());
    for (&v, (i, j)) in a {
        turned.add_triplet(a.rows() - 1 - i, j, v);
    }
    turned.to_csr()
}

#[test]
fn the_other_storage_is_taken_and_other_threads() {
    let a = random_unsymmetric(90, 4, 3);
    let factors = factorize(&a, &on_cpu());
    let file = saved(&factors);
    let one = Solver::new(on_cpu().threads(Some(1))).unwrap();
    let loaded = one.load_factors(&a.to_csc(), &file[..]).unwrap();
    let (b, _) = known_solution(&a);
    let mut solutions = [b.clone(), b];
    factors.solve_in_place(&mut solutions[0]).unwrap();
    loaded.solve_in_place(&mut solutions[1]).unwrap();
    assert!(solutions[0] == solutions[1]);
    // What was saved from the other storage is the same file but for nothing.
    let by_columns = one
        .load_factors_of_pattern::<f64, _>(&a.to_csc(), &file[..])
        .unwrap();
    assert!(saved(&by_columns) == file);
    // A whole matrix for a triangle.
    let a = saddle_point(30, 10, 4);
    let options = on_cpu().kind(MatrixKind::Symmetric);
    let file = saved(&factorize(&triangle(&a), &options));
    let solver = Solver::new(options).unwrap();
    assert!(saved(&solver.load_factors(&a, &file[..]).unwrap()) == file);
}

#[track_caller]
fn refused<T: Scalar>(a: &CsMat<T>, options: Options, file: &[u8]) -> SavedError {
    match Solver::new(options).unwrap().load_factors(a, file) {
        Err(Error::Saved(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("they were loaded"),
    }
}

#[test]
fn factors_for_something_else_are_refused() {
    let a = random_unsymmetric(40, 3, 7);
    let file = saved(&factorize(&a, &on_cpu()));
    let other = random_unsymmetric(41, 3, 7);
    assert!(matches!(
        refused(&other, on_cpu(), &file),
        SavedError::OtherPattern {
            saved: (40, _),
            given: (41, _)
        }
    ));
    let (row, column) = (17, a.outer_view(17).unwrap().indices()[1]);
    let mut changed = a.clone();
    *changed.get_mut(row, column).unwrap() *= 1.0 + f64::EPSILON;
    let expected = SavedError::OtherValues { row, column };
    assert_eq!(refused(&changed, on_cpu(), &file), expected);
    assert_eq!(refused(&changed.to_csc(), on_cpu(), &file), expected);

    let expected = SavedError::OtherScalar {
        saved: "f64",
        given: "f32",
    };
    assert_eq!(refused(&to_scalar::<f32>(&a), on_cpu(), &file), expected);
    let expected = SavedError::OtherScalar {
        saved: "f64",
        given: "complex f64",
    };
    assert_eq!(
        refused(&turned::<Complex<f64>>(&a), on_cpu(), &file),
        expected
    );
    let given = [
        (
            on_cpu().precision(FactorPrecision::Single),
            "precision",
            "double",
            "single",
        ),
        (
            on_cpu().pivoting(Pivoting::Threshold { threshold: 0.5 }),
            "pivoting",
            "Auto",
            "Threshold { threshold: 0.5 }",
        ),
        (
            on_cpu().singular(SingularAction::Continue),
            "singular",
            "Refuse",
            "Continue",
        ),
        (
            on_cpu().kind(MatrixKind::Symmetric),
            "kind",
            "General",
            "Symmetric",
        ),
        (
            on_cpu().ordering(OrderingOptions::default().scaling(false)),
            "ordering.scaling",
            "true",
            "false",
        ),
    ];
    for (options, option, saved, given) in given {
        let (saved, given) = (saved.to_owned(), given.to_owned());
        let expected = SavedError::OtherOption {
            option,
            saved,
            given,
        };
        assert_eq!(refused(&a, options, &file), expected);
    }
    let definite = laplacian_2d(5, 5);
    let symmetric = on_cpu().kind(MatrixKind::PositiveDefinite);
    let of_definite = saved(&factorize(&definite, &symmetric));
    let error = refused(&definite, on_cpu(), &of_definite).to_string();
    assert_eq!(
        error,
        "it was made with kind PositiveDefinite; here it is General"
    );
    let of_auto = saved(&factorize(&definite, &on_cpu().kind(MatrixKind::Auto)));
    let error = refused(&definite, on_cpu(), &of_auto).to_string();
    assert_eq!(error, "it was made with kind Auto; here it is General");
    let signs = |sign: i8| {
        let regularization = Regularization::new(vec![sign; 25], 1e-6);
        on_cpu()
            .kind(MatrixKind::Symmetric)
            .regularization(Some(regularization))
    };
    let signed = saved(&factorize(&definite, &signs(1)));
    assert!(matches!(
        refused(&definite, signs(-1), &signed),
        SavedError::OtherOption {
            option: "regularization",
            ..
        }
    ));

    let mut version = file.clone();
    version[12] = 2;
    assert_eq!(
        refused(&a, on_cpu(), &version),
        SavedError::OtherVersion { found: 2, known: 1 }
    );
    let analysis = Solver::new(on_cpu().keep_order(true))
        .unwrap()
        .analyze(&a)
        .unwrap();
    let mut order = Vec::new();
    analysis.save(&mut order).unwrap();
    assert_eq!(refused(&a, on_cpu(), &order), SavedError::NotFactors);
    assert_eq!(
        refused(&a, on_cpu(), b"%%MatrixMarket matrix").to_string(),
        "the file has no saved factors"
    );
    let step = file.len() / 500 + 1;
    for len in (0..file.len()).step_by(step).chain([file.len() - 1]) {
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
    // What stands behind the factors is left alone.
    let mut more = &[&file[..], b"more"].concat()[..];
    Solver::new(on_cpu())
        .unwrap()
        .load_factors(&a, &mut more)
        .unwrap();
    assert_eq!(more, b"more");
}

#[test]
fn factors_on_a_device_are_not_saved_nor_loaded_there() {
    let a = circuit(30, 3);
    let simulated = Options::default().backend(BackendChoice::Simulator { seed: 2 });
    let error = factorize(&a, &simulated).save(Vec::new()).unwrap_err();
    assert!(
        matches!(error, Error::Saved(SavedError::OnDevice)),
        "{error}"
    );
    let file = saved(&factorize(&a, &on_cpu()));
    assert!(matches!(
        refused(&a, simulated, &file),
        SavedError::OtherOption {
            option: "backend",
            ..
        }
    ));
}

#[test]
fn limits_hold_for_files() {
    let a = convection_diffusion_2d(30, 30, 10.0);
    let factors = factorize(&a, &on_cpu().engine(CpuEngine::Fronts));
    let file = saved(&factors);
    let limited = |bytes: u64| {
        let solver = Solver::new(on_cpu().max_host_bytes(Some(bytes))).unwrap();
        solver.load_factors(&a, &file[..])
    };
    let held = factors.inform().peak_host_bytes;
    // What a solver takes for itself, and half of the factors.
    let few = limited((256 << 10) + held / 2);
    assert!(matches!(few, Err(Error::OutOfMemory { phase, .. }) if phase != "setup"));
    assert!(limited(4 * held + (1 << 20)).is_ok());
    let cancel = CancelFlag::new();
    cancel.cancel();
    let solver = Solver::new(on_cpu().cancel(cancel.clone())).unwrap();
    assert!(matches!(
        solver.load_factors(&a, &file[..]),
        Err(Error::Cancelled(_))
    ));
    struct Broken;
    impl std::io::Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is full"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = factors.save(Broken).unwrap_err();
    assert_eq!(error.to_string(), "saved file: the disk is full");
}

/// Small matrices with everything that a file may have: columns and fronts, delayed ones, L·D·Lᵀ with a list of pivots.
fn small(case: usize) -> (CsMat<f64>, Options) {
    let never = OrderingOptions::default().matching(Matching::Never);
    let partial = Pivoting::Threshold { threshold: 1.0 };
    match case {
        0 => (
            random_unsymmetric(14, 3, 7),
            on_cpu().engine(CpuEngine::Columns),
        ),
        1 => (
            random_unsymmetric(40, 4, 9),
            on_cpu()
                .engine(CpuEngine::Fronts)
                .ordering(never)
                .pivoting(partial),
        ),
        2 => (saddle_point(12, 5, 2), on_cpu().kind(MatrixKind::Symmetric)),
        _ => {
            let a = saddle_point(20, 12, 5);
            let order: Vec<u32> = (0..a.rows() as u32).rev().collect();
            let method = Method::User {
                rows: luge::RowPerm::new(order.clone()).unwrap(),
                cols: luge::ColPerm::new(order).unwrap(),
            };
            let ordering = never.method(method);
            let options = on_cpu().kind(MatrixKind::Symmetric).ordering(ordering);
            (a, options.max_delays(Some(1)))
        }
    }
}

/// Makes both checksums those of the contents.
fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    let head = u64::from_le_bytes(file[16..24].try_into().unwrap()) as usize;
    let end = file.len() - 4;
    for at in [24 + head, end] {
        let checksum = crc32fast::hash(&file[..at]);
        file[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    }
    file
}

#[test]
fn a_hermitian_matrix_with_a_complex_diagonal_is_no_file_of_factors() {
    let a = turned_in_form::<Complex<f64>>(&saddle_point(12, 5, 2), Form::Hermitian);
    assert_eq!(a.indices()[0], 0, "the first entry is on the diagonal");
    let options = on_cpu().kind(MatrixKind::Hermitian);
    for stored in [a.clone(), triangle(&a), triangle(&a).to_csc()] {
        let mut file = saved(&factorize(&stored, &options));
        let head = u64::from_le_bytes(file[16..24].try_into().unwrap()) as usize;
        // Behind the checksum of the head, the number of values and the real part of the first.
        let at = 24 + head + 4 + 8 + 8;
        let imaginary = at..at + 8;
        assert_eq!(file[imaginary.clone()], 0f64.to_le_bytes());
        file[imaginary].copy_from_slice(&1f64.to_le_bytes());
        let error = refused(&stored, options.clone(), &sealed(file));
        let what = "values of the matrix";
        assert_eq!(error, SavedError::Damaged { what });
    }
}

#[test]
fn any_byte_that_is_damaged_is_noticed() {
    for case in 0..4 {
        let (a, options) = small(case);
        let file = saved(&factorize(&a, &options));
        assert!(sealed(file.clone()) == file);
        let solver = Solver::new(options.threads(Some(1))).unwrap();
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << (at % 8);
            let outcome = solver.load_factors(&a, &damaged[..]);
            let is_noticed = match &outcome {
                Err(Error::Saved(_)) => true,
                // A length that no memory is reserved for.
                Err(Error::OutOfMemory { .. }) => true,
                _ => false,
            };
            assert!(is_noticed, "case {case}, byte {at}: {outcome:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Whatever a file says that has the right checksums: it is refused, or solves and refactorizations stay within their memory.
    #[test]
    fn no_file_leads_out_of_bounds(
        case in 0..4usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (a, options) = small(case);
        let file = saved(&factorize(&a, &options));
        let head = u64::from_le_bytes(file[16..24].try_into().unwrap()) as usize;
        let mut damaged = file.clone();
        for (at, byte) in changes {
            // Magic, version and the length of the head are others' matter.
            let at = 24 + at.index(file.len() - 24);
            if !(24 + head..28 + head).contains(&at) {
                damaged[at] = byte;
            }
        }
        let solver = Solver::new(options).unwrap();
        let loaded = solver.load_factors_of_pattern::<f64, _>(&a, &sealed(damaged)[..]);
        if let Ok(mut factors) = loaded {
            let (b, _) = known_solution(&a);
            let _ = factors.solve(&b);
            let _ = factors.solve_transpose(&b);
            let _ = factors.inform();
            let _ = factors.determinant();
            let _ = factors.refactorize(&a);
            let _ = factors.solve(&b);
        }
    }
}
