//! Reading: from a source of bytes through gzip to the parser, and from entries to matrices.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use luge_sparse::CompressedPattern;
use memchr::memrchr;
use num_complex::Complex64;
use sprs::CsMat;

use crate::assemble::{Buckets, Rows, to_columns, to_rows};
use crate::error::{NotReal, Problem, ReadError, ReadErrorKind};
use crate::header::{Field, FileFormat};
use crate::matrix::{DenseMatrix, Matrix, MatrixData};
use crate::numpy;
use crate::parse::{Body, Entries, Parsed, Parser, Purpose, Stored, TakeText};
use crate::rutherford_boeing::{self, looks_like_one};
use crate::value::Spelling;

/// The text is read in pieces of this size, which is therefore the longest line.
const BUFFER: usize = 256 * 1024;

/// Enough for the first three lines of a Rutherford–Boeing file, which have 80 characters, by their format.
const LOOK_AHEAD: usize = 1024;

/// How to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// Whether both triangles of a symmetric, skew-symmetric or hermitian matrix are built, which is
    /// the default. Otherwise only the stored, lower one is.
    pub expand_symmetry: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            expand_symmetry: true,
        }
    }
}

/// Reads a sparse matrix from a file, plain or gzip, of any format that is read. Which one it is, is told from its first
/// bytes.
///
/// The matrix is in CSR, symmetric storage is expanded, duplicates are summed, explicit zeros kept.
/// The zeros of an array file are dropped.
///
/// # Errors
///
/// [`ReadError`] naming the first line and column that break a rule.
pub fn read(path: impl AsRef<Path>) -> Result<Matrix, ReadError> {
    read_with(path, &ReadOptions::default())
}

/// As [`read()`], with options.
///
/// # Errors
///
/// As [`read()`].
pub fn read_with(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Matrix, ReadError> {
    let path = path.as_ref();
    open(path)
        .and_then(|file| Ok(sparse_from(file, options, Hint::of(path))?))
        .map_err(|error| error.at_path(path))
}

/// As [`read()`], from any source of bytes. No buffering is needed.
///
/// # Errors
///
/// As [`read()`].
pub fn read_from(source: impl Read) -> Result<Matrix, ReadError> {
    read_from_with(source, &ReadOptions::default())
}

/// As [`read_from`], with options.
///
/// # Errors
///
/// As [`read()`].
pub fn read_from_with(source: impl Read, options: &ReadOptions) -> Result<Matrix, ReadError> {
    Ok(sparse_from(source, options, Hint::None)?)
}

fn sparse_from(
    source: impl Read,
    options: &ReadOptions,
    hint: Hint,
) -> Result<Matrix, ReadErrorKind> {
    let expand = options.expand_symmetry;
    sparse(parse(source, Purpose::Sparse { expand }, hint)?)
}

/// As [`read()`], from the bytes of a file.
///
/// # Errors
///
/// As [`read()`].
pub fn read_bytes(bytes: &[u8]) -> Result<Matrix, ReadError> {
    read_from(bytes)
}

/// Reads a dense real matrix, such as right-hand sides, from a file of any format, plain or gzip. A sparse matrix is made
/// dense; a Harwell–Boeing file gives its right-hand sides.
///
/// # Errors
///
/// [`ReadError`], as for [`read()`]; [`ReadErrorKind::NotReal`] if the field is complex or pattern;
/// [`ReadErrorKind::NoRightHandSides`] if a Rutherford–Boeing file has none.
pub fn read_dense(path: impl AsRef<Path>) -> Result<DenseMatrix, ReadError> {
    let path = path.as_ref();
    open(path)
        .and_then(|file| Ok(dense_from(file, Hint::of(path))?))
        .map_err(|error| error.at_path(path))
}

/// As [`read_dense`], from any source of bytes.
///
/// # Errors
///
/// As [`read_dense`].
pub fn read_dense_from(source: impl Read) -> Result<DenseMatrix, ReadError> {
    Ok(dense_from(source, Hint::None)?)
}

fn dense_from(source: impl Read, hint: Hint) -> Result<DenseMatrix, ReadErrorKind> {
    let Parsed { header, body, rhs } = parse(source, Purpose::Dense { complex: false }, hint)?;
    if header.file == FileFormat::RutherfordBoeing {
        if header.field == Field::Complex {
            return Err(NotReal {
                field: header.field,
            }
            .into());
        }
        let none = ReadErrorKind::NoRightHandSides { file: header.file };
        return rhs.ok_or(none);
    }
    match body {
        Body::Real(entries) => dense(entries),
        Body::Integer(entries) => dense(entries),
        Body::Complex(_) | Body::Pattern(_) => unreachable!("parse refuses those fields"),
    }
}

/// As [`read_dense`], with complex values; real ones are taken, too.
///
/// # Errors
///
/// [`ReadError`], as for [`read()`]; [`ReadErrorKind::NotReal`] if the field is pattern;
/// [`ReadErrorKind::NoRightHandSides`] if a Rutherford–Boeing file has none, or complex ones, which are not read.
pub fn read_dense_complex(path: impl AsRef<Path>) -> Result<DenseMatrix<Complex64>, ReadError> {
    let path = path.as_ref();
    let read = open(path).and_then(|file| {
        let purpose = Purpose::Dense { complex: true };
        let Parsed { header, body, rhs } = parse(file, purpose, Hint::of(path))?;
        let widened = |real: DenseMatrix| real.map(|value| Complex64::new(value, 0.0));
        if header.file == FileFormat::RutherfordBoeing {
            let none = ReadErrorKind::NoRightHandSides { file: header.file };
            return Ok(rhs.map(widened).ok_or(none)?);
        }
        Ok(match body {
            Body::Real(entries) => dense(entries).map(widened),
            Body::Integer(entries) => dense(entries).map(widened),
            Body::Complex(entries) => dense(entries),
            Body::Pattern(_) => unreachable!("parse refuses that field"),
        }?)
    });
    read.map_err(|error: ReadError| error.at_path(path))
}

/// Reads a dense real matrix that has one column.
///
/// # Errors
///
/// As [`read_dense`], and [`ReadErrorKind::NotAVector`] if there is not one column.
pub fn read_vector(path: impl AsRef<Path>) -> Result<Vec<f64>, ReadError> {
    let path = path.as_ref();
    let matrix = read_dense(path)?;
    let (nrows, ncols) = (matrix.nrows(), matrix.ncols());
    if ncols != 1 {
        return Err(ReadError::from(ReadErrorKind::NotAVector { nrows, ncols }).at_path(path));
    }
    Ok(matrix.into_values())
}

fn open(path: &Path) -> Result<File, ReadError> {
    File::open(path).map_err(|source| {
        ReadError::from(ReadErrorKind::Io {
            line: 1,
            offset: 0,
            source,
        })
    })
}

/// What the name of a file says of its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    None,
    RutherfordBoeing,
}

