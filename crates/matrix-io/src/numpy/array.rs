//! One array: its header, and its elements one by one.

use std::io::{self, Read, Write};

use num_complex::Complex64;

use crate::error::{ArrayProblem, ReadErrorKind, quote};
use crate::header::{Field, FileFormat, Format, Header, Symmetry};
use crate::matrix::DenseMatrix;
use crate::parse::{Body, Parsed, Purpose};
use crate::preamble::Shape;
use crate::value::Value;

/// What an array begins with.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header: far beyond what the three keys of a plain array take.
const LONGEST_HEADER: u32 = 1 << 16;
/// Most dimensions.
const MOST_DIMENSIONS: usize = 32;
/// Bytes of a piece; a multiple of the size of every element that is read.
const PIECE: usize = 1 << 16;

/// An element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Element {
    Whole(i128),
    Real(f64),
    Complex(Complex64),
}

/// The type of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DType {
    Bool,
    Signed(usize),
    Unsigned(usize),
    Real(usize),
    Complex(usize),
    /// Text of so many bytes, an eighth or all of each character.
    Text(usize),
}

/// An array whose elements are not read yet.
pub(super) struct Array<R> {
    source: R,
    pub dtype: DType,
    big_endian: bool,
    /// Whether the first index varies fastest, and not the last one.
    pub fortran_order: bool,
    pub shape: Vec<u64>,
}

impl<R: Read> Array<R> {
    /// Reads the header.
    pub fn open(mut source: R) -> Result<Self, ArrayProblem> {
        let mut start = [0u8; 8];
        read_all(&mut source, &mut start)?;
        let Some([major, minor]) = start.strip_prefix(MAGIC) else {
            return Err(ArrayProblem::NotAnArray);
        };
        let len = match major {
            1 => {
                let mut len = [0u8; 2];
                read_all(&mut source, &mut len)?;
                u32::from(u16::from_le_bytes(len))
            }
            2 | 3 => {
                let mut len = [0u8; 4];
                read_all(&mut source, &mut len)?;
                u32::from_le_bytes(len)
            }
            _ => return Err(ArrayProblem::UnknownVersion(*major, *minor)),
        };
        if len > LONGEST_HEADER {
            return Err(ArrayProblem::BadHeader("it is too long".into()));
        }
        let mut text = vec![0u8; len as usize];
        read_all(&mut source, &mut text)?;
        let keys = Keys::parse(&text)?;
        let (dtype, big_endian) = dtype(&keys.descr)?;
        Ok(Self {
            source,
            dtype,
            big_endian,
            fortran_order: keys.fortran_order,
            shape: keys.shape,
        })
    }

    /// Number of elements that the header announces.
    pub fn len(&self) -> Result<u64, ArrayProblem> {
        let product = |product: u64, &size| product.checked_mul(size);
        // Where one size is 0, the others do not matter.
        if self.shape.contains(&0) {
            return Ok(0);
        }
        let len = self.shape.iter().try_fold(1, product);
        len.ok_or_else(|| self.other_shape("fewer elements"))
    }

    /// Length of an array of one dimension.
    #[cfg(feature = "npz")]
    pub fn vector_len(&self) -> Result<u64, ArrayProblem> {
        match self.shape[..] {
            [len] => Ok(len),
            _ => Err(self.other_shape("one dimension")),
        }
    }

    pub fn other_shape(&self, expected: &'static str) -> ArrayProblem {
        ArrayProblem::OtherShape {
            found: self.shape.clone(),
            expected,
        }
    }

