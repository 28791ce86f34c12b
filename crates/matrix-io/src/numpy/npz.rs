//! Sparse matrices of SciPy, as `scipy.sparse.save_npz` keeps them.
//!
//! | format | arrays beside `shape`, `format` and `data` |
//! |---|---|
//! | csr, csc | `indptr`, `indices` |
//! | bsr | the same of blocks, which lie in `data` one behind the other |
//! | coo | `row` and `col`, or `coords` with both |
//! | dia | `offsets` of the diagonals, which lie in `data` by columns of the matrix |

use std::io::{Cursor, Read};

use luge_sparse::to_u32;
use zip::ZipArchive;
use zip::read::ZipFile;

use super::array::{Array, DType, Element, nearest};
use crate::error::{ArrayProblem, NotReal, ReadErrorKind};
use crate::header::{Field, FileFormat, Format, Header, Symmetry};
use crate::parse::{Body, Parsed, Purpose};
use crate::preamble::Shape;

/// Reads a matrix. The archive is in memory while it is read, as its directory is at its end.
pub(crate) fn read_npz(mut source: impl Read, purpose: Purpose) -> Result<Parsed, ReadErrorKind> {
    let mut bytes = Vec::new();
    source
        .read_to_end(&mut bytes)
        .map_err(ReadErrorKind::Archive)?;
    let archive = ZipArchive::new(Cursor::new(&bytes[..]));
    let archive = archive.map_err(|error| ReadErrorKind::Archive(error.into()))?;
    let mut archive = Archive(archive);
    let format = archive.open("format")?;
    let format = format.text().map_err(|what| failed("format", None, what))?;
    let (nrows, ncols) = archive.sizes()?;
    let mut matrix = Target {
        purpose,
        nrows,
        ncols,
        body: None,
    };
    match format.as_str() {
        "csr" => archive.compressed(&mut matrix, true)?,
        "csc" => archive.compressed(&mut matrix, false)?,
        "bsr" => archive.blocks(&mut matrix)?,
        "coo" => archive.coordinates(&mut matrix)?,
        "dia" => archive.diagonals(&mut matrix)?,
        _ => return Err(failed("format", None, ArrayProblem::UnknownFormat(format))),
    }
    matrix.finish()
}

fn failed(array: &'static str, element: Option<u64>, what: ArrayProblem) -> ReadErrorKind {
    ReadErrorKind::Array {
        array,
        element,
        what,
    }
}

/// The matrix that is filled.
struct Target {
    purpose: Purpose,
    nrows: usize,
    ncols: usize,
    body: Option<(Field, Body)>,
}

impl Target {
    /// Fits values of the type of `data`.
    fn of_type(&mut self, data: &Array<impl Read>) -> Result<&mut Body, ReadErrorKind> {
        let field = match data.dtype {
            DType::Real(_) => Field::Real,
            DType::Complex(_) => Field::Complex,
            _ => Field::Integer,
        };
        if self.purpose == (Purpose::Dense { complex: false }) && field == Field::Complex {
            return Err(NotReal { field }.into());
        }
        let shape = Shape {
            format: Format::Coordinate,
            symmetry: Symmetry::General,
            nrows: self.nrows,
            ncols: self.ncols,
            announced: data.len().map_err(|what| failed("data", None, what))?,
        };
        let body = Body::new(field, shape, self.purpose);
        Ok(&mut self.body.insert((field, body)).1)
    }

    fn finish(self) -> Result<Parsed, ReadErrorKind> {
        let Some((field, body)) = self.body else {
            unreachable!("each format has values")
        };
        let header = Header {
            file: FileFormat::Npz,
            format: Format::Coordinate,
            field,
            symmetry: Symmetry::General,
            comments: Vec::new(),
        };
        let rhs = None;
        Ok(Parsed { header, body, rhs })
    }
}

struct Archive<'a>(ZipArchive<Cursor<&'a [u8]>>);

impl<'a> Archive<'a> {
    fn has(&self, name: &str) -> bool {
        self.0.index_for_name(&format!("{name}.npy")).is_some()
    }

    fn open(
        &mut self,
        name: &'static str,
    ) -> Result<Array<ZipFile<'_, Cursor<&'a [u8]>>>, ReadErrorKind> {
        let file = match self.0.by_name(&format!("{name}.npy")) {
            Ok(file) => file,
            Err(zip::result::ZipError::FileNotFound) => {
                return Err(failed(name, None, ArrayProblem::Missing));
            }
            Err(error) => return Err(ReadErrorKind::Archive(error.into())),
        };
        Array::open(file).map_err(|what| failed(name, None, what))
    }

