//! The phase as a caller wants it: some way that fits the budget.

use luge_device::Stream;
use luge_gpu_kernels::symbolic::panels::MAX_ORDER;
use luge_sparse::{CancelFlag, CompressedPattern};
use serde::Serialize;

use super::fill2::{Fill2Options, Fill2Report, fill2_on};
use super::filled::DeviceFilled;
use super::panels::{PanelOptions, PanelReport, panels};
use crate::error::SymbolicError;

/// How the device finds the filled pattern. The pattern does not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// [`Mode::Panels`], unless the budget is too small for it or the order is not below 2³¹.
    #[default]
    Auto,
    /// Structures merged panel by panel up the elimination forest: work near the size of the result.
    Panels,
    /// A traversal of B from every row (gSoFa): work by the size of what each row can reach, in any memory.
    Fill2,
}

/// What a caller may set for [`filled_pattern`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How the pattern is found.
    pub mode: Mode,
    /// Most bytes of device memory beside B and the result; `None`: what the mode takes by itself.
    pub budget_bytes: Option<u64>,
    /// How [`Mode::Fill2`] walks. Budget and cancel flag are those beside this.
    pub fill2: Fill2Options,
    /// Stops the phase between its steps when raised.
    pub cancel: CancelFlag,
}

/// What [`filled_pattern`] did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// By [`panels`].
    Panels(PanelReport),
    /// By [`fill2_on`].
    Fill2(Fill2Report),
}

/// As [`filled_pattern_on`], on one device.
///
/// # Errors
///
/// As there.
///
/// # Panics
///
/// As there.
#[track_caller]
pub fn filled_pattern(
    stream: &Stream,
    pattern: &CompressedPattern,
    options: &Options,
) -> Result<(DeviceFilled, Report), SymbolicError> {
    filled_pattern_on(std::slice::from_ref(stream), pattern, options)
}

/// Computes the filled pattern of the square CSR `pattern` on the device of the first of `streams`; by [`Mode::Fill2`], the
/// devices of all streams share the work.
///
/// # Errors
///
/// [`SymbolicError::OutOfMemory`] if the budget is too small for the mode, for [`Mode::Auto`] the smallest one
/// that [`fill2_on`] works with; [`SymbolicError::Cancelled`]; [`SymbolicError::Device`].
///
/// # Panics
///
/// If `pattern` is not square, or there is no stream; in [`Mode::Panels`], if its order is not below 2³¹.
#[track_caller]
pub fn filled_pattern_on(
    streams: &[Stream],
    pattern: &CompressedPattern,
    options: &Options,
) -> Result<(DeviceFilled, Report), SymbolicError> {
    let by_panels = || {
        let options = PanelOptions {
            budget_bytes: options.budget_bytes,
            cancel: options.cancel.clone(),
            ..PanelOptions::default()
        };
        panels(&streams[0], pattern, &options)
            .map(|(filled, report)| (filled, Report::Panels(report)))
    };
    let by_fill2 = || {
        let options = Fill2Options {
            budget_bytes: options.budget_bytes,
            cancel: options.cancel.clone(),
            ..options.fill2.clone()
        };
        fill2_on(streams, pattern, &options).map(|(filled, report)| (filled, Report::Fill2(report)))
    };
    match options.mode {
        Mode::Panels => by_panels(),
        Mode::Fill2 => by_fill2(),
        Mode::Auto if pattern.major_dim() >= MAX_ORDER => by_fill2(),
        Mode::Auto => match by_panels() {
            Err(SymbolicError::OutOfMemory {
                asked, available, ..
            }) => {
                tracing::debug!(asked, available, "no room for panels");
                by_fill2()
            }
            done => done,
        },
    }
}
