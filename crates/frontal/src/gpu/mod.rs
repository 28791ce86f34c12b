//! Multifrontal LU on the device.
//!
//! [`DeviceTree`] is the assembly tree on the device, for many matrices of one pattern; [`DeviceFrontalLu`] the factors
//! of one. Both are told by a [`Placement`] how the matrix that is factorized comes from that of the caller, so values,
//! right-hand sides and solutions are the caller's, on the device. A factorization is one launch (see
//! `luge_gpu_kernels::frontal::lu`), or two where fronts are wide, and the host waits for the report on the pivots, at once or later.
//!
//! Pivots are static, searched [within their fronts](luge_sparse::PivotKind::WithinFront) among the rows of the front's
//! pivots, not those below. Small pivots are relative to the largest magnitude in the diagonal blocks of B. Or they are
//! searched [by a threshold](DeviceFrontalLu::factorize_by_threshold), and columns without one are delayed to the fronts above:
//! then the tree is planned anew.
//!
//! Memory: the factors, and a [`Workspace`] with as many elements as are needed at once, which factors of many matrices may
//! share. Factors that are told which values change have memory for elements of their own (`DeviceFrontalLu::begin_refactorize_changed`).
//! Factors that a device has no room for are [elsewhere](DeviceTree::upload_streamed), but for a part at a time.

mod check;
mod classes;
mod cost;
mod dealt;
mod delays;
mod factorize;
mod launch;
mod ldlt;
mod mapping;
mod memory;
mod partial;
mod parts;
mod placement;
mod plan;
mod scalar;
mod solve;
mod streamed;
mod tiles;
mod tree;

use luge_device::{DeviceError, KernelDesc};
use luge_gpu_kernels::frontal::ldlt as symmetric_kernels;
use luge_gpu_kernels::frontal::lu as kernels;
use luge_gpu_kernels::frontal::solve as solve_kernels;
use luge_sparse::{Cancelled, IndexOverflow};

pub use check::DeviceCheck;
pub use classes::Limits;
pub use cost::{DeviceCosts, DevicePrediction};
pub use delays::{MovedTree, UploadTree};
pub use factorize::DeviceFrontalLu;
pub use launch::Workspace;
pub use ldlt::{DeviceFrontalLdlt, DeviceSymmetricQuality, ExpectedPivots};
pub use mapping::Mapping;
pub use memory::MemoryPlan;
pub use partial::{Changed, put_changed_values};
pub use parts::Parts;
pub use placement::Placement;
pub use scalar::{DeviceScalar, SolveArguments, SolveKernel, WideOf, shared_bytes};
pub use solve::SymmetricFactors;
#[doc(hidden)]
pub use solve::UploadedLdlt;
pub use streamed::{Division, Room};
pub use tree::DeviceTree;

/// The kernel of a solve for one right-hand side, of a tree with strips or of one without.
const fn first_solve(strips: bool) -> SolveKernel {
    SolveKernel {
        many: false,
        strips,
    }
}

/// The kernels that factorizations, refactorizations and solves for one right-hand side launch, for
/// [`Device::load_kernels`](luge_device::Device::load_kernels). Solves for many load theirs at the first, and
/// factorizations of large fronts and checks of refactorizations too.
pub fn kernels<T: DeviceScalar>() -> [&'static KernelDesc; 6] {
    [
        kernels::lu_fronts_search::desc::<T>(),
        kernels::lu_fronts::desc::<T>(),
        T::general_solve(first_solve(false)),
        T::general_solve(first_solve(true)),
        solve_kernels::prepare::compose_exchanges::desc(),
        solve_kernels::prepare::coupling_values::desc::<T>(),
    ]
}

/// Likewise for symmetric matrices.
pub fn symmetric_kernels<T: DeviceScalar>() -> [&'static KernelDesc; 5] {
    [
        symmetric_kernels::ldlt_fronts_search::desc::<T>(),
        symmetric_kernels::ldlt_fronts::desc::<T>(),
        T::symmetric_solve(first_solve(false)),
        T::symmetric_solve(first_solve(true)),
        solve_kernels::prepare::invert_places::desc(),
    ]
}

/// Why there are no factors. Columns are those of A.
#[derive(Debug, thiserror::Error)]
pub enum DeviceFrontalError {
    /// A pivot is zero.
    #[error("the pivot of column {column} is zero")]
    ZeroPivot {
        /// The column.
        column: usize,
    },
    /// A value of the matrix or of the factors is infinite or not a number.
    #[error("column {column} leads to a pivot that is not finite")]
    NotFinite {
        /// The column.
        column: usize,
    },
    /// A pivot of a definite matrix is not positive.
    #[error("the pivot of column {column} is {value}: the matrix is not positive definite")]
    NotPositiveDefinite {
        /// The column.
        column: usize,
        /// The pivot, zero or negative.
        value: f64,
    },
    /// No acceptable pivots were found: columns were put off again and again, or to the root, or with every search entries of
    /// L of a symmetric matrix overflow in a factorization with the pivots that it found.
    #[error("no acceptable pivots were found")]
    NoPivots {
        /// One of the columns without a pivot, if one is known.
        column: Option<usize>,
    },
    /// A front with delayed columns is too large.
    #[error(transparent)]
    IndexOverflow(#[from] IndexOverflow),
    /// Whoever makes trees in which columns have moved was told to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// What a factorization measured. Columns are those of A.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DeviceQuality {
    /// Number of replaced pivots.
    pub num_perturbed: u32,
    /// The first of them in the order of elimination.
    pub first_perturbed: Option<usize>,
    /// Columns delayed to a parent, counted once for every front they were put off.
    pub num_delayed: usize,
    /// Largest magnitude in the diagonal blocks of B.
    pub max_b: f64,
    /// Largest magnitude in U; those of L are at most 1 where pivots were searched with threshold 1.
    pub max_u: f64,
    /// Largest magnitude in L.
    pub max_l: f64,
}
