//! Files of Harwell–Boeing and Rutherford–Boeing, by the definition of their lines.

use luge_matrix_io::{
    Field, FileFormat, Matrix, MatrixData, Problem, ReadErrorKind, ReadOptions, Symmetry,
    WriteOptions, read, read_bytes, read_dense, read_dense_from, read_from_with,
    write_rutherford_boeing, write_rutherford_boeing_pattern, write_rutherford_boeing_to,
};
use num_complex::Complex64;
use proptest::prelude::*;
use sprs::CsMat;

/// The first four lines, with numbers of lines that nobody should believe.
fn head(kind: &str, sizes: [usize; 3], formats: &str) -> String {
    let [nrows, ncols, nnz] = sizes;
    format!(
        "{:<72}{:<8}\n{:14}{:14}{:14}{:14}{:14}\n{kind}{:11}{nrows:14}{ncols:14}{nnz:14}{:14}\n{formats}\n",
        "A small matrix", "SMALL", 9, 9, 9, 9, 0, "", 0
    )
}

/// As [`head`], with right-hand sides.
fn head_with_rhs(kind: &str, sizes: [usize; 3], formats: &str, rhs: &str) -> String {
    let head = head(kind, sizes, formats);
    let mut lines: Vec<_> = head.lines().map(str::to_owned).collect();
    lines[1] = format!("{:14}{:14}{:14}{:14}{:14}", 9, 9, 9, 9, 1);
    lines.push(rhs.to_owned());
    lines.join("\n") + "\n"
}

