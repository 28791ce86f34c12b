//! Files: gzip, paths in errors, vectors.

use std::error::Error as _;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use luge_matrix_io::{
    DenseMatrix, Problem, ReadErrorKind, Symmetry, WriteError, WriteOptions, read, read_bytes,
    read_dense, read_vector, read_with, write, write_dense, write_dense_to, write_pattern,
    write_to,
};
use num_complex::Complex64;
use sprs::{CsMat, TriMat};

const TEXT: &str = "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.5\n2 2 -2\n";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

fn matrix() -> CsMat<f64> {
    let mut a = TriMat::new((2, 2));
    a.add_triplet(0, 0, 1.5);
    a.add_triplet(1, 1, -2.0);
    a.to_csr()
}

#[test]
fn gzip_is_recognised_by_its_first_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    // Neither name fits its content.
    let packed = folder.path().join("packed.mtx");
    std::fs::write(&packed, gzip(TEXT.as_bytes())).expect("written");
    let plain = folder.path().join("plain.mtx.gz");
    std::fs::write(&plain, TEXT).expect("written");
    for path in [packed, plain] {
        let a = read(&path).expect("read").into_real().expect("real");
        assert_eq!(a, matrix());
    }
}

#[test]
fn several_gzip_members_are_one_text() {
    // The cut goes through a line.
    let (head, tail) = TEXT.as_bytes().split_at(TEXT.len() - 4);
    let mut bytes = gzip(head);
    bytes.extend(gzip(b""));
    bytes.extend(gzip(tail));
    let a = read_bytes(&bytes).expect("read").into_real().expect("real");
    assert_eq!(a, matrix());
}

#[test]
fn a_truncated_gzip_stream_is_an_io_error_with_a_position() {
    let mut text = TEXT.replace("2 2 2\n", "2 2 5002\n");
    for i in 0..5000u32 {
        text += &format!("1 1 {}\n", f64::from(i).sin());
    }
    let bytes = gzip(text.as_bytes());
    for len in [2, 10, bytes.len() / 2, bytes.len() - 9, bytes.len() - 1] {
        match read_bytes(&bytes[..len]).expect_err("truncated").kind {
            ReadErrorKind::Io { line, offset, .. } => {
                assert!(line <= 5005 && offset <= text.len() as u64);
                if len > bytes.len() / 3 {
                    assert!(line > 100 && offset > 1000, "line {line}, offset {offset}");
                }
            }
            other => panic!("{other}"),
        }
    }
    let mut damaged = bytes.clone();
    let last = damaged.len() - 6;
    damaged[last] ^= 1;
    assert!(matches!(
        read_bytes(&damaged).expect_err("wrong checksum").kind,
        ReadErrorKind::Io { .. }
    ));
}

