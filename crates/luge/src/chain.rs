//! The chain from A to the factors of B = P·Dr·A·Dc·Q, with the type of the factors hidden.
//!
//! [`Chain`] knows the permutations, the scaling and the plan of a backend; [`Engine`] has the
//! factors and solves with A itself, in `f64`. Both are used through trait objects, so that what
//! stands above is generic over the type of A only.

use std::sync::Arc;
use std::time::Instant;

use luge_numeric::cpu::threshold;
use luge_numeric::{PivotReport, TinyPivots};
use luge_solve::condition::inverse_norm1;
use luge_solve::scaled;
use luge_sparse::{ColPerm, CompressedPattern, FilledPattern, Levels, RowPerm, Scaling};

use crate::backend::{
    Backend, DeviceCosts, FactorScalar, Limits, NumericFactors, Plan, PlanReport,
};
use crate::error::{Error, PhaseError};

/// Permutations and scaling of one B.
#[derive(Debug, Clone)]
pub(crate) struct Transform {
    pub row_perm: RowPerm,
    pub col_perm: ColPerm,
    pub scaling: Arc<Scaling>,
}

/// See the module's page; `Self` hides the type of the factors.
pub(crate) trait AnyChain: Send + Sync {
    fn report(&self) -> &PlanReport;

    /// `"f32"` or `"f64"`.
    fn precision(&self) -> &'static str;

    /// The filled pattern of B and its levels.
    fn structure(&self, limits: &Limits) -> Result<(FilledPattern, Levels), Error>;

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
        backend: &Backend,
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
    pub chain: Arc<dyn AnyChain>,
    pub num_off_diagonal: usize,
    pub seconds: f64,
}

/// Factors that solve with A.
pub(crate) trait Engine: Send + Sync {
    fn pivots(&self) -> &PivotReport;

    /// First perturbed pivot as a column of A.
    fn first_perturbed(&self) -> Option<usize>;

    fn code_path(&self) -> &'static str;

    fn host_bytes(&self) -> u64;

    fn device_costs(&self) -> DeviceCosts;

    /// Solves A·X = B or Aᵀ·X = B for `nrhs` right-hand sides one after another, without refinement.
    fn solve(&self, b: &[f64], nrhs: usize, transpose: bool) -> Result<Vec<f64>, Error>;

    /// Estimate of 1/(‖B‖₁·‖B⁻¹‖₁).
    fn condition(&self) -> Result<Condition, Error>;
}

/// How far B is from singular.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    /// 1/(‖B‖₁·‖B⁻¹‖₁), estimated from above.
    pub rcond: f64,
    /// The column of A that takes part most in what is nearly a dependence.
    pub column: usize,
    /// ε of the type of the factors.
    pub epsilon: f64,
}

/// See the module's page.
pub(crate) struct Chain<F> {
    transform: Transform,
    /// The pattern of B by rows.
    rows: CompressedPattern,
    /// Where in the rows of A each entry of B stands.
    source: Vec<u64>,
    plan: Box<dyn Plan<F>>,
}

struct ChainEngine<F> {
    chain: Arc<Chain<F>>,
    factors: Box<dyn NumericFactors<F>>,
    norm1: f64,
}

