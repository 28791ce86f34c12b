//! Sparse direct solver whose whole pipeline runs on NVIDIA GPUs, and on CPUs without one.
//!
//! [`Solver::analyze`] orders a matrix and finds the pattern of its factors, [`Analysis::factorize`]
//! computes them, [`Factors::solve`] uses them, [`Factors::refactorize`] renews them for other values
//! on the same pattern. [`Analysis::factorize_batch`] does that for many matrices of one pattern, side
//! by side. Each step has its own type, so a wrong order does not compile, and each reports in an
//! [`Inform`] what ran, how long it took and how good the result is.
//!
//! ```
//! use luge::{BackendChoice, Options, Solver};
//! use sprs::{CsMat, TriMat};
//!
//! // The matrix of -u'' on 5 points.
//! let mut triplets = TriMat::new((5, 5));
//! for i in 0..5 {
//!     triplets.add_triplet(i, i, 2.0);
//!     if i > 0 {
//!         triplets.add_triplet(i, i - 1, -1.0);
//!         triplets.add_triplet(i - 1, i, -1.0);
//!     }
//! }
//! let a: CsMat<f64> = triplets.to_csr();
//! let options = Options { backend: BackendChoice::Cpu, ..Options::default() };
//! let solution = Solver::new(options)?.analyze(&a)?.factorize(&a)?.solve(&[1.0; 5])?;
//! assert!((solution.x[2] - 4.5).abs() < 1e-14);
//! println!("{}", solution.inform.to_json());
//! # Ok::<(), luge::Error>(())
//! ```
//!
//! A matrix that is singular, structurally or to rounding, is refused with an [`Error`] that names
//! the first offender. A solution is always measured: its backward error is in the inform, and one
//! above the target carries a [`Warning`].
//!
//! # Features
//!
//! | feature | default | gives |
//! |---|---|---|
//! | `gpu` | on | [`BackendChoice::Gpu`], what keeps data on the device, and the kernels. The driver is loaded at run time |
//! | `simulator` | on | [`BackendChoice::Simulator`], for tests without a GPU; with it comes `gpu` |
//! | `cli` | on | the command `luge`; the library does not need it |
//! | `plot` | on | pictures by the command; with it comes `cli` |
//! | `nalgebra-sparse` | on | conversions from and to the patterns of that crate |
//! | `metis` | off | [`Method::Metis`](ordering::Method::Metis), an ordering for comparison; takes a C compiler |
//!
//! Without `gpu`, [`BackendChoice::Auto`] takes the CPU, and a solver that is asked for a device fails with
//! [`Error::FeatureOff`].
//!
//! # Current limitations
//!
//! - Real square matrices.

// What only a device's path calls is compiled without it too, and left out by the linker: one line here in place of many
// conditions.
#![cfg_attr(not(feature = "gpu"), allow(dead_code))]

mod accuracy;
mod backend;
mod batch;
mod determinant;
#[cfg(feature = "gpu")]
mod device_chain;
#[cfg(feature = "gpu")]
mod device_choice;
#[cfg(feature = "gpu")]
mod device_columns;
#[cfg(feature = "gpu")]
mod device_path;
#[cfg(feature = "gpu")]
mod device_tree;
mod engine;
mod error;
mod factors;
mod host;
mod host_path;
mod inform;
mod lanes;
mod options;
mod ordered;
mod path;
mod permuted;
mod probe;
mod shared;
mod solver;
mod stored;
mod task;
mod threads;

pub use accuracy::Accuracy;
pub use batch::BatchFactors;
pub use determinant::Determinant;
pub use error::Error;
#[cfg(feature = "gpu")]
pub use factors::SolutionCheck;
pub use factors::{Factors, Solution};
pub use inform::{Inform, Seconds, Warning};
/// Streams and buffers of the device, for callers whose data is there: see [`Solver::stream`],
/// [`Factors::refactorize_on_device`] and [`Factors::solve_on_device`].
#[cfg(feature = "gpu")]
pub use luge_device as device;
pub use luge_ordering as ordering;
pub use luge_sparse::{CancelFlag, ColPerm, FilledPattern, Levels, RowPerm, Scalar};
#[cfg(feature = "gpu")]
pub use luge_symbolic::gpu::{Fill2Report, PanelReport, Report as SymbolicReport};
pub use options::{
    BackendChoice, CpuEngine, DeviceEngine, FactorPrecision, Options, Pivoting, ResidualCheck,
};
pub use solver::{Analysis, Solver};
pub use task::Refactorized;
