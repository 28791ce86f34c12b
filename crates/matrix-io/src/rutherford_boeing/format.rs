//! Formats of Fortran, such as `(26I3)` or `(1P,4E20.12)`: how wide the numbers of a line are, and what they mean.
//!
//! Numbers stand in columns of fixed width, with or without blanks between them, so a line cannot be read without its
//! format. What a `READ` of Fortran does to them: a number without a point has the last `d` of its digits behind it,
//! and one without an exponent is divided by ten to the scale factor. Two things are stricter here: a column that is
//! blank is not zero but missing, and blanks within a number are not skipped.

use crate::error::{Located, Problem, quote};
use crate::token::{Token, Tokens, is_blank};

/// A format: the columns of one line. The next line has the same ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LineFormat {
    columns: Vec<Column>,
    pub kind: Kind,
}

/// What a format says of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Edit descriptor `I`.
    Integer,
    /// Edit descriptors `E`, `D`, `F`, `G` and their kin.
    Real,
}

/// Where a number of a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Column {
    start: usize,
    width: usize,
    spelling: RealColumn,
}

/// What a real number of a column lacks if it is not spelled out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RealColumn {
    /// Digits behind the point of a number without a point.
    digits: i32,
    /// Power of ten by which a number without an exponent is divided.
    scale: i32,
}

/// Longest line that a format may describe, and most numbers on it: far beyond what any file has.
const MOST_BYTES: usize = 1 << 16;
const MOST_COLUMNS: usize = 1 << 12;
/// Deepest nesting of parentheses.
const MOST_NESTED: u32 = 8;

impl LineFormat {
    /// Parses a format with its parentheses.
    pub fn parse(token: Token<'_>) -> Result<Self, Located> {
        let bad = || token.problem(Problem::BadFormat);
        let mut parser = FormatParser {
            bytes: token.bytes,
            at: 0,
            scale: 0,
            line: 0,
            kind: None,
            columns: Vec::new(),
        };
        if parser.next_byte() != Some(b'(') {
            return Err(bad());
        }
        parser.group(0).ok_or_else(bad)?;
        if parser.next_byte().is_some() || parser.columns.is_empty() {
            return Err(bad());
        }
        let kind = parser.kind.ok_or_else(bad)?;
        Ok(Self {
            columns: parser.columns,
            kind,
        })
    }

    /// The numbers of a line, at most `most`, each in its column without the blanks around it. The line must have as many
    /// as the format says, or `most`, and nothing behind them.
    ///
    /// A line that does not fit its columns is read by its blanks, if these give as many numbers: SciPy's writer announces
    /// columns of 25 characters and writes 24.
    pub fn numbers<'a>(
        &'a self,
        line: &'a [u8],
        most: u64,
        what: &'static str,
    ) -> impl Iterator<Item = Result<(Token<'a>, RealColumn), Located>> + 'a {
        let count = usize::try_from(most).unwrap_or(usize::MAX);
        let columns = &self.columns[..count.min(self.columns.len())];
        let mut words = if fits(columns, line) {
            None
        } else {
            Some(Tokens::new(line)).filter(|words| words.clone().count() == columns.len())
        };
        let end = columns
            .last()
            .map_or(0, |column| column.start + column.width);
        let rest = line.get(end..).and_then(|rest| trim(rest, end));
        let extra = rest.filter(|_| words.is_none());
        let extra = extra.map(|token| Err(token.problem(Problem::Extra)));
        let of = move |column: &Column| {
            let token = match &mut words {
                Some(words) => words.next(),
                None => column.token(line),
            };
            match token {
                Some(token) => Ok((token, column.spelling)),
                None => Err(Located {
                    column: column.start.min(line.len()) + 1,
                    what: Problem::Missing(what),
                }),
            }
        };
        columns.iter().map(of).chain(extra)
    }
}

impl Column {
    /// What the line has in this column, if it is not blank.
    fn token(self, line: &[u8]) -> Option<Token<'_>> {
        let from = self.start.min(line.len());
        let to = (self.start + self.width).min(line.len());
        trim(&line[from..to], from)
    }
}

