//! Reading: from a source of bytes through gzip to the parser, and from entries to matrices.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use luge_sparse::CompressedPattern;
use memchr::memrchr;
use sprs::CsMat;

use crate::assemble::{Buckets, Rows, to_columns, to_rows};
use crate::error::{Problem, ReadError, ReadErrorKind};
use crate::header::Header;
use crate::matrix::{DenseMatrix, Matrix, MatrixData};
use crate::parse::{Body, Entries, Parser, Purpose, Stored};
use crate::value::Spelling;

/// The text is read in pieces of this size, which is therefore the longest line.
const BUFFER: usize = 256 * 1024;

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

/// Reads a sparse matrix from a file, plain or gzip.
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
        .and_then(|file| read_from_with(file, options))
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
    let (header, body) = parse(
        source,
        Purpose::Sparse {
            expand: options.expand_symmetry,
        },
    )?;
    Ok(sparse(header, body)?)
}

/// As [`read()`], from the bytes of a file.
///
/// # Errors
///
/// As [`read()`].
pub fn read_bytes(bytes: &[u8]) -> Result<Matrix, ReadError> {
    read_from(bytes)
}

/// Reads a dense real matrix, such as right-hand sides, from a file of either format, plain or gzip.
///
/// # Errors
///
/// [`ReadError`], as for [`read()`]; [`ReadErrorKind::NotReal`] if the field is complex or pattern.
pub fn read_dense(path: impl AsRef<Path>) -> Result<DenseMatrix, ReadError> {
    let path = path.as_ref();
    open(path)
        .and_then(read_dense_from)
        .map_err(|error| error.at_path(path))
}

/// As [`read_dense`], from any source of bytes.
///
/// # Errors
///
/// As [`read_dense`].
pub fn read_dense_from(source: impl Read) -> Result<DenseMatrix, ReadError> {
    let (_, body) = parse(source, Purpose::Dense)?;
    Ok(match body {
        Body::Real(entries) => dense(entries),
        Body::Integer(entries) => dense(entries),
        Body::Complex(_) | Body::Pattern(_) => unreachable!("parse refuses those fields"),
    }?)
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

/// Parses a source, plain or gzip.
fn parse(mut source: impl Read, purpose: Purpose) -> Result<(Header, Body), ReadErrorKind> {
    let mut parser = Parser::new(purpose);
    let mut start = [0u8; 2];
    let mut len = 0;
    while len < start.len() {
        match source.read(&mut start[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(ReadErrorKind::Io {
                    line: 1,
                    offset: len as u64,
                    source,
                });
            }
        }
    }
    let whole = start[..len].chain(source);
    if start[..len] == [0x1f, 0x8b] {
        pump(MultiGzDecoder::new(whole), &mut parser)?;
    } else {
        pump(whole, &mut parser)?;
    }
    parser.finish()
}

/// Hands the text to the parser, in windows of whole lines.
fn pump(mut text: impl Read, parser: &mut Parser) -> Result<(), ReadErrorKind> {
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

fn sparse(header: Header, body: Body) -> Result<Matrix, ReadErrorKind> {
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
    })
}

fn csr<S: Spelling>(entries: Entries<S>) -> Result<CsMat<S::Value>, ReadErrorKind> {
    let shape = entries.shape;
    let Rows { ptr, idx, values } = to_rows(triplets(entries.stored), entries.found, &shape)?;
    Ok(CsMat::new((shape.nrows, shape.ncols), ptr, idx, values))
}

fn dense<S: Spelling<Value = f64>>(entries: Entries<S>) -> Result<DenseMatrix, ReadErrorKind> {
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