/// The rows of B and the place in A of each of their entries.
fn permute(a_rows: &CompressedPattern, transform: &Transform) -> (CompressedPattern, Vec<u64>) {
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

impl<F: FactorScalar> Chain<F> {
    /// Permutes the rows of A and analyzes the result.
    pub(crate) fn analyze(
        a_rows: &CompressedPattern,
        transform: Transform,
        backend: &Backend,
        limits: &Limits,
    ) -> Result<Arc<Self>, Error> {
        let (rows, source) = permute(a_rows, &transform);
        Self::plan(rows, source, transform, backend, limits)
    }

    fn plan(
        rows: CompressedPattern,
        source: Vec<u64>,
        transform: Transform,
        backend: &Backend,
        limits: &Limits,
    ) -> Result<Arc<Self>, Error> {
        let plan = backend
            .plan(&rows, limits)
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

impl<F: FactorScalar> AnyChain for Chain<F> {
    fn report(&self) -> &PlanReport {
        self.plan.report()
    }

    fn precision(&self) -> &'static str {
        F::NAME
    }

    fn structure(&self, limits: &Limits) -> Result<(FilledPattern, Levels), Error> {
        self.plan
            .structure(&self.rows, limits)
            .map_err(|e| self.in_terms_of_a(e))
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
        Ok(Box::new(ChainEngine {
            chain: self,
            factors,
            norm1: column_sums.into_iter().fold(0.0, f64::max),
        }))
    }

    fn search_pivots(
        self: Arc<Self>,
        a: &[f64],
        threshold: f64,
        backend: &Backend,
        limits: &Limits,
    ) -> Result<SearchedPivots, Error> {
        let _span = tracing::info_span!("pivot search").entered();
        let start = Instant::now();
        let by_rows = self.values(a);
        let (cols, map) = self.rows.transpose_with_map();
        let by_cols: Vec<F> = map.iter().map(|&p| by_rows[p as usize]).collect();
        let options = threshold::Options {
            threshold,
            cancel: limits.cancel.clone(),
            max_bytes: limits.max_host_bytes,
            ..threshold::Options::default()
        };
        let found = threshold::factorize(&cols, &by_cols, &options)
            .map_err(|e| self.in_terms_of_a(e.into()))?;
        let num_off_diagonal = found.values.pivots.num_off_diagonal;
        let chain: Arc<dyn AnyChain> = if num_off_diagonal == 0 {
            self
        } else {
            let transform = Transform {
                row_perm: RowPerm(self.transform.row_perm.then(&found.row_perm)),
                ..self.transform.clone()
            };
            let mut ptr = Vec::with_capacity(self.rows.ptr().len());
            ptr.push(0u64);
            let mut idx = Vec::with_capacity(self.rows.nnz());
            let mut source = Vec::with_capacity(self.rows.nnz());
            for &old in found.row_perm.as_slice() {
                let range = self.rows.range(old as usize);
                idx.extend_from_slice(&self.rows.idx()[range.clone()]);
                source.extend_from_slice(&self.source[range]);
                ptr.push(idx.len() as u64);
            }
            drop(found);
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

impl<F: FactorScalar> ChainEngine<F> {
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

impl<F: FactorScalar> Engine for ChainEngine<F> {
    fn pivots(&self) -> &PivotReport {
        self.factors.pivots()
    }

    fn first_perturbed(&self) -> Option<usize> {
        let col_perm = self.chain.transform.col_perm.as_slice();
        let first = self.pivots().first_perturbed?;
        Some(col_perm[first] as usize)
    }

    fn code_path(&self) -> &'static str {
        self.factors.code_path()
    }

    fn host_bytes(&self) -> u64 {
        self.factors.host_bytes()
    }

    fn device_costs(&self) -> DeviceCosts {
        self.factors.device_costs()
    }

    fn solve(&self, b: &[f64], nrhs: usize, transpose: bool) -> Result<Vec<f64>, Error> {
        let Transform {
            row_perm,
            col_perm,
            scaling,
        } = &self.chain.transform;
        let n = row_perm.len();
        let mut values: Vec<F> = Vec::with_capacity(b.len());
        let mut exponents = Vec::with_capacity(nrhs);
        for b in b.chunks_exact(n.max(1)) {
            let c: scaled::Normalized<F> = if transpose {
                scaled::enter_cols(col_perm, scaling, b)
            } else {
                scaled::enter_rows(row_perm, scaling, b)
            };
            values.extend(c.values);
            exponents.push(c.exponent);
        }
        self.factors
            .solve(&mut values, nrhs, transpose)
            .map_err(|e| self.chain.in_terms_of_a(e))?;
        let mut x = Vec::with_capacity(b.len());
        for (values, exponent) in values.chunks_exact(n.max(1)).zip(exponents) {
            let y = scaled::Normalized {
                values: values.to_vec(),
                exponent,
            };
            x.extend(if transpose {
                scaled::leave_rows(row_perm, scaling, &y)
            } else {
                scaled::leave_cols(col_perm, scaling, &y)
            });
        }
        Ok(x)
    }

    fn condition(&self) -> Result<Condition, Error> {
        let n = self.chain.rows.major_dim();
        let epsilon = F::epsilon().to_f64();
        if n == 0 {
            return Ok(Condition {
                rcond: 1.0,
                column: 0,
                epsilon,
            });
        }
        let inverse = inverse_norm1(
            n,
            |x| self.solve_permuted(x, false),
            |x| self.solve_permuted(x, true),
        )?;
        Ok(Condition {
            rcond: 1.0 / (self.norm1 * inverse.norm1),
            column: self.chain.transform.col_perm.as_slice()[inverse.largest] as usize,
            epsilon,
        })
    }
}