/// Whether each column of a line holds one word, and nothing is behind them.
fn fits(columns: &[Column], line: &[u8]) -> bool {
    let end = columns
        .last()
        .map_or(0, |column| column.start + column.width);
    let is_word = |token: Token<'_>| !token.bytes.iter().copied().any(is_blank);
    columns
        .iter()
        .all(|column| column.token(line).is_some_and(is_word))
        && line.get(end..).is_none_or(|rest| trim(rest, end).is_none())
}

/// The bytes without blanks around them, which start at byte `start` of their line; nothing if all are blank.
fn trim(bytes: &[u8], start: usize) -> Option<Token<'_>> {
    let from = bytes.iter().position(|&b| !is_blank(b))?;
    let to = bytes.iter().rposition(|&b| !is_blank(b))? + 1;
    Some(Token {
        bytes: &bytes[from..to],
        column: start + from + 1,
    })
}

struct FormatParser<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Scale factor that is in force.
    scale: i32,
    /// Bytes of the line that have their meaning.
    line: usize,
    kind: Option<Kind>,
    columns: Vec<Column>,
}

impl FormatParser<'_> {
    /// The next byte that is not blank, in upper case; blanks mean nothing in a format.
    fn next_byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.at).copied().is_some_and(is_blank) {
            self.at += 1;
        }
        self.bytes.get(self.at).map(u8::to_ascii_uppercase)
    }

    fn number(&mut self) -> Option<usize> {
        let mut value = None;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            let so_far = value.unwrap_or(0usize);
            value = Some(
                so_far
                    .saturating_mul(10)
                    .saturating_add((digit - b'0').into()),
            );
            self.at += 1;
        }
        value
    }

    /// The items up to the parenthesis that closes, which is taken too.
    fn group(&mut self, depth: u32) -> Option<()> {
        if depth > MOST_NESTED {
            return None;
        }
        loop {
            match self.peek()? {
                b')' => {
                    self.at += 1;
                    return Some(());
                }
                b',' => self.at += 1,
                _ => self.item(depth)?,
            }
        }
    }

    /// One edit descriptor, with its number of repetitions.
    fn item(&mut self, depth: u32) -> Option<()> {
        let negative = self.peek() == Some(b'-');
        let signed = negative || self.peek() == Some(b'+');
        if signed {
            self.at += 1;
        }
        let number = self.number();
        let letter = self.next_byte()?;
        if signed && letter != b'P' {
            return None;
        }
        let repeat = number.unwrap_or(1);
        match letter {
            b'P' => {
                let scale = i32::try_from(number?).ok().filter(|&scale| scale <= 99)?;
                self.scale = if negative { -scale } else { scale };
            }
            b'X' => self.advance(repeat)?,
            b'(' => self.repeated_group(repeat, depth)?,
            b'I' => {
                let width = self.number()?;
                if self.peek() == Some(b'.') {
                    // Least digits of output.
                    self.at += 1;
                    self.number()?;
                }
                self.columns_of(Kind::Integer, repeat, width, 0)?;
            }
            b'E' | b'D' | b'F' | b'G' => {
                // EN and ES differ from E on output only.
                if letter == b'E' && matches!(self.peek(), Some(b'N' | b'S')) {
                    self.at += 1;
                }
                let width = self.number()?;
                let mut digits = 0;
                if self.peek() == Some(b'.') {
                    self.at += 1;
                    digits = i32::try_from(self.number()?).ok().filter(|&d| d <= 999)?;
                }
                if self.peek() == Some(b'E') {
                    // Digits of the exponent, on output.
                    self.at += 1;
                    self.number()?;
                }
                self.columns_of(Kind::Real, repeat, width, digits)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// A group in parentheses. After the last column of a format, Fortran goes on with its last group in a new line; only
    /// where that is all of the format are all lines alike, so columns before or behind such a group are refused.
    fn repeated_group(&mut self, repeat: usize, depth: u32) -> Option<()> {
        if repeat == 0 || self.line > 0 {
            return None;
        }
        let start = self.at;
        for _ in 0..repeat {
            let before = self.columns.len();
            self.at = start;
            self.group(depth + 1)?;
            if self.columns.len() == before {
                return None;
            }
        }
        (self.peek() == Some(b')')).then_some(())
    }

    fn columns_of(&mut self, kind: Kind, repeat: usize, width: usize, digits: i32) -> Option<()> {
        if width == 0 || repeat == 0 || self.kind.is_some_and(|other| other != kind) {
            return None;
        }
        self.kind = Some(kind);
        let spelling = RealColumn {
            digits,
            scale: self.scale,
        };
        for _ in 0..repeat {
            let start = self.line;
            self.advance(width)?;
            if self.columns.len() == MOST_COLUMNS {
                return None;
            }
            self.columns.push(Column {
                start,
                width,
                spelling,
            });
        }
        Some(())
    }

    fn advance(&mut self, bytes: usize) -> Option<()> {
        self.line = self.line.checked_add(bytes)?;
        (self.line <= MOST_BYTES).then_some(())
    }
}

/// A real number of a column.
pub(super) fn real(token: Token<'_>, column: RealColumn) -> Result<f64, Located> {
    let bytes = token.bytes;
    let bad = || token.problem(Problem::BadNumber);
    let (negative, magnitude) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    for (word, value) in [
        ("nan", f64::NAN),
        ("inf", f64::INFINITY),
        ("infinity", f64::INFINITY),
    ] {
        if magnitude.eq_ignore_ascii_case(word.as_bytes()) {
            return Ok(sign * value);
        }
    }
    // The mantissa ends where the exponent starts: with a letter, or with a sign alone, as in 1.5-105.
    let is_mantissa = |b: &u8| b.is_ascii_digit() || *b == b'.';
    let end = magnitude.iter().position(|b| !is_mantissa(b));
    let (mantissa, exponent) = magnitude.split_at(end.unwrap_or(magnitude.len()));
    if !mantissa.iter().any(u8::is_ascii_digit) {
        return Err(bad());
    }
    let mut power = match exponent_of(exponent) {
        Some(power) => power.unwrap_or_else(|| i64::from(-column.scale)),
        None => return Err(bad()),
    };
    if !mantissa.contains(&b'.') {
        power -= i64::from(column.digits);
    }
    // As text with the whole power, so that it is rounded once.
    let mut text = [0u8; 128];
    let value = match text.get_mut(..mantissa.len() + 24) {
        Some(text) => parse_with_power(mantissa, power, text),
        None => parse_with_power(mantissa, power, &mut vec![0; mantissa.len() + 24]),
    };
    match value {
        None => Err(bad()),
        Some(value) if value.is_infinite() => Err(token.problem(Problem::NumberOverflow)),
        Some(value) => Ok(sign * value),
    }
}

/// The power of ten of an exponent, `None` within if there is none; nothing if it is malformed.
fn exponent_of(exponent: &[u8]) -> Option<Option<i64>> {
    let digits = match exponent {
        [] => return Some(None),
        [b'e' | b'E' | b'd' | b'D' | b'q' | b'Q', rest @ ..] => rest,
        rest @ [b'+' | b'-', ..] => rest,
        _ => return None,
    };
    let (negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Beyond this all numbers of a line overflow or vanish.
    let power = digits.iter().fold(0i64, |power, digit| {
        (power * 10 + i64::from(digit - b'0')).min(10_000_000)
    });
    Some(Some(if negative { -power } else { power }))
}

/// `mantissa` times ten to `power`, written into `text` on the way.
fn parse_with_power(mantissa: &[u8], power: i64, text: &mut [u8]) -> Option<f64> {
    use std::io::Write;

    let total = text.len();
    let mut rest = &mut *text;
    rest.write_all(mantissa).ok()?;
    write!(rest, "e{power}").ok()?;
    let written = total - rest.len();
    fast_float2::parse(&text[..written]).ok()
}

/// The formats of a header line: what stands in parentheses, in the order of the line.
pub(super) fn formats_of(line: &[u8]) -> Result<Vec<Token<'_>>, Located> {
    let mut formats = Vec::new();
    let mut at = 0;
    while let Some(token) = trim(&line[at..], at) {
        let start = token.column - 1;
        let bad = || Located {
            column: start + 1,
            what: Problem::BadFormat(quote(token.bytes)),
        };
        if token.bytes[0] != b'(' {
            return Err(bad());
        }
        let mut depth = 0usize;
        let close = token.bytes.iter().position(|&b| {
            match b {
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let len = close.ok_or_else(bad)? + 1;
        formats.push(Token {
            bytes: &token.bytes[..len],
            column: token.column,
        });
        at = start + len;
    }
    Ok(formats)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(text: &str) -> Token<'_> {
        Token {
            bytes: text.as_bytes(),
            column: 1,
        }
    }

    fn parse(text: &str) -> Result<LineFormat, Located> {
        LineFormat::parse(token(text))
    }

    /// Start, width, digits and scale of each column.
    fn columns(text: &str) -> Vec<(usize, usize, i32, i32)> {
        let format = parse(text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        let of = |c: &Column| (c.start, c.width, c.spelling.digits, c.spelling.scale);
        format.columns.iter().map(of).collect()
    }

    #[test]
    fn formats_of_files_are_understood() {
        assert_eq!(columns("(26I3)").len(), 26);
        assert_eq!(columns("(26I3)")[25], (75, 3, 0, 0));
        assert_eq!(columns("(1P,5D16.9)")[4], (64, 16, 9, 1));
        assert_eq!(columns("(1P5E16.8)")[1], (16, 16, 8, 1));
        assert_eq!(columns("( 4E20.12 )")[3], (60, 20, 12, 0));
        assert_eq!(columns("(-2p,2f8.3)")[1], (8, 8, 3, -2));
        assert_eq!(columns("(1P,(3E25.16E3))")[2], (50, 25, 16, 1));
        assert_eq!(
            columns("(2(I5,1X,I6))"),
            [(0, 5, 0, 0), (6, 6, 0, 0), (12, 5, 0, 0), (18, 6, 0, 0)]
        );
        assert_eq!(columns("(3ES14.6)")[2], (28, 14, 6, 0));
        assert_eq!(columns("(2F10)")[1], (10, 10, 0, 0));
        assert_eq!(columns("(10I8.8)")[9], (72, 8, 0, 0));
        assert_eq!(parse("(I4)").expect("a format").kind, Kind::Integer);
        assert_eq!(parse("(G20.10)").expect("a format").kind, Kind::Real);
    }

    #[test]
    fn formats_of_something_else_are_refused() {
        for text in [
            "",
            "()",
            "(I)",
            "(I0)",
            "(0I4)",
            "I4",
            "(I4",
            "(I4))",
            "(A8)",
            "(I4,E20.12)",
            "(3I4/)",
            "(1P)",
            "(P5E16.8)",
            "(I4,(2I5))",
            "(2(I4),I5)",
            "(99999999999999999999I4)",
            "(65537I1)",
            "(100000000X,I4)",
            "(2(1X))",
            "((((((((((((I4))))))))))))",
            "(-3I4)",
            "(0(I4))",
            "(E20.)",
        ] {
            let refused = parse(text).expect_err(text);
            assert!(matches!(refused.what, Problem::BadFormat(_)), "{text}");
        }
    }

    #[test]
    fn numbers_mean_what_fortran_reads() {
        let plain = RealColumn {
            digits: 3,
            scale: 0,
        };
        let scaled = RealColumn {
            digits: 3,
            scale: 2,
        };
        for (text, of_plain, of_scaled) in [
            ("1.5", 1.5, 0.015),
            ("-1.5E+02", -150.0, -150.0),
            ("1.5D2", 150.0, 150.0),
            ("1.5q-1", 0.15, 0.15),
            ("1.5-105", 1.5e-105, 1.5e-105),
            ("+2.+1", 20.0, 20.0),
            // No point: three of the digits are behind it.
            ("1234", 1.234, 0.01234),
            ("7", 0.007, 0.00007),
            ("12E1", 0.12, 0.12),
            (".5", 0.5, 0.005),
            ("-Infinity", f64::NEG_INFINITY, f64::NEG_INFINITY),
            ("1E-400", 0.0, 0.0),
            ("-0.", -0.0, -0.0),
        ] {
            let read = |column| real(token(text), column).expect(text).to_bits();
            assert_eq!(read(plain), of_plain.to_bits(), "{text}");
            assert_eq!(read(scaled), of_scaled.to_bits(), "{text}");
        }
        for text in [
            ".", "", "-", "E5", "1.E", "1.5E+", "1 5", "1.5.2", "1,5", "--1", "1e2e3", "****",
        ] {
            let refused = real(token(text), plain).expect_err(text);
            assert!(matches!(refused.what, Problem::BadNumber(_)), "{text}");
        }
        let refused = real(token("1E999"), plain).expect_err("too large");
        assert!(matches!(refused.what, Problem::NumberOverflow(_)));
    }

    #[test]
    fn lines_are_cut_at_their_columns() {
        let format = parse("(3I4)").expect("a format");
        let cut = |line: &'static str, most| {
            let format = parse("(3I4)").expect("a format");
            let cut: Result<Vec<_>, _> = format
                .numbers(line.as_bytes(), most, "number")
                .map(|number| number.map(|(token, _)| (quote(token.bytes), token.column)))
                .collect();
            cut
        };
        assert_eq!(format.columns.len(), 3);
        let of = |list: &[(&str, usize)]| {
            Ok(list
                .iter()
                .map(|&(text, at)| (text.to_owned(), at))
                .collect::<Vec<_>>())
        };
        assert_eq!(
            cut("123456789012", 9),
            of(&[("1234", 1), ("5678", 5), ("9012", 9)])
        );
        assert_eq!(
            cut("   1   2   3  \r", 3),
            of(&[("1", 4), ("2", 8), ("3", 12)])
        );
        assert_eq!(cut("   1", 1), of(&[("1", 4)]));
        let missing = |column| {
            Err(Located {
                column,
                what: Problem::Missing("number"),
            })
        };
        assert_eq!(cut("   1", 2), missing(5));
        assert_eq!(cut("   1       3", 3), missing(5));
        // Narrower than the columns, but as many.
        assert_eq!(cut(" 1 -2 -3", 3), of(&[("1", 2), ("-2", 4), ("-3", 7)]));
        assert_eq!(cut("1 2     3 ", 3), of(&[("1", 1), ("2", 3), ("3", 9)]));
        let extra = |column, text: &str| {
            Err(Located {
                column,
                what: Problem::Extra(text.into()),
            })
        };
        assert_eq!(cut("   1   2   3 x", 9), extra(14, "x"));
        assert_eq!(cut("   1   2", 1), extra(8, "2"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_format_or_is_not(text in "[(][-(),0-9a-zA-Z. ]{0,20}[)]") {
            if let Ok(format) = parse(&text) {
                prop_assert!(format.columns.len() <= MOST_COLUMNS);
            }
            let _ = formats_of(text.as_bytes());
        }

        #[test]
        fn any_text_is_a_number_or_is_not(text in "[-+0-9.eEdD]{0,30}", digits in 0i32..999, scale in -99i32..99) {
            let _ = real(token(&text), RealColumn { digits, scale });
        }

        #[test]
        fn numbers_are_rounded_once(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            let text = format!("{value:.16e}");
            let column = RealColumn { digits: 16, scale: 1 };
            let read = real(token(&text), column).expect("a number");
            prop_assert_eq!(read.to_bits(), value.to_bits());
        }
    }
}