impl Hint {
    fn of(path: &Path) -> Self {
        let is_gz = |path: &Path| {
            path.extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("gz"))
        };
        let path = match path.file_stem() {
            Some(stem) if is_gz(path) => Path::new(stem),
            _ => path,
        };
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        // The type of the matrix is an extension too, as in west0067.rua.
        match extension.as_encoded_bytes() {
            b"rb"
            | b"hb"
            | [
                b'r' | b'c' | b'i' | b'p',
                b's' | b'u' | b'h' | b'z' | b'r',
                b'a',
            ] => Self::RutherfordBoeing,
            _ => Self::None,
        }
    }
}

/// The first bytes of a source, and what follows them. A failure while they are read comes when they have been read again,
/// as it would have without looking at them.
fn look_ahead(mut source: impl Read, bytes: usize) -> (Vec<u8>, impl Read) {
    let mut start = vec![0u8; bytes];
    let mut len = 0;
    let mut failure = None;
    while len < bytes {
        match source.read(&mut start[len..]) {
            Ok(0) => break,
            Ok(got) => len += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    start.truncate(len);
    let whole = io::Cursor::new(start.clone())
        .chain(Failure(failure))
        .chain(source);
    (start, whole)
}

/// Fails once, or is at its end.
struct Failure(Option<io::Error>);

impl Read for Failure {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Parses a source, plain or gzip.
fn parse(source: impl Read, purpose: Purpose, hint: Hint) -> Result<Parsed, ReadErrorKind> {
    let (start, whole) = look_ahead(source, 4);
    if start.starts_with(&[0x1f, 0x8b]) {
        parse_plain(MultiGzDecoder::new(whole), purpose, hint)
    } else if start == b"PK\x03\x04" {
        #[cfg(feature = "npz")]
        return numpy::read_npz(whole, purpose);
        #[cfg(not(feature = "npz"))]
        Err(ReadErrorKind::NpzOff)
    } else {
        parse_plain(whole, purpose, hint)
    }
}

/// Parses a text of either format.
fn parse_plain(text: impl Read, purpose: Purpose, hint: Hint) -> Result<Parsed, ReadErrorKind> {
    let (start, text) = look_ahead(text, LOOK_AHEAD);
    if start.starts_with(numpy::MAGIC) {
        return numpy::read_dense(text, purpose);
    }
    let is_matrix_market = start.starts_with(b"%");
    let is_other = looks_like_one(&start) || hint == Hint::RutherfordBoeing;
    if is_other && !is_matrix_market {
        let mut parser = rutherford_boeing::Parser::new(purpose);
        pump(text, &mut parser)?;
        let (header, body, rhs) = parser.finish()?;
        return Ok(Parsed { header, body, rhs });
    }
    let mut parser = Parser::new(purpose);
    pump(text, &mut parser)?;
    let (header, body) = parser.finish()?;
    let rhs = None;
    Ok(Parsed { header, body, rhs })
}

/// Hands the text to the parser, in windows of whole lines.
fn pump(mut text: impl Read, parser: &mut impl TakeText) -> Result<(), ReadErrorKind> {
    let mut buffer = vec![0u8; BUFFER];
    // The buffer starts with `filled` bytes of an incomplete line.
    let mut filled = 0;
    let mut offset = 0u64;
    loop {
        if filled == buffer.len() {
            return Err(ReadErrorKind::Parse {
                line: parser.line(),
                column: 1,
                what: Problem::LineTooLong { limit: BUFFER },
            });
        }
        let got = match text.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(source) => {
                return Err(ReadErrorKind::Io {
                    line: parser.line(),
                    offset,
                    source,
                });
            }
        };
        offset += got as u64;
        let end = filled + got;
        match memrchr(b'\n', &buffer[filled..end]) {
            None => filled = end,
            Some(at) => {
                let whole = filled + at + 1;
                parser.feed(&buffer[..whole])?;
                buffer.copy_within(whole..end, 0);
                filled = end - whole;
            }
        }
    }
    parser.feed(&buffer[..filled])
}

fn sparse(parsed: Parsed) -> Result<Matrix, ReadErrorKind> {
    let Parsed { header, body, rhs } = parsed;
    let (stored, data) = match body {
        Body::Real(entries) => (entries.found, MatrixData::Real(csr(entries)?)),
        Body::Integer(entries) => (entries.found, MatrixData::Real(csr(entries)?)),
        Body::Complex(entries) => (entries.found, MatrixData::Complex(csr(entries)?)),
        Body::Pattern(entries) => {
            let (shape, found) = (entries.shape, entries.found);
            let rows = to_rows(triplets(entries.stored), found, &shape)?;
            let ptr = rows.ptr.into_iter().map(|p| p as u64).collect();
            // Sizes fit 32 bits: the preamble was checked.
            let idx = rows.idx.into_iter().map(|col| col as u32).collect();
            let pattern = CompressedPattern::new(shape.ncols, ptr, idx)
                .expect("rows are sorted, without duplicates and in range");
            (found, MatrixData::Pattern(pattern))
        }
    };
    Ok(Matrix {
        header,
        stored,
        data,
        rhs,
    })
}

fn csr<S: Spelling>(entries: Entries<S>) -> Result<CsMat<S::Value>, ReadErrorKind> {
    let shape = entries.shape;
    let Rows { ptr, idx, values } = to_rows(triplets(entries.stored), entries.found, &shape)?;
    Ok(CsMat::new((shape.nrows, shape.ncols), ptr, idx, values))
}

fn dense<S: Spelling>(entries: Entries<S>) -> Result<DenseMatrix<S::Value>, ReadErrorKind> {
    let shape = entries.shape;
    let values = match entries.stored {
        Stored::Columns(values) => values,
        Stored::Triplets(triplets) => to_columns(&triplets, entries.found, &shape)?,
    };
    Ok(DenseMatrix::new(shape.nrows, shape.ncols, values))
}

fn triplets<V>(stored: Stored<V>) -> Buckets<V> {
    match stored {
        Stored::Triplets(triplets) => triplets,
        Stored::Columns(_) => unreachable!("only a dense matrix is kept by columns"),
    }
}
