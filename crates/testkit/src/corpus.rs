//! The corpus: matrices on disk that tests and benchmarks run over, where they are installed.
//!
//! ```text
//! <corpus>/dev/<group>/NAME.mtx.gz       made by simulators and discretisations
//! <corpus>/dev/degenerate/NAME.mtx.gz    broken files and hard cases
//! <corpus>/collection/NAME.mtx.gz        real matrices
//! ```
//!
//! [`Corpus::open`] lists the files and reads nothing of them but their headers, so a list of matrices
//! can be filtered by size and field before any is loaded. Files may be plain or gzip.

mod kind;

pub use kind::{Kind, UnknownKind};

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use luge_matrix_io::{Field, Format, Matrix, ReadError, Symmetry};

/// The environment variable that says where the corpus is.
pub const CORPUS_VARIABLE: &str = "LUGE_CORPUS";

/// Which part of the corpus a matrix belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// A folder of `dev`, such as `circuit`.
    Dev(String),
    /// `collection`.
    Collection,
    /// `dev/degenerate`.
    Degenerate,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dev(folder) => f.pad(folder),
            Self::Collection => f.pad("collection"),
            Self::Degenerate => f.pad("degenerate"),
        }
    }
}

/// What the first lines of a file announce. Nothing says that the rest of the file agrees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// Layout of the entries.
    pub format: Format,
    /// Type of the values.
    pub field: Field,
    /// Which entries are stored.
    pub symmetry: Symmetry,
    /// Number of rows.
    pub nrows: u64,
    /// Number of columns.
    pub ncols: u64,
    /// Number of stored entries: for symmetric storage, those of one triangle.
    pub stored: u64,
}

/// A file of the corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file's name without `.mtx` and `.gz`.
    pub name: String,
    /// Where the file is.
    pub path: PathBuf,
    /// Which part of the corpus it belongs to.
    pub group: Group,
    /// What it announces; `None` if its first lines are not those of a Matrix Market file.
    pub header: Option<FileHeader>,
}

impl Entry {
    /// The order, if the header announces a square matrix.
    pub fn order(&self) -> Option<u64> {
        self.header.filter(|h| h.nrows == h.ncols).map(|h| h.nrows)
    }

    /// Whether the file holds a square matrix with real values: what a real solver is made for.
    pub fn is_square_real(&self) -> bool {
        let real = |h: FileHeader| matches!(h.field, Field::Real | Field::Integer);
        self.order().is_some() && self.header.is_some_and(real)
    }

    /// Whether the file holds a square matrix with complex values.
    pub fn is_square_complex(&self) -> bool {
        self.order().is_some() && self.header.is_some_and(|h| h.field == Field::Complex)
    }

    /// What a solver must make of this file; any one of them is right.
    pub fn expectations(&self) -> &'static [Expectation] {
        let known = match self.group {
            Group::Degenerate => degenerate_expectations(&self.name),
            _ => look_up(SINGULAR, &self.name),
        };
        match (known, self.header.map(|h| h.field)) {
            (Some(expectations), _) => expectations,
            (None, Some(Field::Pattern)) => &[Expectation::Refused(Refusal::Pattern)],
            (None, Some(_)) if self.order().is_none() => {
                &[Expectation::Refused(Refusal::NotSquare)]
            }
            (None, Some(_)) => &[Expectation::Solves],
            (None, None) => &[Expectation::ParseError],
        }
    }

    /// The application it comes from.
    pub fn kind(&self) -> Kind {
        Kind::of(&self.group, &self.name)
    }

    /// Reads the matrix.
    ///
    /// # Errors
    ///
    /// As [`luge_matrix_io::read()`].
    pub fn read(&self) -> Result<Matrix, ReadError> {
        luge_matrix_io::read(&self.path)
    }
}

/// Why a readable matrix is no system that a solver takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There are no values.
    Pattern,
    /// There are more rows than columns, or fewer.
    NotSquare,
}

