//! Dense fronts in an assembly tree.

mod front;
pub mod lu;
