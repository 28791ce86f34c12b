//! The solver and the analysis of a pattern.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

#[cfg(feature = "gpu")]
use luge_device::Stream;
use luge_ordering::{Method, OrderingOptions};
use luge_sparse::{FilledPattern, Levels, MemoryBudget, Reservation, Scalar, to_u32};
use sprs::CsMat;

use crate::backend::{Backend, Limits};
#[cfg(feature = "gpu")]
use crate::device_choice;
#[cfg(feature = "gpu")]
use crate::device_path::{DevicePath, DevicePlace};
use crate::error::Error;
use crate::factors::Factors;
use crate::host_path::HostPath;
use crate::inform::{Inform, Seconds, Warning};
use crate::options::{DeviceEngine, FactorPrecision, Options, Pivoting};
use crate::ordered::{costs_of, for_static_pivots, order_within};
use crate::path::{Path, Plan};
use crate::shared::Shared;
use crate::stored::{Rows, pattern_of};
use crate::threads::Threads;

/// Solves sparse linear systems: options and a device, ready for any number of matrices.
///
/// ```
/// use luge::{Options, Solver};
/// use sprs::CsMat;
///
/// // 2 1
/// // 1 3
/// let a: CsMat<f64> =
///     CsMat::new((2, 2), vec![0, 2, 4], vec![0, 1, 0, 1], vec![2.0, 1.0, 1.0, 3.0]);
/// let solver = Solver::new(Options::default())?;
/// let factors = solver.analyze(&a)?.factorize(&a)?;
/// let solution = factors.solve(&[4.0, 7.0])?;
/// assert!((solution.x[0] - 1.0).abs() < 1e-15 && (solution.x[1] - 2.0).abs() < 1e-15);
/// assert!(solution.inform.backward_error.is_some_and(|e| e < 1e-15));
/// # Ok::<(), luge::Error>(())
/// ```
///
/// The steps in another order do not compile: a solver has no factors,
///
/// ```compile_fail,E0599
/// # let a: sprs::CsMat<f64> = sprs::CsMat::eye(2);
/// luge::Solver::new(luge::Options::default())?.factorize(&a)?;
/// # Ok::<(), luge::Error>(())
/// ```
///
/// and an analysis does not solve.
///
/// ```compile_fail,E0599
/// # let a: sprs::CsMat<f64> = sprs::CsMat::eye(2);
/// luge::Solver::new(luge::Options::default())?.analyze(&a)?.solve(&[1.0, 1.0])?;
/// # Ok::<(), luge::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Solver {
    options: Arc<Options>,
    /// How to order for the backend.
    ordering: Arc<OrderingOptions>,
    backend: Backend,
    threads: Threads,
    memory: MemoryBudget,
    /// For the solver itself, and what is too small to be counted one by one.
    _slack: Arc<Reservation>,
}

/// What can be known of a matrix before its values are eliminated: permutations, scaling, filled
/// pattern and levels. Good for every matrix of the same pattern, though permutations and scaling
/// were chosen for the values that were analyzed.
pub struct Analysis<T> {
    pub(crate) plan: Arc<Plan>,
    pub(crate) inform: Arc<Inform>,
    scalar: PhantomData<T>,
}

