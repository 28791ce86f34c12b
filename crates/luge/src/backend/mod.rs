//! The seam between the facade and what runs the phases.
//!
//! A device turns the pattern of B into an [`AnyColumnPlan`] (filled pattern and levels), a plan and values into
//! [`NumericFactors`], and those solve: symbolic, levels, static numeric, solve. The CPU has a path of
//! its own, [`host`](crate::host).

#[cfg(feature = "gpu")]
pub(crate) mod auto;
#[cfg(feature = "gpu")]
pub(crate) mod gpu;

use std::borrow::Cow;

use luge_frontal::RankOptions;
#[cfg(feature = "gpu")]
use luge_numeric::PivotReport;
use luge_sparse::{CancelFlag, MemoryBudget, Reservation, Scalar};
#[cfg(feature = "gpu")]
use luge_sparse::{CompressedPattern, FilledPattern, Levels, PivotPolicy};
#[cfg(feature = "gpu")]
use num_complex::Complex;

use crate::error::Error;
#[cfg(feature = "gpu")]
use crate::error::PhaseError;
use crate::options::{BackendChoice, Options};

/// The types that values, vectors and sums are in: those that are [wide](Scalar::Wide), one for each field.
pub(crate) trait Field: Scalar<Real = f64, Wide = Self> {}

impl<W: Scalar<Real = f64, Wide = W>> Field for W {}

/// The types that a device computes factors in.
#[cfg(feature = "gpu")]
pub(crate) trait DeviceScalar: Scalar {
    /// The plan of a device, for this type: kernels exist for concrete types.
    fn plan_on_device(
        backend: &gpu::GpuBackend,
        rows: &CompressedPattern,
        limits: &Limits,
    ) -> Result<Box<dyn AnyColumnPlan<Self>>, PhaseError>;
}

#[cfg(feature = "gpu")]
macro_rules! device_scalar {
    ($($scalar:ty),*) => {$(
        impl DeviceScalar for $scalar {
            fn plan_on_device(
                backend: &gpu::GpuBackend,
                rows: &CompressedPattern,
                limits: &Limits,
            ) -> Result<Box<dyn AnyColumnPlan<Self>>, PhaseError> {
                backend.plan::<Self>(rows, limits)
            }
        }
    )*};
}

#[cfg(feature = "gpu")]
device_scalar!(f32, f64, Complex<f32>, Complex<f64>);

/// What a phase may use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub cancel: CancelFlag,
    pub max_host_bytes: Option<u64>,
    /// What is left of them, for all that the solver has made.
    pub memory: MemoryBudget,
    /// The ranks that work on a matrix together.
    pub ranks: Option<RankOptions>,
}

impl Limits {
    /// Reserves host memory in `phase`.
    pub fn reserve(&self, bytes: u64, phase: &'static str) -> Result<Reservation, Error> {
        let reserved = self.memory.reserve(bytes);
        reserved.map_err(|error| Error::from_budget(error, phase))
    }

    /// The limits as the phases take them.
    pub fn of_phase(&self) -> luge_sparse::Limits {
        luge_sparse::Limits {
            cancel: self.cancel.clone(),
            memory: self.memory.clone(),
        }
    }
}

/// What a backend is, for the inform.
#[derive(Debug, Clone)]
pub(crate) struct Description {
    /// `"cpu"`, `"cuda"` or `"simulator"`.
    pub backend: &'static str,
    /// The device in words.
    pub device: Cow<'static, str>,
    /// Seconds spent loading kernels so far.
    pub module_load_seconds: Option<f64>,
}

/// Sizes that the analysis of a pattern found, and its times.
#[cfg(feature = "gpu")]
#[derive(Debug, Clone)]
pub(crate) struct PlanReport {
    pub lnz: u64,
    pub unz: u64,
    pub flops: f64,
    pub num_supernodes: usize,
    pub num_levels: usize,
    pub max_level_width: usize,
    pub host_bytes: u64,
    pub symbolic_seconds: f64,
    pub supernode_seconds: f64,
    pub levelize_seconds: f64,
    /// What the symbolic phase did.
    pub symbolic: luge_symbolic::gpu::Report,
    /// Modes and memory of the numeric phase.
    pub columns: luge_numeric::gpu::ColumnReport,
    /// Algorithms that ran.
    pub code_path: Vec<&'static str>,
}

