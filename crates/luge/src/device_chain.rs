//! The device path: the filled pattern and levels of all of B, static pivots, one plan for many values.
//!
//! [`DeviceChain`] knows the permutations, the scaling and the plan of a device; the engines it makes
//! have the factors. Both are used through trait objects, so that what stands above is generic over
//! the type of A only.

use std::sync::Arc;
use std::time::Instant;

use luge_numeric::TinyPivots;
use luge_numeric::cpu::columns::{self, ColumnLu};
use luge_sparse::{CompressedPattern, FilledPattern, Levels, RowPerm};

use crate::backend::gpu::GpuBackend;
use crate::backend::{FactorScalar, Limits, NumericFactors, Plan, PlanReport};
use crate::determinant::Determinant;
use crate::engine::{Condition, Engine, FactorReport, Transform};
use crate::error::{Error, PhaseError};

/// See the module's page; `Self` hides the type of the factors.
pub(crate) trait AnyDeviceChain: Send + Sync {
    fn transform(&self) -> &Transform;

    fn report(&self) -> &PlanReport;

    /// `"f32"` or `"f64"`.
    fn precision(&self) -> &'static str;

    /// The filled pattern of B and its levels.
    fn structure(&self) -> Result<(FilledPattern, Levels), Error>;

    /// Factorizes A with the values `a` of its rows. `perturbation` relative to max|B| replaces tiny
    /// pivots, [`Perturbation::Default`] is √ε.
    fn factorize(
        self: Arc<Self>,
        a: &[f64],
        perturbation: Perturbation,
        limits: &Limits,
    ) -> Result<Box<dyn Engine>, Error>;

    /// Searches pivots by threshold partial pivoting, and analyzes B with its rows so permuted.
    fn search_pivots(
        self: Arc<Self>,
        a: &[f64],
        threshold: f64,
        backend: &GpuBackend,
        limits: &Limits,
    ) -> Result<SearchedPivots, Error>;
}

/// What becomes of tiny static pivots.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Perturbation {
    /// Replaced below √ε · max|B|.
    Default,
    /// Replaced below this times max|B|.
    Below(f64),
    /// Used as they are.
    Never,
}

/// The outcome of a search for pivots.
pub(crate) struct SearchedPivots {
    /// The chain to factorize with: the same one if no row had to move.
    pub chain: Arc<dyn AnyDeviceChain>,
    pub num_off_diagonal: usize,
    pub seconds: f64,
}

/// See the module's page.
pub(crate) struct DeviceChain<F> {
    transform: Transform,
    /// The pattern of B by rows.
    rows: CompressedPattern,
    /// Where in the rows of A each entry of B stands.
    source: Vec<u64>,
    plan: Box<dyn Plan<F>>,
}

struct DeviceEngine<F> {
    chain: Arc<DeviceChain<F>>,
    factors: Box<dyn NumericFactors<F>>,
    norm1: f64,
}

/// The rows of B and the place in A of each of their entries.
pub(crate) fn permuted_rows(
    a_rows: &CompressedPattern,
    transform: &Transform,
) -> (CompressedPattern, Vec<u64>) {
    let n = a_rows.major_dim();
    let new_col = transform.col_perm.inverse();
    let mut ptr = Vec::with_capacity(n + 1);
    ptr.push(0u64);
    let mut idx = Vec::with_capacity(a_rows.nnz());
    let mut source = Vec::with_capacity(a_rows.nnz());
    let mut row: Vec<(u32, u64)> = Vec::new();
    for &old in transform.row_perm.as_slice() {
        row.clear();
        row.extend(
            a_rows
                .range(old as usize)
                .map(|p| (new_col[a_rows.idx()[p] as usize], p as u64)),
        );
        row.sort_unstable();
        idx.extend(row.iter().map(|&(col, _)| col));
        source.extend(row.iter().map(|&(_, p)| p));
        ptr.push(idx.len() as u64);
    }
    let rows = CompressedPattern::new(n, ptr, idx)
        .unwrap_or_else(|e| unreachable!("a permuted pattern stays valid: {e}"));
    (rows, source)
}

