//! The numbers that the device factorizes in, and which kernels there are for them.
//!
//! A matrix over the complex numbers has fewer kernels: its tiles fill the shared memory, so no front is
//! [wide](super::Limits::of_components), and with factors of 32 bits solves without strips have no kernels of their own.

use luge_device::{Buffer, DeviceError, KernelDesc, LaunchConfig, Stream};
use luge_gpu_kernels::frontal::changed as changed_kernels;
use luge_gpu_kernels::frontal::check as check_kernels;
use luge_gpu_kernels::frontal::check::symmetric as symmetric_check_kernels;
use luge_gpu_kernels::frontal::ldlt as symmetric_kernels;
use luge_gpu_kernels::frontal::lu as kernels;
use luge_gpu_kernels::frontal::plan::{
    BLOCK_VALUES, LargePlanBuffers, SmallPlanBuffers, WorkBuffers,
};
use luge_gpu_kernels::frontal::solve as solve_kernels;
use luge_gpu_kernels::frontal::solve::layout::{
    CouplingsBuffers, FactoredBuffers, ListsBuffers, PlacesBuffers, VectorsBuffers,
};
use luge_kernel::math::{Complex, Field, Real};
use luge_sparse::{RealScalar, Scalar};

/// The type of magnitudes.
pub(super) type RealOf<T> = <T as DeviceScalar>::Magnitude;

/// The type of the values of A, of right-hand sides and solutions, for factors of the type `T`: 64 bits a component.
pub type WideOf<T> = <T as DeviceScalar>::Value;

/// Bytes of shared memory that a block needs for factors whose values have `value_bytes` bytes.
pub fn shared_bytes(value_bytes: usize) -> usize {
    BLOCK_VALUES as usize * value_bytes
}

/// Arguments that the kernels of solves have in common.
pub struct SolveArguments<'a, T: DeviceScalar> {
    pub(super) nrhs: u32,
    pub(super) tree: FactoredBuffers<'a, T>,
    pub(super) lists: ListsBuffers<'a>,
    pub(super) enter: PlacesBuffers<'a>,
    pub(super) leave: PlacesBuffers<'a>,
    pub(super) vectors: VectorsBuffers<'a, T>,
}

/// Which kernel of a kind of solves it is: for many right-hand sides at a time, with strips of large fronts.
#[derive(Debug, Clone, Copy)]
pub struct SolveKernel {
    pub(super) many: bool,
    pub(super) strips: bool,
}

