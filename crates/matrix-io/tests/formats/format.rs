//! Every rule of the format, on texts of a few lines.

use luge_matrix_io::{
    DenseMatrix, Field, Format, Matrix, MatrixData, Problem, ReadErrorKind, ReadOptions, Symmetry,
    read_bytes, read_dense_from, read_from_with,
};
use num_complex::Complex64;
use sprs::CsMat;

fn read(text: &str) -> Matrix {
    read_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\nin {text}"))
}

fn real(text: &str) -> CsMat<f64> {
    let a = read(text).into_real().expect("a real field");
    assert!(a.is_csr());
    a
}

/// Entries by rows.
fn list(a: &CsMat<f64>) -> Vec<(usize, usize, f64)> {
    a.iter().map(|(&v, (i, j))| (i, j, v)).collect()
}

fn kind(text: &str) -> ReadErrorKind {
    match read_bytes(text.as_bytes()) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.kind,
    }
}

/// Line, column and problem of the error that `text` gives.
fn problem(text: &str) -> (u64, usize, Problem) {
    match kind(text) {
        ReadErrorKind::Parse { line, column, what } => (line, column, what),
        other => panic!("{other} in {text}"),
    }
}

const REAL: &str = "%%MatrixMarket matrix coordinate real general\n";

fn with(header: &str, body: &str) -> String {
    format!("%%MatrixMarket matrix {header}\n{body}")
}

#[test]
fn coordinate_real_general() {
    let a = real(&format!("{REAL}3 4 4\n3 4 -1.5\n1 1 2\n3 1 .25\n1 3 1e2\n"));
    assert_eq!(a.shape(), (3, 4));
    assert_eq!(
        list(&a),
        [(0, 0, 2.0), (0, 2, 100.0), (2, 0, 0.25), (2, 3, -1.5)]
    );
}

#[test]
fn the_header_and_its_comments_are_kept() {
    let matrix = read(
        "%%MatrixMarket matrix coordinate integer symmetric\n%  one \n\n%\n%%two\n2 2 1\n% not this\n2 1 7\n",
    );
    assert_eq!(matrix.header.format, Format::Coordinate);
    assert_eq!(matrix.header.field, Field::Integer);
    assert_eq!(matrix.header.symmetry, Symmetry::Symmetric);
    assert_eq!(matrix.header.comments, ["one", "", "%two"]);
    assert_eq!(matrix.stored, 1);
    assert_eq!(matrix.nnz(), 2);
    assert_eq!(matrix.shape(), (2, 2));
}

#[test]
fn case_tabs_crlf_comments_blank_lines_and_no_final_line_feed() {
    let text = "%%matrixMARKET\tMATRIX  Coordinate REAL\tGeneral \r\n\r\n% c\r\n  \t\r\n 2\t2   3\t\r\n\
                1 1\t1.0\r\n\r\n  % among the entries\r\n\t2 1 2\r\n2  2   -3";
    assert_eq!(list(&real(text)), [(0, 0, 1.0), (1, 0, 2.0), (1, 1, -3.0)]);
    // Nothing but blanks and comments may follow the last entry.
    let more = format!("{text}\n\n%\n   ");
    assert_eq!(real(&more).nnz(), 3);
}

