//! The parser: takes text in windows of whole lines, keeps entries.

use memchr::memchr;

use crate::assemble::{Buckets, Entry};
use crate::error::{Located, NotReal, Problem, ReadErrorKind};
use crate::header::{Field, Format, Header, Symmetry};
use crate::matrix::DenseMatrix;
use crate::preamble::{Shape, parse_banner, parse_sizes};
use crate::token::{Tokens, is_blank};
use crate::value::sealed::Value;
use crate::value::{Complex, Integer, Pattern, Real, Spelling, digits, index, skip_blanks};

/// What the entries are kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A sparse matrix: the zeros of an array are dropped.
    Sparse {
        /// Whether both triangles of a symmetric matrix are wanted.
        expand: bool,
    },
    /// A dense matrix, both triangles, of real values or also of complex ones.
    Dense {
        /// Whether complex values are taken.
        complex: bool,
    },
}

/// Takes the text of a file in windows of whole lines.
pub(crate) trait TakeText {
    /// Takes whole lines; only the last window of a file may end without a line feed.
    fn feed(&mut self, window: &[u8]) -> Result<(), ReadErrorKind>;

    /// The line that is being read, from 1.
    fn line(&self) -> u64;
}

/// Reads a file line by line. Memory grows with the entries that arrive, whatever is announced.
pub(crate) struct Parser {
    purpose: Purpose,
    /// Complete lines so far.
    line: u64,
    stage: Stage,
}

enum Stage {
    Banner,
    Sizes(Header),
    Entries(Header, Body),
}

/// Entries of a file, by field.
pub(crate) enum Body {
    Real(Entries<Real>),
    Integer(Entries<Integer>),
    Complex(Entries<Complex>),
    Pattern(Entries<Pattern>),
}

/// A file whose text has been taken.
pub(crate) struct Parsed {
    pub header: Header,
    pub body: Body,
    pub rhs: Option<DenseMatrix>,
}

/// Entries of one field.
pub(crate) struct Entries<S: Spelling> {
    pub shape: Shape,
    pub found: u64,
    pub stored: Stored<S::Value>,
    purpose: Purpose,
    /// Next position of an array.
    next: (u32, u32),
}

/// Entries with their positions, or the values of a general array, column by column.
pub(crate) enum Stored<V> {
    Triplets(Buckets<V>),
    Columns(Vec<V>),
}

impl Parser {
    pub fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            line: 0,
            stage: Stage::Banner,
        }
    }

    /// Checks that nothing is missing.
    pub fn finish(self) -> Result<(Header, Body), ReadErrorKind> {
        let what = match &self.stage {
            Stage::Banner => Problem::EmptyFile,
            Stage::Sizes(_) => Problem::NoSizeLine,
            Stage::Entries(_, body) => {
                let (found, announced) = body.progress();
                if found == announced {
                    let Stage::Entries(header, body) = self.stage else {
                        unreachable!("matched above")
                    };
                    return Ok((header, body));
                }
                Problem::TooFewEntries { announced, found }
            }
        };
        Err(self.at_line(Located { column: 1, what }))
    }

    fn at_line(&self, error: Located) -> ReadErrorKind {
        error.at_line(self.line())
    }
}

impl TakeText for Parser {
    fn feed(&mut self, mut window: &[u8]) -> Result<(), ReadErrorKind> {
        while !window.is_empty() {
            let body = match &mut self.stage {
                Stage::Banner => {
                    let (line, rest) = split_line(window);
                    let header = parse_banner(line).map_err(|error| self.at_line(error))?;
                    let field = header.field;
                    if let Purpose::Dense { complex } = self.purpose
                        && !(matches!(field, Field::Real | Field::Integer)
                            || complex && field == Field::Complex)
                    {
                        return Err(NotReal { field }.into());
                    }
                    self.stage = Stage::Sizes(header);
                    self.line += 1;
                    window = rest;
                    continue;
                }
                Stage::Sizes(header) => {
                    let (line, rest) = split_line(window);
                    match classify(line) {
                        Line::Blank => {}
                        Line::Comment(text) => header.comments.push(text),
                        Line::Data => {
                            let shape = match parse_sizes(line, header) {
                                Ok(shape) => shape,
                                Err(error) => return Err(error.at_line(self.line())),
                            };
                            let header = header.clone();
                            let body = Body::new(header.field, shape, self.purpose);
                            self.stage = Stage::Entries(header, body);
                        }
                    }
                    self.line += 1;
                    window = rest;
                    continue;
                }
                Stage::Entries(_, body) => body,
            };
            // From here on, all lines are alike.
            let line = &mut self.line;
            return match body {
                Body::Real(entries) => entries.feed(window, line),
                Body::Integer(entries) => entries.feed(window, line),
                Body::Complex(entries) => entries.feed(window, line),
                Body::Pattern(entries) => entries.feed(window, line),
            }
            .map_err(|error| self.at_line(error));
        }
        Ok(())
    }

