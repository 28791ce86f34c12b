//! The files of the corpus, where there is one.

use std::path::{Path, PathBuf};

use luge_matrix_io::{Field, Matrix, MatrixData, Problem, ReadErrorKind, Symmetry, read};
use sprs::CsMat;

/// The folder of the corpus.
fn corpus() -> Option<PathBuf> {
    let root = std::env::var_os("LUGE_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
        PathBuf::from,
    );
    if !root.is_dir() {
        eprintln!("SKIPPED: no corpus at {}", root.display());
        return None;
    }
    Some(root)
}

struct Degenerate(PathBuf);

impl Degenerate {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.mtx.gz"))
    }

    fn read(&self, name: &str) -> Matrix {
        read(self.path(name)).unwrap_or_else(|error| panic!("{error}"))
    }

    fn real(&self, name: &str) -> CsMat<f64> {
        self.read(name).into_real().expect("a real field")
    }

    fn error(&self, name: &str) -> ReadErrorKind {
        let error = read(self.path(name)).map(|_| ()).expect_err(name);
        assert_eq!(error.path, Some(self.path(name)));
        error.kind
    }

    /// Line, column and problem.
    fn problem(&self, name: &str) -> (u64, usize, Problem) {
        match self.error(name) {
            ReadErrorKind::Parse { line, column, what } => (line, column, what),
            other => panic!("{name}: {other}"),
        }
    }
}

fn values_where(a: &CsMat<f64>, test: impl Fn(f64) -> bool) -> usize {
    a.data().iter().filter(|&&v| test(v)).count()
}

