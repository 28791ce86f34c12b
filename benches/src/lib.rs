//! Luge's benchmarks, the check of a corpus, and the report that people read.
//!
//! | module | what it does | run by |
//! |---|---|---|
//! | [`verify`] | every matrix through every phase, measured apart from the solver | `cargo xtask verify` |
//! | [`campaign`] | hostile systems, and every statement of the solver against exact measures | `cargo xtask campaign` |
//! | [`cpu`] | the peer benchmark: Luge on the CPU beside KLU, UMFPACK, SuperLU and faer | `cargo xtask bench cpu` |
//! | [`symbolic`] | the benchmark of the symbolic phase on a GPU | `cargo xtask bench symbolic` |
//! | [`numeric`] | the benchmark of the whole LU on a GPU, beside KLU and cuDSS | `cargo xtask bench numeric` |
//! | the same with [`cudss_peer`] | from the matrix to a solution, all paths and all peers | `cargo xtask bench end-to-end` |
//! | [`page`] | the report: all results as one page | `cargo xtask report` |
//!
//! [`bits`] prints fingerprints of what the CPU path answers, by which two versions are compared.
//! [`fetch`] downloads matrices of the SuiteSparse collection, for `cargo xtask corpus`.
//!
//! What they share: [`systems`] chooses matrices, reads them, finds the next of a sequence and makes
//! right-hand sides; [`results`] is the one format in which all is recorded; [`child`] tries a solver in a process of its own, for the time limit and the memory;
//! [`turns`] says who is measured when; [`statistics`] has samples and means, [`report`] what is recorded of solvers and written to files,
//! [`machine`] where and when, [`ceilings`] what the hardware gives, [`table`] the cells of the tables, [`progress`] the bar,
//! [`arguments`] options.

pub mod arguments;
pub mod bits;
pub mod campaign;
pub mod ceilings;
pub mod child;
pub mod cpu;
pub mod cudss_peer;
pub mod fetch;
pub mod machine;
pub mod numeric;
pub mod page;
pub mod progress;
pub mod report;
pub mod results;
pub mod statistics;
pub mod symbolic;
pub mod systems;
pub mod table;
pub mod turns;
pub mod verify;