    fn line(&self) -> u64 {
        self.line + 1
    }
}

impl Body {
    pub fn new(field: Field, shape: Shape, purpose: Purpose) -> Self {
        match field {
            Field::Real => Self::Real(Entries::new(shape, purpose)),
            Field::Integer => Self::Integer(Entries::new(shape, purpose)),
            Field::Complex => Self::Complex(Entries::new(shape, purpose)),
            Field::Pattern => Self::Pattern(Entries::new(shape, purpose)),
        }
    }

    /// Entries found and announced.
    fn progress(&self) -> (u64, u64) {
        match self {
            Self::Real(entries) => (entries.found, entries.shape.announced),
            Self::Integer(entries) => (entries.found, entries.shape.announced),
            Self::Complex(entries) => (entries.found, entries.shape.announced),
            Self::Pattern(entries) => (entries.found, entries.shape.announced),
        }
    }
}

impl<S: Spelling> Entries<S> {
    pub fn new(shape: Shape, purpose: Purpose) -> Self {
        let general_array = (Format::Array, Symmetry::General) == (shape.format, shape.symmetry);
        let is_dense = matches!(purpose, Purpose::Dense { .. });
        let stored = if general_array && is_dense {
            Stored::Columns(Vec::new())
        } else {
            let mirror = match purpose {
                Purpose::Sparse { expand: false } => Symmetry::General,
                Purpose::Sparse { expand: true } | Purpose::Dense { .. } => shape.symmetry,
            };
            Stored::Triplets(Buckets::new(shape.nrows, mirror))
        };
        // The first position of a packed strictly lower triangle is (1, 0).
        let first_row = u32::from(shape.symmetry == Symmetry::SkewSymmetric);
        Self {
            shape,
            found: 0,
            stored,
            purpose,
            next: (first_row, 0),
        }
    }

    /// Takes whole lines and counts them in `line`. On an error `line` is the number of lines before
    /// the offender.
    fn feed(&mut self, window: &[u8], line: &mut u64) -> Result<(), Located> {
        let mut rest = window;
        while !rest.is_empty() {
            // Plain lines go here, anything that needs a second look below.
            let plain = match self.shape.format {
                Format::Coordinate => self.fast_coordinate(rest, line),
                Format::Array => self.fast_array(rest, line),
            };
            rest = &rest[plain..];
            if rest.is_empty() {
                break;
            }
            let (text, next) = split_line(rest);
            if matches!(classify(text), Line::Data) {
                self.careful(text)?;
            }
            *line += 1;
            rest = next;
        }
        Ok(())
    }

    /// Keeps the entries of plain lines and answers how many bytes those have. Stops before the first
    /// line that is not plain, that breaks a rule, or that is one too many.
    fn fast_coordinate(&mut self, window: &[u8], line: &mut u64) -> usize {
        let Stored::Triplets(triplets) = &mut self.stored else {
            return 0;
        };
        let (nrows, ncols) = (self.shape.nrows as u64, self.shape.ncols as u64);
        let symmetry = self.shape.symmetry;
        let mut remaining = self.shape.announced - self.found;
        let mut start = 0;
        while remaining > 0 {
            // Ten digits cannot wrap, and hold every index below 2^32.
            let at = skip_blanks(window, start);
            let (row, end) = digits(window, at);
            if end - at > 10 || row == 0 || row > nrows || !blank_at(window, end) {
                break;
            }
            let at = skip_blanks(window, end);
            let (col, end) = digits(window, at);
            if end - at > 10 || col == 0 || col > ncols {
                break;
            }
            // Without this, "1 2-3" would be an entry.
            if S::Value::FIELD != Field::Pattern && !blank_at(window, end) {
                break;
            }
            let Some((value, end)) = S::fast(window, end) else {
                break;
            };
            let Some(next) = line_end(window, end) else {
                break;
            };
            let admitted = match symmetry {
                Symmetry::General => true,
                Symmetry::Symmetric => row >= col,
                Symmetry::SkewSymmetric => row > col,
                Symmetry::Hermitian => row > col || (row == col && value.is_real()),
            };
            if !admitted {
                break;
            }
            triplets.push(Entry {
                row: (row - 1) as u32,
                col: (col - 1) as u32,
                value,
            });
            remaining -= 1;
            *line += 1;
            start = next;
        }
        self.found = self.shape.announced - remaining;
        start
    }

