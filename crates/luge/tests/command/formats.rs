//! Files of every format go in and come out.

use luge_matrix_io::{read_dense, write_rutherford_boeing};

use super::*;

/// A Harwell–Boeing file of [2 1; 0 4] with the right-hand side [3; 8].
const HARWELL_BOEING: &str = "\
Two unknowns                                                            TWO
             4             1             1             1             1
RUA                        2             2             3             0
(8I3)           (8I3)           (4F6.2)             (4F6.2)
F                          1             0
  1  2  4
  1  1  2
  2.00  1.00  4.00
  3.00  8.00
";

#[test]
fn rutherford_boeing_is_solved_as_matrix_market_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let a = random_unsymmetric(30, 3, 4);
    write(at("a.mtx"), &a.view(), &WriteOptions::default()).unwrap();
    write_rutherford_boeing(at("a.rb.gz"), &a.view(), &WriteOptions::default()).unwrap();
    let b = DenseMatrix::from_vector((0..30).map(f64::from).collect());
    write_dense(at("b.npy"), &b, &WriteOptions::default()).unwrap();
    let solved = |matrix: &str, out: &str| {
        let (matrix, rhs, out) = (at(matrix), at("b.npy"), at(out));
        let files = ["--rhs", as_str(&rhs), "--out", as_str(&out)];
        let mut arguments = vec!["solve", as_str(&matrix), "--backend", "cpu"];
        arguments.extend(files);
        expect_code(&luge(&arguments), 0);
        read_dense(&out).expect("a solution")
    };
    let x = solved("a.mtx", "x.mtx");
    assert_eq!(solved("a.rb.gz", "x.npy"), x);
    // By what they contain, not by their names.
    std::fs::copy(at("a.rb.gz"), at("other.mtx")).unwrap();
    assert_eq!(solved("other.mtx", "y.npy"), x);
    assert!(
        std::fs::read(at("x.npy"))
            .unwrap()
            .starts_with(b"\x93NUMPY")
    );
}

#[test]
fn the_right_hand_side_of_the_file_of_the_matrix_is_solved_for() {
    let (folder, path) = file("two.rua", HARWELL_BOEING);
    let x = folder.path().join("x.mtx");
    let output = luge(&[
        "solve",
        as_str(&path),
        "--out",
        as_str(&x),
        "--backend",
        "cpu",
    ]);
    expect_code(&output, 0);
    let printed = text(&output.stdout);
    assert!(
        printed.contains("that of the file of the matrix (1 column)"),
        "{printed}"
    );
    assert_eq!(read_vector(&x).unwrap(), [0.5, 2.0]);
    // Another one takes its place, also that of another file of the format.
    let (_other, b) = file(
        "b.hb",
        &HARWELL_BOEING.replace("  3.00  8.00", "  4.00  0.00"),
    );
    let output = luge(&[
        "solve",
        as_str(&path),
        "--rhs",
        as_str(&b),
        "--out",
        as_str(&x),
        "--force",
        "--backend",
        "cpu",
    ]);
    expect_code(&output, 0);
    assert_eq!(read_vector(&x).unwrap(), [2.0, 0.0]);

    let info = luge(&["info", as_str(&path)]);
    expect_code(&info, 0);
    let printed = text(&info.stdout);
    for fact in [
        "Rutherford-Boeing",
        "real general",
        "2 × 2",
        "right-hand sides",
    ] {
        assert!(printed.contains(fact), "{fact} in {printed}");
    }

    let (_wrong, path) = file(
        "wrong.rua",
        &HARWELL_BOEING.replace("  1  1  2\n", "  1  3  2\n"),
    );
    let message = "line 7, column 6: the row index is 3, but the matrix has 2";
    expect_refused(&luge(&["solve", as_str(&path)]), message);
    let (_elements, path) = file("e.rse", &HARWELL_BOEING.replace("RUA", "RSE"));
    expect_refused(&luge(&["info", as_str(&path)]), "element matrices");
}

#[cfg(feature = "npz")]
#[test]
fn matrices_of_scipy_are_solved_and_described() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../matrix-io/tests/scipy/duplicates.npz");
    let folder = tempfile::tempdir().unwrap();
    let (b, x) = (folder.path().join("b.npy"), folder.path().join("x.npy"));
    let rhs = DenseMatrix::from_vector(vec![6.0, 4.0]);
    write_dense(&b, &rhs, &WriteOptions::default()).unwrap();
    let files = ["--rhs", as_str(&b), "--out", as_str(&x)];
    let mut arguments = vec!["solve", as_str(&path), "--backend", "cpu"];
    arguments.extend(files);
    expect_code(&luge(&arguments), 0);
    // [0 3; 4 0]
    assert_eq!(read_vector(&x).unwrap(), [1.0, 2.0]);
    let info = luge(&["info", as_str(&path)]);
    expect_code(&info, 0);
    assert!(text(&info.stdout).contains("SciPy npz"));
    expect_code(&luge(&["analyze", as_str(&path), "--backend", "cpu"]), 0);
}
