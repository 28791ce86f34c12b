//! What can be wrong with a file, and where.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use luge_sparse::IndexOverflow;

use crate::header::{Field, FileFormat, Format, Symmetry};

/// Why a file could not be read: what is wrong, and in which file if a path was given.
#[derive(Debug)]
pub struct ReadError {
    /// The file, if the function that was called takes a path.
    pub path: Option<PathBuf>,
    /// What is wrong, with its position.
    pub kind: ReadErrorKind,
}

impl ReadError {
    pub(crate) fn at_path(mut self, path: &Path) -> Self {
        self.path = Some(path.to_path_buf());
        self
    }
}

impl From<ReadErrorKind> for ReadError {
    fn from(kind: ReadErrorKind) -> Self {
        Self { path: None, kind }
    }
}

impl From<NotReal> for ReadError {
    fn from(error: NotReal) -> Self {
        ReadErrorKind::from(error).into()
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {}", path.display(), self.kind),
            None => self.kind.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}

/// Why a file could not be read. Always the first offender in the order of the file.
///
/// Lines and columns count from 1; a column is a byte of its line. In a compressed file, lines and
/// offsets are those of the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// The source failed, or its gzip stream is corrupt or ends early.
    #[error("line {line}, after {offset} bytes of text: {source}")]
    Io {
        /// The line that was being read.
        line: u64,
        /// Bytes of text that arrived before the failure.
        offset: u64,
        /// The failure.
        source: io::Error,
    },
    /// The text breaks a rule of the format.
    #[error("line {line}, column {column}: {what}")]
    Parse {
        /// Line, from 1.
        line: u64,
        /// Byte of the line, from 1.
        column: usize,
        /// The rule.
        what: Problem,
    },
    /// The size line announces more rows or columns than 32-bit indices hold.
    #[error("line {line}, column {column}: {source}")]
    IndexOverflow {
        /// Line, from 1.
        line: u64,
        /// Byte of the line, from 1.
        column: usize,
        /// Which size, and its value (`usize::MAX` if it is larger than that).
        source: IndexOverflow,
    },
    /// The announced size is out of all proportion to the entries that the file holds, so the arrays
    /// whose length is the size are not allocated.
    #[error("the file announces {nrows} x {ncols} but holds only {entries} entries")]
    ImplausibleSize {
        /// Announced number of rows.
        nrows: usize,
        /// Announced number of columns.
        ncols: usize,
        /// Number of entries in the file.
        entries: u64,
    },
    /// Real values were asked for.
    #[error(transparent)]
    NotReal(#[from] NotReal),
    /// Right-hand sides were asked for, and the file is a matrix without any.
    #[error("the file is a {file} matrix without right-hand sides")]
    NoRightHandSides {
        /// The format of the file.
        file: FileFormat,
    },
    /// An array of NumPy is not what it has to be.
    #[error("{array}{}: {what}", element.map(|k| format!(", element {k}")).unwrap_or_default())]
    Array {
        /// The name of the array in its archive.
        array: &'static str,
        /// The element in the order of the file, from 0, if one is wrong.
        element: Option<u64>,
        /// What is wrong.
        what: ArrayProblem,
    },
    /// A zip archive is damaged, or cannot be read.
    #[error("the archive cannot be read: {0}")]
    Archive(io::Error),
    /// The file is a zip archive, as `.npz` files are, and this build reads none.
    #[error(
        "the file is a zip archive (.npz), which this build does not read: its feature `npz` is off"
    )]
    NpzOff,
    /// One column was asked for.
    #[error("a vector must have one column, this is {nrows} x {ncols}")]
    NotAVector {
        /// Number of rows.
        nrows: usize,
        /// Number of columns.
        ncols: usize,
    },
}

/// The matrix has no real values: its field is complex or pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("real values are needed, but the field of this matrix is {field}")]
pub struct NotReal {
    /// The field of the matrix.
    pub field: Field,
}

