//! Every file of the corpus up to order 600, and every degenerate one, gives what it must.

use luge::{BackendChoice, Error, MatrixKind, Options, Scalar, Solver};
use luge_matrix_io::{MatrixData, ReadErrorKind};
use luge_testkit::corpus::{Corpus, Entry, Expectation, Group, Refusal};
use luge_testkit::residual::{known_solution, normwise_backward_error};
use nalgebra::DMatrix;
use sprs::CsMat;

/// Backward error that every solvable matrix must reach.
const TARGET: f64 = 1e-12;

/// What was made of a file, in the terms of [`Expectation`], or a description of something else.
fn outcome(entry: &Entry) -> Result<Expectation, String> {
    outcome_as(entry, MatrixKind::General)
}

/// The same of a matrix that is said to be of a kind.
fn outcome_as(entry: &Entry, kind: MatrixKind) -> Result<Expectation, String> {
    let matrix = match entry.read() {
        Ok(matrix) => matrix,
        Err(error) => {
            return match error.kind {
                ReadErrorKind::Io { .. } => Ok(Expectation::IoError),
                ReadErrorKind::IndexOverflow { .. } => Ok(Expectation::TooLarge),
                ReadErrorKind::Parse { .. } => Ok(Expectation::ParseError),
                other => Err(format!("read error {other}")),
            };
        }
    };
    match matrix.data {
        MatrixData::Real(a) => outcome_of(&a, kind),
        MatrixData::Complex(a) => outcome_of(&a, kind),
        MatrixData::Pattern(_) => Ok(Expectation::Refused(Refusal::Pattern)),
    }
}

fn outcome_of<T: Scalar>(a: &CsMat<T>, kind: MatrixKind) -> Result<Expectation, String> {
    let (rows, cols) = a.shape();
    let options = Options::default()
        .backend(BackendChoice::Cpu)
        .kind(kind)
        .target_backward_error(Some(TARGET));
    let (b, _) = known_solution(a);
    let solved = Solver::new(options)
        .and_then(|solver| solver.analyze(a))
        .and_then(|analysis| analysis.factorize(a))
        .and_then(|factors| factors.solve(&b));
    match solved {
        Ok(solution) => {
            let error = solution.inform.backward_error.unwrap_or(f64::NAN);
            if error <= TARGET {
                Ok(Expectation::Solves)
            } else {
                Err(format!("backward error {error:e}"))
            }
        }
        Err(Error::NotSquare { .. }) if rows != cols => {
            Ok(Expectation::Refused(Refusal::NotSquare))
        }
        Err(Error::NotFinite { .. }) => Ok(Expectation::NotFinite),
        Err(Error::StructurallySingular { rank, .. }) => {
            Ok(Expectation::StructurallySingular { rank: Some(rank) })
        }
        Err(
            Error::ZerosOnly { .. } | Error::ZeroPivot { .. } | Error::SingularToRounding { .. },
        ) => Ok(Expectation::NumericallySingular),
        Err(other) => Err(other.to_string()),
    }
}

fn meets(outcome: &Result<Expectation, String>, expectations: &[Expectation]) -> bool {
    let Ok(outcome) = outcome else {
        return false;
    };
    expectations
        .iter()
        .any(|expected| match (expected, outcome) {
            (
                Expectation::StructurallySingular { rank: None },
                Expectation::StructurallySingular { .. },
            ) => true,
            (expected, outcome) => expected == outcome,
        })
}

/// Checks all and lists every failure at the end.
fn check<'a>(entries: impl Iterator<Item = &'a Entry>, at_least: usize) {
    check_all(entries, at_least, outcome);
}

fn check_all<'a>(
    entries: impl Iterator<Item = &'a Entry>,
    at_least: usize,
    outcome: impl Fn(&Entry) -> Result<Expectation, String>,
) {
    let (mut count, mut failures) = (0, Vec::new());
    for entry in entries {
        count += 1;
        let outcome = outcome(entry);
        if !meets(&outcome, entry.expectations()) {
            failures.push(format!(
                "{}: {outcome:?}, not {:?}",
                entry.name,
                entry.expectations()
            ));
        }
    }
    assert!(count >= at_least, "only {count} matrices");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn small_matrices_of_the_corpus_solve() {
    if let Some(corpus) = Corpus::open_or_skip(1) {
        check(corpus.square_real(600).into_iter(), 25);
    }
}

/// Whether a matrix equals its transpose, bit for bit.
fn is_symmetric(a: &CsMat<f64>) -> bool {
    a.rows() == a.cols() && a.iter().all(|(v, (i, j))| a.get(j, i) == Some(v))
}

#[test]
fn symmetric_matrices_of_the_corpus_solve_as_such() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let real = corpus.square_real(3200).into_iter();
    let symmetric = real.filter(|entry| {
        let read = entry.read().ok().and_then(|matrix| matrix.into_real().ok());
        read.is_some_and(|a| is_symmetric(&a))
    });
    check_all(symmetric, 20, |entry| {
        outcome_as(entry, MatrixKind::Symmetric)
    });
}

