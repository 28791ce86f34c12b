//! Kernels of the symbolic phase.

pub mod fill2;