    /// Hands all elements over with their number, in the order of the file. A failure is told with the number of its
    /// element.
    pub fn for_each(
        mut self,
        mut take: impl FnMut(u64, Element) -> Result<(), ArrayProblem>,
    ) -> Result<(), (Option<u64>, ArrayProblem)> {
        let announced = self.len().map_err(|what| (None, what))?;
        let size = match self.dtype {
            DType::Bool => 1,
            DType::Signed(size) | DType::Unsigned(size) => size,
            DType::Real(size) | DType::Complex(size) => size,
            DType::Text(_) => return Err((None, ArrayProblem::NotNumbers)),
        };
        let mut piece = [0u8; PIECE];
        let mut found = 0u64;
        while found < announced {
            let most = (announced - found).min((PIECE / size) as u64) as usize;
            let bytes = &mut piece[..most * size];
            let got = fill(&mut self.source, bytes).map_err(|e| (Some(found), e.into()))?;
            for element in bytes[..got].chunks_exact(size) {
                let element = decode(self.dtype, element, self.big_endian);
                take(found, element).map_err(|what| (Some(found), what))?;
                found += 1;
            }
            if got < bytes.len() {
                return Err((None, ArrayProblem::Truncated { found, announced }));
            }
        }
        match self.source.read(&mut piece[..1]) {
            Ok(0) => Ok(()),
            Ok(_) => Err((None, ArrayProblem::AfterEnd { announced })),
            Err(error) => Err((None, error.into())),
        }
    }

