//! Writing: Matrix Market, and which files are compressed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use luge_sparse::CompressedPattern;
use sprs::CsMatView;

use crate::error::WriteError;
use crate::header::{Field, Format, Symmetry};
use crate::matrix::DenseMatrix;
use crate::numpy;
use crate::value::Value;

/// How to write. Whether to compress is said by the path: those that end in `.gz` are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The symmetry to use. All but [`Symmetry::General`], the default, write the lower triangle only,
    /// and fail if the matrix does not have that symmetry.
    pub symmetry: Symmetry,
    /// Comments to put below the first line; one of several lines becomes several comments.
    pub comments: Vec<String>,
}

/// Writes a sparse matrix in coordinate format, by rows if it is CSR, by columns if it is CSC.
///
/// Numbers have 17 significant digits, less trailing zeros, so that [`read()`](crate::read()) gives
/// the same matrix back. Explicit zeros are written too.
///
/// # Errors
///
/// [`WriteError::NotSymmetric`] if the matrix does not have the symmetry that `options` ask for: then
/// nothing is written. [`WriteError::Io`] if writing fails.
pub fn write<V: Value>(
    path: impl AsRef<Path>,
    matrix: &CsMatView<'_, V>,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    check_symmetry(matrix, options.symmetry)?;
    to_path(path.as_ref(), |out| write_sparse(out, matrix, options))
}

/// As [`write()`], to any destination, without compression. Buffers by itself, and flushes.
///
/// # Errors
///
/// As [`write()`].
pub fn write_to<V: Value>(
    out: impl Write,
    matrix: &CsMatView<'_, V>,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    check_symmetry(matrix, options.symmetry)?;
    to_stream(out, |out| write_sparse(out, matrix, options))
}

/// Writes a pattern by rows in coordinate format; the major dimension are the rows. Always
/// [`Symmetry::General`], whatever `options` say.
///
/// # Errors
///
/// [`WriteError::Io`] if writing fails.
pub fn write_pattern(
    path: impl AsRef<Path>,
    pattern: &CompressedPattern,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    to_path(path.as_ref(), |out| {
        write_head(
            out,
            Format::Coordinate,
            Field::Pattern,
            Symmetry::General,
            options,
        )?;
        let (nrows, ncols) = (pattern.major_dim(), pattern.minor_dim());
        writeln!(out, "{nrows} {ncols} {}", pattern.nnz())?;
        for row in 0..nrows {
            for col in pattern.line(row) {
                writeln!(out, "{} {}", row + 1, col + 1)?;
            }
        }
        Ok(())
    })
}

/// Writes a dense matrix in array format; to a path that ends in `.npy`, as an array of NumPy, which has no comments. Always
/// [`Symmetry::General`], whatever `options` say.
///
/// # Errors
///
/// [`WriteError::Io`] if writing fails.
pub fn write_dense<V: Value>(
    path: impl AsRef<Path>,
    matrix: &DenseMatrix<V>,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    let path = path.as_ref();
    let is_npy = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("npy"));
    to_path(path, |out| match is_npy {
        true => numpy::write_dense(out, matrix),
        false => write_array(out, matrix, options),
    })
}

/// As [`write_dense`], to any destination, as Matrix Market without compression. Buffers by itself, and flushes.
///
/// # Errors
///
/// As [`write_dense`].
pub fn write_dense_to<V: Value>(
    out: impl Write,
    matrix: &DenseMatrix<V>,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    to_stream(out, |out| write_array(out, matrix, options))
}

pub(crate) fn to_path(
    path: &Path,
    body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    let compress = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let written = File::create(path).and_then(|file| {
        let mut file = BufWriter::with_capacity(1 << 16, file);
        if compress {
            // The buffer is in front of the encoder, which dislikes small pieces as files do.
            let encoder = GzEncoder::new(file, Compression::default());
            let mut out = BufWriter::with_capacity(1 << 16, encoder);
            body(&mut out)?;
            let encoder = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            encoder.finish()?.flush()
        } else {
            body(&mut file)?;
            file.flush()
        }
    });
    written.map_err(|source| WriteError::Io {
        path: Some(path.to_path_buf()),
        source,
    })
}

pub(crate) fn to_stream(
    out: impl Write,
    body: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    body(&mut out)
        .and_then(|()| out.flush())
        .map_err(|source| WriteError::Io { path: None, source })
}

fn write_head(
    out: &mut dyn Write,
    format: Format,
    field: Field,
    symmetry: Symmetry,
    options: &WriteOptions,
) -> io::Result<()> {
    writeln!(out, "%%MatrixMarket matrix {format} {field} {symmetry}")?;
    for line in options.comments.iter().flat_map(|text| text.lines()) {
        writeln!(out, "% {line}")?;
    }
    Ok(())
}

/// Entries of the matrix as (row, column, value), in the order of its storage.
fn entries<'a, V: Value>(
    matrix: &'a CsMatView<'_, V>,
) -> impl Iterator<Item = (usize, usize, V)> + 'a {
    matrix.iter().map(|(&value, (row, col))| (row, col, value))
}

/// Whether entry (row, col) is written.
pub(crate) fn is_stored(row: usize, col: usize, symmetry: Symmetry) -> bool {
    match symmetry {
        Symmetry::General => true,
        Symmetry::Symmetric | Symmetry::Hermitian => row >= col,
        Symmetry::SkewSymmetric => row > col,
    }
}

pub(crate) fn check_symmetry<V: Value>(
    matrix: &CsMatView<'_, V>,
    symmetry: Symmetry,
) -> Result<(), WriteError> {
    if symmetry == Symmetry::General {
        return Ok(());
    }
    let offender = |row: usize, col: usize| WriteError::NotSymmetric {
        symmetry,
        row: row + 1,
        col: col + 1,
    };
    let (nrows, ncols) = matrix.shape();
    if nrows != ncols {
        return Err(offender(nrows.min(ncols), nrows.min(ncols)));
    }
    if symmetry == Symmetry::Hermitian && V::FIELD != Field::Complex {
        return Err(offender(0, 0));
    }
    for (row, col, value) in entries(matrix) {
        let holds = if row == col {
            // A diagonal that is not stored is lost, even one of zeros.
            symmetry != Symmetry::SkewSymmetric
                && (symmetry != Symmetry::Hermitian || value.is_real())
        } else {
            matrix
                .get(col, row)
                .is_some_and(|other| other.is_same(value.mirrored(symmetry)))
        };
        if !holds {
            return Err(offender(row, col));
        }
    }
    Ok(())
}

fn write_sparse<V: Value>(
    mut out: &mut dyn Write,
    matrix: &CsMatView<'_, V>,
    options: &WriteOptions,
) -> io::Result<()> {
    let symmetry = options.symmetry;
    write_head(out, Format::Coordinate, V::FIELD, symmetry, options)?;
    let stored = || entries(matrix).filter(|&(row, col, _)| is_stored(row, col, symmetry));
    let (nrows, ncols) = matrix.shape();
    writeln!(out, "{nrows} {ncols} {}", stored().count())?;
    for (row, col, value) in stored() {
        write!(out, "{} {}", row + 1, col + 1)?;
        value.write(" ", &mut out)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn write_array<V: Value>(
    mut out: &mut dyn Write,
    matrix: &DenseMatrix<V>,
    options: &WriteOptions,
) -> io::Result<()> {
    write_head(out, Format::Array, V::FIELD, Symmetry::General, options)?;
    writeln!(out, "{} {}", matrix.nrows(), matrix.ncols())?;
    for &value in matrix.values() {
        value.write("", &mut out)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
