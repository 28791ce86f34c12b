//! The column engine of a device: the filled pattern and levels of all of B, static pivots, one plan for many values.
//!
//! [`ColumnAnalysis`] knows the permutations, the scaling and the plan of a device; the engines it makes have the
//! factors. New values come from the host and get factors of their own.

use std::sync::Arc;
use std::time::Instant;

use luge_device::Stream;
use luge_numeric::cpu::columns::{self, ColumnLu};
use luge_sparse::num_traits::Float;
use luge_sparse::{
    CompressedPattern, FilledPattern, Levels, PivotPolicy, RealScalar, RowPerm, Scalar,
};
use luge_symbolic::gpu::Report as SymbolicReport;

use crate::accuracy::of_growth;
use crate::backend::gpu::GpuBackend;
use crate::backend::{AnyColumnPlan, DeviceScalar, Limits, NumericFactors};
use crate::determinant::Determinant;
use crate::device_analysis::{
    AnyDeviceAnalysis, AnyDeviceEngine, BatchBytes, ResidentEngine, SearchedPivots,
};
use crate::engine::{self, Condition, Engine, FactorReport, Transform};
use crate::error::{Error, PhaseError};
use crate::inform::Inform;
use crate::permuted::permuted_rows;
use crate::shared::Shared;
use crate::stored::Rows;

/// The analysis for the column engine: permutations, scaling, and the plan on the device.
pub(crate) struct ColumnAnalysis<F> {
    transform: Transform,
    /// The pattern of B by rows.
    rows: CompressedPattern,
    /// Where each entry of B stands among those of A, as it is stored.
    source: Vec<u64>,
    plan: Box<dyn AnyColumnPlan<F>>,
}

struct ColumnEngine<F> {
    analysis: Arc<ColumnAnalysis<F>>,
    values: Values<F>,
    /// Those before the last refactorization, until it is kept.
    previous: Option<Values<F>>,
}

/// What belongs to one matrix.
struct Values<F> {
    factors: Box<dyn NumericFactors<F>>,
    /// ‖B‖₁.
    norm1: f64,
}

/// ε of the components of the type.
fn epsilon<F: Scalar>() -> f64 {
    <F::Real as Float>::epsilon().to_f64()
}

impl<F: DeviceScalar> ColumnAnalysis<F> {
    /// Permutes the rows of A and analyzes the result.
    pub(crate) fn analyze(
        a: &Rows<'_>,
        transform: Transform,
        backend: &GpuBackend,
        limits: &Limits,
    ) -> Result<Arc<Self>, Error> {
        let (rows, mut source) = permuted_rows(&a.pattern, &transform);
        if let Some(entries) = &a.entries {
            source.iter_mut().for_each(|p| *p = entries[*p as usize]);
        }
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
    fn values(&self, a: &[F::Wide]) -> Vec<F> {
        let mut values = Vec::with_capacity(self.source.len());
        let col_perm = self.transform.col_perm.as_slice();
        for (i, row) in self.rows.lines().enumerate() {
            let old_row = self.transform.row_perm.as_slice()[i] as usize;
            for (&j, &source) in row.iter().zip(&self.source[self.rows.range(i)]) {
                let old_col = col_perm[j as usize] as usize;
                let scaled = self
                    .transform
                    .scaling
                    .apply(old_row, old_col, a[source as usize]);
                values.push(F::narrow(scaled));
            }
        }
        values
    }

    /// Factorizes the values `a` of A in stored order.
    fn numeric(
        &self,
        a: &[F::Wide],
        pivots: PivotPolicy,
        limits: &Limits,
    ) -> Result<Values<F>, Error> {
        let _span = tracing::info_span!("numeric").entered();
        let values = self.values(a);
        let mut column_sums = vec![0.0f64; self.rows.major_dim()];
        for (&j, value) in self.rows.idx().iter().zip(&values) {
            column_sums[j as usize] += value.magnitude().to_f64();
        }
        let factors = self
            .plan
            .factorize(&values, pivots, limits)
            .map_err(|e| self.in_terms_of_a(e))?;
        Ok(Values {
            factors,
            norm1: column_sums.into_iter().fold(0.0, f64::max),
        })
    }

    fn in_terms_of_a(&self, error: PhaseError) -> Error {
        error.in_terms_of_a(self.transform.col_perm.as_slice())
    }
}

impl<F: DeviceScalar> AnyDeviceAnalysis<F::Wide> for ColumnAnalysis<F> {
    fn transform(&self) -> &Transform {
        &self.transform
    }