impl Solver {
    /// Opens the backend that `options` ask for.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`]; [`Error::Device`] if a GPU was asked for and cannot be used; [`Error::Threads`].
    pub fn new(options: Options) -> Result<Self, Error> {
        options.check_ranges()?;
        let backend = Backend::open(&options)?;
        let threads = Threads::new(options.threads)?;
        let on_device = !matches!(backend, Backend::Cpu { .. });
        let on_columns = on_device && options.device_engine == DeviceEngine::Columns;
        let searches = !on_columns && options.pivoting != Pivoting::Static;
        let matching = options.ordering.matching;
        let ordering = OrderingOptions {
            cancel: options.cancel.clone(),
            matching: if searches {
                matching
            } else {
                for_static_pivots(matching)
            },
            costs: costs_of(&options),
            threads: 1,
            ..options.ordering.clone()
        };
        #[cfg(feature = "gpu")]
        let ordering = if on_device && !on_columns {
            device_choice::ordering_for_tree(ordering, options.factorizations)
        } else {
            ordering
        };
        let memory = options.max_host_bytes.map(MemoryBudget::new);
        let memory = memory.unwrap_or_default();
        let slack = SLACK_BYTES + threads.count() as u64 * SLACK_PER_THREAD;
        let slack = memory.reserve(slack);
        let slack = slack.map_err(|error| Error::from_budget(error, "setup"))?;
        Ok(Self {
            options: Arc::new(options),
            ordering: Arc::new(ordering),
            backend,
            threads,
            memory,
            _slack: Arc::new(slack),
        })
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The stream of the device on which all work of this solver is, in order; `None` on the CPU.
    ///
    /// Buffers for [`Factors::refactorize_on_device`] and [`Factors::solve_on_device`] are made on it; what is enqueued
    /// on it before such a call is done before, and what comes after sees the results.
    #[cfg(feature = "gpu")]
    pub fn stream(&self) -> Option<&Stream> {
        match &self.backend {
            Backend::Cpu { .. } => None,
            Backend::Gpu(backend) => Some(backend.stream()),
        }
    }

    /// Orders and analyzes a square matrix; its values guide matching and scaling.
    ///
    /// # Errors
    ///
    /// [`Error::NotSquare`], [`Error::PermutationLength`], [`Error::NotFinite`],
    /// [`Error::StructurallySingular`], [`Error::ZerosOnly`], [`Error::OutOfMemory`],
    /// [`Error::IndexOverflow`], [`Error::Cancelled`], and those of the device.
    pub fn analyze<T: Scalar>(&self, a: &CsMat<T>) -> Result<Analysis<T>, Error> {
        let n = a.rows();
        if a.cols() != n {
            return Err(Error::NotSquare {
                rows: n,
                cols: a.cols(),
            });
        }
        to_u32(n, "number of rows")?;
        if let Method::User { rows, .. } = &self.ordering.method
            && rows.len() != n
        {
            let permuted = rows.len();
            return Err(Error::PermutationLength { permuted, n });
        }
        let limits = Limits {
            cancel: self.options.cancel.clone(),
            max_host_bytes: self.options.max_host_bytes,
            memory: self.memory.clone(),
        };
        let by_columns = !a.is_csr();
        let is_single = size_of::<T>() != size_of::<f64>();
        let (order, nnz) = (n as u64, a.nnz() as u64);
        let of_pattern = limits.reserve(8 * (order + 1) + 4 * nnz, "ordering")?;
        // The rows, where each entry is among the columns, and the values in that order and in f64.
        let turned = if by_columns {
            16 * (order + 1) + 20 * nnz
        } else {
            0
        };
        let widened = if is_single { 8 * nnz } else { 0 };
        let of_rows = limits.reserve(turned + widened, "ordering")?;
        let pattern = self
            .threads
            .run(a.nnz() as f64 * PATTERN_PER_ENTRY, |threads| {
                pattern_of(a, threads, &limits.cancel)
            })?;
        let rows = Rows::new(&pattern, by_columns, &limits.cancel)?;
        let in_f64 = T::in_f64(a.data());
        let values = rows.values(&in_f64);
        limits.cancel.check()?;
        let single =
            self.options.precision == FactorPrecision::Single || size_of::<T>() == size_of::<f32>();
        let (ordering, of_ordering) =
            order_within(&self.ordering, &self.threads, &limits, &rows, &values)?;
        let description = self.backend.description(self.threads.count());
        let mut inform = Inform {
            n,
            nnz: a.nnz(),
            seconds: Seconds {
                module_load: description.module_load_seconds,
                ..Seconds::default()
            },
            backend: description.backend,
            device: description.device,
            scaled: self.options.ordering.scaling,
            ..Inform::default()
        };
        inform.describe_ordering(&ordering);
        inform
            .warnings
            .extend(description.no_gpu.map(|reason| Warning::NoGpu { reason }));
        let path = match &self.backend {
            Backend::Cpu { .. } => {
                let start = Instant::now();
                let (predicted, off_diagonal) =
                    (ordering.predicted, ordering.predicted.off_diagonal_nnz);
                let path = HostPath::new(
                    &self.options,
                    &self.threads,
                    &limits,
                    &rows,
                    (ordering, of_ordering),
                    single,
                )?;
                inform.seconds.symbolic = start.elapsed().as_secs_f64();
                path.describe(&mut inform, predicted.lnz, predicted.unz + off_diagonal);
                if inform.flops == 0.0 {
                    inform.flops = predicted.flops;
                }
                Path::Host(path)
            }
            #[cfg(feature = "gpu")]
            Backend::Gpu(backend) => {
                let place = DevicePlace {
                    backend,
                    limits: &limits,
                    threads: &self.threads,
                    rows: &rows,
                    single,
                };
                let path = DevicePath::choose(
                    &self.options,
                    &self.ordering,
                    place,
                    &values,
                    ordering,
                    &mut inform,
                )?;
                path.chain.describe(&mut inform);
                Path::Device(path)
            }
        };
        drop(values);
        drop((rows, of_rows));
        Ok(Analysis {
            plan: Arc::new(Plan {
                path,
                shared: Shared {
                    target: self.options.target_backward_error.unwrap_or(
                        // An f32 solution cannot do better than its rounding.
                        if size_of::<T>() == size_of::<f32>() {
                            1e-6
                        } else {
                            1e-12
                        },
                    ),
                    options: Arc::clone(&self.options),
                    ordering: Arc::clone(&self.ordering),
                    limits,
                    threads: self.threads.clone(),
                    pattern: Arc::new(pattern),
                    _memory: Arc::new(of_pattern),
                    by_columns,
                },
            }),
            inform: Arc::new(inform),
            scalar: PhantomData,
        })
    }
}

/// Host memory for what is too small to be counted one by one, and for each thread.
const SLACK_BYTES: u64 = 96 << 10;
const SLACK_PER_THREAD: u64 = 16 << 10;

/// Seconds that it takes to copy an entry of a pattern, and to check it, at least.
const PATTERN_PER_ENTRY: f64 = 1e-9;

impl<T: Scalar> Analysis<T> {
    /// Sizes, times and the code path of the analysis.
    pub fn inform(&self) -> &Inform {
        &self.inform
    }