#[test]
fn errors_name_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.mtx");
    let error = read(&missing).expect_err("no such file");
    assert_eq!(error.path.as_deref(), Some(missing.as_path()));
    assert!(matches!(error.kind, ReadErrorKind::Io { .. }));
    assert!(error.source().is_some());
    assert!(
        error
            .to_string()
            .starts_with(&missing.display().to_string())
    );

    let bad = folder.path().join("bad.mtx");
    std::fs::write(&bad, TEXT.replace("-2", "zwei")).expect("written");
    for error in [
        read(&bad).expect_err("bad"),
        read_dense(&bad).expect_err("bad"),
        read_vector(&bad).expect_err("bad"),
        read_with(&bad, &Default::default()).expect_err("bad"),
    ] {
        assert_eq!(
            error.to_string(),
            format!(
                "{}: line 4, column 5: \"zwei\" is not a number",
                bad.display()
            )
        );
    }
    assert!(read_bytes(b"x").expect_err("bad").path.is_none());

    let nowhere = folder.path().join("no folder").join("a.mtx");
    match write(&nowhere, &matrix().view(), &WriteOptions::default()) {
        Err(WriteError::Io { path, .. }) => assert_eq!(path, Some(nowhere)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn vectors_have_one_column() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("b.mtx");
    let options = WriteOptions::default();
    let b = DenseMatrix::from_vector(vec![1.0, -0.0, 3.25]);
    write_dense(&path, &b, &options).expect("written");
    assert_eq!(read_vector(&path).expect("read"), [1.0, 0.0, 3.25]);
    let two = DenseMatrix::new(1, 2, vec![1.0, 2.0]);
    write_dense(&path, &two, &options).expect("written");
    assert_eq!(read_dense(&path).expect("read"), two);
    assert!(matches!(
        read_vector(&path).expect_err("two columns").kind,
        ReadErrorKind::NotAVector { nrows: 1, ncols: 2 }
    ));
}

#[test]
#[should_panic(expected = "a 2 x 2 matrix has a value for each position")]
fn a_dense_matrix_needs_all_its_values() {
    DenseMatrix::new(2, 2, vec![0.0; 3]);
}

#[test]
fn the_text_is_as_documented() {
    let mut text = Vec::new();
    let options = WriteOptions {
        comments: vec!["one\ntwo".to_owned(), "three".to_owned()],
        ..WriteOptions::default()
    };
    let mut a = TriMat::new((2, 3));
    for (row, col, value) in [(1, 2, 0.1), (0, 0, 1.0), (0, 1, -0.0), (1, 0, 1e300)] {
        a.add_triplet(row, col, value);
    }
    let a: CsMat<f64> = a.to_csr();
    write_to(&mut text, &a.view(), &options).expect("written");
    assert_eq!(
        String::from_utf8(text).expect("ASCII"),
        "%%MatrixMarket matrix coordinate real general\n% one\n% two\n% three\n2 3 4\n\
         1 1 1\n1 2 -0\n2 1 1.0000000000000001e300\n2 3 0.10000000000000001\n"
    );
    // By columns, from a matrix stored by columns.
    let mut text = Vec::new();
    write_to(&mut text, &a.to_csc().view(), &WriteOptions::default()).expect("written");
    let text = String::from_utf8(text).expect("ASCII");
    assert!(text.contains("2 3 4\n1 1 1\n2 1 1.0000000000000001e300\n1 2 -0\n2 3 0.1"));

    let mut text = Vec::new();
    let values = vec![
        0.0,
        123456.0,
        -1e16,
        1e17,
        1e-4,
        -1.25e-5,
        0.05,
        1234.5,
        f64::MAX,
        f64::from_bits(1),
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let b = DenseMatrix::new(13, 1, values);
    write_dense_to(&mut text, &b, &WriteOptions::default()).expect("written");
    assert_eq!(
        String::from_utf8(text).expect("ASCII"),
        "%%MatrixMarket matrix array real general\n13 1\n0\n123456\n-10000000000000000\n1e17\n\
         0.0001\n-1.2500000000000001e-5\n0.050000000000000003\n1234.5\n1.7976931348623157e308\n\
         4.9406564584124654e-324\nnan\ninf\n-inf\n"
    );
}

#[test]
fn gz_in_the_name_compresses() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = WriteOptions::default();
    for (name, packed) in [("a.mtx", false), ("a.mtx.gz", true), ("A.MTX.GZ", true)] {
        let path = folder.path().join(name);
        write(&path, &matrix().view(), &options).expect("written");
        let bytes = std::fs::read(&path).expect("read");
        assert_eq!(bytes.starts_with(&[0x1f, 0x8b]), packed, "{name}");
        assert_eq!(
            read(&path).expect("read").into_real().expect("real"),
            matrix()
        );
    }
    let pattern = read_bytes(TEXT.as_bytes()).expect("read").pattern();
    let path = folder.path().join("pattern.mtx.gz");
    write_pattern(&path, &pattern, &options).expect("written");
    assert_eq!(read(&path).expect("read").pattern(), pattern);
}

#[test]
fn a_symmetry_is_checked_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.mtx");
    let with = |symmetry| WriteOptions {
        symmetry,
        ..WriteOptions::default()
    };
    let of = |entries: &[(usize, usize, f64)]| -> CsMat<f64> {
        let mut a = TriMat::new((3, 3));
        for &(row, col, value) in entries {
            a.add_triplet(row, col, value);
        }
        a.to_csr()
    };
    let symmetric = of(&[(0, 1, 2.0), (1, 0, 2.0), (2, 2, 1.0)]);
    let skew = of(&[(0, 1, 2.0), (1, 0, -2.0)]);

    for (a, symmetry, stored) in [
        (&symmetric, Symmetry::Symmetric, 2),
        (&skew, Symmetry::SkewSymmetric, 1),
    ] {
        write(&path, &a.view(), &with(symmetry)).expect("symmetric");
        let back = read(&path).expect("read");
        assert_eq!((back.stored, back.header.symmetry), (stored, symmetry));
        assert_eq!(&back.into_real().expect("real"), a);
        std::fs::remove_file(&path).expect("removed");
    }
    let offenders = [
        (&skew, Symmetry::Symmetric, (1, 2)),
        (&symmetric, Symmetry::SkewSymmetric, (1, 2)),
        (&of(&[(0, 0, 0.0)]), Symmetry::SkewSymmetric, (1, 1)),
        (&of(&[(2, 1, 1.0)]), Symmetry::Symmetric, (3, 2)),
        (&symmetric, Symmetry::Hermitian, (1, 1)),
    ];
    for (a, symmetry, (row, col)) in offenders {
        match write(&path, &a.view(), &with(symmetry)) {
            Err(WriteError::NotSymmetric { row: r, col: c, .. }) => assert_eq!((r, c), (row, col)),
            other => panic!("{other:?}"),
        }
        assert!(!path.exists());
    }
    let wide = CsMat::<f64>::zero((2, 3));
    assert!(write(&path, &wide.view(), &with(Symmetry::Symmetric)).is_err());

    let mut hermitian = TriMat::new((2, 2));
    hermitian.add_triplet(0, 0, Complex64::new(1.0, 0.0));
    hermitian.add_triplet(1, 0, Complex64::new(2.0, 3.0));
    hermitian.add_triplet(0, 1, Complex64::new(2.0, -3.0));
    let a: CsMat<Complex64> = hermitian.to_csr();
    write(&path, &a.view(), &with(Symmetry::Hermitian)).expect("hermitian");
    let back = read(&path).expect("read");
    assert_eq!(back.stored, 2);
    assert_eq!(back.data, luge_matrix_io::MatrixData::Complex(a.clone()));
    assert!(write(&path, &a.view(), &with(Symmetry::Symmetric)).is_err());
}

#[test]
fn problems_are_the_same_in_gzip() {
    let bytes = gzip(TEXT.replace("1 1 1.5", "1 0 1.5").as_bytes());
    match read_bytes(&bytes).expect_err("an index of zero").kind {
        ReadErrorKind::Parse { line, column, what } => {
            assert_eq!((line, column, what), (3, 3, Problem::IndexZero("column")));
        }
        other => panic!("{other}"),
    }
}
