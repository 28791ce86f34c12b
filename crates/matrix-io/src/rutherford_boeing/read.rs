//! The parser: takes text in windows of whole lines, keeps entries.

use std::rc::Rc;

use num_complex::Complex64;

use super::format::{Kind, LineFormat, real};
use super::header::{Layout, Lines, Rhs};
use crate::assemble::{Buckets, Entry, to_columns};
use crate::error::{Located, Problem, ReadErrorKind, quote};
use crate::header::{Field, Format, Header, Symmetry};
use crate::matrix::DenseMatrix;
use crate::parse::{Body, Purpose, TakeText, misplaced, split_line};
use crate::preamble::Shape;
use crate::token::{Token, is_blank};
use crate::value::{index, integer};

/// Reads a file line by line. Memory grows with the numbers that arrive, whatever is announced.
pub(crate) struct Parser {
    purpose: Purpose,
    /// Complete lines so far.
    line: u64,
    stage: Stage,
}

enum Stage {
    Header(Lines),
    Numbers(Box<Numbers>),
}

/// Which numbers are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Pointers,
    Indices,
    Values,
    RhsPointers,
    RhsIndices,
    RhsValues,
    /// Starting guesses and solutions, or right-hand sides that are not kept: anything.
    NotKept,
    /// Nothing.
    End,
}

/// All numbers of a file.
struct Numbers {
    layout: Layout,
    part: Part,
    /// Numbers of this part so far.
    found: u64,
    body: Body,
    matrix: Columns,
    rhs: Columns,
    /// Real part of a value whose imaginary part is due.
    re: Option<f64>,
    /// Dense right-hand sides, or the values of sparse ones.
    rhs_values: Vec<f64>,
}

/// Compressed columns while they arrive.
#[derive(Default)]
struct Columns {
    /// Offsets, which count from 0.
    ptr: Vec<u64>,
    /// Rows, from 0.
    idx: Vec<u32>,
    /// The column of the entry that comes next.
    col: usize,
}

impl Columns {
    /// Takes a pointer, from 1, of `count` columns with `entries` entries.
    fn take_pointer(&mut self, token: Token<'_>, entries: u64, count: u64) -> Result<(), Located> {
        if !token.bytes.iter().all(u8::is_ascii_digit) {
            return Err(token.problem(Problem::BadIndex));
        }
        let digits = token.bytes.iter();
        let found = digits.fold(0u64, |value, digit| {
            let value = value.saturating_mul(10);
            value.saturating_add(u64::from(digit - b'0'))
        });
        let least = self.ptr.last().map_or(1, |before| before + 1);
        let is_first = self.ptr.is_empty();
        let most = if is_first {
            1
        } else {
            entries.saturating_add(1)
        };
        if found < least || found > most {
            return Err(token.problem(|_| Problem::BadPointer { found, least, most }));
        }
        if self.ptr.len() as u64 == count && found - 1 != entries {
            return Err(token.problem(|_| Problem::LastPointer {
                found,
                announced: entries,
            }));
        }
        self.ptr.push(found - 1);
        Ok(())
    }

    /// The column of entry `k`, if entries are asked for in their order.
    fn column_of(&mut self, k: u64) -> u32 {
        while self.ptr[self.col + 1] <= k {
            self.col += 1;
        }
        // The number of columns fits 32 bits.
        self.col as u32
    }
}

impl Parser {
    pub fn new(purpose: Purpose) -> Self {
        Self {
            purpose,
            line: 0,
            stage: Stage::Header(Lines::default()),
        }
    }

    /// Checks that nothing is missing. The right-hand sides are those of the file, if it has any.
    pub fn finish(self) -> Result<(Header, Body, Option<DenseMatrix>), ReadErrorKind> {
        let line = self.line();
        let at_end = |what| Located { column: 1, what }.at_line(line);
        match self.stage {
            Stage::Header(lines) => Err(at_end(Problem::NoHeaderLine(lines.due()))),
            Stage::Numbers(numbers) => match numbers.missing() {
                Some(what) => Err(at_end(what)),
                None => {
                    let mut numbers = numbers;
                    let rhs = numbers.right_hand_sides()?;
                    Ok((numbers.layout.header, numbers.body, rhs))
                }
            },
        }
    }
}

