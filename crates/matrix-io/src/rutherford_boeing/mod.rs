//! The formats of Harwell–Boeing and Rutherford–Boeing: compressed columns in lines of fixed width.
//!
//! ```text
//! title                                                       key        72 + 8 characters
//! lines: all, pointers, indices, values [, right-hand sides]             numbers of lines, of which the last is asked for
//! type  rows  columns  entries  0                                        type: three letters
//! (formats of pointers) (of indices) (of values) [(of right-hand sides)]
//! [type of right-hand sides, how many, entries]                          if there are any, in Harwell–Boeing only
//! pointers, then indices, then values                                    each starts in a new line
//! [right-hand sides, then starting guesses, then solutions]
//! ```
//!
//! The numbers of lines are not needed, as each part says how many numbers it has and its format how many stand in a line.

mod format;
mod header;
mod read;
mod write;

pub(crate) use header::looks_like_one;
pub(crate) use read::Parser;
pub use write::{
    write_rutherford_boeing, write_rutherford_boeing_pattern, write_rutherford_boeing_to,
};