/// What a solver must make of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// It solves, with a small backward error.
    Solves,
    /// It is solved, with the warning that it is ill-conditioned.
    SolvesIllConditioned,
    /// It is refused as structurally singular.
    StructurallySingular {
        /// The structural rank that must be reported, where it is known.
        rank: Option<usize>,
    },
    /// It is refused as singular, though its structure is not.
    NumericallySingular,
    /// It is refused for a value that is infinite or not a number.
    NotFinite,
    /// Its text is refused, with line and column.
    ParseError,
    /// Its size is refused as too large for 32-bit indices.
    TooLarge,
    /// Reading fails, because the compressed stream is damaged.
    IoError,
    /// It can be read, but is no real square system.
    Refused(Refusal),
}

const fn deficient(rank: usize) -> Expectation {
    Expectation::StructurallySingular { rank: Some(rank) }
}

/// What must become of the file, as words that end a sentence with "must".
impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Solves => f.write_str("solve it"),
            Self::SolvesIllConditioned => {
                f.write_str("solve it, and warn that it is ill-conditioned")
            }
            Self::StructurallySingular { rank: Some(rank) } => {
                write!(f, "refuse it: structural rank {rank}")
            }
            Self::StructurallySingular { rank: None } => {
                f.write_str("refuse it: structurally singular")
            }
            Self::NumericallySingular => f.write_str("refuse it: singular"),
            Self::NotFinite => f.write_str("refuse a value that is not finite"),
            Self::ParseError => f.write_str("refuse its text"),
            Self::TooLarge => f.write_str("refuse its size"),
            Self::IoError => f.write_str("refuse the damaged file"),
            Self::Refused(Refusal::Pattern) => f.write_str("refuse a pattern without values"),
            Self::Refused(Refusal::NotSquare) => f.write_str("refuse it: not square"),
        }
    }
}

/// Matrices of `dev` and `collection` that are singular, or so close to it that a solver may say so:
/// all of order up to 20,000, and one beyond that is known. Of the others of that size SuperLU finds a
/// smallest pivot above 1e-12 once they are scaled.
const SINGULAR: &[(&str, &[Expectation])] = {
    use Expectation::*;
    &[
        ("dwg961a", &[deficient(705)]),
        ("fidapex6", NEAR_SINGULAR),
        ("mbeacxc", &[deficient(448)]),
        ("mhd1280a", NEAR_SINGULAR),
        ("mm_aug2d_kkt", &[deficient(30196)]),
        ("mm_aug3d_kkt", &[deficient(4161)]),
        (
            "mm_boyd2_kkt",
            &[NumericallySingular, StructurallySingular { rank: None }],
        ),
        ("mm_cvxqp2_l_kkt", NEAR_SINGULAR),
        ("mm_powell20_kkt", &[NumericallySingular]),
        ("mm_q25fv47_kkt", &[deficient(1991)]),
        ("mm_qpilotno_kkt", &[deficient(1976)]),
        ("mm_qship12l_kkt", &[deficient(3736)]),
        ("mm_stadat3_kkt", &[deficient(8002)]),
        ("mm_ubh1_kkt", &[deficient(30003)]),
        ("pyamg_unit_square", NEAR_SINGULAR),
        // All but 266 of its rows can be matched through stored zeros only.
        ("zenios", &[NumericallySingular, deficient(266)]),
    ]
};

/// The smallest pivot of the scaled matrix is a few ε.
const NEAR_SINGULAR: &[Expectation] = &[Expectation::Solves, Expectation::NumericallySingular];

/// What the index of the corpus expects of each file of `dev/degenerate`, by name; any one of the
/// expectations of a file is right. `None` for an unknown name.
pub fn degenerate_expectations(name: &str) -> Option<&'static [Expectation]> {
    look_up(DEGENERATE, name)
}

fn look_up(table: &'static [(&str, &[Expectation])], name: &str) -> Option<&'static [Expectation]> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map(|(_, expectations)| *expectations)
}

