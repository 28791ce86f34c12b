//! Dense fronts in an assembly tree.

pub mod climb;
mod front;
mod large;
pub mod lu;
pub mod plan;
mod small;
pub mod solve;
mod work;
