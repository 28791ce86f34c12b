//! The fronts against dense arithmetic: factors, solves, pivoting, reports, limits.

mod checks;
mod factors;
mod limits;
mod matrices;
mod pivots;
mod tree;
