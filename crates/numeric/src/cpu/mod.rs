//! The CPU paths.

pub mod blocks;
pub mod columns;
pub mod static_pivoting;