/// The rule of its format that a line breaks.
///
/// Texts quoted from the file are cut after 40 bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file has no byte.
    #[error("the file is empty")]
    EmptyFile,
    /// The first line does not begin with `%%MatrixMarket`.
    #[error("the first line must begin with %%MatrixMarket, found {0:?}")]
    NoBanner(String),
    /// The object of the header is not `matrix`.
    #[error("unknown object {0:?}, expected \"matrix\"")]
    UnknownObject(String),
    /// The format of the header is none of the two.
    #[error("unknown format {0:?}, expected coordinate or array")]
    UnknownFormat(String),
    /// The field of the header is none of the four.
    #[error("unknown field {0:?}, expected real, integer, complex or pattern")]
    UnknownField(String),
    /// The symmetry of the header is none of the four.
    #[error("unknown symmetry {0:?}, expected general, symmetric, skew-symmetric or hermitian")]
    UnknownSymmetry(String),
    /// The header combines words that exclude each other.
    #[error("a matrix cannot be {format}, {field} and {symmetry} at once")]
    Combination {
        /// Format of the header.
        format: Format,
        /// Field of the header.
        field: Field,
        /// Symmetry of the header.
        symmetry: Symmetry,
    },
    /// The file ends before the size line.
    #[error("the file ends before the line with the sizes")]
    NoSizeLine,
    /// A size is not a nonnegative whole number.
    #[error("{0:?} is not a size")]
    BadSize(String),
    /// Only square matrices have this symmetry.
    #[error("a {symmetry} matrix must be square, this is {nrows} x {ncols}")]
    NotSquare {
        /// Symmetry of the header.
        symmetry: Symmetry,
        /// Announced number of rows.
        nrows: usize,
        /// Announced number of columns.
        ncols: usize,
    },
    /// The line ends where something is due.
    #[error("the line ends before the {0}")]
    Missing(&'static str),
    /// The line goes on after all that is due.
    #[error("unexpected {0:?} after the end of the entry")]
    Extra(String),
    /// An index is not a positive whole number.
    #[error("{0:?} is not an index")]
    BadIndex(String),
    /// An index is zero; indices count from 1.
    #[error("the {0} index is 0, but indices count from 1")]
    IndexZero(&'static str),
    /// An index exceeds the announced size.
    #[error("the {axis} index is {index}, but the matrix has {bound}")]
    IndexOutOfRange {
        /// `"row"` or `"column"`.
        axis: &'static str,
        /// The index (`u64::MAX` if it is larger than that).
        index: u64,
        /// The announced size.
        bound: usize,
    },
    /// A value is not a number.
    #[error("{0:?} is not a number")]
    BadNumber(String),
    /// The magnitude of a value exceeds the largest `f64`, about 1.8e308.
    #[error("{0:?} overflows a double")]
    NumberOverflow(String),
    /// A value of an integer matrix is not a whole number.
    #[error("{0:?} is not a whole number, as the integer field requires")]
    NotAnInteger(String),
    /// A value of an integer matrix has more digits than an `f64` holds.
    #[error("{0:?} has no exact representation as a double")]
    InexactInteger(String),
    /// The header says that only the lower triangle is stored, the entry is above the diagonal.
    #[error(
        "entry ({row}, {col}) is above the diagonal, but a {symmetry} matrix stores its lower triangle"
    )]
    UpperEntry {
        /// Row, from 1.
        row: u64,
        /// Column, from 1.
        col: u64,
        /// Symmetry of the header.
        symmetry: Symmetry,
    },
    /// The diagonal of a skew-symmetric matrix is zero and not stored.
    #[error("entry ({0}, {0}) is on the diagonal, which a skew-symmetric matrix does not store")]
    SkewDiagonal(u64),
    /// The diagonal of a hermitian matrix is real.
    #[error("entry ({0}, {0}) of a hermitian matrix has an imaginary part")]
    ImaginaryDiagonal(u64),
    /// More entries than the size line announced.
    #[error("more entries than the {announced} announced")]
    TooManyEntries {
        /// Announced number of entries.
        announced: u64,
    },
    /// The file ends before the announced number of entries.
    #[error("the file ends after {found} entries, {announced} were announced")]
    TooFewEntries {
        /// Announced number of entries.
        announced: u64,
        /// Entries found.
        found: u64,
    },
    /// The file ends before a line of the header of a Rutherford–Boeing file.
    #[error("the file ends before the line with the {0}")]
    NoHeaderLine(&'static str),
    /// The type of a Rutherford–Boeing matrix is none of those that there are.
    #[error(
        "unknown matrix type {0:?}, expected three letters: R, C, I or P, then S, U, H, Z or R, then A"
    )]
    UnknownMatrixType(String),
    /// The matrix is a list of element matrices, which nobody has added up.
    #[error(
        "matrix type {0:?} stands for element matrices; only assembled matrices, ending in A, are read"
    )]
    Elemental(String),
    /// The values of a Rutherford–Boeing matrix are in a file of their own.
    #[error("matrix type {0:?} stands for values in another file, which is not read")]
    ValuesElsewhere(String),
    /// A Fortran format is malformed, or describes something other than lines of numbers.
    #[error("{0:?} is not a Fortran format for lines of numbers, such as (10I8) or (1P,4E20.12)")]
    BadFormat(String),
    /// A Fortran format is for real numbers where whole numbers are due.
    #[error("the format {0:?} is for real numbers, but whole numbers are due")]
    NotAFormatOfIntegers(String),
    /// Right-hand sides of a Harwell–Boeing file are neither dense (F) nor sparse (M).
    #[error("unknown type of right-hand sides {0:?}, expected F or M")]
    UnknownRightHandSide(String),
    /// A column pointer is below the one before it, or the first one is not 1, or one is beyond the last entry.
    #[error("the column pointer is {found}, expected {least} to {most}")]
    BadPointer {
        /// The pointer.
        found: u64,
        /// The least that it may be: the pointer before it.
        least: u64,
        /// The most that it may be: one more than the number of entries, or 1 for the first pointer.
        most: u64,
    },
    /// The last column pointer is not one more than the number of entries.
    #[error("the last column pointer is {found}, but the header announces {announced} entries")]
    LastPointer {
        /// The pointer.
        found: u64,
        /// Announced number of entries.
        announced: u64,
    },
    /// The file ends within a list of numbers.
    #[error("the file ends after {found} of {announced} {what}")]
    Truncated {
        /// What is listed.
        what: &'static str,
        /// Announced number.
        announced: u64,
        /// Numbers found.
        found: u64,
    },
    /// Something stands behind all that the header announces.
    #[error("unexpected {0:?} after the last number")]
    AfterEnd(String),
    /// The line is longer than any entry or sensible comment.
    #[error("the line is longer than {limit} bytes")]
    LineTooLong {
        /// The longest line, with its end.
        limit: usize,
    },
}

