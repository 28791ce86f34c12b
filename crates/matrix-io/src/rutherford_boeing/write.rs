//! Writing, by columns.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use luge_sparse::CompressedPattern;
use sprs::CsMatView;

use crate::error::WriteError;
use crate::header::{Field, Symmetry};
use crate::value::Value;
use crate::write::{WriteOptions, check_symmetry, is_stored, to_path, to_stream};

/// Bytes of a line.
const LINE: usize = 80;
/// Bytes of a value: a sign, 17 digits with their point, an exponent of three digits with its sign, and a blank.
const VALUE: usize = 25;
/// Without a scale factor, which means nothing to who reads numbers with exponents, and which SciPy's reader does not know.
const VALUE_FORMAT: &str = "(3E25.16E3)";

/// Writes a sparse matrix as a Rutherford–Boeing file. A CSR matrix is copied to columns first.
///
/// The first two lines of the comments become title and key, cut to 72 and 8 characters, others than ASCII replaced by
/// `?`. Values have 17 significant digits, so that [`read()`](crate::read()) gives the same matrix back. A path that ends in
/// `.gz` is compressed.
///
/// # Errors
///
/// As [`write()`](crate::write()).
pub fn write_rutherford_boeing<V: Value>(
    path: impl AsRef<Path>,
    matrix: &CsMatView<'_, V>,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    check_symmetry(matrix, options.symmetry)?;
    to_path(path.as_ref(), |out| write_matrix(out, matrix, options))
}

/// As [`write_rutherford_boeing`], to any destination, without compression. Buffers by itself, and flushes.
///
/// # Errors
///
/// As [`write_rutherford_boeing`].
pub fn write_rutherford_boeing_to<V: Value>(
    out: impl Write,
    matrix: &CsMatView<'_, V>,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    check_symmetry(matrix, options.symmetry)?;
    to_stream(out, |out| write_matrix(out, matrix, options))
}

/// Writes a pattern by rows as a Rutherford–Boeing file. Always [`Symmetry::General`], whatever `options` say.
///
/// # Errors
///
/// [`WriteError::Io`] if writing fails.
pub fn write_rutherford_boeing_pattern(
    path: impl AsRef<Path>,
    pattern: &CompressedPattern,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    let cols = pattern.transpose();
    let columns = Columns {
        nrows: pattern.major_dim(),
        ptr: (0..=cols.major_dim())
            .map(|col| if col == 0 { 0 } else { cols.range(col - 1).end })
            .collect(),
        rows: cols.lines().flatten().map(|&row| row as usize).collect(),
        parts: Vec::new(),
    };
    let options = WriteOptions {
        symmetry: Symmetry::General,
        ..options.clone()
    };
    to_path(path.as_ref(), |out| {
        columns.write(out, Field::Pattern, &options)
    })
}

/// What is written.
struct Columns {
    nrows: usize,
    ptr: Vec<usize>,
    rows: Vec<usize>,
    /// Values, real and imaginary parts in turn if they are complex.
    parts: Vec<f64>,
}

fn write_matrix<V: Value>(
    out: &mut dyn Write,
    matrix: &CsMatView<'_, V>,
    options: &WriteOptions,
) -> io::Result<()> {
    let copy;
    let by_columns = if matrix.is_csc() {
        matrix.view()
    } else {
        copy = matrix.to_csc();
        copy.view()
    };
    let mut columns = Columns {
        nrows: matrix.rows(),
        ptr: vec![0],
        rows: Vec::new(),
        parts: Vec::new(),
    };
    for (col, entries) in by_columns.outer_iterator().enumerate() {
        for (row, &value) in entries.iter() {
            if is_stored(row, col, options.symmetry) {
                columns.rows.push(row);
                value.push_parts(&mut columns.parts);
            }
        }
        columns.ptr.push(columns.rows.len());
    }
    columns.write(out, V::FIELD, options)
}

