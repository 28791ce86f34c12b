//! Pictures of sparse matrices, of their factors and of levels, as SVG.
//!
//! | module | what it draws |
//! |---|---|
//! | [`spy`] | where a pattern has entries, and frames around diagonal blocks |
//! | [`histogram`] | how many columns each level has |
//! | [`palette`] | the colours of all drawings, light and dark |
//!
//! A [`Drawing`] is made with `plotters`. Its colours are names that follow the reader's preference for light or
//! dark: [`Drawing::standalone`] is a file of its own, [`Drawing::inline`] a part of a page that has
//! the style sheet of [`palette::style`].
//!
//! # Current limitations
//!
//! The size of text is estimated, for no font is loaded. A pattern of any size becomes at most
//! [`spy::CELLS`]² cells.

pub mod histogram;
pub mod palette;
pub mod spy;

mod drawing;

pub use drawing::{Canvas, Drawing, DrawingFailed};
