//! Column dependencies and level sets of an LU factorization.
//!
//! In a right-looking factorization column k must wait for column i < k if i updates k (look up:
//! U(i, k) ≠ 0), or if both may write to the same column at once (the double-U dependency of GLU).
//! GLU 3.0 relaxes the costly search for the latter to a look left: L(k, i) ≠ 0 implies the wait
//! (Algorithm 4 of that paper). So
//!
//! ```text
//! level(k) = 1 + max { level(i) : i < k, U(i, k) ≠ 0 or L(k, i) ≠ 0 }      0 if there is no such i
//! ```
//!
//! A column may wait longer than it had to, never shorter. Every backend gives the same levels.
//!
//! Algorithm 4 leaves out the look up from k to i where column i of L is empty, because such a column
//! updates nothing. Here it stays: the triangular solves run by the same levels, and the backward
//! solve needs x(k) before x(i) whenever U(i, k) ≠ 0. This gives a few more levels on matrices that are
//! nearly triangular, and the same number elsewhere.
//!
//! | module | how |
//! |---|---|
//! | [`cpu`] | one sweep over the rows |
//! | [`gpu`] | on the device: Kahn's algorithm, one launch |
//!
//! # Current limitations
//!
//! The CPU path runs on one thread.

pub mod cpu;
mod error;
#[cfg(feature = "gpu")]
pub mod gpu;

pub use error::LevelizeError;