/// Most of these files are variations of one 40 × 40 matrix.
const DEGENERATE: &[(&str, &[Expectation])] = {
    use Expectation::*;
    &[
        ("antidiagonal", &[Solves]),
        ("array", &[Solves]),
        ("bad_header", &[ParseError]),
        ("bad_number", &[ParseError]),
        ("complex", &[Solves]),
        ("crlf_comments_blank", &[Solves]),
        ("denormal", &[Solves]),
        ("dense_row_col", &[Solves]),
        ("diagonal", &[Solves]),
        ("duplicates", &[Solves]),
        ("empty_col", &[deficient(39)]),
        ("empty_file", &[ParseError]),
        ("empty_row", &[deficient(39)]),
        ("explicit_zeros", &[Solves]),
        ("fortran_exponent", &[Solves, ParseError]),
        ("growth_wilkinson", &[Solves]),
        ("gzip_truncated", &[IoError]),
        ("hermitian", &[Solves]),
        ("hilbert_band", &[Solves]),
        ("huge_nnz", &[ParseError]),
        ("huge_size", &[TooLarge]),
        ("index_out_of_range", &[ParseError]),
        ("index_zero", &[ParseError]),
        ("inf_value", &[NotFinite]),
        ("integer", &[Solves]),
        ("kahan", &[Solves]),
        ("lower_triangular", &[Solves]),
        ("missing_value", &[ParseError]),
        ("nan_value", &[NotFinite]),
        ("near_singular", &[Solves]),
        ("negative_size", &[ParseError]),
        ("no_entries", &[deficient(0)]),
        ("no_final_newline", &[Solves]),
        ("no_size_line", &[ParseError]),
        // Whether a pivot is left of rounding depends on the order of elimination.
        (
            "numeric_singular",
            &[NumericallySingular, SolvesIllConditioned],
        ),
        ("one_by_one", &[Solves]),
        ("one_by_one_zero", &[deficient(0)]),
        ("overflow_value", &[ParseError, NotFinite]),
        ("pattern_only", &[Refused(Refusal::Pattern)]),
        ("rectangular", &[Refused(Refusal::NotSquare)]),
        ("row_col_scale", &[Solves]),
        ("row_scale_400_orders", &[Solves]),
        ("saddle", &[Solves]),
        ("skew", &[Solves]),
        ("stored_zero_col", &[NumericallySingular]),
        ("struct_singular", &[deficient(39)]),
        ("symmetric", &[Solves]),
        ("symmetric_upper", &[Solves, ParseError]),
        ("tabs_spaces_case", &[Solves]),
        ("tiny_pivots", &[Solves]),
        ("too_many_entries", &[ParseError]),
        ("truncated", &[ParseError]),
        ("unknown_field", &[ParseError]),
        ("zero_by_zero", &[Solves]),
        ("zero_diagonal", &[Solves]),
    ]
};

/// The list of the corpus.
#[derive(Debug, Clone)]
pub struct Corpus {
    root: PathBuf,
    entries: Vec<Entry>,
}

impl Corpus {
    /// The corpus at the place named by the environment variable `LUGE_CORPUS`, or, if it is not
    /// set, at `../shared/corpus` beside the workspace. `None` if there is none at that default place.
    ///
    /// # Panics
    ///
    /// If the variable is set and there is no corpus there (tests that were asked for must not be
    /// skipped for a misspelt path), or if a folder or file of the corpus cannot be opened.
    #[track_caller]
    pub fn open() -> Option<Self> {
        let (root, asked_for) = match std::env::var_os(CORPUS_VARIABLE) {
            Some(root) => (PathBuf::from(root), true),
            None => (default_root(), false),
        };
        if root.is_dir() {
            let listed = Self::open_at(&root);
            return Some(listed.unwrap_or_else(|e| panic!("{}: {e}", root.display())));
        }
        assert!(
            !asked_for,
            "{CORPUS_VARIABLE} names {}, which is no folder",
            root.display()
        );
        None
    }

