//! The CPU or the GPU, whichever is predicted to be faster.
//!
//! A GPU takes a quarter of a second to start, once a process. Small matrices are solved on the CPU in that time, so
//! the GPU is opened when the first matrix comes that is worth it.

use std::sync::{Arc, OnceLock};

use luge_device::Device;
use luge_frontal::TreeOptions;
use luge_frontal::gpu::DeviceCosts;
use luge_ordering::{Costs, Ordering, OrderingOptions, Prediction};

use super::gpu::GpuBackend;
use super::{Backend, could_not_open};
use crate::error::Error;
use crate::inform::PredictedSeconds;
use crate::options::Options;

/// Seconds until a GPU can be used that this process has not used yet: driver, context, kernels.
const START: f64 = 0.25;

/// Seconds of a solve on the CPU for each entry of L + U.
const SOLVE_PER_ENTRY: f64 = 1e-9;

/// What each thread after the first adds to the speed of a factorization in fronts.
const SPEED_OF_A_THREAD: f64 = 0.7;

/// Factorizations that an analysis serves if nobody says how many.
pub(crate) const FACTORIZATIONS: f64 = 100.0;

/// A GPU that is opened when it is needed.
#[derive(Debug, Clone)]
pub(crate) struct Auto {
    /// How to order for it.
    pub ordering: Arc<OrderingOptions>,
    /// The GPU, or why there is none.
    gpu: Arc<OnceLock<Result<GpuBackend, String>>>,
}

/// Where a matrix goes.
pub(crate) struct Chosen<O> {
    pub backend: Backend,
    /// Its order for the GPU, if that was chosen.
    pub order: Option<O>,
    pub predicted: PredictedSeconds,
}

impl Auto {
    /// Looks for a driver, without starting a GPU.
    pub(crate) fn new(ordering: OrderingOptions) -> Result<Self, Error> {
        Device::cuda_driver().map_err(could_not_open)?;
        Ok(Self {
            ordering: Arc::new(ordering),
            gpu: Arc::default(),
        })
    }

    /// The GPU, if it was opened.
    pub(crate) fn opened(&self) -> Option<&GpuBackend> {
        self.gpu.get()?.as_ref().ok()
    }

    /// Chooses for a matrix that is predicted to take so much on the CPU; `order` orders it for the GPU.
    pub(crate) fn choose<O>(
        &self,
        options: &Options,
        threads: usize,
        on_cpu: &Prediction,
        order: impl FnOnce(&OrderingOptions) -> Result<O, Error>,
        ordering_of: impl Fn(&O) -> &Ordering,
    ) -> Result<Chosen<O>, Error> {
        let factorizations = options.factorizations.unwrap_or(FACTORIZATIONS);
        let start = if GpuBackend::is_up() { 0.0 } else { START };
        let cpu = factorizations * cpu_seconds(on_cpu, &self.ordering.costs, threads);
        let least = start + factorizations * DeviceCosts::default().call;
        let on_cpu = |device, no_gpu| Chosen {
            backend: Backend::Cpu { no_gpu },
            order: None,
            predicted: PredictedSeconds {
                cpu,
                device,
                factorizations,
            },
        };
        if cpu <= least {
            return Ok(on_cpu(least, None));
        }
        let ordered = order(&self.ordering)?;
        let device = start + factorizations * device_seconds(ordering_of(&ordered));
        if cpu <= device {
            return Ok(on_cpu(device, None));
        }
        let open = || {
            let opened = GpuBackend::cuda(0, options);
            opened.map_err(|error| error.to_string())
        };
        match self.gpu.get_or_init(open) {
            Ok(gpu) => Ok(Chosen {
                backend: Backend::Gpu(gpu.clone()),
                order: Some(ordered),
                ..on_cpu(device, None)
            }),
            Err(reason) => Ok(on_cpu(device, Some(reason.clone()))),
        }
    }
}

/// Seconds of a factorization and a solve on the CPU.
fn cpu_seconds(predicted: &Prediction, costs: &Costs, threads: usize) -> f64 {
    let speed = 1.0 + SPEED_OF_A_THREAD * (threads - 1) as f64;
    let factorization = predicted
        .column_seconds(costs)
        .min(predicted.front_seconds(costs) / speed);
    factorization + (predicted.lnz + predicted.unz) as f64 * SOLVE_PER_ENTRY
}

/// Seconds of a factorization and a solve on the GPU; the least that they take where the order is for the columns.
fn device_seconds(ordering: &Ordering) -> f64 {
    let costs = DeviceCosts::default();
    let predict = |forest| costs.of_forest(forest, &TreeOptions::default()).seconds();
    let predicted = ordering.forest.as_ref().map_or(0.0, predict);
    predicted.max(costs.call)
}

#[cfg(test)]
mod tests {
    use luge_ordering::order;
    use luge_sparse::CompressedPattern;

    use super::*;
    use crate::device_choice::ordering_for_tree;

    /// A full matrix, as it is ordered for a tree.
    fn full(n: usize) -> Ordering {
        let ptr = (0..=n as u64).map(|i| i * n as u64).collect();
        let idx = (0..n).flat_map(|_| 0..n as u32).collect();
        let a = CompressedPattern::new(n, ptr, idx).unwrap();
        let options = ordering_for_tree(OrderingOptions::default(), None);
        order(&a, None, &options).unwrap()
    }

    /// Whether the device is asked for, and what is predicted.
    fn choice(n: usize, options: &Options) -> (bool, PredictedSeconds) {
        let auto = Auto {
            ordering: Arc::new(OrderingOptions::default()),
            gpu: Arc::new(OnceLock::from(Err("none here".to_owned()))),
        };
        let ordered = full(n);
        let cpu = ordered.predicted;
        let chosen = auto.choose(options, 1, &cpu, |_| Ok(ordered), |ordered| ordered);
        let chosen = chosen.unwrap();
        let asked = match chosen.backend {
            Backend::Cpu { no_gpu } => no_gpu.is_some(),
            Backend::Gpu(_) => unreachable!("there is none"),
        };
        (asked, chosen.predicted)
    }

    #[test]
    fn a_device_must_be_worth_its_start() {
        let (asked, predicted) = choice(30, &Options::default());
        assert!(!asked && predicted.cpu < START && predicted.device > START);
        assert_eq!(predicted.factorizations, FACTORIZATIONS);
        // Once or many times.
        let (asked, predicted) = choice(600, &Options::default().factorizations(1.0));
        assert!(!asked && predicted.cpu < predicted.device);
        let (asked, predicted) = choice(600, &Options::default().factorizations(1e5));
        assert!(asked && predicted.cpu > predicted.device, "{predicted:?}");
    }

    #[test]
    fn threads_share_fronts() {
        let predicted = full(600).predicted;
        let costs = Costs::default();
        let [one, four] = [1, 4].map(|threads| cpu_seconds(&predicted, &costs, threads));
        assert!(four < 0.5 * one && one < 3.2 * four, "{one} {four}");
    }
}
