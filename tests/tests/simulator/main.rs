//! Tests across crates, most of them of kernels: on the simulator, or on the GPU if `LUGE_TEST_BACKEND` says so. One
//! program, because each instantiates the whole solver.

mod campaign;
#[path = "../chain/mod.rs"]
mod chain;
mod complex;
mod corpus;
mod dependency_edges;
mod device;
mod dsl;
mod facade;
mod front_kernels;
mod frontal;
mod frontal_changed;
mod frontal_check;
mod frontal_check_symmetric;
mod frontal_dealt;
mod frontal_delays;
mod frontal_gathered;
mod frontal_ldlt;
mod frontal_ldlt_signed;
mod frontal_solve;
mod frontal_solve_symmetric;
mod frontal_streamed;
mod kernel_arguments;
mod levelize;
mod module_edges;
mod numeric;
mod packed_ptx;
mod panels;
mod residuals;
mod solve;
mod supernode;
mod symbolic;
mod tidy;
mod verify;