#[track_caller]
fn read_text(text: &str) -> Matrix {
    read_bytes(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[track_caller]
fn dense(matrix: &Matrix) -> Vec<Vec<f64>> {
    let MatrixData::Real(a) = &matrix.data else {
        panic!("the field is real")
    };
    let value = |i, j| a.get(i, j).copied().unwrap_or(0.0);
    (0..a.rows())
        .map(|i| (0..a.cols()).map(|j| value(i, j)).collect())
        .collect()
}

/// Line, column and rule of a refusal.
#[track_caller]
fn refused(text: &str) -> (u64, usize, Problem) {
    match read_bytes(text.as_bytes()).expect_err(text).kind {
        ReadErrorKind::Parse { line, column, what } => (line, column, what),
        other => panic!("{other}"),
    }
}

#[test]
fn formats_of_the_header_are_obeyed() {
    // Columns [1 4; 0 5; 2 0]: 1 and 2, then 4 and 5.
    let expected = vec![vec![1.0, 4.0], vec![0.0, 5.0], vec![2.0, 0.0]];
    let pointers_and_indices = "  1  3  5\n  1  3  1  2\n";
    for (formats, values) in [
        (
            "(26I3)          (26I3)          (4E20.12)           ",
            "  1.000000000000E+00  2.000000000000E+00  4.000000000000E+00  5.000000000000E+00\n",
        ),
        (
            "(26I3)          (26I3)          (2F4.0)             ",
            "  1.  2.\n  4.  5.\n",
        ),
        // No blanks between numbers, exponents of Fortran, a scale factor that applies without an exponent alone.
        (
            "(26I3)          (26I3)          (1P,4D7.1)          ",
            "1.0D+002.0D+0040.000050.0000\n",
        ),
        (
            "(26I3)          (26I3)          (1P4E8.1)           ",
            " 1.0E+00 2.0E+00 4.0E+00 5.0E+00\n",
        ),
        // No point: the last two digits are behind it.
        (
            "(26I3)          (26I3)          (3F5.2)             ",
            "  100  200  400\n  500\n",
        ),
        (
            "(26I3)          (26I3)          (4I2)               ",
            " 1 2 4 5\n",
        ),
        (
            "(26I3)          (26I3)          (2(F3.0,1X))        ",
            " 1./ 2.\n 4.  5.\n",
        ),
    ] {
        let text = head("RRA", [3, 2, 4], formats) + pointers_and_indices + values;
        let matrix = read_text(&text);
        assert_eq!(dense(&matrix), expected, "{formats}");
        assert_eq!(matrix.header.file, FileFormat::RutherfordBoeing);
        assert_eq!(matrix.header.comments, ["A small matrix", "SMALL"]);
        assert_eq!(matrix.stored, 4);
    }
    // Lines as short as their formats, no blank anywhere.
    let text = head("rra", [3, 2, 4], "(2I1) (3I1) (1F1.0)") + "13\n5\n131\n2\n1\n2\n4\n5\n";
    assert_eq!(dense(&read_text(&text)), expected);
    // CR LF, and blank lines behind the end.
    let text = text.replace('\n', "\r\n") + "\r\n  \r\n";
    assert_eq!(dense(&read_text(&text)), expected);
}

#[test]
fn every_kind_of_matrix_is_read() {
    let symmetric =
        head("RSA", [2, 2, 3], "(3I2) (3I2) (3F4.1)") + " 1 3 4\n 1 2 2\n 1.0 2.0 3.0\n";
    assert_eq!(dense(&read_text(&symmetric)), [[1.0, 2.0], [2.0, 3.0]]);
    let options = ReadOptions {
        expand_symmetry: false,
    };
    let matrix = read_from_with(symmetric.as_bytes(), &options).expect("read");
    assert_eq!(dense(&matrix), [[1.0, 0.0], [2.0, 3.0]]);

    let skew = head("RZA", [2, 2, 1], "(3I2) (3I2) (3F4.1)") + " 1 2 2\n 2\n 2.5\n";
    assert_eq!(dense(&read_text(&skew)), [[0.0, -2.5], [2.5, 0.0]]);

    let integer = head("IUA", [2, 2, 2], "(3I2) (3I2) (3I4)") + " 1 2 3\n 2 1\n  -7   9\n";
    let matrix = read_text(&integer);
    assert_eq!(matrix.header.field, Field::Integer);
    assert_eq!(dense(&matrix), [[0.0, 9.0], [-7.0, 0.0]]);

    let pattern = head("PSA", [2, 2, 3], "(3I2) (3I2)") + " 1 3 4\n 1 2 2\n";
    let matrix = read_text(&pattern);
    assert_eq!(matrix.header.symmetry, Symmetry::Symmetric);
    assert_eq!(
        matrix
            .pattern()
            .lines()
            .map(<[u32]>::len)
            .collect::<Vec<_>>(),
        [2, 2]
    );
    assert!(matches!(matrix.data, MatrixData::Pattern(_)));

    // Real and imaginary parts in turn, whatever the ends of lines.
    let hermitian =
        head("CHA", [2, 2, 2], "(3I2) (3I2) (3F4.1)") + " 1 3 3\n 1 2\n 1.0 0.0 2.0\n 3.0\n";
    let MatrixData::Complex(a) = read_text(&hermitian).data else {
        panic!("the field is complex")
    };
    assert_eq!(a.get(1, 0), Some(&Complex64::new(2.0, 3.0)));
    assert_eq!(a.get(0, 1), Some(&Complex64::new(2.0, -3.0)));

    // Rows out of order, and twice.
    let twice =
        head("RUA", [2, 2, 4], "(3I2) (4I2) (4F4.1)") + " 1 4 5\n 2 1 2 1\n 1.0 2.0 3.0 4.0\n";
    assert_eq!(dense(&read_text(&twice)), [[2.0, 4.0], [4.0, 0.0]]);

    for sizes in [[0, 0], [3, 0], [0, 2]] {
        let text = head("RRA", [sizes[0], sizes[1], 0], "(3I2) (3I2) (3F4.1)")
            + &" 1".repeat(sizes[1] + 1)
            + "\n";
        let matrix = read_text(&text);
        assert_eq!((matrix.shape(), matrix.nnz()), ((sizes[0], sizes[1]), 0));
    }
}

#[test]
fn right_hand_sides_come_with_the_matrix() {
    let formats = "(3I2)           (3I2)           (3F4.1)             (2F5.2)             ";
    let matrix = " 1 2 3\n 1 2\n 1.0 2.0\n";
    // Two of them, with guesses and solutions that are not kept.
    let text = head_with_rhs(
        "RUA",
        [2, 2, 2],
        formats,
        "FGX                        2             0",
    ) + matrix
        + " 1.00 2.00\n 3.00 4.00\n whatever\n";
    let rhs = read_text(&text).rhs.expect("right-hand sides");
    assert_eq!((rhs.nrows(), rhs.ncols()), (2, 2));
    assert_eq!(rhs.values(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(read_dense_from(text.as_bytes()).expect("the same"), rhs);

    // By columns, as the matrix.
    let text = head_with_rhs(
        "RUA",
        [2, 2, 2],
        formats,
        "M                          3             2",
    ) + matrix
        + " 1 2 2\n 3\n 2 1\n 5.00 6.00\n";
    let rhs = read_text(&text).rhs.expect("right-hand sides");
    assert_eq!(rhs.values(), [0.0, 5.0, 0.0, 0.0, 6.0, 0.0]);

    // Of a pattern, whose format of values is left away or not.
    for formats in ["(3I2) (3I2) (2F5.2)", formats] {
        let text = head_with_rhs("PUA", [2, 2, 2], formats, "F 1 0") + " 1 2 3\n 1 2\n 1.00-2.00\n";
        let rhs = read_text(&text).rhs.expect("right-hand sides");
        assert_eq!(rhs.values(), [1.0, -2.0]);
    }

    let complex =
        head_with_rhs("CUA", [1, 1, 1], formats, "F 1 0") + " 1 2\n 1\n 1.0 2.0\n 1.00 2.00\n";
    assert!(read_text(&complex).rhs.is_none());
    let error = read_dense_from(complex.as_bytes()).expect_err("complex");
    assert!(matches!(error.kind, ReadErrorKind::NotReal(_)));
    let none = head("RUA", [2, 2, 2], formats) + matrix;
    let error = read_dense_from(none.as_bytes()).expect_err("none");
    assert_eq!(
        error.to_string(),
        "the file is a Rutherford-Boeing matrix without right-hand sides"
    );

    let short = head_with_rhs("RUA", [2, 2, 2], formats, "F 1 0") + matrix + " 1.00\n";
    assert!(matches!(refused(&short), (9, 6, Problem::Missing(_))));
    let other = head_with_rhs("RUA", [2, 2, 2], formats, "Q 1 0");
    assert_eq!(
        refused(&other),
        (5, 1, Problem::UnknownRightHandSide("Q".into()))
    );
    let uncounted = head_with_rhs("RUA", [2, 2, 2], formats, "M 1");
    assert_eq!(
        refused(&uncounted),
        (5, 4, Problem::Missing("number of right-hand sides"))
    );
}

#[test]
fn what_is_wrong_is_told_by_line_and_column() {
    let formats = "(3I2)           (3I2)           (3F4.1)";
    let good = head("RUA", [2, 2, 2], formats) + " 1 2 3\n 1 2\n 1.0 2.0\n";
    read_text(&good);
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        refused(&good.replacen(from, to, 1))
    };
    assert_eq!(with("RUA", "RUE"), (3, 1, Problem::Elemental("RUE".into())));
    assert_eq!(
        with("RUA", "QUA"),
        (3, 1, Problem::ValuesElsewhere("QUA".into()))
    );
    assert!(matches!(
        with("RUA", "RHA"),
        (3, 1, Problem::Combination { .. })
    ));
    assert!(matches!(
        with("RUA", "PZA"),
        (3, 1, Problem::Combination { .. })
    ));
    assert_eq!(
        with("(3I2)           (3F4.1)", "(3F2.0)         (3F4.1)").2,
        Problem::NotAFormatOfIntegers("(3F2.0)".into())
    );
    assert_eq!(
        with("(3F4.1)", "(3A4)"),
        (4, 33, Problem::BadFormat("(3A4)".into()))
    );
    assert_eq!(
        with("(3F4.1)", ""),
        (4, 22, Problem::Missing("format of the values"))
    );
    assert_eq!(
        with(" 1 2 3\n", " 2 2 3\n"),
        (
            5,
            2,
            Problem::BadPointer {
                found: 2,
                least: 1,
                most: 1
            }
        )
    );
    assert_eq!(
        with(" 1 2 3\n", " 1 0 3\n"),
        (
            5,
            4,
            Problem::BadPointer {
                found: 0,
                least: 1,
                most: 3
            }
        )
    );
    assert_eq!(
        with(" 1 2 3\n", " 1 4 3\n"),
        (
            5,
            4,
            Problem::BadPointer {
                found: 4,
                least: 1,
                most: 3
            }
        )
    );
    assert_eq!(
        with(" 1 2 3\n", " 1 2 2\n"),
        (
            5,
            6,
            Problem::LastPointer {
                found: 2,
                announced: 2
            }
        )
    );
    assert_eq!(
        with(" 1 2 3\n", " 1-2 3\n"),
        (5, 3, Problem::BadIndex("-2".into()))
    );
    assert_eq!(
        with(" 1 2 3\n", " 1 2 3 9\n"),
        (5, 8, Problem::Extra("9".into()))
    );
    assert_eq!(
        with("\n 1 2\n", "\n 1 3\n"),
        (
            6,
            4,
            Problem::IndexOutOfRange {
                axis: "row",
                index: 3,
                bound: 2
            }
        )
    );
    assert_eq!(
        with("\n 1 2\n", "\n 0 2\n"),
        (6, 2, Problem::IndexZero("row"))
    );
    assert_eq!(
        with("\n 1 2\n", "\n 1\n"),
        (6, 3, Problem::Missing("row indices"))
    );
    assert_eq!(
        with(" 2.0", " 2,0"),
        (7, 6, Problem::BadNumber("2,0".into()))
    );
    assert_eq!(with(" 2.0", "1E999"), (7, 9, Problem::Extra("9".into())));
    assert_eq!(
        with(" 1.0 2.0\n", ""),
        (
            7,
            1,
            Problem::Truncated {
                what: "values",
                announced: 2,
                found: 0
            }
        )
    );
    assert_eq!(
        refused(&(good.clone() + "\nmore\n")),
        (9, 1, Problem::AfterEnd("more".into()))
    );
    let until = |line: usize| good.lines().take(line).collect::<Vec<_>>().join("\n") + "\n";
    assert_eq!(refused(&until(3)), (4, 1, Problem::NoHeaderLine("formats")));
    assert_eq!(
        refused(&until(4)),
        (
            5,
            1,
            Problem::Truncated {
                what: "column pointers",
                announced: 3,
                found: 0
            }
        )
    );
    let symmetric = head("RSA", [2, 2, 1], formats) + " 1 1 2\n 1\n 1.0\n";
    assert!(matches!(
        refused(&symmetric),
        (6, 2, Problem::UpperEntry { row: 1, col: 2, .. })
    ));
    let skew = head("RZA", [2, 2, 1], formats) + " 1 1 2\n 2\n 1.0\n";
    assert_eq!(refused(&skew), (6, 2, Problem::SkewDiagonal(2)));
    let hermitian = head("CHA", [1, 1, 1], formats) + " 1 2\n 1\n 1.0 1.0\n";
    assert_eq!(refused(&hermitian), (7, 6, Problem::ImaginaryDiagonal(1)));
    let wide = head("RSA", [2, 3, 1], formats);
    assert!(matches!(refused(&wide), (3, _, Problem::NotSquare { .. })));
    let fraction = head("IUA", [1, 1, 1], "(3I2) (3I2) (3I4)") + " 1 2\n 1\n 1.0\n";
    assert_eq!(
        refused(&fraction),
        (7, 2, Problem::NotAnInteger("1.0".into()))
    );
}

#[test]
fn sizes_that_no_file_backs_are_refused() {
    let huge = head("RUA", [1 << 33, 1, 0], "(3I2) (3I2) (3F4.1)");
    let error = read_bytes(huge.as_bytes()).expect_err("too many rows");
    assert!(matches!(
        error.kind,
        ReadErrorKind::IndexOverflow { line: 3, .. }
    ));
    let tall = head("RRA", [4_000_000_000, 1, 0], "(3I2) (3I2) (3F4.1)") + " 1 1\n";
    let error = read_bytes(tall.as_bytes()).expect_err("rows without entries");
    assert!(matches!(error.kind, ReadErrorKind::ImplausibleSize { .. }));
    let full = head("RUA", [2, 2, 1_000_000_000_000], "(3I2) (3I2) (3F4.1)") + " 1 2 3\n 1 2\n";
    assert!(matches!(
        refused(&full),
        (5, 6, Problem::LastPointer { .. })
    ));
    let rhs = head_with_rhs(
        "RUA",
        [0, 0, 0],
        "(3I2) (3I2) (3F4.1) (2F5.2)",
        "F 5000000000 0",
    );
    assert!(matches!(refused(&rhs), (5, 3, Problem::BadSize(_))));
}

#[test]
fn a_name_that_promises_the_format_gets_its_errors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = head("RUA", [1, 1, 1], "(3I2) (3I2) (3F4.1)") + " 1 2\n 1\n 7.0\n";
    for name in ["a.mtx", "a.rua", "a"] {
        let path = folder.path().join(name);
        std::fs::write(&path, &text).expect("written");
        assert_eq!(dense(&read(&path).expect("read")), [[7.0]]);
    }
    for name in ["b.rb", "b.RUA", "b.hb"] {
        let path = folder.path().join(name);
        std::fs::write(&path, "title\n1 1 1 1\nno type\n").expect("written");
        let error = read(&path).expect_err("no type");
        assert!(error.to_string().ends_with("line 3, column 1: unknown matrix type \"no\", expected three letters: R, C, I or P, then S, U, H, Z or R, then A"), "{error}");
        assert!(read_dense(&path).is_err());
    }
}

#[test]
fn what_is_written_is_read_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = WriteOptions {
        comments: vec!["A title, Größe 5".into(), "KEY".into()],
        ..WriteOptions::default()
    };
    let a = CsMat::new(
        (2, 3),
        vec![0, 2, 3],
        vec![0, 2, 1],
        vec![1.0 / 3.0, -0.0, f64::MAX],
    );
    for (name, a) in [("a.rb", a.clone()), ("a.rb.gz", a.to_csc())] {
        let path = folder.path().join(name);
        write_rutherford_boeing(&path, &a.view(), &options).expect("written");
        let matrix = read(&path).expect("read");
        assert_eq!(matrix.header.comments, ["A title, Gr??e 5", "KEY"]);
        assert_eq!(matrix.into_real().expect("real"), a.to_csr());
    }
    let pattern =
        read_text(&(head("PRA", [2, 3, 3], "(9I2) (9I2)") + " 1 2 3 4\n 2 1 2\n")).pattern();
    let path = folder.path().join("p.rb");
    write_rutherford_boeing_pattern(&path, &pattern, &WriteOptions::default()).expect("written");
    let matrix = read(&path).expect("read");
    assert_eq!(matrix.pattern(), pattern);
    assert!(matrix.header.comments.is_empty());
    // Every number in its columns, as a program in Fortran looks for them.
    let mut text = Vec::new();
    write_rutherford_boeing_to(&mut text, &a.view(), &options).expect("written");
    let expected = [
        &format!("{:<72}KEY     ", "A title, Gr??e 5"),
        "             3             1             1             1",
        "rra                        2             3             3             0",
        "(40I2)          (40I2)          (3E25.16E3)         ",
        " 1 2 3 4",
        " 1 2 1",
        "  3.3333333333333331E-001  1.7976931348623157E+308 -0.0000000000000000E+000",
        "",
    ];
    assert_eq!(String::from_utf8(text).expect("ASCII"), expected.join("\n"));
    let skew = WriteOptions {
        symmetry: Symmetry::SkewSymmetric,
        ..WriteOptions::default()
    };
    assert!(write_rutherford_boeing_to(Vec::new(), &a.view(), &skew).is_err());
}

/// A matrix of the given symmetry.
fn matrix(symmetry: Symmetry) -> impl Strategy<Value = CsMat<Complex64>> {
    let double = || {
        any::<u64>()
            .prop_map(f64::from_bits)
            .prop_filter("not NaN", |v| !v.is_nan())
    };
    let entries =
        prop::collection::btree_map((0usize..30, 0usize..30), (double(), double()), 0..150);
    entries.prop_map(move |entries| {
        let mut a = sprs::TriMat::new((30, 30));
        for ((i, j), (re, im)) in entries {
            let value = Complex64::new(re, im);
            match symmetry {
                Symmetry::General => a.add_triplet(i, j, value),
                Symmetry::Hermitian if i == j => a.add_triplet(i, i, Complex64::new(re, 0.0)),
                Symmetry::Symmetric if i == j => a.add_triplet(i, i, value),
                Symmetry::SkewSymmetric if i == j => {}
                _ if i < j => {}
                _ => {
                    a.add_triplet(i, j, value);
                    a.add_triplet(
                        j,
                        i,
                        match symmetry {
                            Symmetry::Hermitian => value.conj(),
                            Symmetry::SkewSymmetric => -value,
                            _ => value,
                        },
                    );
                }
            }
        }
        a.to_csr()
    })
}

fn bits(a: &CsMat<Complex64>) -> Vec<(usize, usize, u64, u64)> {
    a.iter()
        .map(|(v, (i, j))| (i, j, v.re.to_bits(), v.im.to_bits()))
        .collect()
}

proptest! {
    #[test]
    fn every_bit_survives(
        (symmetry, a) in prop_oneof![
            Just(Symmetry::General), Just(Symmetry::Symmetric),
            Just(Symmetry::SkewSymmetric), Just(Symmetry::Hermitian),
        ].prop_flat_map(|symmetry| (Just(symmetry), matrix(symmetry)))
    ) {
        let options = WriteOptions { symmetry, ..WriteOptions::default() };
        let mut text = Vec::new();
        write_rutherford_boeing_to(&mut text, &a.view(), &options).expect("written");
        let MatrixData::Complex(again) = read_bytes(&text).expect("read").data else {
            panic!("the field is complex")
        };
        prop_assert_eq!(bits(&again), bits(&a));
        let lines = std::str::from_utf8(&text).expect("ASCII").lines();
        prop_assert!(lines.map(str::len).max() <= Some(80));
        let re = a.map(|v| v.re);
        let real = if symmetry == Symmetry::Hermitian { Symmetry::Symmetric } else { symmetry };
        let options = WriteOptions { symmetry: real, ..WriteOptions::default() };
        let mut text = Vec::new();
        write_rutherford_boeing_to(&mut text, &re.view(), &options).expect("written");
        prop_assert_eq!(read_bytes(&text).expect("read").into_real().expect("real"), re);
    }

    #[test]
    fn no_change_of_a_file_makes_the_reader_panic(
        changes in prop::collection::vec((0usize..1 << 16, prop_oneof![
            any::<u8>(), prop::sample::select(b" 0123456789.()EFIPX,-+\nSMRAU".to_vec())
        ]), 1..6),
        cut in 0usize..2000,
        which in 0usize..3,
    ) {
        let formats = "(3I2)           (3I2)           (3F4.1)             (2F5.2)             ";
        let mut text = match which {
            0 => head("RSA", [3, 3, 4], formats) + " 1 3 4\n 5\n 1 2 2\n 3\n 1.0 2.0 3.0\n 4.0\n",
            1 => head_with_rhs("RUA", [2, 2, 2], formats, "M                          3             2")
                + " 1 2 3\n 1 2\n 1.0 2.0\n 1 2 2\n 3\n 2 1\n 5.00 6.00\n",
            _ => head_with_rhs("CUA", [2, 2, 2], formats, "F                          3             2")
                + " 1 2 3\n 1 2\n 1.0 2.0 1.0\n 1.0\n 1.00 2.00\n",
        }.into_bytes();
        for (at, byte) in changes {
            let at = at % text.len();
            text[at] = byte;
        }
        for text in [&text[..], &text[..cut.min(text.len())]] {
            let sparse = read_bytes(text);
            let lower = ReadOptions { expand_symmetry: false };
            prop_assert_eq!(sparse.is_ok(), read_from_with(text, &lower).is_ok());
            if read_dense_from(text).is_ok() {
                prop_assert!(sparse.is_ok());
            }
        }
    }
}
