//! Symmetric fronts against dense arithmetic: factors, solves, pivoting, reports, limits.

mod checks;
mod delay_limits;
mod eigenvalues;
mod factors;
mod kernels;
mod limits;
mod matrices;
mod pivots;
mod signed;
