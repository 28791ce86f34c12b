//! Symmetric fronts against dense arithmetic: factors, solves, pivoting, reports, limits.

mod checks;
mod factors;
mod matrices;
