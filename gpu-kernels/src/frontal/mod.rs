//! Dense fronts in an assembly tree.

pub mod climb;
mod front;
pub mod lu;
pub mod solve;