    /// Number of rows and columns.
    fn sizes(&mut self) -> Result<(usize, usize), ReadErrorKind> {
        let array = self.open("shape")?;
        match array.vector_len() {
            Ok(2) => {}
            Ok(_) => return Err(failed("shape", None, array.other_shape("two sizes"))),
            Err(what) => return Err(failed("shape", None, what)),
        }
        let mut sizes = Vec::new();
        let taken = array.for_each(|k, element| {
            let axis = if k == 0 {
                "number of rows"
            } else {
                "number of columns"
            };
            let size = match element {
                Element::Whole(size) if size >= 0 => usize::try_from(size).unwrap_or(usize::MAX),
                _ => return Err(ArrayProblem::NotAnIndex),
            };
            sizes.push(to_u32(size, axis).map(|_| size)?);
            Ok(())
        });
        taken.map_err(|(element, what)| failed("shape", element, what))?;
        Ok((sizes[0], sizes[1]))
    }

    /// Pointers of `count` rows or columns. The last one is the number of entries, at most `most`.
    fn pointers(&mut self, count: usize) -> Result<Vec<u64>, ReadErrorKind> {
        let array = self.open("indptr")?;
        let found = array
            .vector_len()
            .map_err(|what| failed("indptr", None, what))?;
        let expected = count as u64 + 1;
        if found != expected {
            let what = ArrayProblem::OtherLength { found, expected };
            return Err(failed("indptr", None, what));
        }
        let mut pointers: Vec<u64> = Vec::new();
        let taken = array.for_each(|_, element| {
            let Element::Whole(found) = element else {
                return Err(ArrayProblem::NotAnIndex);
            };
            let least = pointers.last().copied().unwrap_or(0);
            let is_first = pointers.is_empty();
            match u64::try_from(found) {
                Ok(found) if found >= least && (found == 0 || !is_first) => pointers.push(found),
                _ => {
                    let found = nearest(found);
                    return Err(ArrayProblem::BadPointer { found, least });
                }
            }
            Ok(())
        });
        taken.map_err(|(element, what)| failed("indptr", element, what))?;
        Ok(pointers)
    }

    /// Indices along an axis of `bound`; those beyond `most` are not kept.
    fn indices(
        &mut self,
        name: &'static str,
        axis: &'static str,
        bound: usize,
    ) -> Result<Vec<u32>, ReadErrorKind> {
        let array = self.open(name)?;
        array
            .vector_len()
            .map_err(|what| failed(name, None, what))?;
        let mut indices = Vec::new();
        let taken = array.for_each(|_, element| {
            indices.push(index(element, axis, bound)?);
            Ok(())
        });
        taken.map_err(|(element, what)| failed(name, element, what))?;
        Ok(indices)
    }

    fn compressed(&mut self, matrix: &mut Target, by_rows: bool) -> Result<(), ReadErrorKind> {
        let (major, minor, axis) = match by_rows {
            true => (matrix.nrows, matrix.ncols, "column"),
            false => (matrix.ncols, matrix.nrows, "row"),
        };
        let pointers = self.pointers(major)?;
        let indices = self.indices("indices", axis, minor)?;
        let data = self.open("data")?;
        let len = data
            .vector_len()
            .map_err(|what| failed("data", None, what))?;
        let entries = entries_of(&pointers, indices.len() as u64, len)?;
        let body = matrix.of_type(&data)?;
        let mut line = 0;
        let taken = data.for_each(|k, element| {
            // SciPy does not always cut off what is behind the last pointer.
            if k >= entries {
                return Ok(());
            }
            while pointers[line + 1] <= k {
                line += 1;
            }
            // The number of lines fits 32 bits.
            let (major, minor) = (line as u32, indices[k as usize]);
            match by_rows {
                true => body.push_element(major, minor, element, true),
                false => body.push_element(minor, major, element, true),
            }
        });
        taken.map_err(|(element, what)| failed("data", element, what))
    }

    fn blocks(&mut self, matrix: &mut Target) -> Result<(), ReadErrorKind> {
        let data = self.open("data")?;
        let (height, width) = match data.shape[..] {
            [_, height, width] if height > 0 && width > 0 => (height, width),
            _ => {
                return Err(failed(
                    "data",
                    None,
                    data.other_shape("blocks, of three dimensions"),
                ));
            }
        };
        let (nrows, ncols) = (matrix.nrows as u64, matrix.ncols as u64);
        if nrows % height != 0 || ncols % width != 0 {
            let what = data.other_shape("blocks whose sizes divide those of the matrix");
            return Err(failed("data", None, what));
        }
        drop(data);
        // They divide sizes that fit.
        let (block_rows, block_cols) = ((nrows / height) as usize, (ncols / width) as usize);
        let pointers = self.pointers(block_rows)?;
        let indices = self.indices("indices", "block column", block_cols)?;
        let data = self.open("data")?;
        let count = data.shape[0];
        let blocks = entries_of(&pointers, indices.len() as u64, count)?;
        let mut row_of = Vec::new();
        for (row, pair) in pointers.windows(2).enumerate() {
            row_of.extend((pair[0]..pair[1]).map(|_| row as u64));
        }
        let by_columns = data.fortran_order;
        let body = matrix.of_type(&data)?;
        let taken = data.for_each(|k, element| {
            let (block, i, j) = match by_columns {
                true => (k % count, k / count % height, k / count / height),
                false => (k / (height * width), k / width % height, k % width),
            };
            if block >= blocks {
                return Ok(());
            }
            let row = row_of[block as usize] * height + i;
            let col = u64::from(indices[block as usize]) * width + j;
            body.push_element(row as u32, col as u32, element, true)
        });
        taken.map_err(|(element, what)| failed("data", element, what))
    }

