//! Files of matrices: reading, plain or gzip, with errors that say where; writing, without loss.
//!
//! | format | read | written |
//! |---|---|---|
//! | Matrix Market | sparse and dense | sparse and dense |
//! | Rutherford–Boeing, Harwell–Boeing | assembled matrices, right-hand sides of Harwell–Boeing | [`write_rutherford_boeing`] |
//! | SciPy's `.npz` (feature `npz`) | csr, csc, coo, bsr, dia; matrices and arrays | |
//! | NumPy's `.npy` | one or two dimensions | dense, by [`write_dense`] to a path that ends so |
//!
//! Which format a file has is told from its content, whatever its name.
//!
//! ```
//! let text = "\
//! %%MatrixMarket matrix coordinate real symmetric
//! % a comment
//! 3 3 4
//! 1 1  2.5
//! 2 1 -1
//! 3 3  1e-3
//! 3 3  1d-3
//! ";
//! let matrix = luge_matrix_io::read_bytes(text.as_bytes())?;
//! assert_eq!(matrix.stored, 4);
//! let a = matrix.into_real().expect("the field is real");
//! assert_eq!(a.get(0, 1), Some(&-1.0));     // the upper triangle follows from the lower one
//! assert_eq!(a.get(2, 2), Some(&0.002));    // duplicates are summed
//! # Ok::<(), luge_matrix_io::ReadError>(())
//! ```
//!
//! [`read()`], [`read_from`], [`read_bytes`] give a [`Matrix`]: the header of the file and a sparse
//! matrix in CSR. [`read_dense`], [`read_dense_complex`] and [`read_vector`] give right-hand sides. [`write()`],
//! [`write_pattern`] and [`write_dense`] write.
//!
//! # What is accepted of Matrix Market
//!
//! | | |
//! |---|---|
//! | header | `%%MatrixMarket matrix FORMAT FIELD SYMMETRY`, as the very first bytes, in any case |
//! | format | `coordinate`; `array` |
//! | field | `real`; `integer`; `complex`; `pattern` (coordinate only) |
//! | symmetry | `general`; `symmetric`; `skew-symmetric` (no pattern); `hermitian` (complex only) |
//! | compression | gzip, recognised by its first two bytes and not by the name of the file; several members in a row are one text |
//! | lines | end in LF or CR LF, the last one may have no end; at most 256 KiB |
//! | blanks | spaces and tabs, any number, also before the first word |
//! | comments | lines whose first visible character is `%`, and blank lines, anywhere below the header; those above the size line are kept in [`Header::comments`] |
//! | real numbers | decimal, with sign, point and exponent if any: `1`, `-.5`, `+2.`, `1e-3`; correctly rounded |
//! | exponents of Fortran | `1.5D+02` is `150` |
//! | not finite | `nan`, `inf`, `infinity`, in any case and with a sign, are read as such. A solver has to refuse them |
//! | underflow | what is nearer to zero than to the least subnormal number is read as zero |
//! | whole numbers | in an `integer` file, if an `f64` holds them exactly |
//! | duplicates | are summed, in the order of the file |
//! | zeros | of a coordinate file are entries like any other, and `-0` keeps its sign; those of an array file are dropped from a sparse matrix |
//! | empty | matrices of 0 rows, 0 columns or 0 entries |
//!
//! # What is refused of Matrix Market
//!
//! All of it by a [`ReadErrorKind`] that names the first offender, most by
//! [`Parse`](ReadErrorKind::Parse) with line, column and [`Problem`].
//!
//! | | |
//! |---|---|
//! | fewer or more entries than announced | |
//! | a line that lacks an index or a value, or has a word too many | one entry a line, also in arrays |
//! | an index of 0, beyond the size, or spelled with anything but digits | |
//! | an upper entry in symmetric, skew-symmetric or hermitian storage | The format stores the lower triangle. Taking an upper entry for its mirror would count a pair twice in files that store both |
//! | a diagonal entry in skew-symmetric storage, even 0 | |
//! | an imaginary part on the diagonal of hermitian storage | |
//! | a number that overflows a double, such as `1e999` | it would become an infinity that nobody wrote |
//! | in an `integer` file, `1.5`, `1.0`, `1e3`, and what an `f64` would round | |
//! | more than 2³²−2 rows or columns | [`IndexOverflow`](ReadErrorKind::IndexOverflow) |
//! | more than 2²² rows (dense: 2²⁴ elements) and more than 64 for each entry of the file | [`ImplausibleSize`](ReadErrorKind::ImplausibleSize): such a header would reserve memory that the file has no use for |
//! | a gzip stream that is damaged, ends early, or has something else behind it | [`Io`](ReadErrorKind::Io), with the line reached |
//!
//! ```
//! use luge_matrix_io::{Problem, ReadErrorKind, read_bytes};
//!
//! let text = "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3 0.5\n";
//! let error = read_bytes(text.as_bytes()).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "line 3, column 3: the column index is 3, but the matrix has 2"
//! );
//! assert!(matches!(
//!     error.kind,
//!     ReadErrorKind::Parse { line: 3, column: 3, what: Problem::IndexOutOfRange { index: 3, .. } }
//! ));
//! ```
//!
//! # Rutherford–Boeing and Harwell–Boeing
//!
//! | | |
//! |---|---|
//! | types | `R`, `C`, `I` or `P`; `S`, `U`, `H`, `Z` or `R`; `A`. Rows in any order within a column; duplicates are summed. The rules of symmetry are those above |
//! | formats | are obeyed: columns of fixed width without blanks between them, `I`, `E`, `D`, `F`, `G`, scale factors, skipped columns; numbers without a point or without the letter of their exponent. A line that does not fit its columns is read by its blanks, if they give as many numbers, as in files of SciPy with negative values |
//! | numbers of lines | in the second line of the header are not compared with the file. The last of five says whether there are right-hand sides |
//! | right-hand sides | of Harwell–Boeing, dense (`F`) or by columns (`M`), are [`Matrix::rhs`] and what [`read_dense`] gives. Starting guesses and solutions behind them are not kept, nor are those of complex matrices |
//! | refused | element matrices (`..E`), values in another file (`Q..`), numbers that stand outside of their columns, and columns that are blank where a number is due, which Fortran would read as zero |
//!
//! The supplementary files of Rutherford–Boeing, such as right-hand sides in a file of their own, are not read.
//!
//! # NumPy and SciPy
//!
//! Whole numbers of 8 to 64 bits, of which an `f64` has to hold the value; `bool`, as 0 and 1; real and complex numbers of
//! single and double precision; bytes in either order; versions 1 to 3 of the format of arrays. Refused are half and
//! extended precision, texts, records and objects. Explicit zeros stay, but for those of `dia`, where they fill up lines.
//! Errors are [`Array`](ReadErrorKind::Array), with the name of the array and the number of its element. An `.npz` is in
//! memory as a whole while it is read.
//!
//! # Cost
//!
//! Reading takes time linear in the text, if the file is sorted by rows or columns; otherwise rows are
//! sorted one by one. Memory follows what was read, never what was announced: 16 bytes for each stored
//! entry of a real matrix while reading, then the matrix beside that; at most 2.5 times the final
//! matrix unless many duplicates collapse. Files by columns take 4 bytes for each entry and 8 for each column beside that.
//! The text is never in memory as a whole.
//!
//! # Fuzzing
//!
//! The target `matrix_market` in the folder `fuzz` of the repository feeds arbitrary bytes to every
//! reader, of whatever format, and checks that what is read survives being written and read again. It needs a nightly
//! compiler and [cargo-fuzz](https://rust-fuzz.github.io/book/):
//!
//! ```text
//! cargo install cargo-fuzz
//! cargo +nightly fuzz run matrix_market -- -max_len=4096 -dict=fuzz/matrix_market.dict
//! ```
//!
//! # Current limitations
//!
//! Objects of Matrix Market other than `matrix`, and compressions other than gzip and those of `.npz`, are not read. Values are
//! `f64`. Dense matrices are real.

mod assemble;
mod error;
mod header;
mod matrix;
mod numpy;
mod parse;
mod preamble;
mod read;
mod rutherford_boeing;
mod token;
mod value;
mod write;

pub use error::{ArrayProblem, NotReal, Problem, ReadError, ReadErrorKind, WriteError};
pub use header::{Field, FileFormat, Format, Header, Symmetry};
pub use matrix::{DenseMatrix, Matrix, MatrixData};
pub use read::{
    ReadOptions, read, read_bytes, read_dense, read_dense_complex, read_dense_from, read_from,
    read_from_with, read_vector, read_with,
};
pub use rutherford_boeing::{
    write_rutherford_boeing, write_rutherford_boeing_pattern, write_rutherford_boeing_to,
};
pub use value::Value;
pub use write::{WriteOptions, write, write_dense, write_dense_to, write_pattern, write_to};
