//! Dense fronts in an assembly tree.

mod columns;
mod large;
pub mod lu;
pub mod plan;
mod small;
pub mod solve;
mod work;
