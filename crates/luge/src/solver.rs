//! The solver and the analysis of a pattern.

use std::marker::PhantomData;
use std::sync::Arc;

use luge_ordering::{Matching, MethodUsed, OrderingOptions, order};
use luge_sparse::{CompressedPattern, FilledPattern, Levels, Scalar, to_u32};
use sprs::CsMat;

use crate::backend::{Backend, Limits};
use crate::chain::{AnyChain, Chain, Transform};
use crate::error::Error;
use crate::factors::Factors;
use crate::inform::{Inform, Seconds, Warning};
use crate::options::{FactorPrecision, Options};

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
    options: Options,
    backend: Backend,
}

/// What can be known of a matrix before its values are eliminated: permutations, scaling, filled
/// pattern and levels. Good for every matrix of the same pattern, though permutations and scaling
/// were chosen for the values that were analyzed.
pub struct Analysis<T> {
    pub(crate) shared: Arc<Shared>,
    inform: Inform,
    scalar: PhantomData<T>,
}

/// What an analysis and its factors have in common.
pub(crate) struct Shared {
    pub options: Options,
    pub limits: Limits,
    pub backend: Backend,
    /// The pattern that was analyzed, by rows.
    pub a_rows: CompressedPattern,
    pub chain: Arc<dyn AnyChain>,
    /// Normwise backward error to reach.
    pub target: f64,
}

impl Solver {
    /// Opens the backend that `options` ask for.
    ///
    /// # Errors
    ///
    /// [`Error::Device`] if a GPU was asked for and cannot be used.
    pub fn new(options: Options) -> Result<Self, Error> {
        let backend = Backend::open(&options)?;
        Ok(Self { options, backend })
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Orders and analyzes a square matrix; its values guide matching and scaling.
    ///
    /// # Errors
    ///
    /// [`Error::NotSquare`], [`Error::NotFinite`], [`Error::StructurallySingular`],
    /// [`Error::ZerosOnly`], [`Error::OutOfMemory`], [`Error::IndexOverflow`], [`Error::Cancelled`],
    /// and those of the device.
    pub fn analyze<T: Scalar>(&self, a: &CsMat<T>) -> Result<Analysis<T>, Error> {
        let n = a.rows();
        if a.cols() != n {
            return Err(Error::NotSquare {
                rows: n,
                cols: a.cols(),
            });
        }
        to_u32(n, "number of rows")?;
        let a = by_rows(a);
        let a_rows = pattern_of(&a);
        let limits = Limits {
            cancel: self.options.cancel.clone(),
            max_host_bytes: self.options.max_host_bytes,
        };
        let ordering_options = OrderingOptions {
            cancel: self.options.cancel.clone(),
            // The pivots are static, unless they turn out to be too small.
            matching: match self.options.ordering.matching {
                Matching::Auto => Matching::Always,
                chosen => chosen,
            },
            ..self.options.ordering.clone()
        };
        let ordering = {
            let _span = tracing::info_span!("ordering").entered();
            order(&a_rows, Some(&to_f64(a.data())), &ordering_options)?
        };
        let transform = Transform {
            row_perm: ordering.row_perm,
            col_perm: ordering.col_perm,
            scaling: Arc::new(ordering.scaling),
        };
        let single =
            self.options.precision == FactorPrecision::Single || size_of::<T>() == size_of::<f32>();
        let chain: Arc<dyn AnyChain> = if single {
            Chain::<f32>::analyze(&a_rows, transform, &self.backend, &limits)?
        } else {
            Chain::<f64>::analyze(&a_rows, transform, &self.backend, &limits)?
        };

        let description = self.backend.description();
        let mut inform = Inform {
            n,
            nnz: a.nnz(),
            num_blocks: ordering.block_ptr.len() - 1,
            seconds: Seconds {
                ordering: ordering.seconds.total,
                module_load: description.module_load_seconds,
                ..Seconds::default()
            },
            backend: description.backend,
            device: description.device,
            ordering: name_of(ordering.method_used).into(),
            matched: ordering.rows_matched,
            scaled: self.options.ordering.scaling,
            warnings: Vec::new(),
            ..Inform::default()
        };
        inform
            .warnings
            .extend(description.no_gpu.map(|reason| Warning::NoGpu { reason }));
        inform.describe_plan(chain.as_ref());
        Ok(Analysis {
            shared: Arc::new(Shared {
                target: self.options.target_backward_error.unwrap_or(
                    // An f32 solution cannot do better than its rounding.
                    if size_of::<T>() == size_of::<f32>() {
                        1e-6
                    } else {
                        1e-12
                    },
                ),
                options: self.options.clone(),
                limits,
                backend: self.backend.clone(),
                a_rows,
                chain,
            }),
            inform,
            scalar: PhantomData,
        })
    }
}

impl<T: Scalar> Analysis<T> {
    /// Sizes, times and the code path of the analysis.
    pub fn inform(&self) -> &Inform {
        &self.inform
    }

