//! The phases on a device: a GPU, or the simulator of its kernels. One code path for both.
//!
//! Pattern, levels, positions and factors stay on the device; values of B and right-hand sides go up,
//! solutions and reports come down. All of a solver's work is in the order of one stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::time::Instant;

#[cfg(feature = "simulator")]
use luge_device::SimulatorOptions;
use luge_device::{Backend, Device, DeviceError, KernelDesc, Stream};
use luge_levelize::gpu::DeviceLevels;
use luge_numeric::PivotReport;
use luge_numeric::gpu::{ColumnPlan, Columns, DeviceFactors};
use luge_solve::gpu::{DeviceLu, SolveScalar};
use luge_sparse::{CompressedPattern, FilledPattern, Levels, PivotPolicy, beside};
use luge_symbolic::gpu::{self as symbolic, DeviceFilled};

use super::{AnyColumnPlan, Description, DeviceCosts, Limits, NumericFactors, PlanReport};
use crate::error::{Error, PhaseError};
use crate::options::{DealOut, DeviceColumns, DeviceEngine, FactorPrecision, MatrixKind, Options};

/// See [`GpuBackend::is_up`].
static IS_UP: AtomicBool = AtomicBool::new(false);

/// An open device, and those that it can deal work out to.
#[derive(Debug, Clone)]
pub(crate) struct GpuBackend {
    stream: Stream,
    columns: Arc<DeviceColumns>,
    deal_out: DealOut,
    host_factors: bool,
    /// The other devices of its group, which have none themselves.
    peers: Arc<[GpuBackend]>,
}

/// What factors keep of their plan.
struct OnDevice<F: SolveScalar> {
    stream: Stream,
    filled: DeviceFilled,
    levels: DeviceLevels,
    columns: ColumnPlan<F>,
    /// Whether updates are added in one order.
    is_ordered: bool,
    /// Seconds of transfers before the plan was made.
    earlier_transfers: f64,
}

struct GpuPlan<F: SolveScalar> {
    on_device: Arc<OnDevice<F>>,
    report: PlanReport,
}

struct GpuFactors<F: SolveScalar> {
    on_device: Arc<OnDevice<F>>,
    factors: DeviceFactors<F>,
}

impl GpuBackend {
    /// The GPU of this number, with the kernels loaded that the options lead to, and held to their budget of bytes.
    pub(crate) fn cuda(ordinal: usize, options: &Options) -> Result<Self, DeviceError> {
        let opened = Self::on(&Device::cuda(ordinal)?, options)?;
        IS_UP.store(true, Atomic::Relaxed);
        Ok(opened)
    }

    /// The GPUs whose numbers are chosen of as many as there are: the first, with the others as its peers.
    pub(crate) fn cuda_group(
        chosen: impl FnOnce(usize) -> Vec<usize>,
        options: &Options,
    ) -> Result<Self, DeviceError> {
        let ordinals = chosen(Device::cuda_count()?);
        let (&first, others) = ordinals.split_first().ok_or(DeviceError::NoDevice)?;
        let open = |ordinal| move || Self::cuda(ordinal, options);
        let (first, others) = beside(others.iter().copied().map(open), open(first));
        Ok(Self {
            peers: others.into_iter().collect::<Result<_, _>>()?,
            ..first?
        })
    }

    /// Whether a GPU was opened by this process.
    pub(crate) fn is_up() -> bool {
        IS_UP.load(Atomic::Relaxed)
    }

    /// So many simulators with the schedules of this seed, likewise.
    #[cfg(feature = "simulator")]
    pub(crate) fn simulators(
        seed: u64,
        count: usize,
        options: &Options,
    ) -> Result<Self, DeviceError> {
        let open = || {
            let device = Device::simulator(SimulatorOptions::with_seed(seed));
            Self::on(&device, options)
        };
        Ok(Self {
            peers: (1..count).map(|_| open()).collect::<Result<_, _>>()?,
            ..open()?
        })
    }