/// What is wrong with an array of NumPy.
///
/// Indices and elements count from 0, as NumPy counts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArrayProblem {
    /// The source failed, or its compressed stream is corrupt.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The archive has no such array.
    #[error("the archive has no array of this name; it is none of scipy.sparse.save_npz")]
    Missing,
    /// It does not begin as arrays do, or ends within its header.
    #[error("it is not an array of NumPy")]
    NotAnArray,
    /// The version of the format is none of 1, 2 and 3.
    #[error("version {0}.{1} of the format of arrays is unknown")]
    UnknownVersion(u8, u8),
    /// The header is malformed.
    #[error("the header is malformed: {0}")]
    BadHeader(String),
    /// Elements are none of those that are read.
    #[error(
        "elements of the type {0:?} are not read, only whole numbers, f4, f8, c8, c16 and bool"
    )]
    UnknownType(String),
    /// Elements are text where numbers are due.
    #[error("it holds text, but numbers are due")]
    NotNumbers,
    /// Elements are numbers where text is due.
    #[error("it holds numbers, but text is due")]
    NotText,
    /// The shape is another one than what is due.
    #[error("the shape is {found:?}, but {expected} are due")]
    OtherShape {
        /// The shape.
        found: Vec<u64>,
        /// What it should be.
        expected: &'static str,
    },
    /// The length does not fit that of other arrays.
    #[error("it has {found} elements, but {expected} are due")]
    OtherLength {
        /// Number of elements.
        found: u64,
        /// What it should be.
        expected: u64,
    },
    /// The array ends before its last element.
    #[error("it ends after {found} of {announced} elements")]
    Truncated {
        /// Elements found.
        found: u64,
        /// Elements announced.
        announced: u64,
    },
    /// Something follows the last element.
    #[error("it goes on after the {announced} elements announced")]
    AfterEnd {
        /// Elements announced.
        announced: u64,
    },
    /// The matrix has a format that SciPy does not write.
    #[error("unknown sparse format {0:?}, expected csr, csc, coo, bsr or dia")]
    UnknownFormat(String),
    /// A size has more than 32 bits.
    #[error(transparent)]
    IndexOverflow(#[from] IndexOverflow),
    /// An index or a size is not a whole number, or a size is negative.
    #[error("an index or a size must be a whole number, and a size not negative")]
    NotAnIndex,
    /// An index is negative or exceeds the size.
    #[error("the {axis} index is {index}, but the matrix has {bound}")]
    IndexOutOfRange {
        /// Which index.
        axis: &'static str,
        /// The index, or the nearest that 64 bits hold.
        index: i64,
        /// The size.
        bound: usize,
    },
    /// A pointer is below the one before it, or the first one is not 0.
    #[error(
        "the pointer is {found}; the first must be 0, and none less than the one before it, here {least}"
    )]
    BadPointer {
        /// The pointer, or the nearest that 64 bits hold.
        found: i64,
        /// The pointer before it.
        least: u64,
    },
    /// A whole number has more digits than an `f64` holds.
    #[error("{0} has no exact representation as a double")]
    InexactInteger(String),
    /// A complex number where a real one is due.
    #[error("a real number is due, but elements are complex")]
    NotReal,
}

