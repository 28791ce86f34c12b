//! Seconds of refactorizations and solves on a device.

use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use luge_device::{Buffer, Event, Stream};
use luge_frontal::gpu::{DeviceFrontalLu, DeviceTree, MemoryPlan, Placement};
use luge_sparse::{ColPerm, CompressedPattern, Permutation, PivotPolicy, RowPerm, Scaling};

use super::forests::Forest;
use super::groups::Timed;

/// The diagonals dominate: none is replaced.
const PIVOTS: PivotPolicy = PivotPolicy::replacing(1e-300).in_fronts(0.1);

/// A factorized matrix, to be factorized and solved with again.
pub struct Subject<'a> {
    stream: &'a Stream,
    on_host: Vec<f64>,
    values: Buffer<f64>,
    factors: DeviceFrontalLu<f64>,
    b: Buffer<f64>,
    x: Buffer<f64>,
    start: Event,
    end: Event,
}

impl<'a> Subject<'a> {
    /// Factorizes the matrix of a forest.
    ///
    /// # Errors
    ///
    /// Those of the analysis and of the device; if pivots were replaced.
    pub fn new(stream: &'a Stream, forest: &Forest) -> anyhow::Result<Self> {
        let (symbolic, on_host) = forest.symbolic()?;
        let n = symbolic.n();
        let entries: Vec<u32> = (0..on_host.len() as u32).collect();
        let placement = Placement {
            row_perm: &RowPerm(Permutation::identity(n)),
            col_perm: &ColPerm(Permutation::identity(n)),
            scaling: &Scaling::identity(n, n),
            entries: &entries,
            block_ptr: &[0, n],
            coupling: &Arc::new(CompressedPattern::new(n, vec![0; n + 1], Vec::new())?),
            coupling_entries: &[],
            conjugated: None,
        };
        let memory = MemoryPlan::new(&symbolic);
        let tree = Arc::new(DeviceTree::upload(
            stream, &symbolic, &memory, &placement, 1,
        )?);
        let values = stream.upload(&on_host)?;
        let (factors, quality) = DeviceFrontalLu::factorize(stream, &tree, &values, &PIVOTS)?;
        ensure!(quality.num_perturbed == 0, "pivots were replaced");
        let device = stream.device();
        Ok(Self {
            stream,
            on_host,
            values,
            factors,
            b: stream.upload(&vec![1.0; n])?,
            x: stream.upload(&vec![1.0; n])?,
            start: device.create_event()?,
            end: device.create_event()?,
        })
    }

    /// Seconds on the device's clock.
    ///
    /// # Errors
    ///
    /// Those of the device.
    pub fn seconds(&mut self, timed: Timed) -> anyhow::Result<f64> {
        match timed {
            Timed::Factorization => {
                self.stream.record(&self.start)?;
                self.factors
                    .begin_refactorize(self.stream, &self.values, &PIVOTS)?;
                self.stream.record(&self.end)?;
                ensure!(self.factors.report()?.is_some(), "the matrix changed");
            }
            Timed::Solve => {
                self.stream.copy(&mut self.x, &self.b)?;
                self.stream.record(&self.start)?;
                self.factors.solve(self.stream, &mut self.x, 1, false)?;
                self.stream.record(&self.end)?;
            }
        }
        Ok(f64::from(self.start.elapsed_ms(&self.end)?) * 1e-3)
    }

    /// Seconds of wall time from values and a right-hand side on the host to the solution there.
    ///
    /// # Errors
    ///
    /// Those of the device.
    pub fn call_seconds(&mut self) -> anyhow::Result<f64> {
        let mut x = vec![1.0; self.x.len()];
        let start = Instant::now();
        self.stream
            .copy_from_host(&mut self.values, &self.on_host)?;
        self.factors
            .refactorize(self.stream, &self.values, &PIVOTS)?;
        self.stream.copy_from_host(&mut self.x, &x)?;
        self.factors.solve(self.stream, &mut self.x, 1, false)?;
        self.stream.copy_to_host(&self.x, &mut x)?;
        let seconds = start.elapsed().as_secs_f64();
        ensure!(
            x.iter().all(|x| x.is_finite()),
            "the solution is not finite"
        );
        Ok(seconds)
    }
}