impl Columns {
    fn write(&self, out: &mut dyn Write, field: Field, options: &WriteOptions) -> io::Result<()> {
        let nnz = self.rows.len();
        let ncols = self.ptr.len() - 1;
        let pointers = IntegerFormat::up_to(nnz + 1);
        let indices = IntegerFormat::up_to(self.nrows);
        let pointer_lines = self.ptr.len().div_ceil(pointers.count());
        let index_lines = nnz.div_ceil(indices.count());
        let value_lines = self.parts.len().div_ceil(LINE / VALUE);
        let all = pointer_lines + index_lines + value_lines;
        let mut comments = options.comments.iter().flat_map(|text| text.lines());
        let mut next = |width| {
            let text = comments.next().unwrap_or("");
            let ascii = |c: char| if (' '..='~').contains(&c) { c } else { '?' };
            text.chars().map(ascii).take(width).collect::<String>()
        };
        let (title, key) = (next(72), next(8));
        let kind = match field {
            Field::Real | Field::Integer => 'r',
            Field::Complex => 'c',
            Field::Pattern => 'p',
        };
        let symmetry = match options.symmetry {
            Symmetry::General if self.nrows != ncols => 'r',
            Symmetry::General => 'u',
            Symmetry::Symmetric => 's',
            Symmetry::SkewSymmetric => 'z',
            Symmetry::Hermitian => 'h',
        };
        let value_format = if field == Field::Pattern {
            ""
        } else {
            VALUE_FORMAT
        };
        writeln!(out, "{title:<72}{key:<8}")?;
        writeln!(
            out,
            "{all:14}{pointer_lines:14}{index_lines:14}{value_lines:14}"
        )?;
        writeln!(
            out,
            "{kind}{symmetry}a{:11}{:14}{ncols:14}{nnz:14}{:14}",
            "", self.nrows, 0
        )?;
        writeln!(out, "{pointers:<16}{indices:<16}{value_format:<20}")?;
        pointers.write(out, self.ptr.iter().map(|p| p + 1))?;
        indices.write(out, self.rows.iter().map(|row| row + 1))?;
        for line in self.parts.chunks(LINE / VALUE) {
            for &part in line {
                write!(out, "{:>VALUE$}", fortran(part))?;
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Whole numbers of one width.
struct IntegerFormat {
    width: usize,
}

impl IntegerFormat {
    /// For numbers up to `most`, with a blank before each.
    fn up_to(most: usize) -> Self {
        Self {
            width: most.to_string().len() + 1,
        }
    }

    /// How many stand in a line.
    fn count(&self) -> usize {
        LINE / self.width
    }

    fn write(&self, out: &mut dyn Write, numbers: impl Iterator<Item = usize>) -> io::Result<()> {
        let mut in_line = 0;
        for number in numbers {
            write!(out, "{number:width$}", width = self.width)?;
            in_line += 1;
            if in_line == self.count() {
                out.write_all(b"\n")?;
                in_line = 0;
            }
        }
        if in_line > 0 {
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

impl fmt::Display for IntegerFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("({}I{})", self.count(), self.width))
    }
}

/// 17 significant digits, as a program in Fortran reads them.
fn fortran(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        let text = if value > 0.0 { "Infinity" } else { "-Infinity" };
        return text.to_owned();
    }
    let text = format!("{value:.16E}");
    let (mantissa, exponent) = text.split_once('E').expect("the format has an exponent");
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}E{sign}{digits:0>3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spelled_as_in_fortran() {
        assert_eq!(fortran(1.5), "1.5000000000000000E+000");
        assert_eq!(fortran(-2.5e-300), "-2.5000000000000000E-300");
        assert_eq!(fortran(f64::MIN_POSITIVE).len(), VALUE - 2);
        assert_eq!(fortran(-f64::MAX).len(), VALUE - 1);
        assert_eq!(fortran(f64::NEG_INFINITY), "-Infinity");
    }
}