    /// As [`Self::fast_coordinate`], for arrays.
    fn fast_array(&mut self, window: &[u8], line: &mut u64) -> usize {
        let mut start = 0;
        while self.found < self.shape.announced {
            let Some((value, end)) = S::fast(window, start) else {
                break;
            };
            let Some(next) = line_end(window, end) else {
                break;
            };
            if !self.admits_at_next(value) {
                break;
            }
            self.push_next(value);
            *line += 1;
            start = next;
        }
        start
    }

    /// Takes a line that is neither blank nor a comment.
    fn careful(&mut self, line: &[u8]) -> Result<(), Located> {
        let Shape {
            format,
            symmetry,
            nrows,
            ncols,
            announced,
        } = self.shape;
        let mut tokens = Tokens::new(line);
        let first = tokens.clone().next_or("entry")?;
        if self.found == announced {
            return Err(first.problem(|_| Problem::TooManyEntries { announced }));
        }
        match format {
            Format::Coordinate => {
                let row = index(tokens.next_or("row index")?, "row", nrows)?;
                let token = tokens.next_or("column index")?;
                let col = index(token, "column", ncols)?;
                if let Some(what) = misplaced(row, col, symmetry) {
                    return Err(token.problem(|_| what));
                }
                let first_of_value = tokens.clone().next();
                let value = S::careful(&mut tokens)?;
                tokens.end()?;
                self.push(row, col, value).map_err(|what| {
                    let token = first_of_value.unwrap_or(token);
                    token.problem(|_| what)
                })?;
            }
            Format::Array => {
                let value = S::careful(&mut tokens)?;
                tokens.end()?;
                if !self.admits_at_next(value) {
                    let row = u64::from(self.next.0) + 1;
                    return Err(first.problem(|_| Problem::ImaginaryDiagonal(row)));
                }
                self.push_next(value);
            }
        }
        Ok(())
    }

    /// Takes an entry of a file by coordinates or by columns; row and column count from 0 and are in range, and not
    /// [`misplaced`].
    pub fn push(&mut self, row: u32, col: u32, value: S::Value) -> Result<(), Problem> {
        if self.shape.symmetry == Symmetry::Hermitian && col == row && !value.is_real() {
            return Err(Problem::ImaginaryDiagonal(u64::from(row) + 1));
        }
        if let Stored::Triplets(triplets) = &mut self.stored {
            triplets.push(Entry { row, col, value });
        }
        self.found += 1;
        Ok(())
    }

    /// Whether `value` may stand at the next position of the array.
    fn admits_at_next(&self, value: S::Value) -> bool {
        let (row, col) = self.next;
        self.shape.symmetry != Symmetry::Hermitian || row != col || value.is_real()
    }

    /// Keeps a value of an array and moves on to the next position.
    #[inline]
    fn push_next(&mut self, value: S::Value) {
        self.found += 1;
        let triplets = match &mut self.stored {
            Stored::Columns(values) => return values.push(value),
            Stored::Triplets(triplets) => triplets,
        };
        let (row, col) = self.next;
        // A dense matrix keeps the sign of its zeros.
        if matches!(self.purpose, Purpose::Dense { .. }) || !value.is_zero() {
            triplets.push(Entry { row, col, value });
        }
        self.next = if row as usize + 1 < self.shape.nrows {
            (row + 1, col)
        } else {
            let top = match self.shape.symmetry {
                Symmetry::General => 0,
                Symmetry::Symmetric | Symmetry::Hermitian => col + 1,
                Symmetry::SkewSymmetric => col + 2,
            };
            (top, col + 1)
        };
    }
}

/// The rule of the symmetry that an entry at this position breaks, if it does. Row and column count from 0.
pub(crate) fn misplaced(row: u32, col: u32, symmetry: Symmetry) -> Option<Problem> {
    if symmetry != Symmetry::General && col > row {
        return Some(Problem::UpperEntry {
            row: u64::from(row) + 1,
            col: u64::from(col) + 1,
            symmetry,
        });
    }
    (symmetry == Symmetry::SkewSymmetric && col == row)
        .then(|| Problem::SkewDiagonal(u64::from(row) + 1))
}