#[test]
fn every_field_with_every_symmetry() {
    let c = |re, im| Complex64::new(re, im);
    let sizes = "2 2 1\n2 1";
    let at = |matrix: &Matrix, i, j| match &matrix.data {
        MatrixData::Real(a) => c(*a.get(i, j).expect("an entry"), 0.0),
        MatrixData::Complex(a) => *a.get(i, j).expect("an entry"),
        MatrixData::Pattern(a) => {
            assert!(a.line(i).contains(&(j as u32)));
            c(1.0, 0.0)
        }
    };
    // (field, symmetry, value in the file, value at (2,1), value at (1,2))
    let cases = [
        ("real", "symmetric", "3", c(3.0, 0.0), c(3.0, 0.0)),
        ("real", "skew-symmetric", "3", c(3.0, 0.0), c(-3.0, 0.0)),
        ("integer", "symmetric", "-3", c(-3.0, 0.0), c(-3.0, 0.0)),
        ("integer", "skew-symmetric", "-3", c(-3.0, 0.0), c(3.0, 0.0)),
        ("complex", "symmetric", "1 2", c(1.0, 2.0), c(1.0, 2.0)),
        (
            "complex",
            "skew-symmetric",
            "1 2",
            c(1.0, 2.0),
            c(-1.0, -2.0),
        ),
        ("complex", "hermitian", "1 2", c(1.0, 2.0), c(1.0, -2.0)),
        ("pattern", "symmetric", "", c(1.0, 0.0), c(1.0, 0.0)),
    ];
    for (field, symmetry, value, lower, upper) in cases {
        let text = with(
            &format!("coordinate {field} {symmetry}"),
            &format!("{sizes} {value}\n"),
        );
        let matrix = read(&text);
        assert_eq!(matrix.nnz(), 2, "{text}");
        assert_eq!(at(&matrix, 1, 0), lower, "{text}");
        assert_eq!(at(&matrix, 0, 1), upper, "{text}");

        let lower_only = ReadOptions {
            expand_symmetry: false,
        };
        let matrix = read_from_with(text.as_bytes(), &lower_only).expect("the same file");
        assert_eq!(matrix.nnz(), 1);
        assert_eq!(at(&matrix, 1, 0), lower);

        let general = text.replace(symmetry, "general");
        let matrix = read(&general);
        assert_eq!(matrix.nnz(), 1);
        assert_eq!(at(&matrix, 1, 0), lower);
    }
}

#[test]
fn duplicates_are_summed_in_the_order_of_the_file() {
    let a = real(&format!(
        "{REAL}2 2 5\n2 2 1e16\n1 1 4\n2 2 1\n2 2 -1e16\n1 1 -4\n"
    ));
    // (1e16 + 1) - 1e16 is 0 in doubles, 1 in any other order. The sums stay as explicit zeros.
    assert_eq!(list(&a), [(0, 0, 0.0), (1, 1, 0.0)]);
    let a = real(&with(
        "coordinate real symmetric",
        "2 2 3\n2 1 1\n1 1 5\n2 1 2\n",
    ));
    assert_eq!(list(&a), [(0, 0, 5.0), (0, 1, 3.0), (1, 0, 3.0)]);
}

#[test]
fn a_long_row_with_duplicates_matches_a_dense_sum() {
    // 1025 columns, each three times, in an order that is nowhere sorted.
    let n = 1025;
    let mut text = format!("{REAL}2 {n} {}\n", 3 * n);
    let mut expected = vec![0.0; n];
    for k in 0..3 * n {
        let col = k * 617 % n;
        expected[col] += k as f64;
        text += &format!("2 {} {k}\n", col + 1);
    }
    let a = real(&text);
    assert_eq!(a.indptr().raw_storage(), [0, 0, n]);
    assert_eq!(a.indices(), (0..n).collect::<Vec<_>>());
    assert_eq!(a.data(), expected);
}

#[test]
fn explicit_zeros_are_entries() {
    let a = real(&format!("{REAL}2 2 3\n1 1 0\n1 2 -0\n2 2 1\n"));
    assert_eq!(a.nnz(), 3);
    assert!(
        a.get(0, 1)
            .is_some_and(|v| *v == 0.0 && v.is_sign_negative())
    );
    assert!(
        a.get(0, 0)
            .is_some_and(|v| *v == 0.0 && v.is_sign_positive())
    );
}