impl<F: FactorScalar> DeviceChain<F> {
    /// Permutes the rows of A and analyzes the result.
    pub(crate) fn analyze(
        a_rows: &CompressedPattern,
        transform: Transform,
        backend: &GpuBackend,
        limits: &Limits,
    ) -> Result<Arc<Self>, Error> {
        let (rows, source) = permuted_rows(a_rows, &transform);
        Self::plan(rows, source, transform, backend, limits)
    }

    fn plan(
        rows: CompressedPattern,
        source: Vec<u64>,
        transform: Transform,
        backend: &GpuBackend,
        limits: &Limits,
    ) -> Result<Arc<Self>, Error> {
        let plan = F::plan_on_device(backend, &rows, limits)
            .map_err(|e| e.in_terms_of_a(transform.col_perm.as_slice()))?;
        Ok(Arc::new(Self {
            transform,
            rows,
            source,
            plan,
        }))
    }

    /// The values of B in the order of its rows.
    fn values(&self, a: &[f64]) -> Vec<F> {
        let mut values = Vec::with_capacity(self.source.len());
        let col_perm = self.transform.col_perm.as_slice();
        for (i, row) in self.rows.lanes().enumerate() {
            let old_row = self.transform.row_perm.as_slice()[i] as usize;
            for (&j, &source) in row.iter().zip(&self.source[self.rows.range(i)]) {
                let old_col = col_perm[j as usize] as usize;
                let scaled = self
                    .transform
                    .scaling
                    .apply(old_row, old_col, a[source as usize]);
                values.push(F::from_f64(scaled));
            }
        }
        values
    }

    fn in_terms_of_a(&self, error: PhaseError) -> Error {
        error.in_terms_of_a(self.transform.col_perm.as_slice())
    }
}

impl<F: FactorScalar> AnyDeviceChain for DeviceChain<F> {
    fn transform(&self) -> &Transform {
        &self.transform
    }

    fn report(&self) -> &PlanReport {
        self.plan.report()
    }