/// Why a matrix could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The destination failed.
    #[error("{}{source}", path.as_ref().map(|p| format!("{}: ", p.display())).unwrap_or_default())]
    Io {
        /// The file, if the function that was called takes a path.
        path: Option<PathBuf>,
        /// The failure.
        source: io::Error,
    },
    /// A symmetry was asked for that the matrix does not have.
    #[error("the matrix is not {symmetry}: see entry ({row}, {col}), counted from 1")]
    NotSymmetric {
        /// The symmetry asked for.
        symmetry: Symmetry,
        /// Row of the first offender, from 1.
        row: usize,
        /// Column of the first offender, from 1.
        col: usize,
    },
}

/// A problem at a column of the line at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located {
    pub column: usize,
    pub what: Problem,
}

impl Located {
    /// The error in line `line`, counted from 1.
    pub fn at_line(self, line: u64) -> ReadErrorKind {
        ReadErrorKind::Parse {
            line,
            column: self.column,
            what: self.what,
        }
    }
}

/// The text of `bytes` for a message: at most 40 bytes, what is not UTF-8 replaced.
pub(crate) fn quote(bytes: &[u8]) -> String {
    const LONGEST: usize = 40;
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]).into_owned();
    if bytes.len() > LONGEST {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_quoted_in_part() {
        assert_eq!(quote(b"abc"), "abc");
        let text = quote(&[b'x'; 100]);
        assert_eq!(text.chars().count(), 41);
        assert!(text.ends_with('…'));
    }
}
