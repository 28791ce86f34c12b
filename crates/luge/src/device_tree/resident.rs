//! What engines of the tree do with data that is on the device.

use super::{Looks, Previous, TreeAnalysis, TreeEngine};
use crate::device_analysis::{
    Entered, Measured, NewValues, ResidentEngine, Search, System, fetched,
};
use crate::device_scratch::{Known, known, lock, numbers_mut, numbers_of};
use crate::engine::Condition;
use crate::error::Error;
use crate::probe::{is_above, worst_row};
use crate::shared::Shared;
use crate::symmetry::are_apart;
use crate::tree_factors::TreeFactors;
use luge_device::{Buffer, DeviceError, Slice};
use luge_frontal::gpu::DeviceCheck;
use luge_solve::backward_error::Residual;
use luge_solve::gpu::{self as solve_gpu, Measures, Refined};
use luge_solve::refine;
use luge_sparse::{PivotPolicy, Scalar};

impl<L: TreeFactors> ResidentEngine<L::Wide> for TreeEngine<L> {
    fn refactorize_resident(
        &mut self,
        a: NewValues<'_, L::Wide>,
        pivots: PivotPolicy,
        measured: Measured<'_>,
    ) -> Result<Option<Measures>, Error> {
        let Measured {
            is_checked,
            probed,
            across,
        } = measured;
        let pattern = probed.map(|shared| self.pattern(shared, false));
        let pattern = pattern.transpose()?;
        let mirror = match across {
            Some(symmetry) => {
                let TreeAnalysis {
                    patterns, stream, ..
                } = &*self.analysis;
                patterns.mirror::<L::Wide>(stream, symmetry)?
            }
            None => None,
        };
        let mut spare = self.take_spare()?;
        let stream = &self.analysis.stream;
        let threads = &self.analysis.threads;
        let entered = a.enter::<L::Value>(stream, threads, &self.values, &mut spare);
        let Entered { check, changed } = entered.map_err(|e| Error::from_device(e, "numeric"))?;
        self.spare = Some(std::mem::replace(&mut self.values, spare));
        let scale = self.factors().scale();
        self.previous = Some(Previous {
            pivots: self.pivots,
            quality: self.quality,
            scale,
            factors: None,
        });
        self.pivots = pivots;
        let looks = Looks {
            is_checked,
            probed: pattern.as_deref(),
            mirror: mirror.as_deref(),
        };
        self.renew(changed, looks, check)
    }

    fn probe(&self, shared: &Shared) -> Result<Measures, Error> {
        let pattern = self.pattern(shared, false)?;
        let stream = &self.analysis.stream;
        let mut factors = self.factors();
        let mut slot = lock(&self.scratch.known);
        let known = known(&mut slot, stream, &pattern)?;
        known.enqueue(stream, self.matrix(&pattern), |x| {
            factors.solve(stream, x, 1, false)
        })?;
        known.measures()
    }

    fn refine_probe(
        &self,
        shared: &Shared,
        options: &refine::Options,
    ) -> Result<(Refined, Option<usize>), Error> {
        let pattern = self.pattern(shared, false)?;
        let stream = &self.analysis.stream;
        let mut factors = self.factors();
        let mut slot = lock(&self.scratch.known);
        let Known { x, b, .. } = known(&mut slot, stream, &pattern)?;
        let solve = |x: &mut Buffer<L::Wide>| factors.solve(stream, x, 1, false);
        let matrix = self.matrix(&pattern);
        let refined = solve_gpu::refine(stream, matrix, b, x, 1, solve, options)?[0];
        if !is_above(refined.measures.normwise(), options.target) {
            return Ok((refined, None));
        }
        let fetched = |numbers| stream.download(numbers);
        let in_probe = |e| Error::from_device(e, "solve");
        let (values, _) = shared.accepted(self.download_values()?.into(), 1)?;
        let (x, b) = (fetched(x).map_err(in_probe)?, fetched(b).map_err(in_probe)?);
        let residual = Residual::new(shared.view(&values), &x, &b);
        Ok((refined, Some(worst_row(&residual, &b))))
    }

