//! The CPU or the GPU, whichever is predicted to be faster.
//!
//! A GPU takes a quarter of a second to start, once a process. Small matrices are solved on the CPU in that time, so
//! the GPU is opened when the first matrix comes that is worth it.

use std::sync::{Arc, OnceLock};

use luge_device::Device;
use luge_frontal::Storage;
use luge_frontal::gpu::DeviceCosts;
use luge_ordering::{Costs, OrderingOptions, Prediction};
use luge_sparse::etree::EliminationForest;

use super::gpu::GpuBackend;
use super::{Backend, could_not_open};
use crate::device_choice::{FACTORIZATIONS, tree_options};
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

/// A GPU that is opened when it is needed.
#[derive(Debug, Clone)]
pub(crate) struct Auto {
    /// How to order for it.
    pub ordering: Arc<OrderingOptions>,
    /// The GPU, or why there is none.
    gpu: Arc<OnceLock<Result<GpuBackend, String>>>,
}

/// What there is to do with a matrix.
pub(crate) struct Work<'a> {
    /// Its rows and entries.
    pub matrix: (usize, usize),
    pub on_cpu: CpuWork<'a>,
    /// On the CPU.
    pub threads: usize,
    /// Components of its numbers.
    pub components: usize,
}

/// What is predicted for the CPU.
pub(crate) enum CpuWork<'a> {
    General(&'a Prediction),
    Symmetric(&'a Prediction),
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

    /// Chooses where to do some work; `order` orders the matrix for the GPU, and `seconds` predicts a factorization and a
    /// solve by the tree there.
    pub(crate) fn choose<O>(
        &self,
        options: &Options,
        work: Work<'_>,
        order: impl FnOnce() -> Result<O, Error>,
        seconds: impl Fn(&O) -> f64,
    ) -> Result<Chosen<O>, Error> {
        let Work {
            matrix: (rows, entries),
            on_cpu,
            threads,
            components,
        } = work;
        let factorizations = options.factorizations.unwrap_or(FACTORIZATIONS);
        let start = if GpuBackend::is_up() { 0.0 } else { START };
        let cpu = cpu_seconds(&on_cpu, &self.ordering.costs, threads, factorizations)
            * of_product(components);
        let of_numbers = PASSAGE_PER_ENTRY * entries as f64 + PASSAGE_PER_ROW * rows as f64;
        let passage = PASSAGE + of_numbers * components as f64;
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
        let ordered = order()?;
        let device = on_device(seconds(&ordered));
        if cpu <= device {
            return Ok(on_cpu(device, None));
        }
        let open = || {
            let opened = GpuBackend::cuda(0, options);
            opened.map_err(|error| error.to_string())
        };
        let gpu = match self.gpu.get_or_init(open) {
            Ok(gpu) => gpu,
            Err(reason) => return Ok(on_cpu(device, Some(reason.clone()))),
        };
        if let Err(refused) = gpu.check_tiles(components * size_of::<f64>()) {
            return Ok(on_cpu(device, Some(refused.to_string())));
        }
        Ok(Chosen {
            backend: Backend::Gpu(gpu.clone()),
            order: Some(ordered),
            ..on_cpu(device, None)
        })
    }
}

/// Multiplications of a product of numbers with so many components. Nobody has measured yet what those of complex numbers
/// take.
fn of_product(components: usize) -> f64 {
    (components * components) as f64
}

/// Seconds of so many factorizations on the CPU, each with a solve: those of a general matrix all but the first on known
/// pivots, those of a symmetric one in fronts, which search anew.
fn cpu_seconds(work: &CpuWork<'_>, costs: &Costs, threads: usize, factorizations: f64) -> f64 {
    let speed = 1.0 + SPEED_OF_A_THREAD * (threads - 1) as f64;
    let predicted = match work {
        CpuWork::General(predicted) => predicted,
        CpuWork::Symmetric(predicted) => {
            // Up and down with L.
            let solve = 2.0 * predicted.lnz as f64 * SOLVE_PER_ENTRY;
            return factorizations * (predicted.front_seconds(costs) / speed + solve);
        }
    };
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

/// Seconds of a factorization and a solve by the tree of this forest on the GPU, for factors stored so; the least that they
/// take where there is none, since the order is for the columns.
pub(crate) fn tree_seconds<S: Storage>(
    forest: &Option<EliminationForest>,
    components: usize,
) -> f64 {
    let costs = DeviceCosts::default().of_components(components);
    let predict = |forest| {
        let prediction = costs.of_forest::<S>(forest, &tree_options());
        prediction.seconds()
    };
    let predicted = forest.as_ref().map_or(0.0, predict);
    predicted.max(costs.call)
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "simulator")]
    use luge_device::SimulatorOptions;
    use luge_frontal::{Full, Lower};
    use luge_ordering::{Ordering, SymmetricOptions, order, order_symmetric};
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

    /// What is chosen for a full matrix of numbers with so many components.
    fn chosen(
        n: usize,
        components: usize,
        gpu: Result<GpuBackend, String>,
        options: &Options,
    ) -> Chosen<Ordering> {
        let auto = Auto {
            ordering: Arc::new(OrderingOptions::default()),
            gpu: Arc::new(OnceLock::from(gpu)),
        };
        let ordered = full(n);
        let cpu = ordered.predicted;
        let work = Work {
            matrix: (n, n * n),
            on_cpu: CpuWork::General(&cpu),
            threads: 1,
            components,
        };
        let seconds = |ordered: &Ordering| tree_seconds::<Full>(&ordered.forest, components);
        auto.choose(options, work, || Ok(ordered), seconds).unwrap()
    }

    /// Whether the device is asked for, and what is predicted.
    fn choice(n: usize, options: &Options) -> (bool, PredictedSeconds) {
        let chosen = chosen(n, 1, Err("none here".to_owned()), options);
        let asked = match chosen.backend {
            Backend::Cpu { no_gpu } => no_gpu.is_some(),
            Backend::Gpu(_) => unreachable!("there is none"),
        };
        (asked, chosen.predicted)
    }

    #[cfg(feature = "simulator")]
    #[test]
    fn complex_matrices_are_left_to_the_cpu_where_tiles_have_no_room() {
        let options = Options::default();
        let on_device = |components, shared_bytes| {
            let mut simulated = SimulatorOptions::default();
            simulated.simulator.shared_bytes = shared_bytes;
            let gpu = GpuBackend::on(&Device::simulator(simulated), &options).unwrap();
            match chosen(1_000, components, Ok(gpu), &options).backend {
                Backend::Gpu(_) => Ok(()),
                Backend::Cpu { no_gpu } => Err(no_gpu.unwrap()),
            }
        };
        assert_eq!(on_device(1, 101_376), Ok(()));
        assert_eq!(on_device(2, 166_912), Ok(()));
        let reason = on_device(2, 101_376).unwrap_err();
        assert!(reason.contains("101376 of 147456 bytes"), "{reason}");
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
        let work = CpuWork::General(&predicted);
        let [one, four] = [1, 4].map(|threads| cpu_seconds(&work, &costs, threads, 1.0));
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
            let work = CpuWork::General(&predicted);
            let of = |factorizations| cpu_seconds(&work, &costs, 1, factorizations);
            let solve = (predicted.lnz + predicted.unz) as f64 * SOLVE_PER_ENTRY;
            let (first, half) = (of(1.0) - solve, of(0.5));
            assert!((half - 0.5 * of(1.0)).abs() < 1e-12 * half);
            let expected = first + 10.0 * renewal * first + 11.0 * solve;
            assert!((of(11.0) / expected - 1.0).abs() < 1e-12, "{renewal}");
        }
    }

    #[test]
    fn symmetric_matrices_take_half_the_work_and_find_their_pivots_each_time() {
        let n = 600u32;
        let idx = (0..n).flat_map(|_| 0..n).collect();
        let ptr = (0..=u64::from(n)).map(|i| i * u64::from(n)).collect();
        let a = CompressedPattern::new(n as usize, ptr, idx).unwrap();
        let ordering = order_symmetric(&a, None, &SymmetricOptions::default()).unwrap();
        let general = full(n as usize);
        let costs = Costs::default();
        let work = CpuWork::Symmetric(&ordering.predicted);
        let of = |factorizations| cpu_seconds(&work, &costs, 1, factorizations);
        assert!((of(7.0) / of(1.0) - 7.0).abs() < 1e-12);
        let of_general = cpu_seconds(&CpuWork::General(&general.predicted), &costs, 1, 1.0);
        let ratio = of(1.0) / of_general;
        assert!((0.3..0.9).contains(&ratio), "{ratio}");
        let lower = tree_seconds::<Lower>(&ordering.forest, 1);
        let whole = tree_seconds::<Full>(&general.forest, 1);
        assert!(0.0 < lower && lower < whole, "{lower} {whole}");
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
            let work = Work {
                matrix,
                on_cpu: CpuWork::General(&ordered.predicted),
                threads: 1,
                components: 1,
            };
            let seconds = |ordered: &&Ordering| tree_seconds::<Full>(&ordered.forest, 1);
            let chosen = auto.choose(&options, work, || Ok(&ordered), seconds);
            chosen.unwrap().predicted.device
        };
        let more = device((600, 361_000)) - device((600, 360_000));
        assert!((more / (1e5 * 1000.0 * PASSAGE_PER_ENTRY) - 1.0).abs() < 1e-6);
        let more = device((1600, 360_000)) - device((600, 360_000));
        assert!((more / (1e5 * 1000.0 * PASSAGE_PER_ROW) - 1.0).abs() < 1e-6);
    }
}