    pub(super) fn on(device: &Device, options: &Options) -> Result<Self, DeviceError> {
        // Of an f32 matrix nobody knows yet: its kernels are loaded at their first launch.
        device.load_kernels(&match options.precision {
            FactorPrecision::Matrix => kernels_of::<f64>(options),
            FactorPrecision::Single => kernels_of::<f32>(options),
        })?;
        device.set_budget(options.max_device_bytes);
        Ok(Self {
            stream: device.create_stream()?,
            columns: Arc::new(options.device_columns.clone()),
            deal_out: options.deal_out,
            host_factors: options.host_factors,
            peers: Arc::new([]),
        })
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The other devices of the group.
    pub(crate) fn peers(&self) -> &[Self] {
        &self.peers
    }

    /// Whether subtrees of one matrix are dealt out to the group.
    pub(crate) fn deal_out(&self) -> DealOut {
        self.deal_out
    }

    /// Whether factors that have no room on the device may be elsewhere.
    pub(crate) fn host_factors(&self) -> bool {
        self.host_factors
    }

    /// Refuses fronts of complex numbers of `value_bytes` bytes on devices whose blocks have too little shared memory for a
    /// tile of them.
    pub(crate) fn check_tiles(&self, value_bytes: usize) -> Result<(), Error> {
        let needed = luge_frontal::gpu::shared_bytes(value_bytes);
        for one in self.devices() {
            let device = one.stream.device();
            let properties = device.properties();
            let there = properties.max_shared_bytes_per_block as usize;
            if value_bytes > size_of::<f64>() && there < needed {
                let name = &properties.name;
                return Err(Error::RealOnly {
                    option: "device_engine",
                    value: format!(
                        "Tree on {name} with {there} of {needed} bytes of shared memory"
                    ),
                });
            }
        }
        Ok(())
    }

    /// All devices of the group, this one first.
    fn devices(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.peers.iter())
    }

    /// The same device with another stream, alone.
    pub(crate) fn on_stream(&self, stream: &Stream) -> Self {
        Self {
            stream: stream.clone(),
            columns: Arc::clone(&self.columns),
            deal_out: self.deal_out,
            host_factors: self.host_factors,
            peers: Arc::new([]),
        }
    }

    /// Bytes that can still be allocated.
    pub(crate) fn available_bytes(&self) -> Result<u64, Error> {
        let available = self.stream.device().available_bytes();
        available.map_err(|e| Error::from_device(e, "numeric"))
    }

    pub(crate) fn description(&self) -> Description {
        let device = self.stream.device();
        let properties = device.properties();
        let (backend, module_load_seconds) = match properties.backend {
            Backend::Cuda => ("cuda", Some(device.module_load_seconds())),
            // Its kernels are part of the program.
            Backend::Simulator => ("simulator", None),
        };
        let name = |one: &Self| one.stream.device().properties().name.clone();
        Description {
            backend,
            device: self
                .devices()
                .map(name)
                .collect::<Vec<_>>()
                .join(", ")
                .into(),
            module_load_seconds,
        }
    }

    pub(crate) fn plan<F: SolveScalar>(
        &self,
        rows: &CompressedPattern,
        limits: &Limits,
    ) -> Result<Box<dyn AnyColumnPlan<F>>, PhaseError> {
        let stream = &self.stream;
        let earlier_transfers = stream.device().transfers().seconds;
        let start = Instant::now();
        let options = symbolic::Options {
            cancel: limits.cancel.clone(),
            ..self.columns.symbolic.clone()
        };
        let streams: Vec<Stream> = self.devices().map(|one| one.stream.clone()).collect();
        let (filled, found) = symbolic::filled_pattern_on(&streams, rows, &options)?;
        let statistics = filled.statistics(stream)?;
        let symbolic_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let supernodes =
            luge_supernode::gpu::supernodes(stream, &filled, &self.columns.supernodes)?;
        let num_supernodes = supernodes.len();
        let supernode_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let levels = luge_levelize::gpu::levels(stream, &filled)?;
        let widths = levels.widths(stream)?;
        let levelize_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let columns = ColumnPlan::new(stream, &filled, &levels, rows, &self.columns.numeric)?;
        let order = rows.major_dim() as u64;
        let report = PlanReport {
            lnz: statistics.lnz,
            unz: statistics.unz,
            flops: statistics.flops,
            num_supernodes,
            num_levels: widths.len(),
            max_level_width: widths.into_iter().max().unwrap_or(0) as usize,
            // The positions, which come to the host once to be checked.
            host_bytes: 8 * rows.nnz() as u64,
            // The places of B's entries are part of the layout of L+U, and so is who works on it.
            symbolic_seconds: symbolic_seconds + start.elapsed().as_secs_f64(),
            supernode_seconds,
            levelize_seconds,
            code_path: vec![
                match &found {
                    symbolic::Report::Panels(_) => "symbolic: panels up the elimination forest",
                    symbolic::Report::Fill2(fill2) if fill2.fused_rows == order => {
                        "symbolic: fill2, combined frontiers, fused"
                    }
                    symbolic::Report::Fill2(_) => "symbolic: fill2, combined frontiers, two stages",
                },
                "supernode: T3, two phases",
                "levelize: Kahn, one launch",
            ],
            symbolic: found,
            columns: *columns.report(),
        };
        Ok(Box::new(GpuPlan {
            on_device: Arc::new(OnDevice {
                stream: stream.clone(),
                filled,
                levels,
                columns,
                is_ordered: self.columns.numeric.deterministic,
                earlier_transfers,
            }),
            report,
        }))
    }
}