/// Device-side costs so far; `None` where there is no device.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DeviceCosts {
    pub peak_bytes: Option<u64>,
    pub transfer_seconds: Option<f64>,
}

/// What runs the phases for a matrix.
#[derive(Debug, Clone)]
pub(crate) enum Backend {
    /// This machine, and why no GPU is used that would have been.
    Cpu { no_gpu: Option<String> },
    #[cfg(feature = "gpu")]
    Gpu(gpu::GpuBackend),
}

/// The filled pattern and levels of one B.
#[cfg(feature = "gpu")]
pub(crate) trait AnyColumnPlan<F: Scalar>: Send + Sync {
    fn report(&self) -> &PlanReport;

    /// The filled pattern and the levels on the host.
    fn structure(&self) -> Result<(FilledPattern, Levels), PhaseError>;

    /// Factorizes the values of B, in the order of the rows that were analyzed.
    fn factorize(
        &self,
        b: &[F],
        pivots: PivotPolicy,
        limits: &Limits,
    ) -> Result<Box<dyn NumericFactors<F>>, PhaseError>;
}

/// L and U of one B.
#[cfg(feature = "gpu")]
pub(crate) trait NumericFactors<F: Scalar>: Send + Sync {
    fn pivots(&self) -> &PivotReport;

    /// Algorithm that ran.
    fn code_path(&self) -> &'static str;

    /// The diagonal of U.
    fn diagonal(&self) -> Result<Vec<F>, PhaseError>;

    fn device_costs(&self) -> DeviceCosts;

    /// Replaces `nrhs` right-hand sides of length n by solutions with B, or its transpose.
    fn solve(&self, x: &mut [F], nrhs: usize, transpose: bool) -> Result<(), PhaseError>;
}

impl Backend {
    /// Whether it is a device.
    pub(crate) fn is_device(&self) -> bool {
        !matches!(self, Self::Cpu { .. })
    }

    pub(crate) fn open(options: &Options) -> Result<Self, Error> {
        match options.backend {
            // Until a matrix comes that is worth a GPU.
            BackendChoice::Auto | BackendChoice::Cpu => Ok(Self::Cpu { no_gpu: None }),
            BackendChoice::Gpu { ordinal } => Self::gpus(|_| vec![ordinal], options),
            BackendChoice::Gpus { ordinals } => Self::gpus(|count| ordinals.among(count), options),
            BackendChoice::Simulator { seed } => Self::simulators(seed, 1, options),
            BackendChoice::Simulators { seed, count } => Self::simulators(seed, count, options),
        }
    }

    /// The GPUs whose numbers are chosen of so many.
    #[cfg(feature = "gpu")]
    fn gpus(chosen: impl FnOnce(usize) -> Vec<usize>, options: &Options) -> Result<Self, Error> {
        let opened = gpu::GpuBackend::cuda_group(chosen, options);
        opened.map(Self::Gpu).map_err(could_not_open)
    }

    #[cfg(not(feature = "gpu"))]
    fn gpus(_chosen: impl FnOnce(usize) -> Vec<usize>, _options: &Options) -> Result<Self, Error> {
        Err(Error::FeatureOff { feature: "gpu" })
    }

    /// So many simulators with the schedules of this seed.
    #[cfg(feature = "simulator")]
    fn simulators(seed: u64, count: usize, options: &Options) -> Result<Self, Error> {
        let opened = gpu::GpuBackend::simulators(seed, count, options);
        opened.map(Self::Gpu).map_err(could_not_open)
    }

    #[cfg(not(feature = "simulator"))]
    fn simulators(_seed: u64, _count: usize, _options: &Options) -> Result<Self, Error> {
        Err(Error::FeatureOff {
            feature: "simulator",
        })
    }

    pub(crate) fn description(&self, threads: usize) -> Description {
        match self {
            Self::Cpu { .. } => Description {
                backend: "cpu",
                device: match threads {
                    1 => "CPU, 1 thread".into(),
                    count => format!("CPU, {count} threads").into(),
                },
                module_load_seconds: None,
            },
            #[cfg(feature = "gpu")]
            Self::Gpu(gpu) => gpu.description(),
        }
    }
}

#[cfg(feature = "gpu")]
fn could_not_open(error: luge_device::DeviceError) -> Error {
    Error::from_device(error, "opening the device")
}