    fn coordinates(&mut self, matrix: &mut Target) -> Result<(), ReadErrorKind> {
        let (nrows, ncols) = (matrix.nrows, matrix.ncols);
        let (rows, cols) = if self.has("coords") {
            self.coords(nrows, ncols)?
        } else {
            let rows = self.indices("row", "row", nrows)?;
            (rows, self.indices("col", "column", ncols)?)
        };
        let data = self.open("data")?;
        let found = data
            .vector_len()
            .map_err(|what| failed("data", None, what))?;
        for (name, len) in [("row", rows.len()), ("col", cols.len())] {
            if len as u64 != found {
                let (expected, found) = (found, len as u64);
                let what = ArrayProblem::OtherLength { found, expected };
                return Err(failed(name, None, what));
            }
        }
        let body = matrix.of_type(&data)?;
        let taken = data.for_each(|k, element| {
            body.push_element(rows[k as usize], cols[k as usize], element, true)
        });
        taken.map_err(|(element, what)| failed("data", element, what))
    }

    /// Rows and columns in one array of two lines.
    fn coords(
        &mut self,
        nrows: usize,
        ncols: usize,
    ) -> Result<(Vec<u32>, Vec<u32>), ReadErrorKind> {
        let array = self.open("coords")?;
        let len = match array.shape[..] {
            [2, len] => len,
            _ => return Err(failed("coords", None, array.other_shape("two lines"))),
        };
        let by_columns = array.fortran_order;
        let (mut rows, mut cols) = (Vec::new(), Vec::new());
        let taken = array.for_each(|k, element| {
            let is_row = if by_columns { k % 2 == 0 } else { k < len };
            match is_row {
                true => rows.push(index(element, "row", nrows)?),
                false => cols.push(index(element, "column", ncols)?),
            }
            Ok(())
        });
        taken.map_err(|(element, what)| failed("coords", element, what))?;
        Ok((rows, cols))
    }

    fn diagonals(&mut self, matrix: &mut Target) -> Result<(), ReadErrorKind> {
        let (nrows, ncols) = (matrix.nrows as i128, matrix.ncols as i128);
        let array = self.open("offsets")?;
        array
            .vector_len()
            .map_err(|what| failed("offsets", None, what))?;
        let mut offsets = Vec::new();
        let taken = array.for_each(|_, element| match element {
            Element::Whole(offset) => {
                offsets.push(offset);
                Ok(())
            }
            _ => Err(ArrayProblem::NotAnIndex),
        });
        taken.map_err(|(element, what)| failed("offsets", element, what))?;
        let data = self.open("data")?;
        let (count, len) = match data.shape[..] {
            [count, len] if count == offsets.len() as u64 => (count, len),
            _ => {
                return Err(failed(
                    "data",
                    None,
                    data.other_shape("a line for each offset"),
                ));
            }
        };
        let by_columns = data.fortran_order;
        let body = matrix.of_type(&data)?;
        let taken = data.for_each(|k, element| {
            let (diagonal, col) = match by_columns {
                true => (k % count, k / count),
                false => (k / len, k % len),
            };
            let col = i128::from(col);
            let row = col - offsets[diagonal as usize];
            // What lies outside of the matrix fills up the lines; so do zeros.
            if !(0..nrows).contains(&row) || col >= ncols {
                return Ok(());
            }
            body.push_element(row as u32, col as u32, element, false)
        });
        taken.map_err(|(element, what)| failed("data", element, what))
    }
}

/// Number of entries by the pointers, of which there must be as many indices and values or more.
fn entries_of(pointers: &[u64], indices: u64, values: u64) -> Result<u64, ReadErrorKind> {
    let entries = pointers.last().copied().unwrap_or(0);
    for (name, found) in [("indices", indices), ("data", values)] {
        if found < entries {
            let expected = entries;
            let what = ArrayProblem::OtherLength { found, expected };
            return Err(failed(name, None, what));
        }
    }
    Ok(entries)
}

fn index(element: Element, axis: &'static str, bound: usize) -> Result<u32, ArrayProblem> {
    match element {
        Element::Whole(index) if (0..bound as i128).contains(&index) => Ok(index as u32),
        Element::Whole(index) => {
            let index = nearest(index);
            Err(ArrayProblem::IndexOutOfRange { axis, index, bound })
        }
        _ => Err(ArrayProblem::NotAnIndex),
    }
}