    /// As [`open`](Self::open); without a corpus it also says on standard error that `tests` tests
    /// are skipped.
    #[track_caller]
    pub fn open_or_skip(tests: usize) -> Option<Self> {
        let corpus = Self::open();
        if corpus.is_none() {
            let reason = format!("no corpus; set {CORPUS_VARIABLE} to its folder");
            skip_loudly(tests, &reason);
        }
        corpus
    }

    /// Lists the corpus in a folder. Files that are not called `*.mtx` or `*.mtx.gz` are left out.
    ///
    /// # Errors
    ///
    /// If a folder or file cannot be opened.
    pub fn open_at(root: &Path) -> io::Result<Self> {
        let mut entries = Vec::new();
        for folder in folders(&root.join("dev"))? {
            let name = file_name(&folder);
            let group = match name.as_str() {
                "degenerate" => Group::Degenerate,
                _ => Group::Dev(name),
            };
            list(&folder, &group, &mut entries)?;
        }
        let collection = root.join("collection");
        if collection.is_dir() {
            list(&collection, &Group::Collection, &mut entries)?;
        }
        entries.sort_by(|a, b| (&a.group, &a.name).cmp(&(&b.group, &b.name)));
        Ok(Self {
            root: root.to_path_buf(),
            entries,
        })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All files, by group and name.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The file of that name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The degenerate files, by name.
    pub fn degenerate(&self) -> impl Iterator<Item = &Entry> {
        let degenerate = |entry: &&Entry| entry.group == Group::Degenerate;
        self.entries.iter().filter(degenerate)
    }

    /// The square real matrices with values of order at most `max_n`, without the degenerate ones, by
    /// order and name.
    pub fn square_real(&self, max_n: u64) -> Vec<&Entry> {
        let mut found: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| entry.group != Group::Degenerate && entry.is_square_real())
            .filter(|entry| entry.order().is_some_and(|n| n <= max_n))
            .collect();
        found.sort_by_key(|entry| (entry.order(), &entry.name));
        found
    }
}

/// Says on standard error that tests did not run, past the test harness, which would swallow the
/// output of a test that passes.
pub fn skip_loudly(tests: usize, reason: &str) {
    let plural = if tests == 1 { "" } else { "s" };
    // Nowhere is left to say that standard error cannot be written to.
    let _ = writeln!(io::stderr(), "SKIPPED {tests} test{plural}: {reason}");
}