    /// The filled pattern of the permuted matrix B and the levels of its columns, as the backend
    /// found them. On a device they are copied to the host; on the CPU they are computed again.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], [`Error::Cancelled`], those of the device.
    pub fn structure(&self) -> Result<(FilledPattern, Levels), Error> {
        self.shared.chain.structure(&self.shared.limits)
    }

    /// Factorizes a matrix of the pattern that was analyzed.
    ///
    /// # Errors
    ///
    /// [`Error::NotSquare`] and [`Error::PatternMismatch`] if it has another pattern;
    /// [`Error::NotFinite`]; [`Error::ZeroPivot`] if it is singular to rounding;
    /// [`Error::Overflow`]; [`Error::OutOfMemory`]; [`Error::Cancelled`]; those of the device.
    pub fn factorize(&self, a: &CsMat<T>) -> Result<Factors<T>, Error> {
        Factors::new(Arc::clone(&self.shared), a, &self.inform)
    }
}

impl<T> std::fmt::Debug for Analysis<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Analysis")
            .field("inform", &self.inform)
            .finish_non_exhaustive()
    }
}

impl Inform {
    /// Takes over the sizes and times of an analyzed chain.
    pub(crate) fn describe_plan(&mut self, chain: &dyn AnyChain) {
        let report = chain.report();
        self.lnz = report.lnz;
        self.unz = report.unz;
        self.flops = report.flops;
        self.num_levels = report.num_levels;
        self.max_level_width = report.max_level_width;
        self.peak_host_bytes = self.peak_host_bytes.max(report.host_bytes);
        self.seconds.symbolic = report.symbolic_seconds;
        self.seconds.levelize = report.levelize_seconds;
        self.precision = chain.precision();
        self.code_path = report.code_path.clone();
    }
}

/// `a` stored by rows.
pub(crate) fn by_rows<T: Scalar>(a: &CsMat<T>) -> CsMat<T> {
    if a.is_csr() { a.clone() } else { a.to_csr() }
}

/// The pattern of a matrix stored by rows, whose dimensions fit 32 bits.
fn pattern_of<T>(a: &CsMat<T>) -> CompressedPattern {
    let ptr = a.indptr().raw_storage().iter().map(|&p| p as u64).collect();
    let idx = a.indices().iter().map(|&i| i as u32).collect();
    CompressedPattern::new(a.cols(), ptr, idx)
        .unwrap_or_else(|e| unreachable!("sprs keeps its matrices sorted and in range: {e}"))
}

pub(crate) fn to_f64<T: Scalar>(values: &[T]) -> Vec<f64> {
    values.iter().map(|&v| v.to_f64()).collect()
}

fn name_of(method: MethodUsed) -> &'static str {
    match method {
        MethodUsed::Amd => "AMD",
        MethodUsed::Colamd => "COLAMD",
        MethodUsed::NestedDissection => "nested dissection",
        MethodUsed::AmdAndNestedDissection => "AMD and nested dissection",
        MethodUsed::Natural => "natural",
        MethodUsed::User => "user",
    }
}
