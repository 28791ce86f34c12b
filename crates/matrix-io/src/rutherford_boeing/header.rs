//! The four or five lines at the top.

use std::rc::Rc;

use luge_sparse::to_u32;

use super::format::{Kind, LineFormat, formats_of};
use crate::error::{Located, Problem};
use crate::header::{Field, FileFormat, Format, Header, Symmetry};
use crate::preamble::{Shape, SizeError};
use crate::token::{Token, Tokens};

/// What the header says, once it is whole.
pub(super) struct Layout {
    pub header: Header,
    pub shape: Shape,
    pub pointers: Rc<LineFormat>,
    pub indices: Rc<LineFormat>,
    /// None for a pattern.
    pub values: Option<Rc<LineFormat>>,
    pub rhs: Option<Rhs>,
}

/// The right-hand sides that a Harwell–Boeing file announces.
pub(super) struct Rhs {
    pub format: Rc<LineFormat>,
    pub count: u64,
    /// Number of their entries if they are stored as the matrix is, by compressed columns.
    pub sparse: Option<u64>,
}

/// The lines that have been read.
#[derive(Default)]
pub(super) enum Lines {
    #[default]
    Title,
    Counts(Vec<String>),
    Type(Vec<String>, bool),
    Formats(Header, Shape, bool),
    Rhs(Box<Layout>),
    Whole(Box<Layout>),
}

impl Lines {
    /// What the next line has to tell.
    pub fn due(&self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Counts(_) => "numbers of lines",
            Self::Type(..) => "type and the sizes of the matrix",
            Self::Formats(..) => "formats",
            Self::Rhs(_) => "type of the right-hand sides",
            Self::Whole(_) => "column pointers",
        }
    }

    /// Takes the next line.
    pub fn take(self, line: &[u8]) -> Result<Self, SizeError> {
        Ok(match self {
            Self::Title => Self::Counts(title(line)),
            Self::Counts(comments) => {
                let has_rhs = counts(line)?;
                Self::Type(comments, has_rhs)
            }
            Self::Type(comments, has_rhs) => {
                let (header, shape) = sizes(line, comments)?;
                Self::Formats(header, shape, has_rhs)
            }
            Self::Formats(header, shape, has_rhs) => {
                let layout = Box::new(formats(line, header, shape, has_rhs)?);
                match has_rhs {
                    true => Self::Rhs(layout),
                    false => Self::Whole(layout),
                }
            }
            Self::Rhs(mut layout) => {
                if let Some(rhs) = &mut layout.rhs {
                    describe_rhs(line, rhs)?;
                }
                Self::Whole(layout)
            }
            whole @ Self::Whole(_) => whole,
        })
    }
}

/// Whether a text may be a file of these formats by its first three lines: the third has a type, the second numbers.
pub(crate) fn looks_like_one(start: &[u8]) -> bool {
    let mut lines = start.split(|&b| b == b'\n').skip(1);
    let (Some(counts), Some(sizes)) = (lines.next(), lines.next()) else {
        return false;
    };
    let words = |line| Tokens::new(line).map(|token| token.bytes);
    let is_number = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    let is_type = sizes.get(..3).is_some_and(|letters| {
        [&b"RCIPQ"[..], b"SUHZR", b"AE"]
            .iter()
            .zip(letters)
            .all(|(known, letter)| known.contains(&letter.to_ascii_uppercase()))
    });
    let mut after_type = words(sizes.get(3..).unwrap_or_default()).peekable();
    is_type
        && after_type.peek().is_some()
        && after_type.take(3).all(is_number)
        && words(counts).next().is_some()
        && words(counts).all(is_number)
}

/// Title and key, those that are not blank.
fn title(line: &[u8]) -> Vec<String> {
    let (title, key) = line.split_at(line.len().min(72));
    [title, key]
        .iter()
        .map(|text| String::from_utf8_lossy(text).trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect()
}

fn number(token: Token<'_>) -> Result<u64, Located> {
    if !token.bytes.iter().all(u8::is_ascii_digit) {
        return Err(token.problem(Problem::BadSize));
    }
    let text = std::str::from_utf8(token.bytes).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| token.problem(Problem::BadSize))
}

/// Whether the file has right-hand sides: the fifth number of lines, which Rutherford–Boeing does not have.
fn counts(line: &[u8]) -> Result<bool, Located> {
    let mut tokens = Tokens::new(line);
    number(tokens.next_or("number of lines")?)?;
    let mut last = 0;
    let mut found = 1;
    for token in tokens.by_ref().take(4) {
        last = number(token)?;
        found += 1;
    }
    tokens.end()?;
    Ok(found == 5 && last > 0)
}

fn sizes(line: &[u8], comments: Vec<String>) -> Result<(Header, Shape), SizeError> {
    let mut tokens = Tokens::new(line);
    let first = tokens.next_or("type of the matrix")?;
    let (field, symmetry) = matrix_type(first)?;
    let dimension = |token: Token<'_>, what| {
        let column = token.column;
        // What is all digits can only be too large.
        let size = match number(token) {
            Ok(size) => usize::try_from(size).unwrap_or(usize::MAX),
            Err(_) if token.bytes.iter().all(u8::is_ascii_digit) => usize::MAX,
            Err(error) => return Err(SizeError::Syntax(error)),
        };
        to_u32(size, what).map_err(|source| SizeError::Overflow { column, source })?;
        Ok(size)
    };
    let rows = tokens.next_or("number of rows")?;
    let nrows = dimension(rows, "number of rows")?;
    let ncols = dimension(tokens.next_or("number of columns")?, "number of columns")?;
    let announced = number(tokens.next_or("number of entries")?)?;
    // The number of elements, which an assembled matrix does not have.
    let _ = tokens.next();
    tokens.end()?;
    if symmetry != Symmetry::General && nrows != ncols {
        let what = Problem::NotSquare {
            symmetry,
            nrows,
            ncols,
        };
        return Err(rows.problem(|_| what).into());
    }
    let header = Header {
        file: FileFormat::RutherfordBoeing,
        format: Format::Coordinate,
        field,
        symmetry,
        comments,
    };
    let shape = Shape {
        format: Format::Coordinate,
        symmetry,
        nrows,
        ncols,
        announced,
    };
    Ok((header, shape))
}

