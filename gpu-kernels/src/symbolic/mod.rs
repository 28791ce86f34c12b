//! Kernels of the symbolic phase.

pub mod args;
pub mod etree;
pub mod expand;
pub mod fill2;
pub mod merge;
pub mod panels;