fn default_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus")
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn folders(parent: &Path) -> io::Result<Vec<PathBuf>> {
    if !parent.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for item in fs::read_dir(parent)? {
        let path = item?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

fn list(folder: &Path, group: &Group, entries: &mut Vec<Entry>) -> io::Result<()> {
    for item in fs::read_dir(folder)? {
        let path = item?.path();
        let file = file_name(&path);
        let Some(name) = file
            .strip_suffix(".gz")
            .unwrap_or(&file)
            .strip_suffix(".mtx")
        else {
            continue;
        };
        entries.push(Entry {
            name: name.to_owned(),
            header: read_header(&path)?,
            path,
            group: group.clone(),
        });
    }
    Ok(())
}

/// At most this much of a file is looked at for its header.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// The header of a file; `None` if its first lines are not those of a Matrix Market file. An error
/// only if the file cannot be opened.
fn read_header(path: &Path) -> io::Result<Option<FileHeader>> {
    let mut file = BufReader::new(File::open(path)?);
    let is_gzip = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let text: Box<dyn Read> = if is_gzip {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    Ok(parse_header(BufReader::new(text.take(MAX_HEADER_BYTES))))
}

fn parse_header(mut text: impl BufRead) -> Option<FileHeader> {
    let mut line = String::new();
    // A stream that breaks off has no header either, as far as this list is concerned.
    text.read_line(&mut line).ok()?;
    let banner = line.to_ascii_lowercase();
    let words: Vec<&str> = banner.split_ascii_whitespace().collect();
    let [mark, "matrix", format, field, symmetry] = words[..] else {
        return None;
    };
    let format = [Format::Coordinate, Format::Array]
        .into_iter()
        .find(|f| f.as_str() == format)?;
    let field = [Field::Real, Field::Integer, Field::Complex, Field::Pattern]
        .into_iter()
        .find(|f| f.as_str() == field)?;
    let symmetry = [
        Symmetry::General,
        Symmetry::Symmetric,
        Symmetry::SkewSymmetric,
        Symmetry::Hermitian,
    ]
    .into_iter()
    .find(|s| s.as_str() == symmetry)?;
    if mark != "%%matrixmarket" {
        return None;
    }
    loop {
        line.clear();
        if text.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let is_comment = line.trim_start().starts_with('%') || line.trim().is_empty();
        if !is_comment {
            break;
        }
    }
    let sizes: Option<Vec<u64>> = line
        .split_ascii_whitespace()
        .map(|w| w.parse().ok())
        .collect();
    let (nrows, ncols, stored) = match (format, &sizes?[..]) {
        (Format::Coordinate, &[nrows, ncols, stored]) => (nrows, ncols, stored),
        (Format::Array, &[nrows, ncols]) => {
            let triangle = nrows.checked_mul(nrows.saturating_add(1))? / 2;
            let stored = match symmetry {
                Symmetry::General => nrows.checked_mul(ncols)?,
                Symmetry::Symmetric | Symmetry::Hermitian => triangle,
                Symmetry::SkewSymmetric => triangle - nrows,
            };
            (nrows, ncols, stored)
        }
        _ => return None,
    };
    Some(FileHeader {
        format,
        field,
        symmetry,
        nrows,
        ncols,
        stored,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::{of_both_parts, pattern_of};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use luge_matrix_io::{MatrixData, ReadErrorKind};
    use luge_reference::Dense;
    use luge_reference::matching::structural_rank;
    use luge_reference::numeric::lu_dense;
    use luge_sparse::CompressedPattern;
    use luge_sparse::PivotPolicy;

    fn header_of(text: &str) -> Option<FileHeader> {
        parse_header(text.as_bytes())
    }

    #[test]
    fn headers_are_read_and_broken_ones_are_not() {
        let header = header_of(
            "%%MatrixMarket MATRIX Coordinate Real Symmetric\r\n% n\r\n  \r\n40\t40  163\r\n1 1 x",
        );
        let header = header.unwrap();
        assert_eq!((header.nrows, header.ncols, header.stored), (40, 40, 163));
        assert_eq!(
            (header.field, header.symmetry),
            (Field::Real, Symmetry::Symmetric)
        );
        let array = header_of("%%MatrixMarket matrix array real skew-symmetric\n5 5\n").unwrap();
        assert_eq!((array.format, array.stored), (Format::Array, 10));
        for broken in [
            "",
            "%MatrixMarkt matrix coordinate real general\n1 1 0\n",
            "%%MatrixMarket matrix coordinate quaternion general\n1 1 0\n",
            "%%MatrixMarket matrix coordinate real general\n% no sizes\n",
            "%%MatrixMarket matrix coordinate real general\n-1 1 0\n",
            "%%MatrixMarket matrix coordinate real general\n1 1\n",
        ] {
            assert_eq!(header_of(broken), None, "{broken}");
        }
    }

    /// A corpus of five files.
    fn small_corpus() -> (tempfile::TempDir, Corpus) {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, field: &str, sizes: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text =
                format!("%%MatrixMarket matrix coordinate {field} general\n{sizes}\n1 1 2\n");
            if path.extension().unwrap() == "gz" {
                let mut gzip = GzEncoder::new(File::create(path).unwrap(), Compression::fast());
                gzip.write_all(text.as_bytes()).unwrap();
                gzip.finish().unwrap();
            } else {
                fs::write(path, text).unwrap();
            }
        };
        write("dev/circuit/large.mtx.gz", "real", "900 900 1");
        write("dev/circuit/wide.mtx", "real", "3 4 1");
        write("dev/degenerate/one_by_one.mtx.gz", "real", "1 1 1");
        write("collection/small.mtx", "integer", "7 7 1");
        write("collection/graph.mtx.gz", "pattern", "5 5 1");
        fs::write(folder.path().join("collection/README"), "no matrix").unwrap();
        let corpus = Corpus::open_at(folder.path()).unwrap();
        (folder, corpus)
    }

    #[test]
    fn files_are_listed_and_filtered_by_header() {
        let (_folder, corpus) = small_corpus();
        let names = |entries: &[&Entry]| -> Vec<String> {
            entries
                .iter()
                .map(|e| format!("{}/{}", e.group, e.name))
                .collect()
        };
        let all: Vec<&Entry> = corpus.entries().iter().collect();
        assert_eq!(
            names(&all),
            [
                "circuit/large",
                "circuit/wide",
                "collection/graph",
                "collection/small",
                "degenerate/one_by_one"
            ]
        );
        assert_eq!(
            names(&corpus.square_real(1000)),
            ["collection/small", "circuit/large"]
        );
        assert_eq!(names(&corpus.square_real(7)), ["collection/small"]);
        assert_eq!(corpus.square_real(6), [] as [&Entry; 0]);
        assert_eq!(corpus.degenerate().count(), 1);
        let expectation = |name| corpus.find(name).unwrap().expectations();
        assert_eq!(
            expectation("wide"),
            [Expectation::Refused(Refusal::NotSquare)]
        );
        assert_eq!(
            expectation("graph"),
            [Expectation::Refused(Refusal::Pattern)]
        );
        assert_eq!(expectation("small"), [Expectation::Solves]);
        assert_eq!(corpus.find("one_by_one").unwrap().read().unwrap().nnz(), 1);
        assert!(corpus.find("large.mtx").is_none());
    }

    #[test]
    fn a_folder_without_corpus_is_an_empty_corpus() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Corpus::open_at(folder.path()).unwrap().entries().is_empty());
    }

    /// The sizes of the index, from its rows `| group | name | n | nnz |…` and `| name | n |…`.
    #[test]
    fn the_list_agrees_with_the_index() {
        let Some(corpus) = Corpus::open_or_skip(1) else {
            return;
        };
        let index = fs::read_to_string(corpus.root().join("INDEX.md")).unwrap();
        let mut checked = 0;
        for line in index.lines().filter(|line| line.starts_with('|')) {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let (name, n) = match cells[..] {
                [_, _, name, n, nnz, _, _, _, ..]
                    if nnz.parse::<u64>().is_ok() && cells.len() > 9 =>
                {
                    (name, n)
                }
                [_, name, n, nnz, ..] if nnz.parse::<u64>().is_ok() => (name, n),
                _ => continue,
            };
            let Ok(n) = n.parse::<u64>() else { continue };
            let entry = corpus
                .find(name)
                .unwrap_or_else(|| panic!("{name} is not listed"));
            assert_eq!(
                entry.order().or(entry.header.map(|h| h.nrows)),
                Some(n),
                "{name}"
            );
            checked += 1;
        }
        let listed = corpus
            .entries()
            .iter()
            .filter(|e| e.group != Group::Degenerate);
        assert_eq!(checked, listed.count());
    }

    #[test]
    fn the_table_covers_exactly_the_degenerate_files() {
        assert!(DEGENERATE.is_sorted_by_key(|(name, _)| *name));
        let Some(corpus) = Corpus::open_or_skip(1) else {
            return;
        };
        let files: Vec<&str> = corpus.degenerate().map(|e| e.name.as_str()).collect();
        let table: Vec<&str> = DEGENERATE.iter().map(|(name, _)| *name).collect();
        assert_eq!(files, table);
    }

    /// What can be said of a file with nothing but the reader and dense references.
    fn verdict(entry: &Entry) -> Expectation {
        let matrix = match entry.read() {
            Ok(matrix) => matrix,
            Err(error) => {
                return match error.kind {
                    ReadErrorKind::Io { .. } => Expectation::IoError,
                    ReadErrorKind::IndexOverflow { .. } => Expectation::TooLarge,
                    _ => Expectation::ParseError,
                };
            }
        };
        let (nrows, ncols) = matrix.shape();
        if nrows != ncols {
            return Expectation::Refused(Refusal::NotSquare);
        }
        let a = match matrix.data {
            MatrixData::Real(a) => a,
            MatrixData::Complex(a) => of_both_parts(&a),
            MatrixData::Pattern(_) => return Expectation::Refused(Refusal::Pattern),
        };
        let nrows = a.rows();
        if a.data().iter().any(|v| !v.is_finite()) {
            return Expectation::NotFinite;
        }
        let pattern = pattern_of(&a);
        let rank = structural_rank(&pattern);
        if rank < nrows {
            return Expectation::StructurallySingular { rank: Some(rank) };
        }
        // Rows and columns in turn are divided by the geometric mean of their entries, which undoes
        // factors of any size; at last rows by their largest entry.
        let mut scaled = Dense::from_csr(&pattern, a.data());
        for pass in 0..41 {
            let by_columns = pass % 2 == 1;
            let size = |k: usize| {
                let entry = |l| {
                    if by_columns {
                        scaled[(l, k)]
                    } else {
                        scaled[(k, l)]
                    }
                };
                let sizes = (0..nrows).map(|l| f64::abs(entry(l))).filter(|&v| v > 0.0);
                if pass == 40 {
                    sizes.fold(0.0, f64::max)
                } else {
                    let count = sizes.clone().count() as f64;
                    (sizes.map(f64::ln).sum::<f64>() / count).exp()
                }
            };
            let sizes: Vec<f64> = (0..nrows).map(size).collect();
            if sizes.iter().any(|s| s.is_nan()) {
                // Nothing but stored zeros.
                return Expectation::NumericallySingular;
            }
            scaled = Dense::from_fn(nrows, nrows, |i, j| {
                scaled[(i, j)] / sizes[if by_columns { j } else { i }]
            });
        }
        let bound = 8.0 * f64::EPSILON;
        match lu_dense(&scaled, PivotPolicy::PARTIAL) {
            Ok(lu) if (0..nrows).all(|k| lu.factors[(k, k)].abs() > bound) => Expectation::Solves,
            _ => Expectation::NumericallySingular,
        }
    }

    #[test]
    fn the_structural_ranks_of_singular_matrices_are_true() {
        assert!(SINGULAR.is_sorted_by_key(|(name, _)| *name));
        let Some(corpus) = Corpus::open_or_skip(1) else {
            return;
        };
        let mut checked = 0;
        for (name, expectations) in SINGULAR {
            let entry = corpus
                .find(name)
                .unwrap_or_else(|| panic!("{name} is not listed"));
            for expectation in *expectations {
                let Expectation::StructurallySingular { rank: Some(rank) } = expectation else {
                    continue;
                };
                let a = match entry.read().unwrap().data {
                    MatrixData::Real(a) => a,
                    MatrixData::Complex(a) => a.map(|v| v.norm()),
                    MatrixData::Pattern(_) => panic!("{name} has no values"),
                };
                // Stored zeros make no rank.
                let stored = pattern_of(&a);
                let rows = (0..a.rows()).map(|i| {
                    let kept = stored.range(i).filter(|&p| a.data()[p] != 0.0);
                    kept.map(|p| stored.idx()[p]).collect::<Vec<u32>>()
                });
                let (mut ptr, mut idx) = (vec![0], Vec::new());
                for row in rows {
                    idx.extend(row);
                    ptr.push(idx.len() as u64);
                }
                let pattern = CompressedPattern::new(a.cols(), ptr, idx).unwrap();
                assert_eq!(structural_rank(&pattern), *rank, "{name}");
                checked += 1;
            }
        }
        assert_eq!(checked, 10);
    }

    #[test]
    fn the_table_of_degenerate_files_is_true() {
        let Some(corpus) = Corpus::open_or_skip(1) else {
            return;
        };
        for entry in corpus.degenerate() {
            let verdict = verdict(entry);
            let table = entry.expectations();
            assert!(
                table.contains(&verdict),
                "{}: {verdict:?}, table {table:?}",
                entry.name
            );
        }
    }
}