impl TakeText for Parser {
    fn feed(&mut self, mut window: &[u8]) -> Result<(), ReadErrorKind> {
        while !window.is_empty() {
            let (line, rest) = split_line(window);
            match &mut self.stage {
                Stage::Header(lines) => {
                    let at_line = self.line + 1;
                    let lines = std::mem::take(lines).take(line);
                    self.stage = match lines.map_err(|error| error.at_line(at_line))? {
                        Lines::Whole(layout) => {
                            Stage::Numbers(Box::new(Numbers::new(*layout, self.purpose)))
                        }
                        lines => Stage::Header(lines),
                    };
                }
                Stage::Numbers(numbers) => numbers
                    .take(line)
                    .map_err(|error| error.at_line(self.line + 1))?,
            }
            self.line += 1;
            window = rest;
        }
        Ok(())
    }

    fn line(&self) -> u64 {
        self.line + 1
    }
}

impl Numbers {
    fn new(layout: Layout, purpose: Purpose) -> Self {
        // Right-hand sides are what a dense matrix is read from; the matrix itself is only checked.
        let purpose = match purpose {
            Purpose::Dense { .. } => Purpose::Sparse { expand: false },
            sparse => sparse,
        };
        let body = Body::new(layout.header.field, layout.shape, purpose);
        Self {
            layout,
            part: Part::Pointers,
            found: 0,
            body,
            matrix: Columns::default(),
            rhs: Columns::default(),
            re: None,
            rhs_values: Vec::new(),
        }
    }

    /// How many numbers the part has.
    fn due(&self) -> u64 {
        let Shape {
            nrows,
            ncols,
            announced,
            ..
        } = self.layout.shape;
        let (count, sparse) = match &self.layout.rhs {
            Some(Rhs { count, sparse, .. }) => (*count, *sparse),
            None => (0, None),
        };
        match self.part {
            Part::Pointers => ncols as u64 + 1,
            Part::Indices => announced,
            Part::Values => match self.layout.header.field {
                Field::Real | Field::Integer => announced,
                Field::Complex => announced.saturating_mul(2),
                Field::Pattern => 0,
            },
            Part::RhsPointers if sparse.is_some() => count + 1,
            Part::RhsIndices => sparse.unwrap_or(0),
            // Both are below 2^32.
            Part::RhsValues => sparse.unwrap_or(count * nrows as u64),
            Part::RhsPointers | Part::NotKept | Part::End => 0,
        }
    }

    /// The part that follows.
    fn next_part(&self) -> Part {
        let has_rhs = self.layout.rhs.is_some();
        match self.part {
            Part::Pointers => Part::Indices,
            Part::Indices => Part::Values,
            // Those of a complex matrix are complex, which no dense matrix here is.
            Part::Values if self.layout.header.field == Field::Complex && has_rhs => Part::NotKept,
            Part::Values if has_rhs => Part::RhsPointers,
            Part::Values => Part::End,
            Part::RhsPointers => Part::RhsIndices,
            Part::RhsIndices => Part::RhsValues,
            Part::RhsValues | Part::NotKept => Part::NotKept,
            Part::End => Part::End,
        }
    }