    /// The filled pattern of the permuted matrix B and the levels of its columns. From the column engine of a device
    /// they are copied to the host as it found them; otherwise they are computed, on the CPU.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], [`Error::Cancelled`], those of the device.
    pub fn structure(&self) -> Result<(FilledPattern, Levels), Error> {
        match &self.plan.path {
            Path::Host(path) => self
                .plan
                .shared
                .host_structure(path.chain.transform().clone()),
            #[cfg(feature = "gpu")]
            Path::Device(path) => path.chain.structure(&self.plan.shared),
        }
    }

    /// Factorizes a matrix of the pattern that was analyzed.
    ///
    /// # Errors
    ///
    /// [`Error::OtherSize`] and [`Error::PatternMismatch`] if it has another size or pattern;
    /// [`Error::NotFinite`]; [`Error::ZeroPivot`] if it is singular to rounding;
    /// [`Error::Overflow`]; [`Error::OutOfMemory`]; [`Error::Cancelled`]; those of the device.
    pub fn factorize(&self, a: &CsMat<T>) -> Result<Factors<T>, Error> {
        Factors::new(Arc::clone(&self.plan), a, &self.inform)
    }
}

impl<T> std::fmt::Debug for Analysis<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Analysis")
            .field("inform", &self.inform)
            .finish_non_exhaustive()
    }
}
