//! What measures Luge: the program `luge-bench`, run by `cargo xtask bench`.
//!
//! | module | command |
//! |---|---|
//! | [`peers`] | Luge on the CPU and on devices beside KLU, UMFPACK, SuperLU, faer and cuDSS |
//! | [`symbolic`] | the symbolic phase on a device |
//! | [`devices`] | what a group of devices shares |
//! | [`changed`] | refactorizations that are told which values changed, beside whole ones |
//! | [`sweep`] | a circuit at many frequencies: one batch, and one after another |
//! | [`device_costs`] | the table of device costs by which trees are planned and predicted |
//! | [`campaign`] | hostile systems, and every statement of the solver against exact measures |
//! | [`bits`] | fingerprints of what the CPU path answers, by which two versions are compared |
//! | [`tables`] | the tables of results that are kept: `report` |
//!
//! What they share: [`systems`] chooses matrices, reads them, finds the next of a sequence and makes right-hand sides;
//! [`contest`] times all solvers on one system in turn ([`turns`]), Luge behind the trait of the peers ([`luge_peer`]);
//! [`child`] tries a solver in a process of its own, for the time limit and the memory; [`results`] is the one format in
//! which all is recorded; [`statistics`] has samples and means, [`machine`] where and when, [`ceilings`] what the hardware
//! gives, [`progress`] the bar, [`arguments`] options.

pub mod arguments;
pub mod bits;
pub mod campaign;
pub mod ceilings;
pub mod changed;
pub mod child;
pub mod contest;
pub mod device_costs;
pub mod devices;
pub mod luge_peer;
pub mod machine;
pub mod peers;
pub mod progress;
pub mod results;
pub mod statistics;
pub mod sweep;
pub mod symbolic;
pub mod systems;
pub mod tables;
pub mod turns;