#[test]
fn inertia_of_the_corpus_is_that_of_the_eigenvalues() {
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let mut count = 0;
    for entry in corpus.square_real(700) {
        let Some(a) = entry.read().ok().and_then(|matrix| matrix.into_real().ok()) else {
            continue;
        };
        if !is_symmetric(&a) {
            continue;
        }
        let options = Options::default()
            .backend(BackendChoice::Cpu)
            .kind(MatrixKind::Symmetric);
        let solver = Solver::new(options).unwrap();
        let Ok(factors) = solver
            .analyze(&a)
            .and_then(|analysis| analysis.factorize(&a))
        else {
            continue;
        };
        // Scaled as the largest entry of each row asks, so that small eigenvalues are no rounding errors.
        let scale: Vec<f64> = (a.outer_iterator())
            .map(|row| {
                row.iter()
                    .fold(0.0, |max: f64, (_, v)| max.max(v.abs()))
                    .powf(-0.5)
            })
            .collect();
        let mut dense = DMatrix::zeros(a.rows(), a.rows());
        for (&v, (i, j)) in &a {
            dense[(i, j)] = scale[i] * v * scale[j];
        }
        let values = dense.symmetric_eigenvalues();
        let largest = values.iter().fold(0.0, |max: f64, v| max.max(v.abs()));
        if values.iter().any(|v| v.abs() < 1e-12 * largest) {
            continue;
        }
        let negative = values.iter().filter(|v| **v < 0.0).count();
        let inertia = factors.inertia().unwrap();
        let expected = (a.rows() - negative, negative, 0);
        let found = (inertia.positive, inertia.negative, inertia.zero);
        assert_eq!(found, expected, "{}", entry.name);
        count += 1;
    }
    assert!(count >= 10, "only {count} matrices");
}

#[test]
fn degenerate_files_give_what_the_index_says() {
    if let Some(corpus) = Corpus::open_or_skip(1) {
        check(corpus.degenerate(), 50);
    }
}

/// Every complex file, with A, Aᵀ and Aᴴ: backward errors are measured here, from the matrix and the solution.
#[test]
fn complex_matrices_of_the_corpus_solve() {
    const BOUND: f64 = 1e-13;
    let Some(corpus) = Corpus::open_or_skip(1) else {
        return;
    };
    let mut names = Vec::new();
    let mut forms = [0; 2];
    for entry in corpus.entries() {
        if !entry.is_square_complex() || entry.group == Group::Degenerate {
            continue;
        }
        if !entry.expectations().contains(&Expectation::Solves) {
            let outcome = outcome(entry);
            assert!(
                meets(&outcome, entry.expectations()),
                "{}: {outcome:?}",
                entry.name
            );
            continue;
        }
        let MatrixData::Complex(a) = entry.read().unwrap().data else {
            panic!("{} is not complex", entry.name)
        };
        let transpose = a.transpose_view().to_csr();
        let adjoint = transpose.map(|v| v.conj());
        let mut kinds = vec![MatrixKind::General];
        for (count, kind, reflected) in [
            (0, MatrixKind::Symmetric, &transpose),
            (1, MatrixKind::Hermitian, &adjoint),
        ] {
            if *reflected == a {
                kinds.push(kind);
                forms[count] += 1;
            }
        }
        for kind in kinds {
            let options = Options::default().backend(BackendChoice::Cpu).kind(kind);
            let analysis = Solver::new(options).unwrap().analyze(&a).unwrap();
            let factors = analysis.factorize(&a).unwrap();
            for (what, a) in [
                ("A", &a),
                ("its transpose", &transpose),
                ("its adjoint", &adjoint),
            ] {
                let (b, _) = known_solution(a);
                let solution = match what {
                    "A" => factors.solve(&b),
                    "its transpose" => factors.solve_transpose(&b),
                    _ => factors.solve_adjoint(&b),
                };
                let error = normwise_backward_error(a, &solution.unwrap().x, &b);
                assert!(
                    error <= BOUND,
                    "{}, {kind:?}, {what}: {error:e}",
                    entry.name
                );
            }
        }
        names.push(entry.name.clone());
    }
    assert!(names.len() >= 7, "only {names:?}");
    assert!(
        forms[0] >= 3 && forms[1] >= 1,
        "{forms:?} symmetric and Hermitian"
    );
}

/// Every other file, up to order 2000: pattern, rectangular.
#[test]
fn what_is_no_square_system_with_values_is_refused() {
    if let Some(corpus) = Corpus::open_or_skip(1) {
        let others = corpus
            .entries()
            .iter()
            .filter(|entry| !entry.is_square_real() && !entry.is_square_complex())
            .filter(|entry| entry.header.is_some_and(|h| h.nrows <= 2000));
        check(others, 5);
    }
}
