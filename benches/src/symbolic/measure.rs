//! Runs and times the modes.

use std::fmt;
use std::time::Instant;

use clap::ValueEnum;
use luge_device::{Backend, DeviceError, LaunchConfig, Stream};
use luge_gpu_kernels::memory::{AHEAD, read_words};
use luge_sparse::{CompressedPattern, FilledPattern};
use luge_supernode as supernode;
use luge_symbolic::SymbolicError;
use luge_symbolic::gpu::{
    DeviceFilled, Fill2Options, Fill2Report, PanelOptions, Parallelism, Stages, fill2, panels,
    smallest_budget,
};
use serde::Serialize;

use super::results::{Ceilings, Fill2, Panels, Supernodes};
use crate::statistics::Samples;

/// Bytes of the buffers that no cache holds.
const LARGE: usize = 1 << 30;

/// Bytes that the second-level cache of any data-centre device holds.
const CACHED: usize = 16 << 20;

/// How often everything is run.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Samples of which the median is taken, of the automatic mode and of supernodes.
    pub samples: usize,
    /// Runs of the traversal, and runs whose result is compared.
    pub repetitions: usize,
    /// Seconds from which on a traversal is run once.
    pub long: f64,
}

/// The item whose number is the median, and all numbers in their order.
fn median<T>(mut items: Vec<(f64, T)>) -> (f64, T, Samples) {
    let samples = Samples::new(items.iter().map(|(seconds, _)| *seconds).collect());
    items.sort_by(|a, b| a.0.total_cmp(&b.0));
    let middle = items.len() / 2;
    let (seconds, item) = items.swap_remove(middle);
    (seconds, item, samples)
}

/// Seconds of the fastest of some launches, by the host's clock.
pub(crate) fn fastest(
    stream: &Stream,
    mut launch: impl FnMut() -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let mut least = f64::MAX;
    for _ in 0..6 {
        stream.synchronize()?;
        let start = Instant::now();
        launch()?;
        stream.synchronize()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}

/// Measures what the device's memory gives. On the simulator, whose figures mean nothing, with next to no work.
///
/// # Errors
///
/// Those of the device.
pub fn ceilings(stream: &Stream) -> Result<Ceilings, DeviceError> {
    let properties = stream.device().properties().clone();
    let (large, cached, blocks, rounds) = match properties.backend {
        Backend::Cuda => (LARGE, CACHED, 8 * properties.num_sms, 512),
        Backend::Simulator => (1 << 16, 1 << 12, 1, 1),
    };
    let mut from = stream.alloc_zeroed::<u32>(large / 4)?;
    let mut to = stream.alloc::<u32>(large / 4)?;
    let copy = fastest(stream, || stream.copy(&mut to, &from))?;
    drop(to);
    let config = LaunchConfig::linear(blocks, 256);
    let threads = 256 * blocks as usize;
    let mut sums = stream.alloc::<u32>(threads)?;
    let mut cached = stream.alloc_zeroed::<u32>(cached / 4)?;
    let reads = (threads * AHEAD * rounds as usize) as f64;
    let mut read = |words: &mut luge_device::Buffer<u32>, scattered: bool| {
        // SAFETY: there is a sum for each thread.
        fastest(stream, || unsafe {
            read_words::launch(stream, &config, scattered.into(), rounds, words, &mut sums)
        })
    };
    Ok(Ceilings {
        copy: 2.0 * large as f64 / copy,
        cached_stream: 4.0 * reads / read(&mut cached, false)?,
        cached_scattered: 32.0 * reads / read(&mut cached, true)?,
        scattered: 32.0 * reads / read(&mut from, true)?,
    })
}

/// The filled pattern by the CPU path, and its samples on one core.
///
/// # Errors
///
/// Those of the phase.
pub fn on_cpu(
    pattern: &CompressedPattern,
    samples: usize,
) -> Result<(Samples, FilledPattern), SymbolicError> {
    let (mut runs, mut last) = (Vec::new(), None);
    for _ in 0..samples.max(1) {
        // Freeing the last result is not timed.
        drop(last.take());
        let start = Instant::now();
        let filled = luge_symbolic::cpu::filled_pattern(pattern)?;
        runs.push((start.elapsed().as_secs_f64(), ()));
        last = Some(filled);
    }
    let filled = last.unwrap_or_else(|| unreachable!("there is a sample"));
    Ok((median(runs).2, filled))
}

/// The automatic mode.
///
/// # Errors
///
/// Those of the phase.
pub fn by_panels(
    stream: &Stream,
    pattern: &CompressedPattern,
    expected: &FilledPattern,
    effort: Effort,
) -> Result<Panels, SymbolicError> {
    let (mut runs, mut equal) = (Vec::new(), true);
    for sample in 0..effort.samples + 2 {
        let start = Instant::now();
        let (filled, report) = panels(stream, pattern, &PanelOptions::default())?;
        stream.synchronize()?;
        let seconds = start.elapsed().as_secs_f64() - report.seconds.columns;
        if sample < effort.repetitions {
            equal &= filled.download(stream)? == *expected;
        }
        // The first calls are not counted.
        if sample >= 2 {
            runs.push((seconds, report));
        }
    }
    let (seconds, report, samples) = median(runs);
    Ok(Panels {
        seconds,
        samples,
        report,
        equal,
    })
}

/// A mode of the traversal. Its name is the same on the command line, in tables and in raw results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Two stages.
    Two,
    /// One walk where there is room for its entries.
    Fused,
    /// The one of the two that suits the budget.
    Auto,
    /// A thread a row, for comparison.
    Coarse,
}