    fn what(&self) -> &'static str {
        match self.part {
            Part::Pointers => "column pointers",
            Part::Indices => "row indices",
            Part::Values => "values",
            Part::RhsPointers => "column pointers of the right-hand sides",
            Part::RhsIndices => "row indices of the right-hand sides",
            Part::RhsValues => "values of the right-hand sides",
            Part::NotKept | Part::End => "numbers",
        }
    }

    /// Leaves the parts that have all of their numbers.
    fn skip_whole_parts(&mut self) {
        while !matches!(self.part, Part::NotKept | Part::End) && self.found == self.due() {
            self.part = self.next_part();
            self.found = 0;
        }
    }

    fn missing(&self) -> Option<Problem> {
        let (found, announced) = (self.found, self.due());
        let what = self.what();
        (found < announced).then_some(Problem::Truncated {
            what,
            announced,
            found,
        })
    }

    fn take(&mut self, line: &[u8]) -> Result<(), Located> {
        if self.part == Part::End {
            return match line.iter().position(|&b| !is_blank(b)) {
                None => Ok(()),
                Some(at) => Err(Located {
                    column: at + 1,
                    what: Problem::AfterEnd(quote(line[at..].trim_ascii_end())),
                }),
            };
        }
        let most = self.due() - self.found;
        let what = self.what();
        let Some(format) = self.format().map(Rc::clone) else {
            return Ok(());
        };
        for number in format.numbers(line, most, what) {
            let (token, spelling) = number?;
            match self.part {
                Part::Pointers => {
                    let entries = self.layout.shape.announced;
                    let ncols = self.layout.shape.ncols as u64;
                    self.matrix.take_pointer(token, entries, ncols)?;
                }
                Part::Indices => self.take_index(token)?,
                Part::Values => {
                    let value = match self.layout.header.field {
                        Field::Integer => integer(token)?,
                        _ if format.kind == Kind::Integer => integer(token)?,
                        _ => real(token, spelling)?,
                    };
                    self.take_value(token, value)?;
                }
                Part::RhsPointers => {
                    let rhs = self.layout.rhs.as_ref();
                    let (count, entries) =
                        rhs.map_or((0, 0), |rhs| (rhs.count, rhs.sparse.unwrap_or(0)));
                    self.rhs.take_pointer(token, entries, count)?;
                }
                Part::RhsIndices => {
                    let row = index(token, "row", self.layout.shape.nrows)?;
                    self.rhs.idx.push(row);
                }
                Part::RhsValues => {
                    let value = match format.kind {
                        Kind::Integer => integer(token)?,
                        Kind::Real => real(token, spelling)?,
                    };
                    self.rhs_values.push(value);
                }
                Part::NotKept | Part::End => {}
            }
            self.found += 1;
        }
        self.skip_whole_parts();
        Ok(())
    }

    /// The format of the part.
    fn format(&self) -> Option<&Rc<LineFormat>> {
        match self.part {
            Part::Pointers | Part::RhsPointers => Some(&self.layout.pointers),
            Part::Indices | Part::RhsIndices => Some(&self.layout.indices),
            Part::Values => self.layout.values.as_ref(),
            Part::RhsValues => self.layout.rhs.as_ref().map(|rhs| &rhs.format),
            Part::NotKept | Part::End => None,
        }
    }

    fn take_index(&mut self, token: Token<'_>) -> Result<(), Located> {
        let shape = self.layout.shape;
        let row = index(token, "row", shape.nrows)?;
        let col = self.matrix.column_of(self.found);
        if let Some(what) = misplaced(row, col, shape.symmetry) {
            return Err(token.problem(|_| what));
        }
        if let Body::Pattern(entries) = &mut self.body {
            return entries
                .push(row, col, ())
                .map_err(|what| token.problem(|_| what));
        }
        self.matrix.idx.push(row);
        if self.found + 1 == shape.announced {
            // The values go through the columns once more.
            self.matrix.col = 0;
        }
        Ok(())
    }

    fn take_value(&mut self, token: Token<'_>, value: f64) -> Result<(), Located> {
        let is_complex = self.layout.header.field == Field::Complex;
        let k = if is_complex {
            self.found / 2
        } else {
            self.found
        };
        let row = self.matrix.idx[k as usize];
        let col = self.matrix.column_of(k);
        let pushed = match &mut self.body {
            Body::Real(entries) => entries.push(row, col, value),
            Body::Integer(entries) => entries.push(row, col, value),
            Body::Complex(entries) => match self.re.take() {
                None => {
                    self.re = Some(value);
                    Ok(())
                }
                Some(re) => entries.push(row, col, Complex64::new(re, value)),
            },
            Body::Pattern(_) => Ok(()),
        };
        pushed.map_err(|what| token.problem(|_| what))
    }

    /// The right-hand sides, if there are any that are real.
    fn right_hand_sides(&mut self) -> Result<Option<DenseMatrix>, ReadErrorKind> {
        let is_complex = self.layout.header.field == Field::Complex;
        let Some(rhs) = self.layout.rhs.as_ref().filter(|_| !is_complex) else {
            return Ok(None);
        };
        let nrows = self.layout.shape.nrows;
        // It fits 32 bits.
        let ncols = rhs.count as usize;
        let values = std::mem::take(&mut self.rhs_values);
        if rhs.sparse.is_none() {
            return Ok(Some(DenseMatrix::new(nrows, ncols, values)));
        }
        let found = values.len() as u64;
        let shape = Shape {
            format: Format::Coordinate,
            symmetry: Symmetry::General,
            nrows,
            ncols,
            announced: found,
        };
        let mut entries = Buckets::new(nrows, Symmetry::General);
        let rows = std::mem::take(&mut self.rhs.idx);
        for (k, (row, value)) in rows.into_iter().zip(values).enumerate() {
            let col = self.rhs.column_of(k as u64);
            entries.push(Entry { row, col, value });
        }
        let values = to_columns(&entries, found, &shape)?;
        Ok(Some(DenseMatrix::new(nrows, ncols, values)))
    }
}