fn matrix_type(token: Token<'_>) -> Result<(Field, Symmetry), Located> {
    let unknown = || token.problem(Problem::UnknownMatrixType);
    let letters: [u8; 3] = token.bytes.try_into().map_err(|_| unknown())?;
    let [field, symmetry, assembly] = letters.map(|letter| letter.to_ascii_uppercase());
    let symmetry = match symmetry {
        b'S' => Symmetry::Symmetric,
        b'U' | b'R' => Symmetry::General,
        b'H' => Symmetry::Hermitian,
        b'Z' => Symmetry::SkewSymmetric,
        _ => return Err(unknown()),
    };
    let field = match field {
        b'R' => Field::Real,
        b'C' => Field::Complex,
        b'I' => Field::Integer,
        b'P' => Field::Pattern,
        b'Q' => return Err(token.problem(Problem::ValuesElsewhere)),
        _ => return Err(unknown()),
    };
    match assembly {
        b'A' => {}
        b'E' => return Err(token.problem(Problem::Elemental)),
        _ => return Err(unknown()),
    }
    let excluded = match field {
        Field::Pattern => matches!(symmetry, Symmetry::SkewSymmetric | Symmetry::Hermitian),
        Field::Real | Field::Integer => symmetry == Symmetry::Hermitian,
        Field::Complex => false,
    };
    if excluded {
        return Err(token.problem(|_| Problem::Combination {
            format: Format::Coordinate,
            field,
            symmetry,
        }));
    }
    Ok((field, symmetry))
}

/// The next format, which has to be one of whole numbers if `kind` says so.
fn next_format<'a>(
    tokens: &mut impl Iterator<Item = Token<'a>>,
    line: &[u8],
    kind: Option<Kind>,
    what: &'static str,
) -> Result<Rc<LineFormat>, Located> {
    let token = tokens.next().ok_or_else(|| Located {
        column: line.trim_ascii_end().len() + 1,
        what: Problem::Missing(what),
    })?;
    let format = LineFormat::parse(token)?;
    if kind == Some(Kind::Integer) && format.kind == Kind::Real {
        return Err(token.problem(Problem::NotAFormatOfIntegers));
    }
    Ok(Rc::new(format))
}

fn formats(line: &[u8], header: Header, shape: Shape, has_rhs: bool) -> Result<Layout, Located> {
    let all = formats_of(line)?;
    let mut tokens = all.iter().copied();
    let whole = Some(Kind::Integer);
    let pointers = next_format(&mut tokens, line, whole, "format of the column pointers")?;
    let indices = next_format(&mut tokens, line, whole, "format of the row indices")?;
    let values = match header.field {
        Field::Pattern => {
            // There may be one of values all the same.
            if tokens.len() > usize::from(has_rhs) {
                tokens.next();
            }
            None
        }
        field => {
            let kind = (field == Field::Integer).then_some(Kind::Integer);
            Some(next_format(
                &mut tokens,
                line,
                kind,
                "format of the values",
            )?)
        }
    };
    let rhs = if has_rhs {
        let what = "format of the right-hand sides";
        Some(Rhs {
            format: next_format(&mut tokens, line, None, what)?,
            count: 0,
            sparse: None,
        })
    } else {
        // Rutherford–Boeing has three formats; a fourth may stand where Harwell–Boeing has it.
        tokens.next();
        None
    };
    if let Some(token) = tokens.next() {
        return Err(token.problem(Problem::Extra));
    }
    Ok(Layout {
        header,
        shape,
        pointers,
        indices,
        values,
        rhs,
    })
}

fn describe_rhs(line: &[u8], rhs: &mut Rhs) -> Result<(), Located> {
    let mut tokens = Tokens::new(line);
    let first = tokens.next_or("type of the right-hand sides")?;
    // Letters behind the first one announce guesses and solutions. They may stand apart from it.
    let sparse = match first.bytes[0].to_ascii_uppercase() {
        b'F' => false,
        b'M' | b'S' => true,
        _ => {
            return Err(first.problem(Problem::UnknownRightHandSide));
        }
    };
    let mut words = tokens.skip_while(|token| !token.bytes[0].is_ascii_digit());
    let at_end = || Located {
        column: line.trim_ascii_end().len() + 1,
        what: Problem::Missing("number of right-hand sides"),
    };
    let count = words.next().ok_or_else(at_end)?;
    rhs.count = number(count)?;
    if rhs.count > u64::from(u32::MAX) {
        return Err(count.problem(Problem::BadSize));
    }
    let entries = words.next();
    if sparse {
        rhs.sparse = Some(number(entries.ok_or_else(at_end)?)?);
    }
    match words.next() {
        Some(token) => Err(token.problem(Problem::Extra)),
        None => Ok(()),
    }
}