/// A type that the device factorizes in: `f32`, `f64`, `Complex<f32>` or `Complex<f64>`.
pub trait DeviceScalar:
    Scalar<Real = <Self as DeviceScalar>::Magnitude, Wide = <Self as DeviceScalar>::Value>
    + Field<Real = <Self as DeviceScalar>::Magnitude, Wide = <Self as DeviceScalar>::Value>
    + kernels::lu_fronts::Instance
    + kernels::lu_fronts_search::Instance
    + symmetric_kernels::ldlt_fronts::Instance
    + symmetric_kernels::ldlt_fronts_search::Instance
    + symmetric_kernels::ldlt_fronts_signed::Instance
    + solve_kernels::prepare::coupling_values::Instance
    + check_kernels::begin_check::Instance
    + check_kernels::check_columns::Instance
    + check_kernels::check_products::Instance
    + check_kernels::check_measures::Instance
    + symmetric_check_kernels::begin_symmetric_check::Instance
    + symmetric_check_kernels::sum_up_columns::Instance
    + symmetric_check_kernels::apply_pivots::Instance
    + symmetric_check_kernels::sum_up_rows::Instance
    + symmetric_check_kernels::measure_products::Instance
    + changed_kernels::extremes_of_lu::Instance
{
    /// The type of magnitudes.
    type Magnitude: RealScalar + Real;

    /// See [`WideOf`].
    type Value: Scalar<Real = f64, Wide = Self::Value>
        + Field<Real = f64, Wide = Self::Value>
        + changed_kernels::put_changed_values::Instance;

    /// Whether there are kernels for solves without strips.
    const SOLVES_WITHOUT_STRIPS: bool;

    /// The kernel for small fronts alone with known pivots, if there is one: where that for all fronts leaves a multiprocessor
    /// room for one block.
    fn small_fronts() -> Option<&'static KernelDesc> {
        None
    }

    /// Enqueues it.
    ///
    /// # Safety
    ///
    /// As the kernel demands.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Panics
    ///
    /// If there is none.
    unsafe fn launch_small_fronts(
        _: &Stream,
        _: &LaunchConfig,
        _: WorkBuffers<'_, Self>,
        _: SmallPlanBuffers<'_>,
    ) -> Result<(), DeviceError> {
        panic!("no kernel is for small fronts alone")
    }

    /// The kernel for wide fronts, one that searches pivots or not.
    ///
    /// # Panics
    ///
    /// If there is none.
    fn wide_fronts(search: bool) -> &'static KernelDesc;

    /// Enqueues it.
    ///
    /// # Safety
    ///
    /// As the kernel demands.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    ///
    /// # Panics
    ///
    /// If there is none.
    unsafe fn launch_wide_fronts(
        stream: &Stream,
        config: &LaunchConfig,
        search: bool,
        work: WorkBuffers<'_, Self>,
        large: LargePlanBuffers<'_>,
    ) -> Result<(), DeviceError>;

    /// A kernel for solves with L·U or its transpose.
    fn general_solve(which: SolveKernel) -> &'static KernelDesc;

    /// Enqueues it.
    ///
    /// # Safety
    ///
    /// As the kernel demands.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    unsafe fn launch_general_solve(
        stream: &Stream,
        config: &LaunchConfig,
        which: SolveKernel,
        own: (u32, CouplingsBuffers<'_, Self>),
        arguments: SolveArguments<'_, Self>,
    ) -> Result<(), DeviceError>;

    /// A kernel for solves with factors of a symmetric matrix.
    fn symmetric_solve(which: SolveKernel) -> &'static KernelDesc;

    /// Enqueues it.
    ///
    /// # Safety
    ///
    /// As the kernel demands.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    unsafe fn launch_symmetric_solve(
        stream: &Stream,
        config: &LaunchConfig,
        which: SolveKernel,
        own: (u32, &Buffer<Self>),
        arguments: SolveArguments<'_, Self>,
    ) -> Result<(), DeviceError>;
}

/// The kernels of solves, by [`SolveKernel::many`] and [`SolveKernel::strips`].
macro_rules! solves {
    (
        [$($general:pat => $general_kernel:ident),*],
        [$($symmetric:pat => $symmetric_kernel:ident),*]
    ) => {
        fn general_solve(which: SolveKernel) -> &'static KernelDesc {
            match (which.many, which.strips) {
                $($general => solve_kernels::$general_kernel::desc::<Self>(),)*
            }
        }

        unsafe fn launch_general_solve(
            stream: &Stream,
            config: &LaunchConfig,
            which: SolveKernel,
            (word, couplings): (u32, CouplingsBuffers<'_, Self>),
            arguments: SolveArguments<'_, Self>,
        ) -> Result<(), DeviceError> {
            let SolveArguments { nrhs, tree, lists, enter, leave, vectors } = arguments;
            // SAFETY: the caller's contract.
            unsafe {
                match (which.many, which.strips) {
                    $($general => solve_kernels::$general_kernel::launch::<Self, _>(
                        stream, config, word, nrhs, tree, lists, couplings, enter, leave, vectors,
                    ),)*
                }
            }
        }

        fn symmetric_solve(which: SolveKernel) -> &'static KernelDesc {
            match (which.many, which.strips) {
                $($symmetric => solve_kernels::$symmetric_kernel::desc::<Self>(),)*
            }
        }

        unsafe fn launch_symmetric_solve(
            stream: &Stream,
            config: &LaunchConfig,
            which: SolveKernel,
            (factors, diagonal): (u32, &Buffer<Self>),
            arguments: SolveArguments<'_, Self>,
        ) -> Result<(), DeviceError> {
            let SolveArguments { nrhs, tree, lists, enter, leave, vectors } = arguments;
            // SAFETY: the caller's contract.
            unsafe {
                match (which.many, which.strips) {
                    $($symmetric => solve_kernels::$symmetric_kernel::launch::<Self, _>(
                        stream, config, factors, nrhs, tree, lists, diagonal, enter, leave, vectors,
                    ),)*
                }
            }
        }
    };
}

