//! Dense fronts in an assembly tree.

pub mod changed;
pub mod check;
mod columns;
mod large;
pub mod ldlt;
pub mod lu;
pub mod plan;
mod rows;
mod small;
mod small_symmetric;
pub mod solve;
mod symmetric;
mod work;