impl Mode {
    /// What the traversal is asked for.
    fn options(self) -> Fill2Options {
        let (stages, parallelism) = match self {
            Self::Two => (Stages::Two, Parallelism::Fine),
            Self::Fused => (Stages::Fused, Parallelism::Fine),
            Self::Auto => (Stages::Auto, Parallelism::Fine),
            Self::Coarse => (Stages::Two, Parallelism::Coarse),
        };
        Fill2Options {
            stages,
            parallelism,
            ..Fill2Options::default()
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A way to walk.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    /// The mode.
    pub mode: Mode,
    /// Bytes; `None`: the smallest that works.
    pub budget_bytes: Option<u64>,
}

/// The traversal. `None` if the budget is too small.
///
/// # Errors
///
/// Those of the phase.
pub fn by_fill2(
    stream: &Stream,
    pattern: &CompressedPattern,
    expected: &FilledPattern,
    walk: Walk,
    effort: Effort,
) -> Result<Option<Fill2>, SymbolicError> {
    let mut options = walk.mode.options();
    let budget_bytes = match walk.budget_bytes {
        Some(bytes) => bytes,
        None => smallest_budget(pattern, &options),
    };
    options.budget_bytes = Some(budget_bytes);
    let (mut runs, mut equal) = (Vec::<(f64, Fill2Report)>::new(), true);
    for repetition in 0..=effort.repetitions {
        let start = Instant::now();
        let (filled, report) = match fill2(stream, pattern, &options) {
            Err(SymbolicError::OutOfMemory { .. }) => return Ok(None),
            done => done?,
        };
        stream.synchronize()?;
        let all = start.elapsed().as_secs_f64();
        equal &= filled.download(stream)? == *expected;
        let is_long = all > effort.long;
        // The first call is not counted, unless it stays the only one.
        if repetition > 0 || is_long {
            runs.push((all - report.seconds.columns, report));
        }
        if is_long {
            break;
        }
    }
    let (seconds, report, samples) = median(runs);
    let walked = report.seconds.count + report.seconds.positions;
    Ok(Some(Fill2 {
        mode: walk.mode,
        budget_bytes,
        smallest: walk.budget_bytes.is_none(),
        seconds,
        samples,
        edges_per_second: report.traversed_edges as f64 / walked,
        report,
        equal,
    }))
}

/// Supernodes of the filled pattern.
///
/// # Errors
///
/// Those of the phases.
pub fn supernodes(
    stream: &Stream,
    expected: &FilledPattern,
    effort: Effort,
) -> anyhow::Result<Supernodes> {
    let filled = DeviceFilled::upload(stream, expected)?;
    let options = supernode::Options::default();
    let definition = supernode::cpu::supernodes(expected, &options);
    let (mut runs, mut equal) = (Vec::new(), true);
    for sample in 0..effort.samples + 2 {
        stream.synchronize()?;
        let start = Instant::now();
        let found = supernode::gpu::supernodes(stream, &filled, &options)?;
        stream.synchronize()?;
        let seconds = start.elapsed().as_secs_f64();
        if sample < effort.repetitions {
            equal &= found.download(stream)? == definition;
        }
        if sample >= 2 {
            runs.push((seconds, ()));
        }
    }
    Ok(Supernodes {
        number: definition.len(),
        samples: median(runs).2,
        equal,
    })
}