#[test]
fn degenerate_files_give_what_the_index_says() {
    let Some(root) = corpus() else { return };
    let files = Degenerate(root.join("dev/degenerate"));

    // Most are variations of one 40 x 40 matrix.
    let base = files.real("no_final_newline");
    assert_eq!((base.shape(), base.nnz()), ((40, 40), 165));
    for same in ["crlf_comments_blank", "tabs_spaces_case"] {
        assert_eq!(files.real(same), base, "{same}");
    }
    let array = files.read("array");
    assert_eq!(array.stored, 1600);
    let array = array.into_real().expect("real");
    assert_eq!(array.nnz(), values_where(&base, |v| v != 0.0));
    assert!(array.iter().all(|(v, (i, j))| base.get(i, j) == Some(v)));

    // Spellings of values.
    assert_eq!(values_where(&files.real("nan_value"), f64::is_nan), 1);
    assert_eq!(
        values_where(&files.real("inf_value"), |v| v == f64::NEG_INFINITY),
        1
    );
    assert_eq!(files.real("fortran_exponent").get(5, 20), Some(&150.0));
    let overflow = Problem::NumberOverflow("1e999".to_owned());
    assert_eq!(files.problem("overflow_value"), (22, 6, overflow));
    let (line, column, what) = files.problem("bad_number");
    assert_eq!((line, column), (22, 6));
    assert!(matches!(what, Problem::BadNumber(_)));
    assert_eq!(
        values_where(&files.real("denormal"), f64::is_subnormal),
        165
    );

    // Entries.
    let duplicates = files.read("duplicates");
    assert_eq!(duplicates.stored, 225);
    let duplicates = duplicates.into_real().expect("real");
    assert!(duplicates.nnz() < 225);
    let zeros = files.real("explicit_zeros");
    // One of the 26 zeros is added to an entry that is already there.
    assert_eq!((zeros.nnz(), values_where(&zeros, |v| v == 0.0)), (190, 25));
    assert_eq!(
        values_where(&zeros, |v| v == 0.0 && v.is_sign_negative()),
        1
    );
    assert!(zeros.get(0, 39).is_some_and(|v| v.is_sign_negative()));
    assert_eq!(
        values_where(&files.real("stored_zero_col"), |v| v == 0.0),
        {
            let a = files.real("stored_zero_col").to_csc();
            let empty = a
                .outer_iterator()
                .filter(|col| col.iter().all(|(_, v)| *v == 0.0));
            empty.map(|col| col.nnz()).sum()
        }
    );

    // Fields and symmetries.
    let pattern = files.read("pattern_only");
    assert_eq!(pattern.nnz(), 165);
    let columns = base.indices().iter().map(|&j| j as u32);
    assert!(pattern.pattern().idx().iter().copied().eq(columns));
    assert!(pattern.into_real().is_err());
    for (name, field) in [("complex", Field::Complex), ("hermitian", Field::Complex)] {
        let matrix = files.read(name);
        if let (Symmetry::Hermitian, MatrixData::Complex(a)) =
            (matrix.header.symmetry, &matrix.data)
        {
            assert!(a.iter().all(|(v, (i, j))| a.get(j, i) == Some(&v.conj())));
        }
        assert_eq!(matrix.into_real().expect_err("complex").field, field);
    }
    assert_eq!(files.read("integer").header.field, Field::Integer);
    for (name, sign) in [("symmetric", 1.0), ("saddle", 1.0), ("skew", -1.0)] {
        let matrix = files.read(name);
        let stored = matrix.stored as usize;
        let a = matrix.into_real().expect("real");
        let diagonal = (0..a.rows()).filter(|&i| a.get(i, i).is_some()).count();
        assert_eq!(a.nnz(), 2 * stored - diagonal, "{name}");
        assert!(
            a.iter()
                .all(|(&v, (i, j))| a.get(j, i) == Some(&(sign * v)))
        );
    }
    let (line, column, what) = files.problem("symmetric_upper");
    assert_eq!((line, column), (4, 3));
    assert_eq!(
        what,
        Problem::UpperEntry {
            row: 1,
            col: 12,
            symmetry: Symmetry::Symmetric
        }
    );

    // Shapes.
    for (name, shape, nnz) in [
        ("rectangular", (37, 40), 154),
        ("one_by_one", (1, 1), 1),
        ("one_by_one_zero", (1, 1), 0),
        ("zero_by_zero", (0, 0), 0),
        ("no_entries", (40, 40), 0),
    ] {
        let a = files.real(name);
        assert_eq!((a.shape(), a.nnz()), (shape, nnz), "{name}");
    }

    // Headers and sizes.
    assert_eq!(files.problem("empty_file"), (1, 1, Problem::EmptyFile));
    assert!(matches!(
        files.problem("bad_header"),
        (1, 1, Problem::NoBanner(_))
    ));
    assert!(matches!(
        files.problem("unknown_field"),
        (1, 34, Problem::UnknownField(_))
    ));
    assert_eq!(files.problem("no_size_line"), (3, 1, Problem::NoSizeLine));
    assert!(matches!(
        files.problem("negative_size"),
        (2, 1, Problem::BadSize(_))
    ));
    assert!(matches!(
        files.error("huge_size"),
        ReadErrorKind::IndexOverflow { line: 2, column: 1, source } if source.value == 99_999_999_999
    ));

    // Counts and indices.
    let announced = 4_000_000_000_000;
    assert_eq!(
        files.problem("huge_nnz"),
        (
            4,
            1,
            Problem::TooFewEntries {
                announced,
                found: 1
            }
        )
    );
    assert!(matches!(
        files.problem("index_out_of_range").2,
        Problem::IndexOutOfRange {
            axis: "row",
            index: 41,
            bound: 40
        }
    ));
    assert_eq!(files.problem("index_zero").2, Problem::IndexZero("row"));
    assert_eq!(
        files.problem("truncated"),
        (113, 2, Problem::Missing("column index"))
    );
    let too_many = Problem::TooManyEntries { announced: 165 };
    assert_eq!(files.problem("too_many_entries"), (168, 1, too_many));
    assert_eq!(
        files.problem("missing_value"),
        (167, 6, Problem::Missing("value"))
    );
    match files.error("gzip_truncated") {
        ReadErrorKind::Io { line, offset, .. } => assert!(line > 100 && offset > 1000),
        other => panic!("{other}"),
    }
}

fn visit(folder: &Path, list: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the corpus") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            visit(&path, list);
        } else if path.extension().is_some_and(|extension| extension == "gz") {
            list.push(path);
        }
    }
}

#[test]
fn every_other_file_is_read() {
    let Some(root) = corpus() else { return };
    let mut list = Vec::new();
    visit(&root, &mut list);
    let refused_on_purpose = [
        "bad_header",
        "bad_number",
        "empty_file",
        "gzip_truncated",
        "huge_nnz",
        "huge_size",
        "index_out_of_range",
        "index_zero",
        "missing_value",
        "negative_size",
        "no_size_line",
        "overflow_value",
        "symmetric_upper",
        "too_many_entries",
        "truncated",
        "unknown_field",
    ];
    let (mut read_count, mut refused) = (0, 0);
    for path in list {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("UTF-8");
        let degenerate = path
            .parent()
            .is_some_and(|parent| parent.ends_with("degenerate"));
        let stem = name.trim_end_matches(".mtx.gz");
        if degenerate && refused_on_purpose.contains(&stem) {
            assert!(read(&path).is_err(), "{name} was read");
            refused += 1;
        } else {
            read(&path).unwrap_or_else(|error| panic!("{error}"));
            read_count += 1;
        }
    }
    assert_eq!(refused, refused_on_purpose.len());
    assert!(read_count > 50, "only {read_count} files");
}
