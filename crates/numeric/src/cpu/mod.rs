//! The CPU paths.

pub mod columns;
pub mod static_pivoting;
pub mod threshold;
