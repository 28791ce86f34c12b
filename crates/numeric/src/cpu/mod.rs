//! The CPU paths.

pub mod static_pivoting;
pub mod threshold;