#[test]
fn spellings_of_numbers() {
    let value = |spelling: &str| -> f64 {
        let a = real(&format!("{REAL}1 1 1\n1 1 {spelling}\n"));
        a.data()[0]
    };
    for (spelling, expected) in [
        ("+1.5", 1.5),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("+.5e+1", 5.0),
        ("1.5D+02", 150.0),
        ("-2d-1", -0.2),
        ("+1D0", 1.0),
        ("1E-3", 1e-3),
        ("0001", 1.0),
        ("1e-999", 0.0),
        ("4.9406564584124654e-324", f64::from_bits(1)),
        ("2.2250738585072011e-308", 2.225073858507201e-308),
        ("1.7976931348623157e308", f64::MAX),
        ("9007199254740993", 9007199254740992.0),
        (
            "0.1000000000000000055511151231257827021181583404541015625",
            0.1,
        ),
        ("inf", f64::INFINITY),
        ("+Infinity", f64::INFINITY),
        ("-INF", f64::NEG_INFINITY),
    ] {
        assert_eq!(value(spelling).to_bits(), expected.to_bits(), "{spelling}");
    }
    for nan in ["nan", "NaN", "-NAN", "+nan"] {
        assert!(value(nan).is_nan(), "{nan}");
    }
    for bad in [
        "1.2.3", "abc", "1e", "e5", ".", "+", "-", "+-1", "++1", "--1", "1e5d3", "0x10", "1_000",
        "1,5", "1.5+02", "nand", "\u{661}", "1e5.5",
    ] {
        let (line, column, what) = problem(&format!("{REAL}1 1 1\n1 1 {bad}\n"));
        assert_eq!((line, column), (3, 5), "{bad}");
        assert_eq!(what, Problem::BadNumber(bad.to_owned()));
    }
    for huge in ["1e999", "-1e309", "1.8D308"] {
        let (line, column, what) = problem(&format!("{REAL}1 1 1\n  1 1   {huge} \n"));
        assert_eq!((line, column), (3, 9), "{huge}");
        assert_eq!(what, Problem::NumberOverflow(huge.to_owned()));
    }
}

#[test]
fn whole_numbers_are_exact_or_refused() {
    let text = |value: &str| {
        with(
            "coordinate integer general",
            &format!("1 1 1\n1 1 {value}\n"),
        )
    };
    for (spelling, expected) in [
        ("7", 7.0),
        ("+7", 7.0),
        ("-7", -7.0),
        ("123456789012345", 123456789012345.0),
        ("9007199254740992", 9007199254740992.0),
        ("1152921504606846976", 2f64.powi(60)),
    ] {
        assert_eq!(real(&text(spelling)).data(), [expected], "{spelling}");
    }
    for bad in ["1.0", "1e3", "x", "-", "1-", "nan"] {
        assert_eq!(
            problem(&text(bad)),
            (3, 5, Problem::NotAnInteger(bad.to_owned()))
        );
    }
    let digits = "9".repeat(40);
    let u128_max = u128::MAX.to_string();
    for inexact in ["9007199254740993", "-9007199254740993", &u128_max, &digits] {
        assert_eq!(
            problem(&text(inexact)),
            (3, 5, Problem::InexactInteger(inexact.to_owned()))
        );
    }
}

#[test]
fn array_general_drops_zeros_of_a_sparse_matrix() {
    let text = with("array real general", "2 3\n1\n0\n% c\n-0\n4\n\n5\nnan\n");
    let matrix = read(&text);
    assert_eq!(matrix.stored, 6);
    let a = matrix.into_real().expect("real");
    assert_eq!(a.nnz(), 4);
    assert_eq!(&list(&a)[..3], [(0, 0, 1.0), (0, 2, 5.0), (1, 1, 4.0)]);
    assert!(a.get(1, 2).is_some_and(|v| v.is_nan()));
}

