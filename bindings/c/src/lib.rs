//! The C interface of Luge. What C and C++ see of it is `include/luge.h`, which is generated from this crate
//! (`tests/header.rs`) and is the reference of every call.
//!
//! The calls mirror those of the crate [`luge`]: an options handle, a solver, an analysis of a pattern, and factors, each
//! with a name that the facade has, too. This crate adds what C needs and nothing else:
//!
//! | module | what it does |
//! |---|---|
//! | `status` | codes for errors, and the last error of each thread with its rows and columns |
//! | `handle` | handles that are checked before they are used, and where panics end |
//! | `matrix` | matrices in C arrays, checked before they are read |
//! | `options` | options by number |
//! | `solver`, `factors`, `solve` | the phases |
//! | `report` | reports as structures that can grow, and as text |
//! | `device` | values and vectors on a device |
//! | `version` | version and features of the library |
//!
//! Invariants: no panic crosses the boundary; a null pointer, a handle of another kind, a negative size or one that no
//! memory could hold is an error code; nothing is written to the caller's memory by a call that fails, but for the device's.

// Names are those of C.
#![allow(non_camel_case_types)]
// The head of luge.h states what every call requires of its pointers, once for all.
#![allow(clippy::missing_safety_doc)]

mod device;
mod factors;
mod handle;
mod matrix;
mod options;
mod report;
mod solve;
mod solver;
mod status;
mod version;

pub use device::*;
pub use factors::*;
pub use matrix::*;
pub use options::*;
pub use report::*;
pub use solve::*;
pub use solver::*;
pub use status::*;
pub use version::*;