    /// The array as one piece of text.
    #[cfg(feature = "npz")]
    pub fn text(mut self) -> Result<String, ArrayProblem> {
        const LONGEST: usize = 64;
        let DType::Text(size) = self.dtype else {
            return Err(ArrayProblem::NotText);
        };
        if self.len()? != 1 || size > LONGEST {
            return Err(self.other_shape("one short word"));
        }
        let mut bytes = vec![0u8; size];
        read_all(&mut self.source, &mut bytes)?;
        // A character is a byte, or one of four with three zeros.
        bytes.retain(|&b| b != 0);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Reads exactly so many bytes.
fn read_all(source: &mut impl Read, bytes: &mut [u8]) -> Result<(), ArrayProblem> {
    let got = fill(source, bytes)?;
    if got < bytes.len() {
        return Err(ArrayProblem::NotAnArray);
    }
    Ok(())
}

/// Reads until `bytes` are full or the source ends.
fn fill(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < bytes.len() {
        match source.read(&mut bytes[len..]) {
            Ok(0) => break,
            Ok(got) => len += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// The element that these bytes hold.
fn decode(dtype: DType, bytes: &[u8], big_endian: bool) -> Element {
    // The bits of a number, the last byte highest.
    let bits = |bytes: &[u8]| {
        let fold = |bits: u64, &byte: &u8| bits << 8 | u64::from(byte);
        match big_endian {
            true => bytes.iter().fold(0, fold),
            false => bytes.iter().rev().fold(0, fold),
        }
    };
    let real = |bytes: &[u8]| match bytes.len() {
        4 => f64::from(f32::from_bits(bits(bytes) as u32)),
        _ => f64::from_bits(bits(bytes)),
    };
    match dtype {
        DType::Bool => Element::Whole(i128::from(bytes[0] != 0)),
        DType::Signed(size) => {
            let unused = 64 - 8 * size as u32;
            let value = ((bits(bytes) << unused) as i64) >> unused;
            Element::Whole(i128::from(value))
        }
        DType::Unsigned(_) => Element::Whole(i128::from(bits(bytes))),
        DType::Real(_) => Element::Real(real(bytes)),
        DType::Complex(size) => {
            let (re, im) = bytes.split_at(size / 2);
            Element::Complex(Complex64::new(real(re), real(im)))
        }
        DType::Text(_) => unreachable!("texts are not read by elements"),
    }
}

/// The nearest number of 64 bits, for messages.
#[cfg(feature = "npz")]
pub(super) fn nearest(whole: i128) -> i64 {
    i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
}

impl Element {
    /// The value as an `f64`, if it is real and exactly one.
    pub fn real(self) -> Result<f64, ArrayProblem> {
        match self {
            Self::Real(value) => Ok(value),
            Self::Whole(whole) => {
                let value = whole as f64;
                // The 64 bits that there are at most do not saturate.
                match value as i128 == whole {
                    true => Ok(value),
                    false => Err(ArrayProblem::InexactInteger(whole.to_string())),
                }
            }
            Self::Complex(_) => Err(ArrayProblem::NotReal),
        }
    }
}

/// The type that a description such as `<f8` stands for, and whether its bytes come highest first.
fn dtype(descr: &str) -> Result<(DType, bool), ArrayProblem> {
    let unknown = || ArrayProblem::UnknownType(quote(descr.as_bytes()));
    let bytes = descr.as_bytes();
    let (order, rest) = match bytes {
        [order @ (b'<' | b'>' | b'|' | b'='), rest @ ..] => (*order, rest),
        _ => return Err(unknown()),
    };
    let (&kind, size) = rest.split_first().ok_or_else(unknown)?;
    let size: usize = std::str::from_utf8(size)
        .ok()
        .filter(|size| size.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|size| size.parse().ok())
        .ok_or_else(unknown)?;
    let dtype = match (kind, size) {
        (b'b', 1) => DType::Bool,
        (b'i', 1 | 2 | 4 | 8) => DType::Signed(size),
        (b'u', 1 | 2 | 4 | 8) => DType::Unsigned(size),
        (b'f', 4 | 8) => DType::Real(size),
        (b'c', 8 | 16) => DType::Complex(size),
        (b'S', _) => DType::Text(size),
        (b'U', _) => DType::Text(size.saturating_mul(4)),
        _ => return Err(unknown()),
    };
    Ok((dtype, order == b'>'))
}

/// What the dictionary of a header holds.
struct Keys {
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl Keys {
    fn parse(text: &[u8]) -> Result<Self, ArrayProblem> {
        let mut words = Words { text, at: 0 };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        words.expect(b'{')?;
        while !words.accept(b'}') {
            let key = words.string()?;
            words.expect(b':')?;
            match key {
                b"descr" if words.peek() == Some(b'[') => {
                    return Err(ArrayProblem::UnknownType("a record".into()));
                }
                b"descr" => descr = Some(String::from_utf8_lossy(words.string()?).into_owned()),
                b"fortran_order" => fortran_order = Some(words.truth()?),
                b"shape" => shape = Some(words.sizes()?),
                key => {
                    return Err(ArrayProblem::BadHeader(format!(
                        "unknown key {}",
                        quote(key)
                    )));
                }
            }
            if !words.accept(b',') {
                words.expect(b'}')?;
                break;
            }
        }
        match (descr, fortran_order, shape) {
            (Some(descr), Some(fortran_order), Some(shape)) => Ok(Self {
                descr,
                fortran_order,
                shape,
            }),
            _ => Err(ArrayProblem::BadHeader("a key is missing".into())),
        }
    }
}

/// The words of a dictionary.
struct Words<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    /// The next byte that is not blank.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), ArrayProblem> {
        if self.accept(byte) {
            return Ok(());
        }
        let expected = char::from(byte);
        Err(ArrayProblem::BadHeader(format!("{expected:?} is expected")))
    }

    /// A string without escapes, which no key and no type has.
    fn string(&mut self) -> Result<&'a [u8], ArrayProblem> {
        let bad = || ArrayProblem::BadHeader("a string is expected".into());
        let quote = self.peek().filter(|&b| matches!(b, b'\'' | b'"'));
        let quote = quote.ok_or_else(bad)?;
        let rest = &self.text[self.at + 1..];
        let len = rest.iter().position(|&b| b == quote).ok_or_else(bad)?;
        self.at += len + 2;
        Ok(&rest[..len])
    }

    fn truth(&mut self) -> Result<bool, ArrayProblem> {
        self.peek();
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(ArrayProblem::BadHeader("True or False is expected".into()))
    }

    /// A tuple of sizes, such as `(3, 4)`, `(3,)` or `()`.
    fn sizes(&mut self) -> Result<Vec<u64>, ArrayProblem> {
        let mut sizes = Vec::new();
        self.expect(b'(')?;
        while !self.accept(b')') {
            let digits = |b: &u8| !b.is_ascii_digit();
            self.peek();
            let rest = &self.text[self.at..];
            let len = rest.iter().position(digits).unwrap_or(rest.len());
            let size = std::str::from_utf8(&rest[..len]).ok();
            let size = size.and_then(|size| size.parse().ok());
            sizes.push(size.ok_or_else(|| ArrayProblem::BadHeader("a size is expected".into()))?);
            self.at += len;
            // As Python 2 wrote them.
            let _ = self.accept(b'L');
            if sizes.len() > MOST_DIMENSIONS {
                return Err(ArrayProblem::BadHeader("it has too many dimensions".into()));
            }
            if !self.accept(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(sizes)
    }
}

/// Reads a dense array of one or two dimensions; of one, it is a column.
pub(crate) fn read_dense(source: impl Read, purpose: Purpose) -> Result<Parsed, ReadErrorKind> {
    let failed = |element, what| ReadErrorKind::Array {
        array: "the array",
        element,
        what,
    };
    let array = Array::open(source).map_err(|what| failed(None, what))?;
    let (nrows, ncols) = match array.shape[..] {
        [nrows] => (nrows, 1),
        [nrows, ncols] => (nrows, ncols),
        _ => return Err(failed(None, array.other_shape("one or two dimensions"))),
    };
    let announced = array.len().map_err(|what| failed(None, what))?;
    let dimension = |size: u64, what| {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let size = luge_sparse::to_u32(size, what).map(|_| size);
        size.map_err(|error| failed(None, error.into()))
    };
    let shape = Shape {
        // Positions are known, as those of coordinates are; zeros are dropped below as those of arrays are.
        format: Format::Coordinate,
        symmetry: Symmetry::General,
        nrows: dimension(nrows, "number of rows")?,
        ncols: dimension(ncols, "number of columns")?,
        announced,
    };
    let field = match array.dtype {
        DType::Real(_) => Field::Real,
        DType::Complex(_) => Field::Complex,
        _ => Field::Integer,
    };
    let is_dense = matches!(purpose, Purpose::Dense { .. });
    if purpose == (Purpose::Dense { complex: false }) && field == Field::Complex {
        return Err(crate::error::NotReal { field }.into());
    }
    let mut body = Body::new(field, shape, purpose);
    let by_columns = array.fortran_order;
    let taken = array.for_each(|k, element| {
        // Neither is 0 if there is an element.
        let (row, col) = match by_columns {
            true => (k % nrows, k / nrows),
            false => (k / ncols, k % ncols),
        };
        body.push_element(row as u32, col as u32, element, is_dense)
    });
    taken.map_err(|(element, what)| failed(element, what))?;
    let header = Header {
        file: FileFormat::Npy,
        format: Format::Array,
        field,
        symmetry: Symmetry::General,
        comments: Vec::new(),
    };
    let rhs = None;
    Ok(Parsed { header, body, rhs })
}

/// Writes a dense matrix, by columns; one column as an array of one dimension.
pub(crate) fn write_dense<V: Value>(
    mut out: &mut dyn Write,
    matrix: &DenseMatrix<V>,
) -> io::Result<()> {
    let order_and_shape = match (matrix.nrows(), matrix.ncols()) {
        (nrows, 1) => format!("False, 'shape': ({nrows},)"),
        (nrows, ncols) => format!("True, 'shape': ({nrows}, {ncols})"),
    };
    let header = format!(
        "{{'descr': '{}', 'fortran_order': {order_and_shape}, }}",
        V::NUMPY
    );
    // Magic, version and length before it, a line feed behind it, and all together a multiple of 64.
    let len = (MAGIC.len() + 4 + header.len() + 1).next_multiple_of(64) - MAGIC.len() - 4;
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    out.write_all(&(len as u16).to_le_bytes())?;
    writeln!(out, "{header:<width$}", width = len - 1)?;
    for &value in matrix.values() {
        value.write_bytes(&mut out)?;
    }
    Ok(())
}

impl Body {
    /// Keeps an element at a position that counts from 0 and is in range; a zero only if `zeros` says so.
    pub(super) fn push_element(
        &mut self,
        row: u32,
        col: u32,
        element: Element,
        zeros: bool,
    ) -> Result<(), ArrayProblem> {
        let is_zero = match element {
            Element::Complex(value) => value == Complex64::ZERO,
            other => other.real()? == 0.0,
        };
        let pushed = match self {
            _ if is_zero && !zeros => return Ok(()),
            Self::Real(entries) => entries.push(row, col, element.real()?),
            Self::Integer(entries) => entries.push(row, col, element.real()?),
            Self::Complex(entries) => match element {
                Element::Complex(value) => entries.push(row, col, value),
                other => entries.push(row, col, Complex64::new(other.real()?, 0.0)),
            },
            Self::Pattern(entries) => entries.push(row, col, ()),
        };
        // Nothing is wrong with a position where there is no symmetry.
        debug_assert!(pushed.is_ok());
        Ok(())
    }
}
