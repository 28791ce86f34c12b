//! The first line and the size line.

use luge_sparse::{IndexOverflow, to_u32};

use crate::error::{Located, Problem, ReadErrorKind, quote};
use crate::header::{Field, FileFormat, Format, Header, Symmetry};
use crate::token::Tokens;

/// Sizes and layout of the entries to come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub format: Format,
    pub symmetry: Symmetry,
    pub nrows: usize,
    pub ncols: usize,
    /// Number of stored entries.
    pub announced: u64,
}

/// What is wrong with a size line.
pub(crate) enum SizeError {
    Syntax(Located),
    Overflow {
        column: usize,
        source: IndexOverflow,
    },
}

impl From<Located> for SizeError {
    fn from(error: Located) -> Self {
        Self::Syntax(error)
    }
}

impl SizeError {
    /// The error in line `line`, counted from 1.
    pub fn at_line(self, line: u64) -> ReadErrorKind {
        match self {
            Self::Syntax(error) => error.at_line(line),
            Self::Overflow { column, source } => ReadErrorKind::IndexOverflow {
                line,
                column,
                source,
            },
        }
    }
}

/// Parses the first line, e.g. `%%MatrixMarket matrix coordinate real general`, in any case.
pub(crate) fn parse_banner(line: &[u8]) -> Result<Header, Located> {
    let mut tokens = Tokens::new(line);
    let banner = tokens.next_or("%%MatrixMarket");
    // The mark must stand at the very start, with nothing before it.
    if !line
        .get(..14)
        .is_some_and(|start| start.eq_ignore_ascii_case(b"%%MatrixMarket"))
        || banner.as_ref().is_ok_and(|t| t.bytes.len() != 14)
    {
        return Err(Located {
            column: 1,
            what: Problem::NoBanner(banner.map(|t| quote(t.bytes)).unwrap_or_default()),
        });
    }
    let mut word = |what| -> Result<(String, usize, String), Located> {
        let token = tokens.next_or(what)?;
        let found = quote(token.bytes);
        Ok((found.to_ascii_lowercase(), token.column, found))
    };

    let (object, column, found) = word("object, \"matrix\"")?;
    if object != "matrix" {
        let what = Problem::UnknownObject(found);
        return Err(Located { column, what });
    }
    let (format, column, found) = word("format")?;
    let format = match format.as_str() {
        "coordinate" => Format::Coordinate,
        "array" => Format::Array,
        _ => {
            let what = Problem::UnknownFormat(found);
            return Err(Located { column, what });
        }
    };
    let (field, field_column, found) = word("field")?;
    let field = match field.as_str() {
        "real" => Field::Real,
        "integer" => Field::Integer,
        "complex" => Field::Complex,
        "pattern" => Field::Pattern,
        _ => {
            return Err(Located {
                column: field_column,
                what: Problem::UnknownField(found),
            });
        }
    };
    let (symmetry, column, found) = word("symmetry")?;
    let symmetry = match symmetry.as_str() {
        "general" => Symmetry::General,
        "symmetric" => Symmetry::Symmetric,
        "skew-symmetric" => Symmetry::SkewSymmetric,
        "hermitian" => Symmetry::Hermitian,
        _ => {
            let what = Problem::UnknownSymmetry(found);
            return Err(Located { column, what });
        }
    };
    tokens.end()?;

    let excluded = match field {
        Field::Pattern => {
            format == Format::Array
                || matches!(symmetry, Symmetry::SkewSymmetric | Symmetry::Hermitian)
        }
        Field::Real | Field::Integer => symmetry == Symmetry::Hermitian,
        Field::Complex => false,
    };
    if excluded {
        return Err(Located {
            column: field_column,
            what: Problem::Combination {
                format,
                field,
                symmetry,
            },
        });
    }
    Ok(Header {
        file: FileFormat::MatrixMarket,
        format,
        field,
        symmetry,
        comments: Vec::new(),
    })
}

/// Parses `rows columns entries` of a coordinate file, `rows columns` of an array.
pub(crate) fn parse_sizes(line: &[u8], header: &Header) -> Result<Shape, SizeError> {
    let mut tokens = Tokens::new(line);
    let mut size = |what| -> Result<(Option<u64>, usize, String), Located> {
        let token = tokens.next_or(what)?;
        if !token.bytes.iter().all(u8::is_ascii_digit) {
            let what = Problem::BadSize(quote(token.bytes));
            let column = token.column;
            return Err(Located { column, what });
        }
        // What is left can only fail by overflow.
        let value = std::str::from_utf8(token.bytes)
            .ok()
            .and_then(|text| text.parse::<u64>().ok());
        Ok((value, token.column, quote(token.bytes)))
    };
    let dimension = |(value, column, _): (Option<u64>, usize, String), what| {
        let value = value
            .and_then(|value| usize::try_from(value).ok())
            .unwrap_or(usize::MAX);
        match to_u32(value, what) {
            Ok(_) => Ok(value),
            Err(source) => Err(SizeError::Overflow { column, source }),
        }
    };

    let rows = size("number of rows")?;
    let column = rows.1;
    let nrows = dimension(rows, "number of rows")?;
    let ncols = dimension(size("number of columns")?, "number of columns")?;
    let symmetry = header.symmetry;
    let announced = match header.format {
        Format::Coordinate => {
            let (value, column, found) = size("number of entries")?;
            let what = Problem::BadSize(found);
            value.ok_or(Located { column, what })?
        }
        Format::Array => {
            // Both are below 2^32, so no product overflows.
            let (m, n) = (nrows as u64, ncols as u64);
            match symmetry {
                Symmetry::General => m * n,
                Symmetry::Symmetric | Symmetry::Hermitian => n * (n + 1) / 2,
                Symmetry::SkewSymmetric => n * n.saturating_sub(1) / 2,
            }
        }
    };
    tokens.end()?;
    if symmetry != Symmetry::General && nrows != ncols {
        let what = Problem::NotSquare {
            symmetry,
            nrows,
            ncols,
        };
        return Err(Located { column, what }.into());
    }
    Ok(Shape {
        format: header.format,
        symmetry,
        nrows,
        ncols,
        announced,
    })
}