    fn precision(&self) -> &'static str {
        F::NAME
    }

    fn structure(&self) -> Result<(FilledPattern, Levels), Error> {
        self.plan.structure().map_err(|e| self.in_terms_of_a(e))
    }

    fn factorize(
        self: Arc<Self>,
        a: &[f64],
        perturbation: Perturbation,
        limits: &Limits,
    ) -> Result<Box<dyn Engine>, Error> {
        let _span = tracing::info_span!("numeric").entered();
        let tiny_pivots = match perturbation {
            Perturbation::Default => TinyPivots::perturb_default::<F>(),
            Perturbation::Below(threshold) => TinyPivots::Perturb { threshold },
            Perturbation::Never => TinyPivots::Keep,
        };
        let values = self.values(a);
        let mut column_sums = vec![0.0f64; self.rows.major_dim()];
        for (&j, value) in self.rows.idx().iter().zip(&values) {
            column_sums[j as usize] += value.abs().to_f64();
        }
        let factors = self
            .plan
            .factorize(&values, tiny_pivots, limits)
            .map_err(|e| self.in_terms_of_a(e))?;
        Ok(Box::new(DeviceEngine {
            chain: self,
            factors,
            norm1: column_sums.into_iter().fold(0.0, f64::max),
        }))
    }

    fn search_pivots(
        self: Arc<Self>,
        a: &[f64],
        threshold: f64,
        backend: &GpuBackend,
        limits: &Limits,
    ) -> Result<SearchedPivots, Error> {
        let _span = tracing::info_span!("pivot search").entered();
        let start = Instant::now();
        let by_rows = self.values(a);
        let (cols, map) = self.rows.transpose_with_map();
        let by_cols: Vec<F> = map.iter().map(|&p| by_rows[p as usize]).collect();
        let options = columns::Options {
            threshold,
            cancel: limits.cancel.clone(),
            max_bytes: limits.max_host_bytes,
            ..columns::Options::default()
        };
        let (found, quality) = ColumnLu::factorize(&cols, &by_cols, &options)
            .map_err(|e| self.in_terms_of_a(e.into()))?;
        let num_off_diagonal = quality.num_off_diagonal;
        let moved = found.row_perm().clone();
        drop(found);
        let chain: Arc<dyn AnyDeviceChain> = if num_off_diagonal == 0 {
            self
        } else {
            let transform = Transform {
                row_perm: RowPerm(self.transform.row_perm.then(&moved)),
                ..self.transform.clone()
            };
            let mut ptr = Vec::with_capacity(self.rows.ptr().len());
            ptr.push(0u64);
            let mut idx = Vec::with_capacity(self.rows.nnz());
            let mut source = Vec::with_capacity(self.rows.nnz());
            for &old in moved.as_slice() {
                let range = self.rows.range(old as usize);
                idx.extend_from_slice(&self.rows.idx()[range.clone()]);
                source.extend_from_slice(&self.source[range]);
                ptr.push(idx.len() as u64);
            }
            let rows = CompressedPattern::new(self.rows.minor_dim(), ptr, idx)
                .unwrap_or_else(|e| unreachable!("permuted rows stay valid: {e}"));
            Self::plan(rows, source, transform, backend, limits)?
        };
        Ok(SearchedPivots {
            chain,
            num_off_diagonal,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

impl<F: FactorScalar> DeviceEngine<F> {
    /// Solves with B, in `f64`, through the type of the factors.
    fn solve_permuted(&self, x: &mut [f64], transpose: bool) -> Result<(), Error> {
        let mut rounded: Vec<F> = x.iter().map(|&v| F::from_f64(v)).collect();
        self.factors
            .solve(&mut rounded, 1, transpose)
            .map_err(|e| self.chain.in_terms_of_a(e))?;
        x.iter_mut()
            .zip(rounded)
            .for_each(|(x, rounded)| *x = rounded.to_f64());
        Ok(())
    }
}

impl<F: FactorScalar> Engine for DeviceEngine<F> {
    fn report(&self) -> FactorReport {
        let pivots = self.factors.pivots();
        let old = |column: usize| self.chain.transform.col_perm.as_slice()[column] as usize;
        FactorReport {
            num_perturbed: pivots.num_perturbed,
            first_perturbed: pivots.first_perturbed.map(old),
            growth: pivots.growth,
            code_path: vec![self.factors.code_path()],
            device: self.factors.device_costs(),
            ..FactorReport::default()
        }
    }

    fn solve(&self, b: &[f64], nrhs: usize, transpose: bool) -> Result<Vec<f64>, Error> {
        let transform = &self.chain.transform;
        transform.around(&transform.row_perm, b, nrhs, transpose, |values| {
            self.factors
                .solve(values, nrhs, transpose)
                .map_err(|e| self.chain.in_terms_of_a(e))
        })
    }

    fn condition(&self, _a: &[f64]) -> Result<Condition, Error> {
        Condition::estimate::<F>(
            &self.chain.transform,
            || self.norm1,
            |x| self.solve_permuted(x, false),
            |x| self.solve_permuted(x, true),
        )
    }

    fn determinant(&self) -> Result<Determinant, Error> {
        let pivots = self
            .factors
            .diagonal()
            .map_err(|e| self.chain.in_terms_of_a(e))?;
        let transform = &self.chain.transform;
        let product = pivots.iter().fold(Determinant::ONE, |product, &pivot| {
            product.times(pivot.to_f64())
        });
        Ok(transform.undo_determinant(&transform.row_perm, product))
    }
}