enum Line {
    Blank,
    Comment(String),
    Data,
}

/// What kind of line this is. The text of a comment comes without `%` and surrounding blanks.
fn classify(line: &[u8]) -> Line {
    match line.iter().position(|&b| !is_blank(b)) {
        None => Line::Blank,
        Some(at) if line[at] == b'%' => {
            Line::Comment(String::from_utf8_lossy(&line[at + 1..]).trim().to_owned())
        }
        Some(_) => Line::Data,
    }
}

/// The first line without its line feed, and what follows.
pub(crate) fn split_line(window: &[u8]) -> (&[u8], &[u8]) {
    match memchr(b'\n', window) {
        Some(at) => (&window[..at], &window[at + 1..]),
        None => (window, &[]),
    }
}

#[inline]
fn blank_at(window: &[u8], at: usize) -> bool {
    window.get(at).copied().is_some_and(is_blank)
}

/// Where the next line starts, if only blanks are left of this one.
#[inline]
fn line_end(window: &[u8], at: usize) -> Option<usize> {
    // Most lines end right here.
    let at = match window.get(at) {
        Some(b'\n') => return Some(at + 1),
        _ => skip_blanks(window, at),
    };
    match window.get(at) {
        None => Some(at),
        Some(b'\n') => Some(at + 1),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries<S: Spelling>(symmetry: Symmetry) -> Entries<S> {
        Entries::new(
            Shape {
                format: Format::Coordinate,
                symmetry,
                nrows: 50,
                ncols: 50,
                announced: 1,
            },
            Purpose::Sparse { expand: true },
        )
    }

    /// What the fast parser keeps of a line, and whether it takes it.
    fn agree<S: Spelling>(line: &str, symmetry: Symmetry) -> bool
    where
        S::Value: PartialEq + std::fmt::Debug,
    {
        let mut fast = entries::<S>(symmetry);
        let mut count = 0;
        let used = fast.fast_coordinate(line.as_bytes(), &mut count);
        if used == 0 {
            return false;
        }
        assert_eq!(used, line.len());
        let mut careful = entries::<S>(symmetry);
        careful
            .careful(line.as_bytes())
            .expect("what the fast parser takes is right");
        let of = |entries: Entries<S>| match entries.stored {
            Stored::Triplets(entries) => entries.iter().copied().collect::<Vec<_>>(),
            Stored::Columns(_) => Vec::new(),
        };
        assert_eq!(of(fast), of(careful), "{line:?}");
        true
    }

    #[test]
    fn the_fast_parser_takes_the_plain_lines() {
        assert!(agree::<Real>("3 2 -1.25e-3", Symmetry::General));
        assert!(agree::<Real>("  3\t2  .5 \r", Symmetry::Symmetric));
        assert!(agree::<Integer>("3 2 -17", Symmetry::SkewSymmetric));
        assert!(agree::<Complex>("3 3 1 -0", Symmetry::Hermitian));
        assert!(agree::<Pattern>("50 50 ", Symmetry::General));
        assert!(!agree::<Real>("3 2 1d0", Symmetry::General));
        assert!(!agree::<Real>("3 2-1", Symmetry::General));
        assert!(!agree::<Real>("51 2 1", Symmetry::General));
        assert!(!agree::<Real>("2 3 1", Symmetry::Symmetric));
        assert!(!agree::<Real>(
            "00000000000000000000001 2 1",
            Symmetry::General
        ));
    }

    proptest! {
        #[test]
        fn the_careful_parser_agrees_with_the_fast_one(
            line in "[ \t]{0,2}[0-9+]{1,3}[ \t]{1,2}[0-9]{1,2}[ ]?[-+]?[0-9einfad.]{0,6}[ ]?[-0-9.e+]{0,4}[ \r]{0,2}",
            symmetry in prop_oneof![
                Just(Symmetry::General), Just(Symmetry::Symmetric),
                Just(Symmetry::SkewSymmetric), Just(Symmetry::Hermitian),
            ],
        ) {
            agree::<Real>(&line, symmetry);
            agree::<Integer>(&line, symmetry);
            agree::<Complex>(&line, symmetry);
            agree::<Pattern>(&line, symmetry);
        }
    }
}