#[test]
fn array_symmetric_variants_store_packed_lower_columns() {
    let a = real(&with("array real symmetric", "3 3\n1\n2\n3\n4\n5\n6\n"));
    assert_eq!(
        a.to_dense().into_raw_vec_and_offset().0,
        [1.0, 2.0, 3.0, 2.0, 4.0, 5.0, 3.0, 5.0, 6.0]
    );
    let a = real(&with("array real skew-symmetric", "3 3\n2\n3\n5\n"));
    assert_eq!(
        a.to_dense().into_raw_vec_and_offset().0,
        [0.0, -2.0, -3.0, 2.0, 0.0, -5.0, 3.0, 5.0, 0.0]
    );
    let matrix = read(&with("array complex hermitian", "2 2\n1 0\n2 3\n4 -0\n"));
    let MatrixData::Complex(a) = matrix.data else {
        panic!("not complex")
    };
    assert_eq!(a.get(0, 1), Some(&Complex64::new(2.0, -3.0)));
    assert_eq!(a.get(1, 0), Some(&Complex64::new(2.0, 3.0)));
    assert_eq!(
        problem(&with("array complex hermitian", "2 2\n1 0\n2 3\n4 1\n")),
        (5, 1, Problem::ImaginaryDiagonal(2))
    );
    assert_eq!(
        problem(&with("array real symmetric", "2 2\n1\n2\n")),
        (
            5,
            1,
            Problem::TooFewEntries {
                announced: 3,
                found: 2
            }
        )
    );
    assert_eq!(
        problem(&with("array real skew-symmetric", "2 2\n1\n2\n")),
        (4, 1, Problem::TooManyEntries { announced: 1 })
    );
}

#[test]
fn empty_shapes() {
    for (sizes, shape) in [
        ("0 0 0", (0, 0)),
        ("5 0 0", (5, 0)),
        ("0 5 0", (0, 5)),
        ("3 3 0", (3, 3)),
    ] {
        let a = real(&format!("{REAL}{sizes}\n"));
        assert_eq!((a.shape(), a.nnz()), (shape, 0));
    }
    for symmetry in ["general", "symmetric", "skew-symmetric"] {
        let a = real(&with(&format!("array real {symmetry}"), "0 0\n"));
        assert_eq!(a.shape(), (0, 0));
    }
    assert_eq!(real(&with("array real skew-symmetric", "1 1\n")).nnz(), 0);
    assert_eq!(real(&with("array real general", "0 7\n")).shape(), (0, 7));
    let pattern = read(&with("coordinate pattern general", "0 0 0")).pattern();
    assert_eq!(pattern.nnz(), 0);
}

#[test]
fn headers_that_are_refused() {
    use Problem::*;
    let s = str::to_owned;
    let body = "\n1 1 1\n1 1 1\n";
    for (header, column, what) in [
        (
            "%MatrixMarkt matrix coordinate real general",
            1,
            NoBanner(s("%MatrixMarkt")),
        ),
        (
            " %%MatrixMarket matrix coordinate real general",
            1,
            NoBanner(s("%%MatrixMarket")),
        ),
        (
            "%%MatrixMarkets matrix coordinate real general",
            1,
            NoBanner(s("%%MatrixMarkets")),
        ),
        ("", 1, NoBanner(s(""))),
        ("%%MatrixMarket", 15, Missing("object, \"matrix\"")),
        (
            "%%MatrixMarket vector coordinate real general",
            16,
            UnknownObject(s("vector")),
        ),
        (
            "%%MatrixMarket matrix Elemental real general",
            23,
            UnknownFormat(s("Elemental")),
        ),
        (
            "%%MatrixMarket matrix coordinate quaternion general",
            34,
            UnknownField(s("quaternion")),
        ),
        (
            "%%MatrixMarket matrix coordinate real",
            38,
            Missing("symmetry"),
        ),
        (
            "%%MatrixMarket matrix coordinate real lower  ",
            39,
            UnknownSymmetry(s("lower")),
        ),
        (
            "%%MatrixMarket matrix coordinate real general x",
            47,
            Extra(s("x")),
        ),
    ] {
        assert_eq!(problem(&format!("{header}{body}")), (1, column, what));
    }
    for (format, field, symmetry) in [
        (Format::Array, Field::Pattern, Symmetry::General),
        (Format::Coordinate, Field::Pattern, Symmetry::SkewSymmetric),
        (Format::Coordinate, Field::Pattern, Symmetry::Hermitian),
        (Format::Coordinate, Field::Real, Symmetry::Hermitian),
        (Format::Array, Field::Integer, Symmetry::Hermitian),
    ] {
        let (line, _, what) = problem(&with(
            &format!("{format} {field} {symmetry}"),
            "1 1 1\n1 1 1\n",
        ));
        assert_eq!(line, 1);
        assert_eq!(
            what,
            Combination {
                format,
                field,
                symmetry
            }
        );
    }
    assert_eq!(problem(""), (1, 1, EmptyFile));
}