/// What an engine launches for any matrix and one right-hand side.
fn kernels_of<F>(options: &Options) -> Vec<&'static KernelDesc>
where
    F: SolveScalar
        + luge_numeric::gpu::DeviceScalar<Magnitude = F>
        + luge_frontal::gpu::DeviceScalar<Magnitude = F, Value = f64>,
{
    let is_symmetric = matches!(
        options.kind,
        MatrixKind::Symmetric | MatrixKind::Hermitian | MatrixKind::PositiveDefinite
    );
    match options.device_engine {
        DeviceEngine::Auto | DeviceEngine::Tree if is_symmetric => [
            luge_frontal::gpu::symmetric_kernels::<F>().as_slice(),
            &luge_solve::gpu::kernels::<f64>(),
        ]
        .concat(),
        DeviceEngine::Auto | DeviceEngine::Tree => [
            luge_frontal::gpu::kernels::<F>().as_slice(),
            &luge_solve::gpu::kernels::<f64>(),
        ]
        .concat(),
        DeviceEngine::Columns => [
            symbolic::kernels().as_slice(),
            &luge_supernode::gpu::kernels(),
            &luge_levelize::gpu::kernels(),
            &luge_numeric::gpu::kernels::<F>(),
            &luge_solve::gpu::triangular_kernels::<F>(),
        ]
        .concat(),
    }
}

impl<F: SolveScalar> AnyColumnPlan<F> for GpuPlan<F> {
    fn report(&self) -> &PlanReport {
        &self.report
    }

    fn structure(&self) -> Result<(FilledPattern, Levels), PhaseError> {
        let OnDevice {
            stream,
            filled,
            levels,
            ..
        } = &*self.on_device;
        Ok((filled.download(stream)?, levels.download(stream)?))
    }

    fn factorize(
        &self,
        b: &[F],
        pivots: PivotPolicy,
        limits: &Limits,
    ) -> Result<Box<dyn NumericFactors<F>>, PhaseError> {
        let on_device = Arc::clone(&self.on_device);
        let factors = luge_numeric::gpu::factorize(
            &on_device.stream,
            Columns {
                filled: &on_device.filled,
                levels: &on_device.levels,
                plan: &on_device.columns,
            },
            b,
            pivots,
            &limits.cancel,
        )?;
        Ok(Box::new(GpuFactors { on_device, factors }))
    }
}

impl<F: SolveScalar> NumericFactors<F> for GpuFactors<F> {
    fn pivots(&self) -> &PivotReport {
        self.factors.pivots()
    }

    fn code_path(&self) -> &'static str {
        if self.on_device.is_ordered {
            "numeric: right-looking by levels, updates in one order, one launch"
        } else {
            "numeric: hybrid right-looking by levels, one launch"
        }
    }

    fn diagonal(&self) -> Result<Vec<F>, PhaseError> {
        let OnDevice { stream, filled, .. } = &*self.on_device;
        Ok(self.factors.diagonal(stream, filled)?)
    }

    fn device_costs(&self) -> DeviceCosts {
        let device = self.on_device.stream.device();
        DeviceCosts {
            peak_bytes: Some(device.peak_bytes()),
            transfer_seconds: Some(device.transfers().seconds - self.on_device.earlier_transfers),
        }
    }

    fn solve(&self, x: &mut [F], nrhs: usize, transpose: bool) -> Result<(), PhaseError> {
        let OnDevice {
            stream,
            filled,
            levels,
            ..
        } = &*self.on_device;
        let lu = DeviceLu {
            filled,
            levels,
            values: self.factors.values(),
        };
        Ok(luge_solve::gpu::solve(stream, lu, x, nrhs, transpose)?)
    }
}
