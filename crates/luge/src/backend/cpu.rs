//! The phases on the CPU.

use std::sync::Arc;
use std::time::Instant;

use luge_numeric::cpu::static_pivoting;
use luge_numeric::{LuPattern, LuValues, PivotReport, TinyPivots};
use luge_sparse::{CompressedPattern, FilledPattern, Levels, Scalar};

use super::{Description, DeviceCosts, Limits, NumericFactors, Plan, PlanReport};
use crate::error::PhaseError;

#[derive(Debug, Clone)]
pub(crate) struct CpuBackend {
    /// Why `Auto` ended up here.
    pub no_gpu: Option<String>,
}

struct CpuPlan {
    pattern: Arc<LuPattern>,
    /// Place of each entry of B among the values of L+U.
    positions: Vec<u64>,
    report: PlanReport,
}

struct CpuFactors<F> {
    pattern: Arc<LuPattern>,
    lu: LuValues<F>,
}

fn filled_pattern(rows: &CompressedPattern, limits: &Limits) -> Result<FilledPattern, PhaseError> {
    let options = luge_symbolic::cpu::Options {
        cancel: limits.cancel.clone(),
        max_bytes: limits.max_host_bytes,
        ..luge_symbolic::cpu::Options::default()
    };
    Ok(luge_symbolic::cpu::filled_pattern_with(rows, &options)?)
}

impl CpuBackend {
    pub(crate) fn description(&self) -> Description {
        Description {
            backend: "cpu",
            device: "CPU, 1 thread".into(),
            module_load_seconds: None,
            no_gpu: self.no_gpu.clone(),
        }
    }

    pub(crate) fn plan<F: Scalar>(
        &self,
        rows: &CompressedPattern,
        limits: &Limits,
    ) -> Result<Box<dyn Plan<F>>, PhaseError> {
        let start = Instant::now();
        let filled = filled_pattern(rows, limits)?;
        let symbolic_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let levels = luge_levelize::cpu::levels_cancellable(&filled, &limits.cancel)?;
        let levelize_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let (lnz, unz) = (filled.lnz() as u64, filled.unz() as u64);
        let flops = filled.flops();
        let pattern = Arc::new(LuPattern::new(&filled));
        let positions = pattern.positions_of(rows);
        let n = rows.major_dim() as u64;
        Ok(Box::new(CpuPlan {
            report: PlanReport {
                lnz,
                unz,
                flops,
                num_levels: levels.num_levels(),
                max_level_width: levels.max_width(),
                // Two patterns of L+U while one is transposed into the other, and the positions.
                host_bytes: 8 * (lnz + unz) + 32 * n + 8 * positions.len() as u64,
                // The layout of L+U is part of the symbolic phase.
                symbolic_seconds: symbolic_seconds + start.elapsed().as_secs_f64(),
                levelize_seconds,
                code_path: vec!["symbolic: pruned row reach", "levelize: row sweep"],
            },
            pattern,
            positions,
        }))
    }
}

impl<F: Scalar> Plan<F> for CpuPlan {
    fn report(&self) -> &PlanReport {
        &self.report
    }

    fn structure(
        &self,
        rows: &CompressedPattern,
        limits: &Limits,
    ) -> Result<(FilledPattern, Levels), PhaseError> {
        // The plan keeps columns only; who asks for rows and levels pays for finding them again.
        let filled = filled_pattern(rows, limits)?;
        let levels = luge_levelize::cpu::levels_cancellable(&filled, &limits.cancel)?;
        Ok((filled, levels))
    }

    fn factorize(
        &self,
        b: &[F],
        tiny_pivots: TinyPivots,
        limits: &Limits,
    ) -> Result<Box<dyn NumericFactors<F>>, PhaseError> {
        let lu = static_pivoting::factorize(
            &self.pattern,
            &self.positions,
            b,
            tiny_pivots,
            &limits.cancel,
        )?;
        Ok(Box::new(CpuFactors {
            pattern: Arc::clone(&self.pattern),
            lu,
        }))
    }
}

impl<F: Scalar> NumericFactors<F> for CpuFactors<F> {
    fn pivots(&self) -> &PivotReport {
        &self.lu.pivots
    }

    fn code_path(&self) -> &'static str {
        "numeric: left-looking columns"
    }

    fn host_bytes(&self) -> u64 {
        (self.lu.values.len() * (size_of::<F>() + size_of::<u32>())) as u64
    }

    fn device_costs(&self) -> DeviceCosts {
        DeviceCosts::default()
    }

    fn solve(&self, x: &mut [F], nrhs: usize, transpose: bool) -> Result<(), PhaseError> {
        if transpose {
            luge_solve::cpu::solve_transpose(&self.pattern, &self.lu.values, x, nrhs);
        } else {
            luge_solve::cpu::solve(&self.pattern, &self.lu.values, x, nrhs);
        }
        Ok(())
    }
}