#[test]
fn size_lines_that_are_refused() {
    use Problem::*;
    let s = str::to_owned;
    for (sizes, column, what) in [
        ("-40 40 1", 1, BadSize(s("-40"))),
        ("4 4.0 1", 3, BadSize(s("4.0"))),
        ("4 4 +1", 5, BadSize(s("+1"))),
        (
            "4 4 99999999999999999999",
            5,
            BadSize(s("99999999999999999999")),
        ),
        ("4 4", 4, Missing("number of entries")),
        ("4", 2, Missing("number of columns")),
        ("4 4 1 1", 7, Extra(s("1"))),
    ] {
        assert_eq!(problem(&format!("{REAL}%\n{sizes}\n")), (3, column, what));
    }
    assert_eq!(
        problem(&with("array real general", "2 2 4\n")),
        (2, 5, Extra(s("4")))
    );
    assert_eq!(problem(&format!("{REAL}% only\n")), (3, 1, NoSizeLine));
    assert_eq!(
        problem(&with("coordinate real symmetric", "3 4 0\n")),
        (
            2,
            1,
            NotSquare {
                symmetry: Symmetry::Symmetric,
                nrows: 3,
                ncols: 4
            }
        )
    );
}

#[test]
fn sizes_beyond_32_bits_overflow() {
    for (sizes, column, value) in [
        ("99999999999 1 1", 1, 99_999_999_999),
        ("1 4294967295 1", 3, 4_294_967_295),
        ("1 99999999999999999999999 1", 3, usize::MAX),
    ] {
        match kind(&format!("{REAL}{sizes}\n1 1 1\n")) {
            ReadErrorKind::IndexOverflow {
                line: 2,
                column: at,
                source,
            } => {
                assert_eq!((at, source.value), (column, value));
            }
            other => panic!("{other}"),
        }
    }
    let a = real(&format!("{REAL}1 4294967294 1\n1 4294967294 1\n"));
    assert_eq!(a.indices(), [4_294_967_293]);
}

#[test]
fn sizes_out_of_proportion_are_refused() {
    match kind(&format!("{REAL}4000000000 5 1\n1 1 1\n")) {
        ReadErrorKind::ImplausibleSize {
            nrows: 4_000_000_000,
            ncols: 5,
            entries: 1,
        } => {}
        other => panic!("{other}"),
    }
    // A few million rows are taken on trust.
    assert_eq!(real(&format!("{REAL}4194304 1 0\n")).rows(), 1 << 22);
    let error = read_dense_from(format!("{REAL}100000 100000 1\n1 1 1\n").as_bytes());
    assert!(matches!(
        error.map_err(|error| error.kind),
        Err(ReadErrorKind::ImplausibleSize { entries: 1, .. })
    ));
}

#[test]
fn entries_that_are_refused() {
    use Problem::*;
    let s = str::to_owned;
    let entry = |text: &str| problem(&format!("{REAL}3 2 2\n1 1 1\n{text}\n"));
    let range = |axis, index, bound| IndexOutOfRange { axis, index, bound };
    for (text, column, what) in [
        ("0 1 1", 1, IndexZero("row")),
        ("1 0 1", 3, IndexZero("column")),
        ("4 1 1", 1, range("row", 4, 3)),
        ("\t3 3 1", 4, range("column", 3, 2)),
        (
            "1 99999999999999999999999 1",
            3,
            range("column", u64::MAX, 2),
        ),
        ("-1 1 1", 1, BadIndex(s("-1"))),
        ("1 +1 1", 3, BadIndex(s("+1"))),
        ("1 1.0 1", 3, BadIndex(s("1.0"))),
        ("x 1 1", 1, BadIndex(s("x"))),
        ("1", 2, Missing("column index")),
        ("1 1  ", 4, Missing("value")),
        ("1 1 1 1", 7, Extra(s("1"))),
        ("1 1 1 % no comments here", 7, Extra(s("%"))),
        ("1 2-3", 3, BadIndex(s("2-3"))),
    ] {
        assert_eq!(entry(text), (4, column, what), "{text}");
    }
    let complex = |text: &str| {
        problem(&with(
            "coordinate complex general",
            &format!("2 2 1\n{text}\n"),
        ))
    };
    assert_eq!(complex("1 1 1"), (3, 6, Missing("imaginary part")));
    assert_eq!(complex("1 1"), (3, 4, Missing("real part")));
    assert_eq!(complex("1 1 1 y"), (3, 7, BadNumber(s("y"))));
    assert_eq!(complex("1 1 1 2 3"), (3, 9, Extra(s("3"))));
    let pattern = problem(&with("coordinate pattern general", "2 2 1\n1 1 1\n"));
    assert_eq!(pattern, (3, 5, Extra(s("1"))));
    let array = problem(&with("array real general", "1 2\n1 2\n"));
    assert_eq!(array, (3, 3, Extra(s("2"))));
}

