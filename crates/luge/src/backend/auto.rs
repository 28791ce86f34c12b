//! The CPU or the GPU, whichever is predicted to be faster.
//!
//! A GPU takes a quarter of a second to start, once a process. Small matrices are solved on the CPU in that time, so
//! the GPU is opened when the first matrix comes that is worth it.

use std::sync::{Arc, OnceLock};

use luge_device::Device;
use luge_frontal::gpu::DeviceCosts;
use luge_frontal::{Full, TreeOptions};
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

/// What new values take on pivots that are known, as a part of the factorization that searched them: by columns, and in
/// fronts (the corpus's circuits and power grids, one thread).
const RENEWAL_OF_COLUMNS: f64 = 1.0 / 3.0;
const RENEWAL_OF_FRONTS: f64 = 0.85;

/// Seconds of a factorization and a solve on a GPU, beside those of the tree, whose values and right-hand side come from
/// the host: for themselves, for each entry of the matrix and for each row. Measured on an H200, 19 matrices.
const PASSAGE: f64 = 1.6e-4;
const PASSAGE_PER_ENTRY: f64 = 1.2e-9;
const PASSAGE_PER_ROW: f64 = 3e-9;

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

    /// Chooses for a matrix of so many rows and entries that is predicted to take so much on the CPU; `order` orders it for
    /// the GPU.
    pub(crate) fn choose<O>(
        &self,
        options: &Options,
        threads: usize,
        (rows, entries): (usize, usize),
        on_cpu: &Prediction,
        order: impl FnOnce(&OrderingOptions) -> Result<O, Error>,
        ordering_of: impl Fn(&O) -> &Ordering,
    ) -> Result<Chosen<O>, Error> {
        let factorizations = options.factorizations.unwrap_or(FACTORIZATIONS);
        let start = if GpuBackend::is_up() { 0.0 } else { START };
        let cpu = cpu_seconds(on_cpu, &self.ordering.costs, threads, factorizations);
        let passage = PASSAGE + PASSAGE_PER_ENTRY * entries as f64 + PASSAGE_PER_ROW * rows as f64;
        let on_device = |of_tree: f64| start + factorizations * (passage + of_tree);
        let least = on_device(DeviceCosts::default().call);
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
        let device = on_device(tree_seconds(ordering_of(&ordered)));
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

/// Seconds of so many factorizations on the CPU, all but the first on known pivots, each with a solve.
fn cpu_seconds(predicted: &Prediction, costs: &Costs, threads: usize, factorizations: f64) -> f64 {
    let speed = 1.0 + SPEED_OF_A_THREAD * (threads - 1) as f64;
    let columns = predicted.column_seconds(costs);
    let fronts = predicted.front_seconds(costs) / speed;
    let (first, renewal) = if columns <= fronts {
        (columns, RENEWAL_OF_COLUMNS)
    } else {
        (fronts, RENEWAL_OF_FRONTS)
    };
    let solve = (predicted.lnz + predicted.unz) as f64 * SOLVE_PER_ENTRY;
    let firsts = factorizations.min(1.0);
    first * (firsts + renewal * (factorizations - firsts)) + factorizations * solve
}

/// Seconds of a factorization and a solve of the tree on the GPU; the least that they take where the order is for the
/// columns.
fn tree_seconds(ordering: &Ordering) -> f64 {
    let costs = DeviceCosts::default();
    let predict = |forest| {
        let prediction = costs.of_forest::<Full>(forest, &TreeOptions::default());
        prediction.seconds()
    };
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
        ordered(n, |_| 0..n as u32)
    }

    /// A matrix with these columns in each row, likewise.
    fn ordered(n: usize, row: impl Fn(usize) -> std::ops::Range<u32>) -> Ordering {
        let mut ptr = vec![0];
        let mut idx = Vec::new();
        for i in 0..n {
            idx.extend(row(i));
            ptr.push(idx.len() as u64);
        }
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
        let matrix = (n, n * n);
        let chosen = auto.choose(options, 1, matrix, &cpu, |_| Ok(ordered), |ordered| ordered);
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
        let [one, four] = [1, 4].map(|threads| cpu_seconds(&predicted, &costs, threads, 1.0));
        assert!(four < 0.5 * one && one < 3.2 * four, "{one} {four}");
    }

    #[test]
    fn all_but_the_first_factorization_find_their_pivots() {
        let costs = Costs::default();
        let n = 600;
        let tridiagonal = ordered(n, |i| i.saturating_sub(1) as u32..(i + 2).min(n) as u32);
        for (ordering, renewal) in [
            (tridiagonal, RENEWAL_OF_COLUMNS),
            (full(n), RENEWAL_OF_FRONTS),
        ] {
            let predicted = ordering.predicted;
            let of = |factorizations| cpu_seconds(&predicted, &costs, 1, factorizations);
            let solve = (predicted.lnz + predicted.unz) as f64 * SOLVE_PER_ENTRY;
            let (first, half) = (of(1.0) - solve, of(0.5));
            assert!((half - 0.5 * of(1.0)).abs() < 1e-12 * half);
            let expected = first + 10.0 * renewal * first + 11.0 * solve;
            assert!((of(11.0) / expected - 1.0).abs() < 1e-12, "{renewal}");
        }
    }

    #[test]
    fn what_comes_from_the_host_takes_its_time() {
        let auto = Auto {
            ordering: Arc::new(OrderingOptions::default()),
            gpu: Arc::new(OnceLock::from(Err("none here".to_owned()))),
        };
        let ordered = full(600);
        let device = |matrix| {
            let options = Options::default().factorizations(1e5);
            let (cpu, order) = (ordered.predicted, |_: &_| Ok(ordered.clone()));
            let chosen = auto.choose(&options, 1, matrix, &cpu, order, |ordered| ordered);
            chosen.unwrap().predicted.device
        };
        let more = device((600, 361_000)) - device((600, 360_000));
        assert!((more / (1e5 * 1000.0 * PASSAGE_PER_ENTRY) - 1.0).abs() < 1e-6);
        let more = device((1600, 360_000)) - device((600, 360_000));
        assert!((more / (1e5 * 1000.0 * PASSAGE_PER_ROW) - 1.0).abs() < 1e-6);
    }
}