macro_rules! real {
    ($($t:ty),*) => {
        $(
            impl DeviceScalar for $t {
                type Magnitude = $t;
                type Value = f64;

                const SOLVES_WITHOUT_STRIPS: bool = true;

                fn wide_fronts(search: bool) -> &'static KernelDesc {
                    if search {
                        kernels::lu_wide_fronts_search::desc::<Self>()
                    } else {
                        kernels::lu_wide_fronts::desc::<Self>()
                    }
                }

                unsafe fn launch_wide_fronts(
                    stream: &Stream,
                    config: &LaunchConfig,
                    search: bool,
                    work: WorkBuffers<'_, Self>,
                    large: LargePlanBuffers<'_>,
                ) -> Result<(), DeviceError> {
                    // SAFETY: the caller's contract.
                    unsafe {
                        if search {
                            kernels::lu_wide_fronts_search::launch::<Self, _>(stream, config, work, large)
                        } else {
                            kernels::lu_wide_fronts::launch::<Self, _>(stream, config, work, large)
                        }
                    }
                }

                solves!(
                    [
                        (false, false) => solve_fronts_single,
                        (true, false) => solve_fronts_many,
                        (false, true) => solve_wide_fronts_single,
                        (true, true) => solve_wide_fronts_many
                    ],
                    [
                        (false, false) => solve_fronts_symmetric_single,
                        (true, false) => solve_fronts_symmetric_many,
                        (false, true) => solve_wide_fronts_symmetric_single,
                        (true, true) => solve_wide_fronts_symmetric_many
                    ]
                );
            }
        )*
    };
}
real!(f32, f64);

/// A complex type; the lists are those of [`solves`], behind which stands what this type alone has.
macro_rules! complex {
    ($real:ty, $without_strips:literal, $general:tt, $symmetric:tt, { $($own:item)* }) => {
        impl DeviceScalar for Complex<$real> {
            type Magnitude = $real;
            type Value = Complex<f64>;

            const SOLVES_WITHOUT_STRIPS: bool = $without_strips;

            fn wide_fronts(_: bool) -> &'static KernelDesc {
                panic!("no front of complex numbers is wide")
            }

            unsafe fn launch_wide_fronts(
                _: &Stream,
                _: &LaunchConfig,
                search: bool,
                _: WorkBuffers<'_, Self>,
                _: LargePlanBuffers<'_>,
            ) -> Result<(), DeviceError> {
                Self::wide_fronts(search);
                Ok(())
            }

            solves!($general, $symmetric);

            $($own)*
        }
    };
}
complex!(
    f32,
    false,
    [
        (false, _) => solve_wide_fronts_single,
        (true, _) => solve_wide_fronts_many
    ],
    [
        (false, _) => solve_wide_fronts_symmetric_single,
        (true, _) => solve_wide_fronts_symmetric_many
    ],
    {}
);
complex!(
    f64,
    true,
    [
        (false, false) => solve_fronts_single,
        (true, false) => solve_fronts_many,
        (false, true) => solve_wide_fronts_single,
        (true, true) => solve_wide_fronts_many
    ],
    [
        (false, false) => solve_fronts_symmetric_single,
        (true, false) => solve_fronts_symmetric_many,
        (false, true) => solve_wide_fronts_symmetric_single,
        (true, true) => solve_wide_fronts_symmetric_many
    ],
    {
        fn small_fronts() -> Option<&'static KernelDesc> {
            Some(kernels::lu_small_fronts::desc::<Self>())
        }

        unsafe fn launch_small_fronts(
            stream: &Stream,
            config: &LaunchConfig,
            work: WorkBuffers<'_, Self>,
            small: SmallPlanBuffers<'_>,
        ) -> Result<(), DeviceError> {
            // SAFETY: the caller's contract.
            unsafe { kernels::lu_small_fronts::launch::<Self, _>(stream, config, work, small) }
        }
    }
);