#[test]
fn triangles_that_are_refused() {
    for symmetry in [
        Symmetry::Symmetric,
        Symmetry::SkewSymmetric,
        Symmetry::Hermitian,
    ] {
        let text = with(
            &format!("coordinate complex {symmetry}"),
            "3 3 2\n2 1 1 0\n1 3 1 0\n",
        );
        let what = Problem::UpperEntry {
            row: 1,
            col: 3,
            symmetry,
        };
        assert_eq!(problem(&text), (4, 3, what));
    }
    let text = with("coordinate real skew-symmetric", "3 3 1\n2 2 0\n");
    assert_eq!(problem(&text), (3, 3, Problem::SkewDiagonal(2)));
    let text = with("coordinate complex hermitian", "3 3 1\n2 2 1 5e-1\n");
    assert_eq!(problem(&text), (3, 5, Problem::ImaginaryDiagonal(2)));
    let text = with("coordinate complex hermitian", "3 3 1\n2 2 1 -0\n");
    assert_eq!(read(&text).nnz(), 1);
}

#[test]
fn counts_that_are_lies() {
    use Problem::{TooFewEntries, TooManyEntries};
    let text = format!("{REAL}2 2 1\n1 1 1\n\n% c\n  2 2 1\n");
    assert_eq!(problem(&text), (6, 3, TooManyEntries { announced: 1 }));
    let announced = 4_000_000_000_000;
    let text = format!("{REAL}2 2 {announced}\n1 1 1\n\n");
    assert_eq!(
        problem(&text),
        (
            5,
            1,
            TooFewEntries {
                announced,
                found: 1
            }
        )
    );
    // Cut in the middle of a line: the line is the first offender.
    let text = format!("{REAL}2 2 2\n1 1 1\n2");
    assert_eq!(problem(&text), (4, 2, Problem::Missing("column index")));
}

#[test]
fn the_first_offender_is_named() {
    let text = format!("{REAL}2 2 9\n1 1 x\n5 5 5\n");
    assert_eq!(problem(&text).0, 3);
}

#[test]
fn lines_have_a_limit() {
    let limit = 256 * 1024;
    let comment = "c".repeat(limit);
    let text = format!("{REAL}%{comment}\n1 1 0\n");
    assert_eq!(problem(&text), (2, 1, Problem::LineTooLong { limit }));
    let text = format!("{REAL}%{}\n1 1 0\n", &comment[..limit - 2]);
    assert_eq!(read(&text).header.comments[0].len(), limit - 2);
}

#[test]
fn lines_that_cross_the_ends_of_pieces() {
    // Longer than several pieces, with lines of uneven lengths; read at once and byte by byte.
    let n = 40_000;
    let mut text = format!("{REAL}{n} {n} {n}\n");
    for i in 1..=n {
        text += &format!("{i}  {i} {}\n", i as f64 / 7.0);
        if i % 1000 == 0 {
            text += "% every now and then\n\n";
        }
    }
    let a = real(&text);
    assert!((0..n).all(|i| a.get(i, i) == Some(&((i + 1) as f64 / 7.0))));

    struct Dribble<'a>(&'a [u8], bool);
    impl std::io::Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let len = buffer.len().min(self.0.len()).min(1);
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }
    let b = luge_matrix_io::read_from(Dribble(text.as_bytes(), false)).expect("the same text");
    assert_eq!(MatrixData::Real(a), b.data);
}

