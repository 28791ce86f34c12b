//! The CPU paths.

pub mod blocks;
pub mod columns;
mod entries;
pub mod static_pivoting;

pub use entries::Entries;