    fn describe(&self, inform: &mut Inform) {
        let report = self.plan.report();
        inform.lnz = report.lnz;
        inform.unz = report.unz;
        inform.flops = report.flops;
        inform.num_supernodes = Some(report.num_supernodes);
        inform.num_levels = Some(report.num_levels);
        inform.max_level_width = Some(report.max_level_width);
        inform.peak_host_bytes = inform.peak_host_bytes.max(report.host_bytes);
        inform.seconds.symbolic = report.symbolic_seconds;
        inform.seconds.supernode = Some(report.supernode_seconds);
        inform.seconds.levelize = Some(report.levelize_seconds);
        inform.precision = F::NAME;
        inform.spilled_bytes = Some(match &report.symbolic {
            SymbolicReport::Panels(_) => 0,
            SymbolicReport::Fill2(fill2) => fill2.pool.spilled_bytes,
        });
        inform.symbolic = Some(report.symbolic.clone());
        inform.columns = Some(report.columns);
        inform.code_path = report.code_path.clone();
    }

    fn predicted_speedup(&self, _devices: usize) -> Option<f64> {
        None
    }

    fn structure(&self, _shared: &Shared) -> Result<(FilledPattern, Levels), Error> {
        self.plan.structure().map_err(|e| self.in_terms_of_a(e))
    }

    fn factorize(
        self: Arc<Self>,
        a: &[F::Wide],
        pivots: PivotPolicy,
        limits: &Limits,
    ) -> Result<Box<dyn AnyDeviceEngine<F::Wide>>, Error> {
        let values = self.numeric(a, pivots, limits)?;
        Ok(Box::new(ColumnEngine {
            analysis: self,
            values,
            previous: None,
        }))
    }

    fn on_stream(
        self: Arc<Self>,
        _stream: &Stream,
    ) -> Result<Option<Arc<dyn AnyDeviceAnalysis<F::Wide>>>, Error> {
        Ok(None)
    }

    fn on_device(
        &self,
        _backend: &GpuBackend,
    ) -> Result<Option<Arc<dyn AnyDeviceAnalysis<F::Wide>>>, Error> {
        Ok(None)
    }

    fn searches_pivots(&self) -> bool {
        false
    }

    fn batch_bytes(&self) -> Result<Option<BatchBytes>, Error> {
        Ok(None)
    }