#[test]
fn failures_of_the_source_have_a_position() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("unplugged"))
        }
    }
    use std::io::Read;
    let text = format!("{REAL}2 2 2\n1 1 1\n2");
    let error = luge_matrix_io::read_from(text.as_bytes().chain(Broken)).expect_err("broken");
    match error.kind {
        ReadErrorKind::Io {
            line: 4,
            offset,
            source,
        } => {
            assert_eq!(offset, text.len() as u64);
            assert_eq!(source.to_string(), "unplugged");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn dense_matrices_of_both_formats() {
    let dense = |text: &str| read_dense_from(text.as_bytes()).map_err(|error| error.kind);
    let a = dense(&with("array real general", "2 2\n1\n-0\n3\n4\n")).expect("dense");
    assert_eq!((a.nrows(), a.ncols()), (2, 2));
    assert_eq!(a.values(), [1.0, 0.0, 3.0, 4.0]);
    assert!(a.values()[1].is_sign_negative());
    assert_eq!(a.column(1), [3.0, 4.0]);
    let a = dense(&format!("{REAL}3 2 3\n3 1 5\n1 2 -0\n3 1 1\n")).expect("dense");
    assert_eq!(a.values(), [0.0, 0.0, 6.0, 0.0, 0.0, 0.0]);
    assert!(a.column(1)[0].is_sign_negative());
    let a = dense(&with("array integer skew-symmetric", "2 2\n7\n")).expect("dense");
    assert_eq!(a, DenseMatrix::new(2, 2, vec![0.0, 7.0, -7.0, 0.0]));
    let a = dense(&with("coordinate real symmetric", "2 2 2\n2 1 7\n2 2 1\n")).expect("dense");
    assert_eq!(a.into_values(), [0.0, 7.0, 7.0, 1.0]);
    assert_eq!(
        dense(&with("array real general", "5 0\n"))
            .expect("dense")
            .values(),
        []
    );
    for field in [Field::Complex, Field::Pattern] {
        let text = with(&format!("coordinate {field} general"), "1 1 0\n");
        match dense(&text) {
            Err(ReadErrorKind::NotReal(error)) => assert_eq!(error.field, field),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn complex_and_pattern_are_not_real() {
    for (field, entry) in [(Field::Complex, "2 1 1 2"), (Field::Pattern, "2 1")] {
        let text = with(
            &format!("coordinate {field} general"),
            &format!("2 3 1\n{entry}\n"),
        );
        let matrix = read(&text);
        assert_eq!(matrix.shape(), (2, 3));
        let pattern = matrix.pattern();
        assert_eq!(pattern.ptr(), [0, 0, 1]);
        assert_eq!(pattern.idx(), [0]);
        let error = matrix.into_real().expect_err("not real");
        assert_eq!(error.field, field);
        assert_eq!(
            error.to_string(),
            format!("real values are needed, but the field of this matrix is {field}")
        );
    }
}

#[test]
fn the_pattern_of_rows_cut_out_of_another_matrix_is_theirs() {
    let text = format!("{REAL}4 2 5\n1 1 1\n2 2 2\n3 1 3\n3 2 4\n4 2 5\n");
    let whole = real(&text);
    let rows = whole.slice_outer(2..4).to_owned();
    assert_ne!(rows.indptr().raw_storage()[0], 0, "as sprs cuts them out");
    let cut = Matrix {
        data: MatrixData::Real(rows),
        ..read(&text)
    };
    let pattern = cut.pattern();
    assert_eq!((pattern.major_dim(), pattern.minor_dim()), (2, 2));
    assert_eq!(pattern.line(0), [0, 1]);
    assert_eq!(pattern.line(1), [1]);
}
