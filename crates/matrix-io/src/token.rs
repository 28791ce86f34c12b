//! Words of a line and their columns.

use crate::error::{Located, Problem, quote};

/// Space, tab, vertical tab, form feed, and the carriage return of a line that ends in CR LF.
#[inline]
pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

/// A word and the column, from 1, at which it starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub bytes: &'a [u8],
    pub column: usize,
}

impl Token<'_> {
    /// A problem at this word, which `what` gets quoted.
    pub fn problem(&self, what: impl FnOnce(String) -> Problem) -> Located {
        Located {
            column: self.column,
            what: what(quote(self.bytes)),
        }
    }
}

/// The words of a line without its line feed.
#[derive(Debug, Clone)]
pub(crate) struct Tokens<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    pub fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// The next word, or the problem that the line ends before `what`.
    pub fn next_or(&mut self, what: &'static str) -> Result<Token<'a>, Located> {
        self.next().ok_or_else(|| {
            let blanks = self.line.iter().rev().take_while(|&&b| is_blank(b)).count();
            Located {
                column: self.line.len() - blanks + 1,
                what: Problem::Missing(what),
            }
        })
    }

    /// Checks that no word is left.
    pub fn end(&mut self) -> Result<(), Located> {
        match self.next() {
            None => Ok(()),
            Some(token) => Err(token.problem(Problem::Extra)),
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let rest = &self.line[self.at..];
        let start = self.at + rest.iter().position(|&b| !is_blank(b))?;
        let word = &self.line[start..];
        let len = word.iter().position(|&b| is_blank(b)).unwrap_or(word.len());
        self.at = start + len;
        Some(Token {
            bytes: &word[..len],
            column: start + 1,
        })
    }
}