    fn search_pivots(
        self: Arc<Self>,
        a: &[F::Wide],
        pivots: PivotPolicy,
        backend: &GpuBackend,
        limits: &Limits,
    ) -> Result<SearchedPivots<F::Wide>, Error> {
        let _span = tracing::info_span!("pivot search").entered();
        let start = Instant::now();
        let by_rows = self.values(a);
        let (cols, map) = self.rows.transpose_with_map();
        let by_cols: Vec<F> = map.iter().map(|&p| by_rows[p as usize]).collect();
        let options = columns::Options {
            pivots,
            cancel: limits.cancel.clone(),
            max_bytes: limits.max_host_bytes,
            ..columns::Options::default()
        };
        let (found, quality) = ColumnLu::factorize(&cols, &by_cols, &options)
            .map_err(|e| self.in_terms_of_a(e.into()))?;
        let num_off_diagonal = quality.num_off_diagonal;
        let moved = found.row_perm().clone();
        drop(found);
        let analysis: Arc<dyn AnyDeviceAnalysis<F::Wide>> = if num_off_diagonal == 0 {
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
            analysis,
            num_off_diagonal,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

impl<F: DeviceScalar> Engine<F::Wide> for ColumnEngine<F> {
    fn report(&self) -> FactorReport {
        let pivots = self.values.factors.pivots();
        let old = |column: usize| self.analysis.transform.col_perm.as_slice()[column] as usize;
        FactorReport {
            num_perturbed: pivots.num_perturbed,
            first_perturbed: pivots.first_perturbed.map(old),
            // What the growth is if no entry of L exceeds 1: the columns do not measure L.
            growth: pivots.element_growth,
            product: pivots.element_growth * self.values.norm1,
            error: of_growth(epsilon::<F>(), pivots.element_growth),
            largest: self.values.norm1,
            epsilon: epsilon::<F>(),
            code_path: vec![self.values.factors.code_path()],
            device: self.values.factors.device_costs(),
            ..FactorReport::default()
        }
    }

    fn solve(&self, b: &[F::Wide], nrhs: usize, transpose: bool) -> Result<Vec<F::Wide>, Error> {
        let transform = &self.analysis.transform;
        transform.around(&transform.row_perm, b, nrhs, transpose, |values| {
            self.values
                .factors
                .solve(values, nrhs, transpose)
                .map_err(|e| self.analysis.in_terms_of_a(e))
        })
    }

    fn solve_permuted(&self, x: &mut [F::Wide], transpose: bool) -> Result<(), Error> {
        let mut rounded: Vec<F> = x.iter().map(|&v| F::narrow(v)).collect();
        self.values
            .factors
            .solve(&mut rounded, 1, transpose)
            .map_err(|e| self.analysis.in_terms_of_a(e))?;
        x.iter_mut()
            .zip(rounded)
            .for_each(|(x, rounded)| *x = rounded.widen());
        Ok(())
    }

    fn of_factors(&self) -> (&Transform, &RowPerm) {
        let transform = &self.analysis.transform;
        (transform, &transform.row_perm)
    }

    fn screen(&self) -> Result<f64, Error> {
        let n = self.analysis.rows.major_dim();
        engine::screen(n, self.values.norm1, |x: &mut [F::Wide]| {
            self.solve_permuted(x, false)
        })
    }

    fn condition(&self, _a: &[F::Wide]) -> Result<Condition, Error> {
        let transform = &self.analysis.transform;
        Condition::estimate(
            transform,
            |at| transform.col_perm.as_slice()[at] as usize,
            epsilon::<F>(),
            || self.values.norm1,
            |x: &mut [F::Wide]| self.solve_permuted(x, false),
            |x| self.solve_permuted(x, true),
        )
    }

    fn determinant(&self) -> Result<Determinant<F::Wide>, Error> {
        let pivots = self
            .values
            .factors
            .diagonal()
            .map_err(|e| self.analysis.in_terms_of_a(e))?;
        let transform = &self.analysis.transform;
        let product = pivots.iter().fold(Determinant::one(), |product, &pivot| {
            product.times(pivot.widen())
        });
        Ok(transform.undo_determinant(&transform.row_perm, product))
    }
}

impl<F: DeviceScalar> AnyDeviceEngine<F::Wide> for ColumnEngine<F> {
    fn refactorize(
        &mut self,
        a: &[F::Wide],
        pivots: PivotPolicy,
        limits: &Limits,
    ) -> Result<(), Error> {
        let renewed = self.analysis.numeric(a, pivots, limits)?;
        self.previous = Some(std::mem::replace(&mut self.values, renewed));
        Ok(())
    }

    fn keep(&mut self) {
        self.previous = None;
    }

    fn restore(&mut self) -> Result<(), Error> {
        if let Some(previous) = self.previous.take() {
            self.values = previous;
        }
        Ok(())
    }

    fn resident(&self) -> Option<&dyn ResidentEngine<F::Wide>> {
        None
    }

    fn resident_mut(&mut self) -> Option<&mut dyn ResidentEngine<F::Wide>> {
        None
    }
}
