//! Triangular solves, iterative refinement and error measures.
//!
//! | module | what |
//! |---|---|
//! | [`cpu`] | solves with L and U and their transposes, one or many right-hand sides |
//! | [`gpu`] | the same on the device, by levels |
//! | [`scaled`] | from a right-hand side of A to one of B = P·Dr·A·Dc·Q and back, over the whole range of exponents |
//! | [`backward_error`] | residuals, normwise and componentwise backward errors, always in `f64` |
//! | [`refine`] | iterative refinement, with the stopping rule of Arioli, Demmel and Duff |
//! | [`condition`] | an estimate of ‖B⁻¹‖₁ from a few solves |
//!
//! # Current limitations
//!
//! The CPU solves run on one thread and go through the factors once for each right-hand side.

pub mod backward_error;
pub mod condition;
pub mod cpu;
mod error;
pub mod extended;
#[cfg(feature = "gpu")]
pub mod gpu;
mod known;
mod measures;
pub mod refine;
pub mod scaled;

pub use error::SolveError;
pub use known::known_solution;