    fn upload(&self, numbers: &[L::Wide]) -> Result<Buffer<f64>, DeviceError> {
        let mut there = self.alloc(numbers.len())?;
        let TreeAnalysis {
            stream, threads, ..
        } = &*self.analysis;
        threads.copy_from_host(stream, &mut numbers_mut(&mut there), numbers)?;
        Ok(there)
    }

    fn alloc(&self, len: usize) -> Result<Buffer<f64>, DeviceError> {
        self.analysis
            .stream
            .alloc(len * <L::Wide as Scalar>::COMPONENTS)
    }

    fn copy_from_host(&self, to: &mut Buffer<f64>, numbers: &[L::Wide]) -> Result<(), DeviceError> {
        let stream = &self.analysis.stream;
        stream.copy_from_host(&mut numbers_mut(to), numbers)
    }

    fn download(&self, numbers: Slice<'_, f64>) -> Result<Vec<L::Wide>, DeviceError> {
        fetched(&self.analysis.stream, &numbers.into_elements())
    }

    fn copy_to_host(&self, numbers: &Buffer<f64>, to: &mut [L::Wide]) -> Result<(), DeviceError> {
        let stream = &self.analysis.stream;
        stream.copy_to_host(&numbers_of(numbers), to)
    }

    fn begin_solve(
        &self,
        x: &mut Buffer<f64>,
        nrhs: usize,
        transpose: bool,
    ) -> Result<Search, Error> {
        let stream = &self.analysis.stream;
        let mut x = numbers_mut::<L::Wide>(x);
        self.factors().solve(stream, &mut x, nrhs, transpose)?;
        let n = self.analysis.forest.symbolic.n();
        Search::begin(&self.scratch.idle, stream, &x, n)
    }

    fn solve_refined(
        &self,
        system: System<'_>,
        b: &Buffer<f64>,
        x: &mut Buffer<f64>,
        options: &refine::Options,
    ) -> Result<Vec<Refined>, Error> {
        let System {
            shared,
            nrhs,
            transpose,
        } = system;
        let pattern = self.pattern(shared, transpose)?;
        let stream = &self.analysis.stream;
        let mut factors = self.factors();
        let (b, mut x) = (numbers_of::<L::Wide>(b), numbers_mut::<L::Wide>(x));
        let copied = stream.copy(&mut x, &b);
        copied.map_err(|e| Error::from_device(e, "solve"))?;
        factors.solve(stream, &mut x, nrhs, transpose)?;
        let solve = |x: &mut Buffer<L::Wide>| factors.solve(stream, x, nrhs, transpose);
        let matrix = self.matrix(&pattern);
        solve_gpu::refine(stream, matrix, &b, &mut x, nrhs, solve, options)
    }

    fn measure(
        &self,
        system: System<'_>,
        b: &Buffer<f64>,
        x: &Buffer<f64>,
    ) -> Result<Vec<Measures>, Error> {
        let pattern = self.pattern(system.shared, system.transpose)?;
        let stream = &self.analysis.stream;
        let (b, x) = (numbers_of::<L::Wide>(b), numbers_of::<L::Wide>(x));
        let residual = stream.alloc::<L::Wide>(b.len());
        let mut residual = residual.map_err(|e| Error::from_device(e, "solve"))?;
        let matrix = self.matrix(&pattern);
        Ok(solve_gpu::residuals(
            stream,
            matrix,
            &x,
            &b,
            &mut residual,
            system.nrhs,
        )?)
    }

    fn condition_of_values(&self) -> Result<Condition, Error> {
        self.condition_with(&self.download_values()?)
    }

    fn refactorized_part(&self) -> f64 {
        self.factors().refactorized_part()
    }

    fn pivot_range(&self) -> Option<[f64; 2]> {
        self.quality.pivot_range
    }

    fn has_checks(&self) -> bool {
        self.factors().has_checks()
    }

    fn check(&self) -> Option<DeviceCheck> {
        self.quality.check
    }

    fn is_apart(&self) -> bool {
        self.quality.across.is_some_and(are_apart)
    }

    fn download_values(&self) -> Result<Vec<L::Wide>, Error> {
        self.analysis
            .stream
            .download(&self.values)
            .map_err(|e| Error::from_device(e, "numeric"))
    }
}
